/*
 * golden: what the tests of the model families share: comparing with the golden files in tests/ref,
 * and writing a model file with a fault in it.
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "weights/h5.h"

#include <cmocka.h>

static inline void demand(enum status st) {
    if (st != ST_OK) fail_msg("%s", fail_message());
}

static inline void *memory(size_t count, size_t size) {
    void *ptr = mem_zalloc(count, size);
    assert_non_null(ptr);
    return ptr;
}

/* The floats of a dataset of any shape. */
static inline float *read_floats(struct h5 *file, const char *path, size_t count) {
    float *values = memory(count, sizeof *values);
    demand(h5_read_f32(file, path, values, count));
    return values;
}

/* max |got - want| over max |want| against the tolerance; prints the worst element. */
static inline bool matches(const char *name, const char *what, const float *want, const float *got,
                           size_t count, double tolerance) {
    double worst_off = 0, largest = 0;
    size_t worst = 0;
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)got[i] - (double)want[i]);
        largest = fmax(largest, fabs((double)want[i]));
        if (!(off <= worst_off)) {
            worst_off = off;
            worst = i;
        }
    }
    printf(
        "%-14s %-16s max abs %.2e  max rel %.2e  tolerance %.0e  worst at %zu: %.7g, want %.7g\n",
        name, what, worst_off, largest > 0 ? worst_off / largest : worst_off, tolerance, worst,
        (double)got[worst], (double)want[worst]);
    return worst_off <= tolerance * largest;
}

/* What a faulty file's /parameters differ in. */
struct tensor_faults {
    const char *drop[2];  /* left out */
    const char *extra[2]; /* added */
    const char *halve;    /* first dim (the second where that is 1) is written as half */
};

static inline bool listed(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0) return true;
    return false;
}

static inline void copy_tensor(const struct tensor_faults *faults, struct h5 *from, struct h5 *to,
                               struct h5_dataset *tensor) {
    size_t size = 1;
    char path[128];
    float *values;
    for (int d = 0; d < tensor->rank; d++)
        size *= tensor->dims[d];
    snprintf(path, sizeof path, "/parameters/%s", tensor->name);
    values = read_floats(from, path, size);
    if (faults->halve && strcmp(faults->halve, tensor->name) == 0)
        tensor->dims[tensor->dims[0] > 1 ? 0 : 1] /= 2;
    demand(h5_write(to, path, DT_F32, tensor->rank, tensor->dims, values));
    mem_free(values);
}

/* /parameters of `from`, with the faults. */
static inline void copy_tensors(const struct tensor_faults *faults, struct h5 *from,
                                struct h5 *to) {
    struct h5_dataset *tensors;
    size_t count;
    demand(h5_make_group(to, "/parameters"));
    demand(h5_list(from, "/parameters", &tensors, &count));
    for (size_t i = 0; i < count; i++)
        if (!listed(faults->drop, COUNT_OF(faults->drop), tensors[i].name))
            copy_tensor(faults, from, to, &tensors[i]);
    h5_free_datasets(tensors, count);
    for (size_t i = 0; i < COUNT_OF(faults->extra); i++) {
        float values[2] = {1, 2};
        char path[128];
        if (!faults->extra[i]) continue;
        snprintf(path, sizeof path, "/parameters/%s", faults->extra[i]);
        demand(h5_write(to, path, DT_F32, 1, (const size_t[]){2}, values));
    }
}

/* A row's test: its name is what it tests and why. */
static inline struct CMUnitTest row_test(const char *kind, const char *name,
                                         CMUnitTestFunction function, const void *row) {
    return (struct CMUnitTest){.name = str_format("%s: %s", kind, name),
                               .test_func = function,
                               .initial_state = (void *)(uintptr_t)row};
}

#endif
