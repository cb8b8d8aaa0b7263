/* model: softmax, top_k, and finding models by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/model.h"

#include <cmocka.h>

static void test_top_k(void **state) {
    const float nan = NAN;
    static const struct {
        const char *why;
        int count, k;
        float values[8];
        int want[8];
    } rows[] = {
        {"one class", 1, 1, {3}, {0}},
        {"largest first", 4, 2, {1, 4, 2, 3}, {1, 3}},
        {"all of them", 4, 4, {1, 4, 2, 3}, {1, 3, 2, 0}},
        {"ties go to the lower index", 5, 3, {2, 7, 7, 2, 7}, {1, 2, 4}},
        {"ties across the cut", 4, 1, {5, 5, 5, 5}, {0}},
        {"negative", 3, 3, {-3, -1, -2}, {1, 2, 0}},
        {"infinities", 4, 4, {0, INFINITY, -INFINITY, 1}, {1, 3, 0, 2}},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int got[8];
        top_k(rows[i].values, rows[i].count, rows[i].k, got);
        for (int j = 0; j < rows[i].k; j++)
            if (got[j] != rows[i].want[j]) fail_msg("%s: place %d is %d", rows[i].why, j, got[j]);
    }
    const float values[5] = {nan, 2, nan, 3, 1};
    int got[5];
    top_k(values, 5, 5, got);
    const int want[5] = {3, 1, 4, 0, 2};
    assert_memory_equal(got, want, sizeof want);
}

/* Against the definition: order by (value, index) by repeated selection. */
static void test_top_k_large(void **state) {
    enum { COUNT = 1000 };
    float values[COUNT];
    int got[COUNT];
    unsigned seed = 1;
    (void)state;
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 24);
    for (int k = 1; k <= COUNT; k += 111) {
        bool taken[COUNT] = {false};
        top_k(values, COUNT, k, got);
        for (int j = 0; j < k; j++) {
            int best = -1;
            for (int i = 0; i < COUNT; i++)
                if (!taken[i] && (best < 0 || values[i] > values[best])) best = i;
            taken[best] = true;
            assert_int_equal(got[j], best);
        }
    }
}

static void test_softmax(void **state) {
    float flat[4] = {7, 7, 7, 7}, huge[3] = {1e4f, 1e4f - 1, -1e4f}, sum = 0;
    (void)state;
    softmax(flat, 4);
    for (int i = 0; i < 4; i++)
        assert_true(flat[i] == 0.25f);
    softmax(huge, 3);
    for (int i = 0; i < 3; i++)
        sum += huge[i];
    assert_true(fabsf(sum - 1) < 1e-6f && fabsf(huge[0] - 0.7310586f) < 1e-6f && huge[2] == 0);
}

static void test_all_finite(void **state) {
    const float values[4] = {0, -3e38f, INFINITY, NAN};
    (void)state;
    assert_true(all_finite(values, 0) && all_finite(values, 2));
    assert_false(all_finite(values, 3));
    assert_false(all_finite(values + 3, 1));
}

static void test_find(void **state) {
    static const struct {
        const char *name, *sentence;
        enum status want;
    } rows[] = {
        {"vit-cifar10", NULL, ST_OK},
        {"no-such-model", "no embedded model of that name", ST_IO},
        {"./missing.h5", "missing.h5", ST_IO},
        {"Makefile", "for a file of that name say ./Makefile", ST_USAGE},
        {"./Makefile", "expected an HDF5 file", ST_FORMAT},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct h5 *file = NULL;
        enum status st = model_find(rows[i].name, &file);
        if (st != rows[i].want) fail_msg("%s: status %d, %s", rows[i].name, st, fail_message());
        if (rows[i].sentence && !strstr(fail_message(), rows[i].sentence))
            fail_msg("%s: said '%s'", rows[i].name, fail_message());
        assert_int_equal(h5_close(&file), ST_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_k), cmocka_unit_test(test_top_k_large),
        cmocka_unit_test(test_softmax), cmocka_unit_test(test_all_finite),
        cmocka_unit_test(test_find)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
