/*
 * checkpoint: a foreign weight file as a list of named tensors, whatever its container.
 */
#ifndef WEIGHTS_CHECKPOINT_H
#define WEIGHTS_CHECKPOINT_H

#include "weights/tensor.h"

/* A mapped file. */
struct checkpoint_file {
    char *path;
    void *map;
    size_t map_size;
};

struct checkpoint {
    char *path;             /* as given, owned */
    char *weights_path;     /* the weight file itself, owned */
    char *folder;           /* where config files are looked for, owned; NULL for a shard */
    const char *container;  /* its name, "safetensors" */
    struct tensor *tensors; /* (count), sorted by name, owned */
    size_t count;
    char *config_json;       /* text of config.json beside the weights, or NULL; owned */
    char *preprocessor_json; /* text of preprocessor_config.json, or NULL; owned */
    char *converter_json;    /* text of keras_hub's ImageConverter's config, or NULL; owned */
    char *backbone_json;     /* text of the arguments of keras_hub's backbone, or NULL; owned */
    char *classifier; /* keras_hub's class of the model, where it has a head; or NULL; owned */
    char sha256[65];  /* of the weight file(s), hexadecimal; "" until checkpoint_hash */
    void *map;        /* the file, mapped; NULL when shards hold the tensors */
    size_t map_size;
    void *memory;    /* mem_free'd with it: what the reader had to unpack; or NULL */
    const char *key; /* which of several models, as given to checkpoint_open; or NULL */
    char *wrapper;   /* the keys around the model that were peeled off, "model"; or NULL; owned */
    char *aside;     /* what else the file holds, as a list to be read; or NULL; owned */
    struct checkpoint *shards; /* (shard_count): files of an index, in its order, owned; or NULL */
    size_t shard_count;
    struct checkpoint_file *others; /* (other_count), owned: mapped files beside it */
    size_t other_count;
    double norm_eps; /* as the file itself says, or 0 */
    const char
        *activation; /* "gelu", "gelu_tanh", "quick_gelu" as the file says, or NULL; static */
};

/*
 * A file; an index of several (*.index.json); or a folder with one of them under its usual name
 * (checkpoint_folder.h) and config.json. `key`:
 * which model of a file that holds more than one, its keys with dots between; NULL chooses as
 * README.md says. ST_IO, ST_FORMAT, ST_USAGE.
 */
enum status checkpoint_open(const char *path, const char *key, struct checkpoint *out) MUST_CHECK;
void checkpoint_release(struct checkpoint *checkpoint);
const struct tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name);
/*
 * Over the weight file and what else was mapped for it, one after the other, in the order of first
 * use; of an index over those of its files, in the order in which it first names them.
 */
enum status checkpoint_hash(struct checkpoint *checkpoint) MUST_CHECK;
/*
 * The files that it is read from, and those beside it that would be, by index from 0; NULL after
 * the last, or without memory. To be mem_free'd.
 */
char *checkpoint_file(const struct checkpoint *checkpoint, size_t index);
/* Whether `path` begins as weights do that checkpoint_open reads, or is a folder of them. */
bool checkpoint_likely(const char *path);

/*
 * Maps another file of the checkpoint; unmapped by checkpoint_release. A path that was mapped
 * before is found again. ST_IO, ST_FORMAT (empty), ST_NOMEM.
 */
enum status checkpoint_map(struct checkpoint *checkpoint, const char *path, const uint8_t **bytes,
                           size_t *size) MUST_CHECK;

/*
 * A kind of weight file. The readers are listed in checkpoint.c, the one that recognises the bytes
 * reads them.
 */
struct container {
    const char *name; /* for messages */
    bool (*recognise)(const uint8_t *bytes, size_t size);
    /*
     * Fills tensors (tensors_sort'ed) and count of *out, their data in out->map or out->memory;
     * config_json too, where the container has one and no file beside it had. The bytes are
     * out->map, the file's name for sentences is out->weights_path; where the file can hold several
     * models, out->key is the wanted one, out->wrapper and out->aside say what was done. Whatever
     * the file says of itself may be a lie: every size is checked, nothing is executed. ST_FORMAT,
     * ST_NOMEM.
     */
    enum status (*parse)(struct checkpoint *out) MUST_CHECK;
};

/*
 * The safetensors reader: header checked as the format says (length, JSON, dtypes, offsets
 * without holes or overlap, exact size).
 */
enum status safetensors_parse(const uint8_t *bytes, size_t size, const char *path,
                              struct tensor **tensors, size_t *count) MUST_CHECK;

#endif
