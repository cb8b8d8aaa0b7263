/*
 * vitrine inspect MODEL: what is in a model file, without running it: origin, architecture and its
 * parts (tools/describe.c), preprocessing, labels, tensors; and with --verify its self-test: the
 * stored image through the whole forward pass. A checkpoint of another kind is shown as what it is.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/describe.h"
#include "tools/model.h"
#include "tools/run.h"
#include "weights/checkpoint.h"

struct inspect_options {
    struct run_options run;
    bool tensors, verify, labels;
    const char *key;
};

static void print_info(const struct model_info *info) {
    printf("name           %s\n", info->name);
    printf("architecture   %s (family %s)\n", info->architecture, info->family);
    printf("source         %s\n", info->source);
    if (info->source_sha256[0]) printf("source sha256  %s\n", info->source_sha256);
    printf("licence        %s\n", info->license);
    for (size_t i = 0; i < info->notes; i++)
        printf("%-14s %s\n", info->note_names[i], info->note_values[i]);
}

static void print_preprocess(const struct preprocess_spec *p) {
    printf("\npreprocessing  %d x %d, crop_pct %g, crop mode %s, %s, crop offset %s\n", p->height,
           p->width, p->crop_pct, p->crop_mode, p->interpolation, p->crop_rounding);
    printf("normalisation  mean %g,%g,%g  std %g,%g,%g\n", p->mean[0], p->mean[1], p->mean[2],
           p->std[0], p->std[1], p->std[2]);
}

static enum status print_labels(struct h5 *file, int classes, bool all) {
    char **ids = NULL, **names = NULL;
    size_t count = 0;
    enum status st = labels_group_read(file, classes, &ids, &names, &count);
    if (st == ST_OK && count) {
        size_t shown = all || count <= 10 ? count : 3;
        printf("labels         %zu\n", count);
        for (size_t i = 0; i < shown; i++)
            printf("  %5zu  %s  %s\n", i, ids[i], names[i]);
        if (shown < count) printf("      ...  (--labels shows all)\n");
    } else if (st == ST_OK) {
        printf("labels         none: classes are numbers\n");
    }
    h5_free_names(ids, count);
    h5_free_names(names, count);
    return st;
}

static enum status print_tensors(struct h5 *file, bool each) {
    struct h5_dataset *datasets = NULL;
    size_t count = 0, elements = 0, bytes = 0;
    TRY(h5_list(file, "/parameters", &datasets, &count));
    for (size_t i = 0; i < count; i++) {
        size_t product = 1;
        char shape[128];
        for (int d = 0; d < datasets[i].rank; d++)
            product *= datasets[i].dims[d];
        elements += product;
        bytes += product * dtype_size(datasets[i].dtype);
        if (each)
            printf("  %-44s %-6s %s\n", datasets[i].name, dtype_name(datasets[i].dtype),
                   shape_text(datasets[i].dims, datasets[i].rank, shape, sizeof shape));
    }
    printf("parameters     %zu in %zu tensors, %.1f MB\n", elements, count, (double)bytes * 1e-6);
    h5_free_datasets(datasets, count);
    return ST_OK;
}

static enum status print_file(struct h5 *file, const struct inspect_options *options) {
    struct model_info info = {0};
    struct preprocess_spec preprocess;
    enum status st = model_info_read(file, &info);
    int classes = 0;
    if (st == ST_OK) print_info(&info);
    if (st == ST_OK) st = describe_config(file, info.family, &classes);
    model_info_release(&info);
    TRY(st);
    TRY(preprocess_spec_read(file, &preprocess));
    print_preprocess(&preprocess);
    TRY(print_labels(file, classes, options->labels));
    return print_tensors(file, options->tensors);
}

/* What the stored answer, of fp32, may be missed by in a precision; of the greatest output. */
static double allowed_in(const char *precision, double fp32) {
    static const struct {
        const char *precision;
        double allowed;
    } rows[] = {{"fp16", 2e-2}, {"bf16", 5e-2}, {"int8", 1e-1}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(precision, rows[i].precision) == 0) return fmax(rows[i].allowed, fp32);
    return fp32;
}

/* Runs the stored image; *ratio = max |difference| / max |expected|, *allowed in this precision. */
static enum status run_selftest(const struct run_options *run, const struct selftest *test,
                                double *ratio, double *allowed) {
    struct devices devices = {0};
    struct model model = {0};
    float *output = mem_zalloc(test->count, sizeof *output); // (count)
    double difference = 0, most = 0;
    enum status st = output ? ST_OK : ST_NOMEM;
    if (st == ST_OK) st = run_devices_open(run, &devices);
    if (st == ST_OK) st = run_model_open(run, &devices, 1, &model);
    if (st == ST_OK &&
        (model.preprocess.height != test->height || model.preprocess.width != test->width ||
         test->count != (size_t)(model.classes ? model.classes : model.dim)))
        st = fail(ST_SHAPE,
                  "%s: /selftest is a %d x %d image with %zu outputs, the model takes %d x %d",
                  run->model, test->height, test->width, test->count, model.preprocess.height,
                  model.preprocess.width);
    if (st == ST_OK) {
        const struct model_taps pooled = {.layer = -1, .pooled = output};
        st = model_forward(&model, test->image, 1, model.classes ? output : NULL,
                           model.classes ? NULL : &pooled);
    }
    for (size_t i = 0; st == ST_OK && i < test->count; i++) {
        double d = fabs((double)output[i] - (double)test->expected[i]);
        if (!(d <= difference)) difference = d; /* a NaN stays */
        if (fabs((double)test->expected[i]) > most) most = fabs((double)test->expected[i]);
    }
    *ratio = difference / (most > 0 ? most : 1);
    if (st == ST_OK) *allowed = allowed_in(backend_precision(devices.backend[0]), test->tolerance);
    model_release(&model);
    devices_close(&devices);
    mem_free(output);
    return st;
}

static enum status verify(struct h5 *file, const struct inspect_options *options) {
    struct selftest test = {0};
    double ratio = 0, allowed = 0;
    enum status st;
    TRY(selftest_read(file, &test));
    if (!test.image) return fail(ST_FORMAT, "%s: has no /selftest to verify", h5_name(file));
    st = run_selftest(&options->run, &test, &ratio, &allowed);
    if (st == ST_OK) {
        bool ok = ratio <= allowed;
        printf(
            "self-test      %s: max |difference| %.2e of max |expected| over %zu outputs, allowed "
            "%.0e; expected by %s\n",
            ok ? "passed" : "FAILED", ratio, test.count, allowed, test.origin);
        if (!ok) st = fail(ST_FORMAT, "%s: the self-test failed", h5_name(file));
    }
    selftest_release(&test);
    return st;
}

/* A checkpoint that is no model yet: its container, what was peeled off, its tensors. */
static enum status print_checkpoint(const char *path, const struct inspect_options *options) {
    struct checkpoint c;
    size_t elements = 0, bytes = 0;
    TRY(checkpoint_open(path, options->key, &c));
    printf("checkpoint     %s, %s: no model yet, see 'vitrine convert --help'\n", c.weights_path,
           c.container);
    if (c.shard_count) printf("files          %zu\n", c.shard_count);
    if (c.wrapper) printf("taken from     %s\n", c.wrapper);
    if (c.aside) printf("left aside     %s\n", c.aside);
    for (size_t i = 0; i < c.count; i++) {
        const struct tensor *t = &c.tensors[i];
        char shape[128];
        elements += tensor_count(t);
        bytes += t->bytes;
        if (options->tensors)
            printf("  %-44s %-6s %s\n", t->name, dtype_name(t->dtype),
                   shape_text(t->dims, t->rank, shape, sizeof shape));
    }
    printf("values         %zu in %zu tensors, %.1f MB\n", elements, c.count, (double)bytes * 1e-6);
    checkpoint_release(&c);
    return options->verify ? fail(ST_USAGE, "%s: is a checkpoint, which has no self-test", path)
                           : ST_OK;
}

int cmd_inspect(int argc, char **argv) {
    struct inspect_options o = {.run = run_defaults()};
    const struct cli_option rows[] = {
        {.name = "tensors",
         .kind = CLI_FLAG,
         .offset = offsetof(struct inspect_options, tensors),
         .help = "every tensor: name, type, shape"},
        {.name = "labels",
         .kind = CLI_FLAG,
         .offset = offsetof(struct inspect_options, labels),
         .help = "every class"},
        {.name = "verify",
         .kind = CLI_FLAG,
         .offset = offsetof(struct inspect_options, verify),
         .help = "run the self-test of the file; exit status 1 if it fails"},
        {.name = "key",
         .argument = "KEY",
         .kind = CLI_STRING,
         .offset = offsetof(struct inspect_options, key),
         .help = "of a PyTorch checkpoint that holds several models, the one to show",
         .unset = "as convert chooses"},
    };
    const struct cli_group groups[] = {{"Options of inspect", rows, COUNT_OF(rows), &o},
                                       run_model_group(&o.run),
                                       run_talk_group(&o.run)};
    const struct cli cli = {
        .command = "inspect",
        .synopsis = "[OPTION]... [MODEL]",
        .about = "Shows what is in a model: a file, or the name of an embedded or pulled\n"
                 "model; or in a checkpoint (safetensors, PyTorch, a folder) to be converted.",
        .examples = "  vitrine inspect vit-cifar10 --verify\n"
                    "  vitrine inspect model.h5 --tensors\n"
                    "  vitrine inspect checkpoint.pth --tensors\n",
        .groups = groups,
        .group_count = COUNT_OF(groups),
        .min_args = 0,
        .max_args = 1};
    struct cli_args args;
    struct h5 *file = NULL;
    bool foreign;
    enum status st;
    int code = cli_parse(&cli, argc, argv, &args);
    if (code != CLI_GO) return code;
    if (args.count && o.run.model != run_defaults().model)
        return cli_fail("inspect", fail(ST_USAGE, "both --model %s and %s: want one model",
                                        o.run.model, args.items[0]));
    if (args.count) o.run.model = args.items[0];
    foreign = args.count && checkpoint_likely(args.items[0]);
    st = foreign ? print_checkpoint(args.items[0], &o) : model_find(o.run.model, &file);
    if (st == ST_OK && file) st = print_file(file, &o);
    if (st == ST_OK && file && o.verify) {
        fflush(stdout);
        st = verify(file, &o);
    }
    if (h5_close(&file) != ST_OK && st == ST_OK) st = ST_IO;
    if (fflush(stdout) != 0 && st == ST_OK) st = fail(ST_IO, "standard output: cannot be written");
    return st == ST_OK ? 0 : cli_fail("inspect", st);
}
