/*
 * simt: see simt.h. Fibres, the schedules, rendezvous, launching. Memory and matrices are in
 * simt_memory.
 *
 * The scheduler has no stack of its own: a fibre that waits picks the next one and switches to it;
 * when none is left, to the launcher. What a warp exchanges lies in two places by turns: a lane can
 * be one rendezvous ahead of those that still read, never two.
 */
#include "tests/simt_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

enum { SITES_MOST = 256, STACK = 256 * 1024 };

struct simt_options simt_options;
const uint3 *simt_thread_index;
uint3 simt_block_index;
dim3 simt_block_dim, simt_grid_dim;

struct site {
    const char *kind;
    simt_place place;
    char name[160];
};

struct simt_run simt_run;

static struct fibre *stacks; /* (stack_count), kept from launch to launch */
static int stack_count;

static struct site sites[SITES_MOST];
static int site_count;

/* ---- contexts -------------------------------------------------------------------------------- */

#if defined(SIMT_UCONTEXT)
static void switch_context(struct context *from, struct context *to) {
    swapcontext(&from->of, &to->of);
}
#else
/* Pushes what a function must keep, leaves the stack in *save, goes on where `to` was left. */
extern "C" void simt_switch(void **save, void *to);
__asm__(".text\n"
        ".globl simt_switch\n"
        ".type simt_switch, @function\n"
        "simt_switch:\n"
        "    pushq %r15\n"
        "    pushq %r14\n"
        "    pushq %r13\n"
        "    pushq %r12\n"
        "    pushq %rbx\n"
        "    pushq %rbp\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %rbp\n"
        "    popq %rbx\n"
        "    popq %r12\n"
        "    popq %r13\n"
        "    popq %r14\n"
        "    popq %r15\n"
        "    ret\n"
        ".size simt_switch, . - simt_switch\n");

static void switch_context(struct context *from, struct context *to) {
    simt_switch(&from->stack_pointer, to->stack_pointer);
}
#endif

#if defined(__SANITIZE_ADDRESS__)
static const void *launcher_stack;
static size_t launcher_size;
#endif

/* The address sanitizer must know whose stack it is on; fibre NULL: the launcher. */
static void announce(void **keep, const struct fibre *fibre) {
#if defined(__SANITIZE_ADDRESS__)
    if (fibre)
        __sanitizer_start_switch_fiber(keep, fibre->stack, STACK);
    else
        __sanitizer_start_switch_fiber(keep, launcher_stack, launcher_size);
#else
    (void)keep;
    (void)fibre;
#endif
}

static void arrived_on(void *keep, bool first) {
#if defined(__SANITIZE_ADDRESS__)
    const void *stack;
    size_t size;
    __sanitizer_finish_switch_fiber(keep, &stack, &size);
    if (first) { /* a fibre's first run follows the launcher, or a fibre that is no launcher */
        if (!launcher_stack) launcher_stack = stack, launcher_size = size;
    }
#else
    (void)keep;
    (void)first;
#endif
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static int warp_count(void) {
    return simt_run.threads / 32;
}

/* The first lane of `lanes` at or behind `lane`, around the end. */
static int lane_from(uint32_t lanes, int lane) {
    uint32_t behind = lanes & ~0u << (lane & 31);
    return __builtin_ctz(behind ? behind : lanes);
}

static unsigned next_random(void) {
    simt_run.random ^= simt_run.random << 13;
    simt_run.random ^= simt_run.random >> 17;
    simt_run.random ^= simt_run.random << 5;
    return simt_run.random;
}

/* The next thread to run, -1: none can. */
static int pick(void) {
    int warps = warp_count(), here = simt_run.current / 32, lane = simt_run.current % 32 + 1;
    if (simt_options.schedule == SIMT_ROUND_ROBIN) {
        uint32_t rest = lane < 32 ? simt_run.warps[here].ready & ~0u << lane : 0;
        if (rest) return here * 32 + __builtin_ctz(rest);
        for (int i = 1; i <= warps; i++) {
            int w = (here + i) % warps;
            if (simt_run.warps[w].ready) return w * 32 + __builtin_ctz(simt_run.warps[w].ready);
        }
        return -1;
    }
    if (simt_options.schedule == SIMT_WARP_GREEDY) {
        if (simt_run.warps[here].ready)
            return here * 32 + lane_from(simt_run.warps[here].ready, lane);
        for (int w = warps - 1; w >= 0; w--)
            if (simt_run.warps[w].ready) return w * 32 + __builtin_ctz(simt_run.warps[w].ready);
        return -1;
    }
    unsigned random = next_random();
    for (int i = 0; i < warps; i++) {
        int w = (int)((random >> 8) + (unsigned)i) % warps;
        if (w < 0) w += warps;
        if (simt_run.warps[w].ready)
            return w * 32 + lane_from(simt_run.warps[w].ready, (int)(random & 31));
    }
    return -1;
}

/* Leaves the running fibre for another; index -1: the launcher. */
static void go(int index) {
    struct fibre *from = simt_self();
    void *keep = NULL;
    struct fibre *to = index < 0 ? NULL : &simt_run.fibres[index];
    if (index >= 0) simt_run.current = index;
    if (to == from) return;
    if (to) simt_thread_index = &to->index;
    announce(from->state == DONE ? NULL : &keep, to);
    switch_context(&from->context, to ? &to->context : &simt_run.launcher);
    arrived_on(keep, false);
}

void simt_stop(const char *format, ...) {
    va_list arguments;
    int used = snprintf(simt_run.sentence, sizeof simt_run.sentence,
                        "block (%u, %u, %u), thread %d: ", simt_block_index.x, simt_block_index.y,
                        simt_block_index.z, simt_run.current);
    va_start(arguments, format);
    vsnprintf(simt_run.sentence + used, sizeof simt_run.sentence - (size_t)used, format, arguments);
    va_end(arguments);
    simt_run.failed = true;
    go(-1);
}

/* Nobody can run: says who waits where. */
static void deadlock(void) {
    char text[400] = "";
    size_t used = 0;
    for (int i = 0; i < simt_run.threads; i++) {
        const struct fibre *f = &simt_run.fibres[i];
        int same = 0, before = 0;
        for (int j = 0; j < simt_run.threads && f->state != DONE; j++) {
            const struct fibre *other = &simt_run.fibres[j];
            bool equal = other->state == f->state && other->where.line == f->where.line &&
                         other->what == f->what;
            same += equal;
            before += equal && j < i;
        }
        if (same == 0 || before > 0 || used + 120 > sizeof text) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d wait for %s at %.60s:%d",
                                 used ? ", " : "", same, f->what, f->where.file, f->where.line);
    }
    simt_stop("deadlock: %s; %d have returned", text, simt_run.threads - simt_run.alive);
}

static void wait_here(enum state state, const char *what, simt_place where) {
    struct fibre *me = simt_self();
    me->state = state;
    me->what = what;
    me->where = where;
    simt_run.warps[me->warp].ready &= ~(1u << me->lane);
    int next = pick();
    if (next < 0) deadlock();
    go(next);
}

static void fibre_main(void) {
    struct fibre *me = simt_self();
    arrived_on(NULL, true);
    simt_run.body(simt_run.closure);
    struct warp *w = &simt_run.warps[me->warp];
    me->state = DONE;
    w->ready &= ~(1u << me->lane);
    w->live &= ~(1u << me->lane);
    simt_run.alive--;
    int next = pick();
    if (next < 0 && simt_run.alive > 0) deadlock();
    go(next);
}

/* ---- rendezvous ------------------------------------------------------------------------------ */

bool simt_arrive_warp(const char *what, simt_place here) {
    struct fibre *me = simt_self();
    struct warp *w = &simt_run.warps[me->warp];
    if (w->live != ~0u)
        simt_stop("%s at %s:%d, but lanes of the warp have returned", what, here.file, here.line);
    if (w->arrived) {
        const struct fibre *other = &simt_run.fibres[me->warp * 32 + __builtin_ctz(w->arrived)];
        if (other->what != what || !simt_same_place(other->where, here))
            simt_stop("divergent warp: %s at %s:%d, lane %d is in %s at %s:%d", what, here.file,
                      here.line, other->lane, other->what, other->where.file, other->where.line);
    }
    w->arrived |= 1u << me->lane;
    if (w->arrived == ~0u) return true;
    wait_here(AT_WARP, what, here);
    return false;
}

void simt_release_warp(void) {
    struct warp *w = &simt_run.warps[simt_self()->warp];
    for (int i = 0; i < 32; i++)
        simt_run.fibres[simt_self()->warp * 32 + i].state = READY;
    w->arrived = 0;
    w->ready = ~0u;
    w->turn++;
}

bool simt_broken(const char *kind, simt_place here) {
    int i = 0;
    while (i < site_count && (sites[i].kind != kind || !simt_same_place(sites[i].place, here)))
        i++;
    if (i == site_count && site_count < SITES_MOST) {
        struct site *site = &sites[site_count++];
        site->kind = kind;
        site->place = here;
        snprintf(site->name, sizeof site->name, "%s at %s:%d", kind, here.file, here.line);
    }
    return simt_options.broken == i + 1;
}

static const char barrier_kind[] = "barrier", warp_kind[] = "__syncwarp",
                  shuffle_kind[] = "shuffle";

void simt_barrier(simt_place here) {
    if (simt_broken(barrier_kind, here)) return;
    struct fibre *me = simt_self();
    if (simt_run.alive < simt_run.threads)
        simt_stop("__syncthreads at %s:%d, but %d have returned", here.file, here.line,
                  simt_run.threads - simt_run.alive);
    const struct fibre *first = &simt_run.fibres[simt_run.first_at_barrier];
    if (simt_run.at_barrier == 0)
        simt_run.first_at_barrier = simt_run.current;
    else if (!simt_same_place(first->where, here))
        simt_stop("divergent barrier: __syncthreads at %s:%d, thread %d is at %s:%d", here.file,
                  here.line, simt_run.first_at_barrier, first->where.file, first->where.line);
    me->where = here;
    if (++simt_run.at_barrier < simt_run.threads) {
        wait_here(AT_BLOCK, "__syncthreads", here);
        return;
    }
    simt_run.at_barrier = 0;
    for (int i = 0; i < simt_run.threads; i++)
        simt_run.fibres[i].state = READY;
    for (int w = 0; w < warp_count(); w++)
        simt_run.warps[w].ready = ~0u;
}

void simt_warp_barrier(simt_place here) {
    if (simt_broken(warp_kind, here)) return;
    if (simt_arrive_warp("__syncwarp", here)) simt_release_warp();
}

const uint64_t *simt_exchange(const char *what, uint64_t value, bool *is_broken, simt_place here) {
    struct warp *w = &simt_run.warps[simt_self()->warp];
    unsigned place = w->turn & 1;
    if (is_broken) *is_broken = simt_broken(shuffle_kind, here);
    w->values[place][simt_self()->lane] = value;
    if (simt_arrive_warp(what, here)) simt_release_warp();
    return w->values[place];
}

/* ---- launching ------------------------------------------------------------------------------- */

static void drop_stacks(void) {
    for (int i = 0; i < stack_count; i++)
        free(stacks[i].stack);
    free(stacks);
    stacks = NULL;
    stack_count = 0;
}

static bool reserve(int threads, size_t shared) {
    size_t bytes = STATICS + shared + GUARD;
    if (threads > stack_count) {
        drop_stacks();
        stacks = (struct fibre *)calloc((size_t)threads, sizeof *stacks);
        for (int i = 0; stacks && i < threads; i++, stack_count++) {
            stacks[i].stack = (unsigned char *)malloc(STACK);
            if (!stacks[i].stack) return false;
        }
    }
    if (bytes > simt_run.capacity) {
        free(simt_run.memory);
        simt_run.capacity = (bytes + 1023) / 1024 * 1024;
        simt_run.memory = (unsigned char *)aligned_alloc(1024, simt_run.capacity);
        if (!simt_run.memory) simt_run.capacity = 0;
    }
    return stacks && simt_run.memory;
}

static void start_fibre(struct fibre *f, int index) {
    unsigned at = (unsigned)index;
    f->index.x = at % simt_block_dim.x;
    f->index.y = at / simt_block_dim.x % simt_block_dim.y;
    f->index.z = at / simt_block_dim.x / simt_block_dim.y;
    f->warp = index / 32;
    f->lane = index % 32;
    f->state = READY;
    f->what = "nothing";
    f->copy_count = f->groups = 0;
#if defined(SIMT_UCONTEXT)
    getcontext(&f->context.of);
    f->context.of.uc_stack.ss_sp = f->stack;
    f->context.of.uc_stack.ss_size = STACK;
    f->context.of.uc_link = NULL;
    makecontext(&f->context.of, fibre_main, 0);
#else
    void **top = (void **)(void *)(f->stack + STACK - 64); /* as behind a call: 16n + 8 */
    *--top = NULL;
    *--top = (void *)fibre_main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    f->context.stack_pointer = top;
#endif
}

static bool guard_is_whole(void) {
    const unsigned char *guard = simt_run.memory + STATICS + simt_run.dynamic;
    for (int i = 0; i < GUARD; i++)
        if (guard[i] != 0xff) return false;
    return true;
}

static void run_block(void) {
    void *keep = NULL;
    memset(simt_run.memory + STATICS, 0xff, simt_run.dynamic + GUARD);
    simt_run.static_count = 0;
    simt_run.static_used = 0;
    simt_run.alive = simt_run.threads;
    simt_run.at_barrier = 0;
    simt_run.random = 2463534242u + simt_options.seed;
    for (int i = 0; i < simt_run.threads; i++)
        start_fibre(&simt_run.fibres[i], i);
    for (int w = 0; w < warp_count(); w++) {
        simt_run.warps[w].ready = simt_run.warps[w].live = ~0u;
        simt_run.warps[w].arrived = 0;
    }
    simt_run.current = simt_options.schedule == SIMT_WARP_GREEDY ? simt_run.threads - 32 : 0;
    simt_thread_index = &simt_self()->index;
    announce(&keep, simt_self());
    switch_context(&simt_run.launcher, &simt_self()->context);
    arrived_on(keep, false);
    if (!simt_run.failed && !guard_is_whole()) {
        snprintf(simt_run.sentence, sizeof simt_run.sentence,
                 "block (%u, %u, %u): a write behind its %zu bytes of shared memory",
                 simt_block_index.x, simt_block_index.y, simt_block_index.z, simt_run.dynamic);
        simt_run.failed = true;
    }
}

enum status simt_launch(const char *name, dim3 grid, dim3 block, size_t shared,
                        void (*body)(void *), void *closure) {
    size_t threads = (size_t)block.x * block.y * block.z;
    if (threads == 0 || threads > THREADS_MOST || threads % 32 || grid.x == 0 || grid.y == 0 ||
        grid.z == 0 || grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535 ||
        shared > simt_shared_of_block())
        return fail(ST_DEVICE, "%s: %u x %u x %u blocks of %zu threads with %zu bytes refused",
                    name, grid.x, grid.y, grid.z, threads, shared);
    if (!reserve((int)threads, shared)) return fail(ST_NOMEM, "%s: no memory for fibres", name);
    simt_run.body = body;
    simt_run.closure = closure;
    simt_run.fibres = stacks;
    simt_run.threads = (int)threads;
    simt_run.dynamic = shared;
    simt_run.failed = false;
    simt_block_dim = block;
    simt_grid_dim = grid;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                simt_block_index = uint3{x, y, z};
                run_block();
                if (!simt_run.failed) continue;
                drop_stacks(); /* fibres were left in the middle */
                return fail(ST_DEVICE, "%s: %s", name, simt_run.sentence);
            }
    return ST_OK;
}

int simt_site_count(void) {
    return site_count;
}

const char *simt_site_name(int site) {
    return site < site_count ? sites[site].name : "?";
}

void simt_forget_sites(void) {
    site_count = 0;
}
