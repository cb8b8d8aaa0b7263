/* class_list: see class_list.h. */
#include "tools/class_list.h"

#include <string.h>

/* The class of that number, id or name; -1 = none. Of equal names the first. */
static int find_class(const char *text, const struct model *model) {
    long number;
    if (parse_long(text, 0, model->classes - 1, &number)) return (int)number;
    for (int i = 0; i < model->labels.count; i++)
        if (strcmp(model->labels.id[i], text) == 0) return i;
    for (int i = 0; i < model->labels.count; i++)
        if (strcmp(model->labels.name[i], text) == 0) return i;
    return -1;
}

/* "top" or "topN". */
static bool find_top(const char *text, const struct model *model, struct class_list *out) {
    const int most = model->classes < CLASS_LIST ? model->classes : CLASS_LIST;
    long count = 1;
    if (strncmp(text, "top", 3) != 0 || (text[3] && !parse_long(text + 3, 1, most, &count)))
        return false;
    *out = (struct class_list){.count = (int)count, .top = true};
    return true;
}

static enum status add(const char *text, const struct model *model, struct class_list *out) {
    const int number = find_class(text, model);
    if (number < 0)
        return fail(ST_USAGE,
                    "option --class %s: no number, id or name of a class; the model has classes "
                    "0 to %d",
                    text, model->classes - 1);
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
    *out = (struct class_list){0};
    if (model->classes < 1)
        return fail(ST_USAGE, "option --class %s: the model has no classes", text);
    if (find_class(text, model) >= 0) return add(text, model, out);
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
