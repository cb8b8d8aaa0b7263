/*
 * vitrine classify: images in, class predictions out. Where a reader of this program begins:
 *
 *   parse -> inputs -> devices_open -> model_open -> pipeline (decode, preprocess) ->
 *   model_forward (logits) -> softmax -> top_k -> rows, and with --overlay -> overlays
 */
#include "datasets/inputs.h"
#include "tools/cli.h"
#include "tools/model.h"
#include "tools/output.h"
#include "tools/overlays.h"
#include "tools/pipeline.h"
#include "tools/rows.h"
#include "tools/run.h"

/* K classes, k of them are told. */
struct classify {
    struct run_options run;
    const char *folder; /* --overlay; NULL = none */
    struct inputs inputs;
    struct devices devices;
    struct model model;
    struct output output;
    struct rows rows;
    struct overlays overlays;
    struct pipeline_totals totals;
    int batch, topk;
    float *logits;                      /* (batch, K) */
    int *best;                          /* (k) */
    struct row_prediction *predictions; /* (k) */
};

static const char about[] =
    "Class predictions for images. A PATH is a file, a folder (its images, and those of the\n"
    "folders in it), - (one image on standard input) or @LIST (a file of paths, one a line; @-\n"
    "reads them from standard input). Rows come in the order of the inputs; an image that fails\n"
    "has a row with the reason, and the exit status is then 1.";

static const struct cli_option options[] = {
    {0, "overlay", "DIR", CLI_STRING, .offset = offsetof(struct classify, folder),
     .help = "also writes DIR/NAME.rollout.overlay.png: where the model looked, by\n"
             "attention rollout, as 'vitrine attention' makes it; the same pass",
     .unset = "no pictures"},
};

static int parse(int argc, char **argv, struct classify *c, struct cli_args *args) {
    struct run_options *run = &c->run;
    const struct cli_group groups[] = {{"Options of classify", options, COUNT_OF(options), c},
                                       run_model_group(run),
                                       run_image_group(run),
                                       run_row_group(run),
                                       run_talk_group(run)};
    const struct cli cli = {.command = "classify",
                            .synopsis = "[OPTION]... PATH...",
                            .about = about,
                            .examples =
                                "  vitrine classify cat.jpg\n"
                                "  vitrine classify -m vit_base.h5 -f csv -o labels.csv photos/\n"
                                "  vitrine classify --overlay looked photos/\n"
                                "  find . -name '*.jpg' | vitrine classify -k 1 -f tsv @-",
                            .groups = groups,
                            .group_count = COUNT_OF(groups),
                            .min_args = 1,
                            .max_args = -1,
                            .args_wanted = "an image, a folder, - or @LIST"};
    return cli_parse(&cli, argc, argv, args);
}

static enum status open_model(struct classify *c) {
    TRY(run_devices_open(&c->run, &c->devices));
    TRY(run_model_open(&c->run, &c->devices, c->inputs.count, &c->model));
    if (c->model.classes == 0)
        return fail(ST_SHAPE, "%s: has no classification head; 'vitrine features' runs it",
                    c->run.model);
    if (c->folder) TRY(overlays_open(&c->overlays, c->folder, &c->run, &c->inputs, &c->model));
    c->batch = c->model.batch;
    c->topk = c->run.topk && c->run.topk < c->model.classes ? c->run.topk : c->model.classes;
    c->logits = mem_zalloc((size_t)c->batch * (size_t)c->model.classes, sizeof *c->logits);
    c->best = mem_zalloc((size_t)c->topk, sizeof *c->best);
    c->predictions = mem_zalloc((size_t)c->topk, sizeof *c->predictions);
    return c->logits && c->best && c->predictions ? ST_OK : ST_NOMEM;
}

/* logits (K) of one image -> the k best in c->predictions. */
static void predict(struct classify *c, float *logits) {
    if (c->run.output_type == RUN_PROB) softmax(logits, c->model.classes);
    top_k(logits, c->model.classes, c->topk, c->best);
    rows_predict(&c->model.labels, logits, c->best, c->topk, c->predictions);
}

/* A good image's overlay; one that cannot be made is the image's fault, a full disk the run's. */
static enum status overlay(struct classify *c, const struct pipeline_item *item, int good) {
    const enum status st = c->folder ? overlays_save(&c->overlays, item, good) : ST_OK;
    if (st != ST_FORMAT) return st;
    cli_say("%s: %s", item->path, fail_message());
    c->totals.failed++;
    return ST_OK;
}

/* A batch from the pipeline: one forward pass over its good images, a row for each of its items. */
static enum status on_batch(void *context, const struct pipeline_batch *batch) {
    struct classify *c = context;
    const struct model_taps taps = {.layer = -1, .capture = &c->overlays.maps.capture};
    const struct model_taps *wanted = c->folder ? &taps : NULL;
    float *logits = c->logits;
    int good = 0;
    model_stage(&c->model, batch->ahead, batch->ahead_count);
    if (batch->good) TRY(model_forward(&c->model, batch->pixels, batch->good, logits, wanted));
    for (int i = 0; i < batch->count; i++) {
        const struct pipeline_item *item = &batch->items[i];
        struct row row = {
            .path = item->path, .error = item->error, .width = item->width, .height = item->height};
        if (!item->error) {
            if (!all_finite(logits, (size_t)c->model.classes)) {
                row.error = NOT_FINITE;
                c->totals.failed++;
            } else {
                predict(c, logits);
                row.predictions = c->predictions;
                row.count = c->topk;
                TRY(overlay(c, item, good));
            }
            logits += c->model.classes;
            good++;
        }
        if (row.error && c->run.verbose) cli_say("%s: %s", item->path, row.error);
        rows_write(&c->rows, &row);
        if (run_stops(&c->run, batch, i, row.error || c->totals.failed > 0)) break;
    }
    TRY(overlays_write(&c->overlays));
    return output_flush(&c->output);
}

static enum status run_all(struct classify *c) {
    struct pipeline pipeline = {.next = run_next_input,
                                .source = &c->inputs,
                                .on_batch = on_batch,
                                .context = c,
                                .total = c->inputs.count,
                                .batch = c->batch,
                                .threads = run_threads(&c->run),
                                .image = run_image_options(&c->run),
                                .preprocess = &c->model.preprocess,
                                .keep_images = c->folder != NULL,
                                .look_ahead = devices_gpu(&c->devices),
                                .stop_on_error = c->run.on_error == RUN_ON_ERROR_STOP,
                                .progress = run_progress(&c->run)};
    enum status st;
    rows_begin(&c->rows, c->output.file, (enum row_format)c->run.format, false);
    st = pipeline_run(&pipeline, &c->totals);
    rows_end(&c->rows);
    return st;
}

int cmd_classify(int argc, char **argv) {
    struct classify c = {.run = run_defaults()};
    struct cli_args args;
    enum status st;
    int code = parse(argc, argv, &c, &args);
    if (code != CLI_GO) return code;
    st = inputs_open(&c.inputs, args.items, args.count);
    if (st == ST_OK) st = run_check_output(&c.run, c.run.output, &c.inputs);
    if (st == ST_OK) st = output_open(&c.output, c.run.output);
    if (st == ST_OK) st = open_model(&c);
    if (st == ST_OK) st = run_all(&c);
    st = output_close(&c.output, st);
    if (st == ST_OK) run_summary(&c.run, &c.totals);
    code = st != ST_OK ? cli_fail("classify", st) : c.totals.failed > 0;
    mem_free(c.predictions);
    mem_free(c.best);
    mem_free(c.logits);
    overlays_release(&c.overlays);
    model_release(&c.model);
    devices_close(&c.devices);
    inputs_release(&c.inputs);
    return code;
}
