/*
 * test_cuda_backend: the CUDA backend's own code on the stand-in (tests/fake_cuda.h): whole tiny
 * models against the CPU backend, graphs, uploads beside the computation, and what goes wrong.
 */
#include "kernels/backend.h" // before cmocka.h, which has a macro `fail`

#if HAVE_CXX

#include "tests/cuda_stand_in.h"

/* ---- sessions -------------------------------------------------------------------------------- */

/* What the CPU makes of a model's images; released with outputs_free. */
static struct outputs want_of(const char *name) {
    struct session cpu;
    struct outputs want;
    session_open(&cpu, name, NULL);
    want = outputs_of(&cpu);
    demand(session_forward(&cpu, cpu.pixels, IMAGES, &want));
    session_close(&cpu);
    return want;
}

/* Room for logits alone. */
static struct outputs logits_of(const struct session *s) {
    return (struct outputs){.logits = memory(IMAGES * session_classes(s), sizeof(float))};
}

/* ---- parity ---------------------------------------------------------------------------------- */

static void test_parity(void **state) {
    const struct model_row *row = *state;
    struct outputs want = want_of(row->name), got;
    struct session s;
    bool good = true;
    for (size_t i = 0; i < COUNT_OF(precisions); i++) {
        fake_cuda_reset();
        session_open(&s, row->name, precisions[i].name);
        got = outputs_of(&s);
        demand(session_forward(&s, s.pixels, IMAGES, &got));
        good &= outputs_match(&s, precisions[i].name, &want, &got, precisions[i].model);
        outputs_free(&got);
        close_clean(&s);
    }
    outputs_free(&want);
    assert_true(good);
}

/*
 * With a capture of every layer and its scores, of all rows or the head's, logits keep their bits.
 */
static void test_capture(void **state) {
    static const char *const names[] = {"vit_token", "vit_distilled", "vit_map", "swin_v1_padded"};
    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(names) * COUNT_OF(precisions); i++) {
        struct capture_copy copy = {.images = IMAGES};
        const struct capture capture = {
            .take = capture_copy_take, .context = &copy, .head_rows = i % 2, .scores = true};
        struct session s;
        struct outputs plain, with;
        fake_cuda_reset();
        session_open(&s, names[i / 2 % COUNT_OF(names)], precisions[i / 2 / COUNT_OF(names)].name);
        plain = logits_of(&s);
        with = logits_of(&s);
        demand(session_forward(&s, s.pixels, IMAGES, &plain));
        if (s.is_swin)
            demand(swin_forward(&s.swin, s.pixels, IMAGES, with.logits,
                                &(struct swin_taps){.layer = -1, .capture = &capture}));
        else
            demand(vit_forward(&s.vit, s.pixels, IMAGES, with.logits,
                               &(struct vit_taps){.layer = -1, .capture = &capture}));
        assert_memory_equal(plain.logits, with.logits,
                            IMAGES * session_classes(&s) * sizeof(float));
        assert_int_equal(copy.taken, s.is_swin ? s.swin.depth : vit_attention_layers(&s.vit));
        mem_free(plain.logits);
        mem_free(with.logits);
        capture_copy_release(&copy);
        close_clean(&s);
    }
}

/* Every op alone, every type, odd shapes. */
static void test_ops(void **state) {
    bool good = true;
    (void)state;
    for (size_t p = 0; p < COUNT_OF(precisions); p++) {
        struct duo duo;
        fake_cuda_reset();
        duo_start(&duo, precisions[p].name, precisions[p].op);
        good &= duo_run(&duo, 30000, 100);
        duo_close(&duo);
        check_clean("ops");
    }
    assert_true(good);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* One pass for logits of images first.. ; which pass of its shape it is says what may happen. */
static void pass(struct session *s, int first, int batch, int seen, const float *want) {
    const size_t K = session_classes(s);
    const struct fake_cuda_counts before = fake_cuda_counts;
    struct outputs out = logits_of(s);
    demand(session_forward(s, s->pixels + (size_t)first * s->image_bytes, batch, &out));
    assert_int_equal(fake_cuda_counts.graph_launches - before.graph_launches, seen > 0);
    assert_int_equal(fake_cuda_counts.instantiated - before.instantiated, seen == 1);
    if (seen > 0) {
        assert_int_equal(fake_cuda_counts.kernels, before.kernels);
        assert_int_equal(fake_cuda_counts.matmuls, before.matmuls);
        assert_int_equal(fake_cuda_counts.copies - before.copies, 2); /* the pixels' way */
        assert_int_equal(fake_cuda_counts.heuristics, before.heuristics);
    } else {
        assert_true(fake_cuda_counts.kernels > before.kernels);
    }
    if (!matches(s->name, "a pass", want + (size_t)first * K, out.logits, (size_t)batch * K, 1e-5))
        fail_msg("%s: pass %d of batch %d", s->name, seen, batch);
    mem_free(out.logits);
}

/* Batch 2, then 1, then 2: run, captured, replayed, with other pixels each time. */
static void test_graphs(void **state) {
    static const char *const names[] = {"vit_token", "vit_tanh", "swin_v1_padded", "swin_v2"};
    static const struct {
        int first, batch, seen;
    } passes[] = {{0, 2, 0}, {0, 1, 0}, {0, 2, 1}, {1, 1, 1}, {0, 2, 2}, {0, 1, 2}, {1, 1, 3}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct outputs want = want_of(names[i]);
        struct session s;
        fake_cuda_reset();
        session_open(&s, names[i], "fp32");
        for (size_t p = 0; p < COUNT_OF(passes); p++)
            pass(&s, passes[p].first, passes[p].batch, passes[p].seen, want.logits);
        close_clean(&s);
        outputs_free(&want);
    }
}

/* More shapes than graphs are kept: the oldest go, and nothing else happens. */
static void test_many_lists(void **state) {
    enum { TOKENS = 20, C = 16 };
    const struct norm *norm[2];
    struct duo duo;
    (void)state;
    fake_cuda_reset();
    duo_start(&duo, "fp32", 1e-5);
    for (int i = 0; i < 2; i++)
        norm[i] = duo_norm(&duo, i, C, false);
    for (int round = 0; round < 3; round++)
        for (int tokens = 1; tokens <= TOKENS; tokens++) {
            struct twin x = twin_take(&duo, 1, tokens, C, 0), y = twin_take(&duo, 1, tokens, C, 0);
            for (int i = 0; i < 2; i++)
                op_layernorm(duo.be[i], norm[i], x.on[i], NULL, y.on[i]);
            duo_compare(&duo, "layernorm", "many", &y);
        }
    duo_close(&duo);
    assert_true(duo.good);
    assert_int_equal(fake_cuda_counts.graph_launches, 0); /* each came back too late */
    check_clean("many lists");
}

/* The same views with other lengths are another list. */
static void test_lengths(void **state) {
    enum { T = 9, C = 16 };
    static const int rows[][2] = {{9, 4}, {1, 9}, {9, 4}, {5, 5}, {9, 4}, {1, 9}};
    struct duo duo;
    (void)state;
    fake_cuda_reset();
    duo_start(&duo, "fp32", 1e-5);
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        struct twin x = twin_take(&duo, 2, T, C, 0), y = twin_take(&duo, 2, T, C, 0);
        for (int i = 0; i < 2; i++) {
            const struct attention desc = {
                .heads = 2, .head_dim = C / 2, .scale = 0.5f, .lengths = rows[r]};
            op_attention(duo.be[i], &desc, x.on[i], x.on[i], x.on[i], y.on[i]);
        }
        duo_compare(&duo, "attention", "lengths", &y);
    }
    duo_close(&duo);
    assert_true(duo.good);
    check_clean("lengths");
}

/* Scratch that grows moves: graphs that name the old one must be gone. */
static void test_growing_scratch(void **state) {
    static const int rows[] = {3, 3, 3, 50, 3, 3, 50, 50};
    static float weight[16 * 16];
    const struct linear_spec spec = {.name = "tested", .in = 16, .out = 16, .weight = weight};
    struct linear *linear[2];
    struct duo duo;
    (void)state;
    fake_cuda_reset();
    duo_start(&duo, "fp32", 1e-5);
    op_fill(weight, COUNT_OF(weight), 1);
    for (int i = 0; i < 2; i++)
        demand(linear_load(duo.be[i], &spec, &linear[i]));
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        struct twin x = twin_take(&duo, 1, 50, 16, 0), y = twin_take(&duo, 1, 50, 16, 0);
        for (int i = 0; i < 2; i++) {
            struct act out = act_rows(y.on[i], 0, rows[r]);
            op_linear(duo.be[i], linear[i], EPILOGUE_GELU, act_rows(x.on[i], 0, rows[r]), &out,
                      out);
        }
        duo_compare(&duo, "linear", "scratch", &y);
    }
    duo_close(&duo);
    assert_true(duo.good);
    assert_true(fake_cuda_counts.graph_launches >= 3);
    check_clean("scratch");
}

/* ---- uploads --------------------------------------------------------------------------------- */

/* What is announced is uploaded behind the pass before; what is announced and not used, is not. */
static void test_stage(void **state) {
    struct outputs want = want_of("vit_token"), out;
    struct fake_cuda_counts before;
    struct session s;
    uint8_t *other;
    size_t K;
    (void)state;
    fake_cuda_reset();
    session_open(&s, "vit_token", "fp32");
    K = session_classes(&s);
    out = logits_of(&s);
    other = memory(1, s.image_bytes);
    memcpy(other, s.pixels + s.image_bytes, s.image_bytes);
    for (int i = 0; i < 8; i++) {
        const uint8_t *now = i % 2 ? other : s.pixels, *next = i % 2 ? s.pixels : other;
        backend_stage(s.backend, next, s.image_bytes);
        before = fake_cuda_counts;
        demand(session_forward(&s, now, 1, &out));
        if (i > 1) assert_int_equal(fake_cuda_counts.copies - before.copies, 2);
        assert_true(
            matches("staged", "logits", want.logits + (size_t)(i % 2) * K, out.logits, K, 1e-5));
    }
    /* `s.pixels` lies uploaded; a pass of other pixels comes instead, then s.pixels change. */
    demand(session_forward(&s, other, 1, &out));
    memcpy(s.pixels, other, s.image_bytes);
    demand(session_forward(&s, s.pixels, 1, &out));
    assert_true(matches("changed", "logits", want.logits + K, out.logits, K, 1e-5));
    mem_free(other);
    mem_free(out.logits);
    close_clean(&s);
    outputs_free(&want);
}

/* Six embeddings that nobody waits for: every slot comes twice. NULL, or what was wrong. */
static const char *embed_in_a_row(int drop_wait, int drop_sync, bool *dropped) {
    static char fault[256];
    struct session s;
    fake_cuda_reset();
    session_open(&s, "vit_token", "fp32");
    fake_cuda_options.drop_wait = drop_wait;
    fake_cuda_options.drop_sync = drop_sync;
    for (int i = 0; i < 6; i++)
        op_patch_embed(s.backend, &s.vit.patch, s.pixels + (size_t)(i % 2) * s.image_bytes,
                       act_batch(s.vit.tok, 1));
    demand(backend_sync(s.backend));
    *dropped = fake_cuda_options.drop_wait == 0 && fake_cuda_options.drop_sync == 0;
    snprintf(fault, sizeof fault, "%s", fake_cuda_fault() ? fake_cuda_fault() : "");
    session_close(&s);
    return fault[0] ? fault : NULL;
}

/* Every wait left out, one by one: the stand-in must see each. */
static void test_missing_waits(void **state) {
    const char *fault;
    bool dropped;
    (void)state;
    setenv("VITRINE_NO_AUTOTUNE", "1", 1);
    assert_null(embed_in_a_row(0, 0, &dropped));
    for (int n = 1; n <= 9; n++) { /* 6 uploads, 3 slots used again */
        fault = embed_in_a_row(n, 0, &dropped);
        printf("wait %d left out: %s\n", n, fault ? fault : "NOT CAUGHT");
        assert_true(dropped);
        assert_non_null(fault);
    }
    assert_null(embed_in_a_row(10, 0, &dropped));
    assert_false(dropped);         /* there are no more */
    for (int n = 1; n <= 3; n++) { /* of the pinned slots that come again */
        fault = embed_in_a_row(0, n, &dropped);
        printf("host's wait %d left out: %s\n", n, fault ? fault : "NOT CAUGHT");
        assert_true(dropped);
        assert_non_null(fault);
    }
    unsetenv("VITRINE_NO_AUTOTUNE");
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

static void test_open_refusals(void **state) {
    static const struct {
        int device, devices, driver, capability;
        const char *precision, *sentence;
    } rows[] = {
        {0, 1, 0, 90, NULL, "no NVIDIA driver is installed"},
        {0, 1, 12020, 90, NULL, "the driver is for CUDA 12.2, this build needs 13.0"},
        {0, 0, 13000, 90, NULL, "the driver sees no device"},
        {1, 1, 13000, 90, NULL, "there is 1 device"},
        {7, 2, 13000, 90, NULL, "there are 2 devices"},
        {0, 1, 13000, 70, NULL, "Stand-in is sm_70, the kernels need sm_75 or newer"},
        {0, 1, 13000, 90, "int4",
         "precision int4: the cuda backend computes in fp16, bf16, fp32 or int8"},
    };
    struct backend *be;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fake_cuda_reset();
        fake_cuda_options.devices = rows[i].devices;
        fake_cuda_options.driver = rows[i].driver;
        fake_cuda_options.capability = rows[i].capability;
        assert_int_equal(vitrine_cuda_open(rows[i].device, rows[i].precision, &be), ST_DEVICE);
        assert_null(be);
        assert_string_equal(fail_message(), rows[i].sentence);
        check_clean(rows[i].sentence);
    }
    fake_cuda_reset();
    demand(vitrine_cuda_open(0, NULL, &be));
    assert_string_equal(backend_describe(be), "cuda:0: Stand-in, sm_90, fp16, cuBLASLt 13.1");
    assert_string_equal(backend_precision(be), "fp16");
    assert_true(backend_is_gpu(be));
    assert_true(backend_peak(be) > 0);
    backend_close(be);
    check_clean("opening");
}

/* Memory that runs out anywhere between opening and planning: a sentence, and nothing left. */
static void test_no_memory(void **state) {
    int refused = 0;
    (void)state;
    for (size_t bytes = 0;; bytes += refused < 8 ? 40000 : (size_t)4 << 20) {
        struct session s;
        enum status st;
        fake_cuda_reset();
        fake_cuda_options.memory = bytes;
        session_read(&s, "vit_token");
        demand(vitrine_cuda_open(0, "fp16", &s.backend));
        st = session_load(&s);
        if (st != ST_OK) {
            if (refused++ % 8 == 0) printf("%zu bytes: %s\n", bytes, fail_message());
            assert_int_equal(st, ST_NOMEM);
            assert_non_null(strstr(fail_message(), "MiB wanted"));
        }
        close_clean(&s);
        if (st == ST_OK) break;
    }
    assert_true(refused > 8);
}

/* Every product of a pass refused once: the sentence is the op's, and the next pass is right. */
static void test_failing_products(void **state) {
    struct session s;
    struct outputs out;
    int failed = 0;
    (void)state;
    setenv("VITRINE_NO_AUTOTUNE", "1", 1);
    fake_cuda_reset();
    session_open(&s, "vit_token", "fp32");
    out = logits_of(&s);
    for (int n = 1;; n++, failed++) {
        enum status st;
        fake_cuda_options.fail_matmul = n;
        st = session_forward(&s, s.pixels, IMAGES, &out);
        if (st == ST_OK) break;
        assert_int_equal(st, ST_DEVICE);
        if (n < 3) printf("%s\n", fail_message());
        assert_memory_equal(fail_message(), n == 1 ? "patch_embed: " : "linear ", 7);
        assert_non_null(strstr(fail_message(), ": cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"));
    }
    fake_cuda_options.fail_matmul = 0;
    demand(session_forward(&s, s.pixels, IMAGES, &out));
    assert_true(failed >= 3 * 4 + 2);
    unsetenv("VITRINE_NO_AUTOTUNE");
    mem_free(out.logits);
    close_clean(&s);
}

static void test_failing_kernel(void **state) {
    struct session s;
    struct outputs out;
    (void)state;
    fake_cuda_reset();
    session_open(&s, "vit_token", "fp32");
    out = logits_of(&s);
    fake_cuda_options.fail_launch = 5;
    assert_int_equal(session_forward(&s, s.pixels, IMAGES, &out), ST_DEVICE);
    printf("%s\n", fail_message());
    assert_non_null(strstr(fail_message(), "unspecified launch failure"));
    mem_free(out.logits);
    session_close(&s);
}

/* ---- products -------------------------------------------------------------------------------- */

/* Without fusion everything goes the other way; without products there is a sentence. */
static void test_unsupported_products(void **state) {
    static const char *const names[] = {"vit_token", "vit_tanh", "swin_v2"};
    struct session s;
    struct outputs got;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct outputs want = want_of(names[i]);
        fake_cuda_reset();
        fake_cuda_options.no_fusion = true;
        session_open(&s, names[i], "fp32");
        got = outputs_of(&s);
        demand(session_forward(&s, s.pixels, IMAGES, &got));
        assert_true(outputs_match(&s, "not fused", &want, &got, 1e-5));
        outputs_free(&got);
        close_clean(&s);
        outputs_free(&want);
    }
    fake_cuda_reset();
    fake_cuda_options.no_products = true;
    session_open(&s, "vit_token", "fp16");
    got = outputs_of(&s);
    assert_int_equal(session_forward(&s, s.pixels, IMAGES, &got), ST_DEVICE);
    printf("%s\n", fail_message());
    assert_non_null(strstr(fail_message(), "patch_embed: cuBLASLt has no product"));
    outputs_free(&got);
    close_clean(&s);
}

/* The algorithm that a pass takes where `fastest` is the fastest. */
static int algorithm_of(const char *precision, int fastest) {
    struct session s;
    struct outputs out;
    fake_cuda_reset();
    fake_cuda_options.fastest = fastest;
    session_open(&s, "vit_token", precision);
    out = logits_of(&s);
    demand(session_forward(&s, s.pixels, IMAGES, &out));
    mem_free(out.logits);
    close_clean(&s);
    return fake_cuda_counts.algorithm;
}

/* The same rows with algorithms that there are not. */
static void spoil(const char *path) {
    char *text = get_text(path);
    assert_non_null(strstr(text, "76697472"));
    for (char *at = text; (at = strstr(at, "76697472")) != NULL; at++)
        at[0] = '8';
    put_text(path, text);
}

/* The fastest is taken, kept on disk, and found there; a file of any content does no harm. */
static void test_tuning(void **state) {
    static const char *const contents[] = {
        "",
        "vitrine tuning 2\n1 2 3\n",
        "vitrine tuning 1\n1 2 3\n\n-1 x\n99999999999999999999999999 1\n",
        "vitrine tuning 1\n0 130100 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0",
    };
    char folder[] = "/tmp/vitrine_test_XXXXXX", path[128];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/vitrine/tuning-Stand-in.txt", folder);
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(algorithm_of("fp32", 3), 3);
    assert_true(fake_cuda_counts.heuristics >= 5);
    assert_int_equal(algorithm_of("fp32", 5), 3);  /* from disk: not asked again, */
    assert_true(fake_cuda_counts.heuristics <= 1); /* but for what was refused */
    assert_int_equal(algorithm_of("fp16", 5), 5);  /* another key */
    spoil(path);
    assert_int_equal(algorithm_of("fp32", 6), 6); /* asked, refused, timed again */
    for (size_t i = 0; i < COUNT_OF(contents); i++) {
        put_text(path, contents[i]);
        assert_int_equal(algorithm_of("fp32", (int)i), (int)i);
    }
    setenv("VITRINE_NO_AUTOTUNE", "1", 1); /* the first, and the file is not looked at */
    assert_int_equal(algorithm_of("fp32", 4), 0);
    unsetenv("VITRINE_NO_AUTOTUNE");
    unlink(path);
    setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1); /* cannot be written: done without */
    assert_int_equal(algorithm_of("fp32", 2), 2);
    snprintf(path, sizeof path, "%s/vitrine", folder);
    rmdir(path);
    rmdir(folder);
}

/* TF32 only when it is asked for, and then it is said. */
static void test_tf32(void **state) {
    struct outputs want = want_of("vit_token"), got;
    struct session s;
    (void)state;
    setenv("VITRINE_TF32", "1", 1);
    fake_cuda_reset();
    session_open(&s, "vit_token", "fp32");
    unsetenv("VITRINE_TF32");
    assert_non_null(strstr(backend_describe(s.backend), "fp32 (TF32)"));
    got = outputs_of(&s);
    demand(session_forward(&s, s.pixels, IMAGES, &got));
    assert_false(outputs_match(&s, "TF32", &want, &got, 1e-5));
    assert_true(outputs_match(&s, "TF32", &want, &got, 1e-2));
    outputs_free(&got);
    close_clean(&s);
    outputs_free(&want);
}

/* ---- reading and writing --------------------------------------------------------------------- */

/* More than goes at once: by images, and by rows; views with spare columns; every type. */
static void test_read_write(void **state) {
    static const int rows[][3] = {{1, 1, 1}, {3, 5, 7}, {3, 300, 1000}, {2, 1300, 900}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t p = 0; p < COUNT_OF(precisions); p++) {
            const int B = rows[i][0], T = rows[i][1], C = rows[i][2];
            const size_t count = (size_t)B * (size_t)T * (size_t)C;
            float *there = memory(count, sizeof *there), *back = memory(count, sizeof *back);
            struct arena arena = {0};
            struct backend *be;
            struct act a;
            fake_cuda_reset();
            for (size_t k = 0; k < count; k++)
                there[k] = (float)(k * 2654435761u >> 25 & 127); /* exact in every type */
            demand(vitrine_cuda_open(0, precisions[p].name, &be));
            (void)act_take(be, &arena, B, T + 1, C + 3);
            demand(backend_reserve(be, &arena, "activations"));
            a = act_columns(act_rows(act_take(be, &arena, B, T + 1, C + 3), 1, T), 2, C);
            backend_write(be, there, a);
            backend_read(be, a, back);
            demand(backend_sync(be));
            assert_memory_equal(there, back, count * sizeof *back);
            backend_release_arena(be, &arena);
            backend_close(be);
            check_clean("copies");
            mem_free(there);
            mem_free(back);
        }
}

int main(void) {
    struct CMUnitTest tests[COUNT_OF(model_rows) + 16];
    size_t count = 0;
    int failed;
    setenv("XDG_CACHE_HOME", "relative: no cache", 1);
    unsetenv("HOME");
    for (size_t i = 0; i < COUNT_OF(model_rows); i++)
        tests[count++] = row_test("parity", model_rows[i].name, test_parity, &model_rows[i]);
    tests[count++] = row_test("parity", "ops", test_ops, NULL);
    tests[count++] = row_test("graphs", "2, 1, 2", test_graphs, NULL);
    tests[count++] = row_test("parity", "logits beside a capture", test_capture, NULL);
    tests[count++] = row_test("graphs", "more than are kept", test_many_lists, NULL);
    tests[count++] = row_test("graphs", "lengths", test_lengths, NULL);
    tests[count++] = row_test("graphs", "scratch that grows", test_growing_scratch, NULL);
    tests[count++] = row_test("uploads", "ahead", test_stage, NULL);
    tests[count++] = row_test("uploads", "missing waits", test_missing_waits, NULL);
    tests[count++] = row_test("refused", "opening", test_open_refusals, NULL);
    tests[count++] = row_test("refused", "memory", test_no_memory, NULL);
    tests[count++] = row_test("refused", "products", test_failing_products, NULL);
    tests[count++] = row_test("refused", "a kernel", test_failing_kernel, NULL);
    tests[count++] = row_test("products", "not supported", test_unsupported_products, NULL);
    tests[count++] = row_test("products", "tuning", test_tuning, NULL);
    tests[count++] = row_test("products", "TF32", test_tf32, NULL);
    tests[count++] = row_test("copies", "in parts", test_read_write, NULL);
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
