/* arrays: every form written, then read back byte by byte or through HDF5. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/arrays.h"
#include "weights/h5.h"

#include <cmocka.h>
#undef fail /* base.h's */

static char *slurp(const char *path, size_t *size) {
    uint8_t *bytes = NULL;
    assert_int_equal(file_read(path, 1 << 20, &bytes, size), ST_OK);
    bytes = realloc(bytes, *size + 1);
    bytes[*size] = 0;
    return (char *)bytes;
}

/* Three rows of (2, 3): numbers, a failure, numbers. */
static enum status write_rows(const char *path, size_t expected, enum status done) {
    static const float first[6] = {0, 1, 2, 3, 4, 0.1f}, last[6] = {-1, -2, -3, -4, -5, 1e-30f};
    const size_t dims[2] = {2, 3};
    struct arrays arrays;
    enum array_format format;
    assert_true(arrays_format(path, &format));
    assert_int_equal(arrays_open(&arrays, path, format, 2, dims, expected), ST_OK);
    assert_int_equal(arrays_row(&arrays, "a.png", first, NULL), ST_OK);
    assert_int_equal(arrays_row(&arrays, "b,\"x\ty.png", NULL, "is empty"), ST_OK);
    assert_int_equal(arrays_row(&arrays, "c\xff.png", last, NULL), ST_OK);
    return arrays_close(&arrays, done);
}

static void test_npy(void **state) {
    size_t size;
    char *text;
    const float *values;
    (void)state;
    /* The header said 5 rows: the shape is corrected. */
    assert_int_equal(write_rows("build/tests/arrays.npy", 5, ST_OK), ST_OK);
    text = slurp("build/tests/arrays.npy", &size);
    assert_memory_equal(text, "\x93NUMPY\x01\x00", 8);
    size_t header = 10 + (size_t)(unsigned char)text[8] + 256 * (size_t)(unsigned char)text[9];
    assert_int_equal(header % 64, 0);
    assert_int_equal(size, header + 3 * 6 * sizeof(float));
    assert_non_null(strstr(text + 10, "'shape': (3, 2, 3,)"));
    assert_int_equal(text[header - 1], '\n');
    values = (const float *)(const void *)(text + header);
    assert_true(values[5] == 0.1f && isnan(values[6]) && isnan(values[11]) && values[17] == 1e-30f);
    free(text);
    text = slurp("build/tests/arrays.npy.tsv", &size);
    assert_string_equal(text, "row\tpath\tstatus\tmessage\n0\ta.png\tok\t\n"
                              "1\tb,\"x\\ty.png\terror\tis empty\n2\tc\xff.png\tok\t\n");
    free(text);
}

static void test_h5(void **state) {
    struct h5 *file = NULL;
    struct h5_dataset info;
    float values[18];
    char **paths = NULL;
    size_t count;
    (void)state;
    assert_int_equal(write_rows("build/tests/arrays.h5", 3, ST_OK), ST_OK);
    assert_int_equal(h5_open("build/tests/arrays.h5", &file), ST_OK);
    assert_int_equal(h5_info(file, "/data", &info), ST_OK);
    assert_true(info.rank == 3 && info.dims[0] == 3 && info.dims[1] == 2 && info.dims[2] == 3);
    mem_free(info.name);
    assert_int_equal(h5_read_f32(file, "/data", values, 18), ST_OK);
    assert_true(values[5] == 0.1f && isnan(values[6]) && values[17] == 1e-30f);
    assert_int_equal(h5_read_strings(file, "/path", 100, &paths, &count), ST_OK);
    assert_int_equal(count, 3);
    assert_string_equal(paths[1], "b,\"x\\x09y.png"); /* what HDF5's UTF-8 cannot hold */
    assert_string_equal(paths[2], "c\\xFF.png");
    h5_free_names(paths, count);
    assert_int_equal(h5_close(&file), ST_OK);
}

static void test_tables(void **state) {
    size_t size;
    char *text;
    (void)state;
    assert_int_equal(write_rows("build/tests/arrays.csv", 3, ST_OK), ST_OK);
    text = slurp("build/tests/arrays.csv", &size);
    assert_string_equal(text, "path,status,message,c0,c1,c2,c3,c4,c5\n"
                              "a.png,ok,,0,1,2,3,4,0.100000001\n"
                              "\"b,\"\"x\ty.png\",error,is empty,,,,,,\n"
                              "c\xff.png,ok,,-1,-2,-3,-4,-5,1e-30\n");
    free(text);
}

/* A run that fails leaves nothing under the final name. */
static void test_failed(void **state) {
    static const char *const paths[] = {"build/tests/never.npy", "build/tests/never.h5",
                                        "build/tests/never.csv"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(write_rows(paths[i], 3, fail(ST_DEVICE, "stopped")), ST_DEVICE);
        assert_null(fopen(paths[i], "r"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_npy), cmocka_unit_test(test_h5),
                                       cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
