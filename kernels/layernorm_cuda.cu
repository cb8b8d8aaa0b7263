/*
 * layernorm_cuda: y = norm(x), y = residual + norm(x) (Swin v2), and patch merging's gather with
 * its norm, y = norm(2x2 neighbours of x) (Swin v1), each one pass over memory.
 *
 * A warp takes a run of `width` values and keeps it in registers where it fits (1024 of 16 bits,
 * 512 of fp32), so that x is read once; longer runs are read three times, from L1. Statistics are
 * fp32 in two passes: mean, then the mean of squared differences. Bytes: (2 or 3) * width * size a
 * run. Registers: see `make cubins`. Not yet timed on a GPU.
 */
#include "kernels/rows_cuda.cuh"

#include <math.h>

enum { WARPS = 4, MOST_CHUNKS = 4 };

/* ---- where a run's values come from ---------------------------------------------------------- */

/* Consecutive values of a token; runs of one token follow each other. */
template <class T> struct plain_run {
    enum { keeps = 1 };
    const T *x;
    size_t pitch, stride;
    int tokens, runs, width;

    /* Where column c of run `run` is; NULL: it is 0. */
    DEVICE const T *at(int run, int c) const {
        return row_at(x, tokens, pitch, stride, run / runs) + run % runs * width + c;
    }
};

/* The four neighbours of a merged token: (0,0), (1,0), (0,1), (1,1) of (row, column). */
template <class T> struct merged_run {
    enum { keeps = 0 };
    const T *x;
    size_t pitch, stride;
    int grid_h, grid_w, channels;

    DEVICE const T *at(int run, int c) const {
        int across = (grid_w + 1) / 2, rows = (grid_h + 1) / 2, part = c / channels;
        int image = run / across / rows;
        int y = 2 * (run / across % rows) + MUTANT(MERGE_ORDER, part % 2, part / 2);
        int column = 2 * (run % across) + MUTANT(MERGE_ORDER, part / 2, part % 2);
        if (y >= grid_h || MUTANT(MERGE_BORDER, column >= grid_w, false)) return NULL;
        return x + (size_t)image * stride + (size_t)(y * grid_w + column) * pitch +
               (c - part * channels);
    }
};

/* ---- the kernels ----------------------------------------------------------------------------- */

struct norm_weights {
    const float *weight, *bias; /* (width); weight NULL: no norm, a copy; bias NULL: rms */
    float eps;
    bool rms;
};

/* N columns from c, zeros where there are none. */
template <class T, int N, class Source>
DEVICE void load_columns(const Source &source, int run, int c, float x[N]) {
    const T *from = source.at(run, c);
    if (from != NULL) {
        chunk<T, N>::load(from, x);
        return;
    }
    UNROLL for (int i = 0; i < N; i++) x[i] = 0;
}

/* The columns of a run that a lane has: from lane * N, every 32 * N. */
template <class T, int N, int CHUNKS, class Source> struct lane_values {
    float kept[CHUNKS ? CHUNKS : 1][N] = {};
    const Source &source;
    int run, width;

    DEVICE lane_values(const Source &source_, int run_, int width_)
        : source(source_), run(run_), width(width_) {
        if (CHUNKS > 0) each([&](int c, int i) { load_columns<T, N>(source, run, c, kept[i]); });
    }
    /* visit(first column, chunk's number) */
    template <class F> DEVICE void each(const F &visit) {
        if (CHUNKS > 0) {
            UNROLL for (int i = 0; i < CHUNKS; i++) {
                int c = (i * 32 + lane_of_warp()) * N;
                if (c < width) visit(c, i);
            }
        } else {
            for (int c = lane_of_warp() * N; c < width; c += 32 * N)
                visit(c, 0);
        }
    }
    /* use(first column, its N values) */
    template <class F> DEVICE void each_values(const F &use) {
        each([&](int c, int i) {
            if (CHUNKS == 0) load_columns<T, N>(source, run, c, kept[0]);
            use(c, kept[i]);
        });
    }
};

/* Mean and 1/deviation of a run; of rms 0 and 1/root mean square. */
template <int N, class Values>
DEVICE void statistics(Values &values, int width, const struct norm_weights &norm, float *mean,
                       float *scale) {
    float sum = 0, squares = 0;
    if (!norm.rms)
        values.each_values(
            [&](int, const float *x) { UNROLL for (int i = 0; i < N; i++) sum += x[i]; });
    float middle = warp_sum(sum) / (float)width;
    values.each_values([&](int, const float *x) {
        UNROLL for (int i = 0; i < N; i++) {
            float d = x[i] - MUTANT(NORM_MEAN, middle, 0.0f);
            squares += d * d;
        }
    });
    *mean = middle;
    *scale = rsqrtf(warp_sum(squares) / (float)width + MUTANT(NORM_EPS, norm.eps, 0.0f));
}

/* A warp a run. A run's tail has lanes without work, but none of them leaves before the sums. */
template <class T, int N, int CHUNKS, class Source>
__global__ void __launch_bounds__(WARPS * 32)
    norm_runs(Source source, struct norm_weights norm, plain_run<T> residual, plain_run<T> y,
              int runs, int width) {
    int run = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32;
    if (run >= runs) return; /* the whole warp */
    lane_values<T, N, CHUNKS, Source> values(source, run, width);
    float mean = 0, scale = 1;
    if (norm.weight != NULL) statistics<N>(values, width, norm, &mean, &scale);
    values.each_values([&](int c, const float *x) {
        float out[N], add[N] = {};
        if (residual.x != NULL) chunk<T, N>::load(residual.at(run, c), add);
        UNROLL for (int i = 0; i < N; i++) {
            out[i] = x[i];
            if (norm.weight != NULL) out[i] = (x[i] - mean) * scale * norm.weight[c + i];
            if (norm.bias != NULL) out[i] += norm.bias[c + i];
            if (residual.x != NULL) out[i] += add[i];
        }
        chunk<T, N>::store(const_cast<T *>(y.at(run, c)), out);
    });
}

/* ---- the launchers --------------------------------------------------------------------------- */

template <class T> static plain_run<T> plain(const struct cuda_view *view, int width) {
    plain_run<T> run = {(const T *)view->data, view->pitch, view->stride, view->tokens, 1, width};
    if (view->data != NULL) run.runs = view->channels / width;
    return run;
}

template <class T, int N, class Source>
static enum status launch_norm(const char *name, const Source &source,
                               const struct norm_weights &norm, const plain_run<T> &residual,
                               const plain_run<T> &y, int runs, int width, void *stream) {
    dim3 grid((unsigned)blocks_for((size_t)runs, WARPS));
    /* Merged runs are read anew: to keep them spilled registers, and a model merges thrice. */
    int chunks = Source::keeps ? (width + 32 * N - 1) / (32 * N) : MOST_CHUNKS + 1;
    void (*kernel)(Source, struct norm_weights, plain_run<T>, plain_run<T>, int, int) =
        norm_runs<T, N, 0, Source>;
    if (chunks <= MOST_CHUNKS) kernel = norm_runs<T, N, Source::keeps * MOST_CHUNKS, Source>;
    if (chunks <= 3) kernel = norm_runs<T, N, Source::keeps * 3, Source>;
    if (chunks <= 2) kernel = norm_runs<T, N, Source::keeps * 2, Source>;
    if (chunks <= 1) kernel = norm_runs<T, N, Source::keeps * 1, Source>;
    return launch(name, kernel, grid, WARPS * 32, 0, stream, source, norm, residual, y, runs,
                  width);
}

template <class T> static enum status layernorm(const struct cuda_layernorm *call, void *stream) {
    const int width = call->width,
              runs = call->x.batch * call->x.tokens * (call->x.channels / width);
    const struct norm_weights norm = {call->weight, call->rms ? NULL : call->bias, call->eps,
                                      call->rms};
    const plain_run<T> x = plain<T>(&call->x, width), residual = plain<T>(&call->residual, width),
                       y = plain<T>(&call->y, width);
    const int size = chunk_of<T>::size;
    if (width % size == 0 && rows_aligned<T>(&call->x) && rows_aligned<T>(&call->residual) &&
        rows_aligned<T>(&call->y))
        return launch_norm<T, size>("layernorm", x, norm, residual, y, runs, width, stream);
    return launch_norm<T, 1>("layernorm", x, norm, residual, y, runs, width, stream);
}

enum status cuda_layernorm(const struct cuda_layernorm *call, void *stream) {
    return FOR_TYPE(call->type, layernorm)(call, stream);
}

struct merge_call {
    const struct cuda_view *x, *y;
    int grid_h, grid_w;
    struct norm_weights norm;
};

template <class T> static enum status patch_merge(const struct merge_call *call, void *stream) {
    const struct cuda_view *x = call->x, *y = call->y;
    const int width = y->channels, runs = y->batch * y->tokens, size = chunk_of<T>::size;
    const merged_run<T> source = {(const T *)x->data, x->pitch,     x->stride,
                                  call->grid_h,       call->grid_w, x->channels};
    const plain_run<T> none = {NULL, 0, 0, 1, 1, width};
    const plain_run<T> to = plain<T>(y, width);
    if (x->channels % size == 0 && rows_aligned<T>(x) && rows_aligned<T>(y))
        return launch_norm<T, size>("patch_merge", source, call->norm, none, to, runs, width,
                                    stream);
    return launch_norm<T, 1>("patch_merge", source, call->norm, none, to, runs, width, stream);
}

enum status cuda_patch_merge(enum cuda_type type, const struct cuda_view *x, int grid_h, int grid_w,
                             const float *weight, const float *bias, float eps,
                             const struct cuda_view *y, void *stream) {
    const struct merge_call call = {x, y, grid_h, grid_w, {weight, bias, eps, false}};
    return FOR_TYPE(type, patch_merge)(&call, stream);
}
