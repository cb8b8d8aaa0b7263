/*
 * cuda_dnn.cuh: what cuda_dnn.cu and cuda_dnn_graphs.cu share. Private to them, and the only file
 * that includes cuDNN's headers. HAVE_DNN: built over them; the simulator has a stand-in of them.
 *
 *   cuda_dnn          the library, plans, running, closing
 *   cuda_dnn_graphs   shapes checked, and made into operations
 */
#ifndef KERNELS_CUDA_DNN_CUH
#define KERNELS_CUDA_DNN_CUH

#include "kernels/cuda_dnn.h"

#if defined(SIMT)
#define HAVE_DNN 1
#elif defined(HAVE_CUDNN)
#define HAVE_DNN HAVE_CUDNN
#else
#define HAVE_DNN 0
#endif

#if HAVE_DNN

#include <cudnn_graph.h>
#include <string.h>

enum { MOST_PARTS = 128, MOST_OPS = 12, ALIGNMENT = 16 };

#define SYMBOLS(X)                                                                                 \
    X(cudnnGetVersion)                                                                             \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetLastErrorString)                                                                     \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnSetStream)                                                                              \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendExecute)

typedef cudnnBackendDescriptor_t part; /* cuDNN's own typedef is a void * */

#define DECLARE(name) decltype(::name) *name;
struct dnn {
    void *library;
    SYMBOLS(DECLARE)
    cudnnHandle_t handle; /* NULL: described */
    part device;          /* NULL: live */
    void *stream;         /* that the handle was told last */
};

/* The tensors that dnn_run is given; their ids are one more. */
enum slot { SLOT_Q, SLOT_K, SLOT_V, SLOT_X, SLOT_FILTER, SLOT_BIAS, SLOT_Y, SLOT_SCALE, SLOTS };

struct plan {
    part config, plan; /* plan NULL: not built */
    int64_t workspace;
    int64_t engine;
};

struct dnn_graph {
    struct dnn *dnn;
    enum status st; /* of its construction */
    const char *what;
    part parts[MOST_PARTS]; /* for closing */
    int part_count;
    part ops[MOST_OPS];
    int op_count;
    int64_t next_id; /* of the virtual tensors */
    cudnnDataType_t type;
    bool used[SLOTS];
    float scale;
    struct plan plans[DNN_MOST_PLANS];
    int plan_count;
    part pack; /* of the last run: its pointers */
    struct dnn_data packed;
};

/* "cudnn: what: its sentence". */
enum status dnn_fail(const struct dnn *dnn, const char *what, cudnnStatus_t status) MUST_CHECK;

#define DNN_TRY(dnn, what, call)                                                                   \
    do {                                                                                           \
        cudnnStatus_t dnn_status_ = (call);                                                        \
        if (dnn_status_ != CUDNN_STATUS_SUCCESS) return dnn_fail(dnn, what, dnn_status_);          \
    } while (0)

/* ---- cuda_dnn: what the operations are made with --------------------------------------------- */

enum status graph_open(struct dnn *dnn, enum cuda_type type, struct dnn_graph **out) MUST_CHECK;
/* A part, freed with the graph; `what` begins the sentence of its failures. */
part graph_make(struct dnn_graph *g, cudnnBackendDescriptorType_t type, const char *what);
void graph_set(struct dnn_graph *g, part of, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, int64_t count, const void *values);
void graph_set_part(struct dnn_graph *g, part of, cudnnBackendAttributeName_t name, part value);
/* No attribute may follow. */
part graph_seal(struct dnn_graph *g, part of);
/* The configurations of the operations; closes what failed, `name` in front of the sentence. */
enum status graph_finish(struct dnn_graph *g, const char *name, struct dnn_graph **out) MUST_CHECK;

#endif
#endif
