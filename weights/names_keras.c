/*
 * names_keras: the ViTs and Swins of Keras' world, by path as keras.h makes them: transformers'
 * TensorFlow code (modeling_tf_vit.py, modeling_tf_deit.py), keras_hub's ViTBackbone and
 * SwinTransformerBackbone with or without their classifiers (keras_hub/src/models), vit-keras
 * (vit_keras/vit.py, layers.py) in legacy files and in those of Keras 3. Kernels are (in, out),
 * those of keras_hub's attention (C, H, D) and (H, D, C), but Swin's. Keras 3 numbers the objects
 * of a class: the first has no number.
 */
#include "weights/names.h"

#define ROW(source, target, layout)                                                                \
    { source, target, NAME_USE, 0, 0, NULL, LAYOUT_##layout }
#define PART(source, target, part, layout)                                                         \
    { source, target, NAME_USE, part, 3, NULL, LAYOUT_##layout }
#define REFUSE(name, reason)                                                                       \
    { name, NULL, NAME_REFUSE, 0, 0, reason, LAYOUT_SAME }
#define DROP(name, reason)                                                                         \
    { name, NULL, NAME_DROP, 0, 0, reason, LAYOUT_SAME }
#define NORM(source, target)                                                                       \
    ROW(source "/gamma", target ".weight", SAME), ROW(source "/beta", target ".bias", SAME)
#define DENSE(source, target)                                                                      \
    ROW(source "/kernel", target ".weight", MATRIX), ROW(source "/bias", target ".bias", SAME)
#define QKV(source, target, part)                                                                  \
    PART(source "/kernel", target ".weight", part, MATRIX),                                        \
        PART(source "/bias", target ".bias", part, SAME)
/* The same by place: variable 0 and 1 of an object. */
#define BOTH_3(source, target, layout)                                                             \
    ROW(source "/vars/0", target ".weight", layout), ROW(source "/vars/1", target ".bias", SAME)
#define QKV_3(source, target, part, kernel, bias)                                                  \
    PART(source "/vars/0", target ".weight", part, kernel),                                        \
        PART(source "/vars/1", target ".bias", part, bias)

#define PRE_LOGITS "a layer before the head, which timm drops as well"
#define OPTIMISER  "the optimiser's state"

static const char *const no_prefixes[] = {NULL};

/* ---- transformers, TensorFlow ---------------------------------------------------------------- */

#define LAYER "encoder/layer_._*/"

static const struct name_row tensorflow_rows[] = {
    ROW("embeddings/cls_token", "cls_token", SAME),
    ROW("embeddings/distillation_token", "dist_token", SAME),
    ROW("embeddings/position_embeddings", "pos_embed", SAME),
    ROW("embeddings/patch_embeddings/projection/kernel", "patch_embed.proj.weight", CONV),
    ROW("embeddings/patch_embeddings/projection/bias", "patch_embed.proj.bias", SAME),
    NORM(LAYER "layernorm_before", "blocks.*.norm1"),
    NORM(LAYER "layernorm_after", "blocks.*.norm2"),
    QKV(LAYER "attention/attention/query", "blocks.*.attn.qkv", 0),
    QKV(LAYER "attention/attention/key", "blocks.*.attn.qkv", 1),
    QKV(LAYER "attention/attention/value", "blocks.*.attn.qkv", 2),
    DENSE(LAYER "attention/output/dense", "blocks.*.attn.proj"),
    DENSE(LAYER "intermediate/dense", "blocks.*.mlp.fc1"),
    DENSE(LAYER "output/dense", "blocks.*.mlp.fc2"),
    NORM("layernorm", "norm"),
    DENSE("classifier", "head"),
    DENSE("cls_classifier", "head"),
    DENSE("distillation_classifier", "head_dist"),
    DROP("embeddings/mask_token", "stands for masked patches in pretraining only"),
    DROP("pooler/**", "the pooler; what vitrine reads is the class token after the last norm"),
    DROP("decoder/**", "a decoder behind the backbone (masks)"),
};

static const char *const tensorflow_prefixes[] = {"vit/", "deit/", NULL};

const struct name_origin names_transformers_tf = {
    .title = "transformers (TensorFlow)",
    .family = NAMES_VIT,
    .marker = "embeddings/patch_embeddings/projection/kernel",
    .prefixes = tensorflow_prefixes,
    .rows = tensorflow_rows,
    .count = COUNT_OF(tensorflow_rows),
    .resample = RESAMPLE_BICUBIC,
    .crop_rounding = "floor",
    .kind = ORIGIN_TRANSFORMERS,
};

/* ---- keras_hub ------------------------------------------------------------------------------- */

#define EMBEDDING "vi_t_patching_and_embedding/"
#define HUB_BLOCK "vi_t_encoder/encoder_layers/vi_t_encoder_block"
/* Some versions of Keras write the attention's layers with an underscore in front. */
#define HUB_HEADS(block, target, mark)                                                             \
    QKV_3(block "/mha/" mark "query_dense", target ".attn.qkv", 0, HEADS_IN, FLAT),                \
        QKV_3(block "/mha/" mark "key_dense", target ".attn.qkv", 1, HEADS_IN, FLAT),              \
        QKV_3(block "/mha/" mark "value_dense", target ".attn.qkv", 2, HEADS_IN, FLAT),            \
        BOTH_3(block "/mha/" mark "output_dense", target ".attn.proj", HEADS_OUT)
#define HUB(block, target)                                                                         \
    BOTH_3(block "/layer_norm_1", target ".norm1", SAME),                                          \
        BOTH_3(block "/layer_norm_2", target ".norm2", SAME), HUB_HEADS(block, target, ""),        \
        HUB_HEADS(block, target, "_"), BOTH_3(block "/mlp/dense_1", target ".mlp.fc1", MATRIX),    \
        BOTH_3(block "/mlp/dense_2", target ".mlp.fc2", MATRIX)

static const struct name_row hub_rows[] = {
    ROW(EMBEDDING "vars/0", "cls_token", SAME),
    ROW(EMBEDDING "position_embedding/vars/0", "pos_embed", ROWS),
    BOTH_3(EMBEDDING "patch_embedding", "patch_embed.proj", CONV),
    HUB(HUB_BLOCK, "blocks.0"),
    HUB(HUB_BLOCK "_*", "blocks.*"),
    BOTH_3("vi_t_encoder/layer_norm", "norm", SAME),
    BOTH_3("layers/dense", "head", MATRIX),      /* of a classifier, whose backbone is nested */
    BOTH_3("task/layers/dense", "head", MATRIX), /* of a preset's folder */
    REFUSE("layers/dense_1/**", "a head of two layers, which vitrine does not run"),
    REFUSE("task/layers/dense_1/**", "a head of two layers, which vitrine does not run"),
    DROP("optimizer/**", OPTIMISER),
    DROP("task/optimizer/**", OPTIMISER),
};

static const char *const hub_prefixes[] = {"layers/", "vi_t_backbone/", "backbone/", NULL};

const struct name_origin names_keras_hub = {
    .title = "keras_hub",
    .family = NAMES_VIT,
    .marker = EMBEDDING "patch_embedding/vars/0",
    .prefixes = hub_prefixes,
    .rows = hub_rows,
    .count = COUNT_OF(hub_rows),
    .resample = RESAMPLE_BICUBIC, /* it has none; as transformers, whose weights it hosts */
    .crop_rounding = "half_even",
};

#define STAGE    "swin_transformer_stage"
#define IN_STAGE "/blocks/swin_transformer_block"
#define SWIN(block, target)                                                                        \
    ROW(block "/attn/vars/0", target ".attn.relative_position_bias_table", SAME),                  \
        BOTH_3(block "/norm1", target ".norm1", SAME),                                             \
        BOTH_3(block "/norm2", target ".norm2", SAME),                                             \
        BOTH_3(block "/attn/qkv", target ".attn.qkv", MATRIX),                                     \
        BOTH_3(block "/attn/proj", target ".attn.proj", MATRIX),                                   \
        BOTH_3(block "/mlp/fc1", target ".mlp.fc1", MATRIX),                                       \
        BOTH_3(block "/mlp/fc2", target ".mlp.fc2", MATRIX)
/* It merges at the end of a stage, timm at the start of the next. */
#define MERGING(stage, target)                                                                     \
    BOTH_3(stage "/downsample/norm", target ".downsample.norm", SAME),                             \
        ROW(stage "/downsample/reduction/vars/0", target ".downsample.reduction.weight", MATRIX)

static const struct name_row hub_swin_rows[] = {
    BOTH_3("patch_embedding/proj", "patch_embed.proj", CONV),
    BOTH_3("patch_embedding/conv_projection", "patch_embed.proj", CONV),
    BOTH_3("patch_embedding/norm", "patch_embed.norm", SAME),
    SWIN(STAGE IN_STAGE, "layers.0.blocks.0"),
    SWIN(STAGE IN_STAGE "_*", "layers.0.blocks.*"),
    SWIN(STAGE "_*" IN_STAGE, "layers.*.blocks.0"),
    SWIN(STAGE "_*" IN_STAGE "_*", "layers.*.blocks.*"),
    MERGING(STAGE, "layers.1"),
    MERGING(STAGE "_*", "layers.+"),
    BOTH_3("layer_normalization", "norm", SAME),
    BOTH_3("layers/dense", "head.fc", MATRIX),
    BOTH_3("task/layers/dense", "head.fc", MATRIX),
    DROP("optimizer/**", OPTIMISER),
    DROP("task/optimizer/**", OPTIMISER),
};

static const char *const hub_swin_prefixes[] = {"layers/", "swin_transformer_backbone/",
                                                "backbone/", NULL};

const struct name_origin names_keras_hub_swin = {
    .title = "keras_hub",
    .family = NAMES_SWIN,
    .marker = STAGE IN_STAGE "/attn/vars/0",
    .prefixes = hub_swin_prefixes,
    .rows = hub_swin_rows,
    .count = COUNT_OF(hub_swin_rows),
    .crop_rounding = "half_even",
};

/* ---- vit-keras ------------------------------------------------------------------------------- */

#define ENCODER   "Transformer_encoderblock_*/"
#define ATTENTION ENCODER "MultiHeadDotProductAttention_1/"
#define MLP       ENCODER "MlpBlock_3/Transformer_encoderblock_*_Dense_"
/* Both indices of MLP's names are the block's; the target has a place for one. */

static const struct name_row vit_keras_rows[] = {
    ROW("class_token/cls", "cls_token", SAME),
    ROW("Transformer_posembed_input/pos_embedding", "pos_embed", SAME),
    ROW("embedding/kernel", "patch_embed.proj.weight", CONV),
    ROW("embedding/bias", "patch_embed.proj.bias", SAME),
    NORM(ENCODER "LayerNorm_0", "blocks.*.norm1"),
    NORM(ENCODER "LayerNorm_2", "blocks.*.norm2"),
    QKV(ATTENTION "query", "blocks.*.attn.qkv", 0),
    QKV(ATTENTION "key", "blocks.*.attn.qkv", 1),
    QKV(ATTENTION "value", "blocks.*.attn.qkv", 2),
    DENSE(ATTENTION "out", "blocks.*.attn.proj"),
    DENSE(MLP "0", "blocks.*.mlp.fc1"),
    DENSE(MLP "1", "blocks.*.mlp.fc2"),
    NORM("Transformer_encoder_norm", "norm"),
    DENSE("head", "head"),
    DROP("pre_logits/**", PRE_LOGITS),
};

const struct name_origin names_vit_keras = {
    .title = "vit-keras",
    .family = NAMES_VIT,
    .marker = "class_token/cls",
    .prefixes = no_prefixes,
    .rows = vit_keras_rows,
    .count = COUNT_OF(vit_keras_rows),
    .resample = RESAMPLE_LINEAR_ALIGN_CORNERS,
    .crop_rounding = "half_even",
    .activation = "gelu",
    .headless = "pre_logits/kernel",
    .unit_range = true,
};

#define VIT_KERAS(block, target)                                                                   \
    BOTH_3(block "/layernorm1", target ".norm1", SAME),                                            \
        BOTH_3(block "/layernorm2", target ".norm2", SAME),                                        \
        QKV_3(block "/att/query_dense", target ".attn.qkv", 0, MATRIX, SAME),                      \
        QKV_3(block "/att/key_dense", target ".attn.qkv", 1, MATRIX, SAME),                        \
        QKV_3(block "/att/value_dense", target ".attn.qkv", 2, MATRIX, SAME),                      \
        BOTH_3(block "/att/combine_heads", target ".attn.proj", MATRIX),                           \
        BOTH_3(block "/mlpblock/layers/dense", target ".mlp.fc1", MATRIX),                         \
        BOTH_3(block "/mlpblock/layers/dense_1", target ".mlp.fc2", MATRIX)

static const struct name_row vit_keras_3_rows[] = {
    ROW("class_token/vars/0", "cls_token", SAME),
    ROW("add_position_embs/vars/0", "pos_embed", SAME),
    BOTH_3("conv2d", "patch_embed.proj", CONV),
    VIT_KERAS("transformer_block", "blocks.0"),
    VIT_KERAS("transformer_block_*", "blocks.*"),
    BOTH_3("layer_normalization", "norm", SAME),
    BOTH_3("dense", "head", MATRIX),
    DROP("dense_1/**", "the head of a layer (pre_logits) that timm drops as well"),
    DROP("optimizer/**", OPTIMISER),
};

static const char *const layers_prefix[] = {"layers/", NULL};

/* With pre_logits "dense" is that, and "dense_1" the head. */
const struct name_origin names_vit_keras_3 = {
    .title = "vit-keras",
    .family = NAMES_VIT,
    .marker = "add_position_embs/vars/0",
    .prefixes = layers_prefix,
    .rows = vit_keras_3_rows,
    .count = COUNT_OF(vit_keras_3_rows),
    .resample = RESAMPLE_LINEAR_ALIGN_CORNERS,
    .crop_rounding = "half_even",
    .activation = "gelu",
    .headless = "dense_1/vars/0",
    .unit_range = true,
};
