/*
 * cuda_backend: opening a GPU, its memory, weights, reading and writing. What an op does is in
 * cuda_ops, how a pass is launched in cuda_graphs (see cuda_backend.cuh).
 *
 * vitrine_cuda_open is the only symbol that libvitrine_cuda.so shows; fail(), mem_* and arena_* are
 * the program's. All work goes through two streams of the backend's own, compute and copy.
 */
#include "kernels/cuda_backend.cuh"

#include <stdio.h>
#include <stdlib.h>

static const size_t MIB = 1024 * 1024;

/* ---- memory ---------------------------------------------------------------------------------- */

enum status cuda_alloc(struct cuda *cuda, const char *what, size_t bytes, void **out) {
    size_t available = 0, total = 0;
    cudaError_t error;
    *out = NULL;
    TRY(mem_grow((void **)&cuda->blocks, &cuda->block_capacity, cuda->block_count + 1,
                 sizeof *cuda->blocks));
    CUDA_TRY(what, cudaSetDevice(cuda->device));
    CUDA_TRY(what, cudaMemGetInfo(&available, &total));
    error = bytes > available ? cudaErrorMemoryAllocation : cudaMalloc(out, bytes);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return fail(ST_NOMEM, "%s: %zu MiB wanted, %zu of %zu MiB are free on cuda:%d", what,
                    (bytes + MIB - 1) / MIB, available / MIB, total / MIB, cuda->device);
    }
    CUDA_TRY(what, error);
    cuda->blocks[cuda->block_count++] = *out;
    return ST_OK;
}

void cuda_free(struct cuda *cuda, void *ptr) {
    for (size_t i = 0; ptr != NULL && i < cuda->block_count; i++) {
        if (cuda->blocks[i] != ptr) continue;
        cuda->blocks[i] = cuda->blocks[--cuda->block_count];
        (void)cudaFree(ptr);
        return;
    }
}

enum status cuda_want(struct cuda *cuda, struct cuda_buffer *buffer, size_t bytes) {
    if (bytes > buffer->wanted) buffer->wanted = bytes;
    if (cuda->be.planning || buffer->wanted <= buffer->size) return ST_OK;
    TRY(cuda_wait(cuda));
    cuda_forget_graphs(cuda);
    cuda_free(cuda, buffer->data);
    buffer->size = 0;
    TRY(cuda_alloc(cuda, buffer->what, buffer->wanted, &buffer->data));
    buffer->size = buffer->wanted;
    return ST_OK;
}

/* Room for a part of a read or write of rows of `channels`. */
static enum status want_part(struct cuda *cuda, int channels) {
    size_t bytes = CUDA_PART_MIB * MIB, row = (size_t)channels * sizeof(float);
    if (row > bytes) bytes = row;
    TRY(cuda_want(cuda, &cuda->part, bytes));
    if (cuda->be.planning) return ST_OK;
    CUDA_TRY("the device", cudaSetDevice(cuda->device)); /* the thread may be another */
    if (cuda->part_host_size >= cuda->part.size) return ST_OK;
    CUDA_TRY("read", cudaFreeHost(cuda->part_host));
    cuda->part_host = NULL;
    cuda->part_host_size = 0;
    CUDA_TRY("read", cudaMallocHost((void **)&cuda->part_host, cuda->part.size));
    cuda->part_host_size = cuda->part.size;
    return ST_OK;
}

enum status cuda_wait(struct cuda *cuda) {
    char what[32];
    cudaError_t error = cudaStreamSynchronize(cuda->compute);
    if (error == cudaSuccess) return ST_OK;
    snprintf(what, sizeof what, "cuda:%d", cuda->device);
    return cuda_fail(what, error);
}

static void drop_buffer(struct cuda *cuda, struct cuda_buffer *buffer) {
    cuda_free(cuda, buffer->data);
    buffer->data = NULL;
    buffer->size = buffer->wanted = 0;
}

/* What grew with an earlier plan's batch goes, so that a smaller one may fit. */
static void cuda_plan_begin(struct backend *be) {
    struct cuda *cuda = cuda_of(be);
    (void)cudaSetDevice(cuda->device);
    (void)cudaStreamSynchronize(cuda->copy);
    (void)cudaStreamSynchronize(cuda->compute);
    cuda_forget_graphs(cuda);
    cuda_pixels_release(cuda);
    drop_buffer(cuda, &cuda->scratch);
    drop_buffer(cuda, &cuda->patches);
}

static enum status cuda_plan_end(struct backend *be) {
    struct cuda *cuda = cuda_of(be);
    if (cuda->int8 && !cuda->quantised)
        return fail(ST_USAGE, "precision int8: the model has no int8 weights");
    TRY(cuda_want(cuda, &cuda->workspace, CUDA_WORKSPACE_MIB * MIB));
    TRY(cuda_want(cuda, &cuda->scratch, 0));
    TRY(cuda_want(cuda, &cuda->patches, 0));
    TRY(want_part(cuda, 1));
    return cuda_pixels_reserve(cuda);
}

static enum status cuda_reserve(struct backend *be, struct arena *arena, const char *what) {
    size_t bytes = arena->used ? arena->used : ARENA_ALIGN;
    void *base;
    if (arena->overflow) return fail(ST_NOMEM, "%s: its size does not fit into memory", what);
    TRY(cuda_alloc(cuda_of(be), what, bytes, &base));
    arena->base = (unsigned char *)base;
    arena->capacity = bytes;
    arena->used = 0;
    return ST_OK;
}

static void cuda_release(struct backend *be, struct arena *arena) {
    struct cuda *cuda = cuda_of(be);
    if (arena->base != NULL) {
        cuda_list_clear(cuda);
        (void)cudaStreamSynchronize(cuda->compute);
        cuda_forget_graphs(cuda); /* they name this memory */
        cuda_free(cuda, arena->base);
    }
    memset(arena, 0, sizeof *arena);
}

/* ---- views ----------------------------------------------------------------------------------- */

void cuda_view_of(const struct cuda *cuda, const struct act *a, struct cuda_view *out) {
    memset(out, 0, sizeof *out); /* records are compared with their padding */
    out->data = (unsigned char *)a->data + a->offset * cuda->be.act_size;
    out->batch = a->batch;
    out->tokens = a->tokens;
    out->channels = a->channels;
    out->pitch = a->pitch;
    out->stride = a->stride;
}

/*
 * The next part of a view that fits `capacity` values, from image *b and token *t on: whole images,
 * or rows of one. False at the end.
 */
static bool next_part(const struct cuda_view *view, enum cuda_type type, size_t capacity, int *b,
                      int *t, struct cuda_view *part) {
    size_t width = (size_t)view->channels, image = (size_t)view->tokens * width;
    if (*b == view->batch) return false;
    *part = *view;
    part->data = (unsigned char *)view->data +
                 ((size_t)*b * view->stride + (size_t)*t * view->pitch) * type_bytes(type);
    if (image <= capacity) {
        size_t most = capacity / image, left = (size_t)(view->batch - *b);
        part->batch = (int)(most < left ? most : left);
        *b += part->batch;
    } else {
        size_t most = capacity / width, left = (size_t)(view->tokens - *t);
        part->batch = 1;
        part->tokens = (int)(most < left ? most : left);
        *t += part->tokens;
        if (*t == view->tokens) {
            *t = 0;
            (*b)++;
        }
    }
    return true;
}

static size_t part_bytes(const struct cuda_view *part) {
    return (size_t)part->batch * (size_t)part->tokens * (size_t)part->channels * sizeof(float);
}

/* The first error of a flush keeps its own words: "read: " would say nothing. */
static enum status settle(struct cuda *cuda, enum status st) {
    if (st == ST_OK || cuda->be.error != ST_OK) return st;
    cuda->be.error = st;
    snprintf(cuda->be.sentence, sizeof cuda->be.sentence, "%s", fail_message());
    return st;
}

/* The first part goes with the list, so that a pass and its result are one launch. */
static enum status read_parts(struct cuda *cuda, const struct cuda_view *view, float *host) {
    struct cuda_view part;
    struct record next;
    int b = 0, t = 0;
    bool first = true;
    while (next_part(view, cuda->type, cuda->part.size / sizeof(float), &b, &t, &part)) {
        struct record *record = first ? cuda_append(cuda, RECORD_READ) : &next;
        if (record == NULL) return ST_NOMEM;
        memset(record, 0, sizeof *record);
        record->kind = RECORD_READ;
        record->of.read = part;
        TRY(first ? cuda_flush(cuda) : cuda_run_record(cuda, record, NULL));
        TRY(cuda_wait(cuda));
        memcpy(host, cuda->part_host, part_bytes(&part));
        host += part_bytes(&part) / sizeof(float);
        first = false;
    }
    return ST_OK;
}

static enum status cuda_read(struct backend *be, const struct act *a, float *host) {
    struct cuda *cuda = cuda_of(be);
    struct cuda_view view;
    enum status st = want_part(cuda, a->channels);
    cuda_view_of(cuda, a, &view);
    if (st == ST_OK) st = read_parts(cuda, &view, host);
    return settle(cuda, st);
}

/* Dense host values to a view of `type`; on return the device has them. */
static enum status write_view(struct cuda *cuda, enum cuda_type type, const float *host,
                              const struct cuda_view *view) {
    struct cuda_view part;
    int b = 0, t = 0;
    TRY(want_part(cuda, view->channels));
    while (next_part(view, type, cuda->part.size / sizeof(float), &b, &t, &part)) {
        size_t bytes = part_bytes(&part);
        memcpy(cuda->part_host, host, bytes);
        host += bytes / sizeof(float);
        CUDA_TRY("write", cudaMemcpyAsync(cuda->part.data, cuda->part_host, bytes,
                                          cudaMemcpyHostToDevice, cuda->compute));
        TRY(cuda_from_fp32(type, (const float *)cuda->part.data, &part, cuda->compute));
        TRY(cuda_wait(cuda));
    }
    return ST_OK;
}

static enum status cuda_write(struct backend *be, const float *host, const struct act *a) {
    struct cuda *cuda = cuda_of(be);
    struct cuda_view view;
    cuda_view_of(cuda, a, &view);
    TRY(settle(cuda, cuda_flush(cuda)));
    return write_view(cuda, cuda->type, host, &view);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A (rows, columns) of `type` with its rows `pitch` apart. */
static enum status upload(struct cuda *cuda, const char *what, enum cuda_type type,
                          const float *host, int rows, int columns, size_t pitch, void **out) {
    struct cuda_view view = {NULL, 1, rows, columns, pitch, (size_t)rows * pitch};
    size_t bytes;
    if (!size_mul((size_t)rows * pitch, type_bytes(type), &bytes))
        return fail(ST_NOMEM, "%s: its size does not fit into memory", what);
    TRY(cuda_alloc(cuda, what, bytes, out));
    view.data = *out;
    return write_view(cuda, type, host, &view);
}

enum status cuda_upload(struct cuda *cuda, const char *what, const void *host, size_t bytes,
                        void **out) {
    TRY(cuda_alloc(cuda, what, bytes, out));
    CUDA_TRY(what, cudaMemcpyAsync(*out, host, bytes, cudaMemcpyHostToDevice, cuda->compute));
    return cuda_wait(cuda);
}

static enum status upload_fp32(struct cuda *cuda, const char *what, const float *host, size_t count,
                               float **out) {
    return cuda_upload(cuda, what, host, count * sizeof(float), (void **)out);
}

/* Weight and bias of the activations' type. */
static enum status load_rounded(struct cuda *cuda, const struct linear_spec *spec,
                                struct cuda_linear *linear) {
    const size_t chunk = 16 / cuda->be.act_size;
    linear->pitch = ((size_t)spec->in + chunk - 1) / chunk * chunk;
    TRY(upload(cuda, spec->name, cuda->type, spec->weight, spec->out, spec->in, linear->pitch,
               &linear->weight));
    if (spec->bias == NULL) return ST_OK;
    return upload(cuda, spec->name, cuda->type, spec->bias, 1, spec->out, (size_t)spec->out,
                  &linear->bias);
}

static enum status cuda_linear_load(struct backend *be, const struct linear_spec *spec,
                                    struct linear **out) {
    struct cuda *cuda = cuda_of(be);
    struct cuda_linear *linear = (struct cuda_linear *)mem_zalloc(1, sizeof *linear);
    if (linear == NULL) return ST_NOMEM;
    linear->next = cuda->linears;
    cuda->linears = linear; /* freed by close, whole or not */
    snprintf(linear->head.name, sizeof linear->head.name, "%s", spec->name);
    linear->head.in = spec->in;
    linear->head.out = spec->out;
    linear->head.has_bias = spec->bias != NULL;
    if (cuda_int8_takes(cuda, spec)) {
        TRY(cuda_int8_load(cuda, spec, linear));
        cuda->quantised = true;
    } else {
        TRY(load_rounded(cuda, spec, linear));
    }
    if (spec->bias != NULL)
        TRY(upload_fp32(cuda, spec->name, spec->bias, (size_t)spec->out, &linear->bias_fp32));
    *out = &linear->head;
    return ST_OK;
}

static enum status cuda_norm_load(struct backend *be, const struct norm_spec *spec,
                                  struct norm **out) {
    struct cuda *cuda = cuda_of(be);
    size_t width = (size_t)spec->width;
    struct cuda_norm *norm = (struct cuda_norm *)mem_zalloc(1, sizeof *norm);
    float *values = (float *)mem_zalloc(2 * width, sizeof(float));
    enum status st = norm != NULL && values != NULL ? ST_OK : ST_NOMEM;
    if (norm != NULL) {
        norm->next = cuda->norms;
        cuda->norms = norm;
    }
    if (st == ST_OK) {
        for (size_t i = 0; i < width; i++)
            values[i] = spec->weight ? spec->weight[i] : 1.0f;
        if (spec->bias != NULL) memcpy(values + width, spec->bias, width * sizeof(float));
        norm->head.width = spec->width;
        norm->eps = spec->eps;
        norm->rms = spec->rms;
        st = upload_fp32(cuda, "norm", values, width, &norm->weight);
    }
    if (st == ST_OK) st = upload_fp32(cuda, "norm", values + width, width, &norm->bias);
    if (st == ST_OK) *out = &norm->head;
    mem_free(values);
    return st;
}

static enum status cuda_table_load(struct backend *be, const float *values, size_t count,
                                   struct table **out) {
    struct cuda *cuda = cuda_of(be);
    struct cuda_table *table;
    size_t bytes;
    if (!size_mul(count, sizeof(float), &bytes))
        return fail(ST_NOMEM, "table: %zu values do not fit into memory", count);
    table = (struct cuda_table *)mem_zalloc(1, sizeof *table);
    if (table == NULL) return ST_NOMEM;
    table->next = cuda->tables;
    cuda->tables = table;
    table->head.count = count;
    TRY(upload_fp32(cuda, "table", values, count, &table->values));
    *out = &table->head;
    return ST_OK;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static enum status cuda_sync(struct backend *be) {
    struct cuda *cuda = cuda_of(be);
    if (be->error != ST_OK) {
        cuda_list_clear(cuda); /* a pass that stopped in the middle */
        return cuda_wait(cuda);
    }
    TRY(cuda_flush(cuda));
    return cuda_wait(cuda);
}

/* The second run is timed: the first loads the kernel. */
static enum status measure_peak(struct cuda *cuda, cudaEvent_t start, cudaEvent_t end,
                                double *flops) {
    const int blocks = cuda->multiprocessors * 8, rounds = 4096;
    double operations = 0;
    float milliseconds = 0;
    TRY(want_part(cuda, 1));
    for (int i = 0; i < 2; i++) {
        CUDA_TRY("peak", cudaEventRecord(start, cuda->compute));
        TRY(cuda_peak_run((float *)cuda->part.data, blocks, rounds, &operations, cuda->compute));
        CUDA_TRY("peak", cudaEventRecord(end, cuda->compute));
    }
    TRY(cuda_wait(cuda));
    CUDA_TRY("peak", cudaEventElapsedTime(&milliseconds, start, end));
    *flops = milliseconds > 0 ? operations / (1e-3 * (double)milliseconds) : 0;
    return ST_OK;
}

static double cuda_peak(struct backend *be) {
    struct cuda *cuda = cuda_of(be);
    cudaEvent_t start = NULL, end = NULL;
    double flops = 0;
    if (cudaSetDevice(cuda->device) == cudaSuccess && cudaEventCreate(&start) == cudaSuccess &&
        cudaEventCreate(&end) == cudaSuccess && measure_peak(cuda, start, end, &flops) != ST_OK)
        flops = 0;
    if (start != NULL) (void)cudaEventDestroy(start);
    if (end != NULL) (void)cudaEventDestroy(end);
    return flops;
}

static void close_weights(struct cuda *cuda) {
    while (cuda->linears != NULL) {
        struct cuda_linear *linear = cuda->linears;
        cuda->linears = linear->next;
        mem_free(linear);
    }
    while (cuda->norms != NULL) {
        struct cuda_norm *norm = cuda->norms;
        cuda->norms = norm->next;
        mem_free(norm);
    }
    while (cuda->tables != NULL) {
        struct cuda_table *table = cuda->tables;
        cuda->tables = table->next;
        mem_free(table);
    }
}

static void cuda_close(struct backend *be) {
    struct cuda *cuda = cuda_of(be);
    (void)cudaSetDevice(cuda->device);
    if (cuda->copy != NULL) (void)cudaStreamSynchronize(cuda->copy);
    if (cuda->compute != NULL) (void)cudaStreamSynchronize(cuda->compute);
    cuda_list_release(cuda);
    cuda_pixels_release(cuda);
    close_weights(cuda);
    while (cuda->block_count > 0)
        (void)cudaFree(cuda->blocks[--cuda->block_count]);
    mem_free(cuda->blocks);
    cuda_choice_release(cuda);
    if (cuda->part_host != NULL) (void)cudaFreeHost(cuda->part_host);
    if (cuda->lt != NULL) (void)cublasLtDestroy(cuda->lt);
    if (cuda->copy != NULL) (void)cudaStreamDestroy(cuda->copy);
    if (cuda->compute != NULL) (void)cudaStreamDestroy(cuda->compute);
    mem_free(cuda->plans);
    tuning_release(&cuda->tuning);
    mem_free(cuda);
}

static struct backend_ops table_of_ops(void) {
    struct backend_ops ops;
    memset(&ops, 0, sizeof ops);
    cuda_fill_ops(&ops);
    ops.close = cuda_close;
    ops.sync = cuda_sync;
    ops.peak = cuda_peak;
    ops.plan_begin = cuda_plan_begin;
    ops.plan_end = cuda_plan_end;
    ops.reserve = cuda_reserve;
    ops.release = cuda_release;
    ops.read = cuda_read;
    ops.write = cuda_write;
    ops.linear_load = cuda_linear_load;
    ops.norm_load = cuda_norm_load;
    ops.table_load = cuda_table_load;
    ops.stage = cuda_stage;
    return ops;
}

/* Whether there is such a device; else why not. */
static enum status find_device(int device) {
    int count = 0, driver = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver) {
        (void)cudaGetLastError();
        (void)cudaDriverGetVersion(&driver);
        if (driver == 0) return fail(ST_DEVICE, "no NVIDIA driver is installed");
        return fail(ST_DEVICE, "the driver is for CUDA %d.%d, this build needs %d.%d",
                    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                    CUDART_VERSION % 1000 / 10);
    }
    if (error == cudaErrorNoDevice) {
        (void)cudaGetLastError();
        return fail(ST_DEVICE, "the driver sees no device");
    }
    CUDA_TRY("the driver", error);
    if (device >= count)
        return fail(ST_DEVICE, "there %s %d device%s", count == 1 ? "is" : "are", count,
                    count == 1 ? "" : "s");
    return ST_OK;
}

static enum status find_precision(struct cuda *cuda, const char *precision) {
    static const struct {
        const char *name;
        enum cuda_type type;
        bool int8;
    } rows[] = {{"fp16", CUDA_FP16, false}, /* the default */
                {"bf16", CUDA_BF16, false},
                {"fp32", CUDA_FP32, false},
                {"int8", CUDA_FP16, true}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (precision != NULL && strcmp(precision, rows[i].name) != 0) continue;
        cuda->type = rows[i].type;
        cuda->int8 = rows[i].int8;
        cuda->be.precision = rows[i].name;
        cuda->be.act_size = type_bytes(cuda->type);
        return ST_OK;
    }
    return fail(ST_DEVICE, "precision %s: the cuda backend computes in fp16, bf16, fp32 or int8",
                precision);
}

static enum status set_up(struct cuda *cuda) {
    static struct cudaDeviceProp properties;
    const char *tf32 = getenv("VITRINE_TF32"), *cudnn = getenv("VITRINE_CUDNN");
    size_t version;
    CUDA_TRY("the device", cudaSetDevice(cuda->device));
    CUDA_TRY("the device", cudaGetDeviceProperties(&properties, cuda->device));
    if (properties.major * 10 + properties.minor < 75)
        return fail(ST_DEVICE, "%s is sm_%d%d, the kernels need sm_75 or newer", properties.name,
                    properties.major, properties.minor);
    CUDA_TRY("a stream", cudaStreamCreateWithFlags(&cuda->compute, cudaStreamNonBlocking));
    CUDA_TRY("a stream", cudaStreamCreateWithFlags(&cuda->copy, cudaStreamNonBlocking));
    LT_TRY("cuBLASLt", cublasLtCreate(&cuda->lt));
    cuda->multiprocessors = properties.multiProcessorCount;
    cuda->tf32 = cuda->type == CUDA_FP32 && tf32 != NULL && strcmp(tf32, "1") == 0;
    cuda->cudnn = CUDNN_LARGE;
    if (cudnn != NULL && strcmp(cudnn, "0") == 0) cuda->cudnn = CUDNN_NEVER;
    if (cudnn != NULL && strcmp(cudnn, "1") == 0) cuda->cudnn = CUDNN_ALWAYS;
    cuda->scratch.what = "the products' scratch";
    cuda->patches.what = "the patch matrix";
    cuda->image.what = "the normalised pixels";
    cuda->part.what = "the memory of reads and writes";
    cuda->workspace.what = "the libraries' workspace";
    version = cublasLtGetVersion();
    snprintf(cuda->be.description, sizeof cuda->be.description,
             "cuda:%d: %.100s, sm_%d%d, %s%s, cuBLASLt %zu.%zu", cuda->device, properties.name,
             properties.major, properties.minor, cuda->be.precision, cuda->tf32 ? " (TF32)" : "",
             version / 10000, version / 100 % 100);
    tuning_open(cuda, properties.name);
    return ST_OK;
}

__attribute__((visibility("default"))) enum status
vitrine_cuda_open(int device, const char *precision, struct backend **out) {
    static struct backend_ops ops;
    struct cuda *cuda;
    enum status st;
    *out = NULL;
    cuda = (struct cuda *)mem_zalloc(1, sizeof *cuda);
    if (cuda == NULL) return ST_NOMEM;
    ops = table_of_ops();
    cuda->be.ops = &ops;
    cuda->be.gpu = true;
    cuda->device = device;
    st = find_precision(cuda, precision);
    if (st == ST_OK) st = find_device(device);
    if (st == ST_OK) st = set_up(cuda);
    if (st == ST_OK)
        *out = &cuda->be;
    else
        cuda_close(&cuda->be);
    return st;
}
