/* catalog: see catalog.h. */
#include "weights/catalog.h"

#include <stdio.h>
#include <string.h>

#include "weights/catalog_rows.h"

#define HUB     "https://huggingface.co/timm/"
#define WEIGHTS "/resolve/main/model.safetensors"

static void fill_hub(const struct catalog_hub_row *row, struct catalog_entry *out) {
    *out = (struct catalog_entry){.name = row->name,
                                  .origin = "timm",
                                  .license = row->license,
                                  .arch = row->name,
                                  .top1 = row->top1,
                                  .parameters = row->parameters,
                                  .classes = row->classes};
    snprintf(out->address, sizeof out->address, HUB "%s" WEIGHTS, row->name);
}

static void fill(const struct catalog_origin *origin, const struct catalog_row *row,
                 struct catalog_entry *out) {
    *out = (struct catalog_entry){.name = row->name,
                                  .origin = origin->name,
                                  .license = row->license,
                                  .arch = row->arch,
                                  .sha256 = row->sha256,
                                  .preprocess = row->preprocess,
                                  .top1 = row->top1,
                                  .parameters = row->parameters,
                                  .classes = row->classes,
                                  .folder = origin->folder};
    snprintf(out->address, sizeof out->address, "%s%s%s", origin->base, row->file,
             origin->folder ? WEIGHTS : "");
}

bool catalog_at(size_t index, struct catalog_entry *out) {
    bool found = index < catalog_timm_count;
    if (found) fill_hub(&catalog_timm[index], out);
    index -= found ? 0 : catalog_timm_count;
    for (size_t i = 0; !found && i < catalog_origin_count; i++) {
        const struct catalog_origin *origin = &catalog_origins[i];
        found = index < origin->count;
        if (found)
            fill(origin, &origin->rows[index], out);
        else
            index -= origin->count;
    }
    return found;
}

bool catalog_find(const char *name, struct catalog_entry *out) {
    struct catalog_entry entry;
    for (size_t i = 0; catalog_at(i, &entry); i++) {
        if (strcmp(entry.name, name) != 0) continue;
        *out = entry;
        return true;
    }
    return false;
}

const char *catalog_file(const struct catalog_entry *entry) {
    return strrchr(entry->address, '/') + 1;
}

uint64_t catalog_bytes(const struct catalog_entry *entry) {
    return entry->parameters * 4;
}
