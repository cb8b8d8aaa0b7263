/*
 * fake_cuda_dnn: between fake_cuda_dnn.cc (the interface), fake_cuda_dnn_check.cc (what a graph may
 * be) and fake_cuda_dnn_run.cc (what it computes).
 */
#ifndef TESTS_FAKE_CUDA_DNN_H
#define TESTS_FAKE_CUDA_DNN_H

#ifdef __cplusplus

#include "tests/fake_cuda.h"

#include <cudnn_graph.h>

enum { FAKE_RANK = 4, FAKE_TENSORS = 24, FAKE_OPS = 12 };

struct fake_tensor {
    int64_t id, dims[FAKE_RANK], strides[FAKE_RANK], alignment;
    cudnnDataType_t type;
    bool is_virtual, by_value;
};

enum fake_op_kind { FAKE_MATMUL, FAKE_POINTWISE, FAKE_REDUCTION, FAKE_CONVOLUTION };

/* y = a op b; tensors by their number in the graph, b -1: none. */
struct fake_op {
    fake_op_kind kind;
    int a, b, y;
    cudnnPointwiseMode_t pointwise;
    cudnnReduceTensorOp_t reduction;
    int64_t strides[2], before[2], after[2]; /* of a convolution */
};

struct fake_dnn_graph {
    fake_tensor tensors[FAKE_TENSORS];
    fake_op ops[FAKE_OPS];
    int tensor_count, op_count;
};

/* A launch: pointers by tensor; a tensor by value is in `values`. */
struct fake_dnn_call {
    fake_dnn_graph graph;
    void *pointers[FAKE_TENSORS];
    float values[FAKE_TENSORS];
    void *workspace;
    size_t workspace_size;
    int plan; /* its number among all that were built */
};

/* NULL, or what is wrong with it. */
const char *fake_check_tensor(const fake_tensor *t);
const char *fake_check_graph(const fake_dnn_graph *g);
/* Whether the engines have it: attention as it must be written, or a convolution. */
bool fake_dnn_knows(const fake_dnn_graph *g);
/* Bytes from the first to the last element. */
size_t fake_tensor_bytes(const fake_tensor *t);
bool fake_has_b(cudnnPointwiseMode_t mode);

/* Whether the plan is still there: a graph that holds a launch needs it as much as a stream. */
bool fake_plan_alive(int plan);
void fake_dnn_run(void *call);

#endif
#endif
