/*
 * dataset_forms: what dataset.c shares with the readers of the forms behind dataset.h. A reader is
 * a row of the table in dataset.c: whether it takes what lies there, open, next, close.
 */
#ifndef DATASETS_DATASET_FORMS_H
#define DATASETS_DATASET_FORMS_H

#include <stdio.h>

#include "datasets/dataset.h"
#include "datasets/inputs.h"
#include "datasets/texts.h"

#define DATASET_MOST_CLASSES 1000000 /* far above any real number; bounds what hostile data cost */
#define DATASET_LONGEST_NAME 4096    /* bytes of a name, a class or a path inside a dataset */

/* What lies at a path, as far as telling the forms apart needs it. */
struct dataset_source {
    const char *path;
    const char *labels; /* the option; NULL = none */
    bool folder, file;  /* neither: nothing is there, as for "shard-{0..3}.tar" */
    uint64_t size;      /* bytes of a file */
    uint8_t head[16];   /* (head_size) its first bytes, of what was compressed by gzip unpacked */
    size_t head_size;
    struct texts names; /* of files directly in a folder but hidden ones and images, sorted */
    size_t others;      /* images and folders directly in it */
};

struct dataset_form {
    const char *name;
    bool (*takes)(const struct dataset_source *source);
    /*
     * Sets reader, count, identity, note. On failure dataset.c calls `close` for what is there.
     * Sentences begin with a path.
     */
    enum status (*open)(struct dataset *dataset, const struct dataset_source *source);
    bool (*next)(struct dataset *dataset, struct dataset_item *item);
    void (*close)(void *reader);
};

struct dataset {
    const struct dataset_form *form;
    void *reader; /* the form's own; zeroed memory that close must accept, or NULL */
    size_t count;
    char *folder;          /* owned: the dataset itself, or where its files lie; "" = here */
    bool held_files;       /* the folder, at the start */
    char *identity, *note; /* owned; note may be NULL */
    struct texts classes;
};

extern const struct dataset_form dataset_list, dataset_idx, dataset_cifar, dataset_hdf5,
    dataset_archive, dataset_folder;

/*
 * The number of a class, from then on known. ST_FORMAT, without a path: the text is longer than a
 * name may be, or there are too many classes.
 */
enum status dataset_target(struct dataset *dataset, const char *text, long *target) MUST_CHECK;

/* The same for class number `value` of the data, called `name`, or where that is NULL by digits. */
enum status dataset_target_number(struct dataset *dataset, long long value, const char *name,
                                  long *target) MUST_CHECK;

/* ST_USAGE where there is a --labels that a form does not know. */
enum status dataset_without_labels(const struct dataset_source *source) MUST_CHECK;

/* Makes *item a failed one by the name of `path`, with the words of printf or of fail_message. */
void dataset_item_fault(struct dataset_item *item, const char *path, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* fail_message() without "path: " in front, where that stands there. */
const char *dataset_fault_of(const char *path);

/* *out, NULL without memory, = "dir/name": `name` beside the file `path`. */
char *dataset_beside(const char *path, const char *name);
/* What stands behind the last '/'. */
const char *dataset_base(const char *path);

/* "folder/name", NULL without memory. */
char *dataset_inside(const char *folder, const char *name);

/* Whether a name ends in `suffix`, case ignored. */
bool dataset_ends(const char *name, const char *suffix);

/* The reader of a folder, with class folders or with a list. */
struct dataset_files {
    struct inputs inputs;
    long *targets; /* (inputs.count) */
    size_t next;
};
/* Everything below the folder, no targets yet; *root = bytes of "DIR/" before a path's own. */
enum status dataset_files_open(const char *path, struct dataset_files **out,
                               size_t *root) MUST_CHECK;
bool dataset_files_next(struct dataset *dataset, struct dataset_item *item);
void dataset_files_close(void *reader);

/* Pixels of one stored picture, grey (channels 1) or RGB interleaved (3), -> image. ST_NOMEM. */
enum status dataset_picture(const uint8_t *pixels, int width, int height, int channels,
                            struct image *out) MUST_CHECK;

#endif
