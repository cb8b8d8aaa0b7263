/* evaluation: see evaluation.h. What is told of it: evaluation_print.c. */
#include "tools/evaluation.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <string.h>

#define REAL_LARGEST ((size_t)64 << 20)

enum { REAL_DIGITS = 8 };

enum status evaluation_init(struct evaluation *e, int classes, int bins) {
    *e = (struct evaluation){0};
    return metrics_init(&e->metrics, classes, EVALUATION_TOPK, bins);
}

void evaluation_release(struct evaluation *e) {
    for (size_t i = 0; i < e->fault_count; i++) {
        mem_free(e->faults[i].path);
        mem_free(e->faults[i].message);
    }
    for (int i = 0; i < e->worst_count; i++)
        mem_free(e->worst[i].path);
    mem_free(e->faults);
    mem_free(e->stranger_images);
    texts_release(&e->strangers);
    metrics_release(&e->metrics);
    real_labels_release(&e->real);
    *e = (struct evaluation){0};
}

/* ---- ReaL ------------------------------------------------------------------------------------ */

void real_labels_release(struct real_labels *real) {
    mem_free(real->first);
    mem_free(real->class);
    *real = (struct real_labels){0};
}

static enum status take_real(struct real_labels *real, const cJSON *list, int classes) {
    size_t sets = 0, members = 0;
    const cJSON *set, *member;
    if (!cJSON_IsArray(list)) return fail(ST_FORMAT, "is no JSON array of arrays of classes");
    cJSON_ArrayForEach(set, list) {
        if (!cJSON_IsArray(set)) return fail(ST_FORMAT, "image %zu has no array", sets + 1);
        cJSON_ArrayForEach(member, set) {
            if (!cJSON_IsNumber(member) || !(member->valuedouble >= 0) ||
                !(member->valuedouble < classes))
                return fail(ST_FORMAT, "image %zu: a class that the model's %d do not have",
                            sets + 1, classes);
            members++;
        }
        sets++;
    }
    real->first = mem_zalloc(sets + 1, sizeof *real->first);
    real->class = mem_zalloc(members + 1, sizeof *real->class);
    if (!real->first || !real->class) return ST_NOMEM;
    members = 0;
    cJSON_ArrayForEach(set, list) {
        real->first[real->count++] = (uint32_t)members;
        cJSON_ArrayForEach(member, set) real->class[members++] = member->valueint;
    }
    real->first[real->count] = (uint32_t)members;
    return ST_OK;
}

enum status real_labels_read(struct real_labels *real, const char *path, int classes) {
    uint8_t *bytes;
    size_t size;
    cJSON *list;
    enum status st;
    *real = (struct real_labels){0};
    TRY(file_read_regular(path, REAL_LARGEST, &bytes, &size));
    list = cJSON_ParseWithLength((const char *)bytes, size);
    mem_free(bytes);
    st = take_real(real, list, classes);
    cJSON_Delete(list);
    if (st == ST_OK) return ST_OK;
    real_labels_release(real);
    return st == ST_NOMEM ? st : fail_prefix(st, path);
}

/* The number before the suffix of the name, "ILSVRC2012_val_00000293.JPEG"; 0 = none. */
static size_t image_number(const char *path) {
    const char *name = strrchr(path, '/'), *dot, *at;
    size_t number = 0;
    name = name ? name + 1 : path;
    dot = strrchr(name, '.');
    at = dot ? dot : name + strlen(name);
    if (at - name < REAL_DIGITS) return 0;
    for (at -= REAL_DIGITS; at != dot && *at; at++) {
        if (!isdigit((unsigned char)*at)) return 0;
        number = number * 10 + (size_t)(*at - '0');
    }
    return number;
}

static void add_real(struct evaluation *e, const struct prediction *row) {
    const size_t number = e->real.count ? image_number(row->path) : 0;
    uint32_t begin, end;
    bool hit = false;
    if (number == 0 || number > e->real.count) return;
    begin = e->real.first[number - 1];
    end = e->real.first[number];
    if (begin == end) return; /* none of the classes: left out, as the authors do */
    for (uint32_t i = begin; i < end; i++)
        hit = hit || e->real.class[i] == row->best;
    e->real_images++;
    e->real_hits += hit;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static enum status add_fault(struct evaluation *e, const struct prediction *row) {
    void *faults = e->faults;
    struct evaluation_fault *fault;
    enum status st;
    e->failed++;
    if (e->fault_count == EVALUATION_FAULTS) return ST_OK;
    st = mem_grow(&faults, &e->fault_capacity, e->fault_count + 1, sizeof *fault);
    e->faults = faults;
    if (st != ST_OK) return st;
    fault = &e->faults[e->fault_count++];
    fault->path = str_copy(row->path);
    fault->message = str_copy(row->message);
    return fault->path && fault->message ? ST_OK : ST_NOMEM;
}

static enum status add_stranger(struct evaluation *e, const char *text) {
    void *images = e->stranger_images;
    size_t number;
    enum status st;
    TRY(texts_add(&e->strangers, text, &number));
    st = mem_grow(&images, &e->stranger_capacity, e->strangers.count, sizeof *e->stranger_images);
    e->stranger_images = images;
    if (st != ST_OK) return st;
    e->stranger_images[number]++;
    e->unmatched++;
    return ST_OK;
}

/* Sorted by confidence; of equal ones the first that came stays in front. */
static enum status add_error(struct evaluation *e, const struct prediction *row) {
    struct evaluation_error fresh = {
        .target = row->target, .best = row->best, .confidence = row->confidence};
    int at = e->worst_count;
    if (at == EVALUATION_WORST && !(row->confidence > e->worst[at - 1].confidence)) return ST_OK;
    fresh.path = str_copy(row->path);
    if (!fresh.path) return ST_NOMEM;
    if (at == EVALUATION_WORST)
        mem_free(e->worst[--at].path);
    else
        e->worst_count++;
    for (; at > 0 && row->confidence > e->worst[at - 1].confidence; at--)
        e->worst[at] = e->worst[at - 1];
    e->worst[at] = fresh;
    return ST_OK;
}

enum status evaluation_add(struct evaluation *e, const struct prediction *row) {
    const struct outcome outcome = {.target = row->target,
                                    .best = row->best,
                                    .rank = row->rank,
                                    .confidence = row->confidence,
                                    .target_prob = row->target_score};
    e->images++;
    if (row->message) return add_fault(e, row);
    add_real(e, row);
    if (row->target < 0) return add_stranger(e, row->target_label);
    if (row->target != row->best) TRY(add_error(e, row));
    return metrics_add(&e->metrics, &outcome);
}
