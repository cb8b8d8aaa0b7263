/* test_json: what is bounded before cJSON sees it. */
#include "weights/json.h" // before cmocka.h, which has a macro `fail`

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* begin, `count` times `middle`, end. */
static const struct {
    const char *begin, *middle;
    size_t count;
    const char *end;
    const char *says; /* NULL: it is taken */
} rows[] = {
    {"{", "", 0, "}", NULL},
    {"{\"a\": [1, 2], \"b\": {\"c\": null}}", "", 0, " \n", NULL},
    {"", "", 0, "", "file: is not a JSON object"},
    {"[1]", "", 0, "", "file: is not a JSON object"},
    {"{\"a\": ", "", 0, "", "file: is not a JSON object"},
    {"{\"a\": \"", "", 0, "", "file: is not a JSON object"},
    {"{\"a\": \"\\", "", 0, "", "file: is not a JSON object"},
    {"}}]]{\"a\": 1}", "", 0, "", "file: is not a JSON object"},
    {"{\"a\": ", "[", 63, "", "file: is not a JSON object"}, /* the braces count, text does not */
    {"{\"a\": ", "[", 64, "", "file: nests deeper than 64 levels"},
    {"{\"a\": \"", "[{,", 100000, "\"}", NULL},
    {"{\"a\": [0", ",0", 199996, "]}", NULL},
    {"{\"a\": [0", ",0", 199998, "]}", "file: has more than 200000 values"},
    {"{\"a\": [{}", ",{}", 100000, "]}", "file: has more than 200000 values"},
};

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const size_t begin = strlen(rows[i].begin), middle = strlen(rows[i].middle);
        const size_t end = strlen(rows[i].end), size = begin + rows[i].count * middle + end;
        char *text = malloc(size + 1); /* without a NUL behind it */
        cJSON *json = NULL;
        assert_non_null(text);
        memcpy(text, rows[i].begin, begin);
        for (size_t n = 0; n < rows[i].count; n++)
            memcpy(text + begin + n * middle, rows[i].middle, middle);
        memcpy(text + size - end, rows[i].end, end);
        const enum status st = json_parse(text, size, "file", &json);
        if (st != (rows[i].says ? ST_FORMAT : ST_OK))
            fail_msg("row %zu: %d, %s", i, st, fail_message());
        if (rows[i].says) assert_string_equal(fail_message(), rows[i].says);
        assert_true((json != NULL) == (st == ST_OK));
        cJSON_Delete(json);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
