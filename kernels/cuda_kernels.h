/*
 * cuda_kernels: the launchers of the CUDA backend's own kernels; above each, the file it is in.
 *
 * Plain C and no CUDA type, so that the backend, the simulator and the tests call the same
 * functions: device pointers are void *, a stream is a void *. A launcher picks the shape, launches
 * and returns; ST_DEVICE: the launch was refused, and why. It checks nothing that backend.c has
 * checked. Activations are of `type`, as in struct act: element (b, t, c) at b*stride + t*pitch + c
 * behind the pointer. Statistics, softmax and sums are fp32 whatever the type.
 *
 * Built twice from one source: by nvcc for GPUs, and by the C++ compiler with -DSIMT for the
 * simulator (tests/simt.h), where device memory is host memory and the stream is not looked at.
 */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum cuda_type { CUDA_FP32, CUDA_FP16, CUDA_BF16 };

/* A struct act on the device: its first element, its steps in elements. */
struct cuda_view {
    void *data;
    int batch, tokens, channels;
    size_t pitch, stride;
};

/* attention_cuda.cu: op_attention. Tables are fp32 device arrays. */
struct cuda_attention {
    enum cuda_type type;
    struct cuda_view q, k, v, y;  /* (B, T, H*D) */
    const struct attention *desc; /* host; tables, lengths and probs of it are not looked at */
    const float *temperature;     /* (H), SCORE_COSINE */
    const float *bias;            /* (H, (2Mh-1)*(2Mw-1)) or NULL */
    const float *padding;         /* (2, H*D) or NULL = zeros */
    const int *lengths;           /* device (B) or NULL */
    float *probs;                 /* as struct attention says, dense, or NULL */
    float *greatest;              /* the same; with probs alone */
};
enum status cuda_attention(const struct cuda_attention *call, void *stream) MUST_CHECK;

/* layernorm_cuda.cu: op_layernorm; weight and bias (width) fp32; residual.data NULL = none. */
struct cuda_layernorm {
    enum cuda_type type;
    struct cuda_view x, residual, y;
    const float *weight, *bias;
    int width; /* of a run; channels/width runs a token */
    float eps;
    bool rms;
};
enum status cuda_layernorm(const struct cuda_layernorm *call, void *stream) MUST_CHECK;

/* tokens_cuda.cu: op_assemble (prefix (P, C), pos (N, C) fp32 or NULL). */
enum status cuda_assemble(enum cuda_type type, const float *prefix, const float *pos,
                          const struct cuda_view *tok, const struct cuda_view *h,
                          void *stream) MUST_CHECK;
/* layernorm_cuda.cu: op_patch_merge; weight and bias (4C) fp32, NULL = no norm. */
enum status cuda_patch_merge(enum cuda_type type, const struct cuda_view *x, int grid_h, int grid_w,
                             const float *weight, const float *bias, float eps,
                             const struct cuda_view *y, void *stream) MUST_CHECK;
/* tokens_cuda.cu: op_mean */
enum status cuda_mean(enum cuda_type type, const struct cuda_view *x, const struct cuda_view *y,
                      void *stream) MUST_CHECK;

/*
 * tokens_cuda.cu: pixels (B, image_h, image_w, 3) uint8 on the device -> patches (B, N, 3*ph*pw),
 * normalised, in (channel, y, x) order, for the projection's product.
 */
enum status cuda_patches(enum cuda_type type, const struct patch_spec *patch, const uint8_t *pixels,
                         const struct cuda_view *patches, void *stream) MUST_CHECK;

/*
 * tokens_cuda.cu: what a convolution takes instead, of 16-bit types. The pixels -> image (B,
 * image_h*image_w, CUDA_PIXEL), dense and 16-byte aligned, normalised, zeros behind the colours. A
 * projection's weight (out, 3*ph*pw), rows `pitch` apart -> filter (out, ph, pw, CUDA_PIXEL), zeros
 * behind the colours.
 */
enum { CUDA_PIXEL = 4 };
enum status cuda_normalise(enum cuda_type type, const struct patch_spec *patch,
                           const uint8_t *pixels, const struct cuda_view *image,
                           void *stream) MUST_CHECK;
enum status cuda_filter(enum cuda_type type, const void *weight, size_t pitch, int out, int patch_h,
                        int patch_w, void *filter, void *stream) MUST_CHECK;

/*
 * activation_cuda.cu: y = epilogue(x + bias) + residual; bias (columns of x) fp32 or NULL;
 * residual.data NULL = none. SWIGLU: x has 2F columns, y F. y may be x or the residual.
 *
 * row_scales (B*T) not NULL: x is int32, element (row, c) stands for x * row_scales[row] *
 * column_scales[c], column_scales (columns of x); type is CUDA_FP16, y is not x.
 */
struct cuda_activation {
    enum cuda_type type;
    enum epilogue epilogue;
    struct cuda_view x, residual, y;
    const float *bias;
    const float *row_scales, *column_scales;
};
enum status cuda_activation(const struct cuda_activation *call, void *stream) MUST_CHECK;

/*
 * quantise_cuda.cu: x (B, T, C) fp16 -> q (rows, pitch) int8, dense, 16-byte aligned, and scales
 * (rows): row b*T + t of x is scales * q to within scales/2; the file says what zeros, infinities
 * and NaN do. rows >= B*T and pitch >= C, a multiple of 16: what is more is zeros.
 */
enum status cuda_quantise(const struct cuda_view *x, int8_t *q, int pitch, float *scales, int rows,
                          void *stream) MUST_CHECK;

/* tokens_cuda.cu: a view to dense fp32 on the device, and back. */
enum status cuda_to_fp32(enum cuda_type type, const struct cuda_view *x, float *dense,
                         void *stream) MUST_CHECK;
enum status cuda_from_fp32(enum cuda_type type, const float *dense, const struct cuda_view *x,
                           void *stream) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
