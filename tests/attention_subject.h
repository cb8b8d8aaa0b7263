/*
 * attention_subject: one call of cuda_attention() in the simulator: its operands as the kernels see
 * them, and what it should give, from the same rounded operands in double precision.
 *
 * q, k and v are column views of one packed (B, T, 3 H D + spare); what lies between the rows is
 * NaN, and in y a pattern that must stay.
 */
#ifndef TESTS_ATTENTION_SUBJECT_H
#define TESTS_ATTENTION_SUBJECT_H

#include <setjmp.h>
#include <stdarg.h>

#include "kernels/cuda_kernels.h"
#include "kernels/windows.h"
#include "tests/attention_shapes.h"
#include "tests/op_shapes.h"
#include "tests/simt.h"

#include <cmocka.h>

enum { SPARE_WIDE = 8, SPARE_ODD = 3 }; /* columns behind a row: 16-byte loads, or none */
#define UNTOUCHED 0xa5

static const char *const cuda_type_names[] = {"fp32", "fp16", "bf16"};

struct subject {
    const struct window_shape *window; /* NULL: PATTERN_FULL */
    const struct head_shape *head;     /* or this */
    const char *why;
    struct attention desc;
    enum cuda_type type;
    int batch, tq, tk, width, spare; /* width = H*D */
    int problems, queries, keys;     /* softmaxes of a head; slots of one */
    size_t entries;                  /* of a head's table */
    bool cut;                        /* lengths are given */
    float values;                    /* q and k are in -values..values, v in -1..1 */
    int *lengths;                    /* (B) */
    float *q, *k, *v;                /* (B, Tq, width), (B, Tk, width) twice, rounded to the type */
    void *qkv, *y;                   /* (B, max(Tq, Tk), 3 width + spare), (B, Tq, width + spare) */
    float *table, *padding, *temperature; /* (H, entries), (2, width), (H) */
    float *probs;                         /* (problems, H, queries, keys) */
    float *greatest;                      /* (problems, H, queries) */
    double *want, *want_probs, *want_greatest, *ones;
    float *got; /* y without the spare columns */
    struct arena arena;
};

/* ---- 16-bit memory --------------------------------------------------------------------------- */

static inline size_t type_size(enum cuda_type type) {
    return type == CUDA_FP32 ? 4 : 2;
}

static inline void type_store(enum cuda_type type, void *base, size_t i, float x) {
    if (type == CUDA_FP32) ((float *)base)[i] = x;
    if (type == CUDA_FP16) ((uint16_t *)base)[i] = simt_to_fp16(x);
    if (type == CUDA_BF16) ((uint16_t *)base)[i] = simt_to_bf16(x);
}

static inline float type_load(enum cuda_type type, const void *base, size_t i) {
    if (type == CUDA_FP32) return ((const float *)base)[i];
    return type == CUDA_FP16 ? simt_from_fp16(((const uint16_t *)base)[i])
                             : simt_from_bf16(((const uint16_t *)base)[i]);
}

static inline float type_round(enum cuda_type type, float x) {
    if (type == CUDA_FP32) return x;
    return type == CUDA_FP16 ? simt_from_fp16(simt_to_fp16(x)) : simt_from_bf16(simt_to_bf16(x));
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static inline size_t y_count(const struct subject *s) {
    return (size_t)s->batch * (size_t)s->tq * (size_t)s->width;
}

static inline size_t k_count(const struct subject *s) {
    return (size_t)s->batch * (size_t)s->tk * (size_t)s->width;
}

static inline size_t probs_count(const struct subject *s) {
    return (size_t)(s->problems * s->desc.heads) * (size_t)s->queries * (size_t)s->keys;
}

/* Query rows. */
static inline size_t row_count(const struct subject *s) {
    return (size_t)(s->problems * s->desc.heads) * (size_t)s->queries;
}

static inline size_t qkv_pitch(const struct subject *s) {
    return 3 * (size_t)s->width + (size_t)s->spare;
}

static inline size_t qkv_count(const struct subject *s) {
    return (size_t)s->batch * (size_t)(s->tq > s->tk ? s->tq : s->tk) * qkv_pitch(s);
}

static inline size_t y_memory(const struct subject *s) {
    return (size_t)s->batch * (size_t)s->tq * (size_t)(s->width + s->spare);
}

static inline void subject_lay_out(struct subject *s) {
    size_t heads = (size_t)s->desc.heads, width = (size_t)s->width;
    size_t most = y_count(s) > probs_count(s) ? y_count(s) : probs_count(s);
    s->lengths = arena_take(&s->arena, (size_t)s->batch, sizeof(int));
    s->q = arena_take(&s->arena, y_count(s), sizeof(float));
    s->k = arena_take(&s->arena, k_count(s), sizeof(float));
    s->v = arena_take(&s->arena, k_count(s), sizeof(float));
    s->qkv = arena_take(&s->arena, qkv_count(s), type_size(s->type));
    s->y = arena_take(&s->arena, y_memory(s), type_size(s->type));
    s->table = arena_take(&s->arena, heads * s->entries + 1, sizeof(float));
    s->padding = arena_take(&s->arena, 2 * width, sizeof(float));
    s->temperature = arena_take(&s->arena, heads, sizeof(float));
    s->probs = arena_take(&s->arena, probs_count(s), sizeof(float));
    s->want = arena_take(&s->arena, y_count(s), sizeof(double));
    s->want_probs = arena_take(&s->arena, probs_count(s), sizeof(double));
    s->greatest = arena_take(&s->arena, row_count(s), sizeof(float));
    s->want_greatest = arena_take(&s->arena, row_count(s), sizeof(double));
    s->ones = arena_take(&s->arena, most, sizeof(double));
    s->got = arena_take(&s->arena, y_count(s), sizeof(float));
}

/* ---- double precision ------------------------------------------------------------------------ */

static inline double subject_factor(const struct subject *s, int head) {
    return (double)(s->desc.score == SCORE_COSINE ? s->temperature[head] : s->desc.scale);
}

static inline void head_reference(struct subject *s, int image, int head, const float **k,
                                  const float **v) {
    size_t width = (size_t)s->width, column = (size_t)(head * s->desc.head_dim);
    for (int j = 0; j < s->tk; j++) {
        k[j] = s->k + ((size_t)image * (size_t)s->tk + (size_t)j) * width + column;
        v[j] = s->v + ((size_t)image * (size_t)s->tk + (size_t)j) * width + column;
    }
    for (int i = 0; i < s->tq; i++) {
        size_t row = (size_t)image * (size_t)s->tq + (size_t)i;
        size_t at = (size_t)(image * s->desc.heads + head) * (size_t)s->tq + (size_t)i;
        double *p = s->want_probs + at * (size_t)s->tk;
        for (int j = 0; j < s->tk; j++)
            p[j] = j < s->lengths[image]
                       ? head_addend(s->head, i, j, s->table + (size_t)head * s->entries)
                       : 0;
        s->want_greatest[at] = attention_reference(
            s->desc.score, subject_factor(s, head), s->lengths[image], s->desc.head_dim,
            s->q + row * width + column, k, v, p, s->want + row * width + column);
    }
}

static const float subject_zeros[128];

/* part 0, 1: the key, the value of a slot. */
static inline const float *window_row(const struct subject *s, int image, struct map_slot at,
                                      int head, int part) {
    size_t column = (size_t)(head * s->desc.head_dim), width = (size_t)s->width;
    const float *x = part ? s->v : s->k;
    if (at.token >= 0)
        return x + ((size_t)image * (size_t)s->tk + (size_t)at.token) * width + column;
    return s->window->padding ? s->padding + (size_t)part * width + column : subject_zeros;
}

static inline void window_reference(struct subject *s, int problem, int head, const float **k,
                                    const float **v) {
    int windows = s->problems / s->batch, image = problem / windows;
    const float *table = s->window->bias > 0 ? s->table + (size_t)head * s->entries : NULL;
    for (int i = 0; i < s->queries; i++) {
        struct map_slot a = map_slot_of(s->window, problem % windows, i);
        size_t at = (size_t)(problem * s->desc.heads + head) * (size_t)s->queries + (size_t)i;
        double *p = s->want_probs + at * (size_t)s->keys;
        memset(p, 0, (size_t)s->keys * sizeof *p);
        s->want_greatest[at] = 0;
        if (a.token < 0) continue;
        for (int j = 0; j < s->keys; j++) {
            struct map_slot b = map_slot_of(s->window, problem % windows, j);
            k[j] = window_row(s, image, b, head, 0);
            v[j] = window_row(s, image, b, head, 1);
            p[j] = map_addend(s->window, a, b, table);
        }
        size_t row = ((size_t)image * (size_t)s->tq + (size_t)a.token) * (size_t)s->width +
                     (size_t)(head * s->desc.head_dim);
        s->want_greatest[at] =
            attention_reference(s->desc.score, subject_factor(s, head), s->keys, s->desc.head_dim,
                                s->q + row, k, v, p, s->want + row);
    }
}

/* Sets want, want_probs and want_greatest. */
static inline void subject_reference(struct subject *s) {
    const float **k = mem_zalloc((size_t)s->keys, sizeof *k);
    const float **v = mem_zalloc((size_t)s->keys, sizeof *v);
    assert_true(k && v);
    for (int problem = 0; problem < s->problems; problem++)
        for (int head = 0; head < s->desc.heads; head++) {
            if (s->window)
                window_reference(s, problem, head, k, v);
            else
                head_reference(s, problem, head, k, v);
        }
    mem_free(k);
    mem_free(v);
}

/* ---- life cycle ------------------------------------------------------------------------------ */

/* x (B, tokens, width) at random, rounded to the type, and into the packed memory. */
static inline void subject_fill(struct subject *s, float *x, int tokens, int part, float scale) {
    size_t rows = (size_t)(s->tq > s->tk ? s->tq : s->tk), width = (size_t)s->width;
    op_fill(x, (size_t)s->batch * (size_t)tokens * width, 1 + (uint64_t)part);
    for (size_t i = 0; i < (size_t)s->batch * (size_t)tokens * width; i++) {
        size_t row = i / width, image = row / (size_t)tokens, token = row % (size_t)tokens;
        size_t at = (image * rows + token) * qkv_pitch(s) + (size_t)part * width + i % width;
        type_store(s->type, s->qkv, at, x[i] * scale);
        x[i] = type_load(s->type, s->qkv, at);
    }
}

static inline void subject_bind(struct subject *s, float temperature, float bias) {
    size_t count = (size_t)s->desc.heads * s->entries;
    subject_lay_out(s);
    assert_int_equal(arena_reserve(&s->arena, "subject"), ST_OK);
    subject_lay_out(s);
    for (size_t i = 0; i < qkv_count(s); i++)
        type_store(s->type, s->qkv, i, NAN);
    subject_fill(s, s->q, s->tq, 0, s->values);
    subject_fill(s, s->k, s->tk, 1, s->values);
    subject_fill(s, s->v, s->tk, 2, 1);
    op_fill(s->table, count, 5);
    op_fill(s->padding, 2 * (size_t)s->width, 6);
    for (size_t i = 0; i < count; i++)
        s->table[i] *= bias;
    for (size_t i = 0; i < 2 * (size_t)s->width; i++) /* it becomes the type in the kernel */
        s->padding[i] = type_round(s->type, s->padding[i]);
    for (int h = 0; h < s->desc.heads; h++)
        s->temperature[h] = temperature * (h % 2 ? 0.5f : 1.0f);
    for (size_t i = 0; i < y_count(s) || i < probs_count(s); i++)
        s->ones[i] = 1;
}

/* batch 0: what the shape is worth. */
static inline void subject_of_head(struct subject *s, const struct head_shape *shape,
                                   enum cuda_type type, int spare, int batch) {
    bool large = (long)shape->tq * shape->tk * shape->dim > 150000;
    *s = (struct subject){
        .head = shape,
        .why = shape->why,
        .desc = {.heads = large ? 1 : 3,
                 .grid_h = shape->grid_h,
                 .grid_w = shape->grid_w,
                 .prefix = shape->prefix,
                 .head_dim = shape->dim,
                 .score = shape->score,
                 .scale = shape->scale == 0 ? 1.0f / sqrtf((float)shape->dim) : shape->scale},
        .type = type,
        .batch = batch   ? batch
                 : large ? 1
                         : 2,
        .tq = shape->tq,
        .tk = shape->tk,
        .spare = spare,
        .queries = shape->tq,
        .keys = shape->tk,
        .entries = head_entries(shape),
        .cut = shape->valid < shape->tk,
        .values = 2};
    s->width = s->desc.heads * shape->dim;
    s->problems = s->batch;
    subject_bind(s, shape->scale, 1);
    for (int i = 0; i < s->batch; i++) /* every second image is whole */
        s->lengths[i] = i % 2 ? shape->tk : shape->valid;
}

static inline void subject_of_window(struct subject *s, const struct window_shape *shape,
                                     enum cuda_type type, int spare, int batch) {
    int across = (shape->grid_w + shape->window_w - 1) / shape->window_w;
    *s = (struct subject){.window = shape,
                          .why = shape->why,
                          .desc = {.heads = shape->heads,
                                   .head_dim = shape->dim,
                                   .score = shape->temperature > 0 ? SCORE_COSINE : SCORE_DOT,
                                   .scale = 1.0f / sqrtf((float)shape->dim),
                                   .pattern = PATTERN_WINDOW,
                                   .grid_h = shape->grid_h,
                                   .grid_w = shape->grid_w,
                                   .window_h = shape->window_h,
                                   .window_w = shape->window_w,
                                   .shift_h = shape->shift_h,
                                   .shift_w = shape->shift_w,
                                   .mask_value = -100},
                          .type = type,
                          .batch = batch ? batch : shape->batch,
                          .tq = shape->grid_h * shape->grid_w,
                          .tk = shape->grid_h * shape->grid_w,
                          .width = shape->heads * shape->dim,
                          .spare = spare,
                          .queries = shape->window_h * shape->window_w,
                          .keys = shape->window_h * shape->window_w,
                          .values = 1};
    s->entries = (size_t)((2 * shape->window_h - 1) * (2 * shape->window_w - 1));
    s->problems = s->batch * across * ((shape->grid_h + shape->window_h - 1) / shape->window_h);
    subject_bind(s, shape->temperature, shape->bias);
}

static inline void subject_release(struct subject *s) {
    arena_release(&s->arena);
}

/* ---- running and checking -------------------------------------------------------------------- */

static inline struct cuda_view subject_view(const struct subject *s, int part, int tokens) {
    size_t rows = (size_t)(s->tq > s->tk ? s->tq : s->tk), pitch = qkv_pitch(s);
    char *base = (char *)s->qkv + (size_t)(part * s->width) * type_size(s->type);
    return (struct cuda_view){base, s->batch, tokens, s->width, pitch, rows * pitch};
}

/* y, probs and greatest by cuda_attention(); got is y. */
static inline enum status subject_run(struct subject *s, const struct simt_options *options,
                                      bool probs) {
    size_t pitch = (size_t)(s->width + s->spare);
    struct cuda_attention call = {
        .type = s->type,
        .q = subject_view(s, 0, s->tq),
        .k = subject_view(s, 1, s->tk),
        .v = subject_view(s, 2, s->tk),
        .y = {s->y, s->batch, s->tq, s->width, pitch, (size_t)s->tq * pitch},
        .desc = &s->desc,
        .temperature = s->desc.score == SCORE_COSINE ? s->temperature : NULL,
        .bias = (s->window ? s->window->bias > 0 : s->entries > 0) ? s->table : NULL,
        .padding = s->window && s->window->padding ? s->padding : NULL,
        .lengths = s->cut ? s->lengths : NULL,
        .probs = probs ? s->probs : NULL,
        .greatest = probs ? s->greatest : NULL,
    };
    memset(s->y, UNTOUCHED, y_memory(s) * type_size(s->type));
    for (size_t i = 0; i < probs_count(s); i++)
        s->probs[i] = NAN;
    for (size_t i = 0; i < row_count(s); i++)
        s->greatest[i] = NAN;
    simt_unwatch();
    simt_watch(s->qkv, qkv_count(s) * type_size(s->type));
    simt_watch(s->y, y_memory(s) * type_size(s->type));
    simt_options = *options;
    enum status st = cuda_attention(&call, NULL);
    memset(&simt_options, 0, sizeof simt_options);
    for (size_t i = 0; i < y_count(s); i++)
        s->got[i] = type_load(s->type, s->y, i / (size_t)s->width * pitch + i % (size_t)s->width);
    return st;
}

/*
 * Values of v are in -1..1; scores and sums are fp32 for every type. Observed: probabilities, and
 * y in fp32, 9.8e-7; with scores around 100 (an fp32 step of 8e-6) 6.8e-6; around 1e4 (1e-3) the
 * rows are one-hot and hide it. y in 16 bits is half a step of exponentials below 1 (fp16 2.4e-4,
 * bf16 2e-3), averaged over the keys, and half a step of y: observed 4.9e-4 and 2.9e-3. A wrong
 * mask, index, shift or padding measures 1e-2 and more.
 */
static inline double subject_tolerance(const struct subject *s, bool probs) {
    double fine = s->window && s->window->bias > 1e3f ? 1e-3 : 1e-5;
    return probs || s->type == CUDA_FP32 ? fine : fine + (s->type == CUDA_FP16 ? 6e-4 : 4e-3);
}

/* Of the greatest scores: observed 5.0e-7, and 8.0e-7 where 16 bits go by powers of 2. */
#define SUBJECT_SCORES 4e-6

/* Whether nothing between y's rows was written. */
static inline bool subject_gaps_whole(const struct subject *s) {
    size_t size = type_size(s->type), pitch = (size_t)(s->width + s->spare) * size;
    for (size_t row = 0; row < (size_t)(s->batch * s->tq); row++)
        for (size_t i = (size_t)s->width * size; i < pitch; i++)
            if (((const unsigned char *)s->y)[row * pitch + i] != UNTOUCHED) return false;
    return true;
}

/* Whether the last run gave what it should; says what is wrong if `name`. */
static inline bool subject_good(const struct subject *s, const char *name, bool probs) {
    char line[200];
    bool good = true;
    double tolerance = subject_tolerance(s, false);
    if (name == NULL) {
        for (size_t i = 0; good && i < y_count(s); i++)
            good = fabs((double)s->got[i] - s->want[i]) <= tolerance;
        for (size_t i = 0; good && probs && i < probs_count(s); i++)
            good = fabs((double)s->probs[i] - s->want_probs[i]) <= subject_tolerance(s, true);
        if (good && probs)
            good = scores_close(NULL, s->greatest, s->want_greatest, row_count(s), SUBJECT_SCORES);
        return good && subject_gaps_whole(s);
    }
    snprintf(line, sizeof line, "%s y, %s", name, s->why);
    good &= op_close(line, s->got, s->want, s->ones, y_count(s), tolerance);
    snprintf(line, sizeof line, "%s probabilities, %s", name, s->why);
    if (probs)
        good &= op_close(line, s->probs, s->want_probs, s->ones, probs_count(s),
                         subject_tolerance(s, true)) &
                scores_close(line, s->greatest, s->want_greatest, row_count(s), SUBJECT_SCORES);
    if (!subject_gaps_whole(s)) printf("%s: y was written between its rows\n", line);
    return good && subject_gaps_whole(s);
}

#endif
