/*
 * architectures: what timm's names say that tensors do not: heads, windows, eps, activation,
 * pooling and the preprocessing of every pretrained tag. One row a name, of a ViT or a Swin;
 * tests/ref/convert_architectures.py computes the rows from timm itself.
 */
#ifndef WEIGHTS_ARCHITECTURES_H
#define WEIGHTS_ARCHITECTURES_H

#include "weights/config.h"

enum architecture_flag {
    ARCH_CLASS = 1,      /* class token */
    ARCH_DIST = 2,       /* distillation token and second head */
    ARCH_POS_PREFIX = 4, /* pos_embed has rows for the prefix tokens */
    ARCH_PRE_NORM = 8,   /* norm_pre; then the patch embedding has no bias */
    ARCH_NO_QKV_BIAS = 16,
    ARCH_LAYER_SCALE = 32,
    ARCH_FC_NORM = 64,  /* the final norm comes after the pool */
    ARCH_QK_NORM = 128, /* LayerNorm of queries and keys */
    ARCH_SWIGLU = 256,
    ARCH_RELATIVE = 512 /* a table of relative-position bias in every block, no pos_embed */
};

struct architecture {
    const char *name;
    int image, patch; /* pixels, both axes */
    /* C, L, H, F, R. A Swin: L of all stages; C, H, F of stage 0, they double with every stage. */
    int dim, depth, heads, hidden, registers;
    unsigned flags;
    enum vit_activation activation;
    enum vit_pool pool;
    double norm_eps;
};

/* The row at `index`, sorted by name; NULL after the last. */
const struct architecture *architecture_at(size_t index);

/* By timm's name, with or without ".tag"; NULL when not known. */
const struct architecture *architecture_find(const char *name);

/* What a Swin has beside its row. */
struct swin_stages {
    const char *name;
    int version, stages;
    int depths[SWIN_MAX_STAGES], window[SWIN_MAX_STAGES], pretrained_window[SWIN_MAX_STAGES];
};
const struct swin_stages *architecture_stages(const struct architecture *arch); /* NULL: a ViT */

/* The whole configuration of a Swin but for its classes (0); false: a ViT. */
bool architecture_swin(const struct architecture *arch, struct swin_config *out);

/*
 * The preprocessing of "name.tag", or of timm's default tag when no tag is given. *tag (static
 * text, may hold further tags after a blank; "" when timm has no pretrained weights) names where
 * it came from. False, *out untouched, for a tag that timm does not have.
 */
bool architecture_preprocess(const char *name, struct preprocess_spec *out, const char **tag);

#endif
