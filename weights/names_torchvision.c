/*
 * names_torchvision: torchvision's VisionTransformer and SwinTransformer
 * (torchvision/models/vision_transformer.py, swin_transformer.py). A ViT's MLP was linear_1 and
 * linear_2 before torchvision 0.13 and is a list since; published files have either. A Swin is one
 * list: stage s is features.(2s+1), the merging in front of it features.(2s).
 */
#include "weights/names.h"

#define USED(source, target)                                                                       \
    { source, target, NAME_USE, 0, 0, NULL, LAYOUT_SAME }
#define DROP(name, reason)                                                                         \
    { name, NULL, NAME_DROP, 0, 0, reason, LAYOUT_SAME }
#define REFUSE(name, reason)                                                                       \
    { name, NULL, NAME_REFUSE, 0, 0, reason, LAYOUT_SAME }
#define BOTH(source, target)                                                                       \
    USED(source ".weight", target ".weight"), USED(source ".bias", target ".bias")

#define LAYER "encoder.layers.encoder_layer_*."
#define BLOCK "features.*.*."
#define HERE  "layers./.blocks.*."

static const struct name_row rows[] = {
    USED("class_token", "cls_token"),
    USED("encoder.pos_embedding", "pos_embed"),
    BOTH("conv_proj", "patch_embed.proj"),
    BOTH(LAYER "ln_1", "blocks.*.norm1"),
    USED(LAYER "self_attention.in_proj_weight", "blocks.*.attn.qkv.weight"),
    USED(LAYER "self_attention.in_proj_bias", "blocks.*.attn.qkv.bias"),
    BOTH(LAYER "self_attention.out_proj", "blocks.*.attn.proj"),
    BOTH(LAYER "ln_2", "blocks.*.norm2"),
    BOTH(LAYER "mlp.linear_1", "blocks.*.mlp.fc1"),
    BOTH(LAYER "mlp.0", "blocks.*.mlp.fc1"),
    BOTH(LAYER "mlp.linear_2", "blocks.*.mlp.fc2"),
    BOTH(LAYER "mlp.3", "blocks.*.mlp.fc2"),
    BOTH("encoder.ln", "norm"),
    BOTH("heads.head", "head"),
    REFUSE("heads.pre_logits.**",
           "a representation layer before the head, which vitrine does not run"),
    REFUSE("conv_proj.conv_bn_relu_*.**", "a convolutional stem, which vitrine does not run"),
};

static const struct name_row swin_rows[] = {
    BOTH("features.0.0", "patch_embed.proj"),
    BOTH("features.0.2", "patch_embed.norm"),
    BOTH("features.*.norm", "layers./.downsample.norm"),
    USED("features.*.reduction.weight", "layers./.downsample.reduction.weight"),
    BOTH(BLOCK "norm1", HERE "norm1"),
    BOTH(BLOCK "norm2", HERE "norm2"),
    BOTH(BLOCK "attn.qkv", HERE "attn.qkv"), /* version 2 as well: convert_swin.c splits the bias */
    BOTH(BLOCK "attn.proj", HERE "attn.proj"),
    USED(BLOCK "attn.relative_position_bias_table", HERE "attn.relative_position_bias_table"),
    USED(BLOCK "attn.logit_scale", HERE "attn.logit_scale"),
    BOTH(BLOCK "attn.cpb_mlp.0", HERE "attn.cpb_mlp.0"),
    USED(BLOCK "attn.cpb_mlp.2.weight", HERE "attn.cpb_mlp.2.weight"),
    BOTH(BLOCK "mlp.0", HERE "mlp.fc1"),
    BOTH(BLOCK "mlp.3", HERE "mlp.fc2"),
    BOTH("norm", "norm"),
    BOTH("head", "head.fc"),
    DROP(BLOCK "attn.relative_position_index", "a buffer computed from the window"),
    DROP(BLOCK "attn.relative_coords_table", "a buffer computed from the window"),
};

static const char *const prefixes[] = {"module.",     "_orig_mod.", "model.",
                                       "state_dict.", "backbone.",  NULL};

const struct name_origin names_torchvision = {
    .title = "torchvision ViT",
    .family = NAMES_VIT,
    .marker = "encoder.layers.encoder_layer_0.ln_1.weight",
    .prefixes = prefixes,
    .rows = rows,
    .count = COUNT_OF(rows),
    .resample = RESAMPLE_BICUBIC_ALIGN_CORNERS, /* its interpolate_embeddings */
    .crop_rounding = "half_even",
    .activation = "gelu",
    .kind = ORIGIN_TORCHVISION,
};

const struct name_origin names_torchvision_swin = {
    .title = "torchvision Swin",
    .family = NAMES_SWIN,
    .marker = "features.1.0.norm1.weight",
    .prefixes = prefixes,
    .rows = swin_rows,
    .count = COUNT_OF(swin_rows),
    .crop_rounding = "half_even",
    .activation = "gelu",
    .kind = ORIGIN_TORCHVISION,
};
