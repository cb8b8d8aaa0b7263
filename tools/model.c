/* model: see model.h. */
#include "tools/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weights/models/embedded.h"

/* "DIR/NAME.h5" in fresh memory if such a file is there, else NULL. */
static char *file_in(const char *folder, const char *below, const char *name) {
    char *path = str_format("%s%s/%s.h5", folder, below, name);
    if (path && access(path, F_OK) == 0) return path;
    mem_free(path);
    return NULL;
}

/* The path of a pulled model, in fresh memory, or NULL. */
static char *find_pulled(const char *name) {
    const char *models = getenv("VITRINE_MODELS"), *data = getenv("XDG_DATA_HOME"),
               *home = getenv("HOME");
    char *path = models && *models ? file_in(models, "", name) : NULL;
    if (!path && data && *data) path = file_in(data, "/vitrine", name);
    if (!path && !(data && *data) && home && *home)
        path = file_in(home, "/.local/share/vitrine", name);
    return path;
}

static bool looks_like_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 3 && strcmp(name + length - 3, ".h5") == 0);
}

enum status model_find(const char *name, struct h5 **out) {
    enum status st;
    char *path;
    if (looks_like_path(name)) return h5_open(name, out);
    for (size_t i = 0; embedded_model_name(i); i++) {
        if (strcmp(name, embedded_model_name(i)) == 0) {
            size_t size;
            const unsigned char *bytes = embedded_model_bytes(i, &size);
            return h5_open_memory(bytes, size, name, out);
        }
    }
    path = find_pulled(name);
    if (!path)
        return fail(access(name, F_OK) == 0 ? ST_USAGE : ST_IO,
                    access(name, F_OK) == 0
                        ? "%s: not a model's name; for a file of that name say ./%s"
                        : "%s: no embedded model of that name, and no %s.h5 in $VITRINE_MODELS or "
                          "the data folder",
                    name, name);
    st = h5_open(path, out);
    mem_free(path);
    return st;
}

static enum status rule_from_spec(const struct preprocess_spec *spec, const char *file,
                                  struct preprocess *rule) {
    *rule = (struct preprocess){
        .height = spec->height, .width = spec->width, .crop_pct = spec->crop_pct};
    memcpy(rule->mean, spec->mean, sizeof rule->mean);
    memcpy(rule->std, spec->std, sizeof rule->std);
    if (!crop_mode_find(spec->crop_mode, &rule->crop_mode))
        return fail(ST_FORMAT, "%s: /preprocess: crop_mode is '%s', want center, squash or border",
                    file, spec->crop_mode);
    if (!crop_rounding_find(spec->crop_rounding, &rule->rounding))
        return fail(ST_FORMAT, "%s: /preprocess: crop_rounding is '%s', want half_even or floor",
                    file, spec->crop_rounding);
    if (!filter_find(spec->interpolation, &rule->interpolation))
        return fail(ST_FORMAT, "%s: /preprocess: interpolation is '%s', which is no known filter",
                    file, spec->interpolation);
    return ST_OK;
}

static void apply_overrides(const struct model_options *options, struct preprocess *rule) {
    if (options->image_h > 0) rule->height = options->image_h;
    if (options->image_w > 0) rule->width = options->image_w;
    if (options->crop_pct > 0) rule->crop_pct = options->crop_pct;
    if (options->crop_mode) rule->crop_mode = *options->crop_mode;
    if (options->interpolation) rule->interpolation = *options->interpolation;
    if (options->mean) memcpy(rule->mean, options->mean, sizeof rule->mean);
    if (options->std) memcpy(rule->std, options->std, sizeof rule->std);
}

static enum status read_labels(struct h5 *file, int classes, struct labels *out) {
    char **ids = NULL, **names = NULL;
    size_t count = 0;
    enum status st = labels_group_read(file, classes, &ids, &names, &count);
    if (st == ST_OK && count)
        st = labels_set(out, (int)count, (const char *const *)ids, (const char *const *)names);
    h5_free_names(ids, count);
    h5_free_names(names, count);
    return st;
}

static enum status open_vit(struct h5 *file, const struct model_options *options,
                            struct backend *backend, struct model *out) {
    struct vit *vit = &out->vit;
    struct vit_options vit_options = {.image_h = out->preprocess.height,
                                      .image_w = out->preprocess.width,
                                      .max_batch = options->max_batch};
    for (int c = 0; c < 3; c++) {
        vit_options.mean[c] = (float)out->preprocess.mean[c];
        vit_options.std[c] = (float)out->preprocess.std[c];
    }
    TRY(vit_load(vit, file, &vit_options, backend));
    out->classes = vit->config.classes;
    out->dim = vit->config.dim;
    out->depth = vit->config.depth;
    out->heads = vit->config.heads;
    out->tokens = vit->tokens;
    out->prefix = vit->prefix;
    out->grid_h = vit->grid_h;
    out->grid_w = vit->grid_w;
    out->parameters = vit->parameters;
    out->resampled = vit->config.positions && (vit->config.pos_grid_h != vit->grid_h ||
                                               vit->config.pos_grid_w != vit->grid_w);
    return ST_OK;
}

static enum status open_file(struct h5 *file, const struct model_options *options,
                             struct backend *backend, struct model *out) {
    struct preprocess_spec spec;
    TRY(model_info_read(file, &out->info));
    TRY(preprocess_spec_read(file, &spec));
    TRY(rule_from_spec(&spec, h5_name(file), &out->preprocess));
    apply_overrides(options, &out->preprocess);
    if (strcmp(out->info.family, "vit") != 0)
        return fail(ST_FORMAT, "%s: family is '%s', this version runs 'vit'", h5_name(file),
                    out->info.family);
    TRY(open_vit(file, options, backend, out));
    return read_labels(file, out->classes, &out->labels);
}

enum status model_open(const char *name, const struct model_options *options,
                       struct backend *backend, struct model *out) {
    struct h5 *file = NULL;
    enum status st;
    *out = (struct model){0};
    TRY(model_find(name, &file));
    st = open_file(file, options, backend, out);
    if (h5_close(&file) != ST_OK && st == ST_OK) st = ST_IO;
    if (st != ST_OK) model_release(out);
    return st;
}

void model_release(struct model *model) {
    vit_release(&model->vit);
    labels_release(&model->labels);
    model_info_release(&model->info);
    *model = (struct model){0};
}

enum status model_forward(struct model *model, const uint8_t *pixels, int batch, float *logits,
                          const struct vit_taps *taps) {
    return vit_forward(&model->vit, pixels, batch, logits, taps);
}

bool all_finite(const float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

void softmax(float *logits, int count) {
    float most = logits[0];
    double sum = 0;
    for (int i = 1; i < count; i++)
        if (logits[i] > most) most = logits[i];
    for (int i = 0; i < count; i++)
        sum += exp((double)logits[i] - most);
    for (int i = 0; i < count; i++)
        logits[i] = (float)(exp((double)logits[i] - most) / sum);
}

/* Whether class a goes before class b: larger, then lower; NaN last. */
static bool before(const float *values, int a, int b) {
    if (isnan(values[a]) || isnan(values[b]))
        return isnan(values[b]) && (!isnan(values[a]) || a < b);
    return values[a] > values[b] || (values[a] == values[b] && a < b);
}

/* Lets index[at] sink in a heap of `held` whose root goes last of all. */
static void sink(const float *values, int *index, int held, int at) {
    for (int child; (child = 2 * at + 1) < held; at = child) {
        int moving = index[at];
        if (child + 1 < held && before(values, index[child], index[child + 1])) child++;
        if (before(values, index[child], moving)) return;
        index[at] = index[child];
        index[child] = moving;
    }
}

void top_k(const float *values, int count, int k, int *index) {
    for (int i = 0; i < k; i++)
        index[i] = i;
    for (int at = k / 2; at-- > 0;)
        sink(values, index, k, at);
    for (int i = k; i < count; i++) {
        if (!before(values, i, index[0])) continue;
        index[0] = i;
        sink(values, index, k, 0);
    }
    for (int held = k; held > 1; held--) { /* the last of the rest goes behind it */
        int last = index[0];
        index[0] = index[held - 1];
        index[held - 1] = last;
        sink(values, index, held - 1, 0);
    }
}
