/*
 * evaluate: what `vitrine evaluate` is made of, between its files: evaluate_options.c (the command
 * line), cmd_evaluate.c (a dataset through the model), evaluate_rows.c (the file of rows: what it
 * is of, going on in it, merging shards), evaluate_report.c (the page of --report),
 * evaluate_ranks.c (several processes as one run).
 */
#ifndef TOOLS_EVALUATE_H
#define TOOLS_EVALUATE_H

#include <pthread.h>

#include "datasets/dataset.h"
#include "tools/class_map.h"
#include "tools/cli.h"
#include "tools/evaluation.h"
#include "tools/model.h"
#include "tools/output.h"
#include "tools/pipeline.h"
#include "tools/predictions.h"
#include "tools/ranks.h"
#include "tools/run.h"

struct evaluate_shard {
    int index, count; /* count 0 = all images */
};

struct evaluate_options {
    struct run_options run;
    const char *labels, *class_map, *subset, *real;
    const char *predictions, *confusion, *report, *report_data;
    size_t limit;
    int seed, bins;
    bool resume, merge;
    struct evaluate_shard shard;
};

/* A class of the data's, and the model's that it is. */
struct evaluate_truth {
    char *text; /* owned */
    int class;  /* -1 = none */
};

/* K classes, k of them are told. */
struct evaluate {
    struct evaluate_options o;
    const char *path;
    char *command; /* as it was given, quoted for a shell */
    struct dataset *dataset;
    struct devices devices;
    struct model model;
    char sha256[65], *head; /* of the row file */
    struct class_map map;
    bool *chosen; /* (K) --classes-subset; NULL = all */
    struct output output, report;
    struct dataset *report_data; /* where the report's pictures come from */
    struct predictions rows;
    struct evaluation evaluation;
    struct pipeline_totals totals;
    struct ranks ranks;
    struct evaluate_ranks *together; /* NULL = this process alone */
    int topk;
    float *logits;                      /* (batch, K) */
    int *best;                          /* (k) */
    struct row_prediction *predictions; /* (k) */
    /* The source's, which runs in the pipeline's threads. */
    uint64_t seen, taken, random; /* images that the dataset gave; that this run is of */
    uint64_t offered;             /* of those taken: no row was there */
    size_t skip;                  /* of those taken: rows are there already */
    uint64_t *names;              /* (name_count) evaluate_name of those rows, in order */
    size_t name_count, name_capacity, named;
    char *stray;                   /* the sentence of an image that is not its row's; NULL = none */
    pthread_mutex_t lock;          /* guards what follows */
    struct evaluate_truth *truths; /* (truth_count) by the dataset's index */
    size_t truth_count, truth_capacity;
};

/* The command line into *o (evaluate_defaults); CLI_GO or the exit status, as cli_parse. */
struct evaluate_options evaluate_defaults(void);
int evaluate_parse(int argc, char **argv, struct evaluate_options *o, struct cli_args *args);
/* ST_USAGE: options that do not go together. */
enum status evaluate_check(const struct evaluate_options *o,
                           const struct cli_args *args) MUST_CHECK;

/* ST_USAGE once so many images had no class of the model's that none will have. */
enum status evaluate_check_hope(const struct evaluate *e) MUST_CHECK;

/* ST_USAGE: an output would take the place of an input, of a picture, or of another output. */
enum status evaluate_check_outputs(const struct evaluate_options *o,
                                   const struct cli_args *args) MUST_CHECK;

/* Devices, model, classes, and what is added up. */
enum status evaluate_open_model(struct evaluate *e) MUST_CHECK;

/*
 * FNV-1a of the last part of an image's path, of a stored one's number alone: what stays when a
 * dataset is moved.
 */
uint64_t evaluate_name(const char *path);

/*
 * Opens the file of --predictions, if there is one, with --resume behind its last whole row: what
 * is there is added up, and e->skip says how much it is. ST_USAGE: it is of another run.
 */
enum status evaluate_open_rows(struct evaluate *e) MUST_CHECK;
/*
 * --merge: adds up the rows of all shards in the order of the dataset, and writes them as one file
 * if --predictions names one. ST_USAGE: a shard is missing, there twice, or of another run;
 * ST_FORMAT: one ends early.
 */
enum status evaluate_merge(struct evaluate *e, const struct cli_args *files) MUST_CHECK;

/*
 * --report, without which neither does anything. Before the run: whether the file can be written
 * and --report-data read. After it, as the last thing: the page; e->report is then to be closed.
 */
enum status evaluate_report_open(struct evaluate *e) MUST_CHECK;
enum status evaluate_report(struct evaluate *e, const struct evaluation_about *about) MUST_CHECK;

/* ---- several processes ----------------------------------------------------------------------- */

/*
 * After all is open, in every rank; nothing in a process by itself. ST_USAGE: a rank would run
 * something else than rank 0.
 */
enum status evaluate_ranks_begin(struct evaluate *e) MUST_CHECK;
/* Whose image `number` (0 is the first that is to be run) is. Waits for work; of the source. */
enum evaluate_turn { TURN_MINE, TURN_OTHERS, TURN_OVER };
enum evaluate_turn evaluate_ranks_turn(struct evaluate *e, uint64_t number);
/* In place of writing a row and adding it up: it goes to rank 0 with the next flush. */
enum status evaluate_ranks_row(struct evaluate *e, const struct row *row,
                               struct prediction *told) MUST_CHECK;
enum status evaluate_ranks_flush(struct evaluate *e) MUST_CHECK;
/*
 * At the end of the source: waits for all; rank 0's rows, evaluation and totals are then those of
 * the run. The first failure of any rank is every rank's.
 */
enum status evaluate_ranks_end(struct evaluate *e, enum status st) MUST_CHECK;
/* Around a look at e->evaluation while a thread of rank 0 may add to it. */
void evaluate_ranks_lock(struct evaluate *e);
void evaluate_ranks_unlock(struct evaluate *e);
void evaluate_ranks_release(struct evaluate *e); /* works on a zeroed struct */

#endif
