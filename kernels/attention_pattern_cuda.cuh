/*
 * attention_pattern_cuda: what the attention kernels know of a pattern, in this one place: which
 * row of memory a slot stands for, which keys a query sees, which key blocks a tile of rows visits,
 * and what is added to a pair's score.
 *
 * A problem is what one softmax stays inside of: an image, or with PATTERN_WINDOW a window of it.
 * Its queries and keys are slots, numbered from 0. The kernels loop
 *     for (b = next_block(0); b < blocks; b = next_block(b + 1))
 *         scores of block b, + pair_addend(), -inf where not sees() (unless sees_all())
 * so that a pattern which sees fewer keys changes the functions below, and nothing else.
 */
#ifndef KERNELS_ATTENTION_PATTERN_CUDA_CUH
#define KERNELS_ATTENTION_PATTERN_CUDA_CUH

#include "kernels/cuda.cuh"
#include "kernels/relative.h"
#include "kernels/windows.h"

#include <math.h>

enum { SLOT_PADDING = -1, SLOT_NONE = -2 };

struct slot {
    int token;  /* the row of q, k, v and y; SLOT_PADDING; SLOT_NONE: behind the last */
    int place;  /* y*(2w-1) + x in the bias' map: a pair's entry is at centre + query - key */
    int region; /* WINDOW: 0 to 8, as window_regions(); FULL: 1 in front of the map */
};

/* The first slots of an axis' regions 1 and 2. */
struct axis_borders {
    int first, second;
};

struct pattern {
    enum attention_pattern kind;
    int queries, keys;  /* Tq, Tk; N, N */
    const int *lengths; /* device (B): valid keys; or NULL */
    int windows;        /* problems of an image, 1 without windows */
    int across;         /* of them side by side */
    struct window_grid grid;
    struct axis_borders rows, columns;
    bool pairs;          /* something is added to a pair's score */
    int map_w, prefix;   /* of the bias: relative.h */
    int entries, centre; /* of a head's table; of a slot and itself */
    float mask;
};

static inline struct axis_borders borders_of(int window, int shift, int length) {
    int padded = (length + window - 1) / window * window;
    struct axis_borders borders = {padded, padded};
    if (shift > 0) {
        borders.first = padded - window;
        borders.second = padded - shift;
    }
    return borders;
}

static inline void bias_of(struct pattern *p, int map_h, int map_w, int prefix) {
    p->pairs = true;
    p->map_w = map_w;
    p->prefix = prefix;
    p->entries = relative_entries(map_h, map_w, prefix);
    p->centre = relative_index(map_h, map_w, 0, 0, 0);
}

static inline enum status pattern_of(const struct cuda_attention *call, struct pattern *p) {
    static const char *const names[] = {"full",  "window", "causal",
                                        "local", "axial",  "global+local"};
    const struct attention *desc = call->desc;
    if (desc->pattern != PATTERN_FULL && desc->pattern != PATTERN_WINDOW)
        return fail(ST_DEVICE, "the cuda backend has no %s pattern yet", names[desc->pattern]);
    *p = pattern();
    p->kind = desc->pattern;
    p->queries = call->q.tokens;
    p->keys = call->k.tokens;
    p->lengths = call->lengths;
    p->windows = p->across = 1;
    if (call->bias != NULL) bias_of(p, desc->grid_h, desc->grid_w, desc->prefix);
    if (desc->pattern != PATTERN_WINDOW) return ST_OK;
    p->grid.grid_h = desc->grid_h;
    p->grid.grid_w = desc->grid_w;
    p->grid.window_h = desc->window_h;
    p->grid.window_w = desc->window_w;
    p->grid.shift_h = desc->shift_h;
    p->grid.shift_w = desc->shift_w;
    p->lengths = NULL;
    p->queries = p->keys = window_slots(&p->grid);
    p->windows = window_count(&p->grid);
    p->across = (desc->grid_w + desc->window_w - 1) / desc->window_w;
    p->rows = borders_of(desc->window_h, desc->shift_h, desc->grid_h);
    p->columns = borders_of(desc->window_w, desc->shift_w, desc->grid_w);
    bias_of(p, desc->window_h, desc->window_w, 0);
    p->mask = desc->mask_value;
    return ST_OK;
}

DEVICE int axis_region(int at, struct axis_borders borders) {
    return (at >= borders.first + MUTANT(REGION_BORDER, 0, 1)) + (at >= borders.second);
}

/* Slot `index` of `count` of a problem's. */
DEVICE struct slot slot_of(const struct pattern &p, int window, int index, int count) {
    struct slot slot = {index, 0, 0};
    if (index >= count) slot.token = SLOT_NONE;
    if (index >= count || !p.pairs) return slot;
    slot.region = index < p.prefix;
    if (index < p.prefix) return slot;
    int y = (index - p.prefix) / p.map_w, x = (index - p.prefix) % p.map_w;
    slot.place = y * (2 * p.map_w - 1) + x;
    if (p.kind != PATTERN_WINDOW) return slot;
    const struct window_grid &g = p.grid;
    int down = window / p.across, across = window % p.across;
    if (MUTANT(WINDOW_ORDER, false, true)) {
        int rows = p.windows / p.across;
        down = window % rows;
        across = window / rows;
    }
    y += down * g.window_h;
    x += across * g.window_w;
    slot.region = 3 * axis_region(y, p.rows) + axis_region(x, p.columns);
    if (y >= g.grid_h || x >= g.grid_w) {
        slot.token = SLOT_PADDING;
        return slot;
    }
    y = MUTANT(SHIFT, y + g.shift_h, y + g.window_h * g.grid_h - g.shift_h) % g.grid_h;
    x = (x + g.shift_w) % g.grid_w;
    slot.token = y * g.grid_w + x;
    return slot;
}

/* The keys that an image's queries may see. */
DEVICE int keys_of(const struct pattern &p, int image) {
    return MUTANT(LENGTHS, p.lengths != NULL, false) ? p.lengths[image] : p.keys;
}

/* The first key block from `block` on, of `size` keys, that one of the rows sees a key of. */
DEVICE int next_block(const struct pattern &p, int row, int rows, int size, int block) {
    (void)p, (void)row, (void)rows, (void)size;
    return block;
}

/* Whether every one of the rows sees all of the keys [first, last), of which there are `keys`. */
DEVICE bool sees_all(const struct pattern &p, int keys, int row, int rows, int first, int last) {
    (void)p, (void)row, (void)rows, (void)first;
    return MUTANT(KEY_MASK, last <= keys, true);
}

DEVICE bool sees(const struct pattern &p, int keys, int query, int key) {
    (void)p, (void)query;
    return key < keys + MUTANT(KEY_TAIL, 0, 1);
}

/*
 * What is added to a pair's score, where pattern.pairs: window_addend for windows (the tensor core
 * kernel takes nothing else), pair_addend for these and for maps. A tag is a slot's place and
 * region in one number; bias: of the head (entries), NULL = none (windows alone).
 */
DEVICE int tag_of(const struct slot &slot) {
    return slot.place * 16 + slot.region;
}
DEVICE float window_addend(const struct pattern &p, const float *bias, int query_tag, int key_tag) {
    int from = MUTANT(BIAS_INDEX, query_tag, key_tag), to = MUTANT(BIAS_INDEX, key_tag, query_tag);
    float x = bias != NULL ? bias[p.centre + (from >> 4) - (to >> 4)] : 0.0f;
    return x + (MUTANT(REGION_MASK, (query_tag ^ key_tag) & 15, 0) ? p.mask : 0.0f);
}
DEVICE float pair_addend(const struct pattern &p, const float *bias, int query_tag, int key_tag) {
    /* 1, 2, 3: from, to, between prefix tokens, in the order of the last three entries */
    int extra = (query_tag & 1) + (key_tag & 1) * MUTANT(PREFIX_PAIR, 2, 1);
    if (p.kind == PATTERN_WINDOW || extra == 0) return window_addend(p, bias, query_tag, key_tag);
    return bias[p.entries - RELATIVE_EXTRA - 1 + extra];
}

/* ---- what every attention kernel takes ------------------------------------------------------- */

struct attention_call {
    struct pattern pattern;
    struct cuda_view q, k, v, y; /* (B, T, H*D) */
    int heads, dim;
    float scale;
    const float *temperature; /* (H): SCORE_COSINE; NULL: SCORE_DOT */
    const float *bias;        /* (H, entries) or NULL */
    const float *padding;     /* (2, H*D) or NULL */
    float *probs;             /* (problems, H, queries, keys) or NULL */
    float *greatest;          /* (problems, H, queries) or NULL; with probs alone */
    bool wide_in, wide_out;   /* 8 columns of q, k and v, of y, are 16 aligned bytes */
};

/* Image, head and window of a block of threads, and their rows of memory. */
template <class T> struct attention_head {
    int window, head;
    int keys;           /* after the cut by lengths */
    const T *q, *k, *v; /* token 0, the head's first column */
    T *y;
    const float *pad_k, *pad_v; /* (D) of a padding slot, or NULL: zeros */
    const float *bias;          /* (entries) or NULL */
    float *probs;               /* (queries, keys of the pattern) or NULL */
    float *greatest;            /* (queries) or NULL */
};

template <class T>
DEVICE struct attention_head<T> head_of(const struct attention_call &a, int problem, int head) {
    struct attention_head<T> h;
    int image = problem / a.pattern.windows, width = a.heads * a.dim;
    size_t column = (size_t)head * a.dim, row = (size_t)problem * a.heads + head;
    h.window = problem % a.pattern.windows;
    h.head = head;
    h.keys = keys_of(a.pattern, image);
    h.q = static_cast<const T *>(a.q.data) + image * a.q.stride + column;
    h.k = static_cast<const T *>(a.k.data) + image * a.k.stride + column;
    h.v = static_cast<const T *>(a.v.data) + image * a.v.stride + MUTANT(HEAD_COLUMN, column, 0);
    h.y = static_cast<T *>(a.y.data) + image * a.y.stride + column;
    h.pad_k = MUTANT(PADDING, a.padding != NULL, false) ? a.padding + column : NULL;
    h.pad_v = h.pad_k != NULL ? h.pad_k + width : NULL;
    h.bias = a.bias != NULL ? a.bias + (size_t)head * a.pattern.entries : NULL;
    h.probs = a.probs != NULL ? a.probs + row * a.pattern.queries * a.pattern.keys : NULL;
    h.greatest = a.greatest != NULL ? a.greatest + row * a.pattern.queries : NULL;
    return h;
}

/* factor / max(|x|, 1e-12), of the sum of squares: the rule of torch's F.normalize. */
DEVICE float
normalising(float squares, float factor) {
    return factor / MUTANT(NORM_CLAMP, fmaxf(sqrtf(squares), 1e-12f), sqrtf(squares));
}

#endif
