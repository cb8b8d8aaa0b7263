/* attention: see attention.h. Its options are in attention_options.c. */
#include "tools/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is kept of a layer: (batch, floats) of values. */
struct kept {
    struct attention_shape shape;
    int heads;     /* maps, or matrices: 1 where heads are fused */
    size_t floats; /* of an image */
    float *values;
};

static bool is_gradient(const struct attention_maps *a) {
    return a->options.method == ATTENTION_GRADIENT;
}

/* Whether layers are walked through, to one map. */
static bool walks(const struct attention_maps *a) {
    return a->options.method != ATTENTION_RAW;
}

static bool all_queries(const struct attention_maps *a) {
    return a->options.focus.query == QUERY_ALL;
}

/* Whether the chosen heads become one. */
static bool fuses(const struct attention_maps *a) {
    return walks(a) || a->options.heads.kind == HEADS_FUSED;
}

/* The pool's own probabilities say what the head reads of the last block. */
static bool uses_pool(const struct attention_maps *a) {
    return walks(a) && a->options.focus.query == QUERY_HEAD && a->depth > a->model->depth;
}

/* ---- what a model has ------------------------------------------------------------------------ */

static enum status check_layers(const struct attention_maps *a) {
    const struct attention_options *o = &a->options;
    const int last = a->model->depth - 1;
    for (int i = 0; i < o->layers.count; i++)
        if (o->layers.value[i] > last)
            return fail(ST_USAGE, "option --layers %d: the model has layers 0 to %d",
                        o->layers.value[i], last);
    if (o->start_layer > last)
        return fail(ST_USAGE, "option --start-layer %d: the model has layers 0 to %d",
                    o->start_layer, last);
    for (int l = 0; l <= last; l++) {
        const struct attention_shape shape = model_attention_shape(a->model, l, false);
        for (int i = 0; a->wanted[l] && i < o->heads.list.count; i++)
            if (o->heads.list.value[i] >= shape.heads)
                return fail(ST_USAGE, "option --heads %d: layer %d has heads 0 to %d",
                            o->heads.list.value[i], l, shape.heads - 1);
    }
    return ST_OK;
}

static enum status check_query(const struct attention_maps *a) {
    const enum attention_query query = a->options.focus.query;
    if (query == QUERY_CLS && !a->model->class_token)
        return fail(ST_USAGE, "option --query cls: the model has no class token");
    if (query == QUERY_HEAD && !walks(a) && a->depth > a->model->depth)
        return fail(ST_USAGE, "option --query head: this model's head reads by an attention of its "
                              "own, not one token; say mean, all or X,Y");
    return ST_OK;
}

/* Which layers are captured, and of the last one only the head's rows where no other are used. */
static void choose_layers(struct attention_maps *a) {
    const struct attention_options *o = &a->options;
    for (int l = 0; l < a->model->depth; l++)
        a->wanted[l] = walks(a) ? l >= o->start_layer : o->layers.count == 0;
    for (int i = 0; i < o->layers.count && !walks(a); i++)
        if (o->layers.value[i] < a->model->depth) a->wanted[o->layers.value[i]] = true;
    if (uses_pool(a)) a->wanted[a->model->depth] = true;
    a->capture.head_rows = !o->whole && !is_gradient(a) &&
                           (o->focus.query == QUERY_HEAD || o->focus.query == QUERY_CLS);
    a->capture.layers = a->wanted;
}

/* ---- keeping, while the pass runs ------------------------------------------------------------ */

/* The numbers of the heads that make map `i`, NULL = all; *count of them. */
static const int *heads_of(const struct attention_maps *a, int i, int *count) {
    const struct attention_heads *heads = &a->options.heads;
    const int *numbers = heads->kind == HEADS_LIST ? heads->list.value : fuses(a) ? NULL : a->heads;
    *count = fuses(a) ? heads->list.count : 1;
    return fuses(a) ? numbers : numbers + i;
}

/* weights (T) of a layer's queries for image i. */
static void weigh(const struct attention_maps *a, const struct attention_shape *shape, int i,
                  double *weights) {
    const struct attention_shape whole =
        shape->windowed ? *shape
                        : attention_shape_full(shape->heads, shape->prefix, shape->map.grid_h,
                                               shape->map.grid_w);
    const enum attention_query query = a->options.focus.query;
    if (query == QUERY_PIXEL) {
        rollout_start_patch(&whole, a->point[i][0], a->point[i][1], weights);
    } else if (query == QUERY_MEAN || a->model->family == MODEL_SWIN) {
        rollout_start_mean(&whole, weights);
    } else if (query == QUERY_CLS) {
        memset(weights, 0, (size_t)attention_shape_tokens(&whole) * sizeof *weights);
        weights[0] = 1;
    } else {
        model_head_row(a->model, weights);
    }
}

/* values (heads, h, w) = the weighted mean of the queries' rows, of each head. */
static void keep_map(const struct attention_maps *a, const struct kept *kept, int i,
                     const float *probs, float *values) {
    const struct attention_shape *shape = &kept->shape;
    const size_t patches = kept->floats / (size_t)kept->heads;
    const size_t most = (size_t)a->most;
    double *weights = a->weights + (size_t)i * most;
    float *row = a->rows + (size_t)i * most;
    int *token = a->tokens + (size_t)i * most, count;
    weigh(a, shape, i, weights);
    memset(values, 0, kept->floats * sizeof *values);
    for (int w = 0; w < shape->windows; w++) {
        attention_shape_window(shape, w, token);
        for (int q = 0; q < shape->queries; q++) {
            if (token[q] < 0 || weights[token[q]] == 0) continue;
            for (int h = 0; h < kept->heads; h++) {
                const int *heads = heads_of(a, h, &count);
                rollout_fuse_row(shape, probs, a->options.heads.fusion, heads, count, w, q, row);
                for (int k = 0; k < shape->keys; k++)
                    if (token[k] >= shape->prefix)
                        values[(size_t)h * patches + (size_t)(token[k] - shape->prefix)] +=
                            (float)weights[token[q]] * row[k];
            }
        }
    }
}

/* values (heads, W, queries, keys) */
static void keep_matrices(const struct attention_maps *a, const struct kept *kept,
                          const float *probs, float *values) {
    const size_t floats = kept->floats / (size_t)kept->heads;
    for (int h = 0, count; h < kept->heads; h++) {
        const int *heads = heads_of(a, h, &count);
        rollout_fuse(&kept->shape, probs, a->options.heads.fusion, heads, count,
                     values + (size_t)h * floats);
    }
}

/* The capture's. */
static void take(void *context, const struct captured *got) {
    const struct attention_maps *a = context;
    const struct kept *kept = &a->layers[got->layer];
    const size_t floats = attention_shape_floats(&got->shape);
    for (int b = 0; b < got->batch; b++) {
        const int i = got->first + b;
        const float *probs = got->probs + (size_t)b * floats;
        float *values = kept->values + (size_t)i * kept->floats;
        if (walks(a) || all_queries(a))
            keep_matrices(a, kept, probs, values);
        else
            keep_map(a, kept, i, probs, values);
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

static enum status open_layer(struct attention_maps *a, int layer) {
    struct kept *kept = &a->layers[layer];
    const struct attention_shape *shape = &kept->shape;
    size_t pass;
    kept->shape = model_attention_shape(a->model, layer, a->capture.head_rows);
    if (kept->shape.keys > a->most) a->most = kept->shape.keys;
    if (attention_shape_tokens(shape) > a->most) a->most = attention_shape_tokens(shape);
    pass = (size_t)a->batch * attention_shape_floats(shape) * sizeof(float);
    if (pass > a->pass_bytes) a->pass_bytes = pass;
    if (!a->wanted[layer]) return ST_OK;
    a->order[a->count++] = layer;
    kept->heads = fuses(a)                              ? 1
                  : a->options.heads.kind == HEADS_LIST ? a->options.heads.list.count
                                                        : shape->heads;
    kept->floats = walks(a) || all_queries(a)
                       ? attention_shape_head_floats(shape)
                       : (size_t)shape->map.grid_h * (size_t)shape->map.grid_w;
    kept->floats *= (size_t)kept->heads;
    kept->values = mem_zalloc((size_t)a->batch * kept->floats, sizeof *kept->values);
    a->kept_bytes += (size_t)a->batch * kept->floats * sizeof *kept->values;
    return kept->values ? ST_OK : ST_NOMEM;
}

/* Which layers share an array: those of a stage, or each its own. */
static void group_layers(struct attention_maps *a) {
    for (int i = 0; i < a->count; i++) {
        const bool first = i == 0 || all_queries(a) ||
                           model_layer_stage(a->model, a->order[i]) !=
                               model_layer_stage(a->model, a->order[i - 1]);
        if (first) a->groups[a->group_count++][0] = i;
        a->groups[a->group_count - 1][1]++;
    }
    if (walks(a)) a->group_count = is_gradient(a) ? a->classes.count : 1;
}

static void describe_array(const struct attention_maps *a, int n, struct attention_array *out) {
    static const char *const maps[] = {"layer", "head", "y", "x"};
    static const char *const matrices[] = {"layer", "head", "query", "key"};
    const int layer = walks(a) ? 0 : a->order[a->groups[n][0]];
    const struct attention_shape shape = model_attention_shape(a->model, layer, false);
    const size_t tokens = (size_t)attention_shape_tokens(&shape);
    *out =
        (struct attention_array){.dims = {1, 1, (size_t)shape.map.grid_h, (size_t)shape.map.grid_w},
                                 .lead = walks(a) ? 2 : all_queries(a),
                                 .class = is_gradient(a) ? a->class[n] : -1,
                                 .values = a->out};
    memcpy(out->axes, all_queries(a) ? matrices : maps, sizeof maps);
    if (is_gradient(a) && a->classes.count > 1)
        snprintf(out->name, sizeof out->name, "class%d", out->class);
    if (walks(a)) return;
    out->dims[0] = (size_t)a->groups[n][1];
    out->dims[1] = (size_t)a->layers[layer].heads;
    out->layers = a->order + a->groups[n][0];
    if (!fuses(a))
        out->heads = a->options.heads.kind == HEADS_LIST ? a->options.heads.list.value : a->heads;
    if (all_queries(a)) {
        out->dims[2] = tokens;
        out->dims[3] = a->options.slots ? (size_t)shape.keys : tokens;
        snprintf(out->name, sizeof out->name, "layer%d", layer);
    } else if (a->model->family == MODEL_SWIN) {
        snprintf(out->name, sizeof out->name, "stage%d", model_layer_stage(a->model, layer));
    }
}

/* Room for what is made of an image. */
static enum status open_results(struct attention_maps *a) {
    const size_t most = (size_t)a->most, batch = (size_t)a->batch;
    size_t largest = 1;
    group_layers(a);
    for (int n = 0; n < a->group_count; n++) {
        struct attention_array array;
        describe_array(a, n, &array);
        if (attention_array_elements(&array) > largest) largest = attention_array_elements(&array);
    }
    a->out = mem_zalloc(largest, sizeof *a->out);
    a->kept_bytes += largest * sizeof *a->out;
    a->row = mem_zalloc(most, sizeof *a->row);
    a->carried = mem_zalloc(most, sizeof *a->carried);
    a->weights = mem_zalloc(batch * most, sizeof *a->weights);
    a->rows = mem_zalloc(batch * most, sizeof *a->rows);
    a->tokens = mem_zalloc(batch * most, sizeof *a->tokens);
    a->point = mem_zalloc(batch, sizeof *a->point);
    if (!a->out || !a->row || !a->carried || !a->weights || !a->rows || !a->tokens || !a->point)
        return ST_NOMEM;
    if (!walks(a)) return ST_OK;
    a->step_count = model_rollout_count(a->model);
    a->steps = mem_zalloc((size_t)a->step_count, sizeof *a->steps);
    if (!a->steps) return ST_NOMEM;
    model_rollout_steps(a->model, a->capture.head_rows, a->steps);
    return rollout_work_init(&a->work, a->steps, a->step_count);
}

static enum status open_gradient(struct attention_maps *a) {
    const char *classes = a->options.classes;
    TRY(class_list_find(classes ? classes : "top", a->model, &a->classes));
    a->batch = a->classes.count;
    return model_gradient_open(&a->gradient, a->options.backward, a->batch);
}

static enum status open_all(struct attention_maps *a) {
    const size_t depth = (size_t)a->depth;
    int heads = 1;
    if (is_gradient(a)) TRY(open_gradient(a));
    a->wanted = mem_zalloc(depth, sizeof *a->wanted);
    a->layers = mem_zalloc(depth, sizeof *a->layers);
    a->groups = mem_zalloc(depth, sizeof *a->groups);
    a->order = mem_zalloc(depth, sizeof *a->order);
    if (!a->wanted || !a->layers || !a->groups || !a->order) return ST_NOMEM;
    choose_layers(a);
    TRY(check_layers(a));
    TRY(check_query(a));
    for (int l = 0; l < a->depth; l++) {
        const struct attention_shape shape = model_attention_shape(a->model, l, false);
        if (shape.heads > heads) heads = shape.heads;
    }
    a->heads = mem_zalloc((size_t)heads, sizeof *a->heads);
    if (!a->heads) return ST_NOMEM;
    for (int h = 0; h < heads; h++)
        a->heads[h] = h;
    for (int l = 0; l < a->depth; l++)
        TRY(open_layer(a, l));
    a->capture.take = take;
    a->capture.context = a;
    return open_results(a);
}

enum status attention_open(struct attention_maps *out, const struct model *model,
                           const struct attention_options *options) {
    enum status st;
    *out = (struct attention_maps){.model = model,
                                   .options = *options,
                                   .batch = model->batch,
                                   .depth = model_attention_layers(model)};
    st = open_all(out);
    if (st != ST_OK) attention_release(out);
    return st;
}

void attention_release(struct attention_maps *a) {
    for (int l = 0; a->layers && l < a->depth; l++)
        mem_free(a->layers[l].values);
    rollout_work_release(&a->work);
    mem_free(a->wanted);
    mem_free(a->layers);
    mem_free(a->steps);
    mem_free(a->row);
    mem_free(a->carried);
    model_gradient_release(&a->gradient);
    mem_free(a->weights);
    mem_free(a->rows);
    mem_free(a->tokens);
    mem_free(a->point);
    mem_free(a->groups);
    mem_free(a->order);
    mem_free(a->heads);
    mem_free(a->out);
    *a = (struct attention_maps){0};
}

/* ---- an image -------------------------------------------------------------------------------- */

enum status attention_place(struct attention_maps *a, int i, const struct pipeline_item *item) {
    const struct placement *place = &item->placement;
    const double h = a->model->preprocess.height, w = a->model->preprocess.width;
    const double x = a->options.focus.x, y = a->options.focus.y;
    double down, across;
    a->point[i][0] = a->point[i][1] = 0;
    if (a->options.focus.query != QUERY_PIXEL) return ST_OK;
    if (x + 0.5 >= item->width || y + 0.5 >= item->height)
        return fail(ST_USAGE, "it has no pixel %g,%g: it is %d wide and %d high", x, y, item->width,
                    item->height);
    across = (x + 0.5) * place->resized_w / item->width - place->x;
    down = (y + 0.5) * place->resized_h / item->height - place->y;
    if (across < 0 || across >= w || down < 0 || down >= h)
        return fail(ST_USAGE, "the pixel %g,%g is cropped away before the model sees the picture",
                    x, y);
    a->point[i][0] = down / h;
    a->point[i][1] = across / w;
    return ST_OK;
}

/* a->row = where the walk starts. */
static void start_row(struct attention_maps *a, int i) {
    const struct attention_shape *last = &a->steps[a->step_count - 1].shape;
    weigh(a, last, i, a->row);
    if (!uses_pool(a)) return;
    for (int p = 0; p < a->layers[a->depth - 1].shape.keys; p++)
        a->row[last->prefix + p] =
            (double)a->layers[a->depth - 1]
                .values[(size_t)i * a->layers[a->depth - 1].floats + (size_t)p];
}

/* The steps with what is kept of image i (-1: nothing, so that each is M = I), from the last. */
static void walk(struct attention_maps *a, int i, const struct rollout_rule *rule, double *row) {
    for (int s = 0; s < a->step_count; s++) {
        const int layer = a->steps[s].layer;
        const struct kept *kept = layer < 0 || i < 0 ? NULL : &a->layers[layer];
        a->steps[s].fused = kept && kept->values ? kept->values + (size_t)i * kept->floats : NULL;
    }
    rollout_walk(a->steps, a->step_count, rule, &a->work, row);
}

static enum status compute_rollout(struct attention_maps *a, int i) {
    const struct attention_options *o = &a->options;
    const struct rollout_rule rule = {.residual = o->residual,
                                      .discard = o->discard,
                                      .keep_first = a->model->class_token,
                                      .relevance = is_gradient(a)};
    start_row(a, i);
    memcpy(a->carried, a->row, (size_t)a->most * sizeof *a->row);
    walk(a, i, &rule, a->row);
    if (is_gradient(a) && !uses_pool(a)) { // the pool's own row is relevance already
        walk(a, -1, &rule, a->carried);
        for (int t = 0; t < a->most; t++) // NaN stays
            a->row[t] = a->row[t] <= a->carried[t] ? 0 : a->row[t] - a->carried[t];
    }
    if (rollout_map(&a->steps[0].shape, a->row, a->out) || o->empty) return ST_OK;
    if (is_gradient(a))
        return fail(ST_FORMAT, "no attention to its patches speaks for class %d", a->class[i]);
    return fail(ST_FORMAT, "the rollout leaves nothing on its patches");
}

enum status attention_relevance(struct attention_maps *a, const struct pipeline_item *item,
                                const uint8_t *pixels, const float *logits) {
    if (!all_finite(logits, (size_t)a->model->classes)) return fail(ST_FORMAT, "%s", NOT_FINITE);
    for (int i = 0; i < a->batch; i++)
        TRY(attention_place(a, i, item));
    class_list_of(&a->classes, logits, a->model->classes, a->class);
    return model_gradient_run(&a->gradient, pixels, a->class, a->batch, &a->capture);
}

/* out (heads, T, T or slots) = a layer's matrices, those of windows token by token. */
static void spread_windows(struct attention_maps *a, int i, const struct kept *kept, float *out) {
    const struct attention_shape *shape = &kept->shape;
    const size_t T = (size_t)attention_shape_tokens(shape);
    const float *row = kept->values + (size_t)i * kept->floats;
    const size_t keys = a->options.slots ? (size_t)shape->keys : T;
    memset(out, 0, (size_t)kept->heads * T * keys * sizeof *out);
    for (int h = 0; h < kept->heads; h++, out += T * keys)
        for (int w = 0; w < shape->windows; w++) {
            attention_shape_window(shape, w, a->tokens);
            for (int q = 0; q < shape->queries; q++, row += shape->keys)
                for (int k = 0; a->tokens[q] >= 0 && k < shape->keys; k++)
                    if (a->tokens[k] >= 0)
                        out[(size_t)a->tokens[q] * keys +
                            (size_t)(a->options.slots ? k : a->tokens[k])] = row[k];
        }
}

int attention_arrays(const struct attention_maps *a) {
    return a->group_count;
}

size_t attention_array_elements(const struct attention_array *array) {
    return array->dims[0] * array->dims[1] * array->dims[2] * array->dims[3];
}

enum status attention_compute(struct attention_maps *a, int i, int n, struct attention_array *out) {
    describe_array(a, n, out);
    if (walks(a)) TRY(compute_rollout(a, is_gradient(a) ? n : i));
    for (size_t l = 0; !walks(a) && l < out->dims[0]; l++) {
        const struct kept *kept = &a->layers[out->layers[l]];
        if (all_queries(a))
            spread_windows(a, i, kept, out->values);
        else
            memcpy(out->values + l * kept->floats, kept->values + (size_t)i * kept->floats,
                   kept->floats * sizeof *out->values);
    }
    if (!all_finite(out->values, attention_array_elements(out)))
        return fail(ST_FORMAT, "%s", NOT_FINITE);
    return ST_OK;
}
