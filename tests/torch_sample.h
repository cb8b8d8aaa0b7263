/*
 * torch_sample: PyTorch files for test_torch.c and fuzz_torch.c: the golden ones of tests/ref
 * (torch_golden.py), archives assembled by hand, and both through the readers without a file.
 */
#ifndef TESTS_TORCH_SAMPLE_H
#define TESTS_TORCH_SAMPLE_H

#include "weights/torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_REF "tests/ref/torch_"

struct sample_entry {
    const char *name;
    const void *data;
    size_t size;
    int method;       /* 0: stored */
    size_t full_size; /* when compressed */
    int wide;         /* 1: sizes and offset in a zip64 field; 2: and the size lies */
};

struct sample {
    uint8_t *bytes;
    size_t size, capacity;
};

static inline void sample_put(struct sample *s, const void *bytes, size_t size) {
    if (s->size + size > s->capacity) {
        s->capacity = 2 * (s->size + size);
        s->bytes = realloc(s->bytes, s->capacity);
        if (!s->bytes) abort();
    }
    if (size) memcpy(s->bytes + s->size, bytes, size);
    s->size += size;
}

static inline void sample_number(struct sample *s, uint64_t value, int bytes) {
    uint8_t at[8];
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
    sample_put(s, at, (size_t)bytes);
}

/* One entry's header, local (central false) or of the directory. */
static inline void sample_header(struct sample *s, const struct sample_entry *e, size_t offset,
                                 bool central) {
    const bool wide = central && e->wide;
    sample_put(s, central ? "PK\1\2" : "PK\3\4", 4);
    if (central) sample_number(s, 20, 2);
    sample_number(s, 20, 2);
    sample_number(s, 0, 2); /* flags */
    sample_number(s, (uint64_t)e->method, 2);
    sample_number(s, 0, 4); /* time, date */
    sample_number(s, 0, 4); /* checksum: none */
    sample_number(s, wide ? UINT32_MAX : e->size, 4);
    sample_number(s, wide ? UINT32_MAX : e->method ? e->full_size : e->size, 4);
    sample_number(s, strlen(e->name), 2);
    sample_number(s, wide ? 4 + 24 : 0, 2);
    if (central) {
        sample_number(s, 0, 4); /* comment, disk */
        sample_number(s, 0, 2);
        sample_number(s, 0, 4);
        sample_number(s, wide ? UINT32_MAX : offset, 4);
    }
    sample_put(s, e->name, strlen(e->name));
    if (!wide) return;
    sample_number(s, 1, 2);
    sample_number(s, 24, 2);
    sample_number(s, e->wide == 2 ? UINT64_MAX / 2 : e->size, 8);
    sample_number(s, e->wide == 2 ? UINT64_MAX / 2 : e->size, 8);
    sample_number(s, offset, 8);
}

static inline struct sample sample_zip(const struct sample_entry *entries, size_t count) {
    struct sample s = {0};
    size_t offsets[64], begin, size;
    for (size_t i = 0; i < count; i++) {
        offsets[i] = s.size;
        sample_header(&s, &entries[i], 0, false);
        sample_put(&s, entries[i].data, entries[i].size);
    }
    begin = s.size;
    for (size_t i = 0; i < count; i++)
        sample_header(&s, &entries[i], offsets[i], true);
    size = s.size - begin;
    sample_put(&s, "PK\5\6\0\0\0\0", 8);
    sample_number(&s, count, 2);
    sample_number(&s, count, 2);
    sample_number(&s, size, 4);
    sample_number(&s, begin, 4);
    sample_number(&s, 0, 2);
    return s;
}

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
