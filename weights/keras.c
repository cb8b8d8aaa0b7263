/*
 * keras: see keras.h. The layouts are those of keras/src/saving/saving_lib.py and
 * keras/src/legacy/saving/legacy_h5_format.py.
 */
#include "weights/keras.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <unistd.h>

#include "weights/h5.h"
#include "weights/json.h"
#include "weights/zip.h"

#define MAGIC   "\x89HDF\r\n\x1a\n"
#define WEIGHTS "model.weights.h5"
#define TASK    "task.weights.h5"
#define CONFIG  "config.json"
#define JSON    ((size_t)1 << 20)  /* bytes of a config; ViT-L of vit-keras has 60 KB */
#define ROOM    ((size_t)32 << 20) /* unpacked of a .keras, and four times the file's size */

enum kind { KIND_OTHER, KIND_VITRINE, KIND_LEGACY, KIND_OBJECTS };

/* The group that the weights lie in: *root. */
static enum kind kind_of(struct h5 *file, const char **root) {
    static const char *const objects[] = {"/layers", "/vars", "/optimizer", "/backbone",
                                          "/_layer_checkpoint_dependencies"};
    *root = "/";
    if (h5_has_attribute(file, "/", "format") || h5_has(file, "/parameters")) return KIND_VITRINE;
    if (h5_has_attribute(file, "/", "layer_names") || h5_has_attribute(file, "/", "layer_names0"))
        return KIND_LEGACY;
    if (h5_has(file, "/model_weights")) {
        *root = "/model_weights";
        return KIND_LEGACY;
    }
    for (size_t i = 0; i < COUNT_OF(objects); i++) {
        if (h5_has(file, objects[i])) return KIND_OBJECTS;
    }
    return KIND_OTHER;
}

static bool is_hdf5(const uint8_t *bytes, size_t size) {
    return size >= 8 && memcmp(bytes, MAGIC, 8) == 0;
}

/* A damaged file is taken for Keras', whose reader says what is wrong with it. */
static enum kind look(const uint8_t *bytes, size_t size) {
    struct h5 *file = NULL;
    const char *root;
    enum kind kind = KIND_LEGACY;
    if (h5_open_memory(bytes, size, "", &file) != ST_OK) return kind;
    kind = kind_of(file, &root);
    return h5_close(&file) == ST_OK ? kind : KIND_LEGACY;
}

static bool is_keras(const uint8_t *bytes, size_t size) {
    return is_hdf5(bytes, size) && look(bytes, size) > KIND_VITRINE;
}

const char *keras_foreign(const uint8_t *bytes, size_t size) {
    return look(bytes, size) == KIND_VITRINE
               ? "a vitrine model already, which needs no conversion"
               : "an HDF5 file that Keras did not write: it has neither layer_names, model_weights "
                 "nor layers";
}

/* ---- names ----------------------------------------------------------------------------------- */

/* What is left of `name` behind the layer's name and a slash; NULL when it begins otherwise. */
static const char *behind(const char *name, const char *layer, size_t length) {
    return strncmp(name, layer, length) == 0 && name[length] == '/' ? name : NULL;
}

/* "LAYER/LAYER/x" and "LAYER/SCOPE/LAYER/x" are "LAYER/x"; owned. */
static char *legacy_name(const char *path) {
    const size_t length = strcspn(path, "/");
    const char *name = path + length + (path[length] == '/'), *scope = strchr(name, '/');
    const char *found = behind(name, path, length);
    if (!found && scope) found = behind(scope + 1, path, length);
    if (!found) found = path;
    size_t size = strlen(found);
    if (size > 2 && strcmp(found + size - 2, ":0") == 0) size -= 2;
    return str_format("%.*s", (int)size, found);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static enum status take_tensor(struct h5 *file, const char *root, const struct h5_dataset *dataset,
                               char *name, struct tensor *out) {
    char *path = str_format("%s/%s", strcmp(root, "/") ? root : "", dataset->name);
    enum status st = path && name ? ST_OK : ST_NOMEM;
    out->name = name;
    out->dtype = dataset->dtype;
    out->rank = dataset->rank;
    memcpy(out->dims, dataset->dims, sizeof out->dims);
    out->data = (const uint8_t *)"";
    if (dataset->dtype == DT_OTHER)
        out->unused = "no array of numbers";
    else if (st == ST_OK)
        st = h5_place(file, path, &out->data);
    out->bytes = tensor_count(out) * dtype_size(out->dtype); /* h5_place checked it */
    mem_free(path);
    return st;
}

/* The tensors of an open file behind those that *out has; `before` stands before their names. */
static enum status take_tensors(struct checkpoint *out, struct h5 *file, const char *before) {
    struct h5_dataset *datasets = NULL;
    size_t count = 0, capacity = out->count;
    const char *root;
    const enum kind kind = kind_of(file, &root);
    enum status st = h5_walk(file, root, &datasets, &count);
    if (st == ST_OK && count == 0) st = fail(ST_FORMAT, "%s: holds no weights", out->weights_path);
    if (st == ST_OK)
        st = mem_grow((void **)&out->tensors, &capacity, out->count + count, sizeof *out->tensors);
    for (size_t i = 0; i < count && st == ST_OK; i++) {
        char *name = kind == KIND_LEGACY ? legacy_name(datasets[i].name)
                                         : str_format("%s%s", before, datasets[i].name);
        struct tensor *tensor = &out->tensors[out->count++];
        memset(tensor, 0, sizeof *tensor);
        st = take_tensor(file, root, &datasets[i], name, tensor);
    }
    h5_free_datasets(datasets, count);
    return st;
}

static enum status read_bytes(struct checkpoint *out, const uint8_t *bytes, size_t size,
                              const char *path, const char *before) {
    struct h5 *file = NULL;
    enum status st;
    TRY(h5_open_memory(bytes, size, path, &file));
    st = take_tensors(out, file, before);
    if (st != ST_OK) {
        char *sentence = str_copy(fail_message()); /* closing must not replace the reason */
        if (h5_close(&file) != ST_OK && sentence) (void)fail(st, "%s", sentence);
        mem_free(sentence);
        return st;
    }
    return h5_close(&file);
}

/* ---- config ---------------------------------------------------------------------------------- */

#define VIT_CLASSIFIER "ViTImageClassifier"
#define CONVERTER      "ImageConverter" /* what the names of its classes end in */

/* *json NULL: the text is no JSON object, and says nothing. */
static enum status parse_config(struct checkpoint *out, const char *text, size_t size,
                                cJSON **json) {
    *json = NULL;
    if (size > JSON)
        return fail(ST_FORMAT, "%s: its config has %zu bytes, want at most %zu", out->weights_path,
                    size, JSON);
    if (json_parse(text, size, CONFIG, json) != ST_OK) *json = NULL;
    return ST_OK;
}

/* Whether an object's class_name, which may be NULL, ends so. */
static bool named(const cJSON *class, const char *suffix) {
    const char *name = cJSON_IsString(class) ? class->valuestring : "";
    const size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

static bool is_converter(const cJSON *json) {
    return named(cJSON_GetObjectItemCaseSensitive(json, "class_name"), CONVERTER);
}

/* The text of an object into *out; the first that is found stays. */
static enum status keep_text(const cJSON *json, char **out) {
    if (*out) return ST_OK;
    char *text = cJSON_PrintUnformatted(json);
    *out = text ? str_copy(text) : NULL;
    cJSON_free(text);
    return *out ? ST_OK : ST_NOMEM;
}

/*
 * The config of the image converter that an object is (image_converter.json), that a preprocessor
 * has (preprocessor.json) or a task with one; the first that is found stays.
 */
static enum status take_converter(struct checkpoint *out, const cJSON *json) {
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(json, "config");
    while (cJSON_IsObject(config) && !is_converter(json)) {
        json = cJSON_GetObjectItemCaseSensitive(config, "image_converter");
        if (!json) json = cJSON_GetObjectItemCaseSensitive(config, "preprocessor");
        config = cJSON_GetObjectItemCaseSensitive(json, "config");
    }
    if (!cJSON_IsObject(config) || out->converter_json) return ST_OK;
    return keep_text(config, &out->converter_json);
}

/* {"config": {"pooling": ..., "backbone": {"config": {"layer_norm_epsilon": ...}}}} or without. */
static enum status take_config(struct checkpoint *out, const char *text, size_t size) {
    cJSON *json;
    TRY(parse_config(out, text, size, &json));
    const cJSON *config = cJSON_GetObjectItemCaseSensitive(json, "config");
    const cJSON *pooling = cJSON_GetObjectItemCaseSensitive(config, "pooling");
    const cJSON *class = cJSON_GetObjectItemCaseSensitive(json, "class_name");
    const bool vit = cJSON_IsString(class) && strcmp(class->valuestring, VIT_CLASSIFIER) == 0;
    const cJSON *backbone = cJSON_GetObjectItemCaseSensitive(config, "backbone"), *eps;
    enum status st = take_converter(out, json);
    if (backbone) config = cJSON_GetObjectItemCaseSensitive(backbone, "config");
    if (st == ST_OK && cJSON_IsObject(config) && (backbone || named(class, "Backbone")))
        st = keep_text(config, &out->backbone_json);
    if (st == ST_OK && named(class, "ImageClassifier")) {
        mem_free(out->classifier);
        out->classifier = str_copy(class->valuestring);
        if (!out->classifier) st = ST_NOMEM;
    }
    eps = cJSON_GetObjectItemCaseSensitive(config, "layer_norm_epsilon");
    if (cJSON_IsNumber(eps) && eps->valuedouble >= 1e-15 && eps->valuedouble <= 0.1)
        out->norm_eps = eps->valuedouble;
    else if (st == ST_OK && eps)
        st = fail(ST_FORMAT, "%s: layer_norm_epsilon of its config is no number from 1e-15 to 0.1",
                  out->weights_path);
    if (st == ST_OK && vit && cJSON_IsString(pooling) && strcmp(pooling->valuestring, "token") != 0)
        st = fail(ST_FORMAT, "%s: its head pools by '%.40s', vitrine reads keras_hub's token alone",
                  out->weights_path, pooling->valuestring);
    cJSON_Delete(json);
    return st;
}

/* ---- presets --------------------------------------------------------------------------------- */

/* Another file of the preset's folder; *bytes NULL: there is none. */
static enum status map_beside(struct checkpoint *out, const char *name, char **path,
                              const uint8_t **bytes, size_t *size) {
    *bytes = NULL;
    *path = str_format("%.*s%s", (int)(strlen(out->weights_path) - strlen(WEIGHTS)),
                       out->weights_path, name);
    if (!*path) return ST_NOMEM;
    return access(*path, F_OK) == 0 ? checkpoint_map(out, *path, bytes, size) : ST_OK;
}

/* How a preset prepares pictures: the same twice, where both files are there. */
static enum status read_converter(struct checkpoint *out) {
    static const char *const names[] = {"image_converter.json", "preprocessor.json"};
    enum status st = ST_OK;
    for (size_t i = 0; i < COUNT_OF(names) && st == ST_OK && !out->converter_json; i++) {
        const uint8_t *bytes = NULL;
        char *path = NULL;
        cJSON *json = NULL;
        size_t size = 0;
        st = map_beside(out, names[i], &path, &bytes, &size);
        if (st == ST_OK && bytes) st = parse_config(out, (const char *)bytes, size, &json);
        if (st == ST_OK && bytes && !cJSON_IsObject(json))
            st = fail(ST_FORMAT, "%s: is not a JSON object", path);
        if (st == ST_OK) st = take_converter(out, json);
        cJSON_Delete(json);
        mem_free(path);
    }
    return st;
}

/* A preset of keras_hub keeps the head beside the backbone: it comes in as "task/...". */
static enum status read_preset(struct checkpoint *out) {
    const size_t length = strlen(out->weights_path), name = strlen(WEIGHTS);
    const uint8_t *bytes = NULL;
    char *path = NULL;
    size_t size = 0;
    enum status st;
    if (length < name || strcmp(out->weights_path + length - name, WEIGHTS) != 0) return ST_OK;
    st = map_beside(out, TASK, &path, &bytes, &size);
    if (st == ST_OK && bytes) st = read_bytes(out, bytes, size, path, "task/");
    mem_free(path);
    TRY(st);
    TRY(read_converter(out));
    st = map_beside(out, "task.json", &path, &bytes, &size);
    if (st == ST_OK && bytes) st = take_config(out, (const char *)bytes, size);
    mem_free(path);
    return st;
}

static enum status parse_h5(struct checkpoint *out) {
    TRY(read_bytes(out, out->map, out->map_size, out->weights_path, ""));
    if (out->config_json) TRY(take_config(out, out->config_json, strlen(out->config_json)));
    TRY(read_preset(out));
    return tensors_sort(out->tensors, out->count, out->weights_path);
}

const struct container keras_h5 = {"Keras", is_keras, parse_h5};

/* ---- .keras ---------------------------------------------------------------------------------- */

/* An entry, unpacked into fresh *memory (NULL: it lies in the mapping); *bytes NULL: none. */
static enum status open_entry(struct checkpoint *out, const struct zip *zip, const char *name,
                              void **memory, const uint8_t **bytes, size_t *size) {
    const struct zip_entry *e = zip_find(zip, name, strlen(name));
    size_t limit = ROOM;
    *bytes = NULL;
    *memory = NULL;
    if (!e) return ST_OK;
    if (!size_mul(out->map_size, 4, &limit) || !size_add(limit, ROOM, &limit)) limit = SIZE_MAX;
    if (e->method != ZIP_STORED) {
        if (e->full_size > limit)
            return fail(ST_FORMAT, "%s: %s unpacks to %zu bytes, want at most %zu",
                        out->weights_path, name, e->full_size, limit);
        *memory = mem_zalloc(e->full_size + 1, 1);
        if (!*memory) return ST_NOMEM;
    }
    *size = e->full_size;
    return zip_unpack(e, out->weights_path, *memory, bytes);
}

static enum status read_archive(struct checkpoint *out, const struct zip *zip) {
    const uint8_t *bytes;
    void *memory;
    size_t size = 0;
    enum status st = open_entry(out, zip, CONFIG, &memory, &bytes, &size);
    if (st == ST_OK && bytes) st = take_config(out, (const char *)bytes, size);
    mem_free(memory);
    TRY(st);
    TRY(open_entry(out, zip, WEIGHTS, &out->memory, &bytes, &size));
    if (bytes) return read_bytes(out, bytes, size, out->weights_path, "");
    return fail(ST_FORMAT, "%s: a Keras archive without a " WEIGHTS, out->weights_path);
}

enum status keras_parse_archive(struct checkpoint *out) {
    struct zip zip;
    enum status st;
    TRY(zip_open(out->map, out->map_size, out->weights_path, &zip));
    st = read_archive(out, &zip);
    zip_release(&zip);
    TRY(st);
    return tensors_sort(out->tensors, out->count, out->weights_path);
}
