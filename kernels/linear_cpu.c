/*
 * linear_cpu: y (B, T, N) = epilogue(x (B, T, K) W^T + b) + residual.
 *
 * A linear's outputs are cut into pieces when it is loaded, its rows into blocks when it runs; a
 * task is one block of one piece. Both cuts follow from (T, K, N) alone. Each piece is packed by
 * itself, for oneDNN's matmul or for the own product (gemm_cpu.c).
 *
 * One Zen 3 core (AVX2, FMA peak 103 GFLOP/s), fraction of the peak measured around each call,
 * upper quartile of 101, the machine not quiet, own / oneDNN 2.6.3, T x K x N:
 *   197x768x2304        .90/.88    197x768x3072 GELU   .86/.82    197x3072x768 +res  .90/.90
 *   197x384x1152        .93/.91    197x384x1536 GELU   .85/.80    197x1536x384 +res  .92/.89
 *   197x192x576         .91/.90    197x192x768 GELU    .79/.71    197x768x192 +res   .95/.89
 *   3136x96x288 (Swin)  .92/.89    3136x96x384 GELU    .68/.59    3136x384x96 +res   .87/.85
 *   65x128x384          .92/.89    1x768x1000          .11/.07    8 x 1x768x1000     .57/.17
 */
#include "kernels/cpu.h"
#include "kernels/onednn.h"

#include <stdio.h>
#include <string.h>

/*
 * Tasks: some 50 us of work or half a MiB of weights each, at most MOST of them unless rows want
 * more.
 */
#define TASK_OPERATIONS 4e6
#define TASK_BYTES      524288.0
#define MOST_TASKS      24
/*
 * A block's rows of x (104 x 768 x 4 = 312 KiB) stay in L2 beside a panel; oneDNN blocks inside,
 * and likes more.
 */
#define OWN_BLOCK_ROWS    104
#define ONEDNN_BLOCK_ROWS 208
/* oneDNN's and the own widest column steps divide it. */
#define PIECE_STEP 64

static int at_least(int value, int least) {
    return value < least ? least : value;
}

static int at_most(int value, int most) {
    return value > most ? most : value;
}

static int divide_up(int a, int b) {
    return a / b + (a % b != 0);
}

/* How many tasks are worth their while. */
static int tasks_wanted(int rows, int in, int out) {
    double operations = 2.0 * rows * in * out / TASK_OPERATIONS,
           bytes = 4.0 * in * out / TASK_BYTES;
    double tasks = operations > bytes ? operations : bytes;
    return tasks < 1 ? 1 : tasks > MOST_TASKS ? MOST_TASKS : (int)tasks;
}

static int block_rows(const struct cpu_linear *linear) {
    return linear->onednn ? ONEDNN_BLOCK_ROWS : OWN_BLOCK_ROWS;
}

/* How many blocks a product over `rows` rows of one image is cut into. */
static int row_blocks(const struct cpu_linear *linear, int rows) {
    int blocks = divide_up(rows, block_rows(linear));
    double operations = 2.0 * rows * linear->head.in * linear->head.out / TASK_OPERATIONS;
    return operations < blocks ? at_least((int)operations, 1) : blocks;
}

/*
 * No block of a product over at most `rows` rows is higher: what scratch must hold at any smaller
 * batch.
 */
static int highest_block(const struct cpu_linear *linear, int rows) {
    double few = 2 * TASK_OPERATIONS / (2.0 * linear->head.in * linear->head.out) + 1;
    int most = block_rows(linear);
    return few > rows ? rows : at_most(rows, at_least((int)few, most));
}

int cpu_block_row(int rows, int blocks, int block) {
    int extra = rows % blocks;
    return rows / blocks * block + (block < extra ? block : extra);
}

/* ---- loading --------------------------------------------------------------------------------- */

/* oneDNN, if it is open (cpu.c), but for few rows: there W is read once, from memory, by either. */
static bool use_onednn(const struct cpu *cpu, int rows) {
    return cpu->onednn && (cpu->onednn_always || rows >= 32);
}

/* Cuts [0, out) into pieces; half of them on each side of out/2, so that SwiGLU finds its pairs. */
static enum status cut_pieces(struct cpu_linear *linear, int rows) {
    int in = linear->head.in, out = linear->head.out;
    int wanted = divide_up(tasks_wanted(rows, in, out), row_blocks(linear, rows));
    int halves = out % 2 == 0 && wanted > 1 && out >= 2 * PIECE_STEP ? 2 : 1;
    int width = out / halves, parts = halves == 1 && out % 2 == 0 ? 1 : divide_up(wanted, halves);
    int step = divide_up(divide_up(width, parts), PIECE_STEP) * PIECE_STEP;
    parts = divide_up(width, step);
    linear->pieces = mem_zalloc((size_t)(parts * halves), sizeof *linear->pieces);
    if (!linear->pieces) return ST_NOMEM;
    for (int i = 0; i < parts * halves; i++) {
        int column = i % parts * step;
        linear->pieces[i].column = i / parts * width + column;
        linear->pieces[i].columns = at_most(step, width - column);
    }
    linear->piece_count = parts * halves;
    return ST_OK;
}

/* Run twice: measures, then binds. */
static void lay_out(const struct cpu *cpu, struct cpu_linear *linear) {
    struct arena *memory = &linear->memory;
    int in = linear->head.in;
    if (linear->head.has_bias)
        linear->bias = arena_take(memory, (size_t)linear->head.out, sizeof(float));
    for (int i = 0; !linear->onednn && i < linear->piece_count; i++) {
        struct cpu_piece *piece = &linear->pieces[i];
        piece->own.k = in;
        piece->own.n = piece->columns;
        piece->own.panels =
            arena_take(memory, cpu->kernels->gemm_pack_size(in, piece->columns), sizeof(float));
    }
}

struct pack_call {
    const struct cpu *cpu;
    const struct cpu_linear *linear;
    const float *weight;
};

static void pack_own(void *context, int task, int worker) {
    const struct pack_call *call = context;
    const struct cpu_piece *piece = &call->linear->pieces[task];
    (void)worker;
    call->cpu->kernels->gemm_pack(call->weight + (size_t)piece->column * (size_t)piece->own.k,
                                  piece->own.k, piece->own.n, piece->own.panels);
}

static enum status pack(struct cpu *cpu, struct cpu_linear *linear,
                        const struct linear_spec *spec) {
    int rows = at_least(spec->rows, 1), blocks;
    linear->onednn = use_onednn(cpu, spec->rows);
    TRY(cut_pieces(linear, rows));
    lay_out(cpu, linear);
    TRY(arena_reserve(&linear->memory, spec->name));
    lay_out(cpu, linear);
    if (spec->bias) memcpy(linear->bias, spec->bias, (size_t)spec->out * sizeof(float));
    if (!linear->onednn) {
        struct pack_call call = {cpu, linear, spec->weight};
        threads_run(cpu->threads, linear->piece_count, pack_own, &call);
        return ST_OK;
    }
    blocks = row_blocks(linear, rows);
    for (int i = 0; i < linear->piece_count; i++) {
        struct cpu_piece *piece = &linear->pieces[i];
        TRY(onednn_pack(cpu->onednn, spec->weight + (size_t)piece->column * (size_t)spec->in,
                        linear->bias ? linear->bias + piece->column : NULL, spec->in,
                        piece->columns, divide_up(rows, blocks), &piece->onednn));
    }
    return ST_OK;
}

enum status cpu_linear_load(struct backend *be, const struct linear_spec *spec,
                            struct linear **out) {
    struct cpu *cpu = cpu_of(be);
    struct cpu_linear *linear = mem_zalloc(1, sizeof *linear);
    enum status st;
    if (!linear) return ST_NOMEM;
    snprintf(linear->head.name, sizeof linear->head.name, "%s", spec->name);
    linear->head.in = spec->in;
    linear->head.out = spec->out;
    linear->head.has_bias = spec->bias != NULL;
    st = pack(cpu, linear, spec);
    if (st != ST_OK) {
        cpu_linear_release(linear);
        return st;
    }
    linear->next = cpu->linears;
    cpu->linears = linear;
    *out = &linear->head;
    return ST_OK;
}

void cpu_linear_release(struct cpu_linear *linear) {
    for (int i = 0; i < linear->piece_count; i++) {
        onednn_release(linear->pieces[i].onednn);
        arena_release(&linear->pieces[i].spare);
    }
    mem_free(linear->pieces);
    arena_release(&linear->memory);
    mem_free(linear);
}

/* ---- one piece ------------------------------------------------------------------------------- */

/* The own product's panels from oneDNN's, beside them. */
static enum status pack_spare(const struct cpu *cpu, struct cpu_piece *piece, int in) {
    size_t floats = cpu->kernels->gemm_pack_size(in, piece->columns);
    float *plain = mem_zalloc((size_t)in * (size_t)piece->columns, sizeof(float));
    enum status st;
    if (!plain) return ST_NOMEM;
    TRY_OUT(onednn_unpack(piece->onednn, plain));
    (void)arena_take(&piece->spare, floats, sizeof(float));
    TRY_OUT(arena_reserve(&piece->spare, "a weight"));
    piece->own =
        (struct gemm_weight){in, piece->columns, arena_take(&piece->spare, floats, sizeof(float))};
    cpu->kernels->gemm_pack(plain, in, piece->columns, piece->own.panels);
out:
    mem_free(plain);
    return st;
}

enum status cpu_piece_prepare(const struct cpu *cpu, const struct cpu_linear *linear,
                              const struct gemm_task *task) {
    for (int i = 0; linear->onednn && i < linear->piece_count; i++) {
        struct cpu_piece *piece = &linear->pieces[i];
        bool fits;
        TRY(onednn_prepare(piece->onednn, task, &fits));
        if (!fits && !piece->own.panels) TRY(pack_spare(cpu, piece, linear->head.in));
    }
    return ST_OK;
}

size_t cpu_piece_scratch(const struct cpu *cpu, const struct cpu_linear *linear, int rows) {
    size_t step = (size_t)cpu->kernels->gemm_column_step;
    size_t columns = ((size_t)linear->pieces[0].columns + step - 1) / step * step;
    size_t own = (size_t)rows * columns, other = linear->onednn ? onednn_scratch(cpu->onednn) : 0;
    return own > other ? own : other;
}

/* y and residual of `task` are at the piece's own first column. */
static enum status run_piece(const struct cpu *cpu, const struct cpu_linear *linear, int piece,
                             struct gemm_task task, int worker, float *scratch) {
    const struct cpu_piece *part = &linear->pieces[piece];
    if (part->onednn) {
        const struct onednn_shape *shape = onednn_find(part->onednn, &task);
        if (shape) return onednn_run(shape, part->onednn, &task, worker, scratch);
    }
    task.weight = &part->own;
    task.bias = linear->bias ? linear->bias + part->column : NULL;
    task.column = 0;
    task.columns = part->columns;
    task.partial = scratch;
    cpu->kernels->gemm(&task);
    return ST_OK;
}

enum status cpu_piece_run(const struct cpu *cpu, const struct cpu_linear *linear, int piece,
                          const struct gemm_task *task, int worker, float *scratch) {
    struct gemm_task shifted = *task;
    shifted.y += linear->pieces[piece].column;
    if (shifted.residual) shifted.residual += linear->pieces[piece].column;
    return run_piece(cpu, linear, piece, shifted, worker, scratch);
}

/* ---- the op ---------------------------------------------------------------------------------- */

struct linear_call {
    const struct cpu *cpu;
    const struct cpu_linear *linear;
    enum epilogue epilogue;
    bool has_residual;
    struct act x, y, residual;
    int blocks;           /* of an image's rows */
    int groups;           /* tasks in a block: pieces, or pairs of them for SwiGLU */
    size_t piece_scratch; /* floats, a multiple of 64 */
    _Atomic int failed;   /* an enum status */
};

/*
 * Columns of one side of a SwiGLU task, at most: it computes a pair of pieces, or both halves of
 * the only one.
 */
static size_t pair_width(const struct cpu_linear *linear) {
    return (size_t)(linear->piece_count > 1 ? linear->pieces[0].columns : linear->head.out / 2);
}

/* y = silu(a) * b [+ residual] for the rows of `task`, outputs of pair `group`. */
static enum status swiglu_task(const struct linear_call *call, int group,
                               const struct gemm_task *task, int worker, float *scratch) {
    const struct cpu_linear *linear = call->linear;
    const struct cpu_kernels *kernels = call->cpu->kernels;
    int half = linear->piece_count / 2; /* 0: one piece is both sides */
    size_t wide = pair_width(linear), first = half ? (size_t)linear->pieces[group].column : 0;
    size_t columns = half ? (size_t)linear->pieces[group].columns : wide;
    float *a = scratch + call->piece_scratch, *b = a + wide; /* (rows, 2*wide): a, b */
    struct gemm_task side = *task;
    side.epilogue = EPILOGUE_NONE;
    side.residual = NULL;
    side.y = a;
    side.y_pitch = 2 * wide;
    TRY(run_piece(call->cpu, linear, group, side, worker, scratch));
    side.y = b;
    if (half) TRY(run_piece(call->cpu, linear, group + half, side, worker, scratch));
    for (int i = 0; i < task->rows; i++, a += 2 * wide, b += 2 * wide) {
        size_t at = (size_t)i;
        float *y = task->y + at * task->y_pitch + first;
        kernels->swiglu(a, b, task->residual ? a : y, columns);
        if (task->residual)
            kernels->add(a, task->residual + at * task->residual_pitch + first, y, columns);
    }
    return ST_OK;
}

static void linear_task(void *context, int number, int worker) {
    struct linear_call *call = context;
    int group = number % call->groups, block = number / call->groups % call->blocks;
    int image = number / call->groups / call->blocks;
    int row = cpu_block_row(call->x.tokens, call->blocks, block);
    float *scratch = cpu_worker_scratch(call->cpu, worker);
    struct gemm_task task = {
        .x = act_row(&call->x, image, row),
        .x_pitch = call->x.pitch,
        .y = act_row(&call->y, image, row),
        .y_pitch = call->y.pitch,
        .residual = call->has_residual ? act_row(&call->residual, image, row) : NULL,
        .residual_pitch = call->residual.pitch,
        .rows = cpu_block_row(call->x.tokens, call->blocks, block + 1) - row,
        .epilogue = call->epilogue,
    };
    enum status st = call->epilogue == EPILOGUE_SWIGLU
                         ? swiglu_task(call, group, &task, worker, scratch)
                         : cpu_piece_run(call->cpu, call->linear, group, &task, worker, scratch);
    if (st != ST_OK) call->failed = (int)st;
}

/*
 * All images' rows as the rows of one, where they lie at one distance: the own product's bits do
 * not depend on its rows, and few rows an image (a class token) would read the weights again for
 * each.
 */
static bool merge_images(struct act *a) {
    if (a->batch > 1 && a->tokens > 1 && a->stride != (size_t)a->tokens * a->pitch) return false;
    if (a->batch > 1 && a->tokens == 1) a->pitch = a->stride;
    if (a->tokens > INT32_MAX / a->batch) return false;
    a->tokens *= a->batch;
    a->batch = 1;
    return true;
}

static void merge_call(struct linear_call *call) {
    struct act x = call->x, y = call->y, residual = call->residual;
    if (call->linear->onednn) return;
    if (!merge_images(&x) || !merge_images(&y)) return;
    if (call->has_residual && !merge_images(&residual)) return;
    call->x = x;
    call->y = y;
    call->residual = residual;
}

static enum status prepare(struct cpu *cpu, const struct linear_call *call) {
    static const float some_residual;
    int rows = call->x.tokens, blocks = call->blocks;
    bool pairs = call->epilogue == EPILOGUE_SWIGLU;
    for (int i = 0; i < (rows % blocks ? 2 : 1); i++) { /* the two heights that occur */
        struct gemm_task task = {
            .x_pitch = call->x.pitch,
            .y_pitch = pairs ? 2 * pair_width(call->linear) : call->y.pitch,
            .residual = call->has_residual && !pairs ? &some_residual : NULL,
            .rows = rows / blocks + i,
            .epilogue = pairs ? EPILOGUE_NONE : call->epilogue,
        };
        TRY(cpu_piece_prepare(cpu, call->linear, &task));
    }
    return ST_OK;
}

enum status cpu_linear_op(struct backend *be, const struct linear *linear, enum epilogue epilogue,
                          const struct act *x, const struct act *residual, const struct act *y) {
    struct cpu *cpu = cpu_of(be);
    struct linear_call call = {.cpu = cpu,
                               .linear = (const struct cpu_linear *)linear,
                               .epilogue = epilogue,
                               .x = *x,
                               .y = *y};
    size_t scratch;
    int rows;
    call.has_residual = residual != NULL;
    if (residual) call.residual = *residual;
    merge_call(&call);
    call.blocks = row_blocks(call.linear, call.x.tokens);
    call.groups = call.linear->piece_count;
    if (epilogue == EPILOGUE_SWIGLU && call.groups > 1) call.groups /= 2;
    TRY(prepare(cpu, &call));
    rows = highest_block(call.linear, call.x.tokens);
    scratch = (cpu_piece_scratch(cpu, call.linear, rows) + 63) / 64 * 64;
    call.piece_scratch = scratch;
    if (epilogue == EPILOGUE_SWIGLU) scratch += (size_t)rows * 2 * pair_width(call.linear);
    TRY(cpu_scratch(cpu, scratch));
    if (be->planning) return ST_OK;
    threads_run(cpu->threads, call.x.batch * call.blocks * call.groups, linear_task, &call);
    return (enum status)call.failed;
}
