/*
 * gpu_check: a GPU against the CPU backend, and its speed; run by tools/gpu-check.sh on a machine
 * that has one. Not a unit test: `make test` does not need it.
 *
 *   gpu_check DEVICE ops               every op on shapes of models and odd ones, fp32, fp16, bf16
 *   gpu_check DEVICE models [NAME...]  the golden models of tests/ref, each precision
 *   gpu_check DEVICE int8 FOLDER       linears and golden models in int8 (written to FOLDER); the
 *                                      time of ViT-B's linears in fp16 and int8
 *   gpu_check DEVICE bench FOLDER ARCH...   random weights (written to FOLDER once): logits of an
 *                                      image against the CPU, then images/s at batch 1 and 64
 *   gpu_check DEVICE cudnn FOLDER      long attention and the patch embedding by the way that was
 *                                      the fastest, against the own kernels; what each way took,
 *                                      from the tuning file that this leaves in FOLDER
 *
 * Exit status 0: everything equal; 1: something differs; 2: the device cannot be used, and why.
 */
#include "kernels/ops.h" // before cmocka.h, which has a macro `fail`

#include "tools/model.h"

#include <dirent.h>
#include <time.h>

#include "tests/cuda_session.h"
#include "tests/device_ops.h"
#include "tests/int8_sample.h"
#include "tests/random_model.h"

static const struct {
    const char *name;
    double model, op;
} precisions[] = {{"fp32", 1e-5, 1e-5}, {"fp16", 2e-2, 3e-3}, {"bf16", 5e-2, 2e-2}};

/* The CPU, for a check of this program itself, has fp32 alone. */
static size_t precision_count(const char *device) {
    return strcmp(device, "cpu") == 0 ? 1 : COUNT_OF(precisions);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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

static struct devices open_devices(const char *device, const char *precision) {
    struct backend_options options = {.device = device, .precision = precision, .threads = 0};
    struct devices devices;
    demand(devices_open(&options, &devices));
    return devices;
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

/* ---- int8 ------------------------------------------------------------------------------------ */

/* A golden model made int8, against the CPU in fp32 on the same file. */
static bool check_int8_model(const char *device, const char *folder, const char *name) {
    struct session cpu, s;
    struct outputs want, got;
    char path[512];
    bool good;
    snprintf(path, sizeof path, "%s/%s_int8.h5", folder, name);
    int8_golden(name, path);
    session_start_file(&cpu, name, path, open_device("cpu", "fp32"));
    want = outputs_of(&cpu);
    demand(session_forward(&cpu, cpu.pixels, IMAGES, &want));
    session_start_file(&s, name, path, open_device(device, "int8"));
    got = outputs_of(&s);
    for (int pass = 0; pass < 3; pass++)
        demand(session_forward(&s, s.pixels, IMAGES, &got));
    good = outputs_match(&s, "int8", &want, &got, 7e-2); /* tests/test_int8_cuda.c */
    outputs_free(&got);
    outputs_free(&want);
    session_close(&s);
    session_close(&cpu);
    return good;
}

/* A linear as a block has it: x W^T + b, GELU or a residual, on `images` of 197 tokens. */
struct timed_linear {
    const char *name;
    int in, out;
    enum epilogue epilogue;
    bool residual;
};

/* Seconds of one of many in a row, the least of some rounds. */
static double time_linear(struct backend *be, const struct timed_linear *t,
                          const struct linear_spec *spec, int images) {
    enum { TOKENS = 197, ROUNDS = 12, EACH = 20 };
    struct arena arena = {0};
    struct linear *linear;
    struct act x, y;
    double least = 1e9;
    float *values;
    demand(linear_load(be, spec, &linear));
    for (int bind = 0; bind < 2; bind++) {
        x = act_take(be, &arena, images, TOKENS, t->in);
        y = act_take(be, &arena, images, TOKENS, t->out);
        if (!bind) demand(backend_reserve(be, &arena, "activations"));
    }
    values = memory((size_t)images * x.stride, sizeof *values);
    op_fill(values, (size_t)images * x.stride, 1);
    backend_write(be, values, x);
    mem_free(values);
    for (int r = 0; r < ROUNDS; r++) {
        double start = now();
        for (int i = 0; i < EACH; i++) /* y grows with a residual: fp16 has room for it */
            op_linear(be, linear, t->epilogue, x, t->residual ? &y : NULL, y);
        demand(backend_sync(be));
        least = fmin(least, (now() - start) / EACH);
    }
    backend_release_arena(be, &arena);
    return least;
}

static void time_int8(const char *device, int images) {
    static const struct timed_linear rows[] = {
        {"qkv", 768, 2304, EPILOGUE_NONE, false},
        {"proj", 768, 768, EPILOGUE_NONE, true},
        {"fc1", 768, 3072, EPILOGUE_GELU, false},
        {"fc2", 3072, 768, EPILOGUE_NONE, true},
    };
    static const char *const names[] = {"fp16", "int8"};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct timed_linear *t = &rows[i];
        const size_t in = (size_t)t->in, out = (size_t)t->out, count = in * out;
        float *values = memory(count + 2 * out, sizeof *values);
        int8_t *q = memory(count, 1);
        const struct linear_spec spec = {.name = t->name,
                                         .in = t->in,
                                         .out = t->out,
                                         .weight = values,
                                         .bias = values + count,
                                         .scales = values + count + out};
        double seconds[2];
        op_fill(values, count + out, i);
        for (size_t k = 0; k < count; k++)
            values[k] /= sqrtf((float)t->in);
        int8_weights(values, out, in, q, values + count + out);
        for (int p = 0; p < 2; p++) {
            struct backend *be = open_device(device, names[p]);
            seconds[p] = time_linear(be, t, &spec, images);
            backend_close(be);
        }
        printf("ViT-B %-4s (%d, %4d) -> %4d  fp16 %7.1f us  int8 %7.1f us  %.2f times as fast\n",
               t->name, 197 * images, t->in, t->out, 1e6 * seconds[0], 1e6 * seconds[1],
               seconds[0] / seconds[1]);
        mem_free(q);
        mem_free(values);
    }
}

static bool check_int8(const char *device, const char *folder) {
    static const char *const names[] = {"vit_token", "vit_reg4_gap", "vit_tanh", "swin_v1",
                                        "swin_v2"};
    struct duo duo;
    bool good;
    if (strcmp(device, "cpu") == 0) {
        printf("the cpu backend has no int8\n");
        return true;
    }
    duo_open(&duo, open_device("cpu", "fp32"), open_device(device, "int8"), "int8", 3e-3);
    good = int8_linears(&duo, 1 << 20);
    duo_close(&duo);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        good &= check_int8_model(device, folder, names[i]);
    time_int8(device, 64);
    time_int8(device, 1);
    return good;
}

/* ---- speed ----------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Passes of `batch` images, the next one's announced: medians, uploads and logits included. */
static void time_model(const char *name, const char *precision, struct model *model, int batch) {
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
        model_stage(model, pixels[(r + WARM + 1) % 2], batch);
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

/* The logits of one image on the devices; *model stays open. */
static float *logits_of(const char *path, const struct devices *devices, int max_batch,
                        struct model *model) {
    const struct model_options options = {
        .max_batch = max_batch, .crop_pct = -1, .image_h = 0, .image_w = 0};
    size_t bytes;
    uint8_t *pixels;
    float *logits;
    demand(model_open(path, &options, devices, model));
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
    struct devices devices = open_devices("cpu", "fp32");
    struct model model;
    char path[512];
    float *want;
    bool good = true;
    snprintf(path, sizeof path, "%s/%s.h5", folder, name);
    random_model(path, name);
    want = logits_of(path, &devices, 1, &model);
    model_release(&model);
    devices_close(&devices);
    for (size_t p = 0; p < precision_count(device); p++) {
        float *got;
        devices = open_devices(device, precisions[p].name);
        got = logits_of(path, &devices, batch, &model);
        good &= matches(name, precisions[p].name, want, got, (size_t)model.classes,
                        p == 0 ? 1e-4 : precisions[p].model);
        time_model(name, precisions[p].name, &model, 1);
        if (batch > 1) time_model(name, precisions[p].name, &model, batch);
        mem_free(got);
        model_release(&model);
        devices_close(&devices);
    }
    mem_free(want);
    return good;
}

/* ---- the own kernels and cuDNN --------------------------------------------------------------- */

enum { ATTENTION_BATCH = 8, HEADS = 12, WIDTH = 64, EMBED_BATCH = 64, IMAGE = 224, PATCH = 16 };

/* Packed attention over `tokens`; dense values, *count of them. */
static float *attention_of(struct backend *be, int tokens, size_t *count) {
    const int C = HEADS * WIDTH, B = ATTENTION_BATCH;
    const struct attention desc = {.heads = HEADS, .head_dim = WIDTH, .scale = 0.125f};
    const size_t values = (size_t)B * (size_t)tokens * 3 * (size_t)C;
    float *host = memory(values, sizeof *host);
    struct arena arena = {0};
    struct act qkv, y;
    for (int bind = 0; bind < 2; bind++) {
        qkv = act_take(be, &arena, B, tokens, 3 * C);
        y = act_take(be, &arena, B, tokens, C);
        if (bind == 0) demand(backend_reserve(be, &arena, "activations"));
    }
    op_fill(host, values, 1);
    backend_write(be, host, qkv);
    for (int pass = 0; pass < 3; pass++)
        op_attention(be, &desc, act_columns(qkv, 0, C), act_columns(qkv, C, C),
                     act_columns(qkv, 2 * C, C), y);
    *count = values / 3;
    backend_read(be, y, host);
    demand(backend_sync(be));
    backend_release_arena(be, &arena);
    return host;
}

/* ViT-B's embedding. */
static float *embedding_of(struct backend *be, size_t *count) {
    enum { C = HEADS * WIDTH, IN = 3 * PATCH * PATCH, N = (IMAGE / PATCH) * (IMAGE / PATCH) };
    const size_t bytes = (size_t)EMBED_BATCH * IMAGE * IMAGE * 3;
    float *weight = memory((size_t)C * IN, sizeof *weight), *bias = memory(C, sizeof *bias), *host;
    uint8_t *pixels = memory(bytes, 1);
    const struct linear_spec spec = {.name = "proj",
                                     .in = IN,
                                     .out = C,
                                     .weight = weight,
                                     .bias = bias,
                                     .rows = EMBED_BATCH * N};
    struct patch_spec patch = {IMAGE, IMAGE, PATCH, PATCH, {0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f},
                               NULL};
    struct arena arena = {0};
    struct act tok;
    op_fill(weight, (size_t)C * IN, 2);
    op_fill(bias, C, 3);
    for (size_t i = 0; i < (size_t)C * IN; i++)
        weight[i] /= sqrtf((float)IN);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 24);
    demand(linear_load(be, &spec, &patch.proj));
    for (int bind = 0; bind < 2; bind++) {
        tok = act_take(be, &arena, EMBED_BATCH, N, C);
        if (bind == 0) demand(backend_reserve(be, &arena, "activations"));
    }
    *count = (size_t)EMBED_BATCH * N * C;
    host = memory(*count, sizeof *host);
    op_patch_embed(be, &patch, pixels, tok);
    backend_read(be, tok, host);
    demand(backend_sync(be));
    backend_release_arena(be, &arena);
    mem_free(weight);
    mem_free(bias);
    mem_free(pixels);
    return host;
}

/* tokens 0: the embedding. cuDNN where it was faster against the own kernels alone. */
static bool check_ways(const char *device, size_t precision, int tokens) {
    float *values[2];
    size_t count = 0;
    char name[32];
    bool good;
    for (int cudnn = 0; cudnn < 2; cudnn++) {
        struct backend *be;
        if (cudnn)
            unsetenv("VITRINE_CUDNN");
        else
            setenv("VITRINE_CUDNN", "0", 1);
        be = open_device(device, precisions[precision].name);
        values[cudnn] = tokens ? attention_of(be, tokens, &count) : embedding_of(be, &count);
        if (cudnn) printf("%s\n", backend_describe(be));
        backend_close(be);
    }
    snprintf(name, sizeof name, tokens ? "attention %d" : "embedding", tokens);
    good = matches(name, precisions[precision].name, values[0], values[1], count,
                   precisions[precision].op);
    mem_free(values[0]);
    mem_free(values[1]);
    return good;
}

/* The next number of the line; 0 at its end. */
static uint64_t next_number(const char **at, unsigned base) {
    static const char digits[] = "0123456789abcdef";
    const char *digit;
    uint64_t value = 0;
    *at += strspn(*at, " ");
    for (; **at && (digit = strchr(digits, **at)) != NULL; (*at)++)
        value = value * base + (uint64_t)(digit - digits);
    return value;
}

/* A row of kernels/cuda_tuning.cu, as kernels/cuda_choice.cu fills it. */
static void print_row(const char *line) {
    enum { NUMBERS = 18, WORDS = 8, KIND = 0, TYPE = 2, OWN = 2 };
    uint64_t number[NUMBERS], word[WORDS];
    double flops;
    for (int i = 0; i < NUMBERS; i++)
        number[i] = next_number(&line, 10);
    for (int i = 0; i < WORDS; i++)
        word[i] = next_number(&line, 16);
    if (number[KIND] != 1 && number[KIND] != 2) return;
    if (number[KIND] == 1) {
        flops = 4.0 * (double)(number[6] * number[3] * number[7] * number[8] * number[4]);
        printf("attention %s, %d images, %d heads of %d, N %d:", precisions[number[TYPE]].name,
               (int)number[6], (int)number[3], (int)number[4], (int)number[7]);
    } else {
        flops = 6.0 * (double)(number[4] * number[5] * number[6] * number[9]);
        printf("embedding %s, %d images of %d x %d, patch %d, C %d:", precisions[number[TYPE]].name,
               (int)number[4], (int)number[5], (int)number[6], (int)number[7], (int)number[9]);
    }
    for (int i = OWN; i < WORDS; i++) {
        if (word[i] == 0) continue;
        if (i == OWN)
            printf("  own");
        else
            printf("  plan %d", i - OWN - 1);
        printf(" %.1f us, %.0f TFLOP/s%s", 1e-3 * (double)word[i], 1e-3 * flops / (double)word[i],
               word[0] + OWN == (uint64_t)i ? " *" : "");
    }
    printf("\n");
}

static void print_rows(const char *folder) {
    char path[600], line[1024];
    struct dirent *entry;
    DIR *dir;
    snprintf(path, sizeof path, "%s/vitrine", folder);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        FILE *file;
        if (strncmp(entry->d_name, "tuning-", 7) != 0) continue;
        snprintf(path, sizeof path, "%s/vitrine/%s", folder, entry->d_name);
        file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            print_row(line);
        if (file != NULL) fclose(file);
    }
    if (dir != NULL) closedir(dir);
}

static bool check_cudnn(const char *device, const char *folder) {
    static const int tokens[] = {577, 1025, 0};
    bool good = true;
    setenv("XDG_CACHE_HOME", folder, 1);
    for (size_t p = precision_count(device) > 1; p < precision_count(device); p++)
        for (size_t i = 0; i < COUNT_OF(tokens); i++)
            good &= check_ways(device, p, tokens[i]);
    print_rows(folder);
    return good;
}

int main(int argc, char **argv) {
    const char *batch = getenv("GPU_CHECK_BATCH");
    long images = 64;
    bool good = true;
    struct backend *be;
    if (argc < 3) {
        fprintf(stderr, "usage: gpu_check DEVICE ops | models | int8 FOLDER | cudnn FOLDER | "
                        "bench FOLDER ARCH...\n");
        return 2;
    }
    if (batch && !parse_long(batch, 1, 4096, &images)) return 2;
    be = open_device(argv[1], NULL);
    printf("%s\n", backend_describe(be));
    backend_close(be);
    if (strcmp(argv[2], "ops") == 0) good = check_ops(argv[1]);
    if (strcmp(argv[2], "models") == 0) good = check_models(argv[1], argv + 3, argc - 3);
    if (strcmp(argv[2], "cudnn") == 0 && argc > 3) good = check_cudnn(argv[1], argv[3]);
    if (strcmp(argv[2], "int8") == 0 && argc > 3) good = check_int8(argv[1], argv[3]);
    if (strcmp(argv[2], "bench") == 0)
        for (int i = 4; i < argc; i++)
            good &= bench_model(argv[1], argv[3], argv[i], (int)images);
    printf("%s: %s\n", argv[2], good ? "equal" : "DIFFERENT");
    return good ? 0 : 1;
}
