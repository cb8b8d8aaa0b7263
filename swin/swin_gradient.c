/*
 * swin_gradient: the relevance of a class, by a backward pass. run_backward is the architecture
 * from its end to its start, one line an op; each block computes anew what it left in the forward
 * pass.
 *
 *   dlogits (n, 1, K) -> dc (n, 1, C) -> dh (n, T, C) -> S stages of blocks, each with dprobs
 *   (n, W*H*N, N); from one stage to the one before 4T, C/2
 *
 * n classes of one image: what the forward pass left is of batch 1 and stands for all of them.
 * Called by tools/model_attention.c.
 */
#include <string.h>

#include "kernels/backward.h"
#include "swin/swin_pass.h"

/* ---- the workspace --------------------------------------------------------------------------- */

static void stage_layout(struct swin_gradient *g, int s) {
    const struct swin *swin = g->swin;
    const struct swin_stage *stage = &swin->stages[s];
    const struct attention_shape shape =
        swin_attention_shape(swin, (int)(stage->blocks - swin->blocks));
    const int n = g->classes, T = stage->tokens, C = stage->channels, F = stage->hidden;
    const int rows = attention_shape_rows(&shape);
    struct swin_gradient_stage *own = &g->stages[s];
    struct backend *be = swin->backend;
    struct arena *arena = &g->workspace;

    own->x = act_take(be, arena, 1, T, C);
    own->mid = act_take(be, arena, 1, T, C);
    own->n = act_take(be, arena, 1, T, C);
    own->a = act_take(be, arena, 1, T, C);
    own->p = act_take(be, arena, 1, T, C);
    own->qkv = act_take(be, arena, 1, T, 3 * C);
    own->f = act_take(be, arena, 1, T, F);
    if (s > 0) own->before = act_take(be, arena, 1, stage[-1].tokens, stage[-1].channels);
    if (s > 0) own->merged = act_take(be, arena, 1, T, 2 * C);
    own->probs = act_take(be, arena, 1, rows, shape.keys);
    own->dh = act_take(be, arena, n, T, C);
    own->dn = act_take(be, arena, n, T, C);
    own->da = act_take(be, arena, n, T, C);
    own->df = act_take(be, arena, n, T, F);
    own->dqkv = act_take(be, arena, n, T, 3 * C);
    own->dprobs = act_take(be, arena, n, rows, shape.keys);
}

/* Run twice: with the arena's base NULL it measures, then it binds. */
static void workspace_layout(struct swin_gradient *g) {
    const struct swin *swin = g->swin;
    const int last = swin->config.stages - 1;
    struct arena *arena = &g->workspace;
    size_t begin, end;

    g->dc = act_take(swin->backend, arena, g->classes, 1, swin->stages[last].channels);
    g->dlogits = act_take(swin->backend, arena, g->classes, 1, swin->config.classes);
    for (int s = 1; s <= last; s++)
        g->stages[s].dmerged = act_take(swin->backend, arena, g->classes, swin->stages[s].tokens,
                                        2 * swin->stages[s].channels);
    begin = end = arena->used;
    for (int s = 0; s <= last; s++) {
        arena->used = begin;
        stage_layout(g, s);
        if (arena->used > end) end = arena->used;
    }
    arena->used = end;
}

static enum status open_workspace(struct swin_gradient *g) {
    const struct swin *swin = g->swin;
    size_t floats = 0;
    workspace_layout(g);
    TRY(backend_reserve(swin->backend, &g->workspace, "the backward pass"));
    workspace_layout(g);
    for (int s = 0; s < swin->config.stages; s++)
        floats += (size_t)(swin->stages[s].depth + 1) * swin->stages[s].h.stride;
    g->stream = mem_zalloc(floats, sizeof *g->stream);
    g->host = mem_zalloc((size_t)g->classes * (size_t)swin->config.classes, sizeof *g->host);
    g->bytes = g->workspace.capacity + floats * sizeof(float);
    if (!g->stream || !g->host) return ST_NOMEM;
    floats = 0;
    for (int s = 0; s < swin->config.stages; s++) {
        g->stages[s].stream = g->stream + floats;
        floats += (size_t)(swin->stages[s].depth + 1) * swin->stages[s].h.stride;
    }
    return ST_OK;
}

enum status swin_gradient_open(struct swin_gradient *out, struct swin *swin, int classes) {
    enum status st;
    *out = (struct swin_gradient){0};
    if (!swin->head) return fail(ST_USAGE, "the model has no classes");
    if (backend_is_gpu(swin->backend)) return fail(ST_DEVICE, "gradients are for the CPU alone");
    out->swin = swin;
    out->classes = classes;
    st = open_workspace(out);
    if (st != ST_OK) swin_gradient_release(out);
    return st;
}

void swin_gradient_release(struct swin_gradient *g) {
    if (g->swin) backend_release_arena(g->swin->backend, &g->workspace);
    mem_free(g->stream);
    mem_free(g->host);
    *g = (struct swin_gradient){0};
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* What the stream holds in front of block b of stage s, or behind the last, into x. */
static void write_stream(struct swin_gradient *g, int s, int b, struct act x) {
    backend_write(g->swin->backend, g->stages[s].stream + (size_t)b * g->swin->stages[s].h.stride,
                  x);
}

/* own->da -> own->dqkv (n, T, 3C), and the relevance to the capture, if it is wanted. */
static void attention_backward(struct swin_gradient *g, int s, int layer, int n,
                               const struct capture *capture) {
    const struct swin_gradient_stage *own = &g->stages[s];
    const int C = g->swin->stages[s].channels;
    struct backend *be = g->swin->backend;
    const struct act qkv = act_repeat(own->qkv, n), dqkv = act_batch(own->dqkv, n);
    const struct act probs = act_repeat(own->probs, n), dprobs = act_batch(own->dprobs, n);
    struct attention desc = swin_attention(g->swin, layer);
    const struct attention_gradients gradients = {.q = act_columns(qkv, 0, C),
                                                  .k = act_columns(qkv, C, C),
                                                  .v = act_columns(qkv, 2 * C, C),
                                                  .dy = act_batch(own->da, n),
                                                  .dq = act_columns(dqkv, 0, C),
                                                  .dk = act_columns(dqkv, C, C),
                                                  .dv = act_columns(dqkv, 2 * C, C),
                                                  .dprobs = dprobs};
    desc.probs = &probs;
    op_attention_backward(be, &desc, &gradients);
    if (!capture_wants(capture, layer)) return;
    op_relevance(be, probs, dprobs, dprobs);
    capture_hand_out(be, capture, layer, swin_attention_shape(g->swin, layer), dprobs, NULL, NULL);
}

/* own->x, or its norm -> own->a (1, T, C), with qkv and probs. */
static void attention_forward(struct swin_gradient *g, int s, int layer, struct act x) {
    const struct swin_gradient_stage *own = &g->stages[s];
    const int C = g->swin->stages[s].channels;
    struct backend *be = g->swin->backend;
    struct attention desc = swin_attention(g->swin, layer);
    desc.probs = &own->probs;
    op_linear(be, g->swin->blocks[layer].qkv, EPILOGUE_NONE, x, NULL, own->qkv); // (1, T, 3C)
    op_attention(be, &desc, act_columns(own->qkv, 0, C), act_columns(own->qkv, C, C),
                 act_columns(own->qkv, 2 * C, C), own->a); // (1, T, C)
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* own->dh (n, T, C) behind the block -> in front of it; `lowest`: no further than its attention. */
static void block_v1(struct swin_gradient *g, int s, int layer, int n,
                     const struct capture *capture, bool lowest) {
    const struct swin_gradient_stage *own = &g->stages[s];
    const struct swin_block *block = &g->swin->blocks[layer];
    const enum epilogue mlp = swin_hidden_epilogue(&g->swin->config);
    struct backend *be = g->swin->backend;
    struct act dh = act_batch(own->dh, n), dn = act_batch(own->dn, n);
    struct act df = act_batch(own->df, n), da = act_batch(own->da, n);
    struct act dqkv = act_batch(own->dqkv, n);

    op_layernorm(be, block->norm1, own->x, NULL, own->n);                 // (1, T, C)
    attention_forward(g, s, layer, own->n);                               // (1, T, C)
    op_linear(be, block->proj, EPILOGUE_NONE, own->a, &own->x, own->mid); // + residual
    op_layernorm(be, block->norm2, own->mid, NULL, own->n);               // (1, T, C)
    op_linear(be, block->fc1, EPILOGUE_NONE, own->n, NULL, own->f);       // (1, T, F)

    op_linear_backward(be, block->fc2, dh, NULL, df);                              // (n, T, F)
    op_activation_backward(be, mlp, act_repeat(own->f, n), df, df);                // (n, T, F)
    op_linear_backward(be, block->fc1, df, NULL, dn);                              // (n, T, C)
    op_layernorm_backward(be, block->norm2, act_repeat(own->mid, n), dn, &dh, dh); // + residual
    op_linear_backward(be, block->proj, dh, NULL, da);                             // (n, T, C)
    attention_backward(g, s, layer, n, capture);                                   // (n, T, 3C)
    if (lowest) return;
    op_linear_backward(be, block->qkv, dqkv, NULL, dn);                          // (n, T, C)
    op_layernorm_backward(be, block->norm1, act_repeat(own->x, n), dn, &dh, dh); // + residual
}

static void block_v2(struct swin_gradient *g, int s, int layer, int n,
                     const struct capture *capture, bool lowest) {
    const struct swin_gradient_stage *own = &g->stages[s];
    const struct swin_block *block = &g->swin->blocks[layer];
    const enum epilogue mlp = swin_hidden_epilogue(&g->swin->config);
    struct backend *be = g->swin->backend;
    struct act dh = act_batch(own->dh, n), dn = act_batch(own->dn, n);
    struct act df = act_batch(own->df, n), da = act_batch(own->da, n);
    struct act dqkv = act_batch(own->dqkv, n);

    attention_forward(g, s, layer, own->x);                           // (1, T, C)
    op_linear(be, block->proj, EPILOGUE_NONE, own->a, NULL, own->p);  // (1, T, C)
    op_layernorm(be, block->norm1, own->p, &own->x, own->mid);        // + residual
    op_linear(be, block->fc1, mlp, own->mid, NULL, own->f);           // (1, T, F)
    op_linear(be, block->fc2, EPILOGUE_NONE, own->f, NULL, own->n);   // (1, T, C)
    op_linear(be, block->fc1, EPILOGUE_NONE, own->mid, NULL, own->f); // (1, T, F)

    op_layernorm_backward(be, block->norm2, act_repeat(own->n, n), dh, NULL, dn); // (n, T, C)
    op_linear_backward(be, block->fc2, dn, NULL, df);                             // (n, T, F)
    op_activation_backward(be, mlp, act_repeat(own->f, n), df, df);               // (n, T, F)
    op_linear_backward(be, block->fc1, df, &dh, dh);                              // + residual
    op_layernorm_backward(be, block->norm1, act_repeat(own->p, n), dh, NULL, dn); // (n, T, C)
    op_linear_backward(be, block->proj, dn, NULL, da);                            // (n, T, C)
    attention_backward(g, s, layer, n, capture);                                  // (n, T, 3C)
    if (!lowest) op_linear_backward(be, block->qkv, dqkv, &dh, dh);               // + residual
}

/* ---- between stages -------------------------------------------------------------------------- */

/* dh (n, T, C) in front of stage s -> dh (n, h*w, C/2) behind the stage before. */
static void merge_backward(struct swin_gradient *g, int s, int n) {
    const struct swin_gradient_stage *own = &g->stages[s];
    const struct swin_stage *stage = &g->swin->stages[s];
    const int h = stage[-1].map.h, w = stage[-1].map.w;
    struct backend *be = g->swin->backend;
    struct act dh = act_batch(own->dh, n), dmerged = act_batch(own->dmerged, n);

    write_stream(g, s - 1, stage[-1].depth, own->before);            // (1, h*w, C/2)
    op_patch_merge(be, NULL, own->before, h, w, own->merged);        // (1, T, 2C)
    if (g->swin->config.version == 1) {                              // norm, then reduction
        op_linear_backward(be, stage->reduction, dh, NULL, dmerged); // (n, T, 2C)
        op_layernorm_backward(be, stage->merge_norm, act_repeat(own->merged, n), dmerged, NULL,
                              dmerged); // (n, T, 2C)
    } else {
        op_linear(be, stage->reduction, EPILOGUE_NONE, own->merged, NULL, own->x); // (1, T, C)
        op_layernorm_backward(be, stage->merge_norm, act_repeat(own->x, n), dh, NULL, dh);
        op_linear_backward(be, stage->reduction, dh, NULL, dmerged); // (n, T, 2C)
    }
    op_patch_merge_backward(be, dmerged, h, w, act_batch(g->stages[s - 1].dh, n));
}

/* g->dlogits (n, 1, K) -> dh (n, T, C), behind the last block. */
static void head_backward(struct swin_gradient *g, int n) {
    const int last = g->swin->config.stages - 1;
    const struct swin_gradient_stage *own = &g->stages[last];
    struct backend *be = g->swin->backend;
    struct act dh = act_batch(own->dh, n), dn = act_batch(own->dn, n), dc = act_batch(g->dc, n);

    write_stream(g, last, g->swin->stages[last].depth, own->x);                    // (1, T, C)
    op_linear_backward(be, g->swin->head, act_batch(g->dlogits, n), NULL, dc);     // (n, 1, C)
    op_mean_backward(be, dc, dn);                                                  // (n, T, C)
    op_layernorm_backward(be, g->swin->norm, act_repeat(own->x, n), dn, NULL, dh); // (n, T, C)
}

/* The architecture, from its end to the lowest layer wanted. */
static void run_backward(struct swin_gradient *g, int n, const struct capture *capture) {
    const struct swin *swin = g->swin;
    int layer = swin->depth - 1, lowest = 0;
    while (lowest < swin->depth && !capture_wants(capture, lowest))
        lowest++;
    head_backward(g, n);
    for (int s = swin->config.stages - 1; s >= 0; s--) {
        for (int b = swin->stages[s].depth - 1; b >= 0; b--, layer--) {
            if (layer < lowest) return;
            write_stream(g, s, b, g->stages[s].x); // (1, T, C)
            (swin->config.version == 1 ? block_v1 : block_v2)(g, s, layer, n, capture,
                                                              layer == lowest);
        }
        if (s > 0 && layer >= lowest) merge_backward(g, s, n);
    }
}

enum status swin_gradient_run(struct swin_gradient *g, const uint8_t *pixels, const int *classes,
                              int count, const struct capture *capture) {
    const struct swin_taps taps = {.layer = -1, .stream = g->stream};
    const size_t K = (size_t)g->swin->config.classes;
    if (count < 1 || count > g->classes)
        return fail(ST_USAGE, "%d classes at once: 1 to %d fit the workspace", count, g->classes);
    TRY(swin_forward(g->swin, pixels, 1, NULL, &taps));
    memset(g->host, 0, (size_t)count * K * sizeof *g->host);
    for (int i = 0; i < count; i++)
        if (classes[i] < 0 || classes[i] >= g->swin->config.classes)
            return fail(ST_USAGE, "no class %d: the model has classes 0 to %d", classes[i],
                        g->swin->config.classes - 1);
    for (int i = 0; i < count; i++)
        g->host[(size_t)i * K + (size_t)classes[i]] = 1;
    backend_write(g->swin->backend, g->host, act_batch(g->dlogits, count));
    run_backward(g, count, capture);
    return backend_sync(g->swin->backend);
}
