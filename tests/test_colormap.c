/* colormap: matplotlib's colours, names, and what is outside 0..1. */
#include "tools/colormap.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const struct row {
    const char *name;
    float place;
    double rgb[3]; /* 0..255 */
} rows[] = {
#include "tests/ref/golden_colormaps.h"
};

static void golden(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *r = &rows[i];
        enum colormap map;
        uint32_t color;
        if (!colormap_find(r->name, &map)) fail_msg("no %s", r->name);
        color = colormap_color(map, r->place);
        for (int c = 0; c < 3; c++) {
            const double got = color >> (16 - 8 * c) & 255;
            if (fabs(got - r->rgb[c]) >
                0.501) /* 8 bits; a table shifted by an entry is 1 to 8 off */
                fail_msg("%s at %g: channel %d is %g, want %g", r->name, (double)r->place, c, got,
                         r->rgb[c]);
        }
    }
}

static void names(void **state) {
    enum colormap map;
    (void)state;
    for (int i = 0; i < COLORMAP_COUNT; i++) {
        assert_true(colormap_find(colormap_name((enum colormap)i), &map));
        assert_int_equal(map, i);
    }
    assert_false(colormap_find("jet", &map));
    assert_false(colormap_find("", &map));
    assert_string_equal(colormap_name((enum colormap)COLORMAP_COUNT), "unknown");
}

static void places(void **state) {
    static const struct {
        float place;
        uint32_t color;
        const char *why;
    } cases[] = {{0.0F, 0x000000, "the first"},
                 {1.0F, 0xFFFFFF, "the last"},
                 {-5.0F, 0x000000, "below"},
                 {7.0F, 0xFFFFFF, "above"},
                 {NAN, 0x000000, "not a number"},
                 {INFINITY, 0xFFFFFF, "infinite"},
                 {-INFINITY, 0x000000, "infinite"},
                 {0.5F, 0x808080, "entry 128"},
                 {0.49999F, 0x7F7F7F, "below the middle"},
                 {0.999F, 0xFFFFFF, "the last 256th"},
                 {0.996F, 0xFEFEFE, "the last but one"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const uint32_t got = colormap_color(COLORMAP_GRAY, cases[i].place);
        if (got != cases[i].color)
            fail_msg("%s: %06X, want %06X", cases[i].why, got, cases[i].color);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden), cmocka_unit_test(names),
                                       cmocka_unit_test(places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
