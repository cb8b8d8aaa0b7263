/*
 * simt_memory: see simt.h. Shared memory and its checks, asynchronous copies, and matrices.
 */
#include "tests/simt_run.h"

enum { WATCHED_MOST = 64 };

static struct {
    const unsigned char *base;
    size_t size;
} watched[WATCHED_MOST];
static int watched_count;

static const char wait_kind[] = "wait", copy_kind[] = "copy", trans_kind[] = "trans";

/* ---- memory ---------------------------------------------------------------------------------- */

static bool in_shared(const void *p) {
    const unsigned char *at = (const unsigned char *)p;
    return at >= simt_run.memory && at < simt_run.memory + STATICS + simt_run.dynamic + GUARD;
}

/* 16 bytes inside of a static array's memory or of the dynamic memory. */
static bool whole_shared(const void *p) {
    size_t at = (size_t)((const unsigned char *)p - simt_run.memory);
    if (at < STATICS) return at + 16 <= simt_run.static_used;
    return at + 16 <= STATICS + simt_run.dynamic;
}

static void check_shared(const void *p, const char *what, simt_place here) {
    if ((uintptr_t)p % 16)
        simt_stop("%s at %s:%d: %p is not aligned", what, here.file, here.line, p);
    if (!in_shared(p) || !whole_shared(p))
        simt_stop("%s at %s:%d: not in the block's shared memory (byte %ld of %zu)", what,
                  here.file, here.line,
                  (long)((const unsigned char *)p - simt_run.memory - STATICS), simt_run.dynamic);
}

static void check_global(const void *p, const char *what, simt_place here) {
    const unsigned char *at = (const unsigned char *)p;
    if ((uintptr_t)p % 16)
        simt_stop("%s at %s:%d: %p is not aligned", what, here.file, here.line, p);
    for (int i = 0; i < watched_count; i++)
        if (at >= watched[i].base && at + 16 <= watched[i].base + watched[i].size) return;
    if (watched_count)
        simt_stop("%s at %s:%d: outside of every buffer", what, here.file, here.line);
}

void simt_check16(const void *p, const char *what, simt_place here) {
    if (in_shared(p))
        check_shared(p, what, here);
    else
        check_global(p, what, here);
}

unsigned char *simt_dynamic() {
    return simt_run.memory + STATICS;
}

void *simt_static(size_t size, const char *file, int line) {
    simt_place here = {file, line};
    for (int i = 0; i < simt_run.static_count; i++)
        if (simt_same_place(simt_run.statics[i].place, here))
            return simt_run.memory + simt_run.statics[i].at;
    size = (size + 15) / 16 * 16;
    if (simt_run.static_count == STATICS_MOST || simt_run.static_used + size > STATICS)
        simt_stop("static shared memory at %s:%d: more than %d bytes", file, line, (int)STATICS);
    struct statics *next = &simt_run.statics[simt_run.static_count++];
    next->place = here;
    next->at = simt_run.static_used;
    next->size = size;
    simt_run.static_used += size;
    memset(simt_run.memory + next->at, 0xff, size);
    return simt_run.memory + next->at;
}

size_t simt_shared_of_block() {
    return simt_options.shared_block ? simt_options.shared_block : 227 * 1024;
}

size_t simt_shared_of_sm() {
    return simt_options.shared_sm ? simt_options.shared_sm : 228 * 1024;
}

static void copy_now(const struct copy *copy) {
    if (copy->from)
        memcpy(copy->to, copy->from, 16);
    else
        memset(copy->to, 0, 16);
}

void simt_copy(void *to, const void *from, bool valid, simt_place here) {
    struct fibre *me = simt_self();
    if (simt_broken(copy_kind, here) && !valid) return;
    check_shared(to, "cp_async16", here);
    if (valid) check_global(from, "cp_async16", here);
    struct copy copy = {to, valid ? from : NULL, me->groups};
    if (simt_options.eager) {
        copy_now(&copy);
        return;
    }
    if (me->copy_count == COPIES_MOST)
        simt_stop("cp_async16 at %s:%d: more than %d under way", here.file, here.line,
                  (int)COPIES_MOST);
    me->copies[me->copy_count++] = copy;
}

void simt_commit() {
    simt_self()->groups++;
}

void simt_wait(int most, simt_place here) {
    struct fibre *me = simt_self();
    int kept = 0;
    if (simt_broken(wait_kind, here)) most++;
    for (int i = 0; i < me->copy_count; i++) {
        if (me->copies[i].group < me->groups - most)
            copy_now(&me->copies[i]);
        else
            me->copies[kept++] = me->copies[i];
    }
    me->copy_count = kept;
}

/* ---- matrices -------------------------------------------------------------------------------- */

void simt_ldmatrix(uint32_t *r, const void *row, int matrices, bool trans, simt_place here) {
    int lane = simt_self()->lane;
    if (trans && simt_broken(trans_kind, here)) trans = false;
    if (lane < 8 * matrices) check_shared(row, "ldmatrix", here);
    const uint64_t *rows = simt_exchange("ldmatrix", (uint64_t)(uintptr_t)row, NULL, here);
    for (int m = 0; m < matrices; m++) {
        uint16_t pair[2];
        for (int e = 0; e < 2; e++) {
            int across = 2 * (lane % 4) + e, down = lane / 4;
            const void *from = (const void *)(uintptr_t)rows[8 * m + (trans ? across : down)];
            memcpy(&pair[e], (const char *)from + 2 * (trans ? down : across), 2);
        }
        r[m] = pair[0] | (uint32_t)pair[1] << 16;
    }
}

static float from_half(uint32_t pair, int which, bool bf16_values) {
    uint16_t half = (uint16_t)(pair >> 16 * which);
    return bf16_values ? simt_from_bf16(half) : simt_from_fp16(half);
}

/* product = a b of the 32 lanes' fragments. */
static void multiply(const uint32_t operands[32][6], bool bf16_values, float product[16][8]) {
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4 * 2;
        const uint32_t *of = operands[lane];
        for (int e = 0; e < 2; e++) {
            for (int i = 0; i < 4; i++)
                a[g + i % 2 * 8][t + i / 2 * 8 + e] = from_half(of[i], e, bf16_values);
            for (int i = 0; i < 2; i++)
                b[t + i * 8 + e][g] = from_half(of[4 + i], e, bf16_values);
        }
    }
    for (int i = 0; i < 16; i++) {
        float sum[8] = {0};
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++)
                sum[j] += a[i][k] * b[k][j];
        memcpy(product[i], sum, sizeof sum);
    }
}

long simt_products;

void simt_mma(float *c, const uint32_t *a, const uint32_t *b, bool bf16_values, simt_place here) {
    struct warp *w = &simt_run.warps[simt_self()->warp];
    unsigned place = w->turn & 1;
    int lane = simt_self()->lane, g = lane / 4, t = lane % 4 * 2;
    memcpy(w->operands[place][lane], a, 16);
    memcpy(w->operands[place][lane] + 4, b, 8);
    if (bf16_values && simt_options.no_bf16_mma)
        simt_stop("mma_m16n8k16 of bf16 at %s:%d: the device has none", here.file, here.line);
    if (simt_arrive_warp("mma_m16n8k16", here)) {
        multiply(w->operands[place], bf16_values, w->product[place]);
        simt_products++;
        simt_release_warp();
    }
    c[0] += w->product[place][g][t];
    c[1] += w->product[place][g][t + 1];
    c[2] += w->product[place][g + 8][t];
    c[3] += w->product[place][g + 8][t + 1];
}

/* ---- what may be touched -------------------------------------------------------------------- */

void simt_watch(const void *base, size_t size) {
    if (watched_count == WATCHED_MOST) return;
    watched[watched_count].base = (const unsigned char *)base;
    watched[watched_count++].size = size;
}

void simt_unwatch(void) {
    watched_count = 0;
}
