/* class_map: see class_map.h. */
#include "tools/class_map.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 16 << 20, WNID = 9 };

/* Class indices of ImageNet-A (natural-adv-examples) and ImageNet-R, sorted. */
static const short imagenet_a[] = {
    6,   11,  13,  15,  17,  22,  23,  27,  30,  37,  39,  42,  47,  50,  57,  70,  71,  76,  79,
    89,  90,  94,  96,  97,  99,  105, 107, 108, 110, 113, 124, 125, 130, 132, 143, 144, 150, 151,
    207, 234, 235, 254, 277, 283, 287, 291, 295, 298, 301, 306, 307, 308, 309, 310, 311, 313, 314,
    315, 317, 319, 323, 324, 326, 327, 330, 334, 335, 336, 347, 361, 363, 372, 378, 386, 397, 400,
    401, 402, 404, 407, 411, 416, 417, 420, 425, 428, 430, 437, 438, 445, 456, 457, 461, 462, 470,
    472, 483, 486, 488, 492, 496, 514, 516, 528, 530, 539, 542, 543, 549, 552, 557, 561, 562, 569,
    572, 573, 575, 579, 589, 606, 607, 609, 614, 626, 627, 640, 641, 642, 643, 658, 668, 677, 682,
    684, 687, 701, 704, 719, 736, 746, 749, 752, 758, 763, 765, 768, 773, 774, 776, 779, 780, 786,
    792, 797, 802, 803, 804, 813, 815, 820, 823, 831, 833, 835, 839, 845, 847, 850, 859, 862, 870,
    879, 880, 888, 890, 897, 900, 907, 913, 924, 932, 933, 934, 937, 943, 945, 947, 951, 954, 956,
    957, 959, 971, 972, 980, 981, 984, 986, 987, 988};
static const short imagenet_r[] = {
    1,   2,   4,   6,   8,   9,   11,  13,  22,  23,  26,  29,  31,  39,  47,  63,  71,  76,  79,
    84,  90,  94,  96,  97,  99,  100, 105, 107, 113, 122, 125, 130, 132, 144, 145, 147, 148, 150,
    151, 155, 160, 161, 162, 163, 171, 172, 178, 187, 195, 199, 203, 207, 208, 219, 231, 232, 234,
    235, 242, 245, 247, 250, 251, 254, 259, 260, 263, 265, 267, 269, 276, 277, 281, 288, 289, 291,
    292, 293, 296, 299, 301, 308, 309, 310, 311, 314, 315, 319, 323, 327, 330, 334, 335, 337, 338,
    340, 341, 344, 347, 353, 355, 361, 362, 365, 366, 367, 368, 372, 388, 390, 393, 397, 401, 407,
    413, 414, 425, 428, 430, 435, 437, 441, 447, 448, 457, 462, 463, 469, 470, 471, 472, 476, 483,
    487, 515, 546, 555, 558, 570, 579, 583, 587, 593, 594, 596, 609, 613, 617, 621, 629, 637, 657,
    658, 701, 717, 724, 763, 768, 774, 776, 779, 780, 787, 805, 812, 815, 820, 824, 833, 847, 852,
    866, 875, 883, 889, 895, 907, 928, 931, 932, 933, 934, 936, 937, 943, 945, 947, 948, 949, 951,
    953, 954, 957, 963, 965, 967, 980, 981, 983, 988};

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
    class = by_label(map, text, length);
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

static enum status take_line(char *line, void *context) {
    struct class_map *map = context;
    char *tab = strchr(line, '\t');
    struct class_line fresh = {.class = -1};
    void *lines = map->lines;
    enum status st;
    if (!tab) return fail(ST_FORMAT, "'%s' has no tab, want text<TAB>class", line);
    *tab = 0;
    if (strcmp(tab + 1, "-") != 0) TRY(class_of(map, tab + 1, &fresh.class));
    st = mem_grow(&lines, &map->capacity, map->count + 1, sizeof *map->lines);
    map->lines = lines;
    if (st != ST_OK) return st;
    fresh.text = str_copy(line);
    if (!fresh.text) return ST_NOMEM;
    map->lines[map->count++] = fresh;
    return ST_OK;
}

enum status class_map_open(struct class_map *map, const struct labels *labels, int classes,
                           const char *file) {
    enum status st = ST_OK;
    *map = (struct class_map){.labels = labels, .classes = classes};
    if (file) st = each_line(file, take_line, map);
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
        int class = by_id(subset->map, imagenet_1k_ids[indices[i]], WNID);
        if (class < 0)
            return fail(ST_USAGE, "%s: the model has no class %s (its labels are not ImageNet's)",
                        name, imagenet_1k_ids[indices[i]]);
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
