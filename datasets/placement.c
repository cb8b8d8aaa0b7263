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

/* Pixels [*from, *to) of the axis whose centres lie in cells [cell, cell+count). */
static void axis_pixels(const struct grid_axis *a, int cell, int count, int *from, int *to) {
    const double low = (cell - a->offset) / a->scale, high = (cell + count - a->offset) / a->scale;
    const double middle = (low + high) / 2;
    *from = clamped(ceil(low - 0.5), a->pixels);
    *to = clamped(ceil(high - 0.5), a->pixels);
    if (*from < *to || middle < 0 || middle >= a->pixels) return;
    *from = (int)middle;
    *to = *from + 1;
}

struct pixel_box grid_place_box(const struct grid_place *place, int row, int column, int rows,
                                int columns) {
    const struct grid_axis x = grid_axis_x(place), y = grid_axis_y(place);
    struct pixel_box box;
    axis_pixels(&x, column, columns, &box.x0, &box.x1);
    axis_pixels(&y, row, rows, &box.y0, &box.y1);
    return box;
}

struct pixel_box grid_place_seen(const struct grid_place *place) {
    return grid_place_box(place, 0, 0, place->rows, place->columns);
}

/* A pixel that the model saw is in a cell, even if its centre just misses the outermost. */
static int axis_cell(const struct grid_axis *a, int pixel) {
    return clamped(floor((pixel + 0.5) * a->scale + a->offset), a->cells - 1);
}

bool grid_place_cell(const struct grid_place *place, int x, int y, int *row, int *column) {
    const struct grid_axis across = grid_axis_x(place), down = grid_axis_y(place);
    const struct pixel_box seen = grid_place_seen(place);
    if (x < seen.x0 || x >= seen.x1 || y < seen.y0 || y >= seen.y1) return false;
    *row = axis_cell(&down, y);
    *column = axis_cell(&across, x);
    return true;
}
