/*
 * peak_cuda: fp32 multiply-adds and nothing else, the yardstick of backend_peak.
 *
 * A thread runs 8 independent chains; the grid fills every multiprocessor several times. FLOPs: 2 *
 * 8 * rounds a thread. Not yet timed on a GPU.
 */
#include "kernels/cuda_backend.cuh"

#include "kernels/cuda.cuh"

enum { THREADS = 256, CHAINS = 8 };

__global__ void __launch_bounds__(THREADS) multiply_adds(float *sink, int rounds) {
    float x[CHAINS], scale = 0.999f, shift = (float)threadIdx.x;
    UNROLL for (int c = 0; c < CHAINS; c++) x[c] = (float)c;
    for (int i = 0; i < rounds; i++) {
        UNROLL for (int c = 0; c < CHAINS; c++) x[c] = x[c] * scale + shift;
    }
    float sum = 0;
    UNROLL for (int c = 0; c < CHAINS; c++) sum += x[c];
    sink[threadIdx.x] = sum; /* blocks write the same */
}

enum status cuda_peak_run(float *sink, int blocks, int rounds, double *operations, void *stream) {
    *operations = 2.0 * CHAINS * THREADS * (double)blocks * rounds;
    return launch("peak", multiply_adds, dim3((unsigned)blocks), THREADS, 0, stream, sink, rounds);
}
