/*
 * torch: the two layouts of torch.save (torch/serialization.py, _save and _legacy_save;
 * caffe2/serialize/inline_container.cc):
 *
 *   zip      ROOT/data.pkl (the object), ROOT/data/KEY (a storage), ROOT/byteorder, ...
 *            all of them stored, so that a storage is a place in the mapping
 *   legacy   five pickles - magic number, protocol 1001, system, object, list of keys -
 *            and for every key an int64 count of elements and the elements
 */
#include "weights/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "weights/zip.h"

#define PICKLE_NAME "data.pkl"

/* The magic number 0x1950a86a20f9469cfc6c as pickled. */
static const char magic[] = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
#define MAGIC_BYTES (sizeof magic - 1)

static int by_key(const void *a, const void *b) {
    const struct torch_storage *x = a, *y = b;
    int order = memcmp(x->key, y->key, x->key_size < y->key_size ? x->key_size : y->key_size);
    return order ? order : (x->key_size > y->key_size) - (x->key_size < y->key_size);
}

static struct torch_storage *find_storage(const struct torch_file *file, const char *key,
                                          size_t size) {
    const struct torch_storage wanted = {.key = key, .key_size = size};
    if (file->count == 0) return NULL;
    return bsearch(&wanted, file->storages, file->count, sizeof wanted, by_key);
}

const struct torch_storage *torch_storage_use(const struct torch_file *file, const char *key,
                                              size_t size) {
    struct torch_storage *found = find_storage(file, key, size);
    if (found) found->used = true;
    return found;
}

/* ---- zip ------------------------------------------------------------------------------------- */

static bool is_torch_zip(const uint8_t *bytes, size_t size) {
    struct zip zip;
    bool found = false;
    if (size < 4 || memcmp(bytes, "PK\3\4", 4) != 0) return false;
    /* A broken archive is read again by the parser, which says what is wrong with it. */
    if (zip_open(bytes, size, "", &zip) != ST_OK) {
        size_t head = size > 4096 ? 4096 : size;
        for (size_t i = 0; !found && i + 8 <= head; i++)
            found = memcmp(bytes + i, PICKLE_NAME, 8) == 0;
        return found;
    }
    for (size_t i = 0; !found && i < zip.count; i++) {
        const struct zip_entry *e = &zip.entries[i];
        found = e->name_length >= 8 && memcmp(e->name + e->name_length - 8, PICKLE_NAME, 8) == 0;
    }
    zip_release(&zip);
    return found;
}

/* The one entry ROOT/data.pkl, whose ROOT has no slash. */
static enum status find_pickle(const struct zip *zip, const char *path,
                               const struct zip_entry **out) {
    *out = NULL;
    for (size_t i = 0; i < zip->count; i++) {
        const struct zip_entry *e = &zip->entries[i];
        const char *slash = memchr(e->name, '/', e->name_length);
        size_t root = slash ? (size_t)(slash - e->name) : 0;
        if (root == 0 || e->name_length - root - 1 != strlen(PICKLE_NAME) ||
            memcmp(slash + 1, PICKLE_NAME, strlen(PICKLE_NAME)) != 0)
            continue;
        if (*out) return fail(ST_FORMAT, "%s: two PyTorch archives in one file", path);
        *out = e;
    }
    if (*out) return ST_OK;
    return fail(ST_FORMAT, "%s: a zip archive without a %s in a folder of its own", path,
                PICKLE_NAME);
}

/* ROOT/name, with the slash behind ROOT at `root`. */
static const struct zip_entry *beside(const struct zip *zip, const struct zip_entry *pickle,
                                      const char *name) {
    char whole[600];
    int root = (int)(pickle->name_length - strlen(PICKLE_NAME));
    int length = snprintf(whole, sizeof whole, "%.*s%s", root, pickle->name, name);
    return length < (int)sizeof whole ? zip_find(zip, whole, (size_t)length) : NULL;
}

static enum status check_archive(const struct zip *zip, const struct zip_entry *pickle,
                                 const char *path) {
    const struct zip_entry *order = beside(zip, pickle, "byteorder");
    if (beside(zip, pickle, "constants.pkl"))
        return fail(ST_FORMAT,
                    "%s: a TorchScript archive (a program, torch.jit.save); vitrine reads "
                    "state_dicts: torch.save(model.state_dict(), ...)",
                    path);
    for (size_t i = 0; i < zip->count; i++) {
        const struct zip_entry *e = &zip->entries[i];
        if (e->method != 0)
            return fail(ST_FORMAT,
                        "%s: zip entry %.*s is compressed (method %d), which torch.save never does",
                        path, (int)(e->name_length > 80 ? 80 : e->name_length), e->name, e->method);
    }
    if (order && (order->size != 6 || memcmp(order->data, "little", 6) != 0))
        return fail(ST_FORMAT, "%s: its numbers are of byte order '%.*s', want little", path,
                    (int)(order->size > 16 ? 16 : order->size), (const char *)order->data);
    /* torch can be told to leave checksums out (0). */
    if (pickle->size > UINT32_MAX ||
        (pickle->crc && crc32(0, pickle->data, (uInt)pickle->size) != pickle->crc))
        return fail(ST_FORMAT, "%s: the checksum of its %s is wrong: the file is damaged", path,
                    PICKLE_NAME);
    return ST_OK;
}

static enum status zip_storages(const struct zip *zip, const struct zip_entry *pickle,
                                struct torch_file *file) {
    size_t root = pickle->name_length - strlen(PICKLE_NAME);
    file->storages = mem_zalloc(zip->count, sizeof *file->storages);
    if (!file->storages) return ST_NOMEM;
    for (size_t i = 0; i < zip->count; i++) {
        const struct zip_entry *e = &zip->entries[i];
        if (e->name_length <= root + 5 || memcmp(e->name, pickle->name, root) != 0 ||
            memcmp(e->name + root, "data/", 5) != 0)
            continue;
        file->storages[file->count++] =
            (struct torch_storage){.key = e->name + root + 5,
                                   .key_size = e->name_length - root - 5,
                                   .bytes = e->data,
                                   .size = e->size,
                                   .crc = e->crc};
    }
    return ST_OK; /* sorted, as the entries are */
}

/* The bytes of the model's tensors are those that were written; torch itself does not look. */
static enum status check_storages(const struct torch_file *file) {
    for (size_t i = 0; i < file->count; i++) {
        const struct torch_storage *s = &file->storages[i];
        if (!s->used || !s->crc || crc32_z(0, s->bytes, s->size) == s->crc) continue;
        return fail(ST_FORMAT, "%s: the checksum of storage %.*s is wrong: the file is damaged",
                    file->path, (int)(s->key_size > 80 ? 80 : s->key_size), s->key);
    }
    return ST_OK;
}

static enum status parse_zip(struct checkpoint *out) {
    struct torch_file file = {.path = out->weights_path};
    struct pickle_memory memory = {0};
    const struct zip_entry *pickle = NULL;
    struct zip zip;
    enum status st;
    TRY(zip_open(out->map, out->map_size, file.path, &zip));
    TRY_OUT(find_pickle(&zip, file.path, &pickle));
    TRY_OUT(check_archive(&zip, pickle, file.path));
    TRY_OUT(zip_storages(&zip, pickle, &file));
    TRY_OUT(pickle_load(&memory, pickle->data, pickle->size, file.path, &file.value, NULL));
    TRY_OUT(torch_tensors(&file, out));
    TRY_OUT(check_storages(&file));
out:
    pickle_release(&memory);
    mem_free(file.storages);
    zip_release(&zip);
    return st;
}

const struct container torch_zip = {"PyTorch", is_torch_zip, parse_zip};

/* ---- legacy ---------------------------------------------------------------------------------- */

static bool is_torch_legacy(const uint8_t *bytes, size_t size) {
    /* Protocol 4 has a frame between the protocol and the number. */
    for (size_t at = 2; size >= 2 && bytes[0] == 0x80 && at <= 11; at += 9) {
        if (size >= at + MAGIC_BYTES && memcmp(bytes + at, magic, MAGIC_BYTES) == 0) return true;
    }
    return false;
}

struct legacy {
    struct torch_file *file;
    const uint8_t *bytes;
    size_t size, at;
    struct pickle_memory memory;
};

static enum status next_pickle(struct legacy *l, const struct pickle_value **out) {
    size_t used = 0;
    TRY(pickle_load(&l->memory, l->bytes + l->at, l->size - l->at, l->file->path, out, &used));
    l->at += used;
    return ST_OK;
}

static enum status check_system(const struct legacy *l, const struct pickle_value *protocol,
                                const struct pickle_value *system) {
    const struct pickle_value *little = pickle_get(system, "little_endian");
    if (protocol->kind != PICKLE_INTEGER || protocol->integer != 1001)
        return fail(ST_FORMAT, "%s: a PyTorch file of the old kind, of a version that is not 1001",
                    l->file->path);
    if (!little || little->kind != PICKLE_BOOL || !little->integer)
        return fail(ST_FORMAT, "%s: its numbers are not little-endian", l->file->path);
    return ST_OK;
}

/*
 * The element size of every storage, into its `size` for now: from the ('storage', TYPE, KEY, ...)
 * that the object's pickle holds.
 */
static enum status note_types(struct legacy *l) {
    const struct pickle_value *all = l->memory.persistent;
    for (size_t i = 0; all && i < all->list.count; i++) {
        const struct pickle_value *id = all->list.items[i]->list.items[0];
        const struct torch_type *type;
        struct torch_storage *storage;
        if (id->kind != PICKLE_TUPLE || id->list.count < 5 ||
            id->list.items[2]->kind != PICKLE_STRING)
            continue;
        type = torch_type_find(id->list.items[1]);
        storage =
            find_storage(l->file, id->list.items[2]->text.bytes, id->list.items[2]->text.size);
        if (!type || !storage) continue; /* said when a tensor needs it */
        if (storage->size && storage->size != type->size)
            return fail(ST_FORMAT, "%s: storage %.*s has elements of two sizes", l->file->path,
                        (int)(storage->key_size > 80 ? 80 : storage->key_size), storage->key);
        storage->size = type->size;
    }
    return ST_OK;
}

static enum status list_keys(struct legacy *l, const struct pickle_value *keys) {
    struct torch_file *file = l->file;
    if (keys->kind != PICKLE_LIST)
        return fail(ST_FORMAT, "%s: its storages are not listed", file->path);
    file->storages = mem_zalloc(keys->list.count + 1, sizeof *file->storages);
    if (!file->storages) return ST_NOMEM;
    for (size_t i = 0; i < keys->list.count; i++) {
        const struct pickle_value *key = keys->list.items[i];
        if (key->kind != PICKLE_STRING)
            return fail(ST_FORMAT, "%s: a storage whose key is no text", file->path);
        file->storages[file->count].key = key->text.bytes;
        file->storages[file->count++].key_size = key->text.size;
    }
    qsort(file->storages, file->count, sizeof *file->storages, by_key);
    for (size_t i = 1; i < file->count; i++) {
        if (by_key(&file->storages[i - 1], &file->storages[i]) == 0)
            return fail(ST_FORMAT, "%s: a storage is listed twice", file->path);
    }
    return ST_OK;
}

/* In the order of the list, which is that of the file. */
static enum status read_storages(struct legacy *l, const struct pickle_value *keys) {
    for (size_t i = 0; i < keys->list.count; i++) {
        const struct pickle_value *key = keys->list.items[i];
        struct torch_storage *storage = find_storage(l->file, key->text.bytes, key->text.size);
        const int shown = (int)(storage->key_size > 80 ? 80 : storage->key_size);
        uint64_t count = 0;
        size_t bytes = 0;
        if (l->size - l->at < 8)
            return fail(ST_FORMAT, "%s: cut short before storage %.*s", l->file->path, shown,
                        storage->key);
        for (int b = 7; b >= 0; b--)
            count = count << 8 | l->bytes[l->at + (size_t)b];
        l->at += 8;
        if (storage->size == 0)
            return fail(ST_FORMAT, "%s: storage %.*s is of no type that is known", l->file->path,
                        shown, storage->key);
        if (count > SIZE_MAX || !size_mul((size_t)count, storage->size, &bytes) ||
            bytes > l->size - l->at)
            return fail(ST_FORMAT, "%s: storage %.*s of %ju elements reaches beyond the file",
                        l->file->path, shown, storage->key, (uintmax_t)count);
        storage->bytes = l->bytes + l->at;
        storage->size = bytes;
        l->at += bytes;
    }
    if (l->at == l->size) return ST_OK;
    return fail(ST_FORMAT, "%s: %zu bytes after the last storage", l->file->path, l->size - l->at);
}

static enum status read_legacy(struct legacy *l, struct checkpoint *out) {
    const struct pickle_value *number = NULL, *protocol = NULL, *system = NULL, *keys = NULL;
    TRY(next_pickle(l, &number));
    TRY(next_pickle(l, &protocol));
    TRY(next_pickle(l, &system));
    TRY(check_system(l, protocol, system));
    TRY(next_pickle(l, &l->file->value));
    TRY(next_pickle(l, &keys));
    TRY(list_keys(l, keys));
    TRY(note_types(l));
    TRY(read_storages(l, keys));
    return torch_tensors(l->file, out);
}

static enum status parse_legacy(struct checkpoint *out) {
    struct torch_file file = {.path = out->weights_path};
    struct legacy l = {.file = &file, .bytes = out->map, .size = out->map_size};
    enum status st = read_legacy(&l, out);
    pickle_release(&l.memory);
    mem_free(file.storages);
    return st;
}

const struct container torch_legacy = {"PyTorch before 1.6", is_torch_legacy, parse_legacy};
