/* faithfulness: see faithfulness.h. */
#include "tools/faithfulness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "datasets/resize.h"
#include "tools/cli.h"
#include "tools/picture_queue.h"
#include "tools/plot.h"
#include "tools/rows.h"

#define CURVES FAITHFULNESS_CURVES
#define POINTS FAITHFULNESS_POINTS

static const char *const curve_names[CURVES] = {"deletion", "insertion", "deletion", "insertion"};

static size_t picture_bytes(const struct faithfulness *f) {
    return (size_t)f->model->preprocess.height * (size_t)f->model->preprocess.width * 3;
}

enum status faithfulness_open(struct faithfulness *out, struct model *model, uint64_t seed) {
    const size_t pictures = (size_t)CURVES * POINTS;
    *out = (struct faithfulness){.model = model, .seed = seed};
    if (model->classes == 0)
        return fail(ST_USAGE, "option --faithfulness: the model has no classification head, whose "
                              "answer could change");
    out->pixels = mem_zalloc(pictures, picture_bytes(out));
    out->blurred = mem_zalloc(picture_bytes(out), 1);
    out->logits = mem_zalloc(pictures * (size_t)model->classes, sizeof *out->logits);
    if (out->pixels && out->blurred && out->logits) return ST_OK;
    faithfulness_release(out);
    return ST_NOMEM;
}

void faithfulness_release(struct faithfulness *f) {
    mem_free(f->pixels);
    mem_free(f->blurred);
    mem_free(f->logits);
    *f = (struct faithfulness){0};
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* f->blurred = pixels, without what is smaller than an eighth of them. */
static enum status blur(struct faithfulness *f, const uint8_t *pixels) {
    const int w = f->model->preprocess.width, h = f->model->preprocess.height;
    const int side = FAITHFULNESS_BLUR;
    uint8_t small[FAITHFULNESS_BLUR * FAITHFULNESS_BLUR * 3];
    const struct resize down = {.src = pixels,
                                .src_w = w,
                                .src_h = h,
                                .out_w = side,
                                .out_h = side,
                                .crop_w = side,
                                .crop_h = side,
                                .filter = FILTER_BOX};
    const struct resize up = {.src = small,
                              .src_w = side,
                              .src_h = side,
                              .out_w = w,
                              .out_h = h,
                              .crop_w = w,
                              .crop_h = h,
                              .filter = FILTER_BICUBIC};
    TRY(resize_rgb(&down, small));
    return resize_rgb(&up, f->blurred);
}

/* The cell's pixels of `to` become those of `from`. */
static void copy_cell(const struct preprocess *size, int rows, int columns, int cell,
                      const uint8_t *from, uint8_t *to) {
    const int row = cell / columns, column = cell % columns;
    const int y1 = (row + 1) * size->height / rows;
    const int x0 = column * size->width / columns, x1 = (column + 1) * size->width / columns;
    for (int y = row * size->height / rows; y < y1; y++) {
        const size_t at = ((size_t)y * (size_t)size->width + (size_t)x0) * 3;
        memcpy(to + at, from + at, (size_t)(x1 - x0) * 3);
    }
}

static int changed(int cells, int point) {
    return (int)((int64_t)cells * point / FAITHFULNESS_STEPS);
}

/* out (POINTS, height, width, 3): `first`, then step by step more cells of `other`. */
static void fill_curve(const struct faithfulness *f, const uint8_t *first, const uint8_t *other,
                       const int *order, int rows, int columns, uint8_t *out) {
    const size_t bytes = picture_bytes(f);
    const int cells = rows * columns;
    memcpy(out, first, bytes);
    for (int p = 1; p < POINTS; p++, out += bytes) {
        memcpy(out + bytes, out, bytes);
        for (int i = changed(cells, p - 1); i < changed(cells, p); i++)
            copy_cell(&f->model->preprocess, rows, columns, order[i], other, out + bytes);
    }
}

/* f->pixels, in the order of the map and in a random one; order, noise (cells) are scratch. */
static void fill_pixels(struct faithfulness *f, const uint8_t *pixels, const float *map, int rows,
                        int columns, int *order, float *noise) {
    const size_t curve = POINTS * picture_bytes(f);
    uint64_t state = f->seed;
    for (int i = 0; i < rows * columns; i++)
        noise[i] = (float)random_share(&state);
    for (int c = 0; c < CURVES; c += 2) {
        uint8_t *out = f->pixels + (size_t)c * curve;
        top_k(c ? noise : map, rows * columns, rows * columns, order);
        fill_curve(f, pixels, f->blurred, order, rows, columns, out);
        fill_curve(f, f->blurred, pixels, order, rows, columns, out + curve);
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static enum status read_curves(struct faithfulness *f, int cells, struct faithfulness_curves *out) {
    const int classes = f->model->classes;
    const size_t count = (size_t)CURVES * POINTS * (size_t)classes;
    float *logits = f->logits;
    if (!all_finite(logits, count)) return fail(ST_FORMAT, "%s", NOT_FINITE);
    if (out->class < 0) top_k(logits, classes, 1, &out->class);
    for (int p = 0; p < POINTS; p++)
        out->share[p] = (float)changed(cells, p) / (float)cells;
    for (int c = 0; c < CURVES; c++) {
        const float *values = out->probability[c], *share = out->share;
        for (int p = 0; p < POINTS; p++, logits += classes) {
            softmax(logits, classes);
            out->probability[c][p] = logits[out->class];
        }
        out->area[c] = 0;
        for (int p = 1; p < POINTS; p++)
            out->area[c] +=
                (double)(share[p] - share[p - 1]) * (double)(values[p] + values[p - 1]) / 2;
    }
    return ST_OK;
}

enum status faithfulness_measure(struct faithfulness *f, const uint8_t *pixels, const float *map,
                                 int rows, int columns, int class,
                                 struct faithfulness_curves *out) {
    const size_t cells = (size_t)rows * (size_t)columns;
    int *order = mem_zalloc(cells, sizeof *order);
    float *noise = mem_zalloc(cells, sizeof *noise);
    enum status st = order && noise ? blur(f, pixels) : ST_NOMEM;
    out->class = class;
    if (st == ST_OK) {
        fill_pixels(f, pixels, map, rows, columns, order, noise);
        st = model_forward(f->model, f->pixels, CURVES * POINTS, f->logits, NULL);
    }
    if (st == ST_OK) st = read_curves(f, (int)cells, out);
    mem_free(order);
    mem_free(noise);
    return st;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void print_curves(const struct faithfulness *f, const struct attention_file *file,
                         const char *class, const struct faithfulness_curves *curves) {
    const char *method = attention_methods[file->maps->options.method];
    char text[48];
    if (!f->images) {
        printf("path\tclass\torder\tcurve\tarea");
        for (int p = 0; p < POINTS; p++)
            printf("\t%s", rows_score_text((float)p / FAITHFULNESS_STEPS, "%.3g", text));
        putchar('\n');
    }
    for (int c = 0; c < CURVES; c++) {
        rows_put_field(stdout, ROW_TSV, file->item->path);
        putchar('\t');
        rows_put_field(stdout, ROW_TSV, class);
        printf("\t%s\t%s", c < 2 ? method : "random", curve_names[c]);
        printf("\t%s", rows_score_text((float)curves->area[c], "%.6f", text));
        for (int p = 0; p < POINTS; p++)
            printf("\t%s", rows_score_text(curves->probability[c][p], "%.6f", text));
        putchar('\n');
    }
}

static enum status save_plot(const struct attention_file *file, const char *suffix,
                             const char *class, const struct faithfulness_curves *curves) {
    struct plot_line lines[CURVES];
    char names[CURVES][48], number[48];
    struct plot plot = {.x_title = "share of the patches changed",
                        .y_title = "probability",
                        .title = class,
                        .lines = lines,
                        .count = CURVES,
                        .x_high = 1,
                        .y_high = 1,
                        .width = 1120,
                        .height = 560};
    struct image picture = {0};
    enum status st;
    for (int c = 0; c < CURVES; c++) {
        snprintf(names[c], sizeof names[c], "%s%s %s", c < 2 ? "" : "random ", curve_names[c],
                 rows_score_text((float)curves->area[c], "%.3f", number));
        lines[c] = (struct plot_line){names[c], curves->share, curves->probability[c], POINTS};
    }
    st = plot_draw(&plot, &picture);
    if (st == ST_OK)
        st = picture_queue_add(
            file->pictures,
            str_format("%s.faithfulness%s%s.png", file->stem, suffix[0] ? "." : "", suffix),
            &picture);
    image_release(&picture);
    return st;
}

static void add(struct faithfulness *f, const struct faithfulness_curves *curves) {
    for (int i = 0; i < 2; i++) {
        const double difference = curves->area[i] - curves->area[2 + i];
        f->sums[i].map += curves->area[i];
        f->sums[i].random += curves->area[2 + i];
        f->sums[i].difference += difference;
        f->sums[i].square += difference * difference;
    }
    f->images++;
}

static enum status save_map(const struct attention_file *file, int n) {
    struct faithfulness *f = file->faithfulness;
    struct faithfulness_curves curves = {0};
    struct attention_array array;
    char number[MODEL_CLASS_NUMBER] = "";
    const char *class;
    TRY(attention_compute(file->maps, file->image, n, &array));
    TRY(faithfulness_measure(f, file->pixels, array.values, (int)array.dims[2], (int)array.dims[3],
                             array.class, &curves));
    class = model_class_name(f->model, curves.class, number);
    TRY(save_plot(file, array.name, class, &curves));
    print_curves(f, file, class, &curves);
    add(f, &curves);
    return ST_OK;
}

enum status faithfulness_save(const struct attention_file *file) {
    for (int n = 0; n < attention_arrays(file->maps); n++)
        TRY(save_map(file, n));
    return ST_OK;
}

void faithfulness_tell(const struct faithfulness *f) {
    const double n = (double)f->images;
    for (int i = 0; i < 2 && f->images > 1; i++) {
        const struct faithfulness_sum *sum = &f->sums[i];
        const double mean = sum->difference / n;
        const double variance = fmax(sum->square - n * mean * mean, 0) / (n - 1);
        cli_say("%s: mean area %.4f of %zu maps, %.4f of random orders; difference %+.4f +- %.4f",
                curve_names[i], sum->map / n, f->images, sum->random / n, mean,
                1.96 * sqrt(variance / n));
    }
}
