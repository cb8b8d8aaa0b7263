/* dataset_sample: see dataset_sample.h. */
#include "datasets/dataset_sample.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { LONGEST_WORD = 200 }; /* of a .txt that is a class and no caption */

size_t sample_key(const char *name) {
    const char *base = dataset_base(name);
    return (size_t)(base - name) + strcspn(base, ".");
}

/* Of a path: hidden or a Mac's shadow of a file. */
static bool passed_over(const char *name) {
    while (*name) {
        const size_t length = strcspn(name, "/");
        const bool up = length <= 2 && strncmp(name, "..", length) == 0;
        if (name[0] == '.' && !up) return true;
        if (length == 8 && strncmp(name, "__MACOSX", 8) == 0) return true;
        name += length + strspn(name + length, "/");
    }
    return false;
}

enum member_kind member_kind(const char *name) {
    const char *rest = name + sample_key(name);
    if (passed_over(name)) return MEMBER_NOTHING;
    if (inputs_suffix_known(dataset_base(name))) return MEMBER_IMAGE;
    if (strcmp(rest, ".cls") == 0) return MEMBER_CLS;
    if (strcmp(rest, ".json") == 0) return MEMBER_JSON;
    return strcmp(rest, ".txt") == 0 ? MEMBER_TXT : MEMBER_NOTHING;
}

void member_release(struct member *member) {
    mem_free(member->name);
    mem_free(member->error);
    mem_free(member->bytes);
    *member = (struct member){0};
}

void sample_clear(struct sample *sample, bool whole) {
    for (int i = 0; i < sample->count; i++)
        member_release(&sample->images[i]);
    sample->count = sample->given = 0;
    sample->bytes = 0;
    if (!whole) return;
    mem_free(sample->key);
    mem_free(sample->label);
    mem_free(sample->label_error);
    *sample = (struct sample){0};
}

/* ---- labels --------------------------------------------------------------------------------- */

/* The one line of text in it, without blanks around; NULL where it is none, or without memory. */
static char *line_of(const struct member *member) {
    size_t start = 0, end = member->size;
    while (start < end && member->bytes[start] <= ' ')
        start++;
    while (end > start && member->bytes[end - 1] <= ' ')
        end--;
    for (size_t i = start; i < end; i++)
        if (member->bytes[i] < ' ') return NULL;
    if (start == end) return NULL;
    return str_format("%.*s", (int)(end - start), (const char *)member->bytes + start);
}

/* *label of the first key that has a number or a text; NULL where there is none. */
static bool json_label(const struct member *member, char **label) {
    static const char *const keys[] = {"label", "cls", "class", "wnid", "target"};
    cJSON *json = cJSON_ParseWithLength((const char *)member->bytes, member->size);
    for (size_t i = 0; json && !*label && i < COUNT_OF(keys); i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, keys[i]);
        if (cJSON_IsString(value) && value->valuestring[0])
            *label = str_copy(value->valuestring);
        else if (cJSON_IsNumber(value))
            *label = str_format("%.15g", value->valuedouble);
    }
    cJSON_Delete(json);
    return json != NULL;
}

/* ST_OK with neither label nor error where the member says nothing of a class. */
static enum status read_label(enum member_kind kind, const struct member *member, char **label,
                              char **error) {
    const char *base = dataset_base(member->name);
    if (member->error) {
        if (kind == MEMBER_TXT) return ST_OK;
        *error = str_format("its label %s: %s", base, member->error);
        return *error ? ST_OK : ST_NOMEM;
    }
    if (kind == MEMBER_JSON && !json_label(member, label))
        *error = str_format("its label %s is no JSON", base);
    if (kind == MEMBER_JSON) return ST_OK;
    *label = line_of(member);
    if (kind == MEMBER_TXT && *label && strlen(*label) > LONGEST_WORD) {
        mem_free(*label);
        *label = NULL;
    }
    if (kind == MEMBER_CLS && !*label) *error = str_format("its label %s is no line of text", base);
    return ST_OK;
}

static enum status take_label(struct sample *sample, enum member_kind kind,
                              const struct member *member) {
    char *label = NULL, *error = NULL;
    if (kind < sample->label_kind) return ST_OK;
    TRY(read_label(kind, member, &label, &error));
    if (!label && !error) return ST_OK;
    mem_free(sample->label);
    mem_free(sample->label_error);
    sample->label = label;
    sample->label_error = error;
    sample->label_kind = kind;
    return ST_OK;
}

enum status sample_take(struct sample *sample, enum member_kind kind, struct member *member) {
    enum status st = ST_OK;
    if (!sample->key) {
        sample->key = str_format("%.*s", (int)sample_key(member->name), member->name);
        if (!sample->key) st = ST_NOMEM;
    }
    if (st == ST_OK && kind == MEMBER_IMAGE && sample->count < SAMPLE_IMAGES) {
        sample->bytes += member->size;
        sample->images[sample->count++] = *member;
        *member = (struct member){0};
    } else if (st == ST_OK) {
        st = take_label(sample, kind, member);
    }
    member_release(member);
    return st;
}

/* ---- the image ------------------------------------------------------------------------------ */

/* Bytes of "folder", which is what stands before the name; 0 = nothing. */
static size_t folder_of(const char *name) {
    const size_t folder = (size_t)(dataset_base(name) - name);
    return folder > 1 ? folder - 1 : 0;
}

/* Whether an image's class is its folder, not a label beside it: only a text is less than that. */
static bool in_class_folder(const struct sample *sample, const char *name) {
    return folder_of(name) > 0 && sample->label_kind <= MEMBER_TXT;
}

void sample_choose(struct sample *sample) {
    int chosen = -1;
    if (sample->given || !sample->count || sample->label_kind == MEMBER_NOTHING ||
        in_class_folder(sample, sample->images[0].name))
        return;
    for (int i = 0; i < sample->count && chosen < 0 && !sample->pictured; i++) {
        const char *rest = sample->images[i].name + strlen(sample->key);
        if (rest[0] == '.' && !strchr(rest + 1, '.')) chosen = i;
    }
    if (chosen < 0 && !sample->pictured) return;
    for (int i = 0; i < sample->count; i++)
        if (i != chosen) member_release(&sample->images[i]);
    if (chosen > 0) {
        sample->images[0] = sample->images[chosen];
        sample->images[chosen] = (struct member){0};
    }
    sample->count = chosen >= 0;
    sample->pictured = true;
}

/* A label beside the image, else its folder, else a text beside it, else none. */
static enum status find_target(const struct sample *sample, struct dataset *dataset,
                               const char *name, long *target) {
    const char *label = sample->label;
    char *text = NULL;
    enum status st;
    if (in_class_folder(sample, name)) {
        text = str_format("%.*s", (int)folder_of(name), name);
        if (!text) return ST_NOMEM;
        label = text;
    }
    st = label ? dataset_target(dataset, label, target) : ST_OK;
    mem_free(text);
    return st;
}

void sample_give(struct sample *sample, struct dataset *dataset, const char *archive,
                 struct dataset_item *item) {
    struct member *image = &sample->images[sample->given++];
    item->path = str_format("%s/%s", archive, image->name);
    if (!item->path) return;
    if (sample->label_error || image->error) {
        dataset_item_fault(item, item->path, "%s",
                           image->error ? image->error : sample->label_error);
    } else if (find_target(sample, dataset, image->name, &item->target) != ST_OK) {
        dataset_item_fault(item, item->path, "%s", fail_message());
    } else {
        item->bytes = image->bytes;
        item->size = image->size;
        image->bytes = NULL;
    }
}
