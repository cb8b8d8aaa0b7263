/*
 * convert_vit_claims: what a ViT's files say of the network, held against what its tensors are, so
 * that a checkpoint that lost a part does not become another model: config.json of transformers,
 * model_args of timm's, the backbone of keras_hub's, and the parts that every model of an origin
 * has. All contradictions are listed.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG CONVERT_CONFIG_FILE

static void claim_part(struct plan *plan, bool there, const char *what, const char *who) {
    if (!there) problems_add(&plan->problems, "%s is missing, which %s has", what, who);
}

/* A side, or (height, width), perhaps with 3 channels at either end, in patches -> *h, *w; 0: none.
 */
static enum status read_sides(const cJSON *object, const char *key, int *h, int *w) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key), *first, *second;
    const int count = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : 0;
    int front = 0;
    *h = *w = 0;
    if (!cJSON_IsArray(item)) {
        TRY(json_int(object, CONFIG, key, 1, 1 << 24, h));
        *w = *h;
        return ST_OK;
    }
    if (count == 3) {
        first = cJSON_GetArrayItem(item, 0);
        second = cJSON_GetArrayItem(item, 2);
        front = cJSON_IsNumber(first) && first->valuedouble == 3 &&
                !(cJSON_IsNumber(second) && second->valuedouble == 3);
    }
    first = cJSON_GetArrayItem(item, front);
    second = cJSON_GetArrayItem(item, front + (count > 1));
    if (count < 1 || count > 3 || !cJSON_IsNumber(first) || !cJSON_IsNumber(second) ||
        !(first->valuedouble >= 1 && first->valuedouble <= 1 << 24) ||
        !(second->valuedouble >= 1 && second->valuedouble <= 1 << 24))
        return fail(ST_FORMAT, CONFIG ": %s is neither a number nor (height, width)", key);
    *h = (int)first->valuedouble;
    *w = (int)second->valuedouble;
    return ST_OK;
}

static enum status claim_patch(struct plan *plan, const cJSON *object) {
    const struct vit_config *c = &plan->out->vit;
    int h, w;
    TRY(read_sides(object, "patch_size", &h, &w));
    if (h && (h != c->patch_h || w != c->patch_w))
        problems_add(&plan->problems, CONFIG ": patch_size says %dx%d, the tensors %dx%d", h, w,
                     c->patch_h, c->patch_w);
    return ST_OK;
}

/*
 * The positions of the tensors are those of the picture's size, in whole patches. A graph may have
 * been exported for another size, its positions resampled.
 */
static enum status claim_image(struct plan *plan, const cJSON *object, const char *key) {
    const struct vit_config *c = &plan->out->vit;
    int h, w;
    TRY(read_sides(object, key, &h, &w));
    if (!h || !c->positions || strcmp(plan->checkpoint->container, "ONNX") == 0) return ST_OK;
    if (h / c->patch_h != c->pos_grid_h || w / c->patch_w != c->pos_grid_w)
        problems_add(&plan->problems,
                     CONFIG ": %s says %dx%d, the positions are for %dx%d patches of %dx%d", key, h,
                     w, c->pos_grid_h, c->pos_grid_w, c->patch_h, c->patch_w);
    return ST_OK;
}

struct number {
    const char *key;
    int tensors;
};

static enum status claim_numbers(struct plan *plan, const cJSON *object,
                                 const struct number *numbers, size_t count) {
    for (size_t i = 0; i < count; i++)
        TRY(plan_claim_number(plan, object, numbers[i].key, numbers[i].tensors));
    return ST_OK;
}

struct word {
    const char *key;
    bool there;
    const char *what; /* in the tensors */
};

static enum status claim_words(struct plan *plan, const cJSON *object, const struct word *words,
                               size_t count) {
    for (size_t i = 0; i < count; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, words[i].key);
        if (!item || cJSON_IsNull(item)) continue;
        if (!cJSON_IsBool(item))
            return fail(ST_FORMAT, CONFIG ": %s is neither true nor false", words[i].key);
        if (cJSON_IsTrue(item) != words[i].there)
            problems_add(&plan->problems, CONFIG ": %s is %s, but %s %s", words[i].key,
                         cJSON_IsTrue(item) ? "true" : "false", words[i].what,
                         words[i].there ? "is there" : "is missing");
    }
    return ST_OK;
}

/* ---- transformers ---------------------------------------------------------------------------- */

/* int(C r), of SwiGLU two thirds of it in multiples of 8 (Dinov2SwiGLUFFN). */
static enum status claim_ratio(struct plan *plan, const cJSON *config) {
    const struct vit_config *c = &plan->out->vit;
    double ratio = 0;
    TRY(json_double(config, CONFIG, "mlp_ratio", 0.01, 1000, &ratio));
    int hidden = (int)(c->dim * ratio);
    if (c->swiglu) hidden = ((int)((double)hidden * 2 / 3) + 7) / 8 * 8;
    if (ratio > 0 && hidden != c->hidden)
        problems_add(&plan->problems,
                     CONFIG ": mlp_ratio %g makes hidden layers of %d, the tensors have %d", ratio,
                     hidden, c->hidden);
    return ST_OK;
}

static bool is_beit(const char *type) {
    return strcmp(type, "beit") == 0 || strcmp(type, "data2vec-vision") == 0;
}

static enum status claim_beit(struct plan *plan, const cJSON *config) {
    const struct vit_config *c = &plan->out->vit;
    const char *class = plan_config_class(plan);
    const bool pools =
        !class || strstr(class, "ForImageClassification") || strcmp(class, "BeitModel") == 0;
    double scale = -1;
    const struct word words[] = {
        {"use_relative_position_bias", c->positions == POSITIONS_RELATIVE,
         "a relative_position_bias_table of every block"},
        {"use_shared_relative_position_bias", c->positions == POSITIONS_RELATIVE_SHARED,
         "one relative_position_bias_table for all blocks"},
        {"use_absolute_position_embeddings", c->positions == POSITIONS_LEARNED,
         "embeddings.position_embeddings"},
        {"use_mean_pooling", c->fc_norm, "pooler.layernorm"},
    };
    /* What was trained on masks or for segmentation has no pooler, nor has Data2VecVisionModel. */
    TRY(claim_words(plan, config, words, COUNT_OF(words) - !pools));
    TRY(json_double(config, CONFIG, "layer_scale_init_value", 0, 1e6, &scale));
    if (scale >= 0 && (scale > 0) != c->layer_scale)
        problems_add(&plan->problems, CONFIG ": layer_scale_init_value is %g, but lambda_1 %s",
                     scale, c->layer_scale ? "is there" : "is missing");
    if (pools && !c->norm && !c->fc_norm)
        problems_add(&plan->problems, "neither layernorm nor pooler.layernorm is there");
    return ST_OK;
}

static enum status claim_transformers(struct plan *plan) {
    const struct vit_config *c = &plan->out->vit;
    const cJSON *config = plan->config;
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(config, "model_type"));
    const bool dino = strncmp(type, "dinov2", 6) == 0;
    const struct number numbers[] = {{"num_hidden_layers", c->depth},
                                     {"hidden_size", c->dim},
                                     {"num_register_tokens", c->registers},
                                     {"intermediate_size", c->hidden}};
    const struct word words[] = {
        {"use_swiglu_ffn", c->swiglu, "mlp.weights_in"},
        {"qkv_bias", c->qkv_bias, "the bias of queries, keys and values"},
    };
    TRY(claim_numbers(plan, config, numbers, COUNT_OF(numbers) - dino));
    TRY(claim_patch(plan, config));
    TRY(claim_image(plan, config, "image_size"));
    TRY(claim_words(plan, config, words, COUNT_OF(words)));
    if (dino) TRY(claim_ratio(plan, config));
    if (is_beit(type)) return claim_beit(plan, config);
    if (!cJSON_GetObjectItemCaseSensitive(config, "qkv_bias"))
        claim_part(plan, c->qkv_bias, "the bias of queries, keys and values", type);
    if (dino) claim_part(plan, c->layer_scale, "layer_scale1.lambda1", type);
    if (strcmp(type, "deit") == 0)
        claim_part(plan, c->dist_token, "embeddings.distillation_token", type);
    if (strcmp(type, "dinov2_with_registers") == 0)
        claim_part(plan, c->registers > 0, "embeddings.register_tokens", type);
    return ST_OK;
}

/* ---- timm ------------------------------------------------------------------------------------ */

static enum status claim_timm(struct plan *plan) {
    const struct vit_config *c = &plan->out->vit;
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    const bool own = cJSON_GetObjectItemCaseSensitive(args, "num_classes") != NULL;
    const struct number numbers[] = {
        {"embed_dim", c->dim}, {"depth", c->depth}, {"reg_tokens", c->registers}};
    const struct word words[] = {
        {"class_token", c->class_token, "cls_token"},
        {"qkv_bias", c->qkv_bias, "the bias of queries, keys and values"},
        {"pre_norm", c->pre_norm, "norm_pre"},
        {"fc_norm", c->fc_norm, "fc_norm"},
        {"use_abs_pos_emb", c->positions == POSITIONS_LEARNED, "pos_embed"},
        {"use_rel_pos_bias", c->positions == POSITIONS_RELATIVE,
         "a relative_position_bias_table of every block"},
        {"use_shared_rel_pos_bias", c->positions == POSITIONS_RELATIVE_SHARED,
         "one relative_position_bias_table for all blocks"},
    };
    TRY(claim_numbers(plan, args, numbers, COUNT_OF(numbers)));
    TRY(claim_patch(plan, args));
    TRY(claim_words(plan, args, words, COUNT_OF(words)));
    return plan_claim_number(plan, own ? args : plan->config, "num_classes", c->classes);
}

/* ---- keras_hub ------------------------------------------------------------------------------- */

static enum status claim_keras(struct plan *plan) {
    const struct vit_config *c = &plan->out->vit;
    const cJSON *config = plan->backbone;
    const struct number numbers[] = {{"num_layers", c->depth},
                                     {"num_heads", c->heads},
                                     {"hidden_dim", c->dim},
                                     {"mlp_dim", c->hidden}};
    const struct word words[] = {
        {"use_class_token", c->class_token, "the class token"},
        {"use_mha_bias", c->qkv_bias, "the bias of queries, keys and values"},
        {"use_patch_bias", c->patch_bias, "the bias of the patches"},
    };
    TRY(claim_numbers(plan, config, numbers, COUNT_OF(numbers)));
    TRY(claim_patch(plan, config));
    TRY(claim_image(plan, config, "image_shape"));
    return claim_words(plan, config, words, COUNT_OF(words));
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* What no model of the origin is without, whatever its files say. */
static void claim_parts(struct plan *plan, bool beit) {
    const struct vit_config *c = &plan->out->vit;
    const struct name_origin *origin = plan->origin;
    const bool fixed = origin != &names_timm, hub = origin->kind == ORIGIN_TRANSFORMERS;
    const bool class = hub || origin == &names_torchvision || origin == &names_vit_keras ||
                       origin == &names_vit_keras_3;
    const char *who = "every ViT of its origin";
    if (fixed) claim_part(plan, c->patch_bias, "the bias of the patches", who);
    if (class) claim_part(plan, c->class_token, "the class token", who);
    if (beit) return; /* of transformers: its config says which norm and positions */
    if (fixed) claim_part(plan, c->positions != POSITIONS_NONE, "the position embedding", who);
    if (fixed && !hub) claim_part(plan, c->qkv_bias, "the bias of queries, keys and values", who);
    claim_part(plan, c->norm || c->fc_norm, "the last norm", "every ViT");
}

enum status convert_vit_claims(struct plan *plan) {
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(plan->config, "model_type");
    claim_parts(plan, plan->transformers_config && is_beit(type->valuestring));
    if (plan->transformers_config && !plan->options->arch) TRY(claim_transformers(plan));
    if (plan->timm_config) TRY(claim_timm(plan));
    if (plan->backbone) TRY(claim_keras(plan));
    return plan_problems(plan);
}
