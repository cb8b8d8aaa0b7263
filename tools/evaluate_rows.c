/* evaluate_rows: the file of rows of `vitrine evaluate`; see evaluate.h. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/evaluate.h"
#include "weights/sha256.h"

/* ---- what the rows are of -------------------------------------------------------------------- */

static void put_preprocess(cJSON *head, const struct preprocess *rule) {
    char text[512];
    snprintf(text, sizeof text,
             "%dx%d %s %s %.17g rounding %d mean %.9g,%.9g,%.9g std "
             "%.9g,%.9g,%.9g",
             rule->height, rule->width, filter_name(rule->interpolation),
             crop_mode_name(rule->crop_mode), rule->crop_pct, (int)rule->rounding, rule->mean[0],
             rule->mean[1], rule->mean[2], rule->std[0], rule->std[1], rule->std[2]);
    cJSON_AddStringToObject(head, "preprocess", text);
}

static void put_pictures(cJSON *head, const struct run_options *run) {
    char text[96];
    snprintf(text, sizeof text, "exif %s, alpha %s %d,%d,%d, max-pixels %zu",
             run->exif == RUN_EXIF_APPLY ? "apply" : "ignore",
             run->alpha.composite ? "over" : "drop", run->alpha.background[0],
             run->alpha.background[1], run->alpha.background[2], run->max_pixels);
    cJSON_AddStringToObject(head, "pictures", text);
}

/* The bytes of a file by their checksum, so that it may lie elsewhere the next time. */
static enum status put_file(cJSON *head, const char *name, const char *file) {
    char hex[65];
    if (!file) return ST_OK;
    if (class_map_is_builtin(file))
        snprintf(hex, sizeof hex, "%s", file);
    else
        TRY(sha256_file(file, hex));
    cJSON_AddStringToObject(head, name, hex);
    return ST_OK;
}

/* e->head = the object as one line. */
static enum status keep_head(struct evaluate *e, const cJSON *head) {
    char *text = cJSON_PrintUnformatted(head);
    e->head = text ? str_copy(text) : NULL;
    cJSON_free(text);
    return e->head ? ST_OK : fail(ST_NOMEM, "no memory for the head of the rows");
}

/* The first line of the row file: what must be equal for rows to belong to one run. */
static enum status make_head(struct evaluate *e) {
    const struct evaluate_options *o = &e->o;
    cJSON *head = cJSON_CreateObject();
    enum status st;
    cJSON_AddNumberToObject(head, "topk", e->topk);
    cJSON_AddNumberToObject(head, "classes", e->model.classes);
    cJSON_AddStringToObject(head, "model_sha256", e->sha256);
    cJSON_AddStringToObject(head, "precision", backend_precision(e->model.replicas[0].backend));
    put_preprocess(head, &e->model.preprocess);
    put_pictures(head, &o->run);
    cJSON_AddStringToObject(head, "dataset", dataset_identity(e->dataset));
    if (o->limit) cJSON_AddNumberToObject(head, "limit", (double)o->limit);
    if (o->seed >= 0) cJSON_AddNumberToObject(head, "shuffle_seed", o->seed);
    if (o->shard.count) {
        cJSON_AddNumberToObject(head, "shard", o->shard.index);
        cJSON_AddNumberToObject(head, "shards", o->shard.count);
    }
    st = put_file(head, "labels", o->labels);
    if (st == ST_OK) st = put_file(head, "class_map", o->class_map);
    if (st == ST_OK) st = put_file(head, "classes_subset", o->subset);
    if (st == ST_OK) st = keep_head(e, head);
    cJSON_Delete(head);
    return st;
}

/* ---- going on -------------------------------------------------------------------------------- */

uint64_t evaluate_name(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *number = strrchr(name, '#');
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *at = number ? number : name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash;
}

static enum status keep_name(struct evaluate *e, const char *path) {
    void *names = e->names;
    enum status st = mem_grow(&names, &e->name_capacity, e->name_count + 1, sizeof *e->names);
    e->names = names;
    if (st == ST_OK) e->names[e->name_count++] = evaluate_name(path);
    return st;
}

/* Adds up what the row file holds; *end = where it goes on. Heads must agree. */
static enum status take_rows(struct evaluate *e, struct predictions_reader *reader) {
    const struct prediction *row;
    if (!reader->head) return ST_OK;
    TRY(predictions_compare(reader->path, reader->head, e->head));
    for (;;) {
        TRY(predictions_read(reader, e->model.classes, &row));
        if (!row) break;
        TRY(evaluation_add(&e->evaluation, row));
        TRY(keep_name(e, row->path));
    }
    e->skip = reader->images;
    return ST_OK;
}

enum status evaluate_open_rows(struct evaluate *e) {
    const char *path = e->o.predictions;
    struct predictions_reader reader;
    bool begun;
    uint64_t end;
    enum status st;
    TRY(make_head(e));
    if (!path || e->ranks.index > 0) return ST_OK;
    if (!e->o.resume || access(path, F_OK) != 0) return predictions_create(&e->rows, path, e->head);
    TRY(predictions_read_open(&reader, path));
    st = take_rows(e, &reader);
    begun = reader.head != NULL;
    end = reader.end;
    predictions_read_close(&reader);
    TRY(st);
    if (!e->o.run.quiet) cli_say("%s: %zu images are there already", path, e->skip);
    return begun ? predictions_continue(&e->rows, path, end)
                 : predictions_create(&e->rows, path, e->head);
}

/* ---- merging --------------------------------------------------------------------------------- */

/* The shards of one run, each in its place. */
struct merge {
    struct predictions_reader *readers; /* (count) as named */
    struct predictions_reader **shard;  /* (count) by shard */
    int count;
    cJSON *head; /* of the run: a shard's without what is its own */
};

static int int_member(const cJSON *head, const char *name, int otherwise) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(head, name);
    return cJSON_IsNumber(item) ? item->valueint : otherwise;
}

/* One file into its place. */
static enum status place_shard(struct merge *m, struct predictions_reader *r) {
    cJSON *head = r->head ? cJSON_Parse(r->head) : NULL;
    const int index = int_member(head, "shard", 0), shards = int_member(head, "shards", 1);
    enum status st = ST_OK;
    char *one, *other;
    if (!head) return fail(ST_FORMAT, "%s: holds no row", r->path);
    cJSON_DeleteItemFromObjectCaseSensitive(head, "shard");
    cJSON_DeleteItemFromObjectCaseSensitive(head, "shards");
    if (shards != m->count || index < 0 || index >= shards)
        st = fail(ST_USAGE, "%s: is shard %d of %d, but %d files are given", r->path, index, shards,
                  m->count);
    else if (m->shard[index])
        st = fail(ST_USAGE, "%s: is shard %d, as %s is", r->path, index, m->shard[index]->path);
    else if (r->format != m->readers->format)
        st = fail(ST_USAGE, "%s: is of another form than %s", r->path, m->readers->path);
    if (st == ST_OK && m->head) {
        one = cJSON_PrintUnformatted(head);
        other = cJSON_PrintUnformatted(m->head);
        st = one && other ? predictions_compare(r->path, one, other) : ST_NOMEM;
        cJSON_free(one);
        cJSON_free(other);
    }
    if (st == ST_OK) m->shard[index] = r;
    if (st == ST_OK && !m->head)
        m->head = head;
    else
        cJSON_Delete(head);
    return st;
}

static enum status not_finished(const struct predictions_reader *r) {
    return fail(ST_FORMAT,
                "%s: is not finished: its run did not come to its end after %zu images; --resume "
                "completes it",
                r->path, r->images);
}

/* Image by image, round the shards; where one ends all the others must. */
static enum status merge_rows(struct evaluate *e, struct merge *m) {
    const struct prediction *row;
    for (uint64_t n = 0;; n++) {
        struct predictions_reader *r = m->shard[n % (uint64_t)m->count];
        TRY(predictions_read(r, e->model.classes, &row));
        if (r->cut)
            return fail(ST_FORMAT, "%s: ends within image %zu; --resume completes it", r->path,
                        r->images + 1);
        if (!row && !r->complete) return not_finished(r);
        if (!row) break;
        TRY(evaluation_add(&e->evaluation, row));
        if (e->rows.file) fwrite(row->raw, 1, row->raw_size, e->rows.file);
    }
    for (int i = 0; i < m->count; i++) {
        struct predictions_reader *r = m->shard[i];
        TRY(predictions_read(r, e->model.classes, &row));
        if (row)
            return fail(ST_FORMAT, "%s: has more rows than the shards before it allow", r->path);
        if (!r->complete)
            return fail(ST_FORMAT,
                        "%s: is not finished: its run did not come to its end after "
                        "%zu images; --resume completes it",
                        r->path, r->images);
    }
    return e->rows.file ? predictions_flush(&e->rows) : ST_OK;
}

static enum status merge_files(struct evaluate *e, struct merge *m, const struct cli_args *files) {
    const char *sha256;
    for (int i = 0; i < m->count; i++)
        TRY(predictions_read_open(&m->readers[i], files->items[i]));
    for (int i = 0; i < m->count; i++)
        TRY(place_shard(m, &m->readers[i]));
    sha256 = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m->head, "model_sha256"));
    if (!sha256 || strcmp(sha256, e->sha256) != 0)
        return fail(ST_USAGE, "%s: are rows of another model than -m %s", m->readers->path,
                    e->o.run.model);
    TRY(keep_head(e, m->head));
    if (e->o.predictions) {
        for (int i = 0; i < m->count; i++)
            TRY(output_check_spares(e->o.predictions, files->items[i]));
        TRY(predictions_create(&e->rows, e->o.predictions, e->head));
        if (e->rows.rows.format != m->readers->format)
            return fail(ST_USAGE, "%s: want the form of %s", e->o.predictions, m->readers->path);
    }
    TRY(merge_rows(e, m));
    e->path = m->readers->path;
    return ST_OK;
}

enum status evaluate_merge(struct evaluate *e, const struct cli_args *files) {
    struct merge m = {.count = files->count};
    enum status st = evaluate_open_model(e);
    m.readers = mem_zalloc((size_t)m.count, sizeof *m.readers);
    m.shard = mem_zalloc((size_t)m.count, sizeof *m.shard);
    if (st == ST_OK && !(m.readers && m.shard)) st = ST_NOMEM;
    if (st == ST_OK) st = merge_files(e, &m, files);
    for (int i = 0; m.readers && i < m.count; i++)
        predictions_read_close(&m.readers[i]);
    cJSON_Delete(m.head);
    mem_free(m.shard);
    mem_free(m.readers);
    return st;
}
