/*
 * test_params: named, shape-checked reads of /parameters, and the element conversions under them.
 */
#include "weights/params.h" // before cmocka.h, which has a macro `fail`

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/vitrine-params-XXXXXX";

static int make_path(void **state) {
    int fd = mkstemp(path);
    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void ok(enum status st) {
    if (st != ST_OK) fail_msg("%s: %s", status_name(st), fail_message());
}

static void refused(enum status st, const char *words) {
    if (st == ST_OK) fail_msg("accepted, expected '%s'", words);
    if (st != ST_SHAPE || !strstr(fail_message(), words))
        fail_msg("%s: '%s', expected shape: '%s'", status_name(st), fail_message(), words);
}

static const float numbers[6] = {0,    1,     -2,
                                 0.5f, 65504, -0.0078125f}; /* exact in fp16 and bf16 but 65504 */
static const int8_t bytes[6] = {0, 127, -128, 1, -1, 64};

static void write_two(struct h5 *file, const char *name, enum dtype dtype, const void *data) {
    const size_t dims[2] = {2, 3};
    char full[64];
    snprintf(full, sizeof full, "/parameters/%s", name);
    ok(h5_write(file, full, dtype, 2, dims, data));
}

/* The same matrix in each type that a model may hold, and one that it may not. */
static struct h5 *open_model(void) {
    const size_t rows = 2;
    const float scales[2] = {0.5f, 2};
    uint16_t half[6], brain[6];
    struct h5 *file;
    f32_to_f16(numbers, 6, half);
    f32_to_bf16(numbers, 6, brain);
    ok(h5_create(path, &file));
    ok(h5_make_group(file, "/parameters"));
    write_two(file, "fp32", DT_F32, numbers);
    write_two(file, "fp16", DT_F16, half);
    write_two(file, "bf16", DT_BF16, brain);
    write_two(file, "int8", DT_I8, bytes);
    ok(h5_write(file, "/parameters/int8.scale", DT_F32, 1, &rows, scales));
    ok(h5_close(&file));
    ok(h5_open(path, &file));
    return file;
}

static void test_types(void **state) {
    static const float from_int8[6] = {0, 63.5f, -64, 2, -2, 128};
    struct h5 *file = open_model();
    struct params params;
    float found[6];
    (void)state;
    ok(params_open(&params, file));
    assert_true(params_has(&params, "fp32") && params_has(&params, "int8.scale"));
    assert_false(params_has(&params, "fp3") || params_has(&params, ""));
    params_get(&params, found, SHAPE(2, 3), "fp32");
    assert_memory_equal(found, numbers, sizeof found);
    params_get(&params, found, SHAPE(2, 3), "fp16");
    assert_memory_equal(found, numbers, sizeof found);
    params_get(&params, found, SHAPE(2, 3), "bf16");
    for (int i = 0; i < 6; i++)
        assert_true(found[i] == (i == 4 ? 65536 : numbers[i]));
    params_get(&params, found, SHAPE(2, 3), "int8");
    assert_memory_equal(found, from_int8, sizeof found);
    assert_int_equal(params.elements, 24);
    ok(params_close(&params));
    ok(h5_close(&file));
}

/* An int8 tensor hands out its scales; one of another type, or with a fault, has none. */
static void test_scales(void **state) {
    struct h5 *file = open_model();
    struct params params;
    float found[6], scales[2] = {7, 7};
    (void)state;
    ok(params_open(&params, file));
    assert_true(params_get_scales(&params, found, scales, SHAPE(2, 3), "int8"));
    assert_true(scales[0] == 0.5f && scales[1] == 2);
    for (int i = 0; i < 6; i++)
        assert_true(found[i] == (float)bytes[i] * scales[i / 3]);
    assert_false(params_get_scales(&params, found, scales, SHAPE(2, 3), "fp32"));
    assert_memory_equal(found, numbers, sizeof found);
    assert_false(params_get_scales(&params, found, scales, SHAPE(2, 3), "fp16"));
    assert_false(params_get_scales(&params, found, scales, SHAPE(2, 3), "bf16"));
    assert_false(params_get_scales(&params, found, scales, SHAPE(3, 2), "int8"));
    for (int i = 0; i < 6; i++)
        assert_true(found[i] == 0);
    assert_false(params_get_scales(&params, found, scales, SHAPE(2), "absent"));
    refused(params_close(&params), "2 problems: int8 is (2, 3), expected (3, 2); absent (2)");
    ok(h5_close(&file));
}

static void test_problems(void **state) {
    struct h5 *file = open_model();
    struct params params;
    float found[12];
    (void)state;
    ok(params_open(&params, file));
    for (int i = 0; i < 12; i++)
        found[i] = 7;
    params_get(&params, found, SHAPE(3, 2), "fp32"); /* same count, other shape */
    params_get(&params, found + 6, SHAPE(6), "fp16");
    for (int i = 0; i < 12; i++)
        assert_true(found[i] == 0);
    found[0] = 7;
    params_get(&params, found, SHAPE(1, 2, 3), "bf16");
    params_get(&params, found, SHAPE(5), "absent");
    assert_true(found[0] == 0);
    params_get(&params, found, SHAPE(2), "int8"); /* the first of its dims */
    assert_int_equal(params.elements, 0);
    refused(
        params_close(&params),
        ": /parameters: 6 problems: fp32 is (2, 3), expected (3, 2); fp16 is (2, 3), expected (6); "
        "bf16 is (2, 3), expected (1, 2, 3); absent (5) is missing; int8 is (2, 3), expected (2); "
        "int8.scale is unexpected");
    assert_memory_equal(fail_message(), path, strlen(path));
    ok(params_close(&params)); /* released: nothing */
    ok(h5_close(&file));
}

/* A quantised tensor needs one finite scale a row; other types are no parameters. */
static void test_bad_tensors(void **state) {
    static const struct {
        const char *says;
        enum dtype dtype, scale_dtype;
        size_t scales;
        float scale;
    } rows[] = {
        {"1 problem: w.scale (2) is missing", DT_I8, DT_F32, 0, 1},
        {"1 problem: w.scale is (3), expected (2)", DT_I8, DT_F32, 3, 1},
        {"1 problem: w scale 1 is not finite", DT_I8, DT_F32, 2, INFINITY},
        {"/parameters/w.scale: is int32 of 4 bytes, expected fp32", DT_I8, DT_I32, 2, 1},
        {"1 problem: w is fp64, expected fp32, fp16, bf16 or int8", DT_F64, DT_F32, 0, 1},
        {"1 problem: w is uint8, expected fp32", DT_U8, DT_F32, 0, 1},
        {"1 problem: w is bool, expected fp32", DT_BOOL, DT_F32, 0, 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const float scales[3] = {1, rows[i].scale, 1};
        const double zeros[6] = {0};
        float found[6] = {7, 7, 7, 7, 7, 7};
        struct params params;
        struct h5 *file;
        ok(h5_create(path, &file));
        ok(h5_make_group(file, "/parameters"));
        write_two(file, "w", rows[i].dtype, zeros);
        if (rows[i].scales)
            ok(h5_write(file, "/parameters/w.scale", rows[i].scale_dtype, 1, &rows[i].scales,
                        scales));
        ok(h5_close(&file));
        ok(h5_open(path, &file));
        ok(params_open(&params, file));
        params_get(&params, found, SHAPE(2, 3), "w");
        for (int k = 0; k < 6; k++)
            assert_true(found[k] == 0);
        refused(params_close(&params), rows[i].says);
        ok(h5_close(&file));
    }
}

/* At most 20 entries, less where names are long, then a count; all are counted. */
static void test_many_problems(void **state) {
    struct h5 *file;
    struct params params;
    float found[1];
    char name[128];
    (void)state;
    ok(h5_create(path, &file));
    assert_int_equal(params_open(&params, file), ST_FORMAT);
    assert_non_null(strstr(fail_message(), "/parameters: is missing"));
    ok(h5_make_group(file, "/parameters"));
    ok(params_open(&params, file));
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        params_get(&params, found, SHAPE(1), name);
    }
    refused(params_close(&params), "1000 problems: t0 (1) is missing; ");
    assert_non_null(strstr(fail_message(), "t19 (1) is missing; and 980 more"));
    ok(params_open(&params, file));
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "%0100d", i);
        params_get(&params, found, SHAPE(1), name);
    }
    refused(params_close(&params), "is missing; and 24 more");
    assert_true(strlen(fail_message()) < 1000);
    ok(params_open(&params, file));
    ok(params_close(&params)); /* no parameters, none asked for */
    ok(h5_close(&file));
}

/* fp16 by its definition: (-1)^s 2^(e-15) (1 + m/1024), subnormals 2^-14 m/1024. */
static double half_value(uint16_t half) {
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                 : ldexp(mantissa, -24);
    return half & 0x8000 ? -size : size;
}

static void test_half(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t half = (uint16_t)i, back;
        double want = half_value(half);
        float found;
        ok(tensor_to_f32((const uint8_t *)&half, DT_F16, 1, &found));
        if (isnan(want)) {
            f32_to_f16(&found, 1, &back);
            if (!isnan(found) || !isnan(half_value(back))) fail_msg("0x%04x is no NaN", i);
            continue;
        }
        if ((double)found != want || !signbit(found) != !signbit(want))
            fail_msg("0x%04x is %g, expected %g", i, (double)found, want);
        f32_to_f16(&found, 1, &back);
        if (back != half) fail_msg("0x%04x comes back as 0x%04x", i, back);
    }
    /* Half-way cases between every two finite neighbours, and one step of fp32 to either side. */
    for (uint16_t half = 0; half < 0x7bff; half++) {
        float middle = (float)((half_value(half) + half_value((uint16_t)(half + 1))) / 2);
        const float around[3] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        uint16_t found[3], even = (uint16_t)(half + (half & 1));
        f32_to_f16(around, 3, found);
        if (found[0] != half || found[1] != even || found[2] != half + 1)
            fail_msg("around %g: 0x%04x 0x%04x 0x%04x", (double)middle, found[0], found[1],
                     found[2]);
    }
}

static void test_narrow(void **state) {
    static const struct {
        float value;
        uint16_t half, brain;
    } rows[] = {
        {65519.996f, 0x7bff, 0x4780}, /* below half-way to 65536 */
        {65520, 0x7c00, 0x4780},      /* half-way: to even, which is infinity */
        {-1e30f, 0xfc00, 0xf14a},         {INFINITY, 0x7c00, 0x7f80},
        {3.4028235e38f, 0x7c00, 0x7f80},  /* the largest fp32 */
        {2.9802322e-08f, 0x0000, 0x3300}, /* 2^-25: half-way to the smallest subnormal, to even */
        {2.9802326e-08f, 0x0001, 0x3300}, {-0.0f, 0x8000, 0x8000},
        {1.00390625f, 0x3c04, 0x3f80}, /* 1 + 2^-8: half-way in bf16, to even */
        {1.01171875f, 0x3c0c, 0x3f82}, /* 1 + 3 * 2^-8 */
        {1e-40f, 0x0000, 0x0001},
    };
    const float nan = NAN;
    uint16_t half, brain;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        f32_to_f16(&rows[i].value, 1, &half);
        f32_to_bf16(&rows[i].value, 1, &brain);
        if (half != rows[i].half || brain != rows[i].brain)
            fail_msg("%a: 0x%04x 0x%04x", (double)rows[i].value, half, brain);
    }
    f32_to_f16(&nan, 1, &half);
    f32_to_bf16(&nan, 1, &brain);
    assert_true((half & 0x7fff) > 0x7c00 && (brain & 0x7fff) > 0x7f80);
    for (int i = 0; i < 3; i++) { /* rounding must not carry a NaN into infinity or zero */
        static const uint32_t payloads[] = {0x7f800001, 0x7fffffff, 0xff808000};
        float value;
        memcpy(&value, &payloads[i], sizeof value);
        f32_to_f16(&value, 1, &half);
        f32_to_bf16(&value, 1, &brain);
        assert_true((half & 0x7fff) > 0x7c00 && (brain & 0x7fff) > 0x7f80);
    }
}

/* Every type, long enough for more than one block, out of the tail of the destination. */
static void test_widen(void **state) {
    enum { COUNT = 2500 };
    static float dst[COUNT];
    static uint8_t aside[8 * COUNT];
    (void)state;
    for (int type = 0; type < DT_OTHER; type++) {
        enum dtype dtype = (enum dtype)type;
        size_t size = dtype_size(dtype);
        for (int i = 0; i < COUNT; i++) {
            int value = dtype == DT_BOOL ? i % 2 : i % 100;
            const float f32 = (float)value;
            uint16_t half;
            double f64 = value;
            int64_t whole = value; /* little endian: its first bytes are every narrower integer */
            const void *from = dtype == DT_F64                       ? (const void *)&f64
                               : dtype == DT_F32                     ? (const void *)&f32
                               : dtype == DT_F16 || dtype == DT_BF16 ? (const void *)&half
                                                                     : (const void *)&whole;
            if (dtype == DT_F16) f32_to_f16(&f32, 1, &half);
            if (dtype == DT_BF16) f32_to_bf16(&f32, 1, &half);
            memcpy(aside + (size_t)i * size, from, size);
        }
        if (size <= 4) {
            uint8_t *tail = (uint8_t *)dst + (4 - size) * COUNT;
            memcpy(tail, aside, size * COUNT);
            ok(tensor_to_f32(tail, dtype, COUNT, dst));
        } else {
            ok(tensor_to_f32(aside, dtype, COUNT, dst));
        }
        for (int i = 0; i < COUNT; i++) {
            float want = (float)(dtype == DT_BOOL ? i % 2 : i % 100);
            if (dst[i] != want) fail_msg("%s %d is %g", dtype_name(dtype), i, (double)dst[i]);
        }
    }
    refused(tensor_to_f32(aside, DT_OTHER, 1, dst), "expected a number");
}

static void test_words(void **state) {
    const size_t dims[4] = {768, 3, 16, 16};
    struct tensor tensor = {.rank = 4, .dims = {768, 3, 16, 16}};
    enum dtype dtype;
    char text[64];
    (void)state;
    assert_string_equal(shape_text(dims, 4, text, sizeof text), "(768, 3, 16, 16)");
    assert_string_equal(shape_text(dims, 1, text, sizeof text), "(768)");
    assert_string_equal(shape_text(dims, 0, text, sizeof text), "()");
    assert_string_equal(shape_text(dims, 4, text, 8), "(768, 3");
    assert_int_equal(tensor_count(&tensor), 768 * 3 * 256);
    for (int i = 0; i < DT_OTHER; i++) {
        assert_true(dtype_find(dtype_name((enum dtype)i), &dtype));
        assert_int_equal(dtype, i);
    }
    assert_false(dtype_find("float", &dtype) || dtype_find(dtype_name(DT_OTHER), &dtype));
    assert_int_equal(dtype_size(DT_OTHER), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),         cmocka_unit_test(test_scales),
        cmocka_unit_test(test_problems),      cmocka_unit_test(test_bad_tensors),
        cmocka_unit_test(test_many_problems), cmocka_unit_test(test_half),
        cmocka_unit_test(test_narrow),        cmocka_unit_test(test_widen),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests_name("params", tests, make_path, remove_path);
}
