/*
 * ops: the seam between the models and the devices.
 *
 * vit/ and swin/ are written against this file alone, and for gradients backward.h. An activation
 * is a view `struct act` of a device's memory, opaque to the models (fp32 on the CPU; fp16, bf16 or
 * fp32 on a GPU). Ops take any size, never allocate, never print and never synchronise. The first
 * error sticks: later ops do nothing, backend_sync returns it with the op's name. Shapes are
 * checked here, once for all backends.
 *
 * Life cycle of a model on a backend:
 *
 *   backend_open
 *   *_load             each weight
 *   backend_plan_begin, one forward at the largest batch (ops only measure scratch and build
 *                      primitives), backend_plan_end
 *   forward, backend_sync   any number of times
 *   backend_close      frees every weight
 *
 * B batch, T tokens, C channels, H heads, D = C/H, F hidden, N patches, K classes.
 */
#ifndef KERNELS_OPS_H
#define KERNELS_OPS_H

#include "kernels/arena.h"
#include "kernels/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct backend;
struct linear; /* a weight matrix packed for the device */
struct norm;   /* a normalisation's gamma and beta */
struct table;  /* a plain fp32 array on the device: positions, prefix tokens, temperatures */

/* ---- the device ----------------------------------------------------------------------------- */

struct backend_options {
    const char *device; /* "auto", "cpu", "cuda", "cuda:N" */
    /*
     * NULL = the device's default; "fp32", "bf16", "fp16"; "int8": the linears with scales in int8,
     * all else in fp16.
     */
    const char *precision;
    int threads; /* CPU workers; 0 = threads_available() */
};

/*
 * Opens a device. ST_USAGE: no such device or precision; ST_DEVICE: it is named but cannot be used,
 * and why. "auto" takes a GPU if one answers, else the CPU.
 */
enum status backend_open(const struct backend_options *options, struct backend **out) MUST_CHECK;
void backend_close(struct backend *be); /* frees every weight loaded; NULL is nothing */

/* One line for a person: "cpu: AVX2, 2 threads, oneDNN 2.6.3, fp32". Owned by the backend. */
const char *backend_describe(const struct backend *be);
const char *backend_precision(const struct backend *be);
bool backend_is_gpu(const struct backend *be);

/*
 * The fp32 multiply-add peak of the device as used (all its threads), measured now in a few
 * milliseconds; FLOP/s, 0 = not known. The yardstick of benchmarks.
 */
double backend_peak(struct backend *be);

/* Waits for all ops; returns the first error since the last sync (sentence set), and clears it. */
enum status backend_sync(struct backend *be) MUST_CHECK;

void backend_plan_begin(struct backend *be);
/*
 * Reserves the scratch; ST_NOMEM, ST_USAGE (precision int8 and nothing loaded is quantised), or the
 * ops' first error.
 */
enum status backend_plan_end(struct backend *be) MUST_CHECK;

/*
 * arena_reserve in the device's memory; released by backend_release_arena, or at the latest by
 * backend_close.
 */
enum status backend_reserve(struct backend *be, struct arena *arena, const char *what) MUST_CHECK;
void backend_release_arena(struct backend *be, struct arena *arena);

/* ---- activations ---------------------------------------------------------------------------- */

/*
 * A view (batch, tokens, channels): element (b, t, c) is at offset + b*stride + t*pitch + c, in
 * elements. data NULL (while an arena measures) is legal in planning only.
 */
struct act {
    void *data;
    size_t offset;
    int batch, tokens, channels;
    size_t pitch;  /* elements from a token to the next, >= channels */
    size_t stride; /* elements from an image to the next */
};

/* A dense (batch, tokens, channels) from the arena. */
struct act act_take(struct backend *be, struct arena *arena, int batch, int tokens, int channels);
/*
 * The tokens [first, first+count) of every image; the channels [first, first+count) of every
 * token.
 */
struct act act_rows(struct act a, int first, int count);
struct act act_columns(struct act a, int first, int count);
/*
 * The first `batch` images: workspaces are bound for the largest batch and used for smaller ones.
 */
struct act act_batch(struct act a, int batch);
/*
 * The same dense memory seen as (batch, tokens, channels); the element count per image must be
 * equal.
 */
struct act act_reshape(struct act a, int tokens, int channels);
/*
 * The front of its dense memory seen as (batch, tokens, channels), of no more elements per image:
 * what is never alive at the same time shares a region.
 */
struct act act_front(struct act a, int tokens, int channels);

/*
 * Copies to / from dense host fp32 (batch, tokens, channels). Waits for the ops before it (read).
 * Sticky errors apply.
 */
void backend_read(struct backend *be, struct act a, float *host);
/*
 * The same numbers without a copy where the device's memory is the host's: a dense activation's
 * own, valid until an op writes there; else `host`, after backend_read into it. NULL while planning
 * and after an error.
 */
const float *backend_view(struct backend *be, struct act a, float *host);
void backend_write(struct backend *be, const float *host, struct act a);

/* ---- weights -------------------------------------------------------------------------------- */

/* y = x W^T + b. The host arrays may be freed after the call; the backend keeps its packed copy. */
struct linear_spec {
    const char *name;    /* for messages, e.g. "blocks.3.mlp.fc1"; copied */
    int in, out;         /* K, N */
    const float *weight; /* (out, in) row-major, fp32 */
    const float *bias;   /* (out), or NULL */
    /*
     * (out), or NULL: the weight is quantised, row o integers of [-128, 127] times scales[o]. What
     * does not compute in int8 takes the weight as it is.
     */
    const float *scales;
    int rows;      /* tokens per image it will mostly run on; a hint for packing */
    bool backward; /* W^T is packed too, for op_linear_backward: twice the memory */
};
enum status linear_load(struct backend *be, const struct linear_spec *spec,
                        struct linear **out) MUST_CHECK;

/* LayerNorm (or RMSNorm): every run of `width` channels is normalised by itself. */
struct norm_spec {
    int width; /* the channels, or the head width for query/key norms */
    float eps;
    bool rms;            /* y = x / sqrt(mean(x^2) + eps) * weight */
    const float *weight; /* (width), NULL = ones */
    const float *bias;   /* (width), NULL = zeros */
};
enum status norm_load(struct backend *be, const struct norm_spec *spec,
                      struct norm **out) MUST_CHECK;

enum status table_load(struct backend *be, const float *values, size_t count,
                       struct table **out) MUST_CHECK;

/* ---- ops ------------------------------------------------------------------------------------ */

enum epilogue {
    EPILOGUE_NONE,
    EPILOGUE_GELU,       /* x * Phi(x), exact erf */
    EPILOGUE_GELU_TANH,  /* the tanh approximation */
    EPILOGUE_QUICK_GELU, /* x * sigmoid(1.702 x) */
    EPILOGUE_SWIGLU      /* out = 2F columns [a, b]; y = silu(a) * b, F columns */
};

/* Patch projection: normalise uint8 pixels, cut into patches, project. */
struct patch_spec {
    int image_h, image_w, patch_h, patch_w; /* image sizes are multiples of the patch's */
    float mean[3], std[3];                  /* of RGB in 0..1 */
    struct linear *proj; /* in = 3*patch_h*patch_w in (channel, y, x) order, out = C */
};

/*
 * A hint: the next pass will embed these pixels (B, image_h, image_w, 3). A GPU uploads them while
 * the pass before them computes, so call it in front of that pass; a CPU does nothing. The pixels
 * must stay as they are until the pass that embeds them has ended.
 */
void backend_stage(struct backend *be, const uint8_t *pixels, size_t bytes);

/*
 * tok (B, N, C) = proj(patches((pixels/255 - mean)/std)), patches row-major. pixels: host memory
 * (B, image_h, image_w, 3) uint8, valid until backend_sync.
 */
void op_patch_embed(struct backend *be, const struct patch_spec *patch, const uint8_t *pixels,
                    struct act tok);

/*
 * h (B, P+N, C): rows [0, P) = prefix (P, C), the positions already added; rows [P, P+N) = tok (B,
 * N, C) + pos (N, C). prefix NULL: P = 0; pos NULL: no positions.
 */
void op_assemble(struct backend *be, const struct table *prefix, const struct table *pos,
                 struct act tok, struct act h);

/*
 * y = norm(x), or y = residual + norm(x) when residual is not NULL (Swin v2). Two-pass fp32
 * statistics. y may be x or the residual.
 */
void op_layernorm(struct backend *be, const struct norm *norm, struct act x,
                  const struct act *residual, struct act y);

/* y = epilogue(x W^T + b), then + residual when not NULL. y may be the residual, never x. */
void op_linear(struct backend *be, const struct linear *linear, enum epilogue epilogue,
               struct act x, const struct act *residual, struct act y);

/*
 * Patch merging's gather: y (B, ceil(h/2)*ceil(w/2), 4C) = norm(the 2x2 neighbours of x (B, h*w, C)
 * side by side) on a grid_h x grid_w map, in the order (0,0), (1,0), (0,1), (1,1) of (row, column);
 * beyond an odd border the neighbour is zeros. norm (4C), NULL = none. y is never x.
 */
void op_patch_merge(struct backend *be, const struct norm *norm, struct act x, int grid_h,
                    int grid_w, struct act y);

/* y (B, 1, C) = mean over the tokens of x (B, T, C). */
void op_mean(struct backend *be, struct act x, struct act y);

enum attention_score {
    SCORE_DOT,   /* scale * q.k */
    SCORE_COSINE /* temperature[h] * q.k / (|q| |k|), norms clamped at 1e-12; temperature already
                    exp'd and clamped */
};

enum attention_pattern {
    PATTERN_FULL,        /* every query sees every key */
    PATTERN_WINDOW,      /* windows on a grid_h x grid_w map, cyclically shifted, then padded,
                            regions apart (kernels/windows.h) */
    PATTERN_CAUSAL,      /* key j <= query i */
    PATTERN_LOCAL,       /* |i - j| <= reach (1-D) */
    PATTERN_AXIAL,       /* tokens of the same row, or the same column, of a grid_h x grid_w map */
    PATTERN_GLOBAL_LOCAL /* the first `globals` tokens see and are seen by all; the rest is
                            PATTERN_LOCAL */
};

/*
 * Multi-head attention: y[:, :, h] = softmax(score(q_h, k_h) + bias_h + mask) v_h for each head h.
 * q (B, Tq, H*D), k and v (B, Tk, H*D) may be column views of one packed (B, T, 3C); y (B, Tq,
 * H*D). Windows are an addressing mode: tokens stay in row-major order of the map in q, k, v and y.
 */
struct attention {
    int heads, head_dim; /* H, D */
    enum attention_score score;
    float scale;                     /* SCORE_DOT */
    const struct table *temperature; /* SCORE_COSINE: (H) */
    enum attention_pattern pattern;
    int grid_h, grid_w;     /* WINDOW, AXIAL: tokens = grid_h*grid_w; FULL: of the bias */
    int prefix;             /* FULL with a bias: tokens in front of the map, P */
    int window_h, window_w; /* WINDOW: Mh, Mw; N = Mh*Mw slots a window */
    int shift_h, shift_w;   /* WINDOW: the cyclic shift along each axis, 0 = none */
    int reach;              /* LOCAL, GLOBAL_LOCAL: to each side */
    int globals;            /* GLOBAL_LOCAL */
    float mask_value;       /* WINDOW: added to pairs of different regions (timm: -100) */
    const int *lengths;     /* host (B), valid keys of each image, or NULL = all */
    /*
     * Relative-position bias, entries by kernels/relative.h; NULL = none. WINDOW: (H,
     * (2Mh-1)*(2Mw-1)). FULL: keys are P prefix tokens and a grid_h x grid_w map, queries the first
     * Tq <= Tk of them; (H, (2*grid_h-1)*(2*grid_w-1) + E), E = 3 where P > 0, else 0.
     */
    const struct table *bias;
    /*
     * WINDOW: (2, H*D), the key and the value of a padding slot, which the projection makes of a
     * zero token (its bias); NULL = zeros.
     */
    const struct table *padding;
    /*
     * NULL, or an activation where the probabilities go: FULL and the 1-D patterns (B, H, Tq, Tk);
     * WINDOW (B, windows, H, N, N) in window order, rows of padding slots 0. Only then is anything
     * of size Tq*Tk stored.
     */
    const struct act *probs;
    /*
     * With probs alone; NULL, or where each query's greatest score goes, as the softmax saw it
     * (scaled, with bias and mask): FULL and the 1-D patterns (B, H, Tq); WINDOW (B, windows*H, N)
     * in window order, 0 for padding slots. -inf for a query that sees no key; what stands for a
     * row with NaN in it is undefined.
     */
    const struct act *greatest;
};
void op_attention(struct backend *be, const struct attention *desc, struct act q, struct act k,
                  struct act v, struct act y);

#ifdef __cplusplus
}
#endif
#endif
