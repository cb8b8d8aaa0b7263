/*
 * temporary: files that are of no use unless they are finished. They are removed when a signal ends
 * the process: SIGINT, SIGTERM or SIGHUP.
 */
#ifndef WEIGHTS_TEMPORARY_H
#define WEIGHTS_TEMPORARY_H

#include "kernels/base.h"

/*
 * From now on signals remove what temporary_add was told, then end the process as they do; one that
 * was ignored stays so. A file that grows beyond the process's limit is an error of its write
 * (EFBIG), no signal.
 */
void temporary_watch(void);

/*
 * `path`, which may not be there yet, goes with the process until temporary_forget. Both are for
 * one thread at a time. Beyond 8 paths, or 4095 bytes of one, nothing is remembered.
 */
void temporary_add(const char *path);
void temporary_forget(const char *path);

/* Removes the file, and forgets it. */
void temporary_remove(const char *path);

#endif
