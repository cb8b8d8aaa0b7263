/*
 * swin: the Swin Transformer, v1 (Liu et al. 2021) and v2 (Liu et al. 2022): a hierarchy of stages
 * whose blocks attend inside shifted windows. One struct, one load, one forward.
 *
 * Life cycle: swin_load -> any number of swin_forward -> swin_release -> backend_close.
 *
 * B batch, S stages, R map side (Rh x Rw tokens, T = Rh*Rw), C channels of the stage, H heads, D =
 * C/H, F hidden, M window side, N = Mh*Mw slots, K classes. Row-major, last dim contiguous; tokens
 * always lie in row-major order of the map.
 */
#ifndef SWIN_SWIN_H
#define SWIN_SWIN_H

#include "kernels/capture.h"
#include "kernels/ops.h"
#include "kernels/rollout.h"
#include "weights/config.h"
#include "weights/params.h"

struct swin_block {
    struct norm *norm1, *norm2; /* (C); version 1 before, version 2 behind attention and MLP */
    struct linear *qkv;         /* (3C, C) */
    struct linear *proj;        /* (C, C) */
    struct linear *fc1, *fc2;   /* (F, C), (C, F) */
    struct table *bias;         /* (H, (2Mh-1)*(2Mw-1)) for the window run */
    struct table *padding;      /* (2, C): key and value of a padding slot; NULL without biases */
    struct table *temperature;  /* (H) exp(min(logit_scale, ln 100)); NULL in version 1 */
};

struct swin_stage {
    struct swin_map map;                /* the map and its window, as run */
    int tokens;                         /* T = map.h*map.w */
    int channels, heads, hidden, depth; /* C, H, F, blocks */
    struct norm *merge_norm;   /* version 1 (2C) before the reduction, 2 (C) behind; stage 0 NULL */
    struct linear *reduction;  /* (C, 2C); stage 0 NULL */
    struct swin_block *blocks; /* (depth), in swin.blocks */

    /* The stage's views of the workspace: three regions, as large as the largest stage needs. */
    struct act h;      /* (B, T, C) the residual stream */
    struct act n, a;   /* (B, T, C), one region */
    struct act qkv, f; /* (B, T, 3C), (B, T, F), one region, the wide one */
    struct act merged; /* (B, T, 2C) four neighbours of the stage before, in the wide region */
    struct act p;      /* (B, T, C) version 2: what norm1 adds to h, in the wide region */
};

struct swin {
    struct swin_config config; /* as stored */
    int image_h, image_w;      /* as run */
    int max_batch;
    struct patch_spec patch;        /* proj (C, 3*ph*pw) */
    struct norm *patch_norm, *norm; /* (C of stage 0), (C of the last) */
    struct swin_stage stages[SWIN_MAX_STAGES];
    struct swin_block *blocks; /* of all stages, owned */
    int depth;                 /* their number */
    struct linear *head;       /* (K, C of the last stage); NULL = none */
    size_t parameters;         /* as stored in the file */
    struct backend *backend;
    struct arena workspace;   /* bound for max_batch */
    struct act c, logits;     /* (B, 1, C), (B, 1, K) */
    struct capture_room room; /* reserved by the first forward that asks for probabilities */
};

struct swin_options {
    int image_h, image_w; /* 0 = the model's own */
    int max_batch;        /* >= 1; the workspace grows with it (swin_plan) */
    float mean[3], std[3];
    bool backward; /* for swin_gradient: weights take twice the memory */
};

/*
 * Reads config and parameters from an open model file, evaluates version 2's position-bias MLP,
 * resamples version 1's bias tables where the window run is not the stored one
 * (swin_window_changes),
 * packs everything for the device, binds and plans the workspace. On failure *swin is released.
 * ST_FORMAT: the config is impossible; ST_SHAPE: every missing, extra or misshapen tensor listed;
 * ST_USAGE: an image size the patch does not divide; ST_NOMEM; ST_DEVICE.
 */
enum status swin_load(struct swin *swin, struct h5 *file, const struct swin_options *options,
                      struct backend *backend) MUST_CHECK;
void swin_release(struct swin *swin); /* before backend_close, which frees the weights */

/*
 * What else a forward should leave behind. Host buffers, dense fp32, each NULL = not wanted.
 * layer counts the blocks of all stages from 0; -1 = after the last block and the final norm.
 */
struct swin_taps {
    int layer;
    float *tokens; /* (B, T, C) of the layer's stage: after block `layer`; -1: normed */
    float *pooled; /* (B, C): what the head reads */
    float *stream; /* stage by stage (depth+1, B, T, C): what each block reads, and what the
                      stage's last leaves */
    const struct capture *capture; /* attention probabilities; of swin_attention_shape */
};

/*
 * pixels (B, image_h, image_w, 3) uint8 -> logits (B, K) on the host (NULL, or a model without
 * head: not computed). taps may be NULL. Returns after backend_sync: the first error of the pass,
 * or ST_OK. batch <= max_batch. Allocates only when probabilities are asked for, and then only if
 * batch is the largest so far that asked. Logits and tokens have the same bits with and without a
 * capture.
 */
enum status swin_forward(struct swin *swin, const uint8_t *pixels, int batch, float *logits,
                         const struct swin_taps *taps) MUST_CHECK;

/*
 * Binds the workspace for max_batch images and plans the pass; called by swin_load when the weights
 * are there, and again to make do with less memory. What a GPU's memory does not hold is halved, at
 * last to one image: swin->max_batch is what it came to. ST_NOMEM, ST_DEVICE.
 */
enum status swin_plan(struct swin *swin, int max_batch) MUST_CHECK;

/* The stage that holds block `layer`; -1: the last. */
int swin_layer_stage(const struct swin_config *config, int layer);

/*
 * Whether a stage's window at image_h x image_w is another than at the stored size: version 1 then
 * resamples its bias tables, version 2 evaluates its position bias for the window run.
 */
bool swin_window_changes(const struct swin_config *config, int stage, int image_h, int image_w);

/*
 * Multiply-adds of one image at image_h x image_w: linears on tokens, attention products on whole
 * windows, padding slots too. swin_stage_macs: of one stage with its merging; -1: the patch
 * embedding; config->stages: the head.
 */
double swin_macs(const struct swin_config *config, int image_h, int image_w);
double swin_stage_macs(const struct swin_config *config, int stage, int image_h, int image_w);

/* ---- rollout (swin_rollout.c) ---------------------------------------------------------------- */

/* Of block `layer`, counted over all stages: every second block of a stage is shifted. */
struct attention_shape swin_attention_shape(const struct swin *swin, int layer);
/* The steps of swin_rollout_steps: the blocks, and a merging between two stages. */
int swin_rollout_count(const struct swin *swin);
/* steps (swin_rollout_count): from the finest map to the head, which reads the mean; none fused. */
void swin_rollout_steps(const struct swin *swin, struct rollout_step *steps);

/* ---- gradients (swin_gradient.c) ------------------------------------------------------------- */

/*
 * A class's relevance, as vit_gradient's (vit/vit.h): max(0, P * d logit / d P) of the
 * probabilities P of each layer, by a backward pass from the head to the lowest layer wanted.
 */
struct swin_gradient {
    struct swin *swin; /* the caller's, loaded with `backward`, on a CPU */
    int classes;       /* scalars of a pass at most */
    float *stream;     /* host, as swin_taps' of one image */
    float *host;       /* (classes, K) */
    size_t bytes;      /* of all its room */
    struct arena workspace;
    struct swin_gradient_stage {
        const float *stream; /* the stage's part of it */
        /* Views of the workspace. The stages lie over one another, all but dmerged. */
        struct act x, mid, n, a, p; /* (1, T, C) a block's input, behind its attention, in front of
                                       (version 2) or behind a norm, attended, projected */
        struct act qkv, f;          /* (1, T, 3C), (1, T, F) in front of the activation */
        struct act before, merged;  /* (1, h*w, C/2) of the stage before, (1, T, 2C) gathered */
        struct act probs;           /* (1, W*H*N, N) of the block at hand */
        struct act dh, dn, da;      /* (classes, T, C) of the stream; of what a linear reads; of
                                       attention */
        struct act df, dqkv;        /* (classes, T, F), (classes, T, 3C) */
        struct act dmerged;         /* (classes, T, 2C) */
        struct act dprobs;          /* (classes, W*H*N, N) */
    } stages[SWIN_MAX_STAGES];
    struct act dc, dlogits; /* (classes, 1, C), (classes, 1, K) */
};

/* ST_USAGE: a model without classes; ST_DEVICE: on a GPU. On failure *out is released. */
enum status swin_gradient_open(struct swin_gradient *out, struct swin *swin,
                               int classes) MUST_CHECK;
void swin_gradient_release(struct swin_gradient *gradient); /* works on a zeroed struct, twice */

/* vit_gradient_run's, from the last layer wanted to the first. */
enum status swin_gradient_run(struct swin_gradient *gradient, const uint8_t *pixels,
                              const int *classes, int count,
                              const struct capture *capture) MUST_CHECK;

/* ---- bias tables (swin_tables.c) ------------------------------------------------------------- */

/*
 * The coordinate of an offset between -(M-1) and M-1 along an axis of a window of side M:
 * sign(t) log2(|t| + 1) / 3 with t = 8 * offset / max(M-1, 1) (Swin v2, section 3.3).
 */
double swin_coordinate(int offset, int window);

/*
 * Version 2's continuous position bias: bias (H, (2Mh-1)*(2Mw-1)) = 16 sigmoid(w2 relu(w1 (y, x) +
 * b1)) at the coordinates of every pair of offsets, normalised by a window of `pretrained` (0: the
 * window itself). w1 (512, 2), b1 (512), w2 (H, 512).
 */
void swin_position_bias(const float *w1, const float *b1, const float *w2, int window_h,
                        int window_w, int pretrained, int heads, float *bias);

#endif
