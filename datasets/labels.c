/* labels: see labels.h. */
#include "datasets/labels.h"

#include <string.h>

/* Far above any real list: ImageNet-22k is 1 MB and 21841 classes. */
#define LABELS_FILE_LIMIT ((size_t)16 << 20)
#define LABELS_MOST       ((size_t)1000000)

void labels_release(struct labels *labels) {
    for (int i = 0; i < labels->count; i++) {
        if (labels->id) mem_free(labels->id[i]);
        if (labels->name) mem_free(labels->name[i]);
    }
    mem_free(labels->id);
    mem_free(labels->name);
    memset(labels, 0, sizeof *labels);
}

/* Empty lists for `count` classes. */
static enum status labels_alloc(struct labels *labels, size_t count) {
    memset(labels, 0, sizeof *labels);
    labels->id = mem_zalloc(count, sizeof *labels->id);
    labels->name = mem_zalloc(count, sizeof *labels->name);
    if (!labels->id || !labels->name) {
        labels_release(labels);
        return ST_NOMEM;
    }
    labels->count = (int)count;
    return ST_OK;
}

enum status labels_set(struct labels *labels, int count, const char *const *id,
                       const char *const *name) {
    struct labels fresh;
    if (count < 0) return fail(ST_USAGE, "labels: a count of %d classes", count);
    TRY(labels_alloc(&fresh, (size_t)count));
    for (int i = 0; i < count; i++) {
        fresh.id[i] = str_copy(id[i]);
        fresh.name[i] = str_copy(name[i]);
        if (!fresh.id[i] || !fresh.name[i]) {
            labels_release(&fresh);
            return ST_NOMEM;
        }
    }
    *labels = fresh;
    return ST_OK;
}

enum status labels_builtin(struct labels *labels, const char *name) {
    if (strcmp(name, "imagenet-1k") != 0)
        return fail(ST_USAGE, "there are no built-in labels '%s'; there is 'imagenet-1k'", name);
    return labels_set(labels, 1000, imagenet_1k_ids, imagenet_1k_names);
}

static char *text_slice(const uint8_t *text, size_t length) {
    char *copy = mem_zalloc(length + 1, 1);
    if (copy) memcpy(copy, text, length);
    return copy;
}

/* One line, without its end: checks it and sets class `at`. */
static enum status labels_line(struct labels *labels, size_t at, const uint8_t *line,
                               size_t length) {
    const uint8_t *tab = NULL;
    if (length == 0) return fail(ST_FORMAT, "line %zu is empty, want a label a line", at + 1);
    for (size_t i = 0; i < length;) {
        size_t step = utf8_length(line + i, length - i);
        if (step == 0) return fail(ST_FORMAT, "line %zu is not UTF-8", at + 1);
        if (line[i] == '\t' && !tab)
            tab = line + i;
        else if (line[i] < 0x20 || line[i] == 0x7F)
            return fail(ST_FORMAT,
                        "line %zu holds the control byte 0x%02x, want id<TAB>name or "
                        "a name",
                        at + 1, line[i]);
        i += step;
    }
    if (tab && (tab == line || tab == line + length - 1))
        return fail(ST_FORMAT, "line %zu has an empty %s, want id<TAB>name", at + 1,
                    tab == line ? "id" : "name");
    labels->id[at] = text_slice(line, tab ? (size_t)(tab - line) : length);
    labels->name[at] =
        tab ? text_slice(tab + 1, length - (size_t)(tab - line) - 1) : text_slice(line, length);
    return labels->id[at] && labels->name[at] ? ST_OK : ST_NOMEM;
}

/* The line at `text`: its length without LF or CRLF; *next is what follows it. */
static size_t line_length(const uint8_t *text, const uint8_t *end, const uint8_t **next) {
    const uint8_t *newline = memchr(text, '\n', (size_t)(end - text));
    size_t length = (size_t)((newline ? newline : end) - text);
    *next = newline ? newline + 1 : end;
    return length > 0 && text[length - 1] == '\r' ? length - 1 : length;
}

static enum status labels_parse(struct labels *labels, const uint8_t *text, size_t size) {
    const uint8_t *end = text + size, *p, *next;
    struct labels fresh;
    size_t count = 0;
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3; /* byte order mark */
    for (p = text; p < end; p = next, count++)
        line_length(p, end, &next);
    if (count == 0) return fail(ST_FORMAT, "is empty, want a label a line");
    if (count > LABELS_MOST)
        return fail(ST_FORMAT, "has %zu lines, at most %zu classes are taken", count, LABELS_MOST);
    TRY(labels_alloc(&fresh, count));
    count = 0;
    for (p = text; p < end; p = next, count++) {
        size_t length = line_length(p, end, &next);
        enum status st = labels_line(&fresh, count, p, length);
        if (st != ST_OK) {
            labels_release(&fresh);
            return st;
        }
    }
    *labels = fresh;
    return ST_OK;
}

enum status labels_read(struct labels *labels, const char *path) {
    uint8_t *text;
    size_t size;
    enum status st;
    TRY(file_read_regular(path, LABELS_FILE_LIMIT, &text, &size));
    st = labels_parse(labels, text, size);
    mem_free(text);
    return st == ST_OK ? ST_OK : fail_prefix(st, path);
}
