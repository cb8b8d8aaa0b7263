/*
 * test_gradient: the relevance of a class in the tiny models of vit_*.h5 and swin_*.h5, layer by
 * layer against torch's autograd.
 *
 * Golden file: tests/ref/gradient.h5, made by tests/ref/gradient_golden.py: of class CLASS of the
 * second image, in float64.
 */
#include "swin/swin.h" // before cmocka.h, which has a macro `fail`
#include "vit/vit.h"

#include "tests/capture_copy.h"
#include "tests/golden.h"

/*
 * max |difference| over max |value| of a layer. Observed with AVX2 and baseline code: up to 6.3e-6;
 * scores of +-100 in v2_extreme 6e-5 (their float32 rounding alone gives probabilities 2.5e-5).
 */
#define TOLERANCE 2e-5
#define EXTREME   3e-4

enum { CLASS = 3, IMAGE = 1, MOST = 3 };

static const char *const names[] = {"vit_token",        "vit_distilled",
                                    "vit_deit3",        "vit_reg4_gap",
                                    "vit_gap_norm",     "vit_cls_gap",
                                    "vit_clip",         "vit_qk_layer",
                                    "vit_qk_rms",       "vit_so150m2",
                                    "vit_map",          "vit_fc_norm_token",
                                    "vit_rectangle",    "vit_odd",
                                    "vit_patch14",      "vit_resized",
                                    "vit_tanh",         "vit_beit",
                                    "vit_beit_shared",  "vit_beit_rectangle",
                                    "vit_beit_resized", "vit_relpos",
                                    "vit_swiglu",       "swin_v1",
                                    "swin_v1_padded",   "swin_v1_no_bias",
                                    "swin_v1_narrow",   "swin_v1_rectangle",
                                    "swin_v1_small",    "swin_v1_odd",
                                    "swin_v1_shrunk",   "swin_v1_grown",
                                    "swin_v1_extreme",  "swin_v2",
                                    "swin_v2_padded",   "swin_v2_no_bias",
                                    "swin_v2_odd",      "swin_v2_pretrained",
                                    "swin_v2_resized",  "swin_v2_small",
                                    "swin_v2_extreme"};

/* ---- a model of either family ---------------------------------------------------------------- */

struct session {
    const char *name;
    bool is_swin;
    struct backend *backend;
    struct vit vit;
    struct swin swin;
    struct vit_gradient vit_gradient;
    struct swin_gradient swin_gradient;
    uint8_t *pixels; /* (h, w, 3) of image IMAGE */
    int layers;
};

static void load(struct session *s, struct h5 *file, const size_t *dims) {
    struct vit_options vit = {
        .image_h = (int)dims[1], .image_w = (int)dims[2], .max_batch = 1, .backward = true};
    struct swin_options swin = {
        .image_h = vit.image_h, .image_w = vit.image_w, .max_batch = 1, .backward = true};
    struct preprocess_spec spec;
    demand(preprocess_spec_read(file, &spec));
    for (int i = 0; i < 3; i++) {
        vit.mean[i] = swin.mean[i] = (float)spec.mean[i];
        vit.std[i] = swin.std[i] = (float)spec.std[i];
    }
    if (s->is_swin) {
        demand(swin_load(&s->swin, file, &swin, s->backend));
        demand(swin_gradient_open(&s->swin_gradient, &s->swin, MOST));
        s->layers = s->swin.depth;
    } else {
        demand(vit_load(&s->vit, file, &vit, s->backend));
        demand(vit_gradient_open(&s->vit_gradient, &s->vit, MOST));
        s->layers = vit_attention_layers(&s->vit);
    }
}

static void session_open(struct session *s, const char *name, int threads) {
    struct backend_options options = {.device = "cpu", .precision = "fp32", .threads = threads};
    struct h5_dataset images;
    struct h5 *file;
    char path[96];
    size_t bytes;
    uint8_t *all;
    *s = (struct session){.name = name, .is_swin = name[0] == 's'};
    snprintf(path, sizeof path, "tests/ref/%s.h5", name);
    demand(h5_open(path, &file));
    demand(backend_open(&options, &s->backend));
    demand(h5_info(file, "/golden/images", &images));
    bytes = images.dims[1] * images.dims[2] * 3;
    all = memory(images.dims[0], bytes);
    s->pixels = memory(1, bytes);
    demand(h5_read_raw(file, "/golden/images", DT_U8, all, images.dims[0] * bytes));
    memcpy(s->pixels, all + IMAGE * bytes, bytes);
    mem_free(all);
    load(s, file, images.dims);
    mem_free(images.name);
    demand(h5_close(&file));
}

static void session_close(struct session *s) {
    vit_gradient_release(&s->vit_gradient);
    swin_gradient_release(&s->swin_gradient);
    vit_release(&s->vit);
    swin_release(&s->swin);
    backend_close(s->backend);
    mem_free(s->pixels);
}

static enum status run(struct session *s, const int *classes, int count,
                       const struct capture *capture) {
    return s->is_swin ? swin_gradient_run(&s->swin_gradient, s->pixels, classes, count, capture)
                      : vit_gradient_run(&s->vit_gradient, s->pixels, classes, count, capture);
}

static void capture_all(struct session *s, const int *classes, int count,
                        struct capture_copy *copy) {
    struct capture capture = {.take = capture_copy_take, .context = copy};
    *copy = (struct capture_copy){.images = count};
    demand(run(s, classes, count, &capture));
    assert_int_equal(copy->taken, s->layers);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_golden(void **state) {
    const char *name = *state;
    const double tolerance = strstr(name, "v2_extreme") ? EXTREME : TOLERANCE;
    struct session s;
    struct capture_copy got;
    struct h5 *file;
    bool good = true;
    session_open(&s, name, 1);
    demand(h5_open("tests/ref/gradient.h5", &file));
    capture_all(&s, (const int[]){CLASS}, 1, &got);
    for (int l = 0; l < s.layers; l++) {
        const size_t count = attention_shape_floats(&got.shape[l]);
        char path[64];
        float *want;
        snprintf(path, sizeof path, "/%s/layer.%d", name, l);
        want = read_floats(file, path, count);
        good = matches(name, path, want, got.probs[l], count, tolerance) && good;
        mem_free(want);
    }
    capture_copy_release(&got);
    demand(h5_close(&file));
    session_close(&s);
    assert_true(good);
}

/* A class has the same bits alone and among others, with any number of threads, and again. */
static void test_same_bits(void **state) {
    struct session one, two;
    struct capture_copy alone, among, threaded;
    session_open(&one, *state, 1);
    session_open(&two, *state, 2);
    capture_all(&one, (const int[]){1, CLASS, 1}, 3, &among);
    capture_all(&one, (const int[]){CLASS}, 1, &alone);
    capture_all(&two, (const int[]){CLASS}, 1, &threaded);
    for (int l = 0; l < one.layers; l++) {
        const size_t floats = attention_shape_floats(&alone.shape[l]);
        assert_memory_equal(alone.probs[l], among.probs[l] + floats, floats * sizeof(float));
        assert_memory_equal(among.probs[l], among.probs[l] + 2 * floats, floats * sizeof(float));
        assert_memory_equal(alone.probs[l], threaded.probs[l], floats * sizeof(float));
        assert_memory_not_equal(among.probs[l], among.probs[l] + floats, floats * sizeof(float));
    }
    capture_copy_release(&alone);
    capture_copy_release(&among);
    capture_copy_release(&threaded);
    session_close(&one);
    session_close(&two);
}

/* Layers wanted come, others do not, and each is what it is in a pass of all. */
static void test_layers_wanted(void **state) {
    struct session s;
    struct capture_copy all, some = {.images = 1};
    bool wanted[COPY_LAYERS] = {false};
    struct capture capture = {.layers = wanted, .take = capture_copy_take, .context = &some};
    session_open(&s, *state, 1);
    capture_all(&s, (const int[]){CLASS}, 1, &all);
    for (int l = 0; l < s.layers; l++) {
        const size_t bytes = attention_shape_floats(&all.shape[l]) * sizeof(float);
        wanted[l] = true;
        demand(run(&s, (const int[]){CLASS}, 1, &capture));
        wanted[l] = false;
        assert_int_equal(some.taken, l + 1);
        assert_memory_equal(some.probs[l], all.probs[l], bytes);
    }
    capture_copy_release(&all);
    capture_copy_release(&some);
    session_close(&s);
}

static void test_refusals(void **state) {
    struct session s;
    struct capture_copy copy = {.images = MOST + 1};
    const struct capture capture = {.take = capture_copy_take, .context = &copy};
    session_open(&s, *state, 1);
    const int classes[MOST + 1] = {0}, beyond[] = {10}, below[] = {-1};
    assert_int_equal(run(&s, classes, MOST + 1, &capture), ST_USAGE);
    assert_int_equal(run(&s, classes, 0, &capture), ST_USAGE);
    assert_int_equal(run(&s, beyond, 1, &capture), ST_USAGE);
    assert_string_equal(fail_message(), "no class 10: the model has classes 0 to 9");
    assert_int_equal(run(&s, below, 1, &capture), ST_USAGE);
    assert_int_equal(copy.taken, 0);
    session_close(&s);
}

/* What was not loaded for it is refused in a sentence, not computed. */
static void test_not_loaded(void **state) {
    struct backend_options options = {.device = "cpu", .precision = "fp32", .threads = 1};
    const struct vit_options plain = {.max_batch = 1, .std = {1, 1, 1}};
    struct backend *backend;
    struct vit vit;
    struct vit_gradient gradient;
    struct h5 *file;
    uint8_t pixels[32 * 32 * 3] = {0};
    struct capture_copy copy = {.images = 1};
    const struct capture capture = {.take = capture_copy_take, .context = &copy};
    (void)state;
    demand(backend_open(&options, &backend));
    demand(h5_open("tests/ref/vit_token.h5", &file));
    demand(vit_load(&vit, file, &plain, backend));
    demand(h5_close(&file));
    demand(vit_gradient_open(&gradient, &vit, 1));
    assert_int_equal(vit_gradient_run(&gradient, pixels, (const int[]){0}, 1, &capture), ST_SHAPE);
    assert_non_null(strstr(fail_message(), "head: its weight was not loaded for gradients"));
    vit_gradient_release(&gradient);
    vit_release(&vit);
    demand(h5_open("tests/ref/vit_none.h5", &file));
    demand(vit_load(&vit, file, &plain, backend));
    demand(h5_close(&file));
    assert_int_equal(vit_gradient_open(&gradient, &vit, 1), ST_USAGE);
    vit_release(&vit);
    backend_close(backend);
}

int main(void) {
    static struct CMUnitTest tests[COUNT_OF(names) + 16];
    static char titles[COUNT_OF(names) + 16][64];
    static const struct {
        const char *title, *model;
        CMUnitTestFunction test;
    } more[] = {{"same bits", "vit_map", test_same_bits},
                {"same bits", "vit_beit", test_same_bits},
                {"same bits", "swin_v1_padded", test_same_bits},
                {"same bits", "swin_v2_odd", test_same_bits},
                {"layers wanted", "vit_map", test_layers_wanted},
                {"layers wanted", "swin_v1_odd", test_layers_wanted},
                {"refusals", "vit_token", test_refusals},
                {"refusals", "swin_v1", test_refusals},
                {"not loaded", "", test_not_loaded}};
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(names); i++, count++) {
        snprintf(titles[count], sizeof titles[0], "autograd %s", names[i]);
        tests[count] = (struct CMUnitTest){titles[count], test_golden, NULL, NULL,
                                           (void *)(uintptr_t)names[i]};
    }
    for (size_t i = 0; i < COUNT_OF(more); i++, count++) {
        snprintf(titles[count], sizeof titles[0], "%s %s", more[i].title, more[i].model);
        tests[count] = (struct CMUnitTest){titles[count], more[i].test, NULL, NULL,
                                           (void *)(uintptr_t)more[i].model};
    }
    return _cmocka_run_group_tests("gradient", tests, count, NULL, NULL);
}
