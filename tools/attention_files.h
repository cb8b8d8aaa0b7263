/*
 * attention_files: what `vitrine attention --save` writes of an image. A kind is a row of a table:
 * its name and a function.
 */
#ifndef TOOLS_ATTENTION_FILES_H
#define TOOLS_ATTENTION_FILES_H

#include "tools/attention.h"

/* An image of the pass that has ended. */
struct attention_file {
    struct attention_maps *maps;
    int image; /* of the pass */
    const struct pipeline_item *item;
    const char *stem;    /* FOLDER/NAME.<method>, in front of the kind's suffix */
    const char *model;   /* as it was asked for */
    const char *options; /* attention_options_text */
};

struct attention_kind {
    const char *name; /* of --save, and the suffix */
    enum status (*save)(const struct attention_file *file);
};
extern const struct attention_kind attention_kinds[]; /* ends with name NULL */

/* A set of kinds: bit k for attention_kinds[k]. Rows of tools/cli.h: "npy,h5". */
enum status attention_parse_kinds(const char *value, void *field) MUST_CHECK;
void attention_show_kinds(const void *field, char *text, size_t size);

/* Writes every kind of the set. */
enum status attention_save(const struct attention_file *file, unsigned kinds) MUST_CHECK;

#endif
