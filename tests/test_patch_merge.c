/*
 * test_patch_merge: the gather of patch merging against an index formula, with and without its
 * norm, on even and odd maps; and what it refuses.
 */
#include "kernels/backend.h"
#include "tests/op_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 2 * 7 * 9 * 6 };

struct shape {
    int batch, grid_h, grid_w, channels;
    bool norm;
    const char *why;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, false, "one token: three neighbours of zeros"},
    {2, 4, 6, 3, false, "even"},
    {2, 4, 6, 3, true, "even, normed"},
    {2, 7, 9, 6, true, "odd in both: zeros take part in the norm"},
    {1, 5, 4, 5, false, "odd in height"},
    {1, 4, 5, 5, true, "odd in width"},
};

/* timm: x.view(B, H/2, 2, W/2, 2, C).permute(0, 1, 3, 4, 2, 5): column first, then row. */
static double neighbour(const struct shape *s, const float *x, int image, int row, int column,
                        int c) {
    int part = c / s->channels, y = 2 * row + part % 2, at = 2 * column + part / 2;
    if (y >= s->grid_h || at >= s->grid_w) return 0;
    size_t token = ((size_t)image * (size_t)s->grid_h + (size_t)y) * (size_t)s->grid_w + (size_t)at;
    return (double)x[token * (size_t)s->channels + (size_t)(c % s->channels)];
}

static void reference(const struct shape *s, const float *x, const float *gamma, double *want) {
    const int rows = (s->grid_h + 1) / 2, columns = (s->grid_w + 1) / 2, width = 4 * s->channels;
    for (int at = 0; at < s->batch * rows * columns; at++, want += width) {
        double mean = 0, variance = 0;
        for (int c = 0; c < width; c++) {
            want[c] = neighbour(s, x, at / columns / rows, at / columns % rows, at % columns, c);
            mean += want[c] / width;
        }
        for (int c = 0; c < width; c++)
            variance += (want[c] - mean) * (want[c] - mean) / width;
        for (int c = 0; s->norm && c < width; c++)
            want[c] = (want[c] - mean) / sqrt(variance + 1e-5) * (double)gamma[c] +
                      (double)gamma[width + c];
    }
}

static void merged_values(void **state) {
    static float x[MOST], y[4 * MOST];
    static double want[4 * MOST], ones[4 * MOST];
    float gamma[48]; /* gamma, beta: (4C) each */
    (void)state;
    op_fill(x, MOST, 1);
    op_fill(gamma, COUNT_OF(gamma), 2);
    for (size_t i = 0; i < COUNT_OF(ones); i++)
        ones[i] = 1;
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *s = &shapes[i];
        const int width = 4 * s->channels, tokens = (s->grid_h + 1) / 2 * ((s->grid_w + 1) / 2);
        struct norm_spec spec = {
            .width = width, .eps = 1e-5f, .weight = gamma, .bias = gamma + width};
        struct arena arena = {0};
        struct norm *norm = NULL;
        struct backend *be;
        struct act from, to;
        assert_int_equal(cpu_open("fp32", 2, &be), ST_OK);
        if (s->norm) assert_int_equal(norm_load(be, &spec, &norm), ST_OK);
        for (int pass = 0; pass < 2; pass++) {
            from = act_take(be, &arena, s->batch, s->grid_h * s->grid_w, s->channels);
            to = act_take(be, &arena, s->batch, tokens, width);
            if (pass == 0) assert_int_equal(backend_reserve(be, &arena, "test"), ST_OK);
        }
        backend_write(be, x, from);
        op_patch_merge(be, norm, from, s->grid_h, s->grid_w, to);
        backend_read(be, to, y);
        assert_int_equal(backend_sync(be), ST_OK);
        reference(s, x, gamma, want);
        /* observed 0, and 5e-7 with the norm; two neighbours swapped measure 1 and more */
        assert_true(op_close(s->why, y, want, ones, (size_t)(s->batch * tokens * width), 2e-6));
        backend_release_arena(be, &arena);
        backend_close(be);
    }
}

static void refusals(void **state) {
    static const struct {
        int grid_h, grid_w, tokens, channels, width;
        const char *sentence;
    } rows[] = {
        {2, 3, 2, 8, 0, "patch_merge: a map of 2x3, but 4 tokens"},
        {0, 4, 2, 8, 0, "patch_merge: a map of 0x4, but 4 tokens"},
        {2, 2, 2, 8, 0, "patch_merge: y is (1, 2, 8), want (1, 1, 8)"},
        {2, 2, 1, 4, 0, "patch_merge: y is (1, 1, 4), want (1, 1, 8)"},
        {2, 2, 1, 8, 2, "patch_merge: a norm of 2 for 4 * 2 channels"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        float memory[64] = {0};
        struct act x = {memory, 0, 1, 4, 2, 2, 8};
        struct act y = {memory, 16, 1, rows[i].tokens, rows[i].channels, (size_t)rows[i].channels,
                        16};
        struct norm_spec spec = {.width = rows[i].width, .eps = 1e-5f};
        struct norm *norm = NULL;
        struct backend *be;
        assert_int_equal(cpu_open("fp32", 1, &be), ST_OK);
        if (rows[i].width > 0) assert_int_equal(norm_load(be, &spec, &norm), ST_OK);
        op_patch_merge(be, norm, x, rows[i].grid_h, rows[i].grid_w, y);
        assert_int_equal(backend_sync(be), ST_SHAPE);
        assert_string_equal(fail_message(), rows[i].sentence);
        backend_close(be);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_values),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
