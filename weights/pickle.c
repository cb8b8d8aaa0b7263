/*
 * pickle: the stack machine of pickle.h, one row of `ops` an opcode. It knows protocols 2 to 5
 * without out-of-band buffers, extension codes and the text opcodes of protocol 0.
 *
 * Every length is held against the bytes that are left, every pop against the last mark; values
 * are limited in memory and depth (pickle_internal.h), stack and memo in their length.
 */
#include "weights/pickle.h"

#include <string.h>

#include "weights/pickle_internal.h"

struct machine {
    struct pickle_memory *memory;
    const char *path;
    const uint8_t *bytes;
    size_t size, at;
    struct pickle_value **stack; // (count)
    size_t count, capacity;
    size_t *marks; // (mark_count): heights of the stack
    size_t mark_count, mark_capacity;
    struct pickle_value **memo; // (memo_capacity), NULL where nothing was put
    size_t memo_count, memo_capacity;
};

typedef enum status step(struct machine *m, int arg);

static struct pickle_value none = {.kind = PICKLE_NONE};
static struct pickle_value truth[2] = {{.kind = PICKLE_BOOL, .integer = 0},
                                       {.kind = PICKLE_BOOL, .integer = 1}};

/* ---- bytes and the stack ---- */

static enum status broken(const struct machine *m, const char *what) {
    return fail(ST_FORMAT, "%s: its pickle is broken at byte %zu: %s", m->path, m->at, what);
}

static enum status take(struct machine *m, uint64_t size, const uint8_t **out) {
    if (size > m->size - m->at) return broken(m, "it is cut short");
    *out = m->bytes + m->at;
    m->at += (size_t)size;
    return ST_OK;
}

/* An unsigned number of 1 to 8 bytes, little endian. */
static enum status take_number(struct machine *m, int bytes, uint64_t *out) {
    const uint8_t *at = NULL;
    TRY(take(m, (uint64_t)bytes, &at));
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        *out = *out << 8 | at[i];
    return ST_OK;
}

static enum status push(struct machine *m, struct pickle_value *value) {
    if (!value) return ST_NOMEM;
    if (m->count == PICKLE_MAX_STACK)
        return fail(ST_NOMEM, "%s: its pickle stacks more than %zu values", m->path,
                    PICKLE_MAX_STACK);
    TRY(mem_grow((void **)&m->stack, &m->capacity, m->count + 1, sizeof(void *)));
    m->stack[m->count++] = value;
    return ST_OK;
}

/* Whether `wanted` values lie above the last mark. */
static enum status need(const struct machine *m, size_t wanted) {
    size_t floor = m->mark_count ? m->marks[m->mark_count - 1] : 0;
    return m->count - floor >= wanted ? ST_OK : broken(m, "it takes a value that is not there");
}

static enum status pop(struct machine *m, struct pickle_value **out) {
    TRY(need(m, 1));
    *out = m->stack[--m->count];
    return ST_OK;
}

static enum status pop_mark(struct machine *m, size_t *first) {
    if (m->mark_count == 0) return broken(m, "it goes back to a mark that is not there");
    *first = m->marks[--m->mark_count];
    return ST_OK;
}

static struct pickle_value *make(struct machine *m, enum pickle_kind kind) {
    return pickle_new(m->memory, m->path, kind);
}

/* ---- plain values ---- */

static enum status op_nothing(struct machine *m, int bytes) {
    const uint8_t *skipped;
    return take(m, (uint64_t)bytes, &skipped);
}

static enum status op_protocol(struct machine *m, int arg) {
    uint64_t protocol = 0;
    (void)arg;
    TRY(take_number(m, 1, &protocol));
    if (protocol >= 2 && protocol <= 5) return ST_OK;
    return fail(ST_FORMAT, "%s: a pickle of protocol %d; vitrine reads 2 to 5", m->path,
                (int)protocol);
}

static enum status op_none(struct machine *m, int arg) {
    (void)arg;
    return push(m, &none);
}

static enum status op_bool(struct machine *m, int arg) {
    return push(m, &truth[arg]);
}

static enum status push_integer(struct machine *m, int64_t integer) {
    struct pickle_value *value = make(m, PICKLE_INTEGER);
    if (value) value->integer = integer;
    return push(m, value);
}

/* 1 or 2 bytes without a sign, 4 with one. */
static enum status op_integer(struct machine *m, int bytes) {
    uint64_t number = 0;
    TRY(take_number(m, bytes, &number));
    return push_integer(m, bytes == 4 ? (int32_t)(uint32_t)number : (int64_t)number);
}

static enum status push_text(struct machine *m, enum pickle_kind kind, uint64_t size) {
    const uint8_t *bytes = NULL;
    struct pickle_value *value;
    TRY(take(m, size, &bytes));
    value = make(m, kind);
    if (!value) return ST_NOMEM;
    value->text.bytes = (const char *)bytes;
    value->text.size = (size_t)size;
    return push(m, value);
}

/* Two's complement behind its length of 1 or 4 bytes. */
static enum status op_long(struct machine *m, int bytes) {
    uint64_t size = 0, number = 0;
    TRY(take_number(m, bytes, &size));
    if (size > 8) return push_text(m, PICKLE_LONG, size);
    TRY(take_number(m, (int)size, &number));
    if (size && size < 8 && number >> (8 * size - 1)) number |= UINT64_MAX << (8 * size);
    return push_integer(m, (int64_t)number);
}

/* 8 bytes, the highest first. */
static enum status op_float(struct machine *m, int arg) {
    const uint8_t *bytes = NULL;
    uint64_t bits = 0;
    struct pickle_value *value;
    (void)arg;
    TRY(take(m, 8, &bytes));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    value = make(m, PICKLE_FLOAT);
    if (value) memcpy(&value->real, &bits, sizeof bits);
    return push(m, value);
}

static enum status op_string(struct machine *m, int bytes) {
    uint64_t size = 0;
    TRY(take_number(m, bytes, &size));
    return push_text(m, PICKLE_STRING, size);
}

static enum status op_bytes(struct machine *m, int bytes) {
    uint64_t size = 0;
    TRY(take_number(m, bytes, &size));
    return push_text(m, PICKLE_BYTES, size);
}

/* ---- tuples, lists, dicts ---- */

static enum status op_empty(struct machine *m, int kind) {
    return push(m, make(m, (enum pickle_kind)kind));
}

/* The values from `first` on become one. */
static enum status collect(struct machine *m, enum pickle_kind kind, size_t first) {
    struct pickle_value *value = make(m, kind);
    if (!value) return ST_NOMEM;
    for (size_t i = first; i < m->count; i++)
        TRY(pickle_append(m->memory, m->path, value, m->stack[i]));
    m->count = first;
    return push(m, value);
}

static enum status op_tuple(struct machine *m, int count) {
    TRY(need(m, (size_t)count));
    return collect(m, PICKLE_TUPLE, m->count - (size_t)count);
}

static enum status op_marked(struct machine *m, int kind) {
    size_t first = 0;
    TRY(pop_mark(m, &first));
    if (kind == PICKLE_DICT && (m->count - first) % 2) return broken(m, "a key without a value");
    return collect(m, (enum pickle_kind)kind, first);
}

/* The values from `first` on go into the list or dict below them, or into an object as such. */
static enum status extend(struct machine *m, enum pickle_kind kind, size_t first) {
    struct pickle_value *owner, *target;
    if (kind == PICKLE_DICT && (m->count - first) % 2) return broken(m, "a key without a value");
    if (first <= (m->mark_count ? m->marks[m->mark_count - 1] : 0))
        return broken(m, "nothing to put items into");
    owner = target = m->stack[first - 1];
    if (owner->kind == PICKLE_OBJECT) {
        if (!owner->object.content) owner->object.content = make(m, kind);
        target = owner->object.content;
        if (!target) return ST_NOMEM;
    }
    if (target->kind != kind) return broken(m, "items for what holds none");
    for (size_t i = first; i < m->count; i++)
        TRY(pickle_append(m->memory, m->path, target, m->stack[i]));
    m->count = first;
    return owner == target ? ST_OK : pickle_adopt(m->path, owner, target);
}

static enum status op_append(struct machine *m, int arg) {
    (void)arg;
    TRY(need(m, 2));
    return extend(m, PICKLE_LIST, m->count - 1);
}

static enum status op_set_item(struct machine *m, int arg) {
    (void)arg;
    TRY(need(m, 3));
    return extend(m, PICKLE_DICT, m->count - 2);
}

static enum status op_extend(struct machine *m, int kind) {
    size_t first = 0;
    TRY(pop_mark(m, &first));
    return extend(m, (enum pickle_kind)kind, first);
}

static enum status op_mark(struct machine *m, int arg) {
    (void)arg;
    if (m->mark_count == PICKLE_MAX_STACK)
        return fail(ST_NOMEM, "%s: its pickle sets more than %zu marks", m->path, PICKLE_MAX_STACK);
    TRY(mem_grow((void **)&m->marks, &m->mark_capacity, m->mark_count + 1, sizeof *m->marks));
    m->marks[m->mark_count++] = m->count;
    return ST_OK;
}

static enum status op_pop(struct machine *m, int arg) {
    struct pickle_value *value;
    (void)arg;
    return pop(m, &value);
}

static enum status op_pop_mark(struct machine *m, int arg) {
    (void)arg;
    return pop_mark(m, &m->count);
}

static enum status op_duplicate(struct machine *m, int arg) {
    (void)arg;
    TRY(need(m, 1));
    return push(m, m->stack[m->count - 1]);
}

/* ---- memo ---- */

static enum status put(struct machine *m, uint64_t index) {
    TRY(need(m, 1));
    if (index >= PICKLE_MAX_STACK || index >= m->size)
        return fail(ST_NOMEM, "%s: its pickle keeps a value as number %ju", m->path,
                    (uintmax_t)index);
    TRY(mem_grow((void **)&m->memo, &m->memo_capacity, (size_t)index + 1, sizeof(void *)));
    m->memo[index] = m->stack[m->count - 1];
    m->memo_count++;
    return ST_OK;
}

static enum status op_put(struct machine *m, int bytes) {
    uint64_t index = 0;
    TRY(take_number(m, bytes, &index));
    return put(m, index);
}

static enum status op_memoize(struct machine *m, int arg) {
    (void)arg;
    return put(m, m->memo_count);
}

static enum status op_get(struct machine *m, int bytes) {
    uint64_t index = 0;
    TRY(take_number(m, bytes, &index));
    if (index >= m->memo_capacity || !m->memo[index])
        return broken(m, "it asks for a value that was not kept");
    return push(m, m->memo[index]);
}

/* ---- names and objects ---- */

static enum status push_global(struct machine *m, const char *module, size_t module_size,
                               const char *name, size_t name_size) {
    struct pickle_value *value = make(m, PICKLE_GLOBAL);
    if (!value) return ST_NOMEM;
    for (size_t i = 0; i < module_size + name_size; i++) {
        unsigned char c = (unsigned char)(i < module_size ? module[i] : name[i - module_size]);
        if (c <= 0x20 || c == 0x7f) return broken(m, "the name of a class has control characters");
    }
    value->global.module = module;
    value->global.module_size = module_size;
    value->global.name = name;
    value->global.name_size = name_size;
    return push(m, value);
}

static enum status take_line(struct machine *m, const char **line, size_t *size) {
    const uint8_t *begin = m->bytes + m->at, *end = memchr(begin, '\n', m->size - m->at);
    if (!end) return broken(m, "a line does not end");
    *line = (const char *)begin;
    *size = (size_t)(end - begin);
    m->at += *size + 1;
    return ST_OK;
}

static enum status op_global(struct machine *m, int arg) {
    const char *module = NULL, *name = NULL;
    size_t module_size = 0, name_size = 0;
    (void)arg;
    TRY(take_line(m, &module, &module_size));
    TRY(take_line(m, &name, &name_size));
    return push_global(m, module, module_size, name, name_size);
}

static enum status op_stack_global(struct machine *m, int arg) {
    struct pickle_value *module = NULL, *name = NULL;
    (void)arg;
    TRY(pop(m, &name));
    TRY(pop(m, &module));
    if (module->kind != PICKLE_STRING || name->kind != PICKLE_STRING)
        return broken(m, "a class whose name is no text");
    return push_global(m, module->text.bytes, module->text.size, name->text.bytes, name->text.size);
}

static enum status push_object(struct machine *m, struct pickle_value *callable,
                               struct pickle_value *args) {
    struct pickle_value *value = make(m, PICKLE_OBJECT);
    if (!value) return ST_NOMEM;
    value->object.callable = callable;
    value->object.args = args;
    TRY(pickle_adopt(m->path, value, args));
    return push(m, value);
}

/* A dict from its constructor's arguments: Python 2 gave OrderedDict a list of pairs. */
static enum status push_dict(struct machine *m, const struct pickle_value *args) {
    const struct pickle_value *pairs = args->list.count ? args->list.items[0] : NULL;
    struct pickle_value *value = make(m, PICKLE_DICT);
    if (!value) return ST_NOMEM;
    for (size_t i = 0; pairs && pairs->kind == PICKLE_LIST && i < pairs->list.count; i++) {
        const struct pickle_value *pair = pairs->list.items[i];
        if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->list.count != 2)
            return broken(m, "a dict of what are no pairs");
        TRY(pickle_append(m->memory, m->path, value, pair->list.items[0]));
        TRY(pickle_append(m->memory, m->path, value, pair->list.items[1]));
    }
    return push(m, value);
}

static enum status op_reduce(struct machine *m, int arg) {
    struct pickle_value *args = NULL, *callable = NULL;
    char text[200];
    bool dict = false;
    (void)arg;
    TRY(pop(m, &args));
    TRY(pop(m, &callable));
    if (callable->kind != PICKLE_GLOBAL || args->kind != PICKLE_TUPLE)
        return broken(m, "it calls what is no function");
    if (!pickle_may_call(callable, &dict))
        return fail(ST_FORMAT,
                    "%s: its pickle calls %s, which no tensor needs; vitrine runs nothing of a "
                    "checkpoint (save the state_dict alone)",
                    m->path, pickle_global_text(callable, text, sizeof text));
    return dict ? push_dict(m, args) : push_object(m, callable, args);
}

/* An instance: class and arguments; with `keywords` (protocol 4) a dict of those too. */
static enum status op_new(struct machine *m, int keywords) {
    struct pickle_value *args = NULL, *class = NULL, *words = NULL;
    if (keywords) TRY(pop(m, &words));
    TRY(pop(m, &args));
    TRY(pop(m, &class));
    if (class->kind != PICKLE_GLOBAL || args->kind != PICKLE_TUPLE)
        return broken(m, "an instance of what is no class");
    if (pickle_is_global(class, "collections", "OrderedDict")) return push(m, make(m, PICKLE_DICT));
    return push_object(m, class, args);
}

/* The state of an object; that of a dict (_metadata of a state_dict) holds no tensor. */
static enum status op_build(struct machine *m, int arg) {
    struct pickle_value *state = NULL, *target;
    (void)arg;
    TRY(need(m, 2));
    TRY(pop(m, &state));
    target = m->stack[m->count - 1];
    if (target->kind != PICKLE_OBJECT) return ST_OK;
    target->object.state = state;
    return pickle_adopt(m->path, target, state);
}

/* The legacy stream gives a class as ('module', CLASS, file, source text): the class. */
static enum status op_persistent(struct machine *m, int arg) {
    const struct pickle_value *id;
    (void)arg;
    TRY(need(m, 1));
    id = m->stack[m->count - 1];
    if (id->kind == PICKLE_TUPLE && id->list.count >= 2 &&
        pickle_is_text(id->list.items[0], "module")) {
        m->stack[m->count - 1] = id->list.items[1];
        return ST_OK;
    }
    TRY(collect(m, PICKLE_PERSISTENT, m->count - 1));
    if (!m->memory->persistent) m->memory->persistent = make(m, PICKLE_LIST);
    if (!m->memory->persistent) return ST_NOMEM;
    return pickle_append(m->memory, m->path, m->memory->persistent, m->stack[m->count - 1]);
}

/* ---- the loop ---- */

static const struct {
    step *run;
    int arg;
} ops[256] = {
    [0x80] = {op_protocol, 0},
    [0x95] = {op_nothing, 8}, /* FRAME and its length */
    ['N'] = {op_none, 0},
    [0x88] = {op_bool, 1},
    [0x89] = {op_bool, 0},
    ['K'] = {op_integer, 1},
    ['M'] = {op_integer, 2},
    ['J'] = {op_integer, 4},
    [0x8a] = {op_long, 1},
    [0x8b] = {op_long, 4},
    ['G'] = {op_float, 0},
    ['U'] = {op_string, 1}, /* Python 2's str */
    ['T'] = {op_string, 4},
    [0x8c] = {op_string, 1},
    ['X'] = {op_string, 4},
    [0x8d] = {op_string, 8},
    ['C'] = {op_bytes, 1},
    ['B'] = {op_bytes, 4},
    [0x8e] = {op_bytes, 8},
    [0x96] = {op_bytes, 8}, /* bytearray */
    [')'] = {op_empty, PICKLE_TUPLE},
    [']'] = {op_empty, PICKLE_LIST},
    ['}'] = {op_empty, PICKLE_DICT},
    [0x8f] = {op_empty, PICKLE_LIST}, /* a set */
    [0x85] = {op_tuple, 1},
    [0x86] = {op_tuple, 2},
    [0x87] = {op_tuple, 3},
    ['t'] = {op_marked, PICKLE_TUPLE},
    ['l'] = {op_marked, PICKLE_LIST},
    ['d'] = {op_marked, PICKLE_DICT},
    [0x91] = {op_marked, PICKLE_LIST}, /* a frozenset */
    ['a'] = {op_append, 0},
    ['e'] = {op_extend, PICKLE_LIST},
    [0x90] = {op_extend, PICKLE_LIST}, /* into a set */
    ['s'] = {op_set_item, 0},
    ['u'] = {op_extend, PICKLE_DICT},
    ['('] = {op_mark, 0},
    ['0'] = {op_pop, 0},
    ['1'] = {op_pop_mark, 0},
    ['2'] = {op_duplicate, 0},
    ['q'] = {op_put, 1},
    ['r'] = {op_put, 4},
    [0x94] = {op_memoize, 0},
    ['h'] = {op_get, 1},
    ['j'] = {op_get, 4},
    ['c'] = {op_global, 0},
    [0x93] = {op_stack_global, 0},
    ['R'] = {op_reduce, 0},
    [0x81] = {op_new, 0},
    [0x92] = {op_new, 1},
    ['b'] = {op_build, 0},
    ['Q'] = {op_persistent, 0},
};

/* Of protocols 0 and 1 alone: numbers and strings as text, text memo, instances, ids. */
static const char text_ops[] = "ILFSVpgioP";

static enum status run(struct machine *m, const struct pickle_value **out) {
    struct pickle_value *value = NULL;
    while (m->at < m->size) {
        uint8_t code = m->bytes[m->at++];
        if (code == '.') {
            TRY(pop(m, &value));
            *out = value;
            return ST_OK;
        }
        if (!ops[code].run && m->bytes[0] != 0x80 && memchr(text_ops, code, sizeof text_ops - 1))
            return fail(ST_FORMAT,
                        "%s: a pickle of protocol 0 or 1; vitrine reads 2 to 5 (save it again with "
                        "torch's own protocol)",
                        m->path);
        if (!ops[code].run)
            return fail(ST_FORMAT,
                        "%s: its pickle has opcode 0x%02x at byte %zu, which torch.save does not "
                        "write",
                        m->path, code, m->at - 1);
        TRY(ops[code].run(m, ops[code].arg));
    }
    return broken(m, "it is cut short");
}

enum status pickle_load(struct pickle_memory *memory, const uint8_t *bytes, size_t size,
                        const char *path, const struct pickle_value **out, size_t *used) {
    struct machine m = {.memory = memory, .path = path, .bytes = bytes, .size = size};
    enum status st = run(&m, out);
    if (used)
        *used = m.at;
    else if (st == ST_OK && m.at != size)
        st = fail(ST_FORMAT, "%s: %zu bytes after the end of its pickle", path, size - m.at);
    mem_free(m.stack);
    mem_free(m.marks);
    mem_free(m.memo);
    return st;
}
