/*
 * backend: the public functions of ops.h. Shapes are checked here, once for all devices; the first
 * error is kept with its op's name; then the device's table (backend.h) does the work.
 */
#include "kernels/backend.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "kernels/library.h"
#include "kernels/relative.h"

/* ---- the device ------------------------------------------------------------------------------ */

static bool is_gpu_name(const char *device, int *number) {
    long value = 0;
    bool named = strcmp(device, "cuda") == 0 ||
                 (strncmp(device, "cuda:", 5) == 0 && parse_long(device + 5, 0, 1023, &value));
    *number = (int)value;
    return named;
}

/*
 * The CUDA backend's library stays loaded: its driver would not like to be taken away. Without a
 * driver it is not looked at: cuBLASLt, which comes with it, costs 0.3 s and 200 MiB.
 */
static enum status open_cuda(int number, const char *precision, struct backend **out) {
    enum status (*opener)(int, const char *, struct backend **);
    void *symbol;
    if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL))
        return fail(ST_DEVICE, "no NVIDIA driver is installed (libcuda.so.1)");
    TRY(library_function("libvitrine_cuda.so", "vitrine_cuda_open", &symbol));
    memcpy(&opener, &symbol, sizeof opener);
    return opener(number, precision, out);
}

/* A GPU if one answers, else the CPU, whose line then says why. */
static enum status open_auto(const char *precision, int threads, struct backend **out) {
    char reason[200];
    size_t used;
    if (open_cuda(0, precision, out) == ST_OK) return ST_OK;
    snprintf(reason, sizeof reason, "%s", fail_message());
    TRY(cpu_open(precision ? precision : "fp32", threads, out));
    used = strlen((*out)->description);
    snprintf((*out)->description + used, sizeof(*out)->description - used, " (no GPU: %s)", reason);
    return ST_OK;
}

enum status backend_open(const struct backend_options *options, struct backend **out) {
    static const char *const precisions[] = {"fp32", "bf16", "fp16", "int8"};
    const char *device = options->device ? options->device : "auto";
    const char *precision = options->precision;
    bool known = !precision;
    int number;
    *out = NULL;
    for (size_t i = 0; precision && i < COUNT_OF(precisions); i++)
        known |= strcmp(precision, precisions[i]) == 0;
    if (!known)
        return fail(ST_USAGE, "precision '%s' is unknown, want fp32, bf16, fp16 or int8",
                    precision);
    if (options->threads < 0)
        return fail(ST_USAGE, "threads: %d given, want 0 or more", options->threads);
    if (is_gpu_name(device, &number)) {
        enum status st = open_cuda(number, precision, out);
        char prefix[64];
        snprintf(prefix, sizeof prefix, "device %s", device);
        return st == ST_OK ? ST_OK : fail_prefix(st, prefix);
    }
    if (strcmp(device, "auto") == 0) return open_auto(precision, options->threads, out);
    if (strcmp(device, "cpu") == 0)
        return cpu_open(precision ? precision : "fp32", options->threads, out);
    return fail(ST_USAGE, "device '%s' is unknown, want auto, cpu, cuda or cuda:N", device);
}

void backend_close(struct backend *be) {
    if (be) be->ops->close(be);
}

const char *backend_describe(const struct backend *be) {
    return be->description;
}

const char *backend_precision(const struct backend *be) {
    return be->precision;
}

bool backend_is_gpu(const struct backend *be) {
    return be->gpu;
}

/* ---- errors ---------------------------------------------------------------------------------- */

void backend_settle(struct backend *be, const char *op, enum status st) {
    if (st == ST_OK || be->error != ST_OK) return;
    be->error = st;
    snprintf(be->sentence, sizeof be->sentence, "%s%s%s", op ? op : "", op ? ": " : "",
             fail_message());
}

static enum status take_error(struct backend *be) {
    enum status st = be->error;
    be->error = ST_OK;
    return st == ST_OK ? ST_OK : fail(st, "%s", be->sentence);
}

double backend_peak(struct backend *be) {
    return be->ops->peak ? be->ops->peak(be) : 0;
}

enum status backend_sync(struct backend *be) {
    backend_settle(be, NULL, be->ops->sync(be));
    return take_error(be);
}

void backend_plan_begin(struct backend *be) {
    if (be->ops->plan_begin) be->ops->plan_begin(be);
    be->planning = true;
}

enum status backend_plan_end(struct backend *be) {
    be->planning = false;
    backend_settle(be, NULL, be->ops->plan_end(be));
    return take_error(be);
}

enum status backend_reserve(struct backend *be, struct arena *arena, const char *what) {
    return be->ops->reserve(be, arena, what);
}

void backend_release_arena(struct backend *be, struct arena *arena) {
    be->ops->release(be, arena);
}

/* ---- activations ----------------------------------------------------------------------------- */

struct act act_take(struct backend *be, struct arena *arena, int batch, int tokens, int channels) {
    struct act a = {.batch = batch, .tokens = tokens, .channels = channels};
    size_t count = 0;
    if (batch < 1 || tokens < 1 || channels < 1 ||
        !size_mul((size_t)batch * (size_t)tokens, (size_t)channels, &count)) {
        arena->overflow = true;
        return (struct act){0};
    }
    a.data = arena_take(arena, count, be->act_size);
    a.pitch = (size_t)channels;
    a.stride = (size_t)tokens * (size_t)channels;
    return a;
}

/* A view that cannot be becomes empty, and the next op refuses it. */
static struct act cut(struct act a, size_t offset, bool fits) {
    if (!fits) return (struct act){0};
    a.offset += offset;
    return a;
}

struct act act_rows(struct act a, int first, int count) {
    bool fits = first >= 0 && count >= 1 && first <= a.tokens - count;
    a.tokens = count;
    return cut(a, (size_t)first * a.pitch, fits);
}

struct act act_columns(struct act a, int first, int count) {
    bool fits = first >= 0 && count >= 1 && first <= a.channels - count;
    a.channels = count;
    return cut(a, (size_t)first, fits);
}

struct act act_batch(struct act a, int batch) {
    bool fits = batch >= 1 && batch <= a.batch;
    a.batch = batch;
    return cut(a, 0, fits);
}

struct act act_front(struct act a, int tokens, int channels) {
    bool dense = a.pitch == (size_t)a.channels && a.stride == (size_t)a.tokens * (size_t)a.channels;
    bool fits = dense && tokens >= 1 && channels >= 1 &&
                (size_t)tokens * (size_t)channels <= (size_t)a.tokens * (size_t)a.channels;
    a.tokens = tokens;
    a.channels = channels;
    a.pitch = (size_t)channels;
    a.stride = (size_t)tokens * (size_t)channels;
    return cut(a, 0, fits);
}

struct act act_reshape(struct act a, int tokens, int channels) {
    return act_front(a, tokens, (size_t)tokens * (size_t)channels == a.stride ? channels : 0);
}

/* ---- checks ---------------------------------------------------------------------------------- */

enum status backend_check_act(const struct backend *be, const char *what, const struct act *a,
                              int batch, int tokens, int channels) {
    if (a->batch < 1 || a->tokens < 1 || a->channels < 1)
        return fail(ST_SHAPE, "%s is (%d, %d, %d), every size must be at least 1", what, a->batch,
                    a->tokens, a->channels);
    if ((batch >= 0 && a->batch != batch) || (tokens >= 0 && a->tokens != tokens) ||
        (channels >= 0 && a->channels != channels))
        return fail(ST_SHAPE, "%s is (%d, %d, %d), want (%d, %d, %d)", what, a->batch, a->tokens,
                    a->channels, batch < 0 ? a->batch : batch, tokens < 0 ? a->tokens : tokens,
                    channels < 0 ? a->channels : channels);
    if (a->pitch < (size_t)a->channels ||
        (a->batch > 1 && a->stride < (size_t)(a->tokens - 1) * a->pitch + (size_t)a->channels))
        return fail(ST_SHAPE, "%s is (%d, %d, %d) with pitch %zu and stride %zu: its rows overlap",
                    what, a->batch, a->tokens, a->channels, a->pitch, a->stride);
    if (!a->data && !be->planning) return fail(ST_SHAPE, "%s has no memory", what);
    return ST_OK;
}

static enum status check_table(const char *what, const struct table *table, size_t count) {
    if (table->count == count) return ST_OK;
    return fail(ST_SHAPE, "%s has %zu values, want %zu", what, table->count, count);
}

/* Both views begin at the same element: the one overlap that is a mistake for certain. */
static bool same_place(const struct act *a, const struct act *b) {
    return a->data && a->data == b->data && a->offset == b->offset;
}

void backend_read(struct backend *be, struct act a, float *host) {
    enum status st;
    if (be->error != ST_OK) return;
    st = backend_check_act(be, "the source", &a, -1, -1, -1);
    backend_settle(be, "read", st == ST_OK && !be->planning ? be->ops->read(be, &a, host) : st);
}

const float *backend_view(struct backend *be, struct act a, float *host) {
    if (be->error != ST_OK || be->planning) return NULL;
    if (!be->gpu) return a.data ? (const float *)a.data + a.offset : NULL;
    backend_read(be, a, host);
    return be->error == ST_OK ? host : NULL;
}

void backend_write(struct backend *be, const float *host, struct act a) {
    enum status st;
    if (be->error != ST_OK) return;
    st = backend_check_act(be, "the destination", &a, -1, -1, -1);
    backend_settle(be, "write", st == ST_OK && !be->planning ? be->ops->write(be, host, &a) : st);
}

void backend_stage(struct backend *be, const uint8_t *pixels, size_t bytes) {
    if (be->ops->stage && be->error == ST_OK && pixels) be->ops->stage(be, pixels, bytes);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* W^T (in, out) as a linear of its own, for op_linear_backward. */
static enum status load_transposed(struct backend *be, const struct linear_spec *spec,
                                   struct linear *linear) {
    const size_t in = (size_t)spec->in, out = (size_t)spec->out;
    float *weight = mem_zalloc(in * out, sizeof *weight); // (in, out)
    struct linear_spec transposed = {
        .name = spec->name, .in = spec->out, .out = spec->in, .weight = weight, .rows = spec->rows};
    enum status st;
    if (!weight) return ST_NOMEM;
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++)
            weight[i * out + o] = spec->weight[o * in + i];
    st = be->ops->linear_load(be, &transposed, &linear->transposed);
    mem_free(weight);
    return st;
}

enum status linear_load(struct backend *be, const struct linear_spec *spec, struct linear **out) {
    size_t count;
    *out = NULL;
    if (spec->in < 1 || spec->out < 1 || !spec->weight ||
        !size_mul((size_t)spec->in, (size_t)spec->out, &count) || count > SIZE_MAX / 16)
        return fail(ST_SHAPE, "linear %s: %s(%d, %d) is no weight", spec->name,
                    spec->weight ? "" : "no values for ", spec->out, spec->in);
    TRY(be->ops->linear_load(be, spec, out));
    return spec->backward ? load_transposed(be, spec, *out) : ST_OK;
}

enum status norm_load(struct backend *be, const struct norm_spec *spec, struct norm **out) {
    *out = NULL;
    if (spec->width < 1) return fail(ST_SHAPE, "norm: width %d, want at least 1", spec->width);
    if (!(spec->eps >= 0 && spec->eps < 1))
        return fail(ST_SHAPE, "norm: eps %g, want 0 to 1", (double)spec->eps);
    return be->ops->norm_load(be, spec, out);
}

enum status table_load(struct backend *be, const float *values, size_t count, struct table **out) {
    *out = NULL;
    if (count < 1 || !values) return fail(ST_SHAPE, "table: no values");
    return be->ops->table_load(be, values, count, out);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static enum status check_patch(const struct backend *be, const struct patch_spec *patch,
                               const uint8_t *pixels, const struct act *tok) {
    if (patch->patch_h < 1 || patch->patch_w < 1 || patch->image_h < patch->patch_h ||
        patch->image_w < patch->patch_w || patch->image_h % patch->patch_h ||
        patch->image_w % patch->patch_w)
        return fail(ST_SHAPE, "image %dx%d is no whole number of patches %dx%d", patch->image_h,
                    patch->image_w, patch->patch_h, patch->patch_w);
    if ((int64_t)patch->proj->in != (int64_t)3 * patch->patch_h * patch->patch_w)
        return fail(ST_SHAPE, "%s takes %d values, a patch %dx%d has %lld", patch->proj->name,
                    patch->proj->in, patch->patch_h, patch->patch_w,
                    3LL * patch->patch_h * patch->patch_w);
    for (int i = 0; i < 3; i++)
        if (!(patch->std[i] > 0))
            return fail(ST_SHAPE, "std of channel %d is %g, want more than 0", i,
                        (double)patch->std[i]);
    if (!pixels && !be->planning) return fail(ST_SHAPE, "no pixels");
    return backend_check_act(be, "tok", tok, -1,
                             patch->image_h / patch->patch_h * (patch->image_w / patch->patch_w),
                             patch->proj->out);
}

void op_patch_embed(struct backend *be, const struct patch_spec *patch, const uint8_t *pixels,
                    struct act tok) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_patch(be, patch, pixels, &tok);
    backend_settle(be, "patch_embed",
                   st == ST_OK ? be->ops->patch_embed(be, patch, pixels, &tok) : st);
}

static enum status check_assemble(const struct backend *be, const struct table *prefix,
                                  const struct table *pos, const struct act *tok,
                                  const struct act *h) {
    int tokens = 0;
    TRY(backend_check_act(be, "tok", tok, -1, -1, -1));
    if (prefix) {
        if (prefix->count % (size_t)tok->channels || prefix->count > INT32_MAX)
            return fail(ST_SHAPE, "the prefix has %zu values, want rows of %d", prefix->count,
                        tok->channels);
        tokens = (int)(prefix->count / (size_t)tok->channels);
    }
    if (tokens > INT32_MAX - tok->tokens) return fail(ST_SHAPE, "too many tokens");
    TRY(backend_check_act(be, "h", h, tok->batch, tokens + tok->tokens, tok->channels));
    if (same_place(tok, h)) return fail(ST_SHAPE, "h is tok, want other memory");
    return pos ? check_table("pos", pos, (size_t)tok->tokens * (size_t)tok->channels) : ST_OK;
}

void op_assemble(struct backend *be, const struct table *prefix, const struct table *pos,
                 struct act tok, struct act h) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_assemble(be, prefix, pos, &tok, &h);
    backend_settle(be, "assemble", st == ST_OK ? be->ops->assemble(be, prefix, pos, &tok, &h) : st);
}

static enum status check_layernorm(const struct backend *be, const struct norm *norm,
                                   const struct act *x, const struct act *residual,
                                   const struct act *y) {
    TRY(backend_check_act(be, "x", x, -1, -1, -1));
    if (x->channels % norm->width)
        return fail(ST_SHAPE, "x is (%d, %d, %d), want channels in groups of %d", x->batch,
                    x->tokens, x->channels, norm->width);
    if (residual)
        TRY(backend_check_act(be, "the residual", residual, x->batch, x->tokens, x->channels));
    return backend_check_act(be, "y", y, x->batch, x->tokens, x->channels);
}

void op_layernorm(struct backend *be, const struct norm *norm, struct act x,
                  const struct act *residual, struct act y) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_layernorm(be, norm, &x, residual, &y);
    backend_settle(be, "layernorm",
                   st == ST_OK ? be->ops->layernorm(be, norm, &x, residual, &y) : st);
}

static enum status check_linear(const struct backend *be, const struct linear *linear,
                                enum epilogue epilogue, const struct act *x,
                                const struct act *residual, const struct act *y) {
    int out = epilogue == EPILOGUE_SWIGLU ? linear->out / 2 : linear->out;
    if ((unsigned)epilogue > EPILOGUE_SWIGLU)
        return fail(ST_SHAPE, "epilogue %d is unknown", (int)epilogue);
    if (epilogue == EPILOGUE_SWIGLU && linear->out % 2)
        return fail(ST_SHAPE, "SwiGLU wants an even number of outputs, there are %d", linear->out);
    TRY(backend_check_act(be, "x", x, -1, -1, linear->in));
    if (residual) TRY(backend_check_act(be, "the residual", residual, x->batch, x->tokens, out));
    TRY(backend_check_act(be, "y", y, x->batch, x->tokens, out));
    return same_place(x, y) ? fail(ST_SHAPE, "y is x, want other memory") : ST_OK;
}

void op_linear(struct backend *be, const struct linear *linear, enum epilogue epilogue,
               struct act x, const struct act *residual, struct act y) {
    char op[80];
    enum status st;
    if (be->error != ST_OK) return;
    st = check_linear(be, linear, epilogue, &x, residual, &y);
    if (st == ST_OK) st = be->ops->linear(be, linear, epilogue, &x, residual, &y);
    if (st == ST_OK) return;
    snprintf(op, sizeof op, "linear %s", linear->name);
    backend_settle(be, op, st);
}

static enum status check_patch_merge(const struct backend *be, const struct norm *norm,
                                     const struct act *x, int grid_h, int grid_w,
                                     const struct act *y) {
    TRY(backend_check_act(be, "x", x, -1, -1, -1));
    if (grid_h < 1 || grid_w < 1 || (int64_t)grid_h * grid_w != x->tokens)
        return fail(ST_SHAPE, "a map of %dx%d, but %d tokens", grid_h, grid_w, x->tokens);
    if (x->channels > INT32_MAX / 4) return fail(ST_SHAPE, "%d channels", x->channels);
    if (norm && norm->width != 4 * x->channels)
        return fail(ST_SHAPE, "a norm of %d for 4 * %d channels", norm->width, x->channels);
    TRY(backend_check_act(be, "y", y, x->batch, (grid_h + 1) / 2 * ((grid_w + 1) / 2),
                          4 * x->channels));
    return same_place(x, y) ? fail(ST_SHAPE, "y is x, want other memory") : ST_OK;
}

void op_patch_merge(struct backend *be, const struct norm *norm, struct act x, int grid_h,
                    int grid_w, struct act y) {
    enum status st;
    if (be->error != ST_OK) return;
    st = check_patch_merge(be, norm, &x, grid_h, grid_w, &y);
    backend_settle(be, "patch_merge",
                   st == ST_OK ? be->ops->patch_merge(be, norm, &x, grid_h, grid_w, &y) : st);
}

void op_mean(struct backend *be, struct act x, struct act y) {
    enum status st;
    if (be->error != ST_OK) return;
    st = backend_check_act(be, "x", &x, -1, -1, -1);
    if (st == ST_OK) st = backend_check_act(be, "y", &y, x.batch, 1, x.channels);
    if (st == ST_OK && same_place(&x, &y)) st = fail(ST_SHAPE, "y is x, want other memory");
    backend_settle(be, "mean", st == ST_OK ? be->ops->mean(be, &x, &y) : st);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Of a window's sides: what counts slots and entries stays far inside an int. */
#define WINDOW_MOST RELATIVE_MAX_SIDE

static enum status check_map(const struct attention *desc, const struct act *q,
                             const struct act *k) {
    if (desc->grid_h < 1 || desc->grid_w < 1 || (int64_t)desc->grid_h * desc->grid_w != q->tokens ||
        q->tokens != k->tokens)
        return fail(ST_SHAPE, "a map of %dx%d, but %d queries and %d keys", desc->grid_h,
                    desc->grid_w, q->tokens, k->tokens);
    return ST_OK;
}

/* The tokens that a bias table is for, in front and on the map: the keys; queries are the first. */
static enum status check_prefixed_map(const struct attention *desc, const struct act *q,
                                      const struct act *k) {
    int64_t most = RELATIVE_MAX_SIDE, h = desc->grid_h, w = desc->grid_w, prefix = desc->prefix;
    if (h < 1 || h > most || w < 1 || w > most || prefix < 0 || prefix + h * w != k->tokens ||
        q->tokens > k->tokens)
        return fail(ST_SHAPE, "a map of %dx%d behind %d tokens, but %d queries and %d keys",
                    desc->grid_h, desc->grid_w, desc->prefix, q->tokens, k->tokens);
    return ST_OK;
}

static enum status check_pattern(const struct attention *desc, const struct act *q,
                                 const struct act *k) {
    switch (desc->pattern) {
    case PATTERN_FULL: return desc->bias ? check_prefixed_map(desc, q, k) : ST_OK;
    case PATTERN_AXIAL: return check_map(desc, q, k);
    case PATTERN_WINDOW:
        if (desc->window_h < 1 || desc->window_h > WINDOW_MOST || desc->window_w < 1 ||
            desc->window_w > WINDOW_MOST || desc->shift_h < 0 || desc->shift_h >= desc->window_h ||
            desc->shift_w < 0 || desc->shift_w >= desc->window_w)
            return fail(ST_SHAPE, "window %dx%d with shift %d, %d, want 0 <= shift < window",
                        desc->window_h, desc->window_w, desc->shift_h, desc->shift_w);
        return check_map(desc, q, k);
    case PATTERN_GLOBAL_LOCAL:
        if (desc->globals < 0 || desc->globals > q->tokens)
            return fail(ST_SHAPE, "%d global tokens of %d", desc->globals, q->tokens);
        /* fall through */
    case PATTERN_LOCAL:
        if (desc->reach < 0) return fail(ST_SHAPE, "a reach of %d, want 0 or more", desc->reach);
        /* fall through */
    case PATTERN_CAUSAL:
        if (q->tokens != k->tokens)
            return fail(ST_SHAPE, "%d queries and %d keys, want as many", q->tokens, k->tokens);
        return ST_OK;
    }
    return fail(ST_SHAPE, "pattern %d is unknown", (int)desc->pattern);
}

static size_t bias_entries(const struct attention *desc) {
    if (desc->pattern == PATTERN_WINDOW)
        return (size_t)relative_entries(desc->window_h, desc->window_w, 0);
    return (size_t)relative_entries(desc->grid_h, desc->grid_w, desc->prefix);
}

/* bias (H, entries), padding (2, H*D), temperature (H), lengths (B) in 1..Tk. */
static enum status check_attention_tables(const struct attention *desc, const struct act *k) {
    if (desc->score == SCORE_COSINE) {
        if (!desc->temperature) return fail(ST_SHAPE, "a cosine score without temperatures");
        TRY(check_table("temperature", desc->temperature, (size_t)desc->heads));
    }
    if (desc->bias) {
        if (desc->pattern != PATTERN_WINDOW && desc->pattern != PATTERN_FULL)
            return fail(ST_SHAPE, "a bias table without windows or a whole map");
        TRY(check_table("bias", desc->bias, (size_t)desc->heads * bias_entries(desc)));
    }
    if (desc->padding) {
        if (desc->pattern != PATTERN_WINDOW) return fail(ST_SHAPE, "padding without windows");
        TRY(check_table("padding", desc->padding, 2 * (size_t)k->channels));
    }
    if (!desc->lengths) return ST_OK;
    if (desc->pattern == PATTERN_WINDOW || desc->pattern == PATTERN_AXIAL)
        return fail(ST_SHAPE, "lengths on a map");
    for (int i = 0; i < k->batch; i++)
        if (desc->lengths[i] < 1 || desc->lengths[i] > k->tokens)
            return fail(ST_SHAPE, "length %d of image %d, want 1 to %d", desc->lengths[i], i,
                        k->tokens);
    return ST_OK;
}

/*
 * probs (B, H*Tq, Tk), or (B, windows*H*N, N) in window order; greatest (B, H, Tq), or (B,
 * windows*H, N).
 */
static enum status check_probs(const struct backend *be, const struct attention *desc,
                               const struct act *q, const struct act *k) {
    int64_t softmaxes = desc->heads, queries = q->tokens, columns = k->tokens;
    if (!desc->probs)
        return desc->greatest ? fail(ST_SHAPE, "greatest scores without probabilities") : ST_OK;
    if (desc->pattern == PATTERN_WINDOW) {
        int64_t mh = desc->window_h, mw = desc->window_w;
        queries = columns = mh * mw;
        softmaxes = (desc->grid_h + mh - 1) / mh * ((desc->grid_w + mw - 1) / mw) * desc->heads;
    }
    if (softmaxes > INT32_MAX / queries)
        return fail(ST_SHAPE, "the probabilities have more than 2^31 rows");
    TRY(backend_check_act(be, "probs", desc->probs, q->batch, (int)(softmaxes * queries),
                          (int)columns));
    if (!desc->greatest) return ST_OK;
    return backend_check_act(be, "greatest", desc->greatest, q->batch, (int)softmaxes,
                             (int)queries);
}

enum status backend_check_attention(const struct backend *be, const struct attention *desc,
                                    const struct act *q, const struct act *k, const struct act *v,
                                    const struct act *y) {
    int width;
    if (desc->heads < 1 || desc->head_dim < 1 || desc->heads > INT32_MAX / desc->head_dim)
        return fail(ST_SHAPE, "%d heads of width %d", desc->heads, desc->head_dim);
    width = desc->heads * desc->head_dim;
    TRY(backend_check_act(be, "q", q, -1, -1, width));
    TRY(backend_check_act(be, "k", k, q->batch, -1, width));
    TRY(backend_check_act(be, "v", v, q->batch, k->tokens, width));
    TRY(backend_check_act(be, "y", y, q->batch, q->tokens, width));
    if (same_place(y, q) || same_place(y, k) || same_place(y, v))
        return fail(ST_SHAPE, "y is an input, want other memory");
    if (desc->score != SCORE_DOT && desc->score != SCORE_COSINE)
        return fail(ST_SHAPE, "score %d is unknown", (int)desc->score);
    TRY(check_pattern(desc, q, k));
    TRY(check_attention_tables(desc, k));
    return check_probs(be, desc, q, k);
}

void op_attention(struct backend *be, const struct attention *desc, struct act q, struct act k,
                  struct act v, struct act y) {
    enum status st;
    if (be->error != ST_OK) return;
    st = backend_check_attention(be, desc, &q, &k, &v, &y);
    backend_settle(be, "attention",
                   st == ST_OK ? be->ops->attention(be, desc, &q, &k, &v, &y) : st);
}
