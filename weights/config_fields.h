/*
 * config_fields: a group of attributes as a table of fields (name, kind, place in the struct, range
 * or words), walked by one reader, one writer and one check, so that they cannot drift apart.
 * Private to config*.c.
 */
#ifndef WEIGHTS_CONFIG_FIELDS_H
#define WEIGHTS_CONFIG_FIELDS_H

#include "weights/config.h"

#define CONFIG_MAX_CLASSES 1000000
#define FIELD_MAX_LIST     SWIN_MAX_STAGES

enum field_kind {
    FIELD_INT,
    FIELD_PAIR,    /* two ints side by side: height, width */
    FIELD_COUNTED, /* int[FIELD_MAX_LIST]; how many the file has goes into the member at `length` */
    FIELD_LIST,    /* as many ints as the member at `length` says, so behind the counted one */
    FIELD_BOOL,
    FIELD_REAL,
    FIELD_TRIPLE, /* double[3] */
    FIELD_ENUM,   /* an enum that indexes `words` */
    FIELD_SWITCH, /* a bool that indexes `words` */
    FIELD_WORD    /* char[FIELD_WORD_SIZE], one of `words` */
};

#define FIELD_WORD_SIZE 16

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    double lo, hi;
    const char *const *words;
    int word_count;
    size_t length; /* offset of the int that counts a list */
};

/* A row: name, kind, IN(struct, member), then one of the others. */
#define IN(type, member)                 offsetof(struct type, member)
#define WORDS(list)                      0, 0, list, (int)COUNT_OF(list), 0
#define RANGE(lo, hi)                    lo, hi, NULL, 0, 0
#define NO_RANGE                         0, 1, NULL, 0, 0
#define LIST_RANGE(lo, hi, type, member) lo, hi, NULL, 0, offsetof(struct type, member)

extern const char *const config_activations[3]; /* by enum vit_activation */

/*
 * `base` is the struct, `group` the path of the group. Reading and checking: ST_FORMAT naming
 * file, group and attribute. Writing checks first.
 */
enum status fields_read(struct h5 *file, const char *group, const struct field *fields,
                        size_t count, void *base) MUST_CHECK;
enum status fields_check(const char *file, const char *group, const struct field *fields,
                         size_t count, const void *base) MUST_CHECK;
enum status fields_write(struct h5 *file, const char *group, const struct field *fields,
                         size_t count, const void *base) MUST_CHECK;

/* The word at `index`, "unknown" beyond the list; the place of a word, -1 when it is not there. */
const char *word_at(const char *const *words, size_t count, size_t index);
int word_find(const char *const *words, int count, const char *word);

#endif
