/*
 * test_simt: the simulator of CUDA kernels itself: what is right comes out under every schedule,
 * what is wrong is reported by name, thread and line, or shows in the numbers.
 */
#include "tests/op_shapes.h"
#include "tests/simt.h"
#include "tests/simt_samples.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#if HAVE_CXX

enum { VALUES = 256 };

static _Alignas(16) float in[2 * VALUES], out[VALUES];

static const struct simt_options schedules[] = {
    {.schedule = SIMT_ROUND_ROBIN},
    {.schedule = SIMT_WARP_GREEDY},
    {.schedule = SIMT_RANDOM, .seed = 1},
    {.schedule = SIMT_ROUND_ROBIN, .eager = true},
    {.schedule = SIMT_WARP_GREEDY, .eager = true},
    {.schedule = SIMT_RANDOM, .seed = 2, .eager = true},
};

static enum status run(enum simt_sample sample, const struct simt_options *options) {
    for (int i = 0; i < 2 * VALUES; i++)
        in[i] = (float)(i + 1);
    for (int i = 0; i < VALUES; i++)
        out[i] = -1;
    simt_options = *options;
    enum status st = simt_sample(sample, in, out);
    memset(&simt_options, 0, sizeof simt_options);
    return st;
}

/* What a right sample's out[i] is; how many there are. */
static float wanted(enum simt_sample sample, int i) {
    switch (sample) {
    case SAMPLE_SUM: return 64 * 65 / 2;
    case SAMPLE_VOTES: return (float)(i % 32);
    case SAMPLE_COPY:
    case SAMPLE_WEAK_WAIT:
    case SAMPLE_NO_COMMIT: return i / 4 == 5 ? 0 : (float)(i + 1);
    default: return (float)(i / 64 * 64 + 64 - i % 64);
    }
}

static int wrong_values(enum simt_sample sample) {
    int count = sample == SAMPLE_OVERWRITTEN ? 192 : 64, wrong = 0;
    if (sample == SAMPLE_COPY || sample == SAMPLE_WEAK_WAIT || sample == SAMPLE_NO_COMMIT)
        count = VALUES;
    for (int i = 0; i < count; i++)
        wrong += !(out[i] == wanted(sample, i));
    return wrong;
}

static void right_samples(void **state) {
    (void)state;
    for (size_t s = 0; s < COUNT_OF(schedules); s++)
        for (int sample = SAMPLE_SUM; sample <= SAMPLE_COPY; sample++) {
            assert_int_equal(run((enum simt_sample)sample, &schedules[s]), ST_OK);
            assert_int_equal(wrong_values((enum simt_sample)sample), 0);
        }
}

/* Races and waits that are missing: NaN or old values under some schedule. */
static void races_show(void **state) {
    static const enum simt_sample samples[] = {SAMPLE_NO_BARRIER, SAMPLE_OVERWRITTEN,
                                               SAMPLE_WEAK_WAIT, SAMPLE_NO_COMMIT};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        int seen = 0;
        for (size_t s = 0; s < COUNT_OF(schedules); s++) {
            assert_int_equal(run(samples[i], &schedules[s]), ST_OK);
            seen += wrong_values(samples[i]) > 0;
        }
        assert_true(seen > 0);
    }
    assert_int_equal(run(SAMPLE_UNSET, &schedules[0]), ST_OK);
    for (int i = 0; i < 64; i++)
        assert_true(isnan(out[i]));
}

static void faults_are_named(void **state) {
    static const struct {
        enum simt_sample sample;
        const char *says[3];
    } rows[] = {
        {SAMPLE_SPLIT_BARRIER, {"barriers: block (0, 0, 0)", "divergent barrier", "samples.cu:"}},
        {SAMPLE_HALF_BARRIER, {"barriers: ", " have returned", "samples.cu:"}},
        {SAMPLE_SPLIT_WARP, {"warps: ", "divergent warp: __shfl_xor_sync at", "samples.cu:"}},
        {SAMPLE_HALF_WARP, {"warps: ", "lanes of the warp have returned", "samples.cu:"}},
        {SAMPLE_DEADLOCK,
         {"deadlock: ", "63 wait for __syncthreads at", "1 wait for __syncwarp at"}},
        {SAMPLE_MISALIGNED, {"thread 3: ", "store16 at", "is not aligned"}},
        {SAMPLE_MISALIGNED_INPUT, {"thread 63: ", "cp_async16 at", "is not aligned"}},
        {SAMPLE_OUTSIDE,
         {"thread 63: ", "not in the block's shared memory", "(byte 1024 of 1024)"}},
        {SAMPLE_OUTSIDE_ROW, {"thread 9: ", "ldmatrix at", "(byte -16 of 1024)"}},
        {SAMPLE_OUTSIDE_INPUT, {"addresses: ", "load16 at", "outside of every buffer"}},
        {SAMPLE_BEHIND, {"block (0, 0, 0): ", "a write behind its 1024 bytes", ""}},
    };
    (void)state;
    simt_unwatch();
    simt_watch(in, VALUES * sizeof(float));
    for (size_t s = 0; s < COUNT_OF(schedules); s++)
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            assert_int_equal(run(rows[i].sample, &schedules[s]), ST_DEVICE);
            for (int j = 0; j < 3; j++) {
                if (strstr(fail_message(), rows[i].says[j])) continue;
                printf("'%s' does not say '%s'\n", fail_message(), rows[i].says[j]);
                assert_true(false);
            }
            assert_int_equal(run(SAMPLE_SUM, &schedules[s]), ST_OK); /* the next one is unharmed */
        }
    simt_unwatch();
}

/* A broken site is as good as a fault in the source. */
static void sites_break(void **state) {
    (void)state;
    simt_forget_sites();
    assert_int_equal(run(SAMPLE_COPY, &schedules[0]), ST_OK);
    assert_int_equal(simt_site_count(), 3);
    assert_non_null(strstr(simt_site_name(0), "copy at"));
    assert_non_null(strstr(simt_site_name(1), "wait at"));
    assert_non_null(strstr(simt_site_name(2), "barrier at"));
    for (int i = 0; i < 3; i++) {
        struct simt_options options = schedules[1];
        options.broken = i + 1;
        assert_int_equal(run(SAMPLE_COPY, &options), ST_OK);
        assert_true(wrong_values(SAMPLE_COPY) > 0);
    }
}

static void launches_refused(void **state) {
    static const struct simt_options small = {.shared_block = 512};
    (void)state;
    assert_int_equal(run(SAMPLE_COPY, &small), ST_DEVICE);
    assert_string_equal(fail_message(), "copy: 1 x 1 x 1 blocks of 64 threads with 1024 bytes "
                                        "refused");
}

static void products(void **state) {
    float a[256], b[128], c[128];
    double want[128], ones[128];
    (void)state;
    op_fill(a, 256, 1);
    op_fill(b, 128, 2);
    for (int way = 0; way < 2; way++) {
        bool bf16 = way == 1;
        for (int i = 0; i < 128; i++) {
            want[i] = 0;
            ones[i] = 1;
            for (int k = 0; k < 16; k++) {
                float x = a[i / 8 * 16 + k], y = b[k * 8 + i % 8];
                x = bf16 ? simt_from_bf16(simt_to_bf16(x)) : simt_from_fp16(simt_to_fp16(x));
                y = bf16 ? simt_from_bf16(simt_to_bf16(y)) : simt_from_fp16(simt_to_fp16(y));
                want[i] += (double)x * y;
            }
        }
        assert_int_equal(simt_sample_product(bf16, a, b, c), ST_OK);
        /* fp32 sums of 16: observed 3e-7; two elements swapped measure 1e-1 */
        assert_true(op_close("product", c, want, ones, 128, 1e-6));
    }
    simt_options.no_bf16_mma = true;
    assert_int_equal(simt_sample_product(true, a, b, c), ST_DEVICE);
    assert_non_null(strstr(fail_message(), "the device has none"));
    simt_options.no_bf16_mma = false;
}

/* Every fp16 survives the way through fp32; ties go to even; what is too large is infinite. */
static void halves(void **state) {
    static const struct {
        float x;
        uint16_t fp16, bf16;
    } rows[] = {
        {1, 0x3c00, 0x3f80},
        {-2, 0xc000, 0xc000},
        {65504, 0x7bff, 0x4780},
        {65519.99f, 0x7bff, 0x4780},
        {65520, 0x7c00, 0x4780},
        {1e30f, 0x7c00, 0x714a},
        {1.0009765f, 0x3c01, 0x3f80},
        {1.00048828125f, 0x3c00, 0x3f80},
        {1.00146484375f, 0x3c02, 0x3f80},
        {5.9604645e-8f, 0x0001, 0x3380},
        {2.9802322e-8f, 0x0000, 0x3300},
        {6.1035156e-5f, 0x0400, 0x3880},
        {6.0975552e-5f, 0x03ff, 0x3880},
        {INFINITY, 0x7c00, 0x7f80},
        {1.00390625f, 0x3c04, 0x3f80},
        {1.01171875f, 0x3c0c, 0x3f82},
    };
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = simt_from_fp16((uint16_t)h);
        if (!isnan(x)) assert_int_equal(simt_to_fp16(x), h);
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(simt_to_fp16(rows[i].x), rows[i].fp16);
        assert_int_equal(simt_to_bf16(rows[i].x), rows[i].bf16);
    }
    assert_true(isnan(simt_from_fp16(simt_to_fp16(NAN))));
    assert_true(isnan(simt_from_bf16(simt_to_bf16(NAN))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_samples),    cmocka_unit_test(races_show),
        cmocka_unit_test(faults_are_named), cmocka_unit_test(sites_break),
        cmocka_unit_test(launches_refused), cmocka_unit_test(products),
        cmocka_unit_test(halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void no_compiler(void **state) {
    (void)state;
    printf("skip: no C++ compiler, the simulator cannot be built\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_compiler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
