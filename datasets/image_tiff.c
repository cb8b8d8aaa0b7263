/*
 * image_tiff: TIFF through libtiff: the first picture of the file; grey, palette, RGB and CMYK of
 * 1, 2, 4, 8 or 16 bits, in strips or tiles, interleaved or in planes, any compression libtiff has.
 *
 *   strip or tile -> rows of samples, 8 or 16 bits, interleaved -> image_samples_to_rgb
 *
 * YCbCr goes through libtiff's own conversion; other models (Lab, ...) are refused by number.
 */
#include "datasets/image_decoders.h"

#if HAVE_TIFF

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tiffio.h>

/* The file in memory, and the first thing libtiff complained of. */
struct tiff_source {
    const uint8_t *bytes;
    uint64_t size, at;
    char reason[200];
};

struct tiff {
    TIFF *file;
    struct tiff_source source;
    uint32_t width, height;
    uint16_t bits, channels, photometric, planes, alpha_kind;
    bool alpha;
    uint16_t *map[3]; /* palette, 1 << bits entries each */
};

static tmsize_t source_read(thandle_t user, void *data, tmsize_t size) {
    struct tiff_source *s = user;
    uint64_t left = s->at < s->size ? s->size - s->at : 0;
    uint64_t got = size < 0 ? 0 : (uint64_t)size < left ? (uint64_t)size : left;
    if (got) memcpy(data, s->bytes + s->at, (size_t)got);
    s->at += got;
    return (tmsize_t)got;
}

static tmsize_t source_write(thandle_t user, void *data, tmsize_t size) {
    (void)user, (void)data, (void)size;
    return 0;
}

static toff_t source_seek(thandle_t user, toff_t offset, int whence) {
    struct tiff_source *s = user;
    s->at = offset + (whence == SEEK_CUR ? s->at : whence == SEEK_END ? s->size : 0);
    return s->at;
}

static int source_close(thandle_t user) {
    (void)user;
    return 0;
}

static toff_t source_size(thandle_t user) {
    return ((struct tiff_source *)user)->size;
}

#if TIFFLIB_VERSION >= 20221213 /* 4.5.0: handlers and a memory limit for one file */
static int on_error(TIFF *file, void *user, const char *module, const char *format, va_list args) {
    struct tiff_source *s = user;
    (void)file, (void)module;
    if (!s->reason[0]) vsnprintf(s->reason, sizeof s->reason, format, args);
    return 1;
}

static int on_warning(TIFF *file, void *user, const char *module, const char *format,
                      va_list args) {
    (void)file, (void)user, (void)module, (void)format, (void)args;
    return 1;
}

static TIFF *tiff_open(struct tiff_source *source, uint64_t memory) {
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    TIFF *file;
    if (!options) return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)memory);
    TIFFOpenOptionsSetErrorHandlerExtR(options, on_error, source);
    TIFFOpenOptionsSetWarningHandlerExtR(options, on_warning, source);
    file = TIFFClientOpenExt("tiff", "rm", source, source_read, source_write, source_seek,
                             source_close, source_size, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return file;
}
#else
static TIFF *tiff_open(struct tiff_source *source, uint64_t memory) {
    (void)memory;
    TIFFSetErrorHandler(NULL); /* it would print */
    TIFFSetWarningHandler(NULL);
    return TIFFClientOpen("tiff", "rm", source, source_read, source_write, source_seek,
                          source_close, source_size, NULL, NULL);
}
#endif

static enum status tiff_broken(struct tiff *t) {
    image_printable(t->source.reason);
    return fail(ST_FORMAT, "broken tiff: %s",
                t->source.reason[0] ? t->source.reason : "libtiff cannot read it");
}

/* Sizes, depth, colour model, alpha and orientation, from the tags. */
static enum status tiff_header(struct tiff *t, struct image *out) {
    uint16_t orientation = 1, extras = 0, format = SAMPLEFORMAT_UINT, compression = 1;
    uint16_t *kinds = NULL;
    if (!TIFFGetField(t->file, TIFFTAG_IMAGEWIDTH, &t->width) ||
        !TIFFGetField(t->file, TIFFTAG_IMAGELENGTH, &t->height))
        return fail(ST_FORMAT, "broken tiff: no width or height");
    TIFFGetFieldDefaulted(t->file, TIFFTAG_BITSPERSAMPLE, &t->bits);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_SAMPLESPERPIXEL, &t->channels);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_PLANARCONFIG, &t->planes);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_COMPRESSION, &compression);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_ORIENTATION, &orientation);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_EXTRASAMPLES, &extras, &kinds);
    if (!TIFFGetField(t->file, TIFFTAG_PHOTOMETRIC, &t->photometric))
        t->photometric = t->channels >= 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK;
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID)
        return fail(ST_FORMAT, "a tiff of %s numbers, want unsigned ones",
                    format == SAMPLEFORMAT_IEEEFP ? "floating-point" : "signed or complex");
    if (t->channels < 1 || t->channels > 64)
        return fail(ST_FORMAT, "a tiff of %d channels", t->channels);
    out->orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
    t->alpha = extras > 0 && kinds &&
               (kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA);
    t->alpha_kind = t->alpha ? kinds[0] : 0;
    if (t->photometric == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG &&
        t->planes == PLANARCONFIG_CONTIG) { /* libjpeg turns it into RGB */
        TIFFSetField(t->file, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
        t->photometric = PHOTOMETRIC_RGB;
    }
    if (t->photometric == PHOTOMETRIC_PALETTE &&
        !TIFFGetField(t->file, TIFFTAG_COLORMAP, &t->map[0], &t->map[1], &t->map[2]))
        return fail(ST_FORMAT, "broken tiff: a palette picture without palette");
    return ST_OK;
}

/* How rows look to image_samples_to_rgb; false: not one of the layouts read here. */
static bool tiff_layout(const struct tiff *t, struct image_samples *layout) {
    int colors = t->photometric == PHOTOMETRIC_RGB         ? 3
                 : t->photometric == PHOTOMETRIC_SEPARATED ? 4
                 : t->photometric <= PHOTOMETRIC_PALETTE   ? 1
                                                           : 0;
    bool small = t->bits == 1 || t->bits == 2 || t->bits == 4;
    memset(layout, 0, sizeof *layout);
    if (colors == 0 || t->channels < colors || (!small && t->bits != 8 && t->bits != 16))
        return false;
    if (t->photometric == PHOTOMETRIC_PALETTE && t->bits == 16) return false;
    layout->cmyk = colors == 4;
    layout->inverted = t->photometric == PHOTOMETRIC_MINISWHITE;
    layout->channels = colors;
    layout->premultiplied = t->alpha_kind == EXTRASAMPLE_ASSOCALPHA;
    if (t->alpha && t->channels > colors && colors != 4 && !layout->inverted &&
        t->photometric != PHOTOMETRIC_PALETTE)
        layout->channels++;
    else
        layout->premultiplied = false;
    layout->step = t->channels;
    layout->bits = t->bits == 16 ? 16 : 8;
    return true;
}

/* A block of the picture, a strip or a tile, and the buffers it passes through. */
struct tiff_block {
    uint32_t width, height; /* of a whole block */
    size_t row;             /* bytes of one of its rows, in one plane if there are planes */
    size_t bytes;           /* of a whole block, one plane */
    uint8_t *raw;           /* (planes, bytes) as libtiff gives it */
    uint8_t *samples;       /* (width, channels), 8 or 16 bits, interleaved */
};

static enum status tiff_block_open(const struct tiff *t, struct tiff_block *b) {
    uint64_t room, picture = (uint64_t)t->width * t->height * t->channels * ((t->bits + 7u) / 8u);
    tmsize_t bytes, row;
    size_t planes = t->planes == PLANARCONFIG_SEPARATE ? t->channels : 1;
    if (TIFFIsTiled(t->file)) {
        if (!TIFFGetField(t->file, TIFFTAG_TILEWIDTH, &b->width) ||
            !TIFFGetField(t->file, TIFFTAG_TILELENGTH, &b->height))
            return fail(ST_FORMAT, "broken tiff: tiles without a size");
        bytes = TIFFTileSize(t->file);
        row = TIFFTileRowSize(t->file);
    } else {
        b->width = t->width;
        TIFFGetFieldDefaulted(t->file, TIFFTAG_ROWSPERSTRIP, &b->height);
        if (b->height > t->height) b->height = t->height;
        bytes = TIFFStripSize(t->file);
        row = TIFFScanlineSize(t->file);
    }
    /* A tile may stick out of the picture, but not by much more than its own usual size. */
    room = picture * 4 + ((uint64_t)16 << 20);
    if (b->width == 0 || b->height == 0 || bytes <= 0 || row <= 0 || (uint64_t)bytes > room ||
        (uint64_t)b->width * t->channels * 2 > room)
        return fail(ST_FORMAT, "broken tiff: blocks of %u x %u pixels in a picture of %u x %u",
                    (unsigned)b->width, (unsigned)b->height, (unsigned)t->width,
                    (unsigned)t->height);
    b->bytes = (size_t)bytes;
    b->row = (size_t)row;
    b->raw = mem_zalloc(planes, b->bytes);
    b->samples = mem_zalloc((size_t)b->width * t->channels, 2);
    return b->raw && b->samples ? ST_OK : ST_NOMEM;
}

/* `count` samples of `bits` bits from `raw` to every step-th place of `samples` (from `first`). */
static void samples_spread(const struct tiff *t, const uint8_t *raw, size_t count, size_t first,
                           size_t step, uint8_t *samples) {
    unsigned most = (1u << (t->bits < 8 ? t->bits : 1)) - 1;
    bool index = t->photometric == PHOTOMETRIC_PALETTE;
    for (size_t i = 0; i < count; i++) {
        size_t to = first + i * step;
        if (t->bits == 16) {
            memcpy(samples + to * 2, raw + i * 2, 2);
        } else if (t->bits == 8) {
            samples[to] = raw[i];
        } else {
            size_t bit = i * t->bits;
            unsigned value = raw[bit / 8] >> (8 - t->bits - bit % 8) & most;
            samples[to] = (uint8_t)(index ? value : value * 255 / most);
        }
    }
}

/* Pillow takes the high byte of the palette's 16 bits. */
static void palette_row(const struct tiff *t, const uint8_t *samples, uint32_t width,
                        uint8_t *rgb) {
    for (uint32_t x = 0; x < width; x++)
        for (int c = 0; c < 3; c++)
            rgb[x * 3 + (uint32_t)c] = (uint8_t)(t->map[c][samples[(size_t)x * t->channels]] >> 8);
}

/* Row `y` of a block whose left upper pixel is (x0, y0) of the picture. */
static void tiff_block_row(const struct tiff *t, const struct tiff_block *b,
                           const struct image_samples *layout, const struct image_options *options,
                           uint32_t x0, uint32_t y0, uint32_t y, struct image *out) {
    size_t channels = t->channels;
    uint32_t seen = t->width - x0 < b->width ? t->width - x0 : b->width;
    uint8_t *rgb = image_row(out, (int)(y0 + y)) + (size_t)x0 * 3;
    const uint8_t *raw = b->raw + (size_t)y * b->row;
    if (t->planes == PLANARCONFIG_SEPARATE)
        for (size_t c = 0; c < channels; c++)
            samples_spread(t, raw + c * b->bytes, seen, c, channels, b->samples);
    else
        samples_spread(t, raw, (size_t)seen * channels, 0, 1, b->samples);
    if (t->photometric == PHOTOMETRIC_PALETTE)
        palette_row(t, b->samples, seen, rgb);
    else
        image_samples_to_rgb(layout, options, b->samples, (int)seen, rgb);
}

/* Reads the block at (x, y), all its planes. */
static bool tiff_block_read(const struct tiff *t, const struct tiff_block *b, uint32_t x,
                            uint32_t y, uint32_t rows) {
    uint16_t planes = t->planes == PLANARCONFIG_SEPARATE ? t->channels : 1;
    for (uint16_t plane = 0; plane < planes; plane++) {
        uint8_t *raw = b->raw + (size_t)plane * b->bytes;
        tmsize_t want = (tmsize_t)(TIFFIsTiled(t->file) ? b->bytes : rows * b->row);
        tmsize_t got =
            TIFFIsTiled(t->file)
                ? TIFFReadEncodedTile(t->file, TIFFComputeTile(t->file, x, y, 0, plane), raw, want)
                : TIFFReadEncodedStrip(t->file, TIFFComputeStrip(t->file, y, plane), raw, want);
        if (got < want) return false;
    }
    return true;
}

static enum status tiff_blocks(struct tiff *t, const struct image_samples *layout,
                               const struct image_options *options, struct image *out) {
    struct tiff_block b = {0};
    enum status st = tiff_block_open(t, &b);
    for (uint32_t y = 0; st == ST_OK && y < t->height; y += b.height) {
        uint32_t rows = t->height - y < b.height ? t->height - y : b.height;
        for (uint32_t x = 0; st == ST_OK && x < t->width; x += b.width) {
            if (!tiff_block_read(t, &b, x, y, rows)) st = tiff_broken(t);
            for (uint32_t i = 0; st == ST_OK && i < rows; i++)
                tiff_block_row(t, &b, layout, options, x, y, i, out);
        }
    }
    mem_free(b.raw);
    mem_free(b.samples);
    return st;
}

/* libtiff's own conversion to 8-bit RGBA (premultiplied), in the rows' stored order. */
static enum status tiff_convert(struct tiff *t, const struct image_options *options,
                                struct image *out) {
    const struct image_samples layout = {4, 4, 8, false, false, true};
    char why[1024] = "";
    enum status st = ST_OK;
    uint32_t *raster;
    uint8_t pixel[4];
    if (t->photometric != PHOTOMETRIC_YCBCR)
        return fail(ST_FORMAT, "a tiff of colour model %u with %u bits, which is not read here",
                    t->photometric, t->bits);
    if (!TIFFRGBAImageOK(t->file, why)) {
        image_printable(why);
        return fail(ST_FORMAT, "a tiff that is not read here: %s", why);
    }
    raster = mem_zalloc((size_t)t->width * t->height, sizeof *raster);
    if (!raster) return ST_NOMEM;
    if (!TIFFReadRGBAImageOriented(t->file, t->width, t->height, raster, out->orientation, 1))
        st = tiff_broken(t);
    for (size_t i = 0; st == ST_OK && i < (size_t)t->width * t->height; i++) {
        pixel[0] = (uint8_t)TIFFGetR(raster[i]);
        pixel[1] = (uint8_t)TIFFGetG(raster[i]);
        pixel[2] = (uint8_t)TIFFGetB(raster[i]);
        pixel[3] = (uint8_t)TIFFGetA(raster[i]);
        image_samples_to_rgb(&layout, options, pixel, 1, out->rgb + i * 3);
    }
    mem_free(raster);
    return st;
}

enum status image_tiff_decode(const uint8_t *bytes, size_t size,
                              const struct image_options *options, struct image *out) {
    struct tiff t = {0};
    struct image_samples layout;
    uint64_t pixels = options->max_pixels ? options->max_pixels : (uint64_t)1 << 31;
    enum status st;
    t.source.bytes = bytes;
    t.source.size = size;
    t.file = tiff_open(&t.source, pixels * 16 + ((uint64_t)64 << 20));
    if (!t.file) return tiff_broken(&t);
    st = tiff_header(&t, out);
    if (st == ST_OK) st = image_begin(out, t.width, t.height, options);
    if (st == ST_OK)
        st = tiff_layout(&t, &layout) ? tiff_blocks(&t, &layout, options, out)
                                      : tiff_convert(&t, options, out);
    TIFFClose(t.file);
    return st;
}

#endif
