/*
 * resize: Pillow's 8-bit resampling, bit for bit (source: the arithmetic of Pillow's Resample.c).
 *
 * Antialiased separable filters, weights in 22-bit fixed point, one axis after the other with an
 * 8-bit picture between them, in the order Pillow 13 chooses; "nearest" picks pixels. Only the rows
 * and columns that the crop needs are computed.
 */
#ifndef DATASETS_RESIZE_H
#define DATASETS_RESIZE_H

#include "kernels/base.h"

enum filter {
    FILTER_NEAREST,
    FILTER_BOX,
    FILTER_BILINEAR,
    FILTER_HAMMING,
    FILTER_BICUBIC,
    FILTER_LANCZOS
};

/* "nearest", "box", ... <-> enum; find returns false when there is no such filter. */
const char *filter_name(enum filter filter);
bool filter_find(const char *name, enum filter *out);

/*
 * dst (crop_h, crop_w, 3) = the part [crop_x, crop_x+crop_w) x [crop_y, crop_y+crop_h) of
 * src (src_h, src_w, 3) resized to (out_h, out_w). The part must lie inside the resized picture.
 * ST_USAGE for sizes below 1 or a part outside; ST_NOMEM.
 */
struct resize {
    const uint8_t *src; /* (src_h, src_w, 3) */
    int src_w, src_h;
    int out_w, out_h; /* size of the whole resized picture */
    int crop_x, crop_y, crop_w, crop_h;
    enum filter filter;
};
enum status resize_rgb(const struct resize *job, uint8_t *dst) MUST_CHECK;

#endif
