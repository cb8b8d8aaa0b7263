/*
 * test_config: every group of a model file written and read back, and for every attribute what is
 * refused: missing, of the wrong type, out of range, an unknown word, an impossible combination.
 */
#include "weights/config.h" // before cmocka.h, which has a macro `fail`

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/vitrine-config-XXXXXX";

static int make_path(void **state) {
    int fd = mkstemp(path);
    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void ok(enum status st) {
    if (st != ST_OK) fail_msg("%s: %s", status_name(st), fail_message());
}

static void refused(enum status st, enum status want, const char *words) {
    if (st == ST_OK) fail_msg("accepted, expected '%s'", words);
    if (st != want || !strstr(fail_message(), words))
        fail_msg("%s: '%s', expected %s: '%s'", status_name(st), fail_message(), status_name(want),
                 words);
}

/* Every member has another value than zero and, where there are two alike, than its neighbour. */
static const struct vit_config full_config = {
    .image_h = 224,
    .image_w = 160,
    .patch_h = 16,
    .patch_w = 14,
    .dim = 384,
    .depth = 12,
    .heads = 6,
    .hidden = 1536,
    .classes = 10,
    .class_token = true,
    .dist_token = true,
    .registers = 4,
    .positions = POSITIONS_LEARNED,
    .pos_grid_h = 14,
    .pos_grid_w = 11,
    .pos_prefix = 6,
    .pos_resample = RESAMPLE_BICUBIC_OFFSET,
    .patch_bias = true,
    .pre_norm = true,
    .qkv_bias = true,
    .layer_scale = true,
    .qk_norm = QK_RMS,
    .swiglu = true,
    .activation = ACT_QUICK_GELU,
    .pool = POOL_MAP,
    .norm = true,
    .fc_norm = true,
    .norm_eps = 1e-6,
};

static const struct preprocess_spec full_spec = {
    .height = 224,
    .width = 160,
    .crop_pct = 0.875,
    .crop_mode = "border",
    .interpolation = "lanczos",
    .crop_rounding = "floor",
    .mean = {0.485, 0.456, 0.406},
    .std = {0.229, 0.224, 0.225},
};

static struct model_info full_info(void) {
    static char name[] = "vit-test", family[] = "vit", architecture[] = "vit_small",
                source[] = "here", sha[] = "", license[] = "MIT", note[] = "recipe",
                value[] = "two\nlines";
    static char *note_names[] = {note}, *note_values[] = {value};
    struct model_info info = {name,    family,     architecture, source, sha,
                              license, note_names, note_values,  1};
    return info;
}

/* A whole model file but for parameters; the file is left open for writing. */
static struct h5 *create_model(void) {
    const struct model_info info = full_info();
    struct h5 *file;
    ok(h5_create(path, &file));
    ok(model_info_write(file, &info));
    ok(vit_config_write(file, &full_config));
    ok(preprocess_spec_write(file, &full_spec));
    return file;
}

static struct h5 *reopen(struct h5 *file) {
    ok(h5_close(&file));
    ok(h5_open(path, &file));
    return file;
}

static void assert_config(const struct vit_config *a, const struct vit_config *b) {
    assert_int_equal(a->image_h, b->image_h);
    assert_int_equal(a->image_w, b->image_w);
    assert_int_equal(a->patch_h, b->patch_h);
    assert_int_equal(a->patch_w, b->patch_w);
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->depth, b->depth);
    assert_int_equal(a->heads, b->heads);
    assert_int_equal(a->hidden, b->hidden);
    assert_int_equal(a->classes, b->classes);
    assert_int_equal(a->class_token, b->class_token);
    assert_int_equal(a->dist_token, b->dist_token);
    assert_int_equal(a->registers, b->registers);
    assert_int_equal(a->positions, b->positions);
    assert_int_equal(a->pos_grid_h, b->pos_grid_h);
    assert_int_equal(a->pos_grid_w, b->pos_grid_w);
    assert_int_equal(a->pos_prefix, b->pos_prefix);
    assert_int_equal(a->pos_resample, b->pos_resample);
    assert_int_equal(a->patch_bias, b->patch_bias);
    assert_int_equal(a->pre_norm, b->pre_norm);
    assert_int_equal(a->qkv_bias, b->qkv_bias);
    assert_int_equal(a->layer_scale, b->layer_scale);
    assert_int_equal(a->qk_norm, b->qk_norm);
    assert_int_equal(a->swiglu, b->swiglu);
    assert_int_equal(a->activation, b->activation);
    assert_int_equal(a->pool, b->pool);
    assert_int_equal(a->norm, b->norm);
    assert_int_equal(a->fc_norm, b->fc_norm);
    assert_true(a->norm_eps == b->norm_eps);
}

static void test_config_round_trip(void **state) {
    struct vit_config bare = {.image_h = 32,
                              .image_w = 32,
                              .patch_h = 32,
                              .patch_w = 32,
                              .dim = 1,
                              .depth = 1,
                              .heads = 1,
                              .hidden = 1,
                              .pool = POOL_NONE,
                              .norm_eps = 0.1};
    struct vit_config read;
    struct h5 *file = reopen(create_model());
    (void)state;
    ok(vit_config_read(file, &read));
    assert_config(&read, &full_config);
    assert_int_equal(vit_config_prefix(&read), 6);
    ok(h5_close(&file));
    ok(h5_create(path, &file));
    ok(vit_config_write(file, &bare));
    file = reopen(file);
    ok(vit_config_read(file, &read));
    assert_config(&read, &bare);
    ok(h5_close(&file));
}

/* The attribute's value in a model file that is right otherwise, and what the reader says to it. */
enum value_kind { ABSENT, INT, INTS, REAL, REALS, WORD };
struct bad_row {
    const char *name;
    enum value_kind kind;
    double a, b;
    const char *word, *says;
};

/* HDF5 has no call in h5.h that deletes an attribute: the row's file is written without it. */
static void write_bad(struct h5 *file, const char *group, const struct bad_row *row) {
    const int ints[2] = {(int)row->a, (int)row->b};
    const double reals[3] = {row->a, row->b, 1};
    switch (row->kind) {
    case ABSENT: break;
    case INT: ok(h5_set_int(file, group, row->name, ints[0])); break;
    case INTS: ok(h5_set_ints(file, group, row->name, 2, ints)); break;
    case REAL: ok(h5_set_double(file, group, row->name, row->a)); break;
    case REALS: ok(h5_set_doubles(file, group, row->name, 3, reals)); break;
    case WORD: ok(h5_set_string(file, group, row->name, row->word)); break;
    }
}

static void test_config_refused(void **state) {
    static const struct bad_row rows[] = {
        {"image_size", INTS, 0, 224, NULL, "image_size is 0, expected 1 to 16384"},
        {"image_size", INTS, 224, 16385, NULL, "image_size is 16385, expected 1 to 16384"},
        {"image_size", INTS, 224, 13, NULL, "image_size (224, 13) is smaller than patch_size"},
        {"image_size", INT, 224, 0, NULL, "image_size has 1 elements"},
        {"patch_size", INTS, -1, 16, NULL, "patch_size is -1, expected 1 to 1024"},
        {"embed_dim", INT, 65537, 0, NULL, "embed_dim is 65537"},
        {"embed_dim", INT, 385, 0, NULL, "embed_dim 385 is no multiple of num_heads 6"},
        {"embed_dim", REAL, 384, 0, NULL, "embed_dim is a floating-point number"},
        {"embed_dim", WORD, 0, 0, "384", "embed_dim is a string"},
        {"depth", INT, 0, 0, NULL, "depth is 0, expected 1 to 1000"},
        {"depth", INT, 1001, 0, NULL, "depth is 1001"},
        {"num_heads", INT, 0, 0, NULL, "num_heads is 0"},
        {"num_heads", INT, 768, 0, NULL, "embed_dim 384 is no multiple of num_heads 768"},
        {"mlp_hidden", INT, 1048577, 0, NULL, "mlp_hidden is 1048577"},
        {"num_classes", INT, -1, 0, NULL, "num_classes is -1, expected 0 to 1000000"},
        {"num_classes", INT, 1000001, 0, NULL, "num_classes is 1000001"},
        {"class_token", INT, 2, 0, NULL, "class_token is 2, expected 0 to 1"},
        {"class_token", INT, 0, 0, NULL, "position_prefix is 6, expected 0 or the 5"},
        {"register_tokens", INT, 1025, 0, NULL, "register_tokens is 1025"},
        {"register_tokens", INT, 3, 0, NULL, "position_prefix is 6, expected 0 or the 5"},
        {"position_embedding", WORD, 0, 0, "rope", "'rope', expected one of: none, learned"},
        {"position_embedding", WORD, 0, 0, "relative", "position_prefix is 6, expected 0 with"},
        {"position_resample", WORD, 0, 0, "geometric", "'geometric', which is for relative"},
        {"position_embedding", WORD, 0, 0, "none", "but position_grid is (14, 11)"},
        {"position_grid", INTS, 0, 14, NULL, "position_grid is (0, 14), expected at least"},
        {"position_prefix", INT, 5, 0, NULL, "position_prefix is 5, expected 0 or the 6"},
        {"position_resample", WORD, 0, 0, "nearest",
         "'nearest', expected one of: bicubic_antialias"},
        {"patch_bias", INT, -1, 0, NULL, "patch_bias is -1"},
        {"pre_norm", WORD, 0, 0, "yes", "pre_norm is a string"},
        {"qkv_bias", REAL, 1, 0, NULL, "qkv_bias is a floating-point number"},
        {"layer_scale", INT, 7, 0, NULL, "layer_scale is 7"},
        {"qk_norm", WORD, 0, 0, "batch", "'batch', expected one of: none, layer, rms"},
        {"mlp", WORD, 0, 0, "geglu", "mlp is 'geglu', expected one of: mlp, swiglu"},
        {"activation", WORD, 0, 0, "relu", "'relu', expected one of: gelu, gelu_tanh, quick_gelu"},
        {"activation", WORD, 0, 0, "", "activation is '', expected one of"},
        {"activation", INT, 1, 0, NULL, "activation is an integer, expected a string"},
        {"pool", WORD, 0, 0, "Token", "pool is 'Token', expected one of: token, avg, none, map"},
        {"norm", INT, 2, 0, NULL, "norm is 2"},
        {"fc_norm", INT, 2, 0, NULL, "fc_norm is 2"},
        {"norm_eps", REAL, 0, 0, NULL, "norm_eps is 0, expected 1e-30 to 0.1"},
        {"norm_eps", REAL, 0.2, 0, NULL, "norm_eps is 0.2"},
        {"norm_eps", REAL, NAN, 0, NULL, "norm_eps is nan"},
        {"norm_eps", REAL, -1e-6, 0, NULL, "norm_eps is -1e-06"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct vit_config read = {.dim = -7};
        struct h5 *file = create_model();
        write_bad(file, "/config", &rows[i]);
        file = reopen(file);
        refused(vit_config_read(file, &read), ST_FORMAT, rows[i].says);
        assert_memory_equal(fail_message(), path, strlen(path));
        assert_int_equal(read.dim, -7); /* untouched */
        ok(h5_close(&file));
    }
}

/* Combinations that a writer may be about to make; the reader refuses by the same function. */
static void test_config_check(void **state) {
    struct vit_config c = full_config;
    struct h5 *file;
    (void)state;
    ok(vit_config_check(&c, "f"));
    c.class_token = false;
    c.pos_prefix = 0;
    refused(vit_config_check(&c, "f"), ST_FORMAT, "f: /config: dist_token without class_token");
    c.dist_token = false;
    c.registers = 0;
    c.pool = POOL_TOKEN;
    refused(vit_config_check(&c, "f"), ST_FORMAT, "pool is 'token', but there is no token");
    c.pool = POOL_AVG;
    ok(vit_config_check(&c, "f"));
    c.pool = (enum vit_pool)4;
    refused(vit_config_check(&c, "f"), ST_FORMAT, "pool is 'unknown'");
    c.pool = POOL_AVG;
    c.dim = 0;
    refused(vit_config_check(&c, "f"), ST_FORMAT, "embed_dim is 0");
    ok(h5_create(path, &file));
    refused(vit_config_write(file, &c), ST_FORMAT, "embed_dim is 0");
    assert_false(h5_has(file, "/config"));
    ok(h5_close(&file));
}

/* Copies attribute `name` of a group, whichever of the kinds of create_model it is. */
static void copy_attribute(struct h5 *from, struct h5 *to, const char *group, const char *name) {
    int pair[2];
    double triple[3];
    char *text;
    if (h5_get_string(from, group, name, &text) == ST_OK) {
        ok(h5_set_string(to, group, name, text));
        mem_free(text);
    } else if (h5_get_ints(from, group, name, 2, 0, 1 << 30, pair) == ST_OK) {
        ok(h5_set_ints(to, group, name, 2, pair));
    } else if (h5_get_int(from, group, name, 0, 1 << 30, pair) == ST_OK) {
        ok(h5_set_int(to, group, name, pair[0]));
    } else if (h5_get_double(from, group, name, 0, 10, triple) == ST_OK) {
        ok(h5_set_double(to, group, name, triple[0]));
    } else {
        ok(h5_get_doubles(from, group, name, 3, 0, 10, triple));
        ok(h5_set_doubles(to, group, name, 3, triple));
    }
}

/* The README's list: every attribute of a group must be there. */
static void test_missing(void **state) {
    static const char *const groups[] = {"/config", "/preprocess"};
    struct h5 *full = reopen(create_model());
    (void)state;
    for (size_t g = 0; g < COUNT_OF(groups); g++) {
        char **names, words[64];
        size_t count;
        ok(h5_attribute_names(full, groups[g], &names, &count));
        assert_int_equal(count, g == 0 ? 25 : 7);
        for (size_t missing = 0; missing < count; missing++) {
            char other[] = "/tmp/vitrine-missing-XXXXXX";
            int fd = mkstemp(other);
            struct vit_config config;
            struct preprocess_spec spec;
            struct h5 *file;
            assert_true(fd >= 0 && close(fd) == 0);
            ok(h5_create(other, &file));
            ok(h5_make_group(file, groups[g]));
            for (size_t i = 0; i < count; i++) {
                if (i != missing) copy_attribute(full, file, groups[g], names[i]);
            }
            snprintf(words, sizeof words, "%s: attribute %s is missing", groups[g], names[missing]);
            refused(g == 0 ? vit_config_read(file, &config) : preprocess_spec_read(file, &spec),
                    ST_FORMAT, words);
            ok(h5_close(&file));
            unlink(other);
        }
        h5_free_names(names, count);
    }
    ok(h5_close(&full));
    ok(h5_create(path, &full));
    refused(vit_config_read(full, &(struct vit_config){0}), ST_FORMAT, "/config: is missing");
    refused(preprocess_spec_read(full, &(struct preprocess_spec){0}), ST_FORMAT,
            "/preprocess: is missing");
    ok(h5_close(&full));
}

static void test_preprocess(void **state) {
    static const struct bad_row rows[] = {
        {"input_size", INTS, 0, 224, NULL, "input_size is 0, expected 1 to 16384"},
        {"input_size", INTS, 224, 20000, NULL, "input_size is 20000"},
        {"crop_pct", REAL, 0, 0, NULL, "crop_pct is 0, expected 0.01 to 4"},
        {"crop_pct", REAL, 4.5, 0, NULL, "crop_pct is 4.5"},
        {"crop_pct", REAL, NAN, 0, NULL, "crop_pct is nan"},
        {"crop_pct", WORD, 0, 0, "0.9", "crop_pct is a string"},
        {"crop_mode", WORD, 0, 0, "centre", "'centre', expected one of: center, squash, border"},
        {"crop_mode", WORD, 0, 0, "a word longer than its sixteen bytes",
         "expected one of: center"},
        {"interpolation", WORD, 0, 0, "cubic", "'cubic', expected one of: nearest, box, bilinear"},
        {"crop_rounding", WORD, 0, 0, "up", "'up', expected one of: half_even, floor"},
        {"mean", REAL, 0.5, 0, NULL, "mean has 1 elements"},
        {"mean", REALS, INFINITY, 0, NULL, "mean is inf"},
        {"mean", REALS, 0.5, 1001, NULL, "mean is 1001"},
        {"std", REALS, 0.5, 0, NULL, "std is 0, expected 1e-06 to 1000"},
        {"std", REALS, -0.5, 1, NULL, "std is -0.5"},
        {"std", REALS, 1, NAN, NULL, "std is nan"},
    };
    struct preprocess_spec read;
    struct h5 *file = reopen(create_model());
    (void)state;
    ok(preprocess_spec_read(file, &read));
    assert_int_equal(read.height, 224);
    assert_int_equal(read.width, 160);
    assert_true(read.crop_pct == 0.875);
    assert_string_equal(read.crop_mode, "border");
    assert_string_equal(read.interpolation, "lanczos");
    assert_string_equal(read.crop_rounding, "floor");
    assert_memory_equal(read.mean, full_spec.mean, sizeof read.mean);
    assert_memory_equal(read.std, full_spec.std, sizeof read.std);
    ok(h5_close(&file));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        file = create_model();
        write_bad(file, "/preprocess", &rows[i]);
        file = reopen(file);
        refused(preprocess_spec_read(file, &read), ST_FORMAT, rows[i].says);
        ok(h5_close(&file));
    }
}

static void test_info(void **state) {
    static const struct bad_row rows[] = {
        {"format", WORD, 0, 0, "keras", "format is 'keras', expected 'vitrine-model'"},
        {"format", INT, 1, 0, NULL, "attribute format is an integer"},
        {"format_version", INT, 2, 0, NULL, "format_version is 2, this program reads 1"},
        {"format_version", INT, 0, 0, NULL, "format_version is 0"},
        {"format_version", WORD, 0, 0, "1", "format_version is a string"},
        {"name", WORD, 0, 0, "", "attribute name is empty"},
        {"name", INT, 1, 0, NULL, "attribute name is an integer"},
        {"family", WORD, 0, 0, "resnet", "family is 'resnet', expected one of: vit, swin"},
        {"architecture", WORD, 0, 0, "", "attribute architecture is empty"},
        {"note", INTS, 1, 2, NULL, "attribute note has 2 elements"},
    };
    struct model_info read, info = full_info();
    struct h5 *file = create_model();
    (void)state;
    ok(h5_set_double(file, "/", "accuracy", 0.9125));
    file = reopen(file);
    ok(model_info_read(file, &read));
    assert_string_equal(read.name, "vit-test");
    assert_string_equal(read.family, "vit");
    assert_string_equal(read.architecture, "vit_small");
    assert_string_equal(read.source, "here");
    assert_string_equal(read.source_sha256, "");
    assert_string_equal(read.license, "MIT");
    assert_int_equal(read.notes, 2);
    assert_string_equal(read.note_names[0], "accuracy");
    assert_string_equal(read.note_values[0], "0.9125");
    assert_string_equal(read.note_names[1], "recipe");
    assert_string_equal(read.note_values[1], "two\nlines");
    model_info_release(&read);
    model_info_release(&read);
    ok(h5_close(&file));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        file = create_model();
        write_bad(file, "/", &rows[i]);
        file = reopen(file);
        refused(model_info_read(file, &read), ST_FORMAT, rows[i].says);
        assert_null(read.name);
        ok(h5_close(&file));
    }
    ok(h5_create(path, &file));
    refused(model_info_read(file, &read), ST_FORMAT, "is HDF5 but no vitrine model");
    ok(h5_set_string(file, "/", "format", "vitrine-model"));
    ok(h5_set_int(file, "/", "format_version", 1));
    refused(model_info_read(file, &read), ST_FORMAT, "attribute name is missing");
    info.name = NULL;
    refused(model_info_write(file, &info), ST_USAGE, "a model needs a name");
    info = full_info();
    info.note_names = (char *[]){(char[]){"license"}};
    refused(model_info_write(file, &info), ST_USAGE, "a note cannot be called 'license'");
    ok(h5_close(&file));
}

static void test_labels(void **state) {
    static const char *const ids[] = {"n01", "n02", "n03"}, *const names[] = {"cat", "dog", "dog"};
    static const char *const gap[] = {"cat", "", "dog"}, *const tab[] = {"cat", "d\tog", "dog"};
    char **read_ids, **read_names;
    size_t count;
    struct h5 *file = create_model();
    (void)state;
    ok(labels_group_read(file, 3, &read_ids, &read_names, &count));
    assert_int_equal(count, 0);
    refused(labels_group_write(file, 0, ids, names), ST_USAGE, "0 labels");
    refused(labels_group_write(file, 3, ids, gap), ST_USAGE, "label 1 is empty");
    refused(labels_group_write(file, 3, tab, names), ST_USAGE,
            "label 1 is empty or has a line end");
    ok(labels_group_write(file, 3, ids, names));
    file = reopen(file);
    ok(labels_group_read(file, 3, &read_ids, &read_names, &count));
    assert_int_equal(count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(read_ids[i], ids[i]);
        assert_string_equal(read_names[i], names[i]);
    }
    h5_free_names(read_ids, count);
    h5_free_names(read_names, count);
    refused(labels_group_read(file, 4, &read_ids, &read_names, &count), ST_FORMAT,
            "/labels/id: has 3 labels, expected one for each of 4 classes");
    ok(h5_close(&file));
    for (int bad = 0; bad < 4; bad++) {
        static const char *const says[] = {"/labels/id: is missing", "/labels/name: is missing",
                                           "/labels/name: has 2 labels", "/labels/name: label 1"};
        file = create_model();
        ok(h5_make_group(file, "/labels"));
        if (bad > 0) ok(h5_write_strings(file, "/labels/id", ids, 3));
        if (bad == 2) ok(h5_write_strings(file, "/labels/name", names, 2));
        if (bad == 3) ok(h5_write_strings(file, "/labels/name", tab, 3));
        file = reopen(file);
        refused(labels_group_read(file, 3, &read_ids, &read_names, &count),
                bad < 2 ? ST_SHAPE : ST_FORMAT, says[bad]);
        assert_true(!read_ids && !read_names && count == 0);
        ok(h5_close(&file));
    }
}

static void test_selftest(void **state) {
    uint8_t image[2 * 5 * 3];
    float expected[4] = {1, -2, 3, 0.5f};
    char origin[] = "torch";
    struct selftest test = {2, 5, image, expected, 4, 1e-4, origin}, read;
    struct h5 *file = create_model();
    (void)state;
    for (size_t i = 0; i < sizeof image; i++)
        image[i] = (uint8_t)(i * 8);
    ok(selftest_read(file, &read));
    assert_null(read.image);
    ok(selftest_write(file, &test));
    file = reopen(file);
    ok(selftest_read(file, &read));
    assert_int_equal(read.height, 2);
    assert_int_equal(read.width, 5);
    assert_int_equal(read.count, 4);
    assert_memory_equal(read.image, image, sizeof image);
    assert_memory_equal(read.expected, expected, sizeof expected);
    assert_true(read.tolerance == 1e-4);
    assert_string_equal(read.origin, "torch");
    selftest_release(&read);
    selftest_release(&read);
    ok(h5_close(&file));
    for (int bad = 0; bad < 8; bad++) {
        static const char *const says[] = {"/selftest/image: is missing",
                                           "is (2, 5, 3, 1), expected (height, width, 3)",
                                           "image: is fp32 of 4 bytes, expected uint8",
                                           "expected: is (2, 2), expected one number",
                                           "expected: number 2 is not finite",
                                           "tolerance is missing",
                                           "tolerance is 2",
                                           "origin is missing"};
        static const enum status status[] = {ST_SHAPE,  ST_FORMAT, ST_SHAPE,  ST_FORMAT,
                                             ST_FORMAT, ST_FORMAT, ST_FORMAT, ST_FORMAT};
        const size_t dims[4] = {2, 5, 3, 1}, logits[2] = {bad == 3 ? 2 : 4, 2};
        const float numbers[30] = {0, 0, bad == 4 ? INFINITY : 0};
        file = create_model();
        ok(h5_make_group(file, "/selftest"));
        if (bad == 2) ok(h5_write(file, "/selftest/image", DT_F32, 3, dims, numbers));
        if (bad != 0 && bad != 2)
            ok(h5_write(file, "/selftest/image", DT_U8, bad == 1 ? 4 : 3, dims, image));
        ok(h5_write(file, "/selftest/expected", DT_F32, bad == 3 ? 2 : 1, logits, numbers));
        if (bad != 5) ok(h5_set_double(file, "/selftest", "tolerance", bad == 6 ? 2 : 1e-4));
        if (bad != 7) ok(h5_set_string(file, "/selftest", "origin", origin));
        file = reopen(file);
        refused(selftest_read(file, &read), status[bad], says[bad]);
        assert_null(read.image);
        ok(h5_close(&file));
    }
}

static void test_words(void **state) {
    enum vit_activation activation;
    (void)state;
    assert_string_equal(vit_pool_name(POOL_AVG), "avg");
    assert_string_equal(vit_pool_name((enum vit_pool)9), "unknown");
    assert_string_equal(vit_qk_norm_name(QK_LAYER), "layer");
    assert_string_equal(resample_name(RESAMPLE_LINEAR_ALIGN_CORNERS), "linear_align_corners");
    assert_true(vit_activation_find("gelu_tanh", &activation) && activation == ACT_GELU_TANH);
    assert_string_equal(vit_activation_name(activation), "gelu_tanh");
    assert_false(vit_activation_find("gelu ", &activation));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_round_trip),
        cmocka_unit_test(test_config_refused),
        cmocka_unit_test(test_config_check),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_preprocess),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_selftest),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests_name("config", tests, make_path, remove_path);
}
