/*
 * config: what a vitrine model file says about a model beside its tensors: `/config`,
 * `/preprocess`, `/labels` and the root attributes. One struct a group, one read and one write
 * each, in config.c, so the two cannot drift. weights/README.md describes every attribute.
 * Nothing is guessed: a missing attribute is ST_FORMAT, an impossible value too.
 */
#ifndef WEIGHTS_CONFIG_H
#define WEIGHTS_CONFIG_H

#include "weights/h5.h"

/*
 * Root attributes. Strings are owned; notes are further root attributes (recipe, test accuracy,
 * ...) to be shown.
 */
struct model_info {
    char *name, *family, *architecture, *source, *source_sha256, *license;
    char **note_names, **note_values;
    size_t notes;
};
enum status model_info_read(struct h5 *file,
                            struct model_info *out) MUST_CHECK; /* checks format and version */
enum status model_info_write(struct h5 *file, const struct model_info *info) MUST_CHECK;
void model_info_release(struct model_info *info);

#define CONFIG_MAX_SIDE 16384 /* of a picture, in pixels */

enum vit_pool { POOL_TOKEN, POOL_AVG, POOL_NONE, POOL_MAP };
enum vit_activation { ACT_GELU, ACT_GELU_TANH, ACT_QUICK_GELU };
enum vit_qk_norm { QK_NONE, QK_LAYER, QK_RMS };

enum vit_positions {
    POSITIONS_NONE,
    POSITIONS_LEARNED,        /* pos_embed, added to the tokens */
    POSITIONS_RELATIVE,       /* a bias table in every block (kernels/relative.h) */
    POSITIONS_RELATIVE_SHARED /* one for all blocks */
};

/* How an origin resamples positions to another grid (vit/vit_positions.c). */
enum resample {
    RESAMPLE_BICUBIC_ANTIALIAS,     /* timm: a = -0.5, antialias, renormalised */
    RESAMPLE_BICUBIC,               /* transformers, MAE, DeiT: a = -0.75, half-pixel, edge clamp */
    RESAMPLE_BICUBIC_OFFSET,        /* DINOv2's own code: step 1/((n+0.1)/n_old) */
    RESAMPLE_BICUBIC_ALIGN_CORNERS, /* torchvision */
    RESAMPLE_BILINEAR,              /* timm's npz loader: half-pixel */
    RESAMPLE_LINEAR_ALIGN_CORNERS,  /* JAX, vit-keras: scipy zoom, order 1 */
    RESAMPLE_GEOMETRIC              /* timm's, of bias tables alone (kernels/relative.h) */
};

/* `/config` of family "vit". Canonical tensor names are timm's. */
struct vit_config {
    int image_h, image_w; /* pixels the positions were made for */
    int patch_h, patch_w;
    int dim, depth, heads, hidden; /* C, L, H, F (hidden of SwiGLU: of one half) */
    int classes;                   /* K; 0 = no head */
    bool class_token, dist_token;
    int registers; /* R register tokens; order: class, dist, registers, patches */
    enum vit_positions positions;
    int pos_grid_h, pos_grid_w; /* the grid stored, or that the bias tables are for */
    int pos_prefix; /* rows of pos_embed in front of the grid: 0, or the number of prefix tokens */
    enum resample pos_resample;
    bool patch_bias, pre_norm, qkv_bias, layer_scale;
    enum vit_qk_norm qk_norm;
    bool swiglu; /* fc1 gives 2F columns [a, b]: silu(a)*b */
    enum vit_activation activation;
    enum vit_pool pool;
    bool norm, fc_norm; /* "norm" on all tokens before the pool; "fc_norm" after it */
    double norm_eps;
};
enum status vit_config_read(struct h5 *file, struct vit_config *out) MUST_CHECK;
enum status vit_config_write(struct h5 *file, const struct vit_config *config) MUST_CHECK;
/*
 * Impossible combinations (heads do not divide dim, pool token without a token, ...): ST_FORMAT
 * naming `file`.
 */
enum status vit_config_check(const struct vit_config *config, const char *file) MUST_CHECK;
/* class + dist + registers. */
int vit_config_prefix(const struct vit_config *config);
bool vit_config_relative(const struct vit_config *config); /* either kind */
/* Rows of a stored bias table: (2h-1)*(2w-1) of position_grid, 3 more with prefix tokens. */
int vit_config_bias_rows(const struct vit_config *config);

#define SWIN_MAX_STAGES   8
#define SWIN_MAX_WINDOW   4096
#define SWIN_MAX_CHANNELS 65536 /* of the last stage */
#define SWIN_CPB_HIDDEN   512   /* the hidden width of version 2's position-bias MLP */

/* What is done where the windows do not fit the map. */
enum swin_window_rule {
    WINDOW_TIMM, /* shift, then pad; a side of the map no longer than the window's shrinks the
                    window to it and is not shifted; a stored bias table is resampled
                    geometrically */
    WINDOW_PAD,  /* pad, then shift; windows keep their side (torchvision) */
    WINDOW_FIXED /* the same; windows and shifts keep to image_size (transformers) */
};

/*
 * `/config` of family "swin". Canonical tensor names are timm's. Arrays have an entry a stage;
 * stage s has dim << s channels, on the map of the patches, halved (rounded up) s times.
 */
struct swin_config {
    int version;          /* 1: norms before, bias table; 2: norms after, cosine scores, bias MLP */
    int image_h, image_w; /* pixels the stored bias tables were made for */
    int patch_h, patch_w;
    int dim, stages; /* C of stage 0, S */
    int depths[SWIN_MAX_STAGES], heads[SWIN_MAX_STAGES], hidden[SWIN_MAX_STAGES];
    int window[SWIN_MAX_STAGES];            /* M before the map shrinks it */
    int pretrained_window[SWIN_MAX_STAGES]; /* version 2: normalises its coordinates; 0 = M */
    int classes;                            /* K; 0 = no head */
    bool qkv_bias;                          /* version 2: q_bias and v_bias, the key has none */
    enum vit_activation activation;
    enum swin_window_rule window_rule;
    double mask_value; /* added to pairs of different regions: -100 */
    double norm_eps;
};
enum status swin_config_read(struct h5 *file, struct swin_config *out) MUST_CHECK;
enum status swin_config_write(struct h5 *file, const struct swin_config *config) MUST_CHECK;
/* Impossible combinations: ST_FORMAT naming `file`. */
enum status swin_config_check(const struct swin_config *config, const char *file) MUST_CHECK;
/*
 * The map of a stage, and the window on it, for an image of image_h x image_w (multiples of the
 * patch): the geometry that reader, converter and model must agree on.
 */
struct swin_map {
    int h, w, window_h, window_w;
    int shift_h, shift_w; /* of every second block */
};
void swin_config_map(const struct swin_config *config, int stage, int image_h, int image_w,
                     struct swin_map *out);

/*
 * ST_USAGE naming `file` when the window rule is not timm's and differs from it at this size:
 * vitrine runs timm's.
 */
enum status swin_config_check_size(const struct swin_config *config, int image_h, int image_w,
                                   const char *file) MUST_CHECK;

const char *vit_pool_name(enum vit_pool pool);
const char *vit_activation_name(enum vit_activation activation);
const char *vit_qk_norm_name(enum vit_qk_norm qk_norm);
const char *resample_name(enum resample resample);
bool vit_activation_find(const char *name, enum vit_activation *out);

/*
 * `/preprocess`. The words are datasets/'s (crop_mode_name, ...); tools/model.c turns them into
 * its enums.
 */
struct preprocess_spec {
    int height, width;
    double crop_pct;
    char crop_mode[16], interpolation[16], crop_rounding[16];
    double mean[3], std[3];
};
enum status preprocess_spec_read(struct h5 *file, struct preprocess_spec *out) MUST_CHECK;
enum status preprocess_spec_write(struct h5 *file, const struct preprocess_spec *spec) MUST_CHECK;

/*
 * `/labels`: count must be the class count, or the group absent (*count 0). Released with
 * h5_free_names.
 */
enum status labels_group_read(struct h5 *file, int classes, char ***ids, char ***names,
                              size_t *count) MUST_CHECK;
enum status labels_group_write(struct h5 *file, int count, const char *const *ids,
                               const char *const *names) MUST_CHECK;

/*
 * `/selftest`: a uint8 image (h, w, 3) of the model's input size, and the output expected for it.
 */
struct selftest {
    int height, width;
    uint8_t *image;  /* (height, width, 3), owned */
    float *expected; /* (count), owned: the logits, or for headless models the pooled features */
    size_t count;
    double tolerance; /* max |difference| / max |expected| */
    char *origin;     /* what computed it, e.g. "torch 2.14.1, timm 1.0.31", owned */
};
enum status selftest_read(struct h5 *file,
                          struct selftest *out) MUST_CHECK; /* absent: ST_OK, image NULL */
enum status selftest_write(struct h5 *file, const struct selftest *test) MUST_CHECK;
void selftest_release(struct selftest *test);

#endif
