/*
 * dataset_gunzip: a file compressed by gzip as a stream of bytes, its checksums held against what
 * came of it; libarchive's own reader of gzip passes over them.
 */
#ifndef DATASETS_DATASET_GUNZIP_H
#define DATASETS_DATASET_GUNZIP_H

#include "kernels/base.h"

struct gunzip;

/*
 * *out = NULL for what is no regular file, or begins otherwise. ST_IO, ST_NOMEM: the sentence does
 * not begin with the path.
 */
enum status gunzip_open(const char *path, struct gunzip **out) MUST_CHECK;
void gunzip_close(struct gunzip *gunzip); /* NULL is nothing */

/*
 * The next bytes, at least one and valid until the next call; *size = 0 at the end. What stands
 * behind the last member and begins like none is passed over. ST_FORMAT: damaged, or it ends early;
 * ST_IO.
 */
enum status gunzip_read(struct gunzip *gunzip, const uint8_t **bytes, size_t *size) MUST_CHECK;

#endif
