/*
 * convert: values and writing. Tensors go one at a time from the mapping through one fp32 buffer
 * into the file, transposed where the origin lays them out otherwise (layout.h), so the memory
 * needed is that of the largest tensor.
 */
#include "weights/convert.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "weights/temporary.h"
#include "weights/convert_plan.h"

#define CHECK_CHUNK ((size_t)16384) /* elements widened at a time */

const char *convert_arch_name(size_t index) {
    const struct architecture *arch = architecture_at(index);
    return arch ? arch->name : NULL;
}

/* From here on a value rounds to infinity: half a step beyond the largest of fp16 and of bf16. */
static float largest(enum dtype dtype) {
    return dtype == DT_F16 ? 65520.0f : dtype == DT_BF16 ? 3.39617752923046e38f : INFINITY;
}

static enum status check_tensor(struct plan *plan, const struct tensor *tensor, float *chunk) {
    const float limit = largest(plan->options->dtype);
    const size_t count = tensor_count(tensor), size = dtype_size(tensor->dtype);
    size_t broken = 0, beyond = 0;
    for (size_t at = 0; at < count; at += CHECK_CHUNK) {
        size_t n = count - at < CHECK_CHUNK ? count - at : CHECK_CHUNK;
        TRY(tensor_to_f32(tensor->data + at * size, tensor->dtype, n, chunk));
        for (size_t i = 0; i < n; i++) {
            broken += !isfinite(chunk[i]);
            beyond += isfinite(chunk[i]) && fabsf(chunk[i]) >= limit;
        }
    }
    if (broken)
        problems_add(&plan->problems, "%s has %zu values of %zu that are not finite", tensor->name,
                     broken, count);
    if (beyond)
        problems_add(&plan->problems, "%s has %zu values beyond the range of %s", tensor->name,
                     beyond, dtype_name(plan->options->dtype));
    return ST_OK;
}

enum status plan_check_values(struct plan *plan) {
    float *chunk = mem_zalloc(CHECK_CHUNK, sizeof *chunk);
    enum status st = chunk ? ST_OK : ST_NOMEM;
    for (size_t i = 0; st == ST_OK && i < plan->out->output_count; i++) {
        const struct conversion_tensor *t = &plan->out->outputs[i];
        for (int p = 0; st == ST_OK && p < t->parts; p++)
            st = check_tensor(plan, t->part[p], chunk);
    }
    mem_free(chunk);
    return st;
}

static size_t output_count(const struct conversion_tensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->rank; i++)
        count *= t->dims[i]; /* parts of one file: fits */
    return count;
}

/* dst (output_count) in fp32, in canonical order. */
static enum status fill(const struct conversion_tensor *t, float *dst) {
    size_t filled = 0;
    for (int p = 0; p < t->parts; p++) {
        size_t skip = p == 0 ? t->skip : 0, count = tensor_count(t->part[p]) - skip;
        if (t->parts == 1) count = output_count(t);
        TRY(layout_read(t->part[p], t->layout[p], skip, count, dst + filled));
        filled += count;
        if (p > 0 || !t->no_key) continue;
        memset(dst + filled, 0, count * sizeof *dst);
        filled += count;
    }
    for (size_t i = 0; t->add && i < filled; i++) {
        float value;
        TRY(layout_read(t->add, LAYOUT_SAME, i, 1, &value));
        dst[i] += value;
    }
    return ST_OK;
}

static enum status write_tensor(struct h5 *file, const struct conversion_tensor *t,
                                enum dtype dtype, float *wide, uint16_t *narrow) {
    const size_t count = output_count(t);
    char path[NAME_MAX_LENGTH + 16];
    const void *data = wide;
    TRY(fill(t, wide));
    if (dtype == DT_F16) f32_to_f16(wide, count, narrow);
    if (dtype == DT_BF16) f32_to_bf16(wide, count, narrow);
    if (dtype != DT_F32) data = narrow;
    snprintf(path, sizeof path, "/parameters/%s", t->name);
    return h5_write(file, path, dtype, t->rank, t->dims, data);
}

static enum status write_tensors(struct h5 *file, const struct conversion *c, enum dtype dtype) {
    size_t most = 1;
    enum status st = ST_NOMEM;
    for (size_t i = 0; i < c->output_count; i++) {
        if (output_count(&c->outputs[i]) > most) most = output_count(&c->outputs[i]);
    }
    float *wide = mem_zalloc(most, sizeof *wide);
    uint16_t *narrow = mem_zalloc(dtype == DT_F32 ? 1 : most, sizeof *narrow);
    if (wide && narrow) st = h5_make_group(file, "/parameters");
    for (size_t i = 0; st == ST_OK && i < c->output_count; i++)
        st = write_tensor(file, &c->outputs[i], dtype, wide, narrow);
    mem_free(wide);
    mem_free(narrow);
    return st;
}

char *convert_model_name(const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 3 && strcmp(base + length - 3, ".h5") == 0) length -= 3;
    char *stem = str_format("%.*s", (int)length, base), *name = stem ? str_printable(stem) : NULL;
    mem_free(stem);
    return name;
}

static enum status write_model(struct h5 *file, const struct convert_options *options,
                               const struct conversion *c, const char *path) {
    struct model_info info = c->info;
    char *name = info.name ? NULL : convert_model_name(path);
    enum status st = ST_NOMEM;
    if (!info.name) info.name = name;
    if (info.name) st = model_info_write(file, &info);
    mem_free(name);
    TRY(st);
    TRY(c->family->write(file, c));
    TRY(preprocess_spec_write(file, &c->preprocess));
    if (options->label_count)
        TRY(labels_group_write(file, options->label_count, options->label_ids,
                               options->label_names));
    else if (c->label_count)
        TRY(labels_group_write(file, c->label_count, (const char *const *)c->label_names,
                               (const char *const *)c->label_names));
    return write_tensors(file, c, options->dtype);
}

enum status convert_write(const struct checkpoint *checkpoint,
                          const struct convert_options *options,
                          const struct conversion *conversion, const char *path) {
    struct h5 *file = NULL;
    enum status st, closed;
    char *part;
    if (options->label_count && options->label_count != conversion->classes)
        return fail(ST_USAGE, "%s: %d labels for a model of %d classes", checkpoint->weights_path,
                    options->label_count, conversion->classes);
    if (options->dtype != DT_F32 && options->dtype != DT_F16 && options->dtype != DT_BF16)
        return fail(ST_USAGE, "%s: a model is written as fp32, fp16 or bf16, not %s", path,
                    dtype_name(options->dtype));
    part = str_format("%s.part-%ld", path, (long)getpid());
    if (!part) return ST_NOMEM;
    temporary_add(part);
    st = h5_create(part, &file);
    if (st == ST_OK) {
        st = write_model(file, options, conversion, path);
        if (st == ST_OK) {
            st = h5_close(&file);
        } else {
            char *sentence =
                str_copy(fail_message()); /* closing a broken file must not replace the reason */
            closed = h5_close(&file);
            if (closed != ST_OK && sentence) (void)fail(st, "%s", sentence);
            mem_free(sentence);
        }
    }
    if (st == ST_OK && rename(part, path) != 0) st = fail(ST_IO, "%s: %s", path, strerror(errno));
    if (st != ST_OK) unlink(part);
    temporary_forget(part);
    mem_free(part);
    return st;
}

void conversion_release(struct conversion *conversion) {
    for (size_t i = 0; i < conversion->row_count; i++) {
        mem_free(conversion->rows[i].source);
        mem_free(conversion->rows[i].target);
        mem_free(conversion->rows[i].reason);
    }
    for (int i = 0; i < conversion->label_count; i++)
        mem_free(conversion->label_names[i]);
    mem_free(conversion->label_names);
    mem_free(conversion->rows);
    mem_free(conversion->outputs);
    model_info_release(&conversion->info);
    memset(conversion, 0, sizeof *conversion);
}
