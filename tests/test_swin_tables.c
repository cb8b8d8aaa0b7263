/*
 * test_swin_tables: bias tables resampled as timm does, and the position bias of Swin v2.
 *
 * Golden values: tests/ref/swin_tables.h5, made by tests/ref/swin_golden.py; the coordinates are
 * also written out below.
 */
#include "kernels/relative.h"
#include "swin/swin.h" // before cmocka.h, which has a macro `fail`

#include "tests/golden.h"

enum { HEADS = 3 };

static int rows_of(int window_h, int window_w) {
    return (2 * window_h - 1) * (2 * window_w - 1);
}

/* ---- version 1 ------------------------------------------------------------------------------- */

/*
 * timm computes in float32: 6.6e-7 of the largest value apart at most, where coordinates are large.
 * Uniform spacing instead of geometric is off by 0.04 and more, an axis that keeps its length left
 * alone by 1.
 */
#define TABLE_TOLERANCE 5e-6

static const struct table_row {
    int from_h, from_w, to_h, to_w;
    const char *why;
} table_rows[] = {
    {7, 7, 12, 12, "a longer window"},
    {12, 12, 7, 7, "a shorter one"},
    {7, 7, 7, 5, "one axis keeps its length, and is spread all the same"},
    {4, 4, 3, 6, "one shorter, one longer"},
    {3, 4, 8, 2, "a stored window that is not square"},
    {1, 1, 3, 3, "a single stored value"},
    {5, 5, 1, 1, "a single value wanted"},
    {1, 4, 2, 4, "one axis of a single value"},
    {7, 7, 8, 8, "one more"},
    {12, 12, 24, 24, "twice as long"},
};

static void test_resample(void **state) {
    const struct table_row *row = *state;
    const size_t from = (size_t)rows_of(row->from_h, row->from_w) * HEADS;
    const size_t to = (size_t)rows_of(row->to_h, row->to_w) * HEADS;
    struct h5 *file = NULL;
    char name[32], path[64];
    float *source, *want, *got = memory(to, sizeof *got);
    bool good;
    demand(h5_open("tests/ref/swin_tables.h5", &file));
    snprintf(name, sizeof name, "%dx%d_%dx%d", row->from_h, row->from_w, row->to_h, row->to_w);
    snprintf(path, sizeof path, "/%s/source", name);
    source = read_floats(file, path, from);
    snprintf(path, sizeof path, "/%s/resampled", name);
    want = read_floats(file, path, to);
    demand(relative_resample(source, row->from_h, row->from_w, got, row->to_h, row->to_w, HEADS));
    good = matches(name, row->why, want, got, to, TABLE_TOLERANCE);
    mem_free(source);
    mem_free(want);
    mem_free(got);
    demand(h5_close(&file));
    assert_true(good);
}

static void test_equal_window_is_copied(void **state) {
    float source[15 * HEADS], got[15 * HEADS];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(source); i++)
        source[i] = 1.0f / (float)(i + 1);
    demand(relative_resample(source, 2, 3, got, 2, 3, HEADS));
    assert_memory_equal(source, got, sizeof source);
}

/* ---- version 2 ------------------------------------------------------------------------------- */

/* Offsets 0 to side-1; six decimals. */
static void test_coordinates(void **state) {
    static const struct {
        int window, side;
        double want[16];
    } rows[] = {{8, 8, {0, 0.366512, 0.572069, 0.715614, 0.826016, 0.915745, 0.991335, 1.056642}},
                {12,
                 16,
                 {0, 0.262832, 0.431819, 0.556617, 0.655611, 0.737665, 0.807737, 0.868886, 0.923129,
                  0.971869, 1.016121, 1.056642, 1.094012, 1.128686, 1.161028, 1.191330}},
                {1, 1, {0}}};
    (void)state;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        for (int d = 0; d < rows[r].side; d++) {
            const double got = swin_coordinate(d, rows[r].window);
            if (!(fabs(got - rows[r].want[d]) < 6e-7))
                fail_msg("window %d, offset %d: %.7f", rows[r].window, d, got);
            assert_true(swin_coordinate(-d, rows[r].window) == -got);
        }
    }
}

/*
 * timm's coordinates are float32, the rest of the reference float64: 1.2e-7 apart at most. The
 * axes swapped are off by 0.4, the window run in place of the pretrained one by 0.15.
 */
#define BIAS_TOLERANCE 1e-6

static const struct bias_row {
    int window_h, window_w, pretrained;
    const char *why;
} bias_rows[] = {
    {8, 8, 0, "as trained"},
    {16, 16, 12, "wider than trained"},
    {8, 8, 6, "the last stage of 12 to 16"},
    {3, 5, 0, "not square: each axis by its own length"},
    {1, 1, 0, "a single offset"},
    {1, 2, 1, "trained with a window of one"},
};

static float *read_part(struct h5 *file, const char *group, const char *name, size_t count) {
    char path[96];
    snprintf(path, sizeof path, "/%s/%s", group, name);
    return read_floats(file, path, count);
}

static void test_position_bias(void **state) {
    const struct bias_row *row = *state;
    const int H = HEADS, height = 2 * row->window_h - 1, width = 2 * row->window_w - 1;
    const size_t N = (size_t)rows_of(row->window_h, row->window_w);
    struct h5 *file = NULL;
    char name[32];
    float *got = memory(N * HEADS, sizeof *got), *axes = memory(2 * N, sizeof *axes);
    bool good;
    demand(h5_open("tests/ref/swin_tables.h5", &file));
    snprintf(name, sizeof name, "%dx%d_%d", row->window_h, row->window_w, row->pretrained);
    float *w1 = read_part(file, name, "cpb_mlp.0.weight", 2 * SWIN_CPB_HIDDEN);
    float *b1 = read_part(file, name, "cpb_mlp.0.bias", SWIN_CPB_HIDDEN);
    float *w2 = read_part(file, name, "cpb_mlp.2.weight", HEADS * SWIN_CPB_HIDDEN);
    float *coordinates = read_part(file, name, "coordinates", 2 * N);
    float *want = read_part(file, name, "bias", N * HEADS);
    for (int i = 0; i < height * width; i++) {
        const int dy = i / width - (row->window_h - 1), dx = i % width - (row->window_w - 1);
        axes[2 * i] = (float)swin_coordinate(dy, row->pretrained ? row->pretrained : row->window_h);
        axes[2 * i + 1] =
            (float)swin_coordinate(dx, row->pretrained ? row->pretrained : row->window_w);
    }
    good = matches(name, "coordinates", coordinates, axes, 2 * N, BIAS_TOLERANCE);
    swin_position_bias(w1, b1, w2, row->window_h, row->window_w, row->pretrained, H, got);
    good = matches(name, row->why, want, got, N * HEADS, BIAS_TOLERANCE) && good;
    mem_free(w1);
    mem_free(b1);
    mem_free(w2);
    mem_free(coordinates);
    mem_free(want);
    mem_free(got);
    mem_free(axes);
    demand(h5_close(&file));
    assert_true(good);
}

int main(void) {
    struct CMUnitTest tests[COUNT_OF(table_rows) + COUNT_OF(bias_rows) + 2];
    size_t count = 0;
    int failed;
    for (size_t i = 0; i < COUNT_OF(table_rows); i++)
        tests[count++] = row_test("resampled", table_rows[i].why, test_resample, &table_rows[i]);
    for (size_t i = 0; i < COUNT_OF(bias_rows); i++)
        tests[count++] =
            row_test("position bias", bias_rows[i].why, test_position_bias, &bias_rows[i]);
    tests[count++] = row_test("resampled", "an equal window", test_equal_window_is_copied, NULL);
    tests[count++] = row_test("position bias", "coordinates", test_coordinates, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
    return failed;
}
