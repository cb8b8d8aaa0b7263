/*
 * pickle: the values that a Python pickle of protocol 2 to 5 builds (CPython, Lib/pickletools.py),
 * as torch.save writes it. Nothing is imported or run: a class or function is only its name, and
 * what calling it would give is an object that remembers the name and the arguments.
 *
 * Calls (REDUCE) are taken of a list of names that checkpoints need, any other is refused by its
 * name; instances of classes (NEWOBJ) are taken of any name, for they are only carried.
 */
#ifndef WEIGHTS_PICKLE_H
#define WEIGHTS_PICKLE_H

#include "kernels/base.h"

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL, /* in integer */
    PICKLE_INTEGER,
    PICKLE_LONG, /* beyond 64 bits: its little-endian bytes, in text */
    PICKLE_FLOAT,
    PICKLE_STRING,
    PICKLE_BYTES,
    PICKLE_TUPLE,
    PICKLE_LIST,       /* sets too */
    PICKLE_DICT,       /* items are key, value, key, value, ...; OrderedDict too */
    PICKLE_GLOBAL,     /* a class or function, by name */
    PICKLE_PERSISTENT, /* a persistent id: what it is of, in items[0] */
    PICKLE_OBJECT      /* a call or an instance */
};

struct pickle_value {
    enum pickle_kind kind;
    int depth; /* levels of values below it, when it was made */
    union {
        int64_t integer;
        double real;
        struct { /* not owned: in the pickle's bytes */
            const char *bytes;
            size_t size;
        } text;
        struct {
            struct pickle_value **items; // (count)
            size_t count, capacity;
        } list;
        struct {
            const char *module, *name;
            size_t module_size, name_size;
        } global;
        struct {
            struct pickle_value *callable, *args; /* a GLOBAL, a TUPLE */
            struct pickle_value *state;           /* of BUILD; or NULL */
            struct pickle_value *content;         /* its items, a DICT or a LIST; or NULL */
        } object;
    };
};

/* The values' memory: zeroed before the first pickle_load; all of it goes with pickle_release. */
struct pickle_memory {
    void *blocks;                    /* the last one, which knows the one before */
    size_t used;                     /* bytes in the last */
    size_t total;                    /* bytes in all of them, limited */
    struct pickle_value *persistent; /* a LIST of every PERSISTENT made so far, or NULL */
};

/*
 * Runs the pickle at `bytes` up to its STOP; *used is then how many bytes it took (NULL: it must
 * take all). The values live in `memory` and point into `bytes`. They may be shared and even
 * contain themselves: whoever walks them counts. ST_FORMAT, ST_NOMEM; `path` is for sentences.
 */
enum status pickle_load(struct pickle_memory *memory, const uint8_t *bytes, size_t size,
                        const char *path, const struct pickle_value **out, size_t *used) MUST_CHECK;
void pickle_release(struct pickle_memory *memory);

/* Whether it is the class or function `name` of `module`. */
bool pickle_is_global(const struct pickle_value *value, const char *module, const char *name);
/* Whether it is what calling that gives; its arguments are value->object.args. */
bool pickle_is_call(const struct pickle_value *value, const char *module, const char *name);
bool pickle_is_text(const struct pickle_value *value, const char *text);
/* The value of a string key of a DICT, the last one given; NULL: none, or no DICT. */
const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);
/* "argparse.Namespace", "a number", ... into buf; returns buf. */
const char *pickle_describe(const struct pickle_value *value, char *buf, size_t size);

#endif
