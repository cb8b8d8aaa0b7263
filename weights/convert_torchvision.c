/*
 * convert_torchvision: the weights that torchvision publishes for its ViTs and Swins, and how each
 * prepares pictures (the transforms of the weights enums in torchvision/models/
 * vision_transformer.py and swin_transformer.py). Files do not say which weights they are; sizes
 * tell all but two at 224 pixels: those fine-tuned from SWAG have "swag" in the name of their file.
 */
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

static const struct published {
    const char *name;
    int version;           /* 0: a ViT; else of Swin */
    int dim, depth, patch; /* depth of a Swin: of stage 2 */
    int image, resize;
    const char *interpolation;
    bool swag;
} published[] = {
    {"vit_b_16", 0, 768, 12, 16, 224, 256, "bilinear", false},
    {"vit_b_16", 0, 768, 12, 16, 224, 224, "bicubic", true},
    {"vit_b_16", 0, 768, 12, 16, 384, 384, "bicubic", true},
    {"vit_b_32", 0, 768, 12, 32, 224, 256, "bilinear", false},
    {"vit_l_16", 0, 1024, 24, 16, 224, 242, "bilinear", false},
    {"vit_l_16", 0, 1024, 24, 16, 224, 224, "bicubic", true},
    {"vit_l_16", 0, 1024, 24, 16, 512, 512, "bicubic", true},
    {"vit_l_32", 0, 1024, 24, 32, 224, 256, "bilinear", false},
    {"vit_h_14", 0, 1280, 32, 14, 224, 224, "bicubic", true},
    {"vit_h_14", 0, 1280, 32, 14, 518, 518, "bicubic", true},
    {"swin_t", 1, 96, 6, 4, 224, 232, "bicubic", false},
    {"swin_s", 1, 96, 18, 4, 224, 246, "bicubic", false},
    {"swin_b", 1, 128, 18, 4, 224, 238, "bicubic", false},
    {"swin_v2_t", 2, 96, 6, 4, 256, 260, "bicubic", false},
    {"swin_v2_s", 2, 96, 18, 4, 256, 260, "bicubic", false},
    {"swin_v2_b", 2, 128, 18, 4, 256, 272, "bicubic", false},
};

static bool sizes_agree(const struct plan *plan, const struct published *p) {
    const struct vit_config *v = &plan->out->vit;
    const struct swin_config *s = &plan->out->swin;
    if (plan->out->image_h != p->image || plan->out->image_w != p->image) return false;
    if (plan->origin->family == NAMES_VIT)
        return p->version == 0 && v->dim == p->dim && v->depth == p->depth &&
               v->patch_h == p->patch && v->patch_w == p->patch;
    return p->version == s->version && s->stages == 4 && s->dim == p->dim &&
           s->depths[2] == p->depth && s->patch_h == p->patch && s->patch_w == p->patch;
}

const char *plan_torchvision(const struct plan *plan, struct preprocess_spec *out) {
    static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
    const char *path = plan->checkpoint->weights_path, *slash = strrchr(path, '/');
    const bool swag = strstr(slash ? slash : path, "swag") != NULL;
    const struct published *found = NULL;
    if (plan->origin->kind != ORIGIN_TORCHVISION) return NULL;
    for (size_t i = 0; i < COUNT_OF(published); i++) {
        if (!sizes_agree(plan, &published[i])) continue;
        if (!found || published[i].swag == swag) found = &published[i];
    }
    if (!found || !out) return found ? found->name : NULL;
    *out = (struct preprocess_spec){.height = found->image, .width = found->image};
    if (!plan_crop_share(found->image, found->resize, &out->crop_pct)) return NULL;
    snprintf(out->crop_mode, sizeof out->crop_mode, "center");
    snprintf(out->interpolation, sizeof out->interpolation, "%s", found->interpolation);
    snprintf(out->crop_rounding, sizeof out->crop_rounding, "%s", plan->origin->crop_rounding);
    memcpy(out->mean, mean, sizeof mean);
    memcpy(out->std, std, sizeof std);
    return found->name;
}
