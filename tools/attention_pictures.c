#include "tools/attention_pictures.h"

#include <stdio.h>
#include <string.h>

#include "tools/canvas.h"
#include "tools/heat_mass.h"
#include "tools/panels.h"
#include "tools/picture_queue.h"
#include "tools/rows.h"

enum { SMALLEST = 256, MAP_SIDE = 512, FRAME = 0xff3020 };

/* One map of an array. */
struct one_map {
    const struct attention_array *array;
    int layer, head; /* numbers; -1 = all in one */
    int h, w;
    const float *values; /* (h, w) */
};

/* ---- files ----------------------------------------------------------------------------------- */

/* STEM.kind[.layerL[.headH]].png */
static enum status save_picture(const struct attention_file *file, const char *kind,
                                const struct one_map *map, bool alone, struct image *picture) {
    char place[48] = "";
    if (map->array->class >= 0 && map->array->name[0])
        snprintf(place, sizeof place, ".%s", map->array->name);
    else if (!alone && map->head >= 0)
        snprintf(place, sizeof place, ".layer%d.head%d", map->layer, map->head);
    else if (!alone)
        snprintf(place, sizeof place, ".layer%d", map->layer);
    return picture_queue_add(file->pictures, str_format("%s.%s%s.png", file->stem, kind, place),
                             picture);
}

/* ---- maps ------------------------------------------------------------------------------------ */

typedef enum status draw_map(const struct attention_file *file, const struct one_map *map,
                             bool alone);

static struct one_map map_of(const struct attention_array *array, size_t layer, size_t head) {
    const size_t *d = array->dims;
    return (struct one_map){.array = array,
                            .layer = array->layers ? array->layers[layer] : -1,
                            .head = array->heads ? array->heads[head] : -1,
                            .h = (int)d[2],
                            .w = (int)d[3],
                            .values = array->values + (layer * d[1] + head) * d[2] * d[3]};
}

/* Calls `draw` for every map of every array. */
static enum status each_map(const struct attention_file *file, draw_map *draw) {
    const int arrays = attention_arrays(file->maps);
    for (int n = 0; n < arrays; n++) {
        struct attention_array array;
        TRY(attention_compute(file->maps, file->image, n, &array));
        for (size_t l = 0; l < array.dims[0]; l++)
            for (size_t h = 0; h < array.dims[1]; h++) {
                const struct one_map map = map_of(&array, l, h);
                TRY(draw(file, &map, arrays == 1 && array.dims[0] == 1 && array.dims[1] == 1));
            }
    }
    return ST_OK;
}

static bool all_queries(const struct attention_file *file) {
    return file->maps->options.focus.query == QUERY_ALL;
}

struct grid_place attention_pictures_place(const struct attention_file *file, int layer, int rows,
                                           int columns, int width, int height) {
    const struct model *model = file->maps->model;
    const struct attention_shape finest = model_attention_shape(model, 0, false);
    const int step = layer < 0 ? 1 : 1 << model_layer_stage(model, layer);
    return (struct grid_place){
        .at = file->item->placement,
        .image_w = width,
        .image_h = height,
        .model_w = columns * step * (model->preprocess.width / finest.map.grid_w),
        .model_h = rows * step * (model->preprocess.height / finest.map.grid_h),
        .columns = columns,
        .rows = rows};
}

static struct grid_place place_of(const struct attention_file *file, const struct one_map *map,
                                  int width, int height) {
    return attention_pictures_place(file, map->layer, map->h, map->w, width, height);
}

static struct heat_style style_of(const struct attention_file *file, const struct one_map *map) {
    struct heat_style style = heat_defaults(map->values, (size_t)map->h * (size_t)map->w);
    style.colormap = file->look->colormap;
    style.filter = file->look->filter;
    style.opacity = (float)file->look->opacity;
    return style;
}

static enum status add_bar(const struct attention_file *file, const struct heat_style *style,
                           struct image *canvas) {
    const struct panels_bar bar = {.title = "attention"};
    return file->look->colorbar ? panels_bar_draw(style, &bar, canvas) : ST_OK;
}

/* A copy of the picture, large enough to be looked at. */
static enum status copy_picture(const struct attention_file *file, struct image *out) {
    const struct image *image = &file->item->image;
    const int longer = image->width > image->height ? image->width : image->height;
    TRY(canvas_open(image->width, image->height, 0, out));
    canvas_copy(out, 0, 0, image);
    return longer < SMALLEST ? canvas_enlarge(out, (SMALLEST + longer - 1) / longer) : ST_OK;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static enum status draw_overlay(const struct attention_file *file, const struct one_map *map,
                                bool alone) {
    const struct heat_style style = style_of(file, map);
    struct image picture = {0};
    enum status st = copy_picture(file, &picture);
    if (st == ST_OK) {
        const struct grid_place place = place_of(file, map, picture.width, picture.height);
        st = heat_overlay(&style, map->values, &place, &picture);
    }
    if (st == ST_OK) st = add_bar(file, &style, &picture);
    if (st == ST_OK) st = save_picture(file, "overlay", map, alone, &picture);
    image_release(&picture);
    return st;
}

enum status attention_save_overlay(const struct attention_file *file) {
    return each_map(file, draw_overlay);
}

static enum status draw_matrix(const struct attention_file *file, const struct one_map *map,
                               bool alone) {
    const struct attention_shape shape =
        model_attention_shape(file->maps->model, map->layer, false);
    const struct heat_style style = style_of(file, map);
    const struct panels_matrix matrix = {.values = map->values,
                                         .queries = map->h,
                                         .keys = map->w,
                                         .prefix = shape.prefix,
                                         .bar_title = "attention"};
    struct image picture = {0};
    enum status st = panels_matrix_draw(&style, &matrix, &picture);
    if (st == ST_OK) st = save_picture(file, "map", map, alone, &picture);
    image_release(&picture);
    return st;
}

static enum status draw_alone(const struct attention_file *file, const struct one_map *map,
                              bool alone) {
    const int longer = map->w > map->h ? map->w : map->h;
    const int cell = MAP_SIDE > longer ? MAP_SIDE / longer : 1;
    struct heat_style style = style_of(file, map);
    const struct pixel_box box = {0, 0, map->w * cell, map->h * cell};
    struct image picture = {0};
    enum status st = canvas_open(box.x1, box.y1, 0xffffff, &picture);
    style.opacity = 1;
    if (st == ST_OK) st = heat_draw(&style, map->values, map->h, map->w, &picture, box);
    if (st == ST_OK) st = add_bar(file, &style, &picture);
    if (st == ST_OK) st = save_picture(file, "map", map, alone, &picture);
    image_release(&picture);
    return st;
}

enum status attention_save_map(const struct attention_file *file) {
    return each_map(file, all_queries(file) ? draw_matrix : draw_alone);
}

/* Numbers as words, for the grid's rows and columns; freed as one. */
static const char **number_names(const int *numbers, size_t count) {
    const char **names = mem_zalloc(count, sizeof *names + 12);
    char *text = names ? (char *)(names + count) : NULL;
    for (size_t i = 0; names && i < count; i++, text += 12) {
        if (numbers)
            snprintf(text, 12, "%d", numbers[i]);
        else
            snprintf(text, 12, "all");
        names[i] = text;
    }
    return names;
}

static enum status draw_grid(const struct attention_file *file, const struct attention_array *array,
                             const struct panel *panels, const char *const *rows,
                             const char *const *columns, struct image *out) {
    const struct model *model = file->maps->model;
    const struct image seen = {.width = model->preprocess.width,
                               .height = model->preprocess.height,
                               .rgb = (uint8_t *)file->pixels};
    struct panels_grid grid = {.panels = panels,
                               .rows = (int)array->dims[0],
                               .columns = (int)array->dims[1],
                               .row_names = rows,
                               .column_names = columns,
                               .row_title = "layer",
                               .column_title = "head",
                               .behind = all_queries(file) ? NULL : &seen,
                               .own_range = true};
    struct heat_style style = heat_defaults(array->values, attention_array_elements(array));
    style.colormap = file->look->colormap;
    style.filter = file->look->filter;
    style.opacity = (float)file->look->opacity;
    panels_grid_size(&grid);
    return panels_grid_draw(&style, &grid, out);
}

static enum status save_grid(const struct attention_file *file, int n) {
    struct attention_array array;
    struct image picture = {0};
    const char **rows, **columns;
    struct panel *panels;
    enum status st;
    TRY(attention_compute(file->maps, file->image, n, &array));
    panels = mem_zalloc(array.dims[0] * array.dims[1], sizeof *panels);
    rows = number_names(array.layers, array.dims[0]);
    columns = number_names(array.heads, array.dims[1]);
    st = panels && rows && columns ? ST_OK : ST_NOMEM;
    for (size_t i = 0; st == ST_OK && i < array.dims[0] * array.dims[1]; i++) {
        const struct one_map map = map_of(&array, i / array.dims[1], i % array.dims[1]);
        panels[i] = (struct panel){map.values, map.h, map.w};
    }
    if (st == ST_OK) st = draw_grid(file, &array, panels, rows, columns, &picture);
    if (st == ST_OK)
        st = picture_queue_add(
            file->pictures,
            str_format("%s.grid%s%s.png", file->stem, array.name[0] ? "." : "", array.name),
            &picture);
    image_release(&picture);
    mem_free(columns);
    mem_free(rows);
    mem_free(panels);
    return st;
}

enum status attention_save_grid(const struct attention_file *file) {
    for (int n = 0; n < attention_arrays(file->maps); n++)
        TRY(save_grid(file, n));
    return ST_OK;
}

static void print_box(const struct attention_file *file, const struct one_map *map,
                      const uint8_t *keep, int cells) {
    const struct image *image = &file->item->image;
    const struct grid_place place = place_of(file, map, image->width, image->height);
    const struct pixel_box box = heat_mass_box(keep, &place);
    rows_put_field(stdout, ROW_TSV, file->item->path);
    if (map->array->class >= 0) printf("\t%d", map->array->class);
    if (map->layer >= 0) printf("\t%d", map->layer);
    if (map->layer >= 0 && map->head >= 0) printf("\t%d", map->head);
    if (map->layer >= 0 && map->head < 0) printf("\t");
    printf("\t%d\t%d\t%d\t%d\t%d\n", box.x0, box.y0, box.x1, box.y1, cells);
}

static enum status draw_mask(const struct attention_file *file, const struct one_map *map,
                             bool alone) {
    const size_t count = (size_t)map->h * (size_t)map->w;
    struct image picture = {0};
    uint8_t *keep = mem_zalloc(count, 1);
    int cells = 0;
    enum status st = keep ? heat_mass(map->values, count, file->look->mass, keep) : ST_NOMEM;
    if (st == ST_OK) st = copy_picture(file, &picture);
    if (st == ST_OK) {
        const struct grid_place place = place_of(file, map, picture.width, picture.height);
        st = heat_mass_draw(keep, &place, FRAME, &picture);
    }
    if (st == ST_OK) st = save_picture(file, "mask", map, alone, &picture);
    for (size_t i = 0; st == ST_OK && i < count; i++)
        cells += keep[i];
    if (st == ST_OK) print_box(file, map, keep, cells);
    image_release(&picture);
    mem_free(keep);
    return st;
}

enum status attention_save_mask(const struct attention_file *file) {
    return each_map(file, draw_mask);
}
