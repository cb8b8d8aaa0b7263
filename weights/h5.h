/*
 * h5: HDF5 files; the only door to the HDF5 library (weights/h5_internal.h includes <hdf5.h>).
 *
 * Reading treats the file as untrusted: hard links only, no external or virtual datasets, no
 * filters but deflate and shuffle, ranks up to TENSOR_MAX_RANK, claimed sizes against stored ones
 * before any allocation, text in UTF-8 without control characters (line ends and tabs aside),
 * HDF5's own error printing off. Every sentence begins with the file's name: ST_IO where the system
 * refused or the file became shorter since it was opened, ST_SHAPE where a dataset is missing or of
 * another shape or type, else ST_FORMAT.
 *
 * Objects are named by absolute paths ("/config", "/parameters/norm.weight"). An open file is used
 * by one thread at a time.
 */
#ifndef WEIGHTS_H5_H
#define WEIGHTS_H5_H

#include "kernels/base.h"
#include "weights/tensor.h"

struct h5; /* an open file */

/* For reading; a file that is not HDF5 is called by its kind ("a zip archive"). */
enum status h5_open(const char *path, struct h5 **out) MUST_CHECK;
/*
 * A file that lies in memory, for reading; not copied, so `bytes` must outlive the h5. `name` is
 * for messages.
 */
enum status h5_open_memory(const void *bytes, size_t size, const char *name,
                           struct h5 **out) MUST_CHECK;
/* A new file, replacing an old one of that name. */
enum status h5_create(const char *path, struct h5 **out) MUST_CHECK;
/* Closes and sets *file to NULL; NULL is nothing. A failed flush is ST_IO. */
enum status h5_close(struct h5 **file) MUST_CHECK;
const char *h5_name(const struct h5 *file);

/* Whether the group or dataset, or the attribute of it, exists. object "/" is the root. */
bool h5_has(struct h5 *file, const char *object);
bool h5_has_attribute(struct h5 *file, const char *object, const char *name);

/*
 * Attributes. Getters demand existence, type class and count, and the range where one is given;
 * strings may be fixed or variable length, ASCII or UTF-8 (*out is mem_free'd by the caller; at
 * most 64 KiB).
 */
enum status h5_get_int(struct h5 *file, const char *object, const char *name, long lo, long hi,
                       int *out) MUST_CHECK;
enum status h5_get_ints(struct h5 *file, const char *object, const char *name, int count, long lo,
                        long hi, int *out) MUST_CHECK;
/* 1 to `limit` integers, *count of them. */
enum status h5_get_int_list(struct h5 *file, const char *object, const char *name, int limit,
                            long lo, long hi, int *out, int *count) MUST_CHECK;
enum status h5_get_double(struct h5 *file, const char *object, const char *name, double lo,
                          double hi, double *out) MUST_CHECK;
enum status h5_get_doubles(struct h5 *file, const char *object, const char *name, int count,
                           double lo, double hi, double *out) MUST_CHECK;
enum status h5_get_string(struct h5 *file, const char *object, const char *name,
                          char **out) MUST_CHECK;
enum status h5_set_int(struct h5 *file, const char *object, const char *name, int value) MUST_CHECK;
enum status h5_set_ints(struct h5 *file, const char *object, const char *name, int count,
                        const int *values) MUST_CHECK;
enum status h5_set_double(struct h5 *file, const char *object, const char *name,
                          double value) MUST_CHECK;
enum status h5_set_doubles(struct h5 *file, const char *object, const char *name, int count,
                           const double *values) MUST_CHECK;
enum status h5_set_string(struct h5 *file, const char *object, const char *name,
                          const char *value) MUST_CHECK;

/*
 * The names of a group's attributes, sorted; *names and each name are mem_free'd by the caller
 * (h5_free_names).
 */
enum status h5_attribute_names(struct h5 *file, const char *object, char ***names,
                               size_t *count) MUST_CHECK;
void h5_free_names(char **names, size_t count);

struct h5_dataset {
    char *name;       /* below the group, e.g. "blocks.0.norm1.weight" */
    enum dtype dtype; /* DT_OTHER: strings, compounds and whatever else h5_read_f32 refuses */
    int rank;         /* 0: a scalar */
    size_t dims[TENSOR_MAX_RANK];
};

/* With the groups above it; one that is there is kept. */
enum status h5_make_group(struct h5 *file, const char *group) MUST_CHECK;
/* The datasets directly in `group`, sorted by name, groups left out; h5_free_datasets releases. */
enum status h5_list(struct h5 *file, const char *group, struct h5_dataset **out,
                    size_t *count) MUST_CHECK;
/* All below `group`, in its groups and theirs; the names are paths below it, "a/b/0". */
enum status h5_walk(struct h5 *file, const char *group, struct h5_dataset **out,
                    size_t *count) MUST_CHECK;
void h5_free_datasets(struct h5_dataset *datasets, size_t count);
enum status h5_info(struct h5 *file, const char *dataset,
                    struct h5_dataset *out) MUST_CHECK; /* out->name owned */

/*
 * Reads a whole dataset of exactly `count` elements. h5_read_f32 takes fp32 (straight into dst),
 * fp64, fp16 and bf16 of either byte order; int8 needs its scales: params.h. h5_read_raw takes the
 * stored type only and gives little-endian elements. What dst holds after a failure is unspecified.
 */
enum status h5_read_f32(struct h5 *file, const char *dataset, float *dst, size_t count) MUST_CHECK;
enum status h5_read_raw(struct h5 *file, const char *dataset, enum dtype dtype, void *dst,
                        size_t count) MUST_CHECK;
/*
 * Rows [first, first + rows) of the first dimension. h5_read_rows: elements of the stored type
 * `dtype`, little endian; h5_read_integers: a list of integers of any width and sign, whole ones of
 * 1 to 8 bytes, as int64 (what passes it is clipped). ST_USAGE for rows outside.
 */
enum status h5_read_rows(struct h5 *file, const char *dataset, enum dtype dtype, size_t first,
                         size_t rows, void *dst) MUST_CHECK;
enum status h5_read_integers(struct h5 *file, const char *dataset, size_t first, size_t rows,
                             int64_t *dst) MUST_CHECK;
enum status h5_read_strings(struct h5 *file, const char *dataset, size_t limit, char ***out,
                            size_t *count) MUST_CHECK; /* h5_free_names releases */
/*
 * Where a dataset's elements lie in the bytes that h5_open_memory was given: all of them, in one
 * piece and little endian. ST_FORMAT where they are chunked, compressed, big-endian or outside.
 */
enum status h5_place(struct h5 *file, const char *dataset, const uint8_t **out) MUST_CHECK;

enum status h5_write(struct h5 *file, const char *dataset, enum dtype dtype, int rank,
                     const size_t *dims, const void *data) MUST_CHECK;
enum status h5_write_strings(struct h5 *file, const char *dataset, const char *const *strings,
                             size_t count) MUST_CHECK;
/*
 * A dataset of no rows yet, each of dims[1..] (dims[0] is not looked at), for features of many
 * images: h5_append puts `rows` of them, elements of the dataset's type, behind those there.
 */
enum status h5_create_growing(struct h5 *file, const char *dataset, enum dtype dtype, int rank,
                              const size_t *dims) MUST_CHECK;
enum status h5_append(struct h5 *file, const char *dataset, size_t rows,
                      const void *data) MUST_CHECK;

#endif
