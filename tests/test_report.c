/*
 * report: what a page holds: JSON that says what the evaluation says, hostile text that stays text,
 * the command as a shell reads it, pictures or why there are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tools/report.h"

#include <cmocka.h>

/* ---- the command ----------------------------------------------------------------------------- */

static void test_command(void **state) {
    static const struct {
        const char *argument, *quoted;
    } cases[] = {{"evaluate", "evaluate"},
                 {"--crop-pct=0.9", "--crop-pct=0.9"},
                 {"a/b_c-d.tar", "a/b_c-d.tar"},
                 {"", "''"},
                 {"two words", "'two words'"},
                 {"shard-{000..003}.tar", "'shard-{000..003}.tar'"},
                 {"~", "'~'"}, /* would be a home */
                 {"it's", "'it'\\''s'"},
                 {"''", "''\\'''\\'''"},
                 {"$HOME `id`", "'$HOME `id`'"},
                 {"K\xc3\xa4tzchen", "'K\xc3\xa4tzchen'"},
                 {"caf\xe9's\n", "$'caf\\xe9\\'s\\x0a'"}}; /* Latin-1, and a line's end */
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char argument[64], wanted[96];
        char *arguments[] = {argument, argument}, *text;
        snprintf(argument, sizeof argument, "%s", cases[i].argument);
        snprintf(wanted, sizeof wanted, "vitrine %s %s", cases[i].quoted, cases[i].quoted);
        text = report_command(2, arguments);
        assert_string_equal(text, wanted);
        mem_free(text);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

#define EVIL "</script><img src=x onerror=alert(1)><!--"

static const char *const ids[] = {"n1", EVIL, "n3"}, *const names[] = {"crane", EVIL, "crane"};

/* The page's text; *page is an evaluation of three classes with text of all kinds. */
struct sample {
    struct labels labels;
    struct preprocess preprocess;
    struct pipeline_totals totals;
    struct evaluation evaluation;
    struct evaluation_about about;
    struct report_pictures pictures;
    struct report report;
};

static void add_row(struct sample *s, const char *path, int target, int best, float confidence) {
    const struct prediction row = {.path = path,
                                   .target = target,
                                   .target_label = target < 0 ? EVIL "&amp;" : "",
                                   .best = best,
                                   .confidence = confidence,
                                   .rank = target == best ? 1 : 2,
                                   .target_score = target == best ? confidence : 0.125f};
    assert_int_equal(evaluation_add(&s->evaluation, &row), ST_OK);
}

static void sample_init(struct sample *s) {
    const struct prediction fault = {.path = EVIL, .message = "ends \"early\" " EVIL, .target = -1};
    *s = (struct sample){.preprocess = {.height = 8, .width = 8, .crop_pct = 1},
                         .totals = {.images = 7, .seconds = 2}};
    assert_int_equal(labels_set(&s->labels, 3, ids, names), ST_OK);
    assert_int_equal(evaluation_init(&s->evaluation, 3, 4), ST_OK);
    add_row(s, "a.jpg", 0, 0, 0.75f);
    add_row(s, EVIL ".jpg", 0, 1, 0.5f);
    add_row(s, "caf\xe9.jpg", 0, 1, 0.25f); /* no UTF-8 */
    add_row(s, "c.jpg", 2, 2, 1.0f);
    add_row(s, "d.jpg", -1, 2, 1.0f);
    assert_int_equal(evaluation_add(&s->evaluation, &fault), ST_OK);
    s->about = (struct evaluation_about){.model = EVIL,
                                         .model_sha256 = "ab",
                                         .dataset = EVIL "\x80",
                                         .form = "folder",
                                         .labels = &s->labels,
                                         .preprocess = &s->preprocess,
                                         .totals = &s->totals};
    s->report = (struct report){.evaluation = &s->evaluation,
                                .about = &s->about,
                                .command = "vitrine '" EVIL "'",
                                .rows = "{\"dataset\":\"" EVIL "\"}",
                                .architecture = "tiny",
                                .finished = 951782400, /* 2000-02-29 */
                                .pictures = &s->pictures};
}

static void sample_release(struct sample *s) {
    report_pictures_release(&s->pictures);
    evaluation_release(&s->evaluation);
    labels_release(&s->labels);
}

/* In fresh memory. */
static char *write_page(const struct sample *s) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    assert_int_equal(report_write(&s->report, file), ST_OK);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* The JSON of a block. */
static cJSON *block(const char *page, const char *id) {
    char open[96];
    const char *at, *end;
    cJSON *json;
    snprintf(open, sizeof open, "<script type=\"application/json\" id=\"%s\">", id);
    at = strstr(page, open);
    assert_non_null(at);
    at += strlen(open);
    end = strstr(at, "</script>");
    assert_non_null(end);
    json = cJSON_ParseWithLength(at, (size_t)(end - at));
    assert_non_null(json);
    return json;
}

static size_t times(const char *text, const char *word) {
    size_t count = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

static const cJSON *at(const cJSON *object, const char *path) {
    char name[64];
    while (*path) {
        const size_t length = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        object = cJSON_IsArray(object) ? cJSON_GetArrayItem(object, name[0] - '0')
                                       : cJSON_GetObjectItemCaseSensitive(object, name);
        if (!object) fail_msg("the data has no %s", path);
        path += length + (path[length] == '.');
    }
    return object;
}

static void test_text_stays_text(void **state) {
    static const struct {
        const char *path, *text;
    } cases[] = {{"model", EVIL},
                 {"dataset", EVIL "\xef\xbf\xbd"},
                 {"classes.1.id", EVIL},
                 {"classes.1.label", EVIL},
                 {"worst.0.path", EVIL ".jpg"},
                 {"worst.0.predicted", EVIL},
                 {"worst.1.path", "caf\xef\xbf\xbd.jpg"},
                 {"unmatched_classes.0.text", EVIL "&amp;"},
                 {"errors.0.path", EVIL},
                 {"errors.0.message", "ends \"early\" " EVIL},
                 {"run.command", "vitrine '" EVIL "'"},
                 {"rows.dataset", EVIL}};
    struct sample s;
    char *page;
    cJSON *data;
    (void)state;
    sample_init(&s);
    page = write_page(&s);
    assert_int_equal(times(page, "<script"), 3); /* data, pictures, the page's own */
    assert_int_equal(times(page, "</script"), 3);
    assert_int_equal(times(page, "<img"), 0);
    assert_int_equal(times(page, "{{"), 0);
    data = block(page, "data");
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_string_equal(cJSON_GetStringValue(at(data, cases[i].path)), cases[i].text);
    cJSON_Delete(data);
    free(page);
    sample_release(&s);
}

static void test_numbers(void **state) {
    static const struct {
        const char *path;
        double value;
    } cases[] = {{"images", 6},          {"failed", 1},
                 {"unmatched", 1},       {"top1", 0.5},
                 {"class_count", 3},     {"classes.0.images", 3},
                 {"classes.1.index", 1}, {"confusion.0.0", 0},
                 {"confusion.0.1", 0},   {"confusion.0.2", 1},
                 {"confusion.0.3", 1},   {"confusion.0.4", 2},
                 {"confusion.1.0", 2},   {"confusion.1.1", 2},
                 {"confusion.1.2", 1},   {"bins.0.images", 1},
                 {"bins.3.accuracy", 1}, {"worst.0.score", 0.5},
                 {"unmatched_count", 1}, {"topk", 3},
                 {"run.seconds", 2},     {"images_per_second", 3.5}};
    struct sample s;
    char *page;
    cJSON *data;
    (void)state;
    sample_init(&s);
    page = write_page(&s);
    data = block(page, "data");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const cJSON *number = at(data, cases[i].path);
        printf("%-20s got %g, want %g\n", cases[i].path, number->valuedouble, cases[i].value);
        assert_true(cJSON_IsNumber(number) && number->valuedouble == cases[i].value);
    }
    assert_int_equal(cJSON_GetArraySize(at(data, "confusion")), 2);
    assert_string_equal(cJSON_GetStringValue(at(data, "run.finished")), "2000-02-29T00:00:00Z");
    cJSON_Delete(data);
    free(page);
    s.about.merged = true; /* nothing was run: no times */
    page = write_page(&s);
    data = block(page, "data");
    assert_true(cJSON_IsTrue(at(data, "run.merged")));
    assert_null(cJSON_GetObjectItemCaseSensitive(data, "seconds"));
    assert_null(cJSON_GetObjectItemCaseSensitive(at(data, "run"), "seconds"));
    cJSON_Delete(data);
    free(page);
    sample_release(&s);
}

/* No image at all: every list is empty, nothing divides by 0. */
static void test_empty(void **state) {
    struct sample s;
    char *page;
    cJSON *data;
    (void)state;
    sample_init(&s);
    evaluation_release(&s.evaluation);
    assert_int_equal(evaluation_init(&s.evaluation, 3, 4), ST_OK);
    s.report.rows = NULL;
    page = write_page(&s);
    data = block(page, "data");
    assert_int_equal(cJSON_GetArraySize(at(data, "confusion")), 0);
    assert_int_equal(cJSON_GetArraySize(at(data, "worst")), 0);
    cJSON_Delete(data);
    data = block(page, "pictures");
    assert_int_equal(cJSON_GetArraySize(data), 0);
    cJSON_Delete(data);
    free(page);
    sample_release(&s);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static void write_ppm(const char *path, int side) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fprintf(file, "P6\n%d %d\n255\n", side, side);
    for (int i = 0; i < 3 * side * side; i++)
        fputc(i * 7 & 255, file);
    assert_int_equal(fclose(file), 0);
}

static void test_pictures(void **state) {
    static const char *const kinds[] = {"data:image/jpeg;base64,/9j/", "data:image/png;base64,iVBO",
                                        ""}; /* a large one, a small one, one that is not there */
    const struct image_options options = image_defaults();
    char folder[] = "/tmp/vitrine-report-XXXXXX", large[64], small[64], none[64];
    struct sample s;
    char *page;
    cJSON *data, *pictures;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(large, sizeof large, "%s/large.ppm", folder);
    snprintf(small, sizeof small, "%s/small.ppm", folder);
    snprintf(none, sizeof none, "%s/none.ppm", folder);
    write_ppm(large, 400);
    write_ppm(small, 8);
    sample_init(&s);
    evaluation_release(&s.evaluation);
    assert_int_equal(evaluation_init(&s.evaluation, 3, 4), ST_OK);
    add_row(&s, small, 0, 1, 0.5f);
    add_row(&s, none, 0, 1, 0.25f);
    add_row(&s, large, 0, 1, 0.75f);
    assert_int_equal(report_pictures_find(&s.pictures, &s.evaluation, NULL, &options), ST_OK);
    unlink(large);
    unlink(small);
    rmdir(folder);
    if (s.pictures.of[0].missing && strstr(s.pictures.of[0].missing, "stb_image_write")) skip();
    page = write_page(&s);
    data = block(page, "data");
    pictures = block(page, "pictures");
    assert_int_equal(cJSON_GetArraySize(pictures), 3);
    for (int i = 0; i < 3; i++) {
        const char *url = cJSON_GetStringValue(cJSON_GetArrayItem(pictures, i));
        assert_int_equal(strncmp(url, kinds[i], strlen(kinds[i])), 0);
        assert_int_equal(url[0] != 0, kinds[i][0] != 0);
    }
    assert_string_equal(cJSON_GetStringValue(at(data, "worst.2.missing")),
                        "No such file or directory");
    assert_null(cJSON_GetObjectItemCaseSensitive(at(data, "worst.0"), "missing"));
    cJSON_Delete(data);
    cJSON_Delete(pictures);
    free(page);
    sample_release(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_command),
                                       cmocka_unit_test(test_text_stays_text),
                                       cmocka_unit_test(test_numbers), cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_pictures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
