/*
 * test_windows: the integers of windowed attention: window maps are permutations, regions and bias
 * indices are timm's own (fingerprints: tests/ref/windows_golden.py).
 */
#include "kernels/relative.h"
#include "kernels/windows.h"
#include "tests/ref/golden_windows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 24, SLOTS = MOST * MOST };

static uint64_t fnv1a(const void *data, size_t n, uint64_t state) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++)
        state = (state ^ bytes[i]) * 0x100000001b3u;
    return state;
}

/* Every token of the map lies in exactly one slot, the rest is padding. */
static bool is_permutation(const struct window_grid *g) {
    static int token[SLOTS];
    static unsigned char seen[SLOTS];
    int tokens = g->grid_h * g->grid_w, slots = window_slots(g), windows = window_count(g);
    int found = 0, padding = 0;
    memset(seen, 0, sizeof seen);
    for (int w = 0; w < windows; w++) {
        window_tokens(g, w, token);
        for (int i = 0; i < slots; i++) {
            if (token[i] < -1 || token[i] >= tokens) return false;
            if (token[i] < 0) {
                padding++;
            } else {
                if (seen[token[i]]++) return false;
                found++;
            }
        }
    }
    return found == tokens && padding == windows * slots - tokens;
}

static void maps_are_permutations(void **state) {
    struct window_grid g;
    (void)state;
    for (g.grid_h = 1; g.grid_h <= 20; g.grid_h++)
        for (g.grid_w = 1; g.grid_w <= 20; g.grid_w++)
            for (g.window_h = 1; g.window_h <= 20; g.window_h++) {
                g.window_w = g.window_h;
                for (g.shift_h = 0; g.shift_h < g.window_h; g.shift_h++) {
                    g.shift_w = g.shift_h;
                    if (!is_permutation(&g))
                        fail_msg("map %dx%d, window %d, shift %d", g.grid_h, g.grid_w, g.window_h,
                                 g.shift_h);
                }
            }
}

/* The axes are apart: other windows and shifts along each. */
static void rectangular_maps_are_permutations(void **state) {
    struct window_grid g;
    (void)state;
    for (g.grid_h = 1; g.grid_h <= 9; g.grid_h++)
        for (g.grid_w = 1; g.grid_w <= 9; g.grid_w++)
            for (g.window_h = 1; g.window_h <= 5; g.window_h++)
                for (g.window_w = 1; g.window_w <= 5; g.window_w++)
                    for (g.shift_h = 0; g.shift_h < g.window_h; g.shift_h++)
                        for (g.shift_w = 0; g.shift_w < g.window_w; g.shift_w++)
                            assert_true(is_permutation(&g));
}

/* 4x4 map, windows of 2, shift 1, by hand: rolled by one, the last row and column wrap around. */
static void tokens_by_hand(void **state) {
    static const struct {
        struct window_grid grid;
        int window, token[6];
        const char *why;
    } rows[] = {
        {{4, 4, 2, 2, 0, 0}, 0, {0, 1, 4, 5}, "no shift"},
        {{4, 4, 2, 2, 0, 0}, 3, {10, 11, 14, 15}, "no shift, the last"},
        {{4, 4, 2, 2, 1, 1}, 0, {5, 6, 9, 10}, "shifted"},
        {{4, 4, 2, 2, 1, 1}, 3, {15, 12, 3, 0}, "the corner meets all four"},
        {{3, 3, 2, 2, 1, 1}, 3, {0, -1, -1, -1}, "shifted first, then padded (timm's order)"},
        {{3, 3, 2, 2, 0, 0}, 1, {2, -1, 5, -1}, "padded to the right"},
        {{2, 3, 2, 3, 0, 0}, 0, {0, 1, 2, 3, 4, 5}, "one window"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int token[6];
        window_tokens(&rows[i].grid, rows[i].window, token);
        for (int s = 0; s < window_slots(&rows[i].grid); s++)
            if (token[s] != rows[i].token[s])
                fail_msg("%s: slot %d holds %d, want %d", rows[i].why, s, token[s],
                         rows[i].token[s]);
    }
}

static void bias_index_is_timms(void **state) {
    static int32_t index[SLOTS * SLOTS];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(golden_bias_index); i++) {
        int h = golden_bias_index[i].window_h, w = golden_bias_index[i].window_w, n = h * w;
        for (int query = 0; query < n; query++)
            for (int key = 0; key < n; key++)
                index[query * n + key] = relative_index(h, w, 0, query, key);
        uint64_t hash = fnv1a(index, sizeof *index * (size_t)(n * n), 0xcbf29ce484222325u);
        if (hash != golden_bias_index[i].hash) fail_msg("window %dx%d", h, w);
    }
}

static void regions_are_timms_mask(void **state) {
    static unsigned char mask[SLOTS * SLOTS];
    static int region[SLOTS];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(golden_masks); i++) {
        struct window_grid g = {.window_h = golden_masks[i].window_h,
                                .window_w = golden_masks[i].window_w,
                                .shift_h = golden_masks[i].shift_h,
                                .shift_w = golden_masks[i].shift_w};
        uint64_t hash = 0xcbf29ce484222325u;
        int n = window_slots(&g);
        for (g.grid_h = 1; g.grid_h <= golden_masks[i].most; g.grid_h++)
            for (g.grid_w = 1; g.grid_w <= golden_masks[i].most; g.grid_w++)
                for (int w = 0; w < window_count(&g); w++) {
                    bool several = window_regions(&g, w, region), apart = false;
                    for (int s = 0; s < n * n; s++) {
                        mask[s] = region[s / n] != region[s % n];
                        apart |= mask[s] != 0;
                    }
                    assert_int_equal(several, apart);
                    hash = fnv1a(mask, (size_t)(n * n), hash);
                }
        if (hash != golden_masks[i].hash)
            fail_msg("window %dx%d, shift %d, %d", g.window_h, g.window_w, g.shift_h, g.shift_w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_are_permutations),
        cmocka_unit_test(rectangular_maps_are_permutations),
        cmocka_unit_test(tokens_by_hand),
        cmocka_unit_test(bias_index_is_timms),
        cmocka_unit_test(regions_are_timms_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
