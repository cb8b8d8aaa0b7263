/*
 * tokens_cpu: token assembly, tok (B, N, C) -> h (B, P+N, C); patch merging, x (B, h*w, C) ->
 * y (B, h/2 * w/2, 4C); and the mean over tokens, x (B, T, C) -> y (B, 1, C). All move memory and
 * little else: a task is one image, of merging one row of its map. Sums run over t = 0, 1, ... in
 * that order.
 */
#include "kernels/cpu.h"

#include <string.h>

struct assemble_call {
    const struct cpu *cpu;
    const float *prefix, *pos; /* (P, C), (N, C), or NULL */
    const struct act *tok, *h;
    int prefixes; /* P */
};

static void assemble_image(void *context, int image, int worker) {
    const struct assemble_call *call = context;
    size_t width = (size_t)call->tok->channels;
    (void)worker;
    for (int t = 0; t < call->prefixes; t++)
        memcpy(act_row(call->h, image, t), call->prefix + (size_t)t * width, width * sizeof(float));
    for (int t = 0; t < call->tok->tokens; t++) {
        const float *from = act_row(call->tok, image, t);
        float *to = act_row(call->h, image, call->prefixes + t);
        if (call->pos) {
            call->cpu->kernels->add(from, call->pos + (size_t)t * width, to, width);
        } else {
            memcpy(to, from, width * sizeof(float));
        }
    }
}

enum status cpu_assemble(struct backend *be, const struct table *prefix, const struct table *pos,
                         const struct act *tok, const struct act *h) {
    struct assemble_call call = {
        .cpu = cpu_of(be),
        .prefix = prefix ? ((const struct cpu_table *)prefix)->values : NULL,
        .pos = pos ? ((const struct cpu_table *)pos)->values : NULL,
        .tok = tok,
        .h = h,
        .prefixes = h->tokens - tok->tokens,
    };
    if (be->planning) return ST_OK;
    threads_run(call.cpu->threads, h->batch, assemble_image, &call);
    return ST_OK;
}

struct merge_call {
    const struct cpu *cpu;
    const struct cpu_norm *norm; /* (4C) or NULL */
    const struct act *x, *y;
    int grid_h, grid_w;
};

/* One row of the merged map. */
static void merge_row(void *context, int task, int worker) {
    const struct merge_call *call = context;
    const struct cpu_norm *norm = call->norm;
    int rows = (call->grid_h + 1) / 2, columns = (call->grid_w + 1) / 2;
    int image = task / rows, row = task % rows;
    size_t width = (size_t)call->x->channels;
    (void)worker;
    for (int column = 0; column < columns; column++) {
        float *y = act_row(call->y, image, row * columns + column);
        for (int part = 0; part < 4; part++) {
            int from_y = 2 * row + part % 2, from_x = 2 * column + part / 2;
            float *to = y + (size_t)part * width;
            if (from_y < call->grid_h && from_x < call->grid_w)
                memcpy(to, act_row(call->x, image, from_y * call->grid_w + from_x),
                       width * sizeof(float));
            else
                memset(to, 0, width * sizeof(float));
        }
        if (norm)
            call->cpu->kernels->layernorm(y, norm->weight, norm->bias, NULL, y, norm->head.width, 1,
                                          norm->eps, norm->rms);
    }
}

enum status cpu_patch_merge(struct backend *be, const struct norm *norm, const struct act *x,
                            int grid_h, int grid_w, const struct act *y) {
    struct merge_call call = {cpu_of(be), (const struct cpu_norm *)norm, x, y, grid_h, grid_w};
    if (be->planning) return ST_OK;
    threads_run(call.cpu->threads, x->batch * ((grid_h + 1) / 2), merge_row, &call);
    return ST_OK;
}

struct mean_call {
    const struct cpu *cpu;
    const struct act *x, *y;
};

static void mean_image(void *context, int image, int worker) {
    const struct mean_call *call = context;
    const struct act *x = call->x;
    size_t width = (size_t)x->channels;
    float *y = act_row(call->y, image, 0);
    (void)worker;
    memcpy(y, act_row(x, image, 0), width * sizeof(float));
    for (int t = 1; t < x->tokens; t++)
        call->cpu->kernels->add(y, act_row(x, image, t), y, width);
    for (size_t i = 0; i < width; i++)
        y[i] /= (float)x->tokens;
}

enum status cpu_mean(struct backend *be, const struct act *x, const struct act *y) {
    struct mean_call call = {cpu_of(be), x, y};
    if (be->planning) return ST_OK;
    threads_run(call.cpu->threads, x->batch, mean_image, &call);
    return ST_OK;
}
