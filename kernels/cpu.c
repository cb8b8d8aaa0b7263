/*
 * cpu: the CPU backend: its table, its memory, and the parallel loops around layernorm and
 * attention.
 *
 * Ops run when they are called; the threads meet at the end of each. A task is named by shapes
 * alone, so the bits of a result depend neither on the thread count nor on the batch. Products are
 * in linear_cpu.c.
 */
#include "kernels/cpu.h"
#include "kernels/onednn.h"
#include "kernels/relative.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Some 5 ms of multiply-adds a worker. */
enum { PEAK_ROUNDS = 2000000, PEAK_WORKERS_MOST = 1024 };

/* ---- choosing a feature level ---------------------------------------------------------------- */

#if defined(__x86_64__)
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

const struct cpu_kernels *cpu_kernels_pick(void) {
#if defined(__x86_64__)
    const char *limit = getenv("VITRINE_SIMD");
    bool base = limit && strcmp(limit, "base") == 0;
    bool avx2 = limit && strcmp(limit, "avx2") == 0;
    if (!base && !avx2 && has_avx512() && has_avx2()) return &cpu_kernels_avx512;
    if (!base && has_avx2()) return &cpu_kernels_avx2;
#endif
    return &cpu_kernels_base;
}

static const char *level_name(const struct cpu_kernels *kernels) {
    if (strcmp(kernels->level, "avx512") == 0) return "AVX-512";
    if (strcmp(kernels->level, "avx2") == 0) return "AVX2";
    return "baseline SIMD";
}

/* ---- memory ---------------------------------------------------------------------------------- */

static enum status scratch_reserve(struct cpu *cpu) {
    size_t bytes;
    if (cpu->scratch_floats == 0) return ST_OK;
    if (!size_mul(cpu->scratch_floats, sizeof(float) * (size_t)threads_count(cpu->threads), &bytes))
        return fail(ST_NOMEM, "scratch: its size does not fit into memory");
    if (bytes <= cpu->scratch.capacity) return ST_OK;
    arena_release(&cpu->scratch);
    (void)arena_take(&cpu->scratch, bytes, 1);
    return arena_reserve(&cpu->scratch, "scratch");
}

enum status cpu_scratch(struct cpu *cpu, size_t floats) {
    floats = (floats + 63) / 64 * 64; /* keeps every worker's part 256-byte aligned */
    if (floats > cpu->scratch_floats) cpu->scratch_floats = floats;
    return cpu->be.planning ? ST_OK : scratch_reserve(cpu);
}

float *cpu_worker_scratch(const struct cpu *cpu, int worker) {
    return (float *)(void *)cpu->scratch.base + (size_t)worker * cpu->scratch_floats;
}

static enum status cpu_plan_end(struct backend *be) {
    return scratch_reserve(cpu_of(be));
}

static enum status cpu_reserve(struct backend *be, struct arena *arena, const char *what) {
    (void)be;
    return arena_reserve(arena, what);
}

static void cpu_release(struct backend *be, struct arena *arena) {
    (void)be;
    arena_release(arena);
}

static enum status cpu_sync(struct backend *be) {
    (void)be;
    return ST_OK;
}

struct peak_call {
    const struct cpu *cpu;
    double operations[PEAK_WORKERS_MOST];
};

static void peak_task(void *context, int task, int worker) {
    struct peak_call *call = context;
    float sink[16];
    (void)worker;
    call->operations[task] = call->cpu->kernels->peak(PEAK_ROUNDS, sink);
}

static double cpu_peak(struct backend *be) {
    struct peak_call call = {.cpu = cpu_of(be)};
    int count = threads_count(call.cpu->threads);
    struct timespec start, end;
    double operations = 0;
    if (count > PEAK_WORKERS_MOST) count = PEAK_WORKERS_MOST;
    clock_gettime(CLOCK_MONOTONIC, &start);
    threads_run(call.cpu->threads, count, peak_task, &call);
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (int i = 0; i < count; i++)
        operations += call.operations[i];
    return operations /
           ((double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
}

static enum status cpu_read(struct backend *be, const struct act *a, float *host) {
    size_t width = (size_t)a->channels;
    (void)be;
    for (int b = 0; b < a->batch; b++)
        for (int t = 0; t < a->tokens; t++, host += width)
            memcpy(host, act_row(a, b, t), width * sizeof(float));
    return ST_OK;
}

static enum status cpu_write(struct backend *be, const float *host, const struct act *a) {
    size_t width = (size_t)a->channels;
    (void)be;
    for (int b = 0; b < a->batch; b++)
        for (int t = 0; t < a->tokens; t++, host += width)
            memcpy(act_row(a, b, t), host, width * sizeof(float));
    return ST_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

static enum status cpu_norm_load(struct backend *be, const struct norm_spec *spec,
                                 struct norm **out) {
    struct cpu *cpu = cpu_of(be);
    struct cpu_norm *norm = mem_zalloc(1, sizeof *norm);
    size_t width = (size_t)spec->width;
    if (!norm) return ST_NOMEM;
    norm->weight = mem_zalloc(2 * width, sizeof(float));
    if (!norm->weight) return mem_free(norm), ST_NOMEM;
    norm->bias = norm->weight + width;
    for (size_t i = 0; i < width; i++)
        norm->weight[i] = spec->weight ? spec->weight[i] : 1.0f;
    if (spec->bias) memcpy(norm->bias, spec->bias, width * sizeof(float));
    norm->head.width = spec->width;
    norm->eps = spec->eps;
    norm->rms = spec->rms;
    norm->next = cpu->norms;
    cpu->norms = norm;
    *out = &norm->head;
    return ST_OK;
}

static enum status cpu_table_load(struct backend *be, const float *values, size_t count,
                                  struct table **out) {
    struct cpu *cpu = cpu_of(be);
    struct cpu_table *table;
    size_t bytes;
    if (!size_add(count, CPU_TABLE_SPARE, &bytes) || !size_mul(bytes, sizeof(float), &bytes) ||
        !size_add(bytes, sizeof *table, &bytes))
        return fail(ST_NOMEM, "table: %zu values do not fit into memory", count);
    table = mem_zalloc(1, bytes);
    if (!table) return ST_NOMEM;
    table->head.count = count;
    memcpy(table->values, values, count * sizeof(float));
    table->next = cpu->tables;
    cpu->tables = table;
    *out = &table->head;
    return ST_OK;
}

/* ---- layernorm ------------------------------------------------------------------------------- */

struct layernorm_call {
    const struct cpu *cpu;
    const struct cpu_norm *norm;
    const struct act *x, *residual, *y;
    int block, blocks; /* rows a task, tasks an image */
};

static void layernorm_rows(void *context, int task, int worker) {
    const struct layernorm_call *call = context;
    const struct cpu_norm *norm = call->norm;
    int image = task / call->blocks, first = task % call->blocks * call->block;
    int last = call->x->tokens - first < call->block ? call->x->tokens : first + call->block;
    (void)worker;
    for (int t = first; t < last; t++)
        call->cpu->kernels->layernorm(act_row(call->x, image, t), norm->weight, norm->bias,
                                      call->residual ? act_row(call->residual, image, t) : NULL,
                                      act_row(call->y, image, t), norm->head.width,
                                      call->x->channels / norm->head.width, norm->eps, norm->rms);
}

static enum status cpu_layernorm(struct backend *be, const struct norm *norm, const struct act *x,
                                 const struct act *residual, const struct act *y) {
    struct layernorm_call call = {.cpu = cpu_of(be),
                                  .norm = (const struct cpu_norm *)norm,
                                  .x = x,
                                  .residual = residual,
                                  .y = y};
    if (be->planning) return ST_OK;
    call.block =
        1 + 65536 / x->channels; /* 64 Ki values: some 20 us, far above the cost of a task */
    call.blocks = (x->tokens + call.block - 1) / call.block;
    threads_run(call.cpu->threads, x->batch * call.blocks, layernorm_rows, &call);
    return ST_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

struct attention_call {
    const struct cpu *cpu;
    const struct attention *desc;
    const struct act *q, *k, *v, *y;
    int block, blocks; /* query rows a task, tasks a head */
};

static void attention_rows(void *context, int task, int worker) {
    const struct attention_call *call = context;
    const struct attention *desc = call->desc;
    int block = task % call->blocks, head = task / call->blocks % desc->heads;
    int image = task / call->blocks / desc->heads, column = head * desc->head_dim;
    int tq = call->q->tokens, first = block * call->block;
    struct attention_task part = {
        .desc = desc,
        .q = act_row(call->q, image, 0) + column,
        .k = act_row(call->k, image, 0) + column,
        .v = act_row(call->v, image, 0) + column,
        .q_pitch = call->q->pitch,
        .k_pitch = call->k->pitch,
        .v_pitch = call->v->pitch,
        .y = act_row(call->y, image, 0) + column,
        .y_pitch = call->y->pitch,
        .tq = tq,
        .tk = desc->lengths ? desc->lengths[image] : call->k->tokens,
        .scale = desc->scale,
        .probs_columns = call->k->tokens,
        .row = first,
        .rows = tq - first < call->block ? tq - first : call->block,
        .scratch = cpu_worker_scratch(call->cpu, worker),
    };
    if (desc->bias) {
        size_t entries = (size_t)relative_entries(desc->grid_h, desc->grid_w, desc->prefix);
        part.table = ((const struct cpu_table *)desc->bias)->values + (size_t)head * entries;
    }
    if (desc->score == SCORE_COSINE)
        part.scale = ((const struct cpu_table *)desc->temperature)->values[head];
    if (desc->probs) {
        part.probs = act_row(desc->probs, image, head * tq);
        part.probs_pitch = desc->probs->pitch;
        if (desc->greatest) part.greatest = act_row(desc->greatest, image, head);
    }
    call->cpu->kernels->attention(&part);
}

static enum status cpu_attention(struct backend *be, const struct attention *desc,
                                 const struct act *q, const struct act *k, const struct act *v,
                                 const struct act *y) {
    static const char *const patterns[] = {"full",  "window", "causal",
                                           "local", "axial",  "global+local"};
    struct cpu *cpu = cpu_of(be);
    if (desc->pattern == PATTERN_WINDOW) return cpu_attention_windows(be, desc, q, k, v, y);
    struct attention_call call = {.cpu = cpu, .desc = desc, .q = q, .k = k, .v = v, .y = y};
    const struct cpu_kernels *kernels = cpu->kernels;
    if (desc->pattern != PATTERN_FULL)
        return fail(ST_DEVICE, "the cpu backend has no %s pattern yet", patterns[desc->pattern]);
    TRY(cpu_scratch(cpu, kernels->attention_scratch(desc, q->tokens, k->tokens)));
    if (be->planning) return ST_OK;
    call.block = kernels->attention_rows(desc, q->tokens, k->tokens);
    call.blocks = (q->tokens + call.block - 1) / call.block;
    threads_run(cpu->threads, q->batch * desc->heads * call.blocks, attention_rows, &call);
    return ST_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void cpu_close(struct backend *be) {
    struct cpu *cpu = cpu_of(be);
    while (cpu->linears) {
        struct cpu_linear *linear = cpu->linears;
        cpu->linears = linear->next;
        cpu_linear_release(linear);
    }
    while (cpu->norms) {
        struct cpu_norm *norm = cpu->norms;
        cpu->norms = norm->next;
        mem_free(norm->weight);
        mem_free(norm);
    }
    while (cpu->tables) {
        struct cpu_table *table = cpu->tables;
        cpu->tables = table->next;
        mem_free(table);
    }
    threads_close(cpu->threads);
    onednn_close(cpu->onednn);
    arena_release(&cpu->scratch);
    mem_free(cpu);
}

static const struct backend_ops cpu_ops = {
    .close = cpu_close,
    .sync = cpu_sync,
    .peak = cpu_peak,
    .plan_end = cpu_plan_end,
    .reserve = cpu_reserve,
    .release = cpu_release,
    .read = cpu_read,
    .write = cpu_write,
    .linear_load = cpu_linear_load,
    .norm_load = cpu_norm_load,
    .table_load = cpu_table_load,
    .patch_embed = cpu_patch_embed,
    .assemble = cpu_assemble,
    .layernorm = cpu_layernorm,
    .linear = cpu_linear_op,
    .patch_merge = cpu_patch_merge,
    .mean = cpu_mean,
    .attention = cpu_attention,
    .backward = &cpu_backward,
};

/*
 * Which library multiplies. With AVX-512 oneDNN's packed matmul is ahead of the own product where
 * there are rows enough (0.91 to 0.95 of peak, Zen 4). With AVX2 its code (2.6, 3.2) is an sgemm
 * that packs the weight anew in every call: level with the own product or behind it (linear_cpu.c).
 * $VITRINE_LINEAR = own | onednn decides otherwise, for tests.
 */
static enum status choose_products(struct cpu *cpu) {
    const char *choice = getenv("VITRINE_LINEAR");
    bool own = choice && strcmp(choice, "own") == 0;
    cpu->onednn_always = choice && strcmp(choice, "onednn") == 0;
    if (own || !(cpu->onednn_always || strcmp(cpu->kernels->level, "avx512") == 0)) return ST_OK;
    return onednn_open(threads_count(cpu->threads), &cpu->onednn);
}

enum status cpu_open(const char *precision, int threads, struct backend **out) {
    enum status st;
    struct cpu *cpu;
    const char *library;
    int count = threads > 0 ? threads : threads_available();
    *out = NULL;
    if (strcmp(precision, "fp32") != 0)
        return fail(ST_DEVICE, "precision %s: the cpu backend computes in fp32 alone", precision);
    cpu = mem_zalloc(1, sizeof *cpu);
    if (!cpu) return ST_NOMEM;
    cpu->be.ops = &cpu_ops;
    cpu->be.precision = "fp32";
    cpu->be.act_size = sizeof(float);
    cpu->kernels = cpu_kernels_pick();
    st = threads_open(count, NULL, &cpu->threads);
    if (st == ST_OK) st = choose_products(cpu);
    if (st != ST_OK) {
        cpu_close(&cpu->be);
        return st;
    }
    library = onednn_version(cpu->onednn);
    snprintf(cpu->be.description, sizeof cpu->be.description, "cpu: %s, %d thread%s, %s%s, fp32",
             level_name(cpu->kernels), count, count == 1 ? "" : "s",
             library ? "oneDNN " : "own products", library ? library : "");
    *out = &cpu->be;
    return ST_OK;
}
