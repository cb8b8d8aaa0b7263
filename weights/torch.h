/*
 * torch: the files of torch.save (torch/serialization.py): the zip archive of torch 1.6 and
 * later, and the stream of pickles and storages before it ("legacy"). torch.c finds the object
 * pickle and the storages, torch_tensors.c the model among the values, torch_rebuild.c the tensors.
 */
#ifndef WEIGHTS_TORCH_H
#define WEIGHTS_TORCH_H

#include "weights/checkpoint.h"
#include "weights/pickle.h"

/* Readers for the table of checkpoint.c. */
extern const struct container torch_zip, torch_legacy;

/* A run of raw elements, in the file's mapping. */
struct torch_storage {
    const char *key; /* (key_size), not owned */
    size_t key_size;
    const uint8_t *bytes; /* (size) */
    size_t size;
    uint32_t crc; /* of the bytes, as the archive says; 0: it does not */
    bool used;    /* by a tensor of the model */
};

struct torch_file {
    const char *path;                 /* for sentences */
    const struct pickle_value *value; /* what was saved */
    struct torch_storage *storages;   /* (count), sorted by key, owned */
    size_t count;
};

/* An element type by its storage class ("FloatStorage") or its torch.dtype ("float32"). */
struct torch_type {
    const char *storage, *name;
    enum dtype dtype;
    size_t size; /* bytes of an element */
};
/* A GLOBAL of either; NULL for another. Untyped storages count in bytes. */
const struct torch_type *torch_type_find(const struct pickle_value *global);

/* torch.c: NULL when there is none of that key; else it is used. */
const struct torch_storage *torch_storage_use(const struct torch_file *file, const char *key,
                                              size_t size);

/* torch_rebuild.c: whether it is a tensor, of any kind; and such a tensor, described. */
struct torch_view {
    const struct torch_type *type;
    int rank;
    size_t dims[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK]; /* in elements */
    const uint8_t *data;                                    /* its first element */
    size_t count;                                           /* elements: the product of dims */
    bool contiguous;                                        /* row-major as it lies */
};
bool torch_is_tensor(const struct pickle_value *value);
/* Every element proven to lie in its storage. ST_FORMAT; `name` is for sentences. */
enum status torch_view_of(const struct torch_file *file, const char *name,
                          const struct pickle_value *value, struct torch_view *out) MUST_CHECK;
/* dst (count) row-major. */
void torch_view_copy(const struct torch_view *view, uint8_t *dst);

/*
 * torch_tensors.c: the state dict of out->key, or the one that the rules of README.md choose, as
 * out->tensors; out->wrapper and out->aside say what was peeled and left. ST_FORMAT, ST_USAGE,
 * ST_NOMEM.
 */
enum status torch_tensors(const struct torch_file *file, struct checkpoint *out) MUST_CHECK;

#endif
