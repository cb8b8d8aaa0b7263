/*
 * run: what every command that runs a model shares: the shared options as groups of
 * rows for tools/cli.h, and what becomes of them (device, model, decoding).
 */
#ifndef TOOLS_RUN_H
#define TOOLS_RUN_H

#include "datasets/image.h"
#include "datasets/inputs.h"
#include "kernels/ops.h"
#include "tools/cli.h"
#include "tools/devices.h"
#include "tools/model.h"
#include "tools/pipeline.h"

enum { RUN_LARGEST_SIDE = 8192 }; /* of --image-size, in pixels */

enum run_exif { RUN_EXIF_IGNORE, RUN_EXIF_APPLY };
enum run_on_error { RUN_ON_ERROR_CONTINUE, RUN_ON_ERROR_STOP };
enum run_output_type { RUN_PROB, RUN_LOGIT };

struct run_alpha {
    bool composite;        /* false: the alpha channel is dropped */
    uint8_t background[3]; /* RGB */
};

struct run_options {
    /* run_model_group */
    const char *model;
    const char *device;
    int precision; /* -1 = the device's; see run_backend_options */
    int threads;   /* 0 = run_threads() decides */
    int batch;     /* 0 = run_batch() decides */
    /* run_image_group */
    struct cli_size image_size;
    double crop_pct;   /* 0 = the model's */
    int crop_mode;     /* enum crop_mode, -1 = the model's */
    int interpolation; /* enum filter, -1 = the model's */
    struct cli_rgb mean, std;
    int exif; /* enum run_exif */
    struct run_alpha alpha;
    size_t max_pixels;
    int on_error; /* enum run_on_error */
    /* run_row_group */
    int topk;
    int format;         /* enum row_format (tools/rows.h) */
    const char *output; /* NULL = stdout */
    int output_type;    /* enum run_output_type */
    /* run_talk_group */
    bool quiet, verbose, no_progress;
    /* Not a user's: model_options' */
    bool backward;
};

struct run_options run_defaults(void);

struct cli_group run_model_group(struct run_options *run); /* -m -d -p -t -b */
struct cli_group run_where_group(struct run_options *run); /* -m -d -p alone */
struct cli_group run_image_group(struct run_options *run); /* --image-size ... --on-error */
struct cli_group run_row_group(struct run_options *run);   /* -k -f -o --output-type */
struct cli_group run_talk_group(struct run_options *run);  /* -q -v --no-progress */

int run_threads(const struct run_options *run); /* that decode and compute */

struct backend_options run_backend_options(const struct run_options *run);
struct image_options run_image_options(const struct run_options *run);

/* devices_open by the options, and a line of each on stderr unless -q. */
enum status run_devices_open(const struct run_options *run, struct devices *out) MUST_CHECK;

/*
 * model_open by the options, for passes of no more than `inputs` images; says what was resampled
 * for the image size, with -v also how images are prepared.
 */
enum status run_model_open(const struct run_options *run, const struct devices *devices,
                           size_t inputs, struct model *out) MUST_CHECK;

/* Whether to draw progress: stderr is a terminal, the results go elsewhere, and nobody said no. */
bool run_progress(const struct run_options *run);

/* Behind item i of a batch, for on_batch: whether it `failed` and --on-error ends the run then. */
bool run_stops(const struct run_options *run, const struct pipeline_batch *batch, int i,
               bool failed);

/* The source of a pipeline over paths; `inputs` is a struct inputs. */
bool run_next_input(void *inputs, struct pipeline_item *item);

/* ST_USAGE when `output` (NULL = stdout) is the model's file or one of the inputs. */
enum status run_check_output(const struct run_options *run, const char *output,
                             const struct inputs *inputs) MUST_CHECK;

/* output_spare of them all: for a run whose outputs get their names as it goes. */
enum status run_spare_inputs(const struct run_options *run, const struct inputs *inputs) MUST_CHECK;

/*
 * "12 images, 1 failed, 0.35 s, 34.5 images/s" on stderr unless -q, without a rate when none was
 * good; with -v where the time went.
 */
void run_summary(const struct run_options *run, const struct pipeline_totals *totals);

#endif
