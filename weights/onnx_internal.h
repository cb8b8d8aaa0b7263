/*
 * onnx_internal: what the reader of ONNX files shares between its files.
 *
 *   onnx.c        the flow; external data; the list of tensors
 *   onnx_graph.c  protobuf: nodes and tensors as slices of the file
 *   onnx_names.c  what a tensor without a name is, by the nodes that use it
 */
#ifndef WEIGHTS_ONNX_INTERNAL_H
#define WEIGHTS_ONNX_INTERNAL_H

#include "weights/onnx.h"

#define ONNX_INPUTS 4 /* of a node that are kept; Concat may have more */

/* A slice of the file. */
struct onnx_text {
    const uint8_t *bytes;
    size_t length;
};

bool onnx_is(struct onnx_text text, const char *word);

struct onnx_node {
    struct onnx_text op, name, output; /* the first output */
    struct onnx_text input[ONNX_INPUTS];
    struct onnx_text scopes; /* metadata "pkg.torch.onnx.name_scopes", of torch's newer exporter */
    struct onnx_text value;  /* a TensorProto: attribute value of a Constant */
    struct onnx_text approximate; /* of Gelu */
    float epsilon, alpha, beta;   /* NaN: not given */
    int64_t trans_b;
};

/* A TensorProto. */
struct onnx_tensor {
    struct onnx_text name;
    enum dtype dtype; /* DT_OTHER for strings, complex, ... */
    int rank;
    size_t dims[TENSOR_MAX_RANK];
    struct onnx_text raw; /* bytes NULL: none in the file */
    struct onnx_text location;
    size_t offset, length; /* of external data; length SIZE_MAX: to the end */
    bool external;
};

/* Where a name stands: the node, and which input; input -1: its output. */
struct onnx_use {
    struct onnx_text name;
    size_t node;
    int input;
};

struct onnx_graph {
    const char *path;
    struct onnx_node *nodes;     /* (node_count), owned */
    struct onnx_tensor *tensors; /* (tensor_count): initialisers, then Constants; owned */
    struct onnx_use *uses;       /* (use_count) sorted by name, then node; owned */
    size_t node_count, tensor_count, use_count;
};

/* ST_FORMAT for what is no protobuf or too much of it, ST_NOMEM. Release works on a zeroed one. */
enum status onnx_graph_read(const uint8_t *bytes, size_t size, const char *path,
                            struct onnx_graph *out) MUST_CHECK;
void onnx_graph_release(struct onnx_graph *graph);

/* The first use of a name as an input, from *at on; NULL: none. *at starts as 0. */
const struct onnx_use *onnx_next_use(const struct onnx_graph *graph, struct onnx_text name,
                                     size_t *at);
/* The node whose output it is, or NULL. */
const struct onnx_node *onnx_producer(const struct onnx_graph *graph, struct onnx_text name);
const struct onnx_tensor *onnx_find(const struct onnx_graph *graph, struct onnx_text name);

/* What becomes of a tensor. */
enum onnx_role {
    ONNX_WEIGHT,    /* as it is */
    ONNX_MATRIX,    /* (in, out), the second operand of a product */
    ONNX_POSITIONS, /* rows (1, n, C) of positions, behind `first` (1, k, C) */
    ONNX_BIAS,      /* (1, H, N, N) or (N N, H): a relative position bias gathered by its index */
    ONNX_PART,      /* a piece of another tensor's part */
    ONNX_CONSTANT   /* no weight */
};

struct onnx_part {
    enum onnx_role role;
    char *name;                      /* owned */
    const struct onnx_tensor *first; /* ONNX_POSITIONS */
};
enum status onnx_name(const struct onnx_graph *graph, const struct onnx_tensor *tensor,
                      struct onnx_part *out) MUST_CHECK;

#endif
