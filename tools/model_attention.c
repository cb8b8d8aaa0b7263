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

/* ---- gradients ------------------------------------------------------------------------------- */

enum status model_gradient_open(struct model_gradient *out, struct model *model, int classes) {
    struct model_replica *replica = model->replicas;
    enum status st;
    *out = (struct model_gradient){.model = model};
    st = model->family == MODEL_SWIN ? swin_gradient_open(&out->swin, &replica->swin, classes)
                                     : vit_gradient_open(&out->vit, &replica->vit, classes);
    if (st != ST_OK) {
        model_gradient_release(out);
        return st;
    }
    out->bytes = out->swin.bytes + out->vit.bytes + model->parameters * sizeof(float);
    return ST_OK;
}

void model_gradient_release(struct model_gradient *gradient) {
    vit_gradient_release(&gradient->vit);
    swin_gradient_release(&gradient->swin);
    *gradient = (struct model_gradient){0};
}

enum status model_gradient_run(struct model_gradient *gradient, const uint8_t *pixels,
                               const int *classes, int count, const struct capture *capture) {
    if (gradient->model->family == MODEL_SWIN)
        return swin_gradient_run(&gradient->swin, pixels, classes, count, capture);
    return vit_gradient_run(&gradient->vit, pixels, classes, count, capture);
}
