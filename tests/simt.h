/*
 * simt: runs CUDA kernels on the CPU, for tests; how a test steers it, and (for C++ with -DSIMT)
 * the CUDA that kernels/cuda.cuh gives to kernels.
 *
 * A fibre is a thread, a block runs at a time. Shared memory is NaN when a block starts. A warp's
 * collectives are rendezvous of its 32 lanes; cp.async copies at the wait or at once (`eager`);
 * which thread goes next is the schedule's choice: a kernel without races gives the same bits under
 * all of them. launch() returns ST_DEVICE with a sentence that names the kernel, the thread and the
 * line for: a deadlock; a collective or barrier that not all reach, or reach at different lines; a
 * 16-byte access that is not aligned; a shared address outside of the block's memory; a 16-byte
 * global access outside of the watched buffers, if any are; a write behind dynamic shared memory.
 * Not modelled: bank conflicts, coalescing, the rounding inside of mma, partial masks.
 */
#ifndef TESTS_SIMT_H
#define TESTS_SIMT_H

#include "kernels/base.h"
#include "tests/mutants.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum simt_schedule {
    SIMT_ROUND_ROBIN, /* the next thread that can run */
    SIMT_WARP_GREEDY, /* one warp as far as it gets, the last first */
    SIMT_RANDOM       /* by `seed` */
};

struct simt_options {
    enum simt_schedule schedule;
    unsigned seed;
    bool eager;                     /* cp.async copies at once */
    size_t shared_block, shared_sm; /* of the device; 0: an H100's */
    bool no_bf16_mma;               /* as before sm_80 */
    /*
     * A site is a line of a barrier, wait, shuffle, asynchronous copy or transposing load.
     * 1 + site: that one is broken (not waited for, one group too few, own value, tail not cleared,
     * not transposed); 0: none.
     */
    int broken;
    enum mutant mutant;
};
extern struct simt_options simt_options; /* for the launches to come */

/* Sites that ran since simt_forget_sites(), in order; "barrier at kernels/x.cu:12". */
int simt_site_count(void);
const char *simt_site_name(int site);
void simt_forget_sites(void);

/* Tensor core products (m16n8k16, 4096 FLOP) that warps did. */
extern long simt_products;

/* Global memory that 16-byte accesses may touch; with none watched they may touch all. */
void simt_watch(const void *base, size_t size);
void simt_unwatch(void);

/* ---- 16-bit floats: to the nearest, ties to even --------------------------------------------- */

static inline uint32_t simt_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float simt_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float simt_from_fp16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;
    if (rest >= 0x7c00u << 13) return simt_float(sign | 0x7f800000u | rest);
    return simt_float(sign | simt_bits(simt_float(rest) * 5.192296858534828e33f)); /* 2^112 */
}

static inline uint16_t simt_to_fp16(float x) {
    uint32_t bits = simt_bits(x), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return 0x7fff;
    if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* from 65520 */
    if (bits < 0x38800000)                                    /* below 2^-14: steps of 2^-24 */
        return (uint16_t)(sign | (simt_bits(simt_float(bits) + 0.5f) - simt_bits(0.5f)));
    return (uint16_t)(sign | (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13);
}

static inline float simt_from_bf16(uint16_t half) {
    return simt_float((uint32_t)half << 16);
}

static inline uint16_t simt_to_bf16(float x) {
    uint32_t bits = simt_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#ifdef __cplusplus
}
#endif

/* ---- the CUDA of the simulator --------------------------------------------------------------- */

#if defined(__cplusplus) && defined(SIMT)

#include <math.h>
#include <stdint.h>

struct float2 {
    float x, y;
};
struct int2 {
    int x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {
    }
};
struct fp16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};

#define DEVICE inline
#define UNROLL
#define NO_UNROLL
#define __global__
#define __launch_bounds__(...)
#define __restrict__
#define SHARED(type, name, count)                                                                  \
    type *name = static_cast<type *>(simt_static(sizeof(type) * (count), __FILE__, __LINE__))
#define MUTANT(name, right, wrong) (simt_options.mutant == MUTANT_##name ? (wrong) : (right))

#define threadIdx (*simt_thread_index)
#define blockIdx  simt_block_index
#define blockDim  simt_block_dim
#define gridDim   simt_grid_dim

extern const uint3 *simt_thread_index;
extern uint3 simt_block_index;
extern dim3 simt_block_dim, simt_grid_dim;

/* Where a wrapper is called: default arguments take the caller's line. */
struct simt_place {
    const char *file;
    int line;
};
#define SIMT_HERE  const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define SIMT_PLACE simt_place({file, line})

enum status simt_launch(const char *name, dim3 grid, dim3 block, size_t shared,
                        void (*body)(void *), void *closure);
void *simt_static(size_t size, const char *file, int line);
unsigned char *simt_dynamic();
size_t simt_shared_of_block();
size_t simt_shared_of_sm();
void simt_barrier(simt_place here);
void simt_warp_barrier(simt_place here);
/* The 32 lanes' values; `broken`: this site is, or NULL where it cannot be. */
const uint64_t *simt_exchange(const char *what, uint64_t value, bool *broken, simt_place here);
void simt_check16(const void *p, const char *what, simt_place here);
void simt_copy(void *to, const void *from, bool valid, simt_place here);
void simt_commit();
void simt_wait(int most, simt_place here);
void simt_ldmatrix(uint32_t *r, const void *row, int matrices, bool trans, simt_place here);
void simt_mma(float *c, const uint32_t *a, const uint32_t *b, bool bf16_values, simt_place here);

static inline size_t shared_of_block() {
    return simt_shared_of_block();
}
static inline size_t shared_of_sm() {
    return simt_shared_of_sm();
}

/* NULL, or who queues launches on streams (tests/fake_cuda.h); the closure is to be copied. */
inline enum status (*simt_launcher)(const char *name, dim3 grid, dim3 block, size_t shared,
                                    void *stream, void (*body)(void *), const void *closure,
                                    size_t size) = nullptr;
static inline bool has_bf16_mma() {
    return !simt_options.no_bf16_mma;
}

template <class... P, class... A>
static inline enum status launch(const char *name, void (*kernel)(P...), dim3 grid, int threads,
                                 size_t shared, void *stream, const A &...arguments) {
    auto body = [=] { kernel(arguments...); };
    auto run = [](void *closure) { (*static_cast<decltype(body) *>(closure))(); };
    static_assert(__is_trivially_copyable(decltype(body)), "a kernel's arguments are bytes");
    if (simt_launcher)
        return simt_launcher(name, grid, dim3((unsigned)threads), shared, stream, run, &body,
                             sizeof body);
    return simt_launch(name, grid, dim3((unsigned)threads), shared, run, &body);
}

inline float2 make_float2(float x, float y) {
    return float2{x, y};
}
inline int2 make_int2(int x, int y) {
    return int2{x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
    return float4{x, y, z, w};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return uint4{x, y, z, w};
}
template <class T> inline T min(T a, T b) {
    return b < a ? b : a;
}
template <class T> inline T max(T a, T b) {
    return a < b ? b : a;
}
inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
template <class T> inline T __ldg(const T *p) {
    return *p;
}

inline float to_float(float x) {
    return x;
}
inline float to_float(fp16 x) {
    return simt_from_fp16(x.bits);
}
inline float to_float(bf16 x) {
    return simt_from_bf16(x.bits);
}
template <class T> inline T from_float(float x);
template <> inline float from_float<float>(float x) {
    return x;
}
template <> inline fp16 from_float<fp16>(float x) {
    return fp16{simt_to_fp16(x)};
}
template <> inline bf16 from_float<bf16>(float x) {
    return bf16{simt_to_bf16(x)};
}
template <class T> inline uint32_t pack2(float low, float high) {
    return from_float<T>(low).bits | (uint32_t)from_float<T>(high).bits << 16;
}
template <class T> inline float2 unpack2(uint32_t pair) {
    return float2{to_float(T{(uint16_t)pair}), to_float(T{(uint16_t)(pair >> 16)})};
}

inline void __syncthreads(SIMT_HERE) {
    simt_barrier(SIMT_PLACE);
}
inline void __syncwarp(unsigned = ~0u, SIMT_HERE) {
    simt_warp_barrier(SIMT_PLACE);
}

/* The value of lane `from(own lane)`; lanes outside of 0..31 and a broken site give the own. */
template <class T>
inline T simt_shuffle(const char *what, T value, int lane, int from, simt_place here) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves 8 bytes at most");
    uint64_t bits = 0;
    bool broken = false;
    memcpy(&bits, &value, sizeof value);
    const uint64_t *all = simt_exchange(what, bits, &broken, here);
    memcpy(&value, &all[from < 0 || from > 31 || broken ? lane : from], sizeof value);
    return value;
}
inline int simt_lane() {
    return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}
template <class T> inline T __shfl_sync(unsigned, T value, int lane, SIMT_HERE) {
    return simt_shuffle("__shfl_sync", value, simt_lane(), lane & 31, SIMT_PLACE);
}
template <class T> inline T __shfl_xor_sync(unsigned, T value, int mask, SIMT_HERE) {
    return simt_shuffle("__shfl_xor_sync", value, simt_lane(), simt_lane() ^ mask, SIMT_PLACE);
}
template <class T> inline T __shfl_down_sync(unsigned, T value, int by, SIMT_HERE) {
    return simt_shuffle("__shfl_down_sync", value, simt_lane(), simt_lane() + by, SIMT_PLACE);
}
template <class T> inline T __shfl_up_sync(unsigned, T value, int by, SIMT_HERE) {
    return simt_shuffle("__shfl_up_sync", value, simt_lane(), simt_lane() - by, SIMT_PLACE);
}
inline unsigned __ballot_sync(unsigned, bool vote, SIMT_HERE) {
    const uint64_t *all = simt_exchange("__ballot_sync", vote, nullptr, SIMT_PLACE);
    unsigned votes = 0;
    for (int i = 0; i < 32; i++)
        votes |= (unsigned)all[i] << i;
    return votes;
}
inline bool __any_sync(unsigned mask, bool vote, SIMT_HERE) {
    return __ballot_sync(mask, vote, file, line) != 0;
}
inline bool __all_sync(unsigned mask, bool vote, SIMT_HERE) {
    return __ballot_sync(mask, vote, file, line) == ~0u;
}

inline unsigned char *dynamic_shared() {
    return simt_dynamic();
}
inline uint4 load16(const void *p, SIMT_HERE) {
    uint4 value;
    simt_check16(p, "load16", SIMT_PLACE);
    memcpy(&value, p, sizeof value);
    return value;
}
inline void store16(void *p, uint4 value, SIMT_HERE) {
    simt_check16(p, "store16", SIMT_PLACE);
    memcpy(p, &value, sizeof value);
}
inline void cp_async16(void *to, const void *from, bool valid, SIMT_HERE) {
    simt_copy(to, from, valid, SIMT_PLACE);
}
inline void cp_async_commit() {
    simt_commit();
}
template <int N> inline void cp_async_wait(SIMT_HERE) {
    simt_wait(N, SIMT_PLACE);
}
inline void ldmatrix_x4(uint32_t *r, const void *row, SIMT_HERE) {
    simt_ldmatrix(r, row, 4, false, SIMT_PLACE);
}
inline void ldmatrix_x4_trans(uint32_t *r, const void *row, SIMT_HERE) {
    simt_ldmatrix(r, row, 4, true, SIMT_PLACE);
}
inline void ldmatrix_x2(uint32_t *r, const void *row, SIMT_HERE) {
    simt_ldmatrix(r, row, 2, false, SIMT_PLACE);
}
inline void ldmatrix_x2_trans(uint32_t *r, const void *row, SIMT_HERE) {
    simt_ldmatrix(r, row, 2, true, SIMT_PLACE);
}
template <class T> struct simt_is_bf16 { static const bool value = false; };
template <> struct simt_is_bf16<bf16> { static const bool value = true; };
template <class T>
inline void mma_m16n8k16(float *c, const uint32_t *a, const uint32_t *b, SIMT_HERE) {
    simt_mma(c, a, b, simt_is_bf16<T>::value, SIMT_PLACE);
}
inline void reconverge() {
}
inline float ex2_approx(float x) {
    return exp2f(x);
}

#endif
#endif
