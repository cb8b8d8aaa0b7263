/* arena: see arena.h. */
#include "kernels/arena.h"

#include <stdlib.h>

void *arena_take(struct arena *arena, size_t count, size_t size) {
    size_t bytes, end;
    void *ptr;
    if (!size_mul(count, size, &bytes) || !size_add(bytes, ARENA_ALIGN - 1, &bytes) ||
        !size_add(arena->used, bytes / ARENA_ALIGN * ARENA_ALIGN, &end) ||
        (arena->base && end > arena->capacity)) {
        arena->overflow = true;
        return NULL;
    }
    ptr = arena->base ? arena->base + arena->used : NULL;
    arena->used = end;
    return ptr;
}

enum status arena_reserve(struct arena *arena, const char *what) {
    size_t bytes = arena->used ? arena->used : ARENA_ALIGN;
    if (arena->overflow) return fail(ST_NOMEM, "%s: its size does not fit into memory", what);
    arena->base = aligned_alloc(ARENA_ALIGN, bytes);
    if (!arena->base) return fail(ST_NOMEM, "%s: no memory for %zu bytes", what, bytes);
    arena->capacity = bytes;
    arena->used = 0;
    return ST_OK;
}

void arena_release(struct arena *arena) {
    free(arena->base);
    *arena = (struct arena){0};
}
