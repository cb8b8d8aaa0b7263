/*
 * recipe: what the command line says of how a checkpoint becomes a model; the options that convert
 * and pull share.
 */
#ifndef TOOLS_RECIPE_H
#define TOOLS_RECIPE_H

#include "datasets/labels.h"
#include "tools/cli.h"
#include "weights/convert.h"

/* Zeroed: nothing was said. */
struct recipe {
    const char *arch, *activation, *labels, *license, *key; /* or NULL */
    int dtype;                                              /* 0 fp32, 1 fp16, 2 bf16 */
    struct cli_list preprocess;
};

/* --arch ... --key; the recipe must outlive the group. */
struct cli_group recipe_group(struct recipe *recipe);

/*
 * Puts what the recipe says over what *out has. Its labels are read into *labels (labels_release),
 * to which *out then points, as it does to the recipe. Preprocessing goes behind that which *out
 * has, in a list of its own, *words (mem_free). ST_IO, ST_FORMAT, ST_USAGE, ST_NOMEM.
 */
enum status recipe_apply(const struct recipe *recipe, struct labels *labels, const char ***words,
                         struct convert_options *out) MUST_CHECK;

/* ST_USAGE: the value of --option, or NULL, is no line of up to 1000 bytes that can be shown. */
enum status recipe_check_line(const char *option, const char *value) MUST_CHECK;

/* ST_USAGE when the recipe gives labels for another number of classes. */
enum status recipe_check(const struct recipe *recipe, const struct convert_options *options,
                         const struct conversion *conversion) MUST_CHECK;

void recipe_release(struct recipe *recipe);

#endif
