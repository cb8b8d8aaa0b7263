/*
 * torch_sample: PyTorch files for test_torch.c and fuzz_torch.c: the golden ones of tests/ref
 * (torch_golden.py), archives assembled by hand, and both through the readers without a file.
 */
#ifndef TESTS_TORCH_SAMPLE_H
#define TESTS_TORCH_SAMPLE_H

#include "weights/torch.h"

#include "tests/zip_sample.h"

#define SAMPLE_REF "tests/ref/torch_"

/* The archive of one pickle and one storage "0" of `storage` zeros. */
static inline struct sample sample_archive(const void *pickle, size_t size, size_t storage) {
    static const uint8_t zeros[256] = {0};
    const struct sample_entry entries[] = {{"a/data.pkl", pickle, size, 0, 0, 0},
                                           {"a/data/0", zeros, storage, 0, 0, 0}};
    return sample_zip(entries, 2);
}

static inline struct sample sample_golden(const char *name) {
    struct sample s = {0};
    char path[200];
    uint8_t *bytes = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, SAMPLE_REF "%s.pth", name);
    if (file_read(path, 1 << 20, &bytes, &size) != ST_OK) {
        fprintf(stderr, "%s\n", fail_message());
        abort();
    }
    sample_put(&s, bytes, size);
    mem_free(bytes);
    return s;
}

/* Reads the bytes; *out is then to be sample_release'd. */
static inline enum status sample_parse(const uint8_t *bytes, size_t size, const char *key,
                                       struct checkpoint *out) {
    static char path[] = "file";
    memset(out, 0, sizeof *out);
    out->map = (void *)(uintptr_t)bytes;
    out->map_size = size;
    out->weights_path = path;
    out->key = key;
    if (torch_zip.recognise(bytes, size)) return torch_zip.parse(out);
    if (torch_legacy.recognise(bytes, size)) return torch_legacy.parse(out);
    return fail(ST_FORMAT, "file: not recognised");
}

static inline void sample_release(struct checkpoint *c) {
    for (size_t i = 0; i < c->count; i++)
        mem_free(c->tensors[i].name);
    mem_free(c->tensors);
    mem_free(c->memory);
    mem_free(c->wrapper);
    mem_free(c->aside);
    memset(c, 0, sizeof *c);
}

#endif
