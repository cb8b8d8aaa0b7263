/*
 * canvas: rectangles, lines and text on a picture (struct image; RGB, colours are 0xRRGGBB).
 * Whatever lies outside the picture is cut off.
 */
#ifndef TOOLS_CANVAS_H
#define TOOLS_CANVAS_H

#include "datasets/image.h"
#include "datasets/placement.h"
#include "kernels/base.h"

/* A picture of one colour, to be released. ST_USAGE for a side below 1; ST_NOMEM above 1 GiB. */
enum status canvas_open(int width, int height, uint32_t color, struct image *out) MUST_CHECK;

/* The canvas made larger, its old picture at (left, top) and `color` around it. ST_NOMEM. */
enum status canvas_grow(struct image *canvas, int left, int top, int right, int bottom,
                        uint32_t color) MUST_CHECK;

/*
 * Every pixel becomes a square of factor x factor (1 or more), for pictures too small for a map.
 * ST_NOMEM.
 */
enum status canvas_enlarge(struct image *canvas, int factor) MUST_CHECK;

/* Each byte becomes round((1 - opacity) * byte + opacity * its other); opacity 0..1. */
void canvas_mix(uint8_t *bytes, const uint8_t *others, size_t count, float opacity);

/* Each pixel becomes round((1 - opacity) * pixel + opacity * color); opacity 0..1. */
void canvas_blend(uint8_t *rgb, uint32_t color, float opacity);
void canvas_fill(struct image *canvas, struct pixel_box box, uint32_t color, float opacity);

/* A frame inside the box's edge, `thickness` pixels wide. */
void canvas_frame(struct image *canvas, struct pixel_box box, int thickness, uint32_t color);

/* An anti-aliased line between two points in edges (a pixel's centre is at + 0.5). */
struct canvas_point {
    double x, y;
};
void canvas_line(struct image *canvas, struct canvas_point from, struct canvas_point to,
                 double thickness, uint32_t color);

/* `source` copied with its corner at (x, y). */
void canvas_copy(struct image *canvas, int x, int y, const struct image *source);

/*
 * Text in a bitmap font: capitals are 7 scale high, letters hang down 2 scale below the line, about
 * 6 scale wide. ASCII; any other character is a box.
 *
 * The text's box (its width, the height of the capitals; `upward`: turned a quarter to the left)
 * lies so that the point (x, y) divides it as anchor_x : 1 - anchor_x and so on: 0, 0 hangs it
 * below and right of the point, 0.5, 0.5 centres it there.
 */
struct canvas_text {
    int scale;
    uint32_t color;
    double anchor_x, anchor_y; /* 0..1 */
    bool upward;
};
void canvas_write(struct image *canvas, int x, int y, const struct canvas_text *style,
                  const char *text);
int canvas_text_width(const char *text, int scale); /* pixels; 0 for "" */
#define CANVAS_CAPITAL 7                            /* height of a capital at scale 1 */

#endif
