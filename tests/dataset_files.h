/*
 * dataset_files: small datasets of every form, made in the current folder, for test_dataset.c and
 * fuzz_dataset.c.
 */
#ifndef TESTS_DATASET_FILES_H
#define TESTS_DATASET_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "kernels/base.h"

/* Makes the folders of a path, and the file with these bytes. */
static inline void put_bytes(const char *path, const void *bytes, size_t size) {
    char folder[512];
    FILE *file;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        (void)mkdir(folder, 0755);
    }
    file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) abort();
}

static inline void put_text(const char *path, const char *text) {
    put_bytes(path, text, strlen(text));
}

static inline void put_gzip(const char *path, const void *bytes, size_t size) {
    gzFile file = gzopen(path, "wb");
    if (!file || gzwrite(file, bytes, (unsigned)size) != (int)size || gzclose(file) != Z_OK)
        abort();
}

/* ---- tar ------------------------------------------------------------------------------------- */

struct tar {
    uint8_t bytes[1 << 16];
    size_t size;
};

/* The checksum of a header. */
static inline void tar_seal(uint8_t *head) {
    unsigned sum = 0;
    char text[16];
    memset(head + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += head[i];
    snprintf(text, sizeof text, "%06o", sum);
    memcpy(head + 148, text, 7);
}

/* One member of ustar: type '0' a file, '2' a symbolic link to `content`, '5' a folder. */
static inline void tar_add(struct tar *tar, const char *name, char type, const char *content) {
    uint8_t *head = tar->bytes + tar->size;
    const size_t size = type == '0' ? strlen(content) : 0;
    char text[16];
    memset(head, 0, 512);
    memcpy(head, name, strlen(name) < 100 ? strlen(name) : 100);
    memcpy(head + 100, "0000644", 7);
    memcpy(head + 108, "0000000", 7);
    memcpy(head + 116, "0000000", 7);
    snprintf(text, sizeof text, "%011o", (unsigned)size);
    memcpy(head + 124, text, 11);
    memcpy(head + 136, "00000000000", 11);
    head[156] = (uint8_t)type;
    if (type == '2') memcpy(head + 157, content, strlen(content));
    memcpy(head + 257, "ustar\00000", 8);
    tar_seal(head);
    tar->size += 512;
    memcpy(tar->bytes + tar->size, content, size);
    tar->size += (size + 511) / 512 * 512;
}

static inline void tar_end(struct tar *tar) {
    tar->size += 1024;
}

/* "name=content name=content": a tar of these files. */
static inline void tar_of(struct tar *tar, const char *members) {
    char name[128], content[128];
    memset(tar, 0, sizeof *tar);
    while (*members) {
        const size_t length = strcspn(members, "="), rest = strcspn(members, " ");
        snprintf(name, sizeof name, "%.*s", (int)length, members);
        snprintf(content, sizeof content, "%.*s", (int)(rest - length - 1), members + length + 1);
        tar_add(tar, name, '0', content);
        members += rest;
        members += strspn(members, " ");
    }
    tar_end(tar);
}

/* ---- idx and cifar --------------------------------------------------------------------------- */

/* A header of `rank` dims of type `type` and `data` bytes 0, 1, 2, ...; its size. */
static inline size_t idx_of(uint8_t *out, int type, int rank, const uint32_t *dims, size_t data) {
    size_t at = 4;
    memset(out, 0, 4);
    out[2] = (uint8_t)type;
    out[3] = (uint8_t)rank;
    for (int i = 0; i < rank; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            out[at++] = (uint8_t)(dims[i] >> shift);
    for (size_t i = 0; i < data; i++)
        out[at++] = (uint8_t)i;
    return at;
}

/* `count` records of CIFAR: label bytes (1 or 2, the last one is i % classes), red, green, blue. */
static inline size_t cifar_of(uint8_t *out, int labels, size_t count, int classes) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (labels == 2) out[at++] = 1;
        out[at++] = (uint8_t)(i % (size_t)classes);
        for (int c = 0; c < 3; c++, at += 1024)
            memset(out + at, (int)(10 * i) + c, 1024);
    }
    return at;
}

#endif
