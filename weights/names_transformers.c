/*
 * names_transformers: the ViT, DeiT, MAE, MSN, DINOv2, DINOv2-with-registers, BEiT and
 * data2vec-vision of transformers. Both spellings: what files hold (v4, and v5's save_pretrained,
 * which renames back), and v5's own names (save_original_format=False).
 */
#include "weights/names.h"

#define USED(source, target)                                                                       \
    { source, target, NAME_USE, 0, 0, NULL, LAYOUT_SAME }
#define PART(source, target, part, parts)                                                          \
    { source, target, NAME_USE, part, parts, NULL, LAYOUT_SAME }
#define DROP(name, reason)                                                                         \
    { name, NULL, NAME_DROP, 0, 0, reason, LAYOUT_SAME }
#define BOTH(source, target)                                                                       \
    USED(source ".weight", target ".weight"), USED(source ".bias", target ".bias")
#define PARTS(source, target, part, parts)                                                         \
    PART(source ".weight", target ".weight", part, parts),                                         \
        PART(source ".bias", target ".bias", part, parts)
/* A row for "encoder.layer.N." (all of v4; DINOv2 of v5) and for "layers.N." (ViT, DeiT of v5). */
#define LAYER(source, target)                                                                      \
    BOTH("encoder.layer.*." source, target), BOTH("layers.*." source, target)
#define LAYERS(source, target, part, parts)                                                        \
    PARTS("encoder.layer.*." source, target, part, parts),                                         \
        PARTS("layers.*." source, target, part, parts)

#define TABLE    ".relative_position_bias_table"
#define OUR_BIAS "blocks.*.attn" TABLE
#define BUFFER   "a buffer computed from the picture's size"

static const struct name_row rows[] = {
    USED("embeddings.cls_token", "cls_token"),
    USED("embeddings.distillation_token", "dist_token"),
    USED("embeddings.register_tokens", "reg_token"),
    USED("embeddings.position_embeddings", "pos_embed"),
    BOTH("embeddings.patch_embeddings.projection", "patch_embed.proj"),
    LAYER("norm1", "blocks.*.norm1"),
    LAYER("layernorm_before", "blocks.*.norm1"),
    LAYER("norm2", "blocks.*.norm2"),
    LAYER("layernorm_after", "blocks.*.norm2"),
    LAYERS("attention.attention.query", "blocks.*.attn.qkv", 0, 3),
    LAYERS("attention.attention.key", "blocks.*.attn.qkv", 1, 3),
    LAYERS("attention.attention.value", "blocks.*.attn.qkv", 2, 3),
    LAYERS("attention.q_proj", "blocks.*.attn.qkv", 0, 3),
    LAYERS("attention.k_proj", "blocks.*.attn.qkv", 1, 3),
    LAYERS("attention.v_proj", "blocks.*.attn.qkv", 2, 3),
    LAYER("attention.output.dense", "blocks.*.attn.proj"),
    LAYER("attention.o_proj", "blocks.*.attn.proj"),
    LAYER("mlp.fc1", "blocks.*.mlp.fc1"),
    LAYER("intermediate.dense", "blocks.*.mlp.fc1"),
    LAYER("mlp.weights_in", "blocks.*.mlp.fc1"),
    LAYERS("mlp.gate_proj", "blocks.*.mlp.fc1", 0, 2), /* silu(gate)*up: gate is the first half */
    LAYERS("mlp.up_proj", "blocks.*.mlp.fc1", 1, 2),
    LAYER("mlp.fc2", "blocks.*.mlp.fc2"),
    LAYER("output.dense", "blocks.*.mlp.fc2"),
    LAYER("mlp.weights_out", "blocks.*.mlp.fc2"),
    LAYER("mlp.down_proj", "blocks.*.mlp.fc2"),
    USED("encoder.layer.*.layer_scale1.lambda1", "blocks.*.ls1.gamma"),
    USED("encoder.layer.*.layer_scale2.lambda1", "blocks.*.ls2.gamma"),
    USED("encoder.layer.*.lambda_1", "blocks.*.ls1.gamma"),
    USED("encoder.layer.*.lambda_2", "blocks.*.ls2.gamma"),
    USED("layers.*.lambda_1", "blocks.*.ls1.gamma"),
    USED("layers.*.lambda_2", "blocks.*.ls2.gamma"),
    USED("encoder.layer.*.attention.attention.relative_position_bias" TABLE, OUR_BIAS),
    USED("layers.*.relative_position_bias" TABLE, OUR_BIAS),
    USED("encoder.relative_position_bias" TABLE, "rel_pos_bias" TABLE),
    USED("shared_position_bias" TABLE, "rel_pos_bias" TABLE),
    BOTH("pooler.layernorm", "fc_norm"),
    BOTH("layernorm", "norm"),
    BOTH("classifier", "head"),
    BOTH("cls_classifier", "head"),
    BOTH("distillation_classifier", "head_dist"),
    DROP("embeddings.mask_token", "stands for masked patches in pretraining only"),
    DROP("embeddings.position_ids", "a buffer that counts"),
    DROP("decoder.**", "a decoder behind the backbone (MAE, masks, segmentation)"),
    DROP("pooler.dense.weight",
         "the pooler; what vitrine reads is the class token after the last norm"),
    DROP("pooler.dense.bias",
         "the pooler; what vitrine reads is the class token after the last norm"),

    DROP("encoder.layer.*.attention.attention.relative_position_bias.relative_position_index",
         BUFFER),
    DROP("encoder.relative_position_bias.relative_position_index", BUFFER),
    DROP("lm_head.**", "tells the visual tokens of masked patches in BEiT's pretraining"),
};

static const char *const prefixes[] = {
    "module.", "_orig_mod.",       "vit.",   "deit.",     "dinov2.", "dinov2_with_registers.",
    "beit.",   "data2vec_vision.", "model.", "backbone.", NULL};

const struct name_origin names_transformers = {
    .title = "transformers",
    .family = NAMES_VIT,
    .marker = "embeddings.patch_embeddings.projection.weight",
    .prefixes = prefixes,
    .rows = rows,
    .count = COUNT_OF(rows),
    .block = NULL,
    .resample = RESAMPLE_BICUBIC,
    .crop_rounding = "floor",
    .key_bias_optional = true,
    .kind = ORIGIN_TRANSFORMERS,
};
