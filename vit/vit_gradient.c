/*
 * vit_gradient: the relevance of a class, by a backward pass. run_backward is the architecture from
 * its end to its start, one line an op; each block computes anew what it left in the forward pass.
 *
 *   dlogits (n, 1, K) -> dc (n, 1, C) -> dh (n, T, C) -> L blocks, each with dprobs (n, H*T, T)
 *
 * n classes of one image: what the forward pass left is of batch 1 and stands for all of them.
 * Called by tools/model_attention.c. ViT-B/16 on two cores (AVX2): 3.3 forward passes for one
 * class, 1.7 for each further one.
 */
#include <string.h>

#include "kernels/backward.h"
#include "vit/vit_pass.h"

/* ---- the workspace --------------------------------------------------------------------------- */

/* Run twice: with the arena's base NULL it measures, then it binds. */
static void workspace_layout(struct vit_gradient *g) {
    const struct vit *vit = g->vit;
    const int n = g->classes, T = vit->tokens, H = vit->config.heads;
    const int C = vit->config.dim, F = vit->config.hidden, K = vit->config.classes;
    const int wide = vit->config.swiglu ? 2 * F : F; // in front of the activation
    struct backend *be = vit->backend;
    struct arena *arena = &g->workspace;

    g->x = act_take(be, arena, 1, T, C);
    g->mid = act_take(be, arena, 1, T, C);
    g->n = act_take(be, arena, 1, T, C);
    g->a = act_take(be, arena, 1, T, C);
    g->qkv = act_take(be, arena, 1, T, 3 * C);
    g->qk = act_take(be, arena, 1, T, 2 * C);
    g->f = act_take(be, arena, 1, T, wide);
    g->probs = act_take(be, arena, 1, H * T, T);
    g->dh = act_take(be, arena, n, T, C);
    g->dn = act_take(be, arena, n, T, C);
    g->df = act_take(be, arena, n, T, F);
    g->dg = wide == F ? g->df : act_take(be, arena, n, T, wide);
    g->dqkv = act_take(be, arena, n, T, 3 * C);
    g->dprobs = act_take(be, arena, n, H * T, T);
    g->c = act_take(be, arena, 1, 1, C);
    g->dc = act_take(be, arena, n, 1, vit->config.dist_token ? 2 * C : C);
    g->dlogits = act_take(be, arena, n, 1, K);
}

static enum status open_workspace(struct vit_gradient *g) {
    const struct vit *vit = g->vit;
    const size_t T = (size_t)vit->tokens, C = (size_t)vit->config.dim, n = (size_t)g->classes;
    const size_t K = (size_t)vit->config.classes, stream = T * C;
    const size_t layers = (size_t)vit->config.depth + 1, host = n * (stream > K ? stream : K);
    workspace_layout(g);
    TRY(backend_reserve(vit->backend, &g->workspace, "the backward pass"));
    workspace_layout(g);
    g->stream = mem_zalloc(layers * stream, sizeof *g->stream);
    g->host = mem_zalloc(host, sizeof *g->host);
    g->bytes = g->workspace.capacity + (layers * stream + host) * sizeof(float);
    return g->stream && g->host ? ST_OK : ST_NOMEM;
}

enum status vit_gradient_open(struct vit_gradient *out, struct vit *vit, int classes) {
    enum status st;
    *out = (struct vit_gradient){0};
    if (!vit->head) return fail(ST_USAGE, "the model has no classes");
    if (backend_is_gpu(vit->backend)) return fail(ST_DEVICE, "gradients are for the CPU alone");
    out->vit = vit;
    out->classes = classes;
    st = open_workspace(out);
    if (st != ST_OK) vit_gradient_release(out);
    return st;
}

void vit_gradient_release(struct vit_gradient *g) {
    if (g->vit) backend_release_arena(g->vit->backend, &g->workspace);
    mem_free(g->stream);
    mem_free(g->host);
    *g = (struct vit_gradient){0};
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* What the stream holds in front of block `layer`, into x. */
static void write_stream(struct vit_gradient *g, int layer, struct act x) {
    const size_t floats = (size_t)x.tokens * (size_t)x.channels;
    backend_write(g->vit->backend, g->stream + (size_t)layer * floats, x);
}

/* dq, dk, dv of one attention over `desc`, and its relevance to the capture, if it is wanted. */
static void attention_backward(struct vit_gradient *g, int layer, const struct attention *desc,
                               const struct attention_gradients *gradients,
                               const struct capture *capture) {
    struct backend *be = g->vit->backend;
    const struct act probs = act_repeat(*desc->probs, gradients->dprobs.batch);
    struct attention of_all = *desc;
    of_all.probs = &probs;
    op_attention_backward(be, &of_all, gradients);
    if (!capture_wants(capture, layer)) return;
    op_relevance(be, probs, gradients->dprobs, gradients->dprobs);
    capture_hand_out(be, capture, layer, vit_attention_shape(g->vit, layer, false),
                     gradients->dprobs, NULL, NULL);
}

/*
 * The pool, forward: x (1, N, C), what it reads -> c (1, 1, C), and what the backward pass needs:
 * kv, a, mid in front of its MLP, n, f in front of the activation.
 */
static void pool_forward(struct vit_gradient *g, const struct attention *desc, struct act x,
                         struct act c) {
    const struct vit_attn_pool *pool = &g->vit->pool;
    const enum epilogue mlp = vit_hidden_epilogue(g->vit, true);
    const int N = x.tokens, C = x.channels;
    struct backend *be = g->vit->backend;
    struct act kv = act_columns(act_rows(g->qkv, 0, N), 0, 2 * C), q = act_batch(g->vit->query, 1);
    struct act a = act_rows(g->a, 0, 1), n = act_rows(g->n, 0, 1), mid = act_rows(g->mid, 0, 1);
    struct act f = act_columns(act_rows(g->f, 0, 1), 0, g->vit->config.hidden);

    op_linear(be, pool->kv, EPILOGUE_NONE, x, NULL, kv);                        // (1, N, 2C)
    op_attention(be, desc, q, act_columns(kv, 0, C), act_columns(kv, C, C), a); // (1, 1, C)
    op_linear(be, pool->proj, EPILOGUE_NONE, a, NULL, mid);                     // (1, 1, C)
    op_layernorm(be, pool->norm, mid, NULL, n);                                 // (1, 1, C)
    op_linear(be, pool->fc1, mlp, n, NULL, f);                                  // (1, 1, F)
    op_linear(be, pool->fc2, EPILOGUE_NONE, f, &mid, c);                        // (1, 1, C)
    op_linear(be, pool->fc1, EPILOGUE_NONE, n, NULL, f);                        // (1, 1, F)
}

/* Behind pool_forward: dc (n, 1, C), overwritten -> dx (n, N, C). */
static void pool_backward(struct vit_gradient *g, const struct attention *desc, struct act dc,
                          struct act dx, const struct capture *capture) {
    const struct vit_attn_pool *pool = &g->vit->pool;
    const enum epilogue mlp = vit_hidden_epilogue(g->vit, true);
    const int n = dc.batch, N = dx.tokens, C = dx.channels, layer = g->vit->config.depth;
    struct backend *be = g->vit->backend;
    struct act kv = act_repeat(act_rows(g->qkv, 0, N), n), mid = act_rows(g->mid, 0, 1);
    struct act f = act_columns(act_rows(g->f, 0, 1), 0, g->vit->config.hidden);
    struct act df = act_rows(act_batch(g->df, n), 0, 1), da = act_rows(act_batch(g->dn, n), 0, 1);
    struct act dkv = act_columns(act_rows(act_batch(g->dqkv, n), 0, N), 0, 2 * C);
    const struct attention_gradients gradients = {
        .q = act_repeat(act_batch(g->vit->query, 1), n),
        .k = act_columns(kv, 0, C),
        .v = act_columns(kv, C, C),
        .dy = da,
        .dq = act_columns(act_rows(act_batch(g->dqkv, n), 0, 1), 2 * C, C), // the latent's: unused
        .dk = act_columns(dkv, 0, C),
        .dv = act_columns(dkv, C, C),
        .dprobs = act_front(act_batch(g->dprobs, n), g->vit->config.heads, N)};

    op_linear_backward(be, pool->fc2, dc, NULL, df);                        // (n, 1, F)
    op_activation_backward(be, mlp, act_repeat(f, n), df, df);              // (n, 1, F)
    op_linear_backward(be, pool->fc1, df, NULL, da);                        // (n, 1, C)
    op_layernorm_backward(be, pool->norm, act_repeat(mid, n), da, &dc, dc); // + residual
    op_linear_backward(be, pool->proj, dc, NULL, da);                       // (n, 1, C)
    attention_backward(g, layer, desc, &gradients, capture);                // (n, N, 2C)
    op_linear_backward(be, pool->kv, dkv, NULL, dx);                        // (n, N, C)
}

/* g->dlogits (n, 1, K) -> g->dh (n, T, C), behind the last block. */
static void head_backward(struct vit_gradient *g, int n, const struct capture *capture) {
    const struct vit *vit = g->vit;
    struct backend *be = vit->backend;
    struct act dh = act_batch(g->dh, n), dc = act_batch(g->dc, n);
    struct act seen = vit_head_rows(vit, g->x), dseen = vit_head_rows(vit, dh); // (., R, C)
    struct act x = vit->norm ? act_rows(g->n, 0, seen.tokens) : seen;
    struct act dx = vit->norm ? act_rows(act_batch(g->dn, n), 0, seen.tokens) : dseen;
    struct attention pool = vit_attention(vit, vit->config.depth);
    const struct act probs = act_front(g->probs, vit->config.heads, vit->patches);
    pool.probs = &probs;

    write_stream(g, vit->config.depth, g->x);                  // (1, T, C)
    if (vit->norm) op_layernorm(be, vit->norm, seen, NULL, x); // (1, R, C)
    if (vit->config.pool == POOL_MAP)
        pool_forward(g, &pool, x, g->c); // (1, 1, C)
    else
        op_mean(be, x, g->c); // (1, 1, C)

    memset(g->host, 0, (size_t)n * (size_t)dh.tokens * (size_t)dh.channels * sizeof *g->host);
    backend_write(be, g->host, dh);                                        // (n, T, C)
    op_linear_backward(be, vit->head, act_batch(g->dlogits, n), NULL, dc); // (n, 1, C or 2C)
    if (vit->fc_norm)
        op_layernorm_backward(be, vit->fc_norm, act_repeat(g->c, n), dc, NULL, dc); // (n, 1, C)
    if (vit->config.dist_token)
        dx = act_reshape(dc, 2, vit->config.dim); // (n, 2, C)
    else if (vit->config.pool == POOL_MAP)
        pool_backward(g, &pool, dc, dx, capture); // (n, N, C)
    else
        op_mean_backward(be, dc, dx); // (n, R, C)
    if (vit->norm)
        op_layernorm_backward(be, vit->norm, act_repeat(seen, n), dx, NULL, dseen); // (n, R, C)
}

/* ---- a block --------------------------------------------------------------------------------- */

/* What block `layer` left in the forward pass, from its input on: x, qkv, qk, probs, mid, f. */
static void block_forward(struct vit_gradient *g, int layer, const struct attention *desc) {
    const struct vit_block *block = &g->vit->blocks[layer];
    const int C = g->vit->config.dim;
    struct backend *be = g->vit->backend;
    struct act q = act_columns(g->qkv, 0, C), k = act_columns(g->qkv, C, C);
    struct act v = act_columns(g->qkv, 2 * C, C);
    struct act q_normed = act_columns(g->qk, 0, C), k_normed = act_columns(g->qk, C, C);

    write_stream(g, layer, g->x);                                          // (1, T, C)
    op_layernorm(be, block->norm1, g->x, NULL, g->n);                      // (1, T, C)
    op_linear(be, block->qkv, EPILOGUE_NONE, g->n, NULL, g->qkv);          // (1, T, 3C)
    if (block->q_norm) op_layernorm(be, block->q_norm, q, NULL, q_normed); // (1, T, C), per head
    if (block->k_norm) op_layernorm(be, block->k_norm, k, NULL, k_normed); // (1, T, C), per head
    op_attention(be, desc, block->q_norm ? q_normed : q, block->k_norm ? k_normed : k, v,
                 g->a);                                             // (1, T, C), probs
    op_linear(be, block->proj, EPILOGUE_NONE, g->a, &g->x, g->mid); // (1, T, C) + residual
    op_layernorm(be, block->norm2, g->mid, NULL, g->n);             // (1, T, C)
    op_linear(be, block->fc1, EPILOGUE_NONE, g->n, NULL, g->f);     // (1, T, F or 2F)
}

/* Behind block_forward: g->dh (n, T, C) behind the block -> in front of it. */
static void block_backward(struct vit_gradient *g, int layer, int n, const struct attention *desc,
                           const struct capture *capture, bool last) {
    const struct vit_block *block = &g->vit->blocks[layer];
    const enum epilogue mlp = vit_hidden_epilogue(g->vit, false);
    const int C = g->vit->config.dim;
    struct backend *be = g->vit->backend;
    struct act qkv = act_repeat(g->qkv, n), qk = act_repeat(g->qk, n);
    struct act q = act_columns(qkv, 0, C), k = act_columns(qkv, C, C);
    struct act dh = act_batch(g->dh, n), dn = act_batch(g->dn, n);
    struct act df = act_batch(g->df, n), dg = act_batch(g->dg, n);
    struct act dqkv = act_batch(g->dqkv, n);
    struct act dq = act_columns(dqkv, 0, C), dk = act_columns(dqkv, C, C);
    const struct attention_gradients gradients = {.q = block->q_norm ? act_columns(qk, 0, C) : q,
                                                  .k = block->k_norm ? act_columns(qk, C, C) : k,
                                                  .v = act_columns(qkv, 2 * C, C),
                                                  .dy = dn,
                                                  .dq = dq,
                                                  .dk = dk,
                                                  .dv = act_columns(dqkv, 2 * C, C),
                                                  .dprobs = act_batch(g->dprobs, n)};

    op_linear_backward(be, block->fc2, dh, NULL, df);                            // (n, T, F)
    op_activation_backward(be, mlp, act_repeat(g->f, n), df, dg);                // (n, T, F or 2F)
    op_linear_backward(be, block->fc1, dg, NULL, dn);                            // (n, T, C)
    op_layernorm_backward(be, block->norm2, act_repeat(g->mid, n), dn, &dh, dh); // + residual
    op_linear_backward(be, block->proj, dh, NULL, dn);                           // (n, T, C)
    attention_backward(g, layer, desc, &gradients, capture);                     // (n, T, 3C)
    if (last) return;
    if (block->q_norm) op_layernorm_backward(be, block->q_norm, q, dq, NULL, dq); // per head
    if (block->k_norm) op_layernorm_backward(be, block->k_norm, k, dk, NULL, dk); // per head
    op_linear_backward(be, block->qkv, dqkv, NULL, dn);                           // (n, T, C)
    op_layernorm_backward(be, block->norm1, act_repeat(g->x, n), dn, &dh, dh);    // + residual
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* The architecture, from its end to the lowest layer wanted. */
static void run_backward(struct vit_gradient *g, int n, const struct capture *capture) {
    const struct vit *vit = g->vit;
    int lowest = 0;
    while (lowest < vit->config.depth && !capture_wants(capture, lowest))
        lowest++;
    head_backward(g, n, capture);
    for (int l = vit->config.depth - 1; l >= lowest; l--) {
        struct attention desc = vit_attention(vit, l);
        desc.probs = &g->probs;
        block_forward(g, l, &desc);
        block_backward(g, l, n, &desc, capture, l == lowest);
    }
}

enum status vit_gradient_run(struct vit_gradient *g, const uint8_t *pixels, const int *classes,
                             int count, const struct capture *capture) {
    const struct vit_taps taps = {.layer = -1, .stream = g->stream};
    const size_t K = (size_t)g->vit->config.classes;
    if (count < 1 || count > g->classes)
        return fail(ST_USAGE, "%d classes at once: 1 to %d fit the workspace", count, g->classes);
    TRY(vit_forward(g->vit, pixels, 1, NULL, &taps));
    memset(g->host, 0, (size_t)count * K * sizeof *g->host);
    for (int i = 0; i < count; i++)
        if (classes[i] < 0 || classes[i] >= g->vit->config.classes)
            return fail(ST_USAGE, "no class %d: the model has classes 0 to %d", classes[i],
                        g->vit->config.classes - 1);
    for (int i = 0; i < count; i++)
        g->host[(size_t)i * K + (size_t)classes[i]] = 1;
    backend_write(g->vit->backend, g->host, act_batch(g->dlogits, count));
    run_backward(g, count, capture);
    return backend_sync(g->vit->backend);
}
