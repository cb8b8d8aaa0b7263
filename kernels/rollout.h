/*
 * rollout: how much of each patch is in what a token holds at the end, by attention rollout (Abnar
 * and Zuidema 2020), exact for windows and hierarchies too.
 *
 * A row vector r over the tokens is walked backward through a list of steps:
 *
 *   attention   r <- r M,  M = (a I + (1-a) A), its rows divided by their sums
 *   merging     each of the up to four patches that became one gets an equal share of its r
 *
 * A (T, T) is a layer's probabilities, fused over its heads, with the smallest share of each row
 * zeroed. Only a row is walked: O(N) for N probabilities, no product of matrices. Windows are
 * looked up slot by slot with the block's own shift; a query attends to nothing outside its own.
 * Padding holds no picture: its slots' columns are left out before the rows are divided by their
 * sums, and a patch beyond an odd border gets no share. So every M is stochastic, r keeps its sum,
 * and equals the row of the dense product of the M. (Of relevances: M = I + A, and r grows.)
 *
 * On the host, called by tools/ with the steps that vit/vit_rollout.c or swin/swin_rollout.c list.
 */
#ifndef KERNELS_ROLLOUT_H
#define KERNELS_ROLLOUT_H

#include "kernels/capture.h"

enum head_fusion { FUSE_MEAN, FUSE_MAX, FUSE_MIN };

/*
 * fused (W, queries, keys) = mean, greatest or smallest over `count` heads of an image's probs (W,
 * H, queries, keys). heads NULL: all H, `count` is not looked at.
 */
void rollout_fuse(const struct attention_shape *shape, const float *probs, enum head_fusion fusion,
                  const int *heads, int count, float *fused);

/* The same of one row: fused (keys), of a window's query. */
void rollout_fuse_row(const struct attention_shape *shape, const float *probs,
                      enum head_fusion fusion, const int *heads, int count, int window, int query,
                      float *fused);

struct rollout_step {
    int layer;                    /* whose attention; -1: a patch merging */
    struct attention_shape shape; /* of a merging only the map counts: the finer one */
    const float *fused;           /* (W, queries, keys); NULL: this attention is left out, M = I */
};

struct rollout_rule {
    double residual; /* a, 0 to 1 */
    double discard;  /* R < 1: of each row's n entries (its own window's without padding), the
                        floor(R n) smallest are zeroed, of equal ones those in front in
                        the window */
    bool keep_first; /* never the first column, the class token's */
    bool relevance;  /* M = I + A as it is, not divided by its rows' sums (Chefer et al. 2021,
                        equation 6): `fused` are relevances, a is not looked at */
};

/* The greatest number of tokens of any step. */
int rollout_tokens(const struct rollout_step *steps, int count);

/* A walk's own room, for the steps that it was made for. */
struct rollout_work {
    double *next;         /* (most tokens or slots) */
    int *token;           /* the same */
    float *kept, *sorted; /* the same */
};
enum status rollout_work_init(struct rollout_work *work, const struct rollout_step *steps,
                              int count) MUST_CHECK;
void rollout_work_release(struct rollout_work *work); /* works on a zeroed struct, and twice */

/*
 * row: on entry (T behind the last step), on return (T in front of the first); it has room for
 * rollout_tokens. Where a step's queries are the first tokens alone, the others must be 0.
 */
void rollout_walk(const struct rollout_step *steps, int count, const struct rollout_rule *rule,
                  struct rollout_work *work, double *row);

/*
 * Where a walk starts, row (T): every patch alike; the patch under a point, as shares of the
 * picture's height and width in [0, 1).
 */
void rollout_start_mean(const struct attention_shape *shape, double *row);
void rollout_start_patch(const struct attention_shape *shape, double y, double x, double *row);

/*
 * map (grid_h, grid_w) = the patches of row (T), divided by their sum: the prefix tokens' share is
 * left out. False when no patch has any. What is not finite in the probabilities stays so to here.
 */
bool rollout_map(const struct attention_shape *shape, const double *row, float *map);

#endif
