/*
 * devices: models on one, two and three GPUs and in memory that runs out, through the library that
 * the program opens: the stand-in (tests/fake_cuda.h) in tests/standin/, found by this program's
 * run path, as is an empty driver. What is right is what the CPU makes of the same images.
 */
#include "tools/model.h" // before cmocka.h, which has a macro `fail`

#include <dlfcn.h>
#include <stdlib.h>

#include "tests/fake_cuda.h"
#include "tests/golden.h"

static void test_parse(void **state) {
    static const struct {
        const char *text;
        int count; /* 0: refused */
        const char *last;
    } rows[] = {
        {"auto", 1, "auto"},
        {"cpu", 1, "cpu"},
        {"cuda", 1, "cuda"},
        {"cuda:0", 1, "cuda:0"},
        {"cuda:0,1", 2, "cuda:1"},
        {"cuda:3,0,7", 3, "cuda:7"},
        {"cuda:1023", 1, NULL},
        {"cuda:1024", 0, NULL},
        {"", 0, NULL},
        {"cuda:", 0, NULL},
        {"cuda:,", 0, NULL},
        {"cuda:0,", 0, NULL},
        {"cuda:,0", 0, NULL},
        {"cuda:0,,1", 0, NULL},
        {"cuda:0,0", 0, "each device once: cuda:0 is named twice"},
        {"cuda:1,0,01", 0, "cuda:1 is named twice"},
        {"cuda:-1", 0, NULL},
        {"cuda:0,cpu", 0, NULL},
        {"cuda:0;1", 0, NULL},
        {"cuda 0", 0, NULL},
        {"gpu", 0, NULL},
        {"cuda:1234567890", 0, NULL},
        {"cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 16, "cuda:15"},
        {"cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 0, "at most 16 devices"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct devices devices;
        bool good = devices_parse(rows[i].text, &devices) == ST_OK;
        if (good != (rows[i].count > 0) || (good && devices.count != rows[i].count))
            fail_msg("'%s': %d, %d devices", rows[i].text, good, devices.count);
        if (good && rows[i].last)
            assert_string_equal(devices.name[devices.count - 1], rows[i].last);
        if (!good && !strstr(fail_message(), rows[i].last ? rows[i].last : "cuda:N,N"))
            fail_msg("'%s': %s", rows[i].text, fail_message());
    }
}

#if HAVE_CXX

/* ---- the stand-in ---------------------------------------------------------------------------- */

/* What of it a test reaches. */
static struct {
    struct fake_cuda_options *options;
    struct fake_cuda_counts *counts;
    void (*reset)(void);
    const char *(*fault)(void);
    int (*alive)(void);
} fake;

static void find(void *library, const char *name, void *place) {
    void *symbol = dlsym(library, name);
    if (!symbol) fail_msg("the stand-in has no %s", name);
    memcpy(place, &symbol, sizeof symbol);
}

static int open_standin(void **state) {
    void *library = dlopen("libvitrine_cuda.so", RTLD_NOW | RTLD_LOCAL);
    (void)state;
    if (!library) fail_msg("%s", dlerror());
    find(library, "fake_cuda_options", &fake.options);
    find(library, "fake_cuda_counts", &fake.counts);
    find(library, "fake_cuda_reset", &fake.reset);
    find(library, "fake_cuda_fault", &fake.fault);
    find(library, "fake_cuda_alive", &fake.alive);
    return 0;
}

static void check_clean(void) {
    if (fake.fault()) fail_msg("%s", fake.fault());
    assert_int_equal(fake.alive(), 0);
}

/* ---- a run ----------------------------------------------------------------------------------- */

enum { IMAGES = 7 };

static struct run {
    struct devices devices;
    struct model model;
    uint8_t *pixels; /* (IMAGES, height, width, 3) */
    float *logits;   /* (IMAGES, K) */
    float *tokens;   /* (IMAGES, T, C) behind layer 0 */
} run;

static size_t image_bytes(const struct run *r) {
    return (size_t)r->model.preprocess.height * (size_t)r->model.preprocess.width * 3;
}
static size_t token_floats(const struct run *r) {
    struct model_layer shape = model_layer_shape(&r->model, 0);
    return (size_t)shape.tokens * (size_t)shape.dim;
}

/* The golden model `name` on `device`, `batch` images a pass on each of them. */
static enum status run_open(struct run *r, const char *name, const char *device,
                            const char *precision, int batch) {
    struct backend_options where = {.device = device, .precision = precision, .threads = 1};
    struct model_options options = {.max_batch = batch, .crop_pct = -1};
    char path[96];
    *r = (struct run){0};
    snprintf(path, sizeof path, "tests/ref/%s.h5", name);
    TRY(devices_open(&where, &r->devices));
    TRY(model_open(path, &options, &r->devices, &r->model));
    r->pixels = memory(IMAGES, image_bytes(r));
    r->logits = memory(IMAGES, (size_t)r->model.classes * sizeof(float));
    r->tokens = memory(IMAGES, token_floats(r) * sizeof(float));
    for (size_t i = 0; i < IMAGES * image_bytes(r); i++)
        r->pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    return ST_OK;
}

static void run_close(struct run *r) {
    model_release(&r->model);
    devices_close(&r->devices);
    mem_free(r->pixels);
    mem_free(r->logits);
    mem_free(r->tokens);
    *r = (struct run){0};
}

static enum status run_forward(struct run *r) {
    struct model_taps taps = {.tokens = r->tokens};
    memset(r->logits, 0xff, IMAGES * (size_t)r->model.classes * sizeof(float));
    memset(r->tokens, 0xff, IMAGES * token_floats(r) * sizeof(float));
    return model_forward(&r->model, r->pixels, IMAGES, r->logits, &taps);
}

static void compare(const struct run *want, const struct run *got, double tolerance) {
    size_t logits = IMAGES * (size_t)want->model.classes, tokens = IMAGES * token_floats(want);
    assert_true(matches("", "logits", want->logits, got->logits, logits, tolerance));
    assert_true(matches("", "tokens", want->tokens, got->tokens, tokens, tolerance));
}

static struct run run_on_cpu(const char *name) {
    struct run cpu;
    demand(run_open(&cpu, name, "cpu", "fp32", IMAGES));
    demand(run_forward(&cpu));
    return cpu;
}

/* ---- several devices ------------------------------------------------------------------------- */

static const struct sharing_row {
    const char *why, *model, *device;
    int batch;
} sharing_rows[] = {
    {"one device, one pass", "vit_token", "cuda:0", 7},
    {"one device, passes of 2", "vit_token", "cuda:0", 2},
    {"two devices, a pass each", "vit_token", "cuda:0,1", 4},
    {"two devices, passes of 2", "vit_token", "cuda:1,0", 2},
    {"three devices, a spare place", "vit_token", "cuda:0,1,2", 3},
    {"more places than images", "vit_token", "cuda:0,1,2", 64},
    {"Swin on two", "swin_v1", "cuda:0,1", 4},
};

/* Twice, so that the second time is by graphs, and the third with its pixels announced. */
static void test_sharing(void **state) {
    const struct sharing_row *row = *state;
    struct run cpu = run_on_cpu(row->model), gpu;
    fake.reset();
    fake.options->devices = 3;
    demand(run_open(&gpu, row->model, row->device, "fp32", row->batch));
    assert_int_equal(gpu.model.batch, row->batch * gpu.devices.count);
    for (int pass = 0; pass < 3; pass++) {
        if (pass == 2) model_stage(&gpu.model, gpu.pixels, IMAGES);
        demand(run_forward(&gpu));
        compare(&cpu, &gpu, 1e-5);
    }
    assert_true(fake.counts->graph_launches > 0);
    run_close(&gpu);
    run_close(&cpu);
    check_clean();
}

/* Every device that is there takes part. */
static void test_all_work(void **state) {
    struct run one, three;
    int kernels;
    (void)state;
    fake.reset();
    fake.options->devices = 3;
    demand(run_open(&one, "vit_token", "cuda", "fp32", 1));
    fake.counts->kernels = 0;
    demand(model_forward(&one.model, one.pixels, 1, one.logits, NULL));
    kernels = fake.counts->kernels;
    run_close(&one);
    fake.reset();
    fake.options->devices = 3;
    demand(run_open(&three, "vit_token", "cuda:0,1,2", "fp32", 1));
    fake.counts->kernels = 0;
    demand(model_forward(&three.model, three.pixels, 3, three.logits, NULL));
    assert_int_equal(fake.counts->kernels, 3 * kernels);
    run_close(&three);
    check_clean();
}

static void test_missing_device(void **state) {
    (void)state;
    fake.reset();
    fake.options->devices = 2;
    assert_int_equal(run_open(&run, "vit_token", "cuda:0,5", NULL, 1), ST_DEVICE);
    assert_string_equal(fail_message(), "device cuda:5: there are 2 devices");
    run_close(&run);
    check_clean();
}

/* A kernel that dies on one of two devices is the run's failure, and all can be closed. */
static void test_failing_device(void **state) {
    (void)state;
    fake.reset();
    fake.options->devices = 2;
    demand(run_open(&run, "vit_token", "cuda:0,1", NULL, 4));
    fake.options->fail_launch = 20;
    assert_int_equal(run_forward(&run), ST_DEVICE);
    printf("%s\n", fail_message());
    assert_non_null(strstr(fail_message(), "launch failure"));
    run_close(&run);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The first size, going down from what is enough, in which a batch of 64 does not fit. */
static void test_smaller_batch(void **state) {
    struct run cpu = run_on_cpu("vit_token"), gpu;
    int seen = 64;
    (void)state;
    for (size_t memory = (size_t)44 << 20; seen > 1; memory -= memory / 256) {
        enum status st;
        fake.reset();
        fake.options->memory = memory;
        st = run_open(&gpu, "vit_token", "cuda", "fp32", 64);
        if (st != ST_OK) {
            assert_int_equal(st, ST_NOMEM);
            assert_non_null(strstr(fail_message(), "MiB wanted"));
            run_close(&gpu);
            break;
        }
        assert_true(gpu.model.batch <= seen);
        if (gpu.model.batch < seen) {
            printf("%zu KiB: %d images a pass\n", memory >> 10, gpu.model.batch);
            demand(run_forward(&gpu));
            compare(&cpu, &gpu, 1e-5);
            seen = gpu.model.batch;
        }
        run_close(&gpu);
        check_clean();
    }
    assert_int_equal(seen, 1);
    run_close(&cpu);
}

/* Memory that runs out in the middle: smaller passes from then on, and the same results. */
static void test_out_of_memory(void **state) {
    struct run cpu = run_on_cpu("vit_token"), gpu;
    (void)state;
    fake.reset();
    fake.options->devices = 2;
    demand(run_open(&gpu, "vit_token", "cuda:0,1", "fp32", 8));
    demand(run_forward(&gpu));
    assert_int_equal(gpu.model.batch, 16);
    fake.options->fail_graph = 1;
    demand(run_forward(&gpu));
    compare(&cpu, &gpu, 1e-5);
    assert_int_equal(gpu.model.batch, 12);
    for (int pass = 0; pass < 3; pass++) { /* and once more, when it has got its graphs again */
        fake.options->fail_graph = 1;
        demand(run_forward(&gpu));
        compare(&cpu, &gpu, 1e-5);
    }
    assert_true(gpu.model.batch < 12);
    run_close(&gpu);
    run_close(&cpu);
    check_clean();
}

/* No smaller batch than one: then it is an error. */
static void test_no_smaller_batch(void **state) {
    (void)state;
    fake.reset();
    demand(run_open(&run, "vit_token", "cuda", "fp32", 1));
    fake.options->fail_graph = 1; /* of the second pass */
    assert_int_equal(run_forward(&run), ST_NOMEM);
    assert_non_null(strstr(fail_message(), "out of memory"));
    demand(run_forward(&run));
    run_close(&run);
    check_clean();
}

int main(void) {
    struct CMUnitTest tests[8 + COUNT_OF(sharing_rows)];
    size_t count = 0;
    int failed;
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_parse),           cmocka_unit_test(test_all_work),
        cmocka_unit_test(test_missing_device),  cmocka_unit_test(test_failing_device),
        cmocka_unit_test(test_smaller_batch),   cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_no_smaller_batch)};
    setenv("VITRINE_NO_AUTOTUNE", "1", 1);
    for (size_t i = 0; i < COUNT_OF(others); i++)
        tests[count++] = others[i];
    for (size_t i = 0; i < COUNT_OF(sharing_rows); i++)
        tests[count++] = row_test("sharing", sharing_rows[i].why, test_sharing, &sharing_rows[i]);
    failed = _cmocka_run_group_tests("devices", tests, count, open_standin, NULL);
    for (size_t i = COUNT_OF(others); i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
    return failed;
}

#else

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse)};
    puts("skip - models on devices: there is no C++ compiler for the stand-in");
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
