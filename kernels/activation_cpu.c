/*
 * activation_cpu: the activations of ops.h over plain arrays, and the addition of two.
 *
 * The formulas are in simd.h, where the product's epilogue takes them too. Every float is computed
 * by itself, so any split of an array gives the same bits. Called by op_linear and op_assemble of
 * cpu.c.
 */
#include "kernels/simd.h"
#include "kernels/simd_kernels.h"

#define IN_PLACE(function)                                                                         \
    do {                                                                                           \
        size_t i_ = 0;                                                                             \
        for (; i_ + VL <= n; i_ += VL)                                                             \
            vf_store(x + i_, function(vf_load(x + i_)));                                           \
        if (i_ < n) {                                                                              \
            int rest_ = (int)(n - i_);                                                             \
            vf_store_n(x + i_, function(vf_load_n(x + i_, rest_)), rest_);                         \
        }                                                                                          \
    } while (0)

void SIMD(activate)(enum epilogue epilogue, float *x, size_t n) {
    switch (epilogue) {
    case EPILOGUE_GELU: IN_PLACE(vf_gelu); break;
    case EPILOGUE_GELU_TANH: IN_PLACE(vf_gelu_tanh); break;
    case EPILOGUE_QUICK_GELU: IN_PLACE(vf_quick_gelu); break;
    case EPILOGUE_NONE:
    case EPILOGUE_SWIGLU: break; /* takes two arrays: swiglu() */
    }
}

void SIMD(swiglu)(const float *a, const float *b, float *y, size_t n) {
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_silu(vf_load(a + i)) * vf_load(b + i));
    if (i < n) {
        int rest = (int)(n - i);
        vf_store_n(y + i, vf_silu(vf_load_n(a + i, rest)) * vf_load_n(b + i, rest), rest);
    }
}

void SIMD(add)(const float *a, const float *b, float *y, size_t n) {
    size_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_load(a + i) + vf_load(b + i));
    if (i < n) {
        int rest = (int)(n - i);
        vf_store_n(y + i, vf_load_n(a + i, rest) + vf_load_n(b + i, rest), rest);
    }
}
