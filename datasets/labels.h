/*
 * labels: what the classes of a model are called. An id (a WordNet id where there is one, else the
 * name) identifies a class; names need not be unique ("crane" is two classes of ImageNet).
 */
#ifndef DATASETS_LABELS_H
#define DATASETS_LABELS_H

#include "kernels/base.h"

struct labels {
    int count;
    char **id;   /* (count), owned */
    char **name; /* (count), owned */
};

/* Copies `count` pairs. ST_NOMEM. */
enum status labels_set(struct labels *labels, int count, const char *const *id,
                       const char *const *name) MUST_CHECK;

/* "imagenet-1k" -> the built-in table; ST_USAGE for another name. */
enum status labels_builtin(struct labels *labels, const char *name) MUST_CHECK;

/*
 * A text file, one class a line, in class order: "id<TAB>name", or a name alone (then the id is the
 * name). UTF-8; CRLF, a byte order mark and a final line without newline are accepted; empty lines,
 * control bytes and other encodings are refused by line number; so is what is no regular file, more
 * than 16 MiB or a million classes. The sentence begins with the path.
 */
enum status labels_read(struct labels *labels, const char *path) MUST_CHECK;

void labels_release(struct labels *labels);

/* The 1000 classes of ImageNet-1k in class order: sorted WordNet ids, and their short names. */
extern const char *const imagenet_1k_ids[1000];
extern const char *const imagenet_1k_names[1000];

#endif
