/* capture: see capture.h. */
#include "kernels/capture.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

struct attention_shape attention_shape_full(int heads, int prefix, int grid_h, int grid_w) {
    struct attention_shape shape = {.heads = heads,
                                    .prefix = prefix,
                                    .map = {.grid_h = grid_h, .grid_w = grid_w},
                                    .windows = 1};
    shape.queries = shape.keys = attention_shape_tokens(&shape);
    return shape;
}

struct attention_shape attention_shape_windows(int heads, const struct window_grid *map) {
    return (struct attention_shape){.heads = heads,
                                    .map = *map,
                                    .windowed = true,
                                    .windows = window_count(map),
                                    .queries = window_slots(map),
                                    .keys = window_slots(map)};
}

int attention_shape_tokens(const struct attention_shape *shape) {
    return shape->prefix + shape->map.grid_h * shape->map.grid_w;
}

size_t attention_shape_head_floats(const struct attention_shape *shape) {
    return (size_t)shape->windows * (size_t)shape->queries * (size_t)shape->keys;
}

size_t attention_shape_floats(const struct attention_shape *shape) {
    return (size_t)shape->heads * attention_shape_head_floats(shape);
}

void attention_shape_window(const struct attention_shape *shape, int window, int *token) {
    if (shape->windowed)
        window_tokens(&shape->map, window, token);
    else
        for (int i = 0; i < shape->keys; i++)
            token[i] = i;
}

/* ---- room ------------------------------------------------------------------------------------ */

bool capture_wants(const struct capture *capture, int layer) {
    return capture && (!capture->layers || capture->layers[layer]);
}

/* The probabilities of a layer in the room. */
static struct act region_of(const struct capture_room *room, const struct attention_shape *shape,
                            int batch) {
    const int rows = shape->windows * shape->heads * shape->queries;
    return (struct act){.data = room->region.data,
                        .offset = room->region.offset,
                        .batch = batch,
                        .tokens = rows,
                        .channels = shape->keys,
                        .pitch = (size_t)shape->keys,
                        .stride = (size_t)rows * (size_t)shape->keys};
}

static void room_layout(struct backend *be, struct capture_room *room,
                        const struct attention_shape *largest, int batch) {
    room->region = act_take(be, &room->arena, batch,
                            largest->windows * largest->heads * largest->queries, largest->keys);
}

static enum status reserve(struct backend *be, struct capture_room *room,
                           const struct attention_shape *largest, int batch) {
    room_layout(be, room, largest, batch);
    TRY(backend_reserve(be, &room->arena, "attention probabilities"));
    room_layout(be, room, largest, batch);
    if (!backend_is_gpu(be)) return ST_OK;
    room->host = mem_zalloc((size_t)batch, attention_shape_floats(largest) * sizeof *room->host);
    return room->host ? ST_OK : ST_NOMEM;
}

enum status capture_reserve(struct backend *be, struct capture_room *room,
                            const struct attention_shape *largest, int batch) {
    enum status st;
    if (room->arena.base && room->region.batch >= batch) return ST_OK;
    capture_release(be, room);
    st = reserve(be, room, largest, batch);
    if (st != ST_OK) capture_release(be, room);
    return st;
}

void capture_release(struct backend *be, struct capture_room *room) {
    if (room->arena.base) backend_release_arena(be, &room->arena);
    mem_free(room->host);
    *room = (struct capture_room){0};
}

/* ---- the op ---------------------------------------------------------------------------------- */

void capture_hand_out(struct backend *be, const struct capture *capture, int layer,
                      struct attention_shape shape, struct act probs, float *host) {
    const struct captured taken = {.layer = layer,
                                   .first = capture->first,
                                   .batch = probs.batch,
                                   .shape = shape,
                                   .probs = backend_view(be, probs, host)};
    if (taken.probs) capture->take(capture->context, &taken);
}

bool capture_attention(struct backend *be, const struct capture_room *room,
                       const struct capture *capture, int layer,
                       const struct attention_shape *shape, const struct attention *desc,
                       struct act q, struct act k, struct act v, struct act y) {
    const struct act probs = region_of(room, shape, q.batch);
    struct attention wanted = *desc;
    wanted.probs = &probs;
    op_attention(be, &wanted, q, k, v, y);
    capture_hand_out(be, capture, layer, *shape, probs, room->host);
    return !backend_is_gpu(be);
}
