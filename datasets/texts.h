/*
 * texts: a set of strings, each kept once and numbered from 0 in order of arrival: the classes of a
 * dataset, the paths of a list. And the checksum that names a dataset by them.
 */
#ifndef DATASETS_TEXTS_H
#define DATASETS_TEXTS_H

#include "kernels/base.h"

struct texts {
    char **text; /* (count), owned */
    size_t count, capacity;
    size_t *slots; /* (slot_count), a power of 2, open addressing; number + 1, 0 = free */
    size_t slot_count;
};

/* *number of `text`, which joins the set if it is not there yet. ST_NOMEM. */
enum status texts_add(struct texts *texts, const char *text, size_t *number) MUST_CHECK;
bool texts_find(const struct texts *texts, const char *text, size_t *number);
void texts_release(struct texts *texts); /* works on a zeroed struct, and twice */

/* FNV-1a, 64 bits, of `size` bytes behind those of `sum`, which begins as CHECKSUM_START. */
#define CHECKSUM_START 14695981039346656037u
uint64_t checksum(uint64_t sum, const void *bytes, size_t size);

#endif
