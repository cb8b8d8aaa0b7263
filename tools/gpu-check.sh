#!/bin/sh
# gpu-check.sh: what only a machine with an NVIDIA GPU can show, in under 8 minutes and one text file.
#   builds for this GPU's architecture, then: every op and the golden models against the CPU backend in fp32, fp16 and
#   bf16; linears and models in int8, and ViT-B's linears timed in fp16 and int8; some of it under compute-sanitizer
#   where it is installed; ViT-B, ViT-L, Swin-T, Swin-B with random weights: logits against the CPU, images/s at batch 1
#   and 64; attention over 577 and 1025 tokens and the patch embedding by the own kernels and by each of cuDNN's plans:
#   times, and whether the chosen one computes the same.
# Environment: BUILD (build), NVCC, OUT (where gpu-check.txt goes, .), WORK (model files, a fresh folder in /tmp),
# SKIP_BUILD=1 (BUILD holds gpu_check and libvitrine_cuda.so already).
# Without a GPU: says what it needs, exit 0. Exit 1: a step failed; every step says so in the file.
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
report=${OUT:-.}/gpu-check.txt
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
device=${DEVICE:-cuda}

if ! nvidia-smi -L >/dev/null 2>&1; then
    echo "gpu-check: no GPU answers here (nvidia-smi -L). It needs an NVIDIA GPU of sm_75 or newer with its driver,"
    echo "nvcc of CUDA 13 with cuBLASLt, and what 'make' needs; compute-sanitizer is used when it is there. Nothing was run."
    exit 0
fi

work=${WORK:-$(mktemp -d)}
failed=0
began=$(date +%s)
: >"$report" || exit 1

say() { printf '%s\n' "$*" | tee -a "$report"; }

# step NAME SECONDS COMMAND...: its output, then one line on how it ended.
step() {
    name=$1 limit=$2
    shift 2
    say "---- $name"
    start=$(date +%s)
    timeout "$limit" "$@" >"$work/step.txt" 2>&1
    code=$?
    tail -c 60000 "$work/step.txt" | tee -a "$report"
    took=$(($(date +%s) - start))
    case $code in
    0) say "==== $name: passed, $took s" ;;
    124) say "==== $name: NOT FINISHED in $limit s"; failed=1 ;;
    *) say "==== $name: FAILED with exit status $code, $took s"; failed=1 ;;
    esac
    return $code
}

say "gpu-check of $(git rev-parse --short HEAD 2>/dev/null || echo 'an unknown version')$(git diff --quiet HEAD 2>/dev/null || echo ', changed'), $(date -u +%Y-%m-%d)"
nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,clocks.max.sm,power.limit --format=csv | tee -a "$report"
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. ')

if [ "${SKIP_BUILD:-0}" != 1 ]; then
    if ! command -v "$nvcc" >/dev/null 2>&1; then
        say "no nvcc ($nvcc): nothing was built or run; NVCC=... names it"
        exit 1
    fi
    step "build for sm_$arch" 150 make -j"$(nproc)" BUILD="$build" NVCC="$nvcc" CUDA_ARCHS="$arch" \
        "$build/vitrine" "$build/gpu_check" cuda || exit 1
fi

step "ops against the CPU" 60 "$build/gpu_check" "$device" ops
step "golden models against the CPU" 60 "$build/gpu_check" "$device" models
step "int8 against the CPU, and its time beside fp16's" 60 "$build/gpu_check" "$device" int8 "$work"

if command -v compute-sanitizer >/dev/null 2>&1; then
    for tool in memcheck racecheck synccheck initcheck; do
        step "compute-sanitizer $tool" 20 compute-sanitizer --tool $tool --error-exitcode 9 \
            "$build/gpu_check" "$device" models vit_token swin_v1_padded
    done
else
    say "---- compute-sanitizer: not installed, not run"
fi

step "speed" 120 "$build/gpu_check" "$device" bench "$work" \
    vit_base_patch16_224 swin_tiny_patch4_window7_224 swin_base_patch4_window7_224 vit_large_patch16_224

step "own kernels and cuDNN" 90 "$build/gpu_check" "$device" cudnn "$(cd "$work" && pwd)/cache"

[ -n "${WORK:-}" ] || rm -rf "$work"
say "$(($(date +%s) - began)) s in all; $([ $failed = 0 ] && echo 'every step passed' || echo 'SOME STEP FAILED'); written to $report"
exit $failed
