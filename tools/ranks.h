/*
 * ranks: the processes that `mpirun` started, as one run: `count` of them, rank 0 the one that
 * talks to the user and writes files. The message passing is a library of its own
 * (libvitrine_mpi.so, tools/ranks_mpi.c, made where Open MPI is installed), opened only in a
 * process that mpirun started; by itself a process is rank 0 of 1.
 *
 * Any thread may send, and any may wait for a message of a tag that no other one waits for.
 */
#ifndef TOOLS_RANKS_H
#define TOOLS_RANKS_H

#include <pthread.h>

#include "kernels/base.h"

/* What the library gives. One thread at a time; a failure of MPI ends all processes. */
struct ranks_transport {
    int (*index)(void);
    int (*count)(void);
    void (*send)(int to, int tag, const void *bytes, int size);
    /* Whether a message of `tag` is there: from whom (wanted, or any by -1), and its size. */
    bool (*probe)(int wanted, int tag, int *from, int *size);
    void (*receive)(int from, int tag, void *bytes, int size);
    void (*close)(void);
};

struct ranks {
    int index, count;
    const struct ranks_transport *transport; /* NULL = alone */
    pthread_mutex_t lock;                    /* of the transport */
};

/* ST_DEVICE: mpirun started several processes and there is no libvitrine_mpi.so. */
enum status ranks_open(struct ranks *ranks) MUST_CHECK;
void ranks_close(struct ranks *ranks); /* works on a zeroed struct */

void ranks_send(struct ranks *ranks, int to, int tag, const void *bytes, size_t size);
/* A message of `tag` that has come; *bytes (size) is to be mem_free'd; *from -1: there is none. */
enum status ranks_receive(struct ranks *ranks, int tag, int *from, void **bytes,
                          size_t *size) MUST_CHECK;
/* Waits for rank `from`'s message, without keeping a core busy. */
enum status ranks_wait(struct ranks *ranks, int from, int tag, void **bytes,
                       size_t *size) MUST_CHECK;
void ranks_pause(void); /* between two looks for messages: 0.1 ms */

/*
 * Every rank calls these together. agree: the first failure of any is every rank's, in front of
 * its sentence the rank if it was another. share: rank 0's bytes for all, in fresh memory there.
 */
enum status ranks_agree(struct ranks *ranks, enum status st) MUST_CHECK;
enum status ranks_share(struct ranks *ranks, void **bytes, size_t *size) MUST_CHECK;

#endif
