/*
 * evaluation: the rows of a labelled run, added up. It sees a run only through its rows
 * (tools/predictions.h), in their order, whether they were just made or read back from a file; that
 * is why a resumed or merged run ends in the same numbers.
 */
#ifndef TOOLS_EVALUATION_H
#define TOOLS_EVALUATION_H

#include "datasets/labels.h"
#include "datasets/texts.h"
#include "kernels/base.h"
#include "tools/metrics.h"
#include "tools/pipeline.h"
#include "tools/predictions.h"

enum { EVALUATION_WORST = 24, EVALUATION_FAULTS = 1000, EVALUATION_TOPK = 5 };

/* Reassessed labels of the ILSVRC validation images (ReaL): sets of classes by image number. */
struct real_labels {
    size_t count;    /* images, 0 = none were given */
    uint32_t *first; /* (count + 1) */
    int *class;      /* (first[count]) */
};

/* Image n-1 of the file is ..._0000000n.JPEG. ST_IO, ST_FORMAT; a class is below `classes`. */
enum status real_labels_read(struct real_labels *real, const char *path, int classes) MUST_CHECK;
void real_labels_release(struct real_labels *real);

struct evaluation_fault {
    char *path, *message;
};

/* An image that was told with confidence, and wrong. */
struct evaluation_error {
    char *path;
    int target, best;
    float confidence;
};

struct evaluation {
    struct metrics metrics; /* images in it: those with a class of the model's, and a prediction */
    uint64_t images, failed, unmatched; /* rows; failed ones; good ones without such a class */
    struct real_labels real;
    uint64_t real_images, real_hits;
    struct evaluation_fault *faults; /* (fault_count) the first EVALUATION_FAULTS */
    size_t fault_count, fault_capacity;
    /* Names that the data has for classes and the model has not; "" = images without any label. */
    struct texts strangers;
    uint64_t *stranger_images; /* (strangers.count) */
    size_t stranger_capacity;
    struct evaluation_error worst[EVALUATION_WORST]; /* (worst_count) most confident first */
    int worst_count;
};

enum status evaluation_init(struct evaluation *e, int classes, int bins) MUST_CHECK;
void evaluation_release(struct evaluation *e); /* works on a zeroed struct, and twice */

/* A row. ST_NOMEM. */
enum status evaluation_add(struct evaluation *e, const struct prediction *row) MUST_CHECK;

/* ---- telling --------------------------------------------------------------------------------- */

/* What stands beside the numbers. */
struct evaluation_about {
    const char *model, *model_sha256, *dataset, *form;
    const struct labels *labels;
    const struct preprocess *preprocess;
    const struct pipeline_totals *totals; /* of this run's part */
    bool merged;                          /* nothing was run: no times */
};

/* For a person; and as one JSON object. The owner flushes. ST_NOMEM. */
void evaluation_print(const struct evaluation *e, const struct evaluation_about *about, FILE *file);
enum status evaluation_print_json(const struct evaluation *e, const struct evaluation_about *about,
                                  FILE *file) MUST_CHECK;
/*
 * That object (cJSON_Delete), of the names that are no class of the model's only the first
 * `strangers_most`. Memory that was short shows when it is printed, or in NULL.
 */
struct cJSON *evaluation_json(const struct evaluation *e, const struct evaluation_about *about,
                              size_t strangers_most);

/*
 * The confusion matrix, (K + 1) x (K + 1) cells of CSV: a line a target, a column a prediction, in
 * front the classes' ids.
 */
enum status evaluation_print_confusion(const struct evaluation *e, const struct labels *labels,
                                       FILE *file) MUST_CHECK;

#endif
