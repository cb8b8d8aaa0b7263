/*
 * test_attention_mutants: faults planted in the CUDA attention kernels must be caught by what
 * test_attention_cuda checks: every one of tests/mutants.h, and every barrier, wait, shuffle, copy
 * and transposing load of the kernels, each broken in turn.
 */
#include "tests/attention_subject.h"

#if HAVE_CXX

static const struct simt_options schedules[] = {
    {.schedule = SIMT_WARP_GREEDY},
    {.schedule = SIMT_ROUND_ROBIN},
    {.schedule = SIMT_WARP_GREEDY, .eager = true},
    {.schedule = SIMT_ROUND_ROBIN, .eager = true},
};

/* Small, but together they take every way through the kernels. */
static const struct window_shape windows[] = {
    {1, 9, 16, 7, 7, 3, 2, 2, 32, 0, 1, true, "padded and shifted, two heads a block"},
    {1, 9, 9, 9, 8, 4, 0, 1, 32, 0, 1, false, "72 slots: warps share a head"},
    {1, 5, 11, 3, 5, 1, 2, 2, 24, 3, 4, false, "cosine, padded with zeros"},
};
static const struct head_shape heads[] = {
    {20, 47, 16, 33, SCORE_DOT, 0, "resident, cut", NO_MAP},
    {20, 300, 16, 290, SCORE_DOT, 0, "streaming, cut", NO_MAP},
    {20, 300, 16, 300, SCORE_COSINE, 3, "streaming, cosine", NO_MAP},
    {23, 23, 16, 20, SCORE_COSINE, 3, "a bias, two tokens in front", 3, 7, 2},
    {19, 150, 72, 150, SCORE_DOT, 300, "huge scores, a wide head", NO_MAP},
};
enum { SUBJECTS = COUNT_OF(windows) + COUNT_OF(heads), WAYS = SUBJECTS * COUNT_OF(schedules) };

static struct subject subjects[SUBJECTS];

static void subjects_init(enum cuda_type type) {
    for (size_t i = 0; i < COUNT_OF(windows); i++)
        subject_of_window(&subjects[i], &windows[i], type, SPARE_WIDE, 0);
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        subject_of_head(&subjects[COUNT_OF(windows) + i], &heads[i], type, SPARE_WIDE, 2);
    for (size_t i = 0; i < SUBJECTS; i++)
        subject_reference(&subjects[i]);
}

static void subjects_release(void) {
    for (size_t i = 0; i < SUBJECTS; i++)
        subject_release(&subjects[i]);
}

/* Whether one subject under one schedule, the `way`, is as it should be with the fault. */
static bool survives(int way, int broken, enum mutant mutant) {
    struct subject *s = &subjects[way % SUBJECTS];
    struct simt_options options = schedules[way / SUBJECTS];
    options.broken = broken;
    options.mutant = mutant;
    return subject_run(s, &options, true) == ST_OK && subject_good(s, NULL, true);
}

/* The first way that does not survive, or WAYS. */
static int caught_by(int broken, enum mutant mutant) {
    int way = 0;
    while (way < WAYS && survives(way, broken, mutant))
        way++;
    return way;
}

/* Whether the fault was caught; says by what, or that it was not. */
static bool report(const char *fault, int way) {
    if (way == WAYS)
        printf("not caught: %s\n", fault);
    else
        printf("  %-60s %s\n", fault, subjects[way % SUBJECTS].why);
    return way < WAYS;
}

/* Without a fault all is well; every site has now run. */
static void all_survive(void) {
    simt_forget_sites();
    assert_int_equal(caught_by(0, MUTANT_NONE), WAYS);
}

static void every_site_matters(void **state) {
    static const enum cuda_type types[] = {CUDA_FP32, CUDA_FP16};
    bool good = true;
    (void)state;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        subjects_init(types[t]);
        all_survive();
        int count = simt_site_count();
        assert_true(count >= 8);
        for (int i = 0; i < count; i++) {
            char fault[200];
            snprintf(fault, sizeof fault, "%s, broken", simt_site_name(i));
            good &= report(fault, caught_by(i + 1, MUTANT_NONE));
        }
        subjects_release();
    }
    assert_true(good);
}

#define FAULT(name, what) {MUTANT_##name, what},
static const struct {
    enum mutant mutant;
    const char *what;
} faults[] = {ATTENTION_MUTANTS(FAULT)};

/* Of the tensor cores' kernel alone. */
static bool is_of_mma(enum mutant mutant) {
    return mutant == MUTANT_SWIZZLE || mutant == MUTANT_RING || mutant == MUTANT_VALUE_TAIL;
}

static void every_mutant_is_caught(void **state) {
    static const enum cuda_type types[] = {CUDA_FP32, CUDA_BF16};
    bool good = true;
    (void)state;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        subjects_init(types[t]);
        all_survive();
        for (size_t i = 0; i < COUNT_OF(faults); i++)
            if (types[t] != CUDA_FP32 || !is_of_mma(faults[i].mutant))
                good &= report(faults[i].what, caught_by(0, faults[i].mutant));
        subjects_release();
    }
    assert_true(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_site_matters),
        cmocka_unit_test(every_mutant_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void no_compiler(void **state) {
    (void)state;
    printf("skip: no C++ compiler, the CUDA kernels cannot be run in the simulator\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_compiler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
