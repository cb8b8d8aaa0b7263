/*
 * output: where results go: stdout, or a file that appears under its name only when it is whole.
 */
#ifndef TOOLS_OUTPUT_H
#define TOOLS_OUTPUT_H

#include <stdio.h>

#include "kernels/base.h"

struct output {
    FILE *file;
    char *path; /* the name it will get; NULL = stdout, or a device or pipe written in place */
    char *part; /* the file being written, beside it; NULL as above */
    const char *shown;
    bool whole; /* set behind output_open: what cannot be finished is removed, not kept beside */
};

/*
 * path NULL or "-": stdout. A regular or new file is written beside its final name, links followed;
 * /dev/null, a named pipe and their kin are written in place. What a signal cuts short before the
 * first output_flush is removed (weights/temporary.h), later it stays beside. ST_IO names the path
 * and the reason; ST_USAGE a path that output_spare was told. `path` must outlive the output.
 */
enum status output_open(struct output *out, const char *path) MUST_CHECK;

/*
 * Flushes, so that a reader sees the rows so far. ST_IO when that fails (disk full, reader gone). A
 * pipe whose reader left is not worth a sentence: fail_message() is then "".
 */
enum status output_flush(struct output *out) MUST_CHECK;

/*
 * Flushes, closes and gives the file its name. With `done` not ST_OK (the run could not finish) the
 * name is not given: what was written stays in the file beside, and the sentence says so, unless
 * out->whole.
 * Returns `done`, or the first failure of its own. Works on a zeroed output, and twice.
 */
enum status output_close(struct output *out, enum status done) MUST_CHECK;

/*
 * For a file that is not written as a stream (HDF5): ST_USAGE when `path` is - or exists and is no
 * regular file (a device, a pipe, a folder) or one that output_spare was told.
 */
enum status output_check_regular(const char *path) MUST_CHECK;

/* The folder `path`, and those above it that are not there. ST_IO. */
enum status output_make_folders(char *path) MUST_CHECK;

/* ST_USAGE when `path` exists and is the very file `input`; NULL for either is nothing. */
enum status output_check_spares(const char *path, const char *input) MUST_CHECK;

/*
 * For the rest of the process: no output may replace the file `path`, if it is there and regular,
 * by whatever name. One thread at a time, as opening. ST_NOMEM.
 */
enum status output_spare(const char *path) MUST_CHECK;

/* ST_USAGE when both are one file, there or not yet; devices and pipes may be. NULL is nothing. */
enum status output_check_distinct(const char *path, const char *other) MUST_CHECK;

#endif
