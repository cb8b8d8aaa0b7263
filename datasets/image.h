/*
 * image: encoded bytes in, upright 8-bit RGB out.
 *
 * One table maps magic bytes to decoders: JPEG (libjpeg-turbo, else stb_image), PNG, PSD and Targa
 * (stb_image), WebP, TIFF, HEIC and AVIF where their libraries were there at build time, GIF, BMP
 * and PNM always; a kind that is known but not built in is refused by its name. The first picture
 * of an animation or of several pages is taken. Limits are checked from the header, before anything
 * is allocated.
 */
#ifndef DATASETS_IMAGE_H
#define DATASETS_IMAGE_H

#include "kernels/base.h"

/*
 * What becomes of the colours; the same 8 bits as Pillow's convert("RGB") unless said otherwise:
 *   grey      replicated; palettes looked up (colours that a palette lacks are black)
 *   1..4 bits stretched to 0..255; 16 bits round(v*255/65535) (Pillow: saturated, or the high byte)
 *   CMYK      (255-k) - c*(255-k)/255; JPEG's is inverted first, as Adobe writes it, with and
 *             without Adobe's marker; YCCK likewise
 *   alpha     dropped, or composited: round((c*a + background*(255-a))/255)
 *   profile   ICC profiles are not applied
 * JPEG is bit-exact through libjpeg-turbo only. AVIF and HEIC depend on their library's version.
 *
 * A picture that is not whole is an error, never half a picture: a file that ends early (of which
 * Pillow thinks alike), compressed data that libjpeg warns of (where Pillow shows what there is).
 */
struct image {
    int width, height; /* upright, after the EXIF orientation if it was applied */
    uint8_t *rgb;      /* (height, width, 3), owned */
    int orientation;   /* the EXIF tag found, 1..8; 1 when there is none */
};

struct image_options {
    bool apply_exif;       /* turn the picture upright */
    bool composite;        /* alpha: composite over `background`; false: drop the alpha channel */
    uint8_t background[3]; /* RGB */
    size_t max_pixels;     /* width*height above this is refused; 0 = no limit */
};

/* The defaults of the command line: EXIF applied, alpha dropped, 178956970 pixels. */
struct image_options image_defaults(void);

/*
 * Decodes one image from memory. Errors (ST_FORMAT; ST_NOMEM, also above the pixel limit) say what
 * was found and what was expected, without the file's name: the caller puts it in front
 * (fail_prefix). *out is untouched on failure.
 */
enum status image_decode(const uint8_t *bytes, size_t size, const struct image_options *options,
                         struct image *out) MUST_CHECK;

/* Reads and decodes `path` ("-" = standard input); the sentence begins with the path. */
enum status image_read(const char *path, const struct image_options *options,
                       struct image *out) MUST_CHECK;

/* Works on a zeroed image, and twice. */
void image_release(struct image *image);

/* "jpeg (libjpeg-turbo), png (stb_image), ..." - what this build can read, for --version. */
const char *image_formats(void);

#endif
