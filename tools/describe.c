/* describe: see describe.h. Sizes are height x width. */
#include "tools/describe.h"

#include <stdio.h>
#include <string.h>

#include "swin/swin.h"
#include "vit/vit.h"

/* ---- the table of parts ---------------------------------------------------------------------- */

/* A row; 0 = does not apply. `map.window_h` 0: attention over the whole map. */
struct part {
    char name[24];
    struct swin_map map;
    int tokens, heads, channels, blocks;
    size_t parameters;
    double macs;
};

enum { MOST_PARTS = SWIN_MAX_STAGES + 2 };

/* The part that tensor `name` belongs to: 0 the embedding, 1 and up the stages, then the head. */
static int part_of(const char *name, int stages) {
    static const char *const heads[] = {"norm.", "fc_norm.", "attn_pool.", "head.", "head_dist."};
    if (strncmp(name, "blocks.", 7) == 0) return 1;
    if (strncmp(name, "layers.", 7) == 0 && name[7] >= '0' && name[7] < '0' + stages)
        return name[7] - '0' + 1;
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        if (strncmp(name, heads[i], strlen(heads[i])) == 0) return stages + 1;
    return 0;
}

static enum status count_parameters(struct h5 *file, struct part *parts, int stages) {
    struct h5_dataset *datasets = NULL;
    size_t count = 0;
    TRY(h5_list(file, "/parameters", &datasets, &count));
    for (size_t i = 0; i < count; i++) {
        size_t product = 1;
        for (int d = 0; d < datasets[i].rank; d++)
            product *= datasets[i].dims[d];
        parts[part_of(datasets[i].name, stages)].parameters += product;
    }
    h5_free_datasets(datasets, count);
    return ST_OK;
}

/* A cell of the table: a number, or - where there is none. */
static void print_number(int width, int number) {
    if (number)
        printf(" %*d", width, number);
    else
        printf(" %*s", width, "-");
}

static void print_size(int width, const char *before, int h, int w) {
    char text[40] = "-";
    if (h || w) snprintf(text, sizeof text, "%s%dx%d", before, h, w);
    printf(" %*s", width, text);
}

/* Blocks of a stage shift in turn by 0 and by `shift`. */
static void print_part(const struct part *part) {
    const bool shifted = part->blocks > 1;
    printf("%-15s", part->name);
    print_size(9, "", part->map.h, part->map.w);
    print_number(7, part->tokens);
    print_size(7, "", part->map.window_h, part->map.window_w);
    print_size(7, "0,", shifted ? part->map.shift_h : 0, shifted ? part->map.shift_w : 0);
    print_number(5, part->heads);
    print_number(8, part->channels);
    print_number(6, part->blocks);
    printf(" %11zu %11.2f M\n", part->parameters, part->macs * 1e-6);
}

/* The embedding, `stages` parts of blocks, the head. */
static enum status print_parts(struct h5 *file, struct part *parts, int stages) {
    double macs = 0;
    TRY(count_parameters(file, parts, stages));
    printf("\n%-15s %9s %7s %7s %7s %5s %8s %6s %11s %13s\n", "part", "map", "tokens", "window",
           "shift", "heads", "channels", "blocks", "parameters", "multiply-adds");
    for (int i = 0; i < stages + 2; i++) {
        print_part(&parts[i]);
        macs += parts[i].macs;
    }
    printf("multiply-adds  %.4g G an image\n", macs * 1e-9);
    return ST_OK;
}

static void print_classes(int classes, const char *more) {
    if (classes)
        printf("classes        %d%s\n", classes, more);
    else
        printf("classes        none: serves features, not classify\n");
}

/* ---- ViT ------------------------------------------------------------------------------------- */

static void print_vit(const struct vit_config *c) {
    int grid_h = c->image_h / c->patch_h, grid_w = c->image_w / c->patch_w;
    printf("\nimage          %d x %d (height x width), patches of %d x %d: %d x %d = %d\n",
           c->image_h, c->image_w, c->patch_h, c->patch_w, grid_h, grid_w, grid_h * grid_w);
    printf("tokens         %d:%s%s", vit_config_prefix(c) + grid_h * grid_w,
           c->class_token ? " class," : "", c->dist_token ? " distillation," : "");
    if (c->registers) printf(" %d registers,", c->registers);
    printf(" %d patches\n", grid_h * grid_w);
    if (vit_config_relative(c))
        printf("positions      relative to each other on a %d x %d grid, %s, resampled by %s\n",
               c->pos_grid_h, c->pos_grid_w,
               c->positions == POSITIONS_RELATIVE ? "a bias table a block"
                                                  : "one bias table for all blocks",
               resample_name(c->pos_resample));
    else if (c->positions == POSITIONS_LEARNED)
        printf("positions      learned on a %d x %d grid%s, resampled by %s\n", c->pos_grid_h,
               c->pos_grid_w, c->pos_prefix ? " and the prefix tokens" : "",
               resample_name(c->pos_resample));
    else
        printf("positions      none\n");
    printf("width          %d, %d blocks, %d heads of %d, hidden %d\n", c->dim, c->depth, c->heads,
           c->dim / c->heads, c->hidden);
    printf("blocks         %s, LayerNorm eps %g%s%s%s, query/key norm: %s\n",
           c->swiglu ? "SwiGLU" : vit_activation_name(c->activation), c->norm_eps,
           c->qkv_bias ? "" : ", qkv without bias", c->layer_scale ? ", LayerScale" : "",
           c->pre_norm ? ", norm before the first block" : "", vit_qk_norm_name(c->qk_norm));
    printf("pool           %s%s%s\n", vit_pool_name(c->pool), c->norm ? ", after norm" : "",
           c->fc_norm ? ", before fc_norm" : "");
    print_classes(c->classes, c->dist_token ? " (two heads, averaged)" : "");
}

static enum status describe_vit(struct h5 *file, int *classes) {
    struct vit_config c;
    TRY(vit_config_read(file, &c));
    const struct vit_macs macs = vit_macs_parts(&c);
    const struct swin_map map = {.h = c.image_h / c.patch_h, .w = c.image_w / c.patch_w};
    struct part parts[3] = {{.name = "patch embedding",
                             .map = map,
                             .tokens = map.h * map.w,
                             .channels = c.dim,
                             .macs = macs.embedding},
                            {.name = "blocks",
                             .map = map,
                             .tokens = vit_config_prefix(&c) + map.h * map.w,
                             .heads = c.heads,
                             .channels = c.dim,
                             .blocks = c.depth,
                             .macs = macs.blocks},
                            {.name = "head", .channels = c.dim, .macs = macs.head}};
    *classes = c.classes;
    print_vit(&c);
    return print_parts(file, parts, 1);
}

/* ---- Swin ------------------------------------------------------------------------------------ */

static void print_swin(const struct swin_config *c) {
    printf("\nimage          %d x %d (height x width), patches of %d x %d: %d x %d = %d\n",
           c->image_h, c->image_w, c->patch_h, c->patch_w, c->image_h / c->patch_h,
           c->image_w / c->patch_w, c->image_h / c->patch_h * (c->image_w / c->patch_w));
    printf("version        %d: %s\n", c->version,
           c->version == 1 ? "norms before, scaled dot products, bias tables"
                           : "norms behind, cosine scores, a bias MLP");
    printf("blocks         %s, LayerNorm eps %g%s\n", vit_activation_name(c->activation),
           c->norm_eps, c->qkv_bias ? "" : ", qkv without bias");
    printf("hidden        ");
    for (int s = 0; s < c->stages; s++)
        printf(" %d", c->hidden[s]);
    printf("\n");
    if (c->version == 2) {
        printf("trained with   windows of");
        for (int s = 0; s < c->stages; s++) {
            struct swin_map map;
            swin_config_map(c, s, c->image_h, c->image_w, &map);
            if (c->pretrained_window[s] || map.window_h == map.window_w)
                printf(" %d", c->pretrained_window[s] ? c->pretrained_window[s] : map.window_h);
            else
                printf(" %dx%d", map.window_h, map.window_w);
        }
        printf("\n");
    }
    printf("pool           avg, after norm\n");
    print_classes(c->classes, "");
}

static enum status describe_swin(struct h5 *file, int *classes) {
    struct swin_config c;
    struct part parts[MOST_PARTS] = {{.name = "patch embedding"}}, *head;
    TRY(swin_config_read(file, &c));
    for (int s = 0; s < c.stages; s++) {
        struct part *part = &parts[s + 1];
        snprintf(part->name, sizeof part->name, "stage %d", s);
        swin_config_map(&c, s, c.image_h, c.image_w, &part->map);
        part->tokens = part->map.h * part->map.w;
        part->heads = c.heads[s];
        part->channels = c.dim << s;
        part->blocks = c.depths[s];
    }
    parts[0].map.h = parts[1].map.h;
    parts[0].map.w = parts[1].map.w;
    parts[0].tokens = parts[1].tokens;
    parts[0].channels = c.dim;
    head = &parts[c.stages + 1];
    snprintf(head->name, sizeof head->name, "head");
    head->channels = c.dim << (c.stages - 1);
    for (int i = 0; i < c.stages + 2; i++)
        parts[i].macs = swin_stage_macs(&c, i - 1, c.image_h, c.image_w);
    *classes = c.classes;
    print_swin(&c);
    return print_parts(file, parts, c.stages);
}

enum status describe_config(struct h5 *file, const char *family, int *classes) {
    if (strcmp(family, "swin") == 0) return describe_swin(file, classes);
    if (strcmp(family, "vit") == 0) return describe_vit(file, classes);
    return fail(ST_FORMAT, "%s: family is '%s', this version knows 'vit' and 'swin'", h5_name(file),
                family);
}
