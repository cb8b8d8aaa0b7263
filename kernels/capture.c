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

int attention_shape_rows(const struct attention_shape *shape) {
    return shape->windows * shape->heads * shape->queries;
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

static void room_layout(struct backend *be, struct capture_room *room,
                        const struct attention_shape *largest, int score_rows, int batch) {
    room->region = act_take(be, &room->arena, batch, attention_shape_rows(largest), largest->keys);
    if (score_rows > 0) room->scores = act_take(be, &room->arena, batch, score_rows, 1);
}

static enum status reserve(struct backend *be, struct capture_room *room,
                           const struct attention_shape *largest, int score_rows, int batch) {
    const size_t floats = attention_shape_floats(largest);
    room_layout(be, room, largest, score_rows, batch);
    TRY(backend_reserve(be, &room->arena, "attention probabilities"));
    room_layout(be, room, largest, score_rows, batch);
    if (!backend_is_gpu(be)) return ST_OK;
    room->host = mem_zalloc((size_t)batch, (floats + (size_t)score_rows) * sizeof *room->host);
    if (!room->host) return ST_NOMEM;
    room->host_scores = room->host + (size_t)batch * floats;
    return ST_OK;
}

enum status capture_reserve(struct backend *be, struct capture_room *room,
                            const struct attention_shape *largest, int score_rows, int batch) {
    enum status st;
    if (room->arena.base && room->region.batch >= batch && (!score_rows || room->scores.data))
        return ST_OK;
    capture_release(be, room);
    st = reserve(be, room, largest, score_rows, batch);
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
                      struct attention_shape shape, struct act probs, float *host,
                      const float *greatest) {
    const struct captured taken = {.layer = layer,
                                   .first = capture->first,
                                   .batch = probs.batch,
                                   .shape = shape,
                                   .probs = backend_view(be, probs, host),
                                   .greatest = greatest};
    if (taken.probs) capture->take(capture->context, &taken);
}

bool capture_attention(struct backend *be, const struct capture_room *room,
                       const struct capture *capture, int layer,
                       const struct attention_shape *shape, const struct attention *desc,
                       struct act q, struct act k, struct act v, struct act y) {
    const struct act probs =
        act_front(act_batch(room->region, q.batch), attention_shape_rows(shape), shape->keys);
    const struct act scores =
        act_front(act_batch(room->scores, q.batch), shape->windows * shape->heads, shape->queries);
    struct attention wanted = *desc;
    wanted.probs = &probs;
    if (capture->scores) wanted.greatest = &scores;
    op_attention(be, &wanted, q, k, v, y);
    capture_hand_out(be, capture, layer, *shape, probs, room->host,
                     capture->scores ? backend_view(be, scores, room->host_scores) : NULL);
    return !backend_is_gpu(be);
}
