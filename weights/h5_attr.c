/* h5_attr: attributes of groups and datasets; see h5.h. */
#include <stdio.h>
#include <string.h>

#include "weights/h5_internal.h"

bool h5_has_attribute(struct h5 *file, const char *object, const char *name) {
    hid_t id;
    bool found;
    if (!h5_has(file, object) || h5_open_object(file, object, ST_FORMAT, &id) != ST_OK)
        return false;
    found = H5Aexists(id, name) > 0;
    H5Oclose(id);
    return found;
}

/*
 * Opens attribute `name` of an open object and bounds what it stores; *type too, both to be
 * closed.
 */
static enum status open_attribute(struct h5 *file, const char *object, hid_t id, const char *name,
                                  hid_t *attribute, hid_t *type) {
    hsize_t size;
    if (H5Aexists(id, name) <= 0)
        return fail(ST_FORMAT, "%s: %s: attribute %s is missing", file->name, object, name);
    *attribute = H5Aopen(id, name, H5P_DEFAULT);
    if (*attribute < 0)
        return fail(ST_FORMAT, "%s: %s: attribute %s cannot be opened (%s)", file->name, object,
                    name, h5_reason());
    *type = H5Aget_type(*attribute);
    size = H5Aget_storage_size(*attribute);
    if (*type < 0 || size > H5_MAX_TEXT)
        return fail(ST_FORMAT, "%s: %s: attribute %s has %llu bytes, at most %d are read",
                    file->name, object, name, (unsigned long long)size, H5_MAX_TEXT);
    return ST_OK;
}

/*
 * ST_FORMAT unless the attribute holds `least` to `most` elements, as a scalar or a list; *count
 * of them.
 */
static enum status check_count(struct h5 *file, const char *object, hid_t attribute,
                               const char *name, int least, int most, int *count) {
    hid_t space = H5Aget_space(attribute);
    hssize_t found = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    int rank = space < 0 ? 0 : H5Sget_simple_extent_ndims(space);
    bool empty = space < 0 || H5Sget_simple_extent_type(space) == H5S_NULL;
    char want[32];
    if (space >= 0) H5Sclose(space);
    if (!empty && found >= least && found <= most && rank <= 1) {
        *count = (int)found;
        return ST_OK;
    }
    snprintf(want, sizeof want, least == most ? "%d" : "%d to %d", least, most);
    return fail(ST_FORMAT, "%s: %s: attribute %s has %lld elements in %d dimensions, expected %s",
                file->name, object, name, empty ? 0LL : (long long)found, rank, want);
}

/* A number of a standard size and layout: what HDF5's conversions were made for. */
static bool plain_number(const struct h5 *file, hid_t type, bool floating) {
    size_t size = H5Tget_size(type);
    H5T_class_t class = H5Tget_class(type);
    if (class == H5T_FLOAT && floating) {
        enum dtype dtype = h5_dtype(file, type);
        return dtype == DT_F64 || dtype == DT_F32 || dtype == DT_F16;
    }
    return class == H5T_INTEGER && (size == 1 || size == 2 || size == 4 || size == 8) &&
           H5Tget_precision(type) == 8 * size && H5Tget_offset(type) == 0;
}

/*
 * `least` to `most` numbers, *count of them; integers are no floats, but floats may be stored as
 * integers.
 */
static enum status get_numbers(struct h5 *file, const char *object, const char *name, int least,
                               int most, bool floating, void *out, int *count) {
    hid_t id = -1, attribute = -1, type = -1;
    enum status st;
    TRY_OUT(h5_open_object(file, object, ST_FORMAT, &id));
    TRY_OUT(open_attribute(file, object, id, name, &attribute, &type));
    if (!plain_number(file, type, floating)) {
        st = fail(ST_FORMAT, "%s: %s: attribute %s is %s of %zu bytes, expected %s", file->name,
                  object, name, h5_class_name(type), H5Tget_size(type),
                  floating ? "a number" : "an integer");
        goto out;
    }
    TRY_OUT(check_count(file, object, attribute, name, least, most, count));
    if (H5Aread(attribute, floating ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, out) < 0)
        st = fail(ST_FORMAT, "%s: %s: attribute %s cannot be read (%s)", file->name, object, name,
                  h5_reason());
out:
    if (type >= 0) H5Tclose(type);
    if (attribute >= 0) H5Aclose(attribute);
    if (id >= 0) H5Oclose(id);
    return st;
}

static enum status get_ints(struct h5 *file, const char *object, const char *name, int least,
                            int most, long lo, long hi, int *out, int *count) {
    int64_t *values = mem_zalloc((size_t)most, sizeof *values);
    int found = 0;
    enum status st = ST_NOMEM;
    if (values) st = get_numbers(file, object, name, least, most, false, values, &found);
    for (int i = 0; i < found && st == ST_OK; i++) {
        /* A value beyond 64 bits was clipped by HDF5 and fails here as well. */
        if (values[i] < lo || values[i] > hi)
            st = fail(ST_FORMAT, "%s: %s: attribute %s is %lld, expected %ld to %ld", file->name,
                      object, name, (long long)values[i], lo, hi);
    }
    for (int i = 0; i < found && st == ST_OK; i++)
        out[i] = (int)values[i];
    if (st == ST_OK) *count = found;
    mem_free(values);
    return st;
}

enum status h5_get_ints(struct h5 *file, const char *object, const char *name, int count, long lo,
                        long hi, int *out) {
    int found;
    return get_ints(file, object, name, count, count, lo, hi, out, &found);
}

enum status h5_get_int_list(struct h5 *file, const char *object, const char *name, int limit,
                            long lo, long hi, int *out, int *count) {
    return get_ints(file, object, name, 1, limit, lo, hi, out, count);
}

enum status h5_get_int(struct h5 *file, const char *object, const char *name, long lo, long hi,
                       int *out) {
    return h5_get_ints(file, object, name, 1, lo, hi, out);
}

enum status h5_get_doubles(struct h5 *file, const char *object, const char *name, int count,
                           double lo, double hi, double *out) {
    double *values = mem_zalloc((size_t)count, sizeof *values);
    int found;
    enum status st = ST_NOMEM;
    if (values) st = get_numbers(file, object, name, count, count, true, values, &found);
    for (int i = 0; i < count && st == ST_OK; i++) {
        if (!(values[i] >= lo && values[i] <= hi)) /* so that NaN fails */
            st = fail(ST_FORMAT, "%s: %s: attribute %s is %g, expected %g to %g", file->name,
                      object, name, values[i], lo, hi);
    }
    if (st == ST_OK) memcpy(out, values, (size_t)count * sizeof *out);
    mem_free(values);
    return st;
}

enum status h5_get_double(struct h5 *file, const char *object, const char *name, double lo,
                          double hi, double *out) {
    return h5_get_doubles(file, object, name, 1, lo, hi, out);
}

/* A fixed-length string attribute; its size was bounded by open_attribute. */
static enum status get_fixed(struct h5 *file, const char *object, hid_t attribute, hid_t type,
                             char **out) {
    size_t size = H5Tget_size(type);
    char *bytes = mem_zalloc(size + 1, 1);
    enum status st = bytes ? ST_OK : ST_NOMEM;
    if (st == ST_OK && H5Aread(attribute, type, bytes) < 0)
        st = fail(ST_FORMAT, "%s: %s: a string cannot be read (%s)", file->name, object,
                  h5_reason());
    if (st == ST_OK) st = h5_text_copy(file, object, bytes, size, out);
    mem_free(bytes);
    return st;
}

enum status h5_attribute_text(struct h5 *file, const char *object, hid_t id, const char *name,
                              char **out) {
    uint8_t reference[H5_REFERENCE];
    char where[2 * H5_MAX_NAME + 64];
    hid_t attribute = -1, type = -1;
    enum status st;
    int count;
    snprintf(where, sizeof where, "%s: attribute %s", object, name);
    TRY_OUT(open_attribute(file, object, id, name, &attribute, &type));
    if (H5Tget_class(type) != H5T_STRING) {
        st = fail(ST_FORMAT, "%s: %s is %s, expected a string", file->name, where,
                  h5_class_name(type));
        goto out;
    }
    TRY_OUT(check_count(file, object, attribute, name, 1, 1, &count));
    if (!h5_is_text(type)) {
        st = get_fixed(file, where, attribute, type, out);
    } else if (H5Aget_storage_size(attribute) != H5_REFERENCE ||
               H5Aread(attribute, file->reference, reference) < 0) {
        st = fail(ST_FORMAT, "%s: %s cannot be read (%s)", file->name, where, h5_reason());
    } else {
        st = h5_heap_text(file, where, reference, out);
    }
out:
    if (type >= 0) H5Tclose(type);
    if (attribute >= 0) H5Aclose(attribute);
    return st;
}

enum status h5_get_string(struct h5 *file, const char *object, const char *name, char **out) {
    hid_t id;
    enum status st;
    TRY(h5_open_object(file, object, ST_FORMAT, &id));
    st = h5_attribute_text(file, object, id, name, out);
    H5Oclose(id);
    return st;
}

/* Replaces attribute `name` by `count` elements; count 0 is a scalar. */
static enum status set(struct h5 *file, const char *object, hid_t id, const char *name, int count,
                       hid_t stored, hid_t memory, const void *data) {
    hsize_t dims[1] = {(hsize_t)count};
    hid_t space = count ? H5Screate_simple(1, dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t attribute = -1;
    bool done = space >= 0;
    if (done && H5Aexists(id, name) > 0) done = H5Adelete(id, name) >= 0;
    if (done) attribute = H5Acreate2(id, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
    done = attribute >= 0 && H5Awrite(attribute, memory, data) >= 0;
    if (!done)
        (void)fail(ST_IO, "%s: %s: attribute %s cannot be written (%s)", file->name, object, name,
                   h5_write_reason(file));
    if (attribute >= 0) H5Aclose(attribute);
    if (space >= 0) H5Sclose(space);
    return done ? ST_OK : ST_IO;
}

static enum status set_named(struct h5 *file, const char *object, const char *name, int count,
                             hid_t stored, hid_t memory, const void *data) {
    hid_t id;
    enum status st;
    TRY(h5_open_object(file, object, ST_FORMAT, &id));
    st = set(file, object, id, name, count, stored, memory, data);
    H5Oclose(id);
    return st;
}

enum status h5_set_int(struct h5 *file, const char *object, const char *name, int value) {
    return set_named(file, object, name, 0, H5T_STD_I32LE, H5T_NATIVE_INT, &value);
}

enum status h5_set_ints(struct h5 *file, const char *object, const char *name, int count,
                        const int *values) {
    return set_named(file, object, name, count, H5T_STD_I32LE, H5T_NATIVE_INT, values);
}

enum status h5_set_double(struct h5 *file, const char *object, const char *name, double value) {
    return set_named(file, object, name, 0, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

enum status h5_set_doubles(struct h5 *file, const char *object, const char *name, int count,
                           const double *values) {
    return set_named(file, object, name, count, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values);
}

/* What could not be read back is not written. */
enum status h5_attribute_set_text(struct h5 *file, const char *object, hid_t id, const char *name,
                                  const char *value) {
    char *checked;
    TRY(h5_text_copy(file, object, value, strlen(value), &checked));
    mem_free(checked);
    return set(file, object, id, name, 0, file->text, file->text, &value);
}

enum status h5_set_string(struct h5 *file, const char *object, const char *name,
                          const char *value) {
    hid_t id;
    enum status st;
    TRY(h5_open_object(file, object, ST_FORMAT, &id));
    st = h5_attribute_set_text(file, object, id, name, value);
    H5Oclose(id);
    return st;
}

/* The state of a walk over attributes; HDF5 hands it to each call. */
struct attribute_walk {
    struct h5 *file;
    const char *object;
    struct h5_names list;
    enum status st;
};

static herr_t each_attribute(hid_t id, const char *name, const H5A_info_t *info, void *data) {
    struct attribute_walk *walk = data;
    (void)id, (void)info;
    walk->st = h5_names_add(walk->file, walk->object, &walk->list, name);
    return walk->st == ST_OK ? 0 : -1;
}

enum status h5_attribute_names(struct h5 *file, const char *object, char ***names, size_t *count) {
    struct attribute_walk walk = {.file = file, .object = object, .st = ST_OK};
    hid_t id;
    TRY(h5_open_object(file, object, ST_FORMAT, &id));
    if (H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, each_attribute, &walk) < 0 &&
        walk.st == ST_OK)
        walk.st = fail(ST_FORMAT, "%s: %s: attributes cannot be listed (%s)", file->name, object,
                       h5_reason());
    H5Oclose(id);
    if (walk.st != ST_OK) {
        h5_free_names(walk.list.names, walk.list.count);
        return walk.st;
    }
    h5_names_sort(&walk.list);
    *names = walk.list.names;
    *count = walk.list.count;
    return ST_OK;
}
