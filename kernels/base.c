/*
 * base: see base.h. The only file beside arena.c that calls malloc, and the only one that parses
 * numbers.
 */
#include "kernels/base.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local char message[1024];

enum status fail(enum status st, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return st;
}

enum status fail_prefix(enum status st, const char *prefix) {
    char text[sizeof message];
    memcpy(text, message, sizeof text);
    return fail(st, "%s: %s", prefix, text);
}

const char *fail_message(void) {
    return message;
}

const char *status_name(enum status st) {
    static const char *const names[] = {"ok",    "usage",         "input/output", "format",
                                        "shape", "out of memory", "device"};
    return (size_t)st < COUNT_OF(names) ? names[st] : "unknown";
}

bool size_mul(size_t a, size_t b, size_t *out) {
    if (b != 0 && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

bool size_add(size_t a, size_t b, size_t *out) {
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}

void *mem_zalloc(size_t count, size_t size) {
    void *ptr = calloc(count ? count : 1, size ? size : 1);
    if (!ptr) (void)fail(ST_NOMEM, "no memory for %zu x %zu bytes", count, size);
    return ptr;
}

enum status mem_grow(void **ptr, size_t *capacity, size_t need, size_t size) {
    size_t bytes, grown = *capacity ? *capacity : 16;
    void *larger;
    if (need <= *capacity) return ST_OK;
    while (grown < need) {
        if (!size_mul(grown, 2, &grown)) return fail(ST_NOMEM, "no memory for %zu elements", need);
    }
    if (!size_mul(grown, size, &bytes) || !(larger = realloc(*ptr, bytes)))
        return fail(ST_NOMEM, "no memory for %zu x %zu bytes", grown, size);
    memset((char *)larger + *capacity * size, 0, (grown - *capacity) * size);
    *ptr = larger;
    *capacity = grown;
    return ST_OK;
}

void mem_free(void *ptr) {
    free(ptr);
}

char *str_copy(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = mem_zalloc(size, 1);
    if (copy) memcpy(copy, text, size);
    return copy;
}

char *str_format(const char *fmt, ...) {
    va_list args;
    char *text;
    int length;
    va_start(args, fmt);
    length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    text = length < 0 ? NULL : mem_zalloc((size_t)length + 1, 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)length + 1, fmt, args);
    va_end(args);
    return text;
}

size_t utf8_length(const void *text, size_t left) {
    const uint8_t *at = text;
    uint8_t low = 0x80, high = 0xbf;
    const size_t length = at[0] < 0x80   ? 1
                          : at[0] < 0xc2 ? 0
                          : at[0] < 0xe0 ? 2
                          : at[0] < 0xf0 ? 3
                          : at[0] < 0xf5 ? 4
                                         : 0;
    if (at[0] == 0xe0) low = 0xa0;  /* overlong */
    if (at[0] == 0xed) high = 0x9f; /* surrogates */
    if (at[0] == 0xf0) low = 0x90;  /* overlong */
    if (at[0] == 0xf4) high = 0x8f; /* beyond U+10FFFF */
    if (length > left) return 0;
    for (size_t i = 1; i < length; i++) {
        if (at[i] < low || at[i] > high) return 0;
        low = 0x80, high = 0xbf;
    }
    return length;
}

bool utf8_is(const char *text) {
    size_t left = strlen(text);
    for (size_t step; left; text += step, left -= step) {
        if ((step = utf8_length(text, left)) == 0) return false;
    }
    return true;
}

size_t utf8_printable(const void *text, size_t left) {
    const uint8_t *at = text;
    if (at[0] < 0x20 || at[0] == 0x7f) return 0;
    return left > 1 && at[0] == 0xc2 && at[1] < 0xa0 ? 0 : utf8_length(text, left);
}

bool utf8_is_line(const char *text) {
    size_t left = strlen(text);
    if (left == 0) return false;
    for (size_t step; left; text += step, left -= step) {
        if ((step = utf8_printable(text, left)) == 0) return false;
    }
    return true;
}

char *str_printable(const char *text) {
    size_t used = 0, left = strlen(text), length;
    char *copy = mem_zalloc(left + 1, 4);
    for (; copy && left; text += length, left -= length) {
        length = utf8_printable(text, left);
        if (length)
            memcpy(copy + used, text, length);
        else
            snprintf(copy + used, 5, "\\x%02X", (unsigned char)*text);
        used += length ? length : 4;
        if (!length) length = 1;
    }
    return copy;
}

#define LIST_END 32 /* bytes kept for " and N more" */

void word_list_add(struct word_list *list, const char *fmt, ...) {
    const size_t comma = list->used ? 2 : 0, room = sizeof list->text - LIST_END;
    char *at = list->text + list->used;
    va_list args;
    int length = -1;
    if (list->left == 0 && (list->most == 0 || list->shown < list->most) &&
        list->used + comma < room) {
        memcpy(at, ", ", comma);
        va_start(args, fmt);
        length = vsnprintf(at + comma, room - list->used - comma, fmt, args);
        va_end(args);
    }
    if (length >= 0 && (size_t)length < room - list->used - comma) {
        list->used += comma + (size_t)length;
        list->shown++;
    } else {
        list->left++;
        *at = '\0';
    }
}

const char *word_list_text(struct word_list *list) {
    if (list->left)
        snprintf(list->text + list->used, LIST_END, "%s%zu more", list->used ? " and " : "",
                 list->left);
    return list->text;
}

bool parse_long(const char *text, long lo, long hi, long *out) {
    char *end;
    long value;
    if (!((text[0] >= '0' && text[0] <= '9') ||
          (text[0] == '-' && text[1] >= '0' && text[1] <= '9')))
        return false;
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno || *end || value < lo || value > hi) return false;
    *out = value;
    return true;
}

bool parse_double(const char *text, double lo, double hi, double *out) {
    char *end;
    double value;
    if (!text[0] || text[strspn(text, "+-.0123456789eE")]) return false;
    errno = 0;
    value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < lo || value > hi) return false;
    *out = value;
    return true;
}

static enum status read_all(int fd, const char *path, size_t limit, uint8_t **bytes, size_t *size) {
    size_t used = 0, capacity = 0;
    struct stat info;
    void *data = NULL;
    size_t guess = 65536;
    if (fstat(fd, &info) != 0) return fail(ST_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return fail(ST_IO, "%s: is a directory", path);
    if (fd != STDIN_FILENO && (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)))
        return fail(ST_IO, "%s: is a device, expected a file", path); /* it may never end */
    if (S_ISREG(info.st_mode)) {
        if ((uintmax_t)info.st_size > limit)
            return fail(ST_FORMAT, "%s: %jd bytes, at most %zu are taken", path,
                        (intmax_t)info.st_size, limit);
        guess = (size_t)info.st_size + 1;
    }
    for (;;) {
        ssize_t got;
        if (used == capacity) {
            enum status st = mem_grow(&data, &capacity, used ? used + 1 : guess, 1);
            if (st != ST_OK) return mem_free(data), st;
        }
        got = read(fd, (uint8_t *)data + used, capacity - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int error = errno;
            mem_free(data);
            return fail(ST_IO, "%s: %s", path, strerror(error));
        }
        if (got == 0) break;
        used += (size_t)got;
        if (used > limit) {
            mem_free(data);
            return fail(ST_FORMAT, "%s: more than %zu bytes", path, limit);
        }
    }
    *bytes = data;
    *size = used;
    return ST_OK;
}

enum status file_read(const char *path, size_t limit, uint8_t **bytes, size_t *size) {
    enum status st;
    bool standard_input = strcmp(path, "-") == 0;
    int fd = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(ST_IO, "%s: %s", path, strerror(errno));
    st = read_all(fd, standard_input ? "standard input" : path, limit, bytes, size);
    if (!standard_input) close(fd);
    return st;
}

enum status file_read_regular(const char *path, size_t limit, uint8_t **bytes, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    enum status st;
    if (fd < 0) return fail(ST_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        st = read_all(fd, path, limit, bytes, size);
    else
        st = fail(ST_IO, "%s: is no regular file", path);
    close(fd);
    return st;
}

/* splitmix64 (Steele 2014). */
double random_share(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}
