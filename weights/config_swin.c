/*
 * config_swin: `/config` of family "swin", and the geometry that follows from it (config.h).
 */
#include "weights/config_fields.h"

_Static_assert(sizeof(enum swin_window_rule) == sizeof(int), "enums are read and written as int");

static const char *const window_rules[] = {"timm", "pad", "fixed"};

/*
 * Bounds are far beyond any model known; they keep a bias table, and the scores of a window, within
 * 64 bits.
 */
#define STAGES(lo, hi) LIST_RANGE(lo, hi, swin_config, stages)
static const struct field fields[] = {
    {"version", FIELD_INT, IN(swin_config, version), RANGE(1, 2)},
    {"image_size", FIELD_PAIR, IN(swin_config, image_h), RANGE(1, CONFIG_MAX_SIDE)},
    {"patch_size", FIELD_PAIR, IN(swin_config, patch_h), RANGE(1, 1024)},
    {"embed_dim", FIELD_INT, IN(swin_config, dim), RANGE(1, SWIN_MAX_CHANNELS)},
    {"depths", FIELD_COUNTED, IN(swin_config, depths), STAGES(1, 1000)},
    {"num_heads", FIELD_LIST, IN(swin_config, heads), STAGES(1, 4096)},
    {"mlp_hidden", FIELD_LIST, IN(swin_config, hidden), STAGES(1, 1048576)},
    {"window", FIELD_LIST, IN(swin_config, window), STAGES(1, SWIN_MAX_WINDOW)},
    {"pretrained_window", FIELD_LIST, IN(swin_config, pretrained_window),
     STAGES(0, SWIN_MAX_WINDOW)},
    {"num_classes", FIELD_INT, IN(swin_config, classes), RANGE(0, CONFIG_MAX_CLASSES)},
    {"qkv_bias", FIELD_BOOL, IN(swin_config, qkv_bias), NO_RANGE},
    {"activation", FIELD_ENUM, IN(swin_config, activation), WORDS(config_activations)},
    {"window_rule", FIELD_ENUM, IN(swin_config, window_rule), WORDS(window_rules)},
    {"mask_value", FIELD_REAL, IN(swin_config, mask_value), RANGE(-1e6, 0)},
    {"norm_eps", FIELD_REAL, IN(swin_config, norm_eps), RANGE(1e-30, 0.1)},
};

static enum status check_stages(const struct swin_config *c, const char *file) {
    if ((c->dim << (c->stages - 1)) > SWIN_MAX_CHANNELS)
        return fail(ST_FORMAT,
                    "%s: /config: embed_dim %d has %d channels in the last of %d stages, expected "
                    "at most %d",
                    file, c->dim, c->dim << (c->stages - 1), c->stages, SWIN_MAX_CHANNELS);
    for (int s = 0; s < c->stages; s++) {
        if ((c->dim << s) % c->heads[s] != 0)
            return fail(ST_FORMAT,
                        "%s: /config: the %d channels of stage %d are no multiple of its "
                        "num_heads %d",
                        file, c->dim << s, s, c->heads[s]);
        if (c->version == 1 && c->pretrained_window[s] != 0)
            return fail(ST_FORMAT,
                        "%s: /config: pretrained_window of stage %d is %d, expected 0 in version 1",
                        file, s, c->pretrained_window[s]);
    }
    return ST_OK;
}

enum status swin_config_check(const struct swin_config *c, const char *file) {
    TRY(fields_check(file, "/config", fields, COUNT_OF(fields), c));
    if (c->image_h % c->patch_h != 0 || c->image_w % c->patch_w != 0)
        return fail(ST_FORMAT,
                    "%s: /config: image_size (%d, %d) is no multiple of patch_size (%d, %d)", file,
                    c->image_h, c->image_w, c->patch_h, c->patch_w);
    return check_stages(c, file);
}

enum status swin_config_read(struct h5 *file, struct swin_config *out) {
    struct swin_config config = {0};
    TRY(fields_read(file, "/config", fields, COUNT_OF(fields), &config));
    TRY(swin_config_check(&config, h5_name(file)));
    *out = config;
    return ST_OK;
}

enum status swin_config_write(struct h5 *file, const struct swin_config *config) {
    TRY(swin_config_check(config, h5_name(file)));
    return fields_write(file, "/config", fields, COUNT_OF(fields), config);
}

void swin_config_map(const struct swin_config *config, int stage, int image_h, int image_w,
                     struct swin_map *out) {
    const int M = config->window[stage];
    out->h = image_h / config->patch_h;
    out->w = image_w / config->patch_w;
    for (int s = 0; s < stage; s++) {
        out->h = (out->h + 1) / 2;
        out->w = (out->w + 1) / 2;
    }
    out->window_h = out->h < M ? out->h : M;
    out->window_w = out->w < M ? out->w : M;
    out->shift_h = out->h > M ? M / 2 : 0;
    out->shift_w = out->w > M ? M / 2 : 0;
}

enum status swin_config_check_size(const struct swin_config *config, int image_h, int image_w,
                                   const char *file) {
    for (int s = 0; s < config->stages && config->window_rule != WINDOW_TIMM; s++) {
        struct swin_map stored, run;
        swin_config_map(config, s, config->image_h, config->image_w, &stored);
        swin_config_map(config, s, image_h, image_w, &run);
        if (run.h % run.window_h != 0 || run.w % run.window_w != 0)
            return fail(ST_USAGE,
                        "%s: at %dx%d windows of %dx%d do not divide the %dx%d map of stage %d; "
                        "its origin pads before it shifts, which vitrine does not run",
                        file, image_h, image_w, run.window_h, run.window_w, run.h, run.w, s);
        if (run.window_h == stored.window_h && run.window_w == stored.window_w &&
            (config->window_rule == WINDOW_PAD ||
             (run.shift_h == stored.shift_h && run.shift_w == stored.shift_w)))
            continue;
        return fail(ST_USAGE,
                    "%s: at %dx%d the windows of stage %d would be others than at %dx%d, which its "
                    "origin does not do",
                    file, image_h, image_w, s, config->image_h, config->image_w);
    }
    return ST_OK;
}
