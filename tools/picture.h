/*
 * picture: 8-bit pictures on their way out: made small, and as the bytes of a PNG or JPEG file, for
 * files and for pages that hold their pictures themselves.
 */
#ifndef TOOLS_PICTURE_H
#define TOOLS_PICTURE_H

#include <stdio.h>

#include "datasets/image.h"
#include "kernels/base.h"

struct picture_bytes {
    uint8_t *bytes; /* (size) owned */
    size_t size, capacity;
};

/*
 * pixels (height, width, channels) uint8: 1 = grey, 3 = RGB, 4 = RGBA. The bytes of an encoded
 * picture, in *out, whatever was there before. ST_USAGE where stb_image_write was not there at
 * build time; ST_NOMEM, also above 2^30 bytes of pixels.
 */
enum status picture_png(const uint8_t *pixels, int width, int height, int channels,
                        struct picture_bytes *out) MUST_CHECK;
/* JPEG of RGB; quality 1..100. */
enum status picture_jpeg(const uint8_t *rgb, int width, int height, int quality,
                         struct picture_bytes *out) MUST_CHECK;
void picture_bytes_release(struct picture_bytes *bytes); /* works on a zeroed struct */

/* The picture shrunk (never grown) to fit side x side, its aspect kept. *out is to be released. */
enum status picture_thumbnail(const struct image *image, int side, struct image *out) MUST_CHECK;

/* Base64 (RFC 4648), in one line. The file's owner looks for errors. */
void picture_print_base64(const uint8_t *bytes, size_t size, FILE *file);

#endif
