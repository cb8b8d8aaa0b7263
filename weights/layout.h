/*
 * layout: how an origin lays a weight out, against the canonical order (PyTorch's: (out, in),
 * (out, in, height, width)). Tensors stay where they are; they are put into order while they are
 * read, so nothing is ever there twice.
 */
#ifndef WEIGHTS_LAYOUT_H
#define WEIGHTS_LAYOUT_H

#include "weights/tensor.h"

/* D of one head, H heads; the canonical shape behind the arrow. */
enum layout {
    LAYOUT_SAME,
    LAYOUT_ROWS,     /* (rows, width) -> (1, rows, width): positions of keras_hub */
    LAYOUT_FLAT,     /* any -> (product): a bias (H, D) */
    LAYOUT_MATRIX,   /* (in, out) -> (out, in): a dense kernel of JAX and Keras */
    LAYOUT_CONV,     /* (h, w, in, out) -> (out, in, h, w) */
    LAYOUT_HEADS_IN, /* (C, H, D) -> (H D, C): query, key, value; (C, H D) as well */
    LAYOUT_HEADS_OUT /* (H, D, C) -> (C, H D): the projection behind attention; (H D, C) as well */
};

/* "(in, out) matrix", for messages. */
const char *layout_name(enum layout layout);
/* Whether the numbers change their order. */
bool layout_moves(enum layout layout);
/* The canonical dims (TENSOR_MAX_RANK) and rank; false when the tensor is of another rank. */
bool layout_shape(enum layout layout, const struct tensor *tensor, size_t *dims, int *rank);
/*
 * `count` numbers from index `first` of the canonical order on, as fp32; ST_SHAPE for DT_OTHER or a
 * rank that the layout does not have.
 */
enum status layout_read(const struct tensor *tensor, enum layout layout, size_t first, size_t count,
                        float *dst) MUST_CHECK;

#endif
