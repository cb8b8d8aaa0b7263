/*
 * test_vit: tiny seeded models of every kind against timm, block by block.
 *
 * Golden files: tests/ref/vit_*.h5, made by tests/ref/vit_golden.py. Each is a model file with a
 * group /golden: two images, every block's output, one layer's probabilities, the final tokens,
 * pooled features, logits.
 */
#include "vit/vit.h" // before cmocka.h, which has a macro `fail`

#include <stdlib.h>
#include <unistd.h>

#include "tests/capture_copy.h"
#include "tests/golden.h"

/*
 * max |difference| over max |value| of each comparison. Observed with AVX2 and baseline code: up to
 * 3.5e-6 for probabilities, 1.7e-6 for tokens, 1.3e-6 for logits (timm's own float32: up to 3e-6).
 * Of 20 bugs put in on purpose the smallest, GELU by its tanh approximation, measures 8e-5.
 */
#define TOLERANCE 1e-5

enum { IMAGES = 2 };

static const struct golden_row {
    const char *name, *why;
} golden_rows[] = {
    {"token", "ViT, DeiT, AugReg: class token, three blocks; tiny embeddings, so eps matters"},
    {"distilled", "DeiT distilled: two tokens, two heads averaged"},
    {"deit3", "class token without position, LayerScale"},
    {"reg4_gap", "SBB: registers, no class token, mean of patches, fc_norm, LayerScale"},
    {"gap_norm", "no prefix token at all, norm before the mean, no qkv bias"},
    {"cls_gap", "MAE fine-tuned: class token there but left out of the mean"},
    {"clip", "norm before the blocks, no patch bias, eps 1e-5, quick GELU"},
    {"qk_layer", "LayerNorm of queries and keys, per head"},
    {"qk_rms", "RMSNorm of queries and keys"},
    {"dinov2_giant", "SwiGLU, registers behind a class token, no head"},
    {"so150m2", "a register inside pos_embed, no class token, no qkv bias"},
    {"map", "SigLIP: attention pooling over the patches; the register left out"},
    {"none", "no pool, no head, no positions"},
    {"fc_norm_token", "the norm behind the pool of a class-token model"},
    {"rectangle", "image 32x48"},
    {"odd", "image 24x40, patch 6x10, head width 20, hidden 51"},
    {"patch14", "a patch that is no power of two"},
    {"resized", "positions stored for 4x4, run at 6x5"},
    {"tanh", "GELU by its tanh approximation"},
    {"beit", "BEiT: a bias table a block, no key bias, mean of patches, fc_norm, LayerScale"},
    {"beit_shared", "one bias table for all blocks; the class token alone in the last"},
    {"beit_rectangle", "a bias over 3x7 patches, head width 12"},
    {"beit_resized", "bias tables stored for 4x4, run at 6x5"},
    {"swiglu", "SwiGLU, and a head"},
    {"relpos", "a bias without prefix tokens over 5x4 patches, no qkv bias"},
};

/* ---- a model on a backend -------------------------------------------------------------------- */

struct session {
    const char *name;
    struct h5 *file;
    struct backend *backend;
    struct vit vit;
    int image_h, image_w;
    uint8_t *pixels; /* (IMAGES, image_h, image_w, 3) */
    size_t image_bytes;
};

static void golden_path(char *path, size_t size, const char *name) {
    snprintf(path, size, "tests/ref/vit_%s.h5", name);
}

static enum status load(struct vit *vit, struct h5 *file, struct backend *backend, int h, int w,
                        int max_batch) {
    struct vit_options options = {.image_h = h, .image_w = w, .max_batch = max_batch};
    struct preprocess_spec spec;
    TRY(preprocess_spec_read(file, &spec));
    for (int i = 0; i < 3; i++) {
        options.mean[i] = (float)spec.mean[i];
        options.std[i] = (float)spec.std[i];
    }
    return vit_load(vit, file, &options, backend);
}

static void session_open(struct session *s, const char *name, int threads) {
    struct backend_options options = {.device = "cpu", .precision = "fp32", .threads = threads};
    struct h5_dataset images;
    char path[96];
    *s = (struct session){.name = name};
    golden_path(path, sizeof path, name);
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
    demand(load(&s->vit, s->file, s->backend, s->image_h, s->image_w, IMAGES));
}

static void session_close(struct session *s) {
    vit_release(&s->vit);
    vit_release(&s->vit); // twice is harmless
    backend_close(s->backend);
    mem_free(s->pixels);
    demand(h5_close(&s->file));
}

/* ---- comparisons ----------------------------------------------------------------------------- */

/* Against a part of /golden. */
static bool same(const struct session *s, const char *what, const float *want, const float *got,
                 size_t count) {
    return matches(s->name, what, want, got, count, TOLERANCE);
}

static float *golden(const struct session *s, const char *what, size_t count) {
    char path[64];
    snprintf(path, sizeof path, "/golden/%s", what);
    return read_floats(s->file, path, count);
}

static size_t token_count(const struct session *s) {
    return IMAGES * (size_t)s->vit.tokens * (size_t)s->vit.config.dim;
}

/* The first block whose output differs ends the test, by name. */
static void check_blocks(struct session *s) {
    const size_t count = token_count(s);
    float *want = golden(s, "blocks", count * (size_t)s->vit.config.depth);
    float *got = memory(count, sizeof *got);
    char what[32] = "";
    bool good = true;
    for (int l = 0; good && l < s->vit.config.depth; l++) {
        struct vit_taps taps = {.layer = l, .tokens = got};
        demand(vit_forward(&s->vit, s->pixels, IMAGES, NULL, &taps));
        snprintf(what, sizeof what, "block %d", l);
        good = same(s, what, want + (size_t)l * count, got, count);
    }
    mem_free(want);
    mem_free(got);
    if (!good) fail_msg("%s: %s is the first that differs", s->name, what);
}

/* Probabilities of the layer that the file has; each row sums to 1. */
static void check_probs(struct session *s) {
    const size_t T = (size_t)s->vit.tokens, rows = IMAGES * (size_t)s->vit.config.heads * T;
    float *want = golden(s, "probs", rows * T);
    struct capture_copy got = {.images = IMAGES};
    bool wanted[COPY_LAYERS] = {false}, good;
    struct capture capture = {.layers = wanted, .take = capture_copy_take, .context = &got};
    struct vit_taps taps = {.capture = &capture};
    int layer;
    demand(h5_get_int(s->file, "/golden", "probs_layer", 0, s->vit.config.depth - 1, &layer));
    wanted[layer] = true;
    demand(vit_forward(&s->vit, s->pixels, IMAGES, NULL, &taps));
    assert_int_equal(got.taken, 1);
    good = same(s, "probabilities", want, got.probs[layer], rows * T);
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t t = 0; t < T; t++)
            sum += (double)got.probs[layer][r * T + t];
        if (fabs(sum - 1.0) > 1e-6) fail_msg("%s: row %zu sums to %.9g", s->name, r, sum);
    }
    mem_free(want);
    capture_copy_release(&got);
    assert_true(good);
}

static void test_golden(void **state) {
    const struct golden_row *row = *state;
    struct session s;
    size_t count, K;
    float *tokens, *pooled, *logits, *plain, *want;
    bool good;
    session_open(&s, row->name, 1);
    count = token_count(&s);
    K = IMAGES * (size_t)s.vit.config.classes;
    tokens = memory(count, sizeof *tokens);
    pooled = memory(IMAGES * (size_t)s.vit.config.dim, sizeof *pooled);
    logits = memory(K + 1, sizeof *logits);
    plain = memory(K + 1, sizeof *plain);
    struct vit_taps taps = {
        .layer = -1, .tokens = tokens, .pooled = s.vit.config.pool == POOL_NONE ? NULL : pooled};

    check_blocks(&s);
    check_probs(&s);
    demand(vit_forward(&s.vit, s.pixels, IMAGES, logits, &taps));
    want = golden(&s, "tokens", count);
    good = same(&s, "final tokens", want, tokens, count);
    mem_free(want);
    if (taps.pooled) {
        want = golden(&s, "pooled", IMAGES * (size_t)s.vit.config.dim);
        good = same(&s, "pooled", want, pooled, IMAGES * (size_t)s.vit.config.dim) && good;
        mem_free(want);
    }
    if (K > 0) {
        want = golden(&s, "logits", K);
        good = same(&s, "logits", want, logits, K) && good;
        demand(vit_forward(&s.vit, s.pixels, IMAGES, plain, NULL)); // the short last block
        good = same(&s, "logits, no taps", want, plain, K) && good;
        mem_free(want);
    }
    mem_free(tokens);
    mem_free(pooled);
    mem_free(logits);
    mem_free(plain);
    session_close(&s);
    assert_true(good);
}

/* ---- properties ------------------------------------------------------------------------------ */

/* What a user gets of two images: final tokens, then logits. */
static void run_images(struct session *s, bool one_by_one, float *out) {
    const size_t T = token_count(s) / IMAGES, K = (size_t)s->vit.config.classes;
    float *logits = out + IMAGES * T;
    int step = one_by_one ? 1 : IMAGES;
    for (int i = 0; i < IMAGES; i += step) {
        const uint8_t *pixels = s->pixels + (size_t)i * s->image_bytes;
        struct vit_taps taps = {.layer = -1, .tokens = out + (size_t)i * T};
        demand(vit_forward(&s->vit, pixels, step, NULL, &taps));
        demand(vit_forward(&s->vit, pixels, step, logits + (size_t)i * K, NULL));
    }
}

/* The same bits alone, in a batch, and with another thread count. */
static void test_same_bits(void **state) {
    const struct golden_row *row = *state;
    struct session one, two;
    float *batch, *singles, *threaded;
    size_t count;
    session_open(&one, row->name, 1);
    session_open(&two, row->name, 2);
    count = token_count(&one) + IMAGES * (size_t)one.vit.config.classes;
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

/* Exactly the layers asked for come; room is made for the largest batch. */
static void test_layers_wanted(void **state) {
    struct session s;
    struct capture_copy all = {.images = IMAGES}, two = {.images = IMAGES};
    const bool wanted[3] = {true, false, true};
    struct capture capture = {.layers = wanted, .take = capture_copy_take, .context = &two};
    struct vit_taps taps = {.capture = &capture};
    (void)state;
    session_open(&s, "token", 1);
    demand(vit_forward(&s.vit, s.pixels, 1, NULL, &taps)); // room for one image, then for two
    demand(vit_forward(&s.vit, s.pixels, IMAGES, NULL, &taps));
    capture.layers = NULL;
    capture.context = &all;
    demand(vit_forward(&s.vit, s.pixels, IMAGES, NULL, &taps));
    assert_int_equal(two.taken, 4);
    assert_int_equal(all.taken, 3);
    assert_null(two.probs[1]);
    for (int l = 0; l < 3; l += 2)
        assert_memory_equal(two.probs[l], all.probs[l],
                            IMAGES * attention_shape_floats(&all.shape[l]) * sizeof(float));
    assert_memory_not_equal(all.probs[0], all.probs[2], sizeof(float) * 16);
    capture_copy_release(&all);
    capture_copy_release(&two);
    session_close(&s);
}

/*
 * What the head gets has the bits of a pass without capture, and the rows that the head reads,
 * taken alone, those of a capture of all rows.
 */
static void test_capture_same_bits(void **state) {
    const struct golden_row *row = *state;
    struct session s;
    session_open(&s, row->name, 1);
    const int last = s.vit.config.depth - 1;
    const size_t K = IMAGES * (size_t)s.vit.config.classes;
    const size_t C = s.vit.config.pool == POOL_NONE ? 0 : IMAGES * (size_t)s.vit.config.dim;
    float *plain = memory(2 * (K + C) + 1, sizeof *plain), *other = plain + K + C;
    struct capture_copy whole = {.images = IMAGES}, head = {.images = IMAGES};
    struct capture capture = {.take = capture_copy_take, .context = &whole};
    struct vit_taps taps = {.pooled = C ? plain + K : NULL};
    demand(vit_forward(&s.vit, s.pixels, IMAGES, plain, &taps));
    taps = (struct vit_taps){.pooled = C ? other + K : NULL, .capture = &capture};
    demand(vit_forward(&s.vit, s.pixels, IMAGES, other, &taps));
    assert_memory_equal(plain, other, (K + C) * sizeof *plain);
    capture.head_rows = true;
    capture.context = &head;
    demand(vit_forward(&s.vit, s.pixels, IMAGES, other, &taps));
    assert_memory_equal(plain, other, (K + C) * sizeof *plain);
    assert_int_equal(head.taken, vit_attention_layers(&s.vit));
    const struct attention_shape part = vit_attention_shape(&s.vit, last, true);
    assert_int_equal(part.queries, head.shape[last].queries);
    for (size_t i = 0; i < IMAGES * (size_t)part.heads; i++)
        assert_memory_equal(head.probs[last] + i * attention_shape_head_floats(&part),
                            whole.probs[last] + i * attention_shape_head_floats(&whole.shape[last]),
                            attention_shape_head_floats(&part) * sizeof(float));
    capture_copy_release(&whole);
    capture_copy_release(&head);
    mem_free(plain);
    session_close(&s);
}

/*
 * ViT-B/16 at 224 is 17.56 GMACs, ViT-S/16 4.60, ViT-Ti/16 1.25 (timm's tables). A pass for logits
 * spares what the last block does for all tokens but the first: 196 (9C^2 + 2*197C).
 */
static void test_macs(void **state) {
    static const struct {
        int dim, heads;
        double want;
    } rows[] = {{768, 12, 17.56e9}, {384, 6, 4.60e9}, {192, 3, 1.25e9}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const double C = rows[i].dim;
        struct vit_config config = {.image_h = 224,
                                    .image_w = 224,
                                    .patch_h = 16,
                                    .patch_w = 16,
                                    .dim = rows[i].dim,
                                    .depth = 12,
                                    .heads = rows[i].heads,
                                    .hidden = 4 * rows[i].dim,
                                    .classes = 1000,
                                    .class_token = true};
        double macs = vit_macs(&config), run = vit_macs_run(&config);
        assert_true(fabs(macs / rows[i].want - 1.0) < 0.005);
        assert_true(fabs(macs - run - 196 * (9 * C * C + 2 * 197 * C)) < 1.0);
        config.pool = POOL_AVG;
        assert_true(vit_macs_run(&config) == vit_macs(&config));
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

struct bad_row {
    const char *why;
    struct tensor_faults tensors;
    void (*change)(struct vit_config *config);
    int image_h, image_w, max_batch;
    enum status want;
    const char *words[4]; /* all in the sentence */
};

static void pool_none(struct vit_config *config) {
    config->pool = POOL_NONE;
}

static void distilled_mean(struct vit_config *config) {
    config->dist_token = true;
    config->pool = POOL_AVG;
    config->pos_prefix = 2;
}

static void deeper(struct vit_config *config) {
    config->depth = 5;
}

static void wider(struct vit_config *config) {
    config->dim = 64;
}

static void enormous(struct vit_config *config) {
    config->dim = 65536;
    config->hidden = 262144;
}

static void qkv_bias_off(struct vit_config *config) {
    config->qkv_bias = false;
}

static void other_grid(struct vit_config *config) {
    config->pos_grid_h = 5;
}

static const struct bad_row bad_rows[] = {
    {.why = "a tensor is missing",
     .tensors.drop = {"norm.weight"},
     .want = ST_SHAPE,
     .words = {"norm.weight"}},
    {.why = "every fault is listed",
     .tensors.drop = {"head.bias", "blocks.1.mlp.fc1.weight"},
     .tensors.extra = {"head_dist.weight"},
     .tensors.halve = "blocks.2.attn.proj.weight",
     .want = ST_SHAPE,
     .words = {"head.bias", "blocks.1.mlp.fc1.weight", "head_dist.weight",
               "blocks.2.attn.proj.weight"}},
    {.why = "a tensor nobody reads",
     .tensors.extra = {"mask_token", "norm.weights"},
     .want = ST_SHAPE,
     .words = {"mask_token", "norm.weights"}},
    {.why = "a tensor of another shape",
     .tensors.halve = "pos_embed",
     .want = ST_SHAPE,
     .words = {"pos_embed"}},
    {.why = "a bias the config denies",
     .change = qkv_bias_off,
     .want = ST_SHAPE,
     .words = {"blocks.0.attn.qkv.bias", "blocks.2.attn.qkv.bias"}},
    {.why = "more blocks than the file has",
     .change = deeper,
     .want = ST_SHAPE,
     .words = {"blocks.3.norm1.weight"}},
    {.why = "another width",
     .change = wider,
     .want = ST_SHAPE,
     .words = {"patch_embed.proj.weight"}},
    {.why = "another grid than stored",
     .change = other_grid,
     .want = ST_SHAPE,
     .words = {"pos_embed"}},
    {.why = "sizes no tensor has are not allocated",
     .change = enormous,
     .want = ST_SHAPE,
     .words = {"announces"}},
    {.why = "logits for every token",
     .change = pool_none,
     .want = ST_FORMAT,
     .words = {"every token"}},
    {.why = "a distilled model that averages",
     .change = distilled_mean,
     .want = ST_FORMAT,
     .words = {"avg"}},
    {.why = "a size the patch does not divide",
     .image_h = 33,
     .image_w = 32,
     .want = ST_USAGE,
     .words = {"33x32", "8x8"}},
    {.why = "a size below the patch",
     .image_h = 32,
     .image_w = 4,
     .want = ST_USAGE,
     .words = {"32x4"}},
    {.why = "more patches than can be counted",
     .image_h = 2147483640,
     .image_w = 2147483640,
     .want = ST_USAGE,
     .words = {"2147483640"}},
    {.why = "an empty batch", .max_batch = -1, .want = ST_USAGE, .words = {"-1"}},
};

/* vit_token.h5 with the row's changes, at `path`. */
static void write_variant(const struct bad_row *row, struct h5 *source, const char *path) {
    struct vit_config config;
    struct preprocess_spec spec;
    struct h5 *file = NULL;
    demand(h5_create(path, &file));
    demand(vit_config_read(source, &config));
    if (row->change) row->change(&config);
    demand(vit_config_write(file, &config));
    demand(preprocess_spec_read(source, &spec));
    demand(preprocess_spec_write(file, &spec));
    copy_tensors(&row->tensors, source, file);
    demand(h5_close(&file));
}

static void test_refused(void **state) {
    const struct bad_row *row = *state;
    struct backend_options options = {.device = "cpu", .precision = "fp32", .threads = 1};
    struct backend *backend = NULL;
    struct h5 *source = NULL, *file = NULL;
    struct vit vit;
    char path[] = "/tmp/vitrine_test_XXXXXX";
    int handle = mkstemp(path);
    enum status st;
    assert_true(handle >= 0);
    close(handle);
    demand(h5_open("tests/ref/vit_token.h5", &source));
    write_variant(row, source, path);
    demand(h5_close(&source));
    demand(backend_open(&options, &backend));
    demand(h5_open(path, &file));
    st = load(&vit, file, backend, row->image_h, row->image_w, row->max_batch ? row->max_batch : 1);
    printf("%s: %s: %s\n", row->why, status_name(st), st == ST_OK ? "loaded" : fail_message());
    assert_int_equal(st, row->want);
    assert_null(vit.blocks); // released
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
    struct vit_taps taps = {.layer = 3, .tokens = out};
    (void)state;
    session_open(&s, "token", 1);
    assert_int_equal(vit_forward(&s.vit, s.pixels, 0, out, NULL), ST_USAGE);
    assert_int_equal(vit_forward(&s.vit, s.pixels, IMAGES + 1, out, NULL), ST_USAGE);
    assert_int_equal(vit_forward(&s.vit, s.pixels, 1, out, &taps), ST_USAGE);
    assert_non_null(strstr(fail_message(), "layer 3"));
    session_close(&s);
    session_open(&s, "none", 1);
    taps = (struct vit_taps){.layer = -1, .pooled = out};
    assert_int_equal(vit_forward(&s.vit, s.pixels, 1, NULL, &taps), ST_USAGE);
    session_close(&s);
}

int main(void) {
    struct CMUnitTest tests[3 * COUNT_OF(golden_rows) + COUNT_OF(bad_rows) + 3];
    size_t count = 0;
    int failed;
    for (size_t i = 0; i < COUNT_OF(golden_rows); i++) {
        const struct golden_row *row = &golden_rows[i];
        tests[count++] = row_test("golden", row->name, test_golden, row);
        tests[count++] = row_test("same bits", row->name, test_same_bits, row);
        tests[count++] = row_test("capture", row->name, test_capture_same_bits, row);
    }
    for (size_t i = 0; i < COUNT_OF(bad_rows); i++)
        tests[count++] = row_test("refused", bad_rows[i].why, test_refused, &bad_rows[i]);
    tests[count++] = row_test("property", "the layers asked for", test_layers_wanted, NULL);
    tests[count++] = row_test("property", "multiply-adds", test_macs, NULL);
    tests[count++] = row_test("refused", "bad calls", test_bad_calls, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
    return failed;
}
