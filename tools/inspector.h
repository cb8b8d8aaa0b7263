/*
 * inspector: one page for a browser in which pictures, layers, heads and patches are looked at
 * (tools/inspector.html), written as it goes: begin, a picture at a time, end.
 *
 * A picture's JSON: name, model, photo (a JPEG as data: address), classes [{label, probability}],
 * maps [{name, class, rows, columns, box, packed}], layers [{name, heads, queries, keys, prefix,
 * rows, columns, window, shift, levels, tokens, box, packed}]. class: as one of classes, or null.
 * box: the grid's corners x0, y0, x1, y1 in fractions of the picture. packed: base64 of zlib's
 * deflate, which browsers can undo, of
 *   maps    float32 (rows, columns)
 *   layers  uint16 (heads, queries, 2): the greatest value m of a row's first `prefix` keys, and
 *           that of its other keys, as round(-2048 log2(m)), or 65535 for 0;
 *           uint8 (heads, queries, keys): round(levels * value / m)
 * All little-endian. So a value is off by at most m / 94; ViT-B/16 (12 x 12 x 197 x 197) takes
 * 2.2 to 2.8 MB.
 */
#ifndef TOOLS_INSPECTOR_H
#define TOOLS_INSPECTOR_H

#include <stdio.h>

#include "datasets/image.h"
#include "datasets/placement.h"

#define INSPECTOR_LEVELS 47

struct inspector_class {
    const char *label;
    double probability;
};

struct inspector_map {
    const char *name;                 /* "rollout" */
    const float *values;              /* (rows, columns) of place */
    struct grid_place place;          /* on the picture */
    const struct inspector_class *of; /* whose map it is; NULL for no class's */
};

/*
 * queries = prefix + rows * columns of place. window 0, 0: keys = queries. Else (prefix is 0) keys
 * are the slots of the query's window, row-major, as kernels/windows.h lays windows on the grid:
 * rolled by -shift, then padded at its end to whole windows. What padding slots hold is not shown.
 */
struct inspector_layer {
    const char *name;        /* "3", "stage 1, block 0" */
    const float *values;     /* (heads, queries, keys) shares, 0 to 1; NULL: picture.layer_values */
    int heads, prefix;       /* prefix: class, distillation and register tokens */
    int window[2], shift[2]; /* rows, columns */
    const char *const *tokens; /* (prefix) "class token", ... */
    struct grid_place place;
};

struct inspector_picture {
    const char *name, *model;
    const struct image *image; /* upright; at most 768 pixels of a side are kept */
    const struct inspector_class *classes;
    const struct inspector_map *maps;
    const struct inspector_layer *layers;
    int class_count, map_count, layer_count;
    /* The values of layer i, until the next call; its errors become the picture's. */
    enum status (*layer_values)(void *context, int i, const float **values);
    void *context;
};

/* The file's owner looks for errors of writing. */
void inspector_begin(FILE *file);
void inspector_end(FILE *file);

/*
 * Nothing of a picture is written when it fails: ST_USAGE for sizes that cannot be, or where no
 * pictures can be written; ST_NOMEM, also for a layer of more than 2^30 values.
 */
enum status inspector_picture(FILE *file, const struct inspector_picture *picture) MUST_CHECK;

#endif
