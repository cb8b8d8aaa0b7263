/*
 * vit: the Vision Transformer of Dosovitskiy et al. (2020) and its kin: DeiT, DeiT III, AugReg,
 * CLIP towers, MAE, DINOv2, SBB models with registers, SigLIP's pooling, BEiT and data2vec. One
 * struct, one load, one forward.
 *
 * Life cycle: vit_load -> any number of vit_forward -> vit_release -> backend_close.
 *
 * B batch, T = P + N tokens, P prefix tokens (class, distillation, registers), N patches, C
 * channels, H heads, D = C/H, F hidden, L layers, K classes. Row-major, last dim contiguous.
 */
#ifndef VIT_VIT_H
#define VIT_VIT_H

#include "kernels/capture.h"
#include "kernels/ops.h"
#include "kernels/rollout.h"
#include "weights/config.h"
#include "weights/params.h"

struct vit_block {
    struct norm *norm1, *norm2;   /* (C) */
    struct norm *q_norm, *k_norm; /* (D), NULL without qk-norm */
    struct linear *qkv;           /* (3C, C) */
    struct table *bias;           /* (H, entries) of relative positions, or NULL */
    struct linear *proj;          /* (C, C), LayerScale folded in */
    struct linear *fc1;           /* (F, C), SwiGLU (2F, C) */
    struct linear *fc2;           /* (C, F), LayerScale folded in */
};

/* Attention pooling (SigLIP): one latent query over the patches, then an MLP with a residual. */
struct vit_attn_pool {
    float *query;             /* host (C): the latent, already projected by attn_pool.q */
    struct linear *kv, *proj; /* (2C, C), (C, C) */
    struct norm *norm;        /* (C) */
    struct linear *fc1, *fc2; /* (F, C), (C, F) */
};

struct vit {
    struct vit_config config; /* as stored; image_h, image_w as run */
    int grid_h, grid_w;       /* patches at the size run; other than config.pos_grid: resampled */
    int prefix, patches, tokens; /* P, N, T */
    int max_batch;
    struct patch_spec patch;                /* proj (C, 3*ph*pw) */
    struct table *prefix_tokens;            /* (P, C), positions added; NULL when P = 0 */
    struct table *positions;                /* (N, C), resampled to the grid; NULL without */
    struct norm *norm_pre, *norm, *fc_norm; /* (C) or NULL */
    struct vit_block *blocks;               /* (L) */
    struct vit_attn_pool pool;              /* pool "map" */
    struct linear *head; /* (K, C); distilled (K, 2C): both heads averaged; NULL = none */
    size_t parameters;   /* as stored in the file */
    struct backend *backend;

    /*
     * The workspace, bound for max_batch. Three regions: h; n; and the wide one. What is never
     * alive at the same time shares a region: patches, norms and attention's output in n; qkv and
     * the MLP's hidden in the wide one.
     */
    struct arena workspace;
    struct act h;             /* (B, T, C) the residual stream */
    struct act tok;           /* (B, N, C), in n's region */
    struct act n, a;          /* (B, T, C), one region */
    struct act qkv, f;        /* (B, T, 3C), (B, T, F), one region */
    struct act query;         /* (B, 1, C) pool "map": pool.query for every image */
    struct act c, logits;     /* (B, 1, C), (B, 1, K) */
    struct capture_room room; /* reserved by the first forward that asks for probabilities */
};

struct vit_options {
    int image_h, image_w; /* 0 = the model's own */
    int max_batch;        /* >= 1; the workspace grows with it (vit_plan) */
    float mean[3], std[3];
    bool backward; /* for vit_gradient: weights take twice the memory */
};

/*
 * Reads config and parameters from an open model file, packs them for the device one tensor at a
 * time, binds and plans the workspace. Positions are resampled by the origin's rule when the grid
 * run is not the stored one (compare grid_h, grid_w with config.pos_grid_h, pos_grid_w to tell the
 * user). On failure *vit is released. ST_FORMAT: the config is impossible, or asks for what
 * vitrine does not compute (named); ST_SHAPE: every missing, extra or misshapen tensor listed;
 * ST_USAGE: an image size the patch does not divide; ST_NOMEM; ST_DEVICE.
 */
enum status vit_load(struct vit *vit, struct h5 *file, const struct vit_options *options,
                     struct backend *backend) MUST_CHECK;
void vit_release(struct vit *vit); /* before backend_close, which frees the weights */

/*
 * What else a forward should leave behind. Host buffers, dense fp32, each NULL = not wanted.
 * layer counts from 0; -1 = after the last block and the final norm.
 */
struct vit_taps {
    int layer;
    float *tokens; /* (B, T, C): after block `layer`; -1: with `norm` applied, if there is one */
    float *pooled; /* (B, C): what the head reads (with fc_norm); distilled: the two's mean */
    float *stream; /* (L+1, B, T, C): what each block reads, and what the last leaves */
    const struct capture *capture; /* attention probabilities; of vit_attention_shape */
};

/*
 * pixels (B, image_h, image_w, 3) uint8 -> logits (B, K) on the host (NULL, or a model without
 * head: not computed). taps may be NULL. Returns after backend_sync: the first error of the pass,
 * or ST_OK. batch <= max_batch. Allocates only when probabilities are asked for, and then only if
 * batch is the largest so far that asked. Logits and pooled features have the same bits with and
 * without a capture.
 */
enum status vit_forward(struct vit *vit, const uint8_t *pixels, int batch, float *logits,
                        const struct vit_taps *taps) MUST_CHECK;

/*
 * Binds the workspace for max_batch images and plans the pass; called by vit_load when the weights
 * are there, and again to make do with less memory. What a GPU's memory does not hold is halved, at
 * last to one image: vit->max_batch is what it came to. ST_NOMEM, ST_DEVICE.
 */
enum status vit_plan(struct vit *vit, int max_batch) MUST_CHECK;

/* ---- rollout (vit_rollout.c) ----------------------------------------------------------------- */

/*
 * The probabilities of block `layer`; L of a model with pool "map": those of the pool, whose query
 * is no token. head_rows: the last block's of the rows alone that the head reads (capture.h).
 */
struct attention_shape vit_attention_shape(const struct vit *vit, int layer, bool head_rows);
/* Layers that a capture may name: L, and the pool. */
int vit_attention_layers(const struct vit *vit);
/* steps (L): every block, from the patches to the head; nothing fused yet. */
void vit_rollout_steps(const struct vit *vit, bool head_rows, struct rollout_step *steps);
/*
 * row (T): what of the last block's tokens the head reads: the class token, the mean of class and
 * distillation tokens, or the mean of the patches; without a pool the class token where there is
 * one. Of pool "map": the mean of the patches too, which the pool's own probabilities refine.
 */
void vit_head_row(const struct vit *vit, double *row);

/* ---- gradients (vit_gradient.c) -------------------------------------------------------------- */

/*
 * A class's relevance: max(0, P * d logit / d P) of the probabilities P of each layer
 * (kernels/backward.h), by a backward pass from the head to the lowest layer that is wanted. Blocks
 * are computed anew from what each read, one at a time.
 */
struct vit_gradient {
    struct vit *vit; /* the caller's, loaded with `backward`, on a CPU */
    int classes;     /* scalars of a pass at most */
    float *stream;   /* host (L+1, T, C) */
    float *host;     /* (classes, T*C or K) of what is written to the device */
    size_t bytes;    /* of all its room */
    struct arena workspace;
    struct act x, mid, n, a; /* (1, T, C) a block's input, behind its attention, normed, attended */
    struct act qkv, qk;      /* (1, T, 3C), (1, T, 2C): query and key as normed */
    struct act f;            /* (1, T, F), SwiGLU (1, T, 2F): in front of the activation */
    struct act probs;        /* (1, H*T, T) */
    struct act dh, dn;       /* (classes, T, C) of the stream, of what a linear reads */
    struct act df, dg;       /* (classes, T, F) behind and, like f, in front of the activation */
    struct act dqkv, dprobs; /* (classes, T, 3C), (classes, H*T, T) */
    struct act c, dc;        /* (1, 1, C), (classes, 1, C or, distilled, 2C) what the head reads */
    struct act dlogits;      /* (classes, 1, K) */
};

/* ST_USAGE: a model without classes; ST_DEVICE: on a GPU. On failure *out is released. */
enum status vit_gradient_open(struct vit_gradient *out, struct vit *vit, int classes) MUST_CHECK;
void vit_gradient_release(struct vit_gradient *gradient); /* works on a zeroed struct, and twice */

/*
 * pixels (image_h, image_w, 3) -> the relevance of `count` classes to capture->take, in place of
 * the probabilities of images [capture->first, capture->first + count), from the last layer wanted
 * (the pool) to the first. No class's order or company changes its bits.
 */
enum status vit_gradient_run(struct vit_gradient *gradient, const uint8_t *pixels,
                             const int *classes, int count,
                             const struct capture *capture) MUST_CHECK;

/*
 * Multiply-adds of one image at the size run: linears, attention products, patch embedding, head.
 * vit_macs: as an architecture is counted in papers; vit_macs_run: those that a pass for
 * logits really does (the last block of a class-token model computes the head's rows alone).
 * vit_macs_parts: those of vit_macs, one by one.
 */
double vit_macs(const struct vit_config *config);
struct vit_macs {
    double embedding, blocks, head; /* head: with the pool */
};
struct vit_macs vit_macs_parts(const struct vit_config *config);
double vit_macs_run(const struct vit_config *config);

/*
 * dst (to_h*to_w, channels) = src (from_h*from_w, channels) resampled by an origin's rule.
 * An equal grid is copied. dst and src must not overlap. ST_NOMEM.
 */
enum status vit_resample_positions(const float *src, int from_h, int from_w, float *dst, int to_h,
                                   int to_w, int channels, enum resample rule) MUST_CHECK;

#endif
