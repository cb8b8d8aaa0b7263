/* evaluate_options: the command line of `vitrine evaluate`; see evaluate.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datasets/inputs.h"
#include "tools/evaluate.h"

enum { BINS_MOST = 1000, SHARDS_MOST = 1000000 };

static const char about[] =
    "Scores a model over a labelled dataset: a folder with a folder a class, a folder with a file\n"
    "of labels, tar and zip archives, WebDataset shards (shard-{000..003}.tar), IDX files (MNIST\n"
    "and its family), CIFAR-10 and -100 in their binary version, HDF5 (images, labels). Classes\n"
    "are matched by id (a WordNet id), then by label, then by number; what does not match is\n"
    "listed and not counted. A broken image has a row with its reason and is not counted either;\n"
    "the exit status is then 1. Started by mpirun, the processes share the images and end in the\n"
    "same rows and numbers as one.";

/* ---- options --------------------------------------------------------------------------------- */

/* "I/N", I counting from 0. */
static enum status parse_shard(const char *value, void *field) {
    struct evaluate_shard *shard = field;
    const char *slash = strchr(value, '/');
    char first[16];
    long index, count;
    if (slash && slash - value < (int)sizeof first) {
        snprintf(first, sizeof first, "%.*s", (int)(slash - value), value);
        if (parse_long(slash + 1, 1, SHARDS_MOST, &count) &&
            parse_long(first, 0, count - 1, &index)) {
            *shard = (struct evaluate_shard){(int)index, (int)count};
            return ST_OK;
        }
    }
    return fail(ST_USAGE, "I/N, I from 0 to N-1");
}

#define AT(field) offsetof(struct evaluate_options, field)
static const struct cli_option data_rows[] = {
    {.name = "labels",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(labels),
     .help = "\"path label\" a line (.csv, .tsv, .txt), for a folder; or a label a line"},
    {.name = "class-map",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(class_map),
     .help = "\"text<TAB>class\" a line: what the data's name for a class stands\n"
             "for; - for no class. Or ilsvrc2012: the challenge's own numbers, taken for\n"
             "--labels ILSVRC2012_validation_ground_truth.txt by itself"},
    {.name = "classes-subset",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(subset),
     .help = "only these classes are predicted, one a line; or imagenet-a,\nimagenet-r"},
    {.name = "real-labels",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(real),
     .help = "real.json of ImageNet-ReaL: accuracy on reassessed labels too"},
    {.name = "limit",
     .argument = "N",
     .kind = CLI_COUNT,
     .offset = AT(limit),
     .help = "the first N images only",
     .unset = "all",
     .lo = 1,
     .hi = 1e15},
    {.name = "shuffle-seed",
     .argument = "S",
     .kind = CLI_INT,
     .offset = AT(seed),
     .help = "the N of --limit are a random choice, the same for the same S",
     .unset = "not random",
     .lo = 0,
     .hi = 2147483647},
    {.name = "shard",
     .argument = "I/N",
     .kind = CLI_CUSTOM,
     .offset = AT(shard),
     .help = "every N-th image from the I-th on (I from 0): a part of the work, whose\n"
             "--predictions --merge puts together",
     .parse = parse_shard},
};
static const struct cli_option result_rows[] = {
    {.letter = 'k',
     .name = "topk",
     .argument = "N",
     .kind = CLI_INT,
     .offset = AT(run.topk),
     .help = "classes a row of --predictions; 0 = every class",
     .lo = 0,
     .hi = 1e6},
    {.name = "predictions",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(predictions),
     .help = "a row an image, written as they come: .csv, .tsv or .jsonl"},
    {.name = "resume",
     .kind = CLI_FLAG,
     .offset = AT(resume),
     .help = "go on where the file of --predictions ends"},
    {.name = "merge",
     .kind = CLI_FLAG,
     .offset = AT(merge),
     .help = "the arguments are the --predictions of all shards of a run; nothing is\nrun"},
    {.name = "confusion",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(confusion),
     .help = "the confusion matrix as .csv: a line a target, a column a prediction"},
    {.name = "report",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(report),
     .help = "the run as one HTML page that needs nothing beside it, its pictures in it;\n"
             "with --shard of that shard alone"},
    {.name = "report-data",
     .argument = "DATASET",
     .kind = CLI_STRING,
     .offset = AT(report_data),
     .help = "where the report of --merge finds the pictures",
     .unset = "the paths of the rows"},
    {.name = "bins",
     .argument = "N",
     .kind = CLI_INT,
     .offset = AT(bins),
     .help = "of confidence, for the calibration error",
     .lo = 1,
     .hi = BINS_MOST},
    {.letter = 'f',
     .name = "format",
     .argument = "F",
     .kind = CLI_CHOICE,
     .offset = AT(run.format),
     .help = "of the summary: text, json",
     .choices = (const char *const[]){"text", "json", NULL}},
    {.letter = 'o',
     .name = "output",
     .argument = "FILE",
     .kind = CLI_STRING,
     .offset = AT(run.output),
     .help = "the summary, instead of stdout"},
};
#undef AT

struct evaluate_options evaluate_defaults(void) {
    struct evaluate_options o = {.run = run_defaults(), .seed = -1, .bins = 15};
    return o;
}

int evaluate_parse(int argc, char **argv, struct evaluate_options *o, struct cli_args *args) {
    const struct cli_group groups[] = {{"Data", data_rows, COUNT_OF(data_rows), o},
                                       {"Results", result_rows, COUNT_OF(result_rows), o},
                                       run_model_group(&o->run),
                                       run_image_group(&o->run),
                                       run_talk_group(&o->run)};
    const struct cli cli = {
        .command = "evaluate",
        .synopsis = "[OPTION]... DATASET",
        .about = about,
        .examples = "  vitrine evaluate -m vit_base.h5 imagenet/val/\n"
                    "  vitrine evaluate -m vit-cifar10 --predictions rows.csv cifar10-test.tar\n"
                    "  vitrine evaluate -m vit-cifar10 --merge rows0.csv rows1.csv",
        .groups = groups,
        .group_count = COUNT_OF(groups),
        .min_args = 1,
        .max_args = -1,
        .args_wanted = "a dataset"};
    return cli_parse(&cli, argc, argv, args);
}

enum status evaluate_check(const struct evaluate_options *o, const struct cli_args *args) {
    enum row_format format;
    if (!o->merge && args->count > 1)
        return fail(ST_USAGE, "one dataset at a time, found '%s' and '%s'", args->items[0],
                    args->items[1]);
    if (o->resume && !o->predictions)
        return fail(ST_USAGE, "--resume goes on with the rows of --predictions FILE, which is "
                              "missing");
    if (o->merge && (o->resume || o->shard.count || o->limit || o->labels))
        return fail(ST_USAGE, "--merge runs nothing: --resume, --shard, --limit and --labels have "
                              "no meaning with it");
    if (o->seed >= 0 && !o->limit)
        return fail(ST_USAGE, "--shuffle-seed chooses the images of --limit N, which is missing");
    if (o->report && strcmp(o->report, "-") == 0)
        return fail(ST_USAGE, "--report wants a file; stdout is the summary's");
    if (o->report_data && !(o->report && o->merge))
        return fail(ST_USAGE, "--report-data is for --report with --merge; else the pictures are "
                              "those of the dataset");
    if (o->predictions) TRY(predictions_format(o->predictions, &format));
    return ST_OK;
}

enum status evaluate_check_outputs(const struct evaluate_options *o, const struct cli_args *args) {
    const char *const outputs[] = {o->run.output, o->confusion, o->report, o->predictions};
    const char *const inputs[] = {o->run.model, o->labels, o->class_map,
                                  o->subset,    o->real,   o->report_data};
    for (size_t i = 0; i < COUNT_OF(outputs); i++) {
        if (!outputs[i]) continue;
        for (size_t k = 0; k < COUNT_OF(inputs); k++)
            TRY(output_check_spares(outputs[i], inputs[k]));
        for (int k = 0; k < args->count; k++)
            TRY(output_check_spares(outputs[i], args->items[k]));
        for (size_t k = 0; k < i; k++)
            TRY(output_check_distinct(outputs[i], outputs[k]));
        if (inputs_suffix_known(outputs[i]) && access(outputs[i], F_OK) == 0)
            return fail(ST_USAGE, "%s: is a picture that is there; no result is written over it",
                        outputs[i]);
    }
    return ST_OK;
}
