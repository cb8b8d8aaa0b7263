/*
 * simd_kernels: the functions compiled once per feature level, as cpu_kernels.c collects them.
 *
 * Included by the files of SIMD_SRCS alone; what each function does stands at its member of
 * struct cpu_kernels (cpu.h).
 */
#ifndef KERNELS_SIMD_KERNELS_H
#define KERNELS_SIMD_KERNELS_H

#include "kernels/cpu.h"

/* attention_cpu.c */
size_t SIMD(attention_scratch)(const struct attention *desc, int tq, int tk);
int SIMD(attention_rows)(const struct attention *desc, int tq, int tk);
void SIMD(attention_bias)(const struct attention *desc, const float *table, int row, int rows,
                          int key, int keys, float *out);
void SIMD(attention)(const struct attention_task *task);

/* attention_backward_cpu.c */
int SIMD(attention_backward_pitch)(int dim);
void SIMD(attention_backward)(const struct attention_backward_task *task);

/* layernorm_cpu.c */
void SIMD(layernorm)(const float *x, const float *weight, const float *bias, const float *residual,
                     float *y, int width, int runs, float eps, bool rms);

/* activation_cpu.c */
void SIMD(activate)(enum epilogue epilogue, float *x, size_t n);
void SIMD(swiglu)(const float *a, const float *b, float *y, size_t n);
void SIMD(add)(const float *a, const float *b, float *y, size_t n);

/* gemm_cpu.c */
size_t SIMD(gemm_pack_size)(int k, int n);
void SIMD(gemm_pack)(const float *weight, int k, int n, float *panels);
void SIMD(gemm)(const struct gemm_task *task);

/* peak_cpu.c: multiply-adds without memory; returns the operations done */
double SIMD(peak)(long rounds, float *sink);

extern const struct cpu_kernels SIMD(cpu_kernels);

#endif
