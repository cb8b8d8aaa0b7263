/*
 * gpu_check: a GPU against the CPU backend, and its speed; run by tools/gpu-check.sh on a machine
 * that has one. Not a unit test: `make test` does not need it.
 *
 *   gpu_check DEVICE ops               every op on shapes of models and odd ones, fp32, fp16, bf16
 *   gpu_check DEVICE models [NAME...]  the golden models of tests/ref, each precision
 *   gpu_check DEVICE bench FOLDER ARCH...   random weights (written to FOLDER once): logits of an
 *                                      image against the CPU, then images/s at batch 1 and 64
 *
 * Exit status 0: everything equal; 1: something differs; 2: the device cannot be used, and why.
 */
#include "kernels/ops.h" // before cmocka.h, which has a macro `fail`

#include "tools/model.h"
#include "weights/architectures.h"

#include <time.h>

#include "tests/cuda_session.h"
#include "tests/device_ops.h"

static const struct {
    const char *name;
    double model, op;
} precisions[] = {{"fp32", 1e-5, 1e-5}, {"fp16", 2e-2, 3e-3}, {"bf16", 5e-2, 2e-2}};

/* The CPU, for a check of this program itself, has fp32 alone. */
static size_t precision_count(const char *device) {
    return strcmp(device, "cpu") == 0 ? 1 : COUNT_OF(precisions);
}

static struct backend *open_device(const char *device, const char *precision) {
    const struct backend_options options = {.device = device, .precision = precision};
    struct backend *be;
    if (backend_open(&options, &be) != ST_OK) {
        printf("%s\n", fail_message());
        exit(2);
    }
    return be;
}

static bool check_ops(const char *device) {
    bool good = true;
    for (size_t p = 0; p < precision_count(device); p++) {
        struct backend *cpu = open_device("cpu", "fp32");
        struct backend *be = open_device(device, precisions[p].name);
        struct duo duo;
        duo_open(&duo, cpu, be, precisions[p].name, precisions[p].op);
        good &= duo_run(&duo, 1 << 20, 600);
        duo_close(&duo);
    }
    return good;
}

/* Three passes: as it is, captured, replayed. */
static bool check_model(const char *device, const char *name) {
    struct session cpu, s;
    struct outputs want, got;
    bool good = true;
    session_start(&cpu, name, open_device("cpu", "fp32"));
    want = outputs_of(&cpu);
    demand(session_forward(&cpu, cpu.pixels, IMAGES, &want));
    for (size_t p = 0; p < precision_count(device); p++) {
        session_start(&s, name, open_device(device, precisions[p].name));
        got = outputs_of(&s);
        for (int pass = 0; pass < 3; pass++)
            demand(session_forward(&s, s.pixels, IMAGES, &got));
        good &= outputs_match(&s, precisions[p].name, &want, &got, precisions[p].model);
        outputs_free(&got);
        session_close(&s);
    }
    outputs_free(&want);
    session_close(&cpu);
    return good;
}

/* The named ones, or all. */
static bool check_models(const char *device, char *const *names, int count) {
    bool good = true;
    for (int i = 0; i < count; i++)
        good &= check_model(device, names[i]);
    for (size_t i = 0; count == 0 && i < COUNT_OF(model_rows); i++)
        good &= check_model(device, model_rows[i].name);
    return good;
}

/* ---- random weights -------------------------------------------------------------------------- */

static uint64_t seed = 1;

/* A tensor of /parameters: uniform of that deviation around `mean`. */
static void put_tensor(struct h5 *file, const char *name, float mean, float deviation, int rank,
                       const size_t *dims) {
    size_t count = 1;
    char path[160];
    float *values;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    values = memory(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = mean + 1.7320508f * deviation * op_random(&seed);
    snprintf(path, sizeof path, "/parameters/%s", name);
    demand(h5_write(file, path, DT_F32, rank, dims, values));
    mem_free(values);
}

static void put_linear(struct h5 *file, const char *prefix, const char *name, int out, int in,
                       bool bias) {
    char path[128];
    snprintf(path, sizeof path, "%s%s.weight", prefix, name);
    put_tensor(file, path, 0, 1 / sqrtf((float)in), 2, (const size_t[]){(size_t)out, (size_t)in});
    snprintf(path, sizeof path, "%s%s.bias", prefix, name);
    if (bias) put_tensor(file, path, 0, 0.02f, 1, (const size_t[]){(size_t)out});
}

static void put_norm(struct h5 *file, const char *prefix, const char *name, int width) {
    char path[128];
    snprintf(path, sizeof path, "%s%s.weight", prefix, name);
    put_tensor(file, path, 1, 0.1f, 1, (const size_t[]){(size_t)width});
    snprintf(path, sizeof path, "%s%s.bias", prefix, name);
    put_tensor(file, path, 0, 0.02f, 1, (const size_t[]){(size_t)width});
}

static void put_block(struct h5 *file, const char *prefix, int C, int F) {
    put_norm(file, prefix, "norm1", C);
    put_norm(file, prefix, "norm2", C);
    put_linear(file, prefix, "attn.qkv", 3 * C, C, true);
    put_linear(file, prefix, "attn.proj", C, C, true);
    put_linear(file, prefix, "mlp.fc1", F, C, true);
    put_linear(file, prefix, "mlp.fc2", C, F, true);
}

static void put_patches(struct h5 *file, int C, int patch) {
    const size_t dims[] = {(size_t)C, 3, (size_t)patch, (size_t)patch};
    put_tensor(file, "patch_embed.proj.weight", 0, 1 / sqrtf(3.0f * (float)(patch * patch)), 4,
               dims);
    put_tensor(file, "patch_embed.proj.bias", 0, 0.02f, 1, dims);
}

static void put_vit(struct h5 *file, const struct architecture *arch) {
    const int side = arch->image / arch->patch, C = arch->dim;
    const struct vit_config config = {.image_h = arch->image,
                                      .image_w = arch->image,
                                      .patch_h = arch->patch,
                                      .patch_w = arch->patch,
                                      .dim = C,
                                      .depth = arch->depth,
                                      .heads = arch->heads,
                                      .hidden = arch->hidden,
                                      .classes = 1000,
                                      .class_token = true,
                                      .positions = true,
                                      .pos_grid_h = side,
                                      .pos_grid_w = side,
                                      .pos_prefix = 1,
                                      .patch_bias = true,
                                      .qkv_bias = true,
                                      .norm = true,
                                      .norm_eps = arch->norm_eps};
    const size_t positions[] = {1, (size_t)(side * side + 1), (size_t)C};
    demand(vit_config_write(file, &config));
    demand(h5_make_group(file, "/parameters"));
    put_patches(file, C, arch->patch);
    put_tensor(file, "cls_token", 0, 0.02f, 3, (const size_t[]){1, 1, (size_t)C});
    put_tensor(file, "pos_embed", 0, 0.02f, 3, positions);
    for (int l = 0; l < arch->depth; l++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%d.", l);
        put_block(file, prefix, C, arch->hidden);
    }
    put_norm(file, "", "norm", C);
    put_linear(file, "", "head", 1000, C, true);
}

static void put_swin(struct h5 *file, struct swin_config *config) {
    int C = config->dim;
    config->classes = 1000;
    demand(swin_config_write(file, config));
    demand(h5_make_group(file, "/parameters"));
    put_patches(file, C, config->patch_h);
    put_norm(file, "", "patch_embed.norm", C);
    for (int s = 0; s < config->stages; s++, C *= 2) {
        const size_t side = 2 * (size_t)config->window[s] - 1;
        char prefix[64], path[128];
        snprintf(prefix, sizeof prefix, "layers.%d.", s);
        if (s > 0) put_norm(file, prefix, "downsample.norm", 2 * C);
        if (s > 0) put_linear(file, prefix, "downsample.reduction", C, 2 * C, false);
        for (int b = 0; b < config->depths[s]; b++) {
            snprintf(prefix, sizeof prefix, "layers.%d.blocks.%d.", s, b);
            put_block(file, prefix, C, config->hidden[s]);
            snprintf(path, sizeof path, "%sattn.relative_position_bias_table", prefix);
            put_tensor(file, path, 0, 0.5f, 2,
                       (const size_t[]){side * side, (size_t)config->heads[s]});
        }
    }
    put_norm(file, "", "norm", C / 2);
    put_linear(file, "", "head.fc", 1000, C / 2, true);
}

/* A model file of random weights; one that is there is taken as it is. */
static void make_model(const char *path, const char *name) {
    const struct architecture *arch = architecture_find(name);
    struct preprocess_spec spec;
    struct model_info info = {.name = (char *)(uintptr_t)name,
                              .architecture = (char *)(uintptr_t)name,
                              .source = (char *)(uintptr_t) "random weights",
                              .source_sha256 = (char *)(uintptr_t) "",
                              .license = (char *)(uintptr_t) "none"};
    struct swin_config swin;
    struct h5 *file;
    const char *tag;
    bool is_swin;
    if (access(path, F_OK) == 0) return;
    if (!arch) fail_msg("%s: no such architecture", name);
    is_swin = architecture_swin(arch, &swin);
    info.family = (char *)(uintptr_t)(is_swin ? "swin" : "vit");
    demand(h5_create(path, &file));
    demand(model_info_write(file, &info));
    assert_true(architecture_preprocess(name, &spec, &tag));
    demand(preprocess_spec_write(file, &spec));
    if (is_swin)
        put_swin(file, &swin);
    else
        put_vit(file, arch);
    demand(h5_close(&file));
}

/* ---- speed ----------------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Passes of `batch` images, the next one's announced: medians, uploads and logits included. */
static void time_model(const char *name, const char *precision, struct model *model,
                       struct backend *be, int batch) {
    enum { WARM = 5, ROUNDS = 30 };
    const size_t bytes =
        (size_t)batch * (size_t)model->preprocess.height * (size_t)model->preprocess.width * 3;
    uint8_t *pixels[2] = {memory(bytes, 1), memory(bytes, 1)};
    float *logits = memory((size_t)batch * (size_t)model->classes, sizeof *logits);
    double seconds[ROUNDS], median;
    for (size_t i = 0; i < bytes; i++)
        pixels[0][i] = pixels[1][i] = (uint8_t)(i * 2654435761u >> 24);
    for (int r = -WARM; r < ROUNDS; r++) {
        double start = now();
        backend_stage(be, pixels[(r + WARM + 1) % 2], bytes);
        demand(model_forward(model, pixels[(r + WARM) % 2], batch, logits, NULL));
        if (r >= 0) seconds[r] = now() - start;
    }
    qsort(seconds, ROUNDS, sizeof *seconds, ascending);
    median = seconds[ROUNDS / 2];
    printf("%-32s %-5s batch %3d  %8.3f ms  %9.1f images/s  %7.1f TFLOP/s  (fastest %.3f ms)\n",
           name, precision, batch, 1e3 * median, batch / median,
           2e-12 * model->macs * batch / median, 1e3 * seconds[0]);
    fflush(stdout);
    mem_free(pixels[0]);
    mem_free(pixels[1]);
    mem_free(logits);
}

/* The logits of one image on a backend; *model stays open. */
static float *logits_of(const char *path, struct backend *be, int max_batch, struct model *model) {
    const struct model_options options = {
        .max_batch = max_batch, .crop_pct = -1, .image_h = 0, .image_w = 0};
    size_t bytes;
    uint8_t *pixels;
    float *logits;
    demand(model_open(path, &options, be, model));
    bytes = (size_t)model->preprocess.height * (size_t)model->preprocess.width * 3;
    pixels = memory(bytes, 1);
    logits = memory((size_t)model->classes, sizeof *logits);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(128 + 100 * sin((double)i / 700) + (double)(i * 2654435761u >> 28));
    demand(model_forward(model, pixels, 1, logits, NULL));
    mem_free(pixels);
    return logits;
}

static bool bench_model(const char *device, const char *folder, const char *name, int batch) {
    struct backend *cpu = open_device("cpu", "fp32");
    struct model model;
    char path[512];
    float *want;
    bool good = true;
    snprintf(path, sizeof path, "%s/%s.h5", folder, name);
    make_model(path, name);
    want = logits_of(path, cpu, 1, &model);
    model_release(&model);
    backend_close(cpu);
    for (size_t p = 0; p < precision_count(device); p++) {
        struct backend *be = open_device(device, precisions[p].name);
        float *got = logits_of(path, be, batch, &model);
        good &= matches(name, precisions[p].name, want, got, (size_t)model.classes,
                        p == 0 ? 1e-4 : precisions[p].model);
        time_model(name, precisions[p].name, &model, be, 1);
        if (batch > 1) time_model(name, precisions[p].name, &model, be, batch);
        mem_free(got);
        model_release(&model);
        backend_close(be);
    }
    mem_free(want);
    return good;
}

int main(int argc, char **argv) {
    const char *batch = getenv("GPU_CHECK_BATCH");
    long images = 64;
    bool good = true;
    struct backend *be;
    if (argc < 3) {
        fprintf(stderr, "usage: gpu_check DEVICE ops | models | bench FOLDER ARCH...\n");
        return 2;
    }
    if (batch && !parse_long(batch, 1, 4096, &images)) return 2;
    be = open_device(argv[1], NULL);
    printf("%s\n", backend_describe(be));
    backend_close(be);
    if (strcmp(argv[2], "ops") == 0) good = check_ops(argv[1]);
    if (strcmp(argv[2], "models") == 0) good = check_models(argv[1], argv + 3, argc - 3);
    if (strcmp(argv[2], "bench") == 0)
        for (int i = 4; i < argc; i++)
            good &= bench_model(argv[1], argv[3], argv[i], (int)images);
    printf("%s: %s\n", argv[2], good ? "equal" : "DIFFERENT");
    return good ? 0 : 1;
}
