/* checkpoint_shards: see checkpoint_shards.h. */
#include "weights/checkpoint_shards.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "weights/json.h"

#define INDEX_MAX  ((size_t)16 << 20) /* bytes; ViT-g's has 100 KB */
#define SHARDS_MAX 1000
#define INDEX_END  ".index.json"

bool checkpoint_is_index(const char *path) {
    size_t length = strlen(path), end = strlen(INDEX_END);
    return length > end && strcmp(path + length - end, INDEX_END) == 0;
}

static enum status read_index(const char *path, cJSON **out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    TRY(file_read_regular(path, INDEX_MAX, &bytes, &size));
    enum status st = json_parse((const char *)bytes, size, path, out);
    mem_free(bytes);
    TRY(st);
    if (cJSON_IsObject(cJSON_GetObjectItemCaseSensitive(*out, "weight_map"))) return ST_OK;
    return fail(ST_FORMAT, "%s: is no index of weight files: it has no weight_map", path);
}

static enum status check_count(const struct checkpoint *out, size_t shards) {
    size_t total = 0;
    for (size_t i = 0; i < shards; i++)
        total += out->shards[i].count;
    if (total <= TENSORS_MAX) return ST_OK;
    return fail(ST_FORMAT, "%s: its files hold more than %zu tensors", out->weights_path,
                TENSORS_MAX);
}

/* The file of one tensor, beside the index: *shard is its number, opened when it is a new one. */
static enum status open_shard(struct checkpoint *out, const cJSON *entry, size_t *shard) {
    const char *index = out->weights_path, *file = entry->valuestring, *slash;
    char *path;
    enum status st;
    if (!cJSON_IsString(entry) || !*file || strchr(file, '/') || strcmp(file, "..") == 0)
        return fail(ST_FORMAT, "%s: tensor %.80s is in no file of its folder", index,
                    entry->string);
    slash = strrchr(index, '/');
    path = str_format("%.*s%s", slash ? (int)(slash - index + 1) : 0, index, file);
    if (!path) return ST_NOMEM;
    for (*shard = 0; *shard < out->shard_count; (*shard)++) {
        if (strcmp(out->shards[*shard].path, path) != 0) continue;
        mem_free(path);
        return ST_OK;
    }
    if (*shard == SHARDS_MAX)
        st = fail(ST_NOMEM, "%s: names more than %d files", index, SHARDS_MAX);
    else
        st = checkpoint_open_file(path, &out->shards[*shard]);
    mem_free(path);
    TRY(st);
    return check_count(out, ++out->shard_count);
}

/* Moves the tensors of all shards into out. */
static enum status take_tensors(struct checkpoint *out) {
    size_t total = 0;
    for (size_t i = 0; i < out->shard_count; i++)
        total += out->shards[i].count;
    out->tensors = mem_zalloc(total, sizeof *out->tensors);
    if (!out->tensors) return ST_NOMEM;
    for (size_t i = 0; i < out->shard_count; i++) {
        struct checkpoint *shard = &out->shards[i];
        if (shard->count)
            memcpy(out->tensors + out->count, shard->tensors,
                   shard->count * sizeof *shard->tensors);
        out->count += shard->count;
        shard->count = 0;
    }
    return tensors_sort(out->tensors, out->count, out->weights_path);
}

static enum status open_listed(struct checkpoint *out, const cJSON *map) {
    for (const cJSON *entry = map->child; entry; entry = entry->next) {
        size_t shard = 0;
        TRY(open_shard(out, entry, &shard));
        if (!checkpoint_find(&out->shards[shard], entry->string))
            return fail(ST_FORMAT, "%s: %s has no tensor %.200s", out->weights_path,
                        entry->valuestring, entry->string);
    }
    if (out->shard_count == 0)
        return fail(ST_FORMAT, "%s: its weight_map is empty", out->weights_path);
    out->container = out->shards[0].container;
    return take_tensors(out);
}

enum status checkpoint_open_shards(struct checkpoint *out) {
    cJSON *index = NULL;
    enum status st;
    if (out->key)
        return fail(ST_USAGE, "%s: --key is for one PyTorch file; an index is one model",
                    out->weights_path);
    st = read_index(out->weights_path, &index);
    out->shards = st == ST_OK ? mem_zalloc(SHARDS_MAX, sizeof *out->shards) : NULL;
    if (st == ST_OK)
        st = out->shards ? open_listed(out, cJSON_GetObjectItemCaseSensitive(index, "weight_map"))
                         : ST_NOMEM;
    cJSON_Delete(index);
    return st;
}
