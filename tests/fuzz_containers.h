/*
 * fuzz_containers: what fuzz_npz.c and fuzz_onnx.c share: a checkpoint over bytes in memory, read,
 * planned and its numbers put into order; random changes; the loop over rounds.
 */
#ifndef TESTS_FUZZ_CONTAINERS_H
#define TESTS_FUZZ_CONTAINERS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/convert.h"
#include "weights/convert_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void demand(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz: %s: '%s'\n", what, fail_message());
    abort();
}

/* Reads every number of every output in canonical order. */
static inline void read_outputs(const struct conversion *c) {
    float numbers[64];
    for (size_t i = 0; i < c->output_count; i++) {
        const struct conversion_tensor *t = &c->outputs[i];
        for (int p = 0; p < t->parts; p++) {
            const size_t count = tensor_count(t->part[p]);
            for (size_t at = 0; at < count; at += COUNT_OF(numbers)) {
                const size_t n = count - at < COUNT_OF(numbers) ? count - at : COUNT_OF(numbers);
                demand(layout_read(t->part[p], t->layout[p], at, n, numbers) == ST_OK,
                       "no numbers");
            }
        }
    }
}

/* A reader over the bytes: tensors in their memory, or a sentence; what it takes is planned. */
static inline void fuzz_container(const uint8_t *data, size_t size, const char *container,
                                  enum status (*parse)(struct checkpoint *)) {
    static const char *const rules[] = {"crop_pct=1", "mean=0.5", "std=0.5",
                                        "interpolation=bicubic"};
    const struct convert_options options = {
        .dtype = DT_F16, .preprocess = rules, .preprocess_count = COUNT_OF(rules)};
    static char path[] = "file";
    static char config[] = "{\"model_args\":{\"num_heads\":2,\"img_size\":16}}";
    struct checkpoint c = {.path = path, .weights_path = path, .container = container};
    struct conversion conversion;
    uint8_t *copy = malloc(size ? size : 1); /* its end is where the sanitizer looks */
    if (!copy) return;
    memcpy(copy, data, size);
    c.map = copy;
    c.map_size = size;
    c.config_json = config;
    if (parse(&c) != ST_OK) {
        demand(fail_message()[0], "a refusal without a sentence");
    } else {
        for (size_t i = 0; i < c.count; i++)
            demand(tensor_count(&c.tensors[i]) * dtype_size(c.tensors[i].dtype) ==
                       c.tensors[i].bytes,
                   "a tensor of another size");
        if (convert_plan(&c, &options, &conversion) == ST_OK) {
            demand(conversion.row_count == c.count, "a tensor without a row");
            read_outputs(&conversion);
            conversion_release(&conversion);
        } else {
            demand(fail_message()[0], "a refusal without a sentence");
        }
    }
    c.map = NULL;
    c.path = c.weights_path = c.config_json = NULL;
    checkpoint_release(&c);
    free(copy);
}

/* xorshift64* (Vigna 2016): the same rounds on every machine. */
static inline uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

/* One change: a bit, a byte, a word, a number of a size field, a copied piece, or a cut. */
static inline size_t mutate(uint8_t *bytes, size_t size, const char *const *words, size_t count,
                            uint64_t *state) {
    static const uint64_t numbers[] = {0,          1,          0xff,       0xffff,    0x7fffffff,
                                       0xffffffff, 1ull << 40, 1ull << 63, UINT64_MAX};
    if (size < 16) return size;
    const size_t at = (size_t)(next(state) % (size - 8)), from = (size_t)(next(state) % (size - 8));
    const size_t length = (size_t)(1 + next(state) % 8);
    const char *word = words[next(state) % count];
    switch (next(state) % 8) {
    case 0: bytes[at] ^= (uint8_t)(1u << (next(state) % 8)); break;
    case 1: bytes[at] = (uint8_t)next(state); break;
    case 2: memcpy(bytes + at, &numbers[next(state) % COUNT_OF(numbers)], length); break;
    case 3: memmove(bytes + at, bytes + from, length); break;
    case 4:
    case 5:
    case 6:
        if (strlen(word) <= size - at) memcpy(bytes + at, word, strlen(word));
        break;
    default:
        if (next(state) % 4 == 0) return at;
    }
    return size;
}

static inline long number(const char *variable, long otherwise) {
    const char *text = getenv(variable);
    long value = otherwise;
    if (text && !parse_long(text, 0, 1000000000, &value)) value = otherwise;
    return value;
}

#endif
