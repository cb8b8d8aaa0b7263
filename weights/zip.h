/*
 * zip: the entries of a zip archive as places in its mapping (PKWARE APPNOTE 6.3, zip64
 * included). Readers point at stored bytes where they lie; deflated ones are unpacked by
 * zip_unpack. Only the central directory is believed: what local headers say is held against it.
 */
#ifndef WEIGHTS_ZIP_H
#define WEIGHTS_ZIP_H

#include "kernels/base.h"

#define ZIP_STORED   0
#define ZIP_DEFLATED 8

struct zip_entry {
    const char *name; /* (name_length), in the mapping, no NUL behind it */
    size_t name_length;
    int method; /* ZIP_STORED, ZIP_DEFLATED, or one that zip_unpack refuses */
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
 * outside of the file, a stored entry of two sizes, a deflated one that claims more than 1032 bytes
 * for each of its own (no deflate stream has more), a local header of another name. ST_FORMAT,
 * ST_NOMEM; `path` names the file in the sentence. zip_release works on a zeroed zip, and twice.
 */
enum status zip_open(const uint8_t *bytes, size_t size, const char *path,
                     struct zip *out) MUST_CHECK;
void zip_release(struct zip *zip);
/* NULL when there is none of that name. */
const struct zip_entry *zip_find(const struct zip *zip, const char *name, size_t length);
/*
 * The entry's bytes (full_size) as *out: in the mapping when they are stored, else unpacked into
 * dst (full_size), which the caller has bounded. Exactly that many, and their checksum holds.
 * ST_FORMAT, ST_NOMEM; `path` names the file in the sentence.
 */
enum status zip_unpack(const struct zip_entry *entry, const char *path, uint8_t *dst,
                       const uint8_t **out) MUST_CHECK;

#endif
