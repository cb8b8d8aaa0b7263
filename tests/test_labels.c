/* test_labels: label files, good and bad, and the built-in table. */
#include "datasets/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A temporary file with these bytes; its name is in `path`, to be unlinked. */
static void file_make(char *path, const char *bytes, size_t size) {
    int fd;
    memcpy(path, "/tmp/vitrine-labels-XXXXXX", 27);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

#define TEXT(literal) literal, sizeof(literal) - 1

static const struct good {
    const char *bytes;
    size_t size;
    int count;
    const char *last_id, *last_name, *why;
} goods[] = {
    {TEXT("n01440764\ttench\nn01443537\tgoldfish\n"), 2, "n01443537", "goldfish", "id and name"},
    {TEXT("cat\ndog"), 2, "dog", "dog", "a name alone; no newline at the end"},
    {TEXT("a\tx\r\nb\ty z\r\n"), 2, "b", "y z", "CRLF, blanks inside"},
    {TEXT("\xEF\xBB\xBF"
          "one\n"),
     1, "one", "one", "byte order mark"},
    {TEXT("n1\tcaf\xC3\xA9\nn2\t\xF0\x9F\x90\x88\n"), 2, "n2", "\xF0\x9F\x90\x88", "UTF-8"},
    {TEXT("crane\ncrane\n"), 2, "crane", "crane", "names need not be unique"},
};

static void good_files(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(goods); i++) {
        const struct good *g = &goods[i];
        struct labels labels = {0};
        char path[32];
        enum status st;
        file_make(path, g->bytes, g->size);
        st = labels_read(&labels, path);
        unlink(path);
        if (st != ST_OK || labels.count != g->count ||
            strcmp(labels.id[g->count - 1], g->last_id) != 0 ||
            strcmp(labels.name[g->count - 1], g->last_name) != 0)
            fail_msg("%s: %s", g->why, st == ST_OK ? "other labels" : fail_message());
        labels_release(&labels);
        labels_release(&labels); /* twice is allowed */
    }
}

static const struct bad {
    const char *bytes;
    size_t size;
    const char *sentence, *why;
} bads[] = {
    {TEXT(""), "is empty", "an empty file"},
    {TEXT("\xEF\xBB\xBF"), "is empty", "only a byte order mark"},
    {TEXT("a\n\nb\n"), "line 2 is empty", "an empty line in between"},
    {TEXT("a\nb\n\r\n"), "line 3 is empty", "an empty line at the end"},
    {TEXT("a\nb\0c\n"), "line 2 holds the control byte 0x00", "a zero byte"},
    {TEXT("a\x1B[1m\n"), "line 1 holds the control byte 0x1b", "a terminal escape"},
    {TEXT("a\rb\n"), "line 1 holds the control byte 0x0d", "a carriage return inside"},
    {TEXT("a\tb\tc\n"), "line 1 holds the control byte 0x09", "a second tab"},
    {TEXT("\tname\n"), "line 1 has an empty id", "no id"},
    {TEXT("x\ty\nid\t\n"), "line 2 has an empty name", "no name"},
    {TEXT("caf\xE9\n"), "line 1 is not UTF-8", "Latin-1"},
    {TEXT("a\n\xC0\xAF\n"), "line 2 is not UTF-8", "overlong form"},
    {TEXT("\xED\xA0\x80\n"), "line 1 is not UTF-8", "a surrogate"},
    {TEXT("\xF4\x90\x80\x80\n"), "line 1 is not UTF-8", "beyond U+10FFFF"},
    {TEXT("ab\xE2\x82"), "line 1 is not UTF-8", "a character cut short"},
};

static void bad_files(void **state) {
    struct labels labels = {0};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bads); i++) {
        const struct bad *b = &bads[i];
        char path[32];
        enum status st;
        file_make(path, b->bytes, b->size);
        st = labels_read(&labels, path);
        unlink(path);
        if (st != ST_FORMAT || !strstr(fail_message(), b->sentence) ||
            strncmp(fail_message(), path, strlen(path)) != 0 || labels.count || labels.id)
            fail_msg("%s: got '%s', want '%s'", b->why, fail_message(), b->sentence);
    }
    assert_int_equal(labels_read(&labels, "/tmp/no such file"), ST_IO);
    assert_non_null(strstr(fail_message(), "no such file"));
    assert_int_equal(labels_read(&labels, "/tmp"), ST_IO);
}

static void builtin(void **state) {
    struct labels labels = {0};
    (void)state;
    assert_int_equal(labels_builtin(&labels, "imagenet-1k"), ST_OK);
    assert_int_equal(labels.count, 1000);
    for (int i = 0; i < 1000; i++) { /* "n" and 8 digits, ascending: the order of all checkpoints */
        assert_int_equal(strlen(labels.id[i]), 9);
        assert_int_equal(labels.id[i][0], 'n');
        assert_int_equal(strspn(labels.id[i] + 1, "0123456789"), 8);
        assert_true(i == 0 || strcmp(labels.id[i - 1], labels.id[i]) < 0);
        assert_true(labels.name[i][0] != 0);
    }
    assert_string_equal(labels.id[0], "n01440764");
    assert_string_equal(labels.name[0], "tench");
    assert_string_equal(labels.id[65], "n01751748");  /* class of validation image 1 */
    assert_string_equal(labels.id[134], "n02012849"); /* the crane that is a bird */
    assert_string_equal(labels.id[517], "n03126707"); /* and the one that is a machine */
    assert_string_equal(labels.id[850], "n04399382");
    assert_string_equal(labels.id[999], "n15075141");
    assert_string_equal(labels.name[999], "toilet tissue");
    labels_release(&labels);
    assert_int_equal(labels_builtin(&labels, "imagenet"), ST_USAGE);
    assert_non_null(strstr(fail_message(), "'imagenet-1k'"));
}

static void set(void **state) {
    static const char *const ids[] = {"a", "b"}, *const names[] = {"first", ""};
    struct labels labels = {0};
    (void)state;
    assert_int_equal(labels_set(&labels, 2, ids, names), ST_OK);
    assert_string_equal(labels.id[1], "b");
    assert_string_equal(labels.name[0], "first");
    assert_ptr_not_equal(labels.id[0], ids[0]);
    labels_release(&labels);
    assert_int_equal(labels_set(&labels, 0, NULL, NULL), ST_OK);
    assert_int_equal(labels.count, 0);
    labels_release(&labels);
    assert_int_equal(labels_set(&labels, -1, ids, names), ST_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(builtin),
        cmocka_unit_test(set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
