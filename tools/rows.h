/*
 * rows: an image's predictions as text, TSV, CSV, JSON or JSON lines. Stable: scripts read them.
 *
 * tsv, csv   a header, then a line per (image, rank); a failed image has one line:
 *            path status rank index id label score message
 * jsonl      an object an image: {"path","status","width","height",
 *            "predictions":[{"rank","index","id","label","score"}],"message"}; a failed image has
 *            null sizes and no predictions, a good one a null message
 * json       one array of those objects
 * text       for a person: the path, then the score, id and label of each prediction
 *
 * With targets, tables end in target target_id target_label correct target_rank target_score, and
 * objects in members of those names; what is not known is empty, or null. All but the first three
 * say the same on every line of an image.
 *
 * Scores carry 9 significant digits, which give the same fp32 back. Names of files may hold any
 * byte: TSV writes tab, newline, carriage return and backslash as \t \n \r \\; CSV quotes by RFC
 * 4180 (lines end in \n); text shows control bytes as TSV or \xNN; JSON is always valid UTF-8: what
 * is not becomes U+FFFD, and "path_hex" then has the bytes of the path in hexadecimal.
 */
#ifndef TOOLS_ROWS_H
#define TOOLS_ROWS_H

#include <stdio.h>

#include "datasets/labels.h"
#include "kernels/base.h"

/* The order of --format's choices in tools/run.c. */
enum row_format { ROW_TEXT, ROW_TSV, ROW_CSV, ROW_JSON, ROW_JSONL };

struct row_prediction {
    int index;         /* of the class */
    const char *id;    /* NULL = the index as text */
    const char *label; /* NULL = the id */
    float score;
};

/* What the image should have been. */
struct row_target {
    int index;         /* a class of the model; -1 = none */
    const char *id;    /* as above; with index -1 NULL */
    const char *label; /* with index -1 what the dataset calls it, or NULL */
    int rank;          /* of it among the predictions, from 1; 0 = there are none */
    float score;       /* its */
};

struct row {
    const char *path;
    const char *error; /* the reason of a failed image; NULL = the predictions hold */
    int width, height; /* of the upright picture */
    const struct row_prediction *predictions; /* (count), best first */
    int count;
    const struct row_target *target; /* not NULL with targets */
};

struct rows {
    FILE *file;
    enum row_format format;
    bool targets;
    size_t written; /* images */
};

/* The `count` classes index[] with their scores, of scores (K), as the labels call them. */
void rows_predict(const struct labels *labels, const float *scores, const int *index, int count,
                  struct row_prediction *out);

/* What stands before the first row, the rows in order, and what stands after the last. */
void rows_begin(struct rows *rows, FILE *file, enum row_format format, bool targets);
void rows_write(struct rows *rows, const struct row *row);
void rows_end(struct rows *rows);

/* One field of a TSV or CSV line, escaped as above. */
void rows_put_field(FILE *file, enum row_format format, const char *text);
/* A copy (mem_free) in which what is not UTF-8 has become U+FFFD. */
char *rows_utf8(const char *text);
/* A number by a printf format of one double, the decimal sign a dot in every locale. */
const char *rows_score_text(float score, const char *format, char text[48]);

#endif
