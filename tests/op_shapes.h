/*
 * op_shapes: the shapes that op tests share, for the CPU and for CUDA, and how they compare.
 */
#ifndef TESTS_OP_SHAPES_H
#define TESTS_OP_SHAPES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct op_shape {
    int rows, in, out; /* M, K, N */
    const char *why;
};

static const struct op_shape op_shapes[] = {
    {1, 1, 1, "the least there is"},
    {1, 768, 1000, "a head on a class token"},
    {49, 96, 288, "a window's tokens, Swin's first width"},
    {65, 128, 384, "the embedded models"},
    {13, 31, 47, "odd primes, tails everywhere"},
    {7, 67, 131, "odd primes, more columns than rows"},
    {197, 192, 64, "rows that no tile divides"},
    {5, 2053, 19, "more than one block of K, odd"},
    {29, 3072, 128, "the second product of an MLP"},
    {197, 768, 768, "ViT-B"},
};
#define OP_SHAPE_COUNT (sizeof op_shapes / sizeof op_shapes[0])

/* Uniform in -1..1, the same for the same seed on every machine. */
static inline float op_random(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((int32_t)(*seed >> 32)) / 2147483648.0f;
}

static inline void op_fill(float *values, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++)
        values[i] = op_random(&seed);
}

/*
 * Whether got[i] is within tolerance * scale[i] of want[i] for every i, no NaN; prints the worst if
 * not, or always if VERBOSE_CHECKS is defined.
 */
static inline bool op_close(const char *name, const float *got, const double *want,
                            const double *scale, size_t n, double tolerance) {
    double worst = -1, absolute = 0;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - want[i]);
        double relative = error / scale[i];
        if (!(relative <= worst)) { /* a NaN is the worst */
            worst = relative;
            at = i;
        }
        if (!(error <= absolute)) absolute = error;
        if (isnan(worst)) break;
    }
#if !defined(VERBOSE_CHECKS)
    if (worst <= tolerance) return true;
#endif
    printf("%s: max abs %.3g, max rel %.3g, tolerance %.3g, worst at %zu of %zu: %.9g, want %.9g\n",
           name, absolute, worst, tolerance, at, n, n ? (double)got[at] : 0, n ? want[at] : 0);
    return worst <= tolerance;
}

#endif
