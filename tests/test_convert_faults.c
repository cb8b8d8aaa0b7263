/*
 * test_convert_faults: tiny checkpoints (convert_sample.h) with a fault each: the status and the
 * sentence.
 */
#include "tests/convert_sample.h"

static const struct row bad[] = {
    {"a missing tensor", tiny_timm, "-blocks.1.mlp.fc1.bias", .status = ST_SHAPE,
     .want = "blocks.1.mlp.fc1.bias (128) is missing"},
    {"two missing ones, both named", tiny_timm, "-blocks.1.mlp.fc1.bias -norm.bias",
     .status = ST_SHAPE,
     .want = "blocks.1.mlp.fc1.bias (128) is missing; norm.bias (64) is missing"},
    {"a block without any tensor", tiny_timm, "blocks.1.norm1.weight>blocks.3.norm1.weight",
     .status = ST_SHAPE, .want = "blocks.2.norm1.weight (64) is missing"},
    {"an unknown tensor", tiny_timm, "+adapter.down.weight:4,64", .status = ST_SHAPE,
     .want = "adapter.down.weight is not known"},
    {"unknown and missing together", tiny_timm, "+adapter:4 -head.bias", .status = ST_SHAPE,
     .want = "adapter is not known; head.bias (3) is missing"},
    {"another shape", tiny_timm, "blocks.0.attn.qkv.weight:128,64", .status = ST_SHAPE,
     .want = "blocks.0.attn.qkv.weight is (128, 64), want (192, 64)"},
    {"another rank", tiny_timm, "cls_token:64", .status = ST_SHAPE,
     .want = "cls_token is (64), want (1, 1, 64)"},
    {"patches of no pixels", tiny_timm, "patch_embed.proj.weight:64,3,0,0", .status = ST_SHAPE,
     .want = "patch_embed.proj.weight is (64, 3, 0, 0): empty"},
    {"no rows of positions", tiny_timm, "pos_embed:1,0,64", .status = ST_SHAPE, .want = "empty"},
    {"a scalar", tiny_timm, "norm.weight:", .status = ST_SHAPE,
     .want = "norm.weight is (), want (64)"},
    {"a second head without its token", tiny_timm, "+head_dist.weight:3,64", .status = ST_SHAPE,
     .want = "head_dist.weight has no place in this model"},
    {"integers", tiny_timm, "head.bias!I32", .status = ST_SHAPE,
     .want = "head.bias is int32, not floating point"},
    {"one channel", tiny_timm, "patch_embed.proj.weight:64,1,4,4", .status = ST_SHAPE,
     .want = "takes pictures of 1 channels"},
    {"no blocks", tiny_timm, "^x.", .status = ST_FORMAT, .want = "none of its 32 tensors"},
    {"two spellings of one tensor", tiny_timm, "+register_tokens:1,4,64 +reg_token:1,4,64",
     .status = ST_SHAPE, .want = "both give reg_token"},
    {"a NaN", tiny_timm, "head.weight=nan", .status = ST_SHAPE,
     .want = "head.weight has 1 values of 192 that are not finite"},
    {"infinities, both named", tiny_timm, "head.weight=inf norm.bias=inf", .status = ST_SHAPE,
     .want = "; norm.bias has 1 values of 64 that are not finite"},
    {"too large for fp16", tiny_timm, "norm.weight=65520", .dtype = DT_F16, .status = ST_SHAPE,
     .want = "norm.weight has 1 values beyond the range of fp16"},
    {"pre_logits", tiny_timm, "+pre_logits.fc.weight:64,64", .status = ST_SHAPE,
     .want = "pre_logits.fc.weight: a representation layer"},
    {"parallel branches", tiny_timm, "+blocks.0.gamma_1_1:64", .status = ST_SHAPE,
     .want = "parallel branches"},
    {"two models", tiny_timm, "+model.patch_embed.proj.weight:64,3,4,4", .status = ST_SHAPE,
     .want = "more than one model"},
    {"a Swin in front", tiny_timm, "+layers.0.blocks.0.norm1.weight:64", .status = ST_SHAPE,
     .want = "blocks.0.attn.proj.bias is not known"},
    {"--arch of a Swin", tiny_timm, .arch = "swin_tiny_patch4_window7_224", .status = ST_SHAPE,
     .want = "--arch says swin_tiny_patch4_window7_224, which has stages, the tensors do not"},
    {"a grid that is no square", tiny_timm, "pos_embed:1,24,64", .status = ST_USAGE,
     .want = "input_size=HxW"},
    {"no positions and no size", tiny_timm, "-pos_embed", .status = ST_USAGE,
     .want = "input_size=HxW"},
    {"width that says no heads", tiny_timm,
     "cls_token:1,1,32 pos_embed:1,17,32 patch_embed.proj.weight:32,3,4,4", .status = ST_SHAPE,
     .want = "want (32)"},
    {"nothing about pictures", tiny_timm, .own = true, .status = ST_USAGE,
     .want = "(crop_pct is missing)"},
    {"only some of it", tiny_timm, .own = true, .extra = "crop_pct=1", .status = ST_USAGE,
     .want = "(interpolation is missing)"},
    {"an unknown key", tiny_timm, .extra = "crop=1", .status = ST_USAGE, .want = "want KEY=VALUE"},
    {"no value", tiny_timm, .extra = "mean", .status = ST_USAGE, .want = "want KEY=VALUE"},
    {"two numbers for mean", tiny_timm, .extra = "mean=1,2", .status = ST_USAGE,
     .want = "want R,G,B"},
    {"four numbers for mean", tiny_timm, .extra = "mean=1,2,3,4", .status = ST_USAGE,
     .want = "want R,G,B"},
    {"a std of zero", tiny_timm, .extra = "std=0", .status = ST_USAGE, .want = "each from"},
    {"a crop of zero", tiny_timm, .extra = "crop_pct=0", .status = ST_USAGE, .want = "0.01 to 4"},
    {"an unknown filter", tiny_timm, .extra = "interpolation=cubic", .status = ST_USAGE,
     .want = "nearest, box"},
    {"a picture that nobody could run", tiny_timm, .extra = "input_size=16384", .status = ST_USAGE,
     .want = "pictures of 16384x16384 are 16777216 patches"},
    {"a smaller one that takes hours", vit_tiny, .arch = "vit_tiny_patch16_224",
     .extra = "input_size=8192", .status = ST_USAGE,
     .want = "8192x8192 are 262144 patches and 3.2e+14 multiply-adds each"},
    {"an unknown architecture", tiny_timm, .arch = "vit_nano", .status = ST_USAGE,
     .want = "'vit_nano'"},
    {"an architecture of other sizes", tiny_timm, .arch = "vit_tiny_patch16_224",
     .status = ST_SHAPE, .want = "embed_dim 192, the tensors 64"},
    {"an unknown tag", tiny_timm, .arch = "vit_tiny_patch16_224.x", .status = ST_USAGE,
     .want = "no weights of that tag"},
    {"config.json of another model", tiny_timm, .config = TIMM(), .status = ST_SHAPE,
     .want = "config.json says"},
    {"config.json that is no JSON", tiny_timm, .config = "{", .status = ST_FORMAT,
     .want = "config.json: is not"},
    {"config.json nested too deep", tiny_timm,
     .config = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
     .status = ST_FORMAT, .want = "nests deeper than 64 levels"},
    {"an unknown activation", tiny_timm, .activation = "relu", .status = ST_USAGE,
     .want = "'relu'"},
    {"shapes of several architectures", vit_tiny, .own = true, .status = ST_USAGE,
     .want = "give one with --arch: deit_tiny_patch16_224, vit_tiny_patch16_224"},
    {"--arch with another token", vit_tiny, .arch = "deit_tiny_distilled_patch16_224",
     .status = ST_SHAPE, .want = "a distillation token, the tensors do not"},
    {"--arch of another patch size", vit_tiny, "patch_embed.proj.weight:192,3,8,8",
     .arch = "vit_tiny_patch16_224", .status = ST_SHAPE, .want = "patch size 16, the tensors 8"},
    {"config.json: an unknown architecture", vit_tiny, .config = "{\"architecture\":\"resnet50\"}",
     .status = ST_USAGE, .want = "config.json says 'resnet50'"},
    {"config.json: an unknown argument", vit_tiny,
     .config = TIMM(",\"model_args\":{\"scale_attn_norm\":true}"), .status = ST_FORMAT,
     .want = "scale_attn_norm"},
    {"config.json: a pool vitrine has not", vit_tiny, .config = TIMM(",\"global_pool\":\"avgmax\""),
     .status = ST_FORMAT, .want = "'avgmax'"},
    {"config.json: attention pooling without its tensors", vit_tiny,
     .config = TIMM(",\"global_pool\":\"map\""), .status = ST_SHAPE,
     .want = "attn_pool.latent is missing"},
    {"config.json: a number for a word", vit_tiny, .config = TIMM(",\"global_pool\":1"),
     .status = ST_FORMAT, .want = "global_pool is no word"},
    {"config.json: an unknown crop mode", vit_tiny, .config = CFG("\"crop_mode\":\"zoom\""),
     .status = ST_FORMAT, .want = "'zoom'"},
    {"config.json: a crop of nothing", vit_tiny, .config = CFG("\"crop_pct\":0"),
     .status = ST_FORMAT, .want = "crop_pct is no number from 0.01 to 4"},
    {"config.json: one channel", vit_tiny, .config = CFG("\"input_size\":[1,224,224]"),
     .status = ST_FORMAT, .want = "want (3, height, width)"},
    {"config.json: two means", vit_tiny, .config = CFG("\"mean\":[0.5,0.5]"), .status = ST_FORMAT,
     .want = "mean are not three numbers"},
    {"config.json: a random filter", vit_tiny, .config = CFG("\"interpolation\":\"random\""),
     .status = ST_FORMAT, .want = "'random'"},
    {"transformers: an unknown kind", tiny_dinov2, .config = "{\"model_type\":\"bert\"}",
     .status = ST_FORMAT, .want = "model_type is 'bert'"},
    {"transformers: no heads", tiny_dinov2,
     .config = "{\"model_type\":\"dinov2\",\"layer_norm_eps\":1e-6}", .status = ST_FORMAT,
     .want = "num_attention_heads"},
    {"transformers: heads that do not divide", tiny_dinov2,
     .config = "{\"model_type\":\"dinov2\",\"layer_norm_eps\":1e-6,\"num_attention_heads\":5}",
     .status = ST_SHAPE, .want = "5 heads do not share 64 channels"},
    {"transformers: half a head", tiny_dinov2,
     .config = "{\"model_type\":\"dinov2\",\"layer_norm_eps\":1e-6,\"num_attention_heads\":1.5}",
     .status = ST_FORMAT, .want = "whole number"},
    {"transformers: another activation", tiny_dinov2,
     .config = "{\"model_type\":\"dinov2\",\"layer_norm_eps\":1e-6,\"num_attention_heads\":1,"
               "\"hidden_act\":\"silu\"}",
     .status = ST_USAGE, .want = "'silu'"},
    {"transformers: no values missing", tiny_dinov2,
     "-encoder.layer.1.attention.attention.value.weight", .config = DINO(), .status = ST_SHAPE,
     .want = "only 2 of the 3 parts of blocks.1.attn.qkv.weight"},
    {"transformers: both spellings", tiny_dinov2, "+encoder.layer.1.attention.v_proj.weight:64,64",
     .config = DINO(), .status = ST_SHAPE, .want = "both give blocks.1.attn.qkv.weight"},
    {"transformers: parts of two widths", tiny_dinov2,
     "encoder.layer.0.attention.attention.key.weight:64,32", .config = DINO(), .status = ST_SHAPE,
     .want = "cannot be stacked"},
    {"transformers: a head over two widths", tiny_dinov2,
     "+classifier.weight:3,128 +classifier.bias:3", .config = DINO(), .status = ST_SHAPE,
     .want = "classifier.weight is (3, 128), want (3, 64)"},
    {"transformers: another depth, width and patch, all listed", tiny_dinov2,
     .config = DINO(",\"num_hidden_layers\":3,\"hidden_size\":32,\"patch_size\":[8,8]"),
     .status = ST_SHAPE,
     .want = "config.json: num_hidden_layers says 3, the tensors 2; config.json: hidden_size says "
             "32, the tensors 64; config.json: patch_size says 8x8, the tensors 4x4"},
    {"transformers: another MLP", tiny_dinov2, .config = DINO(",\"mlp_ratio\":4"),
     .status = ST_SHAPE, .want = "mlp_ratio 4 makes hidden layers of 256, the tensors have 128"},
    {"transformers: no positions", tiny_dinov2, "-embeddings.position_embeddings",
     .config = DINO(",\"image_size\":16"), .status = ST_SHAPE,
     .want = "the position embedding is missing, which every ViT of its origin has"},
    {"transformers: no class token", tiny_dinov2,
     "-embeddings.cls_token embeddings.position_embeddings:1,16,64", .config = DINO(),
     .status = ST_SHAPE, .want = "the class token is missing"},
    {"transformers: no last norm", tiny_dinov2, "-layernorm.weight -layernorm.bias",
     .config = DINO(), .status = ST_SHAPE, .want = "the last norm is missing"},
    {"transformers: no bias of the patches", tiny_dinov2,
     "-embeddings.patch_embeddings.projection.bias", .config = DINO(), .status = ST_SHAPE,
     .want = "the bias of the patches is missing"},
    {"transformers: names of 2 classes for 3", tiny_dinov2,
     "+classifier.weight:3,64 +classifier.bias:3",
     .config = DINO(",\"id2label\":{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\"}"), .status = ST_FORMAT,
     .want = "id2label names 2 classes, the tensors have 3"},
    {"--arch without positions", vit_tiny, "-pos_embed", .arch = "vit_tiny_patch16_224",
     .status = ST_SHAPE, .want = "which has positions, the tensors do not"},
    {"--arch without the last norm", vit_tiny, "-norm.weight -norm.bias",
     .arch = "vit_tiny_patch16_224", .status = ST_SHAPE, .want = "which has norm, the tensors"},
    {"--arch without the bias of the patches", vit_tiny, "-patch_embed.proj.bias",
     .arch = "vit_tiny_patch16_224", .status = ST_SHAPE, .want = "which has a bias of the patches"},
    {"config.json: another depth", vit_tiny, .config = TIMM(",\"model_args\":{\"depth\":6}"),
     .status = ST_SHAPE, .want = "config.json: depth says 6, the tensors 12"},
    {"config.json: the head is missing", vit_tiny, "-head.weight -head.bias",
     .config = TIMM(",\"num_classes\":10"), .status = ST_SHAPE,
     .want = "config.json: num_classes says 10, the tensors 0"},
    {"transformers: a std of 0", tiny_dinov2, .config = DINO(),
     .processor = "{\"size\":16,\"image_mean\":[0,0,0],\"image_std\":[1,0,1]}", .status = ST_FORMAT,
     .want = "preprocessor_config.json: image_std has 0, want 1e-06 to 1000"},
    {"transformers: classes as a list", tiny_dinov2, "+classifier.weight:3,64 +classifier.bias:3",
     .config = DINO(",\"id2label\":[\"a\"]"), .status = ST_FORMAT,
     .want = "id2label is no object of names"},
    {"a NUL in a name", tiny_dinov2, .config = DINO(",\"id2label\":{\"0\":\"a\\u0000b\"}"),
     .status = ST_FORMAT, .want = "holds a NUL"},
    {"text behind config.json's object", tiny_dinov2, .config = DINO() " }", .status = ST_FORMAT,
     .want = "goes on behind its JSON object"},
    {"a picture of no whole patches", tiny_timm, .extra = "input_size=17", .status = ST_USAGE,
     .want = "17x17 (--preprocess input_size) are no multiple of the patch, 4x4"},
    {"transformers: no processor", tiny_dinov2, .config = DINO(), .own = true, .status = ST_USAGE,
     .want = "nothing says how"},
    {"transformers: another scale", tiny_dinov2, .config = DINO(),
     .processor = PROC(",\"rescale_factor\":0.5"), .status = ST_FORMAT, .want = "1/255"},
    {"transformers: a short side without crop", tiny_dinov2, .config = DINO(),
     .processor = "{\"size\":{\"shortest_edge\":20},\"image_mean\":[0,0,0],\"image_std\":[1,1,1]}",
     .status = ST_FORMAT, .want = "does not crop"},
};

static void test_bad(void **state) {
    (void)state;
    check_refused(bad, COUNT_OF(bad));
}

/* A write that cannot be: the sentence, and neither the file nor its part is left. */
static void test_write_faults(void **state) {
    static const char *const labels[] = {"a", "b"};
    const struct row plain = {.base = tiny_timm};
    struct checkpoint checkpoint;
    struct conversion c;
    struct convert_options options = {
        .dtype = DT_F32, .label_count = 2, .label_ids = labels, .label_names = labels};
    (void)state;
    unlink(path_of("out.h5"));
    assert_int_equal(plan_row(&plain, &checkpoint, &c), ST_OK);
    assert_int_equal(convert_write(&checkpoint, &options, &c, path_of("out.h5")), ST_USAGE);
    assert_non_null(strstr(fail_message(), "2 labels for a model of 3 classes"));
    options.label_count = 0;
    options.dtype = DT_I8;
    assert_int_equal(convert_write(&checkpoint, &options, &c, path_of("out.h5")), ST_USAGE);
    options.dtype = DT_F32;
    assert_int_not_equal(convert_write(&checkpoint, &options, &c, path_of("none/out.h5")), ST_OK);
    assert_int_not_equal(access(path_of("out.h5"), F_OK), 0);
    assert_int_equal(mkdir(path_of("out.h5"), 0700), 0); /* the name is taken by a folder */
    assert_int_equal(convert_write(&checkpoint, &options, &c, path_of("out.h5")), ST_IO);
    assert_int_equal(rmdir(path_of("out.h5")), 0);
    conversion_release(&c);
    checkpoint_release(&checkpoint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_write_faults),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
