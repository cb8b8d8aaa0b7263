/*
 * picture_queue: PNG files, encoded several at a time: that takes longer than to draw them.
 *
 *   picture_queue_open -> picture_queue_add, a picture a call; when many wait, or their pixels are
 *   many, they are written -> picture_queue_write at the end of a batch -> picture_queue_release
 */
#ifndef TOOLS_PICTURE_QUEUE_H
#define TOOLS_PICTURE_QUEUE_H

#include "datasets/image.h"

struct picture_queue {
    struct threads *threads;
    struct picture_job *jobs; /* (capacity) */
    int count, capacity;
    size_t bytes; /* of the pixels that wait */
};

/* `threads` encode; 1: every picture is written when it is added. Errors of threads_open. */
enum status picture_queue_open(struct picture_queue *out, int threads) MUST_CHECK;
void picture_queue_release(struct picture_queue *queue); /* works on a zeroed struct, and twice */

/*
 * A PNG file, whole or not there. The path, to be freed, and the picture's pixels are the queue's
 * from here on, also on failure; *picture is zeroed. path NULL: ST_NOMEM. Errors of
 * picture_queue_write.
 */
enum status picture_queue_add(struct picture_queue *queue, char *path,
                              struct image *picture) MUST_CHECK;

/*
 * Writes all that wait, in the order they were added, up to the first that cannot be: errors of
 * picture_png, and ST_IO. None waits afterwards.
 */
enum status picture_queue_write(struct picture_queue *queue) MUST_CHECK;

#endif
