/*
 * convert_swin_sample: Swin checkpoints for test_convert_swin*.c, built from a config in the layout
 * of timm or in that of Swin's own code (merging at the end of a stage, head.*, buffers).
 */
#ifndef TESTS_CONVERT_SWIN_SAMPLE_H
#define TESTS_CONVERT_SWIN_SAMPLE_H

#include "tests/convert_sample.h"
#include "weights/architectures.h"

/* "ROWS,COLUMNS" of at most four numbers; 0 ends. */
static inline const char *shape_of(int a, int b, int c, int d) {
    static char text[64];
    const int dims[4] = {a, b, c, d};
    size_t used = 0;
    for (int i = 0; i < 4 && dims[i]; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? "," : "", dims[i]);
    return text;
}

static inline void add_swin_attention(struct file *f, const struct swin_config *c, int s, int b,
                                      bool official) {
    static const char *const name = "layers.%d.blocks.%d.attn.%s";
    const int C = c->dim << s, H = c->heads[s];
    struct swin_map map;
    swin_config_map(c, s, c->image_h, c->image_w, &map);
    const int rows = 2 * map.window_h - 1, columns = 2 * map.window_w - 1;
    add(f, shape_of(3 * C, C, 0, 0), name, s, b, "qkv.weight");
    add(f, shape_of(C, C, 0, 0), name, s, b, "proj.weight");
    add(f, shape_of(C, 0, 0, 0), name, s, b, "proj.bias");
    if (official) {
        const int slots = map.window_h * map.window_w;
        add(f, shape_of(slots, slots, 0, 0), name, s, b, "relative_position_index");
        f->entries[f->count - 1].dtype = "I32";
    }
    if (c->version == 1) {
        add(f, shape_of(3 * C, 0, 0, 0), name, s, b, "qkv.bias");
        add(f, shape_of(rows * columns, H, 0, 0), name, s, b, "relative_position_bias_table");
        return;
    }
    add(f, shape_of(C, 0, 0, 0), name, s, b, "q_bias");
    add(f, shape_of(C, 0, 0, 0), name, s, b, "v_bias");
    add(f, shape_of(H, 1, 1, 0), name, s, b, "logit_scale");
    add(f, "512,2", name, s, b, "cpb_mlp.0.weight");
    add(f, "512", name, s, b, "cpb_mlp.0.bias");
    add(f, shape_of(H, 512, 0, 0), name, s, b, "cpb_mlp.2.weight");
    if (!official) return;
    add(f, shape_of(1, rows, columns, 2), name, s, b, "relative_coords_table");
    f->entries[f->count - 1].coordinates =
        c->pretrained_window[s] ? c->pretrained_window[s] : map.window_h;
}

static inline void add_swin_block(struct file *f, const struct swin_config *c, int s, int b,
                                  bool official) {
    const int C = c->dim << s, F = c->hidden[s];
    const struct {
        const char *name;
        int rows, columns;
    } parts[] = {{"norm1", C, 0}, {"norm2", C, 0}, {"mlp.fc1", F, C}, {"mlp.fc2", C, F}};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        add(f, shape_of(parts[i].rows, parts[i].columns, 0, 0), "layers.%d.blocks.%d.%s.weight", s,
            b, parts[i].name);
        add(f, shape_of(parts[i].rows, 0, 0, 0), "layers.%d.blocks.%d.%s.bias", s, b,
            parts[i].name);
    }
    add_swin_attention(f, c, s, b, official);
    if (official && b % 2 == 1) add(f, "4,4,4", "layers.%d.blocks.%d.attn_mask", s, b);
}

static inline void build_swin(struct file *f, const struct swin_config *c, bool official) {
    const char *const head = official ? "head" : "head.fc";
    const int last = c->dim << (c->stages - 1);
    memset(f, 0, sizeof *f);
    add(f, shape_of(c->dim, 3, c->patch_h, c->patch_w), "patch_embed.proj.weight");
    add(f, shape_of(c->dim, 0, 0, 0), "patch_embed.proj.bias");
    add(f, shape_of(c->dim, 0, 0, 0), "patch_embed.norm.weight");
    add(f, shape_of(c->dim, 0, 0, 0), "patch_embed.norm.bias");
    for (int s = 0; s < c->stages; s++) {
        const int C = c->dim << s, at = official ? s - 1 : s, normed = c->version == 1 ? 2 * C : C;
        if (s > 0) {
            add(f, shape_of(normed, 0, 0, 0), "layers.%d.downsample.norm.weight", at);
            add(f, shape_of(normed, 0, 0, 0), "layers.%d.downsample.norm.bias", at);
            add(f, shape_of(C, 2 * C, 0, 0), "layers.%d.downsample.reduction.weight", at);
        }
        for (int b = 0; b < c->depths[s]; b++)
            add_swin_block(f, c, s, b, official);
    }
    add(f, shape_of(last, 0, 0, 0), "norm.weight");
    add(f, shape_of(last, 0, 0, 0), "norm.bias");
    add(f, shape_of(c->classes, last, 0, 0), "%s.weight", head);
    add(f, shape_of(c->classes, 0, 0, 0), "%s.bias", head);
}

/* Map 6x6 in windows of 4, then 3x3, which shrinks the window. */
static const struct swin_config tiny_swin_config = {.version = 1,
                                                    .image_h = 24,
                                                    .image_w = 24,
                                                    .patch_h = 4,
                                                    .patch_w = 4,
                                                    .dim = 8,
                                                    .stages = 2,
                                                    .depths = {2, 1},
                                                    .heads = {1, 2},
                                                    .hidden = {16, 40},
                                                    .window = {4, 4},
                                                    .classes = 3};

static inline void tiny_swin(struct file *f) {
    build_swin(f, &tiny_swin_config, false);
}

static inline void tiny_swin_official(struct file *f) {
    build_swin(f, &tiny_swin_config, true);
}

static inline void tiny_swin_wide(struct file *f) {
    struct swin_config c = tiny_swin_config;
    c.image_w = 16; /* maps 6x4 and 3x2 */
    build_swin(f, &c, false);
}

static inline void tiny_swinv2(struct file *f) {
    struct swin_config c = tiny_swin_config;
    c.version = 2;
    build_swin(f, &c, false);
}

static inline void tiny_swinv2_official(struct file *f) {
    struct swin_config c = tiny_swin_config;
    c.version = 2;
    c.pretrained_window[0] = 6;
    build_swin(f, &c, true);
}

/* timm's own, values 0 and no room taken. */
static inline void known_swin(struct file *f, const char *name, bool official) {
    struct swin_config c;
    assert_true(architecture_swin(architecture_find(name), &c));
    c.classes = 10;
    build_swin(f, &c, official);
    f->sparse = true;
}

static inline void swin_tiny(struct file *f) {
    known_swin(f, "swin_tiny_patch4_window7_224", false);
}

static inline void swin_tiny_official(struct file *f) {
    known_swin(f, "swin_tiny_patch4_window7_224", true);
}

static inline void swin_s3_tiny(struct file *f) {
    known_swin(f, "swin_s3_tiny_224", false);
}

/* swin_tiny, trained with windows of 8 on 256x256. */
static inline void swin_tiny_8(struct file *f) {
    struct swin_config c;
    assert_true(architecture_swin(architecture_find("swin_tiny_patch4_window7_224"), &c));
    c.classes = 10;
    c.image_h = c.image_w = 256;
    for (int s = 0; s < c.stages; s++)
        c.window[s] = 8;
    build_swin(f, &c, false);
    f->sparse = true;
}

static inline void swinv2_tiny(struct file *f) {
    known_swin(f, "swinv2_tiny_window16_256", false);
}

static inline void swinv2_tiny_official(struct file *f) {
    known_swin(f, "swinv2_tiny_window16_256", true);
}

static inline void swinv2_base_official(struct file *f) {
    known_swin(f, "swinv2_base_window12to16_192to256", true);
}

#define SWIN_TIMM(name, more) "{\"architecture\":\"" name "\"" more "}"
#define SWIN_ARGS(name, args) SWIN_TIMM(name, ",\"model_args\":{" args "}")

#endif
