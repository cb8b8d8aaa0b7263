/*
 * int8_sample: what the tests of int8 share: weights rounded to int8, model files made of them, and
 * a device's int8 linear against the CPU backend. For the stand-in (test_int8_cuda) and for real
 * GPUs (gpu_check).
 */
#ifndef TESTS_INT8_SAMPLE_H
#define TESTS_INT8_SAMPLE_H

#include "swin/swin.h"
#include "vit/vit.h"

#include "tests/device_ops.h"

/*
 * weight (rows, columns) -> q, the same, and scales (rows): max |w| of a row is 127 steps. weight
 * becomes what they stand for.
 */
static inline void int8_weights(float *weight, size_t rows, size_t columns, int8_t *q,
                                float *scales) {
    for (size_t r = 0; r < rows; r++, weight += columns, q += columns) {
        float most = 0;
        for (size_t c = 0; c < columns; c++)
            most = fmaxf(most, fabsf(weight[c]));
        scales[r] = most / 127;
        for (size_t c = 0; c < columns; c++) {
            q[c] = (int8_t)(most > 0 ? rintf(weight[c] / scales[r]) : 0);
            weight[c] = (float)q[c] * scales[r];
        }
    }
}

/* ---- model files ----------------------------------------------------------------------------- */

/* /parameters/NAME as int8 with NAME.scale. */
static inline void int8_put(struct h5 *file, const char *path, int rank, const size_t *dims,
                            float *values) {
    char scale[160];
    size_t columns = 1;
    int8_t *q;
    float *scales = memory(dims[0], sizeof *scales);
    for (int d = 1; d < rank; d++)
        columns *= dims[d];
    q = memory(dims[0] * columns, 1);
    int8_weights(values, dims[0], columns, q, scales);
    snprintf(scale, sizeof scale, "%s.scale", path);
    demand(h5_write(file, path, DT_I8, rank, dims, q));
    demand(h5_write(file, scale, DT_F32, 1, dims, scales));
    mem_free(q);
    mem_free(scales);
}

static inline bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Every matrix called NAME.weight becomes int8, the rest stays. */
static inline void int8_tensors(struct h5 *from, struct h5 *to) {
    struct h5_dataset *tensors;
    size_t count;
    demand(h5_make_group(to, "/parameters"));
    demand(h5_list(from, "/parameters", &tensors, &count));
    for (size_t i = 0; i < count; i++) {
        const struct h5_dataset *t = &tensors[i];
        size_t size = 1;
        char path[128];
        float *values;
        for (int d = 0; d < t->rank; d++)
            size *= t->dims[d];
        snprintf(path, sizeof path, "/parameters/%s", t->name);
        values = read_floats(from, path, size);
        if (t->rank >= 2 && ends_with(t->name, ".weight"))
            int8_put(to, path, t->rank, t->dims, values);
        else
            demand(h5_write(to, path, DT_F32, t->rank, t->dims, values));
        mem_free(values);
    }
    h5_free_datasets(tensors, count);
}

/* The model file `from` with int8 weights, at `path`. */
static inline void int8_model(struct h5 *from, bool is_swin, const char *path) {
    struct vit_config vit;
    struct swin_config swin;
    struct preprocess_spec spec;
    struct h5 *file;
    demand(h5_create(path, &file));
    if (is_swin) {
        demand(swin_config_read(from, &swin));
        demand(swin_config_write(file, &swin));
    } else {
        demand(vit_config_read(from, &vit));
        demand(vit_config_write(file, &vit));
    }
    demand(preprocess_spec_read(from, &spec));
    demand(preprocess_spec_write(file, &spec));
    int8_tensors(from, file);
    demand(h5_close(&file));
}

/* int8_model of the golden model tests/ref/NAME.h5. */
static inline void int8_golden(const char *name, const char *path) {
    char origin[96];
    struct h5 *from;
    snprintf(origin, sizeof origin, "tests/ref/%s.h5", name);
    demand(h5_open(origin, &from));
    int8_model(from, strncmp(name, "swin", 4) == 0, path);
    demand(h5_close(&from));
}

/* ---- a linear on both ------------------------------------------------------------------------ */

struct int8_call {
    const struct op_shape *s;
    enum epilogue epilogue;
    int columns;         /* of y */
    const float *weight; /* (out, in), integers times scales */
    float *x, *rounded;  /* (2*rows, in): what both get; s*q, as the device rounds it */
    float *steps;        /* (2*rows): s */
    float *want, *got;   /* (2*rows, columns): the CPU's of x, the device's */
    float *exact,
        *before; /* the CPU's of `rounded`; without epilogue and residual, (2*rows, out) */
};

/* Per-token rounding as in quantise_cuda. */
static inline void int8_round(struct int8_call *c) {
    const size_t in = (size_t)c->s->in;
    for (size_t r = 0; r < 2 * (size_t)c->s->rows; r++) {
        const float *x = c->x + r * in;
        float most = 0;
        for (size_t i = 0; i < in; i++)
            most = fmaxf(most, fabsf(x[i]));
        c->steps[r] = most / 127;
        for (size_t i = 0; i < in; i++)
            c->rounded[r * in + i] = most > 0 ? c->steps[r] * rintf(x[i] * (127 / most)) : 0;
    }
}

/* What rounding x to within s/2 may change before the epilogue: s/2 * sum |w|, and fp32's part. */
static inline double int8_reach(const struct int8_call *c, size_t row, size_t o) {
    const float *w = c->weight + o * (size_t)c->s->in;
    double sum = 0;
    for (int i = 0; i < c->s->in; i++)
        sum += fabs((double)w[i]);
    return 0.5002 * (double)c->steps[row] * sum;
}

/*
 * The bound of |got - want|: the reach times the steepest slope of the epilogue (GELU 1.129, quick
 * GELU 1.1; SwiGLU silu' <= 1.1: 1.1 da (|b| + db) + |silu(a)| db), then fp16's half step.
 */
static inline double int8_bound(const struct int8_call *c, size_t row, size_t o) {
    const size_t out = (size_t)c->s->out, F = (size_t)c->columns;
    double reach = int8_reach(c, row, o), want = (double)c->want[row * F + o];
    if (c->epilogue == EPILOGUE_SWIGLU) {
        double a = (double)c->before[row * out + o], b = (double)c->before[row * out + F + o];
        double other = int8_reach(c, row, F + o);
        reach = 1.1 * reach * (fabs(b) + other) + fabs(a / (1 + exp(-a))) * other;
    } else if (c->epilogue != EPILOGUE_NONE) {
        reach *= 1.13;
    }
    return reach + 4.9e-4 * (fabs(want) + reach) + 1e-5;
}

/* Both comparisons: with the bound, and with the tolerance of the operands as rounded. */
static inline void int8_compare(struct duo *duo, const struct int8_call *c, enum status st) {
    const size_t F = (size_t)c->columns, count = 2 * (size_t)c->s->rows * F;
    double off = 0, largest = 1, ratio = 0;
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)c->got[i] - (double)c->exact[i]);
        double part = fabs((double)c->got[i] - (double)c->want[i]) / int8_bound(c, i / F, i % F);
        if (!(error <= off)) off = error;
        if (!(part <= ratio)) ratio = part;
        largest = fmax(largest, fabs((double)c->exact[i]));
    }
    if (st != ST_OK || !(off <= duo->tolerance * largest) || !(ratio <= 1)) {
        duo->good = false;
        printf("int8 linear, %s, epilogue %d: %s, max abs %.3g of %.3g, %.3g of the bound\n",
               c->s->why, (int)c->epilogue, st == ST_OK ? "differs" : fail_message(), off, largest,
               ratio);
    }
    duo->worst = fmax(duo->worst, off / largest);
    duo->nearest = fmax(duo->nearest, ratio);
}

static inline void int8_memory(struct int8_call *c) {
    const size_t rows = 2 * (size_t)c->s->rows, in = (size_t)c->s->in, F = (size_t)c->columns;
    float *at = memory(rows * (2 * in + 1 + 3 * F + (size_t)c->s->out), sizeof *at);
    c->x = at;
    c->rounded = c->x + rows * in;
    c->steps = c->rounded + rows * in;
    c->want = c->steps + rows;
    c->got = c->want + rows * F;
    c->exact = c->got + rows * F;
    c->before = c->exact + rows * F;
}

/* residual: none, elsewhere, in place. */
static inline void int8_run(struct duo *duo, const struct linear_spec *spec, struct int8_call *c,
                            int residual, int spare) {
    const int rows = c->s->rows;
    struct twin x = twin_take(duo, 2, rows, c->s->in, spare);
    struct twin y = twin_take(duo, 2, rows, c->columns, spare);
    struct twin r = twin_take(duo, 2, rows, c->columns, 0);
    struct act rounded = act_take(duo->be[0], &duo->arena[0], 2, rows, c->s->in);
    struct act exact = act_take(duo->be[0], &duo->arena[0], 2, rows, c->columns);
    struct act before = act_take(duo->be[0], &duo->arena[0], 2, rows, c->s->out);
    const struct act *add[3] = {NULL, &r.on[0], &exact};
    struct linear *linear[2];
    int8_memory(c);
    backend_read(duo->be[0], x.on[0], c->x);
    backend_read(duo->be[0], y.on[0], c->exact);
    int8_round(c);
    backend_write(duo->be[0], c->rounded, rounded);
    backend_write(duo->be[0], c->exact, exact);
    for (int i = 0; i < 2; i++) {
        const struct act *with[3] = {NULL, &r.on[i], &y.on[i]};
        demand(linear_load(duo->be[i], spec, &linear[i]));
        op_linear(duo->be[i], linear[i], c->epilogue, x.on[i], with[residual], y.on[i]);
    }
    op_linear(duo->be[0], linear[0], c->epilogue, rounded, add[residual], exact);
    op_linear(duo->be[0], linear[0], EPILOGUE_NONE, x.on[0], NULL, before);
    backend_read(duo->be[0], y.on[0], c->want);
    backend_read(duo->be[0], exact, c->exact);
    backend_read(duo->be[0], before, c->before);
    backend_read(duo->be[1], y.on[1], c->got);
    demand(backend_sync(duo->be[0]));
    int8_compare(duo, c, backend_sync(duo->be[1]));
    duo->arena[0].used = duo->arena[1].used = 0;
    mem_free(c->x);
}

static inline void int8_linear(struct duo *duo, const struct op_shape *s, enum epilogue epilogue,
                               bool bias, int residual, int spare) {
    const size_t count = (size_t)s->in * (size_t)s->out, out = (size_t)s->out;
    float *values = memory(count + 2 * out, sizeof *values);
    int8_t *q = memory(count, 1);
    struct linear_spec spec = {.name = "tested", .in = s->in, .out = s->out, .weight = values};
    struct int8_call call = {.s = s, .epilogue = epilogue, .weight = values, .columns = s->out};
    if (epilogue == EPILOGUE_SWIGLU) call.columns /= 2;
    op_fill(values, count + out, ++duo->seed);
    for (size_t i = 0; i < count; i++)
        values[i] *= 2 / sqrtf((float)s->in);
    int8_weights(values, out, (size_t)s->in, q, values + count + out);
    spec.bias = bias ? values + count : NULL;
    spec.scales = values + count + out;
    if (epilogue != EPILOGUE_SWIGLU || s->out % 2 == 0)
        int8_run(duo, &spec, &call, residual, spare);
    mem_free(q);
    mem_free(values);
}

/* Every epilogue, with and without bias and residual, on weights of at most `most` values. */
static inline bool int8_linears(struct duo *duo, int most) {
    for (size_t i = 0; i < OP_SHAPE_COUNT; i++)
        for (int e = EPILOGUE_NONE; e <= EPILOGUE_SWIGLU; e++) {
            if (op_shapes[i].in * op_shapes[i].out > most) continue;
            int8_linear(duo, &op_shapes[i], (enum epilogue)e, true, e % 3, 0);
            int8_linear(duo, &op_shapes[i], (enum epilogue)e, e % 2 == 1, (e + 1) % 3, 8);
            if (op_shapes[i].in < 100)
                int8_linear(duo, &op_shapes[i], (enum epilogue)e, true, (e + 2) % 3, 3);
        }
    printf("int8 linears: worst %.2e of the largest value, tolerance %.0e; %.2f of what rounding "
           "tokens to int8 may do: %s\n",
           duo->worst, duo->tolerance, duo->nearest, duo->good ? "equal" : "DIFFERENT");
    return duo->good;
}

#endif
