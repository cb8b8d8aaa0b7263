/*
 * cuda_stand_in: sessions and pairs of backends over the stand-in (tests/fake_cuda.h), for
 * test_cuda_backend and test_cuda_cudnn; what they leave behind is looked at when they close.
 */
#ifndef TESTS_CUDA_STAND_IN_H
#define TESTS_CUDA_STAND_IN_H

#include "tests/cuda_session.h"
#include "tests/device_ops.h"
#include "tests/fake_cuda.h"

/*
 * Against the CPU backend in fp32. Observed: models fp32 3.4e-6, fp16 5.2e-3, bf16 3.3e-2 (tokens
 * of the deepest; logits a third of it); ops alone fp32 6.4e-6 (a temperature of 100, else 1e-6),
 * fp16 8e-4, bf16 7e-3.
 */
static const struct {
    const char *name;
    double model, op;
} precisions[] = {{"fp32", 1e-5, 1e-5}, {"fp16", 2e-2, 3e-3}, {"bf16", 5e-2, 2e-2}};

/* precision NULL: the CPU. */
static inline struct backend *stand_in_open(const char *precision) {
    struct backend *backend;
    demand(precision ? vitrine_cuda_open(0, precision, &backend) : cpu_open("fp32", 1, &backend));
    return backend;
}

static inline void session_open(struct session *s, const char *name, const char *precision) {
    session_start(s, name, stand_in_open(precision));
}

static inline void duo_start(struct duo *duo, const char *precision, double tolerance) {
    struct backend *cpu = stand_in_open(NULL);
    duo_open(duo, cpu, stand_in_open(precision), precision, tolerance);
}

/* Nothing was done wrong, and after closing nothing is left. */
static inline void check_clean(const char *name) {
    if (fake_cuda_fault()) fail_msg("%s: %s", name, fake_cuda_fault());
    assert_int_equal(fake_cuda_alive(), 0);
}

static inline void close_clean(struct session *s) {
    session_close(s);
    check_clean(s->name);
}

static inline void put_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The file's text, in one of the function's own buffers. */
static inline char *get_text(const char *path) {
    static char text[1 << 15];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

#endif
