/* placement: see placement.h. */
#include "datasets/placement.h"

#include <math.h>

enum status grid_place_check(const struct grid_place *place) {
    if (place->image_w < 1 || place->image_h < 1)
        return fail(ST_USAGE, "the picture is %d x %d", place->image_w, place->image_h);
    if (place->model_w < 1 || place->model_h < 1 || place->at.resized_w < 1 ||
        place->at.resized_h < 1)
        return fail(ST_USAGE, "the model saw %d x %d of a picture resized to %d x %d",
                    place->model_w, place->model_h, place->at.resized_w, place->at.resized_h);
    if (place->columns < 1 || place->rows < 1)
        return fail(ST_USAGE, "the grid is %d x %d", place->columns, place->rows);
    return ST_OK;
}

static struct grid_axis axis(int image, int resized, int start, int model, int cells) {
    const double cell = (double)cells / model; /* cells a pixel of the model */
    return (struct grid_axis){cell * resized / image, -cell * start, cells, image};
}

struct grid_axis grid_axis_x(const struct grid_place *place) {
    return axis(place->image_w, place->at.resized_w, place->at.x, place->model_w, place->columns);
}

struct grid_axis grid_axis_y(const struct grid_place *place) {
    return axis(place->image_h, place->at.resized_h, place->at.y, place->model_h, place->rows);
}

static int clamped(double value, int most) {
    return value <= 0 ? 0 : value >= most ? most : (int)value;
}

struct pixels {
    int from, to; /* [from, to) */
};

/* Those whose centres lie in cells [cell, cell+count) of the axis; the cells' middle, in pixels. */
static struct pixels centred(const struct grid_axis *a, int cell, int count, double *middle) {
    const double low = (cell - a->offset) / a->scale, high = (cell + count - a->offset) / a->scale;
    *middle = (low + high) / 2;
    return (struct pixels){clamped(ceil(low - 0.5), a->pixels),
                           clamped(ceil(high - 0.5), a->pixels)};
}

/* All that the model saw, at least one. */
static struct pixels axis_seen(const struct grid_axis *a) {
    double middle;
    const struct pixels seen = centred(a, 0, a->cells, &middle);
    const int pixel = clamped(floor(middle), a->pixels - 1);
    return seen.from < seen.to ? seen : (struct pixels){pixel, pixel + 1};
}

/* Cells without a centre of a pixel take the one that they lie in, of those seen. */
static struct pixels axis_pixels(const struct grid_axis *a, int cell, int count) {
    double middle;
    const struct pixels pixels = centred(a, cell, count, &middle), seen = axis_seen(a);
    int pixel;
    if (pixels.from < pixels.to || middle < 0 || middle >= a->pixels) return pixels;
    pixel = (int)middle;
    if (pixel < seen.from) pixel = seen.from;
    if (pixel >= seen.to) pixel = seen.to - 1;
    return (struct pixels){pixel, pixel + 1};
}

struct pixel_box grid_place_box(const struct grid_place *place, int row, int column, int rows,
                                int columns) {
    const struct grid_axis x = grid_axis_x(place), y = grid_axis_y(place);
    const struct pixels across = axis_pixels(&x, column, columns),
                        down = axis_pixels(&y, row, rows);
    return (struct pixel_box){across.from, down.from, across.to, down.to};
}

struct pixel_box grid_place_seen(const struct grid_place *place) {
    const struct grid_axis x = grid_axis_x(place), y = grid_axis_y(place);
    const struct pixels across = axis_seen(&x), down = axis_seen(&y);
    return (struct pixel_box){across.from, down.from, across.to, down.to};
}

/*
 * The cell of a pixel that the model saw: the last that begins at it or before. Where a cell's edge
 * meets a centre, rounding could make the product another than the division of `centred`: moved.
 */
static int axis_cell(const struct grid_axis *a, int pixel) {
    int cell = clamped(floor((pixel + 0.5) * a->scale + a->offset), a->cells - 1);
    double middle;
    while (cell > 0 && centred(a, cell, 1, &middle).from > pixel)
        cell--;
    while (cell + 1 < a->cells && centred(a, cell + 1, 1, &middle).from <= pixel)
        cell++;
    return cell;
}

bool grid_place_cell(const struct grid_place *place, int x, int y, int *row, int *column) {
    const struct grid_axis across = grid_axis_x(place), down = grid_axis_y(place);
    const struct pixel_box seen = grid_place_seen(place);
    if (x < seen.x0 || x >= seen.x1 || y < seen.y0 || y >= seen.y1) return false;
    *row = axis_cell(&down, y);
    *column = axis_cell(&across, x);
    return true;
}
