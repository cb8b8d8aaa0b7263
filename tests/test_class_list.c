/* class_list: what users write, held against ten classes of which some share a name. */
#include "tools/class_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CLASSES 10

static const char *const ids[CLASSES] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "9", "n8", "n8"};
static const char *const names[CLASSES] = {"crane", "tabby, cat", "crane", "top2", "maillot",
                                           "bird",  "n5",         "seven", "grün", "ship"};

static void lists(void **state) {
    static const struct {
        const char *text, *want, *why; /* want: the numbers, "top N", or what the sentence has */
    } cases[] = {
        {"0", "0", "a number, though its name is there twice"},
        {"bird", "5", "a name"},
        {"n5", "5", "an id before a name"},
        {"9", "9", "a number before an id"},
        {"tabby, cat", "1", "a name with a comma, alone"},
        {"gr\xc3\xbcn", "8", "UTF-8"},
        {"n3,bird,0", "3 5 0", "in their order"},
        {"0,2", "0 2", "twins by number"},
        {"n0,n2", "0 2", "twins by id"},
        {"top", "top 1", "the most likely"},
        {"top10", "top 10", "all"},
        {"top2", "3", "a class of that name"},
        {"crane", "classes 0 and 2 have that name", "which?"},
        {"bird,crane", "classes 0 and 2 have that name", "which, in a list?"},
        {"n8", "classes 8 and 9 have that name", "an id there twice"},
        {"5,bird", "class 5 is there twice", "the same class"},
        {"10", "'10' is no number", "beyond the last"},
        {"-1", "'-1' is no number", "below the first"},
        {"top0", "top1 to top10 are the most likely", "none"},
        {"top11", "top1 to top10 are the most likely", "more than there are"},
        {"top3,5", "'top3' is no number", "not in a list"},
        {"5,", "'' is no number", "an empty item"},
        {",", "'' is no number", "nothing but empty items"},
        {" 5", "' 5' is no number", "a space"},
        {"Bird", "'Bird' is no number", "another case"},
    };
    struct model model = {.classes = CLASSES};
    (void)state;
    assert_int_equal(labels_set(&model.labels, CLASSES, ids, names), ST_OK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct class_list list;
        char got[400] = "";
        const enum status st = class_list_find(cases[i].text, &model, &list);
        if (st != ST_OK)
            snprintf(got, sizeof got, "%s", fail_message());
        else if (list.top)
            snprintf(got, sizeof got, "top %d", list.count);
        for (int n = 0; st == ST_OK && !list.top && n < list.count; n++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", n ? " " : "",
                     list.number[n]);
        if (st == ST_OK ? strcmp(got, cases[i].want) != 0
                        : st != ST_USAGE || !strstr(got, cases[i].want))
            fail_msg("'%s' (%s): got '%s', want '%s'", cases[i].text, cases[i].why, got,
                     cases[i].want);
    }
    labels_release(&model.labels);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
