/*
 * cpu_engines: every make of the CPU backend that this build has, for tests that run an op on each.
 */
#ifndef TESTS_CPU_ENGINES_H
#define TESTS_CPU_ENGINES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "kernels/ops.h"
#include "tests/op_shapes.h"

#include <cmocka.h>

/* What a backend may be made of; the environment chooses. */
struct engine {
    const char *simd, *linear;
};
static const struct engine engines[] = {
    {"base", "own"},    {"avx2", "own"},      {"avx512", "own"},
#if HAVE_ONEDNN
    {"avx2", "onednn"}, {"avx512", "onednn"},
#endif
};

static inline struct backend *open_cpu(const struct engine *engine, int threads) {
    const struct backend_options options = {.device = "cpu", .threads = threads};
    struct backend *be;
    setenv("VITRINE_SIMD", engine->simd, 1);
    setenv("VITRINE_LINEAR", engine->linear, 1);
    assert_int_equal(backend_open(&options, &be), ST_OK);
    unsetenv("VITRINE_SIMD");
    unsetenv("VITRINE_LINEAR");
    return be;
}

static inline float *random_floats(size_t n, uint64_t seed) {
    float *values = mem_zalloc(n, sizeof(float));
    assert_non_null(values);
    op_fill(values, n, seed);
    return values;
}

#endif
