/*
 * test_convert_swin_faults: Swin checkpoints (convert_swin_sample.h) with a fault each: the status
 * and the sentence.
 */
#include "tests/convert_swin_sample.h"

#define NAME_T      "swin_tiny_patch4_window7_224"
#define TABLE(s, b) "layers." #s ".blocks." #b ".attn.relative_position_bias_table"
#define COORDS(s)   "layers." #s ".blocks.0.attn.relative_coords_table"

static const struct row bad[] = {
    /* tensors */
    {"a missing tensor", tiny_swin, "-layers.0.blocks.1.mlp.fc1.bias", .status = ST_SHAPE,
     .want = "model.safetensors: layers.0.blocks.1.mlp.fc1.bias (16) is missing"},
    {"two missing ones, an unknown and an extra one", tiny_swin,
     "-layers.0.blocks.1.mlp.fc1.bias -norm.bias +adapter:4 +layers.0.blocks.0.attn.q_bias:8",
     .status = ST_SHAPE,
     .want = "adapter is not known; layers.0.blocks.1.mlp.fc1.bias (16) is missing; norm.bias (16) "
             "is missing; layers.0.blocks.0.attn.q_bias has no place in this model"},
    {"a table missing", tiny_swin, "-" TABLE(1, 0), .status = ST_SHAPE,
     .want = TABLE(1, 0) " is missing"},
    {"one of two tables missing", tiny_swin, "-" TABLE(0, 0), .status = ST_SHAPE,
     .want = TABLE(0, 0) " (49, 1) is missing"},
    {"a table of other rows than its stage's", tiny_swin, TABLE(0, 1) ":25,1", .status = ST_SHAPE,
     .want = TABLE(0, 1) " is (25, 1), want (49, 1)"},
    {"a table of other heads", tiny_swin, TABLE(0, 1) ":49,2", .status = ST_SHAPE,
     .want = TABLE(0, 1) " is (49, 2), want (49, 1)"},
    {"an empty table", tiny_swin, TABLE(1, 0) ":0,2", .status = ST_SHAPE,
     .want = TABLE(1, 0) " is (0, 2): empty"},
    {"a merging missing", tiny_swin, "-layers.1.downsample.reduction.weight", .status = ST_SHAPE,
     .want = "layers.1.downsample.reduction.weight (16, 32) is missing"},
    {"a merging normed as in version 2", tiny_swin, "layers.1.downsample.norm.weight:16",
     .status = ST_SHAPE, .want = "layers.1.downsample.norm.weight is (16), want (32)"},
    {"no norm of the patches", tiny_swin, "-patch_embed.norm.weight -patch_embed.norm.bias",
     .status = ST_SHAPE, .want = "patch_embed.norm.weight (8) is missing"},
    {"no patch kernel", tiny_swin, "-patch_embed.proj.weight", .status = ST_SHAPE,
     .want = "patch_embed.proj.weight is missing"},
    {"a flat patch kernel", tiny_swin, "patch_embed.proj.weight:8,48", .status = ST_SHAPE,
     .want = "patch_embed.proj.weight is (8, 48), want (8, 3, "},
    {"one channel", tiny_swin, "patch_embed.proj.weight:8,1,4,4", .status = ST_SHAPE,
     .want = "takes pictures of 1 channels"},
    {"patches of no pixels", tiny_swin, "patch_embed.proj.weight:8,3,0,0", .status = ST_SHAPE,
     .want = "(8, 3, 0, 0): empty"},
    {"heads narrower than C/H", tiny_swin, "layers.1.blocks.0.attn.qkv.weight:24,16",
     .status = ST_SHAPE, .want = "layers.1.blocks.0.attn.qkv.weight is (24, 16), want (48, 16)"},
    {"a bias without its head", tiny_swin, "-head.fc.weight", .status = ST_SHAPE,
     .want = "head.fc.bias has no place in this model"},
    {"version 1 with a cosine's scale", tiny_swin, "+layers.1.blocks.0.attn.logit_scale:2,1,1",
     .status = ST_SHAPE, .want = "layers.0.blocks.0.attn.logit_scale is missing"},
    {"version 2 with a bias of qkv", tiny_swinv2, "+layers.1.blocks.0.attn.qkv.bias:48",
     .status = ST_SHAPE, .want = "layers.1.blocks.0.attn.qkv.bias has no place in this model"},
    {"version 2 with half a bias", tiny_swinv2, "-layers.1.blocks.0.attn.v_bias",
     .status = ST_SHAPE, .want = "layers.1.blocks.0.attn.v_bias (16) is missing"},
    {"version 2 with a flat scale", tiny_swinv2, "layers.1.blocks.0.attn.logit_scale:2",
     .status = ST_SHAPE, .want = "logit_scale is (2), want (2, 1, 1)"},
    {"version 2 with another bias MLP", tiny_swinv2,
     "layers.0.blocks.0.attn.cpb_mlp.0.weight:384,2", .status = ST_SHAPE,
     .want = "cpb_mlp.0.weight is (384, 2), want (512, 2)"},
    {"a stage without blocks", tiny_swin, "+layers.3.blocks.0.norm1.weight:64", .status = ST_SHAPE,
     .want = "stage 2 has 0 blocks, want 1 to 1000"},
    {"ten stages", tiny_swin, "+layers.9.blocks.0.norm1.weight:8", .status = ST_SHAPE,
     .want = "has 10 stages, want 1 to 8"},
    {"thousands of blocks", tiny_swin, "+layers.1.blocks.9999.norm1.weight:16", .status = ST_SHAPE,
     .want = "stage 1 has 10000 blocks, want 1 to 1000"},
    {"a stage of merging alone", tiny_swin_official, "+layers.1.downsample.norm.weight:64",
     .status = ST_SHAPE, .want = "stage 2 has 0 blocks"},
    {"more channels than are run", tiny_swin, "patch_embed.proj.weight:40000,3,1,1",
     .status = ST_SHAPE, .want = "has 80000 channels in the last stage, at most 65536"},
    {"heads that do not divide", tiny_swin, TABLE(1, 0) ":25,3", .extra = "input_size=24",
     .status = ST_SHAPE, .want = "3 heads do not share the 16 channels of stage 1 evenly"},
    {"integers", tiny_swin, "head.fc.bias!I32", .status = ST_SHAPE,
     .want = "head.fc.bias is int32, not floating point"},
    {"a NaN", tiny_swin, TABLE(0, 1) "=nan", .extra = "input_size=24", .status = ST_SHAPE,
     .want = TABLE(0, 1) " has 1 values of 49 that are not finite"},
    {"too large for fp16", tiny_swin, "norm.weight=65520", .dtype = DT_F16,
     .extra = "input_size=24", .status = ST_SHAPE, .want = "beyond the range of fp16"},
    {"two Swins", tiny_swin, "+model.layers.0.blocks.0.norm1.weight:8", .status = ST_SHAPE,
     .want = "holds more than one model"},
    {"timm's layout with the head of Swin's own", tiny_swin,
     "head.fc.weight>head.weight head.fc.bias>head.bias", .status = ST_SHAPE,
     .want = "head.bias is not known; head.weight is not known"},
    {"Swin's own layout with timm's head", tiny_swin_official, "head.weight>head.fc.weight",
     .status = ST_SHAPE, .want = "head.fc.weight is not known"},
    {"both layouts", tiny_swin, "+layers.0.downsample.reduction.weight:16,32", .status = ST_SHAPE,
     .want = "stage 2 has 0 blocks"},

    /* kin that is not run */
    {"absolute positions", tiny_swin, "+absolute_pos_embed:1,36,8", .status = ST_SHAPE,
     .want = "absolute_pos_embed: absolute positions"},
    {"Swin-MLP", tiny_swin, "+layers.0.blocks.0.spatial_mlp.weight:16,16,1", .status = ST_SHAPE,
     .want = "(Swin-MLP), which vitrine does not run"},
    {"Swin-MoE", tiny_swin, "+layers.1.blocks.0.mlp._moe_layer.gates.0.wg.weight:8,16",
     .status = ST_SHAPE, .want = "a mixture of experts"},
    {"FocalNet", tiny_swin, "+layers.0.blocks.0.modulation.f.weight:19,8", .status = ST_SHAPE,
     .want = "focal modulation"},
    {"swinv2_cr", tiny_swin, "+stages.0.blocks.0.attn.meta_mlp.fc1.weight:384,2",
     .status = ST_FORMAT, .want = "this is a Swin v2 of another kind (timm's swinv2_cr)"},

    /* the picture's size and the windows */
    {"no size", tiny_swin, .status = ST_USAGE,
     .want = "says the picture's size (a multiple of the patch, 4x4), and no known architecture"},
    {"a size that the patch does not divide", tiny_swin, .extra = "input_size=26",
     .status = ST_USAGE, .want = "give --arch, or --preprocess input_size=HxW"},
    {"a size too small for the tables", tiny_swin, .extra = "input_size=12", .status = ST_SHAPE,
     .want = TABLE(0, 0) " is (49, 1), which is no window of the 3x3 map at 12x12; " TABLE(
         1, 0) " is (25, 2), which is no window of the 2x2 map at 12x12"},
    {"a table of no window", tiny_swin, TABLE(1, 0) ":26,2", .extra = "input_size=24",
     .status = ST_SHAPE, .want = "is (26, 2), which is no window of the 3x3 map at 24x24"},
    {"a table of an even side", tiny_swin, TABLE(1, 0) ":16,2", .extra = "input_size=24",
     .status = ST_SHAPE, .want = "is (16, 2), which is no window of the 3x3 map at 24x24"},
    {"a wide window on a square picture", tiny_swin_wide, .extra = "input_size=24",
     .status = ST_SHAPE, .want = TABLE(1, 0) " is (15, 2), which is no window of the 3x3 map"},
    {"version 2 without windows", tiny_swinv2, .extra = "input_size=24", .status = ST_USAGE,
     .want = "the windows of a Swin v2 are in no tensor of it: give --arch, or a config.json"},
    {"version 2 without a size", tiny_swinv2_official, .status = ST_USAGE,
     .want = "says the picture's size"},
    {"version 2: coordinates of an even side", tiny_swinv2_official, COORDS(0) ":1,6,7,2",
     .extra = "input_size=24", .status = ST_SHAPE,
     .want = COORDS(0) " is (1, 6, 7, 2), which is no window of the 6x6 map at 24x24"},
    {"version 2: coordinates without an axis", tiny_swinv2_official, COORDS(1) ":5,5,2",
     .extra = "input_size=24", .status = ST_SHAPE, .want = COORDS(1) " is (5, 5, 2), which is no"},
    {"version 2: coordinates of a larger map", tiny_swinv2_official, .extra = "input_size=8",
     .status = ST_SHAPE, .want = COORDS(0) " is (1, 7, 7, 2), which is no window of the 2x2 map"},

    /* --arch and config.json */
    {"--arch of a ViT", tiny_swin, .arch = "vit_tiny_patch16_224", .status = ST_SHAPE,
     .want = "--arch says vit_tiny_patch16_224, which has no stages, the tensors do"},
    {"--arch of another width", tiny_swin, .arch = NAME_T, .status = ST_SHAPE,
     .want = "which has embed_dim 96, the tensors 8"},
    {"--arch of the other version", swinv2_tiny, .arch = NAME_T, .status = ST_SHAPE,
     .want = "which has version 1, the tensors 2"},
    {"--arch of another depth", swin_tiny, .arch = "swin_small_patch4_window7_224",
     .status = ST_SHAPE, .want = "which has blocks 18 in stage 2, the tensors 6"},
    {"--arch of other heads", swin_tiny, TABLE(3, 0) ":169,12 " TABLE(3, 1) ":169,12",
     .arch = NAME_T, .status = ST_SHAPE, .want = "which has heads 24 in stage 3, the tensors 12"},
    {"--arch of another hidden width", swin_tiny,
     "layers.0.blocks.0.mlp.fc1.weight:288,96 layers.0.blocks.0.mlp.fc1.bias:288 "
     "layers.0.blocks.0.mlp.fc2.weight:96,288 layers.0.blocks.1.mlp.fc1.weight:288,96 "
     "layers.0.blocks.1.mlp.fc1.bias:288 layers.0.blocks.1.mlp.fc2.weight:96,288",
     .arch = NAME_T, .status = ST_SHAPE,
     .want = "which has mlp hidden 384 in stage 0, the tensors 288"},
    {"--arch of another patch", swin_tiny, "patch_embed.proj.weight:96,3,2,2", .arch = NAME_T,
     .status = ST_SHAPE, .want = "which has patch height 4, the tensors 2"},
    {"--arch of other windows", swin_tiny, .arch = "swin_s3_tiny_224", .own = true,
     .status = ST_SHAPE,
     .want = TABLE(2, 0) " is (169, 12), want (729, 12) for windows of 14x14 at 224x224"},
    {"--arch with an unknown tag", swin_tiny, .arch = NAME_T ".ms_in21k", .status = ST_USAGE,
     .want = "no weights of that tag"},
    {"--arch of swinv2_cr", swin_tiny, .arch = "swinv2_cr_tiny_224", .status = ST_USAGE,
     .want = "which is no architecture known here"},
    {"version 2: shapes of several", swinv2_tiny, .own = true, .status = ST_USAGE,
     .want = "give one with --arch: swinv2_tiny_window16_256, swinv2_tiny_window8_256"},
    {"version 2: --arch of other windows than its coordinates", swinv2_tiny_official,
     .arch = "swinv2_tiny_window8_256", .own = true, .status = ST_SHAPE,
     .want = COORDS(0) " is (1, 31, 31, 2), want (1, 15, 15, 2) for windows of 8x8 at 256x256"},
    {"version 2: --arch of other pretrained windows", swinv2_base_official,
     .arch = "swinv2_base_window16_256", .own = true, .status = ST_SHAPE,
     .want = COORDS(0) " is not normalised by a window of 16"},
    {"nothing about pictures", tiny_swin, .own = true, .extra = "input_size=24", .status = ST_USAGE,
     .want = "(crop_pct is missing)"},
    {"config.json: an architecture of another family", swin_tiny,
     .config = SWIN_TIMM("vit_tiny_patch16_224", ""), .status = ST_SHAPE,
     .want = "config.json says vit_tiny_patch16_224, which has no stages"},
    {"config.json: windows that the tables are not of", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":8"), .status = ST_SHAPE,
     .want = TABLE(0, 0) " is (169, 3), want (225, 3) for windows of 8x8 at 224x224"},
    {"config.json: windows that are not square", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":[7,8]"), .status = ST_FORMAT,
     .want = "window_size has (7, 8), which is not square"},
    {"config.json: a stage's windows that are not square", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":[[7,7],[7,7],[7,14],[7,7]]"), .status = ST_FORMAT,
     .want = "window_size has (7, 14), which is not square"},
    {"config.json: windows of three stages", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":[7,7,7]"), .status = ST_FORMAT,
     .want = "window_size has 3 windows, the tensors 4 stages"},
    {"config.json: windows of nine stages", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":[7,7,7,7,7,7,7,7,7]"), .status = ST_FORMAT,
     .want = "window_size are not up to 8 whole numbers from 1 to 4096"},
    {"config.json: windows of nothing", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":0"), .status = ST_FORMAT,
     .want = "window_size is no number from 1 to 4096"},
    {"config.json: half a window", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":[7,7,7.5,7]"), .status = ST_FORMAT,
     .want = "window_size are not up to 8 whole numbers"},
    {"config.json: no windows at all", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":[]"), .status = ST_FORMAT,
     .want = "window_size is an empty list"},
    {"config.json: windows as words", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":\"7\""), .status = ST_FORMAT,
     .want = "window_size is no number"},
    {"config.json: windows in triples", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_size\":[[7,7,7],[7,7,7]]"), .status = ST_FORMAT,
     .want = "window_size are not up to 8 whole numbers"},
    {"config.json: windows larger than the map", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"always_partition\":true"), .status = ST_FORMAT,
     .want = "always_partition"},
    {"config.json: another pool", swin_tiny, .own = true,
     .config = SWIN_TIMM(NAME_T, ",\"global_pool\":\"max\""), .status = ST_FORMAT,
     .want = "global_pool is 'max'"},
    {"config.json: another width", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"embed_dim\":5"), .status = ST_FORMAT,
     .want = "embed_dim says 5, the tensors 96"},
    {"config.json: other depths", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"depths\":[2,2,9,2]"), .status = ST_FORMAT,
     .want = "depths says 9, the tensors 6"},
    {"config.json: depths of three stages", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"depths\":[2,2,6]"), .status = ST_FORMAT,
     .want = "depths has 3 numbers, the tensors 4 stages"},
    {"config.json: other heads", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"num_heads\":[1,2,3,4]"), .status = ST_FORMAT,
     .want = "num_heads says 1, the tensors 3"},
    {"config.json: another patch", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"patch_size\":2"), .status = ST_FORMAT,
     .want = "patch_size says 2, the tensors 4"},
    {"config.json: other classes", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"num_classes\":5"), .status = ST_FORMAT,
     .want = "num_classes says 5, the tensors 10"},
    {"config.json: no biases", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"qkv_bias\":false"), .status = ST_FORMAT,
     .want = "qkv_bias is false, the tensors have one"},
    {"config.json: a picture that the patch does not divide", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"img_size\":130"), .status = ST_FORMAT,
     .want = "img_size 130 is no multiple of the patch, 4"},
    {"config.json: a picture beyond all bounds", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"img_size\":1e30"), .status = ST_FORMAT, .want = "img_size"},
    {"config.json: an unknown argument", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"window_ratio\":8"), .status = ST_FORMAT,
     .want = "model_args has window_ratio, which vitrine does not know"},
    {"config.json: another activation", swin_tiny, .own = true,
     .config = SWIN_ARGS(NAME_T, "\"act_layer\":\"relu\""), .status = ST_USAGE, .want = "'relu'"},
    {"config.json: pretrained windows of three stages", swinv2_tiny, .own = true,
     .config = SWIN_ARGS("swinv2_tiny_window8_256", "\"pretrained_window_sizes\":[6,6,6]"),
     .status = ST_FORMAT, .want = "pretrained_window_sizes has 3 windows, the tensors 4 stages"},
    {"config.json: negative pretrained windows", swinv2_tiny, .own = true,
     .config = SWIN_ARGS("swinv2_tiny_window8_256", "\"pretrained_window_sizes\":[6,6,6,-1]"),
     .status = ST_FORMAT, .want = "pretrained_window_sizes are not up to 8 whole numbers"},
};

static void test_bad(void **state) {
    (void)state;
    check_refused(bad, COUNT_OF(bad));
}

/* Coordinates that no window made, told by their values. */
static void test_coordinates(void **state) {
    static const float values[] = {NAN, INFINITY, -1, 0, 1e-20f, 1.1f};
    const struct row row = {.base = tiny_swinv2_official, .extra = "input_size=24"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        struct checkpoint checkpoint;
        struct conversion c;
        struct convert_options options = {.dtype = DT_F32, .arch = NULL};
        const char *list[] = {"input_size=24", "crop_pct=0.9", "interpolation=bilinear",
                              "mean=0.1,0.2,0.3", "std=0.4"};
        options.preprocess = list;
        options.preprocess_count = COUNT_OF(list);
        assert_int_equal(plan_row(&row, &checkpoint, &c), ST_OK);
        conversion_release(&c);
        for (size_t t = 0; t < checkpoint.count; t++) {
            struct tensor *tensor = &checkpoint.tensors[t];
            if (strcmp(tensor->name, COORDS(0)) != 0) continue;
            float copy[7 * 7 * 2];
            memcpy(copy, tensor->data, sizeof copy);
            copy[6 * 7 * 2] = values[i]; /* the last offset down */
            tensor->data = (const uint8_t *)copy;
            enum status st = convert_plan(&checkpoint, &options, &c);
            if (st == ST_OK) print_message("%g was taken\n", (double)values[i]);
            assert_int_equal(st, ST_SHAPE);
            assert_non_null(strstr(fail_message(), COORDS(0) " has coordinates of no window"));
        }
        checkpoint_release(&checkpoint);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_coordinates),
    };
    return cmocka_run_group_tests_name("convert_swin_faults", tests, make_folder, remove_folder);
}
