/*
 * convert_config: what the tensors of a ViT do not say. In this order: --arch; timm's config.json
 * beside the weights (architecture, global_pool, model_args, pretrained_cfg); transformers'
 * config.json; the one row of the architecture table that has the tensors' shapes. Where several
 * rows have them and differ in anything that changes a number, the user is asked for --arch.
 * Where none has them, heads are D/64 (16 for D = 1280, 1408, 1664: ViT-H, g, G), eps 1e-6 (1e-5
 * with norm_pre) and GELU, and the preprocessing must be given.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG "config.json"

/* ---- JSON ---- */

enum status json_double(const cJSON *object, const char *file, const char *key, double lo,
                        double hi, double *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item || cJSON_IsNull(item)) return ST_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= lo && item->valuedouble <= hi))
        return fail(ST_FORMAT, "%s: %s is no number from %g to %g", file, key, lo, hi);
    *out = item->valuedouble;
    return ST_OK;
}

enum status json_int(const cJSON *object, const char *file, const char *key, int lo, int hi,
                     int *out) {
    double value = NAN;
    TRY(json_double(object, file, key, lo, hi, &value));
    if (isnan(value)) return ST_OK;
    if (value != floor(value))
        return fail(ST_FORMAT, "%s: %s is %g, want a whole number", file, key, value);
    *out = (int)value;
    return ST_OK;
}

enum status json_word(const cJSON *object, const char *file, const char *key, const char **out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item || cJSON_IsNull(item)) return ST_OK;
    if (!cJSON_IsString(item)) return fail(ST_FORMAT, "%s: %s is no word", file, key);
    *out = item->valuestring;
    return ST_OK;
}

/* No more than 16 levels: cJSON recurses, and a config has 4. */
static enum status parse_text(const char *text, const char *file, cJSON **out) {
    int depth = 0;
    bool quoted = false;
    for (const char *p = text; *p; p++) {
        if (quoted && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            quoted = !quoted;
        else if (!quoted && (*p == '{' || *p == '[') && ++depth > 16)
            return fail(ST_FORMAT, "%s: nests deeper than 16 levels", file);
        else if (!quoted && (*p == '}' || *p == ']'))
            depth--;
    }
    *out = cJSON_Parse(text);
    if (cJSON_IsObject(*out)) return ST_OK;
    return fail(ST_FORMAT, "%s: is not a JSON object", file);
}

static enum status parse_files(struct plan *plan) {
    const struct checkpoint *c = plan->checkpoint;
    if (c->config_json) TRY(parse_text(c->config_json, CONFIG, &plan->config));
    if (c->preprocessor_json)
        TRY(parse_text(c->preprocessor_json, "preprocessor_config.json", &plan->processor));
    bool timm = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(plan->config, "architecture"));
    bool hub = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(plan->config, "model_type"));
    plan->timm_config = timm && plan->origin == &names_timm;
    plan->transformers_config = hub && plan->origin == &names_transformers;
    return ST_OK;
}

/* ---- which architecture ---- */

static unsigned flags_of(const struct vit_config *c) {
    return (c->class_token ? ARCH_CLASS : 0u) | (c->dist_token ? ARCH_DIST : 0u) |
           (c->pre_norm ? ARCH_PRE_NORM : 0u) | (c->qkv_bias ? 0u : ARCH_NO_QKV_BIAS) |
           (c->layer_scale ? ARCH_LAYER_SCALE : 0u) | (c->qk_norm == QK_LAYER ? ARCH_QK_NORM : 0u) |
           (c->swiglu ? ARCH_SWIGLU : 0u);
}

/*
 * What of the row is not what the tensors say, into text; false when nothing. Pool and image size
 * may differ.
 */
static bool row_differs(const struct architecture *a, const struct vit_config *c, char *text,
                        size_t size) {
    const unsigned ignored = ARCH_POS_PREFIX | ARCH_FC_NORM;
    const struct {
        const char *what;
        int row, tensors;
    } sizes[] = {{"embed_dim", a->dim, c->dim},
                 {"depth", a->depth, c->depth},
                 {"mlp hidden", a->hidden, c->hidden},
                 {"patch size", a->patch, c->patch_h},
                 {"register tokens", a->registers, c->registers}};
    static const struct {
        unsigned flag;
        const char *what;
    } words[] = {{ARCH_CLASS, "a class token"},     {ARCH_DIST, "a distillation token"},
                 {ARCH_PRE_NORM, "norm_pre"},       {ARCH_NO_QKV_BIAS, "no qkv bias"},
                 {ARCH_LAYER_SCALE, "layer scale"}, {ARCH_QK_NORM, "q and k norms"},
                 {ARCH_SWIGLU, "a SwiGLU MLP"}};
    const unsigned has = flags_of(c), wants = a->flags & ~ignored;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (sizes[i].row == sizes[i].tensors) continue;
        snprintf(text, size, "%s %d, the tensors %d", sizes[i].what, sizes[i].row,
                 sizes[i].tensors);
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if ((has & words[i].flag) == (wants & words[i].flag)) continue;
        snprintf(text, size, "%s%s, the tensors %s", wants & words[i].flag ? "" : "not ",
                 words[i].what, wants & words[i].flag ? "do not" : "do");
        return true;
    }
    return c->patch_h != c->patch_w &&
           snprintf(text, size, "square patches, the tensors do not") > 0;
}

/*
 * Whether positions and final norm also are the row's: then nothing of the shapes speaks against
 * it.
 */
static bool row_matches(const struct plan *plan, const struct architecture *a) {
    const struct vit_config *c = &plan->out->config;
    const struct conversion_tensor *pos = plan_find(plan, "pos_embed");
    const int grid = a->image / a->patch, prefix = vit_config_prefix(c);
    const size_t want = (size_t)(grid * grid + (a->flags & ARCH_POS_PREFIX ? prefix : 0));
    char text[128];
    if (row_differs(a, c, text, sizeof text) || !pos) return false;
    /*
     * DINOv2 of transformers and of its own code keeps a class row where timm, with registers,
     * has none.
     */
    const size_t kept =
        want + (c->registers > 0 && c->class_token && !(a->flags & ARCH_POS_PREFIX));
    if (pos->dims[1] != want && pos->dims[1] != kept) return false;
    return (a->pool == POOL_MAP) == (c->pool == POOL_MAP) &&
           !(a->flags & ARCH_FC_NORM) == !c->fc_norm;
}

/* Whether two rows lead to the same numbers. */
static bool rows_equal(const struct architecture *a, const struct architecture *b) {
    struct preprocess_spec x = {0}, y = {0};
    const char *tag;
    if (a->heads != b->heads || a->activation != b->activation || a->pool != b->pool ||
        a->norm_eps != b->norm_eps)
        return false;
    if (!architecture_preprocess(a->name, &x, &tag) || !architecture_preprocess(b->name, &y, &tag))
        return false;
    for (int i = 0; i < 3; i++) {
        if (x.mean[i] != y.mean[i] || x.std[i] != y.std[i]) return false;
    }
    return x.height == y.height && x.crop_pct == y.crop_pct &&
           strcmp(x.crop_mode, y.crop_mode) == 0 && strcmp(x.interpolation, y.interpolation) == 0;
}

/* The one row of these shapes. Several that differ: ST_USAGE with their names, unless `quiet`. */
static enum status match_shapes(struct plan *plan, bool quiet) {
    const struct architecture *first = NULL, *a;
    bool differ = false;
    char names[600] = "";
    size_t length = 0;
    for (size_t i = 0; (a = architecture_at(i)); i++) {
        if (!row_matches(plan, a)) continue;
        if (first && !rows_equal(first, a)) differ = true;
        if (!first) first = a;
        if (length + strlen(a->name) + 8 < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                       length ? ", " : "", a->name);
    }
    if (!differ) {
        plan->arch = first;
        return ST_OK;
    }
    if (quiet) return ST_OK;
    return fail(ST_USAGE,
                "%s: its shapes are those of several architectures that differ in what tensors do "
                "not say: give one "
                "with --arch: %s",
                plan->checkpoint->weights_path, names);
}

/* --arch or config.json's architecture, looked up and held against the tensors. */
static enum status named_row(struct plan *plan, const char *name, const char *from) {
    char text[128];
    struct preprocess_spec spec;
    const char *tag;
    plan->arch = architecture_find(name);
    if (!plan->arch)
        return fail(ST_USAGE,
                    "%s: %s says '%.80s', which is no architecture known here; see --list-names",
                    plan->checkpoint->weights_path, from, name);
    if (!architecture_preprocess(name, &spec, &tag))
        return fail(ST_USAGE, "%s: %s says '%.80s': timm has %s, but no weights of that tag",
                    plan->checkpoint->weights_path, from, name, plan->arch->name);
    if (row_differs(plan->arch, &plan->out->config, text, sizeof text))
        return fail(ST_SHAPE, "%s: %s says %s, which has %s", plan->checkpoint->weights_path, from,
                    plan->arch->name, text);
    plan->arch_name = name;
    return plan_note(plan, "architecture_from", from);
}

static enum status choose_architecture(struct plan *plan) {
    const char *name = NULL, *arch = plan->options->arch;
    if (plan->timm_config) TRY(json_word(plan->config, CONFIG, "architecture", &name));
    if (arch) {
        const size_t length = strcspn(arch, ".");
        TRY(named_row(plan, arch, "--arch"));
        if (name && (strncmp(name, arch, length) != 0 || name[length])) plan->timm_config = false;
        return ST_OK;
    }
    if (name) return named_row(plan, name, CONFIG);
    TRY(match_shapes(plan, plan->transformers_config));
    if (plan->transformers_config) return plan_note(plan, "architecture_from", CONFIG);
    return plan_note(plan, "architecture_from",
                     plan->arch ? "the tensors' shapes" : "the D/64 rule for heads");
}

/* ---- heads, eps, activation, pool ---- */

/* model_args that change nothing, or nothing that shapes do not already say. */
static bool harmless_argument(const char *key) {
    static const char *const known[] = {
        "img_size",        "patch_size",       "in_chans",        "embed_dim",      "depth",
        "num_heads",       "mlp_ratio",        "qkv_bias",        "qk_norm",        "init_values",
        "class_token",     "reg_tokens",       "pre_norm",        "no_embed_class", "fc_norm",
        "num_classes",     "global_pool",      "act_layer",       "drop_rate",      "pos_drop_rate",
        "patch_drop_rate", "proj_drop_rate",   "attn_drop_rate",  "drop_path_rate", "weight_init",
        "fix_init",        "dynamic_img_size", "dynamic_img_pad", "strict_img_size"};
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(known[i], key) == 0) return true;
    }
    return false;
}

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

static enum status activation_word(const char *word, const char *from, enum vit_activation *out) {
    static const struct {
        const char *word;
        enum vit_activation activation;
    } words[] = {{"gelu", ACT_GELU},
                 {"gelu_tanh", ACT_GELU_TANH},
                 {"gelu_new", ACT_GELU_TANH},
                 {"gelu_pytorch_tanh", ACT_GELU_TANH},
                 {"quick_gelu", ACT_QUICK_GELU},
                 {"quickgelu", ACT_QUICK_GELU}};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(words[i].word, word) != 0) continue;
        *out = words[i].activation;
        return ST_OK;
    }
    return fail(ST_USAGE, "%s says activation '%.40s'; vitrine runs gelu, gelu_tanh and quick_gelu",
                from, word);
}

static enum status timm_settings(struct plan *plan, struct vit_config *c, const char **pool,
                                 const char **act) {
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    const cJSON *pretrained = cJSON_GetObjectItemCaseSensitive(plan->config, "pretrained_cfg");
    const char *license = NULL;
    TRY(json_word(plan->config, CONFIG, "global_pool", pool));
    TRY(json_word(args, CONFIG, "global_pool", pool));
    TRY(json_word(args, CONFIG, "act_layer", act));
    TRY(json_int(args, CONFIG, "num_heads", 1, 65536, &c->heads));
    for (const cJSON *arg = args ? args->child : NULL; arg; arg = arg->next) {
        if (!arg->string || !harmless_argument(arg->string))
            return fail(ST_FORMAT, CONFIG ": model_args has %.60s, which vitrine does not know",
                        arg->string ? arg->string : "a value without name");
    }
    TRY(json_word(pretrained, CONFIG, "license", &license));
    if (license && !(plan->out->info.license = str_copy(license))) return ST_NOMEM;
    return ST_OK;
}

static enum status transformers_settings(struct plan *plan, struct vit_config *c,
                                         const char **act) {
    static const struct {
        const char *type, *title;
    } types[] = {{"dinov2", "transformers Dinov2Model"},
                 {"dinov2_with_registers", "transformers Dinov2WithRegistersModel"},
                 {"vit", "transformers ViT"},
                 {"deit", "transformers DeiT"}};
    const char *type = NULL;
    size_t i = 0;
    TRY(json_word(plan->config, CONFIG, "model_type", &type));
    while (i < COUNT_OF(types) && type && strcmp(types[i].type, type) != 0)
        i++;
    if (!type || i == COUNT_OF(types))
        return fail(ST_FORMAT,
                    CONFIG ": model_type is '%.40s'; vitrine converts vit, deit, dinov2 and "
                           "dinov2_with_registers",
                    type ? type : "missing");
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

/* Queries' norms know the head's width; nothing else in the tensors does. */
static enum status settle_heads(struct plan *plan, struct vit_config *c) {
    const struct conversion_tensor *norm = plan_find(plan, "blocks.0.attn.q_norm.weight");
    const size_t width = norm ? norm->dims[0] : 0;
    if (!c->heads && width) c->heads = (int)((size_t)c->dim / width);
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
    struct vit_config *c = &plan->out->config;
    const char *pool = NULL, *act = NULL, *act_from = CONFIG;
    const bool map = c->pool == POOL_MAP;
    if (plan->transformers_config && !plan->options->arch)
        TRY(transformers_settings(plan, c, &act));
    if (plan->timm_config) TRY(timm_settings(plan, c, &pool, &act));
    if (c->norm_eps == 0)
        c->norm_eps = plan->arch ? plan->arch->norm_eps : c->pre_norm ? 1e-5 : 1e-6;
    c->activation = plan->arch ? plan->arch->activation : ACT_GELU;
    if (plan->options->activation) {
        act = plan->options->activation;
        act_from = "--activation";
    }
    if (act) TRY(activation_word(act, act_from, &c->activation));
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

/* Sizes to try: what the user says, then the config files, then the row. */
static enum status candidate_size(struct plan *plan, int which, int *height, int *width) {
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    const cJSON *size = NULL;
    if (which == 0) return plan_input_size(plan, height, width);
    if (which == 1) size = cJSON_GetObjectItemCaseSensitive(args, "img_size");
    if (which == 2) size = cJSON_GetObjectItemCaseSensitive(plan->config, "image_size");
    if (which == 3)
        size = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(plan->config, "pretrained_cfg"), "input_size");
    if (which == 4 && plan->arch) *height = *width = plan->arch->image;
    if (cJSON_IsNumber(size) && size->valuedouble > 0 && size->valuedouble < 65536)
        *height = *width = (int)size->valuedouble;
    if (!cJSON_IsArray(size) || cJSON_GetArraySize(size) < 2) return ST_OK;
    const cJSON *h = cJSON_GetArrayItem(size, cJSON_GetArraySize(size) - 2), *w = h->next;
    if (cJSON_IsNumber(h) && cJSON_IsNumber(w) && h->valuedouble > 0 && h->valuedouble < 65536 &&
        w->valuedouble > 0 && w->valuedouble < 65536) {
        *height = (int)h->valuedouble;
        *width = (int)w->valuedouble;
    }
    return ST_OK;
}

/* rows of pos_embed that are the grid -> grid, by a size that some source names. */
static enum status grid_by_size(struct plan *plan, size_t patches, bool *found) {
    struct vit_config *c = &plan->out->config;
    for (int which = 0; which < 5 && !*found; which++) {
        int height = 0, width = 0;
        TRY(candidate_size(plan, which, &height, &width));
        size_t h = (size_t)(height / c->patch_h), w = (size_t)(width / c->patch_w);
        if (h == 0 || w == 0 || h * w != patches) continue;
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
    struct vit_config *c = &plan->out->config;
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
            if (!by_square) TRY(grid_by_size(plan, rows - before, &found));
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

static enum status settle_image(struct plan *plan) {
    struct vit_config *c = &plan->out->config;
    int height = 0, width = 0;
    if (c->positions) {
        height = c->pos_grid_h * c->patch_h;
        width = c->pos_grid_w * c->patch_w;
    } else {
        for (int which = 0; which < 5 && height == 0; which++)
            TRY(candidate_size(plan, which, &height, &width));
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
 * Within an origin: DINOv2's own files (they keep mask_token) resample with its offset when they
 * have no registers; with registers both its code and transformers resample with antialias, as
 * timm does.
 */
static void settle_resample(struct plan *plan) {
    struct vit_config *c = &plan->out->config;
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

enum status plan_settle_config(struct plan *plan) {
    const struct vit_config *c = &plan->out->config;
    TRY(parse_files(plan));
    TRY(choose_architecture(plan));
    TRY(settle_network(plan));
    TRY(settle_positions(plan));
    TRY(settle_image(plan));
    settle_resample(plan);
    plan->out->info.architecture = plan->arch
                                       ? str_copy(plan->arch->name)
                                       : str_format("ViT, patch %d, width %d, depth %d, %d heads",
                                                    c->patch_h, c->dim, c->depth, c->heads);
    return plan->out->info.architecture ? ST_OK : ST_NOMEM;
}
