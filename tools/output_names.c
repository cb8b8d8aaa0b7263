/* output_names: see output_names.h. */
#include "tools/output_names.h"

#include <stdlib.h>
#include <string.h>

/* Of 255 bytes, so that ".gradient.overlay.layer23.head11.png.1234567.part" has room behind it. */
enum { LONGEST_NAME = 190 };

struct named {
    char *path, *name;
    size_t number;
    int level; /* what is in front of or behind the name */
};

/* Where the folder or file name that ends at `end` begins. */
static const char *part_begin(const char *path, const char *end) {
    while (end > path && end[-1] != '/')
        end--;
    return end;
}

/* "" in front of the first; passes over ".", ".." and doubled slashes. */
static bool part_before(const char *path, const char **begin, const char **end) {
    for (const char *at = *begin; at > path;) {
        *end = at - 1;
        at = *begin = part_begin(path, *end);
        const size_t length = (size_t)(*end - *begin);
        const bool dots = (length == 1 || length == 2) && memcmp("..", *begin, length) == 0;
        if (length > 0 && !dots) return true;
    }
    return false;
}

/* The same, no longer than LONGEST_NAME and between two characters of UTF-8. */
static char *cut(char *name, size_t number) {
    char *shorter;
    int length = LONGEST_NAME - 21; // behind it "-18446744073709551615"
    if (!name || strlen(name) <= LONGEST_NAME) return name;
    while (length > 1 && (name[length] & 0xc0) == 0x80)
        length--;
    shorter = str_format("%.*s-%zu", length, name, number);
    mem_free(name);
    return shorter;
}

/* The name at a level: folders in front as long as there are any, then the suffix, the number. */
static char *whole_name(const struct named *entry) {
    const char *path = strcmp(entry->path, "-") == 0 ? "stdin" : entry->path;
    const char *end = path + strlen(path), *begin = part_begin(path, end);
    const char *dot = strrchr(begin, '.');
    const char *last_begin = begin, *last_end = dot && dot > begin ? dot : end;
    char *name = str_format("%.*s", (int)(last_end - last_begin), last_begin), *longer;
    int level = entry->level;
    while (name && level > 0 && part_before(path, &begin, &end)) {
        longer = str_format("%.*s_%s", (int)(end - begin), begin, name);
        mem_free(name);
        name = longer;
        level--;
    }
    if (!name || level == 0) return name;
    longer = level > 1 ? str_format("%s%s-%zu", name, last_end, entry->number)
                       : str_format("%s%s", name, last_end);
    mem_free(name);
    return longer;
}

static char *name_at(const struct named *entry) {
    return cut(whole_name(entry), entry->number);
}

static int by_name(const void *a, const void *b) {
    const struct named *const *one = a, *const *two = b;
    return strcmp((*one)->name, (*two)->name);
}

/* Names that are there more than once get longer; *again = whether there were any. */
static enum status lengthen(struct named **sorted, size_t count, bool *again) {
    *again = false;
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && strcmp(sorted[i]->name, sorted[end]->name) == 0;)
            end++;
        for (size_t j = i; end > i + 1 && j < end; j++)
            sorted[j]->level++;
        *again = *again || end > i + 1;
    }
    for (size_t i = 0; *again && i < count; i++) {
        mem_free(sorted[i]->name);
        sorted[i]->name = name_at(sorted[i]);
        if (!sorted[i]->name) return ST_NOMEM;
    }
    return ST_OK;
}

static enum status make_names(const struct inputs *inputs, struct named *entries,
                              struct named **sorted) {
    bool again = true;
    for (size_t i = 0; i < inputs->count; i++) {
        const char *error;
        entries[i].path = inputs_path(inputs, i, &error);
        entries[i].number = i;
        if (!entries[i].path || !(entries[i].name = name_at(&entries[i]))) return ST_NOMEM;
        sorted[i] = &entries[i];
    }
    while (again)
        TRY(lengthen(sorted, inputs->count, &again));
    return ST_OK;
}

enum status output_names_open(const struct inputs *inputs, struct output_names *out) {
    struct named *entries = mem_zalloc(inputs->count + 1, sizeof *entries);
    struct named **sorted = mem_zalloc(inputs->count + 1, sizeof *sorted);
    enum status st = ST_NOMEM;
    *out = (struct output_names){.name = mem_zalloc(inputs->count + 1, sizeof *out->name),
                                 .count = inputs->count};
    if (entries && sorted && out->name) st = make_names(inputs, entries, sorted);
    for (size_t i = 0; entries && i < inputs->count; i++) {
        mem_free(entries[i].path);
        if (st == ST_OK)
            out->name[i] = entries[i].name;
        else
            mem_free(entries[i].name);
    }
    mem_free(entries);
    mem_free(sorted);
    if (st != ST_OK) output_names_release(out);
    return st;
}

void output_names_release(struct output_names *names) {
    for (size_t i = 0; names->name && i < names->count; i++)
        mem_free(names->name[i]);
    mem_free(names->name);
    *names = (struct output_names){0};
}
