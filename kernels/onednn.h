/*
 * onednn: prepacked fp32 products by oneDNN's matmul primitive, seen from linear_cpu.c. onednn.c is
 * the one file that knows the library; built with HAVE_ONEDNN=0 it opens as NULL.
 *
 * A weight is packed once, for single-threaded use: the caller splits the work. A primitive belongs
 * to a shape (weight layout, rows, pitches, epilogue); onednn_prepare builds it, outside parallel
 * parts, and all weights and workers share it. The bits of a row may depend on how many rows its
 * product has, so the caller keeps that number a matter of shapes.
 */
#ifndef KERNELS_ONEDNN_H
#define KERNELS_ONEDNN_H

#include "kernels/cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

struct onednn_shape;

/* *out NULL with ST_OK: not built in. `workers` as in threads_open. */
enum status onednn_open(int workers, struct onednn **out) MUST_CHECK;
void onednn_close(struct onednn *dnn); /* after all its weights; NULL is nothing */

/* "2.6.3"; NULL for NULL. */
const char *onednn_version(const struct onednn *dnn);

/*
 * Packs weight (n, k) in the layout the library likes for about `rows` rows. bias (n), or NULL, is
 * not copied and must live on.
 */
enum status onednn_pack(struct onednn *dnn, const float *weight, const float *bias, int k, int n,
                        int rows, struct onednn_weight **out) MUST_CHECK;
enum status onednn_unpack(const struct onednn_weight *weight,
                          float *values) MUST_CHECK; /* (n, k) */
void onednn_release(struct onednn_weight *weight);   /* NULL is nothing */

/*
 * Builds what `task` (its rows, pitches, epilogue, residual or not) needs, unless it is there.
 * *fits false with ST_OK: the library has no fast code for it on this layout and machine.
 */
enum status onednn_prepare(const struct onednn_weight *weight, const struct gemm_task *task,
                           bool *fits) MUST_CHECK;

/* What onednn_prepare has built for such a task; NULL = nothing. */
struct onednn_shape *onednn_find(const struct onednn_weight *weight, const struct gemm_task *task);

/* Floats of scratch, 64-byte aligned, that any product prepared so far wants. */
size_t onednn_scratch(const struct onednn *dnn);

/*
 * Runs a product: y and residual at the weight's first column. Workers may run one shape at once.
 */
enum status onednn_run(const struct onednn_shape *shape, const struct onednn_weight *weight,
                       const struct gemm_task *task, int worker, float *scratch) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
