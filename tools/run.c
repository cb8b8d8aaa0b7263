/* run: see run.h. */
#include "tools/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kernels/threads.h"
#include "tools/output.h"

#define BATCH_CPU       8
#define BATCH_GPU       64
#define AS_TEXT(number) #number
#define TEXT(number)    AS_TEXT(number)
#define BATCH_TEXT      TEXT(BATCH_CPU) " on cpu, " TEXT(BATCH_GPU) " on cuda"

enum { LARGEST_BATCH = 65536, MOST_THREADS = 4096 };

struct run_options run_defaults(void) {
    struct image_options image = image_defaults();
    return (struct run_options){.model = "vit-cifar10",
                                .device = "auto",
                                .precision = -1,
                                .crop_mode = -1,
                                .interpolation = -1,
                                .exif = image.apply_exif ? RUN_EXIF_APPLY : RUN_EXIF_IGNORE,
                                .alpha = {.composite = image.composite},
                                .max_pixels = image.max_pixels,
                                .topk = 5};
}

/* ---- the rows; choices in the order of their enums ---------------------------------------- */

static const char *const precisions[] = {"fp32", "bf16", "fp16", "int8", NULL};
static const char *const crop_modes[] = {"center", "squash", "border", NULL};
static const char *const filters[] = {"nearest", "box",     "bilinear", "hamming",
                                      "bicubic", "lanczos", NULL};
static const char *const exifs[] = {"ignore", "apply", NULL};
static const char *const on_errors[] = {"continue", "stop", NULL};
static const char *const output_types[] = {"prob", "logit", NULL};
static const char *const formats[] = {"text", "tsv", "csv", "json", "jsonl", NULL};

static enum status parse_device(const char *value, void *field) {
    struct devices devices;
    TRY(devices_parse(value, &devices));
    *(const char **)field = value;
    return ST_OK;
}

static void show_device(const void *field, char *text, size_t size) {
    snprintf(text, size, "%s", *(const char *const *)field);
}

static int hex(char c) {
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static enum status parse_alpha(const char *value, void *field) {
    struct run_alpha alpha = {.composite = value[0] == '#'};
    if (!alpha.composite && strcmp(value, "drop") != 0) return fail(ST_USAGE, "drop or #RRGGBB");
    for (int i = 0; alpha.composite && i < 3; i++) {
        int high = strlen(value) == 7 ? hex(value[1 + 2 * i]) : -1;
        int low = high >= 0 ? hex(value[2 + 2 * i]) : -1;
        if (low < 0) return fail(ST_USAGE, "drop or #RRGGBB, six hexadecimal digits");
        alpha.background[i] = (uint8_t)(16 * high + low);
    }
    *(struct run_alpha *)field = alpha;
    return ST_OK;
}

static void show_alpha(const void *field, char *text, size_t size) {
    const struct run_alpha *alpha = field;
    if (alpha->composite)
        snprintf(text, size, "#%02x%02x%02x", alpha->background[0], alpha->background[1],
                 alpha->background[2]);
    else
        snprintf(text, size, "drop");
}

#define FIELD(member) .offset = offsetof(struct run_options, member)

enum { WHERE_ROWS = 3 }; /* the first ones */

static const struct cli_option model_rows[] = {
    {'m', "model", "MODEL", CLI_STRING, FIELD(model),
     .help = "a .h5 file, or the name of an embedded or pulled model\n"
             "(looked for in $VITRINE_MODELS, then the data folder)"},
    {'d', "device", "DEVICE", CLI_CUSTOM, FIELD(device),
     .help = "auto, cpu, cuda, cuda:N; cuda:0,1 runs on both", .parse = parse_device,
     .show = show_device},
    {'p', "precision", "P", CLI_CHOICE, FIELD(precision), .choices = precisions,
     .help = "fp32, bf16, fp16, int8; what the device lacks is refused\n"
             "by name",
     .unset = "fp32 on cpu, fp16 on cuda"},
    {'t', "threads", "N", CLI_INT, FIELD(threads), .lo = 1, .hi = MOST_THREADS,
     .help = "threads that decode and compute", .unset = "the cores this process may use"},
    {'b', "batch", "N", CLI_INT, FIELD(batch), .lo = 1, .hi = LARGEST_BATCH,
     .help = "images per forward pass", .unset = BATCH_TEXT},
};

static const struct cli_option image_rows[] = {
    {0, "image-size", "N|HxW", CLI_SIZE, FIELD(image_size), .lo = 1, .hi = RUN_LARGEST_SIDE,
     .help = "run at another size; positions, or the bias tables of\nwindows that no longer fit, "
             "are resampled",
     .unset = "the model's"},
    {0, "crop-pct", "F", CLI_DOUBLE, FIELD(crop_pct), .lo = 0.01, .hi = 10,
     .help = "share of the resized picture's side that the crop keeps", .unset = "the model's"},
    {0, "crop-mode", "center|squash|border", CLI_CHOICE, FIELD(crop_mode), .choices = crop_modes,
     .help = "cut the middle, give up the aspect ratio, or pad", .unset = "the model's"},
    {0, "interpolation", "FILTER", CLI_CHOICE, FIELD(interpolation), .choices = filters,
     .help = "bicubic, bilinear, nearest, lanczos, box, hamming", .unset = "the model's"},
    {0, "mean", "R,G,B", CLI_RGB, FIELD(mean), .lo = -10, .hi = 10,
     .help = "subtracted from pixels of 0..1", .unset = "the model's"},
    {0, "std", "R,G,B", CLI_RGB, FIELD(std), .lo = 1e-4, .hi = 10, .help = "then divided by",
     .unset = "the model's"},
    {0, "exif", "apply|ignore", CLI_CHOICE, FIELD(exif), .choices = exifs,
     .help = "turn the picture upright by its EXIF orientation, or not"},
    {0, "alpha", "drop|#RRGGBB", CLI_CUSTOM, FIELD(alpha), .parse = parse_alpha, .show = show_alpha,
     .help = "drop the alpha channel, or put the picture over a colour"},
    {0, "max-pixels", "N", CLI_COUNT, FIELD(max_pixels), .lo = 1, .hi = 1e15,
     .help = "refuse pictures of more pixels than that"},
    {0, "on-error", "continue|stop", CLI_CHOICE, FIELD(on_error), .choices = on_errors,
     .help = "go on after an image that failed, or stop there"},
};

static const struct cli_option row_rows[] = {
    {'k', "topk", "N", CLI_INT, FIELD(topk), .lo = 0, .hi = 1e9,
     .help = "predictions per image; 0 = every class"},
    {'f', "format", "F", CLI_CHOICE, FIELD(format), .choices = formats,
     .help = "text, tsv, csv, json (one array), jsonl (a line an image)"},
    {'o', "output", "FILE", CLI_STRING, FIELD(output),
     .help = "written beside and renamed when whole", .unset = "stdout"},
    {0, "output-type", "prob|logit", CLI_CHOICE, FIELD(output_type), .choices = output_types,
     .help = "probabilities, or the numbers before the softmax"},
};

static const struct cli_option talk_rows[] = {
    {'q', "quiet", NULL, CLI_FLAG, FIELD(quiet), .help = "say nothing on stderr but errors"},
    {'v', "verbose", NULL, CLI_FLAG, FIELD(verbose), .help = "say more: how images are prepared"},
    {0, "no-progress", NULL, CLI_FLAG, FIELD(no_progress),
     .help = "draw no progress line on a terminal"},
};

struct cli_group run_model_group(struct run_options *run) {
    return (struct cli_group){"Model and device", model_rows, COUNT_OF(model_rows), run};
}

struct cli_group run_where_group(struct run_options *run) {
    return (struct cli_group){"Model and device", model_rows, WHERE_ROWS, run};
}

struct cli_group run_image_group(struct run_options *run) {
    return (struct cli_group){"Images", image_rows, COUNT_OF(image_rows), run};
}

struct cli_group run_row_group(struct run_options *run) {
    return (struct cli_group){"Results", row_rows, COUNT_OF(row_rows), run};
}

struct cli_group run_talk_group(struct run_options *run) {
    return (struct cli_group){"Messages", talk_rows, COUNT_OF(talk_rows), run};
}

/* ---- what becomes of them ----------------------------------------------------------------- */

int run_threads(const struct run_options *run) {
    return run->threads ? run->threads : threads_available();
}

/* Images of a pass on each device; never more than it will get. */
static int pass_batch(const struct run_options *run, const struct devices *devices, size_t inputs) {
    int batch = run->batch ? run->batch : devices_gpu(devices) ? BATCH_GPU : BATCH_CPU;
    size_t most = (inputs + (size_t)devices->count - 1) / (size_t)devices->count;
    return most < (size_t)batch ? (int)(most ? most : 1) : batch;
}

struct backend_options run_backend_options(const struct run_options *run) {
    return (struct backend_options){.device = run->device,
                                    .precision =
                                        run->precision >= 0 ? precisions[run->precision] : NULL,
                                    .threads = run_threads(run)};
}

struct image_options run_image_options(const struct run_options *run) {
    struct image_options image = image_defaults();
    image.apply_exif = run->exif == RUN_EXIF_APPLY;
    image.composite = run->alpha.composite;
    memcpy(image.background, run->alpha.background, sizeof image.background);
    image.max_pixels = run->max_pixels;
    return image;
}

/* Points into *run. */
static struct model_options model_options(const struct run_options *run,
                                          const struct devices *devices, size_t inputs) {
    static const enum crop_mode modes[] = {CROP_CENTER, CROP_SQUASH, CROP_BORDER};
    static const enum filter kinds[] = {FILTER_NEAREST, FILTER_BOX,     FILTER_BILINEAR,
                                        FILTER_HAMMING, FILTER_BICUBIC, FILTER_LANCZOS};
    return (struct model_options){.max_batch = pass_batch(run, devices, inputs),
                                  .quiet = run->quiet,
                                  .backward = run->backward,
                                  .image_h = run->image_size.height,
                                  .image_w = run->image_size.width,
                                  .crop_pct = run->crop_pct > 0 ? run->crop_pct : -1,
                                  .crop_mode = run->crop_mode >= 0 ? &modes[run->crop_mode] : NULL,
                                  .interpolation =
                                      run->interpolation >= 0 ? &kinds[run->interpolation] : NULL,
                                  .mean = run->mean.set ? run->mean.value : NULL,
                                  .std = run->std.set ? run->std.value : NULL};
}

enum status run_devices_open(const struct run_options *run, struct devices *out) {
    struct backend_options options = run_backend_options(run);
    TRY(devices_open(&options, out));
    for (int i = 0; i < out->count && !run->quiet; i++)
        cli_say("%s", backend_describe(out->backend[i]));
    return ST_OK;
}

enum status run_model_open(const struct run_options *run, const struct devices *devices,
                           size_t inputs, struct model *out) {
    struct model_options options = model_options(run, devices, inputs);
    const struct preprocess *rule = &out->preprocess;
    TRY(model_open(run->model, &options, devices, out));
    if (out->resampled[0] && !run->quiet)
        cli_say("%s for images of %dx%d: %.3g G multiply-adds an image", out->resampled,
                rule->height, rule->width, 1e-9 * out->macs);
    if (run->verbose)
        cli_say("%s: images to %dx%d, %s, crop %s %g, mean %g,%g,%g, std %g,%g,%g; batch %d",
                run->model, rule->height, rule->width, filter_name(rule->interpolation),
                crop_mode_name(rule->crop_mode), rule->crop_pct, rule->mean[0], rule->mean[1],
                rule->mean[2], rule->std[0], rule->std[1], rule->std[2], out->batch);
    return ST_OK;
}

bool run_progress(const struct run_options *run) {
    bool elsewhere = (run->output && strcmp(run->output, "-") != 0) || !isatty(STDOUT_FILENO);
    return elsewhere && !run->quiet && !run->verbose && !run->no_progress && isatty(STDERR_FILENO);
}

void run_summary(const struct run_options *run, const struct pipeline_totals *totals) {
    double rate = totals->seconds > 0 ? (double)totals->images / totals->seconds : 0;
    char failed[64] = "", speed[64] = "";
    if (run->quiet) return;
    if (totals->failed) snprintf(failed, sizeof failed, ", %zu failed", totals->failed);
    if (totals->images > totals->failed)
        snprintf(speed, sizeof speed, ", %.2f s, %.1f images/s", totals->seconds, rate);
    cli_say("%zu image%s%s%s", totals->images, totals->images == 1 ? "" : "s", failed, speed);
    if (totals->turned && run->exif == RUN_EXIF_IGNORE)
        cli_say("%zu with an EXIF orientation that was ignored", totals->turned);
    if (run->verbose)
        cli_say("seconds: read %.2f, decode %.2f, resize %.2f (all threads), model %.2f, idle %.2f",
                totals->read, totals->decode, totals->resize, totals->model, totals->idle);
}

bool run_stops(const struct run_options *run, const struct pipeline_batch *batch, int i,
               bool failed) {
    const bool stops = failed && run->on_error == RUN_ON_ERROR_STOP;
    if (stops) *batch->ends = i + 1;
    return stops;
}

bool run_next_input(void *inputs, struct pipeline_item *item) {
    struct inputs *in = inputs;
    const char *error;
    if (in->next == in->count) return false;
    item->path = inputs_path(in, in->next++, &error);
    if (item->path && error && !(item->error = str_copy(error))) {
        mem_free(item->path); /* without memory the pipeline makes it a failed item */
        item->path = NULL;
    }
    return true;
}

enum status run_check_output(const struct run_options *run, const char *output,
                             const struct inputs *inputs) {
    enum status st = ST_OK;
    if (!output || access(output, F_OK) != 0) return ST_OK;
    TRY(output_check_spares(output, run->model));
    for (size_t i = 0; st == ST_OK && i < inputs->count; i++) {
        const char *error;
        char *path = inputs_path(inputs, i, &error);
        if (!path) return ST_NOMEM;
        if (!error) st = output_check_spares(output, path);
        mem_free(path);
    }
    return st;
}

enum status run_spare_inputs(const struct run_options *run, const struct inputs *inputs) {
    TRY(output_spare(run->model));
    for (size_t i = 0; i < inputs->count; i++) {
        const char *error;
        char *path = inputs_path(inputs, i, &error);
        const enum status st = path ? output_spare(path) : ST_NOMEM;
        mem_free(path);
        TRY(st);
    }
    return ST_OK;
}
