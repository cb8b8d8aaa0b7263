/*
 * onednn: see onednn.h. matmul primitives of oneDNN 2 and 3; x (M, K) W^T (K, N) + b (N) -> y (M,
 * N), with post-ops for the activation and for the residual (a sum onto y, where the residual is
 * copied first).
 *
 * The versions differ in how they name and own memory descriptors (a struct in 2, a handle in 3)
 * and in the signatures of four calls; the block "versions" below is all of it.
 */
#include "kernels/onednn.h"

#if HAVE_ONEDNN

#include <dnnl.h>
#include <stdio.h>
#include <string.h>

/* ---- versions -------------------------------------------------------------------------------- */

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t desc_view;

static desc_view view(const dnnl_memory_desc_t *desc) {
    return *desc;
}

static dnnl_status_t desc_strided(dnnl_memory_desc_t *desc, int ndims, const dnnl_dims_t dims,
                                  const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(desc, ndims, dims, dnnl_f32, strides);
}

static dnnl_status_t desc_any(dnnl_memory_desc_t *desc, int ndims, const dnnl_dims_t dims) {
    return dnnl_memory_desc_create_with_tag(desc, ndims, dims, dnnl_f32, dnnl_format_tag_any);
}

static dnnl_status_t desc_copy(dnnl_memory_desc_t *desc, desc_view from) {
    return dnnl_memory_desc_clone(desc, from);
}

static void desc_release(dnnl_memory_desc_t *desc) {
    if (*desc) dnnl_memory_desc_destroy(*desc);
    *desc = NULL;
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t post, dnnl_alg_kind_t kind, float alpha) {
    return dnnl_post_ops_append_eltwise(post, kind, alpha, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t post) {
    return dnnl_post_ops_append_sum(post, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *matmul, dnnl_engine_t engine, desc_view x,
                                 desc_view weight, desc_view bias, desc_view y,
                                 const_dnnl_primitive_attr_t attr) {
    return dnnl_matmul_primitive_desc_create(matmul, engine, x, weight, bias, y, attr);
}

#else

typedef const dnnl_memory_desc_t *desc_view;

static desc_view view(const dnnl_memory_desc_t *desc) {
    return desc;
}

static dnnl_status_t desc_strided(dnnl_memory_desc_t *desc, int ndims, const dnnl_dims_t dims,
                                  const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(desc, ndims, dims, dnnl_f32, strides);
}

static dnnl_status_t desc_any(dnnl_memory_desc_t *desc, int ndims, const dnnl_dims_t dims) {
    return dnnl_memory_desc_init_by_tag(desc, ndims, dims, dnnl_f32, dnnl_format_tag_any);
}

static dnnl_status_t desc_copy(dnnl_memory_desc_t *desc, desc_view from) {
    *desc = *from;
    return dnnl_success;
}

static void desc_release(dnnl_memory_desc_t *desc) {
    (void)desc;
}

static dnnl_status_t append_eltwise(dnnl_post_ops_t post, dnnl_alg_kind_t kind, float alpha) {
    return dnnl_post_ops_append_eltwise(post, 1, kind, alpha, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t post) {
    return dnnl_post_ops_append_sum(post, 1);
}

static dnnl_status_t matmul_desc(dnnl_primitive_desc_t *matmul, dnnl_engine_t engine, desc_view x,
                                 desc_view weight, desc_view bias, desc_view y,
                                 const_dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t desc;
    dnnl_status_t st = dnnl_matmul_desc_init(&desc, x, weight, bias, y);
    return st == dnnl_success ? dnnl_primitive_desc_create(matmul, &desc, attr, engine, NULL) : st;
}

#endif

/* ---- the library ----------------------------------------------------------------------------- */

/* A primitive and, for each worker, the memory objects that its calls point elsewhere. */
struct onednn_shape {
    struct onednn_shape *next;
    int rows, k, n;
    size_t x_pitch, y_pitch;
    enum epilogue epilogue;
    bool has_bias, has_residual;
    dnnl_memory_desc_t layout; /* of the weight */
    dnnl_primitive_t primitive;
    struct shape_memory {
        dnnl_memory_t x, y, scratch;
    } * memories; /* (workers) */
};

struct onednn {
    int workers;
    dnnl_engine_t engine;
    dnnl_stream_t *streams; /* (workers) */
    struct onednn_shape *shapes;
    size_t scratch; /* bytes */
    char version[32];
};

struct onednn_weight {
    struct onednn *dnn;
    int k, n;
    dnnl_memory_t bias; /* NULL = none */
    dnnl_memory_desc_t layout;
    struct arena arena;
    dnnl_memory_t packed;
};

/*
 * OpenMP's, declared here because its header belongs to the compiler, and clang may come without.
 */
void omp_set_num_threads(int count);

/*
 * oneDNN asks OpenMP for the thread count when it builds and when it runs, and the setting belongs
 * to the calling thread. The work is split outside, and any thread may call: so each call sets it.
 */
static void one_thread(void) {
    omp_set_num_threads(1);
}

static enum status check(dnnl_status_t st, const char *what) {
    if (st == dnnl_success) return ST_OK;
    return fail(st == dnnl_out_of_memory ? ST_NOMEM : ST_DEVICE, "oneDNN: %s failed with status %d",
                what, (int)st);
}

enum status onednn_open(int workers, struct onednn **out) {
    const dnnl_version_t *version = dnnl_version();
    struct onednn *dnn = mem_zalloc(1, sizeof *dnn);
    enum status st = ST_OK;
    *out = NULL;
    if (!dnn) return ST_NOMEM;
    dnn->workers = workers;
    dnn->streams = mem_zalloc((size_t)workers, sizeof *dnn->streams);
    if (!dnn->streams) st = ST_NOMEM;
    one_thread();
    if (st == ST_OK) st = check(dnnl_engine_create(&dnn->engine, dnnl_cpu, 0), "the engine");
    for (int i = 0; st == ST_OK && i < workers; i++)
        st = check(dnnl_stream_create(&dnn->streams[i], dnn->engine, dnnl_stream_default_flags),
                   "a stream");
    snprintf(dnn->version, sizeof dnn->version, "%d.%d.%d", version->major, version->minor,
             version->patch);
    if (st != ST_OK) {
        onednn_close(dnn);
        return st;
    }
    *out = dnn;
    return ST_OK;
}

static void memory_release(dnnl_memory_t *memory) {
    if (*memory) dnnl_memory_destroy(*memory);
    *memory = NULL;
}

static void shape_release(struct onednn_shape *shape, int workers) {
    for (int i = 0; shape->memories && i < workers; i++) {
        memory_release(&shape->memories[i].x);
        memory_release(&shape->memories[i].y);
        memory_release(&shape->memories[i].scratch);
    }
    if (shape->primitive) dnnl_primitive_destroy(shape->primitive);
    desc_release(&shape->layout);
    mem_free(shape->memories);
    mem_free(shape);
}

void onednn_close(struct onednn *dnn) {
    if (!dnn) return;
    while (dnn->shapes) {
        struct onednn_shape *shape = dnn->shapes;
        dnn->shapes = shape->next;
        shape_release(shape, dnn->workers);
    }
    for (int i = 0; dnn->streams && i < dnn->workers; i++)
        if (dnn->streams[i]) dnnl_stream_destroy(dnn->streams[i]);
    if (dnn->engine) dnnl_engine_destroy(dnn->engine);
    mem_free(dnn->streams);
    mem_free(dnn);
}

const char *onednn_version(const struct onednn *dnn) {
    return dnn ? dnn->version : NULL;
}

size_t onednn_scratch(const struct onednn *dnn) {
    return (dnn->scratch + sizeof(float) - 1) / sizeof(float);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static enum status make_attr(const struct gemm_task *task, dnnl_primitive_attr_t *attr) {
    dnnl_post_ops_t post = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(attr);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (st == dnnl_success) st = dnnl_post_ops_create(&post);
    if (st == dnnl_success && task->epilogue == EPILOGUE_GELU)
        st = append_eltwise(post, dnnl_eltwise_gelu_erf, 0);
    if (st == dnnl_success && task->epilogue == EPILOGUE_GELU_TANH)
        st = append_eltwise(post, dnnl_eltwise_gelu_tanh, 0);
    if (st == dnnl_success && task->epilogue == EPILOGUE_QUICK_GELU)
        st = append_eltwise(post, dnnl_eltwise_swish, 1.702f);
    if (st == dnnl_success && task->residual) st = append_sum(post);
    if (st == dnnl_success) st = dnnl_primitive_attr_set_post_ops(*attr, post);
    if (post) dnnl_post_ops_destroy(post);
    return check(st, "an attribute");
}

/*
 * The primitive's description for `task` with the weight in `layout`, NULL = whichever the library
 * likes best.
 */
static enum status describe(const struct onednn *dnn, const struct onednn_weight *weight,
                            const struct gemm_task *task, const dnnl_memory_desc_t *layout,
                            dnnl_primitive_desc_t *out) {
    dnnl_dims_t x_dims = {task->rows, weight->k}, x_strides = {(dnnl_dim_t)task->x_pitch, 1};
    dnnl_dims_t y_dims = {task->rows, weight->n}, y_strides = {(dnnl_dim_t)task->y_pitch, 1};
    dnnl_dims_t w_dims = {weight->k, weight->n}, b_dims = {1, weight->n},
                b_strides = {weight->n, 1};
    dnnl_memory_desc_t x, y, b, any;
    dnnl_primitive_attr_t attr = NULL;
    enum status st;
    memset(&x, 0, sizeof x);
    memset(&y, 0, sizeof y);
    memset(&b, 0, sizeof b);
    memset(&any, 0, sizeof any);
    TRY_OUT(make_attr(task, &attr));
    TRY_OUT(check(desc_strided(&x, 2, x_dims, x_strides), "x"));
    TRY_OUT(check(desc_strided(&y, 2, y_dims, y_strides), "y"));
    TRY_OUT(check(desc_strided(&b, 2, b_dims, b_strides), "the bias"));
    TRY_OUT(check(desc_any(&any, 2, w_dims), "the weight"));
    one_thread();
    st = check(matmul_desc(out, dnn->engine, view(&x), view(layout ? layout : &any),
                           weight->bias ? view(&b) : NULL, view(&y), attr),
               "a product");
out:
    desc_release(&x);
    desc_release(&y);
    desc_release(&b);
    desc_release(&any);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return st;
}

static enum status make_memories(struct onednn *dnn, struct onednn_shape *shape,
                                 const_dnnl_primitive_desc_t desc) {
    static const dnnl_query_t queries[3] = {dnnl_query_src_md, dnnl_query_dst_md,
                                            dnnl_query_scratchpad_md};
    size_t bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0));
    shape->memories = mem_zalloc((size_t)dnn->workers, sizeof *shape->memories);
    if (!shape->memories) return ST_NOMEM;
    for (int i = 0; i < dnn->workers; i++) {
        struct shape_memory *memory = &shape->memories[i];
        dnnl_memory_t *const made[3] = {&memory->x, &memory->y, &memory->scratch};
        for (int j = 0; j < 3; j++)
            TRY(check(dnnl_memory_create(made[j], dnnl_primitive_desc_query_md(desc, queries[j], 0),
                                         dnn->engine, DNNL_MEMORY_NONE),
                      "a memory object"));
    }
    if (bytes > dnn->scratch) dnn->scratch = bytes;
    return ST_OK;
}

struct onednn_shape *onednn_find(const struct onednn_weight *weight, const struct gemm_task *task) {
    for (struct onednn_shape *shape = weight->dnn->shapes; shape; shape = shape->next)
        if (shape->rows == task->rows && shape->k == weight->k && shape->n == weight->n &&
            shape->x_pitch == task->x_pitch && shape->y_pitch == task->y_pitch &&
            shape->epilogue == task->epilogue && shape->has_bias == (weight->bias != NULL) &&
            shape->has_residual == (task->residual != NULL) &&
            dnnl_memory_desc_equal(view(&shape->layout), view(&weight->layout)))
            return shape;
    return NULL;
}

/*
 * Whether the library's product is more than its reference loops, tens of times slower than ours.
 */
static bool is_fast(const_dnnl_primitive_desc_t desc) {
    const char *text = NULL;
    if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&text) != dnnl_success)
        return false;
    return text && strncmp(text, "ref", 3) != 0;
}

static enum status add_shape(struct onednn *dnn, const struct onednn_weight *weight,
                             const struct gemm_task *task, const_dnnl_primitive_desc_t desc) {
    struct onednn_shape *shape = mem_zalloc(1, sizeof *shape);
    enum status st;
    if (!shape) return ST_NOMEM;
    *shape = (struct onednn_shape){.rows = task->rows,
                                   .k = weight->k,
                                   .n = weight->n,
                                   .x_pitch = task->x_pitch,
                                   .y_pitch = task->y_pitch,
                                   .epilogue = task->epilogue,
                                   .has_bias = weight->bias != NULL,
                                   .has_residual = task->residual != NULL};
    TRY_OUT(check(desc_copy(&shape->layout, view(&weight->layout)), "a layout"));
    one_thread();
    TRY_OUT(check(dnnl_primitive_create(&shape->primitive, desc), "a product"));
    TRY_OUT(make_memories(dnn, shape, desc));
    shape->next = dnn->shapes;
    dnn->shapes = shape;
    return ST_OK;
out:
    shape_release(shape, dnn->workers);
    return st;
}

enum status onednn_prepare(const struct onednn_weight *weight, const struct gemm_task *task,
                           bool *fits) {
    dnnl_primitive_desc_t desc = NULL;
    enum status st = ST_OK;
    *fits = true;
    if (onednn_find(weight, task)) return ST_OK;
    *fits = describe(weight->dnn, weight, task, &weight->layout, &desc) == ST_OK && is_fast(desc);
    if (*fits) st = add_shape(weight->dnn, weight, task, desc);
    if (desc) dnnl_primitive_desc_destroy(desc);
    return st;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* to = from, whatever their layouts. */
static enum status reorder(struct onednn *dnn, dnnl_memory_t from,
                           const dnnl_memory_desc_t *from_layout, dnnl_memory_t to,
                           const dnnl_memory_desc_t *to_layout) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    dnnl_status_t st;
    one_thread();
    st = dnnl_reorder_primitive_desc_create(&desc, view(from_layout), dnn->engine, view(to_layout),
                                            dnn->engine, NULL);
    if (st == dnnl_success) st = dnnl_primitive_create(&primitive, desc);
    if (st == dnnl_success) st = dnnl_primitive_execute(primitive, dnn->streams[0], 2, args);
    if (st == dnnl_success) st = dnnl_stream_wait(dnn->streams[0]);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (desc) dnnl_primitive_desc_destroy(desc);
    return check(st, "packing a weight");
}

/* Between a weight's packed memory and plain (n, k) values: into them if `unpack`. */
static enum status move_values(const struct onednn_weight *weight, const float *plain,
                               bool unpack) {
    dnnl_dims_t dims = {weight->k, weight->n}, strides = {1, weight->k};
    dnnl_memory_desc_t layout;
    dnnl_memory_t memory = NULL;
    enum status st;
    memset(&layout, 0, sizeof layout);
    TRY_OUT(check(desc_strided(&layout, 2, dims, strides), "the weight"));
    TRY_OUT(check(
        dnnl_memory_create(&memory, view(&layout), weight->dnn->engine, (void *)(uintptr_t)plain),
        "a memory object"));
    st = unpack ? reorder(weight->dnn, weight->packed, &weight->layout, memory, &layout)
                : reorder(weight->dnn, memory, &layout, weight->packed, &weight->layout);
out:
    memory_release(&memory);
    desc_release(&layout);
    return st;
}

enum status onednn_unpack(const struct onednn_weight *weight, float *values) {
    return move_values(weight, values, true);
}

/* Chooses the layout by the product's shape and makes its memory. */
static enum status reserve_packed(struct onednn_weight *weight, int rows) {
    struct gemm_task task = {
        .rows = rows, .x_pitch = (size_t)weight->k, .y_pitch = (size_t)weight->n};
    dnnl_primitive_desc_t desc = NULL;
    enum status st;
    TRY(describe(weight->dnn, weight, &task, NULL, &desc));
    TRY_OUT(check(
        desc_copy(&weight->layout, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0)),
        "a layout"));
    (void)arena_take(&weight->arena, dnnl_memory_desc_get_size(view(&weight->layout)), 1);
    TRY_OUT(arena_reserve(&weight->arena, "oneDNN weight"));
    st = check(dnnl_memory_create(&weight->packed, view(&weight->layout), weight->dnn->engine,
                                  weight->arena.base),
               "a memory object");
out:
    dnnl_primitive_desc_destroy(desc);
    return st;
}

static enum status set_bias(struct onednn_weight *weight, const float *bias) {
    dnnl_dims_t dims = {1, weight->n}, strides = {weight->n, 1};
    dnnl_memory_desc_t desc;
    enum status st;
    TRY(check(desc_strided(&desc, 2, dims, strides), "the bias"));
    st = check(dnnl_memory_create(&weight->bias, view(&desc), weight->dnn->engine,
                                  (void *)(uintptr_t)bias),
               "a memory object");
    desc_release(&desc);
    return st;
}

enum status onednn_pack(struct onednn *dnn, const float *weight, const float *bias, int k, int n,
                        int rows, struct onednn_weight **out) {
    struct onednn_weight *made = mem_zalloc(1, sizeof *made);
    enum status st = ST_OK;
    *out = NULL;
    if (!made) return ST_NOMEM;
    made->dnn = dnn;
    made->k = k;
    made->n = n;
    if (bias) st = set_bias(made, bias);
    if (st == ST_OK) st = reserve_packed(made, rows);
    if (st == ST_OK) st = move_values(made, weight, false);
    if (st != ST_OK) {
        onednn_release(made);
        return st;
    }
    *out = made;
    return ST_OK;
}

void onednn_release(struct onednn_weight *weight) {
    if (!weight) return;
    memory_release(&weight->bias);
    memory_release(&weight->packed);
    desc_release(&weight->layout);
    arena_release(&weight->arena);
    mem_free(weight);
}

/* ---- products -------------------------------------------------------------------------------- */

enum status onednn_run(const struct onednn_shape *shape, const struct onednn_weight *weight,
                       const struct gemm_task *task, int worker, float *scratch) {
    struct shape_memory *memory = &shape->memories[worker];
    dnnl_status_t st;
    if (task->residual && task->residual != task->y)
        for (int i = 0; i < task->rows; i++)
            memcpy(task->y + (size_t)i * task->y_pitch,
                   task->residual + (size_t)i * task->residual_pitch,
                   (size_t)weight->n * sizeof(float));
    st = dnnl_memory_set_data_handle(memory->x, (void *)(uintptr_t)task->x);
    if (st == dnnl_success) st = dnnl_memory_set_data_handle(memory->y, task->y);
    if (st == dnnl_success) st = dnnl_memory_set_data_handle(memory->scratch, scratch);
    if (st == dnnl_success) {
        dnnl_exec_arg_t args[5] = {{DNNL_ARG_SRC, memory->x},
                                   {DNNL_ARG_WEIGHTS, weight->packed},
                                   {DNNL_ARG_DST, memory->y},
                                   {DNNL_ARG_SCRATCHPAD, memory->scratch},
                                   {DNNL_ARG_BIAS, weight->bias}};
        one_thread();
        st = dnnl_primitive_execute(shape->primitive, weight->dnn->streams[worker],
                                    weight->bias ? 5 : 4, args);
    }
    return check(st, "a product");
}

#else

/* Nothing below is reached: without an `onednn` no weight is packed for it. */

enum status onednn_open(int workers, struct onednn **out) {
    (void)workers;
    *out = NULL;
    return ST_OK;
}

void onednn_close(struct onednn *dnn) {
    (void)dnn;
}

const char *onednn_version(const struct onednn *dnn) {
    (void)dnn;
    return NULL;
}

enum status onednn_pack(struct onednn *dnn, const float *weight, const float *bias, int k, int n,
                        int rows, struct onednn_weight **out) {
    (void)dnn, (void)weight, (void)bias, (void)k, (void)n, (void)rows;
    *out = NULL;
    return fail(ST_DEVICE, "oneDNN is not built in");
}

enum status onednn_unpack(const struct onednn_weight *weight, float *values) {
    (void)weight, (void)values;
    return fail(ST_DEVICE, "oneDNN is not built in");
}

void onednn_release(struct onednn_weight *weight) {
    (void)weight;
}

enum status onednn_prepare(const struct onednn_weight *weight, const struct gemm_task *task,
                           bool *fits) {
    (void)weight, (void)task;
    *fits = false;
    return ST_OK;
}

struct onednn_shape *onednn_find(const struct onednn_weight *weight, const struct gemm_task *task) {
    (void)weight, (void)task;
    return NULL;
}

size_t onednn_scratch(const struct onednn *dnn) {
    (void)dnn;
    return 0;
}

enum status onednn_run(const struct onednn_shape *shape, const struct onednn_weight *weight,
                       const struct gemm_task *task, int worker, float *scratch) {
    (void)shape, (void)weight, (void)task, (void)worker, (void)scratch;
    return fail(ST_DEVICE, "oneDNN is not built in");
}

#endif
