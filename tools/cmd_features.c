/*
 * vitrine features: images in, embeddings out: what the head reads, the class token, the average of
 * the patches, the patch tokens or all tokens, after any layer. A Swin has patches only, those of
 * the layer's stage.
 *
 *   parse -> inputs -> devices_open -> model_open -> pipeline -> model_forward with taps -> arrays
 */
#include <string.h>

#include "datasets/inputs.h"
#include "tools/arrays.h"
#include "tools/cli.h"
#include "tools/model.h"
#include "tools/pipeline.h"
#include "tools/run.h"

enum tokens { TOKENS_POOLED, TOKENS_CLASS, TOKENS_AVERAGE, TOKENS_PATCHES, TOKENS_ALL };

/* A layer's T tokens, P of them in front of the patches, of C channels. */
struct features {
    struct run_options run;
    int kind;  /* enum tokens, -1 = pooled where the model pools, else class or average */
    int layer; /* -1 = after the last block and the final norm */
    const char *output;
    struct inputs inputs;
    struct devices devices;
    struct model model;
    struct model_layer shape; /* T, P, C behind `layer` */
    struct arrays arrays;
    struct pipeline_totals totals;
    int batch;
    float *tokens;  /* (batch, T, C), or for pooled (batch, C) */
    float *average; /* (C) */
};

static const char about[] =
    "Embeddings of images as an array, one row an image in the order of the inputs. The suffix\n"
    "of --output decides: .npy (rows and shape; beside it FILE.npy.tsv names each row), .h5\n"
    "(data, path, status, message), .csv or .tsv. A failed image is a row of NaN with its reason,\n"
    "and the exit status is then 1.";

static int parse(int argc, char **argv, struct features *f, struct cli_args *args) {
    static const char *const kinds[] = {"pooled", "class", "average", "patches", "all", NULL};
    const struct cli_option rows[] = {
        {.name = "tokens",
         .argument = "WHAT",
         .kind = CLI_CHOICE,
         .choices = kinds,
         .offset = offsetof(struct features, kind),
         .unset = "pooled, if the model pools",
         .help = "pooled (what the head reads), class, average (of the patches),\n"
                 "patches (N x C), all (prefix tokens, then patches)"},
        {.name = "layer",
         .argument = "N",
         .kind = CLI_INT,
         .lo = -1,
         .hi = 1000,
         .offset = offsetof(struct features, layer),
         .help = "after block N, counting from 0 (a Swin's over all stages); -1: after\n"
                 "the last and the final norm"},
        {.letter = 'o',
         .name = "output",
         .argument = "FILE",
         .kind = CLI_STRING,
         .unset = "stdout, CSV",
         .offset = offsetof(struct features, output),
         .help = "FILE.npy, .h5, .csv or .tsv"},
    };
    const struct cli_group groups[] = {{"Options of features", rows, COUNT_OF(rows), f},
                                       run_model_group(&f->run),
                                       run_image_group(&f->run),
                                       run_talk_group(&f->run)};
    const struct cli cli = {
        .command = "features",
        .synopsis = "[OPTION]... PATH...",
        .about = about,
        .examples =
            "  vitrine features -m dinov2.h5 -o photos.npy photos/\n"
            "  vitrine features -m dinov2.h5 --tokens patches --layer 11 -o grid.h5 cat.jpg",
        .groups = groups,
        .group_count = COUNT_OF(groups),
        .min_args = 1,
        .max_args = -1,
        .args_wanted = "an image, a folder, - or @LIST"};
    return cli_parse(&cli, argc, argv, args);
}

/* What was asked for must exist in this model. */
static enum status choose(struct features *f) {
    const struct model *model = &f->model;
    if (f->kind < 0) {
        if (f->layer == -1 && model->pooled)
            f->kind = TOKENS_POOLED;
        else
            f->kind = model->class_token ? TOKENS_CLASS : TOKENS_AVERAGE;
    }
    if (f->layer >= model->depth)
        return fail(ST_USAGE, "option --layer %d: %s has layers 0 to %d", f->layer, f->run.model,
                    model->depth - 1);
    if (f->kind == TOKENS_CLASS && !model->class_token)
        return fail(ST_USAGE, "option --tokens class: %s has no class token", f->run.model);
    if (f->kind == TOKENS_POOLED && (!model->pooled || f->layer != -1))
        return fail(ST_USAGE,
                    "option --tokens pooled: only after the last layer, of a model that pools");
    f->shape = model_layer_shape(model, f->layer);
    return ST_OK;
}

static enum status open_arrays(struct features *f, enum array_format format) {
    const struct model_layer *shape = &f->shape;
    const int rows = f->kind == TOKENS_ALL ? shape->tokens : shape->tokens - shape->prefix;
    const size_t dims[2] = {(size_t)rows, (size_t)shape->dim};
    bool grid = f->kind == TOKENS_ALL || f->kind == TOKENS_PATCHES;
    return arrays_open(&f->arrays, f->output, format, grid ? 2 : 1, grid ? dims : dims + 1,
                       f->inputs.count);
}

static enum status open_model(struct features *f, enum array_format format) {
    size_t T, C;
    TRY(run_devices_open(&f->run, &f->devices));
    TRY(run_model_open(&f->run, &f->devices, f->inputs.count, &f->model));
    TRY(choose(f));
    f->batch = f->model.batch;
    T = f->kind == TOKENS_POOLED ? 1 : (size_t)f->shape.tokens;
    C = (size_t)f->shape.dim;
    f->tokens = mem_zalloc((size_t)f->batch * T, C * sizeof *f->tokens);
    f->average = mem_zalloc(C, sizeof *f->average);
    if (!f->tokens || !f->average) return ST_NOMEM;
    return open_arrays(f, format);
}

/* tokens (N, C) -> f->average (C). */
static const float *average(struct features *f, const float *tokens) {
    const int C = f->shape.dim, N = f->shape.tokens - f->shape.prefix;
    for (int c = 0; c < C; c++) {
        double sum = 0;
        for (int t = 0; t < N; t++)
            sum += (double)tokens[(size_t)t * (size_t)C + (size_t)c];
        f->average[c] = (float)(sum / N);
    }
    return f->average;
}

/* The row of the batch's image i. */
static const float *select_row(struct features *f, int i) {
    const size_t T = (size_t)f->shape.tokens, C = (size_t)f->shape.dim;
    const float *tokens = f->tokens + (size_t)i * T * C;         // (T, C)
    const float *patches = tokens + (size_t)f->shape.prefix * C; // (N, C)
    switch ((enum tokens)f->kind) {
    case TOKENS_POOLED: return f->tokens + (size_t)i * C;
    case TOKENS_PATCHES: return patches;
    case TOKENS_AVERAGE: return average(f, patches);
    case TOKENS_CLASS:
    case TOKENS_ALL: break;
    }
    return tokens;
}

static enum status on_batch(void *context, const struct pipeline_batch *batch) {
    struct features *f = context;
    struct model_taps taps = {.layer = f->layer};
    int good = 0;
    if (f->kind == TOKENS_POOLED)
        taps.pooled = f->tokens;
    else
        taps.tokens = f->tokens;
    model_stage(&f->model, batch->ahead, batch->ahead_count);
    if (batch->good) TRY(model_forward(&f->model, batch->pixels, batch->good, NULL, &taps));
    for (int i = 0; i < batch->count; i++) {
        const struct pipeline_item *item = &batch->items[i];
        const float *row = item->error ? NULL : select_row(f, good++);
        const char *error = item->error;
        if (row && !all_finite(row, f->arrays.elements)) {
            error = NOT_FINITE;
            row = NULL;
            f->totals.failed++;
        }
        if (error) cli_say("%s: %s", item->path, error);
        TRY(arrays_row(&f->arrays, item->path, row, error));
        if (run_stops(&f->run, batch, i, error)) break;
    }
    return ST_OK;
}

static enum status run_all(struct features *f) {
    struct pipeline pipeline = {.next = run_next_input,
                                .source = &f->inputs,
                                .on_batch = on_batch,
                                .context = f,
                                .total = f->inputs.count,
                                .batch = f->batch,
                                .threads = run_threads(&f->run),
                                .image = run_image_options(&f->run),
                                .preprocess = &f->model.preprocess,
                                .look_ahead = devices_gpu(&f->devices),
                                .stop_on_error = f->run.on_error == RUN_ON_ERROR_STOP,
                                .progress = run_progress(&f->run)};
    return pipeline_run(&pipeline, &f->totals);
}

int cmd_features(int argc, char **argv) {
    struct features f = {.run = run_defaults(), .kind = -1, .layer = -1};
    struct cli_args args;
    enum array_format format;
    enum status st;
    int code = parse(argc, argv, &f, &args);
    if (code != CLI_GO) return code;
    st = arrays_format(f.output, &format)
             ? ST_OK
             : fail(ST_USAGE, "option --output: '%s' ends in none of .npy, .h5, .csv, .tsv",
                    f.output);
    if (st == ST_OK) st = inputs_open(&f.inputs, args.items, args.count);
    if (st == ST_OK) st = run_check_output(&f.run, f.output, &f.inputs);
    if (st == ST_OK && format == ARRAY_H5) st = output_check_regular(f.output);
    if (st == ST_OK) st = open_model(&f, format);
    if (st == ST_OK) st = run_all(&f);
    st = arrays_close(&f.arrays, st);
    if (st == ST_OK) run_summary(&f.run, &f.totals);
    code = st != ST_OK ? cli_fail("features", st) : f.totals.failed > 0;
    mem_free(f.tokens);
    mem_free(f.average);
    model_release(&f.model);
    devices_close(&f.devices);
    inputs_release(&f.inputs);
    return code;
}
