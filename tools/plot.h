/*
 * plot: lines over axes, with a legend: deletion and insertion curves and their kin.
 */
#ifndef TOOLS_PLOT_H
#define TOOLS_PLOT_H

#include "datasets/image.h"
#include "datasets/placement.h"

struct plot_line {
    const char *name;   /* for the legend above the axes; NULL: not in it */
    const float *x, *y; /* (count); points that are not finite break the line */
    int count;
};

struct plot {
    const char *title, *x_title, *y_title; /* each may be NULL */
    const struct plot_line *lines;         /* (count) the first is blue, then orange, green, ... */
    int count;
    double x_low, x_high, y_low, y_high; /* of the axes; what lies outside is cut off */
    bool filled;                         /* the area between a line and y_low, faintly */
    int width, height;                   /* pixels, at least 160 x 120; 0: 720 x 480 */
};

/*
 * Black on white; out is to be released. Point (x, y) is drawn where plot_box says that the axes
 * are: (x_low, y_low) its lower left corner, (x_high, y_high) its upper right. ST_USAGE for
 * axes without length or a picture too small; ST_NOMEM.
 */
enum status plot_draw(const struct plot *plot, struct image *out) MUST_CHECK;
struct pixel_box plot_box(const struct plot *plot);

#endif
