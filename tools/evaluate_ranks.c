/*
 * evaluate_ranks: one evaluation by several processes (tools/ranks.h); see evaluate.h.
 *
 *   rank i   asks for a chunk of the images (TAKE, GRANT), and sends the rows of each batch (ROWS)
 *   rank 0   gives the chunks out in order, brings the rows back into it, writes and adds them up
 *
 * Every rank reads the whole dataset and passes by what is not its own. A thread of rank 0 serves
 * the others; rank 0's own work goes the same way without messages. Rows of chunks that are not due
 * yet wait in memory: no more than AHEAD chunks a rank are out, but whoever holds the oldest always
 * gets one, since its batch may want it to become full.
 */
#include <stdio.h>
#include <string.h>

#include "tools/evaluate.h"

enum { CHUNK = 64, AHEAD = 4 };
enum { TAG_TO_ZERO = 1, TAG_GRANT };
enum { TEXTS = 4 };

/* The first byte of a message to rank 0. One tag, so that MPI keeps their order. */
enum message { MESSAGE_TAKE, MESSAGE_ROWS, MESSAGE_DONE };

static const uint64_t none = UINT64_MAX;

/* A chunk that is out: images CHUNK*number.. of the run. */
struct chunk {
    uint64_t number;
    int holder, rows; /* that came */
    char *bytes;      /* (size) those not written yet */
    size_t size, capacity;
};

struct evaluate_ranks {
    uint64_t current; /* the chunk that this process is at; none */
    FILE *outgoing;   /* records of the batch at hand, into bytes (size) */
    char *bytes;
    size_t size;
    /* Rank 0: what the lock guards, but for the thread. */
    pthread_t service;
    pthread_mutex_t lock;
    pthread_cond_t moved; /* a chunk was finished, or it is over */
    uint64_t given;       /* chunks */
    struct chunk *chunks; /* (count) oldest first */
    size_t count, capacity;
    bool *waiting; /* (ranks) for a chunk */
    int done;      /* ranks that came to their end */
    bool stop;     /* no more chunks */
    bool closed;   /* no more rows: --on-error stop */
    enum status st;
    char sentence[1024];
    struct pipeline_totals totals; /* of the other ranks */
};

/* What a process leaves at its end. */
struct farewell {
    bool failed;
    struct pipeline_totals totals;
};

/* ---- records --------------------------------------------------------------------------------- */

/* A struct prediction on its way, between processes of one kind: its texts follow, 0-terminated. */
struct record {
    int target, best, rank;
    float confidence, target_score;
    uint32_t size[TEXTS]; /* with the 0; 0 = NULL */
};

static void pack(FILE *file, const struct prediction *p) {
    const char *const texts[TEXTS] = {p->path, p->message, p->target_label, p->raw};
    struct record record = {.target = p->target,
                            .best = p->best,
                            .rank = p->rank,
                            .confidence = p->confidence,
                            .target_score = p->target_score};
    for (int i = 0; i < TEXTS; i++)
        record.size[i] = texts[i] ? (uint32_t)strlen(texts[i]) + 1 : 0;
    fwrite(&record, sizeof record, 1, file);
    for (int i = 0; i < TEXTS; i++)
        if (texts[i]) fwrite(texts[i], 1, record.size[i], file);
}

/* The record at `bytes`; its size, 0 where it is none. */
static size_t unpack(const char *bytes, size_t size, struct prediction *out) {
    struct record record;
    const char *texts[TEXTS];
    size_t used = sizeof record;
    if (size < sizeof record) return 0;
    memcpy(&record, bytes, sizeof record);
    for (int i = 0; i < TEXTS; i++) {
        if (record.size[i] > size - used) return 0;
        texts[i] = record.size[i] ? bytes + used : NULL;
        used += record.size[i];
        if (texts[i] && bytes[used - 1] != 0) return 0;
    }
    *out = (struct prediction){.path = texts[0],
                               .message = texts[1],
                               .target = record.target,
                               .target_label = texts[2],
                               .best = record.best,
                               .confidence = record.confidence,
                               .rank = record.rank,
                               .target_score = record.target_score,
                               .raw = texts[3],
                               .raw_size = record.size[3] ? record.size[3] - 1 : 0};
    return used;
}

/* ---- rank 0: rows back in order -------------------------------------------------------------- */

/* Ends the run, and keeps the first failure. */
static void give_up(struct evaluate_ranks *r, enum status st) {
    if (r->st == ST_OK && st != ST_OK) {
        r->st = st;
        snprintf(r->sentence, sizeof r->sentence, "%s", fail_message());
    }
    r->stop = true;
    pthread_cond_broadcast(&r->moved);
}

/* Writes and adds up what has come of a chunk. */
static enum status write_rows(struct evaluate *e, struct chunk *chunk) {
    struct evaluate_ranks *r = e->together;
    struct prediction row;
    for (size_t at = 0, used; at < chunk->size && !r->closed; at += used) {
        used = unpack(chunk->bytes + at, chunk->size - at, &row);
        if (!used || !row.path) return fail(ST_FORMAT, "rank %d sent no rows", chunk->holder);
        if (e->rows.file && row.raw) fwrite(row.raw, 1, row.raw_size, e->rows.file);
        TRY(evaluation_add(&e->evaluation, &row));
        r->closed = row.message && e->o.run.on_error == RUN_ON_ERROR_STOP;
        if (r->closed) give_up(r, ST_OK); /* whoever waits for a chunk gets none */
    }
    chunk->size = 0;
    return ST_OK;
}

/* Rows of the oldest chunk are written; a chunk that is whole makes room for the next one. */
static enum status write_due(struct evaluate *e) {
    struct evaluate_ranks *r = e->together;
    while (r->count > 0) {
        TRY(write_rows(e, &r->chunks[0]));
        if (r->chunks[0].rows < CHUNK) break;
        mem_free(r->chunks[0].bytes);
        memmove(r->chunks, r->chunks + 1, --r->count * sizeof *r->chunks);
        pthread_cond_broadcast(&r->moved);
    }
    TRY(evaluate_check_hope(e));
    return e->rows.file ? predictions_flush(&e->rows) : ST_OK;
}

/* A record of `from`: it belongs to the first of its chunks that is not whole. */
static enum status keep_record(struct evaluate_ranks *r, int from, const char *bytes, size_t size) {
    for (size_t i = 0; i < r->count; i++) {
        struct chunk *chunk = &r->chunks[i];
        void *room = chunk->bytes;
        if (chunk->holder != from || chunk->rows == CHUNK) continue;
        TRY(mem_grow(&room, &chunk->capacity, chunk->size + size, 1));
        chunk->bytes = room;
        memcpy(chunk->bytes + chunk->size, bytes, size);
        chunk->size += size;
        chunk->rows++;
        return ST_OK;
    }
    return fail(ST_FORMAT, "rank %d sent a row that it was not asked for", from);
}

static enum status take_rows(struct evaluate *e, int from, const char *bytes, size_t size) {
    struct prediction row;
    for (size_t at = 0, used; at < size; at += used) {
        used = unpack(bytes + at, size - at, &row);
        if (!used) return fail(ST_FORMAT, "rank %d sent half a row", from);
        TRY(keep_record(e->together, from, bytes + at, used));
    }
    return write_due(e);
}

/* At the end: what is left of the last chunks, in order. Only the very last may be short. */
static enum status write_rest(struct evaluate *e) {
    struct evaluate_ranks *r = e->together;
    bool ended = false;
    for (size_t i = 0; i < r->count && !r->closed; i++) {
        if (ended && r->chunks[i].rows > 0)
            return fail(ST_FORMAT, "rank %d did not send all rows of images %llu and on",
                        r->chunks[i - 1].holder,
                        (unsigned long long)(CHUNK * r->chunks[i - 1].number));
        ended = r->chunks[i].rows < CHUNK;
        TRY(write_rows(e, &r->chunks[i]));
    }
    return e->rows.file ? predictions_flush(&e->rows) : ST_OK;
}

/* ---- rank 0: chunks -------------------------------------------------------------------------- */

/* The next chunk for `rank`: false while it has to wait; *chunk none when there is no more. */
static bool give(struct evaluate *e, int rank, uint64_t *chunk) {
    struct evaluate_ranks *r = e->together;
    void *chunks = r->chunks;
    *chunk = none;
    if (r->stop) return true;
    if (r->count >= (size_t)AHEAD * (size_t)e->ranks.count && r->chunks[0].holder != rank)
        return false;
    if (mem_grow(&chunks, &r->capacity, r->count + 1, sizeof *r->chunks) != ST_OK) {
        give_up(r, ST_NOMEM);
        return true;
    }
    r->chunks = chunks;
    *chunk = r->given++;
    r->chunks[r->count++] = (struct chunk){.number = *chunk, .holder = rank};
    return true;
}

static void answer_waiting(struct evaluate *e) {
    struct evaluate_ranks *r = e->together;
    for (int i = 1; i < e->ranks.count; i++) {
        uint64_t chunk;
        if (!r->waiting[i] || !give(e, i, &chunk)) continue;
        r->waiting[i] = false;
        ranks_send(&e->ranks, i, TAG_GRANT, &chunk, sizeof chunk);
    }
}

/* What rank `from` sent. */
static enum status serve(struct evaluate *e, int from, const char *bytes, size_t size) {
    struct evaluate_ranks *r = e->together;
    struct farewell farewell = {.failed = true};
    const int kind = size ? bytes[0] : -1;
    switch (kind) {
    case MESSAGE_TAKE: r->waiting[from] = true; return ST_OK;
    case MESSAGE_ROWS: return take_rows(e, from, bytes + 1, size - 1);
    case MESSAGE_DONE:
        if (size == 1 + sizeof farewell) memcpy(&farewell, bytes + 1, sizeof farewell);
        r->done++;
        if (farewell.failed) give_up(r, ST_OK);
        pipeline_totals_add(&r->totals, &farewell.totals);
        return ST_OK;
    default: return fail(ST_FORMAT, "rank %d sent a message of kind %d", from, kind);
    }
}

/* Until every other rank has come to its end. */
static void *serve_all(void *context) {
    struct evaluate *e = context;
    for (bool over = false; !over;) {
        void *bytes;
        size_t size;
        int from = -1;
        enum status st = ranks_receive(&e->ranks, TAG_TO_ZERO, &from, &bytes, &size);
        const bool busy = from >= 0;
        pthread_mutex_lock(&e->together->lock);
        if (st == ST_OK && busy) st = serve(e, from, bytes, size);
        if (st != ST_OK) give_up(e->together, st);
        mem_free(bytes);
        answer_waiting(e);
        over = e->together->done == e->ranks.count - 1;
        pthread_mutex_unlock(&e->together->lock);
        if (!busy) ranks_pause();
    }
    return NULL;
}

/* ---- every rank ------------------------------------------------------------------------------ */

/* Rank 0's head and where it goes on, to all; another head is another run. */
static enum status share_run(struct evaluate *e) {
    void *head = e->head, *skip = &e->skip;
    size_t head_size = strlen(e->head) + 1, skip_size = sizeof e->skip;
    enum status st;
    TRY(ranks_share(&e->ranks, &head, &head_size));
    st = ranks_share(&e->ranks, &skip, &skip_size);
    if (st == ST_OK && e->ranks.index > 0) {
        st = predictions_compare(e->path, e->head, head);
        e->skip = *(size_t *)skip;
        mem_free(skip);
    }
    if (e->ranks.index > 0) mem_free(head);
    return st;
}

static enum status open_ranks(struct evaluate *e) {
    struct evaluate_ranks *r = mem_zalloc(1, sizeof *r);
    if (!r) return ST_NOMEM;
    e->together = r;
    r->current = none;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    r->waiting = mem_zalloc((size_t)e->ranks.count, sizeof *r->waiting);
    return r->waiting ? ST_OK : ST_NOMEM;
}

enum status evaluate_ranks_begin(struct evaluate *e) {
    enum status st = ST_OK;
    if (e->ranks.count == 1) return ST_OK;
    TRY(ranks_agree(&e->ranks, open_ranks(e)));
    TRY(ranks_agree(&e->ranks, share_run(e)));
    if (e->ranks.index == 0 && pthread_create(&e->together->service, NULL, serve_all, e) != 0)
        st = fail(ST_NOMEM, "no thread for the other ranks could be had");
    return ranks_agree(&e->ranks, st);
}

/* The next chunk of this rank; none: there is no more. */
static uint64_t take(struct evaluate *e) {
    struct evaluate_ranks *r = e->together;
    uint64_t chunk = none;
    void *bytes;
    size_t size;
    if (e->ranks.index > 0) {
        ranks_send(&e->ranks, 0, TAG_TO_ZERO, &(char){MESSAGE_TAKE}, 1);
        if (ranks_wait(&e->ranks, 0, TAG_GRANT, &bytes, &size) != ST_OK) return none;
        if (size == sizeof chunk) memcpy(&chunk, bytes, size);
        mem_free(bytes);
        return chunk;
    }
    pthread_mutex_lock(&r->lock);
    while (!give(e, 0, &chunk))
        pthread_cond_wait(&r->moved, &r->lock);
    pthread_mutex_unlock(&r->lock);
    return chunk;
}

enum evaluate_turn evaluate_ranks_turn(struct evaluate *e, uint64_t number) {
    struct evaluate_ranks *r = e->together;
    if (!r) return TURN_MINE;
    if (r->current == none || number / CHUNK > r->current) {
        r->current = take(e);
        if (r->current == none) return TURN_OVER;
    }
    return number / CHUNK == r->current ? TURN_MINE : TURN_OTHERS;
}

static enum status open_outgoing(struct evaluate_ranks *r) {
    if (r->outgoing) return ST_OK;
    r->outgoing = open_memstream(&r->bytes, &r->size);
    if (!r->outgoing) return fail(ST_NOMEM, "no memory for the rows of a batch");
    fputc(MESSAGE_ROWS, r->outgoing);
    return ST_OK;
}

enum status evaluate_ranks_row(struct evaluate *e, const struct row *row, struct prediction *told) {
    struct evaluate_ranks *r = e->together;
    struct rows rows = {.targets = true, .written = 1};
    char *raw = NULL;
    size_t raw_size = 0;
    TRY(open_outgoing(r));
    if (e->o.predictions) {
        TRY(predictions_format(e->o.predictions, &rows.format));
        rows.file = open_memstream(&raw, &raw_size);
        if (!rows.file) return fail(ST_NOMEM, "no memory for a row");
        rows_write(&rows, row);
        fclose(rows.file);
    }
    told->raw = raw;
    pack(r->outgoing, told);
    mem_free(raw);
    return ST_OK;
}

enum status evaluate_ranks_flush(struct evaluate *e) {
    struct evaluate_ranks *r = e->together;
    enum status st = ST_OK;
    if (!r->outgoing) return ST_OK;
    if (fclose(r->outgoing) != 0) st = fail(ST_NOMEM, "no memory for the rows of a batch");
    r->outgoing = NULL;
    if (st == ST_OK && r->size > INT32_MAX)
        st = fail(ST_NOMEM, "the rows of a batch are %zu bytes, at most 2^31 are sent", r->size);
    if (st == ST_OK && e->ranks.index > 0) {
        ranks_send(&e->ranks, 0, TAG_TO_ZERO, r->bytes, r->size);
    } else if (st == ST_OK) {
        pthread_mutex_lock(&r->lock);
        st = take_rows(e, 0, r->bytes + 1, r->size - 1);
        pthread_mutex_unlock(&r->lock);
    }
    mem_free(r->bytes);
    r->bytes = NULL;
    return st;
}

void evaluate_ranks_lock(struct evaluate *e) {
    if (e->together) pthread_mutex_lock(&e->together->lock);
}

void evaluate_ranks_unlock(struct evaluate *e) {
    if (e->together) pthread_mutex_unlock(&e->together->lock);
}

/* Rank 0: the others are waited for. */
static enum status end_at_zero(struct evaluate *e, enum status st) {
    struct evaluate_ranks *r = e->together;
    pthread_mutex_lock(&r->lock);
    if (st != ST_OK) give_up(r, st);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->service, NULL);
    pipeline_totals_add(&e->totals, &r->totals);
    if (r->st != ST_OK) return fail(r->st, "%s", r->sentence);
    return st == ST_OK ? write_rest(e) : st;
}

enum status evaluate_ranks_end(struct evaluate *e, enum status st) {
    struct evaluate_ranks *r = e->together;
    if (!r) return st;
    if (e->ranks.index == 0) {
        st = end_at_zero(e, st);
    } else {
        char message[1 + sizeof(struct farewell)] = {MESSAGE_DONE};
        const struct farewell farewell = {.failed = st != ST_OK, .totals = e->totals};
        memcpy(message + 1, &farewell, sizeof farewell);
        ranks_send(&e->ranks, 0, TAG_TO_ZERO, message, sizeof message);
    }
    return ranks_agree(&e->ranks, st);
}

void evaluate_ranks_release(struct evaluate *e) {
    struct evaluate_ranks *r = e->together;
    if (!r) return;
    if (r->outgoing) fclose(r->outgoing);
    mem_free(r->bytes);
    for (size_t i = 0; i < r->count; i++)
        mem_free(r->chunks[i].bytes);
    mem_free(r->chunks);
    mem_free(r->waiting);
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
    e->together = NULL;
}
