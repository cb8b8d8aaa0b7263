/*
 * convert_arch: which architecture a checkpoint is. In this order: --arch; timm's config.json;
 * transformers' config.json; for a ViT of torchvision nothing else; the one row of the architecture
 * table that has the tensors' shapes. Where several rows have them and differ in anything that
 * changes a number, the user is asked for --arch. Rows are compared by the family (convert_vit.c,
 * convert_swin.c).
 */
#include <stdio.h>
#include <string.h>

#include "weights/convert_plan.h"

#define CONFIG CONVERT_CONFIG_FILE

/* Whether weights of this origin can be the row's: an origin that scales to [-1, 1] always does. */
static bool scaled_alike(const struct name_origin *origin, const struct architecture *a) {
    struct preprocess_spec spec = {0};
    const char *tag;
    if (!origin->unit_range || !architecture_preprocess(a->name, &spec, &tag)) return true;
    return spec.mean[0] == 0.5 && spec.std[0] == 0.5;
}

/* The one row of these shapes. Several that differ: ST_USAGE with their names, unless `quiet`. */
static enum status match_shapes(struct plan *plan, bool quiet) {
    const struct architecture *first = NULL, *a;
    struct word_list names = {0};
    bool differ = false;
    for (size_t i = 0; (a = architecture_at(i)); i++) {
        if (!plan->out->family->matches(plan, a) || !scaled_alike(plan->origin, a)) continue;
        if (first && !plan->out->family->same(first, a)) differ = true;
        if (!first) first = a;
        word_list_add(&names, "%s", a->name);
    }
    if (!differ) {
        plan->arch = first;
        return ST_OK;
    }
    if (quiet) return ST_OK;
    return fail(ST_USAGE,
                "%s: its shapes are those of several architectures that differ in what tensors do "
                "not say: give one "
                "with --arch: %s",
                plan->checkpoint->weights_path, word_list_text(&names));
}

/* --arch or config.json's architecture, looked up and held against the tensors. */
static enum status named_row(struct plan *plan, const char *name, const char *from) {
    char text[128];
    struct preprocess_spec spec;
    const char *tag;
    plan->arch = architecture_find(name);
    if (!plan->arch)
        return fail(ST_USAGE,
                    "%s: %s says '%.80s', which is no architecture known here (vitrine convert "
                    "--list-names)",
                    plan->checkpoint->weights_path, from, name);
    if (!architecture_preprocess(name, &spec, &tag))
        return fail(ST_USAGE, "%s: %s says '%.80s': timm has %s, but no weights of that tag",
                    plan->checkpoint->weights_path, from, name, plan->arch->name);
    if (plan->out->family->differs(plan, plan->arch, text, sizeof text))
        return fail(ST_SHAPE, "%s: %s says %s, which has %s", plan->checkpoint->weights_path, from,
                    plan->arch->name, text);
    plan->arch_name = name;
    return plan_note(plan, "architecture_from", from);
}

enum status plan_choose_architecture(struct plan *plan) {
    const char *name = NULL, *arch = plan->options->arch, *own = "the tensors' shapes";
    if (plan->timm_config) TRY(json_word(plan->config, CONFIG, "architecture", &name));
    if (arch) {
        const size_t length = strcspn(arch, ".");
        TRY(named_row(plan, arch, "--arch"));
        if (name && (strncmp(name, arch, length) != 0 || name[length])) plan->timm_config = false;
        return ST_OK;
    }
    if (name) return named_row(plan, name, CONFIG);
    if (plan->origin == &names_torchvision) return plan_note(plan, "architecture_from", own);
    TRY(match_shapes(plan, plan->transformers_config));
    if (plan->transformers_config) return plan_note(plan, "architecture_from", CONFIG);
    return plan_note(plan, "architecture_from",
                     plan->arch ? own : plan->out->family->without_row(plan));
}
