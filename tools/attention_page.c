/* attention_page: see attention_page.h. */
#include "tools/attention_page.h"

#include <stdio.h>
#include <string.h>

#include "tools/attention_pictures.h"
#include "tools/inspector.h"

/* ---- the pass -------------------------------------------------------------------------------- */

static bool has_rollout(const struct attention_maps *maps) {
    return maps->options.method == ATTENTION_ROLLOUT;
}

/* The rollout shown. */
static struct attention_maps *rollout_of(struct attention_page *page) {
    return has_rollout(page->maps) ? page->maps : &page->rollout;
}

static bool has_gradient(const struct attention_maps *maps) {
    return maps->options.method == ATTENTION_GRADIENT;
}

/* The classes shown; closed where the model has none. */
static struct attention_maps *classes_of(struct attention_page *page) {
    return has_gradient(page->maps) ? page->maps : &page->classes;
}

/* Whether the pass hands its layer's probabilities to these maps. */
static bool wants(const struct attention_maps *maps, int layer) {
    return maps->wanted && maps->wanted[layer] && !has_gradient(maps);
}

/* The capture's. */
static void take(void *context, const struct captured *got) {
    const struct attention_page *page = context;
    const struct attention_maps *all[] = {page->maps, &page->rows, &page->rollout};
    for (int i = 0; i < (int)COUNT_OF(all); i++)
        if (wants(all[i], got->layer)) all[i]->capture.take(all[i]->capture.context, got);
}

static enum status open_capture(struct attention_page *page) {
    const struct attention_maps *all[] = {page->maps, &page->rows, &page->rollout};
    const struct model *model = page->maps->model;
    const size_t logits = (size_t)model->batch * (size_t)model->classes;
    page->wanted = mem_zalloc((size_t)page->maps->depth, sizeof *page->wanted);
    if (model->classes) page->logits = mem_zalloc(logits, sizeof *page->logits);
    if (!page->wanted || (model->classes && !page->logits)) return ST_NOMEM;
    page->kept_bytes =
        logits * sizeof *page->logits + page->classes.kept_bytes + page->classes.gradient.bytes;
    for (int i = 0; i < (int)COUNT_OF(all); i++) {
        page->kept_bytes += all[i]->kept_bytes;
        for (int l = 0; l < all[i]->depth; l++)
            page->wanted[l] |= wants(all[i], l);
    }
    for (int l = 0; l < page->maps->depth; l++)
        page->count += page->wanted[l];
    page->capture = (struct capture){.layers = page->wanted, .take = take, .context = page};
    return ST_OK;
}

static enum status open_all(struct attention_page *page) {
    const struct model *model = page->maps->model;
    struct attention_options options = attention_defaults();
    options.whole = true;
    if (!has_rollout(page->maps)) TRY(attention_open(&page->rollout, model, &options));
    options.backward = page->maps->options.backward;
    options.classes = page->maps->options.classes;
    if (!has_gradient(page->maps) && (model->classes || options.classes)) {
        if (!options.classes) options.classes = model->classes > 1 ? "top2" : "top";
        options.method = ATTENTION_GRADIENT;
        options.empty = true;
        TRY(attention_open(&page->classes, model, &options));
    }
    options.method = ATTENTION_RAW;
    options.layers = page->maps->options.layers;
    options.focus.query = QUERY_ALL;
    options.slots = true;
    TRY(attention_open(&page->rows, model, &options));
    return open_capture(page);
}

enum status attention_page_open(struct attention_page *out, struct attention_maps *maps) {
    enum status st;
    *out = (struct attention_page){.maps = maps};
    st = open_all(out);
    if (st != ST_OK) attention_page_release(out);
    return st;
}

void attention_page_release(struct attention_page *page) {
    attention_release(&page->rows);
    attention_release(&page->rollout);
    attention_release(&page->classes);
    mem_free(page->wanted);
    mem_free(page->logits);
    mem_free(page->path);
    *page = (struct attention_page){0};
}

/* ---- the file -------------------------------------------------------------------------------- */

enum status attention_page_create(struct attention_page *page, const char *folder,
                                  const struct run_options *run, const struct inputs *inputs) {
    page->path = str_format("%s/index.html", folder);
    if (!page->path) return ST_NOMEM;
    TRY(run_check_output(run, page->path, inputs));
    TRY(output_open(&page->output, page->path));
    inspector_begin(page->output.file);
    return ST_OK;
}

enum status attention_page_close(struct attention_page *page, enum status done) {
    if (page->output.file) inspector_end(page->output.file);
    return output_close(&page->output, done);
}

/* ---- an image -------------------------------------------------------------------------------- */

/* What the page shows of an image while it is put together. */
struct sheet {
    const struct attention_file *file;
    struct inspector_class classes[ATTENTION_PAGE_CLASSES];
    char numbers[ATTENTION_PAGE_CLASSES][MODEL_CLASS_NUMBER];
    int class_count;
    struct inspector_layer *layers;            /* (arrays of page->rows) */
    char (*layer_names)[40];                   /* the same */
    const char **tokens;                       /* (prefix) */
    char (*token_names)[40];                   /* the same */
    struct inspector_map maps[1 + CLASS_LIST]; /* the rollout, then the classes' */
    struct inspector_class of[1 + CLASS_LIST]; /* maps[i]'s; none of the first */
    char of_numbers[1 + CLASS_LIST][MODEL_CLASS_NUMBER];
    char *map_names[1 + CLASS_LIST]; /* owned, as the next */
    float *values[1 + CLASS_LIST];
    int map_count;
};

/* Of the logits: softmax in place, so once an image. */
static enum status fill_classes(struct sheet *sheet) {
    const struct attention_file *file = sheet->file;
    const struct model *model = file->maps->model;
    const size_t K = (size_t)model->classes;
    int best[ATTENTION_PAGE_CLASSES];
    float *logits;
    if (!K) return ST_OK;
    logits = file->page->logits + (size_t)file->image * K;
    if (!all_finite(logits, K)) return fail(ST_FORMAT, "%s", NOT_FINITE);
    softmax(logits, model->classes);
    sheet->class_count =
        model->classes < ATTENTION_PAGE_CLASSES ? model->classes : ATTENTION_PAGE_CLASSES;
    top_k(logits, model->classes, sheet->class_count, best);
    for (int i = 0; i < sheet->class_count; i++) {
        sheet->classes[i] = (struct inspector_class){
            model_class_name(model, best[i], sheet->numbers[i]), (double)logits[best[i]]};
    }
    return ST_OK;
}

static struct grid_place place_of(const struct attention_file *file, int layer, int rows,
                                  int columns) {
    const struct image *image = &file->item->image;
    return attention_pictures_place(file, layer, rows, columns, image->width, image->height);
}

static void fill_layer(struct sheet *sheet, int i) {
    const struct attention_file *file = sheet->file;
    const struct model *model = file->maps->model;
    const int layer = file->page->rows.order[i];
    const struct attention_shape shape = model_attention_shape(model, layer, false);
    const struct window_grid *map = &shape.map;
    struct inspector_layer *out = &sheet->layers[i];
    char *name = sheet->layer_names[i];
    if (shape.windowed)
        snprintf(name, sizeof sheet->layer_names[i], "%d, stage %d", layer,
                 model_layer_stage(model, layer));
    else
        snprintf(name, sizeof sheet->layer_names[i], "%d", layer);
    *out = (struct inspector_layer){.name = name,
                                    .heads = shape.heads,
                                    .prefix = shape.prefix,
                                    .tokens = sheet->tokens,
                                    .place = place_of(file, layer, map->grid_h, map->grid_w)};
    if (!shape.windowed) return;
    out->window[0] = map->window_h;
    out->window[1] = map->window_w;
    out->shift[0] = map->shift_h;
    out->shift[1] = map->shift_w;
}

/* The inspector's. */
static enum status layer_values(void *context, int i, const float **values) {
    const struct attention_file *file = context;
    struct attention_array array;
    TRY(attention_compute(&file->page->rows, file->image, i, &array));
    *values = array.values;
    return ST_OK;
}

static enum status fill_layers(struct sheet *sheet) {
    const struct attention_file *file = sheet->file;
    const struct model *model = file->maps->model;
    const size_t count = (size_t)attention_arrays(&file->page->rows);
    const size_t prefix = (size_t)model_attention_shape(model, 0, false).prefix;
    sheet->layers = mem_zalloc(count, sizeof *sheet->layers);
    sheet->layer_names = mem_zalloc(count, sizeof *sheet->layer_names);
    sheet->tokens = mem_zalloc(prefix + 1, sizeof *sheet->tokens);
    sheet->token_names = mem_zalloc(prefix + 1, sizeof *sheet->token_names);
    if (!sheet->layers || !sheet->layer_names || !sheet->tokens || !sheet->token_names)
        return ST_NOMEM;
    for (size_t i = 0; i < prefix; i++) {
        model_token_name(model, (int)i, sheet->token_names[i], sizeof *sheet->token_names);
        sheet->tokens[i] = sheet->token_names[i];
    }
    for (size_t i = 0; i < count; i++)
        fill_layer(sheet, (int)i);
    return ST_OK;
}

/* Map i is of this class. After fill_classes, which leaves probabilities. */
static enum status name_map(struct sheet *sheet, int i, int class) {
    const struct attention_file *file = sheet->file;
    const struct model *model = file->maps->model;
    const float *probabilities = file->page->logits + (size_t)file->image * (size_t)model->classes;
    struct inspector_class *of = &sheet->of[i];
    *of = (struct inspector_class){model_class_name(model, class, sheet->of_numbers[i]),
                                   (double)probabilities[class]};
    sheet->map_names[i] = str_format("for %s", of->label);
    sheet->maps[i].of = of;
    return sheet->map_names[i] ? ST_OK : ST_NOMEM;
}

/* One map more, named already. */
static enum status put_map(struct sheet *sheet, const struct attention_array *array) {
    const size_t bytes = attention_array_elements(array) * sizeof *array->values;
    const int i = sheet->map_count++;
    struct inspector_map *map = &sheet->maps[i];
    sheet->values[i] = mem_zalloc(bytes, 1);
    if (!sheet->values[i]) return ST_NOMEM;
    memcpy(sheet->values[i], array->values, bytes);
    map->name = sheet->map_names[i];
    map->values = sheet->values[i];
    map->place = place_of(sheet->file, -1, (int)array->dims[2], (int)array->dims[3]);
    return ST_OK;
}

static bool all_zero(const struct attention_array *array) {
    const size_t count = attention_array_elements(array);
    for (size_t i = 0; i < count; i++)
        if (array->values[i] != 0) return false;
    return true;
}

/* The rollout, and a map for each class that any attention speaks for. */
static enum status fill_maps(struct sheet *sheet) {
    const struct attention_file *file = sheet->file;
    struct attention_maps *classes = classes_of(file->page);
    struct attention_array array;
    sheet->map_names[0] = str_copy("rollout");
    if (!sheet->map_names[0]) return ST_NOMEM;
    TRY(attention_compute(rollout_of(file->page), file->image, 0, &array));
    TRY(put_map(sheet, &array));
    for (int n = 0; classes->model && n < attention_arrays(classes); n++) {
        TRY(attention_compute(classes, file->image, n, &array));
        if (all_zero(&array)) continue;
        TRY(name_map(sheet, sheet->map_count, array.class));
        TRY(put_map(sheet, &array));
    }
    return ST_OK;
}

static enum status add(struct sheet *sheet) {
    const struct attention_file *file = sheet->file;
    struct attention_page *page = file->page;
    struct inspector_picture picture = {.name = file->item->path,
                                        .model = file->model,
                                        .image = &file->item->image,
                                        .classes = sheet->classes,
                                        .maps = sheet->maps,
                                        .layer_count = attention_arrays(&page->rows),
                                        .layer_values = layer_values,
                                        .context = (void *)file};
    if (page->classes.model)
        TRY(attention_relevance(&page->classes, file->item, file->pixels,
                                page->logits +
                                    (size_t)file->image * (size_t)file->maps->model->classes));
    TRY(fill_classes(sheet));
    TRY(fill_layers(sheet));
    TRY(fill_maps(sheet));
    picture.map_count = sheet->map_count;
    picture.class_count = sheet->class_count;
    picture.layers = sheet->layers;
    TRY(inspector_picture(page->output.file, &picture));
    return output_flush(&page->output);
}

enum status attention_page_save(const struct attention_file *file) {
    struct sheet sheet = {.file = file};
    enum status st = add(&sheet);
    for (int i = 0; i <= CLASS_LIST; i++) {
        mem_free(sheet.map_names[i]);
        mem_free(sheet.values[i]);
    }
    mem_free(sheet.layers);
    mem_free(sheet.layer_names);
    mem_free(sheet.tokens);
    mem_free(sheet.token_names);
    return st;
}
