/*
 * model: any vitrine model behind one door; the only place that knows both families.
 */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include "datasets/labels.h"
#include "datasets/preprocess.h"
#include "kernels/ops.h"
#include "vit/vit.h"
#include "weights/config.h"

struct model_options {
    int max_batch;
    int image_h, image_w; /* 0 = the model's */
    /* Overrides of the model's preprocessing; NULL or negative = the model's. */
    double crop_pct;
    const enum crop_mode *crop_mode;
    const enum filter *interpolation;
    const double *mean, *std; /* (3) */
};

struct model {
    struct model_info info;
    struct preprocess preprocess; /* as run */
    struct labels labels;         /* count 0: no names; K ids "0".."K-1" are then printed */
    int classes;                  /* K; 0 = no head */
    int dim, tokens, prefix, depth, heads, grid_h, grid_w;
    size_t parameters;
    bool resampled; /* positions were resampled to another grid */
    struct vit vit;
};

/*
 * Finds MODEL (a path when it holds a '/' or ends in .h5, else an embedded model,
 * $VITRINE_MODELS/NAME.h5, then $XDG_DATA_HOME/vitrine/NAME.h5) and opens it; errors name what was
 * looked for and where.
 */
enum status model_find(const char *name, struct h5 **out) MUST_CHECK;
enum status model_open(const char *name, const struct model_options *options,
                       struct backend *backend, struct model *out) MUST_CHECK;
void model_release(struct model *model);

/* pixels (batch, height, width, 3) -> logits (batch, classes); taps as in vit.h. */
enum status model_forward(struct model *model, const uint8_t *pixels, int batch, float *logits,
                          const struct vit_taps *taps) MUST_CHECK;

/* Whether no value is infinite or NaN: a model whose activations overflow is not believed. */
bool all_finite(const float *values, size_t count);
#define NOT_FINITE "the model's output for it is not finite"

/* In place: logits (count) to probabilities, max-subtracted. */
void softmax(float *logits, int count);
/*
 * The k <= count largest of values (count) into index (k), largest first; ties to the lower index,
 * NaN last.
 */
void top_k(const float *values, int count, int k, int *index);

#endif
