/*
 * convert_files: config.json and preprocessor_config.json beside the weights: what is read from
 * them in the same way for every family.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG CONVERT_CONFIG_FILE

enum status plan_parse_files(struct plan *plan) {
    const struct checkpoint *c = plan->checkpoint;
    if (c->config_json)
        TRY(json_parse(c->config_json, strlen(c->config_json), CONFIG, &plan->config));
    if (c->converter_json)
        TRY(json_parse(c->converter_json, strlen(c->converter_json), CONVERT_KERAS_CONVERTER,
                       &plan->processor));
    else if (c->preprocessor_json)
        TRY(json_parse(c->preprocessor_json, strlen(c->preprocessor_json),
                       "preprocessor_config.json", &plan->processor));
    if (c->backbone_json)
        TRY(json_parse(c->backbone_json, strlen(c->backbone_json), CONFIG, &plan->backbone));
    bool timm = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(plan->config, "architecture")) ||
                cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(plan->config, "model_args"));
    bool hub = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(plan->config, "model_type"));
    plan->timm_config = timm && plan->origin->kind == ORIGIN_PLAIN;
    plan->transformers_config = hub && plan->origin->kind == ORIGIN_TRANSFORMERS;
    return ST_OK;
}

const char *plan_config_class(const struct plan *plan) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(plan->config, "architectures");
    return plan->transformers_config ? cJSON_GetStringValue(cJSON_GetArrayItem(list, 0)) : NULL;
}

enum status plan_claim_number(struct plan *plan, const cJSON *object, const char *key,
                              int tensors) {
    int value = -1;
    TRY(json_int(object, CONFIG, key, 0, (int)CONVERT_MAX_DIM, &value));
    if (value >= 0 && value != tensors)
        problems_add(&plan->problems, CONFIG ": %s says %d, the tensors %d", key, value, tensors);
    return ST_OK;
}

void plan_claim_head(struct plan *plan) {
    const char *class = plan_config_class(plan);
    if (plan->options->arch || plan->out->classes) return;
    if (!class) class = plan->checkpoint->classifier;
    if (class && (class == plan->checkpoint->classifier || strstr(class, "ForImageClassification")))
        problems_add(&plan->problems,
                     "the classifier's weight and bias are missing, which %.60s has", class);
}

static enum status activation_word(const char *word, const char *from, enum vit_activation *out) {
    static const struct {
        const char *word;
        enum vit_activation activation;
    } words[] = {{"gelu", ACT_GELU},
                 {"gelu_tanh", ACT_GELU_TANH},
                 {"gelu_new", ACT_GELU_TANH},
                 {"gelu_pytorch_tanh", ACT_GELU_TANH},
                 {"quick_gelu", ACT_QUICK_GELU},
                 {"quickgelu", ACT_QUICK_GELU}};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(words[i].word, word) != 0) continue;
        *out = words[i].activation;
        return ST_OK;
    }
    return fail(ST_USAGE, "%s says activation '%.40s'; vitrine runs gelu, gelu_tanh and quick_gelu",
                from, word);
}

enum status plan_activation(const struct plan *plan, const char *word, enum vit_activation *out) {
    if (plan->options->activation)
        return activation_word(plan->options->activation, "--activation", out);
    return word ? activation_word(word, CONFIG, out) : ST_OK;
}

enum status plan_timm_settings(struct plan *plan, const char *const *known, size_t count,
                               const char **pool, const char **act) {
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    const cJSON *pretrained = cJSON_GetObjectItemCaseSensitive(plan->config, "pretrained_cfg");
    const char *license = NULL;
    TRY(json_word(plan->config, CONFIG, "global_pool", pool));
    TRY(json_word(args, CONFIG, "global_pool", pool));
    TRY(json_word(args, CONFIG, "act_layer", act));
    for (const cJSON *arg = args ? args->child : NULL; arg; arg = arg->next) {
        size_t i = 0;
        while (arg->string && i < count && strcmp(known[i], arg->string) != 0)
            i++;
        if (!arg->string || i == count)
            return fail(ST_FORMAT, CONFIG ": model_args has %.60s, which vitrine does not know",
                        arg->string ? arg->string : "a value without name");
    }
    TRY(json_word(pretrained, CONFIG, "license", &license));
    if (license && !(plan->out->info.license = str_printable(license))) return ST_NOMEM;
    return ST_OK;
}

enum status plan_candidate_size(struct plan *plan, int which, int *height, int *width) {
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(plan->config, "model_args");
    const cJSON *size = NULL;
    if (which == 0) return plan_input_size(plan, height, width);
    if (which == 1) size = cJSON_GetObjectItemCaseSensitive(args, "img_size");
    if (which == 2) size = cJSON_GetObjectItemCaseSensitive(plan->config, "image_size");
    if (which == 3)
        size = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(plan->config, "pretrained_cfg"), "input_size");
    if (which == 4 && plan->arch) *height = *width = plan->arch->image;
    if (cJSON_IsNumber(size) && size->valuedouble > 0 && size->valuedouble < 65536)
        *height = *width = (int)size->valuedouble;
    if (!cJSON_IsArray(size) || cJSON_GetArraySize(size) < 2) return ST_OK;
    const cJSON *h = cJSON_GetArrayItem(size, cJSON_GetArraySize(size) - 2), *w = h->next;
    if (cJSON_IsNumber(h) && cJSON_IsNumber(w) && h->valuedouble > 0 && h->valuedouble < 65536 &&
        w->valuedouble > 0 && w->valuedouble < 65536) {
        *height = (int)h->valuedouble;
        *width = (int)w->valuedouble;
    }
    return ST_OK;
}
