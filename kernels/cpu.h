/*
 * cpu: the CPU backend's insides: its state, and the table of kernels compiled once per feature
 * level.
 *
 * The files named in SIMD_SRCS of the Makefile are written over simd.h (compiler vector extensions)
 * and compiled once per level (base, avx2, avx512; on other machines base alone) with
 * -DSIMD_LEVEL=<level>: SIMD(name) becomes name_<level>. cpu_kernels.c, compiled per level too,
 * collects them in one table; cpu.c picks the table of the best level that this processor has
 * ($VITRINE_SIMD = base | avx2 | avx512 lowers the choice, for tests).
 */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include "kernels/backend.h"
#include "kernels/threads.h"

#define SIMD_PASTE_(name, level) name##_##level
#define SIMD_PASTE(name, level)  SIMD_PASTE_(name, level)
#define SIMD(name)               SIMD_PASTE(name, SIMD_LEVEL)

#define CPU_TABLE_SPARE 16 /* floats that may be read behind a table's last */

/* One task of attention: rows [row, row+rows) of one (image or window, head). Plain, fp32. */
struct attention_task {
    const struct attention *desc;
    const float *q, *k, *v;           /* of this image and head: (Tq, D), (Tk, D), (Tk, D), */
    size_t q_pitch, k_pitch, v_pitch; /* elements from a token to the next */
    float *y;
    size_t y_pitch;
    int tq, tk;         /* tk already cut to the image's valid length; 0 gives zeros */
    float scale;        /* of this head: desc->scale, or with SCORE_COSINE its temperature */
    int row, rows;      /* the query rows of this task: any range inside [0, tq) */
    float *probs;       /* (Tq, Tk) of this image and head, or NULL */
    size_t probs_pitch; /* elements from a row to the next */
    int probs_columns;  /* Tk before the cut: columns [tk, probs_columns) are written 0 */
    float *greatest;    /* (Tq): with probs, each row's greatest score; or NULL */
    float *scratch;     /* attention_scratch() floats, 64-byte aligned, this worker's own */
    const float *table; /* PATTERN_FULL: desc->bias of this head, or NULL */
    /* PATTERN_WINDOW, where rows and keys are the N slots of a window; else NULL. */
    const int *tokens;          /* (N): the row of q, k, v and y of a slot, -1: padding */
    const float *pad_k, *pad_v; /* (D) of a padding slot, NULL: zeros */
    const float *bias;          /* attention_bias() of these rows, or NULL */
    const float *region;        /* (N): desc->mask_value between different ones; NULL: one region */
};

/* One (image, head), or (window, head), of op_attention_backward: dense rows, padded with 0. */
struct attention_backward_task {
    int tq, tk;
    int pitch;              /* of the rows, attention_backward_pitch of D */
    const float *q, *k, *v; /* (tq, D), (tk, D), (tk, D); SCORE_COSINE: normalised */
    const float *dy;        /* (tq, D) */
    const float *probs;     /* (tq, tk) */
    float *dprobs;          /* (tq, tk) */
    size_t probs_pitch, dprobs_pitch;
    float scale;    /* of the scores */
    float *dq;      /* (tq, D), by the normalised rows */
    float *dk, *dv; /* (tk, D), added to */
};

/* A weight packed for the level's own matrix product (used where oneDNN is absent or slower). */
struct gemm_weight {
    int k, n;
    float *panels; /* layout private to gemm_cpu.c */
};

/* One task of a product: rows x columns of y = epilogue(x W^T + b) + residual. */
struct gemm_task {
    const struct gemm_weight *weight;
    const float *bias; /* (n) or NULL */
    const float *x;
    size_t x_pitch;
    float *y;
    size_t y_pitch;
    const float *residual; /* NULL = none; may be y */
    size_t residual_pitch;
    int rows; /* M */
    /*
     * the part [column, column+columns) of n; starts and lengths are multiples of gemm_column_step
     * but for the end
     */
    int column, columns;
    enum epilogue epilogue; /* not SWIGLU */
    /*
     * rows x columns (rounded up to the step) floats for sums between blocks of K; NULL = K in one
     * block
     */
    float *partial;
};

struct cpu_kernels {
    const char *level; /* "base", "avx2", "avx512" */
    /* attention_cpu.c */
    size_t (*attention_scratch)(const struct attention *desc, int tq, int tk); /* floats */
    /* query rows a task should take */
    int (*attention_rows)(const struct attention *desc, int tq, int tk);
    /*
     * out (rows to whole row blocks, keys), in the kernel's order: the entries of one head's bias
     * table, with CPU_TABLE_SPARE behind it, for query rows [row, row+rows) and the keys from `key`
     * on. CPU_TABLE_SPARE floats behind out are overwritten.
     */
    void (*attention_bias)(const struct attention *desc, const float *table, int row, int rows,
                           int key, int keys, float *out);
    void (*attention)(const struct attention_task *task);
    /* attention_backward_cpu.c */
    int (*attention_backward_pitch)(int dim);
    void (*attention_backward)(const struct attention_backward_task *task);
    /* layernorm_cpu.c: `runs` consecutive groups of `width` per row */
    void (*layernorm)(const float *x, const float *weight, const float *bias, const float *residual,
                      float *y, int width, int runs, float eps, bool rms);
    /* activation_cpu.c: in place over n floats; swiglu: y[i] = silu(a[i])*b[i] */
    void (*activate)(enum epilogue epilogue, float *x, size_t n);
    void (*swiglu)(const float *a, const float *b, float *y, size_t n);
    void (*add)(const float *a, const float *b, float *y, size_t n);
    /* gemm_cpu.c */
    int gemm_column_step;
    size_t (*gemm_pack_size)(int k, int n);                              /* floats */
    void (*gemm_pack)(const float *weight, int k, int n, float *panels); /* weight (n, k) */
    void (*gemm)(const struct gemm_task *task);
    /* peak_cpu.c: multiply-adds without memory; returns the operations done */
    double (*peak)(long rounds, float *sink); /* sink (16) */
};

#if defined(__x86_64__)
extern const struct cpu_kernels cpu_kernels_avx512, cpu_kernels_avx2;
#endif
extern const struct cpu_kernels cpu_kernels_base;

/* The best table this processor can run. */
const struct cpu_kernels *cpu_kernels_pick(void);

/* ---- the backend's state --------------------------------------------------------------------- */

struct onednn;
struct onednn_weight;

/* A run of a linear's outputs that is packed, and computed, by itself: at least one task each. */
struct cpu_piece {
    int column, columns;
    struct gemm_weight own;       /* panels NULL: not packed for the own product */
    struct onednn_weight *onednn; /* NULL: not packed for oneDNN */
    struct arena spare;           /* own.panels beside onednn, for shapes that it has no code for */
};

struct cpu_linear {
    struct linear head;
    struct cpu_linear *next;
    float *bias; /* (out) or NULL */
    bool onednn; /* the pieces are oneDNN's */
    /*
     * Equal widths, the last of each half narrower; an even number, where out/2 is a border, or
     * one.
     */
    struct cpu_piece *pieces;
    int piece_count;
    struct arena memory; /* bias and panels */
};

struct cpu_norm {
    struct norm head;
    struct cpu_norm *next;
    float eps;
    bool rms;
    float *weight, *bias; /* (width), (width): one allocation */
};

struct cpu_table {
    struct table head;
    struct cpu_table *next;
    float values[]; /* (count + CPU_TABLE_SPARE), 0 behind count */
};

struct cpu {
    struct backend be; /* first: a struct backend * is a struct cpu * */
    const struct cpu_kernels *kernels;
    struct threads *threads;
    struct onednn *onednn; /* NULL: own products alone */
    bool onednn_always;    /* for products of few rows too */
    struct cpu_linear *linears;
    struct cpu_norm *norms;
    struct cpu_table *tables;
    struct arena scratch;  /* (workers, scratch_floats) */
    size_t scratch_floats; /* each worker's part, what planning has asked for so far */
};

static inline struct cpu *cpu_of(struct backend *be) {
    return (struct cpu *)be;
}

/* Element (b, t, 0) of an activation. */
static inline float *act_row(const struct act *a, int b, int t) {
    return (float *)a->data + a->offset + (size_t)b * a->stride + (size_t)t * a->pitch;
}

/*
 * Each worker has at least `floats` of scratch from now on; while planning that is only noted.
 * Before a parallel part, never in it: an op that was not planned may have to allocate here.
 */
enum status cpu_scratch(struct cpu *cpu, size_t floats) MUST_CHECK;

/* The worker's own scratch, 256-byte aligned. */
float *cpu_worker_scratch(const struct cpu *cpu, int worker);

/* linear_cpu.c: table entries, and the parts that patch_embed_cpu.c builds on. */
enum status cpu_linear_load(struct backend *be, const struct linear_spec *spec,
                            struct linear **out) MUST_CHECK;
void cpu_linear_release(struct cpu_linear *linear);
enum status cpu_linear_op(struct backend *be, const struct linear *linear, enum epilogue epilogue,
                          const struct act *x, const struct act *residual,
                          const struct act *y) MUST_CHECK;

/*
 * First row of a block, of `blocks` of equal height, the first ones a row higher; block == blocks
 * gives rows.
 */
int cpu_block_row(int rows, int blocks, int block);
/* Builds what oneDNN needs for a piece over `rows` rows. Outside parallel parts. */
enum status cpu_piece_prepare(const struct cpu *cpu, const struct cpu_linear *linear,
                              const struct gemm_task *task) MUST_CHECK;
/* Scratch floats that cpu_piece_run may use. */
size_t cpu_piece_scratch(const struct cpu *cpu, const struct cpu_linear *linear, int rows);
/*
 * `task` names rows, x, y and the residual as for the whole linear; weight, bias and columns are
 * the piece's.
 */
enum status cpu_piece_run(const struct cpu *cpu, const struct cpu_linear *linear, int piece,
                          const struct gemm_task *task, int worker, float *scratch) MUST_CHECK;

/* windows_cpu.c: PATTERN_WINDOW. */
enum status cpu_attention_windows(struct backend *be, const struct attention *desc,
                                  const struct act *q, const struct act *k, const struct act *v,
                                  const struct act *y) MUST_CHECK;

/* backward_cpu.c */
extern const struct backend_backward cpu_backward;

/* patch_embed_cpu.c, tokens_cpu.c */
enum status cpu_patch_embed(struct backend *be, const struct patch_spec *patch,
                            const uint8_t *pixels, const struct act *tok) MUST_CHECK;
enum status cpu_assemble(struct backend *be, const struct table *prefix, const struct table *pos,
                         const struct act *tok, const struct act *h) MUST_CHECK;
enum status cpu_patch_merge(struct backend *be, const struct norm *norm, const struct act *x,
                            int grid_h, int grid_w, const struct act *y) MUST_CHECK;
enum status cpu_mean(struct backend *be, const struct act *x, const struct act *y) MUST_CHECK;

#endif
