/*
 * simt_run: what the simulator's own files share: the launch that is under way. Kernels and tests
 * see simt.h alone.
 */
#ifndef TESTS_SIMT_RUN_H
#define TESTS_SIMT_RUN_H

#include "tests/simt.h"

#if defined(__cplusplus) && defined(SIMT)

#if !defined(__x86_64__) || defined(SIMT_UCONTEXT)
#define SIMT_UCONTEXT 1
#include <ucontext.h>
#endif

enum {
    THREADS_MOST = 1024,
    COPIES_MOST = 256, /* of a thread, under way */
    STATICS = 48 * 1024,
    STATICS_MOST = 32, /* static arrays of a kernel */
    GUARD = 1024       /* bytes behind dynamic shared memory that must stay NaN */
};

enum state { READY, AT_WARP, AT_BLOCK, DONE };

struct context {
#if defined(SIMT_UCONTEXT)
    ucontext_t of;
#else
    void *stack_pointer;
#endif
};

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    int group;
};

struct fibre {
    struct context context;
    unsigned char *stack;
    uint3 index;
    int warp, lane;
    enum state state;
    const char *what; /* what it waits for, and where */
    simt_place where;
    struct copy copies[COPIES_MOST];
    int copy_count, groups;
};

struct warp {
    uint32_t ready, arrived, live; /* lanes */
    unsigned turn;
    uint64_t values[2][32];
    uint32_t operands[2][32][6];
    float product[2][16][8];
};

struct statics {
    simt_place place;
    size_t at, size;
};

struct simt_run {
    void (*body)(void *);
    void *closure;
    struct context launcher;
    struct fibre *fibres; /* (threads) */
    struct warp warps[THREADS_MOST / 32];
    int threads, current, alive, at_barrier;
    int first_at_barrier; /* a thread */
    unsigned random;
    unsigned char *memory; /* static, then dynamic shared memory, then the guard */
    size_t dynamic, capacity;
    struct statics statics[STATICS_MOST];
    int static_count;
    size_t static_used;
    bool failed;
    char sentence[512];
};
extern struct simt_run simt_run;

static inline struct fibre *simt_self(void) {
    return &simt_run.fibres[simt_run.current];
}

static inline bool simt_same_place(simt_place a, simt_place b) {
    return a.line == b.line && (a.file == b.file || strcmp(a.file, b.file) == 0);
}

/* Ends the launch with a sentence; does not return. */
void simt_stop(const char *format, ...) PRINTF_LIKE(1, 2);

/* Whether the site is the broken one; remembers it. `kind` is known by its address. */
bool simt_broken(const char *kind, simt_place here);

/* Of the warp: true for the last to arrive, who then does what is to be done, and releases. */
bool simt_arrive_warp(const char *what, simt_place here);
void simt_release_warp(void);

#endif
#endif
