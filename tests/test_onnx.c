/*
 * test_onnx: ONNX files assembled field by field, good and hostile, and torch.onnx's own
 * (tests/ref/make_containers.py), which must give the model that the same weights give as
 * safetensors.
 */
#include "weights/convert.h" // before cmocka.h, which has a macro `fail`
#include "weights/layout.h"
#include "weights/onnx.h"
#include "weights/sha256.h"

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

#include "tests/container_sample.h"

/* ---- building a message ---------------------------------------------------------------------- */

struct bytes {
    uint8_t at[8192];
    size_t size;
};

static void put_varint(struct bytes *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        b->at[b->size++] = (uint8_t)(value | 0x80);
    b->at[b->size++] = (uint8_t)value;
}

static void put_int(struct bytes *b, unsigned field, uint64_t value) {
    put_varint(b, field << 3);
    put_varint(b, value);
}

static void put_bytes(struct bytes *b, unsigned field, const void *bytes, size_t size) {
    put_varint(b, field << 3 | 2);
    put_varint(b, size);
    assert_true(size <= sizeof b->at - b->size);
    if (size) memcpy(b->at + b->size, bytes, size);
    b->size += size;
}

static void put_text(struct bytes *b, unsigned field, const char *text) {
    put_bytes(b, field, text, strlen(text));
}

static void put_message(struct bytes *b, unsigned field, const struct bytes *inner) {
    put_bytes(b, field, inner->at, inner->size);
}

/* What a row of the tables may change of the one tensor of a small model. */
struct faults {
    const char *name, *op, *location, *offset, *length; /* NULL: as it should be */
    int type;                                           /* 0: FLOAT */
    uint64_t dim;                                       /* 0: 2 */
    size_t raw;     /* bytes of raw_data; 0: 24, 1: none at all */
    bool floats;    /* float_data instead of raw_data */
    bool in_pieces; /* ... twice */
    bool two_graphs, segment, deep;
};

/* A model of one tensor (dim, 3), the second operand of one node. */
static void build(const struct faults *f, struct bytes *out) {
    struct bytes graph = {.size = 0}, tensor = {.size = 0}, node = {.size = 0}, pair = {.size = 0};
    static const float numbers[6] = {1, 2, 3, 4, 5, 6};
    const char *name = f->name ? f->name : "head.weight";
    put_int(&tensor, 1, f->dim ? f->dim : 2);
    put_int(&tensor, 1, 3);
    put_int(&tensor, 2, f->type ? (uint64_t)f->type : 1);
    put_text(&tensor, 8, name);
    if (f->location) {
        pair.size = 0, put_text(&pair, 1, "location"), put_text(&pair, 2, f->location);
        put_message(&tensor, 13, &pair);
        if (f->offset) {
            pair.size = 0, put_text(&pair, 1, "offset"), put_text(&pair, 2, f->offset);
            put_message(&tensor, 13, &pair);
        }
        if (f->length) {
            pair.size = 0, put_text(&pair, 1, "length"), put_text(&pair, 2, f->length);
            put_message(&tensor, 13, &pair);
        }
        put_int(&tensor, 14, 1);
    } else if (f->raw != 1) {
        put_bytes(&tensor, f->floats ? 4 : 9, numbers, f->raw ? f->raw : sizeof numbers);
        if (f->in_pieces) put_bytes(&tensor, 4, numbers, 4);
    }
    if (f->segment) put_bytes(&tensor, 3, "", 0);
    put_text(&node, 1, "x");
    put_text(&node, 1, name);
    put_text(&node, 2, "y");
    put_text(&node, 3, "/head/MatMul");
    put_text(&node, 4, f->op ? f->op : "MatMul");
    put_message(&graph, 1, &node);
    put_message(&graph, 5, &tensor);
    for (int i = 0; f->deep && i < 500;
         i++) { /* a graph in an attribute in a node in a graph ... */
        struct bytes inner = graph;
        graph.size = 0;
        put_message(&graph, 99, &inner);
        if (graph.size > 4000) break;
    }
    out->size = 0;
    put_int(out, 1, 8);
    put_text(out, 2, "test");
    put_message(out, 7, &graph);
    if (f->two_graphs) put_message(out, 7, &graph);
}

static char folder[] = "/tmp/vitrine-onnx-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static const char *scratch(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put_file(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(scratch(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int remove_folder(void **state) {
    (void)state;
    unlink(scratch("model.onnx"));
    unlink(scratch("model.onnx.data"));
    unlink(scratch("sub/model.data"));
    rmdir(scratch("sub"));
    return rmdir(folder);
}

static enum status open_model(const struct bytes *b, struct checkpoint *out) {
    put_file("model.onnx", b->at, b->size);
    return checkpoint_open(scratch("model.onnx"), NULL, out);
}

/* ---- small models ---------------------------------------------------------------------------- */

static const struct {
    const char *what;
    struct faults f;
    const char *name, *shape;
    bool column_major, unused;
} good[] = {
    {"a product's matrix is (in, out)", {.name = NULL}, "head.weight", "(3, 2)", true, false},
    {"named by its node", {.name = "onnx::MatMul_7"}, "head.weight", "(3, 2)", true, false},
    {"float_data", {.floats = true}, "head.weight", "(3, 2)", true, false},
    {"its numbers in a file beside",
     {.location = "model.onnx.data", .offset = "8", .length = "24"},
     "head.weight",
     "(3, 2)",
     true,
     false},
    {"and to the end of it",
     {.location = "model.onnx.data", .offset = "8"},
     "head.weight",
     "(3, 2)",
     true,
     false},
    {"in a folder below", {.location = "sub/model.data"}, "head.weight", "(3, 2)", true, false},
    {"used by another op", {.op = "Mul"}, "head.weight", "(2, 3)", false, false},
    {"what no rule names keeps its name",
     {.name = "val_3", .op = "Mul"},
     "val_3",
     "(2, 3)",
     false,
     false},
    {"sizes of a resampling", {.name = "val_3", .op = "Resize"}, "val_3", "(2, 3)", false, true},
    {"halves", {.type = 10, .raw = 12}, "head.weight", "(3, 2)", true, false},
    {"bfloat16", {.type = 16, .raw = 12}, "head.weight", "(3, 2)", true, false},
};

static void test_good(void **state) {
    (void)state;
    uint8_t data[32] = {0};
    mkdir(scratch("sub"), 0700);
    put_file("model.onnx.data", data, 32);
    put_file("sub/model.data", data, 24);
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct bytes b;
        struct checkpoint c;
        char text[64];
        build(&good[i].f, &b);
        if (open_model(&b, &c) != ST_OK) fail_msg("%s: %s", good[i].what, fail_message());
        assert_string_equal(c.container, "ONNX");
        assert_int_equal(c.count, 1);
        const struct tensor *t = &c.tensors[0];
        assert_string_equal(t->name, good[i].name);
        assert_string_equal(shape_text(t->dims, t->rank, text, sizeof text), good[i].shape);
        assert_int_equal(t->column_major, good[i].column_major);
        assert_int_equal(t->unused != NULL, good[i].unused);
        container_check(&c);
        checkpoint_release(&c);
    }
}

static const struct {
    const char *what;
    struct faults f;
    const char *says;
} bad[] = {
    {"data of a folder above",
     {.location = "../model.data"},
     "'../model.data', want a file in its"},
    {"data of a folder above, inside", {.location = "sub/../../x"}, "want a file in its own"},
    {"absolute data", {.location = "/etc/passwd"}, "want a file in its own folder"},
    {"data of an empty name", {.location = ""}, "want a file in its own folder"},
    {"data below nothing", {.location = "a//b"}, "want a file in its own folder"},
    {"a backslash", {.location = "..\\x"}, "want a file in its own folder"},
    {"a line end", {.location = "a\nb"}, "want a file in its own folder"},
    {"data that is not there", {.location = "absent"}, "absent: No such file"},
    {"data that is a folder", {.location = "sub"}, "is no regular file"},
    {"data beyond its end",
     {.location = "model.onnx.data", .offset = "9", .length = "24"},
     "has 32 bytes"},
    {"an offset beyond the end", {.location = "model.onnx.data", .offset = "33"}, "has 32 bytes"},
    {"an offset of 2^64",
     {.location = "model.onnx.data", .offset = "18446744073709551616"},
     "no offset"},
    {"a negative offset", {.location = "model.onnx.data", .offset = "-8"}, "no offset"},
    {"too few bytes in the file",
     {.location = "model.onnx.data", .offset = "16"},
     "needs 24 bytes, the file has 16"},
    {"too few numbers", {.raw = 20}, "needs 24 bytes, the file has 20"},
    {"more rows than numbers", {.dim = 1000000}, "needs 12000000 bytes"},
    {"rows beyond 2^64", {.dim = INT64_MAX}, "overflows"},
    {"a negative size", {.dim = UINT64_MAX}, "negative size"},
    {"no numbers", {.raw = 1}, "neither raw nor as floats"},
    {"halves as integers", {.type = 10, .floats = true}, "neither raw nor as floats"},
    {"float_data in pieces", {.floats = true, .in_pieces = true}, "in pieces"},
    {"a segment", {.segment = true}, "in segments"},
    {"two graphs", {.two_graphs = true}, "two graphs"},
    {"quantised", {.op = "DequantizeLinear"}, "its weights are quantised (DequantizeLinear)"},
    {"only integers", {.type = 7, .raw = 24}, "without floating-point weights"},
    {"deep nesting", {.deep = true}, "without floating-point weights"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct bytes b;
        struct checkpoint c;
        build(&bad[i].f, &b);
        if (open_model(&b, &c) == ST_OK) fail_msg("%s: accepted", bad[i].what);
        if (!strstr(fail_message(), bad[i].says))
            fail_msg("%s: '%s', expected '%s'", bad[i].what, fail_message(), bad[i].says);
    }
}

/* The wire itself: bytes behind a good beginning. */
static const struct {
    const char *what, *bytes;
    size_t size;
} wires[] = {
    {"a varint without end", "\x08\x08\x12\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 15},
    {"a varint of 70 bits", "\x08\x08\x12\x00\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 15},
    {"a length of 2^63", "\x08\x08\x12\x00\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 15},
    {"a length of 2^64 - 1", "\x08\x08\x12\x00\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15},
    {"a length beyond the file", "\x08\x08\x12\x00\x3a\x7f\x00\x00\x00", 9},
    {"field 0", "\x08\x08\x12\x00\x00\x01\x00\x00\x00", 9},
    {"a group", "\x08\x08\x12\x00\x3b\x01\x00\x00\x00", 9},
    {"type 7", "\x08\x08\x12\x00\x3f\x01\x00\x00\x00", 9},
    {"a field number beyond 2^29", "\x08\x08\x12\x00\xf8\xff\xff\xff\xff\x01\x00", 11},
    {"a double cut short", "\x08\x08\x12\x00\x09\x00\x00\x00\x00", 9},
    {"no graph", "\x08\x08\x12\x04test\x08\x08", 10},
    {"an empty graph", "\x08\x08\x12\x03zzz\x3a\x00", 9},
};

static void test_wire(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(wires); i++) {
        struct checkpoint c;
        put_file("model.onnx", wires[i].bytes, wires[i].size);
        if (checkpoint_open(scratch("model.onnx"), NULL, &c) == ST_OK)
            fail_msg("%s: accepted", wires[i].what);
        assert_non_null(strstr(fail_message(), "model.onnx: "));
    }
}

/* ---- torch's own ----------------------------------------------------------------------------- */

static const struct {
    const char *file, *reference, *config;
    size_t outputs, transposed, dropped;
} torch_files[] = {
    {"vit_folded.onnx", "vit.safetensors", NULL, 32, 8, 2},
    {"vit_unfolded.onnx", "vit.safetensors", NULL, 32, 0, 2},
    {"vit_dynamo.onnx", "vit.safetensors", NULL, 32, 8, 1},
    {"swin_folded.onnx", "swin.safetensors", "{\"model_args\": {\"img_size\": 16}}", 37, 9, 0},
    {"swin_dynamo.onnx", "swin.safetensors", "{\"model_args\": {\"img_size\": 16}}", 37, 9, 0},
};

static void test_torch(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(torch_files); i++) {
        const struct compared counts =
            container_compare(torch_files[i].file, torch_files[i].reference, torch_files[i].config);
        if (counts.outputs != torch_files[i].outputs ||
            counts.transposed != torch_files[i].transposed ||
            counts.dropped != torch_files[i].dropped)
            fail_msg("%s: %zu outputs, %zu transposed, %zu dropped", torch_files[i].file,
                     counts.outputs, counts.transposed, counts.dropped);
    }
}

/* eps and activation are in the nodes, whatever the architecture's row says. */
static void test_facts(void **state) {
    (void)state;
    static const struct {
        const char *file;
        double eps;
        const char *activation;
    } rows[] = {{"vit_folded.onnx", 1e-6, "gelu"},
                {"vit_dynamo.onnx", 1e-6, "gelu"},
                {"swin_folded.onnx", 1e-5, "gelu"},
                {"positions.onnx", 0, NULL}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct checkpoint c;
        container_open(rows[i].file, NULL, &c);
        assert_true(c.norm_eps == rows[i].eps);
        if (rows[i].activation) assert_string_equal(c.activation, rows[i].activation);
        checkpoint_release(&c);
    }
}

/* Positions that were cut for their resampling are one table again. */
static void test_positions(void **state) {
    (void)state;
    struct checkpoint ours, theirs;
    container_open("positions.onnx", NULL, &ours);
    container_open("positions.safetensors", NULL, &theirs);
    assert_int_equal(ours.count, 2);
    for (size_t i = 0; i < theirs.count; i++) {
        const struct tensor *want = &theirs.tensors[i];
        const struct tensor *got = checkpoint_find(&ours, want->name);
        assert_non_null(got);
        assert_memory_equal(got->dims, want->dims, sizeof got->dims);
        assert_memory_equal(got->data, want->data, want->bytes);
    }
    checkpoint_release(&ours);
    checkpoint_release(&theirs);
}

static uint8_t *read_all(const char *name, size_t *size) {
    char path[160];
    uint8_t *bytes = NULL;
    snprintf(path, sizeof path, CONTAINERS "%s", name);
    assert_int_equal(file_read(path, (size_t)1 << 20, &bytes, size), ST_OK);
    return bytes;
}

static enum status parse(uint8_t *bytes, size_t size, struct checkpoint *out) {
    static char path[] = "file";
    memset(out, 0, sizeof *out);
    out->weights_path = path;
    out->map = bytes;
    out->map_size = size;
    return onnx_parse(out);
}

/* The graph is one field, so a cut file is refused wherever it is cut. */
static void test_cut(void **state) {
    (void)state;
    static const struct {
        const char *file;
        size_t step;
    } rows[] = {{"positions.onnx", 1}, {"vit_folded.onnx", 61}, {"swin_dynamo.onnx", 97}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t size;
        uint8_t *bytes = read_all(rows[i].file, &size);
        for (size_t cut = 1; cut + 8 < size; cut += rows[i].step) {
            struct checkpoint c;
            uint8_t *copy = malloc(cut);
            assert_non_null(copy);
            memcpy(copy, bytes, cut);
            assert_int_not_equal(parse(copy, cut, &c), ST_OK);
            container_release(&c);
            free(copy);
        }
        mem_free(bytes);
    }
}

static void test_changed(void **state) {
    (void)state;
    size_t size;
    uint8_t *bytes = read_all("positions.onnx", &size);
    for (size_t at = 0; at < size; at++) {
        struct checkpoint c;
        for (int change = 0; change < 2; change++) {
            const uint8_t was = bytes[at];
            bytes[at] = change ? 0xff : (uint8_t)(was ^ 1);
            if (parse(bytes, size, &c) == ST_OK) container_check(&c);
            container_release(&c);
            bytes[at] = was;
        }
    }
    mem_free(bytes);
}

/* ---- folders -------------------------------------------------------------------------------- */

static void copy(const char *name, const char *to) {
    size_t size;
    uint8_t *bytes = read_all(name, &size);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    mem_free(bytes);
}

/* What lies in a folder of the usual names, and which of it is the weights. */
static void test_folders(void **state) {
    static const struct {
        const char *files[4];
        const char *weights; /* NULL: refused */
        const char *says;    /* aside, or the sentence; NULL: nothing */
    } rows[] = {
        {{"onnx/model.onnx"}, "onnx/model.onnx", NULL},
        {{"model.onnx", "onnx/model.onnx"}, "model.onnx", NULL},
        {{"onnx/model.onnx", "onnx/model_int8.onnx", "onnx/model_fp16.onnx"},
         "onnx/model.onnx",
         "onnx/model_fp16.onnx, onnx/model_int8.onnx (variants of the same model)"},
        {{"model.onnx", "model_q4.onnx"}, "model.onnx", "model_q4.onnx (variants"},
        {{"onnx/model_quantized.onnx"}, NULL, "only with variants of it; name one: onnx/model_q"},
        {{"readme.onnx.txt"}, NULL, "or model.onnx"},
        {{"onnx/model.onnx", "model.safetensors"}, "model.safetensors", NULL},
    };
    char path[120], at[200];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct checkpoint c;
        char name[] = "/tmp/vitrine-onnx-XXXXXX";
        assert_non_null(mkdtemp(name));
        snprintf(path, sizeof path, "%s/onnx", name);
        assert_int_equal(mkdir(path, 0700), 0);
        for (size_t n = 0; n < COUNT_OF(rows[i].files) && rows[i].files[n]; n++) {
            const bool safe = strstr(rows[i].files[n], "safetensors") != NULL;
            snprintf(at, sizeof at, "%s/%s", name, rows[i].files[n]);
            copy(safe ? "vit.safetensors" : "vit_folded.onnx", at);
        }
        const enum status st = checkpoint_open(name, NULL, &c);
        if ((st == ST_OK) != (rows[i].weights != NULL)) fail_msg("row %zu: %s", i, fail_message());
        const char *said = st == ST_OK ? c.aside : fail_message();
        if (rows[i].says ? !said || !strstr(said, rows[i].says) : said && st == ST_OK)
            fail_msg("row %zu: '%s'", i, said ? said : "nothing");
        if (st == ST_OK) assert_string_equal(c.weights_path + strlen(name) + 1, rows[i].weights);
        if (st == ST_OK) assert_string_equal(c.folder, name);
        checkpoint_release(&c);
        for (size_t n = 0; n < COUNT_OF(rows[i].files) && rows[i].files[n]; n++) {
            snprintf(at, sizeof at, "%s/%s", name, rows[i].files[n]);
            unlink(at);
        }
        rmdir(path);
        rmdir(name);
    }
}

/* External data counts: that of the model, then that of the file beside it. */
static void test_hash(void **state) {
    struct checkpoint c;
    size_t sizes[2];
    uint8_t *model = read_all("vit_dynamo.onnx", &sizes[0]);
    uint8_t *data = read_all("vit_dynamo.onnx.data", &sizes[1]);
    const struct sha256_run runs[] = {{model, sizes[0]}, {data, sizes[1]}};
    char hex[65];
    (void)state;
    container_open("vit_dynamo.onnx", NULL, &c);
    assert_int_equal(checkpoint_hash(&c), ST_OK);
    assert_int_equal(sha256_runs(runs, 2, hex), ST_OK);
    assert_string_equal(c.sha256, hex);
    checkpoint_release(&c);
    mem_free(model);
    mem_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),  cmocka_unit_test(test_bad),
        cmocka_unit_test(test_wire),  cmocka_unit_test(test_torch),
        cmocka_unit_test(test_facts), cmocka_unit_test(test_positions),
        cmocka_unit_test(test_cut),   cmocka_unit_test(test_changed),
        cmocka_unit_test(test_hash),  cmocka_unit_test(test_folders),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
