/*
 * test_pickle: pickles written by hand, opcode by opcode: what each builds, and what is refused
 * with which sentence. Values are shown as text by show(): Python's notation, near enough.
 */
#include "weights/pickle.h" // before cmocka.h, which has a macro `fail`

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define BYTES(text) text, sizeof(text) - 1

struct text {
    char bytes[400];
    size_t used;
};

static void say(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void say(struct text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (t->used < sizeof t->bytes)
        t->used += (size_t)vsnprintf(t->bytes + t->used, sizeof t->bytes - t->used, fmt, args);
    va_end(args);
}

static void show(struct text *t, const struct pickle_value *v, int depth) {
    static const char *const open[] = {
        [PICKLE_TUPLE] = "(", [PICKLE_LIST] = "[", [PICKLE_DICT] = "{", [PICKLE_PERSISTENT] = "<"};
    static const char *const close[] = {
        [PICKLE_TUPLE] = ")", [PICKLE_LIST] = "]", [PICKLE_DICT] = "}", [PICKLE_PERSISTENT] = ">"};
    char name[200];
    if (depth > 8) {
        say(t, "...");
        return;
    }
    switch (v->kind) {
    case PICKLE_NONE: say(t, "None"); return;
    case PICKLE_BOOL: say(t, v->integer ? "True" : "False"); return;
    case PICKLE_INTEGER: say(t, "%jd", (intmax_t)v->integer); return;
    case PICKLE_LONG: say(t, "long%zu", v->text.size); return;
    case PICKLE_FLOAT: say(t, "%g", v->real); return;
    case PICKLE_STRING: say(t, "'%.*s'", (int)v->text.size, v->text.bytes); return;
    case PICKLE_BYTES: say(t, "b'%.*s'", (int)v->text.size, v->text.bytes); return;
    case PICKLE_GLOBAL: say(t, "%s", pickle_describe(v, name, sizeof name)); return;
    case PICKLE_OBJECT:
        say(t, "%s", pickle_describe(v, name, sizeof name));
        show(t, v->object.args, depth + 1);
        if (v->object.content) show(t, v->object.content, depth + 1);
        if (v->object.state) {
            say(t, " state ");
            show(t, v->object.state, depth + 1);
        }
        return;
    default: break;
    }
    say(t, "%s", open[v->kind]);
    for (size_t i = 0; i < v->list.count; i++) {
        if (i) say(t, v->kind == PICKLE_DICT && i % 2 ? ": " : ", ");
        show(t, v->list.items[i], depth + 1);
    }
    say(t, "%s", close[v->kind]);
}

static const struct {
    const char *what, *bytes;
    size_t size;
    const char *shown;
} good[] = {
    {"None, without a protocol", BYTES("N."), "None"},
    {"a frame", BYTES("\x80\4\x95\2\0\0\0\0\0\0\0N."), "None"},
    {"bools", BYTES("\x80\2\x88\x89\x86."), "(True, False)"},
    {"small integers", BYTES("\x80\2K\xffM\xff\xffJ\xff\xff\xff\xff\x87."), "(255, 65535, -1)"},
    {"longs", BYTES("\x80\2\x8a\0\x8a\1\xff\x8a\3\0\0\1\x87."), "(0, -1, 65536)"},
    {"a long of 8 bytes", BYTES("\x80\2\x8a\x08\0\0\0\0\0\0\0\x80."), "-9223372036854775808"},
    {"a long of 9 bytes", BYTES("\x80\2\x8b\x09\0\0\0\1\2\3\4\5\6\7\x08\x09."), "long9"},
    {"a float", BYTES("\x80\2G\xbf\xf8\0\0\0\0\0\0."), "-1.5"},
    {"strings", BYTES("\x80\2U\1aT\1\0\0\0bX\1\0\0\0c\x87."), "('a', 'b', 'c')"},
    {"strings of protocol 4", BYTES("\x80\4\x8c\1a\x8d\1\0\0\0\0\0\0\0b\x86."), "('a', 'b')"},
    {"bytes", BYTES("\x80\4C\1aB\1\0\0\0b\x8e\1\0\0\0\0\0\0\0c\x87."), "(b'a', b'b', b'c')"},
    {"tuples", BYTES("\x80\2)(K\1K\2K\3K\4t\x86."), "((), (1, 2, 3, 4))"},
    {"lists", BYTES("\x80\2](K\1K\2eK\3a(K\4l\x86."), "([1, 2, 3], [4])"},
    {"dicts", BYTES("\x80\2}(K\1K\2uK\3K\4s(K\5K\6d\x86."), "({1: 2, 3: 4}, {5: 6})"},
    {"sets", BYTES("\x80\4\x8f(K\1K\2\x90(K\3\x91\x86."), "([1, 2], [3])"},
    {"pop, mark and pop, duplicate",
     BYTES("\x80\2K\1K\2"
           "0(K\3K\4"
           "12\x86."),
     "(1, 1)"},
    {"the memo", BYTES("\x80\2]q\0K\1ah\0r\1\0\0\0j\1\0\0\0\x86."), "([1], [1])"},
    {"memoize", BYTES("\x80\4K\1\x94K\2\x94h\0h\1\x86."), "(1, 2)"},
    {"an OrderedDict", BYTES("\x80\2ccollections\nOrderedDict\n)R(K\1K\2u}b."), "{1: 2}"},
    {"that of Python 2", BYTES("\x80\2ccollections\nOrderedDict\n](](K\1K\2e](K\3K\4ee\x85R."),
     "{1: 2, 3: 4}"},
    {"a name from the stack", BYTES("\x80\4\x8c\5torch\x8c\4Size\x93)\x85R."), "torch.Size(())"},
    {"an instance of an unknown class", BYTES("\x80\2cmy.code\nConfig\n)\x81}K\1K\2sb."),
     "my.code.Config() state {1: 2}"},
    {"an unknown kind of dict", BYTES("\x80\2cyacs\nCfg\n)\x81(K\1K\2uK\3K\4s."),
     "yacs.Cfg(){1: 2, 3: 4}"},
    {"an instance with keywords", BYTES("\x80\4ca\nB\nK\1\x85}\x92."), "a.B(1)"},
    {"a function that is not called", BYTES("\x80\2cos\nsystem\n."), "os.system"},
    {"a persistent id", BYTES("\x80\2U\7storageK\1\x86Q."), "<('storage', 1)>"},
    {"a class with its source", BYTES("\x80\2(U\6modulecmy\nNet\nU\1fU\1stQ)\x81."), "my.Net()"},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct pickle_memory memory = {0};
        const struct pickle_value *value = NULL;
        struct text t = {0};
        enum status st = pickle_load(&memory, (const uint8_t *)good[i].bytes, good[i].size, "file",
                                     &value, NULL);
        if (st != ST_OK) print_message("%s: %s\n", good[i].what, fail_message());
        assert_int_equal(st, ST_OK);
        show(&t, value, 0);
        assert_string_equal(t.bytes, good[i].shown);
        pickle_release(&memory);
        for (size_t cut = 0; cut < good[i].size; cut++) {
            uint8_t *copy = malloc(cut ? cut : 1);
            assert_non_null(copy);
            memcpy(copy, good[i].bytes, cut);
            assert_int_not_equal(pickle_load(&memory, copy, cut, "file", &value, NULL), ST_OK);
            pickle_release(&memory);
            free(copy);
        }
    }
}

static const struct {
    const char *what, *bytes;
    size_t size;
    const char *says;
} bad[] = {
    {"a call of os.system", BYTES("\x80\2cos\nsystem\nU\2ls\x85R."), "calls os.system"},
    {"the same by its other name", BYTES("\x80\2cposix\nsystem\nU\2ls\x85R."), "posix.system"},
    {"eval",
     BYTES("\x80\2c__builtin__\neval\nU\1"
           "1\x85R."),
     "__builtin__.eval"},
    {"a pickle within", BYTES("\x80\2ctorch.storage\n_load_from_bytes\nC\1a\x85R."),
     "torch.storage._load_from_bytes"},
    {"a name that is the beginning of one", BYTES("\x80\2ccollections\nOrdered\n)R."),
     "collections.Ordered"},
    {"a name put together", BYTES("\x80\4\x8c\2os\x8c\6system\x93\x8c\2ls\x85R."), "os.system"},
    {"a call of a number", BYTES("\x80\2K\1)R."), "calls what is no function"},
    {"arguments that are a list", BYTES("\x80\2ctorch\nSize\n]R."), "calls what is no function"},
    {"the text opcode of a call", BYTES("\x80\2(U\2lsios\nsystem\n."), "opcode 0x69"},
    {"the opcode of an instance", BYTES("\x80\2(cos\nsystem\nU\2lso."), "opcode 0x6f"},
    {"an instance of a number", BYTES("\x80\2K\1)\x81."), "an instance of what is no class"},
    {"an extension code", BYTES("\x80\2\x82\1."), "opcode 0x82"},
    {"protocol 1", BYTES("\x80\1N."), "protocol 1"},
    {"protocol 6", BYTES("\x80\6N."), "protocol 6"},
    {"nothing to stop with", BYTES("\x80\2."), "not there"},
    {"too few for a tuple", BYTES("\x80\2K\1\x86."), "not there"},
    {"a value below the mark", BYTES("\x80\2K\1(K\2\x86."), "not there"},
    {"no mark", BYTES("\x80\2K\1t."), "a mark that is not there"},
    {"a key without a value", BYTES("\x80\2}(K\1u."), "a key without a value"},
    {"items for a number", BYTES("\x80\2K\1(K\1e."), "items for what holds none"},
    {"items for a tuple", BYTES("\x80\2)(K\1e."), "items for what holds none"},
    {"items for a list and a dict", BYTES("\x80\2](K\1K\2u."), "items for what holds none"},
    {"items for nothing", BYTES("\x80\2(K\1e."), "nothing to put items into"},
    {"a memo that was not put", BYTES("\x80\2h\0."), "was not kept"},
    {"a memo far away", BYTES("\x80\2K\1r\xff\xff\xff\xff."), "as number 4294967295"},
    {"a string beyond the end", BYTES("\x80\2X\xff\xff\xff\xffN."), "cut short"},
    {"a string of 2^63", BYTES("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\x7fN."), "cut short"},
    {"a name without an end", BYTES("\x80\2cabc."), "a line does not end"},
    {"an escape in a name", BYTES("\x80\2ca\x1b[2J\nb\n."), "control characters"},
    {"a number for a name", BYTES("\x80\4K\1K\2\x93."), "whose name is no text"},
    {"pairs of three", BYTES("\x80\2ccollections\nOrderedDict\n]](K\1K\2K\3ea\x85R."), "no pairs"},
    {"something behind the end", BYTES("\x80\2N.N"), "1 bytes after"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct pickle_memory memory = {0};
        const struct pickle_value *value = NULL;
        enum status st =
            pickle_load(&memory, (const uint8_t *)bad[i].bytes, bad[i].size, "file", &value, NULL);
        bool said = st != ST_OK && strstr(fail_message(), bad[i].says) &&
                    strncmp(fail_message(), "file: ", 6) == 0;
        if (!said) print_message("%s: status %d, \"%s\"\n", bad[i].what, st, fail_message());
        assert_true(said);
        pickle_release(&memory);
    }
}

/* Much of one thing: refused before it costs. `unit` is written `times` times behind `before`. */
static void test_bombs(void **state) {
    static const struct {
        const char *what, *before, *unit;
        size_t size, times;
        const char *says;
    } rows[] = {
        {"tuples in each other", "N", BYTES("\x85"), 1000000, "deeper than 256"},
        {"lists in each other", "N", BYTES("(1"), 1000000, "cut short"},
        {"marks", "N", BYTES("("), 3000000, "marks"},
        {"a stack", "N", BYTES("N"), 3000000, "stacks more than"},
        {"numbers", "]", BYTES("K\1a"), 10000000, "values of more than 96 MB"},
        {"empty lists", "]", BYTES("]0"), 10000000, "values of more than 96 MB"},
        {"a list of itself, doubled", "]q0", BYTES("h0h0\x86q0"), 1000000, "deeper than 256"},
        {"a list in itself, again and again", "]q0", BYTES("h0a"), 300, "deeper than 256"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const size_t before = strlen(rows[i].before);
        size_t size = before + rows[i].size * rows[i].times;
        uint8_t *bytes = malloc(size);
        struct pickle_memory memory = {0};
        const struct pickle_value *value = NULL;
        clock_t begin = clock();
        assert_non_null(bytes);
        memcpy(bytes, rows[i].before, before);
        for (size_t n = 0; n < rows[i].times; n++)
            memcpy(bytes + before + n * rows[i].size, rows[i].unit, rows[i].size);
        enum status st = pickle_load(&memory, bytes, size, "file", &value, NULL);
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        bool said = st != ST_OK && strstr(fail_message(), rows[i].says) && seconds < 2;
        if (!said)
            print_message("%s: status %d, \"%s\", %.1f s\n", rows[i].what, st, fail_message(),
                          seconds);
        assert_true(said);
        assert_true(memory.total <= (size_t)96 << 20);
        pickle_release(&memory);
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
