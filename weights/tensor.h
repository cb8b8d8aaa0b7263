/*
 * tensor: element types, and a named array of a checkpoint, whichever container it came from.
 */
#ifndef WEIGHTS_TENSOR_H
#define WEIGHTS_TENSOR_H

#include "kernels/base.h"

#define TENSOR_MAX_RANK 8
#define TENSORS_MAX     ((size_t)1 << 16) /* of a checkpoint; ViT-g with its optimizer has 2000 */

enum dtype {
    DT_F64,
    DT_F32,
    DT_F16,
    DT_BF16,
    DT_I64,
    DT_I32,
    DT_I16,
    DT_I8,
    DT_U8,
    DT_BOOL,
    DT_OTHER
};

/* "fp32", "bf16", ... ; bytes of one element (0 for DT_OTHER). */
const char *dtype_name(enum dtype dtype);
bool dtype_find(const char *name, enum dtype *out);
size_t dtype_size(enum dtype dtype);

struct tensor {
    char *name; /* owned */
    enum dtype dtype;
    int rank;
    size_t dims[TENSOR_MAX_RANK];
    /*
     * Little endian, not necessarily aligned, in the container's mapping or memory; row-major, or
     * with column_major the first index runs fastest.
     */
    const uint8_t *data;
    size_t bytes;
    bool column_major;
    const char *unused; /* why the container knows it to be no weight (static text); or NULL */
};

/* By name, as checkpoint_find wants them; two of a name are ST_FORMAT, a fault of `path`. */
enum status tensors_sort(struct tensor *tensors, size_t count, const char *path) MUST_CHECK;

/* The product of the dims; they were checked when the tensor was made. */
size_t tensor_count(const struct tensor *tensor);
/* "(768, 3, 16, 16)" into buf; returns buf. */
const char *shape_text(const size_t *dims, int rank, char *buf, size_t size);

/*
 * Widens `count` elements to fp32; `src` may be the last bytes of dst itself. ST_SHAPE for
 * DT_OTHER. Narrows to fp16 and bf16: round to nearest even, beyond the range infinity, NaN kept.
 */
enum status tensor_to_f32(const uint8_t *src, enum dtype dtype, size_t count,
                          float *dst) MUST_CHECK;
void f32_to_f16(const float *src, size_t count, uint16_t *dst);
void f32_to_bf16(const float *src, size_t count, uint16_t *dst);

#endif
