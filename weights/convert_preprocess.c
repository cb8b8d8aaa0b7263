/*
 * convert_preprocess: how a picture is prepared. In this order: pretrained_cfg of timm's
 * config.json (fields it lacks as timm fills them: crop_pct 0.875, bicubic, centre, ImageNet's
 * mean and std); keras_hub's image converter (convert_keras.c); transformers'
 * preprocessor_config.json; torchvision's table; the architecture's row. Then --preprocess
 * KEY=VALUE over it.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG    CONVERT_CONFIG_FILE
#define PROCESSOR "preprocessor_config.json"

static void set_word(char (*field)[16], const char *word) {
    snprintf(*field, sizeof *field, "%s", word);
}

static bool listed(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) return true;
    }
    return false;
}

static const char *const modes[] = {"center", "squash", "border"};
static const char *const kernels[] = {"nearest", "box",     "bilinear",
                                      "hamming", "bicubic", "lanczos"};
static const char *const roundings[] = {"half_even", "floor"};

static enum status json_triple(const cJSON *object, const char *file, const char *key, double lo,
                               double hi, double *out) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!list) return ST_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 3)
        return fail(ST_FORMAT, "%s: %s are not three numbers", file, key);
    for (int i = 0; i < 3; i++) {
        const cJSON *item = cJSON_GetArrayItem(list, i);
        if (!cJSON_IsNumber(item))
            return fail(ST_FORMAT, "%s: %s are not three numbers", file, key);
        if (!(item->valuedouble >= lo && item->valuedouble <= hi))
            return fail(ST_FORMAT, "%s: %s has %g, want %g to %g", file, key, item->valuedouble, lo,
                        hi);
        out[i] = item->valuedouble;
    }
    return ST_OK;
}

/* ---- timm ---- */

static enum status timm_preprocess(const cJSON *cfg, struct preprocess_spec *out) {
    const struct preprocess_spec defaults = {.height = out->height,
                                             .width = out->width,
                                             .crop_pct = 0.875,
                                             .crop_mode = "center",
                                             .interpolation = "bicubic",
                                             .crop_rounding = "half_even",
                                             .mean = {0.485, 0.456, 0.406},
                                             .std = {0.229, 0.224, 0.225}};
    const char *mode = "center", *kernel = "bicubic";
    double size[3] = {3, out->height, out->width};
    *out = defaults;
    TRY(json_triple(cfg, CONFIG, "input_size", 1, CONFIG_MAX_SIDE, size));
    TRY(json_triple(cfg, CONFIG, "mean", -1000, 1000, out->mean));
    TRY(json_triple(cfg, CONFIG, "std", 1e-6, 1000, out->std));
    TRY(json_double(cfg, CONFIG, "crop_pct", 0.01, 4, &out->crop_pct));
    TRY(json_word(cfg, CONFIG, "crop_mode", &mode));
    TRY(json_word(cfg, CONFIG, "interpolation", &kernel));
    if (size[0] != 3)
        return fail(ST_FORMAT, CONFIG ": input_size is (%g, %g, %g), want (3, height, width)",
                    size[0], size[1], size[2]);
    if (!listed(mode, modes, COUNT_OF(modes)))
        return fail(ST_FORMAT, CONFIG ": crop_mode is '%.40s', want center, squash or border",
                    mode);
    if (!listed(kernel, kernels, COUNT_OF(kernels)))
        return fail(ST_FORMAT, CONFIG ": interpolation is '%.40s', which is not known", kernel);
    out->height = (int)size[1];
    out->width = (int)size[2];
    set_word(&out->crop_mode, mode);
    set_word(&out->interpolation, kernel);
    return ST_OK;
}

/* ---- transformers ---- */

/* A size of a processor: N, or {"height","width"}, or {"shortest_edge"}; *edge says which. */
static enum status processor_size(const cJSON *object, const char *key, int *height, int *width,
                                  bool *edge) {
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(object, key);
    *height = *width = 0;
    *edge = false;
    if (cJSON_IsNumber(size)) {
        TRY(json_int(object, PROCESSOR, key, 1, 16384, height));
        *width = *height;
        return ST_OK;
    }
    if (!cJSON_IsObject(size)) return fail(ST_FORMAT, PROCESSOR ": has no %s", key);
    TRY(json_int(size, PROCESSOR, "shortest_edge", 1, 16384, height));
    *edge = *height > 0;
    *width = *height;
    if (*edge) return ST_OK;
    TRY(json_int(size, PROCESSOR, "height", 1, 16384, height));
    TRY(json_int(size, PROCESSOR, "width", 1, 16384, width));
    if (!*height || !*width)
        return fail(ST_FORMAT, PROCESSOR ": %s is neither shortest_edge nor height and width", key);
    return ST_OK;
}

bool plan_crop_share(int crop, int resize, double *out) {
    double share = (double)crop / resize; /* until floor(crop / share) is resize exactly */
    for (int i = 0; i < 4 && floor(crop / share) < resize; i++)
        share = nextafter(share, 0);
    *out = share;
    return floor(crop / share) == resize;
}

static enum status processor_values(const cJSON *p, struct preprocess_spec *out) {
    double scale = 1.0 / 255;
    int resample = 2; /* PIL's code of bilinear: the default of ViTImageProcessor */
    const char *const by_code[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};
    TRY(json_int(p, PROCESSOR, "resample", 0, 5, &resample));
    set_word(&out->interpolation, by_code[resample]);
    TRY(json_double(p, PROCESSOR, "rescale_factor", 0, 1, &scale));
    if (fabs(scale * 255 - 1) > 1e-6 ||
        cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(p, "do_rescale")))
        return fail(ST_FORMAT,
                    PROCESSOR ": values are not scaled by 1/255, which vitrine does not do");
    for (int i = 0; i < 3; i++) {
        out->mean[i] = 0;
        out->std[i] = 1;
    }
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(p, "do_normalize"))) return ST_OK;
    if (!cJSON_GetObjectItemCaseSensitive(p, "image_mean") ||
        !cJSON_GetObjectItemCaseSensitive(p, "image_std"))
        return fail(ST_FORMAT, PROCESSOR ": has no image_mean or no image_std");
    TRY(json_triple(p, PROCESSOR, "image_mean", -1000, 1000, out->mean));
    return json_triple(p, PROCESSOR, "image_std", 1e-6, 1000, out->std);
}

static enum status transformers_preprocess(const cJSON *p, struct preprocess_spec *out) {
    int height, width;
    bool edge, crop_edge,
        crops = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(p, "do_center_crop"));
    double other;
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(p, "do_resize")))
        return fail(ST_FORMAT, PROCESSOR ": does not resize, which vitrine always does");
    TRY(processor_size(p, "size", &height, &width, &edge));
    out->height = height;
    out->width = width;
    set_word(&out->crop_rounding, "floor");
    set_word(&out->crop_mode, edge ? "center" : "squash");
    out->crop_pct = 1;
    if (crops) {
        TRY(processor_size(p, "crop_size", &out->height, &out->width, &crop_edge));
        if (!plan_crop_share(out->height, height, &out->crop_pct) ||
            !plan_crop_share(out->width, width, &other) || fabs(other - out->crop_pct) > 1e-9)
            return fail(ST_FORMAT,
                        PROCESSOR ": a resize to %dx%d and crop of %dx%d is no single crop_pct",
                        height, width, out->height, out->width);
    } else if (edge) {
        return fail(ST_FORMAT,
                    PROCESSOR
                    ": resizes the short side to %d and does not crop, so pictures differ in "
                    "size; give --preprocess",
                    height);
    }
    return processor_values(p, out);
}

/* ---- --preprocess KEY=VALUE ---- */

static bool parse_size(const char *text, int *height, int *width) {
    char first[16];
    const char *x = strchr(text, 'x');
    long h, w;
    if (snprintf(first, sizeof first, "%.*s", x ? (int)(x - text) : (int)strlen(text), text) >=
        (int)sizeof first)
        return false;
    if (!parse_long(first, 1, 16384, &h)) return false;
    w = h;
    if (x && !parse_long(x + 1, 1, 16384, &w)) return false;
    *height = (int)h;
    *width = (int)w;
    return true;
}

/* "R,G,B", or one number for all three. */
static bool parse_triple(const char *text, double lo, double hi, double *out) {
    double values[3];
    int count = 0;
    for (const char *at = text; count < 3; at++) {
        char one[32];
        size_t length = strcspn(at, ",");
        if (snprintf(one, sizeof one, "%.*s", (int)length, at) >= (int)sizeof one) return false;
        if (!parse_double(one, lo, hi, &values[count++])) return false;
        at += length;
        if (!*at) break;
        if (count == 3) return false;
    }
    if (count != 1 && count != 3) return false;
    for (int i = 0; i < 3; i++)
        out[i] = values[count == 1 ? 0 : i];
    return true;
}

static bool parse_word(const char *text, const char *const *words, size_t count, char (*out)[16]) {
    if (!listed(text, words, count)) return false;
    set_word(out, text);
    return true;
}

enum { KEY_SIZE, KEY_CROP, KEY_MODE, KEY_KERNEL, KEY_ROUNDING, KEY_MEAN, KEY_STD, KEYS };
static const struct {
    const char *name, *wants;
} keys[KEYS] = {
    [KEY_SIZE] = {"input_size", "N or HxW"},
    [KEY_CROP] = {"crop_pct", "a number from 0.01 to 4"},
    [KEY_MODE] = {"crop_mode", "center, squash or border"},
    [KEY_KERNEL] = {"interpolation", "nearest, box, bilinear, hamming, bicubic or lanczos"},
    [KEY_ROUNDING] = {"crop_rounding", "half_even or floor"},
    [KEY_MEAN] = {"mean", "R,G,B"},
    [KEY_STD] = {"std", "R,G,B, each from 0.000001 to 1000"},
};

static bool apply(int key, const char *value, struct preprocess_spec *out) {
    switch (key) {
    case KEY_SIZE: return parse_size(value, &out->height, &out->width);
    case KEY_CROP: return parse_double(value, 0.01, 4, &out->crop_pct);
    case KEY_MODE: return parse_word(value, modes, COUNT_OF(modes), &out->crop_mode);
    case KEY_KERNEL: return parse_word(value, kernels, COUNT_OF(kernels), &out->interpolation);
    case KEY_ROUNDING:
        return parse_word(value, roundings, COUNT_OF(roundings), &out->crop_rounding);
    case KEY_MEAN: return parse_triple(value, -1000, 1000, out->mean);
    default: return parse_triple(value, 1e-6, 1000, out->std);
    }
}

/* All --preprocess of the command line; set[key] says which were given. */
static enum status overrides(const struct convert_options *options, struct preprocess_spec *out,
                             bool *set) {
    for (size_t i = 0; i < options->preprocess_count; i++) {
        const char *text = options->preprocess[i], *equals = strchr(text, '=');
        int key = 0;
        while (key < KEYS && (!equals || strlen(keys[key].name) != (size_t)(equals - text) ||
                              strncmp(keys[key].name, text, (size_t)(equals - text)) != 0))
            key++;
        if (key == KEYS)
            return fail(
                ST_USAGE,
                "--preprocess %.60s: want KEY=VALUE with a key of input_size, crop_pct, crop_mode, "
                "interpolation, crop_rounding, mean, std",
                text);
        if (!apply(key, equals + 1, out))
            return fail(ST_USAGE, "--preprocess %.60s: want %s", text, keys[key].wants);
        set[key] = true;
    }
    return ST_OK;
}

enum status convert_check_options(const struct convert_options *options) {
    struct preprocess_spec spec = {0};
    bool set[KEYS] = {false};
    const char *tag;
    if (options->arch && !architecture_find(options->arch))
        return fail(ST_USAGE,
                    "--arch '%.80s' is no architecture known here (vitrine convert --list-names)",
                    options->arch);
    if (options->arch && !architecture_preprocess(options->arch, &spec, &tag))
        return fail(ST_USAGE, "--arch '%.80s': timm has %s, but no weights of that tag",
                    options->arch, architecture_find(options->arch)->name);
    return overrides(options, &spec, set);
}

enum status plan_input_size(const struct plan *plan, int *height, int *width) {
    struct preprocess_spec spec = {0};
    bool set[KEYS] = {false};
    TRY(overrides(plan->options, &spec, set));
    *height = spec.height;
    *width = spec.width;
    return ST_OK;
}

/*
 * Nobody says how: then the command line must say it all (crop mode and rounding have the usual
 * default).
 */
static enum status demand_all(const struct plan *plan, const bool *set) {
    const int needed[] = {KEY_CROP, KEY_KERNEL, KEY_MEAN, KEY_STD};
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        if (set[needed[i]]) continue;
        return fail(
            ST_USAGE,
            "%s: nothing says how its pictures are prepared (no config file beside it, no known "
            "architecture): give --arch, or --preprocess crop_pct=, interpolation=, mean= and std= "
            "(%s is "
            "missing)",
            plan->checkpoint->weights_path, keys[needed[i]].name);
    }
    return ST_OK;
}

enum status plan_settle_preprocess(struct plan *plan) {
    struct preprocess_spec *out = &plan->out->preprocess;
    const cJSON *cfg = cJSON_GetObjectItemCaseSensitive(plan->config, "pretrained_cfg");
    const char *from = "the command line", *tag = "";
    const char *name;
    char text[200];
    bool set[KEYS] = {false}, unknown = false;
    out->height = plan->out->image_h;
    out->width = plan->out->image_w;
    if (plan->timm_config && cJSON_IsObject(cfg)) {
        TRY(timm_preprocess(cfg, out));
        from = CONFIG;
    } else if (plan->checkpoint->converter_json) {
        TRY(plan_keras_preprocess(plan, out));
        from = CONVERT_KERAS_CONVERTER;
    } else if (plan->origin->kind == ORIGIN_TRANSFORMERS && plan->processor) {
        TRY(transformers_preprocess(plan->processor, out));
        from = PROCESSOR;
    } else if (!plan->arch_name && (name = plan_torchvision(plan, out))) {
        snprintf(text, sizeof text, "torchvision's %s", name);
        from = text;
    } else if (plan->arch && (plan->arch_name || plan->origin->kind != ORIGIN_TORCHVISION)) {
        name = plan->arch_name ? plan->arch_name : plan->arch->name;
        if (!architecture_preprocess(name, out, &tag))
            return fail(ST_USAGE, "%s: no such weights", name);
        out->height = plan->out->image_h;
        out->width = plan->out->image_w;
        set_word(&out->crop_rounding, plan->origin->crop_rounding);
        snprintf(text, sizeof text, "timm's %s%s%.*s", plan->arch->name, *tag ? "." : "",
                 (int)strcspn(tag, " "), tag);
        from = text;
    } else if (plan->origin->unit_range) { /* vit_jax/input_pipeline.py: whole, no crop */
        out->crop_pct = 1;
        set_word(&out->crop_mode, "squash");
        set_word(&out->interpolation, "bilinear");
        set_word(&out->crop_rounding, plan->origin->crop_rounding);
        from = plan->origin->title;
    } else {
        unknown = true;
        set_word(&out->crop_mode, "center");
        set_word(&out->crop_rounding, plan->origin->crop_rounding);
    }
    for (int i = 0; plan->origin->unit_range && i < 3; i++)
        out->mean[i] = out->std[i] = 0.5;
    TRY(overrides(plan->options, out, set));
    if (unknown) TRY(demand_all(plan, set));
    return plan_note(plan, "preprocess_from", from);
}
