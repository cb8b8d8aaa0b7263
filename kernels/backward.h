/*
 * backward: the gradients of the ops of ops.h by their inputs, for a class's relevance
 * (vit/vit_gradient.c, swin/swin_gradient.c). No gradient of a weight is computed.
 *
 * Of a scalar s, dy is ds/dy of an op's output, dx becomes ds/dx of its input. The ops keep the
 * rules of ops.h: views, no allocation that was not planned, sticky errors. x and what else a
 * forward pass has left may be of one image that stands for all of dy's: act_repeat. On a GPU only
 * op_linear_backward is there; the others are ST_DEVICE.
 *
 * B scalars (classes of an image, or images), T tokens, C channels.
 */
#ifndef KERNELS_BACKWARD_H
#define KERNELS_BACKWARD_H

#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One image as `batch` of them, for reading alone. */
struct act act_repeat(struct act a, int batch);

/* dx (B, T, in) = dy (B, T, out) W, then + residual when not NULL. The linear must be loaded so. */
void op_linear_backward(struct backend *be, const struct linear *linear, struct act dy,
                        const struct act *residual, struct act dx);

/*
 * Of y = norm(x): with z = (x - mean) / sqrt(variance + eps) and g = dy * weight of a run,
 * dx = (g - mean(g) - z mean(g z)) / sqrt(variance + eps), then + residual when not NULL; of an
 * RMSNorm without mean(g). dx may be dy or the residual.
 */
void op_layernorm_backward(struct backend *be, const struct norm *norm, struct act x, struct act dy,
                           const struct act *residual, struct act dx);

/*
 * Of y = f(x), the activation that op_linear applies as an epilogue: dx = dy f'(x); dx may be dy.
 * SwiGLU: x and dx (B, T, 2F) are [a, b], dy (B, T, F), and dx is other memory.
 */
void op_activation_backward(struct backend *be, enum epilogue epilogue, struct act x, struct act dy,
                            struct act dx);

struct attention_gradients {
    struct act q, k, v; /* as op_attention had them; desc->probs as it left them */
    struct act dy;      /* (B, Tq, H*D) */
    struct act dq;      /* (B, Tq, H*D) */
    struct act dk, dv;  /* (B, Tk, H*D) */
    struct act dprobs;  /* (B, ..., Tk) like desc->probs: ds/dP, as if every P were free */
};
/*
 * Of P = softmax(S), y = P v for each head: dP = dy v^T, dv = P^T dy,
 * dS = P (dP - sum over keys of P dP), dq = scale dS k, dk = scale dS^T q; of SCORE_COSINE with
 * the temperature for the scale, then through x / max(|x|, 1e-12) of q and k. Padding slots of
 * windows get and give nothing; rows of dprobs that they stand for are 0. PATTERN_FULL and
 * PATTERN_WINDOW; a bias is a constant. dq, dk, dv may be columns of one activation.
 */
void op_attention_backward(struct backend *be, const struct attention *desc,
                           const struct attention_gradients *gradients);

/* Of op_patch_merge without its norm: dx (B, h*w, C) takes its part of dy (B, T', 4C). */
void op_patch_merge_backward(struct backend *be, struct act dy, int grid_h, int grid_w,
                             struct act dx);

/* Of op_mean: dx (B, T, C) = dy (B, 1, C) / T. */
void op_mean_backward(struct backend *be, struct act dy, struct act dx);

/*
 * out = max(0, probs * dprobs), each (B, ..., Tk) as in attention_gradients: what of an attention
 * spoke for s (Chefer et al. 2021, equation 5, before the mean over heads). out may be dprobs.
 */
void op_relevance(struct backend *be, struct act probs, struct act dprobs, struct act out);

#ifdef __cplusplus
}
#endif
#endif
