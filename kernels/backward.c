/* backward: the public functions of backward.h: shapes, then the device's table (backend.h). */
#include <stdio.h>

#include "kernels/backend.h"

struct act act_repeat(struct act a, int batch) {
    a.batch = batch;
    a.stride = 0;
    return a;
}

/* backend_check_act, of an activation that may be repeated. */
static enum status check_input(const struct backend *be, const char *what, const struct act *a,
                               int batch, int tokens, int channels) {
    struct act one = *a;
    if (a->batch > 1 && a->stride == 0 && a->batch == batch) one.batch = batch = 1;
    return backend_check_act(be, what, &one, batch, tokens, channels);
}

static enum status check_backward(const struct backend *be) {
    if (be->ops->backward) return ST_OK;
    return fail(ST_DEVICE, "gradients are computed on the CPU alone");
}

void op_linear_backward(struct backend *be, const struct linear *linear, struct act dy,
                        const struct act *residual, struct act dx) {
    if (be->error != ST_OK) return;
    if (!linear->transposed)
        backend_settle(be, linear->name, fail(ST_SHAPE, "its weight was not loaded for gradients"));
    else
        op_linear(be, linear->transposed, EPILOGUE_NONE, dy, residual, dx);
}

static enum status check_layernorm(const struct backend *be, const struct norm *norm,
                                   const struct act *x, const struct act *dy,
                                   const struct act *residual, const struct act *dx) {
    TRY(check_backward(be));
    TRY(backend_check_act(be, "dy", dy, -1, -1, -1));
    if (dy->channels % norm->width)
        return fail(ST_SHAPE, "dy is (%d, %d, %d), want channels in groups of %d", dy->batch,
                    dy->tokens, dy->channels, norm->width);
    TRY(check_input(be, "x", x, dy->batch, dy->tokens, dy->channels));
    if (residual)
        TRY(backend_check_act(be, "the residual", residual, dy->batch, dy->tokens, dy->channels));
    return backend_check_act(be, "dx", dx, dy->batch, dy->tokens, dy->channels);
}

void op_layernorm_backward(struct backend *be, const struct norm *norm, struct act x, struct act dy,
                           const struct act *residual, struct act dx) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_layernorm(be, norm, &x, &dy, residual, &dx);
    backend_settle(be, "layernorm_backward",
                   st == ST_OK ? be->ops->backward->layernorm(be, norm, &x, &dy, residual, &dx)
                               : st);
}

static enum status check_activation(const struct backend *be, enum epilogue epilogue,
                                    const struct act *x, const struct act *dy,
                                    const struct act *dx) {
    const bool pairs = epilogue == EPILOGUE_SWIGLU;
    TRY(check_backward(be));
    TRY(backend_check_act(be, "dy", dy, -1, -1, -1));
    if (dy->channels > INT32_MAX / 2) return fail(ST_SHAPE, "%d channels", dy->channels);
    TRY(check_input(be, "x", x, dy->batch, dy->tokens, dy->channels * (pairs ? 2 : 1)));
    if (pairs && dx->data && dx->data == dy->data && dx->offset == dy->offset)
        return fail(ST_SHAPE, "dx is dy, want other memory");
    return backend_check_act(be, "dx", dx, dy->batch, dy->tokens, dy->channels * (pairs ? 2 : 1));
}

void op_activation_backward(struct backend *be, enum epilogue epilogue, struct act x, struct act dy,
                            struct act dx) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_activation(be, epilogue, &x, &dy, &dx);
    backend_settle(be, "activation_backward",
                   st == ST_OK ? be->ops->backward->activation(be, epilogue, &x, &dy, &dx) : st);
}

static enum status check_attention(const struct backend *be, const struct attention *desc,
                                   const struct attention_gradients *g) {
    const int B = g->dy.batch, width = g->dy.channels;
    struct attention one = *desc;
    struct act q = g->q, k = g->k, v = g->v, dy = g->dy, probs;
    TRY(check_backward(be));
    if (desc->pattern != PATTERN_FULL && desc->pattern != PATTERN_WINDOW)
        return fail(ST_SHAPE, "no gradients of pattern %d", (int)desc->pattern);
    if (!desc->probs) return fail(ST_SHAPE, "the probabilities are missing");
    if (desc->lengths) return fail(ST_SHAPE, "lengths, want all keys");
    TRY(backend_check_act(be, "dy", &g->dy, -1, -1, -1));
    TRY(check_input(be, "q", &q, B, -1, width));
    TRY(check_input(be, "k", &k, B, -1, width));
    TRY(check_input(be, "v", &v, B, k.tokens, width));
    TRY(backend_check_act(be, "dq", &g->dq, B, q.tokens, width));
    TRY(backend_check_act(be, "dk", &g->dk, B, k.tokens, width));
    TRY(backend_check_act(be, "dv", &g->dv, B, k.tokens, width));
    probs = *desc->probs;
    TRY(check_input(be, "probs", &probs, B, -1, -1));
    TRY(backend_check_act(be, "dprobs", &g->dprobs, B, probs.tokens, probs.channels));
    q.batch = k.batch = v.batch = dy.batch = probs.batch = 1;
    one.probs = &probs;
    return backend_check_attention(be, &one, &q, &k, &v, &dy);
}

void op_attention_backward(struct backend *be, const struct attention *desc,
                           const struct attention_gradients *gradients) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_attention(be, desc, gradients);
    backend_settle(be, "attention_backward",
                   st == ST_OK ? be->ops->backward->attention(be, desc, gradients) : st);
}

static enum status check_patch_merge(const struct backend *be, const struct act *dy, int grid_h,
                                     int grid_w, const struct act *dx) {
    TRY(check_backward(be));
    TRY(backend_check_act(be, "dx", dx, -1, -1, -1));
    if (grid_h < 1 || grid_w < 1 || (int64_t)grid_h * grid_w != dx->tokens)
        return fail(ST_SHAPE, "a map of %dx%d, but %d tokens", grid_h, grid_w, dx->tokens);
    if (dx->channels > INT32_MAX / 4) return fail(ST_SHAPE, "%d channels", dx->channels);
    return backend_check_act(be, "dy", dy, dx->batch, (grid_h + 1) / 2 * ((grid_w + 1) / 2),
                             4 * dx->channels);
}

void op_patch_merge_backward(struct backend *be, struct act dy, int grid_h, int grid_w,
                             struct act dx) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_patch_merge(be, &dy, grid_h, grid_w, &dx);
    backend_settle(be, "patch_merge_backward",
                   st == ST_OK ? be->ops->backward->patch_merge(be, &dy, grid_h, grid_w, &dx) : st);
}

void op_mean_backward(struct backend *be, struct act dy, struct act dx) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_backward(be);
    if (st == ST_OK) st = backend_check_act(be, "dx", &dx, -1, -1, -1);
    if (st == ST_OK) st = backend_check_act(be, "dy", &dy, dx.batch, 1, dx.channels);
    backend_settle(be, "mean_backward", st == ST_OK ? be->ops->backward->mean(be, &dy, &dx) : st);
}

void op_relevance(struct backend *be, struct act probs, struct act dprobs, struct act out) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_backward(be);
    if (st == ST_OK) st = backend_check_act(be, "dprobs", &dprobs, -1, -1, -1);
    if (st == ST_OK)
        st = check_input(be, "probs", &probs, dprobs.batch, dprobs.tokens, dprobs.channels);
    if (st == ST_OK)
        st = backend_check_act(be, "out", &out, dprobs.batch, dprobs.tokens, dprobs.channels);
    backend_settle(be, "relevance",
                   st == ST_OK ? be->ops->backward->relevance(be, &probs, &dprobs, &out) : st);
}
