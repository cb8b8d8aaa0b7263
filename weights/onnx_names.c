/*
 * onnx_names: the PyTorch names of initialisers. Exporters keep the name of a parameter that a node
 * uses as it is; one that they computed with (a Linear's weight, transposed for MatMul) they call
 * onnx::MatMul_1234 or val_12. Its module is then read from, in this order:
 *
 *   the bias that is added to the product             blocks.0.attn.qkv.bias
 *   the node's scopes (torch's newer exporter)        ['', 'blocks.0.attn.qkv', 'linear']
 *   the node's name, a path (torch's older exporter)  /blocks/blocks.0/attn/qkv/MatMul
 */
#include <stdio.h>
#include <string.h>

#include "weights/onnx_internal.h"

#define MODULE_BYTES 200
#define CHAIN        16 /* nodes between a table of positions and where it is used */
#define LOOKED_AT    8  /* uses of one name */

static bool ends_with(struct onnx_text text, const char *end) {
    const size_t length = strlen(end);
    return text.length > length && memcmp(text.bytes + text.length - length, end, length) == 0;
}

/* Whether it is a parameter's own name: a path of modules, or one of a model's bare parameters. */
static bool spoken(struct onnx_text name) {
    static const char *const bare[] = {"cls_token",       "dist_token", "reg_token",  "pos_embed",
                                       "register_tokens", "mask_token", "class_token"};
    bool dotted = false;
    for (size_t i = 0; i < COUNT_OF(bare); i++) {
        if (onnx_is(name, bare[i])) return true;
    }
    for (size_t i = 0; i < name.length; i++) {
        const uint8_t c = name.bytes[i];
        if (c <= ' ' || c > '~' || c == ':' || c == '/') return false;
        dotted = dotted || c == '.';
    }
    return dotted && name.length < MODULE_BYTES;
}

static bool is_one_of(struct onnx_text op, const char *const *ops, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (onnx_is(op, ops[i])) return true;
    }
    return false;
}

/* ---- the module of a node -------------------------------------------------------------------- */

/* The last but one word of "['', 'blocks.0', 'blocks.0.attn', 'linear']". */
static bool scope_module(struct onnx_text scopes, char *out) {
    struct onnx_text word = {NULL, 0}, before = {NULL, 0};
    for (size_t i = 0; i < scopes.length; i++) {
        size_t begin = i + 1, end = begin;
        if (scopes.bytes[i] != '\'') continue;
        while (end < scopes.length && scopes.bytes[end] != '\'')
            end++;
        before = word;
        word = (struct onnx_text){scopes.bytes + begin, end - begin};
        i = end;
    }
    if (!before.bytes || before.length >= MODULE_BYTES ||
        (before.length && !spoken(before) && memchr(before.bytes, '/', before.length)))
        return false;
    snprintf(out, MODULE_BYTES, "%.*s", (int)before.length, (const char *)before.bytes);
    return true;
}

/* "/blocks/blocks.0/attn/qkv/MatMul" -> "blocks.0.attn.qkv": a list says its name twice. */
static bool path_module(struct onnx_text path, char *out) {
    const char *text = (const char *)path.bytes;
    size_t used = 0;
    if (path.length < 2 || text[0] != '/' || path.length >= MODULE_BYTES) return false;
    for (size_t at = 1, end, next; at < path.length; at = end + 1) {
        const char *slash = memchr(text + at, '/', path.length - at);
        if (!slash) break; /* the op */
        end = (size_t)(slash - text);
        next = end + 1;
        const size_t length = end - at;
        const bool twice = path.length - next > length && text[next + length] == '.' &&
                           memcmp(text + next, text + at, length) == 0;
        if (twice) continue;
        used += (size_t)snprintf(out + used, MODULE_BYTES - used, "%s%.*s", used ? "." : "",
                                 (int)length, text + at);
    }
    out[used] = '\0';
    return true;
}

static bool module_of(const struct onnx_node *node, char *out) {
    return scope_module(node->scopes, out) || path_module(node->name, out);
}

/* The module whose bias is added to the node's output. */
static bool bias_module(const struct onnx_graph *graph, const struct onnx_node *node, char *out) {
    size_t at = 0;
    const struct onnx_use *use = onnx_next_use(graph, node->output, &at);
    if (!use || !onnx_is(graph->nodes[use->node].op, "Add") || use->input > 1) return false;
    const struct onnx_text bias = graph->nodes[use->node].input[1 - use->input];
    if (!spoken(bias) || !ends_with(bias, ".bias")) return false;
    snprintf(out, MODULE_BYTES, "%.*s", (int)bias.length - 5, (const char *)bias.bytes);
    return true;
}

/* ---- positions ------------------------------------------------------------------------------- */

static const char *const moves[] = {"Reshape", "Transpose", "Cast",     "Resize",
                                    "Slice",   "Identity",  "Unsqueeze"};

static bool is_row(const struct onnx_tensor *tensor) {
    return tensor && tensor->rank == 3 && tensor->dims[0] == 1 && !spoken(tensor->name);
}

/* The Concat that the tensor reaches as its second input through nodes that only move. */
static const struct onnx_node *concat_behind(const struct onnx_graph *graph,
                                             struct onnx_text name) {
    for (int step = 0; step < CHAIN; step++) {
        const struct onnx_use *use;
        const struct onnx_node *next = NULL;
        size_t at = 0;
        for (int i = 0; i < LOOKED_AT && !next && (use = onnx_next_use(graph, name, &at)); i++) {
            const struct onnx_node *node = &graph->nodes[use->node];
            if (onnx_is(node->op, "Concat") && use->input == 1) return node;
            if (use->input == 0 && is_one_of(node->op, moves, COUNT_OF(moves))) next = node;
        }
        if (!next) return NULL;
        name = next->output;
    }
    return NULL;
}

/* The tensor that a value was before nodes moved it; NULL: none, or none that was moved. */
static const struct onnx_tensor *tensor_before(const struct onnx_graph *graph,
                                               struct onnx_text name) {
    for (int step = 0; step < CHAIN; step++) {
        const struct onnx_tensor *tensor = onnx_find(graph, name);
        const struct onnx_node *node = tensor ? NULL : onnx_producer(graph, name);
        if (tensor) return step > 0 ? tensor : NULL;
        if (!node || !is_one_of(node->op, moves, COUNT_OF(moves))) return NULL;
        name = node->input[0];
    }
    return NULL;
}

static enum status finish(struct onnx_part *out, enum onnx_role role, const char *module,
                          const char *below) {
    out->role = role;
    out->name = str_format("%s%s%s", module, *module ? "." : "", below);
    return out->name ? ST_OK : ST_NOMEM;
}

/*
 * Anonymous rows (1, n, C): a class token that was expanded to a batch of one, in front of the
 * patches; positions that were resampled when the graph was written; or positions cut for their
 * resampling (DINOv2): the class's in front of the others'.
 */
static enum status name_rows(const struct onnx_graph *graph, const struct onnx_tensor *tensor,
                             const struct onnx_node *node, int input, struct onnx_part *out) {
    char module[MODULE_BYTES];
    if (onnx_is(node->op, "Concat") && input == 0) {
        const struct onnx_tensor *second = tensor_before(graph, node->input[1]);
        if (is_row(second)) out->role = ONNX_PART;
        if (second) return ST_OK;
        return module_of(node, module) ? finish(out, ONNX_WEIGHT, module, "cls_token") : ST_OK;
    }
    if (onnx_is(node->op, "Add") && tensor->dims[1] > 1 && module_of(node, module)) {
        const struct onnx_text text = {(const uint8_t *)module, strlen(module)};
        const bool transformers =
            ends_with(text, "embeddings") || strcmp(module, "embeddings") == 0;
        return finish(out, ONNX_WEIGHT, module, transformers ? "position_embeddings" : "pos_embed");
    }
    const struct onnx_node *concat =
        is_one_of(node->op, moves, COUNT_OF(moves)) ? concat_behind(graph, tensor->name) : NULL;
    const struct onnx_tensor *first = concat ? onnx_find(graph, concat->input[0]) : NULL;
    if (!is_row(first) || first == tensor || first->dims[2] != tensor->dims[2] ||
        first->dtype != tensor->dtype || !module_of(concat, module))
        return ST_OK;
    out->first = first;
    return finish(out, ONNX_POSITIONS, module, "position_embeddings");
}

/* ---- the rules ------------------------------------------------------------------------------- */

static bool is_matrix(const struct onnx_tensor *tensor, const struct onnx_node *node, int input) {
    return tensor->rank == 2 && input == 1 &&
           (onnx_is(node->op, "MatMul") || (onnx_is(node->op, "Gemm") && !node->trans_b));
}

/* What a module calls the input of a node. */
static const struct {
    const char *op;
    int input, rank;
    const char *below;
} inputs[] = {{"Gemm", 1, 2, "weight"},
              {"Gemm", 2, 1, "bias"},
              {"Conv", 1, 4, "weight"},
              {"Conv", 2, 1, "bias"},
              {"LayerNormalization", 1, 1, "weight"},
              {"LayerNormalization", 2, 1, "bias"}};

/*
 * A Swin's bias, gathered from its table when the graph was written: (1, H, N, N), added to the
 * scores, or still (N N, H), to be put into that shape.
 */
static bool is_gathered_bias(const struct onnx_tensor *tensor, const char *module, bool adds,
                             bool reshapes) {
    const struct onnx_text text = {(const uint8_t *)module, strlen(module)};
    if (!ends_with(text, ".attn")) return false;
    if (adds)
        return tensor->rank == 4 && tensor->dims[0] == 1 && tensor->dims[2] == tensor->dims[3];
    return reshapes && tensor->rank == 2;
}

static enum status name_by_use(const struct onnx_graph *graph, const struct onnx_tensor *tensor,
                               const struct onnx_node *node, int input, struct onnx_part *out) {
    char module[MODULE_BYTES];
    if (is_matrix(tensor, node, input)) {
        if (bias_module(graph, node, module) || (module_of(node, module) && module[0]))
            return finish(out, ONNX_MATRIX, module, "weight");
        out->role = ONNX_MATRIX; /* a weight that nothing names: under its own, to be refused */
        out->name = str_format("%.*s", (int)(tensor->name.length < 200 ? tensor->name.length : 200),
                               (const char *)tensor->name.bytes);
        return out->name ? ST_OK : ST_NOMEM;
    }
    if (tensor->rank == 3 && tensor->dims[0] == 1)
        return name_rows(graph, tensor, node, input, out);
    if (!module_of(node, module) || !module[0]) return ST_OK;
    for (size_t i = 0; i < COUNT_OF(inputs); i++) {
        if (onnx_is(node->op, inputs[i].op) && inputs[i].input == input &&
            inputs[i].rank == tensor->rank)
            return finish(out, ONNX_WEIGHT, module, inputs[i].below);
    }
    const bool adds = onnx_is(node->op, "Add") && input < 2;
    if (is_gathered_bias(tensor, module, adds, onnx_is(node->op, "Reshape") && input == 0))
        return finish(out, ONNX_BIAS, module, "relative_position_bias_table");
    if (!adds) return ST_OK;
    const struct onnx_node *other = onnx_producer(graph, node->input[1 - input]);
    if (tensor->rank == 1 && other && onnx_is(other->op, "MatMul"))
        return finish(out, ONNX_WEIGHT, module, "bias");
    return ST_OK;
}

/*
 * Whether a tensor that no rule names is arithmetic and no weight: a single number, a mask of
 * scores, sizes of a resampling. Anything else keeps its name, which no origin knows.
 */
static bool is_constant(const struct onnx_tensor *tensor, const struct onnx_node *node) {
    bool one = true;
    for (int i = 0; i < tensor->rank; i++)
        one = one && tensor->dims[i] <= 1;
    return one || tensor->rank > 3 || !node || onnx_is(node->op, "Resize");
}

enum status onnx_name(const struct onnx_graph *graph, const struct onnx_tensor *tensor,
                      struct onnx_part *out) {
    size_t at = 0;
    const struct onnx_use *use = onnx_next_use(graph, tensor->name, &at);
    const struct onnx_node *node = use ? &graph->nodes[use->node] : NULL;
    memset(out, 0, sizeof *out);
    out->role = ONNX_CONSTANT;
    if (spoken(tensor->name)) {
        out->role = node && is_matrix(tensor, node, use->input) ? ONNX_MATRIX : ONNX_WEIGHT;
        out->name = str_format("%.*s", (int)tensor->name.length, (const char *)tensor->name.bytes);
        return out->name ? ST_OK : ST_NOMEM;
    }
    if (node) TRY(name_by_use(graph, tensor, node, use->input, out));
    if (out->role != ONNX_CONSTANT || out->name) return ST_OK;
    if (!is_constant(tensor, node)) out->role = ONNX_WEIGHT;
    out->name = str_format("%.*s", (int)(tensor->name.length < 200 ? tensor->name.length : 200),
                           (const char *)tensor->name.bytes);
    return out->name ? ST_OK : ST_NOMEM;
}
