/*
 * torch_rebuild: a pickled tensor - torch._utils._rebuild_tensor_v2(storage, offset, size, stride,
 * ...) and its kin (torch/_utils.py, torch/_tensor.py) - as a view of its storage.
 */
#include <string.h>

#include "weights/torch.h"

/* torch/storage.py, torch/types: by class of storage, and by torch.dtype. */
static const struct torch_type types[] = {
    {"FloatStorage", "float32", DT_F32, 4},
    {"HalfStorage", "float16", DT_F16, 2},
    {"BFloat16Storage", "bfloat16", DT_BF16, 2},
    {"DoubleStorage", "float64", DT_F64, 8},
    {"LongStorage", "int64", DT_I64, 8},
    {"IntStorage", "int32", DT_I32, 4},
    {"ShortStorage", "int16", DT_I16, 2},
    {"CharStorage", "int8", DT_I8, 1},
    {"ByteStorage", "uint8", DT_U8, 1},
    {"BoolStorage", "bool", DT_BOOL, 1},
    {"ComplexFloatStorage", "complex64", DT_OTHER, 8},
    {"ComplexDoubleStorage", "complex128", DT_OTHER, 16},
    {"QInt8Storage", "qint8", DT_OTHER, 1},
    {"QUInt8Storage", "quint8", DT_OTHER, 1},
    {"QInt32Storage", "qint32", DT_OTHER, 4},
    {NULL, "complex32", DT_OTHER, 4},
    {NULL, "uint16", DT_OTHER, 2},
    {NULL, "uint32", DT_OTHER, 4},
    {NULL, "uint64", DT_OTHER, 8},
    {NULL, "float8_e4m3fn", DT_OTHER, 1},
    {NULL, "float8_e5m2", DT_OTHER, 1},
    {NULL, "float8_e4m3fnuz", DT_OTHER, 1},
    {NULL, "float8_e5m2fnuz", DT_OTHER, 1},
    {NULL, "float8_e8m0fnu", DT_OTHER, 1},
};
static const struct torch_type untyped = {"UntypedStorage", NULL, DT_OTHER, 1};

const struct torch_type *torch_type_find(const struct pickle_value *global) {
    if (pickle_is_global(global, "torch.storage", "UntypedStorage") ||
        pickle_is_global(global, "torch", "UntypedStorage"))
        return &untyped;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if ((types[i].storage && (pickle_is_global(global, "torch", types[i].storage) ||
                                  pickle_is_global(global, "torch.cuda", types[i].storage))) ||
            pickle_is_global(global, "torch", types[i].name))
            return &types[i];
    }
    return NULL;
}

bool torch_is_tensor(const struct pickle_value *value) {
    return pickle_is_call(value, "torch._utils", "_rebuild_*") ||
           pickle_is_call(value, "torch._tensor", "_rebuild_from_type_v2") ||
           pickle_is_call(value, "torch.nn.parameter", "Parameter");
}

/* What the wrappers of a tensor (a Parameter, a subclass) hold: one of the _rebuild_tensor. */
static const struct pickle_value *unwrap(const struct pickle_value *value,
                                         struct pickle_value *inner) {
    for (int i = 0; i < 4 && value->kind == PICKLE_OBJECT; i++) {
        const struct pickle_value *args = value->object.args;
        if (args->list.count >= 1 &&
            (pickle_is_call(value, "torch._utils", "_rebuild_parameter") ||
             pickle_is_call(value, "torch._utils", "_rebuild_parameter_with_state") ||
             pickle_is_call(value, "torch.nn.parameter", "Parameter"))) {
            value = args->list.items[0];
        } else if (args->list.count >= 3 &&
                   pickle_is_call(value, "torch._tensor", "_rebuild_from_type_v2") &&
                   args->list.items[0]->kind == PICKLE_GLOBAL &&
                   args->list.items[2]->kind == PICKLE_TUPLE) {
            *inner = (struct pickle_value){.kind = PICKLE_OBJECT};
            inner->object.callable = args->list.items[0];
            inner->object.args = args->list.items[2];
            value = inner;
        } else {
            break;
        }
    }
    return value;
}

/* The arguments of one of the _rebuild_tensor, NULL for another thing; *dtype: the one of v3. */
static const struct pickle_value *arguments(const struct pickle_value *value,
                                            const struct pickle_value **dtype) {
    bool v3 = pickle_is_call(value, "torch._utils", "_rebuild_tensor_v3");
    *dtype = NULL;
    if (!v3 && !pickle_is_call(value, "torch._utils", "_rebuild_tensor_v2") &&
        !pickle_is_call(value, "torch._utils", "_rebuild_tensor"))
        return NULL;
    if (value->object.args->list.count < (v3 ? 7 : 4)) return NULL;
    if (v3) *dtype = value->object.args->list.items[6];
    return value->object.args;
}

static bool size_of(const struct pickle_value *value, size_t *out) {
    if (value->kind != PICKLE_INTEGER || value->integer < 0) return false;
    *out = (size_t)value->integer;
    return true;
}

/* A tuple of sizes, plain or as a torch.Size. */
static bool sizes_of(const struct pickle_value *value, size_t *out, size_t *count) {
    if (pickle_is_call(value, "torch", "Size") && value->object.args->list.count == 1)
        value = value->object.args->list.items[0];
    if (value->kind != PICKLE_TUPLE) return false;
    *count = value->list.count;
    for (size_t i = 0; i < *count && i < TENSOR_MAX_RANK; i++) {
        if (!size_of(value->list.items[i], &out[i])) return false;
    }
    return true;
}

/*
 * Storage and type of ('storage', TYPE, KEY, device, elements[, view]): the bytes of the storage
 * or, in the legacy stream, of a view (key, offset, elements) of it.
 */
static enum status find_bytes(const struct torch_file *file, const char *name,
                              const struct pickle_value *persistent, const uint8_t **bytes,
                              size_t *size, const struct torch_type **type) {
    const struct pickle_value *id = persistent->list.items[0], *key, *part;
    const struct torch_storage *storage = NULL;
    size_t numel, offset, part_numel, begin, length;
    if (id->kind != PICKLE_TUPLE || id->list.count < 5 ||
        !pickle_is_text(id->list.items[0], "storage") || id->list.items[2]->kind != PICKLE_STRING ||
        !size_of(id->list.items[4], &numel))
        return fail(ST_FORMAT, "%s: %s has no storage", file->path, name);
    *type = torch_type_find(id->list.items[1]);
    if (!*type) {
        char text[200];
        return fail(ST_FORMAT, "%s: %s has a storage of %s, which is not known", file->path, name,
                    pickle_describe(id->list.items[1], text, sizeof text));
    }
    key = id->list.items[2];
    storage = torch_storage_use(file, key->text.bytes, key->text.size);
    if (!storage)
        return fail(ST_FORMAT, "%s: storage %.*s of %s is not in the file", file->path,
                    (int)(key->text.size > 80 ? 80 : key->text.size), key->text.bytes, name);
    if (!size_mul(numel, (*type)->size, &length) || length > storage->size)
        return fail(ST_FORMAT, "%s: storage %.*s of %s has %zu bytes, and %zu elements of %zu",
                    file->path, (int)(key->text.size > 80 ? 80 : key->text.size), key->text.bytes,
                    name, storage->size, numel, (*type)->size);
    *bytes = storage->bytes;
    *size = length;
    part = id->list.count > 5 ? id->list.items[5] : NULL;
    if (!part || part->kind == PICKLE_NONE) return ST_OK;
    if (part->kind != PICKLE_TUPLE || part->list.count != 3 ||
        !size_of(part->list.items[1], &offset) || !size_of(part->list.items[2], &part_numel) ||
        !size_mul(offset, (*type)->size, &begin) || !size_mul(part_numel, (*type)->size, &length) ||
        begin > *size || length > *size - begin)
        return fail(ST_FORMAT, "%s: %s is in a part of a storage that is not there", file->path,
                    name);
    *bytes += begin;
    *size = length;
    return ST_OK;
}

/* count, contiguous; and every element within `size` bytes from view->data on. */
static enum status check_extent(const struct torch_file *file, const char *name, size_t size,
                                struct torch_view *view) {
    size_t last = 0, step, room = size / view->type->size;
    bool fits = true, empty = false;
    view->count = 1;
    view->contiguous = true;
    for (int i = view->rank - 1; i >= 0; i--) {
        const size_t dim = view->dims[i];
        if (dim > 1 && view->strides[i] != view->count) view->contiguous = false;
        empty = empty || dim == 0;
        if (dim > 1) {
            fits = fits && size_mul(dim - 1, view->strides[i], &step);
            fits = fits && size_add(last, step, &last);
        }
        fits = fits && size_mul(view->count, dim ? dim : 1, &view->count);
    }
    if (!fits || (!empty && last >= room))
        return fail(ST_FORMAT, "%s: %s reaches beyond its storage of %zu elements", file->path,
                    name, room);
    if (empty) {
        view->count = 0;
        view->contiguous = true;
    }
    if (view->count > room)
        return fail(ST_FORMAT, "%s: %s repeats its elements: %zu of a storage of %zu", file->path,
                    name, view->count, room);
    return ST_OK;
}

enum status torch_view_of(const struct torch_file *file, const char *name,
                          const struct pickle_value *value, struct torch_view *out) {
    const struct pickle_value *args, *dtype = NULL;
    struct pickle_value inner;
    size_t size = 0, rank = 0, strides = 0, offset = 0, begin = 0;
    char text[200];
    memset(out, 0, sizeof *out);
    value = unwrap(value, &inner);
    args = arguments(value, &dtype);
    if (!args)
        return fail(ST_FORMAT, "%s: %s is made by %s, which vitrine does not read", file->path,
                    name, pickle_describe(value, text, sizeof text));
    if (args->list.items[0]->kind != PICKLE_PERSISTENT || !size_of(args->list.items[1], &offset) ||
        !sizes_of(args->list.items[2], out->dims, &rank) ||
        !sizes_of(args->list.items[3], out->strides, &strides) || strides != rank)
        return fail(ST_FORMAT, "%s: %s is a tensor without storage, sizes or strides", file->path,
                    name);
    if (rank > TENSOR_MAX_RANK)
        return fail(ST_FORMAT, "%s: %s has more than %d dimensions", file->path, name,
                    TENSOR_MAX_RANK);
    out->rank = (int)rank;
    TRY(find_bytes(file, name, args->list.items[0], &out->data, &size, &out->type));
    if (dtype && !(out->type = torch_type_find(dtype)))
        return fail(ST_FORMAT, "%s: %s is of type %s, which is not known", file->path, name,
                    pickle_describe(dtype, text, sizeof text));
    if (!size_mul(offset, out->type->size, &begin) || begin > size)
        return fail(ST_FORMAT, "%s: %s begins behind its storage", file->path, name);
    out->data += begin;
    return check_extent(file, name, size - begin, out);
}

void torch_view_copy(const struct torch_view *view, uint8_t *dst) {
    const size_t bytes = view->type->size;
    size_t at[TENSOR_MAX_RANK] = {0}, offset = 0;
    for (size_t n = 0; n < view->count; n++) {
        memcpy(dst + n * bytes, view->data + offset * bytes, bytes);
        for (int i = view->rank - 1; i >= 0; i--) {
            offset += view->strides[i];
            if (++at[i] < view->dims[i]) break;
            offset -= view->dims[i] * view->strides[i];
            at[i] = 0;
        }
    }
}
