/*
 * test_npz: NumPy arrays from a header text and a number of bytes, good and bad; zip archives of
 * them assembled here, honest and hostile; and NumPy's own (tests/ref/make_containers.py), which
 * must give the model that the same weights give as safetensors.
 */
#include "weights/convert.h" // before cmocka.h, which has a macro `fail`
#include "weights/layout.h"
#include "weights/npz.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/container_sample.h"
#include "tests/zip_sample.h"

/* ---- .npy ------------------------------------------------------------------------------------ */

/* Magic, version, header, `data` bytes 0, 1, 2, ...; the header claims `length`, -1: its own. */
static uint8_t *npy(int version, const char *header, long length, size_t data, size_t *size) {
    const size_t text = strlen(header), width = version == 1 ? 2 : 4;
    const size_t claimed = length < 0 ? text : (size_t)length;
    *size = 8 + width + text + data;
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (uint8_t)version;
    bytes[7] = 0;
    for (size_t i = 0; i < width; i++)
        bytes[8 + i] = (uint8_t)(claimed >> (8 * i));
    memcpy(bytes + 8 + width, header, text);
    for (size_t i = 0; i < data; i++)
        bytes[8 + width + text + i] = (uint8_t)i;
    return bytes;
}

#define HEAD(descr, order, shape)                                                                  \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }          \n"
#define F4(shape) HEAD("'<f4'", "False", shape)

static const struct {
    const char *what;
    int version;
    const char *header;
    size_t data;
    const char *shape; /* as shape_text writes it */
    enum dtype dtype;
    bool column_major;
} good[] = {
    {"a matrix", 1, F4("(2, 3)"), 24, "(2, 3)", DT_F32, false},
    {"one axis, with Python's comma", 1, F4("(3,)"), 12, "(3)", DT_F32, false},
    {"a scalar", 1, F4("()"), 4, "()", DT_F32, false},
    {"nothing in it", 1, F4("(0, 5)"), 0, "(0, 5)", DT_F32, false},
    {"sizes of Python 2", 1, F4("(2L, 1L)"), 8, "(2, 1)", DT_F32, false},
    {"version 2", 2, F4("(1,)"), 4, "(1)", DT_F32, false},
    {"version 3", 3, F4("(1,)"), 4, "(1)", DT_F32, false},
    {"Fortran's order", 1, HEAD("'<f4'", "True", "(2, 3)"), 24, "(2, 3)", DT_F32, true},
    {"halves", 1, HEAD("'<f2'", "False", "(2,)"), 4, "(2)", DT_F16, false},
    {"doubles", 1, HEAD("'<f8'", "False", "(2,)"), 16, "(2)", DT_F64, false},
    {"int64", 1, HEAD("'<i8'", "False", "(2,)"), 16, "(2)", DT_I64, false},
    {"int32", 1, HEAD("'<i4'", "False", "(2,)"), 8, "(2)", DT_I32, false},
    {"int16", 1, HEAD("'<i2'", "False", "(2,)"), 4, "(2)", DT_I16, false},
    {"int8", 1, HEAD("'|i1'", "False", "(2,)"), 2, "(2)", DT_I8, false},
    {"uint8", 1, HEAD("'|u1'", "False", "(2,)"), 2, "(2)", DT_U8, false},
    {"bool", 1, HEAD("'|b1'", "False", "(2,)"), 2, "(2)", DT_BOOL, false},
    {"bfloat16 of ml_dtypes", 1, HEAD("'<V2'", "False", "(2,)"), 4, "(2)", DT_BF16, false},
    {"bfloat16, the older spelling", 1, HEAD("'|V2'", "False", "(2,)"), 4, "(2)", DT_BF16, false},
    {"another order of keys, no blanks", 1,
     "{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<f4\"}", 8, "(2)", DT_F32, false},
    {"eight axes", 1, F4("(1, 1, 1, 1, 1, 1, 1, 2)"), 8, "(1, 1, 1, 1, 1, 1, 1, 2)", DT_F32, false},
};

static void test_good_arrays(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct tensor t = {0};
        char text[128];
        size_t size;
        uint8_t *bytes = npy(good[i].version, good[i].header, -1, good[i].data, &size);
        if (npy_parse(bytes, size, "file", &t) != ST_OK)
            fail_msg("%s: %s", good[i].what, fail_message());
        assert_string_equal(shape_text(t.dims, t.rank, text, sizeof text), good[i].shape);
        assert_int_equal(t.dtype, good[i].dtype);
        assert_int_equal(t.column_major, good[i].column_major);
        assert_int_equal(t.bytes, good[i].data);
        assert_ptr_equal(t.data, bytes + size - good[i].data);
        free(bytes);
    }
}

static const struct {
    const char *what;
    int version;
    const char *header;
    long length;
    size_t data;
    const char *says;
} bad[] = {
    {"version 4", 4, F4("(1,)"), -1, 4, "version 4.0"},
    {"version 0", 0, F4("(1,)"), -1, 4, "version 0.0"},
    {"a header beyond the file", 1, F4("(1,)"), 65535, 4, "a header of 65535 bytes"},
    {"a header of 4 GiB", 2, F4("(1,)"), 0xffffffffL, 4, "a header of 4294967295 bytes"},
    {"a header that takes the numbers", 1, F4("(1,)"), 70, 4, "goes on behind"},
    {"a header cut by its length", 1, F4("(1,)"), 20, 4, "is no dict"},
    {"no header", 1, "", -1, 4, "is no dict"},
    {"objects", 1, HEAD("'|O'", "False", "(1,)"), -1, 8, "Python objects (a pickle)"},
    {"objects, the other spelling", 1, HEAD("'O8'", "False", "(1,)"), -1, 8, "Python objects"},
    {"big-endian", 1, HEAD("'>f4'", "False", "(1,)"), -1, 4, "big-endian (>f4)"},
    {"a structure", 1, HEAD("[('a', '<f4')]", "False", "(1,)"), -1, 4, "structured type"},
    {"complex", 1, HEAD("'<c8'", "False", "(1,)"), -1, 8, "type '<c8'"},
    {"words", 1, HEAD("'<U5'", "False", "()"), -1, 20, "type '<U5'"},
    {"a type that is a number", 1, HEAD("4", "False", "(1,)"), -1, 4, "has no type"},
    {"a type without end", 1, HEAD("'<f4", "False", "(1,)"), -1, 4, "has no type"},
    {"a long type", 1, HEAD("'<f4444444444444444'", "False", "(1,)"), -1, 4, "has no type"},
    {"an order that is no bool", 1, HEAD("'<f4'", "1", "(1,)"), -1, 4, "no fortran_order"},
    {"a shape that is a number", 1, F4("4"), -1, 4, "no tuple"},
    {"a shape that is no tuple", 1, F4("(4)"), -1, 16, "no tuple"},
    {"a negative size", 1, F4("(-1,)"), -1, 4, "no tuple"},
    {"a size that is a fraction", 1, F4("(1.5,)"), -1, 4, "no tuple"},
    {"a shape without end", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2", -1, 4,
     "no tuple"},
    {"an empty place in a shape", 1, F4("(1,,2)"), -1, 4, "no tuple"},
    {"nine axes", 1, F4("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), -1, 4, "more than 8"},
    {"a size beyond 2^64", 1, F4("(99999999999999999999,)"), -1, 4, "beyond 2^64"},
    {"sizes whose product is beyond 2^64", 1, F4("(4294967296, 4294967296)"), -1, 4, "overflows"},
    {"more numbers than there are", 1, F4("(2, 3)"), -1, 23, "needs 24 bytes, the file has 23"},
    {"fewer numbers than there are", 1, F4("(2, 3)"), -1, 25, "needs 24 bytes, the file has 25"},
    {"a key twice", 1, "{'shape': (1,), 'shape': (1,)}", -1, 4, "a key twice"},
    {"a key of somebody else", 1, "{'align': True}", -1, 4, "does not write"},
    {"a missing key", 1, "{'descr': '<f4', 'shape': (1,)}", -1, 4, "lacks descr"},
    {"no comma", 1, "{'descr': '<f4' 'shape': (1,)}", -1, 4, "is no dict"},
    {"a list", 1, "['descr', '<f4']", -1, 4, "is no dict"},
    {"text behind the dict", 1, F4("(1,)") "x", -1, 4, "goes on behind"},
};

static void test_bad_arrays(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tensor t = {0};
        size_t size;
        uint8_t *bytes = npy(bad[i].version, bad[i].header, bad[i].length, bad[i].data, &size);
        if (npy_parse(bytes, size, "file", &t) == ST_OK) fail_msg("%s: accepted", bad[i].what);
        if (!strstr(fail_message(), bad[i].says) || !strstr(fail_message(), "file: "))
            fail_msg("%s: '%s', expected '%s'", bad[i].what, fail_message(), bad[i].says);
        free(bytes);
    }
    struct tensor t;
    assert_int_equal(npy_parse((const uint8_t *)"\x93NUMPX\1\0\0\0\0\0", 12, "file", &t),
                     ST_FORMAT);
}

static void test_cut_arrays(void **state) {
    (void)state;
    size_t size;
    uint8_t *bytes = npy(1, F4("(2, 3)"), -1, 24, &size);
    for (size_t cut = 0; cut < size; cut++) {
        struct tensor t = {0};
        uint8_t *copy = malloc(cut + 1); /* its end is where the sanitizer looks */
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_int_equal(npy_parse(copy, cut, "file", &t), ST_FORMAT);
        free(copy);
    }
    free(bytes);
}

/* ---- archives -------------------------------------------------------------------------------- */

struct entry {
    const char *name, *header; /* header NULL: `data` bytes and nothing before them */
    size_t data;
};

/* A zip in fresh memory. */
static uint8_t *zip(const struct entry *entries, size_t count, bool deflate, size_t *size) {
    struct sample_member members[8];
    uint8_t *data[8];
    struct sample s;
    assert_true(count <= COUNT_OF(members));
    for (size_t i = 0; i < count; i++) {
        size_t bytes = entries[i].data;
        data[i] = entries[i].header ? npy(1, entries[i].header, -1, entries[i].data, &bytes)
                                    : calloc(bytes + 1, 1);
        assert_non_null(data[i]);
        members[i] = (struct sample_member){entries[i].name, data[i], bytes};
    }
    s = sample_pack(members, count, deflate);
    for (size_t i = 0; i < count; i++)
        free(data[i]);
    *size = s.size;
    return s.bytes;
}

/* The reader over bytes in memory. */
static enum status parse(uint8_t *bytes, size_t size, struct checkpoint *out) {
    static char path[] = "file";
    memset(out, 0, sizeof *out);
    out->weights_path = path;
    out->map = bytes;
    out->map_size = size;
    return npz_parse(out);
}

static const struct entry two[] = {{"a/b.npy", F4("(2, 3)"), 24},
                                   {"c.npy", HEAD("'<f2'", "True", "(3,)"), 6}};

static void test_archive(void **state) {
    (void)state;
    for (int deflate = 0; deflate < 2; deflate++) {
        struct checkpoint c;
        size_t size;
        uint8_t *bytes = zip(two, 2, deflate, &size);
        if (parse(bytes, size, &c) != ST_OK) fail_msg("%s", fail_message());
        assert_int_equal(c.count, 2);
        assert_string_equal(c.tensors[0].name, "a/b");
        assert_string_equal(c.tensors[1].name, "c");
        for (int i = 0; i < 6; i++)
            assert_int_equal(c.tensors[0].data[i], i);
        const bool mapped = c.tensors[0].data >= bytes && c.tensors[0].data < bytes + size;
        assert_int_equal(mapped, !deflate); /* what is stored is not copied */
        container_release(&c);
        free(bytes);
    }
}

#define BOMB ((size_t)80 << 20)

static const struct {
    const char *what;
    struct entry entries[3];
    size_t count;
    bool deflate;
    const char *says;
} hostile[] = {
    {"an object array",
     {{"a.npy", HEAD("'|O'", "False", "(1,)"), 8}},
     1,
     false,
     "file: a.npy: is an array of Python objects"},
    {"a name that climbs",
     {{"../a.npy", F4("(1,)"), 4}},
     1,
     false,
     "leads out with ..: '../a.npy'"},
    {"a name that climbs inside",
     {{"a/../../b.npy", F4("(1,)"), 4}},
     1,
     false,
     "leads out with .."},
    {"an absolute name", {{"/etc/a.npy", F4("(1,)"), 4}}, 1, false, "is absolute: '/etc/a.npy'"},
    {"a name twice", {{"a.npy", F4("(1,)"), 4}, {"a.npy", F4("(1,)"), 4}}, 2, false, "twice"},
    {"no array", {{"a.npy", F4("(1,)"), 4}, {"readme.txt", NULL, 4}}, 2, false, "no NumPy array"},
    {"a name that is only its suffix", {{".npy", F4("(1,)"), 4}}, 1, false, "no NumPy array"},
    {"a line end in a name", {{"a\nb.npy", F4("(1,)"), 4}}, 1, false, "control character"},
    {"zeros that are no array", {{"a.npy", NULL, 100}}, 1, true, "is no NumPy array"},
    {"an empty array file", {{"a.npy", NULL, 0}}, 1, false, "is no NumPy array"},
    {"a bomb", {{"a.npy", NULL, BOMB}}, 1, true, "unpack to more than"},
    {"only a folder", {{"a/", NULL, 0}}, 1, false, "holds no arrays"},
};

static void test_hostile_archives(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(hostile); i++) {
        struct checkpoint c;
        size_t size;
        uint8_t *bytes = zip(hostile[i].entries, hostile[i].count, hostile[i].deflate, &size);
        if (parse(bytes, size, &c) == ST_OK) fail_msg("%s: accepted", hostile[i].what);
        if (!strstr(fail_message(), hostile[i].says))
            fail_msg("%s: '%s', expected '%s'", hostile[i].what, fail_message(), hostile[i].says);
        container_release(&c);
        free(bytes);
    }
}

/* A deflated array of 24 bytes, its directory (and local header) saying something else. */
static const struct {
    const char *what;
    size_t at; /* in the entry of the directory */
    uint32_t value;
    const char *says;
} lies[] = {
    {"a size that is too small", 24, 100, "unpacks to more than its size"},
    {"a size that is too large", 24, 200, "unpacks to less than its size"},
    {"a size that no deflate stream has", 24, 0x7fffffff, "cannot unpack to"},
    {"another checksum", 16, 1, "another checksum"},
    {"another method", 10, 12, "compressed by method 12"},
    {"stored after all", 10, 0, "two sizes"},
    {"packed bytes that end early", 20, 20, "does not unpack"},
};

static void test_lying_archives(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        struct checkpoint c;
        size_t size, at = 0;
        uint8_t *bytes = zip(two, 1, true, &size);
        while (memcmp(bytes + at, "PK\1\2", 4) != 0)
            at++;
        for (int b = 0; b < (lies[i].at == 10 ? 2 : 4); b++)
            bytes[at + lies[i].at + (size_t)b] = (uint8_t)(lies[i].value >> (8 * b));
        if (parse(bytes, size, &c) == ST_OK) fail_msg("%s: accepted", lies[i].what);
        if (!strstr(fail_message(), lies[i].says))
            fail_msg("%s: '%s', expected '%s'", lies[i].what, fail_message(), lies[i].says);
        container_release(&c);
        free(bytes);
    }
}

/* Cut anywhere, and every byte changed in turn: a sentence or tensors inside their memory. */
static void test_broken_archives(void **state) {
    (void)state;
    for (int deflate = 0; deflate < 2; deflate++) {
        size_t size;
        struct checkpoint c;
        uint8_t *bytes = zip(two, 2, deflate, &size);
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *copy = malloc(cut + 1);
            assert_non_null(copy);
            memcpy(copy, bytes, cut);
            assert_int_not_equal(parse(copy, cut, &c), ST_OK);
            container_release(&c);
            free(copy);
        }
        for (size_t at = 0; at < size; at++) {
            bytes[at] ^= 0x55;
            if (parse(bytes, size, &c) == ST_OK) container_check(&c);
            container_release(&c);
            bytes[at] ^= 0x55;
        }
        free(bytes);
    }
}

/* ---- NumPy's own ----------------------------------------------------------------------------- */

static void test_jax(void **state) {
    (void)state;
    static const char *const files[] = {"jax.npz", "jax_deflated.npz"};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        struct compared counts = container_compare(files[i], "vit.safetensors", NULL);
        assert_int_equal(counts.outputs, 32);
        assert_int_equal(counts.transposed, 2 * 3 + 2 + i); /* of positions Fortran's order */
        assert_int_equal(counts.dropped, i);                /* the optimiser's step */
    }
}

static const struct {
    const char *name;
    enum name_fate fate;
    const char *target;
    int part, parts;
    enum layout layout;
} names[] = {
    {"Transformer/encoderblock_11/MultiHeadDotProductAttention_1/value/kernel", NAME_USE,
     "blocks.11.attn.qkv.weight", 2, 3, LAYOUT_HEADS_IN},
    {"Transformer/encoderblock_3/MultiHeadDotProductAttention_0/query/bias", NAME_USE,
     "blocks.3.attn.qkv.bias", 0, 3, LAYOUT_FLAT},
    {"Transformer/encoderblock_0/LayerNorm_1/scale", NAME_USE, "blocks.0.norm2.weight", 0, 0,
     LAYOUT_SAME},
    {"Transformer/encoderblock_0/MlpBlock_0/Dense_1/kernel", NAME_USE, "blocks.0.mlp.fc2.weight", 0,
     0, LAYOUT_MATRIX},
    {"pos_embedding", NAME_USE, "pos_embed", 0, 0, LAYOUT_SAME},
    {"MAPHead_0/MultiHeadDotProductAttention_0/value/kernel", NAME_USE, "attn_pool.kv.weight", 1, 2,
     LAYOUT_HEADS_IN},
    {"pre_logits/kernel", NAME_DROP, "", 0, 0, LAYOUT_SAME},
    {"params/txt/Embed_0/embedding", NAME_DROP, "", 0, 0, LAYOUT_SAME},
    {"Transformer/encoderblock/LayerNorm_0/scale", NAME_REFUSE, "", 0, 0, LAYOUT_SAME},
    {"conv_root/kernel", NAME_REFUSE, "", 0, 0, LAYOUT_SAME},
    {"block3/unit01/conv1/kernel", NAME_REFUSE, "", 0, 0, LAYOUT_SAME},
    {"Transformer/encoderblock_0/LayerNorm_3/scale", NAME_UNKNOWN, "", 0, 0, LAYOUT_SAME},
};

static void test_jax_names(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct name_result r;
        names_map(&names_jax, names[i].name, &r);
        if (r.fate != names[i].fate || strcmp(r.target, names[i].target) != 0 ||
            r.part != names[i].part || r.parts != names[i].parts || r.layout != names[i].layout)
            fail_msg("%s: fate %d, '%s', part %d of %d, layout %d", names[i].name, r.fate, r.target,
                     r.part, r.parts, r.layout);
    }
}

/* The head of 2020's files reads pre_logits, so it goes with it. */
static void test_headless(void **state) {
    (void)state;
    struct checkpoint c;
    struct conversion conversion;
    container_open("jax.npz", NULL, &c);
    for (size_t i = 0; i < c.count; i++) { /* some other array, in its place in the order */
        if (strcmp(c.tensors[i].name, "head/kernel") != 0) continue;
        mem_free(c.tensors[i].name);
        c.tensors[i].name = str_copy("pre_logits/kernel");
    }
    assert_int_equal(tensors_sort(c.tensors, c.count, "file"), ST_OK);
    container_plan(&c, &conversion);
    assert_int_equal(conversion.classes, 0);
    conversion_release(&conversion);
    checkpoint_release(&c);
}

static void test_jax_settings(void **state) {
    (void)state;
    struct checkpoint c;
    struct conversion conversion;
    container_open("jax.npz", NULL, &c);
    container_plan(&c, &conversion);
    assert_string_equal(conversion.origin, "Google's JAX ViT");
    assert_int_equal(conversion.vit.activation, ACT_GELU_TANH);
    assert_int_equal(conversion.vit.pos_resample, RESAMPLE_BILINEAR);
    assert_true(conversion.preprocess.mean[0] == 0.5 && conversion.preprocess.std[2] == 0.5);
    assert_string_equal(conversion.preprocess.crop_mode, "squash");
    conversion_release(&conversion);
    checkpoint_release(&c);
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Element (i0, i1, ...) of the source is its row-major index, in both orders of memory. */
static const struct {
    enum layout layout;
    int rank;
    size_t dims[4];
    int out_rank;
    size_t out[4];
    float expected[6]; /* from canonical index 1 on */
} layouts[] = {
    {LAYOUT_SAME, 2, {2, 3}, 2, {2, 3}, {1, 2, 3, 4, 5}},
    {LAYOUT_FLAT, 2, {2, 3}, 1, {6}, {1, 2, 3, 4, 5}},
    {LAYOUT_MATRIX, 2, {2, 3}, 2, {3, 2}, {3, 1, 4, 2, 5}},
    {LAYOUT_CONV, 4, {1, 2, 3, 2}, 4, {2, 3, 1, 2}, {6, 2, 8, 4, 10, 1}},
    {LAYOUT_HEADS_IN, 3, {2, 2, 3}, 2, {6, 2}, {6, 1, 7, 2, 8, 3}},
    {LAYOUT_HEADS_IN, 2, {2, 3}, 2, {3, 2}, {3, 1, 4, 2, 5}},
    {LAYOUT_HEADS_OUT, 3, {2, 3, 2}, 2, {2, 6}, {2, 4, 6, 8, 10, 1}},
};

static void test_layouts(void **state) {
    (void)state;
    for (size_t row = 0; row < 2 * COUNT_OF(layouts); row++) {
        const size_t i = row / 2;
        uint16_t numbers[16];
        struct tensor t = {.dtype = DT_I16, .rank = layouts[i].rank, .column_major = row % 2};
        size_t dims[TENSOR_MAX_RANK];
        float got[12];
        int rank;
        char name[] = "t";
        t.name = name;
        memcpy(t.dims, layouts[i].dims, sizeof layouts[i].dims);
        const size_t count = tensor_count(&t);
        for (size_t n = 0; n < count; n++) {
            size_t rest = n, place = 0, step = 1, index[4];
            for (int axis = t.rank - 1; axis >= 0; axis--) {
                index[axis] = rest % t.dims[axis];
                rest /= t.dims[axis];
            }
            for (int axis = 0; axis < t.rank; axis++) {
                place += index[axis] * step;
                step *= t.dims[axis];
            }
            numbers[t.column_major ? place : n] = (uint16_t)n;
        }
        t.data = (const uint8_t *)numbers;
        assert_true(layout_shape(layouts[i].layout, &t, dims, &rank));
        assert_int_equal(rank, layouts[i].out_rank);
        assert_memory_equal(dims, layouts[i].out, (size_t)rank * sizeof dims[0]);
        const size_t n = count - 1 < 6 ? count - 1 : 6;
        assert_int_equal(layout_read(&t, layouts[i].layout, 1, n, got), ST_OK);
        for (size_t k = 0; k < n; k++)
            if (got[k] != layouts[i].expected[k])
                fail_msg("row %zu, element %zu: %g, want %g", row, k + 1, (double)got[k],
                         (double)layouts[i].expected[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_arrays),      cmocka_unit_test(test_bad_arrays),
        cmocka_unit_test(test_cut_arrays),       cmocka_unit_test(test_archive),
        cmocka_unit_test(test_hostile_archives), cmocka_unit_test(test_lying_archives),
        cmocka_unit_test(test_broken_archives),  cmocka_unit_test(test_jax),
        cmocka_unit_test(test_jax_settings),     cmocka_unit_test(test_jax_names),
        cmocka_unit_test(test_headless),         cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
