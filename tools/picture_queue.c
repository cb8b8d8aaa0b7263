/* picture_queue: see picture_queue.h. Threads encode; files are written by the caller alone. */
#include "tools/picture_queue.h"

#include <stdio.h>

#include "kernels/threads.h"
#include "tools/output.h"
#include "tools/picture.h"

enum { MOST_PICTURES = 64, MOST_BYTES = 1 << 27 /* of pixels; a few large photos */ };

struct picture_job {
    char *path;
    struct image picture;
    struct picture_bytes png;
    enum status status;
    char *error; /* the sentence of the thread that encoded */
};

enum status picture_queue_open(struct picture_queue *out, int threads) {
    enum status st;
    *out = (struct picture_queue){.capacity = threads > 1 ? MOST_PICTURES : 1};
    out->jobs = mem_zalloc((size_t)out->capacity, sizeof *out->jobs);
    st = out->jobs ? threads_open(threads, NULL, &out->threads) : ST_NOMEM;
    if (st != ST_OK) picture_queue_release(out);
    return st;
}

static void job_release(struct picture_job *job) {
    mem_free(job->path);
    mem_free(job->error);
    image_release(&job->picture);
    picture_bytes_release(&job->png);
    *job = (struct picture_job){0};
}

static void drop_all(struct picture_queue *queue) {
    for (int i = 0; i < queue->count; i++)
        job_release(&queue->jobs[i]);
    queue->count = 0;
    queue->bytes = 0;
}

void picture_queue_release(struct picture_queue *queue) {
    drop_all(queue);
    threads_close(queue->threads);
    mem_free(queue->jobs);
    *queue = (struct picture_queue){0};
}

static void encode(void *context, int task, int worker) {
    struct picture_job *job = &((struct picture_queue *)context)->jobs[task];
    const struct image *picture = &job->picture;
    (void)worker;
    job->status = picture_png(picture->rgb, picture->width, picture->height, 3, &job->png);
    if (job->status != ST_OK) job->error = str_copy(fail_message());
    image_release(&job->picture);
}

static enum status write_file(const struct picture_job *job) {
    struct output out = {0};
    enum status st = job->status;
    if (st != ST_OK) return job->error ? fail(st, "%s: %s", job->path, job->error) : st;
    TRY(output_open(&out, job->path));
    out.whole = true;
    fwrite(job->png.bytes, 1, job->png.size, out.file);
    return output_close(&out, ST_OK);
}

enum status picture_queue_write(struct picture_queue *queue) {
    enum status st = ST_OK;
    threads_run(queue->threads, queue->count, encode, queue);
    for (int i = 0; st == ST_OK && i < queue->count; i++)
        st = write_file(&queue->jobs[i]);
    drop_all(queue);
    return st;
}

enum status picture_queue_add(struct picture_queue *queue, char *path, struct image *picture) {
    struct picture_job *job = &queue->jobs[queue->count];
    if (!path) {
        image_release(picture);
        return ST_NOMEM;
    }
    *job = (struct picture_job){.path = path, .picture = *picture};
    *picture = (struct image){0};
    queue->count++;
    queue->bytes += (size_t)job->picture.width * (size_t)job->picture.height * 3;
    if (queue->count < queue->capacity && queue->bytes < MOST_BYTES) return ST_OK;
    return picture_queue_write(queue);
}
