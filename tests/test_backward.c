/*
 * test_backward: the backward ops on the CPU against central differences of the forward formulas in
 * double precision, and what they refuse. What windows, padding, masks and biases do to them is
 * held against autograd, model by model, in test_gradient.c.
 */
#include "kernels/backward.h"
#include "tests/op_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cpu_engines.h"

/* Against the greatest gradient of a case; observed up to 1.5e-6. */
#define TOLERANCE 1e-5
#define STEP      1e-5 /* of the differences: their own error is some 1e-9 */

/* s = sum of dy * f(x): x (n) -> y (m), both double; `context` is the case. */
typedef void forward_fn(const void *context, const double *x, double *y);

static double scalar(forward_fn *f, const void *context, const double *x, const float *dy, int m) {
    double y[600], sum = 0;
    assert_true(m <= 600);
    f(context, x, y);
    for (int i = 0; i < m; i++)
        sum += y[i] * (double)dy[i];
    return sum;
}

/* Whether got (n) is ds/dx + residual (NULL: 0). */
static bool right(const char *name, forward_fn *f, const void *context, const float *x, int n,
                  const float *dy, int m, const float *residual, const float *got) {
    double at[600], want[600], scale[600], largest = 0;
    assert_true(n <= 600);
    for (int i = 0; i < n; i++)
        at[i] = (double)x[i];
    for (int i = 0; i < n; i++) {
        double above, below;
        at[i] += STEP;
        above = scalar(f, context, at, dy, m);
        at[i] -= 2 * STEP;
        below = scalar(f, context, at, dy, m);
        at[i] = (double)x[i];
        want[i] = (above - below) / (2 * STEP) + (residual ? (double)residual[i] : 0);
        largest = fmax(largest, fabs(want[i]));
    }
    for (int i = 0; i < n; i++)
        scale[i] = largest > 0 ? largest : 1;
    return op_close(name, got, want, scale, (size_t)n, TOLERANCE);
}

/* Dense on the host, which is the CPU backend's memory. */
static struct act dense(float *values, int batch, int tokens, int channels) {
    return (struct act){.data = values,
                        .batch = batch,
                        .tokens = tokens,
                        .channels = channels,
                        .pitch = (size_t)channels,
                        .stride = (size_t)tokens * (size_t)channels};
}

/* ---- norms ----------------------------------------------------------------------------------- */

static const struct norm_case {
    const char *name;
    int tokens, channels, width;
    bool rms, residual, repeated;
    float eps;
} norm_cases[] = {
    {"a block's", 3, 33, 33, false, true, false, 1e-6f},
    {"per head", 2, 24, 8, false, false, false, 1e-6f},
    {"per head, RMS", 2, 24, 8, true, true, false, 1e-5f},
    {"of two scalars", 3, 16, 16, false, true, true, 1e-3f},
    {"one channel wide", 2, 5, 1, false, false, false, 1e-2f},
    {"one channel wide, RMS", 2, 5, 1, true, false, false, 1e-2f},
};

struct norm_subject {
    const struct norm_case *row;
    const float *weight; /* (width) */
};

static void norm_forward(const void *context, const double *x, double *y) {
    const struct norm_subject *subject = context;
    const int width = subject->row->width, runs = subject->row->tokens * subject->row->channels;
    for (int at = 0; at < runs; at += width) {
        double mean = 0, square = 0;
        for (int i = 0; i < width && !subject->row->rms; i++)
            mean += x[at + i] / width;
        for (int i = 0; i < width; i++)
            square += pow(x[at + i] - mean, 2) / width;
        for (int i = 0; i < width; i++)
            y[at + i] = (x[at + i] - mean) / sqrt(square + (double)subject->row->eps) *
                        (double)subject->weight[i];
    }
}

static void test_norms(void **state) {
    bool good = true;
    for (size_t e = 0; e < COUNT_OF(engines); e++) {
        struct backend *be = open_cpu(&engines[e], 2);
        for (size_t c = 0; c < COUNT_OF(norm_cases); c++) {
            const struct norm_case *row = &norm_cases[c];
            const int n = row->tokens * row->channels, batch = row->repeated ? 2 : 1;
            const size_t all = (size_t)(batch * n);
            float *x = random_floats((size_t)n, 1), *dy = random_floats(all, 2);
            float *residual = random_floats(all, 3), *weight = random_floats((size_t)row->width, 4);
            const struct norm_spec spec = {
                .width = row->width, .eps = row->eps, .rms = row->rms, .weight = weight};
            const struct norm_subject subject = {row, weight};
            struct act dx = dense(residual, batch, row->tokens, row->channels);
            struct norm *norm;
            float *kept = memcpy(random_floats(all, 0), residual, all * sizeof(float));
            assert_int_equal(norm_load(be, &spec, &norm), ST_OK);
            op_layernorm_backward(be, norm,
                                  act_repeat(dense(x, 1, row->tokens, row->channels), batch),
                                  dense(dy, batch, row->tokens, row->channels),
                                  row->residual ? &dx : NULL, dx); // in the residual's place
            assert_int_equal(backend_sync(be), ST_OK);
            for (int b = 0; b < batch; b++)
                good = right(row->name, norm_forward, &subject, x, n, dy + b * n, n,
                             row->residual ? kept + b * n : NULL, residual + b * n) &&
                       good;
            mem_free(x);
            mem_free(dy);
            mem_free(residual);
            mem_free(weight);
            mem_free(kept);
        }
        backend_close(be);
    }
    (void)state;
    assert_true(good);
}

/* ---- activations ----------------------------------------------------------------------------- */

enum { HIDDEN = 37 };

static const enum epilogue activations[] = {EPILOGUE_NONE, EPILOGUE_GELU, EPILOGUE_GELU_TANH,
                                            EPILOGUE_QUICK_GELU, EPILOGUE_SWIGLU};

static void activation_forward(const void *context, const double *x, double *y) {
    const enum epilogue epilogue = *(const enum epilogue *)context;
    for (int i = 0; i < HIDDEN; i++) {
        const double v = x[i];
        switch (epilogue) {
        case EPILOGUE_NONE: y[i] = v; break;
        case EPILOGUE_GELU: y[i] = v * 0.5 * (1 + erf(v / sqrt(2))); break;
        case EPILOGUE_GELU_TANH:
            y[i] = 0.5 * v * (1 + tanh(sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v)));
            break;
        case EPILOGUE_QUICK_GELU: y[i] = v / (1 + exp(-1.702 * v)); break;
        case EPILOGUE_SWIGLU: y[i] = v / (1 + exp(-v)) * x[HIDDEN + i]; break;
        }
    }
}

static void test_activations(void **state) {
    struct backend *be = open_cpu(&engines[0], 2);
    bool good = true;
    (void)state;
    for (size_t c = 0; c < COUNT_OF(activations); c++) {
        const bool pairs = activations[c] == EPILOGUE_SWIGLU;
        const int n = pairs ? 2 * HIDDEN : HIDDEN;
        float *x = random_floats((size_t)n, 5), *dy = random_floats(HIDDEN, 6);
        float *dx = random_floats((size_t)n, 7);
        char name[32];
        snprintf(name, sizeof name, "activation %zu", c);
        for (int i = 0; i < n; i++)
            x[i] *= 4; // where the slopes bend
        op_activation_backward(be, activations[c], dense(x, 1, 1, n), dense(dy, 1, 1, HIDDEN),
                               dense(dx, 1, 1, n));
        assert_int_equal(backend_sync(be), ST_OK);
        good = right(name, activation_forward, &activations[c], x, n, dy, HIDDEN, NULL, dx) && good;
        mem_free(x);
        mem_free(dy);
        mem_free(dx);
    }
    backend_close(be);
    assert_true(good);
}

/* Far out nothing is lost: slopes of 0 and 1, no NaN. */
static void test_activations_far_out(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    (void)state;
    for (size_t c = 1; c + 1 < COUNT_OF(activations); c++) {
        float x[] = {-3e4f, -200, 200, 3e4f}, dy[] = {1, 1, 1, 1};
        op_activation_backward(be, activations[c], dense(x, 1, 1, 4), dense(dy, 1, 1, 4),
                               dense(dy, 1, 1, 4));
        assert_int_equal(backend_sync(be), ST_OK);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(dy[i] - (i < 2 ? 0.0f : 1.0f)) < 1e-6f);
    }
    backend_close(be);
}

/* ---- attention ------------------------------------------------------------------------------- */

static const struct attention_case {
    const char *name;
    int tq, tk, heads, dim;
    enum attention_score score;
} attention_cases[] = {
    {"one head", 5, 5, 1, 8, SCORE_DOT},
    {"odd width, fewer queries", 2, 7, 3, 5, SCORE_DOT},
    {"one query", 1, 6, 2, 18, SCORE_DOT},
    {"cosine", 4, 4, 2, 9, SCORE_COSINE},
};

struct attention_subject {
    const struct attention_case *row;
    float scale[4]; /* of each head */
};

/* x: q (tq, H*D), k (tk, H*D), v (tk, H*D) -> y (tq, H*D) */
static void attention_forward(const void *context, const double *x, double *y) {
    const struct attention_subject *subject = context;
    const struct attention_case *row = subject->row;
    const int C = row->heads * row->dim, D = row->dim;
    for (int i = 0; i < row->tq; i++)
        for (int h = 0; h < row->heads; h++) {
            const double *q = x + i * C + h * D;
            double p[16], total = 0;
            for (int j = 0; j < row->tk; j++) {
                const double *k = x + (row->tq + j) * C + h * D;
                double dot = 0, qq = 0, kk = 0;
                for (int c = 0; c < D; c++) {
                    dot += q[c] * k[c];
                    qq += q[c] * q[c];
                    kk += k[c] * k[c];
                }
                if (row->score == SCORE_COSINE) dot /= sqrt(qq) * sqrt(kk);
                p[j] = exp((double)subject->scale[h] * dot);
                total += p[j];
            }
            for (int c = 0; c < D; c++) {
                double sum = 0;
                for (int j = 0; j < row->tk; j++)
                    sum += p[j] / total * x[(row->tq + row->tk + j) * C + h * D + c];
                y[i * C + h * D + c] = sum;
            }
        }
}

static bool check_attention(struct backend *be, const struct attention_case *row) {
    const int C = row->heads * row->dim, rows = row->tq + 2 * row->tk, D = row->dim;
    const size_t n = (size_t)(rows * C);
    struct attention_subject subject = {.row = row, .scale = {0.7f, 1.9f, 0.4f}};
    float *x = random_floats(n, 8), *dy = random_floats((size_t)(row->tq * C), 9);
    float *dx = random_floats(n, 10), *y = random_floats((size_t)(row->tq * C), 11);
    float probs[600], dprobs[600];
    struct act p = dense(probs, 1, row->heads * row->tq, row->tk);
    struct act q = dense(x, 1, row->tq, C), k = dense(x + row->tq * C, 1, row->tk, C);
    struct act v = dense(x + (row->tq + row->tk) * C, 1, row->tk, C);
    struct attention desc = {.heads = row->heads, .head_dim = D, .score = row->score, .probs = &p};
    struct table *temperature;
    const struct attention_gradients gradients = {
        .q = q,
        .k = k,
        .v = v,
        .dy = dense(dy, 1, row->tq, C),
        .dq = dense(dx, 1, row->tq, C),
        .dk = dense(dx + row->tq * C, 1, row->tk, C),
        .dv = dense(dx + (row->tq + row->tk) * C, 1, row->tk, C),
        .dprobs = dense(dprobs, 1, row->heads * row->tq, row->tk)};
    bool good;
    assert_int_equal(table_load(be, subject.scale, (size_t)row->heads, &temperature), ST_OK);
    if (row->score == SCORE_COSINE)
        desc.temperature = temperature;
    else
        desc.scale = subject.scale[0];
    for (int h = 0; h < row->heads && row->score == SCORE_DOT; h++)
        subject.scale[h] = desc.scale;
    op_attention(be, &desc, q, k, v, dense(y, 1, row->tq, C));
    op_attention_backward(be, &desc, &gradients);
    assert_int_equal(backend_sync(be), ST_OK);
    good = right(row->name, attention_forward, &subject, x, (int)n, dy, row->tq * C, NULL, dx);
    for (int h = 0; h < row->heads; h++)
        for (int i = 0; i < row->tq; i++)
            for (int j = 0; j < row->tk; j++) { // dP = dy v^T
                double want = 0;
                for (int c = 0; c < D; c++)
                    want += (double)dy[i * C + h * D + c] *
                            (double)x[(row->tq + row->tk + j) * C + h * D + c];
                good = fabs(want - (double)dprobs[(h * row->tq + i) * row->tk + j]) < 1e-5 && good;
            }
    mem_free(x);
    mem_free(dy);
    mem_free(dx);
    mem_free(y);
    return good;
}

static void test_attention(void **state) {
    bool good = true;
    (void)state;
    for (size_t e = 0; e < COUNT_OF(engines); e++) {
        struct backend *be = open_cpu(&engines[e], 2);
        for (size_t c = 0; c < COUNT_OF(attention_cases); c++)
            good = check_attention(be, &attention_cases[c]) && good;
        backend_close(be);
    }
    assert_true(good);
}

/* ---- linears, tokens ------------------------------------------------------------------------- */

/* dx = dy W + residual, the weight as it was given. */
static void test_linear(void **state) {
    enum { ROWS = 3, IN = 19, OUT = 35 };
    (void)state;
    for (size_t e = 0; e < COUNT_OF(engines); e++) {
        struct backend *be = open_cpu(&engines[e], 2);
        float *weight = random_floats((size_t)OUT * IN, 12), *dy = random_floats(ROWS * OUT, 13);
        float *dx = random_floats(ROWS * IN, 14);
        double want[ROWS * IN], scale[ROWS * IN];
        struct act out = dense(dx, 1, ROWS, IN);
        const struct linear_spec spec = {.name = "probe",
                                         .in = IN,
                                         .out = OUT,
                                         .weight = weight,
                                         .bias = dy,
                                         .rows = ROWS,
                                         .backward = true};
        struct linear *linear;
        for (int i = 0; i < ROWS * IN; i++) {
            want[i] = (double)dx[i];
            scale[i] = 10;
            for (int o = 0; o < OUT; o++)
                want[i] += (double)dy[i / IN * OUT + o] * (double)weight[o * IN + i % IN];
        }
        assert_int_equal(linear_load(be, &spec, &linear), ST_OK);
        op_linear_backward(be, linear, dense(dy, 1, ROWS, OUT), &out, out);
        assert_int_equal(backend_sync(be), ST_OK);
        assert_true(op_close("linear", dx, want, scale, ROWS * IN, 1e-6));
        mem_free(weight);
        mem_free(dy);
        mem_free(dx);
        backend_close(be);
    }
}

/* Every number goes back to where op_patch_merge took it from; zeros beyond a border nowhere. */
static void test_patch_merge(void **state) {
    static const int maps[][2] = {{4, 6}, {3, 5}, {1, 1}, {1, 4}, {5, 2}};
    enum { C = 3 };
    struct backend *be = open_cpu(&engines[0], 1);
    (void)state;
    for (size_t m = 0; m < COUNT_OF(maps); m++) {
        const int h = maps[m][0], w = maps[m][1], T = (h + 1) / 2 * ((w + 1) / 2);
        float *x = random_floats((size_t)(2 * h * w * C), 15);
        float *y = random_floats((size_t)(2 * T * 4 * C), 0);
        float *back = random_floats((size_t)(2 * h * w * C), 0);
        op_patch_merge(be, NULL, dense(x, 2, h * w, C), h, w, dense(y, 2, T, 4 * C));
        op_patch_merge_backward(be, dense(y, 2, T, 4 * C), h, w, dense(back, 2, h * w, C));
        assert_int_equal(backend_sync(be), ST_OK);
        assert_memory_equal(x, back, (size_t)(2 * h * w * C) * sizeof *x);
        mem_free(x);
        mem_free(y);
        mem_free(back);
    }
    backend_close(be);
}

static void test_mean_and_relevance(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    float dy[] = {3, -6, 1, 5}, dx[12], p[] = {0.5f, 0.25f, 0, 1}, dp[] = {2, -1, 7, 0.5f};
    const float want[] = {1, -2, 1, -2, 1, -2}, relevance[] = {1, 0, 0, 0.5f};
    (void)state;
    op_mean_backward(be, dense(dy, 2, 1, 2), dense(dx, 2, 3, 2));
    op_relevance(be, dense(p, 1, 2, 2), dense(dp, 1, 2, 2), dense(dp, 1, 2, 2));
    assert_int_equal(backend_sync(be), ST_OK);
    for (int i = 0; i < 6; i++)
        assert_true(fabsf(dx[i] - want[i]) < 1e-6f);
    assert_memory_equal(dp, relevance, sizeof dp);
    backend_close(be);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(struct backend *be, const char *wanted) {
    assert_int_equal(backend_sync(be), ST_SHAPE);
    if (!strstr(fail_message(), wanted)) fail_msg("'%s', want '%s'", fail_message(), wanted);
}

static void test_refusals(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    float x[64] = {0}, y[64] = {0};
    const struct norm_spec spec = {.width = 4, .eps = 1e-6f};
    struct attention desc = {.heads = 1, .head_dim = 4, .scale = 1};
    const struct act probs = dense(y, 1, 2, 2);
    struct attention_gradients g = {.q = dense(x, 1, 2, 4),
                                    .k = dense(x, 1, 2, 4),
                                    .v = dense(x, 1, 2, 4),
                                    .dy = dense(x, 1, 2, 4),
                                    .dq = dense(y, 1, 2, 4),
                                    .dk = dense(y, 1, 2, 4),
                                    .dv = dense(y, 1, 2, 4),
                                    .dprobs = dense(y + 16, 1, 2, 2)};
    struct norm *norm;
    (void)state;
    assert_int_equal(norm_load(be, &spec, &norm), ST_OK);
    op_layernorm_backward(be, norm, dense(x, 1, 2, 4), dense(x, 1, 2, 6), NULL, dense(y, 1, 2, 6));
    refused(be, "layernorm_backward: dy is (1, 2, 6), want channels in groups of 4");
    op_layernorm_backward(be, norm, dense(x, 2, 2, 4), dense(x, 1, 2, 4), NULL, dense(y, 1, 2, 4));
    refused(be, "x is (2, 2, 4), want (1, 2, 4)");
    op_activation_backward(be, EPILOGUE_SWIGLU, dense(x, 1, 1, 4), dense(y, 1, 1, 4),
                           dense(y, 1, 1, 8));
    refused(be, "activation_backward: x is (1, 1, 4), want (1, 1, 8)");
    op_activation_backward(be, EPILOGUE_SWIGLU, dense(x, 1, 1, 8), dense(y, 1, 1, 4),
                           dense(y, 1, 1, 8));
    refused(be, "dx is dy, want other memory");
    op_attention_backward(be, &desc, &g);
    refused(be, "attention_backward: the probabilities are missing");
    desc.probs = &probs;
    g.dk = dense(y, 1, 3, 4);
    op_attention_backward(be, &desc, &g);
    refused(be, "dk is (1, 3, 4), want (1, 2, 4)");
    desc.pattern = PATTERN_LOCAL;
    op_attention_backward(be, &desc, &g);
    refused(be, "no gradients of pattern");
    op_patch_merge_backward(be, dense(x, 1, 1, 8), 2, 3, dense(y, 1, 4, 2));
    refused(be, "patch_merge_backward: a map of 2x3, but 4 tokens");
    op_mean_backward(be, dense(x, 1, 2, 4), dense(y, 1, 2, 4));
    refused(be, "mean_backward: dy is (1, 2, 4), want (1, 1, 4)");
    op_relevance(be, dense(x, 1, 2, 2), dense(y, 1, 2, 3), dense(y, 1, 2, 3));
    refused(be, "relevance: probs is (1, 2, 2), want (1, 2, 3)");
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_activations_far_out),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_patch_merge),
        cmocka_unit_test(test_mean_and_relevance),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("backward", tests, NULL, NULL);
}
