/*
 * image_png: PNG. The chunks are read and checked here, the pixels unpacked by stb_image.
 *
 *   file -> chunks checked (order, length, CRC) -> a plain PNG of IHDR, PLTE, tRNS, IDAT, IEND
 *        -> stb_image -> RGB
 *
 * The plain copy spares stb_image what it does not check or not know: CRCs, palettes shorter than
 * the indices (padded with black, as Pillow), tRNS where alpha is dropped anyway, animation frames
 * (the default image is taken), text. A file cut behind its last IDAT chunk is complete.
 */
#include "datasets/image_decoders.h"

#if HAVE_STB

#include <string.h>

#include <zlib.h>

#define PALETTE_BYTES (256 * 3)
#define CHUNK_EXTRA   12 /* length, type and CRC around a chunk's bytes */

struct png {
    const struct image_options *options;
    uint32_t width, height;
    int depth, color; /* color: bit 0 palette, bit 1 RGB, bit 2 alpha */
    int orientation;
    bool has_palette;
    size_t idat_chunks;
    uint8_t *plain; /* the plain copy */
    size_t used;
};

static void plain_put32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Appends a chunk, zero-padded to `padded` bytes; stb_image does not look at the CRC. */
static void plain_chunk(struct png *png, const char *type, const uint8_t *data, size_t size,
                        size_t padded) {
    uint8_t *p = png->plain + png->used;
    plain_put32(p, (uint32_t)padded);
    memcpy(p + 4, type, 4);
    if (size) memcpy(p + 8, data, size);
    memset(p + 8 + size, 0, padded - size + 4);
    png->used += padded + CHUNK_EXTRA;
}

static enum status png_header(struct png *png, const uint8_t *data, size_t size) {
    static const uint8_t depths[7] = {31, 0, 24, 15, 24, 0, 24}; /* sums of the depths allowed */
    if (size != 13) return fail(ST_FORMAT, "broken png: a header of %zu bytes, want 13", size);
    png->width = image_be32(data);
    png->height = image_be32(data + 4);
    png->depth = data[8];
    png->color = data[9];
    if (png->color > 6 || (png->depth & (png->depth - 1)) || !(depths[png->color] & png->depth))
        return fail(ST_FORMAT, "broken png: colour type %d with %d bits", png->color, png->depth);
    if (data[10] || data[11] || data[12] > 1)
        return fail(ST_FORMAT, "broken png: unknown compression %d, filter %d or interlace %d",
                    data[10], data[11], data[12]);
    plain_chunk(png, "IHDR", data, size, size);
    return ST_OK;
}

static enum status png_palette(struct png *png, const uint8_t *data, size_t size) {
    if (png->color != 3) return ST_OK; /* a mere suggestion there */
    if (png->has_palette || size == 0 || size > PALETTE_BYTES || size % 3)
        return fail(ST_FORMAT, "broken png: a palette of %zu bytes, want 3 to 768", size);
    png->has_palette = true;
    plain_chunk(png, "PLTE", data, size, PALETTE_BYTES);
    return ST_OK;
}

/* Alpha of the palette, or the one transparent colour; only of use when compositing. */
static void png_transparency(struct png *png, const uint8_t *data, size_t size) {
    size_t want = png->color == 0 ? 2 : png->color == 2 ? 6 : 0;
    if (!png->options->composite || png->idat_chunks) return;
    if (png->color == 3 ? png->has_palette && size > 0 && size <= 256 : want && size == want)
        plain_chunk(png, "tRNS", data, size, size);
}

/* Critical chunks (an upper-case first letter) must have the right CRC. */
static bool crc_matches(const uint8_t *chunk, size_t size) {
    return (chunk[4] & 0x20) != 0 ||
           crc32(crc32(0, NULL, 0), chunk + 4, (uInt)size + 4) == image_be32(chunk + 8 + size);
}

static enum status png_chunk(struct png *png, const uint8_t *chunk, size_t size) {
    const uint8_t *type = chunk + 4, *data = chunk + 8;
    bool first = png->width == 0 && png->depth == 0;
    if (memcmp(type, "CgBI", 4) == 0)
        return fail(ST_FORMAT, "an iOS-optimised png (CgBI), which is not read here");
    if (!crc_matches(chunk, size))
        return fail(ST_FORMAT, "broken png: a wrong checksum of a chunk of %zu bytes", size);
    if (first != (memcmp(type, "IHDR", 4) == 0))
        return fail(ST_FORMAT, "broken png: the header (IHDR) is not the first chunk, or not "
                               "the only one");
    if (first) return png_header(png, data, size);
    if (memcmp(type, "PLTE", 4) == 0) return png_palette(png, data, size);
    if (memcmp(type, "tRNS", 4) == 0) png_transparency(png, data, size);
    if (memcmp(type, "eXIf", 4) == 0) png->orientation = image_exif_orientation(data, size);
    if (memcmp(type, "IDAT", 4) == 0) {
        if (png->color == 3 && !png->has_palette)
            return fail(ST_FORMAT, "broken png: no palette (PLTE) in front of the pixels");
        png->idat_chunks++;
        plain_chunk(png, "IDAT", data, size, size);
    }
    return ST_OK;
}

static enum status png_chunks(struct png *png, const uint8_t *bytes, size_t size) {
    size_t at = 8;
    memcpy(png->plain, bytes, 8);
    png->used = 8;
    while (size - at >= CHUNK_EXTRA && memcmp(bytes + at + 4, "IEND", 4) != 0) {
        const uint8_t *chunk = bytes + at;
        size_t length = image_be32(chunk), room = size - at - CHUNK_EXTRA;
        if (length > room && png->idat_chunks && memcmp(chunk + 4, "IDAT", 4) != 0) break;
        if (length > room)
            return fail(ST_FORMAT, "broken png: the file ends inside a chunk, %zu bytes early",
                        length - room);
        TRY(png_chunk(png, chunk, length));
        at += length + CHUNK_EXTRA;
    }
    if (!png->idat_chunks) return fail(ST_FORMAT, "broken png: it ends before any pixels (IDAT)");
    plain_chunk(png, "IEND", NULL, 0, 0);
    return ST_OK;
}

enum status image_png_decode(const uint8_t *bytes, size_t size, const struct image_options *options,
                             struct image *out) {
    struct png png = {0};
    enum status st = ST_NOMEM;
    png.options = options;
    png.orientation = 1;
    /* Never longer than the file but for the padded palette and an IEND that was missing. */
    png.plain = mem_zalloc(size + PALETTE_BYTES + 2 * CHUNK_EXTRA, 1);
    if (png.plain) st = png_chunks(&png, bytes, size);
    if (st == ST_OK) st = image_begin(out, png.width, png.height, options);
    if (st == ST_OK) {
        out->orientation = png.orientation;
        st = image_stb_load("png", png.plain, png.used, png.depth == 16 ? 16 : 8, options, out);
    }
    mem_free(png.plain);
    return st;
}

#endif
