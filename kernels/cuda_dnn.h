/*
 * cuda_dnn: attention over long sequences and convolutions by cuDNN's graphs.
 *
 *   dnn_open             cuDNN for the current device
 *   dnn_*_open           a graph of fixed shapes, and the plans that the heuristics offer for it
 *   dnn_build            a plan, up to some seconds each (cuDNN compiles kernels); it may refuse
 *   dnn_run              any number of times; the caller times the plans and keeps the fastest
 *   dnn_graph_close, dnn_close
 *
 * cuDNN 9 is opened at run time: without it, or in a build without its headers, dnn_open returns
 * ST_DEVICE and why, and nothing else is lost. Its refusals are ST_DEVICE, "cudnn: the thing: its
 * sentence"; shapes that cuDNN could not take are refused in front of it with ST_SHAPE.
 *
 * Plain C and no CUDA or cuDNN type: device pointers and streams are void *. Activations are fp16
 * or bf16 views as in cuda_kernels.h; sums, softmax and scores are fp32. A handle and its graphs
 * belong to one thread at a time.
 */
#ifndef KERNELS_CUDA_DNN_H
#define KERNELS_CUDA_DNN_H

#include "kernels/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dnn;       /* cuDNN, opened */
struct dnn_graph; /* one computation of fixed shapes and its plans */

enum { DNN_MOST_PLANS = 8 }; /* of a graph, the heuristics' best first */

/* The current device stays this handle's. *out is NULL after a failure. */
enum status dnn_open(struct dnn **out) MUST_CHECK;
/*
 * No device, but its description in cuDNN's JSON: graphs open and have the plans that they would
 * have there; building stops where the device is needed, and nothing runs. cuDNN 9.11 or later.
 */
enum status dnn_open_described(const char *json, struct dnn **out) MUST_CHECK;
/* After its graphs. Frees and sets NULL; NULL is nothing. */
void dnn_close(struct dnn **dnn);
/* 91900 is 9.19.0; part of the key under which timings are kept. */
int dnn_version(const struct dnn *dnn);

/*
 * y = softmax(scale * q k^T + bias) v for every head: full pattern, all keys valid, no
 * probabilities. Nothing of size Tq*Tk is stored. D is a multiple of 8 up to 256, pitches and
 * strides are multiples of 8 (16 bytes). q, k and v may be column views of one packed (B, T, 3C).
 */
struct dnn_attention {
    enum cuda_type type;
    int heads, head_dim;
    float scale;
    struct cuda_view q, y; /* (B, Tq, H*D); data is not looked at */
    struct cuda_view k, v; /* (B, Tk, H*D) */
    bool bias;             /* (H, Tq, Tk) of `type`, dense, the same for every image */
};
/* ST_DEVICE: also when there is no plan for it on this device (attention needs sm_80). */
enum status dnn_attention_open(struct dnn *dnn, const struct dnn_attention *desc,
                               struct dnn_graph **out) MUST_CHECK;

/*
 * y = relu(conv(x, filter) + bias), a cross-correlation as in every framework. Images are tokens in
 * row-major order: x (B, in_h*in_w, C), y (B, out_h*out_w, K), which is NHWC. filter (K, kernel_h,
 * kernel_w, C) of `type`, dense. out = (in + padding - kernel) / stride + 1, rounded down.
 */
struct dnn_conv {
    enum cuda_type type;
    struct cuda_view x, y; /* data is not looked at */
    int in_h, in_w;
    int kernel_h, kernel_w, stride_h, stride_w;
    int pad_top, pad_bottom, pad_left, pad_right;
    bool bias; /* (K) of `type` */
    bool relu;
};
enum status dnn_conv_open(struct dnn *dnn, const struct dnn_conv *desc,
                          struct dnn_graph **out) MUST_CHECK;
/*
 * The patch projection as a convolution: kernel = stride = patch. x: normalised pixels of `type`,
 * (B, image_h*image_w, 3 or more; the filter has zeros for more), y: tok.
 */
void dnn_conv_of_patches(enum cuda_type type, const struct patch_spec *patch,
                         const struct cuda_view *x, const struct cuda_view *y,
                         struct dnn_conv *out);

/*
 * The graph's plans, at least one; the same ones for a cuDNN version and device, so that a choice
 * may be kept by its number. Engines that are not deterministic, that sum in fewer bits than fp32
 * or by Winograd's transform are left out.
 */
int dnn_plans(const struct dnn_graph *graph);
/* The engine behind a plan, for messages; -1: no such plan. */
int dnn_engine(const struct dnn_graph *graph, int plan);
/* ST_DEVICE: not on this device, try the next. Once is enough. */
enum status dnn_build(struct dnn_graph *graph, int plan) MUST_CHECK;
/* Device bytes that dnn_run needs for it; 0 before it is built. */
size_t dnn_workspace(const struct dnn_graph *graph, int plan);

/* Frees what the other plans took; they may be built again. */
void dnn_keep(struct dnn_graph *graph, int plan);

/* Device pointers, 16-byte aligned; only those of the graph's tensors are looked at. */
struct dnn_data {
    const void *q, *k, *v;  /* attention */
    const void *x, *filter; /* convolution */
    const void *bias;       /* of either, where it has one */
    void *y, *workspace;    /* workspace: dnn_workspace bytes, NULL for 0 */
};
/*
 * Enqueues the graph on the stream (a cudaStream_t), also under capture; neither allocates device
 * memory nor waits. The pointers of the last call are kept described, so repeating them is cheap.
 */
enum status dnn_run(struct dnn_graph *graph, int plan, const struct dnn_data *data,
                    void *stream) MUST_CHECK;

/* Frees and sets NULL; NULL is nothing. */
void dnn_graph_close(struct dnn_graph **graph);

#ifdef __cplusplus
}
#endif
#endif
