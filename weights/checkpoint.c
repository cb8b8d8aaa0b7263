/*
 * checkpoint: see checkpoint.h. Opens a weight file by mmap, so that a checkpoint costs address
 * space and not memory; finds the config files beside it; and says what a file is that vitrine
 * does not read.
 */
#include "weights/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/checkpoint_shards.h"
#include "weights/keras.h"
#include "weights/npz.h"
#include "weights/onnx.h"
#include "weights/safetensors.h"
#include "weights/sha256.h"
#include "weights/torch.h"

#define OTHERS_MAX 1000
#define CONFIG_MAX ((size_t)16 << 20) /* bytes of a config.json; labels of 22k classes need 2 MiB */

/* What else a file may be: bytes at an offset. Order: the longer marks first. */
static const struct {
    size_t offset, length;
    const char *mark, *what;
} foreign[] = {
    {0, 8, "\x89HDF\r\n\x1a\n", NULL}, /* looked into below, as is a zip */
    {0, 4, "PK\x03\x04", NULL},
    {0, 2, "\x80\x02", "a Python pickle, and none of torch.save"},
    {0, 2, "\x80\x03", "a Python pickle, and none of torch.save"},
    {0, 2, "\x80\x04", "a Python pickle, and none of torch.save"},
    {0, 2, "\x80\x05", "a Python pickle, and none of torch.save"},
    {0, 6, "\x93NUMPY", "one NumPy array (.npy) without a name; a checkpoint is an .npz"},
    {0, 24, "version https://git-lfs.",
     "a Git LFS pointer: the weights themselves were not downloaded (git lfs pull)"},
    {0, 4, "GGUF", "a GGUF file"},
    {0, 2, "\x1f\x8b", "gzip-compressed"},
    {0, 4, "\x89PNG", "a PNG picture"},
    {0, 3, "\xff\xd8\xff", "a JPEG picture"},
    {0, 9, "<!DOCTYPE", "an HTML page: the download gave a page and not the file"},
    {0, 9, "<!doctype", "an HTML page: the download gave a page and not the file"},
    {0, 5, "<html", "an HTML page: the download gave a page and not the file"},
    {0, 1, "<", "XML or HTML text"},
    {257, 5, "ustar",
     "a tar archive: unpack it; or, of torch before 0.1.10, load and save it with a newer one"},
};

static const char npz_kind[] = "a NumPy archive (.npz)";
static const char keras_kind[] = "a Keras archive (.keras)";

static bool contains(const uint8_t *bytes, size_t size, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++) {
        const uint8_t *hit = memchr(bytes + i, word[0], size - length + 1 - i);
        if (!hit) return false;
        i = (size_t)(hit - bytes);
        if (memcmp(hit, word, length) == 0) return true;
    }
    return false;
}

/* A zip's central directory, with the names, is at its end. */
static const char *zip_kind(const uint8_t *bytes, size_t size) {
    size_t tail = size > 1 << 20 ? 1 << 20 : size;
    if (contains(bytes + size - tail, tail, ".npy")) return npz_kind;
    if (contains(bytes + size - tail, tail, "model.weights.h5")) return keras_kind;
    return "a zip archive";
}

/* What the file is, when its first bytes say that no reader takes it; else NULL. */
static const char *foreign_kind(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        if (size < foreign[i].offset + foreign[i].length) continue;
        if (memcmp(bytes + foreign[i].offset, foreign[i].mark, foreign[i].length) != 0) continue;
        if (foreign[i].what) return foreign[i].what;
        return bytes[0] == 'P' ? zip_kind(bytes, size) : keras_foreign(bytes, size);
    }
    if (size > 1 && (bytes[0] == '{' || bytes[0] == '[') && (size < 9 || bytes[8] != '{'))
        return "JSON text";
    return NULL;
}

static enum status map_file(const char *path, void **out, size_t *size) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for ever */
    void *map;
    if (fd < 0) return fail(ST_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return fail(ST_IO, "%s: is no regular file", path);
    }
    if (info.st_size == 0) {
        close(fd);
        return fail(ST_FORMAT, "%s: is empty", path);
    }
    map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return fail(ST_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    *out = map;
    *size = (size_t)info.st_size;
    return ST_OK;
}

enum status checkpoint_map(struct checkpoint *checkpoint, const char *path, const uint8_t **bytes,
                           size_t *size) {
    size_t capacity = checkpoint->other_count, i = 0;
    while (i < checkpoint->other_count && strcmp(checkpoint->others[i].path, path) != 0)
        i++;
    if (i == checkpoint->other_count) {
        if (i == OTHERS_MAX)
            return fail(ST_FORMAT, "%s: spreads over more than %d files", checkpoint->weights_path,
                        OTHERS_MAX);
        TRY(mem_grow((void **)&checkpoint->others, &capacity, i + 1, sizeof *checkpoint->others));
        struct checkpoint_file *file = &checkpoint->others[i];
        TRY(map_file(path, &file->map, &file->map_size));
        checkpoint->other_count++;
        if (!(file->path = str_copy(path))) return ST_NOMEM;
    }
    *bytes = checkpoint->others[i].map;
    *size = checkpoint->others[i].map_size;
    return ST_OK;
}

/* The text of FOLDER/name, NULL when there is no such file. */
static enum status read_beside(const char *folder, const char *name, char **out) {
    enum status st = ST_OK;
    struct stat info;
    uint8_t *bytes = NULL;
    size_t size = 0;
    char *path = str_format("%s/%s", folder, name);
    if (!path) return ST_NOMEM;
    if (stat(path, &info) == 0) {
        TRY_OUT(file_read_regular(path, CONFIG_MAX, &bytes, &size));
        if (memchr(bytes, 0, size)) {
            st = fail(ST_FORMAT, "%s: is no text", path);
            goto out;
        }
        *out = mem_zalloc(size + 1, 1);
        if (!*out)
            st = ST_NOMEM;
        else
            memcpy(*out, bytes, size);
    }
out:
    mem_free(bytes);
    mem_free(path);
    return st;
}

/* The weight file of a folder, and why it cannot be used when it is another one. */
static enum status folder_weights(const char *folder, char **out) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json",
                                        "tf_model.h5",       "model.weights.h5",
                                        "model.weights.json"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char *path = str_format("%s/%s", folder, names[i]);
        if (!path) return ST_NOMEM;
        bool found = access(path, F_OK) == 0;
        if (found && i < 6) {
            *out = path;
            return ST_OK;
        }
        mem_free(path);
        if (found)
            return fail(ST_FORMAT, "%s: holds %s, which vitrine does not convert", folder,
                        names[i]);
    }
    return fail(ST_IO,
                "%s: a folder without model.safetensors, pytorch_model.bin, tf_model.h5 "
                "or model.weights.h5",
                folder);
}

/* The folder of a path: all before the last slash. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return str_copy(".");
    return str_format("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* ---- containers ------------------------------------------------------------------------------ */

/* A zip whose entries are .npy files. */
static bool is_npz(const uint8_t *bytes, size_t size) {
    return bytes[0] == 'P' && foreign_kind(bytes, size) == npz_kind;
}

static bool is_keras_archive(const uint8_t *bytes, size_t size) {
    return bytes[0] == 'P' && foreign_kind(bytes, size) == keras_kind;
}

/* A length of 8 bytes and JSON behind it; what is nothing else is taken for it, read strictly. */
static bool is_safetensors(const uint8_t *bytes, size_t size) {
    return foreign_kind(bytes, size) == NULL;
}

/* The file may carry its config along. */
static enum status parse_safetensors(struct checkpoint *out) {
    TRY(safetensors_parse(out->map, out->map_size, out->weights_path, &out->tensors, &out->count));
    if (!out->config_json)
        out->config_json = safetensors_metadata(out->map, out->map_size, "config");
    return ST_OK;
}

/* The first that recognises the bytes. */
static const struct container *const containers[] = {
    &torch_zip,
    &torch_legacy,
    &(const struct container){"npz", is_npz, npz_parse},
    &keras_h5,
    &(const struct container){"Keras archive", is_keras_archive, keras_parse_archive},
    &(const struct container){"ONNX", onnx_recognise, onnx_parse},
    &(const struct container){"safetensors", is_safetensors, parse_safetensors},
};

static enum status parse_file(struct checkpoint *out) {
    const char *kind;
    for (size_t i = 0; i < COUNT_OF(containers); i++) {
        if (!containers[i]->recognise(out->map, out->map_size)) continue;
        out->container = containers[i]->name;
        TRY(containers[i]->parse(out));
        if (!out->key || out->wrapper) return ST_OK;
        return fail(ST_USAGE, "%s: --key is for PyTorch files; this one (%s) holds one model",
                    out->weights_path, out->container);
    }
    kind = foreign_kind(out->map, out->map_size);
    return fail(ST_FORMAT,
                "%s: is %s; vitrine converts safetensors, PyTorch, .npz, ONNX and Keras "
                "files",
                out->weights_path, kind ? kind : "of no kind that is known");
}

bool checkpoint_likely(const char *path) {
    struct checkpoint c = {0};
    struct stat info;
    bool likely = false;
    if (stat(path, &info) != 0) return false;
    if (S_ISDIR(info.st_mode)) {
        likely = folder_weights(path, &c.weights_path) == ST_OK;
        mem_free(c.weights_path);
        return likely;
    }
    if (checkpoint_is_index(path)) return true;
    if (!S_ISREG(info.st_mode) || map_file(path, &c.map, &c.map_size) != ST_OK || !c.map)
        return false;
    for (size_t i = 0; i < COUNT_OF(containers) && !likely; i++) {
        likely = containers[i]->recognise(c.map, c.map_size);
        if (likely && containers[i]->parse == parse_safetensors) /* what is nothing else, too */
            likely = c.map_size > 9 && ((const uint8_t *)c.map)[8] == '{';
    }
    checkpoint_release(&c);
    return likely;
}

char *checkpoint_file(const struct checkpoint *checkpoint, size_t index) {
    static const char *const beside[] = {"config.json", "preprocessor_config.json"};
    const size_t shards = checkpoint->shard_count, others = checkpoint->other_count;
    char *folder, *path = NULL;
    if (index == 0) return str_copy(checkpoint->weights_path);
    if (--index < shards) return str_copy(checkpoint->shards[index].weights_path);
    if ((index -= shards) < others) return str_copy(checkpoint->others[index].path);
    if ((index -= others) >= COUNT_OF(beside)) return NULL;
    folder = folder_of(checkpoint->weights_path);
    if (folder) path = str_format("%s/%s", folder, beside[index]);
    mem_free(folder);
    return path;
}

/* The config files beside the weights. */
static enum status read_configs(struct checkpoint *out) {
    char *folder = folder_of(out->weights_path);
    enum status st;
    if (!folder) return ST_NOMEM;
    st = read_beside(folder, "config.json", &out->config_json);
    if (st == ST_OK) st = read_beside(folder, "preprocessor_config.json", &out->preprocessor_json);
    mem_free(folder);
    return st;
}

static enum status open_all(const char *path, struct checkpoint *out) {
    struct stat info;
    out->path = str_copy(path);
    if (!out->path) return ST_NOMEM;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        TRY(folder_weights(path, &out->weights_path));
    } else if (!(out->weights_path = str_copy(path))) {
        return ST_NOMEM;
    }
    TRY(read_configs(out));
    if (checkpoint_is_index(out->weights_path)) return checkpoint_open_shards(out);
    TRY(map_file(out->weights_path, &out->map, &out->map_size));
    return parse_file(out);
}

enum status checkpoint_open(const char *path, const char *key, struct checkpoint *out) {
    enum status st;
    memset(out, 0, sizeof *out);
    out->key = key;
    st = open_all(path, out);
    if (st != ST_OK) checkpoint_release(out);
    return st;
}

enum status checkpoint_open_file(const char *path, struct checkpoint *out) {
    enum status st = ST_NOMEM;
    memset(out, 0, sizeof *out);
    out->path = str_copy(path);
    out->weights_path = str_copy(path);
    if (out->path && out->weights_path) st = map_file(out->weights_path, &out->map, &out->map_size);
    if (st == ST_OK) st = parse_file(out);
    if (st != ST_OK) checkpoint_release(out);
    return st;
}

void checkpoint_release(struct checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint->count; i++)
        mem_free(checkpoint->tensors[i].name);
    mem_free(checkpoint->tensors);
    for (size_t i = 0; i < checkpoint->other_count; i++) {
        mem_free(checkpoint->others[i].path);
        munmap(checkpoint->others[i].map, checkpoint->others[i].map_size);
    }
    mem_free(checkpoint->others);
    mem_free(checkpoint->memory);
    mem_free(checkpoint->path);
    mem_free(checkpoint->weights_path);
    mem_free(checkpoint->config_json);
    mem_free(checkpoint->preprocessor_json);
    mem_free(checkpoint->wrapper);
    mem_free(checkpoint->aside);
    for (size_t i = 0; i < checkpoint->shard_count; i++)
        checkpoint_release(&checkpoint->shards[i]);
    mem_free(checkpoint->shards);
    if (checkpoint->map) munmap(checkpoint->map, checkpoint->map_size);
    memset(checkpoint, 0, sizeof *checkpoint);
}

const struct tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name) {
    size_t lo = 0, hi = checkpoint->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(name, checkpoint->tensors[mid].name);
        if (order == 0) return &checkpoint->tensors[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

enum status checkpoint_hash(struct checkpoint *checkpoint) {
    const size_t count = checkpoint->shard_count;
    struct sha256_run *runs;
    enum status st;
    if (!count) return sha256_hex(checkpoint->map, checkpoint->map_size, checkpoint->sha256);
    runs = mem_zalloc(count, sizeof *runs);
    if (!runs) return ST_NOMEM;
    for (size_t i = 0; i < count; i++)
        runs[i] = (struct sha256_run){checkpoint->shards[i].map, checkpoint->shards[i].map_size};
    st = sha256_runs(runs, count, checkpoint->sha256);
    mem_free(runs);
    return st;
}
