/*
 * quantise_cuda: rows of fp16 to int8 with a scale a row, what the int8 products take:
 *
 *   s = max |x| / 127,  q = rint(x * (127 / max |x|)) in [-127, 127],  |x - s q| <= s / 2
 *
 * (and some ulp). A row of zeros has s = 0 and q = 0. A row that holds an infinity or a NaN has
 * q = 0 and such an s: whatever is made of it, 0 * s, is a NaN, and nothing was clipped in silence.
 * Columns and rows of padding are 0.
 *
 * A warp a row, a lane 8 columns at a time: 16 bytes where rows are aligned, else one by one. The
 * row is read twice, the second time from L1. Bytes: 3 * width + 4 a row. Not yet timed on a GPU.
 */
#include "kernels/rows_cuda.cuh"

#include <math.h>

enum { WARPS = 4, GROUP = 8 };

struct rows {
    const fp16 *x;
    int tokens, channels, count; /* count: all images' */
    size_t pitch, stride;
};

DEVICE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEVICE float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The same in every lane. */
DEVICE uint32_t warp_max(uint32_t x) {
    UNROLL for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

/* The columns c to c + 7, zeros behind the last. */
template <bool ALIGNED>
DEVICE void load_group(const struct rows &r, const fp16 *row, int c, float x[GROUP]) {
    if (ALIGNED && c + GROUP <= r.channels) {
        chunk<fp16, GROUP>::load(row + c, x);
        return;
    }
    UNROLL for (int i = 0; i < GROUP; i++) {
        x[i] = 0;
        if (MUTANT(QUANTISE_TAIL, c + i < r.channels, true)) x[i] = to_float(row[c + i]);
    }
}

/* Lanes without columns and warps of padding reach the maximum too. */
template <bool ALIGNED>
__global__ void __launch_bounds__(WARPS * 32)
    quantise_rows(struct rows r, int8_t *q, int pitch, float *scales, int padded) {
    int row = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32, first = lane_of_warp() * GROUP;
    if (row >= padded) return; /* the whole warp */
    const int channels = row < r.count ? r.channels : 0;
    const fp16 *from = row_at(r.x, r.tokens, r.pitch, r.stride, channels > 0 ? row : 0);
    uint32_t most = 0;
    float x[GROUP];
    for (int c = first; c < channels; c += 32 * GROUP) {
        load_group<ALIGNED>(r, from, c, x);
        UNROLL for (int i = 0; i < GROUP; i++) most = max(most, bits_of(x[i]) & 0x7fffffffu);
    }
    most = warp_max(most); /* bits go as numbers go, NaN above infinity */
    const float steps = MUTANT(QUANTISE_STEPS, 127.0f, 126.0f), largest = from_bits(most);
    const float inverse = most > 0 ? steps / largest : 0.0f; /* of infinity 0, of a NaN a NaN */
    for (int c = first; c < pitch; c += 32 * GROUP) {
        uint64_t word = 0;
        if (c < channels && inverse > 0) {
            load_group<ALIGNED>(r, from, c, x);
            UNROLL for (int i = 0; i < GROUP; i++) word |=
                (uint64_t)(uint8_t)(int)rintf(x[i] * inverse) << 8 * i;
        }
        *reinterpret_cast<uint64_t *>(q + (size_t)row * (size_t)pitch + c) = word;
    }
    if (lane_of_warp() == 0) scales[row] = largest / 127.0f;
}

enum status cuda_quantise(const struct cuda_view *x, int8_t *q, int pitch, float *scales, int rows,
                          void *stream) {
    const struct rows r = {(const fp16 *)x->data, x->tokens, x->channels,
                           x->batch * x->tokens,  x->pitch,  x->stride};
    const dim3 grid((unsigned)blocks_for((size_t)rows, WARPS));
    return launch("quantise", rows_aligned<fp16>(x) ? quantise_rows<true> : quantise_rows<false>,
                  grid, WARPS * 32, 0, stream, r, q, pitch, scales, rows);
}
