/*
 * torch_tensors: which of the saved values is the model, and its tensors by dotted name.
 *
 * A checkpoint is a state dict, or a dict with one in it beside optimizer, epoch and the like,
 * perhaps more than one (a running average of it, a teacher and a student), perhaps some levels
 * down; or a whole pickled module, whose _parameters, _buffers and _modules give the same names.
 * At each level: a key of the table `wrappers` that leads to tensors wins over a dict's own
 * tensors, the lower rank over the higher; two of one rank are refused with both their names.
 */
#include <stdio.h>
#include <string.h>

#include "weights/torch.h"

#define DEPTH_MAX  64                /* levels walked down */
#define VISITS_MAX ((size_t)8 << 20) /* values looked at: a pickle can share them without end */
#define NAME_BYTES 512

/* Keys under which a model is kept; rank 0: never a model. */
static const struct {
    const char *key;
    int rank;
} wrappers[] = {
    {"model", 1},
    {"state_dict", 1},
    {"model_state_dict", 1},
    {"model_state", 1},
    {"module", 1},
    {"net", 1},
    {"network", 1},
    {"weights", 1},
    {"params", 1},
    {"teacher", 2},
    {"encoder", 2},
    {"student", 3},
    {"target_encoder", 3},
    {"model_ema", 4},
    {"state_dict_ema", 4},
    {"ema_state_dict", 4},
    {"ema", 4},
    {"optimizer", 0},
    {"optimizers", 0},
    {"optimizer_states", 0},
    {"optimizer_state_dict", 0},
    {"opt", 0},
    {"lr_scheduler", 0},
    {"lr_schedulers", 0},
    {"scheduler", 0},
    {"scaler", 0},
    {"amp", 0},
    {"loss", 0},
    {"criterion", 0},
    {"dino_loss", 0},
    {"ibot_loss", 0},
    {"rng_state", 0},
    {"callbacks", 0},
};
#define RANK_OTHER 5 /* a key that is not in the table */

/* Entries of a mapping: a dict, an object's items, or a module's state. */
struct entries {
    struct pickle_value *const *items; // (2 count)
    size_t count;
};

struct found {
    char *name; /* owned */
    const struct pickle_value *value;
};

struct walk {
    const struct torch_file *file;
    size_t visits;
    struct found *found; // (count)
    size_t count, capacity;
    struct word_list aside;
};

/* ---- looking --------------------------------------------------------------------------------- */

/* What is a module is walked by the dict of its state. Objects may share one: its size counts. */
static const struct pickle_value *module_state(struct walk *w, const struct pickle_value *value) {
    const struct pickle_value *state;
    if (value->kind != PICKLE_OBJECT || torch_is_tensor(value)) return NULL;
    state = value->object.state;
    if (!state || state->kind != PICKLE_DICT) return NULL;
    w->visits += state->list.count;          /* every entry twice */
    if (w->visits > VISITS_MAX) return NULL; /* the next visit says so */
    return pickle_get(state, "_parameters") && pickle_get(state, "_modules") ? state : NULL;
}

/* The entries of a dict, or of an object that has such items; count 0 for what has none. */
static struct entries entries_of(const struct pickle_value *value) {
    if (value->kind == PICKLE_OBJECT && !torch_is_tensor(value) && value->object.content)
        value = value->object.content;
    if (value->kind != PICKLE_DICT) return (struct entries){NULL, 0};
    return (struct entries){value->list.items, value->list.count / 2};
}

static enum status visit(struct walk *w, int depth) {
    if (depth > DEPTH_MAX)
        return fail(ST_FORMAT, "%s: its values are nested deeper than %d levels", w->file->path,
                    DEPTH_MAX);
    if (++w->visits <= VISITS_MAX) return ST_OK;
    return fail(ST_FORMAT, "%s: its values lead to more than %zu others", w->file->path,
                VISITS_MAX);
}

static enum status count_tensors(struct walk *w, const struct pickle_value *value, int depth,
                                 size_t *tensors) {
    const struct pickle_value *list = value;
    TRY(visit(w, depth));
    if (torch_is_tensor(value)) {
        (*tensors)++;
        return ST_OK;
    }
    if (value->kind == PICKLE_OBJECT) {
        if (value->object.state) TRY(count_tensors(w, value->object.state, depth + 1, tensors));
        list = value->object.content;
    }
    if (!list ||
        (list->kind != PICKLE_DICT && list->kind != PICKLE_LIST && list->kind != PICKLE_TUPLE))
        return ST_OK;
    for (size_t i = list->kind == PICKLE_DICT; i < list->list.count;
         i += list->kind == PICKLE_DICT ? 2 : 1)
        TRY(count_tensors(w, list->list.items[i], depth + 1, tensors));
    return ST_OK;
}

/* A key as it stands in names; ST_FORMAT for one that cannot. */
static enum status key_text(const struct walk *w, const struct pickle_value *key, char *buf,
                            size_t size) {
    int length = -1;
    if (key->kind == PICKLE_INTEGER) length = snprintf(buf, size, "%jd", (intmax_t)key->integer);
    if (key->kind == PICKLE_STRING && key->text.size < size) {
        memcpy(buf, key->text.bytes, key->text.size);
        buf[key->text.size] = 0;
        length = (int)key->text.size;
        for (size_t i = 0; i < key->text.size; i++) {
            if ((unsigned char)buf[i] < 0x20 || buf[i] == 0x7f) length = -1;
        }
    }
    if (length >= 0 && (size_t)length < size) return ST_OK;
    return fail(ST_FORMAT, "%s: a tensor's name is no text, too long, or has control characters",
                w->file->path);
}

/* ---- what is left aside ---------------------------------------------------------------------- */

/* "optimizer (304 tensors)", "args (argparse.Namespace)". */
static void set_aside(struct walk *w, const char *name, const struct pickle_value *value,
                      size_t tensors) {
    char what[200];
    if (tensors)
        snprintf(what, sizeof what, "%zu tensor%s", tensors, tensors > 1 ? "s" : "");
    else
        pickle_describe(value, what, sizeof what);
    word_list_add(&w->aside, "%.120s (%s)", name, what);
}

/* All entries but the one that was chosen (NULL: those that lead to no tensor). */
static enum status set_others_aside(struct walk *w, const char *path, struct entries e,
                                    const struct pickle_value *chosen) {
    for (size_t i = 0; i < e.count; i++) {
        char key[160], name[NAME_BYTES];
        size_t tensors = 0;
        if (e.items[2 * i + 1] == chosen) continue;
        if (key_text(w, e.items[2 * i], key, sizeof key) != ST_OK)
            snprintf(key, sizeof key, "a key that is no name");
        TRY(count_tensors(w, e.items[2 * i + 1], 0, &tensors));
        snprintf(name, sizeof name, "%s%s%s", path, *path ? "." : "", key);
        set_aside(w, name, e.items[2 * i + 1], tensors);
    }
    return ST_OK;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int rank_of(const struct pickle_value *key) {
    for (size_t i = 0; i < COUNT_OF(wrappers); i++) {
        if (pickle_is_text(key, wrappers[i].key)) return wrappers[i].rank;
    }
    return RANK_OTHER;
}

/* Refuses two of one rank: "'net' (152 tensors) and 'model' (152 tensors)". */
static enum status ambiguous(struct walk *w, struct entries e, int rank) {
    struct word_list models = {.most = 8};
    for (size_t i = 0; i < e.count; i++) {
        char key[80];
        size_t tensors = 0;
        if (rank_of(e.items[2 * i]) != rank || torch_is_tensor(e.items[2 * i + 1])) continue;
        TRY(count_tensors(w, e.items[2 * i + 1], 0, &tensors));
        if (!tensors || key_text(w, e.items[2 * i], key, sizeof key) != ST_OK) continue;
        word_list_add(&models, "%s (%zu tensors)", key, tensors);
    }
    return fail(ST_USAGE, "%s: holds more than one model, say which with --key: %s", w->file->path,
                word_list_text(&models));
}

/*
 * The entry of e that leads on to the model; *index stays where e itself is the state dict (or
 * holds nothing).
 */
static enum status choose_entry(struct walk *w, struct entries e, size_t *index) {
    size_t own = 0, best = e.count;
    int rank = RANK_OTHER + 1, equals = 0;
    for (size_t i = 0; i < e.count; i++) {
        const struct pickle_value *value = e.items[2 * i + 1];
        const int its = rank_of(e.items[2 * i]);
        size_t tensors = 0;
        own += torch_is_tensor(value);
        if (its == 0 || its > rank || torch_is_tensor(value)) continue;
        if (!entries_of(value).count && !module_state(w, value)) continue;
        TRY(count_tensors(w, value, 0, &tensors));
        if (!tensors) continue;
        equals = its == rank ? equals + 1 : 0;
        if (its < rank) best = i;
        rank = its;
    }
    if (best == e.count || (rank == RANK_OTHER && own)) return ST_OK;
    if (equals) return ambiguous(w, e, rank);
    *index = best;
    return ST_OK;
}

/* From *value down to the model's own dict; `path`, of `size` bytes, are the keys on the way. */
static enum status choose(struct walk *w, const struct pickle_value **value, char *path,
                          size_t size) {
    for (int depth = 0; depth < 8; depth++) {
        const struct entries e = entries_of(*value);
        size_t index = e.count, used = strlen(path);
        char key[160];
        if (module_state(w, *value)) return ST_OK;
        TRY(choose_entry(w, e, &index));
        if (index == e.count) return ST_OK;
        TRY(set_others_aside(w, path, e, e.items[2 * index + 1]));
        TRY(key_text(w, e.items[2 * index], key, sizeof key));
        if (snprintf(path + used, size - used, "%s%s", used ? "." : "", key) >= (int)(size - used))
            break;
        *value = e.items[2 * index + 1];
    }
    return fail(ST_FORMAT, "%s: its model is nested deeper than 8 dicts", w->file->path);
}

/* The entry of the longest key that `text` begins with, up to a '.' or its end. */
static const struct pickle_value *longest_entry(struct entries e, const char *text,
                                                size_t *length) {
    const struct pickle_value *best = NULL;
    *length = 0;
    for (size_t i = 0; i < e.count; i++) {
        const struct pickle_value *key = e.items[2 * i];
        if (key->kind != PICKLE_STRING || key->text.size < *length || key->text.size == 0 ||
            strncmp(text, key->text.bytes, key->text.size) != 0 ||
            (text[key->text.size] && text[key->text.size] != '.'))
            continue;
        best = e.items[2 * i + 1];
        *length = key->text.size;
    }
    return best;
}

/* Down the dotted keys that the caller gave. */
static enum status follow(struct walk *w, const struct pickle_value **value, const char *given) {
    char path[NAME_BYTES] = "";
    for (const char *at = given; *at;) {
        const struct entries e = entries_of(*value);
        size_t length = 0;
        const struct pickle_value *next = longest_entry(e, at, &length);
        if (!next || torch_is_tensor(next)) {
            struct word_list keys = {.most = 8};
            for (size_t i = 0; i < e.count; i++) {
                char key[80];
                if (key_text(w, e.items[2 * i], key, sizeof key) != ST_OK)
                    snprintf(key, sizeof key, "what is no name");
                word_list_add(&keys, "%s", key);
            }
            return fail(ST_USAGE, "%s: --key %.80s leads to no dict; there is %s", w->file->path,
                        given, e.count ? word_list_text(&keys) : "none");
        }
        TRY(set_others_aside(w, path, e, next));
        snprintf(path, sizeof path, "%.*s", (int)(at - given + (ptrdiff_t)length), given);
        *value = next;
        at += length + (at[length] == '.');
    }
    return ST_OK;
}

/* ---- the tensors ----------------------------------------------------------------------------- */

static enum status collect(struct walk *w, const char *name, const struct pickle_value *value,
                           int depth);

static enum status collect_entries(struct walk *w, const char *prefix, struct entries e,
                                   int depth) {
    for (size_t i = 0; i < e.count; i++) {
        char key[NAME_BYTES], name[NAME_BYTES];
        TRY(visit(w, depth));
        TRY(key_text(w, e.items[2 * i], key, sizeof key));
        if (snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", key) >=
            (int)sizeof name)
            return fail(ST_FORMAT, "%s: a name of more than %d bytes: %.80s...", w->file->path,
                        NAME_BYTES - 1, name);
        TRY(collect(w, name, e.items[2 * i + 1], depth + 1));
    }
    return ST_OK;
}

static enum status add(struct walk *w, const char *name, const struct pickle_value *value) {
    if (w->count == TENSORS_MAX)
        return fail(ST_NOMEM, "%s: more than %zu tensors", w->file->path, TENSORS_MAX);
    TRY(mem_grow((void **)&w->found, &w->capacity, w->count + 1, sizeof *w->found));
    w->found[w->count].value = value;
    w->found[w->count].name = str_copy(name);
    return w->found[w->count++].name ? ST_OK : ST_NOMEM;
}

static enum status collect(struct walk *w, const char *name, const struct pickle_value *value,
                           int depth) {
    const struct pickle_value *state = module_state(w, value);
    static const char *const parts[] = {"_parameters", "_buffers", "_modules"};
    struct entries e = entries_of(value);
    TRY(visit(w, depth));
    if (torch_is_tensor(value)) return add(w, name, value);
    for (size_t i = 0; state && i < COUNT_OF(parts); i++) {
        const struct pickle_value *part = pickle_get(state, parts[i]);
        if (part) TRY(collect_entries(w, name, entries_of(part), depth + 1));
    }
    if (state) return ST_OK;
    if (e.count) return collect_entries(w, name, e, depth + 1);
    /* No tensor and no dict: a module's parameter that is None is nothing to speak of. */
    if (value->kind != PICKLE_NONE) {
        size_t tensors = 0;
        TRY(count_tensors(w, value, depth, &tensors));
        set_aside(w, *name ? name : "the whole", value, tensors);
    }
    return ST_OK;
}

/* Whether the first index runs fastest: a transposed matrix, which needs no copy. */
static bool column_major(const struct torch_view *view) {
    size_t step = 1;
    for (int i = 0; i < view->rank; i++) {
        if (view->dims[i] > 1 && view->strides[i] != step) return false;
        step *= view->dims[i];
    }
    return true;
}

static bool lies_well(const struct torch_view *view) {
    return view->contiguous || column_major(view);
}

/* out->tensors from the views; those in neither order are copied to out->memory. */
static enum status make_tensors(struct walk *w, struct torch_view *views, struct checkpoint *out) {
    size_t copied = 0;
    uint8_t *memory;
    for (size_t i = 0; i < w->count; i++) {
        const struct torch_view *view = &views[i];
        TRY(torch_view_of(w->file, w->found[i].name, w->found[i].value, &views[i]));
        if (!lies_well(view)) copied += view->count * view->type->size;
        if (copied > out->map_size)
            return fail(ST_NOMEM, "%s: its strided tensors take more room than the file",
                        w->file->path);
    }
    out->tensors = mem_zalloc(w->count, sizeof *out->tensors);
    if (copied) out->memory = mem_zalloc(copied, 1);
    if (!out->tensors || (copied && !out->memory)) return ST_NOMEM;
    memory = out->memory;
    for (size_t i = 0; i < w->count; i++) {
        struct tensor *tensor = &out->tensors[out->count++];
        tensor->name = w->found[i].name;
        w->found[i].name = NULL;
        tensor->dtype = views[i].type->dtype;
        tensor->rank = views[i].rank;
        memcpy(tensor->dims, views[i].dims, sizeof tensor->dims);
        tensor->bytes = views[i].count * views[i].type->size;
        tensor->data = views[i].data;
        tensor->column_major = !views[i].contiguous && column_major(&views[i]);
        if (lies_well(&views[i])) continue;
        torch_view_copy(&views[i], memory);
        tensor->data = memory;
        memory += tensor->bytes;
    }
    return tensors_sort(out->tensors, out->count, w->file->path);
}

static enum status report(struct walk *w, const char *wrapper, struct checkpoint *out) {
    if (*wrapper && !(out->wrapper = str_copy(wrapper))) return ST_NOMEM;
    if (!w->aside.used) return ST_OK;
    out->aside = str_copy(word_list_text(&w->aside));
    return out->aside ? ST_OK : ST_NOMEM;
}

enum status torch_tensors(const struct torch_file *file, struct checkpoint *out) {
    struct walk w = {.file = file};
    const struct pickle_value *value = file->value;
    struct torch_view *views = NULL;
    char path[NAME_BYTES] = "", text[200];
    enum status st;
    if (out->key) {
        TRY_OUT(follow(&w, &value, out->key));
        snprintf(path, sizeof path, "%s", out->key);
    } else {
        TRY_OUT(choose(&w, &value, path, sizeof path));
    }
    if (torch_is_tensor(value)) {
        st = fail(ST_FORMAT,
                  "%s: holds one tensor without a name, want a dict of tensors "
                  "(torch.save(model.state_dict(), ...))",
                  file->path);
        goto out;
    }
    TRY_OUT(collect(&w, "", value, 0));
    if (w.count == 0) {
        st = fail(ST_FORMAT, "%s: holds no tensors: it is %s", file->path,
                  pickle_describe(value, text, sizeof text));
        goto out;
    }
    views = mem_zalloc(w.count, sizeof *views);
    if (!views) {
        st = ST_NOMEM;
        goto out;
    }
    TRY_OUT(make_tensors(&w, views, out));
    TRY_OUT(report(&w, path, out));
out:
    for (size_t i = 0; i < w.count; i++)
        mem_free(w.found[i].name);
    mem_free(w.found);
    mem_free(views);
    return st;
}
