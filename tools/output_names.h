/*
 * output_names: what the files made of each input are called: its name without folders and suffix.
 * Inputs of the same name keep their folder's name in front ("may_cat", "june_cat"), more folders
 * where that is not enough, at last their suffix and number. A name too long to put a suffix behind
 * is cut, and its number stands behind it.
 */
#ifndef TOOLS_OUTPUT_NAMES_H
#define TOOLS_OUTPUT_NAMES_H

#include "datasets/inputs.h"

struct output_names {
    char **name; /* (count), each once; of an input's number */
    size_t count;
};

enum status output_names_open(const struct inputs *inputs, struct output_names *out) MUST_CHECK;
void output_names_release(struct output_names *names); /* works on a zeroed struct, and twice */

#endif
