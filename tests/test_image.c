/*
 * test_image: the decoders of datasets/ on small pictures of every kind (tests/ref/images.bin, made
 * by tests/ref/pillow_golden.py with Pillow's result beside each) and on real photos.
 */
#include "datasets/image.h"
#include "datasets/image_decoders.h"
#include "datasets/resize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>
#if HAVE_HEIF
#include <libheif/heif.h>
#endif

#define SAMPLES_MAX 512

const char *__lsan_default_suppressions(void);

/* Memory that libheif's codecs lose: libdav1d on broken files, libx265 always. */
const char *__lsan_default_suppressions(void) {
    return "leak:libdav1d\nleak:libx265\n";
}

static const struct image_options over = {true, true, {200, 100, 50}, 178956970};

/* One record of images.bin. */
struct sample {
    char name[64];
    const uint8_t *bytes;
    size_t size;
    int orientation, tolerance, width, height;
    const uint8_t *dropped, *composited; /* (height, width, 3), alpha dropped, over 200,100,50 */
};

static struct sample samples[SAMPLES_MAX];
static size_t sample_count;
static uint8_t *samples_file;

static int samples_open(void **state) {
    const uint8_t *p, *end;
    size_t size;
    (void)state;
    if (file_read("tests/ref/images.bin", 1 << 24, &samples_file, &size) != ST_OK) {
        print_error("%s (run from the root of the tree)\n", fail_message());
        return -1;
    }
    for (p = samples_file, end = p + size; p < end && sample_count < SAMPLES_MAX;) {
        struct sample *s = &samples[sample_count++];
        size_t pixels;
        memcpy(s->name, p + 1, p[0]);
        p += 1 + p[0];
        s->size = image_le32(p);
        s->bytes = p + 4;
        p += 4 + s->size;
        s->orientation = p[0];
        s->tolerance = p[1];
        s->width = (int)image_le16(p + 2);
        s->height = (int)image_le16(p + 4);
        pixels = (size_t)s->width * (size_t)s->height * 3;
        s->dropped = p + 7;
        s->composited = p[6] ? s->dropped + pixels : s->dropped;
        p = s->composited + pixels;
    }
    return 0;
}

static int samples_close(void **state) {
    (void)state;
    return mem_free(samples_file), 0;
}

static const struct sample *sample_find(const char *name) {
    for (size_t i = 0; i < sample_count; i++)
        if (strcmp(samples[i].name, name) == 0) return &samples[i];
    fail_msg("no sample %s", name);
    return NULL;
}

/* The library a sample needs was not there at build time. */
static bool not_built(void) {
    return strstr(fail_message(), "which this build cannot read") != NULL;
}

/* JPEG without libjpeg-turbo is not Pillow's to the bit: it may differ by this much in a sample. */
#if HAVE_JPEG
#define JPEG_TOLERANCE 0
#else
#define JPEG_TOLERANCE 255
#endif

static void compare(const struct sample *s, const char *what, const struct image *got,
                    const uint8_t *want) {
    int worst = 0, at = 0;
    int tolerance = strncmp(s->name, "jpeg", 4) == 0 ? JPEG_TOLERANCE : s->tolerance;
    if (got->width != s->width || got->height != s->height || got->orientation != s->orientation)
        fail_msg("%s: %dx%d, orientation %d, want %dx%d, %d", s->name, got->width, got->height,
                 got->orientation, s->width, s->height, s->orientation);
    for (int i = 0; i < s->width * s->height * 3; i++) {
        int error = abs(got->rgb[i] - want[i]);
        if (error > worst) at = i;
        if (error > worst) worst = error;
    }
    if (worst > tolerance)
        fail_msg("%s, %s: off by %d at pixel (%d, %d), tolerance %d", s->name, what, worst,
                 at / 3 % s->width, at / 3 / s->width, tolerance);
}

/* Every kind, depth and colour model: Pillow's pixels, alpha dropped and composited. */
static void pillow_pixels(void **state) {
    const struct image_options drop = image_defaults();
    (void)state;
    assert_true(sample_count > 100);
    for (size_t i = 0; i < sample_count; i++) {
        const struct sample *s = &samples[i];
        struct image image = {0};
        if (image_decode(s->bytes, s->size, &drop, &image) != ST_OK) {
            if (not_built()) continue;
            fail_msg("%s: %s", s->name, fail_message());
        }
        compare(s, "alpha dropped", &image, s->dropped);
        image_release(&image);
        image_release(&image); /* twice is allowed */
        if (image_decode(s->bytes, s->size, &over, &image) != ST_OK)
            fail_msg("%s: %s", s->name, fail_message());
        compare(s, "composited", &image, s->composited);
        image_release(&image);
    }
}

/* The limit is kept from the header on, for every kind: one pixel too many is refused. */
static void pixel_limit(void **state) {
    struct image_options options = image_defaults();
    (void)state;
    for (size_t i = 0; i < sample_count; i++) {
        const struct sample *s = &samples[i];
        struct image image = {0};
        options.max_pixels = (size_t)(s->width * s->height);
        if (image_decode(s->bytes, s->size, &options, &image) != ST_OK) {
            if (not_built()) continue;
            fail_msg("%s at its limit: %s", s->name, fail_message());
        }
        image_release(&image);
        options.max_pixels--;
        if (options.max_pixels == 0) continue; /* means no limit */
        if (image_decode(s->bytes, s->size, &options, &image) != ST_NOMEM ||
            !strstr(fail_message(), "(--max-pixels)") || image.rgb)
            fail_msg("%s above its limit: '%s'", s->name, fail_message());
    }
}

/* No kind takes half a file for a picture, and none reads behind the end (a sanitizer sees it). */
static void half_a_file(void **state) {
    const struct image_options options = image_defaults();
    (void)state;
    for (size_t i = 0; i < sample_count; i++) {
        const struct sample *s = &samples[i];
        for (size_t quarter = 1; quarter <= 3; quarter++) {
            size_t size = s->size * quarter / 4;
            uint8_t *cut = mem_zalloc(size, 1);
            struct image image = {0};
            memcpy(cut, s->bytes, size);
            if (image_decode(cut, size, &options, &image) == ST_OK && quarter <= 2 &&
                strcmp(s->name, "webp-animated") != 0 && strcmp(s->name, "png-animated") != 0 &&
                strcmp(s->name, "gif-animated") != 0) /* their first frame is whole */
                fail_msg("%s: %zu of %zu bytes make a picture", s->name, size, s->size);
            image_release(&image);
            mem_free(cut);
        }
    }
}

/* --exif ignore: the stored picture, and the tag is reported. */
static void exif_ignored(void **state) {
    struct image_options options = image_defaults();
    const struct sample *plain = sample_find("jpeg-exif1"), *tagged = sample_find("jpeg-exif6");
    struct image a = {0}, b = {0};
    (void)state;
    options.apply_exif = false;
    if (image_decode(plain->bytes, plain->size, &options, &a) != ST_OK) {
        if (not_built()) skip();
        fail_msg("%s", fail_message());
    }
    assert_int_equal(image_decode(tagged->bytes, tagged->size, &options, &b), ST_OK);
    assert_int_equal(b.orientation, 6);
    assert_int_equal(b.width, a.width);
    assert_memory_equal(a.rgb, b.rgb, (size_t)(a.width * a.height * 3));
    image_release(&a);
    image_release(&b);
}

static const struct exif_row {
    const char *bytes;
    size_t size;
    int want;
    const char *why;
} exif_rows[] = {
#define TEXT(literal) literal, sizeof(literal) - 1
    {TEXT("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"), 6, "little endian"},
    {TEXT("MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\3\0\0"), 3, "big endian"},
    {TEXT("Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\3\0\0"), 3, "with the prefix"},
    {TEXT("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\x09\0\0\0"), 1, "9 is no orientation"},
    {TEXT("II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0"), 1, "nor is 0"},
    {TEXT("II*\0\x08\0\0\0\1\0\x12\1\7\0\1\0\0\0\6\0\0\0"), 1, "not a short"},
    {TEXT("II*\0\x08\0\0\0\xFF\xFF\x12\1\3\0\1\0\0\0\6\0\0"), 1, "cut inside the entry"},
    {TEXT("II*\0\xFF\xFF\xFF\xFF\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"), 1, "directory behind the end"},
    {TEXT("XX*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0"), 1, "no byte order"},
    {TEXT(""), 1, "empty"},
};

static void exif_blocks(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(exif_rows); i++) {
        const struct exif_row *r = &exif_rows[i];
        int got = image_exif_orientation((const uint8_t *)r->bytes, r->size);
        if (got != r->want) fail_msg("%s: %d, want %d", r->why, got, r->want);
    }
}

static const struct bad {
    const char *bytes;
    size_t size;
    const char *sentence, *why;
} bads[] = {
    {TEXT(""), "the file is empty", "an empty file"},
    {TEXT("\xFF"), "none of the image kinds", "a single byte"},
    {TEXT("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), "zero bytes only", "an unwritten file"},
    {TEXT("hello, world\n"), "text (13 bytes, beginning 68 65", "a text"},
    {TEXT("\n\n<!DOCTYPE HTML><html>"), "an HTML page", "a failed download"},
    {TEXT("<?xml version='1.0'?><svg width='3'/>"), "an SVG drawing", "a vector picture"},
    {TEXT("{\"error\": 404}"), "JSON text", "an API's answer"},
    {TEXT("version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer", "not fetched"},
    {TEXT("\x1F\x8B\x08\0\0\0"), "gzip-compressed data", "a .gz"},
    {TEXT("PK\x03\x04\0\0"), "a zip archive", "a .zip"},
    {TEXT("%PDF-1.7\n%\xE2\xE3"), "a PDF document", "a .pdf"},
    {TEXT("\x89HDF\r\n\x1A\n\0\0"), "an HDF5 file", "a model for a picture"},
    {TEXT("\0\0\0\x18"
          "ftypisom\0\0"),
     "a video (MP4", "a video"},
    {TEXT("RIFF\x24\0\0\0WAVEfmt "), "a RIFF file", "a sound"},
    {TEXT("\0\0\1\0\1\0\x10\x10\0\0"), "an icon (ico)", "known, not read"},
    {TEXT("\xFF\x0A\xFA\x1F"), "a JPEG XL image", "known, not read"},
    {TEXT("\0\0\0\x0CjP  \r\n\x87\n"), "a JPEG 2000 image", "known, not read"},
    {TEXT("BM is the beginning of a text"), "text (29 bytes", "BM, but no bitmap"},
    {TEXT("P7\nWIDTH 3\n"), "a PAM image", "known, not read"},
    {TEXT("P5\n0 3\n255\n"), "a picture of 0 x 3 pixels", "no width"},
    {TEXT("P5\n3 3\n0\n"), "a largest value of 0", "division by 0"},
    {TEXT("P5\n3 3\n99999\n"), "a largest value of 99999", "too large a value"},
    {TEXT("P5\n3 3\n255\nabcdefgh"), "the file ends too early", "one byte short"},
    {TEXT("P5\n3 3"), "ends before its largest value", "cut in the header"},
    {TEXT("P5\n-3 3\n255\n"), "the byte 0x2d where a number was due (width)", "negative"},
    {TEXT("P2\n2 1\n255\n7 300\n"), "a sample of 300, at most 255", "above the maximum"},
    {TEXT("P1\n2 2\n1 0 2 1\n"), "a sample of 2, at most 1", "neither black nor white"},
    {TEXT("P6\n999999999 999999999\n255\n"), "999999999 x 999999999 pixels, at most", "a bomb"},
    {TEXT("GIF89a\1\0\1\0\0\0\0;"), "it holds no picture", "only a screen"},
    {TEXT("GIF89a\1\0"), "the file ends too early", "cut in the header"},
    {TEXT("GIF89a\0\0\0\0\0\0\0,\0\0\0\0\0\0\0\0\0\2\0"), "0 x 0 pixels", "no size"},
    {TEXT("GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\x0F\0"), "codes of 15 bits", "LZW of 15 bits"},
    {TEXT("GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\0"), "the data ends in row 0", "no data"},
    {TEXT("GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\1\x07\0"), "an impossible code", "code 7"},
    {TEXT("BM\x1A\0\0\0\0\0\0\0\x1A\0\0\0\x0C\0\0\0\0\0\1\0\1\0\x18\0"), "0 x 1", "no width"},
    {TEXT("BM\x1A\0\0\0\0\0\0\0\x1A\0\0\0\x0C\0\0\0\1\0\1\0\1\0\7\0"), "7 bits a pixel", "7 bits"},
    {TEXT("BM\x1A\0\0\0\0\0\0\0\x1A\0\0\0\x0C\0\0\0\1\0\1\0\1\0\x18\0"), "too early", "no rows"},
#if HAVE_STB
    {TEXT("\x89PNG\r\n\x1A\n"), "it ends before any pixels", "only the magic"},
    {TEXT("\x89PNG\r\n\x1A\n\0\0\0\0CgBI\0\0\0\0"), "an iOS-optimised png", "CgBI"},
    {TEXT("\x89PNG\r\n\x1A\n\xFF\xFF\xFF\xFFIHDR\0\0\0\0"), "ends inside a chunk", "huge chunk"},
    {TEXT("\x89PNG\r\n\x1A\n\0\0\0\0IDAT\x35\xAF\x06\x1E"), "is not the first chunk", "no header"},
    {TEXT("8BPS\0\1\0\0\0\0\0\0\0\3\0\0\0\1\0\0\0\1\0\x08\0\4"), "mode 4 with 8 bits", "CMYK psd"},
    {TEXT("8BPS\0\1\0\0"), "want a header of 26", "cut in the header"},
    {TEXT("\0\0\2\0\0\0\0\0\0\0\0\0\4\0\4\0\x18\0\1\2"), "ends too early", "2 bytes of 48"},
    {TEXT("\0\0\2\0\0\0\0\0\0\0\0\0\1\0\1\0\x18\x10\1\2\3"), "from right to left", "mirrored tga"},
#endif
#if HAVE_JPEG
    {TEXT("\xFF\xD8\xFF\xD9"), "broken jpeg: ", "no picture between the markers"},
    {TEXT("\xFF\xD8\xFF\xC0\0\x0B\x08\0\0\0\5\1\1\x11\0"), "broken jpeg: ", "no height"},
    {TEXT("\xFF\xD8\xFF\xC0\0\x0B\x0C\0\5\0\5\1\1\x11\0"), "broken jpeg: ", "12 bits"},
#endif
#if HAVE_WEBP
    {TEXT("RIFF\x04\0\0\0WEBP"), "broken webp", "an empty container"},
    {TEXT("RIFF\x1E\0\0\0WEBPVP8X\x0A\0\0\0\2\0\0\0\0\0\0\0\0\0"), "without frames", "empty"},
#endif
#if HAVE_TIFF
    {TEXT("II*\0\0\0\0\0"), "broken tiff", "no directory"},
    {TEXT("II*\0\x08\0\0\0\0\0\0\0\0\0"), "broken tiff", "an empty directory"},
#endif
#if HAVE_HEIF
    {TEXT("\0\0\0\x10\x66typheic\0\0\0\0"), "broken heic or avif", "only a file type"},
#endif
};

static void bad_bytes(void **state) {
    const struct image_options options = image_defaults();
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bads); i++) {
        const struct bad *b = &bads[i];
        struct image image = {7, 8, NULL, 9};
        enum status st = image_decode((const uint8_t *)b->bytes, b->size, &options, &image);
        if (st == ST_OK || !strstr(fail_message(), b->sentence))
            fail_msg("%s: got '%s', want '%s'", b->why, st == ST_OK ? "a picture" : fail_message(),
                     b->sentence);
        if (image.width != 7 || image.rgb) fail_msg("%s: *out was changed", b->why);
    }
}

/* Damage to a whole file, at a place or from a place on, and what is said of it. */
static const struct damage {
    const char *sample;
    long at;   /* from the start, or negative: from the end */
    int value; /* the byte there becomes this; -1: the file ends there */
    const char *sentence, *why;
} damages[] = {
#if HAVE_JPEG
    {"jpeg-4:2:0", -2, -1, "Premature end", "no end marker: cut by two bytes"},
    {"jpeg-4:2:0", -40, -1, "Premature end", "cut inside the last rows"},
    {"jpeg-progressive-4:2:0", -2, -1, "Premature end", "a scan may be missing"},
    {"jpeg-exif6", 60, -1, "broken jpeg", "cut inside the EXIF segment"},
    {"jpeg-restart", -30, 0xFF, "Corrupt JPEG data", "a marker inside the data"},
#endif
#if HAVE_STB
    {"png-rgb8", -20, 0x55, "a wrong checksum", "a changed byte of pixels"},
    {"png-rgb8", 18, 0x7F, "a wrong checksum", "a changed size"},
    {"png-rgb8", -30, -1, "the file ends inside a chunk", "cut inside the pixels"},
    {"png-many-idat", 500, -1, "broken png", "the later chunks are missing"},
    {"tga-rgb-rle", -40, -1, "the file ends too early", "runs are missing"},
    {"psd-rle", -9, -1, "the file ends too early", "runs are missing"},
    {"psd-rgb", -1, -1, "the file ends too early", "one byte short"},
#endif
    {"gif-palette", -20, -1, "the file ends too early", "cut inside the codes"},
    {"bmp-24", -2, -1, "the file ends too early", "one byte short of the last pixel"},
    {"bmp-rle8", -20, -1, "the file ends too early", "runs are missing"},
    {"bmp-565", 55, 0xA8, "the bit mask", "a mask with a hole"},
#if HAVE_WEBP
    {"webp-lossless", -12, -1, "broken webp", "cut inside the pixels"},
    {"webp-lossy", 60, -1, "broken webp", "cut in the first rows"},
#endif
#if HAVE_TIFF
    {"tiff-rgb-tiff_lzw", -2, -1, "broken tiff", "cut inside the directory"},
    {"tiff-rgb-raw", 4, 0xF0, "broken tiff", "the directory is elsewhere"},
#endif
};

static void damaged_files(void **state) {
    const struct image_options options = image_defaults();
    (void)state;
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        const struct damage *d = &damages[i];
        const struct sample *s = sample_find(d->sample);
        size_t at = d->at < 0 ? s->size - (size_t)-d->at : (size_t)d->at;
        size_t size = d->value < 0 ? at : s->size;
        uint8_t *bytes = mem_zalloc(size, 1);
        struct image image = {0};
        memcpy(bytes, s->bytes, size);
        if (d->value >= 0) bytes[at] = (uint8_t)d->value;
        if (image_decode(bytes, size, &options, &image) == ST_OK ||
            !strstr(fail_message(), d->sentence))
            fail_msg("%s, %s: got '%s', want '%s'", d->sample, d->why,
                     image.rgb ? "a picture" : fail_message(), d->sentence);
        mem_free(bytes);
    }
}

#if HAVE_STB
static size_t chunk_put(uint8_t *at, const char *type, const uint8_t *data, size_t size) {
    uint32_t crc;
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(size >> (24 - 8 * i));
    memcpy(at + 4, type, 4);
    if (size) memcpy(at + 8, data, size);
    crc = (uint32_t)crc32(0, at + 4, (uInt)size + 4);
    for (int i = 0; i < 4; i++)
        at[8 + size + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    return size + 12;
}

/* One pixel, and 64 MB of zeros behind it in 64 KB of compressed data. */
static void unpacking_bomb(void **state) {
    static const uint8_t header[13] = {0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0};
    const struct image_options options = image_defaults();
    uLong plain = 64 << 20;
    uLongf packed = compressBound(plain);
    uint8_t *zeros = mem_zalloc(plain, 1), *data = mem_zalloc(packed, 1), *png;
    struct image image = {0};
    size_t size = 8;
    (void)state;
    assert_int_equal(compress(data, &packed, zeros, plain), Z_OK);
    png = mem_zalloc(packed + 100, 1);
    memcpy(png, "\x89PNG\r\n\x1A\n", 8);
    size += chunk_put(png + size, "IHDR", header, sizeof header);
    size += chunk_put(png + size, "IDAT", data, packed);
    size += chunk_put(png + size, "IEND", NULL, 0);
    assert_int_equal(image_decode(png, size, &options, &image), ST_FORMAT);
    if (!strstr(fail_message(), "unpacks to far more than its 1 x 1 pixels"))
        fail_msg("%s", fail_message());
    mem_free(zeros);
    mem_free(data);
    mem_free(png);
}
#endif
#if HAVE_JPEG
/* A small file of very many scans must not keep the processor busy for as many passes. */
static void scan_bomb(void **state) {
    const struct image_options options = image_defaults();
    const struct sample *s = sample_find("jpeg-progressive-4:4:4");
    struct image image = {0};
    size_t scan = 2, end, piece, size;
    uint8_t *bomb;
    (void)state;
    while (s->bytes[scan] != 0xFF || s->bytes[scan + 1] != 0xDA)
        scan++;
    for (end = scan + 2; s->bytes[end] != 0xFF || s->bytes[end + 1] == 0;)
        end++;
    piece = end - scan; /* the first scan, 600 times more */
    size = s->size + 600 * piece;
    bomb = mem_zalloc(size, 1);
    memcpy(bomb, s->bytes, end);
    for (size_t i = 0; i < 600; i++)
        memcpy(bomb + end + i * piece, s->bytes + scan, piece);
    memcpy(bomb + end + 600 * piece, s->bytes + end, s->size - end);
    assert_int_equal(image_decode(bomb, size, &options, &image), ST_FORMAT);
    if (!strstr(fail_message(), "more than a real file has")) fail_msg("%s", fail_message());
    mem_free(bomb);
}
#endif

#if HAVE_HEIF
static struct heif_error heic_append(struct heif_context *context, const void *data, size_t size,
                                     void *user) {
    static const struct heif_error done = {heif_error_Ok, heif_suberror_Unspecified, "done"};
    struct sample *s = user;
    uint8_t *copy = mem_zalloc(size, 1);
    (void)context;
    memcpy(copy, data, size);
    s->bytes = copy;
    s->size = size;
    return done;
}

/* A HEIC of 64x32, its left half red and its right half blue, to be turned clockwise. */
static bool heic_make(struct sample *s) {
    struct heif_context *context = heif_context_alloc();
    struct heif_writer writer = {1, heic_append};
    struct heif_encoding_options *options = heif_encoding_options_alloc();
    struct heif_encoder *encoder = NULL;
    struct heif_image *image = NULL;
    bool made = false;
    int stride;
    if (heif_context_get_encoder_for_format(context, heif_compression_HEVC, &encoder).code ==
            heif_error_Ok &&
        heif_image_create(64, 32, heif_colorspace_RGB, heif_chroma_interleaved_RGB, &image).code ==
            heif_error_Ok &&
        heif_image_add_plane(image, heif_channel_interleaved, 64, 32, 8).code == heif_error_Ok) {
        uint8_t *plane = heif_image_get_plane(image, heif_channel_interleaved, &stride);
        for (int i = 0; i < 64 * 32; i++)
            memcpy(plane + i / 64 * stride + i % 64 * 3, i % 64 < 32 ? "\xF0\0\0" : "\0\0\xF0", 3);
        options->image_orientation = heif_orientation_rotate_90_cw;
        made = heif_context_encode_image(context, image, encoder, options, NULL).code ==
                   heif_error_Ok &&
               heif_context_write(context, &writer, s).code == heif_error_Ok;
    }
    heif_image_release(image);
    heif_encoder_release(encoder);
    heif_encoding_options_free(options);
    heif_context_free(context);
    return made;
}

/* HEIC is turned by libheif, once, whatever --exif says: left (red) comes to the top. */
static void heic_turned_once(void **state) {
    struct image_options options = image_defaults();
    struct sample s = {0};
    (void)state;
    if (!heic_make(&s)) {
        print_message("skipped: this libheif has no HEVC encoder\n");
        skip();
    }
    for (int apply = 0; apply < 2; apply++) {
        struct image image = {0};
        options.apply_exif = apply;
        if (image_decode(s.bytes, s.size, &options, &image) != ST_OK)
            fail_msg("%s", fail_message());
        assert_int_equal(image.width, 32);
        assert_int_equal(image.height, 64);
        assert_int_equal(image.orientation, 1);
        for (int y = 4; y < 64; y += 55) { /* rows 4 and 59 */
            const uint8_t *p = image_row(&image, y) + 16 * 3;
            if (abs(p[0] - (y < 32 ? 0xF0 : 0)) > 12 || abs(p[2] - (y < 32 ? 0 : 0xF0)) > 12)
                fail_msg("row %d is (%d, %d, %d)", y, p[0], p[1], p[2]);
        }
        image_release(&image);
    }
    mem_free((void *)(uintptr_t)s.bytes);
}
#endif

/* image_read: the sentence begins with the path. */
static void read_names_the_file(void **state) {
    const struct image_options options = image_defaults();
    const struct sample *s = sample_find("bmp-24");
    char path[] = "/tmp/vitrine-image-XXXXXX";
    struct image image = {0};
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, s->bytes, s->size - 5), (ssize_t)(s->size - 5));
    assert_int_equal(image_read(path, &options, &image), ST_FORMAT);
    assert_int_equal(strncmp(fail_message(), path, strlen(path)), 0);
    assert_int_equal(write(fd, s->bytes + s->size - 5, 5), 5);
    close(fd);
    assert_int_equal(image_read(path, &options, &image), ST_OK);
    assert_int_equal(image.width, s->width);
    image_release(&image);
    unlink(path);
    assert_int_equal(image_read(path, &options, &image), ST_IO);
    assert_int_equal(strncmp(fail_message(), path, strlen(path)), 0);
    assert_int_equal(image_read("/tmp", &options, &image), ST_IO);
    assert_non_null(strstr(fail_message(), "is a directory"));
    assert_non_null(strstr(image_formats(), "gif, bmp, pnm"));
}

static const struct photo {
    const char *name;
    int width, height;
    uint32_t crc[7]; /* the RGB, and its resizes by each filter */
} photos[] = {
#include "tests/ref/golden_photos.h"
};

static void photo_check(const struct photo *photo, const struct image *image, uint8_t *dst) {
    struct resize job = {image->rgb, image->width, image->height, 224,           224, 0,
                         0,          224,          224,           FILTER_NEAREST};
    if (crc32(0, image->rgb, (uInt)(image->width * image->height * 3)) != photo->crc[0])
        fail_msg("%s: other pixels than Pillow's", photo->name);
    for (int f = FILTER_NEAREST; f <= FILTER_LANCZOS; f++) {
        job.filter = (enum filter)f;
        if (resize_rgb(&job, dst) != ST_OK) fail_msg("%s", fail_message());
        if (crc32(0, dst, 224 * 224 * 3) != photo->crc[1 + f])
            fail_msg("%s by %s: other pixels than Pillow's", photo->name, filter_name(job.filter));
    }
}

/* 100 real photos: decode and all resizes as Pillow, bit for bit. */
static void photo_pixels(void **state) {
    const char *shared = getenv("VITRINE_SHARED_DATA");
    struct image_options options = image_defaults();
    uint8_t *dst = mem_zalloc(224 * 224, 3);
    (void)state;
    options.apply_exif = false; /* as convert("RGB") */
    for (size_t i = 0; i < COUNT_OF(photos); i++) {
        struct image image = {0};
        char *path =
            str_format("%s/imagenet-sample/%s", shared ? shared : "../shared/data", photos[i].name);
        enum status st = image_read(path, &options, &image);
        mem_free(path);
        if (st == ST_IO || not_built() || JPEG_TOLERANCE) {
            print_message("skipped: %s\n", st == ST_OK ? "no libjpeg-turbo" : fail_message());
            image_release(&image);
            mem_free(dst);
            skip();
        }
        if (st != ST_OK) fail_msg("%s", fail_message());
        assert_int_equal(image.width, photos[i].width);
        assert_int_equal(image.height, photos[i].height);
        photo_check(&photos[i], &image, dst);
        image_release(&image);
    }
    mem_free(dst);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pillow_pixels),
        cmocka_unit_test(pixel_limit),
        cmocka_unit_test(half_a_file),
        cmocka_unit_test(exif_ignored),
        cmocka_unit_test(exif_blocks),
        cmocka_unit_test(bad_bytes),
        cmocka_unit_test(damaged_files),
#if HAVE_STB
        cmocka_unit_test(unpacking_bomb),
#endif
#if HAVE_JPEG
        cmocka_unit_test(scan_bomb),
#endif
#if HAVE_HEIF
        cmocka_unit_test(heic_turned_once),
#endif
        cmocka_unit_test(read_names_the_file),
        cmocka_unit_test(photo_pixels),
    };
    return cmocka_run_group_tests(tests, samples_open, samples_close);
}
