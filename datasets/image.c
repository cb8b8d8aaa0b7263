/*
 * image: see image.h. bytes -> image_find (magic bytes) -> a decoder -> upright (h, w, 3) RGB.
 */
#include "datasets/image.h"

#include "datasets/image_decoders.h"

#include <limits.h>
#include <string.h>

bool image_bytes_at(const uint8_t *bytes, size_t size, size_t offset, const char *magic,
                    size_t length) {
    return size >= offset && size - offset >= length && memcmp(bytes + offset, magic, length) == 0;
}

static bool jpeg_match(const uint8_t *bytes, size_t size) {
    return image_bytes_at(bytes, size, 0, "\xFF\xD8\xFF", 3);
}

static bool png_match(const uint8_t *bytes, size_t size) {
    return image_bytes_at(bytes, size, 0, "\x89PNG\r\n\x1A\n", 8);
}

static bool gif_match(const uint8_t *bytes, size_t size) {
    return image_bytes_at(bytes, size, 0, "GIF87a", 6) ||
           image_bytes_at(bytes, size, 0, "GIF89a", 6);
}

/* "BM" begins many texts; the size of the header behind it is one of few. */
static bool bmp_match(const uint8_t *bytes, size_t size) {
    static const uint8_t headers[] = {12, 40, 52, 56, 64, 108, 124};
    if (!image_bytes_at(bytes, size, 0, "BM", 2) || size < 18) return false;
    for (size_t i = 0; i < COUNT_OF(headers); i++)
        if (image_le32(bytes + 14) == headers[i]) return true;
    return false;
}

static bool webp_match(const uint8_t *bytes, size_t size) {
    return image_bytes_at(bytes, size, 0, "RIFF", 4) && image_bytes_at(bytes, size, 8, "WEBP", 4);
}

static bool tiff_match(const uint8_t *bytes, size_t size) {
    return image_bytes_at(bytes, size, 0, "II*\0", 4) ||
           image_bytes_at(bytes, size, 0, "MM\0*", 4) ||
           image_bytes_at(bytes, size, 0, "II+\0", 4) || image_bytes_at(bytes, size, 0, "MM\0+", 4);
}

static bool brand_match(const uint8_t *bytes, size_t size, const char *brands) {
    if (!image_bytes_at(bytes, size, 4, "ftyp", 4) || size < 12) return false;
    for (; *brands; brands += 4)
        if (memcmp(bytes + 8, brands, 4) == 0) return true;
    return false;
}

static bool avif_match(const uint8_t *bytes, size_t size) {
    return brand_match(bytes, size, "avifavis");
}

static bool heif_match(const uint8_t *bytes, size_t size) {
    return brand_match(bytes, size, "heicheixhevchevxheimheismif1msf1");
}

static bool psd_match(const uint8_t *bytes, size_t size) {
    return image_bytes_at(bytes, size, 0, "8BPS", 4);
}

/* P1 to P6 and blank space. */
static bool pnm_match(const uint8_t *bytes, size_t size) {
    return size >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           (bytes[2] == ' ' || (bytes[2] >= '\t' && bytes[2] <= '\r'));
}

#if HAVE_JPEG
#define JPEG_DECODER "libjpeg-turbo", image_jpeg_decode
#elif HAVE_STB
#define JPEG_DECODER "stb_image", image_stb_jpeg
#else
#define JPEG_DECODER "libjpeg-turbo", NULL
#endif
#if HAVE_STB
#define STB_DECODER(function) "stb_image", function
#else
#define STB_DECODER(function) "stb_image", NULL
#endif
#if HAVE_WEBP
#define WEBP_DECODER "libwebp", image_webp_decode
#else
#define WEBP_DECODER "libwebp", NULL
#endif
#if HAVE_TIFF
#define TIFF_DECODER "libtiff", image_tiff_decode
#else
#define TIFF_DECODER "libtiff", NULL
#endif
#if HAVE_HEIF
#define HEIF_DECODER "libheif", image_heif_decode
#else
#define HEIF_DECODER "libheif", NULL
#endif

/* The formats, surest magic first; a NULL decoder is a kind that is known but not built in. */
static const struct format {
    const char *kind;
    bool (*match)(const uint8_t *bytes, size_t size);
    const char *library;
    image_decoder *decode;
} formats[] = {
    {"jpeg", jpeg_match, JPEG_DECODER},
    {"png", png_match, STB_DECODER(image_png_decode)},
    {"gif", gif_match, "built in", image_gif_decode},
    {"bmp", bmp_match, "built in", image_bmp_decode},
    {"webp", webp_match, WEBP_DECODER},
    {"tiff", tiff_match, TIFF_DECODER},
    {"heic", heif_match, HEIF_DECODER},
    {"avif", avif_match, HEIF_DECODER},
    {"psd", psd_match, STB_DECODER(image_stb_psd)},
    {"pnm", pnm_match, "built in", image_pnm_decode},
    {"tga", image_tga_match, STB_DECODER(image_stb_tga)},
};

/* The same list as text, joined by the compiler: no state to share between threads. */
#if HAVE_JPEG
#define JPEG_TEXT "jpeg (libjpeg-turbo), "
#elif HAVE_STB
#define JPEG_TEXT "jpeg (stb_image), "
#else
#define JPEG_TEXT ""
#endif
#if HAVE_STB
#define STB_TEXT "png, psd, tga (stb_image), "
#else
#define STB_TEXT ""
#endif
#if HAVE_WEBP
#define WEBP_TEXT "webp (libwebp), "
#else
#define WEBP_TEXT ""
#endif
#if HAVE_TIFF
#define TIFF_TEXT "tiff (libtiff), "
#else
#define TIFF_TEXT ""
#endif
#if HAVE_HEIF
#define HEIF_TEXT "heic, avif (libheif), "
#else
#define HEIF_TEXT ""
#endif

const char *image_formats(void) {
    return JPEG_TEXT STB_TEXT WEBP_TEXT TIFF_TEXT HEIF_TEXT "gif, bmp, pnm (built in)";
}

struct image_options image_defaults(void) {
    struct image_options options = {true, false, {0, 0, 0}, 178956970};
    return options;
}

void image_release(struct image *image) {
    mem_free(image->rgb);
    memset(image, 0, sizeof *image);
}

enum status image_begin(struct image *image, uint64_t width, uint64_t height,
                        const struct image_options *options) {
    const uint64_t side = 1 << 30;
    size_t bytes;
    if (width == 0 || height == 0)
        return fail(ST_FORMAT, "a picture of %ju x %ju pixels, want at least 1 x 1",
                    (uintmax_t)width, (uintmax_t)height);
    if (width > side || height > side ||
        (options->max_pixels && width * height > options->max_pixels))
        return fail(ST_NOMEM, "a picture of %ju x %ju pixels, at most %ju are taken (--max-pixels)",
                    (uintmax_t)width, (uintmax_t)height,
                    (uintmax_t)(options->max_pixels ? options->max_pixels : side));
    if (!size_mul((size_t)(width * height), 3, &bytes))
        return fail(ST_NOMEM, "no memory for %ju x %ju pixels", (uintmax_t)width,
                    (uintmax_t)height);
    image->rgb = mem_zalloc(bytes, 1);
    if (!image->rgb) return ST_NOMEM;
    image->width = (int)width;
    image->height = (int)height;
    return ST_OK;
}

uint8_t *image_row(const struct image *image, int y) {
    return image->rgb + (size_t)y * (size_t)image->width * 3;
}

/* dst rows of `width` pixels from src, whose pixels lie across (along x) and down bytes apart. */
static void pixels_gather(const uint8_t *src, ptrdiff_t across, ptrdiff_t down, int width,
                          int height, uint8_t *dst) {
    enum { TILE = 32 }; /* a tile of both pictures stays in the first cache */
    for (int y0 = 0; y0 < height; y0 += TILE) {
        for (int x0 = 0; x0 < width; x0 += TILE) {
            int y1 = height - y0 < TILE ? height : y0 + TILE;
            int x1 = width - x0 < TILE ? width : x0 + TILE;
            for (int y = y0; y < y1; y++) {
                const uint8_t *p = src + y * down + x0 * across;
                uint8_t *q = dst + ((size_t)y * (size_t)width + (size_t)x0) * 3;
                for (int x = x0; x < x1; x++, p += across, q += 3) {
                    q[0] = p[0];
                    q[1] = p[1];
                    q[2] = p[2];
                }
            }
        }
    }
}

/*
 * Turns the picture upright. EXIF orientation: where the stored picture's row 0 and column 0 are
 * seen: 1 top left, 2 top right, 3 bottom right, 4 bottom left, 5 left top, 6 right top,
 * 7 right bottom, 8 left bottom.
 */
static enum status image_turn(struct image *image) {
    ptrdiff_t pixel = 3, row = (ptrdiff_t)image->width * 3, across, down;
    int width = image->width, height = image->height, o = image->orientation;
    bool from_right = o == 2 || o == 3 || o == 7 || o == 8;
    bool from_bottom = o == 3 || o == 4 || o == 6 || o == 7;
    uint8_t *upright;
    const uint8_t *start = image->rgb;
    if (o < 2 || o > 8) return ST_OK;
    upright = mem_zalloc((size_t)width * (size_t)height, 3);
    if (!upright) return ST_NOMEM;
    if (from_right) start += row - pixel;
    if (from_bottom) start += row * (height - 1);
    across = from_right ? -pixel : pixel;
    down = from_bottom ? -row : row;
    if (o >= 5) {
        ptrdiff_t swap = across;
        across = down;
        down = swap;
        image->width = height;
        image->height = width;
    }
    pixels_gather(start, across, down, image->width, image->height, upright);
    mem_free(image->rgb);
    image->rgb = upright;
    return ST_OK;
}

enum status image_decode(const uint8_t *bytes, size_t size, const struct image_options *options,
                         struct image *out) {
    struct image fresh = {0, 0, NULL, 1};
    enum status st = ST_FORMAT;
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        const struct format *format = &formats[i];
        if (!format->match(bytes, size)) continue;
        if (!format->decode)
            return fail(ST_FORMAT,
                        "a %s image, which this build cannot read: it was made "
                        "without %s",
                        format->kind, format->library);
        if (size > INT_MAX)
            return fail(ST_NOMEM, "a %s file of %zu bytes, at most %d are taken", format->kind,
                        size, INT_MAX);
        st = format->decode(bytes, size, options, &fresh);
        if (st == ST_OK && options->apply_exif) st = image_turn(&fresh);
        if (st == ST_OK)
            *out = fresh;
        else
            image_release(&fresh);
        return st;
    }
    return image_unknown(bytes, size);
}

enum status image_read(const char *path, const struct image_options *options, struct image *out) {
    uint8_t *bytes;
    size_t size;
    enum status st;
    TRY(file_read(path, INT_MAX, &bytes, &size));
    st = image_decode(bytes, size, options, out);
    mem_free(bytes);
    if (st == ST_OK) return ST_OK;
    return fail_prefix(st, strcmp(path, "-") == 0 ? "standard input" : path);
}
