/* dataset_folder: an image's class is its folder; and the reader of files that a list shares. */
#include <string.h>

#include "datasets/dataset_forms.h"

enum status dataset_files_open(const char *path, struct dataset_files **out, size_t *root) {
    const size_t length = strlen(path);
    char *argument = str_copy(path);
    enum status st;
    if (!argument) return ST_NOMEM;
    *out = mem_zalloc(1, sizeof **out);
    *root = length + (length && path[length - 1] != '/');
    st = *out ? inputs_open(&(*out)->inputs, &argument, 1) : ST_NOMEM;
    mem_free(argument);
    return st;
}

bool dataset_files_next(struct dataset *dataset, struct dataset_item *item) {
    struct dataset_files *files = dataset->reader;
    const char *error;
    if (files->next == files->inputs.count) return false;
    item->target = files->targets[files->next];
    item->path = inputs_path(&files->inputs, files->next++, &error);
    if (item->path && error) dataset_item_fault(item, item->path, "%s", error);
    return true;
}

void dataset_files_close(void *reader) {
    struct dataset_files *files = reader;
    inputs_release(&files->inputs);
    mem_free(files->targets);
    mem_free(files);
}

static bool takes(const struct dataset_source *source) {
    return source->folder;
}

/* Every image's target, and how many have none; a folder's images lie side by side. */
static enum status find_targets(struct dataset *dataset, struct dataset_files *files, size_t root,
                                uint64_t *sum, size_t *flat) {
    const struct inputs *in = &files->inputs;
    size_t last = 0;
    long target = -1;
    for (size_t i = 0; i < in->count; i++) {
        const struct input_entry *entry = &in->entries[i];
        const char *folder = in->text + entry->folder;
        files->targets[i] = -1;
        if (entry->folder == 0) continue; /* a folder that could not be opened */
        if (entry->folder != last) {
            char *text = str_copy(folder + root);
            enum status st = text ? ST_OK : ST_NOMEM;
            target = -1;
            if (text && text[0]) {
                text[strlen(text) - 1] = '\0'; /* its '/' */
                st = dataset_target(dataset, text, &target);
            }
            mem_free(text);
            if (st != ST_OK) return st;
            last = entry->folder;
        }
        files->targets[i] = target;
        *flat += target < 0;
        *sum = checksum(*sum, folder + root, strlen(folder + root));
        *sum = checksum(*sum, in->text + entry->name, strlen(in->text + entry->name) + 1);
    }
    return ST_OK;
}

static enum status write_note(struct dataset *dataset, size_t flat) {
    if (flat)
        dataset->note = str_format("%zu of %zu images lie in no folder and so have no class", flat,
                                   dataset->count);
    else if (dataset->classes.count == 1)
        dataset->note =
            str_format("every image lies in one folder, '%s'", dataset->classes.text[0]);
    else
        return ST_OK;
    return dataset->note ? ST_OK : ST_NOMEM;
}

static enum status open_folder(struct dataset *dataset, const struct dataset_source *source) {
    struct dataset_files *files = NULL;
    uint64_t sum = CHECKSUM_START;
    size_t root, flat = 0;
    enum status st = dataset_files_open(source->path, &files, &root);
    dataset->reader = files;
    if (st != ST_OK) return st;
    if (files->inputs.count == 1 && files->inputs.entries[0].folder == 0)
        return fail(ST_FORMAT, "%s: %s; and none of IDX, CIFAR, tar or zip", source->path,
                    files->inputs.text + files->inputs.entries[0].error);
    dataset->count = files->inputs.count;
    files->targets = mem_zalloc(dataset->count, sizeof *files->targets);
    if (!files->targets) return ST_NOMEM;
    st = find_targets(dataset, files, root, &sum, &flat);
    if (st != ST_OK) return st == ST_NOMEM ? st : fail_prefix(st, source->path);
    if (dataset->classes.count == 0)
        return fail(ST_USAGE,
                    "%s: the images lie flat in the folder, expected a folder for each class, or "
                    "--labels FILE with a line 'path label' for each image",
                    source->path);
    dataset->identity = str_format("folder: %zu images, %zu classes, names %016llx", dataset->count,
                                   dataset->classes.count, (unsigned long long)sum);
    return dataset->identity ? write_note(dataset, flat) : ST_NOMEM;
}

const struct dataset_form dataset_folder = {"folder", takes, open_folder, dataset_files_next,
                                            dataset_files_close};
