/*
 * dataset_shards: the files that one archive dataset is kept in.
 */
#ifndef DATASETS_DATASET_SHARDS_H
#define DATASETS_DATASET_SHARDS_H

#include "datasets/dataset_forms.h"

/* Whether a name ends like an archive's. */
bool shards_suffix_known(const char *name);

/*
 * The archives of a source, in order: the file, those of a folder sorted by name, or those of a
 * pattern with one pair of braces, "x-{000..003}.tar" (as wide as the first number) or "{a,b}".
 * ST_USAGE: the braces; ST_IO: one of the pattern is missing.
 */
enum status shards_find(const struct dataset_source *source, struct texts *paths) MUST_CHECK;

/* Bytes in all, and the checksum of every file's first 64 KiB. */
enum status shards_checksum(const struct texts *paths, uint64_t *size, uint64_t *sum) MUST_CHECK;

#endif
