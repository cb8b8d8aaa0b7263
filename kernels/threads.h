/*
 * threads: a persistent pool that runs numbered tasks. The calling thread works too.
 *
 * Which worker runs which task is not fixed, so a task's result must depend on its number alone:
 * that is what makes results equal for every thread count. Waiting spins briefly, then sleeps
 * (shared hosts).
 */
#ifndef KERNELS_THREADS_H
#define KERNELS_THREADS_H

#include "kernels/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct threads;

/*
 * `count` workers in all, the caller being worker 0; count >= 1. `start`, if not NULL, runs once on
 * each worker.
 */
enum status threads_open(int count, void (*start)(int worker), struct threads **out) MUST_CHECK;
void threads_close(struct threads *threads); /* NULL is nothing */

/* The workers in all; 1 for NULL. */
int threads_count(const struct threads *threads);

/*
 * Runs fn(context, task, worker) for task = 0..tasks-1, worker in [0, count); returns when all are
 * done. Not reentrant.
 */
void threads_run(struct threads *threads, int tasks,
                 void (*fn)(void *context, int task, int worker), void *context);

/*
 * The cores this process may use (its affinity mask and, where there is one, its cgroup's CPU
 * quota).
 */
int threads_available(void);

/*
 * The CPU quota of this process's cgroup (version 1 or 2) in whole cores, rounded up; 0 = none.
 * `root`: "", or a test's folder.
 */
int threads_quota(const char *root);

#ifdef __cplusplus
}
#endif
#endif
