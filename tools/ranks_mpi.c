/*
 * ranks_mpi: the transport of tools/ranks.h over MPI; made by itself into libvitrine_mpi.so, so
 * that the program does not need MPI to start.
 */
#include <mpi.h>

#include "tools/ranks.h"

const struct ranks_transport *vitrine_mpi_open(void);

static int rank_index(void) {
    int index;
    MPI_Comm_rank(MPI_COMM_WORLD, &index);
    return index;
}

static int rank_count(void) {
    int count;
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    return count;
}

static void send_bytes(int to, int tag, const void *bytes, int size) {
    MPI_Send(bytes, size, MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

static bool probe(int wanted, int tag, int *from, int *size) {
    MPI_Status status;
    int there;
    MPI_Iprobe(wanted < 0 ? MPI_ANY_SOURCE : wanted, tag, MPI_COMM_WORLD, &there, &status);
    if (!there) return false;
    *from = status.MPI_SOURCE;
    MPI_Get_count(&status, MPI_BYTE, size);
    return true;
}

static void receive_bytes(int from, int tag, void *bytes, int size) {
    MPI_Recv(bytes, size, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void close_all(void) {
    MPI_Finalize();
}

const struct ranks_transport *vitrine_mpi_open(void) {
    static const struct ranks_transport transport = {.index = rank_index,
                                                     .count = rank_count,
                                                     .send = send_bytes,
                                                     .probe = probe,
                                                     .receive = receive_bytes,
                                                     .close = close_all};
    int level;
    /* The threads of a process take turns (struct ranks, lock). */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) return NULL;
    return level >= MPI_THREAD_SERIALIZED ? &transport : NULL;
}
