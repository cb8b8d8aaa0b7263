/*
 * names_transformers_swin: the Swin and Swin v2 of transformers. Swin in both spellings: what files
 * hold (v4, and v5's save_pretrained, which renames back), and v5's own names
 * (save_original_format=False). Swin v2 has one; its queries and values have biases of their own,
 * its keys have none. Merging is at the end of a stage, as in Swin's own code.
 */
#include "weights/names.h"

#define USED(source, target)                                                                       \
    { source, target, NAME_USE, 0, 0, NULL, LAYOUT_SAME }
#define PART(source, target, part)                                                                 \
    { source, target, NAME_USE, part, 3, NULL, LAYOUT_SAME }
#define DROP(name, reason)                                                                         \
    { name, NULL, NAME_DROP, 0, 0, reason, LAYOUT_SAME }
#define REFUSE(name, reason)                                                                       \
    { name, NULL, NAME_REFUSE, 0, 0, reason, LAYOUT_SAME }
#define BOTH(source, target)                                                                       \
    USED(source ".weight", target ".weight"), USED(source ".bias", target ".bias")
#define PARTS(source, target, part)                                                                \
    PART(source ".weight", target ".weight", part), PART(source ".bias", target ".bias", part)

#define BLOCK "encoder.layers.*.blocks.*."
#define SELF  BLOCK "attention.self."
#define HERE  "layers.*.blocks.*."

/* What both have. */
#define ROWS                                                                                       \
    BOTH("embeddings.patch_embeddings.projection", "patch_embed.proj"),                            \
        BOTH("embeddings.norm", "patch_embed.norm"), BOTH(BLOCK "layernorm_before", HERE "norm1"), \
        BOTH(BLOCK "layernorm_after", HERE "norm2"),                                               \
        BOTH(BLOCK "attention.output.dense", HERE "attn.proj"),                                    \
        BOTH(BLOCK "intermediate.dense", HERE "mlp.fc1"),                                          \
        BOTH(BLOCK "output.dense", HERE "mlp.fc2"),                                                \
        BOTH("encoder.layers.*.downsample.norm", "layers.+.downsample.norm"),                      \
        USED("encoder.layers.*.downsample.reduction.weight",                                       \
             "layers.+.downsample.reduction.weight"),                                              \
        BOTH("layernorm", "norm"), BOTH("classifier", "head.fc"),                                  \
        DROP(SELF "relative_position_index", "a buffer computed from the window"),                 \
        DROP(SELF "relative_coords_table", "a buffer computed from the window"),                   \
        DROP("embeddings.mask_token", "stands for masked patches in pretraining only"),            \
        DROP("decoder.**", "the decoder of SimMIM's pretraining"),                                 \
        REFUSE("embeddings.position_embeddings",                                                   \
               "absolute positions (use_absolute_embeddings), which vitrine does not run"),        \
        REFUSE("hidden_states_norms.**",                                                           \
               "a norm of every stage (a backbone of a detector), which vitrine does not run")

static const struct name_row rows[] = {
    ROWS,
    PARTS(SELF "query", HERE "attn.qkv", 0),
    PARTS(SELF "key", HERE "attn.qkv", 1),
    PARTS(SELF "value", HERE "attn.qkv", 2),
    USED(SELF "relative_position_bias_table", HERE "attn.relative_position_bias_table"),
    PARTS(BLOCK "attention.q_proj", HERE "attn.qkv", 0),
    PARTS(BLOCK "attention.k_proj", HERE "attn.qkv", 1),
    PARTS(BLOCK "attention.v_proj", HERE "attn.qkv", 2),
    BOTH(BLOCK "attention.o_proj", HERE "attn.proj"),
    USED(BLOCK "attention.relative_position_bias.relative_position_bias_table",
         HERE "attn.relative_position_bias_table"),
    DROP(BLOCK "attention.relative_position_bias.relative_position_index",
         "a buffer computed from the window"),
    BOTH(BLOCK "mlp.fc1", HERE "mlp.fc1"),
    BOTH(BLOCK "mlp.fc2", HERE "mlp.fc2"),
};

static const struct name_row v2_rows[] = {
    ROWS,
    PART(SELF "query.weight", HERE "attn.qkv.weight", 0),
    PART(SELF "key.weight", HERE "attn.qkv.weight", 1),
    PART(SELF "value.weight", HERE "attn.qkv.weight", 2),
    USED(SELF "query.bias", HERE "attn.q_bias"),
    USED(SELF "value.bias", HERE "attn.v_bias"),
    USED(SELF "logit_scale", HERE "attn.logit_scale"),
    BOTH(SELF "continuous_position_bias_mlp.0", HERE "attn.cpb_mlp.0"),
    USED(SELF "continuous_position_bias_mlp.2.weight", HERE "attn.cpb_mlp.2.weight"),
};

static const char *const prefixes[] = {"module.", "_orig_mod.", "model.", "backbone.",
                                       "swin.",   "swinv2.",    NULL};

const struct name_origin names_transformers_swin = {
    .title = "transformers Swin",
    .family = NAMES_SWIN,
    .marker = "encoder.layers.0.blocks.0.layernorm_before.weight",
    .prefixes = prefixes,
    .rows = rows,
    .count = COUNT_OF(rows),
    .crop_rounding = "floor",
    .kind = ORIGIN_TRANSFORMERS,
};

const struct name_origin names_transformers_swinv2 = {
    .title = "transformers Swin v2",
    .family = NAMES_SWIN,
    .marker = "encoder.layers.0.blocks.0.attention.self.logit_scale",
    .prefixes = prefixes,
    .rows = v2_rows,
    .count = COUNT_OF(v2_rows),
    .crop_rounding = "floor",
    .kind = ORIGIN_TRANSFORMERS,
    .mask_value = -200, /* Swinv2SelfAttention adds its mask twice */
};
