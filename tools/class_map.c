/* class_map: see class_map.h. */
#include "tools/class_map.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/imagenet_classes.h"

enum { LARGEST_FILE = 16 << 20, WNID = 9 };

static const char ilsvrc2012[] = "ilsvrc2012";

/* ---- comparing ------------------------------------------------------------------------------- */

static char plain(char c) {
    return (char)(c == '_' || c == '-' ? ' ' : tolower((unsigned char)c));
}

/* Whether the first `length` bytes of text are the name, or the part of it before a comma. */
static bool same_label(const char *text, size_t length, const char *name) {
    for (size_t i = 0; i < length; i++)
        if (!name[i] || plain(text[i]) != plain(name[i])) return false;
    return name[length] == 0 || name[length] == ',';
}

/* A WordNet id with something behind it: "n01440764_tench". */
static size_t wordnet_length(const char *text, size_t length) {
    if (length <= WNID || text[0] != 'n' || isalnum((unsigned char)text[WNID])) return 0;
    for (size_t i = 1; i < WNID; i++)
        if (!isdigit((unsigned char)text[i])) return 0;
    return WNID;
}

static int by_id(const struct class_map *map, const char *text, size_t length) {
    for (int i = 0; i < map->labels->count; i++)
        if (strncmp(map->labels->id[i], text, length) == 0 && map->labels->id[i][length] == 0)
            return i;
    return -1;
}

/* The name, or the part of it before a comma, to the letter. */
static int by_exact_label(const struct class_map *map, const char *text, size_t length) {
    int found = -1;
    for (int i = 0; length && i < map->labels->count; i++) {
        const char *name = map->labels->name[i];
        if (strncmp(text, name, length) != 0 || (name[length] && name[length] != ',')) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

/* -1 also when two classes are called so. */
static int by_label(const struct class_map *map, const char *text, size_t length) {
    int found = -1;
    for (int i = 0; length && i < map->labels->count; i++) {
        if (!same_label(text, length, map->labels->name[i])) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static int by_number(const struct class_map *map, const char *text, size_t length) {
    long value = 0;
    if (length == 0 || length > 9) return -1;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) return -1;
        value = value * 10 + (text[i] - '0');
    }
    return value < map->classes ? (int)value : -1;
}

/* One piece of text, without the file of the user's. */
static int find_piece(const struct class_map *map, const char *text, size_t length,
                      enum class_match *match) {
    const size_t wordnet = wordnet_length(text, length);
    int class = by_id(map, text, length);
    if (class < 0 && wordnet) class = by_id(map, text, wordnet);
    *match = CLASS_ID;
    if (class >= 0) return class;
    class = by_exact_label(map, text, length);
    if (class < 0) class = by_label(map, text, length);
    *match = CLASS_LABEL;
    if (class >= 0) return class;
    class = by_number(map, text, length);
    *match = class >= 0 ? CLASS_NUMBER : CLASS_NONE;
    return class;
}

static int compare_line(const void *key, const void *line) {
    return strcmp(key, ((const struct class_line *)line)->text);
}

static int by_text(const void *a, const void *b) {
    return strcmp(((const struct class_line *)a)->text, ((const struct class_line *)b)->text);
}

/* Calls what the file says of the whole text or of its folders; false when it says nothing. */
static bool find_line(const struct class_map *map, const char *text, int *class) {
    const struct class_line *line = NULL;
    for (const char *at = text; map->count && !line && at; at = strchr(at, '/')) {
        if (at != text) at++;
        line = bsearch(at, map->lines, map->count, sizeof *map->lines, compare_line);
    }
    if (line) *class = line->class;
    return line != NULL;
}

int class_map_find(const struct class_map *map, const char *text, enum class_match *match) {
    size_t end = strlen(text);
    int class;
    *match = CLASS_FILE;
    if (find_line(map, text, &class)) return class;
    class = find_piece(map, text, end, match);
    while (class < 0 && end > 0) {
        size_t begin = end;
        while (begin > 0 && text[begin - 1] != '/')
            begin--;
        class = find_piece(map, text + begin, end - begin, match);
        end = begin ? begin - 1 : 0;
    }
    return class;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Calls `take` with each line that is neither empty nor a remark; sentences get file and line. */
static enum status each_line(const char *file, enum status (*take)(char *line, void *context),
                             void *context) {
    uint8_t *bytes = NULL;
    size_t size, number = 0;
    enum status st = file_read_regular(file, LARGEST_FILE, &bytes, &size);
    char *text = st == ST_OK ? mem_zalloc(size + 1, 1) : NULL;
    if (st == ST_OK && !text) st = ST_NOMEM;
    if (st == ST_OK && memchr(bytes, 0, size))
        st = fail(ST_FORMAT, "%s: holds zero bytes, want text", file);
    if (st == ST_OK && size) memcpy(text, bytes, size);
    for (char *line = text, *next; st == ST_OK && line && *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = 0;
        if (length && line[length - 1] == '\r') line[length - 1] = 0;
        number++;
        if (!line[0] || line[0] == '#') continue;
        st = take(line, context);
        if (st != ST_OK && st != ST_NOMEM) {
            char where[512];
            snprintf(where, sizeof where, "%s: line %zu", file, number);
            st = fail_prefix(st, where);
        }
    }
    mem_free(text);
    mem_free(bytes);
    return st;
}

static enum status class_of(const struct class_map *map, const char *text, int *class) {
    enum class_match match;
    *class = find_piece(map, text, strlen(text), &match);
    if (*class >= 0) return ST_OK;
    return fail(ST_USAGE,
                "'%s' is not the id, the label (of one class alone) or the number of a "
                "class of the model, which has %d",
                text, map->classes);
}

static enum status add_line(struct class_map *map, const char *text, int class) {
    struct class_line fresh = {.text = str_copy(text), .class = class};
    void *lines = map->lines;
    enum status st = fresh.text ? ST_OK : ST_NOMEM;
    if (st == ST_OK) st = mem_grow(&lines, &map->capacity, map->count + 1, sizeof *map->lines);
    map->lines = lines;
    if (st == ST_OK)
        map->lines[map->count++] = fresh;
    else
        mem_free(fresh.text);
    return st;
}

static enum status take_line(char *line, void *context) {
    struct class_map *map = context;
    char *tab = strchr(line, '\t');
    int class = -1;
    if (!tab) return fail(ST_FORMAT, "'%s' has no tab, want text<TAB>class", line);
    *tab = 0;
    if (strcmp(tab + 1, "-") != 0) TRY(class_of(map, tab + 1, &class));
    return add_line(map, line, class);
}

/* A class of ImageNet-1k by its place there; the model must have it, by its WordNet id. */
static enum status imagenet_class(const struct class_map *map, const char *list, int index,
                                  int *class) {
    *class = by_id(map, imagenet_1k_ids[index], WNID);
    if (*class >= 0) return ST_OK;
    return fail(ST_USAGE, "%s: the model has no class %s (its labels are not ImageNet's)", list,
                imagenet_1k_ids[index]);
}

/* The numbers 1 to 1000 of the ILSVRC2012 development kit. */
static enum status add_ilsvrc2012(struct class_map *map) {
    for (int i = 0; i < 1000; i++) {
        char number[16];
        int class;
        TRY(imagenet_class(map, ilsvrc2012, ilsvrc2012_class[i], &class));
        snprintf(number, sizeof number, "%d", i + 1);
        TRY(add_line(map, number, class));
    }
    return ST_OK;
}

const char *class_map_for(const char *labels) {
    const char *slash = strrchr(labels, '/');
    const char *name = slash ? slash + 1 : labels;
    const char truth[] = "ILSVRC2012_validation_ground_truth";
    return strncmp(name, truth, sizeof truth - 1) == 0 ? ilsvrc2012 : NULL;
}

bool class_map_is_builtin(const char *name) {
    return strcmp(name, ilsvrc2012) == 0 || strcmp(name, "imagenet-a") == 0 ||
           strcmp(name, "imagenet-r") == 0;
}

enum status class_map_open(struct class_map *map, const struct labels *labels, int classes,
                           const char *file) {
    enum status st = ST_OK;
    *map = (struct class_map){.labels = labels, .classes = classes};
    if (file)
        st = class_map_is_builtin(file) ? add_ilsvrc2012(map) : each_line(file, take_line, map);
    if (map->count) qsort(map->lines, map->count, sizeof *map->lines, by_text);
    for (size_t i = 1; st == ST_OK && i < map->count; i++)
        if (by_text(&map->lines[i - 1], &map->lines[i]) == 0)
            st = fail(ST_USAGE, "%s: '%s' is there twice", file, map->lines[i].text);
    if (st != ST_OK) class_map_release(map);
    return st;
}

void class_map_release(struct class_map *map) {
    for (size_t i = 0; i < map->count; i++)
        mem_free(map->lines[i].text);
    mem_free(map->lines);
    *map = (struct class_map){0};
}

/* ---- subsets --------------------------------------------------------------------------------- */

struct subset {
    const struct class_map *map;
    bool *chosen;
};

static enum status take_member(char *line, void *context) {
    struct subset *subset = context;
    int class;
    TRY(class_of(subset->map, line, &class));
    subset->chosen[class] = true;
    return ST_OK;
}

static enum status take_builtin(struct subset *subset, const char *name, const short *indices,
                                size_t count) {
    for (size_t i = 0; i < count; i++) {
        int class;
        TRY(imagenet_class(subset->map, name, indices[i], &class));
        subset->chosen[class] = true;
    }
    return ST_OK;
}

enum status class_map_subset(const struct class_map *map, const char *file, bool *chosen) {
    struct subset subset = {map, chosen};
    int count = 0;
    if (strcmp(file, "imagenet-a") == 0)
        TRY(take_builtin(&subset, file, imagenet_a, COUNT_OF(imagenet_a)));
    else if (strcmp(file, "imagenet-r") == 0)
        TRY(take_builtin(&subset, file, imagenet_r, COUNT_OF(imagenet_r)));
    else
        TRY(each_line(file, take_member, &subset));
    for (int i = 0; i < map->classes; i++)
        count += chosen[i];
    if (count < 2) return fail(ST_USAGE, "%s: names %d classes, want 2 or more", file, count);
    return ST_OK;
}
