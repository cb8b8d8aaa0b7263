# vitrine: build, test, install. `make help` lists the targets and switches.

VERSION := 0.1.0
CC      ?= cc
CXX     ?= c++
NVCC    ?= $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
AR      ?= ar
PREFIX  ?= /usr/local
SAN     ?=
WERROR  ?= 0
NATIVE  ?= 0
CUDA    ?= 1
BUILD   ?= build$(if $(SAN),/$(subst $(comma),-,$(SAN)))
JOBS    ?= $(shell nproc 2>/dev/null || echo 2)
comma   := ,

.DEFAULT_GOAL := all

# ---- what is there -------------------------------------------------------------------------------
# pkg-config where the library has a .pc file, else one compile of its header.

pkg     = $(shell pkg-config --exists $(1) 2>/dev/null && echo 1 || echo 0)
header  = $(shell printf '\#include <stdio.h>\n\#include <$(1)>\n' | $(CC) $(2) -E -x c - >/dev/null 2>&1 && echo 1 || echo 0)

HAVE_HDF5   := $(call pkg,hdf5)
HAVE_CJSON  := $(call pkg,libcjson)
HAVE_CRYPTO := $(call pkg,libcrypto)
HAVE_ONEDNN := $(call header,dnnl.h)
HAVE_JPEG   := $(call pkg,libjpeg)
HAVE_STB    := $(call header,stb/stb_image.h)
HAVE_WEBP   := $(call pkg,libwebp)
HAVE_TIFF   := $(call pkg,libtiff-4)
HAVE_HEIF   := $(call pkg,libheif)
HAVE_ARCHIVE := $(call pkg,libarchive)
HAVE_CURL   := $(call pkg,libcurl)
HAVE_CMOCKA := $(call pkg,cmocka)
HAVE_MPI    := $(call pkg,ompi-c)
HAVE_CXX    := $(shell command -v $(firstword $(CXX)) >/dev/null 2>&1 && echo 1 || echo 0)
HAVE_NVCC   := $(if $(filter 0,$(CUDA)),0,$(shell command -v "$(NVCC)" >/dev/null 2>&1 && echo 1 || echo 0))
# cuDNN's headers, beside nvcc's; its library is opened at run time.
CUDA_HOME   ?= $(patsubst %/bin/nvcc,%,$(filter %/bin/nvcc,$(NVCC)))
HAVE_CUDNN  := $(if $(filter 11,$(HAVE_CXX)$(HAVE_NVCC)),$(call header,cudnn_graph.h,$(CUDA_HOME:%=-I%/include)),0)

PKGS := $(if $(filter 1,$(HAVE_HDF5)),hdf5) $(if $(filter 1,$(HAVE_CJSON)),libcjson) \
        $(if $(filter 1,$(HAVE_CRYPTO)),libcrypto) $(if $(filter 1,$(HAVE_JPEG)),libjpeg) \
        $(if $(filter 1,$(HAVE_WEBP)),libwebp) $(if $(filter 1,$(HAVE_TIFF)),libtiff-4) \
        $(if $(filter 1,$(HAVE_HEIF)),libheif) $(if $(filter 1,$(HAVE_ARCHIVE)),libarchive) \
        $(if $(filter 1,$(HAVE_CURL)),libcurl)
LIB_CFLAGS := $(if $(strip $(PKGS)),$(patsubst -I%,-isystem%,$(shell pkg-config --cflags $(PKGS) 2>/dev/null)))
LIBS       := $(if $(strip $(PKGS)),$(shell pkg-config --libs $(PKGS) 2>/dev/null)) -lz \
              $(if $(filter 1,$(HAVE_ONEDNN)),-ldnnl -lgomp) -lpthread -ldl -lm

# ---- flags ---------------------------------------------------------------------------------------

WARN     := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes \
            $(if $(filter 1,$(WERROR)),-Werror)
CPPFLAGS += -I. -D_POSIX_C_SOURCE=200809L -DVERSION='"$(VERSION)"' \
            $(foreach have,ONEDNN JPEG STB WEBP TIFF HEIF ARCHIVE CURL CXX CUDNN,-DHAVE_$(have)=$(HAVE_$(have)))
CFLAGS   ?= -O3 -g
ALL_CFLAGS := -std=c11 $(CFLAGS) $(WARN) $(if $(filter 1,$(NATIVE)),-march=native) \
              $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined) $(LIB_CFLAGS)
LDFLAGS  += $(if $(SAN),-fsanitize=$(SAN))

# ---- sources -------------------------------------------------------------------------------------

# Kernels written over simd.h: compiled once per feature level (kernels/cpu.h).
SIMD_SRCS := kernels/attention_cpu.c kernels/attention_backward_cpu.c kernels/layernorm_cpu.c kernels/activation_cpu.c \
             kernels/gemm_cpu.c kernels/peak_cpu.c kernels/cpu_kernels.c
X86       := $(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null))
LEVELS    := base $(if $(X86),avx2 avx512)
FLAGS_base   :=
FLAGS_avx2   := -mavx2 -mfma
FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mprefer-vector-width=512
# The 16-lane source on a machine without AVX-512: tests only.
FLAGS_wide   := -DSIMD_WIDTH=16 -Wno-psabi $(if $(X86),-mavx2 -mfma)

SRCS      := $(filter-out $(SIMD_SRCS) tools/main.c tools/ranks_mpi.c,$(wildcard kernels/*.c weights/*.c weights/models/*.c \
             datasets/*.c vit/*.c swin/*.c tools/*.c))
OBJS      := $(SRCS:%.c=$(BUILD)/%.o) \
             $(foreach level,$(LEVELS),$(SIMD_SRCS:%.c=$(BUILD)/%.$(level).o))
WIDE_OBJS := $(SIMD_SRCS:%.c=$(BUILD)/%.wide.o)
LIBRARY   := $(BUILD)/libvitrine.a
BINARY    := $(BUILD)/vitrine
TESTS     := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c))
# CUDA kernels for the simulator (tests/simt.h); without a C++ compiler their tests skip.
SIMT_OBJS := $(if $(filter 1,$(HAVE_CXX)),$(patsubst %,$(BUILD)/%.simt.o,$(wildcard kernels/*.cu tests/simt*.cu tests/simt*.cc tests/fake_cuda*.cc)))
# cuDNN's graphs over its real headers, for their test.
DNN_OBJS  := $(if $(filter 1,$(HAVE_CUDNN)),$(patsubst %.cu,$(BUILD)/%.host.o,$(wildcard kernels/cuda_dnn*.cu)))
# Padding of a kernel's arguments must not look like addresses (tests/fake_cuda.h).
SIMT_INIT := $(shell echo | $(CXX) -ftrivial-auto-var-init=pattern -x c++ -fsyntax-only - 2>/dev/null && echo -ftrivial-auto-var-init=pattern)
# The CUDA backend, opened at run time: for the GPUs that are here, else for all.
CUDA_ARCHS ?= $(or $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | sort -u),75 80 86 89 90 100 120)
CUDA_OBJS  := $(patsubst %.cu,$(BUILD)/%.cuda.o,$(wildcard kernels/*.cu))
CUDA_LIB   := $(BUILD)/libvitrine_cuda.so
MPI_CFLAGS := $(if $(filter 1,$(HAVE_MPI)),$(patsubst -I%,-isystem%,$(shell pkg-config --cflags ompi-c)))
MPI_LIB    := $(if $(filter 1,$(HAVE_MPI)),$(BUILD)/libvitrine_mpi.so)
NVCC_FLAGS := -std=c++17 -O3 -Xptxas -v -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
              $(foreach arch,$(CUDA_ARCHS),-gencode arch=compute_$(arch),code=sm_$(arch)) \
              $(if $(filter 100,$(CUDA_ARCHS)),-gencode arch=compute_100$(comma)code=compute_100)
FUZZERS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz_*.c))
MODELS    := $(wildcard weights/models/*.h5)

# ---- targets -------------------------------------------------------------------------------------

.PHONY: FORCE all deps demo test tests test-run cuda gpu-check test-cuda cubins bench asan fuzz fuzz-guided lint format install clean help report

## all: the binary, build/vitrine, and where nvcc is found the CUDA backend beside it
all: report $(BINARY) $(MPI_LIB) $(if $(SAN),,$(if $(filter 1,$(HAVE_NVCC)),$(CUDA_LIB)))

report:
	@sh tools/capabilities.sh \
	  "HDF5=$(HAVE_HDF5)=libhdf5-dev=required: model files" \
	  "cJSON=$(HAVE_CJSON)=libcjson-dev=required: checkpoints" \
	  "libcrypto=$(HAVE_CRYPTO)=libssl-dev=required: checksums" \
	  "oneDNN=$(HAVE_ONEDNN)=libdnnl-dev=faster linear layers on AVX-512" \
	  "libjpeg-turbo=$(HAVE_JPEG)=libjpeg62-turbo-dev=JPEG exactly as Pillow decodes it" \
	  "stb_image=$(HAVE_STB)=libstb-dev=PNG, PSD, TGA" \
	  "WebP=$(HAVE_WEBP)=libwebp-dev=WebP" \
	  "TIFF=$(HAVE_TIFF)=libtiff-dev=TIFF" \
	  "HEIF=$(HAVE_HEIF)=libheif-dev=HEIC and AVIF" \
	  "libarchive=$(HAVE_ARCHIVE)=libarchive-dev=datasets in tar and zip files" \
	  "libcurl=$(HAVE_CURL)=libcurl4-openssl-dev=downloading official models" \
	  "Open MPI=$(HAVE_MPI)=libopenmpi-dev openmpi-bin=evaluate on several machines as one run" \
	  "nvcc=$(HAVE_NVCC)=cuda-toolkit-13 (from NVIDIA)=running on NVIDIA GPUs" \
	  "cuDNN=$(HAVE_CUDNN)=libcudnn9-dev-cuda-13 (from NVIDIA)=long attention and convolutions there" \
	  "cmocka=$(HAVE_CMOCKA)=libcmocka-dev=the tests"

# A change of flags or of what was found rebuilds.
FLAG_TEXT := $(CC) $(CXX) $(SIMT_INIT) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) $(LIBS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAG_TEXT))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAG_TEXT))' > $@
$(BUILD)/flags.cuda: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(NVCC) $(NVCC_FLAGS) $(subst ','\'',$(CPPFLAGS))' | cmp -s - $@ || printf '%s\n' '$(NVCC) $(NVCC_FLAGS) $(subst ','\'',$(CPPFLAGS))' > $@
FORCE:

compile = @mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(1) -MMD -MP -c $< -o $@

$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call compile)

define level_rule
$(BUILD)/kernels/%.$(1).o: kernels/%.c $(BUILD)/flags
	$$(call compile,-DSIMD_LEVEL=$(1) $(FLAGS_$(1)) -ffp-contract=fast)
endef
$(foreach level,base avx2 avx512 wide,$(eval $(call level_rule,$(level))))

$(BUILD)/weights/models/embedded.o: $(MODELS)
$(BUILD)/tools/report.o: tools/report.html
$(BUILD)/tools/inspector.o: tools/inspector.html
# stb_image_write's JPEG shifts bits out of an int on purpose.
$(BUILD)/tools/picture.o: ALL_CFLAGS += $(if $(SAN),-fno-sanitize=shift)

$(LIBRARY): $(OBJS)
	@rm -f $@ && $(AR) rcs $@ $^

# -rdynamic: libvitrine_cuda.so takes fail(), mem_* and arena_* from the program that opens it.
$(BINARY): $(BUILD)/tools/main.o $(LIBRARY)
	@$(CC) $(ALL_CFLAGS) $(LDFLAGS) -rdynamic $^ $(LIBS) -o $@

# The message passing of `mpirun vitrine evaluate`; `vitrine` opens it when mpirun started it.
$(BUILD)/libvitrine_mpi.so: tools/ranks_mpi.c tools/ranks.h kernels/base.h $(BUILD)/flags
	@$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(MPI_CFLAGS) -fPIC -shared $< \
	  $(shell pkg-config --libs ompi-c) -o $@

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(WIDE_OBJS) $(LIBRARY)
	@$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LIBS) -lcmocka -o $@

$(BUILD)/%.simt.o: % $(BUILD)/flags
	@mkdir -p $(@D) && $(CXX) -std=c++17 -DSIMT -Itests/fake $(SIMT_INIT) $(CPPFLAGS) $(CFLAGS) -fPIC -fno-exceptions -fno-rtti -fno-strict-aliasing \
	  -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) \
	  -MMD -MP -x c++ -c $< -o $@
# Every test of the CUDA backend that runs in the simulator.
SIMT_TESTS := $(patsubst %,$(BUILD)/tests/test_%,simt attention_cuda attention_mutants rows_cuda quantise_cuda int8_cuda cuda_backend cuda_cudnn)
$(SIMT_TESTS): $(SIMT_OBJS)

# The same as the library that the program opens, so that whole commands run on "GPUs".
STANDIN := $(if $(filter 1,$(HAVE_CXX)),$(BUILD)/tests/standin/libvitrine_cuda.so)
$(STANDIN): $(SIMT_OBJS)
	@mkdir -p $(@D) && $(CC) -shared $(LDFLAGS) $^ -o $@
	@$(CC) -shared -x c /dev/null -o $(@D)/libcuda.so.1
$(BUILD)/tests/test_devices: LDFLAGS += -rdynamic -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/standin'
$(BUILD)/tests/test_devices: | $(STANDIN)

$(BUILD)/%.host.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D) && $(CXX) -std=c++17 $(CPPFLAGS) $(CUDA_HOME:%=-isystem %/include) $(CFLAGS) -fno-exceptions -fno-rtti \
	  -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer) \
	  -MMD -MP -x c++ -c $< -o $@
$(BUILD)/tests/test_cuda_dnn: $(DNN_OBJS)
$(BUILD)/tests/test_cuda_dnn: LDFLAGS += $(CUDA_HOME:%=-Wl,-rpath,%/lib64)
$(BUILD)/tests/test_cuda_dnn.o: CPPFLAGS += -DCUDA_STUBS='"$(CUDA_HOME)/lib64/stubs"'

$(BUILD)/tests/fuzz_%: tests/fuzz_%.c $(LIBRARY) $(BUILD)/flags
	@mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -DFUZZ_MAIN $(LDFLAGS) $< $(LIBRARY) $(LIBS) -o $@

## deps: installs what the build needs (Debian packages; sudo only if not root)
deps:
	@sh tools/deps.sh --test

## demo: installs, builds, classifies real photos (DEMO_IMAGES="a.jpg b.png" for your own)
demo:
	@sh tools/deps.sh --missing
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@sh tools/demo.sh $(BINARY) $(DEMO_IMAGES)

## test: installs what is missing, builds, runs every test
test:
	@sh tools/deps.sh --missing --test
	@$(MAKE) --no-print-directory -j$(JOBS) all tests
	@$(MAKE) --no-print-directory test-run

tests: $(TESTS) $(FUZZERS)

test-run:
	@BUILD=$(BUILD) sh tests/run.sh $(TESTS) $(FUZZERS) tests/cli.sh tests/pull.sh tests/evaluate.sh tests/report.sh tests/attention.sh tests/inspector.sh tests/mpi.sh tools/cubins.sh

## asan: the whole test suite under the address and undefined-behaviour sanitizers
asan:
	@$(MAKE) --no-print-directory SAN=address,undefined CFLAGS="-O1 -g" test

## fuzz: the fuzzers, longer, under the sanitizers; where clang has libFuzzer, then guided by coverage
FUZZ_SECONDS ?= 600
fuzz:
	@$(MAKE) --no-print-directory SAN=address,undefined CFLAGS="-O1 -g" -j$(JOBS) all tests
	@for f in $(FUZZERS:$(BUILD)/%=build/address-undefined/%); do FUZZ_ROUNDS=$${FUZZ_ROUNDS:-200000} $$f || exit 1; done
	@if echo 'int main(void) {}' | clang -fsanitize=fuzzer-no-link,address -x c - -o /dev/null 2>/dev/null; then \
	  $(MAKE) --no-print-directory CC=clang BUILD=build/guided SAN=fuzzer-no-link,address,undefined CFLAGS="-O1 -g" -j$(JOBS) fuzz-guided; \
	else echo "no clang with libFuzzer here: nothing is guided by coverage"; fi

# $(FUZZ_SECONDS) each, from the golden files. Not fuzz_h5: the library itself dies of some files,
# which that program forks for.
GUIDED := $(patsubst tests/%.c,$(BUILD)/%,$(filter-out %/fuzz_h5.c,$(wildcard tests/fuzz_*.c)))
$(BUILD)/fuzz_%: tests/fuzz_%.c $(LIBRARY) $(BUILD)/flags
	@$(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(SAN:fuzzer-no-link%=-fsanitize=fuzzer%) $< $(LIBRARY) $(LIBS) -o $@
fuzz-guided: $(GUIDED)
	@for f in $(GUIDED); do \
	  mkdir -p $$f.corpus && echo "== $$f" && \
	  $$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -max_len=262144 -print_final_stats=1 -verbosity=0 \
	    -artifact_prefix=$$f. $$f.corpus tests/ref tests/ref/containers || exit 1; done

# One object a file, device code for every architecture; ptxas's word on registers and spills beside it.
$(BUILD)/%.cuda.o: %.cu $(BUILD)/flags.cuda
	@mkdir -p $(@D) && $(NVCC) $(NVCC_FLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@ 2>$(@:.o=.log) || { cat $(@:.o=.log); exit 1; }
	@grep -v -e '^ptxas info' -e 'bytes stack frame' $(@:.o=.log) || true

$(CUDA_LIB): $(CUDA_OBJS)
	@$(NVCC) -shared $^ -lcublasLt -ldl $(CUDA_HOME:%=-Xlinker -rpath=%/lib64) -o $@

## cuda: the CUDA backend, build/libvitrine_cuda.so; `vitrine` opens it when it is there
cuda:
ifeq ($(HAVE_NVCC),1)
	@$(MAKE) --no-print-directory $(CUDA_LIB)
else
	@echo "no nvcc here (NVCC=... names one): the CUDA backend is not built" >&2; exit 1
endif

# What tools/gpu-check.sh runs; it lies beside the library that it opens.
$(BUILD)/gpu_check: $(BUILD)/tests/gpu_check.o $(LIBRARY)
	@$(CC) $(ALL_CFLAGS) $(LDFLAGS) -rdynamic $^ $(LIBS) -lcmocka -o $@

## gpu-check: on a machine with a GPU: every op and model against the CPU, and the speed, in one text file
gpu-check:
	@BUILD=$(BUILD) NVCC="$(NVCC)" sh tools/gpu-check.sh

## test-cuda: the tests of the CUDA kernels and backend, in the simulator and on the stand-in (no GPU)
CUDA_TESTS := $(filter %_cuda %_mutants %test_simt %test_cuda_backend %test_cuda_cudnn %test_cuda_dnn,$(TESTS))
test-cuda: $(CUDA_TESTS)
	@BUILD=$(BUILD) sh tests/run.sh $^

## cubins: every CUDA kernel's registers, shared memory and spills, for every architecture built
cubins: cuda
	@sh tools/cubins.sh $(BINARY)

## bench: the embedded model's speed beside the FMA peak of this machine
bench: all
	@$(BINARY) bench

## lint: layers, banned functions, lengths, headers alone, clang-format, clang-tidy
lint:
	@sh tools/lint.sh "$(CC)" '$(filter-out -DVERSION%,$(CPPFLAGS)) -DVERSION=__FILE__ $(LIB_CFLAGS) $(MPI_CFLAGS)'

## format: clang-format over the tree
format:
	@clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h' '*.cc' '*.cu' '*.cuh' | grep -v '^tests/ref/')

## install: the binary into PREFIX/bin, its CUDA and MPI parts into PREFIX/lib
install: all
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/vitrine
	if [ -f $(BUILD)/libvitrine_mpi.so ]; then install -D -m 755 $(BUILD)/libvitrine_mpi.so $(DESTDIR)$(PREFIX)/lib/libvitrine_mpi.so; fi
	if [ -f $(CUDA_LIB) ]; then install -D -m 755 $(CUDA_LIB) $(DESTDIR)$(PREFIX)/lib/libvitrine_cuda.so; fi

## clean: removes build/
clean:
	rm -rf build

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
	@echo "  switches: CUDA=0 WERROR=1 SAN=address,undefined NATIVE=1 CC=... CFLAGS=... PREFIX=... JOBS=..."

-include $(OBJS:.o=.d) $(WIDE_OBJS:.o=.d) $(SIMT_OBJS:.o=.d) $(DNN_OBJS:.o=.d) $(CUDA_OBJS:.o=.d) $(patsubst %,%.d,$(TESTS)) $(BUILD)/tools/main.d $(BUILD)/tests/gpu_check.d
.SECONDARY:
