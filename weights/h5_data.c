/* h5_data: datasets, checked before they are read; see h5.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/h5_internal.h"

/* An open dataset; released by close_data, which takes zeroed-and-negative ones. */
struct data {
    hid_t id, type;
    size_t cell;            /* bytes of a stored element */
    size_t count;           /* elements */
    uint64_t stored;        /* bytes in the file, after compression */
    struct h5_dataset info; /* name NULL */
};

static void close_data(struct data *data) {
    if (data->type >= 0) H5Tclose(data->type);
    if (data->id >= 0) H5Dclose(data->id);
}

/*
 * Refuses what would read other files, run plugins, or what HDF5 decodes with too little
 * checking.
 */
static enum status check_storage(struct h5 *file, const char *path, hid_t create) {
    H5D_layout_t layout = H5Pget_layout(create);
    int filters = H5Pget_nfilters(create);
    if (layout != H5D_CONTIGUOUS && layout != H5D_COMPACT && layout != H5D_CHUNKED)
        return fail(ST_FORMAT, "%s: %s: is %s dataset, expected its own data", file->name, path,
                    layout == H5D_VIRTUAL ? "a virtual" : "an unknown kind of");
    if (H5Pget_external_count(create) != 0)
        return fail(ST_FORMAT, "%s: %s: its data are in another file, expected in this one",
                    file->name, path);
    for (int i = 0; i < filters; i++) {
        unsigned flags = 0, config = 0;
        size_t values = 0;
        char name[64] = "";
        H5Z_filter_t filter = H5Pget_filter2(create, (unsigned)i, &flags, &values, NULL,
                                             sizeof name - 1, name, &config);
        if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE)
            return fail(ST_FORMAT, "%s: %s: filter %d is used, expected deflate or shuffle",
                        file->name, path, (int)filter);
    }
    return filters < 0 ? fail(ST_FORMAT, "%s: %s: damaged filters", file->name, path) : ST_OK;
}

static enum status get_shape(struct h5 *file, const char *path, struct data *data) {
    hsize_t dims[H5S_MAX_RANK] = {0};
    hid_t space = H5Dget_space(data->id);
    H5S_class_t class = space < 0 ? H5S_NO_CLASS : H5Sget_simple_extent_type(space);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, dims, NULL);
    if (space >= 0) H5Sclose(space);
    if ((class != H5S_SIMPLE && class != H5S_SCALAR) || rank < 0)
        return fail(ST_FORMAT, "%s: %s: holds no elements", file->name, path);
    if (rank > TENSOR_MAX_RANK)
        return fail(ST_FORMAT, "%s: %s: has %d dimensions, at most %d are read", file->name, path,
                    rank, TENSOR_MAX_RANK);
    data->info.rank = rank;
    data->count = 1;
    for (int i = 0; i < rank; i++) {
        data->info.dims[i] = (size_t)dims[i];
        if (!size_mul(data->count, data->info.dims[i], &data->count))
            return fail(ST_FORMAT, "%s: %s: its dimensions multiply beyond any memory", file->name,
                        path);
    }
    return ST_OK;
}

/* An integer whose bits fill its 1 to 8 bytes. */
static bool is_whole_integer(hid_t type) {
    const size_t size = H5Tget_size(type);
    return H5Tget_class(type) == H5T_INTEGER && size >= 1 && size <= 8 &&
           H5Tget_precision(type) == 8 * size;
}

/* A dataset in one piece, or in its header, must lie inside the file: HDF5 reads zeros there. */
static enum status check_extent(struct h5 *file, const char *path, const struct data *data,
                                hid_t create) {
    haddr_t offset;
    if (data->stored == 0 || H5Pget_layout(create) != H5D_CONTIGUOUS) return ST_OK;
    offset = H5Dget_offset(data->id);
    if (offset <= file->size && data->stored <= file->size - offset) return ST_OK;
    return fail(ST_FORMAT, "%s: %s: points behind the end of the file", file->name, path);
}

/*
 * Bytes claimed against bytes stored. Deflate cannot shrink below 1032:1 (zlib's technical
 * details), so no file makes us believe in more than that; HDF5 also holds one chunk in memory.
 */
static enum status check_size(struct h5 *file, const char *path, struct data *data, hid_t create) {
    size_t bytes, chunk = data->cell;
    uint64_t limit;
    bool chunked = H5Pget_layout(create) == H5D_CHUNKED;
    if (data->info.dtype == DT_OTHER && H5Tget_class(data->type) != H5T_STRING &&
        !is_whole_integer(data->type))
        return ST_OK; /* never read, and its elements may take other sizes in memory */
    data->stored = H5Dget_storage_size(data->id);
    if (!size_mul(data->count, data->cell, &bytes) || data->stored > file->size)
        return fail(ST_FORMAT, "%s: %s: claims more bytes than the file has", file->name, path);
    if (!chunked && bytes != data->stored)
        return fail(ST_FORMAT, "%s: %s: %llu bytes are stored, expected %zu", file->name, path,
                    (unsigned long long)data->stored, bytes);
    if (!chunked) return check_extent(file, path, data, create);
    limit = data->stored * (H5Pget_nfilters(create) > 0 ? 1032 : 1);
    if (bytes > limit)
        return fail(ST_FORMAT, "%s: %s: %llu bytes are stored, %zu cannot come of them", file->name,
                    path, (unsigned long long)data->stored, bytes);
    hsize_t dims[H5S_MAX_RANK] = {0};
    int rank = H5Pget_chunk(create, H5S_MAX_RANK, dims);
    for (int i = 0; i < rank; i++) {
        if (!size_mul(chunk, (size_t)dims[i], &chunk)) chunk = SIZE_MAX;
    }
    if (data->stored > 0 && chunk > limit)
        return fail(ST_FORMAT, "%s: %s: chunks of %zu bytes, but %llu bytes are stored", file->name,
                    path, chunk, (unsigned long long)data->stored);
    return ST_OK;
}

/* 16-bit unsigned elements are bf16 when the attribute "dtype" says so, else of no type we know. */
static enum status find_dtype(struct h5 *file, const char *path, struct data *data) {
    char *word = NULL;
    data->info.dtype = h5_dtype(file, data->type);
    data->cell = h5_is_text(data->type) ? H5_REFERENCE : H5Tget_size(data->type);
    if (data->info.dtype != DT_BF16) return ST_OK;
    data->info.dtype = DT_OTHER;
    if (H5Aexists(data->id, "dtype") <= 0) return ST_OK;
    TRY(h5_attribute_text(file, path, data->id, "dtype", &word));
    if (strcmp(word, "bfloat16") == 0) data->info.dtype = DT_BF16;
    mem_free(word);
    return ST_OK;
}

static enum status open_data(struct h5 *file, const char *path, struct data *data) {
    hid_t create = -1;
    enum status st;
    *data = (struct data){.id = -1, .type = -1};
    TRY(h5_open_object(file, path, ST_SHAPE, &data->id));
    if (H5Iget_type(data->id) != H5I_DATASET) {
        H5Oclose(data->id);
        data->id = -1;
        return fail(ST_SHAPE, "%s: %s: is no dataset, expected one", file->name, path);
    }
    create = H5Dget_create_plist(data->id);
    if (create < 0) {
        st = fail(ST_FORMAT, "%s: %s: cannot be opened (%s)", file->name, path, h5_reason());
        goto out;
    }
    TRY_OUT(check_storage(file, path, create));
    data->type = H5Dget_type(data->id);
    if (data->type < 0) {
        st = fail(ST_FORMAT, "%s: %s: is of no type (%s)", file->name, path, h5_reason());
        goto out;
    }
    TRY_OUT(get_shape(file, path, data));
    TRY_OUT(find_dtype(file, path, data));
    TRY_OUT(check_size(file, path, data, create));
out:
    if (create >= 0) H5Pclose(create);
    if (st != ST_OK) close_data(data);
    return st;
}

static const char *type_words(const struct data *data) {
    return data->info.dtype == DT_OTHER ? h5_class_name(data->type) : dtype_name(data->info.dtype);
}

static enum status wrong_type(struct h5 *file, const char *path, const struct data *data,
                              const char *expected) {
    return fail(ST_SHAPE, "%s: %s: is %s of %zu bytes, expected %s", file->name, path,
                type_words(data), data->cell, expected);
}

static enum status check_elements(struct h5 *file, const char *path, const struct data *data,
                                  size_t count) {
    char shape[200];
    if (data->count == count) return ST_OK;
    shape_text(data->info.dims, data->info.rank, shape, sizeof shape);
    return fail(ST_SHAPE, "%s: %s: is %s, expected %zu elements", file->name, path, shape, count);
}

enum status h5_info(struct h5 *file, const char *dataset, struct h5_dataset *out) {
    const char *slash = strrchr(dataset, '/');
    struct data data;
    TRY(open_data(file, dataset, &data));
    close_data(&data);
    *out = data.info;
    out->name = str_copy(slash ? slash + 1 : dataset);
    return out->name ? ST_OK : ST_NOMEM;
}

static enum status read_as(struct h5 *file, const char *path, const struct data *data, hid_t memory,
                           void *dst) {
    if (data->count == 0) return ST_OK;
    if (H5Dread(data->id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, dst) >= 0)
        return h5_check_end(file);
    TRY(h5_check_end(file));
    return fail(ST_FORMAT, "%s: %s: cannot be read (%s)", file->name, path, h5_reason());
}

/* fp32 is read into place; 16-bit types into the tail of dst and widened from there. */
enum status h5_read_f32(struct h5 *file, const char *dataset, float *dst, size_t count) {
    struct data data;
    enum status st;
    TRY(open_data(file, dataset, &data));
    TRY_OUT(check_elements(file, dataset, &data, count));
    if (data.info.dtype == DT_F32 || data.info.dtype == DT_F64) {
        st = read_as(file, dataset, &data, H5T_NATIVE_FLOAT, dst);
    } else if (data.info.dtype == DT_F16 || data.info.dtype == DT_BF16) {
        uint8_t *tail = (uint8_t *)dst + 2 * count;
        TRY_OUT(read_as(file, dataset, &data, h5_type(file, data.info.dtype), tail));
        st = tensor_to_f32(tail, data.info.dtype, count, dst);
    } else {
        st = wrong_type(file, dataset, &data, "fp32, fp64, fp16 or bf16");
    }
out:
    close_data(&data);
    return st;
}

enum status h5_read_raw(struct h5 *file, const char *dataset, enum dtype dtype, void *dst,
                        size_t count) {
    struct data data;
    enum status st;
    TRY(open_data(file, dataset, &data));
    if (dtype == DT_OTHER || data.info.dtype != dtype) {
        st = wrong_type(file, dataset, &data, dtype_name(dtype));
        goto out;
    }
    TRY_OUT(check_elements(file, dataset, &data, count));
    st = read_as(file, dataset, &data, h5_type(file, dtype), dst);
out:
    close_data(&data);
    return st;
}

/* The rows of `data`, which must be inside, as `memory`'s type. */
static enum status read_rows(struct h5 *file, const char *path, const struct data *data,
                             hid_t memory, size_t first, size_t rows, void *dst) {
    hsize_t start[TENSOR_MAX_RANK] = {first}, shape[TENSOR_MAX_RANK] = {rows};
    const size_t *dims = data->info.dims;
    hid_t space, block;
    bool done;
    if (data->info.rank < 1 || first > dims[0] || rows > dims[0] - first)
        return fail(ST_USAGE, "%s: %s: rows %zu to %zu of %zu", file->name, path, first,
                    first + rows, data->info.rank ? dims[0] : 0);
    if (data->count == 0 || rows == 0) return ST_OK;
    for (int i = 1; i < data->info.rank; i++)
        shape[i] = dims[i];
    space = H5Dget_space(data->id);
    block = H5Screate_simple(data->info.rank, shape, NULL);
    done = space >= 0 && block >= 0 &&
           H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, shape, NULL) >= 0 &&
           H5Dread(data->id, memory, block, space, H5P_DEFAULT, dst) >= 0;
    if (block >= 0) H5Sclose(block);
    if (space >= 0) H5Sclose(space);
    TRY(h5_check_end(file));
    return done ? ST_OK
                : fail(ST_FORMAT, "%s: %s: cannot be read (%s)", file->name, path, h5_reason());
}

enum status h5_read_rows(struct h5 *file, const char *dataset, enum dtype dtype, size_t first,
                         size_t rows, void *dst) {
    struct data data;
    enum status st;
    TRY(open_data(file, dataset, &data));
    if (dtype == DT_OTHER || data.info.dtype != dtype)
        st = wrong_type(file, dataset, &data, dtype_name(dtype));
    else
        st = read_rows(file, dataset, &data, h5_type(file, dtype), first, rows, dst);
    close_data(&data);
    return st;
}

enum status h5_read_integers(struct h5 *file, const char *dataset, size_t first, size_t rows,
                             int64_t *dst) {
    struct data data;
    enum status st;
    TRY(open_data(file, dataset, &data));
    if (data.info.rank != 1 || !is_whole_integer(data.type))
        st = wrong_type(file, dataset, &data, "a list of integers of 1 to 8 bytes");
    else
        st = read_rows(file, dataset, &data, H5T_NATIVE_INT64, first, rows, dst);
    close_data(&data);
    return st;
}

/* A whole dataset as it lies in the image, checked by open_data and inside it. */
static enum status find_place(struct h5 *file, const char *path, const struct data *data,
                              const uint8_t **out) {
    const haddr_t offset = data->count ? H5Dget_offset(data->id) : 0;
    hid_t create = H5Dget_create_plist(data->id);
    const bool whole = create >= 0 && H5Pget_layout(create) == H5D_CONTIGUOUS;
    if (create >= 0) H5Pclose(create);
    if (data->info.dtype == DT_OTHER) return wrong_type(file, path, data, "numbers");
    if (!whole)
        return fail(ST_FORMAT,
                    "%s: %s: is stored in pieces, perhaps compressed, expected it in one piece: "
                    "rewrite the file with h5repack -l CONTI -f NONE",
                    file->name, path);
    if (data->cell > 1 && H5Tget_order(data->type) == H5T_ORDER_BE)
        return fail(ST_FORMAT, "%s: %s: is big-endian, expected little-endian numbers", file->name,
                    path);
    if (offset == HADDR_UNDEF || offset > file->size || data->stored > file->size - offset)
        return fail(ST_FORMAT, "%s: %s: points behind the end of the file", file->name, path);
    *out = file->image + offset;
    return ST_OK;
}

enum status h5_place(struct h5 *file, const char *dataset, const uint8_t **out) {
    struct data data;
    enum status st;
    TRY(open_data(file, dataset, &data));
    st = file->image ? find_place(file, dataset, &data, out)
                     : fail(ST_USAGE, "%s: is not in memory", file->name);
    close_data(&data);
    return st;
}

/*
 * Cells (count, cell) of references or of padded bytes -> list. All text together is in the file.
 */
static enum status take_strings(struct h5 *file, const char *path, const struct data *data,
                                const uint8_t *cells, struct h5_names *list) {
    bool references = h5_is_text(data->type);
    uint64_t total = 0;
    for (; list->count < data->count; list->count++) {
        const uint8_t *cell = cells + list->count * data->cell;
        char **text = &list->names[list->count];
        TRY(references ? h5_heap_text(file, path, cell, text)
                       : h5_text_copy(file, path, (const char *)cell, data->cell, text));
        total += strlen(*text);
        if (references && total > file->size) {
            list->count++;
            return fail(ST_FORMAT, "%s: %s: strings longer than the file", file->name, path);
        }
    }
    return ST_OK;
}

enum status h5_read_strings(struct h5 *file, const char *dataset, size_t limit, char ***out,
                            size_t *count) {
    struct data data;
    struct h5_names list = {0};
    uint8_t *cells = NULL;
    enum status st;
    TRY(open_data(file, dataset, &data));
    if (H5Tget_class(data.type) != H5T_STRING || data.info.rank != 1) {
        st = wrong_type(file, dataset, &data, "a list of strings");
        goto out;
    }
    if (data.count > limit) {
        st = fail(ST_FORMAT, "%s: %s: has %zu strings, at most %zu are read", file->name, dataset,
                  data.count, limit);
        goto out;
    }
    cells = mem_zalloc(data.count, data.cell);
    list.names = cells ? mem_zalloc(data.count, sizeof *list.names) : NULL;
    if (!list.names) {
        st = ST_NOMEM;
        goto out;
    }
    TRY_OUT(
        read_as(file, dataset, &data, h5_is_text(data.type) ? file->reference : data.type, cells));
    TRY_OUT(take_strings(file, dataset, &data, cells, &list));
    *out = list.names;
    *count = list.count;
    list = (struct h5_names){0};
out:
    h5_free_names(list.names, list.count);
    mem_free(cells);
    close_data(&data);
    return st;
}

/* Creates a dataset without times, so that equal models are equal files; chunk NULL: contiguous. */
static enum status create_data(struct h5 *file, const char *path, hid_t type, int rank,
                               const hsize_t *dims, const hsize_t *chunk, hid_t *out) {
    hsize_t most[TENSOR_MAX_RANK] = {0};
    const bool quiet = h5_quiet();
    hid_t create = H5Pcreate(H5P_DATASET_CREATE), space;
    bool ready = quiet && create >= 0 && type >= 0 && H5Pset_obj_track_times(create, false) >= 0;
    for (int i = 0; i < rank; i++)
        most[i] = chunk && i == 0 ? H5S_UNLIMITED : dims[i];
    if (ready && chunk) ready = H5Pset_chunk(create, rank, chunk) >= 0;
    space = rank ? H5Screate_simple(rank, dims, most) : H5Screate(H5S_SCALAR);
    *out = ready && space >= 0
               ? H5Dcreate2(file->id, path, type, space, H5P_DEFAULT, create, H5P_DEFAULT)
               : -1;
    if (*out < 0)
        (void)fail(ST_IO, "%s: %s: cannot be made (%s)", file->name, path, h5_write_reason(file));
    if (space >= 0) H5Sclose(space);
    if (create >= 0) H5Pclose(create);
    return *out < 0 ? ST_IO : ST_OK;
}

static enum status check_rank(struct h5 *file, const char *path, int rank, int least,
                              const size_t *dims, hsize_t *out) {
    if (rank < least || rank > TENSOR_MAX_RANK)
        return fail(ST_USAGE, "%s: %s: %d dimensions, expected %d to %d", file->name, path, rank,
                    least, TENSOR_MAX_RANK);
    for (int i = 0; i < rank; i++)
        out[i] = dims[i];
    return ST_OK;
}

static enum status mark_bf16(struct h5 *file, const char *path, hid_t id, enum dtype dtype) {
    return dtype == DT_BF16 ? h5_attribute_set_text(file, path, id, "dtype", "bfloat16") : ST_OK;
}

enum status h5_write(struct h5 *file, const char *dataset, enum dtype dtype, int rank,
                     const size_t *dims, const void *data) {
    hsize_t shape[TENSOR_MAX_RANK];
    hid_t id;
    enum status st;
    TRY(check_rank(file, dataset, rank, 0, dims, shape));
    TRY(create_data(file, dataset, h5_type(file, dtype), rank, shape, NULL, &id));
    st = mark_bf16(file, dataset, id, dtype);
    if (st == ST_OK && H5Dwrite(id, h5_type(file, dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        st = fail(ST_IO, "%s: %s: cannot be written (%s)", file->name, dataset,
                  h5_write_reason(file));
    H5Dclose(id);
    return st;
}

enum status h5_write_strings(struct h5 *file, const char *dataset, const char *const *strings,
                             size_t count) {
    hsize_t shape[1] = {count};
    enum status st = ST_OK;
    hid_t id;
    for (size_t i = 0; i < count; i++) {
        char *checked;
        TRY(h5_text_copy(file, dataset, strings[i], strlen(strings[i]), &checked));
        mem_free(checked);
    }
    TRY(create_data(file, dataset, file->text, 1, shape, NULL, &id));
    if (H5Dwrite(id, file->text, H5S_ALL, H5S_ALL, H5P_DEFAULT, strings) < 0)
        st = fail(ST_IO, "%s: %s: cannot be written (%s)", file->name, dataset,
                  h5_write_reason(file));
    H5Dclose(id);
    return st;
}

enum status h5_create_growing(struct h5 *file, const char *dataset, enum dtype dtype, int rank,
                              const size_t *dims) {
    hsize_t shape[TENSOR_MAX_RANK], chunk[TENSOR_MAX_RANK];
    size_t row = dtype_size(dtype);
    enum status st;
    hid_t id;
    TRY(check_rank(file, dataset, rank, 1, dims, shape));
    for (int i = 1; i < rank; i++) {
        chunk[i] = shape[i];
        if (!size_mul(row, dims[i], &row)) row = 0;
    }
    if (row == 0 || row > UINT32_MAX) /* HDF5 counts the bytes of a chunk in 32 bits */
        return fail(ST_USAGE, "%s: %s: rows of 0 or more than 4 GiB", file->name, dataset);
    shape[0] = 0;
    chunk[0] = row < 262144 ? 262144 / row : 1; /* 256 KiB a chunk */
    TRY(create_data(file, dataset, h5_type(file, dtype), rank, shape, chunk, &id));
    st = mark_bf16(file, dataset, id, dtype);
    H5Dclose(id);
    return st;
}

static bool append_rows(hid_t id, hid_t memory, const struct data *data, size_t rows,
                        const void *bytes) {
    hsize_t shape[TENSOR_MAX_RANK], start[TENSOR_MAX_RANK] = {0}, added[TENSOR_MAX_RANK];
    hid_t space, block;
    bool done;
    for (int i = 0; i < data->info.rank; i++)
        shape[i] = added[i] = data->info.dims[i];
    start[0] = shape[0];
    added[0] = rows;
    shape[0] += rows;
    if (H5Dset_extent(id, shape) < 0) return false;
    space = H5Dget_space(id);
    block = H5Screate_simple(data->info.rank, added, NULL);
    done = space >= 0 && block >= 0 &&
           H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, added, NULL) >= 0 &&
           H5Dwrite(id, memory, block, space, H5P_DEFAULT, bytes) >= 0;
    if (block >= 0) H5Sclose(block);
    if (space >= 0) H5Sclose(space);
    return done;
}

enum status h5_append(struct h5 *file, const char *dataset, size_t rows, const void *data) {
    struct data found = {.id = -1, .type = -1};
    enum status st;
    if (rows == 0) return ST_OK;
    TRY(h5_open_object(file, dataset, ST_SHAPE, &found.id));
    found.type = H5Dget_type(found.id);
    TRY_OUT(get_shape(file, dataset, &found));
    if (found.info.rank < 1 || !append_rows(found.id, found.type, &found, rows, data))
        st = fail(ST_IO, "%s: %s: cannot be written (%s)", file->name, dataset,
                  h5_write_reason(file));
out:
    close_data(&found);
    return st;
}
