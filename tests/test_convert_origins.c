/*
 * test_convert_origins: checkpoints in the names of torchvision and transformers
 * (convert_origins_sample.h), and the layouts of MAE, DINO and DINOv2: what comes out, what is
 * refused, and values.
 */
#include "tests/convert_origins_sample.h"
#include "weights/names.h"

#define GIVEN   " | 16x16 0.9 center bilinear half_even 0.1 0.4"
#define VIT(K)  "D64 L2 H1 F128 K" K " img16x16 p4x4 grid4x4+1 cls r0 "
#define TINY(v) "v" v " C8 L2,1 H1,2 F16,40 M4,4 "
#define INET    " 0.485 0.225"
#define PLAIN   " img32x32 p4x4 gelu 1e-05"
#define GIVEN_T " | 32x32 0.9 center bilinear half_even 0.1 0.4"
#define GIVEN_H " | 32x32 0.9 center bilinear floor 0.1 0.4"
#define B_16(n, g, picture)                                                                        \
    "D768 L12 H12 F3072 K10 img" n "x" n " p16x16 grid" g "x" g                                    \
    "+1 cls r0 token norm gelu 1e-06 bicubic_align_corners | " picture INET
#define SWIN_ROW "C96 L2,2,6,2 H3,6,12,24 F384,768,1536,3072 M"
#define SWIN_CONFIG(type, more)                                                                    \
    "{\"model_type\":\"" type "\",\"image_size\":32,\"patch_size\":4,\"embed_dim\":8,"             \
    "\"depths\":[2,1],\"num_heads\":[1,2],\"window_size\":4,\"hidden_act\":\"gelu\","              \
    "\"layer_norm_eps\":1e-05" more "}"
#define VIT_CONFIG(type)                                                                           \
    "{\"model_type\":\"" type "\",\"num_attention_heads\":4,\"layer_norm_eps\":1e-12,"             \
    "\"hidden_act\":\"gelu\"}"
#define NO_LS                                                                                      \
    "-encoder.layer.0.layer_scale1.lambda1 -encoder.layer.0.layer_scale2.lambda1 "                 \
    "-encoder.layer.1.layer_scale1.lambda1 -encoder.layer.1.layer_scale2.lambda1"

static const struct row good[] = {
    {"torchvision's ViT", tiny_torchvision,
     .want = VIT("3") "token norm gelu 1e-06 bicubic_align_corners" GIVEN},
    {"its older names, behind DataParallel", tiny_torchvision,
     "encoder.layers.encoder_layer_0.mlp.0.weight>encoder.layers.encoder_layer_0.mlp.linear_1."
     "weight "
     "encoder.layers.encoder_layer_0.mlp.0.bias>encoder.layers.encoder_layer_0.mlp.linear_1.bias "
     "encoder.layers.encoder_layer_1.mlp.3.weight>encoder.layers.encoder_layer_1.mlp.linear_2."
     "weight "
     "encoder.layers.encoder_layer_1.mlp.3.bias>encoder.layers.encoder_layer_1.mlp.linear_2.bias "
     "^module.",
     .want = VIT("3") "token norm gelu 1e-06 bicubic_align_corners" GIVEN},
    {"vit_b_16: its pictures by its size", vit_b_16, .own = true,
     .want = B_16("224", "14", "224x224 0.875 center bilinear half_even")},
    {"vit_b_16 of SWAG", vit_b_16_384, .own = true,
     .want = B_16("384", "24", "384x384 1 center bicubic half_even")},
    {"vit_b_16 with --preprocess over it", vit_b_16, .own = true, .extra = "interpolation=bicubic",
     .want = B_16("224", "14", "224x224 0.875 center bicubic half_even")},
    {"vit_b_32", vit_b_32, .own = true,
     .want = "D768 L12 H12 F3072 K10 img224x224 p32x32 grid7x7+1 cls r0 token norm gelu 1e-06 "
             "bicubic_align_corners | 224x224 0.875 center bilinear half_even" INET},
    {"vit_l_16: a resize of 242", vit_l_16, .own = true,
     .want = "D1024 L24 H16 F4096 K10 img224x224 p16x16 grid14x14+1 cls r0 token norm gelu 1e-06 "
             "bicubic_align_corners | 224x224 0.92562 center bilinear half_even" INET},
    {"torchvision's Swin", tiny_torchvision_swin, .extra = "input_size=32",
     .want = TINY("1") "K3" PLAIN GIVEN_T},
    {"torchvision's Swin v2: a bias in thirds", tiny_torchvision_swinv2, .extra = "input_size=32",
     .want = TINY("2") "P0,0 K3" PLAIN GIVEN_T},
    {"swin_t", swin_t, .own = true,
     .want = "v1 " SWIN_ROW "7,7,7,7 K10 img224x224 p4x4 gelu 1e-05 | 224x224 0.965517 center "
             "bicubic half_even" INET},
    {"swin_v2_t", swin_v2_t, .own = true,
     .want = "v2 " SWIN_ROW "8,8,8,8 P0,0,0,0 K10 img256x256 p4x4 gelu 1e-05 | 256x256 0.984615 "
             "center bicubic half_even" INET},

    {"transformers' Swin", tiny_transformers_swin, .config = SWIN_CONFIG("swin", ""),
     .want = TINY("1") "K3" PLAIN GIVEN_H},
    {"transformers' Swin with its processor", tiny_transformers_swin,
     .config = SWIN_CONFIG("swin", ""), .own = true,
     .processor = "{\"size\":{\"height\":32,\"width\":32},\"resample\":3,"
                  "\"image_mean\":[0.1,0.2,0.3],\"image_std\":[0.4,0.5,0.6]}",
     .want = TINY("1") "K3" PLAIN " | 32x32 1 squash bicubic floor 0.1 0.6"},
    {"a SwinModel in v5's own names", tiny_transformers_swin_own,
     "-classifier.weight -classifier.bias", .config = SWIN_CONFIG("swin", ""),
     .want = TINY("1") "K0 img32x32 p4x4 gelu 1e-05" GIVEN_H},
    {"a Swin pretrained by SimMIM", tiny_transformers_swin,
     "-classifier.weight -classifier.bias +swin.embeddings.mask_token:1,1,8 +decoder.0.bias:4",
     .config = SWIN_CONFIG("swin", ""), .want = TINY("1") "K0" PLAIN GIVEN_H},
    {"transformers' Swin v2: its mask counts twice", tiny_transformers_swinv2,
     .config = SWIN_CONFIG("swinv2", ",\"pretrained_window_sizes\":[0,0]"),
     .want = TINY("2") "P0,0 K3 mask-200" PLAIN GIVEN_H},
    {"transformers' Swin v2: pretrained windows", tiny_transformers_swinv2,
     .config = SWIN_CONFIG("swinv2", ",\"pretrained_window_sizes\":[6,3]"),
     .want = TINY("2") "P6,3 K3 mask-200" PLAIN GIVEN_H},
    {"a Swin without config.json", tiny_transformers_swin, .extra = "input_size=32",
     .want = TINY("1") "K3" PLAIN GIVEN_H},

    {"MAE of transformers: its decoder is dropped", tiny_dinov2,
     NO_LS " ^vit. +decoder.mask_token:1,1,8 +decoder.decoder_pos_embed:1,17,8 "
           "+decoder.decoder_layers.0.mlp.fc1.weight:8,8",
     .config = VIT_CONFIG("vit_mae"),
     .want = "D64 L2 H4 F128 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-12 bicubic | "
             "16x16 0.9 center bilinear floor 0.1 0.4"},
    {"MSN of transformers", tiny_dinov2, NO_LS " ^vit. +classifier.weight:3,64 +classifier.bias:3",
     .config = VIT_CONFIG("vit_msn"),
     .want = "D64 L2 H4 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-12 bicubic | "
             "16x16 0.9 center bilinear floor 0.1 0.4"},
    {"registers of transformers: the class row is folded", tiny_dinov2,
     "+embeddings.register_tokens:1,4,64 ^dinov2_with_registers.",
     .config = VIT_CONFIG("dinov2_with_registers"),
     .want = "D64 L2 H4 F128 K0 img16x16 p4x4 grid4x4+0 cls r4 token norm ls gelu 1e-12 "
             "bicubic_antialias | 16x16 0.9 center bilinear floor 0.1 0.4"},
    {"DINOv2 giant of transformers: SwiGLU", tiny_dinov2,
     "encoder.layer.0.mlp.fc1.weight>encoder.layer.0.mlp.weights_in.weight "
     "encoder.layer.0.mlp.fc1.bias>encoder.layer.0.mlp.weights_in.bias "
     "encoder.layer.0.mlp.fc2.weight>encoder.layer.0.mlp.weights_out.weight "
     "encoder.layer.0.mlp.fc2.bias>encoder.layer.0.mlp.weights_out.bias "
     "encoder.layer.1.mlp.fc1.weight>encoder.layer.1.mlp.weights_in.weight "
     "encoder.layer.1.mlp.fc1.bias>encoder.layer.1.mlp.weights_in.bias "
     "encoder.layer.1.mlp.fc2.weight>encoder.layer.1.mlp.weights_out.weight "
     "encoder.layer.1.mlp.fc2.bias>encoder.layer.1.mlp.weights_out.bias "
     "encoder.layer.0.mlp.weights_out.weight:64,64 encoder.layer.1.mlp.weights_out.weight:64,64",
     .config = VIT_CONFIG("dinov2"),
     .want = "D64 L2 H4 F64 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm ls swiglu gelu 1e-12 "
             "bicubic | 16x16 0.9 center bilinear floor 0.1 0.4"},
    {"MAE's own pretraining file", tiny_timm,
     "-head.weight -head.bias +mask_token:1,1,8 +decoder_pos_embed:1,17,8 "
     "+decoder_blocks.0.attn.qkv.weight:24,8 +decoder_pred.bias:48",
     .want = VIT("0") "token norm gelu 1e-06 bicubic_antialias" GIVEN},
    {"DINO's own checkpoint, with its head", tiny_timm,
     "-head.weight -head.bias ^backbone. +head.mlp.0.weight:8,64 +head.last_layer.weight_g:9,1 "
     "+head.last_layer.weight_v:9,8",
     .want = VIT("0") "token norm gelu 1e-06 bicubic_antialias" GIVEN},
    {"DINOv2's training checkpoint, in chunks", tiny_timm,
     "-head.weight -head.bias +mask_token:1,64 blocks.1.norm1.bias>blocks.0.1.norm1.bias "
     "+blocks.0.ls1.gamma:64 +blocks.0.ls2.gamma:64 +blocks.1.ls1.gamma:64 "
     "+blocks.0.1.ls2.gamma:64 ^backbone. +dino_head.mlp.0.bias:8 "
     "+ibot_head.mlp.0.bias:8",
     .want = VIT("0") "token norm ls gelu 1e-06 bicubic_offset" GIVEN},
};

static const struct row bad[] = {
    {"torchvision: a missing tensor", tiny_torchvision, "-encoder.layers.encoder_layer_1.ln_2.bias",
     .status = ST_SHAPE, .want = "blocks.1.norm2.bias (64) is missing"},
    {"torchvision: both spellings", tiny_torchvision,
     "+encoder.layers.encoder_layer_1.mlp.linear_1.weight:128,64", .status = ST_SHAPE,
     .want = "both give blocks.1.mlp.fc1.weight"},
    {"torchvision: a representation layer", tiny_torchvision, "+heads.pre_logits.weight:64,64",
     .status = ST_SHAPE, .want = "heads.pre_logits.weight: a representation layer"},
    {"torchvision: a convolutional stem", tiny_torchvision,
     "+conv_proj.conv_bn_relu_0.0.weight:8,3,3,3", .status = ST_SHAPE,
     .want = "conv_proj.conv_bn_relu_0.0.weight: a convolutional stem"},
    {"torchvision: of no published size", tiny_torchvision, .own = true, .status = ST_USAGE,
     .want = "nothing says how its pictures are prepared"},
    {"torchvision: no stage and block", tiny_torchvision_swin, "+features.x.0.norm1.weight:8",
     .extra = "input_size=32", .status = ST_SHAPE,
     .want = "features.x.0.norm1.weight is not known"},
    {"torchvision: a merging in the place of blocks", tiny_torchvision_swin,
     "+features.2.0.norm1.weight:8", .extra = "input_size=32", .status = ST_SHAPE,
     .want = "both give layers.1.blocks.0.norm1.weight"},
    {"torchvision: a bias that has no thirds", tiny_torchvision_swinv2,
     "features.1.0.attn.qkv.bias:25", .extra = "input_size=32", .status = ST_SHAPE,
     .want = "layers.0.blocks.0.attn.q_bias (8) is missing"},
    {"torchvision: a bias of another width", tiny_torchvision_swinv2,
     "features.1.0.attn.qkv.bias:27", .extra = "input_size=32", .status = ST_SHAPE,
     .want = "features.1.0.attn.qkv.bias is (9), want (8)"},
    {"torchvision: a size that its coordinates are not of", tiny_torchvision_swinv2,
     .extra = "input_size=8", .status = ST_SHAPE,
     .want = "features.1.0.attn.relative_coords_table"},
    {"transformers: windows of a Swin v2 without config.json", tiny_transformers_swinv2,
     .extra = "input_size=32", .status = ST_USAGE, .want = "windows of a Swin v2 are in no tensor"},
    {"transformers: another kind of Swin", tiny_transformers_swin,
     .config = SWIN_CONFIG("donut-swin", ""), .status = ST_FORMAT,
     .want = "model_type is 'donut-swin', the tensors are those of swin"},
    {"transformers: two eps", tiny_transformers_swin,
     .config = "{\"model_type\":\"swin\",\"window_size\":4,\"image_size\":32,"
               "\"layer_norm_eps\":1e-12}",
     .status = ST_FORMAT, .want = "layer_norm_eps is 1e-12"},
    {"transformers: absolute positions", tiny_transformers_swin,
     "+swin.embeddings.position_embeddings:1,64,8", .config = SWIN_CONFIG("swin", ""),
     .status = ST_SHAPE, .want = "absolute positions (use_absolute_embeddings)"},
    {"transformers: other depths", tiny_transformers_swin,
     .config = "{\"model_type\":\"swin\",\"window_size\":4,\"image_size\":32,\"depths\":[2,2]}",
     .status = ST_FORMAT, .want = "depths says 2, the tensors 1"},
    {"transformers: another activation", tiny_transformers_swin,
     .config = "{\"model_type\":\"swin\",\"window_size\":4,\"image_size\":32,"
               "\"hidden_act\":\"relu\"}",
     .status = ST_USAGE, .want = "'relu'"},
    {"transformers: a window larger than the map", tiny_transformers_swin,
     .config = "{\"model_type\":\"swin\",\"window_size\":8,\"image_size\":32}", .status = ST_SHAPE,
     .want = "want (225, 1) for windows of 8x8 at 32x32"},
    {"transformers: windows that do not divide the map", tiny_transformers_swin,
     .config = "{\"model_type\":\"swin\",\"window_size\":4,\"image_size\":40}", .status = ST_USAGE,
     .want = "pads before it shifts"},
    {"torchvision: windows that do not divide the map", tiny_torchvision_swin,
     .extra = "input_size=40", .status = ST_USAGE, .want = "pads before it shifts"},
};

static void test_good(void **state) {
    (void)state;
    check_planned(good, COUNT_OF(good));
}

static void test_bad(void **state) {
    (void)state;
    check_refused(bad, COUNT_OF(bad));
}

/* ---- values ------------------------------------------------------------------------------- */

static struct h5 *convert_row(const struct row *row) {
    struct checkpoint checkpoint;
    struct conversion c;
    const struct convert_options options = {.dtype = DT_F32};
    struct h5 *file = NULL;
    enum status st = plan_row(row, &checkpoint, &c);
    if (st != ST_OK) print_message("%s\n", fail_message());
    assert_int_equal(st, ST_OK);
    assert_int_equal(convert_write(&checkpoint, &options, &c, path_of("out.h5")), ST_OK);
    conversion_release(&c);
    checkpoint_release(&checkpoint);
    assert_int_equal(h5_open(path_of("out.h5"), &file), ST_OK);
    return file;
}

/* `count` values of the dataset from `at` on are those of the tensor `source` from `from` on. */
static void assert_part(struct h5 *file, const char *target, size_t total, size_t at,
                        const char *source, size_t from, size_t count) {
    static float got[192 * 64];
    char path[160];
    snprintf(path, sizeof path, "/parameters/%s", target);
    assert_true(total <= COUNT_OF(got));
    assert_int_equal(h5_read_f32(file, path, got, total), ST_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(got[at + i] == value_at(source, from + i));
}

static void test_torchvision_values(void **state) {
    const struct row vit = {.base = tiny_torchvision};
    const struct row swin = {.base = tiny_torchvision_swinv2, .extra = "input_size=32"};
    struct h5 *file = convert_row(&vit);
    struct swin_config config;
    (void)state;
    assert_part(file, "blocks.1.attn.qkv.weight", 192 * 64, 0,
                "encoder.layers.encoder_layer_1.self_attention.in_proj_weight", 0, 192 * 64);
    assert_part(file, "blocks.1.mlp.fc2.bias", 64, 0, "encoder.layers.encoder_layer_1.mlp.3.bias",
                0, 64);
    assert_part(file, "head.weight", 3 * 64, 0, "heads.head.weight", 0, 3 * 64);
    assert_int_equal(h5_close(&file), ST_OK);
    file = convert_row(&swin);
    assert_int_equal(swin_config_read(file, &config), ST_OK);
    assert_true(config.mask_value == -100 && config.window_rule == WINDOW_PAD);
    assert_part(file, "layers.0.blocks.1.attn.q_bias", 8, 0, "features.1.1.attn.qkv.bias", 0, 8);
    assert_part(file, "layers.0.blocks.1.attn.v_bias", 8, 0, "features.1.1.attn.qkv.bias", 16, 8);
    assert_part(file, "layers.1.blocks.0.attn.v_bias", 16, 0, "features.3.0.attn.qkv.bias", 32, 16);
    assert_part(file, "layers.1.downsample.reduction.weight", 16 * 32, 0,
                "features.2.reduction.weight", 0, 16 * 32);
    assert_part(file, "layers.1.blocks.0.mlp.fc1.weight", 40 * 16, 0, "features.3.0.mlp.0.weight",
                0, 40 * 16);
    assert_part(file, "head.fc.bias", 3, 0, "head.bias", 0, 3);
    assert_int_equal(h5_close(&file), ST_OK);
}

static void test_transformers_values(void **state) {
    static const char id2label[] =
        ",\"id2label\":{\"0\":\"a cat\",\"2\":\"crane\",\"1\":\"crane\"}";
    char config[600];
    const struct row row = {.base = tiny_transformers_swinv2, .config = config};
    static const char *const block = "swinv2.encoder.layers.1.blocks.0.attention.self.";
    char name[128], **ids, **names;
    struct swin_config swin;
    struct h5 *file;
    size_t count;
    (void)state;
    snprintf(config, sizeof config, SWIN_CONFIG("swinv2", "%s"), id2label);
    file = convert_row(&row);
    snprintf(name, sizeof name, "%skey.weight", block);
    assert_part(file, "layers.1.blocks.0.attn.qkv.weight", 48 * 16, 256, name, 0, 256);
    snprintf(name, sizeof name, "%svalue.bias", block);
    assert_part(file, "layers.1.blocks.0.attn.v_bias", 16, 0, name, 0, 16);
    assert_part(file, "layers.1.downsample.norm.weight", 16, 0,
                "swinv2.encoder.layers.0.downsample.norm.weight", 0, 16);
    assert_int_equal(swin_config_read(file, &swin), ST_OK);
    assert_true(swin.mask_value == -200 && swin.window_rule == WINDOW_FIXED);
    assert_int_equal(labels_group_read(file, 3, &ids, &names, &count), ST_OK);
    assert_int_equal(count, 3);
    assert_string_equal(names[0], "a cat");
    assert_string_equal(ids[2], "crane");
    h5_free_names(ids, count);
    h5_free_names(names, count);
    assert_int_equal(h5_close(&file), ST_OK);
}

/* id2label: {what it says, how many labels or the sentence}. */
static void test_labels(void **state) {
    static const struct {
        const char *id2label, *want;
        int count;
    } rows[] = {
        {"{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\",\"2\":\"LABEL_2\"}", NULL, 0},
        {"{\"0\":\"a\",\"1\":\"b\",\"2\":\"c, d\"}", NULL, 3},
        {"[\"a\"]", "id2label is no object of names", 0},
        {"{\"0\":\"a\",\"1\":\"b\"}", "id2label names 2 classes, the tensors have 3", 0},
        {"{\"0\":\"a\",\"1\":\"b\",\"3\":\"c\"}", "no name of one line for class 2", 0},
        {"{\"0\":\"a\",\"1\":\"b\\nc\",\"2\":\"c\"}", "no name of one line for class 1", 0},
        {"{\"0\":\"a\",\"1\":7,\"2\":\"c\"}", "no name of one line for class 1", 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char config[600];
        struct checkpoint checkpoint;
        struct conversion c;
        const struct row row = {.base = tiny_transformers_swin, .config = config};
        snprintf(config, sizeof config, SWIN_CONFIG("swin", ",\"id2label\":%s"), rows[i].id2label);
        enum status st = plan_row(&row, &checkpoint, &c);
        assert_int_equal(st, rows[i].want ? ST_FORMAT : ST_OK);
        if (rows[i].want) assert_non_null(strstr(fail_message(), rows[i].want));
        assert_int_equal(c.label_count, rows[i].count);
        conversion_release(&c);
        checkpoint_release(&checkpoint);
    }
}

static void test_names(void **state) {
    static const struct {
        const struct name_origin *origin;
        const char *name, *target;
    } rows[] = {
        {&names_torchvision_swin, "features.7.1.attn.proj.bias",
         "layers.3.blocks.1.attn.proj.bias"},
        {&names_torchvision_swin, "features.6.norm.weight", "layers.3.downsample.norm.weight"},
        {&names_torchvision_swin, "features.0.2.weight", "patch_embed.norm.weight"},
        {&names_torchvision_swin, "features.0.1.weight", NULL},
        {&names_torchvision_swin, "features.01.0.norm1.weight", NULL},
        {&names_torchvision, "encoder.layers.encoder_layer_23.ln_1.bias", "blocks.23.norm1.bias"},
        {&names_torchvision, "encoder.layers.encoder_layer_.ln_1.bias", NULL},
        {&names_transformers_swin, "encoder.layers.2.downsample.norm.bias",
         "layers.3.downsample.norm.bias"},
        {&names_transformers_swinv2, "encoder.layers.0.blocks.1.attention.self.key.bias", NULL},
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
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_torchvision_values),
        cmocka_unit_test(test_transformers_values),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests_name("convert_origins", tests, make_folder, remove_folder);
}
