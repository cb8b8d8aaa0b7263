/* zip: see zip.h. Offsets and field names are those of APPNOTE 6.3, sections 4.3.7 to 4.3.16. */
#include "weights/zip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define END_BYTES     22 /* of the end record without its comment */
#define LOCATOR_BYTES 20 /* of the zip64 locator, right before the end record */
#define END64_BYTES   56
#define CENTRAL_BYTES 46
#define LOCAL_BYTES   30
#define ENTRIES_MAX   (2 * (size_t)65536) /* a storage for each tensor, and more */
#define DEFLATE_MOST  1032                /* bytes of one, at best (zlib's technical details) */
#define PIECE         ((size_t)1 << 30)   /* zlib counts in 32 bits */

struct reader {
    const uint8_t *bytes;
    size_t size;
    const char *path;
    size_t begin, end; /* of the central directory */
    uint64_t count;    /* entries that the end record claims */
};

/* Where an entry lies, header included: to find overlaps. */
struct extent {
    size_t begin, end;
    const struct zip_entry *entry;
};

static uint64_t number(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

static bool is_mark(const uint8_t *at, char a, char b) {
    return at[0] == 'P' && at[1] == 'K' && at[2] == (uint8_t)a && at[3] == (uint8_t)b;
}

/* A field of the end record: the zip64 one, unless the short one holds a value and another. */
static bool agree(uint64_t field, uint64_t most, uint64_t wide) {
    return field == most || field == wide;
}

/* The end record: the last one whose comment ends where the file does. */
static enum status find_end(const struct reader *r, size_t *out) {
    for (size_t back = END_BYTES; back <= r->size && back <= END_BYTES + 65535; back++) {
        const uint8_t *at = r->bytes + r->size - back;
        if (!is_mark(at, 5, 6) || number(at + 20, 2) != back - END_BYTES) continue;
        *out = r->size - back;
        return ST_OK;
    }
    return fail(ST_FORMAT, "%s: a zip archive without its end: cut short, or something behind it",
                r->path);
}

static enum status read_end(struct reader *r) {
    size_t end = 0, limit;
    TRY(find_end(r, &end));
    const uint8_t *at = r->bytes + end;
    uint64_t count = number(at + 10, 2), size = number(at + 12, 4), begin = number(at + 16, 4);
    uint64_t disks = number(at + 4, 2) | number(at + 6, 2);
    limit = end;
    if (end >= LOCATOR_BYTES && is_mark(at - LOCATOR_BYTES, 6, 7)) {
        uint64_t place = number(at - LOCATOR_BYTES + 8, 8);
        limit = end - LOCATOR_BYTES;
        if (limit < END64_BYTES || place > limit - END64_BYTES || !is_mark(r->bytes + place, 6, 6))
            return fail(ST_FORMAT, "%s: the zip64 locator points at no zip64 record", r->path);
        const uint8_t *wide = r->bytes + place;
        if (!agree(count, 0xffff, number(wide + 32, 8)) ||
            !agree(size, 0xffffffff, number(wide + 40, 8)) ||
            !agree(begin, 0xffffffff, number(wide + 48, 8)))
            return fail(ST_FORMAT, "%s: the two end records of the zip archive differ", r->path);
        count = number(wide + 32, 8);
        size = number(wide + 40, 8);
        begin = number(wide + 48, 8);
        disks = number(wide + 16, 4) | number(wide + 20, 4);
        limit = (size_t)place;
    }
    if (disks) return fail(ST_FORMAT, "%s: a part of a zip archive in several files", r->path);
    if (begin > limit || size > limit - begin)
        return fail(ST_FORMAT, "%s: the directory of the zip archive lies outside of the file",
                    r->path);
    r->begin = (size_t)begin;
    r->end = (size_t)(begin + size);
    r->count = count;
    return ST_OK;
}

static enum status check_name(const struct reader *r, const struct zip_entry *e) {
    const char *name = e->name, *part = name, *end = name + e->name_length;
    const char *why = e->name_length == 0 ? "is empty" : *name == '/' ? "is absolute" : NULL;
    for (const char *c = name; !why && c <= end; c++) {
        if (c == end || *c == '/') {
            if (c - part == 2 && part[0] == '.' && part[1] == '.') why = "leads out with ..";
            part = c + 1;
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '\\') {
            why = "holds a control character or a backslash";
        }
    }
    if (!why) return ST_OK;
    if (strncmp(why, "holds", 5) == 0)
        return fail(ST_FORMAT, "%s: a zip entry's name %s", r->path, why);
    return fail(ST_FORMAT, "%s: a zip entry's name %s: '%.*s'", r->path, why,
                (int)(e->name_length > 80 ? 80 : e->name_length), name);
}

/* The zip64 extra field: 8 bytes for each of the sizes and the offset that is all ones. */
static void read_wide(const uint8_t *extra, size_t length, uint64_t *full, uint64_t *size,
                      uint64_t *offset) {
    uint64_t *const fields[] = {full, size, offset};
    while (length >= 4) {
        size_t bytes = (size_t)number(extra + 2, 2), at = 0;
        if (bytes > length - 4) return;
        for (int i = 0; number(extra, 2) == 1 && i < 3; i++) {
            if (*fields[i] != 0xffffffff || bytes - at < 8) continue;
            *fields[i] = number(extra + 4 + at, 8);
            at += 8;
        }
        extra += 4 + bytes;
        length -= 4 + bytes;
    }
}

static enum status read_local(const struct reader *r, uint64_t offset, uint64_t size,
                              struct zip_entry *e, struct extent *extent) {
    const int shown = (int)(e->name_length > 80 ? 80 : e->name_length);
    size_t header = LOCAL_BYTES + e->name_length;
    if (offset > r->begin || header > r->begin - offset || !is_mark(r->bytes + offset, 3, 4) ||
        number(r->bytes + offset + 26, 2) != e->name_length ||
        memcmp(r->bytes + offset + LOCAL_BYTES, e->name, e->name_length) != 0)
        return fail(ST_FORMAT, "%s: zip entry %.*s is not where the directory says", r->path, shown,
                    e->name);
    header += (size_t)number(r->bytes + offset + 28, 2);
    if (header > r->begin - offset || size > r->begin - offset - header)
        return fail(ST_FORMAT, "%s: zip entry %.*s of %ju bytes reaches beyond the file", r->path,
                    shown, e->name, (uintmax_t)size);
    if (e->method == ZIP_STORED && size != e->full_size)
        return fail(ST_FORMAT, "%s: zip entry %.*s is stored, but has two sizes", r->path, shown,
                    e->name);
    if (e->method == ZIP_DEFLATED && e->full_size / DEFLATE_MOST > size)
        return fail(ST_FORMAT, "%s: zip entry %.*s claims %zu bytes, which %ju cannot unpack to",
                    r->path, shown, e->name, e->full_size, (uintmax_t)size);
    e->data = r->bytes + offset + header;
    e->size = (size_t)size;
    extent->begin = (size_t)offset;
    extent->end = (size_t)offset + header + (size_t)size;
    extent->entry = e;
    return ST_OK;
}

/* The entry at *at of the directory, and on to the next. */
static enum status read_entry(const struct reader *r, size_t *at, struct zip_entry *e,
                              struct extent *extent) {
    const uint8_t *c = r->bytes + *at;
    size_t left = r->end - *at, extra;
    uint64_t size, full, offset;
    if (left < CENTRAL_BYTES || !is_mark(c, 1, 2))
        return fail(ST_FORMAT, "%s: the directory of the zip archive is broken at byte %zu",
                    r->path, *at);
    e->name_length = (size_t)number(c + 28, 2);
    extra = (size_t)number(c + 30, 2);
    if (e->name_length + extra + (size_t)number(c + 32, 2) > left - CENTRAL_BYTES)
        return fail(ST_FORMAT, "%s: the directory of the zip archive is cut at byte %zu", r->path,
                    *at);
    e->name = (const char *)c + CENTRAL_BYTES;
    e->method = (int)number(c + 10, 2);
    e->crc = (uint32_t)number(c + 16, 4);
    size = number(c + 20, 4);
    full = number(c + 24, 4);
    offset = number(c + 42, 4);
    read_wide(c + CENTRAL_BYTES + e->name_length, extra, &full, &size, &offset);
    TRY(check_name(r, e));
    if (number(c + 8, 2) & 1) return fail(ST_FORMAT, "%s: the zip archive is encrypted", r->path);
    if (full > SIZE_MAX) full = SIZE_MAX;
    e->full_size = (size_t)full;
    *at += CENTRAL_BYTES + e->name_length + extra + (size_t)number(c + 32, 2);
    return read_local(r, offset, size, e, extent);
}

static int compare_names(const char *a, size_t a_length, const char *b, size_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    if (order) return order;
    return (a_length > b_length) - (a_length < b_length);
}

static int by_name(const void *a, const void *b) {
    const struct zip_entry *x = a, *y = b;
    return compare_names(x->name, x->name_length, y->name, y->name_length);
}

static int by_begin(const void *a, const void *b) {
    const struct extent *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static enum status check_extents(const struct reader *r, struct extent *extents, size_t count) {
    qsort(extents, count, sizeof *extents, by_begin);
    for (size_t i = 1; i < count; i++) {
        const struct zip_entry *e = extents[i].entry;
        if (extents[i].begin < extents[i - 1].end)
            return fail(ST_FORMAT, "%s: zip entry %.*s overlaps another", r->path,
                        (int)(e->name_length > 80 ? 80 : e->name_length), e->name);
    }
    return ST_OK;
}

static enum status read_entries(const struct reader *r, struct zip *out) {
    struct extent *extents = mem_zalloc((size_t)r->count, sizeof *extents);
    size_t at = r->begin;
    enum status st = ST_NOMEM;
    out->entries = mem_zalloc((size_t)r->count, sizeof *out->entries);
    if (!extents || !out->entries) goto out;
    for (st = ST_OK; st == ST_OK && out->count < r->count; out->count += st == ST_OK)
        st = read_entry(r, &at, &out->entries[out->count], &extents[out->count]);
    if (st == ST_OK && at != r->end)
        st = fail(ST_FORMAT, "%s: the directory of the zip archive is longer than its %ju entries",
                  r->path, (uintmax_t)r->count);
    if (st != ST_OK) goto out;
    TRY_OUT(check_extents(r, extents, out->count));
    qsort(out->entries, out->count, sizeof *out->entries, by_name);
    for (size_t i = 1; i < out->count; i++) {
        if (by_name(&out->entries[i - 1], &out->entries[i]) != 0) continue;
        st = fail(ST_FORMAT, "%s: zip entry %.*s is there twice", r->path,
                  (int)out->entries[i].name_length, out->entries[i].name);
        goto out;
    }
out:
    mem_free(extents);
    return st;
}

enum status zip_open(const uint8_t *bytes, size_t size, const char *path, struct zip *out) {
    struct reader r = {.bytes = bytes, .size = size, .path = path};
    enum status st;
    memset(out, 0, sizeof *out);
    TRY(read_end(&r));
    if (r.count > ENTRIES_MAX)
        return fail(ST_FORMAT, "%s: a zip archive of %ju entries, at most %zu are read", path,
                    (uintmax_t)r.count, ENTRIES_MAX);
    if (r.count > (r.end - r.begin) / CENTRAL_BYTES)
        return fail(ST_FORMAT, "%s: a zip archive of %ju entries in a directory of %zu bytes", path,
                    (uintmax_t)r.count, r.end - r.begin);
    if (r.count == 0) return fail(ST_FORMAT, "%s: an empty zip archive", path);
    st = read_entries(&r, out);
    if (st != ST_OK) zip_release(out);
    return st;
}

void zip_release(struct zip *zip) {
    mem_free(zip->entries);
    memset(zip, 0, sizeof *zip);
}

const struct zip_entry *zip_find(const struct zip *zip, const char *name, size_t length) {
    const struct zip_entry key = {.name = name, .name_length = length};
    if (zip->count == 0) return NULL;
    return bsearch(&key, zip->entries, zip->count, sizeof key, by_name);
}

/* ---- unpacking ------------------------------------------------------------------------------- */

static enum status damaged(const struct zip_entry *e, const char *path, const char *what) {
    return fail(ST_FORMAT, "%s: zip entry %.*s %s: the file is damaged", path,
                (int)(e->name_length > 80 ? 80 : e->name_length), e->name, what);
}

static size_t at_most(size_t size) {
    return size < PIECE ? size : PIECE;
}

/* Ends with the stream, with dst full or with the input used up; never writes beyond full_size. */
static enum status inflate_entry(const struct zip_entry *e, const char *path, uint8_t *dst) {
    z_stream stream = {0};
    size_t taken = 0, given = 0;
    uint8_t beyond; /* where a stream that is longer shows it; and a place for an empty one */
    int code = inflateInit2(&stream, -MAX_WBITS);
    if (code != Z_OK) return fail(ST_NOMEM, "%s: zlib does not start", path);
    while (code == Z_OK) {
        const size_t in = at_most(e->size - taken), room = at_most(e->full_size - given);
        stream.next_in = (z_const Bytef *)(uintptr_t)(e->data + taken);
        stream.avail_in = (uInt)in;
        stream.next_out = room ? dst + given : &beyond;
        stream.avail_out = room ? (uInt)room : 1;
        code = inflate(&stream, Z_NO_FLUSH);
        taken += in - stream.avail_in;
        if (room == 0 && stream.avail_out == 0) code = Z_BUF_ERROR;
        given += room ? room - stream.avail_out : 0;
    }
    inflateEnd(&stream);
    if (code == Z_MEM_ERROR) return fail(ST_NOMEM, "%s: no memory for zlib", path);
    if (code == Z_BUF_ERROR && given == e->full_size)
        return damaged(e, path, "unpacks to more than its size");
    if (code != Z_STREAM_END) return damaged(e, path, "does not unpack");
    if (given != e->full_size) return damaged(e, path, "unpacks to less than its size");
    if (taken != e->size) return damaged(e, path, "goes on behind its end");
    return ST_OK;
}

enum status zip_unpack(const struct zip_entry *entry, const char *path, uint8_t *dst,
                       const uint8_t **out) {
    uLong crc = crc32(0, NULL, 0);
    if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED)
        return fail(
            ST_FORMAT, "%s: zip entry %.*s is compressed by method %d, want deflate or none", path,
            (int)(entry->name_length > 80 ? 80 : entry->name_length), entry->name, entry->method);
    if (entry->method == ZIP_DEFLATED) TRY(inflate_entry(entry, path, dst));
    *out = entry->method == ZIP_STORED ? entry->data : dst;
    for (size_t at = 0; at < entry->full_size; at += PIECE)
        crc = crc32(crc, *out + at, (uInt)at_most(entry->full_size - at));
    return crc == entry->crc ? ST_OK : damaged(entry, path, "has another checksum");
}
