/*
 * capture_copy: a capture's taker that keeps everything: the probabilities of every layer wanted,
 * and the greatest scores where the capture asks for them.
 */
#ifndef TESTS_CAPTURE_COPY_H
#define TESTS_CAPTURE_COPY_H

#include "kernels/capture.h" // before cmocka.h, which has a macro `fail`

#include "tests/golden.h"

enum { COPY_LAYERS = 8 };

struct capture_copy {
    int images; /* room of each buffer */
    struct attention_shape shape[COPY_LAYERS];
    float *probs[COPY_LAYERS];    /* (images, W, H, queries, keys), or NULL: not taken */
    float *greatest[COPY_LAYERS]; /* (images, W, H, queries), the same */
    int taken;                    /* calls */
};

/* Images of `floats` each into their places of *to, which is made by the first. */
static inline void capture_copy_part(struct capture_copy *copy, const struct captured *got,
                                     const float *from, size_t floats, float **to) {
    if (!*to) *to = memory((size_t)copy->images * floats, sizeof **to);
    memcpy(*to + (size_t)got->first * floats, from, (size_t)got->batch * floats * sizeof **to);
}

static inline void capture_copy_take(void *context, const struct captured *got) {
    struct capture_copy *copy = context;
    assert_true(got->layer < COPY_LAYERS && got->first + got->batch <= copy->images);
    copy->shape[got->layer] = got->shape;
    capture_copy_part(copy, got, got->probs, attention_shape_floats(&got->shape),
                      &copy->probs[got->layer]);
    if (got->greatest)
        capture_copy_part(copy, got, got->greatest, (size_t)attention_shape_rows(&got->shape),
                          &copy->greatest[got->layer]);
    copy->taken++;
}

static inline void capture_copy_release(struct capture_copy *copy) {
    for (int l = 0; l < COPY_LAYERS; l++) {
        mem_free(copy->probs[l]);
        mem_free(copy->greatest[l]);
    }
    *copy = (struct capture_copy){0};
}

#endif
