/*
 * names_jax: the ViTs of google-research/vision_transformer (vit_jax/models_vit.py) and of
 * big_vision (models/vit.py): the .npz files of AugReg, SAM, SigLIP. Kernels are (in, out), those
 * of attention (C, H, D) and (H, D, C). Older trainers keep the weights under opt/target/,
 * big_vision under params/, of a pair of towers params/img/.
 */
#include "weights/names.h"

#define ROW(source, target, layout)                                                                \
    { source, target, NAME_USE, 0, 0, NULL, LAYOUT_##layout }
#define PART(source, target, part, parts, layout)                                                  \
    { source, target, NAME_USE, part, parts, NULL, LAYOUT_##layout }
#define DROP(name, reason)                                                                         \
    { name, NULL, NAME_DROP, 0, 0, reason, LAYOUT_SAME }
#define REFUSE(name, reason)                                                                       \
    { name, NULL, NAME_REFUSE, 0, 0, reason, LAYOUT_SAME }
#define NORM(source, target)                                                                       \
    ROW(source "/scale", target ".weight", SAME), ROW(source "/bias", target ".bias", SAME)
#define DENSE(source, target)                                                                      \
    ROW(source "/kernel", target ".weight", MATRIX), ROW(source "/bias", target ".bias", SAME)
#define HEADS(source, target, part, parts)                                                         \
    PART(source "/kernel", target ".weight", part, parts, HEADS_IN),                               \
        PART(source "/bias", target ".bias", part, parts, FLAT)
#define OUT(source, target)                                                                        \
    ROW(source "/kernel", target ".weight", HEADS_OUT), ROW(source "/bias", target ".bias", SAME)

#define BLOCK "Transformer/encoderblock_*/"
/* vision_transformer numbers a block's layers through, big_vision by class. */
#define ATTENTION(name)                                                                            \
    HEADS(BLOCK name "/query", "blocks.*.attn.qkv", 0, 3),                                         \
        HEADS(BLOCK name "/key", "blocks.*.attn.qkv", 1, 3),                                       \
        HEADS(BLOCK name "/value", "blocks.*.attn.qkv", 2, 3),                                     \
        OUT(BLOCK name "/out", "blocks.*.attn.proj")
#define MLP(name)                                                                                  \
    DENSE(BLOCK name "/Dense_0", "blocks.*.mlp.fc1"),                                              \
        DENSE(BLOCK name "/Dense_1", "blocks.*.mlp.fc2")
#define MAP     "MAPHead_0/"
#define POOLING "MAPHead_0/MultiHeadDotProductAttention_0/"

static const struct name_row rows[] = {
    ROW("cls", "cls_token", SAME),
    ROW("Transformer/posembed_input/pos_embedding", "pos_embed", SAME),
    ROW("pos_embedding", "pos_embed", SAME),
    ROW("embedding/kernel", "patch_embed.proj.weight", CONV),
    ROW("embedding/bias", "patch_embed.proj.bias", SAME),
    NORM(BLOCK "LayerNorm_0", "blocks.*.norm1"),
    NORM(BLOCK "LayerNorm_1", "blocks.*.norm2"),
    NORM(BLOCK "LayerNorm_2", "blocks.*.norm2"),
    ATTENTION("MultiHeadDotProductAttention_0"),
    ATTENTION("MultiHeadDotProductAttention_1"),
    MLP("MlpBlock_0"),
    MLP("MlpBlock_3"),
    NORM("Transformer/encoder_norm", "norm"),
    DENSE("head", "head"),

    ROW(MAP "probe", "attn_pool.latent", SAME),
    HEADS(POOLING "query", "attn_pool.q", 0, 1),
    HEADS(POOLING "key", "attn_pool.kv", 0, 2),
    HEADS(POOLING "value", "attn_pool.kv", 1, 2),
    OUT(POOLING "out", "attn_pool.proj"),
    NORM(MAP "LayerNorm_0", "attn_pool.norm"),
    DENSE(MAP "MlpBlock_0/Dense_0", "attn_pool.mlp.fc1"),
    DENSE(MAP "MlpBlock_0/Dense_1", "attn_pool.mlp.fc2"),

    DROP("pre_logits/**", "a layer before the head, which timm drops as well"),
    DROP("opt/state/**", "the optimiser's state"),
    DROP("params/txt/**", "the text tower"),
    DROP("params/t", "the scale of the contrastive loss"),
    DROP("params/b", "the offset of the contrastive loss"),

    REFUSE("Transformer/encoderblock/**",
           "blocks stacked in one array (big_vision's scan), which is not converted"),
    REFUSE("conv_root/**", "a convolutional stem (hybrid ViT), which vitrine does not run"),
    REFUSE("gn_root/**", "a convolutional stem (hybrid ViT), which vitrine does not run"),
    REFUSE("block1/**", "a convolutional stem (hybrid ViT), which vitrine does not run"),
    REFUSE("block2/**", "a convolutional stem (hybrid ViT), which vitrine does not run"),
    REFUSE("block3/**", "a convolutional stem (hybrid ViT), which vitrine does not run"),
    REFUSE("block4/**", "a convolutional stem (hybrid ViT), which vitrine does not run"),
};

static const char *const prefixes[] = {"opt/target/", "params/img/", "params/", NULL};

const struct name_origin names_jax = {
    .title = "Google's JAX ViT",
    .family = NAMES_VIT,
    .marker = "embedding/kernel",
    .prefixes = prefixes,
    .rows = rows,
    .count = COUNT_OF(rows),
    .resample = RESAMPLE_BILINEAR, /* as timm's loader of these files */
    .crop_rounding = "half_even",
    .activation = "gelu_tanh", /* flax's gelu is the approximation */
    .headless = "pre_logits/kernel",
    .unit_range = true,
};
