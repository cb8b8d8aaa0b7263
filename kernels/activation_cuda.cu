/*
 * activation_cuda: y = epilogue(x + bias) + residual over rows, what a product cannot do in its own
 * epilogue: exact GELU (cuBLASLt's is the tanh approximation), quick GELU, SwiGLU, and the
 * reference's order of bias, activation and residual.
 *
 * x may be the whole numbers of an int8 product, which get their row's and their columns' scales
 * first. A thread takes 16 bytes of y, or one element where rows are not aligned. Bytes: 2 or 3 *
 * elements * size (SwiGLU 3). erf, tanh and exp in fp32. Not yet timed on a GPU.
 */
#include "kernels/rows_cuda.cuh"

#include <math.h>

enum { THREADS = 256 };

struct rows {
    int tokens, columns; /* of y */
    size_t x_pitch, x_stride, residual_pitch, residual_stride, y_pitch, y_stride;
};

/* Of whole numbers. */
struct scales {
    const float *rows, *columns;
};

/* N values of row `row` from column c on. */
template <int N, class X>
DEVICE void load_values(const X *from, const struct scales &, int, int, float x[N]) {
    chunk<X, N>::load(from, x);
}
template <int N>
DEVICE void load_values(const int32_t *from, const struct scales &s, int row, int c, float x[N]) {
    const float scale = s.rows[MUTANT(ROW_SCALE, row, 0)];
    chunk<int32_t, N>::load(from, x);
    UNROLL for (int i = 0; i < N; i++) x[i] = x[i] * scale * s.columns[c + i];
}

template <int EPILOGUE> DEVICE float activate(float x) {
    if (EPILOGUE == EPILOGUE_GELU) return 0.5f * x * (1.0f + erff(x * 0.707106781f));
    if (EPILOGUE == EPILOGUE_GELU_TANH) {
        float u = 0.7978845608f * x * (1.0f + 0.044715f * x * x);
        return 0.5f * x * (1.0f + tanhf(u));
    }
    if (EPILOGUE == EPILOGUE_QUICK_GELU) return x / (1.0f + expf(-1.702f * x));
    return x;
}

/* silu(a) b */
DEVICE float gate(float a, float b) {
    return a / (1.0f + expf(-a)) * b;
}

template <class X, class T, int N, int EPILOGUE>
__global__ void __launch_bounds__(THREADS)
    activate_chunks(struct rows r, const X *x, struct scales scales, const float *bias,
                    const T *residual, T *y, size_t chunks) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= chunks) return;
    int across = r.columns / N, c = (int)(at % (size_t)across) * N,
        row = (int)(at / (size_t)across);
    const X *from = row_at(x, r.tokens, r.x_pitch, r.x_stride, row) + c;
    float a[N], b[N] = {}, add[N] = {};
    load_values<N>(from, scales, row, c, a);
    if (EPILOGUE == EPILOGUE_SWIGLU)
        load_values<N>(from + r.columns, scales, row, MUTANT(GATE_SCALE, r.columns, 0) + c, b);
    if (residual != NULL)
        chunk<T, N>::load(row_at(residual, r.tokens, r.residual_pitch, r.residual_stride, row) + c,
                          add);
    UNROLL for (int i = 0; i < N; i++) {
        if (bias != NULL) a[i] += bias[c + i];
        if (EPILOGUE == EPILOGUE_SWIGLU) {
            if (bias != NULL) b[i] += bias[MUTANT(GATE_BIAS, r.columns, 0) + c + i];
            a[i] = gate(a[i], b[i]);
        } else {
            a[i] = activate<EPILOGUE>(a[i]);
        }
        if (residual != NULL) a[i] += add[i];
    }
    chunk<T, N>::store(row_at(y, r.tokens, r.y_pitch, r.y_stride, row) + c, a);
}

template <class X, class T, int N>
static enum status launch_rows(const struct cuda_activation *call, void *stream) {
    const struct cuda_view *x = &call->x, *residual = &call->residual, *y = &call->y;
    const struct rows rows = {y->tokens,       y->channels,      x->pitch, x->stride,
                              residual->pitch, residual->stride, y->pitch, y->stride};
    size_t chunks = (size_t)y->batch * (size_t)y->tokens * (size_t)(y->channels / N);
    const struct scales scales = {call->row_scales, call->column_scales};
    void (*kernel)(struct rows, const X *, struct scales, const float *, const T *, T *, size_t) =
        activate_chunks<X, T, N, EPILOGUE_NONE>;
    switch (call->epilogue) {
    case EPILOGUE_NONE: break;
    case EPILOGUE_GELU: kernel = activate_chunks<X, T, N, EPILOGUE_GELU>; break;
    case EPILOGUE_GELU_TANH: kernel = activate_chunks<X, T, N, EPILOGUE_GELU_TANH>; break;
    case EPILOGUE_QUICK_GELU: kernel = activate_chunks<X, T, N, EPILOGUE_QUICK_GELU>; break;
    case EPILOGUE_SWIGLU: kernel = activate_chunks<X, T, N, EPILOGUE_SWIGLU>; break;
    }
    return launch("activation", kernel, dim3((unsigned)blocks_for(chunks, THREADS)), THREADS, 0,
                  stream, rows, (const X *)x->data, scales, call->bias, (const T *)residual->data,
                  (T *)y->data, chunks);
}

template <class X, class T>
static enum status activation_of(const struct cuda_activation *call, void *stream) {
    const int size = chunk_of<T>::size;
    if (call->y.channels % size == 0 && rows_aligned<X>(&call->x) &&
        rows_aligned<T>(&call->residual) && rows_aligned<T>(&call->y))
        return launch_rows<X, T, size>(call, stream);
    return launch_rows<X, T, 1>(call, stream);
}

template <class T> static enum status activation(const struct cuda_activation *call, void *stream) {
    return activation_of<T, T>(call, stream);
}

enum status cuda_activation(const struct cuda_activation *call, void *stream) {
    if (call->row_scales != NULL) return activation_of<int32_t, fp16>(call, stream);
    return FOR_TYPE(call->type, activation)(call, stream);
}
