/*
 * image_bmp: Windows and OS/2 bitmaps: 1, 4, 8 bits with a palette (plain or run-length coded), 16,
 * 24, 32 bits with or without bit masks, bottom-up or top-down.
 *
 *   file header (14) -> picture header (12..124) -> masks, palette -> rows, each padded to 4 bytes
 */
#include "datasets/image_decoders.h"

#include <string.h>

enum { BMP_PLAIN = 0, BMP_RLE8 = 1, BMP_RLE4 = 2, BMP_MASKS = 3, BMP_MASKS_ALPHA = 6 };

struct bmp {
    const uint8_t *bytes;
    size_t size;
    size_t pixels;     /* offset of the first row */
    size_t palette;    /* offset of the palette */
    int entry, colors; /* bytes an entry, number of entries */
    uint32_t width, height;
    bool top_down;
    int bits, compression;
    uint32_t mask[4]; /* of red, green, blue, alpha; alpha may be 0 */
    uint8_t table[256][3];
};

static enum status bmp_ends(void) {
    return fail(ST_FORMAT, "broken bmp: the file ends too early");
}

/* The masks in the file, or those that 16 and 32 bits mean without any. */
static enum status bmp_masks(struct bmp *b, const uint8_t *header, size_t header_size) {
    static const uint32_t masks16[4] = {0x7C00, 0x3E0, 0x1F, 0};
    static const uint32_t masks32[4] = {0xFF0000, 0xFF00, 0xFF, 0};
    size_t want = b->compression == BMP_MASKS_ALPHA || header_size >= 56 ? 4 : 3;
    memcpy(b->mask, b->bits == 16 ? masks16 : masks32, sizeof b->mask);
    if (b->compression != BMP_MASKS && b->compression != BMP_MASKS_ALPHA) return ST_OK;
    if (b->bits != 16 && b->bits != 32)
        return fail(ST_FORMAT, "broken bmp: bit masks with %d bits a pixel, want 16 or 32",
                    b->bits);
    if (b->size - 54 < want * 4) return bmp_ends();
    for (size_t i = 0; i < want; i++)
        b->mask[i] = image_le32(header + 40 + 4 * i);
    if (header_size == 40) b->palette += want * 4; /* they lie behind the header */
    for (int i = 0; i < 4; i++) {
        uint32_t m = b->mask[i], low = m & (0u - m);
        if ((i < 3 && m == 0) || ((m + low) & m) != 0 || (b->bits == 16 && m > 0xFFFF))
            return fail(ST_FORMAT, "broken bmp: the bit mask 0x%08x", (unsigned)m);
    }
    return ST_OK;
}

static enum status bmp_header(struct bmp *b) {
    const uint8_t *header = b->bytes + 14;
    size_t header_size;
    bool small;
    if (b->size < 26) return bmp_ends();
    header_size = image_le32(header);
    small = header_size == 12;
    if (b->size - 14 < header_size) return bmp_ends();
    b->pixels = image_le32(b->bytes + 10);
    b->palette = 14 + header_size;
    b->entry = small ? 3 : 4;
    b->width = small ? image_le16(header + 4) : image_le32(header + 4);
    b->height = small ? image_le16(header + 6) : image_le32(header + 8);
    b->bits = (int)image_le16(header + (small ? 10 : 14));
    b->compression = small ? BMP_PLAIN : (int)(image_le32(header + 16) & 0xFF);
    b->top_down = !small && (b->height & 0x80000000u) != 0;
    if (b->top_down) b->height = 0u - b->height;
    if (!small && image_le32(header + 16) > BMP_MASKS_ALPHA)
        return fail(ST_FORMAT, "a bmp with compression %u, which is not read here",
                    (unsigned)image_le32(header + 16));
    if (b->bits != 1 && b->bits != 4 && b->bits != 8 && b->bits != 16 && b->bits != 24 &&
        b->bits != 32)
        return fail(ST_FORMAT, "a bmp with %d bits a pixel, want 1, 4, 8, 16, 24 or 32", b->bits);
    if (b->compression == 4 || b->compression == 5 ||
        (b->compression == BMP_RLE8 && b->bits != 8) ||
        (b->compression == BMP_RLE4 && b->bits != 4))
        return fail(ST_FORMAT,
                    "a bmp with compression %d and %d bits a pixel, which is not read "
                    "here",
                    b->compression, b->bits);
    if (b->bits <= 8) {
        uint32_t colors = small ? 0 : image_le32(header + 32);
        b->colors = colors >= 1 && colors <= 256 ? (int)colors : 1 << b->bits;
        return ST_OK;
    }
    return bmp_masks(b, header, header_size);
}

/* As many entries as lie in the file before the pixels; the others are black. */
static void bmp_palette(struct bmp *b) {
    for (int i = 0; b->bits <= 8 && i < b->colors; i++) {
        size_t at = b->palette + (size_t)i * (size_t)b->entry;
        if (at + 3 > b->size || (b->pixels > b->palette && at + 3 > b->pixels)) return;
        for (int c = 0; c < 3; c++)
            b->table[i][c] = b->bytes[at + 2 - (size_t)c];
    }
}

/* The bits of `value` under the mask as 0..255: fewer than 8 are stretched, rounded down. */
static uint8_t masked(uint32_t value, uint32_t mask) {
    uint32_t low = mask & (0u - mask), most = mask / low;
    return (uint8_t)((uint64_t)((value & mask) / low) * 255 / most);
}

static void bmp_row(const struct bmp *b, const struct image_options *options, const uint8_t *row,
                    bool opaque, uint8_t *rgb) {
    const struct image_samples layout = {4, 4, 8, false, false, false};
    for (size_t x = 0; x < b->width; x++, rgb += 3) {
        uint8_t pixel[4] = {0, 0, 0, 255};
        if (b->bits <= 8) {
            size_t bit = x * (size_t)b->bits;
            int index = row[bit / 8] >> (8 - (size_t)b->bits - bit % 8) & ((1 << b->bits) - 1);
            memcpy(rgb, b->table[index], 3);
            continue;
        }
        if (b->bits == 24) {
            for (int c = 0; c < 3; c++)
                rgb[c] = row[x * 3 + 2 - (size_t)c];
            continue;
        }
        uint32_t value = b->bits == 16 ? image_le16(row + x * 2) : image_le32(row + x * 4);
        for (int c = 0; c < 3; c++)
            pixel[c] = masked(value, b->mask[c]);
        if (b->mask[3] && !opaque) pixel[3] = masked(value, b->mask[3]);
        image_samples_to_rgb(&layout, options, pixel, 1, rgb);
    }
}

static enum status bmp_rows(const struct bmp *b, const struct image_options *options,
                            struct image *out) {
    size_t stride = ((size_t)b->width * (size_t)b->bits + 31) / 32 * 4;
    size_t used = ((size_t)b->width * (size_t)b->bits + 7) / 8;
    bool opaque = true; /* an alpha of 0 everywhere is a writer that did not fill it in */
    if (b->pixels > b->size || stride * (b->height - 1) + used > b->size - b->pixels)
        return bmp_ends();
    for (size_t i = 0; b->mask[3] && opaque && i < (size_t)b->width * b->height; i++) {
        const uint8_t *p =
            b->bytes + b->pixels + i / b->width * stride + i % b->width * (size_t)(b->bits / 8);
        opaque = ((b->bits == 16 ? image_le16(p) : image_le32(p)) & b->mask[3]) == 0;
    }
    for (uint32_t y = 0; y < b->height; y++) {
        uint32_t seen = b->top_down ? y : b->height - 1 - y;
        bmp_row(b, options, b->bytes + b->pixels + y * stride, opaque, image_row(out, (int)seen));
    }
    return ST_OK;
}

/* Where run-length coded pixels go, from the bottom row up. */
struct bmp_pen {
    const struct bmp *bmp;
    struct image *out;
    uint32_t x, y;
};

/* Pixels behind the end of a row are dropped, as Pillow does. */
static void pen_put(struct bmp_pen *pen, int index) {
    const struct bmp *b = pen->bmp;
    if (pen->x >= b->width || pen->y >= b->height) return;
    memcpy(image_row(pen->out, (int)(b->top_down ? pen->y : b->height - 1 - pen->y)) +
               (size_t)pen->x * 3,
           b->table[index], 3);
    pen->x++;
}

/*
 * Pairs: (n, v) n pixels of v; (0, 0) next row; (0, 1) end; (0, 2) dx dy moves; (0, n) n pixels
 * follow, padded to 2 bytes. 4 bits: two pixels a byte, v alternates between its halves.
 */
static enum status bmp_runs(const struct bmp *b, struct image *out) {
    struct bmp_pen pen = {b, out, 0, 0};
    size_t at = b->pixels;
    bool half = b->bits == 4;
    for (int y = 0; y < out->height; y++) /* what is skipped has colour 0 */
        for (int x = 0; x < out->width; x++)
            memcpy(image_row(out, y) + (size_t)x * 3, b->table[0], 3);
    while (pen.y < b->height && !(pen.y == b->height - 1 && pen.x >= b->width)) {
        int count, value;
        if (at > b->size || b->size - at < 2) return bmp_ends();
        count = b->bytes[at];
        value = b->bytes[at + 1];
        at += 2;
        if (count > 0) {
            for (int i = 0; i < count; i++)
                pen_put(&pen, half ? (i % 2 ? value & 15 : value >> 4) : value);
        } else if (value == 0) {
            pen.x = 0;
            pen.y++;
        } else if (value == 1) {
            break;
        } else if (value == 2) {
            if (b->size - at < 2) return bmp_ends();
            pen.x += b->bytes[at];
            pen.y += b->bytes[at + 1];
            at += 2;
        } else {
            size_t bytes = half ? (size_t)(value + 1) / 2 : (size_t)value;
            if (b->size - at < bytes) return bmp_ends();
            for (int i = 0; i < value; i++) {
                int v = b->bytes[at + (size_t)(half ? i / 2 : i)];
                pen_put(&pen, half ? (i % 2 ? v & 15 : v >> 4) : v);
            }
            at += bytes + bytes % 2;
        }
    }
    return ST_OK;
}

enum status image_bmp_decode(const uint8_t *bytes, size_t size, const struct image_options *options,
                             struct image *out) {
    struct bmp b = {0};
    b.bytes = bytes;
    b.size = size;
    TRY(bmp_header(&b));
    TRY(image_begin(out, b.width, b.height, options));
    bmp_palette(&b);
    if (b.compression == BMP_RLE8 || b.compression == BMP_RLE4) return bmp_runs(&b, out);
    return bmp_rows(&b, options, out);
}
