/*
 * gemm_cpu: y (M, N) = epilogue(x (M, K) W^T + b) + residual in fp32, over simd.h; compiled per
 * feature level.
 *
 * The weight is packed once into panels of two vectors of columns, K-major: panels (N/step, K,
 * step), the last one filled up with zeros. A task walks K in blocks, inside them the panels,
 * inside them tiles of TILE_ROWS rows, whose sums stay in registers for the whole block: every step
 * loads 2 vectors of W, and for each row splats one x and does 2 fused multiply-adds. Bias,
 * activation and residual are applied to a finished tile on its way from L1 to y.
 *
 * An output's sum runs over k = 0, 1, ... K-1 in one chain, whatever tile, block or task it is in
 * (a partial sum between two blocks is stored and loaded exactly), so its bits do not depend on the
 * split.
 *
 * Called by linear_cpu.c, a task at a time; 2*M*N*K operations. Rates: linear_cpu.c.
 */
#include "kernels/simd.h"
#include "kernels/simd_kernels.h"

/* 2 * TILE_ROWS sums, 2 vectors of W and the splat of x fill the registers of the level. */
#if VL == 16
#define TILE_ROWS 14
#elif defined(__AVX2__)
#define TILE_ROWS 6
#elif defined(__aarch64__)
#define TILE_ROWS 8
#else
#define TILE_ROWS 4
#endif

#define STEP GEMM_COLUMN_STEP

/*
 * A panel's block of K and the tile's rows of x then share L2 with what the panel before has left
 * there.
 */
#ifndef GEMM_K_BLOCK
#define GEMM_K_BLOCK 1024
#endif

/* Floats of W fetched ahead of use, from L2 or the panel's first touch: 3 to 4 % (Zen 3). */
#define AHEAD 512

typedef void tile_function(const float *x, size_t pitch, const float *panel, int k, bool first,
                           float *c);

/*
 * c (rows, STEP) = x (rows, k) panel (k, STEP), or, unless `first`, += that. `rows` is a constant
 * to the compiler.
 */
SIMD_INLINE void tile(int rows, const float *x, size_t pitch, const float *panel, int k, bool first,
                      float *c) {
    vf sums[TILE_ROWS][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        sums[i][0] = first ? vf_splat(0) : vf_load(c + i * STEP);
        sums[i][1] = first ? vf_splat(0) : vf_load(c + i * STEP + VL);
    }
    for (int j = 0; j < k; j++) {
        vf w0 = vf_load(panel), w1 = vf_load(panel + VL);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vf splat = vf_splat(x[(size_t)i * pitch]);
            sums[i][0] = vf_fma(splat, w0, sums[i][0]);
            sums[i][1] = vf_fma(splat, w1, sums[i][1]);
        }
        x++;
        for (int line = 0; line < STEP; line += 16)
            __builtin_prefetch(panel + AHEAD + line);
        panel += STEP;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        vf_store(c + i * STEP, sums[i][0]);
        vf_store(c + i * STEP + VL, sums[i][1]);
    }
}

#define TILE(rows)                                                                                 \
    static void tile_##rows(const float *x, size_t pitch, const float *panel, int k, bool first,   \
                            float *c) {                                                            \
        tile(rows, x, pitch, panel, k, first, c);                                                  \
    }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
#if TILE_ROWS >= 6
TILE(5)
TILE(6)
#endif
#if TILE_ROWS >= 8
TILE(7)
TILE(8)
#endif
#if TILE_ROWS >= 14
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif

static tile_function *const tiles[TILE_ROWS + 1] = {
    NULL,   tile_1,  tile_2,  tile_3,  tile_4,
#if TILE_ROWS >= 6
    tile_5, tile_6,
#endif
#if TILE_ROWS >= 8
    tile_7, tile_8,
#endif
#if TILE_ROWS >= 14
    tile_9, tile_10, tile_11, tile_12, tile_13, tile_14,
#endif
};

SIMD_INLINE vf activated(enum epilogue epilogue, vf v) {
    switch (epilogue) {
    case EPILOGUE_GELU: return vf_gelu(v);
    case EPILOGUE_GELU_TANH: return vf_gelu_tanh(v);
    case EPILOGUE_QUICK_GELU: return vf_quick_gelu(v);
    case EPILOGUE_NONE:
    case EPILOGUE_SWIGLU: break;
    }
    return v;
}

/* The tile's sums c (rows, STEP) become rows of y, `columns` <= STEP of them from `column` on. */
SIMD_INLINE void finish_rows(enum epilogue epilogue, const struct gemm_task *task, const float *c,
                             int row, int rows, int column, int columns) {
    const float *bias = task->bias ? task->bias + column : NULL;
    int n0 = columns < VL ? columns : VL, n1 = columns - n0;
    vf b0 = bias ? vf_load_n(bias, n0) : vf_splat(0);
    vf b1 = bias && n1 > 0 ? vf_load_n(bias + VL, n1) : vf_splat(0);
    for (int i = 0; i < rows; i++, c += STEP) {
        size_t at = (size_t)(row + i);
        float *y = task->y + at * task->y_pitch + column;
        const float *residual = task->residual;
        vf v0 = activated(epilogue, vf_load(c) + b0),
           v1 = activated(epilogue, vf_load(c + VL) + b1);
        if (residual) residual += at * task->residual_pitch + (size_t)column;
        if (n1 == VL) {
            if (residual) {
                v0 += vf_load(residual);
                v1 += vf_load(residual + VL);
            }
            vf_store(y, v0);
            vf_store(y + VL, v1);
            continue;
        }
        vf_store_n(y, residual ? v0 + vf_load_n(residual, n0) : v0, n0);
        if (n1 > 0) vf_store_n(y + VL, residual ? v1 + vf_load_n(residual + VL, n1) : v1, n1);
    }
}

/*
 * One function for all tiles, so that equal sums give equal bits; the activation is a constant
 * inside.
 */
static void finish(const struct gemm_task *task, const float *c, int row, int rows, int column,
                   int columns) {
    switch (task->epilogue) {
    case EPILOGUE_GELU: finish_rows(EPILOGUE_GELU, task, c, row, rows, column, columns); return;
    case EPILOGUE_GELU_TANH:
        finish_rows(EPILOGUE_GELU_TANH, task, c, row, rows, column, columns);
        return;
    case EPILOGUE_QUICK_GELU:
        finish_rows(EPILOGUE_QUICK_GELU, task, c, row, rows, column, columns);
        return;
    case EPILOGUE_NONE:
    case EPILOGUE_SWIGLU: finish_rows(EPILOGUE_NONE, task, c, row, rows, column, columns); return;
    }
}

size_t SIMD(gemm_pack_size)(int k, int n) {
    return ((size_t)n + STEP - 1) / STEP * STEP * (size_t)k;
}

void SIMD(gemm_pack)(const float *weight, int k, int n, float *panels) {
    enum { BLOCK = 64 }; /* of K: the part of a panel being filled stays in L1 */
    for (int column = 0; column < n; column += STEP, panels += (size_t)k * STEP) {
        for (int first = 0; first < k; first += BLOCK) {
            int last = k - first < BLOCK ? k : first + BLOCK;
            for (int j = 0; j < STEP; j++) {
                const float *row = weight + (size_t)(column + j) * (size_t)k;
                for (int i = first; i < last; i++)
                    panels[(size_t)i * STEP + (size_t)j] = column + j < n ? row[i] : 0;
            }
        }
    }
}

/* All tiles of one panel and one block [first, first+k) of K. */
static void gemm_panel(const struct gemm_task *task, int column, int first, int k, float *partial) {
    const struct gemm_weight *weight = task->weight;
    const float *panel = weight->panels + (size_t)column * (size_t)weight->k + (size_t)first * STEP;
    int end = task->column + task->columns;
    int columns = end - column < STEP ? end - column : STEP;
    int count = (task->rows + TILE_ROWS - 1) / TILE_ROWS;
    bool last = first + k == weight->k;
    float own[TILE_ROWS * STEP] __attribute__((aligned(64)));
    for (int i = 0, row = 0; i < count; i++) {
        int rows =
            (task->rows - row) / (count - i); /* even heights: 13 rows are 5, 4, 4, not 6, 6, 1 */
        float *c = partial ? partial + (size_t)row * STEP : own;
        tiles[rows](task->x + (size_t)row * task->x_pitch + first, task->x_pitch, panel, k,
                    first == 0, c);
        if (last) finish(task, c, row, rows, column, columns);
        row += rows;
    }
}

void SIMD(gemm)(const struct gemm_task *task) {
    int total = task->weight->k, end = task->column + task->columns;
    int blocks = task->partial ? (total + GEMM_K_BLOCK - 1) / GEMM_K_BLOCK : 1;
    for (int i = 0, first = 0; i < blocks; i++) {
        int k = (total - first) / (blocks - i);
        for (int column = task->column; column < end; column += STEP) {
            float *partial =
                blocks == 1 ? NULL
                            : task->partial + (size_t)(column - task->column) * (size_t)task->rows;
            gemm_panel(task, column, first, k, partial);
        }
        first += k;
    }
}
