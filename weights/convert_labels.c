/*
 * convert_labels: the classes' names from id2label of transformers' config.json, where it says more
 * than "LABEL_0". They are written unless --labels gives others.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG CONVERT_CONFIG_FILE

/* The name of class i; NULL when there is none. */
static const char *name_of(const cJSON *names, int i) {
    char key[16];
    snprintf(key, sizeof key, "%d", i);
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(names, key));
}

/* What save_pretrained writes when nobody named the classes. */
static bool unnamed(const char *name, int i) {
    char text[24];
    snprintf(text, sizeof text, "LABEL_%d", i);
    return name && strcmp(name, text) == 0;
}

enum status plan_labels(struct plan *plan) {
    const cJSON *names = cJSON_GetObjectItemCaseSensitive(plan->config, "id2label"), *item;
    struct conversion *out = plan->out;
    int count = 0;
    if (plan->transformers_config && names && !cJSON_IsNull(names) && !cJSON_IsObject(names) &&
        !plan->options->label_count)
        return fail(ST_FORMAT, CONFIG ": id2label is no object of names: give --labels");
    if (!plan->transformers_config || !cJSON_IsObject(names) || out->classes == 0 ||
        plan->options->label_count)
        return ST_OK;
    const cJSON *by_index = names->child; /* usually in order: no search for every class */
    cJSON_ArrayForEach(item, names) count++;
    if (count != out->classes)
        return fail(ST_FORMAT,
                    CONFIG ": id2label names %d classes, the tensors have %d: give "
                           "--labels",
                    count, out->classes);
    if (unnamed(name_of(names, 0), 0)) return ST_OK;
    out->label_names = mem_zalloc((size_t)count, sizeof *out->label_names);
    if (!out->label_names) return ST_NOMEM;
    for (int i = 0; i < count; i++, by_index = by_index ? by_index->next : NULL) {
        long index = -1;
        const bool here = by_index && by_index->string &&
                          parse_long(by_index->string, 0, count, &index) && index == i;
        const char *name = here ? cJSON_GetStringValue(by_index) : name_of(names, i);
        if (!name || !utf8_is_line(name))
            return fail(ST_FORMAT, CONFIG ": id2label has no name of one line for class %d", i);
        if (!(out->label_names[i] = str_copy(name))) return ST_NOMEM;
        out->label_count = i + 1;
    }
    return plan_note(plan, "labels_from", CONFIG);
}
