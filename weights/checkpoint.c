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

#include "weights/npz.h"
#include "weights/onnx.h"
#include "weights/safetensors.h"
#include "weights/sha256.h"

#define OTHERS_MAX 1000
#define CONFIG_MAX ((size_t)16 << 20) /* bytes of a config.json; labels of 22k classes need 2 MiB */

/* What else a file may be: bytes at an offset. Order: the longer marks first. */
static const struct {
    size_t offset, length;
    const char *mark, *what;
} foreign[] = {
    {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file (Keras, or a vitrine model already)"},
    {0, 4, "PK\x03\x04", NULL}, /* looked into below */
    {0, 6, "\x80\x02\x8a\x0a\x6c\xfc", "a PyTorch file of the old kind (.pth before torch 1.6)"},
    {0, 2, "\x80\x02", "a Python pickle"},
    {0, 2, "\x80\x04", "a Python pickle"},
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
    {257, 5, "ustar", "a tar archive"},
};

static const char npz_kind[] = "a NumPy archive (.npz)";

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

/* A zip's central directory, with the names, is at its end; the first name is at its beginning. */
static const char *zip_kind(const uint8_t *bytes, size_t size) {
    size_t tail = size > 1 << 20 ? 1 << 20 : size;
    size_t head = size > 4096 ? 4096 : size;
    if (contains(bytes + size - tail, tail, "data.pkl") || contains(bytes, head, "data.pkl"))
        return "a PyTorch file (.pth, .bin)";
    if (contains(bytes + size - tail, tail, ".npy")) return npz_kind;
    if (contains(bytes + size - tail, tail, "model.weights.h5")) return "a Keras archive (.keras)";
    return "a zip archive";
}

/* What the file is, when its first bytes say that it is no safetensors; else NULL. */
static const char *foreign_kind(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        if (size < foreign[i].offset + foreign[i].length) continue;
        if (memcmp(bytes + foreign[i].offset, foreign[i].mark, foreign[i].length) != 0) continue;
        return foreign[i].what ? foreign[i].what : zip_kind(bytes, size);
    }
    if (size > 1 && (bytes[0] == '{' || bytes[0] == '[') && (size < 9 || bytes[8] != '{'))
        return "JSON text";
    return NULL;
}

static enum status map_file(const char *path, void **out, size_t *size) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
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
    uint8_t *bytes = NULL;
    size_t size = 0;
    char *path = str_format("%s/%s", folder, name);
    if (!path) return ST_NOMEM;
    if (access(path, F_OK) == 0) {
        TRY_OUT(file_read(path, CONFIG_MAX, &bytes, &size));
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
                                        "pytorch_model.bin", "model.weights.h5", "tf_model.h5"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char *path = str_format("%s/%s", folder, names[i]);
        if (!path) return ST_NOMEM;
        if (access(path, F_OK) == 0 && i == 0) {
            *out = path;
            return ST_OK;
        }
        bool found = access(path, F_OK) == 0;
        mem_free(path);
        if (found)
            return fail(ST_FORMAT,
                        "%s: holds %s and no model.safetensors; vitrine reads one safetensors file",
                        folder, names[i]);
    }
    return fail(ST_IO, "%s: a folder without model.safetensors", folder);
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
    return foreign_kind(bytes, size) == npz_kind;
}

/* A length of 8 bytes, JSON behind it; what is nothing else is taken for it and read strictly. */
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
    &(const struct container){"npz", is_npz, npz_parse},
    &(const struct container){"ONNX", onnx_recognise, onnx_parse},
    &(const struct container){"safetensors", is_safetensors, parse_safetensors},
};

static enum status parse_file(struct checkpoint *out) {
    const char *kind;
    for (size_t i = 0; i < COUNT_OF(containers); i++) {
        if (!containers[i]->recognise(out->map, out->map_size)) continue;
        out->container = containers[i]->name;
        return containers[i]->parse(out);
    }
    kind = foreign_kind(out->map, out->map_size);
    return fail(ST_FORMAT, "%s: is %s; vitrine converts safetensors, .npz and ONNX files",
                out->weights_path, kind ? kind : "of no kind that is known");
}

static enum status open_all(const char *path, struct checkpoint *out) {
    struct stat info;
    char *folder;
    enum status st;
    out->path = str_copy(path);
    if (!out->path) return ST_NOMEM;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        TRY(folder_weights(path, &out->weights_path));
    } else if (!(out->weights_path = str_copy(path))) {
        return ST_NOMEM;
    }
    TRY(map_file(out->weights_path, &out->map, &out->map_size));
    folder = folder_of(out->weights_path);
    if (!folder) return ST_NOMEM;
    st = read_beside(folder, "config.json", &out->config_json);
    if (st == ST_OK) st = read_beside(folder, "preprocessor_config.json", &out->preprocessor_json);
    mem_free(folder);
    return st == ST_OK ? parse_file(out) : st;
}

enum status checkpoint_open(const char *path, struct checkpoint *out) {
    enum status st;
    memset(out, 0, sizeof *out);
    st = open_all(path, out);
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
    return sha256_hex(checkpoint->map, checkpoint->map_size, checkpoint->sha256);
}
