/*
 * capture_copy: a capture's taker that keeps everything: the probabilities of every layer wanted.
 */
#ifndef TESTS_CAPTURE_COPY_H
#define TESTS_CAPTURE_COPY_H

#include "kernels/capture.h" // before cmocka.h, which has a macro `fail`

#include "tests/golden.h"

enum { COPY_LAYERS = 8 };

struct capture_copy {
    int images; /* room of each buffer */
    struct attention_shape shape[COPY_LAYERS];
    float *probs[COPY_LAYERS]; /* (images, W, H, queries, keys), or NULL: not taken */
    int taken;                 /* calls */
};

static inline void capture_copy_take(void *context, const struct captured *got) {
    struct capture_copy *copy = context;
    const size_t floats = attention_shape_floats(&got->shape);
    assert_true(got->layer < COPY_LAYERS && got->first + got->batch <= copy->images);
    if (!copy->probs[got->layer])
        copy->probs[got->layer] = memory((size_t)copy->images * floats, sizeof(float));
    copy->shape[got->layer] = got->shape;
    memcpy(copy->probs[got->layer] + (size_t)got->first * floats, got->probs,
           (size_t)got->batch * floats * sizeof(float));
    copy->taken++;
}

static inline void capture_copy_release(struct capture_copy *copy) {
    for (int l = 0; l < COPY_LAYERS; l++)
        mem_free(copy->probs[l]);
    *copy = (struct capture_copy){0};
}

#endif
