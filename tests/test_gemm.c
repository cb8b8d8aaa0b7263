/*
 * test_gemm: the own product of every feature level this machine runs, and of the 16-lane source
 * built for AVX2 ("wide"), against double precision; its bits against every way to split it.
 */
#include "tests/levels.h"
#include "tests/op_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 3 }; /* floats behind each row of y that must stay as they are */
static const float canary = -12345.5f;

/* One product's operands. */
struct product {
    struct op_shape shape;
    const struct cpu_kernels *kernels;
    float *x, *weight, *bias, *residual; /* (M, K + 1 between rows), (N, K), (N), (M, N + GUARD) */
    float *y, *partial;                  /* (M, N + GUARD), (M, N rounded up) */
    double *sums, *scales;               /* (M, N): x W^T and sum |x w|, both without bias */
    double *want, *bound;                /* (M, N) */
    struct gemm_weight packed;
    struct arena arena;
};

static void lay_out(struct product *p) {
    size_t m = (size_t)p->shape.rows, k = (size_t)p->shape.in, n = (size_t)p->shape.out;
    struct arena *arena = &p->arena;
    p->x = arena_take(arena, m * (k + 1), sizeof(float));
    p->weight = arena_take(arena, n * k, sizeof(float));
    p->bias = arena_take(arena, n, sizeof(float));
    p->residual = arena_take(arena, m * (n + GUARD), sizeof(float));
    p->y = arena_take(arena, m * (n + GUARD), sizeof(float));
    p->partial = arena_take(arena, m * (n + 64), sizeof(float));
    p->sums = arena_take(arena, m * n, sizeof(double));
    p->scales = arena_take(arena, m * n, sizeof(double));
    p->want = arena_take(arena, m * n, sizeof(double));
    p->bound = arena_take(arena, m * n, sizeof(double));
    p->packed.k = p->shape.in;
    p->packed.n = p->shape.out;
    p->packed.panels =
        arena_take(arena, p->kernels->gemm_pack_size(p->shape.in, p->shape.out), sizeof(float));
}

static void product_init(struct product *p, const struct op_shape *shape,
                         const struct cpu_kernels *kernels) {
    size_t m = (size_t)shape->rows, k = (size_t)shape->in, n = (size_t)shape->out;
    *p = (struct product){.shape = *shape, .kernels = kernels};
    lay_out(p);
    assert_int_equal(arena_reserve(&p->arena, "test"), ST_OK);
    lay_out(p);
    op_fill(p->x, m * (k + 1), 1);
    op_fill(p->weight, n * k, 2);
    op_fill(p->bias, n, 3);
    op_fill(p->residual, m * (n + GUARD), 4);
    kernels->gemm_pack(p->weight, shape->in, shape->out, p->packed.panels);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0, scale = 0;
            for (size_t l = 0; l < k; l++) {
                double term = (double)p->x[i * (k + 1) + l] * (double)p->weight[j * k + l];
                sum += term;
                scale += fabs(term);
            }
            p->sums[i * n + j] = sum;
            p->scales[i * n + j] = scale;
        }
    }
}

static double activation(enum epilogue epilogue, double x) {
    switch (epilogue) {
    case EPILOGUE_GELU: return x * erfc(-x * 0.70710678118654752) / 2;
    case EPILOGUE_GELU_TANH:
        return x / 2 * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case EPILOGUE_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case EPILOGUE_NONE:
    case EPILOGUE_SWIGLU: break;
    }
    return x;
}

/* want and the bound of its error: 1 for the terms, the activation's slope (< 1.13) included. */
static void expect(struct product *p, enum epilogue epilogue, bool bias, bool residual) {
    size_t m = (size_t)p->shape.rows, n = (size_t)p->shape.out;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            size_t at = i * n + j;
            double b = bias ? (double)p->bias[j] : 0;
            double r = residual ? (double)p->residual[i * (n + GUARD) + j] : 0;
            p->want[at] = activation(epilogue, p->sums[at] + b) + r;
            p->bound[at] = p->scales[at] + fabs(b) + fabs(r) + 1e-30;
        }
    }
}

static struct gemm_task whole_task(const struct product *p, enum epilogue epilogue, bool bias,
                                   const float *residual) {
    return (struct gemm_task){
        .weight = &p->packed,
        .bias = bias ? p->bias : NULL,
        .x = p->x,
        .x_pitch = (size_t)p->shape.in + 1,
        .y = p->y,
        .y_pitch = (size_t)p->shape.out + GUARD,
        .residual = residual,
        .residual_pitch = (size_t)p->shape.out + GUARD,
        .rows = p->shape.rows,
        .columns = p->shape.out,
        .epilogue = epilogue,
        .partial = p->partial,
    };
}

static void reset_y(struct product *p, const float *values) {
    size_t m = (size_t)p->shape.rows, pitch = (size_t)p->shape.out + GUARD;
    for (size_t i = 0; i < m * pitch; i++) {
        bool guard = i % pitch >= (size_t)p->shape.out;
        p->y[i] = guard || !values ? canary : values[i];
    }
}

/* y without its guards, which must be whole. */
static void take_y(const struct product *p, float *out) {
    size_t m = (size_t)p->shape.rows, n = (size_t)p->shape.out;
    for (size_t i = 0; i < m; i++) {
        memcpy(out + i * n, p->y + i * (n + GUARD), n * sizeof(float));
        for (size_t j = n; j < n + GUARD; j++)
            assert_true(p->y[i * (n + GUARD) + j] == canary);
    }
}

/*
 * Of sum |x w| + |b| + |r|. Observed at most 2.5e-7 (base, 197x768x768); a term left out is some
 * 1/K > 3e-4, a bias or a residual left out more.
 */
static const double tolerance = 5e-7;

static void check_product(struct product *p) {
    size_t n = (size_t)p->shape.rows * (size_t)p->shape.out;
    float *got = mem_zalloc(n, sizeof(float));
    assert_non_null(got);
    for (int mode = 0; mode < 4 * 2 * 3; mode++) {
        enum epilogue epilogue = (enum epilogue)(mode % 4);
        bool bias = mode / 4 % 2;
        int residual = mode / 8; /* none, apart, in place */
        char name[160];
        struct gemm_task task = whole_task(p, epilogue, bias,
                                           residual == 0   ? NULL
                                           : residual == 1 ? p->residual
                                                           : p->y);
        reset_y(p, residual == 2 ? p->residual : NULL);
        expect(p, epilogue, bias, residual != 0);
        p->kernels->gemm(&task);
        take_y(p, got);
        snprintf(name, sizeof name, "%s gemm %dx%dx%d (%s) epilogue %d bias %d residual %d",
                 p->kernels->level, p->shape.rows, p->shape.in, p->shape.out, p->shape.why,
                 (int)epilogue, bias, residual);
        assert_true(op_close(name, got, p->want, p->bound, n, tolerance));
    }
    mem_free(got);
}

static void test_values(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < OP_SHAPE_COUNT; j++) {
            struct product p;
            product_init(&p, &op_shapes[j], levels[i]);
            check_product(&p);
            arena_release(&p.arena);
        }
    }
}

/* y again, in tasks of `rows` rows and `columns` columns, K blocked or not. */
static void split_product(struct product *p, int rows, int columns, bool blocked) {
    struct gemm_task whole = whole_task(p, EPILOGUE_GELU, true, p->residual);
    reset_y(p, NULL);
    for (int row = 0; row < p->shape.rows; row += rows) {
        for (int column = 0; column < p->shape.out; column += columns) {
            struct gemm_task task = whole;
            task.x += (size_t)row * task.x_pitch;
            task.y += (size_t)row * task.y_pitch;
            task.residual += (size_t)row * task.residual_pitch;
            task.rows = p->shape.rows - row < rows ? p->shape.rows - row : rows;
            task.column = column;
            task.columns = p->shape.out - column < columns ? p->shape.out - column : columns;
            if (!blocked) task.partial = NULL;
            p->kernels->gemm(&task);
        }
    }
}

/*
 * The bits of an output are those of its own sum: not of the task, the tile or the block it is in.
 */
static void test_splits(void **state) {
    static const int rows[] = {1, 2, 3, 5, 6, 7, 13, 14, 64, 1000};
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t i = 0; i < count * OP_SHAPE_COUNT; i++) {
        struct product p;
        size_t n;
        float *once, *again;
        product_init(&p, &op_shapes[i % OP_SHAPE_COUNT], levels[i / OP_SHAPE_COUNT]);
        n = (size_t)p.shape.rows * (size_t)p.shape.out;
        once = mem_zalloc(n, sizeof(float));
        again = mem_zalloc(n, sizeof(float));
        assert_non_null(once);
        assert_non_null(again);
        split_product(&p, p.shape.rows, p.shape.out, true);
        take_y(&p, once);
        for (size_t j = 0; j < COUNT_OF(rows); j++) {
            int columns = (int)(j % 3 + 1) * p.kernels->gemm_column_step;
            split_product(&p, rows[j], columns, j % 2);
            take_y(&p, again);
            assert_memory_equal(once, again, n * sizeof(float));
        }
        mem_free(once);
        mem_free(again);
        arena_release(&p.arena);
    }
}

/* A NaN or infinity of x stays in its row. */
static void test_not_a_number(void **state) {
    const struct cpu_kernels *levels[4];
    size_t count = list_levels(levels);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct op_shape shape = {9, 17, 37, "a NaN in row 4"};
        struct product p;
        struct gemm_task task;
        product_init(&p, &shape, levels[i]);
        p.x[4 * 18 + 16] = NAN;
        task = whole_task(&p, EPILOGUE_GELU, true, NULL);
        p.kernels->gemm(&task);
        for (int row = 0; row < shape.rows; row++)
            for (int column = 0; column < shape.out; column++)
                assert_int_equal(isnan(p.y[row * (shape.out + GUARD) + column]) != 0, row == 4);
        arena_release(&p.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
