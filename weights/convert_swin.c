/*
 * convert_swin: what the shapes of a Swin's tensors say, the tensors that its config demands, and
 * its rows of the architecture table held against both. Windows and the picture's size, which go
 * together, are in convert_swin_config.c.
 */
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

/* ---- shapes ---- */

struct conversion_tensor *convert_swin_find(const struct plan *plan, int stage, const char *below) {
    for (int b = 0; b < plan->out->swin.depths[stage]; b++) {
        char name[NAME_MAX_LENGTH];
        snprintf(name, sizeof name, "layers.%d.blocks.%d.%s", stage, b, below);
        struct conversion_tensor *found = plan_find(plan, name);
        if (found) return found;
    }
    return NULL;
}

/* The index that stands at *at behind `word`, *at then behind it; -1 when it is not there. */
static int index_behind(const char **at, const char *word) {
    const size_t length = strlen(word);
    char digits[8] = "";
    long index = -1;
    if (strncmp(*at, word, length) != 0) return -1;
    *at += length;
    snprintf(digits, sizeof digits, "%.*s", (int)strspn(*at, "0123456789"), *at);
    if (!parse_long(digits, 0, 99999, &index)) return -1;
    *at += strlen(digits);
    return (int)index;
}

static enum status count_blocks(struct plan *plan) {
    struct swin_config *c = &plan->out->swin;
    const char *path = plan->checkpoint->weights_path;
    for (size_t i = 0; i < plan->out->output_count; i++) {
        const char *at = plan->out->outputs[i].name;
        const int stage = index_behind(&at, "layers."), block = index_behind(&at, ".blocks.");
        if (stage >= c->stages) c->stages = stage + 1;
        if (stage >= 0 && stage < SWIN_MAX_STAGES && block >= c->depths[stage])
            c->depths[stage] = block + 1;
    }
    if (c->stages < 1 || c->stages > SWIN_MAX_STAGES)
        return fail(ST_SHAPE, "%s: has %d stages, want 1 to %d", path, c->stages, SWIN_MAX_STAGES);
    for (int s = 0; s < c->stages; s++) {
        if (c->depths[s] < 1 || c->depths[s] > CONVERT_MAX_DEPTH)
            return fail(ST_SHAPE, "%s: stage %d has %d blocks, want 1 to %d", path, s, c->depths[s],
                        CONVERT_MAX_DEPTH);
    }
    return ST_OK;
}

/*
 * torchvision's version 2 keeps one bias for queries, keys and values and zeroes the keys' third
 * before it is used.
 */
static enum status split_biases(struct plan *plan) {
    static const char whole[] = "attn.qkv.bias";
    struct conversion *out = plan->out;
    size_t capacity = out->output_count, before = out->output_count;
    for (size_t i = 0; i < before; i++) {
        struct conversion_tensor *q = &out->outputs[i], *v;
        const size_t length = strlen(q->name);
        if (length < sizeof whole || strcmp(q->name + length + 1 - sizeof whole, whole) != 0 ||
            q->rank != 1 || q->dims[0] % 3 != 0)
            continue;
        TRY(mem_grow((void **)&out->outputs, &capacity, out->output_count + 1, sizeof *v));
        q = &out->outputs[i];
        v = &out->outputs[out->output_count++];
        snprintf(q->name + length + 1 - sizeof whole, sizeof whole, "attn.q_bias");
        q->dims[0] /= 3;
        *v = *q;
        snprintf(v->name + length + 1 - sizeof whole, sizeof whole, "attn.v_bias");
        v->skip = 2 * q->dims[0];
        struct convert_row *row = &out->rows[q->row];
        mem_free(row->target);
        row->target = str_copy(q->name);
        row->action = "split";
        row->reason = str_copy("its first third; the last is v_bias, keys have none");
        if (!row->target || !row->reason) return ST_NOMEM;
    }
    plan_sort(plan);
    return ST_OK;
}

static enum status config_from_shapes(struct plan *plan) {
    struct swin_config *c = &plan->out->swin;
    const struct conversion_tensor *kernel = plan_find(plan, "patch_embed.proj.weight");
    const struct conversion_tensor *heads = NULL;
    TRY(count_blocks(plan));
    c->dim = plan_axis(kernel ? kernel : convert_swin_find(plan, 0, "norm1.weight"), 0);
    c->patch_h = plan_axis(kernel, 2);
    c->patch_w = plan_axis(kernel, 3);
    if (kernel && kernel->rank == 4 && kernel->dims[1] != 3)
        problems_add(&plan->problems, "%s takes pictures of %zu channels, vitrine has 3",
                     kernel->part[0]->name, kernel->dims[1]);
    if ((size_t)c->dim << (c->stages - 1) > SWIN_MAX_CHANNELS)
        return fail(ST_SHAPE, "%s: has %zu channels in the last stage, at most %d are converted",
                    plan->checkpoint->weights_path, (size_t)c->dim << (c->stages - 1),
                    SWIN_MAX_CHANNELS);
    c->version = 1;
    for (int s = 0; s < c->stages; s++) {
        if (convert_swin_find(plan, s, "attn.logit_scale")) c->version = 2;
    }
    if (c->version == 2 && plan->origin->kind == ORIGIN_TORCHVISION) TRY(split_biases(plan));
    for (int s = 0; s < c->stages; s++) {
        heads = convert_swin_find(
            plan, s, c->version == 2 ? "attn.logit_scale" : "attn.relative_position_bias_table");
        c->heads[s] = plan_axis(heads, c->version == 2 ? 0 : 1);
        c->hidden[s] = plan_axis(convert_swin_find(plan, s, "mlp.fc2.weight"), 1);
        if (convert_swin_find(plan, s, c->version == 2 ? "attn.q_bias" : "attn.qkv.bias"))
            c->qkv_bias = true;
    }
    c->classes = plan_axis(plan_find(plan, "head.fc.weight"), 0);
    return ST_OK;
}

/* ---- the list a config demands ---- */

static void demand_attention(struct plan *plan, int s, int C, const char *block) {
    const struct swin_config *c = &plan->out->swin;
    const int H = c->heads[s];
    char name[NAME_MAX_LENGTH];
    if (c->version == 1) {
        const int rows =
            plan_axis(convert_swin_find(plan, s, "attn.relative_position_bias_table"), 0);
        plan_expect(plan, 2, (const int[]){rows, H}, "%s.attn.relative_position_bias_table", block);
        return;
    }
    plan_expect(plan, 3, (const int[]){H, 1, 1}, "%s.attn.logit_scale", block);
    snprintf(name, sizeof name, "%s.attn.cpb_mlp.0", block);
    plan_expect_both(plan, name, SWIN_CPB_HIDDEN, 2, true);
    plan_expect(plan, 2, (const int[]){H, SWIN_CPB_HIDDEN}, "%s.attn.cpb_mlp.2.weight", block);
    if (!c->qkv_bias) return;
    plan_expect(plan, 1, &C, "%s.attn.q_bias", block);
    plan_expect(plan, 1, &C, "%s.attn.v_bias", block);
}

static void demand_block(struct plan *plan, int s, int b) {
    const struct swin_config *c = &plan->out->swin;
    const int C = c->dim << s, F = c->hidden[s];
    const struct {
        const char *name;
        int rows, columns;
        bool bias;
    } parts[] = {{"norm1", C, 0, true},     {"norm2", C, 0, true},
                 {"attn.proj", C, C, true}, {"attn.qkv", 3 * C, C, c->version == 1 && c->qkv_bias},
                 {"mlp.fc1", F, C, true},   {"mlp.fc2", C, F, true}};
    char block[64], name[NAME_MAX_LENGTH];
    snprintf(block, sizeof block, "layers.%d.blocks.%d", s, b);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        snprintf(name, sizeof name, "%s.%s", block, parts[i].name);
        plan_expect_both(plan, name, parts[i].rows, parts[i].columns, parts[i].bias);
    }
    demand_attention(plan, s, C, block);
}

static void demand(struct plan *plan) {
    const struct swin_config *c = &plan->out->swin;
    const int C = c->dim, last = C << (c->stages - 1);
    plan_expect(plan, 4, (const int[]){C, 3, c->patch_h, c->patch_w}, "patch_embed.proj.weight");
    plan_expect(plan, 1, &C, "patch_embed.proj.bias");
    plan_expect_both(plan, "patch_embed.norm", C, 0, true);
    for (int s = 0; s < c->stages; s++) {
        const int wide = C << s;
        char name[NAME_MAX_LENGTH];
        snprintf(name, sizeof name, "layers.%d.downsample.norm", s);
        if (s > 0) {
            plan_expect_both(plan, name, c->version == 1 ? 2 * wide : wide, 0, true);
            plan_expect(plan, 2, (const int[]){wide, 2 * wide},
                        "layers.%d.downsample.reduction.weight", s);
        }
        for (int b = 0; b < c->depths[s]; b++)
            demand_block(plan, s, b);
    }
    plan_expect_both(plan, "norm", last, 0, true);
    if (c->classes) plan_expect_both(plan, "head.fc", c->classes, last, true);
}

/* ---- rows of the architecture table ---- */

static bool row_differs(const struct plan *plan, const struct architecture *a, char *text,
                        size_t size) {
    const struct swin_config *c = &plan->out->swin;
    struct swin_config row;
    if (!architecture_swin(a, &row)) {
        snprintf(text, size, "no stages, the tensors do");
        return true;
    }
    const struct {
        const char *what;
        int row, tensors;
    } sizes[] = {
        {"version", row.version, c->version},      {"embed_dim", row.dim, c->dim},
        {"patch height", row.patch_h, c->patch_h}, {"patch width", row.patch_w, c->patch_w},
        {"stages:", row.stages, c->stages},        {"qkv biases:", row.qkv_bias, c->qkv_bias}};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (sizes[i].row == sizes[i].tensors) continue;
        snprintf(text, size, "%s %d, the tensors %d", sizes[i].what, sizes[i].row,
                 sizes[i].tensors);
        return true;
    }
    for (int s = 0; s < c->stages; s++) {
        const char *what = row.depths[s] != c->depths[s]   ? "blocks"
                           : row.heads[s] != c->heads[s]   ? "heads"
                           : row.hidden[s] != c->hidden[s] ? "mlp hidden"
                                                           : NULL;
        if (!what) continue;
        const int *mine = *what == 'b' ? row.depths : *what == 'h' ? row.heads : row.hidden;
        const int *theirs = *what == 'b' ? c->depths : *what == 'h' ? c->heads : c->hidden;
        snprintf(text, size, "%s %d in stage %d, the tensors %d", what, mine[s], s, theirs[s]);
        return true;
    }
    return false;
}

static bool row_matches(const struct plan *plan, const struct architecture *a) {
    struct swin_config row;
    char text[128];
    if (row_differs(plan, a, text, sizeof text) || !architecture_swin(a, &row)) return false;
    for (int s = 0; s < row.stages; s++) {
        if (!convert_swin_fits(plan, &row, s)) return false;
    }
    return true;
}

/* No two rows have the same windows on the same picture. */
static bool rows_equal(const struct architecture *a, const struct architecture *b) {
    return a == b;
}

/* ---- the family ---- */

static enum status check(const struct conversion *c, const char *file) {
    return swin_config_check(&c->swin, file);
}

static enum status write(struct h5 *file, const struct conversion *c) {
    return swin_config_write(file, &c->swin);
}

static const char *without_row(const struct plan *plan) {
    (void)plan;
    return "the tensors and what was given";
}

const struct convert_family convert_swin = {
    .name = "swin",
    .without_row = without_row,
    .shapes = config_from_shapes,
    .demand = demand,
    .differs = row_differs,
    .matches = row_matches,
    .same = rows_equal,
    .settle = convert_swin_settle,
    .check = check,
    .write = write,
};
