/*
 * npz: see npz.h. libarchive reads the zip by its directory; entries that are stored it hands out
 * where they lie in the mapping, which costs nothing, others are unpacked once. Two passes: the
 * first adds up what the entries claim, so that nothing is unpacked of a file that claims too
 * much.
 */
#include "weights/npz.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <string.h>

#define ENTRIES_MAX 20000              /* ViT-g has 650 */
#define NAME_BYTES  1024               /* of an entry's name */
#define ROOM        ((size_t)32 << 20) /* unpacked, and four times the file's size */

struct reader {
    struct checkpoint *out;
    struct archive *archive;
    size_t entries, total; /* first pass: arrays, bytes unpacked */
    size_t room, used;     /* of out->memory */
};

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* No path: an entry's name becomes a tensor's, but one that climbs is no name of an honest file. */
static bool climbs(const char *name) {
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) return true;
    }
    return name[0] == '/';
}

static enum status archive_fault(const struct reader *r) {
    const char *text = archive_error_string(r->archive);
    return fail(ST_FORMAT, "%s: is a broken zip: %.200s", r->out->weights_path,
                text ? text : "no reason given");
}

/* The name and size of an entry; *name NULL: a folder. */
static enum status entry_head(const struct reader *r, struct archive_entry *entry,
                              const char **name, size_t *size) {
    const char *path = r->out->weights_path, *text = archive_entry_pathname(entry);
    *name = NULL;
    if (!text || strlen(text) > NAME_BYTES)
        return fail(ST_FORMAT, "%s: holds an entry whose name is no text or too long", path);
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 127)
            return fail(ST_FORMAT, "%s: holds an entry with a control character in its name", path);
    }
    if (climbs(text))
        return fail(ST_FORMAT, "%s: holds an entry called %.200s, which leaves the archive", path,
                    text);
    if (archive_entry_is_encrypted(entry))
        return fail(ST_FORMAT, "%s: %.200s is encrypted", path, text);
    if (ends_with(text, "/")) return ST_OK;
    if (!ends_with(text, ".npy") || strlen(text) == 4)
        return fail(ST_FORMAT, "%s: holds %.200s, which is no NumPy array", path, text);
    if (!archive_entry_size_is_set(entry) || archive_entry_size(entry) < 0)
        return fail(ST_FORMAT, "%s: %.200s has no size", path, text);
    *name = text;
    *size = (size_t)archive_entry_size(entry);
    return ST_OK;
}

/* First pass. */
static enum status count_entry(struct reader *r, const char *name, size_t size) {
    size_t limit = ROOM;
    (void)name;
    if (!size_mul(r->out->map_size, 4, &limit) || !size_add(limit, ROOM, &limit)) limit = SIZE_MAX;
    if (++r->entries > ENTRIES_MAX)
        return fail(ST_FORMAT, "%s: holds more than %d arrays", r->out->weights_path, ENTRIES_MAX);
    if (size_add(r->total, size, &r->total) && r->total <= limit) return ST_OK;
    return fail(ST_FORMAT, "%s: %zu bytes that unpack to more than %zu", r->out->weights_path,
                r->out->map_size, limit);
}

/* The entry's bytes: in the mapping when they lie there in one piece, else in out->memory. */
static enum status entry_data(struct reader *r, const char *name, size_t size,
                              const uint8_t **data) {
    const uint8_t *map = r->out->map, *begin = NULL;
    uint8_t *memory = (uint8_t *)r->out->memory + r->used;
    bool direct = true;
    size_t have = 0, length;
    const void *block;
    int64_t offset;
    int code;
    while ((code = archive_read_data_block(r->archive, &block, &length, &offset)) == ARCHIVE_OK) {
        if (length == 0) continue;
        if (length > size - have || (uint64_t)offset != have)
            return fail(ST_FORMAT, "%s: %.200s unpacks to more than its %zu bytes",
                        r->out->weights_path, name, size);
        const uint8_t *bytes = block;
        const bool mapped = bytes >= map && bytes < map + r->out->map_size;
        if (direct && (!mapped || (begin && bytes != begin + have))) {
            if (begin) memcpy(memory, begin, have);
            direct = false;
        }
        if (!direct) memcpy(memory + have, bytes, length);
        if (!begin) begin = bytes;
        have += length;
    }
    if (code != ARCHIVE_EOF) return archive_fault(r);
    if (have != size)
        return fail(ST_FORMAT, "%s: %.200s unpacks to %zu bytes, not to its %zu",
                    r->out->weights_path, name, have, size);
    *data = direct ? begin : memory;
    if (!direct) r->used += size;
    return ST_OK;
}

/* Second pass. */
static enum status read_entry(struct reader *r, const char *name, size_t size) {
    struct checkpoint *out = r->out;
    const uint8_t *data = NULL;
    char what[1400];
    if (out->count == r->entries || size > r->room - r->used)
        return fail(ST_FORMAT, "%s: is a zip that changes while it is read", out->weights_path);
    struct tensor *tensor = &out->tensors[out->count];
    snprintf(what, sizeof what, "%.400s: %.900s", out->weights_path, name);
    TRY(entry_data(r, name, size, &data));
    TRY(npy_parse(data ? data : (const uint8_t *)"", size, what, tensor));
    tensor->name = str_format("%.*s", (int)strlen(name) - 4, name);
    if (!tensor->name) return ST_NOMEM;
    out->count++;
    return ST_OK;
}

static enum status each_entry(struct reader *r,
                              enum status (*visit)(struct reader *, const char *, size_t)) {
    struct archive_entry *entry;
    const char *name;
    size_t size = 0;
    enum status st = ST_OK;
    int code = ARCHIVE_OK;
    r->archive = archive_read_new();
    if (!r->archive) return fail(ST_NOMEM, "%s: no memory for a zip", r->out->weights_path);
    if (archive_read_support_format_zip_seekable(r->archive) != ARCHIVE_OK ||
        archive_read_open_memory(r->archive, r->out->map, r->out->map_size) != ARCHIVE_OK)
        st = archive_fault(r);
    while (st == ST_OK && (code = archive_read_next_header(r->archive, &entry)) == ARCHIVE_OK) {
        st = entry_head(r, entry, &name, &size);
        if (st == ST_OK && name) st = visit(r, name, size);
    }
    if (st == ST_OK && code != ARCHIVE_EOF) st = archive_fault(r);
    archive_read_free(r->archive);
    return st;
}

enum status npz_parse(struct checkpoint *out) {
    struct reader r = {.out = out};
    TRY(each_entry(&r, count_entry));
    if (r.entries == 0) return fail(ST_FORMAT, "%s: holds no arrays", out->weights_path);
    out->tensors = mem_zalloc(r.entries, sizeof *out->tensors);
    out->memory = mem_zalloc(r.total + 1, 1); /* pages that nothing is unpacked to cost nothing */
    if (!out->tensors || !out->memory) return ST_NOMEM;
    r.room = r.total;
    TRY(each_entry(&r, read_entry));
    return tensors_sort(out->tensors, out->count, out->weights_path);
}
