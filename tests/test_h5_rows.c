/* test_h5_rows: parts of a dataset: every block of rows, integers of every width, refusals. */
#include "weights/h5.h" // before cmocka.h, which has a macro `fail`

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hdf5.h>

enum { ROWS = 7, ROW = 6 };

static char path[] = "/tmp/vitrine-h5-rows-XXXXXX";
static struct h5 *file;

/* A list of ROWS integers -1, 0, 1, ... of an HDF5 type. */
static int put_list(hid_t id, const char *name, hid_t type, const int64_t *values) {
    const hsize_t dims[] = {ROWS};
    const hid_t space = H5Screate_simple(1, dims, NULL);
    const hid_t set = H5Dcreate2(id, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const int failed =
        set < 0 || H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0;
    H5Dclose(set);
    H5Sclose(space);
    return failed;
}

static const struct {
    const char *name;
    int64_t last; /* as it comes back of 2^62 */
} lists[] = {{"/i8", 127},
             {"/u8", 255},
             {"/i16be", 32767},
             {"/u16", 65535},
             {"/u32be", 4294967295},
             {"/i64", (int64_t)1 << 62},
             {"/u64", (int64_t)1 << 62}};

/* The data of a dataset in one piece are said to lie just before the end of the file. */
static int move_to_end(const char *name) {
    static uint8_t bytes[1 << 20];
    const hid_t id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t set = H5Dopen2(id, name, H5P_DEFAULT);
    const uint64_t from = H5Dget_offset(set);
    FILE *raw = fopen(path, "r+b");
    const size_t size = raw ? fread(bytes, 1, sizeof bytes, raw) : 0;
    const uint64_t to = size - 8;
    int found = 0;
    H5Dclose(set);
    H5Fclose(id);
    for (size_t i = 0; i + 8 <= size; i++) {
        if (memcmp(bytes + i, &from, 8) != 0) continue;
        found++;
        memcpy(bytes + i, &to, 8);
    }
    if (raw) rewind(raw);
    return found != 1 || fwrite(bytes, 1, size, raw) != size || fclose(raw) != 0;
}

static int make_file(void **state) {
    static uint8_t pixels[ROWS * ROW];
    static const size_t dims[] = {ROWS, 2, 3}, none[] = {0, 2, 3};
    static const int64_t values[ROWS] = {0, 1, 2, 3, 4, 5, (int64_t)1 << 62};
    static const float floats[ROWS] = {0};
    const hid_t types[] = {H5T_STD_I8LE,  H5T_STD_U8LE,  H5T_STD_I16BE, H5T_STD_U16LE,
                           H5T_STD_U32BE, H5T_STD_I64LE, H5T_STD_U64LE};
    int failed = 0;
    (void)state;
    close(mkstemp(path));
    for (int i = 0; i < ROWS * ROW; i++)
        pixels[i] = (uint8_t)i;
    if (h5_create(path, &file) != ST_OK || h5_write(file, "/whole", DT_U8, 3, dims, pixels) ||
        h5_create_growing(file, "/chunks", DT_U8, 3, dims) ||
        h5_append(file, "/chunks", ROWS, pixels) ||
        h5_write(file, "/none", DT_U8, 3, none, pixels) ||
        h5_write(file, "/astray", DT_U8, 3, dims, pixels) ||
        h5_write(file, "/floats", DT_F32, 1, dims, floats) ||
        h5_write(file, "/scalar", DT_U8, 0, dims, pixels) || h5_close(&file) != ST_OK)
        return 1;
    const hid_t id = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        failed |= put_list(id, lists[i].name, types[i], values);
    const hid_t odd = H5Tcopy(H5T_STD_I32LE);
    H5Tset_precision(odd, 20);
    failed |= put_list(id, "/odd", odd, values);
    H5Tclose(odd);
    H5Fclose(id);
    failed |= move_to_end("/astray");
    return failed || h5_open(path, &file) != ST_OK;
}

static int drop_file(void **state) {
    (void)state;
    return h5_close(&file) != ST_OK || unlink(path) != 0;
}

static void test_rows(void **state) {
    static const char *const names[] = {"/whole", "/chunks"};
    (void)state;
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        for (size_t first = 0; first <= ROWS; first++) {
            for (size_t rows = 0; first + rows <= ROWS; rows++) {
                uint8_t got[ROWS * ROW + 1];
                memset(got, 0xee, sizeof got);
                assert_int_equal(h5_read_rows(file, names[n], DT_U8, first, rows, got), ST_OK);
                for (size_t i = 0; i < rows * ROW; i++)
                    assert_int_equal(got[i], first * ROW + i);
                assert_int_equal(got[rows * ROW], 0xee);
            }
        }
    }
}

static void test_integers(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        int64_t got[ROWS];
        if (h5_read_integers(file, lists[i].name, 2, ROWS - 2, got) != ST_OK)
            fail_msg("%s: %s", lists[i].name, fail_message());
        for (int64_t n = 0; n < 4; n++)
            assert_int_equal(got[n], n + 2);
        assert_int_equal(got[4], lists[i].last);
    }
}

static const struct {
    const char *what, *name;
    bool integers;
    size_t first, rows;
    enum status status;
    const char *words;
} bad[] = {
    {"a row too many", "/whole", false, 1, ROWS, ST_USAGE, "rows 1 to 8 of 7"},
    {"behind the end", "/whole", false, 8, 0, ST_USAGE, "rows 8 to 8 of 7"},
    {"rows that wrap around", "/whole", false, 1, SIZE_MAX, ST_USAGE, "of 7"},
    {"a row of none", "/none", false, 0, 1, ST_USAGE, "rows 0 to 1 of 0"},
    {"a row of a scalar", "/scalar", false, 0, 1, ST_USAGE, "of 0"},
    {"another type", "/floats", false, 0, 1, ST_SHAPE, "is fp32 of 4 bytes, expected uint8"},
    {"not there", "/gone", false, 0, 1, ST_SHAPE, "is missing"},
    {"a group", "/", false, 0, 1, ST_SHAPE, "is no dataset"},
    {"floats as integers", "/floats", true, 0, 1, ST_SHAPE, "expected a list of integers"},
    {"integers that are no list", "/whole", true, 0, 1, ST_SHAPE, "expected a list of integers"},
    {"integers of 20 bits", "/odd", true, 0, 1, ST_SHAPE, "expected a list of integers"},
    {"data behind the end", "/astray", false, 0, 1, ST_FORMAT, "points behind the end of the file"},
    {"integers behind the end", "/i8", true, 7, 1, ST_USAGE, "rows 7 to 8 of 7"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int64_t got[ROWS * ROW];
        const enum status st =
            bad[i].integers
                ? h5_read_integers(file, bad[i].name, bad[i].first, bad[i].rows, got)
                : h5_read_rows(file, bad[i].name, DT_U8, bad[i].first, bad[i].rows, got);
        if (st != bad[i].status || !strstr(fail_message(), bad[i].words))
            fail_msg("%s: %s: '%s'", bad[i].what, status_name(st), fail_message());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
