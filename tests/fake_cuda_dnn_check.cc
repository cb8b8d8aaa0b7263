/*
 * fake_cuda_dnn_check: what cuDNN's documentation allows a graph to be, and which graphs the
 * stand-in's engines know: attention written with its row statistics, of which cuDNN 9.19 has no
 * plan without them, and convolutions in NHWC.
 */
#include "tests/fake_cuda_dnn.h"

#include <string.h>

static size_t size_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_FLOAT ? 4 : 2;
}

bool fake_has_b(cudnnPointwiseMode_t mode) {
    return mode == CUDNN_POINTWISE_ADD || mode == CUDNN_POINTWISE_MUL ||
           mode == CUDNN_POINTWISE_SUB || mode == CUDNN_POINTWISE_DIV;
}

size_t fake_tensor_bytes(const fake_tensor *t) {
    int64_t last = 1;
    for (int i = 0; i < FAKE_RANK; i++)
        last += (t->dims[i] - 1) * t->strides[i];
    return (size_t)last * size_of(t->type);
}

const char *fake_check_tensor(const fake_tensor *t) {
    for (int i = 0; i < FAKE_RANK; i++)
        if (t->dims[i] < 1 || t->strides[i] < 1) return "a dim or stride below 1";
    if (t->alignment < 4 || (t->alignment & (t->alignment - 1)) != 0 ||
        t->alignment % (int64_t)size_of(t->type) != 0)
        return "an alignment that is no power of two of whole elements";
    if (t->is_virtual && t->by_value) return "a tensor that is virtual and by value";
    if (t->by_value && (fake_tensor_bytes(t) != 4 || t->type != CUDNN_DATA_FLOAT))
        return "the stand-in knows one fp32 by value";
    return NULL;
}

/* ---- operations ------------------------------------------------------------------------------ */

static const char *check_matmul(const fake_tensor *a, const fake_tensor *b, const fake_tensor *y) {
    for (int i = 0; i < 2; i++)
        if (a->dims[i] != y->dims[i] || b->dims[i] != y->dims[i]) return "batches differ";
    if (a->dims[2] != y->dims[2] || b->dims[3] != y->dims[3] || a->dims[3] != b->dims[2])
        return "the matrices' shapes do not fit";
    return NULL;
}

static const char *check_pointwise(const fake_op *op, const fake_tensor *a, const fake_tensor *b,
                                   const fake_tensor *y) {
    if (fake_has_b(op->pointwise) != (b != NULL)) return "operands that do not go with the mode";
    for (int i = 0; i < FAKE_RANK; i++) {
        if (a->dims[i] != y->dims[i] && a->dims[i] != 1) return "x does not fit y";
        if (b != NULL && b->dims[i] != y->dims[i] && b->dims[i] != 1) return "b does not fit y";
        if (a->dims[i] != y->dims[i] && (b == NULL || b->dims[i] != y->dims[i]))
            return "y is larger than its operands";
    }
    return NULL;
}

static const char *check_reduction(const fake_tensor *a, const fake_tensor *y) {
    for (int i = 0; i < FAKE_RANK; i++)
        if (y->dims[i] != a->dims[i] && y->dims[i] != 1) return "y is no reduction of x";
    return NULL;
}

static const char *check_convolution(const fake_op *op, const fake_tensor *x, const fake_tensor *w,
                                     const fake_tensor *y) {
    if (x->dims[1] != w->dims[1] || y->dims[1] != w->dims[0] || x->dims[0] != y->dims[0])
        return "the channels or images do not fit";
    for (int i = 0; i < 2; i++) {
        const int64_t padded = x->dims[2 + i] + op->before[i] + op->after[i];
        if (op->strides[i] < 1 || op->before[i] < 0 || op->after[i] < 0)
            return "a stride below 1, or a padding below 0";
        if (padded < w->dims[2 + i] ||
            y->dims[2 + i] != (padded - w->dims[2 + i]) / op->strides[i] + 1)
            return "the map's size is not the convolution's";
    }
    return NULL;
}

static const char *check_op(const fake_dnn_graph *g, const fake_op *op) {
    const fake_tensor *a = &g->tensors[op->a], *y = &g->tensors[op->y];
    const fake_tensor *b = op->b < 0 ? NULL : &g->tensors[op->b];
    switch (op->kind) {
    case FAKE_MATMUL: return check_matmul(a, b, y);
    case FAKE_POINTWISE: return check_pointwise(op, a, b, y);
    case FAKE_REDUCTION: return check_reduction(a, y);
    case FAKE_CONVOLUTION: return check_convolution(op, a, b, y);
    }
    return "an operation that the stand-in does not know";
}

/* Every tensor has its place in the order: what is virtual is made, once, before it is used. */
const char *fake_check_graph(const fake_dnn_graph *g) {
    bool made[FAKE_TENSORS] = {}, used[FAKE_TENSORS] = {};
    for (int i = 0; i < g->op_count; i++) {
        const fake_op *op = &g->ops[i];
        const int from[2] = {op->a, op->b};
        const char *fault = check_op(g, op);
        if (fault != NULL) return fault;
        for (int k = 0; k < 2; k++) {
            if (from[k] < 0) continue;
            if (g->tensors[from[k]].is_virtual && !made[from[k]])
                return "a virtual tensor is used that nobody made";
            used[from[k]] = true;
        }
        if (made[op->y]) return "a tensor is made twice";
        if (g->tensors[op->y].by_value || (used[op->y] && !made[op->y]))
            return "an operand is written";
        made[op->y] = true;
    }
    return NULL;
}

/* ---- engines --------------------------------------------------------------------------------- */

/* A letter an operation, in order. */
static void spell(const fake_dnn_graph *g, char text[FAKE_OPS + 1]) {
    for (int i = 0; i < g->op_count; i++) {
        const fake_op *op = &g->ops[i];
        text[i] = op->kind == FAKE_MATMUL        ? 'M'
                  : op->kind == FAKE_CONVOLUTION ? 'C'
                  : op->kind == FAKE_REDUCTION
                      ? (op->reduction == CUDNN_REDUCE_TENSOR_MAX ? 'X' : 'S')
                      : "+*-/elr"[op->pointwise];
    }
    text[g->op_count] = 0;
}

static bool is_half(const fake_tensor *t) {
    return t->type != CUDNN_DATA_FLOAT;
}

/* Heads whose width is the last dim (the key's: the third), at a stride of 1, whole 16 bytes. */
static bool good_heads(const fake_tensor *t, int width) {
    return is_half(t) && t->dims[width] % 8 == 0 && t->strides[width] == 1 && t->dims[width] <= 256;
}

static bool knows_attention(const fake_dnn_graph *g) {
    const fake_op *first = &g->ops[0], *last = &g->ops[g->op_count - 1];
    return fake_cuda_options.capability >= 80 && good_heads(&g->tensors[first->a], 3) &&
           good_heads(&g->tensors[first->b], 2) && good_heads(&g->tensors[last->b], 3) &&
           good_heads(&g->tensors[last->y], 3) && is_half(&g->tensors[last->a]);
}

static bool knows_convolution(const fake_dnn_graph *g) {
    const fake_tensor *x = &g->tensors[g->ops[0].a], *w = &g->tensors[g->ops[0].b];
    const fake_tensor *y = &g->tensors[g->ops[g->op_count - 1].y];
    return is_half(x) && is_half(w) && is_half(y) && x->strides[1] == 1 && w->strides[1] == 1 &&
           y->strides[1] == 1;
}

bool fake_dnn_knows(const fake_dnn_graph *g) {
    char text[FAKE_OPS + 1];
    spell(g, text);
    if (strcmp(text, "M*X-eSl+/M") == 0 || strcmp(text, "M*+X-eSl+/M") == 0)
        return knows_attention(g);
    return (strcmp(text, "C") == 0 || strcmp(text, "C+") == 0 || strcmp(text, "C+r") == 0 ||
            strcmp(text, "Cr") == 0) &&
           knows_convolution(g);
}
