/*
 * names_swin: timm's SwinTransformer and SwinTransformerV2 (timm/models/swin_transformer.py,
 * swin_transformer_v2.py), whose names are the canonical ones, and the layout of Swin's own code
 * and of timm before 0.9, told by its merging at the end of stage 0 and not at the start of stage
 * 1. That is timm's own rule: a head would not tell, files without one exist.
 */
#include "weights/names.h"

#define SAME(name)                                                                                 \
    { name, name, NAME_USE, 0, 0, NULL, LAYOUT_SAME }
#define USED(source, target)                                                                       \
    { source, target, NAME_USE, 0, 0, NULL, LAYOUT_SAME }
#define DROP(name, reason)                                                                         \
    { name, NULL, NAME_DROP, 0, 0, reason, LAYOUT_SAME }
#define REFUSE(name, reason)                                                                       \
    { name, NULL, NAME_REFUSE, 0, 0, reason, LAYOUT_SAME }
#define BOTH(name) SAME(name ".weight"), SAME(name ".bias")
#define MOVED(source, target)                                                                      \
    USED(source ".weight", target ".weight"), USED(source ".bias", target ".bias")

#define BLOCK "layers.*.blocks.*."

/* What both layouts have. */
#define ROWS                                                                                       \
    BOTH("patch_embed.proj"), BOTH("patch_embed.norm"), BOTH(BLOCK "norm1"), BOTH(BLOCK "norm2"),  \
        BOTH(BLOCK "attn.qkv"), SAME(BLOCK "attn.q_bias"), SAME(BLOCK "attn.v_bias"),              \
        BOTH(BLOCK "attn.proj"), SAME(BLOCK "attn.relative_position_bias_table"),                  \
        SAME(BLOCK "attn.logit_scale"), BOTH(BLOCK "attn.cpb_mlp.0"),                              \
        SAME(BLOCK "attn.cpb_mlp.2.weight"), BOTH(BLOCK "mlp.fc1"), BOTH(BLOCK "mlp.fc2"),         \
        BOTH("norm"),                                                                              \
        DROP(BLOCK "attn.relative_position_index", "a buffer computed from the window"),           \
        DROP(BLOCK "attn.relative_coords_table", "a buffer computed from the window"),             \
        DROP(BLOCK "attn_mask", "a buffer computed from the map and its windows"),                 \
        DROP("mask_token", "stands for masked patches in pretraining only"),                       \
        DROP("decoder.**", "the decoder of SimMIM's pretraining"),                                 \
        DROP("n_averaged", "a counter of averaged weights"),                                       \
        REFUSE("absolute_pos_embed",                                                               \
               "absolute positions (a Swin with ape), which vitrine does not run"),                \
        REFUSE(BLOCK "spatial_mlp.**",                                                             \
               "an MLP over the window for attention (Swin-MLP), which vitrine does not run"),     \
        REFUSE(BLOCK "mlp._moe_layer.**",                                                          \
               "a mixture of experts (Swin-MoE), which vitrine does not run"),                     \
        REFUSE(BLOCK "modulation.**", "focal modulation (FocalNet), which vitrine does not run")

static const struct name_row rows[] = {
    ROWS,
    BOTH("layers.*.downsample.norm"),
    SAME("layers.*.downsample.reduction.weight"),
    BOTH("head.fc"),
};

static const struct name_row official_rows[] = {
    ROWS,
    MOVED("layers.*.downsample.norm", "layers.+.downsample.norm"),
    USED("layers.*.downsample.reduction.weight", "layers.+.downsample.reduction.weight"),
    MOVED("head", "head.fc"),
};

const struct name_origin names_swin = {
    .title = "timm",
    .family = NAMES_SWIN,
    .marker = "layers.0.blocks.0.norm1.weight",
    .prefixes = names_timm_prefixes,
    .rows = rows,
    .count = COUNT_OF(rows),
    .crop_rounding = "half_even",
};

const struct name_origin names_swin_official = {
    .title = "Swin's own layout",
    .family = NAMES_SWIN,
    .marker = "layers.0.downsample.reduction.weight",
    .prefixes = names_timm_prefixes,
    .rows = official_rows,
    .count = COUNT_OF(official_rows),
    .crop_rounding = "half_even",
};
