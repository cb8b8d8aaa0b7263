/*
 * safetensors: the container of huggingface/safetensors (safetensors/src/tensor.rs, README.md):
 *
 *   u64 n | JSON header of n bytes | tensor bytes, little endian, row-major
 *
 * Two passes over the header before any tensor exists: header_scan proves that it is UTF-8 and
 * holds nothing but the grammar's small part that a header uses (no fractions, signs, words or
 * NUL escapes outside and inside strings; few levels, few commas), so that cJSON's recursion,
 * number rounding and C strings cannot be led astray; then cJSON. Called by checkpoint.c.
 */
#include "weights/safetensors.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/checkpoint.h"

#define HEADER_MAX    33554432u          /* bytes; ViT-G has 100 kB. The reference takes 100 MB */
#define HEADER_DEPTH  8                  /* a real header has 3 levels */
#define HEADER_COMMAS (11 * TENSORS_MAX) /* of cJSON's nodes; 11 is a tensor of TENSOR_MAX_RANK */
#define NUMBER_DIGITS 17                 /* 2^53 has 16 */
#define NUMBER_MAX    9007199254740992.0 /* 2^53: beyond it a double skips integers */

struct span {
    size_t begin, end; /* in the tensor buffer */
    const struct tensor *tensor;
};

static const struct {
    const char *name;
    enum dtype dtype;
    size_t bits;
} dtypes[] = {{"F32", DT_F32, 32},          {"F16", DT_F16, 16},      {"BF16", DT_BF16, 16},
              {"F64", DT_F64, 64},          {"I64", DT_I64, 64},      {"I32", DT_I32, 32},
              {"I16", DT_I16, 16},          {"I8", DT_I8, 8},         {"U8", DT_U8, 8},
              {"BOOL", DT_BOOL, 8},         {"U16", DT_OTHER, 16},    {"U32", DT_OTHER, 32},
              {"U64", DT_OTHER, 64},        {"C64", DT_OTHER, 64},    {"F8_E5M2", DT_OTHER, 8},
              {"F8_E4M3", DT_OTHER, 8},     {"F8_E8M0", DT_OTHER, 8}, {"F8_E4M3FNUZ", DT_OTHER, 8},
              {"F8_E5M2FNUZ", DT_OTHER, 8}, {"F4", DT_OTHER, 4},      {"F6_E2M3", DT_OTHER, 6},
              {"F6_E3M2", DT_OTHER, 6}};

/* Steps over the string that begins after the quote at *at. */
static enum status scan_string(const uint8_t *json, size_t size, size_t *at, const char *path) {
    size_t i = *at;
    while (i < size && json[i] != '"') {
        size_t length = utf8_length(json + i, size - i);
        if (length == 0)
            return fail(ST_FORMAT, "%s: the safetensors header is not UTF-8 at byte %zu", path, i);
        if (json[i] < 0x20)
            return fail(ST_FORMAT,
                        "%s: a control character in a string of the safetensors header, byte %zu",
                        path, i);
        if (json[i] == '\\') {
            if (size - i > 5 && memcmp(json + i, "\\u0000", 6) == 0)
                return fail(ST_FORMAT, "%s: a NUL in a string of the safetensors header, byte %zu",
                            path, i);
            length = 2;
        }
        i += length;
    }
    if (i >= size)
        return fail(ST_FORMAT, "%s: the safetensors header is not JSON: a string does not end",
                    path);
    *at = i + 1;
    return ST_OK;
}

static enum status header_scan(const uint8_t *json, size_t size, const char *path) {
    size_t depth = 0, commas = 0, objects = 0, digits = 0, i = 0;
    while (i < size) {
        uint8_t c = json[i++];
        digits = c >= '0' && c <= '9' ? digits + 1 : 0;
        if (c == '"') TRY(scan_string(json, size, &i, path));
        if (c == '{' || c == '[') depth++;
        if ((c == '}' || c == ']') && depth > 0) depth--;
        commas += c == ',';
        objects += c == '{';
        if (depth > HEADER_DEPTH)
            return fail(ST_FORMAT, "%s: the safetensors header nests deeper than %d levels", path,
                        HEADER_DEPTH);
        if (commas > HEADER_COMMAS)
            return fail(ST_NOMEM, "%s: the safetensors header lists more than %zu values", path,
                        HEADER_COMMAS);
        if (objects > TENSORS_MAX + 2) /* and the header itself, and its metadata */
            return fail(ST_NOMEM, "%s: the safetensors header lists more than %zu tensors", path,
                        TENSORS_MAX);
        if (digits > NUMBER_DIGITS)
            return fail(ST_FORMAT,
                        "%s: a number of the safetensors header is beyond 2^53, byte %zu", path, i);
        if (c == 0 || !strchr("{}[]:,\"0123456789 \t\r\n", c))
            return fail(ST_FORMAT,
                        "%s: the safetensors header has byte 0x%02x at %zu, where only whole "
                        "numbers and strings "
                        "belong",
                        path, c, i - 1);
    }
    return ST_OK;
}

/* A whole number in [0, 2^53]. */
static bool json_size(const cJSON *item, size_t *out) {
    if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > NUMBER_MAX)
        return false;
    *out = (size_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

/* The member `key`; fails when it is missing or there twice. */
static enum status member(const cJSON *object, const char *key, const char *path,
                          const cJSON **out) {
    *out = NULL;
    for (const cJSON *child = object->child; child; child = child->next) {
        if (strcmp(child->string, key) != 0) continue;
        if (*out) return fail(ST_FORMAT, "%s: tensor %s has %s twice", path, object->string, key);
        *out = child;
    }
    if (!*out) return fail(ST_FORMAT, "%s: tensor %s has no %s", path, object->string, key);
    return ST_OK;
}

static enum status read_shape(const cJSON *shape, const char *path, struct tensor *out) {
    if (!cJSON_IsArray(shape))
        return fail(ST_FORMAT, "%s: the shape of %s is no list", path, out->name);
    for (const cJSON *dim = shape->child; dim; dim = dim->next) {
        if (out->rank == TENSOR_MAX_RANK)
            return fail(ST_FORMAT, "%s: %s has more than %d dimensions", path, out->name,
                        TENSOR_MAX_RANK);
        if (!json_size(dim, &out->dims[out->rank++]))
            return fail(ST_FORMAT, "%s: the shape of %s holds what is no size", path, out->name);
    }
    return ST_OK;
}

/* dtype and shape against the bytes the offsets give it. */
static enum status check_bytes(const struct tensor *tensor, const char *dtype, size_t bits,
                               const char *path) {
    char text[96];
    size_t count = 1, total;
    bool fits = true;
    for (int i = 0; i < tensor->rank; i++)
        fits = fits && size_mul(count, tensor->dims[i], &count);
    if (!fits || !size_mul(count, bits, &total))
        return fail(ST_FORMAT, "%s: %s has a shape whose size overflows", path, tensor->name);
    if (total % 8)
        return fail(ST_FORMAT, "%s: %s of type %s does not end on a byte", path, tensor->name,
                    dtype);
    if (total / 8 != tensor->bytes)
        return fail(ST_FORMAT, "%s: %s is %s %s and needs %zu bytes, its offsets give %zu", path,
                    tensor->name, dtype, shape_text(tensor->dims, tensor->rank, text, sizeof text),
                    total / 8, tensor->bytes);
    return ST_OK;
}

static enum status read_tensor(const cJSON *entry, const char *path, struct tensor *out,
                               struct span *span) {
    const cJSON *dtype, *shape, *offsets;
    size_t row = 0;
    if (!cJSON_IsObject(entry))
        return fail(ST_FORMAT, "%s: the header's entry %s is no tensor", path, entry->string);
    TRY(member(entry, "dtype", path, &dtype));
    TRY(member(entry, "shape", path, &shape));
    TRY(member(entry, "data_offsets", path, &offsets));
    out->name = str_copy(entry->string);
    if (!out->name) return ST_NOMEM;
    if (!cJSON_IsString(dtype))
        return fail(ST_FORMAT, "%s: the dtype of %s is no word", path, out->name);
    while (row < COUNT_OF(dtypes) && strcmp(dtypes[row].name, dtype->valuestring) != 0)
        row++;
    if (row == COUNT_OF(dtypes))
        return fail(ST_FORMAT, "%s: %s has the unknown dtype %.40s", path, out->name,
                    dtype->valuestring);
    out->dtype = dtypes[row].dtype;
    TRY(read_shape(shape, path, out));
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !json_size(offsets->child, &span->begin) || !json_size(offsets->child->next, &span->end))
        return fail(ST_FORMAT, "%s: the data_offsets of %s are not two offsets", path, out->name);
    if (span->end < span->begin)
        return fail(ST_FORMAT, "%s: the data_offsets of %s end before they begin", path, out->name);
    out->bytes = span->end - span->begin;
    return check_bytes(out, dtype->valuestring, dtypes[row].bits, path);
}

/* "__metadata__": strings only, no key twice. */
static enum status check_metadata(const cJSON *metadata, const char *path) {
    size_t keys = 0;
    if (!cJSON_IsObject(metadata)) return fail(ST_FORMAT, "%s: __metadata__ is no object", path);
    for (const cJSON *item = metadata->child; item; item = item->next) {
        if (!cJSON_IsString(item))
            return fail(ST_FORMAT, "%s: __metadata__ %.80s is no string", path, item->string);
        if (++keys > 1000) return fail(ST_FORMAT, "%s: __metadata__ has over 1000 entries", path);
        for (const cJSON *other = metadata->child; other != item; other = other->next) {
            if (strcmp(other->string, item->string) == 0)
                return fail(ST_FORMAT, "%s: __metadata__ has %.80s twice", path, item->string);
        }
    }
    return ST_OK;
}

static int by_begin(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Neither hole nor overlap, and the last one ends where the file does. */
static enum status check_layout(struct span *spans, size_t count, size_t buffer, const char *path) {
    size_t end = 0;
    qsort(spans, count, sizeof *spans, by_begin);
    for (size_t i = 0; i < count; i++) {
        if (spans[i].begin != end)
            return fail(ST_FORMAT, "%s: %s begins at %zu of the tensor bytes, %s ends at %zu: %s",
                        path, spans[i].tensor->name, spans[i].begin,
                        i ? spans[i - 1].tensor->name : "the header", end,
                        spans[i].begin > end ? "a hole" : "they overlap");
        end = spans[i].end;
    }
    if (end > buffer)
        return fail(ST_FORMAT,
                    "%s: cut short: the tensors need %zu bytes after the header, the file has %zu",
                    path, end, buffer);
    if (end < buffer)
        return fail(ST_FORMAT, "%s: %zu bytes after the last tensor", path, buffer - end);
    return ST_OK;
}

static enum status read_entries(const cJSON *root, const char *path, const uint8_t *buffer,
                                size_t buffer_size, struct tensor *tensors, struct span *spans,
                                size_t *count) {
    bool metadata = false;
    for (const cJSON *entry = root->child; entry; entry = entry->next) {
        if (strcmp(entry->string, "__metadata__") == 0) {
            if (metadata) return fail(ST_FORMAT, "%s: __metadata__ is there twice", path);
            metadata = true;
            TRY(check_metadata(entry, path));
            continue;
        }
        spans[*count].tensor = &tensors[*count];
        TRY(read_tensor(entry, path, &tensors[*count], &spans[*count]));
        (*count)++;
    }
    TRY(check_layout(spans, *count, buffer_size, path));
    for (size_t i = 0; i < *count; i++) /* spans are in another order now; each knows its tensor */
        tensors[spans[i].tensor - tensors].data = buffer + spans[i].begin;
    return tensors_sort(tensors, *count, path);
}

/* The header's place and JSON tree (to be cJSON_Delete'd). */
static enum status read_header(const uint8_t *bytes, size_t size, const char *path, size_t *length,
                               cJSON **root) {
    const char *end = NULL;
    uint64_t n = 0;
    if (size < 8) return fail(ST_FORMAT, "%s: %zu bytes are no safetensors file", path, size);
    for (int i = 7; i >= 0; i--)
        n = n << 8 | bytes[i];
    if (n > HEADER_MAX)
        return fail(ST_FORMAT, "%s: a safetensors header of %ju bytes, at most %u are taken", path,
                    (uintmax_t)n, HEADER_MAX);
    if (n > size - 8)
        return fail(ST_FORMAT, "%s: a safetensors header of %ju bytes in a file of %zu", path,
                    (uintmax_t)n, size);
    *length = (size_t)n;
    TRY(header_scan(bytes + 8, *length, path));
    *root = cJSON_ParseWithLengthOpts((const char *)bytes + 8, *length, &end, false);
    if (*root && cJSON_IsObject(*root)) {
        while (end < (const char *)bytes + 8 + n && *end && strchr(" \t\r\n", *end))
            end++;
        if (end == (const char *)bytes + 8 + n) return ST_OK;
    }
    cJSON_Delete(*root);
    *root = NULL;
    return fail(ST_FORMAT, "%s: the safetensors header is not a JSON object", path);
}

enum status safetensors_parse(const uint8_t *bytes, size_t size, const char *path,
                              struct tensor **tensors, size_t *count) {
    enum status st;
    cJSON *root = NULL;
    struct tensor *list = NULL;
    struct span *spans = NULL;
    size_t header = 0, entries = 0, used = 0, room = 0;
    TRY(read_header(bytes, size, path, &header, &root));
    for (const cJSON *entry = root->child; entry; entry = entry->next)
        room++;
    list = mem_zalloc(room, sizeof *list);
    spans = mem_zalloc(room, sizeof *spans);
    if (!list || !spans) {
        st = ST_NOMEM;
        goto out;
    }
    entries = room;
    TRY_OUT(read_entries(root, path, bytes + 8 + header, size - 8 - header, list, spans, &used));
    *tensors = list;
    *count = used;
    list = NULL;
out:
    for (size_t i = 0; list && i < entries; i++)
        mem_free(list[i].name);
    mem_free(list);
    mem_free(spans);
    cJSON_Delete(root);
    return st;
}

char *safetensors_metadata(const uint8_t *bytes, size_t size, const char *key) {
    cJSON *root = NULL;
    size_t header;
    char *text = NULL;
    if (read_header(bytes, size, "", &header, &root) != ST_OK) return NULL;
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(root, "__metadata__");
    const cJSON *item = metadata ? cJSON_GetObjectItemCaseSensitive(metadata, key) : NULL;
    if (cJSON_IsString(item)) text = str_copy(item->valuestring);
    cJSON_Delete(root);
    return text;
}
