/* model_attention: what the attention of either family is of; the other half of model.h's door. */
#include "tools/model.h"

#include <stdio.h>

static const struct vit *vit_of(const struct model *model) {
    return &model->replicas->vit;
}

static const struct swin *swin_of(const struct model *model) {
    return &model->replicas->swin;
}

int model_attention_layers(const struct model *model) {
    return model->family == MODEL_SWIN ? swin_of(model)->depth
                                       : vit_attention_layers(vit_of(model));
}

struct attention_shape model_attention_shape(const struct model *model, int layer, bool head_rows) {
    return model->family == MODEL_SWIN ? swin_attention_shape(swin_of(model), layer)
                                       : vit_attention_shape(vit_of(model), layer, head_rows);
}

int model_rollout_count(const struct model *model) {
    return model->family == MODEL_SWIN ? swin_rollout_count(swin_of(model)) : model->depth;
}

void model_rollout_steps(const struct model *model, bool head_rows, struct rollout_step *steps) {
    if (model->family == MODEL_SWIN)
        swin_rollout_steps(swin_of(model), steps);
    else
        vit_rollout_steps(vit_of(model), head_rows, steps);
}

void model_head_row(const struct model *model, double *row) {
    const struct attention_shape shape = model_attention_shape(model, model->depth - 1, false);
    if (model->family == MODEL_SWIN)
        rollout_start_mean(&shape, row);
    else
        vit_head_row(vit_of(model), row);
}

void model_token_name(const struct model *model, int i, char *name, size_t size) {
    const struct vit_config *config = &vit_of(model)->config;
    const int distillation = config->class_token ? 1 : 0;
    const int first = distillation + (config->dist_token ? 1 : 0);
    if (i >= first)
        snprintf(name, size, "register %d", i - first);
    else
        snprintf(name, size, "%s token", i == distillation ? "distillation" : "class");
}

int model_layer_stage(const struct model *model, int layer) {
    return model->family == MODEL_SWIN ? swin_layer_stage(&swin_of(model)->config, layer) : 0;
}
