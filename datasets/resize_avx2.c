/*
 * resize_avx2: the inner loops of resize.c for processors with AVX2; see resize_kernels.h.
 *
 * Chosen at run time, so the rest of the program is built for any x86-64. pmaddwd multiplies two
 * pixels by two weights and adds them in one instruction; across takes 4 taps of one RGB pixel a
 * step, down takes 2 taps of 32 bytes. Same bits as resize_plain (tests/test_resize.c).
 */
#include "datasets/resize_kernels.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

/* (hi << 12) + lo, rounded and shifted down to 0..255 (not yet clamped). */
AVX2 static inline __m256i join(__m256i hi, __m256i lo) {
    __m256i half = _mm256_set1_epi32(1 << (WEIGHT_BITS - 1));
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(hi, WEIGHT_LOW_BITS), lo);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, half), WEIGHT_BITS);
}

/* Taps (0, 1) of R, G, B in the low lane, taps (2, 3) in the high lane, as 16-bit pairs. */
AVX2 static void across(const uint8_t *src, uint8_t *dst, const struct weights *w) {
    const __m256i pairs =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                         -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m256i spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    for (int i = 0; i < w->count; i++) {
        const uint8_t *p = src + (size_t)w->first[i] * 3;
        const int16_t *hi = w->hi + (size_t)i * (size_t)w->pitch;
        const int16_t *lo = w->lo + (size_t)i * (size_t)w->pitch;
        __m256i sum_hi = _mm256_setzero_si256(), sum_lo = sum_hi;
        for (int j = 0; j < w->taps[i]; j += 4, p += 12) {
            __m256i pixels = _mm256_shuffle_epi8(
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p)), pairs);
            __m256i k_hi = _mm256_permutevar8x32_epi32(
                _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)(hi + j))), spread);
            __m256i k_lo = _mm256_permutevar8x32_epi32(
                _mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)(lo + j))), spread);
            sum_hi = _mm256_add_epi32(sum_hi, _mm256_madd_epi16(pixels, k_hi));
            sum_lo = _mm256_add_epi32(sum_lo, _mm256_madd_epi16(pixels, k_lo));
        }
        /* Fold the high lane (taps 2, 3) onto the low one before rounding. */
        sum_hi = _mm256_add_epi32(sum_hi, _mm256_permute2x128_si256(sum_hi, sum_hi, 0x81));
        sum_lo = _mm256_add_epi32(sum_lo, _mm256_permute2x128_si256(sum_lo, sum_lo, 0x81));
        __m128i pixel = _mm256_castsi256_si128(join(sum_hi, sum_lo));
        pixel = _mm_packs_epi32(pixel, pixel);
        int packed = _mm_cvtsi128_si32(_mm_packus_epi16(pixel, pixel));
        memcpy(dst + (size_t)i * 3, &packed, 3);
    }
}

/* Two rows' 32 bytes as 16-bit pairs, in four registers; madd_rows adds their products. */
struct sums {
    __m256i hi[4], lo[4];
};

AVX2 static inline void madd_rows(struct sums *s, __m256i a, __m256i b, int k_hi, int k_lo) {
    const __m256i zero = _mm256_setzero_si256();
    __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    __m256i pair[4] = {_mm256_unpacklo_epi8(low, zero), _mm256_unpackhi_epi8(low, zero),
                       _mm256_unpacklo_epi8(high, zero), _mm256_unpackhi_epi8(high, zero)};
    __m256i vh = _mm256_set1_epi32(k_hi), vl = _mm256_set1_epi32(k_lo);
    for (int q = 0; q < 4; q++) {
        s->hi[q] = _mm256_add_epi32(s->hi[q], _mm256_madd_epi16(pair[q], vh));
        s->lo[q] = _mm256_add_epi32(s->lo[q], _mm256_madd_epi16(pair[q], vl));
    }
}

AVX2 static void down(const uint8_t *src, size_t stride, uint8_t *dst, size_t bytes,
                      const struct weights *w) {
    size_t x = 0;
    int taps = w->taps[0];
    const uint8_t *top = src + (size_t)w->first[0] * stride;
    for (; x + 32 <= bytes; x += 32) {
        struct sums s;
        for (int q = 0; q < 4; q++)
            s.hi[q] = s.lo[q] = _mm256_setzero_si256();
        for (int j = 0; j < taps; j += 2) {
            const uint8_t *p = top + (size_t)j * stride + x;
            const uint8_t *next = j + 1 < taps ? p + stride : p; /* weight 0 there */
            int k_hi, k_lo;
            memcpy(&k_hi, w->hi + j, sizeof k_hi);
            memcpy(&k_lo, w->lo + j, sizeof k_lo);
            madd_rows(&s, _mm256_loadu_si256((const __m256i *)p),
                      _mm256_loadu_si256((const __m256i *)next), k_hi, k_lo);
        }
        __m256i a = _mm256_packs_epi32(join(s.hi[0], s.lo[0]), join(s.hi[1], s.lo[1]));
        __m256i b = _mm256_packs_epi32(join(s.hi[2], s.lo[2]), join(s.hi[3], s.lo[3]));
        _mm256_storeu_si256((__m256i *)(dst + x), _mm256_packus_epi16(a, b));
    }
    if (x < bytes) resize_plain.down(src + x, stride, dst + x, bytes - x, w);
}

static const struct resize_kernels avx2 = {"avx2", 16, across, down};

const struct resize_kernels *resize_avx2(void) {
    return __builtin_cpu_supports("avx2") ? &avx2 : NULL;
}

#else

const struct resize_kernels *resize_avx2(void) {
    return NULL;
}

#endif
