/*
 * swin_load: a model file -> struct swin, ready to run.
 *
 *   config -> sizes of this run -> every tensor, through one scratch, packed -> plan
 *
 * What the forward need not do is done here once: bias tables are laid out head by head, resampled
 * (version 1) or computed (version 2) for the windows of this run; the key and value that a padding
 * slot has are cut from the biases. Called by tools/model.c. A file's every fault is listed:
 * reading goes on after the first.
 */
#include "swin/swin.h"

#include "kernels/relative.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Bias tables are made here and not only read: a small file must not ask for minutes or gigabytes.
 * The largest Swin v2 released has 1.2 M entries, made by 0.7 G multiply-adds.
 */
#define MOST_ENTRIES       16777216.0
#define MOST_MULTIPLY_ADDS 4e9

struct loader {
    struct swin *swin;
    struct params params;
    char prefix[48]; /* "layers.2.blocks.3.", in front of every name */
    struct arena scratch;
    float *weight; /* the matrix or stored table at hand, in host memory; sizes in scratch_layout */
    float *bias;
    float *scales;  /* of a quantised weight's rows, as many as the bias has */
    float *table;   /* (H, N) or (N, H): a bias table for the window run */
    bool backward;  /* swin_options' */
    enum status st; /* the device's first refusal; reading goes on */
};

/* ---- scratch --------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* The map of stage s, and the window that its bias tables are stored for. */
static struct swin_map stored_map(const struct swin_config *config, int s) {
    struct swin_map map;
    swin_config_map(config, s, config->image_h, config->image_w, &map);
    return map;
}

/* N: a row for every pair of offsets in the window. */
static size_t table_rows(const struct swin_map *map) {
    return (size_t)(2 * map->window_h - 1) * (size_t)(2 * map->window_w - 1);
}

static void scratch_layout(struct loader *ld) {
    const struct swin_config *config = &ld->swin->config;
    const size_t K = (size_t)config->classes;
    const size_t patch = 3 * (size_t)config->patch_h * (size_t)config->patch_w;
    size_t weight = patch * (size_t)config->dim, bias = larger(K, SWIN_CPB_HIDDEN), table = 1;
    for (int s = 0; s < config->stages; s++) {
        const struct swin_stage *stage = &ld->swin->stages[s];
        const struct swin_map stored = stored_map(config, s);
        const size_t C = (size_t)stage->channels, F = (size_t)stage->hidden;
        const size_t H = (size_t)stage->heads, N = table_rows(&stage->map);
        weight = larger(weight, C * larger(3 * C, F)); // qkv (3C, C), fc1 (F, C)
        weight = larger(weight, C * K);                // head (K, C), of the last stage
        if (config->version == 1)
            weight = larger(weight, H * larger(N, table_rows(&stored))); // (N, H), (H, N)
        weight = larger(weight, (2 + H) * SWIN_CPB_HIDDEN);              // (512, 2), (H, 512)
        bias = larger(bias, larger(3 * C, F));
        table = larger(table, H * N);
    }
    ld->weight = arena_take(&ld->scratch, weight, sizeof(float));
    ld->bias = arena_take(&ld->scratch, bias, sizeof(float));
    ld->scales = arena_take(&ld->scratch, bias, sizeof(float));
    ld->table = arena_take(&ld->scratch, table, sizeof(float));
}

/* The numbers in the matrices and tables that the config announces. */
static double announced(const struct swin *swin) {
    const struct swin_config *config = &swin->config;
    double count = 3.0 * config->patch_h * config->patch_w * config->dim;
    for (int s = 0; s < config->stages; s++) {
        const struct swin_stage *stage = &swin->stages[s];
        const struct swin_map stored = stored_map(config, s);
        const double C = stage->channels, F = stage->hidden, H = stage->heads;
        const double table = config->version == 1 ? (double)table_rows(&stored) * H : 0;
        if (s > 0) count += 2 * C * C;
        count += stage->depth * (4 * C * C + 2 * C * F + table);
        if (s == config->stages - 1) count += config->classes * C;
    }
    return count;
}

static enum status scratch_init(struct loader *ld, const char *file) {
    TRY(params_announced(&ld->params, announced(ld->swin)));
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
static const float *get_weight(struct loader *ld, int out, int in, const char *name) {
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
    if (going(ld)) ld->st = linear_load(ld->swin->backend, &spec, &linear);
    return linear;
}

/* NAME.weight (out, in), NAME.bias (out). */
static struct linear *load_linear(struct loader *ld, const char *name, int out, int in,
                                  bool has_bias, int rows) {
    const float *scales = get_weight(ld, out, in, name);
    if (has_bias) get(ld, ld->bias, SHAPE(out), name, ".bias");
    return pack(ld, name, out, in, has_bias, scales, rows);
}

static struct norm *load_norm(struct loader *ld, const char *name, int width) {
    struct norm *norm = NULL;
    struct norm_spec spec = {.width = width,
                             .eps = (float)ld->swin->config.norm_eps,
                             .weight = ld->weight,
                             .bias = ld->bias};
    get(ld, ld->weight, SHAPE(width), name, ".weight");
    get(ld, ld->bias, SHAPE(width), name, ".bias");
    if (going(ld)) ld->st = norm_load(ld->swin->backend, &spec, &norm);
    return norm;
}

static struct table *load_table(struct loader *ld, const float *values, size_t count) {
    struct table *table = NULL;
    if (going(ld)) ld->st = table_load(ld->swin->backend, values, count, &table);
    return table;
}

/* ---- the parts of a block -------------------------------------------------------------------- */

/*
 * The projection; and what it makes of a zero token, its bias, as key and value of padding slots.
 * Version 2 has no key bias.
 */
static void load_qkv(struct loader *ld, const struct swin_stage *stage, struct swin_block *block) {
    const int C = stage->channels;
    const bool has_bias = ld->swin->config.qkv_bias;
    float *k = ld->bias + C, *v = ld->bias + 2 * (size_t)C; /* (C), (C) */
    const float *scales = get_weight(ld, 3 * C, C, "attn.qkv");
    if (has_bias && ld->swin->config.version == 1) {
        get(ld, ld->bias, SHAPE(3 * C), "attn.qkv", ".bias");
    } else if (has_bias) {
        get(ld, ld->bias, SHAPE(C), "attn.q_bias", "");
        memset(k, 0, (size_t)C * sizeof *k);
        get(ld, v, SHAPE(C), "attn.v_bias", "");
    }
    block->qkv = pack(ld, "attn.qkv", 3 * C, C, has_bias, scales, stage->tokens);
    if (has_bias) block->padding = load_table(ld, k, 2 * (size_t)C);
}

/* Version 1: the stored table (N, H), for the window run, as (H, N). */
static void load_bias_table(struct loader *ld, int s, struct swin_block *block) {
    const struct swin_stage *stage = &ld->swin->stages[s];
    const struct swin_map *run = &stage->map, stored = stored_map(&ld->swin->config, s);
    const size_t N = table_rows(run), H = (size_t)stage->heads;
    get(ld, ld->weight, SHAPE((int)table_rows(&stored), stage->heads),
        "attn.relative_position_bias_table", "");
    if (!going(ld)) return;
    ld->st = relative_resample(ld->weight, stored.window_h, stored.window_w, ld->table,
                               run->window_h, run->window_w, stage->heads);
    for (size_t h = 0; h < H; h++)
        for (size_t n = 0; n < N; n++)
            ld->weight[h * N + n] = ld->table[n * H + h];
    block->bias = load_table(ld, ld->weight, H * N);
}

/* Version 2: the table (H, N) that the position-bias MLP gives for the window run. */
static void load_bias_mlp(struct loader *ld, int s, struct swin_block *block) {
    const struct swin_stage *stage = &ld->swin->stages[s];
    const struct swin_map *run = &stage->map;
    const int H = stage->heads;
    float *w1 = ld->weight, *w2 = w1 + 2 * SWIN_CPB_HIDDEN; /* (512, 2), (H, 512) */
    get(ld, w1, SHAPE(SWIN_CPB_HIDDEN, 2), "attn.cpb_mlp.0", ".weight");
    get(ld, ld->bias, SHAPE(SWIN_CPB_HIDDEN), "attn.cpb_mlp.0", ".bias");
    get(ld, w2, SHAPE(H, SWIN_CPB_HIDDEN), "attn.cpb_mlp.2", ".weight");
    if (!going(ld)) return;
    swin_position_bias(w1, ld->bias, w2, run->window_h, run->window_w,
                       ld->swin->config.pretrained_window[s], H, ld->table);
    block->bias = load_table(ld, ld->table, (size_t)H * table_rows(run));
}

/* Version 2: exp of the logit scale, which is clamped at ln 100. */
static void load_temperature(struct loader *ld, int heads, struct swin_block *block) {
    get(ld, ld->bias, SHAPE(heads, 1, 1), "attn.logit_scale", "");
    for (int h = 0; h < heads; h++)
        ld->bias[h] = ld->bias[h] > logf(100) ? 100 : expf(ld->bias[h]);
    block->temperature = load_table(ld, ld->bias, (size_t)heads);
}

static void load_block(struct loader *ld, int s, struct swin_block *block) {
    const struct swin_stage *stage = &ld->swin->stages[s];
    const int C = stage->channels, F = stage->hidden, T = stage->tokens;
    block->norm1 = load_norm(ld, "norm1", C);
    load_qkv(ld, stage, block);
    if (ld->swin->config.version == 1) {
        load_bias_table(ld, s, block);
    } else {
        load_bias_mlp(ld, s, block);
        load_temperature(ld, stage->heads, block);
    }
    block->proj = load_linear(ld, "attn.proj", C, C, true, T);
    block->norm2 = load_norm(ld, "norm2", C);
    block->fc1 = load_linear(ld, "mlp.fc1", F, C, true, T);
    block->fc2 = load_linear(ld, "mlp.fc2", C, F, true, T);
}

/* ---- the parts of the model ------------------------------------------------------------------ */

/*
 * The projection, flattened: the file's (C, 3, ph, pw) is (C, 3*ph*pw) already. Pixels are not
 * rounded once more: quantised or not, it goes without scales.
 */
static void load_patch(struct loader *ld) {
    struct swin *swin = ld->swin;
    const struct swin_config *config = &swin->config;
    const int C = config->dim, ph = config->patch_h, pw = config->patch_w;
    get(ld, ld->weight, SHAPE(C, 3, ph, pw), "patch_embed.proj", ".weight");
    get(ld, ld->bias, SHAPE(C), "patch_embed.proj", ".bias");
    swin->patch.proj =
        pack(ld, "patch_embed.proj", C, 3 * ph * pw, true, NULL, swin->stages[0].tokens);
    swin->patch_norm = load_norm(ld, "patch_embed.norm", C);
}

static void load_stage(struct loader *ld, int s) {
    struct swin_stage *stage = &ld->swin->stages[s];
    const int C = stage->channels;
    if (s > 0) {
        snprintf(ld->prefix, sizeof ld->prefix, "layers.%d.downsample.", s);
        stage->merge_norm = load_norm(ld, "norm", ld->swin->config.version == 1 ? 2 * C : C);
        stage->reduction = load_linear(ld, "reduction", C, 2 * C, false, stage->tokens);
    }
    for (int b = 0; b < stage->depth; b++) {
        snprintf(ld->prefix, sizeof ld->prefix, "layers.%d.blocks.%d.", s, b);
        load_block(ld, s, &stage->blocks[b]);
    }
    ld->prefix[0] = '\0';
}

/* In the order of the forward pass. */
static void load_parts(struct loader *ld) {
    struct swin *swin = ld->swin;
    const int K = swin->config.classes, C = swin->stages[swin->config.stages - 1].channels;
    load_patch(ld);
    for (int s = 0; s < swin->config.stages; s++)
        load_stage(ld, s);
    swin->norm = load_norm(ld, "norm", C);
    if (K > 0) swin->head = load_linear(ld, "head.fc", K, C, true, 1);
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* What the bias tables of all blocks hold, and what it takes to make them. */
static enum status check_tables(const struct swin *swin, const char *file) {
    double entries = 0, work = 0;
    for (int s = 0; s < swin->config.stages; s++) {
        const struct swin_stage *stage = &swin->stages[s];
        const double rows = (double)table_rows(&stage->map) * stage->depth, H = stage->heads;
        entries += rows * H;
        work += swin->config.version == 2 ? rows * SWIN_CPB_HIDDEN * (2 + H) : rows * H;
    }
    if (entries <= MOST_ENTRIES && work <= MOST_MULTIPLY_ADDS) return ST_OK;
    return fail(ST_FORMAT,
                "%s: the windows' bias tables would have %.3g entries, made by %.3g multiply-adds; "
                "at most %.3g and %.3g are made",
                file, entries, work, MOST_ENTRIES, MOST_MULTIPLY_ADDS);
}

static void set_stage(struct swin *swin, int s) {
    const struct swin_config *config = &swin->config;
    struct swin_stage *stage = &swin->stages[s];
    swin_config_map(config, s, swin->image_h, swin->image_w, &stage->map);
    stage->tokens = stage->map.h * stage->map.w;
    stage->channels = config->dim << s;
    stage->heads = config->heads[s];
    stage->hidden = config->hidden[s];
    stage->depth = config->depths[s];
    swin->depth += stage->depth;
}

/* The sizes of this run. */
static enum status set_sizes(struct swin *swin, const struct swin_options *options,
                             const char *file) {
    const struct swin_config *config = &swin->config;
    const int ph = config->patch_h, pw = config->patch_w;
    const int h = options->image_h > 0 ? options->image_h : config->image_h;
    const int w = options->image_w > 0 ? options->image_w : config->image_w;
    if (options->max_batch < 1)
        return fail(ST_USAGE, "%s: a batch of %d images, want at least 1", file,
                    options->max_batch);
    if (h % ph || w % pw || h < ph || w < pw)
        return fail(ST_USAGE, "%s: image size %dx%d is not a multiple of the patch size %dx%d",
                    file, h, w, ph, pw);
    if (h / ph > INT_MAX / 4 / (w / pw)) // slots of whole windows: an int, at most 4T
        return fail(ST_USAGE, "%s: image size %dx%d gives too many patches of %dx%d", file, h, w,
                    ph, pw);
    TRY(swin_config_check_size(config, h, w, file));
    swin->image_h = h;
    swin->image_w = w;
    swin->patch = (struct patch_spec){.image_h = h, .image_w = w, .patch_h = ph, .patch_w = pw};
    memcpy(swin->patch.mean, options->mean, sizeof swin->patch.mean);
    memcpy(swin->patch.std, options->std, sizeof swin->patch.std);
    for (int s = 0; s < config->stages; s++)
        set_stage(swin, s);
    return check_tables(swin, file);
}

static enum status make_blocks(struct swin *swin) {
    struct swin_block *next;
    swin->blocks = next = mem_zalloc((size_t)swin->depth, sizeof *swin->blocks);
    if (!swin->blocks) return ST_NOMEM;
    for (int s = 0; s < swin->config.stages; s++) {
        swin->stages[s].blocks = next;
        next += swin->stages[s].depth;
    }
    return ST_OK;
}

/* Every tensor of the file, once. A fault of the file is said before a refusal of the device. */
static enum status load_parameters(struct swin *swin, struct h5 *file, bool backward) {
    struct loader ld = {.swin = swin, .backward = backward};
    char sentence[1024];
    enum status st, closed;
    bool asked;
    TRY(params_open(&ld.params, file));
    st = scratch_init(&ld, h5_name(file));
    asked = st == ST_OK;
    if (asked) {
        load_parts(&ld);
        st = ld.st;
        swin->parameters = ld.params.elements;
    }
    snprintf(sentence, sizeof sentence, "%s", fail_message());
    closed = params_close(&ld.params);
    arena_release(&ld.scratch);
    if (asked && closed != ST_OK) return closed;
    return st == ST_OK ? ST_OK : fail(st, "%s", sentence);
}

enum status swin_load(struct swin *swin, struct h5 *file, const struct swin_options *options,
                      struct backend *backend) {
    enum status st;
    *swin = (struct swin){.backend = backend};
    TRY_OUT(swin_config_read(file, &swin->config));
    TRY_OUT(set_sizes(swin, options, h5_name(file)));
    TRY_OUT(make_blocks(swin));
    TRY_OUT(load_parameters(swin, file, options->backward));
    TRY_OUT(swin_plan(swin, options->max_batch));
out:
    if (st != ST_OK) swin_release(swin);
    return st;
}

void swin_release(struct swin *swin) {
    if (swin->backend) {
        backend_release_arena(swin->backend, &swin->workspace);
        capture_release(swin->backend, &swin->room);
    }
    mem_free(swin->blocks);
    *swin = (struct swin){0};
}
