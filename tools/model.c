/* model: see model.h. */
#include "tools/model.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli.h"
#include "weights/catalog.h"
#include "weights/models/embedded.h"
#include "weights/sha256.h"

/* "DIR/NAME.h5" in fresh memory if such a file is there, else NULL. */
static char *file_in(const char *folder, const char *below, const char *name) {
    char *path = str_format("%s%s/%s.h5", folder, below, name);
    if (path && access(path, F_OK) == 0) return path;
    mem_free(path);
    return NULL;
}

/*
 * The data folder: *root and what follows it; false when there is none. A relative $XDG_DATA_HOME
 * does not count (XDG Base Directory Specification: "consider the path invalid and ignore it").
 */
static bool data_folder(const char **root, const char **below) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    const bool xdg = data && data[0] == '/';
    *root = xdg ? data : home;
    *below = xdg ? "/vitrine" : "/.local/share/vitrine";
    return *root && **root;
}

/* The path of a pulled model, in fresh memory, or NULL. */
static char *find_pulled(const char *name) {
    const char *models = getenv("VITRINE_MODELS"), *root, *below;
    char *path = models && *models ? file_in(models, "", name) : NULL;
    if (!path && data_folder(&root, &below)) path = file_in(root, below, name);
    return path;
}

char *model_folder(void) {
    const char *models = getenv("VITRINE_MODELS"), *root, *below;
    if (models && *models) return str_copy(models);
    if (data_folder(&root, &below)) return str_format("%s%s", root, below);
    (void)fail(ST_IO, "no folder for models: none of $VITRINE_MODELS, $XDG_DATA_HOME and $HOME is "
                      "set");
    return NULL;
}

static enum status not_found(const char *name) {
    struct catalog_entry entry;
    if (access(name, F_OK) == 0)
        return fail(ST_USAGE, "%s: not a model's name; for a file of that name say ./%s", name,
                    name);
    if (catalog_find(name, &entry))
        return fail(ST_IO, "%s: is not here yet; 'vitrine pull %s' downloads it", name, name);
    return fail(ST_IO,
                "%s: no embedded model of that name, and no %s.h5 in $VITRINE_MODELS or the data "
                "folder ('vitrine pull --list' shows what can be had)",
                name, name);
}

static bool looks_like_path(const char *name) {
    size_t length = strlen(name);
    return strchr(name, '/') || (length > 3 && strcmp(name + length - 3, ".h5") == 0);
}

/* Where a model lies: in the program, or in a file. */
struct place {
    const unsigned char *bytes; /* (size), or NULL */
    size_t size;
    char *path; /* owned, or NULL */
};

static enum status find_place(const char *name, struct place *out) {
    *out = (struct place){0};
    for (size_t i = 0; !looks_like_path(name) && embedded_model_name(i); i++)
        if (strcmp(name, embedded_model_name(i)) == 0)
            out->bytes = embedded_model_bytes(i, &out->size);
    if (out->bytes) return ST_OK;
    out->path = looks_like_path(name) ? str_copy(name) : find_pulled(name);
    return out->path ? ST_OK : looks_like_path(name) ? ST_NOMEM : not_found(name);
}

enum status model_find(const char *name, struct h5 **out) {
    struct place place;
    enum status st;
    TRY(find_place(name, &place));
    st =
        place.bytes ? h5_open_memory(place.bytes, place.size, name, out) : h5_open(place.path, out);
    mem_free(place.path);
    return st;
}

enum status model_sha256(const char *name, char hex[65]) {
    struct place place;
    enum status st;
    TRY(find_place(name, &place));
    st = place.bytes ? sha256_hex(place.bytes, place.size, hex) : sha256_file(place.path, hex);
    mem_free(place.path);
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

/* The normalisation of this run, for the patch embedding. */
static void copy_normalisation(const struct preprocess *rule, float *mean, float *std) {
    for (int c = 0; c < 3; c++) {
        mean[c] = (float)rule->mean[c];
        std[c] = (float)rule->std[c];
    }
}

static enum status load_vit(struct h5 *file, const struct model_options *asked,
                            const struct preprocess *rule, struct model_replica *replica) {
    struct vit_options options = {.image_h = rule->height,
                                  .image_w = rule->width,
                                  .max_batch = asked->max_batch,
                                  .backward = asked->backward};
    copy_normalisation(rule, options.mean, options.std);
    return vit_load(&replica->vit, file, &options, replica->backend);
}

static enum status load_swin(struct h5 *file, const struct model_options *asked,
                             const struct preprocess *rule, struct model_replica *replica) {
    struct swin_options options = {.image_h = rule->height,
                                   .image_w = rule->width,
                                   .max_batch = asked->max_batch,
                                   .backward = asked->backward};
    copy_normalisation(rule, options.mean, options.std);
    return swin_load(&replica->swin, file, &options, replica->backend);
}

static void describe_vit(const struct vit *vit, struct model *out) {
    const struct vit_config *config = &vit->config;
    out->classes = config->classes;
    out->depth = config->depth;
    out->dim = config->dim;
    out->class_token = config->class_token;
    out->pooled = config->pool != POOL_NONE;
    out->parameters = vit->parameters;
    out->macs = vit_macs_run(config);
    if (config->positions &&
        (config->pos_grid_h != vit->grid_h || config->pos_grid_w != vit->grid_w))
        snprintf(out->resampled, sizeof out->resampled, "positions resampled to %dx%d patches",
                 vit->grid_h, vit->grid_w);
}

/* "bias tables resampled (windows of stage 3: 7x7 to 5x5)", or "". */
static void describe_windows(const struct swin *swin, char *text, size_t size) {
    const struct swin_config *config = &swin->config;
    size_t used = 0;
    for (int s = 0; s < config->stages; s++) {
        const struct swin_map *run = &swin->stages[s].map;
        struct swin_map stored;
        if (!swin_window_changes(config, s, swin->image_h, swin->image_w) || used >= size) continue;
        swin_config_map(config, s, config->image_h, config->image_w, &stored);
        used += (size_t)snprintf(text + used, size - used, "%s stage %d: %dx%d to %dx%d",
                                 used ? ","
                                 : config->version == 1
                                     ? "bias tables resampled (windows of"
                                     : "position biases computed for other windows (of",
                                 s, stored.window_h, stored.window_w, run->window_h, run->window_w);
    }
    if (used && used < size) snprintf(text + used, size - used, ")");
}

static void describe_swin(const struct swin *swin, struct model *out) {
    out->classes = swin->config.classes;
    out->depth = swin->depth;
    out->dim = swin->stages[swin->config.stages - 1].channels;
    out->pooled = true;
    out->parameters = swin->parameters;
    out->macs = swin_macs(&swin->config, swin->image_h, swin->image_w);
    describe_windows(swin, out->resampled, sizeof out->resampled);
}

/* ---- replicas ------------------------------------------------------------------------------- */

static int max_batch_of(const struct model *model, const struct model_replica *replica) {
    return model->family == MODEL_SWIN ? replica->swin.max_batch : replica->vit.max_batch;
}

static void count_batch(struct model *model) {
    model->batch = 0;
    for (int i = 0; i < model->replica_count; i++)
        model->batch += max_batch_of(model, &model->replicas[i]);
}

static void say_smaller(const struct model *model, const struct model_replica *replica,
                        int wanted) {
    int got = max_batch_of(model, replica);
    if (got < wanted && !model->quiet)
        cli_say("%s: its memory does not hold a batch of %d images: %d from here on",
                replica->device, wanted, got);
}

static enum status open_replicas(struct h5 *file, const struct model_options *options,
                                 const struct devices *devices, struct model *out) {
    out->replicas = mem_zalloc((size_t)devices->count, sizeof *out->replicas);
    if (!out->replicas) return ST_NOMEM;
    for (int i = 0; i < devices->count; i++) {
        struct model_replica *replica = &out->replicas[out->replica_count++];
        replica->device = devices->name[i];
        replica->backend = devices->backend[i];
        TRY((out->family == MODEL_SWIN ? load_swin : load_vit)(file, options, &out->preprocess,
                                                               replica));
        say_smaller(out, replica, options->max_batch);
    }
    count_batch(out);
    return ST_OK;
}

static enum status open_file(struct h5 *file, const struct model_options *options,
                             const struct devices *devices, struct model *out) {
    struct preprocess_spec spec;
    out->quiet = options->quiet;
    TRY(model_info_read(file, &out->info));
    TRY(preprocess_spec_read(file, &spec));
    TRY(rule_from_spec(&spec, h5_name(file), &out->preprocess));
    apply_overrides(options, &out->preprocess);
    if (strcmp(out->info.family, "swin") == 0)
        out->family = MODEL_SWIN;
    else if (strcmp(out->info.family, "vit") != 0)
        return fail(ST_FORMAT, "%s: family is '%s', this version runs 'vit' and 'swin'",
                    h5_name(file), out->info.family);
    TRY(open_replicas(file, options, devices, out));
    if (out->family == MODEL_SWIN)
        describe_swin(&out->replicas->swin, out);
    else
        describe_vit(&out->replicas->vit, out);
    return read_labels(file, out->classes, &out->labels);
}

enum status model_open(const char *name, const struct model_options *options,
                       const struct devices *devices, struct model *out) {
    struct h5 *file = NULL;
    enum status st;
    *out = (struct model){0};
    TRY(model_find(name, &file));
    st = open_file(file, options, devices, out);
    if (h5_close(&file) != ST_OK && st == ST_OK) st = ST_IO;
    if (st != ST_OK) model_release(out);
    return st;
}

void model_release(struct model *model) {
    for (int i = 0; i < model->replica_count; i++) {
        vit_release(&model->replicas[i].vit);
        swin_release(&model->replicas[i].swin);
    }
    mem_free(model->replicas);
    labels_release(&model->labels);
    model_info_release(&model->info);
    *model = (struct model){0};
}

struct model_layer model_layer_shape(const struct model *model, int layer) {
    const struct vit *vit = &model->replicas->vit;
    const struct swin *swin = &model->replicas->swin;
    const struct swin_stage *stage;
    if (model->family == MODEL_VIT)
        return (struct model_layer){
            .tokens = vit->tokens, .prefix = vit->prefix, .dim = vit->config.dim};
    stage = &swin->stages[swin_layer_stage(&swin->config, layer)];
    return (struct model_layer){.tokens = stage->tokens, .dim = stage->channels};
}

/* ---- the forward ---------------------------------------------------------------------------- */

/* What one replica does of a forward: `count` images and where their results go. */
struct share {
    struct model *model;
    struct model_replica *replica;
    const uint8_t *pixels; // (count, height, width, 3)
    int count;
    float *logits; // (count, K) or NULL
    struct model_taps taps;
    int first; // the number of its first image
    enum status st;
    char sentence[1024];
    pthread_t thread;
};

static float *moved(float *values, size_t elements) {
    return values ? values + elements : NULL;
}

/* From here on the share begins `count` images later. */
static void advance(struct share *share, int count) {
    const struct model *model = share->model;
    const struct model_layer shape = model_layer_shape(model, share->taps.layer);
    const size_t n = (size_t)count, h = (size_t)model->preprocess.height,
                 w = (size_t)model->preprocess.width;
    share->pixels += n * h * w * 3;
    share->logits = moved(share->logits, n * (size_t)model->classes);
    share->taps.tokens = moved(share->taps.tokens, n * (size_t)shape.tokens * (size_t)shape.dim);
    share->taps.pooled = moved(share->taps.pooled, n * (size_t)model->dim);
    share->first += count;
    share->count -= count;
}

static enum status forward_pass(const struct share *share, int count) {
    const struct model_taps *t = &share->taps;
    struct capture capture = t->capture ? *t->capture : (struct capture){0};
    const struct capture *wanted = t->capture ? &capture : NULL;
    const struct vit_taps vit = {
        .layer = t->layer, .tokens = t->tokens, .pooled = t->pooled, .capture = wanted};
    const struct swin_taps swin = {
        .layer = t->layer, .tokens = t->tokens, .pooled = t->pooled, .capture = wanted};
    struct model_replica *replica = share->replica;
    capture.first += share->first;
    if (share->model->family == MODEL_SWIN)
        return swin_forward(&replica->swin, share->pixels, count, share->logits, &swin);
    return vit_forward(&replica->vit, share->pixels, count, share->logits, &vit);
}

/* After ST_NOMEM: another plan, of half as many images; false when there is none. */
static bool make_do(const struct share *share) {
    struct model_replica *replica = share->replica;
    int batch = max_batch_of(share->model, replica);
    if (!backend_is_gpu(replica->backend) || batch < 2) return false;
    if ((share->model->family == MODEL_SWIN ? swin_plan(&replica->swin, batch / 2)
                                            : vit_plan(&replica->vit, batch / 2)) != ST_OK)
        return false;
    say_smaller(share->model, replica, batch);
    return true;
}

static void *run_share(void *context) {
    struct share *share = context;
    while (share->count > 0 && share->st == ST_OK) {
        int most = max_batch_of(share->model, share->replica);
        int count = share->count < most ? share->count : most;
        share->st = forward_pass(share, count);
        if (share->st == ST_OK)
            advance(share, count);
        else if (share->st == ST_NOMEM && make_do(share))
            share->st = ST_OK;
    }
    if (share->st != ST_OK) snprintf(share->sentence, sizeof share->sentence, "%s", fail_message());
    return NULL;
}

/* Replica i's first image of `batch`: each takes as many as its memory holds of all. */
static int share_begin(const struct model *model, int i, int batch) {
    int64_t before = 0;
    for (int r = 0; r < i; r++)
        before += max_batch_of(model, &model->replicas[r]);
    return (int)(before * batch / model->batch);
}

/* Replica 0 in this thread, the others beside it. */
static enum status run_shares(struct share *shares, int count) {
    bool beside[DEVICES_MOST] = {false};
    for (int i = 1; i < count; i++)
        beside[i] = shares[i].count > 0 &&
                    pthread_create(&shares[i].thread, NULL, run_share, &shares[i]) == 0;
    for (int i = 0; i < count; i++)
        if (!beside[i]) run_share(&shares[i]);
    for (int i = 1; i < count; i++)
        if (beside[i]) pthread_join(shares[i].thread, NULL);
    for (int i = 0; i < count; i++)
        if (shares[i].st != ST_OK) return fail(shares[i].st, "%s", shares[i].sentence);
    return ST_OK;
}

enum status model_forward(struct model *model, const uint8_t *pixels, int batch, float *logits,
                          const struct model_taps *taps) {
    struct share shares[DEVICES_MOST];
    enum status st;
    for (int i = 0; i < model->replica_count; i++) {
        int begin = share_begin(model, i, batch);
        shares[i] = (struct share){.model = model,
                                   .replica = &model->replicas[i],
                                   .pixels = pixels,
                                   .count = batch,
                                   .logits = logits,
                                   .taps = taps ? *taps : (struct model_taps){.layer = -1}};
        advance(&shares[i], begin);
        shares[i].count = share_begin(model, i + 1, batch) - begin;
    }
    st = run_shares(shares, model->replica_count);
    count_batch(model);
    return st;
}

void model_stage(struct model *model, const uint8_t *pixels, int batch) {
    const size_t image = (size_t)model->preprocess.height * (size_t)model->preprocess.width * 3;
    for (int i = 0; pixels && i < model->replica_count; i++) {
        int begin = share_begin(model, i, batch), end = share_begin(model, i + 1, batch);
        if (end > begin && end - begin <= max_batch_of(model, &model->replicas[i]))
            backend_stage(model->replicas[i].backend, pixels + (size_t)begin * image,
                          (size_t)(end - begin) * image);
    }
}

/* ---- their outputs -------------------------------------------------------------------------- */

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

const char *model_class_name(const struct model *model, int index,
                             char number[MODEL_CLASS_NUMBER]) {
    if (index < model->labels.count) return model->labels.name[index];
    snprintf(number, MODEL_CLASS_NUMBER, "class %d", index);
    return number;
}
