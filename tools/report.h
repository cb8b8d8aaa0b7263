/*
 * report: an evaluation as one HTML page that needs nothing beside it. The page itself is
 * tools/report.html, embedded at build time; a run's numbers are put into it as one block of JSON,
 * its pictures as another:
 *
 *   evaluation -> evaluation_json + confusion, rows, run -> {{data}}
 *   worst errors -> report_pictures_find -> thumbnails   -> {{pictures}}
 *
 * Text from outside (paths, labels, messages, arguments) cannot end a block: every '<' of the JSON
 * is written \u003c, and the page's script puts it in as text.
 */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <stdio.h>
#include <time.h>

#include "datasets/dataset.h"
#include "datasets/image.h"
#include "kernels/base.h"
#include "tools/evaluation.h"
#include "tools/picture.h"

enum { REPORT_SIDE = 192, REPORT_STRANGERS = 1000 };

/* A thumbnail, REPORT_SIDE pixels at most a side. */
struct report_picture {
    struct picture_bytes bytes; /* of a PNG or JPEG file; size 0: there is none */
    bool png;
    char *missing; /* then why, without the path; NULL = not looked for */
};

/* Of evaluation.worst, in its order. */
struct report_pictures {
    struct report_picture of[EVALUATION_WORST];
};

/*
 * Decodes the pictures of e->worst again. `dataset` gives them, from its first image on until all
 * are found, one held at a time; NULL: their paths are files. A picture that cannot be had has its
 * reason. ST_NOMEM. *out zeroed before.
 */
enum status report_pictures_find(struct report_pictures *out, const struct evaluation *e,
                                 struct dataset *dataset,
                                 const struct image_options *options) MUST_CHECK;
/* The same reason for all. ST_NOMEM. */
enum status report_pictures_missing(struct report_pictures *out, const struct evaluation *e,
                                    const char *reason) MUST_CHECK;
void report_pictures_release(struct report_pictures *pictures); /* works on a zeroed struct */

/* What the page tells beside the evaluation; strings are the caller's. */
struct report {
    const struct evaluation *evaluation;
    const struct evaluation_about *about;
    const char *command; /* report_command */
    const char *rows;    /* what the rows are of, a JSON object; NULL = not known */
    const char *architecture;
    size_t parameters; /* of the model */
    const char *const *devices;
    int device_count; /* 0 = nothing was run */
    time_t finished;
    const struct report_pictures *pictures;
};

/* The whole page. ST_NOMEM; the file's owner looks for errors of writing. */
enum status report_write(const struct report *report, FILE *file) MUST_CHECK;

/*
 * "vitrine evaluate ...", arguments quoted for a shell where they must be ($'...' with \xNN where
 * bytes cannot be shown), in fresh memory; NULL without. argv[0] is the command's name.
 */
char *report_command(int argc, char *const *argv);

#endif
