/*
 * dataset_idx: the MNIST family. Big-endian: two zero bytes, type (8: uint8), number of dims, the
 * dims, the elements: images (N, H, W) or (N, H, W, 3), labels (N), in two files; plain or gzip.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "datasets/dataset_forms.h"
#include "datasets/image_decoders.h"

enum { MAGIC = 4, LARGEST_SIDE = 65535 };

/* One IDX file as it is read. */
struct idx {
    gzFile file;
    char *path;
    bool packed;
    size_t dims[4];
    size_t rank;
};

struct reader {
    struct idx images, labels;
    size_t next;
    int width, height, channels;
    uint8_t *pixels; /* (height, width, channels) */
    bool told;       /* that nothing follows */
};

/* ---- one file ------------------------------------------------------------------------------- */

static void idx_close(struct idx *idx) {
    if (idx->file) gzclose(idx->file);
    mem_free(idx->path);
    *idx = (struct idx){0};
}

/* Exactly `size` bytes, less than 2 GiB; the sentence begins with the path. */
static enum status idx_read(struct idx *idx, void *dst, size_t size) {
    const int got = gzread(idx->file, dst, (unsigned)size);
    int code = Z_OK;
    const char *words = gzerror(idx->file, &code);
    if (got >= 0 && (size_t)got == size) return ST_OK;
    if (got < 0 || (code != Z_OK && code != Z_BUF_ERROR))
        return fail(ST_FORMAT, "%s: is damaged: %s", idx->path, words);
    return fail(ST_FORMAT, "%s: ends early", idx->path);
}

/* That nothing follows, and that gzip's checksum is right. */
static enum status idx_end(struct idx *idx) {
    uint8_t byte;
    const int got = gzread(idx->file, &byte, 1);
    int code = Z_OK;
    const char *words = gzerror(idx->file, &code);
    if (got > 0) return fail(ST_FORMAT, "%s: goes on behind its last element", idx->path);
    if (got < 0 || code != Z_OK)
        return fail(ST_FORMAT, "%s: is damaged at its end: %s", idx->path, words);
    return ST_OK;
}

/* Elements claimed against the file's size; deflate shrinks by 1032:1 at most. */
static enum status check_size(const struct idx *idx, uint64_t size) {
    size_t bytes = MAGIC + 4 * idx->rank, elements = 1;
    bool fits = true;
    for (size_t i = 0; i < idx->rank; i++)
        fits = fits && size_mul(elements, idx->dims[i], &elements);
    if (!fits || !size_add(bytes, elements, &bytes))
        return fail(ST_FORMAT, "%s: its dimensions multiply beyond any memory", idx->path);
    if (idx->packed ? bytes / 1032 > size : bytes != size)
        return fail(ST_FORMAT, "%s: has %llu bytes%s, expected %zu by its dimensions", idx->path,
                    (unsigned long long)size, idx->packed ? " of gzip" : "", bytes);
    return ST_OK;
}

static enum status read_dims(struct idx *idx) {
    uint8_t head[MAGIC], dim[4];
    TRY(idx_read(idx, head, sizeof head));
    if (head[0] || head[1])
        return fail(ST_FORMAT, "%s: is no IDX file: begins with 0x%02x%02x%02x%02x", idx->path,
                    head[0], head[1], head[2], head[3]);
    if (head[2] != 8)
        return fail(ST_FORMAT, "%s: holds elements of IDX type 0x%02x, expected 0x08 (bytes)",
                    idx->path, head[2]);
    if (head[3] < 1 || head[3] > COUNT_OF(idx->dims))
        return fail(ST_FORMAT, "%s: has %d dimensions, expected 1 (labels), 3 or 4 (images)",
                    idx->path, head[3]);
    idx->rank = head[3];
    for (size_t i = 0; i < idx->rank; i++) {
        TRY(idx_read(idx, dim, sizeof dim));
        idx->dims[i] = image_be32(dim);
    }
    return ST_OK;
}

static enum status idx_open(struct idx *idx, const char *path) {
    FILE *plain = fopen(path, "rb");
    off_t size = plain && fseeko(plain, 0, SEEK_END) == 0 ? ftello(plain) : -1;
    if (plain) fclose(plain);
    idx->path = str_copy(path);
    if (!idx->path) return ST_NOMEM;
    idx->file = size >= 0 ? gzopen(path, "rb") : NULL;
    if (!idx->file) return fail(ST_IO, "%s: cannot be read", path);
    TRY(read_dims(idx));
    idx->packed = !gzdirect(idx->file);
    return check_size(idx, (uint64_t)size);
}

/* ---- which files ---------------------------------------------------------------------------- */

static bool is_images(const char *name) {
    return strstr(name, "images") && (strstr(name, "idx3") || strstr(name, "idx4"));
}

/* Of a folder's file that is there packed as well, the packed one is passed over. */
static bool is_twice(const struct texts *names, const char *name) {
    const size_t length = strlen(name) - (dataset_ends(name, ".gz") ? 3 : 0);
    size_t number;
    char *plain = name[length] ? str_format("%.*s", (int)length, name) : NULL;
    const bool twice = plain && texts_find(names, plain, &number);
    mem_free(plain);
    return twice;
}

/* The images of the test set, else the only ones. */
static enum status choose(struct dataset *dataset, const struct dataset_source *source,
                          const char **name) {
    const char *test = NULL, *other = NULL;
    size_t tests = 0, others = 0;
    for (size_t i = 0; i < source->names.count; i++) {
        const char *found = source->names.text[i];
        if (!is_images(found) || is_twice(&source->names, found)) continue;
        if (strstr(found, "t10k") || strstr(found, "test")) {
            test = found;
            tests++;
        } else {
            other = found;
            others++;
        }
    }
    if (tests > 1 || (tests == 0 && others > 1))
        return fail(ST_USAGE, "%s: holds %zu sets of images, expected the file of one to be named",
                    source->path, tests ? tests : others);
    *name = test ? test : other;
    if (test && others)
        dataset->note = str_format("of the folder's files %s is read, %s is left out", test, other);
    else if (!test && other)
        dataset->note = str_format("the folder has no test files: %s is read", other);
    else
        return ST_OK;
    return dataset->note ? ST_OK : ST_NOMEM;
}

/* `path` with its base name's `from`, which must be there, made `to`. */
static char *with(const char *path, const char *from, const char *to) {
    const char *at = strstr(dataset_base(path), from);
    return str_format("%.*s%s%s", (int)(at - path), path, to, at + strlen(from));
}

/* Whether `path`, or it with .gz at its end, is there; *path is replaced. */
static bool find_packed(char **path) {
    FILE *file = fopen(*path, "rb");
    char *packed;
    if (file) {
        fclose(file);
        return true;
    }
    packed = str_format("%s.gz", *path);
    file = packed ? fopen(packed, "rb") : NULL;
    if (!file) {
        mem_free(packed);
        return false;
    }
    fclose(file);
    mem_free(*path);
    *path = packed;
    return true;
}

/* "t10k-images-idx3-ubyte.gz" -> "t10k-labels-idx1-ubyte", with '-' or '.', with .gz or without. */
static enum status find_labels(const char *images, char **out) {
    static const char *const ranks[] = {"idx3", "idx4"};
    const char *rank = strstr(dataset_base(images), ranks[0]) ? ranks[0] : ranks[1];
    char *words, *path;
    if (!is_images(dataset_base(images)))
        return fail(ST_USAGE,
                    "%s: where its labels are cannot be told from a name without 'images' and "
                    "'idx3', expected --labels FILE",
                    images);
    words = with(images, "images", "labels");
    path = words ? with(words, rank, "idx1") : NULL;
    mem_free(words);
    if (!path) return ST_NOMEM;
    if (dataset_ends(path, ".gz")) path[strlen(path) - 3] = '\0';
    if (!find_packed(&path)) {
        char *separator = strstr(dataset_base(path), "idx1") - 1;
        if (separator < path || !strchr("-.", *separator))
            separator = NULL;
        else
            *separator = *separator == '-' ? '.' : '-';
        if (!separator || !find_packed(&path)) {
            if (separator) *separator = *separator == '-' ? '.' : '-';
            (void)fail(ST_IO, "%s: its labels are not beside it, expected %s", images, path);
            mem_free(path);
            return ST_IO;
        }
    }
    *out = path;
    return ST_OK;
}

/* ---- the dataset ---------------------------------------------------------------------------- */

static bool takes(const struct dataset_source *source) {
    static const uint8_t head[] = {0, 0, 8};
    if (!source->folder)
        return source->head_size > 3 && memcmp(source->head, head, sizeof head) == 0 &&
               source->head[3] >= 1 && source->head[3] <= 4;
    for (size_t i = 0; i < source->names.count; i++)
        if (is_images(source->names.text[i])) return true;
    return false;
}

static enum status check_images(struct reader *r) {
    const struct idx *images = &r->images;
    const size_t *d = images->dims;
    if (images->rank == 1)
        return fail(ST_USAGE, "%s: holds labels, expected the images beside them to be named",
                    images->path);
    if (images->rank < 3 || (images->rank == 4 && d[3] != 3 && d[3] != 1))
        return fail(ST_FORMAT, "%s: has %zu dimensions%s, expected (N, H, W) or (N, H, W, 3)",
                    images->path, images->rank, images->rank == 4 ? " with others than 3" : "");
    if (d[0] == 0 || d[1] == 0 || d[2] == 0 || d[1] > LARGEST_SIDE || d[2] > LARGEST_SIDE ||
        d[1] * d[2] > image_defaults().max_pixels)
        return fail(ST_FORMAT,
                    "%s: holds %zu images of %zu x %zu, expected some, of 1 to %d a side",
                    images->path, d[0], d[2], d[1], LARGEST_SIDE);
    r->height = (int)d[1];
    r->width = (int)d[2];
    r->channels = images->rank == 4 ? (int)d[3] : 1;
    r->pixels = mem_zalloc(d[1] * d[2], (size_t)r->channels);
    return r->pixels ? ST_OK : ST_NOMEM;
}

/* All labels pass once, for the checksum; the file is read again with the images. */
static enum status check_labels(struct dataset *dataset, struct reader *r, uint64_t *sum) {
    struct idx *labels = &r->labels;
    uint8_t block[4096];
    if (labels->rank != 1)
        return fail(ST_FORMAT, "%s: has %zu dimensions, expected labels (N)", labels->path,
                    labels->rank);
    if (labels->dims[0] != r->images.dims[0])
        return fail(ST_FORMAT, "%s: holds %zu labels for the %zu images of %s", labels->path,
                    labels->dims[0], r->images.dims[0], r->images.path);
    for (size_t left = labels->dims[0]; left;) {
        const size_t count = left < sizeof block ? left : sizeof block;
        TRY(idx_read(labels, block, count));
        *sum = checksum(*sum, block, count);
        left -= count;
    }
    TRY(idx_end(labels));
    if (gzseek(labels->file, MAGIC + 4, SEEK_SET) < 0)
        return fail(ST_IO, "%s: cannot be read twice", labels->path);
    dataset->count = labels->dims[0];
    return ST_OK;
}

static enum status open_idx(struct dataset *dataset, const struct dataset_source *source) {
    struct reader *r = dataset->reader = mem_zalloc(1, sizeof *r);
    char *images = NULL, *labels = NULL;
    const char *name = NULL;
    uint64_t sum = CHECKSUM_START;
    enum status st = r ? ST_OK : ST_NOMEM;
    if (st == ST_OK && source->folder) st = choose(dataset, source, &name);
    if (st != ST_OK) return st;
    images =
        name ? str_format("%s%s%s", source->path, dataset_ends(source->path, "/") ? "" : "/", name)
             : str_copy(source->path);
    if (!images) return ST_NOMEM;
    TRY_OUT(idx_open(&r->images, images));
    TRY_OUT(check_images(r));
    if (source->labels) {
        labels = str_copy(source->labels);
        st = labels ? ST_OK : ST_NOMEM;
    } else {
        st = find_labels(images, &labels);
    }
    if (st != ST_OK) goto out;
    TRY_OUT(idx_open(&r->labels, labels));
    TRY_OUT(check_labels(dataset, r, &sum));
    dataset->identity =
        str_format("idx: %zu images of %d x %d x %d, labels %016llx", dataset->count, r->width,
                   r->height, r->channels, (unsigned long long)sum);
    if (!dataset->identity) st = ST_NOMEM;
out:
    mem_free(images);
    mem_free(labels);
    return st;
}

static enum status read_image(struct dataset *dataset, struct reader *r,
                              struct dataset_item *item) {
    const size_t bytes = (size_t)r->width * (size_t)r->height * (size_t)r->channels;
    uint8_t label;
    TRY(idx_read(&r->images, r->pixels, bytes));
    TRY(idx_read(&r->labels, &label, 1));
    TRY(dataset_picture(r->pixels, r->width, r->height, r->channels, &item->image));
    return dataset_target_number(dataset, label, NULL, &item->target);
}

/* A file that ends early or is damaged ends the dataset with one failed item. */
static bool next_idx(struct dataset *dataset, struct dataset_item *item) {
    struct reader *r = dataset->reader;
    const char *path = r->images.path;
    if (r->told) return false;
    if (r->next == dataset->count) {
        r->told = true;
        if (idx_end(&r->images) == ST_OK) return false;
        dataset_item_fault(item, path, "%s", dataset_fault_of(path));
        return true;
    }
    item->path = str_format("%s#%zu", path, r->next++);
    if (read_image(dataset, r, item) != ST_OK) {
        r->told = true;
        dataset_item_fault(item, path, "%s", dataset_fault_of(path));
    }
    return true;
}

static void close_idx(void *reader) {
    struct reader *r = reader;
    idx_close(&r->images);
    idx_close(&r->labels);
    mem_free(r->pixels);
    mem_free(r);
}

const struct dataset_form dataset_idx = {"idx", takes, open_idx, next_idx, close_idx};
