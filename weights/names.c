/* names: see names.h. Matching; the tables are in names_<origin>.c. */
#include "weights/names.h"

#include <stdio.h>
#include <string.h>

#define MAX_INDICES 2

/* Other layouts, told by a tensor (or, ending in '.' or '/', by a beginning). */
static const struct {
    const char *name, *what;
} foreign[] = {
    {"visual.conv1.weight",
     "the tensors are named as OpenAI CLIP names them, which is not converted yet"},
    {"stages.0.blocks.0.attn.meta_mlp.fc1.weight",
     "this is a Swin v2 of another kind (timm's swinv2_cr), which vitrine does not run"},
    {"vision_model.", "this is a CLIP or SigLIP of transformers, which is not converted yet"},
    {"swin/", "this is a Swin of transformers' TensorFlow code, which is not converted"},
    {"patching_and_embedding/",
     "this is KerasCV's ViT, whose layers are told by their order alone, which is not converted"},
    {"layers/patching_and_embedding/",
     "this is KerasCV's ViT, whose layers are told by their order alone, which is not converted"},
    {"positional_embedding/", "this is a ViT of keras-cv-attention-models, which is not converted"},
    {"vi_t_backbone/vit_encoder/",
     "this is keras_hub's ViT as one legacy file (model.save of .h5), which is not converted: save "
     "it as .keras, .weights.h5 or a preset"},
    {"swin_transformer_backbone/",
     "this is keras_hub's Swin as one legacy file (model.save of .h5), which is not converted: "
     "save it as .keras, .weights.h5 or a preset"},
    {"layers/dei_t_embeddings/", "this is keras_hub's DeiT, which is not converted"},
    {"layers/dei_t_backbone/", "this is keras_hub's DeiT, which is not converted"},
    {"layers/dinov2_embedding/", "this is keras_hub's DINOv2, which is not converted"},
    {"layers/dinov2_backbone/", "this is keras_hub's DINOv2, which is not converted"},
    {"layers/dinov3_embedding/", "this is keras_hub's DINOv3, which is not converted"},
    {"layers/dinov3_backbone/", "this is keras_hub's DINOv3, which is not converted"},
    {"blocks.0.attns.0.norm.weight",
     "its blocks run attentions side by side, which vitrine's ViT does not"},
    {"blocks.0.in_proj.weight",
     "its blocks run attention and MLP side by side, which vitrine's ViT does not"},
    {"blocks.0.attn1.qkv.weight",
     "its blocks run attentions side by side, which vitrine's ViT does not"},
};

const char *names_foreign(const char *name) {
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        size_t length = strlen(foreign[i].name);
        bool beginning = strchr("./", foreign[i].name[length - 1]) != NULL;
        if (strncmp(name, foreign[i].name, length) == 0 && (beginning || !name[length]))
            return foreign[i].what;
    }
    return NULL;
}

/* Digits of a block index without leading zero, at most 4; 0 when there is none. */
static size_t index_length(const char *text) {
    size_t length = strspn(text, "0123456789");
    return length > 4 || (length > 1 && text[0] == '0') ? 0 : length;
}

/* The indices of a name, in their order, as they stand in it. */
struct indices {
    const char *text[MAX_INDICES];
    size_t length[MAX_INDICES];
    int count;
};

static bool fits(const char *pattern, const char *name, struct indices *found) {
    found->count = 0;
    while (*pattern) {
        if (pattern[0] == '*' && pattern[1] == '*') return *name != '\0';
        if (*pattern == '*') {
            const size_t length = index_length(name);
            if (length == 0 || found->count == MAX_INDICES) return false;
            found->text[found->count] = name;
            found->length[found->count++] = length;
            name += length;
            pattern++;
        } else if (*pattern++ != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

/* target with the indices in the places of '*', one higher of '+', halved of '/'. */
static void fill_target(const char *target, const struct indices *indices, char *out) {
    size_t used = 0;
    int next = 0;
    for (; *target && used < NAME_MAX_LENGTH - 1; target++) {
        char digits[24];
        long value = 0;
        if (next == indices->count || !strchr("*+/", *target)) {
            out[used++] = *target;
            continue;
        }
        snprintf(digits, sizeof digits, "%.*s", (int)indices->length[next], indices->text[next]);
        if (*target != '*' && parse_long(digits, 0, 9999, &value))
            snprintf(digits, sizeof digits, "%ld", *target == '+' ? value + 1 : value / 2);
        used += (size_t)snprintf(out + used, NAME_MAX_LENGTH - used, "%s", digits);
        next++;
    }
    if (used > NAME_MAX_LENGTH - 1) used = NAME_MAX_LENGTH - 1; /* snprintf cut it there */
    out[used] = '\0';
}

/* "blocks.1.7.x" -> 2 bytes to be left out after "blocks."; 0 when the name has no chunk. */
static size_t chunk_length(const char *block, const char *name) {
    size_t skip = strlen(block), chunk;
    if (strncmp(name, block, skip) != 0) return 0;
    chunk = index_length(name + skip);
    if (chunk == 0 || name[skip + chunk] != '.') return 0;
    size_t second = index_length(name + skip + chunk + 1);
    return second && name[skip + chunk + 1 + second] == '.' ? chunk + 1 : 0;
}

void names_map(const struct name_origin *origin, const char *name, struct name_result *out) {
    char whole[2 * NAME_MAX_LENGTH];
    size_t chunk = origin->block ? chunk_length(origin->block, name) : 0;
    memset(out, 0, sizeof *out);
    if (strlen(name) >= NAME_MAX_LENGTH) return;
    if (chunk) {
        snprintf(whole, sizeof whole, "%s%s", origin->block, name + strlen(origin->block) + chunk);
        name = whole;
    }
    for (size_t i = 0; i < origin->count; i++) {
        const struct name_row *row = &origin->rows[i];
        struct indices indices;
        if (!fits(row->source, name, &indices)) continue;
        out->fate = row->fate;
        out->part = row->part;
        out->parts = row->parts;
        out->reason = row->reason;
        out->layout = row->layout;
        if (row->target) fill_target(row->target, &indices, out->target);
        return;
    }
}

bool names_recognise(const struct name_origin *origin, const char *name, size_t *prefix) {
    size_t length = strlen(name), marker = strlen(origin->marker), at = 0;
    if (length < marker || strcmp(name + length - marker, origin->marker) != 0) return false;
    while (at < length - marker) {
        size_t step = 0;
        for (size_t i = 0; origin->prefixes[i] && !step; i++) {
            size_t bytes = strlen(origin->prefixes[i]);
            if (strncmp(name + at, origin->prefixes[i], bytes) == 0) step = bytes;
        }
        if (step == 0 || at + step > length - marker) return false;
        at += step;
    }
    *prefix = at;
    return true;
}
