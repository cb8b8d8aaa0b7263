/*
 * rows_cuda: what the kernels that move rows share: 16 bytes of a row as floats, whether a view's
 * rows can be read so, and the sum over a warp.
 *
 * The kernels of layernorm_cuda, tokens_cuda and activation_cuda are bound by memory: a lane takes
 * 16 bytes at a time where pitches, columns and addresses allow, else one element.
 */
#ifndef KERNELS_ROWS_CUDA_CUH
#define KERNELS_ROWS_CUDA_CUH

#include "kernels/cuda.cuh"

/* Elements of T in 16 bytes. */
template <class T> struct chunk_of {
    enum { size = 16 / sizeof(T) };
};

/* N consecutive elements as floats: N = chunk_of<T>::size, 16-byte aligned, or 1. */
template <class T, int N> struct chunk {
    static_assert(N == 1, "16 bytes, or one element");
    static DEVICE void load(const T *p, float x[1]) {
        x[0] = to_float(*p);
    }
    static DEVICE void store(T *p, const float x[1]) {
        *p = from_float<T>(x[0]);
    }
};

template <> struct chunk<float, 4> {
    static DEVICE void load(const float *p, float x[4]) {
        uint4 bits = load16(p);
        memcpy(x, &bits, sizeof bits);
    }
    static DEVICE void store(float *p, const float x[4]) {
        uint4 bits;
        memcpy(&bits, x, sizeof bits);
        store16(p, bits);
    }
};

template <class T> struct chunk<T, 8> {
    static DEVICE void load(const T *p, float x[8]) {
        uint4 bits = load16(p);
        const uint32_t pairs[4] = {bits.x, bits.y, bits.z, bits.w};
        UNROLL for (int i = 0; i < 4; i++) {
            float2 pair = unpack2<T>(pairs[i]);
            x[2 * i] = pair.x;
            x[2 * i + 1] = pair.y;
        }
    }
    static DEVICE void store(T *p, const float x[8]) {
        store16(p, make_uint4(pack2<T>(x[0], x[1]), pack2<T>(x[2], x[3]), pack2<T>(x[4], x[5]),
                              pack2<T>(x[6], x[7])));
    }
};

/* Whole numbers, to be read alone. */
template <> struct chunk<int32_t, 1> {
    static DEVICE void load(const int32_t *p, float x[1]) {
        x[0] = (float)*p;
    }
};

template <> struct chunk<int32_t, 8> {
    static DEVICE void load(const int32_t *p, float x[8]) {
        uint4 low = load16(p), high = load16(p + 4);
        const uint32_t bits[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        UNROLL for (int i = 0; i < 8; i++) x[i] = (float)(int32_t)bits[i];
    }
};

/* Row `row` of the batch's tokens. */
template <class T> DEVICE T *row_at(T *data, int tokens, size_t pitch, size_t stride, int row) {
    return data + (size_t)(row / tokens) * stride + (size_t)(row % tokens) * pitch;
}

/* The same in every lane; lanes' sums meet in a fixed order. */
DEVICE float warp_sum(float x) {
    UNROLL for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

/* ---- the host's side ------------------------------------------------------------------------- */

/* Whether every row of the view starts at a multiple of 16 bytes; no data: nothing to read. */
template <class T> static inline bool rows_aligned(const struct cuda_view *view) {
    const size_t size = chunk_of<T>::size;
    return view->data == NULL || ((uintptr_t)view->data % 16 == 0 && view->pitch % size == 0 &&
                                  (view->batch == 1 || view->stride % size == 0));
}

static inline int blocks_for(size_t items, int each) {
    return (int)((items + (size_t)each - 1) / (size_t)each);
}

/* Runs `body`<T> for the type. */
#define FOR_TYPE(type, body)                                                                       \
    ((type) == CUDA_FP16 ? body<fp16> : (type) == CUDA_BF16 ? body<bf16> : body<float>)

#endif
