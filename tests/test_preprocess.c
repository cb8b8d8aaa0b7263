/* test_preprocess: datasets/preprocess.c against timm and transformers, and hostile sizes. */
#include "datasets/preprocess.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

/* The picture of pillow_golden.py's pattern(). */
static struct image pattern(int width, int height) {
    struct image image = {width, height, mem_zalloc((size_t)width * (size_t)height, 3), 1};
    assert_non_null(image.rgb);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width * 3; x++) {
            int v = (37 * (x / 3) + 91 * y + 13 * (x / 3) * y + 57 * (x % 3)) % 256;
            image.rgb[(size_t)y * (size_t)width * 3 + (size_t)x] = (uint8_t)(v < 40    ? 0
                                                                             : v > 215 ? 255
                                                                                       : v);
        }
    }
    return image;
}

static struct preprocess rule_make(int height, int width, double pct, enum crop_mode mode,
                                   enum crop_rounding rounding, enum filter filter) {
    struct preprocess rule = {
        height, width, pct, mode, rounding, filter, {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
    return rule;
}

static const struct row {
    int width, height, model_height, model_width;
    double pct;
    enum crop_mode mode;
    enum crop_rounding rounding;
    enum filter filter;
    uint32_t crc;
} rows[] = {
#include "tests/ref/golden_preprocess.h"
};

static void originals(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        struct preprocess rule =
            rule_make(r->model_height, r->model_width, r->pct, r->mode, r->rounding, r->filter);
        struct image image = pattern(r->width, r->height);
        size_t bytes = (size_t)(r->model_height * r->model_width * 3);
        uint8_t *dst = mem_zalloc(bytes, 1);
        if (preprocess_image(&rule, &image, dst, NULL) != ST_OK) fail_msg("%s", fail_message());
        if ((uint32_t)crc32(crc32(0, NULL, 0), dst, (uInt)bytes) != r->crc)
            fail_msg("%dx%d to %dx%d, crop-pct %g, %s, %s, %s: not the original's", r->width,
                     r->height, r->model_width, r->model_height, r->pct, crop_mode_name(r->mode),
                     crop_rounding_name(r->rounding), filter_name(r->filter));
        mem_free(dst);
        image_release(&image);
    }
}

/* Sizes and crop corners worked out by hand from the rules. */
static const struct spot {
    int width, height, side;
    double pct;
    enum crop_mode mode;
    enum crop_rounding rounding;
    struct placement want;
    const char *why;
} spots[] = {
    {500, 375, 224, 0.875, CROP_CENTER, ROUND_HALF_EVEN, {341, 256, 58, 16}, "58.5 to even: 58"},
    {500, 375, 224, 0.9, CROP_CENTER, ROUND_HALF_EVEN, {330, 248, 53, 12}, "long side truncated"},
    {500, 375, 224, 1.0, CROP_CENTER, ROUND_HALF_EVEN, {298, 224, 37, 0}, "nothing to crop below"},
    {375, 500, 224, 0.875, CROP_CENTER, ROUND_HALF_EVEN, {256, 341, 16, 58}, "portrait"},
    {331, 331, 224, 0.95, CROP_CENTER, ROUND_HALF_EVEN, {235, 235, 6, 6}, "5.5 to even: 6"},
    {331, 331, 224, 0.95, CROP_CENTER, ROUND_FLOOR, {235, 235, 5, 5}, "5.5 down: 5"},
    {100, 400, 224, 0.9, CROP_SQUASH, ROUND_HALF_EVEN, {248, 248, 12, 12}, "both sides"},
    {400, 100, 224, 1.0, CROP_BORDER, ROUND_HALF_EVEN, {224, 56, 0, -84}, "bars above and below"},
    {100, 400, 224, 1.0, CROP_BORDER, ROUND_HALF_EVEN, {56, 224, -84, 0}, "bars at the sides"},
    {400, 101, 224, 1.0, CROP_BORDER, ROUND_HALF_EVEN, {224, 57, 0, -83}, "83.5 in front: 83"},
    {400, 101, 224, 1.0, CROP_BORDER, ROUND_FLOOR, {224, 57, 0, -84}, "transformers: 84"},
    {1, 20000, 224, 0.9, CROP_CENTER, ROUND_HALF_EVEN, {248, 4960000, 12, 2479888}, "a hair"},
    {20000, 1, 224, 0.9, CROP_CENTER, ROUND_HALF_EVEN, {4960000, 248, 2479888, 12}, "a hair"},
    {20000, 1, 224, 0.9, CROP_BORDER, ROUND_HALF_EVEN, {248, 1, 12, -111}, "a side of 0 is 1"},
    {1, 20000, 224, 0.9, CROP_SQUASH, ROUND_HALF_EVEN, {248, 248, 12, 12}, "squashed hair"},
    {64, 64, 64, 1.1, CROP_CENTER, ROUND_HALF_EVEN, {58, 58, -3, -3}, "smaller than the crop"},
};

static void placements(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(spots); i++) {
        const struct spot *s = &spots[i];
        struct preprocess rule =
            rule_make(s->side, s->side, s->pct, s->mode, s->rounding, FILTER_BICUBIC);
        struct image image = pattern(s->width, s->height);
        uint8_t *dst = mem_zalloc((size_t)(s->side * s->side), 3);
        struct placement got = {0};
        if (preprocess_image(&rule, &image, dst, &got) != ST_OK) fail_msg("%s", fail_message());
        if (got.resized_w != s->want.resized_w || got.resized_h != s->want.resized_h ||
            got.x != s->want.x || got.y != s->want.y)
            fail_msg("%s: %dx%d at (%d, %d), want %dx%d at (%d, %d)", s->why, got.resized_w,
                     got.resized_h, got.x, got.y, s->want.resized_w, s->want.resized_h, s->want.x,
                     s->want.y);
        mem_free(dst);
        image_release(&image);
    }
}

/* border pads with the mean colour, a crop larger than the picture with black. */
static void padding(void **state) {
    struct preprocess rule = rule_make(8, 8, 1.0, CROP_BORDER, ROUND_HALF_EVEN, FILTER_BILINEAR);
    struct image image = pattern(8, 2);
    uint8_t dst[8 * 8 * 3];
    (void)state;
    memset(image.rgb, 200, 8 * 2 * 3);
    assert_int_equal(preprocess_image(&rule, &image, dst, NULL), ST_OK);
    for (int i = 0; i < 8 * 8 * 3; i++) {
        static const int mean[3] = {124, 116, 104}; /* round(255 * 0.485), ... */
        int y = i / 24, want = y == 3 || y == 4 ? 200 : mean[i % 3];
        if (dst[i] != want) fail_msg("border: byte %d is %d, want %d", i, dst[i], want);
    }
    rule = rule_make(8, 8, 2.0, CROP_SQUASH, ROUND_HALF_EVEN, FILTER_BILINEAR); /* scaled to 4 */
    assert_int_equal(preprocess_image(&rule, &image, dst, NULL), ST_OK);
    for (int i = 0; i < 8 * 8 * 3; i++) {
        int y = i / 24, x = i / 3 % 8, want = y >= 2 && y < 6 && x >= 2 && x < 6 ? 200 : 0;
        if (dst[i] != want) fail_msg("crop: byte %d is %d, want %d", i, dst[i], want);
    }
    image_release(&image);
}

static const struct bad {
    int model_height, model_width, width, height;
    double pct;
    int mode;
    enum status status;
    const char *sentence, *why;
} bads[] = {
    {0, 224, 9, 9, 0.9, CROP_CENTER, ST_USAGE, "the model's input is 224 x 0", "no height"},
    {224, -1, 9, 9, 0.9, CROP_CENTER, ST_USAGE, "the model's input is -1", "negative width"},
    {224, 1 << 20, 9, 9, 0.9, CROP_CENTER, ST_USAGE, "the model's input is", "absurd width"},
    {224, 224, 9, 9, 0.0, CROP_CENTER, ST_USAGE, "crop-pct is 0", "division by 0"},
    {224, 224, 9, 9, -1, CROP_CENTER, ST_USAGE, "crop-pct is -1", "negative"},
    {224, 224, 9, 9, 0.0 / 0.0, CROP_CENTER, ST_USAGE, "crop-pct is", "not a number"},
    {4, 4, 9, 9, 50, CROP_CENTER, ST_USAGE, "leaves nothing of a 4 x 4", "scale size 0"},
    {224, 224, 9, 9, 0.9, 7, ST_USAGE, "no crop mode 7", "unknown mode"},
    {224, 224, 0, 0, 0.9, CROP_CENTER, ST_USAGE, "the picture is 0 x 0", "released picture"},
    {224, 224, 1, 20000000, 0.9, CROP_CENTER, ST_FORMAT, "too thin to scale", "passes 2^31"},
};

static void bad_rules(void **state) {
    uint8_t *dst = mem_zalloc(224 * 224, 3);
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bads); i++) {
        const struct bad *b = &bads[i];
        struct preprocess rule = rule_make(b->model_height, b->model_width, b->pct,
                                           (enum crop_mode)b->mode, ROUND_FLOOR, FILTER_BOX);
        struct image image = {0};
        if (b->width) image = pattern(b->width, b->height);
        if (preprocess_image(&rule, &image, dst, NULL) != b->status ||
            !strstr(fail_message(), b->sentence))
            fail_msg("%s: got '%s', want '%s'", b->why, fail_message(), b->sentence);
        image_release(&image);
    }
    mem_free(dst);
}

static void names(void **state) {
    enum crop_mode mode;
    enum crop_rounding rounding;
    (void)state;
    for (int m = CROP_CENTER; m <= CROP_BORDER; m++) {
        assert_true(crop_mode_find(crop_mode_name((enum crop_mode)m), &mode));
        assert_int_equal(mode, m);
    }
    for (int r = ROUND_HALF_EVEN; r <= ROUND_FLOOR; r++) {
        assert_true(crop_rounding_find(crop_rounding_name((enum crop_rounding)r), &rounding));
        assert_int_equal(rounding, r);
    }
    assert_false(crop_mode_find("Center", &mode));
    assert_false(crop_rounding_find("", &rounding));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(originals), cmocka_unit_test(placements), cmocka_unit_test(padding),
        cmocka_unit_test(bad_rules), cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
