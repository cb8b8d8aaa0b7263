/* What PATH arguments expand to: order, suffixes, lists, links, and what cannot be opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datasets/inputs.h"

#include <cmocka.h> /* last: it defines fail() */

static char home[] = "/tmp/vitrine-inputs-XXXXXX";

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* A tree of every kind of thing. */
static int make_tree(void **state) {
    static const char *const folders[] = {"d",     "d/a",        "d/sub", "d/.hidden", "empty",
                                          "loops", "loops/down", "texts", "shut"};
    static const char *const files[] = {"d/b.jpg",
                                        "d/a.png",
                                        "d/C.JPEG",
                                        "d/a/z.gif",
                                        "d/a-b.webp",
                                        "d/notes.txt",
                                        "d/noimage",
                                        "d/.hidden/x.jpg",
                                        "d/._b.jpg",
                                        "d/sub/q.ppm",
                                        "d/-x y\nz.png",
                                        "d/\xff.tiff",
                                        "texts/readme.txt",
                                        "plain",
                                        "-dash.jpg",
                                        "loops/down/1.jpg",
                                        "shut/in.jpg",
                                        "-",
                                        "@at"};
    (void)state;
    if (!mkdtemp(home) || chdir(home) != 0) return 1;
    for (size_t i = 0; i < COUNT_OF(folders); i++)
        if (mkdir(folders[i], 0755) != 0) return 1;
    for (size_t i = 0; i < COUNT_OF(files); i++)
        put(files[i], "x");
    if (symlink("nowhere", "d/dangling.jpg") || symlink("nowhere", "d/dangling.txt") ||
        symlink("..", "loops/down/up") || symlink("../../d", "loops/down/across") ||
        symlink("b.jpg", "d/link.png"))
        return 1;
    if (mkfifo("d/pipe.jpg", 0644)) return 1;
    put("list", "d/b.jpg\r\n\nd/sub\nmissing.jpg\r\n-\n@at\n d\nlast");
    put("bom", "\xef\xbb\xbf"
               "d/b.jpg\n");
    put("blank", "\n\r\n\n");
    {
        FILE *file = fopen("utf16", "w");
        if (!file || fwrite("d\0/\0b\0", 1, 6, file) != 6 || fclose(file)) return 1;
    }
    return 0;
}

static int drop_tree(void **state) {
    char *command = str_format("chmod -R u+rwx %s; rm -r %s", home, home);
    int failed;
    (void)state;
    if (chdir("/") != 0 || !command) return 1;
    failed = system(command);
    mem_free(command);
    return failed;
}

/* The expansion, joined by '|', a reason after '!'. */
static void tell(const struct inputs *in, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < in->count; i++) {
        const char *error;
        char *path = inputs_path(in, i, &error);
        assert_non_null(path);
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", i ? "|" : "", path,
                                 error ? "!" : "", error ? error : "");
        mem_free(path);
        if (used >= size) fail_msg("more than was made: %s", text);
    }
}

#define IN_D(d)                                                                                    \
    d "-x y\nz.png|" d "C.JPEG|" d "a-b.webp|" d "a.png|" d "a/z.gif|" d "b.jpg|" d                \
      "dangling.jpg|" d "link.png|" d "sub/q.ppm|" d "\xff.tiff"

static const struct {
    const char *args[4], *want;
} cases[] = {
    {{"plain"}, "plain"}, /* named: tried whatever its name */
    {{"missing"}, "missing"},
    {{"-"}, "-"},
    {{"./-"}, "./-"},
    {{"-dash.jpg"}, "-dash.jpg"},
    {{"b", "a", "b"}, "b|a|b"}, /* the order given, twice if given twice */
    /* Bytewise by path: '-' < '.' < '/' and capitals first; no text, no hidden file, no fifo. */
    {{"d"}, IN_D("d/")},
    {{"d/"}, IN_D("d/")},
    {{"./d//"}, IN_D("./d//")},
    {{"d/sub", "plain"}, "d/sub/q.ppm|plain"},
    {{"d/dangling.jpg"}, "d/dangling.jpg"},
    {{"d/notes.txt"}, "d/notes.txt"},
    {{"d/.hidden"}, "d/.hidden/x.jpg"}, /* named: not passed over */
    {{"empty"}, "empty!the folder holds no image: no file with a suffix like .jpg or .png"},
    {{"texts"}, "texts!the folder holds no image: no file with a suffix like .jpg or .png"},
    {{"empty", "plain"},
     "empty!the folder holds no image: no file with a suffix like .jpg or .png|plain"},
    /* A link to a folder that it lies in is passed over, one to another folder is followed. */
    {{"loops"}, "loops/down/1.jpg|" IN_D("loops/down/across/")},
    {{"@list"}, "d/b.jpg|d/sub/q.ppm|missing.jpg|./-|@at| d|last"},
    {{"@list", "plain"}, "d/b.jpg|d/sub/q.ppm|missing.jpg|./-|@at| d|last|plain"},
    {{"@bom"}, "d/b.jpg"},
    {{"@blank"}, "@blank!the list names no file"},
    {{"@utf16"}, "@utf16!the list holds zero bytes, want UTF-8 text, a path a line"},
    {{"@nolist"}, "@nolist!nolist: No such file or directory"},
    {{"@d"}, "@d!d: is a directory"},
    {{"@"}, "@"},
    {{"./@at"}, "./@at"},
    {{""}, ""},
};

static int count_args(const char *const *args) {
    int count = 0;
    while (count < 4 && args[count])
        count++;
    return count;
}

static void test_expansion(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct inputs in;
        char told[4096];
        assert_int_equal(inputs_open(&in, (char *const *)cases[i].args, count_args(cases[i].args)),
                         ST_OK);
        tell(&in, told, sizeof told);
        inputs_release(&in);
        if (strcmp(told, cases[i].want) != 0)
            fail_msg("row %zu, %s:\n%s\nwant\n%s", i, cases[i].args[0], told, cases[i].want);
    }
}

static void test_stdin_once(void **state) {
    static char dash[] = "-", list[] = "@-";
    char *const twice[] = {dash, dash}, *const both[] = {dash, list};
    struct inputs in;
    (void)state;
    assert_int_equal(inputs_open(&in, twice, 2), ST_USAGE);
    assert_int_equal(inputs_open(&in, both, 2), ST_USAGE);
    assert_non_null(strstr(fail_message(), "only once"));
}

static void test_shut_folder(void **state) {
    static char arg[] = "shut", other[] = "plain";
    char *const args[] = {arg, other};
    struct inputs in;
    char told[512];
    (void)state;
    if (geteuid() == 0) {
        print_message("skip: root opens every folder; tests/cli.sh tries as another user\n");
        skip();
    }
    assert_int_equal(chmod("shut", 0), 0);
    assert_int_equal(inputs_open(&in, args, 2), ST_OK);
    tell(&in, told, sizeof told);
    inputs_release(&in);
    assert_string_equal(told, "shut/!the folder cannot be opened: Permission denied|plain");
}

static void test_suffixes(void **state) {
    static const struct {
        const char *name;
        bool known;
    } rows[] = {
        {"a.jpg", true},   {"a.JPG", true},   {"a.Jpeg", true}, {"a.png", true},
        {".jpg", true},    {"a.b.tif", true}, {"a.HEIC", true}, {"a.avif", true},
        {"a.jpgx", false}, {"a.jp", false},   {"ajpg", false},  {"a.jpg.txt", false},
        {"", false},       {".", false},      {"a.", false},    {"a.h5", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (inputs_suffix_known(rows[i].name) != rows[i].known) fail_msg("%s", rows[i].name);
}

/* Many files: sorted, and no quadratic time. */
static void test_many(void **state) {
    enum { MANY = 20000 };
    static char arg[] = "many";
    char *const args[] = {arg};
    struct inputs in;
    (void)state;
    assert_int_equal(mkdir("many", 0755), 0);
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "many/%05d.jpg", (i * 7919) % MANY);
        put(name, "");
    }
    assert_int_equal(inputs_open(&in, args, 1), ST_OK);
    assert_int_equal(in.count, MANY);
    assert_true(in.text_used < MANY * 12 + 64); /* the folder's name is stored once */
    for (size_t i = 0; i < MANY; i++) {
        char want[32];
        const char *error;
        char *path = inputs_path(&in, i, &error);
        snprintf(want, sizeof want, "many/%05zu.jpg", i);
        assert_string_equal(path, want);
        assert_null(error);
        mem_free(path);
    }
    inputs_release(&in);
    inputs_release(&in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expansion),   cmocka_unit_test(test_stdin_once),
        cmocka_unit_test(test_shut_folder), cmocka_unit_test(test_suffixes),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, make_tree, drop_tree);
}
