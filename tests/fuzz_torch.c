/*
 * fuzz_torch: any bytes as a PyTorch file. The readers must end in tensors inside the bytes (or in
 * their own copies) or in a sentence.
 *
 * LLVMFuzzerTestOneInput is libFuzzer's entry. With -DFUZZ_MAIN, main() changes the golden files
 * of tests/ref, round after round, each from its own seed ($FUZZ_ROUNDS of them, 20000;
 * $FUZZ_FIRST, 0). Checksums are taken out first, as torch can be told to do.
 */
#include "tests/torch_sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_torch: %s: '%s'\n", what, fail_message());
    abort();
}

/* Every tensor is as large as its shape says, and can be read where it is said to lie. */
static void check_tensors(const struct checkpoint *c) {
    unsigned sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct tensor *t = &c->tensors[i];
        if (t->dtype != DT_OTHER)
            demand(tensor_count(t) * dtype_size(t->dtype) == t->bytes, "a tensor of another size");
        demand(checkpoint_find(c, t->name) != NULL, "a tensor that is not found");
        for (size_t b = 0; b < t->bytes; b++)
            sum += t->data[b];
    }
    (void)(volatile unsigned){sum};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = {NULL, "model", "a.b"};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct checkpoint c;
        (void)fail(ST_IO, "%s", "");
        if (sample_parse(data, size, keys[i], &c) == ST_OK)
            check_tensors(&c);
        else
            demand(fail_message()[0], "a refusal without a sentence");
        sample_release(&c);
    }
    return 0;
}

#ifdef FUZZ_MAIN

/* xorshift64* (Vigna 2016): the same rounds on every machine. */
static uint64_t next(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

static const char *const files[] = {"types",   "types_legacy",    "views",   "views_legacy",
                                    "teacher", "training_legacy", "twins",   "parameters_legacy",
                                    "module",  "views_p4_legacy", "training"};

/* Opcodes, names and numbers at their edges, to be put over what is there. */
#define WORD(text)                                                                                 \
    { text, sizeof(text) - 1 }
static const struct {
    const char *bytes;
    size_t size;
} words[] = {WORD("."),
             WORD("("),
             WORD("t"),
             WORD("R"),
             WORD("Q"),
             WORD("b"),
             WORD("u"),
             WORD("e"),
             WORD("\x81"),
             WORD("\x85"),
             WORD("h\0"),
             WORD("h\2"),
             WORD("q\0"),
             WORD("N"),
             WORD("0"),
             WORD("2"),
             WORD("]"),
             WORD("}"),
             WORD("K\xff"),
             WORD("J\xff\xff\xff\xff"),
             WORD("J\xff\xff\xff\x7f"),
             WORD("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
             WORD("X\xff\xff\xff\xff"),
             WORD("PK\1\2"),
             WORD("PK\3\4"),
             WORD("PK\5\6"),
             WORD("\0\0\0\0"),
             WORD("\xff\xff\xff\xff"),
             WORD("\xff\xff\xff\xff\xff\xff\xff\xff"),
             WORD("HalfStorage"),
             WORD("_rebuild_tensor_v3"),
             WORD("_rebuild_parameter"),
             WORD("storage"),
             WORD("..")};

/* Every checksum of the directory becomes 0. */
static void drop_checksums(struct sample *s) {
    for (size_t i = 0; i + 20 < s->size; i++)
        if (memcmp(s->bytes + i, "PK\1\2", 4) == 0) memset(s->bytes + i + 16, 0, 4);
}

static size_t mutate(uint8_t *bytes, size_t size, uint64_t *state) {
    /* Most of the pickle is in the first part of the file, the directory in the last. */
    const size_t part = next(state) % 4 ? size / 3 + 1 : size;
    size_t at = (size_t)(next(state) % part);
    const size_t word = (size_t)(next(state) % COUNT_OF(words)), length = words[word].size;
    if (next(state) % 4 == 0) at = size - 1 - at;
    switch (next(state) % 6) {
    case 0: bytes[at] = (uint8_t)next(state); break;
    case 1: bytes[at] ^= (uint8_t)(1u << (next(state) % 8)); break;
    case 2:
        if (next(state) % 8 == 0) return at + 1;
        break;
    case 3: /* a piece of the file over another */
        if (at + 16 <= size)
            memmove(bytes + at, bytes + next(state) % (size > 16 ? size - 16 : 1),
                    size > 32 ? 1 + next(state) % 16 : 1);
        break;
    default:
        if (at + length <= size) memcpy(bytes + at, words[word].bytes, length);
        break;
    }
    return size;
}

static long number(const char *variable, long otherwise) {
    const char *text = getenv(variable);
    long value = otherwise;
    if (text && !parse_long(text, 0, 1000000000, &value)) value = otherwise;
    return value;
}

int main(void) {
    const long first = number("FUZZ_FIRST", 0), rounds = number("FUZZ_ROUNDS", 20000);
    struct sample samples[COUNT_OF(files)];
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        samples[i] = sample_golden(files[i]);
        drop_checksums(&samples[i]);
    }
    for (long round = first; round < first + rounds; round++) {
        uint64_t state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
        const struct sample *s = &samples[(size_t)round % COUNT_OF(files)];
        size_t size = s->size;
        uint8_t *bytes = malloc(size), *copy; /* copy's end is where the sanitizer looks */
        if (!bytes) return 1;
        memcpy(bytes, s->bytes, size);
        for (uint64_t n = next(&state) % 6; n > 0; n--)
            size = mutate(bytes, size, &state);
        copy = malloc(size ? size : 1);
        if (!copy) return 1;
        memcpy(copy, bytes, size);
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
        free(bytes);
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        free(samples[i].bytes);
    printf("%ld rounds\n", rounds);
    return 0;
}
#endif
