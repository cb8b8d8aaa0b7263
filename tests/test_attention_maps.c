/*
 * test_attention_maps: tools/attention.c on golden models: a query's raw maps against the matrices
 * of all queries, these against the probabilities themselves, the rollout of an attention pool, the
 * gradient's map against the relevances that it is made of.
 */
#include "tools/attention.h" // before cmocka.h, which has a macro `fail`

#include "tests/capture_copy.h"

enum { IMAGES = 2 };

static const char *const names[] = {"vit_token", "vit_distilled",  "vit_reg4_gap", "vit_rectangle",
                                    "swin_v1",   "swin_v1_padded", "swin_v2_odd"};

struct subject {
    struct devices devices;
    struct model model;
    uint8_t *pixels;
    struct attention_maps maps;
};

static void subject_open(struct subject *t, const char *name) {
    const struct backend_options backend = {.device = "cpu", .precision = "fp32", .threads = 1};
    const struct model_options options = {.max_batch = IMAGES, .crop_pct = -1, .backward = true};
    char path[64];
    size_t bytes;
    *t = (struct subject){0};
    snprintf(path, sizeof path, "tests/ref/%s.h5", name);
    demand(devices_open(&backend, &t->devices));
    demand(model_open(path, &options, &t->devices, &t->model));
    bytes = (size_t)t->model.preprocess.height * (size_t)t->model.preprocess.width * 3;
    t->pixels = memory(IMAGES, bytes);
    for (size_t i = 0; i < IMAGES * bytes; i++)
        t->pixels[i] = (uint8_t)(128 + 100 * sin((double)i / 23) + (double)(i % 17));
}

static void subject_close(struct subject *t) {
    attention_release(&t->maps);
    attention_release(&t->maps); // twice is harmless
    model_release(&t->model);
    devices_close(&t->devices);
    mem_free(t->pixels);
}

/* A pass of both images; the picture is what the model sees, twice as large. */
static void subject_run(struct subject *t, const struct attention_options *options) {
    const int h = t->model.preprocess.height, w = t->model.preprocess.width;
    const struct pipeline_item item = {
        .width = 2 * w, .height = 2 * h, .placement = {.resized_w = w, .resized_h = h}};
    const struct model_taps taps = {.layer = -1, .capture = &t->maps.capture};
    attention_release(&t->maps);
    demand(attention_open(&t->maps, &t->model, options));
    for (int i = 0; i < IMAGES; i++)
        demand(attention_place(&t->maps, i, &item));
    demand(model_forward(&t->model, t->pixels, IMAGES, NULL, &taps));
}

/* All queries of all layers: what the capture gave, slot by slot, and nothing else. */
static void check_matrices(struct subject *t, float **matrices) {
    struct capture_copy copy = {.images = IMAGES};
    const struct capture capture = {.take = capture_copy_take, .context = &copy};
    const struct model_taps taps = {.layer = -1, .capture = &capture};
    const struct attention_options options = {.method = ATTENTION_RAW,
                                              .focus = {.query = QUERY_ALL}};
    demand(model_forward(&t->model, t->pixels, IMAGES, NULL, &taps));
    subject_run(t, &options);
    assert_int_equal(attention_arrays(&t->maps), t->model.depth);
    for (int l = 0; l < t->model.depth; l++) {
        const struct attention_shape *shape = &copy.shape[l];
        const size_t T = (size_t)attention_shape_tokens(shape),
                     floats = (size_t)shape->heads * T * T;
        struct attention_array array;
        const float *p = copy.probs[l] + attention_shape_floats(shape); // image 1
        double placed = 0, sum = 0;
        int token[256];
        demand(attention_compute(&t->maps, 1, l, &array));
        assert_int_equal(attention_array_elements(&array), floats);
        assert_int_equal(array.dims[1], shape->heads);
        for (int w = 0; w < shape->windows; w++) {
            attention_shape_window(shape, w, token);
            for (int r = 0; r < shape->heads * shape->queries; r++, p += shape->keys)
                for (int k = 0; k < shape->keys; k++) {
                    const int query = token[r % shape->queries], h = r / shape->queries;
                    if (query < 0 || token[k] < 0) continue;
                    assert_true(
                        array.values[((size_t)h * T + (size_t)query) * T + (size_t)token[k]] ==
                        p[k]);
                    placed += (double)p[k];
                }
        }
        for (size_t i = 0; i < floats; i++)
            sum += (double)array.values[i];
        assert_true(fabs(sum - placed) < 1e-6 * placed);
        matrices[l] = memory(floats, sizeof *matrices[l]);
        memcpy(matrices[l], array.values, floats * sizeof *matrices[l]);
    }
    capture_copy_release(&copy);
}

/* The tokens that a query stands for: [*first, *first + returned). */
static int queried(const struct subject *t, const struct attention_shape *shape,
                   const struct attention_focus *focus, int *first) {
    const int h = shape->map.grid_h, w = shape->map.grid_w;
    const bool token =
        t->model.family == MODEL_VIT && t->model.replicas->vit.config.pool == POOL_TOKEN;
    *first = shape->prefix;
    if (focus->query == QUERY_PIXEL) {
        const int y = (int)((focus->y + 0.5) * h / (2 * t->model.preprocess.height));
        *first += y * w + (int)((focus->x + 0.5) * w / (2 * t->model.preprocess.width));
        return 1;
    }
    if (focus->query == QUERY_MEAN || (focus->query == QUERY_HEAD && !token)) return h * w;
    *first = 0;
    return focus->query == QUERY_HEAD && t->model.replicas->vit.config.dist_token ? 2 : 1;
}

/* Each map is the mean of its queries' rows of the matrices. */
static void check_query(struct subject *t, float *const *matrices,
                        const struct attention_focus *focus) {
    const struct attention_options options = {.method = ATTENTION_RAW, .focus = *focus};
    subject_run(t, &options);
    for (int n = 0; n < attention_arrays(&t->maps); n++) {
        struct attention_array array;
        const float *got;
        demand(attention_compute(&t->maps, 1, n, &array));
        got = array.values;
        for (size_t l = 0; l < array.dims[0]; l++) {
            const struct attention_shape shape =
                model_attention_shape(&t->model, array.layers[l], false);
            const int T = attention_shape_tokens(&shape);
            int first, count = queried(t, &shape, focus, &first);
            assert_int_equal(array.dims[2], shape.map.grid_h);
            assert_int_equal(array.dims[3], shape.map.grid_w);
            for (int h = 0; h < shape.heads; h++)
                for (int key = shape.prefix; key < T; key++) {
                    double want = 0;
                    for (int q = first; q < first + count; q++)
                        want += (double)matrices[array.layers[l]][(h * T + q) * T + key] / count;
                    if (fabs((double)*got++ - want) > 1e-6)
                        fail_msg("query %d, layer %d, head %d, key %d: %g, want %g", focus->query,
                                 array.layers[l], h, key, (double)got[-1], want);
                }
        }
    }
}

static void test_raw(void **state) {
    static const struct attention_focus focuses[] = {{.query = QUERY_HEAD},
                                                     {.query = QUERY_CLS},
                                                     {.query = QUERY_MEAN},
                                                     {.query = QUERY_PIXEL, .x = 0, .y = 0},
                                                     {.query = QUERY_PIXEL, .x = 37, .y = 21}};
    struct subject t;
    float *matrices[COPY_LAYERS] = {NULL};
    subject_open(&t, *state);
    check_matrices(&t, matrices);
    for (size_t i = 0; i < COUNT_OF(focuses); i++)
        if (focuses[i].query != QUERY_CLS || t.model.class_token)
            check_query(&t, matrices, &focuses[i]);
    for (int l = 0; l < COPY_LAYERS; l++)
        mem_free(matrices[l]);
    subject_close(&t);
}

/* Fused raw maps and a rollout's heads: the greatest of all, the mean of some. */
static void test_fused(void **state) {
    struct attention_options options = {.method = ATTENTION_RAW, .focus = {.query = QUERY_MEAN}};
    struct attention_array array;
    struct subject t;
    float *each;
    (void)state;
    subject_open(&t, "vit_token");
    subject_run(&t, &options);
    demand(attention_compute(&t.maps, 0, 0, &array));
    const size_t N = array.dims[2] * array.dims[3], H = array.dims[1];
    each = memory(attention_array_elements(&array), sizeof *each);
    memcpy(each, array.values, attention_array_elements(&array) * sizeof *each);
    options.heads =
        (struct attention_heads){.kind = HEADS_LIST, .list = {.count = 1, .value = {1}}};
    subject_run(&t, &options);
    demand(attention_compute(&t.maps, 0, 0, &array));
    assert_int_equal(array.dims[1], 1);
    for (size_t l = 0; l < array.dims[0]; l++)
        assert_memory_equal(array.values + l * N, each + (l * H + 1) * N, N * sizeof *each);
    options.heads = (struct attention_heads){.kind = HEADS_FUSED, .fusion = FUSE_MEAN};
    subject_run(&t, &options);
    demand(attention_compute(&t.maps, 0, 0, &array));
    for (size_t p = 0; p < N; p++) {
        double want = 0;
        for (size_t h = 0; h < H; h++)
            want += (double)each[h * N + p] / (double)H;
        assert_true(fabs((double)array.values[p] - want) < 1e-7);
    }
    mem_free(each);
    subject_close(&t);
}

/* Without residual and from the last layer: the pool's row times that layer's matrix. */
static void test_pool(void **state) {
    struct capture_copy copy = {.images = IMAGES};
    const struct capture capture = {.take = capture_copy_take, .context = &copy};
    const struct model_taps taps = {.layer = -1, .capture = &capture};
    struct subject t;
    struct attention_array array;
    double want[256] = {0}, sum = 0;
    (void)state;
    subject_open(&t, "vit_map");
    const int last = t.model.depth - 1;
    const struct attention_options options = {.start_layer = last};
    demand(model_forward(&t.model, t.pixels, IMAGES, NULL, &taps));
    subject_run(&t, &options);
    demand(attention_compute(&t.maps, 0, 0, &array));
    const struct attention_shape *shape = &copy.shape[last];
    const int T = attention_shape_tokens(shape), P = shape->prefix, H = shape->heads;
    for (int i = 0; i < (T - P) * T; i++) {
        const int p = i / T, key = i % T;
        double pool = 0, row = 0;
        for (int h = 0; h < H; h++) {
            pool += (double)copy.probs[last + 1][h * (T - P) + p] / H;
            row += (double)copy.probs[last][(h * T + P + p) * T + key] / H;
        }
        want[key] += pool * row;
    }
    for (int key = P; key < T; key++)
        sum += want[key];
    for (int key = P; key < T; key++)
        assert_true(fabs((double)array.values[key - P] - want[key] / sum) < 1e-6);
    capture_copy_release(&copy);
    subject_close(&t);
}

/* row (T) = row M for each of a ViT's blocks from the last, M = I + the mean over heads of copy. */
static void multiply_blocks(const struct subject *t, const struct capture_copy *copy, int class,
                            double *row) {
    for (int l = t->model.depth - 1; l >= 0; l--) {
        const struct attention_shape *shape = &copy->shape[l];
        const int T = attention_shape_tokens(shape), H = shape->heads;
        const float *p = copy->probs[l] + (size_t) class * attention_shape_floats(shape);
        double next[256];
        memcpy(next, row, sizeof next);
        for (int h = 0; h < H; h++)
            for (int q = 0; q < T; q++)
                for (int k = 0; k < T; k++)
                    next[k] += row[q] * (double)*p++ / H;
        memcpy(row, next, sizeof next);
    }
}

/* row (T) = where the walk begins: what the head reads; of a pool its relevance. */
static void begin_row(const struct subject *t, const struct capture_copy *copy, int class,
                      double *row) {
    const struct attention_shape *pool = &copy->shape[t->model.depth];
    const int P = copy->shape[0].prefix, H = pool->heads, N = pool->keys;
    model_head_row(&t->model, row);
    for (int i = 0; model_attention_layers(&t->model) > t->model.depth && i < N; i++) {
        row[P + i] = 0;
        for (int h = 0; h < H; h++)
            row[P + i] += (double)copy->probs[t->model.depth][(class * H + h) * N + i] / H;
    }
}

static void check_class(struct subject *t, const struct capture_copy *copy, int n, int class) {
    const bool pool = model_attention_layers(&t->model) > t->model.depth;
    const int T = attention_shape_tokens(&copy->shape[0]), P = copy->shape[0].prefix;
    struct attention_array array;
    double row[256] = {0}, begun[256], sum = 0;
    char name[24];
    demand(attention_compute(&t->maps, 0, n, &array));
    snprintf(name, sizeof name, "class%d", class);
    assert_string_equal(array.name, name);
    assert_int_equal(array.class, class);
    begin_row(t, copy, n, row);
    memcpy(begun, row, sizeof begun);
    multiply_blocks(t, copy, n, row);
    for (int i = P; i < T; i++) {
        if (!pool) row[i] -= begun[i];
        sum += row[i];
    }
    for (int i = P; i < T; i++)
        if (fabs((double)array.values[i - P] - row[i] / sum) > 1e-6)
            fail_msg("class %d, patch %d: %g, want %g", class, i - P, (double)array.values[i - P],
                     row[i] / sum);
}

/* The map of a class: the row walked through I + relevance, less what it began with. */
static void test_gradient(void **state) {
    const int classes[] = {7, 2};
    const float logits[16] = {0};
    const struct pipeline_item item = {.width = 1, .height = 1};
    struct capture_copy copy = {.images = 2};
    const struct capture capture = {.take = capture_copy_take, .context = &copy};
    struct attention_options options = {.method = ATTENTION_GRADIENT, .classes = "7,2"};
    struct model_gradient gradient;
    struct subject t;
    subject_open(&t, *state);
    options.backward = &t.model;
    demand(attention_open(&t.maps, &t.model, &options));
    demand(attention_relevance(&t.maps, &item, t.pixels, logits));
    demand(model_gradient_open(&gradient, &t.model, 2));
    demand(model_gradient_run(&gradient, t.pixels, classes, 2, &capture));
    assert_int_equal(attention_arrays(&t.maps), 2);
    for (int n = 0; n < 2; n++)
        check_class(&t, &copy, n, classes[n]);
    model_gradient_release(&gradient);
    capture_copy_release(&copy);
    subject_close(&t);
}

/* Of a Swin's last layer alone: what it gives a patch, four of the finest share. */
static void test_gradient_swin(void **state) {
    const float logits[16] = {0, 0, 0, 1};
    struct attention_options options = {.method = ATTENTION_GRADIENT, .classes = "top"};
    struct attention_array array;
    struct subject t;
    double sum = 0;
    (void)state;
    subject_open(&t, "swin_v1_padded");
    const int h = t.model.preprocess.height, w = t.model.preprocess.width;
    const struct pipeline_item item = {
        .width = w, .height = h, .placement = {.resized_w = w, .resized_h = h}};
    options.backward = &t.model;
    options.focus = (struct attention_focus){.query = QUERY_PIXEL, .x = w - 1, .y = h - 1};
    options.start_layer = t.model.depth - 1; // 5 x 5 patches, of 10 x 10
    demand(attention_open(&t.maps, &t.model, &options));
    demand(attention_relevance(&t.maps, &item, t.pixels, logits));
    demand(attention_compute(&t.maps, 0, 0, &array));
    assert_int_equal(array.class, 3);
    assert_string_equal(array.name, "");
    for (size_t i = 0; i < attention_array_elements(&array); i++) {
        const size_t y = i / array.dims[3] / 2 * 2, x = i % array.dims[3] / 2 * 2;
        sum += (double)array.values[i];
        assert_true(array.values[i] == array.values[y * array.dims[3] + x]);
    }
    assert_true(fabs(sum - 1) < 1e-6);
    subject_close(&t);
}

/* The class reads the class token alone: in the last layer no patch's attention speaks for it. */
static void test_gradient_empty(void **state) {
    const float logits[16] = {0};
    struct attention_options options = {.method = ATTENTION_GRADIENT, .classes = "3"};
    struct attention_array array;
    struct subject t;
    (void)state;
    subject_open(&t, "vit_token");
    const int h = t.model.preprocess.height, w = t.model.preprocess.width;
    const struct pipeline_item item = {
        .width = w, .height = h, .placement = {.resized_w = w, .resized_h = h}};
    options.backward = &t.model;
    options.focus.query = QUERY_PIXEL;
    options.start_layer = t.model.depth - 1;
    for (int empty = 0; empty < 2; empty++) {
        options.empty = empty;
        demand(attention_open(&t.maps, &t.model, &options));
        demand(attention_relevance(&t.maps, &item, t.pixels, logits));
        assert_int_equal(attention_compute(&t.maps, 0, 0, &array), empty ? ST_OK : ST_FORMAT);
        for (size_t i = 0; empty && i < attention_array_elements(&array); i++)
            assert_true(array.values[i] == 0);
        attention_release(&t.maps);
    }
    subject_close(&t);
}

int main(void) {
    struct CMUnitTest tests[COUNT_OF(names) + 9];
    size_t count = 0;
    int failed;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        tests[count++] = row_test("raw", names[i], test_raw, names[i]);
    tests[count++] = row_test("raw", "heads", test_fused, NULL);
    tests[count++] = row_test("rollout", "an attention pool", test_pool, NULL);
    tests[count++] = row_test("gradient", "token", test_gradient, "vit_token");
    tests[count++] = row_test("gradient", "distilled", test_gradient, "vit_distilled");
    tests[count++] = row_test("gradient", "mean", test_gradient, "vit_gap_norm");
    tests[count++] = row_test("gradient", "an attention pool", test_gradient, "vit_map");
    tests[count++] = row_test("gradient", "a Swin", test_gradient_swin, NULL);
    tests[count++] = row_test("gradient", "nothing speaks", test_gradient_empty, NULL);
    failed = _cmocka_run_group_tests("attention_maps", tests, count, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
    return failed;
}
