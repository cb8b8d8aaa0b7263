/*
 * test_quantise_cuda: the kernels around an int8 product in the simulator: fp16 rows to int8, every
 * integer and scale to the bit; int32 products to fp16 through every epilogue; planted faults must
 * be caught. Whole linears and models have test_int8_cuda.
 */
#include "kernels/cuda_kernels.h"
#include "tests/op_shapes.h"
#include "tests/simt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if HAVE_CXX

enum { MOST = 1 << 16, ROWS_MOST = 256, GUARD = 64 };

struct shape {
    int batch, tokens, channels, spare; /* spare columns behind a row */
    int gap;                            /* rows between images */
    int rows;                           /* of q; 0: as many as x has */
    float size;                         /* of the values */
    const char *why;
};

static const struct shape shapes[] = {
    {1, 1, 1, 0, 0, 32, 1, "the least there is"},
    {2, 5, 24, 0, 0, 32, 1, "aligned, a tail of half a chunk's pitch"},
    {2, 5, 24, 3, 0, 0, 1, "rows not aligned"},
    {1, 7, 47, 0, 0, 48, 100, "odd"},
    {1, 5, 44, 4, 0, 32, 1, "aligned rows, a tail of 4 columns"},
    {3, 9, 96, 8, 0, 32, 1, "a view, aligned"},
    {2, 6, 40, 0, 3, 16, 1, "images apart"},
    {1, 3, 768, 0, 0, 32, 65504, "ViT-B, the greatest values"},
    {1, 2, 4096, 0, 0, 16, 1e-6f, "wide, subnormals"},
    {1, 2, 3079, 1, 0, 3, 1, "wide, odd"},
    {1, 6, 64, 1000, 0, 32, 1, "a narrow view"},
};

static struct {
    uint16_t x[MOST], residual[MOST], y[MOST]; /* fp16 */
    int8_t q[MOST + GUARD];
    float scales[ROWS_MOST + GUARD];
    int32_t products[MOST];
    float columns[2048], bias[2048];
    bool loud;
    uint64_t seen; /* fingerprint of the results */
} bench __attribute__((aligned(16)));

static void note(uint64_t bits) {
    bench.seen = (bench.seen ^ bits) * 0x100000001b3u;
}

static bool differs(const char *why, const char *what, double got, double want) {
    if (bench.loud) printf("%s: %s is %.9g, want %.9g\n", why, what, got, want);
    return false;
}

/* ---- rows to int8 ---------------------------------------------------------------------------- */

static struct cuda_view view_of(const struct shape *s, void *data) {
    const size_t pitch = (size_t)(s->channels + s->spare);
    const size_t stride = (size_t)(s->tokens + s->gap) * pitch;
    assert_true((size_t)s->batch * stride <= MOST && s->batch * s->tokens <= ROWS_MOST);
    return (struct cuda_view){data, s->batch, s->tokens, s->channels, pitch, stride};
}

static const uint16_t *row_of(const struct cuda_view *x, int row) {
    return (const uint16_t *)x->data + (size_t)(row / x->tokens) * x->stride +
           (size_t)(row % x->tokens) * x->pitch;
}

/* Random values, every fifth row zeros; what is no value is great. */
static void fill_rows(const struct shape *s, const struct cuda_view *x) {
    uint64_t seed = 7;
    for (size_t i = 0; i < MOST; i++)
        bench.x[i] = simt_to_fp16(60000);
    for (int row = 0; row < s->batch * s->tokens; row++)
        for (int c = 0; c < s->channels; c++) {
            float value = s->size * op_random(&seed);
            ((uint16_t *)(uintptr_t)row_of(x, row))[c] = simt_to_fp16(row % 5 == 4 ? 0 : value);
        }
}

/* The formulas of quantise_cuda, a row at a time. */
static bool check_row(const char *why, const uint16_t *x, int channels, const int8_t *q, int pitch,
                      float scale) {
    float most = 0;
    for (int c = 0; c < channels; c++)
        most = fmaxf(most, fabsf(simt_from_fp16(x[c])));
    if (scale != most / 127) return differs(why, "a scale", (double)scale, (double)(most / 127));
    for (int c = 0; c < pitch; c++) {
        float value = c < channels ? simt_from_fp16(x[c]) : 0;
        int want = most > 0 ? (int)rintf(value * (127 / most)) : 0;
        note((uint8_t)q[c]);
        if (q[c] != want) return differs(why, "an integer", q[c], want);
        if (fabs((double)value - (double)scale * q[c]) > 0.50002 * (double)scale)
            return differs(why, "a value", (double)scale * q[c], (double)value);
    }
    return true;
}

static bool quantise(const struct shape *s, const struct cuda_view *x, int *pitch, int *rows) {
    enum status st;
    *pitch = (s->channels + 15) / 16 * 16;
    *rows = s->rows ? s->rows : s->batch * s->tokens;
    assert_true(*rows * *pitch <= MOST && *rows <= ROWS_MOST);
    memset(bench.q, 0x55, sizeof bench.q);
    for (int i = 0; i < ROWS_MOST + GUARD; i++)
        bench.scales[i] = -1;
    st = cuda_quantise(x, bench.q, *pitch, bench.scales, *rows, NULL);
    if (st != ST_OK && bench.loud) printf("%s: %s\n", s->why, fail_message());
    return st == ST_OK;
}

static bool check_shape(const struct shape *s) {
    const struct cuda_view x = view_of(s, bench.x);
    int pitch, rows;
    fill_rows(s, &x);
    if (!quantise(s, &x, &pitch, &rows)) return false;
    for (int row = 0; row < rows; row++) {
        bool there = row < s->batch * s->tokens;
        if (!check_row(s->why, there ? row_of(&x, row) : NULL, there ? s->channels : 0,
                       bench.q + row * pitch, pitch, bench.scales[row]))
            return false;
    }
    for (int i = 0; i < GUARD; i++)
        if (bench.q[rows * pitch + i] != 0x55) return differs(s->why, "what is behind q", i, 0);
    return bench.scales[rows] == -1;
}

static bool all_shapes(void) {
    bool good = true;
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        good &= check_shape(&shapes[i]);
    return good;
}

/* Ties go to the even integer. */
static void test_ties(void **state) {
    static const float values[16] = {127, 0.5f, 1.5f, -2.5f, 126.5f, -126.5f, 0.4995f, -0.5f};
    static const int want[16] = {127, 0, 2, -2, 126, -126, 0, 0};
    const struct cuda_view x = {bench.x, 1, 1, 16, 16, 16};
    (void)state;
    for (int i = 0; i < 16; i++)
        bench.x[i] = simt_to_fp16(values[i]);
    assert_int_equal(cuda_quantise(&x, bench.q, 16, bench.scales, 1, NULL), ST_OK);
    for (int i = 0; i < 16; i++)
        assert_int_equal(bench.q[i], want[i]);
    assert_true(bench.scales[0] == 1);
}

/* An infinity or a NaN makes its row's results NaN, whatever the products, and no other row's. */
static void test_not_finite(void **state) {
    static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00, 0xfe01}; /* inf, -inf, NaN, NaN */
    const struct shape s = {1, 3, 24, 0, 0, 3, 1, "not finite"};
    const struct cuda_view x = view_of(&s, bench.x), y = view_of(&s, bench.y);
    struct cuda_activation call = {.type = CUDA_FP16, .x = x, .y = y};
    int pitch, rows;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        for (int at = 0; at < 24; at += 23) {
            fill_rows(&s, &x);
            bench.x[24 + at] = bad[i];
            assert_true(quantise(&s, &x, &pitch, &rows));
            assert_false(isfinite(bench.scales[1]));
            for (int c = 0; c < pitch; c++)
                assert_int_equal(bench.q[pitch + c], 0);
            memset(bench.products, 0, sizeof bench.products); /* what q = 0 gives */
            for (int c = 0; c < 24; c++)
                bench.columns[c] = 1;
            call.x.data = bench.products;
            call.row_scales = bench.scales;
            call.column_scales = bench.columns;
            assert_int_equal(cuda_activation(&call, NULL), ST_OK);
            for (int c = 0; c < 72; c++)
                assert_true(!isnan(simt_from_fp16(bench.y[c])) == (c / 24 != 1));
        }
}

/* ---- products to fp16 ------------------------------------------------------------------------ */

static double apply(enum epilogue epilogue, double a, double b) {
    switch (epilogue) {
    case EPILOGUE_NONE: return a;
    case EPILOGUE_GELU: return 0.5 * a * (1 + erf(a * 0.7071067811865476));
    case EPILOGUE_GELU_TANH:
        return 0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)));
    case EPILOGUE_QUICK_GELU: return a / (1 + exp(-1.702 * a));
    case EPILOGUE_SWIGLU: return a / (1 + exp(-a)) * b;
    }
    return NAN;
}

static double product_at(const struct cuda_activation *call, int row, int c) {
    const int32_t *x = bench.products + (size_t)row * call->x.pitch;
    return (double)x[c] * (double)bench.scales[row] * (double)bench.columns[c] +
           (call->bias ? (double)call->bias[c] : 0);
}

static bool check_results(const struct shape *s, const struct cuda_activation *call) {
    for (int row = 0; row < s->batch * s->tokens; row++)
        for (int c = 0; c < s->channels; c++) {
            bool gated = call->epilogue == EPILOGUE_SWIGLU;
            double b = gated ? product_at(call, row, s->channels + c) : 0;
            double want = apply(call->epilogue, product_at(call, row, c), b), got;
            uint16_t bits = row_of(&call->y, row)[c];
            if (call->residual.data)
                want += (double)simt_from_fp16(row_of(&call->residual, row)[c]);
            got = (double)simt_from_fp16(bits);
            note(bits);
            /* Half a step of fp16 at 1, and fp32's rounding. */
            if (!(fabs(got - want) <= 5e-4 * fmax(1, fabs(want))))
                return differs(s->why, "a result", got, want);
        }
    return true;
}

static bool check_products(const struct shape *s, enum epilogue epilogue, bool bias, int residual) {
    const int columns = epilogue == EPILOGUE_SWIGLU ? 2 * s->channels : s->channels;
    const size_t pitch = ((size_t)columns + 15) / 16 * 16;
    const int rows = s->batch * s->tokens;
    struct cuda_activation call = {.type = CUDA_FP16, .epilogue = epilogue};
    uint64_t seed = 3;
    if (columns > 2048 || (size_t)rows * pitch > MOST) return true;
    call.x = (struct cuda_view){bench.products, s->batch, s->tokens,
                                columns,        pitch,    (size_t)s->tokens * pitch};
    call.y = view_of(s, bench.y);
    if (residual > 0) call.residual = view_of(s, residual == 1 ? bench.residual : bench.y);
    for (size_t i = 0; i < MOST; i++) {
        bench.products[i] = (int32_t)(1000000 * op_random(&seed));
        bench.residual[i] = bench.y[i] = simt_to_fp16(op_random(&seed));
    }
    for (int i = 0; i < rows; i++)
        bench.scales[i] = i % 5 == 4 ? 0 : 0.02f + 0.01f * op_random(&seed);
    for (int c = 0; c < columns; c++) {
        bench.columns[c] = 1.5e-4f * op_random(&seed); /* LayerScale may make it negative */
        bench.bias[c] = op_random(&seed);
    }
    if (bias) call.bias = bench.bias;
    call.row_scales = bench.scales;
    call.column_scales = bench.columns;
    if (residual == 2) { /* in place: what it was is in the other */
        memcpy(bench.residual, bench.y, sizeof bench.y);
        if (cuda_activation(&call, NULL) != ST_OK) return false;
        call.residual.data = bench.residual;
        return check_results(s, &call);
    }
    return cuda_activation(&call, NULL) == ST_OK && check_results(s, &call);
}

static bool all_products(void) {
    bool good = true;
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (int e = EPILOGUE_NONE; e <= EPILOGUE_SWIGLU; e++) {
            good &= check_products(&shapes[i], (enum epilogue)e, true, e % 3);
            good &= check_products(&shapes[i], (enum epilogue)e, false, (e + 1) % 3);
        }
    return good;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static bool all(void) {
    bool rows = all_shapes();
    return all_products() && rows;
}

static void test_rows(void **state) {
    (void)state;
    bench.loud = true;
    assert_true(all_shapes());
}

static void test_products(void **state) {
    (void)state;
    bench.loud = true;
    assert_true(all_products());
}

static void test_schedules(void **state) {
    uint64_t first = 0;
    (void)state;
    for (int schedule = SIMT_ROUND_ROBIN; schedule <= SIMT_RANDOM; schedule++) {
        simt_options = (struct simt_options){.schedule = (enum simt_schedule)schedule, .seed = 5};
        bench.seen = 0;
        assert_true(all());
        if (schedule == SIMT_ROUND_ROBIN) first = bench.seen;
        assert_true(bench.seen == first);
    }
    simt_options = (struct simt_options){0};
}

/* Every shuffle broken, and every mutant of these kernels. */
static void test_planted(void **state) {
#define ROW(name, what) {MUTANT_##name, what},
    static const struct {
        enum mutant mutant;
        const char *what;
    } mutants[] = {INT8_MUTANTS(ROW)};
#undef ROW
    int sites;
    (void)state;
    bench.loud = false;
    simt_forget_sites();
    assert_true(all());
    sites = simt_site_count();
    assert_true(sites >= 1); /* the row's maximum */
    for (int site = 0; site < sites; site++) {
        simt_options = (struct simt_options){.broken = 1 + site};
        bool caught = !all();
        printf("broken %s: %s\n", simt_site_name(site), caught ? "caught" : "NOT CAUGHT");
        assert_true(caught);
    }
    for (size_t i = 0; i < COUNT_OF(mutants); i++) {
        simt_options = (struct simt_options){.mutant = mutants[i].mutant};
        bool caught = !all();
        printf("mutant, %s: %s\n", mutants[i].what, caught ? "caught" : "NOT CAUGHT");
        assert_true(caught);
    }
    simt_options = (struct simt_options){0};
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),       cmocka_unit_test(test_ties),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_products),
        cmocka_unit_test(test_schedules),  cmocka_unit_test(test_planted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void no_compiler(void **state) {
    (void)state;
    printf("skip: no C++ compiler for the CUDA simulator\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_compiler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
