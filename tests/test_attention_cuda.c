/*
 * test_attention_cuda: the CUDA attention kernels in the simulator, against double precision, under
 * every schedule; no GPU is asked for.
 */
#include "tests/attention_subject.h"

#if HAVE_CXX

static const struct simt_options schedules[] = {
    {.schedule = SIMT_ROUND_ROBIN},
    {.schedule = SIMT_WARP_GREEDY},
    {.schedule = SIMT_ROUND_ROBIN, .eager = true},
    {.schedule = SIMT_WARP_GREEDY, .eager = true},
};

static const enum cuda_type types[] = {CUDA_FP32, CUDA_FP16, CUDA_BF16};

static void *copy_of(const void *from, size_t size) {
    void *copy = mem_zalloc(size, 1);
    assert_non_null(copy);
    memcpy(copy, from, size);
    return copy;
}

static bool run(struct subject *s, const struct simt_options *options, bool probs) {
    if (subject_run(s, options, probs) == ST_OK) return true;
    printf("%s, %s: %s\n", cuda_type_names[s->type], s->why, fail_message());
    return false;
}

/*
 * The shape with 16-byte loads under every schedule, then with rows that allow none: the same bits,
 * with and without probabilities, near double precision. `odd` is the same with odd rows.
 */
static bool agrees(struct subject *s, struct subject *odd) {
    static const struct simt_options random = {.schedule = SIMT_RANDOM, .seed = 7};
    subject_reference(s);
    size_t y_bytes = y_count(s) * sizeof(float), probs_bytes = probs_count(s) * sizeof(float);
    size_t scores_bytes = row_count(s) * sizeof(float);
    bool good = run(s, &schedules[0], true) && subject_good(s, cuda_type_names[s->type], true);
    float *y = copy_of(s->got, y_bytes), *probs = copy_of(s->probs, probs_bytes);
    float *scores = copy_of(s->greatest, scores_bytes);
    for (size_t i = 1; i < COUNT_OF(schedules); i++) {
        bool with = i % 2 == 0;
        good &= run(s, &schedules[i], with) && memcmp(y, s->got, y_bytes) == 0;
        good &= !with || (memcmp(probs, s->probs, probs_bytes) == 0 &&
                          memcmp(scores, s->greatest, scores_bytes) == 0);
        if (!good) printf("%s, %s: schedule %zu\n", cuda_type_names[s->type], s->why, i);
    }
    good &= run(odd, &random, true) && subject_gaps_whole(odd) &&
            memcmp(y, odd->got, y_bytes) == 0 && memcmp(probs, odd->probs, probs_bytes) == 0 &&
            memcmp(scores, odd->greatest, scores_bytes) == 0;
    if (!good) printf("%s, %s: failed\n", cuda_type_names[s->type], s->why);
    mem_free(y);
    mem_free(probs);
    mem_free(scores);
    return good;
}

static void heads_against_double(void **state) {
    bool good = true;
    (void)state;
    for (size_t i = 0; i < HEAD_SHAPE_COUNT; i++)
        for (size_t t = 0; t < COUNT_OF(types); t++) {
            struct subject s, odd;
            subject_of_head(&s, &head_shapes[i], types[t], SPARE_WIDE, 0);
            subject_of_head(&odd, &head_shapes[i], types[t], SPARE_ODD, 0);
            good &= agrees(&s, &odd);
            subject_release(&s);
            subject_release(&odd);
        }
    assert_true(good);
}

static void windows_against_double(void **state) {
    bool good = true;
    (void)state;
    for (size_t i = 0; i < WINDOW_SHAPE_COUNT; i++)
        for (size_t t = 0; t < COUNT_OF(types); t++) {
            struct subject s, odd;
            subject_of_window(&s, &window_shapes[i], types[t], SPARE_WIDE, 0);
            subject_of_window(&odd, &window_shapes[i], types[t], SPARE_ODD, 0);
            good &= agrees(&s, &odd);
            subject_release(&s);
            subject_release(&odd);
        }
    assert_true(good);
}

/* Less shared memory (Turing, Ampere's small dies) changes the plan, not the result. */
static void smaller_devices(void **state) {
    static const struct simt_options devices[] = {
        {.shared_block = 64 * 1024, .shared_sm = 64 * 1024, .no_bf16_mma = true},
        {.shared_block = 99 * 1024, .shared_sm = 100 * 1024},
        {.shared_block = 99 * 1024,
         .shared_sm = 100 * 1024,
         .schedule = SIMT_WARP_GREEDY,
         .eager = true},
    };
    static const struct head_shape heads[] = {
        {197, 197, 64, 197, SCORE_DOT, 0, "ViT-B at 224, streamed", NO_MAP},
        {70, 150, 128, 150, SCORE_DOT, 0, "a head of 128 that Turing cannot hold", NO_MAP},
        {49, 49, 128, 49, SCORE_DOT, 0, "fewer heads a block", NO_MAP},
        {60, 200, 64, 180, SCORE_COSINE, 5, "cosine, streamed", NO_MAP},
        {197, 197, 64, 197, SCORE_DOT, 0, "BEiT-B at 224, streamed", 14, 14, 1},
    };
    static const struct window_shape window = {
        1, 16, 20, 16, 16, 8, 8, 1, 64, 5, 4, true, "N = 256, streamed"};
    bool good = true;
    (void)state;
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct subject s;
        for (size_t i = 0; i < COUNT_OF(heads); i++) {
            subject_of_head(&s, &heads[i], CUDA_FP16, SPARE_WIDE, 0);
            subject_reference(&s);
            good &= run(&s, &devices[d], true) && subject_good(&s, "fp16", true);
            subject_release(&s);
        }
        subject_of_window(&s, &window, CUDA_BF16, SPARE_WIDE, 0);
        subject_reference(&s);
        good &= run(&s, &devices[d], true) && subject_good(&s, "bf16", true);
        subject_release(&s);
    }
    assert_true(good);
}

/* A window whose tables shared memory does not hold goes another way. */
static void large_window(void **state) {
    static const struct window_shape window = {
        1, 46, 43, 46, 46, 5, 16, 1, 8, 0, 1, true, "N = 2116, padded and shifted"};
    struct subject s;
    (void)state;
    subject_of_window(&s, &window, CUDA_FP16, SPARE_WIDE, 0);
    subject_reference(&s);
    assert_true(run(&s, &schedules[1], true) && subject_good(&s, "fp16", true));
    subject_release(&s);
}

/* An image's bits do not depend on those beside it. */
static void batch_does_not_matter(void **state) {
    static const struct head_shape heads[] = {
        {65, 65, 32, 65, SCORE_DOT, 0, "resident", NO_MAP},
        {30, 300, 16, 270, SCORE_DOT, 0, "streaming, cut", NO_MAP},
    };
    (void)state;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        struct subject one, four;
        for (size_t i = 0; i < COUNT_OF(heads) + 1; i++) {
            if (i < COUNT_OF(heads)) {
                subject_of_head(&one, &heads[i], types[t], SPARE_WIDE, 1);
                subject_of_head(&four, &heads[i], types[t], SPARE_WIDE, 4);
            } else {
                subject_of_window(&one, &window_shapes[7], types[t], SPARE_WIDE, 1);
                subject_of_window(&four, &window_shapes[7], types[t], SPARE_WIDE, 4);
            }
            assert_true(run(&one, &schedules[0], true) && run(&four, &schedules[1], true));
            assert_memory_equal(one.got, four.got, y_count(&one) * sizeof(float));
            assert_memory_equal(one.probs, four.probs, probs_count(&one) * sizeof(float));
            subject_release(&one);
            subject_release(&four);
        }
    }
}

static int nan_count(const float *row, int n) {
    int count = 0;
    for (int i = 0; i < n; i++)
        count += isnan(row[i]) != 0;
    return count;
}

/* Stores x in the operand's row (part 0, 1, 2: q, k, v; image 0), all columns. */
static void poke(struct subject *s, int part, int row, float x) {
    for (int c = 0; c < s->width; c++)
        type_store(s->type, s->qkv, (size_t)row * qkv_pitch(s) + (size_t)(part * s->width + c), x);
}

/*
 * NaN in a query is its own row's alone, behind the valid keys nobody's, in a valid key all rows'.
 * An infinite score is NaN, and a row of nothing but -inf, as in PyTorch.
 */
static void not_a_number(void **state) {
    static const struct head_shape shapes[] = {
        {21, 150, 16, 140, SCORE_DOT, 1, "NaN, resident", NO_MAP},
        {21, 300, 16, 270, SCORE_DOT, 1, "NaN, streaming", NO_MAP},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (size_t t = 0; t < COUNT_OF(types); t++) {
            struct subject s;
            subject_of_head(&s, &shapes[i], types[t], SPARE_WIDE, 1);
            for (int j = 0; j < s.tk; j++)
                poke(&s, 1, j, j < shapes[i].valid ? 1 : NAN);
            for (int j = shapes[i].valid; j < s.tk; j++)
                poke(&s, 2, j, NAN);
            poke(&s, 0, 2, NAN);
            poke(&s, 0, 4, -INFINITY);
            poke(&s, 0, 6, INFINITY);
            assert_true(run(&s, &schedules[1], true));
            for (int r = 0; r < s.tq; r++) {
                bool bad = r == 2 || r == 4 || r == 6;
                assert_int_equal(nan_count(s.got + r * s.width, s.width), bad ? s.width : 0);
                assert_int_equal(nan_count(s.probs + r * s.tk, s.tk), bad ? shapes[i].valid : 0);
            }
            poke(&s, 1, 77, NAN);
            assert_true(run(&s, &schedules[0], false));
            assert_int_equal(nan_count(s.got, (int)y_count(&s)), y_count(&s));
            subject_release(&s);
        }
}

/* Scores of some 1e4: the softmax is one-hot, nothing overflows. */
static void huge_scores(void **state) {
    static const struct head_shape shape = {
        19, 300, 8, 300, SCORE_DOT, 2000, "scores of 1e4, several key blocks", NO_MAP};
    (void)state;
    for (size_t t = 0; t < COUNT_OF(types); t++) {
        struct subject s;
        subject_of_head(&s, &shape, types[t], SPARE_WIDE, 1);
        subject_reference(&s);
        assert_true(run(&s, &schedules[0], true));
        /* A score of 3e4 has an error of 4e-3 in fp32, and the two greatest may be near. */
        assert_true(op_close("huge", s.got, s.want, s.ones, y_count(&s), 1e-2));
        assert_true(op_close("huge", s.probs, s.want_probs, s.ones, probs_count(&s), 1e-2));
        assert_true(
            scores_close("huge", s.greatest, s.want_greatest, row_count(&s), SUBJECT_SCORES));
        subject_release(&s);
    }
}

/* Of the tensor cores' work, what is between real queries, keys and channels: counted. */
static void useful_work(void **state) {
    static const struct {
        int tokens, dim;
        double least;
    } rows[] = {{49, 32, 0.585}, {64, 32, 1},     {144, 32, 1},     {197, 64, 0.895},
                {256, 64, 1},    {257, 80, 0.89}, {577, 64, 0.949}, {197, 72, 0.80}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int n = rows[i].tokens, d = rows[i].dim;
        struct head_shape shape = {n, n, d, n, SCORE_DOT, 0, "useful work", NO_MAP};
        struct subject s;
        double useful;
        subject_of_head(&s, &shape, CUDA_FP16, SPARE_WIDE, 1);
        simt_products = 0;
        assert_true(run(&s, &schedules[0], false));
        useful = 4.0 * n * n * d * s.desc.heads / (4096.0 * (double)simt_products);
        printf("N = %d, D = %d: %.1f %% of the products are useful\n", n, d, 100 * useful);
        assert_true(useful >= rows[i].least && useful <= 1);
        subject_release(&s);
    }
}

static void refusals(void **state) {
    static const struct {
        enum attention_pattern pattern;
        const char *sentence;
    } rows[] = {
        {PATTERN_CAUSAL, "the cuda backend has no causal pattern yet"},
        {PATTERN_LOCAL, "the cuda backend has no local pattern yet"},
        {PATTERN_AXIAL, "the cuda backend has no axial pattern yet"},
        {PATTERN_GLOBAL_LOCAL, "the cuda backend has no global+local pattern yet"},
    };
    static const struct head_shape wide = {
        1, 2, 9000, 2, SCORE_DOT, 0, "wider than shared memory", NO_MAP};
    static const struct simt_options turing = {.shared_block = 64 * 1024, .shared_sm = 64 * 1024};
    struct subject s;
    (void)state;
    subject_of_head(&s, &head_shapes[0], CUDA_FP16, SPARE_WIDE, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        s.desc.pattern = rows[i].pattern;
        assert_int_equal(subject_run(&s, &schedules[0], false), ST_DEVICE);
        assert_string_equal(fail_message(), rows[i].sentence);
    }
    subject_release(&s);
    subject_of_head(&s, &wide, CUDA_FP32, SPARE_WIDE, 1);
    assert_int_equal(subject_run(&s, &turing, false), ST_DEVICE);
    assert_string_equal(fail_message(), "a head of 9000 channels needs 155184 bytes of shared "
                                        "memory, there are 65536");
    subject_release(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_against_double),
        cmocka_unit_test(windows_against_double),
        cmocka_unit_test(smaller_devices),
        cmocka_unit_test(large_window),
        cmocka_unit_test(batch_does_not_matter),
        cmocka_unit_test(not_a_number),
        cmocka_unit_test(huge_scores),
        cmocka_unit_test(useful_work),
        cmocka_unit_test(refusals),
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
