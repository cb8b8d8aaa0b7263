/*
 * vitrine attention: images in, where the model looks out: rollouts and raw attention maps, as
 * pictures and arrays.
 *
 *   parse -> inputs, names -> devices_open -> model_open -> attention_open -> pipeline ->
 *   model_forward with a capture -> attention_compute -> attention_save
 */
#include <stdio.h>

#include "datasets/inputs.h"
#include "tools/attention.h"
#include "tools/attention_files.h"
#include "tools/attention_page.h"
#include "tools/attention_stats.h"
#include "tools/cli.h"
#include "tools/faithfulness.h"
#include "tools/heat_map.h"
#include "tools/model.h"
#include "tools/output.h"
#include "tools/output_names.h"
#include "tools/picture_queue.h"
#include "tools/pipeline.h"
#include "tools/run.h"

struct command {
    struct run_options run;
    struct attention_options attention;
    unsigned kinds; /* attention_kinds; 0 = the method's default */
    struct attention_look look;
    const char *folder;
    struct output output; /* stdout: frames and areas */
    char text[800];       /* attention_options_text */
    struct inputs inputs;
    struct output_names names;
    struct devices devices;
    struct model model;
    struct devices cpu;    /* gradients beside a GPU: */
    struct model backward; /* the model once more */
    float *logits;         /* (batch, K) of a pass; NULL: nobody asks */
    struct attention_maps maps;
    struct picture_queue pictures;
    struct attention_page page;   /* --save html */
    struct attention_stats stats; /* --save stats */
    struct faithfulness faithfulness;
    bool measures; /* --faithfulness */
    size_t seed;
    struct pipeline_totals totals;
    int batch;
    char **errors; /* (batch): of the good ones, why no map can be made; NULL = it can */
};

static const char about[] =
    "Where the model looks. rollout follows the attention of all layers back from what the head\n"
    "reads to the patches of the picture: (h, w), summing to 1, of a Swin over its finest map,\n"
    "exact through shifted windows and mergings. raw is what the softmax gave: (layers, heads, h,\n"
    "w) for the query, of a Swin an array a stage; with --query all (heads, tokens, tokens) a\n"
    "layer. gradient is for a class: the rollout of each attention times the gradient of the\n"
    "class's logit where that is positive (Chefer et al. 2021), on the CPU. Layers and heads\n"
    "count from 0. For each input NAME.ext the folder gets NAME.<method>.<suffix>; inputs of\n"
    "the same name keep their folder's name in front.";

static enum status parse_colormap(const char *value, void *field) {
    return colormap_find(value, field)
               ? ST_OK
               : fail(ST_USAGE, "viridis, magma, inferno, plasma, cividis, gray or turbo");
}

static void show_colormap(const void *field, char *text, size_t size) {
    snprintf(text, size, "%s", colormap_name(*(const enum colormap *)field));
}

static enum status parse_filter(const char *value, void *field) {
    return heat_filter_find(value, field) ? ST_OK : fail(ST_USAGE, "bicubic or nearest");
}

static void show_filter(const void *field, char *text, size_t size) {
    snprintf(text, size, "%s", heat_filter_name(*(const enum heat_filter *)field));
}

#define FIELD(member) .offset = offsetof(struct command, member)

static const struct cli_option rows[] = {
    {0, "method", "rollout|raw|gradient", CLI_CHOICE, FIELD(attention.method),
     .choices = attention_methods,
     .help = "all layers together, what each gave, or what spoke for a class"},
    {0, "class", "ID,...", CLI_STRING, FIELD(attention.classes), .unset = "top, of html top2",
     .help = "of gradient and html: numbers, ids or names of classes; topN: the\n"
             "N most likely of each image"},
    {0, "layers", "LIST", CLI_CUSTOM, FIELD(attention.layers), .parse = attention_parse_layers,
     .show = attention_show_layers,
     .help = "of raw and html: 0,3,8-11; a Swin's count over all stages"},
    {0, "heads", "LIST|mean|max|min", CLI_CUSTOM, FIELD(attention.heads),
     .parse = attention_parse_heads, .show = attention_show_heads,
     .help = "those of the list (of rollout and gradient their mean), or all in one"},
    {0, "query", "head|cls|mean|X,Y|all", CLI_CUSTOM, FIELD(attention.focus),
     .parse = attention_parse_query, .show = attention_show_query,
     .help = "whose attention: what the classifier reads, the class token,\n"
             "the mean of the patches, the patch under a pixel of the picture\n"
             "(upright), or of raw all tokens'"},
    {0, "discard", "R", CLI_DOUBLE, FIELD(attention.discard), .lo = 0, .hi = 0.999,
     .help = "not of raw: the smallest share R of each row is zeroed, never the\n"
             "class token's column"},
    {0, "residual", "A", CLI_DOUBLE, FIELD(attention.residual), .lo = 0, .hi = 0.999,
     .help = "rollout: share of the residual stream beside attention"},
    {0, "start-layer", "N", CLI_INT, FIELD(attention.start_layer), .lo = 0, .hi = 9999,
     .help = "not of raw: the first layer whose attention counts"},
    {0, "save", "KIND,...", CLI_CUSTOM, FIELD(kinds), .parse = attention_parse_kinds,
     .show = attention_show_kinds,
     .help = "overlay (on the picture), map (alone; of --query all a matrix),\n"
             "grid (layers x heads), mask, npy, h5, csv, html (index.html: a\n"
             "page to click through patches, layers and heads of all images),\n"
             "stats (of every layer and head: entropy, mean distance, greatest\n"
             "score, share of the prefix tokens), faithfulness",
     .unset = "overlay, of raw maps grid"},
    {0, "colormap", "NAME", CLI_CUSTOM, FIELD(look.colormap), .parse = parse_colormap,
     .show = show_colormap,
     .help = "of pictures: viridis, magma, inferno, plasma, cividis, gray, turbo"},
    {0, "colorbar", NULL, CLI_FLAG, FIELD(look.colorbar),
     .help = "a bar of the colours with numbers, beside overlay and map"},
    {0, "opacity", "F", CLI_DOUBLE, FIELD(look.opacity), .lo = 0, .hi = 1,
     .help = "of the map over the picture"},
    {0, "upsampling", "bicubic|nearest", CLI_CUSTOM, FIELD(look.filter), .parse = parse_filter,
     .show = show_filter, .help = "of the map's cells to pixels"},
    {0, "mass", "F", CLI_DOUBLE, FIELD(look.mass), .lo = 1e-6, .hi = 1,
     .unset = "no mask; of --save mask 0.6",
     .help = "saves mask too: the fewest cells that hold this share of the map,\n"
             "and their frame, which goes to stdout as well: path x0 y0 x1 y1\n"
             "cells, behind the path a gradient's class, a raw map's layer and head"},
    {0, "faithfulness", NULL, CLI_FLAG, FIELD(measures),
     .help = "not of raw: saves NAME.rollout.faithfulness.png: how the class's\n"
             "probability falls as patches are blurred in the map's order\n"
             "(deletion), and grows as they are made sharp (insertion), beside\n"
             "a random order; the numbers and areas go to stdout"},
    {0, "seed", "N", CLI_COUNT, FIELD(seed), .lo = 0, .hi = 4294967295.0,
     .help = "of --faithfulness's random order"},
    {'o', "output", "DIR", CLI_STRING, FIELD(folder),
     .help = "the folder for the files; made where it is not there"},
};

static int parse(int argc, char **argv, struct command *c, struct cli_args *args) {
    const struct cli_group groups[] = {{"Options of attention", rows, COUNT_OF(rows), c},
                                       run_model_group(&c->run),
                                       run_image_group(&c->run),
                                       run_talk_group(&c->run)};
    const struct cli cli = {
        .command = "attention",
        .synopsis = "[OPTION]... PATH...",
        .about = about,
        .examples = "  vitrine attention -m vit_base.h5 -o maps cat.jpg\n"
                    "  vitrine attention -m vit_base.h5 --method raw --save grid,h5 cat.jpg\n"
                    "  vitrine attention -m swin_tiny.h5 --query 310,95 --discard 0.9 photos/\n"
                    "  vitrine attention -m vit_base.h5 --method gradient --class 281 cat.jpg",
        .groups = groups,
        .group_count = COUNT_OF(groups),
        .min_args = 1,
        .max_args = -1,
        .args_wanted = "an image, a folder, - or @LIST"};
    return cli_parse(&cli, argc, argv, args);
}

static bool is_gradient(const struct command *c) {
    return c->attention.method == ATTENTION_GRADIENT;
}

static bool wants_page(const struct command *c) {
    return c->kinds & attention_kind_named("html");
}

static bool wants_stats(const struct command *c) {
    return c->kinds & attention_kind_named("stats");
}

static void say_memory(const struct command *c) {
    const size_t kept = wants_page(c) ? c->page.kept_bytes : c->maps.kept_bytes;
    if (c->run.quiet) return;
    attention_tell_memory(&c->maps, kept + c->stats.kept_bytes,
                          wants_page(c) ? c->page.count : c->maps.count);
}

/* Whoever wants something of the pass: the page hands on to the maps, the statistics to either. */
static const struct capture *capture_of(const struct command *c, bool stats) {
    if (stats) return &c->stats.capture;
    if (wants_page(c)) return &c->page.capture;
    return is_gradient(c) ? NULL : &c->maps.capture;
}

/* What is saved, and where the options for it make no sense. */
static enum status choose_kinds(struct command *c) {
    if (!c->kinds) c->kinds = attention_kinds_default((enum attention_method)c->attention.method);
    if (c->look.mass > 0) c->kinds |= attention_kind_named("mask");
    if (c->look.mass == 0) c->look.mass = 0.6;
    if (c->measures) c->kinds |= attention_kind_named("faithfulness");
    c->measures = c->kinds & attention_kind_named("faithfulness");
    c->attention.whole = wants_page(c) || wants_stats(c);
    TRY(attention_options_check(&c->attention, wants_page(c)));
    return attention_kinds_check(c->kinds, &c->attention);
}

/* A page compares classes too. */
static bool needs_backward(const struct command *c) {
    return is_gradient(c) || wants_page(c);
}

/* The model that gradients are computed with: the run's own, or on the CPU beside a GPU. */
static enum status open_backward(struct command *c) {
    struct run_options cpu = c->run;
    c->attention.backward = &c->model;
    if (!needs_backward(c) || !devices_gpu(&c->devices)) return ST_OK;
    cpu.device = "cpu";
    cpu.precision = -1;
    cpu.batch = 1;
    cpu.backward = true;
    TRY(run_devices_open(&cpu, &c->cpu));
    cpu.quiet = true; // what was resampled is said
    c->attention.backward = &c->backward;
    return run_model_open(&cpu, &c->cpu, c->inputs.count, &c->backward);
}

static enum status open_model(struct command *c) {
    TRY(run_devices_open(&c->run, &c->devices));
    c->run.backward = needs_backward(c) && !devices_gpu(&c->devices);
    TRY(run_model_open(&c->run, &c->devices, c->inputs.count, &c->model));
    TRY(open_backward(c));
    TRY(attention_open(&c->maps, &c->model, &c->attention));
    TRY(picture_queue_open(&c->pictures, run_threads(&c->run)));
    if (wants_page(c)) TRY(attention_page_open(&c->page, &c->maps));
    if (wants_stats(c))
        TRY(attention_stats_open(&c->stats, &c->maps, capture_of(c, false), c->run.quiet));
    if (c->measures) TRY(faithfulness_open(&c->faithfulness, &c->model, c->seed));
    attention_options_text(&c->attention, c->text, sizeof c->text);
    c->batch = c->model.batch;
    c->errors = mem_zalloc((size_t)c->batch, sizeof *c->errors);
    if (is_gradient(c))
        c->logits = mem_zalloc((size_t)c->batch * (size_t)c->model.classes, sizeof *c->logits);
    if (!c->errors || (is_gradient(c) && !c->logits)) return ST_NOMEM;
    say_memory(c);
    return ST_OK;
}

static enum status open_folder(struct command *c) {
    char *path = str_copy(c->folder);
    enum status st = path ? output_make_folders(path) : ST_NOMEM;
    mem_free(path);
    if (st == ST_OK && wants_page(c))
        st = attention_page_create(&c->page, c->folder, &c->run, &c->inputs);
    return st;
}

/* Where the good images of a batch lie in the pass, and for which that cannot be said. */
static enum status place_batch(struct command *c, const struct pipeline_batch *batch) {
    int good = 0;
    for (int i = 0; i < batch->count; i++) {
        if (batch->items[i].error) continue;
        mem_free(c->errors[good]);
        c->errors[good] = NULL;
        if (!is_gradient(c) && attention_place(&c->maps, good, &batch->items[i]) != ST_OK &&
            !(c->errors[good] = str_copy(fail_message())))
            return ST_NOMEM;
        good++;
    }
    return ST_OK;
}

/* (batch, K) of the pass, or NULL. */
static float *pass_logits(const struct command *c) {
    return wants_page(c) ? c->page.logits : c->logits;
}

/* The files of an image; a map that cannot be made is the image's fault, a full disk the run's. */
static enum status save_item(struct command *c, const struct pipeline_item *item, int good,
                             const uint8_t *pixels) {
    char *stem = str_format("%s/%s.%s", c->folder, c->names.name[item->number],
                            attention_methods[c->attention.method]);
    const struct attention_file file = {.maps = &c->maps,
                                        .image = good,
                                        .item = item,
                                        .stem = stem,
                                        .model = c->run.model,
                                        .options = c->text,
                                        .look = &c->look,
                                        .pixels = pixels,
                                        .pictures = &c->pictures,
                                        .page = &c->page,
                                        .stats = &c->stats,
                                        .faithfulness = &c->faithfulness};
    enum status st = stem ? ST_OK : ST_NOMEM;
    if (st == ST_OK && is_gradient(c)) {
        const size_t K = (size_t)c->model.classes;
        st = attention_relevance(&c->maps, item, pixels, pass_logits(c) + (size_t)good * K);
        if (st == ST_USAGE) st = ST_FORMAT; // the pixel asked for is not in this picture
    }
    if (st == ST_OK) st = attention_save(&file, c->kinds);
    mem_free(stem);
    if (st != ST_FORMAT) return st;
    c->errors[good] = str_copy(fail_message());
    return c->errors[good] ? ST_OK : ST_NOMEM;
}

static enum status save_batch(struct command *c, const struct pipeline_batch *batch) {
    const struct model_taps taps = {.layer = -1, .capture = capture_of(c, wants_stats(c))};
    const struct preprocess *rule = &c->model.preprocess;
    const size_t image = (size_t)rule->height * (size_t)rule->width * 3;
    int good = 0;
    TRY(place_batch(c, batch));
    if (!c->measures) model_stage(&c->model, batch->ahead, batch->ahead_count);
    if (batch->good)
        TRY(model_forward(&c->model, batch->pixels, batch->good, pass_logits(c), &taps));
    for (int i = 0; i < batch->count; i++) {
        const struct pipeline_item *item = &batch->items[i];
        const char *error = item->error;
        if (!error) {
            if (!c->errors[good])
                TRY(save_item(c, item, good, batch->pixels + (size_t)good * image));
            error = c->errors[good++];
            if (error) c->totals.failed++;
        }
        if (error) cli_say("%s: %s", item->path, error);
        if (run_stops(&c->run, batch, i, error)) break;
    }
    return ST_OK;
}

/* Pictures that wait when something else fails are written all the same. */
static enum status on_batch(void *context, const struct pipeline_batch *batch) {
    struct command *c = context;
    const enum status st = save_batch(c, batch), written = picture_queue_write(&c->pictures);
    if (written != ST_OK || st != ST_OK) return written != ST_OK ? written : st;
    return output_flush(&c->output);
}

static enum status run_all(struct command *c) {
    struct pipeline pipeline = {.next = run_next_input,
                                .source = &c->inputs,
                                .on_batch = on_batch,
                                .context = c,
                                .total = c->inputs.count,
                                .batch = c->batch,
                                .threads = run_threads(&c->run),
                                .image = run_image_options(&c->run),
                                .preprocess = &c->model.preprocess,
                                .keep_images = attention_kinds_picture(c->kinds),
                                .look_ahead = devices_gpu(&c->devices),
                                .stop_on_error = c->run.on_error == RUN_ON_ERROR_STOP,
                                .progress = run_progress(&c->run)};
    return pipeline_run(&pipeline, &c->totals);
}

int cmd_attention(int argc, char **argv) {
    struct command c = {.run = run_defaults(),
                        .attention = attention_defaults(),
                        .look = attention_look_defaults(),
                        .folder = "."};
    struct cli_args args;
    enum status st;
    int code = parse(argc, argv, &c, &args);
    if (code != CLI_GO) return code;
    st = output_open(&c.output, NULL);
    if (st == ST_OK) st = choose_kinds(&c);
    if (st == ST_OK) st = inputs_open(&c.inputs, args.items, args.count);
    if (st == ST_OK) st = run_spare_inputs(&c.run, &c.inputs);
    if (st == ST_OK) st = output_names_open(&c.inputs, &c.names);
    if (st == ST_OK) st = open_model(&c);
    if (st == ST_OK) st = open_folder(&c);
    if (st == ST_OK) st = run_all(&c);
    st = attention_page_close(&c.page, st);
    if (st == ST_OK && !c.run.quiet) faithfulness_tell(&c.faithfulness);
    if (st == ST_OK) run_summary(&c.run, &c.totals);
    code = st != ST_OK ? cli_fail("attention", st) : c.totals.failed > 0;
    for (int i = 0; c.errors && i < c.batch; i++)
        mem_free(c.errors[i]);
    mem_free(c.errors);
    faithfulness_release(&c.faithfulness);
    attention_stats_release(&c.stats);
    attention_page_release(&c.page);
    picture_queue_release(&c.pictures);
    attention_release(&c.maps);
    mem_free(c.logits);
    model_release(&c.backward);
    devices_close(&c.cpu);
    model_release(&c.model);
    devices_close(&c.devices);
    output_names_release(&c.names);
    inputs_release(&c.inputs);
    return code;
}
