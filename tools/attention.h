/*
 * attention: the numbers of `vitrine attention`: rollouts and raw attention maps of a batch's
 * images.
 *
 *   attention_open -> for each batch: attention_place, model_forward with attention_capture,
 *   then attention_compute image by image -> struct attention_array -> attention_release
 *
 * While the pass runs, of each layer is kept what the method needs: of a rollout the fused
 * probabilities (W, queries, keys), of raw maps a map a head, of all queries the chosen heads.
 *
 * The gradient method needs the logits of a pass, not its probabilities; then, image by image,
 * attention_relevance in front of attention_compute.
 */
#ifndef TOOLS_ATTENTION_H
#define TOOLS_ATTENTION_H

#include "tools/class_list.h"
#include "tools/model.h"
#include "tools/pipeline.h"

/*
 * rollout: kernels/rollout.h of the probabilities. gradient: of the relevances of a class, less
 * what only the residual stream carried. raw: what the softmax gave.
 */
enum attention_method { ATTENTION_ROLLOUT, ATTENTION_RAW, ATTENTION_GRADIENT };
extern const char *const attention_methods[]; /* ends with NULL */

enum attention_query { QUERY_HEAD, QUERY_CLS, QUERY_MEAN, QUERY_PIXEL, QUERY_ALL };

enum { ATTENTION_LIST = 256 }; /* the most numbers of a list */

struct attention_list {
    int count;
    int value[ATTENTION_LIST]; /* from 0, in the order given */
};

struct attention_options {
    int method;                   /* enum attention_method */
    struct attention_list layers; /* raw; count 0 = all. A rollout has no use for it. */
    struct attention_heads {
        enum {
            HEADS_DEFAULT,
            HEADS_FUSED,
            HEADS_LIST
        } kind;                  /* default: rollout their mean, raw
                                                                 each; a list is each too, or of a
                                                                 rollout their mean */
        enum head_fusion fusion; /* HEADS_FUSED */
        struct attention_list list;
    } heads;
    struct attention_focus {
        enum attention_query query;
        double x, y; /* QUERY_PIXEL: of the upright picture */
    } focus;
    double discard, residual; /* rollout; discard of gradient too */
    int start_layer;          /* rollout, gradient */
    const char *classes; /* gradient, page: class_list_find; NULL: the most likely one or two */
    /* Not a user's: */
    struct model *backward; /* gradient: the model on a CPU, opened with model_options.backward */
    bool whole; /* the pass is shared with who wants all queries: no layer's rows may be left out */
    bool empty; /* gradient: a map that no attention speaks for is zeros, not an error */
    bool slots; /* QUERY_ALL: keys are the slots of a query's window, not the whole map's tokens */
};
struct attention_options attention_defaults(void);

/* ---- the options as text (attention_options.c); parse and show are rows' of tools/cli.h ------ */

/* ST_USAGE: an option of the other method; --layers is also a page's. */
enum status attention_options_check(const struct attention_options *options, bool page) MUST_CHECK;
/* "heads mean, query head, discard 0, ..." */
void attention_options_text(const struct attention_options *options, char *text, size_t size);
enum status attention_parse_layers(const char *value, void *field) MUST_CHECK;
enum status attention_parse_heads(const char *value, void *field) MUST_CHECK;
enum status attention_parse_query(const char *value, void *field) MUST_CHECK;
void attention_show_layers(const void *field, char *text, size_t size);
void attention_show_heads(const void *field, char *text, size_t size);
void attention_show_query(const void *field, char *text, size_t size);

/* ---- the numbers ----------------------------------------------------------------------------- */

/*
 * What an image gives. Always four dims; the first `lead` are of size 1 and left out of the array's
 * shape:
 *   rollout           (h, w)                   name ""
 *   gradient          (h, w), one a class      name "", of several classes "class281"
 *   raw               (layers, heads, h, w)    name "", of a Swin "stage2"
 *   raw, all queries  (heads, tokens, tokens)  name "layer3"; by slots (heads, tokens, keys of
 *                     attention_shape), 0 where a slot is padding
 */
struct attention_array {
    char name[24];
    const char *axes[4]; /* "layer", "head", "y", "x" */
    size_t dims[4];
    int lead;
    const int *layers; /* (dims[0]): their numbers */
    const int *heads;  /* (dims[1]): their numbers; NULL = fused */
    int class;         /* gradient: its number; else -1 */
    float *values;     /* until the next attention_compute */
};
size_t attention_array_elements(const struct attention_array *array);

struct attention_maps {
    const struct model *model;
    struct attention_options options;
    int batch;           /* images of a pass; of gradient the classes of an image */
    int depth;           /* layers that can be captured */
    int most;            /* tokens, or slots of a window, of any layer */
    bool *wanted;        /* (depth) */
    struct kept *layers; /* (depth) what is kept of each */
    struct capture capture;
    struct rollout_step *steps; /* rollout */
    int step_count;
    struct rollout_work work;
    double *row;        /* (most) */
    double *weights;    /* (batch, most): of a layer's queries, for raw maps */
    float *rows;        /* (batch, most) */
    int *tokens;        /* (batch, most) */
    double (*point)[2]; /* (batch): y, x of QUERY_PIXEL as shares of what the model sees */
    int (*groups)[2]; /* (group_count): the arrays' first layer and number of layers, in `order` */
    int group_count;
    int *order; /* (count) the layers wanted, ascending */
    int count;
    int *heads; /* (most heads) numbers for struct attention_array */
    float *out; /* the largest array */
    /* Gradient: */
    struct class_list classes;
    int class[CLASS_LIST]; /* (classes.count) of the image at hand */
    struct model_gradient gradient;
    double *carried; /* (most) what only the residual stream carries */
    /* Of a pass, for a person: what this struct keeps; one layer's probabilities on the devices. */
    size_t kept_bytes, pass_bytes;
};

/*
 * ST_USAGE names the option that the model, or the method, does not have. The model must outlive
 * the struct, which stays where it is. On failure *out is released.
 */
enum status attention_open(struct attention_maps *out, const struct model *model,
                           const struct attention_options *options) MUST_CHECK;
void attention_release(struct attention_maps *attention); /* works on a zeroed struct, and twice */

/*
 * Image i of the next pass. ST_USAGE with a sentence where the pixel asked for is not in the
 * picture, or not in what the model sees of it.
 */
enum status attention_place(struct attention_maps *attention, int i,
                            const struct pipeline_item *item) MUST_CHECK;

/*
 * Gradient: the image whose arrays are computed next: pixels (height, width, 3), logits (K) of a
 * pass. ST_FORMAT where they are not finite; ST_USAGE as attention_place, which is not called.
 */
enum status attention_relevance(struct attention_maps *attention, const struct pipeline_item *item,
                                const uint8_t *pixels, const float *logits) MUST_CHECK;

int attention_arrays(const struct attention_maps *attention);
/*
 * Array `n` of the pass's image i (gradient: of the image at hand). ST_FORMAT where its numbers are
 * not finite, or none are left.
 */
enum status attention_compute(struct attention_maps *attention, int i, int n,
                              struct attention_array *out) MUST_CHECK;

#endif
