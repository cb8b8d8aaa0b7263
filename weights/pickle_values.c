/* pickle_values: the values of pickle.h, their memory, and which calls a pickle may make. */
#include <stdio.h>
#include <string.h>

#include "weights/pickle_internal.h"

#define BLOCK_BYTES ((size_t)1 << 18)

/* In front of every block. */
struct block {
    struct block *before;
    size_t size; /* bytes behind this header */
};

static void *take(struct pickle_memory *memory, const char *path, size_t bytes) {
    struct block *last = memory->blocks;
    bytes = (bytes + 15) / 16 * 16;
    if (!last || last->size - memory->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        if (size > PICKLE_MAX_MEMORY - memory->total) {
            (void)fail(ST_NOMEM, "%s: its pickle builds values of more than %zu MB", path,
                       PICKLE_MAX_MEMORY >> 20);
            return NULL;
        }
        last = mem_zalloc(1, sizeof *last + size);
        if (!last) return NULL;
        last->before = memory->blocks;
        last->size = size;
        memory->blocks = last;
        memory->used = 0;
        memory->total += size;
    }
    void *taken = (uint8_t *)(last + 1) + memory->used;
    memory->used += bytes;
    return taken;
}

void pickle_release(struct pickle_memory *memory) {
    for (struct block *block = memory->blocks, *before; block; block = before) {
        before = block->before;
        mem_free(block);
    }
    memset(memory, 0, sizeof *memory);
}

struct pickle_value *pickle_new(struct pickle_memory *memory, const char *path,
                                enum pickle_kind kind) {
    struct pickle_value *value = take(memory, path, sizeof *value);
    if (value) value->kind = kind;
    return value;
}

enum status pickle_adopt(const char *path, struct pickle_value *parent,
                         const struct pickle_value *child) {
    if (child->depth >= parent->depth) parent->depth = child->depth + 1;
    if (parent->depth <= PICKLE_MAX_DEPTH) return ST_OK;
    return fail(ST_FORMAT, "%s: its pickle nests values deeper than %d levels", path,
                PICKLE_MAX_DEPTH);
}

enum status pickle_append(struct pickle_memory *memory, const char *path, struct pickle_value *list,
                          struct pickle_value *item) {
    if (list->list.count == list->list.capacity) {
        size_t capacity = list->list.capacity ? 2 * list->list.capacity : 4;
        struct pickle_value **items = take(memory, path, capacity * sizeof(void *));
        if (!items) return ST_NOMEM;
        if (list->list.count) memcpy(items, list->list.items, list->list.count * sizeof(void *));
        list->list.items = items;
        list->list.capacity = capacity;
    }
    list->list.items[list->list.count++] = item;
    return pickle_adopt(path, list, item);
}

/* ---- what a pickle may call ---- */

/* Neither runs here; "_rebuild_" and the like end in '*': any name that begins so. */
static const struct {
    const char *module, *name;
    bool dict;
} calls[] = {
    {"collections", "OrderedDict", true},
    {"collections", "defaultdict", true},
    {"collections", "Counter", true},
    {"collections", "deque", false},
    {"torch._utils", "_rebuild_*", false},
    {"torch._tensor", "_rebuild_from_type_v2", false},
    {"torch.nn.parameter", "Parameter", false},
    {"torch", "Size", false},
    {"torch", "device", false},
    {"torch.serialization", "_get_layout", false},
    {"numpy", "dtype", false},
    {"numpy", "ndarray", false},
    {"numpy.core.multiarray", "scalar", false},
    {"numpy.core.multiarray", "_reconstruct", false},
    {"numpy._core.multiarray", "scalar", false},
    {"numpy._core.multiarray", "_reconstruct", false},
    {"numpy._core.numeric", "_frombuffer", false},
    {"numpy.core.numeric", "_frombuffer", false},
    {"_codecs", "encode", false},
    {"copyreg", "_reconstructor", false},
    {"copy_reg", "_reconstructor", false},
    {"builtins", "set", false},
    {"builtins", "frozenset", false},
    {"builtins", "bytearray", false},
    {"builtins", "bytes", false},
    {"builtins", "complex", false},
    {"builtins", "slice", false},
    {"builtins", "range", false},
    {"builtins", "object", false},
    {"__builtin__", "set", false},
    {"__builtin__", "frozenset", false},
    {"__builtin__", "bytearray", false},
    {"__builtin__", "bytes", false},
    {"__builtin__", "complex", false},
    {"__builtin__", "slice", false},
    {"__builtin__", "xrange", false},
    {"pathlib", "PosixPath", false},
    {"pathlib", "PurePosixPath", false},
    {"pathlib", "WindowsPath", false},
    {"pathlib", "PureWindowsPath", false},
    {"pathlib", "Path", false},
    {"pathlib._local", "PosixPath", false},
    {"datetime", "datetime", false},
    {"datetime", "date", false},
    {"datetime", "timedelta", false},
    {"uuid", "UUID", false},
    {"decimal", "Decimal", false},
    {"argparse", "Namespace", false},
    {"functools", "partial", false},
};

static bool same(const char *text, size_t size, const char *word) {
    size_t length = strlen(word);
    if (length && word[length - 1] == '*')
        return size >= length - 1 && memcmp(text, word, length - 1) == 0;
    return size == length && memcmp(text, word, length) == 0;
}

bool pickle_is_global(const struct pickle_value *value, const char *module, const char *name) {
    return value->kind == PICKLE_GLOBAL &&
           same(value->global.module, value->global.module_size, module) &&
           same(value->global.name, value->global.name_size, name);
}

bool pickle_may_call(const struct pickle_value *global, bool *dict) {
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        if (!pickle_is_global(global, calls[i].module, calls[i].name)) continue;
        *dict = calls[i].dict;
        return true;
    }
    return false;
}

bool pickle_is_call(const struct pickle_value *value, const char *module, const char *name) {
    return value->kind == PICKLE_OBJECT && pickle_is_global(value->object.callable, module, name);
}

/* ---- looking ---- */

bool pickle_is_text(const struct pickle_value *value, const char *text) {
    return value->kind == PICKLE_STRING && value->text.size == strlen(text) &&
           memcmp(value->text.bytes, text, value->text.size) == 0;
}

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key) {
    if (!dict || dict->kind != PICKLE_DICT) return NULL;
    for (size_t i = dict->list.count; i >= 2; i -= 2) {
        if (pickle_is_text(dict->list.items[i - 2], key)) return dict->list.items[i - 1];
    }
    return NULL;
}

const char *pickle_global_text(const struct pickle_value *global, char *buf, size_t size) {
    int module = (int)(global->global.module_size > 80 ? 80 : global->global.module_size);
    int name = (int)(global->global.name_size > 80 ? 80 : global->global.name_size);
    snprintf(buf, size, "%.*s.%.*s", module, global->global.module, name, global->global.name);
    return buf;
}

const char *pickle_describe(const struct pickle_value *value, char *buf, size_t size) {
    static const char *const words[] = {[PICKLE_NONE] = "None",
                                        [PICKLE_BOOL] = "a bool",
                                        [PICKLE_INTEGER] = "a number",
                                        [PICKLE_LONG] = "a number",
                                        [PICKLE_FLOAT] = "a number",
                                        [PICKLE_STRING] = "a text",
                                        [PICKLE_BYTES] = "bytes",
                                        [PICKLE_TUPLE] = "a tuple",
                                        [PICKLE_LIST] = "a list",
                                        [PICKLE_DICT] = "a dict",
                                        [PICKLE_PERSISTENT] = "a storage",
                                        [PICKLE_GLOBAL] = "a class",
                                        [PICKLE_OBJECT] = "an object"};
    const struct pickle_value *global = value;
    if (value->kind == PICKLE_OBJECT) global = value->object.callable;
    if (global->kind == PICKLE_GLOBAL) return pickle_global_text(global, buf, size);
    snprintf(buf, size, "%s", words[value->kind]);
    return buf;
}
