/*
 * dataset: looks at what lies at a path (a folder's names, a file's first bytes) and hands it to
 * the first form of the table that takes it; see dataset.h.
 */
#include "datasets/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <zlib.h>

#include "datasets/dataset_forms.h"
#include "datasets/inputs.h"

/* In the order in which they are asked; a folder of anything else is the last one's. */
static const struct dataset_form *const forms[] = {
    &dataset_list, &dataset_idx, &dataset_cifar, &dataset_hdf5, &dataset_archive, &dataset_folder};

/* ---- what the forms share ------------------------------------------------------------------- */

enum status dataset_target(struct dataset *dataset, const char *text, long *target) {
    size_t number;
    if (strlen(text) > DATASET_LONGEST_NAME)
        return fail(ST_FORMAT, "its class is a text of %zu bytes, at most %d are read",
                    strlen(text), DATASET_LONGEST_NAME);
    if (dataset->classes.count >= DATASET_MOST_CLASSES &&
        !texts_find(&dataset->classes, text, &number))
        return fail(ST_FORMAT, "its class '%.100s' is one more than %d", text,
                    DATASET_MOST_CLASSES);
    TRY(texts_add(&dataset->classes, text, &number));
    *target = (long)number;
    return ST_OK;
}

enum status dataset_target_number(struct dataset *dataset, long long value, const char *name,
                                  long *target) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", value);
    return dataset_target(dataset, name ? name : digits, target);
}

enum status dataset_without_labels(const struct dataset_source *source) {
    if (!source->labels) return ST_OK;
    return fail(ST_USAGE, "%s: holds its own labels, --labels is for a folder of images",
                source->path);
}

void dataset_item_fault(struct dataset_item *item, const char *path, const char *fmt, ...) {
    char words[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    mem_free(item->bytes);
    image_release(&item->image);
    item->bytes = NULL;
    item->size = 0;
    if (item->path != path) {
        mem_free(item->path);
        item->path = str_copy(path);
    }
    mem_free(item->error);
    item->error = str_copy(words);
}

const char *dataset_fault_of(const char *path) {
    const char *words = fail_message();
    const size_t length = strlen(path);
    if (strncmp(words, path, length) == 0 && strncmp(words + length, ": ", 2) == 0)
        return words + length + 2;
    return words;
}

const char *dataset_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *dataset_beside(const char *path, const char *name) {
    return str_format("%.*s%s", (int)(dataset_base(path) - path), path, name);
}

char *dataset_inside(const char *folder, const char *name) {
    return str_format("%s%s%s", folder, dataset_ends(folder, "/") ? "" : "/", name);
}

bool dataset_ends(const char *name, const char *suffix) {
    const size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcasecmp(name + length - tail, suffix) == 0;
}

enum status dataset_picture(const uint8_t *pixels, int width, int height, int channels,
                            struct image *out) {
    const size_t count = (size_t)width * (size_t)height;
    uint8_t *rgb = mem_zalloc(count, 3);
    if (!rgb) return ST_NOMEM;
    if (channels == 3) {
        memcpy(rgb, pixels, 3 * count);
    } else {
        for (size_t i = 0; i < count; i++)
            rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = pixels[i];
    }
    *out = (struct image){.width = width, .height = height, .rgb = rgb, .orientation = 1};
    return ST_OK;
}

/* ---- what lies there ------------------------------------------------------------------------ */

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum status name_add(char ***names, size_t *count, size_t *capacity, const char *name) {
    void *grown = *names;
    enum status st = mem_grow(&grown, capacity, *count + 1, sizeof **names);
    *names = grown;
    if (st != ST_OK) return st;
    (*names)[*count] = str_copy(name);
    return (*names)[(*count)++] ? ST_OK : ST_NOMEM;
}

/* Names of plain files; images are passed over, a folder may hold a million of them. */
static enum status look_into(DIR *dir, struct dataset_source *source) {
    char **names = NULL;
    size_t count = 0, capacity = 0, number;
    struct dirent *found;
    enum status st = ST_OK;
    while (st == ST_OK && (found = readdir(dir))) {
        struct stat info;
        char *path;
        if (found->d_name[0] == '.') continue;
        if (inputs_suffix_known(found->d_name)) {
            source->others++;
            continue;
        }
        path = str_format("%s/%s", source->path, found->d_name);
        if (!path)
            st = ST_NOMEM;
        else if (stat(path, &info) == 0 && S_ISREG(info.st_mode))
            st = name_add(&names, &count, &capacity, found->d_name);
        else
            source->others++;
        mem_free(path);
    }
    if (count > 1) qsort(names, count, sizeof *names, by_bytes);
    for (size_t i = 0; i < count; i++) {
        if (st == ST_OK && names[i]) st = texts_add(&source->names, names[i], &number);
        mem_free(names[i]);
    }
    mem_free(names);
    return st;
}

/* gzread gives plain files as they are. */
static void look_at(struct dataset_source *source) {
    gzFile file = gzopen(source->path, "rb");
    int got = file ? gzread(file, source->head, sizeof source->head) : 0;
    if (got > 0) source->head_size = (size_t)got;
    if (file) gzclose(file);
}

/*
 * A file, a folder, or a pipe that someone holds open: nobody may ever write into a named one, and
 * a device or a socket is no file.
 */
static enum status check_kind(const char *path, mode_t mode) {
    const bool handed = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    if (S_ISREG(mode) || S_ISDIR(mode) || (S_ISFIFO(mode) && handed)) return ST_OK;
    return fail(ST_USAGE, "%s: is %s, expected a file, a folder, or a pipe as /dev/stdin", path,
                S_ISFIFO(mode)   ? "a named pipe"
                : S_ISSOCK(mode) ? "a socket"
                                 : "a device");
}

static enum status look(struct dataset_source *source) {
    struct stat info;
    enum status st;
    DIR *dir;
    if (!source->path[0])
        return fail(ST_USAGE, "the path of the dataset is empty, expected a file or a folder");
    if (stat(source->path, &info) != 0) {
        if (errno != ENOENT || !strchr(source->path, '{'))
            return fail(ST_IO, "%s: %s", source->path, strerror(errno));
        return ST_OK;
    }
    TRY(check_kind(source->path, info.st_mode));
    source->folder = S_ISDIR(info.st_mode);
    source->file = !source->folder;
    source->size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    if (S_ISREG(info.st_mode)) look_at(source);
    if (!source->folder) return ST_OK;
    dir = opendir(source->path);
    if (!dir)
        return fail(ST_IO, "%s: the folder cannot be opened: %s", source->path, strerror(errno));
    st = look_into(dir, source);
    closedir(dir);
    return st;
}

/* ---- the interface -------------------------------------------------------------------------- */

/* Or gone. "" is the working folder. */
static bool folder_empty(const char *path) {
    const struct dirent *entry;
    bool any = false;
    DIR *folder = opendir(path[0] ? path : ".");
    while (folder && !any && (entry = readdir(folder)))
        any = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (folder) closedir(folder);
    return !any;
}

enum status dataset_open(const char *path, const struct dataset_options *options,
                         struct dataset **out) {
    struct dataset_source source = {.path = path, .labels = options ? options->labels : NULL};
    struct dataset *dataset = mem_zalloc(1, sizeof *dataset);
    enum status st;
    if (!dataset) return ST_NOMEM;
    TRY_OUT(look(&source));
    for (size_t i = 0; i < COUNT_OF(forms) && !dataset->form; i++)
        if (forms[i]->takes(&source)) dataset->form = forms[i];
    if (!dataset->form) {
        st = fail(ST_FORMAT,
                  "%s: is no dataset: neither a folder, nor a tar, zip, IDX, CIFAR or HDF5 file",
                  path);
        goto out;
    }
    dataset->folder = source.folder ? str_copy(path) : dataset_beside(path, "");
    if (!dataset->folder) {
        st = ST_NOMEM;
        goto out;
    }
    TRY_OUT(dataset->form->open(dataset, &source));
    dataset->held_files = !folder_empty(dataset->folder);
    *out = dataset;
    dataset = NULL;
out:
    dataset_close(dataset);
    texts_release(&source.names);
    return st;
}

void dataset_close(struct dataset *dataset) {
    if (!dataset) return;
    if (dataset->form && dataset->reader) dataset->form->close(dataset->reader);
    texts_release(&dataset->classes);
    mem_free(dataset->folder);
    mem_free(dataset->identity);
    mem_free(dataset->note);
    mem_free(dataset);
}

bool dataset_next(struct dataset *dataset, struct dataset_item *item) {
    item->target = -1;
    return dataset->form->next(dataset, item);
}

bool dataset_vanished(const struct dataset *dataset) {
    return dataset->held_files && folder_empty(dataset->folder);
}

void dataset_item_release(struct dataset_item *item) {
    mem_free(item->path);
    mem_free(item->error);
    mem_free(item->bytes);
    image_release(&item->image);
    *item = (struct dataset_item){.target = -1};
}

size_t dataset_count(const struct dataset *dataset) {
    return dataset->count;
}

const char *dataset_form(const struct dataset *dataset) {
    return dataset->form->name;
}

const char *dataset_identity(const struct dataset *dataset) {
    return dataset->identity;
}

const char *dataset_note(const struct dataset *dataset) {
    return dataset->note;
}

size_t dataset_class_count(const struct dataset *dataset) {
    return dataset->classes.count;
}

const char *dataset_class(const struct dataset *dataset, size_t index) {
    return dataset->classes.text[index];
}
