/* test_resize: datasets/resize.c against Pillow, and the properties of a resize. */
#include "datasets/resize.h"
#include "datasets/resize_kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

/* The picture of pillow_golden.py's pattern(), (height, width, 3); to be freed. */
static uint8_t *pattern(int width, int height) {
    uint8_t *rgb = mem_zalloc((size_t)width * (size_t)height, 3);
    assert_non_null(rgb);
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width * 3; x++) {
            int v = (37 * (x / 3) + 91 * y + 13 * (x / 3) * y + 57 * (x % 3)) % 256;
            rgb[(size_t)y * (size_t)width * 3 + (size_t)x] = (uint8_t)(v < 40    ? 0
                                                                       : v > 215 ? 255
                                                                                 : v);
        }
    }
    return rgb;
}

static struct resize job_whole(const uint8_t *src, int w, int h, int ow, int oh, enum filter f) {
    struct resize job = {src, w, h, ow, oh, 0, 0, ow, oh, f};
    return job;
}

/* The whole resized picture; to be freed. */
static uint8_t *resized(const struct resize *job) {
    uint8_t *dst = mem_zalloc((size_t)job->crop_w * (size_t)job->crop_h, 3);
    assert_non_null(dst);
    if (resize_rgb(job, dst) != ST_OK) fail_msg("%s", fail_message());
    return dst;
}

static uint32_t checksum(const uint8_t *rgb, int width, int height) {
    return (uint32_t)crc32(crc32(0, NULL, 0), rgb, (uInt)(width * height * 3));
}

/*
 * Golden values made with Pillow 9.4 on a 7x5 grey picture, pixel (37x + 91y + 13xy) mod 256; they
 * hold for every version since (none is a case of the newer pass order).
 */
static const struct golden {
    enum filter filter;
    int width, height;
    uint8_t rows[90];
} goldens[] = {
    {FILTER_BILINEAR, 4, 3, {61, 128, 127, 163, 151, 142, 148, 140, 106, 125, 142, 131}},
    {FILTER_BILINEAR, 10, 9, {0,   20,  46,  72,  98,  124, 150, 176, 202, 222, 30,  53,  82,
                              111, 140, 139, 112, 142, 171, 193, 81,  107, 142, 176, 210, 164,
                              50,  84,  118, 145, 131, 162, 173, 133, 166, 155, 101, 141, 128,
                              96,  182, 217, 197, 62,  93,  137, 181, 225, 154, 48,  90,  129,
                              150, 119, 162, 162, 119, 168, 166, 142, 27,  70,  117, 151, 204,
                              178, 84,  118, 165, 207, 78,  124, 141, 80,  131, 161, 156, 96,
                              112, 159, 108, 157, 155, 38,  88,  150, 200, 83,  81,  130}},
    {FILTER_BILINEAR, 7, 3, {39,  82,  124, 167, 100, 142, 185, 125, 188, 109, 172,
                             121, 184, 105, 69,  152, 90,  173, 147, 84,  167}},
    {FILTER_BILINEAR,
     3,
     5,
     {32, 111, 190, 134, 166, 92, 181, 130, 159, 82, 170, 152, 129, 119, 109}},
    {FILTER_BICUBIC, 4, 3, {57, 131, 126, 162, 155, 148, 148, 139, 103, 127, 143, 130}},
    {FILTER_BICUBIC, 10, 9, {0,   9,   37,  62,  86,  120, 160, 185, 213, 231, 21,  40,  74,
                             109, 143, 140, 112, 140, 178, 204, 77,  101, 143, 186, 238, 176,
                             35,  68,  117, 149, 142, 179, 190, 134, 175, 161, 95,  142, 123,
                             78,  178, 228, 209, 56,  83,  137, 181, 243, 155, 36,  82,  127,
                             153, 120, 173, 168, 112, 183, 180, 142, 12,  54,  112, 159, 231,
                             191, 69,  107, 174, 223, 72,  129, 148, 73,  127, 170, 162, 79,
                             103, 165, 110, 175, 171, 22,  65,  157, 217, 67,  63,  128}},
    {FILTER_BICUBIC, 7, 3, {40,  82,  123, 165, 100, 142, 183, 128, 191, 115, 178,
                            115, 187, 102, 68,  152, 87,  171, 150, 84,  169}},
    {FILTER_BICUBIC,
     3,
     5,
     {27, 111, 195, 136, 167, 90, 182, 127, 160, 81, 171, 153, 127, 119, 111}},
    {FILTER_LANCZOS, 4, 3, {57, 132, 126, 158, 155, 156, 149, 136, 98, 129, 142, 130}},
    {FILTER_LANCZOS, 10, 9, {0,   9,   37,  54,  74,  115, 170, 195, 217, 230, 16,  31,  72,
                             114, 156, 140, 105, 125, 181, 211, 71,  92,  138, 184, 252, 173,
                             31,  52,  128, 157, 157, 204, 205, 133, 173, 163, 96,  141, 114,
                             55,  172, 236, 208, 58,  72,  140, 183, 255, 151, 30,  78,  125,
                             151, 119, 176, 163, 113, 199, 197, 138, 11,  49,  113, 158, 243,
                             190, 66,  86,  180, 226, 61,  124, 146, 79,  126, 185, 154, 65,
                             102, 178, 111, 194, 178, 16,  31,  175, 224, 72,  49,  126}},
    {FILTER_LANCZOS, 7, 3, {43,  84,  121, 162, 102, 139, 180, 129, 192, 123, 186,
                            107, 188, 101, 65,  150, 84,  169, 153, 87,  172}},
    {FILTER_LANCZOS,
     3,
     5,
     {24, 111, 198, 141, 166, 85, 177, 130, 162, 84, 170, 150, 124, 119, 114}},
};

static void golden_values(void **state) {
    uint8_t src[7 * 5 * 3];
    (void)state;
    for (int i = 0; i < 7 * 5 * 3; i++) {
        int x = i / 3 % 7, y = i / 21;
        src[i] = (uint8_t)(37 * x + 91 * y + 13 * x * y);
    }
    for (size_t g = 0; g < COUNT_OF(goldens); g++) {
        const struct golden *want = &goldens[g];
        struct resize job = job_whole(src, 7, 5, want->width, want->height, want->filter);
        uint8_t *got = resized(&job);
        for (int i = 0; i < want->width * want->height; i++)
            if (got[i * 3] != want->rows[i] || got[i * 3 + 2] != want->rows[i])
                fail_msg("%s to %dx%d: pixel %d is %d, want %d", filter_name(want->filter),
                         want->width, want->height, i, got[i * 3], want->rows[i]);
        mem_free(got);
    }
}

static const struct row {
    int width, height, new_width, new_height;
    enum filter filter;
    uint32_t crc;
} rows[] = {
#include "tests/ref/golden_resize.h"
};

/* Sizes 1x1, 1xN, Nx1, up, down, 3:1, one axis kept, and both orders of the passes. */
static void pillow_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        uint8_t *src = pattern(r->width, r->height);
        struct resize job =
            job_whole(src, r->width, r->height, r->new_width, r->new_height, r->filter);
        uint8_t *got = resized(&job);
        if (checksum(got, r->new_width, r->new_height) != r->crc)
            fail_msg("%dx%d to %dx%d by %s: not Pillow's", r->width, r->height, r->new_width,
                     r->new_height, filter_name(r->filter));
        mem_free(got);
        mem_free(src);
    }
}

/* Crop of a resize == resize of the crop only: for every row, parts at the corners and inside. */
static void crop_is_part(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        uint8_t *src = pattern(r->width, r->height);
        struct resize job =
            job_whole(src, r->width, r->height, r->new_width, r->new_height, r->filter);
        uint8_t *whole = resized(&job);
        for (int part = 0; part < 4; part++) {
            int w = (r->new_width + part) / (part + 1), h = (r->new_height + 2) / 3;
            uint8_t *got;
            job.crop_w = w;
            job.crop_h = h;
            job.crop_x = (r->new_width - w) * part / 3;
            job.crop_y = (r->new_height - h) * (3 - part) / 3;
            got = resized(&job);
            for (int y = 0; y < h; y++) {
                const uint8_t *want = whole + ((job.crop_y + y) * r->new_width + job.crop_x) * 3;
                if (memcmp(got + y * w * 3, want, (size_t)w * 3) != 0)
                    fail_msg("%dx%d to %dx%d by %s: part %d differs in row %d", r->width, r->height,
                             r->new_width, r->new_height, filter_name(r->filter), part, y);
            }
            mem_free(got);
        }
        mem_free(whole);
        mem_free(src);
    }
}

/* The weights of an output add up to 1, rounded: 0, 1, 128, 254 and 255 come back unchanged. */
static void constant_stays(void **state) {
    static const uint8_t values[] = {0, 1, 128, 254, 255};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        size_t bytes = (size_t)(r->width * r->height * 3);
        uint8_t *src = mem_zalloc(bytes, 1), *got;
        struct resize job =
            job_whole(src, r->width, r->height, r->new_width, r->new_height, r->filter);
        memset(src, values[i % 5], bytes);
        got = resized(&job);
        for (int p = 0; p < r->new_width * r->new_height * 3; p++)
            if (got[p] != values[i % 5])
                fail_msg("%dx%d to %dx%d by %s: %d became %d", r->width, r->height, r->new_width,
                         r->new_height, filter_name(r->filter), values[i % 5], got[p]);
        mem_free(got);
        mem_free(src);
    }
}

/* The AVX2 loops give the plain loops' bits, also with weights at their extremes. */
static void kernels_agree(void **state) {
    enum { WIDTH = 61, TAPS = 13, PITCH = 16 };
    const struct resize_kernels *fast = resize_avx2();
    int first[WIDTH], taps[WIDTH];
    int32_t k[WIDTH * PITCH] = {0};
    int16_t hi[WIDTH * PITCH] = {0}, lo[WIDTH * PITCH] = {0};
    uint8_t src[(WIDTH + TAPS) * TAPS * 3 + 64], a[WIDTH * 3], b[WIDTH * 3];
    struct weights w = {WIDTH, PITCH, first, taps, k, hi, lo};
    uint32_t random = 1;
    (void)state;
    if (!fast) {
        print_message("this processor has no AVX2\n");
        skip();
    }
    for (size_t i = 0; i < sizeof src; i++) {
        random = random * 1664525u + 1013904223u;
        src[i] = random >> 31 ? 255 : (uint8_t)(random >> 23);
    }
    for (int i = 0; i < WIDTH; i++) {
        first[i] = i;
        taps[i] = 1 + i % TAPS;
        for (int j = 0; j < taps[i]; j++) {
            random = random * 1664525u + 1013904223u;
            k[i * PITCH + j] = (int32_t)(random >> 9) - (1 << 22); /* -1 .. 1 */
            hi[i * PITCH + j] = (int16_t)(k[i * PITCH + j] >> WEIGHT_LOW_BITS);
            lo[i * PITCH + j] = (int16_t)(k[i * PITCH + j] & ((1 << WEIGHT_LOW_BITS) - 1));
        }
    }
    resize_plain.across(src, a, &w);
    fast->across(src, b, &w);
    assert_memory_equal(a, b, sizeof a);
    first[0] = 0;
    for (int n = 1; n <= TAPS; n++) {
        taps[0] = n;
        w.k = k + (n - 1) * PITCH; /* the output with n taps, zeros behind them */
        w.hi = hi + (n - 1) * PITCH;
        w.lo = lo + (n - 1) * PITCH;
        resize_plain.down(src, WIDTH * 3, a, sizeof a, &w);
        fast->down(src, WIDTH * 3, b, sizeof b, &w);
        assert_memory_equal(a, b, sizeof a);
    }
}

static const struct bad {
    struct resize job;
    const char *sentence, *why;
} bads[] = {
    {{NULL, 0, 5, 3, 3, 0, 0, 3, 3, FILTER_BOX}, "sizes are 1 to", "no source"},
    {{NULL, 5, 5, 0, 3, 0, 0, 1, 1, FILTER_BOX}, "sizes are 1 to", "no target"},
    {{NULL, 5, 5, 3, -3, 0, 0, 1, 1, FILTER_BOX}, "sizes are 1 to", "negative target"},
    {{NULL, 2000000000, 1, 3, 3, 0, 0, 3, 3, FILTER_BOX}, "sizes are 1 to", "absurd source"},
    {{NULL, 5, 5, 3, 3, 1, 0, 3, 3, FILTER_BOX}, "not inside the 3 x 3", "part passes the right"},
    {{NULL, 5, 5, 3, 3, 0, 2, 3, 2, FILTER_BOX}, "not inside the 3 x 3", "part passes the bottom"},
    {{NULL, 5, 5, 3, 3, -1, 0, 2, 2, FILTER_BOX}, "not inside the 3 x 3", "negative corner"},
    {{NULL, 5, 5, 3, 3, 0, 0, 0, 2, FILTER_BOX}, "not inside the 3 x 3", "empty part"},
    {{NULL, 5, 5, 3, 3, 2147483647, 0, 2, 2, FILTER_BOX}, "not inside", "corner that overflows"},
    {{NULL, 5, 5, 3, 3, 0, 0, 3, 3, (enum filter)17}, "no resize filter", "unknown filter"},
};

static void bad_jobs(void **state) {
    uint8_t dst[64];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bads); i++) {
        if (resize_rgb(&bads[i].job, dst) != ST_USAGE || !strstr(fail_message(), bads[i].sentence))
            fail_msg("%s: got '%s', want '%s'", bads[i].why, fail_message(), bads[i].sentence);
    }
}

static void filter_names_round_trip(void **state) {
    enum filter found;
    (void)state;
    for (int f = FILTER_NEAREST; f <= FILTER_LANCZOS; f++) {
        assert_true(filter_find(filter_name((enum filter)f), &found));
        assert_int_equal(found, f);
    }
    assert_false(filter_find("cubic", &found));
    assert_false(filter_find("", &found));
    assert_string_equal(filter_name((enum filter)99), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values),
        cmocka_unit_test(pillow_rows),
        cmocka_unit_test(crop_is_part),
        cmocka_unit_test(constant_stays),
        cmocka_unit_test(kernels_agree),
        cmocka_unit_test(bad_jobs),
        cmocka_unit_test(filter_names_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
