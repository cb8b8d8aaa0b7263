/* test_base: text from outside, lists in sentences, files that are none. */
#include "kernels/base.h" // before cmocka.h, which has a macro `fail`

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

static void test_text(void **state) {
    static const struct {
        const char *text;
        bool utf8, line;
        const char *printable, *why;
    } rows[] = {
        {"", true, false, "", "nothing"},
        {"plain name.bin", true, true, "plain name.bin", "ASCII"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x88", true, true,
         "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x88", "two, three and four bytes"},
        {"caf\xe9.bin", false, false, "caf\\xE9.bin", "Latin-1: only its byte is shown by number"},
        {"caf\xe9\xc3\xa9", false, false, "caf\\xE9\xc3\xa9", "good characters stay"},
        {"a\nb\x7f", true, false, "a\\x0Ab\\x7F", "control characters"},
        {"\xc2\x9b\x31m", true, false, "\\xC2\\x9B1m", "a control character of two bytes"},
        {"\xc0\xaf", false, false, "\\xC0\\xAF", "overlong"},
        {"\xe0\x80\xaf", false, false, "\\xE0\\x80\\xAF", "overlong"},
        {"\xed\xa0\x80", false, false, "\\xED\\xA0\\x80", "a surrogate"},
        {"\xf4\x90\x80\x80", false, false, "\\xF4\\x90\\x80\\x80", "beyond U+10FFFF"},
        {"\xe2\x82", false, false, "\\xE2\\x82", "cut"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *printable = str_printable(rows[i].text);
        assert_non_null(printable);
        if (utf8_is(rows[i].text) != rows[i].utf8 || utf8_is_line(rows[i].text) != rows[i].line ||
            strcmp(printable, rows[i].printable) != 0)
            fail_msg("%s: %s", rows[i].why, printable);
        assert_true(utf8_is(printable));
        mem_free(printable);
    }
}

static void test_listing(void **state) {
    struct word_list some = {.most = 3}, all = {0}, long_ones = {0}, none = {0};
    char word[200];
    (void)state;
    assert_string_equal(word_list_text(&none), "");
    for (int i = 0; i < 5; i++) {
        word_list_add(&some, "blocks.%d", i);
        word_list_add(&all, "%d", i);
    }
    assert_string_equal(word_list_text(&some), "blocks.0, blocks.1, blocks.2 and 2 more");
    assert_string_equal(word_list_text(&all), "0, 1, 2, 3, 4");
    memset(word, 'x', sizeof word);
    for (int i = 0; i < 100000; i++)
        word_list_add(&long_ones, "%.*s", (int)sizeof word, word);
    assert_non_null(strstr(word_list_text(&long_ones), "x and 99998 more"));
    assert_int_equal(long_ones.used, 402);
    word_list_add(&none, "%600d", 1);
    assert_string_equal(word_list_text(&none), "1 more");
}

static void test_regular(void **state) {
    char folder[] = "/tmp/vitrine-base-XXXXXX", path[64];
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    const char *const refused[] = {path, folder, "/dev/zero", "/nowhere/at/all"};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        assert_int_equal(file_read_regular(refused[i], 100, &bytes, &size), ST_IO);
        assert_ptr_equal(strstr(fail_message(), refused[i]), fail_message());
    }
    unlink(path);
    rmdir(folder);
    assert_int_equal(file_read_regular("Makefile", 100, &bytes, &size), ST_FORMAT);
    assert_int_equal(file_read_regular("Makefile", 1 << 20, &bytes, &size), ST_OK);
    assert_true(size > 1000);
    mem_free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_listing),
                                       cmocka_unit_test(test_regular)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
