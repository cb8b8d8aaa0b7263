/* simt_samples: see simt_samples.h. */
#include "kernels/cuda.cuh"
#include "tests/simt_samples.h"

enum { THREADS = 64, VALUES = 256 };

/* ---- right ----------------------------------------------------------------------------------- */

__global__ void sum(const float *in, float *out) {
    SHARED(float, part, 2);
    int thread = (int)threadIdx.x;
    float x = in[thread];
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_down_sync(~0u, x, step);
    if (lane_of_warp() == 0) part[thread / 32] = x;
    __syncthreads();
    out[thread] = part[0] + part[1];
}

__global__ void votes(const float *, float *out) {
    int lane = lane_of_warp();
    bool good = __shfl_sync(~0u, lane, 5) == 5 && __shfl_xor_sync(~0u, lane, 3) == (lane ^ 3) &&
                __shfl_down_sync(~0u, lane, 4) == (lane < 28 ? lane + 4 : lane) &&
                __shfl_up_sync(~0u, lane, 4) == (lane < 4 ? lane : lane - 4);
    good &= __ballot_sync(~0u, lane % 2 == 1) == 0xaaaaaaaau && __any_sync(~0u, lane == 31);
    good &= !__any_sync(~0u, lane > 31) && __all_sync(~0u, lane >= 0) && !__all_sync(~0u, lane > 0);
    out[threadIdx.x] = good ? (float)lane : -1;
}

__global__ void reversed(const float *in, float *out, bool barrier) {
    SHARED(float, x, THREADS);
    int thread = (int)threadIdx.x;
    x[thread] = in[thread];
    if (barrier) __syncthreads();
    out[thread] = x[THREADS - 1 - thread];
}

__global__ void copy(const float *in, float *out, bool commit, bool weak) {
    float *x = reinterpret_cast<float *>(dynamic_shared());
    int thread = (int)threadIdx.x;
    cp_async16(x + thread * 4, thread == 5 ? NULL : in + thread * 4, thread != 5);
    if (commit) cp_async_commit();
    if (weak)
        cp_async_wait<1>();
    else
        cp_async_wait<0>();
    __syncthreads();
    for (int i = thread; i < VALUES; i += THREADS)
        out[i] = x[i];
}

/* ---- wrong ----------------------------------------------------------------------------------- */

__global__ void overwritten(const float *in, float *out) {
    SHARED(float, x, THREADS);
    int thread = (int)threadIdx.x;
    for (int turn = 0; turn < 3; turn++) {
        x[thread] = in[turn * THREADS + thread];
        __syncthreads();
        out[turn * THREADS + thread] = x[THREADS - 1 - thread];
    }
}

__global__ void unset(const float *, float *out) {
    out[threadIdx.x] = reinterpret_cast<float *>(dynamic_shared())[threadIdx.x];
}

__global__ void barriers(const float *, float *out, enum simt_sample sample) {
    int thread = (int)threadIdx.x;
    if (sample == SAMPLE_HALF_BARRIER && thread < 32) return;
    if (sample == SAMPLE_SPLIT_BARRIER && thread < 32)
        __syncthreads();
    else if (sample == SAMPLE_DEADLOCK && thread == 33)
        __syncwarp();
    else
        __syncthreads();
    out[thread] = 0;
}

__global__ void warps(const float *in, float *out, enum simt_sample sample) {
    int lane = lane_of_warp();
    float x = in[lane];
    if (sample == SAMPLE_HALF_WARP && lane == 7) return;
    if (sample == SAMPLE_SPLIT_WARP && lane < 16)
        x = __shfl_xor_sync(~0u, x, 1);
    else
        x = __shfl_xor_sync(~0u, x, 2);
    out[threadIdx.x] = x;
}

__global__ void addresses(const float *in, float *out, enum simt_sample sample) {
    float *x = reinterpret_cast<float *>(dynamic_shared());
    uint32_t r[4];
    int thread = (int)threadIdx.x;
    if (sample == SAMPLE_MISALIGNED && thread == 3) store16(x + 1, make_uint4(0, 0, 0, 0));
    if (sample == SAMPLE_MISALIGNED_INPUT) cp_async16(x, in + thread / 63, true);
    if (sample == SAMPLE_OUTSIDE) cp_async16(x + thread * 4 + 4, in, true);
    if (sample == SAMPLE_OUTSIDE_ROW) ldmatrix_x4(r, x - 4 * (thread == 9));
    if (sample == SAMPLE_OUTSIDE_INPUT) store16(x, load16(in + VALUES + thread * 4));
    if (sample == SAMPLE_BEHIND && thread == 9) x[VALUES] = 1;
    out[thread] = 0;
}

enum status simt_sample(enum simt_sample sample, const float *in, float *out) {
    const size_t shared = VALUES * sizeof(float);
    const dim3 one(1);
    switch (sample) {
    case SAMPLE_SUM: return launch("sum", sum, one, THREADS, 0, NULL, in, out);
    case SAMPLE_VOTES: return launch("votes", votes, one, THREADS, 0, NULL, in, out);
    case SAMPLE_REVERSED:
    case SAMPLE_NO_BARRIER:
        return launch("reversed", reversed, one, THREADS, 0, NULL, in, out,
                      sample == SAMPLE_REVERSED);
    case SAMPLE_COPY:
    case SAMPLE_WEAK_WAIT:
    case SAMPLE_NO_COMMIT:
        return launch("copy", copy, one, THREADS, shared, NULL, in, out, sample != SAMPLE_NO_COMMIT,
                      sample == SAMPLE_WEAK_WAIT);
    case SAMPLE_OVERWRITTEN:
        return launch("overwritten", overwritten, one, THREADS, 0, NULL, in, out);
    case SAMPLE_UNSET: return launch("unset", unset, one, THREADS, shared, NULL, in, out);
    case SAMPLE_SPLIT_BARRIER:
    case SAMPLE_HALF_BARRIER:
    case SAMPLE_DEADLOCK:
        return launch("barriers", barriers, one, THREADS, 0, NULL, in, out, sample);
    case SAMPLE_SPLIT_WARP:
    case SAMPLE_HALF_WARP: return launch("warps", warps, one, THREADS, 0, NULL, in, out, sample);
    default: return launch("addresses", addresses, one, THREADS, shared, NULL, in, out, sample);
    }
}

/* ---- a product ------------------------------------------------------------------------------- */

template <class T> __global__ void product(const float *a, const float *b, float *c) {
    T *sa = reinterpret_cast<T *>(dynamic_shared()), *sb = sa + 256;
    int lane = lane_of_warp(), g = lane / 4, t = lane % 4 * 2;
    uint32_t fa[4], fb[2];
    float sum[4] = {0, 0, 0, 0};
    for (int i = lane; i < 256; i += 32)
        sa[i] = from_float<T>(a[i]);
    for (int i = lane; i < 128; i += 32)
        sb[i] = from_float<T>(b[i]);
    __syncwarp();
    ldmatrix_x4(fa, sa + lane % 16 * 16 + lane / 16 * 8);
    ldmatrix_x2_trans(fb, sb + lane % 16 * 8);
    mma_m16n8k16<T>(sum, fa, fb);
    for (int i = 0; i < 4; i++)
        c[(g + i / 2 * 8) * 8 + t + i % 2] = sum[i];
}

enum status simt_sample_product(bool bf16_values, const float *a, const float *b, float *c) {
    return launch("product", bf16_values ? product<bf16> : product<fp16>, dim3(1), 32, 1024, NULL,
                  a, b, c);
}
