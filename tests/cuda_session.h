/*
 * cuda_session: a golden model (tests/ref) on any backend, either family through one door. For the
 * CUDA backend over the stand-in (test_cuda_backend) and on a GPU (gpu_check).
 */
#ifndef TESTS_CUDA_SESSION_H
#define TESTS_CUDA_SESSION_H

#include "kernels/backend.h"
#include "swin/swin.h"
#include "vit/vit.h" // before cmocka.h, which has a macro `fail`

#include <stdlib.h>
#include <unistd.h>

#include "tests/capture_copy.h"
#include "tests/golden.h"

enum { IMAGES = 2 };

/* Against the CPU backend in fp32: max |difference| over max |value|. */
static const struct model_row {
    const char *name, *why;
} model_rows[] = {
    {"vit_token", "ViT: class token, the last block short"},
    {"vit_distilled", "DeiT distilled: two tokens read by the head"},
    {"vit_reg4_gap", "registers, mean of patches, fc_norm"},
    {"vit_clip", "norm before the blocks, no patch bias, quick GELU"},
    {"vit_qk_layer", "norms of column views"},
    {"vit_qk_rms", "RMS norms"},
    {"vit_dinov2_giant", "SwiGLU, no head"},
    {"vit_map", "attention pooling: a written query, other token counts"},
    {"vit_none", "no pool, no positions"},
    {"vit_odd", "rows of odd sizes: nothing is fused or aligned"},
    {"vit_patch14", "a patch matrix with spare columns"},
    {"vit_tanh", "GELU by cuBLASLt"},
    {"vit_beit", "BEiT: a bias table a block"},
    {"vit_beit_shared", "one bias table; the class token's query alone"},
    {"vit_beit_rectangle", "a bias over 3x7 patches"},
    {"vit_relpos", "a bias without prefix tokens"},
    {"swin_v1", "windows, shifted"},
    {"swin_v1_padded", "padding behind the shift"},
    {"swin_v1_rectangle", "maps and patches that are not square"},
    {"swin_v1_odd", "odd maps to merge, head width 5"},
    {"swin_v1_narrow", "a map lower than the window"},
    {"swin_v2", "cosine scores, norms behind"},
    {"swin_v2_padded", "padding: zero keys, values of the bias"},
    {"swin_v2_odd", "three stages, odd maps"},
};

struct session {
    const char *name; /* vit_token: tests/ref/vit_token.h5 */
    struct h5 *file;
    struct backend *backend;
    bool is_swin;
    struct vit vit;
    struct swin swin;
    int image_h, image_w;
    uint8_t *pixels; /* (IMAGES, image_h, image_w, 3) */
    size_t image_bytes;
};

static inline enum status session_load(struct session *s) {
    struct preprocess_spec spec;
    struct vit_options vit = {.image_h = s->image_h, .image_w = s->image_w, .max_batch = IMAGES};
    struct swin_options swin = {.image_h = s->image_h, .image_w = s->image_w, .max_batch = IMAGES};
    TRY(preprocess_spec_read(s->file, &spec));
    for (int i = 0; i < 3; i++) {
        vit.mean[i] = swin.mean[i] = (float)spec.mean[i];
        vit.std[i] = swin.std[i] = (float)spec.std[i];
    }
    return s->is_swin ? swin_load(&s->swin, s->file, &swin, s->backend)
                      : vit_load(&s->vit, s->file, &vit, s->backend);
}

/* The file and its images; no model yet. */
static inline void session_read(struct session *s, const char *name) {
    struct h5_dataset images;
    char path[96];
    *s = (struct session){.name = name, .is_swin = strncmp(name, "swin", 4) == 0};
    snprintf(path, sizeof path, "tests/ref/%s.h5", name);
    demand(h5_open(path, &s->file));
    demand(h5_info(s->file, "/golden/images", &images));
    assert_int_equal(images.dims[0], IMAGES);
    s->image_h = (int)images.dims[1];
    s->image_w = (int)images.dims[2];
    mem_free(images.name);
    s->image_bytes = (size_t)s->image_h * (size_t)s->image_w * 3;
    s->pixels = memory(IMAGES, s->image_bytes);
    demand(h5_read_raw(s->file, "/golden/images", DT_U8, s->pixels, IMAGES * s->image_bytes));
}

/* As session_start, of another model file for the same images. */
static inline void session_start_file(struct session *s, const char *name, const char *path,
                                      struct backend *backend) {
    session_read(s, name);
    demand(h5_close(&s->file));
    demand(h5_open(path, &s->file));
    s->backend = backend;
    demand(session_load(s));
}

/* The session closes the backend. */
static inline void session_start(struct session *s, const char *name, struct backend *backend) {
    session_read(s, name);
    s->backend = backend;
    demand(session_load(s));
}

static inline void session_close(struct session *s) {
    if (s->is_swin)
        swin_release(&s->swin);
    else
        vit_release(&s->vit);
    backend_close(s->backend);
    mem_free(s->pixels);
    demand(h5_close(&s->file));
}

static inline size_t session_classes(const struct session *s) {
    return (size_t)(s->is_swin ? s->swin.config.classes : s->vit.config.classes);
}

/* Floats of an image's final tokens, and of the pooled. */
static inline size_t session_tokens(const struct session *s) {
    const struct swin_stage *last = &s->swin.stages[s->is_swin ? s->swin.config.stages - 1 : 0];
    return s->is_swin ? (size_t)last->tokens * (size_t)last->channels
                      : (size_t)s->vit.tokens * (size_t)s->vit.config.dim;
}
static inline size_t session_pooled(const struct session *s) {
    if (s->is_swin) return (size_t)s->swin.stages[s->swin.config.stages - 1].channels;
    return s->vit.config.pool == POOL_NONE ? 0 : (size_t)s->vit.config.dim;
}
static inline struct attention_shape session_shape(const struct session *s, int layer) {
    return s->is_swin ? swin_attention_shape(&s->swin, layer)
                      : vit_attention_shape(&s->vit, layer, false);
}
/* A shifted Swin block, or a ViT's first; floats of an image's probabilities there. */
static inline int session_layer(const struct session *s) {
    return s->is_swin;
}
static inline size_t session_probs(const struct session *s) {
    const struct attention_shape shape = session_shape(s, session_layer(s));
    return attention_shape_floats(&shape);
}

/* Each NULL = not wanted; dense, of `batch` images. */
struct outputs {
    float *logits, *tokens, *pooled, *probs;
};

/* A capture's taker: (IMAGES, probabilities), rows of padding slots as zeros. */
static inline void session_take(void *context, const struct captured *got) {
    const struct attention_shape *shape = &got->shape;
    const size_t N = (size_t)shape->keys;
    int *token = memory(N, sizeof *token);
    float *to = (float *)context + (size_t)got->first * attention_shape_floats(shape);
    const float *from = got->probs;
    for (int b = 0; b < got->batch; b++)
        for (int w = 0; w < shape->windows; w++) {
            attention_shape_window(shape, w, token);
            for (int row = 0; row < shape->heads * shape->queries; row++, from += N, to += N)
                if (token[row % shape->queries] >= 0) memcpy(to, from, N * sizeof *to);
        }
    mem_free(token);
}

static inline enum status session_forward(struct session *s, const uint8_t *pixels, int batch,
                                          const struct outputs *out) {
    bool wanted[64] = {false};
    const struct capture capture = {.layers = wanted, .take = session_take, .context = out->probs};
    const struct capture *asked = out->probs ? &capture : NULL;
    struct vit_taps vit = {
        .layer = -1, .tokens = out->tokens, .pooled = out->pooled, .capture = asked};
    struct swin_taps swin = {
        .layer = -1, .tokens = out->tokens, .pooled = out->pooled, .capture = asked};
    bool taps = out->tokens || out->pooled || out->probs;
    wanted[session_layer(s)] = true;
    return s->is_swin ? swin_forward(&s->swin, pixels, batch, out->logits, taps ? &swin : NULL)
                      : vit_forward(&s->vit, pixels, batch, out->logits, taps ? &vit : NULL);
}

/* Everything that the model has; in one block, for session_outputs_free. */
static inline struct outputs outputs_of(const struct session *s) {
    const size_t K = session_classes(s), T = session_tokens(s), C = session_pooled(s);
    const size_t P = session_probs(s);
    float *base = memory(IMAGES * (K + T + C + P), sizeof *base);
    return (struct outputs){.tokens = base,
                            .logits = K ? base + IMAGES * T : NULL,
                            .pooled = C ? base + IMAGES * (T + K) : NULL,
                            .probs = P ? base + IMAGES * (T + K + C) : NULL};
}

static inline void outputs_free(struct outputs *out) {
    mem_free(out->tokens);
    *out = (struct outputs){0};
}

static inline bool part_matches(const struct session *s, const char *precision, const char *what,
                                const float *want, const float *got, size_t count,
                                double tolerance) {
    char name[64];
    if (!want || !count) return true;
    snprintf(name, sizeof name, "%s %s", s->name, precision);
    return matches(name, what, want, got, IMAGES * count, tolerance);
}

static inline bool outputs_match(const struct session *s, const char *precision,
                                 const struct outputs *want, const struct outputs *got,
                                 double tolerance) {
    bool good = part_matches(s, precision, "tokens", want->tokens, got->tokens, session_tokens(s),
                             tolerance);
    good &= part_matches(s, precision, "pooled", want->pooled, got->pooled, session_pooled(s),
                         tolerance);
    good &= part_matches(s, precision, "logits", want->logits, got->logits, session_classes(s),
                         tolerance);
    /* A second block's scores have a first one's errors: bf16's make 0.09. */
    return good & part_matches(s, precision, "probabilities", want->probs, got->probs,
                               session_probs(s), (session_layer(s) + 1) * tolerance);
}

#endif
