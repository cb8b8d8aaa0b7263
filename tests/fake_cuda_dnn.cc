/*
 * fake_cuda_dnn: cuDNN's part of the stand-in (fake_cuda.h): descriptors and their attributes, each
 * with its type, count and owner as the documentation has them; nothing is set on what is final,
 * nothing got from what is not, and nothing final lacks what it must have.
 *
 * For a graph that it knows there are five configurations: one that is not deterministic, then four
 * plans, told apart by their engine, workspace and the time they pretend to take. The last wants
 * more workspace than a backend should lend.
 */
#include "tests/fake_cuda_dnn.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 4, FIRST_ENGINE = 11, VALUES = 12, MOST_BUILT = 1 << 16 };
static const int64_t workspaces[PLANS] = {0, 256, 4096, (int64_t)1 << 30};

struct value {
    cudnnBackendAttributeName_t name;
    int64_t count;
    unsigned char bytes[FAKE_OPS * sizeof(int64_t)];
};

struct fake_part {
    cudnnBackendDescriptorType_t type;
    bool final;
    value values[VALUES];
    int count;
    fake_dnn_graph *graph; /* of a graph, heuristics, a configuration, a plan: its own */
    int plan;              /* of the two last and an engine; -1: the one not to be taken */
    int built;             /* 1 + a plan's number among all */
};

struct fake_cudnn {
    cudaStream_t stream;
};

static char last_error[256];
static bool alive[MOST_BUILT];
static int built_in_all;

/* ---- errors ---------------------------------------------------------------------------------- */

/* The caller's fault, or with `fault` false a refusal that is no fault. */
static cudnnStatus_t wrong(cudnnStatus_t status, bool fault, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    if (fault) fake_fault("cuDNN: %s", last_error);
    return status;
}
#define BAD(...)     wrong(CUDNN_STATUS_BAD_PARAM, true, __VA_ARGS__)
#define REFUSED(...) wrong(CUDNN_STATUS_NOT_SUPPORTED, false, __VA_ARGS__)

size_t cudnnGetVersion(void) {
    return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
    static const char *const names[] = {"CUDNN_STATUS_SUCCESS", "CUDNN_STATUS_NOT_INITIALIZED",
                                        "CUDNN_STATUS_BAD_PARAM", "CUDNN_STATUS_NOT_SUPPORTED",
                                        "CUDNN_STATUS_EXECUTION_FAILED"};
    return names[status];
}

void cudnnGetLastErrorString(char *message, size_t size) {
    snprintf(message, size, "%s", last_error);
}

/* ---- the loader ------------------------------------------------------------------------------ */

void *dlopen(const char *name, int flags) {
    if (strncmp(name, "libcudnn", 8) != 0) fake_fault("%s is looked for", name);
    if (!(flags & RTLD_NODELETE)) fake_fault("cuDNN may be unmapped under its own threads");
    if (fake_cuda_options.no_cudnn) return NULL;
    fake_cuda_counts.cudnn++;
    fake_count(1);
    return last_error;
}

int dlclose(void *library) {
    if (library != last_error) fake_fault("a library closed that was not opened");
    fake_count(-1);
    return 0;
}

char *dlerror(void) {
    static char text[] = "no such file";
    return text;
}

void *dlsym(void *, const char *symbol) {
#define SYMBOL(name)                                                                               \
    { #name, reinterpret_cast < void *>(name) }
    static const struct {
        const char *name;
        void *at;
    } symbols[] = {SYMBOL(cudnnGetVersion),
                   SYMBOL(cudnnGetErrorString),
                   SYMBOL(cudnnGetLastErrorString),
                   SYMBOL(cudnnCreate),
                   SYMBOL(cudnnDestroy),
                   SYMBOL(cudnnSetStream),
                   SYMBOL(cudnnBackendCreateDescriptor),
                   SYMBOL(cudnnBackendDestroyDescriptor),
                   SYMBOL(cudnnBackendSetAttribute),
                   SYMBOL(cudnnBackendGetAttribute),
                   SYMBOL(cudnnBackendFinalize),
                   SYMBOL(cudnnBackendExecute)};
    for (const auto &entry : symbols)
        if (strcmp(entry.name, symbol) == 0) return entry.at;
    return NULL;
}

/* ---- handles --------------------------------------------------------------------------------- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    fake_lock lock;
    *handle = NULL;
    if (fake_forbidden("cudnnCreate") || fake_cuda_options.no_handle)
        return wrong(CUDNN_STATUS_NOT_INITIALIZED, false, "no handle");
    *handle = static_cast<fake_cudnn *>(calloc(1, sizeof **handle));
    fake_count(1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    fake_lock lock;
    free(handle);
    fake_count(-1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    fake_lock lock;
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- attributes ------------------------------------------------------------------------------ */

struct rule {
    cudnnBackendDescriptorType_t owner;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int least, most; /* values */
    bool needed;     /* by what is made final */
    int part;        /* type of the descriptor that it is; -1: none */
};

#define D(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define ONE(owner, name, type)                                                                     \
    { D(owner), CUDNN_ATTR_##name, CUDNN_TYPE_##type, 1, 1, true, -1 }
#define TWO(owner, name)                                                                           \
    { D(owner), CUDNN_ATTR_##name, CUDNN_TYPE_INT64, 2, 2, true, -1 }
#define PART(owner, name, needed, part)                                                            \
    { D(owner), CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, needed, D(part) }

static const rule rules[] = {
    ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE),
    {D(TENSOR), CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4, true, -1},
    {D(TENSOR), CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4, true, -1},
    ONE(TENSOR, TENSOR_UNIQUE_ID, INT64),
    ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64),
    ONE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN),
    ONE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN),
    ONE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE),
    ONE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE),
    ONE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE),
    ONE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE),
    ONE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE),
    ONE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE),
    ONE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE),
    ONE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64),
    TWO(CONVOLUTION, CONVOLUTION_DILATIONS),
    TWO(CONVOLUTION, CONVOLUTION_FILTER_STRIDES),
    TWO(CONVOLUTION, CONVOLUTION_PRE_PADDINGS),
    TWO(CONVOLUTION, CONVOLUTION_POST_PADDINGS),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, true, TENSOR),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, true, TENSOR),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, true, TENSOR),
    PART(OPERATION_MATMUL, OPERATION_MATMUL_DESC, true, MATMUL),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, true, POINTWISE),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, true, TENSOR),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, false, TENSOR),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, true, TENSOR),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, true, REDUCTION),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, true, TENSOR),
    PART(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, true, TENSOR),
    PART(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_CONV_DESC, true, CONVOLUTION),
    PART(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_X, true, TENSOR),
    PART(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_W, true, TENSOR),
    PART(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_Y, true, TENSOR),
    ONE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_ALPHA, FLOAT),
    ONE(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD_BETA, FLOAT),
    ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE),
    {D(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, FAKE_OPS,
     true, -1},
    PART(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, true, OPERATIONGRAPH),
    ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE),
    PART(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, true, ENGINECFG),
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE),
    {D(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, FAKE_OPS, true, -1},
    {D(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, FAKE_OPS, true,
     -1},
    ONE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR),
};

static size_t size_of(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
    }
}

static const value *find(const fake_part *part, cudnnBackendAttributeName_t name) {
    for (int i = 0; i < part->count; i++)
        if (part->values[i].name == name) return &part->values[i];
    return NULL;
}

/* The i-th value of an attribute that is there, or T(). */
template <class T>
static T got(const fake_part *part, cudnnBackendAttributeName_t name, int64_t i = 0) {
    const value *v = find(part, name);
    T result = T();
    if (v != NULL && i < v->count) memcpy(&result, v->bytes + (size_t)i * sizeof(T), sizeof(T));
    return result;
}

static fake_part *part_of(const fake_part *part, cudnnBackendAttributeName_t name, int64_t i = 0) {
    return static_cast<fake_part *>(got<void *>(part, name, i));
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out) {
    fake_lock lock;
    fake_part *part = static_cast<fake_part *>(calloc(1, sizeof *part));
    part->type = type;
    *out = part;
    fake_count(1);
    return type == D(DEVICEPROP) ? REFUSED("the stand-in is no description") : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    fake_lock lock;
    fake_part *part = static_cast<fake_part *>(descriptor);
    if (part == NULL) return BAD("a descriptor destroyed that was not made");
    if (part->built > 0) alive[part->built - 1] = false;
    free(part->graph);
    free(part);
    fake_count(-1);
    return CUDNN_STATUS_SUCCESS;
}

/* Descriptors that are set must be final, and of the kind that belongs there. */
static cudnnStatus_t check_parts(const rule &r, int64_t count, const void *values) {
    for (int64_t i = 0; r.type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++) {
        const fake_part *part = static_cast<fake_part *const *>(values)[i];
        if (part == NULL || !part->final) return BAD("attribute %d is not final", (int)r.name);
        if (r.part >= 0 && (int)part->type != r.part)
            return BAD("attribute %d is a descriptor of kind %d", (int)r.name, (int)part->type);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values) {
    fake_lock lock;
    fake_part *part = static_cast<fake_part *>(descriptor);
    if (part == NULL || values == NULL) return BAD("attribute %d of nothing", (int)name);
    if (part->final)
        return wrong(CUDNN_STATUS_NOT_INITIALIZED, true, "attribute %d of what is final",
                     (int)name);
    for (const rule &r : rules) {
        if (r.owner != part->type || r.name != name) continue;
        if (r.type != type) return BAD("attribute %d is not of type %d", (int)name, (int)type);
        if (count < r.least || count > r.most)
            return BAD("attribute %d of %lld values", (int)name, (long long)count);
        const cudnnStatus_t status = check_parts(r, count, values);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        if (find(part, name) != NULL) return BAD("attribute %d set twice", (int)name);
        value *v = &part->values[part->count++];
        v->name = name;
        v->count = count;
        memcpy(v->bytes, values, (size_t)count * size_of(type));
        return CUDNN_STATUS_SUCCESS;
    }
    return BAD("descriptor %d has no attribute %d", (int)part->type, (int)name);
}

/* ---- making final ---------------------------------------------------------------------------- */

static fake_tensor tensor_of(const fake_part *part) {
    fake_tensor t;
    memset(&t, 0, sizeof t);
    t.id = got<int64_t>(part, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    t.type = got<cudnnDataType_t>(part, CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.alignment = got<int64_t>(part, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    t.is_virtual = got<bool>(part, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    t.by_value = got<bool>(part, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    for (int i = 0; i < FAKE_RANK; i++) {
        t.dims[i] = got<int64_t>(part, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        t.strides[i] = got<int64_t>(part, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    return t;
}

/* The tensor's number in the graph; -1: none was given; a tensor of the same id is the same. */
static int number_of(fake_dnn_graph *g, const fake_part *part) {
    if (part == NULL) return -1;
    const fake_tensor t = tensor_of(part);
    for (int i = 0; i < g->tensor_count; i++) {
        if (g->tensors[i].id != t.id) continue;
        if (memcmp(&g->tensors[i], &t, sizeof t) != 0)
            fake_fault("cuDNN: two tensors have the id %lld", (long long)t.id);
        return i;
    }
    if (g->tensor_count == FAKE_TENSORS) {
        fake_fault("cuDNN: more tensors than the stand-in takes");
        return 0;
    }
    g->tensors[g->tensor_count] = t;
    return g->tensor_count++;
}

static bool is_fp32(const fake_part *how, cudnnBackendAttributeName_t name) {
    return got<cudnnDataType_t>(how, name) == CUDNN_DATA_FLOAT;
}

static bool convolution_of(const fake_part *part, fake_op *op) {
    const fake_part *how = part_of(part, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
    bool good = got<int64_t>(how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
                got<int>(how, CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CROSS_CORRELATION &&
                got<float>(part, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA) == 1 &&
                got<float>(part, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA) == 0;
    for (int i = 0; i < 2; i++) {
        op->strides[i] = got<int64_t>(how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        op->before[i] = got<int64_t>(how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i);
        op->after[i] = got<int64_t>(how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
        good = good && got<int64_t>(how, CUDNN_ATTR_CONVOLUTION_DILATIONS, i) == 1;
    }
    return good && is_fp32(how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
}

/* Which attributes are an operation's tensors. */
struct shape {
    cudnnBackendDescriptorType_t type;
    fake_op_kind kind;
    cudnnBackendAttributeName_t a, b, y;
};
static const shape shapes[] = {
    {D(OPERATION_MATMUL), FAKE_MATMUL, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC},
    {D(OPERATION_POINTWISE), FAKE_POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
     CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC},
    {D(OPERATION_REDUCTION), FAKE_REDUCTION, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
     CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_ATTR_OPERATION_REDUCTION_YDESC},
    {D(OPERATION_CONVOLUTION_FORWARD), FAKE_CONVOLUTION, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
};

/* False: no operation, or one whose arithmetic the stand-in does not do. */
static bool op_of(fake_dnn_graph *g, const fake_part *part, fake_op *op) {
    const fake_part *pointwise = part_of(part, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const fake_part *reduction = part_of(part, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    const fake_part *matmul = part_of(part, CUDNN_ATTR_OPERATION_MATMUL_DESC);
    memset(op, 0, sizeof *op);
    for (const shape &s : shapes) {
        if (s.type != part->type) continue;
        op->kind = s.kind;
        op->a = number_of(g, part_of(part, s.a));
        op->b = number_of(g, part_of(part, s.b));
        op->y = number_of(g, part_of(part, s.y));
        if (s.kind == FAKE_CONVOLUTION) return convolution_of(part, op);
        if (s.kind == FAKE_MATMUL) return is_fp32(matmul, CUDNN_ATTR_MATMUL_COMP_TYPE);
        if (s.kind == FAKE_POINTWISE) {
            op->pointwise = got<cudnnPointwiseMode_t>(pointwise, CUDNN_ATTR_POINTWISE_MODE);
            return is_fp32(pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC);
        }
        op->reduction = got<cudnnReduceTensorOp_t>(reduction, CUDNN_ATTR_REDUCTION_OPERATOR);
        return is_fp32(reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE);
    }
    return false;
}

static cudnnStatus_t finish_graph(fake_part *part) {
    const value *ops = find(part, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    fake_dnn_graph *g = part->graph = static_cast<fake_dnn_graph *>(calloc(1, sizeof *g));
    for (int64_t i = 0; i < ops->count; i++)
        if (!op_of(g, part_of(part, ops->name, i), &g->ops[g->op_count++]))
            return BAD("operation %lld is none that the stand-in does", (long long)i);
    const char *fault = fake_check_graph(g);
    return fault != NULL ? BAD("%s", fault) : CUDNN_STATUS_SUCCESS;
}

static void copy_graph(fake_part *to, const fake_part *from) {
    free(to->graph);
    to->graph = static_cast<fake_dnn_graph *>(malloc(sizeof *to->graph));
    *to->graph = *from->graph;
    to->plan = from->plan;
}

static cudnnStatus_t finish_plan(fake_part *part) {
    const fake_part *config = part_of(part, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (fake_forbidden("the building of a plan")) return CUDNN_STATUS_NOT_INITIALIZED;
    if (config->plan + 1 == fake_cuda_options.refuse_plan) return REFUSED("not on this device");
    copy_graph(part, config);
    alive[built_in_all % MOST_BUILT] = true;
    part->built = 1 + built_in_all++ % MOST_BUILT;
    fake_cuda_counts.built++;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finish_kind(fake_part *part) {
    if (part->type == D(TENSOR)) {
        const fake_tensor t = tensor_of(part);
        const char *fault = fake_check_tensor(&t);
        return fault != NULL ? BAD("%s", fault) : CUDNN_STATUS_SUCCESS;
    }
    if (part->type == D(OPERATIONGRAPH)) return finish_graph(part);
    if (part->type == D(EXECUTION_PLAN)) return finish_plan(part);
    if (part->type == D(ENGINEHEUR))
        copy_graph(part, part_of(part, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
    if (part->type == D(VARIANT_PACK) &&
        find(part, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count !=
            find(part, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count)
        return BAD("ids and pointers are not as many");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    fake_lock lock;
    fake_part *part = static_cast<fake_part *>(descriptor);
    if (part == NULL || part->final) return BAD("made final twice");
    for (const rule &r : rules)
        if (r.owner == part->type && r.needed && find(part, r.name) == NULL)
            return BAD("descriptor %d lacks attribute %d", (int)part->type, (int)r.name);
    const cudnnStatus_t status = finish_kind(part);
    part->final = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The configurations, into descriptors that the caller made. */
static cudnnStatus_t get_results(const fake_part *heuristics, int64_t wanted, int64_t *count,
                                 fake_part **configs) {
    *count = 0;
    if (fake_cuda_options.no_plans || !fake_dnn_knows(heuristics->graph))
        return CUDNN_STATUS_SUCCESS;
    for (int i = 0; i <= PLANS && i < wanted; i++) {
        if (configs[i] == NULL || configs[i]->type != D(ENGINECFG) || configs[i]->final)
            return BAD("results want fresh configurations");
        copy_graph(configs[i], heuristics);
        configs[i]->plan = i - 1;
        configs[i]->final = true;
        *count = i + 1;
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_engine(const fake_part *config, fake_part **engine) {
    if (*engine == NULL || (*engine)->type != D(ENGINE) || (*engine)->final)
        return BAD("an engine's descriptor is not fresh");
    (*engine)->plan = config->plan;
    (*engine)->final = true;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_notes(const fake_part *engine, int64_t wanted, int64_t *count,
                               cudnnBackendNumericalNote_t *notes) {
    if (wanted < 2) return BAD("two notes, %lld wanted", (long long)wanted);
    notes[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    notes[1] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    *count = engine->plan < 0 ? 2 : 1;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t *count,
                                       void *values) {
    fake_lock lock;
    fake_part *part = static_cast<fake_part *>(descriptor);
    if (part == NULL || !part->final)
        return wrong(CUDNN_STATUS_NOT_INITIALIZED, true, "attribute %d of what is not final",
                     (int)name);
    *count = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return get_results(part, wanted, count, static_cast<fake_part **>(values));
    case CUDNN_ATTR_ENGINECFG_ENGINE: return get_engine(part, static_cast<fake_part **>(values));
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *static_cast<int64_t *>(values) = FIRST_ENGINE + part->plan;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        return get_notes(part, wanted, count, static_cast<cudnnBackendNumericalNote_t *>(values));
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *static_cast<int64_t *>(values) = workspaces[part->plan];
        return CUDNN_STATUS_SUCCESS;
    default: return BAD("attribute %d is not to be got", (int)name);
    }
}

bool fake_plan_alive(int plan) {
    return alive[plan];
}

/* ---- running --------------------------------------------------------------------------------- */

/* The pack's pointer of a tensor; NULL: it has none. */
static void *pointer_of(const fake_part *pack, int64_t id) {
    const value *ids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (int64_t i = 0; i < ids->count; i++)
        if (got<int64_t>(pack, ids->name, i) == id)
            return got<void *>(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    return NULL;
}

/* Fills the call's pointers; NULL, or what is wrong with them. */
static const char *gather(const fake_part *plan, const fake_part *pack, fake_dnn_call *call) {
    memset(call, 0, sizeof *call);
    call->graph = *plan->graph;
    call->plan = plan->built - 1;
    for (int i = 0; i < call->graph.tensor_count; i++) {
        const fake_tensor *t = &call->graph.tensors[i];
        void *at = t->is_virtual ? NULL : pointer_of(pack, t->id);
        if (t->is_virtual) continue;
        if (at == NULL) return "a tensor without a pointer";
        if (t->by_value && fake_find_block(at) != NULL) return "a value that is not the host's";
        if (t->by_value) {
            memcpy(&call->values[i], at, sizeof(float));
            continue;
        }
        if ((uintptr_t)at % (uintptr_t)t->alignment) return "a tensor is not aligned as promised";
        if (!fake_is_device("a tensor", at, fake_tensor_bytes(t))) return "a tensor's memory";
        call->pointers[i] = at;
    }
    call->workspace = got<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    call->workspace_size = (size_t)workspaces[plan->plan];
    if (call->workspace_size > 0 &&
        !fake_is_device("a plan's workspace", call->workspace, call->workspace_size))
        return "the workspace is not where it should be";
    return NULL;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_descriptor,
                                  cudnnBackendDescriptor_t pack_descriptor) {
    fake_lock lock;
    fake_part *plan = static_cast<fake_part *>(plan_descriptor);
    fake_part *pack = static_cast<fake_part *>(pack_descriptor);
    fake_dnn_call call;
    if (plan->type != D(EXECUTION_PLAN) || !plan->final || pack->type != D(VARIANT_PACK) ||
        !pack->final || got<cudnnHandle_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle)
        return BAD("no plan of this handle's, or no pack");
    if (fake_cuda_options.fail_plan > 0 && --fake_cuda_options.fail_plan == 0)
        return wrong(CUDNN_STATUS_EXECUTION_FAILED, false, "as it was told");
    const char *fault = gather(plan, pack, &call);
    if (fault != NULL) return BAD("%s", fault);
    fake_cuda_counts.plans++;
    fake_cuda_counts.plan = plan->plan;
    const bool fast = plan->plan + 1 == fake_cuda_options.fastest_plan;
    if (!fake_queue(handle->stream, "a plan of cuDNN's", fake_dnn_run, &call, sizeof call,
                    fast ? 0.001 : 0.5 + 0.01 * plan->plan))
        return wrong(CUDNN_STATUS_EXECUTION_FAILED, false, "the stream took nothing");
    return CUDNN_STATUS_SUCCESS;
}
