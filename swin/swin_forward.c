/*
 * swin_forward: the forward pass. run_forward is the architecture, one line an op.
 *
 *   pixels (B, h, w, 3) -> h (B, T, C) -> S stages of blocks; from one to the next T/4, 2C -> mean
 *   c (B, 1, C) -> logits (B, K)
 *
 * Called by tools/model.c through swin_forward, and once by swin_load through swin_plan with
 * nothing computed. The order of ops follows timm's SwinTransformer and SwinTransformerV2.
 */
#include <math.h>

#include "swin/swin_pass.h"

/* ---- the workspace --------------------------------------------------------------------------- */

static int wide_channels(const struct swin_stage *stage) {
    return 3 * stage->channels > stage->hidden ? 3 * stage->channels : stage->hidden;
}

static double size_of(int tokens, int channels) {
    return (double)tokens * channels;
}

/* Run twice: with the arena's base NULL it measures, then it binds. */
static void workspace_layout(struct swin *swin) {
    const int B = swin->max_batch, S = swin->config.stages, K = swin->config.classes;
    const struct swin_stage *largest = swin->stages, *widest = swin->stages;
    struct backend *be = swin->backend;
    struct arena *arena = &swin->workspace;
    struct act h, n, wide;

    for (int s = 1; s < S; s++) {
        const struct swin_stage *stage = &swin->stages[s];
        if (size_of(stage->tokens, stage->channels) > size_of(largest->tokens, largest->channels))
            largest = stage;
        if (size_of(stage->tokens, wide_channels(stage)) >
            size_of(widest->tokens, wide_channels(widest)))
            widest = stage;
    }
    h = act_take(be, arena, B, largest->tokens, largest->channels);
    n = act_take(be, arena, B, largest->tokens, largest->channels);
    wide = act_take(be, arena, B, widest->tokens, wide_channels(widest));
    for (int s = 0; s < S; s++) {
        struct swin_stage *stage = &swin->stages[s];
        const int T = stage->tokens, C = stage->channels;
        stage->h = act_front(h, T, C);
        stage->n = stage->a = act_front(n, T, C);
        stage->qkv = act_front(wide, T, 3 * C);
        stage->f = act_front(wide, T, stage->hidden);
        stage->merged = act_front(wide, T, 2 * C);
        stage->p = act_front(wide, T, C);
    }
    swin->c = act_take(be, arena, B, 1, swin->stages[S - 1].channels);
    if (K > 0) swin->logits = act_take(be, arena, B, 1, K);
}

/* ---- the pass -------------------------------------------------------------------------------- */

enum epilogue swin_hidden_epilogue(const struct swin_config *config) {
    if (config->activation == ACT_GELU_TANH) return EPILOGUE_GELU_TANH;
    return config->activation == ACT_QUICK_GELU ? EPILOGUE_QUICK_GELU : EPILOGUE_GELU;
}

struct attention swin_attention(const struct swin *swin, int layer) {
    const struct attention_shape shape = swin_attention_shape(swin, layer);
    const struct swin_block *block = &swin->blocks[layer];
    const struct window_grid *map = &shape.map;
    const int head_dim =
        swin->stages[swin_layer_stage(&swin->config, layer)].channels / shape.heads;
    return (struct attention){.heads = shape.heads,
                              .head_dim = head_dim,
                              .score = swin->config.version == 1 ? SCORE_DOT : SCORE_COSINE,
                              .scale = 1.0f / sqrtf((float)head_dim),
                              .temperature = block->temperature,
                              .pattern = PATTERN_WINDOW,
                              .grid_h = map->grid_h,
                              .grid_w = map->grid_w,
                              .window_h = map->window_h,
                              .window_w = map->window_w,
                              .shift_h = map->shift_h,
                              .shift_w = map->shift_w,
                              .mask_value = (float)swin->config.mask_value,
                              .bias = block->bias,
                              .padding = block->padding};
}

/* Attention of a block; its probabilities if they are wanted. */
static void attend(struct swin *swin, int layer, const struct capture *capture, struct act q,
                   struct act k, struct act v, struct act a) {
    const struct attention_shape shape = swin_attention_shape(swin, layer);
    const struct attention attention = swin_attention(swin, layer);
    if (!capture_wants(capture, layer) || !capture_attention(swin->backend, &swin->room, capture,
                                                             layer, &shape, &attention, q, k, v, a))
        op_attention(swin->backend, &attention, q, k, v, a);
}

/* Version 1: h + proj(attention(norm1(h))), then h + mlp(norm2(h)). */
static void run_block_v1(struct swin *swin, const struct swin_stage *stage, int layer,
                         const struct capture *capture, int B) {
    const struct swin_block *block = &swin->blocks[layer];
    const enum epilogue mlp = swin_hidden_epilogue(&swin->config);
    const int C = stage->channels;
    struct backend *be = swin->backend;
    struct act h = act_batch(stage->h, B), n = act_batch(stage->n, B), a = act_batch(stage->a, B);
    struct act qkv = act_batch(stage->qkv, B), f = act_batch(stage->f, B);
    struct act q = act_columns(qkv, 0, C), k = act_columns(qkv, C, C),
               v = act_columns(qkv, 2 * C, C);

    op_layernorm(be, block->norm1, h, NULL, n);             // (B, T, C)
    op_linear(be, block->qkv, EPILOGUE_NONE, n, NULL, qkv); // (B, T, 3C)
    attend(swin, layer, capture, q, k, v, a);               // (B, T, C)
    op_linear(be, block->proj, EPILOGUE_NONE, a, &h, h);    // (B, T, C) + residual
    op_layernorm(be, block->norm2, h, NULL, n);             // (B, T, C)
    op_linear(be, block->fc1, mlp, n, NULL, f);             // (B, T, F)
    op_linear(be, block->fc2, EPILOGUE_NONE, f, &h, h);     // (B, T, C) + residual
}

/* Version 2: h + norm1(proj(attention(h))), then h + norm2(mlp(h)). */
static void run_block_v2(struct swin *swin, const struct swin_stage *stage, int layer,
                         const struct capture *capture, int B) {
    const struct swin_block *block = &swin->blocks[layer];
    const enum epilogue mlp = swin_hidden_epilogue(&swin->config);
    const int C = stage->channels;
    struct backend *be = swin->backend;
    struct act h = act_batch(stage->h, B), n = act_batch(stage->n, B), a = act_batch(stage->a, B);
    struct act qkv = act_batch(stage->qkv, B), f = act_batch(stage->f, B);
    struct act p = act_batch(stage->p, B);
    struct act q = act_columns(qkv, 0, C), k = act_columns(qkv, C, C),
               v = act_columns(qkv, 2 * C, C);

    op_linear(be, block->qkv, EPILOGUE_NONE, h, NULL, qkv); // (B, T, 3C)
    attend(swin, layer, capture, q, k, v, a);               // (B, T, C)
    op_linear(be, block->proj, EPILOGUE_NONE, a, NULL, p);  // (B, T, C)
    op_layernorm(be, block->norm1, p, &h, h);               // (B, T, C) + residual
    op_linear(be, block->fc1, mlp, h, NULL, f);             // (B, T, F)
    op_linear(be, block->fc2, EPILOGUE_NONE, f, NULL, n);   // (B, T, C)
    op_layernorm(be, block->norm2, n, &h, h);               // (B, T, C) + residual
}

/* The stage before, with 4T tokens of C/2 -> this stage's h (B, T, C). */
static void merge_patches(struct swin *swin, const struct swin_stage *before,
                          const struct swin_stage *stage, int B) {
    const bool first = swin->config.version == 1; // the norm is in front of the reduction
    struct backend *be = swin->backend;
    struct act x = act_batch(before->h, B), h = act_batch(stage->h, B);
    struct act merged = act_batch(stage->merged, B);

    op_patch_merge(be, first ? stage->merge_norm : NULL, x, before->map.h, before->map.w,
                   merged);                                          // (B, T, 2C)
    op_linear(be, stage->reduction, EPILOGUE_NONE, merged, NULL, h); // (B, T, C), over x
    if (!first) op_layernorm(be, stage->merge_norm, h, NULL, h);     // (B, T, C)
}

static bool tokens_wanted(const struct swin_taps *taps, int layer) {
    return taps && taps->tokens && taps->layer == layer;
}

/* The stream in front of a block, or behind a stage's last; *to moves on. */
static void read_stream(struct swin *swin, struct act h, float **to) {
    if (!*to) return;
    backend_read(swin->backend, h, *to);
    *to += (size_t)h.batch * (size_t)h.tokens * (size_t)h.channels;
}

/* The architecture. */
static void run_forward(struct swin *swin, const uint8_t *pixels, int B, float *logits,
                        const struct swin_taps *taps) {
    const struct swin_stage *first = swin->stages, *last = first + swin->config.stages - 1;
    struct backend *be = swin->backend;
    struct act tok = act_batch(first->n, B), h = act_batch(first->h, B);
    struct act n = act_batch(last->n, B), c = act_batch(swin->c, B), out;
    const struct capture *capture = taps ? taps->capture : NULL;
    float *stream = taps ? taps->stream : NULL;
    int layer = 0;

    op_patch_embed(be, &swin->patch, pixels, tok);    // (B, T, C)
    op_layernorm(be, swin->patch_norm, tok, NULL, h); // (B, T, C)
    for (const struct swin_stage *stage = first; stage <= last; stage++) {
        if (stage > first) merge_patches(swin, stage - 1, stage, B); // (B, T/4, 2C)
        h = act_batch(stage->h, B);
        for (int b = 0; b < stage->depth; b++, layer++) {
            read_stream(swin, h, &stream);
            if (swin->config.version == 1)
                run_block_v1(swin, stage, layer, capture, B); // (B, T, C)
            else
                run_block_v2(swin, stage, layer, capture, B);                  // (B, T, C)
            if (tokens_wanted(taps, layer)) backend_read(be, h, taps->tokens); // (B, T, C)
        }
        read_stream(swin, h, &stream);
    }
    op_layernorm(be, swin->norm, h, NULL, n);                       // (B, T, C)
    if (tokens_wanted(taps, -1)) backend_read(be, n, taps->tokens); // (B, T, C)
    op_mean(be, n, c);                                              // (B, 1, C)
    if (taps && taps->pooled) backend_read(be, c, taps->pooled);    // (B, C)
    if (!logits || !swin->head) return;
    out = act_batch(swin->logits, B);
    op_linear(be, swin->head, EPILOGUE_NONE, c, NULL, out); // (B, 1, K)
    backend_read(be, out, logits);                          // (B, K)
}

/* Of the layer with the most probabilities. */
static struct attention_shape largest_attention(const struct swin *swin) {
    struct attention_shape largest = swin_attention_shape(swin, 0);
    for (int l = 1; l < swin->depth; l++) {
        const struct attention_shape shape = swin_attention_shape(swin, l);
        if (attention_shape_floats(&shape) > attention_shape_floats(&largest)) largest = shape;
    }
    return largest;
}

static int most_rows(const struct swin *swin) {
    int most = 0;
    for (int l = 0; l < swin->depth; l++) {
        const struct attention_shape shape = swin_attention_shape(swin, l);
        if (attention_shape_rows(&shape) > most) most = attention_shape_rows(&shape);
    }
    return most;
}

/* ---- the callers ----------------------------------------------------------------------------- */

enum status swin_forward(struct swin *swin, const uint8_t *pixels, int batch, float *logits,
                         const struct swin_taps *taps) {
    const struct attention_shape largest = largest_attention(swin);
    if (batch < 1 || batch > swin->max_batch)
        return fail(ST_USAGE, "a batch of %d images: 1 to %d fit the workspace", batch,
                    swin->max_batch);
    if (taps && taps->tokens && (taps->layer < -1 || taps->layer >= swin->depth))
        return fail(ST_USAGE, "no layer %d: the model has layers 0 to %d", taps->layer,
                    swin->depth - 1);
    if (taps && taps->capture)
        TRY(capture_reserve(swin->backend, &swin->room, &largest,
                            taps->capture->scores ? most_rows(swin) : 0, batch));
    run_forward(swin, pixels, batch, logits, taps);
    return backend_sync(swin->backend);
}

static enum status plan(struct swin *swin) {
    struct backend *be = swin->backend;
    float nothing[1]; /* stands for host buffers: nothing is read while planning */
    const struct swin_taps everything = {.layer = -1, .tokens = nothing, .pooled = nothing};

    backend_release_arena(be, &swin->workspace);
    capture_release(be, &swin->room);
    workspace_layout(swin);
    TRY(backend_reserve(be, &swin->workspace, "the model's workspace"));
    workspace_layout(swin);
    backend_plan_begin(be);
    run_forward(swin, NULL, swin->max_batch, nothing, &everything);
    return backend_plan_end(be);
}

enum status swin_plan(struct swin *swin, int max_batch) {
    enum status st;
    swin->max_batch = max_batch;
    while ((st = plan(swin)) == ST_NOMEM && backend_is_gpu(swin->backend) && swin->max_batch > 1)
        swin->max_batch /= 2;
    return st;
}

int swin_layer_stage(const struct swin_config *config, int layer) {
    int s = 0;
    if (layer < 0) return config->stages - 1;
    for (; s < config->stages - 1 && layer >= config->depths[s]; s++)
        layer -= config->depths[s];
    return s;
}

bool swin_window_changes(const struct swin_config *config, int stage, int image_h, int image_w) {
    struct swin_map stored, run;
    swin_config_map(config, stage, config->image_h, config->image_w, &stored);
    swin_config_map(config, stage, image_h, image_w, &run);
    return stored.window_h != run.window_h || stored.window_w != run.window_w;
}

double swin_stage_macs(const struct swin_config *config, int stage, int image_h, int image_w) {
    const int last = config->stages - 1, s = stage < 0 ? 0 : stage > last ? last : stage;
    const double C = (double)(config->dim << s), F = config->hidden[s];
    struct swin_map map;
    swin_config_map(config, s, image_h, image_w, &map);
    const double T = (double)map.h * map.w, N = (double)map.window_h * map.window_w;
    const double windows = ceil((double)map.h / map.window_h) * ceil((double)map.w / map.window_w);
    if (stage < 0) return T * 3.0 * config->patch_h * config->patch_w * C;
    if (stage > last) return C * config->classes;
    return (stage > 0 ? 2.0 * T * C * C : 0.0) +                  // reduction
           config->depths[s] * (T * (4.0 * C * C + 2.0 * C * F) + // qkv, proj, MLP
                                2.0 * windows * N * N * C);       // scores, weighted values
}

double swin_macs(const struct swin_config *config, int image_h, int image_w) {
    double macs = 0;
    for (int s = -1; s <= config->stages; s++)
        macs += swin_stage_macs(config, s, image_h, image_w);
    return macs;
}
