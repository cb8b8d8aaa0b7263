/* canvas: see canvas.h; text is in canvas_font.c. */
#include "tools/canvas.h"

#include <math.h>
#include <string.h>

enum status canvas_open(int width, int height, uint32_t color, struct image *out) {
    struct image canvas = {width, height, NULL, 1};
    size_t bytes;
    if (width < 1 || height < 1) return fail(ST_USAGE, "a picture of %d x %d", width, height);
    if (!size_mul((size_t)width * 3, (size_t)height, &bytes) || bytes > (size_t)1 << 30)
        return fail(ST_NOMEM, "a picture of %d x %d is too large to be drawn", width, height);
    canvas.rgb = mem_zalloc(bytes, 1);
    if (!canvas.rgb) return ST_NOMEM;
    if (color) canvas_fill(&canvas, (struct pixel_box){0, 0, width, height}, color, 1);
    *out = canvas;
    return ST_OK;
}

enum status canvas_grow(struct image *canvas, int left, int top, int right, int bottom,
                        uint32_t color) {
    struct image larger = {0};
    TRY(canvas_open(canvas->width + left + right, canvas->height + top + bottom, color, &larger));
    canvas_copy(&larger, left, top, canvas);
    larger.orientation = canvas->orientation;
    image_release(canvas);
    *canvas = larger;
    return ST_OK;
}

static uint8_t *pixel(const struct image *canvas, int x, int y) {
    return canvas->rgb + ((size_t)y * (size_t)canvas->width + (size_t)x) * 3;
}

void canvas_mix(uint8_t *bytes, const uint8_t *others, size_t count, float opacity) {
    for (size_t i = 0; i < count; i++) {
        const float from = bytes[i], to = others[i];
        bytes[i] = (uint8_t)(from + (to - from) * opacity + 0.5F);
    }
}

void canvas_blend(uint8_t *rgb, uint32_t color, float opacity) {
    const uint8_t other[3] = {(uint8_t)(color >> 16), (uint8_t)(color >> 8), (uint8_t)color};
    canvas_mix(rgb, other, 3, opacity);
}

enum status canvas_enlarge(struct image *canvas, int factor) {
    const int most = 1 << 15;
    struct image larger = {0};
    if (factor == 1) return ST_OK;
    if (canvas->width > most || canvas->height > most || factor > most)
        return fail(ST_NOMEM, "a picture of %d x %d is too large to be drawn %d times as large",
                    canvas->width, canvas->height, factor);
    TRY(canvas_open(canvas->width * factor, canvas->height * factor, 0, &larger));
    for (int y = 0; y < larger.height; y++)
        for (int x = 0; x < larger.width; x++)
            memcpy(pixel(&larger, x, y), pixel(canvas, x / factor, y / factor), 3);
    larger.orientation = canvas->orientation;
    image_release(canvas);
    *canvas = larger;
    return ST_OK;
}

static struct pixel_box cut(const struct image *canvas, struct pixel_box box) {
    if (box.x0 < 0) box.x0 = 0;
    if (box.y0 < 0) box.y0 = 0;
    if (box.x1 > canvas->width) box.x1 = canvas->width;
    if (box.y1 > canvas->height) box.y1 = canvas->height;
    return box;
}

void canvas_fill(struct image *canvas, struct pixel_box box, uint32_t color, float opacity) {
    box = cut(canvas, box);
    for (int y = box.y0; y < box.y1; y++)
        for (int x = box.x0; x < box.x1; x++)
            canvas_blend(pixel(canvas, x, y), color, opacity);
}

void canvas_frame(struct image *canvas, struct pixel_box box, int thickness, uint32_t color) {
    const struct pixel_box inner = {box.x0 + thickness, box.y0 + thickness, box.x1 - thickness,
                                    box.y1 - thickness};
    if (inner.x0 >= inner.x1 || inner.y0 >= inner.y1) {
        canvas_fill(canvas, box, color, 1);
        return;
    }
    canvas_fill(canvas, (struct pixel_box){box.x0, box.y0, box.x1, inner.y0}, color, 1);
    canvas_fill(canvas, (struct pixel_box){box.x0, inner.y1, box.x1, box.y1}, color, 1);
    canvas_fill(canvas, (struct pixel_box){box.x0, inner.y0, inner.x0, inner.y1}, color, 1);
    canvas_fill(canvas, (struct pixel_box){inner.x1, inner.y0, box.x1, inner.y1}, color, 1);
}

/* From a point to the nearest of the line's. */
static double distance(struct canvas_point p, struct canvas_point from, struct canvas_point to) {
    const double dx = to.x - from.x, dy = to.y - from.y, square = dx * dx + dy * dy;
    double along = square > 0 ? ((p.x - from.x) * dx + (p.y - from.y) * dy) / square : 0;
    along = fmin(fmax(along, 0), 1);
    return hypot(p.x - from.x - along * dx, p.y - from.y - along * dy);
}

/* A pixel is covered by as much as its centre lies inside the line's edge, from -1/2 to 1/2. */
void canvas_line(struct image *canvas, struct canvas_point from, struct canvas_point to,
                 double thickness, uint32_t color) {
    const double reach = thickness / 2 + 1, side = 1 << 30;
    struct pixel_box box = {(int)fmax(floor(fmin(from.x, to.x) - reach), -side),
                            (int)fmax(floor(fmin(from.y, to.y) - reach), -side),
                            (int)fmin(ceil(fmax(from.x, to.x) + reach), side),
                            (int)fmin(ceil(fmax(from.y, to.y) + reach), side)};
    box = cut(canvas, box);
    for (int y = box.y0; y < box.y1; y++)
        for (int x = box.x0; x < box.x1; x++) {
            const struct canvas_point centre = {x + 0.5, y + 0.5};
            const double cover = thickness / 2 + 0.5 - distance(centre, from, to);
            if (cover > 0) canvas_blend(pixel(canvas, x, y), color, (float)fmin(cover, 1));
        }
}

void canvas_copy(struct image *canvas, int x, int y, const struct image *source) {
    const struct pixel_box box =
        cut(canvas, (struct pixel_box){x, y, x + source->width, y + source->height});
    if (box.x0 >= box.x1) return;
    for (int row = box.y0; row < box.y1; row++)
        memcpy(pixel(canvas, box.x0, row), pixel(source, box.x0 - x, row - y),
               (size_t)(box.x1 - box.x0) * 3);
}
