/*
 * test_rows_cuda: the CUDA kernels that move rows (norms, merging, assembly, mean, patches,
 * activations) in the simulator against the CPU backend, for every type, aligned or not; planted
 * faults must be caught. Attention has test_attention_cuda.
 */
#include "kernels/backend.h"
#include "kernels/cuda_kernels.h"
#include "tests/op_shapes.h"
#include "tests/simt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if HAVE_CXX

enum { MOST = 1 << 16, PLACES = 3 };

struct shape {
    int batch, tokens, channels, spare; /* spare columns behind a row: views, and no alignment */
    const char *why;
};

static const struct shape shapes[] = {
    {1, 1, 1, 0, "the least there is"},  {2, 5, 24, 0, "aligned"},
    {2, 5, 24, 3, "rows not aligned"},   {1, 7, 47, 0, "odd"},
    {3, 9, 96, 8, "a view, aligned"},    {1, 3, 768, 0, "ViT-B"},
    {1, 2, 2056, 0, "beyond registers"}, {1, 2, 3079, 1, "beyond registers, odd"},
    {1, 6, 64, 1000, "a narrow view"},
};

/* An activation on both sides: the CPU's fp32 holds what the device's type rounds to. */
struct pair {
    struct act act;
    struct cuda_view view;
    size_t count; /* elements of the memory, spare ones too */
};

/* What a kernel runs in. */
struct bench {
    struct backend *be;
    enum cuda_type type;
    struct arena arena;
    unsigned char bytes[PLACES][4 * MOST] __attribute__((aligned(16)));
    float *memory[PLACES]; /* (MOST) */
    float weight[2 * 4096];
    bool good;     /* everything was as it should be */
    bool loud;     /* says what was not */
    uint64_t seen; /* fingerprint of the device's results */
};

static struct bench bench;

static float from_bits(enum cuda_type type, const unsigned char *bytes, size_t i) {
    uint16_t half;
    float x;
    if (type == CUDA_FP32) return memcpy(&x, bytes + 4 * i, 4), x;
    memcpy(&half, bytes + 2 * i, 2);
    return type == CUDA_FP16 ? simt_from_fp16(half) : simt_from_bf16(half);
}

static void to_bits(enum cuda_type type, float x, unsigned char *bytes, size_t i) {
    uint16_t half = type == CUDA_FP16 ? simt_to_fp16(x) : simt_to_bf16(x);
    if (type == CUDA_FP32)
        memcpy(bytes + 4 * i, &x, 4);
    else
        memcpy(bytes + 2 * i, &half, 2);
}

/* Memory `place`, random on both sides, seen as (batch, tokens, channels). */
static struct pair pair_of(int place, int batch, int tokens, int channels, int spare) {
    struct pair p = {{0}, {0}, 0};
    size_t pitch = (size_t)(channels + spare), stride = (size_t)tokens * pitch;
    p.count = (size_t)batch * stride;
    assert_true(p.count <= MOST);
    p.act = (struct act){bench.memory[place], 0, batch, tokens, channels, pitch, stride};
    p.view = (struct cuda_view){bench.bytes[place], batch, tokens, channels, pitch, stride};
    op_fill(bench.memory[place], p.count, (uint64_t)place + 1);
    for (size_t i = 0; i < p.count; i++) {
        to_bits(bench.type, bench.memory[place][i], bench.bytes[place], i);
        bench.memory[place][i] = from_bits(bench.type, bench.bytes[place], i);
    }
    return p;
}

/* Half a step of the type at 1, a little more for what was summed before; fp32: rounding alone. */
static double tolerance(enum cuda_type type) {
    return type == CUDA_FP32 ? 2e-6 : type == CUDA_FP16 ? 6e-4 : 5e-3;
}

/* The CPU's result against the device's, relative above 1; spare columns must be as they were. */
static void compare(const char *op, const char *why, enum status st, const struct pair *p) {
    static double want[MOST], scale[MOST];
    static float got[MOST];
    char name[160];
    if (backend_sync(bench.be) != ST_OK) fail_msg("%s", fail_message());
    for (size_t i = 0; i < p->count; i++) {
        got[i] = from_bits(bench.type, p->view.data, i);
        want[i] = (double)((const float *)p->act.data)[i];
        scale[i] = fmax(1, fabs(want[i]));
        bench.seen = (bench.seen ^ simt_bits(got[i])) * 0x100000001b3u;
    }
    snprintf(name, sizeof name, "%s, type %d: %s", op, (int)bench.type, why);
    if (st != ST_OK && bench.loud) printf("%s: %s\n", name, fail_message());
    bench.good &= st == ST_OK;
    if (bench.loud)
        bench.good &= op_close(name, got, want, scale, p->count, tolerance(bench.type));
    else
        for (size_t i = 0; i < p->count; i++)
            bench.good &= fabs((double)got[i] - want[i]) <= tolerance(bench.type) * scale[i];
}

/* ---- the ops --------------------------------------------------------------------------------- */

static struct norm *load_norm(int width, bool rms) {
    struct norm_spec spec = {.width = width,
                             .eps = 1e-2f, /* large enough to be missed */
                             .rms = rms,
                             .weight = bench.weight,
                             .bias = rms ? NULL : bench.weight + width};
    struct norm *norm;
    assert_true(width <= 4096);
    op_fill(bench.weight, 2 * (size_t)width, 77);
    assert_int_equal(norm_load(bench.be, &spec, &norm), ST_OK);
    return norm;
}

static void run_layernorm(const struct shape *s, bool rms, bool residual, int runs) {
    struct pair x = pair_of(0, s->batch, s->tokens, s->channels, s->spare);
    struct pair add = pair_of(1, s->batch, s->tokens, s->channels, s->spare);
    struct pair y = pair_of(2, s->batch, s->tokens, s->channels, s->spare);
    int width = s->channels % runs ? s->channels : s->channels / runs;
    const struct norm *norm = load_norm(width, rms);
    struct cuda_layernorm call = {.type = bench.type,
                                  .x = x.view,
                                  .y = y.view,
                                  .weight = bench.weight,
                                  .bias = bench.weight + width,
                                  .width = width,
                                  .eps = 1e-2f,
                                  .rms = rms};
    if (residual) call.residual = add.view;
    op_layernorm(bench.be, norm, x.act, residual ? &add.act : NULL, y.act);
    compare("layernorm", s->why, cuda_layernorm(&call, NULL), &y);
}

static void layernorms(void) {
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        run_layernorm(&shapes[i], false, false, 1);
        run_layernorm(&shapes[i], false, true, 1);
        run_layernorm(&shapes[i], true, false, 4); /* query and key norms */
    }
}

static void merges(void) {
    static const struct {
        int batch, grid_h, grid_w, channels, spare;
        bool norm;
        const char *why;
    } rows[] = {
        {2, 4, 6, 8, 0, true, "even"},      {1, 7, 9, 16, 0, true, "odd"},
        {2, 4, 6, 8, 0, false, "no norm"},  {1, 5, 3, 24, 5, true, "odd, not aligned"},
        {1, 1, 1, 5, 0, true, "one token"}, {2, 3, 5, 6, 0, false, "odd, no norm"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int h = rows[i].grid_h, w = rows[i].grid_w, width = 4 * rows[i].channels;
        struct pair x = pair_of(0, rows[i].batch, h * w, rows[i].channels, rows[i].spare);
        struct pair y = pair_of(1, rows[i].batch, (h + 1) / 2 * ((w + 1) / 2), width, 0);
        const struct norm *norm = rows[i].norm ? load_norm(width, false) : NULL;
        op_patch_merge(bench.be, norm, x.act, h, w, y.act);
        compare("patch_merge", rows[i].why,
                cuda_patch_merge(bench.type, &x.view, h, w, norm ? bench.weight : NULL,
                                 norm ? bench.weight + width : NULL, 1e-2f, &y.view, NULL),
                &y);
    }
}

static void assemblies(void) {
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *s = &shapes[i];
        for (int prefixes = 0; prefixes < 3; prefixes += 2) {
            size_t prefix_count = (size_t)(prefixes * s->channels);
            size_t count = (size_t)(s->tokens * s->channels);
            struct pair tok = pair_of(0, s->batch, s->tokens, s->channels, s->spare);
            struct pair h = pair_of(1, s->batch, prefixes + s->tokens, s->channels, 0);
            float *tables = bench.memory[2]; /* prefix, pos */
            struct table *prefix = NULL, *pos;
            op_fill(tables, prefix_count + count, 5);
            if (prefixes)
                assert_int_equal(table_load(bench.be, tables, prefix_count, &prefix), ST_OK);
            assert_int_equal(table_load(bench.be, tables + prefix_count, count, &pos), ST_OK);
            op_assemble(bench.be, prefix, prefixes ? pos : NULL, tok.act, h.act);
            compare("assemble", s->why,
                    cuda_assemble(bench.type, prefix ? tables : NULL,
                                  prefixes ? tables + prefix_count : NULL, &tok.view, &h.view,
                                  NULL),
                    &h);
        }
    }
}

static void means(void) {
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *s = &shapes[i];
        struct pair x = pair_of(0, s->batch, s->tokens, s->channels, s->spare);
        struct pair y = pair_of(1, s->batch, 1, s->channels, 0);
        op_mean(bench.be, x.act, y.act);
        compare("mean", s->why, cuda_mean(bench.type, &x.view, &y.view, NULL), &y);
    }
}

static void patches(void) {
    enum { H = 12, W = 20, PH = 4, PW = 5, K = 3 * PH * PW, N = H / PH * (W / PW) };
    static uint8_t pixels[2 * H * W * 3];
    static float identity[K * K];
    struct patch_spec spec = {H, W, PH, PW, {0.1f, 0.4f, 0.5f}, {0.2f, 0.3f, 0.25f}, NULL};
    struct linear_spec linear = {
        .name = "identity", .in = K, .out = K, .weight = identity, .rows = N};
    struct pair y = pair_of(0, 2, N, K, 0);
    for (size_t i = 0; i < COUNT_OF(pixels); i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    for (int i = 0; i < K; i++)
        identity[i * K + i] = 1;
    assert_int_equal(linear_load(bench.be, &linear, &spec.proj), ST_OK);
    op_patch_embed(bench.be, &spec, pixels, y.act);
    compare("patches", "two images", cuda_patches(bench.type, &spec, pixels, &y.view, NULL), &y);
}

/* A pixel as a patch of its own: the projection is (4, 3), the identity with a row of zeros. */
static void normalised(int batch, int h, int w) {
    static const float identity[CUDA_PIXEL * 3] = {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    static uint8_t pixels[MOST];
    struct patch_spec spec = {h, w, 1, 1, {0.1f, 0.4f, 0.5f}, {0.2f, 0.3f, 0.25f}, NULL};
    struct linear_spec linear = {
        .name = "identity", .in = 3, .out = CUDA_PIXEL, .weight = identity, .rows = h * w};
    struct pair y = pair_of(0, batch, h * w, CUDA_PIXEL, 0);
    for (int i = 0; i < batch * h * w * 3; i++)
        pixels[i] = (uint8_t)((unsigned)i * 2654435761u >> 24);
    assert_int_equal(linear_load(bench.be, &linear, &spec.proj), ST_OK);
    op_patch_embed(bench.be, &spec, pixels, y.act);
    compare("normalise", "pixels", cuda_normalise(bench.type, &spec, pixels, &y.view, NULL), &y);
}

/* A weight whose rows lie apart, in the order that a convolution wants. */
static void filters(void) {
    enum { OUT = 5, PH = 3, PW = 4, K = PH * PW };
    struct pair weight = pair_of(0, 1, OUT, 3 * K, 4), y = pair_of(1, OUT, K, CUDA_PIXEL, 0);
    for (size_t i = 0; i < y.count; i++) {
        const size_t c = i % CUDA_PIXEL, k = i / CUDA_PIXEL % K, out = i / CUDA_PIXEL / K;
        bench.memory[1][i] = c == 3 ? 0 : bench.memory[0][out * weight.act.pitch + c * K + k];
    }
    compare("filter", "5 of 3 x 4",
            cuda_filter(bench.type, weight.view.data, weight.view.pitch, OUT, PH, PW, y.view.data,
                        NULL),
            &y);
}

static void convolution_operands(void) {
    if (bench.type == CUDA_FP32) return;
    normalised(2, 12, 20);
    normalised(1, 3, 5); /* an odd number */
    normalised(1, 1, 1);
    filters();
}

static void run_activation(const struct shape *s, enum epilogue epilogue, bool bias,
                           bool residual) {
    const int columns = epilogue == EPILOGUE_SWIGLU ? 2 * s->channels : s->channels;
    static float identity[512 * 512];
    struct pair x = pair_of(0, s->batch, s->tokens, columns, s->spare);
    struct pair add = pair_of(1, s->batch, s->tokens, s->channels, s->spare);
    struct pair y = pair_of(2, s->batch, s->tokens, s->channels, s->spare);
    struct linear_spec spec = {.name = "identity",
                               .in = columns,
                               .out = columns,
                               .weight = identity,
                               .bias = bias ? bench.weight : NULL,
                               .rows = s->tokens};
    struct cuda_activation call = {
        .type = bench.type, .epilogue = epilogue, .x = x.view, .y = y.view};
    struct linear *linear;
    if (columns > 512) return;
    memset(identity, 0, sizeof identity);
    for (int i = 0; i < columns; i++)
        identity[i * columns + i] = 1;
    op_fill(bench.weight, (size_t)columns, 9);
    if (bias) call.bias = bench.weight;
    if (residual) call.residual = add.view;
    assert_int_equal(linear_load(bench.be, &spec, &linear), ST_OK);
    op_linear(bench.be, linear, epilogue, x.act, residual ? &add.act : NULL, y.act);
    compare("activation", s->why, cuda_activation(&call, NULL), &y);
}

static void activations(void) {
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (int e = EPILOGUE_NONE; e <= EPILOGUE_SWIGLU; e++) {
            run_activation(&shapes[i], (enum epilogue)e, true, e % 2 == 0);
            run_activation(&shapes[i], (enum epilogue)e, false, true);
        }
}

static void copies(void) {
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const struct shape *s = &shapes[i];
        size_t dense = (size_t)(s->batch * s->tokens * s->channels);
        struct pair x = pair_of(0, s->batch, s->tokens, s->channels, s->spare);
        struct pair y = pair_of(1, s->batch, s->tokens, s->channels, s->spare);
        float *between = bench.memory[2];
        enum status st;
        backend_read(bench.be, x.act, between);
        backend_write(bench.be, between, y.act);
        for (size_t k = 0; k < dense; k++)
            between[k] = NAN;
        st = cuda_to_fp32(bench.type, &x.view, between, NULL);
        if (st == ST_OK) st = cuda_from_fp32(bench.type, between, &y.view, NULL);
        compare("copies", s->why, st, &y);
    }
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void (*const ops[])(void) = {layernorms, merges,      assemblies,           means,
                                    patches,    activations, convolution_operands, copies};

static void open_bench(void **state) {
    (void)state;
    assert_int_equal(cpu_open("fp32", 1, &bench.be), ST_OK);
    for (int i = 0; i < PLACES; i++) {
        bench.memory[i] = mem_zalloc(MOST, sizeof(float));
        assert_non_null(bench.memory[i]);
    }
    bench.good = true;
    bench.loud = false;
    bench.seen = 0xcbf29ce484222325u;
    simt_options = (struct simt_options){0};
}

static void close_bench(void) {
    for (int i = 0; i < PLACES; i++)
        mem_free(bench.memory[i]);
    backend_close(bench.be);
    simt_options = (struct simt_options){0};
}

static void against_the_cpu(void **state) {
    open_bench(state);
    bench.loud = true;
    for (int type = CUDA_FP32; type <= CUDA_BF16; type++) {
        bench.type = (enum cuda_type)type;
        for (size_t i = 0; i < COUNT_OF(ops); i++)
            ops[i]();
    }
    close_bench();
    assert_true(bench.good);
}

/* No schedule changes a bit: there are no races. */
static void schedules_do_not_matter(void **state) {
    uint64_t first = 0;
    for (int schedule = SIMT_ROUND_ROBIN; schedule <= SIMT_RANDOM; schedule++) {
        open_bench(state);
        bench.type = CUDA_FP16;
        simt_options.schedule = (enum simt_schedule)schedule;
        simt_options.seed = 7;
        for (size_t i = 0; i < COUNT_OF(ops); i++)
            ops[i]();
        if (schedule == SIMT_ROUND_ROBIN) first = bench.seen;
        close_bench();
        assert_true(bench.seen == first);
    }
}

static bool still_good(void) {
    bench.good = true;
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        ops[i]();
    return bench.good;
}

/* Every barrier and shuffle broken, and every mutant of these kernels: each must be noticed. */
static void planted_faults_are_caught(void **state) {
#define ROW(name, what) {MUTANT_##name, what},
    static const struct {
        enum mutant mutant;
        const char *what;
    } mutants[] = {ROW_MUTANTS(ROW)};
#undef ROW
    int sites;
    open_bench(state);
    simt_forget_sites();
    assert_true(still_good());
    sites = simt_site_count();
    assert_true(sites >= 2); /* the warp's sum, the mean's barrier */
    for (int site = 0; site < sites; site++) {
        bool caught = false;
        for (int schedule = SIMT_ROUND_ROBIN; schedule <= SIMT_RANDOM && !caught; schedule++) {
            simt_options =
                (struct simt_options){.broken = 1 + site, .schedule = (enum simt_schedule)schedule};
            caught = !still_good();
        }
        printf("broken %s: %s\n", simt_site_name(site), caught ? "caught" : "NOT CAUGHT");
        assert_true(caught);
    }
    for (size_t i = 0; i < COUNT_OF(mutants); i++) {
        simt_options = (struct simt_options){.mutant = mutants[i].mutant};
        bool caught = !still_good();
        printf("mutant, %s: %s\n", mutants[i].what, caught ? "caught" : "NOT CAUGHT");
        assert_true(caught);
    }
    close_bench();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_the_cpu),
        cmocka_unit_test(schedules_do_not_matter),
        cmocka_unit_test(planted_faults_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void no_compiler(void **state) {
    (void)state;
    printf("skip: no C++ compiler for the CUDA simulator\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_compiler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
