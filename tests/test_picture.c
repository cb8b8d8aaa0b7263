/* picture: what is written is read back by the decoders; RFC 4648's own base64 examples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/picture.h"

#include <cmocka.h>
#undef fail /* base.h's */

/* Smooth in two channels, noise in the third. */
static void fill(uint8_t *pixels, int width, int height, int channels) {
    uint32_t noise = 1;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++) {
                const int smooth[2] = {x * 255 / width, y * 255 / height};
                noise = noise * 1664525 + 1013904223;
                *pixels++ = (uint8_t)(c < 2 ? smooth[c] : (int)(noise >> 24));
            }
}

static void test_png(void **state) {
    static const struct {
        int width, height, channels;
    } cases[] = {{1, 1, 3}, {7, 5, 1}, {7, 5, 3}, {300, 2, 4}, {640, 480, 3}, {1, 4000, 3}};
    struct picture_bytes bytes = {0};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const int w = cases[i].width, h = cases[i].height, n = cases[i].channels;
        const struct image_options options = image_defaults();
        const size_t count = (size_t)w * (size_t)h;
        uint8_t *pixels = mem_zalloc(count, (size_t)n);
        struct image back = {0};
        fill(pixels, w, h, n);
        if (picture_png(pixels, w, h, n, &bytes) == ST_USAGE) {
            mem_free(pixels);
            skip();
        }
        assert_int_equal(image_decode(bytes.bytes, bytes.size, &options, &back), ST_OK);
        assert_int_equal(back.width, w);
        assert_int_equal(back.height, h);
        for (size_t p = 0; p < count; p++)
            for (size_t c = 0; c < 3; c++)
                assert_int_equal(back.rgb[3 * p + c], pixels[(size_t)n * p + (n > 1 ? c : 0)]);
        image_release(&back);
        mem_free(pixels);
    }
    picture_bytes_release(&bytes);
    picture_bytes_release(&bytes);
}

static void test_jpeg(void **state) {
    const struct image_options options = image_defaults();
    struct picture_bytes bytes = {0};
    struct image back = {0};
    uint8_t pixels[32 * 24 * 3];
    double error = 0;
    (void)state;
    fill(pixels, 32, 24, 3);
    for (size_t i = 2; i < sizeof pixels; i += 3)
        pixels[i] = 90;
    if (picture_jpeg(pixels, 32, 24, 90, &bytes) == ST_USAGE) skip();
    assert_int_equal(image_decode(bytes.bytes, bytes.size, &options, &back), ST_OK);
    assert_int_equal(back.width, 32);
    assert_int_equal(back.height, 24);
    for (size_t i = 0; i < sizeof pixels; i++)
        error += abs(back.rgb[i] - pixels[i]);
    assert_true(error / sizeof pixels < 3.0);
    image_release(&back);
    picture_bytes_release(&bytes);
}

static void test_sizes_refused(void **state) {
    struct picture_bytes bytes = {0};
    const uint8_t pixel[3] = {1, 2, 3};
    (void)state;
    assert_int_not_equal(picture_png(pixel, 0, 1, 3, &bytes), ST_OK);
    assert_int_not_equal(picture_png(pixel, 1, -1, 3, &bytes), ST_OK);
    assert_int_not_equal(picture_png(pixel, 1 << 20, 1 << 12, 3, &bytes), ST_OK);
    assert_int_not_equal(picture_jpeg(pixel, 0, 0, 90, &bytes), ST_OK);
    assert_null(bytes.bytes);
}

static void test_thumbnail(void **state) {
    static const struct {
        int width, height, side, small_w, small_h;
    } cases[] = {
        {640, 480, 96, 96, 72}, {480, 640, 96, 72, 96}, {50, 40, 96, 50, 40}, {96, 96, 96, 96, 96},
        {5000, 3, 96, 96, 1},   {3, 5000, 64, 1, 64},   {1, 1, 1, 1, 1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct image small = {0}, image = {.width = cases[i].width, .height = cases[i].height};
        const size_t count = (size_t)image.width * (size_t)image.height * 3;
        image.rgb = mem_zalloc(count, 1);
        memset(image.rgb, 77, count);
        assert_int_equal(picture_thumbnail(&image, cases[i].side, &small), ST_OK);
        assert_int_equal(small.width, cases[i].small_w);
        assert_int_equal(small.height, cases[i].small_h);
        for (int p = 0; p < small.width * small.height * 3; p++)
            assert_int_equal(small.rgb[p], 77);
        image_release(&small);
        image_release(&image);
    }
}

static void test_base64(void **state) {
    static const struct {
        const char *plain, *text;
    } cases[] = {{"", ""},
                 {"f", "Zg=="},
                 {"fo", "Zm8="},
                 {"foo", "Zm9v"},
                 {"foob", "Zm9vYg=="},
                 {"fooba", "Zm9vYmE="},
                 {"foobar", "Zm9vYmFy"},
                 {"\xff\xef\xbe", "/+++"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32] = "";
        FILE *file = tmpfile();
        assert_non_null(file);
        picture_print_base64((const uint8_t *)cases[i].plain, strlen(cases[i].plain), file);
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        assert_string_equal(text, cases[i].text);
        fclose(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_png), cmocka_unit_test(test_jpeg),
                                       cmocka_unit_test(test_sizes_refused),
                                       cmocka_unit_test(test_thumbnail),
                                       cmocka_unit_test(test_base64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
