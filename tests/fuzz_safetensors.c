/*
 * fuzz_safetensors: any bytes as a checkpoint. The reader must end in tensors inside the bytes or
 * in a sentence; a file that it takes is also planned and, whatever its names and shapes,
 * converted or refused.
 *
 * LLVMFuzzerTestOneInput is libFuzzer's entry. With -DFUZZ_MAIN, main() changes files of its
 * own, round after round, each from its own seed ($FUZZ_ROUNDS of them, 20000; $FUZZ_FIRST, 0).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_safetensors: %s: '%s'\n", what, fail_message());
    abort();
}

/* Every tensor lies in the file and is as large as its shape says. */
static void check_tensors(const struct checkpoint *c, const uint8_t *data, size_t size) {
    unsigned sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct tensor *t = &c->tensors[i];
        demand(t->data >= data && t->bytes <= size &&
                   t->data - data <= (ptrdiff_t)(size - t->bytes),
               "a tensor outside the file");
        if (t->dtype != DT_OTHER)
            demand(tensor_count(t) * dtype_size(t->dtype) == t->bytes, "a tensor of another size");
        demand(checkpoint_find(c, t->name) != NULL, "a tensor that is not found");
        if (t->bytes) sum += t->data[0] + t->data[t->bytes - 1];
    }
    (void)(volatile unsigned){sum};
}

static void plan(const struct checkpoint *c) {
    static const char *const rules[] = {"crop_pct=1", "mean=0.5", "std=0.5",
                                        "interpolation=bicubic", "input_size=6"};
    const struct convert_options options = {
        .dtype = DT_F16, .preprocess = rules, .preprocess_count = COUNT_OF(rules)};
    struct conversion conversion;
    if (convert_plan(c, &options, &conversion) == ST_OK) {
        demand(conversion.row_count == c->count, "a tensor without a row");
        conversion_release(&conversion);
    } else {
        demand(fail_message()[0], "a refusal without a sentence");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[] = "file";
    static char config[] = "{\"model_type\":\"dinov2\",\"num_attention_heads\":2,"
                           "\"layer_norm_eps\":1e-6}"; /* read for tensors of transformers' names */
    struct checkpoint c = {
        .path = path, .weights_path = path, .container = "safetensors", .config_json = config};
    if (safetensors_parse(data, size, path, &c.tensors, &c.count) != ST_OK) {
        demand(fail_message()[0], "a refusal without a sentence");
        return 0;
    }
    check_tensors(&c, data, size);
    mem_free(safetensors_metadata(data, size, "format"));
    plan(&c);
    for (size_t i = 0; i < c.count; i++)
        mem_free(c.tensors[i].name);
    mem_free(c.tensors);
    return 0;
}

#ifdef FUZZ_MAIN
#define LARGEST 65536

/* xorshift64* (Vigna 2016): the same rounds on every machine. */
static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

/* A file of `shapes` ("name:dims", a blank between), values 0; its size, 0 when it is too large. */
static size_t build(uint8_t *out, const char *shapes) {
    char header[16384];
    size_t used = (size_t)snprintf(header, sizeof header, "{\"__metadata__\":{\"format\":\"pt\"}");
    size_t offset = 0;
    for (const char *at = shapes; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " "), name = strcspn(at, ":"), count = 1;
        const char *dims = at + name + 1;
        for (const char *d = dims; d < at + length; d += strcspn(d, ", "), d += *d == ',') {
            long value = 0;
            char number[16];
            snprintf(number, sizeof number, "%.*s", (int)strcspn(d, ", "), d);
            if (parse_long(number, 0, 10000, &value)) count *= (size_t)value;
            if (count > LARGEST) return 0;
        }
        used += (size_t)snprintf(
            header + used, sizeof header - used,
            ",\"%.*s\":{\"dtype\":\"F32\",\"shape\":[%.*s],\"data_offsets\":[%zu,%zu]}", (int)name,
            at, (int)(length - name - 1), dims, offset, offset + 4 * count);
        offset += 4 * count;
        at += length;
    }
    used += (size_t)snprintf(header + used, sizeof header - used, "}");
    if (used >= sizeof header || 8 + used + offset > LARGEST) return 0;
    for (size_t i = 0; i < 8; i++)
        out[i] = (uint8_t)(used >> (8 * i));
    memcpy(out + 8, header, used);
    memset(out + 8 + used, 0, offset);
    return 8 + used + offset;
}

/* Words of the grammar and numbers at its edges, to be put over or between what is there. */
static const char *const words[] = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    "\"",
                                    ",",
                                    ":",
                                    "0",
                                    "[[[[",
                                    "null",
                                    "-1",
                                    "1e9",
                                    "\\u0000",
                                    "\\",
                                    "\xff",
                                    "\"a\":{",
                                    "65536",
                                    "BF16",
                                    "I64",
                                    "F4",
                                    "9007199254740992",
                                    "4294967296",
                                    "blocks.",
                                    ".weight",
                                    "norm",
                                    "data_offsets",
                                    "shape",
                                    "mask_token",
                                    "layers.",
                                    "attn.",
                                    "18446744073709551615"};

static size_t mutate(uint8_t *bytes, size_t size, uint64_t *state) {
    const size_t header = size > 1200 && next(state) % 4 ? 1200 : size; /* mostly there */
    const size_t at = (size_t)(next(state) % header);
    const char *word = words[next(state) % (sizeof words / sizeof words[0])];
    const size_t length = strlen(word);
    switch (next(state) % 6) {
    case 0: bytes[at] = (uint8_t)next(state); break;
    case 1: bytes[at] ^= (uint8_t)(1u << (next(state) % 8)); break;
    case 2: return at + 1;
    case 3:
        if (at + length <= size) memcpy(bytes + at, word, length);
        break;
    case 4: /* between: the header grows, and says so half of the time */
        if (size + length > LARGEST || at < 8) break;
        memmove(bytes + at + length, bytes + at, size - at);
        memcpy(bytes + at, word, length);
        if (next(state) % 2 && bytes[0] + length < 256) bytes[0] = (uint8_t)(bytes[0] + length);
        return size + length;
    default:
        if (at < 8) break;
        if (bytes[at] >= '0' && bytes[at] <= '9') bytes[at] = (uint8_t)('0' + next(state) % 10);
        break;
    }
    return size;
}

/* What both versions have of the one block of stage s: C channels, C3 = 3C, F hidden. */
#define SWIN_BLOCK(s, C, C3, F)                                                                    \
    "layers." s ".blocks.0.norm1.weight:" C " layers." s ".blocks.0.norm1.bias:" C " "             \
    "layers." s ".blocks.0.norm2.weight:" C " layers." s ".blocks.0.norm2.bias:" C " "             \
    "layers." s ".blocks.0.attn.qkv.weight:" C3 "," C " "                                          \
    "layers." s ".blocks.0.attn.proj.weight:" C "," C " "                                          \
    "layers." s ".blocks.0.attn.proj.bias:" C " "                                                  \
    "layers." s ".blocks.0.mlp.fc1.weight:" F "," C " layers." s ".blocks.0.mlp.fc1.bias:" F " "   \
    "layers." s ".blocks.0.mlp.fc2.weight:" C "," F " layers." s ".blocks.0.mlp.fc2.bias:" C " "

static const char *const files[] = {
    "a:1",
    "cls_token:1,1,8 pos_embed:1,5,8 patch_embed.proj.weight:8,3,2,2 patch_embed.proj.bias:8 "
    "blocks.0.norm1.weight:8 blocks.0.norm1.bias:8 blocks.0.attn.qkv.weight:24,8 "
    "blocks.0.attn.qkv.bias:24 "
    "blocks.0.attn.proj.weight:8,8 blocks.0.attn.proj.bias:8 blocks.0.norm2.weight:8 "
    "blocks.0.norm2.bias:8 "
    "blocks.0.mlp.fc1.weight:16,8 blocks.0.mlp.fc1.bias:16 blocks.0.mlp.fc2.weight:8,16 "
    "blocks.0.mlp.fc2.bias:8 norm.weight:8 norm.bias:8 blocks.0.attn.q_norm.weight:4 "
    "blocks.0.attn.k_norm.weight:4 head.weight:3,8 head.bias:3",
    "embeddings.cls_token:1,1,8 embeddings.position_embeddings:1,5,8 "
    "embeddings.register_tokens:1,2,8 "
    "embeddings.patch_embeddings.projection.weight:8,3,2,2 "
    "embeddings.patch_embeddings.projection.bias:8 "
    "encoder.layer.0.norm1.weight:8 encoder.layer.0.norm1.bias:8 encoder.layer.0.norm2.weight:8 "
    "encoder.layer.0.norm2.bias:8 encoder.layer.0.attention.attention.query.weight:8,8 "
    "encoder.layer.0.attention.attention.key.weight:8,8 "
    "encoder.layer.0.attention.attention.value.weight:8,8 "
    "encoder.layer.0.attention.output.dense.weight:8,8 "
    "encoder.layer.0.attention.output.dense.bias:8 "
    "encoder.layer.0.mlp.weights_in.weight:16,8 encoder.layer.0.mlp.weights_in.bias:16 "
    "encoder.layer.0.mlp.weights_out.weight:8,8 encoder.layer.0.mlp.weights_out.bias:8 "
    "layernorm.weight:8 layernorm.bias:8",
    /* Swin: maps 3x3 and 2x2, windows of 2. */
    "patch_embed.proj.weight:4,3,2,2 patch_embed.proj.bias:4 patch_embed.norm.weight:4 "
    "patch_embed.norm.bias:4 " SWIN_BLOCK(
        "0", "4", "12", "8") "layers.0.blocks.0.attn.qkv.bias:12 "
                             "layers.0.blocks.0.attn.relative_position_bias_table:9,2 "
                             "layers.1.downsample.norm.weight:16 layers.1.downsample.norm.bias:16 "
                             "layers.1.downsample.reduction.weight:8,16 " SWIN_BLOCK(
                                 "1", "8", "24",
                                 "8") "layers.1.blocks.0.attn.qkv.bias:24 "
                                      "layers.1.blocks.0.attn.relative_position_bias_table:9,2 "
                                      "norm.weight:8 norm.bias:8 head.fc.weight:3,8 head.fc.bias:3",
    /* Swin v2 in its own layout; coordinates are zeros until they are changed. */
    "patch_embed.proj.weight:4,3,2,2 patch_embed.proj.bias:4 patch_embed.norm.weight:4 "
    "patch_embed.norm.bias:4 " SWIN_BLOCK(
        "0", "4", "12", "8") "layers.0.blocks.0.attn.logit_scale:2,1,1 "
                             "layers.0.blocks.0.attn.cpb_mlp.0.weight:512,2 "
                             "layers.0.blocks.0.attn.cpb_mlp.0.bias:512 "
                             "layers.0.blocks.0.attn.cpb_mlp.2.weight:2,512 "
                             "layers.0.blocks.0.attn.relative_coords_table:1,1,1,2 "
                             "layers.0.downsample.norm.weight:8 layers.0.downsample.norm.bias:8 "
                             "layers.0.downsample.reduction.weight:8,16 " SWIN_BLOCK(
                                 "1", "8", "24",
                                 "8") "layers.1.blocks.0.attn.logit_scale:2,1,1 "
                                      "layers.1.blocks.0.attn.cpb_mlp.0.weight:512,2 "
                                      "layers.1.blocks.0.attn.cpb_mlp.0.bias:512 "
                                      "layers.1.blocks.0.attn.cpb_mlp.2.weight:2,512 "
                                      "layers.1.blocks.0.attn.relative_coords_table:1,1,1,2 "
                                      "norm.weight:8 norm.bias:8 head.weight:3,8 head.bias:3",
};
#define FILES (sizeof files / sizeof files[0])

/* Changes names and sizes before the file is built, so that it stays well-formed. */
static void mutate_shapes(char *text, uint64_t *state) {
    static const char letters[] = "0123456789.,_: wbng";
    size_t length = strlen(text), at = length ? (size_t)(next(state) % length) : 0;
    size_t word = strcspn(text + at, " ");
    if (length == 0) return; /* every tensor was left out */
    switch (next(state) % 4) {
    case 0: text[at] = letters[next(state) % (sizeof letters - 1)]; break;
    case 1: /* the tensor from here on is left out */
        if (word < length - at) memmove(text + at, text + at + word + 1, length - at - word);
        break;
    default: /* a digit, wherever the next one is */
        at += strcspn(text + at, "0123456789");
        if (text[at]) text[at] = letters[next(state) % 10];
        break;
    }
}

static long number(const char *variable, long otherwise) {
    const char *text = getenv(variable);
    long value = otherwise;
    if (text && !parse_long(text, 0, 1000000000, &value)) value = otherwise;
    return value;
}

int main(void) {
    static uint8_t bytes[LARGEST];
    const long first = number("FUZZ_FIRST", 0), rounds = number("FUZZ_ROUNDS", 20000);
    for (long round = first; round < first + rounds; round++) {
        uint64_t state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
        static char shapes[4096];
        snprintf(shapes, sizeof shapes, "%s", files[(size_t)round % FILES]);
        const bool inside =
            (size_t)round / FILES % 2; /* half of the rounds keep the header whole */
        for (uint64_t n = inside ? next(&state) % 4 : 0; n > 0; n--)
            mutate_shapes(shapes, &state);
        size_t size = build(bytes, shapes);
        for (uint64_t n = inside || !size ? 0 : next(&state) % 6; n > 0; n--)
            size = mutate(bytes, size, &state);
        uint8_t *copy = malloc(size ? size : 1); /* its end is where the sanitizer looks */
        if (!copy) return 1;
        memcpy(copy, bytes, size);
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
    }
    printf("%ld rounds\n", rounds);
    return 0;
}
#endif
