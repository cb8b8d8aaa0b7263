/*
 * vitrine convert CHECKPOINT: a public checkpoint to a vitrine model, with a report of what
 * became of every tensor. The finished model is run once on a picture made by a formula; the
 * answer goes into the file as its self-test, which `inspect --verify` repeats.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datasets/labels.h"
#include "tools/cli.h"
#include "tools/model.h"
#include "tools/output.h"
#include "weights/convert.h"

#define SELFTEST_TOLERANCE 1e-4 /* what fp32 may differ by, of the greatest output */

struct convert_command {
    const char *output, *activation, *arch, *labels, *name, *license;
    int dtype; /* index into dtype_words */
    struct cli_list preprocess;
    bool list_names, dry_run, quiet, verbose;
};

static const char *const dtype_words[] = {"fp32", "fp16", "bf16", NULL};
static const char *const activation_words[] = {"gelu", "gelu_tanh", "quick_gelu"};

/* ---- the report --------------------------------------------------------------------------- */

/* `more`: how many rows like it are not shown. */
static void print_row(const struct convert_row *row, size_t more) {
    if (row->target && strcmp(row->source, row->target) == 0)
        printf("%-10s %s", row->action, row->source);
    else if (row->target)
        printf("%-10s %s -> %s", row->action, row->source, row->target);
    else
        printf("%-10s %s", row->action, row->source);
    if (more) printf(" and %zu like it", more);
    if (row->reason) printf("  (%s)", row->reason);
    putchar('\n');
}

static void print_counts(const struct conversion *c) {
    static const char *const actions[] = {"used", "renamed", "merged", "transposed", "dropped"};
    for (size_t a = 0; a < COUNT_OF(actions); a++) {
        size_t count = 0;
        for (size_t i = 0; i < c->row_count; i++)
            count += strcmp(c->rows[i].action, actions[a]) == 0;
        if (count) printf("%-10s %zu tensors\n", actions[a], count);
    }
}

/*
 * Rows whose reason a reader of the summary must see: what was dropped, and what changed shape. Of
 * those with one reason (the buffers of every block) the first speaks for all.
 */
static void print_reasons(const struct conversion *c) {
    const struct convert_row *groups[16];
    size_t counts[COUNT_OF(groups)], count = 0, g;
    for (size_t i = 0; i < c->row_count; i++) {
        const struct convert_row *row = &c->rows[i];
        if (!row->reason) continue;
        for (g = 0; g < count; g++) {
            if (row->action == groups[g]->action && strcmp(row->reason, groups[g]->reason) == 0)
                break;
        }
        if (g == COUNT_OF(groups)) {
            print_row(row, 0);
        } else if (g == count) {
            groups[count] = row;
            counts[count++] = 0;
        } else {
            counts[g]++;
        }
    }
    for (g = 0; g < count; g++)
        print_row(groups[g], counts[g]);
}

/* "2,2,6,2": one number a stage. */
static const char *list_text(const int *values, int count, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", values[i]);
    return text;
}

static void print_model(const struct conversion *c) {
    const struct vit_config *v = &c->vit;
    const struct swin_config *s = &c->swin;
    char depths[64], heads[64], windows[64];
    printf("model      %s: %dx%d, patch ", c->info.architecture, c->image_h, c->image_w);
    if (strcmp(c->info.family, "vit") == 0)
        printf("%dx%d, width %d, depth %d, %d heads, %s, eps %g, pool %s", v->patch_h, v->patch_w,
               v->dim, v->depth, v->heads,
               v->swiglu ? "swiglu" : vit_activation_name(v->activation), v->norm_eps,
               vit_pool_name(v->pool));
    else
        printf("%dx%d, Swin v%d, width %d, depths %s, heads %s, windows %s, %s, eps %g", s->patch_h,
               s->patch_w, s->version, s->dim,
               list_text(s->depths, s->stages, depths, sizeof depths),
               list_text(s->heads, s->stages, heads, sizeof heads),
               list_text(s->window, s->stages, windows, sizeof windows),
               vit_activation_name(s->activation), s->norm_eps);
    printf(", %d classes\n", c->classes);
}

static void print_report(const struct conversion *c, bool all) {
    const struct preprocess_spec *p = &c->preprocess;
    if (!all) print_counts(c);
    if (!all) print_reasons(c);
    for (size_t i = 0; all && i < c->row_count; i++)
        print_row(&c->rows[i], 0);
    printf("origin     %s\n", c->origin);
    print_model(c);
    printf("pictures   %dx%d, crop_pct %g, %s, %s, mean %g,%g,%g, std %g,%g,%g\n", p->height,
           p->width, p->crop_pct, p->crop_mode, p->interpolation, p->mean[0], p->mean[1],
           p->mean[2], p->std[0], p->std[1], p->std[2]);
    for (size_t i = 0; i < c->info.notes; i++)
        printf("%s: %s\n", c->info.note_names[i], c->info.note_values[i]);
}

static int list_names(void) {
    const char *name;
    for (size_t i = 0; (name = convert_arch_name(i)); i++)
        puts(name);
    return 0;
}

/* ---- the self-test ------------------------------------------------------------------------ */

/* A smooth picture with something in every channel and no symmetry: waves of unrelated lengths. */
static void draw_test_image(uint8_t *rgb, int height, int width) {
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            for (int c = 0; c < 3; c++) {
                double u = (double)x / width, v = (double)y / height;
                double wave = 52 * sin(19.0 * u + 7.0 * v + 2.1 * c) +
                              40 * sin(11.0 * v - 29.0 * u * v + 1.3 * c) +
                              30 * cos(41.0 * u + 3.0 * c) * sin(37.0 * v);
                rgb[((size_t)y * (size_t)width + (size_t)x) * 3 + (size_t)c] =
                    (uint8_t)lround(127.5 + wave);
            }
        }
    }
}

/* Runs `path` on the test picture: the logits, or the pooled features of a model without head. */
static enum status compute_selftest(const char *path, const struct devices *devices,
                                    struct selftest *test) {
    struct model_options options = {.max_batch = 1};
    struct model model = {0};
    enum status st = ST_NOMEM;
    TRY(model_open(path, &options, devices, &model));
    test->height = model.preprocess.height;
    test->width = model.preprocess.width;
    test->count = (size_t)(model.classes ? model.classes : model.dim);
    test->tolerance = SELFTEST_TOLERANCE;
    test->image = mem_zalloc((size_t)test->height * (size_t)test->width, 3);
    test->expected = mem_zalloc(test->count, sizeof *test->expected);
    test->origin = str_format("vitrine %s cpu fp32", VERSION);
    if (test->image && test->expected && test->origin) {
        struct model_taps taps = {.layer = -1, .pooled = test->expected};
        draw_test_image(test->image, test->height, test->width);
        st = model_forward(&model, test->image, 1, model.classes ? test->expected : NULL,
                           model.classes ? NULL : &taps);
    }
    model_release(&model);
    for (size_t i = 0; st == ST_OK && i < test->count; i++) {
        if (!isfinite(test->expected[i]))
            st = fail(ST_FORMAT, "%s: its output %zu for the test picture is not finite", path, i);
    }
    return st;
}

static enum status copy_labels(struct h5 *from, struct h5 *to, int classes) {
    char **ids = NULL, **names = NULL;
    size_t count = 0;
    enum status st = labels_group_read(from, classes, &ids, &names, &count);
    if (st == ST_OK && count)
        st = labels_group_write(to, (int)count, (const char *const *)ids,
                                (const char *const *)names);
    h5_free_names(ids, count);
    h5_free_names(names, count);
    return st;
}

static enum status copy_config(struct h5 *from, struct h5 *to, const char *family, int *classes) {
    struct vit_config vit;
    struct swin_config swin;
    if (strcmp(family, "swin") == 0) {
        TRY(swin_config_read(from, &swin));
        *classes = swin.classes;
        return swin_config_write(to, &swin);
    }
    TRY(vit_config_read(from, &vit));
    *classes = vit.classes;
    return vit_config_write(to, &vit);
}

static enum status copy_head(struct h5 *from, struct h5 *to) {
    struct model_info info = {0};
    struct preprocess_spec spec;
    int classes = 0;
    enum status st;
    TRY(model_info_read(from, &info));
    st = model_info_write(to, &info);
    if (st == ST_OK) st = copy_config(from, to, info.family, &classes);
    model_info_release(&info);
    TRY(st);
    TRY(preprocess_spec_read(from, &spec));
    TRY(preprocess_spec_write(to, &spec));
    return copy_labels(from, to, classes);
}

static enum status copy_dataset(struct h5 *from, struct h5 *to, const struct h5_dataset *d) {
    size_t count = 1;
    char *path = str_format("/parameters/%s", d->name);
    void *data = NULL;
    enum status st = path ? ST_OK : ST_NOMEM;
    for (int i = 0; st == ST_OK && i < d->rank; i++) {
        if (!size_mul(count, d->dims[i], &count)) st = fail(ST_NOMEM, "%s: is too large", d->name);
    }
    if (st == ST_OK && !(data = mem_zalloc(count, dtype_size(d->dtype)))) st = ST_NOMEM;
    if (st == ST_OK) st = h5_read_raw(from, path, d->dtype, data, count);
    if (st == ST_OK) st = h5_write(to, path, d->dtype, d->rank, d->dims, data);
    mem_free(data);
    mem_free(path);
    return st;
}

static enum status copy_model(struct h5 *from, struct h5 *to, const struct selftest *test) {
    struct h5_dataset *datasets = NULL;
    size_t count = 0;
    enum status st;
    TRY(copy_head(from, to));
    TRY(selftest_write(to, test));
    TRY(h5_make_group(to, "/parameters"));
    TRY(h5_list(from, "/parameters", &datasets, &count));
    st = ST_OK;
    for (size_t i = 0; st == ST_OK && i < count; i++)
        st = copy_dataset(from, to, &datasets[i]);
    h5_free_datasets(datasets, count);
    return st;
}

/* `path` = the model `plain` with the self-test in it; written beside and renamed. */
static enum status write_tested(const char *plain, const struct selftest *test, const char *path) {
    struct h5 *from = NULL, *to = NULL;
    char *part = str_format("%s.part-%ld", path, (long)getpid());
    enum status st = part ? h5_open(plain, &from) : ST_NOMEM;
    if (st == ST_OK) st = h5_create(part, &to);
    if (st == ST_OK) st = copy_model(from, to, test);
    if (h5_close(&to) != ST_OK && st == ST_OK) st = ST_IO;
    if (h5_close(&from) != ST_OK && st == ST_OK) st = ST_IO;
    if (st == ST_OK && rename(part, path) != 0) st = fail(ST_IO, "%s: %s", path, strerror(errno));
    if (st != ST_OK && part) unlink(part);
    mem_free(part);
    return st;
}

/*
 * Runs the model at `plain` in fp32 on the CPU and writes it with the answer to `path`. A model
 * that cannot be run is an error: its conversion was wrong.
 */
static enum status add_selftest(const char *plain, const char *path) {
    struct backend_options options = {.device = "cpu", .precision = "fp32"};
    struct devices devices;
    struct selftest test = {0};
    enum status st;
    TRY(devices_open(&options, &devices));
    st = compute_selftest(plain, &devices, &test);
    devices_close(&devices);
    if (st == ST_OK) st = write_tested(plain, &test, path);
    selftest_release(&test);
    return st;
}

/* ---- the command -------------------------------------------------------------------------- */

static enum status read_labels(const char *name, struct labels *out) {
    if (!name) return ST_OK;
    if (strchr(name, '/') || strchr(name, '.') || access(name, F_OK) == 0)
        return labels_read(out, name);
    return labels_builtin(out, name);
}

static enum status parse_activation(const char *value, void *field) {
    const char **out = field;
    for (size_t i = 0; i < COUNT_OF(activation_words); i++) {
        if (strcmp(activation_words[i], value) != 0) continue;
        *out = value;
        return ST_OK;
    }
    return fail(ST_USAGE, "gelu, gelu_tanh or quick_gelu");
}

/* Writes CHECKPOINT's model to o->output by way of an untested file beside it. */
static enum status write_output(const struct convert_command *o,
                                const struct checkpoint *checkpoint,
                                const struct convert_options *options, struct conversion *c) {
    char *plain = str_format("%s.untested-%ld.h5", o->output, (long)getpid());
    const char *slash = strrchr(o->output, '/'), *base = slash ? slash + 1 : o->output;
    size_t stem = strlen(base);
    enum status st = plain ? ST_OK : ST_NOMEM;
    if (stem > 3 && strcmp(base + stem - 3, ".h5") == 0) stem -= 3;
    if (st == ST_OK && !c->info.name && !(c->info.name = str_format("%.*s", (int)stem, base)))
        st = ST_NOMEM;
    if (st == ST_OK) st = convert_write(checkpoint, options, c, plain);
    if (st == ST_OK) {
        st = add_selftest(plain, o->output);
        unlink(plain);
    }
    mem_free(plain);
    return st;
}

static enum status convert(const struct convert_command *o, const char *path) {
    static const enum dtype dtypes[] = {DT_F32, DT_F16, DT_BF16};
    struct checkpoint checkpoint = {0};
    struct conversion c = {0};
    struct labels labels = {0};
    struct convert_options options = {.arch = o->arch,
                                      .name = o->name,
                                      .activation = o->activation,
                                      .license = o->license,
                                      .dtype = dtypes[o->dtype],
                                      .preprocess = o->preprocess.items,
                                      .preprocess_count = o->preprocess.count};
    enum status st;
    if (o->name && o->name[strcspn(o->name, "\n\r\t")])
        return fail(ST_USAGE, "option --name: a name of one line, without control characters");
    TRY_OUT(read_labels(o->labels, &labels));
    options.label_count = labels.count;
    options.label_ids = (const char *const *)labels.id;
    options.label_names = (const char *const *)labels.name;
    TRY_OUT(checkpoint_open(path, &checkpoint));
    if (!o->dry_run) TRY_OUT(output_check_regular(o->output));
    if (!o->dry_run) TRY_OUT(output_check_spares(o->output, checkpoint.weights_path));
    TRY_OUT(checkpoint_hash(&checkpoint));
    TRY_OUT(convert_plan(&checkpoint, &options, &c));
    if (labels.count && labels.count != c.classes) {
        st = fail(ST_USAGE, "--labels has %d classes, the model %d", labels.count, c.classes);
        goto out;
    }
    if (!o->quiet) print_report(&c, o->verbose);
    if (fflush(stdout) != 0) st = fail(ST_IO, "standard output: %s", strerror(errno));
    if (st != ST_OK || o->dry_run) goto out;
    TRY_OUT(write_output(o, &checkpoint, &options, &c));
    if (!o->quiet) cli_say("wrote %s", o->output);
out:
    conversion_release(&c);
    checkpoint_release(&checkpoint);
    labels_release(&labels);
    return st;
}

#define ROW(member) offsetof(struct convert_command, member)

static const struct cli_option rows[] = {
    {'o', "output", "FILE", CLI_STRING, ROW(output), .help = "the model to write (.h5)"},
    {0, "arch", "NAME", CLI_STRING, ROW(arch),
     .help = "timm's name of the architecture, with or without .tag,\nwhen the files do not say it",
     .unset = "from config.json or the shapes"},
    {0, "activation", "A", CLI_CUSTOM, ROW(activation), .help = "gelu, gelu_tanh or quick_gelu",
     .unset = "the origin's own", .parse = parse_activation},
    {0, "labels", "L", CLI_STRING, ROW(labels),
     .help = "imagenet-1k, or a file: one class a line, \"id<TAB>name\" or a name",
     .unset = "none"},
    {0, "dtype", "T", CLI_CHOICE, ROW(dtype),
     .help = "what parameters are stored as: fp32, fp16, bf16", .choices = dtype_words},
    {0, "preprocess", "KEY=VALUE", CLI_LIST, ROW(preprocess),
     .help = "over the origin's own; may be repeated. Keys: input_size (N or\nHxW), crop_pct, "
             "crop_mode, "
             "interpolation, crop_rounding, mean, std"},
    {0, "name", "NAME", CLI_STRING, ROW(name), .help = "what the model is called",
     .unset = "the file's name without .h5"},
    {0, "license", "TEXT", CLI_STRING, ROW(license), .help = "the licence of the weights",
     .unset = "what config.json says, else unknown"},
    {0, "list-names", NULL, CLI_FLAG, ROW(list_names),
     .help = "lists the architectures known by name"},
    {0, "dry-run", NULL, CLI_FLAG, ROW(dry_run), .help = "the report only; nothing is written"},
    {'q', "quiet", NULL, CLI_FLAG, ROW(quiet), .help = "no report"},
    {'v', "verbose", NULL, CLI_FLAG, ROW(verbose), .help = "a line for every tensor"},
};

int cmd_convert(int argc, char **argv) {
    struct convert_command o = {0};
    const struct cli_group groups[] = {{"Options of convert", rows, COUNT_OF(rows), &o}};
    const struct cli cli = {
        .command = "convert",
        .synopsis = "[OPTION]... CHECKPOINT -o FILE",
        .about =
            "Converts a public checkpoint (a safetensors file, or a folder with config.json and\n"
            "model.safetensors; .npz of JAX; ONNX) to a vitrine model: a ViT of timm, DeiT, MAE,\n"
            "DINOv2, transformers or Google's JAX code, a Swin v1 or v2 of timm or of its own.",
        .examples = "  vitrine convert dinov2-small/ -o dinov2-small.h5\n"
                    "  vitrine convert deit.safetensors --arch deit_tiny_patch16_224 "
                    "--labels imagenet-1k -o deit.h5\n"
                    "  vitrine convert B_16-i21k-300ep.npz --activation gelu -o vit_base.h5\n",
        .groups = groups,
        .group_count = COUNT_OF(groups),
        .min_args = 0,
        .max_args = 1,
        .args_wanted = "a checkpoint"};
    struct cli_args args;
    enum status st = ST_OK;
    int code = cli_parse(&cli, argc, argv, &args);
    if (code != CLI_GO) return code;
    if (o.list_names) {
        code = list_names();
    } else {
        if (args.count == 0)
            st = fail(ST_USAGE, "want a checkpoint: a file or a folder");
        else if (!o.output && !o.dry_run)
            st = fail(ST_USAGE, "want -o FILE (or --dry-run)");
        else
            st = convert(&o, args.items[0]);
        code = st == ST_OK ? 0 : cli_fail("convert", st);
    }
    cli_list_release(&o.preprocess);
    if (fflush(stdout) != 0 && code == 0)
        code = cli_fail("convert", fail(ST_IO, "stdout could not be written"));
    return code;
}
