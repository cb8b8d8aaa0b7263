/* recipe: see recipe.h. */
#include "tools/recipe.h"

#include <string.h>
#include <unistd.h>

static const char *const dtype_words[] = {"fp32", "fp16", "bf16", NULL};
static const char *const activation_words[] = {"gelu", "gelu_tanh", "quick_gelu"};

static enum status parse_activation(const char *value, void *field) {
    const char **out = field;
    for (size_t i = 0; i < COUNT_OF(activation_words); i++) {
        if (strcmp(activation_words[i], value) != 0) continue;
        *out = value;
        return ST_OK;
    }
    return fail(ST_USAGE, "gelu, gelu_tanh or quick_gelu");
}

#define LINE_MOST   1000
#define ROW(member) offsetof(struct recipe, member)

static const struct cli_option rows[] = {
    {0, "arch", "NAME", CLI_STRING, ROW(arch),
     .help = "timm's name of the architecture, with or without .tag,\nwhen the files do not say it",
     .unset = "from config.json or the shapes"},
    {0, "activation", "A", CLI_CUSTOM, ROW(activation), .help = "gelu, gelu_tanh or quick_gelu",
     .unset = "the origin's own", .parse = parse_activation},
    {0, "labels", "L", CLI_STRING, ROW(labels),
     .help = "imagenet-1k, or a file: one class a line, \"id<TAB>name\" or a name",
     .unset = "id2label of config.json"},
    {0, "dtype", "T", CLI_CHOICE, ROW(dtype),
     .help = "what parameters are stored as: fp32, fp16, bf16", .choices = dtype_words},
    {0, "preprocess", "KEY=VALUE", CLI_LIST, ROW(preprocess),
     .help = "over the origin's own; may be repeated. Keys: input_size (N or\nHxW), crop_pct, "
             "crop_mode, "
             "interpolation, crop_rounding, mean, std"},
    {0, "license", "TEXT", CLI_STRING, ROW(license), .help = "the licence of the weights",
     .unset = "what config.json says, else unknown"},
    {0, "key", "KEY", CLI_STRING, ROW(key),
     .help = "which model of a PyTorch file that holds several, such as\nmodel_ema or teacher",
     .unset = "model, state_dict and the like, teacher over student, an average (ema) last"},
};

struct cli_group recipe_group(struct recipe *recipe) {
    return (struct cli_group){"The conversion", rows, COUNT_OF(rows), recipe};
}

static enum status read_labels(const char *name, struct labels *out) {
    if (strchr(name, '/') || strchr(name, '.') || access(name, F_OK) == 0)
        return labels_read(out, name);
    return labels_builtin(out, name);
}

enum status recipe_check_line(const char *option, const char *value) {
    if (value && !utf8_is_line(value))
        return fail(ST_USAGE, "option --%s: want one line of UTF-8, without control characters",
                    option);
    if (value && strlen(value) > LINE_MOST)
        return fail(ST_USAGE, "option --%s: has %zu bytes, want at most %d", option, strlen(value),
                    LINE_MOST);
    return ST_OK;
}

enum status recipe_apply(const struct recipe *recipe, struct labels *labels, const char ***words,
                         struct convert_options *out) {
    static const enum dtype dtypes[] = {DT_F32, DT_F16, DT_BF16};
    const struct cli_list *more = &recipe->preprocess;
    size_t count = out->preprocess_count;
    TRY(recipe_check_line("license", recipe->license));
    if (recipe->arch) out->arch = recipe->arch;
    if (recipe->activation) out->activation = recipe->activation;
    if (recipe->license) out->license = recipe->license;
    out->dtype = dtypes[recipe->dtype];
    *words = mem_zalloc(count + more->count, sizeof **words);
    if (!*words) return ST_NOMEM;
    for (size_t i = 0; i < count; i++)
        (*words)[i] = out->preprocess[i];
    for (size_t i = 0; i < more->count; i++)
        (*words)[count + i] = more->items[i];
    out->preprocess = *words;
    out->preprocess_count = count + more->count;
    TRY(convert_check_options(out));
    if (!recipe->labels) return ST_OK;
    labels_release(labels);
    TRY(read_labels(recipe->labels, labels));
    out->label_count = labels->count;
    out->label_ids = (const char *const *)labels->id;
    out->label_names = (const char *const *)labels->name;
    return ST_OK;
}

enum status recipe_check(const struct recipe *recipe, const struct convert_options *options,
                         const struct conversion *conversion) {
    if (!recipe->labels || options->label_count == conversion->classes) return ST_OK;
    return fail(ST_USAGE, "--labels has %d classes, the model %d", options->label_count,
                conversion->classes);
}

void recipe_release(struct recipe *recipe) {
    cli_list_release(&recipe->preprocess);
}
