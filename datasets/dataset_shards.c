/* dataset_shards: which archives a path stands for; see dataset_shards.h. */
#include "datasets/dataset_shards.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_SHARDS = 100000 };

bool shards_suffix_known(const char *name) {
    static const char *const suffixes[] = {".tar",     ".tgz",  ".tbz2",   ".txz",    ".zip",
                                           ".tar.bz2", ".tzst", ".tar.gz", ".tar.xz", ".tar.zst"};
    for (size_t i = 0; i < COUNT_OF(suffixes); i++)
        if (dataset_ends(name, suffixes[i])) return true;
    return false;
}

/* "a{" `piece` "}b", which must be there. */
static enum status add_shard(struct texts *paths, const char *pattern, const char *piece,
                             size_t length) {
    const char *open = strchr(pattern, '{'), *shut = strchr(pattern, '}');
    char *path =
        str_format("%.*s%.*s%s", (int)(open - pattern), pattern, (int)length, piece, shut + 1);
    struct stat info;
    size_t number;
    enum status st = path ? ST_OK : ST_NOMEM;
    if (path && stat(path, &info) != 0)
        st = fail(ST_IO, "%s: %s; it is one of %s", path, strerror(errno), pattern);
    else if (path && !S_ISREG(info.st_mode))
        st = fail(ST_USAGE, "%s: is no regular file; it is one of %s", path, pattern);
    else if (paths->count == MOST_SHARDS)
        st = fail(ST_USAGE, "%s: stands for more than %d files", pattern, MOST_SHARDS);
    if (st == ST_OK) st = texts_add(paths, path, &number);
    mem_free(path);
    return st;
}

/* "000..003"; the width is that of the first number. */
static bool parse_range(const char *text, size_t length, long *first, long *last, int *width) {
    char number[2][12] = {{0}};
    const char *dots = strstr(text, "..");
    if (!dots || dots >= text + length) return false;
    const size_t lengths[2] = {(size_t)(dots - text), length - (size_t)(dots - text) - 2};
    if (lengths[0] > 9 || lengths[1] > 9) return false;
    memcpy(number[0], text, lengths[0]);
    memcpy(number[1], dots + 2, lengths[1]);
    *width = (int)lengths[0];
    return parse_long(number[0], 0, 999999999, first) && parse_long(number[1], 0, 999999999, last);
}

static enum status expand(struct texts *paths, const char *pattern) {
    const char *open = strchr(pattern, '{'), *shut = strchr(pattern, '}');
    long first, last;
    int width;
    if (!open || !shut || shut < open || strpbrk(shut + 1, "{}") ||
        memchr(open + 1, '{', (size_t)(shut - open)))
        return fail(ST_USAGE, "%s: expected one pair of braces, as in shard-{000..003}.tar",
                    pattern);
    open++;
    if (parse_range(open, (size_t)(shut - open), &first, &last, &width)) {
        if (first > last)
            return fail(ST_USAGE, "%s: the range runs from %ld down to %ld", pattern, first, last);
        for (long n = first; n <= last; n++) {
            char digits[24];
            snprintf(digits, sizeof digits, "%0*ld", width, n);
            TRY(add_shard(paths, pattern, digits, strlen(digits)));
        }
        return ST_OK;
    }
    if (!memchr(open, ',', (size_t)(shut - open)))
        return fail(ST_USAGE, "%s: holds neither a range {000..003} nor a list {a,b}", pattern);
    while (open <= shut) {
        const size_t length = strcspn(open, ",}");
        TRY(add_shard(paths, pattern, open, length));
        open += length + 1;
    }
    return ST_OK;
}

enum status shards_find(const struct dataset_source *source, struct texts *paths) {
    size_t number;
    if (!source->folder && !source->file) return expand(paths, source->path);
    if (source->file) return texts_add(paths, source->path, &number);
    for (size_t i = 0; i < source->names.count; i++) {
        const char *name = source->names.text[i];
        char *whole;
        enum status st;
        if (!shards_suffix_known(name)) continue;
        whole = dataset_inside(source->path, name);
        st = whole ? texts_add(paths, whole, &number) : ST_NOMEM;
        mem_free(whole);
        if (st != ST_OK) return st;
    }
    return ST_OK;
}

/* The first bytes and the size of every file; of a pipe nothing. */
enum status shards_checksum(const struct texts *paths, uint64_t *size, uint64_t *sum) {
    uint8_t *block = mem_zalloc(65536, 1);
    if (!block) return ST_NOMEM;
    *size = 0;
    *sum = CHECKSUM_START;
    for (size_t i = 0; i < paths->count; i++) {
        struct stat info;
        FILE *file;
        if (stat(paths->text[i], &info) != 0 || !S_ISREG(info.st_mode)) continue;
        *size += (uint64_t)info.st_size;
        file = fopen(paths->text[i], "rb");
        if (!file) continue;
        *sum = checksum(*sum, block, fread(block, 1, 65536, file));
        fclose(file);
    }
    mem_free(block);
    return ST_OK;
}
