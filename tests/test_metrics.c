/*
 * test_metrics: the numbers of an evaluation against scikit-learn's (tests/ref/metrics_golden.py),
 * Wilson's interval against scipy's, and what must hold of any run.
 */
#include "tools/metrics.h" // before cmocka.h, which has a macro `fail`

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ref/golden_metrics.h"

static void demand(enum status st) {
    if (st != ST_OK) fail_msg("%s", fail_message());
}

/* 1e-9 is what is promised; the two differ by rounding alone. */
static void check(const char *name, double got, double want) {
    printf("%-20s got %.15g, want %.15g\n", name, got, want);
    if (!(fabs(got - want) <= 1e-9)) fail_msg("%s: got %.17g, want %.17g", name, got, want);
}

static struct metrics golden_metrics(void) {
    struct metrics m;
    demand(metrics_init(&m, GOLDEN_CLASSES, 5, GOLDEN_BINS));
    for (size_t i = 0; i < COUNT_OF(golden_outcomes); i++)
        demand(metrics_add(&m, &golden_outcomes[i]));
    return m;
}

static void test_totals(void **state) {
    struct metrics m = golden_metrics();
    const struct metrics_totals t = metrics_total(&m);
    (void)state;
    check("top-1", t.top1.share, golden_values.top1);
    check("top-5", t.topk.share, golden_values.topk);
    check("mean per class", t.mean_per_class, golden_values.mean_per_class);
    check("precision", t.precision, golden_values.precision);
    check("recall", t.recall, golden_values.recall);
    check("f1", t.f1, golden_values.f1);
    check("weighted precision", t.weighted_precision, golden_values.weighted_precision);
    check("weighted recall", t.weighted_recall, golden_values.weighted_recall);
    check("weighted f1", t.weighted_f1, golden_values.weighted_f1);
    check("ece", t.ece, golden_values.ece);
    check("nll", t.nll, golden_values.nll);
    metrics_release(&m);
    metrics_release(&m);
}

static void test_classes(void **state) {
    struct metrics m = golden_metrics();
    (void)state;
    for (int i = 0; i < GOLDEN_CLASSES; i++) {
        const struct metrics_scores s = metrics_scores(&m, i);
        check("class precision", s.precision, golden_classes[i][0]);
        check("class recall", s.recall, golden_classes[i][1]);
        check("class f1", s.f1, golden_classes[i][2]);
    }
    metrics_release(&m);
}

static void test_confusion(void **state) {
    struct metrics m = golden_metrics();
    size_t count, at = 0;
    struct metrics_pair *pairs = metrics_pairs(&m, false, &count);
    (void)state;
    for (int i = 0; i < GOLDEN_CLASSES; i++)
        for (int j = 0; j < GOLDEN_CLASSES; j++) {
            const bool here = at < count && pairs[at].target == i && pairs[at].best == j;
            assert_int_equal(here ? pairs[at].count : 0, golden_confusion[i][j]);
            at += here;
        }
    assert_int_equal(at, count);
    mem_free(pairs);
    pairs = metrics_pairs(&m, true, &count);
    for (size_t i = 0; i < count; i++) {
        assert_int_not_equal(pairs[i].target, pairs[i].best);
        assert_true(i == 0 || pairs[i].count <= pairs[i - 1].count);
    }
    mem_free(pairs);
    metrics_release(&m);
}

/* More pairs than the table begins with, counted against a plain matrix. */
static void test_many_pairs(void **state) {
    enum { K = 97, N = 60000 };
    static int matrix[K][K];
    struct metrics m;
    size_t count, seen = 0;
    struct metrics_pair *pairs;
    (void)state;
    demand(metrics_init(&m, K, 5, 1));
    for (unsigned n = 0, x = 1; n < N; n++) {
        x = x * 1664525u + 1013904223u;
        const int target = (int)(x >> 8) % K, best = (int)(x >> 16) % K;
        demand(
            metrics_add(&m, &(struct outcome){target, best, target == best ? 1 : 2, 0.5f, 0.1f}));
        matrix[target][best]++;
    }
    pairs = metrics_pairs(&m, false, &count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pairs[i].count, matrix[pairs[i].target][pairs[i].best]);
        seen += pairs[i].count;
    }
    assert_int_equal(seen, N);
    mem_free(pairs);
    metrics_release(&m);
}

/* scipy 1.17.1's binomtest().proportion_ci(method="wilson"). */
static void test_wilson(void **state) {
    static const struct {
        uint64_t hits, of;
        double low, high;
    } rows[] = {{0, 0, 0, 0},
                {0, 10, 0, 0.277532799862889},
                {10, 10, 0.722467200137111, 1},
                {5, 10, 0.236593090512564, 0.763406909487436},
                {8467, 10000, 0.839505680120637, 0.853628055409136}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct metrics_share s = metrics_wilson(rows[i].hits, rows[i].of);
        check("low", s.low, rows[i].low);
        check("high", s.high, rows[i].high);
    }
}

static void test_nothing(void **state) {
    struct metrics m;
    (void)state;
    demand(metrics_init(&m, 3, 5, 15));
    const struct metrics_totals t = metrics_total(&m);
    assert_int_equal(m.topk, 3);
    assert_true(t.top1.share == 0 && t.f1 == 0 && t.ece == 0 && t.nll == 0 &&
                t.mean_per_class == 0);
    metrics_release(&m);
}

/* A probability of 0 costs much, but not everything; 1 lies in the last bin, 0 in the first. */
static void test_edges(void **state) {
    struct metrics m;
    (void)state;
    demand(metrics_init(&m, 2, 1, 4));
    demand(metrics_add(&m, &(struct outcome){0, 1, 2, 1.0f, 0.0f}));
    demand(metrics_add(&m, &(struct outcome){0, 0, 1, 0.25f, 0.25f}));
    demand(metrics_add(&m, &(struct outcome){0, 0, 1, 0.0f, 0.0f}));
    assert_true(isfinite(metrics_total(&m).nll));
    assert_int_equal(m.bins[3].images, 1);
    assert_int_equal(m.bins[0].images, 2);
    metrics_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals),    cmocka_unit_test(test_classes),
        cmocka_unit_test(test_confusion), cmocka_unit_test(test_many_pairs),
        cmocka_unit_test(test_wilson),    cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
