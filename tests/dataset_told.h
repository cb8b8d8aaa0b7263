/*
 * dataset_told: all of a dataset as one text, "form: path>class path>- path!error", '-' where there
 * is no label.
 */
#ifndef TESTS_DATASET_TOLD_H
#define TESTS_DATASET_TOLD_H

#include "datasets/dataset.h" // before cmocka.h, which has a macro `fail`

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static inline void add_text(char *text, size_t size, const char *more) {
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", more);
}

static inline void tell(struct dataset *dataset, char *text, size_t size) {
    struct dataset_item item = {0};
    size_t items = 0;
    snprintf(text, size, "%s:", dataset_form(dataset));
    for (; dataset_next(dataset, &item); items++) {
        add_text(text, size, " ");
        add_text(text, size, item.path);
        add_text(text, size, item.error ? "!" : ">");
        add_text(text, size,
                 item.error        ? item.error
                 : item.target < 0 ? "-"
                                   : dataset_class(dataset, (size_t)item.target));
        if (item.error) assert_true(!item.bytes && !item.image.rgb);
        mem_free(item.path);
        mem_free(item.error);
        mem_free(item.bytes);
        image_release(&item.image);
        item = (struct dataset_item){0};
    }
    assert_false(dataset_next(dataset, &item));
    if (dataset_count(dataset) && !strchr(text, '!'))
        assert_int_equal(dataset_count(dataset), items);
}

#endif
