/*
 * fake_cuda_device: the stand-in's device: faults and errors, memory, what it says about itself.
 */
#include "tests/fake_cuda.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, GUARD_BYTE = 0x5a, FREED_BYTE = 0xdb };

struct fake_cuda_options fake_cuda_options;
struct fake_cuda_counts fake_cuda_counts;

static struct {
    struct fake_block *blocks;
    size_t device_bytes[FAKE_DEVICES];
    int alive;
    char fault[512], death[512];
    cudaError_t dead[FAKE_DEVICES]; /* sticky, as a context's errors are */
} fake;

/* Of the thread. */
static thread_local int current_device;
static thread_local cudaError_t last_error;

/* ---- one caller at a time -------------------------------------------------------------------- */

static pthread_mutex_t everything = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

fake_lock::fake_lock() {
    pthread_mutex_lock(&everything);
}
fake_lock::~fake_lock() {
    pthread_mutex_unlock(&everything);
}

int fake_device() {
    return current_device;
}

/* ---- faults and errors ----------------------------------------------------------------------- */

void fake_fault(const char *format, ...) {
    va_list arguments;
    if (fake.fault[0]) return;
    va_start(arguments, format);
    vsnprintf(fake.fault, sizeof fake.fault, format, arguments);
    va_end(arguments);
}

const char *fake_cuda_fault(void) {
    return fake.fault[0] ? fake.fault : NULL;
}

void fake_count(int by) {
    fake.alive += by;
}

cudaError_t fake_give(cudaError_t error) {
    if (fake_is_dead(current_device)) error = fake.dead[current_device];
    if (error != cudaSuccess) last_error = error;
    return error;
}

/* A fault of the caller, and an error. */
cudaError_t fake_wrong(cudaError_t error, const char *what) {
    fake_fault("%s", what);
    return fake_give(error);
}

void fake_die(int device, const char *sentence) {
    if (fake_is_dead(device)) return;
    fake.dead[device] = cudaErrorLaunchFailure;
    snprintf(fake.death, sizeof fake.death, "unspecified launch failure (%s)", sentence);
}

bool fake_is_dead(int device) {
    return fake.dead[device] != cudaSuccess;
}

/* ---- memory ---------------------------------------------------------------------------------- */

struct fake_block *fake_find_block(const void *ptr) {
    const unsigned char *at = (const unsigned char *)ptr;
    for (struct fake_block *b = fake.blocks; b != NULL; b = b->next)
        if (at >= b->base && at < b->base + b->size) return b;
    return NULL;
}

static void check_guards(const struct fake_block *b) {
    for (size_t i = 0; i < GUARD; i++)
        if (b->base[b->size + i] != GUARD_BYTE || b->base[-1 - (ptrdiff_t)i] != GUARD_BYTE)
            return fake_fault("a write outside of an allocation of %zu bytes", b->size);
}

void fake_check_guards() {
    for (struct fake_block *b = fake.blocks; b != NULL; b = b->next)
        check_guards(b);
}

static void check_freed(const struct fake_block *b) {
    for (size_t i = 0; b->freed && i < b->size; i++)
        if (b->base[i] != FREED_BYTE)
            return fake_fault("a write to freed memory of %zu bytes", b->size);
}

bool fake_is_device(const char *who, const void *ptr, size_t bytes) {
    const struct fake_block *b = fake_find_block(ptr);
    if (b != NULL && !b->freed && !b->pinned &&
        bytes <= b->size - (size_t)((const unsigned char *)ptr - b->base))
        return true;
    fake_fault("%s: %zu bytes at %p are %s", who, bytes, ptr,
               b == NULL   ? "no memory of the device"
               : b->freed  ? "freed"
               : b->pinned ? "the host's"
                           : "more than the allocation has");
    return false;
}

static cudaError_t allocate(void **out, size_t bytes, bool pinned) {
    struct fake_block *b = (struct fake_block *)calloc(1, sizeof *b);
    b->memory = (unsigned char *)aligned_alloc(256, (bytes + 2 * GUARD + 255) / 256 * 256);
    b->base = b->memory + GUARD;
    b->size = bytes;
    b->pinned = pinned;
    b->device = current_device;
    memset(b->memory, GUARD_BYTE, GUARD);
    memset(b->base, 0xff, bytes); /* NaN in every type */
    memset(b->base + bytes, GUARD_BYTE, GUARD);
    b->next = fake.blocks;
    fake.blocks = b;
    fake_count(1);
    *out = b->base;
    return fake_give(cudaSuccess);
}

/* A test may take away more than is left. */
static size_t bytes_left() {
    size_t total = fake_cuda_options.memory, used = fake.device_bytes[current_device];
    return total > used ? total - used : 0;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    fake_lock lock;
    *total = fake_cuda_options.memory;
    *available = bytes_left();
    return fake_give(cudaSuccess);
}

cudaError_t cudaMalloc(void **out, size_t bytes) {
    fake_lock lock;
    if (fake_forbidden("cudaMalloc")) return fake_give(cudaErrorStreamCaptureUnsupported);
    if (bytes > bytes_left()) return fake_give(cudaErrorMemoryAllocation);
    fake.device_bytes[current_device] += bytes;
    return allocate(out, bytes, false);
}

cudaError_t cudaMallocHost(void **out, size_t bytes) {
    fake_lock lock;
    if (fake_forbidden("cudaMallocHost")) return fake_give(cudaErrorStreamCaptureUnsupported);
    return allocate(out, bytes, true);
}

static cudaError_t release(void *ptr, bool pinned) {
    struct fake_block *b = fake_find_block(ptr);
    if (ptr == NULL) return fake_give(cudaSuccess);
    if (b == NULL || b->freed || b->base != ptr || b->pinned != pinned)
        return fake_wrong(cudaErrorInvalidValue, "a free of what is no allocation of that kind");
    fake_run_all(); /* freeing waits for the device */
    check_guards(b);
    if (!pinned) fake.device_bytes[b->device] -= b->size;
    b->freed = true;
    memset(b->base, FREED_BYTE, b->size);
    fake_count(-1);
    return fake_give(cudaSuccess);
}

cudaError_t cudaFree(void *ptr) {
    fake_lock lock;
    if (fake_forbidden("cudaFree")) return fake_give(cudaErrorStreamCaptureUnsupported);
    return release(ptr, false);
}

cudaError_t cudaFreeHost(void *ptr) {
    fake_lock lock;
    if (fake_forbidden("cudaFreeHost")) return fake_give(cudaErrorStreamCaptureUnsupported);
    return release(ptr, true);
}

/* ---- as a library of its own ----------------------------------------------------------------- */

/* FAKE_CUDA_DEVICES is for programs that cannot reach the options. */
__attribute__((constructor)) static void begin() {
    const char *devices = getenv("FAKE_CUDA_DEVICES");
    fake_cuda_reset();
    if (devices != NULL) fake_cuda_options.devices = devices[0] - '0';
}
__attribute__((destructor)) static void end() {
    if (fake.fault[0]) fprintf(stderr, "fake_cuda: %s\n", fake.fault);
}

/* ---- the device ------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *count) {
    fake_lock lock;
    *count = 0;
    if (fake_cuda_options.driver < CUDART_VERSION) return fake_give(cudaErrorInsufficientDriver);
    if (fake_cuda_options.devices == 0) return fake_give(cudaErrorNoDevice);
    *count = fake_cuda_options.devices;
    return fake_give(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version) {
    fake_lock lock;
    *version = fake_cuda_options.driver;
    return fake_give(cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
    fake_lock lock;
    if (device < 0 || device >= fake_cuda_options.devices) return fake_give(cudaErrorInvalidDevice);
    current_device = device;
    return fake_give(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int) {
    fake_lock lock;
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "Stand-in");
    properties->major = fake_cuda_options.capability / 10;
    properties->minor = fake_cuda_options.capability % 10;
    properties->multiProcessorCount = 1;
    return fake_give(cudaSuccess);
}

cudaError_t cudaGetLastError(void) {
    fake_lock lock;
    cudaError_t error = last_error;
    last_error = fake.dead[current_device];
    return error;
}

const char *cudaGetErrorString(cudaError_t error) {
    static const char *const names[] = {
        "no error",
        "invalid argument",
        "out of memory",
        "CUDA driver version is insufficient for CUDA runtime version",
        "no CUDA-capable device is detected",
        "invalid device ordinal",
        "invalid resource handle",
        "device not ready",
        "unspecified launch failure",
        "operation not permitted when stream is capturing",
        "operation failed due to a previous error during capture"};
    return error == cudaErrorLaunchFailure && fake.death[0] ? fake.death : names[error];
}

void fake_cuda_reset(void) {
    fake_forget_streams();
    while (fake.blocks != NULL) {
        struct fake_block *next = fake.blocks->next;
        free(fake.blocks->memory);
        free(fake.blocks);
        fake.blocks = next;
    }
    memset(&fake, 0, sizeof fake);
    current_device = 0;
    last_error = cudaSuccess;
    memset(&fake_cuda_counts, 0, sizeof fake_cuda_counts);
    memset(&fake_cuda_options, 0, sizeof fake_cuda_options);
    fake_cuda_options.memory = (size_t)1 << 30;
    fake_cuda_options.devices = 1;
    fake_cuda_options.driver = CUDART_VERSION;
    fake_cuda_options.capability = 90;
}

int fake_cuda_alive(void) {
    fake_lock lock;
    fake_check_guards();
    for (struct fake_block *b = fake.blocks; b != NULL; b = b->next)
        check_freed(b);
    return fake.alive;
}
