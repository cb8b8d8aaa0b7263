/*
 * heat_map: see heat_map.h. One reader serves all: each axis says for every pixel which four cells
 * it mixes and how (a separable filter), then rows are mixed first, columns second.
 */
#include "tools/heat_map.h"

#include <math.h>
#include <string.h>

#include "tools/canvas.h"

#define TAPS 4

static const char *const filter_names[] = {"nearest", "bicubic"};

const char *heat_filter_name(enum heat_filter filter) {
    return (size_t)filter < COUNT_OF(filter_names) ? filter_names[filter] : "unknown";
}

bool heat_filter_find(const char *name, enum heat_filter *out) {
    for (size_t i = 0; i < COUNT_OF(filter_names); i++) {
        if (strcmp(filter_names[i], name) != 0) continue;
        *out = (enum heat_filter)i;
        return true;
    }
    return false;
}

/* What one pixel takes from an axis: cells inside the map, and shares that sum to 1. */
struct taps {
    int cell[TAPS];
    float share[TAPS];
};

/* Keys (1981), a = -0.5, at distance 0..2. */
static double keys(double x) {
    x = fabs(x);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    if (x < 2) return ((-0.5 * x + 2.5) * x - 4) * x + 2;
    return 0;
}

static int inside(double cell, int cells) {
    return cell <= 0 ? 0 : cell >= cells - 1 ? cells - 1 : (int)cell;
}

/* The taps of the pixel whose centre is at `at`, in cells. */
static struct taps taps_at(double at, int cells, enum heat_filter filter) {
    struct taps taps = {{0}, {0}};
    const double first = floor(at - 0.5) - 1;
    if (filter == HEAT_NEAREST) {
        for (int k = 0; k < TAPS; k++)
            taps.cell[k] = inside(floor(at), cells);
        taps.share[0] = 1;
        return taps;
    }
    for (int k = 0; k < TAPS; k++) {
        taps.cell[k] = inside(first + k, cells);
        taps.share[k] = (float)keys(at - 0.5 - first - k);
    }
    return taps;
}

struct reader {
    const float *map; /* (y.cells, x.cells) */
    struct grid_axis x, y;
    enum heat_filter filter;
    struct heat_range limits; /* of the map: overshoot ends here */
    struct taps *columns;     /* (count) pixels from `first` on, owned */
    float *mixed;             /* (x.cells) the rows of the current pixel row, owned */
    float *values;            /* (count) of the current pixel row, owned */
    uint8_t *colors;          /* (count, 3) the same as colours, owned */
    int first, count;
};

static void reader_close(struct reader *reader) {
    mem_free(reader->columns);
    mem_free(reader->mixed);
    mem_free(reader->values);
    mem_free(reader->colors);
}

static enum status reader_open(struct reader *reader, int first, int count) {
    const size_t cells = (size_t)reader->x.cells * (size_t)reader->y.cells;
    reader->limits = heat_range_of(reader->map, cells, false);
    reader->first = first;
    reader->count = count;
    reader->columns = mem_zalloc((size_t)count, sizeof *reader->columns);
    reader->mixed = mem_zalloc((size_t)reader->x.cells, sizeof *reader->mixed);
    reader->values = mem_zalloc((size_t)count, sizeof *reader->values);
    reader->colors = mem_zalloc((size_t)count, 3);
    if (!reader->columns || !reader->mixed || !reader->values || !reader->colors) return ST_NOMEM;
    for (int i = 0; i < count; i++)
        reader->columns[i] = taps_at((first + i + 0.5) * reader->x.scale + reader->x.offset,
                                     reader->x.cells, reader->filter);
    return ST_OK;
}

/* What the taps take of x, its elements `stride` apart. A share of 0 takes nothing of a NaN. */
static inline float taken(const struct taps *taps, const float *x, size_t stride) {
    float sum = 0;
    for (int k = 0; k < TAPS; k++)
        if (taps->share[k] != 0) sum += taps->share[k] * x[(size_t)taps->cell[k] * stride];
    return sum;
}

/* reader->values = the pixels of row y. */
static void reader_row(struct reader *reader, int y) {
    const int cells = reader->x.cells;
    const struct taps taps =
        taps_at((y + 0.5) * reader->y.scale + reader->y.offset, reader->y.cells, reader->filter);
    for (int i = 0; i < cells; i++)
        reader->mixed[i] = taken(&taps, reader->map + i, (size_t)cells);
    for (int i = 0; i < reader->count; i++) {
        const float value = taken(&reader->columns[i], reader->mixed, 1);
        const float low = reader->limits.low, high = reader->limits.high;
        reader->values[i] = value < low ? low : value > high ? high : value;
    }
}

/* The axis of `cells` stretched over pixels [from, to). */
static struct grid_axis stretched(int cells, int from, int to) {
    const double scale = (double)cells / (to - from);
    return (struct grid_axis){scale, -scale * from, cells, to};
}

enum status heat_resize(const float *map, int h, int w, enum heat_filter filter, float *out,
                        int out_h, int out_w) {
    struct reader reader = {.map = map, .filter = filter};
    enum status st = ST_OK;
    if (h < 1 || w < 1 || out_h < 1 || out_w < 1)
        return fail(ST_USAGE, "a map of %d x %d as %d x %d", w, h, out_w, out_h);
    reader.x = stretched(w, 0, out_w);
    reader.y = stretched(h, 0, out_h);
    TRY_OUT(reader_open(&reader, 0, out_w));
    for (int y = 0; y < out_h; y++) {
        reader_row(&reader, y);
        memcpy(out, reader.values, (size_t)out_w * sizeof *out);
        out += out_w;
    }
out:
    reader_close(&reader);
    return st;
}

struct heat_range heat_range_of(const float *map, size_t count, bool from_zero) {
    struct heat_range range = {INFINITY, -INFINITY};
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(map[i])) continue;
        if (map[i] < range.low) range.low = map[i];
        if (map[i] > range.high) range.high = map[i];
    }
    if (range.low > range.high) return (struct heat_range){0, 0};
    if (from_zero) range.low = 0;
    return range;
}

float heat_place(struct heat_range range, float value) {
    const float place = (value - range.low) / (range.high - range.low);
    if (!(range.high > range.low) || !(place > 0)) return 0;
    return place < 1 ? place : 1;
}

struct heat_style heat_defaults(const float *map, size_t count) {
    return (struct heat_style){COLORMAP_VIRIDIS, HEAT_BICUBIC, heat_range_of(map, count, false),
                               0.6F, false};
}

/* The reader's row over the picture's; colours first, then one loop over bytes that vectorises. */
static void blend_row(const struct heat_style *style, struct reader *reader, uint8_t *rgb) {
    uint8_t *color = reader->colors;
    for (int i = 0; i < reader->count; i++, color += 3) {
        const float t = heat_place(style->range, reader->values[i]);
        const uint32_t value = colormap_color(style->colormap, t);
        color[0] = (uint8_t)(value >> 16);
        color[1] = (uint8_t)(value >> 8);
        color[2] = (uint8_t)value;
        if (style->fade) canvas_mix(color, rgb + 3 * (size_t)i, 3, 1 - t);
    }
    canvas_mix(rgb, reader->colors, 3 * (size_t)reader->count, style->opacity);
}

/* The reader's map over its columns and rows [y0, y1) of the canvas. */
static void blend(const struct heat_style *style, struct reader *reader, struct image *canvas,
                  int y0, int y1) {
    for (int y = y0; y < y1; y++) {
        reader_row(reader, y);
        blend_row(style, reader,
                  canvas->rgb + ((size_t)y * (size_t)canvas->width + (size_t)reader->first) * 3);
    }
}

/* Grey and dark: 0.4 of the luma (Rec. 601). */
static void dim(struct image *picture, struct pixel_box box) {
    for (int y = box.y0; y < box.y1; y++) {
        uint8_t *rgb = picture->rgb + ((size_t)y * (size_t)picture->width + (size_t)box.x0) * 3;
        for (int x = box.x0; x < box.x1; x++, rgb += 3) {
            const float luma = 0.299F * rgb[0] + 0.587F * rgb[1] + 0.114F * rgb[2];
            memset(rgb, (int)(0.4F * luma + 0.5F), 3);
        }
    }
}

static void dim_unseen(struct image *picture, struct pixel_box seen) {
    const int w = picture->width, h = picture->height;
    dim(picture, (struct pixel_box){0, 0, w, seen.y0});
    dim(picture, (struct pixel_box){0, seen.y0, seen.x0, seen.y1});
    dim(picture, (struct pixel_box){seen.x1, seen.y0, w, seen.y1});
    dim(picture, (struct pixel_box){0, seen.y1, w, h});
}

enum status heat_overlay(const struct heat_style *style, const float *map,
                         const struct grid_place *place, struct image *picture) {
    struct reader reader = {.map = map, .filter = style->filter};
    struct pixel_box seen;
    enum status st = ST_OK;
    TRY(grid_place_check(place));
    if (picture->width != place->image_w || picture->height != place->image_h)
        return fail(ST_USAGE, "the picture is %d x %d, the map was placed on %d x %d",
                    picture->width, picture->height, place->image_w, place->image_h);
    seen = grid_place_seen(place);
    dim_unseen(picture, seen);
    reader.x = grid_axis_x(place);
    reader.y = grid_axis_y(place);
    TRY_OUT(reader_open(&reader, seen.x0, seen.x1 - seen.x0));
    blend(style, &reader, picture, seen.y0, seen.y1);
out:
    reader_close(&reader);
    return st;
}

enum status heat_draw(const struct heat_style *style, const float *map, int h, int w,
                      struct image *canvas, struct pixel_box box) {
    struct reader reader = {.map = map, .filter = style->filter};
    enum status st = ST_OK;
    if (h < 1 || w < 1 || box.x0 < 0 || box.y0 < 0 || box.x1 > canvas->width ||
        box.y1 > canvas->height || box.x0 >= box.x1 || box.y0 >= box.y1)
        return fail(ST_USAGE, "a map of %d x %d in (%d, %d) to (%d, %d) of a picture of %d x %d", w,
                    h, box.x0, box.y0, box.x1, box.y1, canvas->width, canvas->height);
    reader.x = stretched(w, box.x0, box.x1);
    reader.y = stretched(h, box.y0, box.y1);
    TRY_OUT(reader_open(&reader, box.x0, box.x1 - box.x0));
    blend(style, &reader, canvas, box.y0, box.y1);
out:
    reader_close(&reader);
    return st;
}
