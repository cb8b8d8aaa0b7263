/*
 * vit_forward: the forward pass. run_forward is the architecture, one line an op.
 *
 *   pixels (B, h, w, 3) -> tok (B, N, C) -> h (B, T, C) -> L blocks -> c (B, 1, C) -> logits (B, K)
 *
 * Called by tools/model.c through vit_forward, and once by vit_load through vit_plan with nothing
 * computed. The order of ops follows timm's VisionTransformer (timm/models/vision_transformer.py).
 */
#include <math.h>

#include "vit/vit_pass.h"

/* ---- the workspace --------------------------------------------------------------------------- */

/* Run twice: with the arena's base NULL it measures, then it binds. */
static void workspace_layout(struct vit *vit) {
    const int B = vit->max_batch, T = vit->tokens, N = vit->patches;
    const int C = vit->config.dim, F = vit->config.hidden, K = vit->config.classes;
    struct backend *be = vit->backend;
    struct arena *arena = &vit->workspace;
    struct act wide;

    vit->h = act_take(be, arena, B, T, C);
    vit->n = act_take(be, arena, B, T, C);
    vit->a = vit->n;
    vit->tok = act_front(vit->n, N, C);
    wide = act_take(be, arena, B, T, 3 * C > F ? 3 * C : F);
    vit->qkv = act_front(wide, T, 3 * C);
    vit->f = act_front(wide, T, F);
    vit->c = act_take(be, arena, B, 1, C);
    if (vit->pool.query) vit->query = act_take(be, arena, B, 1, C);
    if (K > 0) vit->logits = act_take(be, arena, B, 1, K);
}

/* ---- the taps -------------------------------------------------------------------------------- */

static bool tokens_wanted(const struct vit_taps *taps, int layer) {
    return taps && taps->tokens && taps->layer == layer;
}

/* The stream in front of block `layer`, or behind the last. */
static void read_stream(struct vit *vit, struct act h, const struct vit_taps *taps, int layer) {
    const size_t floats = (size_t)h.batch * (size_t)h.tokens * (size_t)h.channels;
    if (taps && taps->stream) backend_read(vit->backend, h, taps->stream + (size_t)layer * floats);
}

/* ---- the pass -------------------------------------------------------------------------------- */

struct act vit_head_rows(const struct vit *vit, struct act x) {
    if (vit->config.pool == POOL_TOKEN) return act_rows(x, 0, vit->config.dist_token ? 2 : 1);
    return act_rows(x, vit->prefix, vit->patches);
}

enum epilogue vit_hidden_epilogue(const struct vit *vit, bool pool) {
    if (vit->config.swiglu && !pool) return EPILOGUE_SWIGLU;
    if (vit->config.activation == ACT_GELU_TANH) return EPILOGUE_GELU_TANH;
    return vit->config.activation == ACT_QUICK_GELU ? EPILOGUE_QUICK_GELU : EPILOGUE_GELU;
}

struct attention vit_attention(const struct vit *vit, int layer) {
    const int D = vit->config.dim / vit->config.heads;
    return (struct attention){.heads = vit->config.heads,
                              .head_dim = D,
                              .scale = 1.0f / sqrtf((float)D),
                              .grid_h = vit->grid_h,
                              .grid_w = vit->grid_w,
                              .prefix = vit->prefix,
                              .bias = layer < vit->config.depth ? vit->blocks[layer].bias : NULL};
}

/*
 * Attention of block `layer`, or of the pool: all rows of a, or those that the head reads. Captured
 * are the rows that the capture says, whichever are computed.
 */
static void attend(struct vit *vit, const struct attention *attention, int layer,
                   const struct capture *capture, struct act q, struct act k, struct act v,
                   struct act a, bool all_rows) {
    const bool head = layer == vit->config.depth - 1 && vit->config.pool == POOL_TOKEN && capture &&
                      capture->head_rows;
    const struct attention_shape shape = vit_attention_shape(vit, layer, head);
    bool done = false;
    if (capture_wants(capture, layer))
        done = capture_attention(vit->backend, &vit->room, capture, layer, &shape, attention,
                                 head ? vit_head_rows(vit, q) : q, k, v,
                                 head ? vit_head_rows(vit, a) : a);
    if (!done || head == all_rows)
        op_attention(vit->backend, attention, all_rows ? q : vit_head_rows(vit, q), k, v,
                     all_rows ? a : vit_head_rows(vit, a));
}

/* x (B, N, C) -> c (B, 1, C): the latent attends to x, then c + mlp(norm(c)). x is overwritten. */
static void attn_pool(struct vit *vit, const struct capture *capture, struct act x, struct act c) {
    const struct vit_attn_pool *pool = &vit->pool;
    const struct attention heads = vit_attention(vit, vit->config.depth);
    const enum epilogue mlp = vit_hidden_epilogue(vit, true);
    const int B = x.batch, N = x.tokens, C = x.channels;
    struct backend *be = vit->backend;
    struct act q = act_batch(vit->query, B);
    struct act kv = act_columns(act_rows(act_batch(vit->qkv, B), 0, N), 0, 2 * C);
    struct act k = act_columns(kv, 0, C), v = act_columns(kv, C, C);
    struct act a = act_rows(act_batch(vit->a, B), 0, 1), n = a;
    struct act f = act_rows(act_batch(vit->f, B), 0, 1);

    op_linear(be, pool->kv, EPILOGUE_NONE, x, NULL, kv);               // (B, N, 2C)
    attend(vit, &heads, vit->config.depth, capture, q, k, v, a, true); // (B, 1, C)
    op_linear(be, pool->proj, EPILOGUE_NONE, a, NULL, c);              // (B, 1, C)
    op_layernorm(be, pool->norm, c, NULL, n);                          // (B, 1, C)
    op_linear(be, pool->fc1, mlp, n, NULL, f);                         // (B, 1, F)
    op_linear(be, pool->fc2, EPILOGUE_NONE, f, &c, c);                 // (B, 1, C) + residual
}

/*
 * The architecture. In the last block a class-token model computes only the rows its head reads,
 * unless a tap wants them all: nobody looks at the other tokens' attention, proj and MLP.
 */
static void run_forward(struct vit *vit, const uint8_t *pixels, int B, float *logits,
                        const struct vit_taps *taps) {
    const int C = vit->config.dim, last = vit->config.depth - 1;
    const bool all_rows = vit->config.pool != POOL_TOKEN || tokens_wanted(taps, -1) ||
                          tokens_wanted(taps, last) || (taps && taps->stream);
    const struct capture *capture = taps ? taps->capture : NULL;
    const enum epilogue mlp = vit_hidden_epilogue(vit, false);
    struct backend *be = vit->backend;
    struct act tok = act_batch(vit->tok, B), h = act_batch(vit->h, B), n = act_batch(vit->n, B);
    struct act qkv = act_batch(vit->qkv, B), a = act_batch(vit->a, B), f = act_batch(vit->f, B);
    struct act q = act_columns(qkv, 0, C), k = act_columns(qkv, C, C),
               v = act_columns(qkv, 2 * C, C);
    struct act c = act_batch(vit->c, B), out = act_batch(vit->logits, B), seen;

    op_patch_embed(be, &vit->patch, pixels, tok);                   // (B, N, C)
    op_assemble(be, vit->prefix_tokens, vit->positions, tok, h);    // (B, T, C)
    if (vit->norm_pre) op_layernorm(be, vit->norm_pre, h, NULL, h); // (B, T, C)
    for (int l = 0; l <= last; l++) {
        const struct vit_block *block = &vit->blocks[l];
        const struct attention attention = vit_attention(vit, l);
        read_stream(vit, h, taps, l);
        op_layernorm(be, block->norm1, h, NULL, n);                     // (B, T, C)
        op_linear(be, block->qkv, EPILOGUE_NONE, n, NULL, qkv);         // (B, T, 3C)
        if (block->q_norm) op_layernorm(be, block->q_norm, q, NULL, q); // (B, T, C), per head
        if (block->k_norm) op_layernorm(be, block->k_norm, k, NULL, k); // (B, T, C), per head
        attend(vit, &attention, l, capture, q, k, v, a, l < last || all_rows); // (B, T, C)
        if (l == last && !all_rows) { // from here on T = 1 or 2
            a = vit_head_rows(vit, a);
            h = vit_head_rows(vit, h);
            n = vit_head_rows(vit, n);
            f = vit_head_rows(vit, f);
        }
        op_linear(be, block->proj, EPILOGUE_NONE, a, &h, h);           // (B, T, C) + residual
        op_layernorm(be, block->norm2, h, NULL, n);                    // (B, T, C)
        op_linear(be, block->fc1, mlp, n, NULL, f);                    // (B, T, F)
        op_linear(be, block->fc2, EPILOGUE_NONE, f, &h, h);            // (B, T, C) + residual
        if (tokens_wanted(taps, l)) backend_read(be, h, taps->tokens); // (B, T, C)
    }
    read_stream(vit, h, taps, last + 1);
    if (tokens_wanted(taps, -1)) {
        if (vit->norm) op_layernorm(be, vit->norm, h, NULL, n); // (B, T, C)
        backend_read(be, vit->norm ? n : h, taps->tokens);      // (B, T, C)
    }
    if (vit->config.pool == POOL_NONE) return;

    seen = all_rows ? vit_head_rows(vit, h) : h;         // (B, R, C)
    n = act_front(act_batch(vit->n, B), seen.tokens, C); // (B, R, C)
    if (vit->norm) {
        op_layernorm(be, vit->norm, seen, NULL, n); // (B, R, C)
        seen = n;
    }
    if (vit->config.pool != POOL_MAP)
        op_mean(be, seen, c); // (B, 1, C), a copy where R = 1
    else
        attn_pool(vit, capture, seen, c);                         // (B, 1, C)
    if (vit->fc_norm) op_layernorm(be, vit->fc_norm, c, NULL, c); // (B, 1, C)
    if (taps && taps->pooled) backend_read(be, c, taps->pooled);  // (B, C)
    if (!logits || !vit->head) return;
    if (vit->config.dist_token) c = act_reshape(seen, 1, 2 * C); // (B, 1, 2C)
    op_linear(be, vit->head, EPILOGUE_NONE, c, NULL, out);       // (B, 1, K)
    backend_read(be, out, logits);                               // (B, K)
}

/* ---- the callers ----------------------------------------------------------------------------- */

static enum status check_taps(const struct vit *vit, const struct vit_taps *taps) {
    const int L = vit->config.depth;
    if (taps->tokens && (taps->layer < -1 || taps->layer >= L))
        return fail(ST_USAGE, "no layer %d: the model has layers 0 to %d", taps->layer, L - 1);
    if (taps->pooled && vit->config.pool == POOL_NONE)
        return fail(ST_USAGE, "this model pools nothing: it has token features only");
    return ST_OK;
}

enum status vit_forward(struct vit *vit, const uint8_t *pixels, int batch, float *logits,
                        const struct vit_taps *taps) {
    const struct attention_shape largest = vit_attention_shape(vit, 0, false);
    if (batch < 1 || batch > vit->max_batch)
        return fail(ST_USAGE, "a batch of %d images: 1 to %d fit the workspace", batch,
                    vit->max_batch);
    if (taps) TRY(check_taps(vit, taps));
    if (taps && taps->capture)
        TRY(capture_reserve(vit->backend, &vit->room, &largest,
                            taps->capture->scores ? attention_shape_rows(&largest) : 0, batch));
    run_forward(vit, pixels, batch, logits, taps);
    return backend_sync(vit->backend);
}

static enum status plan(struct vit *vit) {
    struct backend *be = vit->backend;
    float nothing[1]; /* stands for host buffers: nothing is read while planning */
    struct vit_taps everything = {.layer = -1, .tokens = nothing, .pooled = nothing};

    backend_release_arena(be, &vit->workspace);
    capture_release(be, &vit->room);
    workspace_layout(vit);
    TRY(backend_reserve(be, &vit->workspace, "the model's workspace"));
    workspace_layout(vit);
    for (int b = 0; vit->pool.query && b < vit->max_batch; b++) {
        struct act query = act_batch(vit->query, 1);
        query.offset += (size_t)b * query.stride;
        backend_write(be, vit->pool.query, query); // (1, 1, C)
    }
    TRY(backend_sync(be));
    backend_plan_begin(be);
    run_forward(vit, NULL, vit->max_batch, nothing, NULL);
    run_forward(vit, NULL, vit->max_batch, nothing, &everything);
    return backend_plan_end(be);
}

enum status vit_plan(struct vit *vit, int max_batch) {
    enum status st;
    vit->max_batch = max_batch;
    while ((st = plan(vit)) == ST_NOMEM && backend_is_gpu(vit->backend) && vit->max_batch > 1)
        vit->max_batch /= 2;
    return st;
}

struct vit_macs vit_macs_parts(const struct vit_config *config) {
    const double N =
        (double)(config->image_h / config->patch_h) * (config->image_w / config->patch_w);
    const double L = config->depth, T = N + vit_config_prefix(config), K = config->classes;
    const double C = config->dim, F = config->hidden, M = config->swiglu ? 3.0 : 2.0;
    struct vit_macs macs = {.embedding = N * 3.0 * config->patch_h * config->patch_w * C,
                            .blocks = L * T * (4.0 * C * C + M * C * F) + // qkv, proj, MLP
                                      L * 2.0 * T * T * C,                // scores, weighted values
                            .head = C * K * (config->dist_token ? 2.0 : 1.0)};
    if (config->pool == POOL_MAP) macs.head += 2.0 * N * C * C + 2.0 * N * C + C * C + 2.0 * C * F;
    return macs;
}

double vit_macs(const struct vit_config *config) {
    const struct vit_macs macs = vit_macs_parts(config);
    return macs.embedding + macs.blocks + macs.head;
}

double vit_macs_run(const struct vit_config *config) {
    const double N =
        (double)(config->image_h / config->patch_h) * (config->image_w / config->patch_w);
    const double T = N + vit_config_prefix(config), R = config->dist_token ? 2.0 : 1.0;
    const double C = config->dim, F = config->hidden, M = config->swiglu ? 3.0 : 2.0;
    if (config->pool != POOL_TOKEN) return vit_macs(config);
    return vit_macs(config) - (T - R) * (C * C + M * C * F + 2.0 * T * C); // proj, MLP, attention
}
