/*
 * container_sample: the files of tests/ref/containers (make_containers.py), opened, planned, and
 * held against the same weights as safetensors; for test_npz.c, test_onnx.c and test_keras.c.
 */
#ifndef TESTS_CONTAINER_SAMPLE_H
#define TESTS_CONTAINER_SAMPLE_H

#include "weights/convert.h" // before cmocka.h, which has a macro `fail`
#include "weights/convert_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CONTAINERS "tests/ref/containers/"

/* Every tensor lies in the file or its memory; reads its ends. */
static inline void container_check(const struct checkpoint *c) {
    unsigned sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct tensor *t = &c->tensors[i];
        assert_int_equal(tensor_count(t) * dtype_size(t->dtype), t->bytes);
        assert_non_null(t->data);
        if (t->bytes) sum += t->data[0] + t->data[t->bytes - 1];
    }
    (void)(volatile unsigned){sum};
}

/* For a checkpoint over memory that is the test's: all but paths and map. */
static inline void container_release(struct checkpoint *c) {
    c->map = NULL;
    c->path = c->weights_path = NULL;
    checkpoint_release(c);
}

/* With a config.json of these words instead of the folder's; NULL: two heads. */
static inline void container_open(const char *name, const char *config, struct checkpoint *out) {
    char path[160];
    snprintf(path, sizeof path, CONTAINERS "%s", name);
    if (checkpoint_open(path, NULL, out) != ST_OK) fail_msg("%s", fail_message());
    out->config_json = str_copy(config ? config : "{\"model_args\": {\"num_heads\": 2}}");
    assert_non_null(out->config_json);
}

static inline void container_plan(const struct checkpoint *c, struct conversion *out) {
    static const char *const rules[] = {"crop_pct=1", "interpolation=bicubic", "mean=0.5",
                                        "std=0.5"};
    const struct convert_options options = {
        .dtype = DT_F32,
        .preprocess = rules,
        .preprocess_count = strcmp(c->container, "npz") == 0 ? 0 : COUNT_OF(rules)};
    if (convert_plan(c, &options, out) != ST_OK) fail_msg("%s", fail_message());
}

/* The numbers of an output, parts behind each other; how many. */
static inline size_t container_values(const struct conversion_tensor *t, float *out, size_t room) {
    size_t filled = 0;
    for (int p = 0; p < t->parts; p++) {
        const size_t count = tensor_count(t->part[p]);
        assert_true(count <= room - filled);
        assert_int_equal(layout_read(t->part[p], t->layout[p], 0, count, out + filled), ST_OK);
        filled += count;
    }
    return filled;
}

struct compared {
    size_t outputs, transposed, dropped;
};

/* Both give the same outputs: names, shapes and every bit. */
static inline void container_equal(const struct conversion *x, const struct conversion *y,
                                   const char *name) {
    static float a[8192], b[8192];
    assert_int_equal(x->output_count, y->output_count);
    for (size_t i = 0; i < x->output_count; i++) {
        const struct conversion_tensor *s = &x->outputs[i], *t = &y->outputs[i];
        assert_string_equal(s->name, t->name);
        assert_int_equal(s->rank, t->rank);
        assert_memory_equal(s->dims, t->dims, sizeof s->dims);
        const size_t count = container_values(s, a, COUNT_OF(a));
        assert_int_equal(container_values(t, b, COUNT_OF(b)), count);
        if (memcmp(a, b, count * sizeof a[0]) != 0) fail_msg("%s: %s differs", name, s->name);
    }
}

static inline struct compared container_count(const struct conversion *x) {
    struct compared counts = {x->output_count, 0, 0};
    for (size_t i = 0; i < x->row_count; i++) {
        counts.transposed += strcmp(x->rows[i].action, "transposed") == 0;
        counts.dropped += strcmp(x->rows[i].action, "dropped") == 0;
    }
    return counts;
}

static inline struct compared container_compare(const char *name, const char *reference,
                                                const char *config) {
    struct checkpoint ours, theirs;
    struct conversion x, y;
    struct compared counts;
    container_open(name, config, &ours);
    container_open(reference, config, &theirs);
    container_check(&ours);
    container_plan(&ours, &x);
    container_plan(&theirs, &y);
    container_equal(&x, &y, name);
    counts = container_count(&x);
    conversion_release(&x);
    conversion_release(&y);
    checkpoint_release(&ours);
    checkpoint_release(&theirs);
    return counts;
}

#endif
