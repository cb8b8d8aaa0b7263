/*
 * convert: a public checkpoint to a vitrine model file.
 *
 *   checkpoint_open -> which origin (marker tensors) -> name map: every tensor used, renamed,
 * transposed, merged or dropped with its reason -> config from tensor shapes, the architecture
 * table and config files -> model file written beside and renamed. Nothing is written unless
 * complete.
 */
#ifndef WEIGHTS_CONVERT_H
#define WEIGHTS_CONVERT_H

#include "weights/checkpoint.h"
#include "weights/config.h"

struct convert_options {
    const char *arch; /* timm architecture name, or NULL = from the tensors and config files */
    const char *name; /* the model's name, or NULL = the output file's stem */
    const char *activation; /* "gelu", "gelu_tanh", "quick_gelu", or NULL = the origin's own */
    const char *license;    /* or NULL = "unknown" */
    enum dtype dtype;       /* DT_F32, DT_F16, DT_BF16 */
    const char *const *preprocess; /* (preprocess_count) "KEY=VALUE" over the origin's own */
    size_t preprocess_count;
    int label_count; /* 0 = none given */
    const char *const *label_ids, *const *label_names;
};

/* What happened to a tensor: one row of the report. */
struct convert_row {
    char *source, *target; /* target NULL: dropped */
    const char *action;    /* "used", "renamed", "merged", "split", "transposed", "dropped" */
    char *reason;          /* for dropped ones, and for shapes that changed; or NULL */
};

struct conversion {
    const char *origin; /* "timm", "transformers Dinov2Model" */
    /* info.family says which of the two is filled. */
    struct vit_config vit;
    struct swin_config swin;
    int classes, image_h, image_w; /* of either */
    size_t tensors;                /* that its parameters are stored in */
    uint64_t parameters;           /* numbers in them; UINT64_MAX: more than that */
    struct preprocess_spec preprocess;
    struct model_info info;
    struct convert_row *rows;
    size_t row_count;
    char **label_names; /* (label_count) of config.json, or NULL; ids are the names */
    int label_count;
    const struct convert_family *family; /* private: convert_plan.h */
    struct conversion_tensor *outputs;   /* private: canonical tensors and how to make them */
    size_t output_count;
};

/* ST_USAGE: options that are wrong whatever the checkpoint is: --arch, --preprocess. */
enum status convert_check_options(const struct convert_options *options) MUST_CHECK;

/*
 * Plans the conversion: everything but the writing. ST_SHAPE lists all that is missing, extra or
 * of another shape.
 */
enum status convert_plan(const struct checkpoint *checkpoint, const struct convert_options *options,
                         struct conversion *out) MUST_CHECK;
/* Writes the model; labels from the options (as many as classes), else those of the conversion. */
enum status convert_write(const struct checkpoint *checkpoint,
                          const struct convert_options *options,
                          const struct conversion *conversion, const char *path) MUST_CHECK;
/*
 * What a model is called when nobody says: its file's name without folder and .h5, printable; in
 * fresh memory.
 */
char *convert_model_name(const char *path);
void conversion_release(struct conversion *conversion);

/* The architectures known by name, for --list-names: NULL after the last. */
const char *convert_arch_name(size_t index);

#endif
