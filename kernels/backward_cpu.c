/*
 * backward_cpu: the backward ops on the CPU (backward.h has the formulas).
 *
 * A task is some rows, or one head of one image, or of one window: each writes what no other does.
 * Rows of attention are gathered into a worker's scratch, window slot by window slot, and scattered
 * back; what each computes between is attention_backward_cpu.c. Sums of a norm are in double.
 */
#include <math.h>
#include <string.h>

#include "kernels/cpu.h"
#include "kernels/windows.h"

/* Values a task: some 50 us of the slowest, far above its cost. */
enum { ROW_VALUES = 16384 };

/* ---- ops that take a row at a time ----------------------------------------------------------- */

struct row_call {
    const struct cpu_norm *norm;
    enum epilogue epilogue;
    const struct act *x, *dy, *residual, *dx;
    int block, blocks; /* rows a task, tasks an image */
    void (*row)(const struct row_call *call, const float *x, const float *dy, const float *residual,
                float *dx);
};

static void run_rows(void *context, int task, int worker) {
    const struct row_call *call = context;
    const int image = task / call->blocks, first = task % call->blocks * call->block;
    const int rest = call->dy->tokens - first, rows = rest < call->block ? rest : call->block;
    (void)worker;
    for (int t = first; t < first + rows; t++)
        call->row(call, act_row(call->x, image, t), act_row(call->dy, image, t),
                  call->residual ? act_row(call->residual, image, t) : NULL,
                  act_row(call->dx, image, t));
}

static enum status each_row(struct backend *be, struct row_call *call) {
    if (be->planning) return ST_OK;
    call->block = 1 + ROW_VALUES / call->dx->channels;
    call->blocks = (call->dy->tokens + call->block - 1) / call->block;
    threads_run(cpu_of(be)->threads, call->dy->batch * call->blocks, run_rows, call);
    return ST_OK;
}

/* ---- norms ----------------------------------------------------------------------------------- */

/* One run of `width` channels. */
static void norm_run(const struct cpu_norm *norm, const float *x, const float *dy,
                     const float *residual, float *dx) {
    const int n = norm->head.width;
    double mean = 0, variance = 0, g_mean = 0, gz_mean = 0, scale;
    for (int i = 0; i < n && !norm->rms; i++)
        mean += (double)x[i] / n;
    for (int i = 0; i < n; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    scale = 1 / sqrt(variance + (double)norm->eps);
    for (int i = 0; i < n; i++) {
        const double g = (double)dy[i] * (double)norm->weight[i];
        if (!norm->rms) g_mean += g / n;
        gz_mean += g * ((double)x[i] - mean) * scale / n;
    }
    for (int i = 0; i < n; i++) {
        const double g = (double)dy[i] * (double)norm->weight[i];
        const double z = ((double)x[i] - mean) * scale;
        dx[i] = (float)((g - g_mean - z * gz_mean) * scale) + (residual ? residual[i] : 0);
    }
}

static void norm_row(const struct row_call *call, const float *x, const float *dy,
                     const float *residual, float *dx) {
    const int width = call->norm->head.width;
    for (int at = 0; at < call->dx->channels; at += width)
        norm_run(call->norm, x + at, dy + at, residual ? residual + at : NULL, dx + at);
}

static enum status layernorm(struct backend *be, const struct norm *norm, const struct act *x,
                             const struct act *dy, const struct act *residual,
                             const struct act *dx) {
    struct row_call call = {.norm = (const struct cpu_norm *)norm,
                            .x = x,
                            .dy = dy,
                            .residual = residual,
                            .dx = dx,
                            .row = norm_row};
    return each_row(be, &call);
}

/* ---- activations ----------------------------------------------------------------------------- */

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

/* f'(x) */
static float slope(enum epilogue epilogue, float x) {
    const float root = 0.79788456f, cubic = 0.044715f; // sqrt(2/pi)
    float s;
    switch (epilogue) {
    case EPILOGUE_GELU: // Phi(x) + x phi(x)
        return 0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x);
    case EPILOGUE_GELU_TANH:
        s = tanhf(root * (x + cubic * x * x * x));
        return 0.5f * (1 + s) + 0.5f * x * (1 - s * s) * root * (1 + 3 * cubic * x * x);
    case EPILOGUE_QUICK_GELU: s = sigmoid(1.702f * x); return s + 1.702f * x * s * (1 - s);
    case EPILOGUE_SWIGLU: s = sigmoid(x); return s + x * s * (1 - s); // silu's
    case EPILOGUE_NONE: break;
    }
    return 1;
}

static void activation_row(const struct row_call *call, const float *x, const float *dy,
                           const float *residual, float *dx) {
    const int n = call->dy->channels;
    (void)residual;
    if (call->epilogue != EPILOGUE_SWIGLU) {
        for (int i = 0; i < n; i++)
            dx[i] = dy[i] * slope(call->epilogue, x[i]);
        return;
    }
    for (int i = 0; i < n; i++) { // x = [a, b], y = silu(a) b
        dx[i] = dy[i] * x[n + i] * slope(EPILOGUE_SWIGLU, x[i]);
        dx[n + i] = dy[i] * x[i] * sigmoid(x[i]);
    }
}

static enum status activation(struct backend *be, enum epilogue epilogue, const struct act *x,
                              const struct act *dy, const struct act *dx) {
    struct row_call call = {
        .epilogue = epilogue, .x = x, .dy = dy, .dx = dx, .row = activation_row};
    return each_row(be, &call);
}

/* ---- relevance ------------------------------------------------------------------------------- */

static void relevance_row(const struct row_call *call, const float *probs, const float *dprobs,
                          const float *residual, float *out) {
    (void)residual;
    for (int i = 0; i < call->dx->channels; i++)
        out[i] = probs[i] * dprobs[i] <= 0 ? 0 : probs[i] * dprobs[i]; // NaN stays
}

static enum status relevance(struct backend *be, const struct act *probs, const struct act *dprobs,
                             const struct act *out) {
    struct row_call call = {.x = probs, .dy = dprobs, .dx = out, .row = relevance_row};
    return each_row(be, &call);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static enum status patch_merge(struct backend *be, const struct act *dy, int grid_h, int grid_w,
                               const struct act *dx) {
    const int columns = (grid_w + 1) / 2;
    const size_t width = (size_t)dx->channels;
    if (be->planning) return ST_OK;
    for (int b = 0; b < dx->batch; b++)
        for (int y = 0; y < grid_h; y++)
            for (int x = 0; x < grid_w; x++) {
                const size_t part = (size_t)(y % 2 + 2 * (x % 2)) * width;
                memcpy(act_row(dx, b, y * grid_w + x),
                       act_row(dy, b, y / 2 * columns + x / 2) + part, width * sizeof(float));
            }
    return ST_OK;
}

static enum status mean(struct backend *be, const struct act *dy, const struct act *dx) {
    if (be->planning) return ST_OK;
    for (int b = 0; b < dx->batch; b++)
        for (int t = 0; t < dx->tokens; t++)
            for (int c = 0; c < dx->channels; c++)
                act_row(dx, b, t)[c] = act_row(dy, b, 0)[c] / (float)dx->tokens;
    return ST_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

struct attention_call {
    const struct cpu *cpu;
    const struct attention *desc;
    const struct attention_gradients *g;
    struct window_grid grid;
    int windows;   /* of an image; 1 without */
    int tq, tk;    /* queries and keys: of a window its slots */
    int pitch;     /* of a gathered row */
    size_t floats; /* of a worker's scratch */
};

/* A worker's scratch: rows gathered for one head, and its gradients. */
struct gathered {
    float *q, *dy, *dq;         // (tq, D)
    float *k, *v, *dk, *dv;     // (tk, D)
    float *q_length, *k_length; // (tq), (tk): SCORE_COSINE
    int *token;                 // (tq or tk): the token of a slot, -1: padding
};

static int slots_of(const struct attention_call *call) {
    return call->tq > call->tk ? call->tq : call->tk;
}

static size_t lay_out(struct gathered *rows, const struct attention_call *call, float *base) {
    const size_t q = (size_t)call->tq * (size_t)call->pitch;
    const size_t k = (size_t)call->tk * (size_t)call->pitch;
    float **const parts[] = {&rows->q,  &rows->dy, &rows->dq,       &rows->k,       &rows->v,
                             &rows->dk, &rows->dv, &rows->q_length, &rows->k_length};
    const size_t counts[] = {q, q, q, k, k, k, k, (size_t)call->tq, (size_t)call->tk};
    size_t used = 0;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        *parts[i] = base ? base + used : NULL;
        used += (counts[i] + 15) / 16 * 16;
    }
    rows->token = base ? (int *)(void *)(base + used) : NULL;
    return used + (size_t)slots_of(call);
}

/* to (n, pitch) = the head's columns of the tokens' rows; `padding` (D) of no token, NULL: 0. */
static void gather(const struct attention_call *call, const struct act *from, int image, int column,
                   const int *token, int n, const float *padding, float *to) {
    const size_t width = (size_t)call->desc->head_dim;
    memset(to, 0, (size_t)n * (size_t)call->pitch * sizeof *to);
    for (int i = 0; i < n; i++, to += call->pitch) {
        const float *row = token[i] < 0 ? padding : act_row(from, image, token[i]) + column;
        if (row) memcpy(to, row, width * sizeof *to);
    }
}

static void scatter(const struct attention_call *call, const float *from, const int *token, int n,
                    const struct act *to, int image, int column) {
    for (int i = 0; i < n; i++, from += call->pitch)
        if (token[i] >= 0)
            memcpy(act_row(to, image, token[i]) + column, from,
                   (size_t)call->desc->head_dim * sizeof *from);
}

/* SCORE_COSINE: rows x (n, D) over their lengths, which are kept. */
static void normalise(float *x, float *length, int n, int dim, int pitch) {
    for (int i = 0; i < n; i++, x += pitch) {
        double sum = 0;
        for (int c = 0; c < dim; c++)
            sum += (double)x[c] * (double)x[c];
        length[i] = (float)fmax(sqrt(sum), 1e-12);
        for (int c = 0; c < dim; c++)
            x[c] /= length[i];
    }
}

/* Back through it: dx = (dx - x (x . dx)) / length, x the normalised rows. */
static void denormalise(const float *x, const float *length, int n, int dim, int pitch, float *dx) {
    for (int i = 0; i < n; i++, x += pitch, dx += pitch) {
        double along = 0;
        for (int c = 0; c < dim; c++)
            along += (double)x[c] * (double)dx[c];
        for (int c = 0; c < dim; c++)
            dx[c] = (dx[c] - x[c] * (float)along) / length[i];
    }
}

static void one_head(void *context, int number, int worker) {
    const struct attention_call *call = context;
    const struct attention *desc = call->desc;
    const struct attention_gradients *g = call->g;
    const int head = number % desc->heads, window = number / desc->heads % call->windows;
    const int image = number / desc->heads / call->windows, column = head * desc->head_dim;
    const int first = (window * desc->heads + head) * call->tq, D = desc->head_dim;
    const bool cosine = desc->score == SCORE_COSINE;
    const float *pad = desc->padding ? ((const struct cpu_table *)desc->padding)->values : NULL;
    struct gathered rows;
    struct attention_backward_task task = {
        .tq = call->tq,
        .tk = call->tk,
        .pitch = call->pitch,
        .probs = act_row(desc->probs, image, first),
        .probs_pitch = desc->probs->pitch,
        .dprobs = act_row(&g->dprobs, image, first),
        .dprobs_pitch = g->dprobs.pitch,
        .scale =
            cosine ? ((const struct cpu_table *)desc->temperature)->values[head] : desc->scale};
    lay_out(&rows, call, cpu_worker_scratch(call->cpu, worker));
    for (int i = 0; i < slots_of(call); i++)
        rows.token[i] = i;
    if (desc->pattern == PATTERN_WINDOW) window_tokens(&call->grid, window, rows.token);
    gather(call, &g->q, image, column, rows.token, call->tq, NULL, rows.q);
    gather(call, &g->dy, image, column, rows.token, call->tq, NULL, rows.dy);
    gather(call, &g->k, image, column, rows.token, call->tk, pad ? pad + column : NULL, rows.k);
    gather(call, &g->v, image, column, rows.token, call->tk,
           pad ? pad + g->v.channels + column : NULL, rows.v);
    memset(rows.dk, 0, (size_t)call->tk * (size_t)call->pitch * sizeof(float));
    memset(rows.dv, 0, (size_t)call->tk * (size_t)call->pitch * sizeof(float));
    if (cosine) normalise(rows.q, rows.q_length, call->tq, D, call->pitch);
    if (cosine) normalise(rows.k, rows.k_length, call->tk, D, call->pitch);
    task.q = rows.q;
    task.k = rows.k;
    task.v = rows.v;
    task.dy = rows.dy;
    task.dq = rows.dq;
    task.dk = rows.dk;
    task.dv = rows.dv;
    call->cpu->kernels->attention_backward(&task);
    if (cosine) denormalise(rows.q, rows.q_length, call->tq, D, call->pitch, rows.dq);
    if (cosine) denormalise(rows.k, rows.k_length, call->tk, D, call->pitch, rows.dk);
    scatter(call, rows.dq, rows.token, call->tq, &g->dq, image, column);
    scatter(call, rows.dk, rows.token, call->tk, &g->dk, image, column);
    scatter(call, rows.dv, rows.token, call->tk, &g->dv, image, column);
}

static enum status attention(struct backend *be, const struct attention *desc,
                             const struct attention_gradients *g) {
    struct cpu *cpu = cpu_of(be);
    struct attention_call call = {.cpu = cpu,
                                  .desc = desc,
                                  .g = g,
                                  .windows = 1,
                                  .tq = g->q.tokens,
                                  .tk = g->k.tokens,
                                  .pitch = cpu->kernels->attention_backward_pitch(desc->head_dim)};
    struct gathered rows;
    if (desc->pattern == PATTERN_WINDOW) {
        call.grid = (struct window_grid){desc->grid_h,   desc->grid_w,  desc->window_h,
                                         desc->window_w, desc->shift_h, desc->shift_w};
        call.windows = window_count(&call.grid);
        call.tq = call.tk = window_slots(&call.grid);
    }
    TRY(cpu_scratch(cpu, lay_out(&rows, &call, NULL)));
    if (be->planning) return ST_OK;
    threads_run(cpu->threads, g->dy.batch * call.windows * desc->heads, one_head, &call);
    return ST_OK;
}

const struct backend_backward cpu_backward = {.layernorm = layernorm,
                                              .activation = activation,
                                              .attention = attention,
                                              .patch_merge = patch_merge,
                                              .mean = mean,
                                              .relevance = relevance};
