/*
 * attention_backward_cpu: the gradients of one (image, head), or of one (window, head), gathered
 * into dense rows (backward.h has the formulas).
 *
 * A query at a time: dP = v dy first, whole; then one walk over the keys gives the query's share of
 * dk and dv and all of dq. q, k, v and the three gradients of a head (197 x 64: 50 KB each) stay in
 * L2, a query's own rows in L1. Rows are padded with zeros to whole vectors, so no end is special.
 */
#include "kernels/simd.h"
#include "kernels/simd_kernels.h"

int SIMD(attention_backward_pitch)(int dim) {
    return (dim + VL - 1) / VL * VL;
}

SIMD_INLINE float dot(const float *a, const float *b, int n) {
    vf sum = vf_splat(0.0f);
    for (int i = 0; i < n; i += VL)
        sum = vf_fma(vf_load(a + i), vf_load(b + i), sum);
    return vf_sum(sum);
}

/* dP of query i into out (tk); returns the sum over keys of P dP. */
static float probability_gradients(const struct attention_backward_task *t, int i, float *out) {
    const float *p = t->probs + (size_t)i * t->probs_pitch; // (tk)
    const float *dy = t->dy + (size_t)i * (size_t)t->pitch; // (D)
    float sum = 0;
    for (int j = 0; j < t->tk; j++) {
        out[j] = dot(dy, t->v + (size_t)j * (size_t)t->pitch, t->pitch);
        sum += p[j] * out[j];
    }
    return sum;
}

void SIMD(attention_backward)(const struct attention_backward_task *t) {
    const size_t pitch = (size_t)t->pitch;
    for (int i = 0; i < t->tq; i++) {
        const float *p = t->probs + (size_t)i * t->probs_pitch; // (tk)
        float *dp = t->dprobs + (size_t)i * t->dprobs_pitch;    // (tk)
        const float *q = t->q + (size_t)i * pitch, *dy = t->dy + (size_t)i * pitch;
        float *dq = t->dq + (size_t)i * pitch;
        const float mean = probability_gradients(t, i, dp);
        memset(dq, 0, pitch * sizeof *dq);
        for (int j = 0; j < t->tk; j++) {
            const float *k = t->k + (size_t)j * pitch; // (D), as dk and dv below
            float *dk = t->dk + (size_t)j * pitch, *dv = t->dv + (size_t)j * pitch;
            const vf prob = vf_splat(p[j]), ds = vf_splat(t->scale * p[j] * (dp[j] - mean));
            for (size_t c = 0; c < pitch; c += VL) {
                vf_store(dq + c, vf_fma(ds, vf_load(k + c), vf_load(dq + c)));
                vf_store(dk + c, vf_fma(ds, vf_load(q + c), vf_load(dk + c)));
                vf_store(dv + c, vf_fma(prob, vf_load(dy + c), vf_load(dv + c)));
            }
        }
    }
}
