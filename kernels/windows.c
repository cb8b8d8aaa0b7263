/* windows: see windows.h. */
#include "kernels/windows.h"

/* The first slot of a window on the padded map. */
static void window_origin(const struct window_grid *g, int window, int *y, int *x) {
    int across = (g->grid_w + g->window_w - 1) / g->window_w;
    *y = window / across * g->window_h;
    *x = window % across * g->window_w;
}

/* Where slot `at` of an axis comes from: the shift wraps around; behind the map is padding. */
static int unshifted(int at, int shift, int length) {
    if (at >= length) return -1;
    while (shift >= length - at) /* at + shift >= length */
        shift -= length;
    return at + shift;
}

void window_tokens(const struct window_grid *g, int window, int *token) {
    int y0, x0;
    window_origin(g, window, &y0, &x0);
    for (int y = y0; y < y0 + g->window_h; y++) {
        int row = unshifted(y, g->shift_h, g->grid_h);
        for (int x = x0; x < x0 + g->window_w; x++) {
            int column = unshifted(x, g->shift_w, g->grid_w);
            *token++ = row < 0 || column < 0 ? -1 : row * g->grid_w + column;
        }
    }
}

/* The borders between an axis' regions 0, 1 and 2: the first slots of 1 and 2. */
struct borders {
    int first, second;
};

static struct borders axis_borders(int window, int shift, int length) {
    int padded = (length + window - 1) / window * window;
    if (shift == 0) return (struct borders){padded, padded};
    return (struct borders){padded - window, padded - shift};
}

static int axis_region(int at, struct borders borders) {
    return (at >= borders.first) + (at >= borders.second);
}

bool window_regions(const struct window_grid *g, int window, int *region) {
    struct borders rows = axis_borders(g->window_h, g->shift_h, g->grid_h);
    struct borders columns = axis_borders(g->window_w, g->shift_w, g->grid_w);
    int y0, x0, *next = region;
    window_origin(g, window, &y0, &x0);
    for (int y = y0; y < y0 + g->window_h; y++) {
        int row = 3 * axis_region(y, rows);
        for (int x = x0; x < x0 + g->window_w; x++)
            *next++ = row + axis_region(x, columns);
    }
    return region[0] != next[-1];
}
