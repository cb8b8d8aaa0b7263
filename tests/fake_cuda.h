/*
 * fake_cuda: a stand-in for the CUDA runtime, cuBLASLt and cuDNN, so that the CUDA backend's own
 * code runs in tests without a GPU or the toolkit (tests/fake/ has its headers). Kernels run in the
 * simulator (tests/simt.h).
 *
 * Device memory is host memory between guard bands; freed memory stays known. A stream is a queue
 * that is worked off as late as possible: when somebody waits for it. Who used which memory is kept
 * by vector clocks: work of two streams on one allocation without an event between them is a fault,
 * whatever came of it. So are: memory after its free, or that is not the device's; a write behind
 * an allocation; pinned memory changed before its copy ran; what a capture forbids; arguments that
 * cuBLASLt's or cuDNN's documentation does not allow (fake_cuda_lt.cc, fake_cuda_dnn.cc). A
 * kernel's memory is what pointers are among its arguments; an allocation counts as a whole, and
 * every use as a write. Several devices have memory and streams of their own, and one device's work
 * may use no other's. Threads take turns; the host's clock is that of all of them.
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fake_cuda_options {
    size_t memory;    /* of a device, bytes */
    int devices;      /* how many there are, up to 4 */
    int driver;       /* its CUDA version; 0: none is installed */
    int capability;   /* 90 = sm_90 */
    int drop_wait;    /* the n-th cudaStreamWaitEvent from now on does nothing; 0: none */
    int drop_sync;    /* the n-th cudaEventSynchronize, or cudaStreamSynchronize, too */
    int fail_matmul;  /* the n-th cublasLtMatmul from now on is refused */
    int fail_launch;  /* the n-th kernel from now on dies */
    int fail_graph;   /* there is no memory for the n-th graph from now on */
    int fastest;      /* the algorithm that takes the least time, 0 to 7 */
    bool no_products; /* the heuristics know nothing */
    bool no_fusion;   /* the heuristics know products without epilogue and beta alone */
    bool no_cudnn;    /* the loader does not find it */
    bool no_handle;   /* it is there, and cannot use the device */
    bool no_plans;    /* its heuristics know nothing */
    int fastest_plan; /* 1 + the plan that takes the least time; 0: slower than everything else */
    int refuse_plan;  /* 1 + the plan that is not built */
    int fail_plan;    /* the n-th launch of a plan from now on is refused */
    bool no_int8;     /* the heuristics know no products of int8 */
};
extern struct fake_cuda_options fake_cuda_options;

/* Since the last reset. */
struct fake_cuda_counts {
    int kernels, matmuls, copies; /* one by one; those in graphs are not counted */
    int captured, instantiated, graph_launches;
    int heuristics, waits;
    int algorithm; /* of the last matmul */
    int timings;   /* times between events */
    int cudnn;     /* how often it was loaded */
    int built;     /* plans */
    int plans;     /* launches of them, also into graphs */
    int plan;      /* the last that was launched */
    int int8;      /* matmuls of int8, those captured too */
};
extern struct fake_cuda_counts fake_cuda_counts;

/* A device of 1 GiB, no faults, all counts 0. What is alive is forgotten. */
void fake_cuda_reset(void);
/* What somebody did wrong first, or NULL. */
const char *fake_cuda_fault(void);
/* Allocations, streams, events, graphs, descriptions, handles that nobody freed. */
int fake_cuda_alive(void);

#ifdef __cplusplus
}

/* ---- between fake_cuda*.cc ------------------------------------------------------------------- */

#include <cuda_runtime.h>

enum { FAKE_STREAMS = 64, FAKE_DEVICES = 4 };

/* Held by every call: threads take turns. */
struct fake_lock {
    fake_lock();
    ~fake_lock();
};
/* This thread's, by cudaSetDevice. */
int fake_device();

/* An allocation, kept when it is freed. */
struct fake_block {
    unsigned char *memory, *base; /* guard, base, size, guard */
    size_t size;
    int device; /* current when it was made */
    bool pinned, freed;
    unsigned used[FAKE_STREAMS]; /* the clock of each stream's last work on it */
    struct fake_block *next;
};

/* Remembers the first fault. */
void fake_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What a call returns; a fault of the caller and what it returns. */
cudaError_t fake_give(cudaError_t error);
cudaError_t fake_wrong(cudaError_t error, const char *what);
/* A kernel died: every call for that device fails from now on. */
void fake_die(int device, const char *sentence);
bool fake_is_dead(int device);
/* +1, -1: an object is made, destroyed. */
void fake_count(int by);

struct fake_block *fake_find_block(const void *ptr);
void fake_check_guards();
/* Whether [ptr, ptr + bytes) is live device memory; else a fault that says who. */
bool fake_is_device(const char *who, const void *ptr, size_t bytes);

void fake_run_all();
void fake_forget_streams();
/* Whether a stream captures, and the call breaks that. */
bool fake_forbidden(const char *call);
/* Queues body(closure); `cost` is its time. The closure is copied, and searched for pointers. */
bool fake_queue(struct fake_stream *stream, const char *name, void (*body)(void *),
                const void *closure, size_t size, double cost);
#endif
#endif
