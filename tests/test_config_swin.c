/*
 * test_config_swin: a Swin's /config written and read back, what of it is refused, and the maps,
 * windows and shifts that follow from it against timm's own.
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

#include "tests/ref/golden_swin_maps.h"

static char path[] = "/tmp/vitrine-swin-config-XXXXXX";

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

/* Every member differs from zero and from its neighbours, but for what has one value only. */
static const struct swin_config full = {
    .version = 2,
    .image_h = 192,
    .image_w = 240,
    .patch_h = 4,
    .patch_w = 2,
    .dim = 96,
    .stages = 3,
    .depths = {2, 6, 3},
    .heads = {3, 4, 24},
    .hidden = {384, 700, 1536},
    .window = {12, 8, 7},
    .pretrained_window = {6, 0, 5},
    .classes = 10,
    .qkv_bias = true,
    .activation = ACT_QUICK_GELU,
    .window_rule = WINDOW_TIMM,
    .mask_value = -100,
    .norm_eps = 1e-5,
};

/* One of each bound: the largest and the smallest that are taken. */
static const struct swin_config largest = {
    .version = 1,
    .image_h = 16384,
    .image_w = 1024,
    .patch_h = 1024,
    .patch_w = 1,
    .dim = 512,
    .stages = 8,
    .depths = {1000, 1, 1, 1, 1, 1, 1, 1},
    .heads = {1, 1024, 1, 4096, 1, 1, 1, 4096},
    .hidden = {1, 1, 1, 1, 1, 1, 1, 1048576},
    .window = {4096, 1, 1, 1, 1, 1, 1, 1},
    .classes = 1000000,
    .mask_value = -1e6,
    .norm_eps = 0.1,
};

static const struct swin_config smallest = {
    .version = 2,
    .image_h = 1,
    .image_w = 1,
    .patch_h = 1,
    .patch_w = 1,
    .dim = 1,
    .stages = 1,
    .depths = {1},
    .heads = {1},
    .hidden = {1},
    .window = {1},
    .pretrained_window = {4096},
    .norm_eps = 1e-30,
};

static struct h5 *create(const struct swin_config *config) {
    struct h5 *file;
    ok(h5_create(path, &file));
    ok(swin_config_write(file, config));
    return file;
}

static struct h5 *reopen(struct h5 *file) {
    ok(h5_close(&file));
    ok(h5_open(path, &file));
    return file;
}

static void test_round_trip(void **state) {
    const struct swin_config *const rows[] = {&full, &largest, &smallest};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct swin_config *a = rows[i];
        struct swin_config b;
        struct h5 *file = reopen(create(a));
        ok(swin_config_read(file, &b));
        ok(h5_close(&file));
        assert_int_equal(b.version, a->version);
        assert_int_equal(b.image_h, a->image_h);
        assert_int_equal(b.image_w, a->image_w);
        assert_int_equal(b.patch_h, a->patch_h);
        assert_int_equal(b.patch_w, a->patch_w);
        assert_int_equal(b.dim, a->dim);
        assert_int_equal(b.stages, a->stages);
        assert_memory_equal(b.depths, a->depths, sizeof a->depths);
        assert_memory_equal(b.heads, a->heads, sizeof a->heads);
        assert_memory_equal(b.hidden, a->hidden, sizeof a->hidden);
        assert_memory_equal(b.window, a->window, sizeof a->window);
        assert_memory_equal(b.pretrained_window, a->pretrained_window, sizeof a->pretrained_window);
        assert_int_equal(b.classes, a->classes);
        assert_int_equal(b.qkv_bias, a->qkv_bias);
        assert_int_equal(b.activation, a->activation);
        assert_int_equal(b.window_rule, a->window_rule);
        assert_true(b.mask_value == a->mask_value && b.norm_eps == a->norm_eps);
    }
}

/* ---- attributes that are refused ---------------------------------------------------------- */

enum value_kind { INT, INTS, REAL, WORD };
struct bad_row {
    const char *name;
    enum value_kind kind;
    int count; /* of ints */
    double values[10];
    const char *word, *says;
};

static const struct bad_row bad[] = {
    {"version", INT, 1, {0}, NULL, "version is 0, expected 1 to 2"},
    {"version", INT, 1, {3}, NULL, "version is 3, expected 1 to 2"},
    {"version", INT, 1, {1}, NULL, "pretrained_window of stage 0 is 6, expected 0 in version 1"},
    {"image_size", INTS, 2, {0, 240}, NULL, "image_size is 0, expected 1 to 16384"},
    {"image_size", INTS, 2, {16388, 240}, NULL, "image_size is 16388"},
    {"image_size", INTS, 2, {194, 240}, NULL, "image_size (194, 240) is no multiple of patch_size"},
    {"image_size", INTS, 3, {192, 240, 3}, NULL, "image_size has 3 elements"},
    {"patch_size", INTS, 2, {4, 7}, NULL, "is no multiple of patch_size (4, 7)"},
    {"patch_size", INTS, 2, {4, 1025}, NULL, "patch_size is 1025"},
    {"embed_dim", INT, 1, {0}, NULL, "embed_dim is 0, expected 1 to 65536"},
    {"embed_dim", INT, 1, {65536}, NULL, "has 262144 channels in the last of 3 stages"},
    {"embed_dim", INT, 1, {97}, NULL, "the 97 channels of stage 0 are no multiple of its"},
    {"embed_dim", WORD, 0, {0}, "96", "embed_dim is a string"},
    {"depths", INTS, 3, {2, 0, 3}, NULL, "depths is 0, expected 1 to 1000"},
    {"depths", INTS, 3, {2, 1001, 3}, NULL, "depths is 1001"},
    {"depths", INTS, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, NULL, "depths has 9 elements in 1 dimensions"},
    {"depths", INTS, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, NULL, "expected 1 to 8"},
    {"depths", INTS, 4, {2, 6, 3, 1}, NULL, "num_heads has 3 elements in 1 dimensions, expected 4"},
    {"depths", INTS, 2, {2, 6}, NULL, "num_heads has 3 elements in 1 dimensions, expected 2"},
    {"depths", INT, 1, {2}, NULL, "num_heads has 3 elements in 1 dimensions, expected 1"},
    {"depths", REAL, 0, {2}, NULL, "depths is a floating-point number"},
    {"num_heads", INTS, 3, {3, 0, 24}, NULL, "num_heads is 0, expected 1 to 4096"},
    {"num_heads", INTS, 3, {3, 4097, 24}, NULL, "num_heads is 4097"},
    {"num_heads", INTS, 3, {3, 4, 25}, NULL, "the 384 channels of stage 2 are no multiple of its"},
    {"num_heads", INTS, 2, {3, 4}, NULL, "num_heads has 2 elements in 1 dimensions, expected 3"},
    {"mlp_hidden", INTS, 3, {384, 0, 1}, NULL, "mlp_hidden is 0"},
    {"mlp_hidden", INTS, 3, {384, 1, 1048577}, NULL, "mlp_hidden is 1048577"},
    {"mlp_hidden", INT, 1, {384}, NULL, "mlp_hidden has 1 elements"},
    {"window", INTS, 3, {0, 8, 7}, NULL, "window is 0, expected 1 to 4096"},
    {"window", INTS, 3, {12, 4097, 7}, NULL, "window is 4097"},
    {"window", INT, 1, {7}, NULL, "window has 1 elements"},
    {"pretrained_window", INTS, 3, {0, -1, 0}, NULL, "pretrained_window is -1, expected 0 to 4096"},
    {"pretrained_window", INTS, 3, {0, 0, 4097}, NULL, "pretrained_window is 4097"},
    {"pretrained_window", INTS, 4, {0, 0, 0, 0}, NULL, "pretrained_window has 4 elements"},
    {"num_classes", INT, 1, {-1}, NULL, "num_classes is -1"},
    {"num_classes", INT, 1, {1000001}, NULL, "num_classes is 1000001"},
    {"qkv_bias", INT, 1, {2}, NULL, "qkv_bias is 2, expected 0 to 1"},
    {"activation", WORD, 0, {0}, "relu", "'relu', expected one of: gelu, gelu_tanh, quick_gelu"},
    {"window_rule",
     WORD,
     0,
     {0},
     "torchvision",
     "'torchvision', expected one of: timm, pad, fixed"},
    {"window_rule", INT, 1, {0}, NULL, "window_rule is an integer"},
    {"mask_value", REAL, 0, {1}, NULL, "mask_value is 1, expected -1e+06 to 0"},
    {"mask_value", REAL, 0, {-INFINITY}, NULL, "mask_value is -inf"},
    {"mask_value", REAL, 0, {NAN}, NULL, "mask_value is nan"},
    {"norm_eps", REAL, 0, {0}, NULL, "norm_eps is 0, expected 1e-30 to 0.1"},
    {"norm_eps", REAL, 0, {NAN}, NULL, "norm_eps is nan"},
};

static void write_bad(struct h5 *file, const struct bad_row *row) {
    int ints[10];
    for (int i = 0; i < row->count; i++)
        ints[i] = (int)row->values[i];
    switch (row->kind) {
    case INT: ok(h5_set_int(file, "/config", row->name, ints[0])); break;
    case INTS: ok(h5_set_ints(file, "/config", row->name, row->count, ints)); break;
    case REAL: ok(h5_set_double(file, "/config", row->name, row->values[0])); break;
    case WORD: ok(h5_set_string(file, "/config", row->name, row->word)); break;
    }
}

static void test_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct swin_config read = {.dim = -7};
        struct h5 *file = create(&full);
        write_bad(file, &bad[i]);
        file = reopen(file);
        refused(swin_config_read(file, &read), ST_FORMAT, bad[i].says);
        assert_memory_equal(fail_message(), path, strlen(path));
        assert_int_equal(read.dim, -7); /* untouched */
        ok(h5_close(&file));
    }
}

/* Every attribute must be there: the file is written but for the one. */
static void test_missing(void **state) {
    static const char *const names[] = {
        "version",   "image_size", "patch_size",  "embed_dim",         "depths",
        "num_heads", "mlp_hidden", "window",      "pretrained_window", "num_classes",
        "qkv_bias",  "activation", "window_rule", "mask_value",        "norm_eps"};
    char **all, words[64];
    size_t count;
    struct h5 *file = reopen(create(&full));
    struct swin_config read;
    (void)state;
    ok(h5_attribute_names(file, "/config", &all, &count));
    assert_int_equal(count, COUNT_OF(names));
    h5_free_names(all, count);
    ok(h5_close(&file));
    for (size_t missing = 0; missing < COUNT_OF(names); missing++) {
        ok(h5_create(path, &file));
        ok(h5_make_group(file, "/config"));
        for (size_t i = 0; i < missing; i++) { /* in the order of the table: what stands before */
            const bool pair = i == 1 || i == 2, list = i >= 4 && i <= 8;
            const int ints[3] = {i == 0 ? 2 : 48, 48, 48};
            if (i == 11 || i == 12)
                ok(h5_set_string(file, "/config", names[i], i == 11 ? "gelu" : "timm"));
            else if (i == 13)
                ok(h5_set_double(file, "/config", names[i], -100));
            else if (i == 10)
                ok(h5_set_int(file, "/config", names[i], 1));
            else
                ok(h5_set_ints(file, "/config", names[i], pair ? 2 : list ? 3 : 1, ints));
        }
        snprintf(words, sizeof words, "/config: attribute %s is missing", names[missing]);
        refused(swin_config_read(file, &read), ST_FORMAT, words);
        ok(h5_close(&file));
    }
    ok(h5_create(path, &file));
    refused(swin_config_read(file, &read), ST_FORMAT, "/config: is missing");
    ok(h5_close(&file));
}

/* A struct that a writer may be about to write; nothing is written then. */
static void test_check(void **state) {
    static const struct {
        int stages, dim, version;
        const char *says;
    } rows[] = {
        {0, 96, 2, "depths has 0 elements, expected 1 to 8"},
        {9, 96, 2, "depths has 9 elements, expected 1 to 8"},
        {3, 0, 2, "embed_dim is 0"},
        {3, 32768, 2, "has 131072 channels in the last of 3 stages, expected at most 65536"},
        {3, 96, 1, "pretrained_window of stage 0 is 6"}};
    (void)state;
    ok(swin_config_check(&full, "f"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct swin_config c = full;
        struct h5 *file;
        c.stages = rows[i].stages;
        c.dim = rows[i].dim;
        c.version = rows[i].version;
        refused(swin_config_check(&c, "f"), ST_FORMAT, rows[i].says);
        assert_memory_equal(fail_message(), "f: /config: ", 12);
        ok(h5_create(path, &file));
        refused(swin_config_write(file, &c), ST_FORMAT, rows[i].says);
        assert_false(h5_has(file, "/config"));
        ok(h5_close(&file));
    }
    struct swin_config c = full;
    c.window_rule = (enum swin_window_rule)3;
    refused(swin_config_check(&c, "f"), ST_FORMAT, "window_rule is 'unknown'");
}

/* Sizes at which a rule does what timm's does: {rule, height, width, the sentence or NULL}. */
static void test_rules(void **state) {
    static const struct {
        enum swin_window_rule rule;
        int h, w;
        const char *says;
    } rows[] = {
        {WINDOW_PAD, 224, 224, NULL},
        {WINDOW_PAD, 448, 224, NULL},
        {WINDOW_PAD, 256, 256,
         "f: at 256x256 windows of 7x7 do not divide the 64x64 map of stage 0"},
        {WINDOW_PAD, 112, 112,
         "f: at 112x112 the windows of stage 3 would be others than at 224x224"},
        {WINDOW_FIXED, 224, 224, NULL},
        {WINDOW_FIXED, 448, 448,
         "the windows of stage 3 would be others"}, /* it would be shifted */
        {WINDOW_TIMM, 256, 112, NULL},
    };
    struct swin_config c = {.version = 1,
                            .image_h = 224,
                            .image_w = 224,
                            .patch_h = 4,
                            .patch_w = 4,
                            .dim = 96,
                            .stages = 4,
                            .window = {7, 7, 7, 7}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        c.window_rule = rows[i].rule;
        enum status st = swin_config_check_size(&c, rows[i].h, rows[i].w, "f");
        assert_int_equal(st, rows[i].says ? ST_USAGE : ST_OK);
        if (rows[i].says) assert_non_null(strstr(fail_message(), rows[i].says));
    }
}

/* ---- geometry ----------------------------------------------------------------------------- */

/* timm's own maps, windows and shifts (tests/ref/convert_swin_maps.py), exactly. */
static void test_maps(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(golden_swin_maps); i++) {
        struct swin_config c = {.patch_h = golden_swin_maps[i].patch,
                                .patch_w = golden_swin_maps[i].patch,
                                .stages = golden_swin_maps[i].stages};
        memcpy(c.window, golden_swin_maps[i].windows, sizeof c.window);
        for (int s = 0; s < c.stages; s++) {
            const int *want = golden_swin_maps[i].maps[s];
            struct swin_map map;
            swin_config_map(&c, s, golden_swin_maps[i].image_h, golden_swin_maps[i].image_w, &map);
            const int got[6] = {map.h, map.w, map.window_h, map.window_w, map.shift_h, map.shift_w};
            for (int k = 0; k < 6; k++) {
                if (got[k] != want[k])
                    fail_msg("case %zu, stage %d: number %d is %d, want %d", i, s, k, got[k],
                             want[k]);
            }
        }
    }
}

/* h5_get_int_list: the only reader of a list whose length nobody knows. */
static void test_list(void **state) {
    static const int values[5] = {5, 4, 3, 2, 1};
    int out[4] = {-1, -1, -1, -1}, count = -1;
    struct h5 *file;
    (void)state;
    ok(h5_create(path, &file));
    ok(h5_set_ints(file, "/", "five", 5, values));
    ok(h5_set_ints(file, "/", "four", 4, values + 1));
    ok(h5_set_int(file, "/", "scalar", 9));
    ok(h5_set_double(file, "/", "real", 1));
    file = reopen(file);
    ok(h5_get_int_list(file, "/", "four", 4, 1, 4, out, &count));
    assert_int_equal(count, 4);
    assert_memory_equal(out, values + 1, sizeof out);
    ok(h5_get_int_list(file, "/", "scalar", 4, 1, 9, out, &count));
    assert_int_equal(count, 1);
    assert_int_equal(out[0], 9);
    refused(h5_get_int_list(file, "/", "five", 4, 1, 9, out, &count), ST_FORMAT,
            "attribute five has 5 elements in 1 dimensions, expected 1 to 4");
    refused(h5_get_int_list(file, "/", "four", 4, 2, 9, out, &count), ST_FORMAT,
            "attribute four is 1, expected 2 to 9");
    refused(h5_get_int_list(file, "/", "real", 4, 0, 9, out, &count), ST_FORMAT,
            "attribute real is a floating-point number");
    refused(h5_get_int_list(file, "/", "none", 4, 0, 9, out, &count), ST_FORMAT,
            "attribute none is missing");
    assert_int_equal(count, 1); /* untouched */
    assert_int_equal(out[1], 3);
    ok(h5_close(&file));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_missing),    cmocka_unit_test(test_check),
        cmocka_unit_test(test_maps),       cmocka_unit_test(test_list),
        cmocka_unit_test(test_rules),
    };
    return cmocka_run_group_tests_name("config_swin", tests, make_path, remove_path);
}
