/*
 * test_attention_windows: PATTERN_WINDOW of the CPU backend at every feature level, against double
 * precision done the long way: shift the map, pad it, cut windows, attend, and undo it all.
 */
#include "kernels/cpu.h"
#include "tests/attention_shapes.h"
#include "tests/levels.h"
#include "tests/op_shapes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Operands: q, k, v are column views of one packed (B, T, 3C), with three spare columns. */
struct operands {
    struct window_shape shape;
    struct backend *be;
    struct attention desc;
    int tokens, slots, windows, width; /* T, N, W, H*D */
    size_t entries;                    /* of a head's table */
    struct act qkv, y, probs, greatest;
    float *table, *padding, *temperature; /* (H, entries), (2, H*D), (H) */
    double *want, *want_probs, *ones;     /* (B, T, H*D), (B, W*H*N, N) */
    double *want_greatest;                /* (B, W*H, N) */
    float *got;
    struct arena arena;
};

enum { SPARE = 3 };

static size_t y_count(const struct operands *o) {
    return (size_t)o->shape.batch * (size_t)o->tokens * (size_t)o->width;
}

static size_t probs_count(const struct operands *o) {
    return (size_t)o->shape.batch * (size_t)(o->windows * o->shape.heads) *
           (size_t)(o->slots * o->slots);
}

static size_t row_count(const struct operands *o) {
    return probs_count(o) / (size_t)o->slots;
}

static void lay_out(struct operands *o) {
    const struct window_shape *s = &o->shape;
    size_t most = y_count(o) > probs_count(o) ? y_count(o) : probs_count(o);
    o->qkv = act_take(o->be, &o->arena, s->batch, o->tokens, 3 * o->width + SPARE);
    o->y = act_take(o->be, &o->arena, s->batch, o->tokens, o->width);
    o->probs = act_take(o->be, &o->arena, s->batch, o->windows * s->heads * o->slots, o->slots);
    o->greatest = act_take(o->be, &o->arena, s->batch, o->windows * s->heads, o->slots);
    o->want_greatest = arena_take(&o->arena, row_count(o), sizeof(double));
    o->table = arena_take(&o->arena, (size_t)s->heads * o->entries, sizeof(float));
    o->padding = arena_take(&o->arena, 2 * (size_t)o->width, sizeof(float));
    o->temperature = arena_take(&o->arena, (size_t)s->heads, sizeof(float));
    o->want = arena_take(&o->arena, y_count(o), sizeof(double));
    o->want_probs = arena_take(&o->arena, probs_count(o), sizeof(double));
    o->ones = arena_take(&o->arena, most, sizeof(double));
    o->got = arena_take(&o->arena, most, sizeof(float));
}

static void operands_init(struct operands *o, const struct window_shape *s,
                          const struct cpu_kernels *kernels, int threads) {
    struct table *table = NULL;
    *o = (struct operands){
        .shape = *s,
        .desc = {.heads = s->heads,
                 .head_dim = s->dim,
                 .score = s->temperature > 0 ? SCORE_COSINE : SCORE_DOT,
                 .scale = 1.0f / sqrtf((float)s->dim),
                 .pattern = PATTERN_WINDOW,
                 .grid_h = s->grid_h,
                 .grid_w = s->grid_w,
                 .window_h = s->window_h,
                 .window_w = s->window_w,
                 .shift_h = s->shift_h,
                 .shift_w = s->shift_w,
                 .mask_value = -100},
        .tokens = s->grid_h * s->grid_w,
        .slots = s->window_h * s->window_w,
        .windows = ((s->grid_h + s->window_h - 1) / s->window_h) *
                   ((s->grid_w + s->window_w - 1) / s->window_w),
        .width = s->heads * s->dim,
        .entries = (size_t)((2 * s->window_h - 1) * (2 * s->window_w - 1)),
    };
    assert_int_equal(cpu_open("fp32", threads, &o->be), ST_OK);
    cpu_of(o->be)->kernels = kernels;
    lay_out(o);
    assert_int_equal(arena_reserve(&o->arena, "test"), ST_OK);
    lay_out(o);
    op_fill(o->qkv.data, (size_t)s->batch * o->qkv.stride, 1);
    op_fill(o->table, (size_t)s->heads * o->entries, 2);
    op_fill(o->padding, 2 * (size_t)o->width, 3);
    for (size_t i = 0; i < (size_t)s->heads * o->entries; i++)
        o->table[i] *= s->bias;
    for (int h = 0; h < s->heads; h++)
        o->temperature[h] = s->temperature * (h % 2 ? 0.5f : 1.0f);
    for (size_t i = 0; i < y_count(o) || i < probs_count(o); i++)
        o->ones[i] = 1;
    if (s->bias > 0) {
        size_t count = (size_t)s->heads * o->entries;
        assert_int_equal(table_load(o->be, o->table, count, &table), ST_OK);
        o->desc.bias = table;
    }
    if (s->padding) {
        assert_int_equal(table_load(o->be, o->padding, 2 * (size_t)o->width, &table), ST_OK);
        o->desc.padding = table;
    }
    if (s->temperature > 0) {
        assert_int_equal(table_load(o->be, o->temperature, (size_t)s->heads, &table), ST_OK);
        o->desc.temperature = table;
    }
}

static void operands_release(struct operands *o) {
    arena_release(&o->arena);
    backend_close(o->be);
}

static void run(struct operands *o, bool probs) {
    for (size_t i = 0; i < y_count(o); i++)
        ((float *)o->y.data)[i] = NAN;
    for (size_t i = 0; i < probs_count(o); i++)
        ((float *)o->probs.data)[i] = NAN;
    for (size_t i = 0; i < row_count(o); i++)
        ((float *)o->greatest.data)[i] = NAN;
    o->desc.probs = probs ? &o->probs : NULL;
    o->desc.greatest = probs ? &o->greatest : NULL;
    op_attention(o->be, &o->desc, act_columns(o->qkv, 0, o->width),
                 act_columns(o->qkv, o->width, o->width),
                 act_columns(o->qkv, 2 * o->width, o->width), o->y);
    assert_int_equal(backend_sync(o->be), ST_OK);
}

/* ---- the long way ---------------------------------------------------------------------------- */

static const float zeros[64];

/* part 0, 1, 2: q, k, v of a head. */
static const float *row_at(const struct operands *o, int image, struct map_slot at, int head,
                           int part) {
    size_t column = (size_t)(head * o->shape.dim);
    if (at.token >= 0)
        return act_row(&o->qkv, image, at.token) + (size_t)(part * o->width) + column;
    return o->shape.padding && part > 0 ? o->padding + (size_t)((part - 1) * o->width) + column
                                        : zeros;
}

/* k and v have room for a window's rows. */
static void query_reference(struct operands *o, int image, int window, int head, int query,
                            const float **k, const float **v) {
    const struct window_shape *s = &o->shape;
    struct map_slot a = map_slot_of(s, window, query);
    size_t at = (size_t)((image * o->windows + window) * s->heads + head) * (size_t)o->slots +
                (size_t)query;
    const float *table = s->bias > 0 ? o->table + (size_t)head * o->entries : NULL;
    double *p = o->want_probs + at * (size_t)o->slots;
    memset(p, 0, (size_t)o->slots * sizeof *p);
    o->want_greatest[at] = 0;
    if (a.token < 0) return;
    for (int j = 0; j < o->slots; j++) {
        struct map_slot b = map_slot_of(s, window, j);
        k[j] = row_at(o, image, b, head, 1);
        v[j] = row_at(o, image, b, head, 2);
        p[j] = map_addend(s, a, b, table);
    }
    o->want_greatest[at] = attention_reference(
        o->desc.score, (double)(s->temperature > 0 ? o->temperature[head] : o->desc.scale),
        o->slots, s->dim, row_at(o, image, a, head, 0), k, v, p,
        o->want + ((size_t)image * (size_t)o->tokens + (size_t)a.token) * (size_t)o->width +
            (size_t)(head * s->dim));
}

static void reference(struct operands *o) {
    const float **k = mem_zalloc((size_t)o->slots, sizeof *k);
    const float **v = mem_zalloc((size_t)o->slots, sizeof *v);
    assert_true(k && v);
    for (int image = 0; image < o->shape.batch; image++)
        for (int window = 0; window < o->windows; window++)
            for (int head = 0; head < o->shape.heads; head++)
                for (int query = 0; query < o->slots; query++)
                    query_reference(o, image, window, head, query, k, v);
    mem_free(k);
    mem_free(v);
}

/* ---- the tests ------------------------------------------------------------------------------- */

/*
 * Values are in -1..1. A score of 1e4 has half a step of 5e-4 in fp32, which moves a probability by
 * as much; one of 100 has 4e-6. A wrong shift, mask, index or padding measures 1e-2 and more.
 */
static double tolerance(const struct window_shape *s) {
    return s->bias > 1e3f ? 1e-3 : s->temperature > 50 ? 1e-5 : 2e-6;
}

static void against_double(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    bool good = true;
    (void)state;
    for (size_t l = 0; l < count; l++) {
        for (size_t i = 0; i < WINDOW_SHAPE_COUNT; i++) {
            struct operands o;
            char name[160];
            operands_init(&o, &window_shapes[i], levels[l], 1);
            reference(&o);
            snprintf(name, sizeof name, "%s: %s", levels[l]->level, window_shapes[i].why);
            run(&o, false);
            memcpy(o.got, o.y.data, y_count(&o) * sizeof(float));
            good &=
                op_close(name, o.got, o.want, o.ones, y_count(&o), tolerance(&window_shapes[i]));
            run(&o, true);
            assert_memory_equal(o.got, o.y.data, y_count(&o) * sizeof(float));
            good &= op_close(name, o.probs.data, o.want_probs, o.ones, probs_count(&o),
                             tolerance(&window_shapes[i]));
            good &= scores_close(name, o.greatest.data, o.want_greatest, row_count(&o), 2e-6);
            operands_release(&o);
        }
    }
    assert_true(good);
}

/* Neither the threads nor the images beside it change an image's bits. */
static void threads_and_batch_do_not_matter(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t l = 0; l < count; l++) {
        for (size_t i = 0; i < WINDOW_SHAPE_COUNT; i++) {
            struct operands one, two;
            struct window_shape several = window_shapes[i];
            several.batch += 3;
            operands_init(&one, &window_shapes[i], levels[l], 1);
            operands_init(&two, &several, levels[l], 3);
            run(&one, true);
            run(&two, true);
            assert_memory_equal(one.y.data, two.y.data, y_count(&one) * sizeof(float));
            assert_memory_equal(one.probs.data, two.probs.data, probs_count(&one) * sizeof(float));
            assert_memory_equal(one.greatest.data, two.greatest.data,
                                row_count(&one) * sizeof(float));
            operands_release(&one);
            operands_release(&two);
        }
    }
}

/* Work grows with the map, scratch with the window alone. */
static void scratch_does_not_grow_with_the_map(void **state) {
    static const struct window_shape small = {1, 14, 14, 7, 7, 3, 3, 2, 32, 0, 1, false, "small"};
    static const struct window_shape large = {1, 70, 77, 7, 7, 3, 3, 2, 32, 0, 1, false, "large"};
    struct operands a, b;
    (void)state;
    operands_init(&a, &small, &cpu_kernels_base, 1);
    operands_init(&b, &large, &cpu_kernels_base, 1);
    run(&a, false);
    run(&b, false);
    assert_int_equal(cpu_of(a.be)->scratch_floats, cpu_of(b.be)->scratch_floats);
    operands_release(&a);
    operands_release(&b);
}

/* What check_attention says of a map that does not fit its tables. */
static void refusals(void **state) {
    static const struct window_shape shape = {1, 4, 4, 2, 2, 1, 1, 2, 4, 0, 1, true, "refused"};
    static const struct {
        int grid_h, window_h, window_w, shift_h;
        const char *sentence;
    } rows[] = {
        {3, 2, 2, 1, "attention: a map of 3x4, but 16 queries and 16 keys"},
        {4, 0, 2, 0, "attention: window 0x2 with shift 0, 1, want 0 <= shift < window"},
        {4, 2, 5000, 0, "attention: window 2x5000 with shift 0, 1, want 0 <= shift < window"},
        {4, 2, 2, 2, "attention: window 2x2 with shift 2, 1, want 0 <= shift < window"},
        {4, 2, 2, -1, "attention: window 2x2 with shift -1, 1, want 0 <= shift < window"},
        {4, 2, 3, 1, "attention: bias has 18 values, want 30"},
    };
    struct operands o;
    (void)state;
    operands_init(&o, &shape, &cpu_kernels_base, 1);
    struct attention good = o.desc;
    struct act q = act_columns(o.qkv, 0, o.width);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct attention bad = good;
        bad.grid_h = rows[i].grid_h;
        bad.window_h = rows[i].window_h;
        bad.window_w = rows[i].window_w;
        bad.shift_h = rows[i].shift_h;
        op_attention(o.be, &bad, q, q, q, o.y);
        assert_int_equal(backend_sync(o.be), ST_SHAPE);
        assert_string_equal(fail_message(), rows[i].sentence);
    }
    good.padding = good.bias;
    op_attention(o.be, &good, q, q, q, o.y);
    assert_int_equal(backend_sync(o.be), ST_SHAPE);
    assert_string_equal(fail_message(), "attention: padding has 18 values, want 16");
    good.padding = NULL;
    good.pattern = PATTERN_FULL;
    for (int prefix = 1; prefix >= 0; prefix--) {
        good.prefix = prefix;
        op_attention(o.be, &good, q, q, q, o.y);
        assert_int_equal(backend_sync(o.be), ST_SHAPE);
        assert_string_equal(fail_message(),
                            prefix ? "attention: a map of 4x4 behind 1 tokens, but 16 queries and "
                                     "16 keys"
                                   : "attention: bias has 18 values, want 98");
    }
    good.padding = good.bias;
    good.bias = NULL;
    op_attention(o.be, &good, q, q, q, o.y);
    assert_int_equal(backend_sync(o.be), ST_SHAPE);
    assert_string_equal(fail_message(), "attention: padding without windows");
    operands_release(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_double),
        cmocka_unit_test(threads_and_batch_do_not_matter),
        cmocka_unit_test(scratch_does_not_grow_with_the_map),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
