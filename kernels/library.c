#include "kernels/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* `file` in the folder `folder` beside the program; false: there is none. */
static bool beside_program(const char *folder, const char *file, char *path, size_t size) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    const char *end;
    if (length <= 0) return false;
    program[length] = 0;
    end = strrchr(program, '/');
    if (!end) return false;
    length = snprintf(path, size, "%.*s/%s%s", (int)(end - program), program, folder, file);
    return length > 0 && (size_t)length < size && access(path, F_OK) == 0;
}

static enum status open_library(const char *name, void **library) {
    static const char *const folders[] = {"", "../lib/"};
    char path[PATH_MAX];
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        if (!beside_program(folders[i], name, path, sizeof path)) continue;
        *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        return *library ? ST_OK : fail(ST_DEVICE, "%s", dlerror());
    }
    *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (*library) return ST_OK;
    return fail(ST_DEVICE, "no %s beside the program or on the library path", name);
}

enum status library_function(const char *name, const char *symbol, void **function) {
    void *library;
    TRY(open_library(name, &library));
    *function = dlsym(library, symbol);
    return *function ? ST_OK : fail(ST_DEVICE, "%s has no %s", name, symbol);
}
