/*
 * windows: the integers of windowed attention (Swin): which token lies in which slot of which
 * window, which slots share a region. No activation is touched here; kernels use these numbers as
 * addresses. Which entry of a bias table a pair of slots takes: relative.h.
 *
 * A grid_h x grid_w map is shifted cyclically by (shift_h, shift_w), then padded behind to whole
 * windows of window_h x window_w slots: slot (y, x) of the padded map holds the token
 * ((y + shift_h) % grid_h, (x + shift_w) % grid_w), or padding where y >= grid_h or x >= grid_w.
 * Windows and the slots of a window are numbered row-major.
 */
#ifndef KERNELS_WINDOWS_H
#define KERNELS_WINDOWS_H

#include "kernels/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct window_grid {
    int grid_h, grid_w;
    int window_h, window_w; /* Mh, Mw >= 1 */
    int shift_h, shift_w;   /* 0 <= shift < window */
};

static inline int window_count(const struct window_grid *g) {
    return (g->grid_h + g->window_h - 1) / g->window_h *
           ((g->grid_w + g->window_w - 1) / g->window_w);
}

/* N */
static inline int window_slots(const struct window_grid *g) {
    return g->window_h * g->window_w;
}

/* token (N): the row-major token of each slot of a window, -1 where the slot is padding. */
void window_tokens(const struct window_grid *g, int window, int *token);

/*
 * region (N): 0 to 8, equal where two slots may see each other without the mask. Along an axis with
 * a shift s > 0 and a padded length P the borders are at P - M and P - s (Swin Transformer, section
 * 3.2; timm's get_attn_mask); without shift there is one region. Returns whether the window holds
 * more than one.
 */
bool window_regions(const struct window_grid *g, int window, int *region);

#ifdef __cplusplus
}
#endif
#endif
