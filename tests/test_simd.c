/*
 * test_simd: the mathematics of simd.h against libm in double, then activations, additions and
 * norms of every feature level this machine runs, and of the 16-lane source ("wide").
 *
 * simd.h is included at this file's own level (base); the other levels' exponentials are reached
 * through the activations, whose ranges cover them.
 */
#include "tests/levels.h"
#include "kernels/simd.h"
#include "tests/op_shapes.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CANARIES = 16, MOST = 2100 };
static const float canary = -12345.5f;

/* ---- simd.h ---------------------------------------------------------------------------------- */

static void simd_exp(float *x) {
    vf_store(x, vf_exp(vf_load(x)));
}
static void simd_exp_negative(float *x) {
    vf_store(x, vf_exp_negative(vf_load(x)));
}
static void simd_erf(float *x) {
    vf_store(x, vf_erf(vf_load(x)));
}
static void simd_tanh(float *x) {
    vf_store(x, vf_tanh(vf_load(x)));
}
static void simd_sigmoid(float *x) {
    vf_store(x, vf_sigmoid(vf_load(x)));
}
static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

struct function {
    const char *name;
    void (*got)(float *x); /* VL floats in place */
    double (*want)(double x);
    double from, to;
    double tolerance; /* relative above `floor`, there absolute: tolerance * floor */
    double floor;
    float at_minus, at_plus; /* at -inf and +inf */
};

/*
 * Observed at base, without fused operations: exp 9.4e-8, erf 1.8e-7, tanh 1.3e-7, sigmoid 1.4e-7.
 */
static const struct function functions[] = {
    {"exp", simd_exp, exp, -87.3, 88.72, 1.2e-7, 0, 0, INFINITY},
    {"exp, subnormal", simd_exp, exp, -106, -87.3, 1.2e-7, FLT_MIN, 0, INFINITY},
    {"exp_negative", simd_exp_negative, exp, -87.3, 0, 1.2e-7, 0, 0, 0},
    {"exp_negative, flushed", simd_exp_negative, exp, -1000, -87.3, 1, FLT_MIN, 0, 0},
    {"erf", simd_erf, erf, -6, 6, 2.4e-7, 1e-30, -1, 1},
    {"tanh", simd_tanh, tanh, -20, 20, 2.6e-7, 1e-30, -1, 1},
    {"sigmoid", simd_sigmoid, sigmoid, -87, 40, 2.4e-7, 0, 0, 1},
};

static void functions_against_libm(void **state) {
    enum { STEPS = 400000 };
    bool good = true;
    (void)state;
    for (size_t f = 0; f < COUNT_OF(functions); f++) {
        const struct function *row = &functions[f];
        double worst = 0, at = 0;
        for (int i = 0; i < STEPS; i += VL) {
            float x[VL], y[VL];
            for (int j = 0; j < VL; j++)
                x[j] = (float)(row->from + (row->to - row->from) * (i + j) / STEPS);
            memcpy(y, x, sizeof y);
            row->got(y);
            for (int j = 0; j < VL; j++) {
                double want = row->want(x[j]);
                double error = fabs(y[j] - want) / fmax(fabs(want), row->floor);
                if (want == 0 && y[j] == 0) error = 0;
                if (!(error <= worst)) {
                    worst = error;
                    at = x[j];
                }
            }
        }
        printf("%s: max rel %.3g at %.9g, tolerance %.3g\n", row->name, worst, at, row->tolerance);
        good &= worst <= row->tolerance;
    }
    assert_true(good);
}

static void functions_at_the_ends(void **state) {
    (void)state;
    for (size_t f = 0; f < COUNT_OF(functions); f++) {
        const struct function *row = &functions[f];
        float x[VL] = {0};
        x[0] = -INFINITY;
        x[1] = NAN;
        x[2] = INFINITY;
        row->got(x);
        assert_true(x[0] == row->at_minus);
        assert_true(isnan(x[1]));
        if (row->got != simd_exp_negative) assert_true(x[2] == row->at_plus);
        assert_true(x[3] == (float)row->want(0));
    }
}

static void lanes(void **state) {
    float in[2 * VL], out[VL + 1], square[VL * VL];
    (void)state;
    for (int i = 0; i < 2 * VL; i++)
        in[i] = (float)(i + 1);
    for (int n = 0; n <= VL; n++) {
        vf_store(out, vf_load_n(in, n));
        for (int i = 0; i < VL; i++)
            assert_true(out[i] == (i < n ? in[i] : 0));
        for (int i = 0; i <= VL; i++)
            out[i] = canary;
        vf_store_n(out, vf_load(in), n);
        for (int i = 0; i <= VL; i++)
            assert_true(out[i] == (i < n ? in[i] : canary));
    }
    vf rows[VL];
    for (int r = 0; r < VL; r++)
        rows[r] = vf_load(in) + 100.0f * (float)r;
    vf_transpose(rows);
    for (int r = 0; r < VL; r++)
        vf_store(square + r * VL, rows[r]);
    for (int r = 0; r < VL; r++)
        for (int i = 0; i < VL; i++)
            assert_true(square[r * VL + i] == in[r] + 100.0f * (float)i);
    assert_true(vf_sum(vf_load(in)) == VL * (VL + 1) / 2);
    for (int at = 0; at < VL; at++) {
        memset(out, 0, sizeof out);
        out[at] = 7;
        assert_true(vf_greatest(vf_load(out)) == 7);
        assert_true(vf_sum(vf_load(out)) == 7);
    }
}

/* ---- activations ----------------------------------------------------------------------------- */

static const struct {
    enum epilogue kind;
    float want[7]; /* at -3, -1, -0.5, 0, 0.5, 1, 3; from torch, seven decimals */
} golden[] = {
    {EPILOGUE_GELU, {-0.0040497f, -0.1586553f, -0.1542688f, 0, 0.3457312f, 0.8413447f, 2.9959503f}},
    {EPILOGUE_GELU_TANH,
     {-0.0036374f, -0.1588080f, -0.1542860f, 0, 0.3457140f, 0.8411920f, 2.9963626f}},
    {EPILOGUE_QUICK_GELU,
     {-0.0180713f, -0.1542042f, -0.1496116f, 0, 0.3503884f, 0.8457958f, 2.9819287f}},
    {EPILOGUE_NONE, {-3, -1, -0.5f, 0, 0.5f, 1, 3}},
};

static void activations_golden(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t l = 0; l < count; l++) {
        for (size_t i = 0; i < COUNT_OF(golden); i++) {
            float x[7] = {-3, -1, -0.5f, 0, 0.5f, 1, 3};
            levels[l]->activate(golden[i].kind, x, 7);
            for (int j = 0; j < 7; j++) /* half of the last decimal, and 3's own rounding */
                assert_float_equal(x[j], golden[i].want[j], 0.6e-7 + 1.2e-7 * fabs(x[j]));
        }
    }
}

static double exact(enum epilogue kind, double x) {
    switch (kind) {
    case EPILOGUE_GELU: return x * 0.5 * erfc(-x * sqrt(0.5));
    case EPILOGUE_GELU_TANH:
        return x * sigmoid(2 * sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x));
    case EPILOGUE_QUICK_GELU: return x * sigmoid(1.702 * x);
    case EPILOGUE_SWIGLU: return x * sigmoid(x);
    default: return x;
    }
}

static const char *const kinds[] = {"none", "gelu", "gelu_tanh", "quick_gelu", "silu"};

/* Absolute below 1, relative above; observed 9.5e-8 (gelu), 1.2e-7 (the others). */
static void activations_against_double(void **state) {
    enum { COUNT = 40001 };
    static float x[COUNT], y[COUNT], ones[COUNT];
    static double want[COUNT], scale[COUNT];
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    bool good = true;
    (void)state;
    for (size_t l = 0; l < count; l++) {
        for (int kind = EPILOGUE_GELU; kind <= EPILOGUE_SWIGLU; kind++) {
            char name[64];
            for (int i = 0; i < COUNT; i++) {
                x[i] = y[i] = (float)(i - COUNT / 2) * 0.0007f; /* to +-14 */
                if (i % 7 == 0) x[i] = y[i] = x[i] * 20;        /* to +-280 */
                want[i] = exact((enum epilogue)kind, x[i]);
                scale[i] = fmax(1, fabs(want[i]));
                ones[i] = 1;
            }
            if (kind == EPILOGUE_SWIGLU)
                levels[l]->swiglu(x, ones, y, COUNT);
            else
                levels[l]->activate((enum epilogue)kind, y, COUNT);
            snprintf(name, sizeof name, "%s %s", levels[l]->level, kinds[kind]);
            good &= op_close(name, y, want, scale, COUNT, 1.8e-7);
        }
    }
    assert_true(good);
}

/* Every length: the tail equals the whole, nothing behind it is touched. */
static void activations_tails(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t l = 0; l < count; l++) {
        for (int kind = EPILOGUE_NONE; kind <= EPILOGUE_SWIGLU; kind++) {
            float x[64], whole[64], part[64], other[64];
            op_fill(x, 64, 5);
            op_fill(other, 64, 6);
            memcpy(whole, x, sizeof x);
            if (kind == EPILOGUE_SWIGLU)
                levels[l]->swiglu(x, other, whole, 64);
            else
                levels[l]->activate((enum epilogue)kind, whole, 64);
            for (size_t n = 0; n <= 48; n++) {
                memcpy(part, x, sizeof x);
                if (kind == EPILOGUE_SWIGLU)
                    levels[l]->swiglu(x, other, part, n);
                else
                    levels[l]->activate((enum epilogue)kind, part, n);
                assert_memory_equal(part, whole, n * sizeof(float));
                assert_memory_equal(part + n, x + n, (64 - n) * sizeof(float));
            }
        }
    }
}

static void activations_at_the_ends(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t l = 0; l < count; l++) {
        for (int kind = EPILOGUE_GELU; kind <= EPILOGUE_SWIGLU; kind++) {
            float x[5] = {NAN, -INFINITY, INFINITY, 3e38f, -3e38f}, one[5] = {1, 1, 1, 1, 1};
            if (kind == EPILOGUE_SWIGLU)
                levels[l]->swiglu(x, one, x, 5);
            else
                levels[l]->activate((enum epilogue)kind, x, 5);
            assert_true(isnan(x[0]));
            assert_true(fabsf(x[1]) <= 1e-30f);
            assert_true(x[2] == INFINITY);
            assert_true(x[3] == 3e38f);
            assert_true(fabsf(x[4]) <= 1e-30f);
        }
    }
}

static void additions(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    float a[64], b[64], y[64];
    (void)state;
    op_fill(a, 64, 8);
    op_fill(b, 64, 9);
    for (size_t l = 0; l < count; l++) {
        for (size_t n = 0; n <= 48; n++) {
            for (int i = 0; i < 64; i++)
                y[i] = canary;
            levels[l]->add(a, b, y, n);
            for (size_t i = 0; i < 64; i++)
                assert_true(y[i] == (i < n ? a[i] + b[i] : canary));
        }
    }
}

/* ---- norms ----------------------------------------------------------------------------------- */

static const struct norm_row {
    int width, runs;
    bool rms, affine, residual, in_place;
    float offset, spread, eps;
    double tolerance; /* of values about 1; observed a third of it */
    const char *why;
} norm_rows[] = {
    {768, 1, false, true, false, false, 0, 1, 1e-6f, 1e-6, "ViT-B"},
    {768, 1, false, true, false, true, 0, 1, 1e-6f, 1e-6, "in place"},
    {96, 1, false, true, true, false, 0, 1, 1e-5f, 1e-6, "Swin v2: residual + norm"},
    {64, 12, false, true, false, true, 0, 1, 1e-6f, 1e-6, "query/key norms: 12 runs of 64"},
    {64, 12, true, true, false, false, 0.5f, 1, 1e-6f, 1e-6, "RMSNorm"},
    {1, 3, false, true, false, false, 2, 1, 1e-6f, 1e-6, "width 1: the bias alone"},
    {7, 5, false, true, true, false, 0, 1, 1e-5f, 2e-6, "less than a vector"},
    {37, 3, false, false, false, false, 0, 1, 1e-6f, 1e-6, "odd, no weight, no bias"},
    {131, 2, true, false, true, true, 0, 3, 1e-6f, 1e-6, "odd, RMS, residual, in place"},
    {2048, 1, false, true, false, false, 0, 1e-4f, 1e-6f, 2e-6, "eps matters"},
    {768, 1, false, false, false, false, 100, 1, 1e-6f, 5e-5, "mean 100: two passes; one has 1e-3"},
    {192, 1, false, true, false, false, 5, 0, 1e-6f, 1e-6, "a constant row: the bias"},
};

static void norm_reference(const struct norm_row *row, const float *x, const float *weight,
                           const float *bias, const float *residual, double *want) {
    for (int run = 0; run < row->runs; run++) {
        size_t at = (size_t)run * (size_t)row->width;
        double mean = 0, variance = 0;
        for (int i = 0; i < row->width; i++)
            mean += x[at + (size_t)i] / (double)row->width;
        if (row->rms) mean = 0;
        for (int i = 0; i < row->width; i++)
            variance += pow(x[at + (size_t)i] - mean, 2) / row->width;
        for (int i = 0; i < row->width; i++) {
            double y = (x[at + (size_t)i] - mean) / sqrt(variance + (double)row->eps);
            want[at + (size_t)i] = y * (row->affine ? weight[i] : 1) + (row->affine ? bias[i] : 0) +
                                   (row->residual ? residual[at + (size_t)i] : 0);
        }
    }
}

static void norms(void **state) {
    static float x[MOST], y[MOST + CANARIES], weight[MOST], bias[MOST], residual[MOST];
    static double want[MOST], ones[MOST];
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    bool good = true;
    (void)state;
    op_fill(weight, MOST, 11);
    op_fill(bias, MOST, 12);
    op_fill(residual, MOST, 13);
    for (size_t l = 0; l < count; l++) {
        for (size_t r = 0; r < COUNT_OF(norm_rows); r++) {
            const struct norm_row *row = &norm_rows[r];
            size_t n = (size_t)row->width * (size_t)row->runs;
            char name[128];
            op_fill(x, n, 14);
            for (size_t i = 0; i < n; i++) {
                x[i] = x[i] * row->spread + row->offset;
                ones[i] = 1;
            }
            for (int i = 0; i < MOST + CANARIES; i++)
                y[i] = canary;
            norm_reference(row, x, weight, bias, residual, want);
            if (row->in_place) memcpy(y, x, n * sizeof(float));
            levels[l]->layernorm(row->in_place ? y : x, row->affine ? weight : NULL,
                                 row->affine ? bias : NULL, row->residual ? residual : NULL, y,
                                 row->width, row->runs, row->eps, row->rms);
            snprintf(name, sizeof name, "%s: %s", levels[l]->level, row->why);
            good &= op_close(name, y, want, ones, n, row->tolerance);
            for (size_t i = n; i < n + CANARIES; i++)
                assert_true(y[i] == canary);
        }
    }
    assert_true(good);
}

/* y may be the residual; a NaN fills its own run and no other. */
static void norm_edges(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t l = 0; l < count; l++) {
        float x[3 * 21], y[3 * 21], residual[3 * 21];
        op_fill(x, 63, 15);
        op_fill(residual, 63, 16);
        levels[l]->layernorm(x, NULL, NULL, residual, y, 21, 3, 1e-6f, false);
        levels[l]->layernorm(x, NULL, NULL, residual, residual, 21, 3, 1e-6f, false);
        assert_memory_equal(y, residual, sizeof y);
        x[30] = NAN;
        levels[l]->layernorm(x, NULL, NULL, NULL, y, 21, 3, 1e-6f, false);
        for (int i = 0; i < 63; i++)
            assert_int_equal(isnan(y[i]) != 0, i / 21 == 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_against_libm),
        cmocka_unit_test(functions_at_the_ends),
        cmocka_unit_test(lanes),
        cmocka_unit_test(activations_golden),
        cmocka_unit_test(activations_against_double),
        cmocka_unit_test(activations_tails),
        cmocka_unit_test(activations_at_the_ends),
        cmocka_unit_test(additions),
        cmocka_unit_test(norms),
        cmocka_unit_test(norm_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
