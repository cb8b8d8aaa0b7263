/*
 * resize_kernels: the two inner loops of resize.c, plain and AVX2, which give the same bits.
 *
 * A weight is a 22-bit fixed-point number k. The plain loops multiply it whole; the AVX2 loops
 * multiply its halves k = hi*2^12 + lo by 8-bit pixels in 16-bit lanes (pmaddwd) and add them up:
 * sum(p*k) = (sum(p*hi) << 12) + sum(p*lo), the same 32 bits.
 */
#ifndef DATASETS_RESIZE_KERNELS_H
#define DATASETS_RESIZE_KERNELS_H

#include "kernels/base.h"

#define WEIGHT_BITS     22 /* Pillow's PRECISION_BITS: 32 - 8 bits of pixel - 2 of headroom */
#define WEIGHT_LOW_BITS 12 /* bits of k in its lower half */

/* The taps of `count` outputs: output i = sum over j < taps[i] of in[first[i] + j] * k[i][j]. */
struct weights {
    int count;
    int pitch;   /* room for one output's taps, a multiple of 4 */
    int *first;  /* (count) */
    int *taps;   /* (count) */
    int32_t *k;  /* (count, pitch), zero behind the taps */
    int16_t *hi; /* (count, pitch) */
    int16_t *lo; /* (count, pitch) */
};

struct resize_kernels {
    const char *name;
    int overread; /* bytes behind the last tap that `across` may read */
    /* dst (count, 3) = one row of src (any, 3) filtered along x. */
    void (*across)(const uint8_t *src, uint8_t *dst, const struct weights *weights);
    /* dst (bytes) = rows src, src + stride, ... filtered along y by the weights' output 0. */
    void (*down)(const uint8_t *src, size_t stride, uint8_t *dst, size_t bytes,
                 const struct weights *weights);
};

extern const struct resize_kernels resize_plain;

/* NULL where the compiler or the processor has no AVX2. */
const struct resize_kernels *resize_avx2(void);

/* Sum of products with 22 fraction bits -> rounded, clamped pixel. Unsigned so that it may wrap. */
static inline uint8_t weight_round(uint32_t sum) {
    int32_t value = (int32_t)(sum + (1u << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

#endif
