/*
 * test_attention_stats: tools/attention_stats.c: made-up attention whose numbers are known, and
 * golden models against the same done directly in double precision from what the capture gave.
 */
#include "tools/attention_stats.h" // before cmocka.h, which has a macro `fail`

#include "tests/attention_shapes.h"
#include "tests/capture_copy.h"

enum { IMAGES = 3, SLOTS = 256 };

static struct attention_stats_room room_of(void) {
    static int ints[2][SLOTS];
    static float floats[2][SLOTS];
    return (struct attention_stats_room){ints[0], ints[1], floats[0], floats[1]};
}

static bool same(const char *name, const char *what, double got, double want, double tolerance) {
    const bool good =
        isnan(want) ? isnan(got) : fabs(got - want) <= tolerance * fmax(1, fabs(want));
    if (!good) printf("%s: %s is %.9g, want %.9g\n", name, what, got, want);
    return good;
}

/*
 * Observed 4.3e-8; a key more or less, a wrong region or a patch elsewhere measures 1e-3 and more.
 */
static bool agree(const char *name, const struct attention_head_stats *got,
                  const struct attention_head_stats *want) {
    const double tolerance = 5e-7;
    bool good = same(name, "entropy", got->entropy, want->entropy, tolerance);
    good &= same(name, "share", got->share, want->share, tolerance);
    good &= same(name, "distance", got->distance, want->distance, tolerance);
    good &= same(name, "greatest", got->greatest, want->greatest, tolerance);
    return good & same(name, "prefix", got->prefix, want->prefix, tolerance);
}

/* ---- known answers --------------------------------------------------------------------------- */

enum pattern_made { UNIFORM, ITSELF, FIRST, PADDING };

static float made(enum pattern_made pattern, int query, int key, int keys) {
    switch (pattern) {
    case UNIFORM: return 1.0f / (float)keys;
    case ITSELF: return query == key;
    case FIRST: return key == 0;
    case PADDING: return key == 0 ? 0.25f : key == keys - 1 ? 0.75f : 0;
    }
    return 0;
}

/* Two heads, of which the second is looked at: the first is NaN. Patches are 2 high and 3 wide. */
static void test_known(void **state) {
    static const double pixels[] = {2, 3};
    static const struct {
        const char *why;
        struct attention_shape shape;
        enum pattern_made pattern;
        struct attention_head_stats want;
    } rows[] = {
        {"a lone patch",
         {2, 0, {.grid_h = 1, .grid_w = 1}, false, 1, 1, 1},
         UNIFORM,
         {0, 0, 0, 7, 0}},
        {"uniform",
         {2, 1, {.grid_h = 1, .grid_w = 2}, false, 1, 3, 3},
         UNIFORM,
         {1.0986122887, 1, 1.5, 7, 1.0 / 3}},
        {"itself", {2, 2, {.grid_h = 2, .grid_w = 1}, false, 1, 4, 4}, ITSELF, {0, 0, 0, 7, 0.5}},
        {"the class token alone",
         {2, 1, {.grid_h = 2, .grid_w = 1}, false, 1, 3, 3},
         FIRST,
         {0, 0, NAN, 7, 1}},
        {"the first patch",
         {2, 0, {.grid_h = 2, .grid_w = 2}, false, 1, 4, 4},
         FIRST,
         {0, 0, (2 + 3 + 3.605551275) / 4, 7, 0}},
        /* windows of 2 x 2 on 2 x 3: one of four patches, one of two and two of padding */
        {"windows",
         {2, 0, {2, 3, 2, 2, 0, 0}, true, 2, 4, 4},
         UNIFORM,
         {(4 * 1.3862943611 + 2 * 0.6931471806) / 6, 1,
          (4 * (2 + 3 + 3.605551275) / 4 + 2 * 2 / 2.0) / 6, 7, 0}},
        {"most of it on padding",
         {2, 0, {1, 1, 1, 2, 0, 0}, true, 1, 2, 2},
         PADDING,
         {0, 0, 0, 7 - 1.0986122887, 0}},
    };
    const struct attention_stats_room room = room_of();
    bool good = true;
    (void)state;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const struct attention_shape *shape = &rows[r].shape;
        const int Q = shape->queries, H = shape->heads;
        float probs[128], greatest[32];
        struct attention_head_stats got;
        for (int row = 0; row < shape->windows * H * Q; row++) {
            const bool mine = row / Q % H == 1;
            greatest[row] = !mine ? NAN : row % Q == 0 ? 7 : -3;
            for (int k = 0; k < Q; k++)
                probs[row * Q + k] = mine ? made(rows[r].pattern, row % Q, k, Q) : NAN;
        }
        attention_stats_head(shape, pixels, probs, greatest, 1, &room, &got);
        good &= agree(rows[r].why, &got, &rows[r].want);
    }
    assert_true(good);
}

/* Keys of another region count for nothing: uniform over its own, a query's share is 1. */
static void test_regions(void **state) {
    static const struct attention_shape shape = {1, 0, {4, 4, 2, 2, 1, 1}, true, 4, 4, 4};
    const struct attention_stats_room room = room_of();
    float probs[4 * 4 * 4], greatest[16] = {0};
    struct attention_head_stats got;
    (void)state;
    for (int w = 0; w < 4; w++)
        for (int q = 0; q < 4; q++)
            for (int k = 0; k < 4; k++) {
                /* the last window of an axis holds two regions */
                const int apart = (w % 2 && q % 2 != k % 2) || (w / 2 && q / 2 != k / 2);
                const int mine = (w % 2 ? 1 : 2) * (w / 2 ? 1 : 2);
                probs[(w * 4 + q) * 4 + k] = apart ? 0 : 1.0f / (float)mine;
            }
    attention_stats_head(&shape, (const double[]){1, 1}, probs, greatest, 0, &room, &got);
    assert_true(same("regions", "entropy", got.entropy, (4 * log(4) + 8 * log(2)) / 16, 1e-6));
    assert_true(same("regions", "share", got.share, 12 / 16.0, 1e-6)); /* four see themselves */
}

/* ---- models ---------------------------------------------------------------------------------- */

static struct map_slot slot_at(const struct attention_shape *shape, const struct window_shape *map,
                               int window, int slot) {
    return shape->windowed ? map_slot_of(map, window, slot) : (struct map_slot){0, 0, slot};
}

static bool apart(const struct window_shape *m, struct map_slot a, struct map_slot b) {
    return map_strip(a.y, m->window_h, m->shift_h, m->grid_h) !=
               map_strip(b.y, m->window_h, m->shift_h, m->grid_h) ||
           map_strip(a.x, m->window_w, m->shift_w, m->grid_w) !=
               map_strip(b.x, m->window_w, m->shift_w, m->grid_w);
}

/* A query's row: probs (keys) and its greatest score. */
static void direct_row(const struct attention_shape *shape, const struct window_shape *map,
                       const double pixels[2], int window, int query, const float *probs,
                       double greatest, struct attention_head_stats *sum, int *queries,
                       int *patches) {
    const struct map_slot a = slot_at(shape, map, window, query);
    const int P = shape->prefix, width = shape->map.grid_w;
    double total = 0, most = 0, most_seen = 0, on_patches = 0, distance = 0, entropy = 0;
    int seen = 0;
    for (int k = 0; k < shape->keys; k++) {
        const struct map_slot b = slot_at(shape, map, window, k);
        most = fmax(most, (double)probs[k]);
        if (b.token < 0) continue;
        most_seen = fmax(most_seen, (double)probs[k]);
        total += (double)probs[k];
        seen += !shape->windowed || !apart(map, a, b);
    }
    if (total == 0) return; /* padding has all of it */
    ++*queries;
    for (int k = 0; k < shape->keys; k++) {
        const struct map_slot b = slot_at(shape, map, window, k);
        const double p = (double)probs[k] / total;
        if (b.token < 0) continue;
        if (p > 0) entropy -= p * log(p);
        if (b.token < P) continue;
        on_patches += p;
        distance += p * hypot(((a.token - P) / width - (b.token - P) / width) * pixels[0],
                              ((a.token - P) % width - (b.token - P) % width) * pixels[1]);
    }
    sum->entropy += entropy;
    sum->share += seen > 1 ? entropy / log(seen) : 0;
    sum->prefix += 1 - on_patches;
    sum->greatest = fmax(sum->greatest, greatest + log(most_seen / most));
    if (a.token < P) return;
    sum->distance += distance / on_patches;
    ++*patches;
}

static struct attention_head_stats direct(const struct attention_shape *shape,
                                          const double pixels[2], const float *probs,
                                          const float *greatest, int head) {
    const struct window_grid *g = &shape->map;
    const struct window_shape map = {.grid_h = g->grid_h,
                                     .grid_w = g->grid_w,
                                     .window_h = g->window_h,
                                     .window_w = g->window_w,
                                     .shift_h = g->shift_h,
                                     .shift_w = g->shift_w};
    struct attention_head_stats sum = {.greatest = -INFINITY};
    int queries = 0, patches = 0;
    for (int w = 0; w < shape->windows; w++)
        for (int q = 0; q < shape->queries; q++) {
            const int row = (w * shape->heads + head) * shape->queries + q;
            if (slot_at(shape, &map, w, q).token < 0) continue;
            direct_row(shape, &map, pixels, w, q, probs + row * shape->keys, (double)greatest[row],
                       &sum, &queries, &patches);
        }
    return (struct attention_head_stats){sum.entropy / queries, sum.share / queries,
                                         sum.distance / patches, sum.greatest,
                                         sum.prefix / queries};
}

struct subject {
    struct devices devices;
    struct model model;
    uint8_t *pixels;
    struct attention_maps maps;
    struct attention_stats stats;
};

static void subject_open(struct subject *t, const char *name, struct attention_options options) {
    const struct backend_options backend = {.device = "cpu", .precision = "fp32", .threads = 2};
    const struct model_options model = {.max_batch = IMAGES, .crop_pct = -1};
    char path[64];
    size_t bytes;
    *t = (struct subject){0};
    snprintf(path, sizeof path, "tests/ref/%s.h5", name);
    demand(devices_open(&backend, &t->devices));
    demand(model_open(path, &model, &t->devices, &t->model));
    bytes = IMAGES * (size_t)t->model.preprocess.height * (size_t)t->model.preprocess.width * 3;
    t->pixels = memory(bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        t->pixels[i] = (uint8_t)(128 + 100 * sin((double)i / 19) + (double)(i % 23));
    options.whole = true;
    demand(attention_open(&t->maps, &t->model, &options));
    demand(attention_stats_open(&t->stats, &t->maps, &t->maps.capture, true));
    assert_true(t->stats.kept_bytes > 0);
}

static void subject_close(struct subject *t) {
    attention_stats_release(&t->stats);
    attention_stats_release(&t->stats); // twice is harmless
    attention_release(&t->maps);
    model_release(&t->model);
    devices_close(&t->devices);
    mem_free(t->pixels);
}

/* A patch's height and width in a layer. */
static void pixels_of(const struct subject *t, int layer, double pixels[2]) {
    const struct model_replica *replica = t->model.replicas;
    if (t->model.family == MODEL_SWIN) {
        const int step = 1 << swin_layer_stage(&replica->swin.config, layer);
        pixels[0] = step * replica->swin.config.patch_h;
        pixels[1] = step * replica->swin.config.patch_w;
    } else {
        pixels[0] = replica->vit.config.patch_h;
        pixels[1] = replica->vit.config.patch_w;
    }
}

static void test_model(void **state) {
    struct capture_copy copy = {.images = IMAGES};
    const struct capture capture = {.take = capture_copy_take, .context = &copy, .scores = true};
    const struct attention_options options = {.method = ATTENTION_RAW,
                                              .focus = {.query = QUERY_MEAN}};
    const char *name = *state;
    struct subject t;
    bool good = true;
    subject_open(&t, name, options);
    demand(model_forward(&t.model, t.pixels, IMAGES, NULL,
                         &(struct model_taps){.layer = -1, .capture = &capture}));
    demand(model_forward(&t.model, t.pixels, IMAGES, NULL,
                         &(struct model_taps){.layer = -1, .capture = &t.stats.capture}));
    for (int i = 0; i < IMAGES; i++)
        for (int l = 0; l < t.model.depth; l++) {
            const struct attention_shape *shape = &copy.shape[l];
            const size_t rows = (size_t)attention_shape_rows(shape);
            double pixels[2];
            pixels_of(&t, l, pixels);
            for (int h = 0; h < shape->heads; h++) {
                const struct attention_head_stats want =
                    direct(shape, pixels, copy.probs[l] + (size_t)i * rows * (size_t)shape->keys,
                           copy.greatest[l] + (size_t)i * rows, h);
                good &= agree(name, attention_stats_of(&t.stats, i, l, h), &want);
            }
        }
    assert_true(good);
    capture_copy_release(&copy);
    subject_close(&t);
}

/*
 * The layers and heads asked for alone, the same numbers whatever the method; who takes the layers
 * first has what it has without, and so has the pass.
 */
static void test_chosen(void **state) {
    const struct attention_options all = {.method = ATTENTION_RAW, .focus = {.query = QUERY_MEAN}};
    const struct attention_options some = {
        .method = ATTENTION_RAW,
        .layers = {.count = 1, .value = {1}},
        .heads = {.kind = HEADS_LIST, .list = {.count = 1, .value = {1}}}};
    struct attention_options rollout = attention_defaults();
    const struct attention_head_stats none = {0};
    struct attention_head_stats want;
    struct attention_array array;
    struct subject t;
    float *map, plain[3][64], with[3][64];
    size_t floats;
    (void)state;
    subject_open(&t, "vit_map", all);
    assert_true(t.model.classes <= 64);
    demand(model_forward(&t.model, t.pixels, 1, with[0],
                         &(struct model_taps){.layer = -1, .capture = &t.stats.capture}));
    demand(attention_compute(&t.maps, 0, 0, &array));
    floats = attention_array_elements(&array);
    map = memory(floats, sizeof *map);
    memcpy(map, array.values, floats * sizeof *map);
    demand(model_forward(&t.model, t.pixels, 1, plain[0],
                         &(struct model_taps){.layer = -1, .capture = &t.maps.capture}));
    assert_memory_equal(plain[0], with[0], (size_t)t.model.classes * sizeof(float));
    demand(attention_compute(&t.maps, 0, 0, &array));
    assert_memory_equal(array.values, map, floats * sizeof *map);
    want = *attention_stats_of(&t.stats, 0, 1, 1);
    subject_close(&t);
    rollout.start_layer = 1;
    for (int i = 0; i < 2; i++) {
        struct attention_options options = i ? rollout : some;
        if (!i) options.focus.query = QUERY_MEAN;
        subject_open(&t, "vit_map", options);
        demand(model_forward(&t.model, t.pixels, 1, NULL,
                             &(struct model_taps){.layer = -1, .capture = &t.stats.capture}));
        assert_memory_equal(attention_stats_of(&t.stats, 0, 1, 1), &want, sizeof want);
        assert_memory_equal(attention_stats_of(&t.stats, 0, 0, 1), &none, sizeof none);
        assert_int_equal(attention_stats_of(&t.stats, 0, 1, 0)->entropy > 0, i);
        subject_close(&t);
    }
    mem_free(map);
}

int main(void) {
    static const char *const names[] = {"vit_token",     "vit_distilled",  "vit_reg4_gap",
                                        "vit_rectangle", "vit_map",        "vit_beit",
                                        "swin_v1",       "swin_v1_padded", "swin_v1_extreme",
                                        "swin_v2_odd",   "swin_v2_padded"};
    struct CMUnitTest tests[COUNT_OF(names) + 3];
    size_t count = 0;
    int failed;
    tests[count++] = row_test("made up", "known answers", test_known, NULL);
    tests[count++] = row_test("made up", "regions", test_regions, NULL);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        tests[count++] = row_test("a model", names[i], test_model, names[i]);
    tests[count++] = row_test("a model", "what is asked for", test_chosen, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
    return failed;
}
