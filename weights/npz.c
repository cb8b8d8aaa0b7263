/*
 * npz: see npz.h. The zip's directory (zip.h) says where entries lie: stored ones stay in the
 * mapping, which costs nothing, others are unpacked once. Two passes: the first adds up what the
 * entries claim, so that nothing is unpacked of a file that claims too much.
 */
#include "weights/npz.h"

#include <stdio.h>
#include <string.h>

#include "weights/zip.h"

#define ENTRIES_MAX 20000              /* ViT-g has 650 */
#define NAME_BYTES  1024               /* of an entry's name */
#define SUFFIX      4                  /* bytes of ".npy" */
#define ROOM        ((size_t)32 << 20) /* unpacked, and four times the file's size */

static bool is_folder(const struct zip_entry *e) {
    return e->name[e->name_length - 1] == '/';
}

static enum status check_name(const struct zip_entry *e, const char *path) {
    const size_t length = e->name_length;
    if (length > NAME_BYTES)
        return fail(ST_FORMAT, "%s: holds an entry whose name has %zu bytes, want at most %d", path,
                    length, NAME_BYTES);
    if (length > SUFFIX && memcmp(e->name + length - SUFFIX, ".npy", SUFFIX) == 0) return ST_OK;
    return fail(ST_FORMAT, "%s: holds %.*s, which is no NumPy array", path,
                (int)(length > 200 ? 200 : length), e->name);
}

/* First pass: how many arrays, and the bytes that are to be unpacked. */
static enum status count_entries(const struct checkpoint *c, const struct zip *zip, size_t *arrays,
                                 size_t *room) {
    size_t limit = ROOM, total = 0;
    if (!size_mul(c->map_size, 4, &limit) || !size_add(limit, ROOM, &limit)) limit = SIZE_MAX;
    for (size_t i = 0; i < zip->count; i++) {
        const struct zip_entry *e = &zip->entries[i];
        if (is_folder(e)) continue;
        TRY(check_name(e, c->weights_path));
        if (++*arrays > ENTRIES_MAX)
            return fail(ST_FORMAT, "%s: holds more than %d arrays", c->weights_path, ENTRIES_MAX);
        if (!size_add(total, e->full_size, &total) || total > limit)
            return fail(ST_FORMAT, "%s: %zu bytes that unpack to more than %zu", c->weights_path,
                        c->map_size, limit);
        if (e->method != ZIP_STORED) *room += e->full_size;
    }
    if (*arrays == 0) return fail(ST_FORMAT, "%s: holds no arrays", c->weights_path);
    return ST_OK;
}

/* Second pass; *used of out->memory. */
static enum status read_entry(struct checkpoint *out, const struct zip_entry *e, size_t *used) {
    struct tensor *tensor = &out->tensors[out->count];
    const int length = (int)e->name_length;
    const uint8_t *data = NULL;
    char what[1400];
    snprintf(what, sizeof what, "%.400s: %.*s", out->weights_path, length > 900 ? 900 : length,
             e->name);
    TRY(zip_unpack(e, out->weights_path, (uint8_t *)out->memory + *used, &data));
    if (e->method != ZIP_STORED) *used += e->full_size;
    TRY(npy_parse(data, e->full_size, what, tensor));
    tensor->name = str_format("%.*s", length - SUFFIX, e->name);
    if (!tensor->name) return ST_NOMEM;
    out->count++;
    return ST_OK;
}

enum status npz_parse(struct checkpoint *out) {
    size_t arrays = 0, room = 0, used = 0;
    struct zip zip;
    enum status st;
    TRY(zip_open(out->map, out->map_size, out->weights_path, &zip));
    TRY_OUT(count_entries(out, &zip, &arrays, &room));
    out->tensors = mem_zalloc(arrays, sizeof *out->tensors);
    out->memory = mem_zalloc(room + 1, 1); /* pages that nothing is unpacked to cost nothing */
    st = out->tensors && out->memory ? ST_OK : ST_NOMEM;
    for (size_t i = 0; i < zip.count && st == ST_OK; i++) {
        if (!is_folder(&zip.entries[i])) st = read_entry(out, &zip.entries[i], &used);
    }
    if (st == ST_OK) st = tensors_sort(out->tensors, out->count, out->weights_path);
out:
    zip_release(&zip);
    return st;
}
