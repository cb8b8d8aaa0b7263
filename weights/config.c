/*
 * config: see config.h. The root attributes, the configuration of a ViT, preprocessing, labels and
 * self-test; a Swin's is in config_swin.c.
 */
#include "weights/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/config_fields.h"

#define FORMAT         "vitrine-model"
#define FORMAT_VERSION 1

_Static_assert(sizeof(enum vit_pool) == sizeof(int) && sizeof(enum resample) == sizeof(int) &&
                   sizeof(enum vit_qk_norm) == sizeof(int) &&
                   sizeof(enum vit_positions) == sizeof(int) &&
                   sizeof(enum vit_activation) == sizeof(int),
               "enums are read and written as int");

static const char *const pools[] = {"token", "avg", "none", "map"};
const char *const config_activations[3] = {"gelu", "gelu_tanh", "quick_gelu"};
static const char *const qk_norms[] = {"none", "layer", "rms"};
static const char *const resamples[] = {
    "bicubic_antialias",    "bicubic",  "bicubic_offset", "bicubic_align_corners", "bilinear",
    "linear_align_corners", "geometric"};
static const char *const position_kinds[] = {"none", "learned", "relative", "relative_shared"};
static const char *const mlps[] = {"mlp", "swiglu"};
static const char *const crop_modes[] = {"center", "squash", "border"};
static const char *const interpolations[] = {"nearest", "box",     "bilinear",
                                             "hamming", "bicubic", "lanczos"};
static const char *const crop_roundings[] = {"half_even", "floor"};

/* Bounds are far beyond any model known; they keep products of dims within 64 bits. */
static const struct field vit_fields[] = {
    {"image_size", FIELD_PAIR, IN(vit_config, image_h), RANGE(1, CONFIG_MAX_SIDE)},
    {"patch_size", FIELD_PAIR, IN(vit_config, patch_h), RANGE(1, 1024)},
    {"embed_dim", FIELD_INT, IN(vit_config, dim), RANGE(1, 65536)},
    {"depth", FIELD_INT, IN(vit_config, depth), RANGE(1, 1000)},
    {"num_heads", FIELD_INT, IN(vit_config, heads), RANGE(1, 65536)},
    {"mlp_hidden", FIELD_INT, IN(vit_config, hidden), RANGE(1, 1048576)},
    {"num_classes", FIELD_INT, IN(vit_config, classes), RANGE(0, CONFIG_MAX_CLASSES)},
    {"class_token", FIELD_BOOL, IN(vit_config, class_token), NO_RANGE},
    {"dist_token", FIELD_BOOL, IN(vit_config, dist_token), NO_RANGE},
    {"register_tokens", FIELD_INT, IN(vit_config, registers), RANGE(0, 1024)},
    {"position_embedding", FIELD_ENUM, IN(vit_config, positions), WORDS(position_kinds)},
    {"position_grid", FIELD_PAIR, IN(vit_config, pos_grid_h), RANGE(0, CONFIG_MAX_SIDE)},
    {"position_prefix", FIELD_INT, IN(vit_config, pos_prefix), RANGE(0, 1026)},
    {"position_resample", FIELD_ENUM, IN(vit_config, pos_resample), WORDS(resamples)},
    {"patch_bias", FIELD_BOOL, IN(vit_config, patch_bias), NO_RANGE},
    {"pre_norm", FIELD_BOOL, IN(vit_config, pre_norm), NO_RANGE},
    {"qkv_bias", FIELD_BOOL, IN(vit_config, qkv_bias), NO_RANGE},
    {"layer_scale", FIELD_BOOL, IN(vit_config, layer_scale), NO_RANGE},
    {"qk_norm", FIELD_ENUM, IN(vit_config, qk_norm), WORDS(qk_norms)},
    {"mlp", FIELD_SWITCH, IN(vit_config, swiglu), WORDS(mlps)},
    {"activation", FIELD_ENUM, IN(vit_config, activation), WORDS(config_activations)},
    {"pool", FIELD_ENUM, IN(vit_config, pool), WORDS(pools)},
    {"norm", FIELD_BOOL, IN(vit_config, norm), NO_RANGE},
    {"fc_norm", FIELD_BOOL, IN(vit_config, fc_norm), NO_RANGE},
    {"norm_eps", FIELD_REAL, IN(vit_config, norm_eps), RANGE(1e-30, 0.1)},
};

/* A std of less than 1e-6 would lift one step of a byte beyond what fp32 tells apart. */
static const struct field preprocess_fields[] = {
    {"input_size", FIELD_PAIR, IN(preprocess_spec, height), RANGE(1, CONFIG_MAX_SIDE)},
    {"crop_pct", FIELD_REAL, IN(preprocess_spec, crop_pct), RANGE(0.01, 4)},
    {"crop_mode", FIELD_WORD, IN(preprocess_spec, crop_mode), WORDS(crop_modes)},
    {"interpolation", FIELD_WORD, IN(preprocess_spec, interpolation), WORDS(interpolations)},
    {"crop_rounding", FIELD_WORD, IN(preprocess_spec, crop_rounding), WORDS(crop_roundings)},
    {"mean", FIELD_TRIPLE, IN(preprocess_spec, mean), RANGE(-1000, 1000)},
    {"std", FIELD_TRIPLE, IN(preprocess_spec, std), RANGE(1e-6, 1000)},
};

static const struct {
    const char *name;
    size_t offset;
    bool may_be_empty;
} info_fields[] = {
    {"name", IN(model_info, name), false},
    {"family", IN(model_info, family), false},
    {"architecture", IN(model_info, architecture), false},
    {"source", IN(model_info, source), true},
    {"source_sha256", IN(model_info, source_sha256), true},
    {"license", IN(model_info, license), true},
};

/* Root attributes. */

static char **info_place(struct model_info *info, size_t i) {
    return (char **)((char *)info + info_fields[i].offset);
}

/* A root attribute that is not ours: a word as it is, a number as text. */
static enum status read_note(struct h5 *file, const char *name, struct model_info *out) {
    char *value = NULL, *copy = NULL;
    double number;
    if (h5_get_string(file, "/", name, &value) != ST_OK) {
        TRY(h5_get_double(file, "/", name, -HUGE_VAL, HUGE_VAL, &number));
        value = str_format("%.10g", number);
    }
    copy = str_copy(name);
    if (!value || !copy) {
        mem_free(value);
        mem_free(copy);
        return ST_NOMEM;
    }
    out->note_names[out->notes] = copy;
    out->note_values[out->notes] = value;
    out->notes++;
    return ST_OK;
}

static bool is_note(const char *name) {
    if (strcmp(name, "format") == 0 || strcmp(name, "format_version") == 0) return false;
    for (size_t i = 0; i < COUNT_OF(info_fields); i++) {
        if (strcmp(name, info_fields[i].name) == 0) return false;
    }
    return true;
}

static enum status read_notes(struct h5 *file, struct model_info *out) {
    char **names = NULL;
    size_t count = 0;
    enum status st;
    TRY(h5_attribute_names(file, "/", &names, &count));
    out->note_names = mem_zalloc(count, sizeof *out->note_names);
    out->note_values = mem_zalloc(count, sizeof *out->note_values);
    st = out->note_names && out->note_values ? ST_OK : ST_NOMEM;
    for (size_t i = 0; i < count && st == ST_OK; i++) {
        if (is_note(names[i])) st = read_note(file, names[i], out);
    }
    h5_free_names(names, count);
    return st;
}

static enum status check_format(struct h5 *file) {
    char *format = NULL;
    int version;
    bool ours;
    if (!h5_has_attribute(file, "/", "format"))
        return fail(ST_FORMAT, "%s: is HDF5 but no vitrine model (no attribute 'format'); %s",
                    h5_name(file), "see 'vitrine convert --help'");
    TRY(h5_get_string(file, "/", "format", &format));
    ours = strcmp(format, FORMAT) == 0;
    if (!ours)
        (void)fail(ST_FORMAT, "%s: format is '%.64s', expected '%s'", h5_name(file), format,
                   FORMAT);
    mem_free(format);
    if (!ours) return ST_FORMAT;
    TRY(h5_get_int(file, "/", "format_version", 1, 1000000, &version));
    if (version != FORMAT_VERSION)
        return fail(ST_FORMAT, "%s: format_version is %d, this program reads %d", h5_name(file),
                    version, FORMAT_VERSION);
    return ST_OK;
}

static enum status check_family(const char *file, const char *family) {
    if (strcmp(family, "vit") == 0 || strcmp(family, "swin") == 0) return ST_OK;
    return fail(ST_FORMAT, "%s: family is '%.64s', expected one of: vit, swin", file, family);
}

enum status model_info_read(struct h5 *file, struct model_info *out) {
    struct model_info info = {0};
    enum status st;
    memset(out, 0, sizeof *out);
    TRY_OUT(check_format(file));
    for (size_t i = 0; i < COUNT_OF(info_fields); i++) {
        TRY_OUT(h5_get_string(file, "/", info_fields[i].name, info_place(&info, i)));
        if (!info_fields[i].may_be_empty && !(*info_place(&info, i))[0]) {
            st = fail(ST_FORMAT, "%s: attribute %s is empty", h5_name(file), info_fields[i].name);
            goto out;
        }
    }
    TRY_OUT(check_family(h5_name(file), info.family));
    TRY_OUT(read_notes(file, &info));
    *out = info;
    info = (struct model_info){0};
out:
    model_info_release(&info);
    return st;
}

enum status model_info_write(struct h5 *file, const struct model_info *info) {
    TRY(check_family(h5_name(file), info->family ? info->family : ""));
    TRY(h5_set_string(file, "/", "format", FORMAT));
    TRY(h5_set_int(file, "/", "format_version", FORMAT_VERSION));
    for (size_t i = 0; i < COUNT_OF(info_fields); i++) {
        const char *value = *(char *const *)((const char *)info + info_fields[i].offset);
        if (!info_fields[i].may_be_empty && (!value || !value[0]))
            return fail(ST_USAGE, "%s: a model needs a %s", h5_name(file), info_fields[i].name);
        TRY(h5_set_string(file, "/", info_fields[i].name, value ? value : ""));
    }
    for (size_t i = 0; i < info->notes; i++) {
        if (!is_note(info->note_names[i]))
            return fail(ST_USAGE, "%s: a note cannot be called '%s'", h5_name(file),
                        info->note_names[i]);
        TRY(h5_set_string(file, "/", info->note_names[i], info->note_values[i]));
    }
    return ST_OK;
}

void model_info_release(struct model_info *info) {
    for (size_t i = 0; i < COUNT_OF(info_fields); i++)
        mem_free(*info_place(info, i));
    h5_free_names(info->note_names, info->notes);
    h5_free_names(info->note_values, info->notes);
    memset(info, 0, sizeof *info);
}

/* The configuration of a ViT. */

int vit_config_prefix(const struct vit_config *config) {
    return config->class_token + config->dist_token + config->registers;
}

bool vit_config_relative(const struct vit_config *config) {
    return config->positions == POSITIONS_RELATIVE ||
           config->positions == POSITIONS_RELATIVE_SHARED;
}

int vit_config_bias_rows(const struct vit_config *config) {
    return (2 * config->pos_grid_h - 1) * (2 * config->pos_grid_w - 1) +
           (vit_config_prefix(config) > 0 ? 3 : 0);
}

static enum status check_tokens(const struct vit_config *c, const char *file) {
    const int prefix = vit_config_prefix(c);
    if (c->pos_prefix != 0 && c->pos_prefix != prefix)
        return fail(ST_FORMAT,
                    "%s: /config: position_prefix is %d, expected 0 or the %d prefix tokens", file,
                    c->pos_prefix, prefix);
    if (c->positions && (c->pos_grid_h < 1 || c->pos_grid_w < 1))
        return fail(ST_FORMAT, "%s: /config: position_grid is (%d, %d), expected at least (1, 1)",
                    file, c->pos_grid_h, c->pos_grid_w);
    if (vit_config_relative(c) && c->pos_prefix)
        return fail(ST_FORMAT,
                    "%s: /config: position_prefix is %d, expected 0 with relative positions", file,
                    c->pos_prefix);
    if (c->positions == POSITIONS_LEARNED && c->pos_resample == RESAMPLE_GEOMETRIC)
        return fail(ST_FORMAT,
                    "%s: /config: position_resample is 'geometric', which is for relative "
                    "positions, expected a rule for learned ones",
                    file);
    if (!c->positions && (c->pos_grid_h || c->pos_grid_w || c->pos_prefix))
        return fail(ST_FORMAT,
                    "%s: /config: position_embedding is 'none', but position_grid is (%d, %d), "
                    "position_prefix %d, expected zeros",
                    file, c->pos_grid_h, c->pos_grid_w, c->pos_prefix);
    if (c->dist_token && !c->class_token)
        return fail(ST_FORMAT, "%s: /config: dist_token without class_token", file);
    if (c->pool == POOL_TOKEN && prefix == 0)
        return fail(ST_FORMAT,
                    "%s: /config: pool is 'token', but there is no token before the patches", file);
    return ST_OK;
}

enum status vit_config_check(const struct vit_config *c, const char *file) {
    TRY(fields_check(file, "/config", vit_fields, COUNT_OF(vit_fields), c));
    if (c->dim % c->heads != 0)
        return fail(ST_FORMAT, "%s: /config: embed_dim %d is no multiple of num_heads %d", file,
                    c->dim, c->heads);
    if (c->image_h < c->patch_h || c->image_w < c->patch_w)
        return fail(ST_FORMAT,
                    "%s: /config: image_size (%d, %d) is smaller than patch_size (%d, %d)", file,
                    c->image_h, c->image_w, c->patch_h, c->patch_w);
    return check_tokens(c, file);
}

enum status vit_config_read(struct h5 *file, struct vit_config *out) {
    struct vit_config config = {0};
    TRY(fields_read(file, "/config", vit_fields, COUNT_OF(vit_fields), &config));
    TRY(vit_config_check(&config, h5_name(file)));
    *out = config;
    return ST_OK;
}

enum status vit_config_write(struct h5 *file, const struct vit_config *config) {
    TRY(vit_config_check(config, h5_name(file)));
    return fields_write(file, "/config", vit_fields, COUNT_OF(vit_fields), config);
}

const char *vit_pool_name(enum vit_pool pool) {
    return word_at(pools, COUNT_OF(pools), (size_t)pool);
}

const char *vit_activation_name(enum vit_activation activation) {
    return word_at(config_activations, COUNT_OF(config_activations), (size_t)activation);
}

const char *vit_qk_norm_name(enum vit_qk_norm qk_norm) {
    return word_at(qk_norms, COUNT_OF(qk_norms), (size_t)qk_norm);
}

const char *resample_name(enum resample resample) {
    return word_at(resamples, COUNT_OF(resamples), (size_t)resample);
}

bool vit_activation_find(const char *name, enum vit_activation *out) {
    int index = word_find(config_activations, (int)COUNT_OF(config_activations), name);
    if (index < 0) return false;
    *out = (enum vit_activation)index;
    return true;
}

/* Preprocessing, labels, self-test. */

enum status preprocess_spec_read(struct h5 *file, struct preprocess_spec *out) {
    struct preprocess_spec spec = {0};
    TRY(fields_read(file, "/preprocess", preprocess_fields, COUNT_OF(preprocess_fields), &spec));
    *out = spec;
    return ST_OK;
}

enum status preprocess_spec_write(struct h5 *file, const struct preprocess_spec *spec) {
    return fields_write(file, "/preprocess", preprocess_fields, COUNT_OF(preprocess_fields), spec);
}

static enum status read_labels(struct h5 *file, const char *dataset, int classes, char ***out) {
    size_t count = 0;
    TRY(h5_read_strings(file, dataset, CONFIG_MAX_CLASSES, out, &count));
    for (size_t i = 0; i < count; i++) {
        /* A label is one cell of a table: the line ends and tabs that notes may have break it. */
        if (!(*out)[i][0] || strpbrk((*out)[i], "\n\t")) {
            h5_free_names(*out, count);
            *out = NULL;
            return fail(ST_FORMAT, "%s: %s: label %zu is empty or has a line end or tab",
                        h5_name(file), dataset, i);
        }
    }
    if (count == (size_t)classes) return ST_OK;
    h5_free_names(*out, count);
    *out = NULL;
    return fail(ST_FORMAT, "%s: %s: has %zu labels, expected one for each of %d classes",
                h5_name(file), dataset, count, classes);
}

enum status labels_group_read(struct h5 *file, int classes, char ***ids, char ***names,
                              size_t *count) {
    enum status st;
    *ids = *names = NULL;
    *count = 0;
    if (!h5_has(file, "/labels")) return ST_OK;
    TRY(read_labels(file, "/labels/id", classes, ids));
    st = read_labels(file, "/labels/name", classes, names);
    if (st == ST_OK) {
        *count = (size_t)classes;
    } else {
        h5_free_names(*ids, (size_t)classes);
        *ids = NULL;
    }
    return st;
}

enum status labels_group_write(struct h5 *file, int count, const char *const *ids,
                               const char *const *names) {
    if (count < 1 || count > CONFIG_MAX_CLASSES)
        return fail(ST_USAGE, "%s: %d labels, expected 1 to %d", h5_name(file), count,
                    CONFIG_MAX_CLASSES);
    for (int i = 0; i < count; i++) {
        if (!ids[i][0] || !names[i][0] || strpbrk(ids[i], "\n\t") || strpbrk(names[i], "\n\t"))
            return fail(ST_USAGE, "%s: label %d is empty or has a line end or tab", h5_name(file),
                        i);
    }
    TRY(h5_make_group(file, "/labels"));
    TRY(h5_write_strings(file, "/labels/id", ids, (size_t)count));
    return h5_write_strings(file, "/labels/name", names, (size_t)count);
}

static enum status read_selftest(struct h5 *file, struct selftest *test) {
    struct h5_dataset image = {0}, expected = {0};
    enum status st;
    size_t pixels = 0;
    char shape[200];
    TRY_OUT(h5_info(file, "/selftest/image", &image));
    TRY_OUT(h5_info(file, "/selftest/expected", &expected));
    if (image.rank != 3 || image.dims[2] != 3 || image.dims[0] < 1 ||
        image.dims[0] > CONFIG_MAX_SIDE || image.dims[1] < 1 || image.dims[1] > CONFIG_MAX_SIDE) {
        st = fail(ST_FORMAT, "%s: /selftest/image: is %s, expected (height, width, 3)",
                  h5_name(file), shape_text(image.dims, image.rank, shape, sizeof shape));
        goto out;
    }
    if (expected.rank != 1 || expected.dims[0] < 1 || expected.dims[0] > CONFIG_MAX_CLASSES) {
        st = fail(ST_FORMAT, "%s: /selftest/expected: is %s, expected one number a class",
                  h5_name(file), shape_text(expected.dims, expected.rank, shape, sizeof shape));
        goto out;
    }
    test->height = (int)image.dims[0];
    test->width = (int)image.dims[1];
    test->count = expected.dims[0];
    pixels = image.dims[0] * image.dims[1] * 3;
    test->image = mem_zalloc(pixels, 1);
    test->expected = mem_zalloc(test->count, sizeof(float));
    if (!test->image || !test->expected) TRY_OUT(ST_NOMEM);
    TRY_OUT(h5_read_raw(file, "/selftest/image", DT_U8, test->image, pixels));
    TRY_OUT(h5_read_f32(file, "/selftest/expected", test->expected, test->count));
    TRY_OUT(h5_get_double(file, "/selftest", "tolerance", 0, 1, &test->tolerance));
    TRY_OUT(h5_get_string(file, "/selftest", "origin", &test->origin));
    for (size_t i = 0; i < test->count && st == ST_OK; i++) {
        if (!isfinite(test->expected[i]))
            st = fail(ST_FORMAT, "%s: /selftest/expected: number %zu is not finite", h5_name(file),
                      i);
    }
out:
    mem_free(image.name);
    mem_free(expected.name);
    return st;
}

enum status selftest_read(struct h5 *file, struct selftest *out) {
    struct selftest test = {0};
    enum status st;
    memset(out, 0, sizeof *out);
    if (!h5_has(file, "/selftest")) return ST_OK;
    st = read_selftest(file, &test);
    if (st == ST_OK)
        *out = test;
    else
        selftest_release(&test);
    return st;
}

enum status selftest_write(struct h5 *file, const struct selftest *test) {
    const size_t image[3] = {(size_t)test->height, (size_t)test->width, 3};
    TRY(h5_make_group(file, "/selftest"));
    TRY(h5_write(file, "/selftest/image", DT_U8, 3, image, test->image));
    TRY(h5_write(file, "/selftest/expected", DT_F32, 1, &test->count, test->expected));
    TRY(h5_set_double(file, "/selftest", "tolerance", test->tolerance));
    return h5_set_string(file, "/selftest", "origin", test->origin);
}

void selftest_release(struct selftest *test) {
    mem_free(test->image);
    mem_free(test->expected);
    mem_free(test->origin);
    memset(test, 0, sizeof *test);
}
