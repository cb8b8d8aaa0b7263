/*
 * dataset_sample: a group of adjacent members of an archive that belong together, as WebDataset
 * has it: the name up to the first dot of its last part is the key, x.jpg and x.cls are one sample.
 *
 * Where a label stands beside it a sample has one picture, the first by the name of the key and an
 * image's suffix: x.seg.png is another field of it. Without such a label, or such a picture, every
 * image counts, as in class folders.
 */
#ifndef DATASETS_DATASET_SAMPLE_H
#define DATASETS_DATASET_SAMPLE_H

#include "datasets/dataset_forms.h"

/* What a member is, by its name; the labels in the order in which they count. */
enum member_kind { MEMBER_NOTHING, MEMBER_TXT, MEMBER_JSON, MEMBER_CLS, MEMBER_IMAGE };

struct member {
    char *name;     /* in the archive, without "./" or "/" in front; owned */
    char *error;    /* why its bytes are not there, owned; or NULL */
    uint8_t *bytes; /* (size), owned */
    size_t size;
};

enum { SAMPLE_IMAGES = 8 }; /* that are held at most */

struct sample {
    char *key; /* NULL: none yet */
    struct member images[SAMPLE_IMAGES];
    int count, given;
    bool pictured; /* a picture of it was given as the one that counts */
    size_t bytes;
    enum member_kind
        label_kind; /* where label, or label_error, comes from; NOTHING: there is none */
    char *label, *label_error;
};

enum member_kind member_kind(const char *name);
void member_release(struct member *member);

/* Bytes of a name that are its key. */
size_t sample_key(const char *name);

/* Takes an image, or reads a label; *member is empty after that. ST_NOMEM. */
enum status sample_take(struct sample *sample, enum member_kind kind,
                        struct member *member) MUST_CHECK;

/* Of a sample that is complete: the images that do not count away, while none is given. */
void sample_choose(struct sample *sample);

/* The next image, not given yet, into *item; `archive` is where the sample is from. */
void sample_give(struct sample *sample, struct dataset *dataset, const char *archive,
                 struct dataset_item *item);

/* Images away; with `whole` the label and the key as well. */
void sample_clear(struct sample *sample, bool whole);

#endif
