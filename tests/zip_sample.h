/*
 * zip_sample: zip archives assembled by hand, honest and lying, for the tests and fuzzers of their
 * readers.
 */
#ifndef TESTS_ZIP_SAMPLE_H
#define TESTS_ZIP_SAMPLE_H

#include "kernels/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct sample_entry {
    const char *name;
    const void *data;
    size_t size;
    int method;       /* 0: stored */
    size_t full_size; /* when compressed */
    int wide;         /* 1: sizes and offset in a zip64 field; 2: and the size lies */
};

struct sample {
    uint8_t *bytes;
    size_t size, capacity;
};

static inline void sample_put(struct sample *s, const void *bytes, size_t size) {
    if (s->size + size > s->capacity) {
        s->capacity = 2 * (s->size + size);
        s->bytes = realloc(s->bytes, s->capacity);
        if (!s->bytes) abort();
    }
    if (size) memcpy(s->bytes + s->size, bytes, size);
    s->size += size;
}

static inline void sample_number(struct sample *s, uint64_t value, int bytes) {
    uint8_t at[8];
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
    sample_put(s, at, (size_t)bytes);
}

/* One entry's header, local (central false) or of the directory. */
static inline void sample_header(struct sample *s, const struct sample_entry *e, uint32_t crc,
                                 size_t offset, bool central) {
    const bool wide = central && e->wide;
    sample_put(s, central ? "PK\1\2" : "PK\3\4", 4);
    if (central) sample_number(s, 20, 2);
    sample_number(s, 20, 2);
    sample_number(s, 0, 2); /* flags */
    sample_number(s, (uint64_t)e->method, 2);
    sample_number(s, 0, 4); /* time, date */
    sample_number(s, crc, 4);
    sample_number(s, wide ? UINT32_MAX : e->size, 4);
    sample_number(s, wide ? UINT32_MAX : e->method ? e->full_size : e->size, 4);
    sample_number(s, strlen(e->name), 2);
    sample_number(s, wide ? 4 + 24 : 0, 2);
    if (central) {
        sample_number(s, 0, 4); /* comment, disk */
        sample_number(s, 0, 2);
        sample_number(s, 0, 4);
        sample_number(s, wide ? UINT32_MAX : offset, 4);
    }
    sample_put(s, e->name, strlen(e->name));
    if (!wide) return;
    sample_number(s, 1, 2);
    sample_number(s, 24, 2);
    sample_number(s, e->wide == 2 ? UINT64_MAX / 2 : e->size, 8);
    sample_number(s, e->wide == 2 ? UINT64_MAX / 2 : e->size, 8);
    sample_number(s, offset, 8);
}

/* With checksums crc (count), or NULL: none, which torch can be told to write. */
static inline struct sample sample_zip_checked(const struct sample_entry *entries,
                                               const uint32_t *crc, size_t count) {
    struct sample s = {0};
    size_t offsets[64], begin, size;
    for (size_t i = 0; i < count; i++) {
        offsets[i] = s.size;
        sample_header(&s, &entries[i], crc ? crc[i] : 0, 0, false);
        sample_put(&s, entries[i].data, entries[i].size);
    }
    begin = s.size;
    for (size_t i = 0; i < count; i++)
        sample_header(&s, &entries[i], crc ? crc[i] : 0, offsets[i], true);
    size = s.size - begin;
    sample_put(&s, "PK\5\6\0\0\0\0", 8);
    sample_number(&s, count, 2);
    sample_number(&s, count, 2);
    sample_number(&s, size, 4);
    sample_number(&s, begin, 4);
    sample_number(&s, 0, 2);
    return s;
}

static inline struct sample sample_zip(const struct sample_entry *entries, size_t count) {
    return sample_zip_checked(entries, NULL, count);
}

/* An honest entry of the bytes, as Python's zipfile packs them. */
struct sample_member {
    const char *name;
    const uint8_t *data;
    size_t size;
};

/* Raw deflate of level 6 into fresh memory. */
static inline uint8_t *sample_deflate(const uint8_t *data, size_t size, size_t *packed) {
    z_stream z = {0};
    if (deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    const uLong bound = deflateBound(&z, (uLong)size);
    uint8_t *out = malloc(bound + 1);
    if (!out) abort();
    z.next_in = (z_const Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)bound;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    *packed = z.total_out;
    deflateEnd(&z);
    return out;
}

/* At most 64 members; with checksums. */
static inline struct sample sample_pack(const struct sample_member *members, size_t count,
                                        bool packed) {
    struct sample_entry entries[64] = {{0}};
    uint8_t *data[64] = {NULL};
    uint32_t crc[64];
    struct sample s;
    if (count > COUNT_OF(entries)) abort();
    for (size_t i = 0; i < count; i++) {
        const struct sample_member *m = &members[i];
        struct sample_entry *e = &entries[i];
        crc[i] = (uint32_t)crc32(crc32(0, NULL, 0), m->data, (uInt)m->size);
        *e = (struct sample_entry){.name = m->name, .data = m->data, .size = m->size};
        if (!packed) continue;
        e->data = data[i] = sample_deflate(m->data, m->size, &e->size);
        e->method = 8;
        e->full_size = m->size;
    }
    s = sample_zip_checked(entries, crc, count);
    for (size_t i = 0; i < count; i++)
        free(data[i]);
    return s;
}

#endif
