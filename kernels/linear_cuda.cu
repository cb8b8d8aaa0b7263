/*
 * linear_cuda: y = epilogue(x W^T + b) + residual by cuBLASLt, and by activation_cuda what its
 * epilogues do not do.
 *
 * Row-major by transposition: in cuBLASLt's column-major words D (out, n) = W^T X with W (in, out),
 * X (in, n), so that bias runs along D's rows. n = the rows of all images where they lie evenly
 * apart, else a product an image (strided batch). fp32 sums. Fused: bias, bias + tanh GELU (its
 * GELU is the approximation), bias + residual as C with beta = 1. Split into product and
 * activation: exact GELU, quick GELU, SwiGLU, an activation in front of a residual, and what
 * cuBLASLt refuses (odd pitches). FLOPs 2 * rows * in * out.
 *
 * Of 8 algorithms the fastest is taken, timed once per shape where the first pass meets it, kept on
 * disk (cuda_tuning); VITRINE_NO_AUTOTUNE=1 takes the first. Not yet timed on a GPU.
 */
#include "kernels/cuda_backend.cuh"

enum { CANDIDATES = 8, MOST_ALIGN = 256 };

struct descriptions {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t w, x, c, d;
};

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Whether all rows of the view lie *ld apart. */
static bool even(const struct cuda_view *view, size_t *ld) {
    *ld = view->tokens == 1 && view->batch > 1 ? view->stride : view->pitch;
    return view->batch == 1 || view->tokens == 1 ||
           view->stride == (size_t)view->tokens * view->pitch;
}

/* The largest power of two that divides the address. */
static int64_t alignment(const void *a) {
    uintptr_t bits = (uintptr_t)a | MOST_ALIGN;
    return (int64_t)(bits & (~bits + 1));
}

static void product_of(const struct cuda *cuda, const struct cuda_linear *linear,
                       const struct cuda_view *x, const struct cuda_view *c,
                       const struct cuda_view *d, cublasLtEpilogue_t epilogue, bool residual,
                       struct product *p) {
    size_t ldx, ldc, ldd;
    bool one = even(x, &ldx), one_c = even(c, &ldc), one_d = even(d, &ldd);
    int64_t align = alignment(x->data), align_c = alignment(c->data), align_d = alignment(d->data);
    one = one && one_c && one_d;
    memset(p, 0, sizeof *p);
    p->w = linear->weight;
    p->x = x->data;
    p->c = c->data;
    p->d = d->data;
    if (epilogue & CUBLASLT_EPILOGUE_BIAS) p->bias = linear->bias;
    if (align_c < align) align = align_c;
    if (align_d < align) align = align_d;
    p->key[KEY_M] = linear->head.out;
    p->key[KEY_N] = one ? (int64_t)x->batch * x->tokens : x->tokens;
    p->key[KEY_K] = linear->head.in;
    p->key[KEY_COUNT] = one ? 1 : x->batch;
    p->key[KEY_LDW] = (int64_t)linear->pitch;
    p->key[KEY_LDX] = (int64_t)(one ? ldx : x->pitch);
    p->key[KEY_LDC] = (int64_t)(one ? ldc : c->pitch);
    p->key[KEY_LDD] = (int64_t)(one ? ldd : d->pitch);
    p->key[KEY_STRIDE_X] = one ? 0 : (int64_t)x->stride;
    p->key[KEY_STRIDE_C] = one ? 0 : (int64_t)c->stride;
    p->key[KEY_STRIDE_D] = one ? 0 : (int64_t)d->stride;
    p->key[KEY_EPILOGUE] = epilogue;
    p->key[KEY_BETA] = residual;
    p->key[KEY_TYPE] = cuda->type;
    p->key[KEY_TF32] = cuda->tf32;
    p->key[KEY_ALIGN] = align;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static cudaDataType_t data_type(int64_t type, bool result) {
    if (type == PRODUCT_INT8) return result ? CUDA_R_32I : CUDA_R_8I;
    return type == CUDA_FP16 ? CUDA_R_16F : type == CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasStatus_t layout(cublasLtMatrixLayout_t *out, const int64_t *key, bool result,
                             int64_t rows, int64_t columns, int64_t ld, int64_t stride) {
    const int32_t count = (int32_t)key[KEY_COUNT];
    cublasStatus_t status = cublasLtMatrixLayoutCreate(out, data_type(key[KEY_TYPE], result),
                                                       (uint64_t)rows, (uint64_t)columns, ld);
    if (status != CUBLAS_STATUS_SUCCESS || count == 1) return status;
    status = cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                            &stride, sizeof stride);
}

static cublasComputeType_t compute_type(const int64_t *key) {
    if (key[KEY_TYPE] == PRODUCT_INT8) return CUBLAS_COMPUTE_32I;
    return key[KEY_TF32] ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static cublasStatus_t operation(cublasLtMatmulDesc_t *out, const struct product *p) {
    const int32_t transpose = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = (cublasLtEpilogue_t)p->key[KEY_EPILOGUE];
    cublasStatus_t status = cublasLtMatmulDescCreate(
        out, compute_type(p->key), p->key[KEY_TYPE] == PRODUCT_INT8 ? CUDA_R_32I : CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                                sizeof transpose);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                sizeof epilogue);
    if (status == CUBLAS_STATUS_SUCCESS && p->bias != NULL)
        status = cublasLtMatmulDescSetAttribute(*out, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias,
                                                sizeof p->bias);
    return status;
}

static void close_descriptions(struct descriptions *d) {
    if (d->op != NULL) (void)cublasLtMatmulDescDestroy(d->op);
    if (d->w != NULL) (void)cublasLtMatrixLayoutDestroy(d->w);
    if (d->x != NULL) (void)cublasLtMatrixLayoutDestroy(d->x);
    if (d->c != NULL) (void)cublasLtMatrixLayoutDestroy(d->c);
    if (d->d != NULL) (void)cublasLtMatrixLayoutDestroy(d->d);
}

/* To be closed also when it failed. */
static enum status open_descriptions(const struct product *p, struct descriptions *d) {
    const int64_t *key = p->key, m = key[KEY_M], n = key[KEY_N], k = key[KEY_K];
    memset(d, 0, sizeof *d);
    LT_TRY("cublasLtMatmulDesc", operation(&d->op, p));
    LT_TRY("cublasLtMatrixLayout", layout(&d->w, key, false, k, m, key[KEY_LDW], 0));
    LT_TRY("cublasLtMatrixLayout",
           layout(&d->x, key, false, k, n, key[KEY_LDX], key[KEY_STRIDE_X]));
    LT_TRY("cublasLtMatrixLayout", layout(&d->c, key, true, m, n, key[KEY_LDC], key[KEY_STRIDE_C]));
    LT_TRY("cublasLtMatrixLayout", layout(&d->d, key, true, m, n, key[KEY_LDD], key[KEY_STRIDE_D]));
    return ST_OK;
}

static cublasStatus_t multiply(struct cuda *cuda, const struct product *p,
                               const struct descriptions *d, const cublasLtMatmulAlgo_t *algo) {
    static const float real[] = {0, 1};
    static const int32_t whole[] = {0, 1};
    const bool int8 = p->key[KEY_TYPE] == PRODUCT_INT8, add = p->key[KEY_BETA] != 0;
    const void *alpha = int8 ? (const void *)&whole[1] : &real[1];
    const void *beta = int8 ? (const void *)&whole[add] : &real[add];
    return cublasLtMatmul(cuda->lt, d->op, alpha, p->w, d->w, p->x, d->x, beta, p->c, d->c, p->d,
                          d->d, algo, cuda->workspace.data, cuda->workspace.size, cuda->compute);
}

/* ---- which algorithm ------------------------------------------------------------------------- */

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, const struct product *p,
                             size_t workspace) {
    static const cublasLtMatmulPreferenceAttributes_t aligns[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t bytes = workspace;
    const uint32_t align = (uint32_t)p->key[KEY_ALIGN];
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* parts are added as it */
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction);
    for (size_t i = 0; status == CUBLAS_STATUS_SUCCESS && i < COUNT_OF(aligns); i++)
        status = cublasLtMatmulPreferenceSetAttribute(preference, aligns[i], &align, sizeof align);
    return status;
}

/* cuBLASLt's best guesses; *count 0: it has nothing for this product. */
static enum status candidates(struct cuda *cuda, const struct product *p,
                              const struct descriptions *d, cublasLtMatmulHeuristicResult_t *found,
                              int *count) {
    cublasLtMatmulPreference_t preference;
    cublasStatus_t status;
    *count = 0;
    LT_TRY("cublasLtMatmulPreference", cublasLtMatmulPreferenceCreate(&preference));
    status = prefer(preference, p, cuda->workspace.size);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(cuda->lt, d->op, d->w, d->x, d->c, d->d, preference,
                                                CANDIDATES, found, count);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS) return ST_OK;
    *count = 0;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
        return ST_OK;
    return lt_fail("cublasLtMatmulAlgoGetHeuristic", status);
}

/* A run that is timed. */
struct trial {
    const struct product *p;
    const struct descriptions *d;
    const cublasLtMatmulAlgo_t *algo;
};

static enum status run_trial(struct cuda *cuda, const void *call) {
    const struct trial *trial = (const struct trial *)call;
    LT_TRY("cublasLtMatmul", multiply(cuda, trial->p, trial->d, trial->algo));
    return ST_OK;
}

/* Bytes from the product's first to its last element, at the address's alignment. */
static size_t extent(const struct product *p) {
    const int64_t *key = p->key;
    const bool int8 = key[KEY_TYPE] == PRODUCT_INT8;
    size_t values = (size_t)((key[KEY_COUNT] - 1) * key[KEY_STRIDE_D] +
                             (key[KEY_N] - 1) * key[KEY_LDD] + key[KEY_M]);
    return values * (int8 ? sizeof(int32_t) : type_bytes((enum cuda_type)key[KEY_TYPE])) +
           MOST_ALIGN;
}

/* The index of the fastest; results go to memory of their own. Without it: the first. */
static int fastest(struct cuda *cuda, const struct product *p,
                   const cublasLtMatmulHeuristicResult_t *found, int count) {
    struct product trial = *p;
    struct descriptions d;
    float least = -1;
    void *memory = NULL;
    int best = 0;
    trial.key[KEY_LDC] = p->key[KEY_LDD]; /* C is D there */
    trial.key[KEY_STRIDE_C] = p->key[KEY_STRIDE_D];
    if (open_descriptions(&trial, &d) == ST_OK &&
        cuda_alloc(cuda, "the timing of products", extent(p), &memory) == ST_OK) {
        trial.d = (unsigned char *)memory + (uintptr_t)p->d % MOST_ALIGN;
        trial.c = trial.d;
        for (int i = 0; i < count; i++) {
            const struct trial run = {&trial, &d, &found[i].algo};
            float took = tuning_time(cuda, run_trial, &run);
            if (took < 0 || (least >= 0 && took >= least)) continue;
            least = took;
            best = i;
        }
    }
    close_descriptions(&d);
    cuda_free(cuda, memory);
    return best;
}

static void row_of(const struct product *p, struct tuning_row *row) {
    static_assert(sizeof p->key == sizeof row->key.numbers, "a product's key is a row's");
    memset(row, 0, sizeof *row);
    row->key.kind = TUNED_PRODUCT;
    row->key.version = (int64_t)cublasLtGetVersion();
    memcpy(row->key.numbers, p->key, sizeof p->key);
}

/* Whether a row from disk is an algorithm for this product: it may be of anybody's making. */
static bool known(struct cuda *cuda, const struct product *p, const struct descriptions *d,
                  cublasLtMatmulAlgo_t *algo) {
    cublasLtMatmulHeuristicResult_t result;
    const struct tuning_row *there;
    struct tuning_row row;
    static_assert(sizeof *algo == sizeof row.words, "an algorithm is eight words");
    row_of(p, &row);
    there = tuning_find(&cuda->tuning, &row.key);
    if (there == NULL) return false;
    memset(&result, 0, sizeof result);
    memcpy(algo, there->words, sizeof *algo);
    return cublasLtMatmulAlgoCheck(cuda->lt, d->op, d->w, d->x, d->c, d->d, algo, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= cuda->workspace.size;
}

static enum status choose(struct cuda *cuda, const struct product *p, const struct descriptions *d,
                          struct product_plan *plan) {
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    struct tuning_row row;
    int count, usable = 0;
    plan->usable = known(cuda, p, d, &plan->algo);
    if (plan->usable) return ST_OK;
    memset(found, 0, sizeof found);
    TRY(candidates(cuda, p, d, found, &count));
    for (int i = 0; i < count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS) found[usable++] = found[i];
    if (usable == 0) return ST_OK;
    plan->usable = true;
    plan->algo = found[0].algo;
    if (cuda->tuning.off) return ST_OK;
    if (usable > 1) plan->algo = found[fastest(cuda, p, found, usable)].algo;
    row_of(p, &row);
    memcpy(row.words, &plan->algo, sizeof row.words);
    tuning_keep(&cuda->tuning, &row);
    return ST_OK;
}

static const struct product_plan *find_plan(const struct cuda *cuda, const int64_t key[KEYS]) {
    for (size_t i = 0; i < cuda->plan_count; i++)
        if (memcmp(cuda->plans[i].key, key, sizeof cuda->plans[i].key) == 0) return &cuda->plans[i];
    return NULL;
}

enum status cuda_plan_product(struct cuda *cuda, const struct product *p, bool *usable) {
    const struct product_plan *there = find_plan(cuda, p->key);
    struct product_plan plan;
    struct descriptions d;
    enum status st;
    if (there != NULL) {
        *usable = there->usable;
        return ST_OK;
    }
    memset(&plan, 0, sizeof plan);
    memcpy(plan.key, p->key, sizeof plan.key);
    st = open_descriptions(p, &d);
    if (st == ST_OK) st = choose(cuda, p, &d, &plan);
    close_descriptions(&d);
    if (st != ST_OK) return st;
    TRY(mem_grow((void **)&cuda->plans, &cuda->plan_capacity, cuda->plan_count + 1,
                 sizeof *cuda->plans));
    cuda->plans[cuda->plan_count++] = plan;
    *usable = plan.usable;
    return ST_OK;
}

enum status cuda_no_product(const struct product *p) {
    return fail(ST_DEVICE, "cuBLASLt has no product (%lld, %lld) x (%lld, %lld) in this precision",
                (long long)p->key[KEY_N], (long long)p->key[KEY_K], (long long)p->key[KEY_K],
                (long long)p->key[KEY_M]);
}

enum status cuda_run_product(struct cuda *cuda, const struct product *p) {
    const struct product_plan *plan = find_plan(cuda, p->key);
    struct descriptions d;
    enum status st;
    if (plan == NULL || !plan->usable) return fail(ST_DEVICE, "cublasLtMatmul: no plan");
    st = open_descriptions(p, &d);
    if (st == ST_OK) {
        cublasStatus_t status = multiply(cuda, p, &d, &plan->algo);
        if (status != CUBLAS_STATUS_SUCCESS) st = lt_fail("cublasLtMatmul", status);
    }
    close_descriptions(&d);
    return st;
}

/* ---- fused, or split ------------------------------------------------------------------------- */

/* The whole op as one product; false: its epilogue is none of cuBLASLt's. */
static bool fused_product(const struct cuda *cuda, const struct record_linear *call,
                          struct product *p) {
    const bool bias = call->linear->bias != NULL, residual = call->residual.data != NULL;
    cublasLtEpilogue_t epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (call->epilogue == EPILOGUE_GELU_TANH && !residual)
        epilogue = bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    else if (call->epilogue != EPILOGUE_NONE)
        return false;
    product_of(cuda, call->linear, &call->x, residual ? &call->residual : &call->y, &call->y,
               epilogue, residual, p);
    return true;
}

/* Whether the product alone cannot go where y goes. */
static bool needs_scratch(const struct record_linear *call) {
    return call->epilogue == EPILOGUE_SWIGLU ||
           (call->residual.data != NULL && call->residual.data == call->y.data);
}

static void scratch_view(const struct cuda *cuda, const struct record_linear *call,
                         struct cuda_view *view) {
    const size_t chunk = 16 / cuda->be.act_size;
    memset(view, 0, sizeof *view);
    view->data = cuda->scratch.data;
    view->batch = call->y.batch;
    view->tokens = call->y.tokens;
    view->channels = call->linear->head.out;
    view->pitch = ((size_t)view->channels + chunk - 1) / chunk * chunk;
    view->stride = (size_t)view->tokens * view->pitch;
}

static size_t scratch_bytes(const struct cuda *cuda, const struct record_linear *call) {
    struct cuda_view view;
    scratch_view(cuda, call, &view);
    return needs_scratch(call) ? (size_t)view.batch * view.stride * cuda->be.act_size : 0;
}

size_t cuda_linear_scratch(const struct cuda *cuda, const struct record_linear *call) {
    struct product p;
    if (call->linear->scales != NULL) return cuda_int8_scratch(call);
    return fused_product(cuda, call, &p) ? 0 : scratch_bytes(cuda, call);
}

/* Where the product of the split form goes, and that product. */
static void split_product(const struct cuda *cuda, const struct record_linear *call,
                          struct cuda_view *target, struct product *p) {
    *target = call->y;
    if (needs_scratch(call)) scratch_view(cuda, call, target);
    product_of(cuda, call->linear, &call->x, target, target, CUBLASLT_EPILOGUE_DEFAULT, false, p);
}

enum status cuda_linear_prepare(struct cuda *cuda, const struct record_linear *call) {
    struct cuda_view target;
    struct product p;
    bool usable = false;
    TRY(cuda_want(cuda, &cuda->workspace, (size_t)CUDA_WORKSPACE_MIB * 1024 * 1024));
    if (call->linear->scales != NULL) return cuda_int8_prepare(cuda, call);
    if (fused_product(cuda, call, &p)) TRY(cuda_plan_product(cuda, &p, &usable));
    if (usable) return ST_OK;
    TRY(cuda_want(cuda, &cuda->scratch, scratch_bytes(cuda, call)));
    split_product(cuda, call, &target, &p);
    TRY(cuda_plan_product(cuda, &p, &usable));
    return usable ? ST_OK : cuda_no_product(&p);
}

enum status cuda_linear_run(struct cuda *cuda, const struct record_linear *call) {
    const struct product_plan *plan = NULL;
    struct cuda_activation activation;
    struct product p;
    if (call->linear->scales != NULL) return cuda_int8_run(cuda, call);
    if (fused_product(cuda, call, &p)) plan = find_plan(cuda, p.key);
    if (plan != NULL && plan->usable) return cuda_run_product(cuda, &p);
    memset(&activation, 0, sizeof activation);
    split_product(cuda, call, &activation.x, &p);
    TRY(cuda_run_product(cuda, &p));
    activation.type = cuda->type;
    activation.epilogue = call->epilogue;
    activation.residual = call->residual;
    activation.y = call->y;
    activation.bias = call->linear->bias_fp32;
    return cuda_activation(&activation, cuda->compute);
}
