/*
 * zip: the entries of a zip archive as places in its mapping (PKWARE APPNOTE 6.3, zip64
 * included). For readers that want to point at the bytes where they lie: nothing is unpacked or
 * copied, which is why this is not libarchive, whose readers do not say where an entry lies.
 */
#ifndef WEIGHTS_ZIP_H
#define WEIGHTS_ZIP_H

#include "kernels/base.h"

struct zip_entry {
    const char *name; /* (name_length), in the mapping, no NUL behind it */
    size_t name_length;
    int method; /* 0: stored as it is */
    uint32_t crc;
    const uint8_t *data; /* (size), in the mapping */
    size_t size;         /* bytes in the file */
    size_t full_size;    /* bytes unpacked, as the archive claims */
};

struct zip {
    struct zip_entry *entries; /* (count), sorted by name, owned */
    size_t count;
};

/*
 * Reads the central directory. Refused: encrypted or split archives, names that are empty,
 * absolute, hold "..", '\\' or control characters or are there twice, entries that overlap or lie
 * outside of the file, a stored entry of two sizes, a local header of another name. ST_FORMAT,
 * ST_NOMEM; `path` names the file in the sentence. zip_release works on a zeroed zip, and twice.
 */
enum status zip_open(const uint8_t *bytes, size_t size, const char *path,
                     struct zip *out) MUST_CHECK;
void zip_release(struct zip *zip);
/* NULL when there is none of that name. */
const struct zip_entry *zip_find(const struct zip *zip, const char *name, size_t length);

#endif
