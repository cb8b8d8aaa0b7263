/*
 * levels: the feature levels that a test of kernels walks through.
 */
#ifndef TESTS_LEVELS_H
#define TESTS_LEVELS_H

#include "kernels/cpu.h"

/* The 16-lane source on a machine without AVX-512 (tests alone link it). */
extern const struct cpu_kernels cpu_kernels_wide;

/* Those this machine runs, base first; returns how many. */
static inline size_t list_levels(const struct cpu_kernels *levels[4]) {
    size_t count = 0;
    levels[count++] = &cpu_kernels_base;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        levels[count++] = &cpu_kernels_avx2;
        levels[count++] = &cpu_kernels_wide;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        levels[count++] = &cpu_kernels_avx512;
#else
    levels[count++] = &cpu_kernels_wide;
#endif
    return count;
}

#endif
