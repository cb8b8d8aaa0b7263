/*
 * resize: see resize.h. The arithmetic of Pillow's Resample.c and of its nearest-neighbour
 * transform, bit for bit.
 *
 *   src (src_h, src_w, 3) -> one axis -> middle, 8 bits -> other axis -> dst (crop_h, crop_w, 3)
 *
 * Which axis goes first matters by a rounding, and follows Pillow 13: the vertical one exactly
 * when the height loses pixels, and more than twice as many as the width loses; before Pillow 12.3
 * it was always the horizontal one. An axis that keeps its size is not filtered.
 */
#include "datasets/resize.h"

#include "datasets/resize_kernels.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Fused multiply-adds would change the weights; GCC makes none in C11 mode, clang must be told. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define PI 3.14159265358979323846

static const char *const filter_names[] = {"nearest", "box",     "bilinear",
                                           "hamming", "bicubic", "lanczos"};

const char *filter_name(enum filter filter) {
    return (size_t)filter < COUNT_OF(filter_names) ? filter_names[filter] : "unknown";
}

bool filter_find(const char *name, enum filter *out) {
    for (size_t i = 0; i < COUNT_OF(filter_names); i++) {
        if (strcmp(name, filter_names[i]) != 0) continue;
        *out = (enum filter)i;
        return true;
    }
    return false;
}

static double sinc(double x) {
    return x == 0.0 ? 1.0 : sin(x * PI) / (x * PI);
}

/* The filters as functions of the distance in (scaled) pixels; the constants are Pillow's. */
static double filter_value(enum filter filter, double x) {
    const double a = -0.5; /* bicubic: Catmull-Rom */
    double d = fabs(x);
    switch (filter) {
    case FILTER_BOX: return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case FILTER_BILINEAR: return d < 1.0 ? 1.0 - d : 0.0;
    case FILTER_HAMMING: /* 0.54f and 0.46f are single precision in Pillow, and here */
        if (d == 0.0) return 1.0;
        return d < 1.0 ? sin(d * PI) / (d * PI) * (0.54f + 0.46f * cos(d * PI)) : 0.0;
    case FILTER_BICUBIC:
        if (d < 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1;
        return d < 2.0 ? (((d - 5) * d + 8) * d - 4) * a : 0.0;
    case FILTER_LANCZOS: return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
    default: return 0.0;
    }
}

static double filter_support(enum filter filter) {
    static const double support[] = {0.0, 0.5, 1.0, 1.0, 2.0, 3.0};
    return support[filter];
}

/* One axis: `in` pixels become `out`. */
struct axis {
    int in, out;
    enum filter filter;
    double scale;   /* input pixels an output pixel */
    double stretch; /* the filter is widened by this when shrinking; 1 when enlarging */
    int longest;    /* most taps an output can have */
};

static struct axis axis_make(int in, int out, enum filter filter) {
    struct axis axis = {in, out, filter, (double)in / out, 1.0, 0};
    double longest;
    if (axis.scale > 1.0) axis.stretch = axis.scale;
    longest = ceil(filter_support(filter) * axis.stretch) * 2 + 1;
    axis.longest = longest < in ? (int)longest : in;
    return axis;
}

/* The input pixels that output i reaches: [*first, *last). */
static void axis_reach(const struct axis *axis, int i, int *first, int *last) {
    double center = (i + 0.5) * axis->scale;
    double support = filter_support(axis->filter) * axis->stretch;
    double lo = center - support + 0.5, hi = center + support + 0.5;
    *first = lo > 0 ? (int)lo : 0;
    *last = hi < axis->in ? (int)hi : axis->in;
}

static void weights_release(struct weights *w) {
    mem_free(w->first);
    mem_free(w->taps);
    mem_free(w->k);
    mem_free(w->hi);
    mem_free(w->lo);
    memset(w, 0, sizeof *w);
}

static enum status weights_alloc(struct weights *w, int count, int longest) {
    size_t cells;
    w->count = count;
    w->pitch = longest + 3 - (longest + 3) % 4;
    if (!size_mul((size_t)count, (size_t)w->pitch, &cells))
        return fail(ST_NOMEM, "no memory for %d x %d resize weights", count, w->pitch);
    if (!(w->first = mem_zalloc((size_t)count, sizeof *w->first)) ||
        !(w->taps = mem_zalloc((size_t)count, sizeof *w->taps)) ||
        !(w->k = mem_zalloc(cells, sizeof *w->k)) || !(w->hi = mem_zalloc(cells, sizeof *w->hi)) ||
        !(w->lo = mem_zalloc(cells, sizeof *w->lo)))
        return ST_NOMEM;
    return ST_OK;
}

/* Slot `slot` of the table = the taps of output i; `work` holds axis->longest numbers. */
static void weights_fill(struct weights *w, int slot, const struct axis *axis, int i,
                         double *work) {
    size_t at = (size_t)slot * (size_t)w->pitch;
    double center = (i + 0.5) * axis->scale, inverse = 1.0 / axis->stretch, sum = 0.0;
    int first, last;
    axis_reach(axis, i, &first, &last);
    w->first[slot] = first;
    w->taps[slot] = last - first;
    for (int j = 0; j < last - first; j++)
        sum += work[j] = filter_value(axis->filter, (j + first - center + 0.5) * inverse);
    for (int j = 0; j < w->pitch; j++) {
        double weight = j >= last - first ? 0.0 : sum != 0.0 ? work[j] / sum : work[j];
        double scaled = weight * (1 << WEIGHT_BITS);
        int32_t k = (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
        /* The sum of taps stays well above 1/8 for every filter, so |k| < 2^26: hi fits 16 bits. */
        w->k[at + (size_t)j] = k;
        w->hi[at + (size_t)j] = (int16_t)(k >> WEIGHT_LOW_BITS);
        w->lo[at + (size_t)j] = (int16_t)(k & ((1 << WEIGHT_LOW_BITS) - 1));
    }
}

static void across_plain(const uint8_t *src, uint8_t *dst, const struct weights *w) {
    for (int i = 0; i < w->count; i++, dst += 3) {
        const uint8_t *p = src + (size_t)w->first[i] * 3;
        const int32_t *k = w->k + (size_t)i * (size_t)w->pitch;
        uint32_t r = 0, g = 0, b = 0;
        for (int j = 0; j < w->taps[i]; j++, p += 3) {
            r += p[0] * (uint32_t)k[j];
            g += p[1] * (uint32_t)k[j];
            b += p[2] * (uint32_t)k[j];
        }
        dst[0] = weight_round(r);
        dst[1] = weight_round(g);
        dst[2] = weight_round(b);
    }
}

static void down_plain(const uint8_t *src, size_t stride, uint8_t *dst, size_t bytes,
                       const struct weights *w) {
    enum { RUN = 64 }; /* bytes whose sums stay in registers or the first cache */
    src += (size_t)w->first[0] * stride;
    for (size_t x = 0; x < bytes; x += RUN) {
        uint32_t sum[RUN] = {0};
        size_t run = bytes - x < RUN ? bytes - x : RUN;
        for (int j = 0; j < w->taps[0]; j++) {
            const uint8_t *p = src + (size_t)j * stride + x;
            uint32_t k = (uint32_t)w->k[j];
            for (size_t i = 0; i < run; i++)
                sum[i] += p[i] * k;
        }
        for (size_t i = 0; i < run; i++)
            dst[x + i] = weight_round(sum[i]);
    }
}

const struct resize_kernels resize_plain = {"plain", 0, across_plain, down_plain};

static const struct resize_kernels *kernels_choose(void) {
    const struct resize_kernels *fast = resize_avx2();
    return fast ? fast : &resize_plain;
}

/* A picture, or a part of one: rows of 3-byte pixels, `stride` bytes apart. */
struct view {
    uint8_t *pixels;
    size_t stride;
    int width, height;
    const uint8_t *end; /* behind the last byte that may be read; NULL where nothing is read */
};

/* The last rows of a buffer are read through a padded copy: the kernel may read behind its taps. */
static const uint8_t *row_safe(const struct view *src, int y, int overread, uint8_t *copy) {
    const uint8_t *row = src->pixels + (size_t)y * src->stride;
    size_t bytes = (size_t)src->width * 3;
    if ((size_t)(src->end - row) >= bytes + (size_t)overread) return row;
    memcpy(copy, row, bytes);
    return copy;
}

/*
 * dst columns = outputs x0, x0+1, ... of the axis; src begins at input column `skipped`. The table
 * of weights is built for as many columns at a time as fit TABLE, so that a picture of 10^8 columns
 * needs little memory.
 */
static enum status pass_across(const struct resize_kernels *kernels, const struct axis *axis,
                               const struct view *src, int skipped, int x0,
                               const struct view *dst) {
    enum { TABLE = 1 << 20 };
    int block = TABLE / (axis->longest + 3);
    struct weights w = {0};
    enum status st;
    double *work = mem_zalloc((size_t)axis->longest, sizeof *work);
    uint8_t *copy = mem_zalloc((size_t)src->width * 3 + (size_t)kernels->overread, 1);
    block = block < 1 ? 1 : block > dst->width ? dst->width : block;
    st = work && copy ? weights_alloc(&w, block, axis->longest) : ST_NOMEM;
    for (int x = 0; st == ST_OK && x < dst->width; x += block) {
        w.count = dst->width - x < block ? dst->width - x : block;
        for (int i = 0; i < w.count; i++) {
            weights_fill(&w, i, axis, x0 + x + i, work);
            w.first[i] -= skipped;
        }
        for (int y = 0; y < dst->height; y++)
            kernels->across(row_safe(src, y, kernels->overread, copy),
                            dst->pixels + (size_t)y * dst->stride + (size_t)x * 3, &w);
    }
    weights_release(&w);
    mem_free(work);
    mem_free(copy);
    return st;
}

/* dst rows = outputs y0, y0+1, ... of the axis; src begins at input row `skipped`. */
static enum status pass_down(const struct resize_kernels *kernels, const struct axis *axis,
                             const struct view *src, int skipped, int y0, const struct view *dst) {
    struct weights w = {0};
    double *work = mem_zalloc((size_t)axis->longest, sizeof *work);
    enum status st = work ? weights_alloc(&w, 1, axis->longest) : ST_NOMEM;
    for (int y = 0; st == ST_OK && y < dst->height; y++) {
        weights_fill(&w, 0, axis, y0 + y, work);
        w.first[0] -= skipped;
        kernels->down(src->pixels, src->stride, dst->pixels + (size_t)y * dst->stride,
                      (size_t)dst->width * 3, &w);
    }
    weights_release(&w);
    mem_free(work);
    return st;
}

static struct view view_part(const struct view *view, int x, int y, int width, int height) {
    struct view part = *view;
    part.pixels += (size_t)y * view->stride + (size_t)x * 3;
    part.width = width;
    part.height = height;
    return part;
}

/* A fresh picture, with room behind it; ST_NOMEM. */
static enum status view_alloc(struct view *view, int width, int height) {
    size_t bytes;
    view->width = width;
    view->height = height;
    view->stride = (size_t)width * 3;
    if (!size_mul(view->stride, (size_t)height, &bytes))
        return fail(ST_NOMEM, "no memory for %d x %d pixels", width, height);
    view->pixels = mem_zalloc(bytes, 1);
    view->end = view->pixels + bytes;
    return view->pixels ? ST_OK : ST_NOMEM;
}

/* Both axes. The middle picture holds only what the second pass reads. */
static enum status resize_both(const struct resize *job, const struct view *src,
                               const struct view *dst) {
    const struct resize_kernels *kernels = kernels_choose();
    struct axis ax = axis_make(job->src_w, job->out_w, job->filter);
    struct axis ay = axis_make(job->src_h, job->out_h, job->filter);
    int64_t lost_h = (int64_t)job->src_h - job->out_h, lost_w = (int64_t)job->src_w - job->out_w;
    struct view middle = {0}, part;
    int x_first, x_last, y_first, y_last, unused;
    enum status st;
    axis_reach(&ax, job->crop_x, &x_first, &unused);
    axis_reach(&ax, job->crop_x + job->crop_w - 1, &unused, &x_last);
    axis_reach(&ay, job->crop_y, &y_first, &unused);
    axis_reach(&ay, job->crop_y + job->crop_h - 1, &unused, &y_last);
    if (lost_h > 0 && lost_h > 2 * lost_w) {
        TRY_OUT(view_alloc(&middle, x_last - x_first, job->crop_h));
        part = view_part(src, x_first, 0, x_last - x_first, job->src_h);
        TRY_OUT(pass_down(kernels, &ay, &part, 0, job->crop_y, &middle));
        TRY_OUT(pass_across(kernels, &ax, &middle, x_first, job->crop_x, dst));
    } else {
        TRY_OUT(view_alloc(&middle, job->crop_w, y_last - y_first));
        part = view_part(src, 0, y_first, job->src_w, y_last - y_first);
        TRY_OUT(pass_across(kernels, &ax, &part, 0, job->crop_x, &middle));
        TRY_OUT(pass_down(kernels, &ay, &middle, y_first, job->crop_y, dst));
    }
out:
    mem_free(middle.pixels);
    return st;
}

/* One axis, or none. */
static enum status resize_one(const struct resize *job, const struct view *src,
                              const struct view *dst) {
    const struct resize_kernels *kernels = kernels_choose();
    struct view part;
    if (job->out_w != job->src_w) {
        struct axis axis = axis_make(job->src_w, job->out_w, job->filter);
        part = view_part(src, 0, job->crop_y, job->src_w, job->crop_h);
        return pass_across(kernels, &axis, &part, 0, job->crop_x, dst);
    }
    if (job->out_h != job->src_h) {
        struct axis axis = axis_make(job->src_h, job->out_h, job->filter);
        part = view_part(src, job->crop_x, 0, job->crop_w, job->src_h);
        return pass_down(kernels, &axis, &part, 0, job->crop_y, dst);
    }
    part = view_part(src, job->crop_x, job->crop_y, job->crop_w, job->crop_h);
    for (int y = 0; y < job->crop_h; y++)
        memcpy(dst->pixels + (size_t)y * dst->stride, part.pixels + (size_t)y * part.stride,
               (size_t)job->crop_w * 3);
    return ST_OK;
}

/*
 * The input index of outputs first .. first+count-1, or -1. Pillow adds the scale up one output at
 * a time, and so must we: the sum's rounding decides which pixel is taken.
 */
static void nearest_index(int in, int out, int first, int count, int *index) {
    double scale = (double)in / out, at = scale * 0.5;
    for (int i = 0; i < first + count; i++, at += scale)
        if (i >= first) index[i - first] = at < in ? (int)at : -1;
}

static enum status resize_nearest(const struct resize *job, uint8_t *dst) {
    int *xs = mem_zalloc((size_t)job->crop_w, sizeof *xs);
    int *ys = mem_zalloc((size_t)job->crop_h, sizeof *ys);
    enum status st = xs && ys ? ST_OK : ST_NOMEM;
    if (st == ST_OK) {
        nearest_index(job->src_w, job->out_w, job->crop_x, job->crop_w, xs);
        nearest_index(job->src_h, job->out_h, job->crop_y, job->crop_h, ys);
        for (int y = 0; y < job->crop_h; y++) {
            for (int x = 0; x < job->crop_w; x++, dst += 3) {
                const uint8_t *p = job->src;
                if (xs[x] < 0 || ys[y] < 0) {
                    memset(dst, 0, 3);
                    continue;
                }
                p += ((size_t)ys[y] * (size_t)job->src_w + (size_t)xs[x]) * 3;
                memcpy(dst, p, 3);
            }
        }
    }
    mem_free(xs);
    mem_free(ys);
    return st;
}

static enum status resize_check(const struct resize *job) {
    const int most = 1 << 30; /* leaves room for a few taps in an int */
    if (job->src_w < 1 || job->src_h < 1 || job->out_w < 1 || job->out_h < 1 || job->src_w > most ||
        job->src_h > most)
        return fail(ST_USAGE, "resize from %d x %d to %d x %d: sizes are 1 to %d", job->src_w,
                    job->src_h, job->out_w, job->out_h, most);
    if (job->crop_w < 1 || job->crop_h < 1 || job->crop_x < 0 || job->crop_y < 0 ||
        job->crop_x > job->out_w - job->crop_w || job->crop_y > job->out_h - job->crop_h)
        return fail(ST_USAGE, "the part %d x %d at (%d, %d) is not inside the %d x %d picture",
                    job->crop_w, job->crop_h, job->crop_x, job->crop_y, job->out_w, job->out_h);
    if ((size_t)job->filter >= COUNT_OF(filter_names))
        return fail(ST_USAGE, "there is no resize filter number %d", (int)job->filter);
    return ST_OK;
}

enum status resize_rgb(const struct resize *job, uint8_t *dst) {
    struct view src = {0}, out = {0};
    TRY(resize_check(job));
    /* The source is only read; the cast lets one view type serve both ends. */
    src.pixels = (uint8_t *)(uintptr_t)job->src;
    src.stride = (size_t)job->src_w * 3;
    src.width = job->src_w;
    src.height = job->src_h;
    src.end = src.pixels + src.stride * (size_t)job->src_h;
    out.pixels = dst;
    out.stride = (size_t)job->crop_w * 3;
    out.width = job->crop_w;
    out.height = job->crop_h;
    if (job->out_w == job->src_w && job->out_h == job->src_h) return resize_one(job, &src, &out);
    if (job->filter == FILTER_NEAREST) return resize_nearest(job, dst);
    if (job->out_w == job->src_w || job->out_h == job->src_h) return resize_one(job, &src, &out);
    return resize_both(job, &src, &out);
}
