/*
 * test_backend: opening a device, loading weights, views: what is refused, and in which words.
 */
#include "kernels/ops.h"
#include "tests/op_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cpu_engines.h"

static void test_open_refusals(void **state) {
    static const struct {
        struct backend_options options;
        enum status want;
        const char *sentence;
    } rows[] = {
        {{.device = "tpu"}, ST_USAGE, "device 'tpu' is unknown, want auto, cpu, cuda or cuda:N"},
        {{.device = ""}, ST_USAGE, "device '' is unknown, want auto, cpu, cuda or cuda:N"},
        {{.device = "cuda:x"},
         ST_USAGE,
         "device 'cuda:x' is unknown, want auto, cpu, cuda or cuda:N"},
        {{.device = "cpu", .precision = "fp8"},
         ST_USAGE,
         "precision 'fp8' is unknown, want fp32, bf16, fp16 or int8"},
        {{.device = "cpu", .precision = "int8"},
         ST_DEVICE,
         "precision int8: the cpu backend computes in fp32 alone"},
        {{.device = "cpu", .precision = "bf16"},
         ST_DEVICE,
         "precision bf16: the cpu backend computes in fp32 alone"},
        {{.device = "cpu", .threads = -1}, ST_USAGE, "threads: -1 given, want 0 or more"},
        {{.device = "cpu", .threads = 1 << 20}, ST_USAGE, "threads: 1048576 given, want 1 to 4096"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct backend *be;
        assert_int_equal(backend_open(&rows[i].options, &be), rows[i].want);
        assert_null(be);
        assert_string_equal(fail_message(), rows[i].sentence);
    }
    backend_close(NULL);
}

/* With a GPU or without: a device, or a sentence that begins with its name. */
static void test_gpu_is_named(void **state) {
    static const char *const devices[] = {"cuda", "cuda:0", "cuda:1023"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(devices); i++) {
        const struct backend_options options = {.device = devices[i]};
        struct backend *be;
        enum status st = backend_open(&options, &be);
        if (st == ST_OK) {
            assert_true(backend_is_gpu(be));
            backend_close(be);
            continue;
        }
        printf("%s\n", fail_message());
        assert_int_equal(st, ST_DEVICE);
        assert_null(be);
        assert_memory_equal(fail_message(), "device cuda", 11);
        assert_true(strlen(fail_message()) > strlen(devices[i]) + 10);
    }
}

/* Where there is no GPU, "auto" is the CPU and says why. */
static void test_auto(void **state) {
    const struct backend_options options = {.device = "auto"};
    struct backend *be;
    (void)state;
    assert_int_equal(backend_open(&options, &be), ST_OK);
    printf("%s\n", backend_describe(be));
    if (!backend_is_gpu(be)) assert_non_null(strstr(backend_describe(be), ", fp32 (no GPU: "));
    backend_close(be);
}

static void test_describe(void **state) {
    const struct backend_options options = {.device = "cpu", .threads = 2};
    struct backend *be;
    (void)state;
    assert_int_equal(backend_open(&options, &be), ST_OK);
    assert_memory_equal(backend_describe(be), "cpu: ", 5);
    assert_non_null(strstr(backend_describe(be), ", 2 threads, "));
    assert_non_null(strstr(backend_describe(be), ", fp32"));
    assert_string_equal(backend_precision(be), "fp32");
    assert_false(backend_is_gpu(be));
    backend_close(be);
}

static void test_load_refusals(void **state) {
    static const float one[1] = {1};
    static const struct linear_spec linears[] = {
        {"none", 0, 1, one, NULL, NULL, 1, false},
        {"none", 1, 0, one, NULL, NULL, 1, false},
        {"none", -4, 1, one, NULL, NULL, 1, false},
        {"none", 1, 1, NULL, NULL, NULL, 1, false},
    };
    static const struct norm_spec norms[] = {
        {0, 1e-6f, false, NULL, NULL}, {4, NAN, false, NULL, NULL}, {4, -1, false, NULL, NULL}};
    struct backend *be = open_cpu(&engines[0], 1);
    (void)state;
    for (size_t i = 0; i < COUNT_OF(linears); i++) {
        struct linear *linear;
        assert_int_equal(linear_load(be, &linears[i], &linear), ST_SHAPE);
        assert_null(linear);
    }
    for (size_t i = 0; i < COUNT_OF(norms); i++) {
        struct norm *norm;
        assert_int_equal(norm_load(be, &norms[i], &norm), ST_SHAPE);
        assert_null(norm);
    }
    struct table *table;
    assert_int_equal(table_load(be, one, 0, &table), ST_SHAPE);
    backend_close(be);
}

/*
 * A view that cannot be is empty; a workspace too large to measure is refused when it is reserved.
 */
static void test_views(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    struct act a = {.batch = 4, .tokens = 6, .channels = 8, .pitch = 8, .stride = 48};
    struct arena arena = {0};
    struct act b;
    (void)state;
    b = act_rows(act_columns(a, 2, 3), 1, 5);
    assert_int_equal(b.offset, 10);
    assert_int_equal(b.tokens * 100 + b.channels, 503);
    assert_int_equal(act_reshape(a, 12, 4).pitch, 4);
    assert_int_equal(act_reshape(a, 12, 5).batch, 0);
    assert_int_equal(act_reshape(b, 1, 15).batch, 0); /* not dense */
    assert_int_equal(act_front(a, 3, 4).stride, 12);
    assert_int_equal(act_front(a, 12, 5).batch, 0);
    assert_int_equal(act_front(b, 1, 2).batch, 0); /* not dense */
    assert_int_equal(act_rows(a, 6, 1).batch, 0);
    assert_int_equal(act_rows(a, -1, 1).batch, 0);
    assert_int_equal(act_columns(a, 0, 9).batch, 0);
    assert_int_equal(act_columns(a, INT32_MAX, INT32_MAX).batch, 0);
    assert_int_equal(act_batch(a, 5).batch, 0);
    assert_int_equal(act_batch(a, 3).batch, 3);
    (void)act_take(be, &arena, INT32_MAX, INT32_MAX, INT32_MAX);
    assert_int_equal(backend_reserve(be, &arena, "workspace"), ST_NOMEM);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_refusals), cmocka_unit_test(test_gpu_is_named),
        cmocka_unit_test(test_auto),          cmocka_unit_test(test_describe),
        cmocka_unit_test(test_load_refusals), cmocka_unit_test(test_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
