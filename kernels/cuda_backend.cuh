/*
 * cuda_backend: what the files of the CUDA backend share (cuda_*.cu, linear_cuda.cu). Private.
 *
 * An op does not launch. It appends a record: zero-filled, device pointers, shapes, constants, no
 * padding with other bits. A flush (cuda_flush: a read, a sync, a second embedding) looks the list
 * of records up by its bytes. A list not seen before runs as it is, which loads kernels and times
 * products; the second time it is captured into a graph; from then on the graph is launched. So a
 * pass of the same shapes is one launch, and nobody names buckets.
 *
 *   cuda_backend   opening, memory, weights, reading and writing
 *   cuda_ops       an op into a record, a record into launches
 *   cuda_graphs    lists, the graphs made of them, the flush
 *   cuda_pixels    the pixels' way to the device, beside the computation
 *   linear_cuda    products by cuBLASLt, and what its epilogues do not do
 *   linear_int8_cuda  the linears that run in int8
 *   cuda_choice    attention and embedding: the own kernels, or cuDNN where that was faster
 *   cuda_embed     the patch embedding, both ways
 *   cuda_tuning    what was the fastest, kept on disk
 *
 * Compiled by nvcc, and for the tests by the C++ compiler over tests/fake/, a stand-in of the
 * runtime, cuBLASLt and cuDNN that checks what is asked of it.
 */
#ifndef KERNELS_CUDA_BACKEND_CUH
#define KERNELS_CUDA_BACKEND_CUH

#include "kernels/backend.h"
#include "kernels/cuda_dnn.h"
#include "kernels/cuda_kernels.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <string.h>

enum {
    CUDA_GRAPHS = 16,        /* lists remembered; the least recently used goes */
    CUDA_SLOTS = 3,          /* of pixels under way */
    CUDA_WORKSPACE_MIB = 32, /* of cuBLASLt and cuDNN */
    CUDA_PART_MIB = 4        /* a read or write goes in parts of at most that */
};

/* ---- weights --------------------------------------------------------------------------------- */

struct cuda_linear {
    struct linear head;
    void *weight;     /* (out, pitch), the activations' type; with scales int8, out to whole 16 */
    size_t pitch;     /* in, to whole 16 bytes */
    float *scales;    /* (out), fp32; NULL: not in int8 */
    void *bias;       /* (out), the activations' type; NULL without bias */
    float *bias_fp32; /* (out) */
    void *filter; /* the weight as cuda_filter makes it, of patches filter_h high; NULL: not yet */
    int filter_h;
    struct cuda_linear *next;
};

struct cuda_norm {
    struct norm head;
    float *weight, *bias; /* (width) */
    float eps;
    bool rms;
    struct cuda_norm *next;
};

struct cuda_table {
    struct table head;
    float *values;
    struct cuda_table *next;
};

/* ---- records --------------------------------------------------------------------------------- */

enum record_kind {
    RECORD_EMBED, /* pixels in cuda->pixels.fixed -> tokens */
    RECORD_ASSEMBLE,
    RECORD_LAYERNORM,
    RECORD_LINEAR,
    RECORD_MERGE,
    RECORD_MEAN,
    RECORD_ATTENTION,
    RECORD_READ /* a view -> cuda->part, cuda->part_host as dense fp32 */
};

/* patches and image: data NULL = the backend's buffers, which may still move. */
struct record_embed {
    struct patch_spec spec; /* proj NULL */
    const struct cuda_linear *proj;
    struct cuda_view patches; /* (B, N, 3*ph*pw), rows of whole 16 bytes: for the product */
    struct cuda_view image;   /* (B, image_h*image_w, CUDA_PIXEL): for the convolution */
    struct cuda_view tok;
};
struct record_assemble {
    const float *prefix, *pos;
    struct cuda_view tok, h;
};
struct record_linear {
    const struct cuda_linear *linear;
    enum epilogue epilogue;
    struct cuda_view x, residual, y;
};
struct record_merge {
    const struct cuda_norm *norm;
    struct cuda_view x, y;
    int grid_h, grid_w;
};
struct record_mean {
    struct cuda_view x, y;
};
struct record_attention {
    struct attention desc; /* numbers alone: no tables, lengths or probs */
    struct cuda_attention call;
    struct cuda_view probs, greatest; /* of activations; data NULL: not wanted */
    int lengths;                      /* 1 + where they begin in the list's, 0: none */
};

struct record {
    int kind; /* enum record_kind */
    union {
        struct record_embed embed;
        struct record_assemble assemble;
        struct cuda_layernorm layernorm;
        struct record_linear linear;
        struct record_merge merge;
        struct record_mean mean;
        struct record_attention attention;
        struct cuda_view read;
    } of;
};

struct cuda_list {
    struct record *records;
    size_t count, capacity;
    int *lengths; /* of all attentions */
    size_t lengths_count, lengths_capacity;
    bool embeds; /* holds a RECORD_EMBED */
};

/* A list seen before; exec NULL: once. */
struct cuda_graph {
    uint64_t hash, used;
    unsigned char *key; /* records, then lengths */
    size_t records, lengths;
    int *device_lengths;
    cudaGraphExec_t exec;
};

/* ---- the device ------------------------------------------------------------------------------ */

/* Device memory that grows by need and is never smaller again. */
struct cuda_buffer {
    const char *what;
    void *data;
    size_t size, wanted;
};

struct pixel_slot {
    uint8_t *host, *device; /* pinned, and on the device */
    cudaEvent_t uploaded;   /* on the copy stream: device holds host */
    cudaEvent_t consumed;   /* on the compute stream: fixed holds device */
};

struct cuda_pixels {
    struct pixel_slot slots[CUDA_SLOTS];
    int next;
    size_t wanted, capacity; /* bytes of a slot */
    uint8_t *fixed;          /* what the records read */
    /* To be embedded by the list; announced by backend_stage; uploaded ahead. */
    const uint8_t *pixels, *hint, *staged;
    size_t pixel_bytes, hint_bytes, staged_bytes;
    int staged_slot;
};

/* A product of cuBLASLt, D (m, n) = W^T (m, k) X (k, n) in its column-major words. */
enum {
    KEY_M,
    KEY_N,
    KEY_K,
    KEY_COUNT,
    KEY_LDW,
    KEY_LDX,
    KEY_LDC,
    KEY_LDD,
    KEY_STRIDE_X,
    KEY_STRIDE_C,
    KEY_STRIDE_D,
    KEY_EPILOGUE,
    KEY_BETA,
    KEY_TYPE,
    KEY_TF32,
    KEY_ALIGN,
    KEYS
};

/* KEY_TYPE is an enum cuda_type, or this: int8 by int8, int32 sums and results. */
enum { PRODUCT_INT8 = CUDA_BF16 + 1 };

/* One call of cublasLtMatmul. */
struct product {
    int64_t key[KEYS];
    const void *w, *x, *c;
    void *d;
    const void *bias;
};

struct product_plan {
    int64_t key[KEYS];
    bool usable; /* false: cuBLASLt has nothing for it */
    cublasLtMatmulAlgo_t algo;
};

/* What was timed, in this and earlier runs. */
enum tuned_kind { TUNED_PRODUCT, TUNED_ATTENTION, TUNED_EMBED };
enum { TUNED_NUMBERS = 16, TUNED_WORDS = 8 };

struct tuning_key {
    int64_t kind;                   /* enum tuned_kind */
    int64_t version;                /* of the library that was chosen from */
    int64_t numbers[TUNED_NUMBERS]; /* a product's key, or what cuda_choice makes of a shape */
};
struct tuning_row {
    struct tuning_key key;
    uint64_t words[TUNED_WORDS]; /* an algorithm, or cuda_choice's */
};
struct tuning {
    bool off, read, changed;
    char *path; /* NULL: nowhere */
    struct tuning_row *rows;
    size_t count, capacity;
};

/* Whether cuDNN is asked. */
enum cudnn_use { CUDNN_NEVER, CUDNN_LARGE, CUDNN_ALWAYS };

/* The fastest way for a shape: a plan of cuDNN's, or with graph NULL the own kernels. */
struct cuda_choice {
    struct tuning_key key;
    struct dnn_graph *graph;
    int plan;
};

struct cuda {
    struct backend be;
    int device, multiprocessors;
    enum cuda_type type;
    cudaStream_t compute, copy;
    cublasLtHandle_t lt;
    void **blocks; /* all device memory, for closing */
    size_t block_count, block_capacity;
    struct cuda_linear *linears;
    struct cuda_norm *norms;
    struct cuda_table *tables;

    struct cuda_buffer scratch;   /* products before their activation, fp32 probabilities */
    struct cuda_buffer patches;   /* the patch matrix */
    struct cuda_buffer image;     /* normalised pixels, where cuDNN embeds them */
    struct cuda_buffer part;      /* of a read or write, fp32 */
    struct cuda_buffer workspace; /* cuBLASLt's and cuDNN's */
    float *part_host;             /* pinned, part.size */
    size_t part_host_size;

    struct cuda_list list;
    struct cuda_graph graphs[CUDA_GRAPHS];
    uint64_t flushes;
    struct cuda_pixels pixels;
    bool tf32;
    bool int8, quantised; /* precision int8; a linear that came with scales was loaded */
    struct product_plan *plans;
    size_t plan_count, plan_capacity;
    struct tuning tuning;
    enum cudnn_use cudnn;
    struct dnn *dnn; /* NULL: not asked for yet, or not there */
    struct cuda_choice *choices;
    size_t choice_count, choice_capacity;
};

static inline struct cuda *cuda_of(struct backend *be) {
    return (struct cuda *)be;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* "what: the library's sentence". */
static inline enum status cuda_fail(const char *what, cudaError_t error) {
    (void)cudaGetLastError(); /* so that the next call does not return it again */
    return fail(error == cudaErrorMemoryAllocation ? ST_NOMEM : ST_DEVICE, "%s: %s", what,
                cudaGetErrorString(error));
}
static inline enum status lt_fail(const char *what, cublasStatus_t status) {
    return fail(status == CUBLAS_STATUS_ALLOC_FAILED ? ST_NOMEM : ST_DEVICE, "%s: %s", what,
                cublasLtGetStatusString(status));
}

#define CUDA_TRY(what, call)                                                                       \
    do {                                                                                           \
        cudaError_t cuda_error_ = (call);                                                          \
        if (cuda_error_ != cudaSuccess) return cuda_fail(what, cuda_error_);                       \
    } while (0)
#define LT_TRY(what, call)                                                                         \
    do {                                                                                           \
        cublasStatus_t lt_status_ = (call);                                                        \
        if (lt_status_ != CUBLAS_STATUS_SUCCESS) return lt_fail(what, lt_status_);                 \
    } while (0)

/* ---- cuda_backend ---------------------------------------------------------------------------- */

/* ST_NOMEM names `what`, the MiB wanted and those free. */
enum status cuda_alloc(struct cuda *cuda, const char *what, size_t bytes, void **out) MUST_CHECK;
void cuda_free(struct cuda *cuda, void *ptr);
/* At least `bytes`; while planning only noted. Growing waits and forgets every graph. */
enum status cuda_want(struct cuda *cuda, struct cuda_buffer *buffer, size_t bytes) MUST_CHECK;
enum status cuda_wait(struct cuda *cuda) MUST_CHECK;
/* Host bytes to device memory of their own; on return the device has them. */
enum status cuda_upload(struct cuda *cuda, const char *what, const void *host, size_t bytes,
                        void **out) MUST_CHECK;
void cuda_view_of(const struct cuda *cuda, const struct act *a, struct cuda_view *out);

static inline size_t type_bytes(enum cuda_type type) {
    return type == CUDA_FP32 ? 4 : 2;
}

/* ---- cuda_ops -------------------------------------------------------------------------------- */

void cuda_fill_ops(struct backend_ops *ops);

/* Launches one record; lengths: the list's, on the device. The op's name begins a sentence. */
enum status cuda_run_record(struct cuda *cuda, const struct record *record,
                            const int *lengths) MUST_CHECK;
/* What a record needs before it may be launched or captured: memory, a product's algorithm. */
enum status cuda_prepare_record(struct cuda *cuda, const struct record *record) MUST_CHECK;

/* ---- cuda_graphs ----------------------------------------------------------------------------- */

/* A zeroed record at the end of the list; NULL with fail() called. */
struct record *cuda_append(struct cuda *cuda, enum record_kind kind);
void cuda_list_clear(struct cuda *cuda);
void cuda_list_release(struct cuda *cuda);
void cuda_forget_graphs(struct cuda *cuda);
/* Enqueues the list, and empties it; does not wait. */
enum status cuda_flush(struct cuda *cuda) MUST_CHECK;

/* ---- cuda_pixels ----------------------------------------------------------------------------- */

enum status cuda_pixels_reserve(struct cuda *cuda) MUST_CHECK;
/* In front of the list's launch: its pixels to `fixed`. Behind it: the announced ones ahead. */
enum status cuda_pixels_before(struct cuda *cuda) MUST_CHECK;
enum status cuda_pixels_after(struct cuda *cuda) MUST_CHECK;
void cuda_pixels_release(struct cuda *cuda);
void cuda_stage(struct backend *be, const uint8_t *pixels, size_t bytes);

/* ---- linear_cuda ----------------------------------------------------------------------------- */

/* Scratch that a linear may need; more is wanted by cuda_linear_prepare should cuBLASLt refuse. */
size_t cuda_linear_scratch(const struct cuda *cuda, const struct record_linear *call);
enum status cuda_linear_prepare(struct cuda *cuda, const struct record_linear *call) MUST_CHECK;
enum status cuda_linear_run(struct cuda *cuda, const struct record_linear *call) MUST_CHECK;

/* Finds the product's algorithm, unless it is known; *usable false: cuBLASLt has none. */
enum status cuda_plan_product(struct cuda *cuda, const struct product *p, bool *usable) MUST_CHECK;
enum status cuda_run_product(struct cuda *cuda, const struct product *p) MUST_CHECK;
/* ST_DEVICE: the sentence for a product that is not usable. */
enum status cuda_no_product(const struct product *p) MUST_CHECK;

/* ---- linear_int8_cuda ------------------------------------------------------------------------ */

/* Whether this linear is to run in int8; cuda_int8_load then fills weight, pitch and scales. */
bool cuda_int8_takes(const struct cuda *cuda, const struct linear_spec *spec);
/* ST_SHAPE: the weight is no integers times the scales. */
enum status cuda_int8_load(struct cuda *cuda, const struct linear_spec *spec,
                           struct cuda_linear *linear) MUST_CHECK;
/* As the three of linear_cuda, which call these where there are scales. */
size_t cuda_int8_scratch(const struct record_linear *call);
enum status cuda_int8_prepare(struct cuda *cuda, const struct record_linear *call) MUST_CHECK;
enum status cuda_int8_run(struct cuda *cuda, const struct record_linear *call) MUST_CHECK;

/* ---- cuda_embed ------------------------------------------------------------------------------ */

/* The op's numbers; room for its pixels and for the product's way. */
enum status cuda_embed_reserve(struct cuda *cuda, const struct patch_spec *patch,
                               const struct act *tok, struct record_embed *call) MUST_CHECK;
enum status cuda_embed_prepare(struct cuda *cuda, const struct record_embed *call) MUST_CHECK;
enum status cuda_embed_run(struct cuda *cuda, const struct record_embed *call) MUST_CHECK;

/* ---- cuda_choice ----------------------------------------------------------------------------- */

/* An op that cuDNN does as well. */
struct cuda_contest {
    struct tuning_key key;        /* version: cuda_choose and cuda_chosen put it in */
    const void *call;             /* the op's, for the two below */
    struct cuda_view *outputs[2]; /* of the call: timing lets them write to memory of its own */
    enum status (*open)(struct cuda *cuda, const void *call, struct dnn_graph **out);
    enum status (*run)(struct cuda *cuda, const void *call, const struct cuda_choice *way);
};
/* Whether cuDNN may be asked for an op; `large`: by a shape that is worth opening it. */
bool cuda_choice_open(const struct cuda *cuda, bool large);
/* Known from this run, from disk, or now by timing; *out NULL: there is no cuDNN. */
enum status cuda_choose(struct cuda *cuda, struct cuda_contest *contest,
                        const struct cuda_choice **out) MUST_CHECK;
/* What was chosen for the key; NULL: nothing was. */
const struct cuda_choice *cuda_chosen(const struct cuda *cuda, struct tuning_key *key);
/* Attention that cuDNN may do: the choice made, or made use of. *done false: it is not for it. */
enum status cuda_choose_attention(struct cuda *cuda,
                                  const struct record_attention *call) MUST_CHECK;
enum status cuda_chosen_attention(struct cuda *cuda, const struct record_attention *call,
                                  bool *done) MUST_CHECK;
void cuda_choice_release(struct cuda *cuda);

/* ---- cuda_tuning ----------------------------------------------------------------------------- */

void tuning_open(struct cuda *cuda, const char *device_name);
const struct tuning_row *tuning_find(struct tuning *tuning, const struct tuning_key *key);
/* Kept in memory; tuning_write puts it on disk. Both may fail in silence: it is a cache. */
void tuning_keep(struct tuning *tuning, const struct tuning_row *row);
void tuning_write(struct tuning *tuning);
void tuning_release(struct tuning *tuning);
/*
 * Milliseconds that `run` takes on the compute stream, of some runs after one that is not counted;
 * below 0: it does not run. Waits.
 */
float tuning_time(struct cuda *cuda, enum status (*run)(struct cuda *cuda, const void *call),
                  const void *call);

/* ---- peak_cuda ------------------------------------------------------------------------------- */

/* `rounds` of multiply-adds in `blocks` blocks; *operations: how many FLOPs that is. */
enum status cuda_peak_run(float *sink, int blocks, int rounds, double *operations,
                          void *stream) MUST_CHECK;

#endif
