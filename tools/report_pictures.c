/* report_pictures: thumbnails of the most confident errors; see report.h. */
#include <string.h>

#include "tools/report.h"

enum { JPEG_QUALITY = 82, PNG_SIDE = 64 /* a small picture keeps every pixel */ };

/* Why there is none: the thread's sentence, without the path in front. */
static enum status set_missing(struct report_picture *picture, const char *path,
                               const char *sentence) {
    const size_t length = strlen(path);
    if (strncmp(sentence, path, length) == 0 && strncmp(sentence + length, ": ", 2) == 0)
        sentence += length + 2;
    picture->bytes.size = 0;
    picture->missing = str_copy(sentence);
    return picture->missing ? ST_OK : ST_NOMEM;
}

static enum status take(struct report_picture *picture, const char *path,
                        const struct image *image) {
    struct image small;
    enum status st = picture_thumbnail(image, REPORT_SIDE, &small);
    if (st != ST_OK) return set_missing(picture, path, fail_message());
    picture->png = small.width <= PNG_SIDE && small.height <= PNG_SIDE;
    if (picture->png)
        st = picture_png(small.rgb, small.width, small.height, 3, &picture->bytes);
    else
        st = picture_jpeg(small.rgb, small.width, small.height, JPEG_QUALITY, &picture->bytes);
    image_release(&small);
    return st == ST_OK ? ST_OK : set_missing(picture, path, fail_message());
}

/* Decodes what the item names or holds. */
static enum status take_item(struct report_picture *picture, struct dataset_item *item,
                             const struct image_options *options) {
    enum status st = ST_OK;
    if (item->error) return set_missing(picture, item->path, item->error);
    if (item->bytes)
        st = image_decode(item->bytes, item->size, options, &item->image);
    else if (!item->image.rgb)
        st = image_read(item->path, options, &item->image);
    if (st != ST_OK) return set_missing(picture, item->path, fail_message());
    return take(picture, item->path, &item->image);
}

/* The first of that path which has no picture yet; -1 = none. */
static int place_of(const struct report_pictures *out, const struct evaluation *e,
                    const char *path) {
    for (int i = 0; i < e->worst_count; i++)
        if (!out->of[i].bytes.size && !out->of[i].missing && strcmp(e->worst[i].path, path) == 0)
            return i;
    return -1;
}

static enum status find_in(struct report_pictures *out, const struct evaluation *e,
                           struct dataset *dataset, const struct image_options *options) {
    struct dataset_item item = {0};
    enum status st = ST_OK;
    for (int found = 0; st == ST_OK && found < e->worst_count;) {
        int at;
        if (!dataset_next(dataset, &item)) break;
        at = item.path ? place_of(out, e, item.path) : -1;
        if (at >= 0) {
            st = take_item(&out->of[at], &item, options);
            found++;
        }
        dataset_item_release(&item);
    }
    return st;
}

static enum status find_files(struct report_pictures *out, const struct evaluation *e,
                              const struct image_options *options) {
    for (int i = 0; i < e->worst_count; i++) {
        struct dataset_item item = {.path = e->worst[i].path};
        enum status st = take_item(&out->of[i], &item, options);
        image_release(&item.image);
        TRY(st);
    }
    return ST_OK;
}

enum status report_pictures_find(struct report_pictures *out, const struct evaluation *e,
                                 struct dataset *dataset, const struct image_options *options) {
    TRY(dataset ? find_in(out, e, dataset, options) : find_files(out, e, options));
    return report_pictures_missing(out, e, "the dataset has no image of this name");
}

enum status report_pictures_missing(struct report_pictures *out, const struct evaluation *e,
                                    const char *reason) {
    for (int i = 0; i < e->worst_count; i++)
        if (!out->of[i].bytes.size && !out->of[i].missing)
            TRY(set_missing(&out->of[i], e->worst[i].path, reason));
    return ST_OK;
}

void report_pictures_release(struct report_pictures *pictures) {
    for (int i = 0; i < EVALUATION_WORST; i++) {
        picture_bytes_release(&pictures->of[i].bytes);
        mem_free(pictures->of[i].missing);
        pictures->of[i].missing = NULL;
    }
}
