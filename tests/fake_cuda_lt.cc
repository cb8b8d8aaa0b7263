/*
 * fake_cuda_lt: cuBLASLt's part of the stand-in (fake_cuda.h): D = epilogue(A^T B + beta C), fp32
 * sums, column-major, checked against what its documentation allows: types that go together, shapes
 * that fit, ld >= rows, batches that do not overlap, memory that is there, a bias at a multiple of
 * 16 bytes, C like D where it is D, alignments as promised, workspace enough.
 *
 * And D (int32) = A^T B of int8 (CUBLAS_COMPUTE_32I): alpha and beta are int32, there is no
 * epilogue, m, k and leading dimensions are multiples of 4, addresses of 4 bytes; a sum beyond 32
 * bits is a fault. Below 17 columns it is not supported (what devices were seen to do).
 *
 * Eight algorithms, told apart by their workspace and the time they pretend to take. An epilogue or
 * beta with rows that are no multiple of 16 bytes is not supported: stricter than cuBLASLt, so that
 * the backend's other way is gone.
 */
#include "tests/fake_cuda.h"
#include "tests/simt.h"

#include <cublasLt.h>
#include <stdlib.h>

enum { ALGORITHMS = 8, MIB = 1 << 20 };
static const uint64_t MAGIC = 0x76697472696e6500u; /* an algorithm's first word, and its number */

struct fake_lt {
    int unused;
};
struct fake_desc {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transpose_a, transpose_b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
};
struct fake_layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t count;
};
struct fake_preference {
    uint64_t workspace;
    uint32_t align[4], reductions;
};

/* What a queued product needs; pointers are found by fake_queue. */
struct call {
    struct fake_desc desc;
    struct fake_layout a, b, c, d;
    const void *a_data, *b_data, *c_data;
    void *d_data;
    void *workspace;
    float alpha, beta; /* as numbers, whatever their type was */
};

size_t cublasLtGetVersion(void) {
    return 130100;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "?";
}

/* ---- descriptions ---------------------------------------------------------------------------- */

template <class T> static cublasStatus_t make(T **out) {
    *out = (T *)calloc(1, sizeof(T));
    fake_count(1);
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> static cublasStatus_t unmake(T *object) {
    if (object == NULL) fake_fault("a description destroyed that was not made");
    free(object);
    fake_count(-1);
    return CUBLAS_STATUS_SUCCESS;
}

/* A value of exactly that size. */
static cublasStatus_t set(void *field, size_t want, const void *value, size_t size) {
    if (size != want) {
        fake_fault("an attribute of %zu bytes given as %zu", want, size);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(field, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
    fake_lock lock;
    return make(out);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t lt) {
    fake_lock lock;
    return unmake(lt);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    fake_lock lock;
    (void)make(out);
    (*out)->compute = compute;
    (*out)->scale = scale;
    (*out)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    fake_lock lock;
    return unmake(desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size) {
    fake_lock lock;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&desc->transpose_a, 4, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&desc->transpose_b, 4, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(&desc->epilogue, 4, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(&desc->bias, sizeof(void *), value, size);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
    fake_lock lock;
    (void)make(out);
    (*out)->type = type;
    (*out)->rows = rows;
    (*out)->columns = columns;
    (*out)->ld = ld;
    (*out)->count = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    fake_lock lock;
    return unmake(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t size) {
    fake_lock lock;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(&layout->count, 4, value, size);
    return set(&layout->stride, 8, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    fake_lock lock;
    (void)make(out);
    for (int i = 0; i < 4; i++)
        (*out)->align[i] = 256;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    fake_lock lock;
    return unmake(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size) {
    fake_lock lock;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return set(&preference->workspace, 8, value, size);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return set(&preference->reductions, 4, value, size);
    return set(&preference->align[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], 4, value,
               size);
}

/* ---- what is allowed ------------------------------------------------------------------------- */

static size_t size_of(cudaDataType_t type) {
    return type == CUDA_R_8I ? 1 : type == CUDA_R_32F || type == CUDA_R_32I ? 4 : 2;
}

static bool is_whole(const struct fake_desc *desc) {
    return desc->compute == CUBLAS_COMPUTE_32I;
}

/* alpha or beta, of the scale type. */
static float number_at(const struct fake_desc *desc, const void *p) {
    return desc->scale == CUDA_R_32I ? (float)*static_cast<const int32_t *>(p)
                                     : *static_cast<const float *>(p);
}

/* NULL, or what is wrong with the types. */
static const char *check_types(const struct fake_desc *desc, const struct fake_layout *a,
                               const struct fake_layout *b, const struct fake_layout *c,
                               const struct fake_layout *d) {
    const struct fake_layout *all[] = {a, b, c, d};
    const bool tf32 = desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (is_whole(desc)) {
        if (desc->scale != CUDA_R_32I) return "the scale type is not the compute type's";
        if (a->type != CUDA_R_8I || b->type != CUDA_R_8I) return "sums in int32 are of int8";
        if (c->type != CUDA_R_32I || d->type != CUDA_R_32I) return "sums in int32 stay int32";
        if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT) return "int32 results have no epilogue";
        if (a->columns % 4 || a->rows % 4) return "m and k of int8 are not multiples of 4";
        for (const struct fake_layout *m : all)
            if (m->ld % 4) return "a leading dimension of int8 is not a multiple of 4";
        return NULL;
    }
    if (desc->compute != CUBLAS_COMPUTE_32F && !tf32) return "sums are not fp32";
    if (desc->scale != CUDA_R_32F) return "the scale type is not the compute type's";
    if (tf32 && a->type != CUDA_R_32F) return "TF32 of 16-bit matrices";
    if (a->type == CUDA_R_8I || a->type == CUDA_R_32I) return "fp32 sums of whole numbers";
    for (const struct fake_layout *m : all)
        if (m->type != a->type) return "matrices of several types";
    return NULL;
}

/* NULL, or what is wrong with the shapes and types. */
static const char *check_shapes(const struct fake_desc *desc, const struct fake_layout *a,
                                const struct fake_layout *b, const struct fake_layout *c,
                                const struct fake_layout *d) {
    const struct fake_layout *all[] = {a, b, c, d};
    const char *types = check_types(desc, a, b, c, d);
    if (types != NULL) return types;
    if (desc->transpose_a != CUBLAS_OP_T || desc->transpose_b != CUBLAS_OP_N)
        return "the stand-in knows A transposed and B as it is";
    for (int i = 0; i < 4; i++) {
        const struct fake_layout *m = all[i];
        int64_t whole = m->ld * ((int64_t)m->columns - 1) + (int64_t)m->rows;
        if (m->rows < 1 || m->columns < 1 || m->ld < (int64_t)m->rows) return "ld < rows, or empty";
        if (m->count < 1 || m->count != d->count) return "batch counts differ";
        if (i == 3 && m->count > 1 && m->stride < whole) return "the results of a batch overlap";
        if (m->stride < 0) return "a batch that goes backwards";
    }
    if (a->rows != b->rows || a->columns != d->rows || b->columns != d->columns ||
        c->rows != d->rows || c->columns != d->columns)
        return "the matrices' shapes do not fit";
    if (desc->epilogue & ~CUBLASLT_EPILOGUE_GELU_BIAS & ~CUBLASLT_EPILOGUE_DEFAULT)
        return "an epilogue that the stand-in does not know";
    if ((desc->epilogue & CUBLASLT_EPILOGUE_BIAS) && desc->bias == NULL)
        return "a bias epilogue without a bias";
    if ((uintptr_t)desc->bias % 16) return "a bias that is not 16-byte aligned";
    return NULL;
}

static bool whole_rows(const struct fake_layout *m) {
    return (size_t)m->ld * size_of(m->type) % 16 == 0;
}

static int number_of(const cublasLtMatmulAlgo_t *algo) {
    uint64_t number = algo->data[0] - MAGIC, rest = 0;
    for (int i = 2; i < 8; i++)
        rest |= algo->data[i];
    if (algo->data[0] < MAGIC || number >= ALGORITHMS || rest != 0 || algo->data[1] == 0 ||
        algo->data[1] > 256)
        return -1;
    return (int)number;
}

static size_t workspace_of(int number) {
    return (size_t)number * MIB;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *count) {
    fake_lock lock;
    const char *fault = check_shapes(desc, a, b, c, d);
    uint32_t align = preference->align[0];
    *count = 0;
    fake_cuda_counts.heuristics++;
    if (preference->reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        fake_fault("parts of a product may be added in another type than its sums");
    if (fault != NULL || wanted < 1) {
        fake_fault("cublasLtMatmulAlgoGetHeuristic: %s", fault ? fault : "nothing wanted");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    bool fused = desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    for (int i = 1; i < 4; i++)
        align = min(align, preference->align[i]);
    if (is_whole(desc) && align < 4) {
        fake_fault("int8 matrices that are not 4-byte aligned");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (is_whole(desc) && (fake_cuda_options.no_int8 || d->columns <= 16))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (fake_cuda_options.no_products || (fused && fake_cuda_options.no_fusion) ||
        (fused && !(whole_rows(b) && whole_rows(c) && whole_rows(d))))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < wanted && i < ALGORITHMS; i++) {
        if (workspace_of(i) > preference->workspace) break;
        memset(&results[i], 0, sizeof results[i]);
        results[i].algo.data[0] = MAGIC + (uint64_t)i;
        results[i].algo.data[1] = align;
        results[i].workspaceSize = workspace_of(i);
        *count = i + 1;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
    fake_lock lock;
    const char *fault = check_shapes(desc, a, b, c, d);
    int number = number_of(algo);
    if (fault != NULL) fake_fault("cublasLtMatmulAlgoCheck: %s", fault);
    if (fault != NULL || number < 0) return CUBLAS_STATUS_INVALID_VALUE;
    result->workspaceSize = workspace_of(number);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ----------------------------------------------------------------------------- */

static float load(cudaDataType_t type, const void *data, size_t i) {
    if (type == CUDA_R_32F) return static_cast<const float *>(data)[i];
    uint16_t half = static_cast<const uint16_t *>(data)[i];
    return type == CUDA_R_16F ? simt_from_fp16(half) : simt_from_bf16(half);
}

static void store(cudaDataType_t type, void *data, size_t i, float x) {
    if (type == CUDA_R_32F)
        static_cast<float *>(data)[i] = x;
    else
        static_cast<uint16_t *>(data)[i] = type == CUDA_R_16F ? simt_to_fp16(x) : simt_to_bf16(x);
}

/* 10 bits of mantissa. */
static float to_tf32(float x) {
    return simt_float((simt_bits(x) + 0x1000u) & ~0x1fffu);
}

/* Image `image`'s rows (columns, rows) as dense floats. */
static float *unpack(const struct fake_layout *m, const void *data, int image, bool tf32) {
    float *out = (float *)malloc(m->rows * m->columns * sizeof *out), *at = out;
    for (uint64_t j = 0; j < m->columns; j++)
        for (uint64_t i = 0; i < m->rows; i++, at++) {
            *at = load(m->type, data, (size_t)(image * m->stride) + j * (size_t)m->ld + i);
            if (tf32) *at = to_tf32(*at);
        }
    return out;
}

static float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static float finish(const struct call *call, float sum, uint64_t row, size_t c_at) {
    if (call->beta != 0) sum += call->beta * load(call->c.type, call->c_data, c_at);
    if (call->desc.epilogue & CUBLASLT_EPILOGUE_BIAS)
        sum += load(call->d.type, call->desc.bias, (size_t)row);
    return call->desc.epilogue & CUBLASLT_EPILOGUE_GELU ? gelu(sum) : sum;
}

/* The sum of a column of A and one of B, and what beta adds. */
static void add_up(const struct call *call, const int8_t *x, const int8_t *y, const int32_t *c,
                   int32_t *d) {
    int64_t sum = call->beta != 0 ? (int64_t)call->beta * *c : 0;
    for (uint64_t k = 0; k < call->a.rows; k++)
        sum += x[k] * y[k];
    if (sum != (int32_t)sum) fake_fault("a sum of int8 products does not fit into 32 bits");
    *d = (int32_t)sum;
}

static void multiply_whole(void *closure) {
    const struct call *call = static_cast<const struct call *>(closure);
    const struct fake_layout *a = &call->a, *b = &call->b, *c = &call->c, *d = &call->d;
    for (int image = 0; image < d->count; image++)
        for (uint64_t j = 0; j < d->columns; j++)
            for (uint64_t i = 0; i < d->rows; i++)
                add_up(call,
                       static_cast<const int8_t *>(call->a_data) + image * a->stride +
                           (int64_t)i * a->ld,
                       static_cast<const int8_t *>(call->b_data) + image * b->stride +
                           (int64_t)j * b->ld,
                       static_cast<const int32_t *>(call->c_data) + image * c->stride +
                           (int64_t)j * c->ld + (int64_t)i,
                       static_cast<int32_t *>(call->d_data) + image * d->stride +
                           (int64_t)j * d->ld + (int64_t)i);
}

static void multiply(void *closure) {
    const struct call *call = static_cast<const struct call *>(closure);
    const struct fake_layout *c = &call->c, *d = &call->d;
    const uint64_t depth = call->a.rows;
    const bool tf32 = call->desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    for (int image = 0; image < d->count; image++) {
        float *a = unpack(&call->a, call->a_data, image, tf32);
        float *b = unpack(&call->b, call->b_data, image, tf32);
        for (uint64_t j = 0; j < d->columns; j++)
            for (uint64_t i = 0; i < d->rows; i++) {
                const float *x = a + i * depth, *y = b + j * depth;
                float sum = 0;
                for (uint64_t k = 0; k < depth; k++)
                    sum += x[k] * y[k];
                store(d->type, call->d_data, (size_t)(image * d->stride) + j * (size_t)d->ld + i,
                      finish(call, sum, i, (size_t)(image * c->stride) + j * (size_t)c->ld + i));
            }
        free(a);
        free(b);
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool there(const char *who, const struct fake_layout *m, const void *data) {
    int64_t last =
        (m->count - 1) * m->stride + ((int64_t)m->columns - 1) * m->ld + (int64_t)m->rows;
    return fake_is_device(who, data, (size_t)last * size_of(m->type));
}

/* NULL, or what is wrong with the memory. */
static const char *check_memory(const struct call *call, const cublasLtMatmulAlgo_t *algo,
                                size_t workspace_size) {
    const void *all[] = {call->a_data, call->b_data, call->c_data, call->d_data};
    if (!there("A", &call->a, call->a_data) || !there("B", &call->b, call->b_data) ||
        !there("C", &call->c, call->c_data) || !there("D", &call->d, call->d_data))
        return "a matrix is not where it should be";
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)all[i] % algo->data[1]) return "a matrix is not aligned as promised";
    if (call->desc.bias != NULL &&
        !fake_is_device("bias", call->desc.bias, (size_t)call->d.rows * size_of(call->d.type)))
        return "the bias is not where it should be";
    if (call->c_data == call->d_data &&
        (call->c.ld != call->d.ld || call->c.stride != call->d.stride))
        return "C is D, of another layout";
    if (workspace_size < workspace_of(number_of(algo))) return "too little workspace";
    if (workspace_size > 0 && !fake_is_device("workspace", call->workspace, workspace_size))
        return "the workspace is not where it should be";
    return NULL;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_size, cudaStream_t stream) {
    fake_lock lock;
    const struct call call = {*desc,
                              *a_layout,
                              *b_layout,
                              *c_layout,
                              *d_layout,
                              a,
                              b,
                              c,
                              d,
                              workspace,
                              number_at(desc, alpha),
                              number_at(desc, beta)};
    const char *fault = check_shapes(desc, a_layout, b_layout, c_layout, d_layout);
    const int number = algo ? number_of(algo) : -1;
    if (fake_cuda_options.fail_matmul > 0 && --fake_cuda_options.fail_matmul == 0)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (fault == NULL && call.alpha != 1) fault = "alpha is not 1";
    if (fault == NULL && call.beta != 0 && call.beta != 1) fault = "beta is neither 0 nor 1";
    if (fault == NULL && number < 0) fault = "that is no algorithm";
    if (fault == NULL) fault = check_memory(&call, algo, workspace_size);
    if (fault != NULL) {
        fake_fault("cublasLtMatmul: %s", fault);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    fake_cuda_counts.algorithm = number;
    fake_cuda_counts.int8 += is_whole(desc);
    if (!fake_queue(stream, "a product", is_whole(desc) ? multiply_whole : multiply, &call,
                    sizeof call, number == fake_cuda_options.fastest ? 0.1 : 0.2 + 0.01 * number))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}
