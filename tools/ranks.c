#include "tools/ranks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/library.h"

enum { TAG_AGREE = 100, TAG_VERDICT, TAG_SHARE };

/* A status and its sentence on their way. */
struct verdict {
    int status;
    char sentence[1024];
};

/* Whether a launcher of Open MPI, or one that speaks PMIx, started this process among several. */
static bool launched(void) {
    const char *count = getenv("OMPI_COMM_WORLD_SIZE");
    long number;
    if (count) return parse_long(count, 2, INT_MAX, &number);
    return getenv("PMIX_NAMESPACE") != NULL;
}

enum status ranks_open(struct ranks *ranks) {
    const struct ranks_transport *(*opener)(void);
    void *symbol;
    *ranks = (struct ranks){.count = 1};
    if (!launched()) return ST_OK;
    if (library_function("libvitrine_mpi.so", "vitrine_mpi_open", &symbol) != ST_OK)
        return fail(ST_DEVICE, "is one of several processes of an mpirun, but this build has no "
                               "MPI: libopenmpi-dev and `make` make it");
    memcpy(&opener, &symbol, sizeof opener);
    ranks->transport = opener();
    if (!ranks->transport) return fail(ST_DEVICE, "MPI did not start");
    ranks->index = ranks->transport->index();
    ranks->count = ranks->transport->count();
    pthread_mutex_init(&ranks->lock, NULL);
    return ST_OK;
}

void ranks_close(struct ranks *ranks) {
    if (!ranks->transport) return;
    ranks->transport->close();
    pthread_mutex_destroy(&ranks->lock);
    *ranks = (struct ranks){0};
}

/* ---- messages -------------------------------------------------------------------------------- */

void ranks_send(struct ranks *ranks, int to, int tag, const void *bytes, size_t size) {
    pthread_mutex_lock(&ranks->lock);
    ranks->transport->send(to, tag, bytes, (int)size);
    pthread_mutex_unlock(&ranks->lock);
}

/* Of rank `wanted` or, by -1, any. */
static enum status receive(struct ranks *ranks, int wanted, int tag, int *from, void **bytes,
                           size_t *size) {
    enum status st = ST_OK;
    int count;
    *bytes = NULL;
    *size = 0;
    pthread_mutex_lock(&ranks->lock);
    if (!ranks->transport->probe(wanted, tag, from, &count)) {
        *from = -1;
    } else {
        *size = (size_t)count;
        *bytes = mem_zalloc(*size + 1, 1);
        if (*bytes)
            ranks->transport->receive(*from, tag, *bytes, count);
        else
            st = ST_NOMEM;
    }
    pthread_mutex_unlock(&ranks->lock);
    return st;
}

enum status ranks_receive(struct ranks *ranks, int tag, int *from, void **bytes, size_t *size) {
    return receive(ranks, -1, tag, from, bytes, size);
}

void ranks_pause(void) {
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

enum status ranks_wait(struct ranks *ranks, int from, int tag, void **bytes, size_t *size) {
    int sender;
    for (;;) {
        TRY(receive(ranks, from, tag, &sender, bytes, size));
        if (sender >= 0) return ST_OK;
        ranks_pause();
    }
}

/* ---- together -------------------------------------------------------------------------------- */

static struct verdict verdict_of(enum status st) {
    struct verdict v = {.status = st};
    if (st != ST_OK) snprintf(v.sentence, sizeof v.sentence, "%s", fail_message());
    return v;
}

static enum status wait_verdict(struct ranks *ranks, int from, int tag, struct verdict *out) {
    void *bytes;
    size_t size;
    TRY(ranks_wait(ranks, from, tag, &bytes, &size));
    if (size == sizeof *out) memcpy(out, bytes, size);
    mem_free(bytes);
    return size == sizeof *out ? ST_OK : fail(ST_FORMAT, "rank %d sent %zu bytes", from, size);
}

enum status ranks_agree(struct ranks *ranks, enum status st) {
    struct verdict all = verdict_of(st), one = {0};
    if (ranks->count == 1) return st;
    if (ranks->index > 0) {
        ranks_send(ranks, 0, TAG_AGREE, &all, sizeof all);
        TRY(wait_verdict(ranks, 0, TAG_VERDICT, &all));
    }
    for (int i = 1; ranks->index == 0 && i < ranks->count; i++) {
        TRY(wait_verdict(ranks, i, TAG_AGREE, &one));
        if (all.status != ST_OK || one.status == ST_OK) continue;
        all.status = one.status;
        snprintf(all.sentence, sizeof all.sentence, "rank %d: %.1000s", i, one.sentence);
    }
    for (int i = 1; ranks->index == 0 && i < ranks->count; i++)
        ranks_send(ranks, i, TAG_VERDICT, &all, sizeof all);
    return all.status == ST_OK ? ST_OK : fail((enum status)all.status, "%s", all.sentence);
}

enum status ranks_share(struct ranks *ranks, void **bytes, size_t *size) {
    if (ranks->index > 0) return ranks_wait(ranks, 0, TAG_SHARE, bytes, size);
    for (int i = 1; i < ranks->count; i++)
        ranks_send(ranks, i, TAG_SHARE, *bytes, *size);
    return ST_OK;
}
