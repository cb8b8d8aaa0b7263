#include "tools/picture.h"

#include <string.h>

#include "datasets/resize.h"

#if HAVE_STB

#include <zlib.h>

/*
 * zlib's level. Of 100 overlays on photos (0.22 megapixels each, every row with the filter that
 * stb_image_write finds best), in ms and kB a picture:
 *   level 8   125 ms  274 kB      level 2   12 ms  297 kB
 */
enum { PNG_LEVEL = 4 };

/* stb_image_write's own deflate is slower and larger than zlib's. */
static unsigned char *deflated(unsigned char *data, int size, int *out_size) {
    uLongf used = compressBound((uLong)size);
    unsigned char *out = mem_zalloc(used, 1);
    if (out && (used > INT32_MAX || compress2(out, &used, data, (uLong)size, PNG_LEVEL) != Z_OK)) {
        mem_free(out);
        out = NULL;
    }
    *out_size = out ? (int)used : 0;
    return out;
}

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#define STBIW_MALLOC(size)                          mem_zalloc(size, 1)
#define STBIW_REALLOC(block, size)                  NULL /* of the deflate that is not used */
#define STBIW_FREE(block)                           mem_free(block)
#define STBIW_ZLIB_COMPRESS(data, size, out, level) deflated(data, size, out)
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* Bytes as they come; `lost` once memory was short. */
struct sink {
    struct picture_bytes *out;
    bool lost;
};

static void receive(void *context, void *data, int size) {
    struct sink *sink = context;
    struct picture_bytes *out = sink->out;
    void *bytes = out->bytes;
    if (sink->lost) return;
    sink->lost = mem_grow(&bytes, &out->capacity, out->size + (size_t)size, 1) != ST_OK;
    out->bytes = bytes;
    if (sink->lost) return;
    memcpy(out->bytes + out->size, data, (size_t)size);
    out->size += (size_t)size;
}

static enum status check(int width, int height, int channels) {
    size_t size;
    if (width < 1 || height < 1) return fail(ST_USAGE, "a picture of %dx%d", width, height);
    if (!size_mul((size_t)width * (size_t)channels + 1, (size_t)height, &size) || size > (size_t)1
                                                                                             << 30)
        return fail(ST_NOMEM, "a picture of %dx%d is too large to be written", width, height);
    return ST_OK;
}

static enum status finish(const struct sink *sink, int written) {
    if (written && !sink->lost) return ST_OK;
    return fail(ST_NOMEM, "memory for the encoded picture could not be had");
}

enum status picture_png(const uint8_t *pixels, int width, int height, int channels,
                        struct picture_bytes *out) {
    struct sink sink = {.out = out};
    TRY(check(width, height, channels));
    out->size = 0;
    return finish(&sink, stbi_write_png_to_func(receive, &sink, width, height, channels, pixels,
                                                width * channels));
}

enum status picture_jpeg(const uint8_t *rgb, int width, int height, int quality,
                         struct picture_bytes *out) {
    struct sink sink = {.out = out};
    TRY(check(width, height, 3));
    out->size = 0;
    return finish(&sink, stbi_write_jpg_to_func(receive, &sink, width, height, 3, rgb, quality));
}

#else

enum status picture_png(const uint8_t *pixels, int width, int height, int channels,
                        struct picture_bytes *out) {
    (void)pixels, (void)width, (void)height, (void)channels, (void)out;
    return fail(ST_USAGE, "pictures cannot be written: this build lacks stb_image_write");
}

enum status picture_jpeg(const uint8_t *rgb, int width, int height, int quality,
                         struct picture_bytes *out) {
    (void)quality;
    return picture_png(rgb, width, height, 3, out);
}

#endif

void picture_bytes_release(struct picture_bytes *bytes) {
    mem_free(bytes->bytes);
    *bytes = (struct picture_bytes){0};
}

enum status picture_thumbnail(const struct image *image, int side, struct image *out) {
    const int w = image->width, h = image->height, longer = w > h ? w : h;
    struct resize job = {.src = image->rgb,
                         .src_w = w,
                         .src_h = h,
                         .out_w = w,
                         .out_h = h,
                         .filter = FILTER_BICUBIC};
    enum status st;
    if (longer > side) {
        job.out_w = (int)((int64_t)w * side / longer);
        job.out_h = (int)((int64_t)h * side / longer);
        if (job.out_w < 1) job.out_w = 1;
        if (job.out_h < 1) job.out_h = 1;
    }
    job.crop_w = job.out_w;
    job.crop_h = job.out_h;
    *out = (struct image){.width = job.out_w, .height = job.out_h, .orientation = 1};
    out->rgb = mem_zalloc((size_t)job.out_w * (size_t)job.out_h, 3);
    st = out->rgb ? resize_rgb(&job, out->rgb) : ST_NOMEM;
    if (st != ST_OK) image_release(out);
    return st;
}

void picture_print_base64(const uint8_t *bytes, size_t size, FILE *file) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[4];
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t group = (uint32_t)bytes[i] << 16 |
                               (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? bytes[i + 2] : 0);
        for (int k = 0; k < 4; k++)
            text[k] = digits[group >> (18 - 6 * k) & 63];
        if (left < 3) text[3] = '=';
        if (left < 2) text[2] = '=';
        fwrite(text, 1, 4, file);
    }
}
