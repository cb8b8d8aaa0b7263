/*
 * simt_samples: small kernels, right and wrong ones, that test the simulator itself.
 */
#ifndef TESTS_SIMT_SAMPLES_H
#define TESTS_SIMT_SAMPLES_H

#include "kernels/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum simt_sample {
    /* right: one block of 64 threads */
    SAMPLE_SUM,      /* out (64) = the sum of in (64), by shuffles and shared memory */
    SAMPLE_VOTES,    /* out (64): lane numbers by every shuffle, and votes */
    SAMPLE_REVERSED, /* out (64) = in backwards, through static shared memory */
    SAMPLE_COPY,     /* out (256) = in by cp_async, 16 bytes of 5 zeros: chunk 5 is not valid */
    /* wrong */
    SAMPLE_NO_BARRIER,       /* REVERSED without the barrier */
    SAMPLE_OVERWRITTEN,      /* a buffer's next contents before all have read the last ones */
    SAMPLE_WEAK_WAIT,        /* COPY that waits for one group too few */
    SAMPLE_NO_COMMIT,        /* COPY that closes no group */
    SAMPLE_UNSET,            /* out = shared memory that nobody wrote */
    SAMPLE_SPLIT_BARRIER,    /* half of the block at another barrier */
    SAMPLE_HALF_BARRIER,     /* a barrier that half of the block has left behind by returning */
    SAMPLE_SPLIT_WARP,       /* half of a warp at another shuffle */
    SAMPLE_HALF_WARP,        /* a shuffle that a lane has left behind by returning */
    SAMPLE_DEADLOCK,         /* one warp at a barrier, one lane of another waiting for its warp */
    SAMPLE_MISALIGNED,       /* store16 to an odd word */
    SAMPLE_MISALIGNED_INPUT, /* cp_async16 from an odd word */
    SAMPLE_OUTSIDE,          /* cp_async16 behind shared memory */
    SAMPLE_OUTSIDE_ROW,      /* ldmatrix of a row before it */
    SAMPLE_OUTSIDE_INPUT,    /* load16 behind the input */
    SAMPLE_BEHIND,           /* a plain write behind dynamic shared memory */
    SAMPLE_COUNT
};

/* in and out (256), on the device. */
enum status simt_sample(enum simt_sample sample, const float *in, float *out) MUST_CHECK;

/* c (16, 8) = a (16, 16) b (16, 8), fp32 in and out, 16-bit between; b is read transposed. */
enum status simt_sample_product(bool bf16_values, const float *a, const float *b,
                                float *c) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
