/* params: see params.h. */
#include "weights/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP "/parameters"

/* A sentence is cut at 1023 bytes: what does not fit into this is counted, not listed. */
#define MAX_LISTED     20
#define MAX_LIST_BYTES 800

/* Notes "name: words". Every problem counts; the first ones are listed. */
static void note(struct params *params, const char *name, const char *words) {
    const char *old = params->problems ? params->problems : "";
    if (params->problem_count++ < MAX_LISTED &&
        strlen(old) + strlen(name) + strlen(words) < MAX_LIST_BYTES) {
        char *text = str_format("%s%s%s %s", old, *old ? "; " : "", name, words);
        if (!text) return;
        mem_free(params->problems);
        params->problems = text;
        params->listed++;
    }
}

enum status params_open(struct params *params, struct h5 *file) {
    memset(params, 0, sizeof *params);
    params->file = file;
    TRY(h5_list(file, GROUP, &params->datasets, &params->count));
    params->used = mem_zalloc(params->count, sizeof *params->used);
    if (params->used) return ST_OK;
    h5_free_datasets(params->datasets, params->count);
    memset(params, 0, sizeof *params);
    return ST_NOMEM;
}

enum status params_announced(const struct params *params, double count) {
    const double slack = 1 << 24;
    double stored = 0;
    for (size_t i = 0; i < params->count; i++) {
        double size = 1;
        for (int d = 0; d < params->datasets[i].rank; d++)
            size *= (double)params->datasets[i].dims[d];
        stored += size;
    }
    if (count <= 4.0 * stored + slack) return ST_OK;
    return fail(ST_SHAPE, "%s: /config announces %.0f parameters, " GROUP " holds %.0f",
                h5_name(params->file), count, stored);
}

static int by_name(const void *name, const void *dataset) {
    return strcmp(name, ((const struct h5_dataset *)dataset)->name);
}

static const struct h5_dataset *find(const struct params *params, const char *name) {
    return params->count
               ? bsearch(name, params->datasets, params->count, sizeof *params->datasets, by_name)
               : NULL;
}

bool params_has(const struct params *params, const char *name) {
    return find(params, name) != NULL;
}

/*
 * Whether the dataset is there with exactly these dims; marks it as asked for, notes what is
 * wrong.
 */
static const struct h5_dataset *expect(struct params *params, const char *name, const size_t *dims,
                                       int rank) {
    const struct h5_dataset *found = find(params, name);
    char want[200], have[200], words[440];
    if (!found) {
        snprintf(words, sizeof words, "%s is missing", shape_text(dims, rank, want, sizeof want));
        note(params, name, words);
        return NULL;
    }
    params->used[found - params->datasets] = true;
    if (found->rank == rank && memcmp(found->dims, dims, (size_t)rank * sizeof *dims) == 0)
        return found;
    snprintf(words, sizeof words, "is %s, expected %s",
             shape_text(found->dims, found->rank, have, sizeof have),
             shape_text(dims, rank, want, sizeof want));
    note(params, name, words);
    return NULL;
}

/* dst (rows, count / rows) times the scale of each row. */
static enum status apply_scales(const char *path, float *dst, const float *scales, size_t rows,
                                size_t count) {
    const size_t columns = count / rows;
    for (size_t r = 0; r < rows; r++) {
        if (!isfinite(scales[r])) return fail(ST_FORMAT, "%s: scale %zu is not finite", path, r);
        for (size_t i = 0; i < columns; i++)
            dst[r * columns + i] *= scales[r];
    }
    return ST_OK;
}

/*
 * The bytes go into the last quarter of dst and are widened from there; scales (rows). *scaled:
 * whether the scales are there; without them dst is zeroed.
 */
static enum status read_int8(struct params *params, const char *name, const char *path, float *dst,
                             float *scales, size_t rows, size_t count, bool *scaled) {
    char *scale = str_format("%s.scale", name), *scale_path = str_format("%s.scale", path);
    uint8_t *tail = (uint8_t *)dst + 3 * count;
    enum status st = scale && scale_path ? ST_OK : ST_NOMEM;
    if (st == ST_OK && !expect(params, scale, &rows, 1)) {
        memset(dst, 0, count * sizeof *dst);
        goto out;
    }
    if (st == ST_OK) st = h5_read_f32(params->file, scale_path, scales, rows);
    if (st == ST_OK) st = h5_read_raw(params->file, path, DT_I8, tail, count);
    if (st == ST_OK) st = tensor_to_f32(tail, DT_I8, count, dst);
    if (st == ST_OK) st = apply_scales(path, dst, scales, rows, count);
    *scaled = st == ST_OK;
out:
    mem_free(scale);
    mem_free(scale_path);
    return st;
}

/* scales NULL: nobody wants to know them. *scaled: whether the tensor is int8, and has them. */
static enum status read_tensor(struct params *params, const struct h5_dataset *dataset,
                               const char *path, float *dst, float *scales, size_t count,
                               bool *scaled) {
    const size_t rows = dataset->rank ? dataset->dims[0] : 1;
    if (dataset->dtype == DT_I8 && count > 0) {
        float *own = scales ? NULL : mem_zalloc(rows, sizeof *own);
        enum status st = scales || own ? ST_OK : ST_NOMEM;
        if (st == ST_OK)
            st = read_int8(params, dataset->name, path, dst, scales ? scales : own, rows, count,
                           scaled);
        mem_free(own);
        return st;
    }
    if (dataset->dtype == DT_F32 || dataset->dtype == DT_F16 || dataset->dtype == DT_BF16)
        return h5_read_f32(params->file, path, dst, count);
    return fail(ST_SHAPE, "%s: is %s, expected fp32, fp16, bf16 or int8", path,
                dtype_name(dataset->dtype));
}

/* A failed read: its sentence without the names that the list's head and this entry give anyway. */
static void note_failure(struct params *params, const char *name, const char *path) {
    char words[400];
    const char *message = fail_message(), *at = strstr(message, path);
    if (at && strncmp(at + strlen(path), ": ", 2) == 0) message = at + strlen(path) + 2;
    snprintf(words, sizeof words, "%s", message);
    note(params, name, words);
}

bool params_get_scales(struct params *params, float *dst, float *scales, const int *dims, int rank,
                       const char *name) {
    const struct h5_dataset *dataset;
    bool scaled = false;
    size_t sizes[TENSOR_MAX_RANK], count = 1;
    for (int i = 0; i < rank; i++) {
        sizes[i] = (size_t)dims[i];
        count *= sizes[i];
    }
    dataset = expect(params, name, sizes, rank);
    if (dataset) {
        char *path = str_format(GROUP "/%s", name);
        enum status st =
            path ? read_tensor(params, dataset, path, dst, scales, count, &scaled) : ST_NOMEM;
        if (st != ST_OK) note_failure(params, name, path ? path : name);
        mem_free(path);
        if (st == ST_OK) {
            params->elements += count;
            return scaled;
        }
    }
    memset(dst, 0, count * sizeof *dst);
    return false;
}

void params_get(struct params *params, float *dst, const int *dims, int rank, const char *name) {
    (void)params_get_scales(params, dst, NULL, dims, rank, name);
}

static void note_unused(struct params *params) {
    for (size_t i = 0; i < params->count; i++) {
        if (!params->used[i]) note(params, params->datasets[i].name, "is unexpected");
    }
}

enum status params_close(struct params *params) {
    enum status st = ST_OK;
    if (params->file) note_unused(params);
    if (params->problem_count > 0) {
        char more[64] = "";
        size_t left = params->problem_count - params->listed;
        if (left > 0) snprintf(more, sizeof more, "; and %zu more", left);
        st = fail(ST_SHAPE, "%s: " GROUP ": %zu problem%s: %s%s", h5_name(params->file),
                  params->problem_count, params->problem_count == 1 ? "" : "s",
                  params->problems ? params->problems : "", more);
    }
    h5_free_datasets(params->datasets, params->count);
    mem_free(params->used);
    mem_free(params->problems);
    memset(params, 0, sizeof *params);
    return st;
}
