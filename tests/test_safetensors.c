/*
 * test_safetensors: files built from a header text and a number of tensor bytes; good ones give
 * their tensors, each bad one is refused with the sentence of its own fault.
 */
#include "weights/checkpoint.h" // before cmocka.h, which has a macro `fail`
#include "weights/safetensors.h"
#include "weights/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A file in fresh memory: u64 length | header | data bytes 0, 1, 2, ... */
static uint8_t *build(const char *header, uint64_t length, size_t data, size_t *size) {
    size_t header_size = strlen(header);
    *size = 8 + header_size + data;
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
    memcpy(bytes + 8, header, header_size);
    for (size_t i = 0; i < data; i++)
        bytes[8 + header_size + i] = (uint8_t)i;
    return bytes;
}

static void release(struct tensor *tensors, size_t count) {
    for (size_t i = 0; i < count; i++)
        mem_free(tensors[i].name);
    mem_free(tensors);
}

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}}"
#define A04 "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"

static const struct {
    const char *what, *header;
    size_t data;
    size_t count;      /* tensors */
    const char *last;  /* the last name, sorted */
    const char *shape; /* of the last */
    enum dtype dtype;  /* of the last */
    unsigned first;    /* its first byte; 999 = it has none */
} good[] = {
    {"the minimal file", ONE("F32", "1", "0,4"), 4, 1, "a", "(1)", DT_F32, 0},
    {"trailing blanks", "{" A04 "}      ", 4, 1, "a", "(1)", DT_F32, 0},
    {"blanks between",
     "{ \"a\" : {\"dtype\": \"F16\", \"shape\": [ 2 ], \"data_offsets\": [0, 4]}\n}", 4, 1, "a",
     "(2)", DT_F16, 0},
    {"no tensor", "{}", 0, 0, NULL, NULL, DT_F32, 0},
    {"metadata only", "{\"__metadata__\":{\"format\":\"pt\"}}", 0, 0, NULL, NULL, DT_F32, 0},
    {"metadata and a tensor", "{\"__metadata__\":{}," A04 "}", 4, 1, "a", "(1)", DT_F32, 0},
    {"a scalar", ONE("F64", "", "0,8"), 8, 1, "a", "()", DT_F64, 0},
    {"a size of zero", ONE("BF16", "3,0", "0,0"), 0, 1, "a", "(3, 0)", DT_BF16, 999},
    {"a huge shape around a zero", ONE("I64", "9007199254740992,0", "0,0"), 0, 1, "a",
     "(9007199254740992, 0)", DT_I64, 999},
    {"order of keys and offsets free",
     "{\"z\":{\"shape\":[2],\"data_offsets\":[0,2],\"dtype\":\"U8\"},"
     "\"b\":{\"data_offsets\":[2,4],\"dtype\":\"BOOL\",\"shape\":[2,1]}}",
     4, 2, "z", "(2)", DT_U8, 0},
    {"empty tensors between",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]},"
     "\"c\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}",
     5, 3, "c", "(3)", DT_U8, 2},
    {"a type vitrine has no name for", ONE("F8_E4M3", "4", "0,4"), 4, 1, "a", "(4)", DT_OTHER, 0},
    {"four-bit values that end on a byte", ONE("F4", "2,2", "0,2"), 2, 1, "a", "(2, 2)", DT_OTHER,
     0},
    {"a name with escapes and UTF-8",
     "{\"\\u00e4/\xc3\xb6\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 1,
     "\xc3\xa4/\xc3\xb6", "(1)", DT_I8, 0},
    {"an unknown key in an entry",
     "{\"a\":{\"dtype\":\"I16\",\"x\":\"y\",\"shape\":[1],\"data_offsets\":[0,2]}}", 2, 1, "a",
     "(1)", DT_I16, 0},
    {"eight dimensions", ONE("U8", "1,1,1,1,1,1,1,2", "0,2"), 2, 1, "a", "(1, 1, 1, 1, 1, 1, 1, 2)",
     DT_U8, 0},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct tensor *tensors = NULL;
        size_t count = 0, size;
        char text[128];
        uint8_t *bytes = build(good[i].header, strlen(good[i].header), good[i].data, &size);
        enum status st = safetensors_parse(bytes, size, "file", &tensors, &count);
        if (st != ST_OK) print_message("%s: %s\n", good[i].what, fail_message());
        assert_int_equal(st, ST_OK);
        assert_int_equal(count, good[i].count);
        if (count) {
            const struct tensor *last = &tensors[count - 1];
            assert_string_equal(last->name, good[i].last);
            assert_string_equal(shape_text(last->dims, last->rank, text, sizeof text),
                                good[i].shape);
            assert_int_equal(last->dtype, good[i].dtype);
            if (good[i].first != 999) assert_int_equal(last->data[0], good[i].first);
        }
        release(tensors, count);
        free(bytes);
    }
}

static const struct {
    const char *what, *header;
    size_t data;
    const char *says; /* part of the sentence */
} bad[] = {
    {"no JSON", "hello", 0, "only whole numbers"},
    {"a list", "[]", 0, "not a JSON object"},
    {"cut JSON", "{\"a\":{", 0, "not a JSON object"},
    {"an open string", "{\"a", 0, "does not end"},
    {"text after the object", "{}{}", 0, "not a JSON object"},
    {"a missing comma", "{" A04 " " A04 "}", 8, "not a JSON object"},
    {"deep nesting", "{\"a\":[[[[[[[[[[[[]]]]]]]]]]]]}", 0, "nests deeper"},
    {"no UTF-8", "{\"\xff\":1}", 0, "not UTF-8"},
    {"an overlong slash", "{\"\xc0\xaf\":1}", 0, "not UTF-8"},
    {"a surrogate in UTF-8", "{\"\xed\xa0\x80\":1}", 0, "not UTF-8"},
    {"a lone surrogate escape", "{\"\\ud800\":1}", 0, "not a JSON object"},
    {"a NUL in a name", "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0, "a NUL"},
    {"a line end in a name", "{\"a\nb\":1}", 0, "control character"},
    {"a fraction", ONE("U8", "1.0", "0,1"), 1, "only whole numbers"},
    {"an exponent", ONE("U8", "1e3", "0,1"), 1, "only whole numbers"},
    {"a negative size", ONE("U8", "-1", "0,1"), 1, "only whole numbers"},
    {"a word for a size", ONE("U8", "true", "0,1"), 1, "only whole numbers"},
    {"an offset beyond 2^53", ONE("U8", "1", "0,9007199254740993"), 1, "offsets"},
    {"an offset of 2^64", ONE("U8", "1", "0,18446744073709551616"), 1, "beyond 2^53"},
    {"an entry that is a number", "{\"a\":1}", 0, "is no tensor"},
    {"an entry that is a list", "{\"a\":[]}", 0, "is no tensor"},
    {"no dtype", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "no dtype"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "no shape"},
    {"no offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "no data_offsets"},
    {"dtype twice",
     "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "dtype twice"},
    {"a number for dtype", "{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "no word"},
    {"an unknown dtype", ONE("F31", "1", "0,4"), 4, "a has the unknown dtype F31"},
    {"a shape that is a number", "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1,
     "no list"},
    {"a string in a shape", ONE("U8", "\"1\"", "0,1"), 1, "what is no size"},
    {"nine dimensions", ONE("U8", "1,1,1,1,1,1,1,1,1", "0,1"), 1, "more than 8"},
    {"one offset", ONE("U8", "1", "0"), 1, "not two offsets"},
    {"three offsets", ONE("U8", "1", "0,1,2"), 1, "not two offsets"},
    {"offsets backward", ONE("U8", "1", "1,0"), 1, "end before they begin"},
    {"too few bytes for the shape", ONE("F32", "2", "0,4"), 4, "needs 8 bytes, its offsets give 4"},
    {"too many bytes for the shape", ONE("F32", "1", "0,8"), 8,
     "needs 4 bytes, its offsets give 8"},
    {"a product that overflows", ONE("F32", "4294967296,4294967296,4294967296", "0,0"), 0,
     "overflows"},
    {"bits that overflow", ONE("F64", "9007199254740992,1024", "0,0"), 0, "overflows"},
    {"half a byte", ONE("F4", "3", "0,1"), 1, "does not end on a byte"},
    {"a hole in front", ONE("U8", "1", "1,2"), 2, "a hole"},
    {"a hole between",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
     3, "a hole"},
    {"an overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "overlap"},
    {"the same bytes twice",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
     2, "overlap"},
    {"a cut file", ONE("F32", "1", "0,4"), 3, "cut short"},
    {"a byte too many", ONE("F32", "1", "0,4"), 5, "1 bytes after the last tensor"},
    {"bytes without a tensor", "{}", 1, "1 bytes after the last tensor"},
    {"a name twice", "{" A04 ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
     "tensor a is there twice"},
    {"an empty tensor twice",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0, "tensor a is there twice"},
    {"metadata that is a list", "{\"__metadata__\":[]}", 0, "__metadata__ is no object"},
    {"metadata of numbers", "{\"__metadata__\":{\"a\":1}}", 0, "is no string"},
    {"a metadata key twice", "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "twice"},
    {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tensor *tensors = NULL;
        size_t count = 0, size;
        uint8_t *bytes = build(bad[i].header, strlen(bad[i].header), bad[i].data, &size);
        enum status st = safetensors_parse(bytes, size, "file", &tensors, &count);
        bool said =
            st != ST_OK && strstr(fail_message(), bad[i].says) && strstr(fail_message(), "file: ");
        if (!said) print_message("%s: status %d, \"%s\"\n", bad[i].what, st, fail_message());
        assert_true(said);
        assert_null(tensors);
        free(bytes);
    }
}

/* The length in front: past the end, past the limit, and files shorter than it. */
static void test_length(void **state) {
    static const struct {
        uint64_t length;
        const char *says;
    } rows[] = {{UINT64_MAX, "at most 33554432"}, {33554433, "at most 33554432"},
                {33554432, "in a file of"},       {1000, "in a file of"},
                {UINT64_MAX - 7, "at most"},      {0, "not a JSON object"},
                {1, "not a JSON object"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tensor *tensors = NULL;
        size_t count = 0, size;
        uint8_t *bytes = build(ONE("F32", "1", "0,4"), rows[i].length, 4, &size);
        assert_int_not_equal(safetensors_parse(bytes, size, "file", &tensors, &count), ST_OK);
        assert_non_null(strstr(fail_message(), rows[i].says));
        for (size_t cut = 0; cut < 8; cut++) {
            assert_int_equal(safetensors_parse(bytes, cut, "file", &tensors, &count), ST_FORMAT);
            assert_non_null(strstr(fail_message(), "no safetensors file"));
        }
        free(bytes);
    }
}

/* Tensors of no bytes: as many as are taken, and one more, which is said before any is made. */
static void test_count(void **state) {
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        const size_t wanted = TENSORS_MAX + more, room = wanted * 80 + 8;
        char *header = malloc(room);
        size_t used = 1, size, count = 0;
        struct tensor *tensors = NULL;
        assert_non_null(header);
        header[0] = '{';
        for (size_t i = 0; i < wanted; i++)
            used += (size_t)snprintf(
                header + used, room - used,
                "%s\"%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "",
                i);
        if (more) /* metadata has its own place, no tensor's */
            used += (size_t)snprintf(header + used, room - used, ",\"__metadata__\":{}");
        snprintf(header + used, room - used, "}");
        uint8_t *bytes = build(header, used + 1, 0, &size);
        enum status st = safetensors_parse(bytes, size, "file", &tensors, &count);
        assert_int_equal(st, more ? ST_NOMEM : ST_OK);
        if (more) assert_non_null(strstr(fail_message(), "lists more than 65536 tensors"));
        if (!more) assert_int_equal(count, TENSORS_MAX);
        release(tensors, count);
        free(bytes);
        free(header);
    }
}

/* Every cut of a good file is refused; none reads past the end (the sanitizers look on). */
static void test_every_cut(void **state) {
    size_t size;
    uint8_t *bytes = build("{" A04 ",\"__metadata__\":{\"k\":\"v\"}}",
                           strlen("{" A04 ",\"__metadata__\":{\"k\":\"v\"}}"), 4, &size);
    (void)state;
    for (size_t cut = 0; cut < size; cut++) {
        struct tensor *tensors = NULL;
        size_t count = 0;
        uint8_t *copy = malloc(cut ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_int_not_equal(safetensors_parse(copy, cut, "file", &tensors, &count), ST_OK);
        free(copy);
    }
    char *value = safetensors_metadata(bytes, size, "k");
    assert_string_equal(value, "v");
    mem_free(value);
    assert_null(safetensors_metadata(bytes, size, "other"));
    free(bytes);
}

#define FILE_TEXT(text) text, sizeof(text) - 1

/* What a file is that is no safetensors. */
static void test_foreign(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } rows[] = {
        {FILE_TEXT(""), "is empty"},
        {FILE_TEXT("\x89HDF\r\n\x1a\n........"), "a damaged HDF5 file"},
        {FILE_TEXT("PK\x03\x04....archive/data.pkl....."), "a zip archive without its end"},
        {FILE_TEXT("PK\x03\x04....cls.npy........"), "a zip archive without its end"},
        {FILE_TEXT("PK\x03\x04....readme.txt....."), "a zip archive"},
        {FILE_TEXT("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9 "), "a Python pickle, and none of"},
        {FILE_TEXT("\x80\x05K\x01."), "a Python pickle, and none of torch.save"},
        {FILE_TEXT("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."), "cut short"},
        {FILE_TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"),
         "a Git LFS pointer"},
        {FILE_TEXT("<!DOCTYPE html><html></html>"), "an HTML page"},
        {FILE_TEXT("<html><body>404"), "an HTML page"},
        {FILE_TEXT("{\"metadata\": {\"total_size\": 1}}"), "JSON text"},
        {FILE_TEXT("\x93NUMPY\x01\x00"), "one NumPy array (.npy) without a name"},
        {FILE_TEXT("GGUF\x03\x00\x00\x00"), "a GGUF file"},
        {FILE_TEXT("\x1f\x8b\x08\x00\x00\x00\x00\x00"), "gzip"},
        {FILE_TEXT("PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), "an empty zip archive"},
        {FILE_TEXT("L119547037146038801333356L\n.L1001L\n."),
         "a PyTorch file pickled with protocol 0 or 1"},
        {FILE_TEXT("(dp0\nVa\np1\nI1\ns."), "a Python pickle of protocol 0 or 1"},
        {FILE_TEXT("ccollections\nOrderedDict\np0\n(tRp1\n."), "a Python pickle of protocol 0"},
        {FILE_TEXT("}q\x01U\x01aq\x02K\x01s."), "a Python pickle of protocol 0 or 1"},
        {FILE_TEXT("Not Found: the model was moved\n"), "is a text file"},
        {FILE_TEXT("Gr\xfc\xdf"
                   "e, one line of Latin-1"),
         "is a text file"},
        {FILE_TEXT("abc"), "3 bytes are no checkpoint"},
        {FILE_TEXT("\x02\0\0\0\0\0\0\0{"), "9 bytes are no checkpoint"},
        {FILE_TEXT("\x01\x02\x03\x04\0\0\0\0\xff\xff\xff\xff"), "of no kind that is known"},
        {FILE_TEXT("\xff\0\0\0\0\0\0\0{}"), "a safetensors header of 255 bytes"},
    };
    char path[] = "/tmp/vitrine-foreign-XXXXXX";
    struct checkpoint checkpoint;
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(rows[i].bytes, 1, rows[i].size, file), rows[i].size);
        assert_int_equal(fclose(file), 0);
        assert_int_not_equal(checkpoint_open(path, NULL, &checkpoint), ST_OK);
        if (!strstr(fail_message(), rows[i].says)) print_message("%s\n", fail_message());
        assert_non_null(strstr(fail_message(), rows[i].says));
        assert_non_null(strstr(fail_message(), path));
    }
    unlink(path);
    assert_int_equal(checkpoint_open(path, NULL, &checkpoint), ST_IO);
    assert_int_equal(checkpoint_open("/tmp", NULL, &checkpoint), ST_IO);
    assert_non_null(
        strstr(fail_message(), "without model.safetensors, pytorch_model.bin, tf_model.h5"));
    checkpoint_release(&checkpoint);
}

static void test_sha256(void **state) {
    char hex[65];
    (void)state;
    assert_int_equal(sha256_hex("abc", 3, hex), ST_OK); /* FIPS 180-4, the first example */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(sha256_hex("", 0, hex), ST_OK);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),    cmocka_unit_test(test_bad),
        cmocka_unit_test(test_length),  cmocka_unit_test(test_every_cut),
        cmocka_unit_test(test_foreign), cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
