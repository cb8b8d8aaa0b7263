/*
 * threads: see threads.h.
 *
 * One 64-bit ticket holds (job number, next task). A worker takes a task by adding one to it with a
 * compare-exchange: that succeeds only while the job is still the one whose fields the worker has
 * read, so a worker that wakes late finds nothing to take and the caller never has to wait for
 * sleepers, only for the tasks that were taken. `finished` counts the tasks done.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "kernels/threads.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* About the gap between two ops of a forward: longer waits give the core back to the others. */
#define SPIN_NANOSECONDS 40000
#define MAX_THREADS      4096

typedef void task_function(void *context, int task, int worker);

struct worker {
    struct threads *threads;
    pthread_t thread;
    int number;
};

struct threads {
    int count;
    int running; /* threads started, beside the caller */
    void (*start)(int worker);
    struct worker *workers; /* (count); [0] is the caller and has no thread */
    _Atomic uint64_t ticket;
    _Atomic(task_function *) fn;
    _Atomic(void *) context;
    atomic_int tasks, finished;
    atomic_int sleepers;      /* workers asleep on `work` */
    atomic_bool caller_waits; /* the caller is asleep on `done` */
    atomic_bool closing;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
};

static void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool spin_over(const struct timespec *begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - begin->tv_sec) * 1000000000LL + (now.tv_nsec - begin->tv_nsec) >
           SPIN_NANOSECONDS;
}

/* The tasks of the job that the ticket names have not all been taken. */
static bool has_work(struct threads *threads) {
    uint64_t ticket = atomic_load(&threads->ticket);
    return (uint32_t)ticket < (uint32_t)atomic_load(&threads->tasks);
}

/* Takes and runs tasks until none is left. */
static void work_on(struct threads *threads, int worker) {
    for (;;) {
        uint64_t ticket = atomic_load(&threads->ticket);
        task_function *fn = atomic_load(&threads->fn);
        void *context = atomic_load(&threads->context);
        int tasks = atomic_load(&threads->tasks);
        if ((uint32_t)ticket >= (uint32_t)tasks) return;
        if (!atomic_compare_exchange_weak(&threads->ticket, &ticket, ticket + 1)) continue;
        fn(context, (int)(uint32_t)ticket, worker);
        if (atomic_fetch_add(&threads->finished, 1) + 1 == tasks &&
            atomic_load(&threads->caller_waits)) {
            pthread_mutex_lock(&threads->lock);
            pthread_cond_signal(&threads->done);
            pthread_mutex_unlock(&threads->lock);
        }
    }
}

/* Spins, then sleeps, until there is work (true) or the pool closes (false). */
static bool await_work(struct threads *threads) {
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 1; !has_work(threads); i++) {
        if (atomic_load(&threads->closing)) return false;
        cpu_relax();
        if (i % 64 == 0 && spin_over(&begin)) break;
    }
    pthread_mutex_lock(&threads->lock);
    atomic_fetch_add(&threads->sleepers, 1);
    while (!has_work(threads) && !atomic_load(&threads->closing))
        pthread_cond_wait(&threads->work, &threads->lock);
    atomic_fetch_sub(&threads->sleepers, 1);
    pthread_mutex_unlock(&threads->lock);
    return !atomic_load(&threads->closing);
}

static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct threads *threads = worker->threads;
    if (threads->start) threads->start(worker->number);
    while (await_work(threads))
        work_on(threads, worker->number);
    return NULL;
}

enum status threads_open(int count, void (*start)(int worker), struct threads **out) {
    struct threads *threads;
    *out = NULL;
    if (count < 1 || count > MAX_THREADS)
        return fail(ST_USAGE, "threads: %d given, want 1 to %d", count, MAX_THREADS);
    threads = mem_zalloc(1, sizeof *threads);
    if (!threads) return ST_NOMEM;
    threads->workers = mem_zalloc((size_t)count, sizeof *threads->workers);
    if (!threads->workers) return mem_free(threads), ST_NOMEM;
    threads->count = count;
    threads->start = start;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->work, NULL);
    pthread_cond_init(&threads->done, NULL);
    if (start) start(0);
    for (int i = 1; i < count; i++) {
        struct worker *worker = &threads->workers[i];
        int error;
        *worker = (struct worker){.threads = threads, .number = i};
        error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (error) {
            threads_close(threads);
            return fail(ST_NOMEM, "threads: thread %d of %d could not be started: %s", i + 1, count,
                        strerror(error));
        }
        threads->running++;
    }
    *out = threads;
    return ST_OK;
}

void threads_close(struct threads *threads) {
    if (!threads) return;
    pthread_mutex_lock(&threads->lock);
    atomic_store(&threads->closing, true);
    pthread_cond_broadcast(&threads->work);
    pthread_mutex_unlock(&threads->lock);
    for (int i = 1; i <= threads->running; i++)
        pthread_join(threads->workers[i].thread, NULL);
    pthread_cond_destroy(&threads->done);
    pthread_cond_destroy(&threads->work);
    pthread_mutex_destroy(&threads->lock);
    mem_free(threads->workers);
    mem_free(threads);
}

int threads_count(const struct threads *threads) {
    return threads ? threads->count : 1;
}

static void wake(struct threads *threads, int wanted) {
    pthread_mutex_lock(&threads->lock);
    if (wanted >= atomic_load(&threads->sleepers)) {
        pthread_cond_broadcast(&threads->work);
    } else {
        for (int i = 0; i < wanted; i++)
            pthread_cond_signal(&threads->work);
    }
    pthread_mutex_unlock(&threads->lock);
}

static void await_done(struct threads *threads, int tasks) {
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 1; atomic_load(&threads->finished) != tasks; i++) {
        cpu_relax();
        if (i % 64 == 0 && spin_over(&begin)) break;
    }
    if (atomic_load(&threads->finished) == tasks) return;
    pthread_mutex_lock(&threads->lock);
    atomic_store(&threads->caller_waits, true);
    while (atomic_load(&threads->finished) != tasks)
        pthread_cond_wait(&threads->done, &threads->lock);
    atomic_store(&threads->caller_waits, false);
    pthread_mutex_unlock(&threads->lock);
}

void threads_run(struct threads *threads, int tasks,
                 void (*fn)(void *context, int task, int worker), void *context) {
    uint64_t job;
    if (threads_count(threads) == 1 || tasks <= 1) {
        for (int i = 0; i < tasks; i++)
            fn(context, i, 0);
        return;
    }
    /*
     * No task of the last job is left, so nobody can take one while the fields change: `tasks` goes
     * to 0 first.
     */
    job = (atomic_load(&threads->ticket) >> 32) + 1;
    atomic_store(&threads->tasks, 0);
    atomic_store(&threads->fn, fn);
    atomic_store(&threads->context, context);
    atomic_store(&threads->finished, 0);
    atomic_store(&threads->ticket, job << 32);
    atomic_store(&threads->tasks, tasks);
    if (atomic_load(&threads->sleepers)) wake(threads, tasks - 1);
    work_on(threads, 0);
    await_done(threads, tasks);
}

/* ---- how many cores this process may use ----------------------------------------------------- */

static int affinity_count(void) {
    static cpu_set_t
        sets[16]; /* 16384 processors: the kernel refuses a mask smaller than its own */
    memset(sets, 0, sizeof sets);
    if (sched_getaffinity(0, sizeof sets, sets) != 0) return 1;
    return CPU_COUNT_S(sizeof sets, sets);
}

/* Up to two whole numbers from a small file; "max" reads as -1. The count of numbers found. */
static int read_numbers(const char *path, long numbers[2]) {
    char text[128];
    char *word = text;
    int found = 0;
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    while (found < 2 && *word) {
        size_t length = strcspn(word, " \n");
        bool last = word[length] == '\0';
        word[length] = '\0';
        if (strcmp(word, "max") == 0) {
            numbers[found] = -1;
        } else if (!parse_long(word, -1, LONG_MAX, &numbers[found])) {
            return found;
        }
        found++;
        word += length + !last;
    }
    return found;
}

/*
 * The quota, in whole cores rounded up, that one group folder sets; 0 = none. Version 2, then
 * version 1 files.
 */
static int group_quota(const char *folder) {
    char path[4352];
    long quota[2], period[2];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_numbers(path, quota) < 2) {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        if (read_numbers(path, quota) < 1) return 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (read_numbers(path, period) < 1) return 0;
        quota[1] = period[0];
    }
    if (quota[0] <= 0 || quota[1] <= 0 || quota[0] / quota[1] >= MAX_THREADS) return 0;
    return (int)(quota[0] / quota[1] + (quota[0] % quota[1] != 0));
}

/*
 * The smallest quota of `group` and all groups above it; inside a container the upper folders are
 * the ones that exist.
 */
static int chain_quota(const char *mount, const char *group, int least) {
    char folder[4224];
    size_t mount_length = strlen(mount);
    snprintf(folder, sizeof folder, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    for (;;) {
        int quota = group_quota(folder);
        char *slash = strrchr(folder, '/');
        if (quota && (!least || quota < least)) least = quota;
        if (!slash || (size_t)(slash - folder) < mount_length) return least;
        *slash = '\0';
    }
}

int threads_quota(const char *root) {
    static const char *const mounts[] = {"cpu,cpuacct", "cpu", "cpuacct,cpu"};
    char path[4096], line[2048], mount[4096];
    int least = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) { /* "0::/group" or "4:cpu,cpuacct:/group" */
        char *names = strchr(line, ':');
        char *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (names[1] == '\0') {
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
            least = chain_quota(mount, group, least);
        }
        for (size_t i = 0; names[1] && i < COUNT_OF(mounts); i++) {
            if (!strstr(names, "cpu") || strstr(names, "cpuset")) continue;
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, mounts[i]);
            least = chain_quota(mount, group, least);
        }
    }
    fclose(file);
    return least;
}

int threads_available(void) {
    int cores = affinity_count(), quota = threads_quota("");
    if (quota && quota < cores) cores = quota;
    return cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : cores;
}
