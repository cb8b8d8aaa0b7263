/*
 * vit_load: a model file -> struct vit, ready to run.
 *
 *   config -> sizes of this run -> every tensor, through one scratch, packed -> plan
 *
 * What the forward need not do is done here once: LayerScale is folded into proj and fc2, the two
 * heads of a distilled model into one, prefix tokens get their positions, positions and bias tables
 * are resampled to the run's grid. Called by tools/model.c. A file's every fault is listed: reading
 * goes on after the first.
 */
#include "vit/vit.h"

#include "kernels/relative.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct loader {
    struct vit *vit;
    struct params params;
    char prefix[32]; /* "blocks.3.", in front of every name */
    struct arena scratch;
    float *weight; /* the matrix or table at hand, in host memory; sizes in scratch_layout */
    float *bias;
    float *scales;  /* of a quantised weight's rows, as many as the bias has */
    float *gamma;   /* (C) LayerScale, or the latent */
    bool backward;  /* vit_options' */
    enum status st; /* the device's first refusal; reading goes on */
};

/* ---- scratch --------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Floats of a bias table as stored, as run, and with its heads in front. */
static size_t bias_size(const struct vit *vit) {
    const struct vit_config *config = &vit->config;
    if (!vit_config_relative(config)) return 0;
    const size_t run = (size_t)relative_entries(vit->grid_h, vit->grid_w, vit->prefix);
    return (size_t)config->heads * ((size_t)vit_config_bias_rows(config) + 2 * run);
}

/* Floats that the largest tensor needs, as read and as changed. */
static size_t weight_size(const struct vit *vit) {
    const struct vit_config *config = &vit->config;
    const size_t C = (size_t)config->dim, K = (size_t)config->classes;
    const size_t G = (size_t)config->hidden * (config->swiglu ? 2 : 1);
    const size_t stored = (size_t)config->pos_grid_h * (size_t)config->pos_grid_w;
    size_t rows = larger(3 * C, G);                        // qkv (3C, C), fc1 (G, C)
    rows = larger(rows, K * (config->dist_token ? 4 : 1)); // both heads (K, C), merged (K, 2C)
    rows = larger(rows, 3 * (size_t)config->patch_h * (size_t)config->patch_w);
    // prefix tokens, pos_embed as stored, the grid as run
    rows = larger(rows, 2 * (size_t)vit->prefix + stored + (size_t)vit->patches);
    return larger(C * rows, bias_size(vit));
}

static void scratch_layout(struct loader *ld) {
    const struct vit_config *config = &ld->vit->config;
    const size_t C = (size_t)config->dim, K = (size_t)config->classes;
    const size_t G = (size_t)config->hidden * (config->swiglu ? 2 : 1);
    ld->weight = arena_take(&ld->scratch, weight_size(ld->vit), sizeof(float));
    ld->bias = arena_take(&ld->scratch, larger(larger(3 * C, G), 2 * K), sizeof(float));
    ld->scales = arena_take(&ld->scratch, larger(larger(3 * C, G), K), sizeof(float));
    ld->gamma = arena_take(&ld->scratch, C, sizeof(float));
}

/* The numbers in the matrices that the config announces. */
static double announced(const struct vit_config *config) {
    const double C = config->dim, F = config->hidden, L = config->depth, K = config->classes;
    const double grid = (double)config->pos_grid_h * config->pos_grid_w;
    const double bias = (double)vit_config_bias_rows(config) * config->heads;
    double count = 3.0 * config->patch_h * config->patch_w * C;
    if (config->positions == POSITIONS_LEARNED) count += grid * C;
    if (vit_config_relative(config))
        count += bias * (config->positions == POSITIONS_RELATIVE ? L : 1);
    count += L * (4.0 * C * C + (config->swiglu ? 3.0 : 2.0) * C * F);
    if (config->pool == POOL_MAP) count += 4.0 * C * C + 2.0 * C * F;
    return count + K * C * (config->dist_token ? 2.0 : 1.0);
}

static enum status scratch_init(struct loader *ld, const char *file) {
    TRY(params_announced(&ld->params, announced(&ld->vit->config)));
    scratch_layout(ld);
    TRY(arena_reserve(&ld->scratch, file));
    scratch_layout(ld);
    return ST_OK;
}

/* ---- one tensor, one weight ------------------------------------------------------------------ */

static void get(struct loader *ld, float *dst, const int *dims, int rank, const char *name,
                const char *suffix) {
    char full[128];
    snprintf(full, sizeof full, "%s%s%s", ld->prefix, name, suffix);
    params_get(&ld->params, dst, dims, rank, full);
}

/* NAME.weight (out, in) to ld->weight; the scales of its rows (out), NULL: it is not quantised. */
static float *get_weight(struct loader *ld, int out, int in, const char *name) {
    char full[128];
    snprintf(full, sizeof full, "%s%s.weight", ld->prefix, name);
    return params_get_scales(&ld->params, ld->weight, ld->scales, SHAPE(out, in), full) ? ld->scales
                                                                                        : NULL;
}

/* Whether what was read is worth packing: after a fault the model will be refused anyway. */
static bool going(const struct loader *ld) {
    return ld->st == ST_OK && ld->params.problem_count == 0;
}

/* Packs ld->weight (out, in) and ld->bias (out); scales (out) or NULL: get_weight's. */
static struct linear *pack(struct loader *ld, const char *name, int out, int in, bool has_bias,
                           const float *scales, int rows) {
    char full[128];
    struct linear *linear = NULL;
    struct linear_spec spec = {.name = full,
                               .in = in,
                               .out = out,
                               .weight = ld->weight,
                               .bias = has_bias ? ld->bias : NULL,
                               .scales = scales,
                               .rows = rows,
                               .backward = ld->backward};
    snprintf(full, sizeof full, "%s%s", ld->prefix, name);
    if (going(ld)) ld->st = linear_load(ld->vit->backend, &spec, &linear);
    return linear;
}

/*
 * NAME.weight (out, in), NAME.bias (out); `scale` (out) or NULL: LayerScale, y = gamma * (W x +
 * b).
 */
static struct linear *load_linear(struct loader *ld, const char *name, int out, int in,
                                  bool has_bias, const char *scale) {
    float *scales = get_weight(ld, out, in, name);
    if (has_bias) get(ld, ld->bias, SHAPE(out), name, ".bias");
    if (scale) {
        get(ld, ld->gamma, SHAPE(out), scale, "");
        for (int o = 0; o < out; o++) {
            float *row = ld->weight + (size_t)o * (size_t)in; /* (in) */
            for (int i = 0; i < in; i++)
                row[i] *= ld->gamma[o];
            ld->bias[o] *= ld->gamma[o];
            if (scales) scales[o] *= ld->gamma[o];
        }
    }
    return pack(ld, name, out, in, has_bias, scales, ld->vit->tokens);
}

static struct norm *load_norm(struct loader *ld, const char *name, int width, bool rms) {
    struct norm *norm = NULL;
    struct norm_spec spec = {.width = width,
                             .eps = (float)ld->vit->config.norm_eps,
                             .rms = rms,
                             .weight = ld->weight,
                             .bias = rms ? NULL : ld->bias};
    get(ld, ld->weight, SHAPE(width), name, ".weight");
    if (!rms) get(ld, ld->bias, SHAPE(width), name, ".bias");
    if (going(ld)) ld->st = norm_load(ld->vit->backend, &spec, &norm);
    return norm;
}

static struct table *load_table(struct loader *ld, const float *values, size_t count) {
    struct table *table = NULL;
    if (going(ld)) ld->st = table_load(ld->vit->backend, values, count, &table);
    return table;
}

/* ---- the parts of the model ------------------------------------------------------------------ */

/*
 * The projection, flattened: the file's (C, 3, ph, pw) is (C, 3*ph*pw) already. Pixels are not
 * rounded once more: quantised or not, it goes without scales.
 */
static void load_patch(struct loader *ld) {
    const struct vit_config *config = &ld->vit->config;
    const int C = config->dim, ph = config->patch_h, pw = config->patch_w;
    get(ld, ld->weight, SHAPE(C, 3, ph, pw), "patch_embed.proj", ".weight");
    if (config->patch_bias) get(ld, ld->bias, SHAPE(C), "patch_embed.proj", ".bias");
    ld->vit->patch.proj =
        pack(ld, "patch_embed.proj", C, 3 * ph * pw, config->patch_bias, NULL, ld->vit->patches);
}

/* Prefix tokens with their positions added; positions on the grid of this run. */
static void load_tokens(struct loader *ld) {
    struct vit *vit = ld->vit;
    const struct vit_config *config = &vit->config;
    const int C = config->dim, P = vit->prefix, R = config->registers, Q = config->pos_prefix;
    const int stored_h = config->pos_grid_h, stored_w = config->pos_grid_w;
    const size_t width = (size_t)C;
    float *prefix = ld->weight;                                /* (P, C) */
    float *pos = prefix + (size_t)P * width;                   /* (Q + stored_h*stored_w, C) */
    float *grid = pos + (size_t)Q * width;                     /* (stored_h*stored_w, C) */
    float *run = grid + (size_t)(stored_h * stored_w) * width; /* (N, C) */
    float *token = prefix;

    if (config->class_token) {
        get(ld, token, SHAPE(1, 1, C), "cls_token", "");
        token += width;
    }
    if (config->dist_token) {
        get(ld, token, SHAPE(1, 1, C), "dist_token", "");
        token += width;
    }
    if (R > 0) get(ld, token, SHAPE(1, R, C), "reg_token", "");
    if (config->positions == POSITIONS_LEARNED) {
        get(ld, pos, SHAPE(1, Q + stored_h * stored_w, C), "pos_embed", "");
        for (size_t i = 0; i < (size_t)Q * width; i++)
            prefix[i] += pos[i];
        if (going(ld))
            ld->st = vit_resample_positions(grid, stored_h, stored_w, run, vit->grid_h, vit->grid_w,
                                            C, config->pos_resample);
        vit->positions = load_table(ld, run, (size_t)vit->patches * width);
    }
    if (P > 0) vit->prefix_tokens = load_table(ld, prefix, (size_t)P * width);
}

/*
 * The table NAME (rows, H) as (H, entries) on the grid of this run. The entries of prefix tokens
 * stay as they are.
 */
static struct table *load_bias(struct loader *ld, const char *name) {
    const struct vit *vit = ld->vit;
    const struct vit_config *config = &vit->config;
    const int H = config->heads, rows = vit_config_bias_rows(config);
    const int stored_h = config->pos_grid_h, stored_w = config->pos_grid_w;
    const size_t entries = (size_t)relative_entries(vit->grid_h, vit->grid_w, vit->prefix);
    const size_t width = (size_t)H, extra = vit->prefix > 0 ? RELATIVE_EXTRA * width : 0;
    float *run = ld->weight + (size_t)rows * width; /* (entries, H) */
    float *heads = run + entries * width;           /* (H, entries) */
    get(ld, ld->weight, SHAPE(rows, H), name, "");
    if (!going(ld)) return NULL;
    if (config->pos_resample == RESAMPLE_GEOMETRIC)
        ld->st =
            relative_resample(ld->weight, stored_h, stored_w, run, vit->grid_h, vit->grid_w, H);
    else
        ld->st = vit_resample_positions(ld->weight, 2 * stored_h - 1, 2 * stored_w - 1, run,
                                        2 * vit->grid_h - 1, 2 * vit->grid_w - 1, H,
                                        config->pos_resample);
    memcpy(run + entries * width - extra, run - extra, extra * sizeof *run);
    for (size_t h = 0; h < width; h++)
        for (size_t e = 0; e < entries; e++)
            heads[h * entries + e] = run[e * width + h];
    return load_table(ld, heads, width * entries);
}

static void load_block(struct loader *ld, struct vit_block *block) {
    const struct vit_config *config = &ld->vit->config;
    const int C = config->dim, D = C / config->heads, F = config->hidden;
    const bool rms = config->qk_norm == QK_RMS;
    block->norm1 = load_norm(ld, "norm1", C, false);
    block->qkv = load_linear(ld, "attn.qkv", 3 * C, C, config->qkv_bias, NULL);
    if (config->positions == POSITIONS_RELATIVE)
        block->bias = load_bias(ld, "attn.relative_position_bias_table");
    if (config->qk_norm != QK_NONE) block->q_norm = load_norm(ld, "attn.q_norm", D, rms);
    if (config->qk_norm != QK_NONE) block->k_norm = load_norm(ld, "attn.k_norm", D, rms);
    block->proj =
        load_linear(ld, "attn.proj", C, C, true, config->layer_scale ? "ls1.gamma" : NULL);
    block->norm2 = load_norm(ld, "norm2", C, false);
    block->fc1 = load_linear(ld, "mlp.fc1", config->swiglu ? 2 * F : F, C, true, NULL);
    block->fc2 = load_linear(ld, "mlp.fc2", C, F, true, config->layer_scale ? "ls2.gamma" : NULL);
}

/* timm's AttentionPoolLatent. The query is the same for every image: q(latent), computed here. */
static void load_attn_pool(struct loader *ld) {
    struct vit_attn_pool *pool = &ld->vit->pool;
    const int C = ld->vit->config.dim, F = ld->vit->config.hidden;
    get(ld, ld->gamma, SHAPE(1, 1, C), "attn_pool.latent", "");
    get(ld, ld->weight, SHAPE(C, C), "attn_pool.q", ".weight");
    get(ld, ld->bias, SHAPE(C), "attn_pool.q", ".bias");
    for (int o = 0; o < C; o++) {
        double sum = ld->bias[o];
        for (int i = 0; i < C; i++)
            sum += (double)ld->weight[(size_t)o * (size_t)C + (size_t)i] * (double)ld->gamma[i];
        pool->query[o] = (float)sum;
    }
    pool->kv = load_linear(ld, "attn_pool.kv", 2 * C, C, true, NULL);
    pool->proj = load_linear(ld, "attn_pool.proj", C, C, true, NULL);
    pool->norm = load_norm(ld, "attn_pool.norm", C, false);
    pool->fc1 = load_linear(ld, "attn_pool.mlp.fc1", F, C, true, NULL);
    pool->fc2 = load_linear(ld, "attn_pool.mlp.fc2", C, F, true, NULL);
}

/*
 * (W1 x0 + b1 + W2 x1 + b2) / 2 as one product over [x0, x1]: weight (K, 2C), bias (K). A row has
 * two scales where they are quantised, and so none.
 */
static void load_head_pair(struct loader *ld) {
    const int C = ld->vit->config.dim, K = ld->vit->config.classes;
    const size_t width = (size_t)C, count = (size_t)K;
    float *merged = ld->weight;                    /* (K, 2C) */
    float *first = merged + 2 * count * width;     /* (K, C) */
    float *second = first + count * width;         /* (K, C) */
    float *bias = ld->bias, *other = bias + count; /* (K), (K) */
    get(ld, first, SHAPE(K, C), "head", ".weight");
    get(ld, bias, SHAPE(K), "head", ".bias");
    get(ld, second, SHAPE(K, C), "head_dist", ".weight");
    get(ld, other, SHAPE(K), "head_dist", ".bias");
    for (size_t k = 0; k < count; k++) {
        for (size_t c = 0; c < width; c++) {
            merged[k * 2 * width + c] = 0.5f * first[k * width + c];
            merged[(k * 2 + 1) * width + c] = 0.5f * second[k * width + c];
        }
        bias[k] = 0.5f * (bias[k] + other[k]);
    }
    ld->vit->head = pack(ld, "head", K, 2 * C, true, NULL, 1);
}

static void load_head(struct loader *ld) {
    const int C = ld->vit->config.dim, K = ld->vit->config.classes;
    if (ld->vit->config.dist_token) {
        load_head_pair(ld);
        return;
    }
    const float *scales = get_weight(ld, K, C, "head");
    get(ld, ld->bias, SHAPE(K), "head", ".bias");
    ld->vit->head = pack(ld, "head", K, C, true, scales, 1);
}

/* In the order of the forward pass. */
static void load_parts(struct loader *ld) {
    struct vit *vit = ld->vit;
    const struct vit_config *config = &vit->config;
    const int C = config->dim;
    struct table *shared = NULL;
    load_patch(ld);
    load_tokens(ld);
    if (config->positions == POSITIONS_RELATIVE_SHARED)
        shared = load_bias(ld, "rel_pos_bias.relative_position_bias_table");
    if (config->pre_norm) vit->norm_pre = load_norm(ld, "norm_pre", C, false);
    for (int l = 0; l < config->depth; l++) {
        snprintf(ld->prefix, sizeof ld->prefix, "blocks.%d.", l);
        load_block(ld, &vit->blocks[l]);
        if (shared) vit->blocks[l].bias = shared;
    }
    ld->prefix[0] = '\0';
    if (config->norm) vit->norm = load_norm(ld, "norm", C, false);
    if (config->pool == POOL_MAP) load_attn_pool(ld);
    if (config->fc_norm) vit->fc_norm = load_norm(ld, "fc_norm", C, false);
    if (config->classes > 0) load_head(ld);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* What the config may say, but no forward computes. */
static enum status check_supported(const struct vit_config *config, const char *file) {
    if (config->pool == POOL_NONE && config->classes > 0)
        return fail(ST_FORMAT,
                    "%s: pool 'none' with %d classes would give logits for every token; vitrine "
                    "classifies images (convert it without its head, or with a pool)",
                    file, config->classes);
    if (!config->dist_token) return ST_OK;
    if (config->pool != POOL_TOKEN || !config->class_token || !config->norm || config->fc_norm)
        return fail(ST_FORMAT,
                    "%s: a distillation token goes with a class token, pool 'token' and norm "
                    "before the pool (pool is '%s', norm %d, fc_norm %d)",
                    file, vit_pool_name(config->pool), config->norm, config->fc_norm);
    return ST_OK;
}

/* The sizes of this run. */
static enum status set_sizes(struct vit *vit, const struct vit_options *options, const char *file) {
    struct vit_config *config = &vit->config;
    const int ph = config->patch_h, pw = config->patch_w;
    const int h = options->image_h > 0 ? options->image_h : config->image_h;
    const int w = options->image_w > 0 ? options->image_w : config->image_w;
    if (options->max_batch < 1)
        return fail(ST_USAGE, "%s: a batch of %d images, want at least 1", file,
                    options->max_batch);
    if (h % ph || w % pw || h < ph || w < pw)
        return fail(ST_USAGE, "%s: image size %dx%d is not a multiple of the patch size %dx%d",
                    file, h, w, ph, pw);
    vit->grid_h = h / ph;
    vit->grid_w = w / pw;
    vit->prefix = vit_config_prefix(config);
    if (vit->grid_h > (INT_MAX / config->heads - vit->prefix) / vit->grid_w) // H*T is an int
        return fail(ST_USAGE, "%s: image size %dx%d gives too many patches of %dx%d", file, h, w,
                    ph, pw);
    if (vit_config_relative(config) &&
        (vit->grid_h > RELATIVE_MAX_SIDE || vit->grid_w > RELATIVE_MAX_SIDE))
        return fail(ST_USAGE,
                    "%s: image size %dx%d gives a side of more than %d patches, too many for a "
                    "bias table",
                    file, h, w, RELATIVE_MAX_SIDE);
    if (!config->positions) config->pos_grid_h = config->pos_grid_w = 0;
    vit->patches = vit->grid_h * vit->grid_w;
    vit->tokens = vit->prefix + vit->patches;
    config->image_h = h;
    config->image_w = w;
    vit->patch = (struct patch_spec){.image_h = h, .image_w = w, .patch_h = ph, .patch_w = pw};
    memcpy(vit->patch.mean, options->mean, sizeof vit->patch.mean);
    memcpy(vit->patch.std, options->std, sizeof vit->patch.std);
    return ST_OK;
}

/* Every tensor of the file, once. A fault of the file is said before a refusal of the device. */
static enum status load_parameters(struct vit *vit, struct h5 *file, bool backward) {
    struct loader ld = {.vit = vit, .backward = backward};
    char sentence[1024];
    enum status st, closed;
    bool asked;
    TRY(params_open(&ld.params, file));
    st = scratch_init(&ld, h5_name(file));
    asked = st == ST_OK;
    if (asked) {
        load_parts(&ld);
        st = ld.st;
        vit->parameters = ld.params.elements;
    }
    snprintf(sentence, sizeof sentence, "%s", fail_message());
    closed = params_close(&ld.params);
    arena_release(&ld.scratch);
    if (asked && closed != ST_OK) return closed;
    return st == ST_OK ? ST_OK : fail(st, "%s", sentence);
}

enum status vit_load(struct vit *vit, struct h5 *file, const struct vit_options *options,
                     struct backend *backend) {
    const char *name = h5_name(file);
    enum status st;
    *vit = (struct vit){.backend = backend};
    TRY_OUT(vit_config_read(file, &vit->config));
    TRY_OUT(vit_config_check(&vit->config, name));
    TRY_OUT(check_supported(&vit->config, name));
    TRY_OUT(set_sizes(vit, options, name));
    vit->blocks = mem_zalloc((size_t)vit->config.depth, sizeof *vit->blocks);
    if (vit->config.pool == POOL_MAP)
        vit->pool.query = mem_zalloc((size_t)vit->config.dim, sizeof(float));
    if (!vit->blocks || (vit->config.pool == POOL_MAP && !vit->pool.query)) TRY_OUT(ST_NOMEM);
    TRY_OUT(load_parameters(vit, file, options->backward));
    TRY_OUT(vit_plan(vit, options->max_batch));
out:
    if (st != ST_OK) vit_release(vit);
    return st;
}

void vit_release(struct vit *vit) {
    if (vit->backend) {
        backend_release_arena(vit->backend, &vit->workspace);
        capture_release(vit->backend, &vit->room);
    }
    mem_free(vit->blocks);
    mem_free(vit->pool.query);
    *vit = (struct vit){0};
}
