/*
 * swin_rollout: what the attention of a Swin is of, for kernels/rollout.c and whoever shows it.
 * Host only, called by tools/model_attention.c.
 */
#include "swin/swin.h"

struct attention_shape swin_attention_shape(const struct swin *swin, int layer) {
    const int s = swin_layer_stage(&swin->config, layer);
    const struct swin_map *map = &swin->stages[s].map;
    const int b = layer - (int)(swin->stages[s].blocks - swin->blocks);
    const struct window_grid grid = {.grid_h = map->h,
                                     .grid_w = map->w,
                                     .window_h = map->window_h,
                                     .window_w = map->window_w,
                                     .shift_h = b % 2 ? map->shift_h : 0,
                                     .shift_w = b % 2 ? map->shift_w : 0};
    return attention_shape_windows(swin->stages[s].heads, &grid);
}

int swin_rollout_count(const struct swin *swin) {
    return swin->depth + swin->config.stages - 1;
}

void swin_rollout_steps(const struct swin *swin, struct rollout_step *steps) {
    int layer = 0;
    for (int s = 0; s < swin->config.stages; s++) {
        for (int b = 0; b < swin->stages[s].depth; b++, layer++)
            *steps++ =
                (struct rollout_step){.layer = layer, .shape = swin_attention_shape(swin, layer)};
        if (s < swin->config.stages - 1) {
            *steps = (struct rollout_step){.layer = -1};
            steps++->shape.map = (struct window_grid){.grid_h = swin->stages[s].map.h,
                                                      .grid_w = swin->stages[s].map.w};
        }
    }
}
