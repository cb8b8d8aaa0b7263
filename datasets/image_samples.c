/* image_samples: a row of samples of any depth, colour model and alpha -> RGB. */
#include "datasets/image_decoders.h"

#include <string.h>

static uint8_t divide255(uint32_t product) {
    return (uint8_t)((product + 127) / 255);
}

/* Sample i as 8 bits. 65535 is odd: no halves to break. */
static inline uint32_t sample(const void *samples, size_t i, int bits) {
    if (bits == 8) return ((const uint8_t *)samples)[i];
    return (((const uint16_t *)samples)[i] * 255u + 32767u) / 65535u;
}

/* Pillow's CMYK to RGB: (255-k) - c*(255-k)/255, the product rounded. */
static void cmyk_pixel(const uint32_t *in, uint8_t *rgb) {
    uint32_t white = 255 - in[3];
    for (int c = 0; c < 3; c++) {
        uint32_t product = in[c] * white + 128;
        rgb[c] = (uint8_t)(white - ((product + (product >> 8)) >> 8));
    }
}

static void alpha_pixel(const struct image_samples *layout, const struct image_options *options,
                        uint32_t alpha, uint8_t *rgb) {
    for (int c = 0; c < 3; c++) {
        uint32_t value = rgb[c], behind = options->background[c] * (255 - alpha);
        if (options->composite && layout->premultiplied)
            value += divide255(behind);
        else if (options->composite)
            value = divide255(value * alpha + behind);
        else if (layout->premultiplied && alpha != 0)
            value = value * 255 / alpha; /* rounded down, as Pillow does */
        rgb[c] = (uint8_t)(value > 255 ? 255 : value);
    }
}

void image_samples_to_rgb(const struct image_samples *layout, const struct image_options *options,
                          const void *samples, int width, uint8_t *rgb) {
    int channels = layout->channels, flip = layout->inverted ? 255 : 0;
    bool alpha = !layout->cmyk && (channels == 2 || channels == 4) &&
                 (options->composite || layout->premultiplied);
    if (layout->bits == 8 && channels == 3 && layout->step == 3 && !flip) {
        memcpy(rgb, samples, (size_t)width * 3);
        return;
    }
    for (int x = 0; x < width; x++, rgb += 3) {
        uint32_t in[4] = {0};
        size_t at = (size_t)x * (size_t)layout->step;
        for (int c = 0; c < channels; c++)
            in[c] = sample(samples, at + (size_t)c, layout->bits) ^ (uint32_t)flip;
        if (layout->cmyk) {
            cmyk_pixel(in, rgb);
            continue;
        }
        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)in[channels < 3 ? 0 : c];
        if (alpha) alpha_pixel(layout, options, in[channels - 1] ^ (uint32_t)flip, rgb);
    }
}
