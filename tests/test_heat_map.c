/*
 * heat_map: readings by hand, colours and opacity, and bright patches that must come back to where
 * they were put: through the preprocessing's real pixels, all crop modes, EXIF orientations.
 */
#include "tools/heat_map.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/canvas.h"
#include "tools/picture.h"

#include <cmocka.h>

/* ---- readings -------------------------------------------------------------------------------- */

static void readings_by_hand(void **state) {
    static const struct {
        enum heat_filter filter;
        int cells, pixels;
        float map[6], want[12];
        const char *why;
    } cases[] = {
        {HEAT_NEAREST, 3, 6, {1, 5, 2}, {1, 1, 5, 5, 2, 2}, "doubled"},
        {HEAT_NEAREST, 3, 3, {1, 5, 2}, {1, 5, 2}, "as it is"},
        {HEAT_NEAREST, 6, 2, {0, 1, 2, 3, 4, 5}, {1, 4}, "a third: the cell in the middle"},
        {HEAT_BICUBIC, 3, 3, {1, 5, 2}, {1, 5, 2}, "as it is"},
        /* keys(0.75), keys(0.25) = 0.2265625, 0.8671875; keys(1.25) = -0.0703 ends at 0 */
        {HEAT_BICUBIC,
         4,
         8,
         {0, 1, 0, 0},
         {0, 0.2265625F, 0.8671875F, 0.8671875F, 0.2265625F, 0, 0, 0},
         "one cell, a = -0.5 (-0.75 gives 0.8789 at the third)"},
        {HEAT_BICUBIC, 1, 4, {3}, {3, 3, 3, 3}, "one cell alone"},
        {HEAT_BICUBIC, 2, 1, {0, 4}, {2}, "between two"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const int n = cases[i].pixels, cells = cases[i].cells;
        float across[12], down[12];
        assert_int_equal(heat_resize(cases[i].map, 1, cells, cases[i].filter, across, 1, n), ST_OK);
        assert_int_equal(heat_resize(cases[i].map, cells, 1, cases[i].filter, down, n, 1), ST_OK);
        for (int k = 0; k < n; k++)
            if (fabsf(across[k] - cases[i].want[k]) > 1e-6F ||
                fabsf(down[k] - cases[i].want[k]) > 1e-6F)
                fail_msg("%s: pixel %d is %g across, %g down, want %g", cases[i].why, k,
                         (double)across[k], (double)down[k], (double)cases[i].want[k]);
    }
}

static float surface(int kind, double x, double y) {
    if (kind == 0) return 7;
    if (kind == 1) return (float)(3 * x - 2 * y + 1);
    return (float)(0.5 * x * x - x * y + 0.25 * y * y); /* Keys' a = -0.5: parabolas too */
}

/* Away from the edges, where cells outside are made up. */
static void bicubic_keeps_surfaces(void **state) {
    static const int sizes[][2] = {{40, 23}, {9, 100}, {14, 14}, {5, 6}};
    float map[14 * 11], out[40 * 100];
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (size_t s = 0; s < COUNT_OF(sizes); s++) {
            const int h = sizes[s][0], w = sizes[s][1];
            for (int i = 0; i < 14 * 11; i++)
                map[i] = surface(kind, i % 11 + 0.5, i / 11 + 0.5);
            assert_int_equal(heat_resize(map, 14, 11, HEAT_BICUBIC, out, h, w), ST_OK);
            for (int i = 0; i < h * w; i++) {
                const double x = (i % w + 0.5) * 11 / w, y = (i / w + 0.5) * 14 / h;
                if (kind && (x < 1.5 || x > 9.5 || y < 1.5 || y > 12.5)) continue;
                if (fabsf(out[i] - surface(kind, x, y)) > 1e-4F) /* seen: 1e-5; a = -0.75: 0.1 */
                    fail_msg("surface %d at (%g, %g): %g, want %g", kind, x, y, (double)out[i],
                             (double)surface(kind, x, y));
            }
        }
}

static void bicubic_stays_in_range(void **state) {
    float map[64], out[50 * 60];
    (void)state;
    srand(3);
    for (int i = 0; i < 64; i++)
        map[i] = rand() % 2 ? 0.25F : 0.75F;
    assert_int_equal(heat_resize(map, 8, 8, HEAT_BICUBIC, out, 50, 60), ST_OK);
    for (int i = 0; i < 50 * 60; i++)
        if (out[i] < 0.25F || out[i] > 0.75F) fail_msg("%g overshoots", (double)out[i]);
    assert_int_equal(heat_resize(map, 0, 8, HEAT_BICUBIC, out, 50, 60), ST_USAGE);
    assert_int_equal(heat_resize(map, 8, 8, HEAT_BICUBIC, out, 50, -1), ST_USAGE);
}

static void ranges(void **state) {
    static const struct {
        float map[4];
        bool from_zero;
        struct heat_range want;
    } cases[] = {{{3, 1, 2, 2}, false, {1, 3}},
                 {{3, 1, 2, 2}, true, {0, 3}},
                 {{-3, 1, -2, 2}, false, {-3, 2}},
                 {{5, NAN, 7, INFINITY}, false, {5, 7}},
                 {{NAN, NAN, NAN, -INFINITY}, false, {0, 0}},
                 {{4, 4, 4, 4}, false, {4, 4}}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct heat_range got = heat_range_of(cases[i].map, 4, cases[i].from_zero);
        if (got.low != cases[i].want.low || got.high != cases[i].want.high)
            fail_msg("row %zu: %g to %g", i, (double)got.low, (double)got.high);
    }
    assert_true(heat_place((struct heat_range){2, 4}, 3) == 0.5F);
    assert_true(heat_place((struct heat_range){2, 4}, 1) == 0);
    assert_true(heat_place((struct heat_range){2, 4}, 5) == 1);
    assert_true(heat_place((struct heat_range){4, 4}, 4) == 0);
    assert_true(heat_place((struct heat_range){2, 4}, NAN) == 0);
}

/* ---- colours --------------------------------------------------------------------------------- */

/* A 6 x 4 picture of (100, 50, 200), of which the model saw the middle 4 x 4 pixel for pixel. */
static struct image plain(struct grid_place *place) {
    struct image image;
    assert_int_equal(canvas_open(6, 4, 0x6432C8, &image), ST_OK);
    *place = (struct grid_place){{6, 4, 1, 0}, 6, 4, 4, 4, 2, 2};
    return image;
}

static void opacity(void **state) {
    static const float map[4] = {0, 1, 1, 0.5F};
    static const struct {
        float opacity;
        bool fade;
        int x, y;
        uint8_t want[3];
        const char *why;
    } cases[] = {
        {0, false, 1, 0, {100, 50, 200}, "nothing of the map"},
        {1, false, 1, 0, {0, 0, 0}, "all of it: the least"},
        {1, false, 3, 1, {255, 255, 255}, "the greatest"},
        {1, false, 4, 3, {128, 128, 128}, "the middle"},
        {0.6F, false, 1, 0, {40, 20, 80}, "0.4 of the picture"},
        {0.6F, false, 4, 1, {193, 173, 233}, "and 0.6 of white"},
        {0.6F, true, 1, 0, {100, 50, 200}, "fades where the map is least"},
        {0.6F, true, 4, 1, {193, 173, 233}, "and not where it is greatest"},
        {0.6F, true, 3, 2, {108, 73, 178}, "0.3 of 128"},
        {0.6F, false, 0, 1, {33, 33, 33}, "outside: 0.4 of the luma, 82"},
        {0.6F, false, 5, 3, {33, 33, 33}, "on both sides"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct heat_style style = heat_defaults(map, 4);
        struct grid_place place;
        struct image image = plain(&place);
        const uint8_t *got = image.rgb + 3 * (cases[i].y * 6 + cases[i].x);
        style.colormap = COLORMAP_GRAY;
        style.filter = HEAT_NEAREST;
        style.opacity = cases[i].opacity;
        style.fade = cases[i].fade;
        assert_int_equal(heat_overlay(&style, map, &place, &image), ST_OK);
        if (memcmp(got, cases[i].want, 3) != 0)
            fail_msg("%s: %d %d %d, want %d %d %d", cases[i].why, got[0], got[1], got[2],
                     cases[i].want[0], cases[i].want[1], cases[i].want[2]);
        image_release(&image);
    }
}

static void alone(void **state) {
    static const float map[6] = {0, 1, 2, 3, 4, 5};
    struct heat_style style = heat_defaults(map, 6);
    struct image image;
    (void)state;
    style.colormap = COLORMAP_GRAY;
    style.filter = HEAT_NEAREST;
    style.opacity = 1;
    assert_int_equal(canvas_open(10, 8, 0x010203, &image), ST_OK);
    assert_int_equal(heat_draw(&style, map, 2, 3, &image, (struct pixel_box){2, 1, 8, 7}), ST_OK);
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 10; x++) {
            const bool in = x >= 2 && x < 8 && y >= 1 && y < 7;
            const int cell = in ? (y - 1) / 3 * 3 + (x - 2) / 2 : 0;
            const int want = in ? (cell == 5 ? 255 : cell * 256 / 5) : 1;
            assert_int_equal(image.rgb[3 * (y * 10 + x)], want);
        }
    assert_int_equal(heat_draw(&style, map, 2, 3, &image, (struct pixel_box){2, 1, 11, 7}),
                     ST_USAGE);
    assert_int_equal(heat_draw(&style, map, 2, 3, &image, (struct pixel_box){2, 1, 2, 7}),
                     ST_USAGE);
    image_release(&image);
}

static void refusals(void **state) {
    static const float map[4] = {0, 1, 1, 0.5F};
    const struct heat_style style = heat_defaults(map, 4);
    struct grid_place place;
    struct image image = plain(&place);
    (void)state;
    place.image_w = 7;
    assert_int_equal(heat_overlay(&style, map, &place, &image), ST_USAGE);
    place.image_w = 6;
    place.rows = 0;
    assert_int_equal(heat_overlay(&style, map, &place, &image), ST_USAGE);
    image_release(&image);
}

/* ---- bright patches come back ---------------------------------------------------------------- */

#define SIDE  224
#define CELLS 14

/* A dark picture with a white patch of (w, h) around (x, y), in edges. */
static struct image patch_picture(int width, int height, double x, double y, double w, double h) {
    const struct pixel_box box = {(int)lround(x - w / 2), (int)lround(y - h / 2),
                                  (int)lround(x + w / 2), (int)lround(y + h / 2)};
    struct image image;
    assert_int_equal(canvas_open(width, height, 0x202020, &image), ST_OK);
    canvas_fill(&image, box, 0xFFFFFF, 1);
    return image;
}

/* map (CELLS, CELLS) = the mean of each patch that the model gets. */
static void patch_means(const uint8_t *pixels, float *map) {
    const int patch = SIDE / CELLS;
    memset(map, 0, sizeof(float) * CELLS * CELLS);
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            map[y / patch * CELLS + x / patch] +=
                (float)pixels[3 * (y * SIDE + x)] / (float)(patch * patch);
}

/* The middle of the brightest pixels of a grey picture, in edges. */
static struct canvas_point brightest(const struct image *image) {
    struct canvas_point sum = {0, 0};
    int best = 0, count = 0;
    for (int i = 0; i < image->width * image->height; i++)
        if (image->rgb[3 * (size_t)i] > best) best = image->rgb[3 * (size_t)i];
    for (int i = 0; i < image->width * image->height; i++) {
        if (image->rgb[3 * (size_t)i] < best) continue;
        sum.x += i % image->width + 0.5;
        sum.y += i / image->width + 0.5;
        count++;
    }
    return (struct canvas_point){sum.x / count, sum.y / count};
}

/* Drawn on the picture, where is the map's peak? Within `reach` cells of (x, y), and a pixel. */
static void check_drawn(const char *mode, const float *map, const struct grid_place *place,
                        enum heat_filter filter, double reach, struct canvas_point want) {
    const double cell_w = 16.0 * place->image_w / place->at.resized_w;
    const double cell_h = 16.0 * place->image_h / place->at.resized_h;
    struct heat_style style = heat_defaults(map, CELLS * CELLS);
    struct canvas_point peak;
    struct image image;
    style.colormap = COLORMAP_GRAY;
    style.opacity = 1;
    style.filter = filter;
    assert_int_equal(canvas_open(place->image_w, place->image_h, 0, &image), ST_OK);
    assert_int_equal(heat_overlay(&style, map, place, &image), ST_OK);
    peak = brightest(&image);
    image_release(&image);
    if (fabs(peak.x - want.x) > cell_w * reach + 1 || fabs(peak.y - want.y) > cell_h * reach + 1)
        fail_msg("%s of %d x %d, %s: the patch at (%g, %g) came back at (%g, %g), cells %g x %g",
                 mode, place->image_w, place->image_h, heat_filter_name(filter), want.x, want.y,
                 peak.x, peak.y, cell_w, cell_h);
}

/*
 * The picture is preprocessed, its patches' brightness is drawn back on it, and the brightest point
 * must be the patch that was put at (x, y): in the cell that the patch's middle is in, so within
 * half a cell of the cell's middle. Smoothed, a peak leans to bright neighbours and to the edge.
 */
static void check_peak(const struct preprocess *rule, const struct image *image, double x,
                       double y) {
    struct grid_place place = {.image_w = image->width,
                               .image_h = image->height,
                               .model_w = SIDE,
                               .model_h = SIDE,
                               .columns = CELLS,
                               .rows = CELLS};
    const char *mode = crop_mode_name(rule->crop_mode);
    uint8_t *pixels = mem_zalloc(SIDE * SIDE, 3);
    float map[CELLS * CELLS];
    if (preprocess_image(rule, image, pixels, &place.at) != ST_OK) fail_msg("%s", fail_message());
    patch_means(pixels, map);
    check_drawn(mode, map, &place, HEAT_NEAREST, 0.55, (struct canvas_point){x, y});
    check_drawn(mode, map, &place, HEAT_BICUBIC, 0.8, (struct canvas_point){x, y});
    mem_free(pixels);
}

static struct preprocess rule_make(enum crop_mode mode, double pct) {
    return (struct preprocess){SIDE,           SIDE,      pct,      mode, ROUND_HALF_EVEN,
                               FILTER_BICUBIC, {0, 0, 0}, {1, 1, 1}};
}

static void peaks(void **state) {
    static const int sizes[][2] = {{500, 375}, {375, 500}, {224, 224}, {64, 64},   {1200, 90},
                                   {90, 1200}, {2000, 30}, {30, 2000}, {333, 771}, {1999, 1501}};
    (void)state;
    srand(11);
    for (size_t i = 0; i < 3 * COUNT_OF(sizes); i++) {
        const enum crop_mode mode = (enum crop_mode)(i % 3);
        const int w = sizes[i / 3][0], h = sizes[i / 3][1], shorter = w < h ? w : h;
        for (int k = 0; k < 6; k++) {
            const struct preprocess rule = rule_make(mode, k % 2 ? 0.9 : 1.0);
            const double long_cell = fmax(w, h) / 14.0, short_cell = shorter / 14.0;
            /* Where the patch may be, and a cell's size, from the modes' own words. */
            double reach_x = w * 0.42, reach_y = h * 0.42, cell_w = w / 14.0, cell_h = h / 14.0, x,
                   y;
            struct image image;
            if (mode == CROP_CENTER)
                reach_x = reach_y = shorter * 0.42, cell_w = cell_h = short_cell;
            if (mode == CROP_BORDER) cell_w = cell_h = long_cell;
            x = w / 2.0 + reach_x * (rand() % 2001 / 1000.0 - 1);
            y = h / 2.0 + reach_y * (rand() % 2001 / 1000.0 - 1);
            if (cell_w > w) cell_w = w, x = w / 2.0;
            if (cell_h > h) cell_h = h, y = h / 2.0;
            image = patch_picture(w, h, x, y, fmax(cell_w * 0.9, 1), fmax(cell_h * 0.9, 1));
            check_peak(&rule, &image, x, y);
            image_release(&image);
        }
    }
}

/* ---- EXIF ------------------------------------------------------------------------------------ */

/* What a camera stores that writes this orientation beside it (EXIF 2.3, tag 274). */
static struct image stored(const struct image *upright, int orientation) {
    const int w = upright->width, h = upright->height;
    struct image image;
    assert_int_equal(
        canvas_open(orientation > 4 ? h : w, orientation > 4 ? w : h, 0x000000, &image), ST_OK);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const int right = w - 1 - x, below = h - 1 - y;
            const int to[9][2] = {{0, 0}, {x, y},     {right, y},     {right, below}, {x, below},
                                  {y, x}, {y, right}, {below, right}, {below, x}};
            memcpy(image.rgb + 3 * (to[orientation][1] * image.width + to[orientation][0]),
                   upright->rgb + 3 * (y * w + x), 3);
        }
    return image;
}

/* The JPEG with a segment of EXIF behind its first marker. */
static void add_exif(struct picture_bytes *jpeg, int orientation) {
    uint8_t segment[36] = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,  'M', 'M',
                           0,    42,   0, 0,  0,   8,   0,   1,   1, 18, 0,   3,
                           0,    0,    0, 1,  0,   0,   0,   0,   0, 0,  0,   0};
    void *bytes = jpeg->bytes;
    segment[29] = (uint8_t)orientation;
    assert_int_equal(mem_grow(&bytes, &jpeg->capacity, jpeg->size + sizeof segment, 1), ST_OK);
    jpeg->bytes = bytes;
    memmove(jpeg->bytes + 2 + sizeof segment, jpeg->bytes + 2, jpeg->size - 2);
    memcpy(jpeg->bytes + 2, segment, sizeof segment);
    jpeg->size += sizeof segment;
}

static void exif(void **state) {
    const struct image_options options = image_defaults();
    (void)state;
    for (int orientation = 1; orientation <= 8; orientation++)
        for (int mode = 0; mode < 3; mode++) {
            const struct preprocess rule = rule_make((enum crop_mode)mode, 0.9);
            const double x = 200, y = 90; /* right of the middle and above it */
            struct image upright = patch_picture(320, 240, x, y, 20, 20), image = {0};
            struct image turned = stored(&upright, orientation);
            struct picture_bytes jpeg = {0};
            if (picture_jpeg(turned.rgb, turned.width, turned.height, 95, &jpeg) == ST_USAGE)
                skip();
            add_exif(&jpeg, orientation);
            if (image_decode(jpeg.bytes, jpeg.size, &options, &image) != ST_OK)
                fail_msg("%s", fail_message());
            assert_int_equal(image.orientation, orientation);
            assert_int_equal(image.width, 320);
            check_peak(&rule, &image, x, y);
            picture_bytes_release(&jpeg);
            image_release(&image);
            image_release(&turned);
            image_release(&upright);
        }
}

static void names(void **state) {
    enum heat_filter filter;
    (void)state;
    assert_true(heat_filter_find("bicubic", &filter));
    assert_int_equal(filter, HEAT_BICUBIC);
    assert_true(heat_filter_find(heat_filter_name(HEAT_NEAREST), &filter));
    assert_int_equal(filter, HEAT_NEAREST);
    assert_false(heat_filter_find("lanczos", &filter));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readings_by_hand),
        cmocka_unit_test(bicubic_keeps_surfaces),
        cmocka_unit_test(bicubic_stays_in_range),
        cmocka_unit_test(ranges),
        cmocka_unit_test(opacity),
        cmocka_unit_test(alone),
        cmocka_unit_test(refusals),
        cmocka_unit_test(peaks),
        cmocka_unit_test(exif),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
