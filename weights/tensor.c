/* tensor: see tensor.h. Conversions are integer arithmetic: exact, the same on every machine. */
#include "weights/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DT_F64] = {"fp64", 8},           [DT_F32] = {"fp32", 4},
    [DT_F16] = {"fp16", 2},           [DT_BF16] = {"bf16", 2},
    [DT_I64] = {"int64", 8},          [DT_I32] = {"int32", 4},
    [DT_I16] = {"int16", 2},          [DT_I8] = {"int8", 1},
    [DT_U8] = {"uint8", 1},           [DT_BOOL] = {"bool", 1},
    [DT_OTHER] = {"another type", 0},
};

const char *dtype_name(enum dtype dtype) {
    return (size_t)dtype < COUNT_OF(dtypes) ? dtypes[dtype].name : "unknown";
}

bool dtype_find(const char *name, enum dtype *out) {
    for (int i = 0; i < DT_OTHER; i++) {
        if (strcmp(name, dtypes[i].name) != 0) continue;
        *out = (enum dtype)i;
        return true;
    }
    return false;
}

size_t dtype_size(enum dtype dtype) {
    return (size_t)dtype < COUNT_OF(dtypes) ? dtypes[dtype].size : 0;
}

static int by_name(const void *a, const void *b) {
    const struct tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

enum status tensors_sort(struct tensor *tensors, size_t count, const char *path) {
    if (count) qsort(tensors, count, sizeof *tensors, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return fail(ST_FORMAT, "%s: tensor %s is there twice", path, tensors[i].name);
    return ST_OK;
}

size_t tensor_count(const struct tensor *tensor) {
    size_t count = 1;
    for (int i = 0; i < tensor->rank; i++)
        count *= tensor->dims[i];
    return count;
}

const char *shape_text(const size_t *dims, int rank, char *buf, size_t size) {
    size_t used = 0;
    if (size == 0) return buf;
    buf[0] = 0;
    for (int i = 0; i <= rank && used < size; i++) {
        int wrote = i == rank ? snprintf(buf + used, size - used, rank ? ")" : "()")
                              : snprintf(buf + used, size - used, i ? ", %zu" : "(%zu", dims[i]);
        if (wrote < 0) break;
        used += (size_t)wrote;
    }
    return buf;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/*
 * Exponent rebias 15 -> 127 by adding 112. A half subnormal m * 2^-24 becomes (1 + m/1024) * 2^-14
 * by one more step of the exponent, and the 2^-14 is taken off again. No fp32 subnormal occurs on
 * the way, so a flush-to-zero mode cannot change the result. Masks, not branches: compilers
 * vectorise it.
 */
static float f16_widen(uint16_t half) {
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13, exponent = bits & 0x0f800000;
    uint32_t normal = bits + 0x38000000, huge = bits | 0x7f800000;
    uint32_t tiny = bits_of(float_of(bits + 0x38800000) - float_of(0x38800000));
    uint32_t is_tiny = 0u - (exponent == 0), is_huge = 0u - (exponent == 0x0f800000);
    uint32_t wide = (tiny & is_tiny) | (huge & is_huge) | (normal & ~(is_tiny | is_huge));
    return float_of(wide | (uint32_t)(half & 0x8000) << 16);
}

/* Elements converted at a time through a local copy: src may lie in the tail of dst. */
#define BLOCK 1024

#define WIDEN(type, expression)                                                                    \
    do {                                                                                           \
        type from[BLOCK];                                                                          \
        memcpy(from, src, n * sizeof from[0]);                                                     \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = (expression);                                                                  \
    } while (0)

static void widen_block(const uint8_t *src, enum dtype dtype, size_t n, float *to) {
    switch (dtype) {
    case DT_F64: WIDEN(double, (float)from[i]); break;
    case DT_F32: WIDEN(float, from[i]); break;
    case DT_F16: WIDEN(uint16_t, f16_widen(from[i])); break;
    case DT_BF16: WIDEN(uint16_t, float_of((uint32_t)from[i] << 16)); break;
    case DT_I64: WIDEN(int64_t, (float)from[i]); break;
    case DT_I32: WIDEN(int32_t, (float)from[i]); break;
    case DT_I16: WIDEN(int16_t, (float)from[i]); break;
    case DT_I8: WIDEN(int8_t, (float)from[i]); break;
    case DT_U8: WIDEN(uint8_t, (float)from[i]); break;
    case DT_BOOL: WIDEN(uint8_t, from[i] ? 1.0f : 0.0f); break;
    case DT_OTHER: break;
    }
}

enum status tensor_to_f32(const uint8_t *src, enum dtype dtype, size_t count, float *dst) {
    size_t size = dtype_size(dtype);
    if (size == 0) return fail(ST_SHAPE, "elements of %s, expected a number", dtype_name(dtype));
    if (dtype == DT_F32) {
        memmove(dst, src, count * sizeof *dst);
        return ST_OK;
    }
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        widen_block(src + at * size, dtype, n, dst + at);
    }
    return ST_OK;
}

/*
 * Round to nearest even: add half of the dropped bits' step less one, and one more when the kept
 * part is odd; a carry runs into the exponent, which is what rounding up to the next power means.
 */
static uint16_t f16_narrow(float value) {
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff)); /* NaN, quiet */
    if (size >= 0x47800000) return (uint16_t)(sign | 0x7c00);                       /* >= 2^16 */
    if (size < 0x33000000) return (uint16_t)sign;                                   /* < 2^-25 */
    if (size < 0x38800000) { /* below 2^-14: subnormal, in steps of 2^-24 */
        uint32_t mantissa = (size & 0x7fffff) | 0x800000, shift = 126 - (size >> 23);
        uint32_t half = 1u << (shift - 1), odd = mantissa >> shift & 1;
        return (uint16_t)(sign | (mantissa + half - 1 + odd) >> shift);
    }
    size -= 0x38000000;
    return (uint16_t)(sign | (size + 0xfff + (size >> 13 & 1)) >> 13);
}

void f32_to_f16(const float *src, size_t count, uint16_t *dst) {
    for (size_t i = 0; i < count; i++)
        dst[i] = f16_narrow(src[i]);
}

void f32_to_bf16(const float *src, size_t count, uint16_t *dst) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = bits_of(src[i]);
        bool nan = (bits & 0x7fffffff) > 0x7f800000;
        uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
        dst[i] = (uint16_t)((nan ? bits | 0x400000 : rounded) >> 16);
    }
}
