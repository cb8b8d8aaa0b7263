/* heat_mass: see heat_mass.h. */
#include "tools/heat_mass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/canvas.h"

struct ranked {
    float value;
    size_t index;
};

static int greatest_first(const void *left, const void *right) {
    const struct ranked *a = left, *b = right;
    if (a->value != b->value) return a->value > b->value ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

enum status heat_mass(const float *map, size_t count, double mass, uint8_t *keep) {
    struct ranked *cells;
    double sum = 0, held = 0;
    if (!(mass >= 0 && mass <= 1)) return fail(ST_USAGE, "the mass is %g, want 0 to 1", mass);
    cells = mem_zalloc(count, sizeof *cells);
    if (!cells) return ST_NOMEM;
    for (size_t i = 0; i < count; i++) {
        if (!(map[i] >= 0 && isfinite(map[i]))) {
            mem_free(cells);
            return fail(ST_USAGE, "cell %zu of the map is %g, want shares of at least 0", i,
                        (double)map[i]);
        }
        cells[i] = (struct ranked){map[i], i};
        sum += map[i];
    }
    qsort(cells, count, sizeof *cells, greatest_first);
    memset(keep, 0, count);
    for (size_t i = 0; i < count && held < mass * sum - 1e-9 * sum; i++) {
        keep[cells[i].index] = 1;
        held += cells[i].value;
    }
    mem_free(cells);
    return ST_OK;
}

static bool empty(struct pixel_box box) {
    return box.x0 >= box.x1 || box.y0 >= box.y1;
}

struct pixel_box heat_mass_box(const uint8_t *keep, const struct grid_place *place) {
    struct pixel_box all = {0, 0, 0, 0};
    for (int row = 0; row < place->rows; row++)
        for (int column = 0; column < place->columns; column++) {
            const struct pixel_box box = grid_place_box(place, row, column, 1, 1);
            if (!keep[row * place->columns + column] || empty(box)) continue;
            if (empty(all)) all = box;
            if (box.x0 < all.x0) all.x0 = box.x0;
            if (box.y0 < all.y0) all.y0 = box.y0;
            if (box.x1 > all.x1) all.x1 = box.x1;
            if (box.y1 > all.y1) all.y1 = box.y1;
        }
    return all;
}

/* Everything but the kept cells. Cells smaller than a pixel share it: kept wins. */
static enum status darken(const uint8_t *keep, const struct grid_place *place,
                          struct image *picture) {
    const size_t width = (size_t)picture->width;
    uint8_t *light = mem_zalloc(width, (size_t)picture->height); /* (height, width) */
    if (!light) return ST_NOMEM;
    for (int row = 0; row < place->rows; row++)
        for (int column = 0; column < place->columns; column++) {
            const struct pixel_box box = grid_place_box(place, row, column, 1, 1);
            if (!keep[row * place->columns + column] || empty(box)) continue;
            for (int y = box.y0; y < box.y1; y++)
                memset(light + (size_t)y * width + (size_t)box.x0, 1, (size_t)(box.x1 - box.x0));
        }
    for (size_t i = 0; i < width * (size_t)picture->height; i++)
        if (!light[i]) canvas_blend(picture->rgb + 3 * i, 0x000000, 0.7F);
    mem_free(light);
    return ST_OK;
}

static bool kept(const uint8_t *keep, const struct grid_place *place, int row, int column) {
    return row >= 0 && column >= 0 && row < place->rows && column < place->columns &&
           keep[row * place->columns + column];
}

/* The sides of a kept cell behind which nothing is kept, inside the cell. */
static void outline(const uint8_t *keep, const struct grid_place *place, int row, int column,
                    int thick, struct image *picture) {
    const struct pixel_box b = grid_place_box(place, row, column, 1, 1);
    const struct {
        int row, column;
        struct pixel_box line;
    } sides[] = {{row - 1, column, {b.x0, b.y0, b.x1, b.y0 + thick}},
                 {row + 1, column, {b.x0, b.y1 - thick, b.x1, b.y1}},
                 {row, column - 1, {b.x0, b.y0, b.x0 + thick, b.y1}},
                 {row, column + 1, {b.x1 - thick, b.y0, b.x1, b.y1}}};
    for (size_t i = 0; i < COUNT_OF(sides) && !empty(b); i++)
        if (!kept(keep, place, sides[i].row, sides[i].column))
            canvas_fill(picture, sides[i].line, 0xFFFFFF, 0.6F);
}

enum status heat_mass_draw(const uint8_t *keep, const struct grid_place *place, uint32_t color,
                           struct image *picture) {
    const int shorter = picture->width < picture->height ? picture->width : picture->height;
    const int thin = shorter / 400 + 1;
    TRY(grid_place_check(place));
    if (picture->width != place->image_w || picture->height != place->image_h)
        return fail(ST_USAGE, "the picture is %d x %d, the map was placed on %d x %d",
                    picture->width, picture->height, place->image_w, place->image_h);
    TRY(darken(keep, place, picture));
    for (int row = 0; row < place->rows; row++)
        for (int column = 0; column < place->columns; column++)
            if (kept(keep, place, row, column)) outline(keep, place, row, column, thin, picture);
    canvas_frame(picture, heat_mass_box(keep, place), thin + 1, color);
    return ST_OK;
}
