/*
 * image_stb: stb_image, compiled here and nowhere else, and the kinds it reads: the pixels of PNG,
 * Targa, PSD, and JPEG where libjpeg-turbo is absent (then not bit-exact, see image.h).
 *
 * stb_image reads zeros behind the end of the file and unpacks without bound. Both are caught from
 * outside: it reads through callbacks that notice a byte wanted behind the end, and its memory
 * comes from an allowance made from the size in the header.
 */
#include "datasets/image_decoders.h"

/* The Targa header, 18 bytes. */
struct tga {
    int id_bytes, has_map, type, map_first, map_count, map_bits, depth, descriptor;
    uint32_t width, height;
};

static struct tga tga_header(const uint8_t *p) {
    struct tga t = {p[0], p[1],  p[2],  (int)image_le16(p + 3), (int)image_le16(p + 5),
                    p[7], p[16], p[17], image_le16(p + 12),     image_le16(p + 14)};
    return t;
}

bool image_tga_match(const uint8_t *bytes, size_t size) {
    struct tga t;
    bool layout;
    if (size < 19) return false;
    t = tga_header(bytes);
    switch (t.type & ~8) { /* 8: run-length coded */
    case 1:
        layout = t.has_map == 1 && t.depth == 8 && t.map_count >= 1 && t.map_count <= 256 &&
                 (t.map_bits == 15 || t.map_bits == 16 || t.map_bits == 24 || t.map_bits == 32);
        break;
    case 2: layout = t.depth == 15 || t.depth == 16 || t.depth == 24 || t.depth == 32; break;
    case 3: layout = t.depth == 8 || t.depth == 16; break;
    default: return false;
    }
    if ((t.type & ~8) != 1)
        layout = layout && !t.has_map && !t.map_first && !t.map_count && !t.map_bits;
    return layout && t.width && t.height && (t.descriptor & 0xC0) == 0 && (t.descriptor & 15) <= 8;
}

#if HAVE_STB

#include <string.h>

/* What stb_image may still allocate for the file this thread is reading; was it too little? */
static _Thread_local size_t allowance;
static _Thread_local bool overdrawn;

static void *stb_alloc(size_t size) {
    overdrawn = overdrawn || size > allowance;
    if (overdrawn) return NULL;
    allowance -= size;
    return mem_zalloc(size, 1);
}

static void *stb_realloc(void *old, size_t old_size, size_t size) {
    void *fresh = stb_alloc(size);
    if (!fresh) return NULL;
    if (old) memcpy(fresh, old, old_size < size ? old_size : size);
    mem_free(old);
    return fresh;
}

#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_NO_PIC
#define STBI_NO_PNM
#define STBI_NO_BMP
#define STBI_NO_GIF
#if HAVE_JPEG
#define STBI_NO_JPEG
#endif
#define STBI_MAX_DIMENSIONS                     (1 << 24)
#define STBI_ASSERT(condition)                  ((void)0) /* library code does not abort on input */
#define STBI_MALLOC(size)                       stb_alloc(size)
#define STBI_REALLOC_SIZED(old, old_size, size) stb_realloc(old, old_size, size)
#define STBI_FREE(memory)                       mem_free(memory)
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#endif
#include <stb/stb_image.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* The file as stb_image's callbacks see it. */
struct source {
    const uint8_t *bytes;
    size_t size, at;
    const char *buffer; /* where stb_image refills its own buffer, which it asks for generously */
    bool ended;         /* it wanted a byte that is not there */
};

static int source_read(void *user, char *data, int size) {
    struct source *s = user;
    size_t left = s->size - s->at, got = (size_t)size < left ? (size_t)size : left;
    if (!s->buffer) s->buffer = data;
    if (left == 0 || (got < (size_t)size && data != s->buffer)) s->ended = true;
    memcpy(data, s->bytes + s->at, got);
    s->at += got;
    return (int)got;
}

static void source_skip(void *user, int n) {
    struct source *s = user;
    size_t left = s->size - s->at;
    s->at += n < 0 || (size_t)n > left ? left : (size_t)n;
}

static int source_eof(void *user) {
    const struct source *s = user;
    return s->at == s->size;
}

static const stbi_io_callbacks source_callbacks = {source_read, source_skip, source_eof};

/*
 * The most that decoding takes: the unpacked rows (up to 8 bytes a pixel, doubled while they grow),
 * the picture in its own and in its expanded form, and copies of the file.
 */
static size_t allowance_for(const struct image *out, size_t size) {
    return (size_t)out->width * (size_t)out->height * 48 + size * 8 + ((size_t)1 << 20);
}

enum status image_stb_load(const char *kind, const uint8_t *bytes, size_t size, int bits,
                           const struct image_options *options, struct image *out) {
    struct source source = {bytes, size, 0, NULL, false};
    struct image_samples layout = {0};
    int width, height, channels;
    uint8_t *pixels;
    allowance = allowance_for(out, size);
    overdrawn = false;
    pixels = bits == 16 ? (uint8_t *)stbi_load_16_from_callbacks(&source_callbacks, &source, &width,
                                                                 &height, &channels, 0)
                        : stbi_load_from_callbacks(&source_callbacks, &source, &width, &height,
                                                   &channels, 0);
    if (source.ended || !pixels || width != out->width || height != out->height) {
        mem_free(pixels);
        if (overdrawn)
            return fail(ST_FORMAT, "broken %s: it unpacks to far more than its %d x %d pixels",
                        kind, out->width, out->height);
        if (source.ended) return fail(ST_FORMAT, "broken %s: the file ends too early", kind);
        return fail(ST_FORMAT, "broken %s: %s", kind,
                    pixels ? "two different sizes" : stbi_failure_reason());
    }
    layout.channels = layout.step = channels;
    layout.bits = bits;
    for (int y = 0; y < height; y++)
        image_samples_to_rgb(&layout, options,
                             pixels + (size_t)y * (size_t)(width * channels) * (size_t)(bits / 8),
                             width, image_row(out, y));
    mem_free(pixels);
    return ST_OK;
}

#if !HAVE_JPEG
/*
 * The Huffman tables of every DHT segment must have at most 256 codes: stb_image 2.27 writes behind
 * its own table else. Segment: length (2), then tables: class and number (1), 16 counts, the codes.
 */
static bool jpeg_tables_fit(const uint8_t *bytes, size_t size) {
    for (size_t at = 0; size >= 4 && at < size - 4; at++) {
        size_t length, table;
        if (bytes[at] != 0xFF || bytes[at + 1] != 0xC4) continue;
        length = image_be16(bytes + at + 2);
        for (table = at + 4; table < at + 2 + length && table < size;) { /* may pass the segment */
            size_t codes = 0;
            for (size_t i = 1; i <= 16 && table + i < size; i++)
                codes += bytes[table + i];
            if (codes > 256) return false;
            table += 17 + codes;
        }
    }
    return true;
}

enum status image_stb_jpeg(const uint8_t *bytes, size_t size, const struct image_options *options,
                           struct image *out) {
    int width, height, channels;
    if (!jpeg_tables_fit(bytes, size))
        return fail(ST_FORMAT, "broken jpeg: a Huffman table of more than 256 codes");
    if (!stbi_info_from_memory(bytes, (int)size, &width, &height, &channels))
        return fail(ST_FORMAT, "broken jpeg: %s", stbi_failure_reason());
    TRY(image_begin(out, (uint64_t)width, (uint64_t)height, options));
    out->orientation = image_exif_jpeg(bytes, size);
    return image_stb_load("jpeg", bytes, size, 8, options, out);
}
#endif

/*
 * PSD: magic (4), version (2), reserved (6), channels (2), height (4), width (4), depth (2), mode
 * (2), then three blocks with their lengths in front, compression (2), pixels. Only the flattened
 * RGB picture is read; stb_image takes the white that Photoshop mixes in out of half-transparent
 * pixels, which Pillow does not.
 */
enum status image_stb_psd(const uint8_t *bytes, size_t size, const struct image_options *options,
                          struct image *out) {
    size_t at = 26;
    uint32_t depth, mode;
    if (size < 26) return fail(ST_FORMAT, "broken psd: %zu bytes, want a header of 26", size);
    depth = image_be16(bytes + 22);
    mode = image_be16(bytes + 24);
    if (mode != 3 || (depth != 8 && depth != 16))
        return fail(ST_FORMAT,
                    "a psd of colour mode %u with %u bits, want mode 3 (RGB) with 8 "
                    "or 16",
                    mode, depth);
    for (int block = 0; block < 3; block++) {
        if (size - at < 4 || image_be32(bytes + at) > size - at - 4)
            return fail(ST_FORMAT, "broken psd: the file ends too early");
        at += 4 + image_be32(bytes + at);
    }
    if (depth == 16 && size - at >= 2 && image_be16(bytes + at) != 0)
        return fail(ST_FORMAT, "a compressed psd of 16 bits, which is not read here");
    TRY(image_begin(out, image_be32(bytes + 18), image_be32(bytes + 14), options));
    return image_stb_load("psd", bytes, size, (int)depth, options, out);
}

enum status image_stb_tga(const uint8_t *bytes, size_t size, const struct image_options *options,
                          struct image *out) {
    struct tga t = tga_header(bytes);
    struct image_options own = *options;
    if (t.descriptor & 0x10)
        return fail(ST_FORMAT, "a tga stored from right to left, which is not read here");
    if (t.map_first != 0)
        return fail(ST_FORMAT, "a tga whose palette begins at %d, which is not read here",
                    t.map_first);
    if ((t.descriptor & 15) == 0) own.composite = false; /* the fourth channel is not alpha */
    TRY(image_begin(out, t.width, t.height, options));
    return image_stb_load("tga", bytes, size, 8, &own, out);
}

#endif
