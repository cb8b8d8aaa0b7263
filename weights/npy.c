/*
 * npy: one array of NumPy: "\x93NUMPY", version, header length, a Python dict of three keys, the
 * numbers. The dict is read by a scanner of its own that knows nothing but these keys.
 */
#include <string.h>

#include "weights/npz.h"

#define HEADER_MAX 10000 /* bytes; NumPy's own limit for files that are not trusted */

static const struct {
    const char *descr;
    enum dtype dtype;
} dtypes[] = {{"<f4", DT_F32},  {"<f2", DT_F16},  {"<f8", DT_F64}, {"<i8", DT_I64},
              {"<i4", DT_I32},  {"<i2", DT_I16},  {"|i1", DT_I8},  {"|u1", DT_U8},
              {"|b1", DT_BOOL}, {"<V2", DT_BF16}, {"|V2", DT_BF16}}; /* ml_dtypes' bfloat16 */

/* The header's text, where the reading is, and what was read. */
struct scan {
    const char *at, *end, *what;
    char descr[16];
    bool has_descr, has_order, has_shape, fortran;
    int rank;
    size_t dims[TENSOR_MAX_RANK];
};

static void skip_blanks(struct scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n'))
        s->at++;
}

/* Steps over `c` and the blanks around it. */
static bool take(struct scan *s, char c) {
    skip_blanks(s);
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    skip_blanks(s);
    return true;
}

static bool take_word(struct scan *s, const char *word) {
    const size_t length = strlen(word);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) return false;
    s->at += length;
    return true;
}

/* A quoted word of Python without escapes, shorter than `size`. */
static bool take_quoted(struct scan *s, char *out, size_t size) {
    const char quote = s->at < s->end ? *s->at : 0;
    size_t used = 0;
    if (quote != '\'' && quote != '"') return false;
    for (s->at++; s->at<s->end && * s->at != quote && * s->at> ' ' && *s->at < 127; s->at++) {
        if (*s->at == '\\' || used + 1 == size) return false;
        out[used++] = *s->at;
    }
    out[used] = '\0';
    if (s->at == s->end || *s->at != quote) return false;
    s->at++;
    return true;
}

static enum status broken(const struct scan *s, const char *what) {
    return fail(ST_FORMAT, "%s: the header of its array %s", s->what, what);
}

static enum status take_size(struct scan *s, size_t *out) {
    const char *begin = s->at;
    *out = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        if (!size_mul(*out, 10, out) || !size_add(*out, (size_t)(*s->at - '0'), out))
            return broken(s, "has a size beyond 2^64");
    }
    if (s->at == begin) return broken(s, "has a shape that is no tuple of sizes");
    if (s->at < s->end && *s->at == 'L') s->at++; /* a long of Python 2 */
    return ST_OK;
}

/* "()", "(3,)", "(3, 4)", "(3, 4,)". */
static enum status take_shape(struct scan *s) {
    bool comma = true;
    if (!take(s, '(')) return broken(s, "has a shape that is no tuple of sizes");
    while (comma && !take(s, ')')) {
        if (s->rank == TENSOR_MAX_RANK) return broken(s, "has more than 8 dimensions");
        TRY(take_size(s, &s->dims[s->rank++]));
        comma = take(s, ',');
        if (!comma) {
            if (s->rank > 1 && take(s, ')')) return ST_OK;
            return broken(s, "has a shape that is no tuple of sizes");
        }
    }
    return ST_OK;
}

static enum status take_value(struct scan *s, const char *key) {
    bool *has = strcmp(key, "descr") == 0           ? &s->has_descr
                : strcmp(key, "fortran_order") == 0 ? &s->has_order
                : strcmp(key, "shape") == 0         ? &s->has_shape
                                                    : NULL;
    if (!has) return broken(s, "has a key that NumPy does not write");
    if (*has) return broken(s, "has a key twice");
    *has = true;
    if (has == &s->has_shape) return take_shape(s);
    if (has == &s->has_descr) {
        if (s->at < s->end && *s->at == '[') return broken(s, "is of a structured type");
        if (!take_quoted(s, s->descr, sizeof s->descr)) return broken(s, "has no type");
        return ST_OK;
    }
    s->fortran = take_word(s, "True");
    if (!s->fortran && !take_word(s, "False")) return broken(s, "has no fortran_order");
    return ST_OK;
}

static enum status take_header(struct scan *s) {
    bool comma = true;
    char key[16];
    if (!take(s, '{')) return broken(s, "is no dict");
    while (!take(s, '}')) {
        if (!comma || !take_quoted(s, key, sizeof key) || !take(s, ':'))
            return broken(s, "is no dict");
        TRY(take_value(s, key));
        comma = take(s, ',');
    }
    skip_blanks(s);
    if (s->at != s->end) return broken(s, "goes on behind its dict");
    if (!s->has_descr || !s->has_order || !s->has_shape)
        return broken(s, "lacks descr, fortran_order or shape");
    return ST_OK;
}

/* The type, and that header and numbers are the whole file. */
static enum status fill(const struct scan *s, size_t left, struct tensor *out) {
    char text[128];
    size_t row = 0, bytes;
    while (row < COUNT_OF(dtypes) && strcmp(dtypes[row].descr, s->descr) != 0)
        row++;
    if (strchr(s->descr, 'O'))
        return fail(ST_FORMAT, "%s: is an array of Python objects (a pickle), want numbers",
                    s->what);
    if (s->descr[0] == '>')
        return fail(ST_FORMAT, "%s: is big-endian (%s), want little-endian numbers", s->what,
                    s->descr);
    if (row == COUNT_OF(dtypes))
        return fail(ST_FORMAT, "%s: is of NumPy's type '%s', want floats, integers or bools",
                    s->what, s->descr);
    out->dtype = dtypes[row].dtype;
    out->rank = s->rank;
    memcpy(out->dims, s->dims, sizeof out->dims);
    bytes = dtype_size(out->dtype);
    for (int i = 0; i < s->rank; i++) {
        if (!size_mul(bytes, s->dims[i], &bytes))
            return fail(ST_FORMAT, "%s: has a shape whose size overflows", s->what);
    }
    if (bytes != left)
        return fail(ST_FORMAT, "%s: is %s %s and needs %zu bytes, the file has %zu", s->what,
                    dtype_name(out->dtype), shape_text(s->dims, s->rank, text, sizeof text), bytes,
                    left);
    out->bytes = bytes;
    out->column_major = s->fortran;
    return ST_OK;
}

enum status npy_parse(const uint8_t *bytes, size_t size, const char *what, struct tensor *out) {
    size_t width, length = 0;
    struct scan scan = {.what = what};
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return fail(ST_FORMAT, "%s: is no NumPy array", what);
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return fail(ST_FORMAT, "%s: is version %d.%d of .npy, want 1.0, 2.0 or 3.0", what, bytes[6],
                    bytes[7]);
    width = bytes[6] == 1 ? 2 : 4;
    for (size_t i = width; i > 0; i--)
        length = length << 8 | bytes[8 + i - 1];
    if (length > HEADER_MAX || length > size - 8 - width)
        return fail(ST_FORMAT, "%s: has a header of %zu bytes, want at most %zu", what, length,
                    size - 8 - width < HEADER_MAX ? size - 8 - width : HEADER_MAX);
    scan.at = (const char *)bytes + 8 + width;
    scan.end = scan.at + length;
    TRY(take_header(&scan));
    out->data = bytes + 8 + width + length;
    return fill(&scan, size - 8 - width - length, out);
}
