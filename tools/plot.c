/* plot: see plot.h. */
#include "tools/plot.h"

#include <math.h>

#include "tools/canvas.h"
#include "tools/ticks.h"

#define PAPER 0xFFFFFF
#define INK   0x222222
#define GRID  0xDDDDDD
#define SCALE 2
#define PAD   (CANVAS_CAPITAL * SCALE)

/* Told apart by colour-blind eyes too (Okabe and Ito). */
static const uint32_t colors[] = {0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7, 0x56B4E9};

static int plot_width(const struct plot *plot) {
    return plot->width ? plot->width : 720;
}

static int plot_height(const struct plot *plot) {
    return plot->height ? plot->height : 480;
}

static struct ticks y_ticks(const struct plot *plot) {
    return ticks_make(plot->y_low, plot->y_high, plot_height(plot) < 300 ? 4 : 8, false);
}

static bool has_legend(const struct plot *plot) {
    for (int i = 0; i < plot->count; i++)
        if (plot->lines[i].name) return true;
    return false;
}

struct pixel_box plot_box(const struct plot *plot) {
    const struct ticks ticks = y_ticks(plot);
    struct pixel_box box = {PAD, PAD, plot_width(plot) - 2 * PAD, plot_height(plot) - 3 * PAD};
    int widest = 0;
    for (int i = 0; i < ticks.count; i++) {
        const int width = canvas_text_width(ticks.text[i], SCALE);
        if (width > widest) widest = width;
    }
    box.x0 += widest + 5 * SCALE + (plot->y_title ? 2 * PAD : 0);
    box.y0 += (plot->title ? 2 * PAD : 0) + (has_legend(plot) ? 2 * PAD : 0);
    box.y1 -= plot->x_title ? 2 * PAD : 0;
    return box;
}

static double x_at(const struct plot *plot, struct pixel_box box, double x) {
    return box.x0 + (x - plot->x_low) / (plot->x_high - plot->x_low) * (box.x1 - box.x0);
}

static double y_at(const struct plot *plot, struct pixel_box box, double y) {
    return box.y1 - (y - plot->y_low) / (plot->y_high - plot->y_low) * (box.y1 - box.y0);
}

static void draw_axes(const struct plot *plot, struct pixel_box box, struct image *out) {
    const struct ticks up = y_ticks(plot),
                       across = ticks_make(plot->x_low, plot->x_high,
                                           (box.x1 - box.x0) / (6 * PAD) + 2, false);
    for (int i = 0; i < up.count; i++) {
        const int y = (int)lround(y_at(plot, box, up.values[i]));
        canvas_fill(out, (struct pixel_box){box.x0, y, box.x1, y + 1}, GRID, 1);
        canvas_write(out, box.x0 - 5 * SCALE, y, &(struct canvas_text){SCALE, INK, 1, 0.5, false},
                     up.text[i]);
    }
    for (int i = 0; i < across.count; i++) {
        const int x = (int)lround(x_at(plot, box, across.values[i]));
        canvas_fill(out, (struct pixel_box){x, box.y0, x + 1, box.y1}, GRID, 1);
        canvas_write(out, x, box.y1 + 5 * SCALE, &(struct canvas_text){SCALE, INK, 0.5, 0, false},
                     across.text[i]);
    }
    canvas_fill(out, (struct pixel_box){box.x0, box.y0, box.x0 + 1, box.y1 + 1}, INK, 1);
    canvas_fill(out, (struct pixel_box){box.x0, box.y1, box.x1 + 1, box.y1 + 1}, INK, 1);
}

/* The part of a segment inside the axes (Liang and Barsky); false when there is none. */
static bool cut_segment(struct pixel_box box, struct canvas_point *a, struct canvas_point *b) {
    const double dx = b->x - a->x, dy = b->y - a->y;
    const double p[4] = {-dx, dx, -dy, dy};
    const double q[4] = {a->x - box.x0, box.x1 - a->x, a->y - box.y0, box.y1 - a->y};
    const struct canvas_point from = *a;
    double enter = 0, leave = 1;
    for (int i = 0; i < 4; i++) {
        if (p[i] == 0 && q[i] < 0) return false;
        if (p[i] < 0) enter = fmax(enter, q[i] / p[i]);
        if (p[i] > 0) leave = fmin(leave, q[i] / p[i]);
    }
    if (enter > leave) return false;
    *a = (struct canvas_point){from.x + enter * dx, from.y + enter * dy};
    *b = (struct canvas_point){from.x + leave * dx, from.y + leave * dy};
    return true;
}

/* Columns of pixels below a segment inside the axes, from its first to before its last. */
static void fill_below(struct pixel_box box, struct canvas_point a, struct canvas_point b,
                       uint32_t color, struct image *out) {
    const struct canvas_point left = a.x <= b.x ? a : b, right = a.x <= b.x ? b : a;
    for (int x = (int)ceil(left.x - 0.5); x < (int)ceil(right.x - 0.5); x++) {
        const double along = (x + 0.5 - left.x) / (right.x - left.x);
        const int y = (int)lround(left.y + along * (right.y - left.y));
        canvas_fill(out, (struct pixel_box){x, y, x + 1, box.y1}, color, 0.15F);
    }
}

static void draw_line(const struct plot *plot, int index, struct pixel_box box, struct image *out) {
    const struct plot_line *line = &plot->lines[index];
    const uint32_t color = colors[(size_t)index % COUNT_OF(colors)];
    for (int i = 0; i + 1 < line->count; i++) {
        struct canvas_point a = {x_at(plot, box, line->x[i]), y_at(plot, box, line->y[i])};
        struct canvas_point b = {x_at(plot, box, line->x[i + 1]), y_at(plot, box, line->y[i + 1])};
        if (!isfinite(a.x + a.y + b.x + b.y) || !cut_segment(box, &a, &b)) continue;
        if (plot->filled) fill_below(box, a, b, color, out);
        canvas_line(out, a, b, 3, color);
    }
}

static void draw_legend(const struct plot *plot, struct pixel_box box, struct image *out) {
    const int y = box.y0 - PAD - PAD / 2;
    int x = box.x0;
    for (int i = 0; i < plot->count; i++) {
        const struct plot_line *line = &plot->lines[i];
        if (!line->name) continue;
        canvas_line(out, (struct canvas_point){x, y}, (struct canvas_point){x + 2 * PAD, y}, 4,
                    colors[(size_t)i % COUNT_OF(colors)]);
        x += 2 * PAD + PAD / 2;
        canvas_write(out, x, y, &(struct canvas_text){SCALE, INK, 0, 0.5, false}, line->name);
        x += canvas_text_width(line->name, SCALE) + 2 * PAD;
    }
}

enum status plot_draw(const struct plot *plot, struct image *out) {
    const struct pixel_box box = plot_box(plot);
    const int middle_x = (box.x0 + box.x1) / 2, middle_y = (box.y0 + box.y1) / 2;
    struct image canvas;
    if (!isfinite(plot->x_high - plot->x_low) || !isfinite(plot->y_high - plot->y_low) ||
        !(plot->x_high > plot->x_low) || !(plot->y_high > plot->y_low))
        return fail(ST_USAGE, "axes from %g to %g and from %g to %g", plot->x_low, plot->x_high,
                    plot->y_low, plot->y_high);
    if (plot_width(plot) < 160 || plot_height(plot) < 120 || box.x1 - box.x0 < 10 ||
        box.y1 - box.y0 < 10)
        return fail(ST_USAGE, "a plot of %d x %d is too small", plot_width(plot),
                    plot_height(plot));
    TRY(canvas_open(plot_width(plot), plot_height(plot), PAPER, &canvas));
    draw_axes(plot, box, &canvas);
    for (int i = 0; i < plot->count; i++)
        draw_line(plot, i, box, &canvas);
    draw_legend(plot, box, &canvas);
    if (plot->title)
        canvas_write(&canvas, middle_x, PAD, &(struct canvas_text){SCALE, INK, 0.5, 0, false},
                     plot->title);
    if (plot->x_title)
        canvas_write(&canvas, middle_x, canvas.height - PAD,
                     &(struct canvas_text){SCALE, INK, 0.5, 1, false}, plot->x_title);
    if (plot->y_title)
        canvas_write(&canvas, PAD, middle_y, &(struct canvas_text){SCALE, INK, 0, 0.5, true},
                     plot->y_title);
    *out = canvas;
    return ST_OK;
}
