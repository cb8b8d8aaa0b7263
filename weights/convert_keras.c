/*
 * convert_keras: how keras_hub prepares pictures, by the ImageConverter of a preset or an archive
 * (keras_hub/src/layers/preprocessing/image_converter.py, and what ViT's and DeiT's added to it):
 * resized, then x * scale + offset of values up to 255, then (x - norm_mean) / norm_std.
 */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONVERTER CONVERT_KERAS_CONVERTER

/* A number, or one for each of the three channels; false, *out as it was: absent or null. */
static enum status json_channels(const cJSON *object, const char *key, double lo, double hi,
                                 double *out, bool *given) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    *given = item && !cJSON_IsNull(item);
    for (int i = 0; *given && i < 3; i++) {
        const cJSON *one = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, i) : item;
        if ((cJSON_IsArray(item) && cJSON_GetArraySize(item) != 3) || !cJSON_IsNumber(one) ||
            !(one->valuedouble >= lo && one->valuedouble <= hi))
            return fail(ST_FORMAT,
                        CONVERTER ": %s is neither a number from %g to %g nor three of them", key,
                        lo, hi);
        out[i] = one->valuedouble;
    }
    return ST_OK;
}

/* y = a x + b, x from 0 to 255, as (x / 255 - mean) / std. */
static enum status converter_values(const cJSON *c, struct preprocess_spec *out) {
    double a[3] = {1, 1, 1}, b[3] = {0}, mean[3] = {0}, std[3] = {1, 1, 1};
    double variance[3] = {1, 1, 1};
    bool given, both;
    TRY(json_channels(c, "scale", 1e-6, 1e3, a, &given));
    TRY(json_channels(c, "offset", -1e3, 1e3, b, &given));
    TRY(json_channels(c, "mean", -1e3, 1e3, mean, &both)); /* the first presets' */
    TRY(json_channels(c, "variance", 1e-9, 1e6, variance, &given));
    for (int i = 0; both && given && i < 3; i++) {
        a[i] /= sqrt(variance[i]);
        b[i] = -mean[i] / sqrt(variance[i]);
    }
    for (int i = 0; i < 3; i++)
        mean[i] = 0;
    TRY(json_channels(c, "norm_mean", -1e3, 1e3, mean, &given));
    TRY(json_channels(c, "norm_std", 1e-4, 1e3, std, &given));
    for (int i = 0; i < 3; i++) {
        out->std[i] = std[i] / (255 * a[i]);
        out->mean[i] = (mean[i] - b[i]) / (255 * a[i]);
        if (!(out->std[i] >= 1e-6 && out->std[i] <= 1000 && fabs(out->mean[i]) <= 1000))
            return fail(ST_FORMAT,
                        CONVERTER ": scale and offset are mean %g and std %g of channel %d, want "
                                  "at most 1000, std from 0.000001",
                        out->mean[i], out->std[i], i);
    }
    return ST_OK;
}

/* Without one, pictures come in the size that the model takes. */
static enum status converter_size(const cJSON *c, struct preprocess_spec *out) {
    const cJSON *size = cJSON_GetObjectItemCaseSensitive(c, "image_size");
    TRY(json_int(c, CONVERTER, "height", 1, 16384, &out->height));
    TRY(json_int(c, CONVERTER, "width", 1, 16384, &out->width));
    if (!size || cJSON_IsNull(size)) return ST_OK;
    if (!cJSON_IsArray(size)) {
        TRY(json_int(c, CONVERTER, "image_size", 1, 16384, &out->height));
        out->width = out->height;
        return ST_OK;
    }
    for (int i = 0; i < 2; i++) {
        const cJSON *side = cJSON_GetArrayItem(size, i);
        if (cJSON_GetArraySize(size) != 2 || !cJSON_IsNumber(side) ||
            !(side->valuedouble >= 1 && side->valuedouble <= 16384) ||
            side->valuedouble != floor(side->valuedouble))
            return fail(ST_FORMAT, CONVERTER ": image_size is no (height, width) up to 16384");
        *(i ? &out->width : &out->height) = (int)side->valuedouble;
    }
    return ST_OK;
}

static enum status converter_kernel(const cJSON *c, struct preprocess_spec *out) {
    static const char *const known[][2] = {{"bilinear", "bilinear"},
                                           {"bicubic", "bicubic"},
                                           {"nearest", "nearest"},
                                           {"lanczos3", "lanczos"}};
    const char *word = "bilinear";
    size_t i = 0;
    TRY(json_word(c, CONVERTER, "interpolation", &word));
    while (i < COUNT_OF(known) && strcmp(known[i][0], word) != 0)
        i++;
    if (i == COUNT_OF(known))
        return fail(ST_FORMAT,
                    CONVERTER ": interpolation is '%.40s', want bilinear, bicubic, nearest or "
                              "lanczos3",
                    word);
    snprintf(out->interpolation, sizeof out->interpolation, "%s", known[i][1]);
    return ST_OK;
}

enum status plan_keras_preprocess(struct plan *plan, struct preprocess_spec *out) {
    const cJSON *c = plan->processor;
    const bool squash = cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(c, "crop_to_aspect_ratio"));
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "pad_to_aspect_ratio")))
        return fail(ST_FORMAT,
                    CONVERTER ": pads pictures (pad_to_aspect_ratio), which vitrine does not do");
    TRY(converter_size(c, out));
    TRY(converter_kernel(c, out));
    TRY(converter_values(c, out));
    out->crop_pct = 1;
    snprintf(out->crop_mode, sizeof out->crop_mode, "%s", squash ? "squash" : "center");
    snprintf(out->crop_rounding, sizeof out->crop_rounding, "%s", plan->origin->crop_rounding);
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(c, "antialias")) ||
        strcmp(out->interpolation, "nearest") == 0)
        return ST_OK;
    return plan_note(plan, "preprocess_differs",
                     "keras_hub resizes without antialiasing, vitrine with it");
}
