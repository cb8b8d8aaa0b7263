/*
 * backend: what a device must provide. Private to kernels/: models see only ops.h.
 *
 * kernels/backend.c implements every public function of ops.h: it checks shapes, remembers the
 * first error, and calls through this table. A device file fills the table and returns statuses.
 */
#ifndef KERNELS_BACKEND_H
#define KERNELS_BACKEND_H

#include "kernels/backward.h"
#include "kernels/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Every op returns at once while be->planning is set, having only noted what scratch and
 * primitives it needs.
 */
struct backend_ops {
    void (*close)(struct backend *be);
    enum status (*sync)(struct backend *be);
    double (*peak)(struct backend *be);     /* NULL = not known */
    void (*plan_begin)(struct backend *be); /* NULL = nothing */
    enum status (*plan_end)(struct backend *be);
    enum status (*reserve)(struct backend *be, struct arena *arena, const char *what);
    void (*release)(struct backend *be, struct arena *arena);
    enum status (*read)(struct backend *be, const struct act *a, float *host);
    enum status (*write)(struct backend *be, const float *host, const struct act *a);
    void (*stage)(struct backend *be, const uint8_t *pixels, size_t bytes); /* NULL = nothing */
    enum status (*linear_load)(struct backend *be, const struct linear_spec *spec,
                               struct linear **out);
    enum status (*norm_load)(struct backend *be, const struct norm_spec *spec, struct norm **out);
    enum status (*table_load)(struct backend *be, const float *values, size_t count,
                              struct table **out);
    enum status (*patch_embed)(struct backend *be, const struct patch_spec *patch,
                               const uint8_t *pixels, const struct act *tok);
    enum status (*assemble)(struct backend *be, const struct table *prefix, const struct table *pos,
                            const struct act *tok, const struct act *h);
    enum status (*layernorm)(struct backend *be, const struct norm *norm, const struct act *x,
                             const struct act *residual, const struct act *y);
    enum status (*linear)(struct backend *be, const struct linear *linear, enum epilogue epilogue,
                          const struct act *x, const struct act *residual, const struct act *y);
    enum status (*patch_merge)(struct backend *be, const struct norm *norm, const struct act *x,
                               int grid_h, int grid_w, const struct act *y);
    enum status (*mean)(struct backend *be, const struct act *x, const struct act *y);
    enum status (*attention)(struct backend *be, const struct attention *desc, const struct act *q,
                             const struct act *k, const struct act *v, const struct act *y);
    const struct backend_backward *backward; /* NULL = no backward ops but that of linears */
};

/* What kernels/backward.c calls, as it is declared in backward.h. */
struct backend_backward {
    enum status (*layernorm)(struct backend *be, const struct norm *norm, const struct act *x,
                             const struct act *dy, const struct act *residual,
                             const struct act *dx);
    enum status (*activation)(struct backend *be, enum epilogue epilogue, const struct act *x,
                              const struct act *dy, const struct act *dx);
    enum status (*attention)(struct backend *be, const struct attention *desc,
                             const struct attention_gradients *gradients);
    enum status (*patch_merge)(struct backend *be, const struct act *dy, int grid_h, int grid_w,
                               const struct act *dx);
    enum status (*mean)(struct backend *be, const struct act *dy, const struct act *dx);
    enum status (*relevance)(struct backend *be, const struct act *probs, const struct act *dprobs,
                             const struct act *out);
};

/* Sizes that backend.c checks against; the device's own structs begin with these. */
struct linear {
    char name[64];
    int in, out;
    bool has_bias;
    struct linear *transposed; /* of W^T, or NULL */
};
struct norm {
    int width;
};
struct table {
    size_t count;
};

struct backend {
    const struct backend_ops *ops;
    const char *precision;
    size_t act_size; /* bytes of an activation's element */
    bool gpu;
    bool planning;
    char description[256];
    enum status error;  /* the first since the last sync, */
    char sentence[512]; /* and its sentence */
};

/* ---- what backend.c and backward.c share ----------------------------------------------------- */

/* Keeps the first error; `op` NULL: the sentence names its thing already. */
void backend_settle(struct backend *be, const char *op, enum status st);
/* `what` must be a usable activation of that shape; dims < 0 may be anything from 1 up. */
enum status backend_check_act(const struct backend *be, const char *what, const struct act *a,
                              int batch, int tokens, int channels) MUST_CHECK;
enum status backend_check_attention(const struct backend *be, const struct attention *desc,
                                    const struct act *q, const struct act *k, const struct act *v,
                                    const struct act *y) MUST_CHECK;

/* ---- the devices ----------------------------------------------------------------------------- */

/* The CPU backend (cpu.c). */
enum status cpu_open(const char *precision, int threads, struct backend **out) MUST_CHECK;

/*
 * The CUDA backend (cuda_backend.cu), in libvitrine_cuda.so, which backend.c opens when it is asked
 * for a GPU. precision NULL: fp16. ST_DEVICE: no driver, no such device, or what it lacks.
 */
enum status vitrine_cuda_open(int device, const char *precision, struct backend **out) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
