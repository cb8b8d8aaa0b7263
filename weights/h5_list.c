/*
 * h5_list: the datasets of a group, and those of all groups below it; see h5.h. Every object is
 * opened by its path, so that no link is followed but hard ones.
 */
#include <stdio.h>
#include <string.h>

#include "weights/h5_internal.h"

#define WALK_DEPTH 16    /* groups within groups; transformers' TensorFlow files have 9 */
#define WALK_STEPS 32768 /* objects, times their depth: opening one costs its path. ViT-g: 16000 */

/* The state of a walk over links; HDF5 hands it to each call. */
struct link_walk {
    struct h5 *file;
    const char *group;
    struct h5_names list;
    enum status st;
};

static herr_t each_link(hid_t id, const char *name, const H5L_info_t *info, void *data) {
    struct link_walk *walk = data;
    (void)id, (void)info;
    walk->st = h5_names_add(walk->file, walk->group, &walk->list, name);
    return walk->st == ST_OK ? 0 : -1;
}

static enum status list_names(struct h5 *file, const char *group, struct h5_names *out) {
    struct link_walk walk = {.file = file, .group = group, .st = ST_OK};
    hid_t id;
    TRY(h5_open_object(file, group, ST_FORMAT, &id));
    if (H5Iget_type(id) != H5I_GROUP)
        walk.st = fail(ST_FORMAT, "%s: %s: is no group, expected one", file->name, group);
    else if (H5Literate(id, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, each_link, &walk) < 0 &&
             walk.st == ST_OK)
        walk.st = fail(ST_FORMAT, "%s: %s: cannot be listed (%s)", file->name, group, h5_reason());
    H5Oclose(id);
    h5_names_sort(&walk.list);
    *out = walk.list;
    return walk.st;
}

/* Whether the object at `path` is a dataset; links that are refused are an error. */
static enum status is_dataset(struct h5 *file, const char *path, bool *out) {
    hid_t id;
    TRY(h5_open_object(file, path, ST_FORMAT, &id));
    *out = H5Iget_type(id) == H5I_DATASET;
    H5Oclose(id);
    return ST_OK;
}

enum status h5_list(struct h5 *file, const char *group, struct h5_dataset **out, size_t *count) {
    struct h5_names list = {0};
    struct h5_dataset *datasets = NULL;
    size_t found = 0;
    enum status st;
    TRY_OUT(list_names(file, group, &list));
    datasets = mem_zalloc(list.count, sizeof *datasets);
    if (!datasets) {
        st = ST_NOMEM;
        goto out;
    }
    for (size_t i = 0; i < list.count && st == ST_OK; i++) {
        bool dataset = false;
        char *path = str_format("%s/%s", strcmp(group, "/") ? group : "", list.names[i]);
        st = path ? is_dataset(file, path, &dataset) : ST_NOMEM;
        if (st == ST_OK && dataset) st = h5_info(file, path, &datasets[found]);
        if (st == ST_OK && dataset) found++;
        mem_free(path);
    }
out:
    h5_free_names(list.names, list.count);
    if (st != ST_OK) {
        h5_free_datasets(datasets, found);
        return st;
    }
    *out = datasets;
    *count = found;
    return ST_OK;
}

void h5_free_datasets(struct h5_dataset *datasets, size_t count) {
    for (size_t i = 0; i < count && datasets; i++)
        mem_free(datasets[i].name);
    mem_free(datasets);
}

/* ---- all groups below ------------------------------------------------------------------------ */

/* A tree of hard links may have circles: depth and objects are bounded. */
struct walk {
    struct h5 *file;
    const char *root;
    struct h5_dataset *datasets;
    size_t count, capacity, steps;
};

static enum status walk_group(struct walk *walk, const char *below, int depth);

/* root, below and name as one path; one that the root ends is "/name". */
static char *join(const char *root, const char *below, const char *name) {
    return str_format("%s%s%s/%s", strcmp(root, "/") ? root : "", *below ? "/" : "", below, name);
}

static enum status walk_object(struct walk *walk, const char *below, const char *name, int depth) {
    char *path = join(walk->root, below, name);
    char *here = *below ? str_format("%s/%s", below, name) : str_copy(name);
    bool dataset = false;
    enum status st = path && here ? is_dataset(walk->file, path, &dataset) : ST_NOMEM;
    if (st == ST_OK && (walk->steps += (size_t)depth + 1) > WALK_STEPS)
        st = fail(ST_FORMAT, "%s: %s: too many objects for a model, or groups in a circle",
                  h5_name(walk->file), walk->root);
    if (st == ST_OK && !dataset) st = walk_group(walk, here, depth + 1);
    if (st == ST_OK && dataset)
        st = mem_grow((void **)&walk->datasets, &walk->capacity, walk->count + 1,
                      sizeof *walk->datasets);
    if (st == ST_OK && dataset) st = h5_info(walk->file, path, &walk->datasets[walk->count]);
    if (st == ST_OK && dataset) {
        mem_free(walk->datasets[walk->count].name);
        walk->datasets[walk->count++].name = here;
        here = NULL;
    }
    mem_free(path);
    mem_free(here);
    return st;
}

static enum status walk_group(struct walk *walk, const char *below, int depth) {
    struct h5_names list = {0};
    char *path = *below ? str_format("%s/%s", strcmp(walk->root, "/") ? walk->root : "", below)
                        : str_copy(walk->root);
    enum status st = path ? ST_OK : ST_NOMEM;
    if (st == ST_OK && depth > WALK_DEPTH)
        st = fail(ST_FORMAT, "%s: %s: groups deeper than %d, or in a circle", h5_name(walk->file),
                  walk->root, WALK_DEPTH);
    if (st == ST_OK) st = list_names(walk->file, path, &list);
    for (size_t i = 0; i < list.count && st == ST_OK; i++)
        st = walk_object(walk, below, list.names[i], depth);
    h5_free_names(list.names, list.count);
    mem_free(path);
    return st;
}

enum status h5_walk(struct h5 *file, const char *group, struct h5_dataset **out, size_t *count) {
    struct walk walk = {.file = file, .root = group};
    enum status st = walk_group(&walk, "", 0);
    if (st != ST_OK) {
        h5_free_datasets(walk.datasets, walk.count);
        return st;
    }
    *out = walk.datasets;
    *count = walk.count;
    return ST_OK;
}
