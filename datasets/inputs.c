/* inputs: see inputs.h. */
#define _DEFAULT_SOURCE /* d_type, which spares a stat per file where the file system has it */
#include "datasets/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { DEEPEST = 200 };
#define LARGEST_LIST ((size_t)INT_MAX) /* so that a line's length is an int */

const char *const image_suffixes[] = {"jpg", "jpeg", "jpe",  "jfif", "png", "bmp",  "dib",  "gif",
                                      "tga", "psd",  "ppm",  "pgm",  "pbm", "pnm",  "webp", "apng",
                                      "tif", "tiff", "heic", "heif", "hif", "avif", NULL};

bool inputs_suffix_known(const char *name) {
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && image_suffixes[i]; i++)
        if (strcasecmp(dot + 1, image_suffixes[i]) == 0) return true;
    return false;
}

/* ---- the store ------------------------------------------------------------------------------ */

/* *offset of a copy of `piece` in text; offset 0 is the empty string and stands for "none". */
static enum status store(struct inputs *in, const char *piece, size_t *offset) {
    size_t length = strlen(piece) + 1;
    void *text = in->text;
    enum status st = mem_grow(&text, &in->text_capacity, in->text_used + length + 1, 1);
    in->text = text;
    if (st != ST_OK) return st;
    if (in->text_used == 0) in->text_used = 1; /* mem_grow zeroed it */
    memcpy(in->text + in->text_used, piece, length);
    *offset = in->text_used;
    in->text_used += length;
    return ST_OK;
}

/* An entry folder + name; with a reason when it is known to have failed. */
static enum status add(struct inputs *in, size_t folder, const char *name, const char *error) {
    struct input_entry entry = {.folder = folder};
    void *entries = in->entries;
    enum status st;
    TRY(store(in, name, &entry.name));
    if (error) TRY(store(in, error, &entry.error));
    st = mem_grow(&entries, &in->capacity, in->count + 1, sizeof entry);
    in->entries = entries;
    if (st == ST_OK) in->entries[in->count++] = entry;
    return st;
}

enum status inputs_add(struct inputs *in, const char *path, const char *error) {
    return add(in, 0, path, error);
}

char *inputs_path(const struct inputs *in, size_t index, const char **error) {
    const struct input_entry *entry = &in->entries[index];
    *error = entry->error ? in->text + entry->error : NULL;
    return str_format("%s%s", in->text + entry->folder, in->text + entry->name);
}

void inputs_release(struct inputs *in) {
    mem_free(in->entries);
    mem_free(in->text);
    mem_free(in->links);
    memset(in, 0, sizeof *in);
}

/* ---- folders -------------------------------------------------------------------------------- */

/* The folders that one lies in, outward: a link back to one of them is a loop. */
struct chain {
    const struct chain *outer;
    dev_t device;
    ino_t number;
    int depth;
};

struct listing {
    char **names; /* (count), folders with a '/' behind; owned */
    size_t count, capacity;
};

static void listing_release(struct listing *list) {
    for (size_t i = 0; i < list->count; i++)
        mem_free(list->names[i]);
    mem_free(list->names);
    *list = (struct listing){0};
}

/* By bytes; a folder's '/' takes part, so that the order is that of the whole paths. */
static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What a name in a folder is: nothing of ours, an image to try, or a folder. */
enum sort { NOTHING, IMAGE, FOLDER };

static enum sort sort_of(const char *folder, const struct dirent *found) {
    const char *name = found->d_name;
    struct stat info;
    char *path;
    int missing;
    if (name[0] == '.') return NOTHING;
#ifdef DT_REG
    if (found->d_type == DT_REG) return inputs_suffix_known(name) ? IMAGE : NOTHING;
#endif
    path = str_format("%s%s", folder, name);
    if (!path) return NOTHING;
    missing = stat(path, &info);
    mem_free(path);
    /* A dangling link, or one whose end cannot be reached, is an image that will say why. */
    if (missing) return inputs_suffix_known(name) ? IMAGE : NOTHING;
    if (S_ISDIR(info.st_mode)) return FOLDER;
    return S_ISREG(info.st_mode) && inputs_suffix_known(name) ? IMAGE : NOTHING;
}

static enum status list_folder(DIR *dir, const char *folder, struct listing *list) {
    struct dirent *found;
    while ((found = readdir(dir))) {
        enum sort sort = sort_of(folder, found);
        void *names = list->names;
        enum status st;
        if (sort == NOTHING) continue;
        st = mem_grow(&names, &list->capacity, list->count + 1, sizeof *list->names);
        list->names = names;
        if (st != ST_OK) return st;
        list->names[list->count] = str_format("%s%s", found->d_name, sort == FOLDER ? "/" : "");
        if (!list->names[list->count++]) return ST_NOMEM;
    }
    if (list->count > 1) qsort(list->names, list->count, sizeof *list->names, by_bytes);
    return ST_OK;
}

static bool is_loop(const struct chain *outer, const struct stat *info) {
    for (; outer; outer = outer->outer)
        if (outer->device == info->st_dev && outer->number == info->st_ino) return true;
    return false;
}

/*
 * Whether `folder` is reached by a link, and was so before: each is followed once, or links that
 * fork would multiply. Plain folders are a tree and need no memory.
 */
static enum status seen_link(struct inputs *in, const char *folder, const struct stat *info,
                             bool *seen) {
    size_t length = strlen(folder);
    char *bare = str_format("%.*s", (int)(length > 1 ? length - 1 : length), folder);
    struct stat link;
    void *links = in->links;
    bool is_link = bare && lstat(bare, &link) == 0 && S_ISLNK(link.st_mode);
    mem_free(bare);
    *seen = false;
    if (!is_link) return bare ? ST_OK : ST_NOMEM;
    for (size_t i = 0; i < in->link_count && !*seen; i++)
        *seen = in->links[i].device == info->st_dev && in->links[i].number == info->st_ino;
    if (*seen) return ST_OK;
    TRY(mem_grow(&links, &in->link_capacity, in->link_count + 1, sizeof *in->links));
    in->links = links;
    in->links[in->link_count].device = info->st_dev;
    in->links[in->link_count++].number = info->st_ino;
    return ST_OK;
}

/* Everything below `folder` (which ends in '/'). */
static enum status add_folder(struct inputs *in, const char *folder, const struct chain *outer) {
    struct chain here = {.outer = outer, .depth = outer ? outer->depth + 1 : 0};
    struct listing list = {0};
    struct stat info;
    enum status st;
    size_t stored;
    DIR *dir;
    if (stat(folder, &info) == 0) {
        bool seen = is_loop(outer, &info);
        if (!seen && outer) TRY(seen_link(in, folder, &info, &seen));
        if (seen) return ST_OK;
        here.device = info.st_dev;
        here.number = info.st_ino;
    }
    if (here.depth > DEEPEST) return add(in, 0, folder, "folders are nested too deeply");
    dir = opendir(folder);
    if (!dir) {
        (void)fail(ST_IO, "the folder cannot be opened: %s", strerror(errno));
        return add(in, 0, folder, fail_message());
    }
    st = list_folder(dir, folder, &list);
    closedir(dir); /* before going down: open folders do not pile up */
    if (st == ST_OK) st = store(in, folder, &stored);
    for (size_t i = 0; st == ST_OK && i < list.count; i++) {
        const char *name = list.names[i];
        if (name[strlen(name) - 1] == '/') {
            char *below = str_format("%s%s", folder, name);
            st = below ? add_folder(in, below, &here) : ST_NOMEM;
            mem_free(below);
        } else {
            st = add(in, stored, name, NULL);
        }
    }
    listing_release(&list);
    return st;
}

/* ---- arguments and lists -------------------------------------------------------------------- */

static enum status add_path(struct inputs *in, const char *path) {
    struct stat info;
    size_t before = in->count, length = strlen(path);
    char *folder;
    enum status st;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return add(in, 0, path, NULL);
    folder = str_format("%s%s", path, length && path[length - 1] == '/' ? "" : "/");
    st = folder ? add_folder(in, folder, NULL) : ST_NOMEM;
    mem_free(folder);
    if (st != ST_OK || in->count > before) return st;
    return add(in, 0, path, "the folder holds no image: no file with a suffix like .jpg or .png");
}

static enum status take_stdin(struct inputs *in) {
    if (in->stdin_taken) return fail(ST_USAGE, "standard input can be named only once (- or @-)");
    in->stdin_taken = true;
    return ST_OK;
}

/* One line of a list: a path, or nothing. "-" in a list is a file of that name. */
static enum status add_line(struct inputs *in, const uint8_t *bytes, size_t length) {
    enum status st;
    char *line;
    if (length && bytes[length - 1] == '\r') length--;
    if (length == 0) return ST_OK;
    line = str_format("%s%.*s", length == 1 && bytes[0] == '-' ? "./" : "", (int)length,
                      (const char *)bytes);
    st = line ? add_path(in, line) : ST_NOMEM;
    mem_free(line);
    return st;
}

/* `argument` is "@LIST", and is what the row of a list that cannot be read is called. */
static enum status add_list(struct inputs *in, const char *argument) {
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};
    size_t size, at = 0, before = in->count;
    uint8_t *bytes = NULL;
    enum status st = ST_OK;
    if (file_read(argument + 1, LARGEST_LIST, &bytes, &size) != ST_OK)
        return add(in, 0, argument, fail_message());
    if (memchr(bytes, 0, size)) {
        st = add(in, 0, argument, "the list holds zero bytes, want UTF-8 text, a path a line");
        at = size;
    }
    if (size - at >= sizeof mark && memcmp(bytes, mark, sizeof mark) == 0) at = sizeof mark;
    while (st == ST_OK && at < size) {
        const uint8_t *end = memchr(bytes + at, '\n', size - at);
        size_t length = end ? (size_t)(end - bytes) - at : size - at;
        st = add_line(in, bytes + at, length);
        at += length + 1;
    }
    mem_free(bytes);
    if (st != ST_OK || in->count > before) return st;
    return add(in, 0, argument, "the list names no file");
}

enum status inputs_open(struct inputs *in, char *const *args, int count) {
    enum status st = ST_OK;
    *in = (struct inputs){0};
    for (int i = 0; st == ST_OK && i < count; i++) {
        const char *arg = args[i];
        bool list = arg[0] == '@' && arg[1];
        if (strcmp(arg, "-") == 0 || strcmp(arg, "@-") == 0) st = take_stdin(in);
        if (st == ST_OK) st = list ? add_list(in, arg) : add_path(in, arg);
    }
    if (st != ST_OK) inputs_release(in);
    return st;
}
