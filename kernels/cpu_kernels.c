/*
 * cpu_kernels: one feature level's kernels in one table. Compiled per level (cpu.h).
 */
#include "kernels/simd.h"
#include "kernels/simd_kernels.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const struct cpu_kernels SIMD(cpu_kernels) = {
    .level = TEXT(SIMD_LEVEL),
    .attention_scratch = SIMD(attention_scratch),
    .attention_rows = SIMD(attention_rows),
    .attention_bias = SIMD(attention_bias),
    .attention = SIMD(attention),
    .attention_backward_pitch = SIMD(attention_backward_pitch),
    .attention_backward = SIMD(attention_backward),
    .layernorm = SIMD(layernorm),
    .activate = SIMD(activate),
    .swiglu = SIMD(swiglu),
    .add = SIMD(add),
    .gemm_column_step = GEMM_COLUMN_STEP,
    .gemm_pack_size = SIMD(gemm_pack_size),
    .gemm_pack = SIMD(gemm_pack),
    .gemm = SIMD(gemm),
    .peak = SIMD(peak),
};
