/*
 * cuda_dnn_graphs: shapes into cuDNN's operations (cuda_dnn.h has the formulas).
 *
 *   attention    matmul(q, k^T) -> * scale -> + bias -> softmax -> matmul(., v), where softmax is
 *                max, sub, exp, sum, log, add, div. log and add make the row statistics of
 *                training; they are thrown away, but cuDNN knows the pattern only with them.
 *   convolution  conv -> + bias -> relu
 *
 * Everything between the first and the last operation is virtual: it never reaches memory. FLOPs of
 * attention 4*B*H*Tq*Tk*D, bytes (2*Tq + 2*Tk)*B*H*D*2 and the bias once; of a convolution
 * 2*B*out_h*out_w*K*kernel_h*kernel_w*C. Not yet timed on a GPU.
 *
 * The first failure of a graph under construction sticks in its `st`; what follows does nothing.
 */
#include "kernels/cuda_dnn.cuh"

#include <math.h>

void dnn_conv_of_patches(enum cuda_type type, const struct patch_spec *patch,
                         const struct cuda_view *x, const struct cuda_view *y,
                         struct dnn_conv *out) {
    static const struct dnn_conv none = {};
    *out = none;
    out->type = type;
    out->x = *x;
    out->y = *y;
    out->in_h = patch->image_h;
    out->in_w = patch->image_w;
    out->kernel_h = out->stride_h = patch->patch_h;
    out->kernel_w = out->stride_w = patch->patch_w;
    out->bias = true;
}

#if HAVE_DNN

/* ---- a graph's parts ------------------------------------------------------------------------- */

static void set_float(struct dnn_graph *g, part of, cudnnBackendAttributeName_t name, float value) {
    graph_set(g, of, name, CUDNN_TYPE_FLOAT, 1, &value);
}

/* All arithmetic is fp32. */
static void set_fp32(struct dnn_graph *g, part of, cudnnBackendAttributeName_t name) {
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    graph_set(g, of, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void add_op(struct dnn_graph *g, part op) {
    (void)graph_seal(g, op);
    if (g->st == ST_OK && g->op_count == MOST_OPS)
        g->st = fail(ST_DEVICE, "cudnn: the graph: more than %d operations", (int)MOST_OPS);
    if (g->st == ST_OK) g->ops[g->op_count++] = op;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static part tensor(struct dnn_graph *g, cudnnDataType_t type, int64_t id, const int64_t dims[4],
                   const int64_t strides[4], bool is_virtual, bool by_value) {
    const int64_t alignment = ALIGNMENT;
    part t = graph_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor");
    graph_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    graph_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    graph_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    graph_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    graph_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    graph_set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    graph_set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return graph_seal(g, t);
}

/* One of those that dnn_run is given. */
static part given(struct dnn_graph *g, enum slot slot, const int64_t dims[4],
                  const int64_t strides[4]) {
    g->used[slot] = true;
    return tensor(g, g->type, slot + 1, dims, strides, false, false);
}

/* One between two operations, of dims (a, b, c, d) and steps in that order, or channels last. */
static part between(struct dnn_graph *g, cudnnDataType_t type, const int64_t dims[4],
                    bool channels_last) {
    const int64_t a = dims[1], b = dims[2], c = dims[3];
    const int64_t dense[4] = {a * b * c, b * c, c, 1}, last[4] = {a * b * c, 1, c * a, a};
    return tensor(g, type, SLOTS + ++g->next_id, dims, channels_last ? last : dense, true, false);
}

/* From an image to the next; an only image has any. */
static int64_t image_step(const struct cuda_view *view) {
    return (int64_t)(view->batch > 1 ? view->stride : (size_t)view->tokens * view->pitch);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void matmul(struct dnn_graph *g, part a, part b, part c) {
    part how = graph_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "a product"), op;
    set_fp32(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE);
    (void)graph_seal(g, how);
    op = graph_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "a product");
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_op(g, op);
}

/* y = x op b; b NULL: y = op(x). */
static void pointwise(struct dnn_graph *g, cudnnPointwiseMode_t mode, part x, part b, part y) {
    part how = graph_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "a pointwise operation"), op;
    graph_set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_fp32(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC);
    (void)graph_seal(g, how);
    op = graph_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "a pointwise operation");
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL) graph_set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(g, op);
}

/* Over the axes where y is 1 and x is not. */
static void reduce(struct dnn_graph *g, cudnnReduceTensorOp_t operation, part x, part y) {
    part how = graph_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "a reduction"), op;
    graph_set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
              &operation);
    set_fp32(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE);
    (void)graph_seal(g, how);
    op = graph_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "a reduction");
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_op(g, op);
}

static void convolution(struct dnn_graph *g, const struct dnn_conv *desc, part x, part filter,
                        part y) {
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = 2, strides[2] = {desc->stride_h, desc->stride_w}, dilations[2] = {1, 1};
    const int64_t before[2] = {desc->pad_top, desc->pad_left};
    const int64_t after[2] = {desc->pad_bottom, desc->pad_right};
    part how = graph_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "the convolution"), op;
    set_fp32(g, how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
    graph_set(g, how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    graph_set(g, how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    graph_set(g, how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations);
    graph_set(g, how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    graph_set(g, how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    graph_set(g, how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    (void)graph_seal(g, how);
    op = graph_make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, "the convolution");
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, filter);
    graph_set_part(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    set_float(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f);
    set_float(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f);
    add_op(g, op);
}

/* ---- attention ------------------------------------------------------------------------------- */

static enum status check_type(const char *name, enum cuda_type type) {
    if (type == CUDA_FP16 || type == CUDA_BF16) return ST_OK;
    return fail(ST_SHAPE, "%s: activations are fp32, want fp16 or bf16", name);
}

/* A view of (batch, tokens, channels) whose elements all have an int64 place, in bytes too. */
static enum status check_view(const char *name, const char *which, const struct cuda_view *view,
                              int batch, int tokens, int channels) {
    size_t rows, images, last;
    if (view->batch != batch || view->tokens != tokens || view->channels != channels)
        return fail(ST_SHAPE, "%s: %s is (%d, %d, %d), want (%d, %d, %d)", name, which, view->batch,
                    view->tokens, view->channels, batch, tokens, channels);
    if (batch < 1 || tokens < 1 || channels < 1)
        return fail(ST_SHAPE, "%s: %s is (%d, %d, %d), want sizes of at least 1", name, which,
                    batch, tokens, channels);
    if (view->pitch < (size_t)channels)
        return fail(ST_SHAPE, "%s: %s has %d channels at a pitch of %zu", name, which, channels,
                    view->pitch);
    if (!size_mul((size_t)tokens, view->pitch, &rows) ||
        !size_mul((size_t)batch - 1, view->stride, &images) || !size_add(rows, images, &last) ||
        last > (size_t)INT64_MAX / 2)
        return fail(ST_SHAPE, "%s: the size of %s does not fit into 63 bits", name, which);
    if (batch > 1 && view->stride < rows - (view->pitch - (size_t)channels))
        return fail(ST_SHAPE, "%s: the images of %s lie %zu apart and overlap", name, which,
                    view->stride);
    return ST_OK;
}

/* cuDNN's kernels load 16 bytes at a time. */
static enum status check_chunks(const char *name, const char *which, const struct cuda_view *view) {
    if (view->pitch % 8 == 0 && (view->batch == 1 || view->stride % 8 == 0)) return ST_OK;
    return fail(ST_SHAPE, "%s: %s has pitch %zu and stride %zu, want multiples of 8", name, which,
                view->pitch, view->stride);
}

static enum status check_attention(const struct dnn_attention *desc) {
    static const char name[] = "cudnn attention";
    static const char *const names[] = {"q", "k", "v", "y"};
    const struct cuda_view *views[] = {&desc->q, &desc->k, &desc->v, &desc->y};
    size_t pairs;
    TRY(check_type(name, desc->type));
    if (desc->heads < 1 || desc->head_dim < 8 || desc->head_dim > 256 || desc->head_dim % 8 != 0)
        return fail(ST_SHAPE, "%s: %d heads of width %d, want a width of 8, 16, ... 256", name,
                    desc->heads, desc->head_dim);
    if (desc->heads > INT32_MAX / desc->head_dim)
        return fail(ST_SHAPE, "%s: %d heads of width %d are too many", name, desc->heads,
                    desc->head_dim);
    if (!isfinite(desc->scale))
        return fail(ST_SHAPE, "%s: the scale is %g", name, (double)desc->scale);
    for (size_t i = 0; i < COUNT_OF(views); i++) {
        bool of_queries = views[i] == &desc->q || views[i] == &desc->y;
        TRY(check_view(name, names[i], views[i], desc->q.batch,
                       of_queries ? desc->q.tokens : desc->k.tokens, desc->heads * desc->head_dim));
        TRY(check_chunks(name, names[i], views[i]));
    }
    /* the scores, which exist in no memory, are still addressed by cuDNN's 64-bit strides */
    if (!size_mul((size_t)desc->q.tokens, (size_t)desc->k.tokens, &pairs) ||
        !size_mul(pairs, (size_t)desc->heads, &pairs) ||
        !size_mul(pairs, (size_t)desc->q.batch, &pairs) || pairs > (size_t)INT64_MAX / 4)
        return fail(ST_SHAPE, "%s: the number of scores does not fit into 63 bits", name);
    return ST_OK;
}

/* (B, H, T, D) of a view, or with `transposed` (B, H, D, T). */
static part heads_of(struct dnn_graph *g, enum slot slot, const struct cuda_view *view, int heads,
                     bool transposed) {
    const int64_t width = view->channels / heads, pitch = (int64_t)view->pitch;
    const int64_t step = image_step(view);
    const int64_t dims[4] = {view->batch, heads, transposed ? width : view->tokens,
                             transposed ? view->tokens : width};
    const int64_t strides[4] = {step, width, transposed ? 1 : pitch, transposed ? pitch : 1};
    return given(g, slot, dims, strides);
}

static part scale_of(struct dnn_graph *g) {
    const int64_t one[4] = {1, 1, 1, 1};
    g->used[SLOT_SCALE] = true;
    return tensor(g, CUDNN_DATA_FLOAT, SLOT_SCALE + 1, one, one, false, true);
}

/* scores (B, H, Tq, Tk) -> probabilities of the activations' type */
static part softmax(struct dnn_graph *g, const int64_t pairs[4], part scores) {
    const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;
    const int64_t rows[4] = {pairs[0], pairs[1], pairs[2], 1};
    part most = between(g, fp32, rows, false), below = between(g, fp32, pairs, false);
    part powers = between(g, fp32, pairs, false), sum = between(g, fp32, rows, false);
    part log_sum = between(g, fp32, rows, false), statistics = between(g, fp32, rows, false);
    part probs = between(g, g->type, pairs, false);
    reduce(g, CUDNN_REDUCE_TENSOR_MAX, scores, most);
    pointwise(g, CUDNN_POINTWISE_SUB, scores, most, below);
    pointwise(g, CUDNN_POINTWISE_EXP, below, NULL, powers);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, powers, sum);
    pointwise(g, CUDNN_POINTWISE_LOG, sum, NULL, log_sum);
    pointwise(g, CUDNN_POINTWISE_ADD, most, log_sum, statistics);
    pointwise(g, CUDNN_POINTWISE_DIV, powers, sum, probs);
    return probs;
}

static void attend(struct dnn_graph *g, const struct dnn_attention *desc) {
    const int64_t queries = desc->q.tokens, keys = desc->k.tokens, heads = desc->heads;
    const int64_t pairs[4] = {desc->q.batch, heads, queries, keys};
    const int64_t bias_dims[4] = {1, heads, queries, keys};
    const int64_t bias_strides[4] = {heads * queries * keys, queries * keys, keys, 1};
    part q = heads_of(g, SLOT_Q, &desc->q, desc->heads, false);
    part k = heads_of(g, SLOT_K, &desc->k, desc->heads, true);
    part v = heads_of(g, SLOT_V, &desc->v, desc->heads, false);
    part y = heads_of(g, SLOT_Y, &desc->y, desc->heads, false);
    part products = between(g, CUDNN_DATA_FLOAT, pairs, false);
    part scores = between(g, CUDNN_DATA_FLOAT, pairs, false);
    matmul(g, q, k, products);
    pointwise(g, CUDNN_POINTWISE_MUL, products, scale_of(g), scores);
    if (desc->bias) {
        part bias = given(g, SLOT_BIAS, bias_dims, bias_strides), plain = scores;
        scores = between(g, CUDNN_DATA_FLOAT, pairs, false);
        pointwise(g, CUDNN_POINTWISE_ADD, plain, bias, scores);
    }
    matmul(g, softmax(g, pairs, scores), v, y);
}

enum status dnn_attention_open(struct dnn *dnn, const struct dnn_attention *desc,
                               struct dnn_graph **out) {
    struct dnn_graph *g;
    *out = NULL;
    TRY(check_attention(desc));
    TRY(graph_open(dnn, desc->type, &g));
    g->scale = desc->scale;
    attend(g, desc);
    return graph_finish(g, "attention", out);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* Outputs along one axis. */
static enum status conv_size(const char *axis, int in, int kernel, int stride, int before,
                             int after, int *out) {
    const int64_t padded = (int64_t)in + before + after;
    if (in < 1 || kernel < 1 || stride < 1 || before < 0 || after < 0 || before >= kernel ||
        after >= kernel || padded < kernel || padded > INT32_MAX)
        return fail(ST_SHAPE, "cudnn convolution: %s %d, padding %d and %d, kernel %d, stride %d",
                    axis, in, before, after, kernel, stride);
    *out = (int)((padded - kernel) / stride + 1);
    return ST_OK;
}

static enum status check_conv(const struct dnn_conv *desc, int *out_h, int *out_w) {
    static const char name[] = "cudnn convolution";
    size_t in, out, taps;
    TRY(check_type(name, desc->type));
    TRY(conv_size("height", desc->in_h, desc->kernel_h, desc->stride_h, desc->pad_top,
                  desc->pad_bottom, out_h));
    TRY(conv_size("width", desc->in_w, desc->kernel_w, desc->stride_w, desc->pad_left,
                  desc->pad_right, out_w));
    in = (size_t)desc->in_h * (size_t)desc->in_w;
    out = (size_t)*out_h * (size_t)*out_w;
    if (in > INT32_MAX || out > INT32_MAX)
        return fail(ST_SHAPE, "%s: maps of %d x %d and %d x %d are too large", name, desc->in_h,
                    desc->in_w, *out_h, *out_w);
    TRY(check_view(name, "x", &desc->x, desc->x.batch, (int)in, desc->x.channels));
    TRY(check_view(name, "y", &desc->y, desc->x.batch, (int)out, desc->y.channels));
    if (!size_mul((size_t)desc->kernel_h * (size_t)desc->kernel_w, (size_t)desc->x.channels,
                  &taps) ||
        !size_mul(taps, (size_t)desc->y.channels, &taps) || taps > (size_t)INT64_MAX / 2)
        return fail(ST_SHAPE, "%s: the filter's size does not fit into 63 bits", name);
    return ST_OK;
}

/* (B, C, h, w) of a view. */
static part map_of(struct dnn_graph *g, enum slot slot, const struct cuda_view *view, int h,
                   int w) {
    const int64_t pitch = (int64_t)view->pitch;
    const int64_t dims[4] = {view->batch, view->channels, h, w};
    const int64_t strides[4] = {image_step(view), 1, w * pitch, pitch};
    return given(g, slot, dims, strides);
}

static void convolve(struct dnn_graph *g, const struct dnn_conv *desc, int out_h, int out_w) {
    const int64_t c = desc->x.channels, k = desc->y.channels, kw = desc->kernel_w;
    const int64_t filter_dims[4] = {k, c, desc->kernel_h, kw};
    const int64_t filter_strides[4] = {desc->kernel_h * kw * c, 1, kw * c, c};
    const int64_t bias_dims[4] = {1, k, 1, 1}, bias_strides[4] = {k, 1, k, k};
    const int64_t map[4] = {desc->y.batch, k, out_h, out_w};
    part x = map_of(g, SLOT_X, &desc->x, desc->in_h, desc->in_w);
    part filter = given(g, SLOT_FILTER, filter_dims, filter_strides);
    part y = map_of(g, SLOT_Y, &desc->y, out_h, out_w);
    part sums = desc->bias || desc->relu ? between(g, CUDNN_DATA_FLOAT, map, true) : y;
    convolution(g, desc, x, filter, sums);
    if (desc->bias) {
        part bias = given(g, SLOT_BIAS, bias_dims, bias_strides), plain = sums;
        sums = desc->relu ? between(g, CUDNN_DATA_FLOAT, map, true) : y;
        pointwise(g, CUDNN_POINTWISE_ADD, plain, bias, sums);
    }
    if (desc->relu) pointwise(g, CUDNN_POINTWISE_RELU_FWD, sums, NULL, y);
}

enum status dnn_conv_open(struct dnn *dnn, const struct dnn_conv *desc, struct dnn_graph **out) {
    int out_h = 0, out_w = 0;
    struct dnn_graph *g;
    *out = NULL;
    TRY(check_conv(desc, &out_h, &out_w));
    TRY(graph_open(dnn, desc->type, &g));
    convolve(g, desc, out_h, out_w);
    return graph_finish(g, "convolution", out);
}

#endif
