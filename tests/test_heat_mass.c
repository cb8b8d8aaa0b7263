/* heat_mass: sets, boxes and outlines by hand. */
#include "tools/heat_mass.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/canvas.h"

#include <cmocka.h>

#define CELLS 10
#define T     5.55e-17F /* 2^-54: eight of them are seen beside 1, one is not */

static void sets(void **state) {
    static const struct {
        double mass;
        float map[CELLS];
        const char *keep, *why;
    } cases[] = {
        {0.6, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "1111110000", "equal cells by index"},
        {0.6, {.1F, .1F, .1F, .1F, .1F, .1F, .1F, .1F, .1F, .1F}, "1111110000", "shares as well"},
        {0.7,
         {.1F, .1F, .1F, .1F, .1F, .1F, .1F, .1F, .1F, .1F},
         "1111111000",
         "whatever they are"},
        {0.61, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, "1111111000", "one more than enough"},
        {0.5, {1, 9, 1, 1, 1, 1, 1, 1, 1, 1}, "0100000000", "half in one cell"},
        {0.51, {1, 9, 1, 1, 1, 1, 1, 1, 1, 1}, "1100000000", "and the first of the others"},
        {0.8, {0, 1, 2, 3, 4, 0, 0, 0, 0, 0}, "0011100000", "4 + 3 hold 7 of 10, 2 more"},
        {0.7, {0, 1, 2, 3, 4, 0, 0, 0, 0, 0}, "0001100000", "exactly 7 of 10"},
        {1, {0, 1, 2, 3, 4, 0, 0, 0, 0, 0}, "0111100000", "all but zeros"},
        {0, {0, 1, 2, 3, 4, 0, 0, 0, 0, 0}, "0000000000", "nothing"},
        {0.6, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "0000000000", "nothing there"},
        {1e-6, {0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, "0100000000", "never none"},
        {1, {T, T, T, T, T, T, T, T, 1, 0}, "0000000010", "lost in 1's rounding: no zeros kept"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t keep[CELLS];
        char text[CELLS + 1] = "";
        assert_int_equal(heat_mass(cases[i].map, CELLS, cases[i].mass, keep), ST_OK);
        for (int k = 0; k < CELLS; k++)
            text[k] = (char)('0' + keep[k]);
        if (strcmp(text, cases[i].keep) != 0)
            fail_msg("%s: %s, want %s", cases[i].why, text, cases[i].keep);
    }
}

static void bad_maps(void **state) {
    static const struct {
        double mass;
        float second;
        const char *sentence;
    } cases[] = {{1.5, 1, "the mass is 1.5"},
                 {-0.1, 1, "the mass is -0.1"},
                 {NAN, 1, "the mass is"},
                 {0.5, -2, "cell 1 of the map is -2"},
                 {0.5, NAN, "cell 1 of the map is"},
                 {0.5, INFINITY, "cell 1 of the map is inf"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const float map[2] = {1, cases[i].second};
        uint8_t keep[2];
        assert_int_equal(heat_mass(map, 2, cases[i].mass, keep), ST_USAGE);
        if (!strstr(fail_message(), cases[i].sentence))
            fail_msg("'%s', want '%s'", fail_message(), cases[i].sentence);
    }
}

/* 40 x 30 pixels of which the model saw 20 x 20 from (10, 5), in 4 x 4 cells of 5 x 5. */
static const struct grid_place seen = {{40, 30, 10, 5}, 40, 30, 20, 20, 4, 4};

static void boxes(void **state) {
    static const struct {
        const char *keep; /* (4, 4) */
        struct pixel_box want;
        const char *why;
    } cases[] = {
        {"0000000000000000", {0, 0, 0, 0}, "none"},
        {"1000000000000000", {10, 5, 15, 10}, "the first cell"},
        {"0000000000000001", {25, 20, 30, 25}, "the last cell"},
        {"0000001000000000", {20, 10, 25, 15}, "row 1, column 2"},
        {"0000001001000000", {15, 10, 25, 20}, "two corners"},
        {"1111111111111111", {10, 5, 30, 25}, "all that was seen"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        uint8_t keep[16];
        struct pixel_box got;
        for (int k = 0; k < 16; k++)
            keep[k] = cases[i].keep[k] == '1';
        got = heat_mass_box(keep, &seen);
        if (memcmp(&got, &cases[i].want, sizeof got) != 0)
            fail_msg("%s: (%d, %d) to (%d, %d)", cases[i].why, got.x0, got.y0, got.x1, got.y1);
    }
}

/* Cells in the padding of a border crop have no pixels and widen no box. */
static void padding(void **state) {
    const struct grid_place place = {{20, 5, 0, -8}, 20, 5, 20, 20, 4, 4}; /* rows 1 and 2 */
    uint8_t keep[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    const struct pixel_box box = heat_mass_box(keep, &place);
    (void)state;
    assert_int_equal(box.x0, 5);
    assert_int_equal(box.x1, 10);
    assert_int_equal(box.y0, 0);
    assert_int_equal(box.y1, 2);
}

/* Cells (1, 1) and (1, 2) kept: what is light, dark, outline and frame. */
static void drawn(void **state) {
    static const struct {
        int x, y;
        uint32_t want;
        const char *why;
    } cases[] = {
        {0, 0, 0x1E3C3C, "not seen: 0.3 of the picture"},
        {12, 7, 0x1E3C3C, "a cell that is not kept"},
        {14, 12, 0x1E3C3C, "beside the box"},
        {15, 10, 0xFF0000, "the frame's corner"},
        {16, 12, 0xFF0000, "it is two wide"},
        {17, 12, 0x64C8C8, "a kept cell"},
        {19, 12, 0x64C8C8, "no line between kept cells"},
        {24, 14, 0xFF0000, "the other corner"},
        {25, 12, 0x1E3C3C, "behind it"},
    };
    uint8_t keep[16] = {0, 0, 0, 0, 0, 1, 1};
    struct image image;
    (void)state;
    assert_int_equal(canvas_open(40, 30, 0x64C8C8, &image), ST_OK);
    assert_int_equal(heat_mass_draw(keep, &seen, 0xFF0000, &image), ST_OK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const uint8_t *p = image.rgb + 3 * (cases[i].y * 40 + cases[i].x);
        const uint32_t got = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        if (got != cases[i].want) fail_msg("%s: %06X, want %06X", cases[i].why, got, cases[i].want);
    }
    image_release(&image);
    assert_int_equal(canvas_open(41, 30, 0x64C8C8, &image), ST_OK);
    assert_int_equal(heat_mass_draw(keep, &seen, 0xFF0000, &image), ST_USAGE);
    image_release(&image);
}

/* Between a kept cell and another the outline is drawn, inside the kept one. */
static void outlines(void **state) {
    uint8_t keep[16] = {1, 0, 0, 0, 1, 1, 0, 0, 1, 0};
    struct image image;
    (void)state;
    assert_int_equal(canvas_open(40, 30, 0x000000, &image), ST_OK);
    assert_int_equal(heat_mass_draw(keep, &seen, 0xFF0000, &image), ST_OK);
    /* (0, 0)'s right side at x = 14; (1, 1)'s upper side at y = 10, lower at y = 14 */
    assert_int_equal(image.rgb[3 * (8 * 40 + 14) + 1], 153);
    assert_int_equal(image.rgb[3 * (8 * 40 + 15) + 1], 0);
    assert_int_equal(image.rgb[3 * (10 * 40 + 16) + 1], 153);
    assert_int_equal(image.rgb[3 * (14 * 40 + 16) + 1], 153);
    assert_int_equal(image.rgb[3 * (12 * 40 + 14) + 1], 0); /* kept on both sides */
    image_release(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sets),  cmocka_unit_test(bad_maps),
                                       cmocka_unit_test(boxes), cmocka_unit_test(padding),
                                       cmocka_unit_test(drawn), cmocka_unit_test(outlines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
