/* canvas: what is inside, what is cut off, lines' coverage, and letters where they should be. */
#include "tools/canvas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint32_t color_at(const struct image *image, int x, int y) {
    const uint8_t *p = image->rgb + 3 * (y * image->width + x);
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* The box of all pixels that are not white; x1 = 0 when there are none. */
static struct pixel_box inked(const struct image *image) {
    struct pixel_box box = {image->width, image->height, 0, 0};
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width; x++) {
            if (color_at(image, x, y) == 0xFFFFFF) continue;
            if (x < box.x0) box.x0 = x;
            if (y < box.y0) box.y0 = y;
            if (x >= box.x1) box.x1 = x + 1;
            if (y >= box.y1) box.y1 = y + 1;
        }
    return box;
}

static double sum_ink(const struct image *image) {
    double sum = 0;
    for (int i = 0; i < image->width * image->height; i++)
        sum += (255 - image->rgb[3 * i]) / 255.0;
    return sum;
}

static void check_box(const char *why, struct pixel_box got, struct pixel_box want) {
    if (memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s: (%d, %d) to (%d, %d), want (%d, %d) to (%d, %d)", why, got.x0, got.y0, got.x1,
                 got.y1, want.x0, want.y0, want.x1, want.y1);
}

static void fills(void **state) {
    static const struct {
        struct pixel_box box, want;
        int area;
        const char *why;
    } cases[] = {
        {{2, 3, 5, 7}, {2, 3, 5, 7}, 12, "inside"},
        {{-4, -9, 3, 2}, {0, 0, 3, 2}, 6, "over the corner"},
        {{8, 6, 1000, 1000}, {8, 6, 10, 8}, 4, "over the other corner"},
        {{2, 3, 2, 7}, {10, 8, 0, 0}, 0, "no width"},
        {{5, 3, 2, 7}, {10, 8, 0, 0}, 0, "the wrong way round"},
        {{20, 3, 25, 7}, {10, 8, 0, 0}, 0, "outside"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct image image;
        assert_int_equal(canvas_open(10, 8, 0xFFFFFF, &image), ST_OK);
        canvas_fill(&image, cases[i].box, 0x000000, 1);
        check_box(cases[i].why, inked(&image), cases[i].want);
        assert_int_equal((int)lround(sum_ink(&image)), cases[i].area);
        image_release(&image);
    }
}

static void frames(void **state) {
    struct image image;
    (void)state;
    assert_int_equal(canvas_open(20, 20, 0xFFFFFF, &image), ST_OK);
    canvas_frame(&image, (struct pixel_box){2, 3, 12, 10}, 2, 0x000000);
    assert_int_equal((int)lround(sum_ink(&image)), 70 - 6 * 3);
    check_box("frame", inked(&image), (struct pixel_box){2, 3, 12, 10});
    assert_int_equal(color_at(&image, 4, 5), 0xFFFFFF);
    assert_int_equal(color_at(&image, 3, 5), 0x000000);
    canvas_frame(&image, (struct pixel_box){2, 13, 5, 16}, 2, 0x000000); /* no inside left */
    assert_int_equal((int)lround(sum_ink(&image)), 52 + 9);
    image_release(&image);
}

static void grown(void **state) {
    struct image image;
    (void)state;
    assert_int_equal(canvas_open(3, 2, 0x112233, &image), ST_OK);
    assert_int_equal(canvas_grow(&image, 1, 2, 4, 1, 0xFFFFFF), ST_OK);
    assert_int_equal(image.width, 8);
    assert_int_equal(image.height, 5);
    check_box("grown", inked(&image), (struct pixel_box){1, 2, 4, 4});
    assert_int_equal(color_at(&image, 1, 2), 0x112233);
    image_release(&image);
}

static void enlarged(void **state) {
    struct image image;
    (void)state;
    assert_int_equal(canvas_open(3, 2, 0xFFFFFF, &image), ST_OK);
    canvas_fill(&image, (struct pixel_box){1, 0, 2, 1}, 0x123456, 1);
    assert_int_equal(canvas_enlarge(&image, 5), ST_OK);
    assert_int_equal(image.width, 15);
    assert_int_equal(image.height, 10);
    check_box("enlarged", inked(&image), (struct pixel_box){5, 0, 10, 5});
    assert_int_equal(color_at(&image, 9, 4), 0x123456);
    assert_int_equal(canvas_enlarge(&image, 1), ST_OK);
    assert_int_equal(image.width, 15);
    assert_int_equal(canvas_enlarge(&image, 1 << 20), ST_NOMEM);
    assert_int_equal(image.width, 15);
    image_release(&image);
}

static void sizes_refused(void **state) {
    struct image image = {0};
    (void)state;
    assert_int_equal(canvas_open(0, 5, 0, &image), ST_USAGE);
    assert_int_equal(canvas_open(5, -1, 0, &image), ST_USAGE);
    assert_int_equal(canvas_open(1 << 20, 1 << 20, 0, &image), ST_NOMEM);
    assert_null(image.rgb);
}

/* A line's ink is its length times its thickness, and a half disk more at each end. */
static void lines(void **state) {
    static const struct {
        struct canvas_point from, to;
        double thickness;
        const char *why;
    } cases[] = {{{10, 10}, {50, 10}, 3, "level"},
                 {{10, 10}, {10, 50}, 2, "upright"},
                 {{10, 10}, {50, 50}, 3, "slanted"},
                 {{50, 13}, {10, 41}, 4, "backward"},
                 {{30, 30}, {30, 30}, 6, "a point"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const double t = cases[i].thickness;
        const double length =
            hypot(cases[i].to.x - cases[i].from.x, cases[i].to.y - cases[i].from.y);
        const double want = length * t + 3.14159 * t * t / 4;
        struct image image;
        assert_int_equal(canvas_open(60, 60, 0xFFFFFF, &image), ST_OK);
        canvas_line(&image, cases[i].from, cases[i].to, t, 0x000000);
        if (fabs(sum_ink(&image) - want) > 0.05 * want) /* seen: 2 % */
            fail_msg("%s: %g pixels of ink, want %g", cases[i].why, sum_ink(&image), want);
        image_release(&image);
    }
}

static void lines_cut(void **state) {
    struct image image;
    (void)state;
    assert_int_equal(canvas_open(20, 20, 0xFFFFFF, &image), ST_OK);
    canvas_line(&image, (struct canvas_point){-1e12, 10}, (struct canvas_point){1e12, 10}, 2, 0);
    check_box("a line through", inked(&image), (struct pixel_box){0, 9, 20, 11});
    canvas_line(&image, (struct canvas_point){NAN, 3}, (struct canvas_point){4, NAN}, 2, 0);
    canvas_line(&image, (struct canvas_point){INFINITY, 3}, (struct canvas_point){4, 3}, 2, 0);
    image_release(&image);
}

static void copies(void **state) {
    static const struct {
        int x, y;
        struct pixel_box want;
    } cases[] = {{2, 3, {2, 3, 6, 6}},   {-2, -1, {0, 0, 2, 2}}, {8, 6, {8, 6, 10, 8}},
                 {-4, 0, {10, 8, 0, 0}}, {10, 0, {10, 8, 0, 0}}, {0, -50, {10, 8, 0, 0}}};
    struct image source;
    (void)state;
    assert_int_equal(canvas_open(4, 3, 0x123456, &source), ST_OK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct image image;
        assert_int_equal(canvas_open(10, 8, 0xFFFFFF, &image), ST_OK);
        canvas_copy(&image, cases[i].x, cases[i].y, &source);
        check_box("copy", inked(&image), cases[i].want);
        image_release(&image);
    }
    image_release(&source);
}

/* "H" and "x" fill their boxes, so anchors can be read off the ink. */
static void anchors(void **state) {
    static const struct {
        const char *text;
        struct canvas_text style;
        struct pixel_box want;
        const char *why;
    } cases[] = {
        {"H", {1, 0, 0, 0, false}, {50, 50, 55, 57}, "below and right"},
        {"H", {3, 0, 0, 0, false}, {50, 50, 65, 71}, "three times as large"},
        {"H", {2, 0, 1, 1, false}, {40, 36, 50, 50}, "above and left"},
        {"HH", {2, 0, 0.5, 0.5, false}, {39, 43, 61, 57}, "centred, a column between"},
        {"HH", {1, 0, 0, 0, true}, {50, 50, 57, 61}, "upward, to the right and below"},
        {"HH", {1, 0, 1, 1, true}, {43, 39, 50, 50}, "upward, to the left and above"},
        {"x", {1, 0, 0, 0, false}, {50, 52, 55, 57}, "a small letter"},
        {"g", {1, 0, 0, 0, false}, {50, 52, 55, 59}, "hangs down by two"},
        {"", {1, 0, 0, 0, false}, {100, 100, 0, 0}, "nothing"},
        {" ", {1, 0, 0, 0, false}, {100, 100, 0, 0}, "a space"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct image image;
        assert_int_equal(canvas_open(100, 100, 0xFFFFFF, &image), ST_OK);
        canvas_write(&image, 50, 50, &cases[i].style, cases[i].text);
        check_box(cases[i].why, inked(&image), cases[i].want);
        image_release(&image);
    }
}

/* Turned a quarter to the left: what was at (x, y) from the left top is at (y, width - 1 - x). */
static void upward(void **state) {
    const char text[] = "Fg 7%";
    const int w = canvas_text_width(text, 1);
    struct image level, turned;
    (void)state;
    assert_int_equal(canvas_open(w, 9, 0xFFFFFF, &level), ST_OK);
    assert_int_equal(canvas_open(9, w, 0xFFFFFF, &turned), ST_OK);
    canvas_write(&level, 0, 0, &(struct canvas_text){1, 0, 0, 0, false}, text);
    canvas_write(&turned, 0, 0, &(struct canvas_text){1, 0, 0, 0, true}, text);
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < w; x++)
            assert_int_equal(color_at(&level, x, y), color_at(&turned, y, w - 1 - x));
    image_release(&level);
    image_release(&turned);
}

/* Every character but O and 0 has ink of its own; a character that is not ASCII is one box. */
static void letters(void **state) {
    uint8_t drawn[96][9 * 8 * 3];
    (void)state;
    for (int c = 0; c < 96; c++) {
        const char text[2] = {(char)(c + ' '), 0};
        struct image image;
        assert_in_range(canvas_text_width(text, 1), 1, 5);
        assert_int_equal(canvas_open(8, 9, 0xFFFFFF, &image), ST_OK);
        canvas_write(&image, 0, 0, &(struct canvas_text){1, 0, 0, 0, false}, text);
        memcpy(drawn[c], image.rgb, sizeof drawn[c]);
        for (int other = 0; other < c; other++)
            if (memcmp(drawn[c], drawn[other], sizeof drawn[c]) == 0 && c + ' ' != 'O')
                fail_msg("'%c' looks like '%c'", c + ' ', other + ' ');
        image_release(&image);
    }
    assert_int_equal(canvas_text_width("\xC3\xA9", 1), canvas_text_width("\x7F", 1));
    assert_int_equal(canvas_text_width("\xE2\x82\xAC", 2), canvas_text_width("\x7F", 2));
    assert_int_equal(canvas_text_width("\xFF", 1), canvas_text_width("\x7F", 1));
    assert_int_equal(canvas_text_width("0123456789", 1), 59); /* figures are of one width */
    assert_int_equal(canvas_text_width("", 4), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills),   cmocka_unit_test(frames),    cmocka_unit_test(grown),
        cmocka_unit_test(lines),   cmocka_unit_test(lines_cut), cmocka_unit_test(sizes_refused),
        cmocka_unit_test(copies),  cmocka_unit_test(anchors),   cmocka_unit_test(upward),
        cmocka_unit_test(letters), cmocka_unit_test(enlarged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
