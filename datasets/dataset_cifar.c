/*
 * dataset_cifar: CIFAR's binary version. A record is a label, or for CIFAR-100 a coarse and a fine
 * one of which the fine one counts, then 32 x 32 red, green, blue: planes, 3073 or 3074 bytes.
 */
#include <errno.h>
#include <string.h>

#include "datasets/dataset_forms.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, MOST_NAMES = 256, LARGEST_NAMES = 1 << 20 };

/* The two data sets, by the files that they come in. */
struct kind {
    const char *words;
    const char *test, *train; /* names; %d is 1 to 5 */
    const char *names;        /* file of the classes' names */
    int record, classes;
};

static const struct kind kinds[] = {
    {"CIFAR-10", "test_batch.bin", "data_batch_", "batches.meta.txt", 3 * PLANE + 1, 10},
    {"CIFAR-100", "test.bin", "train.bin", "fine_label_names.txt", 3 * PLANE + 2, 100},
};

struct reader {
    const struct kind *kind;
    struct texts paths;
    size_t at, next; /* the file, the record in it */
    FILE *file;
    char *names[MOST_NAMES]; /* NULL: not known */
};

/* The kind that keeps its test or training images in files of this name. */
static const struct kind *kind_of(const char *name, bool test) {
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *begins = test ? kinds[i].test : kinds[i].train;
        if (strncmp(name, begins, strlen(begins)) == 0 && dataset_ends(name, ".bin"))
            return &kinds[i];
    }
    return NULL;
}

static bool takes(const struct dataset_source *source) {
    const char *name = dataset_base(source->path);
    if (source->file)
        return kind_of(name, true) || kind_of(name, false) ||
               (dataset_ends(name, ".bin") && source->size &&
                (source->size % 3073 == 0 || source->size % 3074 == 0));
    for (size_t i = 0; i < source->names.count; i++)
        if (kind_of(source->names.text[i], true) || kind_of(source->names.text[i], false))
            return true;
    return false;
}

/* A folder's test file, or without one its training files. */
static enum status choose(struct dataset *dataset, const struct dataset_source *source,
                          struct reader *r) {
    bool test = false, train = false;
    for (size_t i = 0; i < source->names.count; i++) {
        test = test || kind_of(source->names.text[i], true);
        train = train || kind_of(source->names.text[i], false);
    }
    for (size_t i = 0; i < source->names.count; i++) {
        const struct kind *kind = kind_of(source->names.text[i], test);
        size_t number;
        char *path;
        enum status st;
        if (!kind) continue;
        if (r->kind && r->kind != kind)
            return fail(ST_USAGE, "%s: holds CIFAR-10 and CIFAR-100, expected one file to be named",
                        source->path);
        r->kind = kind;
        path = dataset_inside(source->path, source->names.text[i]);
        st = path ? texts_add(&r->paths, path, &number) : ST_NOMEM;
        mem_free(path);
        if (st != ST_OK) return st;
    }
    if (test && !train) return ST_OK;
    dataset->note = str_copy(test ? "the training files beside the test file are left out"
                                  : "the folder has no test file: its training files are read");
    return dataset->note ? ST_OK : ST_NOMEM;
}

static enum status choose_file(const struct dataset_source *source, struct reader *r) {
    const char *name = dataset_base(source->path);
    size_t number;
    r->kind = kind_of(name, true);
    if (!r->kind) r->kind = kind_of(name, false);
    if (!r->kind) r->kind = &kinds[source->size % (uint64_t)kinds[0].record != 0];
    return texts_add(&r->paths, source->path, &number);
}

/* The names beside the files; a label has its line's, or none. */
static enum status read_names(struct reader *r) {
    char *path = dataset_beside(r->paths.text[0], r->kind->names);
    uint8_t *bytes = NULL;
    size_t size = 0, line = 0;
    enum status st = ST_OK;
    if (!path) return ST_NOMEM;
    if (file_read(path, LARGEST_NAMES, &bytes, &size) != ST_OK) size = 0;
    mem_free(path);
    for (size_t at = 0; st == ST_OK && at < size && line < MOST_NAMES; line++) {
        const uint8_t *end = memchr(bytes + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - bytes) - at : size - at;
        size_t text = length;
        while (text && bytes[at + text - 1] <= ' ')
            text--;
        if (text && !memchr(bytes + at, 0, text)) {
            r->names[line] = str_format("%.*s", (int)text, (const char *)bytes + at);
            if (!r->names[line]) st = ST_NOMEM;
        }
        at += length + 1;
    }
    mem_free(bytes);
    return st;
}

/* Sizes, and the checksum of all bytes of all labels. */
static enum status check_file(struct dataset *dataset, const struct kind *kind, const char *path,
                              uint64_t *sum) {
    FILE *file = fopen(path, "rb");
    const off_t size = file && fseeko(file, 0, SEEK_END) == 0 ? ftello(file) : -1;
    enum status st = ST_OK;
    if (size < 0)
        st = fail(ST_IO, "%s: %s", path, strerror(errno));
    else if (size == 0 || size % kind->record)
        st = fail(ST_FORMAT, "%s: has %lld bytes, expected records of %d bytes (%s)", path,
                  (long long)size, kind->record, kind->words);
    for (off_t at = 0; st == ST_OK && at < size; at += kind->record) {
        uint8_t labels[2];
        const size_t count = (size_t)(kind->record - 3 * PLANE);
        if (fseeko(file, at, SEEK_SET) != 0 || fread(labels, 1, count, file) != count)
            st = fail(ST_IO, "%s: cannot be read", path);
        else
            *sum = checksum(*sum, labels, count);
        dataset->count++;
    }
    if (file) fclose(file);
    return st;
}

static enum status open_cifar(struct dataset *dataset, const struct dataset_source *source) {
    struct reader *r = dataset->reader = mem_zalloc(1, sizeof *r);
    uint64_t sum = CHECKSUM_START;
    if (!r) return ST_NOMEM;
    TRY(dataset_without_labels(source));
    TRY(source->folder ? choose(dataset, source, r) : choose_file(source, r));
    for (size_t i = 0; i < r->paths.count; i++)
        TRY(check_file(dataset, r->kind, r->paths.text[i], &sum));
    TRY(read_names(r));
    dataset->identity = str_format("cifar: %s, %zu images, labels %016llx", r->kind->words,
                                   dataset->count, (unsigned long long)sum);
    return dataset->identity ? ST_OK : ST_NOMEM;
}

static enum status read_image(struct dataset *dataset, struct reader *r, const uint8_t *record,
                              struct dataset_item *item) {
    const int label = record[r->kind->record - 3 * PLANE - 1];
    const uint8_t *planes = record + r->kind->record - 3 * PLANE;
    uint8_t pixels[3 * PLANE];
    if (label >= r->kind->classes)
        return fail(ST_FORMAT, "its label is %d, %s has %d classes", label, r->kind->words,
                    r->kind->classes);
    for (size_t i = 0; i < PLANE; i++)
        for (size_t c = 0; c < 3; c++)
            pixels[3 * i + c] = planes[c * PLANE + i];
    TRY(dataset_target_number(dataset, label, r->names[label], &item->target));
    return dataset_picture(pixels, SIDE, SIDE, 3, &item->image);
}

/* A file that became shorter than it was: one failed item, then the next file. */
static bool next_cifar(struct dataset *dataset, struct dataset_item *item) {
    struct reader *r = dataset->reader;
    uint8_t record[3 * PLANE + 2];
    const char *path;
    size_t got;
    for (;; r->at++, r->next = 0) {
        if (r->at == r->paths.count) return false;
        path = r->paths.text[r->at];
        if (!r->file && !(r->file = fopen(path, "rb"))) {
            dataset_item_fault(item, path, "%s", strerror(errno));
            r->at++;
            return true;
        }
        got = fread(record, 1, (size_t)r->kind->record, r->file);
        if (got == (size_t)r->kind->record) break;
        fclose(r->file);
        r->file = NULL;
        if (got == 0) continue;
        dataset_item_fault(item, path, "ends within a record");
        r->at++;
        r->next = 0;
        return true;
    }
    item->path = str_format("%s#%zu", path, r->next++);
    if (item->path && read_image(dataset, r, record, item) != ST_OK)
        dataset_item_fault(item, item->path, "%s", fail_message());
    return true;
}

static void close_cifar(void *reader) {
    struct reader *r = reader;
    if (r->file) fclose(r->file);
    for (size_t i = 0; i < MOST_NAMES; i++)
        mem_free(r->names[i]);
    texts_release(&r->paths);
    mem_free(r);
}

const struct dataset_form dataset_cifar = {"cifar", takes, open_cifar, next_cifar, close_cifar};
