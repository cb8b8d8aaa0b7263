/*
 * fake_cuda_dnn_run: a graph's operations one after the other in fp32, every tensor dense between
 * them; a virtual tensor of 16 bits is rounded to them.
 */
#include "tests/fake_cuda_dnn.h"
#include "tests/simt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t count_of(const fake_tensor *t) {
    return (size_t)(t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3]);
}

static float rounded(cudnnDataType_t type, float x) {
    if (type == CUDNN_DATA_FLOAT) return x;
    return type == CUDNN_DATA_HALF ? simt_from_fp16(simt_to_fp16(x))
                                   : simt_from_bf16(simt_to_bf16(x));
}

/* body(indices, dense index) for every element of those dims. */
template <class F> static void each(const int64_t dims[FAKE_RANK], F body) {
    int64_t i[FAKE_RANK];
    size_t at = 0;
    for (i[0] = 0; i[0] < dims[0]; i[0]++)
        for (i[1] = 0; i[1] < dims[1]; i[1]++)
            for (i[2] = 0; i[2] < dims[2]; i[2]++)
                for (i[3] = 0; i[3] < dims[3]; i[3]++)
                    body(i, at++);
}

static int64_t along(const int64_t i[FAKE_RANK], const int64_t steps[FAKE_RANK]) {
    return i[0] * steps[0] + i[1] * steps[1] + i[2] * steps[2] + i[3] * steps[3];
}

/* The steps of the tensor when it is dense, 0 where it has but one and is seen as larger. */
static void dense_steps(const fake_tensor *t, int64_t steps[FAKE_RANK]) {
    int64_t step = 1;
    for (int i = FAKE_RANK; i-- > 0; step *= t->dims[i])
        steps[i] = t->dims[i] > 1 ? step : 0;
}

static void unpack(const fake_tensor *t, const void *data, float *out) {
    each(t->dims, [=](const int64_t *i, size_t to) {
        const int64_t at = along(i, t->strides);
        if (t->type == CUDNN_DATA_FLOAT) {
            out[to] = static_cast<const float *>(data)[at];
        } else {
            const uint16_t half = static_cast<const uint16_t *>(data)[at];
            out[to] = t->type == CUDNN_DATA_HALF ? simt_from_fp16(half) : simt_from_bf16(half);
        }
    });
}

static void pack(const fake_tensor *t, const float *values, void *data) {
    each(t->dims, [=](const int64_t *i, size_t from) {
        const int64_t at = along(i, t->strides);
        const float x = values[from];
        if (t->type == CUDNN_DATA_FLOAT)
            static_cast<float *>(data)[at] = x;
        else
            static_cast<uint16_t *>(data)[at] =
                t->type == CUDNN_DATA_HALF ? simt_to_fp16(x) : simt_to_bf16(x);
    });
}

/* ---- operations ------------------------------------------------------------------------------ */

static void multiply(const fake_tensor *a, const float *x, const fake_tensor *b, const float *w,
                     float *y) {
    const size_t M = (size_t)a->dims[2], K = (size_t)a->dims[3], N = (size_t)b->dims[3];
    for (size_t image = 0; image < (size_t)(a->dims[0] * a->dims[1]); image++)
        for (size_t m = 0; m < M; m++) {
            float *row = y + (image * M + m) * N;
            memset(row, 0, N * sizeof *row);
            for (size_t k = 0; k < K; k++)
                for (size_t n = 0; n < N; n++)
                    row[n] += x[(image * M + m) * K + k] * w[(image * K + k) * N + n];
        }
}

static float point(cudnnPointwiseMode_t mode, float x, float b) {
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return expf(x);
    case CUDNN_POINTWISE_LOG: return logf(x);
    case CUDNN_POINTWISE_RELU_FWD: return x > 0 ? x : 0;
    }
    return NAN;
}

/* y may have the dims of both operands. */
static void point_all(cudnnPointwiseMode_t mode, const fake_tensor *a, const float *x,
                      const fake_tensor *b, const float *w, const fake_tensor *t, float *y) {
    int64_t of_a[FAKE_RANK], of_b[FAKE_RANK];
    dense_steps(a, of_a);
    dense_steps(b, of_b);
    each(t->dims, [&](const int64_t *i, size_t to) {
        y[to] = point(mode, x[along(i, of_a)], w[along(i, of_b)]);
    });
}

static void reduce(cudnnReduceTensorOp_t how, const fake_tensor *a, const float *x,
                   const fake_tensor *t, float *y) {
    int64_t steps[FAKE_RANK];
    dense_steps(t, steps);
    for (size_t i = 0; i < count_of(t); i++)
        y[i] = how == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
    each(a->dims, [&](const int64_t *i, size_t from) {
        float *to = &y[along(i, steps)];
        *to = how == CUDNN_REDUCE_TENSOR_MAX ? fmaxf(*to, x[from]) : *to + x[from];
    });
}

/* One output; c, r, s run over the filter. */
static float convolved(const fake_op *op, const fake_tensor *a, const float *image,
                       const fake_tensor *b, const float *filter, int64_t p, int64_t q) {
    float sum = 0;
    for (int64_t c = 0; c < b->dims[1]; c++)
        for (int64_t r = 0; r < b->dims[2]; r++)
            for (int64_t s = 0; s < b->dims[3]; s++) {
                const int64_t h = p * op->strides[0] - op->before[0] + r;
                const int64_t w = q * op->strides[1] - op->before[1] + s;
                if (h < 0 || w < 0 || h >= a->dims[2] || w >= a->dims[3]) continue;
                sum += image[(c * a->dims[2] + h) * a->dims[3] + w] *
                       filter[(c * b->dims[2] + r) * b->dims[3] + s];
            }
    return sum;
}

static void convolve(const fake_op *op, const fake_tensor *a, const float *x, const fake_tensor *b,
                     const float *w, const fake_tensor *t, float *y) {
    const int64_t image = a->dims[1] * a->dims[2] * a->dims[3];
    const int64_t taps = b->dims[1] * b->dims[2] * b->dims[3];
    for (int64_t n = 0; n < t->dims[0]; n++)
        for (int64_t k = 0; k < t->dims[1]; k++)
            for (int64_t p = 0; p < t->dims[2]; p++)
                for (int64_t q = 0; q < t->dims[3]; q++)
                    *y++ = convolved(op, a, x + n * image, b, w + k * taps, p, q);
}

static void run_op(const fake_dnn_graph *g, const fake_op *op, float *values[FAKE_TENSORS]) {
    const fake_tensor *a = &g->tensors[op->a], *t = &g->tensors[op->y];
    const fake_tensor *b = op->b < 0 ? a : &g->tensors[op->b];
    const float *x = values[op->a], *w = op->b < 0 ? x : values[op->b];
    float *y = values[op->y];
    switch (op->kind) {
    case FAKE_MATMUL: multiply(a, x, b, w, y); break;
    case FAKE_REDUCTION: reduce(op->reduction, a, x, t, y); break;
    case FAKE_CONVOLUTION: convolve(op, a, x, b, w, t, y); break;
    case FAKE_POINTWISE: point_all(op->pointwise, a, x, b, w, t, y); break;
    }
    for (size_t i = 0; i < count_of(t); i++)
        y[i] = rounded(t->type, y[i]);
}

void fake_dnn_run(void *closure) {
    const fake_dnn_call *call = static_cast<const fake_dnn_call *>(closure);
    const fake_dnn_graph *g = &call->graph;
    float *values[FAKE_TENSORS];
    if (!fake_plan_alive(call->plan)) fake_fault("a plan of cuDNN's runs that was destroyed");
    if (call->workspace_size > 0) memset(call->workspace, 0x77, call->workspace_size);
    for (int i = 0; i < g->tensor_count; i++) {
        const fake_tensor *t = &g->tensors[i];
        values[i] = static_cast<float *>(malloc(count_of(t) * sizeof(float)));
        if (t->by_value)
            values[i][0] = call->values[i];
        else if (!t->is_virtual)
            unpack(t, call->pointers[i], values[i]);
    }
    for (int i = 0; i < g->op_count; i++) {
        const int y = g->ops[i].y;
        run_op(g, &g->ops[i], values);
        if (!g->tensors[y].is_virtual) pack(&g->tensors[y], values[y], call->pointers[y]);
    }
    for (int i = 0; i < g->tensor_count; i++)
        free(values[i]);
}
