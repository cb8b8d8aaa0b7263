/*
 * attention_shapes: the shapes that the attention tests share, for the CPU and for CUDA, and
 * attention in double precision. Windows are done the long way: shift the map, pad it, cut windows,
 * attend, and undo it all.
 */
#ifndef TESTS_ATTENTION_SHAPES_H
#define TESTS_ATTENTION_SHAPES_H

#include "kernels/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* PATTERN_FULL. */
struct head_shape {
    int tq, tk, dim;
    int valid; /* keys after the cut by lengths */
    enum attention_score score;
    float scale; /* 0: 1/sqrt(D) */
    const char *why;
    int grid_h, grid_w, prefix; /* of a bias table: the keys are tokens in front and a map; or 0 */
};

#define NO_MAP 0, 0, 0

static const struct head_shape head_shapes[] = {
    {1, 1, 1, 1, SCORE_DOT, 0, "the least there is", NO_MAP},
    {197, 197, 64, 197, SCORE_DOT, 0, "ViT-B at 224", NO_MAP},
    {577, 577, 64, 577, SCORE_DOT, 0, "ViT-B at 384: three key blocks", NO_MAP},
    {49, 49, 32, 49, SCORE_DOT, 0, "a Swin window", NO_MAP},
    {65, 65, 32, 65, SCORE_DOT, 0, "the embedded models", NO_MAP},
    {257, 257, 80, 257, SCORE_DOT, 0, "ViT-H: a head of 80, two key blocks of 129 and 128", NO_MAP},
    {31, 31, 88, 31, SCORE_DOT, 0, "a head of 88", NO_MAP},
    {17, 17, 72, 17, SCORE_DOT, 0, "a head of 72", NO_MAP},
    {13, 47, 7, 47, SCORE_DOT, 0, "odd primes, a head below every vector", NO_MAP},
    {29, 11, 37, 11, SCORE_DOT, 0, "odd primes, more queries than keys", NO_MAP},
    {3, 67, 1, 67, SCORE_DOT, 0, "a head of 1", NO_MAP},
    {2, 5, 512, 5, SCORE_DOT, 0, "the widest head", NO_MAP},
    {1, 263, 19, 263, SCORE_DOT, 0, "one query, two blocks, odd", NO_MAP},
    {40, 1, 24, 1, SCORE_DOT, 0, "one key: y = v", NO_MAP},
    {20, 300, 16, 131, SCORE_DOT, 0, "lengths: 131 of 300 keys", NO_MAP},
    {20, 300, 16, 256, SCORE_DOT, 0, "lengths: a whole block of 300 keys", NO_MAP},
    {20, 60, 16, 0, SCORE_DOT, 0, "lengths: no key, zeros", NO_MAP},
    {49, 49, 32, 49, SCORE_COSINE, 10.0f, "Swin v2", NO_MAP},
    {64, 64, 32, 64, SCORE_COSINE, 100.0f, "Swin v2, the clamped temperature", NO_MAP},
    {23, 31, 13, 29, SCORE_COSINE, 3.0f, "cosine, odd, cut", NO_MAP},
    {197, 197, 64, 197, SCORE_DOT, 0, "BEiT-B at 224", 14, 14, 1},
    {577, 577, 32, 577, SCORE_DOT, 0, "BEiT at 384: three key blocks", 24, 24, 1},
    {1, 197, 64, 197, SCORE_DOT, 0, "BEiT, the class token alone", 14, 14, 1},
    {70, 70, 32, 70, SCORE_DOT, 0, "a bias without prefix tokens", 7, 10, 0},
    {23, 23, 13, 23, SCORE_COSINE, 3.0f, "a bias, cosine, two tokens in front", 3, 7, 2},
    {22, 22, 7, 15, SCORE_DOT, 0, "a bias, cut", 7, 3, 1},
    {40, 323, 16, 300, SCORE_DOT, 0, "a bias, two key blocks, cut", 17, 19, 0},
    {45, 45, 8, 45, SCORE_DOT, 0, "a bias over one row, more tokens in front than lanes", 1, 8, 37},
    {30, 31, 5, 31, SCORE_DOT, 0, "a bias over one column", 30, 1, 1},
    {5, 5, 16, 5, SCORE_DOT, 0, "a bias over one patch", 1, 1, 4},
};
#define HEAD_SHAPE_COUNT (sizeof head_shapes / sizeof head_shapes[0])

/* PATTERN_WINDOW. */
struct window_shape {
    int batch, grid_h, grid_w, window_h, window_w, shift_h, shift_w, heads, dim;
    float temperature; /* 0: SCORE_DOT */
    float bias;        /* the greatest entry of the table; 0: none */
    bool padding;      /* keys and values of padding slots are given */
    const char *why;
};

static const struct window_shape window_shapes[] = {
    {1, 1, 1, 1, 1, 0, 0, 1, 4, 0, 1, true, "the least there is"},
    {1, 14, 14, 7, 7, 0, 0, 3, 32, 0, 1, false, "Swin: N = 49"},
    {2, 14, 14, 7, 7, 3, 3, 2, 32, 0, 1, false, "Swin, shifted"},
    {2, 16, 16, 8, 8, 4, 4, 2, 32, 10, 16, false, "Swin v2: N = 64"},
    {1, 24, 12, 12, 12, 6, 0, 2, 32, 0, 1, false, "N = 144, more than one task a window"},
    {1, 16, 32, 16, 16, 0, 8, 1, 32, 100, 16, false, "N = 256, the clamped temperature"},
    {1, 18, 17, 17, 17, 8, 0, 1, 24, 0, 1, true, "N = 289: two key blocks, padded"},
    {2, 9, 9, 7, 7, 3, 3, 2, 32, 0, 1, true, "padded and shifted"},
    {2, 9, 10, 7, 7, 3, 3, 2, 32, 0, 1, false, "padded with zeros"},
    {1, 5, 11, 5, 3, 0, 1, 3, 7, 0, 1, true, "odd, a window of 5x3, a head of 7"},
    {1, 5, 11, 3, 5, 1, 2, 2, 24, 3, 4, true, "cosine, padded; a head of 24"},
    {1, 5, 11, 3, 5, 1, 2, 2, 24, 3, 4, false, "cosine, padded with zeros"},
    {3, 8, 8, 4, 4, 2, 2, 4, 24, 0, 0, false, "no bias: the embedded Swin's map"},
    {1, 13, 7, 7, 7, 3, 0, 1, 40, 0, 1, true, "shifted along one axis"},
    {1, 6, 6, 3, 3, 1, 1, 2, 16, 0, 1e4f, false, "a bias of 1e4"},
    {1, 5, 5, 3, 3, 1, 1, 2, 16, 100, 1e4f, true, "a bias of 1e4, temperature 100, padded"},
};
#define WINDOW_SHAPE_COUNT (sizeof window_shapes / sizeof window_shapes[0])

/* ---- double precision ------------------------------------------------------------------------ */

static inline double attention_dot(const float *a, const float *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static inline double attention_norm(const float *a, int n) {
    return fmax(sqrt(attention_dot(a, a, n)), 1e-12);
}

/* Entries of a head's bias table; 0: there is none. */
static inline size_t head_entries(const struct head_shape *s) {
    if (s->grid_h == 0) return 0;
    return (size_t)((2 * s->grid_h - 1) * (2 * s->grid_w - 1) + (s->prefix > 0 ? 3 : 0));
}

/* What is added to a pair's score. */
static inline double head_addend(const struct head_shape *s, int query, int key,
                                 const float *table) {
    const int rows = 2 * s->grid_h - 1, columns = 2 * s->grid_w - 1;
    const int a = query - s->prefix, b = key - s->prefix;
    if (s->grid_h == 0) return 0;
    if (a < 0 && b < 0) return (double)table[rows * columns + 2];
    if (a < 0) return (double)table[rows * columns];
    if (b < 0) return (double)table[rows * columns + 1];
    const int down = a / s->grid_w - b / s->grid_w, across = a % s->grid_w - b % s->grid_w;
    return (double)table[(down + rows / 2) * columns + across + columns / 2];
}

/*
 * One query: p (keys) = softmax(score + p), where p comes with what is added to the scores, and y
 * (dim) = p v. factor is the scale, or the temperature. No keys: y is zeros. Returns the greatest
 * score, -inf without keys.
 */
static inline double attention_reference(enum attention_score score, double factor, int keys,
                                         int dim, const float *q, const float *const *k,
                                         const float *const *v, double *p, double *y) {
    double greatest = -INFINITY, total = 0;
    for (int j = 0; j < keys; j++) {
        double s = factor * attention_dot(q, k[j], dim);
        if (score == SCORE_COSINE) s /= attention_norm(q, dim) * attention_norm(k[j], dim);
        p[j] += s;
        greatest = fmax(greatest, p[j]);
    }
    for (int j = 0; j < keys; j++)
        total += p[j] = exp(p[j] - greatest);
    for (int c = 0; c < dim; c++)
        y[c] = 0;
    for (int j = 0; j < keys; j++) {
        p[j] /= total;
        for (int c = 0; c < dim; c++)
            y[c] += p[j] * (double)v[j][c];
    }
    return greatest;
}

/* Whether scores are within tolerance * max(1, |want|), infinities the same; says what is not. */
static inline bool scores_close(const char *name, const float *got, const double *want, size_t n,
                                double tolerance) {
    for (size_t i = 0; i < n; i++) {
        if (isinf(want[i]) && (double)got[i] == want[i]) continue;
        if (fabs((double)got[i] - want[i]) <= tolerance * fmax(1, fabs(want[i]))) continue;
        if (name)
            printf("%s: greatest score %zu of %zu is %.9g, want %.9g\n", name, i, n, (double)got[i],
                   want[i]);
        return false;
    }
    return true;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* One slot of the shifted and padded map. */
struct map_slot {
    int y, x, token; /* on the padded map; -1: padding */
};

static inline struct map_slot map_slot_of(const struct window_shape *s, int window, int slot) {
    int across = (s->grid_w + s->window_w - 1) / s->window_w;
    struct map_slot at = {window / across * s->window_h + slot / s->window_w,
                          window % across * s->window_w + slot % s->window_w, -1};
    if (at.y < s->grid_h && at.x < s->grid_w)
        at.token = (at.y + s->shift_h) % s->grid_h * s->grid_w + (at.x + s->shift_w) % s->grid_w;
    return at;
}

/* Which of the three strips along an axis with a shift. */
static inline int map_strip(int at, int window, int shift, int length) {
    int padded = (length + window - 1) / window * window;
    return shift == 0 ? 0 : (at >= padded - window) + (at >= padded - shift);
}

/* What is added to a pair's score: the mask where strips part them, and the table's entry. */
static inline double map_addend(const struct window_shape *s, struct map_slot a, struct map_slot b,
                                const float *table) {
    int row = (a.y - b.y + s->window_h - 1) * (2 * s->window_w - 1) + a.x - b.x + s->window_w - 1;
    bool apart = map_strip(a.y, s->window_h, s->shift_h, s->grid_h) !=
                     map_strip(b.y, s->window_h, s->shift_h, s->grid_h) ||
                 map_strip(a.x, s->window_w, s->shift_w, s->grid_w) !=
                     map_strip(b.x, s->window_w, s->shift_w, s->grid_w);
    return (table ? (double)table[row] : 0) - (apart ? 100 : 0);
}

#endif
