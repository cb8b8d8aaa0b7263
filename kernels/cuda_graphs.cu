/*
 * cuda_graphs: the list of a pass's records, and the CUDA graphs made of lists.
 *
 *   ops -> list -> flush: pixels to the device -> seen never: run; once: capture, then launch;
 *                         oftener: launch -> the next pass's pixels, if announced
 *
 * A list is the same when its bytes are: shapes, device pointers, constants, lengths. The first run
 * is without a graph: it loads kernels, which is not allowed everywhere in a capture, times
 * products, and a shape that comes once (the last batch) costs no graph.
 */
#include "kernels/cuda_backend.cuh"

/* ---- the list -------------------------------------------------------------------------------- */

struct record *cuda_append(struct cuda *cuda, enum record_kind kind) {
    struct cuda_list *list = &cuda->list;
    struct record *record;
    if (mem_grow((void **)&list->records, &list->capacity, list->count + 1,
                 sizeof *list->records) != ST_OK)
        return NULL;
    record = &list->records[list->count++];
    memset(record, 0, sizeof *record);
    record->kind = kind;
    return record;
}

void cuda_list_clear(struct cuda *cuda) {
    cuda->list.count = cuda->list.lengths_count = 0;
    cuda->list.embeds = false;
    cuda->pixels.pixels = NULL;
}

/* ---- the graphs ------------------------------------------------------------------------------ */

static void forget(struct cuda *cuda, struct cuda_graph *graph) {
    if (graph->exec != NULL) (void)cudaGraphExecDestroy(graph->exec);
    cuda_free(cuda, graph->device_lengths);
    mem_free(graph->key);
    memset(graph, 0, sizeof *graph);
}

/* The streams must be idle, or not run what the graphs name. */
void cuda_forget_graphs(struct cuda *cuda) {
    for (int i = 0; i < CUDA_GRAPHS; i++)
        forget(cuda, &cuda->graphs[i]);
}

void cuda_list_release(struct cuda *cuda) {
    cuda_forget_graphs(cuda);
    mem_free(cuda->list.records);
    mem_free(cuda->list.lengths);
    memset(&cuda->list, 0, sizeof cuda->list);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *at = (const unsigned char *)bytes;
    for (uint64_t word; size > 0; at += sizeof word) {
        size_t part = size < sizeof word ? size : sizeof word;
        word = 0;
        memcpy(&word, at, part);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
        size -= part;
    }
    return hash;
}

static size_t record_bytes(const struct cuda_list *list) {
    return list->count * sizeof *list->records;
}

static size_t length_bytes(const struct cuda_list *list) {
    return list->lengths_count * sizeof *list->lengths;
}

static struct cuda_graph *find(struct cuda *cuda, uint64_t hash) {
    const struct cuda_list *list = &cuda->list;
    for (int i = 0; i < CUDA_GRAPHS; i++) {
        struct cuda_graph *graph = &cuda->graphs[i];
        if (graph->key != NULL && graph->hash == hash && graph->records == list->count &&
            graph->lengths == list->lengths_count &&
            memcmp(graph->key, list->records, record_bytes(list)) == 0 &&
            (list->lengths_count == 0 ||
             memcmp(graph->key + record_bytes(list), list->lengths, length_bytes(list)) == 0))
            return graph;
    }
    return NULL;
}

/* An entry for the list, in place of the one unused for longest; its lengths on the device. */
static enum status remember(struct cuda *cuda, uint64_t hash, struct cuda_graph **out) {
    const struct cuda_list *list = &cuda->list;
    struct cuda_graph *graph = &cuda->graphs[0];
    for (int i = 1; i < CUDA_GRAPHS; i++)
        if (cuda->graphs[i].used < graph->used) graph = &cuda->graphs[i];
    if (graph->exec != NULL) TRY(cuda_wait(cuda)); /* it may be running */
    forget(cuda, graph);
    graph->key = (unsigned char *)mem_zalloc(1, record_bytes(list) + length_bytes(list));
    if (graph->key == NULL) return ST_NOMEM;
    memcpy(graph->key, list->records, record_bytes(list));
    graph->hash = hash;
    graph->records = list->count;
    graph->lengths = list->lengths_count;
    *out = graph;
    if (list->lengths_count == 0) return ST_OK;
    memcpy(graph->key + record_bytes(list), list->lengths, length_bytes(list));
    TRY(cuda_alloc(cuda, "lengths", length_bytes(list), (void **)&graph->device_lengths));
    CUDA_TRY("lengths", cudaMemcpyAsync(graph->device_lengths, list->lengths, length_bytes(list),
                                        cudaMemcpyHostToDevice, cuda->compute));
    return cuda_wait(cuda); /* the list's memory is about to be reused */
}

/* ---- the flush ------------------------------------------------------------------------------- */

static enum status run_list(struct cuda *cuda, const int *lengths) {
    for (size_t i = 0; i < cuda->list.count; i++)
        TRY(cuda_run_record(cuda, &cuda->list.records[i], lengths));
    return ST_OK;
}

static enum status prepare_list(struct cuda *cuda) {
    for (size_t i = 0; i < cuda->list.count; i++)
        TRY(cuda_prepare_record(cuda, &cuda->list.records[i]));
    tuning_write(&cuda->tuning);
    return ST_OK;
}

/* The list as a graph. A capture that fails must still be ended, and the first sentence stands. */
static enum status capture(struct cuda *cuda, struct cuda_graph *graph) {
    cudaGraph_t captured = NULL;
    cudaError_t error;
    enum status st;
    CUDA_TRY("a graph's capture",
             cudaStreamBeginCapture(cuda->compute, cudaStreamCaptureModeThreadLocal));
    st = run_list(cuda, graph->device_lengths);
    error = cudaStreamEndCapture(cuda->compute, &captured);
    if (st == ST_OK && error != cudaSuccess) st = cuda_fail("a graph's capture", error);
    if (st == ST_OK) {
        error = cudaGraphInstantiate(&graph->exec, captured, 0);
        if (error != cudaSuccess) st = cuda_fail("a graph", error);
    }
    (void)cudaGetLastError();
    if (captured != NULL) (void)cudaGraphDestroy(captured);
    return st;
}

static enum status launch_list(struct cuda *cuda) {
    const struct cuda_list *list = &cuda->list;
    uint64_t hash =
        mix(mix(list->count, list->records, record_bytes(list)), list->lengths, length_bytes(list));
    struct cuda_graph *graph = find(cuda, hash);
    bool fresh = graph == NULL;
    if (fresh) {
        TRY(prepare_list(cuda)); /* may forget graphs */
        TRY(remember(cuda, hash, &graph));
    } else if (graph->exec == NULL) {
        TRY(capture(cuda, graph));
    }
    graph->used = ++cuda->flushes;
    TRY(cuda_pixels_before(cuda));
    if (fresh) return run_list(cuda, graph->device_lengths);
    CUDA_TRY("a graph's launch", cudaGraphLaunch(graph->exec, cuda->compute));
    return ST_OK;
}

enum status cuda_flush(struct cuda *cuda) {
    enum status st;
    bool embeds = cuda->list.embeds;
    if (cuda->list.count == 0) return ST_OK;
    CUDA_TRY("the device", cudaSetDevice(cuda->device));
    st = launch_list(cuda);
    if (st != ST_OK) cuda->pixels.hint = cuda->pixels.staged = NULL;
    cuda_list_clear(cuda);
    return st == ST_OK && embeds ? cuda_pixels_after(cuda) : st;
}
