/*
 * image_pnm: the portable bitmaps P1 to P6. P1 to P3 are text, P4 to P6 binary; P1, P4 black and
 * white (1 is black), P2, P5 grey, P3, P6 RGB. A sample v of 0..maxval becomes round(v*255/maxval).
 */
#include "datasets/image_decoders.h"

#include <math.h>

struct pnm {
    const uint8_t *bytes;
    size_t size, at;
    int kind, channels;
    uint32_t most; /* maxval */
};

static bool is_blank(uint8_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Over blanks and comments ('#' to the end of the line). */
static void pnm_blanks(struct pnm *p) {
    while (p->at < p->size) {
        if (p->bytes[p->at] == '#') {
            while (p->at < p->size && p->bytes[p->at] != '\n' && p->bytes[p->at] != '\r')
                p->at++;
        } else if (is_blank(p->bytes[p->at])) {
            p->at++;
        } else {
            return;
        }
    }
}

/* A decimal number of at most `digits` digits behind blanks. */
static enum status pnm_number(struct pnm *p, int digits, const char *what, uint32_t *out) {
    int used = 0;
    uint32_t value = 0;
    pnm_blanks(p);
    for (; p->at < p->size && used < digits; p->at++, used++) {
        uint8_t c = p->bytes[p->at];
        if (c < '0' || c > '9') break;
        value = value * 10 + (uint32_t)(c - '0');
    }
    if (used == 0 && p->at >= p->size)
        return fail(ST_FORMAT, "broken pnm: the file ends before its %s", what);
    if (used == 0)
        return fail(ST_FORMAT, "broken pnm: the byte 0x%02x where a number was due (%s)",
                    p->bytes[p->at], what);
    *out = value;
    return ST_OK;
}

static enum status pnm_header(struct pnm *p, uint32_t *width, uint32_t *height) {
    p->kind = p->bytes[1] - '0';
    p->channels = p->kind == 3 || p->kind == 6 ? 3 : 1;
    p->most = 1;
    p->at = 2;
    TRY(pnm_number(p, 9, "width", width));
    TRY(pnm_number(p, 9, "height", height));
    if (p->kind != 1 && p->kind != 4) TRY(pnm_number(p, 9, "largest value", &p->most));
    if (p->most < 1 || p->most > 65535)
        return fail(ST_FORMAT, "broken pnm: a largest value of %u, want 1 to 65535",
                    (unsigned)p->most);
    if (p->kind >= 4) { /* exactly one blank, then the samples */
        if (p->at >= p->size || !is_blank(p->bytes[p->at]))
            return fail(ST_FORMAT, "broken pnm: no blank behind the header");
        p->at++;
    }
    return ST_OK;
}

/* Halves to even, as Python's round in Pillow. */
static uint8_t pnm_scale(const struct pnm *p, uint32_t value) {
    if (value > p->most) value = p->most;
    return p->most == 255 ? (uint8_t)value : (uint8_t)rint((double)value / p->most * 255);
}

static enum status pnm_binary(struct pnm *p, struct image *out) {
    size_t wide = p->most > 255 ? 2 : 1;
    size_t row = p->kind == 4 ? ((size_t)out->width + 7) / 8
                              : (size_t)out->width * (size_t)p->channels * wide;
    size_t need;
    if (!size_mul(row, (size_t)out->height, &need) || p->size - p->at < need)
        return fail(ST_FORMAT, "broken pnm: the file ends too early");
    for (int y = 0; y < out->height; y++) {
        const uint8_t *in = p->bytes + p->at + (size_t)y * row;
        uint8_t *rgb = image_row(out, y);
        for (size_t i = 0; i < (size_t)out->width * 3; i++) {
            size_t at = p->channels == 3 ? i : i / 3;
            if (p->kind == 4)
                rgb[i] = in[at / 8] >> (7 - at % 8) & 1 ? 0 : 255;
            else
                rgb[i] = pnm_scale(p, wide == 2 ? image_be16(in + at * 2) : in[at]);
        }
    }
    return ST_OK;
}

static enum status pnm_text(struct pnm *p, struct image *out) {
    size_t count = (size_t)out->width * (size_t)out->height * (size_t)p->channels;
    for (size_t i = 0; i < count; i++) {
        uint32_t value = 0;
        uint8_t byte;
        /* In P1 the digits may stand without blanks between them. */
        TRY(pnm_number(p, p->kind == 1 ? 1 : 9, "samples", &value));
        if (value > p->most)
            return fail(ST_FORMAT, "broken pnm: a sample of %u, at most %u", (unsigned)value,
                        (unsigned)p->most);
        byte = p->kind == 1 ? (value ? 0 : 255) : pnm_scale(p, value);
        if (p->channels == 3)
            out->rgb[i] = byte;
        else
            out->rgb[i * 3] = out->rgb[i * 3 + 1] = out->rgb[i * 3 + 2] = byte;
    }
    return ST_OK;
}

enum status image_pnm_decode(const uint8_t *bytes, size_t size, const struct image_options *options,
                             struct image *out) {
    struct pnm p = {0};
    uint32_t width = 0, height = 0;
    p.bytes = bytes;
    p.size = size;
    TRY(pnm_header(&p, &width, &height));
    TRY(image_begin(out, width, height, options));
    return p.kind <= 3 ? pnm_text(&p, out) : pnm_binary(&p, out);
}
