/* class_list: the classes that a user names, of a model: "top", "top3", "281,n02123159,tabby". */
#ifndef TOOLS_CLASS_LIST_H
#define TOOLS_CLASS_LIST_H

#include "tools/model.h"

enum { CLASS_LIST = 16 }; /* the most classes of a list */

struct class_list {
    int count;
    bool top; /* the `count` most likely of an image; else they are `number` */
    int number[CLASS_LIST];
};

/*
 * Numbers from 0, ids or names with commas between; or a name with a comma in it, alone. ST_USAGE
 * says what of the text the model has not, or has twice.
 */
enum status class_list_find(const char *text, const struct model *model,
                            struct class_list *out) MUST_CHECK;

/* out (list->count): those of an image with these logits (K), the most likely first if `top`. */
void class_list_of(const struct class_list *list, const float *logits, int classes, int *out);

#endif
