/*
 * fuzz_npz: any bytes as a .npy array or as a zip of them. The readers must end in tensors inside
 * their memory or in a sentence; an archive that is taken is planned, and its numbers are read.
 *
 * LLVMFuzzerTestOneInput is libFuzzer's entry. With -DFUZZ_MAIN, main() changes files of its own,
 * round after round, each from its own seed ($FUZZ_ROUNDS of them, 20000; $FUZZ_FIRST, 0): a JAX
 * ViT whose names and shapes change before the zip is made, the zip's bytes, and an array's.
 */
#include "tests/fuzz_containers.h"

#include "tests/zip_sample.h"
#include "weights/npz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 6 && memcmp(data, "\x93NUMPY", 6) == 0) {
        struct tensor t = {0};
        if (npy_parse(data, size, "file", &t) != ST_OK)
            demand(fail_message()[0], "a refusal without a sentence");
        else
            demand(t.data + t.bytes == data + size, "an array that is not the rest of its file");
    } else {
        fuzz_container(data, size, "npz", npz_parse);
    }
    return 0;
}

#ifdef FUZZ_MAIN
#define LARGEST 65536

static const char *const words[] = {"PK\1\2",    "PK\3\4",  "PK\5\6",   "{",     "}",     "(",
                                    ")",         "'descr'", "'shape'",  "'<f4'", "'|O'",  "'>f4'",
                                    "(1, 2, 3)", "True",    "False",    ",",     "99999", ".npy",
                                    "../",       "/kernel", "\x93NUMPY"};

#define BLOCK     "Transformer/encoderblock_0/"
#define ATTENTION BLOCK "MultiHeadDotProductAttention_1/"
static const char shapes[] =
    "cls:1,1,8 Transformer/posembed_input/pos_embedding:1,5,8 embedding/kernel:2,2,3,8 "
    "embedding/bias:8 Transformer/encoder_norm/scale:8 Transformer/encoder_norm/bias:8 "
    "head/kernel:8,3 head/bias:3 " BLOCK "LayerNorm_0/scale:8 " BLOCK "LayerNorm_0/bias:8 " BLOCK
    "LayerNorm_2/scale:8 " BLOCK "LayerNorm_2/bias:8 " ATTENTION "query/kernel:8,2,4 " ATTENTION
    "query/bias:2,4 " ATTENTION "key/kernel:8,2,4 " ATTENTION "key/bias:2,4 " ATTENTION
    "value/kernel:8,2,4 " ATTENTION "value/bias:2,4 " ATTENTION "out/kernel:2,4,8 " ATTENTION
    "out/bias:8 " BLOCK "MlpBlock_3/Dense_0/kernel:8,16 " BLOCK "MlpBlock_3/Dense_0/bias:16 " BLOCK
    "MlpBlock_3/Dense_1/kernel:16,8 " BLOCK "MlpBlock_3/Dense_1/bias:8";

/* One .npy of zeros; its size, 0 when it is too large. */
static size_t array(const char *dims, size_t length, bool fortran, uint8_t *out) {
    size_t count = 1;
    const int header = snprintf((char *)out + 10, 256,
                                "{'descr': '<f4', 'fortran_order': %s, "
                                "'shape': (%.*s,), }\n",
                                fortran ? "True" : "False", (int)length, dims);
    for (const char *d = dims; d < dims + length; d += strcspn(d, ", "), d += *d == ',') {
        long value = 0;
        char digits[16];
        snprintf(digits, sizeof digits, "%.*s", (int)strcspn(d, ", "), d);
        if (parse_long(digits, 0, 10000, &value)) count *= (size_t)value;
        if (count > LARGEST / 8 || *d == ' ') return 0;
    }
    if (header < 0 || header > 255) return 0;
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (uint8_t)header;
    out[9] = 0;
    memset(out + 10 + header, 0, 4 * count);
    return 10 + (size_t)header + 4 * count;
}

/* A zip of the shapes ("name:dims", a blank between); its size, 0 when it is too large. */
static size_t build(const char *text, bool deflate, bool fortran, uint8_t *out) {
    static uint8_t bytes[4 * LARGEST];
    static char names[64][256];
    struct sample_member members[64];
    size_t count = 0, used = 0, size;
    for (const char *at = text; *at && count < COUNT_OF(members);
         at += strcspn(at, " "), at += strspn(at, " ")) {
        const size_t length = strcspn(at, " "), colon = strcspn(at, ": ");
        if (colon == 0 || colon >= length || used > 3 * LARGEST) continue;
        const size_t written = array(at + colon + 1, length - colon - 1, fortran, bytes + used);
        if (written == 0) continue;
        snprintf(names[count], sizeof names[count], "%.*s.npy", (int)colon, at);
        members[count] = (struct sample_member){names[count], bytes + used, written};
        count++;
        used += written;
    }
    struct sample s = sample_pack(members, count, deflate);
    size = s.size <= LARGEST ? s.size : 0;
    memcpy(out, s.bytes, size);
    free(s.bytes);
    return size;
}

/* Digits become others, now and then a letter. */
static void mutate_shapes(char *text, uint64_t *state) {
    static const char letters[] = "0123456789,_:/ kq";
    const size_t length = strlen(text), at = (size_t)(next(state) % length);
    const size_t digit = at + strcspn(text + at, "0123456789");
    if (next(state) % 4 && text[digit])
        text[digit] = letters[next(state) % 10];
    else
        text[at] = letters[next(state) % (sizeof letters - 1)];
}

int main(void) {
    static uint8_t bytes[LARGEST];
    const long first = number("FUZZ_FIRST", 0), rounds = number("FUZZ_ROUNDS", 20000);
    for (long round = first; round < first + rounds; round++) {
        uint64_t state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
        char text[2 * sizeof shapes];
        const int kind = (int)(round % 4); /* 0, 1: names and shapes, 2: the zip, 3: an array */
        snprintf(text, sizeof text, "%s", shapes);
        for (uint64_t n = kind < 2 ? next(&state) % 4 : 0; n > 0; n--)
            mutate_shapes(text, &state);
        size_t size = kind == 3 ? array("2,3,4", 5, round % 8 == 3, bytes)
                                : build(text, round % 8 > 3, round % 16 > 7, bytes);
        for (uint64_t n = kind < 2 ? 0 : next(&state) % 6; n > 0; n--)
            size = mutate(bytes, size, words, COUNT_OF(words), &state);
        LLVMFuzzerTestOneInput(bytes, size);
    }
    printf("%ld rounds\n", rounds);
    return 0;
}
#endif
