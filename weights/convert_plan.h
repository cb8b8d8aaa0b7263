/*
 * convert_plan: what the files of the conversion share; private to convert*.c.
 *
 *   convert_plan.c        names -> rows and outputs, shapes -> config, all faults in one list
 *   convert_config.c      what tensors do not say: architecture, heads, eps, pool, positions' grid
 *   convert_preprocess.c  the preprocessing, by config files, table row and --preprocess
 *   convert.c             values checked, model file written
 */
#ifndef WEIGHTS_CONVERT_PLAN_H
#define WEIGHTS_CONVERT_PLAN_H

#include "weights/architectures.h"
#include "weights/convert.h"
#include "weights/names.h"

#define CONVERT_MAX_PARTS 3
#define CONVERT_MAX_DEPTH 1000
#define CONVERT_MAX_DIM   ((size_t)1 << 24) /* of any axis: three times it fits an int */

struct cJSON;

/* A canonical tensor: its parts stacked along the first axis. */
struct conversion_tensor {
    char name[NAME_MAX_LENGTH];
    int rank;
    size_t dims[TENSOR_MAX_RANK];
    const struct tensor *part[CONVERT_MAX_PARTS];
    int parts;
    size_t row;  /* of part 0 in the report */
    size_t skip; /* elements of part 0 left out in front (pos_embed without its class row) */
    const struct tensor
        *add; /* its first elements are added (the class row, to cls_token); or NULL */
    bool expected;
};

/* Faults found so far, one sentence. */
struct problems {
    char text[840]; /* with the file's name in front it fits fail()'s sentence */
    size_t length, count, shown;
};
void problems_add(struct problems *problems, const char *fmt, ...) PRINTF_LIKE(2, 3);

struct plan {
    const struct checkpoint *checkpoint;
    const struct convert_options *options;
    struct conversion *out;
    const struct name_origin *origin;
    char *prefix; /* peeled off, owned; "" = none */
    struct problems problems;
    size_t row_capacity;

    /* convert_config.c: the config files, and what they said. */
    struct cJSON *config, *processor; /* owned; NULL without */
    bool timm_config, transformers_config;
    const struct architecture *arch; /* the row that applies, or NULL */
    const char *arch_name;           /* with its tag, if it was given one */
};

struct conversion_tensor *plan_find(const struct plan *plan, const char *name);
enum status plan_note(struct plan *plan, const char *name, const char *value) MUST_CHECK;

/* Fills heads, eps, activation, pool, positions and the architecture's name. */
enum status plan_settle_config(struct plan *plan) MUST_CHECK;
enum status plan_settle_preprocess(struct plan *plan) MUST_CHECK;
/* --preprocess input_size=N or HxW; 0, 0 when it was not given. */
enum status plan_input_size(const struct plan *plan, int *height, int *width) MUST_CHECK;

/*
 * Reading JSON: an absent key leaves *out as it was; another type or range is ST_FORMAT naming
 * `file` and the key.
 */
enum status json_int(const struct cJSON *object, const char *file, const char *key, int lo, int hi,
                     int *out) MUST_CHECK;
enum status json_double(const struct cJSON *object, const char *file, const char *key, double lo,
                        double hi, double *out) MUST_CHECK;
enum status json_word(const struct cJSON *object, const char *file, const char *key,
                      const char **out) MUST_CHECK;

/* Every value finite and inside what options->dtype holds; all tensors with a fault are named. */
enum status plan_check_values(struct plan *plan) MUST_CHECK;

#endif
