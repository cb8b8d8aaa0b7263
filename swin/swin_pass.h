/* swin_pass: what the forward and the backward pass of a Swin have in common. */
#ifndef SWIN_SWIN_PASS_H
#define SWIN_SWIN_PASS_H

#include "swin/swin.h"

/* The windowed attention of block `layer`, counted over all stages. */
struct attention swin_attention(const struct swin *swin, int layer);
enum epilogue swin_hidden_epilogue(const struct swin_config *config);

#endif
