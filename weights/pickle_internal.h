/* pickle_internal: what pickle.c (opcodes) and pickle_values.c share; private to the two. */
#ifndef WEIGHTS_PICKLE_INTERNAL_H
#define WEIGHTS_PICKLE_INTERNAL_H

#include "weights/pickle.h"

#define PICKLE_MAX_DEPTH  256                /* a pickled network of 40 blocks has about 20 */
#define PICKLE_MAX_MEMORY ((size_t)96 << 20) /* ViT-g with its optimizer needs 8 MiB */
#define PICKLE_MAX_STACK  ((size_t)1 << 21)  /* values on the stack, or in the memo */

/* A zeroed value, or NULL with fail() called. */
struct pickle_value *pickle_new(struct pickle_memory *memory, const char *path,
                                enum pickle_kind kind);
/* child becomes part of parent. ST_FORMAT when it is too deep then. */
enum status pickle_adopt(const char *path, struct pickle_value *parent,
                         const struct pickle_value *child) MUST_CHECK;
/* Appends to a TUPLE, LIST, DICT or PERSISTENT. */
enum status pickle_append(struct pickle_memory *memory, const char *path, struct pickle_value *list,
                          struct pickle_value *item) MUST_CHECK;
/* The name for sentences: "os.system", cut to fit. */
const char *pickle_global_text(const struct pickle_value *global, char *buf, size_t size);
/* Whether a pickle may call it; *dict: the result is a dict. */
bool pickle_may_call(const struct pickle_value *global, bool *dict);

#endif
