/*
 * tokens_cuda: token assembly, the mean over tokens, patches out of pixels, and views to and from
 * dense fp32. All move memory and little else: a thread takes a chunk of 16 bytes (assembly) or an
 * element. Not yet timed on a GPU.
 *   assemble   tok (B, N, C), prefix (P, C), pos (N, C) -> h (B, P+N, C)
 *   mean       x (B, T, C) -> y (B, 1, C): 8 warps take every eighth token, then meet in order
 *   patches    pixels (B, H, W, 3) uint8 -> (B, N, 3*ph*pw), normalised
 *   normalise  pixels (B, H, W, 3) uint8 -> (B, H*W, 4), the fourth 0; a thread takes two pixels
 *   filter     weight (C, 3*ph*pw) -> (C, ph, pw, 4), the fourth 0
 */
#include "kernels/rows_cuda.cuh"

enum { THREADS = 256, MEAN_WARPS = 8 };

/* ---- assembly -------------------------------------------------------------------------------- */

struct assembly {
    const float *prefix, *pos; /* (P, C), (N, C) or NULL */
    int prefixes, tokens, channels;
    size_t tok_pitch, tok_stride, h_pitch, h_stride;
};

template <class T, int N>
__global__ void __launch_bounds__(THREADS)
    assemble_chunks(struct assembly a, const T *tok, T *h, size_t chunks) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= chunks) return;
    int across = a.channels / N, c = (int)(at % (size_t)across) * N, length = a.prefixes + a.tokens;
    int row = (int)(at / (size_t)across), t = row % length, image = row / length;
    int token = t - MUTANT(PREFIX, a.prefixes, 0);
    float x[N];
    if (t < a.prefixes) {
        UNROLL for (int i = 0; i < N; i++) x[i] = a.prefix[(size_t)t * a.channels + c + i];
    } else {
        chunk<T, N>::load(tok + (size_t)image * a.tok_stride + (size_t)token * a.tok_pitch + c, x);
        if (a.pos != NULL)
            UNROLL for (int i = 0; i < N; i++) x[i] += a.pos[(size_t)token * a.channels + c + i];
    }
    chunk<T, N>::store(h + (size_t)image * a.h_stride + (size_t)t * a.h_pitch + c, x);
}

template <class T, int N>
static enum status launch_assembly(const struct assembly &a, const struct cuda_view *tok,
                                   const struct cuda_view *h, void *stream) {
    size_t chunks = (size_t)h->batch * (size_t)h->tokens * (size_t)(h->channels / N);
    return launch("assemble", assemble_chunks<T, N>, dim3((unsigned)blocks_for(chunks, THREADS)),
                  THREADS, 0, stream, a, (const T *)tok->data, (T *)h->data, chunks);
}

template <class T>
static enum status assemble(const struct assembly *a, const struct cuda_view *tok,
                            const struct cuda_view *h, void *stream) {
    const int size = chunk_of<T>::size;
    if (h->channels % size == 0 && rows_aligned<T>(tok) && rows_aligned<T>(h))
        return launch_assembly<T, size>(*a, tok, h, stream);
    return launch_assembly<T, 1>(*a, tok, h, stream);
}

enum status cuda_assemble(enum cuda_type type, const float *prefix, const float *pos,
                          const struct cuda_view *tok, const struct cuda_view *h, void *stream) {
    const struct assembly a = {prefix,      pos,         h->tokens - tok->tokens,
                               tok->tokens, h->channels, tok->pitch,
                               tok->stride, h->pitch,    h->stride};
    return FOR_TYPE(type, assemble)(&a, tok, h, stream);
}

/* ---- mean ------------------------------------------------------------------------------------ */

/* A block: 32 columns of one image. Barrier: all threads, once. */
template <class T>
__global__ void __launch_bounds__(MEAN_WARPS * 32)
    mean_columns(const T *x, size_t pitch, size_t stride, int tokens, int channels, T *y,
                 size_t y_stride) {
    SHARED(float, sums, MEAN_WARPS * 32);
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int c = (int)blockIdx.x * 32 + lane, image = (int)blockIdx.y;
    float sum = 0;
    for (int t = warp; c < channels && t < tokens; t += MEAN_WARPS)
        sum += to_float(x[(size_t)image * stride + (size_t)t * pitch + c]);
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (warp > 0 || c >= channels) return;
    for (int w = 1; w < MEAN_WARPS; w++)
        sum += sums[w * 32 + lane];
    y[(size_t)image * y_stride + c] =
        from_float<T>(sum / (float)MUTANT(MEAN_COUNT, tokens, tokens + 1));
}

template <class T>
static enum status mean(const struct cuda_view *x, const struct cuda_view *y, void *stream) {
    dim3 grid((unsigned)blocks_for((size_t)x->channels, 32), (unsigned)x->batch);
    return launch("mean", mean_columns<T>, grid, MEAN_WARPS * 32, 0, stream, (const T *)x->data,
                  x->pitch, x->stride, x->tokens, x->channels, (T *)y->data, y->stride);
}

enum status cuda_mean(enum cuda_type type, const struct cuda_view *x, const struct cuda_view *y,
                      void *stream) {
    return FOR_TYPE(type, mean)(x, y, stream);
}

/* ---- patches --------------------------------------------------------------------------------- */

struct pixels {
    int image_h, image_w, patch_h, patch_w, tokens;
    float mean[3], std[3];
};

/* An element of a patch a thread: neighbours write neighbours, and read 3 bytes apart. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    cut_patches(struct pixels p, const uint8_t *pixels, T *patches, size_t pitch, size_t stride,
                size_t count) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) return;
    int plane = p.patch_h * p.patch_w, width = 3 * plane, k = (int)(at % (size_t)width);
    int row = (int)(at / (size_t)width), patch = row % p.tokens, image = row / p.tokens;
    int across = p.image_w / p.patch_w, c = k / plane, y = k % plane / p.patch_w;
    size_t line = (size_t)image * p.image_h + (size_t)(patch / across * p.patch_h + y);
    size_t column = (size_t)(patch % across * p.patch_w + k % p.patch_w);
    int channel = MUTANT(CHANNEL_ORDER, c, 2 - c);
    float value = (float)pixels[(line * p.image_w + column) * 3 + channel] / 255.0f;
    patches[(size_t)image * stride + (size_t)patch * pitch + k] =
        from_float<T>((value - p.mean[c]) / p.std[c]);
}

template <class T>
static enum status cut(const struct pixels *p, const uint8_t *pixels,
                       const struct cuda_view *patches, void *stream) {
    size_t count = (size_t)patches->batch * (size_t)patches->tokens * (size_t)patches->channels;
    return launch("patches", cut_patches<T>, dim3((unsigned)blocks_for(count, THREADS)), THREADS, 0,
                  stream, *p, pixels, (T *)patches->data, patches->pitch, patches->stride, count);
}

static struct pixels pixels_of(const struct patch_spec *patch, int tokens) {
    struct pixels p = {patch->image_h, patch->image_w, patch->patch_h, patch->patch_w,
                       tokens,         {0, 0, 0},      {0, 0, 0}};
    for (int c = 0; c < 3; c++) {
        p.mean[c] = patch->mean[c];
        p.std[c] = patch->std[c];
    }
    return p;
}

enum status cuda_patches(enum cuda_type type, const struct patch_spec *patch, const uint8_t *pixels,
                         const struct cuda_view *patches, void *stream) {
    const struct pixels p = pixels_of(patch, patches->tokens);
    return FOR_TYPE(type, cut)(&p, pixels, patches, stream);
}

/* ---- what a convolution takes ---------------------------------------------------------------- */

/* Two pixels a thread: 6 bytes in, 16 out; an odd number's last is stored one by one. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    normalise_pixels(struct pixels p, const uint8_t *pixels, T *image, size_t count) {
    size_t at = 2 * ((size_t)blockIdx.x * THREADS + threadIdx.x);
    float x[2 * CUDA_PIXEL];
    if (at >= count) return;
    UNROLL for (int i = 0; i < 2; i++) {
        size_t from = at + (size_t)(at + (size_t)i < count ? i : 0);
        UNROLL for (int c = 0; c < 3; c++) {
            float value = (float)pixels[from * 3 + c] / 255.0f;
            x[i * CUDA_PIXEL + c] = (value - p.mean[c]) / p.std[c];
        }
        x[i * CUDA_PIXEL + 3] = MUTANT(PIXEL_REST, 0.0f, 1.0f);
    }
    if (at + 1 < count) return chunk<T, 8>::store(image + at * CUDA_PIXEL, x);
    UNROLL for (int i = 0; i < CUDA_PIXEL; i++) image[at * CUDA_PIXEL + i] = from_float<T>(x[i]);
}

template <class T>
static enum status normalise(const struct pixels *p, const uint8_t *pixels,
                             const struct cuda_view *image, void *stream) {
    size_t count = (size_t)image->batch * (size_t)image->tokens;
    return launch("normalise", normalise_pixels<T>,
                  dim3((unsigned)blocks_for((count + 1) / 2, THREADS)), THREADS, 0, stream, *p,
                  pixels, (T *)image->data, count);
}

enum status cuda_normalise(enum cuda_type type, const struct patch_spec *patch,
                           const uint8_t *pixels, const struct cuda_view *image, void *stream) {
    const struct pixels p = pixels_of(patch, image->tokens);
    return (type == CUDA_BF16 ? normalise<bf16> : normalise<fp16>)(&p, pixels, image, stream);
}

/* An element of the filter a thread. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    order_filter(const T *weight, size_t pitch, int taps, T *filter, size_t count) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x, tap = at / CUDA_PIXEL;
    int c = (int)(at % CUDA_PIXEL), k = (int)(tap % (size_t)taps);
    if (at >= count) return;
    const T *row = weight + tap / (size_t)taps * pitch;
    filter[at] = c < 3 ? row[MUTANT(FILTER_ORDER, c * taps + k, k * 3 + c)] : from_float<T>(0.0f);
}

template <class T>
static enum status order(const void *weight, size_t pitch, int out, int taps, void *filter,
                         void *stream) {
    size_t count = (size_t)out * (size_t)taps * CUDA_PIXEL;
    return launch("filter", order_filter<T>, dim3((unsigned)blocks_for(count, THREADS)), THREADS, 0,
                  stream, (const T *)weight, pitch, taps, (T *)filter, count);
}

enum status cuda_filter(enum cuda_type type, const void *weight, size_t pitch, int out, int patch_h,
                        int patch_w, void *filter, void *stream) {
    return (type == CUDA_BF16 ? order<bf16> : order<fp16>)(weight, pitch, out, patch_h * patch_w,
                                                           filter, stream);
}

/* ---- views and dense fp32 -------------------------------------------------------------------- */

template <class T>
__global__ void __launch_bounds__(THREADS)
    copy_dense(T *data, size_t pitch, size_t stride, int tokens, int channels, float *dense,
               bool out, size_t count) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= count) return;
    int row = (int)(at / (size_t)channels);
    T *element = row_at(data, tokens, pitch, stride, row) + at % (size_t)channels;
    if (out)
        dense[at] = to_float(*element);
    else
        *element = from_float<T>(dense[at]);
}

template <class T>
static enum status copy(const struct cuda_view *x, float *dense, bool out, void *stream) {
    size_t count = (size_t)x->batch * (size_t)x->tokens * (size_t)x->channels;
    return launch("copy", copy_dense<T>, dim3((unsigned)blocks_for(count, THREADS)), THREADS, 0,
                  stream, (T *)x->data, x->pitch, x->stride, x->tokens, x->channels, dense, out,
                  count);
}

enum status cuda_to_fp32(enum cuda_type type, const struct cuda_view *x, float *dense,
                         void *stream) {
    return FOR_TYPE(type, copy)(x, dense, true, stream);
}

enum status cuda_from_fp32(enum cuda_type type, const float *dense, const struct cuda_view *x,
                           void *stream) {
    return FOR_TYPE(type, copy)(x, (float *)dense, false, stream);
}
