/*
 * attention_page: `vitrine attention --save html`: FOLDER/index.html, an inspector page
 * (tools/inspector.h) of all images of a run, written image by image.
 *
 *   attention_page_open -> attention_page_create -> for each batch: model_forward with page.capture
 *   and page.logits, then attention_page_save image by image -> attention_page_close ->
 *   attention_page_release
 *
 * The page holds of chosen layers all heads' probabilities of all queries, a rollout, the best
 * classes by the same pass, and gradients of some. About a byte a probability before deflate.
 */
#ifndef TOOLS_ATTENTION_PAGE_H
#define TOOLS_ATTENTION_PAGE_H

#include "tools/attention_files.h"
#include "tools/output.h"
#include "tools/run.h"

enum { ATTENTION_PAGE_CLASSES = 5 };

struct attention_page {
    struct attention_maps *maps;   /* the run's own; the caller's */
    struct attention_maps rows;    /* every head and query of the page's layers */
    struct attention_maps rollout; /* with defaults, where the run's own is none */
    struct attention_maps classes; /* gradients with defaults, where the run's own are none; not of
                                      a model without classes */
    bool *wanted;                  /* (depth) what any of the first three wants */
    struct capture capture;        /* of the pass: hands on to them */
    float *logits;                 /* (batch, K) of the pass; NULL without a head */
    char *path;
    struct output output;
    size_t kept_bytes; /* of all four and the logits */
    int count;         /* layers captured */
};

/*
 * maps: opened with options.whole and options.backward, and outlives the page, which stays where it
 * is. The rollout shown is theirs if they are one. Errors of attention_open; on failure *out is
 * released.
 */
enum status attention_page_open(struct attention_page *out, struct attention_maps *maps) MUST_CHECK;
void attention_page_release(struct attention_page *page); /* works on a zeroed struct, and twice */

/* Begins FOLDER/index.html. ST_USAGE where that is `model` or an input; ST_IO. */
enum status attention_page_create(struct attention_page *page, const char *folder,
                                  const struct run_options *run,
                                  const struct inputs *inputs) MUST_CHECK;
/* Ends it; returns `done`, or its own first failure. Works on a zeroed struct. */
enum status attention_page_close(struct attention_page *page, enum status done) MUST_CHECK;

/* A row of the table in attention_files.c: the image into file->page. */
enum status attention_page_save(const struct attention_file *file) MUST_CHECK;

#endif
