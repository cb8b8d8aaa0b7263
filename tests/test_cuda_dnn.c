/*
 * test_cuda_dnn: which of cuDNN's engines take the graphs of cuda_dnn.h, without a GPU.
 *
 * cuDNN's heuristics work on a description of a device (cudaDeviceProp as JSON), so that every
 * architecture can be asked from any machine. The numbers of plans found with FOUND_WITH are the
 * least that it must have; of another version at least one is wanted where there was one. Skips
 * where cuDNN's headers, its library or a libcuda.so.1 (the driver's, or the toolkit's stub) are
 * not there.
 */
#include "kernels/cuda_dnn.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if HAVE_CUDNN

enum { FOUND_WITH = 91900 };

/*
 * For a sanitized build: what cuDNN's helpers lose where there is no device. The compiler's
 * library, which cuDNN opens and closes for every graph, is held so that its losses have its name.
 */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libcublasLt\nleak:libnvrtc\n";
}

/* ---- devices --------------------------------------------------------------------------------- */

struct device {
    const char *name;
    int arch; /* 10 * major + minor */
    int multiprocessors, shared_kib, blocks, threads, clock_mhz, memory_mhz, l2_mib, memory_gib;
    int plans_64, plans_other;  /* found for attention of width 64, and for other widths */
    int convs_fp16, convs_bf16; /* the fewest found for a convolution */
};

/* shared_kib: the most of a block; blocks, threads: of a multiprocessor (CUDA's guide, table of
   compute capabilities); the rest from the data sheets. */
static const struct device devices[] = {
    {"Tesla T4", 75, 40, 64, 16, 1024, 1590, 5001, 4, 16, 0, 0, 6, 0},
    {"NVIDIA A100-SXM4-80GB", 80, 108, 163, 32, 2048, 1410, 1593, 40, 80, 3, 1, 8, 7},
    {"NVIDIA GeForce RTX 4090", 89, 128, 99, 24, 1536, 2520, 10501, 72, 24, 3, 1, 8, 2},
    {"NVIDIA H200", 90, 132, 227, 32, 2048, 1980, 3201, 60, 140, 4, 2, 4, 4},
    {"NVIDIA B200", 100, 148, 227, 32, 2048, 1965, 3996, 126, 180, 4, 2, 8, 4},
};
enum { DEVICES = COUNT_OF(devices) };

static void describe(const struct device *d, char *json, size_t size) {
    snprintf(json, size,
             "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
             "\"regsPerBlock\": 65536, \"multiProcessorCount\": %d, \"warpSize\": 32, "
             "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": %d, "
             "\"reservedSharedMemoryPerBlock\": %d, \"maxRegistersPerSM\": 65536, "
             "\"maxCtasPerSM\": %d, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": %d, "
             "\"pciDeviceId\": 0, \"isTccDriver\": 0, \"supportCoopLaunch\": 1, "
             "\"smClockRateKHz\": %d, \"memClockRateKHz\": %d, \"l2CacheSize\": %d, "
             "\"deviceName\": \"%s\", \"deviceVer\": %d, \"driverVer\": 13000, "
             "\"totalGlobalMem\": %lld, \"cudaDeviceId\": 0}",
             d->multiprocessors, d->shared_kib * 1024, d->arch < 80 ? 0 : 1024, d->blocks,
             d->threads, d->clock_mhz * 1000, d->memory_mhz * 1000, d->l2_mib << 20, d->name,
             d->arch * 10, (long long)d->memory_gib << 30);
}

/* Why cuDNN cannot be asked here; NULL: it can. */
static const char *unavailable(void) {
    static bool looked;
    static char reason[1200];
    char json[2048];
    struct dnn *dnn;
    if (looked) return *reason ? reason : NULL;
    looked = true;
    describe(&devices[1], json, sizeof json);
    if (dlopen("libnvrtc.so.13", RTLD_NOW) == NULL) (void)dlopen("libnvrtc.so.12", RTLD_NOW);
    /* cuDNN opens libcuda.so.1 by name; the stub in the toolkit's folder has that name inside. */
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == NULL &&
        dlopen(CUDA_STUBS "/libcuda.so", RTLD_NOW | RTLD_GLOBAL) == NULL) {
        snprintf(reason, sizeof reason, "no libcuda.so.1 and no stub of it");
    } else if (dnn_open_described(json, &dnn) != ST_OK) {
        snprintf(reason, sizeof reason, "%s", fail_message());
    } else {
        dnn_close(&dnn);
    }
    return *reason ? reason : NULL;
}

static void need_cudnn(void) {
    if (unavailable() == NULL) return;
    print_message("skip: %s\n", unavailable());
    skip();
}

static struct dnn *opened(const struct device *device) {
    char json[2048];
    struct dnn *dnn;
    describe(device, json, sizeof json);
    if (dnn_open_described(json, &dnn) != ST_OK) fail_msg("%s: %s", device->name, fail_message());
    return dnn;
}

/* At least what was found; another version may order and group its engines otherwise. */
static void check_count(const struct dnn *dnn, int count, int found) {
    const int least = dnn_version(dnn) == FOUND_WITH || found == 0 ? found : 1;
    if (count < least) fail_msg("%d plans, want %d or more", count, least);
}

/* Plans of a graph just opened, which is closed; 0: there is none for it. */
static int count_of(enum status st, struct dnn_graph *graph, int engines[DNN_MOST_PLANS]) {
    int count = 0;
    if (st == ST_OK) {
        count = dnn_plans(graph);
        for (int i = 0; i < count; i++)
            engines[i] = dnn_engine(graph, i);
        assert_in_range(count, 1, DNN_MOST_PLANS);
        assert_int_equal(dnn_workspace(graph, 0), 0);
    } else {
        assert_int_equal(st, ST_DEVICE);
        assert_non_null(strstr(fail_message(), "cudnn: "));
        assert_null(graph);
    }
    dnn_graph_close(&graph);
    return count;
}

static void print_count(int count, const int engines[DNN_MOST_PLANS]) {
    print_message(" %d (", count);
    for (int i = 0; i < count; i++)
        print_message("%s%d", i ? " " : "", engines[i]);
    print_message(")");
}

/* ---- attention ------------------------------------------------------------------------------- */

/* q, k and v side by side as the projection writes them. */
static struct dnn_attention attention(enum cuda_type type, int batch, int heads, int tokens,
                                      int width, bool bias) {
    const size_t channels = (size_t)heads * (size_t)width, rows = (size_t)tokens;
    const struct cuda_view packed = {.batch = batch,
                                     .tokens = tokens,
                                     .channels = (int)channels,
                                     .pitch = 3 * channels,
                                     .stride = 3 * channels * rows};
    struct dnn_attention a = {.type = type, .heads = heads, .head_dim = width, .bias = bias};
    a.scale = 0.125f;
    a.q = a.k = a.v = a.y = packed;
    a.y.pitch = channels;
    a.y.stride = channels * rows;
    return a;
}

struct attention_row {
    int tokens, width;
    int batch, heads;
};

static const struct attention_row attention_rows[] = {
    {197, 64, 64, 12}, {577, 64, 64, 12}, {1370, 64, 8, 16}, {3137, 64, 8, 12},
    {197, 32, 64, 12}, {577, 32, 8, 12},  {1370, 32, 8, 12}, {3137, 32, 8, 12},
    {197, 80, 8, 16},  {577, 80, 8, 16},  {1370, 80, 8, 16}, {3137, 80, 1, 16},
};

static void test_attention(void **state) {
    (void)state;
    need_cudnn();
    for (int d = 0; d < DEVICES; d++) {
        struct dnn *dnn = opened(&devices[d]);
        for (size_t i = 0; i < COUNT_OF(attention_rows); i++) {
            const struct attention_row *row = &attention_rows[i];
            print_message("sm_%-3d N %-4d D %d:", devices[d].arch, row->tokens, row->width);
            for (int variant = 0; variant < 4; variant++) {
                const bool bias = variant % 2 != 0;
                const enum cuda_type type = variant < 2 ? CUDA_FP16 : CUDA_BF16;
                const struct dnn_attention a =
                    attention(type, row->batch, row->heads, row->tokens, row->width, bias);
                struct dnn_graph *graph;
                int engines[DNN_MOST_PLANS];
                const enum status st = dnn_attention_open(dnn, &a, &graph);
                const int count = count_of(st, graph, engines);
                print_message("  %s%s", type == CUDA_FP16 ? "fp16" : "bf16", bias ? "+bias" : "");
                print_count(count, engines);
                check_count(dnn, count,
                            row->width == 64 ? devices[d].plans_64 : devices[d].plans_other);
            }
            print_message("\n");
        }
        dnn_close(&dnn);
    }
}

/* ---- convolutions ---------------------------------------------------------------------------- */

struct conv_row {
    const char *name;
    int size, channels, out_channels, kernel, stride, before, after;
    bool bias, relu;
};

static const struct conv_row conv_rows[] = {
    {"patch 4", 224, 3, 96, 4, 4, 0, 0, true, false},
    {"patch 14", 224, 3, 1024, 14, 14, 0, 0, true, false},
    {"patch 16", 224, 3, 768, 16, 16, 0, 0, true, false},
    {"patch 32", 224, 3, 768, 32, 32, 0, 0, true, false},
    {"patch 4, 8 channels", 224, 8, 96, 4, 4, 0, 0, true, false},
    {"patch 14, 8 channels", 224, 8, 1024, 14, 14, 0, 0, true, false},
    {"patch 16, 8 channels", 224, 8, 768, 16, 16, 0, 0, true, false},
    {"patch 32, 8 channels", 224, 8, 768, 32, 32, 0, 0, true, false},
    {"patch 4, 4 channels", 224, 4, 96, 4, 4, 0, 0, true, false},
    {"patch 14, 4 channels", 224, 4, 1024, 14, 14, 0, 0, true, false},
    {"patch 16, 4 channels", 224, 4, 768, 16, 16, 0, 0, true, false},
    {"patch 32, 4 channels", 224, 4, 768, 32, 32, 0, 0, true, false},
    {"stem 7x7/2, SAME", 224, 3, 64, 7, 2, 2, 3, false, false},
    {"stem 7x7/2", 224, 8, 64, 7, 2, 3, 3, true, true},
    {"3x3", 56, 64, 64, 3, 1, 1, 1, true, true},
    {"3x3/2", 56, 128, 128, 3, 2, 1, 1, true, true},
    {"3x3, no bias", 56, 64, 64, 3, 1, 1, 1, false, true},
    {"3x3, bare", 56, 64, 64, 3, 1, 1, 1, false, false},
    {"1x1", 56, 64, 256, 1, 1, 0, 0, true, false},
};

static struct cuda_view map(int batch, int side, int channels) {
    const size_t tokens = (size_t)side * (size_t)side;
    return (struct cuda_view){.batch = batch,
                              .tokens = (int)tokens,
                              .channels = channels,
                              .pitch = (size_t)channels,
                              .stride = tokens * (size_t)channels};
}

static struct dnn_conv conv(enum cuda_type type, const struct conv_row *row) {
    const int out = (row->size + row->before + row->after - row->kernel) / row->stride + 1;
    return (struct dnn_conv){.type = type,
                             .x = map(64, row->size, row->channels),
                             .y = map(64, out, row->out_channels),
                             .in_h = row->size,
                             .in_w = row->size,
                             .kernel_h = row->kernel,
                             .kernel_w = row->kernel,
                             .stride_h = row->stride,
                             .stride_w = row->stride,
                             .pad_top = row->before,
                             .pad_bottom = row->after,
                             .pad_left = row->before,
                             .pad_right = row->after,
                             .bias = row->bias,
                             .relu = row->relu};
}

static void test_conv(void **state) {
    (void)state;
    need_cudnn();
    for (int d = 0; d < DEVICES; d++) {
        struct dnn *dnn = opened(&devices[d]);
        for (size_t i = 0; i < COUNT_OF(conv_rows); i++) {
            print_message("sm_%-3d %-20s:", devices[d].arch, conv_rows[i].name);
            for (int type = CUDA_FP16; type <= CUDA_BF16; type++) {
                const struct dnn_conv c = conv((enum cuda_type)type, &conv_rows[i]);
                struct dnn_graph *graph;
                int engines[DNN_MOST_PLANS];
                const enum status st = dnn_conv_open(dnn, &c, &graph);
                const int count = count_of(st, graph, engines);
                print_message("  %s", type == CUDA_FP16 ? "fp16" : "bf16");
                print_count(count, engines);
                check_count(dnn, count,
                            type == CUDA_FP16 ? devices[d].convs_fp16 : devices[d].convs_bf16);
            }
            print_message("\n");
        }
        dnn_close(&dnn);
    }
}

/* The patch projection's description, of a picture that is not square. */
static void test_patches(void **state) {
    (void)state;
    const struct patch_spec patch = {.image_h = 32, .image_w = 48, .patch_h = 8, .patch_w = 16};
    const struct cuda_view x = {.batch = 2, .tokens = 32 * 48, .channels = 3, .pitch = 3};
    const struct cuda_view y = {.batch = 2, .tokens = 4 * 3, .channels = 40, .pitch = 48};
    struct dnn_conv c;
    dnn_conv_of_patches(CUDA_BF16, &patch, &x, &y, &c);
    const struct dnn_conv want = {.type = CUDA_BF16,
                                  .x = x,
                                  .y = y,
                                  .in_h = 32,
                                  .in_w = 48,
                                  .kernel_h = 8,
                                  .kernel_w = 16,
                                  .stride_h = 8,
                                  .stride_w = 16,
                                  .bias = true};
    assert_int_equal(c.type, want.type);
    assert_memory_equal(&c.x, &x, sizeof x);
    assert_memory_equal(&c.y, &y, sizeof y);
    assert_memory_equal(&c.in_h, &want.in_h,
                        offsetof(struct dnn_conv, bias) - offsetof(struct dnn_conv, in_h));
    assert_true(c.bias);
    assert_false(c.relu);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* A field of a good description that is made bad; `wide`: a size_t, else an int. */
struct bad_row {
    size_t field;
    bool wide;
    size_t value;
    const char *says;
};
#define BAD_INT(type, field, value, says)                                                          \
    { offsetof(struct type, field), false, (value), says }
#define BAD_SIZE(type, field, value, says)                                                         \
    { offsetof(struct type, field), true, (value), says }

static void spoil(void *desc, const struct bad_row *row) {
    const int narrow = (int)row->value;
    if (row->wide) memcpy((char *)desc + row->field, &row->value, sizeof row->value);
    if (!row->wide) memcpy((char *)desc + row->field, &narrow, sizeof narrow);
}

/* Refused in front of cuDNN, which therefore needs not be there. */
static void check_refused(enum status st, const struct dnn_graph *graph, const char *says) {
    if (st != ST_SHAPE || strstr(fail_message(), says) == NULL)
        fail_msg("%s, \"%s\", want shape, \"%s\"", status_name(st), fail_message(), says);
    assert_null(graph);
}

/* Of (2, 10, 3 heads of 16), packed: pitch 144, stride 1440. */
static const struct bad_row bad_attentions[] = {
    BAD_INT(dnn_attention, type, CUDA_FP32, "activations are fp32, want fp16 or bf16"),
    BAD_INT(dnn_attention, heads, 0, "0 heads of width 16"),
    BAD_INT(dnn_attention, heads, INT32_MAX, "are too many"),
    BAD_INT(dnn_attention, heads, 4, "q is (2, 10, 48), want (2, 10, 64)"),
    BAD_INT(dnn_attention, head_dim, 0, "width 0, want a width of 8"),
    BAD_INT(dnn_attention, head_dim, 20, "width 20, want"),
    BAD_INT(dnn_attention, head_dim, 264, "width 264, want"),
    BAD_INT(dnn_attention, head_dim, (size_t)-8, "width -8, want"),
    BAD_INT(dnn_attention, q.tokens, 0, "q is (2, 0, 48), want sizes of at least 1"),
    BAD_INT(dnn_attention, q.batch, 0, "q is (0, 10, 48), want sizes of at least 1"),
    BAD_INT(dnn_attention, q.batch, (size_t)-1, "q is (-1, 10, 48), want sizes"),
    BAD_INT(dnn_attention, q.batch, 3, "k is (2, 10, 48), want (3, 10, 48)"),
    BAD_INT(dnn_attention, v.tokens, 9, "v is (2, 9, 48), want (2, 10, 48)"),
    BAD_INT(dnn_attention, y.channels, 40, "y is (2, 10, 40), want (2, 10, 48)"),
    BAD_SIZE(dnn_attention, k.pitch, 40, "k has 48 channels at a pitch of 40"),
    BAD_SIZE(dnn_attention, k.pitch, 148, "k has pitch 148 and stride 1440, want multiples of 8"),
    BAD_SIZE(dnn_attention, v.stride, 1444, "v has pitch 144 and stride 1444, want multiples"),
    BAD_SIZE(dnn_attention, y.stride, 400, "the images of y lie 400 apart and overlap"),
    BAD_SIZE(dnn_attention, q.pitch, SIZE_MAX / 2 + 1, "the size of q does not fit"),
    BAD_SIZE(dnn_attention, q.stride, SIZE_MAX - 7, "the size of q does not fit"),
};

static void test_bad_attention(void **state) {
    (void)state;
    struct dnn_graph *graph;
    for (size_t i = 0; i < COUNT_OF(bad_attentions); i++) {
        struct dnn_attention a = attention(CUDA_FP16, 2, 3, 10, 16, false);
        spoil(&a, &bad_attentions[i]);
        const enum status st = dnn_attention_open(NULL, &a, &graph);
        check_refused(st, graph, bad_attentions[i].says);
    }
    struct dnn_attention a = attention(CUDA_FP16, 1, 3, INT32_MAX, 16, false);
    enum status st = dnn_attention_open(NULL, &a, &graph);
    check_refused(st, graph, "the number of scores");
    a = attention(CUDA_FP16, 2, 3, 10, 16, false);
    a.scale = strtof("nan", NULL);
    st = dnn_attention_open(NULL, &a, &graph);
    check_refused(st, graph, "the scale is nan");
}

/* Of the row "3x3": 56 x 56, 64 channels in and out, padding 1. */
static const struct bad_row bad_convs[] = {
    BAD_INT(dnn_conv, type, CUDA_FP32, "activations are fp32"),
    BAD_INT(dnn_conv, kernel_h, 0, "height 56, padding 1 and 1, kernel 0, stride 1"),
    BAD_INT(dnn_conv, kernel_w, 59, "width 56, padding 1 and 1, kernel 59"),
    BAD_INT(dnn_conv, stride_h, 0, "kernel 3, stride 0"),
    BAD_INT(dnn_conv, stride_w, (size_t)-1, "kernel 3, stride -1"),
    BAD_INT(dnn_conv, pad_top, (size_t)-1, "padding -1 and 1"),
    BAD_INT(dnn_conv, pad_right, 3, "padding 1 and 3, kernel 3"),
    BAD_INT(dnn_conv, in_h, 0, "height 0"),
    BAD_INT(dnn_conv, in_h, INT32_MAX, "height 2147483647"),
    BAD_INT(dnn_conv, in_w, INT32_MAX - 2, "are too large"),
    BAD_INT(dnn_conv, in_w, 55, "x is (64, 3136, 64), want (64, 3080, 64)"),
    BAD_INT(dnn_conv, x.batch, 0, "x is (0, 3136, 64), want sizes"),
    BAD_INT(dnn_conv, y.batch, 63, "y is (63, 3136, 64), want (64, 3136, 64)"),
    BAD_INT(dnn_conv, stride_h, 2, "y is (64, 3136, 64), want (64, 1568, 64)"),
    BAD_INT(dnn_conv, y.channels, 0, "y is (64, 3136, 0), want sizes"),
    BAD_SIZE(dnn_conv, x.pitch, 63, "x has 64 channels at a pitch of 63"),
    BAD_SIZE(dnn_conv, y.stride, 64, "the images of y lie 64 apart"),
    BAD_SIZE(dnn_conv, x.pitch, SIZE_MAX / 64, "the size of x does not fit"),
};

static void test_bad_conv(void **state) {
    (void)state;
    static const struct conv_row good = {"3x3", 56, 64, 64, 3, 1, 1, 1, true, true};
    for (size_t i = 0; i < COUNT_OF(bad_convs); i++) {
        struct dnn_conv c = conv(CUDA_FP16, &good);
        struct dnn_graph *graph;
        spoil(&c, &bad_convs[i]);
        const enum status st = dnn_conv_open(NULL, &c, &graph);
        check_refused(st, graph, bad_convs[i].says);
    }
}

/* A failed opening leaves NULL, which may be closed, and again; so may what was closed. */
static void test_closing(void **state) {
    (void)state;
    need_cudnn();
    static const char *const bad[] = {"", "nonsense", "{}", "{\"maxGridSize\": 1}"};
    struct dnn *dnn = NULL;
    struct dnn_graph *graph = NULL;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(dnn_open_described(bad[i], &dnn), ST_DEVICE);
        assert_non_null(strstr(fail_message(), "cudnn: the device's description: CUDNN_STATUS_"));
        assert_null(dnn);
        dnn_close(&dnn);
        dnn_close(&dnn);
    }
    const struct dnn_attention good = attention(CUDA_FP16, 2, 3, 10, 16, false);
    dnn = opened(&devices[0]); /* which has no plan for attention */
    if (dnn_attention_open(dnn, &good, &graph) != ST_OK) assert_null(graph);
    dnn_graph_close(&graph);
    dnn_graph_close(&graph);
    dnn_close(&dnn);
    assert_null(dnn);
    dnn_close(&dnn);
    /* the device of this machine, if there is one */
    const enum status st = dnn_open(&dnn);
    if (st != ST_OK) {
        assert_int_equal(st, ST_DEVICE);
        assert_non_null(strstr(fail_message(), "cudnn: the handle: "));
        assert_null(dnn);
    }
    dnn_close(&dnn);
    dnn_close(&dnn);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Kernels are compiled; without a driver cuDNN stops where it would load them. */
static void check_built(const struct dnn *dnn, struct dnn_graph *graph, const char *device) {
    const enum status st = dnn_build(graph, 0);
    print_message("%s: engine %d: %s\n", device, dnn_engine(graph, 0),
                  st == ST_OK ? "built" : fail_message());
    if (st == ST_OK) return;
    assert_int_equal(st, ST_DEVICE);
    assert_non_null(strstr(fail_message(), "cudnn: a plan: CUDNN_STATUS_"));
    assert_int_equal(dnn_workspace(graph, 0), 0);
    if (dnn_version(dnn) == FOUND_WITH)
        assert_non_null(strstr(fail_message(), "cuLibraryLoadData"));
}

static void test_building(void **state) {
    (void)state;
    need_cudnn();
    for (int d = 1; d < DEVICES; d++) {
        struct dnn *dnn = opened(&devices[d]);
        struct dnn_graph *graph;
        const struct dnn_attention a = attention(CUDA_FP16, 8, 12, 577, 64, true);
        const struct dnn_conv c = conv(CUDA_FP16, &conv_rows[2]);
        if (dnn_attention_open(dnn, &a, &graph) != ST_OK) fail_msg("%s", fail_message());
        check_built(dnn, graph, devices[d].name);
        dnn_graph_close(&graph);
        if (dnn_conv_open(dnn, &c, &graph) != ST_OK) fail_msg("%s", fail_message());
        check_built(dnn, graph, devices[d].name);
        dnn_graph_close(&graph);
        dnn_close(&dnn);
    }
}

static void check_run(struct dnn_graph *graph, int plan, const struct dnn_data *data,
                      const char *says) {
    const enum status st = dnn_run(graph, plan, data, NULL);
    if (st != ST_USAGE || strstr(fail_message(), says) == NULL)
        fail_msg("%s, \"%s\", want usage, \"%s\"", status_name(st), fail_message(), says);
}

/* Everything of a run but the launch: numbers and pointers checked, and described to cuDNN. */
static void test_running(void **state) {
    (void)state;
    need_cudnn();
    static _Alignas(16) char memory[64];
    struct dnn *dnn = opened(&devices[3]);
    struct dnn_graph *graph;
    const struct dnn_conv c = conv(CUDA_FP16, &conv_rows[2]);
    struct dnn_data data = {.filter = memory, .bias = memory + 16, .y = memory + 32};
    data.workspace = memory;
    if (dnn_conv_open(dnn, &c, &graph) != ST_OK) fail_msg("%s", fail_message());
    const int wrong[] = {-1, dnn_plans(graph), INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(dnn_build(graph, wrong[i]), ST_USAGE);
        assert_int_equal(dnn_run(graph, wrong[i], &data, NULL), ST_USAGE);
        assert_int_equal(dnn_engine(graph, wrong[i]), -1);
        assert_int_equal(dnn_workspace(graph, wrong[i]), 0);
    }
    check_run(graph, 0, &data, "cudnn: plan 0 is not built");
    int built = 0;
    for (int i = 0; i < dnn_plans(graph); i++) {
        if (dnn_build(graph, i) != ST_OK) continue;
        built++;
        data.x = NULL;
        check_run(graph, i, &data, "cudnn: x is at");
        data.x = memory + 8;
        check_run(graph, i, &data, "want an address of whole 16 bytes");
        data.x = memory + 48;
        check_run(graph, i, &data, "cudnn: a described device runs nothing");
        check_run(graph, i, &data, "cudnn: a described device runs nothing");
        if (dnn_workspace(graph, i) == 0) continue;
        data.workspace = NULL;
        check_run(graph, i, &data, "wants a workspace of");
        data.workspace = memory;
    }
    if (dnn_version(dnn) == FOUND_WITH) assert_true(built > 0);
    dnn_keep(graph, -1); /* none of them */
    for (int i = 0; i < dnn_plans(graph); i++) {
        assert_int_equal(dnn_workspace(graph, i), 0);
        check_run(graph, i, &data, "is not built");
    }
    dnn_graph_close(&graph);
    dnn_close(&dnn);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention), cmocka_unit_test(test_conv),
        cmocka_unit_test(test_patches),   cmocka_unit_test(test_bad_attention),
        cmocka_unit_test(test_bad_conv),  cmocka_unit_test(test_closing),
        cmocka_unit_test(test_building),  cmocka_unit_test(test_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void test_skipped(void **state) {
    (void)state;
    print_message("skip: built without cuDNN's headers (cudnn_graph.h beside nvcc)\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_skipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
