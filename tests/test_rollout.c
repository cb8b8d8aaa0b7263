/*
 * test_rollout: the walk of a row (kernels/rollout.c) against dense products in double, with the
 * probabilities of the tiny golden models, and what must hold whatever the probabilities are.
 */
#include "tests/cuda_session.h" // before cmocka.h, which has a macro `fail`

#include "tests/capture_copy.h"

/*
 * Observed: 2e-8, the float of the fused probabilities. Of bugs put in on purpose the smallest, one
 * entry too many discarded, measures 2e-3; rows or mergings that do not sum to 1 end the test.
 */
#define TOLERANCE 1e-6

enum { MOST_STEPS = 16 };

static const struct rule_row {
    const char *why;
    struct rollout_rule rule;
    enum head_fusion fusion;
} rule_rows[] = {
    {"mean", {.residual = 0.5}, FUSE_MEAN},
    {"max, whose rows do not sum to 1", {.residual = 0.5}, FUSE_MAX},
    {"min", {.residual = 0.3}, FUSE_MIN},
    {"nine tenths discarded", {.residual = 0.5, .discard = 0.9}, FUSE_MEAN},
    {"no residual", {.residual = 0, .discard = 0.5}, FUSE_MAX},
    {"little discarded", {.residual = 0.1, .discard = 0.15}, FUSE_MEAN},
    {"all residual", {.residual = 1}, FUSE_MEAN},
    {"relevance", {.relevance = true}, FUSE_MEAN},
    {"relevance, half discarded", {.relevance = true, .discard = 0.5}, FUSE_MAX},
};

/* ---- the dense product ----------------------------------------------------------------------- */

/* The slot of a window and the window that a token of the map lies in. */
static int slot_of(const struct window_grid *g, int token, int *window) {
    const int across = (g->grid_w + g->window_w - 1) / g->window_w;
    const int y = (token / g->grid_w - g->shift_h % g->grid_h + g->grid_h) % g->grid_h;
    const int x = (token % g->grid_w - g->shift_w % g->grid_w + g->grid_w) % g->grid_w;
    *window = y / g->window_h * across + x / g->window_w;
    return y % g->window_h * g->window_w + x % g->window_w;
}

/* The fused probability of token j for token i; negative: i does not see j. */
static double entry(const struct attention_shape *s, const float *probs, enum head_fusion fusion,
                    int i, int j) {
    int wi = 0, wj = 0, q = i, k = j;
    double fused = 0;
    if (s->windowed) {
        q = slot_of(&s->map, i, &wi);
        k = slot_of(&s->map, j, &wj);
    }
    if (wi != wj) return -1;
    for (int h = 0; h < s->heads; h++) {
        const size_t row = ((size_t)wi * (size_t)s->heads + (size_t)h) * (size_t)s->queries;
        const double p = (double)probs[(row + (size_t)q) * (size_t)s->keys + (size_t)k];
        if (fusion == FUSE_MEAN)
            fused += p / s->heads;
        else if (h == 0 || (fusion == FUSE_MAX ? p > fused : p < fused))
            fused = p;
    }
    return fused;
}

/* Whether token a's slot lies in front of token b's of the same window. */
static bool in_front(const struct attention_shape *s, int a, int b) {
    int window;
    return s->windowed ? slot_of(&s->map, a, &window) < slot_of(&s->map, b, &window) : a < b;
}

/* Zeroes the smallest entries of a row (n), one after the other. */
static void discard_dense(const struct attention_shape *s, double *row, int n,
                          const struct rollout_rule *rule) {
    bool gone[512] = {false};
    int entries = 0;
    for (int j = 0; j < n; j++)
        entries += row[j] >= 0;
    for (int k = 0; k < (int)floor(rule->discard * entries); k++) {
        int least = -1;
        for (int j = 0; j < n; j++)
            if (row[j] >= 0 && !gone[j] &&
                (least < 0 || row[j] < row[least] ||
                 (row[j] == row[least] && in_front(s, j, least))))
                least = j;
        gone[least] = true;
    }
    for (int j = 0; j < n; j++)
        if (row[j] < 0 || (gone[j] && !(rule->keep_first && j == 0))) row[j] = 0;
}

/* m (T, T) */
static void dense_attention(const struct attention_shape *s, const float *probs,
                            const struct rule_row *r, const struct rollout_rule *rule, double *m) {
    const int T = attention_shape_tokens(s);
    assert_true(T <= 512);
    for (int i = 0; i < T; i++, m += T) {
        double sum = 0;
        for (int j = 0; j < T; j++)
            m[j] = entry(s, probs, r->fusion, i, j);
        discard_dense(s, m, T, rule);
        for (int j = 0; j < T && rule->relevance; j++)
            m[j] += i == j;
        for (int j = 0; j < T && !rule->relevance; j++) {
            m[j] = (1 - rule->residual) * m[j] + (i == j ? rule->residual : 0);
            sum += m[j];
        }
        for (int j = 0; j < T && !rule->relevance; j++)
            m[j] /= sum;
    }
}

/* m (T of the coarser map, T of the finer) */
static void dense_merging(const struct window_grid *map, double *m) {
    const int h = (map->grid_h + 1) / 2, w = (map->grid_w + 1) / 2, T = map->grid_h * map->grid_w;
    memset(m, 0, (size_t)(h * w * T) * sizeof *m);
    for (int p = 0; p < h * w; p++) {
        int child[4], count = 0;
        for (int i = 0; i < 4; i++) {
            const int y = 2 * (p / w) + i / 2, x = 2 * (p % w) + i % 2;
            if (y < map->grid_h && x < map->grid_w) child[count++] = y * map->grid_w + x;
        }
        for (int i = 0; i < count; i++)
            m[p * T + child[i]] = 1.0 / count;
    }
}

/* c (rows, columns) = a (rows, inner) b (inner, columns) */
static void multiply(const double *a, const double *b, int rows, int inner, int columns,
                     double *c) {
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double sum = 0;
            for (int k = 0; k < inner; k++)
                sum += a[i * inner + k] * b[k * columns + j];
            c[i * columns + j] = sum;
        }
}

/* ---- models ---------------------------------------------------------------------------------- */

struct subject {
    struct session s;
    struct capture_copy copy; /* every layer's probabilities */
    struct rollout_step steps[MOST_STEPS];
    int count, last; /* tokens behind the last step */
    struct rollout_rule rule;
    float *fused[MOST_STEPS];
};

static void subject_open(struct subject *t, const char *name) {
    struct backend_options options = {.device = "cpu", .precision = "fp32", .threads = 1};
    const struct capture capture = {.take = capture_copy_take, .context = &t->copy};
    struct backend *backend;
    *t = (struct subject){.copy.images = IMAGES};
    demand(backend_open(&options, &backend));
    session_start(&t->s, name, backend);
    if (t->s.is_swin) {
        const struct swin_taps taps = {.layer = -1, .capture = &capture};
        demand(swin_forward(&t->s.swin, t->s.pixels, IMAGES, NULL, &taps));
        t->count = swin_rollout_count(&t->s.swin);
        assert_true(t->count <= MOST_STEPS);
        swin_rollout_steps(&t->s.swin, t->steps);
    } else {
        const struct vit_taps taps = {.layer = -1, .capture = &capture};
        demand(vit_forward(&t->s.vit, t->s.pixels, IMAGES, NULL, &taps));
        t->count = t->s.vit.config.depth;
        vit_rollout_steps(&t->s.vit, false, t->steps);
    }
    t->last = attention_shape_tokens(&t->steps[t->count - 1].shape);
}

/* The steps of an image, fused from layer `start` on. */
static void subject_fuse(struct subject *t, int image, const struct rule_row *row, int start) {
    t->rule = row->rule;
    t->rule.keep_first = !t->s.is_swin && t->s.vit.config.class_token;
    for (int i = 0; i < t->count; i++) {
        struct rollout_step *step = &t->steps[i];
        const size_t floats = attention_shape_floats(&step->shape);
        mem_free(t->fused[i]);
        t->fused[i] = NULL;
        step->fused = NULL;
        if (step->layer < start) continue;
        step->fused = t->fused[i] =
            memory(attention_shape_head_floats(&step->shape), sizeof(float));
        rollout_fuse(&step->shape, t->copy.probs[step->layer] + (size_t)image * floats, row->fusion,
                     NULL, 0, t->fused[i]);
    }
}

static void subject_close(struct subject *t) {
    for (int i = 0; i < t->count; i++)
        mem_free(t->fused[i]);
    capture_copy_release(&t->copy);
    session_close(&t->s);
}

/* (T behind the last step, T in front of the first) */
static double *dense_product(struct subject *t, int image, const struct rule_row *row) {
    const size_t most = (size_t)rollout_tokens(t->steps, t->count);
    double *product = memory(most * most, sizeof *product), *m = memory(most * most, sizeof *m);
    double *next = memory(most * most, sizeof *next), *swapped;
    int inner = t->last;
    for (int i = 0; i < inner; i++)
        product[i * inner + i] = 1;
    for (int i = t->count - 1; i >= 0; i--) {
        const struct rollout_step *step = &t->steps[i];
        const int T = attention_shape_tokens(&step->shape);
        if (step->layer >= 0 && !step->fused) continue;
        if (step->layer < 0)
            dense_merging(&step->shape.map, m);
        else
            dense_attention(&step->shape,
                            t->copy.probs[step->layer] +
                                (size_t)image * attention_shape_floats(&step->shape),
                            row, &t->rule, m);
        multiply(product, m, t->last, inner, T, next);
        swapped = product;
        product = next;
        next = swapped;
        inner = T;
    }
    mem_free(m);
    mem_free(next);
    return product;
}

/* Every row of the dense product is what the walk makes of its token; of a rollout it sums to 1. */
static double walk_rows(struct subject *t, int image, const struct rule_row *row) {
    const int T = attention_shape_tokens(&t->steps[0].shape);
    double *want = dense_product(t, image, row), worst = 0;
    double *got = memory((size_t)rollout_tokens(t->steps, t->count), sizeof *got);
    struct rollout_work work;
    demand(rollout_work_init(&work, t->steps, t->count));
    for (int i = 0; i < t->last; i++) {
        double sum = 0;
        memset(got, 0, (size_t)t->last * sizeof *got);
        got[i] = 1;
        rollout_walk(t->steps, t->count, &t->rule, &work, got);
        for (int j = 0; j < T; j++) {
            sum += got[j];
            worst = fmax(worst, fabs(got[j] - want[i * T + j]));
        }
        if (!t->rule.relevance && !(fabs(sum - 1) < 1e-9)) fail_msg("row %d sums to %.12g", i, sum);
    }
    rollout_work_release(&work);
    mem_free(got);
    mem_free(want);
    return worst;
}

static void test_dense(void **state) {
    const char *name = *state;
    struct subject t;
    bool good = true;
    subject_open(&t, name);
    for (size_t r = 0; r < COUNT_OF(rule_rows); r++)
        for (int start = 0; start < 3; start += 2) {
            double worst;
            subject_fuse(&t, (int)r % IMAGES, &rule_rows[r], start);
            worst = walk_rows(&t, (int)r % IMAGES, &rule_rows[r]);
            printf("%-20s %-32s from %d  max abs %.2e  tolerance %.0e\n", name, rule_rows[r].why,
                   start, worst, TOLERANCE);
            good = good && worst <= TOLERANCE;
        }
    subject_close(&t);
    assert_true(good);
}

/* The last block's head rows alone give the head's map. */
static void test_head_rows(void **state) {
    static const char *const names[] = {"vit_token", "vit_distilled"};
    (void)state;
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        struct subject t;
        struct rollout_work work;
        double *whole, *part;
        subject_open(&t, names[n]);
        const int T = t.last, last = t.count - 1;
        whole = memory((size_t)T, sizeof *whole);
        part = memory((size_t)T, sizeof *part);
        subject_fuse(&t, 0, &rule_rows[3], 0);
        demand(rollout_work_init(&work, t.steps, t.count));
        vit_head_row(&t.s.vit, whole);
        vit_head_row(&t.s.vit, part);
        rollout_walk(t.steps, t.count, &t.rule, &work, whole);
        t.steps[last].shape = vit_attention_shape(&t.s.vit, last, true);
        rollout_walk(t.steps, t.count, &t.rule, &work, part);
        assert_memory_equal(whole, part, (size_t)T * sizeof *whole);
        rollout_work_release(&work);
        mem_free(whole);
        mem_free(part);
        subject_close(&t);
    }
}

/* ---- without a model ------------------------------------------------------------------------- */

/*
 * A = I: nothing moves, so the mean of a map ends uniform, through windows that are shifted and
 * padded. Through merging it does where no border is odd.
 */
static void test_identity(void **state) {
    static const struct {
        struct window_grid map;
        bool windowed, merged;
        int prefix;
    } rows[] = {
        {{.grid_h = 4, .grid_w = 5}, false, false, 2}, {{8, 8, 4, 4, 2, 2}, true, true, 0},
        {{10, 10, 4, 4, 2, 2}, true, true, 0},         {{7, 9, 4, 4, 2, 2}, true, false, 0},
        {{3, 12, 3, 4, 0, 2}, true, false, 0},
    };
    (void)state;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const struct window_grid *map = &rows[r].map;
        const struct attention_shape shape =
            rows[r].windowed ? attention_shape_windows(1, map)
                             : attention_shape_full(1, rows[r].prefix, map->grid_h, map->grid_w);
        const int T = attention_shape_tokens(&shape), N = shape.keys;
        const struct rollout_rule rule = {.residual = 0.5};
        float *eye = memory((size_t)(shape.windows * N * N), sizeof *eye);
        struct rollout_step steps[3] = {{.layer = -1}, {.shape = shape, .fused = eye}, {0}};
        struct rollout_work work;
        double row[512];
        float out[512];
        for (int i = 0; i < shape.windows * N; i++)
            eye[i * N + i % N] = 1;
        steps[0].shape.map =
            (struct window_grid){.grid_h = 2 * map->grid_h, .grid_w = 2 * map->grid_w};
        steps[2] = steps[1];
        const int first = rows[r].merged ? 0 : 1;
        demand(rollout_work_init(&work, steps + first, 3 - first));
        rollout_start_mean(&shape, row);
        rollout_walk(steps + first, 3 - first, &rule, &work, row);
        assert_true(rollout_map(&steps[first].shape, row, out));
        const int patches = rows[r].merged ? 4 * T : T - shape.prefix;
        for (int i = 0; i < patches; i++)
            assert_true(fabs((double)out[i] * patches - 1) < 1e-6);
        rollout_work_release(&work);
        mem_free(eye);
    }
}

/* Which entries go: the smallest, of equal ones those in front, never a kept first. */
static void test_discard(void **state) {
    static const struct {
        const char *why;
        double share;
        bool keep;
        float p[5];
        double want[5]; /* the row of M without residual */
    } rows[] = {
        {"nothing", 0.19, false, {.1f, .2f, .3f, .4f, 0}, {.1, .2, .3, .4, 0}},
        {"rounded down to two",
         0.59,
         false,
         {.1f, .2f, .3f, .4f, 0},
         {0, .2 / .9, .3 / .9, .4 / .9, 0}},
        {"of equal ones the first",
         0.4,
         false,
         {.2f, .2f, .2f, .2f, .2f},
         {0, 0, 1 / 3., 1 / 3., 1 / 3.}},
        {"the class token stays, and counts",
         0.4,
         true,
         {.1f, .2f, .3f, .4f, 0},
         {.1, .2, .3, .4, 0}},
        {"of equal ones, with it",
         0.6,
         true,
         {.2f, .2f, .2f, .2f, .2f},
         {1 / 3., 0, 0, 1 / 3., 1 / 3.}},
        {"all but one", 0.99, false, {.1f, .2f, .3f, .25f, .15f}, {0, 0, 1, 0, 0}},
        {"a row of zeros keeps its token", 0.5, false, {0}, {1, 0, 0, 0, 0}},
    };
    (void)state;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const struct attention_shape shape = attention_shape_full(1, 1, 2, 2);
        const struct rollout_rule rule = {.discard = rows[r].share, .keep_first = rows[r].keep};
        float fused[25] = {0};
        const struct rollout_step step = {.shape = shape, .fused = fused};
        struct rollout_work work;
        double row[5] = {1};
        memcpy(fused, rows[r].p, sizeof rows[r].p);
        demand(rollout_work_init(&work, &step, 1));
        rollout_walk(&step, 1, &rule, &work, row);
        for (int j = 0; j < 5; j++)
            if (fabs(row[j] - rows[r].want[j]) > 1e-6)
                fail_msg("%s: %d is %g, want %g", rows[r].why, j, row[j], rows[r].want[j]);
        rollout_work_release(&work);
    }
}

/* Chosen heads alone; where a walk starts; what is left of the patches. */
static void test_ends(void **state) {
    const struct attention_shape shape = attention_shape_full(3, 1, 2, 3);
    const float probs[3 * 49] = {[0] = 0.5f, [49] = 0.1f, [98] = 0.3f};
    const int heads[] = {2, 0};
    float fused[49], map[6];
    double row[7];
    (void)state;
    rollout_fuse(&shape, probs, FUSE_MEAN, heads, 2, fused);
    assert_true(fabs((double)fused[0] - 0.4) < 1e-7);
    rollout_fuse(&shape, probs, FUSE_MIN, NULL, 0, fused);
    assert_true(fused[0] == 0.1f && fused[1] == 0);
    rollout_fuse(&shape, probs, FUSE_MAX, heads + 1, 1, fused);
    assert_true(fused[0] == 0.5f);
    rollout_start_patch(&shape, 0.99, 0.34, row);
    for (int t = 0; t < 7; t++)
        assert_true(row[t] == (t == 1 + 3 + 1));
    assert_true(rollout_map(&shape, row, map) && map[4] == 1.0f);
    rollout_start_mean(&shape, row);
    assert_true(row[0] == 0 && fabs(row[6] - 1 / 6.) < 1e-15);
    memset(row, 0, sizeof row);
    row[0] = 1;
    assert_false(rollout_map(&shape, row, map));
}

/* A probability that is no number, of any head, is in the map: not another map in its place. */
static void test_not_finite(void **state) {
    static const enum head_fusion fusions[] = {FUSE_MEAN, FUSE_MAX, FUSE_MIN};
    const struct attention_shape shape = attention_shape_full(3, 1, 2, 3);
    const float bad[] = {NAN, INFINITY};
    (void)state;
    for (int variant = 0; variant < 3 * 3 * 2 * 2 * 2; variant++) {
        const enum head_fusion fusion = fusions[variant % 3];
        const int head = variant / 3 % 3;
        const struct rollout_rule rule = {
            .residual = 0.5, .discard = variant / 9 % 2 ? 0.5 : 0, .relevance = variant / 18 % 2};
        float probs[3 * 49], fused[49], map[6];
        struct rollout_step step = {.shape = shape, .fused = fused};
        struct rollout_work work;
        double row[7];
        bool finite = true;
        if (variant / 36 && fusion == FUSE_MIN) continue; // the smallest is a number
        for (int i = 0; i < 3 * 49; i++)
            probs[i] = 1 / 7.f;
        probs[head * 49 + 3 * 7 + 2] = bad[variant / 36];
        rollout_fuse(&shape, probs, fusion, NULL, 0, fused);
        demand(rollout_work_init(&work, &step, 1));
        rollout_start_mean(&shape, row);
        rollout_walk(&step, 1, &rule, &work, row);
        assert_true(rollout_map(&shape, row, map));
        for (int i = 0; i < 6; i++)
            finite = finite && isfinite(map[i]);
        assert_false(finite);
        rollout_work_release(&work);
    }
}

int main(void) {
    static const char *const names[] = {
        "swin_v1",         "swin_v1_padded", "swin_v1_rectangle", "swin_v1_narrow",
        "swin_v1_small",   "swin_v1_odd",    "swin_v1_windows",   "swin_v1_shrunk",
        "swin_v1_extreme", "swin_v2",        "swin_v2_padded",    "swin_v2_odd",
        "swin_v2_small",   "vit_token",      "vit_distilled",     "vit_gap_norm",
        "vit_reg4_gap",    "vit_rectangle",  "vit_beit",          "vit_map"};
    struct CMUnitTest tests[COUNT_OF(names) + 5];
    size_t count = 0;
    int failed;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        tests[count++] = row_test("dense", names[i], test_dense, names[i]);
    tests[count++] = row_test("property", "the head's rows alone", test_head_rows, NULL);
    tests[count++] = row_test("property", "A = I", test_identity, NULL);
    tests[count++] = row_test("rule", "discard", test_discard, NULL);
    tests[count++] = row_test("rule", "heads and ends", test_ends, NULL);
    tests[count++] = row_test("rule", "no number", test_not_finite, NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)tests[i].name);
    return failed;
}
