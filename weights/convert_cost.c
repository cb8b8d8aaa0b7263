/*
 * convert_cost: what one picture of the model's size costs, so that a size given by mistake is
 * refused before the self-test (one picture in fp32 on the CPU) runs for hours.
 */
#include "weights/convert_plan.h"

#define TOKENS_MOST  1048576.0 /* of the finest map: 4096x4096 pixels in patches of 4 */
#define PRODUCT_MOST 1e13      /* multiply-adds: ViT-B/16 at 2048x2048 has 6e12 */

/* Of all blocks: each token meets the parameters, and queries and values `keys` others. */
static double vit_products(const struct conversion *c, double tokens) {
    const struct vit_config *v = &c->vit;
    return tokens * ((double)c->parameters + 2 * tokens * v->dim * v->depth);
}

/* Tokens are a quarter with every stage, channels twice as many. */
static double swin_products(const struct conversion *c, double tokens) {
    const struct swin_config *s = &c->swin;
    double sum = 0;
    for (int i = 0; i < s->stages; i++, tokens /= 4) {
        const double dim = (double)(s->dim << i), keys = (double)s->window[i] * s->window[i];
        sum += tokens * s->depths[i] * (4 * dim * dim + 2 * dim * s->hidden[i] + 2 * keys * dim);
    }
    return sum;
}

enum status plan_check_cost(const struct plan *plan) {
    const struct conversion *c = plan->out;
    const bool vit = c->family == &convert_vit;
    const int patch_h = vit ? c->vit.patch_h : c->swin.patch_h;
    const int patch_w = vit ? c->vit.patch_w : c->swin.patch_w;
    const int height = c->preprocess.height, width = c->preprocess.width;
    const double tokens = (double)(height / patch_h) * (width / patch_w);
    const double products = vit ? vit_products(c, tokens) : swin_products(c, tokens);
    int asked_h = 0, asked_w = 0;
    TRY(plan_input_size(plan, &asked_h, &asked_w));
    if (height % patch_h != 0 || width % patch_w != 0)
        return fail(asked_h ? ST_USAGE : ST_FORMAT,
                    "%s: pictures of %dx%d%s are no multiple of the patch, %dx%d",
                    plan->checkpoint->weights_path, height, width,
                    asked_h ? " (--preprocess input_size)" : "", patch_h, patch_w);
    if (!vit) TRY(swin_config_check_size(&c->swin, height, width, plan->checkpoint->weights_path));
    if (tokens <= TOKENS_MOST && products <= PRODUCT_MOST) return ST_OK;
    return fail(asked_h ? ST_USAGE : ST_FORMAT,
                "%s: pictures of %dx%d are %.0f patches and %.2g multiply-adds each, want at most "
                "%.0f and %g%s",
                plan->checkpoint->weights_path, height, width, tokens, products, TOKENS_MOST,
                PRODUCT_MOST, asked_h ? " (--preprocess input_size)" : "");
}
