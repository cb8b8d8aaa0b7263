/*
 * panels: maps with words and numbers around them: a colour bar, all heads of all layers side by
 * side, and a matrix of queries by keys. Black on white; pictures are to be released by the caller.
 */
#ifndef TOOLS_PANELS_H
#define TOOLS_PANELS_H

#include "tools/heat_map.h"

/*
 * `canvas` grows to the right by a bar of the style's colours from row `top` to row `bottom`, with
 * the range's ends and round numbers between them; `title` stands upward beside it, or is NULL.
 * scale 0: that of text on a picture of this height (panels_scale). ST_NOMEM.
 */
struct panels_bar {
    const char *title;
    int top, bottom; /* 0, 0: the whole height */
    int scale;       /* of canvas_write */
};
enum status panels_bar_draw(const struct heat_style *style, const struct panels_bar *bar,
                            struct image *canvas) MUST_CHECK;

/* 1 below 300 pixels, 2 below 900, then a capital is about 1/43 of the height. */
int panels_scale(int height);

/* One map of the grid; NULL where there is none (a stage with fewer heads). */
struct panel {
    const float *map; /* (h, w) */
    int h, w;
};

struct panels_grid {
    const char *title;          /* of the colour bar; may be NULL */
    const struct panel *panels; /* (rows, columns) */
    int rows, columns;
    const char *const *row_names, *const *column_names; /* (rows), (columns); NULL: 0, 1, 2, ... */
    const char *row_title, *column_title;               /* "layer", "head" */
    const struct image *behind; /* what the model saw, under every map; NULL: the map alone */
    int width, height;          /* pixels of a panel (panels_grid_size) */
    bool own_range;             /* no bar; every panel from its own least to its own greatest */
};

/*
 * Sets width and height: the aspect of the first map, 96 pixels on the longer side, or fewer (at
 * least 16) so that the panels stay within 2400 pixels across.
 */
void panels_grid_size(struct panels_grid *grid);

/* Where the panel of (row, column) is drawn. */
struct pixel_box panels_grid_box(const struct panels_grid *grid, int row, int column);

/*
 * All panels, their names above and to the left, and for a range of all the colour bar (`title`
 * beside it). style->opacity and fade count only over a picture behind. ST_USAGE for an empty grid
 * or panels without size; ST_NOMEM.
 */
enum status panels_grid_draw(const struct heat_style *style, const struct panels_grid *grid,
                             struct image *out) MUST_CHECK;

/*
 * values (queries, keys) as a picture: queries downward, keys to the right, from 0 on. Each value
 * is a square of at least 1 pixel; above 2048 a side, one pixel is the greatest of a square of
 * values. Behind the first `prefix` tokens (class, distillation, registers) a thin line sets them
 * apart. ST_USAGE for a size below 1; ST_NOMEM.
 */
struct panels_matrix {
    const float *values;
    int queries, keys, prefix;
    const char *title, *bar_title; /* above the matrix, beside the colour bar; each may be NULL */
};
enum status panels_matrix_draw(const struct heat_style *style, const struct panels_matrix *matrix,
                               struct image *out) MUST_CHECK;
struct pixel_box panels_matrix_box(const struct panels_matrix *matrix); /* where the values are */

#endif
