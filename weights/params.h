/*
 * params: strict, named, shape-checked reads of `/parameters` of a vitrine model.
 *
 * A loader asks for every tensor by name and exact shape. What is missing or of another shape is
 * collected, and params_close lists it all together with every tensor nobody asked for: ST_SHAPE
 * unless all is exact.
 */
#ifndef WEIGHTS_PARAMS_H
#define WEIGHTS_PARAMS_H

#include "weights/h5.h"

struct params {
    struct h5 *file;
    struct h5_dataset *datasets; /* (count), sorted by name */
    bool *used;                  /* (count) */
    size_t count;
    char *problems;               /* the sentences so far, "; " between; owned */
    size_t problem_count, listed; /* all, and those in `problems` */
    size_t elements;              /* parameters read so far */
};

enum status params_open(struct params *params, struct h5 *file) MUST_CHECK;

/*
 * ST_SHAPE when a config announces `count` parameters and the file is far too small for them: said
 * before anything is reserved or filled for what no file has.
 */
enum status params_announced(const struct params *params, double count) MUST_CHECK;

/*
 * Reads tensor `name` of shape dims[rank] as fp32 (fp16, bf16 widened; int8 times its per-channel
 * scales, dataset NAME + ".scale") into dst. On a missing tensor or another shape: noted, dst
 * zeroed.
 */
void params_get(struct params *params, float *dst, const int *dims, int rank, const char *name);

/*
 * The same; true: the tensor is int8, and scales (dims[0]) are its channels', so that row r of dst
 * is integers of [-128, 127] times scales[r]. False: scales are unspecified.
 */
bool params_get_scales(struct params *params, float *dst, float *scales, const int *dims, int rank,
                       const char *name);

/*
 * Whether the tensor exists (for messages and optional parts that the config announces
 * elsewhere).
 */
bool params_has(const struct params *params, const char *name);

/*
 * Releases; ST_SHAPE with the list (at most 20 entries, then a count) unless every tensor was
 * asked for and fitted.
 */
enum status params_close(struct params *params) MUST_CHECK;

/* For params_get: SHAPE(3 * C, C) is the dims and their number. */
#define SHAPE(...) (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))

#endif
