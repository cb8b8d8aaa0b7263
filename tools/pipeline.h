/*
 * pipeline: reading, decoding, preprocessing on threads beside the model; results in input order.
 *
 *   next (one at a time, in order) -> decode -> preprocess -> slot of a ring -> on_batch (in order)
 *
 * A slot is one input: its path, its fault if it has one, its size and its pixels. The consumer
 * takes `batch` consecutive slots at a time, moves the pixels of the good ones together and calls
 * `on_batch` from the thread that called pipeline_run. Memory is bounded by the ring: a batch that
 * runs beside a slot for every worker, in whole batches, and one more where look_ahead wants it.
 * One thread, or one input: no thread is started and the stages alternate. A broken image is an
 * item with a reason; it never stops the run, unless stop_on_error.
 */
#ifndef TOOLS_PIPELINE_H
#define TOOLS_PIPELINE_H

#include "datasets/image.h"
#include "datasets/preprocess.h"
#include "kernels/base.h"

struct pipeline_item {
    /* From next: owned by the pipeline from then on. */
    char *path;     /* names the item; read from there unless bytes or a picture are given */
    char *error;    /* the reason of a failed item, without the path; NULL = good */
    uint8_t *bytes; /* (size) encoded image, or NULL */
    size_t size;
    struct image image; /* already decoded when image.rgb is not NULL */
    long tag;           /* the source's own, e.g. the class of a labelled image */
    /* From the stages. */
    size_t number; /* counts from 0 in input order */
    int width, height, orientation;
    struct placement placement;
};

struct pipeline_batch {
    const struct pipeline_item *items; /* (count), in input order */
    int count;
    int *ends;             /* 0; on_batch may set it: the run ends behind as many of the items */
    const uint8_t *pixels; /* (good, height, width, 3): of the items without error, in order */
    int good;
    /* The pixels of the batch behind it, when all of it is there already and good; else NULL. */
    const uint8_t *ahead; /* (ahead_count, height, width, 3) */
    int ahead_count;
};

/* Seconds summed over all threads, but idle and model, which are the consumer's. */
struct pipeline_totals {
    size_t images, failed; /* images counts both */
    size_t turned;         /* pictures whose EXIF orientation is not upright */
    double seconds;
    double read, decode, resize, model, idle;
};

/* sum += part, but for the time on the clock. */
void pipeline_totals_add(struct pipeline_totals *sum, const struct pipeline_totals *part);

struct pipeline {
    /* The next item into *item (zeroed); false at the end. Called by one thread at a time. */
    bool (*next)(void *source, struct pipeline_item *item);
    void *source; /* for paths: run_next_input and a struct inputs */
    /* What a batch is for. Not ST_OK ends the run. */
    enum status (*on_batch)(void *context, const struct pipeline_batch *batch);
    void *context;
    size_t total; /* inputs, for progress and to size the ring; 0 = not known */
    int batch, threads;
    struct image_options image;
    const struct preprocess *preprocess;
    bool keep_images;   /* items still hold their decoded picture in on_batch */
    bool look_ahead;    /* room for a whole batch behind the one that runs; see batch.ahead */
    bool stop_on_error; /* the first failed item is the last one given to on_batch */
    bool progress;      /* a line on stderr */
    /* What else stands in that line, into text (size); of `context`; NULL = nothing. */
    void (*note)(void *context, char *text, size_t size);
};

/* Runs to the end of the inputs. Failed images are not a failure of the run; see totals->failed. */
enum status pipeline_run(const struct pipeline *pipeline,
                         struct pipeline_totals *totals) MUST_CHECK;

#endif
