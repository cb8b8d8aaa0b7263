/*
 * attention_files: see attention_files.h.
 *
 *   npy  an array a file: STEM.npy, of a Swin's raw maps STEM.stage2.npy, of matrices
 *        STEM.layer3.npy, of several classes STEM.class281.npy
 *   h5   all arrays in one file, datasets named like the method, the stage or the layer
 *   csv  all arrays in one file, a line a number: layer,head,y,x,value; of a rollout y,x,value, of
 *        a gradient class,y,x,value
 *
 * pictures (attention_pictures.h), one page for all images (attention_page.h), and what is counted
 * of every head (attention_stats.h).
 */
#include "tools/attention_files.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/arrays.h"
#include "tools/attention_page.h"
#include "tools/attention_pictures.h"
#include "tools/attention_stats.h"
#include "tools/cli.h"
#include "tools/faithfulness.h"
#include "tools/output.h"
#include "tools/rows.h"
#include "weights/h5.h"
#include "weights/temporary.h"

struct attention_look attention_look_defaults(void) {
    return (struct attention_look){.filter = HEAT_BICUBIC, .opacity = 0.6};
}

void attention_tell_memory(const struct attention_maps *maps, size_t kept, int layers) {
    const double mib = 1.0 / (1 << 20);
    const bool gradient = maps->options.method == ATTENTION_GRADIENT;
    char more[80] = "";
    if (gradient)
        snprintf(more, sizeof more, ", %.1f MiB for gradients and the weights they take",
                 mib * (double)maps->gradient.bytes);
    cli_say("memory beside the model's, for passes of %d %s%s: %.1f MiB for a layer's "
            "probabilities, %.1f MiB for what is kept of %d layer%s%s",
            maps->batch, gradient ? "class" : "image",
            maps->batch == 1 ? ""
            : gradient       ? "es"
                             : "s",
            mib * (double)maps->pass_bytes, mib * (double)kept, layers, layers == 1 ? "" : "s",
            more);
}

/* ---- npy ------------------------------------------------------------------------------------- */

static enum status save_array(const struct attention_file *file, int n) {
    struct attention_array array;
    struct output out = {0};
    enum status st;
    char *path;
    TRY(attention_compute(file->maps, file->image, n, &array));
    path = str_format("%s%s%s.npy", file->stem, array.name[0] ? "." : "", array.name);
    if (!path) return ST_NOMEM;
    st = output_open(&out, path);
    out.whole = true;
    if (st == ST_OK) {
        arrays_npy_header(out.file, 4 - array.lead, array.dims + array.lead);
        fwrite(array.values, sizeof *array.values, attention_array_elements(&array), out.file);
    }
    st = output_close(&out, st);
    mem_free(path);
    return st;
}

static enum status save_npy(const struct attention_file *file) {
    for (int n = 0; n < attention_arrays(file->maps); n++)
        TRY(save_array(file, n));
    return ST_OK;
}

/* ---- h5 -------------------------------------------------------------------------------------- */

static enum status h5_attribute(struct h5 *h5, const char *name, const char *value) {
    char *line = str_printable(value);
    enum status st = line ? h5_set_string(h5, "/", name, line) : ST_NOMEM;
    mem_free(line);
    return st;
}

static enum status fill_h5(const struct attention_file *file, struct h5 *h5) {
    const char *method = attention_methods[file->maps->options.method];
    TRY(h5_attribute(h5, "model", file->model));
    TRY(h5_attribute(h5, "image", file->item->path));
    TRY(h5_attribute(h5, "method", method));
    TRY(h5_attribute(h5, "options", file->options));
    for (int n = 0; n < attention_arrays(file->maps); n++) {
        struct attention_array array;
        char name[40];
        TRY(attention_compute(file->maps, file->image, n, &array));
        snprintf(name, sizeof name, "/%s", array.name[0] ? array.name : method);
        TRY(h5_write(h5, name, DT_F32, 4 - array.lead, array.dims + array.lead, array.values));
        if (array.class >= 0) TRY(h5_set_ints(h5, name, "class", 1, &array.class));
        if (array.lead < 2) TRY(h5_set_ints(h5, name, "layers", (int)array.dims[0], array.layers));
        if (array.heads) TRY(h5_set_ints(h5, name, "heads", (int)array.dims[1], array.heads));
    }
    return ST_OK;
}

static enum status write_h5(const struct attention_file *file, const char *path, const char *part) {
    struct h5 *h5 = NULL;
    enum status st;
    TRY(output_check_regular(path));
    TRY(output_check_spares(path, file->model));
    TRY(h5_create(part, &h5));
    temporary_add(part);
    st = fill_h5(file, h5);
    if (h5_close(&h5) != ST_OK && st == ST_OK) st = ST_IO;
    if (st == ST_OK && rename(part, path) != 0)
        st = fail(ST_IO, "%s: could not be given its name", path);
    if (st == ST_OK)
        temporary_forget(part);
    else
        temporary_remove(part);
    return st;
}

static enum status save_h5(const struct attention_file *file) {
    char *path = str_format("%s.h5", file->stem);
    char *part = str_format("%s.h5.%ld.part", file->stem, (long)getpid());
    enum status st = path && part ? write_h5(file, path, part) : ST_NOMEM;
    mem_free(path);
    mem_free(part);
    return st;
}

/* ---- csv ------------------------------------------------------------------------------------- */

static void csv_lines(const struct attention_array *array, FILE *out) {
    const size_t *d = array->dims, inner = d[2] * d[3];
    char text[48];
    for (size_t i = 0; i < attention_array_elements(array); i++) {
        if (array->lead < 2) {
            fprintf(out, "%d,", array->layers[i / (d[1] * inner)]);
            if (array->heads) fprintf(out, "%d", array->heads[i / inner % d[1]]);
            fputc(',', out);
        }
        if (array->class >= 0) fprintf(out, "%d,", array->class);
        fprintf(out, "%zu,%zu,%s\n", i / d[3] % d[2], i % d[3],
                rows_score_text(array->values[i], "%.9g", text));
    }
}

static enum status write_csv(const struct attention_file *file, FILE *out) {
    for (int n = 0; n < attention_arrays(file->maps); n++) {
        struct attention_array array;
        TRY(attention_compute(file->maps, file->image, n, &array));
        if (n == 0 && array.class >= 0) fputs("class,", out);
        for (int axis = array.lead < 2 ? 0 : 2; n == 0 && axis < 4; axis++)
            fprintf(out, "%s,%s", array.axes[axis], axis == 3 ? "value\n" : "");
        csv_lines(&array, out);
    }
    return ST_OK;
}

static enum status save_csv(const struct attention_file *file) {
    char *path = str_format("%s.csv", file->stem);
    struct output out = {0};
    enum status st = path ? output_open(&out, path) : ST_NOMEM;
    out.whole = true;
    if (st == ST_OK) st = write_csv(file, out.file);
    st = output_close(&out, st);
    mem_free(path);
    return st;
}

/* ---- the table ------------------------------------------------------------------------------- */

const struct attention_kind attention_kinds[] = {
    {.name = "overlay", .save = attention_save_overlay, .picture = true, .patches = true},
    {.name = "map", .save = attention_save_map},
    {.name = "grid", .save = attention_save_grid},
    {.name = "mask", .save = attention_save_mask, .picture = true, .patches = true},
    {.name = "npy", .save = save_npy},
    {.name = "h5", .save = save_h5},
    {.name = "csv", .save = save_csv},
    {.name = "html", .save = attention_page_save, .picture = true},
    {.name = "stats", .save = attention_stats_save},
    {.name = "faithfulness", .save = faithfulness_save},
    {.name = NULL}};

/* The kind called by the first `length` bytes, as a set; 0 = none. */
static unsigned find_kind(const char *name, size_t length) {
    for (int k = 0; attention_kinds[k].name; k++)
        if (strlen(attention_kinds[k].name) == length &&
            strncmp(attention_kinds[k].name, name, length) == 0)
            return 1u << k;
    return 0;
}

unsigned attention_kind_named(const char *name) {
    return find_kind(name, strlen(name));
}

unsigned attention_kinds_default(enum attention_method method) {
    return attention_kind_named(method == ATTENTION_RAW ? "grid" : "overlay");
}

bool attention_kinds_picture(unsigned kinds) {
    bool any = false;
    for (int k = 0; attention_kinds[k].name; k++)
        any |= kinds & 1u << k && attention_kinds[k].picture;
    return any;
}

enum status attention_kinds_check(unsigned kinds, const struct attention_options *options) {
    const unsigned faithfulness = kinds & attention_kind_named("faithfulness");
    if (faithfulness && options->method == ATTENTION_RAW)
        return fail(ST_USAGE,
                    "option --faithfulness is for --method rollout and gradient: it asks one map");
    if (kinds & attention_kind_named("stats") && options->method == ATTENTION_GRADIENT)
        return fail(ST_USAGE, "--save stats is for --method rollout and raw, whose pass gives "
                              "probabilities");
    if (faithfulness && kinds & attention_kind_named("mask"))
        return fail(ST_USAGE, "option --faithfulness and a mask both write to stdout: run twice");
    for (int k = 0; attention_kinds[k].name; k++)
        if (kinds & 1u << k && attention_kinds[k].patches && options->focus.query == QUERY_ALL)
            return fail(ST_USAGE,
                        "--save %s shows one query's map, --query all has all: save map, "
                        "grid, npy, h5, csv or html of that",
                        attention_kinds[k].name);
    return ST_OK;
}

enum status attention_save(const struct attention_file *file, unsigned kinds) {
    for (int k = 0; attention_kinds[k].name; k++)
        if (kinds & 1u << k) TRY(attention_kinds[k].save(file));
    return ST_OK;
}

static void show_all(char *text, size_t size) {
    size_t used = 0;
    for (int k = 0; attention_kinds[k].name && used < size; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", k ? ", " : "",
                                 attention_kinds[k].name);
}

enum status attention_parse_kinds(const char *value, void *field) {
    unsigned kinds = 0;
    char names[128];
    for (const char *at = value, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, ",");
        if (!find_kind(at, (size_t)(end - at))) {
            show_all(names, sizeof names);
            return fail(ST_USAGE, "of %s one or more, with commas between", names);
        }
        kinds |= find_kind(at, (size_t)(end - at));
    }
    *(unsigned *)field = kinds;
    return ST_OK;
}

void attention_show_kinds(const void *field, char *text, size_t size) {
    size_t used = 0;
    for (int k = 0; attention_kinds[k].name && used < size; k++)
        if (*(const unsigned *)field & 1u << k)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "",
                                     attention_kinds[k].name);
}
