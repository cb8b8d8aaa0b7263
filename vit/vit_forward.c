/*
 * vit_forward: the forward pass. run_forward is the architecture, one line an op.
 *
 *   pixels (B, h, w, 3) -> tok (B, N, C) -> h (B, T, C) -> L blocks -> c (B, 1, C) -> logits (B, K)
 *
 * Called by tools/model.c through vit_forward, and once by vit_load through vit_plan with nothing
 * computed. The order of ops follows timm's VisionTransformer (timm/models/vision_transformer.py).
 */
#include "vit/vit.h"

#include <math.h>

/* ---- the workspace --------------------------------------------------------------------------- */

/* The front of a region seen as a dense (B, tokens, channels). */
static struct act front(struct act region, int tokens, int channels) {
    region.tokens = tokens;
    region.channels = channels;
    region.pitch = (size_t)channels;
    region.stride = (size_t)tokens * (size_t)channels;
    return region;
}

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
    vit->tok = front(vit->n, N, C);
    wide = act_take(be, arena, B, T, 3 * C > F ? 3 * C : F);
    vit->qkv = front(wide, T, 3 * C);
    vit->f = front(wide, T, F);
    vit->c = act_take(be, arena, B, 1, C);
    if (vit->pool.query) vit->query = act_take(be, arena, B, 1, C);
    if (K > 0) vit->logits = act_take(be, arena, B, 1, K);
}

static void probs_layout(struct vit *vit, int batch) {
    const int H = vit->config.heads, T = vit->tokens;
    vit->probs = act_take(vit->backend, &vit->probs_arena, batch, H * T, T);
}

/* Room for one layer's probabilities of `batch` images; kept for the passes to come. */
static enum status probs_reserve(struct vit *vit, int batch) {
    if (vit->probs_arena.base && vit->probs.batch >= batch) return ST_OK;
    backend_release_arena(vit->backend, &vit->probs_arena);
    vit->probs_arena = (struct arena){0};
    probs_layout(vit, batch);
    TRY(backend_reserve(vit->backend, &vit->probs_arena, "attention probabilities"));
    probs_layout(vit, batch);
    return ST_OK;
}

/* ---- the taps -------------------------------------------------------------------------------- */

static bool tokens_wanted(const struct vit_taps *taps, int layer) {
    return taps && taps->tokens && taps->layer == layer;
}

/* The place of `layer` in the list of layers whose probabilities are wanted, or -1. */
static int probs_wanted(const struct vit_taps *taps, int layer) {
    for (int i = 0; taps && taps->probs && i < taps->probs_count; i++)
        if (taps->probs_layers[i] == layer) return i;
    return -1;
}

/* Copies the probabilities (B, H*T, T) of one layer to their place in taps->probs. */
static void probs_read(struct vit *vit, struct act probs, const struct vit_taps *taps, int place) {
    size_t size = (size_t)probs.batch * (size_t)probs.tokens * (size_t)probs.channels;
    backend_read(vit->backend, probs, taps->probs + (size_t)place * size);
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* The rows of a (B, T, C) that the head reads: class (and distillation) token, or the patches. */
static struct act head_rows(const struct vit *vit, struct act x) {
    if (vit->config.pool == POOL_TOKEN) return act_rows(x, 0, vit->config.dist_token ? 2 : 1);
    return act_rows(x, vit->prefix, vit->patches);
}

static enum epilogue hidden_epilogue(const struct vit_config *config) {
    if (config->activation == ACT_GELU_TANH) return EPILOGUE_GELU_TANH;
    return config->activation == ACT_QUICK_GELU ? EPILOGUE_QUICK_GELU : EPILOGUE_GELU;
}

/* x (B, N, C) -> c (B, 1, C): the latent attends to x, then c + mlp(norm(c)). x is overwritten. */
static void attn_pool(struct vit *vit, const struct attention *heads, struct act x, struct act c) {
    const struct vit_attn_pool *pool = &vit->pool;
    const int B = x.batch, N = x.tokens, C = x.channels;
    struct backend *be = vit->backend;
    struct act q = act_batch(vit->query, B);
    struct act kv = act_columns(act_rows(act_batch(vit->qkv, B), 0, N), 0, 2 * C);
    struct act k = act_columns(kv, 0, C), v = act_columns(kv, C, C);
    struct act a = act_rows(act_batch(vit->a, B), 0, 1), n = a;
    struct act f = act_rows(act_batch(vit->f, B), 0, 1);

    op_linear(be, pool->kv, EPILOGUE_NONE, x, NULL, kv);                 // (B, N, 2C)
    op_attention(be, heads, q, k, v, a);                                 // (B, 1, C)
    op_linear(be, pool->proj, EPILOGUE_NONE, a, NULL, c);                // (B, 1, C)
    op_layernorm(be, pool->norm, c, NULL, n);                            // (B, 1, C)
    op_linear(be, pool->fc1, hidden_epilogue(&vit->config), n, NULL, f); // (B, 1, F)
    op_linear(be, pool->fc2, EPILOGUE_NONE, f, &c, c);                   // (B, 1, C) + residual
}

/*
 * The architecture. In the last block a class-token model computes only the rows its head reads,
 * unless a tap wants them all: nobody looks at the other tokens' attention, proj and MLP.
 */
static void run_forward(struct vit *vit, const uint8_t *pixels, int B, float *logits,
                        const struct vit_taps *taps) {
    const int C = vit->config.dim, D = C / vit->config.heads, last = vit->config.depth - 1;
    const bool all_rows = vit->config.pool != POOL_TOKEN || tokens_wanted(taps, -1) ||
                          tokens_wanted(taps, last) || probs_wanted(taps, last) >= 0;
    const enum epilogue mlp = vit->config.swiglu ? EPILOGUE_SWIGLU : hidden_epilogue(&vit->config);
    const struct attention heads = {.heads = vit->config.heads,
                                    .head_dim = D,
                                    .scale = 1.0f / sqrtf((float)D),
                                    .grid_h = vit->grid_h,
                                    .grid_w = vit->grid_w,
                                    .prefix = vit->prefix};
    struct backend *be = vit->backend;
    struct act tok = act_batch(vit->tok, B), h = act_batch(vit->h, B), n = act_batch(vit->n, B);
    struct act qkv = act_batch(vit->qkv, B), a = act_batch(vit->a, B), f = act_batch(vit->f, B);
    struct act q = act_columns(qkv, 0, C), k = act_columns(qkv, C, C),
               v = act_columns(qkv, 2 * C, C);
    struct act c = act_batch(vit->c, B), out = act_batch(vit->logits, B), seen;
    const struct act probs = act_batch(vit->probs, B);

    op_patch_embed(be, &vit->patch, pixels, tok);                   // (B, N, C)
    op_assemble(be, vit->prefix_tokens, vit->positions, tok, h);    // (B, T, C)
    if (vit->norm_pre) op_layernorm(be, vit->norm_pre, h, NULL, h); // (B, T, C)
    for (int l = 0; l <= last; l++) {
        const struct vit_block *block = &vit->blocks[l];
        struct attention attention = heads;
        int place = probs_wanted(taps, l);
        attention.bias = block->bias;
        if (place >= 0) attention.probs = &probs;
        op_layernorm(be, block->norm1, h, NULL, n);                     // (B, T, C)
        op_linear(be, block->qkv, EPILOGUE_NONE, n, NULL, qkv);         // (B, T, 3C)
        if (block->q_norm) op_layernorm(be, block->q_norm, q, NULL, q); // (B, T, C), per head
        if (block->k_norm) op_layernorm(be, block->k_norm, k, NULL, k); // (B, T, C), per head
        if (l == last && !all_rows) {                                   // from here on T = 1 or 2
            q = head_rows(vit, q);
            a = head_rows(vit, a);
            h = head_rows(vit, h);
            n = head_rows(vit, n);
            f = head_rows(vit, f);
        }
        op_attention(be, &attention, q, k, v, a);                      // (B, T, C)
        if (place >= 0) probs_read(vit, probs, taps, place);           // (B, H, T, T)
        op_linear(be, block->proj, EPILOGUE_NONE, a, &h, h);           // (B, T, C) + residual
        op_layernorm(be, block->norm2, h, NULL, n);                    // (B, T, C)
        op_linear(be, block->fc1, mlp, n, NULL, f);                    // (B, T, F)
        op_linear(be, block->fc2, EPILOGUE_NONE, f, &h, h);            // (B, T, C) + residual
        if (tokens_wanted(taps, l)) backend_read(be, h, taps->tokens); // (B, T, C)
    }
    if (tokens_wanted(taps, -1)) {
        if (vit->norm) op_layernorm(be, vit->norm, h, NULL, n); // (B, T, C)
        backend_read(be, vit->norm ? n : h, taps->tokens);      // (B, T, C)
    }
    if (vit->config.pool == POOL_NONE) return;

    seen = all_rows ? head_rows(vit, h) : h;         // (B, R, C)
    n = front(act_batch(vit->n, B), seen.tokens, C); // (B, R, C)
    if (vit->norm) {
        op_layernorm(be, vit->norm, seen, NULL, n); // (B, R, C)
        seen = n;
    }
    if (vit->config.pool != POOL_MAP)
        op_mean(be, seen, c); // (B, 1, C), a copy where R = 1
    else
        attn_pool(vit, &heads, seen, c);                          // (B, 1, C)
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
    for (int i = 0; taps->probs && i < taps->probs_count; i++)
        if (taps->probs_layers[i] < 0 || taps->probs_layers[i] >= L)
            return fail(ST_USAGE, "no layer %d: the model has layers 0 to %d",
                        taps->probs_layers[i], L - 1);
    return ST_OK;
}

enum status vit_forward(struct vit *vit, const uint8_t *pixels, int batch, float *logits,
                        const struct vit_taps *taps) {
    if (batch < 1 || batch > vit->max_batch)
        return fail(ST_USAGE, "a batch of %d images: 1 to %d fit the workspace", batch,
                    vit->max_batch);
    if (taps) TRY(check_taps(vit, taps));
    if (taps && taps->probs && taps->probs_count > 0) TRY(probs_reserve(vit, batch));
    run_forward(vit, pixels, batch, logits, taps);
    return backend_sync(vit->backend);
}

static enum status plan(struct vit *vit) {
    struct backend *be = vit->backend;
    int last = vit->config.depth - 1;
    float nothing[1]; /* stands for host buffers: nothing is read while planning */
    struct vit_taps everything = {.layer = -1,
                                  .tokens = nothing,
                                  .pooled = nothing,
                                  .probs_layers = &last,
                                  .probs_count = 1,
                                  .probs = nothing};

    backend_release_arena(be, &vit->workspace);
    backend_release_arena(be, &vit->probs_arena);
    workspace_layout(vit);
    TRY(backend_reserve(be, &vit->workspace, "the model's workspace"));
    workspace_layout(vit);
    for (int b = 0; vit->pool.query && b < vit->max_batch; b++) {
        struct act query = act_batch(vit->query, 1);
        query.offset += (size_t)b * query.stride;
        backend_write(be, vit->pool.query, query); // (1, 1, C)
    }
    TRY(backend_sync(be));
    probs_layout(vit, vit->max_batch);
    backend_plan_begin(be);
    run_forward(vit, NULL, vit->max_batch, nothing, NULL);
    run_forward(vit, NULL, vit->max_batch, nothing, &everything);
    vit->probs_arena = (struct arena){0};
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
