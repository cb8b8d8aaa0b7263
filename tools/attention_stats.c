/* attention_stats: see attention_stats.h. */
#include "tools/attention_stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"
#include "tools/output.h"
#include "tools/rows.h"

/* ---- a head ---------------------------------------------------------------------------------- */

enum { REGIONS = 9 }; /* of window_regions */

/* A window's slots. */
struct window {
    const struct attention_shape *shape;
    const struct attention_stats_room *room;
    int seen[REGIONS]; /* keys of each region */
};

/* Over the queries so far. */
struct sums {
    double entropy, share, prefix;
    double distance; /* of `patches` queries */
    long queries, patches;
};

static void survey(struct window *window, const double pixels[2], int number) {
    const struct attention_shape *shape = window->shape;
    const struct attention_stats_room *room = window->room;
    attention_shape_window(shape, number, room->token);
    if (!shape->windowed || !window_regions(&shape->map, number, room->region))
        memset(room->region, 0, (size_t)shape->keys * sizeof *room->region);
    memset(window->seen, 0, sizeof window->seen);
    for (int k = 0; k < shape->keys; k++) {
        const int patch = room->token[k] - shape->prefix;
        if (room->token[k] >= 0) window->seen[room->region[k]]++;
        if (patch < 0) continue;
        room->y[k] = (float)(patch / shape->map.grid_w * pixels[0]);
        room->x[k] = (float)(patch % shape->map.grid_w * pixels[1]);
    }
}

/* A query's probabilities, row (keys). Returns ln of (those keys' greatest / the row's). */
static double add_query(const struct window *window, int query, const float *row,
                        struct sums *sums) {
    const struct attention_stats_room *room = window->room;
    const int prefix = window->shape->prefix, seen = window->seen[room->region[query]];
    double front = 0, patches = 0, logs = 0, distance = 0, entropy;
    float most = 0, most_seen = 0;
    for (int k = 0; k < window->shape->keys; k++) {
        const float p = row[k];
        most = fmaxf(most, p);
        if (room->token[k] < 0) continue;
        most_seen = fmaxf(most_seen, p);
        if (p > 0) logs += (double)(p * logf(p));
        if (room->token[k] < prefix) {
            front += (double)p;
        } else {
            const float y = room->y[k] - room->y[query], x = room->x[k] - room->x[query];
            patches += (double)p;
            distance += (double)(p * sqrtf(y * y + x * x));
        }
    }
    if (front + patches == 0) return -INFINITY; /* padding has all of it */
    entropy = log(front + patches) - logs / (front + patches);
    if (entropy < 0) entropy = 0;
    sums->queries++;
    sums->entropy += entropy;
    if (seen > 1) sums->share += entropy / log(seen);
    sums->prefix += front / (front + patches);
    if (room->token[query] >= prefix && patches > 0) {
        sums->distance += distance / patches;
        sums->patches++;
    }
    return log((double)most_seen / (double)most);
}

void attention_stats_head(const struct attention_shape *shape, const double pixels[2],
                          const float *probs, const float *greatest, int head,
                          const struct attention_stats_room *room,
                          struct attention_head_stats *out) {
    struct window window = {.shape = shape, .room = room};
    struct sums sums = {0};
    double most = -INFINITY;
    for (int w = 0; w < shape->windows; w++) {
        const size_t queries = (size_t)shape->queries, heads = (size_t)shape->heads;
        const size_t first = ((size_t)w * heads + (size_t)head) * queries;
        survey(&window, pixels, w);
        for (size_t q = 0; q < queries; q++) {
            const float *row = probs + (first + q) * (size_t)shape->keys;
            if (room->token[q] < 0) continue;
            most = fmax(most, (double)greatest[first + q] + add_query(&window, (int)q, row, &sums));
        }
    }
    *out = (struct attention_head_stats){.entropy = sums.entropy / (double)sums.queries,
                                         .share = sums.share / (double)sums.queries,
                                         .distance = sums.distance / (double)sums.patches,
                                         .greatest = most,
                                         .prefix = sums.prefix / (double)sums.queries};
}

/* ---- while the pass runs --------------------------------------------------------------------- */

static struct attention_head_stats *place_of(const struct attention_stats *stats, int i, int layer,
                                             int head) {
    const size_t row = (size_t)i * (size_t)stats->maps->depth + (size_t)layer;
    return stats->heads + row * (size_t)stats->most_heads + head;
}

const struct attention_head_stats *attention_stats_of(const struct attention_stats *stats, int i,
                                                      int layer, int head) {
    return place_of(stats, i, layer, head);
}

/* A block, not an attention pool, that was asked for. */
static bool wants(const struct attention_stats *stats, int layer) {
    return layer < stats->maps->model->depth && stats->maps->wanted[layer];
}

/* The heads that were asked for, NULL = all; *count of them. */
static const int *heads_of(const struct attention_stats *stats, int layer, int *count) {
    const struct attention_heads *heads = &stats->maps->options.heads;
    *count = heads->kind == HEADS_LIST
                 ? heads->list.count
                 : model_attention_shape(stats->maps->model, layer, false).heads;
    return heads->kind == HEADS_LIST ? heads->list.value : NULL;
}

/* The capture's; of a pass on several devices by several threads, an image in one of them. */
static void take(void *context, const struct captured *got) {
    const struct attention_stats *stats = context;
    const struct capture *inner = stats->inner;
    const struct model *model = stats->maps->model;
    const struct attention_shape *shape = &got->shape,
                                 finest = model_attention_shape(model, 0, false);
    const int step = 1 << model_layer_stage(model, got->layer);
    const double pixels[] = {step * (model->preprocess.height / finest.map.grid_h),
                             step * (model->preprocess.width / finest.map.grid_w)};
    int count;
    const int *heads = heads_of(stats, got->layer, &count);
    inner->take(inner->context, got);
    for (int b = 0; wants(stats, got->layer) && b < got->batch; b++)
        for (int h = 0; h < count; h++) {
            const int i = got->first + b, head = heads ? heads[h] : h;
            attention_stats_head(shape, pixels,
                                 got->probs + (size_t)b * attention_shape_floats(shape),
                                 got->greatest + (size_t)b * (size_t)attention_shape_rows(shape),
                                 head, &stats->rooms[i], place_of(stats, i, got->layer, head));
        }
}

static enum status open_all(struct attention_stats *stats) {
    const struct attention_maps *maps = stats->maps;
    const size_t batch = (size_t)maps->batch, most = (size_t)maps->most;
    size_t heads;
    for (int l = 0; l < maps->model->depth; l++) {
        const struct attention_shape shape = model_attention_shape(maps->model, l, false);
        if (shape.heads > stats->most_heads) stats->most_heads = shape.heads;
    }
    heads = batch * (size_t)maps->depth * (size_t)stats->most_heads;
    stats->heads = mem_zalloc(heads, sizeof *stats->heads);
    stats->rooms = mem_zalloc(batch, sizeof *stats->rooms);
    stats->ints = mem_zalloc(batch * 2 * most, sizeof *stats->ints);
    stats->floats = mem_zalloc(batch * 2 * most, sizeof *stats->floats);
    if (!stats->heads || !stats->rooms || !stats->ints || !stats->floats) return ST_NOMEM;
    for (size_t i = 0; i < batch; i++)
        stats->rooms[i] = (struct attention_stats_room){.token = stats->ints + 2 * i * most,
                                                        .region = stats->ints + (2 * i + 1) * most,
                                                        .y = stats->floats + 2 * i * most,
                                                        .x = stats->floats + (2 * i + 1) * most};
    stats->kept_bytes = heads * sizeof *stats->heads +
                        batch * 2 * most * (sizeof *stats->ints + sizeof *stats->floats);
    return ST_OK;
}

enum status attention_stats_open(struct attention_stats *out, const struct attention_maps *maps,
                                 const struct capture *inner, bool quiet) {
    enum status st;
    *out =
        (struct attention_stats){.maps = maps, .inner = inner, .capture = *inner, .quiet = quiet};
    out->capture.scores = true;
    out->capture.take = take;
    out->capture.context = out;
    st = open_all(out);
    if (st != ST_OK) attention_stats_release(out);
    return st;
}

void attention_stats_release(struct attention_stats *stats) {
    mem_free(stats->heads);
    mem_free(stats->rooms);
    mem_free(stats->ints);
    mem_free(stats->floats);
    *stats = (struct attention_stats){0};
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Of an image: how many heads there are, how many of them explode, and the worst. */
struct tally {
    int heads, exploding;
    int layer, head;
    double greatest;
};

static enum status put_head(const struct attention_head_stats *s, int layer, int head, FILE *out,
                            struct tally *tally) {
    const double numbers[] = {s->entropy, s->share, s->distance, s->greatest, s->prefix};
    const bool explodes = s->greatest > ATTENTION_STATS_BOUND;
    char text[48];
    if (!isfinite(s->entropy) || isnan(s->greatest)) return fail(ST_FORMAT, "%s", NOT_FINITE);
    fprintf(out, "%d,%d", layer, head);
    for (size_t n = 0; n < COUNT_OF(numbers); n++)
        fprintf(out, ",%s",
                isnan(numbers[n]) ? "" : rows_score_text((float)numbers[n], "%.9g", text));
    fprintf(out, ",%s\n", explodes ? "exploding" : "");
    tally->heads++;
    tally->exploding += explodes;
    if (tally->heads == 1 || s->greatest > tally->greatest) {
        tally->greatest = s->greatest;
        tally->layer = layer;
        tally->head = head;
    }
    return ST_OK;
}

static enum status put_image(const struct attention_file *file, FILE *out, struct tally *tally) {
    const struct attention_stats *stats = file->stats;
    fputs("layer,head,entropy,entropy_share,distance,greatest,prefix,flag\n", out);
    for (int l = 0; l < stats->maps->model->depth; l++) {
        int count;
        const int *heads = heads_of(stats, l, &count);
        for (int h = 0; wants(stats, l) && h < count; h++) {
            const int head = heads ? heads[h] : h;
            TRY(put_head(place_of(stats, file->image, l, head), l, head, out, tally));
        }
    }
    return ST_OK;
}

enum status attention_stats_save(const struct attention_file *file) {
    char *path = str_format("%s.stats.csv", file->stem);
    struct output out = {0};
    struct tally tally = {0};
    enum status st = path ? output_open(&out, path) : ST_NOMEM;
    out.whole = true;
    if (st == ST_OK) st = put_image(file, out.file, &tally);
    st = output_close(&out, st);
    mem_free(path);
    if (st == ST_OK && tally.exploding && !file->stats->quiet)
        cli_say("%s: scores above %g in %d of %d heads, the greatest, %.1f, in layer %d, head %d",
                file->item->path, ATTENTION_STATS_BOUND, tally.exploding, tally.heads,
                tally.greatest, tally.layer, tally.head);
    return st;
}
