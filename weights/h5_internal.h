/*
 * h5_internal: what h5.c, h5_attr.c, h5_data.c and h5_heap.c share, and the only file of the tree
 * that includes <hdf5.h>.
 *
 * The rules that make reading safe, and where they are kept:
 *   links      h5_open_object looks at the type of every link of a path before it follows it (h5.c)
 *   strings    HDF5 never dereferences a variable-length string of a file: it believes the length
 * in
 *              the reference (up to 4 GiB) and the size in the heap, and they need not agree. The
 *              16-byte references are read raw and looked up by h5_heap_text (h5_heap.c)
 *   storage    layout, filters, dims and stored bytes are checked before a read (h5_data.c)
 */
#ifndef WEIGHTS_H5_INTERNAL_H
#define WEIGHTS_H5_INTERNAL_H

#include <hdf5.h>

#include "weights/h5.h"

#define H5_MAX_NAME  512   /* bytes of one object's or attribute's name */
#define H5_MAX_TEXT  65536 /* bytes of one string, and of one attribute */
#define H5_MAX_LIST  65536 /* objects in a group, attributes of an object */
#define H5_REFERENCE 16    /* bytes of a stored string reference: length 4, address 8, index 4 */

struct h5 {
    hid_t id;
    char *name;           /* for messages, owned */
    int fd;               /* of our own, for h5_bytes; -1 for a file in memory */
    const uint8_t *image; /* a file in memory, or NULL */
    uint64_t size, base;  /* bytes of the file; where its superblock lies */
    bool writable;
    hid_t half;      /* IEEE binary16, little endian */
    hid_t boolean;   /* h5py's bool: an enumeration FALSE, TRUE over int8 */
    hid_t text;      /* variable-length UTF-8 string */
    hid_t reference; /* opaque: how a text is read raw */

    uint8_t window[4096]; /* the bytes at window_at, window_size of them */
    uint64_t window_at;
    size_t window_size;
    uint64_t
        heap_steps; /* heap entries that may still be looked at: bounds the time of hostile files */
};

/*
 * HDF5's own innermost words about its last failure, without addresses and times; "no reason
 * given".
 */
const char *h5_reason(void);
/* Why a write to the file failed, as a write behind its end shows: the file is then of no use. */
const char *h5_write_reason(const struct h5 *file);

/*
 * Printing off in the thread that calls: HDF5 keeps that setting for each thread. Everything that
 * opens an object calls it.
 */
bool h5_quiet(void);

/* ST_IO where the file is shorter than at the start: HDF5 reads zeros behind its end. */
enum status h5_check_end(const struct h5 *file) MUST_CHECK;

/* Opens the group or dataset at an absolute path; *out is to be H5Oclose'd. Missing: `missing`. */
enum status h5_open_object(struct h5 *file, const char *path, enum status missing,
                           hid_t *out) MUST_CHECK;

/* Bytes of the file as they are stored, `offset` from its superblock. */
enum status h5_bytes(struct h5 *file, const char *object, uint64_t offset, void *dst,
                     size_t size) MUST_CHECK;

/* The text behind a raw reference; at most H5_MAX_TEXT bytes. *out is mem_free'd by the caller. */
enum status h5_heap_text(struct h5 *file, const char *object, const uint8_t *reference,
                         char **out) MUST_CHECK;

/*
 * `size` stored bytes as a string: padding cut; ST_FORMAT unless UTF-8 without control
 * characters.
 */
enum status h5_text_copy(struct h5 *file, const char *object, const char *bytes, size_t size,
                         char **out) MUST_CHECK;

/* Whether a name is 1..H5_MAX_NAME bytes of printable UTF-8. */
bool h5_name_ok(const char *name);

/* The stored type of `dtype` (bf16: uint16), negative for DT_OTHER; and the way back. */
hid_t h5_type(const struct h5 *file, enum dtype dtype);
enum dtype h5_dtype(const struct h5 *file, hid_t type);
/* "a string", "an integer", ... */
const char *h5_class_name(hid_t type);

/* Whether `type` is a variable-length string. */
bool h5_is_text(hid_t type);

/* The string attribute `name` of an open object. */
enum status h5_attribute_text(struct h5 *file, const char *object, hid_t id, const char *name,
                              char **out) MUST_CHECK;
enum status h5_attribute_set_text(struct h5 *file, const char *object, hid_t id, const char *name,
                                  const char *value) MUST_CHECK;

/* A growing list of names read from a file. */
struct h5_names {
    char **names;
    size_t count, capacity;
};
enum status h5_names_add(struct h5 *file, const char *object, struct h5_names *list,
                         const char *name) MUST_CHECK;
void h5_names_sort(struct h5_names *list);

#endif
