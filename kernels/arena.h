/*
 * arena: one block of memory, handed out front to back, 256-byte aligned.
 *
 * Life cycle: zeroed arena -> layout once (base NULL: only measures) -> arena_reserve -> layout
 * again (binds) -> arena_release. The one layout function is run twice, so there is no list of
 * sizes beside the struct it fills. arena_release works on a zeroed arena, and twice.
 */
#ifndef KERNELS_ARENA_H
#define KERNELS_ARENA_H

#include "kernels/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ARENA_ALIGN 256

struct arena {
    unsigned char *base; /* NULL while measuring */
    size_t used;         /* bytes handed out, or measured, so far */
    size_t capacity;     /* bytes at base */
    bool overflow;       /* a size did not fit: reserve will refuse */
};

/* The next count*size bytes, aligned; NULL while measuring and on overflow. Contents undefined. */
void *arena_take(struct arena *arena, size_t count, size_t size);

/*
 * Allocates what was measured and starts handing out from the front; ST_NOMEM names `what` and the
 * size.
 */
enum status arena_reserve(struct arena *arena, const char *what) MUST_CHECK;

void arena_release(struct arena *arena);

#ifdef __cplusplus
}
#endif
#endif
