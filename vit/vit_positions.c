/*
 * vit_positions: learned position embeddings resampled to another grid, by the rule of the model's
 * origin.
 *
 *   src (from_h*from_w, C) -> tmp (from_h*to_w, C) -> dst (to_h*to_w, C)
 *
 * Every rule is separable: an output cell is a weighted sum of a few source cells of its row, then
 * of its column. An axis is a table of those indices and weights; the six rules differ only in
 * that table. Called by vit_load when the run's grid is not the stored one. Arithmetic as in torch
 * (aten/native/cpu/UpSampleKernel.cpp, UpSample.h): fp32, the multiply-adds fused as its builds
 * fuse them; without that, positions and weights are off by 3e-6.
 */
#include "vit/vit.h"

#include <math.h>
#include <string.h>

/* Output cell i = sum over t < taps of weight[i*taps + t] * source[index[i*taps + t]]. */
struct axis {
    int length, taps;
    int *index;    /* (length, taps), in range; unused taps are index 0, weight 0 */
    float *weight; /* (length, taps) */
};

/* Keys' cubic kernel; a = -0.75: torch's plain bicubic; -0.5: Pillow's, torch's with antialias. */
static float cubic(float x, float a) {
    x = fabsf(x);
    if (x < 1.0f) return fmaf(fmaf(a + 2.0f, x, -(a + 3.0f)) * x, x, 1.0f);
    if (x < 2.0f) return fmaf(fmaf(fmaf(a, x, -5.0f * a), x, 8.0f * a), x, -4.0f * a);
    return 0.0f;
}

/* Source cells per output cell. */
static float axis_step(int from, int to, enum resample rule) {
    switch (rule) {
    case RESAMPLE_BICUBIC_ALIGN_CORNERS:
    case RESAMPLE_LINEAR_ALIGN_CORNERS: return to > 1 ? (float)(from - 1) / (float)(to - 1) : 0.0f;
    case RESAMPLE_BICUBIC_OFFSET: /* dinov2's scale_factor (to + 0.1)/from, inverted */
        return (float)(1.0 / (((double)to + 0.1) / (double)from));
    default: return (float)from / (float)to;
    }
}

/* Where output cell i lies in the source, counted from the centre of source cell 0. */
static float axis_position(float step, int i, enum resample rule) {
    bool corners = rule == RESAMPLE_BICUBIC_ALIGN_CORNERS || rule == RESAMPLE_LINEAR_ALIGN_CORNERS;
    return corners ? step * (float)i : fmaf(step, (float)i + 0.5f, -0.5f);
}

static int clamp(int i, int lo, int hi) {
    return i < lo ? lo : i > hi ? hi : i;
}

/* Four taps around the position, indices clamped to the edge, no renormalisation. */
static void axis_cubic(struct axis *axis, int from, float step, enum resample rule) {
    for (int i = 0; i < axis->length; i++) {
        float x = axis_position(step, i, rule);
        int first = clamp((int)floorf(x), -1, from - 1);
        float t = fminf(fmaxf(x - (float)first, 0.0f), 1.0f);
        for (int j = 0; j < 4; j++) {
            axis->index[4 * i + j] = clamp(first - 1 + j, 0, from - 1);
            axis->weight[4 * i + j] = cubic(t + 1.0f - (float)j, -0.75f);
        }
    }
}

static void axis_linear(struct axis *axis, int from, float step, enum resample rule) {
    for (int i = 0; i < axis->length; i++) {
        float x = fmaxf(axis_position(step, i, rule), 0.0f);
        int first = clamp((int)x, 0, from - 1);
        float t = fminf(fmaxf(x - (float)first, 0.0f), 1.0f);
        axis->index[2 * i] = first;
        axis->index[2 * i + 1] = clamp(first + 1, 0, from - 1);
        axis->weight[2 * i] = 1.0f - t;
        axis->weight[2 * i + 1] = t;
    }
}

/* Half the antialiased kernel's width in source cells: it widens when shrinking. */
static float antialias_support(float step) {
    return step >= 1.0f ? 2.0f * step : 2.0f;
}

static int antialias_taps(int from, int to) {
    return 2 * (int)ceilf(antialias_support(axis_step(from, to, RESAMPLE_BICUBIC_ANTIALIAS))) + 1;
}

/* The kernel stretched by the step, cut at the edges, and normalised to sum 1. */
static void axis_antialias(struct axis *axis, int from, float step) {
    float support = antialias_support(step), inverse = step >= 1.0f ? 1.0f / step : 1.0f;
    for (int i = 0; i < axis->length; i++) {
        int *index = axis->index + (size_t)i * (size_t)axis->taps;     /* (taps) */
        float *weight = axis->weight + (size_t)i * (size_t)axis->taps; /* (taps) */
        float center = step * ((float)i + 0.5f), total = 0.0f;
        int first = clamp((int)(center - support + 0.5f), 0, from);
        int count = clamp((int)(center + support + 0.5f), 0, from) - first;
        count = clamp(count, 0, axis->taps);
        for (int j = 0; j < count; j++) {
            index[j] = first + j;
            weight[j] = cubic(((float)(first + j) - center + 0.5f) * inverse, -0.5f);
            total += weight[j];
        }
        for (int j = 0; j < count; j++)
            weight[j] /= total;
    }
}

static void axis_release(struct axis *axis) {
    mem_free(axis->index);
    mem_free(axis->weight);
    *axis = (struct axis){0};
}

static enum status axis_init(struct axis *axis, int from, int to, enum resample rule) {
    float step = axis_step(from, to, rule);
    size_t cells;
    axis->length = to;
    axis->taps = rule == RESAMPLE_BICUBIC_ANTIALIAS ? antialias_taps(from, to)
                 : rule == RESAMPLE_BILINEAR || rule == RESAMPLE_LINEAR_ALIGN_CORNERS ? 2
                                                                                      : 4;
    if (!size_mul((size_t)to, (size_t)axis->taps, &cells))
        return fail(ST_NOMEM, "positions: a grid of %d cells is too large", to);
    axis->index = mem_zalloc(cells, sizeof *axis->index);
    axis->weight = mem_zalloc(cells, sizeof *axis->weight);
    if (!axis->index || !axis->weight) return ST_NOMEM;
    if (rule == RESAMPLE_BICUBIC_ANTIALIAS)
        axis_antialias(axis, from, step);
    else if (axis->taps == 2)
        axis_linear(axis, from, step, rule);
    else
        axis_cubic(axis, from, step, rule);
    return ST_OK;
}

/*
 * One axis of `outer` independent lines: a line of src is (from, inner), of dst (axis->length,
 * inner). `inner` is what lies behind the axis: the channels for columns, whole rows for rows.
 */
static void axis_apply(const struct axis *axis, const float *src, int from, float *dst,
                       size_t outer, size_t inner) {
    memset(dst, 0, outer * (size_t)axis->length * inner * sizeof *dst);
    for (size_t line = 0; line < outer; line++) {
        const float *in = src + line * (size_t)from * inner; /* (from, inner) */
        for (int i = 0; i < axis->length; i++) {
            float *out = dst + (line * (size_t)axis->length + (size_t)i) * inner; /* (inner) */
            for (int j = 0; j < axis->taps; j++) {
                size_t tap = (size_t)i * (size_t)axis->taps + (size_t)j;
                const float *cell = in + (size_t)axis->index[tap] * inner; /* (inner) */
                float w = axis->weight[tap];
                for (size_t c = 0; c < inner; c++)
                    out[c] += w * cell[c];
            }
        }
    }
}

enum status vit_resample_positions(const float *src, int from_h, int from_w, float *dst, int to_h,
                                   int to_w, int channels, enum resample rule) {
    struct axis rows = {0}, columns = {0};
    size_t row_size, tmp_size; /* numbers in a row of tmp, in tmp */
    float *tmp = NULL;         /* (from_h, to_w, channels) */
    enum status st;

    if (!size_mul((size_t)to_w, (size_t)channels, &row_size) ||
        !size_mul((size_t)from_h, row_size, &tmp_size))
        return fail(ST_NOMEM, "positions: a grid of %dx%d is too large", to_h, to_w);
    if (from_h == to_h && from_w == to_w) {
        memcpy(dst, src, tmp_size * sizeof *dst);
        return ST_OK;
    }
    TRY_OUT(axis_init(&rows, from_h, to_h, rule));
    TRY_OUT(axis_init(&columns, from_w, to_w, rule));
    tmp = mem_zalloc(tmp_size, sizeof *tmp);
    if (!tmp) {
        st = ST_NOMEM;
        goto out;
    }
    axis_apply(&columns, src, from_w, tmp, (size_t)from_h, (size_t)channels);
    axis_apply(&rows, tmp, from_h, dst, 1, row_size);
out:
    mem_free(tmp);
    axis_release(&columns);
    axis_release(&rows);
    return st;
}
