/* checkpoint_folder: see checkpoint_folder.h. */
#include "weights/checkpoint_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONNX       "model.onnx"
#define FILES_MOST 10000 /* of a folder, looked at */

/* The names of a folder that end in .onnx, but for model.onnx; sorted, each to be mem_free'd. */
struct variants {
    char **names; // (count)
    size_t count, capacity;
};

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Those of folder/below, "onnx/" or "", behind those that are listed. */
static enum status list_variants(const char *folder, const char *below, struct variants *out) {
    char *path = str_format("%s/%s", folder, below);
    DIR *list = path ? opendir(path) : NULL;
    enum status st = path ? ST_OK : ST_NOMEM;
    const struct dirent *item;
    for (int i = 0; st == ST_OK && list && i < FILES_MOST && (item = readdir(list)); i++) {
        const size_t length = strlen(item->d_name);
        if (length < 6 || strcmp(item->d_name + length - 5, ".onnx") != 0) continue;
        if (strcmp(item->d_name, ONNX) == 0) continue;
        st = mem_grow((void **)&out->names, &out->capacity, out->count + 1, sizeof *out->names);
        if (st == ST_OK && !(out->names[out->count++] = str_format("%s%s", below, item->d_name)))
            st = ST_NOMEM;
    }
    if (list) closedir(list);
    mem_free(path);
    if (st == ST_OK && out->count) qsort(out->names, out->count, sizeof *out->names, by_name);
    return st;
}

/* model.onnx in the folder or in onnx/; *weights NULL: there is none. `rest`: the others. */
static enum status find_onnx(const char *folder, char **weights, struct word_list *rest) {
    static const char *const belows[] = {"", "onnx/"};
    struct variants variants = {0};
    enum status st = ST_OK;
    for (size_t i = 0; i < COUNT_OF(belows) && st == ST_OK && !*weights; i++) {
        *weights = str_format("%s/%s" ONNX, folder, belows[i]);
        if (!*weights) st = ST_NOMEM;
        if (st == ST_OK) st = list_variants(folder, belows[i], &variants);
        if (st == ST_OK && access(*weights, F_OK) == 0) break;
        mem_free(*weights);
        *weights = NULL;
    }
    for (size_t i = 0; i < variants.count; i++) {
        if (variants.names[i]) word_list_add(rest, "%s", variants.names[i]);
        mem_free(variants.names[i]);
    }
    mem_free(variants.names);
    return st;
}

static enum status take_onnx(const char *folder, char **weights, char **aside) {
    struct word_list rest = {.most = 6};
    TRY(find_onnx(folder, weights, &rest));
    if (!*weights && rest.shown)
        return fail(ST_IO, "%s: a folder without " ONNX ", only with variants of it; name one: %s",
                    folder, word_list_text(&rest));
    if (!*weights)
        return fail(ST_IO,
                    "%s: a folder without model.safetensors, pytorch_model.bin, tf_model.h5, "
                    "model.weights.h5 or " ONNX,
                    folder);
    if (!rest.shown) return ST_OK;
    *aside = str_format("%s (variants of the same model)", word_list_text(&rest));
    return *aside ? ST_OK : ST_NOMEM;
}

enum status checkpoint_folder(const char *folder, char **weights, char **aside) {
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json",
                                        "tf_model.h5",       "model.weights.h5",
                                        "model.weights.json"};
    if (access(folder, R_OK | X_OK) != 0) return fail(ST_IO, "%s: %s", folder, strerror(errno));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char *path = str_format("%s/%s", folder, names[i]);
        if (!path) return ST_NOMEM;
        bool found = access(path, F_OK) == 0;
        if (found && i < 6) {
            *weights = path;
            return ST_OK;
        }
        mem_free(path);
        if (found)
            return fail(ST_FORMAT, "%s: holds %s, which vitrine does not convert", folder,
                        names[i]);
    }
    return take_onnx(folder, weights, aside);
}
