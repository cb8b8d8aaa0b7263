/*
 * mutants: the faults that tests plant in CUDA kernels, to see them caught.
 *
 * MUTANT(NAME, right, wrong) in a kernel (kernels/cuda.cuh) is `right`; in the simulator it is
 * `wrong` while simt_options.mutant is MUTANT_NAME. Faults of barriers, waits and shuffles need no
 * line here: the simulator breaks any of their sites (tests/simt.h).
 */
#ifndef TESTS_MUTANTS_H
#define TESTS_MUTANTS_H

/* clang-format off */

/* attention_cuda, in test_attention_cuda */
#define ATTENTION_MUTANTS(f) \
    f(KEY_TAIL, "one key behind the last is seen") \
    f(KEY_MASK, "keys behind the last are not masked") \
    f(LENGTHS, "lengths are not looked at") \
    f(VALUE_TAIL, "values behind the last key are not cleared") \
    f(MAXIMUM, "the greatest score is not subtracted") \
    f(RESCALE_SUM, "the sum is not rescaled when the maximum grows") \
    f(RESCALE_VALUES, "the result is not rescaled when the maximum grows") \
    f(SWIZZLE, "the swizzle does not undo itself") \
    f(RING, "the next keys go where this block's are") \
    f(SHIFT, "the window's shift goes the wrong way") \
    f(WINDOW_ORDER, "windows are counted down, not across") \
    f(REGION_BORDER, "the region's border is one slot late") \
    f(REGION_MASK, "regions are not kept apart") \
    f(BIAS_INDEX, "the bias is that of key and query swapped") \
    f(PREFIX_PAIR, "a token in front sees itself as it sees a patch") \
    f(PADDING, "padding slots are zeros though their key and value are given") \
    f(NORM_CLAMP, "the norm of a zero row is not clamped") \
    f(KEY_NORM, "keys are not normalised") \
    f(HEAD_COLUMN, "every head reads the values of the first") \
    f(PROBS_ROW, "padding's rows of probabilities are not zeros") \
    f(GREATEST, "the greatest score has another scale")

/* layernorm_cuda, tokens_cuda and activation_cuda, in test_rows_cuda */
#define ROW_MUTANTS(f) \
    f(MERGE_ORDER, "merged neighbours go row by row") \
    f(MERGE_BORDER, "beyond an odd border the next row is merged") \
    f(NORM_MEAN, "squares are taken without the mean") \
    f(NORM_EPS, "eps is left out") \
    f(PREFIX, "patches are counted from the first prefix token") \
    f(MEAN_COUNT, "the mean is over one token more") \
    f(PIXEL_REST, "what lies behind a pixel's colours is not zero") \
    f(FILTER_ORDER, "a filter's taps are taken with the colours inside") \
    f(CHANNEL_ORDER, "colours are taken as BGR") \
    f(GATE_BIAS, "both halves of SwiGLU get the first half's bias")

/* quantise_cuda and what activation_cuda makes of int8 products, in test_quantise_cuda */
#define INT8_MUTANTS(f) \
    f(QUANTISE_TAIL, "columns behind the last are quantised too") \
    f(QUANTISE_STEPS, "the greatest value of a row becomes 126") \
    f(ROW_SCALE, "every token gets the scale of the first") \
    f(GATE_SCALE, "both halves of SwiGLU get the first half's scales")

#define MUTANT_NAME(name, what) MUTANT_##name,
enum mutant {
    MUTANT_NONE,
    ATTENTION_MUTANTS(MUTANT_NAME)
    ROW_MUTANTS(MUTANT_NAME)
    INT8_MUTANTS(MUTANT_NAME)
    MUTANT_COUNT
};
#undef MUTANT_NAME
#define MUTANTS(f) ATTENTION_MUTANTS(f)

/* clang-format on */

#endif
