/* The forms of output, byte for byte: scripts depend on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/rows.h"

#include <cmocka.h> /* last: it defines fail() */

static const struct row_prediction two[] = {
    {.index = 281, .id = "n02123045", .label = "tabby", .score = 0.923125029f},
    {.index = 134, .id = "n02012849", .label = "crane, \"bird\"", .score = 1e-10f},
};
static const struct row_prediction unnamed[] = {{.index = 7, .score = -1.5f}};
static const struct row_prediction same[] = {
    {.index = 3, .id = "cat", .label = "cat", .score = 0.75f}};

static const struct row plain = {
    .path = "a.jpg", .width = 640, .height = 480, .predictions = two, .count = 2};
static const struct row broken = {.path = "b.jpg", .error = "truncated after 512 bytes"};
static const struct row nasty = {
    .path = "-x \"y\"\t\\,\nz\r\x01.png", .predictions = same, .count = 1};
static const struct row bytes = {
    .path = "caf\xc3\xa9 \xff\xe2\x82.png", .predictions = unnamed, .count = 1};
static const struct row nasty_error = {.path = "x", .error = "found \"<html>\",\n\twant an image"};

#define HEAD_TSV "path\tstatus\trank\tindex\tid\tlabel\tscore\tmessage\n"
#define HEAD_CSV "path,status,rank,index,id,label,score,message\n"

static const struct {
    const char *why;
    enum row_format format;
    const struct row *rows[3];
    const char *want;
} cases[] = {
    {"no rows", ROW_TEXT, {NULL}, ""},
    {"no rows", ROW_TSV, {NULL}, HEAD_TSV},
    {"no rows", ROW_CSV, {NULL}, HEAD_CSV},
    {"an empty array is still one", ROW_JSON, {NULL}, "[]\n"},
    {"no rows", ROW_JSONL, {NULL}, ""},

    {"a row each",
     ROW_TEXT,
     {&plain, &broken},
     "a.jpg\n  0.9231  n02123045  tabby\n  0.0000  n02012849  crane, \"bird\"\n"
     "b.jpg\n  error: truncated after 512 bytes\n"},
    {"the id once when it is the name",
     ROW_TEXT,
     {&nasty},
     "-x \"y\"\\t\\,\\nz\\r\\x01.png\n  0.7500  cat\n"},
    {"no names: the number", ROW_TEXT, {&bytes}, "caf\xc3\xa9 \xff\xe2\x82.png\n  -1.5000  7\n"},
    {"a message of two lines is one",
     ROW_TEXT,
     {&nasty_error},
     "x\n  error: found \"<html>\",\\n\\twant an image\n"},

    {"a line a rank",
     ROW_TSV,
     {&plain, &broken},
     HEAD_TSV "a.jpg\tok\t1\t281\tn02123045\ttabby\t0.923125029\t\n"
              "a.jpg\tok\t2\t134\tn02012849\tcrane, \"bird\"\t1.00000001e-10\t\n"
              "b.jpg\terror\t\t\t\t\t\ttruncated after 512 bytes\n"},
    {"no tab or newline of a name stays",
     ROW_TSV,
     {&nasty},
     HEAD_TSV "-x \"y\"\\t\\\\,\\nz\\r\x01.png\tok\t1\t3\tcat\tcat\t0.75\t\n"},
    {"bytes that are no UTF-8 stay",
     ROW_TSV,
     {&bytes},
     HEAD_TSV "caf\xc3\xa9 \xff\xe2\x82.png\tok\t1\t7\t7\t7\t-1.5\t\n"},
    {"nor of a message",
     ROW_TSV,
     {&nasty_error},
     HEAD_TSV "x\terror\t\t\t\t\t\tfound \"<html>\",\\n\\twant an image\n"},

    {"quoted where needed",
     ROW_CSV,
     {&plain, &broken},
     HEAD_CSV "a.jpg,ok,1,281,n02123045,tabby,0.923125029,\n"
              "a.jpg,ok,2,134,n02012849,\"crane, \"\"bird\"\"\",1.00000001e-10,\n"
              "b.jpg,error,,,,,,truncated after 512 bytes\n"},
    {"newlines stay inside quotes",
     ROW_CSV,
     {&nasty},
     HEAD_CSV "\"-x \"\"y\"\"\t\\,\nz\r\x01.png\",ok,1,3,cat,cat,0.75,\n"},
    {"and in a message",
     ROW_CSV,
     {&nasty_error},
     HEAD_CSV "x,error,,,,,,\"found \"\"<html>\"\",\n\twant an image\"\n"},

    {"an object a line",
     ROW_JSONL,
     {&plain, &broken},
     "{\"path\":\"a.jpg\",\"status\":\"ok\",\"width\":640,\"height\":480,\"predictions\":["
     "{\"rank\":1,\"index\":281,\"id\":\"n02123045\",\"label\":\"tabby\",\"score\":0.923125029},"
     "{\"rank\":2,\"index\":134,\"id\":\"n02012849\",\"label\":\"crane, \\\"bird\\\"\","
     "\"score\":1.00000001e-10}],\"message\":null}\n"
     "{\"path\":\"b.jpg\",\"status\":\"error\",\"width\":null,\"height\":null,"
     "\"predictions\":[],\"message\":\"truncated after 512 bytes\"}\n"},
    {"escapes",
     ROW_JSONL,
     {&nasty},
     "{\"path\":\"-x \\\"y\\\"\\t\\\\,\\nz\\r\\u0001.png\",\"status\":\"ok\",\"width\":0,"
     "\"height\":0,\"predictions\":[{\"rank\":1,\"index\":3,\"id\":\"cat\",\"label\":\"cat\","
     "\"score\":0.75}],\"message\":null}\n"},
    {"what is no UTF-8 is replaced, and told in hexadecimal",
     ROW_JSONL,
     {&bytes},
     "{\"path\":\"caf\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd.png\","
     "\"path_hex\":\"636166c3a920ffe2822e706e67\",\"status\":\"ok\",\"width\":0,\"height\":0,"
     "\"predictions\":[{\"rank\":1,\"index\":7,\"id\":\"7\",\"label\":\"7\",\"score\":-1.5}],"
     "\"message\":null}\n"},
    {"the array",
     ROW_JSON,
     {&broken, &broken},
     "[\n {\"path\":\"b.jpg\",\"status\":\"error\",\"width\":null,\"height\":null,"
     "\"predictions\":[],\"message\":\"truncated after 512 bytes\"},\n"
     " {\"path\":\"b.jpg\",\"status\":\"error\",\"width\":null,\"height\":null,"
     "\"predictions\":[],\"message\":\"truncated after 512 bytes\"}\n]\n"},
};

/* What the rows become, in a buffer of the caller's. */
static void print_rows(enum row_format format, bool targets, const struct row *const *list,
                       size_t count, char *text, size_t size) {
    FILE *file = tmpfile();
    struct rows rows;
    size_t used;
    assert_non_null(file);
    rows_begin(&rows, file, format, targets);
    for (size_t i = 0; i < count && list[i]; i++)
        rows_write(&rows, list[i]);
    rows_end(&rows);
    rewind(file);
    used = fread(text, 1, size - 1, file);
    text[used] = 0;
    fclose(file);
}

static void test_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[4096];
        print_rows(cases[i].format, false, cases[i].rows, COUNT_OF(cases[i].rows), text,
                   sizeof text);
        if (strcmp(text, cases[i].want) != 0)
            fail_msg("form %d, %s:\n%s\nwant:\n%s", (int)cases[i].format, cases[i].why, text,
                     cases[i].want);
    }
}

/* What an image should have been, behind its row. */
static void test_targets(void **state) {
    static const struct row_target known = {7, "n07", "seven", 2, 0.25f},
                                   unjudged = {7, NULL, NULL, 0, 0},
                                   stranger = {.index = -1, .label = "a \"b\""};
    const struct row list[] = {
        {.path = "a", .width = 1, .height = 1, .predictions = two, .count = 1, .target = &known},
        {.path = "b", .error = "bad", .target = &unjudged},
        {.path = "c",
         .width = 1,
         .height = 1,
         .predictions = two,
         .count = 1,
         .target = &stranger}};
    static const struct {
        enum row_format format;
        const char *want;
    } forms[] = {
        {ROW_TSV, "path\tstatus\trank\tindex\tid\tlabel\tscore\tmessage\ttarget\ttarget_id\t"
                  "target_label\tcorrect\ttarget_rank\ttarget_score\n"
                  "a\tok\t1\t281\tn02123045\ttabby\t0.923125029\t\t7\tn07\tseven\t0\t2\t0.25\n"
                  "b\terror\t\t\t\t\t\tbad\t7\t7\t7\t\t\t\n"
                  "c\tok\t1\t281\tn02123045\ttabby\t0.923125029\t\t\t\ta \"b\"\t\t\t\n"},
        {ROW_CSV, "path,status,rank,index,id,label,score,message,target,target_id,target_label,"
                  "correct,target_rank,target_score\n"
                  "a,ok,1,281,n02123045,tabby,0.923125029,,7,n07,seven,0,2,0.25\n"
                  "b,error,,,,,,bad,7,7,7,,,\n"
                  "c,ok,1,281,n02123045,tabby,0.923125029,,,,\"a \"\"b\"\"\",,,\n"},
        {ROW_JSONL,
         "{\"path\":\"a\",\"status\":\"ok\",\"width\":1,\"height\":1,\"predictions\":[{\"rank\":1,"
         "\"index\":281,\"id\":\"n02123045\",\"label\":\"tabby\",\"score\":0.923125029}],"
         "\"message\":null,\"target\":7,\"target_id\":\"n07\",\"target_label\":\"seven\","
         "\"correct\":false,\"target_rank\":2,\"target_score\":0.25}\n"
         "{\"path\":\"b\",\"status\":\"error\",\"width\":null,\"height\":null,\"predictions\":[],"
         "\"message\":\"bad\",\"target\":7,\"target_id\":\"7\",\"target_label\":\"7\",\"correct\":"
         "null,"
         "\"target_rank\":null,\"target_score\":null}\n"
         "{\"path\":\"c\",\"status\":\"ok\",\"width\":1,\"height\":1,\"predictions\":[{\"rank\":1,"
         "\"index\":281,\"id\":\"n02123045\",\"label\":\"tabby\",\"score\":0.923125029}],"
         "\"message\":null,\"target\":null,\"target_id\":null,\"target_label\":\"a \\\"b\\\"\","
         "\"correct\":null,\"target_rank\":null,\"target_score\":null}\n"}};
    const struct row *rows[] = {&list[0], &list[1], &list[2]};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        char text[4096];
        print_rows(forms[i].format, true, rows, COUNT_OF(rows), text, sizeof text);
        assert_string_equal(text, forms[i].want);
    }
}

/* RFC 3629 by its table: what is well formed stays, every other byte is U+FFFD. */
static void test_json_utf8(void **state) {
    static const struct {
        const char *path, *want;
    } rows[] = {
        {"\xc2\x80", "\xc2\x80"},
        {"\xe0\xa0\x80", "\xe0\xa0\x80"},
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},
        {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xc0\x80", "??"},           /* overlong zero */
        {"\xc1\xbf", "??"},           /* overlong */
        {"\xe0\x9f\xbf", "???"},      /* overlong */
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xf0\x8f\xbf\xbf", "????"}, /* overlong */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", "????"}, /* no such first byte */
        {"\x80", "?"},                /* a middle alone */
        {"\xe2\x82", "??"},           /* cut at the end */
        {"\xe2\x82"
         "a",
         "??a"}, /* cut by a letter */
        {"\x7f", "\\u007f"},
        {"/", "/"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct row row = {.path = rows[i].path, .error = "x"};
        const struct row *list[] = {&row};
        char text[512], want[128] = "{\"path\":\"";
        print_rows(ROW_JSONL, false, list, 1, text, sizeof text);
        for (const char *at = rows[i].want; *at; at++) {
            size_t used = strlen(want);
            if (*at == '?')
                snprintf(want + used, sizeof want - used, "\xef\xbf\xbd");
            else
                snprintf(want + used, sizeof want - used, "%c", *at);
        }
        snprintf(want + strlen(want), sizeof want - strlen(want), "\",");
        if (strncmp(text, want, strlen(want)) != 0) fail_msg("row %zu: %s\nwant %s", i, text, want);
    }
}

/* 9 digits bring every fp32 back, logits too. */
static void test_scores_round_trip(void **state) {
    uint32_t seed = 12345;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct row_prediction p = {.index = 1};
        struct row row = {.path = "p", .predictions = &p, .count = 1};
        const struct row *list[] = {&row};
        char text[512], *score;
        double back = 0;
        seed = seed * 1664525u + 1013904223u;
        p.score = ((float)(seed >> 8) - 8388608.0f) / (i % 2 ? 524288.0f : 1e9f);
        print_rows(ROW_TSV, false, list, 1, text, sizeof text);
        score = strstr(text, "\n") + 1;
        for (int field = 0; field < 6; field++)
            score = strchr(score, '\t') + 1;
        *strchr(score, '\t') = 0;
        assert_true(parse_double(score, -1e9, 1e9, &back));
        assert_true((float)back == p.score);
    }
}

/* JSON has no NaN: a number that is none must not make a line that no parser takes. */
static void test_json_no_nan(void **state) {
    const double zero = 0;
    struct row_prediction p = {.index = 1, .score = (float)(zero / zero)};
    struct row row = {.path = "p", .predictions = &p, .count = 1};
    const struct row *list[] = {&row};
    char text[512];
    (void)state;
    print_rows(ROW_JSONL, false, list, 1, text, sizeof text);
    assert_non_null(strstr(text, "\"score\":null"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),       cmocka_unit_test(test_targets),
        cmocka_unit_test(test_json_utf8),   cmocka_unit_test(test_scores_round_trip),
        cmocka_unit_test(test_json_no_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
