/*
 * names_timm: the canonical names: timm's VisionTransformer (timm/models/vision_transformer.py,
 * deit.py), which DeiT, MAE and DINOv2 share, with the older and official spellings of some; and
 * BEiT's (beit.py, as its own code names it), whose query's and value's biases become qkv's.
 */
#include "weights/names.h"

#define SAME(name)                                                                                 \
    { name, name, NAME_USE, 0, 0, NULL, LAYOUT_SAME }
#define USED(source, target)                                                                       \
    { source, target, NAME_USE, 0, 0, NULL, LAYOUT_SAME }
#define PART(source, target, part, parts)                                                          \
    { source, target, NAME_USE, part, parts, NULL, LAYOUT_SAME }
#define DROP(name, reason)                                                                         \
    { name, NULL, NAME_DROP, 0, 0, reason, LAYOUT_SAME }
#define REFUSE(name, reason)                                                                       \
    { name, NULL, NAME_REFUSE, 0, 0, reason, LAYOUT_SAME }
#define REL_MLP    "relative positions by an MLP (timm's vit_relpos), which vitrine does not run"
#define BUFFER     "a buffer computed from the window size"
#define BOTH(name) SAME(name ".weight"), SAME(name ".bias")

static const struct name_row rows[] = {
    SAME("cls_token"),
    SAME("dist_token"),
    SAME("reg_token"),
    SAME("pos_embed"),
    BOTH("patch_embed.proj"),
    BOTH("norm_pre"),
    BOTH("blocks.*.norm1"),
    BOTH("blocks.*.norm2"),
    BOTH("blocks.*.attn.qkv"),
    BOTH("blocks.*.attn.proj"),
    BOTH("blocks.*.attn.q_norm"),
    BOTH("blocks.*.attn.k_norm"),
    BOTH("blocks.*.mlp.fc1"),
    BOTH("blocks.*.mlp.fc2"),
    SAME("blocks.*.ls1.gamma"),
    SAME("blocks.*.ls2.gamma"),
    BOTH("norm"),
    BOTH("fc_norm"),
    SAME("attn_pool.latent"),
    BOTH("attn_pool.q"),
    BOTH("attn_pool.kv"),
    BOTH("attn_pool.proj"),
    BOTH("attn_pool.norm"),
    BOTH("attn_pool.mlp.fc1"),
    BOTH("attn_pool.mlp.fc2"),
    BOTH("head"),
    BOTH("head_dist"),

    /*
     * DeiT III (deit/models_v2.py); DINOv2 (dinov2/models/vision_transformer.py,
     * layers/swiglu_ffn.py).
     */
    USED("blocks.*.gamma_1", "blocks.*.ls1.gamma"),
    USED("blocks.*.gamma_2", "blocks.*.ls2.gamma"),
    USED("register_tokens", "reg_token"),
    USED("blocks.*.mlp.w12.weight", "blocks.*.mlp.fc1.weight"),
    USED("blocks.*.mlp.w12.bias", "blocks.*.mlp.fc1.bias"),
    USED("blocks.*.mlp.w3.weight", "blocks.*.mlp.fc2.weight"),
    USED("blocks.*.mlp.w3.bias", "blocks.*.mlp.fc2.bias"),

    /* BEiT, and timm's ViT with bias tables (vision_transformer_relpos.py). */
    PART("blocks.*.attn.q_bias", "blocks.*.attn.qkv.bias", 0, 3),
    PART("blocks.*.attn.v_bias", "blocks.*.attn.qkv.bias", 2, 3),
    SAME("blocks.*.attn.relative_position_bias_table"),
    SAME("rel_pos_bias.relative_position_bias_table"),
    USED("blocks.*.attn.rel_pos.relative_position_bias_table",
         "blocks.*.attn.relative_position_bias_table"),
    USED("shared_rel_pos.relative_position_bias_table",
         "rel_pos_bias.relative_position_bias_table"),

    DROP("mask_token", "stands for masked patches in pretraining only"),
    DROP("decoder_**", "the decoder of MAE's pretraining"),
    DROP("head.mlp.**", "the projection head of DINO's pretraining"),
    DROP("head.last_layer.**", "the projection head of DINO's pretraining"),
    DROP("dino_head.**", "the projection head of DINO's pretraining"),
    DROP("ibot_head.**", "the projection head of iBOT's pretraining"),
    DROP("n_averaged", "a counter of averaged weights"),
    DROP("num_batches_tracked", "a counter of training"),
    DROP("blocks.*.attn.relative_position_index", BUFFER),
    DROP("rel_pos_bias.relative_position_index", BUFFER),
    DROP("blocks.*.attn.rel_pos.relative_position_index", BUFFER),
    DROP("shared_rel_pos.relative_position_index", BUFFER),
    DROP("lm_head.**", "tells the visual tokens of masked patches in BEiT's pretraining"),
    DROP("cls_pt_layers.**", "the blocks behind BEiT v2's pretraining"),

    REFUSE("pre_logits.**",
           "a representation layer before the head (timm up to 0.5), which vitrine does not run"),
    REFUSE("blocks.*.attn.norm.**",
           "a norm inside attention (EVA, BEiT-3), which vitrine does not run"),
    REFUSE("blocks.*.mlp.norm.**",
           "a norm inside the MLP (EVA, BEiT-3), which vitrine does not run"),
    REFUSE("blocks.*.attn.rel_pos.mlp.**", REL_MLP),
    REFUSE("shared_rel_pos.mlp.**", REL_MLP),
    REFUSE("blocks.*.gamma_1_1",
           "parallel branches (DeiT III, three things), which vitrine does not run"),
    REFUSE("blocks.*.gamma_2_1",
           "parallel branches (DeiT III, three things), which vitrine does not run"),
    REFUSE("patch_embed.backbone.**",
           "a convolutional stem (hybrid ViT), which vitrine does not run"),
    REFUSE("patch_embed.norm.**", "a norm after the patch embedding, which vitrine does not run"),
};

const char *const names_timm_prefixes[] = {
    "module.",  "_orig_mod.", "model.",  "state_dict.", "backbone.",       "encoder.",
    "teacher.", "trunk.",     "visual.", "model_ema.",  "state_dict_ema.", NULL};

const struct name_origin names_timm = {
    .title = "timm",
    .family = NAMES_VIT,
    .marker = "patch_embed.proj.weight",
    .prefixes = names_timm_prefixes,
    .rows = rows,
    .count = COUNT_OF(rows),
    .block = "blocks.",
    .resample = RESAMPLE_BICUBIC_ANTIALIAS,
    .crop_rounding = "half_even",
    .key_bias_optional = true,
};
