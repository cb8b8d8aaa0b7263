/*
 * swin_tables: version 2's bias tables for the window that is run: computed once, at load, by a
 * small MLP from the offsets' coordinates. Called by swin_load. Layout: kernels/relative.h.
 */
#include "swin/swin.h"

#include <math.h>

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
