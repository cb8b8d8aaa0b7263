/*
 * convert_plan: names and shapes. Every tensor of the checkpoint gets a row of the report; the
 * used ones become outputs, sorted by canonical name; the config follows from the outputs'
 * shapes (convert_vit.c, convert_swin.c); then the list of tensors that this config demands is held
 * against the outputs. Faults are collected, so that one run shows them all.
 */
#include "weights/convert_plan.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIAS_TABLE "relative_position_bias_table"

/* A used tensor before its parts are put together. */
struct mapped {
    struct name_result to;
    const struct tensor *tensor;
    size_t row;
};

void problems_add(struct problems *problems, const char *fmt, ...) {
    size_t room = sizeof problems->text - problems->length;
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    problems->count++;
    if (problems->shown + 1 < problems->count || strlen(text) + 3 > room) return;
    problems->length += (size_t)snprintf(problems->text + problems->length, room, "%s%s",
                                         problems->length ? "; " : "", text);
    problems->shown++;
}

enum status plan_problems(const struct plan *plan) {
    const struct problems *p = &plan->problems;
    if (p->count == 0) return ST_OK;
    if (p->count == p->shown)
        return fail(ST_SHAPE, "%s: %s", plan->checkpoint->weights_path, p->text);
    return fail(ST_SHAPE, "%s: %s; and %zu more", plan->checkpoint->weights_path, p->text,
                p->count - p->shown);
}

static int by_output_name(const void *a, const void *b) {
    return strcmp(((const struct conversion_tensor *)a)->name,
                  ((const struct conversion_tensor *)b)->name);
}

struct conversion_tensor *plan_find(const struct plan *plan, const char *name) {
    struct conversion_tensor key;
    if (plan->out->output_count == 0) return NULL;
    snprintf(key.name, sizeof key.name, "%s", name);
    return bsearch(&key, plan->out->outputs, plan->out->output_count, sizeof key, by_output_name);
}

void plan_sort(struct plan *plan) {
    qsort(plan->out->outputs, plan->out->output_count, sizeof *plan->out->outputs, by_output_name);
}

enum status plan_note(struct plan *plan, const char *name, const char *value) {
    struct model_info *info = &plan->out->info;
    size_t names = info->notes, values = info->notes;
    TRY(mem_grow((void **)&info->note_names, &names, info->notes + 1, sizeof(char *)));
    TRY(mem_grow((void **)&info->note_values, &values, info->notes + 1, sizeof(char *)));
    info->note_names[info->notes] = str_copy(name);
    info->note_values[info->notes++] = str_printable(value);
    if (!info->note_names[info->notes - 1] || !info->note_values[info->notes - 1]) return ST_NOMEM;
    return ST_OK;
}

/* ---- names ---- */

/* The tensor that gives the origin away, and what stands before it; ST_SHAPE when two do. */
static enum status find_marker(struct plan *plan, const struct name_origin *origin) {
    const struct checkpoint *c = plan->checkpoint;
    for (size_t i = 0; i < c->count; i++) {
        size_t prefix;
        if (!names_recognise(origin, c->tensors[i].name, &prefix)) continue;
        if (plan->origin)
            return fail(ST_SHAPE, "%s: holds more than one model: '%s%s' and '%s'", c->weights_path,
                        plan->prefix, origin->marker, c->tensors[i].name);
        plan->origin = origin;
        plan->prefix = str_format("%.*s", (int)prefix, c->tensors[i].name);
        if (!plan->prefix) return ST_NOMEM;
    }
    return ST_OK;
}

/*
 * A Swin has the marker of a ViT as well, version 2 that of version 1, transformers' that of Swin's
 * own code behind "encoder.", vit-keras that of JAX: those are asked for first.
 */
static enum status find_origin(struct plan *plan) {
    static const struct name_origin *const origins[] = {&names_transformers_swinv2,
                                                        &names_transformers_swin,
                                                        &names_swin_official,
                                                        &names_swin,
                                                        &names_timm,
                                                        &names_transformers,
                                                        &names_transformers_tf,
                                                        &names_torchvision,
                                                        &names_torchvision_swin,
                                                        &names_keras_hub,
                                                        &names_keras_hub_swin,
                                                        &names_vit_keras,
                                                        &names_vit_keras_3,
                                                        &names_jax};
    const struct checkpoint *c = plan->checkpoint;
    for (size_t i = 0; i < c->count; i++) {
        const char *reason = names_foreign(c->tensors[i].name);
        if (reason) return fail(ST_FORMAT, "%s: %s", c->weights_path, reason);
    }
    for (size_t o = 0; o < COUNT_OF(origins) && !plan->origin; o++)
        TRY(find_marker(plan, origins[o]));
    if (plan->origin) return ST_OK;
    return fail(ST_FORMAT,
                "%s: none of its %zu tensors is called patch_embed.proj.weight (timm, DeiT, "
                "DINOv2, Swin), embeddings.patch_embeddings.projection.weight (transformers), "
                "conv_proj.weight or features.0.0.weight (torchvision), embedding/kernel "
                "(Google's JAX ViT) or as in keras_hub, vit-keras or transformers' TensorFlow "
                "code; the first is %.100s",
                c->weights_path, c->count, c->count ? c->tensors[0].name : "missing");
}

/* Whether the numbers are put into another order on their way. */
static bool transposed(const struct tensor *tensor, enum layout layout) {
    return layout_moves(layout) || (tensor->column_major && tensor->rank > 1);
}

/* "(192, 3, 64) to (192, 192)", where the layout says so; or NULL, which without `*st` is fine. */
static char *reshaped(const struct tensor *tensor, enum layout layout, enum status *st) {
    size_t dims[TENSOR_MAX_RANK];
    char was[96], is[96], *text;
    int rank;
    if (!layout_moves(layout) || !layout_shape(layout, tensor, dims, &rank)) return NULL;
    text = str_format("%s to %s", shape_text(tensor->dims, tensor->rank, was, sizeof was),
                      shape_text(dims, rank, is, sizeof is));
    if (!text) *st = ST_NOMEM;
    return text;
}

static enum status add_row(struct plan *plan, const struct tensor *tensor,
                           const struct name_result *to, size_t *index) {
    struct conversion *out = plan->out;
    const char *source = tensor->name;
    enum status st = ST_OK;
    TRY(mem_grow((void **)&out->rows, &plan->row_capacity, out->row_count + 1, sizeof *out->rows));
    struct convert_row *row = &out->rows[ *index = out->row_count++];
    row->source = str_copy(source);
    row->action = to->fate != NAME_USE ? "dropped" : to->parts ? "merged" : "used";
    if (to->fate == NAME_USE && !to->parts && strcmp(source, to->target) != 0)
        row->action = "renamed";
    if (to->fate == NAME_USE && !to->parts && transposed(tensor, to->layout))
        row->action = "transposed";
    if (to->fate == NAME_USE) row->target = str_copy(to->target);
    row->reason = to->reason ? str_copy(to->reason) : NULL;
    if (to->fate == NAME_USE) row->reason = reshaped(tensor, to->layout, &st);
    TRY(st);
    if (!row->source || (to->fate == NAME_USE && !row->target) || (to->reason && !row->reason))
        return ST_NOMEM;
    return ST_OK;
}

/* What becomes of a tensor: by its name, unless the container or another tensor knows better. */
static void map_name(const struct plan *plan, const struct tensor *tensor, bool headless,
                     struct name_result *to) {
    const size_t prefix = strlen(plan->prefix);
    const char *name = tensor->name;
    names_map(plan->origin, strncmp(name, plan->prefix, prefix) == 0 ? name + prefix : name, to);
    if (tensor->unused) to->reason = tensor->unused;
    if (headless && to->fate == NAME_USE && strncmp(to->target, "head.", 5) == 0)
        to->reason = "the head reads a layer that is dropped";
    if (to->fate == NAME_USE && to->reason) to->fate = NAME_DROP;
    if (tensor->unused) to->fate = NAME_DROP;
}

/* A graph whose exporter folded bias tables keeps what it adds, (1, H, T, T), and no table. */
static enum status check_folded(const struct plan *plan) {
    const struct checkpoint *c = plan->checkpoint;
    char text[96];
    if (plan->origin->family != NAMES_VIT) return ST_OK; /* a Swin's is unfolded by its reader */
    for (size_t i = 0; i < c->count; i++) {
        const struct tensor *t = &c->tensors[i];
        const size_t length = strlen(t->name), end = strlen(BIAS_TABLE);
        if (length < end || strcmp(t->name + length - end, BIAS_TABLE) != 0 || t->rank < 3)
            continue;
        return fail(ST_FORMAT,
                    "%s: the relative-position bias is folded, as torch.onnx does (%.160s is %s, "
                    "no table); convert the checkpoint that it was exported from",
                    c->weights_path, t->name, shape_text(t->dims, t->rank, text, sizeof text));
    }
    return ST_OK;
}

/* One row a tensor; the used ones go into mapped (*count). */
static enum status map_names(struct plan *plan, struct mapped *mapped, size_t *count) {
    const struct checkpoint *c = plan->checkpoint;
    bool headless = false;
    if (plan->origin->headless) {
        char *key = str_format("%s%s", plan->prefix, plan->origin->headless);
        if (!key) return ST_NOMEM;
        headless = checkpoint_find(c, key) != NULL;
        mem_free(key);
    }
    for (size_t i = 0; i < c->count; i++) {
        const char *name = c->tensors[i].name;
        struct mapped *m = &mapped[*count];
        m->tensor = &c->tensors[i];
        map_name(plan, m->tensor, headless, &m->to);
        if (m->to.fate == NAME_UNKNOWN) problems_add(&plan->problems, "%.160s is not known", name);
        if (m->to.fate == NAME_REFUSE)
            problems_add(&plan->problems, "%.160s: %s", name, m->to.reason);
        if (m->to.fate != NAME_USE && m->to.fate != NAME_DROP) continue;
        TRY(add_row(plan, m->tensor, &m->to, &m->row));
        if (m->to.fate == NAME_USE) (*count)++;
    }
    return ST_OK;
}

static int by_target(const void *a, const void *b) {
    const struct mapped *x = a, *y = b;
    int order = strcmp(x->to.target, y->to.target);
    return order ? order : x->to.part - y->to.part;
}

/* Whether the part can be stacked on those before it: same type class, same dims but the first. */
static void check_part(struct plan *plan, const struct conversion_tensor *out,
                       const struct tensor *part, const size_t *dims, int rank) {
    bool fits = rank == out->rank && rank > 0;
    if (part->dtype != DT_F32 && part->dtype != DT_F16 && part->dtype != DT_BF16 &&
        part->dtype != DT_F64)
        problems_add(&plan->problems, "%s is %s, not floating point", part->name,
                     dtype_name(part->dtype));
    for (int i = 1; fits && i < rank; i++)
        fits = dims[i] == out->dims[i];
    if (out->parts > 0 && !fits)
        problems_add(&plan->problems, "%s and %s cannot be stacked", out->part[0]->name,
                     part->name);
}

/* The dims (TENSOR_MAX_RANK) that the part has in canonical order; a fault: its own. */
static void canonical_shape(struct plan *plan, const struct mapped *m, size_t *dims, int *rank) {
    char text[96];
    if (layout_shape(m->to.layout, m->tensor, dims, rank)) return;
    problems_add(&plan->problems, "%s is %s, which is no %s", m->tensor->name,
                 shape_text(m->tensor->dims, m->tensor->rank, text, sizeof text),
                 layout_name(m->to.layout));
    memcpy(dims, m->tensor->dims, sizeof m->tensor->dims);
    *rank = m->tensor->rank;
}

/* Whether any block has a bias of its key: the second of three parts, of one axis. */
static bool has_key_bias(const struct mapped *mapped, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (mapped[i].to.parts == 3 && mapped[i].to.part == 1 && mapped[i].tensor->rank == 1)
            return true;
    }
    return false;
}

/*
 * Whether all parts of an output are there. Some origins' keys may have no bias, if no block's has
 * (BEiT); `keys`: one has.
 */
static void check_parts(struct plan *plan, const struct mapped *first,
                        struct conversion_tensor *out, bool keys) {
    if (first->to.parts == 0 || out->parts == first->to.parts) return;
    if (!keys && plan->origin->key_bias_optional && first->to.parts == 3 && out->parts == 2 &&
        first[0].to.part == 0 && first[1].to.part == 2 && out->rank == 1 &&
        out->part[0]->dims[0] == out->part[1]->dims[0] &&
        size_add(out->dims[0], out->part[0]->dims[0], &out->dims[0])) {
        out->no_key = true;
        return;
    }
    problems_add(&plan->problems, "only %d of the %d parts of %s are there (%s)", out->parts,
                 first->to.parts, out->name, out->part[0]->name);
}

/* The outputs: mapped tensors of equal target, sorted by part, become one. */
static void merge_parts(struct plan *plan, const struct mapped *mapped, size_t count) {
    struct conversion *c = plan->out;
    const bool keys = has_key_bias(mapped, count);
    for (size_t i = 0; i < count; i++) {
        const struct mapped *m = &mapped[i];
        bool next = i == 0 || strcmp(m->to.target, mapped[i - 1].to.target) != 0;
        size_t dims[TENSOR_MAX_RANK];
        int rank;
        canonical_shape(plan, m, dims, &rank);
        struct conversion_tensor *out =
            next ? &c->outputs[c->output_count++] : &c->outputs[c->output_count - 1];
        if (next) {
            memcpy(out->name, m->to.target, sizeof out->name);
            out->row = m->row;
            out->rank = rank;
            memcpy(out->dims, dims, sizeof out->dims);
            out->dims[0] = 0; /* grows with every part; a scalar has none */
        } else if (m->to.part == mapped[i - 1].to.part || m->to.parts != mapped[i - 1].to.parts) {
            problems_add(&plan->problems, "%s and %s both give %s", out->part[out->parts - 1]->name,
                         m->tensor->name, out->name);
            continue;
        }
        check_part(plan, out, m->tensor, dims, rank);
        out->layout[out->parts] = m->to.layout;
        out->part[out->parts++] = m->tensor;
        if (rank > 0 && !size_add(out->dims[0], dims[0], &out->dims[0]))
            problems_add(&plan->problems, "%s overflows", out->name);
        if (i + 1 == count || strcmp(m->to.target, mapped[i + 1].to.target) != 0)
            check_parts(plan, &mapped[i + 1 - (size_t)out->parts], out, keys);
    }
}

static enum status plan_names(struct plan *plan) {
    const size_t tensors = plan->checkpoint->count;
    struct mapped *mapped = mem_zalloc(tensors, sizeof *mapped);
    size_t count = 0;
    enum status st = ST_NOMEM;
    plan->out->outputs = mem_zalloc(tensors, sizeof *plan->out->outputs);
    if (mapped && plan->out->outputs) st = map_names(plan, mapped, &count);
    if (st == ST_OK) {
        qsort(mapped, count, sizeof *mapped, by_target);
        merge_parts(plan, mapped, count);
    }
    mem_free(mapped);
    return st;
}

/* ---- shapes ---- */

int plan_axis(const struct conversion_tensor *t, int axis) {
    return t && axis < t->rank && t->dims[axis] <= CONVERT_MAX_DIM ? (int)t->dims[axis] : 0;
}

static void count_demanded(struct conversion *c, int rank, const size_t *sizes) {
    size_t count = 1;
    bool fits = true;
    for (int i = 0; i < rank; i++)
        fits = fits && size_mul(count, sizes[i], &count);
    c->tensors++;
    c->parameters =
        fits && count <= UINT64_MAX - c->parameters ? c->parameters + count : UINT64_MAX;
}

void plan_expect(struct plan *plan, int rank, const int *dims, const char *fmt, ...) {
    char name[NAME_MAX_LENGTH], is[96], want[96];
    size_t sizes[TENSOR_MAX_RANK];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    struct conversion_tensor *t = plan_find(plan, name);
    bool same = t && t->rank == rank, empty = false;
    for (int i = 0; i < rank; i++) {
        sizes[i] = (size_t)dims[i];
        empty = empty || dims[i] == 0;
        same = same && t->dims[i] == sizes[i];
    }
    shape_text(sizes, rank, want, sizeof want);
    count_demanded(plan->out, rank, sizes);
    if (!t)
        problems_add(&plan->problems, "%s%s%s is missing", name, empty ? "" : " ",
                     empty ? "" : want);
    else if (!same)
        problems_add(&plan->problems, "%s is %s, want %s", t->part[0]->name,
                     shape_text(t->dims, t->rank, is, sizeof is), want);
    else if (empty)
        problems_add(&plan->problems, "%s is %s: empty", t->part[0]->name, want);
    if (t) t->expected = true;
}

void plan_expect_both(struct plan *plan, const char *name, int rows, int columns, bool bias) {
    if (columns)
        plan_expect(plan, 2, (const int[]){rows, columns}, "%s.weight", name);
    else
        plan_expect(plan, 1, &rows, "%s.weight", name);
    if (bias) plan_expect(plan, 1, &rows, "%s.bias", name);
}

/* What the config does not demand. */
static void find_extra(struct plan *plan) {
    for (size_t i = 0; i < plan->out->output_count; i++) {
        const struct conversion_tensor *t = &plan->out->outputs[i];
        if (!t->expected)
            problems_add(&plan->problems, "%s has no place in this model", t->part[0]->name);
    }
}

/* ---- the whole ---- */

static enum status plan_info(struct plan *plan) {
    struct model_info *info = &plan->out->info;
    const struct convert_options *options = plan->options;
    const char *slash = strrchr(plan->checkpoint->weights_path, '/');
    char *file = str_printable(slash ? slash + 1 : plan->checkpoint->weights_path);
    info->family = str_copy(plan->out->family->name);
    if (file)
        info->source =
            str_format("%s, %s of %s", plan->out->origin, plan->checkpoint->container, file);
    mem_free(file);
    info->source_sha256 = str_copy(plan->checkpoint->sha256);
    if (options->name) info->name = str_printable(options->name);
    if (options->license) {
        mem_free(info->license);
        info->license = str_printable(options->license);
    } else if (!info->license) {
        info->license = str_copy("unknown");
    }
    if (!info->family || !info->source || !info->source_sha256 || !info->license ||
        (options->name && !info->name))
        return ST_NOMEM;
    if (plan->checkpoint->wrapper) TRY(plan_note(plan, "taken_from", plan->checkpoint->wrapper));
    return plan->prefix[0] ? plan_note(plan, "peeled_prefix", plan->prefix) : ST_OK;
}

static enum status plan_all(struct plan *plan) {
    static const struct convert_family *const families[] = {
        [NAMES_VIT] = &convert_vit, [NAMES_SWIN] = &convert_swin};
    TRY(find_origin(plan));
    const struct convert_family *family = families[plan->origin->family];
    plan->out->family = family;
    plan->out->origin = plan->origin->title;
    TRY(check_folded(plan));
    TRY(plan_names(plan));
    TRY(family->shapes(plan));
    family->demand(plan);
    find_extra(plan);
    TRY(plan_problems(plan));
    TRY(plan_parse_files(plan));
    TRY(plan_choose_architecture(plan));
    TRY(family->settle(plan));
    plan_claim_head(plan);
    TRY(plan_problems(plan));
    TRY(plan_settle_preprocess(plan));
    TRY(plan_labels(plan));
    TRY(family->check(plan->out, plan->checkpoint->weights_path));
    TRY(plan_check_cost(plan));
    TRY(plan_check_values(plan));
    TRY(plan_problems(plan));
    return plan_info(plan);
}

enum status convert_plan(const struct checkpoint *checkpoint, const struct convert_options *options,
                         struct conversion *out) {
    struct plan plan = {.checkpoint = checkpoint, .options = options, .out = out};
    enum status st;
    memset(out, 0, sizeof *out);
    st = plan_all(&plan);
    if (st != ST_OK) conversion_release(out);
    mem_free(plan.prefix);
    cJSON_Delete(plan.config);
    cJSON_Delete(plan.processor);
    cJSON_Delete(plan.backbone);
    return st;
}
