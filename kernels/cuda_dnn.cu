/*
 * cuda_dnn: see cuda_dnn.h. cuDNN's library by name at run time, a graph's plans, running them.
 *
 * Host code alone, no kernel and no runtime call, so that a C++ compiler makes it for the tests as
 * nvcc makes it for the backend.
 */
#include "kernels/cuda_dnn.cuh"

#if !HAVE_DNN

/* ---- built without cuDNN --------------------------------------------------------------------- */

static enum status missing(void) {
    return fail(ST_DEVICE, "cudnn: this build has none");
}

enum status dnn_open(struct dnn **out) {
    *out = NULL;
    return missing();
}
enum status dnn_open_described(const char *json, struct dnn **out) {
    (void)json;
    *out = NULL;
    return missing();
}
void dnn_close(struct dnn **dnn) {
    *dnn = NULL;
}
int dnn_version(const struct dnn *dnn) {
    (void)dnn;
    return 0;
}
enum status dnn_attention_open(struct dnn *dnn, const struct dnn_attention *desc,
                               struct dnn_graph **out) {
    (void)dnn;
    (void)desc;
    *out = NULL;
    return missing();
}
enum status dnn_conv_open(struct dnn *dnn, const struct dnn_conv *desc, struct dnn_graph **out) {
    (void)dnn;
    (void)desc;
    *out = NULL;
    return missing();
}
int dnn_plans(const struct dnn_graph *graph) {
    (void)graph;
    return 0;
}
int dnn_engine(const struct dnn_graph *graph, int plan) {
    (void)graph;
    (void)plan;
    return -1;
}
size_t dnn_workspace(const struct dnn_graph *graph, int plan) {
    (void)graph;
    (void)plan;
    return 0;
}
enum status dnn_build(struct dnn_graph *graph, int plan) {
    (void)graph;
    (void)plan;
    return missing();
}
void dnn_keep(struct dnn_graph *graph, int plan) {
    (void)graph;
    (void)plan;
}
enum status dnn_run(struct dnn_graph *graph, int plan, const struct dnn_data *data, void *stream) {
    (void)graph;
    (void)plan;
    (void)data;
    (void)stream;
    return missing();
}
void dnn_graph_close(struct dnn_graph **graph) {
    *graph = NULL;
}

#else

#include <dlfcn.h>

enum { DESCRIPTIONS_FROM = 91100, CANDIDATES = 32 };

/* ---- the library ----------------------------------------------------------------------------- */

/* "cudnn: what: its sentence". */
enum status dnn_fail(const struct dnn *dnn, const char *what, cudnnStatus_t status) {
    char detail[400] = "";
    dnn->cudnnGetLastErrorString(detail, sizeof detail);
    detail[sizeof detail - 1] = 0;
    for (char *c = detail; *c; c++)
        if (*c == '\n') *c = c[1] ? ' ' : 0;
    return fail(ST_DEVICE, "cudnn: %s: %s%s%s", what, dnn->cudnnGetErrorString(status),
                *detail ? ": " : "", detail);
}

/* Stays mapped when closed: cuDNN's threads and exit handlers outlive a handle. */
static void *library_open(void) {
    static const char *const names[] = {"libcudnn.so.9", "libcudnn_graph.so.9"};
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < COUNT_OF(names); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return library;
}

#define LOOK_UP(symbol)                                                                            \
    dnn->symbol = (decltype(dnn->symbol))dlsym(dnn->library, #symbol);                             \
    if (dnn->symbol == NULL) return fail(ST_DEVICE, "cudnn: the library has no %s", #symbol);

static enum status load(struct dnn *dnn) {
    dnn->library = library_open();
    if (dnn->library == NULL) {
        const char *why = dlerror();
        return fail(ST_DEVICE, "cudnn: libcudnn.so.9 does not open: %s", why ? why : "no reason");
    }
    SYMBOLS(LOOK_UP)
    if (dnn->cudnnGetVersion() >= 90000) return ST_OK;
    return fail(ST_DEVICE, "cudnn: version %zu, want 90000 or later", dnn->cudnnGetVersion());
}

#if CUDNN_VERSION >= 91100
static enum status describe(struct dnn *dnn, const char *json) {
    static const char what[] = "the device's description";
    if (dnn->cudnnGetVersion() < DESCRIPTIONS_FROM)
        return fail(ST_DEVICE, "cudnn: version %zu, descriptions of devices want %d or later",
                    dnn->cudnnGetVersion(), (int)DESCRIPTIONS_FROM);
    DNN_TRY(dnn, what,
            dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &dnn->device));
    DNN_TRY(dnn, what,
            dnn->cudnnBackendSetAttribute(dnn->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                          CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1, json));
    DNN_TRY(dnn, what, dnn->cudnnBackendFinalize(dnn->device));
    return ST_OK;
}
#else
static enum status describe(struct dnn *dnn, const char *json) {
    (void)dnn;
    (void)json;
    return fail(ST_DEVICE, "cudnn: headers of version %d, descriptions of devices want %d or later",
                CUDNN_VERSION, (int)DESCRIPTIONS_FROM);
}
#define CUDNN_ATTR_ENGINEHEUR_DEVICEPROP     CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH /* not reached */
#define CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP CUDNN_ATTR_EXECUTION_PLAN_HANDLE
#endif

/* json NULL: the current device. */
static enum status open_any(const char *json, struct dnn **out) {
    struct dnn *dnn;
    enum status st;
    *out = NULL;
    dnn = (struct dnn *)mem_zalloc(1, sizeof *dnn);
    if (dnn == NULL) return ST_NOMEM;
    TRY_OUT(load(dnn));
    if (json != NULL) {
        TRY_OUT(describe(dnn, json));
    } else {
        cudnnStatus_t status = dnn->cudnnCreate(&dnn->handle);
        if (status != CUDNN_STATUS_SUCCESS) {
            dnn->handle = NULL;
            TRY_OUT(dnn_fail(dnn, "the handle", status));
        }
    }
    *out = dnn;
    return ST_OK;
out:
    dnn_close(&dnn);
    return st;
}

enum status dnn_open(struct dnn **out) {
    return open_any(NULL, out);
}

enum status dnn_open_described(const char *json, struct dnn **out) {
    return open_any(json, out);
}

void dnn_close(struct dnn **dnn) {
    struct dnn *old = *dnn;
    *dnn = NULL;
    if (old == NULL) return;
    if (old->device != NULL) (void)old->cudnnBackendDestroyDescriptor(old->device);
    if (old->handle != NULL) (void)old->cudnnDestroy(old->handle);
    if (old->library != NULL) (void)dlclose(old->library);
    mem_free(old);
}

int dnn_version(const struct dnn *dnn) {
    return (int)dnn->cudnnGetVersion();
}

/* ---- a graph's parts ------------------------------------------------------------------------- */

/* A sticky call: nothing after the first failure. */
static void keep(struct dnn_graph *g, cudnnStatus_t status) {
    if (g->st == ST_OK && status != CUDNN_STATUS_SUCCESS) g->st = dnn_fail(g->dnn, g->what, status);
}

part graph_make(struct dnn_graph *g, cudnnBackendDescriptorType_t type, const char *what) {
    part made = NULL;
    if (g->st != ST_OK) return NULL;
    g->what = what;
    if (g->part_count == MOST_PARTS) {
        g->st = fail(ST_DEVICE, "cudnn: %s: more than %d parts", what, (int)MOST_PARTS);
        return NULL;
    }
    keep(g, g->dnn->cudnnBackendCreateDescriptor(type, &made));
    if (g->st == ST_OK) g->parts[g->part_count++] = made;
    return made;
}

void graph_set(struct dnn_graph *g, part of, cudnnBackendAttributeName_t name,
               cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (g->st == ST_OK) keep(g, g->dnn->cudnnBackendSetAttribute(of, name, type, count, values));
}

void graph_set_part(struct dnn_graph *g, part of, cudnnBackendAttributeName_t name, part value) {
    graph_set(g, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

part graph_seal(struct dnn_graph *g, part of) {
    if (g->st == ST_OK) keep(g, g->dnn->cudnnBackendFinalize(of));
    return of;
}

/* ---- plans ----------------------------------------------------------------------------------- */

enum status graph_open(struct dnn *dnn, enum cuda_type type, struct dnn_graph **out) {
    struct dnn_graph *g = (struct dnn_graph *)mem_zalloc(1, sizeof *g);
    *out = g;
    if (g == NULL) return ST_NOMEM;
    g->dnn = dnn;
    g->type = type == CUDA_FP16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
    return ST_OK;
}

/*
 * The number of a configuration's engine. -1: one not to be used, whose results would differ from
 * run to run or whose sums are not fp32.
 */
static int64_t engine_of(const struct dnn *dnn, part engine, part config) {
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t index = -1, count = 0;
    if (dnn->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                      &engine) != CUDNN_STATUS_SUCCESS ||
        dnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                      &count, &index) != CUDNN_STATUS_SUCCESS ||
        dnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                      CUDNN_TYPE_NUMERICAL_NOTE, (int64_t)COUNT_OF(notes), &count,
                                      notes) != CUDNN_STATUS_SUCCESS)
        return -1;
    for (int64_t i = 0; i < count && i < (int64_t)COUNT_OF(notes); i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
            notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
            notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
            notes[i] == CUDNN_NUMERICAL_NOTE_WINOGRAD)
            return -1;
    return index;
}

/* What the heuristics offer, best first, and we take, into g->plans. */
static void configurations(struct dnn_graph *g, part graph) {
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    part heuristics = graph_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "the heuristics");
    part configs[CANDIDATES];
    int64_t count = 0;
    graph_set_part(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    graph_set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (g->dnn->device != NULL)
        graph_set_part(g, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, g->dnn->device);
    (void)graph_seal(g, heuristics);
    for (int i = 0; i < CANDIDATES; i++)
        configs[i] = graph_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "the heuristics");
    if (g->st == ST_OK)
        keep(g, g->dnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, CANDIDATES, &count,
                                                 configs));
    for (int i = 0; g->st == ST_OK && i < CANDIDATES && i < count; i++) {
        part engine = graph_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "the heuristics");
        const int64_t number = g->st == ST_OK ? engine_of(g->dnn, engine, configs[i]) : -1;
        if (number < 0 || g->plan_count == DNN_MOST_PLANS) continue;
        g->plans[g->plan_count].config = configs[i];
        g->plans[g->plan_count++].engine = number;
    }
}

static enum status make_plan(const struct dnn *dnn, part config, part plan, int64_t *workspace) {
    static const char what[] = "a plan";
    int64_t count = 0;
    DNN_TRY(dnn, what,
            dnn->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config));
    if (dnn->device != NULL) {
        DNN_TRY(dnn, what,
                dnn->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &dnn->device));
    } else {
        DNN_TRY(dnn, what,
                dnn->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                              CUDNN_TYPE_HANDLE, 1, &dnn->handle));
    }
    DNN_TRY(dnn, what, dnn->cudnnBackendFinalize(plan));
    DNN_TRY(dnn, "a plan's workspace",
            dnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &count, workspace));
    if (*workspace < 0)
        return fail(ST_DEVICE, "cudnn: a plan's workspace is %lld bytes", (long long)*workspace);
    return ST_OK;
}

static enum status build(struct dnn_graph *g, struct plan *plan) {
    part made = NULL;
    int64_t workspace = 0;
    enum status st;
    if (plan->plan != NULL) return ST_OK;
    DNN_TRY(g->dnn, "a plan",
            g->dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &made));
    st = make_plan(g->dnn, plan->config, made, &workspace);
    if (st != ST_OK) {
        (void)g->dnn->cudnnBackendDestroyDescriptor(made);
        return st;
    }
    plan->plan = made;
    plan->workspace = workspace;
    return ST_OK;
}

enum status graph_finish(struct dnn_graph *g, const char *name, struct dnn_graph **out) {
    part graph = graph_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "the graph");
    if (g->dnn->handle != NULL)
        graph_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                  &g->dnn->handle);
    graph_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->op_count,
              g->ops);
    (void)graph_seal(g, graph);
    configurations(g, graph);
    if (g->st == ST_OK && g->plan_count == 0)
        g->st = fail(ST_DEVICE, "cudnn: the device has no plan for it");
    if (g->st == ST_OK) {
        *out = g;
        return ST_OK;
    }
    enum status st = fail_prefix(g->st, name);
    dnn_graph_close(&g);
    return st;
}

int dnn_plans(const struct dnn_graph *graph) {
    return graph->plan_count;
}

static enum status check_plan(const struct dnn_graph *g, int plan) {
    if (plan >= 0 && plan < g->plan_count) return ST_OK;
    return fail(ST_USAGE, "cudnn: plan %d of %d", plan, g->plan_count);
}

int dnn_engine(const struct dnn_graph *graph, int plan) {
    bool there = plan >= 0 && plan < graph->plan_count;
    return there ? (int)graph->plans[plan].engine : -1;
}

size_t dnn_workspace(const struct dnn_graph *graph, int plan) {
    bool there = plan >= 0 && plan < graph->plan_count;
    return there ? (size_t)graph->plans[plan].workspace : 0;
}

enum status dnn_build(struct dnn_graph *graph, int plan) {
    TRY(check_plan(graph, plan));
    return build(graph, &graph->plans[plan]);
}

static void unbuild(struct dnn_graph *g, struct plan *plan) {
    if (plan->plan != NULL) (void)g->dnn->cudnnBackendDestroyDescriptor(plan->plan);
    plan->plan = NULL;
    plan->workspace = 0;
}

void dnn_keep(struct dnn_graph *graph, int plan) {
    for (int i = 0; i < graph->plan_count; i++)
        if (i != plan) unbuild(graph, &graph->plans[i]);
}

/* ---- running --------------------------------------------------------------------------------- */

/* The pointers of the graph's tensors and their ids. */
static enum status gather(struct dnn_graph *g, const struct dnn_data *data, int64_t ids[SLOTS],
                          void *pointers[SLOTS], int64_t *count) {
    static const char *const names[SLOTS] = {"q", "k", "v", "x", "filter", "bias", "y", "scale"};
    const void *of[SLOTS] = {data->q,      data->k,    data->v, data->x,
                             data->filter, data->bias, data->y, &g->scale};
    *count = 0;
    for (int slot = 0; slot < SLOTS; slot++) {
        if (!g->used[slot]) continue;
        if (of[slot] == NULL || (slot != SLOT_SCALE && (uintptr_t)of[slot] % ALIGNMENT != 0))
            return fail(ST_USAGE, "cudnn: %s is at %p, want an address of whole %d bytes",
                        names[slot], of[slot], (int)ALIGNMENT);
        ids[*count] = slot + 1;
        pointers[(*count)++] = const_cast<void *>(of[slot]);
    }
    return ST_OK;
}

static void forget_pack(struct dnn_graph *g) {
    if (g->pack != NULL) (void)g->dnn->cudnnBackendDestroyDescriptor(g->pack);
    g->pack = NULL;
}

/* The pointers as cuDNN takes them. */
static enum status fill(struct dnn_graph *g, const struct dnn_data *data) {
    static const char what[] = "the pointers";
    const struct dnn *dnn = g->dnn;
    int64_t ids[SLOTS], count;
    void *pointers[SLOTS];
    TRY(gather(g, data, ids, pointers, &count));
    DNN_TRY(dnn, what,
            dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &g->pack));
    DNN_TRY(dnn, what,
            dnn->cudnnBackendSetAttribute(g->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, count, ids));
    DNN_TRY(dnn, what,
            dnn->cudnnBackendSetAttribute(g->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, count, pointers));
    DNN_TRY(dnn, what,
            dnn->cudnnBackendSetAttribute(g->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &data->workspace));
    DNN_TRY(dnn, what, dnn->cudnnBackendFinalize(g->pack));
    return ST_OK;
}

/* Those of the last run are there already. */
static enum status pack(struct dnn_graph *g, const struct dnn_data *data) {
    enum status st;
    if (g->pack != NULL && memcmp(data, &g->packed, sizeof *data) == 0) return ST_OK;
    forget_pack(g);
    st = fill(g, data);
    if (st != ST_OK) forget_pack(g);
    g->packed = *data;
    return st;
}

enum status dnn_run(struct dnn_graph *graph, int plan, const struct dnn_data *data, void *stream) {
    struct dnn *dnn = graph->dnn;
    TRY(check_plan(graph, plan));
    if (graph->plans[plan].plan == NULL) return fail(ST_USAGE, "cudnn: plan %d is not built", plan);
    if (graph->plans[plan].workspace > 0 && data->workspace == NULL)
        return fail(ST_USAGE, "cudnn: plan %d wants a workspace of %lld bytes", plan,
                    (long long)graph->plans[plan].workspace);
    TRY(pack(graph, data));
    if (dnn->handle == NULL) return fail(ST_USAGE, "cudnn: a described device runs nothing");
    if (dnn->stream != stream) {
        DNN_TRY(dnn, "the stream", dnn->cudnnSetStream(dnn->handle, (cudaStream_t)stream));
        dnn->stream = stream;
    }
    DNN_TRY(dnn, "the launch",
            dnn->cudnnBackendExecute(dnn->handle, graph->plans[plan].plan, graph->pack));
    return ST_OK;
}

void dnn_graph_close(struct dnn_graph **graph) {
    struct dnn_graph *g = *graph;
    *graph = NULL;
    if (g == NULL) return;
    forget_pack(g);
    dnn_keep(g, -1);
    for (int i = g->part_count; i-- > 0;)
        (void)g->dnn->cudnnBackendDestroyDescriptor(g->parts[i]);
    mem_free(g);
}

#endif
