/* class_list: see class_list.h. */
#include "tools/class_list.h"

#include <string.h>

/* The first of texts (count) that is `text`, -1 = none; *twin = the second, or -1. */
static int find_text(char *const *texts, int count, const char *text, int *twin) {
    int found = -1;
    *twin = -1;
    for (int i = 0; i < count && *twin < 0; i++)
        if (strcmp(texts[i], text) == 0) *(found < 0 ? &found : twin) = i;
    return found;
}

/* The class of that number, id or name; -1 = none. *twin = another of that id or name, or -1. */
static int find_class(const char *text, const struct model *model, int *twin) {
    const struct labels *labels = &model->labels;
    long number;
    int found;
    *twin = -1;
    if (parse_long(text, 0, model->classes - 1, &number)) return (int)number;
    found = find_text(labels->id, labels->count, text, twin);
    return found < 0 ? find_text(labels->name, labels->count, text, twin) : found;
}

/* The greatest N of topN. */
static int most(const struct model *model) {
    return model->classes < CLASS_LIST ? model->classes : CLASS_LIST;
}

/* "top" or "topN". */
static bool find_top(const char *text, const struct model *model, struct class_list *out) {
    long count = 1;
    if (strncmp(text, "top", 3) != 0 || (text[3] && !parse_long(text + 3, 1, most(model), &count)))
        return false;
    *out = (struct class_list){.count = (int)count, .top = true};
    return true;
}

static enum status add(const char *text, const struct model *model, struct class_list *out) {
    int twin;
    const int number = find_class(text, model, &twin);
    if (number < 0)
        return fail(ST_USAGE,
                    "option --class: '%s' is no number, id or name of a class; the model has "
                    "classes 0 to %d; alone, top1 to top%d are the most likely",
                    text, model->classes - 1, most(model));
    if (twin >= 0)
        return fail(ST_USAGE, "option --class %s: classes %d and %d have that name, say the number",
                    text, number, twin);
    for (int i = 0; i < out->count; i++)
        if (out->number[i] == number)
            return fail(ST_USAGE, "option --class %s: class %d is there twice", text, number);
    if (out->count == CLASS_LIST)
        return fail(ST_USAGE, "option --class: more than %d classes", CLASS_LIST);
    out->number[out->count++] = number;
    return ST_OK;
}

enum status class_list_find(const char *text, const struct model *model, struct class_list *out) {
    char *copy;
    enum status st = ST_OK;
    int twin;
    *out = (struct class_list){0};
    if (model->classes < 1)
        return fail(ST_USAGE, "option --class %s: the model has no classes", text);
    if (find_class(text, model, &twin) >= 0) return add(text, model, out);
    if (find_top(text, model, out)) return ST_OK;
    copy = str_copy(text);
    if (!copy) return ST_NOMEM;
    for (char *at = copy, *comma; st == ST_OK && at; at = comma) {
        comma = strchr(at, ',');
        if (comma) *comma++ = 0;
        st = add(at, model, out);
    }
    mem_free(copy);
    return st;
}

void class_list_of(const struct class_list *list, const float *logits, int classes, int *out) {
    if (list->top)
        top_k(logits, classes, list->count, out);
    else
        memcpy(out, list->number, (size_t)list->count * sizeof *out);
}
