/*
 * convert_plan: what the files of the conversion share; private to convert*.c.
 *
 *   convert_plan.c         names -> rows and outputs; the flow; all faults in one list
 *   convert_vit.c          shapes -> config, the tensors demanded, rows of the architecture table
 *   convert_vit_config.c   what tensors do not say: heads, eps, pool, positions' grid
 *   convert_vit_claims.c   what its files say, held against its tensors
 *   convert_swin.c         the same two of a Swin
 *   convert_swin_config.c  what its tensors do not say: windows, the picture's size
 *   convert_files.c        the config files
 *   convert_torchvision.c  what torchvision says of its published weights
 *   convert_keras.c        how keras_hub prepares pictures
 *   convert_arch.c         which row of the architecture table
 *   convert_preprocess.c   the preprocessing, by config files, table row and --preprocess
 *   convert_cost.c         sizes that nobody could run
 *   convert_labels.c       the classes' names, by config.json
 *   convert.c              values checked, model file written
 */
#ifndef WEIGHTS_CONVERT_PLAN_H
#define WEIGHTS_CONVERT_PLAN_H

#include "weights/architectures.h"
#include "weights/convert.h"
#include "weights/json.h"
#include "weights/names.h"

#define CONVERT_MAX_PARTS 3
#define CONVERT_MAX_DEPTH 1000
#define CONVERT_MAX_DIM   ((size_t)1 << 24) /* of any axis: three times it fits an int */

#define CONVERT_CONFIG_FILE     "config.json"
#define CONVERT_KERAS_CONVERTER "keras_hub's image converter"

/* A canonical tensor: its parts stacked along the first axis. */
struct conversion_tensor {
    char name[NAME_MAX_LENGTH];
    int rank;
    size_t dims[TENSOR_MAX_RANK];
    const struct tensor *part[CONVERT_MAX_PARTS];
    enum layout layout[CONVERT_MAX_PARTS]; /* of each part */
    int parts;
    size_t row;  /* of part 0 in the report */
    size_t skip; /* elements of part 0 left out in front (pos_embed without its class row); what the
                    dims do not need is left out behind, where there is one part */
    const struct tensor
        *add;    /* its first elements are added (the class row, to cls_token); or NULL */
    bool no_key; /* the key's bias, behind part 0, is in no file: as many zeros as part 0 has */
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

    /* convert_files.c, convert_arch.c: the config files, and what they said. */
    struct cJSON *config, *processor; /* owned; NULL without. transformers' or keras_hub's */
    bool timm_config, transformers_config;
    struct cJSON *backbone;          /* owned: the arguments of keras_hub's backbone, or NULL */
    const struct architecture *arch; /* the row that applies, or NULL */
    const char *arch_name;           /* with its tag, if it was given one */
};

/* What differs between ViT and Swin. */
struct convert_family {
    const char *name; /* "vit" */
    /* What says the rest where no row of the table applies. */
    const char *(*without_row)(const struct plan *plan);
    /* The config, as far as shapes tell it. Faults go to plan->problems where others may follow. */
    enum status (*shapes)(struct plan *plan);
    /* plan_expect for every tensor that the config demands. */
    void (*demand)(struct plan *plan);
    /* What of the row is not what the tensors say, into text; false when nothing. */
    bool (*differs)(const struct plan *plan, const struct architecture *a, char *text, size_t size);
    /* Whether nothing in the tensors speaks against the row. */
    bool (*matches)(const struct plan *plan, const struct architecture *a);
    /* Whether two rows that match lead to the same numbers. */
    bool (*same)(const struct architecture *a, const struct architecture *b);
    /* The rest of the config, the architecture's name, classes and image size of plan->out. */
    enum status (*settle)(struct plan *plan);
    enum status (*check)(const struct conversion *c, const char *file);
    enum status (*write)(struct h5 *file, const struct conversion *c);
};
extern const struct convert_family convert_vit, convert_swin;
const char *convert_vit_without_row(const struct plan *plan);
enum status convert_vit_settle(struct plan *plan) MUST_CHECK;
/* The table of relative-position bias, shared or the first block's that has one; NULL: none. */
const struct conversion_tensor *convert_vit_bias(const struct plan *plan);
/* ST_SHAPE with all that the files say and the tensors are not. */
enum status convert_vit_claims(struct plan *plan) MUST_CHECK;
enum status convert_swin_settle(struct plan *plan) MUST_CHECK;
/* The first output layers.STAGE.blocks.N.<below>, whichever block has it; NULL: none. */
struct conversion_tensor *convert_swin_find(const struct plan *plan, int stage, const char *below);
/* Whether the windows of a stage, for pictures of c's size, are those that the file stores. */
bool convert_swin_fits(const struct plan *plan, const struct swin_config *c, int stage);

struct conversion_tensor *plan_find(const struct plan *plan, const char *name);
/* Puts the outputs into the order that plan_find expects, after names changed. */
void plan_sort(struct plan *plan);
enum status plan_note(struct plan *plan, const char *name, const char *value) MUST_CHECK;
/* ST_SHAPE with all faults found so far, if there are any. */
enum status plan_problems(const struct plan *plan) MUST_CHECK;

/*
 * Axis `axis` of the tensor as an int; 0 when there is no such tensor or axis, or it is beyond
 * CONVERT_MAX_DIM.
 */
int plan_axis(const struct conversion_tensor *t, int axis);
/* Counts the tensor, and notes the fault when it is not there with these dims. */
void plan_expect(struct plan *plan, int rank, const int *dims, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* name.weight (rows, columns), or (rows) with columns 0; and with `bias` name.bias (rows). */
void plan_expect_both(struct plan *plan, const char *name, int rows, int columns, bool bias);

enum status plan_parse_files(struct plan *plan) MUST_CHECK;
enum status plan_choose_architecture(struct plan *plan) MUST_CHECK;
/*
 * timm's config.json: licence, global_pool and act_layer; ST_FORMAT for a key of model_args that is
 * not among the `known`.
 */
enum status plan_timm_settings(struct plan *plan, const char *const *known, size_t count,
                               const char **pool, const char **act) MUST_CHECK;
/* The class that config.json of transformers was saved by, or NULL. */
const char *plan_config_class(const struct plan *plan);
/* A number of config.json, where it says it, and the tensors: a fault where they differ. */
enum status plan_claim_number(struct plan *plan, const struct cJSON *object, const char *key,
                              int tensors) MUST_CHECK;
/* A fault where the files say a classifier and the tensors have no head. */
void plan_claim_head(struct plan *plan);
/* --activation, else config.json's word (NULL: none), else *out stays. */
enum status plan_activation(const struct plan *plan, const char *word,
                            enum vit_activation *out) MUST_CHECK;
/*
 * Picture sizes to try: 0 what the user says, 1 to 3 the config files, 4 the row; *height and
 * *width stay where there is none.
 */
#define CONVERT_SIZES 5
enum status plan_candidate_size(struct plan *plan, int which, int *height, int *width) MUST_CHECK;

enum status plan_settle_preprocess(struct plan *plan) MUST_CHECK;
/*
 * torchvision's name for the model ("vit_b_16"), when the sizes of plan->out are those of weights
 * that it publishes; *out (or NULL) then has their preprocessing. NULL: another origin or size.
 */
const char *plan_torchvision(const struct plan *plan, struct preprocess_spec *out);
/*
 * keras_hub's ImageConverter, plan->processor, into *out, which has the model's size; a note where
 * its resize is another.
 */
enum status plan_keras_preprocess(struct plan *plan, struct preprocess_spec *out) MUST_CHECK;
/* id2label of transformers' config.json into plan->out, unless labels are given. */
enum status plan_labels(struct plan *plan) MUST_CHECK;
/* crop_pct for which a picture of `crop` comes out of one resized to `resize`; false: none. */
bool plan_crop_share(int crop, int resize, double *out);
/* --preprocess input_size=N or HxW; 0, 0 when it was not given. */
enum status plan_input_size(const struct plan *plan, int *height, int *width) MUST_CHECK;

/* ST_USAGE, ST_FORMAT: one picture is beyond what the self-test can run. */
enum status plan_check_cost(const struct plan *plan) MUST_CHECK;
/* Every value finite and inside what options->dtype holds; all tensors with a fault are named. */
enum status plan_check_values(struct plan *plan) MUST_CHECK;

#endif
