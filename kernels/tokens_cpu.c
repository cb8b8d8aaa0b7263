/*
 * tokens_cpu: token assembly, tok (B, N, C) -> h (B, P+N, C), and the mean over tokens, x (B, T, C)
 * -> y (B, 1, C). Both move memory and little else: a task is one image. Sums run over t = 0, 1,
 * ... in that order.
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
