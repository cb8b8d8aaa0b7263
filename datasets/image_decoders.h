/*
 * image_decoders: what image.c and its decoders, one file a library or kind, share.
 *
 * A decoder reads the header, calls image_begin (limits, memory), then turns each row of samples
 * into RGB with image_samples_to_rgb, the one place that knows about depth, CMYK and alpha. It
 * fills out->orientation if the file has a tag; image.c turns the picture. On failure image.c
 * releases `out`. Decoders are reached only through the table in image.c; those of a library that
 * was not there at build time (HAVE_JPEG, HAVE_STB, HAVE_WEBP, HAVE_TIFF, HAVE_HEIF) do not exist.
 */
#ifndef DATASETS_IMAGE_DECODERS_H
#define DATASETS_IMAGE_DECODERS_H

#include "datasets/image.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All of `bytes` is the file; *out arrives zeroed but for orientation = 1. */
typedef enum status image_decoder(const uint8_t *bytes, size_t size,
                                  const struct image_options *options, struct image *out);

image_decoder image_jpeg_decode; /* libjpeg-turbo */
image_decoder image_png_decode;  /* own chunk reader, pixels by stb_image */
image_decoder image_stb_jpeg;    /* stb_image, where there is no libjpeg-turbo */
image_decoder image_stb_psd;
image_decoder image_stb_tga;
image_decoder image_webp_decode; /* libwebp */
image_decoder image_tiff_decode; /* libtiff */
image_decoder image_heif_decode; /* libheif */
image_decoder image_gif_decode;  /* own */
image_decoder image_bmp_decode;  /* own */
image_decoder image_pnm_decode;  /* own */

/* True if the bytes begin a Targa file, which has no magic number: the whole header is judged. */
bool image_tga_match(const uint8_t *bytes, size_t size);

/* True if `magic` (length bytes) stands at `offset`. */
bool image_bytes_at(const uint8_t *bytes, size_t size, size_t offset, const char *magic,
                    size_t length);

/*
 * Sets the size of the picture and allocates its RGB, zeroed. ST_FORMAT for a side of 0, ST_NOMEM
 * above the limit of pixels or of memory. To be called before anything as large as the picture.
 */
enum status image_begin(struct image *image, uint64_t width, uint64_t height,
                        const struct image_options *options) MUST_CHECK;

/* Row y of the picture, (width, 3). */
uint8_t *image_row(const struct image *image, int y);

/* The layout of a row of samples. */
struct image_samples {
    int channels;       /* 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha or CMYK */
    int step;           /* samples from pixel to pixel, >= channels; the others are skipped */
    int bits;           /* 8: uint8_t, 16: uint16_t in the machine's byte order */
    bool cmyk;          /* 4 channels are cyan, magenta, yellow, black; 255 is full ink */
    bool inverted;      /* 0 is full ink, or for grey 0 is white */
    bool premultiplied; /* colours are multiplied by alpha already */
};

/*
 * rgb (width, 3) = one row of samples. 16 bits become round(v*255/65535), before anything else.
 * Alpha is dropped (premultiplied colours are divided by it first), or composited:
 * round((c*a + background*(255-a)) / 255).
 */
void image_samples_to_rgb(const struct image_samples *layout, const struct image_options *options,
                          const void *samples, int width, uint8_t *rgb);

/* The EXIF orientation in a block of EXIF (a small TIFF, "Exif\0\0" in front or not), else 1. */
int image_exif_orientation(const uint8_t *exif, size_t size);

/* The same for a whole JPEG file: its first EXIF segment. */
int image_exif_jpeg(const uint8_t *bytes, size_t size);

/* A library's message may quote the file: what is not printable ASCII becomes '?'. */
void image_printable(char *text);

/* ST_FORMAT, with a sentence that says what these bytes, which no decoder knows, look like. */
enum status image_unknown(const uint8_t *bytes, size_t size);

/*
 * A whole picture through stb_image. `bits` 8 or 16; the picture must be as large as its header
 * said, `width` x `height`, for which image_begin was called.
 */
enum status image_stb_load(const char *kind, const uint8_t *bytes, size_t size, int bits,
                           const struct image_options *options, struct image *out) MUST_CHECK;

/* Unaligned numbers. */
static inline uint32_t image_le16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static inline uint32_t image_be16(const uint8_t *p) {
    return (uint32_t)p[1] | (uint32_t)p[0] << 8;
}
static inline uint32_t image_le32(const uint8_t *p) {
    return image_le16(p) | image_le16(p + 2) << 16;
}
static inline uint32_t image_be32(const uint8_t *p) {
    return image_be16(p + 2) | image_be16(p) << 16;
}

#ifdef __cplusplus
}
#endif
#endif
