/*
 * model: any vitrine model behind one door; the only place that runs both families, and several
 * GPUs side by side. A ViT's layers all have the same shape; a Swin's have that of their stage, and
 * no token but the patches.
 */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "datasets/labels.h"
#include "datasets/preprocess.h"
#include "kernels/ops.h"
#include "kernels/rollout.h"
#include "swin/swin.h"
#include "tools/devices.h"
#include "vit/vit.h"
#include "weights/config.h"

struct model_options {
    int max_batch;        /* images of a pass, on each device */
    bool quiet;           /* no word when a GPU's memory does not hold as many */
    bool backward;        /* for model_gradient: weights take twice the memory */
    int image_h, image_w; /* 0 = the model's */
    /* Overrides of the model's preprocessing; NULL or negative = the model's. */
    double crop_pct;
    const enum crop_mode *crop_mode;
    const enum filter *interpolation;
    const double *mean, *std; /* (3) */
};

/* The tokens that a layer leaves: (T, C), of which the first `prefix` lie before the patches. */
struct model_layer {
    int tokens, prefix, dim;
};

/* The model on one device. */
struct model_replica {
    const char *device; /* its name, the devices' */
    struct backend *backend;
    struct vit vit;   /* the family's */
    struct swin swin; /* is loaded */
};

struct model {
    struct model_info info;
    struct preprocess preprocess; /* as run */
    struct labels labels;         /* count 0: no names; K ids "0".."K-1" are then printed */
    int classes;                  /* K; 0 = no head */
    int depth;                    /* layers: the blocks, of a Swin those of all its stages */
    int dim;                      /* C behind the last one, and of pooled features */
    bool class_token, pooled;     /* whether it has them */
    size_t parameters;
    double macs;         /* multiply-adds that a pass for logits does, of one image */
    char resampled[320]; /* what was made to fit the image size, for a person; "" = nothing */
    enum model_family { MODEL_VIT, MODEL_SWIN } family;
    struct model_replica *replicas; /* (replica_count), one a device */
    int replica_count;
    int batch; /* images that model_forward does in one pass on all devices */
    bool quiet;
};

/*
 * What else a forward should leave behind, in the shapes of model_layer_shape. Host buffers, each
 * NULL = not wanted.
 */
struct model_taps {
    int layer;     /* from 0; -1 = behind the last block and the final norm */
    float *tokens; /* (B, T, C) behind block `layer` */
    float *pooled; /* (B, C): what the head reads */
    /* Attention probabilities of model_attention_shape; each device's thread hands out its own. */
    const struct capture *capture;
};

/*
 * Finds MODEL (a path when it holds a '/' or ends in .h5, else an embedded model,
 * $VITRINE_MODELS/NAME.h5, then $XDG_DATA_HOME/vitrine/NAME.h5) and opens it; errors name what was
 * looked for and where.
 */
enum status model_find(const char *name, struct h5 **out) MUST_CHECK;

/* The SHA-256 of the model's file, found in the same way, as hexadecimal text. */
enum status model_sha256(const char *name, char hex[65]) MUST_CHECK;

/*
 * The folder that pulled models are put into, in fresh memory: $VITRINE_MODELS, else
 * $XDG_DATA_HOME/vitrine, else ~/.local/share/vitrine. NULL with fail() called when none is set.
 */
char *model_folder(void);

enum status model_open(const char *name, const struct model_options *options,
                       const struct devices *devices, struct model *out) MUST_CHECK;
void model_release(struct model *model); /* before devices_close */

/* layer -1 to depth-1. */
struct model_layer model_layer_shape(const struct model *model, int layer);

/* ---- attention (model_attention.c), the same for both families: vit.h, swin.h --------------- */

/* Layers that a capture may name: the blocks, behind them the attention pool of a ViT's head. */
int model_attention_layers(const struct model *model);
/* head_rows: of the last block's probabilities the rows alone that a ViT's head reads. */
struct attention_shape model_attention_shape(const struct model *model, int layer, bool head_rows);
int model_rollout_count(const struct model *model);
/* steps (model_rollout_count) */
void model_rollout_steps(const struct model *model, bool head_rows, struct rollout_step *steps);
/* row (T of the last block): what of its tokens the head reads. */
void model_head_row(const struct model *model, double *row);
/* What prefix token i is: "class token", "distillation token", "register 0". */
void model_token_name(const struct model *model, int i, char *name, size_t size);
/* The stage that a block lies in; 0 of a ViT. */
int model_layer_stage(const struct model *model, int layer);

/*
 * The relevance of classes (vit_gradient, swin_gradient) on one CPU.
 *
 *   model_gradient_open -> model_gradient_run any number of times -> model_gradient_release
 */
struct model_gradient {
    struct model *model; /* the caller's, opened with `backward` */
    struct vit_gradient vit;
    struct swin_gradient swin;
    size_t bytes; /* of its room, and of the weights that the model has for it */
};
/* ST_USAGE: a model without classes. On failure *out is released. */
enum status model_gradient_open(struct model_gradient *out, struct model *model,
                                int classes) MUST_CHECK;
void model_gradient_release(struct model_gradient *gradient); /* works on a zeroed struct, twice */
/* pixels (height, width, 3) -> max(0, P * d logit / d P) of `count` classes: vit_gradient_run. */
enum status model_gradient_run(struct model_gradient *gradient, const uint8_t *pixels,
                               const int *classes, int count,
                               const struct capture *capture) MUST_CHECK;

/*
 * pixels (batch, height, width, 3) -> logits (batch, classes); both outputs may be NULL. Any number
 * of images: the devices share them, each in passes of as many as it takes. A GPU that runs out of
 * memory halves its passes, says so, and goes on.
 */
enum status model_forward(struct model *model, const uint8_t *pixels, int batch, float *logits,
                          const struct model_taps *taps) MUST_CHECK;

/* A hint in front of model_forward: the images of the call behind it (backend_stage). */
void model_stage(struct model *model, const uint8_t *pixels, int batch);

/* Whether no value is infinite or NaN: a model whose activations overflow is not believed. */
bool all_finite(const float *values, size_t count);
#define NOT_FINITE "the model's output for it is not finite"

/* The class's name; of a model without names "class 7", in `number`. */
enum { MODEL_CLASS_NUMBER = 24 };
const char *model_class_name(const struct model *model, int index, char number[MODEL_CLASS_NUMBER]);

/* In place: logits (count) to probabilities, max-subtracted. */
void softmax(float *logits, int count);
/*
 * The k <= count largest of values (count) into index (k), largest first; ties to the lower index,
 * NaN last.
 */
void top_k(const float *values, int count, int k, int *index);

#endif
