/* temporary: see temporary.h. */
#include "weights/temporary.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PATHS 8

/* A handler may read a path only while it is used; it is written only while it is not. */
static struct {
    char path[4096];
    volatile sig_atomic_t used;
} paths[PATHS];

static void end(int number) {
    for (int i = 0; i < PATHS; i++)
        if (paths[i].used) unlink(paths[i].path);
    raise(number); /* SA_RESETHAND: now as if nobody had watched */
}

void temporary_watch(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = end, .sa_flags = (int)SA_RESETHAND}, old;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
        (void)sigaction(numbers[i], &action, NULL);
    }
    (void)signal(SIGXFSZ, SIG_IGN);
}

void temporary_add(const char *path) {
    const size_t length = strlen(path);
    for (int i = 0; i < PATHS && length < sizeof paths[i].path; i++) {
        if (paths[i].used) continue;
        memcpy(paths[i].path, path, length + 1);
        paths[i].used = 1;
        return;
    }
}

void temporary_forget(const char *path) {
    for (int i = 0; i < PATHS; i++)
        if (paths[i].used && strcmp(paths[i].path, path) == 0) paths[i].used = 0;
}

void temporary_remove(const char *path) {
    unlink(path);
    temporary_forget(path);
}
