/*
 * cuda: what every .cu file is written over: the types and their conversions, launching, shared
 * memory, and each PTX instruction behind a function of its name.
 *
 * With -DSIMT the same names come from tests/simt.h and the C++ compiler makes of a kernel file
 * something that runs on the CPU. A kernel file therefore uses only what is here or there: no
 * asm, no <<<>>>, no half intrinsics; __syncthreads, __syncwarp, __shfl*_sync and __ballot_sync are
 * in both. Before sm_80 the copies and products fall back to what Turing has.
 *
 * Warp collectives take all 32 lanes. Fragments of mma_m16n8k16 (PTX ISA, "mma.m16n8k16"), lane =
 * 4g + t: a[0], a[1] = rows g, g+8 of columns 2t, 2t+1; a[2], a[3] the same of columns 2t+8, 2t+9;
 * b[0], b[1] = rows 2t, 2t+1 and 2t+8, 2t+9 of column g; c[0], c[1] = row g, c[2], c[3] = row g+8
 * of columns 2t, 2t+1.
 */
#ifndef KERNELS_CUDA_CUH
#define KERNELS_CUDA_CUH

#include "kernels/cuda_kernels.h"

#if defined(SIMT)
#include "tests/simt.h"
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define DEVICE                     __device__ __forceinline__
#define UNROLL                     _Pragma("unroll")
#define NO_UNROLL                  _Pragma("unroll 1") /* for what would only take registers */
/* A static shared array. */
#define SHARED(type, name, count)  __shared__ __align__(16) type name[count]
/* What tests plant (tests/mutants.h); here it is what it should be. */
#define MUTANT(name, right, wrong) (right)

typedef __half fp16;
typedef __nv_bfloat16 bf16;

/* ---- the host's side ------------------------------------------------------------------------- */

/* Shared memory of the current device, bytes: the most of a block, and what an SM has. */
static inline size_t device_attribute(enum cudaDeviceAttr attribute, size_t fallback) {
    int device = 0, value = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess)
        return fallback;
    return (size_t)value;
}
static inline size_t shared_of_block(void) {
    return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 48 * 1024);
}
static inline size_t shared_of_sm(void) {
    return device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, 64 * 1024);
}
/* Whether the tensor cores take bf16: from sm_80 on. */
static inline bool has_bf16_mma(void) {
    return device_attribute(cudaDevAttrComputeCapabilityMajor, 0) >= 8;
}

/*
 * Every launch goes through here: kernel(arguments...) on `grid` blocks of `threads` threads with
 * `shared` bytes of dynamic shared memory. ST_DEVICE: refused; `name` begins the sentence.
 */
template <class... P, class... A>
static inline enum status launch(const char *name, void (*kernel)(P...), dim3 grid, int threads,
                                 size_t shared, void *stream, const A &...arguments) {
    cudaError_t error = cudaSuccess;
    if (shared > 48 * 1024)
        error = cudaFuncSetAttribute((const void *)kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error == cudaSuccess) {
        kernel<<<grid, (unsigned)threads, shared, (cudaStream_t)stream>>>(arguments...);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess) return ST_OK;
    return fail(ST_DEVICE, "%s: %s", name, cudaGetErrorString(error));
}

/* ---- types ----------------------------------------------------------------------------------- */

DEVICE float to_float(float x) {
    return x;
}
DEVICE float to_float(fp16 x) {
    return __half2float(x);
}
DEVICE float to_float(bf16 x) {
    return __bfloat162float(x);
}

/* To the nearest, ties to even. */
template <class T> DEVICE T from_float(float x);
template <> DEVICE float from_float<float>(float x) {
    return x;
}
template <> DEVICE fp16 from_float<fp16>(float x) {
    return __float2half_rn(x);
}
template <> DEVICE bf16 from_float<bf16>(float x) {
    return __float2bfloat16_rn(x);
}

/* Two of T in one register, the first in the low half. */
template <class T> DEVICE uint32_t pack2(float low, float high);
template <> DEVICE uint32_t pack2<fp16>(float low, float high) {
    __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&pair);
}
template <> DEVICE uint32_t pack2<bf16>(float low, float high) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<uint32_t *>(&pair);
}
template <class T> DEVICE float2 unpack2(uint32_t pair);
template <> DEVICE float2 unpack2<fp16>(uint32_t pair) {
    return __half22float2(*reinterpret_cast<__half2 *>(&pair));
}
template <> DEVICE float2 unpack2<bf16>(uint32_t pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The block's dynamic shared memory, 128-byte aligned. */
DEVICE unsigned char *dynamic_shared() {
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    return shared_bytes;
}

/* 16 bytes of global or shared memory, 16-byte aligned. */
DEVICE uint4 load16(const void *p) {
    return *static_cast<const uint4 *>(p);
}
DEVICE void store16(void *p, uint4 value) {
    *static_cast<uint4 *>(p) = value;
}

DEVICE uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* 16 bytes from global to shared memory, both aligned; zeros where not `valid`. */
DEVICE void cp_async16(void *to, const void *from, bool valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
#else
    store16(to, valid ? load16(from) : make_uint4(0, 0, 0, 0));
#endif
}

/* Closes this thread's group of copies. */
DEVICE void cp_async_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Until at most N of this thread's groups are under way; others see the data after a barrier. */
template <int N> DEVICE void cp_async_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/*
 * 8x8 matrices of 16-bit elements from shared memory: lanes 8i to 8i+7 name the 16-byte rows of
 * matrix i (x2 looks at lanes 0 to 15). r[i] = elements 2t, 2t+1 of row g; trans: rows 2t, 2t+1 of
 * column g.
 */
DEVICE void ldmatrix_x4(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
DEVICE void ldmatrix_x4_trans(uint32_t r[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}
DEVICE void ldmatrix_x2(uint32_t r[2], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}
DEVICE void ldmatrix_x2_trans(uint32_t r[2], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(row))
                 : "memory");
}

/*
 * Brings a warp's lanes together again behind code that they leave at different times, as ldmatrix
 * and mma want them; not a barrier for memory.
 */
DEVICE void reconverge() {
    __syncwarp();
}

/* 2^x, two ulp; subnormal results are 0. */
DEVICE float ex2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif

/* ---- products -------------------------------------------------------------------------------- */

DEVICE int lane_of_warp() {
    return (int)threadIdx.x % 32;
}

/* c (16, 8) += a (16, 16) b (16, 8), fp32 sums; T is fp16, or bf16 where has_bf16_mma(). */
#if !defined(SIMT)
template <class T> DEVICE void mma_m16n8k16(float c[4], const uint32_t a[4], const uint32_t b[2]);

template <> DEVICE void mma_m16n8k16<fp16>(float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    UNROLL for (int i = 0; i < 2; i++) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
    }
#endif
}

template <> DEVICE void mma_m16n8k16<bf16>(float c[4], const uint32_t a[4], const uint32_t b[2]) {
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    (void)c, (void)a, (void)b;
    __trap();
#endif
}
#endif

#endif
