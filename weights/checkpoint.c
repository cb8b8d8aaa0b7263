/*
 * checkpoint: see checkpoint.h. Opens a weight file by mmap, so that a checkpoint costs address
 * space and not memory, and finds the config files beside it.
 */
#include "weights/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/checkpoint_folder.h"
#include "weights/checkpoint_kind.h"
#include "weights/checkpoint_shards.h"
#include "weights/keras.h"
#include "weights/npz.h"
#include "weights/onnx.h"
#include "weights/safetensors.h"
#include "weights/sha256.h"
#include "weights/torch.h"

#define OTHERS_MAX 1000
#define CONFIG_MAX ((size_t)16 << 20) /* bytes of a config.json; labels of 22k classes need 2 MiB */
#define SMALLEST   ((size_t)10)       /* bytes: a safetensors header of no tensor */

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

/* The folder of a path: all before the last slash. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return str_copy(".");
    return str_format("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* ---- containers ------------------------------------------------------------------------------ */

/* A length of 8 bytes and JSON behind it, which begins with a brace by the format's own rule. */
static bool is_safetensors(const uint8_t *bytes, size_t size) {
    return size > 9 && bytes[8] == '{' && checkpoint_kind(bytes, size) == NULL;
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
    &(const struct container){"npz", checkpoint_kind_is_npz, npz_parse},
    &keras_h5,
    &(const struct container){"Keras archive", checkpoint_kind_is_keras, keras_parse_archive},
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
    kind = checkpoint_kind(out->map, out->map_size);
    if (!kind && out->map_size < SMALLEST)
        return fail(ST_FORMAT, "%s: %zu bytes are no checkpoint", out->weights_path, out->map_size);
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
        likely = checkpoint_folder(path, &c.weights_path, &c.aside) == ST_OK;
        checkpoint_release(&c);
        return likely;
    }
    if (checkpoint_is_index(path)) return true;
    if (!S_ISREG(info.st_mode) || map_file(path, &c.map, &c.map_size) != ST_OK || !c.map)
        return false;
    for (size_t i = 0; i < COUNT_OF(containers) && !likely; i++)
        likely = containers[i]->recognise(c.map, c.map_size);
    checkpoint_release(&c);
    return likely;
}

char *checkpoint_file(const struct checkpoint *checkpoint, size_t index) {
    static const char *const beside[] = {"config.json", "preprocessor_config.json"};
    const size_t shards = checkpoint->shard_count, others = checkpoint->other_count;
    if (index == 0) return str_copy(checkpoint->weights_path);
    if (--index < shards) return str_copy(checkpoint->shards[index].weights_path);
    if ((index -= shards) < others) return str_copy(checkpoint->others[index].path);
    if ((index -= others) >= COUNT_OF(beside)) return NULL;
    return str_format("%s/%s", checkpoint->folder, beside[index]);
}

static enum status open_all(const char *path, struct checkpoint *out) {
    struct stat info;
    out->path = str_copy(path);
    if (!out->path) return ST_NOMEM;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        out->folder = str_copy(path);
        TRY(checkpoint_folder(path, &out->weights_path, &out->aside));
    } else {
        out->folder = folder_of(path);
        out->weights_path = str_copy(path);
    }
    if (!out->folder || !out->weights_path) return ST_NOMEM;
    TRY(read_beside(out->folder, "config.json", &out->config_json));
    TRY(read_beside(out->folder, "preprocessor_config.json", &out->preprocessor_json));
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
    mem_free(checkpoint->folder);
    mem_free(checkpoint->config_json);
    mem_free(checkpoint->preprocessor_json);
    mem_free(checkpoint->converter_json);
    mem_free(checkpoint->backbone_json);
    mem_free(checkpoint->classifier);
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

/* The mapped files of a checkpoint into runs (NULL: only counted), then those of its shards. */
static size_t add_runs(const struct checkpoint *checkpoint, struct sha256_run *runs, size_t count) {
    if (checkpoint->map && runs)
        runs[count] = (struct sha256_run){checkpoint->map, checkpoint->map_size};
    count += checkpoint->map != NULL;
    for (size_t i = 0; i < checkpoint->other_count; i++, count++) {
        const struct checkpoint_file *file = &checkpoint->others[i];
        if (runs) runs[count] = (struct sha256_run){file->map, file->map_size};
    }
    for (size_t i = 0; i < checkpoint->shard_count; i++)
        count = add_runs(&checkpoint->shards[i], runs, count);
    return count;
}

enum status checkpoint_hash(struct checkpoint *checkpoint) {
    const size_t count = add_runs(checkpoint, NULL, 0);
    struct sha256_run *runs = mem_zalloc(count, sizeof *runs);
    enum status st;
    if (!runs) return ST_NOMEM;
    add_runs(checkpoint, runs, 0);
    st = sha256_runs(runs, count, checkpoint->sha256);
    mem_free(runs);
    return st;
}
