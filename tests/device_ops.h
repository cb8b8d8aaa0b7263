/*
 * device_ops: every op of a device against the CPU backend, on shapes that models have and on odd
 * ones. The CPU is given what the device's type made of the operands. For the stand-in
 * (test_cuda_backend) and for real GPUs (gpu_check).
 */
#ifndef TESTS_DEVICE_OPS_H
#define TESTS_DEVICE_OPS_H

#include "kernels/backend.h"
#include "tests/attention_shapes.h"
#include "tests/golden.h"
#include "tests/op_shapes.h"

struct duo {
    struct backend *be[2]; /* the CPU, the device */
    struct arena arena[2];
    double tolerance; /* of max |want| */
    const char *name;
    uint64_t seed;
    bool good;
    double worst;   /* relative */
    double nearest; /* of int8's bound (int8_sample.h), 1 is all of it */
};

/* One activation on both. */
struct twin {
    struct act on[2];
    size_t count;
};

enum { DUO_VALUES = 8 << 20 }; /* of each arena */

/* duo_close closes both backends. */
static inline void duo_open(struct duo *duo, struct backend *cpu, struct backend *device,
                            const char *name, double tolerance) {
    *duo = (struct duo){{cpu, device}, {{0}}, tolerance, name, 1, true, 0, 0};
    for (int i = 0; i < 2; i++) {
        (void)arena_take(&duo->arena[i], DUO_VALUES, duo->be[i]->act_size);
        demand(backend_reserve(duo->be[i], &duo->arena[i], "activations"));
    }
}

static inline void duo_close(struct duo *duo) {
    for (int i = 0; i < 2; i++) {
        backend_release_arena(duo->be[i], &duo->arena[i]);
        backend_close(duo->be[i]);
    }
}

/* Random values in -1..1, with `spare` columns beside each row; an odd number: not aligned. */
static inline struct twin twin_take(struct duo *duo, int batch, int tokens, int channels,
                                    int spare) {
    struct twin t = {.count = (size_t)batch * (size_t)tokens * (size_t)channels};
    float *values = memory(t.count, sizeof *values);
    op_fill(values, t.count, ++duo->seed);
    for (int i = 1; i >= 0; i--) {
        t.on[i] = act_columns(act_take(duo->be[i], &duo->arena[i], batch, tokens, channels + spare),
                              spare % 2, channels);
        backend_write(duo->be[i], values, t.on[i]);
        backend_read(duo->be[i], t.on[i], values); /* rounded, for the CPU */
    }
    mem_free(values);
    return t;
}

static inline void duo_compare(struct duo *duo, const char *op, const char *why,
                               const struct twin *t) {
    float *want = memory(t->count, sizeof *want), *got = memory(t->count, sizeof *got);
    double off = 0, largest = 0;
    bool good = true;
    enum status st;
    backend_read(duo->be[0], t->on[0], want);
    backend_read(duo->be[1], t->on[1], got);
    demand(backend_sync(duo->be[0]));
    st = backend_sync(duo->be[1]);
    for (size_t i = 0; i < t->count; i++) {
        double error = fabs((double)got[i] - (double)want[i]);
        if (!(error <= off)) off = error;
        largest = fmax(largest, fabs((double)want[i]));
    }
    good = st == ST_OK && off <= duo->tolerance * fmax(largest, 1);
    if (!good)
        printf("%s %s, %s: %s, max abs %.3g of %.3g\n", duo->name, op, why,
               st == ST_OK ? "differs" : fail_message(), off, largest);
    duo->worst = fmax(duo->worst, off / fmax(largest, 1));
    duo->good &= good;
    duo->arena[0].used = duo->arena[1].used = 0;
    mem_free(want);
    mem_free(got);
}

/* ---- linear, norms --------------------------------------------------------------------------- */

static inline void duo_linear(struct duo *duo, const struct op_shape *s, enum epilogue epilogue,
                              bool bias, int residual, int spare) {
    if (epilogue == EPILOGUE_SWIGLU && s->out % 2) return;
    const int columns = epilogue == EPILOGUE_SWIGLU ? s->out / 2 : s->out;
    const size_t count = (size_t)s->in * (size_t)s->out;
    float *values = memory(count + (size_t)s->out, sizeof *values);
    struct linear_spec spec = {.name = "tested", .in = s->in, .out = s->out, .weight = values};
    struct twin x = twin_take(duo, 2, s->rows, s->in, spare);
    struct twin y = twin_take(duo, 2, s->rows, columns, spare);
    struct twin r = twin_take(duo, 2, s->rows, columns, 0);
    op_fill(values, count + (size_t)s->out, ++duo->seed);
    for (size_t i = 0; i < count; i++)
        values[i] *= 2 / sqrtf((float)s->in);
    spec.bias = bias ? values + count : NULL;
    for (int i = 0; i < 2; i++) {
        struct linear *linear;
        const struct act *add = residual == 0 ? NULL : residual == 1 ? &r.on[i] : &y.on[i];
        demand(linear_load(duo->be[i], &spec, &linear));
        op_linear(duo->be[i], linear, epilogue, x.on[i], add, y.on[i]);
    }
    duo_compare(duo, "linear", s->why, &y);
    mem_free(values);
}

/* Every epilogue, with and without bias; residual: none, elsewhere, in place. */
static inline void duo_linears(struct duo *duo, int most) {
    for (size_t i = 0; i < OP_SHAPE_COUNT; i++)
        for (int e = EPILOGUE_NONE; e <= EPILOGUE_SWIGLU; e++) {
            if (op_shapes[i].in * op_shapes[i].out > most) continue;
            duo_linear(duo, &op_shapes[i], (enum epilogue)e, true, e % 3, 0);
            duo_linear(duo, &op_shapes[i], (enum epilogue)e, e % 2 == 1, (e + 1) % 3, 8);
            if (op_shapes[i].in < 100)
                duo_linear(duo, &op_shapes[i], (enum epilogue)e, true, (e + 2) % 3, 3);
        }
}

static inline struct norm *duo_norm(struct duo *duo, int i, int width, bool rms) {
    float values[2 * 4096];
    struct norm_spec spec = {.width = width, .eps = 1e-2f, .rms = rms, .weight = values};
    struct norm *norm;
    op_fill(values, 2 * (size_t)width, 7);
    spec.bias = rms ? NULL : values + width;
    demand(norm_load(duo->be[i], &spec, &norm));
    return norm;
}

static inline void duo_norms(struct duo *duo) {
    static const int rows[][3] = {{5, 96, 0}, {3, 768, 8}, {4, 47, 0}, {2, 3072, 0}, {7, 64, 3}};
    for (size_t s = 0; s < COUNT_OF(rows); s++)
        for (int kind = 0; kind < 3; kind++) {
            struct twin x = twin_take(duo, 2, rows[s][0], rows[s][1], rows[s][2]);
            struct twin r = twin_take(duo, 2, rows[s][0], rows[s][1], rows[s][2]);
            struct twin y = twin_take(duo, 2, rows[s][0], rows[s][1], rows[s][2]);
            for (int i = 0; i < 2; i++)
                op_layernorm(duo->be[i], duo_norm(duo, i, rows[s][1], kind == 2), x.on[i],
                             kind == 1 ? &r.on[i] : NULL, y.on[i]);
            duo_compare(duo, "layernorm", kind == 2 ? "rms" : "layer", &y);
        }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static inline void duo_tokens(struct duo *duo) {
    enum { T = 12, H = 3, W = 4, C = 40 };
    float values[(T + 2) * C];
    struct twin x = twin_take(duo, 2, T, C, 8), y = twin_take(duo, 2, T + 2, C, 0);
    op_fill(values, COUNT_OF(values), 3);
    for (int i = 0; i < 2; i++) {
        struct table *prefix, *pos;
        demand(table_load(duo->be[i], values, 2 * C, &prefix));
        demand(table_load(duo->be[i], values + 2 * C, T * C, &pos));
        op_assemble(duo->be[i], prefix, pos, x.on[i], y.on[i]);
    }
    duo_compare(duo, "assemble", "two prefix tokens", &y);
    x = twin_take(duo, 2, T, C, 8), y = twin_take(duo, 2, 1, C, 0);
    for (int i = 0; i < 2; i++)
        op_mean(duo->be[i], x.on[i], y.on[i]);
    duo_compare(duo, "mean", "a view", &y);
    for (int norm = 0; norm < 2; norm++) {
        x = twin_take(duo, 2, H * W, C, 0), y = twin_take(duo, 2, 4, 4 * C, 0);
        for (int i = 0; i < 2; i++)
            op_patch_merge(duo->be[i], norm ? duo_norm(duo, i, 4 * C, false) : NULL, x.on[i], H, W,
                           y.on[i]);
        duo_compare(duo, "patch_merge", "an odd map", &y);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

static inline struct table *duo_table(struct duo *duo, int i, size_t count, float scale) {
    float *values = memory(count, sizeof *values);
    struct table *table;
    op_fill(values, count, 5);
    for (size_t k = 0; k < count; k++)
        values[k] = scale < 0 ? -scale : scale * values[k]; /* < 0: all the same */
    demand(table_load(duo->be[i], values, count, &table));
    mem_free(values);
    return table;
}

/* Probabilities, and greatest scores, are compared with the values' tolerance. */
static inline void duo_heads(struct duo *duo, const struct head_shape *s, bool probs, int spare) {
    enum { HEADS = 2 };
    const int lengths[] = {s->valid, s->tk}, width = HEADS * s->dim;
    struct twin q = twin_take(duo, 2, s->tq, width, spare), p = {.count = 0}, g = p;
    struct twin k = twin_take(duo, 2, s->tk, width, spare);
    struct twin v = twin_take(duo, 2, s->tk, width, spare), y = twin_take(duo, 2, s->tq, width, 0);
    if (probs) p = twin_take(duo, 2, HEADS * s->tq, s->tk, 0);
    if (probs) g = twin_take(duo, 2, HEADS, s->tq, s->tq % 2); /* dense, or not */
    for (int i = 0; s->valid > 0 && i < 2; i++) {
        struct attention desc = {.heads = HEADS,
                                 .head_dim = s->dim,
                                 .score = s->score,
                                 .scale = s->scale > 0 ? s->scale : 1 / sqrtf((float)s->dim),
                                 .grid_h = s->grid_h,
                                 .grid_w = s->grid_w,
                                 .prefix = s->prefix,
                                 .lengths = s->valid < s->tk ? lengths : NULL,
                                 .probs = probs ? &p.on[i] : NULL,
                                 .greatest = probs ? &g.on[i] : NULL};
        if (s->score == SCORE_COSINE) desc.temperature = duo_table(duo, i, HEADS, -s->scale);
        if (s->grid_h > 0) desc.bias = duo_table(duo, i, HEADS * head_entries(s), 1);
        op_attention(duo->be[i], &desc, q.on[i], k.on[i], v.on[i], y.on[i]);
    }
    if (s->valid > 0) duo_compare(duo, "attention", s->why, probs ? &p : &y);
    if (s->valid > 0 && probs) duo_compare(duo, "greatest scores", s->why, &g);
    duo->arena[0].used = duo->arena[1].used = 0;
}

static inline void duo_windows(struct duo *duo, const struct window_shape *s, bool packed) {
    const int width = s->heads * s->dim, T = s->grid_h * s->grid_w;
    const size_t rows = (size_t)(2 * s->window_h - 1) * (size_t)(2 * s->window_w - 1);
    struct twin qkv = twin_take(duo, s->batch, T, 3 * width, packed ? 0 : 5);
    struct twin y = twin_take(duo, s->batch, T, width, 0);
    for (int i = 0; i < 2; i++) {
        struct attention desc = {.heads = s->heads,
                                 .head_dim = s->dim,
                                 .score = s->temperature > 0 ? SCORE_COSINE : SCORE_DOT,
                                 .scale = 1 / sqrtf((float)s->dim),
                                 .pattern = PATTERN_WINDOW,
                                 .grid_h = s->grid_h,
                                 .grid_w = s->grid_w,
                                 .window_h = s->window_h,
                                 .window_w = s->window_w,
                                 .shift_h = s->shift_h,
                                 .shift_w = s->shift_w,
                                 .mask_value = -100};
        if (s->temperature > 0)
            desc.temperature = duo_table(duo, i, (size_t)s->heads, -s->temperature);
        if (s->bias > 0) desc.bias = duo_table(duo, i, (size_t)s->heads * rows, s->bias);
        if (s->padding) desc.padding = duo_table(duo, i, 2 * (size_t)width, 1);
        op_attention(duo->be[i], &desc, act_columns(qkv.on[i], 0, width),
                     act_columns(qkv.on[i], width, width), act_columns(qkv.on[i], 2 * width, width),
                     y.on[i]);
    }
    duo_compare(duo, "windows", s->why, &y);
}

static inline void duo_attentions(struct duo *duo, int largest) {
    for (size_t i = 0; i < HEAD_SHAPE_COUNT; i++) {
        if (head_shapes[i].tk > largest) continue;
        duo_heads(duo, &head_shapes[i], false, 0);
        duo_heads(duo, &head_shapes[i], true, 8);
    }
    for (size_t i = 0; i < WINDOW_SHAPE_COUNT; i++) {
        const struct window_shape *s = &window_shapes[i];
        /* Scores in the hundreds: what 16 bits make of one another is no test of the kernel. */
        if (s->bias > 100 || s->temperature > 50 || s->window_h * s->window_w > largest) continue;
        duo_windows(duo, s, true);
        duo_windows(duo, s, false);
    }
}

/* All of it; weights of at most `most` values, attention over at most `largest` keys. */
static inline bool duo_run(struct duo *duo, int most, int largest) {
    duo_linears(duo, most);
    duo_norms(duo);
    duo_tokens(duo);
    duo_attentions(duo, largest);
    printf("%s ops: worst %.2e of the largest value, tolerance %.0e: %s\n", duo->name, duo->worst,
           duo->tolerance, duo->good ? "equal" : "DIFFERENT");
    return duo->good;
}

#endif
