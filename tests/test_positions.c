/*
 * test_positions: vit_resample_positions against torch, timm and the tables of the reference
 * values.
 *
 * Grids: tests/ref/vit_positions.h5, made by tests/ref/vit_golden.py with each origin's own code.
 */
#include "vit/vit.h" // before cmocka.h, which has a macro `fail`

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/*
 * s(i, j) = sin(1.3 i) + 0.5 cos(0.7 j) on a side x side grid -> to x to, five decimals from torch
 * 1.13.
 */
struct table_row {
    const char *why;
    int from, to;
    enum resample rule;
    float want[16]; /* (to, to) */
};

static const struct table_row table_rows[] = {
    {"transformers, MAE",
     3,
     4,
     RESAMPLE_BICUBIC,
     {0.43928f, 0.38831f, 0.19316f, -0.00553f, 1.174f, 1.12303f, 0.92788f, 0.7292f, 1.4164f,
      1.36543f, 1.17028f, 0.97159f, 0.99178f, 0.94081f, 0.74566f, 0.54698f}},
    {"timm",
     3,
     4,
     RESAMPLE_BICUBIC_ANTIALIAS,
     {0.45581f, 0.39684f, 0.21282f, 0.01911f, 1.14149f, 1.08252f, 0.8985f, 0.70479f, 1.37007f,
      1.3111f, 1.12708f, 0.93337f, 0.99824f, 0.93927f, 0.75525f, 0.56154f}},
    {"DINOv2, offset 0.1",
     3,
     4,
     RESAMPLE_BICUBIC_OFFSET,
     {0.43619f, 0.38774f, 0.20435f, 0.00031f, 1.14425f, 1.0958f, 0.91241f, 0.70837f, 1.44039f,
      1.39194f, 1.20855f, 1.00451f, 1.0063f, 0.95785f, 0.77446f, 0.57042f}},
    {"torchvision",
     3,
     4,
     RESAMPLE_BICUBIC_ALIGN_CORNERS,
     {0.5f, 0.45249f, 0.27572f, 0.08498f, 1.21f, 1.16249f, 0.98572f, 0.79498f, 1.42957f, 1.38205f,
      1.20528f, 1.01455f, 1.0155f, 0.96799f, 0.79122f, 0.60049f}},
    {"shrinking, no antialias",
     5,
     3,
     RESAMPLE_BICUBIC,
     {0.80774f, 0.41322f, -0.09278f, 0.99501f, 0.60049f, 0.09449f, -0.40919f, -0.80371f,
      -1.30971f}},
    {"shrinking, antialias",
     5,
     3,
     RESAMPLE_BICUBIC_ANTIALIAS,
     {0.92175f, 0.53144f, 0.05125f, 0.87126f, 0.48095f, 0.00076f, -0.38229f, -0.7726f, -1.25278f}},
};

/* Prints the worst element; whether it is within the tolerance. */
static bool close_enough(const char *name, const float *got, const float *want, size_t count,
                         double tolerance) {
    double abs_worst = 0, largest = 0;
    size_t worst = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)got[i] - (double)want[i]);
        largest = fmax(largest, fabs((double)want[i]));
        if (!(off <= abs_worst)) {
            abs_worst = off;
            worst = i;
        }
    }
    printf("%-44s max abs %.2e  max rel %.2e  tolerance %.0e  worst at %zu: %.7g, want %.7g\n",
           name, abs_worst, abs_worst / largest, tolerance, worst, (double)got[worst],
           (double)want[worst]);
    return abs_worst <= tolerance;
}

static void test_table(void **state) {
    (void)state;
    for (size_t r = 0; r < COUNT_OF(table_rows); r++) {
        const struct table_row *row = &table_rows[r];
        const int side = row->from, to = row->to;
        float source[25], got[16];
        for (int i = 0; i < side * side; i++)
            source[i] = (float)(sin(1.3 * (i / side)) + 0.5 * cos(0.7 * (i % side)));
        assert_int_equal(vit_resample_positions(source, side, side, got, to, to, 1, row->rule),
                         ST_OK);
        // Five decimals were printed: 5e-6 and rounding. A wrong kernel is off by 1e-2.
        assert_true(close_enough(row->why, got, row->want, (size_t)(to * to), 6e-6));
    }
}

struct grid_row {
    int from_h, from_w, to_h, to_w;
};

static const struct grid_row grid_rows[] = {
    {14, 14, 16, 16}, /* 224 -> 256 */
    {14, 14, 24, 24}, /* 224 -> 384 */
    {24, 24, 14, 14}, /* shrinking */
    {37, 37, 16, 16}, /* DINOv2 at 224 */
    {37, 37, 24, 16}, /* one axis more than the other */
    {7, 9, 14, 10},   /* a stored grid that is not square */
    {1, 1, 3, 2},     /* nothing to interpolate between */
    {5, 4, 1, 1},     /* a single cell wanted */
    {6, 4, 4, 6},     /* as many cells, transposed: still resampled */
};

enum { CHANNELS = 3 };

static float *read_grid(struct h5 *file, const char *group, const char *name, size_t count) {
    char path[96];
    float *values = mem_zalloc(count, sizeof *values);
    snprintf(path, sizeof path, "/%s/%s", group, name);
    assert_non_null(values);
    if (h5_read_f32(file, path, values, count) != ST_OK) fail_msg("%s", fail_message());
    return values;
}

static void check_grid(struct h5 *file, const struct grid_row *row, enum resample rule) {
    const size_t from = (size_t)(row->from_h * row->from_w) * CHANNELS;
    const size_t to = (size_t)(row->to_h * row->to_w) * CHANNELS;
    char group[32], name[96];
    float *source, *want, *got = mem_zalloc(to, sizeof *got);
    bool good;
    snprintf(group, sizeof group, "%dx%d_%dx%d", row->from_h, row->from_w, row->to_h, row->to_w);
    snprintf(name, sizeof name, "%s %s", group, resample_name(rule));
    source = read_grid(file, group, "source", from);
    want = read_grid(file, group, resample_name(rule), to);
    assert_non_null(got);
    assert_int_equal(vit_resample_positions(source, row->from_h, row->from_w, got, row->to_h,
                                            row->to_w, CHANNELS, rule),
                     ST_OK);
    good = close_enough(name, got, want, to, 1e-6); // observed: 6e-7; a wrong rule: 0.1 to 1
    mem_free(source);
    mem_free(want);
    mem_free(got);
    assert_true(good);
}

static void test_grids(void **state) {
    struct h5 *file = NULL;
    (void)state;
    if (h5_open("tests/ref/vit_positions.h5", &file) != ST_OK) fail_msg("%s", fail_message());
    for (size_t r = 0; r < COUNT_OF(grid_rows); r++)
        for (int rule = RESAMPLE_BICUBIC_ANTIALIAS; rule <= RESAMPLE_LINEAR_ALIGN_CORNERS; rule++)
            check_grid(file, &grid_rows[r], (enum resample)rule);
    assert_int_equal(h5_close(&file), ST_OK);
}

/* An equal grid is copied, whatever the rule; a constant grid stays constant (observed: 2e-6). */
static void test_properties(void **state) {
    float source[5 * 7 * 2], same[5 * 7 * 2], other[9 * 3 * 2];
    (void)state;
    for (int rule = RESAMPLE_BICUBIC_ANTIALIAS; rule <= RESAMPLE_LINEAR_ALIGN_CORNERS; rule++) {
        for (size_t i = 0; i < COUNT_OF(source); i++)
            source[i] = (float)i * 0.37f - 3.0f;
        assert_int_equal(vit_resample_positions(source, 5, 7, same, 5, 7, 2, (enum resample)rule),
                         ST_OK);
        assert_memory_equal(source, same, sizeof source);
        for (size_t i = 0; i < COUNT_OF(source); i++)
            source[i] = i % 2 ? 0.75f : -2.0f;
        assert_int_equal(vit_resample_positions(source, 5, 7, other, 9, 3, 2, (enum resample)rule),
                         ST_OK);
        for (size_t i = 0; i < COUNT_OF(other); i++)
            assert_true(fabsf(other[i] - (i % 2 ? 0.75f : -2.0f)) < 4e-6f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_properties),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
