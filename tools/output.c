/* output: see output.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "tools/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weights/temporary.h"

static enum status failed(const struct output *out, const char *what, int error) {
    /* The reader (head, less) has what it wanted: end quietly, but end. */
    if (error == EPIPE) return fail(ST_IO, "%s", "");
    return fail(ST_IO, "%s: %s: %s", out->shown, what, strerror(error));
}

/* ---- files that are spared ------------------------------------------------------------------- */

struct file_id {
    dev_t device;
    ino_t number;
};

static struct {
    struct file_id *ids; /* (capacity), sorted where `sorted` */
    size_t count, capacity;
    bool sorted;
} spared;

static int by_id(const void *left, const void *right) {
    const struct file_id *a = left, *b = right;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

enum status output_spare(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return ST_OK;
    if (spared.count == spared.capacity) {
        const size_t capacity = spared.capacity ? 2 * spared.capacity : 64;
        struct file_id *ids = mem_zalloc(capacity, sizeof *ids);
        if (!ids) return ST_NOMEM;
        if (spared.count) memcpy(ids, spared.ids, spared.count * sizeof *ids);
        mem_free(spared.ids);
        spared.ids = ids;
        spared.capacity = capacity;
    }
    spared.ids[spared.count++] = (struct file_id){info.st_dev, info.st_ino};
    spared.sorted = false;
    return ST_OK;
}

static enum status check_spared(const char *path, const struct stat *info) {
    const struct file_id id = {info->st_dev, info->st_ino};
    if (!spared.count) return ST_OK;
    if (!spared.sorted) qsort(spared.ids, spared.count, sizeof *spared.ids, by_id);
    spared.sorted = true;
    if (!bsearch(&id, spared.ids, spared.count, sizeof *spared.ids, by_id)) return ST_OK;
    return fail(ST_USAGE, "%s: is an input, and would be overwritten", path);
}

/* ---- streams --------------------------------------------------------------------------------- */

enum status output_open(struct output *out, const char *path) {
    char target[PATH_MAX];
    struct stat info;
    bool exists;
    *out = (struct output){.file = stdout, .shown = "stdout"};
    if (!path || strcmp(path, "-") == 0) return ST_OK;
    out->shown = path;
    out->file = NULL;
    exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) return failed(out, "cannot be written", EISDIR);
    if (exists && !S_ISREG(info.st_mode)) {
        out->file = fopen(path, "w");
        return out->file ? ST_OK : failed(out, "cannot be written", errno);
    }
    if (exists) TRY(check_spared(path, &info));
    /* A link stays a link: the file behind it is the one replaced. */
    out->path = str_copy(exists && realpath(path, target) ? target : path);
    out->part = out->path ? str_format("%s.%ld.part", out->path, (long)getpid()) : NULL;
    if (!out->part) return mem_free(out->path), out->path = NULL, ST_NOMEM;
    if (!exists || access(path, W_OK) == 0) out->file = fopen(out->part, "w");
    if (!out->file) {
        enum status st = failed(out, "cannot be written", errno);
        mem_free(out->path);
        mem_free(out->part);
        out->path = out->part = NULL;
        return st;
    }
    if (exists) (void)fchmod(fileno(out->file), info.st_mode & 07777);
    temporary_add(out->part);
    return ST_OK;
}

enum status output_flush(struct output *out) {
    const int earlier = ferror(out->file) ? errno : 0; /* of the write that failed */
    if (out->part && !out->whole) temporary_forget(out->part);
    errno = 0;
    if (fflush(out->file) == 0 && !ferror(out->file)) return ST_OK;
    if (!errno) errno = earlier ? earlier : EIO;
    return failed(out, "the results could not be written", errno);
}

/* The sentence of a run that could not finish, and where its results so far are. */
static enum status keep_part(struct output *out, enum status done) {
    struct stat info;
    char why[1024];
    size_t length = strlen(fail_message());
    if (out->whole || stat(out->part, &info) != 0 || info.st_size == 0) {
        unlink(out->part);
        return done;
    }
    length = length < sizeof why ? length : sizeof why - 1;
    memcpy(why, fail_message(), length);
    why[length] = 0;
    return fail(done, "%s; what was written so far is in %s", why, out->part);
}

enum status output_close(struct output *out, enum status done) {
    enum status st = done;
    if (!out->file) return done;
    if (st == ST_OK) st = output_flush(out);
    if (out->file != stdout && fclose(out->file) != 0 && st == ST_OK)
        st = failed(out, "the results could not be written", errno);
    if (out->part && st == ST_OK && rename(out->part, out->path) != 0)
        st = failed(out, "could not be given its name", errno);
    if (out->part && st != ST_OK) st = keep_part(out, st);
    if (out->part) temporary_forget(out->part);
    mem_free(out->path);
    mem_free(out->part);
    memset(out, 0, sizeof *out);
    return st;
}

/* A folder that cannot be written is said before the work, by the name that was given. */
static enum status check_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? str_format("%.*s", (int)(slash - path) + 1, path) : str_copy(".");
    enum status st = ST_OK;
    if (!folder) return ST_NOMEM;
    if (access(folder, W_OK | X_OK) != 0) st = fail(ST_IO, "%s: %s", path, strerror(errno));
    mem_free(folder);
    return st;
}

enum status output_check_regular(const char *path) {
    struct stat info;
    if (strcmp(path, "-") == 0)
        return fail(ST_USAGE, "option --output: HDF5 cannot be written to stdout, want a file");
    if (stat(path, &info) == 0) {
        if (!S_ISREG(info.st_mode))
            return fail(ST_USAGE, "option --output: %s is no regular file; HDF5 needs one", path);
        TRY(check_spared(path, &info));
    }
    return check_folder(path);
}

enum status output_check_spares(const char *path, const char *input) {
    struct stat out, in;
    if (!path || !input || stat(path, &out) != 0 || !S_ISREG(out.st_mode)) return ST_OK;
    if (stat(input, &in) != 0 || in.st_dev != out.st_dev || in.st_ino != out.st_ino) return ST_OK;
    return fail(ST_USAGE, "%s: would overwrite the input %s", path, input);
}

/* The folder's own name and the file's: what a file that is not there yet will be. */
static char *final_name(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? str_format("%.*s", (int)(slash - path) + 1, path) : str_copy(".");
    char *real = folder ? realpath(folder, NULL) : NULL;
    char *name = str_format("%s/%s", real ? real : folder ? folder : "", slash ? slash + 1 : path);
    mem_free(real);
    mem_free(folder);
    return name;
}

enum status output_check_distinct(const char *path, const char *other) {
    struct stat one, two;
    char *first, *second;
    bool same;
    if (!path || !other) return ST_OK;
    if (stat(path, &one) == 0 && stat(other, &two) == 0) {
        same = S_ISREG(one.st_mode) && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
    } else {
        first = final_name(path);
        second = final_name(other);
        same = first && second && strcmp(first, second) == 0;
        mem_free(first);
        mem_free(second);
    }
    return same ? fail(ST_USAGE, "%s and %s are one file, for two results", other, path) : ST_OK;
}

enum status output_make_folders(char *path) {
    for (char *at = path + 1;; at++) {
        bool last = *at == 0;
        if (*at != '/' && !last) continue;
        *at = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST && (last || access(path, F_OK) != 0))
            return fail(ST_IO, "%s: the folder cannot be made: %s", path, strerror(errno));
        if (last) return ST_OK;
        *at = '/';
    }
}
