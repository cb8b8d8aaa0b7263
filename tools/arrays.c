/* arrays: see arrays.h. The .npy layout is NumPy's format 1.0 (numpy/lib/format.py). */
#include "tools/arrays.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "weights/temporary.h"
#include "tools/rows.h"
#include "weights/h5.h"

enum {
    NPY_HEADER = 192
}; /* a multiple of 64; has room for any shape, so that it can be rewritten */

bool arrays_format(const char *path, enum array_format *out) {
    static const struct {
        const char *suffix;
        enum array_format format;
    } known[] = {{".npy", ARRAY_NPY},
                 {".h5", ARRAY_H5},
                 {".hdf5", ARRAY_H5},
                 {".csv", ARRAY_CSV},
                 {".tsv", ARRAY_TSV}};
    *out = ARRAY_CSV;
    if (!path || strcmp(path, "-") == 0) return true;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        size_t length = strlen(path), suffix = strlen(known[i].suffix);
        if (length <= suffix || strcmp(path + length - suffix, known[i].suffix) != 0) continue;
        *out = known[i].format;
        return true;
    }
    return false;
}

/* Magic, version, length, and a Python dict padded with blanks to NPY_HEADER bytes. */
void arrays_npy_header(FILE *file, int rank, const size_t *dims) {
    char text[NPY_HEADER] = "\x93NUMPY\x01\x00";
    int used = 10;
    text[8] = (char)((NPY_HEADER - 10) & 255);
    text[9] = (char)((NPY_HEADER - 10) >> 8);
    used += snprintf(text + used, sizeof text - (size_t)used,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int d = 0; d < rank; d++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%zu,", d ? " " : "", dims[d]);
    used += snprintf(text + used, sizeof text - (size_t)used, "), }");
    memset(text + used, ' ', sizeof text - (size_t)used - 1);
    text[sizeof text - 1] = '\n';
    fwrite(text, 1, sizeof text, file);
}

static void npy_header(const struct arrays *arrays, size_t rows) {
    size_t dims[4] = {rows};
    memcpy(dims + 1, arrays->dims, sizeof arrays->dims);
    arrays_npy_header(arrays->data.file, arrays->rank + 1, dims);
}

static enum status open_npy(struct arrays *arrays, const char *path) {
    TRY(output_open(&arrays->data, path));
    npy_header(arrays, arrays->expected);
    if (!arrays->data.part) return ST_OK;
    arrays->index_path = str_format("%s.tsv", path);
    if (!arrays->index_path) return ST_NOMEM;
    TRY(output_open(&arrays->index, arrays->index_path));
    fputs("row\tpath\tstatus\tmessage\n", arrays->index.file);
    return ST_OK;
}

static enum status open_h5(struct arrays *arrays, const char *path) {
    size_t dims[4] = {0};
    memcpy(dims + 1, arrays->dims, sizeof arrays->dims);
    arrays->h5_path = str_copy(path);
    arrays->h5_part = str_format("%s.%ld.part", path, (long)getpid());
    if (!arrays->h5_path || !arrays->h5_part) return ST_NOMEM;
    temporary_add(arrays->h5_part);
    TRY(h5_create(arrays->h5_part, &arrays->h5));
    return h5_create_growing(arrays->h5, "/data", DT_F32, arrays->rank + 1, dims);
}

static enum status open_table(struct arrays *arrays, const char *path) {
    char separator = arrays->format == ARRAY_TSV ? '\t' : ',';
    TRY(output_open(&arrays->data, path));
    fprintf(arrays->data.file, "path%cstatus%cmessage", separator, separator);
    for (size_t i = 0; i < arrays->elements; i++)
        fprintf(arrays->data.file, "%cc%zu", separator, i);
    fputc('\n', arrays->data.file);
    return ST_OK;
}

enum status arrays_open(struct arrays *arrays, const char *path, enum array_format format, int rank,
                        const size_t *dims, size_t expected) {
    *arrays = (struct arrays){.format = format, .rank = rank, .elements = 1, .expected = expected};
    for (int d = 0; d < rank; d++) {
        arrays->dims[d] = dims[d];
        arrays->elements *= dims[d];
    }
    arrays->missing = mem_zalloc(arrays->elements, sizeof *arrays->missing);
    if (!arrays->missing) return ST_NOMEM;
    for (size_t i = 0; i < arrays->elements; i++)
        arrays->missing[i] = NAN;
    if (format == ARRAY_NPY) return open_npy(arrays, path);
    if (format == ARRAY_H5) return open_h5(arrays, path);
    return open_table(arrays, path);
}

static enum status row_h5(struct arrays *arrays, const char *path, const float *values,
                          const char *error) {
    TRY(mem_grow((void **)&arrays->paths, &arrays->path_capacity, arrays->rows + 1,
                 sizeof(char *)));
    TRY(mem_grow((void **)&arrays->messages, &arrays->message_capacity, arrays->rows + 1,
                 sizeof(char *)));
    arrays->paths[arrays->rows] = str_printable(path);
    if (error) arrays->messages[arrays->rows] = str_printable(error);
    arrays->rows++;
    if (!arrays->paths[arrays->rows - 1] || (error && !arrays->messages[arrays->rows - 1]))
        return ST_NOMEM;
    return h5_append(arrays->h5, "/data", 1, values);
}

static void row_table(struct arrays *arrays, const char *path, const float *values,
                      const char *error) {
    FILE *file = arrays->data.file;
    enum row_format format = arrays->format == ARRAY_TSV ? ROW_TSV : ROW_CSV;
    char separator = format == ROW_TSV ? '\t' : ',', text[48];
    rows_put_field(file, format, path);
    fprintf(file, "%c%s%c", separator, error ? "error" : "ok", separator);
    rows_put_field(file, format, error ? error : "");
    for (size_t i = 0; i < arrays->elements; i++) {
        fputc(separator, file);
        if (!error) fputs(rows_score_text(values[i], "%.9g", text), file);
    }
    fputc('\n', file);
}

enum status arrays_row(struct arrays *arrays, const char *path, const float *values,
                       const char *error) {
    if (!values) values = arrays->missing;
    if (arrays->format == ARRAY_H5) return row_h5(arrays, path, values, error);
    if (arrays->format == ARRAY_NPY) {
        fwrite(values, sizeof *values, arrays->elements, arrays->data.file);
        if (arrays->index.file) {
            fprintf(arrays->index.file, "%zu\t", arrays->rows);
            rows_put_field(arrays->index.file, ROW_TSV, path);
            fprintf(arrays->index.file, "\t%s\t", error ? "error" : "ok");
            rows_put_field(arrays->index.file, ROW_TSV, error ? error : "");
            fputc('\n', arrays->index.file);
        }
    } else {
        row_table(arrays, path, values, error);
    }
    arrays->rows++;
    return output_flush(&arrays->data);
}

static enum status close_h5(struct arrays *arrays, enum status done) {
    const char **column = mem_zalloc(arrays->rows, sizeof *column); // (rows)
    enum status st = !column && done == ST_OK ? ST_NOMEM : done;
    if (st == ST_OK)
        st =
            h5_write_strings(arrays->h5, "/path", (const char *const *)arrays->paths, arrays->rows);
    for (size_t i = 0; st == ST_OK && i < arrays->rows; i++)
        column[i] = arrays->messages[i] ? "error" : "ok";
    if (st == ST_OK) st = h5_write_strings(arrays->h5, "/status", column, arrays->rows);
    for (size_t i = 0; st == ST_OK && i < arrays->rows; i++)
        column[i] = arrays->messages[i] ? arrays->messages[i] : "";
    if (st == ST_OK) st = h5_write_strings(arrays->h5, "/message", column, arrays->rows);
    mem_free(column);
    if (h5_close(&arrays->h5) != ST_OK && st == ST_OK) st = ST_IO;
    if (st == ST_OK && rename(arrays->h5_part, arrays->h5_path) != 0)
        st = fail(ST_IO, "%s: could not be given its name", arrays->h5_path);
    if (st != ST_OK) (void)remove(arrays->h5_part);
    temporary_forget(arrays->h5_part);
    return st;
}

/* The shape in the header is what was expected; a run that stopped early has fewer rows. */
static enum status finish_npy(struct arrays *arrays, enum status done) {
    if (done != ST_OK || arrays->rows == arrays->expected) return done;
    if (fseek(arrays->data.file, 0, SEEK_SET) != 0)
        return fail(ST_IO,
                    "%s: %zu rows came of the %zu that the header says, and a pipe cannot be "
                    "rewritten",
                    arrays->data.shown, arrays->rows, arrays->expected);
    npy_header(arrays, arrays->rows);
    return ST_OK;
}

enum status arrays_close(struct arrays *arrays, enum status done) {
    enum status st = done;
    if (arrays->h5) st = close_h5(arrays, st);
    if (arrays->format == ARRAY_NPY && arrays->data.file) st = finish_npy(arrays, st);
    st = output_close(&arrays->data, st);
    st = output_close(&arrays->index, st);
    for (size_t i = 0; i < arrays->rows && arrays->paths; i++) {
        mem_free(arrays->paths[i]);
        mem_free(arrays->messages[i]);
    }
    mem_free(arrays->paths);
    mem_free(arrays->messages);
    mem_free(arrays->missing);
    mem_free(arrays->h5_part);
    mem_free(arrays->h5_path);
    mem_free(arrays->index_path);
    *arrays = (struct arrays){0};
    return st;
}
