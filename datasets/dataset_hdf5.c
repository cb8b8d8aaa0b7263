/*
 * dataset_hdf5: `images` (N, H, W, 3) or (N, H, W) uint8 and `labels` (N) integers of any width;
 * `label_names` where there are names: that of label i is its i-th. Read in blocks of rows through
 * weights/h5.h; HDF5 is for one thread at a time, so nobody else may use it meanwhile.
 */
#include <string.h>

#include "datasets/dataset_forms.h"
#include "weights/h5.h"

#define BLOCK_BYTES ((size_t)4 << 20)
enum { LARGEST_SIDE = 65535 };

struct reader {
    struct h5 *file;
    char *path;
    int width, height, channels;
    size_t rows;     /* of a block, at least 1 */
    uint8_t *pixels; /* (rows, height, width, channels) */
    int64_t *labels; /* (rows) */
    size_t next;
    bool by_row;  /* the block was not read whole: an image of its own each time */
    char **names; /* (name_count) */
    size_t name_count;
};

static bool takes(const struct dataset_source *source) {
    return source->file && source->head_size >= 8 &&
           memcmp(source->head, "\x89HDF\r\n\x1a\n", 8) == 0;
}

static enum status check_images(struct reader *r, size_t *count) {
    struct h5_dataset info = {0};
    const size_t *d = info.dims;
    char shape[200];
    bool fits;
    TRY(h5_info(r->file, "/images", &info));
    mem_free(info.name);
    fits = info.dtype == DT_U8 && (info.rank == 3 || (info.rank == 4 && d[3] == 3)) && d[0] &&
           d[1] && d[2] && d[1] <= LARGEST_SIDE && d[2] <= LARGEST_SIDE &&
           d[1] * d[2] <= image_defaults().max_pixels;
    if (!fits)
        return fail(ST_SHAPE, "%s: /images: is %s %s, expected uint8 (N, H, W, 3) or (N, H, W)",
                    r->path, dtype_name(info.dtype), shape_text(d, info.rank, shape, sizeof shape));
    r->height = (int)d[1];
    r->width = (int)d[2];
    r->channels = info.rank == 4 ? 3 : 1;
    *count = d[0];
    const size_t bytes = d[1] * d[2] * (size_t)r->channels;
    r->rows = bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
    if (r->rows > *count) r->rows = *count;
    r->pixels = mem_zalloc(r->rows, bytes);
    r->labels = mem_zalloc(r->rows, sizeof *r->labels);
    return r->pixels && r->labels ? ST_OK : ST_NOMEM;
}

/* One label an image, and the checksum of all. */
static enum status check_labels(struct reader *r, size_t count, uint64_t *sum) {
    struct h5_dataset info = {0};
    TRY(h5_info(r->file, "/labels", &info));
    mem_free(info.name);
    if (info.rank != 1 || info.dims[0] != count) {
        char shape[200];
        return fail(ST_SHAPE, "%s: /labels: is %s, expected (%zu), a label an image", r->path,
                    shape_text(info.dims, info.rank, shape, sizeof shape), count);
    }
    for (size_t first = 0; first < count; first += r->rows) {
        const size_t rows = count - first < r->rows ? count - first : r->rows;
        TRY(h5_read_integers(r->file, "/labels", first, rows, r->labels));
        for (size_t i = 0; i < rows; i++) {
            char digits[24];
            snprintf(digits, sizeof digits, "%lld", (long long)r->labels[i]);
            *sum = checksum(*sum, digits, strlen(digits) + 1);
        }
    }
    return ST_OK;
}

static enum status open_hdf5(struct dataset *dataset, const struct dataset_source *source) {
    struct reader *r = dataset->reader = mem_zalloc(1, sizeof *r);
    uint64_t sum = CHECKSUM_START;
    if (!r) return ST_NOMEM;
    TRY(dataset_without_labels(source));
    r->path = str_copy(source->path);
    if (!r->path) return ST_NOMEM;
    TRY(h5_open(source->path, &r->file));
    TRY(check_images(r, &dataset->count));
    TRY(check_labels(r, dataset->count, &sum));
    if (h5_has(r->file, "/label_names"))
        TRY(h5_read_strings(r->file, "/label_names", DATASET_MOST_CLASSES, &r->names,
                            &r->name_count));
    dataset->identity =
        str_format("hdf5: %zu images of %d x %d x %d, labels %016llx", dataset->count, r->width,
                   r->height, r->channels, (unsigned long long)sum);
    return dataset->identity ? ST_OK : ST_NOMEM;
}

static size_t image_bytes(const struct reader *r) {
    return (size_t)r->width * (size_t)r->height * (size_t)r->channels;
}

/* Images [next, next + rows) to where they lie in the block. */
static enum status read_rows(struct reader *r, size_t rows) {
    const size_t row = r->next % r->rows;
    TRY(h5_read_rows(r->file, "/images", DT_U8, r->next, rows, r->pixels + row * image_bytes(r)));
    return h5_read_integers(r->file, "/labels", r->next, rows, r->labels + row);
}

static enum status read_image(struct dataset *dataset, struct reader *r, size_t row,
                              struct dataset_item *item) {
    const size_t bytes = image_bytes(r);
    const int64_t label = r->labels[row];
    const bool named = label >= 0 && (uint64_t)label < r->name_count;
    if (r->name_count && !named && label >= 0)
        return fail(ST_FORMAT, "its label is %lld, and label_names has %zu", (long long)label,
                    r->name_count);
    TRY(dataset_picture(r->pixels + row * bytes, r->width, r->height, r->channels, &item->image));
    if (label < 0) return ST_OK; /* -1 says that there is none */
    return dataset_target_number(dataset, label, named ? r->names[label] : NULL, &item->target);
}

/* Where a block cannot be read (a broken chunk), its images are read one by one. */
static bool next_hdf5(struct dataset *dataset, struct dataset_item *item) {
    struct reader *r = dataset->reader;
    const size_t row = r->next % r->rows, left = dataset->count - r->next;
    enum status st = ST_OK;
    if (left == 0) return false;
    if (row == 0) r->by_row = read_rows(r, left < r->rows ? left : r->rows) != ST_OK;
    if (r->by_row) st = read_rows(r, 1);
    item->path = str_format("%s#%zu", r->path, r->next++);
    if (item->path && st == ST_OK) st = read_image(dataset, r, row, item);
    if (item->path && st != ST_OK)
        dataset_item_fault(item, item->path, "%s", dataset_fault_of(r->path));
    return true;
}

static void close_hdf5(void *reader) {
    struct reader *r = reader;
    if (h5_close(&r->file) != ST_OK) r->file = NULL; /* it was only read */
    h5_free_names(r->names, r->name_count);
    mem_free(r->pixels);
    mem_free(r->labels);
    mem_free(r->path);
    mem_free(r);
}

const struct dataset_form dataset_hdf5 = {"hdf5", takes, open_hdf5, next_hdf5, close_hdf5};
