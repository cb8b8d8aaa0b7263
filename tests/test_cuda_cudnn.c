/*
 * test_cuda_cudnn: the CUDA backend with cuDNN's stand-in (tests/fake_cuda_dnn.cc): which way an op
 * takes, that every way gives what the CPU gives, what is kept on disk, and what goes wrong.
 */
#include "kernels/backend.h" // before cmocka.h, which has a macro `fail`

#if HAVE_CXX

#include "tests/cuda_stand_in.h"

enum { HALF = 1, TYPES = 3 };                        /* of precisions[]: the 16-bit ones */
enum { CUDA_PART_MIB = 4, CUDA_WORKSPACE_MIB = 32 }; /* what a backend takes for itself */

/* ---- attention ------------------------------------------------------------------------------- */

struct attention_row {
    int queries, keys, heads, width, spare;
    bool packed; /* q, k and v side by side */
    const char *why;
};

static const struct attention_row long_rows[] = {
    {290, 290, 2, 8, 0, true, "17 x 17 patches and a token, packed"},
    {290, 290, 1, 64, 0, false, "the usual width"},
    {1, 300, 3, 16, 0, false, "one query"},
    {270, 257, 2, 24, 8, false, "more queries than keys, spare columns"},
};

static void attend(struct duo *duo, const struct attention_row *row, float scale) {
    const int width = row->heads * row->width;
    struct twin y = twin_take(duo, 2, row->queries, width, row->spare), q, k, v;
    if (row->packed) {
        struct twin all = twin_take(duo, 2, row->keys, 3 * width, 0);
        q = k = v = all;
        for (int i = 0; i < 2; i++) {
            q.on[i] = act_columns(all.on[i], 0, width);
            k.on[i] = act_columns(all.on[i], width, width);
            v.on[i] = act_columns(all.on[i], 2 * width, width);
        }
    } else {
        q = twin_take(duo, 2, row->queries, width, row->spare);
        k = twin_take(duo, 2, row->keys, width, row->spare);
        v = twin_take(duo, 2, row->keys, width, row->spare);
    }
    for (int i = 0; i < 2; i++) {
        const struct attention desc = {.heads = row->heads, .head_dim = row->width, .scale = scale};
        op_attention(duo->be[i], &desc, q.on[i], k.on[i], v.on[i], y.on[i]);
    }
    duo_compare(duo, "attention", row->why, &y);
}

/* What cuDNN is, and which way is the fastest: what is to be taken. */
static const struct way_row {
    const char *name, *env;
    bool missing, no_handle, no_plans;
    int fastest, refuse; /* 1 + plan */
    int taken;           /* the plan; -1: the own kernels */
    int loaded, built;   /* built: of the first row */
} ways[] = {
    {"own", NULL, false, false, false, 0, 0, -1, 1, 4},
    {"plan 0", NULL, false, false, false, 1, 0, 0, 1, 4},
    {"plan 1", NULL, false, false, false, 2, 0, 1, 1, 4},
    {"plan 2", NULL, false, false, false, 3, 0, 2, 1, 4},
    {"plan 3, which wants too much memory", NULL, false, false, false, 4, 0, -1, 1, 4},
    {"plan 0, which is refused", NULL, false, false, false, 1, 1, -1, 1, 3},
    {"plan 1, and 0 is refused", NULL, false, false, false, 2, 1, 1, 1, 3},
    {"not installed", NULL, true, false, false, 1, 0, -1, 0, 0},
    {"not for this device", NULL, false, true, false, 1, 0, -1, 1, 0},
    {"without plans", NULL, false, false, true, 1, 0, -1, 1, 0},
    {"switched off", "0", false, false, false, 1, 0, -1, 0, 0},
};

static void way_open(const struct way_row *way) {
    fake_cuda_reset();
    fake_cuda_options.no_cudnn = way->missing;
    fake_cuda_options.no_handle = way->no_handle;
    fake_cuda_options.no_plans = way->no_plans;
    fake_cuda_options.fastest_plan = way->fastest;
    fake_cuda_options.refuse_plan = way->refuse;
    if (way->env) setenv("VITRINE_CUDNN", way->env, 1);
}

static void way_check(const struct way_row *way, const struct fake_cuda_counts *before) {
    const int launched = fake_cuda_counts.plans - before->plans;
    assert_int_equal(fake_cuda_counts.cudnn, way->loaded);
    assert_int_equal(launched > 0, way->taken >= 0 || fake_cuda_counts.built > before->built);
    if (way->taken >= 0) assert_int_equal(fake_cuda_counts.plan, way->taken);
}

/* Run, captured, replayed: the same values each time, timed once, the graph's launch alone. */
static void check_way(const struct way_row *way, const char *precision, double tolerance,
                      size_t rows) {
    struct duo duo;
    way_open(way);
    duo_start(&duo, precision, tolerance);
    for (size_t r = 0; r < rows; r++)
        for (int round = 0; round < 3; round++) {
            const struct fake_cuda_counts before = fake_cuda_counts;
            const int launches = (round == 0) + (round == 1); /* the second goes into a graph */
            attend(&duo, &long_rows[r], 0.3f);
            if (round == 0) way_check(way, &before);
            if (round == 0 && r == 0) assert_int_equal(fake_cuda_counts.built, way->built);
            if (round == 0) continue;
            assert_int_equal(fake_cuda_counts.timings, before.timings);
            assert_int_equal(fake_cuda_counts.built, before.built);
            assert_int_equal(fake_cuda_counts.plans - before.plans, way->taken >= 0 ? launches : 0);
            assert_true(fake_cuda_counts.graph_launches > before.graph_launches);
        }
    assert_int_equal(strstr(backend_describe(duo.be[1]), ", cuDNN 9.19") != NULL,
                     way->loaded && !way->no_handle);
    duo_close(&duo);
    unsetenv("VITRINE_CUDNN");
    check_clean(way->name);
    printf("%-36s %s: worst %.2e\n", way->name, precision, duo.worst);
    assert_true(duo.good);
}

/* Every shape and type by the own kernels and by a plan; the first shape every way. */
static void test_attention(void **state) {
    (void)state;
    for (size_t w = 0; w < COUNT_OF(ways); w++)
        for (int p = HALF; p < TYPES; p++)
            if (w < 2 || p == HALF)
                check_way(&ways[w], precisions[p].name, precisions[p].op,
                          w < 2 ? COUNT_OF(long_rows) : 1);
}

/* Another scale is another graph. */
static void test_scales(void **state) {
    static const float scales[] = {0.3f, 1.1f, 0.3f};
    struct duo duo;
    (void)state;
    fake_cuda_reset();
    fake_cuda_options.fastest_plan = 1;
    duo_start(&duo, "fp16", precisions[HALF].op);
    for (size_t i = 0; i < COUNT_OF(scales); i++)
        attend(&duo, &long_rows[0], scales[i]);
    duo_close(&duo);
    assert_true(duo.good);
    assert_int_equal(fake_cuda_counts.built, 2 * 4);
    check_clean("scales");
}

/* What is not for cuDNN is not asked of it: it is not even loaded. */
static void test_not_taken(void **state) {
    static const struct attention_row rows[] = {
        {290, 256, 2, 8, 0, false, "256 keys"},
        {290, 290, 2, 12, 0, false, "a width of 12"},
        {290, 290, 2, 8, 3, false, "not aligned"},
    };
    static const struct head_shape shapes[] = {
        {270, 270, 270, 16, SCORE_DOT, 0.25f, "probabilities", NO_MAP},
        {270, 270, 100, 16, SCORE_DOT, 0.25f, "lengths", NO_MAP},
        {270, 270, 270, 16, SCORE_COSINE, 8, "cosine", NO_MAP},
    };
    struct duo duo;
    (void)state;
    fake_cuda_reset();
    fake_cuda_options.fastest_plan = 1;
    duo_start(&duo, "fp16", precisions[HALF].op);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        attend(&duo, &rows[i], 0.3f);
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        duo_heads(&duo, &shapes[i], i == 0, 0);
    duo_close(&duo);
    duo_start(&duo, "fp32", precisions[0].op);
    attend(&duo, &long_rows[0], 0.3f);
    assert_int_equal(fake_cuda_counts.cudnn, 0);
    duo_close(&duo);
    check_clean("not taken");
    assert_true(duo.good);
}

/* The result's place is read by what comes before it: timing must not write there. */
static void test_place(void **state) {
    enum { T = 290, C = 16 };
    struct duo duo;
    (void)state;
    fake_cuda_reset();
    fake_cuda_options.fastest_plan = 1;
    duo_start(&duo, "fp16", precisions[HALF].op);
    struct twin x = twin_take(&duo, 1, T, C, 0), y = twin_take(&duo, 1, T, C, 0);
    struct twin z = twin_take(&duo, 1, 1, C, 0);
    for (int i = 0; i < 2; i++) {
        const struct attention desc = {.heads = 1, .head_dim = C, .scale = 0.3f};
        op_mean(duo.be[i], y.on[i], z.on[i]);
        op_attention(duo.be[i], &desc, x.on[i], x.on[i], x.on[i], y.on[i]);
    }
    duo_compare(&duo, "mean", "of what attention overwrites", &z);
    assert_true(fake_cuda_counts.plans > 0);
    duo_close(&duo);
    assert_true(duo.good);
    check_clean("place");
}

/* ---- embedding ------------------------------------------------------------------------------- */

struct embed_row {
    int batch, h, w, patch_h, patch_w, out;
    bool bias, taken;
    const char *why;
};

static const struct embed_row embeds[] = {
    {2, 24, 40, 8, 8, 16, true, true, "a picture that is wide"},
    {1, 15, 15, 3, 5, 8, true, true, "an odd number of pixels, patches that are not square"},
    {3, 12, 8, 4, 2, 24, false, true, "no bias"},
    {2, 24, 40, 8, 8, 12, true, false, "12 channels"},
};

/* One embedding of pixels that `seed` says, by a projection of its own. */
static void embed(struct duo *duo, const struct embed_row *row, unsigned seed, bool read) {
    const int in = 3 * row->patch_h * row->patch_w;
    const size_t weights = (size_t)in * (size_t)row->out;
    const size_t bytes = (size_t)row->batch * (size_t)(row->h * row->w) * 3;
    float *values = memory(weights + (size_t)row->out, sizeof *values);
    uint8_t *pixels = memory(bytes, 1);
    struct linear_spec spec = {.name = "proj", .in = in, .out = row->out, .weight = values};
    const int tokens = row->h / row->patch_h * (row->w / row->patch_w);
    struct twin y = twin_take(duo, row->batch, tokens, row->out, 0);
    op_fill(values, weights + (size_t)row->out, seed);
    for (size_t i = 0; i < weights; i++)
        values[i] /= sqrtf((float)in);
    spec.bias = row->bias ? values + weights : NULL;
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
    for (int i = 0; i < 2; i++) {
        struct patch_spec patch = {
            row->h, row->w, row->patch_h, row->patch_w, {0.1f, 0.4f, 0.5f}, {0.2f, 0.3f, 0.25f},
            NULL};
        demand(linear_load(duo->be[i], &spec, &patch.proj));
        for (int round = 0; round < 3 && read; round++) { /* run, captured, replayed */
            op_patch_embed(duo->be[i], &patch, pixels, y.on[i]);
            demand(backend_sync(duo->be[i]));
        }
        if (!read) op_patch_embed(duo->be[i], &patch, pixels, y.on[i]);
    }
    duo_compare(duo, "patch_embed", row->why, &y);
    mem_free(values);
    mem_free(pixels);
}

static void test_embedding(void **state) {
    (void)state;
    setenv("VITRINE_CUDNN", "1", 1);
    for (int p = HALF; p < TYPES; p++)
        for (int fastest = 0; fastest <= 3; fastest++)
            for (size_t r = 0; r < COUNT_OF(embeds); r++) {
                const bool conv = embeds[r].taken && fastest > 0;
                struct duo duo;
                fake_cuda_reset();
                fake_cuda_options.fastest_plan = fastest;
                duo_start(&duo, precisions[p].name, precisions[p].op);
                embed(&duo, &embeds[r], 1, true);
                embed(&duo, &embeds[r], 2, true); /* the same choice, weights of its own */
                assert_int_equal(fake_cuda_counts.built, embeds[r].taken ? 4 : 0);
                if (conv) assert_int_equal(fake_cuda_counts.plan, fastest - 1);
                assert_true(fake_cuda_counts.graph_launches >= 4);
                duo_close(&duo);
                check_clean(embeds[r].why);
                assert_true(duo.good);
            }
    unsetenv("VITRINE_CUDNN");
}

/* Small batches do not load cuDNN; large ones do. */
static void test_threshold(void **state) {
    static const struct embed_row small = {1, 64, 64, 32, 32, 8, true, true, "small"};
    static const struct embed_row large = {8, 224, 224, 56, 56, 8, true, true, "large"};
    struct duo duo;
    (void)state;
    fake_cuda_reset();
    fake_cuda_options.fastest_plan = 1;
    duo_start(&duo, "fp16", precisions[HALF].op);
    embed(&duo, &small, 1, false);
    assert_int_equal(fake_cuda_counts.cudnn, 0);
    embed(&duo, &large, 1, false);
    assert_int_equal(fake_cuda_counts.cudnn, 1);
    assert_int_equal(fake_cuda_counts.plan, 0);
    duo_close(&duo);
    assert_true(duo.good);
    check_clean("threshold");
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* One pass of both ops; the counts say what it took. */
static void pass(int fastest) {
    static const struct attention_row row = {8, 257, 1, 8, 0, false, "kept"};
    struct duo duo;
    fake_cuda_reset();
    fake_cuda_options.fastest_plan = fastest;
    duo_start(&duo, "fp16", precisions[HALF].op);
    attend(&duo, &row, 0.3f);
    embed(&duo, &embeds[0], 1, false);
    duo_close(&duo);
    assert_true(duo.good);
    check_clean("kept");
}

/* The file with the first `from` made `to`. */
static void change(const char *path, const char *from, const char *to) {
    static char changed[1 << 15];
    const char *text = get_text(path), *at = strstr(text, from);
    if (at == NULL) fail_msg("no \"%s\" in %s", from, path);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    put_text(path, changed);
}

static void check_kept(const char *path) {
    static const struct {
        const char *words; /* plan and engine of the first row, which were " 2 c " */
        int built;
    } spoiled[] = {
        {" 1 c ", 0}, {" 4 b ", 0}, {" 4 e ", 1}, {" 9 c ", 0}, {" ffffffffffffffff c ", 0}};
    pass(2);
    assert_int_equal(fake_cuda_counts.built, 2 * 4);
    assert_true(fake_cuda_counts.timings > 2 * 4);
    pass(0); /* from disk, though it is slow now: nothing is timed, and only that is built */
    assert_int_equal(fake_cuda_counts.timings, 0);
    assert_int_equal(fake_cuda_counts.built, 2);
    assert_int_equal(fake_cuda_counts.plans, 2);
    assert_int_equal(fake_cuda_counts.plan, 1);
    for (size_t i = 0; i < COUNT_OF(spoiled); i++) { /* no such plan, or of another engine */
        unlink(path);
        pass(2);
        change(path, " 2 c ", spoiled[i].words);
        pass(1); /* timed again; the other row is as it was */
        assert_int_equal(fake_cuda_counts.built, spoiled[i].built + 4 + 1);
        assert_true(fake_cuda_counts.timings >= 4);
        pass(1);
        assert_int_equal(fake_cuda_counts.built, 2);
    }
    unlink(path);
    pass(0);
    pass(1); /* the own kernels, from disk */
    assert_int_equal(fake_cuda_counts.built, 0);
    assert_int_equal(fake_cuda_counts.plans, 0);
    assert_int_equal(fake_cuda_counts.timings, 0);
}

static void test_kept(void **state) {
    char folder[] = "/tmp/vitrine_test_XXXXXX", path[128];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/vitrine/tuning-Stand-in.txt", folder);
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("VITRINE_CUDNN", "1", 1);
    check_kept(path);
    setenv("VITRINE_NO_AUTOTUNE", "1", 1); /* nothing is timed, so nothing is chosen */
    pass(1);
    assert_int_equal(fake_cuda_counts.cudnn, 0);
    unsetenv("VITRINE_NO_AUTOTUNE");
    unsetenv("VITRINE_CUDNN");
    setenv("XDG_CACHE_HOME", "relative: no cache", 1);
    unlink(path);
    snprintf(path, sizeof path, "%s/vitrine", folder);
    rmdir(path);
    rmdir(folder);
}

/* ---- a model --------------------------------------------------------------------------------- */

enum { SIDE = 17 * 8 };

/* vit_token at 17 x 17 patches: 290 tokens. */
static void grown(struct session *s, const char *precision) {
    session_read(s, "vit_token");
    s->image_h = s->image_w = SIDE;
    s->image_bytes = (size_t)SIDE * SIDE * 3;
    mem_free(s->pixels);
    s->pixels = memory(IMAGES, s->image_bytes);
    for (size_t i = 0; i < IMAGES * s->image_bytes; i++)
        s->pixels[i] = (uint8_t)(128 + 100 * sin((double)i / 70) + (double)(i * 2654435761u % 16));
    s->backend = stand_in_open(precision);
    demand(session_load(s));
    assert_int_equal(s->vit.tokens, 290);
}

/* Logits and tokens, no probabilities: those are not for cuDNN. */
static struct outputs results_of(const struct session *s) {
    struct outputs out = outputs_of(s);
    out.probs = NULL;
    return out;
}

/* cuDNN embeds and attends: run, captured, replayed, with the CPU's results. */
static void test_model(void **state) {
    struct outputs want, got;
    struct session cpu, s;
    bool good = true;
    (void)state;
    grown(&cpu, NULL);
    want = results_of(&cpu);
    demand(session_forward(&cpu, cpu.pixels, IMAGES, &want));
    setenv("VITRINE_CUDNN", "1", 1);
    for (int p = HALF; p < TYPES; p++)
        for (int fastest = 0; fastest <= 2; fastest++) {
            if (p != HALF && fastest != 1) continue;
            fake_cuda_reset();
            fake_cuda_options.fastest_plan = fastest;
            grown(&s, precisions[p].name);
            got = results_of(&s);
            for (int round = 0; round < 3; round++) {
                const struct fake_cuda_counts before = fake_cuda_counts;
                demand(session_forward(&s, s.pixels, IMAGES, &got));
                good &= outputs_match(&s, precisions[p].name, &want, &got, precisions[p].model);
                assert_int_equal(fake_cuda_counts.graph_launches > before.graph_launches,
                                 round > 0);
                if (round == 1) /* the embedding, and attention in every block */
                    assert_int_equal(fake_cuda_counts.plans - before.plans,
                                     fastest ? 1 + s.vit.config.depth : 0);
                if (round == 2) assert_int_equal(fake_cuda_counts.plans, before.plans);
            }
            outputs_free(&got);
            close_clean(&s);
        }
    unsetenv("VITRINE_CUDNN");
    outputs_free(&want);
    session_close(&cpu);
    assert_true(good);
}

/* Where cuDNN attends, which gives no probabilities, a capture leaves the logits their bits. */
static void test_capture(void **state) {
    struct session s;
    struct capture_copy copy = {.images = IMAGES};
    const struct capture capture = {.take = capture_copy_take, .context = &copy};
    const struct vit_taps taps = {.layer = -1, .capture = &capture};
    (void)state;
    setenv("VITRINE_CUDNN", "1", 1);
    fake_cuda_reset();
    fake_cuda_options.fastest_plan = 1;
    grown(&s, "fp16");
    const size_t K = IMAGES * session_classes(&s);
    float *plain = memory(2 * K, sizeof *plain);
    for (int round = 0; round < 3; round++)
        demand(vit_forward(&s.vit, s.pixels, IMAGES, plain, NULL));
    const int plans = fake_cuda_counts.plans;
    for (int round = 0; round < 3; round++) { // run, captured, replayed
        demand(vit_forward(&s.vit, s.pixels, IMAGES, plain + K, &taps));
        assert_true(fake_cuda_counts.plans > plans);
        assert_memory_equal(plain, plain + K, K * sizeof *plain);
    }
    unsetenv("VITRINE_CUDNN");
    mem_free(plain);
    capture_copy_release(&copy);
    close_clean(&s);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

/* Every launch of a plan refused once: while timed, it is not chosen; later, the op says so. */
static void test_failing_plans(void **state) {
    enum { RUNS = 4, FIT = 3 }; /* of a plan that is timed; plans that are */
    static const char sentence[] = "attention: cudnn: the launch: CUDNN_STATUS_EXECUTION_FAILED";
    static const struct attention_row row = {8, 257, 1, 8, 0, false, "a launch refused"};
    (void)state;
    for (int n = 1; n <= FIT * RUNS + 1; n++) {
        const bool timed = n <= FIT * RUNS;
        struct duo duo;
        fake_cuda_reset();
        fake_cuda_options.fastest_plan = 1;
        fake_cuda_options.fail_plan = n;
        duo_start(&duo, "fp16", precisions[HALF].op);
        attend(&duo, &row, 0.3f);
        assert_int_equal(fake_cuda_options.fail_plan, 0);
        assert_int_equal(duo.good, timed);
        if (!timed) assert_memory_equal(fail_message(), sentence, sizeof sentence - 1);
        duo.good = true;
        attend(&duo, &row, 0.3f);
        assert_int_equal(fake_cuda_counts.plan == 0, n > RUNS);
        duo_close(&duo);
        assert_true(duo.good);
        check_clean(row.why);
    }
}

/* Memory that suffices for the op and not for its timing: the own kernels. */
static void test_no_memory(void **state) {
    static const struct attention_row row = {290, 257, 1, 64, 0, false, "little memory"};
    const size_t least = DUO_VALUES * 2 + ((size_t)(CUDA_PART_MIB + CUDA_WORKSPACE_MIB) << 20);
    const struct {
        size_t spare;
        bool chosen;
    } rows[] = {
        {0, false}, {(size_t)2 * 290 * 64 * 2 - 1, false}, {(size_t)2 * 290 * 64 * 2, true}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct duo duo;
        fake_cuda_reset();
        fake_cuda_options.fastest_plan = 1;
        fake_cuda_options.memory = least + rows[i].spare;
        duo_start(&duo, "fp16", precisions[HALF].op);
        attend(&duo, &row, 0.3f);
        assert_int_equal(fake_cuda_counts.plans > 0, rows[i].chosen);
        duo_close(&duo);
        assert_true(duo.good);
        check_clean(row.why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention), cmocka_unit_test(test_scales),
        cmocka_unit_test(test_not_taken), cmocka_unit_test(test_place),
        cmocka_unit_test(test_embedding), cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_kept),      cmocka_unit_test(test_model),
        cmocka_unit_test(test_capture),   cmocka_unit_test(test_failing_plans),
        cmocka_unit_test(test_no_memory),
    };
    int failed;
    setenv("XDG_CACHE_HOME", "relative: no cache", 1);
    unsetenv("HOME");
    unsetenv("VITRINE_CUDNN");
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    fake_cuda_reset();
    return failed;
}

#else

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void no_compiler(void **state) {
    (void)state;
    printf("skip: no C++ compiler for the CUDA stand-in\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_compiler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
