/*
 * onnx: see onnx.h. What is a weight stays where it lies, a matrix (in, out) is its own transpose
 * in column-major order; only positions in two pieces and bias tables are put together in memory.
 */
#include "weights/onnx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/onnx_internal.h"

#define CONSTANT   "a constant of the graph"
#define WINDOW_MAX ((size_t)64) /* tokens a side */

bool onnx_recognise(const uint8_t *bytes, size_t size) {
    /* Keys of fields 2 to 8 and 14: producer, domain, version, doc, graph, opset, metadata. */
    static const uint8_t keys[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72};
    return size > 8 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 0x40 && bytes[8] != '{' &&
           memchr(keys, bytes[2], sizeof keys) != NULL;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The folder of the model and a location inside it. */
static enum status external_path(const struct checkpoint *c, struct onnx_text location,
                                 char **out) {
    const char *slash = strrchr(c->weights_path, '/'), *text = (const char *)location.bytes;
    bool inside = location.length > 0 && location.length < 1000 && text[0] != '/';
    for (size_t i = 0; inside && i < location.length; i++)
        inside = text[i] >= ' ' && text[i] != '\\' && text[i] != 127;
    for (size_t at = 0, length; inside && at < location.length; at += length + 1) {
        const char *end = memchr(text + at, '/', location.length - at);
        length = end ? (size_t)(end - text) - at : location.length - at;
        inside = length > 0 && !(length == 2 && memcmp(text + at, "..", 2) == 0);
    }
    if (!inside)
        return fail(ST_FORMAT, "%s: has weights in '%.*s', want a file in its own folder",
                    c->weights_path, (int)(location.length < 200 ? location.length : 200),
                    text ? text : "");
    *out = str_format("%.*s%.*s", slash ? (int)(slash - c->weights_path + 1) : 0, c->weights_path,
                      (int)location.length, text);
    return *out ? ST_OK : ST_NOMEM;
}

static enum status external_data(struct checkpoint *c, const struct onnx_tensor *t,
                                 struct onnx_text *out) {
    char *path = NULL;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    TRY(external_path(c, t->location, &path));
    enum status st = checkpoint_map(c, path, &bytes, &size);
    if (st == ST_OK &&
        (t->offset > size || (t->length != SIZE_MAX && t->length > size - t->offset)))
        st = fail(ST_FORMAT, "%s: has %zu bytes, %s wants %zu from %zu on", path, size,
                  c->weights_path, t->length, t->offset);
    mem_free(path);
    TRY(st);
    *out =
        (struct onnx_text){bytes + t->offset, t->length == SIZE_MAX ? size - t->offset : t->length};
    return ST_OK;
}

/* The numbers of a tensor, as many as its shape says, into *out but for the name. */
static enum status tensor_data(struct checkpoint *c, const struct onnx_tensor *t, const char *name,
                               struct tensor *out) {
    struct onnx_text data = t->raw;
    size_t bytes = dtype_size(t->dtype);
    char text[128];
    for (int i = 0; i < t->rank; i++) {
        if (!size_mul(bytes, t->dims[i], &bytes))
            return fail(ST_FORMAT, "%s: %s has a shape whose size overflows", c->weights_path,
                        name);
    }
    if (t->external) TRY(external_data(c, t, &data));
    if (!data.bytes && bytes > 0)
        return fail(ST_FORMAT, "%s: %s has its numbers neither raw nor as floats", c->weights_path,
                    name);
    if (data.length != bytes)
        return fail(ST_FORMAT, "%s: %s is %s %s and needs %zu bytes, the file has %zu",
                    c->weights_path, name, dtype_name(t->dtype),
                    shape_text(t->dims, t->rank, text, sizeof text), bytes, data.length);
    out->dtype = t->dtype;
    out->rank = t->rank;
    memcpy(out->dims, t->dims, sizeof out->dims);
    out->data = data.bytes ? data.bytes : c->map;
    out->bytes = bytes;
    return ST_OK;
}

/* ---- what is put together -------------------------------------------------------------------- */

struct builder {
    struct checkpoint *out;
    const struct onnx_graph *graph;
    struct onnx_part *parts; /* (room for all), owned; of out->tensors */
    size_t need, used;       /* of out->memory */
};

static uint8_t *take_memory(struct builder *b, size_t bytes) {
    uint8_t *memory = (uint8_t *)b->out->memory + b->used;
    b->used += bytes;
    return memory;
}

/* (1, k, C) and (1, n, C) -> (1, k + n, C). */
static enum status join_positions(struct builder *b, const struct onnx_tensor *first,
                                  struct tensor *t) {
    struct tensor head = {0};
    TRY(tensor_data(b->out, first, t->name, &head));
    uint8_t *memory = take_memory(b, head.bytes + t->bytes);
    if (head.data) memcpy(memory, head.data, head.bytes);
    memcpy(memory + head.bytes, t->data, t->bytes);
    t->data = memory;
    t->bytes += head.bytes;
    t->dims[1] += head.dims[1];
    return ST_OK;
}

/* The side W of windows of N = W^2 tokens whose bias was gathered to `pairs` = N^2; 0: none. */
static size_t window_side(size_t pairs) {
    size_t W = 1;
    while (W < WINDOW_MAX && W * W * W * W < pairs)
        W++;
    return W * W * W * W == pairs ? W : 0;
}

/*
 * A bias (1, H, N, N) or (N N, H) gathered from a table ((2W - 1)^2, H), W^2 = N: the entry of
 * tokens i and j is its row (yi - yj + W - 1)(2W - 1) + xi - xj + W - 1, tokens row-major in the
 * window. Every row occurs. What does not hold one number in all places of a row is no such bias:
 * a constant.
 */
static void table_of_bias(struct builder *b, struct tensor *t) {
    const bool pairs_first = t->rank == 2;
    const size_t H = t->dims[1], size = dtype_size(t->dtype);
    const size_t pairs =
        pairs_first ? t->dims[0] : t->dims[2] * t->dims[3]; /* one tensor's: fits */
    const size_t W = window_side(pairs), N = W * W, side = 2 * W - 1;
    t->unused = CONSTANT;
    if (W == 0 || t->bytes == 0) return;
    uint8_t *table = take_memory(b, side * side * H * size);
    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t place = 0; place < pairs * H; place++) {
            const size_t pair = pairs_first ? place / H : place % pairs, i = pair / N, j = pair % N;
            const size_t h = pairs_first ? place % H : place / pairs;
            const size_t row = (i / W + W - 1 - j / W) * side + i % W + W - 1 - j % W;
            uint8_t *entry = table + (row * H + h) * size;
            if (pass == 0) memcpy(entry, t->data + place * size, size);
            if (memcmp(entry, t->data + place * size, size) != 0) return;
        }
    }
    *t = (struct tensor){.name = t->name,
                         .dtype = t->dtype,
                         .rank = 2,
                         .dims = {side * side, H},
                         .data = table,
                         .bytes = side * side * H * size};
}

static enum status put_together(struct builder *b) {
    size_t limit = b->out->map_size;
    for (size_t i = 0; i < b->out->other_count; i++)
        limit += b->out->others[i].map_size; /* mapped, so they fit an address space */
    if (b->need > 2 * limit)
        return fail(ST_FORMAT, "%s: a graph that uses its constants over and over",
                    b->out->weights_path);
    b->out->memory = mem_zalloc(b->need + 1, 1);
    if (!b->out->memory) return ST_NOMEM;
    for (size_t i = 0; i < b->out->count; i++) {
        struct tensor *t = &b->out->tensors[i];
        if (b->parts[i].role == ONNX_POSITIONS) TRY(join_positions(b, b->parts[i].first, t));
        if (b->parts[i].role == ONNX_BIAS) table_of_bias(b, t);
    }
    return ST_OK;
}

/* ---- the list -------------------------------------------------------------------------------- */

static bool is_floating(enum dtype dtype) {
    return dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16 || dtype == DT_F64;
}

static enum status add_tensor(struct builder *b, const struct onnx_tensor *source) {
    struct onnx_part *part = &b->parts[b->out->count];
    struct tensor *t = &b->out->tensors[b->out->count], head = {0};
    if (!is_floating(source->dtype) || source->rank == 0) return ST_OK;
    TRY(onnx_name(b->graph, source, part));
    if (part->role == ONNX_PART) return ST_OK;
    t->name = part->name; /* owned by the tensor from here on */
    b->out->count++;
    TRY(tensor_data(b->out, source, t->name, t));
    if (part->role == ONNX_CONSTANT) t->unused = CONSTANT;
    if (part->role == ONNX_MATRIX) {
        const size_t in = t->dims[0];
        t->dims[0] = t->dims[1];
        t->dims[1] = in;
        t->column_major = true;
    }
    if (part->role == ONNX_POSITIONS) TRY(tensor_data(b->out, part->first, t->name, &head));
    if (part->role != ONNX_POSITIONS && part->role != ONNX_BIAS) return ST_OK;
    if (!size_add(b->need, t->bytes, &b->need) || !size_add(b->need, head.bytes, &b->need))
        return fail(ST_NOMEM, "%s: sizes overflow", b->out->weights_path);
    return ST_OK;
}

/* Equal parameters share one initialiser; Identity nodes have the names of the others. */
static enum status add_alias(struct builder *b, const struct onnx_node *node) {
    const struct onnx_tensor *source =
        onnx_is(node->op, "Identity") ? onnx_find(b->graph, node->input[0]) : NULL;
    if (!source || !node->output.length) return ST_OK;
    struct onnx_tensor alias = *source;
    alias.name = node->output;
    return add_tensor(b, &alias);
}

/* Only what the list needs is named, so every name that an error leaves is a tensor's. */
static enum status add_all(struct builder *b) {
    const struct onnx_graph *g = b->graph;
    const size_t most = g->tensor_count + g->node_count + 1;
    b->out->tensors = mem_zalloc(most, sizeof *b->out->tensors);
    b->parts = mem_zalloc(most, sizeof *b->parts);
    if (!b->out->tensors || !b->parts) return ST_NOMEM;
    for (size_t i = 0; i < g->tensor_count; i++)
        TRY(add_tensor(b, &g->tensors[i]));
    for (size_t i = 0; i < g->node_count; i++)
        TRY(add_alias(b, &g->nodes[i]));
    TRY(put_together(b));
    if (b->out->count == 0)
        return fail(ST_FORMAT, "%s: a graph without floating-point weights", b->out->weights_path);
    return tensors_sort(b->out->tensors, b->out->count, b->out->weights_path);
}

/* ---- what nodes say -------------------------------------------------------------------------- */

static enum status refuse_node(const struct onnx_node *node, const char *path) {
    static const char *const quantised[] = {
        "DequantizeLinear",      "QLinearMatMul", "MatMulInteger", "MatMulIntegerToFloat",
        "DynamicQuantizeMatMul", "QGemm",         "QAttention",    "MatMulNBits"};
    for (size_t i = 0; i < COUNT_OF(quantised); i++) {
        if (onnx_is(node->op, quantised[i]))
            return fail(ST_FORMAT, "%s: its weights are quantised (%s), want floating point", path,
                        quantised[i]);
    }
    if (onnx_is(node->op, "Gemm") &&
        (node->alpha < 1 || node->alpha > 1 || node->beta < 1 || node->beta > 1))
        return fail(ST_FORMAT, "%s: a product scaled by other than 1 (Gemm)", path);
    return ST_OK;
}

/* The epsilon of a norm: LayerNormalization's own, or what is added below a root; 0: none. */
static double epsilon_of(const struct onnx_graph *g, const struct onnx_node *node) {
    char text[32];
    float value = NAN;
    double out = 0;
    if (onnx_is(node->op, "LayerNormalization"))
        value = isnan(node->epsilon) ? 1e-5f : node->epsilon;
    const struct onnx_node *sum =
        onnx_is(node->op, "Sqrt") ? onnx_producer(g, node->input[0]) : NULL;
    for (int i = 0; sum && onnx_is(sum->op, "Add") && i < 2; i++) {
        const struct onnx_tensor *t = onnx_find(g, sum->input[i]);
        if (t && t->dtype == DT_F32 && t->raw.length == sizeof value)
            memcpy(&value, t->raw.bytes, sizeof value);
    }
    snprintf(text, sizeof text, "%.6g", (double)value); /* 1e-06 and not the float beside it */
    return parse_double(text, 1e-15, 1, &out) ? out : 0;
}

/* The activation by the one node that tells it apart: the more telling first. */
static const char *activation_of(const bool *has) {
    return has[0] ? "gelu" : has[1] ? "gelu_tanh" : has[2] ? "quick_gelu" : NULL;
}

static enum status read_facts(const struct onnx_graph *g, struct checkpoint *out) {
    bool has[3] = {false, false, false}, differ = false;
    for (size_t i = 0; i < g->node_count; i++) {
        const struct onnx_node *node = &g->nodes[i];
        const double epsilon = epsilon_of(g, node);
        const bool gelu = onnx_is(node->op, "Gelu"), tanh = onnx_is(node->approximate, "tanh");
        TRY(refuse_node(node, out->weights_path));
        has[0] = has[0] || onnx_is(node->op, "Erf") || (gelu && !tanh);
        has[1] = has[1] || onnx_is(node->op, "Tanh") || (gelu && tanh);
        has[2] = has[2] || onnx_is(node->op, "Sigmoid");
        differ = differ || (epsilon > 0 && out->norm_eps > 0 && epsilon != out->norm_eps);
        if (epsilon > 0) out->norm_eps = epsilon;
    }
    if (differ) out->norm_eps = 0;
    out->activation = activation_of(has);
    return ST_OK;
}

enum status onnx_parse(struct checkpoint *out) {
    struct onnx_graph graph;
    struct builder b = {.out = out, .graph = &graph};
    enum status st = onnx_graph_read(out->map, out->map_size, out->weights_path, &graph);
    if (st == ST_OK) st = read_facts(&graph, out);
    if (st == ST_OK) st = add_all(&b);
    mem_free(b.parts);
    onnx_graph_release(&graph);
    return st;
}
