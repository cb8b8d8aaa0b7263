/*
 * placement: which pixels of a picture a cell of the model's grid is, and which cell a pixel is.
 *
 * The model saw a crop of the resized picture (preprocess.h); a grid of patches lies over that.
 * Along each axis, in edges (pixel i covers [i, i+1), its centre is i + 0.5, as the resize has it):
 *
 *     cell = (pixel * resized / picture - start of the crop) * cells / pixels of the model
 */
#ifndef DATASETS_PLACEMENT_H
#define DATASETS_PLACEMENT_H

#include "datasets/preprocess.h"

/*
 * The grid over a picture. The picture is the upright one that was preprocessed; where another size
 * of it is drawn on (a thumbnail, an enlargement), that size is given and everything is in its
 * pixels.
 */
struct grid_place {
    struct placement at;  /* of preprocess_image */
    int image_w, image_h; /* the picture */
    int model_w, model_h; /* pixels of the model's input under the grid, from its (0, 0) */
    int columns, rows;    /* cells */
};

/* One axis of it: cell = pixel * scale + offset, both in edges. */
struct grid_axis {
    double scale, offset;
    int cells, pixels;
};

/* Pixels [x0, x1) x [y0, y1); empty when x1 <= x0 or y1 <= y0. */
struct pixel_box {
    int x0, y0, x1, y1;
};

/* ST_USAGE for a size below 1. */
enum status grid_place_check(const struct grid_place *place) MUST_CHECK;

struct grid_axis grid_axis_x(const struct grid_place *place);
struct grid_axis grid_axis_y(const struct grid_place *place);

/*
 * The pixels whose centres lie in cells [column, column+columns) x [row, row+rows), at least one
 * where the cells' middle is in the picture: a cell can be smaller than a pixel. Empty for cells
 * that lie in the padding. Neighbours leave no pixel out; only cells that small share one.
 */
struct pixel_box grid_place_box(const struct grid_place *place, int row, int column, int rows,
                                int columns);

/* What the model saw of the picture: the box of all cells, never empty. */
struct pixel_box grid_place_seen(const struct grid_place *place);

/*
 * The cell under the centre of pixel (x, y). False, nothing written, when the model did not see it,
 * or it is not of the picture.
 */
bool grid_place_cell(const struct grid_place *place, int x, int y, int *row, int *column);

#endif
