/*
 * attention_cpu: y = softmax(score(q, k) + bias + mask) v for a range of query rows of one (image,
 * head), or of one (window, head), whose slots name the rows of q, k, v and y that they stand for.
 *
 * Queries lie across the lanes: a row block is 2 VL queries, transposed once; each key and each
 * channel of v is a broadcast. A row's scores, maximum, sum and result never leave its lane, so its
 * bits do not depend on the rows beside it, and any head width works. For each block of keys:
 *   copy     k, v block      (block, D)         contiguous, k normalised for SCORE_COSINE
 *   scores   q^T, k      ->  s (block, 2 VL)    kept in L1; bias (of a whole map: looked up here)
 *                                               and mask, then the greatest are taken on the way
 *   softmax  s           ->  e^(s - greatest)   running maximum and sum over the key blocks
 *   values   s, v        ->  o^T (D, 2 VL)      rescaled when the maximum grew
 * Blocks are balanced parts of at most KEY_BLOCK keys, fixed by tk alone; scratch is O((ROW_CAP +
 * KEY_BLOCK) D). Wanted probabilities are raw scores in `probs`, normalised at the end. Measured
 * (AVX2, Zen 3, one busy core, of the FMA peak): T=197 D=64 0.65, T=577 0.63 to 0.68,
 * windows of 49 with D=32 0.43 (49 of 56 lanes; scores 0.68, values 0.87, exponentials 8 % of it).
 */
#include <math.h>

#include "kernels/relative.h"
#include "kernels/simd.h"
#include "kernels/simd_kernels.h"

enum {
    ROW_BLOCK = 2 * VL,
    ROW_CAP =
        128, /* query rows of a task at most: copying k and v then costs 1/128 of the products */
    KEY_BLOCK = 256, /* its scores, 16 KiB at 8 lanes, stay in L1 */
    TILE_ONE = 12, /* keys or channels of a register tile when the block holds one vector of rows */
#if defined(SIMD_AVX512)
    TILE_TWO = 12 /* and two: 24 accumulators of 32 registers */
#else
    TILE_TWO = 6 /* 12 accumulators of 16 registers */
#endif
};

/* The task's scratch, laid out by carve(). Pitches are whole vectors; a row block is (., 2 VL). */
struct work {
    const struct attention_task *task;
    int dim;         /* D */
    int pitch;       /* of k and v below */
    int block;       /* keys of a key block */
    float scale;     /* on q */
    float *q;        /* (row blocks, D, 2 VL), scaled */
    float *o;        /* (row blocks, D, 2 VL), not yet divided by total */
    float *greatest; /* (row blocks, 2 VL), running maximum of a row's scores */
    float *total;    /* (row blocks, 2 VL), running sum of e^(score - greatest) */
    float *k, *v;    /* (block, D) */
    float *s;        /* (block, 2 VL) */
    float *bias;     /* (block, 2 VL), CPU_TABLE_SPARE behind it: of a row block; task->table */
};

static int ceil_div(int a, int b) {
    return (a + b - 1) / b;
}

static int smaller(int a, int b) {
    return a < b ? a : b;
}

/* The row of x that a slot stands for; `padding` for a slot that is none (NULL: zeros). */
static const float *row_of(const struct attention_task *t, const float *x, size_t pitch, int slot,
                           const float *padding) {
    int token = t->tokens == NULL ? slot : t->tokens[slot];
    return token < 0 ? padding : x + (size_t)token * pitch;
}

/* Sets the pointers into `base` for `rows` query rows and tk keys; returns the floats needed. */
static size_t carve(struct work *w, float *base, const struct attention *desc, int rows, int tk) {
    int blocks = tk > 0 ? ceil_div(tk, KEY_BLOCK) : 1, dim = desc->head_dim;
    bool table = desc->pattern == PATTERN_FULL && desc->bias != NULL;
    size_t lanes = (size_t)ceil_div(rows, ROW_BLOCK) * ROW_BLOCK, used = 0;
    w->dim = dim;
    w->pitch = ceil_div(dim, VL) * VL;
    w->block = ceil_div(tk, blocks);
    const struct {
        float **part;
        size_t count;
    } parts[] = {
        {&w->q, lanes * (size_t)w->pitch},
        {&w->o, lanes * (size_t)w->pitch},
        {&w->greatest, lanes},
        {&w->total, lanes},
        {&w->k, (size_t)w->block * (size_t)w->pitch},
        {&w->v, (size_t)w->block * (size_t)w->pitch},
        {&w->s, (size_t)ceil_div(w->block, VL) * VL * ROW_BLOCK},
        {&w->bias, table ? (size_t)w->block * ROW_BLOCK + CPU_TABLE_SPARE : 0},
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        *parts[i].part = base == NULL ? NULL : base + used;
        used += (parts[i].count + 15) / 16 * 16; /* 64 bytes */
    }
    return used;
}

/* Balanced, whole row blocks, ROW_CAP rows at most. */
int SIMD(attention_rows)(const struct attention *desc, int tq, int tk) {
    (void)desc;
    (void)tk;
    int rows = ceil_div(tq, ceil_div(tq, ROW_CAP));
    return ceil_div(rows, ROW_BLOCK) * ROW_BLOCK;
}

size_t SIMD(attention_scratch)(const struct attention *desc, int tq, int tk) {
    struct work work;
    /* a shorter tk may have the larger block: 257 keys are two of 129, 256 keys are one */
    int keys = smaller(tk, KEY_BLOCK);
    return carve(&work, NULL, desc, SIMD(attention_rows)(desc, tq, tk), keys);
}

/* ---- loading and storing --------------------------------------------------------------------- */

/* factor / max(|x|, 1e-12), the rule of torch's F.normalize. */
static float normalising(const float *x, int n, float factor) {
    vf sum = vf_splat(0.0f);
    int i = 0;
    for (; i + VL <= n; i += VL) {
        vf v = vf_load(x + i);
        sum = vf_fma(v, v, sum);
    }
    if (i < n) {
        vf v = vf_load_n(x + i, n - i);
        sum = vf_fma(v, v, sum);
    }
    float norm = sqrtf(vf_sum(sum));
    return factor / (norm < 1e-12f ? 1e-12f : norm);
}

/*
 * q rows [first, first + rows) of the task, rows <= 2 VL, transposed and scaled; absent lanes are
 * 0.
 */
static void load_queries(const struct work *w, int first, int rows, float *out) {
    const struct attention_task *t = w->task;
    for (int half = 0; half < ROW_BLOCK; half += VL) {
        float factor[VL];
        const float *row[VL];
        vi present;
        for (int r = 0; r < VL; r++) {
            row[r] = half + r < rows ? row_of(t, t->q, t->q_pitch, t->row + first + half + r, NULL)
                                     : NULL;
            factor[r] = row[r] == NULL                   ? 0.0f
                        : t->desc->score == SCORE_COSINE ? normalising(row[r], w->dim, t->scale)
                                                         : t->scale;
            present[r] = row[r] == NULL ? 0 : -1;
            if (row[r] == NULL) row[r] = t->q;
        }
        vf factors = vf_load(factor);
        for (int c = 0; c < w->dim; c += VL) {
            int n = smaller(VL, w->dim - c);
            vf x[VL];
            if (n == VL) {
                SIMD_UNROLL for (int r = 0; r < VL; r++) {
                    x[r] = vf_load(row[r] + c);
                }
            } else {
                SIMD_UNROLL for (int r = 0; r < VL; r++) {
                    x[r] = vf_load_n(row[r] + c, n);
                }
            }
            vf_transpose(x);
            SIMD_UNROLL for (int r = 0; r < VL; r++) {
                vf_store(out + (size_t)(c + r) * ROW_BLOCK + half,
                         vf_select(present, x[r] * factors, vf_splat(0.0f)));
            }
        }
    }
}

/* Keys [first, first + count) of x, times `factor`'s rule, into contiguous rows. */
static void copy_keys(const struct work *w, const float *x, size_t x_pitch, const float *padding,
                      int first, int count, bool normalise, float *out) {
    for (int j = 0; j < count; j++, out += w->pitch) {
        const float *row = row_of(w->task, x, x_pitch, first + j, padding);
        if (row == NULL) {
            memset(out, 0, (size_t)w->pitch * sizeof(float));
            continue;
        }
        vf factor = vf_splat(normalise ? normalising(row, w->dim, 1.0f) : 1.0f);
        int c = 0;
        for (; c + VL <= w->dim; c += VL)
            vf_store(out + c, vf_load(row + c) * factor);
        if (c < w->dim) vf_store(out + c, vf_load_n(row + c, w->dim - c) * factor);
    }
}

/* y rows of a row block: o / total, transposed back. */
static void store_rows(const struct work *w, int first, int rows) {
    const struct attention_task *t = w->task;
    const float *o = w->o + (size_t)first * (size_t)w->pitch;
    for (int half = 0; half < rows; half += VL) {
        vf inverse = 1.0f / vf_load(w->total + first + half);
        float *row[VL]; /* NULL: not there, or padding */
        for (int r = 0; r < VL; r++)
            row[r] = half + r < rows
                         ? (float *)row_of(t, t->y, t->y_pitch, t->row + first + half + r, NULL)
                         : NULL;
        for (int c = 0; c < w->dim; c += VL) {
            int n = smaller(VL, w->dim - c);
            vf x[VL];
            SIMD_UNROLL for (int r = 0; r < VL; r++) {
                x[r] = vf_load(o + (size_t)(c + r) * ROW_BLOCK + half) * inverse;
            }
            vf_transpose(x);
            SIMD_UNROLL for (int r = 0; r < VL; r++) {
                if (row[r] == NULL) continue;
                if (n == VL)
                    vf_store(row[r] + c, x[r]);
                else
                    vf_store_n(row[r] + c, x[r], n);
            }
        }
    }
}

/* The raw scores of a row block and `count` keys from `key`, to the rows of probs. */
static void store_scores(const struct work *w, int first, int rows, int key, int count) {
    const struct attention_task *t = w->task;
    for (int half = 0; half < rows; half += VL) {
        float *out = t->probs + (size_t)(t->row + first + half) * t->probs_pitch + key;
        int present = smaller(VL, rows - half);
        for (int j = 0; j < count; j += VL) {
            vf x[VL];
            SIMD_UNROLL for (int r = 0; r < VL; r++) {
                x[r] = vf_load(w->s + (size_t)(j + r) * ROW_BLOCK + half);
            }
            vf_transpose(x);
            SIMD_UNROLL for (int r = 0; r < VL; r++) {
                if (r < present)
                    vf_store_n(out + (size_t)r * t->probs_pitch + j, x[r], smaller(VL, count - j));
            }
        }
    }
}

/*
 * probs = e^(score - greatest) / total, in place, and 0 behind tk and for padding's rows; greatest
 * to where it is wanted.
 */
static void normalise_scores(const struct work *w) {
    const struct attention_task *t = w->task;
    for (int r = 0; r < t->rows; r++) {
        float *row = t->probs + (size_t)(t->row + r) * t->probs_pitch;
        const bool padding = t->tokens != NULL && t->tokens[t->row + r] < 0;
        if (t->greatest != NULL)
            t->greatest[t->row + r] = padding ? 0.0f : t->tk > 0 ? w->greatest[r] : -INFINITY;
        if (padding) {
            memset(row, 0, (size_t)t->probs_columns * sizeof(float));
            continue;
        }
        vf greatest = vf_splat(t->tk > 0 ? w->greatest[r] : 0.0f);
        vf inverse = 1.0f / vf_splat(t->tk > 0 ? w->total[r] : 1.0f);
        int j = 0;
        for (; j + VL <= t->tk; j += VL)
            vf_store(row + j, vf_exp_negative(vf_load(row + j) - greatest) * inverse);
        if (j < t->tk) {
            vf p = vf_exp_negative(vf_load_n(row + j, t->tk - j) - greatest) * inverse;
            vf_store_n(row + j, p, t->tk - j);
        }
        for (j = t->tk; j < t->probs_columns; j++)
            row[j] = 0.0f;
    }
}

/* ---- the products ---------------------------------------------------------------------------- */

/*
 * acc[j] += sum over i < depth of a[i] * b[j * across + i * along], for j < n: a is (depth, 2 VL),
 * of which `vectors` are used. With both constant, acc lives in registers.
 */
SIMD_INLINE void tile(int vectors, int n, vf acc[][2], const float *a, const float *b,
                      size_t across, size_t along, int depth) {
    for (int i = 0; i < depth; i++, a += ROW_BLOCK, b += along) {
        vf a0 = vf_load(a), a1 = vectors > 1 ? vf_load(a + VL) : a0;
        SIMD_UNROLL for (int j = 0; j < n; j++) {
            vf x = vf_splat(b[(size_t)j * across]);
            acc[j][0] = vf_fma(a0, x, acc[j][0]);
            if (vectors > 1) acc[j][1] = vf_fma(a1, x, acc[j][1]);
        }
    }
}

/* What is added to the scores of a row block and a key block: a bias, and PATTERN_WINDOW's mask. */
struct addend {
    const float *bias;   /* (keys, 2 VL), or NULL */
    const float *region; /* (keys), or NULL = one region */
    vf mine[2];          /* the rows' regions */
    vf mask;
};

/* n keys' scores for a row block, and the greatest score so far. */
SIMD_INLINE void score_tile(int vectors, int n, const struct work *w, const struct addend *add,
                            int key, const float *q, const float *k, float *s, vf greatest[2]) {
    vf acc[TILE_ONE][2];
    SIMD_UNROLL for (int j = 0; j < n; j++) {
        acc[j][0] = acc[j][1] = vf_splat(0.0f);
    }
    tile(vectors, n, acc, q, k, (size_t)w->pitch, 1, w->dim);
    if (add->bias != NULL) {
        const float *bias = add->bias + (size_t)key * ROW_BLOCK;
        SIMD_UNROLL for (int j = 0; j < n; j++) {
            SIMD_UNROLL for (int i = 0; i < vectors; i++) {
                acc[j][i] += vf_load(bias + j * ROW_BLOCK + i * VL);
            }
        }
    }
    if (add->region != NULL) {
        SIMD_UNROLL for (int j = 0; j < n; j++) {
            vf theirs = vf_splat(add->region[key + j]);
            SIMD_UNROLL for (int i = 0; i < vectors; i++) {
                acc[j][i] += vf_select(add->mine[i] != theirs, add->mask, vf_splat(0.0f));
            }
        }
    }
    SIMD_UNROLL for (int j = 0; j < n; j++) {
        SIMD_UNROLL for (int i = 0; i < vectors; i++) {
            vf_store(s + j * ROW_BLOCK + i * VL, acc[j][i]);
            greatest[i] = vf_max(greatest[i], acc[j][i]);
        }
    }
}

/* n channels of o for a row block: o * shrink + s^T v; shrink NULL for the first key block. */
SIMD_INLINE void value_tile(int vectors, int n, const struct work *w, const float *v, float *o,
                            int keys, const vf *shrink) {
    vf acc[TILE_ONE][2];
    SIMD_UNROLL for (int j = 0; j < n; j++) {
        SIMD_UNROLL for (int i = 0; i < vectors; i++) {
            acc[j][i] =
                shrink == NULL ? vf_splat(0.0f) : vf_load(o + j * ROW_BLOCK + i * VL) * shrink[i];
        }
    }
    tile(vectors, n, acc, w->s, v, 1, (size_t)w->pitch, keys);
    SIMD_UNROLL for (int j = 0; j < n; j++) {
        SIMD_UNROLL for (int i = 0; i < vectors; i++) {
            vf_store(o + j * ROW_BLOCK + i * VL, acc[j][i]);
        }
    }
}

#define TILE_SIZES_6(f)  f(1) f(2) f(3) f(4) f(5) f(6)
#define TILE_SIZES_12(f) TILE_SIZES_6(f) f(7) f(8) f(9) f(10) f(11) f(12)
#if defined(SIMD_AVX512)
#define TILE_SIZES_TWO TILE_SIZES_12
#else
#define TILE_SIZES_TWO TILE_SIZES_6
#endif

#define SCORE_CASE(vectors, n)                                                                     \
    case n:                                                                                        \
        score_tile(vectors, n, w, add, done, q, k, s, greatest);                                   \
        break;
#define SCORE_ONE(n) SCORE_CASE(1, n)
#define SCORE_TWO(n) SCORE_CASE(2, n)
#define VALUE_CASE(vectors, n)                                                                     \
    case n:                                                                                        \
        value_tile(vectors, n, w, v, o, keys, shrink);                                             \
        break;
#define VALUE_ONE(n) VALUE_CASE(1, n)
#define VALUE_TWO(n) VALUE_CASE(2, n)

/*
 * s = scores of one row block with w->k's first `keys` keys; greatest is raised to the greatest of
 * them.
 */
static void scores(const struct work *w, int vectors, const struct addend *add, const float *q,
                   int keys, vf greatest[2]) {
    int tiles = ceil_div(keys, vectors > 1 ? TILE_TWO : TILE_ONE);
    for (int done = 0; done < keys; tiles--) {
        int n = ceil_div(keys - done, tiles);
        const float *k = w->k + (size_t)done * (size_t)w->pitch;
        float *s = w->s + (size_t)done * ROW_BLOCK;
        if (vectors > 1) {
            switch (n) { TILE_SIZES_TWO(SCORE_TWO) }
        } else {
            switch (n) { TILE_SIZES_12(SCORE_ONE) }
        }
        done += n;
    }
}

/* o = o * shrink + s^T v for one row block. */
static void values(const struct work *w, int vectors, float *out, int keys, const vf *shrink) {
    int tiles = ceil_div(w->dim, vectors > 1 ? TILE_TWO : TILE_ONE);
    for (int done = 0; done < w->dim; tiles--) {
        int n = ceil_div(w->dim - done, tiles);
        const float *v = w->v + done;
        float *o = out + (size_t)done * ROW_BLOCK;
        if (vectors > 1) {
            switch (n) { TILE_SIZES_TWO(VALUE_TWO) }
        } else {
            switch (n) { TILE_SIZES_12(VALUE_ONE) }
        }
        done += n;
    }
}

/* s = e^(s - greatest) over `keys` keys; returns the sum by keys in order. */
static vf exponentials(float *s, int keys, vf greatest) {
    vf sum = vf_splat(0.0f);
    for (int j = 0; j < keys; j++, s += ROW_BLOCK) {
        vf e = vf_exp_negative(vf_load(s) - greatest);
        vf_store(s, e);
        sum += e;
    }
    return sum;
}

/* ---- the task -------------------------------------------------------------------------------- */

static struct addend addend_of(const struct work *w, int first, int rows, int key, int keys) {
    const struct attention_task *t = w->task;
    struct addend add = {.mask = vf_splat(t->desc->mask_value)};
    if (t->bias != NULL)
        add.bias = t->bias + (size_t)first * (size_t)t->tk + (size_t)key * ROW_BLOCK;
    if (t->table != NULL) {
        SIMD(attention_bias)(t->desc, t->table, t->row + first, rows, key, keys, w->bias);
        add.bias = w->bias;
    }
    if (t->region != NULL) add.region = t->region + key;
    for (int i = 0; t->region != NULL && i * VL < rows; i++)
        add.mine[i] = vf_load_n(t->region + t->row + first + i * VL, smaller(VL, rows - i * VL));
    return add;
}

/* One row block (rows from `first`) against the loaded key block (keys from `key`). */
static void row_block(const struct work *w, int first, int rows, int key, int keys) {
    size_t at = (size_t)first * (size_t)w->pitch;
    int vectors = rows > VL ? 2 : 1;
    struct addend add = addend_of(w, first, rows, key, keys);
    vf before[2], greatest[2], shrink[2];
    for (int i = 0; i < vectors; i++)
        before[i] = greatest[i] =
            key == 0 ? vf_splat(-INFINITY) : vf_load(w->greatest + first + i * VL);
    scores(w, vectors, &add, w->q + at, keys, greatest);
    if (w->task->probs != NULL) store_scores(w, first, rows, key, keys);
    for (int i = 0; i < vectors; i++) {
        vf sum = exponentials(w->s + i * VL, keys, greatest[i]);
        float *total = w->total + first + i * VL;
        if (key > 0) {
            shrink[i] = vf_exp_negative(before[i] - greatest[i]);
            sum = vf_fma(vf_load(total), shrink[i], sum);
        }
        vf_store(total, sum);
        vf_store(w->greatest + first + i * VL, greatest[i]);
    }
    values(w, vectors, w->o + at, keys, key == 0 ? NULL : shrink);
}

/*
 * PATTERN_FULL, and PATTERN_WINDOW a window at a time. A pattern that sees fewer keys narrows
 * [0, tk) to what its row block visits, here; another mask belongs into struct addend.
 */
static void attend(const struct work *w) {
    const struct attention_task *t = w->task;
    for (int first = 0; first < t->rows; first += ROW_BLOCK)
        load_queries(w, first, smaller(ROW_BLOCK, t->rows - first),
                     w->q + (size_t)first * (size_t)w->pitch);
    for (int key = 0; key < t->tk; key += w->block) {
        int keys = smaller(w->block, t->tk - key);
        copy_keys(w, t->k, t->k_pitch, t->pad_k, key, keys, t->desc->score == SCORE_COSINE, w->k);
        copy_keys(w, t->v, t->v_pitch, t->pad_v, key, keys, false, w->v);
        for (int first = 0; first < t->rows; first += ROW_BLOCK)
            row_block(w, first, smaller(ROW_BLOCK, t->rows - first), key, keys);
    }
    for (int first = 0; first < t->rows; first += ROW_BLOCK)
        store_rows(w, first, smaller(ROW_BLOCK, t->rows - first));
}

/* ---- bias ------------------------------------------------------------------------------------ */

/* Lanes whose tokens lie side by side in a row of the map, as do their entries for any key. */
struct lane_run {
    int lane;           /* the first, of at most VL */
    const float *entry; /* its, with the patch (0, 0) */
};

/* A row block against a bias table. */
struct lanes {
    int h, w, prefix;
    int in_front; /* lanes that are prefix tokens */
    int runs;
    struct lane_run run[ROW_BLOCK];
    const float *extra; /* (RELATIVE_EXTRA) */
};

static struct lanes lanes_of(const struct attention *desc, const float *table, int row, int rows) {
    const bool window = desc->pattern == PATTERN_WINDOW;
    struct lanes lanes = {.h = window ? desc->window_h : desc->grid_h,
                          .w = window ? desc->window_w : desc->grid_w,
                          .prefix = window ? 0 : desc->prefix};
    const int h = lanes.h, w = lanes.w, P = lanes.prefix;
    lanes.extra = table + relative_entries(h, w, 0);
    for (int i = 0, length = VL; i < rows; i++, length++) {
        if (row + i < P) {
            lanes.in_front++;
            continue;
        }
        if (lanes.runs > 0 && (row + i - P) % w > 0 && length < VL) continue;
        lanes.run[lanes.runs++] = (struct lane_run){i, table + relative_index(h, w, P, row + i, P)};
        length = 0;
    }
    return lanes;
}

/* out (2 VL) for a key that is a prefix token. */
static void bias_of_prefix(const struct lanes *lanes, float *out) {
    for (int i = 0; i < ROW_BLOCK; i++)
        out[i] = lanes->extra[i < lanes->in_front ? RELATIVE_IN_PREFIX : RELATIVE_TO_PREFIX];
}

/*
 * A run is loaded and stored as a whole vector: what it writes behind itself the next run, or the
 * next key, overwrites.
 */
void SIMD(attention_bias)(const struct attention *desc, const float *table, int row, int rows,
                          int key, int keys, float *out) {
    for (int first = 0; first < rows; first += ROW_BLOCK) {
        const struct lanes lanes =
            lanes_of(desc, table, row + first, smaller(ROW_BLOCK, rows - first));
        const int w = lanes.w, inside = key - lanes.prefix;
        int x = inside > 0 ? inside % w : 0, place = inside > 0 ? inside / w * (2 * w - 1) + x : 0;
        if (rows - first < ROW_BLOCK) memset(out, 0, (size_t)keys * ROW_BLOCK * sizeof *out);
        for (int j = key; j < key + keys; j++, out += ROW_BLOCK) {
            if (j < lanes.prefix) {
                bias_of_prefix(&lanes, out);
                continue;
            }
            for (int i = 0; i < lanes.in_front; i++)
                out[i] = lanes.extra[RELATIVE_FROM_PREFIX];
            for (int r = 0; r < lanes.runs; r++)
                vf_store(out + lanes.run[r].lane, vf_load(lanes.run[r].entry - place));
            x++;
            place += x == w ? w : 1; /* to the next row: past the 2w-1 of this one */
            if (x == w) x = 0;
        }
    }
}

void SIMD(attention)(const struct attention_task *task) {
    struct work work = {.task = task};
    (void)carve(&work, task->scratch, task->desc, task->rows, task->tk);
    if (task->tk > 0) {
        attend(&work);
    } else { /* lengths: never with windows */
        for (int r = 0; r < task->rows; r++)
            memset(task->y + (size_t)(task->row + r) * task->y_pitch, 0,
                   (size_t)work.dim * sizeof(float));
    }
    if (task->probs != NULL) normalise_scores(&work);
}
