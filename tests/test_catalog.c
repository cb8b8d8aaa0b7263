/*
 * test_catalog: every checkpoint that `vitrine pull` offers: a name that can be a file's, an
 * architecture that vitrine runs, an address and a checksum that look like ones, and as many
 * parameters as its architecture has. Counted here from the architecture's row; the table's come
 * from timm (tests/ref/catalog_rows.py), a few more from the origins' documentation.
 */
#include "weights/architectures.h" // before cmocka.h, which has a macro `fail`
#include "weights/catalog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint64_t linear(uint64_t out, uint64_t in, bool bias) {
    return out * in + (bias ? out : 0);
}

static uint64_t layernorm(uint64_t width) {
    return 2 * width;
}

/* pos_embed, tokens and patch embedding, blocks, norms, head. */
static uint64_t vit_parameters(const struct architecture *a, int image, int classes) {
    const uint64_t C = (uint64_t)a->dim, F = (uint64_t)a->hidden, K = (uint64_t)classes;
    const uint64_t grid = (uint64_t)(image / a->patch), patch = (uint64_t)a->patch;
    const bool cls = a->flags & ARCH_CLASS, dist = a->flags & ARCH_DIST;
    const uint64_t prefix = (uint64_t)(cls + dist + a->registers);
    const bool glu = a->flags & ARCH_SWIGLU, pre = a->flags & ARCH_PRE_NORM;
    uint64_t block = 2 * layernorm(C) + linear(3 * C, C, !(a->flags & ARCH_NO_QKV_BIAS)) +
                     linear(C, C, true) + linear(glu ? 2 * F : F, C, true) + linear(C, F, true);
    uint64_t all = prefix * C + linear(C, 3 * patch * patch, !pre);
    if (a->flags & ARCH_LAYER_SCALE) block += 2 * C;
    if (a->flags & ARCH_QK_NORM) block += 2 * layernorm(C / (uint64_t)a->heads);
    if (a->flags & ARCH_RELATIVE) /* BEiT: a table a block; the key has no bias */
        block += ((2 * grid - 1) * (2 * grid - 1) + 3) * (uint64_t)a->heads - C;
    else
        all += (grid * grid + (a->flags & ARCH_POS_PREFIX ? prefix : 0)) * C;
    all += (uint64_t)a->depth * block + layernorm(C) + (pre ? layernorm(C) : 0);
    if (a->pool == POOL_MAP)
        all += C + linear(C, C, true) + linear(2 * C, C, true) + linear(C, C, true) + layernorm(C) +
               linear(F, C, true) + linear(C, F, true);
    return all + (K ? linear(K, C, true) * (dist ? 2 : 1) : 0);
}

static uint64_t swin_block(const struct swin_config *c, int stage) {
    const uint64_t C = (uint64_t)c->dim << stage, F = (uint64_t)c->hidden[stage];
    const uint64_t H = (uint64_t)c->heads[stage];
    uint64_t block = 2 * layernorm(C) + linear(3 * C, C, c->version == 1) + linear(C, C, true) +
                     linear(F, C, true) + linear(C, F, true);
    struct swin_map map;
    swin_config_map(c, stage, c->image_h, c->image_w, &map);
    if (c->version == 1)
        block += (uint64_t)((2 * map.window_h - 1) * (2 * map.window_w - 1)) * H;
    else /* q_bias, v_bias, logit_scale, cpb_mlp */
        block += 2 * C + H + linear(SWIN_CPB_HIDDEN, 2, true) + linear(H, SWIN_CPB_HIDDEN, false);
    return block;
}

static uint64_t swin_parameters(const struct swin_config *c, int classes) {
    const uint64_t C = (uint64_t)c->dim, last = C << (c->stages - 1);
    const uint64_t patch = (uint64_t)c->patch_h;
    uint64_t all = linear(C, 3 * patch * patch, true) + layernorm(C) + layernorm(last);
    for (int s = 0; s < c->stages; s++) {
        const uint64_t from = C << s;
        all += (uint64_t)c->depths[s] * swin_block(c, s);
        if (s + 1 < c->stages)
            all += linear(2 * from, 4 * from, false) +
                   layernorm(c->version == 1 ? 4 * from : 2 * from);
    }
    return all + (classes ? linear((uint64_t)classes, last, true) : 0);
}

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

static uint64_t count(const struct catalog_entry *e) {
    const struct architecture *a = architecture_find(e->arch);
    struct swin_config swin;
    if (!a) return 0;
    if (architecture_swin(a, &swin)) return swin_parameters(&swin, e->classes);
    return vit_parameters(a, image_of(e->name, a), e->classes);
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
        if (!architecture_find(e.arch)) fail_msg("%s: no architecture %s", e.name, e.arch);
        if (!architecture_preprocess(e.arch, &spec, &tag))
            fail_msg("%s: no tag %s", e.name, e.arch);
        if (e.parameters != count(&e))
            fail_msg("%s: says %llu parameters, its architecture has %llu", e.name,
                     (unsigned long long)e.parameters, (unsigned long long)count(&e));
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
        cmocka_unit_test(test_names),      cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_hashes),     cmocka_unit_test(test_architectures),
        cmocka_unit_test(test_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
