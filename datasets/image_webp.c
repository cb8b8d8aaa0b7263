/*
 * image_webp: WebP through libwebp: lossy, lossless, with alpha, and the first frame of an
 * animation, laid on a transparent black canvas.
 *
 *   RIFF, size, WEBP, then chunks: name (4), size (4), bytes, padded to even length
 */
#include "datasets/image_decoders.h"

#if HAVE_WEBP

#include <string.h>

#include <webp/decode.h>

struct chunk {
    const uint8_t *data;
    size_t size;
};

/* The chunk at *at, and *at moved behind it; a chunk that passes the end is cut there. */
static bool chunk_next(const uint8_t *bytes, size_t size, size_t *at, const uint8_t **name,
                       struct chunk *chunk) {
    if (*at > size || size - *at < 8) return false;
    *name = bytes + *at;
    chunk->data = bytes + *at + 8;
    chunk->size = image_le32(bytes + *at + 4);
    if (chunk->size > size - *at - 8) chunk->size = size - *at - 8;
    *at += 8 + chunk->size + chunk->size % 2;
    return true;
}

static bool chunk_find(const uint8_t *bytes, size_t size, const char *want, struct chunk *chunk) {
    const uint8_t *name;
    size_t at = 12;
    while (chunk_next(bytes, size, &at, &name, chunk))
        if (memcmp(name, want, 4) == 0) return true;
    return false;
}

static void put_le(uint8_t *p, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static enum status webp_broken(VP8StatusCode code) {
    static const char *const names[] = {"no error",     "out of memory",       "invalid parameter",
                                        "corrupt data", "unsupported feature", "suspended",
                                        "user abort",   "not enough data"};
    if (code == VP8_STATUS_OUT_OF_MEMORY) return fail(ST_NOMEM, "no memory for a webp picture");
    return fail(ST_FORMAT, "broken webp: %s",
                (size_t)code < COUNT_OF(names) ? names[code] : "unknown error");
}

/* A still picture: its pixels over (x, y) of the picture begun in `out`. */
static enum status webp_still(const uint8_t *bytes, size_t size,
                              const struct image_options *options, const WebPBitstreamFeatures *f,
                              int x, int y, struct image *out) {
    struct image_samples layout = {0};
    size_t row;
    uint8_t *pixels;
    bool done;
    layout.channels = layout.step = f->has_alpha ? 4 : 3;
    layout.bits = 8;
    row = (size_t)f->width * (size_t)layout.channels;
    pixels = mem_zalloc((size_t)f->height, row);
    if (!pixels) return ST_NOMEM;
    done = f->has_alpha
               ? WebPDecodeRGBAInto(bytes, size, pixels, row * (size_t)f->height, (int)row) != NULL
               : WebPDecodeRGBInto(bytes, size, pixels, row * (size_t)f->height, (int)row) != NULL;
    for (int i = 0; done && i < f->height; i++)
        image_samples_to_rgb(&layout, options, pixels + (size_t)i * row, f->width,
                             image_row(out, y + i) + (size_t)x * 3);
    mem_free(pixels);
    if (!done) return fail(ST_FORMAT, "broken webp: corrupt or missing data");
    return ST_OK;
}

/* ANMF: x/2 (3), y/2 (3), width-1 (3), height-1 (3), duration (3), flags (1), then image chunks. */
static enum status webp_frame(const uint8_t *bytes, size_t size,
                              const struct image_options *options, struct image *out) {
    enum { FRAME_HEADER = 16, FILE_HEADER = 30 };
    struct chunk frame;
    WebPBitstreamFeatures f;
    VP8StatusCode code;
    enum status st;
    uint8_t *still;
    uint32_t x, y, body;
    if (!chunk_find(bytes, size, "ANMF", &frame) || frame.size < FRAME_HEADER)
        return fail(ST_FORMAT, "broken webp: an animation without frames");
    x = 2 * (image_le32(frame.data) & 0xFFFFFF);
    y = 2 * (image_le32(frame.data + 3) & 0xFFFFFF);
    body = (uint32_t)(frame.size - FRAME_HEADER);
    still = mem_zalloc((size_t)body + FILE_HEADER, 1);
    if (!still) return ST_NOMEM;
    /* The frame as a file of its own: RIFF, size, WEBP, VP8X chunk with the frame's size. */
    memcpy(still, "RIFF\0\0\0\0WEBPVP8X\x0A\0\0\0\x10\0\0\0", 24);
    put_le(still + 4, body + FILE_HEADER - 8, 4);
    memcpy(still + 24, frame.data + 6, 6);
    memcpy(still + FILE_HEADER, frame.data + FRAME_HEADER, body);
    code = WebPGetFeatures(still, (size_t)body + FILE_HEADER, &f);
    if (code != VP8_STATUS_OK)
        st = webp_broken(code);
    else if ((uint64_t)x + (uint64_t)f.width > (uint64_t)out->width ||
             (uint64_t)y + (uint64_t)f.height > (uint64_t)out->height)
        st = fail(ST_FORMAT, "broken webp: a frame passes the picture's edge");
    else
        st = webp_still(still, (size_t)body + FILE_HEADER, options, &f, (int)x, (int)y, out);
    mem_free(still);
    return st;
}

enum status image_webp_decode(const uint8_t *bytes, size_t size,
                              const struct image_options *options, struct image *out) {
    WebPBitstreamFeatures f;
    struct chunk exif;
    VP8StatusCode code = WebPGetFeatures(bytes, size, &f);
    if (code != VP8_STATUS_OK) return webp_broken(code);
    TRY(image_begin(out, (uint64_t)f.width, (uint64_t)f.height, options));
    if (chunk_find(bytes, size, "EXIF", &exif))
        out->orientation = image_exif_orientation(exif.data, exif.size);
    if (!f.has_animation) return webp_still(bytes, size, options, &f, 0, 0, out);
    for (size_t i = 0; options->composite && i < (size_t)out->width * (size_t)out->height; i++)
        memcpy(out->rgb + i * 3, options->background, 3);
    return webp_frame(bytes, size, options, out);
}

#endif
