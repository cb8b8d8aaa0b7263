/*
 * vitrine bench: how fast a model runs here, beside the FMA peak measured in the same loop. One row
 * a combination of threads and batch: the median over the rounds, ms per image, images/s, the share
 * of peak, and the most memory the process held from loading the model on; with --end-to-end also
 * what image files cost: decoding alone, the whole way, and its share of the narrowest part.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/threads.h"
#include "tools/bench_end_to_end.h"
#include "tools/cli.h"
#include "tools/model.h"
#include "tools/run.h"

enum { MOST = 16, ROUNDS_MOST = 1000 };

struct int_list {
    int count, value[MOST];
};

struct bench_options {
    struct run_options run;
    struct int_list batches, threads;
    int rounds;
    const char *files;    /* --end-to-end; NULL = the model alone */
    struct inputs inputs; /* them */
    int header;           /* printed */
};

static enum status parse_list(const char *text, void *field) {
    struct int_list *list = field;
    list->count = 0;
    for (const char *at = text;; at++) {
        char number[16];
        size_t length = strcspn(at, ",");
        long value;
        if (length == 0 || length >= sizeof number || list->count == MOST)
            return fail(ST_USAGE, "up to %d numbers from 1 to 4096 with commas between", MOST);
        memcpy(number, at, length);
        number[length] = '\0';
        if (!parse_long(number, 1, 4096, &value))
            return fail(ST_USAGE, "up to %d numbers from 1 to 4096 with commas between", MOST);
        list->value[list->count++] = (int)value;
        at += length;
        if (!*at) return ST_OK;
    }
}

static void show_list(const void *field, char *text, size_t size) {
    const struct int_list *list = field;
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < list->count && used + 8 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", list->value[i]);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Of all its devices together. */
static double peak_of(const struct model *model) {
    double flops = 0;
    for (int i = 0; i < model->replica_count; i++)
        flops += backend_peak(model->replicas[i].backend);
    return flops;
}

/* Forward passes and peak probes in turn; medians of both. */
static enum status measure(struct model *model, int batch, int rounds, const uint8_t *pixels,
                           float *logits, double *ms, double *peak) {
    double seconds[ROUNDS_MOST], flops[ROUNDS_MOST];
    for (int r = -2; r < rounds; r++) { /* two rounds to warm up */
        double rate = peak_of(model), start = cli_seconds();
        TRY(model_forward(model, pixels, batch, logits, NULL));
        if (r < 0) continue;
        seconds[r] = cli_seconds() - start;
        flops[r] = rate;
    }
    *ms = 1e3 * bench_median(seconds, rounds) / batch;
    *peak = bench_median(flops, rounds);
    return ST_OK;
}

/* From here on the kernel counts anew the most memory held (Linux; elsewhere nothing happens). */
static void peak_memory_reset(void) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

/* MiB; 0 = not known here. */
static double peak_memory(void) {
    static const char key[] = "VmHWM:";
    char line[128];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, sizeof key - 1) != 0) continue;
        char *digits = line + sizeof key - 1;
        digits += strspn(digits, " \t");
        digits[strspn(digits, "0123456789")] = '\0';
        if (!parse_long(digits, 0, 1L << 40, &kib)) kib = 0;
    }
    if (f) fclose(f);
    return (double)kib / 1024;
}

static const char columns[] = "model\tprecision\timage_size\tthreads\tbatch\tms_per_image\t"
                              "images_per_second\tgflops\tpeak_gflops\tof_peak\tpeak_mib";
static const char file_columns[] = "\timages\tdecode_per_second\tend_to_end_per_second\tof_bound";

static enum status bench_row(struct bench_options *o, int threads, int batch) {
    struct devices devices = {0};
    struct model model = {0};
    uint8_t *pixels = NULL; // (batch, height, width, 3)
    float *logits = NULL;   // (batch, K)
    double ms = 0, peak = 0;
    struct end_to_end end_to_end = {0};
    enum status st;
    o->run.threads = threads;
    o->run.batch = batch;
    peak_memory_reset();
    TRY_OUT(run_devices_open(&o->run, &devices));
    TRY_OUT(run_model_open(&o->run, &devices, (size_t)batch, &model));
    size_t image = (size_t)model.preprocess.height * (size_t)model.preprocess.width * 3;
    pixels = mem_zalloc((size_t)batch, image);
    logits =
        mem_zalloc((size_t)batch, (size_t)(model.classes ? model.classes : 1) * sizeof *logits);
    if (!pixels || !logits) {
        st = ST_NOMEM;
        goto out;
    }
    for (size_t i = 0; i < (size_t)batch * image; i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    TRY_OUT(measure(&model, batch, o->rounds, pixels, model.classes ? logits : NULL, &ms, &peak));
    double gflops = 2e-6 * model.macs / ms;
    if (o->files) TRY_OUT(end_to_end_measure(&model, &o->inputs, &o->run, o->rounds, &end_to_end));
    if (!o->header++) printf("%s%s\n", columns, o->files ? file_columns : "");
    printf("%s\t%s\t%dx%d\t%d\t%d\t%.3f\t%.2f\t%.1f\t%.1f\t%.3f\t%.1f", model.info.name,
           backend_precision(devices.backend[0]), model.preprocess.height, model.preprocess.width,
           threads, batch, ms, 1e3 / ms, gflops, peak * 1e-9, gflops * 1e9 / peak, peak_memory());
    if (o->files)
        printf("\t%zu\t%.2f\t%.2f\t%.3f", end_to_end.images, end_to_end.decode, end_to_end.whole,
               end_to_end.whole / (end_to_end.decode < 1e3 / ms ? end_to_end.decode : 1e3 / ms));
    putchar('\n');
    fflush(stdout);
out:
    model_release(&model);
    devices_close(&devices);
    mem_free(pixels);
    mem_free(logits);
    return st;
}

static const struct cli_option rows[] = {
    {.letter = 'b',
     .name = "batch",
     .argument = "LIST",
     .kind = CLI_CUSTOM,
     .parse = parse_list,
     .show = show_list,
     .offset = offsetof(struct bench_options, batches),
     .help = "images per pass"},
    {.letter = 't',
     .name = "threads",
     .argument = "LIST",
     .kind = CLI_CUSTOM,
     .parse = parse_list,
     .show = show_list,
     .offset = offsetof(struct bench_options, threads),
     .help = "CPU threads; on a GPU they do nothing"},
    {.name = "image-size",
     .argument = "N|HxW",
     .kind = CLI_SIZE,
     .lo = 1,
     .hi = RUN_LARGEST_SIDE,
     .offset = offsetof(struct bench_options, run.image_size),
     .help = "run at another size",
     .unset = "the model's"},
    {.name = "rounds",
     .argument = "N",
     .kind = CLI_INT,
     .lo = 1,
     .hi = ROUNDS_MOST,
     .offset = offsetof(struct bench_options, rounds),
     .help = "passes measured, after two to warm up"},
    {.name = "end-to-end",
     .argument = "PATH",
     .kind = CLI_STRING,
     .offset = offsetof(struct bench_options, files),
     .help = "an image file or a folder: also images/s decoded alone and from file\n"
             "to logits, and the share of the slower of decoding and model"},
};

int cmd_bench(int argc, char **argv) {
    struct bench_options o = {.run = run_defaults(), .batches = {2, {1, 8}}, .rounds = 15};
    int cores = threads_available();
    o.threads = cores > 1 ? (struct int_list){2, {1, cores}} : (struct int_list){1, {1}};
    const struct cli_group groups[] = {run_where_group(&o.run),
                                       {"Options of bench", rows, COUNT_OF(rows), &o},
                                       run_talk_group(&o.run)};
    const struct cli cli = {
        .command = "bench",
        .synopsis = "[OPTION]...",
        .about = "Times a model's forward pass beside the fp32 FMA peak of the device, "
                 "measured in the same loop (medians).",
        .groups = groups,
        .group_count = COUNT_OF(groups),
        .max_args = 0};
    struct cli_args args;
    enum status st;
    int code = cli_parse(&cli, argc, argv, &args);
    if (code != CLI_GO) return code;
    o.run.quiet = !o.run.verbose;
    st = o.files ? inputs_open(&o.inputs, (char *[]){(char *)o.files}, 1) : ST_OK;
    for (int t = 0; t < o.threads.count; t++)
        for (int b = 0; st == ST_OK && b < o.batches.count; b++)
            st = bench_row(&o, o.threads.value[t], o.batches.value[b]);
    if (st == ST_OK && (fflush(stdout) != 0 || ferror(stdout)))
        st = fail(ST_IO, "stdout could not be written");
    inputs_release(&o.inputs);
    return st == ST_OK ? 0 : cli_fail("bench", st);
}
