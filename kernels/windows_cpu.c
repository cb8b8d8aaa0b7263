/*
 * windows_cpu: PATTERN_WINDOW on the CPU: which windows a task takes.
 *
 * A task is some windows of the batch, one head, and a part of a window's query slots; its bias is
 * looked up once, its windows follow with the slots' tokens and regions made anew for each. How
 * many windows share a task changes no bit: each is computed by itself.
 *   table (entries)          -> bias (rows, N)      once a task
 *   window                   -> token, region (N)   a window
 *   q, k, v (tokens, D)      -> y (tokens, D)       attention_cpu.c
 */
#include "kernels/cpu.h"
#include "kernels/relative.h"
#include "kernels/windows.h"

/* A task's windows at most: the bias is then looked up for 1/16 of the work. */
enum { WINDOWS_MOST = 16, TASKS_A_WORKER = 4 };

struct windows_call {
    const struct cpu *cpu;
    const struct attention *desc;
    const struct act *q, *k, *v, *y;
    struct window_grid grid;
    int windows, slots;                  /* of an image, of a window: N */
    int block, blocks;                   /* query slots a task, tasks a window */
    int group, groups;                   /* windows a task, tasks the batch's windows */
    size_t bias_at, token_at, region_at; /* floats into a worker's scratch */
};

static int ceil_div(int a, int b) {
    return (a + b - 1) / b;
}

/* How a window is cut into tasks, and what lies where in a worker's scratch; returns its floats. */
static size_t lay_out(struct windows_call *call) {
    const struct cpu_kernels *kernels = call->cpu->kernels;
    size_t slots = (size_t)call->slots, at;
    call->block = kernels->attention_rows(call->desc, call->slots, call->slots);
    call->blocks = ceil_div(call->slots, call->block);
    at = kernels->attention_scratch(call->desc, call->slots, call->slots);
    call->bias_at = (at + 15) / 16 * 16;
    at = call->bias_at;
    if (call->desc->bias) at += (size_t)call->block * slots + CPU_TABLE_SPARE;
    call->token_at = at;
    call->region_at = at + slots;
    return call->region_at + 2 * slots; /* regions as ints, then as floats */
}

/* The head's part of what all windows of a task share. */
static struct attention_task head_task(const struct windows_call *call, int head, float *scratch) {
    const struct attention *desc = call->desc;
    struct attention_task task = {
        .desc = desc,
        .q_pitch = call->q->pitch,
        .k_pitch = call->k->pitch,
        .v_pitch = call->v->pitch,
        .y_pitch = call->y->pitch,
        .tq = call->slots,
        .tk = call->slots,
        .scale = desc->scale,
        .probs_columns = call->slots,
        .scratch = scratch,
    };
    if (desc->score == SCORE_COSINE)
        task.scale = ((const struct cpu_table *)desc->temperature)->values[head];
    if (desc->padding) {
        const float *padding = ((const struct cpu_table *)desc->padding)->values;
        task.pad_k = padding + (size_t)head * (size_t)desc->head_dim;
        task.pad_v = task.pad_k + call->k->channels;
    }
    return task;
}

/* Points the task at one window of the batch. */
static void aim(const struct windows_call *call, struct attention_task *task, int head, int index,
                float *scratch) {
    const struct attention *desc = call->desc;
    int image = index / call->windows, window = index % call->windows;
    int column = head * desc->head_dim;
    int *token = (int *)(void *)(scratch + call->token_at);
    int *region = (int *)(void *)(scratch + call->region_at);
    float *flat = scratch + call->region_at + call->slots;
    window_tokens(&call->grid, window, token);
    task->tokens = token;
    task->region = NULL;
    if (window_regions(&call->grid, window, region)) {
        for (int i = 0; i < call->slots; i++)
            flat[i] = (float)region[i];
        task->region = flat;
    }
    task->q = act_row(call->q, image, 0) + column;
    task->k = act_row(call->k, image, 0) + column;
    task->v = act_row(call->v, image, 0) + column;
    task->y = act_row(call->y, image, 0) + column;
    if (desc->probs) {
        task->probs = act_row(desc->probs, image, (window * desc->heads + head) * call->slots);
        task->probs_pitch = desc->probs->pitch;
        if (desc->greatest)
            task->greatest = act_row(desc->greatest, image, window * desc->heads + head);
    }
}

static void attend_windows(void *context, int index, int worker) {
    const struct windows_call *call = context;
    const struct attention *desc = call->desc;
    const struct cpu_kernels *kernels = call->cpu->kernels;
    float *scratch = cpu_worker_scratch(call->cpu, worker);
    int part = index % call->blocks, head = index / call->blocks % desc->heads;
    int first = index / call->blocks / desc->heads * call->group;
    int last = first + call->group, total = call->q->batch * call->windows;
    struct attention_task task = head_task(call, head, scratch);
    task.row = part * call->block;
    task.rows = call->slots - task.row < call->block ? call->slots - task.row : call->block;
    if (desc->bias) {
        size_t entries = (size_t)relative_entries(desc->window_h, desc->window_w, 0);
        const float *table = ((const struct cpu_table *)desc->bias)->values;
        kernels->attention_bias(desc, table + (size_t)head * entries, task.row, task.rows, 0,
                                call->slots, scratch + call->bias_at);
        task.bias = scratch + call->bias_at;
    }
    for (int window = first; window < last && window < total; window++) {
        aim(call, &task, head, window, scratch);
        kernels->attention(&task);
    }
}

enum status cpu_attention_windows(struct backend *be, const struct attention *desc,
                                  const struct act *q, const struct act *k, const struct act *v,
                                  const struct act *y) {
    struct cpu *cpu = cpu_of(be);
    struct windows_call call = {
        .cpu = cpu,
        .desc = desc,
        .q = q,
        .k = k,
        .v = v,
        .y = y,
        .grid = {desc->grid_h, desc->grid_w, desc->window_h, desc->window_w, desc->shift_h,
                 desc->shift_w},
    };
    call.windows = window_count(&call.grid);
    call.slots = window_slots(&call.grid);
    TRY(cpu_scratch(cpu, lay_out(&call)));
    if (be->planning) return ST_OK;
    int total = q->batch * call.windows;
    int wanted = ceil_div(TASKS_A_WORKER * threads_count(cpu->threads), desc->heads * call.blocks);
    call.group = ceil_div(total, wanted < total ? wanted : total);
    if (call.group > WINDOWS_MOST) call.group = WINDOWS_MOST;
    call.groups = ceil_div(total, call.group);
    threads_run(cpu->threads, call.groups * desc->heads * call.blocks, attend_windows, &call);
    return ST_OK;
}
