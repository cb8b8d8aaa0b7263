/*
 * names: what the tensors of each origin are called, and what becomes of them. One table an origin
 * (names_<origin>.c); convert_plan.c walks it.
 *
 * A row's source is matched whole: '*' is an index of a block or stage (at most two a row), "**" at
 * the end is anything. The target takes the indices in their order, '*' as they are, '+' one
 * higher, '/' halved (rounded down). Parts of one target are stacked along the first axis in the
 * order of `part` (query, key, value).
 */
#ifndef WEIGHTS_NAMES_H
#define WEIGHTS_NAMES_H

#include "kernels/base.h"
#include "weights/config.h"
#include "weights/layout.h"

#define NAME_MAX_LENGTH 128 /* bytes of a canonical name with its NUL */

enum name_fate { NAME_UNKNOWN, NAME_USE, NAME_DROP, NAME_REFUSE };

struct name_row {
    const char *source, *target; /* target NULL unless used */
    enum name_fate fate;
    int part, parts;    /* 0 of 0: the whole; else part of parts */
    const char *reason; /* for dropped and refused ones */
    enum layout layout; /* how the origin lays a part's numbers out */
};

struct name_result {
    enum name_fate fate;
    char target[NAME_MAX_LENGTH];
    int part, parts;
    const char *reason;
    enum layout layout;
};

enum name_family { NAMES_VIT, NAMES_SWIN };

/* Who says what tensors do not: config files beside them, or a table of published weights. */
enum origin_kind {
    ORIGIN_PLAIN,        /* timm's config.json and timm's table */
    ORIGIN_TRANSFORMERS, /* config.json and preprocessor_config.json of transformers */
    ORIGIN_TORCHVISION   /* convert_torchvision.c */
};

struct name_origin {
    const char *title; /* "timm" */
    enum name_family family;
    const char
        *marker; /* the tensor that gives the origin away; what stands before it is a prefix */
    const char *const
        *prefixes; /* ends with NULL: prefixes that may be peeled off, in any number */
    const struct name_row *rows;
    size_t count;
    const char
        *block; /* "blocks.": chunked blocks ("blocks.0.7.") lose their chunk; NULL = not here */
    enum resample resample;    /* how this origin resamples positions */
    const char *crop_rounding; /* how it rounds a centre crop */
    const char *activation;    /* what its own code computes; NULL: what the architecture says */
    const char *headless;      /* the tensor whose presence makes the head unusable; or NULL */
    bool key_bias_optional;    /* queries and values may have biases where keys have none: BEiT */
    bool unit_range;           /* its pictures are scaled to [-1, 1]: mean and std are 0.5 */
    enum origin_kind kind;
    double mask_value; /* a Swin's, where it is not -100; 0 elsewhere */
};

extern const struct name_origin names_timm, names_transformers, names_transformers_swin,
    names_transformers_swinv2, names_torchvision, names_torchvision_swin, names_swin,
    names_swin_official, names_jax, names_transformers_tf, names_keras_hub, names_keras_hub_swin,
    names_vit_keras, names_vit_keras_3;
extern const char *const names_timm_prefixes[]; /* ends with NULL */

/* What `name`, its prefix peeled off, becomes; NAME_UNKNOWN when no row fits. */
void names_map(const struct name_origin *origin, const char *name, struct name_result *out);

/*
 * Finds the origin's marker at the end of `name`, behind nothing or behind peelable prefixes;
 * *prefix is then how many bytes they take.
 */
bool names_recognise(const struct name_origin *origin, const char *name, size_t *prefix);

/*
 * Why a checkpoint that holds `name` cannot be converted (a Swin of transformers, an OpenAI CLIP
 * file, ...); NULL: no reason known.
 */
const char *names_foreign(const char *name);

#endif
