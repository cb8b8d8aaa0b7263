/*
 * class_map: which class of a model a text names. A text is tried as an id (a WordNet id may have
 * more behind it: "n01440764_tench"), then as a label (to the letter, else case, blanks, '_' and
 * '-' alike; the part before the first comma does too), then as a number; never by its place in a
 * list. A path ("val/n01440764") is tried as a whole, then folder by folder from the innermost
 * outward.
 *
 * A file of the user's comes before all that: "text<TAB>class" a line, the class an id, a label or
 * a number, or "-" for a text that stands for no class.
 */
#ifndef TOOLS_CLASS_MAP_H
#define TOOLS_CLASS_MAP_H

#include "datasets/labels.h"
#include "kernels/base.h"

enum class_match { CLASS_NONE, CLASS_FILE, CLASS_ID, CLASS_LABEL, CLASS_NUMBER };

struct class_map {
    const struct labels *labels; /* of the model; count 0 = numbers alone */
    int classes;                 /* K */
    struct class_line {
        char *text; /* owned */
        int class;  /* -1 = none */
    } * lines;      /* (count), sorted by text */
    size_t count, capacity;
};

/*
 * `file` NULL = none; "ilsvrc2012" = the built-in map of the challenge's own class numbers, from 1.
 * ST_IO, ST_FORMAT, ST_USAGE: a line that names no class of the model, or an
 * ambiguous one; the sentence begins with file and line. `labels` must outlive the map.
 */
enum status class_map_open(struct class_map *map, const struct labels *labels, int classes,
                           const char *file) MUST_CHECK;
/* Whether a map or a subset is built in, and no file. */
bool class_map_is_builtin(const char *name);
/* The built-in map that a file of labels wants, by its name; NULL = none. */
const char *class_map_for(const char *labels);
void class_map_release(struct class_map *map); /* works on a zeroed struct, and twice */

/* The class, -1 = none or two at once; *match: by what. */
int class_map_find(const struct class_map *map, const char *text, enum class_match *match);

/*
 * Classes of the model, one a line (an id, a label or a number; '#' begins a remark), as `chosen`
 * (K), true where named: from a file, or the built-in "imagenet-a" and "imagenet-r" (by their
 * WordNet ids). ST_USAGE: an unknown class or fewer than two of them.
 */
enum status class_map_subset(const struct class_map *map, const char *file,
                             bool *chosen) MUST_CHECK;

#endif
