/*
 * test_swin: tiny seeded Swin models, v1 and v2, against timm, block by block.
 *
 * Golden files: tests/ref/swin_*.h5, made by tests/ref/swin_golden.py. Each is a model file with a
 * group /golden: two images, every block's output, the final tokens, pooled features, logits.
 */
#include "swin/swin.h" // before cmocka.h, which has a macro `fail`

#include <stdlib.h>
#include <unistd.h>

#include "tests/capture_copy.h"
#include "tests/golden.h"

/*
 * max |difference| over max |value| of each comparison. Observed with AVX2 and baseline code: up to
 * 3.9e-6 for blocks, 2.0e-6 for logits (timm's own float32: up to 2.8e-6). Of 22 bugs put in on
 * purpose the smallest, GELU by its tanh approximation, measures 7e-5; shifts, masks, padding,
 * tables, merging and norms gone wrong 1e-2 and more.
 */
#define TOLERANCE 1e-5

enum { IMAGES = 2 };

/* tolerance 0: TOLERANCE. */
static const struct golden_row {
    const char *name, *why;
    double tolerance;
} golden_rows[] = {
    {"v1", "windows of 3x3 that divide 12x12 and 6x6, shifted by 1", 0},
    {"v1_padded", "10x10 and 5x5 in windows of 4: padding behind the shift, with the bias as key",
     0},
    {"v1_no_bias", "the same without qkv bias: padding slots are zeros", 0},
    {"v1_rectangle", "patches of 4x6, maps of 6x8 and 3x4, eps 1e-3", 0},
    {"v1_narrow", "3x12 and 2x6: lower than the window, shifted along one axis", 0},
    {"v1_small", "3x2 and 2x1: smaller than the window both ways, one window", 0},
    {"v1_odd", "three stages, 7x9 merged to 4x5 and 2x3; a stage of one block; head width 5", 0},
    {"v1_windows", "another window in each stage; no head", 0},
    {"v1_shrunk", "bias tables of 4x4 windows run with 3x4", 0},
    {"v1_grown", "bias tables of 3x4 and 2x2 windows run with 4x4", 0},
    {"v1_extreme", "bias tables up to 1e4", 0},
    {"v2", "cosine scores, norms behind, the bias of an MLP", 0},
    {"v2_padded", "padding: zero keys, values of the bias", 0},
    {"v2_no_bias", "without q and v bias: padding slots are zeros", 0},
    {"v2_odd", "three stages, odd maps", 0},
    {"v2_pretrained", "coordinates normalised by windows of 3 and 2, run with 4", 0},
    {"v2_resized", "a window of 4x4 run as 3x4: the coordinates follow", 0},
    {"v2_small", "3x1 and 2x1: a window one token wide", 0},
    // Scores of +-100, of whose float32 rounding exp makes 2.5e-5; timm's own float32 1.7e-5.
    {"v2_extreme", "logit scales up to e^9, clamped at 100; biases of 0 and 16", 1e-4},
};

/* ---- a model on a backend -------------------------------------------------------------------- */

struct session {
    const struct golden_row *row;
    struct h5 *file;
    struct backend *backend;
    struct swin swin;
    const struct swin_stage *last; /* stage */
    int image_h, image_w;
    uint8_t *pixels; /* (IMAGES, image_h, image_w, 3) */
    size_t image_bytes;
};

static enum status load(struct swin *swin, struct h5 *file, struct backend *backend, int h, int w,
                        int max_batch) {
    struct swin_options options = {.image_h = h, .image_w = w, .max_batch = max_batch};
    struct preprocess_spec spec;
    TRY(preprocess_spec_read(file, &spec));
    for (int i = 0; i < 3; i++) {
        options.mean[i] = (float)spec.mean[i];
        options.std[i] = (float)spec.std[i];
    }
    return swin_load(swin, file, &options, backend);
}

static void session_open(struct session *s, const struct golden_row *row, int threads) {
    struct backend_options options = {.device = "cpu", .precision = "fp32", .threads = threads};
    struct h5_dataset images;
    char path[96];
    *s = (struct session){.row = row};
    snprintf(path, sizeof path, "tests/ref/swin_%s.h5", row->name);
    demand(h5_open(path, &s->file));
    demand(backend_open(&options, &s->backend));
    demand(h5_info(s->file, "/golden/images", &images));
    assert_int_equal(images.rank, 4);
    assert_int_equal(images.dims[0], IMAGES);
    s->image_h = (int)images.dims[1];
    s->image_w = (int)images.dims[2];
    mem_free(images.name);
    s->image_bytes = (size_t)s->image_h * (size_t)s->image_w * 3;
    s->pixels = memory(IMAGES, s->image_bytes);
    demand(h5_read_raw(s->file, "/golden/images", DT_U8, s->pixels, IMAGES * s->image_bytes));
    demand(load(&s->swin, s->file, s->backend, s->image_h, s->image_w, IMAGES));
    s->last = &s->swin.stages[s->swin.config.stages - 1];
}

static void session_close(struct session *s) {
    swin_release(&s->swin);
    swin_release(&s->swin); // twice is harmless
    backend_close(s->backend);
    mem_free(s->pixels);
    demand(h5_close(&s->file));
}

/* ---- comparisons ----------------------------------------------------------------------------- */

/* got (count) against /golden/NAME. */
static bool same(const struct session *s, const char *name, const float *got, size_t count) {
    const double tolerance = s->row->tolerance > 0 ? s->row->tolerance : TOLERANCE;
    char path[64];
    float *want;
    bool good;
    snprintf(path, sizeof path, "/golden/%s", name);
    want = read_floats(s->file, path, count);
    good = matches(s->row->name, name, want, got, count, tolerance);
    mem_free(want);
    return good;
}

/* Of all images: floats after `layer`. */
static size_t token_count(const struct session *s, int layer) {
    const struct swin_stage *stage = &s->swin.stages[swin_layer_stage(&s->swin.config, layer)];
    return IMAGES * (size_t)stage->tokens * (size_t)stage->channels;
}

/* The first block whose output differs ends the test, by name. */
static void check_blocks(struct session *s) {
    for (int l = 0; l < s->swin.depth; l++) {
        const size_t count = token_count(s, l);
        float *got = memory(count, sizeof *got);
        const struct swin_taps taps = {.layer = l, .tokens = got};
        char name[32];
        bool good;
        demand(swin_forward(&s->swin, s->pixels, IMAGES, NULL, &taps));
        snprintf(name, sizeof name, "block.%d", l);
        good = same(s, name, got, count);
        mem_free(got);
        if (!good) fail_msg("%s: %s is the first that differs", s->row->name, name);
    }
}

static void test_golden(void **state) {
    const struct golden_row *row = *state;
    struct session s;
    bool good;
    session_open(&s, row, 1);
    const size_t count = token_count(&s, -1), C = IMAGES * (size_t)s.last->channels;
    const size_t K = IMAGES * (size_t)s.swin.config.classes;
    float *tokens = memory(count, sizeof *tokens), *pooled = memory(C, sizeof *pooled);
    float *logits = memory(K + 1, sizeof *logits);
    const struct swin_taps taps = {.layer = -1, .tokens = tokens, .pooled = pooled};

    check_blocks(&s);
    demand(swin_forward(&s.swin, s.pixels, IMAGES, logits, &taps));
    good = same(&s, "tokens", tokens, count);
    good = same(&s, "pooled", pooled, C) && good;
    if (K > 0) good = same(&s, "logits", logits, K) && good;
    mem_free(tokens);
    mem_free(pooled);
    mem_free(logits);
    session_close(&s);
    assert_true(good);
}

/* ---- properties ------------------------------------------------------------------------------ */

/* What a user gets of two images: final tokens, then logits. */
static void run_images(struct session *s, bool one_by_one, float *out) {
    const size_t T = token_count(s, -1) / IMAGES, K = (size_t)s->swin.config.classes;
    float *logits = out + IMAGES * T;
    int step = one_by_one ? 1 : IMAGES;
    for (int i = 0; i < IMAGES; i += step) {
        const uint8_t *pixels = s->pixels + (size_t)i * s->image_bytes;
        const struct swin_taps taps = {.layer = -1, .tokens = out + (size_t)i * T};
        demand(swin_forward(&s->swin, pixels, step, logits + (size_t)i * K, &taps));
    }
}

/* The same bits alone, in a batch, and with another thread count. */
static void test_same_bits(void **state) {
    const struct golden_row *row = *state;
    struct session one, two;
    float *batch, *singles, *threaded;
    size_t count;
    session_open(&one, row, 1);
    session_open(&two, row, 2);
    count = token_count(&one, -1) + IMAGES * (size_t)one.swin.config.classes;
    batch = memory(count, sizeof *batch);
    singles = memory(count, sizeof *singles);
    threaded = memory(count, sizeof *threaded);
    run_images(&one, false, batch);
    run_images(&one, true, singles);
    run_images(&two, false, threaded);
    assert_memory_equal(batch, singles, count * sizeof *batch);
    assert_memory_equal(batch, threaded, count * sizeof *batch);
    mem_free(batch);
    mem_free(singles);
    mem_free(threaded);
    session_close(&one);
    session_close(&two);
}

/* The bits of a pass without capture; every row that stands for a token sums to 1. */
static void test_capture(void **state) {
    const struct golden_row *row = *state;
    struct session s;
    session_open(&s, row, 1);
    const size_t count = token_count(&s, -1), K = IMAGES * (size_t)s.swin.config.classes;
    float *plain = memory(2 * (count + K), sizeof *plain), *other = plain + count + K;
    struct capture_copy got = {.images = IMAGES};
    const struct capture capture = {.take = capture_copy_take, .context = &got};
    struct swin_taps taps = {.layer = -1, .tokens = plain};
    int token[256];
    demand(swin_forward(&s.swin, s.pixels, IMAGES, plain + count, &taps));
    taps = (struct swin_taps){.layer = -1, .tokens = other, .capture = &capture};
    demand(swin_forward(&s.swin, s.pixels, IMAGES, other + count, &taps));
    assert_memory_equal(plain, other, (count + K) * sizeof *plain);
    assert_int_equal(got.taken, s.swin.depth);
    for (int l = 0; l < s.swin.depth; l++) {
        const struct attention_shape *shape = &got.shape[l];
        const float *p = got.probs[l];
        assert_true(shape->keys <= (int)COUNT_OF(token));
        for (int w = 0; w < IMAGES * shape->windows; w++) {
            attention_shape_window(shape, w % shape->windows, token);
            for (int r = 0; r < shape->heads * shape->queries; r++, p += shape->keys) {
                double sum = 0;
                for (int k = 0; k < shape->keys; k++)
                    sum += (double)p[k];
                if (token[r % shape->queries] >= 0 && fabs(sum - 1) > 1e-6)
                    fail_msg("layer %d window %d row %d sums to %.9g", l, w, r, sum);
            }
        }
    }
    capture_copy_release(&got);
    mem_free(plain);
    session_close(&s);
}

/* Swin-T at 224; its blocks are counted over the stages. */
static struct swin_config swin_tiny(void) {
    struct swin_config config = {.version = 1,
                                 .image_h = 224,
                                 .image_w = 224,
                                 .patch_h = 4,
                                 .patch_w = 4,
                                 .dim = 96,
                                 .stages = 4,
                                 .depths = {2, 2, 6, 2},
                                 .heads = {3, 6, 12, 24},
                                 .window = {7, 7, 7, 7},
                                 .classes = 1000};
    for (int s = 0; s < config.stages; s++)
        config.hidden[s] = 4 * (config.dim << s);
    return config;
}

/* The published figures (Swin, table 1): tiny 4.5 G, base 15.4 G, base at 384 47.1 G. */
static void test_macs(void **state) {
    struct swin_config config = swin_tiny();
    (void)state;
    assert_true(fabs(swin_macs(&config, 224, 224) / 4.5e9 - 1) < 0.01);
    config.dim = 128;
    config.depths[2] = 18;
    for (int s = 0; s < config.stages; s++) {
        config.heads[s] = 4 << s;
        config.hidden[s] = 4 * (config.dim << s);
    }
    assert_true(fabs(swin_macs(&config, 224, 224) / 15.4e9 - 1) < 0.01);
    for (int s = 0; s < config.stages; s++)
        config.window[s] = 12;
    assert_true(fabs(swin_macs(&config, 384, 384) / 47.1e9 - 1) < 0.01);
}

static void test_geometry(void **state) {
    const struct swin_config config = swin_tiny();
    (void)state;
    assert_int_equal(swin_layer_stage(&config, 0), 0);
    assert_int_equal(swin_layer_stage(&config, 1), 0);
    assert_int_equal(swin_layer_stage(&config, 2), 1);
    assert_int_equal(swin_layer_stage(&config, 9), 2);
    assert_int_equal(swin_layer_stage(&config, 11), 3);
    assert_int_equal(swin_layer_stage(&config, -1), 3);
    for (int s = 0; s < config.stages; s++) {
        assert_false(swin_window_changes(&config, s, 224, 224));
        assert_false(swin_window_changes(&config, s, 256, 512));
        assert_true(swin_window_changes(&config, s, 192, 224) == (s == 3)); // a map of 6x7
    }
}

/* Four times the tokens take four times the workspace, less what does not grow. */
static void test_memory_is_linear(void **state) {
    struct session s;
    struct swin large;
    size_t small_bytes;
    (void)state;
    session_open(&s, &golden_rows[0], 1);
    small_bytes = s.swin.workspace.capacity;
    demand(load(&large, s.file, s.backend, 2 * s.image_h, 2 * s.image_w, IMAGES));
    printf("workspace %zu bytes, with four times the tokens %zu\n", small_bytes,
           large.workspace.capacity);
    assert_true(large.workspace.capacity <= 4 * small_bytes);
    swin_release(&large);
    session_close(&s);
}

/* ---- what is refused ------------------------------------------------------------------------- */

struct bad_row {
    const char *why;
    int version;
    struct tensor_faults tensors;
    void (*change)(struct swin_config *config);
    int heads[2]; /* written past the config's own check; {0}: as they are */
    int image_h, image_w, max_batch;
    enum status want;
    const char *words[4]; /* all in the sentence */
};

static void qkv_bias_off(struct swin_config *config) {
    config->qkv_bias = false;
}

static void deeper(struct swin_config *config) {
    config->depths[1] = 4;
}

static void one_stage_more(struct swin_config *config) {
    config->stages = 3;
    config->depths[2] = config->heads[2] = config->window[2] = 2;
    config->hidden[2] = 64;
}

static void other_window(struct swin_config *config) {
    config->window[0] = 4;
}

static void wider(struct swin_config *config) {
    config->dim = 32;
}

static void other_version(struct swin_config *config) {
    config->version = 3 - config->version;
}

static void other_patch(struct swin_config *config) {
    config->patch_h = 2;
}

static void enormous(struct swin_config *config) {
    config->dim = 16384;
    config->hidden[0] = config->hidden[1] = 65536;
}

static void enormous_window(struct swin_config *config) {
    config->image_h = config->image_w = 16384;
    config->window[0] = config->window[1] = 4096;
}

static const struct bad_row bad_rows[] = {
    {.why = "a tensor is missing",
     .version = 1,
     .tensors.drop = {"norm.weight"},
     .want = ST_SHAPE,
     .words = {"norm.weight"}},
    {.why = "every fault is listed",
     .version = 1,
     .tensors = {.drop = {"head.fc.bias", "layers.1.downsample.reduction.weight"},
                 .extra = {"layers.0.blocks.1.attn_mask"},
                 .halve = "layers.1.blocks.1.attn.relative_position_bias_table"},
     .want = ST_SHAPE,
     .words = {"head.fc.bias", "layers.1.downsample.reduction.weight",
               "layers.0.blocks.1.attn_mask",
               "layers.1.blocks.1.attn.relative_position_bias_table"}},
    {.why = "a tensor of another shape",
     .version = 2,
     .tensors.halve = "layers.0.blocks.0.attn.cpb_mlp.0.weight",
     .want = ST_SHAPE,
     .words = {"cpb_mlp.0.weight is (256, 2), expected (512, 2)"}},
    {.why = "the norm of version 2's merging is as wide as the reduction's output",
     .version = 2,
     .tensors.halve = "layers.1.downsample.norm.bias",
     .want = ST_SHAPE,
     .words = {"layers.1.downsample.norm.bias is (16), expected (32)"}},
    {.why = "a bias the config denies",
     .version = 1,
     .change = qkv_bias_off,
     .want = ST_SHAPE,
     .words = {"layers.0.blocks.0.attn.qkv.bias", "layers.1.blocks.1.attn.qkv.bias"}},
    {.why = "biases the config denies, version 2",
     .version = 2,
     .change = qkv_bias_off,
     .want = ST_SHAPE,
     .words = {"layers.0.blocks.0.attn.q_bias", "layers.1.blocks.1.attn.v_bias"}},
    {.why = "more blocks than the file has",
     .version = 1,
     .change = deeper,
     .want = ST_SHAPE,
     .words = {"layers.1.blocks.2.norm1.weight"}},
    {.why = "more stages than the file has",
     .version = 1,
     .change = one_stage_more,
     .want = ST_SHAPE,
     .words = {"layers.2.downsample.norm.weight"}},
    {.why = "another window than the tables have",
     .version = 1,
     .change = other_window,
     .want = ST_SHAPE,
     .words = {"layers.0.blocks.0.attn.relative_position_bias_table is (25, 2), expected (49, 2)"}},
    {.why = "another width",
     .version = 1,
     .change = wider,
     .want = ST_SHAPE,
     .words = {"patch_embed.proj.weight"}},
    {.why = "version 1 called version 2",
     .version = 1,
     .change = other_version,
     .want = ST_SHAPE,
     .words = {"logit_scale"}},
    {.why = "version 2 called version 1",
     .version = 2,
     .change = other_version,
     .want = ST_SHAPE,
     .words = {"relative_position_bias_table"}},
    {.why = "another patch",
     .version = 1,
     .change = other_patch,
     .want = ST_SHAPE,
     .words = {"patch_embed.proj.weight is (16, 3, 4, 4), expected (16, 3, 2, 4)"}},
    {.why = "heads that do not divide the channels",
     .version = 1,
     .heads = {2, 3},
     .want = ST_FORMAT,
     .words = {"32 channels of stage 1", "num_heads 3"}},
    {.why = "sizes no tensor has are not allocated",
     .version = 1,
     .change = enormous,
     .want = ST_SHAPE,
     .words = {"announces"}},
    {.why = "nor tables",
     .version = 1,
     .change = enormous_window,
     .want = ST_FORMAT,
     .words = {"bias tables would have", "at most"}},
    {.why = "nor is a position bias computed for such a window",
     .version = 2,
     .change = enormous_window,
     .want = ST_FORMAT,
     .words = {"bias tables would have", "at most"}},
    {.why = "a size the patch does not divide",
     .version = 1,
     .image_h = 48,
     .image_w = 50,
     .want = ST_USAGE,
     .words = {"48x50", "4x4"}},
    {.why = "a size below the patch",
     .version = 2,
     .image_h = 3,
     .image_w = 48,
     .want = ST_USAGE,
     .words = {"3x48", "4x4"}},
    {.why = "more patches than can be counted",
     .version = 1,
     .image_h = 2147483644,
     .image_w = 2147483644,
     .want = ST_USAGE,
     .words = {"2147483644"}},
    {.why = "an empty batch", .version = 1, .max_batch = -1, .want = ST_USAGE, .words = {"-1"}},
};

/* swin_v1.h5 or swin_v2.h5 with the row's changes, at `path`. */
static void write_variant(const struct bad_row *row, const char *path) {
    const char *origin = row->version == 1 ? "tests/ref/swin_v1.h5" : "tests/ref/swin_v2.h5";
    struct swin_config config;
    struct preprocess_spec spec;
    struct h5 *source = NULL, *file = NULL;
    demand(h5_open(origin, &source));
    demand(h5_create(path, &file));
    demand(swin_config_read(source, &config));
    if (row->change) row->change(&config);
    demand(swin_config_write(file, &config));
    if (row->heads[0]) demand(h5_set_ints(file, "/config", "num_heads", 2, row->heads));
    demand(preprocess_spec_read(source, &spec));
    demand(preprocess_spec_write(file, &spec));
    copy_tensors(&row->tensors, source, file);
    demand(h5_close(&file));
    demand(h5_close(&source));
}

static void test_refused(void **state) {
    const struct bad_row *row = *state;
    struct backend_options options = {.device = "cpu", .precision = "fp32", .threads = 1};
    struct backend *backend = NULL;
    struct h5 *file = NULL;
    struct swin swin;
    char path[] = "/tmp/vitrine_test_XXXXXX";
    int handle = mkstemp(path);
    enum status st;
    assert_true(handle >= 0);
    close(handle);
    write_variant(row, path);
    demand(backend_open(&options, &backend));
    demand(h5_open(path, &file));
    st =
        load(&swin, file, backend, row->image_h, row->image_w, row->max_batch ? row->max_batch : 1);
    printf("%s: %s: %s\n", row->why, status_name(st), st == ST_OK ? "loaded" : fail_message());
    assert_int_equal(st, row->want);
    assert_null(swin.blocks); // released
    assert_non_null(strstr(fail_message(), "vitrine_test_"));
    for (size_t i = 0; i < COUNT_OF(row->words); i++)
        if (row->words[i]) assert_non_null(strstr(fail_message(), row->words[i]));
    backend_close(backend);
    demand(h5_close(&file));
    unlink(path);
}

/* What a caller may ask of a loaded model, and may not. */
static void test_bad_calls(void **state) {
    struct session s;
    float out[1];
    struct swin_taps taps = {.layer = 4, .tokens = out};
    (void)state;
    session_open(&s, &golden_rows[0], 1);
    assert_int_equal(swin_forward(&s.swin, s.pixels, 0, out, NULL), ST_USAGE);
    assert_int_equal(swin_forward(&s.swin, s.pixels, IMAGES + 1, out, NULL), ST_USAGE);
    assert_int_equal(swin_forward(&s.swin, s.pixels, 1, NULL, &taps), ST_USAGE);
    assert_non_null(strstr(fail_message(), "layer 4"));
    taps.layer = -2;
    assert_int_equal(swin_forward(&s.swin, s.pixels, 1, NULL, &taps), ST_USAGE);
    session_close(&s);
}

int main(void) {
    struct CMUnitTest tests[3 * COUNT_OF(golden_rows) + COUNT_OF(bad_rows) + 4];
    size_t count = 0;
    int failed;
    for (size_t i = 0; i < COUNT_OF(golden_rows); i++) {
        const struct golden_row *row = &golden_rows[i];
        tests[count++] = row_test("golden", row->name, test_golden, row);
        tests[count++] = row_test("same bits", row->name, test_same_bits, row);
        tests[count++] = row_test("capture", row->name, test_capture, row);
    }
    for (size_t i = 0; i < COUNT_OF(bad_rows); i++)
        tests[count++] = row_test("refused", bad_rows[i].why, test_refused, &bad_rows[i]);
    tests[count++] = row_test("property", "multiply-adds", test_macs, NULL);
    tests[count++] = row_test("property", "stages and windows", test_geometry, NULL);
    tests[count++] = row_test("property", "memory is linear", test_memory_is_linear, NULL);
    tests[count++] = row_test("refused", "bad calls", test_bad_calls, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
    return failed;
}
