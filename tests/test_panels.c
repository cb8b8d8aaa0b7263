/* panels: where bars, panels and matrices are drawn, and that their colours are the values'. */
#include "tools/panels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/canvas.h"

#include <cmocka.h>

static uint32_t color_at(const struct image *image, int x, int y) {
    const uint8_t *p = image->rgb + 3 * (y * image->width + x);
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static bool blank(const struct image *image, int x, int y0, int y1) {
    for (int y = y0; y < y1; y++)
        if (color_at(image, x, y) != 0xFFFFFF) return false;
    return true;
}

static const struct heat_style gray = {COLORMAP_GRAY, HEAT_NEAREST, {0, 1}, 1, false};

/* The picture stays as it was; the bar runs from the last colour at the top to the first. */
static void bars(void **state) {
    static const int sizes[][2] = {{40, 30}, {300, 200}, {500, 375}, {90, 1200}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const int w = sizes[i][0], h = sizes[i][1], pad = 7 * panels_scale(h);
        const int edge = h > 4 * pad ? pad / 2 + panels_scale(h) : 0, x = w + 2 * pad;
        struct image image;
        assert_int_equal(canvas_open(w, h, 0x204060, &image), ST_OK);
        assert_int_equal(panels_bar_draw(&gray, &(struct panels_bar){.title = "share"}, &image),
                         ST_OK);
        assert_int_equal(image.height, h);
        assert_true(image.width > w + 3 * pad);
        assert_int_equal(color_at(&image, 0, 0), 0x204060);
        assert_int_equal(color_at(&image, w - 1, h - 1), 0x204060);
        assert_int_equal(color_at(&image, x, edge), 0xFFFFFF);
        assert_int_equal(color_at(&image, x, h - 1 - edge), 0x000000);
        assert_in_range(color_at(&image, x, h / 2) & 255, 120, 136);
        for (int y = edge + 1; y < h - edge; y++)
            assert_true(color_at(&image, x, y) <= color_at(&image, x, y - 1));
        assert_true(blank(&image, w, 0, h) && blank(&image, image.width - 1, 0, h));
        image_release(&image);
    }
}

/* A constant map has one number, and nothing is divided by its range. */
static void flat_bar(void **state) {
    struct heat_style style = gray;
    struct image image;
    (void)state;
    style.range = (struct heat_range){0.25F, 0.25F};
    assert_int_equal(canvas_open(100, 100, 0, &image), ST_OK);
    assert_int_equal(panels_bar_draw(&style, &(struct panels_bar){.title = NULL}, &image), ST_OK);
    image_release(&image);
}

static void grid_sizes(void **state) {
    static const struct {
        int columns, h, w, height, width;
    } cases[] = {{12, 14, 14, 96, 96}, {12, 7, 14, 48, 96},   {3, 14, 7, 96, 48},
                 {48, 14, 14, 50, 50}, {500, 14, 14, 16, 16}, {1, 1, 200, 1, 96}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        static const float value = 0;
        struct panel panels[500] = {{0}}; /* the first has no map */
        struct panels_grid grid = {.panels = panels, .rows = 1, .columns = cases[i].columns};
        const int at = cases[i].columns > 1 ? 1 : 0;
        panels[at] = (struct panel){&value, cases[i].h, cases[i].w};
        panels_grid_size(&grid);
        assert_int_equal(grid.height, cases[i].height);
        assert_int_equal(grid.width, cases[i].width);
    }
}

/* Every panel in its place with its own values, gaps between, white where there is no map. */
static void grid_places(void **state) {
    static const char *const names[] = {"stage 0", "stage 1"};
    float maps[6][4];
    struct panel panels[6];
    struct panels_grid grid = {.panels = panels,
                               .rows = 2,
                               .columns = 3,
                               .row_names = names,
                               .row_title = "block",
                               .column_title = "head",
                               .width = 50,
                               .height = 40};
    struct image image;
    (void)state;
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 4; k++)
            maps[i][k] = (float)(i * 4 + k) / 24;
        panels[i] = (struct panel){i == 5 ? NULL : maps[i], 2, 2};
    }
    assert_int_equal(panels_grid_draw(&gray, &grid, &image), ST_OK);
    for (int i = 0; i < 6; i++) {
        const struct pixel_box box = panels_grid_box(&grid, i / 3, i % 3);
        assert_int_equal(box.x1 - box.x0, 50);
        assert_int_equal(box.y1 - box.y0, 40);
        if (i % 3) assert_int_equal(box.x0, panels_grid_box(&grid, 0, i % 3 - 1).x1 + 4);
        if (i / 3) assert_int_equal(box.y0, panels_grid_box(&grid, 0, 0).y1 + 4);
        assert_int_equal(color_at(&image, box.x1, box.y0), 0xFFFFFF);
        assert_int_equal(color_at(&image, box.x0, box.y1), 0xFFFFFF);
        for (int k = 0; k < 4; k++) {
            const int x = box.x0 + 12 + 25 * (k % 2), y = box.y0 + 10 + 20 * (k / 2);
            const uint32_t want = i == 5 ? 0xFFFFFF : colormap_color(COLORMAP_GRAY, maps[i][k]);
            assert_int_equal(color_at(&image, x, y), want);
        }
    }
    image_release(&image);
}

static void grid_ranges(void **state) {
    static const float maps[2][2] = {{0, 0.5F}, {0.5F, 1}};
    const struct panel panels[2] = {{maps[0], 1, 2}, {maps[1], 1, 2}};
    struct image behind, image;
    struct panels_grid grid = {.panels = panels,
                               .rows = 1,
                               .columns = 2,
                               .row_title = "layer",
                               .column_title = "head",
                               .width = 20,
                               .height = 10};
    struct heat_style style = gray;
    struct pixel_box box;
    int with_bar;
    (void)state;
    assert_int_equal(canvas_open(224, 224, 0x804020, &behind), ST_OK);
    box = panels_grid_box(&grid, 0, 0);
    assert_int_equal(panels_grid_draw(&style, &grid, &image), ST_OK);
    with_bar = image.width;
    assert_int_equal(color_at(&image, box.x1 - 3, box.y0 + 5), 0x808080);
    image_release(&image);
    grid.own_range = true;
    assert_int_equal(panels_grid_draw(&style, &grid, &image), ST_OK);
    assert_true(image.width < with_bar);
    assert_int_equal(color_at(&image, box.x1 - 3, box.y0 + 5), 0xFFFFFF);
    image_release(&image);
    grid.behind = &behind;
    style.opacity = 0.5F;
    assert_int_equal(panels_grid_draw(&style, &grid, &image), ST_OK);
    assert_int_equal(color_at(&image, box.x0 + 3, box.y0 + 5), 0x402010);
    image_release(&image);
    image_release(&behind);
    grid.rows = 0;
    assert_int_equal(panels_grid_draw(&style, &grid, &image), ST_USAGE);
    grid.rows = 1;
    grid.width = 0;
    assert_int_equal(panels_grid_draw(&style, &grid, &image), ST_USAGE);
}

/* A value's square, wherever it is; above 2048 the greatest of a square of values. */
static void matrices(void **state) {
    static const struct {
        int queries, keys, width, height, zoom, side; /* pixels a value, values a pixel */
    } cases[] = {{1, 1, 32, 32, 32, 1},      {5, 3, 96, 160, 32, 1},   {197, 197, 788, 788, 4, 1},
                 {1000, 10, 10, 1000, 1, 1}, {2049, 3, 2, 1025, 1, 2}, {49, 4100, 1367, 17, 1, 3}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const int q = cases[i].queries, k = cases[i].keys, mark = q * k / 2;
        struct panels_matrix matrix = {NULL, q, k, 0, "layer 0", "share"};
        float *values = mem_zalloc((size_t)q * (size_t)k, sizeof *values);
        struct pixel_box box;
        struct image image;
        int lit = 0, x, y;
        matrix.values = values;
        values[mark] = 1;
        box = panels_matrix_box(&matrix);
        assert_int_equal(box.x1 - box.x0, cases[i].width);
        assert_int_equal(box.y1 - box.y0, cases[i].height);
        assert_int_equal(panels_matrix_draw(&gray, &matrix, &image), ST_OK);
        for (y = box.y0; y < box.y1; y++)
            for (x = box.x0; x < box.x1; x++)
                lit += color_at(&image, x, y) == 0xFFFFFF;
        x = box.x0 + mark % k / cases[i].side * cases[i].zoom;
        y = box.y0 + mark / k / cases[i].side * cases[i].zoom;
        assert_int_equal(color_at(&image, x, y), 0xFFFFFF);
        assert_int_equal(lit, cases[i].zoom * cases[i].zoom);
        image_release(&image);
        mem_free(values);
    }
}

static void matrix_prefix(void **state) {
    const float values[16] = {0};
    struct panels_matrix matrix = {values, 4, 4, 1, NULL, NULL};
    const struct pixel_box box = panels_matrix_box(&matrix);
    struct image image;
    (void)state;
    assert_int_equal(panels_matrix_draw(&gray, &matrix, &image), ST_OK);
    assert_int_equal(color_at(&image, box.x0 + 32, box.y0 + 100), 0x999999);
    assert_int_equal(color_at(&image, box.x0 + 100, box.y0 + 32), 0x999999);
    assert_int_equal(color_at(&image, box.x0 + 31, box.y0 + 31), 0x000000);
    image_release(&image);
    matrix.queries = 0;
    assert_int_equal(panels_matrix_draw(&gray, &matrix, &image), ST_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars),         cmocka_unit_test(flat_bar),    cmocka_unit_test(grid_sizes),
        cmocka_unit_test(grid_places),  cmocka_unit_test(grid_ranges), cmocka_unit_test(matrices),
        cmocka_unit_test(matrix_prefix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
