/* sha256: the SHA-256 of bytes in memory or of a file, as hexadecimal text. */
#ifndef WEIGHTS_SHA256_H
#define WEIGHTS_SHA256_H

#include "kernels/base.h"

/* 64 lower-case digits and a final NUL into hex. ST_NOMEM when the library refuses. */
enum status sha256_hex(const void *bytes, size_t size, char hex[65]) MUST_CHECK;
/* Of `count` runs of bytes, one after the other. */
struct sha256_run {
    const void *bytes;
    size_t size;
};
enum status sha256_runs(const struct sha256_run *runs, size_t count, char hex[65]) MUST_CHECK;

/* The same of a whole file. ST_IO names it. */
enum status sha256_file(const char *path, char hex[65]) MUST_CHECK;

#endif
