/*
 * convert_vit: what the shapes of a ViT's tensors say, the tensors that its config demands, and its
 * rows of the architecture table held against both. What no tensor says is in
 * convert_vit_config.c.
 */
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

/* ---- shapes ---- */

/* The first output blocks.N.<below>, whichever block has it. */
static struct conversion_tensor *find_in_blocks(const struct plan *plan, const char *below) {
    for (int n = 0; n < plan->out->vit.depth; n++) {
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
    while (side < 1024 && 3 * side * side < plan_axis(kernel, 1))
        side++;
    if (3 * side * side != plan_axis(kernel, 1)) return ST_OK;
    kernel->rank = 4;
    kernel->dims[1] = 3;
    kernel->dims[2] = kernel->dims[3] = (size_t)side;
    struct convert_row *row = &plan->out->rows[kernel->row];
    row->reason = str_format("(C, 3*p*p) to (C, 3, %d, %d)", side, side);
    return row->reason ? ST_OK : ST_NOMEM;
}

const struct conversion_tensor *convert_vit_bias(const struct plan *plan) {
    const struct conversion_tensor *shared =
        plan_find(plan, "rel_pos_bias.relative_position_bias_table");
    return shared ? shared : find_in_blocks(plan, "attn.relative_position_bias_table");
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

/* What positions there are; a fault where there are several kinds. */
static enum vit_positions positions_from_shapes(struct plan *plan) {
    const struct {
        const struct conversion_tensor *found;
        enum vit_positions kind;
    } kinds[] = {
        {plan_find(plan, "pos_embed"), POSITIONS_LEARNED},
        {find_in_blocks(plan, "attn.relative_position_bias_table"), POSITIONS_RELATIVE},
        {plan_find(plan, "rel_pos_bias.relative_position_bias_table"), POSITIONS_RELATIVE_SHARED}};
    const struct conversion_tensor *first = NULL;
    enum vit_positions kind = POSITIONS_NONE;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (!kinds[i].found) continue;
        if (first)
            problems_add(&plan->problems,
                         "%s and %s are positions of two kinds, of which vitrine runs one",
                         first->part[0]->name, kinds[i].found->part[0]->name);
        first = kinds[i].found;
        kind = kinds[i].kind;
    }
    return kind;
}

static enum status config_from_shapes(struct plan *plan) {
    struct vit_config *c = &plan->out->vit;
    struct conversion_tensor *kernel = plan_find(plan, "patch_embed.proj.weight");
    if (kernel) TRY(unflatten_patch(plan, kernel));
    c->dim = plan_axis(kernel, 0);
    c->patch_h = plan_axis(kernel, 2);
    c->patch_w = plan_axis(kernel, 3);
    if (kernel && kernel->rank == 4 && kernel->dims[1] != 3)
        problems_add(&plan->problems, "%s takes pictures of %zu channels, vitrine has 3",
                     kernel->part[0]->name, kernel->dims[1]);
    c->depth = count_blocks(plan);
    if (c->depth < 1 || c->depth > CONVERT_MAX_DEPTH)
        return fail(ST_SHAPE, "%s: has %d blocks, want 1 to %d", plan->checkpoint->weights_path,
                    c->depth, CONVERT_MAX_DEPTH);
    c->hidden = plan_axis(find_in_blocks(plan, "mlp.fc2.weight"), 1);
    c->swiglu =
        c->hidden > 0 && plan_axis(find_in_blocks(plan, "mlp.fc1.weight"), 0) == 2 * c->hidden;
    c->classes = plan_axis(plan_find(plan, "head.weight"), 0);
    c->class_token = plan_find(plan, "cls_token") != NULL;
    c->dist_token = plan_find(plan, "dist_token") != NULL;
    c->registers = plan_axis(plan_find(plan, "reg_token"), 1);
    c->positions = positions_from_shapes(plan);
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

static void demand_block(struct plan *plan, int n) {
    const struct vit_config *c = &plan->out->vit;
    const int C = c->dim, F = c->hidden, G = c->swiglu ? 2 * F : F;
    const int D = plan_axis(find_in_blocks(plan, "attn.q_norm.weight"), 0);
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
        if (parts[i].there)
            plan_expect_both(plan, name, parts[i].rows, parts[i].columns, parts[i].bias);
    }
    if (c->positions == POSITIONS_RELATIVE) {
        const struct conversion_tensor *table = convert_vit_bias(plan);
        plan_expect(plan, 2, (const int[]){plan_axis(table, 0), plan_axis(table, 1)},
                    "blocks.%d.attn.relative_position_bias_table", n);
    }
    if (!c->layer_scale) return;
    plan_expect(plan, 1, &C, "blocks.%d.ls1.gamma", n);
    plan_expect(plan, 1, &C, "blocks.%d.ls2.gamma", n);
}

static void demand(struct plan *plan) {
    const struct vit_config *c = &plan->out->vit;
    const int C = c->dim, F = plan_axis(plan_find(plan, "attn_pool.mlp.fc1.weight"), 0);
    if (c->class_token) plan_expect(plan, 3, (const int[]){1, 1, C}, "cls_token");
    if (c->dist_token) plan_expect(plan, 3, (const int[]){1, 1, C}, "dist_token");
    if (c->registers) plan_expect(plan, 3, (const int[]){1, c->registers, C}, "reg_token");
    if (c->positions == POSITIONS_RELATIVE_SHARED) {
        const struct conversion_tensor *table = convert_vit_bias(plan);
        plan_expect(plan, 2, (const int[]){plan_axis(table, 0), plan_axis(table, 1)}, "%s",
                    table->name);
    }
    if (c->positions == POSITIONS_LEARNED)
        plan_expect(plan, 3, (const int[]){1, plan_axis(plan_find(plan, "pos_embed"), 1), C},
                    "pos_embed");
    plan_expect(plan, 4, (const int[]){C, 3, c->patch_h, c->patch_w}, "patch_embed.proj.weight");
    if (c->patch_bias) plan_expect(plan, 1, &C, "patch_embed.proj.bias");
    if (c->pre_norm) plan_expect_both(plan, "norm_pre", C, 0, true);
    for (int n = 0; n < c->depth; n++)
        demand_block(plan, n);
    if (c->norm) plan_expect_both(plan, "norm", C, 0, true);
    if (c->fc_norm) plan_expect_both(plan, "fc_norm", C, 0, true);
    if (c->pool == POOL_MAP) {
        plan_expect(plan, 3, (const int[]){1, 1, C}, "attn_pool.latent");
        plan_expect_both(plan, "attn_pool.q", C, C, true);
        plan_expect_both(plan, "attn_pool.kv", 2 * C, C, true);
        plan_expect_both(plan, "attn_pool.proj", C, C, true);
        plan_expect_both(plan, "attn_pool.norm", C, 0, true);
        plan_expect_both(plan, "attn_pool.mlp.fc1", F, C, true);
        plan_expect_both(plan, "attn_pool.mlp.fc2", C, F, true);
    }
    if (c->classes) plan_expect_both(plan, "head", c->classes, C, true);
    if (c->classes && c->dist_token) plan_expect_both(plan, "head_dist", c->classes, C, true);
}

/* ---- rows of the architecture table ---- */

static unsigned flags_of(const struct vit_config *c) {
    return (c->class_token ? ARCH_CLASS : 0u) | (c->dist_token ? ARCH_DIST : 0u) |
           (c->pre_norm ? ARCH_PRE_NORM : 0u) | (c->qkv_bias ? 0u : ARCH_NO_QKV_BIAS) |
           (c->layer_scale ? ARCH_LAYER_SCALE : 0u) | (c->qk_norm == QK_LAYER ? ARCH_QK_NORM : 0u) |
           (c->swiglu ? ARCH_SWIGLU : 0u) |
           (c->positions == POSITIONS_RELATIVE ? ARCH_RELATIVE : 0u);
}

/*
 * What of the row is not what the tensors say, into text; false when nothing. Pool and image size
 * may differ.
 */
static bool row_differs(const struct plan *plan, const struct architecture *a, char *text,
                        size_t size) {
    const struct vit_config *c = &plan->out->vit;
    const unsigned ignored = ARCH_POS_PREFIX | ARCH_FC_NORM;
    const struct {
        const char *what;
        int row, tensors;
    } sizes[] = {{"embed_dim", a->dim, c->dim},
                 {"depth", a->depth, c->depth},
                 {"mlp hidden", a->hidden, c->hidden},
                 {"patch size", a->patch, c->patch_h},
                 {"register tokens", a->registers, c->registers}};
    static const struct {
        unsigned flag;
        const char *what;
    } words[] = {{ARCH_CLASS, "a class token"},     {ARCH_DIST, "a distillation token"},
                 {ARCH_PRE_NORM, "norm_pre"},       {ARCH_NO_QKV_BIAS, "no qkv bias"},
                 {ARCH_LAYER_SCALE, "layer scale"}, {ARCH_QK_NORM, "q and k norms"},
                 {ARCH_SWIGLU, "a SwiGLU MLP"},     {ARCH_RELATIVE, "a bias table a block"}};
    const unsigned has = flags_of(c), wants = a->flags & ~ignored;
    if (architecture_stages(a)) {
        snprintf(text, size, "stages, the tensors do not");
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (sizes[i].row == sizes[i].tensors) continue;
        snprintf(text, size, "%s %d, the tensors %d", sizes[i].what, sizes[i].row,
                 sizes[i].tensors);
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if ((has & words[i].flag) == (wants & words[i].flag)) continue;
        snprintf(text, size, "%s%s, the tensors %s", wants & words[i].flag ? "" : "not ",
                 words[i].what, wants & words[i].flag ? "do not" : "do");
        return true;
    }
    if (c->positions == POSITIONS_NONE || (!c->norm && !c->fc_norm)) {
        snprintf(text, size, "%s, the tensors do not",
                 c->positions ? a->flags & ARCH_FC_NORM ? "fc_norm" : "norm" : "positions");
        return true;
    }
    if (!c->patch_bias && !c->pre_norm) {
        snprintf(text, size, "a bias of the patches, the tensors do not");
        return true;
    }
    return c->patch_h != c->patch_w &&
           snprintf(text, size, "square patches, the tensors do not") > 0;
}

/* Whether pos_embed or the bias tables have as many rows as the row's picture makes. */
static bool row_positions(const struct plan *plan, const struct architecture *a) {
    const struct vit_config *c = &plan->out->vit;
    const struct conversion_tensor *pos = plan_find(plan, "pos_embed");
    const int grid = a->image / a->patch, prefix = vit_config_prefix(c);
    const size_t want = (size_t)(grid * grid + (a->flags & ARCH_POS_PREFIX ? prefix : 0));
    /*
     * DINOv2 of transformers and of its own code keeps a class row where timm, with registers,
     * has none.
     */
    const size_t kept =
        want + (c->registers > 0 && c->class_token && !(a->flags & ARCH_POS_PREFIX));
    if (a->flags & ARCH_RELATIVE) {
        const struct vit_config map = {
            .class_token = prefix > 0, .pos_grid_h = grid, .pos_grid_w = grid};
        return plan_axis(convert_vit_bias(plan), 0) == vit_config_bias_rows(&map);
    }
    return pos && (pos->dims[1] == want || pos->dims[1] == kept);
}

/*
 * Whether positions and final norm also are the row's: then nothing of the shapes speaks against
 * it.
 */
static bool row_matches(const struct plan *plan, const struct architecture *a) {
    const struct vit_config *c = &plan->out->vit;
    char text[128];
    if (row_differs(plan, a, text, sizeof text) || !row_positions(plan, a)) return false;
    return (a->pool == POOL_MAP) == (c->pool == POOL_MAP) &&
           !(a->flags & ARCH_FC_NORM) == !c->fc_norm;
}

/* Whether two rows lead to the same numbers. */
static bool rows_equal(const struct architecture *a, const struct architecture *b) {
    struct preprocess_spec x = {0}, y = {0};
    const char *tag;
    if (a->heads != b->heads || a->activation != b->activation || a->pool != b->pool ||
        a->norm_eps != b->norm_eps)
        return false;
    if (!architecture_preprocess(a->name, &x, &tag) || !architecture_preprocess(b->name, &y, &tag))
        return false;
    for (int i = 0; i < 3; i++) {
        if (x.mean[i] != y.mean[i] || x.std[i] != y.std[i]) return false;
    }
    return x.height == y.height && x.crop_pct == y.crop_pct &&
           strcmp(x.crop_mode, y.crop_mode) == 0 && strcmp(x.interpolation, y.interpolation) == 0;
}

/* ---- the family ---- */

static enum status check(const struct conversion *c, const char *file) {
    return vit_config_check(&c->vit, file);
}

static enum status write(struct h5 *file, const struct conversion *c) {
    return vit_config_write(file, &c->vit);
}

const struct convert_family convert_vit = {
    .name = "vit",
    .without_row = convert_vit_without_row,
    .shapes = config_from_shapes,
    .demand = demand,
    .differs = row_differs,
    .matches = row_matches,
    .same = rows_equal,
    .settle = convert_vit_settle,
    .check = check,
    .write = write,
};
