/*
 * fake_cuda: see fake_cuda.h. Streams, events, graphs.
 *
 * Order is judged when work is queued, by clocks; work is done when somebody waits. clock[s] of a
 * stream is how much of stream s is known to be over when its next work starts; 0 is the host.
 */
#include "tests/fake_cuda.h"

#include "tests/simt.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOUCHED = 48 };

/* ---- what there is --------------------------------------------------------------------------- */

enum op_kind { OP_KERNEL, OP_BODY, OP_COPY, OP_RECORD, OP_WAIT, OP_GRAPH };

struct op {
    enum op_kind kind;
    char name[48];
    double cost;
    /* OP_KERNEL, OP_BODY */
    dim3 grid, threads;
    size_t shared;
    void (*body)(void *);
    void *closure;
    /* OP_COPY */
    void *to;
    const void *from;
    unsigned char *staged; /* pageable memory is read at once */
    size_t bytes;
    bool from_pinned, to_host;
    uint64_t sum; /* of pinned memory when it was queued */
    /* OP_RECORD, OP_WAIT, OP_GRAPH */
    struct fake_event *event;
    struct fake_stream *other;
    unsigned ticket;
    struct fake_exec *exec;
    struct fake_block *touched[TOUCHED];
    int touched_count;
    struct op *next;
};

struct fake_stream {
    int index, device;
    unsigned clock[FAKE_STREAMS];
    unsigned issued, done;
    double time; /* milliseconds of work done */
    struct op *first, **last;
    struct fake_graph *capture;
    pthread_t capturer; /* the thread that captures */
    bool capture_broken, dead;
    struct fake_stream *next;
};
struct fake_event {
    unsigned clock[FAKE_STREAMS];
    struct fake_stream *on; /* NULL: never recorded */
    unsigned ticket;
    bool timing;
    double time;
};
struct fake_graph {
    struct op *first, **last;
};
struct fake_exec {
    struct op *first;
};

static struct {
    struct fake_stream *streams;
    unsigned host_clock[FAKE_STREAMS];
    int count;
} queues;

/* The n-th call of something since the option was set. */
static bool strikes(int *countdown) {
    return *countdown > 0 && --*countdown == 0;
}

static void join(unsigned *clock, const unsigned *other) {
    for (int i = 0; i < FAKE_STREAMS; i++)
        clock[i] = max(clock[i], other[i]);
}

/* ---- working off ----------------------------------------------------------------------------- */

static uint64_t sum_of(const void *bytes, size_t size) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return sum;
}

static void run_kernel(int device, struct op *op) {
    if (strikes(&fake_cuda_options.fail_launch)) return fake_die(device, op->name);
    simt_unwatch();
    for (int i = 0; i < op->touched_count; i++)
        simt_watch(op->touched[i]->base, op->touched[i]->size);
    if (simt_launch(op->name, op->grid, op->threads, op->shared, op->body, op->closure) != ST_OK)
        fake_die(device, fail_message());
    simt_unwatch();
}

static void run_until(struct fake_stream *stream, unsigned ticket);

static void run_op(struct fake_stream *stream, struct op *op) {
    stream->time += op->cost;
    if (fake_is_dead(stream->device)) return;
    switch (op->kind) {
    case OP_KERNEL: run_kernel(stream->device, op); break;
    case OP_BODY: op->body(op->closure); break;
    case OP_COPY:
        if (op->from_pinned && op->sum != sum_of(op->from, op->bytes))
            fake_fault("pinned memory was changed before its copy ran: nobody waited for it");
        memmove(op->to, op->staged ? op->staged : op->from, op->bytes);
        break;
    case OP_RECORD: op->event->time = stream->time; break;
    case OP_WAIT: run_until(op->other, op->ticket); break;
    case OP_GRAPH:
        for (struct op *node = op->exec->first; node != NULL; node = node->next)
            run_op(stream, node);
        break;
    }
}

static void free_op(struct op *op) {
    free(op->closure);
    free(op->staged);
    free(op);
}

static void run_until(struct fake_stream *stream, unsigned ticket) {
    while (stream->done < ticket && stream->first != NULL) {
        struct op *op = stream->first;
        stream->first = op->next;
        if (stream->first == NULL) stream->last = &stream->first;
        run_op(stream, op);
        free_op(op);
        stream->done++;
    }
}

/* Of the current device. */
void fake_run_all() {
    for (struct fake_stream *s = queues.streams; s != NULL; s = s->next) {
        if (s->device != fake_device()) continue;
        run_until(s, s->issued);
        join(queues.host_clock, s->clock);
    }
}

/* ---- queueing -------------------------------------------------------------------------------- */

static struct op *new_op(enum op_kind kind, const char *name) {
    struct op *op = (struct op *)calloc(1, sizeof *op);
    op->kind = kind;
    snprintf(op->name, sizeof op->name, "%s", name);
    return op;
}

static void touch_block(struct op *op, struct fake_block *b) {
    for (int i = 0; i < op->touched_count; i++)
        if (op->touched[i] == b) return;
    if (op->touched_count == TOUCHED) return fake_fault("more memory than the stand-in follows");
    op->touched[op->touched_count++] = b;
}

/* Every word of the closure that is an address of the device's, or of pinned memory. */
static void touch_pointers(struct op *op, const void *closure, size_t size) {
    for (size_t i = 0; i + sizeof(void *) <= size; i += sizeof(void *)) {
        void *word;
        memcpy(&word, (const unsigned char *)closure + i, sizeof word);
        struct fake_block *b = word ? fake_find_block(word) : NULL;
        if (b != NULL) touch_block(op, b);
    }
}

/* Whether the stream's next work may use what it touches; notes that it did. */
static void judge(struct fake_stream *stream, const struct op *op) {
    for (int i = 0; i < op->touched_count; i++) {
        struct fake_block *b = op->touched[i];
        if (b->freed) fake_fault("%s uses freed memory", op->name);
        if (!b->pinned && b->device != stream->device)
            fake_fault("%s on device %d uses memory of device %d", op->name, stream->device,
                       b->device);
        for (int s = 1; s < FAKE_STREAMS; s++)
            if (s != stream->index && b->used[s] > stream->clock[s])
                fake_fault("%s on stream %d uses %zu bytes that stream %d uses, with no event "
                           "between them",
                           op->name, stream->index, b->size, s);
        b->used[stream->index] = stream->clock[stream->index];
    }
}

static void judge_graph(struct fake_stream *stream, const struct fake_exec *exec) {
    for (struct op *node = exec->first; node != NULL; node = node->next) {
        judge(stream, node);
        if (node->kind == OP_COPY && node->to_host) memset(node->to, 0xff, node->bytes);
    }
}

static void append(struct op ***last, struct op *op) {
    op->next = NULL;
    **last = op;
    *last = &op->next;
}

/* To the stream's end, or into the graph that it captures. */
static cudaError_t queue(struct fake_stream *stream, struct op *op) {
    if (stream == NULL || stream->dead) {
        free_op(op);
        return fake_wrong(cudaErrorInvalidResourceHandle,
                          "work for no stream of the backend's own");
    }
    if (op->kind == OP_KERNEL && stream->device != fake_device())
        fake_fault("%s for a stream of device %d while device %d is current", op->name,
                   stream->device, fake_device());
    if (stream->capture != NULL) {
        fake_cuda_counts.captured++;
        append(&stream->capture->last, op);
        return fake_give(cudaSuccess);
    }
    join(stream->clock, queues.host_clock);
    stream->clock[stream->index]++;
    stream->issued++;
    if (op->kind == OP_GRAPH) judge_graph(stream, op->exec);
    judge(stream, op);
    if (op->kind == OP_COPY && op->to_host) memset(op->to, 0xff, op->bytes); /* not there yet */
    append(&stream->last, op);
    return fake_give(cudaSuccess);
}

static enum status queue_kernel(const char *name, dim3 grid, dim3 threads, size_t shared,
                                void *stream, void (*body)(void *), const void *closure,
                                size_t size) {
    fake_lock lock;
    struct fake_stream *on = (struct fake_stream *)stream;
    struct op *op = new_op(OP_KERNEL, name);
    op->cost = 0.01;
    op->grid = grid;
    op->threads = threads;
    op->shared = shared;
    op->body = body;
    op->closure = malloc(size);
    memcpy(op->closure, closure, size);
    touch_pointers(op, closure, size);
    if (on != NULL && on->capture == NULL) fake_cuda_counts.kernels++;
    if (queue(on, op) == cudaSuccess) return ST_OK;
    return fail(ST_DEVICE, "%s: %s", name, cudaGetErrorString(cudaGetLastError()));
}

bool fake_queue(struct fake_stream *stream, const char *name, void (*body)(void *),
                const void *closure, size_t size, double cost) {
    fake_lock lock;
    struct op *op = new_op(OP_BODY, name);
    op->cost = cost;
    op->body = body;
    op->closure = malloc(size);
    memcpy(op->closure, closure, size);
    touch_pointers(op, closure, size);
    if (stream != NULL && stream->capture == NULL) fake_cuda_counts.matmuls++;
    return queue(stream, op) == cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    fake_lock lock;
    struct fake_block *source = fake_find_block(from), *target = fake_find_block(to);
    bool from_device = kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDeviceToHost;
    bool to_device = kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyHostToDevice;
    if (bytes == 0) return fake_give(cudaSuccess);
    if ((from_device && !fake_is_device("cudaMemcpyAsync's source", from, bytes)) ||
        (to_device && !fake_is_device("cudaMemcpyAsync's target", to, bytes)))
        return fake_give(cudaErrorInvalidValue);
    if ((!from_device && source != NULL && !source->pinned) ||
        (!to_device && (target == NULL || !target->pinned)))
        return fake_wrong(cudaErrorInvalidValue, "cudaMemcpyAsync: not the memory its kind says");
    if (stream != NULL && stream->capture != NULL && !from_device && source == NULL)
        return fake_wrong(cudaErrorStreamCaptureUnsupported,
                          "a capture copies from pageable memory");
    struct op *op = new_op(OP_COPY, "a copy");
    op->cost = 0.01;
    op->to = to;
    op->from = from;
    op->bytes = bytes;
    op->to_host = !to_device;
    if (source != NULL) touch_block(op, source);
    if (target != NULL) touch_block(op, target);
    if (!from_device && source == NULL) {
        op->staged = (unsigned char *)malloc(bytes);
        memcpy(op->staged, from, bytes);
    } else if (!from_device && stream != NULL && stream->capture == NULL) {
        op->from_pinned = true;
        op->sum = sum_of(from, bytes);
    }
    if (stream != NULL && stream->capture == NULL) fake_cuda_counts.copies++;
    return queue(stream, op);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A call that no thread may make while one of its streams captures; it breaks the capture. */
bool fake_forbidden(const char *call) {
    bool capturing = false;
    for (struct fake_stream *s = queues.streams; s != NULL; s = s->next) {
        if (s->capture == NULL || !pthread_equal(s->capturer, pthread_self())) continue;
        s->capture_broken = capturing = true;
    }
    if (capturing) fake_fault("%s during a capture", call);
    return capturing;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
    fake_lock lock;
    if (queues.count + 1 == FAKE_STREAMS)
        return fake_wrong(cudaErrorInvalidValue, "too many streams");
    if (flags != cudaStreamNonBlocking) fake_fault("a stream that waits for the default stream");
    struct fake_stream *s = (struct fake_stream *)calloc(1, sizeof *s);
    s->index = ++queues.count;
    s->device = fake_device();
    s->last = &s->first;
    s->next = queues.streams;
    queues.streams = s;
    simt_launcher = queue_kernel;
    fake_count(1);
    *out = s;
    return fake_give(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    fake_lock lock;
    run_until(stream, stream->issued);
    if (stream->dead || stream->capture != NULL)
        fake_fault("a stream destroyed twice, or captured");
    stream->dead = true;
    fake_count(-1);
    return fake_give(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    fake_lock lock;
    if (fake_forbidden("cudaStreamSynchronize"))
        return fake_give(cudaErrorStreamCaptureUnsupported);
    if (stream == NULL || stream->dead)
        return fake_wrong(cudaErrorInvalidResourceHandle, "cudaStreamSynchronize of no stream");
    if (strikes(&fake_cuda_options.drop_sync)) return fake_give(cudaSuccess);
    run_until(stream, stream->issued);
    join(queues.host_clock, stream->clock);
    fake_check_guards();
    return fake_give(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    fake_lock lock;
    fake_cuda_counts.waits++;
    if (stream->capture != NULL)
        return fake_wrong(cudaErrorStreamCaptureUnsupported,
                          "a capture waits for work outside of it");
    if (event->on == NULL || strikes(&fake_cuda_options.drop_wait)) return fake_give(cudaSuccess);
    struct op *op = new_op(OP_WAIT, "a wait");
    op->other = event->on;
    op->ticket = event->ticket;
    join(stream->clock, event->clock);
    return queue(stream, op);
}

/* ---- events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    fake_lock lock;
    *out = (struct fake_event *)calloc(1, sizeof **out);
    (*out)->timing = !(flags & cudaEventDisableTiming);
    fake_count(1);
    return fake_give(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *out) {
    fake_lock lock;
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    fake_lock lock;
    fake_run_all(); /* queued records name it */
    free(event);
    fake_count(-1);
    return fake_give(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    fake_lock lock;
    if (stream->capture != NULL)
        return fake_wrong(cudaErrorStreamCaptureUnsupported, "an event recorded in a capture");
    struct op *op = new_op(OP_RECORD, "an event");
    op->event = event;
    cudaError_t error = queue(stream, op);
    event->on = stream;
    event->ticket = stream->issued;
    memcpy(event->clock, stream->clock, sizeof event->clock);
    return error;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    fake_lock lock;
    if (fake_forbidden("cudaEventSynchronize")) return fake_give(cudaErrorStreamCaptureUnsupported);
    if (event->on == NULL || strikes(&fake_cuda_options.drop_sync)) return fake_give(cudaSuccess);
    run_until(event->on, event->ticket);
    join(queues.host_clock, event->clock);
    return fake_give(cudaSuccess);
}

static bool is_over(const struct fake_event *event) {
    return event->on != NULL && event->on->done >= event->ticket;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    fake_lock lock;
    if (!start->timing || !end->timing || !is_over(start) || !is_over(end))
        return fake_wrong(cudaErrorNotReady, "the time between events that are not over");
    *milliseconds = (float)(end->time - start->time);
    fake_cuda_counts.timings++;
    return fake_give(cudaSuccess);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode) {
    fake_lock lock;
    if (stream->capture != NULL)
        return fake_wrong(cudaErrorStreamCaptureUnsupported, "a capture inside of a capture");
    stream->capture = (struct fake_graph *)calloc(1, sizeof *stream->capture);
    stream->capture->last = &stream->capture->first;
    stream->capturer = pthread_self();
    stream->capture_broken = false;
    fake_count(1);
    return fake_give(cudaSuccess);
}

static void free_ops(struct op *op) {
    while (op != NULL) {
        struct op *next = op->next;
        free_op(op);
        op = next;
    }
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    fake_lock lock;
    free_ops(graph->first);
    free(graph);
    fake_count(-1);
    return fake_give(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
    fake_lock lock;
    *out = stream->capture;
    if (stream->capture == NULL)
        return fake_wrong(cudaErrorInvalidValue, "the end of a capture that did not begin");
    stream->capture = NULL;
    if (!stream->capture_broken) return fake_give(cudaSuccess);
    (void)cudaGraphDestroy(*out);
    *out = NULL;
    return fake_give(cudaErrorStreamCaptureInvalidated);
}

/* The graph may go, the executable stays: it has the graph's nodes. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
    fake_lock lock;
    *out = NULL;
    if (strikes(&fake_cuda_options.fail_graph)) return fake_give(cudaErrorMemoryAllocation);
    *out = (struct fake_exec *)calloc(1, sizeof **out);
    (*out)->first = graph->first;
    graph->first = NULL;
    graph->last = &graph->first;
    fake_cuda_counts.instantiated++;
    fake_count(1);
    return fake_give(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
    fake_lock lock;
    if (stream->capture != NULL)
        return fake_wrong(cudaErrorStreamCaptureUnsupported, "a graph launched in a capture");
    struct op *op = new_op(OP_GRAPH, "a graph");
    op->exec = exec;
    fake_cuda_counts.graph_launches++;
    return queue(stream, op);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    fake_lock lock;
    fake_run_all();
    free_ops(exec->first);
    free(exec);
    fake_count(-1);
    return fake_give(cudaSuccess);
}

void fake_forget_streams() {
    while (queues.streams != NULL) {
        struct fake_stream *next = queues.streams->next;
        free_ops(queues.streams->first);
        free(queues.streams);
        queues.streams = next;
    }
    memset(&queues, 0, sizeof queues);
    simt_launcher = nullptr;
}
