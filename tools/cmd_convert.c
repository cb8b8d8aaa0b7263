/*
 * vitrine convert CHECKPOINT: a public checkpoint to a vitrine model, with a report of what
 * became of every tensor.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/model_write.h"
#include "tools/output.h"
#include "tools/recipe.h"

struct convert_command {
    const char *output, *name;
    struct recipe recipe;
    bool list_names, dry_run, quiet, verbose;
};

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
    static const char *const actions[] = {"used",  "renamed",    "merged",
                                          "split", "transposed", "dropped"};
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
    printf(", %d classes\nparameters %llu in %zu tensors\n", c->classes,
           (unsigned long long)c->parameters, c->tensors);
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

/* ---- the command -------------------------------------------------------------------------- */

/* ST_USAGE when the output is one of the files that are read. */
static enum status check_spares(const struct convert_command *o,
                                const struct checkpoint *checkpoint) {
    char *file;
    TRY(output_check_spares(o->output, o->recipe.labels));
    for (size_t i = 0; (file = checkpoint_file(checkpoint, i)) != NULL; i++) {
        enum status st = output_check_spares(o->output, file);
        mem_free(file);
        TRY(st);
    }
    return ST_OK;
}

static enum status convert(const struct convert_command *o, const char *path) {
    struct checkpoint checkpoint = {0};
    struct conversion c = {0};
    struct labels labels = {0};
    struct convert_options options = {.name = o->name};
    const char **words = NULL;
    enum status st;
    TRY(recipe_check_line("name", o->name));
    TRY_OUT(recipe_apply(&o->recipe, &labels, &words, &options));
    TRY_OUT(checkpoint_open(path, o->recipe.key, &checkpoint));
    if (!o->dry_run) TRY_OUT(output_check_regular(o->output));
    if (!o->dry_run) TRY_OUT(check_spares(o, &checkpoint));
    TRY_OUT(checkpoint_hash(&checkpoint));
    TRY_OUT(convert_plan(&checkpoint, &options, &c));
    TRY_OUT(recipe_check(&o->recipe, &options, &c));
    if (!o->quiet) print_report(&c, o->verbose);
    if (!o->quiet && checkpoint.aside) printf("left aside: %s\n", checkpoint.aside);
    if (fflush(stdout) != 0) st = fail(ST_IO, "standard output: %s", strerror(errno));
    if (st != ST_OK || o->dry_run) goto out;
    TRY_OUT(model_write(&checkpoint, &options, &c, o->output));
    if (!o->quiet) cli_say("wrote %s", o->output);
out:
    conversion_release(&c);
    checkpoint_release(&checkpoint);
    labels_release(&labels);
    mem_free(words);
    return st;
}

#define ROW(member) offsetof(struct convert_command, member)

static const struct cli_option rows[] = {
    {'o', "output", "FILE", CLI_STRING, ROW(output), .help = "the model to write (.h5)"},
    {0, "name", "NAME", CLI_STRING, ROW(name), .help = "what the model is called",
     .unset = "the file's name without .h5"},
    {0, "list-names", NULL, CLI_FLAG, ROW(list_names),
     .help = "lists the architectures known by name"},
    {0, "dry-run", NULL, CLI_FLAG, ROW(dry_run), .help = "the report only; nothing is written"},
    {'q', "quiet", NULL, CLI_FLAG, ROW(quiet), .help = "no report"},
    {'v', "verbose", NULL, CLI_FLAG, ROW(verbose), .help = "a line for every tensor"},
};

int cmd_convert(int argc, char **argv) {
    struct convert_command o = {0};
    const struct cli_group groups[] = {{"Options of convert", rows, COUNT_OF(rows), &o},
                                       recipe_group(&o.recipe)};
    const struct cli cli = {
        .command = "convert",
        .synopsis = "[OPTION]... CHECKPOINT -o FILE",
        .about =
            "Converts a public checkpoint (safetensors, PyTorch, an index of several of these; "
            "ONNX; Keras;\n"
            ".npz of JAX; or a folder of them with config.json) to a vitrine model: a ViT or a "
            "Swin v1 or v2\n"
            "of timm, torchvision, transformers, keras_hub, Google's JAX code or the models' own "
            "code.\n"
            "Nothing of a PyTorch file is run.",
        .examples = "  vitrine convert dinov2-small/ -o dinov2-small.h5\n"
                    "  vitrine convert checkpoint.pth --key model_ema -o model.h5\n"
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
    recipe_release(&o.recipe);
    if (fflush(stdout) != 0 && code == 0)
        code = cli_fail("convert", fail(ST_IO, "stdout could not be written"));
    return code;
}
