/*
 * test_threads: every task runs once, whatever the counts; the pool sleeps when it has nothing to
 * do; quotas.
 */
#include "kernels/threads.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_TASKS = 1000, MOST_WORKERS = 9 };

struct counts {
    atomic_int of_task[MOST_TASKS];
    atomic_int of_worker[MOST_WORKERS];
    int sum; /* plain: the end of a run must order it */
    int parts[MOST_TASKS];
};

static void count_task(void *context, int task, int worker) {
    struct counts *counts = context;
    atomic_fetch_add(&counts->of_task[task], 1);
    atomic_fetch_add(&counts->of_worker[worker], 1);
    counts->parts[task] = task + 1;
}

static void test_every_task_once(void **state) {
    static const int workers[] = {1, 2, 3, 8};
    static const int tasks[] = {0, 1, 2, 3, 7, 64, 1000};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(workers) * COUNT_OF(tasks); i++) {
        static struct counts counts;
        int n = tasks[i % COUNT_OF(tasks)], count = workers[i / COUNT_OF(tasks)];
        struct threads *threads;
        assert_int_equal(threads_open(count, NULL, &threads), ST_OK);
        assert_int_equal(threads_count(threads), count);
        memset(&counts, 0, sizeof counts);
        threads_run(threads, n, count_task, &counts);
        for (int j = 0; j < MOST_TASKS; j++)
            assert_int_equal(atomic_load(&counts.of_task[j]), j < n);
        for (int j = count; j < MOST_WORKERS; j++)
            assert_int_equal(atomic_load(&counts.of_worker[j]), 0);
        threads_close(threads);
    }
}

/* Short tasks, so that all workers reach for the same ones. */
static void test_contention(void **state) {
    static struct counts counts;
    struct threads *threads;
    (void)state;
    assert_int_equal(threads_open(8, NULL, &threads), ST_OK);
    memset(&counts, 0, sizeof counts);
    for (int i = 0; i < 3000; i++)
        threads_run(threads, MOST_TASKS, count_task, &counts);
    for (int i = 0; i < MOST_TASKS; i++)
        assert_int_equal(atomic_load(&counts.of_task[i]), 3000);
    threads_close(threads);
}

/* What a task wrote is seen by the next run's tasks and by the caller, without atomics. */
static void add_parts(void *context, int task, int worker) {
    struct counts *counts = context;
    (void)worker;
    counts->parts[task]++;
}

static void test_many_runs(void **state) {
    static struct counts counts;
    struct threads *threads;
    int runs = 20000;
    (void)state;
    assert_int_equal(threads_open(3, NULL, &threads), ST_OK);
    memset(&counts, 0, sizeof counts);
    for (int i = 0; i < runs; i++) {
        int n = 2 + i % 7;
        threads_run(threads, n, add_parts, &counts);
        counts.sum += n;
        if (i % 1000 == 999) { /* now and then long enough for the workers to fall asleep */
            struct timespec pause = {0, 2000000};
            nanosleep(&pause, NULL);
        }
    }
    for (int i = 0; i < MOST_TASKS; i++)
        counts.sum -= counts.parts[i];
    assert_int_equal(counts.sum, 0);
    threads_close(threads);
}

static void sleep_task(void *context, int task, int worker) {
    struct timespec pause = {0, 3000000};
    nanosleep(&pause, NULL);
    count_task(context, task, worker);
}

/* Tasks longer than the caller's spin: it sleeps, and is woken by the last worker. */
static void test_long_tasks(void **state) {
    static struct counts counts;
    struct threads *threads;
    (void)state;
    memset(&counts, 0, sizeof counts);
    assert_int_equal(threads_open(4, NULL, &threads), ST_OK);
    for (int i = 0; i < 20; i++)
        threads_run(threads, 5, sleep_task, &counts);
    for (int i = 0; i < 5; i++)
        assert_int_equal(atomic_load(&counts.of_task[i]), 20);
    threads_close(threads);
}

static atomic_int started[MOST_WORKERS];

static void note_start(int worker) {
    atomic_fetch_add(&started[worker], 1);
}

static void test_start_runs_once_on_each(void **state) {
    static struct counts counts;
    struct threads *threads;
    (void)state;
    assert_int_equal(threads_open(5, note_start, &threads), ST_OK);
    threads_run(threads, 100, count_task, &counts);
    threads_close(threads);
    for (int i = 0; i < MOST_WORKERS; i++)
        assert_int_equal(atomic_load(&started[i]), i < 5);
}

/* An idle pool uses no processor time: 300 ms of 4 workers' idling cost less than 50. */
static void test_idle_sleeps(void **state) {
    static struct counts counts;
    struct timespec pause = {0, 300000000};
    struct threads *threads;
    clock_t begin;
    (void)state;
    assert_int_equal(threads_open(4, NULL, &threads), ST_OK);
    threads_run(threads, 100, count_task, &counts);
    begin = clock();
    nanosleep(&pause, NULL);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 0.05);
    threads_close(threads);
}

static void test_refusals(void **state) {
    struct threads *threads;
    (void)state;
    assert_int_equal(threads_open(0, NULL, &threads), ST_USAGE);
    assert_null(threads);
    assert_string_equal(fail_message(), "threads: 0 given, want 1 to 4096");
    assert_int_equal(threads_open(-3, NULL, &threads), ST_USAGE);
    assert_int_equal(threads_open(5000, NULL, &threads), ST_USAGE);
    threads_close(NULL);
    assert_int_equal(threads_count(NULL), 1);
    assert_true(threads_available() >= 1);
}

/* ---- quotas: a false /proc and /sys under a temporary folder --------------------------------- */

struct quota_row {
    const char *cgroup; /* proc/self/cgroup */
    const char *files[4][2];
    int want;
    const char *why;
};

static const struct quota_row quota_rows[] = {
    {"0::/\n", {{"sys/fs/cgroup/cpu.max", "max 100000\n"}}, 0, "version 2, none"},
    {"0::/\n", {{"sys/fs/cgroup/cpu.max", "200000 100000\n"}}, 2, "version 2 in a container"},
    {"0::/\n", {{"sys/fs/cgroup/cpu.max", "150000 100000\n"}}, 2, "rounded up"},
    {"0::/\n", {{"sys/fs/cgroup/cpu.max", "1000 100000\n"}}, 1, "never below one"},
    {"0::/\n", {{"sys/fs/cgroup/cpu.max", "nonsense\n"}}, 0, "a file of another kind"},
    {"0::/\n", {{"sys/fs/cgroup/cpu.max", ""}}, 0, "an empty file"},
    {"0::/a/b\n",
     {{"sys/fs/cgroup/a/cpu.max", "300000 100000"}, {"sys/fs/cgroup/a/b/cpu.max", "max 100000"}},
     3,
     "the group above counts too"},
    {"0::/a/b\n",
     {{"sys/fs/cgroup/a/cpu.max", "800000 100000"}, {"sys/fs/cgroup/a/b/cpu.max", "400000 100000"}},
     4,
     "the smaller of both"},
    {"0::/host/only\n", {{"sys/fs/cgroup/cpu.max", "500000 100000"}}, 5, "a path of the host"},
    {"4:cpu,cpuacct:/a\n1:name=systemd:/a\n",
     {{"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"},
      {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
     3,
     "version 1"},
    {"4:cpu:/x\n",
     {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000\n"}},
     2,
     "version 1 in a container"},
    {"4:cpu:/\n",
     {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     0,
     "version 1, none"},
    {"5:cpuset:/\n",
     {{"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
      {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     0,
     "another controller"},
    {"garbage\n", {{NULL, NULL}}, 0, "no cgroup file"},
};

static void write_text(const char *root, const char *name, const char *text) {
    char path[512];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_text(const char *root, const char *name) {
    char path[512];
    size_t length = strlen(root);
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(remove(path), 0);
    while (strlen(path) > length) { /* folders that others still need stay */
        *strrchr(path, '/') = '\0';
        if (strlen(path) > length) (void)rmdir(path);
    }
}

static void test_quota(void **state) {
    char root[] = "/tmp/vitrine-quota-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(root));
    assert_int_equal(threads_quota(root), 0);
    for (size_t i = 0; i < COUNT_OF(quota_rows); i++) {
        const struct quota_row *row = &quota_rows[i];
        int got;
        write_text(root, "proc/self/cgroup", row->cgroup);
        for (int j = 0; j < 4 && row->files[j][0]; j++)
            write_text(root, row->files[j][0], row->files[j][1]);
        got = threads_quota(root);
        for (int j = 0; j < 4 && row->files[j][0]; j++)
            remove_text(root, row->files[j][0]);
        remove_text(root, "proc/self/cgroup");
        if (got != row->want) print_error("%s: %d cores, want %d\n", row->why, got, row->want);
        assert_int_equal(got, row->want);
    }
    assert_int_equal(rmdir(root), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),
        cmocka_unit_test(test_contention),
        cmocka_unit_test(test_many_runs),
        cmocka_unit_test(test_long_tasks),
        cmocka_unit_test(test_start_runs_once_on_each),
        cmocka_unit_test(test_idle_sleeps),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
