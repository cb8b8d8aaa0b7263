/*
 * convert_plan: names and shapes. Every tensor of the checkpoint gets a row of the report; the
 * used ones become outputs, sorted by canonical name; the config follows from the outputs'
 * shapes; then the list of tensors that this config demands is held against the outputs. Faults
 * are collected, so that one run shows them all.
 */
#include "weights/convert_plan.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static enum status problems_fail(const struct plan *plan) {
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

enum status plan_note(struct plan *plan, const char *name, const char *value) {
    struct model_info *info = &plan->out->info;
    size_t names = info->notes, values = info->notes;
    TRY(mem_grow((void **)&info->note_names, &names, info->notes + 1, sizeof(char *)));
    TRY(mem_grow((void **)&info->note_values, &values, info->notes + 1, sizeof(char *)));
    info->note_names[info->notes] = str_copy(name);
    info->note_values[info->notes++] = str_copy(value);
    if (!info->note_names[info->notes - 1] || !info->note_values[info->notes - 1]) return ST_NOMEM;
    return ST_OK;
}

/* ---- names ---- */

static enum status find_origin(struct plan *plan) {
    static const struct name_origin *const origins[] = {&names_timm, &names_transformers};
    const struct checkpoint *c = plan->checkpoint;
    const char *reason = NULL;
    for (size_t i = 0; i < c->count; i++) {
        const char *name = c->tensors[i].name;
        size_t prefix;
        if (!reason) reason = names_foreign(name);
        for (size_t o = 0; o < COUNT_OF(origins); o++) {
            if (!names_recognise(origins[o], name, &prefix)) continue;
            if (plan->origin)
                return fail(ST_SHAPE, "%s: holds more than one model: '%s%s' and '%s'",
                            c->weights_path, plan->prefix, plan->origin->marker, name);
            plan->origin = origins[o];
            plan->prefix = str_format("%.*s", (int)prefix, name);
            if (!plan->prefix) return ST_NOMEM;
        }
    }
    if (reason) return fail(ST_FORMAT, "%s: %s", c->weights_path, reason);
    if (plan->origin) return ST_OK;
    return fail(
        ST_FORMAT,
        "%s: none of its %zu tensors is called patch_embed.proj.weight (timm, DeiT, DINOv2) or "
        "embeddings.patch_embeddings.projection.weight (transformers); the first is %.100s",
        c->weights_path, c->count, c->count ? c->tensors[0].name : "missing");
}

static enum status add_row(struct plan *plan, const char *source, const struct name_result *to,
                           size_t *index) {
    struct conversion *out = plan->out;
    TRY(mem_grow((void **)&out->rows, &plan->row_capacity, out->row_count + 1, sizeof *out->rows));
    struct convert_row *row = &out->rows[ *index = out->row_count++];
    row->source = str_copy(source);
    row->action = to->fate != NAME_USE ? "dropped" : to->parts ? "merged" : "used";
    if (to->fate == NAME_USE && !to->parts && strcmp(source, to->target) != 0)
        row->action = "renamed";
    if (to->fate == NAME_USE) row->target = str_copy(to->target);
    if (to->reason) row->reason = str_copy(to->reason);
    if (!row->source || (to->fate == NAME_USE && !row->target) || (to->reason && !row->reason))
        return ST_NOMEM;
    return ST_OK;
}

/* One row a tensor; the used ones go into mapped (*count). */
static enum status map_names(struct plan *plan, struct mapped *mapped, size_t *count) {
    const struct checkpoint *c = plan->checkpoint;
    size_t prefix = strlen(plan->prefix);
    for (size_t i = 0; i < c->count; i++) {
        const char *name = c->tensors[i].name;
        struct mapped *m = &mapped[*count];
        names_map(plan->origin, strncmp(name, plan->prefix, prefix) == 0 ? name + prefix : name,
                  &m->to);
        m->tensor = &c->tensors[i];
        if (m->to.fate == NAME_UNKNOWN) problems_add(&plan->problems, "%.160s is not known", name);
        if (m->to.fate == NAME_REFUSE)
            problems_add(&plan->problems, "%.160s: %s", name, m->to.reason);
        if (m->to.fate != NAME_USE && m->to.fate != NAME_DROP) continue;
        TRY(add_row(plan, name, &m->to, &m->row));
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
                       const struct tensor *part) {
    bool fits = part->rank == out->rank && part->rank > 0;
    if (part->dtype != DT_F32 && part->dtype != DT_F16 && part->dtype != DT_BF16 &&
        part->dtype != DT_F64)
        problems_add(&plan->problems, "%s is %s, not floating point", part->name,
                     dtype_name(part->dtype));
    for (int i = 1; fits && i < part->rank; i++)
        fits = part->dims[i] == out->dims[i];
    if (out->parts > 0 && !fits)
        problems_add(&plan->problems, "%s and %s cannot be stacked", out->part[0]->name,
                     part->name);
}

/* The outputs: mapped tensors of equal target, sorted by part, become one. */
static void merge_parts(struct plan *plan, const struct mapped *mapped, size_t count) {
    struct conversion *c = plan->out;
    for (size_t i = 0; i < count; i++) {
        const struct mapped *m = &mapped[i];
        bool next = i == 0 || strcmp(m->to.target, mapped[i - 1].to.target) != 0;
        struct conversion_tensor *out =
            next ? &c->outputs[c->output_count++] : &c->outputs[c->output_count - 1];
        if (next) {
            memcpy(out->name, m->to.target, sizeof out->name);
            out->row = m->row;
            out->rank = m->tensor->rank;
            memcpy(out->dims, m->tensor->dims, sizeof out->dims);
            out->dims[0] = 0; /* grows with every part; a scalar has none */
        } else if (m->to.part == mapped[i - 1].to.part || m->to.parts != mapped[i - 1].to.parts) {
            problems_add(&plan->problems, "%s and %s both give %s", out->part[out->parts - 1]->name,
                         m->tensor->name, out->name);
            continue;
        }
        check_part(plan, out, m->tensor);
        out->part[out->parts++] = m->tensor;
        if (m->tensor->rank > 0 && !size_add(out->dims[0], m->tensor->dims[0], &out->dims[0]))
            problems_add(&plan->problems, "%s overflows", out->name);
        if (i + 1 == count || strcmp(m->to.target, mapped[i + 1].to.target) != 0) {
            if (m->to.parts && out->parts != m->to.parts)
                problems_add(&plan->problems, "only %d of the %d parts of %s are there (%s)",
                             out->parts, m->to.parts, out->name, out->part[0]->name);
        }
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

/*
 * Axis `axis` of the tensor as an int; 0 when there is no such tensor or axis, or it is beyond
 * the limit.
 */
static int axis_of(const struct conversion_tensor *t, int axis) {
    return t && axis < t->rank && t->dims[axis] <= CONVERT_MAX_DIM ? (int)t->dims[axis] : 0;
}

/* The first output blocks.N.<below>, whichever block has it. */
static struct conversion_tensor *find_in_blocks(const struct plan *plan, const char *below) {
    for (int n = 0; n < plan->out->config.depth; n++) {
        char name[NAME_MAX_LENGTH];
        snprintf(name, sizeof name, "blocks.%d.%s", n, below);
        struct conversion_tensor *found = plan_find(plan, name);
        if (found) return found;
    }
    return NULL;
}

/* Very old timm files hold the patch kernel as (C, 3*p*p). */
static enum status unflatten_patch(struct plan *plan, struct conversion_tensor *kernel) {
    int side = 1;
    if (kernel->rank != 2) return ST_OK;
    while (side < 1024 && 3 * side * side < axis_of(kernel, 1))
        side++;
    if (3 * side * side != axis_of(kernel, 1)) return ST_OK;
    kernel->rank = 4;
    kernel->dims[1] = 3;
    kernel->dims[2] = kernel->dims[3] = (size_t)side;
    struct convert_row *row = &plan->out->rows[kernel->row];
    row->reason = str_format("(C, 3*p*p) to (C, 3, %d, %d)", side, side);
    return row->reason ? ST_OK : ST_NOMEM;
}

static int count_blocks(const struct plan *plan) {
    long last = -1;
    for (size_t i = 0; i < plan->out->output_count; i++) {
        const char *name = plan->out->outputs[i].name;
        char digits[8] = "";
        long index;
        if (strncmp(name, "blocks.", 7) != 0) continue;
        snprintf(digits, sizeof digits, "%.*s", (int)strspn(name + 7, "0123456789"), name + 7);
        if (parse_long(digits, 0, 9999, &index) && index > last) last = index;
    }
    return (int)last + 1;
}

static enum status config_from_shapes(struct plan *plan) {
    struct vit_config *c = &plan->out->config;
    struct conversion_tensor *kernel = plan_find(plan, "patch_embed.proj.weight");
    if (kernel) TRY(unflatten_patch(plan, kernel));
    c->dim = axis_of(kernel, 0);
    c->patch_h = axis_of(kernel, 2);
    c->patch_w = axis_of(kernel, 3);
    if (kernel && kernel->rank == 4 && kernel->dims[1] != 3)
        problems_add(&plan->problems, "%s takes pictures of %zu channels, vitrine has 3",
                     kernel->part[0]->name, kernel->dims[1]);
    c->depth = count_blocks(plan);
    if (c->depth < 1 || c->depth > CONVERT_MAX_DEPTH)
        return fail(ST_SHAPE, "%s: has %d blocks, want 1 to %d", plan->checkpoint->weights_path,
                    c->depth, CONVERT_MAX_DEPTH);
    c->hidden = axis_of(find_in_blocks(plan, "mlp.fc2.weight"), 1);
    c->swiglu =
        c->hidden > 0 && axis_of(find_in_blocks(plan, "mlp.fc1.weight"), 0) == 2 * c->hidden;
    c->classes = axis_of(plan_find(plan, "head.weight"), 0);
    c->class_token = plan_find(plan, "cls_token") != NULL;
    c->dist_token = plan_find(plan, "dist_token") != NULL;
    c->registers = axis_of(plan_find(plan, "reg_token"), 1);
    c->positions = plan_find(plan, "pos_embed") != NULL;
    c->patch_bias = plan_find(plan, "patch_embed.proj.bias") != NULL;
    c->pre_norm = plan_find(plan, "norm_pre.weight") != NULL;
    c->qkv_bias = find_in_blocks(plan, "attn.qkv.bias") != NULL;
    c->layer_scale = find_in_blocks(plan, "ls1.gamma") || find_in_blocks(plan, "ls2.gamma");
    if (find_in_blocks(plan, "attn.q_norm.weight"))
        c->qk_norm = find_in_blocks(plan, "attn.q_norm.bias") ? QK_LAYER : QK_RMS;
    c->norm = plan_find(plan, "norm.weight") != NULL;
    c->fc_norm = plan_find(plan, "fc_norm.weight") != NULL;
    c->pool = plan_find(plan, "attn_pool.latent") ? POOL_MAP : POOL_TOKEN; /* settled later */
    c->pos_resample = plan->origin->resample;
    return ST_OK;
}

/* ---- the list a config demands ---- */

static void expect(struct plan *plan, int rank, const int *dims, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

static void expect(struct plan *plan, int rank, const int *dims, const char *fmt, ...) {
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
    if (!t)
        problems_add(&plan->problems, "%s %s is missing", name, want);
    else if (!same)
        problems_add(&plan->problems, "%s is %s, want %s", t->part[0]->name,
                     shape_text(t->dims, t->rank, is, sizeof is), want);
    else if (empty)
        problems_add(&plan->problems, "%s is %s: empty", t->part[0]->name, want);
    if (t) t->expected = true;
}

static void expect_both(struct plan *plan, const char *name, int rows, int columns, bool bias) {
    if (columns)
        expect(plan, 2, (const int[]){rows, columns}, "%s.weight", name);
    else
        expect(plan, 1, &rows, "%s.weight", name);
    if (bias) expect(plan, 1, &rows, "%s.bias", name);
}

static void expect_block(struct plan *plan, int n) {
    const struct vit_config *c = &plan->out->config;
    const int C = c->dim, F = c->hidden, G = c->swiglu ? 2 * F : F;
    const int D = axis_of(find_in_blocks(plan, "attn.q_norm.weight"), 0);
    const struct {
        const char *name;
        int rows, columns;
        bool there, bias;
    } parts[] = {{"norm1", C, 0, true, true},
                 {"norm2", C, 0, true, true},
                 {"attn.qkv", 3 * C, C, true, c->qkv_bias},
                 {"attn.proj", C, C, true, true},
                 {"attn.q_norm", D, 0, c->qk_norm != QK_NONE, c->qk_norm == QK_LAYER},
                 {"attn.k_norm", D, 0, c->qk_norm != QK_NONE, c->qk_norm == QK_LAYER},
                 {"mlp.fc1", G, C, true, true},
                 {"mlp.fc2", C, F, true, true}};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        char name[NAME_MAX_LENGTH];
        snprintf(name, sizeof name, "blocks.%d.%s", n, parts[i].name);
        if (parts[i].there) expect_both(plan, name, parts[i].rows, parts[i].columns, parts[i].bias);
    }
    if (!c->layer_scale) return;
    expect(plan, 1, &C, "blocks.%d.ls1.gamma", n);
    expect(plan, 1, &C, "blocks.%d.ls2.gamma", n);
}

static void expect_all(struct plan *plan) {
    const struct vit_config *c = &plan->out->config;
    const int C = c->dim, F = axis_of(plan_find(plan, "attn_pool.mlp.fc1.weight"), 0);
    if (c->class_token) expect(plan, 3, (const int[]){1, 1, C}, "cls_token");
    if (c->dist_token) expect(plan, 3, (const int[]){1, 1, C}, "dist_token");
    if (c->registers) expect(plan, 3, (const int[]){1, c->registers, C}, "reg_token");
    if (c->positions)
        expect(plan, 3, (const int[]){1, axis_of(plan_find(plan, "pos_embed"), 1), C}, "pos_embed");
    expect(plan, 4, (const int[]){C, 3, c->patch_h, c->patch_w}, "patch_embed.proj.weight");
    if (c->patch_bias) expect(plan, 1, &C, "patch_embed.proj.bias");
    if (c->pre_norm) expect_both(plan, "norm_pre", C, 0, true);
    for (int n = 0; n < c->depth; n++)
        expect_block(plan, n);
    if (c->norm) expect_both(plan, "norm", C, 0, true);
    if (c->fc_norm) expect_both(plan, "fc_norm", C, 0, true);
    if (c->pool == POOL_MAP) {
        expect(plan, 3, (const int[]){1, 1, C}, "attn_pool.latent");
        expect_both(plan, "attn_pool.q", C, C, true);
        expect_both(plan, "attn_pool.kv", 2 * C, C, true);
        expect_both(plan, "attn_pool.proj", C, C, true);
        expect_both(plan, "attn_pool.norm", C, 0, true);
        expect_both(plan, "attn_pool.mlp.fc1", F, C, true);
        expect_both(plan, "attn_pool.mlp.fc2", C, F, true);
    }
    if (c->classes) expect_both(plan, "head", c->classes, C, true);
    if (c->classes && c->dist_token) expect_both(plan, "head_dist", c->classes, C, true);
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
    info->family = str_copy("vit");
    info->source = str_format("%s, %s of %s", plan->out->origin, plan->checkpoint->container,
                              slash ? slash + 1 : plan->checkpoint->weights_path);
    info->source_sha256 = str_copy(plan->checkpoint->sha256);
    if (options->name) info->name = str_copy(options->name);
    if (options->license) {
        mem_free(info->license);
        info->license = str_copy(options->license);
    } else if (!info->license) {
        info->license = str_copy("unknown");
    }
    if (!info->family || !info->source || !info->source_sha256 || !info->license ||
        (options->name && !info->name))
        return ST_NOMEM;
    return plan->prefix[0] ? plan_note(plan, "peeled_prefix", plan->prefix) : ST_OK;
}

static enum status plan_all(struct plan *plan) {
    TRY(find_origin(plan));
    plan->out->origin = plan->origin->title;
    TRY(plan_names(plan));
    TRY(config_from_shapes(plan));
    expect_all(plan);
    TRY(problems_fail(plan));
    TRY(plan_settle_config(plan));
    TRY(plan_settle_preprocess(plan));
    TRY(vit_config_check(&plan->out->config, plan->checkpoint->weights_path));
    TRY(plan_check_values(plan));
    TRY(problems_fail(plan));
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
    return st;
}
