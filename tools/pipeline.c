/*
 * pipeline: see pipeline.h. Input n lives in slot n % ring; the ring is a whole number of batches,
 * so that a batch's pixels lie together. `claimed` counts the inputs handed to workers, `released`
 * those whose slots are free again; a worker waits while claimed - released == ring.
 */
#include "tools/pipeline.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"

enum { MOST_WORKERS = 256 };

struct slot {
    struct pipeline_item item;
    bool ready;
};

struct run {
    const struct pipeline *pipeline;
    struct slot *slots; /* (ring) */
    uint8_t *pixels;    /* (ring, height, width, 3) */
    size_t ring, image_bytes;
    pthread_mutex_t source; /* held while the next input is fetched: keeps them in order */
    pthread_mutex_t state;  /* guards what follows */
    pthread_cond_t freed, done;
    size_t claimed, released;
    size_t end; /* inputs in all once known, else SIZE_MAX */
    bool stop;
    double read, decode, resize;
    pthread_t workers[MOST_WORKERS];
    int worker_count;
};

/* ---- one input ------------------------------------------------------------------------------ */

/* What an item gets when there is no memory for its own: it must not pass for a good one. */
static char no_path[] = "", no_memory[] = "no memory left to say what is wrong";

static void item_release(struct pipeline_item *item) {
    if (item->path != no_path) mem_free(item->path);
    if (item->error != no_memory) mem_free(item->error);
    mem_free(item->bytes);
    image_release(&item->image);
    memset(item, 0, sizeof *item);
}

/* The reason without the path in front: a row has the path beside it. */
static void set_error(struct pipeline_item *item) {
    const char *sentence = fail_message();
    size_t length = strlen(item->path);
    if (length && strncmp(sentence, item->path, length) == 0 &&
        strncmp(sentence + length, ": ", 2) == 0)
        sentence += length + 2;
    item->error = str_copy(sentence);
    if (!item->error) item->error = no_memory;
}

static enum status decode_item(const struct pipeline *pipeline, struct pipeline_item *item) {
    if (item->image.rgb) return ST_OK;
    if (item->bytes) return image_decode(item->bytes, item->size, &pipeline->image, &item->image);
    return image_read(item->path, &pipeline->image, &item->image);
}

/* Decode and preprocess; false, the reason in item->error, when that cannot be. */
static void work(const struct run *run, struct pipeline_item *item, uint8_t *pixels,
                 double seconds[2]) {
    const struct pipeline *pipeline = run->pipeline;
    double start = cli_seconds(), decoded;
    enum status st;
    if (item->error) return;
    st = decode_item(pipeline, item);
    decoded = cli_seconds();
    seconds[0] = decoded - start;
    if (st == ST_OK) {
        item->width = item->image.width;
        item->height = item->image.height;
        item->orientation = item->image.orientation;
        st = preprocess_image(pipeline->preprocess, &item->image, pixels, &item->placement);
        seconds[1] = cli_seconds() - decoded;
    }
    if (st != ST_OK) set_error(item);
    if (st != ST_OK || !pipeline->keep_images) image_release(&item->image);
    mem_free(item->bytes);
    item->bytes = NULL;
}

/* ---- workers -------------------------------------------------------------------------------- */

/* Waits for a free slot and fetches the next input into it; false when there is none left. */
static bool claim(struct run *run, size_t *number) {
    const struct pipeline *pipeline = run->pipeline;
    double start = 0;
    bool more = false, open;
    pthread_mutex_lock(&run->source);
    pthread_mutex_lock(&run->state);
    while (!run->stop && run->end == SIZE_MAX && run->claimed - run->released == run->ring)
        pthread_cond_wait(&run->freed, &run->state);
    open = !run->stop && run->end == SIZE_MAX;
    *number = run->claimed;
    pthread_mutex_unlock(&run->state);
    if (open) {
        struct pipeline_item *item = &run->slots[*number % run->ring].item;
        start = cli_seconds();
        more = pipeline->next(pipeline->source, item);
        item->number = *number;
        if (more && !item->path) {
            item->path = no_path;
            item->error = no_memory;
        }
    }
    pthread_mutex_lock(&run->state);
    if (more) run->claimed++;
    if (open) run->read += cli_seconds() - start;
    if (open && !more) {
        run->end = *number;
        pthread_cond_broadcast(&run->done);
    }
    pthread_mutex_unlock(&run->state);
    pthread_mutex_unlock(&run->source);
    return more;
}

/* One input from the source into its slot; false at the end. */
static bool produce(struct run *run) {
    double seconds[2] = {0, 0};
    struct slot *slot;
    size_t number;
    if (!claim(run, &number)) return false;
    slot = &run->slots[number % run->ring];
    work(run, &slot->item, run->pixels + (number % run->ring) * run->image_bytes, seconds);
    pthread_mutex_lock(&run->state);
    slot->ready = true;
    run->decode += seconds[0];
    run->resize += seconds[1];
    pthread_cond_signal(&run->done); /* the consumer is the only one who waits */
    pthread_mutex_unlock(&run->state);
    return true;
}

static void *worker(void *context) {
    while (produce(context))
        continue;
    return NULL;
}

/* ---- the consumer --------------------------------------------------------------------------- */

/* Waits for input `number`; false when the inputs end before it. Without workers, makes it. */
static bool wait_for(struct run *run, size_t number) {
    bool ready;
    if (run->worker_count == 0) return produce(run);
    pthread_mutex_lock(&run->state);
    while (number >= run->end ? false : !run->slots[number % run->ring].ready)
        pthread_cond_wait(&run->done, &run->state);
    ready = number < run->end;
    pthread_mutex_unlock(&run->state);
    return ready;
}

/* Frees the slots of `count` inputs from `first` on. */
static void release(struct run *run, size_t first, int count) {
    for (int i = 0; i < count; i++)
        item_release(&run->slots[(first + (size_t)i) % run->ring].item);
    pthread_mutex_lock(&run->state);
    for (int i = 0; i < count; i++)
        run->slots[(first + (size_t)i) % run->ring].ready = false;
    run->released += (size_t)count;
    pthread_cond_broadcast(&run->freed);
    pthread_mutex_unlock(&run->state);
}

static void draw_progress(const struct pipeline *pipeline, size_t images, double seconds) {
    double rate = seconds > 0 ? (double)images / seconds : 0;
    long left = rate > 0 ? (long)((double)(pipeline->total - images) / rate) : 0;
    char note[128] = "";
    if (pipeline->total && images <= pipeline->total)
        fprintf(stderr, "\r\033[K%zu/%zu  %.1f images/s  %ld:%02ld left", images, pipeline->total,
                rate, left / 60, left % 60);
    else
        fprintf(stderr, "\r\033[K%zu  %.1f images/s", images, rate);
    if (pipeline->note) pipeline->note(pipeline->context, note, sizeof note);
    fputs(note, stderr);
    fflush(stderr);
}

/* Gathers the batch that starts at input `first` into *batch; *last: no input follows. */
static void gather(struct run *run, size_t first, struct pipeline_batch *batch,
                   struct pipeline_item *items, bool *last) {
    uint8_t *pixels = run->pixels + first % run->ring * run->image_bytes;
    *batch = (struct pipeline_batch){.items = items, .pixels = pixels};
    *last = false;
    while (batch->count < run->pipeline->batch && !*last) {
        size_t number = first + (size_t)batch->count;
        if (!wait_for(run, number)) {
            *last = true;
            break;
        }
        items[batch->count] = run->slots[number % run->ring].item;
        if (items[batch->count].error) {
            *last = run->pipeline->stop_on_error;
        } else {
            /* Good ones move up to close the gaps that broken ones leave. */
            if (batch->good < batch->count)
                memcpy(pixels + (size_t)batch->good * run->image_bytes,
                       pixels + (size_t)batch->count * run->image_bytes, run->image_bytes);
            batch->good++;
        }
        batch->count++;
    }
}

/* Tells the batch of the one behind it, that begins at input `first`. */
static void look_ahead(struct run *run, size_t first, struct pipeline_batch *batch) {
    int count = 0;
    bool whole;
    pthread_mutex_lock(&run->state);
    while (count < run->pipeline->batch && first + (size_t)count < run->end) {
        size_t number = first + (size_t)count;
        const struct slot *slot = &run->slots[number % run->ring];
        if (!slot->ready || slot->item.number != number || slot->item.error) break;
        count++;
    }
    whole = count == run->pipeline->batch || first + (size_t)count == run->end;
    pthread_mutex_unlock(&run->state);
    if (!whole || count == 0) return;
    batch->ahead = run->pixels + first % run->ring * run->image_bytes;
    batch->ahead_count = count;
}

static enum status consume(struct run *run, struct pipeline_item *items,
                           struct pipeline_totals *totals) {
    double begun = cli_seconds(), drawn = begun;
    enum status st = ST_OK;
    for (bool last = false; st == ST_OK && !last;) {
        double start = cli_seconds(), gathered;
        struct pipeline_batch batch;
        size_t first = totals->images;
        gather(run, first, &batch, items, &last);
        gathered = cli_seconds();
        totals->idle += gathered - start;
        if (batch.count == 0) break;
        if (run->pipeline->look_ahead && !last)
            look_ahead(run, first + (size_t)batch.count, &batch);
        int ends = 0, taken;
        batch.ends = &ends;
        st = run->pipeline->on_batch(run->pipeline->context, &batch);
        last |= ends > 0;
        taken = ends > 0 ? ends : batch.count;
        totals->model += cli_seconds() - gathered;
        totals->images += (size_t)taken;
        for (int i = 0; i < taken; i++) {
            totals->failed += items[i].error != NULL;
            totals->turned += items[i].orientation > 1;
        }
        release(run, first, batch.count);
        if (run->pipeline->progress && cli_seconds() - drawn > 0.1) {
            drawn = cli_seconds();
            draw_progress(run->pipeline, totals->images, drawn - begun);
        }
    }
    if (run->pipeline->progress) fputs("\r\033[K", stderr);
    totals->seconds = cli_seconds() - begun;
    return st;
}

void pipeline_totals_add(struct pipeline_totals *sum, const struct pipeline_totals *part) {
    sum->images += part->images;
    sum->failed += part->failed;
    sum->turned += part->turned;
    sum->read += part->read;
    sum->decode += part->decode;
    sum->resize += part->resize;
    sum->model += part->model;
    sum->idle += part->idle;
}

/* ---- start and end -------------------------------------------------------------------------- */

/* A batch that runs, and a slot for every worker beside it, in whole batches. */
static size_t ring_size(const struct pipeline *pipeline, int workers) {
    size_t batch = (size_t)pipeline->batch, batches = 1;
    if (workers) batches = 1 + ((size_t)workers + batch - 1) / batch + pipeline->look_ahead;
    if (pipeline->total && batches > (pipeline->total + batch - 1) / batch)
        batches = (pipeline->total + batch - 1) / batch;
    return batches * batch;
}

static int worker_count(const struct pipeline *pipeline) {
    int count = pipeline->threads < MOST_WORKERS ? pipeline->threads : MOST_WORKERS;
    if (pipeline->total && pipeline->total < (size_t)count) count = (int)pipeline->total;
    return count > 1 ? count : 0;
}

static void start_workers(struct run *run, int count) {
    /* A thread that cannot be had is one fewer; with none at all the consumer does the work. */
    while (run->worker_count < count &&
           pthread_create(&run->workers[run->worker_count], NULL, worker, run) == 0)
        run->worker_count++;
}

static void stop_workers(struct run *run) {
    pthread_mutex_lock(&run->state);
    run->stop = true;
    pthread_cond_broadcast(&run->freed);
    pthread_mutex_unlock(&run->state);
    for (int i = 0; i < run->worker_count; i++)
        pthread_join(run->workers[i], NULL);
}

enum status pipeline_run(const struct pipeline *pipeline, struct pipeline_totals *totals) {
    const struct preprocess *rule = pipeline->preprocess;
    int workers = worker_count(pipeline);
    struct run run = {.pipeline = pipeline, .end = SIZE_MAX, .ring = ring_size(pipeline, workers)};
    struct pipeline_item *items = mem_zalloc((size_t)pipeline->batch, sizeof *items);
    enum status st = ST_NOMEM;
    memset(totals, 0, sizeof *totals);
    run.image_bytes = (size_t)rule->height * (size_t)rule->width * 3;
    run.slots = mem_zalloc(run.ring, sizeof *run.slots);
    run.pixels = mem_zalloc(run.ring, run.image_bytes);
    if (items && run.slots && run.pixels) {
        pthread_mutex_init(&run.source, NULL);
        pthread_mutex_init(&run.state, NULL);
        pthread_cond_init(&run.freed, NULL);
        pthread_cond_init(&run.done, NULL);
        start_workers(&run, workers);
        st = consume(&run, items, totals);
        stop_workers(&run);
        totals->read = run.read;
        totals->decode = run.decode;
        totals->resize = run.resize;
        for (size_t i = 0; i < run.ring; i++)
            item_release(&run.slots[i].item);
        pthread_cond_destroy(&run.done);
        pthread_cond_destroy(&run.freed);
        pthread_mutex_destroy(&run.state);
        pthread_mutex_destroy(&run.source);
    }
    mem_free(items);
    mem_free(run.slots);
    mem_free(run.pixels);
    return st;
}
