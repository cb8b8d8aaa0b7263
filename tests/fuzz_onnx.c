/*
 * fuzz_onnx: any bytes as an ONNX file. The reader must end in tensors inside their memory or in a
 * sentence; a graph that is taken is planned, and its numbers are read.
 *
 * LLVMFuzzerTestOneInput is libFuzzer's entry. With -DFUZZ_MAIN, main() changes torch's own files
 * (tests/ref/containers), round after round, each from its own seed ($FUZZ_ROUNDS of them, 20000;
 * $FUZZ_FIRST, 0).
 */
#include "tests/fuzz_containers.h"

#include "weights/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_container(data, size, "ONNX", onnx_parse);
    return 0;
}

#ifdef FUZZ_MAIN
/* Fields as they are on the wire, and words that rules look for. */
static const char *const words[] = {
    "MatMul",   "Add",      "Concat",   "Gemm",          "Identity", "Reshape",
    "Constant", "Sqrt",     "Slice",    ".weight",       ".bias",    "cls_token",
    "attn",     "/",        ".0/",      "\x08\x01",      "\x08\x7f", "\x10\x01",
    "\x10\x07", "\x10\x0a", "\x3a\x7f", "\x2a\x05",      "\x0a\x01", "\xff\xff\xff\xff\x0f",
    "location", "../",      "\x70\x01", "['', 'a', 'b']"};

static const char *const corpus[] = {
    "tests/ref/containers/positions.onnx", "tests/ref/containers/vit_folded.onnx",
    "tests/ref/containers/vit_unfolded.onnx", "tests/ref/containers/vit_dynamo.onnx",
    "tests/ref/containers/swin_dynamo.onnx"};

int main(void) {
    const long first = number("FUZZ_FIRST", 0), rounds = number("FUZZ_ROUNDS", 20000);
    for (long round = first; round < first + rounds; round++) {
        uint64_t state = (uint64_t)round * 0x9e3779b97f4a7c15u + 1;
        uint8_t *bytes = NULL;
        size_t size = 0;
        if (file_read(corpus[(size_t)round % COUNT_OF(corpus)], 1 << 20, &bytes, &size) != ST_OK) {
            fprintf(stderr, "fuzz_onnx: %s\n", fail_message());
            return 1;
        }
        for (uint64_t n = next(&state) % 6; n > 0; n--)
            size = mutate(bytes, size, words, COUNT_OF(words), &state);
        LLVMFuzzerTestOneInput(bytes, size);
        mem_free(bytes);
    }
    printf("%ld rounds\n", rounds);
    return 0;
}
#endif
