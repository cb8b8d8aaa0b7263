/*
 * image_gif: the first frame of a GIF, as Pillow sees it: pixels outside the frame and transparent
 * ones have the transparent colour of the palette (colour 0 without one); a frame larger than the
 * screen enlarges it; no palette means grey. A picture whose data ends early is an error.
 *
 *   screen, extensions, image descriptor -> blocks of <= 255 bytes -> LZW codes -> palette indices
 *   -> RGB
 */
#include "datasets/image_decoders.h"

#include <string.h>

#define CODES_MAX 4096

struct gif {
    const uint8_t *bytes;
    size_t size, at;
    uint8_t palette[256][3];
    int transparent; /* palette index, or -1 */
    int left, top, width, height;
    bool interlaced;
};

/* The pixels of one frame as they arrive. */
struct gif_canvas {
    const struct gif *gif;
    struct image *out;
    const struct image_options *options;
    int x, y, pass; /* within the frame */
    bool full;
};

static enum status gif_ends(void) {
    return fail(ST_FORMAT, "broken gif: the file ends too early");
}

/* Moves over `count` bytes; *p is where they are. */
static bool gif_take(struct gif *g, size_t count, const uint8_t **p) {
    if (g->size - g->at < count) return false;
    *p = g->bytes + g->at;
    g->at += count;
    return true;
}

/* flags: bit 7 there is a palette, bits 0-2 its size. */
static bool gif_palette(struct gif *g, int flags, bool *found) {
    const uint8_t *p;
    size_t bytes = (size_t)3 << ((flags & 7) + 1);
    if (!(flags & 0x80)) return true;
    *found = true;
    if (!gif_take(g, bytes, &p)) return false;
    memset(g->palette, 0, sizeof g->palette);
    memcpy(g->palette, p, bytes);
    return true;
}

/* An extension behind its '!': only the graphic control says something about the picture. */
static bool gif_extension(struct gif *g) {
    const uint8_t *label, *length, *data;
    bool first = true;
    if (!gif_take(g, 1, &label)) return false;
    for (;; first = false) {
        if (!gif_take(g, 1, &length)) return false;
        if (*length == 0) return true;
        if (!gif_take(g, *length, &data)) return false;
        if (first && *label == 0xF9 && *length >= 4 && (data[0] & 1)) g->transparent = data[3];
    }
}

/* To the first frame: leaves `at` on its LZW code size. */
static enum status gif_open(struct gif *g, uint64_t *width, uint64_t *height) {
    const uint8_t *p;
    bool has_palette = false;
    g->at = 6;
    g->transparent = -1;
    for (int i = 0; i < 256; i++)
        memset(g->palette[i], i, 3);
    if (!gif_take(g, 7, &p)) return gif_ends();
    *width = image_le16(p);
    *height = image_le16(p + 2);
    if (!gif_palette(g, p[4], &has_palette)) return gif_ends();
    for (;;) {
        if (!gif_take(g, 1, &p)) return gif_ends();
        if (*p == ';') return fail(ST_FORMAT, "broken gif: it holds no picture");
        if (*p == '!' && !gif_extension(g)) return gif_ends();
        if (*p == ',') break;
    }
    if (!gif_take(g, 9, &p)) return gif_ends();
    g->left = (int)image_le16(p);
    g->top = (int)image_le16(p + 2);
    g->width = (int)image_le16(p + 4);
    g->height = (int)image_le16(p + 6);
    g->interlaced = (p[8] & 0x40) != 0;
    if (!gif_palette(g, p[8], &has_palette)) return gif_ends();
    if ((uint64_t)(g->left + g->width) > *width) *width = (uint64_t)(g->left + g->width);
    if ((uint64_t)(g->top + g->height) > *height) *height = (uint64_t)(g->top + g->height);
    return ST_OK;
}

static void gif_color(const struct gif *g, const struct image_options *options, int index,
                      uint8_t *rgb) {
    bool clear = options->composite && index == g->transparent;
    memcpy(rgb, clear ? options->background : g->palette[index], 3);
}

/* The next pixel. Interlaced rows come as 0, 8, 16.. then 4, 12.. then 2, 6.. then 1, 3.. */
static void canvas_put(struct gif_canvas *c, int index) {
    static const uint8_t start[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    const struct gif *g = c->gif;
    if (c->full) return;
    gif_color(g, c->options, index,
              image_row(c->out, g->top + c->y) + (size_t)(g->left + c->x) * 3);
    if (++c->x < g->width) return;
    c->x = 0;
    c->y += g->interlaced ? step[c->pass] : 1;
    while (c->y >= g->height && g->interlaced && c->pass < 3)
        c->y = start[++c->pass];
    if (c->y >= g->height) c->full = true;
}

/* LZW: code c >= clear + 2 stands for the string of code link[c] and the byte last[c]. */
struct lzw {
    uint16_t link[CODES_MAX];
    uint8_t last[CODES_MAX];
    uint8_t string[CODES_MAX];
    int clear, next, width, previous;
    uint8_t first; /* first byte of the previous string */
};

static void lzw_restart(struct lzw *z, int bits) {
    z->clear = 1 << bits;
    z->next = z->clear + 2;
    z->width = bits + 1;
    z->previous = -1;
}

/* One code; false if it cannot be. */
static bool lzw_code(struct lzw *z, int code, struct gif_canvas *canvas) {
    int length = 0, c = code;
    if (z->previous < 0) { /* the first behind a clear code */
        if (code >= z->clear) return false;
        z->first = (uint8_t)code;
    } else {
        if (code > z->next || code >= CODES_MAX) return false;
        if (code == z->next) { /* the string being made now: the previous and its first byte */
            z->string[length++] = z->first;
            c = z->previous;
        }
        for (; c >= z->clear; c = z->link[c])
            z->string[length++] = z->last[c];
        z->first = (uint8_t)c;
    }
    canvas_put(canvas, c);
    while (length > 0)
        canvas_put(canvas, z->string[--length]);
    if (z->previous >= 0 && z->next < CODES_MAX) {
        z->last[z->next] = z->first;
        z->link[z->next] = (uint16_t)z->previous;
        if (z->next == (1 << z->width) - 1 && z->width < 12) z->width++;
        z->next++;
    }
    z->previous = code;
    return true;
}

static enum status gif_pixels(struct gif *g, struct lzw *z, struct gif_canvas *canvas) {
    const uint8_t *p;
    uint32_t buffer = 0;
    int bits = 0, code_bits, left = 0;
    if (!gif_take(g, 1, &p)) return gif_ends();
    code_bits = *p;
    if (code_bits < 1 || code_bits > 8)
        return fail(ST_FORMAT, "broken gif: codes of %d bits, want 1 to 8", code_bits);
    lzw_restart(z, code_bits);
    while (!canvas->full) {
        int code;
        while (bits < z->width) {
            if (!gif_take(g, 1, &p)) return gif_ends();
            if (left == 0) { /* a block's length; 0 ends the data */
                left = *p;
                if (left == 0)
                    return fail(ST_FORMAT, "broken gif: the data ends in row %d of %d", canvas->y,
                                g->height);
                continue;
            }
            left--;
            buffer |= (uint32_t)*p << bits;
            bits += 8;
        }
        code = (int)(buffer & ((1u << z->width) - 1));
        buffer >>= z->width;
        bits -= z->width;
        if (code == z->clear)
            lzw_restart(z, code_bits);
        else if (code == z->clear + 1)
            return fail(ST_FORMAT, "broken gif: the picture ends in row %d of %d", canvas->y,
                        g->height);
        else if (!lzw_code(z, code, canvas))
            return fail(ST_FORMAT, "broken gif: an impossible code in row %d", canvas->y);
    }
    return ST_OK;
}

enum status image_gif_decode(const uint8_t *bytes, size_t size, const struct image_options *options,
                             struct image *out) {
    struct gif g = {0};
    struct gif_canvas canvas = {&g, out, options, 0, 0, 0, false};
    uint64_t width = 0, height = 0;
    struct lzw *lzw;
    enum status st;
    g.bytes = bytes;
    g.size = size;
    TRY(gif_open(&g, &width, &height));
    TRY(image_begin(out, width, height, options));
    canvas.full = g.width == 0 || g.height == 0;
    for (int y = 0; y < out->height && (g.width < out->width || g.height < out->height); y++)
        for (int x = 0; x < out->width; x++)
            gif_color(&g, options, g.transparent < 0 ? 0 : g.transparent,
                      image_row(out, y) + (size_t)x * 3);
    lzw = mem_zalloc(1, sizeof *lzw);
    if (!lzw) return ST_NOMEM;
    st = gif_pixels(&g, lzw, &canvas);
    mem_free(lzw);
    return st;
}
