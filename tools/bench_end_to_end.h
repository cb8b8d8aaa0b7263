/* bench_end_to_end: what image files cost on their way through a model. */
#ifndef TOOLS_BENCH_END_TO_END_H
#define TOOLS_BENCH_END_TO_END_H

#include "datasets/inputs.h"
#include "tools/model.h"
#include "tools/run.h"

/* Images a second. */
struct end_to_end {
    double decode; /* read, decoded and resized on the threads, no model behind it */
    double whole;  /* to logits */
    size_t images; /* good ones */
};

/*
 * All images of `inputs`, `rounds` times each way in turn, after one time to warm up; medians.
 * ST_FORMAT: none of them is an image.
 */
enum status end_to_end_measure(struct model *model, struct inputs *inputs,
                               const struct run_options *run, int rounds,
                               struct end_to_end *out) MUST_CHECK;

/* The middle of `count` values, or the mean of the two in the middle; sorts them. */
double bench_median(double *values, int count);

#endif
