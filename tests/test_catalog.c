/*
 * test_catalog: every checkpoint that `vitrine pull` offers: a name that can be a file's, an
 * architecture that vitrine runs, an address and a checksum that look like ones, and as many
 * tensors and parameters demanded of its file as timm's model has (tests/ref/catalog_names.py,
 * which also pulls such files); a few more from the origins' documentation.
 */
#include "weights/architectures.h" // before cmocka.h, which has a macro `fail`
#include "weights/catalog.h"
#include "weights/convert_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- what an architecture demands ------------------------------------------------------------ */

/* Fine-tuned at another size than its row: (name, pixels). */
static int image_of(const char *name, const struct architecture *a) {
    static const struct {
        const char *name;
        int image;
    } others[] = {{"vit_l_16.imagenet1k_swag_e2e_v1", 512},
                  {"vit_h_14.imagenet1k_swag_e2e_v1", 518}};
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (strcmp(others[i].name, name) == 0) return others[i].image;
    return a->image;
}

/* A tensor whose length the converter takes from the checkpoint. */
static void give(struct plan *plan, const char *name, int rank, size_t first, size_t second) {
    struct conversion_tensor *t = &plan->out->outputs[plan->out->output_count++];
    static const struct tensor given = {.name = "the tensor given"};
    const size_t dims[] = {first, second, (size_t)plan->out->vit.dim};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->part[0] = &given;
    t->rank = rank;
    memcpy(t->dims, dims, sizeof dims);
}

static void vit_of(const struct architecture *a, int image, int classes, struct vit_config *c) {
    *c = (struct vit_config){.patch_h = a->patch,
                             .patch_w = a->patch,
                             .dim = a->dim,
                             .depth = a->depth,
                             .heads = a->heads,
                             .hidden = a->hidden,
                             .classes = classes,
                             .registers = a->registers,
                             .positions = true,
                             .pos_grid_h = image / a->patch,
                             .class_token = a->flags & ARCH_CLASS,
                             .dist_token = a->flags & ARCH_DIST,
                             .pre_norm = a->flags & ARCH_PRE_NORM,
                             .patch_bias = !(a->flags & ARCH_PRE_NORM),
                             .qkv_bias = !(a->flags & ARCH_NO_QKV_BIAS),
                             .layer_scale = a->flags & ARCH_LAYER_SCALE,
                             .swiglu = a->flags & ARCH_SWIGLU,
                             .fc_norm = a->flags & ARCH_FC_NORM,
                             .norm = !(a->flags & ARCH_FC_NORM)};
    if (a->pool == POOL_MAP || (a->flags & ARCH_QK_NORM))
        fail_msg("%s: its pool or norms have tensors that this test does not count", a->name);
    if (a->flags & ARCH_POS_PREFIX) c->pos_prefix = vit_config_prefix(c);
}

/* tensors and parameters of *c: those that convert would demand of the checkpoint. */
static void count_demanded(const struct catalog_entry *e, struct conversion *c) {
    struct conversion_tensor given[SWIN_MAX_STAGES] = {0};
    struct plan plan = {.out = c};
    const struct architecture *a = architecture_find(e->arch);
    *c = (struct conversion){.outputs = given};
    if (!a) fail_msg("%s: no architecture %s", e->name, e->arch);
    if (!architecture_swin(a, &c->swin)) {
        vit_of(a, image_of(e->name, a), e->classes, &c->vit);
        const size_t grid = (size_t)c->vit.pos_grid_h;
        give(&plan, "pos_embed", 3, 1, grid * grid + (size_t)c->vit.pos_prefix);
        convert_vit.demand(&plan);
    } else {
        c->swin.classes = e->classes;
        for (int s = 0; c->swin.version == 1 && s < c->swin.stages; s++) {
            struct swin_map map;
            char name[64];
            snprintf(name, sizeof name, "layers.%d.blocks.0.attn.relative_position_bias_table", s);
            swin_config_map(&c->swin, s, c->swin.image_h, c->swin.image_w, &map);
            give(&plan, name, 2, (size_t)((2 * map.window_h - 1) * (2 * map.window_w - 1)),
                 (size_t)c->swin.heads[s]);
        }
        convert_swin.demand(&plan);
    }
    if (c->tensors != plan.problems.count + c->output_count)
        fail_msg("%s: the given tensors are not those demanded: %s", e->name, plan.problems.text);
}

static const struct {
    const char *name;
    size_t tensors;
    uint64_t parameters;
} golden[] = {
#include "tests/ref/golden_catalog.h"
};

static void test_demanded(void **state) {
    struct catalog_entry e;
    size_t i = 0;
    (void)state;
    for (; catalog_at(i, &e); i++) {
        struct conversion c;
        if (i == COUNT_OF(golden) || strcmp(e.name, golden[i].name) != 0)
            fail_msg("%s: has no golden row (tests/ref/catalog_names.py --golden)", e.name);
        count_demanded(&e, &c);
        if (c.tensors != golden[i].tensors || c.parameters != golden[i].parameters ||
            e.parameters != golden[i].parameters)
            fail_msg("%s: the list says %llu parameters, convert demands %llu in %zu tensors, "
                     "timm has %llu in %zu",
                     e.name, (unsigned long long)e.parameters, (unsigned long long)c.parameters,
                     c.tensors, (unsigned long long)golden[i].parameters, golden[i].tensors);
    }
    assert_int_equal(i, COUNT_OF(golden));
}

static bool made_of(const char *text, const char *letters) {
    return text[0] && strspn(text, letters) == strlen(text);
}

static void test_names(void **state) {
    struct catalog_entry a, b;
    size_t entries = 0;
    (void)state;
    for (; catalog_at(entries, &a); entries++) {
        size_t length = strlen(a.name);
        if (!made_of(a.name, "abcdefghijklmnopqrstuvwxyz0123456789._-") || a.name[0] == '.' ||
            length > 100 || strcmp(a.name + length - 3, ".h5") == 0)
            fail_msg("%s: is no name", a.name);
        for (size_t i = entries + 1; catalog_at(i, &b); i++)
            if (strcmp(a.name, b.name) == 0) fail_msg("%s: is there twice", a.name);
        assert_true(catalog_find(a.name, &b));
        assert_string_equal(a.address, b.address);
    }
    assert_true(entries > 300);
    assert_false(catalog_at(entries, &a));
    assert_false(catalog_find("", &a));
    assert_false(catalog_find("vit_tiny_patch16_224", &a));
}

static void test_addresses(void **state) {
    struct catalog_entry a, b;
    (void)state;
    for (size_t i = 0; catalog_at(i, &a); i++) {
        const char *file = catalog_file(&a), *dot = strrchr(file, '.');
        if (strncmp(a.address, "https://", 8) != 0 || strlen(a.address) + 1 >= sizeof a.address ||
            strpbrk(a.address, " \"'<>\\") || strstr(a.address + 8, "//"))
            fail_msg("%s: address %s", a.name, a.address);
        if (!dot || (strcmp(dot, ".safetensors") && strcmp(dot, ".pth") && strcmp(dot, ".npz")))
            fail_msg("%s: file %s", a.name, file);
        for (size_t j = i + 1; catalog_at(j, &b); j++)
            if (strcmp(a.address, b.address) == 0)
                fail_msg("%s and %s: one address", a.name, b.name);
    }
}

/* torchvision, DeiT and timm write the beginning of the checksum into the file's name. */
static void test_hashes(void **state) {
    struct catalog_entry e;
    size_t whole = 0, part = 0;
    (void)state;
    for (size_t i = 0; catalog_at(i, &e); i++) {
        const char *dash = strrchr(catalog_file(&e), '-');
        if (e.sha256 && !made_of(e.sha256, "0123456789abcdef"))
            fail_msg("%s: %s", e.name, e.sha256);
        if (!e.sha256) continue;
        whole += strlen(e.sha256) == 64;
        part += strlen(e.sha256) == 8;
        if (strlen(e.sha256) != 64 &&
            (!dash || strncmp(dash + 1, e.sha256, 8) != 0 || dash[9] != '.'))
            fail_msg("%s: its file is %s, its hash %s", e.name, catalog_file(&e), e.sha256);
    }
    print_message("%zu whole checksums, %zu beginnings\n", whole, part);
    assert_true(whole > 0 && part > 30);
}

static void test_architectures(void **state) {
    struct catalog_entry e;
    (void)state;
    for (size_t i = 0; catalog_at(i, &e); i++) {
        struct preprocess_spec spec;
        const char *tag;
        if (!architecture_preprocess(e.arch, &spec, &tag))
            fail_msg("%s: no tag %s", e.name, e.arch);
        assert_int_equal(catalog_bytes(&e), 4 * e.parameters);
        if (e.top1 != 0 && !(e.top1 > 65 && e.top1 < 90)) fail_msg("%s: top-1 %g", e.name, e.top1);
        if (e.top1 != 0 && e.classes != 1000)
            fail_msg("%s: top-1 of %d classes", e.name, e.classes);
        assert_true(e.license && e.license[0] && e.origin && e.origin[0]);
    }
}

/* What the origins' documentation says; torchvision's Swin v2 counts its key biases, all zero. */
static void test_documented(void **state) {
    static const struct {
        const char *name;
        uint64_t parameters, beside;
    } rows[] = {
        {"vit_tiny_patch16_224.augreg_in21k_ft_in1k", 5717416, 0},
        {"vit_small_patch32_224.augreg_in21k_ft_in1k", 22878952, 0},
        {"vit_base_patch8_224.augreg_in21k_ft_in1k", 86576872, 0},
        {"vit_base_patch16_224_miil.in21k_ft_in1k", 86540008, 0},
        {"vit_large_patch14_clip_224.openai_ft_in1k", 304204776, 0},
        {"vit_huge_patch14_clip_224.laion2b_ft_in1k", 632047080, 0},
        {"vit_medium_patch16_gap_256.sw_in12k_ft_in1k", 38861288, 0},
        {"vit_medium_patch16_reg4_gap_256.sbb_in1k", 38881768, 0},
        {"vit_so150m_patch16_reg4_gap_256.sbb_e250_in12k_ft_in1k", 134131560, 0},
        {"vit_so150m2_patch16_reg1_gap_256.sbb_e200_in12k_ft_in1k", 136059560, 0},
        {"vit_base_patch14_dinov2.lvd142m", 86579712, 0},
        {"vit_base_patch14_reg4_dinov2.lvd142m", 86582016, 0},
        {"deit_base_distilled_patch16_384.fb_in1k", 87630032, 0},
        {"deit3_huge_patch14_224.fb_in1k", 632126440, 0},
        {"swin_tiny_patch4_window7_224.ms_in1k", 28288354, 0},
        {"swin_base_patch4_window12_384.ms_in1k", 87903584, 0},
        {"swin_large_patch4_window12_384.ms_in22k_ft_in1k", 196735516, 0},
        {"swinv2_tiny_window8_256.ms_in1k", 28347154, 0},
        {"swinv2_large_window12to16_192to256.ms_in22k_ft_in1k", 196739932, 0},
        {"vit_b_16.imagenet1k_v1", 86567656, 0},
        {"vit_b_16.imagenet1k_swag_e2e_v1", 86859496, 0},
        {"vit_l_16.imagenet1k_swag_e2e_v1", 305174504, 0},
        {"vit_h_14.imagenet1k_swag_e2e_v1", 633470440, 0},
        {"swin_b.imagenet1k_v1", 87768224, 0},
        {"swin_v2_t.imagenet1k_v1", 28351570, 4416},
        {"swin_v2_s.imagenet1k_v1", 49737442, 9024},
        {"swin_v2_b.imagenet1k_v1", 87930848, 12032},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct catalog_entry e;
        if (!catalog_find(rows[i].name, &e)) fail_msg("%s: is not there", rows[i].name);
        if (e.parameters + rows[i].beside != rows[i].parameters)
            fail_msg("%s: %llu parameters and %llu, documented are %llu", rows[i].name,
                     (unsigned long long)e.parameters, (unsigned long long)rows[i].beside,
                     (unsigned long long)rows[i].parameters);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_hashes),   cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_demanded), cmocka_unit_test(test_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
