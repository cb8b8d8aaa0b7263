/*
 * peak: the fused multiply-adds that this level can issue, measured. The yardstick of every speed
 * we state: 12 independent chains of vectors (latency 4 x 2 units = 8 is enough to fill any x86 or
 * ARM core), no memory.
 */
#include "kernels/cpu.h"
#include "kernels/simd.h"
#include "kernels/simd_kernels.h"

enum { CHAINS = 12 };

double SIMD(peak)(long rounds, float *sink) {
    vf sum[CHAINS], scale = vf_splat(0.999f), step = vf_splat(1e-3f), total = vf_splat(0.0f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = vf_splat((float)i);
    for (long r = 0; r < rounds; r++) {
        SIMD_UNROLL
        for (int i = 0; i < CHAINS; i++)
            sum[i] = sum[i] * scale + step;
    }
    for (int i = 0; i < CHAINS; i++)
        total += sum[i];
    vf_store(sink, total);
    return 2.0 * CHAINS * VL * (double)rounds;
}
