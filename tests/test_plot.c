/* plot and ticks: numbers of axes, and lines where the axes say. */
#include "tools/plot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tools/ticks.h"

#include <cmocka.h>

static void ticks(void **state) {
    static const struct {
        double low, high;
        int most;
        bool whole;
        const char *text; /* joined by blanks */
    } cases[] = {
        {0, 1, 6, false, "0 0.2 0.4 0.6 0.8 1.0"},
        {0, 1, 5, false, "0 0.5 1.0"},
        {0, 1, 2, false, "0 1"},
        {0, 0.0222, 6, false, "0 0.005 0.010 0.015 0.020"},
        {0.0001, 0.0222, 6, false, "0.005 0.010 0.015 0.020"},
        {0, 196, 6, true, "0 50 100 150"},
        {0, 4, 16, true, "0 1 2 3 4"},
        {0, 4, 16, false, "0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0"},
        {0, 0.5, 4, true, "0"},
        {-1, 1, 5, false, "-1.0 -0.5 0 0.5 1.0"},
        {-0.3, -0.1, 5, false, "-0.30 -0.25 -0.20 -0.15 -0.10"},
        {0, 3e-6, 4, false, "0 1e-6 2e-6 3e-6"},
        {0, 2.5e-7, 6, false, "0 5e-8 1.0e-7 1.5e-7 2.0e-7 2.5e-7"},
        {0, 3e9, 4, false, "0 1e9 2e9 3e9"},
        {999, 1001, 5, false, "999.0 999.5 1000.0 1000.5 1001.0"},
        {0.1, 0.7, 7, false, "0.1 0.2 0.3 0.4 0.5 0.6 0.7"},
        {3, 3, 5, false, "3.00"},
        {0, 0, 5, false, "0"},
        {2, 1, 5, false, "2.00"},
        {0, INFINITY, 5, false, "0"},
        {NAN, 1, 5, false, "nan"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct ticks got =
            ticks_make(cases[i].low, cases[i].high, cases[i].most, cases[i].whole);
        char text[600] = "";
        size_t used = 0;
        for (int k = 0; k < got.count; k++)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, k ? " %s" : "%s", got.text[k]);
        if (strcmp(text, cases[i].text) != 0)
            fail_msg("%g to %g: '%s', want '%s'", cases[i].low, cases[i].high, text, cases[i].text);
    }
}

/* Never more than asked for, all inside, as dense as they may be. */
static void ticks_many(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        const double span = pow(10, i % 17 - 8.3), low = sin(i * 12.9898) * span * (i % 1000);
        const int most = 2 + i % (TICKS_MOST - 1);
        const struct ticks got = ticks_make(low, low + span, most, false);
        const double slack = 1e-6 * got.step;
        if (got.count > most || got.count < most / 3 || (got.count == 0 && most > 5))
            fail_msg("%g + %g: %d ticks of %d", low, span, got.count, most);
        for (int k = 0; k < got.count; k++)
            if (got.values[k] < low - slack || got.values[k] > low + span + slack)
                fail_msg("%g + %g: %g is outside", low, span, got.values[k]);
    }
}

static uint32_t color_at(const struct image *image, int x, int y) {
    const uint8_t *p = image->rgb + 3 * (y * image->width + x);
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* The middle row of a colour in a column of the axes; -1 without any. */
static double middle_of(const struct image *image, struct pixel_box box, int x, uint32_t color) {
    double sum = 0;
    int count = 0;
    for (int y = box.y0; y < box.y1; y++)
        if (color_at(image, x, y) == color) sum += y + 0.5, count++;
    return count ? sum / count : -1;
}

static void line_places(void **state) {
    static const float x[] = {0, 1, 2, 4}, up[] = {0, 1, 1, 3}, over[] = {2, 2, 50, 50};
    const struct plot_line lines[] = {{"up", x, up, 4}, {"over", x, over, 4}};
    const struct plot plot = {"title", "x", "y", lines, 2, 0, 4, 0, 4, false, 400, 300};
    const struct pixel_box box = plot_box(&plot);
    const double wide = (box.x1 - box.x0) / 4.0, tall = (box.y1 - box.y0) / 4.0;
    struct image image;
    (void)state;
    assert_int_equal(plot_draw(&plot, &image), ST_OK);
    assert_int_equal(image.width, 400);
    assert_int_equal(image.height, 300);
    for (int px = box.x0 + 5; px < box.x1 - 5; px += 3) {
        const double at = (px + 0.5 - box.x0) / wide;
        const double value = at < 1 ? at : at < 2 ? 1 : at - 1;
        const double want = box.y1 - value * tall, got = middle_of(&image, box, px, 0x0072B2);
        if (fabs(got - want) > 1) fail_msg("at %g: row %g, want %g", at, got, want);
    }
    /* The second leaves the axes at x = 1 + 2/48, and nothing of it is drawn above them but the
     * legend. */
    assert_true(fabs(middle_of(&image, box, box.x0 + 20, 0xD55E00) - (box.y1 - 2 * tall)) <= 1);
    for (int px = box.x0 + (int)(1.2 * wide); px < box.x1; px++)
        for (int py = box.y0; py < box.y1; py++)
            assert_int_not_equal(color_at(&image, px, py), 0xD55E00);
    image_release(&image);
}

static void filled(void **state) {
    static const float x[] = {0, 1}, y[] = {0.5F, 0.5F};
    const struct plot_line line = {NULL, x, y, 2};
    const struct plot plot = {NULL, NULL, NULL, &line, 1, 0, 1, 0, 1, true, 300, 200};
    const struct pixel_box box = plot_box(&plot);
    const int px = box.x0 + (box.x1 - box.x0) / 2 + 7, tall = box.y1 - box.y0;
    struct image image;
    (void)state;
    assert_int_equal(plot_draw(&plot, &image), ST_OK);
    assert_int_equal(color_at(&image, px, box.y0 + tall / 4 + 3), 0xFFFFFF);
    assert_int_equal(color_at(&image, px, box.y1 - tall / 4 + 3), 0xD9EAF3); /* 0.15 of the blue */
    image_release(&image);
}

static void broken_lines(void **state) {
    static const float x[] = {0, 0.3F, 0.5F, 0.7F, 1}, y[] = {0.5F, 0.5F, NAN, 0.5F, 0.5F};
    const struct plot_line line = {NULL, x, y, 5};
    const struct plot plot = {NULL, NULL, NULL, &line, 1, 0, 1, 0, 1, true, 300, 200};
    const struct pixel_box box = plot_box(&plot);
    struct image image;
    (void)state;
    assert_int_equal(plot_draw(&plot, &image), ST_OK);
    assert_true(middle_of(&image, box, box.x0 + (box.x1 - box.x0) / 2, 0x0072B2) < 0);
    assert_true(middle_of(&image, box, box.x0 + (box.x1 - box.x0) / 8, 0x0072B2) > 0);
    image_release(&image);
}

static void refusals(void **state) {
    static const struct plot cases[] = {
        {.x_low = 0, .x_high = 0, .y_low = 0, .y_high = 1},
        {.x_low = 0, .x_high = 1, .y_low = 1, .y_high = 0},
        {.x_low = 0, .x_high = NAN, .y_low = 0, .y_high = 1},
        {.x_low = 0, .x_high = 1, .y_low = 0, .y_high = INFINITY},
        {.x_low = 0, .x_high = 1, .y_low = 0, .y_high = 1, .width = 50, .height = 50},
        {.x_low = 0, .x_high = 1, .y_low = 0, .y_high = 1, .width = -5, .height = 300}};
    struct image image = {0};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(plot_draw(&cases[i], &image), ST_USAGE);
    assert_null(image.rgb);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ticks),        cmocka_unit_test(ticks_many),
                                       cmocka_unit_test(line_places),  cmocka_unit_test(filled),
                                       cmocka_unit_test(broken_lines), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
