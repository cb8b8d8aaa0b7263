/*
 * fuzz_image: image_decode on hostile bytes. LLVMFuzzerTestOneInput is libFuzzer's entry; with
 * -DFUZZ_MAIN a mutator of its own runs under any compiler, the same mutations every time:
 *
 *     fuzz_image [mutations] [images.bin]         [20000, tests/ref/images.bin]
 *
 * Checked beside what a sanitizer sees: a picture within the limit, or a sentence.
 */
#include "datasets/image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
const char *__lsan_default_suppressions(void);

/* libdav1d, which libheif may use for AVIF, loses 40 bytes on some broken files (1.0.0). */
const char *__lsan_default_suppressions(void) {
    return "leak:libdav1d\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct image_options options = image_defaults();
    struct image image = {0};
    options.max_pixels = 1 << 20; /* keeps a run short */
    options.composite = size % 2 != 0;
    options.apply_exif = size % 3 != 0;
    if (image_decode(bytes, size, &options, &image) != ST_OK) {
        if (!fail_message()[0] || image.rgb) abort();
        return 0;
    }
    if (image.width < 1 || image.height < 1 || !image.rgb ||
        (size_t)image.width * (size_t)image.height > options.max_pixels)
        abort();
    image_release(&image);
    return 0;
}

#ifdef FUZZ_MAIN

#include <stdio.h>

#define FILES_MAX 512
#define BYTES_MAX 65536

struct file {
    const uint8_t *bytes;
    size_t size;
};

/* xorshift64*: the same sequence everywhere. */
static uint64_t state = 0x9E3779B97F4A7C15u;

static size_t random_below(size_t limit) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (size_t)((state * 0x2545F4914F6CDD1Du) >> 33) % (limit ? limit : 1);
}

/* The encoded pictures of images.bin; its layout is in tests/ref/pillow_golden.py. */
static size_t files_find(const uint8_t *p, size_t size, struct file *files) {
    size_t count = 0, at = 0;
    while (at < size && count < FILES_MAX) {
        size_t width, height;
        uint32_t length = 0;
        at += 1 + p[at];
        memcpy(&length, p + at, 4);
        files[count].bytes = p + at + 4;
        files[count++].size = length;
        at += 4 + length;
        width = p[at + 2] | (size_t)p[at + 3] << 8;
        height = p[at + 4] | (size_t)p[at + 5] << 8;
        at += 7 + width * height * 3 * (p[at + 6] ? 2 : 1);
    }
    return count;
}

/* One of: flip bits, set a byte, an extreme number, cut, drop or repeat a piece, splice. */
static size_t mutate(uint8_t *b, size_t size, const struct file *other) {
    static const uint32_t extremes[] = {0,      1,      0x7F,       0x80,       0xFF,      0xFFFF,
                                        0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    size_t at = random_below(size), piece = random_below(64), wide = (size_t)1 << random_below(3);
    uint32_t value = extremes[random_below(COUNT_OF(extremes))];
    if (size == 0) return 0;
    switch (random_below(8)) {
    case 0: b[at] ^= (uint8_t)(1u << random_below(8)); return size;
    case 1: b[at] = (uint8_t)random_below(256); return size;
    case 2:
        for (size_t i = 0; i < wide && at + i < size; i++)
            b[at + i] = (uint8_t)(value >> 8 * i);
        return size;
    case 3:
        for (size_t i = 0; i < wide && at + i < size; i++)
            b[at + i] = (uint8_t)(value >> 8 * (wide - 1 - i));
        return size;
    case 4: return random_below(4) ? size : at;
    case 5: /* drop */
        if (piece > size - at) piece = size - at;
        memmove(b + at, b + at + piece, size - at - piece);
        return size - piece;
    case 6: /* repeat */
        if (piece > size - at || size + piece > BYTES_MAX) return size;
        memmove(b + at + piece, b + at, size - at);
        return size + piece;
    default: /* splice */
        if (other->size < 16 || piece > other->size || piece > size - at) return size;
        memcpy(b + at, other->bytes + random_below(other->size - piece), piece);
        return size;
    }
}

int main(int argc, char **argv) {
    static struct file files[FILES_MAX];
    static uint8_t buffer[BYTES_MAX];
    long mutations = 20000, decoded = 0;
    uint8_t *bytes;
    size_t size, count;
    if (argc > 1 && !parse_long(argv[1], 0, 1000000000, &mutations)) {
        fprintf(stderr, "fuzz_image: '%s' is not a number of mutations\n", argv[1]);
        return 2;
    }
    if (file_read(argc > 2 ? argv[2] : "tests/ref/images.bin", 1 << 24, &bytes, &size) != ST_OK) {
        fprintf(stderr, "fuzz_image: %s\n", fail_message());
        return 1;
    }
    count = files_find(bytes, size, files);
    for (long i = 0; i < mutations; i++) {
        const struct file *file = &files[(size_t)i % count];
        size_t length = file->size, rounds = 1 + random_below(4);
        uint8_t *exact; /* of just the right size, so that a read behind the end is seen */
        if (length > BYTES_MAX) continue;
        memcpy(buffer, file->bytes, length);
        for (size_t r = 0; r < rounds; r++)
            length = mutate(buffer, length, &files[random_below(count)]);
        exact = mem_zalloc(length, 1);
        if (!exact) return 1;
        memcpy(exact, buffer, length);
        LLVMFuzzerTestOneInput(exact, length);
        mem_free(exact);
        decoded++;
    }
    mem_free(bytes);
    printf("fuzz_image: %ld mutations of %zu pictures\n", decoded, count);
    return 0;
}

#endif
