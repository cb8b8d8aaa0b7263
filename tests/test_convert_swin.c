/*
 * test_convert_swin: Swin checkpoints (convert_swin_sample.h), converted: the config, report and
 * values that come out, and the rows of timm's Swins. The faults are in
 * test_convert_swin_faults.c.
 */
#include "tests/convert_swin_sample.h"
#include "weights/names.h"

#define GIVEN(h, w) " | " #h "x" #w " 0.9 center bilinear half_even 0.1 0.4"
#define INET(h, w)  " | " #h "x" #w " 0.9 center bicubic half_even 0.485 0.225"
#define TINY        "v1 C8 L2,1 H1,2 F16,40 M4,3 K3 img24x24 p4x4 gelu 1e-05" GIVEN(24, 24)
#define TINY_2      "v2 C8 L2,1 H1,2 F16,40 M4,3 P6,3 K3 img24x24 p4x4 gelu 1e-05" GIVEN(24, 24)
#define SWIN_T(M)   "v1 C96 L2,2,6,2 H3,6,12,24 F384,768,1536,3072 M" M " K10 "
#define SWIN_T2(M)  "v2 C96 L2,2,6,2 H3,6,12,24 F384,768,1536,3072 M" M " K10 "
#define TAIL(h, w)  "img" #h "x" #w " p4x4 gelu 1e-05" INET(h, w)
#define SEVEN       "7,7,7,7"
#define NAME_T      "swin_tiny_patch4_window7_224"
#define TABLE(s, b) "layers." #s ".blocks." #b ".attn.relative_position_bias_table"

static const struct row good[] = {
    {"windows found by the size", tiny_swin, .extra = "input_size=24", .want = TINY},
    {"a wide picture: windows of 3x2", tiny_swin_wide, .extra = "input_size=24x16",
     .want = "v1 C8 L2,1 H1,2 F16,40 M4,3 K3 img24x16 p4x4 gelu 1e-05" GIVEN(24, 16)},
    {"a size that does not shrink windows", tiny_swin, .extra = "input_size=48x64",
     .want = "v1 C8 L2,1 H1,2 F16,40 M4,3 K3 img48x64 p4x4 gelu 1e-05" GIVEN(48, 64)},
    {"a prefix", tiny_swin, "^model.module.", .extra = "input_size=24", .want = TINY},
    {"headless", tiny_swin, "-head.fc.weight -head.fc.bias", .extra = "input_size=24",
     .want = "v1 C8 L2,1 H1,2 F16,40 M4,3 K0 img24x24 p4x4 gelu 1e-05" GIVEN(24, 24)},
    {"no qkv bias", tiny_swin,
     "-layers.0.blocks.0.attn.qkv.bias -layers.0.blocks.1.attn.qkv.bias "
     "-layers.1.blocks.0.attn.qkv.bias",
     .extra = "input_size=24",
     .want = "v1 C8 L2,1 H1,2 F16,40 M4,3 K3 img24x24 p4x4 noqkvb gelu 1e-05" GIVEN(24, 24)},
    {"another activation", tiny_swin, .activation = "gelu_tanh", .extra = "input_size=24",
     .want = "v1 C8 L2,1 H1,2 F16,40 M4,3 K3 img24x24 p4x4 gelu_tanh 1e-05" GIVEN(24, 24)},
    {"oblong patches", tiny_swin, "patch_embed.proj.weight:8,3,4,2", .extra = "input_size=24x12",
     .want = "v1 C8 L2,1 H1,2 F16,40 M4,3 K3 img24x12 p4x2 gelu 1e-05" GIVEN(24, 12)},
    {"Swin's own layout, with its buffers", tiny_swin_official, .extra = "input_size=24",
     .want = TINY},
    {"its own layout, headless, pretrained by SimMIM", tiny_swin_official,
     "-head.weight -head.bias ^encoder. +encoder.mask_token:1,1,8 +decoder.0.weight:4",
     .extra = "input_size=24",
     .want = "v1 C8 L2,1 H1,2 F16,40 M4,3 K0 img24x24 p4x4 gelu 1e-05" GIVEN(24, 24)},
    {"fp16 and fp64 tensors", tiny_swin, "norm.weight!F64 " TABLE(0, 0) "!F16",
     .extra = "input_size=24", .want = TINY},
    {"version 2: windows from the coordinates", tiny_swinv2_official, .extra = "input_size=24",
     .want = TINY_2},
    {"version 2: coordinates in fp16", tiny_swinv2_official,
     "layers.0.blocks.0.attn.relative_coords_table!F16", .extra = "input_size=24", .want = TINY_2},
    {"version 2 without biases", tiny_swinv2_official,
     "-layers.0.blocks.0.attn.q_bias -layers.0.blocks.0.attn.v_bias "
     "-layers.0.blocks.1.attn.q_bias -layers.0.blocks.1.attn.v_bias "
     "-layers.1.blocks.0.attn.q_bias -layers.1.blocks.0.attn.v_bias",
     .extra = "input_size=24",
     .want = "v2 C8 L2,1 H1,2 F16,40 M4,3 P6,3 K3 img24x24 p4x4 noqkvb gelu 1e-05" GIVEN(24, 24)},

    {"shapes of one row only", swin_tiny, .own = true, .want = SWIN_T(SEVEN) TAIL(224, 224)},
    {"shapes of one row with other windows", swin_s3_tiny, .own = true,
     .want = SWIN_T("7,7,14,7") TAIL(224, 224)},
    {"its own layout and a tag", swin_tiny_official, .arch = NAME_T ".ms_in22k_ft_in1k",
     .own = true, .want = SWIN_T(SEVEN) TAIL(224, 224)},
    {"a size of which the tables are as well", swin_tiny, .arch = NAME_T,
     .extra = "input_size=448x320", .own = true, .want = SWIN_T(SEVEN) TAIL(448, 320)},
    {"a size of which the tables are not: pictures only", swin_tiny, .arch = NAME_T,
     .extra = "input_size=192", .own = true,
     .want = SWIN_T(SEVEN) "img224x224 p4x4 gelu 1e-05" INET(192, 192)},
    {"windows of no row", swin_tiny_8, .extra = "input_size=256",
     .want = SWIN_T("8,8,8,8") "img256x256 p4x4 gelu 1e-05" GIVEN(256, 256)},
    {"a hub folder", swin_tiny, .config = SWIN_TIMM(NAME_T, ",\"global_pool\":\"avg\""),
     .own = true, .want = SWIN_T(SEVEN) TAIL(224, 224)},
    {"a hub folder with its own preprocessing", swin_tiny, .own = true,
     .config = SWIN_TIMM(NAME_T, ",\"pretrained_cfg\":{\"input_size\":[3,224,224],"
                                 "\"crop_pct\":0.8,\"mean\":[0.1,0.2,0.3]}"),
     .want = SWIN_T(SEVEN) "img224x224 p4x4 gelu 1e-05 | 224x224 0.8 center bicubic half_even 0.1 "
                           "0.225"},
    {"a hub folder: window and size", swin_tiny_8, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"img_size\":256,\"window_size\":8,\"act_layer\":\"gelu\""),
     .want = SWIN_T("8,8,8,8") TAIL(256, 256)},
    {"a hub folder: windows of a stage in pairs", swin_tiny_8, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"img_size\":[256,256],\"always_partition\":false,"
                                 "\"window_size\":[[8,8],[8,8],[8,8],[16,16]]"),
     .want = SWIN_T("8,8,8,16") TAIL(256, 256)},
    {"a hub folder: one pair", swin_tiny_8, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"img_size\":256,\"window_size\":[8,8]"),
     .want = SWIN_T("8,8,8,8") TAIL(256, 256)},

    {"version 2 by --arch", swinv2_tiny, .arch = "swinv2_tiny_window16_256", .own = true,
     .want = SWIN_T2("16,16,16,16 P0,0,0,0") TAIL(256, 256)},
    {"version 2 by --arch, other windows", swinv2_tiny, .arch = "swinv2_tiny_window8_256.ms_in1k",
     .own = true, .want = SWIN_T2("8,8,8,8 P0,0,0,0") TAIL(256, 256)},
    {"version 2 at another size", swinv2_tiny, .arch = "swinv2_tiny_window8_256", .own = true,
     .extra = "input_size=320", .want = SWIN_T2("8,8,8,8 P0,0,0,0") TAIL(320, 320)},
    {"version 2: the row of its coordinates", swinv2_tiny_official, .own = true,
     .want = SWIN_T2("16,16,16,16 P0,0,0,0") TAIL(256, 256)},
    {"version 2: the row of its pretrained windows", swinv2_base_official, .own = true,
     .want = "v2 C128 L2,2,18,2 H4,8,16,32 F512,1024,2048,4096 M16,16,16,16 P12,12,12,6 K10 "
             "img256x256 p4x4 gelu 1e-05" INET(256, 256)},
    {"version 2: windows of a config.json without a name", tiny_swinv2,
     .config = "{\"model_args\":{\"img_size\":24,\"window_size\":[[4,4],[3,3]]}}",
     .want = "v2 C8 L2,1 H1,2 F16,40 M4,3 P0,0 K3 img24x24 p4x4 gelu 1e-05" GIVEN(24, 24)},
    {"version 2: a hub folder with other windows", swinv2_tiny, .own = true,
     .config =
         SWIN_ARGS("swinv2_tiny_window8_256", "\"img_size\":384,\"window_size\":[24,24,24,12],"
                                              "\"pretrained_window_sizes\":[8,8,8,8]"),
     .want = SWIN_T2("24,24,24,12 P8,8,8,8") TAIL(384, 384)},
};

static void test_good(void **state) {
    (void)state;
    check_planned(good, COUNT_OF(good));
}

/* What the model is called, and where that was learnt. */
static void test_says_so(void **state) {
    static const struct {
        struct row row;
        const char *architecture, *from, *origin;
    } rows[] = {
        {{.base = swin_tiny, .own = true}, NAME_T, "the tensors' shapes", "timm"},
        {{.base = swin_tiny_official, .own = true, .arch = NAME_T},
         NAME_T,
         "--arch",
         "Swin's own layout"},
        {{.base = swin_tiny, .own = true, .config = SWIN_TIMM(NAME_T, "")},
         NAME_T,
         "config.json",
         "timm"},
        {{.base = tiny_swin, .extra = "input_size=24"},
         "Swin v1, patch 4, width 8, depths 2-1, windows 4-3",
         "the tensors and what was given",
         "timm"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct checkpoint checkpoint;
        struct conversion c;
        assert_int_equal(plan_row(&rows[i].row, &checkpoint, &c), ST_OK);
        assert_string_equal(c.info.architecture, rows[i].architecture);
        assert_string_equal(c.origin, rows[i].origin);
        assert_string_equal(c.info.note_names[0], "architecture_from");
        assert_string_equal(c.info.note_values[0], rows[i].from);
        conversion_release(&c);
        checkpoint_release(&checkpoint);
    }
}

/* ---- values ------------------------------------------------------------------------------- */

/* The dataset of out.h5 has the values of the checkpoint's tensor `source`. */
static void assert_values(struct h5 *file, const char *target, const char *source, size_t count) {
    static float got[512 * 2];
    char path[160];
    snprintf(path, sizeof path, "/parameters/%s", target);
    assert_true(count <= COUNT_OF(got));
    assert_int_equal(h5_read_f32(file, path, got, count), ST_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(got[i] == value_at(source, i));
}

static struct h5 *convert_row(const struct row *row) {
    struct checkpoint checkpoint;
    struct conversion c;
    const struct convert_options options = {.dtype = DT_F32};
    struct h5 *file = NULL;
    assert_int_equal(plan_row(row, &checkpoint, &c), ST_OK);
    for (size_t i = 0; i < c.row_count; i++) { /* dropped rows have no target, and say why */
        assert_true(!c.rows[i].target == (strcmp(c.rows[i].action, "dropped") == 0));
        assert_true(c.rows[i].target || c.rows[i].reason);
    }
    assert_int_equal(convert_write(&checkpoint, &options, &c, path_of("out.h5")), ST_OK);
    conversion_release(&c);
    checkpoint_release(&checkpoint);
    assert_int_equal(h5_open(path_of("out.h5"), &file), ST_OK);
    return file;
}

static void test_values(void **state) {
    const struct row official = {.base = tiny_swinv2_official, .extra = "input_size=24"};
    const struct row plain = {.base = tiny_swin, .edits = "^model.", .extra = "input_size=24"};
    struct h5_dataset *datasets;
    struct swin_config config;
    struct model_info info;
    size_t count;
    struct h5 *file = convert_row(&official);
    (void)state;
    assert_int_equal(model_info_read(file, &info), ST_OK);
    assert_string_equal(info.family, "swin");
    model_info_release(&info);
    assert_int_equal(swin_config_read(file, &config), ST_OK);
    assert_int_equal(config.version, 2);
    assert_int_equal(config.pretrained_window[0], 6);
    assert_int_equal(h5_list(file, "/parameters", &datasets, &count), ST_OK);
    assert_int_equal(count, 4 + 3 + 3 * 17 + 4); /* no buffer is among them */
    h5_free_datasets(datasets, count);
    assert_values(file, "layers.1.downsample.reduction.weight",
                  "layers.0.downsample.reduction.weight", 16 * 32);
    assert_values(file, "layers.1.downsample.norm.bias", "layers.0.downsample.norm.bias", 16);
    assert_values(file, "head.fc.weight", "head.weight", 3 * 16);
    assert_values(file, "head.fc.bias", "head.bias", 3);
    assert_values(file, "layers.1.blocks.0.attn.q_bias", "layers.1.blocks.0.attn.q_bias", 16);
    assert_values(file, "layers.0.blocks.1.attn.logit_scale", "layers.0.blocks.1.attn.logit_scale",
                  1);
    assert_values(file, "layers.0.blocks.1.attn.cpb_mlp.2.weight",
                  "layers.0.blocks.1.attn.cpb_mlp.2.weight", 512);
    assert_int_equal(h5_close(&file), ST_OK);
    file = convert_row(&plain);
    assert_int_equal(swin_config_read(file, &config), ST_OK);
    assert_int_equal(config.version, 1);
    assert_values(file, TABLE(1, 0), "model." TABLE(1, 0), 25 * 2);
    assert_values(file, "patch_embed.norm.weight", "model.patch_embed.norm.weight", 8);
    assert_int_equal(h5_close(&file), ST_OK);
}

/* ---- tables ------------------------------------------------------------------------------- */

/* What the model file's check says of every row, and what timm says of some. */
static void test_architectures(void **state) {
    static const struct {
        const char *name;
        int version, image, dim, depth, window, last, pretrained;
        double crop_pct;
    } rows[] = {
        {NAME_T, 1, 224, 96, 6, 7, 7, 0, 0.9},
        {"swin_small_patch4_window7_224.ms_in22k", 1, 224, 96, 18, 7, 7, 0, 0.9},
        {"swin_base_patch4_window12_384", 1, 384, 128, 18, 12, 12, 0, 1},
        {"swin_large_patch4_window7_224", 1, 224, 192, 18, 7, 7, 0, 0.9},
        {"swin_s3_base_224", 1, 224, 96, 30, 14, 7, 0, 0.9},
        {"swin_s3_small_224", 1, 224, 96, 18, 14, 7, 0, 0.9},
        {"swinv2_base_window12_192.ms_in22k", 2, 192, 128, 18, 12, 6, 0, 0.9},
        {"swinv2_large_window12to16_192to256", 2, 256, 192, 18, 16, 8, 12, 0.9},
        {"swinv2_base_window12to24_192to384", 2, 384, 128, 18, 24, 12, 12, 1},
        {"swinv2_small_window8_256", 2, 256, 96, 18, 8, 8, 0, 0.9},
    };
    const struct architecture *a;
    struct preprocess_spec spec;
    struct swin_config c;
    struct swin_map map;
    const char *tag;
    int swins = 0;
    (void)state;
    for (size_t i = 0; (a = architecture_at(i)); i++) {
        assert_true(architecture_swin(a, &c) == (architecture_stages(a) != NULL));
        if (!architecture_stages(a)) continue;
        swins++;
        assert_int_equal(swin_config_check(&c, a->name), ST_OK);
        assert_int_equal(c.dim, 32 * c.heads[0]);
        assert_int_equal(c.hidden[3], 4 * c.dim << 3);
        assert_int_equal(a->depth, c.depths[0] + c.depths[1] + c.depths[2] + c.depths[3]);
        assert_int_equal(strncmp(a->name, c.version == 2 ? "swinv2_" : "swin_", 3 + 2 * c.version),
                         0);
    }
    assert_int_equal(swins, 21);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(architecture_swin(architecture_find(rows[i].name), &c));
        swin_config_map(&c, 3, c.image_h, c.image_w, &map);
        assert_int_equal(c.version, rows[i].version);
        assert_int_equal(c.image_h, rows[i].image);
        assert_int_equal(c.dim, rows[i].dim);
        assert_int_equal(c.depths[2], rows[i].depth);
        assert_int_equal(c.window[2], rows[i].window);
        assert_int_equal(map.window_h, rows[i].last);
        assert_int_equal(c.pretrained_window[0], rows[i].pretrained);
        assert_true(architecture_preprocess(rows[i].name, &spec, &tag));
        assert_int_equal(spec.height, rows[i].image);
        assert_true(spec.crop_pct == rows[i].crop_pct && spec.mean[0] == 0.485);
    }
    assert_false(architecture_preprocess(NAME_T ".ms_in21k", &spec, &tag));
    assert_null(architecture_find("swinv2_cr_tiny_224")); /* another network */
}

static void test_names(void **state) {
    static const struct {
        const struct name_origin *origin;
        const char *name, *target;
    } rows[] = {
        {&names_swin, "layers.2.blocks.17.attn.qkv.weight", "layers.2.blocks.17.attn.qkv.weight"},
        {&names_swin, "layers.0.blocks.9999.norm1.bias", "layers.0.blocks.9999.norm1.bias"},
        {&names_swin, "layers.1.downsample.reduction.weight",
         "layers.1.downsample.reduction.weight"},
        {&names_swin, "head.fc.bias", "head.fc.bias"},
        {&names_swin, "head.bias", NULL},
        {&names_swin, "layers.0.blocks.01.norm1.bias", NULL},
        {&names_swin, "layers.0.blocks.10000.norm1.bias", NULL},
        {&names_swin, "layers..blocks.1.norm1.bias", NULL},
        {&names_swin, "layers.0.blocks.1.2.norm1.bias", NULL},
        {&names_swin, "layers.0.blocks.*.norm1.bias", NULL},
        {&names_swin, "layers.0.blocks.1.norm1", NULL},
        {&names_swin, "blocks.1.norm1.bias", NULL},
        {&names_swin_official, "layers.2.blocks.17.mlp.fc2.bias",
         "layers.2.blocks.17.mlp.fc2.bias"},
        {&names_swin_official, "layers.0.downsample.norm.weight",
         "layers.1.downsample.norm.weight"},
        {&names_swin_official, "layers.9.downsample.reduction.weight",
         "layers.10.downsample.reduction.weight"},
        {&names_swin_official, "layers.9999.downsample.norm.bias",
         "layers.10000.downsample.norm.bias"},
        {&names_swin_official, "layers.x.downsample.norm.bias", NULL},
        {&names_swin_official, "head.weight", "head.fc.weight"},
        {&names_swin_official, "head.fc.weight", NULL},
    };
    struct name_result result;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        names_map(rows[i].origin, rows[i].name, &result);
        assert_int_equal(result.fate, rows[i].target ? NAME_USE : NAME_UNKNOWN);
        if (rows[i].target) assert_string_equal(result.target, rows[i].target);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),   cmocka_unit_test(test_says_so),
        cmocka_unit_test(test_values), cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("convert_swin", tests, make_folder, remove_folder);
}
