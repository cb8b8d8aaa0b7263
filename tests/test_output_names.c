/* test_output_names: what the files made of each input are called; no two inputs share a name. */
#include "tools/output_names.h" // before cmocka.h, which has a macro `fail`

#include <string.h>

#include "tests/golden.h"

static void test_names(void **state) {
    static const struct {
        const char *why;
        const char *paths[5], *names[5];
    } rows[] = {
        {"suffix and folder go", {"a/cat.jpg", "b/dog.tar.gz"}, {"cat", "dog.tar"}},
        {"no suffix, a hidden file, a link's name", {"cat", ".cat", "x."}, {"cat", ".cat", "x"}},
        {"standard input", {"-"}, {"stdin"}},
        {"a folder in front", {"a/cat.jpg", "b/cat.jpg", "dog.jpg"}, {"a_cat", "b_cat", "dog"}},
        {"more folders", {"/x/may/1/cat.jpg", "/x/june/1/cat.jpg"}, {"may_1_cat", "june_1_cat"}},
        {"of one folder: the suffix", {"a/cat.jpg", "a/cat.png"}, {"a_cat.jpg", "a_cat.png"}},
        {"no folder to tell them apart", {"cat.jpg", "cat.png"}, {"cat.jpg", "cat.png"}},
        {"one has no folder", {"cat.jpg", "a/cat.jpg"}, {"cat.jpg", "a_cat"}},
        {"the same twice", {"a/cat.jpg", "a/cat.jpg"}, {"a_cat.jpg-0", "a_cat.jpg-1"}},
        {"dots are no folders", {"../cat.jpg", "./b/../cat.jpg"}, {"cat.jpg", "b_cat"}},
        {"a longer name that is taken",
         {"a_cat.jpg", "a/cat.jpg", "b/cat.jpg"},
         {"a_cat.jpg-0", "a_cat.jpg-1", "b_cat"}},
        {"doubled slashes", {"a//cat.jpg", "b///cat.jpg"}, {"a_cat", "b_cat"}},
    };
    (void)state;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        struct inputs inputs = {0};
        struct output_names names;
        for (int i = 0; i < 5 && rows[r].paths[i]; i++)
            demand(inputs_add(&inputs, rows[r].paths[i], NULL));
        demand(output_names_open(&inputs, &names));
        for (size_t i = 0; i < names.count; i++) {
            printf("%-40s %-20s %s\n", rows[r].why, rows[r].paths[i], names.name[i]);
            assert_string_equal(names.name[i], rows[r].names[i]);
        }
        output_names_release(&names);
        output_names_release(&names);
        inputs_release(&inputs);
    }
}

/* A hundred thousand of the same name end, each with its own. */
static void test_many(void **state) {
    struct inputs inputs = {0};
    struct output_names names;
    char path[64];
    (void)state;
    for (int i = 0; i < 100000; i++) {
        snprintf(path, sizeof path, "d%d/cat.jpg", i);
        demand(inputs_add(&inputs, path, NULL));
    }
    demand(output_names_open(&inputs, &names));
    assert_string_equal(names.name[99999], "d99999_cat");
    output_names_release(&names);
    inputs_release(&inputs);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
