/*
 * convert_swin_config: what the tensors of a Swin do not say.
 *
 * A bias table of version 1 has (2 Mh - 1)(2 Mw - 1) rows for the window Mh x Mw that its stage ran
 * with: M, or less where the map was smaller. So windows and the picture's size are found together:
 * of the sizes that somebody names (the user, the config files, the architecture's row) the first
 * whose tables are the ones stored. M is the config's or the row's; without either, the smallest
 * that makes the table. Version 2 stores nothing of that kind, but for the buffers of its own code:
 * relative_coords_table has the window in its shape and the pretrained window in its values.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG CONVERT_CONFIG_FILE

/* ---- what is stored about a stage's window ---- */

struct stored {
    const struct tensor *tensor; /* version 1: a bias table; 2: coordinates; NULL: nothing */
    int rows;                    /* version 1 */
    int h, w;                    /* version 2: -1 when it has no such shape */
    int pretrained; /* version 2: normalised its coordinates; 0: cannot be told, -1: nothing can */
};

/*
 * The window P whose normalised coordinates (swin v2, section 3.3) reach `value` at the last offset
 * of a window of side `side`: value = log2(8 (side - 1)/(P - 1) + 1)/3.
 */
static int pretrained_of(double value, int side) {
    if (side == 1) return 0; /* its only offset is 0, whatever it is divided by */
    const double window = 1 + 8.0 * (side - 1) / (exp2(3 * value) - 1);
    if (!(value > 0 && window > 1.5 && window <= SWIN_MAX_WINDOW)) return -1; /* 1 divides like 2 */
    return fabs(window - round(window)) < 0.1 ? (int)round(window) : -1;
}

static void read_coordinates(const struct tensor *t, struct stored *out) {
    const size_t rows = t->rank == 4 ? t->dims[1] : 0, columns = t->rank == 4 ? t->dims[2] : 0;
    const size_t most = 2 * SWIN_MAX_WINDOW - 1;
    float last;
    out->h = out->w = out->pretrained = -1;
    if (t->rank != 4 || t->dims[0] != 1 || t->dims[3] != 2 || rows % 2 == 0 || columns % 2 == 0 ||
        rows > most || columns > most)
        return;
    out->h = (int)(rows + 1) / 2;
    out->w = (int)(columns + 1) / 2;
    if (layout_read(t, LAYOUT_SAME, (rows - 1) * columns * 2, 1, &last) == ST_OK)
        out->pretrained = pretrained_of(last, out->h);
}

static struct stored stored_of(const struct plan *plan, int stage) {
    struct stored stored = {0};
    char name[2 * NAME_MAX_LENGTH];
    if (plan->out->swin.version == 1) {
        const struct conversion_tensor *table =
            convert_swin_find(plan, stage, "attn.relative_position_bias_table");
        stored.tensor = table ? table->part[0] : NULL;
        stored.rows = plan_axis(table, 0);
        return stored;
    }
    if (plan->origin->kind == ORIGIN_TORCHVISION)
        snprintf(name, sizeof name, "%.120sfeatures.%d.0.attn.relative_coords_table", plan->prefix,
                 2 * stage + 1);
    else
        snprintf(name, sizeof name, "%.120slayers.%d.blocks.0.attn.relative_coords_table",
                 plan->prefix, stage);
    stored.tensor = checkpoint_find(plan->checkpoint, name);
    if (stored.tensor) read_coordinates(stored.tensor, &stored);
    return stored;
}

/* Whether the stored window is the one of `map`. */
static bool window_fits(const struct stored *stored, int version, const struct swin_map *map) {
    if (version == 1) return stored->rows == (2 * map->window_h - 1) * (2 * map->window_w - 1);
    return !stored->tensor || (stored->h == map->window_h && stored->w == map->window_w);
}

/* Windows of 1 and 2 divide by the same. */
static bool pretrained_fits(const struct stored *stored, int pretrained,
                            const struct swin_map *map) {
    const int want = pretrained ? pretrained : map->window_h, has = stored->pretrained;
    if (!stored->tensor || has <= 0) return has == 0;
    return (has < 2 ? 2 : has) == (want < 2 ? 2 : want);
}

bool convert_swin_fits(const struct plan *plan, const struct swin_config *c, int stage) {
    const struct stored stored = stored_of(plan, stage);
    struct swin_map map;
    swin_config_map(c, stage, c->image_h, c->image_w, &map);
    return window_fits(&stored, c->version, &map) &&
           (c->version == 1 || pretrained_fits(&stored, c->pretrained_window[stage], &map));
}

/* ---- windows and the picture's size ---- */

/* The smallest window of the stage that makes what is stored; 0 when none does. */
static int smallest_window(const struct plan *plan, struct swin_config *c, int stage) {
    const struct stored stored = stored_of(plan, stage);
    struct swin_map map;
    for (int M = 1; M <= SWIN_MAX_WINDOW && stored.pretrained >= 0; M++) {
        c->window[stage] = M;
        swin_config_map(c, stage, c->image_h, c->image_w, &map);
        if (window_fits(&stored, c->version, &map)) {
            const bool other = stored.pretrained > 0 && stored.pretrained != map.window_h;
            c->pretrained_window[stage] = c->version == 2 && other ? stored.pretrained : 0;
            return M;
        }
        if (M >= map.h && M >= map.w) break;
    }
    return 0;
}

/* Why a stage does not fit a picture of c's size. */
static void report_stage(struct plan *plan, const struct swin_config *c, int stage, bool known) {
    const struct stored stored = stored_of(plan, stage);
    char is[96], want[96];
    struct swin_map map;
    swin_config_map(c, stage, c->image_h, c->image_w, &map);
    const int rows = 2 * map.window_h - 1, columns = 2 * map.window_w - 1;
    const size_t v1[2] = {(size_t)rows * (size_t)columns, (size_t)c->heads[stage]};
    const size_t v2[4] = {1, (size_t)rows, (size_t)columns, 2};
    shape_text(stored.tensor->dims, stored.tensor->rank, is, sizeof is);
    if (c->version == 1)
        shape_text(v1, 2, want, sizeof want);
    else
        shape_text(v2, 4, want, sizeof want);
    if (stored.h > 0 && stored.pretrained < 0)
        problems_add(&plan->problems, "%s has coordinates of no window", stored.tensor->name);
    else if (!known)
        problems_add(&plan->problems, "%s is %s, which is no window of the %dx%d map at %dx%d",
                     stored.tensor->name, is, map.h, map.w, c->image_h, c->image_w);
    else if (!window_fits(&stored, c->version, &map))
        problems_add(&plan->problems, "%s is %s, want %s for windows of %dx%d at %dx%d",
                     stored.tensor->name, is, want, map.window_h, map.window_w, c->image_h,
                     c->image_w);
    else
        problems_add(&plan->problems, "%s is not normalised by a window of %d", stored.tensor->name,
                     c->pretrained_window[stage] ? c->pretrained_window[stage] : map.window_h);
}

/*
 * Pretrained windows are given for every stage or for none: once one is not its stage's own, the
 * others are what they were found to be, not "the window that is run".
 */
static void name_pretrained(struct swin_config *c) {
    bool any = false;
    for (int s = 0; s < c->stages; s++)
        any = any || c->pretrained_window[s] > 0;
    for (int s = 0; any && s < c->stages; s++) {
        struct swin_map map;
        swin_config_map(c, s, c->image_h, c->image_w, &map);
        if (c->pretrained_window[s] == 0) c->pretrained_window[s] = map.window_h;
    }
}

/* Whether every stage fits a picture of c's size; where windows are not known they are found. */
static bool all_fit(struct plan *plan, struct swin_config *c, bool known, bool report) {
    bool fit = true;
    for (int s = 0; s < c->stages; s++) {
        bool fits = known ? convert_swin_fits(plan, c, s) : smallest_window(plan, c, s) > 0;
        if (!fits && report) report_stage(plan, c, s, known);
        fit = fit && fits;
    }
    if (!known && c->version == 2) name_pretrained(c);
    return fit;
}

/* The first size named that fits; *c then has it. */
static enum status settle_image(struct plan *plan, struct swin_config *c, bool known) {
    int first_h = 0, first_w = 0;
    for (int which = 0; which < CONVERT_SIZES; which++) {
        int height = 0, width = 0;
        TRY(plan_candidate_size(plan, which, &height, &width));
        if (height < 1 || width < 1 || height > CONFIG_MAX_SIDE || width > CONFIG_MAX_SIDE ||
            height % c->patch_h != 0 || width % c->patch_w != 0)
            continue;
        c->image_h = height;
        c->image_w = width;
        if (all_fit(plan, c, known, false)) return ST_OK;
        if (first_h) continue;
        first_h = height;
        first_w = width;
    }
    if (!first_h)
        return fail(ST_USAGE,
                    "%s: no tensor and no file says the picture's size (a multiple of the patch, "
                    "%dx%d), and no known architecture has these shapes: give --arch, or "
                    "--preprocess input_size=HxW",
                    plan->checkpoint->weights_path, c->patch_h, c->patch_w);
    c->image_h = first_h;
    c->image_w = first_w;
    (void)all_fit(plan, c, known, true);
    return plan_problems(plan);
}

/* ---- config.json ---- */

/* window_size: one for all, two numbers as (height, width), or one a stage. */
static enum status window_argument(const struct plan *plan, const cJSON *args, bool *given) {
    struct swin_config *c = &plan->out->swin;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(args, "window_size");
    const bool numbers = cJSON_IsArray(list) && cJSON_IsNumber(list->child);
    int values[SWIN_MAX_STAGES], count;
    TRY(json_ints(args, CONFIG, "window_size", 1, SWIN_MAX_WINDOW, SWIN_MAX_STAGES, values,
                  &count));
    if (count == 2 && numbers && values[0] != values[1])
        return fail(ST_FORMAT, CONFIG ": window_size has (%d, %d), which is not square", values[0],
                    values[1]);
    if (count == 2 && numbers) count = 1;
    if (count > 1 && count != c->stages)
        return fail(ST_FORMAT, CONFIG ": window_size has %d windows, the tensors %d stages", count,
                    c->stages);
    for (int s = 0; count && s < c->stages; s++)
        c->window[s] = values[count == 1 ? 0 : s];
    *given = *given || count > 0;
    return ST_OK;
}

/* An argument that the tensors tell too: one number for all stages, or one a stage. */
static enum status argument_agrees(const cJSON *args, const char *key, const int *tensors,
                                   int stages) {
    int values[SWIN_MAX_STAGES], count;
    TRY(json_ints(args, CONFIG, key, 0, 1 << 24, SWIN_MAX_STAGES, values, &count));
    if (count > 1 && count != stages)
        return fail(ST_FORMAT, CONFIG ": %s has %d numbers, the tensors %d stages", key, count,
                    stages);
    for (int s = 0; count && s < stages; s++)
        if (values[count == 1 ? 0 : s] != tensors[s])
            return fail(ST_FORMAT, CONFIG ": %s says %d, the tensors %d", key,
                        values[count == 1 ? 0 : s], tensors[s]);
    return ST_OK;
}

static enum status arguments_agree(const struct plan *plan, const cJSON *args) {
    const struct swin_config *c = &plan->out->swin;
    const cJSON *bias = cJSON_GetObjectItemCaseSensitive(args, "qkv_bias");
    const int patch[2] = {c->patch_h, c->patch_w};
    int size[2] = {0, 0}, count;
    TRY(argument_agrees(args, "embed_dim", &c->dim, 1));
    TRY(argument_agrees(args, "num_classes", &c->classes, 1));
    TRY(argument_agrees(args, "patch_size", patch, 2));
    TRY(argument_agrees(args, "depths", c->depths, c->stages));
    TRY(argument_agrees(args, "num_heads", c->heads, c->stages));
    TRY(json_ints(args, CONFIG, "img_size", 1, CONFIG_MAX_SIDE, 2, size, &count));
    for (int i = 0; i < count && i < 2; i++)
        if (size[i] % patch[i] != 0)
            return fail(ST_FORMAT, CONFIG ": img_size %d is no multiple of the patch, %d", size[i],
                        patch[i]);
    if (cJSON_IsBool(bias) && cJSON_IsTrue(bias) != c->qkv_bias)
        return fail(ST_FORMAT, CONFIG ": qkv_bias is %s, the tensors have %s",
                    cJSON_IsTrue(bias) ? "true" : "false", c->qkv_bias ? "one" : "none");
    return ST_OK;
}

/* pretrained_window_sizes: one a stage, or none. */
static enum status pretrained_argument(const struct plan *plan, const cJSON *args) {
    struct swin_config *c = &plan->out->swin;
    int values[SWIN_MAX_STAGES], count;
    TRY(json_ints(args, CONFIG, "pretrained_window_sizes", 0, SWIN_MAX_WINDOW, SWIN_MAX_STAGES,
                  values, &count));
    if (c->version == 1 || count == 0) return ST_OK;
    if (count < c->stages)
        return fail(ST_FORMAT,
                    CONFIG ": pretrained_window_sizes has %d windows, the tensors %d stages", count,
                    c->stages);
    memcpy(c->pretrained_window, values, (size_t)c->stages * sizeof *values);
    return ST_OK;
}

static enum status timm_settings(struct plan *plan, bool *windows, const char **act) {
    /* model_args that change nothing, or nothing that is not looked at here. */
    static const char *const known[] = {"img_size",         "patch_size",
                                        "in_chans",         "embed_dim",
                                        "depths",           "num_heads",
                                        "head_dim",         "window_size",
                                        "always_partition", "strict_img_size",
                                        "mlp_ratio",        "qkv_bias",
                                        "num_classes",      "global_pool",
                                        "act_layer",        "drop_rate",
                                        "proj_drop_rate",   "attn_drop_rate",
                                        "drop_path_rate",   "weight_init",
                                        "dynamic_img_size", "pretrained_window_sizes"};
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    const char *pool = NULL;
    TRY(plan_timm_settings(plan, known, COUNT_OF(known), &pool, act));
    if (pool && strcmp(pool, "avg") != 0)
        return fail(ST_FORMAT, CONFIG ": global_pool is '%.40s'; vitrine runs a Swin with avg",
                    pool);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(args, "always_partition")))
        return fail(ST_FORMAT,
                    CONFIG ": model_args has always_partition: windows larger than the map, which "
                           "vitrine does not run");
    TRY(arguments_agree(plan, args));
    TRY(window_argument(plan, args, windows));
    return pretrained_argument(plan, args);
}

/*
 * transformers uses layer_norm_eps in its blocks and 1e-5 in the patch embedding and the mergings;
 * vitrine has one.
 */
static enum status transformers_settings(struct plan *plan, bool *windows, const char **act) {
    struct swin_config *c = &plan->out->swin;
    const char *want = c->version == 2 ? "swinv2" : "swin", *type = NULL;
    double eps = 1e-5;
    TRY(json_word(plan->config, CONFIG, "model_type", &type));
    if (!type || strcmp(type, want) != 0)
        return fail(ST_FORMAT, CONFIG ": model_type is '%.40s', the tensors are those of %s",
                    type ? type : "missing", want);
    plan->out->origin = plan->origin->title;
    TRY(json_word(plan->config, CONFIG, "hidden_act", act));
    TRY(json_double(plan->config, CONFIG, "layer_norm_eps", 1e-15, 1, &eps));
    if (fabs(eps - 1e-5) > 1e-12)
        return fail(ST_FORMAT,
                    CONFIG ": layer_norm_eps is %g, but the patch embedding's norm has 1e-05: two, "
                           "which vitrine does not run",
                    eps);
    TRY(arguments_agree(plan, plan->config));
    TRY(window_argument(plan, plan->config, windows));
    return pretrained_argument(plan, plan->config);
}

/* ---- the whole ---- */

static enum status settle_heads(const struct plan *plan) {
    const struct swin_config *c = &plan->out->swin;
    for (int s = 0; s < c->stages; s++) {
        if ((c->dim << s) % c->heads[s] != 0)
            return fail(ST_SHAPE, "%s: %d heads do not share the %d channels of stage %d evenly",
                        plan->checkpoint->weights_path, c->heads[s], c->dim << s, s);
    }
    return ST_OK;
}

/* Version 2 without a row, an argument or buffers: nothing says the windows. */
static enum status demand_windows(const struct plan *plan) {
    for (int s = 0; s < plan->out->swin.stages; s++) {
        if (stored_of(plan, s).tensor) continue;
        return fail(ST_USAGE,
                    "%s: the windows of a Swin v2 are in no tensor of it: give --arch, or a "
                    "config.json of timm with model_args window_size",
                    plan->checkpoint->weights_path);
    }
    return ST_OK;
}

/* What is done where windows do not fit, by origin. */
static enum swin_window_rule rule_of(const struct plan *plan) {
    if (plan->origin->kind == ORIGIN_PLAIN) return WINDOW_TIMM;
    return plan->origin->kind == ORIGIN_TORCHVISION ? WINDOW_PAD : WINDOW_FIXED;
}

static char *describe(const struct swin_config *c) {
    char depths[SWIN_MAX_STAGES * 12] = "", windows[SWIN_MAX_STAGES * 12] = "";
    size_t d = 0, w = 0;
    for (int s = 0; s < c->stages; s++) {
        const char *dash = s ? "-" : "";
        d += (size_t)snprintf(depths + d, sizeof depths - d, "%s%d", dash, c->depths[s]);
        w += (size_t)snprintf(windows + w, sizeof windows - w, "%s%d", dash, c->window[s]);
    }
    return str_format("Swin v%d, patch %d, width %d, depths %s, windows %s", c->version, c->patch_h,
                      c->dim, depths, windows);
}

enum status convert_swin_settle(struct plan *plan) {
    struct swin_config *c = &plan->out->swin, row;
    const char *act = NULL;
    bool windows = plan->arch && architecture_swin(plan->arch, &row);
    if (windows) {
        memcpy(c->window, row.window, sizeof c->window);
        memcpy(c->pretrained_window, row.pretrained_window, sizeof c->pretrained_window);
    }
    c->norm_eps = plan->checkpoint->norm_eps > 0 ? plan->checkpoint->norm_eps : 1e-5;
    c->mask_value = plan->origin->mask_value < 0 ? plan->origin->mask_value : -100;
    c->window_rule = rule_of(plan);
    c->activation = plan->arch ? plan->arch->activation : ACT_GELU;
    TRY(settle_heads(plan));
    if (plan->timm_config) TRY(timm_settings(plan, &windows, &act));
    if (plan->backbone) TRY(arguments_agree(plan, plan->backbone));
    if (plan->transformers_config && !plan->options->arch)
        TRY(transformers_settings(plan, &windows, &act));
    if (!act) act = plan->checkpoint->activation;
    if (!act) act = plan->origin->activation;
    TRY(plan_activation(plan, act, &c->activation));
    if (!windows) TRY(demand_windows(plan));
    TRY(settle_image(plan, c, windows));
    TRY(swin_config_check_size(c, c->image_h, c->image_w, plan->checkpoint->weights_path));
    plan->out->image_h = c->image_h;
    plan->out->image_w = c->image_w;
    plan->out->classes = c->classes;
    plan->out->info.architecture = plan->arch ? str_copy(plan->arch->name) : describe(c);
    return plan->out->info.architecture ? ST_OK : ST_NOMEM;
}
