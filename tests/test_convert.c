/*
 * test_convert: tiny checkpoints (convert_sample.h), converted: the config, report and values
 * that come out. The faults are in test_convert_faults.c.
 */
#include "tests/convert_sample.h"
#include "weights/architectures.h"
#include "weights/names.h"

#define TAIL          " | 16x16 0.9 center bilinear half_even 0.1 0.4"
#define HALF_BLOCK(n) "-blocks." n ".attn.qkv.bias"

static const struct row good[] = {
    {"timm, nothing special", tiny_timm,
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"a prefix", tiny_timm, "^model.module.",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"MAE: fc_norm for norm", tiny_timm,
     "norm.weight>fc_norm.weight norm.bias>fc_norm.bias +decoder_embed.weight:2,2",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 avg fc_norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"headless", tiny_timm, "-head.weight -head.bias",
     .want = "D64 L2 H1 F128 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"distilled", tiny_timm,
     "+dist_token:1,1,64 +head_dist.weight:3,64 +head_dist.bias:3 pos_embed:1,18,64",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+2 cls dist r0 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"DeiT III's names", tiny_timm,
     "+blocks.0.gamma_1:64 +blocks.0.gamma_2:64 +blocks.1.gamma_1:64 +blocks.1.gamma_2:64 "
     "pos_embed:1,16,64",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+0 cls r0 token norm ls gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"registers without positions", tiny_timm, "+reg_token:1,4,64 pos_embed:1,16,64",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+0 cls r4 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"registers with positions and no class token", tiny_timm,
     "-cls_token +reg_token:1,4,64 pos_embed:1,20,64",
     .want =
         "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+4 r4 avg norm gelu 1e-06 bicubic_antialias" TAIL},
    {"DINOv2's registers: the class row is folded", tiny_timm, "+register_tokens:1,4,64",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+0 cls r4 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"DINOv2's own file", tiny_timm,
     "-head.weight -head.bias +mask_token:1,64 +blocks.0.ls1.gamma:64 +blocks.0.ls2.gamma:64 "
     "+blocks.1.ls1.gamma:64 +blocks.1.ls2.gamma:64",
     .want = "D64 L2 H1 F128 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm ls gelu 1e-06 "
             "bicubic_offset" TAIL},
    {"SwiGLU by DINOv2's names", tiny_timm,
     "blocks.0.mlp.fc1.weight>blocks.0.mlp.w12.weight blocks.0.mlp.fc1.bias>blocks.0.mlp.w12.bias "
     "blocks.0.mlp.fc2.weight>blocks.0.mlp.w3.weight blocks.0.mlp.fc2.bias>blocks.0.mlp.w3.bias "
     "blocks.0.mlp.w3.weight:64,64 blocks.1.mlp.fc2.weight:64,64",
     .want = "D64 L2 H1 F64 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm swiglu gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"chunked blocks", tiny_timm,
     "blocks.0.norm1.weight>blocks.0.0.norm1.weight blocks.1.norm1.weight>blocks.1.1.norm1.weight",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"no qkv bias", tiny_timm, HALF_BLOCK("0") " " HALF_BLOCK("1"),
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm noqkvb gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"CLIP's norm_pre: eps 1e-5", tiny_timm,
     "+norm_pre.weight:64 +norm_pre.bias:64 -patch_embed.proj.bias", .activation = "quick_gelu",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm pre quick_gelu 1e-05 "
             "bicubic_antialias" TAIL},
    {"no positions, the size given", tiny_timm, "-pos_embed", .extra = "input_size=24x16",
     .want = "D64 L2 H1 F128 K3 img24x16 p4x4 grid0x0+0 cls nopos r0 token norm gelu 1e-06 "
             "bicubic_antialias | 24x16 "
             "0.9 center bilinear half_even 0.1 0.4"},
    {"a grid that is no square, the size given", tiny_timm, "pos_embed:1,25,64",
     .extra = "input_size=24x16",
     .want = "D64 L2 H1 F128 K3 img24x16 p4x4 grid6x4+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias | 24x16 0.9 "
             "center bilinear half_even 0.1 0.4"},
    {"a flat patch kernel", tiny_timm, "patch_embed.proj.weight:64,48",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"fp16 and fp64 tensors", tiny_timm, "head.weight!F16 norm.weight!F64",
     .want = "D64 L2 H1 F128 K3 img16x16 p4x4 grid4x4+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias" TAIL},
    {"--arch", vit_tiny, .arch = "vit_tiny_patch16_224", .own = true,
     .want = "D192 L12 H3 F768 K10 img224x224 p16x16 grid14x14+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 224x224 0.9 center bicubic half_even 0.5 0.5"},
    {"--arch of the same shapes", vit_tiny, .arch = "deit_tiny_patch16_224.fb_in1k", .own = true,
     .want = "D192 L12 H3 F768 K10 img224x224 p16x16 grid14x14+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 224x224 0.9 center bicubic half_even 0.485 0.225"},
    {"--arch and a finer grid: a fine-tune", vit_tiny, "pos_embed:1,577,192",
     .arch = "vit_tiny_patch16_224", .own = true,
     .want = "D192 L12 H3 F768 K10 img384x384 p16x16 grid24x24+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 384x384 0.9 center bicubic half_even 0.5 0.5"},
    {"shapes of one row only", vit_tiny, "pos_embed:1,577,192", .own = true,
     .want = "D192 L12 H3 F768 K10 img384x384 p16x16 grid24x24+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 384x384 1 center bicubic half_even 0.5 0.5"},
    {"a hub folder; timm's defaults for what it lacks", vit_tiny, .config = CFG(""), .own = true,
     .want = "D192 L12 H3 F768 K10 img224x224 p16x16 grid14x14+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 224x224 0.875 center bicubic half_even 0.485 0.225"},
    {"a hub folder that says all", vit_tiny, .own = true,
     .config = CFG("\"input_size\":[3,240,208],\"crop_pct\":0.95,\"crop_mode\":\"squash\","
                   "\"interpolation\":\"bilinear\",\"mean\":[0.1,0.2,0.3],\"std\":[0.4,0.5,0.6]"),
     .want = "D192 L12 H3 F768 K10 img224x224 p16x16 grid14x14+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 240x208 0.95 squash bilinear half_even 0.1 0.6"},
    {"--arch over another config.json", vit_tiny, .config = CFG("\"crop_pct\":0.5"),
     .arch = "deit_tiny_patch16_224", .own = true,
     .want = "D192 L12 H3 F768 K10 img224x224 p16x16 grid14x14+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 224x224 0.9 center bicubic half_even 0.485 0.225"},
    {"--arch beside its own config.json", vit_tiny, .config = CFG("\"crop_pct\":0.5"),
     .arch = "vit_tiny_patch16_224", .own = true,
     .want = "D192 L12 H3 F768 K10 img224x224 p16x16 grid14x14+1 cls r0 token norm gelu 1e-06 "
             "bicubic_antialias"
             " | 224x224 0.5 center bicubic half_even 0.485 0.225"},
    {"model_args", vit_tiny, .own = true,
     .config = TIMM(
         ",\"global_pool\":\"avg\",\"model_args\":{\"num_heads\":6,\"act_layer\":\"gelu_tanh\"}"),
     .want = "D192 L12 H6 F768 K10 img224x224 p16x16 grid14x14+1 cls r0 avg norm gelu_tanh 1e-06 "
             "bicubic_antialias | "
             "224x224 0.9 center bicubic half_even 0.5 0.5"},
    {"transformers", tiny_dinov2, .config = DINO(), .processor = PROC(), .own = true,
     .want = "D64 L2 H4 F128 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm ls gelu 1e-06 bicubic | "
             "16x16 0.8 center "
             "bicubic floor 0.1 0.6"},
    {"transformers, a square resize", tiny_dinov2, .config = DINO(",\"image_size\":16"),
     .processor = "{\"size\":20,\"image_mean\":[0.5,0.5,0.5],\"image_std\":[0.5,0.5,0.5]}",
     .own = true,
     .want = "D64 L2 H4 F128 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm ls gelu 1e-06 bicubic | "
             "20x20 1 squash "
             "bilinear floor 0.5 0.5"},
    {"transformers with --preprocess over it", tiny_dinov2, .config = DINO(), .processor = PROC(),
     .own = true, .extra = "crop_mode=squash",
     .want = "D64 L2 H4 F128 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm ls gelu 1e-06 bicubic | "
             "16x16 0.8 squash "
             "bicubic floor 0.1 0.6"},
    {"transformers v5's names", tiny_dinov2,
     "encoder.layer.0.attention.attention.query.weight>encoder.layer.0.attention.q_proj.weight "
     "encoder.layer.1.attention.output.dense.bias>encoder.layer.1.attention.o_proj.bias",
     .config = DINO(),
     .want = "D64 L2 H4 F128 K0 img16x16 p4x4 grid4x4+1 cls r0 token norm ls gelu 1e-06 bicubic | "
             "16x16 0.9 center "
             "bilinear floor 0.1 0.4"},
};

static void test_good(void **state) {
    (void)state;
    check_planned(good, COUNT_OF(good));
}

/* ---- values ------------------------------------------------------------------------------- */

/* Converts the row into out.h5 and opens that. */
static struct h5 *convert_row(const struct row *row, enum dtype dtype) {
    struct checkpoint checkpoint;
    struct conversion c;
    struct convert_options options = {.dtype = dtype};
    struct h5 *file = NULL;
    assert_int_equal(plan_row(row, &checkpoint, &c), ST_OK);
    assert_int_equal(convert_write(&checkpoint, &options, &c, path_of("out.h5")), ST_OK);
    conversion_release(&c);
    checkpoint_release(&checkpoint);
    assert_int_equal(h5_open(path_of("out.h5"), &file), ST_OK);
    return file;
}

static void test_values(void **state) {
    static float got[192 * 64];
    const struct row plain = {.base = tiny_dinov2, .config = DINO()};
    const struct row folded = {.base = tiny_timm, .edits = "+register_tokens:1,4,64"};
    struct h5 *file = convert_row(&plain, DT_F32);
    char *name = NULL;
    (void)state;
    assert_int_equal(h5_get_string(file, "/", "name", &name), ST_OK);
    assert_string_equal(name, "out");
    mem_free(name);
    assert_int_equal(h5_read_f32(file, "/parameters/blocks.1.attn.qkv.weight", got, 192 * 64),
                     ST_OK);
    for (size_t i = 0; i < 64 * 64; i++) { /* query, key, value, in this order */
        assert_true(got[i] == value_at("encoder.layer.1.attention.attention.query.weight", i));
        assert_true(got[64 * 64 + i] ==
                    value_at("encoder.layer.1.attention.attention.key.weight", i));
        assert_true(got[2 * 64 * 64 + i] ==
                    value_at("encoder.layer.1.attention.attention.value.weight", i));
    }
    assert_int_equal(h5_close(&file), ST_OK);
    file = convert_row(&folded, DT_F32);
    assert_int_equal(h5_read_f32(file, "/parameters/cls_token", got, 64), ST_OK);
    for (size_t i = 0; i < 64; i++)
        assert_true(got[i] == value_at("cls_token", i) + value_at("pos_embed", i));
    assert_int_equal(h5_read_f32(file, "/parameters/pos_embed", got, 16 * 64), ST_OK);
    for (size_t i = 0; i < 16 * 64; i++)
        assert_true(got[i] == value_at("pos_embed", 64 + i));
    assert_int_equal(h5_close(&file), ST_OK);
}

static void test_dtypes(void **state) {
    static const struct {
        enum dtype dtype;
        float step; /* of values up to 0.5: half a unit in the last place */
    } rows[] = {{DT_F32, 0}, {DT_F16, 0x1p-13f}, {DT_BF16, 0x1p-10f}};
    const struct row plain = {.base = tiny_timm};
    (void)state;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        float got[192], most = 0;
        struct h5_dataset info;
        struct h5 *file = convert_row(&plain, rows[r].dtype);
        assert_int_equal(h5_info(file, "/parameters/head.weight", &info), ST_OK);
        assert_int_equal(info.dtype, rows[r].dtype);
        mem_free(info.name);
        assert_int_equal(h5_read_f32(file, "/parameters/head.weight", got, 192), ST_OK);
        for (size_t i = 0; i < 192; i++)
            most = fmaxf(most, fabsf(got[i] - value_at("head.weight", i)));
        assert_true(most <= rows[r].step);
        assert_true(r == 0 || most > rows[r].step / 8); /* it was narrowed */
        assert_int_equal(h5_close(&file), ST_OK);
    }
}

/* ---- tables ------------------------------------------------------------------------------- */

/*
 * Rows as a reader of the table would check them, and what timm 1.0.31 says
 * of some.
 */
static void test_architectures(void **state) {
    static const struct {
        const char *name;
        double crop_pct;
        const char *mode, *kernel;
        double mean;
    } tags[] = {
        {"vit_base_patch16_224", 0.9, "center", "bicubic", 0.5},
        {"vit_base_patch16_224.dino", 0.9, "center", "bicubic", 0.485},
        {"vit_base_patch16_224_miil", 0.875, "center", "bilinear", 0},
        {"vit_base_patch16_clip_384.openai_ft_in12k_in1k", 0.95, "squash", "bicubic", 0.48145466},
        {"vit_large_patch14_clip_224.laion2b_ft_in1k", 1, "center", "bicubic", 0.5},
        {"deit3_small_patch16_224.fb_in22k_ft_in1k", 1, "center", "bicubic", 0.485},
        {"vit_medium_patch16_gap_384.sw_in12k_ft_in1k", 0.95, "squash", "bicubic", 0.5},
    };
    const struct architecture *a, *before = NULL;
    struct preprocess_spec spec;
    const char *tag;
    (void)state;
    for (size_t i = 0; (a = architecture_at(i)); i++) {
        assert_ptr_equal(architecture_find(a->name), a);
        assert_string_equal(convert_arch_name(i), a->name);
        assert_true(!before || strcmp(before->name, a->name) < 0);
        assert_int_equal(a->image % a->patch, 0);
        assert_int_equal(a->dim % a->heads, 0);
        assert_true(architecture_preprocess(a->name, &spec, &tag));
        assert_int_equal(spec.height, a->image);
        before = a;
    }
    for (size_t i = 0; i < COUNT_OF(tags); i++) {
        assert_true(architecture_preprocess(tags[i].name, &spec, &tag));
        assert_true(spec.crop_pct == tags[i].crop_pct && spec.mean[0] == tags[i].mean);
        assert_string_equal(spec.crop_mode, tags[i].mode);
        assert_string_equal(spec.interpolation, tags[i].kernel);
    }
    assert_false(architecture_preprocess("vit_base_patch16_224.openai", &spec, &tag));
    assert_false(
        architecture_preprocess("vit_base_patch16_224.in1k", &spec, &tag)); /* part of a tag */
    assert_null(architecture_find("vit_base_patch16"));
    assert_null(architecture_find(""));
    assert_int_equal(architecture_find("vit_huge_patch14_clip_224")->heads, 16); /* not D/64 */
}

static void test_names(void **state) {
    static const struct {
        const char *name, *target;
    } rows[] = {
        {"blocks.11.attn.qkv.weight", "blocks.11.attn.qkv.weight"},
        {"blocks.2.17.ls1.gamma", "blocks.17.ls1.gamma"},
        {"blocks.01.norm1.weight", NULL},
        {"blocks..norm1.weight", NULL},
        {"blocks.12345.norm1.weight", NULL},
        {"blocks.1.norm1.weight.x", NULL},
        {"blocks.1.norm1", NULL},
        {"", NULL},
    };
    struct name_result result;
    char longest[400];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        names_map(&names_timm, rows[i].name, &result);
        assert_int_equal(result.fate, rows[i].target ? NAME_USE : NAME_UNKNOWN);
        if (rows[i].target) assert_string_equal(result.target, rows[i].target);
    }
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    names_map(&names_timm, longest, &result);
    assert_int_equal(result.fate, NAME_UNKNOWN);
}

/* The real DINOv2 ViT-S/14, when it is there: shared data is not part of the tree. */
static void test_dinov2_small(void **state) {
    const char *shared = getenv("VITRINE_SHARED_DATA");
    struct checkpoint checkpoint;
    struct convert_options options = {.dtype = DT_F32};
    struct conversion c;
    char text[512], path[512];
    (void)state;
    snprintf(path, sizeof path, "%s/dinov2-small", shared ? shared : "../shared/data");
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s ($VITRINE_SHARED_DATA)\n", path);
        skip();
    }
    assert_int_equal(checkpoint_open(path, NULL, &checkpoint), ST_OK);
    assert_int_equal(convert_plan(&checkpoint, &options, &c), ST_OK);
    describe(&c, text, sizeof text);
    assert_string_equal(
        text, "D384 L12 H6 F1536 K0 img518x518 p14x14 grid37x37+1 cls r0 token norm ls gelu 1e-06 "
              "bicubic | 224x224 0.875 center bicubic floor 0.485 0.225");
    assert_string_equal(c.info.architecture, "vit_small_patch14_dinov2");
    assert_string_equal(c.origin, "transformers Dinov2Model");
    conversion_release(&c);
    checkpoint_release(&checkpoint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),   cmocka_unit_test(test_values),
        cmocka_unit_test(test_dtypes), cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_names),  cmocka_unit_test(test_dinov2_small),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
