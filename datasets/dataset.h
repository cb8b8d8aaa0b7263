/*
 * dataset: labelled images, one at a time in a fixed order, whatever they are kept in:
 *
 *   folder     a folder above its class: DIR/<class>/x.jpg, DIR/val/<class>/more/x.jpg
 *   list       a folder and a file of labels: "path label" a line (csv, tsv or blanks)
 *   archive    tar, plain or compressed, or zip: class folders inside, or WebDataset (x.jpg beside
 *              x.cls, x.json or x.txt); "shard-{000..003}.tar" is all of them
 *   idx        the MNIST family: images-idx3-ubyte and labels-idx1-ubyte, plain or .gz
 *   cifar      CIFAR-10 and -100 in their binary version
 *   hdf5       `images` (N, H, W, 3) uint8 and `labels` (N)
 *
 * Nothing but names and classes is held: pixels and encoded files pass through. What the data calls
 * a class is a text (of a folder, a label file, a number); which class of a model that is, is
 * decided elsewhere (tools/class_map.h).
 */
#ifndef DATASETS_DATASET_H
#define DATASETS_DATASET_H

#include "datasets/image.h"
#include "kernels/base.h"

struct dataset;

struct dataset_options {
    const char *labels; /* a file of "path label" lines, or of labels alone; NULL = none */
};

/* An image to be decoded or told of; the caller owns (mem_free, image_release) what is not NULL. */
struct dataset_item {
    char *path;         /* names it: a file, or "test.tar/cat/1.jpg", "t10k-images-idx3-ubyte#17" */
    char *error;        /* why there is no image, without the path; NULL = good */
    uint8_t *bytes;     /* (size) as encoded; NULL: image, or else the file `path` */
    size_t size;        //
    struct image image; /* image.rgb not NULL: already decoded */
    long target;        /* an index for dataset_class; -1 = no label stands by it */
};

/*
 * Opens what lies at `path`. ST_USAGE: options that do not fit it; ST_IO, ST_FORMAT: it is none of
 * the forms, or one that is broken; the sentence says what was found (one class folder only, a flat
 * folder without labels, training and test files side by side) and what would be needed.
 */
enum status dataset_open(const char *path, const struct dataset_options *options,
                         struct dataset **out) MUST_CHECK;
void dataset_close(struct dataset *dataset); /* NULL is nothing */

/*
 * The next image into *item (zeroed); false at the end. What cannot be read is an item with its
 * reason in its place; where nothing can follow (an archive that ends early) it is the last one.
 * One thread at a time.
 */
bool dataset_next(struct dataset *dataset, struct dataset_item *item);
void dataset_item_release(struct dataset_item *item); /* works on a zeroed item, and twice */

/*
 * Whether the dataset's folder is gone, or empty, as when a disk is taken away: then the faults of
 * its images are not theirs. To be asked when one has failed.
 */
bool dataset_vanished(const struct dataset *dataset);

/* Images in all, 0 = known at the end only. "folder", "idx", ... */
size_t dataset_count(const struct dataset *dataset);
const char *dataset_form(const struct dataset *dataset);

/*
 * One line that another set of images would not share: form, sizes, and a checksum of names or
 * labels where they are known from the start. Not of paths, so that a copy is the same dataset.
 */
const char *dataset_identity(const struct dataset *dataset);

/*
 * What a person should know before believing the numbers ("every image lies in one folder, 'cat'";
 * "the training files beside the test files are left out"); NULL = nothing.
 */
const char *dataset_note(const struct dataset *dataset);

/*
 * What the data calls the classes, in order of appearance; more may come with every dataset_next.
 * A folder's class is the whole path of the image's folder, relative to the dataset: "val/cat".
 */
size_t dataset_class_count(const struct dataset *dataset);
const char *dataset_class(const struct dataset *dataset, size_t index);

#endif
