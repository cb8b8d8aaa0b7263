/* vit_pass: what the forward and the backward pass of a ViT have in common. */
#ifndef VIT_VIT_PASS_H
#define VIT_VIT_PASS_H

#include "vit/vit.h"

/* The attention of block `layer`, or, L, of the pool. */
struct attention vit_attention(const struct vit *vit, int layer);
/* Of a block's MLP, or the pool's. */
enum epilogue vit_hidden_epilogue(const struct vit *vit, bool pool);
/* The rows of x (B, T, C) that the head reads: class (and distillation) token, or the patches. */
struct act vit_head_rows(const struct vit *vit, struct act x);

#endif
