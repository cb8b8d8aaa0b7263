/*
 * test_class_map: which class of a model a text names, by what, and what a user's file changes;
 * files of maps and subsets that are broken.
 */
#include "tools/class_map.h" // before cmocka.h, which has a macro `fail`

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char *ids[] = {"n01440764", "n02012849", "n03126707", "n04522168", "dog", "7"};
static char *names[] = {"tench, Tinca tinca", "crane", "crane", "vase", "hot-dog stand", "seven"};
static const struct labels labels = {.count = 6, .id = ids, .name = names};
static const struct labels none = {0};

static char path[64];

static const char *file_of(const char *text) {
    FILE *file;
    snprintf(path, sizeof path, "/tmp/test_class_map.%d", (int)getpid());
    file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static void demand(enum status st) {
    if (st != ST_OK) fail_msg("%s", fail_message());
}

static const struct {
    const char *text;
    int class;
    enum class_match match;
} rows[] = {
    {"n01440764", 0, CLASS_ID},
    {"n01440764_tench", 0, CLASS_ID},
    {"n01440764 tench", 0, CLASS_ID},
    {"n014407640", -1, CLASS_NONE}, /* another id, which this model has not */
    {"n01440764a", -1, CLASS_NONE},
    {"tench", 0, CLASS_LABEL},
    {"TENCH, tinca_tinca", 0, CLASS_LABEL},
    {"Tinca tinca", -1, CLASS_NONE},
    {"tenc", -1, CLASS_NONE},
    {"crane", -1, CLASS_NONE}, /* two classes are called so */
    {"Vase", 3, CLASS_LABEL},
    {"hot dog stand", 4, CLASS_LABEL},
    {"dog", 4, CLASS_ID}, /* an id goes before a number and a label */
    {"7", 5, CLASS_ID},
    {"5", 5, CLASS_NUMBER},
    {"003", 3, CLASS_NUMBER},
    {"6", -1, CLASS_NONE},
    {"-1", -1, CLASS_NONE},
    {"+1", -1, CLASS_NONE},
    {"1.0", -1, CLASS_NONE},
    {"99999999999999999999", -1, CLASS_NONE},
    {"", -1, CLASS_NONE},
    {"val/n02012849", 1, CLASS_ID},
    {"val/vase/more/and more", 3, CLASS_LABEL},
    {"vase/tench", 0, CLASS_LABEL}, /* the innermost that is one */
    {"a/b/c", -1, CLASS_NONE},
    {"/", -1, CLASS_NONE},
};

static void test_find(void **state) {
    struct class_map map;
    (void)state;
    demand(class_map_open(&map, &labels, 6, NULL));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        enum class_match match;
        const int class = class_map_find(&map, rows[i].text, &match);
        if (class != rows[i].class || match != rows[i].match)
            fail_msg("'%s': class %d by %d, want %d by %d", rows[i].text, class, (int)match,
                     rows[i].class, (int)rows[i].match);
    }
    class_map_release(&map);
    class_map_release(&map);
}

static void test_without_labels(void **state) {
    struct class_map map;
    enum class_match match;
    (void)state;
    demand(class_map_open(&map, &none, 3, NULL));
    assert_int_equal(class_map_find(&map, "2", &match), 2);
    assert_int_equal(class_map_find(&map, "3", &match), -1);
    assert_int_equal(class_map_find(&map, "vase", &match), -1);
    class_map_release(&map);
}

static void test_file(void **state) {
    struct class_map map;
    enum class_match match;
    (void)state;
    demand(class_map_open(&map, &labels, 6,
                          file_of("# remark\nvase\tn02012849\r\n\nfish\ttench\nval/x\t3\nbad\t-")));
    assert_int_equal(class_map_find(&map, "vase", &match), 1);
    assert_int_equal(match, CLASS_FILE);
    assert_int_equal(class_map_find(&map, "val/fish", &match), 0);
    assert_int_equal(class_map_find(&map, "val/x", &match), 3);
    assert_int_equal(class_map_find(&map, "x", &match), -1);
    assert_int_equal(class_map_find(&map, "bad", &match), -1);
    assert_int_equal(match, CLASS_FILE);
    assert_int_equal(class_map_find(&map, "dog", &match), 4);
    class_map_release(&map);
    unlink(path);
}

static const struct {
    const char *text, *sentence;
    enum status status;
} faults[] = {
    {"fish\n", ": line 1: 'fish' has no tab", ST_FORMAT},
    {"# r\n\nfish\tshark\n", ": line 3: 'shark' is not the id", ST_USAGE},
    {"fish\tcrane\n", ": line 1: 'crane' is not", ST_USAGE},
    {"fish\t6\n", "the model, which has 6", ST_USAGE},
    {"a\t1\nb\t2\na\t2\n", ": 'a' is there twice", ST_USAGE},
};

static void test_faults(void **state) {
    struct class_map map;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        assert_int_equal(class_map_open(&map, &labels, 6, file_of(faults[i].text)),
                         faults[i].status);
        if (!strstr(fail_message(), faults[i].sentence)) fail_msg("%s", fail_message());
    }
    unlink(path);
    assert_int_equal(class_map_open(&map, &labels, 6, path), ST_IO);
}

static void test_subset(void **state) {
    struct class_map map;
    bool chosen[6] = {false};
    (void)state;
    demand(class_map_open(&map, &labels, 6, NULL));
    demand(class_map_subset(&map, file_of("# two\nvase\n0\n"), chosen));
    assert_true(chosen[0] && chosen[3] && !chosen[1] && !chosen[2] && !chosen[4] && !chosen[5]);
    assert_int_equal(class_map_subset(&map, file_of("vase\nn04522168\n"), (bool[6]){0}), ST_USAGE);
    assert_non_null(strstr(fail_message(), "names 1 classes"));
    assert_int_equal(class_map_subset(&map, file_of("vase\nfish\n"), (bool[6]){0}), ST_USAGE);
    assert_int_equal(class_map_subset(&map, "imagenet-a", (bool[6]){0}), ST_USAGE);
    assert_non_null(strstr(fail_message(), "its labels are not ImageNet's"));
    class_map_release(&map);
    unlink(path);
}

/* 200 classes each, 86 of them shared (natural-adv-examples and imagenet-r). */
static void test_builtin_subsets(void **state) {
    static bool a[1000], r[1000];
    struct labels imagenet;
    struct class_map map;
    int in_a = 0, in_r = 0, both = 0;
    (void)state;
    demand(labels_builtin(&imagenet, "imagenet-1k"));
    demand(class_map_open(&map, &imagenet, 1000, NULL));
    demand(class_map_subset(&map, "imagenet-a", a));
    demand(class_map_subset(&map, "imagenet-r", r));
    for (int i = 0; i < 1000; i++) {
        in_a += a[i];
        in_r += r[i];
        both += a[i] && r[i];
    }
    assert_int_equal(in_a, 200);
    assert_int_equal(in_r, 200);
    assert_int_equal(both, 86);
    assert_true(a[6] && a[988] && !a[0] && r[1] && r[988] && !r[0]);
    class_map_release(&map);
    labels_release(&imagenet);
}

/* Two labels that differ in their case alone, as Cardigan and cardigan of ImageNet do. */
static void test_exact_label_first(void **state) {
    const char *const called[] = {"Cardigan", "cardigan", "crane", "crane"};
    const char *const their[] = {"a", "b", "c", "d"};
    static const struct {
        const char *text;
        int class;
    } cases[] = {{"Cardigan", 0}, {"cardigan", 1}, {"CARDIGAN", -1}, {"crane", -1}};
    struct labels few;
    struct class_map map;
    enum class_match match;
    (void)state;
    demand(labels_set(&few, 4, their, called));
    demand(class_map_open(&map, &few, 4, NULL));
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(class_map_find(&map, cases[i].text, &match), cases[i].class);
    class_map_release(&map);
    labels_release(&few);
}

/* The first five images of the ground truth file, and what the caffe list says they are. */
static void test_challenge_numbers(void **state) {
    static const struct {
        const char *number;
        int class;
    } cases[] = {{"490", 65}, {"361", 970}, {"171", 230}, {"822", 809}, {"297", 516}};
    struct labels imagenet, few;
    struct class_map map;
    enum class_match match;
    static bool seen[1000];
    (void)state;
    demand(labels_builtin(&imagenet, "imagenet-1k"));
    demand(class_map_open(&map, &imagenet, 1000, "ilsvrc2012"));
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(class_map_find(&map, cases[i].number, &match), cases[i].class);
    assert_int_equal(class_map_find(&map, "n01440764", &match), 0);
    for (int i = 1; i <= 1000; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        seen[class_map_find(&map, number, &match)] = true;
    }
    for (int i = 0; i < 1000; i++)
        assert_true(seen[i]);
    class_map_release(&map);
    demand(labels_set(&few, 2, (const char *const[]){"a", "b"}, (const char *const[]){"a", "b"}));
    assert_int_equal(class_map_open(&map, &few, 2, "ilsvrc2012"), ST_USAGE);
    assert_non_null(strstr(fail_message(), "its labels are not ImageNet's"));
    assert_string_equal(class_map_for("x/ILSVRC2012_validation_ground_truth.txt"), "ilsvrc2012");
    assert_null(class_map_for("ILSVRC2012_val.txt"));
    labels_release(&few);
    labels_release(&imagenet);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_without_labels),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_subset),
        cmocka_unit_test(test_builtin_subsets),
        cmocka_unit_test(test_challenge_numbers),
        cmocka_unit_test(test_exact_label_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
