/* relative: see relative.h. Called by swin_load and vit_load, once a table. */
#include "kernels/relative.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

enum status relative_resample(const float *src, int from_h, int from_w, float *dst, int to_h,
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
