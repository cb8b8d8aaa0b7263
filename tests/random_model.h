/*
 * random_model: a model file of any architecture of the table, of random weights, the same each
 * time. For gpu_check; the values say nothing, the shapes are real.
 */
#ifndef TESTS_RANDOM_MODEL_H
#define TESTS_RANDOM_MODEL_H

#include "tests/golden.h"
#include "tests/op_shapes.h"
#include "weights/architectures.h"
#include "weights/config.h"

#include <unistd.h>

static uint64_t random_seed = 1;

/* A tensor of /parameters: uniform of that deviation around `mean`. */
static inline void put_tensor(struct h5 *file, const char *name, float mean, float deviation,
                              int rank, const size_t *dims) {
    size_t count = 1;
    char path[160];
    float *values;
    for (int d = 0; d < rank; d++)
        count *= dims[d];
    values = memory(count, sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = mean + 1.7320508f * deviation * op_random(&random_seed);
    snprintf(path, sizeof path, "/parameters/%s", name);
    demand(h5_write(file, path, DT_F32, rank, dims, values));
    mem_free(values);
}

static inline void put_linear(struct h5 *file, const char *prefix, const char *name, int out,
                              int in, bool bias) {
    char path[128];
    snprintf(path, sizeof path, "%s%s.weight", prefix, name);
    put_tensor(file, path, 0, 1 / sqrtf((float)in), 2, (const size_t[]){(size_t)out, (size_t)in});
    snprintf(path, sizeof path, "%s%s.bias", prefix, name);
    if (bias) put_tensor(file, path, 0, 0.02f, 1, (const size_t[]){(size_t)out});
}

static inline void put_norm(struct h5 *file, const char *prefix, const char *name, int width) {
    char path[128];
    snprintf(path, sizeof path, "%s%s.weight", prefix, name);
    put_tensor(file, path, 1, 0.1f, 1, (const size_t[]){(size_t)width});
    snprintf(path, sizeof path, "%s%s.bias", prefix, name);
    put_tensor(file, path, 0, 0.02f, 1, (const size_t[]){(size_t)width});
}

static inline void put_block(struct h5 *file, const char *prefix, int C, int F) {
    put_norm(file, prefix, "norm1", C);
    put_norm(file, prefix, "norm2", C);
    put_linear(file, prefix, "attn.qkv", 3 * C, C, true);
    put_linear(file, prefix, "attn.proj", C, C, true);
    put_linear(file, prefix, "mlp.fc1", F, C, true);
    put_linear(file, prefix, "mlp.fc2", C, F, true);
}

static inline void put_patches(struct h5 *file, int C, int patch) {
    const size_t dims[] = {(size_t)C, 3, (size_t)patch, (size_t)patch};
    put_tensor(file, "patch_embed.proj.weight", 0, 1 / sqrtf(3.0f * (float)(patch * patch)), 4,
               dims);
    put_tensor(file, "patch_embed.proj.bias", 0, 0.02f, 1, dims);
}

static inline void put_vit(struct h5 *file, const struct architecture *arch) {
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
                                      .positions = POSITIONS_LEARNED,
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

static inline void put_swin(struct h5 *file, struct swin_config *config) {
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
static inline void random_model(const char *path, const char *name) {
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

#endif
