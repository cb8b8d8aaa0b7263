/*
 * cuda_embed: the patch embedding, pixels (B, H, W, 3) uint8 -> tok (B, N, C), the faster of
 *
 *   product       pixels -> patch matrix (B, N, 3*ph*pw) -> cuBLASLt, + bias
 *   convolution   pixels -> normalised (B, H*W, 4) -> cuDNN's convolution of stride = patch, + bias
 *
 * The matrix is 6 bytes a pixel in 16 bits, the pixels for cuDNN are 8: a fourth channel of zeros
 * keeps a pixel in one 8-byte load, and cuDNN has plans for it wherever it has some for the usual 8
 * channels (test_cuda_dnn asks sm_75 to sm_100). In turn the matrix is written in another order
 * than pixels are read. Which one wins is a question of the shape, so both are timed
 * (cuda_choice); asked are batches that pay for opening cuDNN. FLOPs 2*B*N*C*3*ph*pw. Not yet timed
 * on a GPU.
 */
#include "kernels/cuda_backend.cuh"

enum { CHUNK = 8, ALIGNMENT = 16 };
static const size_t LARGE = (size_t)8 * 224 * 224; /* pixels of a batch */

/* ---- by a product ---------------------------------------------------------------------------- */

static void product_of(const struct cuda *cuda, const struct record_embed *call,
                       struct record_linear *product) {
    memset(product, 0, sizeof *product);
    product->linear = call->proj;
    product->epilogue = EPILOGUE_NONE;
    product->x = call->patches;
    product->x.data = cuda->patches.data;
    product->y = call->tok;
}

static void views_of(const struct cuda *cuda, struct record_embed *call) {
    struct cuda_view *patches = &call->patches, *image = &call->image;
    const size_t chunk = 16 / cuda->be.act_size, width = (size_t)call->proj->head.in;
    patches->batch = image->batch = call->tok.batch;
    patches->tokens = call->tok.tokens;
    patches->channels = call->proj->head.in;
    patches->pitch = (width + chunk - 1) / chunk * chunk;
    patches->stride = (size_t)patches->tokens * patches->pitch;
    image->tokens = call->spec.image_h * call->spec.image_w;
    image->channels = CUDA_PIXEL;
    image->pitch = CUDA_PIXEL;
    image->stride = (size_t)image->tokens * image->pitch;
}

enum status cuda_embed_reserve(struct cuda *cuda, const struct patch_spec *patch,
                               const struct act *tok, struct record_embed *call) {
    const size_t pixels = (size_t)patch->image_h * (size_t)patch->image_w;
    struct record_linear product;
    size_t bytes;
    if (!size_mul(pixels, 3 * (size_t)tok->batch, &bytes))
        return fail(ST_NOMEM, "the pixels' size does not fit into memory");
    memset(call, 0, sizeof *call);
    call->spec = *patch;
    call->spec.proj = NULL;
    call->proj = (const struct cuda_linear *)patch->proj;
    cuda_view_of(cuda, tok, &call->tok);
    views_of(cuda, call);
    product_of(cuda, call, &product);
    TRY(cuda_want(cuda, &cuda->scratch, cuda_linear_scratch(cuda, &product)));
    TRY(cuda_want(cuda, &cuda->patches,
                  (size_t)tok->batch * call->patches.stride * cuda->be.act_size));
    if (bytes > cuda->pixels.wanted) cuda->pixels.wanted = bytes;
    return cuda->be.planning ? ST_OK : cuda_pixels_reserve(cuda);
}

static enum status multiply(struct cuda *cuda, const struct record_embed *call) {
    struct record_linear product;
    product_of(cuda, call, &product);
    TRY(cuda_patches(cuda->type, &call->spec, cuda->pixels.fixed, &product.x, cuda->compute));
    return cuda_linear_run(cuda, &product);
}

/* ---- by a convolution ------------------------------------------------------------------------ */

static bool takes(const struct cuda *cuda, const struct record_embed *call) {
    const struct cuda_view *y = &call->tok;
    const size_t pixels = (size_t)call->image.batch * (size_t)call->image.tokens;
    const struct cuda_linear *proj = call->proj;
    return cuda_choice_open(cuda, pixels >= LARGE) && y->channels % CHUNK == 0 &&
           y->pitch % CHUNK == 0 && (y->batch == 1 || y->stride % CHUNK == 0) &&
           (uintptr_t)y->data % ALIGNMENT == 0 &&
           (proj->filter == NULL || proj->filter_h == call->spec.patch_h);
}

/* The weight as the convolution takes it, made once. */
static enum status want_filter(struct cuda *cuda, const struct record_embed *call) {
    struct cuda_linear *proj = (struct cuda_linear *)(uintptr_t)call->proj;
    const int ph = call->spec.patch_h, pw = call->spec.patch_w;
    const size_t taps = (size_t)ph * (size_t)pw * CUDA_PIXEL;
    void *filter;
    if (proj->filter != NULL) return ST_OK;
    TRY(cuda_alloc(cuda, proj->head.name, (size_t)proj->head.out * taps * cuda->be.act_size,
                   &filter));
    TRY(cuda_filter(cuda->type, proj->weight, proj->pitch, proj->head.out, ph, pw, filter,
                    cuda->compute));
    proj->filter = filter;
    proj->filter_h = ph;
    return ST_OK;
}

static enum status open_conv(struct cuda *cuda, const void *record, struct dnn_graph **out) {
    const struct record_embed *call = (const struct record_embed *)record;
    struct dnn_conv conv;
    dnn_conv_of_patches(cuda->type, &call->spec, &call->image, &call->tok, &conv);
    conv.bias = call->proj->bias != NULL;
    TRY(want_filter(cuda, call));
    return dnn_conv_open(cuda->dnn, &conv, out);
}

static enum status convolve(struct cuda *cuda, const struct record_embed *call,
                            const struct cuda_choice *way) {
    struct cuda_view image = call->image;
    struct dnn_data data;
    if (image.data == NULL) image.data = cuda->image.data;
    memset(&data, 0, sizeof data);
    data.x = image.data;
    data.filter = call->proj->filter;
    data.bias = call->proj->bias;
    data.y = call->tok.data;
    data.workspace = cuda->workspace.data;
    TRY(cuda_normalise(cuda->type, &call->spec, cuda->pixels.fixed, &image, cuda->compute));
    return dnn_run(way->graph, way->plan, &data, cuda->compute);
}

/* ---- the faster one -------------------------------------------------------------------------- */

static enum status embed(struct cuda *cuda, const void *record, const struct cuda_choice *way) {
    const struct record_embed *call = (const struct record_embed *)record;
    return way->graph == NULL ? multiply(cuda, call) : convolve(cuda, call, way);
}

/* The product's library decides as well. */
static void embed_key(const struct cuda *cuda, const struct record_embed *call,
                      struct tuning_key *key) {
    const struct cuda_view *tok = &call->tok;
    int64_t *to = key->numbers;
    memset(key, 0, sizeof *key);
    key->kind = TUNED_EMBED;
    *to++ = cuda->type;
    *to++ = (int64_t)cublasLtGetVersion();
    *to++ = tok->batch;
    *to++ = call->spec.image_h;
    *to++ = call->spec.image_w;
    *to++ = call->spec.patch_h;
    *to++ = call->spec.patch_w;
    *to++ = tok->channels;
    *to++ = (int64_t)tok->pitch;
    *to++ = tok->batch > 1 ? (int64_t)tok->stride : 0;
    *to++ = call->proj->bias != NULL;
}

enum status cuda_embed_prepare(struct cuda *cuda, const struct record_embed *call) {
    const struct cuda_choice *choice = NULL;
    struct record_embed trial = *call;
    struct record_linear product;
    struct cuda_contest contest;
    product_of(cuda, call, &product);
    TRY(cuda_linear_prepare(cuda, &product));
    if (!takes(cuda, call)) return ST_OK;
    memset(&contest, 0, sizeof contest);
    embed_key(cuda, call, &contest.key);
    contest.call = &trial;
    contest.outputs[0] = &trial.tok;
    contest.outputs[1] = &trial.image;
    contest.open = open_conv;
    contest.run = embed;
    TRY(cuda_choose(cuda, &contest, &choice));
    if (choice == NULL || choice->graph == NULL) return ST_OK;
    TRY(want_filter(cuda, call)); /* the choice may have been another model's */
    return cuda_want(cuda, &cuda->image,
                     (size_t)call->image.batch * call->image.stride * cuda->be.act_size);
}

enum status cuda_embed_run(struct cuda *cuda, const struct record_embed *call) {
    const struct cuda_choice *choice = NULL;
    struct tuning_key key;
    if (takes(cuda, call)) {
        embed_key(cuda, call, &key);
        choice = cuda_chosen(cuda, &key);
    }
    return choice == NULL ? multiply(cuda, call) : embed(cuda, call, choice);
}
