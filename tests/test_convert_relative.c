/*
 * test_convert_relative: checkpoints with relative positions: BEiT in timm's, its own and
 * transformers' names, data2vec, timm's ViT with bias tables. What comes out, what is refused, and
 * the key's bias, which no file has.
 */
#include "tests/convert_origins_sample.h"

#define GIVEN     " | 16x16 0.9 center bilinear half_even 0.1 0.4"
#define GIVEN_H   " | 16x16 0.9 center bilinear floor 0.1 0.4"
#define BEIT(K)   "D64 L2 H4 F128 K" K " img16x16 p4x4 grid4x4+0 cls "
#define TABLE     "relative_position_bias_table"
#define BLOCK(n)  "blocks." #n ".attn." TABLE
#define LAYER(n)  "beit.encoder.layer." #n ".attention.attention.relative_position_bias." TABLE
#define NO_TABLES "-" BLOCK(0) " -" BLOCK(1) " "
#define CONFIG(type, more)                                                                         \
    "{\"model_type\":\"" type "\",\"num_attention_heads\":4,\"layer_norm_eps\":1e-12,"             \
    "\"hidden_act\":\"gelu\"" more "}"

/* Rows (4x4: 7*7+3, H) of a table a block. */
static void tiny_beit(struct file *f) {
    static const struct spelling parts[] = {{"norm.", "fc_norm."}};
    tiny_timm(f);
    leave_out(f, "pos_embed");
    leave_out(f, "qkv.bias");
    respell(f, parts, COUNT_OF(parts));
    for (int n = 0; n < 2; n++) {
        add(f, "64", "blocks.%d.attn.q_bias", n);
        add(f, "64", "blocks.%d.attn.v_bias", n);
        add(f, "64", "blocks.%d.gamma_1", n);
        add(f, "64", "blocks.%d.gamma_2", n);
        add(f, "52,4", "blocks.%d.attn." TABLE, n);
    }
}

static void tiny_transformers_beit(struct file *f) {
    static const struct spelling parts[] = {{"layernorm.", "pooler.layernorm."},
                                            {"norm1", "layernorm_before"},
                                            {"norm2", "layernorm_after"},
                                            {"mlp.fc1", "intermediate.dense"},
                                            {"mlp.fc2", "output.dense"}};
    tiny_dinov2(f);
    leave_out(f, "layer_scale");
    leave_out(f, "position_embeddings");
    leave_out(f, "key.bias");
    for (int n = 0; n < 2; n++) {
        add(f, "64", "encoder.layer.%d.lambda_1", n);
        add(f, "64", "encoder.layer.%d.lambda_2", n);
        add(f, "52,4", "encoder.layer.%d.attention.attention.relative_position_bias." TABLE, n);
    }
    respell(f, parts, COUNT_OF(parts));
    for (size_t i = 0; i < f->count; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s", f->entries[i].name);
        snprintf(f->entries[i].name, sizeof f->entries[i].name, "beit.%.120s", name);
    }
    add(f, "3,64", "classifier.weight");
    add(f, "3", "classifier.bias");
}

/* As v5 names its own modules. */
static void tiny_transformers_own(struct file *f) {
    static const struct spelling outer[] = {{"encoder.layer.", "layers."}};
    static const struct spelling parts[] = {
        {"attention.attention.relative_position_bias.", "relative_position_bias."},
        {"attention.attention.query", "attention.q_proj"},
        {"attention.attention.key", "attention.k_proj"},
        {"attention.attention.value", "attention.v_proj"},
        {"attention.output.dense", "attention.o_proj"},
        {"intermediate.dense", "mlp.fc1"},
        {"output.dense", "mlp.fc2"}};
    tiny_transformers_beit(f);
    respell(f, parts, COUNT_OF(parts));
    respell(f, outer, COUNT_OF(outer));
}

static const struct row good[] = {
    {"BEiT in timm's names", tiny_beit,
     .want = BEIT("3") "rel r0 avg fc_norm ls gelu 1e-06 geometric" GIVEN},
    {"its own file of pretraining, without a head", tiny_beit,
     NO_TABLES "-head.weight -head.bias +mask_token:1,1,64 +lm_head.weight:8,64 +lm_head.bias:8 "
               "+rel_pos_bias." TABLE ":52,4 +rel_pos_bias.relative_position_index:17,17",
     .want = BEIT("0") "shared r0 avg fc_norm ls gelu 1e-06 geometric" GIVEN},
    {"a map that is not square", tiny_beit, BLOCK(0) ":36,4 " BLOCK(1) ":36,4",
     .extra = "input_size=8x24",
     .want = "D64 L2 H4 F128 K3 img8x24 p4x4 grid2x6+0 cls rel r0 avg fc_norm ls gelu 1e-06 "
             "geometric | 8x24 0.9 center bilinear half_even 0.1 0.4"},
    {"timm's ViT with bias tables and no class token", tiny_beit,
     "-cls_token " BLOCK(0) ":49,4 " BLOCK(1) ":49,4 " BLOCK(
         0) ">blocks.0.attn.rel_pos." TABLE " " BLOCK(1) ">blocks.1.attn.rel_pos." TABLE,
     .want = "D64 L2 H4 F128 K3 img16x16 p4x4 grid4x4+0 rel r0 avg fc_norm ls gelu 1e-06 "
             "geometric" GIVEN},
    {"transformers' BEiT", tiny_transformers_beit, .config = CONFIG("beit", ""),
     .want = BEIT("3") "rel r0 avg fc_norm ls gelu 1e-12 bilinear" GIVEN_H},
    {"in the names of v5's modules", tiny_transformers_own, .config = CONFIG("beit", ""),
     .want = BEIT("3") "rel r0 avg fc_norm ls gelu 1e-12 bilinear" GIVEN_H},
    {"data2vec, one table, the class token's norm", tiny_transformers_beit,
     "-" LAYER(0) " -" LAYER(1) " +beit.encoder.relative_position_bias." TABLE ":52,4 "
                                "beit.pooler.layernorm.weight>beit.layernorm.weight "
                                "beit.pooler.layernorm.bias>beit.layernorm.bias",
     .config = CONFIG("data2vec-vision", ""),
     .want = BEIT("3") "shared r0 token norm ls gelu 1e-12 bilinear" GIVEN_H},
};

static const struct row bad[] = {
    {"a table is missing", tiny_beit, "-" BLOCK(1), .status = ST_SHAPE,
     .want = BLOCK(1) " (52, 4) is missing"},
    {"a table of other rows", tiny_beit, BLOCK(1) ":51,4", .status = ST_SHAPE,
     .want = BLOCK(1) " is (51, 4), want (52, 4)"},
    {"rows that are no map", tiny_beit, BLOCK(0) ":51,4 " BLOCK(1) ":51,4", .status = ST_SHAPE,
     .want = "has 51 rows, which are no square of offsets behind 3"},
    {"rows of an even square", tiny_beit, BLOCK(0) ":39,4 " BLOCK(1) ":39,4", .status = ST_SHAPE,
     .want = "has 39 rows, which are no square of offsets behind 3"},
    {"rows of a map that is no square", tiny_beit, BLOCK(0) ":24,4 " BLOCK(1) ":24,4",
     .status = ST_USAGE, .want = "input_size=HxW"},
    {"fewer rows than prefix tokens take", tiny_beit, BLOCK(0) ":2,4 " BLOCK(1) ":2,4",
     .status = ST_SHAPE, .want = "has 2 rows"},
    {"positions of two kinds", tiny_beit, "+pos_embed:1,17,64", .status = ST_SHAPE,
     .want = "positions of two kinds"},
    {"tables of two kinds", tiny_beit, "+rel_pos_bias." TABLE ":52,4", .status = ST_SHAPE,
     .want = "positions of two kinds"},
    {"heads that do not share the width", tiny_beit, BLOCK(0) ":52,5 " BLOCK(1) ":52,5",
     .status = ST_SHAPE, .want = "5 heads do not share 64 channels"},
    {"a value's bias is missing", tiny_beit, "-blocks.1.attn.v_bias", .status = ST_SHAPE,
     .want = "only 1 of the 3 parts of blocks.1.attn.qkv.bias"},
    {"biases of two lengths", tiny_beit, "blocks.1.attn.v_bias:32", .status = ST_SHAPE,
     .want = "only 2 of the 3 parts of blocks.1.attn.qkv.bias"},
    {"relative positions by an MLP", tiny_beit,
     NO_TABLES "+blocks.0.attn.rel_pos.mlp.fc1.weight:128,2", .status = ST_SHAPE,
     .want = "relative positions by an MLP (timm's vit_relpos)"},
    {"transformers: other heads than the table's", tiny_transformers_beit,
     .config = "{\"model_type\":\"beit\",\"num_attention_heads\":2,\"layer_norm_eps\":1e-12}",
     .status = ST_SHAPE, .want = "2 heads, but its bias tables are for 4"},
    {"transformers: one key has a bias", tiny_transformers_beit,
     "+beit.encoder.layer.0.attention.attention.key.bias:64", .config = CONFIG("beit", ""),
     .status = ST_SHAPE, .want = "only 2 of the 3 parts of blocks.1.attn.qkv.bias"},
    {"transformers: a ViT whose keys lost their biases", tiny_transformers_beit,
     .config = CONFIG("vit", ""), .status = ST_SHAPE, .want = "the biases of the keys are missing"},
    {"transformers: all tables are missing", tiny_transformers_beit, "-" LAYER(0) " -" LAYER(1),
     .config = CONFIG("beit", ",\"image_size\":16,\"use_relative_position_bias\":true"),
     .status = ST_SHAPE,
     .want = "use_relative_position_bias is true, but a relative_position_bias_table of every "
             "block is missing"},
    {"transformers: tables that the config has not", tiny_transformers_beit,
     .config = CONFIG("beit", ",\"use_relative_position_bias\":false"), .status = ST_SHAPE,
     .want = "use_relative_position_bias is false, but"},
    {"transformers: the shared table is missing", tiny_transformers_beit,
     "-" LAYER(0) " -" LAYER(1),
     .config = CONFIG("beit", ",\"image_size\":16,\"use_shared_relative_position_bias\":true"),
     .status = ST_SHAPE, .want = "use_shared_relative_position_bias is true, but"},
    {"transformers: the pooler's norm is missing", tiny_transformers_beit,
     "-beit.pooler.layernorm.weight -beit.pooler.layernorm.bias",
     .config = CONFIG("beit", ",\"use_mean_pooling\":true"), .status = ST_SHAPE,
     .want = "use_mean_pooling is true, but pooler.layernorm is missing"},
    {"transformers: a pooler's norm that the config has not", tiny_transformers_beit,
     .config = CONFIG("beit", ",\"use_mean_pooling\":false"), .status = ST_SHAPE,
     .want = "use_mean_pooling is false, but pooler.layernorm is there"},
    {"transformers: tables for another picture", tiny_transformers_beit,
     .config = CONFIG("beit", ",\"image_size\":32"), .status = ST_SHAPE,
     .want = "image_size says 32x32, the positions are for 4x4 patches of 4x4"},
    {"transformers: no scales", tiny_transformers_beit,
     "-beit.encoder.layer.0.lambda_1 -beit.encoder.layer.0.lambda_2 "
     "-beit.encoder.layer.1.lambda_1 -beit.encoder.layer.1.lambda_2",
     .config = CONFIG("beit", ",\"layer_scale_init_value\":0.1"), .status = ST_SHAPE,
     .want = "layer_scale_init_value is 0.1, but lambda_1 is missing"},
    {"transformers: a classifier's head is missing", tiny_transformers_beit,
     "-classifier.weight -classifier.bias",
     .config = CONFIG("beit", ",\"architectures\":[\"BeitForImageClassification\"]"),
     .status = ST_SHAPE, .want = "weight and bias are missing, which BeitForImageClassification"},
    {"a folded table, as of ONNX", tiny_beit, BLOCK(0) ":1,4,17,17", .status = ST_FORMAT,
     .want = "the relative-position bias is folded, as torch.onnx does (" BLOCK(
         0) " is (1, 4, 17, 17), no table)"},
    {"timm: no last norm", tiny_beit, "-fc_norm.weight -fc_norm.bias", .status = ST_SHAPE,
     .want = "the last norm is missing"},
    {"transformers: a map that is not square", tiny_transformers_beit,
     LAYER(0) ":36,4 " LAYER(1) ":36,4", .config = CONFIG("beit", ",\"image_size\":[8,24]"),
     .status = ST_FORMAT, .want = "transformers takes rows for columns"},
};

static void test_good(void **state) {
    (void)state;
    check_planned(good, COUNT_OF(good));
}

static void test_bad(void **state) {
    (void)state;
    check_refused(bad, COUNT_OF(bad));
}

/* The key's bias is zeros between the query's and the value's; tables go over as they are. */
static void test_values(void **state) {
    static const struct {
        void (*base)(struct file *f);
        const char *config, *query, *value, *table;
    } rows[] = {
        {tiny_beit, NULL, "blocks.1.attn.q_bias", "blocks.1.attn.v_bias", BLOCK(1)},
        {tiny_transformers_beit, CONFIG("beit", ""),
         "beit.encoder.layer.1.attention.attention.query.bias",
         "beit.encoder.layer.1.attention.attention.value.bias", LAYER(1)},
    };
    (void)state;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const struct row row = {.base = rows[r].base, .config = rows[r].config};
        const struct convert_options options = {.dtype = DT_F32};
        struct checkpoint checkpoint;
        struct conversion c;
        struct h5 *file = NULL;
        float bias[192], table[52 * 4];
        assert_int_equal(plan_row(&row, &checkpoint, &c), ST_OK);
        assert_int_equal(convert_write(&checkpoint, &options, &c, path_of("out.h5")), ST_OK);
        conversion_release(&c);
        checkpoint_release(&checkpoint);
        assert_int_equal(h5_open(path_of("out.h5"), &file), ST_OK);
        assert_int_equal(h5_read_f32(file, "/parameters/blocks.1.attn.qkv.bias", bias, 192), ST_OK);
        assert_int_equal(h5_read_f32(file, "/parameters/" BLOCK(1), table, 208), ST_OK);
        for (size_t i = 0; i < 64; i++) {
            assert_true(bias[i] == value_at(rows[r].query, i));
            assert_true(bias[64 + i] == 0);
            assert_true(bias[128 + i] == value_at(rows[r].value, i));
        }
        for (size_t i = 0; i < COUNT_OF(table); i++)
            assert_true(table[i] == value_at(rows[r].table, i));
        assert_int_equal(h5_close(&file), ST_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests_name("convert_relative", tests, make_folder, remove_folder);
}
