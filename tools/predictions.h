/*
 * predictions: the rows of an evaluation as a file that a cut run can be continued in, and that
 * shards of a run are merged from.
 *
 * The first line says what the rows are of; only rows of the very same run belong together:
 *
 *   .csv .tsv   # vitrine evaluate {"model_sha256":...}     then rows with targets (tools/rows.h)
 *   .jsonl      {"vitrine evaluate":{"model_sha256":...}}   then an object an image
 *
 * An image has "topk" lines in a table, a failed one a single line. A run that came to its end has
 * a last line that says how many images there are:
 *
 *   .csv .tsv   # end of 10000 images
 *   .jsonl      {"vitrine evaluate end":10000}
 *
 * What a cut run left behind its last whole image is taken off. One run at a time writes to a file.
 */
#ifndef TOOLS_PREDICTIONS_H
#define TOOLS_PREDICTIONS_H

#include "kernels/base.h"
#include "tools/rows.h"

/* An image of a file that is read; the pointers hold until the next one. */
struct prediction {
    const char *path, *message; /* message NULL = not failed */
    int target;                 /* -1 = none */
    const char *target_label;   /* "" = none */
    int best;
    float confidence;
    int rank; /* of the target; 0 = none */
    float target_score;
    const char *raw; /* (raw_size) its lines */
    size_t raw_size;
};

/* ---- reading --------------------------------------------------------------------------------- */

struct predictions_reader {
    FILE *file;
    const char *path; /* the caller's */
    enum row_format format;
    char *head; /* the object of the first line */
    int topk;
    char *text; /* the lines of one image, and a copy in fields */
    size_t used, capacity;
    char *fields;
    size_t fields_capacity;
    void *object; /* a parsed line of .jsonl */
    struct prediction last;
    uint64_t end;  /* where the last whole image ends, in bytes */
    size_t images; /* read */
    bool cut;      /* the file ends within an image */
    bool complete; /* its last line was there */
};

/* csv, tsv or jsonl by the suffix; ST_USAGE else. */
enum status predictions_format(const char *path, enum row_format *out) MUST_CHECK;

/* ST_IO; ST_FORMAT: not such a file. An empty one has head NULL and no images. */
enum status predictions_read_open(struct predictions_reader *reader, const char *path) MUST_CHECK;
/*
 * The next whole image; *out NULL at the end, cut or not. ST_FORMAT too when the last line is of
 * another number of images. Indices are below `classes` and ranks
 * from 1 to it, or ST_FORMAT, as with any line that is not what it should be; the sentence names
 * file and image.
 */
enum status predictions_read(struct predictions_reader *reader, int classes,
                             const struct prediction **out) MUST_CHECK;
void predictions_read_close(struct predictions_reader *reader); /* works on a zeroed struct */

/* Whether both heads are of one run; ST_USAGE names the first member that differs, and both. */
enum status predictions_compare(const char *file, const char *head, const char *wanted) MUST_CHECK;

/* ---- writing --------------------------------------------------------------------------------- */

struct predictions {
    const char *path; /* the caller's */
    FILE *file;
    struct rows rows;
};

/*
 * A new file, whatever was there before: its first line, and a table's names of columns. ST_IO,
 * here and below: it cannot be written, or another run is writing it.
 */
enum status predictions_create(struct predictions *out, const char *path,
                               const char *head) MUST_CHECK;
/* Opens a file that was read up to `end` to go on there; what stands behind is cut off. */
enum status predictions_continue(struct predictions *out, const char *path,
                                 uint64_t end) MUST_CHECK;
/* The last line. */
void predictions_end(struct predictions *out, uint64_t images);
/* All rows so far reach the file. ST_IO names it. */
enum status predictions_flush(struct predictions *out) MUST_CHECK;
/* Works on a zeroed struct; returns `done`, or its own first failure. */
enum status predictions_close(struct predictions *out, enum status done) MUST_CHECK;

#endif
