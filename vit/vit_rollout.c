/*
 * vit_rollout: what the attention of a ViT is of, for kernels/rollout.c and whoever shows it. Host
 * only, called by tools/model_attention.c.
 */
#include <string.h>

#include "vit/vit.h"

struct attention_shape vit_attention_shape(const struct vit *vit, int layer, bool head_rows) {
    const struct vit_config *config = &vit->config;
    const bool pool = layer == config->depth;
    struct attention_shape shape =
        attention_shape_full(config->heads, pool ? 0 : vit->prefix, vit->grid_h, vit->grid_w);
    if (pool)
        shape.queries = 1;
    else if (head_rows && layer == config->depth - 1 && config->pool == POOL_TOKEN)
        shape.queries = config->dist_token ? 2 : 1;
    return shape;
}

int vit_attention_layers(const struct vit *vit) {
    return vit->config.depth + (vit->config.pool == POOL_MAP);
}

void vit_rollout_steps(const struct vit *vit, bool head_rows, struct rollout_step *steps) {
    for (int l = 0; l < vit->config.depth; l++)
        steps[l] =
            (struct rollout_step){.layer = l, .shape = vit_attention_shape(vit, l, head_rows)};
}

void vit_head_row(const struct vit *vit, double *row) {
    const struct vit_config *config = &vit->config;
    const struct attention_shape shape = vit_attention_shape(vit, 0, false);
    const int tokens = config->dist_token ? 2 : 1;
    if (config->pool != POOL_TOKEN && !(config->pool == POOL_NONE && config->class_token)) {
        rollout_start_mean(&shape, row);
        return;
    }
    memset(row, 0, (size_t)vit->tokens * sizeof *row);
    for (int t = 0; t < tokens; t++)
        row[t] = 1.0 / tokens;
}
