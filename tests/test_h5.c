/*
 * test_h5: what is written is read back, what h5py writes is read, and every hostile file of
 * tests/ref/hostile (make_hostile_h5.py) is refused with a sentence that names the thing.
 */
#include "weights/h5.h" // before cmocka.h, which has a macro `fail`

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <hdf5.h>

#define HOSTILE "tests/ref/hostile/"

static char folder[] = "/tmp/vitrine-h5-XXXXXX";

static const char *scratch(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(scratch("a.h5"));
    unlink(scratch("b.h5"));
    unlink(scratch("pipe"));
    return rmdir(folder);
}

static void ok(enum status st) {
    if (st != ST_OK) fail_msg("%s: %s", status_name(st), fail_message());
}

/* A refusal: its status, and words that its sentence must hold. */
static void refused(enum status st, enum status want, const char *words) {
    if (st == ST_OK) fail_msg("accepted, expected '%s'", words);
    if (st != want || !strstr(fail_message(), words))
        fail_msg("%s: '%s', expected %s: '%s'", status_name(st), fail_message(), status_name(want),
                 words);
}

static struct h5 *open_ref(const char *name) {
    char path[128];
    struct h5 *file = NULL;
    snprintf(path, sizeof path, HOSTILE "%s.h5", name);
    ok(h5_open(path, &file));
    return file;
}

/* Every element type, of every rank from 0 to TENSOR_MAX_RANK, written and read. */
static void test_round_trip_types(void **state) {
    uint8_t bytes[8 * 8], back[8 * 8];
    size_t dims[TENSOR_MAX_RANK] = {1, 2, 1, 2, 1, 2, 1, 1};
    struct h5 *file;
    char name[32];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i & 1);
    ok(h5_create(scratch("a.h5"), &file));
    ok(h5_make_group(file, "/deep/group"));
    for (int dtype = 0; dtype < DT_OTHER; dtype++) {
        for (int rank = 0; rank <= TENSOR_MAX_RANK; rank++) {
            snprintf(name, sizeof name, "/deep/group/%s.%d", dtype_name((enum dtype)dtype), rank);
            ok(h5_write(file, name, (enum dtype)dtype, rank, dims, bytes));
        }
    }
    refused(h5_write(file, "/deep/group/x", DT_F32, 9, dims, bytes), ST_USAGE, "9 dimensions");
    refused(h5_write(file, "/deep/group/x", DT_OTHER, 1, dims, bytes), ST_IO, "cannot be made");
    refused(h5_write(file, "/deep/group/fp32.1", DT_F32, 1, dims, bytes), ST_IO, "cannot be made");
    ok(h5_close(&file));
    assert_null(file);
    ok(h5_open(scratch("a.h5"), &file));
    for (int dtype = 0; dtype < DT_OTHER; dtype++) {
        for (int rank = 0; rank <= TENSOR_MAX_RANK; rank++) {
            struct h5_dataset info;
            size_t count = 1;
            snprintf(name, sizeof name, "/deep/group/%s.%d", dtype_name((enum dtype)dtype), rank);
            ok(h5_info(file, name, &info));
            assert_int_equal(info.dtype, dtype);
            assert_int_equal(info.rank, rank);
            assert_string_equal(info.name, name + strlen("/deep/group/"));
            for (int i = 0; i < rank; i++)
                count *= info.dims[i] == dims[i] ? dims[i] : 1000;
            mem_free(info.name);
            memset(back, 0xff, sizeof back);
            ok(h5_read_raw(file, name, (enum dtype)dtype, back, count));
            assert_memory_equal(back, bytes, count * dtype_size((enum dtype)dtype));
            refused(h5_read_raw(file, name, info.dtype, back, count + 1), ST_SHAPE, "elements");
            refused(h5_read_raw(file, name, dtype == DT_F32 ? DT_F64 : DT_F32, back, count),
                    ST_SHAPE, "expected fp");
        }
    }
    ok(h5_close(&file));
}

static void test_round_trip_attributes(void **state) {
    static const char *const texts[] = {"", "word", "a caf\xc3\xa9, \xf0\x9f\x90\x95",
                                        "two\nlines\t"};
    static const char *const bad[] = {"\x1b[2J", "\xff", "a\x7f", "\xc2\x9b"};
    const int pair[2] = {-5, 2147483647};
    const double triple[3] = {0.1, -1e300, 5e-324};
    char *long_text = mem_zalloc(65538, 1), *text;
    char **names;
    int ints[2];
    double reals[3];
    size_t count;
    struct h5 *file;
    (void)state;
    memset(long_text, 'x', 65537);
    ok(h5_create(scratch("a.h5"), &file));
    ok(h5_make_group(file, "/g"));
    ok(h5_set_int(file, "/", "int", 1));
    ok(h5_set_int(file, "/", "int", -7)); /* replaces */
    ok(h5_set_ints(file, "/g", "pair", 2, pair));
    ok(h5_set_double(file, "/g", "real", 0.1));
    ok(h5_set_doubles(file, "/g", "triple", 3, triple));
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        ok(h5_set_string(file, "/g", "text", texts[i]));
        ok(h5_get_string(file, "/g", "text", &text)); /* while the file is being written */
        assert_string_equal(text, texts[i]);
        mem_free(text);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        refused(h5_set_string(file, "/g", "text", bad[i]), ST_FORMAT, "control characters");
    refused(h5_set_string(file, "/g", "long", long_text), ST_FORMAT, "65537 bytes");
    long_text[65536] = 0;
    ok(h5_set_string(file, "/g", "long", long_text));
    refused(h5_set_int(file, "/none", "int", 1), ST_FORMAT, "/none: is missing");
    ok(h5_close(&file));
    ok(h5_open(scratch("a.h5"), &file));
    ok(h5_get_int(file, "/", "int", -10, 10, ints));
    assert_int_equal(ints[0], -7);
    ok(h5_get_ints(file, "/g", "pair", 2, -10, 2147483647, ints));
    assert_memory_equal(ints, pair, sizeof pair);
    ok(h5_get_double(file, "/g", "real", 0, 1, reals));
    assert_true(reals[0] == 0.1);
    ok(h5_get_doubles(file, "/g", "triple", 3, -1e301, 1, reals));
    assert_memory_equal(reals, triple, sizeof triple);
    ok(h5_get_string(file, "/g", "long", &text));
    assert_string_equal(text, long_text);
    mem_free(text);
    ok(h5_attribute_names(file, "/g", &names, &count));
    assert_int_equal(count, 5);
    assert_string_equal(names[0], "long");
    assert_string_equal(names[4], "triple");
    h5_free_names(names, count);
    assert_true(h5_has(file, "/") && h5_has(file, "/g") && !h5_has(file, "/h") &&
                !h5_has(file, "/g/h"));
    assert_true(h5_has_attribute(file, "/g", "real") && !h5_has_attribute(file, "/h", "real"));
    ok(h5_close(&file));
    mem_free(long_text);
}

static void test_strings_and_growing(void **state) {
    static const char *const strings[] = {"cat", "", "na\xc3\xafve dog", "cat"};
    static const char *const control[] = {"a", "b\x07"};
    enum { ROWS = 1000, COLUMNS = 300 };
    const size_t dims[2] = {99, COLUMNS};
    float *rows = mem_zalloc(ROWS * COLUMNS, sizeof *rows), *back = mem_zalloc(ROWS * COLUMNS, 4);
    char **read;
    size_t count;
    struct h5_dataset info;
    struct h5 *file;
    (void)state;
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        rows[i] = (float)i;
    ok(h5_create(scratch("a.h5"), &file));
    ok(h5_write_strings(file, "/s", strings, 4));
    ok(h5_write_strings(file, "/none", strings, 0));
    refused(h5_write_strings(file, "/c", control, 2), ST_FORMAT, "control characters");
    ok(h5_create_growing(file, "/f", DT_F32, 2, dims));
    ok(h5_create_growing(file, "/empty", DT_BF16, 1, dims));
    for (size_t at = 0, step = 1; at < ROWS;
         at += step, step = at + 1 < ROWS - at ? at + 1 : ROWS - at)
        ok(h5_append(file, "/f", step, rows + at * COLUMNS));
    refused(h5_append(file, "/g", 1, rows), ST_SHAPE, "/g: is missing");
    refused(h5_append(file, "/s", 1, rows), ST_IO, "cannot be written");
    ok(h5_close(&file));
    ok(h5_open(scratch("a.h5"), &file));
    ok(h5_info(file, "/f", &info));
    assert_int_equal(info.dims[0], ROWS);
    mem_free(info.name);
    ok(h5_read_f32(file, "/f", back, ROWS * COLUMNS));
    assert_memory_equal(back, rows, ROWS * COLUMNS * sizeof *rows);
    ok(h5_read_raw(file, "/empty", DT_BF16, back, 0));
    ok(h5_read_strings(file, "/s", 4, &read, &count));
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(read[i], strings[i]);
    h5_free_names(read, count);
    refused(h5_read_strings(file, "/s", 3, &read, &count), ST_FORMAT, "has 4 strings, at most 3");
    refused(h5_read_strings(file, "/f", 3, &read, &count), ST_SHAPE, "expected a list of strings");
    refused(h5_read_f32(file, "/s", back, 4), ST_SHAPE, "is a string");
    ok(h5_close(&file));
    mem_free(rows);
    mem_free(back);
}

/* Equal content is equal bytes: no times in the file. */
static void test_reproducible(void **state) {
    uint8_t *bytes[2];
    size_t size[2], dims[1] = {2};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const float values[2] = {1, 2};
        struct h5 *file;
        ok(h5_create(scratch(i ? "b.h5" : "a.h5"), &file));
        ok(h5_make_group(file, "/g"));
        ok(h5_write(file, "/g/x", DT_F32, 1, dims, values));
        ok(h5_set_string(file, "/g", "word", "w"));
        ok(h5_close(&file));
        if (i == 0) sleep(1);
    }
    for (int i = 0; i < 2; i++)
        ok(file_read(scratch(i ? "b.h5" : "a.h5"), 1 << 20, &bytes[i], &size[i]));
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    mem_free(bytes[0]);
    mem_free(bytes[1]);
}

/* What make_hostile_h5.py's good() wrote. */
static void check_good_attributes(struct h5 *file) {
    static const struct {
        const char *name, *value;
    } texts[] = {
        {"text", "a caf\xc3\xa9"}, {"bytes", "fixed"}, {"empty", ""}, {"lines", "one\n\ttwo"}};
    static const struct {
        const char *name;
        int count, values[2];
    } ints[] = {{"int", 1, {7}},
                {"big_endian_int", 1, {-7}},
                {"unsigned", 1, {200}},
                {"pair", 2, {224, 160}},
                {"one", 1, {5}}};
    double real, triple[3];
    int found[2];
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char *text;
        ok(h5_get_string(file, "/", texts[i].name, &text));
        assert_string_equal(text, texts[i].value);
        mem_free(text);
    }
    for (size_t i = 0; i < COUNT_OF(ints); i++) {
        ok(h5_get_ints(file, "/", ints[i].name, ints[i].count, -1000, 1000, found));
        assert_memory_equal(found, ints[i].values, (size_t)ints[i].count * sizeof(int));
    }
    ok(h5_get_double(file, "/", "real", 0, 1, &real));
    assert_true(real == 0.5);
    ok(h5_get_double(file, "/", "real32", 0, 1, &real));
    assert_true(real == 0.25);
    ok(h5_get_double(file, "/", "int", 0, 10, &real)); /* an integer where a number is due */
    assert_true(real == 7);
    ok(h5_get_doubles(file, "/", "triple", 3, 0, 1, triple));
    assert_true(triple[0] == 0.5 && triple[1] == 0.25 && triple[2] == 0.125);
}

static void check_good_data(struct h5 *file) {
    static const struct {
        const char *name;
        enum dtype dtype;
    } matrices[] = {
        {"float_le_f8", DT_F64}, {"float_le_f4", DT_F32}, {"float_le_f2", DT_F16},
        {"float_be_f8", DT_F64}, {"float_be_f4", DT_F32}, {"float_be_f2", DT_F16},
        {"bf16", DT_BF16},       {"bf16_bytes", DT_BF16}, {"gzip", DT_F32},
        {"chunked", DT_F32},     {"compact", DT_F32},
    };
    static const char *const lists[] = {"/p/strings", "/p/strings_fixed", "/p/strings_gzip"};
    float values[6];
    int64_t wide[2];
    uint8_t flags[3];
    struct h5_dataset *datasets, info;
    size_t count;
    char path[64];
    for (size_t i = 0; i < COUNT_OF(matrices); i++) {
        snprintf(path, sizeof path, "/p/%s", matrices[i].name);
        ok(h5_info(file, path, &info));
        assert_int_equal(info.dtype, matrices[i].dtype);
        assert_int_equal(info.rank, 2);
        mem_free(info.name);
        ok(h5_read_f32(file, path, values, 6));
        for (int k = 0; k < 6; k++)
            assert_true(values[k] == (float)k);
    }
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        static const char *const words[] = {"cat", "", "a na\xc3\xafve dog", "crane", "crane"};
        char **read;
        ok(h5_read_strings(file, lists[i], 5, &read, &count));
        assert_int_equal(count, 5);
        for (int k = 0; k < 5; k++)
            assert_string_equal(read[k], words[k]);
        h5_free_names(read, count);
    }
    ok(h5_read_raw(file, "/p/int64_be", DT_I64, wide, 2));
    assert_true(wide[0] == 1 && wide[1] == -2);
    ok(h5_read_raw(file, "/p/bool", DT_BOOL, flags, 3));
    assert_true(flags[0] == 1 && flags[1] == 0 && flags[2] == 1);
    ok(h5_read_f32(file, "/p/scalar", values, 1));
    assert_true(values[0] == 3);
    ok(h5_read_f32(file, "/p/nothing", values, 0));
    refused(h5_read_f32(file, "/p/uint16", values, 6), ST_SHAPE, "is an integer of 2 bytes");
    refused(h5_read_f32(file, "/p/uint16_said", values, 6), ST_SHAPE, "is an integer of 2");
    refused(h5_read_f32(file, "/p/inner", values, 6), ST_SHAPE, "is no dataset");
    ok(h5_list(file, "/p", &datasets, &count));
    assert_int_equal(count, COUNT_OF(matrices) + COUNT_OF(lists) + 6); /* "inner" is no dataset */
    for (size_t i = 1; i < count; i++)
        assert_true(strcmp(datasets[i - 1].name, datasets[i].name) < 0);
    h5_free_datasets(datasets, count);
}

static void test_h5py_files(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"good_earliest", "good_v110", "good_userblock"};
        struct h5 *file = open_ref(names[i]);
        check_good_attributes(file);
        check_good_data(file);
        ok(h5_close(&file));
    }
}

/*
 * The same out of memory: not copied (a change behind HDF5's back is seen), not written to, and two
 * images of one name are two files.
 */
static void test_memory(void **state) {
    enum { COUNT = 100000 };
    const size_t dims[1] = {COUNT};
    float *values = mem_zalloc(COUNT, sizeof *values);
    uint8_t *bytes, *copy;
    size_t size;
    struct h5 *first, *second;
    (void)state;
    ok(file_read(HOSTILE "good_userblock.h5", 1 << 20, &bytes, &size));
    copy = mem_zalloc(size, 1);
    memcpy(copy, bytes, size);
    ok(h5_open_memory(bytes, size, "embedded", &first));
    assert_string_equal(h5_name(first), "embedded");
    check_good_attributes(first);
    check_good_data(first);
    assert_memory_equal(bytes, copy, size);
    ok(h5_create(scratch("a.h5"), &second));
    ok(h5_write(second, "/x", DT_F32, 1, dims, values));
    ok(h5_close(&second));
    mem_free(copy);
    ok(file_read(scratch("a.h5"), 1 << 20, &copy, &size));
    ok(h5_open_memory(copy, size, "embedded", &second));
    memset(copy + size - COUNT * sizeof *values, 0x40, COUNT * sizeof *values); /* 3.0039... */
    ok(h5_read_f32(second, "/x", values, COUNT));
    assert_true(values[0] > 3 && values[0] == values[COUNT - 1]);
    ok(h5_close(&second));
    check_good_data(first);
    ok(h5_close(&first));
    ok(h5_close(&first)); /* NULL is nothing */
    mem_free(values);
    mem_free(bytes);
    mem_free(copy);
}

static void test_not_hdf5(void **state) {
    static const struct {
        const char *path, *words;
        enum status status;
    } rows[] = {
        {HOSTILE "empty.h5", "is empty, expected an HDF5 file", ST_FORMAT},
        {HOSTILE "html.h5", "is an HTML page", ST_FORMAT},
        {HOSTILE "zip.h5", "is a zip archive", ST_FORMAT},
        {HOSTILE "pickle.h5", "is a Python pickle", ST_FORMAT},
        {HOSTILE "gzip.h5", "is compressed by gzip", ST_FORMAT},
        {HOSTILE "safetensors.h5", "is a safetensors file", ST_FORMAT},
        {HOSTILE "lfs.h5", "is a Git LFS pointer", ST_FORMAT},
        {HOSTILE "text.h5", "is of an unknown kind", ST_FORMAT},
        {HOSTILE "one_byte.h5", "is of an unknown kind", ST_FORMAT},
        {HOSTILE "truncated.h5", "a damaged HDF5 file (truncated file: eof = ", ST_FORMAT},
        {HOSTILE "signature.h5", "a damaged HDF5 file", ST_FORMAT},
        {HOSTILE "superblock.h5", "a damaged HDF5 file", ST_FORMAT},
        {HOSTILE "none.h5", "none.h5: No such file or directory", ST_IO},
        {"", "No such file or directory", ST_IO},
        {"tests", "tests: is a directory, expected a file", ST_IO},
        {"/dev/null", "/dev/null: is no regular file", ST_IO},
    };
    struct h5 *file;
    uint8_t *bytes;
    size_t size;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        refused(h5_open(rows[i].path, &file), rows[i].status, rows[i].words);
        assert_null(file);
    }
    ok(file_read(HOSTILE "good_v110.h5", 1 << 20, &bytes, &size));
    for (size_t cut = 0; cut < size; cut += 97)
        refused(h5_open_memory(bytes, cut, "cut", &file), ST_FORMAT, "cut: ");
    mem_free(bytes);
    assert_int_equal(mkfifo(scratch("pipe"), 0600), 0);
    refused(h5_open(scratch("pipe"), &file), ST_IO, "is no regular file"); /* and does not wait */
    refused(h5_create("/none/x.h5", &file), ST_IO, "/none/x.h5: No such file or directory");
    refused(h5_create("tests", &file), ST_IO, "Is a directory");
}

enum action { INFO, READ, LIST, GET_INT, GET_REAL, GET_PAIR, GET_TEXT, STRINGS, NAMES };

/* object is a dataset, a group, or "attribute of the root". */
static enum status act(struct h5 *file, enum action action, const char *object) {
    static float values[64];
    struct h5_dataset info, *datasets;
    double real;
    int ints[2];
    char *text, **names;
    size_t count;
    enum status st = ST_OK;
    switch (action) {
    case INFO:
        st = h5_info(file, object, &info);
        if (st == ST_OK) mem_free(info.name);
        return st;
    case READ: return h5_read_f32(file, object, values, 6);
    case LIST:
        st = h5_list(file, object, &datasets, &count);
        if (st == ST_OK) h5_free_datasets(datasets, count);
        return st;
    case GET_INT: return h5_get_int(file, "/", object, 0, 10, ints);
    case GET_PAIR: return h5_get_ints(file, "/", object, 2, 0, 10, ints);
    case GET_REAL: return h5_get_double(file, "/", object, -1e300, 1e300, &real);
    case GET_TEXT:
        st = h5_get_string(file, "/", object, &text);
        if (st == ST_OK) mem_free(text);
        return st;
    case STRINGS: st = h5_read_strings(file, object, 100000, &names, &count); break;
    case NAMES: st = h5_attribute_names(file, object, &names, &count); break;
    }
    if (st == ST_OK) h5_free_names(names, count);
    return st;
}

static const struct {
    const char *file;
    enum action action;
    const char *object, *words;
    enum status status;
} hostile_rows[] = {
    {"links", READ, "/external", "/external: is an external link", ST_FORMAT},
    {"links", LIST, "/group", "/group: is an external link", ST_FORMAT},
    {"links", READ, "/group/x", "/group: is an external link", ST_FORMAT},
    {"links", NAMES, "/group", "/group: is an external link", ST_FORMAT},
    {"links", LIST, "/file", "/file: is an external link", ST_FORMAT},
    {"links", READ, "/soft", "/soft: is a soft link", ST_FORMAT},
    {"links", READ, "/loop", "/loop: is a soft link", ST_FORMAT},
    {"links", READ, "/loop/loop", "/loop: is a soft link", ST_FORMAT},
    {"links", READ, "/dangling", "/dangling: is a soft link", ST_FORMAT},
    {"links", READ, "/out", "/out: is a soft link", ST_FORMAT},
    {"links", LIST, "/g", "/g/e: is an external link", ST_FORMAT},
    {"links", READ, "/w/w", "/w/w: is missing", ST_SHAPE},
    {"links", READ, "w", "no path", ST_USAGE},
    {"links", LIST, "/w", "/w: is no group", ST_FORMAT},
    {"links", LIST, "/none", "/none: is missing", ST_FORMAT},
    {"virtual", READ, "/w", "/w: is a virtual dataset", ST_FORMAT},
    {"virtual", LIST, "/", "/w: is a virtual dataset", ST_FORMAT},
    {"external_data", READ, "/w", "/w: its data are in another file", ST_FORMAT},
    {"external_data", READ, "/passwd", "/passwd: its data are in another file", ST_FORMAT},
    {"filter_lzf", READ, "/w", "/w: filter 32000 is used", ST_FORMAT},
    {"filter_fletcher32", READ, "/w", "/w: filter 3 is used", ST_FORMAT},
    {"filter_scaleoffset", READ, "/w", "/w: filter 6 is used", ST_FORMAT},
    {"shapes", READ, "/rank9", "/rank9: has 9 dimensions", ST_FORMAT},
    {"shapes", READ, "/null", "/null: holds no elements", ST_FORMAT},
    {"shapes", READ, "/list", "/list: is (2), expected 6 elements", ST_SHAPE},
    {"shapes", READ, "/not_written", "0 bytes are stored, expected 4000000", ST_FORMAT},
    {"shapes", READ, "/sparse", "4294967296 cannot come of them", ST_FORMAT},
    {"shapes", READ, "/chunk", "chunks of 1073741824 bytes, but 24", ST_FORMAT},
    {"shapes", STRINGS, "/list", "is fp32 of 4 bytes, expected a list of strings", ST_SHAPE},
    {"grown", INFO, "/w", "24 bytes are stored, expected 1572864", ST_FORMAT},
    {"overflow", INFO, "/w", "multiply beyond any memory", ST_FORMAT},
    {"grown_chunked", INFO, "/w", "24 bytes are stored, 1572864 cannot come of", ST_FORMAT},
    {"overflow_chunked", INFO, "/w", "multiply beyond any memory", ST_FORMAT},
    {"long_name", LIST, "/g", "/g: a name of 513 bytes", ST_FORMAT},
    {"control_name", LIST, "/g", "/g: a name of 4 bytes, expected", ST_FORMAT},
    {"bad_utf8_name", LIST, "/g", "/g: a name of 2 bytes, expected", ST_FORMAT},
    {"attributes", GET_INT, "none", "/: attribute none is missing", ST_FORMAT},
    {"attributes", GET_REAL, "nan", "attribute nan is nan, expected -1e+300", ST_FORMAT},
    {"attributes", GET_REAL, "inf", "attribute inf is inf", ST_FORMAT},
    {"attributes", GET_INT, "huge", "9223372036854775807, expected 0 to 10", ST_FORMAT},
    {"attributes", GET_INT, "word", "is a string of 8 bytes, expected an integer", ST_FORMAT},
    {"attributes", GET_INT, "real", "is a floating-point number of 8 bytes", ST_FORMAT},
    {"attributes", GET_INT, "flag", "is an enumeration of 1 bytes", ST_FORMAT},
    {"attributes", GET_INT, "nothing", "has 0 elements", ST_FORMAT},
    {"attributes", GET_INT, "compound", "is a compound", ST_FORMAT},
    {"attributes", GET_PAIR, "triple", "has 3 elements in 1 dimensions, expected 2", ST_FORMAT},
    {"attributes", GET_PAIR, "matrix", "has 2 elements in 2 dimensions", ST_FORMAT},
    {"attributes", GET_REAL, "matrix", "has 2 elements in 2 dimensions, expected 1", ST_FORMAT},
    {"attributes", GET_REAL, "word", "is a string of 8 bytes, expected a number", ST_FORMAT},
    {"attributes", GET_TEXT, "real", "is a floating-point number, expected a str", ST_FORMAT},
    {"attributes", GET_TEXT, "nul", "is of an unknown type, expected a string", ST_FORMAT},
    {"attributes", GET_TEXT, "words", "has 2 elements", ST_FORMAT},
    {"attributes", GET_TEXT, "escape", "control characters", ST_FORMAT},
    {"attributes", GET_TEXT, "c1", "control characters", ST_FORMAT},
    {"attributes", GET_TEXT, "fixed_nul", "control characters", ST_FORMAT},
    {"attributes", GET_TEXT, "latin1", "not in UTF-8", ST_FORMAT},
    {"attributes", GET_TEXT, "surrogate", "not in UTF-8", ST_FORMAT},
    {"attributes", GET_TEXT, "overlong", "not in UTF-8", ST_FORMAT},
    {"string_4gib", GET_TEXT, "s", "/: attribute s: a string of 4294967280 bytes", ST_FORMAT},
    {"string_4gib", STRINGS, "/d", "/d: a string of 4294967280 bytes", ST_FORMAT},
    {"string_60k", GET_TEXT, "s", "a string of 60000 bytes", ST_FORMAT},
    {"string_longer", GET_TEXT, "s", "points at nothing in its heap", ST_FORMAT},
    {"string_longer", STRINGS, "/d", "points at nothing in its heap", ST_FORMAT},
    {"string_outside", GET_TEXT, "s", "points behind the end of the file", ST_FORMAT},
    {"string_outside", STRINGS, "/d", "points behind the end of the file", ST_FORMAT},
    {"string_no_heap", GET_TEXT, "s", "points at no heap", ST_FORMAT},
    {"string_no_object", GET_TEXT, "s", "points at nothing in its heap", ST_FORMAT},
    {"string_object_0", GET_TEXT, "s", "points at nothing in its heap", ST_FORMAT},
    {"heap_object_huge", GET_TEXT, "s", "points at nothing in its heap", ST_FORMAT},
    {"heap_huge", GET_TEXT, "s", "points at no heap", ST_FORMAT},
    {"string_bomb", STRINGS, "/d", "strings longer than the file", ST_FORMAT},
};

static void test_hostile(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(hostile_rows); i++) {
        struct h5 *file = open_ref(hostile_rows[i].file);
        enum status st = act(file, hostile_rows[i].action, hostile_rows[i].object);
        refused(st, hostile_rows[i].status, hostile_rows[i].words);
        assert_memory_equal(fail_message(), HOSTILE, strlen(HOSTILE));
        ok(h5_close(&file));
    }
}

/* Types that no reader takes are listed as such, and refused by name when read. */
static void test_other_types(void **state) {
    static const char *const names[] = {"/compound", "/reference", "/vlen", "/odd_float", "/texts"};
    struct h5 *file = open_ref("shapes");
    struct h5_dataset info;
    float values[6];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        ok(h5_info(file, names[i], &info));
        assert_int_equal(info.dtype, DT_OTHER);
        refused(h5_read_f32(file, names[i], values, info.dims[0]), ST_SHAPE, "expected fp32");
        mem_free(info.name);
    }
    ok(h5_close(&file));
}

/* What would be too large to keep in the tree: 65537 links, an attribute of 70000 bytes. */
static void test_too_many(void **state) {
    hsize_t large[1] = {70000};
    uint8_t *zeros = mem_zalloc(70000, 1);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), id, group, space, attribute;
    struct h5 *file;
    char *text;
    (void)state;
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    id = H5Fcreate(scratch("a.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    group = H5Gcreate2(id, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i <= 65536; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        H5Lcreate_soft("/g", group, name, H5P_DEFAULT, H5P_DEFAULT);
    }
    space = H5Screate_simple(1, large, NULL);
    attribute = H5Acreate2(group, "large", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(attribute >= 0 && H5Awrite(attribute, H5T_STD_U8LE, zeros) >= 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Gclose(group);
    H5Fclose(id);
    H5Pclose(access);
    mem_free(zeros);
    ok(h5_open(scratch("a.h5"), &file));
    refused(act(file, LIST, "/g"), ST_FORMAT, "/g: more than 65536 entries");
    refused(h5_get_string(file, "/g", "large", &text), ST_FORMAT, "has 70000 bytes");
    ok(h5_close(&file));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_types),
        cmocka_unit_test(test_round_trip_attributes),
        cmocka_unit_test(test_strings_and_growing),
        cmocka_unit_test(test_reproducible),
        cmocka_unit_test(test_h5py_files),
        cmocka_unit_test(test_memory),

        cmocka_unit_test(test_not_hdf5),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests_name("h5", tests, make_folder, remove_folder);
}
