# vitrine: build, test, install. `make help` lists the targets and switches.

VERSION := 0.1.0
CC      ?= cc
AR      ?= ar
PREFIX  ?= /usr/local
SAN     ?=
WERROR  ?= 0
NATIVE  ?= 0
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
HAVE_CMOCKA := $(call pkg,cmocka)

PKGS := $(if $(filter 1,$(HAVE_HDF5)),hdf5) $(if $(filter 1,$(HAVE_CJSON)),libcjson) \
        $(if $(filter 1,$(HAVE_CRYPTO)),libcrypto) $(if $(filter 1,$(HAVE_JPEG)),libjpeg) \
        $(if $(filter 1,$(HAVE_WEBP)),libwebp) $(if $(filter 1,$(HAVE_TIFF)),libtiff-4) \
        $(if $(filter 1,$(HAVE_HEIF)),libheif)
LIB_CFLAGS := $(if $(strip $(PKGS)),$(patsubst -I%,-isystem%,$(shell pkg-config --cflags $(PKGS) 2>/dev/null)))
LIBS       := $(if $(strip $(PKGS)),$(shell pkg-config --libs $(PKGS) 2>/dev/null)) -lz \
              $(if $(filter 1,$(HAVE_ONEDNN)),-ldnnl -lgomp) -lpthread -lm

# ---- flags ---------------------------------------------------------------------------------------

WARN     := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes \
            $(if $(filter 1,$(WERROR)),-Werror)
CPPFLAGS += -I. -D_POSIX_C_SOURCE=200809L -DVERSION='"$(VERSION)"' \
            $(foreach have,ONEDNN JPEG STB WEBP TIFF HEIF,-DHAVE_$(have)=$(HAVE_$(have)))
CFLAGS   ?= -O3 -g
ALL_CFLAGS := -std=c11 $(CFLAGS) $(WARN) $(if $(filter 1,$(NATIVE)),-march=native) \
              $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined) $(LIB_CFLAGS)
LDFLAGS  += $(if $(SAN),-fsanitize=$(SAN))

# ---- sources -------------------------------------------------------------------------------------

# Kernels written over simd.h: compiled once per feature level (kernels/cpu.h).
SIMD_SRCS := kernels/attention_cpu.c kernels/layernorm_cpu.c kernels/activation_cpu.c \
             kernels/gemm_cpu.c kernels/peak_cpu.c kernels/cpu_kernels.c
X86       := $(filter x86_64%,$(shell $(CC) -dumpmachine 2>/dev/null))
LEVELS    := base $(if $(X86),avx2 avx512)
FLAGS_base   :=
FLAGS_avx2   := -mavx2 -mfma
FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mprefer-vector-width=512
# The 16-lane source on a machine without AVX-512: tests only.
FLAGS_wide   := -DSIMD_WIDTH=16 -Wno-psabi $(if $(X86),-mavx2 -mfma)

SRCS      := $(filter-out $(SIMD_SRCS) tools/main.c,$(wildcard kernels/*.c weights/*.c weights/models/*.c \
             datasets/*.c vit/*.c swin/*.c tools/*.c))
OBJS      := $(SRCS:%.c=$(BUILD)/%.o) \
             $(foreach level,$(LEVELS),$(SIMD_SRCS:%.c=$(BUILD)/%.$(level).o))
WIDE_OBJS := $(SIMD_SRCS:%.c=$(BUILD)/%.wide.o)
LIBRARY   := $(BUILD)/libvitrine.a
BINARY    := $(BUILD)/vitrine
TESTS     := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/test_*.c))
FUZZERS   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz_*.c))
MODELS    := $(wildcard weights/models/*.h5)

# ---- targets -------------------------------------------------------------------------------------

.PHONY: all deps demo test tests test-run test-cuda bench asan fuzz lint format install clean help report

## all: the binary, build/vitrine
all: report $(BINARY)

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
	  "cmocka=$(HAVE_CMOCKA)=libcmocka-dev=the tests"

# A change of flags or of what was found rebuilds.
FLAG_TEXT := $(CC) $(CPPFLAGS) $(ALL_CFLAGS) $(LDFLAGS) $(LIBS)
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(subst ','\'',$(FLAG_TEXT))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAG_TEXT))' > $@
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

$(LIBRARY): $(OBJS)
	@rm -f $@ && $(AR) rcs $@ $^

$(BINARY): $(BUILD)/tools/main.o $(LIBRARY)
	@$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

$(BUILD)/tests/test_%: $(BUILD)/tests/test_%.o $(WIDE_OBJS) $(LIBRARY)
	@$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(LIBS) -lcmocka -o $@

$(BUILD)/tests/fuzz_%: tests/fuzz_%.c $(LIBRARY) $(BUILD)/flags
	@mkdir -p $(@D) && $(CC) $(CPPFLAGS) $(ALL_CFLAGS) -DFUZZ_MAIN $(LDFLAGS) $< $(LIBRARY) $(LIBS) -o $@

## deps: installs what the build needs (Debian packages; sudo only if not root)
deps:
	@sh tools/deps.sh

## demo: installs, builds, classifies real photos (DEMO_IMAGES="a.jpg b.png" for your own)
demo:
	@sh tools/deps.sh --missing
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@sh tools/demo.sh $(BINARY) $(DEMO_IMAGES)

## test: installs what is missing, builds, runs every test
test:
	@sh tools/deps.sh --missing
	@$(MAKE) --no-print-directory -j$(JOBS) all tests
	@$(MAKE) --no-print-directory test-run

tests: $(TESTS) $(FUZZERS)

test-run:
	@BUILD=$(BUILD) sh tests/run.sh $(TESTS) $(FUZZERS)

## asan: the whole test suite under the address and undefined-behaviour sanitizers
asan:
	@$(MAKE) --no-print-directory SAN=address,undefined CFLAGS="-O1 -g" test

## fuzz: the fuzzers, longer, under the sanitizers
fuzz:
	@$(MAKE) --no-print-directory SAN=address,undefined CFLAGS="-O1 -g" -j$(JOBS) all tests
	@for f in $(FUZZERS:$(BUILD)/%=build/address-undefined/%); do FUZZ_ROUNDS=$${FUZZ_ROUNDS:-200000} $$f || exit 1; done

## test-cuda: the tests of the CUDA backend (none yet: there is no CUDA backend in this version)
test-cuda:
	@echo "0 passed, 0 failed, 0 skipped: this version has no CUDA backend"

## bench: the embedded model's speed beside the FMA peak of this machine
bench: all
	@$(BINARY) bench

## lint: layers, banned functions, lengths, headers alone, clang-format, clang-tidy
lint:
	@sh tools/lint.sh "$(CC)" '$(filter-out -DVERSION%,$(CPPFLAGS)) -DVERSION=__FILE__ $(LIB_CFLAGS)'

## format: clang-format over the tree
format:
	@clang-format -i $$(git ls-files -co --exclude-standard '*.c' '*.h' | grep -v '^tests/ref/')

## install: the binary into PREFIX/bin
install: all
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/vitrine

## clean: removes build/
clean:
	rm -rf build

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): \(.*\)/  make \1\t\2/p' Makefile | expand -t 18
	@echo "  switches: WERROR=1 SAN=address,undefined NATIVE=1 CC=... CFLAGS=... PREFIX=... JOBS=..."

-include $(OBJS:.o=.d) $(WIDE_OBJS:.o=.d) $(patsubst %,%.d,$(TESTS)) $(BUILD)/tools/main.d
.SECONDARY:
