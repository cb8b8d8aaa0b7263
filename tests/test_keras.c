/*
 * test_keras: the files of Keras' world (tests/ref/make_keras.py), which must give the model that
 * the same weights give as safetensors; the names of each origin; files that are broken or hostile.
 */
#include "weights/convert.h" // before cmocka.h, which has a macro `fail`
#include "weights/h5.h"
#include "weights/keras.h"
#include "weights/layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/container_sample.h"
#include "tests/zip_sample.h"

#define KERAS "tests/ref/keras/"

/* ---- the same model -------------------------------------------------------------------------- */

#define TRANSFORMERS                                                                               \
    "{\"model_type\": \"vit\", \"num_attention_heads\": 2, \"layer_norm_eps\": 1e-12, "            \
    "\"hidden_act\": \"gelu\"}"
#define HEADS "{\"model_args\": {\"num_heads\": 2}}"

static const struct {
    const char *file, *config; /* config.json's text; NULL: none, the tensors say the heads */
    const char *container, *origin;
    size_t transposed, dropped;
    double eps;
    enum resample resample;
    bool unit_range;
} same[] = {
    {"tf_model.h5", TRANSFORMERS, "Keras", "transformers ViT", 8, 0, 1e-12, RESAMPLE_BICUBIC,
     false},
    {"hub_classifier.weights.h5", NULL, "Keras", "keras_hub", 8, 2, 1e-6, RESAMPLE_BICUBIC, false},
    {"deflated.keras", NULL, "Keras archive", "keras_hub", 8, 2, 1e-6, RESAMPLE_BICUBIC, false},
    {"preset", NULL, "Keras", "keras_hub", 8, 1, 1e-5, RESAMPLE_BICUBIC, false},
    {"vit_keras.h5", HEADS, "Keras", "vit-keras", 8, 0, 1e-6, RESAMPLE_LINEAR_ALIGN_CORNERS, true},
    {"vit_keras.weights.h5", HEADS, "Keras", "vit-keras", 8, 0, 1e-6, RESAMPLE_LINEAR_ALIGN_CORNERS,
     true},
    {"stored.keras", HEADS, "Keras archive", "vit-keras", 8, 0, 1e-6, RESAMPLE_LINEAR_ALIGN_CORNERS,
     true},
};

/* Opened; config.json's text in the place of the folder's, when there is one. */
static enum status open_keras(const char *file, const char *config, struct checkpoint *out) {
    char path[160];
    snprintf(path, sizeof path, KERAS "%s", file);
    TRY(checkpoint_open(path, NULL, out));
    if (!config) return ST_OK;
    mem_free(out->config_json);
    out->config_json = str_copy(config);
    assert_non_null(out->config_json);
    return ST_OK;
}

static void test_same_model(void **state) {
    (void)state;
    struct checkpoint reference;
    struct conversion wanted;
    container_open("vit.safetensors", NULL, &reference);
    container_plan(&reference, &wanted);
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        struct checkpoint c;
        struct conversion got;
        if (open_keras(same[i].file, same[i].config, &c) != ST_OK) fail_msg("%s", fail_message());
        container_check(&c);
        container_plan(&c, &got);
        container_equal(&got, &wanted, same[i].file);
        const struct compared counts = container_count(&got);
        if (counts.transposed != same[i].transposed || counts.dropped != same[i].dropped)
            fail_msg("%s: %zu transposed, %zu dropped", same[i].file, counts.transposed,
                     counts.dropped);
        assert_string_equal(c.container, same[i].container);
        assert_string_equal(got.origin, same[i].origin);
        assert_true(got.vit.norm_eps == same[i].eps);
        assert_int_equal(got.vit.pos_resample, same[i].resample);
        assert_int_equal(got.vit.activation, ACT_GELU);
        assert_int_equal(got.vit.heads, 2);
        assert_int_equal(got.vit.classes, 3);
        assert_true(!same[i].unit_range || strcmp(got.preprocess.crop_mode, "squash") == 0);
        conversion_release(&got);
        checkpoint_release(&c);
    }
    conversion_release(&wanted);
    checkpoint_release(&reference);
}

/* keras_hub's Swin, as make_containers.py's swin.safetensors. */
static void test_same_swin(void **state) {
    (void)state;
    static const char config[] = "{\"model_args\": {\"img_size\": 16, \"window_size\": 4}}";
    struct checkpoint ours, theirs;
    struct conversion x, y;
    if (open_keras("hub_swin.weights.h5", NULL, &ours) != ST_OK) fail_msg("%s", fail_message());
    ours.config_json = str_copy(config);
    container_open("swin.safetensors", config, &theirs);
    container_check(&ours);
    container_plan(&ours, &x);
    container_plan(&theirs, &y);
    container_equal(&x, &y, "hub_swin.weights.h5");
    assert_string_equal(x.origin, "keras_hub");
    assert_true(x.swin.norm_eps == 1e-5);
    assert_memory_equal(&x.swin, &y.swin, sizeof x.swin);
    conversion_release(&x);
    conversion_release(&y);
    checkpoint_release(&ours);
    checkpoint_release(&theirs);
}

/* What is stored stays in the mapping. */
static void test_places(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        struct checkpoint c;
        if (open_keras(same[i].file, NULL, &c) != ST_OK) fail_msg("%s", fail_message());
        const bool deflated = strcmp(same[i].file, "deflated.keras") == 0;
        const uint8_t *map = c.map, *data = c.tensors[0].data;
        assert_int_equal(data >= map && data < map + c.map_size, !deflated);
        assert_int_equal(c.memory != NULL, deflated);
        checkpoint_release(&c);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

#define LAYER "encoder/layer_._11/"
#define BLOCK "vi_t_encoder/encoder_layers/vi_t_encoder_block"

static const struct {
    const struct name_origin *origin;
    const char *name;
    enum name_fate fate;
    const char *target;
    int part, parts;
    enum layout layout;
} names[] = {
    {&names_transformers_tf, LAYER "attention/attention/value/kernel", NAME_USE,
     "blocks.11.attn.qkv.weight", 2, 3, LAYOUT_MATRIX},
    {&names_transformers_tf, LAYER "attention/attention/query/bias", NAME_USE,
     "blocks.11.attn.qkv.bias", 0, 3, LAYOUT_SAME},
    {&names_transformers_tf, LAYER "attention/output/dense/kernel", NAME_USE,
     "blocks.11.attn.proj.weight", 0, 0, LAYOUT_MATRIX},
    {&names_transformers_tf, LAYER "output/dense/bias", NAME_USE, "blocks.11.mlp.fc2.bias", 0, 0,
     LAYOUT_SAME},
    {&names_transformers_tf, LAYER "layernorm_after/gamma", NAME_USE, "blocks.11.norm2.weight", 0,
     0, LAYOUT_SAME},
    {&names_transformers_tf, "embeddings/distillation_token", NAME_USE, "dist_token", 0, 0,
     LAYOUT_SAME},
    {&names_transformers_tf, "cls_classifier/kernel", NAME_USE, "head.weight", 0, 0, LAYOUT_MATRIX},
    {&names_transformers_tf, "distillation_classifier/kernel", NAME_USE, "head_dist.weight", 0, 0,
     LAYOUT_MATRIX},
    {&names_transformers_tf, "pooler/dense/kernel", NAME_DROP, "", 0, 0, LAYOUT_SAME},
    {&names_transformers_tf, "encoder/layer.0/output/dense/bias", NAME_UNKNOWN, "", 0, 0,
     LAYOUT_SAME},
    {&names_keras_hub, BLOCK "/mha/query_dense/vars/0", NAME_USE, "blocks.0.attn.qkv.weight", 0, 3,
     LAYOUT_HEADS_IN},
    {&names_keras_hub, BLOCK "_7/mha/_key_dense/vars/1", NAME_USE, "blocks.7.attn.qkv.bias", 1, 3,
     LAYOUT_FLAT},
    {&names_keras_hub, BLOCK "_10/mha/output_dense/vars/0", NAME_USE, "blocks.10.attn.proj.weight",
     0, 0, LAYOUT_HEADS_OUT},
    {&names_keras_hub, "vi_t_patching_and_embedding/position_embedding/vars/0", NAME_USE,
     "pos_embed", 0, 0, LAYOUT_ROWS},
    {&names_keras_hub, "task/layers/dense/vars/0", NAME_USE, "head.weight", 0, 0, LAYOUT_MATRIX},
    {&names_keras_hub, "layers/dense_1/vars/0", NAME_REFUSE, "", 0, 0, LAYOUT_SAME},
    {&names_keras_hub, "optimizer/vars/12", NAME_DROP, "", 0, 0, LAYOUT_SAME},
    {&names_keras_hub, BLOCK "_0/mlp/dense_3/vars/0", NAME_UNKNOWN, "", 0, 0, LAYOUT_SAME},
    {&names_keras_hub_swin,
     "swin_transformer_stage_2/blocks/swin_transformer_block_5/attn/qkv/vars/0", NAME_USE,
     "layers.2.blocks.5.attn.qkv.weight", 0, 0, LAYOUT_MATRIX},
    {&names_keras_hub_swin, "swin_transformer_stage_3/blocks/swin_transformer_block/attn/vars/0",
     NAME_USE, "layers.3.blocks.0.attn.relative_position_bias_table", 0, 0, LAYOUT_SAME},
    {&names_keras_hub_swin, "swin_transformer_stage/downsample/reduction/vars/0", NAME_USE,
     "layers.1.downsample.reduction.weight", 0, 0, LAYOUT_MATRIX},
    {&names_keras_hub_swin, "swin_transformer_stage_2/downsample/norm/vars/1", NAME_USE,
     "layers.3.downsample.norm.bias", 0, 0, LAYOUT_SAME},
    {&names_vit_keras,
     "Transformer_encoderblock_3/MlpBlock_3/Transformer_encoderblock_3_Dense_1/bias", NAME_USE,
     "blocks.3.mlp.fc2.bias", 0, 0, LAYOUT_SAME},
    {&names_vit_keras, "pre_logits/kernel", NAME_DROP, "", 0, 0, LAYOUT_SAME},
    {&names_vit_keras_3, "transformer_block_5/att/combine_heads/vars/0", NAME_USE,
     "blocks.5.attn.proj.weight", 0, 0, LAYOUT_MATRIX},
    {&names_vit_keras_3, "transformer_block/mlpblock/layers/dense_1/vars/1", NAME_USE,
     "blocks.0.mlp.fc2.bias", 0, 0, LAYOUT_SAME},
};

static void test_names(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct name_result r;
        names_map(names[i].origin, names[i].name, &r);
        if (r.fate != names[i].fate || strcmp(r.target, names[i].target) != 0 ||
            r.part != names[i].part || r.parts != names[i].parts || r.layout != names[i].layout)
            fail_msg("%s: fate %d, '%s', part %d of %d, layout %d", names[i].name, r.fate, r.target,
                     r.part, r.parts, r.layout);
    }
}

/* ---- tensors that are not as they should be -------------------------------------------------- */

/* A tensor of the file is changed before it is planned: renamed, or of other dims. */
static const struct {
    const char *what, *file, *config, *tensor, *renamed;
    size_t dims[3];
    const char *says; /* NULL: planned, with so many classes */
    int classes;
} changes[] = {
    {"heads of two widths",
     "hub_classifier.weights.h5",
     NULL,
     "layers/vi_t_backbone/layers/" BLOCK "_1/mha/_key_dense/vars/0",
     NULL,
     {8, 4, 2},
     "has heads of 2 channels, others of 4",
     0},
    {"a kernel of another shape",
     "hub_classifier.weights.h5",
     NULL,
     "layers/vi_t_backbone/layers/" BLOCK "/mlp/dense_1/vars/0",
     NULL,
     {4, 32, 0},
     "is (32, 4), want (32, 8)",
     0},
    {"no query",
     "hub_classifier.weights.h5",
     NULL,
     "layers/vi_t_backbone/layers/" BLOCK "/mha/_query_dense/vars/0",
     "optimizer/vars/9",
     {0},
     "only 2 of the 3 parts of blocks.0.attn.qkv.weight",
     0},
    {"a layer of somebody else",
     "hub_classifier.weights.h5",
     NULL,
     "optimizer/vars/0",
     "layers/adapter/vars/0",
     {0},
     "layers/adapter/vars/0 is not known",
     0},
    {"a head of two layers",
     "hub_classifier.weights.h5",
     NULL,
     "optimizer/vars/0",
     "layers/dense_1/vars/0",
     {0},
     "a head of two layers",
     0},
    {"no class token",
     "hub_classifier.weights.h5",
     NULL,
     "layers/vi_t_backbone/layers/vi_t_patching_and_embedding/vars/0",
     "optimizer/vars/9",
     {0},
     "without a class token",
     0},
    {"pre_logits, whose head goes with it",
     "vit_keras.h5",
     HEADS,
     "head/bias",
     "pre_logits/bias",
     {0},
     "head.bias",
     0},
    {"a head behind pre_logits",
     "vit_keras.weights.h5",
     HEADS,
     "layers/dense/vars/1",
     "layers/dense_1/vars/0",
     {0},
     NULL,
     0},
};

static void change(struct checkpoint *c, size_t row) {
    for (size_t i = 0; i < c->count; i++) {
        struct tensor *t = &c->tensors[i];
        if (strcmp(t->name, changes[row].tensor) != 0) continue;
        for (int axis = 0; axis < 3 && changes[row].dims[axis]; axis++)
            t->dims[axis] = changes[row].dims[axis];
        if (!changes[row].renamed) return;
        mem_free(t->name);
        t->name = str_copy(changes[row].renamed);
        assert_int_equal(tensors_sort(c->tensors, c->count, "file"), ST_OK);
        return;
    }
    fail_msg("%s: no %s", changes[row].what, changes[row].tensor);
}

static void test_changed_tensors(void **state) {
    (void)state;
    static const char *const rules[] = {"crop_pct=1", "interpolation=bicubic", "mean=0.5",
                                        "std=0.5"};
    const struct convert_options options = {
        .preprocess = rules, .dtype = DT_F32, .preprocess_count = COUNT_OF(rules)};
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct checkpoint c;
        struct conversion got;
        if (open_keras(changes[i].file, changes[i].config, &c) != ST_OK)
            fail_msg("%s", fail_message());
        change(&c, i);
        if (convert_plan(&c, &options, &got) == ST_OK) {
            if (changes[i].says) fail_msg("%s: accepted", changes[i].what);
            assert_int_equal(got.classes, changes[i].classes);
            conversion_release(&got);
        } else if (!changes[i].says || !strstr(fail_message(), changes[i].says)) {
            fail_msg("%s: '%s', expected '%s'", changes[i].what, fail_message(),
                     changes[i].says ? changes[i].says : "a model");
        }
        checkpoint_release(&c);
    }
}

/* ---- hostile files --------------------------------------------------------------------------- */

static const struct {
    const char *file, *says;
} hostile[] = {
    {"bad_gzip.weights.h5", "/layers/a/vars/0: is stored in pieces, perhaps compressed"},
    {"bad_big_endian.weights.h5", "/layers/a/vars/0: is big-endian"},
    {"bad_circle.weights.h5", "groups deeper than 16, or in a circle"},
    {"bad_crowd.weights.h5", "too many objects for a model"},
    {"bad_soft.weights.h5", "/layers/a: is a soft link"},
    {"bad_external.weights.h5", "/layers/a: is an external link"},
    {"bad_twice.h5", "tensor vit/x is there twice"},
    {"bad_empty.h5", "holds no weights"},
    {"bad_other.h5", "an HDF5 file that Keras did not write"},
    {"../swin_tables.h5", "an HDF5 file that Keras did not write"},
    {"bad_no_weights.keras", "a Keras archive without a model.weights.h5"},
    {"bad_bomb.keras", "model.weights.h5 unpacks to 41943040 bytes, want at most"},
    {"../../../weights/models/vit-cifar10.h5", "is a vitrine model already"},
    {"bad_swin.h5", "a Swin of transformers' TensorFlow code"},
    {"bad_kecam.h5", "a ViT of keras-cv-attention-models"},
    {"bad_kerascv.h5", "KerasCV's ViT"},
    {"bad_text.weights.h5", "the first is layers/a/vars/0"},
    {"bad_preset", "bad_preset/image_converter.json: is not a JSON object"},
};

static void test_hostile_files(void **state) {
    (void)state;
    const struct convert_options options = {.dtype = DT_F32};
    for (size_t i = 0; i < COUNT_OF(hostile); i++) {
        struct checkpoint c;
        struct conversion got;
        enum status st = open_keras(hostile[i].file, NULL, &c);
        if (st == ST_OK) {
            st = convert_plan(&c, &options, &got);
            checkpoint_release(&c);
        }
        if (st == ST_OK) fail_msg("%s: accepted", hostile[i].file);
        if (!strstr(fail_message(), hostile[i].says))
            fail_msg("%s: '%s', expected '%s'", hostile[i].file, fail_message(), hostile[i].says);
    }
}

static void test_likely(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        char path[160];
        snprintf(path, sizeof path, KERAS "%s", same[i].file);
        assert_true(checkpoint_likely(path));
    }
    assert_false(checkpoint_likely("weights/models/vit-cifar10.h5"));
    assert_false(checkpoint_likely(KERAS "bad_other.h5"));
}

/* ---- .keras in memory ------------------------------------------------------------------------ */

static enum status parse_archive(const struct sample *s, struct checkpoint *out) {
    static char path[] = "file";
    *out = (struct checkpoint){
        .weights_path = path, .container = "Keras archive", .map = s->bytes, .map_size = s->size};
    return keras_parse_archive(out);
}

#define CONFIG(eps, pooling)                                                                       \
    "{\"class_name\": \"ViTImageClassifier\", \"config\": {\"pooling\": \"" pooling                \
    "\", \"backbone\": {\"config\": {\"layer_norm_epsilon\": " eps "}}}}"

static const struct {
    const char *config;
    double eps; /* 0: not said */
    const char *says;
} configs[] = {
    {"{}", 0, NULL},
    {"{\"config\": {\"layer_norm_epsilon\": 0.001}}", 0.001, NULL},
    {CONFIG("1e-6", "token"), 1e-6, NULL},
    {CONFIG("1e-6", "gap"), 0, "file: its head pools by 'gap'"},
    {CONFIG("2", "token"), 0, "layer_norm_epsilon of its config is no number"},
    {CONFIG("\"x\"", "token"), 0, "layer_norm_epsilon of its config is no number"},
    {"{\"class_name\": \"SwinTransformerImageClassifier\", \"config\": {\"pooling\": \"gap\"}}", 0,
     NULL},
    {"no JSON", 0, NULL},
    {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[", 0, NULL},
};

static void test_archive_config(void **state) {
    (void)state;
    uint8_t *bytes;
    size_t size;
    assert_int_equal(file_read(KERAS "preset/model.weights.h5", 1 << 20, &bytes, &size), ST_OK);
    for (size_t i = 0; i < 2 * COUNT_OF(configs); i++) {
        const size_t row = i / 2;
        const struct sample_member members[] = {
            {"config.json", (const uint8_t *)configs[row].config, strlen(configs[row].config)},
            {"model.weights.h5", bytes, size}};
        struct sample s = sample_pack(members, 2, i % 2);
        struct checkpoint c;
        if (parse_archive(&s, &c) == ST_OK) {
            if (configs[row].says) fail_msg("%s: accepted", configs[row].config);
            assert_true(c.norm_eps == configs[row].eps);
            assert_int_equal(c.count, 38);
        } else if (!configs[row].says || !strstr(fail_message(), configs[row].says)) {
            fail_msg("%s: '%s'", configs[row].config, fail_message());
        }
        container_release(&c);
        free(s.bytes);
    }
    mem_free(bytes);
}

/* ---- keras_hub's image converter ------------------------------------------------------------- */

/* As a .keras of a task has it. */
#define CONVERTER(fields)                                                                          \
    "{\"config\": {\"preprocessor\": {\"class_name\": \"P\", \"config\": {\"image_converter\": "   \
    "{\"class_name\": \"ViTImageConverter\", \"config\": {" fields "}}}}}}"
#define HALVES "\"scale\": 0.00784313725490196, \"offset\": -1.0"

/* A backbone of these arguments, in a model of its own or behind a classifier. */
#define BACKBONE(fields) "{\"class_name\": \"ViTBackbone\", \"config\": {" fields "}}"
#define CLASSIFIER(fields)                                                                         \
    "{\"class_name\": \"ViTImageClassifier\", \"config\": {\"backbone\": " BACKBONE(fields) "}}"

static const struct {
    const char *config, *want; /* want: the preprocessing, or what the sentence says */
    bool differs, refused;
} converters[] = {
    {CONVERTER("\"image_size\": [32, 24], \"interpolation\": \"bilinear\", " HALVES),
     "32x24, 1 center bilinear, mean 0.5,0.5,0.5, std 0.5,0.5,0.5", true, false},
    {CONVERTER("\"image_size\": 16, \"crop_to_aspect_ratio\": false, \"antialias\": true, " HALVES),
     "16x16, 1 squash bilinear, mean 0.5,0.5,0.5, std 0.5,0.5,0.5", false, false},
    {CONVERTER("\"image_size\": null, \"interpolation\": \"nearest\", \"scale\": null, "
               "\"offset\": null"),
     "8x8, 1 center nearest, mean 0,0,0, std 0.00392157,0.00392157,0.00392157", false, false},
    /* what the first ViTImageConverter did: scaled, then normalised */
    {CONVERTER("\"image_size\": [8, 8], \"interpolation\": \"lanczos3\", \"scale\": "
               "0.00392156862745098, \"norm_mean\": [0.1, 0.2, 0.3], \"norm_std\": 0.25"),
     "8x8, 1 center lanczos, mean 0.1,0.2,0.3, std 0.25,0.25,0.25", true, false},
    {BACKBONE("\"num_layers\": 3, \"num_heads\": 4, \"hidden_dim\": 16"),
     "config.json: num_layers says 3, the tensors 2; config.json: num_heads says 4, the tensors 2; "
     "config.json: hidden_dim says 16, the tensors 8",
     false, true},
    {BACKBONE("\"patch_size\": [8, 8], \"image_shape\": [16, 16, 3]"),
     "patch_size says 8x8, the tensors 4x4; config.json: image_shape says 16x16", false, true},
    {BACKBONE("\"use_class_token\": false"), "use_class_token is false, but", false, true},
    {CLASSIFIER("\"num_layers\": 3"), "num_layers says 3, the tensors 2", false, true},
    /* what the first presets said */
    {CONVERTER("\"height\": 8, \"width\": 16, \"scale\": 0.00392156862745098, \"mean\": [0.1, 0.2, "
               "0.3], \"variance\": [0.04, 0.25, 1]"),
     "8x16, 1 center bilinear, mean 0.1,0.2,0.3, std 0.2,0.5,1", true, false},
    {CONVERTER("\"pad_to_aspect_ratio\": true"), "pads pictures", false, true},
    {CONVERTER("\"interpolation\": \"lanczos5\""), "interpolation is 'lanczos5', want", false,
     true},
    {CONVERTER("\"interpolation\": 3"), "interpolation is no word", false, true},
    {CONVERTER("\"image_size\": [32]"), "image_size is no (height, width)", false, true},
    {CONVERTER("\"image_size\": [32, 1e9]"), "image_size is no (height, width)", false, true},
    {CONVERTER("\"image_size\": 0.5"), "image_size is no number from 1 to 16384", false, true},
    {CONVERTER("\"scale\": 0"), "scale is neither a number from 1e-06 to 1000 nor three", false,
     true},
    {CONVERTER("\"scale\": [1, 1]"), "scale is neither a number", false, true},
    {CONVERTER("\"offset\": [1, \"1\", 1]"), "offset is neither a number", false, true},
    {CONVERTER("\"variance\": 0, \"mean\": 0"), "variance is neither a number", false, true},
    {CONVERTER("\"scale\": 1e-6, \"offset\": 1000"), "mean -3.92157e+06 and std 3921.57", false,
     true},
};

static const char *describe_pictures(const struct conversion *c, bool *differs) {
    static char text[200];
    const struct preprocess_spec *p = &c->preprocess;
    *differs = false;
    for (size_t i = 0; i < c->info.notes; i++)
        *differs |= strcmp(c->info.note_names[i], "preprocess_differs") == 0;
    snprintf(text, sizeof text, "%dx%d, %g %s %s, mean %g,%g,%g, std %g,%g,%g", p->height, p->width,
             p->crop_pct, p->crop_mode, p->interpolation, p->mean[0], p->mean[1], p->mean[2],
             p->std[0], p->std[1], p->std[2]);
    return text;
}

static void test_converters(void **state) {
    (void)state;
    const struct convert_options options = {.dtype = DT_F32};
    uint8_t *bytes;
    size_t size;
    assert_int_equal(file_read(KERAS "hub_classifier.weights.h5", 1 << 20, &bytes, &size), ST_OK);
    for (size_t i = 0; i < COUNT_OF(converters); i++) {
        const char *want = converters[i].want, *said;
        const struct sample_member members[] = {
            {"config.json", (const uint8_t *)converters[i].config, strlen(converters[i].config)},
            {"model.weights.h5", bytes, size}};
        struct sample s = sample_pack(members, 2, 1);
        struct checkpoint c;
        struct conversion got;
        bool differs = false;
        assert_int_equal(parse_archive(&s, &c), ST_OK);
        const enum status st = convert_plan(&c, &options, &got);
        said = st == ST_OK ? describe_pictures(&got, &differs) : fail_message();
        if ((st != ST_OK) != converters[i].refused || !strstr(said, want) ||
            differs != converters[i].differs)
            fail_msg("%s: '%s', expected '%s'", converters[i].config, said, want);
        if (st == ST_OK) conversion_release(&got);
        container_release(&c);
        free(s.bytes);
    }
    mem_free(bytes);
}

/* A preset's folder has it in files of its own; --preprocess goes over it. */
static void test_preset_converter(void **state) {
    (void)state;
    static const char *const over[] = {"crop_mode=center"};
    static const char values[] = "bicubic, mean 0.485,0.456,0.406, std 0.229,0.224,0.225";
    for (size_t i = 0; i < 2; i++) {
        const struct convert_options options = {
            .dtype = DT_F32, .preprocess = over, .preprocess_count = i};
        struct checkpoint c;
        struct conversion got;
        bool differs;
        char want[120];
        snprintf(want, sizeof want, "8x8, 1 %s %s", i ? "center" : "squash", values);
        assert_int_equal(checkpoint_open(KERAS "preset", NULL, &c), ST_OK);
        assert_int_equal(convert_plan(&c, &options, &got), ST_OK);
        assert_string_equal(describe_pictures(&got, &differs), want);
        assert_true(differs);
        conversion_release(&got);
        checkpoint_release(&c);
    }
}

/* A preset whose task is a classifier, but whose head was not copied along. */
static void test_preset_without_head(void **state) {
    (void)state;
    const struct convert_options options = {.dtype = DT_F32};
    struct checkpoint c;
    struct conversion got;
    assert_int_equal(checkpoint_open(KERAS "preset", NULL, &c), ST_OK);
    for (size_t i = c.count; i-- > 0;) {
        if (strncmp(c.tensors[i].name, "task/", 5) != 0) continue;
        mem_free(c.tensors[i].name);
        memmove(&c.tensors[i], &c.tensors[i + 1], (--c.count - i) * sizeof *c.tensors);
    }
    assert_int_equal(convert_plan(&c, &options, &got), ST_SHAPE);
    assert_non_null(strstr(fail_message(), "are missing, which ViTImageClassifier has"));
    checkpoint_release(&c);
}

/* Cut in many places: a sentence. (Bytes that change are fuzz_h5's and test_npz's.) */
static void test_cut_files(void **state) {
    (void)state;
    static const char *const files[] = {"deflated.keras", "vit_keras.h5"};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        static char path[] = "file";
        char file[160];
        uint8_t *bytes;
        size_t size;
        snprintf(file, sizeof file, KERAS "%s", files[i]);
        assert_int_equal(file_read(file, 1 << 20, &bytes, &size), ST_OK);
        for (size_t cut = 0; cut < size; cut += 97) {
            uint8_t *copy = malloc(cut + 1); /* its end is where the sanitizer looks */
            assert_non_null(copy);
            memcpy(copy, bytes, cut);
            struct checkpoint c = {.weights_path = path, .map = copy, .map_size = cut};
            const enum status st = i ? keras_h5.parse(&c) : keras_parse_archive(&c);
            assert_int_not_equal(st, ST_OK);
            assert_true(strstr(fail_message(), "file: ") != NULL);
            container_release(&c);
            free(copy);
        }
        mem_free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_model),       cmocka_unit_test(test_same_swin),
        cmocka_unit_test(test_places),           cmocka_unit_test(test_names),
        cmocka_unit_test(test_changed_tensors),  cmocka_unit_test(test_hostile_files),
        cmocka_unit_test(test_likely),           cmocka_unit_test(test_archive_config),
        cmocka_unit_test(test_converters),       cmocka_unit_test(test_preset_without_head),
        cmocka_unit_test(test_preset_converter), cmocka_unit_test(test_cut_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
