/*
 * test_torch: PyTorch files, whole. The golden ones come from torch itself (tests/ref/
 * torch_golden.py: every tensor's elements count up in row-major order, in quarters when they are
 * floating point); the hostile ones are put together here.
 */
#include "tests/torch_sample.h" // before cmocka.h, which has a macro `fail`
#include "weights/layout.h"
#include "weights/sha256.h"
#include "weights/zip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#undef fail

#define BYTES(text) text, sizeof(text) - 1

/* So that a refusal without a sentence of its own is seen. */
static void forget_sentence(void) {
    (void)fail(ST_IO, "none");
}

/* ---- what torch wrote -------------------------------------------------------------------- */

#define TYPES                                                                                      \
    "bfloat16 bf16 (2, 3); float16 fp16 (2, 3); float32 fp32 (2, 3); float64 fp64 (2, 3); "        \
    "int16 int16 (2, 3); int32 int32 (2, 3); int64 int64 (2, 3); int8 int8 (2, 3); "               \
    "uint8 uint8 (2, 3); "
#define VIEWS                                                                                      \
    "empty fp32 (0, 3); offset fp32 (3, 4); offset2 fp32 (6); ones fp32 (1, 5, 1); "               \
    "permuted fp32 (2, 3, 4); scalar fp32 (); stepped fp32 (5); tied fp32 (4, 6); "                \
    "transposed fp32 (6, 4); truth bool (2); whole fp32 (4, 6); "
#define SMALL(p)                                                                                   \
    p "blocks.0.bias fp32 (2); " p "blocks.0.weight fp32 (2, 3); " p                               \
      "blocks.1.weight fp32 (2, 3); " p "norm.bias fp32 (4); " p "norm.weight fp32 (4); " p        \
      "steps int64 (3); "

static const struct {
    const char *file, *key;
    const char *wrapper; /* NULL: none */
    const char *aside;   /* a part of it; NULL: none */
    const char *tensors;
} golden[] = {
    {"types", NULL, NULL, NULL, TYPES},
    {"types_legacy", NULL, NULL, NULL, TYPES},
    {"views", NULL, NULL, NULL, VIEWS},
    {"views_legacy", NULL, NULL, NULL, VIEWS},
    {"views_p3", NULL, NULL, NULL, VIEWS},
    {"views_p4", NULL, NULL, NULL, VIEWS},
    {"views_p5", NULL, NULL, NULL, VIEWS},
    {"views_p4_legacy", NULL, NULL, NULL, VIEWS},
    {"parameters", NULL, NULL, NULL, "a.weight fp32 (2, 3); b.weight fp32 (2, 3); "},
    {"parameters_legacy", NULL, NULL, NULL, "a.weight fp32 (2, 3); b.weight fp32 (2, 3); "},
    {"training", NULL, "model", "model_ema (6 tensors), optimizer (15 tensors), ",
     SMALL("module.")},
    {"training_legacy", NULL, "model", "args (argparse.Namespace), ", SMALL("module.")},
    {"training", "model_ema", "model_ema", "model (6 tensors), optimizer", SMALL("")},
    {"training", NULL, "model", "epoch (a number), best (numpy._core.multiarray.scalar), ",
     SMALL("module.")},
    {"module", NULL, NULL, NULL, SMALL("")},
    {"teacher", NULL, "teacher", "student (1 tensor), epoch (a number)", "backbone.w fp32 (3); "},
    {"teacher", "student", "student", "teacher (1 tensor)", "w fp32 (2); "},
    {"teacher_legacy", NULL, "teacher", "student", "backbone.w fp32 (3); "},
    {"twins", "gan_b", "gan_b", "gan_a (1 tensor)", "w fp32 (3); "},
    {"uint16", NULL, NULL, NULL, "rare another type (2, 3); "},
};

static void check_values(const struct tensor *t) {
    const bool whole =
        t->dtype != DT_F32 && t->dtype != DT_F16 && t->dtype != DT_BF16 && t->dtype != DT_F64;
    const size_t count = tensor_count(t);
    if (t->dtype == DT_OTHER) return;
    assert_int_equal(t->bytes, count * dtype_size(t->dtype));
    for (size_t i = 0; i < count; i++) {
        float value = -1, want = whole ? (float)i : (float)i / 4;
        assert_int_equal(layout_read(t, LAYOUT_SAME, i, 1, &value), ST_OK);
        if (value != want) print_message("%s: element %zu is %g\n", t->name, i, (double)value);
        assert_true(value == want);
    }
}

static void test_golden(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(golden); i++) {
        struct sample s = sample_golden(golden[i].file);
        struct checkpoint c;
        char text[1200] = "", shape[100];
        size_t used = 0;
        enum status st = sample_parse(s.bytes, s.size, golden[i].key, &c);
        if (st != ST_OK) print_message("%s: %s\n", golden[i].file, fail_message());
        assert_int_equal(st, ST_OK);
        for (size_t n = 0; n < c.count; n++) {
            const struct tensor *t = &c.tensors[n];
            used += (size_t)snprintf(text + used, sizeof text - used, "%s %s %s; ", t->name,
                                     dtype_name(t->dtype),
                                     shape_text(t->dims, t->rank, shape, sizeof shape));
            check_values(t);
        }
        assert_string_equal(text, golden[i].tensors);
        assert_string_equal(c.wrapper ? c.wrapper : "", golden[i].wrapper ? golden[i].wrapper : "");
        if (!golden[i].aside != !c.aside || (c.aside && !strstr(c.aside, golden[i].aside)))
            print_message("%s: aside: %s\n", golden[i].file, c.aside);
        assert_true(golden[i].aside ? c.aside && strstr(c.aside, golden[i].aside) : !c.aside);
        sample_release(&c);
        free(s.bytes);
    }
}

/* ---- pickles that lie ---------------------------------------------------------------------- */

#define ODICT                 "ccollections\nOrderedDict\n)R"
#define STORAGE(type, key, n) "(U\7storagectorch\n" type "\nU\1" key "U\3cpuK" n "tQ"
#define REBUILD               "ctorch._utils\n_rebuild_tensor_v2\n("
#define TAIL                  "\x89" ODICT "tR"
/* A float tensor of storage "0" (16 elements): offset, sizes, strides as opcodes. */
#define TENSOR(offset, sizes, strides)                                                             \
    REBUILD STORAGE("FloatStorage", "0", "\x10") offset sizes strides TAIL
#define PLAIN     TENSOR("K\0", "K\2K\3\x86", "K\3K\1\x86")
#define DICT(x)   "\x80\2}" x "."
#define SET(k, x) "U\1" k x "s"

static const struct {
    const char *what, *pickle;
    size_t size;
    size_t storage;   /* bytes of storage "0" */
    const char *says; /* NULL: it is taken */
} pickles[] = {
    {"a tensor", BYTES(DICT(SET("a", PLAIN))), 64, NULL},
    {"the last elements", BYTES(DICT(SET("a", TENSOR("K\x0a", "K\2K\3\x86", "K\3K\1\x86")))), 64,
     NULL},
    {"one element too far", BYTES(DICT(SET("a", TENSOR("K\x0b", "K\2K\3\x86", "K\3K\1\x86")))), 64,
     "a reaches beyond its storage of 5 elements"},
    {"an offset behind the end", BYTES(DICT(SET("a", TENSOR("K\x11", ")", ")")))), 64,
     "begins behind its storage"},
    {"a negative offset", BYTES(DICT(SET("a", TENSOR("J\xff\xff\xff\xff", ")", ")")))), 64,
     "without storage, sizes or strides"},
    {"a negative stride", BYTES(DICT(SET("a", TENSOR("K\0", "K\2\x85", "J\xff\xff\xff\xff\x85")))),
     64, "without storage, sizes or strides"},
    {"a negative size", BYTES(DICT(SET("a", TENSOR("K\0", "J\xff\xff\xff\xff\x85", "K\1\x85")))),
     64, "without storage, sizes or strides"},
    {"sizes and strides of two ranks",
     BYTES(DICT(SET("a", TENSOR("K\0", "K\2K\3\x86", "K\1\x85")))), 64,
     "without storage, sizes or strides"},
    {"a size of 2^62, twice",
     BYTES(DICT(SET("a", TENSOR("K\0", "\x8a\x08\0\0\0\0\0\0\0@\x8a\x08\0\0\0\0\0\0\0@\x86",
                                "\x8a\x08\0\0\0\0\0\0\0@K\1\x86")))),
     64, "reaches beyond its storage"},
    {"a stride of 0 over 2^31 elements",
     BYTES(DICT(SET("a", TENSOR("K\0", "J\xff\xff\xff\x7f\x85", "K\0\x85")))), 64,
     "repeats its elements"},
    {"nine dimensions",
     BYTES(DICT(SET(
         "a", TENSOR("K\0", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t")))),
     64, "more than 8 dimensions"},
    {"a storage that is shorter than it says", BYTES(DICT(SET("a", PLAIN))), 60,
     "storage 0 of a has 60 bytes, and 16 elements of 4"},
    {"a storage that is not there",
     BYTES(DICT(SET("a", REBUILD STORAGE("FloatStorage", "7", "\x10") "K\0))" TAIL))), 64,
     "storage 7 of a is not in the file"},
    {"a storage of an unknown type",
     BYTES(DICT(SET("a", REBUILD STORAGE("OddStorage", "0", "\x10") "K\0))" TAIL))), 64,
     "torch.OddStorage, which is not known"},
    {"a tensor of a number", BYTES(DICT(SET("a", REBUILD "K\1K\0))" TAIL))), 64,
     "without storage, sizes or strides"},
    {"too few arguments", BYTES(DICT(SET("a", "ctorch._utils\n_rebuild_tensor_v2\n)R"))), 64,
     "made by torch._utils._rebuild_tensor_v2"},
    {"a quantised tensor", BYTES(DICT(SET("a", "ctorch._utils\n_rebuild_qtensor\n)R"))), 64,
     "a is made by torch._utils._rebuild_qtensor"},
    {"os.system beside", BYTES(DICT(SET("a", PLAIN) SET("b", "cos\nsystem\nU\2ls\x85R"))), 64,
     "calls os.system"},
    {"os.system, not called", BYTES(DICT(SET("a", PLAIN) SET("b", "cos\nsystem\n"))), 64, NULL},
    {"an unknown class beside", BYTES(DICT(SET("a", PLAIN) SET("b", "cx.y\nZ\n)\x81"))), 64, NULL},
    {"no dict", BYTES("\x80\2K\1."), 64, "holds no tensors: it is a number"},
    {"a list of state dicts", BYTES("\x80\2]}" SET("a", PLAIN) "a."), 64, "it is a list"},
    {"an empty dict", BYTES(DICT("")), 64, "holds no tensors"},
    {"a tensor alone", BYTES("\x80\2" PLAIN "."), 64, "holds one tensor without a name"},
    {"a name twice", BYTES(DICT(SET("a", PLAIN) SET("a", PLAIN))), 64, "a is there twice"},
    {"a dict in itself", BYTES("\x80\2}q\0U\1ah\0s" SET("b", PLAIN) "."), 64, "nested deeper"},
    {"a line end in a name", BYTES(DICT(SET("\n", PLAIN))), 64, "control characters"},
    {"a tuple for a name", BYTES(DICT(")" PLAIN "s")), 64, "is no text"},
    {"a number for a name", BYTES(DICT("K\5" PLAIN "s")), 64, NULL},
};

static void test_pickles(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pickles); i++) {
        struct sample s = sample_archive(pickles[i].pickle, pickles[i].size, pickles[i].storage);
        struct checkpoint c;
        forget_sentence();
        enum status st = sample_parse(s.bytes, s.size, NULL, &c);
        bool right = pickles[i].says ? st != ST_OK && strstr(fail_message(), pickles[i].says)
                                     : st == ST_OK && c.count == 1;
        if (!right) print_message("%s: %d, \"%s\"\n", pickles[i].what, st, fail_message());
        assert_true(right);
        sample_release(&c);
        free(s.bytes);
    }
}

/* Small pickles whose walk would not end: refused, quickly. */
static void test_walks(void **state) {
    static const struct {
        const char *what;
        int levels;
        const char *level; /* the value on the stack becomes one that holds it twice */
    } rows[] = {
        {"lists", 60, "q\1]h\1ah\1a"},
        {"dicts", 60, "q\1}U\1ah\1sU\1bh\1s"},
        {"dicts of few levels, as names", 24, "q\1}U\1ah\1sU\1bh\1s"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sample pickle = {0}, s;
        struct checkpoint c;
        clock_t begin = clock();
        sample_put(&pickle, BYTES("\x80\2"));
        sample_put(&pickle, BYTES(PLAIN));
        for (int n = 0; n < rows[i].levels; n++)
            sample_put(&pickle, rows[i].level, strlen(rows[i].level));
        sample_put(&pickle, ".", 1);
        s = sample_archive(pickle.bytes, pickle.size, 64);
        assert_int_not_equal(sample_parse(s.bytes, s.size, NULL, &c), ST_OK);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds >= 2) print_message("%s: %.1f s, %s\n", rows[i].what, seconds, fail_message());
        assert_true(seconds < 2);
        sample_release(&c);
        free(pickle.bytes);
        free(s.bytes);
    }
}

/* 20000 objects whose state is one dict of 20000 entries: looked through as often as is fair. */
static void test_shared_state(void **state) {
    struct sample pickle = {0}, s;
    struct checkpoint c;
    clock_t begin;
    (void)state;
    sample_put(&pickle, BYTES("\x80\2}q\0("));
    for (int i = 0; i < 20000; i++)
        sample_put(&pickle, BYTES("U\1kN"));
    sample_put(&pickle, BYTES("u0}(U\1a" PLAIN));
    for (int i = 0; i < 20000; i++)
        sample_put(&pickle, BYTES("U\1mcx\nY\n)\x81h\0b"));
    sample_put(&pickle, BYTES("u."));
    s = sample_archive(pickle.bytes, pickle.size, 64);
    begin = clock();
    assert_int_equal(sample_parse(s.bytes, s.size, NULL, &c), ST_FORMAT);
    assert_non_null(strstr(fail_message(), "lead to more than"));
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 2);
    sample_release(&c);
    free(pickle.bytes);
    free(s.bytes);
}

/* A tensor in neither order costs a copy for each of its names, a transposed one costs none. */
static void check_copies(const char *tensor, size_t size, bool copied) {
    struct sample pickle = {0}, s;
    struct checkpoint c;
    sample_put(&pickle, BYTES("\x80\2}U\1a"));
    sample_put(&pickle, tensor, size);
    for (char name = 'b'; name <= 'z'; name++) {
        sample_put(&pickle, BYTES("U\1"));
        sample_put(&pickle, &name, 1);
        sample_put(&pickle, BYTES("h\1s"));
    }
    sample_put(&pickle, ".", 1);
    s = sample_archive(pickle.bytes, pickle.size, 64);
    assert_int_equal(sample_parse(s.bytes, s.size, NULL, &c), copied ? ST_NOMEM : ST_OK);
    if (copied) assert_non_null(strstr(fail_message(), "more room than the file"));
    for (size_t i = 0; i < c.count; i++) {
        assert_true(c.tensors[i].column_major);
        assert_in_range(c.tensors[i].data - s.bytes, 0, s.size);
    }
    sample_release(&c);
    free(pickle.bytes);
    free(s.bytes);
}

static void test_copies(void **state) {
    (void)state;
    check_copies(BYTES(TENSOR("K\0", "K\2K\2K\4\x87", "K\1K\x08K\2\x87") "q\1s"), true);
    check_copies(BYTES(TENSOR("K\0", "K\4K\4\x86", "K\1K\4\x86") "q\1s"), false);
    check_copies(BYTES(TENSOR("K\0", "K\1K\4K\4\x87", "K\7K\1K\4\x87") "q\1s"), false);
}

/* ---- archives that lie --------------------------------------------------------------------- */

#define PICKLE  BYTES(DICT(SET("a", PLAIN)))
#define NUMBERS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 64

static const struct {
    const char *what;
    struct sample_entry entries[4];
    size_t at;         /* from the end of the file, patched when `patch` is not NULL */
    const char *patch; /* a string of bytes; "" is one zero byte */
    const char *says;  /* NULL: it is taken */
} archives[] = {
    {"as torch writes it",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a/data/0", NUMBERS, 0, 0, 0}},
     0,
     NULL,
     NULL},
    {"little-endian",
     {{"a/data.pkl", PICKLE, 0, 0, 0},
      {"a/data/0", NUMBERS, 0, 0, 0},
      {"a/byteorder", "little", 6, 0, 0, 0}},
     0,
     NULL,
     NULL},
    {"big-endian",
     {{"a/data.pkl", PICKLE, 0, 0, 0},
      {"a/data/0", NUMBERS, 0, 0, 0},
      {"a/byteorder", "big", 3, 0, 0, 0}},
     0,
     NULL,
     "byte order 'big'"},
    {"zip64 sizes",
     {{"a/data.pkl", PICKLE, 0, 0, 1}, {"a/data/0", NUMBERS, 0, 0, 1}},
     0,
     NULL,
     NULL},
    {"a zip64 size of 2^63",
     {{"a/data.pkl", PICKLE, 0, 0, 1}, {"a/data/0", NUMBERS, 0, 0, 2}},
     0,
     NULL,
     "a/data/0 of 9223372036854775807 bytes reaches beyond the file"},
    {"a compressed storage, a bomb",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a/data/0", "\3\0", 2, 8, 0xffffff00, 0}},
     0,
     NULL,
     "zip entry a/data/0 claims 4294967040 bytes, which 2 cannot unpack to"},
    {"a compressed storage",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a/data/0", "\3\0", 2, 8, 64, 0}},
     0,
     NULL,
     "zip entry a/data/0 is compressed (method 8)"},
    {"a compressed pickle",
     {{"a/data.pkl", "\3\0", 2, 8, 1000, 0}, {"a/data/0", NUMBERS, 0, 0, 0}},
     0,
     NULL,
     "zip entry a/data.pkl is compressed"},
    {"a name that leads out",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a/../../b", NUMBERS, 0, 0, 0}},
     0,
     NULL,
     "leads out with ..: 'a/../../b'"},
    {"an absolute name", {{"/a/data.pkl", PICKLE, 0, 0, 0}}, 0, NULL, "is absolute"},
    {"no name", {{"a/data.pkl", PICKLE, 0, 0, 0}, {"", NUMBERS, 0, 0, 0}}, 0, NULL, "is empty"},
    {"a backslash",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a\\b", NUMBERS, 0, 0, 0}},
     0,
     NULL,
     "backslash"},
    {"an escape",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a\x1b[2J", NUMBERS, 0, 0, 0}},
     0,
     NULL,
     "control character"},
    {"a storage twice",
     {{"a/data.pkl", PICKLE, 0, 0, 0},
      {"a/data/0", NUMBERS, 0, 0, 0},
      {"a/data/0", NUMBERS, 0, 0, 0}},
     0,
     NULL,
     "zip entry a/data/0 is there twice"},
    {"two roots",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"b/data.pkl", PICKLE, 0, 0, 0}},
     0,
     NULL,
     "two PyTorch archives"},
    {"no root", {{"data.pkl", PICKLE, 0, 0, 0}}, 0, NULL, "in a folder of its own"},
    {"a program",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a/constants.pkl", "N.", 2, 0, 0, 0}},
     0,
     NULL,
     "a TorchScript archive"},
    {"a storage of another folder",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"b/data/0", NUMBERS, 0, 0, 0}},
     0,
     NULL,
     "storage 0 of a is not in the file"},
    {"a comment that is not there", {{"a/data.pkl", PICKLE, 0, 0, 0}}, 2, "\1", "without its end"},
    {"a directory beyond the file", {{"a/data.pkl", PICKLE, 0, 0, 0}}, 4, "\x7f", "outside of the"},
    {"a directory that is longer", {{"a/data.pkl", PICKLE, 0, 0, 0}}, 9, "\x7f", "outside of the"},
    {"more entries than it has room for",
     {{"a/data.pkl", PICKLE, 0, 0, 0}},
     12,
     "\x7f",
     "entries in"},
    {"fewer entries than there are",
     {{"a/data.pkl", PICKLE, 0, 0, 0}, {"a/data/0", NUMBERS, 0, 0, 0}},
     12,
     "\1",
     "is longer than its 1"},
    {"a second disk", {{"a/data.pkl", PICKLE, 0, 0, 0}}, 18, "\1", "in several files"},
    {"an entry that is encrypted",
     {{"a/data.pkl", PICKLE, 0, 0, 0}},
     22 + 56 - 8,
     "\1",
     "encrypted"},
    {"a size beyond the file",
     {{"a/data.pkl", PICKLE, 0, 0, 0}},
     22 + 56 - 23,
     "\x7f",
     "reaches beyond the file"},
    {"two sizes", {{"a/data.pkl", PICKLE, 0, 0, 0}}, 22 + 56 - 27, "\1", "has two sizes"},
    {"a wrong checksum", {{"a/data.pkl", PICKLE, 0, 0, 0}}, 22 + 56 - 16, "\1", "is wrong"},
    {"a header elsewhere", {{"a/data.pkl", PICKLE, 0, 0, 0}}, 22 + 56 - 42, "\1", "is not where"},
    {"a header beyond the file",
     {{"a/data.pkl", PICKLE, 0, 0, 0}},
     22 + 56 - 45,
     "\x7f",
     "is not where"},
    {"another name in the header",
     {{"a/data.pkl", PICKLE, 0, 0, 0}},
     22 + 56 - 46,
     "b",
     "is not where"},
};

static void test_archives(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(archives); i++) {
        size_t count = 0;
        struct checkpoint c;
        while (count < 4 && archives[i].entries[count].name)
            count++;
        struct sample s = sample_zip(archives[i].entries, count);
        if (archives[i].patch) s.bytes[s.size - archives[i].at] = (uint8_t)archives[i].patch[0];
        forget_sentence();
        enum status st = sample_parse(s.bytes, s.size, NULL, &c);
        bool right = archives[i].says ? st == ST_FORMAT && strstr(fail_message(), archives[i].says)
                                      : st == ST_OK && c.count == 1;
        if (!right) print_message("%s: %d, \"%s\"\n", archives[i].what, st, fail_message());
        assert_true(right);
        sample_release(&c);
        free(s.bytes);
    }
}

/* Two entries of one place: the second one's header lies within the first one's data. */
static void test_overlap(void **state) {
    struct sample inner, s;
    struct zip zip;
    (void)state;
    inner = sample_zip(&(struct sample_entry){"b", "xyz", 3, 0, 0, 0}, 1);
    const struct sample_entry entries[] = {{"a", inner.bytes, inner.size, 0, 0, 0},
                                           {"b", "xyz", 3, 0, 0, 0}};
    s = sample_zip(entries, 2);
    assert_int_equal(zip_open(s.bytes, s.size, "file", &zip), ST_OK);
    assert_int_equal(zip.count, 2);
    assert_non_null(zip_find(&zip, "b", 1));
    assert_null(zip_find(&zip, "c", 1));
    zip_release(&zip);
    s.bytes[s.size - 22 - 1 - 4] = 31; /* the offset of b: behind the header of a */
    assert_int_equal(zip_open(s.bytes, s.size, "file", &zip), ST_FORMAT);
    assert_non_null(strstr(fail_message(), "zip entry b overlaps another"));
    free(inner.bytes);
    free(s.bytes);
}

/* ---- files and folders ------------------------------------------------------------------- */

static char folder[] = "/tmp/vitrine-torch-XXXXXX";

static const char *path_of(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

#define MAP(entries) "{\"metadata\":{\"total_size\":1},\"weight_map\":{" entries "}}"

/* Two shards, whose hash is that of the bytes one after the other in the index's order. */
static void test_shards(void **state) {
    static const struct {
        const char *index, *says; /* NULL: it is taken */
    } rows[] = {
        {MAP("\"a.weight\":\"p.bin\",\"int8\":\"t.bin\",\"b.weight\":\"p.bin\""), NULL},
        {MAP("\"int8\":\"t.bin\",\"a.weight\":\"t.bin\""), "t.bin has no tensor a.weight"},
        {MAP("\"int8\":\"../t.bin\""), "int8 is in no file of its folder"},
        {MAP("\"int8\":\"..\""), "int8 is in no file of its folder"},
        {MAP("\"int8\":7"), "int8 is in no file of its folder"},
        {MAP("\"int8\":\"none.bin\""), "none.bin: No such file"},
        {MAP("\"a.weight\":\"p.bin\",\"b.weight\":\"q.bin\""), "tensor a.weight is there twice"},
        {MAP(""), "its weight_map is empty"},
        {"{\"weight_map\":[]}", "has no weight_map"},
        {"[", "is not a JSON object"},
    };
    struct sample p = sample_golden("parameters"), t = sample_golden("types");
    struct checkpoint c;
    char hex[65];
    (void)state;
    assert_non_null(mkdtemp(folder));
    write_file("p.bin", p.bytes, p.size);
    write_file("q.bin", p.bytes, p.size);
    write_file("t.bin", t.bytes, t.size);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        write_file("pytorch_model.bin.index.json", rows[i].index, strlen(rows[i].index));
        enum status st = checkpoint_open(folder, NULL, &c);
        bool right = rows[i].says ? st != ST_OK && strstr(fail_message(), rows[i].says)
                                  : st == ST_OK && c.count == 11 && c.shard_count == 2;
        if (!right) print_message("%s: %d, \"%s\"\n", rows[i].index, st, fail_message());
        assert_true(right);
        if (!rows[i].says) {
            const struct sha256_run runs[] = {{p.bytes, p.size}, {t.bytes, t.size}};
            assert_int_equal(checkpoint_hash(&c), ST_OK);
            assert_int_equal(sha256_runs(runs, 2, hex), ST_OK);
            assert_string_equal(c.sha256, hex);
            check_values(checkpoint_find(&c, "int8"));
        }
        checkpoint_release(&c);
    }
    assert_int_equal(checkpoint_open(path_of("p.bin"), "a", &c), ST_USAGE);
    assert_true(checkpoint_likely(path_of("p.bin")));
    assert_true(checkpoint_likely(folder));
    assert_false(checkpoint_likely("/tmp"));
    assert_false(checkpoint_likely("Makefile"));
    for (size_t i = 0; i < 4; i++)
        unlink(path_of(
            (const char *const[]){"p.bin", "q.bin", "t.bin", "pytorch_model.bin.index.json"}[i]));
    assert_int_equal(rmdir(folder), 0);
    free(p.bytes);
    free(t.bytes);
}

/* --key that leads nowhere, and what is ambiguous without one. */
static void test_keys(void **state) {
    static const struct {
        const char *file, *key, *says;
    } rows[] = {
        {"twins", NULL, "say which with --key: gan_a (1 tensors), gan_b (1 tensors)"},
        {"twins_legacy", NULL, "say which with --key: gan_a"},
        {"twins", "gan_c", "--key gan_c leads to no dict; there is gan_a, gan_b"},
        {"twins", "gan_a.w", "--key gan_a.w leads to no dict; there is w"},
        {"training", "epoch.x", "leads to no dict; there is none"},
        {"training", "metrics", "holds no tensors"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sample s = sample_golden(rows[i].file);
        struct checkpoint c;
        assert_int_not_equal(sample_parse(s.bytes, s.size, rows[i].key, &c), ST_OK);
        if (!strstr(fail_message(), rows[i].says))
            print_message("%s %s: %s\n", rows[i].file, rows[i].key, fail_message());
        assert_non_null(strstr(fail_message(), rows[i].says));
        sample_release(&c);
        free(s.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_pickles),
        cmocka_unit_test(test_walks),   cmocka_unit_test(test_shared_state),
        cmocka_unit_test(test_copies),  cmocka_unit_test(test_archives),
        cmocka_unit_test(test_overlap), cmocka_unit_test(test_shards),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
