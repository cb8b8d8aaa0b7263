/*
 * convert_vit_config: what the tensors of a ViT do not say, from the architecture's row and the
 * config files. Where no row applies, heads are D/64 (16 for D = 1280, 1408, 1664: ViT-H, g, G),
 * eps 1e-6 (1e-5 with norm_pre) and GELU, and the preprocessing must be given.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG CONVERT_CONFIG_FILE

/* ---- heads, eps, activation, pool ---- */

static enum status pool_word(const char *word, const char *file, enum vit_pool *out) {
    static const char *const words[] = {"token", "avg", "map", ""};
    static const enum vit_pool pools[] = {POOL_TOKEN, POOL_AVG, POOL_MAP, POOL_NONE};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(words[i], word) != 0) continue;
        *out = pools[i];
        return ST_OK;
    }
    return fail(ST_FORMAT, "%s: global_pool is '%.40s'; vitrine runs token, avg and map", file,
                word);
}

static enum status timm_settings(struct plan *plan, struct vit_config *c, const char **pool,
                                 const char **act) {
    /* model_args that change nothing, or nothing that shapes do not already say. */
    static const char *const known[] = {
        "img_size",        "patch_size",      "in_chans",         "embed_dim",
        "depth",           "num_heads",       "mlp_ratio",        "qkv_bias",
        "qk_norm",         "init_values",     "class_token",      "reg_tokens",
        "pre_norm",        "no_embed_class",  "fc_norm",          "num_classes",
        "global_pool",     "act_layer",       "drop_rate",        "pos_drop_rate",
        "patch_drop_rate", "proj_drop_rate",  "attn_drop_rate",   "drop_path_rate",
        "weight_init",     "fix_init",        "dynamic_img_size", "dynamic_img_pad",
        "strict_img_size", "use_abs_pos_emb", "use_rel_pos_bias", "head_init_scale",
        "use_fc_norm",     "rel_pos_type",    "shared_rel_pos",   "use_shared_rel_pos_bias"};
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    TRY(json_int(args, CONFIG, "num_heads", 1, 65536, &c->heads));
    return plan_timm_settings(plan, known, COUNT_OF(known), pool, act);
}

/* BEiT's key has no bias; another model's file without one has lost it. */
static enum status check_key_bias(const struct plan *plan, const char *type) {
    const struct conversion_tensor *bias = plan_find(plan, "blocks.0.attn.qkv.bias");
    if (strcmp(type, "beit") == 0 || strcmp(type, "data2vec-vision") == 0) return ST_OK;
    if (!bias || !bias->no_key) return ST_OK;
    return fail(ST_SHAPE, "%s: the biases of the keys are missing, but not those of queries (%s)",
                plan->checkpoint->weights_path, bias->part[0]->name);
}

static enum status transformers_settings(struct plan *plan, struct vit_config *c,
                                         const char **act) {
    static const struct {
        const char *type, *title;
    } types[] = {{"dinov2", "transformers Dinov2Model"},
                 {"dinov2_with_registers", "transformers Dinov2WithRegistersModel"},
                 {"vit", "transformers ViT"},
                 {"vit_mae", "transformers ViTMAE"},
                 {"vit_msn", "transformers ViTMSN"},
                 {"deit", "transformers DeiT"},
                 {"beit", "transformers BEiT"},
                 {"data2vec-vision", "transformers Data2VecVision"}};
    const char *type = NULL;
    size_t i = 0;
    TRY(json_word(plan->config, CONFIG, "model_type", &type));
    while (i < COUNT_OF(types) && type && strcmp(types[i].type, type) != 0)
        i++;
    if (!type || i == COUNT_OF(types))
        return fail(ST_FORMAT,
                    CONFIG ": model_type is '%.40s'; vitrine converts vit, deit, vit_mae, vit_msn, "
                           "dinov2, dinov2_with_registers, beit, data2vec-vision, swin and swinv2",
                    type ? type : "missing");
    TRY(check_key_bias(plan, type));
    plan->out->origin = types[i].title;
    TRY(json_int(plan->config, CONFIG, "num_attention_heads", 1, 65536, &c->heads));
    TRY(json_double(plan->config, CONFIG, "layer_norm_eps", 1e-15, 1, &c->norm_eps));
    TRY(json_word(plan->config, CONFIG, "hidden_act", act));
    if (c->heads == 0 || c->norm_eps == 0)
        return fail(ST_FORMAT, CONFIG ": has no num_attention_heads or no layer_norm_eps");
    if (c->dist_token && c->classes && !plan_find(plan, "head_dist.weight"))
        return fail(
            ST_FORMAT,
            "%s: its head reads the class token alone though there is a distillation token, "
            "which vitrine does not run",
            plan->checkpoint->weights_path);
    return ST_OK;
}

static int heads_by_width(int dim) {
    return dim == 1280 || dim == 1408 || dim == 1664 ? 16 : dim % 64 == 0 ? dim / 64 : 0;
}

static size_t kernel_width(const struct conversion_tensor *qkv) {
    const struct tensor *part = qkv->part[0];
    return qkv->layout[0] == LAYOUT_HEADS_IN && part->rank == 3 ? part->dims[2] : 0;
}

/* Channels of a head: queries' norms know, and kernels that keep the heads apart; else 0. */
static size_t head_width(const struct plan *plan) {
    const struct conversion_tensor *norm = plan_find(plan, "blocks.0.attn.q_norm.weight");
    const struct conversion_tensor *qkv = plan_find(plan, "blocks.0.attn.qkv.weight");
    if (norm) return norm->dims[0];
    return qkv ? kernel_width(qkv) : 0;
}

/* Kernels that keep the heads apart agree with each other, and with the norms. */
static enum status check_width(const struct plan *plan, size_t width) {
    for (size_t i = 0; i < plan->out->output_count; i++) {
        const struct conversion_tensor *t = &plan->out->outputs[i];
        for (int p = 0; p < t->parts; p++) {
            if (t->layout[p] != LAYOUT_HEADS_IN || t->part[p]->rank != 3 ||
                strncmp(t->name, "blocks.", 7) != 0 || t->part[p]->dims[2] == width)
                continue;
            return fail(ST_SHAPE, "%s: %s has heads of %zu channels, others of %zu",
                        plan->checkpoint->weights_path, t->part[p]->name, t->part[p]->dims[2],
                        width);
        }
    }
    return ST_OK;
}

const char *convert_vit_without_row(const struct plan *plan) {
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    const bool told = plan->timm_config && cJSON_GetObjectItemCaseSensitive(args, "num_heads");
    if (head_width(plan) || convert_vit_bias(plan)) return "the tensors' shapes";
    return told ? CONFIG : "the D/64 rule for heads";
}

static enum status settle_heads(struct plan *plan, struct vit_config *c) {
    const size_t width = head_width(plan);
    const int told = plan_axis(convert_vit_bias(plan), 1);
    TRY(check_width(plan, width));
    if (!c->heads && width) c->heads = (int)((size_t)c->dim / width);
    if (!c->heads) c->heads = told;
    if (told && c->heads != told)
        return fail(ST_SHAPE, "%s: %d heads, but its bias tables are for %d",
                    plan->checkpoint->weights_path, c->heads, told);
    if (!c->heads) c->heads = plan->arch ? plan->arch->heads : heads_by_width(c->dim);
    if (width && (size_t)c->heads * width != (size_t)c->dim)
        return fail(ST_SHAPE, "%s: %d heads of %zu are not %d channels",
                    plan->checkpoint->weights_path, c->heads, width, c->dim);
    if (c->heads && c->dim % c->heads == 0) return ST_OK;
    if (c->heads)
        return fail(ST_SHAPE, "%s: %d heads do not share %d channels evenly",
                    plan->checkpoint->weights_path, c->heads, c->dim);
    return fail(ST_USAGE,
                "%s: how many heads share its %d channels is in no tensor, and no known "
                "architecture has these shapes (depth %d, hidden %d, patch %d): give --arch, or a "
                "config.json of timm with model_args num_heads",
                plan->checkpoint->weights_path, c->dim, c->depth, c->hidden, c->patch_h);
}

static enum status settle_network(struct plan *plan) {
    struct vit_config *c = &plan->out->vit;
    const char *pool = NULL, *act = NULL;
    const bool map = c->pool == POOL_MAP;
    if (plan->transformers_config && !plan->options->arch)
        TRY(transformers_settings(plan, c, &act));
    if (plan->timm_config) TRY(timm_settings(plan, c, &pool, &act));
    if (plan->origin == &names_keras_hub && !c->class_token)
        return fail(ST_FORMAT, "%s: a keras_hub ViT without a class token, which is not converted",
                    plan->checkpoint->weights_path);
    if (plan->checkpoint->norm_eps > 0) c->norm_eps = plan->checkpoint->norm_eps;
    if (c->norm_eps == 0)
        c->norm_eps = plan->arch ? plan->arch->norm_eps : c->pre_norm ? 1e-5 : 1e-6;
    c->activation = plan->arch ? plan->arch->activation : ACT_GELU;
    if (!act) act = plan->checkpoint->activation;
    if (!act) act = plan->origin->activation;
    TRY(plan_activation(plan, act, &c->activation));
    if (c->swiglu) c->activation = ACT_GELU; /* unused; one spelling */
    c->pool = plan->arch ? plan->arch->pool : c->class_token ? POOL_TOKEN : POOL_AVG;
    if (plan->transformers_config) c->pool = POOL_TOKEN;
    if (c->fc_norm) c->pool = POOL_AVG; /* fc_norm exists where the pool comes first */
    if (pool) TRY(pool_word(pool, CONFIG, &c->pool));
    if (map || c->pool == POOL_MAP) {
        if (!map || (pool && c->pool != POOL_MAP))
            return fail(ST_SHAPE, "%s: attention pooling is %s, but attn_pool.latent is %s",
                        plan->checkpoint->weights_path, map ? "not wanted" : "wanted",
                        map ? "there" : "missing");
        c->pool = POOL_MAP;
    }
    return settle_heads(plan, c);
}

/* ---- positions ---- */

static int square_root(size_t n) {
    int root = (int)lround(sqrt((double)n));
    return root > 0 && (size_t)root * (size_t)root == n ? root : 0;
}

static size_t rows_of_patches(size_t h, size_t w) {
    return h * w;
}

static size_t rows_of_offsets(size_t h, size_t w) {
    return (2 * h - 1) * (2 * w - 1);
}

/* `rows` that are a grid, as rows_of says -> grid, by a size that some source names. */
static enum status grid_by_size(struct plan *plan, size_t rows,
                                size_t (*rows_of)(size_t h, size_t w), bool *found) {
    struct vit_config *c = &plan->out->vit;
    for (int which = 0; which < CONVERT_SIZES && !*found; which++) {
        int height = 0, width = 0;
        TRY(plan_candidate_size(plan, which, &height, &width));
        size_t h = (size_t)(height / c->patch_h), w = (size_t)(width / c->patch_w);
        if (h == 0 || w == 0 || rows_of(h, w) != rows) continue;
        c->pos_grid_h = (int)h;
        c->pos_grid_w = (int)w;
        *found = true;
    }
    return ST_OK;
}

/*
 * The class row of pos_embed goes into the class token, the registers have none: DINOv2 with
 * registers.
 */
static enum status fold_class_row(struct plan *plan, struct conversion_tensor *pos) {
    struct conversion_tensor *token = plan_find(plan, "cls_token");
    char is[96], was[96];
    struct convert_row *row = &plan->out->rows[pos->row];
    shape_text(pos->dims, pos->rank, was, sizeof was);
    token->add = pos->part[0];
    pos->skip = pos->dims[2];
    pos->dims[1]--;
    plan->out->parameters -= pos->dims[2];
    shape_text(pos->dims, pos->rank, is, sizeof is);
    mem_free(row->reason);
    row->action = "merged";
    row->reason = str_format("its class row is added to cls_token: %s to %s", was, is);
    return row->reason ? ST_OK : ST_NOMEM;
}

/*
 * How many rows of pos_embed stand before the grid, and the grid: by the picture sizes that
 * somebody names (25 rows may be 5x5 patches, or a class token and 6x4), then by squares.
 */
static enum status settle_positions(struct plan *plan) {
    struct vit_config *c = &plan->out->vit;
    struct conversion_tensor *pos = plan_find(plan, "pos_embed");
    const size_t prefix = (size_t)vit_config_prefix(c), rows = pos ? pos->dims[1] : 0;
    const bool may_fold = c->registers > 0 && c->class_token;
    const bool row_says_none = plan->arch && !(plan->arch->flags & ARCH_POS_PREFIX);
    const size_t order[3] = {row_says_none ? 0 : prefix, row_says_none ? prefix : 0, 1};
    bool found = false;
    size_t before = 0;
    if (!pos) return ST_OK;
    for (int by_square = 0; by_square < 2 && !found; by_square++) {
        for (int i = 0; i < (may_fold ? 3 : 2) && !found; i++) {
            before = order[i];
            if (rows <= before) continue;
            int side = square_root(rows - before);
            c->pos_grid_h = c->pos_grid_w = side;
            found = by_square && side > 0;
            if (!by_square) TRY(grid_by_size(plan, rows - before, rows_of_patches, &found));
        }
    }
    if (!found)
        return fail(
            ST_USAGE,
            "%s: %s has %zu rows, which are no square with or without the %zu prefix tokens: give "
            "the picture size with --preprocess input_size=HxW",
            plan->checkpoint->weights_path, pos->part[0]->name, rows, prefix);
    if (before == 1 && prefix != 1) {
        TRY(fold_class_row(plan, pos));
        before = 0;
    }
    c->pos_prefix = (int)before;
    return ST_OK;
}

/* The map of the bias tables, without the rows of prefix tokens: by a size named, then square. */
static enum status settle_bias(struct plan *plan) {
    struct vit_config *c = &plan->out->vit;
    const struct conversion_tensor *table = convert_vit_bias(plan);
    const size_t rows = table->dims[0], extra = vit_config_prefix(c) > 0 ? 3 : 0;
    const size_t offsets = rows > extra ? rows - extra : 0;
    const int side = square_root(offsets);
    bool found = false;
    TRY(grid_by_size(plan, offsets, rows_of_offsets, &found));
    if (!found && offsets % 2 == 0)
        return fail(ST_SHAPE,
                    "%s: %s has %zu rows, which are no square of offsets behind %zu for prefix "
                    "tokens, nor those of any map: they are always odd",
                    plan->checkpoint->weights_path, table->part[0]->name, rows, extra);
    if (!found && side % 2 == 0)
        return fail(ST_USAGE,
                    "%s: %s has %zu rows, which are no square of offsets behind %zu for prefix "
                    "tokens: give the picture size with --preprocess input_size=HxW",
                    plan->checkpoint->weights_path, table->part[0]->name, rows, extra);
    if (!found) c->pos_grid_h = c->pos_grid_w = (side + 1) / 2;
    if (plan->origin->kind != ORIGIN_TRANSFORMERS || c->pos_grid_h == c->pos_grid_w) return ST_OK;
    return fail(ST_FORMAT,
                "%s: bias tables for %dx%d patches: transformers takes rows for columns where a "
                "map is not square, which vitrine does not do",
                plan->checkpoint->weights_path, c->pos_grid_h, c->pos_grid_w);
}

static enum status settle_image(struct plan *plan) {
    struct vit_config *c = &plan->out->vit;
    int height = 0, width = 0;
    if (c->positions) {
        height = c->pos_grid_h * c->patch_h;
        width = c->pos_grid_w * c->patch_w;
    } else {
        for (int which = 0; which < CONVERT_SIZES && height == 0; which++)
            TRY(plan_candidate_size(plan, which, &height, &width));
        if (height == 0)
            return fail(
                ST_USAGE,
                "%s: no position embedding, and no file says the picture size: give it with "
                "--preprocess input_size=HxW",
                plan->checkpoint->weights_path);
    }
    c->image_h = height;
    c->image_w = width;
    return ST_OK;
}

/*
 * Within an origin: bias tables are resampled geometrically by timm, bilinearly by transformers.
 * DINOv2's own files (they keep mask_token) resample with its offset when they have no registers;
 * with registers both its code and transformers resample with antialias, as timm does.
 */
static void settle_resample(struct plan *plan) {
    struct vit_config *c = &plan->out->vit;
    if (vit_config_relative(c)) {
        const bool bilinear = plan->origin->kind == ORIGIN_TRANSFORMERS;
        c->pos_resample = bilinear ? RESAMPLE_BILINEAR : RESAMPLE_GEOMETRIC;
        return;
    }
    if (c->registers > 0) {
        c->pos_resample = RESAMPLE_BICUBIC_ANTIALIAS;
        return;
    }
    if (plan->origin != &names_timm || !c->layer_scale) return;
    for (size_t i = 0; i < plan->out->row_count; i++) {
        const struct convert_row *row = &plan->out->rows[i];
        const char *mask = strstr(row->source, "mask_token");
        if (row->target || !mask || strcmp(mask, "mask_token") != 0) continue;
        c->pos_resample = RESAMPLE_BICUBIC_OFFSET;
        plan->out->origin = "DINOv2";
    }
}

enum status convert_vit_settle(struct plan *plan) {
    const struct vit_config *c = &plan->out->vit;
    TRY(settle_network(plan));
    TRY(vit_config_relative(c) ? settle_bias(plan) : settle_positions(plan));
    TRY(settle_image(plan));
    settle_resample(plan);
    TRY(convert_vit_claims(plan));
    plan->out->image_h = c->image_h;
    plan->out->image_w = c->image_w;
    plan->out->classes = c->classes;
    const char *name = plan->arch ? plan->arch->name : plan_torchvision(plan, NULL);
    plan->out->info.architecture = name ? str_copy(name)
                                        : str_format("ViT, patch %d, width %d, depth %d, %d heads",
                                                     c->patch_h, c->dim, c->depth, c->heads);
    return plan->out->info.architecture ? ST_OK : ST_NOMEM;
}
