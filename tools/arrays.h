/*
 * arrays: one fp32 array a named input, streamed into .npy, .h5, .csv or .tsv.
 *
 * Every input has its row, in order; a failed one is NaN throughout, with its reason:
 *   .npy   (rows, shape...) and beside it NAME.npy.tsv: row path status message
 *   .h5    datasets `data` (rows, shape...), `path`, `status`, `message` (rows)
 *   .csv   path status message, then one column an element (c0, c1, ...); failed rows have empty
 * cells .tsv   the same with tabs
 */
#ifndef TOOLS_ARRAYS_H
#define TOOLS_ARRAYS_H

#include "kernels/base.h"
#include "tools/output.h"

struct h5;

enum array_format { ARRAY_NPY, ARRAY_H5, ARRAY_CSV, ARRAY_TSV };

struct arrays {
    enum array_format format;
    int rank;        /* of one row */
    size_t dims[3];  /* (rank) */
    size_t elements; /* of one row */
    size_t rows, expected;
    struct output data, index; /* index: the .tsv beside a .npy */
    char *h5_part, *h5_path;   /* an .h5 is written beside and renamed too */
    struct h5 *h5;
    char **paths, **messages; /* .h5: (rows), messages NULL where good */
    size_t path_capacity, message_capacity;
    float *missing; /* (elements) of NaN */
    char *index_path;
};

/* By the suffix of `path` (NULL or "-": CSV); false when it is none of the known. */
bool arrays_format(const char *path, enum array_format *out);

/*
 * The header of a .npy file of float32 (dims), rank <= 4: always as long, so that it can be
 * rewritten. The elements follow, in row-major order.
 */
void arrays_npy_header(FILE *file, int rank, const size_t *dims);

/* `expected` rows are coming (0 = not known). ST_IO, ST_NOMEM. */
enum status arrays_open(struct arrays *arrays, const char *path, enum array_format format, int rank,
                        const size_t *dims, size_t expected) MUST_CHECK;

/* values (elements), or NULL with the reason in `error`. */
enum status arrays_row(struct arrays *arrays, const char *path, const float *values,
                       const char *error) MUST_CHECK;

/* As output_close: names the files only when `done` is ST_OK. Works on a zeroed struct. */
enum status arrays_close(struct arrays *arrays, enum status done) MUST_CHECK;

#endif
