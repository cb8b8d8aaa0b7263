/*
 * convert_sample: tiny checkpoints (width 64, 2 blocks, 16x16 pixels in patches of 4; Swins are in
 * convert_swin_sample.h) for test_convert*.c: built in a folder of their own, changed tensor by
 * tensor, planned, described.
 */
#ifndef TESTS_CONVERT_SAMPLE_H
#define TESTS_CONVERT_SAMPLE_H

#include "weights/convert_plan.h" // before cmocka.h, which has a macro `fail`
#include "weights/h5.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_ENTRIES 600

/* ---- building a checkpoint ---------------------------------------------------------------- */

struct entry {
    char name[128];
    char shape[32]; /* "64,3,4,4" */
    const char *dtype;
    float special;   /* the value of element 1; 0 = like the others */
    int coordinates; /* a relative_coords_table normalised by this window; 0 = like the others */
};

struct file {
    struct entry entries[MAX_ENTRIES];
    size_t count;
    bool sparse; /* every value 0, and the file takes no room */
};

static char folder[] = "/tmp/vitrine-convert-XXXXXX";

static inline const char *path_of(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline void add(struct file *f, const char *shape, const char *fmt, ...) PRINTF_LIKE(3, 4);

static inline void add(struct file *f, const char *shape, const char *fmt, ...) {
    struct entry *e = &f->entries[f->count++];
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->name, sizeof e->name, fmt, args);
    va_end(args);
    snprintf(e->shape, sizeof e->shape, "%s", shape);
    e->dtype = "F32";
}

static inline void add_both(struct file *f, const char *weight, const char *bias, const char *fmt,
                            int n, const char *below) {
    add(f, weight, fmt, n, below, "weight");
    add(f, bias, fmt, n, below, "bias");
}

static inline void tiny_timm(struct file *f) {
    static const char *const block = "blocks.%d.%s.%s";
    memset(f, 0, sizeof *f);
    add(f, "1,1,64", "cls_token");
    add(f, "1,17,64", "pos_embed");
    add(f, "64,3,4,4", "patch_embed.proj.weight");
    add(f, "64", "patch_embed.proj.bias");
    for (int n = 0; n < 2; n++) {
        add_both(f, "64", "64", block, n, "norm1");
        add_both(f, "192,64", "192", block, n, "attn.qkv");
        add_both(f, "64,64", "64", block, n, "attn.proj");
        add_both(f, "64", "64", block, n, "norm2");
        add_both(f, "128,64", "128", block, n, "mlp.fc1");
        add_both(f, "64,128", "64", block, n, "mlp.fc2");
    }
    add(f, "64", "norm.weight");
    add(f, "64", "norm.bias");
    add(f, "3,64", "head.weight");
    add(f, "3", "head.bias");
}

/* timm's vit_tiny_patch16_224, which has the shapes of deit_tiny_patch16_224. */
static inline void vit_tiny(struct file *f) {
    static const char *const block = "blocks.%d.%s.%s";
    memset(f, 0, sizeof *f);
    f->sparse = true;
    add(f, "1,1,192", "cls_token");
    add(f, "1,197,192", "pos_embed");
    add(f, "192,3,16,16", "patch_embed.proj.weight");
    add(f, "192", "patch_embed.proj.bias");
    for (int n = 0; n < 12; n++) {
        add_both(f, "192", "192", block, n, "norm1");
        add_both(f, "576,192", "576", block, n, "attn.qkv");
        add_both(f, "192,192", "192", block, n, "attn.proj");
        add_both(f, "192", "192", block, n, "norm2");
        add_both(f, "768,192", "768", block, n, "mlp.fc1");
        add_both(f, "192,768", "192", block, n, "mlp.fc2");
    }
    add(f, "192", "norm.weight");
    add(f, "192", "norm.bias");
    add(f, "10,192", "head.weight");
    add(f, "10", "head.bias");
}

static inline void tiny_dinov2(struct file *f) {
    static const char *const layer = "encoder.layer.%d.%s.%s";
    memset(f, 0, sizeof *f);
    add(f, "1,1,64", "embeddings.cls_token");
    add(f, "1,64", "embeddings.mask_token");
    add(f, "1,17,64", "embeddings.position_embeddings");
    add(f, "64,3,4,4", "embeddings.patch_embeddings.projection.weight");
    add(f, "64", "embeddings.patch_embeddings.projection.bias");
    for (int n = 0; n < 2; n++) {
        add_both(f, "64", "64", layer, n, "norm1");
        add_both(f, "64,64", "64", layer, n, "attention.attention.query");
        add_both(f, "64,64", "64", layer, n, "attention.attention.key");
        add_both(f, "64,64", "64", layer, n, "attention.attention.value");
        add_both(f, "64,64", "64", layer, n, "attention.output.dense");
        add_both(f, "64", "64", layer, n, "norm2");
        add_both(f, "128,64", "128", layer, n, "mlp.fc1");
        add_both(f, "64,128", "64", layer, n, "mlp.fc2");
        add(f, "64", "encoder.layer.%d.layer_scale1.lambda1", n);
        add(f, "64", "encoder.layer.%d.layer_scale2.lambda1", n);
    }
    add(f, "64", "layernorm.weight");
    add(f, "64", "layernorm.bias");
}

/*
 * Changes, a blank between: "-NAME" leaves a tensor out, "+NAME:SHAPE" adds one, "NAME>NEW"
 * renames, "NAME:SHAPE" reshapes, "NAME!DTYPE", "NAME=VALUE" (of its element 1), "^PREFIX" goes
 * before every name.
 */
static inline void change(struct file *f, const char *edits) {
    for (const char *at = edits; *at; at += strspn(at, " ")) {
        char word[256], *mark;
        size_t length = strcspn(at, " "), i = 0;
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        at += length;
        mark = word + strcspn(word, ":>!=");
        char kind = *mark;
        if (*mark) *mark++ = '\0';
        if (word[0] == '+') {
            add(f, mark, "%s", word + 1);
            continue;
        }
        if (word[0] == '^') {
            for (i = 0; i < f->count; i++) {
                char name[128];
                snprintf(name, sizeof name, "%s", f->entries[i].name);
                snprintf(f->entries[i].name, sizeof name, "%.40s%.80s", word + 1, name);
            }
            continue;
        }
        const char *name = word[0] == '-' ? word + 1 : word;
        while (i < f->count && strcmp(f->entries[i].name, name) != 0)
            i++;
        if (i == f->count) print_message("no tensor %s\n", name);
        assert_true(i < f->count);
        struct entry *e = &f->entries[i];
        if (word[0] == '-') *e = f->entries[--f->count];
        if (kind == ':') snprintf(e->shape, sizeof e->shape, "%s", mark);
        if (kind == '>') snprintf(e->name, sizeof e->name, "%s", mark);
        if (kind == '!')
            e->dtype = strcmp(mark, "F16") == 0 ? "F16" : strcmp(mark, "I32") == 0 ? "I32" : "F64";
        double value = 0;
        if (kind == '=') {
            if (strcmp(mark, "nan") == 0)
                e->special = NAN;
            else if (strcmp(mark, "inf") == 0)
                e->special = INFINITY;
            else if (parse_double(mark, -1e38, 1e38, &value))
                e->special = (float)value;
        }
    }
}

/* Dimension `axis` of the shape; 0 beyond it. */
static inline size_t dimension(const char *shape, int axis) {
    const char *at = shape;
    char number[16];
    long value = 0;
    for (int i = 0; i < axis && *at; i++) {
        at += strcspn(at, ",");
        at += *at == ',';
    }
    snprintf(number, sizeof number, "%.*s", (int)strcspn(at, ","), at);
    return parse_long(number, 0, 100000, &value) ? (size_t)value : 0;
}

static inline size_t elements(const char *shape) {
    size_t count = 1;
    for (const char *at = shape; *at; at += *at == ',') {
        char number[16];
        long value = 0;
        snprintf(number, sizeof number, "%.*s", (int)strcspn(at, ","), at);
        assert_true(parse_long(number, 0, 100000, &value));
        count *= (size_t)value;
        at += strcspn(at, ",");
    }
    return count;
}

static inline size_t bytes_of(const struct entry *e) {
    return elements(e->shape) * (strcmp(e->dtype, "F16") == 0   ? 2
                                 : strcmp(e->dtype, "F64") == 0 ? 8
                                                                : 4);
}

/*
 * Element i of the tensor called `name`: small, different everywhere, the same for the same name.
 */
static inline float value_at(const char *name, size_t i) {
    uint32_t h = 2166136261u;
    for (const char *p = name; *p; p++)
        h = (h ^ (uint8_t)*p) * 16777619u;
    h = (h ^ (uint32_t)i) * 2654435761u;
    return (float)(h >> 16) / 65536.0f - 0.5f;
}

/* Element k of a relative_coords_table: (1, 2Mh-1, 2Mw-1, 2) of Swin v2, section 3.3. */
static inline float coordinate_at(const struct entry *e, size_t k) {
    const size_t h = dimension(e->shape, 1), w = dimension(e->shape, 2);
    const size_t place = k % 2 ? k / 2 % w : k / 2 / w, side = k % 2 ? w : h;
    const double offset = (double)place - (double)(side / 2);
    const double t = 8 * offset / (e->coordinates > 1 ? e->coordinates - 1 : 1);
    return (float)copysign(log2(fabs(t) + 1) / 3, t);
}

static inline void write_text(const char *name, const char *text) {
    FILE *file;
    unlink(path_of(name));
    if (!text) return;
    file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void write_values(FILE *file, const struct entry *e) {
    const size_t count = elements(e->shape), size = count ? bytes_of(e) / count : 0;
    for (size_t k = 0; k < count; k++) {
        float value = e->coordinates ? coordinate_at(e, k) : value_at(e->name, k);
        if (k == 1 && e->special != 0) value = e->special;
        double wide = value;
        uint16_t half;
        f32_to_f16(&value, 1, &half);
        const void *data = size == 2 ? (void *)&half : size == 8 ? (void *)&wide : (void *)&value;
        assert_int_equal(fwrite(data, 1, size, file), size);
    }
}

static inline void write_file(const struct file *f) {
    static char header[131072];
    size_t used = 1, offset = 0;
    FILE *file = fopen(path_of("model.safetensors"), "wb");
    assert_non_null(file);
    header[0] = '{';
    for (size_t i = 0; i < f->count; i++) {
        const struct entry *e = &f->entries[i];
        used += (size_t)snprintf(
            header + used, sizeof header - used,
            "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
            e->name, e->dtype, e->shape, offset, offset + bytes_of(e));
        offset += bytes_of(e);
    }
    used += (size_t)snprintf(header + used, sizeof header - used, "}");
    assert_true(used < sizeof header);
    for (int i = 0; i < 8; i++)
        fputc((int)(((uint64_t)used >> (8 * i)) & 255), file);
    assert_int_equal(fwrite(header, 1, used, file), used);
    if (f->sparse) {
        assert_int_equal(fflush(file), 0);
        assert_int_equal(ftruncate(fileno(file), (off_t)(8 + used + offset)), 0);
    }
    for (size_t i = 0, at = 8 + used; i < f->count; at += bytes_of(&f->entries[i++])) {
        if (f->sparse && !f->entries[i].coordinates) continue;
        assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
        write_values(file, &f->entries[i]);
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- what comes out ----------------------------------------------------------------------- */

static inline size_t describe_vit(const struct vit_config *v, char *text, size_t size) {
    return (size_t)snprintf(
        text, size,
        "D%d L%d H%d F%d K%d img%dx%d p%dx%d grid%dx%d+%d %s%s%sr%d %s%s%s%s%s%s%s %s %g %s",
        v->dim, v->depth, v->heads, v->hidden, v->classes, v->image_h, v->image_w, v->patch_h,
        v->patch_w, v->pos_grid_h, v->pos_grid_w, v->pos_prefix, v->class_token ? "cls " : "",
        v->dist_token ? "dist " : "",
        v->positions == POSITIONS_NONE              ? "nopos "
        : v->positions == POSITIONS_RELATIVE        ? "rel "
        : v->positions == POSITIONS_RELATIVE_SHARED ? "shared "
                                                    : "",
        v->registers, vit_pool_name(v->pool), v->norm ? " norm" : "", v->fc_norm ? " fc_norm" : "",
        v->layer_scale ? " ls" : "", v->qkv_bias ? "" : " noqkvb", v->pre_norm ? " pre" : "",
        v->swiglu ? " swiglu" : "", vit_activation_name(v->activation), v->norm_eps,
        resample_name(v->pos_resample));
}

static inline size_t describe_swin(const struct swin_config *c, char *text, size_t size) {
    const struct {
        const char *word;
        const int *values;
    } lists[] = {{" L", c->depths},
                 {" H", c->heads},
                 {" F", c->hidden},
                 {" M", c->window},
                 {" P", c->pretrained_window}};
    size_t used = (size_t)snprintf(text, size, "v%d C%d", c->version, c->dim);
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        if (i == 4 && c->version == 1) continue;
        for (int s = 0; s < c->stages; s++)
            used += (size_t)snprintf(text + used, size - used, "%s%d", s ? "," : lists[i].word,
                                     lists[i].values[s]);
    }
    used += (size_t)snprintf(text + used, size - used, " K%d", c->classes);
    if (c->mask_value != -100)
        used += (size_t)snprintf(text + used, size - used, " mask%g", c->mask_value);
    used += (size_t)snprintf(text + used, size - used, " img%dx%d p%dx%d%s %s %g", c->image_h,
                             c->image_w, c->patch_h, c->patch_w, c->qkv_bias ? "" : " noqkvb",
                             vit_activation_name(c->activation), c->norm_eps);
    return used;
}

static inline void describe(const struct conversion *c, char *text, size_t size) {
    const struct preprocess_spec *p = &c->preprocess;
    const bool swin = strcmp(c->info.family, "swin") == 0;
    size_t used = swin ? describe_swin(&c->swin, text, size) : describe_vit(&c->vit, text, size);
    assert_int_equal(c->classes, swin ? c->swin.classes : c->vit.classes);
    assert_int_equal(c->image_h, swin ? c->swin.image_h : c->vit.image_h);
    assert_int_equal(c->image_w, swin ? c->swin.image_w : c->vit.image_w);
    snprintf(text + used, size - used, " | %dx%d %g %s %s %s %g %g", p->height, p->width,
             p->crop_pct, p->crop_mode, p->interpolation, p->crop_rounding, p->mean[0], p->std[2]);
}

static const char *const given[] = {"crop_pct=0.9", "interpolation=bilinear", "mean=0.1,0.2,0.3",
                                    "std=0.4"};

struct row {
    const char *what;
    void (*base)(struct file *);
    const char *edits, *config, *processor;
    const char *arch, *activation;
    bool own; /* without the --preprocess of `given` */
    enum dtype dtype;
    const char *extra; /* one more --preprocess */
    const char *want;  /* the description, or with a status the part of the sentence */
    enum status status;
};

/* The counts that are reported are those of what will be written. */
static inline void check_counts(const struct conversion *c, const char *what) {
    size_t parameters = 0;
    for (size_t i = 0; i < c->output_count; i++) {
        size_t count = 1;
        for (int d = 0; d < c->outputs[i].rank; d++)
            count *= c->outputs[i].dims[d];
        parameters += count;
    }
    if (c->tensors != c->output_count || c->parameters != parameters)
        fail_msg("%s: counts %zu parameters in %zu tensors, writes %zu in %zu", what,
                 (size_t)c->parameters, c->tensors, parameters, c->output_count);
}

static inline enum status plan_row(const struct row *row, struct checkpoint *checkpoint,
                                   struct conversion *out) {
    static struct file f;
    const char *list[COUNT_OF(given) + 1];
    struct convert_options options = {
        .arch = row->arch, .activation = row->activation, .dtype = DT_F32};
    size_t count = 0;
    row->base(&f);
    change(&f, row->edits ? row->edits : "");
    write_file(&f);
    write_text("config.json", row->config);
    write_text("preprocessor_config.json", row->processor);
    for (size_t i = 0; !row->own && i < COUNT_OF(given); i++)
        list[count++] = given[i];
    if (row->extra) list[count++] = row->extra;
    options.preprocess = list;
    options.preprocess_count = count;
    if (row->dtype) options.dtype = row->dtype;
    memset(out, 0, sizeof *out);
    TRY(checkpoint_open(folder, NULL, checkpoint));
    TRY(convert_plan(checkpoint, &options, out));
    check_counts(out, row->what ? row->what : "a row");
    return ST_OK;
}

/* Each row of a test's table: planned, and described as it says. */
static inline void check_planned(const struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct checkpoint checkpoint;
        struct conversion c;
        char text[512];
        enum status st = plan_row(&rows[i], &checkpoint, &c);
        if (st != ST_OK) print_message("%s: %s\n", rows[i].what, fail_message());
        assert_int_equal(st, ST_OK);
        describe(&c, text, sizeof text);
        if (strcmp(text, rows[i].want) != 0)
            print_message("%s:\n  %s\n  %s\n", rows[i].what, text, rows[i].want);
        assert_string_equal(text, rows[i].want);
        assert_int_equal(c.row_count, checkpoint.count);
        conversion_release(&c);
        checkpoint_release(&checkpoint);
    }
}

/* Each row refused, with its status and its sentence, and nothing planned. */
static inline void check_refused(const struct row *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct checkpoint checkpoint;
        struct conversion c;
        enum status st = plan_row(&rows[i], &checkpoint, &c);
        bool said = st == rows[i].status && strstr(fail_message(), rows[i].want);
        if (!said)
            print_message("%s: %s, \"%s\"\n", rows[i].what, status_name(st),
                          st ? fail_message() : "");
        assert_true(said);
        assert_int_equal(c.row_count, 0);
        conversion_release(&c);
        checkpoint_release(&checkpoint);
    }
}

#define TIMM(more) "{\"architecture\":\"vit_tiny_patch16_224\"" more "}"
#define CFG(text)  TIMM(",\"pretrained_cfg\":{" text "}")
#define DINO(more)                                                                                 \
    "{\"model_type\":\"dinov2\",\"num_attention_heads\":4,\"layer_norm_eps\":1e-6,"                \
    "\"hidden_act\":\"gelu\"" more "}"
#define PROC(more)                                                                                 \
    "{\"size\":{\"shortest_edge\":20},\"do_center_crop\":true,"                                    \
    "\"crop_size\":{\"height\":16,\"width\":16},\"resample\":3,"                                   \
    "\"image_mean\":[0.1,0.2,0.3],\"image_std\":[0.4,0.5,0.6]" more "}"
static inline int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state) {
    static const char *const names[] = {"model.safetensors", "config.json",
                                        "preprocessor_config.json", "out.h5"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unlink(path_of(names[i]));
    return rmdir(folder); /* fails when a part was left behind */
}

#endif
