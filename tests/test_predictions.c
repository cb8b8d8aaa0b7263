/*
 * test_predictions: rows written, read back and gone on with: every number comes back, a file cut
 * at any byte is read to its last whole image and completed to the same bytes, and what is no such
 * file is refused in a sentence.
 */
#include "tools/predictions.h" // before cmocka.h, which has a macro `fail`

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CLASSES = 10, TOPK = 3 };

static const char head[] = "{\"topk\":3,\"classes\":10,\"model_sha256\":\"ab\"}";

static const struct row_prediction predictions[TOPK] = {
    {.index = 4, .id = "n04", .label = "four, \"4\"", .score = 0.7123456789f},
    {.index = 0, .score = 0.1f},
    {.index = 9, .id = "nine", .label = "nine", .score = 1e-20f}};
static const struct row_target right = {4, "n04", "four, \"4\"", 1, 0.7123456789f};
static const struct row_target wrong = {9, "nine", "nine", 3, 1e-20f};
static const struct row_target stranger = {.index = -1, .label = "no,\tclass\nof ours"};
static const struct row_target failed = {9, "nine", "nine", 0, 0};

static const struct row rows[] = {
    {.path = "a/b.jpg",
     .width = 3,
     .height = 2,
     .predictions = predictions,
     .count = TOPK,
     .target = &right},
    {.path = "new\nline, \"quoted\"\t\\x.png",
     .width = 1,
     .height = 1,
     .predictions = predictions,
     .count = TOPK,
     .target = &wrong},
    {.path = "broken.jpg", .error = "truncated, \"it\" says", .target = &failed},
    {.path = "x",
     .width = 1,
     .height = 1,
     .predictions = predictions,
     .count = TOPK,
     .target = &stranger},
    {.path = "nameless.jpg", .error = "no picture", .target = &stranger},
};

static const char *const suffixes[] = {"csv", "tsv", "jsonl"};

static void demand(enum status st) {
    if (st != ST_OK) fail_msg("%s", fail_message());
}

static char *temporary(const char *suffix) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/test_predictions.%d.%s", (int)getpid(), suffix);
    return path;
}

static void write_rows(struct predictions *p, size_t from) {
    for (size_t i = from; i < COUNT_OF(rows); i++)
        rows_write(&p->rows, &rows[i]);
    demand(predictions_flush(p));
    demand(predictions_close(p, ST_OK));
}

static void put_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void check_row(const struct prediction *got, const struct row *want) {
    const struct row_target *t = want->target;
    assert_non_null(got);
    assert_string_equal(got->path, want->path);
    assert_int_equal(got->target, t->index);
    if (t->index < 0) assert_string_equal(got->target_label, t->label);
    if (want->error) {
        assert_string_equal(got->message, want->error);
        return;
    }
    assert_null(got->message);
    assert_int_equal(got->best, 4);
    assert_true(got->confidence == predictions[0].score);
    assert_int_equal(got->rank, t->rank);
    assert_true(got->target_score == t->score);
}

static void test_round_trip(void **state) {
    const char *path = temporary(*state);
    struct predictions p;
    struct predictions_reader r;
    const struct prediction *row;
    demand(predictions_create(&p, path, head));
    write_rows(&p, 0);
    demand(predictions_read_open(&r, path));
    assert_string_equal(r.head, head);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        demand(predictions_read(&r, CLASSES, &row));
        check_row(row, &rows[i]);
    }
    demand(predictions_read(&r, CLASSES, &row));
    assert_null(row);
    assert_false(r.cut);
    predictions_read_close(&r);
    unlink(path);
}

/* A cut at every byte: what is read is a beginning, and going on gives the whole file. */
static void test_cut(void **state) {
    const char *path = temporary(*state);
    struct predictions p;
    uint8_t *whole, *again;
    size_t size, size_again;
    demand(predictions_create(&p, path, head));
    write_rows(&p, 0);
    demand(file_read(path, 1 << 20, &whole, &size));
    for (size_t length = 0; length <= size; length++) {
        struct predictions_reader r;
        const struct prediction *row;
        put_bytes(path, whole, length);
        demand(predictions_read_open(&r, path));
        do
            demand(predictions_read(&r, CLASSES, &row));
        while (row);
        assert_true(r.end <= length);
        if (length == size) assert_int_equal(r.images, COUNT_OF(rows));
        if (r.head)
            demand(predictions_continue(&p, path, r.end));
        else
            demand(predictions_create(&p, path, head));
        write_rows(&p, r.images);
        predictions_read_close(&r);
        demand(file_read(path, 1 << 20, &again, &size_again));
        assert_int_equal(size_again, size);
        assert_memory_equal(again, whole, size);
        mem_free(again);
    }
    mem_free(whole);
    unlink(path);
}

#define MARK "# vitrine evaluate {\"topk\":1}\n"
#define COLUMNS_                                                                                   \
    "path,status,rank,index,id,label,score,message,target,target_id,target_label,"                 \
    "correct,target_rank,target_score\n"
#define OBJECT "{\"vitrine evaluate\":{\"topk\":1}}\n"

static const struct {
    const char *suffix, *text, *sentence;
} faults[] = {
    {"csv", "path,status\na,b\n", "is no file of rows"},
    {"csv", "# vitrine evaluate {\n", "first line is broken"},
    {"csv", "# vitrine evaluate {}\n", "no topk"},
    {"csv", "# vitrine evaluate {\"topk\":1e30}\n", "no topk"},
    {"jsonl", "{\"vitrine evaluate\":[1]}\n", "no topk"},
    {"csv", MARK COLUMNS_ "a,ok,1\n", "image 1: a line without the 14 columns"},
    {"csv", MARK COLUMNS_ "a,fine,1,2,x,x,0.5,,1,1,1,0,2,0.1\n", "a status"},
    {"csv", MARK COLUMNS_ "a,ok,1,10,x,x,0.5,,1,1,1,0,2,0.1\n", "first prediction"},
    {"csv", MARK COLUMNS_ "a,ok,1,-1,x,x,0.5,,1,1,1,0,2,0.1\n", "first prediction"},
    {"csv", MARK COLUMNS_ "a,ok,2,1,x,x,0.5,,1,1,1,0,2,0.1\n", "first prediction"},
    {"csv", MARK COLUMNS_ "a,ok,1,1,x,x,nan,,1,1,1,0,2,0.1\n", "first prediction"},
    {"csv", MARK COLUMNS_ "a,ok,1,1,x,x,0.5,,10,1,1,0,2,0.1\n", "no class"},
    {"csv", MARK COLUMNS_ "a,ok,1,1,x,x,0.5,,1,1,1,0,0,0.1\n", "its target"},
    {"csv", MARK COLUMNS_ "a,ok,1,1,x,x,0.5,,1,1,1,0,11,0.1\n", "its target"},
    {"csv", MARK COLUMNS_ "a,ok,1,1,x,x,0.5,,1,1,1,0,2,7\n", "its target"},
    {"jsonl", OBJECT "{\n", "no JSON object"},
    {"jsonl", OBJECT "[]\n", "no JSON object"},
    {"jsonl", OBJECT "{\"status\":\"ok\"}\n", "no class"},
    {"jsonl", OBJECT "{\"status\":\"ok\",\"target\":null}\n", "first prediction"},
    {"jsonl", OBJECT "{\"status\":\"ok\",\"target\":1e300}\n", "no class"},
    {"jsonl",
     OBJECT "{\"status\":\"ok\",\"target\":1,\"predictions\":[{\"index\":1,\"score\":1}]}\n",
     "its target"},
};

static void test_fault(void **state) {
    const size_t at = (size_t)(uintptr_t)*state;
    const char *path = temporary(faults[at].suffix);
    struct predictions_reader r;
    const struct prediction *row;
    enum status st;
    put_bytes(path, faults[at].text, strlen(faults[at].text));
    st = predictions_read_open(&r, path);
    if (st == ST_OK) {
        st = predictions_read(&r, CLASSES, &row);
        predictions_read_close(&r);
    }
    unlink(path);
    assert_int_equal(st, ST_FORMAT);
    if (!strstr(fail_message(), faults[at].sentence)) fail_msg("%s", fail_message());
    if (strncmp(fail_message(), path, strlen(path)) != 0) fail_msg("%s", fail_message());
}

static void test_heads(void **state) {
    static const char other[] = "{\"topk\":3,\"classes\":10,\"model_sha256\":\"cd\"}";
    (void)state;
    demand(predictions_compare("f", head, head));
    assert_int_equal(predictions_compare("f", head, other), ST_USAGE);
    assert_string_equal(fail_message(), "f: holds rows of another run: its model_sha256 is \"ab\", "
                                        "here it is \"cd\"");
    assert_int_equal(predictions_compare("f", "{\"a\":1,\"b\":2}", "{\"a\":1}"), ST_USAGE);
    assert_int_equal(predictions_compare("f", "{\"a\":1}", "{\"a\":1,\"b\":2}"), ST_USAGE);
    assert_int_equal(predictions_compare("f", "{", head), ST_FORMAT);
}

int main(void) {
    struct CMUnitTest tests[2 * COUNT_OF(suffixes) + COUNT_OF(faults) + 1];
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        tests[n++] = (struct CMUnitTest){.name = suffixes[i],
                                         .test_func = test_round_trip,
                                         .initial_state = (void *)(uintptr_t)suffixes[i]};
        tests[n++] = (struct CMUnitTest){.name = "cut at every byte",
                                         .test_func = test_cut,
                                         .initial_state = (void *)(uintptr_t)suffixes[i]};
    }
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        tests[n++] = (struct CMUnitTest){
            .name = faults[i].sentence, .test_func = test_fault, .initial_state = (void *)i};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(test_heads);
    return _cmocka_run_group_tests("predictions", tests, n, NULL, NULL);
}
