/* panels: see panels.h. */
#include "tools/panels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/canvas.h"
#include "tools/ticks.h"

#define PAPER 0xFFFFFF
#define INK   0x222222

/* ---- colour bar ------------------------------------------------------------------------------ */

struct bar {
    struct pixel_box box;
    int scale, widest;
    struct heat_range range;
    struct ticks ticks;
    char low[24], high[24];
};

static int wider(int width, const char *text, int scale) {
    const int other = canvas_text_width(text, scale);
    return other > width ? other : width;
}

int panels_scale(int height) {
    return height < 300 ? 1 : height < 900 ? 2 : height / 300;
}

static struct bar bar_plan(const struct heat_style *style, const struct panels_bar *asked,
                           const struct image *canvas) {
    const bool whole = asked->top >= asked->bottom;
    const int scale = asked->scale > 0 ? asked->scale : panels_scale(canvas->height);
    const int pad = CANVAS_CAPITAL * scale;
    struct bar bar = {.scale = scale, .range = style->range};
    int most;
    bar.box =
        (struct pixel_box){canvas->width + pad, asked->top, canvas->width + 3 * pad, asked->bottom};
    if (whole) { /* half a number passes the bar's ends */
        bar.box.y0 = canvas->height > 4 * pad ? pad / 2 + scale : 0;
        bar.box.y1 = canvas->height - bar.box.y0;
    }
    most = (bar.box.y1 - bar.box.y0) / (4 * pad);
    bar.ticks = ticks_make(bar.range.low, bar.range.high,
                           most < 2   ? 2
                           : most > 8 ? 8
                                      : most,
                           false);
    ticks_text(bar.range.low, bar.ticks.step / 10, bar.low, sizeof bar.low);
    ticks_text(bar.range.high, bar.ticks.step / 10, bar.high, sizeof bar.high);
    bar.widest = wider(wider(0, bar.low, scale), bar.high, scale);
    for (int i = 0; i < bar.ticks.count; i++)
        bar.widest = wider(bar.widest, bar.ticks.text[i], scale);
    return bar;
}

static void bar_number(struct image *canvas, const struct bar *bar, int y, const char *text) {
    const int s = bar->scale;
    const struct canvas_text style = {s, INK, 0, 0.5, false};
    const struct pixel_box mark = {bar->box.x1, y - s / 2, bar->box.x1 + 3 * s, y - s / 2 + s};
    canvas_fill(canvas, mark, INK, 1);
    canvas_write(canvas, bar->box.x1 + 5 * s, y, &style, text);
}

/* The ends, and the ticks that are not too near to them. */
static void bar_numbers(struct image *canvas, const struct bar *bar) {
    const double high = bar->range.high, low = bar->range.low;
    const int tall = bar->box.y1 - bar->box.y0, near = 2 * CANVAS_CAPITAL * bar->scale;
    bar_number(canvas, bar, bar->box.y1 - 1, bar->low);
    if (!(high > low)) return;
    bar_number(canvas, bar, bar->box.y0, bar->high);
    for (int i = 0; i < bar->ticks.count; i++) {
        const double up = (bar->ticks.values[i] - low) / (high - low);
        const int y = bar->box.y1 - 1 - (int)lround(up * (tall - 1));
        if (y - bar->box.y0 >= near && bar->box.y1 - y > near)
            bar_number(canvas, bar, y, bar->ticks.text[i]);
    }
}

enum status panels_bar_draw(const struct heat_style *style, const struct panels_bar *asked,
                            struct image *canvas) {
    const struct bar bar = bar_plan(style, asked, canvas);
    const int s = bar.scale, x = bar.box.x1 + 5 * s + bar.widest;
    const int right = x + (asked->title ? 13 * s : 0) + CANVAS_CAPITAL * s;
    const int tall = bar.box.y1 - bar.box.y0;
    TRY(canvas_grow(canvas, 0, 0, right - canvas->width, 0, PAPER));
    for (int y = bar.box.y0; y < bar.box.y1; y++) {
        const float t = tall > 1 ? (float)(bar.box.y1 - 1 - y) / (float)(tall - 1) : 0;
        canvas_fill(canvas, (struct pixel_box){bar.box.x0, y, bar.box.x1, y + 1},
                    colormap_color(style->colormap, t), 1);
    }
    bar_numbers(canvas, &bar);
    if (asked->title)
        canvas_write(canvas, x + 5 * s, (bar.box.y0 + bar.box.y1) / 2,
                     &(struct canvas_text){s, INK, 0, 0.5, true}, asked->title);
    return ST_OK;
}

/* ---- grid of heads --------------------------------------------------------------------------- */

void panels_grid_size(struct panels_grid *grid) {
    int h = 1, w = 1, side = 2400 / (grid->columns > 0 ? grid->columns : 1);
    for (int i = 0; i < grid->rows * grid->columns; i++) {
        if (!grid->panels[i].map) continue;
        h = grid->panels[i].h;
        w = grid->panels[i].w;
        break;
    }
    side = side > 96 ? 96 : side < 16 ? 16 : side;
    grid->width = w >= h ? side : (side * w + h / 2) / h;
    grid->height = h >= w ? side : (side * h + w / 2) / w;
    if (grid->width < 1) grid->width = 1;
    if (grid->height < 1) grid->height = 1;
}

static int grid_scale(const struct panels_grid *grid) {
    return grid->width >= 48 ? 2 : 1;
}

static const char *grid_name(const char *const *names, int i, char *text, size_t size) {
    if (names) return names[i];
    snprintf(text, size, "%d", i);
    return text;
}

/* Space left of the panels and above them. */
static void grid_margin(const struct panels_grid *grid, int *left, int *top) {
    const int s = grid_scale(grid), line = 2 * CANVAS_CAPITAL * s;
    char text[16];
    int widest = 0;
    for (int i = 0; i < grid->rows; i++)
        widest = wider(widest, grid_name(grid->row_names, i, text, sizeof text), s);
    *left = CANVAS_CAPITAL * s + line + widest + CANVAS_CAPITAL * s;
    *top = CANVAS_CAPITAL * s + 2 * line;
}

static int grid_gap(const struct panels_grid *grid) {
    return grid->width >= 48 ? 4 : 2;
}

struct pixel_box panels_grid_box(const struct panels_grid *grid, int row, int column) {
    int left, top;
    grid_margin(grid, &left, &top);
    left += column * (grid->width + grid_gap(grid));
    top += row * (grid->height + grid_gap(grid));
    return (struct pixel_box){left, top, left + grid->width, top + grid->height};
}

static void grid_words(const struct panels_grid *grid, struct image *out) {
    const int s = grid_scale(grid), pad = CANVAS_CAPITAL * s;
    const struct pixel_box first = panels_grid_box(grid, 0, 0),
                           last = panels_grid_box(grid, grid->rows - 1, grid->columns - 1);
    const struct canvas_text beside = {s, INK, 1, 0.5, false}, above = {s, INK, 0.5, 1, false};
    char text[16];
    for (int i = 0; i < grid->rows; i++) {
        const struct pixel_box box = panels_grid_box(grid, i, 0);
        canvas_write(out, box.x0 - pad, (box.y0 + box.y1) / 2, &beside,
                     grid_name(grid->row_names, i, text, sizeof text));
    }
    for (int i = 0; i < grid->columns; i++) {
        const struct pixel_box box = panels_grid_box(grid, 0, i);
        canvas_write(out, (box.x0 + box.x1) / 2, box.y0 - pad, &above,
                     grid_name(grid->column_names, i, text, sizeof text));
    }
    canvas_write(out, pad, (first.y0 + last.y1) / 2, &(struct canvas_text){s, INK, 0, 0.5, true},
                 grid->row_title);
    canvas_write(out, (first.x0 + last.x1) / 2, pad, &(struct canvas_text){s, INK, 0.5, 0, false},
                 grid->column_title);
}

/* `behind` at the size of a panel. */
static enum status grid_behind(const struct panels_grid *grid, struct image *out) {
    const struct image *from = grid->behind;
    struct resize job = {.filter = FILTER_BICUBIC};
    TRY(canvas_open(grid->width, grid->height, PAPER, out));
    job.src = from->rgb;
    job.src_w = from->width;
    job.src_h = from->height;
    job.out_w = job.crop_w = grid->width;
    job.out_h = job.crop_h = grid->height;
    return resize_rgb(&job, out->rgb);
}

static enum status grid_panels(const struct heat_style *style, const struct panels_grid *grid,
                               const struct image *behind, struct image *out) {
    for (int i = 0; i < grid->rows * grid->columns; i++) {
        const struct panel *panel = &grid->panels[i];
        const struct pixel_box box = panels_grid_box(grid, i / grid->columns, i % grid->columns);
        struct heat_style own = *style;
        if (!panel->map) continue;
        if (grid->own_range)
            own.range = heat_range_of(panel->map, (size_t)panel->h * (size_t)panel->w, false);
        if (behind->rgb)
            canvas_copy(out, box.x0, box.y0, behind);
        else
            own.opacity = 1, own.fade = false;
        TRY(heat_draw(&own, panel->map, panel->h, panel->w, out, box));
    }
    return ST_OK;
}

/* The bar of all panels, as high as they are. */
static enum status grid_bar(const struct heat_style *style, const struct panels_grid *grid,
                            struct image *canvas) {
    const struct panels_bar bar = {grid->title, panels_grid_box(grid, 0, 0).y0,
                                   panels_grid_box(grid, grid->rows - 1, 0).y1, grid_scale(grid)};
    return grid->own_range ? ST_OK : panels_bar_draw(style, &bar, canvas);
}

enum status panels_grid_draw(const struct heat_style *style, const struct panels_grid *grid,
                             struct image *out) {
    const int most = 1 << 14;
    struct image behind = {0}, canvas = {0};
    struct pixel_box last;
    enum status st = ST_OK;
    int pad;
    if (grid->rows < 1 || grid->columns < 1 || grid->rows > most || grid->columns > most ||
        grid->width < 1 || grid->height < 1 || grid->width > most || grid->height > most)
        return fail(ST_USAGE, "a grid of %d x %d maps of %d x %d pixels", grid->rows, grid->columns,
                    grid->width, grid->height);
    last = panels_grid_box(grid, grid->rows - 1, grid->columns - 1);
    pad = CANVAS_CAPITAL * grid_scale(grid);
    TRY_OUT(canvas_open(last.x1 + pad, last.y1 + pad, PAPER, &canvas));
    if (grid->behind) TRY_OUT(grid_behind(grid, &behind));
    grid_words(grid, &canvas);
    TRY_OUT(grid_panels(style, grid, &behind, &canvas));
    TRY_OUT(grid_bar(style, grid, &canvas));
    *out = canvas;
    canvas = (struct image){0};
out:
    image_release(&behind);
    image_release(&canvas);
    return st;
}

/* ---- matrix ---------------------------------------------------------------------------------- */

#define MATRIX_SCALE 2
#define MATRIX_SIDE  800  /* pixels aimed at */
#define MATRIX_MOST  2048 /* pixels of the longer side */

/* zoom > 0: pixels a value; else -zoom values a pixel, each way. */
static int matrix_zoom(const struct panels_matrix *matrix) {
    const int longer = matrix->queries > matrix->keys ? matrix->queries : matrix->keys;
    if (longer > MATRIX_MOST) return -((longer - 1) / MATRIX_MOST + 1);
    return longer >= MATRIX_SIDE ? 1 : MATRIX_SIDE / longer > 32 ? 32 : MATRIX_SIDE / longer;
}

static int zoomed(int tokens, int zoom) {
    return zoom > 0 ? tokens * zoom : (tokens - 1) / -zoom + 1;
}

struct pixel_box panels_matrix_box(const struct panels_matrix *matrix) {
    const int zoom = matrix_zoom(matrix), pad = CANVAS_CAPITAL * MATRIX_SCALE;
    struct pixel_box box = {4 * pad, matrix->title ? 3 * pad : pad, 0, 0};
    char text[16];
    snprintf(text, sizeof text, "%d", matrix->queries);
    box.x0 += canvas_text_width(text, MATRIX_SCALE);
    box.x1 = box.x0 + zoomed(matrix->keys, zoom);
    box.y1 = box.y0 + zoomed(matrix->queries, zoom);
    return box;
}

/* pooled (zoomed queries, zoomed keys): the greatest of each square of `side` values. */
static void pool(const struct panels_matrix *matrix, int side, float *pooled) {
    const int across = zoomed(matrix->keys, -side);
    const float *value = matrix->values;
    for (int q = 0; q < matrix->queries; q++)
        for (int k = 0; k < matrix->keys; k++, value++) {
            float *to = pooled + (size_t)(q / side) * (size_t)across + (size_t)(k / side);
            if ((q % side == 0 && k % side == 0) || *value > *to) *to = *value;
        }
}

static enum status matrix_values(const struct heat_style *style, const struct panels_matrix *matrix,
                                 struct image *out, struct pixel_box box) {
    const int zoom = matrix_zoom(matrix);
    struct heat_style plain = *style;
    const int h = box.y1 - box.y0, w = box.x1 - box.x0;
    float *pooled;
    enum status st;
    plain.filter = HEAT_NEAREST;
    plain.opacity = 1;
    plain.fade = false;
    if (zoom > 0) return heat_draw(&plain, matrix->values, matrix->queries, matrix->keys, out, box);
    pooled = mem_zalloc((size_t)h * (size_t)w, sizeof *pooled);
    if (!pooled) return ST_NOMEM;
    pool(matrix, -zoom, pooled);
    st = heat_draw(&plain, pooled, h, w, out, box);
    mem_free(pooled);
    return st;
}

/* The middle of a token's square, from the box's edge. */
static int token_middle(double token, int zoom) {
    return zoom > 0 ? (int)token * zoom + zoom / 2 : (int)token / -zoom;
}

static void matrix_words(const struct panels_matrix *matrix, struct pixel_box box,
                         struct image *out) {
    const int zoom = matrix_zoom(matrix), s = MATRIX_SCALE, pad = CANVAS_CAPITAL * s,
              w = box.x1 - box.x0, h = box.y1 - box.y0;
    const struct ticks across = ticks_make(0, matrix->keys - 1, w / (8 * pad) + 2, true),
                       down = ticks_make(0, matrix->queries - 1, h / (8 * pad) + 2, true);
    const int middle_x = (box.x0 + box.x1) / 2, middle_y = (box.y0 + box.y1) / 2;
    for (int i = 0; i < across.count; i++) {
        const int x = box.x0 + token_middle(across.values[i], zoom);
        canvas_fill(out, (struct pixel_box){x, box.y1, x + 1, box.y1 + 3 * s}, INK, 1);
        canvas_write(out, x, box.y1 + 5 * s, &(struct canvas_text){s, INK, 0.5, 0, false},
                     across.text[i]);
    }
    for (int i = 0; i < down.count; i++) {
        const int y = box.y0 + token_middle(down.values[i], zoom);
        canvas_fill(out, (struct pixel_box){box.x0 - 3 * s, y, box.x0, y + 1}, INK, 1);
        canvas_write(out, box.x0 - 5 * s, y, &(struct canvas_text){s, INK, 1, 0.5, false},
                     down.text[i]);
    }
    canvas_write(out, middle_x, out->height - pad, &(struct canvas_text){s, INK, 0.5, 1, false},
                 "key");
    canvas_write(out, pad, middle_y, &(struct canvas_text){s, INK, 0, 0.5, true}, "query");
    if (matrix->title)
        canvas_write(out, middle_x, pad, &(struct canvas_text){s, INK, 0.5, 0, false},
                     matrix->title);
}

static void matrix_prefix(const struct panels_matrix *matrix, struct pixel_box box,
                          struct image *out) {
    const int zoom = matrix_zoom(matrix), at = zoom * matrix->prefix;
    if (matrix->prefix < 1 || zoom < 2) return; /* no room for a line */
    canvas_fill(out, (struct pixel_box){box.x0 + at, box.y0, box.x0 + at + 1, box.y1}, PAPER, 0.6F);
    canvas_fill(out, (struct pixel_box){box.x0, box.y0 + at, box.x1, box.y0 + at + 1}, PAPER, 0.6F);
}

enum status panels_matrix_draw(const struct heat_style *style, const struct panels_matrix *matrix,
                               struct image *out) {
    const int s = MATRIX_SCALE, pad = CANVAS_CAPITAL * s;
    struct panels_bar bar = {.title = matrix->bar_title, .scale = s};
    struct image canvas = {0};
    struct pixel_box box;
    enum status st;
    if (matrix->queries < 1 || matrix->keys < 1)
        return fail(ST_USAGE, "a matrix of %d queries and %d keys", matrix->queries, matrix->keys);
    box = panels_matrix_box(matrix);
    bar.top = box.y0;
    bar.bottom = box.y1;
    TRY(canvas_open(box.x1 + 2 * pad, box.y1 + 5 * pad, PAPER, &canvas));
    TRY_OUT(matrix_values(style, matrix, &canvas, box));
    matrix_prefix(matrix, box, &canvas);
    matrix_words(matrix, box, &canvas);
    TRY_OUT(panels_bar_draw(style, &bar, &canvas));
    *out = canvas;
    return ST_OK;
out:
    image_release(&canvas);
    return st;
}
