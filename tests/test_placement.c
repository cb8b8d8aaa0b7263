/* placement: cells and pixels where preprocess_image put them, by hand and both ways. */
#include "datasets/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct preprocess rule_make(int side, double pct, enum crop_mode mode) {
    return (struct preprocess){
        side, side, pct, mode, ROUND_HALF_EVEN, FILTER_BICUBIC, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
}

/* Where preprocess_image says that a black picture went; a grid of cells over it. */
static struct grid_place place_make(const struct preprocess *rule, int width, int height, int rows,
                                    int columns) {
    struct image image = {width, height, mem_zalloc((size_t)width * (size_t)height, 3), 1};
    struct grid_place place = {.image_w = width,
                               .image_h = height,
                               .model_w = rule->width,
                               .model_h = rule->height,
                               .columns = columns,
                               .rows = rows};
    uint8_t *pixels = mem_zalloc((size_t)rule->width * (size_t)rule->height, 3);
    if (preprocess_image(rule, &image, pixels, &place.at) != ST_OK) fail_msg("%s", fail_message());
    mem_free(pixels);
    image_release(&image);
    return place;
}

/* 224 pixels, 14 x 14 cells of 16. */
static const struct by_hand {
    int width, height;
    double pct;
    enum crop_mode mode;
    int row, column;
    struct pixel_box want;
    const char *why;
} by_hands[] = {
    {224, 224, 1, CROP_CENTER, 3, 5, {80, 48, 96, 64}, "pixel for pixel"},
    {448, 448, 1, CROP_CENTER, 3, 5, {160, 96, 192, 128}, "halved"},
    {500, 375, 0.875, CROP_CENTER, 0, 0, {85, 23, 109, 47}, "341 x 256 at 58, 16: from 85.04"},
    {500, 375, 0.875, CROP_CENTER, 13, 13, {390, 328, 413, 352}, "to 413.49, 351.56"},
    {375, 500, 0.875, CROP_CENTER, 0, 0, {23, 85, 47, 109}, "portrait"},
    {100, 400, 0.9, CROP_SQUASH, 0, 0, {5, 19, 11, 45}, "248 x 248 at 12, 12"},
    {400, 100, 1, CROP_BORDER, 0, 0, {0, 0, 29, 0}, "bars of 84: a row in the padding"},
    {400, 100, 1, CROP_BORDER, 5, 0, {0, 0, 29, 21}, "a row half in the padding"},
    {400, 100, 1, CROP_BORDER, 8, 13, {371, 79, 400, 100}, "and the last"},
    {7, 7, 1, CROP_CENTER, 0, 0, {0, 0, 1, 1}, "two cells a pixel: the first"},
    {7, 7, 1, CROP_CENTER, 1, 1, {0, 0, 1, 1}, "and the second"},
    {20000, 1, 1, CROP_CENTER, 7, 7, {9999, 0, 10000, 1}, "9999.5 to 10000.5: one pixel"},
};

static void cells_by_hand(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(by_hands); i++) {
        const struct by_hand *b = &by_hands[i];
        const struct preprocess rule = rule_make(224, b->pct, b->mode);
        const struct grid_place place = place_make(&rule, b->width, b->height, 14, 14);
        const struct pixel_box got = grid_place_box(&place, b->row, b->column, 1, 1);
        if (got.x0 != b->want.x0 || got.y0 != b->want.y0 || got.x1 != b->want.x1 ||
            got.y1 != b->want.y1)
            fail_msg("%s: (%d, %d) to (%d, %d), want (%d, %d) to (%d, %d)", b->why, got.x0, got.y0,
                     got.x1, got.y1, b->want.x0, b->want.y0, b->want.x1, b->want.y1);
    }
}

static void pixels_by_hand(void **state) {
    static const struct {
        int x, y, row, column;
        bool seen;
    } cases[] = {{84, 23, 0, 0, false},    {85, 22, 0, 0, false},    {85, 23, 0, 0, true},
                 {108, 46, 0, 0, true},    {109, 46, 0, 1, true},    {108, 47, 1, 0, true},
                 {412, 351, 13, 13, true}, {413, 351, 0, 0, false},  {412, 352, 0, 0, false},
                 {248, 186, 6, 6, true},   {-1, 30, 0, 0, false},    {500, 30, 0, 0, false},
                 {90, 375, 0, 0, false},   {90, -1000, 0, 0, false}, {249, 187, 7, 7, true}};
    const struct preprocess rule = rule_make(224, 0.875, CROP_CENTER);
    const struct grid_place place = place_make(&rule, 500, 375, 14, 14);
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int row = 0, column = 0;
        const bool seen = grid_place_cell(&place, cases[i].x, cases[i].y, &row, &column);
        if (seen != cases[i].seen || row != cases[i].row || column != cases[i].column)
            fail_msg("pixel (%d, %d): %s row %d, column %d, want row %d, column %d", cases[i].x,
                     cases[i].y, seen ? "seen," : "not seen,", row, column, cases[i].row,
                     cases[i].column);
    }
}

static bool holds(struct pixel_box box, int x, int y) {
    return x >= box.x0 && x < box.x1 && y >= box.y0 && y < box.y1;
}

/* Pixel to cell and back, and each pixel that was seen in one cell alone. */
static void check_place(const struct grid_place *place, const char *mode) {
    const struct pixel_box seen = grid_place_seen(place);
    const struct grid_axis ax = grid_axis_x(place), ay = grid_axis_y(place);
    size_t area = 0;
    int row, column;
    if (seen.x0 < 0 || seen.y0 < 0 || seen.x1 > place->image_w || seen.y1 > place->image_h ||
        seen.x0 >= seen.x1 || seen.y0 >= seen.y1)
        fail_msg("%s of %d x %d: nothing is seen, or more than the picture", mode, place->image_w,
                 place->image_h);
    for (int y = seen.y0; y < seen.y1; y++)
        for (int x = seen.x0; x < seen.x1; x++)
            if (!grid_place_cell(place, x, y, &row, &column) ||
                !holds(grid_place_box(place, row, column, 1, 1), x, y))
                fail_msg("%s of %d x %d: pixel (%d, %d) is not in its cell", mode, place->image_w,
                         place->image_h, x, y);
    for (int r = 0; r < place->rows; r++)
        for (int c = 0; c < place->columns; c++) {
            const struct pixel_box b = grid_place_box(place, r, c, 1, 1);
            if (b.x0 >= b.x1 || b.y0 >= b.y1) continue;
            area += (size_t)(b.x1 - b.x0) * (size_t)(b.y1 - b.y0);
            if (!holds(seen, b.x0, b.y0) || !holds(seen, b.x1 - 1, b.y1 - 1))
                fail_msg("%s of %d x %d: cell (%d, %d) leaves what was seen", mode, place->image_w,
                         place->image_h, r, c);
        }
    if (ax.scale <= 1 && ay.scale <= 1) /* cells of a pixel or more */
        assert_int_equal(area, (size_t)(seen.x1 - seen.x0) * (size_t)(seen.y1 - seen.y0));
}

static void both_ways(void **state) {
    static const int grids[][2] = {{14, 14}, {7, 7}, {1, 1}, {16, 5}, {56, 56}};
    (void)state;
    srand(7);
    for (int i = 0; i < 400; i++) {
        const enum crop_mode mode = (enum crop_mode)(i % 3);
        const int *grid = grids[rand() % 5];
        const struct preprocess rule = rule_make(20 + rand() % 60, 0.6 + rand() % 60 * 0.01, mode);
        const int thin = rand() % 4 == 0 ? 3 : 200;
        const int width = 1 + rand() % 200, height = 1 + rand() % thin;
        const struct grid_place place = rand() % 2
                                            ? place_make(&rule, width, height, grid[0], grid[1])
                                            : place_make(&rule, height, width, grid[0], grid[1]);
        check_place(&place, crop_mode_name(mode));
    }
}

/* Drawn at another size than the original's, the cells are where they were, scaled. */
static void other_sizes(void **state) {
    const struct preprocess rule = rule_make(224, 0.875, CROP_CENTER);
    struct grid_place place = place_make(&rule, 500, 375, 14, 14);
    const struct pixel_box small = grid_place_box(&place, 3, 4, 2, 5);
    struct pixel_box large;
    (void)state;
    place.image_w *= 8;
    place.image_h *= 8;
    large = grid_place_box(&place, 3, 4, 2, 5);
    assert_in_range(large.x0 - 8 * small.x0 + 8, 4, 12);
    assert_in_range(large.y0 - 8 * small.y0 + 8, 4, 12);
    assert_in_range(large.x1 - 8 * small.x1 + 8, 4, 12);
    assert_in_range(large.y1 - 8 * small.y1 + 8, 4, 12);
}

static void sizes_refused(void **state) {
    const struct preprocess rule = rule_make(224, 0.875, CROP_CENTER);
    const struct grid_place good = place_make(&rule, 50, 37, 14, 14);
    struct grid_place bad = good;
    (void)state;
    assert_int_equal(grid_place_check(&good), ST_OK);
    bad.image_h = 0;
    assert_int_equal(grid_place_check(&bad), ST_USAGE);
    bad = good;
    bad.columns = 0;
    assert_int_equal(grid_place_check(&bad), ST_USAGE);
    bad = good;
    bad.at.resized_w = 0;
    assert_int_equal(grid_place_check(&bad), ST_USAGE);
    bad = good;
    bad.model_h = -1;
    assert_int_equal(grid_place_check(&bad), ST_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells_by_hand),
                                       cmocka_unit_test(pixels_by_hand),
                                       cmocka_unit_test(both_ways), cmocka_unit_test(other_sizes),
                                       cmocka_unit_test(sizes_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
