/*
 * test_ops: the public ops of ops.h on the CPU: values against double precision; bits against the
 * batch, the threads and the product used; refusals; sticky errors; that a planned forward does not
 * allocate.
 */
#include "kernels/ops.h"
#include "tests/op_shapes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cpu_engines.h"

/* ---- counting allocations -------------------------------------------------------------------- */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t align, size_t size);

static atomic_int allocations;

void *malloc(size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *ptr, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(ptr, size);
}

void *aligned_alloc(size_t align, size_t size) {
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size) {
    atomic_fetch_add(&allocations, 1);
    *out = __libc_memalign(align, size);
    return *out ? 0 : 12;
}
#else
#define COUNTS_ALLOCATIONS 0
static atomic_int allocations;
#endif

/* ---- a small forward ------------------------------------------------------------------------- */

enum { SIDE = 8, PATCH = 4, TOKENS = 5, WIDTH = 24, HEADS = 3 };

struct small {
    struct patch_spec patch;
    struct linear *proj, *qkv, *head;
    struct norm *norm;
    struct table *prefix, *pos;
    struct act tok, h, n, q, a, mean, logits;
    struct arena arena;
};

static struct linear *load_linear(struct backend *be, const char *name, int in, int out, int rows) {
    float *values = random_floats((size_t)in * (size_t)out + (size_t)out, 21);
    struct linear_spec spec = {.name = name,
                               .in = in,
                               .out = out,
                               .weight = values,
                               .bias = values + in * out,
                               .rows = rows};
    struct linear *linear;
    assert_int_equal(linear_load(be, &spec, &linear), ST_OK);
    mem_free(values);
    return linear;
}

static void small_bind(struct small *s, struct backend *be, int batch) {
    struct arena *arena = &s->arena;
    s->tok = act_take(be, arena, batch, TOKENS - 1, WIDTH);
    s->h = act_take(be, arena, batch, TOKENS, WIDTH);
    s->n = act_take(be, arena, batch, TOKENS, WIDTH);
    s->q = act_take(be, arena, batch, TOKENS, 3 * WIDTH);
    s->a = act_take(be, arena, batch, TOKENS, WIDTH);
    s->mean = act_take(be, arena, batch, 1, WIDTH);
    s->logits = act_take(be, arena, batch, 1, 10);
}

static void small_load(struct small *s, struct backend *be, int batch) {
    float *values = random_floats(TOKENS * WIDTH, 22);
    struct norm_spec norm = {.width = WIDTH, .eps = 1e-6f};
    *s = (struct small){.patch = {.image_h = SIDE,
                                  .image_w = SIDE,
                                  .patch_h = PATCH,
                                  .patch_w = PATCH,
                                  .mean = {0.485f, 0.456f, 0.406f},
                                  .std = {0.229f, 0.224f, 0.225f}}};
    s->proj = load_linear(be, "patch_embed.proj", 3 * PATCH * PATCH, WIDTH, TOKENS - 1);
    s->patch.proj = s->proj;
    s->qkv = load_linear(be, "qkv", WIDTH, 3 * WIDTH, TOKENS);
    s->head = load_linear(be, "head", WIDTH, 10, 1);
    assert_int_equal(norm_load(be, &norm, &s->norm), ST_OK);
    assert_int_equal(table_load(be, values, WIDTH, &s->prefix), ST_OK);
    assert_int_equal(table_load(be, values, (TOKENS - 1) * WIDTH, &s->pos), ST_OK);
    mem_free(values);
    small_bind(s, be, batch);
    assert_int_equal(backend_reserve(be, &s->arena, "workspace"), ST_OK);
    small_bind(s, be, batch);
}

static void small_forward(struct small *s, struct backend *be, const uint8_t *pixels, int batch) {
    struct attention attention = {.heads = HEADS, .head_dim = WIDTH / HEADS, .scale = 0.3f};
    struct act h = act_batch(s->h, batch), q = act_batch(s->q, batch), n = act_batch(s->n, batch);
    struct act tok = act_batch(s->tok, batch), a = act_batch(s->a, batch);
    struct act mean = act_batch(s->mean, batch), logits = act_batch(s->logits, batch);
    op_patch_embed(be, &s->patch, pixels, tok);       /* (B, 4, C) */
    op_assemble(be, s->prefix, s->pos, tok, h);       /* (B, 5, C) */
    op_layernorm(be, s->norm, h, NULL, n);            /* (B, 5, C) */
    op_linear(be, s->qkv, EPILOGUE_NONE, n, NULL, q); /* (B, 5, 3C) */
    op_attention(be, &attention, act_columns(q, 0, WIDTH), act_columns(q, WIDTH, WIDTH),
                 act_columns(q, 2 * WIDTH, WIDTH), a);                         /* (B, 5, C) */
    op_mean(be, a, mean);                                                      /* (B, 1, C) */
    op_linear(be, s->head, EPILOGUE_NONE, mean, NULL, logits);                 /* (B, 1, K) */
    op_linear(be, s->head, EPILOGUE_NONE, act_rows(a, 0, 1), &logits, logits); /* (B, 1, K) */
}

static void make_pixels(uint8_t *pixels, size_t n) {
    uint64_t seed = 5;
    for (size_t i = 0; i < n; i++)
        pixels[i] = (uint8_t)(op_random(&seed) * 127.0f + 128.0f);
}

/* Logits of a batch of 8 are those of its singles, on every engine and thread count. */
static void test_forward_bits(void **state) {
    uint8_t pixels[8 * SIDE * SIDE * 3];
    (void)state;
    make_pixels(pixels, sizeof pixels);
    for (size_t i = 0; i < COUNT_OF(engines); i++) {
        float first[80];
        for (int threads = 1; threads <= 3; threads++) {
            struct backend *be = open_cpu(&engines[i], threads);
            struct small s;
            float eight[80], one[10];
            small_load(&s, be, 8);
            small_forward(&s, be, pixels, 8);
            backend_read(be, s.logits, eight);
            for (int image = 0; image < 8; image++) {
                small_forward(&s, be, pixels + image * SIDE * SIDE * 3, 1);
                backend_read(be, act_batch(s.logits, 1), one);
                assert_memory_equal(one, eight + image * 10, sizeof one);
            }
            assert_int_equal(backend_sync(be), ST_OK);
            if (threads > 1) assert_memory_equal(first, eight, sizeof first);
            memcpy(first, eight, sizeof first);
            backend_release_arena(be, &s.arena);
            backend_close(be);
        }
    }
}

/*
 * Between backend_plan_end and backend_sync nothing is allocated, at the planned batch and below
 * it. (What oneDNN allocates for itself in a call is its own affair: own products only.)
 */
static void test_planned_forward_allocates_nothing(void **state) {
    static const int batches[] = {8, 3, 1, 8};
    uint8_t pixels[8 * SIDE * SIDE * 3];
    (void)state;
    if (!COUNTS_ALLOCATIONS) skip();
    make_pixels(pixels, sizeof pixels);
    for (size_t i = 0; i < COUNT_OF(engines) && strcmp(engines[i].linear, "own") == 0; i++) {
        struct backend *be = open_cpu(&engines[i], 2);
        struct small s;
        small_load(&s, be, 8);
        backend_plan_begin(be);
        small_forward(&s, be, NULL, 8);
        assert_int_equal(backend_plan_end(be), ST_OK);
        atomic_store(&allocations, 0);
        for (size_t j = 0; j < COUNT_OF(batches); j++)
            small_forward(&s, be, pixels, batches[j]);
        assert_int_equal(backend_sync(be), ST_OK);
        assert_int_equal(atomic_load(&allocations), 0);
        backend_release_arena(be, &s.arena);
        backend_close(be);
    }
}

/* ---- patch embedding, assembly, mean, normalisation ------------------------------------------ */

/* A projection that picks one value of the patch shows the normalised pixels themselves. */
static void test_patch_embed_values(void **state) {
    enum { H = 6, W = 9, PH = 2, PW = 3, IN = 3 * PH * PW };
    const struct patch_spec patch = {
        H, W, PH, PW, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}, NULL};
    float identity[IN * IN] = {0}, got[2 * 9 * IN];
    uint8_t pixels[2 * H * W * 3];
    struct linear_spec spec = {.name = "proj", .in = IN, .out = IN, .weight = identity, .rows = 9};
    (void)state;
    make_pixels(pixels, sizeof pixels);
    for (int i = 0; i < IN; i++)
        identity[i * IN + i] = 1;
    for (size_t e = 0; e < COUNT_OF(engines); e++) {
        struct backend *be = open_cpu(&engines[e], 2);
        struct patch_spec loaded = patch;
        struct arena arena = {0};
        struct act tok = act_take(be, &arena, 2, 9, IN);
        assert_int_equal(linear_load(be, &spec, &loaded.proj), ST_OK);
        assert_int_equal(backend_reserve(be, &arena, "test"), ST_OK);
        tok = act_take(be, &arena, 2, 9, IN);
        op_patch_embed(be, &loaded, pixels, tok);
        backend_read(be, tok, got);
        assert_int_equal(backend_sync(be), ST_OK);
        for (int at = 0; at < 2 * 9 * IN; at++) {
            int image = at / (9 * IN), p = at / IN % 9, c = at % IN / (PH * PW);
            int y = p / 3 * PH + at % (PH * PW) / PW, x = p % 3 * PW + at % PW;
            volatile float v = (float)pixels[((image * H + y) * W + x) * 3 + c] / 255.0f;
            v = v - patch.mean[c];
            v = v / patch.std[c];
            assert_true(got[at] == v);
        }
        backend_release_arena(be, &arena);
        backend_close(be);
    }
}

static void test_assemble_and_mean(void **state) {
    struct backend *be = open_cpu(&engines[0], 2);
    struct arena arena = {0};
    struct act tok, h, plain, mean;
    struct table *prefix, *pos;
    float values[2 * 7], out[3 * 5 * 7], host[3 * 3 * 7], means[3 * 7];
    (void)state;
    op_fill(host, COUNT_OF(host), 31);
    op_fill(values, COUNT_OF(values), 32);
    for (int pass = 0; pass < 2; pass++) {
        tok = act_take(be, &arena, 3, 3, 7);
        h = act_take(be, &arena, 3, 5, 7);
        plain = act_take(be, &arena, 3, 3, 7);
        mean = act_take(be, &arena, 3, 1, 7);
        if (pass == 0) assert_int_equal(backend_reserve(be, &arena, "test"), ST_OK);
    }
    assert_int_equal(table_load(be, values, 2 * 7, &prefix), ST_OK);
    assert_int_equal(table_load(be, host, 3 * 7, &pos), ST_OK);
    backend_write(be, host, tok);
    op_assemble(be, prefix, pos, tok, h);
    op_mean(be, h, mean);
    op_assemble(be, NULL, NULL, tok, plain);
    backend_read(be, h, out);
    backend_read(be, mean, means);
    for (int i = 0; i < 3 * 5 * 7; i++) {
        int b = i / 35, t = i / 7 % 5, c = i % 7;
        float want =
            t < 2 ? values[t * 7 + c] : host[(b * 3 + t - 2) * 7 + c] + host[(t - 2) * 7 + c];
        assert_true(out[i] == want);
    }
    for (int i = 0; i < 3 * 7; i++) {
        float sum = 0;
        for (int t = 0; t < 5; t++)
            sum += out[(i / 7 * 5 + t) * 7 + i % 7];
        assert_true(means[i] == sum / 5);
    }
    backend_read(be, plain, out);
    assert_int_equal(backend_sync(be), ST_OK);
    assert_memory_equal(out, host, sizeof host);
    backend_release_arena(be, &arena);
    backend_close(be);
}

static void test_layernorm_values(void **state) {
    enum { B = 2, T = 3100, C = 22, RUN = 11 }; /* two tasks an image */
    static float x[B * T * C], got[B * T * C];
    float gamma[RUN], beta[RUN];
    struct norm_spec spec = {.width = RUN, .eps = 1e-5f, .weight = gamma, .bias = beta};
    (void)state;
    op_fill(x, B * T * C, 41);
    op_fill(gamma, RUN, 42);
    op_fill(beta, RUN, 43);
    for (size_t e = 0; e < COUNT_OF(engines); e++) {
        struct backend *be = open_cpu(&engines[e], 3);
        struct arena arena = {0};
        struct norm *norm;
        struct act a = act_take(be, &arena, B, T, C);
        assert_int_equal(backend_reserve(be, &arena, "test"), ST_OK);
        a = act_take(be, &arena, B, T, C);
        assert_int_equal(norm_load(be, &spec, &norm), ST_OK);
        backend_write(be, x, a);
        op_layernorm(be, norm, a, &a, a); /* y is x and the residual */
        backend_read(be, a, got);
        assert_int_equal(backend_sync(be), ST_OK);
        for (int i = 0; i < B * T * C; i += RUN) {
            double mean = 0, variance = 0;
            for (int j = 0; j < RUN; j++)
                mean += (double)x[i + j] / RUN;
            for (int j = 0; j < RUN; j++)
                variance += ((double)x[i + j] - mean) * ((double)x[i + j] - mean) / RUN;
            for (int j = 0; j < RUN; j++) {
                double want = ((double)x[i + j] - mean) / sqrt(variance + 1e-5) * (double)gamma[j] +
                              (double)beta[j] + (double)x[i + j];
                assert_true(fabs(want - (double)got[i + j]) < 1e-6);
            }
        }
        backend_release_arena(be, &arena);
        backend_close(be);
    }
}

/*
 * Cosine scores take the head's own temperature, a length cuts the keys, and the probabilities sum
 * to 1.
 */
static void test_attention_glue(void **state) {
    enum { B = 2, T = 6, H = 2, D = 3, C = H * D };
    static const int lengths[B] = {6, 4};
    const float temperature[H] = {2.0f, 7.0f};
    float host[B * T * 3 * C], got[B * T * C], probs[B * H * T * T];
    struct backend *be = open_cpu(&engines[0], 2);
    struct attention desc = {.heads = H, .head_dim = D, .score = SCORE_COSINE, .lengths = lengths};
    struct table *table;
    struct arena arena = {0};
    struct act qkv, y, p;
    (void)state;
    op_fill(host, COUNT_OF(host), 51);
    for (int pass = 0; pass < 2; pass++) {
        qkv = act_take(be, &arena, B, T, 3 * C);
        y = act_take(be, &arena, B, T, C);
        p = act_take(be, &arena, B, H * T, T);
        if (pass == 0) assert_int_equal(backend_reserve(be, &arena, "test"), ST_OK);
    }
    assert_int_equal(table_load(be, temperature, H, &table), ST_OK);
    desc.temperature = table;
    desc.probs = &p;
    backend_write(be, host, qkv);
    op_attention(be, &desc, act_columns(qkv, 0, C), act_columns(qkv, C, C),
                 act_columns(qkv, 2 * C, C), y);
    backend_read(be, y, got);
    backend_read(be, p, probs);
    if (backend_sync(be) != ST_OK) fail_msg("%s", fail_message());
    for (int row = 0; row < B * H * T; row++) {
        int b = row / (H * T), h = row / T % H, i = row % T;
        const float *q = host + (b * T + i) * 3 * C + h * D;
        double weights[T] = {0}, total = 0;
        for (int j = 0; j < lengths[b]; j++) {
            const float *k = host + (b * T + j) * 3 * C + C + h * D;
            double qk = 0, qq = 0, kk = 0;
            for (int d = 0; d < D; d++) {
                qk += (double)q[d] * (double)k[d];
                qq += (double)q[d] * (double)q[d];
                kk += (double)k[d] * (double)k[d];
            }
            weights[j] = exp((double)temperature[h] * qk / sqrt(qq * kk));
            total += weights[j];
        }
        for (int j = 0; j < T; j++)
            assert_true(fabs((double)probs[row * T + j] - weights[j] / total) < 1e-6);
        for (int d = 0; d < D; d++) {
            double want = 0;
            for (int j = 0; j < T; j++)
                want += weights[j] / total * (double)host[(b * T + j) * 3 * C + 2 * C + h * D + d];
            assert_true(fabs((double)got[(b * T + i) * C + h * D + d] - want) < 1e-6);
        }
    }
    backend_release_arena(be, &arena);
    backend_close(be);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Expects that the op before it was refused with this sentence. */
static void expect_refusal(struct backend *be, enum status st, const char *sentence) {
    assert_int_equal(backend_sync(be), st);
    assert_string_equal(fail_message(), sentence);
    assert_int_equal(backend_sync(be), ST_OK); /* and it is gone */
}

static void test_linear_refusals(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    struct small s;
    struct act x, y, view;
    (void)state;
    small_load(&s, be, 2);
    x = s.n;
    y = s.q;
    op_linear(be, s.qkv, EPILOGUE_NONE, act_columns(x, 0, 23), NULL, y);
    expect_refusal(be, ST_SHAPE, "linear qkv: x is (2, 5, 23), want (2, 5, 24)");
    op_linear(be, s.qkv, EPILOGUE_NONE, x, NULL, act_rows(y, 0, 4));
    expect_refusal(be, ST_SHAPE, "linear qkv: y is (2, 4, 72), want (2, 5, 72)");
    op_linear(be, s.qkv, EPILOGUE_NONE, x, &x, y);
    expect_refusal(be, ST_SHAPE, "linear qkv: the residual is (2, 5, 24), want (2, 5, 72)");
    op_linear(be, s.qkv, EPILOGUE_SWIGLU, x, NULL, y);
    expect_refusal(be, ST_SHAPE, "linear qkv: y is (2, 5, 72), want (2, 5, 36)");
    view = x;
    view.tokens = 0;
    op_linear(be, s.qkv, EPILOGUE_NONE, view, NULL, y);
    expect_refusal(be, ST_SHAPE, "linear qkv: x is (2, 0, 24), every size must be at least 1");
    op_linear(be, s.qkv, EPILOGUE_NONE, act_rows(x, 3, 3), NULL, y);
    expect_refusal(be, ST_SHAPE, "linear qkv: x is (0, 0, 0), every size must be at least 1");
    view = x;
    view.data = NULL;
    op_linear(be, s.qkv, EPILOGUE_NONE, view, NULL, y);
    expect_refusal(be, ST_SHAPE, "linear qkv: x has no memory");
    view = x;
    view.pitch = 8;
    op_linear(be, s.qkv, EPILOGUE_NONE, view, NULL, y);
    expect_refusal(be, ST_SHAPE,
                   "linear qkv: x is (2, 5, 24) with pitch 8 and stride 120: its rows overlap");
    view = act_columns(y, 0, WIDTH);
    op_linear(be, s.qkv, EPILOGUE_NONE, view, NULL, y);
    expect_refusal(be, ST_SHAPE, "linear qkv: y is x, want other memory");
    backend_release_arena(be, &s.arena);
    backend_close(be);
}

static void test_token_refusals(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    struct small s;
    struct act x, y;
    (void)state;
    small_load(&s, be, 2);
    x = s.n;
    y = s.q;
    op_layernorm(be, s.norm, act_columns(y, 0, 25), NULL, act_columns(y, 0, 25));
    expect_refusal(be, ST_SHAPE, "layernorm: x is (2, 5, 25), want channels in groups of 24");
    op_mean(be, x, x);
    expect_refusal(be, ST_SHAPE, "mean: y is (2, 5, 24), want (2, 1, 24)");
    op_assemble(be, s.pos, NULL, s.tok, s.h);
    expect_refusal(be, ST_SHAPE, "assemble: h is (2, 5, 24), want (2, 8, 24)");
    op_assemble(be, s.prefix, s.prefix, s.tok, s.h);
    expect_refusal(be, ST_SHAPE, "assemble: pos has 24 values, want 96");
    op_patch_embed(be, &s.patch, NULL, s.tok);
    expect_refusal(be, ST_SHAPE, "patch_embed: no pixels");
    s.patch.image_h = 9;
    op_patch_embed(be, &s.patch, NULL, s.tok);
    expect_refusal(be, ST_SHAPE, "patch_embed: image 9x8 is no whole number of patches 4x4");
    backend_release_arena(be, &s.arena);
    backend_close(be);
}

static void test_attention_refusals(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    struct attention attention = {.heads = HEADS, .head_dim = WIDTH / HEADS, .scale = 1};
    static const int lengths[2] = {5, 6};
    struct small s;
    struct act x, probs;
    (void)state;
    small_load(&s, be, 2);
    x = s.n;
    attention.head_dim = 7;
    op_attention(be, &attention, x, x, x, s.a);
    expect_refusal(be, ST_SHAPE, "attention: q is (2, 5, 24), want (2, 5, 21)");
    attention.head_dim = 8;
    attention.lengths = lengths;
    op_attention(be, &attention, x, x, x, s.a);
    expect_refusal(be, ST_SHAPE, "attention: length 6 of image 1, want 1 to 5");
    attention.lengths = NULL;
    attention.score = SCORE_COSINE;
    op_attention(be, &attention, x, x, x, s.a);
    expect_refusal(be, ST_SHAPE, "attention: a cosine score without temperatures");
    attention.score = SCORE_DOT;
    attention.probs = &s.h;
    op_attention(be, &attention, x, x, x, s.a);
    expect_refusal(be, ST_SHAPE, "attention: probs is (2, 5, 24), want (2, 15, 5)");
    probs = s.q;
    probs.tokens = 15;
    probs.channels = 5;
    probs.pitch = 5;
    attention.probs = &probs;
    attention.greatest = &s.h;
    op_attention(be, &attention, x, x, x, s.a);
    expect_refusal(be, ST_SHAPE, "attention: greatest is (2, 5, 24), want (2, 3, 5)");
    attention.probs = NULL;
    op_attention(be, &attention, x, x, x, s.a);
    expect_refusal(be, ST_SHAPE, "attention: greatest scores without probabilities");
    attention.greatest = NULL;
    op_attention(be, &attention, x, x, x, x);
    expect_refusal(be, ST_SHAPE, "attention: y is an input, want other memory");
    attention.pattern = PATTERN_WINDOW;
    attention.window_h = attention.window_w = 2;
    attention.shift_w = 2;
    op_attention(be, &attention, x, x, x, s.a);
    expect_refusal(be, ST_SHAPE, "attention: window 2x2 with shift 0, 2, want 0 <= shift < window");
    backend_release_arena(be, &s.arena);
    backend_close(be);
}

/*
 * After an error ops do nothing, the first sentence is the one returned, and then all works again.
 */
static void test_sticky_errors(void **state) {
    struct backend *be = open_cpu(&engines[0], 1);
    float ones[TOKENS * WIDTH], back[TOKENS * WIDTH];
    struct small s;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ones); i++)
        ones[i] = 1;
    small_load(&s, be, 1);
    backend_write(be, ones, s.h);
    op_mean(be, s.h, s.h);                               /* refused */
    op_layernorm(be, s.norm, s.h, NULL, s.h);            /* not run */
    op_linear(be, s.qkv, EPILOGUE_NONE, s.q, NULL, s.q); /* refused too, but second */
    memset(back, 0, sizeof back);
    backend_read(be, s.h, back);
    assert_true(back[0] == 0); /* not even read */
    assert_int_equal(backend_sync(be), ST_SHAPE);
    assert_string_equal(fail_message(), "mean: y is (1, 5, 24), want (1, 1, 24)");
    backend_read(be, s.h, back);
    assert_int_equal(backend_sync(be), ST_OK);
    assert_memory_equal(back, ones, sizeof ones);
    backend_plan_begin(be);
    op_mean(be, s.h, s.h);
    assert_int_equal(backend_plan_end(be), ST_SHAPE);
    backend_release_arena(be, &s.arena);
    backend_close(be);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_bits),
        cmocka_unit_test(test_planned_forward_allocates_nothing),
        cmocka_unit_test(test_patch_embed_values),
        cmocka_unit_test(test_assemble_and_mean),
        cmocka_unit_test(test_layernorm_values),
        cmocka_unit_test(test_attention_glue),
        cmocka_unit_test(test_linear_refusals),
        cmocka_unit_test(test_token_refusals),
        cmocka_unit_test(test_attention_refusals),
        cmocka_unit_test(test_sticky_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
