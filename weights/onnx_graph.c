/*
 * onnx_graph: the wire format of protobuf (protobuf.dev/programming-guides/encoding), as far as a
 * model needs it. A message is a run of fields, each a key (number << 3 | type) and a value; every
 * length is held against the message around it, nothing is followed deeper than a model goes, and
 * nothing is copied.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weights/onnx_internal.h"

#define NODES_MAX TENSORS_MAX /* Swin-L exported with its shape arithmetic has 7000 */

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct field {
    uint64_t number, value; /* value: of VARINT and the FIXEDs */
    enum wire_type type;
    struct onnx_text bytes; /* of BYTES */
};

struct message {
    const uint8_t *at, *end;
    const char *path;
};

static struct message message_of(struct onnx_text bytes, const char *path) {
    const uint8_t *end = bytes.length ? bytes.bytes + bytes.length : bytes.bytes; /* NULL + 0 */
    return (struct message){bytes.bytes, end, path};
}

/* Seven bits a byte, the lowest first, at most 64. */
static bool read_varint(struct message *m, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const uint8_t byte = *m->at++;
        if (shift == 63 && byte > 1) return false;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool read_fixed(struct message *m, size_t bytes, uint64_t *out) {
    *out = 0;
    if ((size_t)(m->end - m->at) < bytes) return false;
    for (size_t i = bytes; i > 0; i--)
        *out = *out << 8 | m->at[i - 1];
    m->at += bytes;
    return true;
}

static bool read_value(struct message *m, struct field *f) {
    uint64_t length;
    switch (f->type) {
    case VARINT: return read_varint(m, &f->value);
    case FIXED64: return read_fixed(m, 8, &f->value);
    case FIXED32: return read_fixed(m, 4, &f->value);
    case BYTES:
        if (!read_varint(m, &length) || length > (size_t)(m->end - m->at)) return false;
        f->bytes = (struct onnx_text){m->at, (size_t)length};
        m->at += length;
        return true;
    default: return false; /* groups, gone since 2008 */
    }
}

/* The next field; *more false at the end of the message. */
static enum status next_field(struct message *m, struct field *f, bool *more) {
    uint64_t key;
    memset(f, 0, sizeof *f);
    *more = m->at < m->end;
    if (!*more) return ST_OK;
    if (read_varint(m, &key) && key >> 3 && key >> 3 < 1u << 29) {
        f->number = key >> 3;
        f->type = (enum wire_type)(key & 7);
        if (read_value(m, f)) return ST_OK;
    }
    return fail(ST_FORMAT, "%s: is no ONNX file, or a damaged one: a field that does not fit in it",
                m->path);
}

bool onnx_is(struct onnx_text text, const char *word) {
    return text.length == strlen(word) &&
           (text.length == 0 || memcmp(text.bytes, word, text.length) == 0);
}

/* As strcmp. */
static int text_order(struct onnx_text a, struct onnx_text b) {
    const size_t least = a.length < b.length ? a.length : b.length;
    const int order = least ? memcmp(a.bytes, b.bytes, least) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static float float_of(uint64_t bits) {
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* ---- tensors --------------------------------------------------------------------------------- */

enum {
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_SEGMENT = 3,
    TENSOR_FLOATS = 4,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_DOUBLES = 10,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION = 14
};

/* TensorProto.DataType. */
static enum dtype dtype_of(uint64_t type) {
    static const enum dtype types[] = {
        [0] = DT_OTHER,  [1] = DT_F32,  [2] = DT_U8,     [3] = DT_I8,     [4] = DT_OTHER,
        [5] = DT_I16,    [6] = DT_I32,  [7] = DT_I64,    [8] = DT_OTHER,  [9] = DT_BOOL,
        [10] = DT_F16,   [11] = DT_F64, [12] = DT_OTHER, [13] = DT_OTHER, [14] = DT_OTHER,
        [15] = DT_OTHER, [16] = DT_BF16};
    return type < COUNT_OF(types) ? types[type] : DT_OTHER;
}

static enum status add_dim(struct onnx_tensor *t, uint64_t dim, const char *path) {
    if (t->rank == TENSOR_MAX_RANK)
        return fail(ST_FORMAT, "%s: a tensor of more than %d dimensions", path, TENSOR_MAX_RANK);
    if (dim > INT64_MAX) return fail(ST_FORMAT, "%s: a tensor of negative size", path);
    t->dims[t->rank++] = (size_t)dim;
    return ST_OK;
}

/* dims come one by one or packed. */
static enum status read_dims(const struct field *f, const char *path, struct onnx_tensor *out) {
    struct message m = message_of(f->bytes, path);
    uint64_t dim;
    if (f->type == VARINT) return add_dim(out, f->value, path);
    while (m.at < m.end) {
        if (!read_varint(&m, &dim)) return fail(ST_FORMAT, "%s: a tensor's shape is cut", path);
        TRY(add_dim(out, dim, path));
    }
    return ST_OK;
}

/* One StringStringEntryProto: key 1, value 2. */
static enum status read_pair(struct onnx_text bytes, const char *path, struct onnx_text *key,
                             struct onnx_text *value) {
    struct message m = message_of(bytes, path);
    struct field f;
    bool more;
    *key = *value = (struct onnx_text){NULL, 0};
    for (;;) {
        TRY(next_field(&m, &f, &more));
        if (!more) return ST_OK;
        if (f.number == 1) *key = f.bytes;
        if (f.number == 2) *value = f.bytes;
    }
}

static enum status read_size(struct onnx_text digits, const char *path, size_t *out) {
    *out = 0;
    for (size_t i = 0; i < digits.length; i++) {
        const uint8_t c = digits.bytes[i];
        if (c < '0' || c > '9' || !size_mul(*out, 10, out) || !size_add(*out, c - (size_t)'0', out))
            return fail(ST_FORMAT, "%s: external data at what is no offset", path);
    }
    return ST_OK;
}

static enum status read_external(struct onnx_text bytes, const char *path,
                                 struct onnx_tensor *out) {
    struct onnx_text key, value;
    TRY(read_pair(bytes, path, &key, &value));
    if (onnx_is(key, "location")) out->location = value;
    if (onnx_is(key, "offset")) TRY(read_size(value, path, &out->offset));
    if (onnx_is(key, "length")) TRY(read_size(value, path, &out->length));
    return ST_OK;
}

static enum status read_tensor(struct onnx_text bytes, const char *path, struct onnx_tensor *out) {
    struct message m = message_of(bytes, path);
    struct field f;
    struct onnx_text floats = {NULL, 0}, doubles = {NULL, 0};
    bool more;
    memset(out, 0, sizeof *out);
    out->dtype = DT_OTHER;
    out->length = SIZE_MAX;
    for (;;) {
        TRY(next_field(&m, &f, &more));
        if (!more) break;
        if (f.number == TENSOR_DIMS) TRY(read_dims(&f, path, out));
        if (f.number == TENSOR_TYPE) out->dtype = dtype_of(f.value);
        if (f.number == TENSOR_NAME) out->name = f.bytes;
        if (f.number == TENSOR_RAW) out->raw = f.bytes;
        if (f.number == TENSOR_FLOATS && floats.bytes)
            return fail(ST_FORMAT, "%s: a tensor whose float_data is in pieces", path);
        if (f.number == TENSOR_FLOATS) floats = f.bytes;
        if (f.number == TENSOR_DOUBLES) doubles = f.bytes;
        if (f.number == TENSOR_EXTERNAL) TRY(read_external(f.bytes, path, out));
        if (f.number == TENSOR_LOCATION) out->external = f.value == 1;
        if (f.number == TENSOR_SEGMENT)
            return fail(ST_FORMAT, "%s: a tensor in segments, which vitrine does not read", path);
    }
    /* float_data and double_data are packed: little-endian numbers, as raw_data has them. */
    if (!out->raw.bytes && out->dtype == DT_F32) out->raw = floats;
    if (!out->raw.bytes && out->dtype == DT_F64) out->raw = doubles;
    return ST_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    NODE_META = 9
};
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_FLOAT = 2,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_TEXT = 4,
    ATTRIBUTE_TENSOR = 5
};

static enum status read_attribute(struct onnx_text bytes, const char *path, struct onnx_node *out) {
    struct message m = message_of(bytes, path);
    struct field f;
    struct onnx_text name = {NULL, 0}, text = {NULL, 0}, tensor = {NULL, 0};
    uint64_t integer = 0, real = 0;
    bool more;
    for (;;) {
        TRY(next_field(&m, &f, &more));
        if (!more) break;
        if (f.number == ATTRIBUTE_NAME) name = f.bytes;
        if (f.number == ATTRIBUTE_FLOAT) real = f.value;
        if (f.number == ATTRIBUTE_INT) integer = f.value;
        if (f.number == ATTRIBUTE_TEXT) text = f.bytes;
        if (f.number == ATTRIBUTE_TENSOR) tensor = f.bytes;
    }
    if (onnx_is(name, "value")) out->value = tensor;
    if (onnx_is(name, "approximate")) out->approximate = text;
    if (onnx_is(name, "epsilon")) out->epsilon = float_of(real);
    if (onnx_is(name, "alpha")) out->alpha = float_of(real);
    if (onnx_is(name, "beta")) out->beta = float_of(real);
    if (onnx_is(name, "transB")) out->trans_b = integer != 0;
    return ST_OK;
}

static enum status read_node(struct onnx_text bytes, const char *path, struct onnx_node *out) {
    struct message m = message_of(bytes, path);
    struct field f;
    struct onnx_text key, value;
    int inputs = 0, outputs = 0;
    bool more;
    out->epsilon = out->alpha = out->beta = NAN;
    for (;;) {
        TRY(next_field(&m, &f, &more));
        if (!more) return ST_OK;
        if (f.number == NODE_INPUT && inputs < ONNX_INPUTS) out->input[inputs++] = f.bytes;
        if (f.number == NODE_OUTPUT && outputs++ == 0) out->output = f.bytes;
        if (f.number == NODE_NAME) out->name = f.bytes;
        if (f.number == NODE_OP) out->op = f.bytes;
        if (f.number == NODE_ATTRIBUTE) TRY(read_attribute(f.bytes, path, out));
        if (f.number == NODE_META) {
            TRY(read_pair(f.bytes, path, &key, &value));
            if (onnx_is(key, "pkg.torch.onnx.name_scopes")) out->scopes = value;
        }
    }
}

/* ---- the graph ------------------------------------------------------------------------------- */

enum { MODEL_GRAPH = 7, GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_SPARSE = 15 };

static enum status find_graph(const uint8_t *bytes, size_t size, const char *path,
                              struct onnx_text *out) {
    struct message m = {bytes, bytes + size, path};
    struct field f;
    bool more;
    *out = (struct onnx_text){NULL, 0};
    for (;;) {
        TRY(next_field(&m, &f, &more));
        if (!more) break;
        if (f.number != MODEL_GRAPH || f.type != BYTES) continue;
        if (out->bytes) return fail(ST_FORMAT, "%s: an ONNX file with two graphs", path);
        *out = f.bytes;
    }
    return out->bytes ? ST_OK : fail(ST_FORMAT, "%s: an ONNX file without a graph", path);
}

static enum status count_all(struct onnx_text graph, struct onnx_graph *out) {
    struct message m = message_of(graph, out->path);
    struct field f;
    bool more;
    for (;;) {
        TRY(next_field(&m, &f, &more));
        if (!more) break;
        if (f.type != BYTES) continue;
        out->node_count += f.number == GRAPH_NODE;
        out->tensor_count += f.number == GRAPH_INITIALIZER;
        if (f.number == GRAPH_SPARSE)
            return fail(ST_FORMAT, "%s: sparse weights, which vitrine does not read", out->path);
    }
    if (out->node_count <= NODES_MAX && out->tensor_count <= TENSORS_MAX) return ST_OK;
    return fail(ST_FORMAT, "%s: a graph of %zu nodes and %zu tensors, at most %zu and %zu are read",
                out->path, out->node_count, out->tensor_count, NODES_MAX, TENSORS_MAX);
}

static enum status read_all(struct onnx_text graph, struct onnx_graph *out) {
    struct message m = message_of(graph, out->path);
    struct field f;
    size_t nodes = 0, tensors = 0;
    bool more;
    for (;;) {
        TRY(next_field(&m, &f, &more));
        if (!more) break;
        if (f.type != BYTES) continue;
        if (f.number == GRAPH_NODE) TRY(read_node(f.bytes, out->path, &out->nodes[nodes++]));
        if (f.number == GRAPH_INITIALIZER)
            TRY(read_tensor(f.bytes, out->path, &out->tensors[tensors++]));
    }
    for (size_t i = 0; i < nodes; i++) {
        if (!onnx_is(out->nodes[i].op, "Constant") || !out->nodes[i].value.bytes) continue;
        TRY(read_tensor(out->nodes[i].value, out->path, &out->tensors[tensors]));
        out->tensors[tensors++].name = out->nodes[i].output;
    }
    out->tensor_count = tensors;
    return ST_OK;
}

static int by_tensor(const void *a, const void *b) {
    return text_order(((const struct onnx_tensor *)a)->name, ((const struct onnx_tensor *)b)->name);
}

static int by_use(const void *a, const void *b) {
    const struct onnx_use *x = a, *y = b;
    const int order = text_order(x->name, y->name);
    if (order) return order;
    if ((x->input < 0) != (y->input < 0)) return x->input < 0 ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return x->input - y->input;
}

/* Sorted: under a name its producer first, of which there is one at most. */
static enum status list_uses(struct onnx_graph *graph) {
    for (size_t n = 0; n < graph->node_count; n++) {
        const struct onnx_node *node = &graph->nodes[n];
        for (int i = -1; i < ONNX_INPUTS; i++) {
            const struct onnx_text name = i < 0 ? node->output : node->input[i];
            if (name.length) graph->uses[graph->use_count++] = (struct onnx_use){name, n, i};
        }
    }
    if (graph->use_count) qsort(graph->uses, graph->use_count, sizeof *graph->uses, by_use);
    for (size_t i = 1; i < graph->use_count; i++) {
        const struct onnx_use *a = &graph->uses[i - 1], *b = &graph->uses[i];
        if (a->input < 0 && b->input < 0 && text_order(a->name, b->name) == 0)
            return fail(ST_FORMAT, "%s: two nodes of the graph make %.*s", graph->path,
                        a->name.length < 100 ? (int)a->name.length : 100,
                        (const char *)a->name.bytes);
    }
    return ST_OK;
}

enum status onnx_graph_read(const uint8_t *bytes, size_t size, const char *path,
                            struct onnx_graph *out) {
    struct onnx_text graph;
    memset(out, 0, sizeof *out);
    out->path = path;
    TRY(find_graph(bytes, size, path, &graph));
    TRY(count_all(graph, out));
    out->nodes = mem_zalloc(out->node_count + 1, sizeof *out->nodes);
    out->tensors = mem_zalloc(out->tensor_count + out->node_count + 1, sizeof *out->tensors);
    out->uses = mem_zalloc((out->node_count + 1) * (ONNX_INPUTS + 1), sizeof *out->uses);
    if (!out->nodes || !out->tensors || !out->uses) return ST_NOMEM;
    TRY(read_all(graph, out));
    if (out->tensor_count) qsort(out->tensors, out->tensor_count, sizeof *out->tensors, by_tensor);
    return list_uses(out);
}

void onnx_graph_release(struct onnx_graph *graph) {
    mem_free(graph->nodes);
    mem_free(graph->tensors);
    mem_free(graph->uses);
    memset(graph, 0, sizeof *graph);
}

/* The first of the uses of a name. */
static size_t first_use(const struct onnx_graph *graph, struct onnx_text name) {
    size_t lo = 0, hi = graph->use_count;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (text_order(graph->uses[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const struct onnx_use *onnx_next_use(const struct onnx_graph *graph, struct onnx_text name,
                                     size_t *at) {
    if (*at == 0) *at = first_use(graph, name) + 1; /* one higher, so that 0 is the beginning */
    for (; *at <= graph->use_count; (*at)++) {
        const struct onnx_use *use = &graph->uses[*at - 1];
        if (text_order(use->name, name) != 0) return NULL;
        if (use->input < 0) continue;
        (*at)++;
        return use;
    }
    return NULL;
}

const struct onnx_node *onnx_producer(const struct onnx_graph *graph, struct onnx_text name) {
    const size_t i = first_use(graph, name);
    if (i == graph->use_count || graph->uses[i].input >= 0) return NULL;
    return text_order(graph->uses[i].name, name) == 0 ? &graph->nodes[graph->uses[i].node] : NULL;
}

const struct onnx_tensor *onnx_find(const struct onnx_graph *graph, struct onnx_text name) {
    const struct onnx_tensor key = {.name = name};
    if (graph->tensor_count == 0) return NULL;
    return bsearch(&key, graph->tensors, graph->tensor_count, sizeof key, by_tensor);
}
