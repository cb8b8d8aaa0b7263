/*
 * simd: one float vector over the compilers' vector extensions, and its mathematics.
 *
 * Files written over this header are compiled once per feature level (cpu.h); `vf` then has VL
 * lanes: 16 with AVX-512, 8 with AVX2, 4 elsewhere (SSE2, NEON). -DSIMD_WIDTH=n overrides it, so
 * that the 16-lane code can be tested on any machine (with -Wno-psabi: all here is inlined). a*b +
 * c is one fused operation where the level has one (-ffp-contract=fast). Intrinsics appear only
 * where the compilers were seen to do badly without.
 *
 * NaN: vf_max(a, b) and vf_min(a, b) give b if either is NaN; every function below keeps a NaN a
 * NaN. Reductions run in a fixed order (halves, quarters, ...), so a sum has one value per level.
 * Polynomials: least maximum error (Lawson's iteration); their fit errors stand beside them.
 */
#ifndef KERNELS_SIMD_H
#define KERNELS_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#if defined(SIMD_WIDTH)
#define VL SIMD_WIDTH
#elif defined(__AVX512F__)
#define VL 16
#elif defined(__AVX2__)
#define VL 8
#else
#define VL 4
#endif

/* Columns of the product kernel's panels: two vectors. */
#define GEMM_COLUMN_STEP (2 * VL)

#if VL == 16 && defined(__AVX512F__)
#define SIMD_AVX512 1
#elif VL == 8 && defined(__AVX2__)
#define SIMD_AVX2 1
#endif

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef vf vf_unaligned __attribute__((aligned(4), may_alias));

#define SIMD_INLINE static inline __attribute__((always_inline, unused))

/* Lane i of a vector of indices: f(0), f(1), ... for VL lanes. */
#if VL == 16
#define SIMD_LANES(f)                                                                              \
    f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), \
        f(15)
#elif VL == 8
#define SIMD_LANES(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#elif VL == 4
#define SIMD_LANES(f) f(0), f(1), f(2), f(3)
#else
#error "VL is 4, 8 or 16"
#endif

#define SIMD_LANE(i) (i)
#define SIMD_XOR1(i) ((i) ^ 1)
#define SIMD_XOR2(i) ((i) ^ 2)
#define SIMD_XOR4(i) ((i) ^ 4)
#define SIMD_XOR8(i) ((i) ^ 8)

/* Lanes of the pair (a, b) by f(lane); a loop over registers, which must be unrolled whole. */
#if defined(__clang__)
#define SIMD_SHUFFLE(a, b, f) __builtin_shufflevector(a, b, SIMD_LANES(f))
#define SIMD_UNROLL           _Pragma("unroll")
#else
#define SIMD_SHUFFLE(a, b, f) __builtin_shuffle(a, b, (vi){SIMD_LANES(f)})
#define SIMD_UNROLL           _Pragma("GCC unroll 16")
#endif

/* ---- memory, lanes --------------------------------------------------------------------------- */

SIMD_INLINE vf vf_splat(float x) {
    return x - (vf){0}; /* not +: -0 stays -0 */
}

SIMD_INLINE vf vf_load(const float *p) {
    return *(const vf_unaligned *)p;
}

SIMD_INLINE void vf_store(float *p, vf v) {
    *(vf_unaligned *)p = v;
}

/* All bits set in the first n lanes. */
SIMD_INLINE vi vi_first(int n) {
    return (vi){SIMD_LANES(SIMD_LANE)} < n;
}

/* The first n lanes of p, 0 <= n <= VL, and zeros; nothing behind p[n-1] is touched. */
SIMD_INLINE vf vf_load_n(const float *p, int n) {
#if defined(SIMD_AVX512)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined(SIMD_AVX2)
    return (vf)_mm256_maskload_ps(p, (__m256i)vi_first(n));
#else
    float lanes[VL] = {0};
    for (int i = 0; i < n; i++)
        lanes[i] = p[i];
    return vf_load(lanes);
#endif
}

SIMD_INLINE void vf_store_n(float *p, vf v, int n) {
#if defined(SIMD_AVX512)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(SIMD_AVX2)
    _mm256_maskstore_ps(p, (__m256i)vi_first(n), (__m256)v);
#else
    float lanes[VL];
    vf_store(lanes, v);
    for (int i = 0; i < n; i++)
        p[i] = lanes[i];
#endif
}

/*
 * rows[r] lane i becomes rows[i] lane r: stage by stage, bit b of the row and of the lane change
 * places.
 */
#define SIMD_LOW(i, bit)  (((i) & (bit)) ? VL + ((i) ^ (bit)) : (i))
#define SIMD_HIGH(i, bit) (((i) & (bit)) ? VL + (i) : ((i) ^ (bit)))
#define SIMD_LOW1(i)      SIMD_LOW(i, 1)
#define SIMD_LOW2(i)      SIMD_LOW(i, 2)
#define SIMD_LOW4(i)      SIMD_LOW(i, 4)
#define SIMD_LOW8(i)      SIMD_LOW(i, 8)
#define SIMD_HIGH1(i)     SIMD_HIGH(i, 1)
#define SIMD_HIGH2(i)     SIMD_HIGH(i, 2)
#define SIMD_HIGH4(i)     SIMD_HIGH(i, 4)
#define SIMD_HIGH8(i)     SIMD_HIGH(i, 8)

#define SIMD_TRANSPOSE_STAGE(rows, bit)                                                            \
    SIMD_UNROLL for (int r_ = 0; r_ < VL; r_++) {                                                  \
        if (r_ & (bit)) continue;                                                                  \
        vf low_ = (rows)[r_], high_ = (rows)[r_ + (bit)];                                          \
        (rows)[r_] = SIMD_SHUFFLE(low_, high_, SIMD_LOW##bit);                                     \
        (rows)[r_ + (bit)] = SIMD_SHUFFLE(low_, high_, SIMD_HIGH##bit);                            \
    }

SIMD_INLINE void vf_transpose(vf rows[VL]) {
#if VL >= 16
    SIMD_TRANSPOSE_STAGE(rows, 8)
#endif
#if VL >= 8
    SIMD_TRANSPOSE_STAGE(rows, 4)
#endif
    SIMD_TRANSPOSE_STAGE(rows, 2)
    SIMD_TRANSPOSE_STAGE(rows, 1)
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* mask ? a : b per lane; the mask's lanes are all ones or all zeros. */
SIMD_INLINE vf vf_select(vi mask, vf a, vf b) {
#if defined(SIMD_AVX512)
    return (vf)_mm512_mask_mov_ps((__m512)b, _mm512_movepi32_mask((__m512i)mask), (__m512)a);
#elif defined(SIMD_AVX2)
    return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
#else
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
#endif
}

SIMD_INLINE vf vf_fma(vf a, vf b, vf c) {
    return a * b + c;
}

/* a > b ? a : b, so b if either is NaN. */
SIMD_INLINE vf vf_max(vf a, vf b) {
#if defined(SIMD_AVX512)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(SIMD_AVX2)
    return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__) && VL == 4
    return __builtin_ia32_maxps(a, b);
#else
    return vf_select(a > b, a, b);
#endif
}

/* a < b ? a : b, so b if either is NaN. */
SIMD_INLINE vf vf_min(vf a, vf b) {
#if defined(SIMD_AVX512)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(SIMD_AVX2)
    return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__) && VL == 4
    return __builtin_ia32_minps(a, b);
#else
    return vf_select(a < b, a, b);
#endif
}

SIMD_INLINE vf vf_abs(vf x) {
    return (vf)((vi)x & INT32_MAX);
}

/* |x| with the sign of s. */
SIMD_INLINE vf vf_copysign(vf x, vf s) {
    return (vf)(((vi)x & INT32_MAX) | ((vi)s & INT32_MIN));
}

/* The sum of the lanes, in every lane. */
SIMD_INLINE vf vf_sum_splat(vf v) {
#if VL >= 16
    v += SIMD_SHUFFLE(v, v, SIMD_XOR8);
#endif
#if VL >= 8
    v += SIMD_SHUFFLE(v, v, SIMD_XOR4);
#endif
    v += SIMD_SHUFFLE(v, v, SIMD_XOR2);
    v += SIMD_SHUFFLE(v, v, SIMD_XOR1);
    return v;
}

/* The greatest lane, in every lane. Which of NaN and number wins is not defined. */
SIMD_INLINE vf vf_max_splat(vf v) {
#if VL >= 16
    v = vf_max(v, SIMD_SHUFFLE(v, v, SIMD_XOR8));
#endif
#if VL >= 8
    v = vf_max(v, SIMD_SHUFFLE(v, v, SIMD_XOR4));
#endif
    v = vf_max(v, SIMD_SHUFFLE(v, v, SIMD_XOR2));
    v = vf_max(v, SIMD_SHUFFLE(v, v, SIMD_XOR1));
    return v;
}

SIMD_INLINE float vf_sum(vf v) {
    return vf_sum_splat(v)[0];
}

SIMD_INLINE float vf_greatest(vf v) {
    return vf_max_splat(v)[0];
}

/* ---- exponentials ---------------------------------------------------------------------------- */

/* 1.5 * 2^23: added to |t| < 2^22 it leaves round(t) in the low bits of the sum. */
#define SIMD_ROUND 0x1.8p23f

/* 2^n for an integer n in -127..127 held as SIMD_ROUND + n; n = -127 gives 0. */
SIMD_INLINE vf vf_pow2_rounded(vf shifted) {
    return (vf)(((vu)shifted + 127u) << 23); /* SIMD_ROUND's own bits leave at the top */
}

/* e^x / 2^n for n = round(x / ln 2), by Cody and Waite's reduction; *shifted = SIMD_ROUND + n. */
SIMD_INLINE vf vf_exp_reduced(vf x, vf *shifted) {
    *shifted = vf_fma(x, vf_splat(1.44269504f), vf_splat(SIMD_ROUND));
    vf n = *shifted - SIMD_ROUND;
    vf r = vf_fma(n, vf_splat(-0.693359375f), x); /* 10 bits of ln 2: n times it is exact */
    r = vf_fma(n, vf_splat(2.12194440e-4f), r);
    /* e^r = 1 + r + r^2 q(r) on |r| <= ln(2)/2, relative error of the fit 3.1e-9 */
    vf q = vf_splat(0x1.6a23f2p-10f);
    q = vf_fma(q, r, vf_splat(0x1.123a0ap-7f));
    q = vf_fma(q, r, vf_splat(0x1.5558f2p-5f));
    q = vf_fma(q, r, vf_splat(0x1.555492p-3f));
    q = vf_fma(q, r, vf_splat(0x1.fffffcp-2f));
    return vf_fma(vf_fma(q, r, vf_splat(1.0f)), r, vf_splat(1.0f));
}

/* e^x over the whole range: subnormal results, +inf above 88.72, 0 at -inf. Relative error 1e-7. */
SIMD_INLINE vf vf_exp(vf x) {
    vf shifted;
    vf p = vf_exp_reduced(vf_max(vf_splat(-105.0f), vf_min(vf_splat(89.0f), x)), &shifted);
    vi n = (vi)shifted - (vi)vf_splat(SIMD_ROUND);
    vi half = n >> 1; /* in two factors, as 2^n itself may be out of range */
    vf low = (vf)((vu)(half + 127) << 23);
    vf high = (vf)((vu)(n - half + 127) << 23);
    return p * low * high;
}

/* e^x for x <= 0 (true up to 88): as vf_exp, but results below 2^-126.5 become 0. */
SIMD_INLINE vf vf_exp_negative(vf x) {
    vf shifted;
    vf p = vf_exp_reduced(vf_max(vf_splat(-88.0f), x), &shifted);
    return p * vf_pow2_rounded(shifted);
}

/* 1 / (1 + e^-x) */
SIMD_INLINE vf vf_sigmoid(vf x) {
    return 1.0f / (1.0f + vf_exp(-x));
}

/* Below 0.625 an odd polynomial (fit 4e-9 relative), above it 1 - 2/(e^2x + 1). */
SIMD_INLINE vf vf_tanh(vf x) {
    vf t = vf_abs(x), s = x * x;
    vf p = vf_splat(-0x1.726e5ap-8f);
    p = vf_fma(p, s, vf_splat(0x1.514088p-6f));
    p = vf_fma(p, s, vf_splat(-0x1.b810ecp-5f));
    p = vf_fma(p, s, vf_splat(0x1.11055ep-3f));
    p = vf_fma(p, s, vf_splat(-0x1.555524p-2f));
    p = vf_fma(p * s, x, x);
    vf large = 1.0f - 2.0f / (vf_exp(2.0f * t) + 1.0f);
    return vf_select(t < 0.625f, p, vf_copysign(large, x));
}

/*
 * Below 0.92 an odd polynomial (fit 1.7e-8 relative), above it 1 - e^p(|x|) (fit 1.6e-9 absolute).
 */
SIMD_INLINE vf vf_erf(vf x) {
    vf t = vf_abs(x), s = x * x;
    vf p = vf_splat(-0x1.38b322p-11f);
    p = vf_fma(p, s, vf_splat(0x1.46e4e8p-8f));
    p = vf_fma(p, s, vf_splat(-0x1.b67cb2p-6f));
    p = vf_fma(p, s, vf_splat(0x1.ce196cp-4f));
    p = vf_fma(p, s, vf_splat(-0x1.8126e0p-2f));
    p = vf_fma(p, s, vf_splat(0x1.20dd74p+0f)) * x;
    t = vf_min(vf_splat(4.0f), t); /* erf(4) rounds to 1 */
    vf q = vf_splat(0x1.9ae902p-13f);
    q = vf_fma(q, t, vf_splat(-0x1.8ee16ep-9f));
    q = vf_fma(q, t, vf_splat(0x1.6c2a76p-6f));
    q = vf_fma(q, t, vf_splat(-0x1.a9b42ep-4f));
    q = vf_fma(q, t, vf_splat(-0x1.463cc0p-1f));
    q = vf_fma(q, t, vf_splat(-0x1.20af5ap+0f));
    q = vf_fma(q, t, vf_splat(-0x1.9a5c86p-13f));
    vf large = 1.0f - vf_exp_negative(q);
    return vf_select(t < 0.92f, p, vf_copysign(large, x));
}

/* ---- activations ----------------------------------------------------------------------------- */

/*
 * x Phi(x) = max(x, 0) - |x| Phi(-|x|), with Phi(-t) = 2^p(t). The fit keeps the absolute error of
 * the product below 9e-9 and p falls without bound past it, so that both tails end exactly in x
 * and 0 (at -inf too). Cheaper than by vf_erf, and without its cancellation at negative x.
 */
SIMD_INLINE vf vf_gelu(vf x) {
    vf t = vf_min(vf_splat(16.0f), vf_abs(x));
    vf p = vf_splat(-0x1.fe9490p-20f);
    p = vf_fma(p, t, vf_splat(0x1.d6b75cp-16f));
    p = vf_fma(p, t, vf_splat(-0x1.13b7fcp-13f));
    p = vf_fma(p, t, vf_splat(-0x1.1d4af8p-12f));
    p = vf_fma(p, t, vf_splat(0x1.dad610p-8f));
    p = vf_fma(p, t, vf_splat(-0x1.af201ap-5f));
    p = vf_fma(p, t, vf_splat(-0x1.d62e9ap-2f));
    p = vf_fma(p, t, vf_splat(-0x1.26af36p+0f));
    p = vf_max(vf_splat(-127.0f), vf_fma(p, t, vf_splat(-1.0f)));
    vf shifted = p + SIMD_ROUND;
    vf r = p - (shifted - SIMD_ROUND);
    /* 2^r on |r| <= 1/2, relative error of the fit 9.2e-8 */
    vf q = vf_splat(0x1.5bb9e4p-10f);
    q = vf_fma(q, r, vf_splat(0x1.3ceab4p-7f));
    q = vf_fma(q, r, vf_splat(0x1.c6b754p-5f));
    q = vf_fma(q, r, vf_splat(0x1.ebf9bcp-3f));
    q = vf_fma(q, r, vf_splat(0x1.62e42ap-1f));
    q = vf_fma(q, r, vf_splat(1.0f)) * vf_pow2_rounded(shifted);
    return vf_fma(-t, q, vf_max(vf_splat(0.0f), x));
}

/*
 * x (1 + tanh(u)) / 2 = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3); x >= -13 holds all that
 * is not 0.
 */
SIMD_INLINE vf vf_gelu_tanh(vf x) {
    vf t = vf_max(vf_splat(-13.0f), x);
    vf u = t * vf_fma(t * t, vf_splat(-2.0f * 0.7978845608f * 0.044715f),
                      vf_splat(-2.0f * 0.7978845608f));
    return t / (1.0f + vf_exp(u));
}

/* x sigmoid(1.702 x); below -60 the result is under 1e-42. */
SIMD_INLINE vf vf_quick_gelu(vf x) {
    vf t = vf_max(vf_splat(-60.0f), x);
    return t / (1.0f + vf_exp(-1.702f * t));
}

/* x sigmoid(x); below -100 the result is under 1e-41. */
SIMD_INLINE vf vf_silu(vf x) {
    vf t = vf_max(vf_splat(-100.0f), x);
    return t / (1.0f + vf_exp(-t));
}

#endif
