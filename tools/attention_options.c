/* attention_options: the options of `vitrine attention` that say which numbers, as text. */
#include <stdio.h>
#include <string.h>

#include "tools/attention.h"

const char *const attention_methods[] = {"rollout", "raw", "gradient", NULL};
static const char *const fusions[] = {"mean", "max", "min", NULL};
static const char *const queries[] = {"head", "cls", "mean", NULL, "all"}; /* enum's order */

struct attention_options attention_defaults(void) {
    return (struct attention_options){.residual = 0.5};
}

/* A number, or the two ends of "3-7". */
static bool parse_part(char *text, long *first, long *last) {
    char *dash = strchr(text, '-');
    if (dash) *dash++ = 0;
    return parse_long(text, 0, 9999, first) && parse_long(dash ? dash : text, *first, 9999, last);
}

/* "0,3,5-7", each number once. */
static bool parse_list(const char *value, struct attention_list *list) {
    char *copy = str_copy(value), *at = copy;
    bool good = copy != NULL, more = good;
    *list = (struct attention_list){0};
    while (good && more) {
        char *comma = strchr(at, ',');
        long first, last;
        more = comma != NULL;
        if (comma) *comma++ = 0;
        good = parse_part(at, &first, &last);
        for (long n = first; good && n <= last; n++) {
            good = list->count < ATTENTION_LIST;
            for (int i = 0; good && i < list->count; i++)
                good = list->value[i] != n;
            if (good) list->value[list->count++] = (int)n;
        }
        at = comma;
    }
    mem_free(copy);
    return good;
}

enum status attention_parse_layers(const char *value, void *field) {
    return parse_list(value, field) ? ST_OK : fail(ST_USAGE, "numbers from 0, each once: 0,3,8-11");
}

enum status attention_parse_heads(const char *value, void *field) {
    struct attention_heads heads = {.kind = HEADS_LIST};
    for (int f = 0; fusions[f]; f++)
        if (strcmp(value, fusions[f]) == 0)
            heads = (struct attention_heads){.kind = HEADS_FUSED, .fusion = (enum head_fusion)f};
    if (heads.kind == HEADS_LIST && !parse_list(value, &heads.list))
        return fail(ST_USAGE, "mean, max, min, or numbers from 0, each once: 0,3,8-11");
    *(struct attention_heads *)field = heads;
    return ST_OK;
}

enum status attention_parse_query(const char *value, void *field) {
    struct attention_focus focus = {.query = QUERY_PIXEL};
    char x[16] = "";
    const char *comma = strchr(value, ',');
    for (int q = 0; q <= QUERY_ALL; q++)
        if (queries[q] && strcmp(value, queries[q]) == 0) focus.query = (enum attention_query)q;
    if (comma) snprintf(x, sizeof x, "%.*s", (int)(comma - value), value);
    if (focus.query == QUERY_PIXEL &&
        (!comma || comma - value >= (int)sizeof x || !parse_double(x, 0, 1e9, &focus.x) ||
         !parse_double(comma + 1, 0, 1e9, &focus.y)))
        return fail(ST_USAGE, "head, cls, mean, all, or a pixel X,Y counted from 0");
    *(struct attention_focus *)field = focus;
    return ST_OK;
}

static void show_list(const struct attention_list *list, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < list->count && used + 1 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", list->value[i]);
}

void attention_show_layers(const void *field, char *text, size_t size) {
    const struct attention_list *list = field;
    snprintf(text, size, "all");
    if (list->count) show_list(list, text, size);
}

void attention_show_heads(const void *field, char *text, size_t size) {
    const struct attention_heads *heads = field;
    if (heads->kind == HEADS_LIST)
        show_list(&heads->list, text, size);
    else
        snprintf(text, size, "%s",
                 heads->kind == HEADS_FUSED ? fusions[heads->fusion]
                                            : "each for raw, else their mean");
}

void attention_show_query(const void *field, char *text, size_t size) {
    const struct attention_focus *focus = field;
    if (focus->query == QUERY_PIXEL)
        snprintf(text, size, "%g,%g", focus->x, focus->y);
    else
        snprintf(text, size, "%s", queries[focus->query]);
}

enum status attention_options_check(const struct attention_options *o, bool page) {
    const struct attention_options plain = attention_defaults();
    const bool walks = o->method != ATTENTION_RAW;
    if (o->classes && o->method != ATTENTION_GRADIENT && !page)
        return fail(ST_USAGE, "option --class is for --method gradient and --save html");
    if (o->method == ATTENTION_GRADIENT && o->residual != plain.residual)
        return fail(ST_USAGE, "option --residual is for --method rollout: relevance is added to "
                              "the residual stream as it is");
    if (walks && o->layers.count && !page)
        return fail(ST_USAGE,
                    "option --layers is for --method raw and --save html; a %s goes "
                    "from --start-layer to the last",
                    attention_methods[o->method]);
    if (walks && o->focus.query == QUERY_ALL)
        return fail(ST_USAGE, "option --query all is for --method raw; a %s is of one",
                    attention_methods[o->method]);
    if (!walks && (o->discard != plain.discard || o->residual != plain.residual || o->start_layer))
        return fail(ST_USAGE, "options --discard, --residual and --start-layer are for --method "
                              "rollout: raw maps are what the softmax gave");
    return ST_OK;
}

void attention_options_text(const struct attention_options *o, char *text, size_t size) {
    char heads[300], query[64], layers[300];
    attention_show_heads(&o->heads, heads, sizeof heads);
    attention_show_query(&o->focus, query, sizeof query);
    attention_show_layers(&o->layers, layers, sizeof layers);
    if (o->heads.kind == HEADS_DEFAULT)
        snprintf(heads, sizeof heads, "%s", o->method == ATTENTION_RAW ? "each" : "mean");
    if (o->method == ATTENTION_GRADIENT)
        snprintf(text, size, "class %s, heads %s, query %s, discard %g, start layer %d",
                 o->classes ? o->classes : "top", heads, query, o->discard, o->start_layer);
    else if (o->method == ATTENTION_ROLLOUT)
        snprintf(text, size, "heads %s, query %s, discard %g, residual %g, start layer %d", heads,
                 query, o->discard, o->residual, o->start_layer);
    else
        snprintf(text, size, "layers %s, heads %s, query %s", layers, heads, query);
}
