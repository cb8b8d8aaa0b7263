/*
 * checkpoint: a foreign weight file as a list of named tensors, whatever its container.
 */
#ifndef WEIGHTS_CHECKPOINT_H
#define WEIGHTS_CHECKPOINT_H

#include "weights/tensor.h"

struct checkpoint {
    char *path;             /* as given, owned */
    char *weights_path;     /* the weight file itself, owned */
    const char *container;  /* "safetensors" */
    struct tensor *tensors; /* (count), sorted by name, owned */
    size_t count;
    char *config_json;       /* text of config.json beside the weights, or NULL; owned */
    char *preprocessor_json; /* text of preprocessor_config.json, or NULL; owned */
    char sha256[65];         /* of the weight file, hexadecimal; "" until checkpoint_hash */
    void *map;               /* the mapping tensors point into */
    size_t map_size;
};

/* A file, or a folder holding config.json and model.safetensors. ST_IO, ST_FORMAT. */
enum status checkpoint_open(const char *path, struct checkpoint *out) MUST_CHECK;
void checkpoint_release(struct checkpoint *checkpoint);
const struct tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
enum status checkpoint_hash(struct checkpoint *checkpoint) MUST_CHECK;

/*
 * The safetensors reader: header checked as the format says (length, JSON, dtypes, offsets
 * without holes or overlap, exact size).
 */
enum status safetensors_parse(const uint8_t *bytes, size_t size, const char *path,
                              struct tensor **tensors, size_t *count) MUST_CHECK;

#endif
