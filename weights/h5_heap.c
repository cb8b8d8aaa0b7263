/*
 * h5_heap: variable-length strings of an HDF5 file, looked up by hand (see h5_internal.h for why).
 *
 *   reference: u32 length, u64 address of a collection, u32 index of an object in it
 *   collection: "GCOL", u8 version 1, 3 bytes, u64 size; then objects
 *   object: u16 index, u16 reference count, 4 bytes, u64 size; data padded to 8; index 0 is the end
 *   (HDF5 File Format Specification, version 3.0, III.E)
 */
#include <string.h>
#include <sys/stat.h>

#include "weights/h5_internal.h"

static uint64_t little_endian(const uint8_t *bytes, int size) {
    uint64_t value = 0;
    while (size-- > 0)
        value = value << 8 | bytes[size];
    return value;
}

/*
 * Of a file being written: what HDF5 still holds goes to the file, and nothing read of it is
 * kept.
 */
static enum status settle(struct h5 *file) {
    struct stat info;
    if (H5Fflush(file->id, H5F_SCOPE_LOCAL) < 0 || fstat(file->fd, &info) != 0)
        return fail(ST_IO, "%s: cannot be written (%s)", file->name, h5_write_reason(file));
    file->size = (uint64_t)info.st_size;
    file->heap_steps = 8 * file->size + 65536;
    file->window_size = 0;
    return ST_OK;
}

/* *at becomes the offset of the object's data. */
static enum status find_object(struct h5 *file, const char *object, uint64_t collection,
                               uint64_t index, uint64_t length, uint64_t *at) {
    uint8_t head[16];
    uint64_t size, offset = sizeof head;
    TRY(h5_bytes(file, object, collection, head, sizeof head));
    size = little_endian(head + 8, 8);
    if (memcmp(head, "GCOL\1", 5) != 0 || size > file->size)
        return fail(ST_FORMAT, "%s: %s: a string points at no heap", file->name, object);
    while (offset + sizeof head <= size) {
        uint64_t stored;
        if (file->heap_steps == 0)
            return fail(ST_FORMAT, "%s: %s: strings cross-linked beyond the file's size",
                        file->name, object);
        file->heap_steps--;
        TRY(h5_bytes(file, object, collection + offset, head, sizeof head));
        stored = little_endian(head + 8, 8);
        if (little_endian(head, 2) == 0 || stored > size) break;
        if (little_endian(head, 2) == index) {
            if (stored < length || offset + sizeof head + stored > size) break;
            *at = collection + offset + sizeof head;
            return ST_OK;
        }
        offset += sizeof head + (stored + 7) / 8 * 8;
    }
    return fail(ST_FORMAT, "%s: %s: a string points at nothing in its heap", file->name, object);
}

enum status h5_heap_text(struct h5 *file, const char *object, const uint8_t *reference,
                         char **out) {
    uint64_t length = little_endian(reference, 4), collection = little_endian(reference + 4, 8);
    uint64_t index = little_endian(reference + 12, 4), at = 0;
    enum status st = ST_OK;
    char *bytes;
    if (file->writable) TRY(settle(file));
    if (length > H5_MAX_TEXT || length > file->size)
        return fail(ST_FORMAT, "%s: %s: a string of %llu bytes, at most %d are read", file->name,
                    object, (unsigned long long)length, H5_MAX_TEXT);
    bytes = mem_zalloc((size_t)length + 1, 1);
    if (!bytes) return ST_NOMEM;
    if (length > 0) {
        TRY_OUT(find_object(file, object, collection, index, length, &at));
        TRY_OUT(h5_bytes(file, object, at, bytes, (size_t)length));
    }
    st = h5_text_copy(file, object, bytes, (size_t)length, out);
out:
    mem_free(bytes);
    return st;
}

/* Control characters could drive a terminal or break a row of a table; notes may hold line ends. */
static bool text_ok(const char *text, size_t size, bool lines) {
    for (size_t i = 0, step; i < size; i += step) {
        step =
            lines && (text[i] == '\n' || text[i] == '\t') ? 1 : utf8_printable(text + i, size - i);
        if (step == 0) return false;
    }
    return true;
}

bool h5_name_ok(const char *name) {
    size_t size = strlen(name);
    return size > 0 && size <= H5_MAX_NAME && text_ok(name, size, false);
}

enum status h5_text_copy(struct h5 *file, const char *object, const char *bytes, size_t size,
                         char **out) {
    char *copy;
    while (size > 0 && bytes[size - 1] == 0)
        size--;
    if (size > H5_MAX_TEXT)
        return fail(ST_FORMAT, "%s: %s: a string of %zu bytes, at most %d are read", file->name,
                    object, size, H5_MAX_TEXT);
    if (!text_ok(bytes, size, true))
        return fail(ST_FORMAT, "%s: %s: a string with control characters or not in UTF-8",
                    file->name, object);
    copy = mem_zalloc(size + 1, 1);
    if (!copy) return ST_NOMEM;
    memcpy(copy, bytes, size);
    *out = copy;
    return ST_OK;
}
