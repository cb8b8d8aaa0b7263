/*
 * test_int8_cuda: precision int8 of the CUDA backend on the stand-in (tests/fake_cuda.h): linears
 * against the CPU backend, whole tiny models made int8, and what is refused. The kernels alone have
 * test_quantise_cuda.
 */
#include "kernels/backend.h" // before cmocka.h, which has a macro `fail`

#if HAVE_CXX

#include "tests/cuda_session.h"
#include "tests/fake_cuda.h"
#include "tests/int8_sample.h"

/*
 * max |difference| over max |value| against the CPU in fp32 on the same int8 file: what rounding
 * every token to 127 steps does in models of 20 to 64 channels. Observed: logits up to 2.4e-2, but
 * 4.8e-2 for swin_v1_odd, the narrowest; tokens and probabilities up to 5.5e-2. For comparison, the
 * int8 file on the CPU against the file it was made of: 4.8e-2, logits 2.9e-2. Bugs are for the
 * linears' tolerance: that is on the operands as the device rounds them, fp16's, observed 4.3e-4.
 */
#define TOLERANCE        7e-2
#define LOGITS           3e-2
#define LOGITS_NARROWEST 6e-2
#define WEIGHTS          7e-2 /* int8 weights against those they were made of */
#define LINEARS          3e-3

static void check_clean(const char *name) {
    if (fake_cuda_fault()) fail_msg("%s: %s", name, fake_cuda_fault());
    assert_int_equal(fake_cuda_alive(), 0);
}

static struct backend *open_cpu(void) {
    struct backend *be;
    demand(cpu_open("fp32", 1, &be));
    return be;
}

static struct backend *open_cuda(const char *precision) {
    struct backend *be;
    fake_cuda_reset();
    demand(vitrine_cuda_open(0, precision, &be));
    return be;
}

static void duo_start(struct duo *duo) {
    struct backend *cuda = open_cuda("int8");
    duo_open(duo, open_cpu(), cuda, "int8", LINEARS);
}

/* ---- linears --------------------------------------------------------------------------------- */

static void test_linears(void **state) {
    struct duo duo;
    (void)state;
    duo_start(&duo);
    assert_string_equal(backend_precision(duo.be[1]), "int8");
    assert_true(int8_linears(&duo, 40000));
    assert_true(fake_cuda_counts.int8 > 0);
    duo_close(&duo);
    check_clean("linears");
}

/* All else of precision int8 is fp16, linears without scales too. */
static void test_other_ops(void **state) {
    struct duo duo;
    (void)state;
    duo_start(&duo);
    assert_true(duo_run(&duo, 30000, 40));
    assert_int_equal(fake_cuda_counts.int8, 0);
    duo_close(&duo);
    check_clean("other ops");
}

/* A token with an infinity has no finite result; its neighbours have theirs. */
static void test_not_finite(void **state) {
    enum { T = 3, IN = 24, OUT = 40 };
    static float weight[OUT * IN], scales[OUT], x[T * IN], y[T * OUT];
    static int8_t q[OUT * IN];
    const struct linear_spec spec = {
        .name = "tested", .in = IN, .out = OUT, .weight = weight, .scales = scales};
    struct linear *linear;
    struct duo duo;
    struct twin from, to;
    (void)state;
    duo_start(&duo);
    op_fill(weight, COUNT_OF(weight), 1);
    op_fill(x, COUNT_OF(x), 2);
    x[IN + 5] = INFINITY;
    int8_weights(weight, OUT, IN, q, scales);
    from = twin_take(&duo, 1, T, IN, 0), to = twin_take(&duo, 1, T, OUT, 0);
    demand(linear_load(duo.be[1], &spec, &linear));
    backend_write(duo.be[1], x, from.on[1]);
    op_linear(duo.be[1], linear, EPILOGUE_GELU, from.on[1], NULL, to.on[1]);
    backend_read(duo.be[1], to.on[1], y);
    demand(backend_sync(duo.be[1]));
    for (int i = 0; i < T * OUT; i++)
        assert_true(!isfinite(y[i]) == (i / OUT == 1));
    duo_close(&duo);
    check_clean("not finite");
}

/* ---- models ---------------------------------------------------------------------------------- */

/* The model's int8 file at `path`, a template of mkstemp. */
static void make_file(const char *name, char *path) {
    int handle = mkstemp(path);
    assert_true(handle >= 0);
    close(handle);
    int8_golden(name, path);
}

/* path NULL: the golden file. */
static struct outputs cpu_outputs(const char *name, const char *path) {
    struct session cpu;
    struct outputs out;
    if (path)
        session_start_file(&cpu, name, path, open_cpu());
    else
        session_start(&cpu, name, open_cpu());
    out = outputs_of(&cpu);
    demand(session_forward(&cpu, cpu.pixels, IMAGES, &out));
    session_close(&cpu);
    return out;
}

static size_t best(const float *logits, size_t count) {
    size_t at = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

/* Logits within their tolerance, and the best class of each image the same. */
static bool same_classes(const struct session *s, const struct outputs *want,
                         const struct outputs *got) {
    const size_t K = session_classes(s);
    const bool narrowest = strcmp(s->name, "swin_v1_odd") == 0;
    for (size_t i = 0; K > 0 && i < IMAGES; i++)
        if (best(want->logits + i * K, K) != best(got->logits + i * K, K)) return false;
    return part_matches(s, "int8", "logits", want->logits, got->logits, K,
                        narrowest ? LOGITS_NARROWEST : LOGITS);
}

/* Linears of the model that run in int8: not the patch projection, nor a merged head. */
static int int8_count(const struct session *s) {
    const struct vit_config *vit = &s->vit.config;
    int count = s->is_swin ? 4 * s->swin.depth + s->swin.config.stages - 1 : 4 * vit->depth;
    if (!s->is_swin && vit->pool == POOL_MAP) count += 4;
    return count + (session_classes(s) > 0 && (s->is_swin || !vit->dist_token));
}

static void test_model(void **state) {
    const struct model_row *row = *state;
    char path[] = "/tmp/vitrine_test_XXXXXX";
    struct outputs fp32 = cpu_outputs(row->name, NULL), want, got;
    struct session s;
    bool good;
    make_file(row->name, path);
    want = cpu_outputs(row->name, path);
    setenv("VITRINE_NO_AUTOTUNE", "1", 1);
    session_start_file(&s, row->name, path, open_cuda("int8"));
    good = outputs_match(&s, "cpu, int8 file", &fp32, &want, WEIGHTS);
    got = outputs_of(&s);
    for (int pass = 0; pass < 3; pass++) { /* as it is, captured, replayed */
        demand(session_forward(&s, s.pixels, IMAGES, &got));
        good &= outputs_match(&s, "int8", &want, &got, TOLERANCE);
        good &= same_classes(&s, &want, &got);
        assert_int_equal(fake_cuda_counts.int8, (pass > 0 ? 2 : 1) * int8_count(&s));
    }
    unsetenv("VITRINE_NO_AUTOTUNE");
    assert_true(fake_cuda_counts.graph_launches >= 2);
    outputs_free(&want);
    outputs_free(&got);
    outputs_free(&fp32);
    session_close(&s);
    unlink(path);
    check_clean(row->name);
    assert_true(good);
}

/* What a pass needs is there when the model is: it asks for no memory. */
static void test_planned(void **state) {
    static const char *const names[] = {"vit_token", "vit_tanh", "swin_v1", "swin_v2"};
    (void)state;
    setenv("VITRINE_NO_AUTOTUNE", "1", 1);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[] = "/tmp/vitrine_test_XXXXXX";
        struct session s;
        struct outputs out = {0};
        make_file(names[i], path);
        session_start_file(&s, names[i], path, open_cuda("int8"));
        fake_cuda_options.memory = 0;
        out.logits = memory(IMAGES * session_classes(&s), sizeof(float));
        for (int pass = 0; pass < 3; pass++)
            demand(session_forward(&s, s.pixels, IMAGES, &out));
        mem_free(out.logits);
        session_close(&s);
        unlink(path);
        check_clean(names[i]);
    }
    unsetenv("VITRINE_NO_AUTOTUNE");
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* In int8 a file without int8 weights is refused; a file with them runs in every precision. */
static void test_precisions(void **state) {
    static const char *const names[] = {"vit_token", "swin_v1"};
    static const char *const others[] = {"fp32", "fp16", "bf16"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[] = "/tmp/vitrine_test_XXXXXX";
        struct outputs want, got;
        struct session s;
        session_read(&s, names[i]);
        s.backend = open_cuda("int8");
        assert_int_equal(session_load(&s), ST_USAGE);
        assert_string_equal(fail_message(), "precision int8: the model has no int8 weights");
        session_close(&s);
        check_clean(names[i]);
        make_file(names[i], path);
        want = cpu_outputs(names[i], path);
        for (size_t p = 0; p < COUNT_OF(others); p++) {
            session_start_file(&s, names[i], path, open_cuda(others[p]));
            got = outputs_of(&s);
            demand(session_forward(&s, s.pixels, IMAGES, &got));
            assert_true(outputs_match(&s, others[p], &want, &got, 5e-2));
            assert_int_equal(fake_cuda_counts.int8, 0);
            outputs_free(&got);
            session_close(&s);
            check_clean(names[i]);
        }
        outputs_free(&want);
        unlink(path);
    }
}

static void test_weights(void **state) {
    static const struct {
        float weight[4], scale;
        const char *sentence; /* NULL: taken */
    } rows[] = {
        {{0.5f, -1, 63.5f, -64}, 0.5f, NULL},  /* -128 steps too */
        {{-0.5f, 1, -63.5f, 64}, -0.5f, NULL}, /* LayerScale below 0 */
        {{0, 0, 0, 0}, 0, NULL},
        {{3e-45f, 1e-44f, 0, 1.4e-45f}, 1.4e-45f, NULL},
        {{0.5f, 0.7f, 0, 0}, 0.5f, "row 1 of its weight is no integers of -128 to 127 times 0.5"},
        {{0.5f, 64.5f, 0, 0}, 0.5f, "row 1 of its weight is no integers of -128 to 127 times 0.5"},
        {{1, 0, 0, 0}, 0, "row 1 of its weight is no integers of -128 to 127 times 0"},
        {{1, NAN, 0, 0}, 1, "row 1 of its weight is no integers of -128 to 127 times 1"},
        {{1, INFINITY, 0, 0}, 1, "row 1 of its weight is no integers of -128 to 127 times 1"},
        {{1, 0, 0, 0}, NAN, "row 1 of its weight is no integers of -128 to 127 times nan"},
    };
    struct linear *linear;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        float weight[8] = {1, 2, 3, 4}, scales[2] = {1, rows[i].scale};
        const struct linear_spec spec = {
            .name = "fc", .in = 4, .out = 2, .weight = weight, .scales = scales};
        struct backend *be = open_cuda("int8");
        enum status st;
        memcpy(weight + 4, rows[i].weight, sizeof rows[i].weight);
        st = linear_load(be, &spec, &linear);
        assert_int_equal(st, rows[i].sentence ? ST_SHAPE : ST_OK);
        if (rows[i].sentence && !strstr(fail_message(), rows[i].sentence))
            fail_msg("'%s', want '%s'", fail_message(), rows[i].sentence);
        backend_close(be);
        check_clean("weights");
    }
}

/* Memory that runs out, and a cuBLASLt without int8: a sentence, and nothing left. */
static void test_failures(void **state) {
    char path[] = "/tmp/vitrine_test_XXXXXX";
    struct session s;
    struct outputs out;
    int refused = 0;
    (void)state;
    make_file("vit_token", path);
    for (size_t bytes = 0;; bytes += refused < 24 ? 10000 : (size_t)4 << 20) {
        enum status st;
        session_read(&s, "vit_token");
        demand(h5_close(&s.file));
        demand(h5_open(path, &s.file));
        s.backend = open_cuda("int8");
        fake_cuda_options.memory = bytes;
        st = session_load(&s);
        if (st != ST_OK) {
            refused++;
            assert_int_equal(st, ST_NOMEM);
            assert_non_null(strstr(fail_message(), "MiB wanted"));
        }
        session_close(&s);
        check_clean("memory");
        if (st == ST_OK) break;
    }
    assert_true(refused > 24);
    session_start_file(&s, "vit_token", path, open_cuda("int8"));
    fake_cuda_options.no_int8 = true;
    out = outputs_of(&s);
    assert_int_equal(session_forward(&s, s.pixels, IMAGES, &out), ST_DEVICE);
    printf("%s\n", fail_message());
    assert_memory_equal(fail_message(), "linear blocks.0.attn.qkv: cuBLASLt has no product", 49);
    outputs_free(&out);
    session_close(&s);
    check_clean("no products");
    unlink(path);
}

/* ---- tuning ---------------------------------------------------------------------------------- */

/* The algorithm of the last product, the head's, where `fastest` is the fastest. */
static int algorithm_of(const char *path, const char *precision, int fastest) {
    struct session s;
    struct outputs out;
    struct backend *be = open_cuda(precision);
    fake_cuda_options.fastest = fastest;
    session_start_file(&s, "vit_token", path, be);
    out = outputs_of(&s);
    demand(session_forward(&s, s.pixels, IMAGES, &out));
    outputs_free(&out);
    session_close(&s);
    check_clean("tuning");
    return fake_cuda_counts.algorithm;
}

/* Timed and kept as other products are, and apart from them. */
static void test_tuning(void **state) {
    char path[] = "/tmp/vitrine_test_XXXXXX", folder[] = "/tmp/vitrine_test_XXXXXX", file[128];
    (void)state;
    make_file("vit_token", path);
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(algorithm_of(path, "fp16", 3), 3);
    assert_int_equal(algorithm_of(path, "int8", 5), 5); /* another key */
    assert_int_equal(algorithm_of(path, "int8", 6), 5); /* from disk */
    assert_int_equal(algorithm_of(path, "fp16", 6), 3);
    setenv("XDG_CACHE_HOME", "relative: no cache", 1);
    snprintf(file, sizeof file, "%s/vitrine/cublaslt-Stand-in-130100.txt", folder);
    unlink(file);
    snprintf(file, sizeof file, "%s/vitrine", folder);
    rmdir(file);
    rmdir(folder);
    unlink(path);
}

int main(void) {
    struct CMUnitTest tests[COUNT_OF(model_rows) + 8];
    size_t count = 0;
    int failed;
    setenv("XDG_CACHE_HOME", "relative: no cache", 1);
    unsetenv("HOME");
    tests[count++] = row_test("int8", "linears", test_linears, NULL);
    tests[count++] = row_test("int8", "other ops", test_other_ops, NULL);
    tests[count++] = row_test("int8", "not finite", test_not_finite, NULL);
    for (size_t i = 0; i < COUNT_OF(model_rows); i++)
        tests[count++] = row_test("int8", model_rows[i].name, test_model, &model_rows[i]);
    tests[count++] = row_test("int8", "planned", test_planned, NULL);
    tests[count++] = row_test("int8", "precisions", test_precisions, NULL);
    tests[count++] = row_test("int8", "weights", test_weights, NULL);
    tests[count++] = row_test("int8", "failures", test_failures, NULL);
    tests[count++] = row_test("int8", "tuning", test_tuning, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    fake_cuda_reset();
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
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
