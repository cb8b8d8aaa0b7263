/*
 * swin_tables: the bias tables of windowed attention for the window that is run. Version 1's are
 * stored and resampled, version 2's are computed by a small MLP from the offsets' coordinates; both
 * once, at load. Called by swin_load. Table layouts: row-major over (dy, dx), from -(M-1) to M-1.
 */
#include "swin/swin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- version 1: resampling ------------------------------------------------------------------- */

/* Where a target offset lies between two stored ones: (1 - share) * low + share * high. */
struct tap {
    int low, high;
    double share;
};

/* The ratio q whose progression 1 + q + ... of `from`-1 terms reaches `to`-1: timm's bisection. */
static double spread_ratio(int from, int to) {
    double left = 1.01, right = 1.5, q = left;
    while (right - left > 1e-6) {
        q = (left + right) / 2;
        if ((1 - pow(q, from - 1)) / (1 - q) > to - 1)
            right = q;
        else
            left = q;
    }
    return q;
}

/* One axis: taps (2*to-1). `at` (from): the stored offset k lies at +-at[k]; scratch. */
static void axis_taps(int from, int to, double *at, struct tap *taps) {
    const double q = spread_ratio(from, to);
    double step = 1;
    at[0] = 0;
    for (int k = 1; k < from; k++, step *= q)
        at[k] = at[k - 1] + step;
    for (int d = -(to - 1); d < to; d++) {
        struct tap *tap = &taps[d + to - 1];
        const int sign = d < 0 ? -1 : 1;
        int k = 0; /* at[k] <= |d| < at[k+1]; beyond the last one its value stands */
        while (k + 1 < from && at[k + 1] <= abs(d))
            k++;
        tap->low = from - 1 + sign * k;
        tap->high = k + 1 < from ? tap->low + sign : tap->low;
        tap->share = k + 1 < from ? (abs(d) - at[k]) / (at[k + 1] - at[k]) : 0;
    }
}

enum status swin_resample_table(const float *src, int from_h, int from_w, float *dst, int to_h,
                                int to_w, int heads) {
    const int height = 2 * to_h - 1, width = 2 * to_w - 1, stride = 2 * from_w - 1;
    const size_t H = (size_t)heads;
    struct tap *taps;
    double *at;
    if (from_h == to_h && from_w == to_w) {
        memcpy(dst, src, (size_t)height * (size_t)width * H * sizeof *dst);
        return ST_OK;
    }
    taps = mem_zalloc((size_t)height + (size_t)width, sizeof *taps);
    at = mem_zalloc((size_t)(from_h > from_w ? from_h : from_w), sizeof *at);
    if (taps && at) { /* an axis that keeps its length is spread too, as timm does */
        axis_taps(from_h, to_h, at, taps);
        axis_taps(from_w, to_w, at, taps + height);
    }
    for (int y = 0; taps && at && y < height; y++) {
        for (int x = 0; x < width; x++) {
            const struct tap *v = &taps[y], *u = &taps[height + x];
            const float *ll = src + ((size_t)v->low * (size_t)stride + (size_t)u->low) * H,
                        *lh = src + ((size_t)v->low * (size_t)stride + (size_t)u->high) * H,
                        *hl = src + ((size_t)v->high * (size_t)stride + (size_t)u->low) * H,
                        *hh = src + ((size_t)v->high * (size_t)stride + (size_t)u->high) * H;
            for (size_t h = 0; h < H; h++)
                *dst++ = (float)((1 - v->share) * ((1 - u->share) * ll[h] + u->share * lh[h]) +
                                 v->share * ((1 - u->share) * hl[h] + u->share * hh[h]));
        }
    }
    mem_free(taps);
    mem_free(at);
    return taps && at ? ST_OK : ST_NOMEM;
}

/* ---- version 2: the continuous position bias ------------------------------------------------- */

double swin_coordinate(int offset, int window) {
    const double t = 8.0 * offset / (window > 1 ? window - 1 : 1);
    return copysign(log2(fabs(t) + 1) / 3, t); /* 3 = log2(8) */
}

/* a . b over SWIN_CPB_HIDDEN, in eight partial sums that a compiler may keep side by side. */
static double hidden_dot(const float *a, const double *b) {
    double sums[8] = {0}, sum = 0;
    for (int k = 0; k < SWIN_CPB_HIDDEN; k += 8)
        for (int j = 0; j < 8; j++)
            sums[j] += (double)a[k + j] * b[k + j];
    for (int j = 0; j < 8; j++)
        sum += sums[j];
    return sum;
}

void swin_position_bias(const float *w1, const float *b1, const float *w2, int window_h,
                        int window_w, int pretrained, int heads, float *bias) {
    const int height = 2 * window_h - 1, width = 2 * window_w - 1;
    double hidden[SWIN_CPB_HIDDEN];
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            const double cy =
                swin_coordinate(y - (window_h - 1), pretrained ? pretrained : window_h);
            const double cx =
                swin_coordinate(x - (window_w - 1), pretrained ? pretrained : window_w);
            for (int k = 0; k < SWIN_CPB_HIDDEN; k++) {
                const double sum =
                    (double)w1[2 * k] * cy + (double)w1[2 * k + 1] * cx + (double)b1[k];
                hidden[k] = sum < 0 ? 0 : sum; /* a NaN stays */
            }
            for (int h = 0; h < heads; h++) {
                const size_t at = ((size_t)h * (size_t)height + (size_t)y) * (size_t)width;
                bias[at + (size_t)x] =
                    (float)(16 / (1 + exp(-hidden_dot(w2 + (size_t)h * SWIN_CPB_HIDDEN, hidden))));
            }
        }
    }
}
