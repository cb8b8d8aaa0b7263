/*
 * layernorm_cpu: y = (x - mean) / sqrt(variance + eps) * weight + bias, run by run.
 *
 * `runs` consecutive groups of `width` floats, each normalised by itself: one run of C channels
 * for a block's norm, H runs of D for query/key norms. Statistics in two fp32 passes (mean, then
 * squared deviations), four vectors of partial sums added in a fixed order. RMSNorm leaves the
 * mean out. A run of ViT-B (768) stays in L1 for all three passes. Called by op_layernorm of
 * cpu.c.
 */
#include <math.h>

#include "kernels/simd.h"
#include "kernels/simd_kernels.h"

/* Sum of (x - mean)^2, or of x when `squares` is false, over n floats. */
SIMD_INLINE float sum_run(const float *x, int n, bool squares, vf mean) {
    vf sum[4] = {vf_splat(0.0f), vf_splat(0.0f), vf_splat(0.0f), vf_splat(0.0f)};
    int i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        SIMD_UNROLL for (int j = 0; j < 4; j++) {
            vf d = vf_load(x + i + j * VL);
            if (squares) d -= mean;
            sum[j] = squares ? vf_fma(d, d, sum[j]) : sum[j] + d;
        }
    }
    for (; i + VL <= n; i += VL) {
        vf d = vf_load(x + i);
        if (squares) d -= mean;
        sum[0] = squares ? vf_fma(d, d, sum[0]) : sum[0] + d;
    }
    if (i < n) {
        vf d = vf_load_n(x + i, n - i);
        if (squares) d = vf_select(vi_first(n - i), d - mean, vf_splat(0.0f));
        sum[1] = squares ? vf_fma(d, d, sum[1]) : sum[1] + d;
    }
    return vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* VL normalised floats; weight, bias and residual may be NULL, `n` lanes of them are read. */
SIMD_INLINE vf normalised(vf x, vf mean, vf scale, const float *weight, const float *bias,
                          const float *residual, int n) {
    vf y = (x - mean) * scale;
    vf w = weight == NULL ? vf_splat(1.0f) : n == VL ? vf_load(weight) : vf_load_n(weight, n);
    vf b = bias == NULL ? vf_splat(0.0f) : n == VL ? vf_load(bias) : vf_load_n(bias, n);
    y = vf_fma(y, w, b);
    if (residual != NULL) y += n == VL ? vf_load(residual) : vf_load_n(residual, n);
    return y;
}

void SIMD(layernorm)(const float *x, const float *weight, const float *bias, const float *residual,
                     float *y, int width, int runs, float eps, bool rms) {
    for (int run = 0; run < runs; run++, x += width, y += width) {
        float mean = rms ? 0.0f : sum_run(x, width, false, vf_splat(0.0f)) / (float)width;
        float variance = sum_run(x, width, true, vf_splat(mean)) / (float)width;
        vf scale = vf_splat(1.0f / sqrtf(variance + eps)), shift = vf_splat(mean);
        int i = 0;
        for (; i + VL <= width; i += VL)
            vf_store(y + i, normalised(vf_load(x + i), shift, scale, weight ? weight + i : NULL,
                                       bias ? bias + i : NULL, residual ? residual + i : NULL, VL));
        if (i < width) {
            int n = width - i;
            vf_store_n(y + i,
                       normalised(vf_load_n(x + i, n), shift, scale, weight ? weight + i : NULL,
                                  bias ? bias + i : NULL, residual ? residual + i : NULL, n),
                       n);
        }
        if (residual != NULL) residual += width;
    }
}
