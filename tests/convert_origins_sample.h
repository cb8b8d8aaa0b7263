/*
 * convert_origins_sample: the tiny checkpoints of convert_sample.h and convert_swin_sample.h in the
 * names of torchvision and transformers, for test_convert_origins.c. A name is respelled part by
 * part; queries, keys and values are taken apart or put together where an origin does so.
 */
#ifndef TESTS_CONVERT_ORIGINS_SAMPLE_H
#define TESTS_CONVERT_ORIGINS_SAMPLE_H

#include "tests/convert_swin_sample.h"

struct spelling {
    const char *from, *to;
};

/* The first `from` found in the name becomes its `to`. */
static inline void respell_name(char *name, size_t size, const struct spelling *s, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *at = strstr(name, s[i].from), text[160];
        if (!at) continue;
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - name), name, s[i].to,
                 at + strlen(s[i].from));
        assert_true(strlen(text) < size);
        memcpy(name, text, strlen(text) + 1);
        return;
    }
}

static inline void respell(struct file *f, const struct spelling *s, size_t count) {
    for (size_t i = 0; i < f->count; i++)
        respell_name(f->entries[i].name, sizeof f->entries[i].name, s, count);
}

/* Tensors whose names have `part` in them go. */
static inline void leave_out(struct file *f, const char *part) {
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (!strstr(f->entries[i].name, part)) f->entries[kept++] = f->entries[i];
    }
    f->count = kept;
}

/* Names with `from`: its rows are shared by three tensors, `to` (3) instead of `from`. */
static inline void split_rows(struct file *f, const char *from, const char *const *to) {
    const size_t before = f->count;
    for (size_t i = 0; i < before; i++) {
        const struct entry whole = f->entries[i];
        if (!strstr(whole.name, from)) continue;
        const int columns = (int)dimension(whole.shape, 1);
        const int rows = (int)dimension(whole.shape, 0) / 3;
        for (int part = 0; part < 3; part++) {
            const struct spelling s = {from, to[part]};
            struct entry *e = part ? &f->entries[f->count++] : &f->entries[i];
            *e = whole;
            respell_name(e->name, sizeof e->name, &s, 1);
            snprintf(e->shape, sizeof e->shape, "%.31s", shape_of(rows, columns, 0, 0));
        }
    }
}

/* ---- torchvision ----------------------------------------------------------------------------- */

static inline void torchvision_names(struct file *f) {
    static const struct spelling blocks[] = {{"blocks.", "encoder.layers.encoder_layer_"}};
    static const struct spelling parts[] = {{"norm1", "ln_1"},
                                            {"norm2", "ln_2"},
                                            {"attn.qkv.", "self_attention.in_proj_"},
                                            {"attn.proj", "self_attention.out_proj"},
                                            {"mlp.fc1", "mlp.0"},
                                            {"mlp.fc2", "mlp.3"},
                                            {"cls_token", "class_token"},
                                            {"pos_embed", "encoder.pos_embedding"},
                                            {"patch_embed.proj", "conv_proj"},
                                            {"norm.", "encoder.ln."},
                                            {"head.", "heads.head."}};
    respell(f, parts, COUNT_OF(parts));
    respell(f, blocks, COUNT_OF(blocks));
}

static inline void tiny_torchvision(struct file *f) {
    tiny_timm(f);
    torchvision_names(f);
}

/* A ViT of 12 or 24 blocks as published, values 0 and no room taken. */
static inline void known_torchvision(struct file *f, int dim, int depth, int patch, int rows) {
    static const char *const block = "blocks.%d.%s.%s";
    char wide[32], one[32];
    memset(f, 0, sizeof *f);
    f->sparse = true;
    snprintf(one, sizeof one, "%d", dim);
    add(f, shape_of(1, 1, dim, 0), "cls_token");
    add(f, shape_of(1, rows, dim, 0), "pos_embed");
    add(f, shape_of(dim, 3, patch, patch), "patch_embed.proj.weight");
    add(f, one, "patch_embed.proj.bias");
    for (int n = 0; n < depth; n++) {
        const struct {
            const char *name;
            int rows, columns;
        } parts[] = {{"norm1", dim, 0}, {"attn.qkv", 3 * dim, dim}, {"attn.proj", dim, dim},
                     {"norm2", dim, 0}, {"mlp.fc1", 4 * dim, dim},  {"mlp.fc2", dim, 4 * dim}};
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            snprintf(wide, sizeof wide, "%.31s", shape_of(parts[i].rows, parts[i].columns, 0, 0));
            add_both(f, wide, shape_of(parts[i].rows, 0, 0, 0), block, n, parts[i].name);
        }
    }
    add(f, one, "norm.weight");
    add(f, one, "norm.bias");
    add(f, shape_of(10, dim, 0, 0), "head.weight");
    add(f, "10", "head.bias");
    torchvision_names(f);
}

static inline void vit_b_16(struct file *f) {
    known_torchvision(f, 768, 12, 16, 197);
}

static inline void vit_b_16_384(struct file *f) {
    known_torchvision(f, 768, 12, 16, 577);
}

static inline void vit_b_32(struct file *f) {
    known_torchvision(f, 768, 12, 32, 50);
}

static inline void vit_l_16(struct file *f) {
    known_torchvision(f, 1024, 24, 16, 197);
}

/* Of Swin's own layout: a merging of stage s - 1 is the one in front of stage s. */
static inline void torchvision_swin_names(struct file *f) {
    static const struct spelling parts[] = {
        {"patch_embed.proj", "features.0.0"},  {"patch_embed.norm", "features.0.2"},
        {"layers.0.downsample", "features.2"}, {"layers.1.downsample", "features.4"},
        {"layers.2.downsample", "features.6"}, {"layers.0.blocks", "features.1"},
        {"layers.1.blocks", "features.3"},     {"layers.2.blocks", "features.5"},
        {"layers.3.blocks", "features.7"}};
    static const struct spelling inner[] = {
        {"mlp.fc1", "mlp.0"}, {"mlp.fc2", "mlp.3"}, {"attn.q_bias", "attn.qkv.bias"}};
    leave_out(f, "attn_mask");
    leave_out(f, "v_bias");
    respell(f, parts, COUNT_OF(parts));
    for (size_t i = 0; i < f->count; i++) {
        struct entry *e = &f->entries[i];
        if (strstr(e->name, "q_bias"))
            snprintf(e->shape, sizeof e->shape, "%d", 3 * (int)dimension(e->shape, 0));
        if (strstr(e->name, "position_index")) /* flat */
            snprintf(e->shape, sizeof e->shape, "%zu", elements(e->shape));
    }
    respell(f, inner, COUNT_OF(inner));
}

/* A map of 8x8 in windows of 4, then 4x4. */
static inline void build_even(struct file *f, int version) {
    struct swin_config c = tiny_swin_config;
    c.version = version;
    c.image_h = c.image_w = 32;
    build_swin(f, &c, true);
}

static inline void tiny_torchvision_swin(struct file *f) {
    build_even(f, 1);
    torchvision_swin_names(f);
}

static inline void tiny_torchvision_swinv2(struct file *f) {
    build_even(f, 2);
    torchvision_swin_names(f);
}

static inline void swin_t(struct file *f) {
    swin_tiny_official(f);
    torchvision_swin_names(f);
}

static inline void swin_v2_t(struct file *f) {
    known_swin(f, "swinv2_tiny_window8_256", true);
    torchvision_swin_names(f);
}

/* ---- transformers ---------------------------------------------------------------------------- */

static inline void transformers_swin_names(struct file *f, const char *prefix) {
    static const struct spelling parts[] = {
        {"patch_embed.proj", "embeddings.patch_embeddings.projection"},
        {"patch_embed.norm", "embeddings.norm"},
        {"norm1", "layernorm_before"},
        {"norm2", "layernorm_after"},
        {"attn.proj", "attention.output.dense"},
        {"attn.q_bias", "attention.self.query.bias"},
        {"attn.v_bias", "attention.self.value.bias"},
        {"attn.cpb_mlp", "attention.self.continuous_position_bias_mlp"},
        {"attn.", "attention.self."},
        {"mlp.fc1", "intermediate.dense"},
        {"mlp.fc2", "output.dense"},
        {"head.", "classifier."}};
    static const struct spelling layers[] = {{"layers.", "encoder.layers."}};
    static const char *const weights[] = {
        "attention.self.query.weight", "attention.self.key.weight", "attention.self.value.weight"};
    static const char *const biases[] = {"attention.self.query.bias", "attention.self.key.bias",
                                         "attention.self.value.bias"};
    split_rows(f, "attn.qkv.weight", weights);
    split_rows(f, "attn.qkv.bias", biases);
    leave_out(f, "attn_mask");
    respell(f, parts, COUNT_OF(parts));
    respell(f, layers, COUNT_OF(layers));
    for (size_t i = 0; i < f->count; i++) {
        char name[128];
        struct entry *e = &f->entries[i];
        if (strcmp(e->name, "norm.weight") == 0 || strcmp(e->name, "norm.bias") == 0) {
            snprintf(name, sizeof name, "%s", e->name);
            snprintf(e->name, sizeof e->name, "layer%.100s", name);
        }
        if (strncmp(e->name, "classifier", 10) == 0) continue;
        snprintf(name, sizeof name, "%s", e->name);
        snprintf(e->name, sizeof e->name, "%s%.100s", prefix, name);
    }
}

static inline void tiny_transformers_swin(struct file *f) {
    build_even(f, 1);
    transformers_swin_names(f, "swin.");
}

/* Without prefix, as a SwinModel is saved, in the names of v5's modules. */
static inline void tiny_transformers_swin_own(struct file *f) {
    static const struct spelling parts[] = {
        {"attention.self.query", "attention.q_proj"},
        {"attention.self.key", "attention.k_proj"},
        {"attention.self.value", "attention.v_proj"},
        {"attention.self.relative", "attention.relative_position_bias.relative"},
        {"attention.output.dense", "attention.o_proj"},
        {"intermediate.dense", "mlp.fc1"},
        {"output.dense", "mlp.fc2"}};
    build_even(f, 1);
    transformers_swin_names(f, "");
    respell(f, parts, COUNT_OF(parts));
}

static inline void tiny_transformers_swinv2(struct file *f) {
    build_even(f, 2);
    leave_out(f, "relative_");
    transformers_swin_names(f, "swinv2.");
}

#endif
