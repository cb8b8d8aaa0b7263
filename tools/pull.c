/*
 * pull: see pull.h. lock -> fetch (weights/download.h) -> verify -> convert -> rename -> tidy.
 */
#include "tools/pull.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli.h"
#include "tools/model.h"
#include "tools/model_write.h"
#include "tools/output.h"
#include "weights/download.h"
#include "weights/sha256.h"

#define CONFIG_LIMIT     ((uint64_t)16 << 20) /* bytes of a config file */
#define PREPROCESS_WORDS 8

static const char *const config_files[] = {"config.json", "preprocessor_config.json"};

/* What becomes of the checkpoint, by the catalog and the command line. */
struct making {
    struct convert_options options; /* points into what follows */
    struct labels labels;
    const char *words[PREPROCESS_WORDS], **all;
    char *preprocess;
};

struct pull {
    const struct catalog_entry *entry;
    const struct pull_options *options;
    char *target;     /* FOLDER/NAME.h5 */
    char *work;       /* FOLDER/NAME.part */
    char *lock_path;  /* NAME.part/lock */
    char *checkpoint; /* the weight file, or a local folder of one */
    char *made;       /* NAME.part/NAME.h5 */
    const char *file; /* the weight file's name */
    const char *from; /* the address or the file, for sentences and the model's source */
    bool local;       /* from is a file here: not ours to remove */
    struct making making;
    bool good; /* the checkpoint hashes to what it should, or is one */
    int lock;
    double begun; /* of the progress: when, and with how much */
    uint64_t begun_with;
    double drawn;
};

/* ---- the folder ------------------------------------------------------------------------------ */

/* Removes the files of a folder that are not in `spared` (ends with NULL). */
static void sweep(const char *folder, const char *const *spared) {
    DIR *list = opendir(folder);
    struct dirent *item;
    while (list && (item = readdir(list))) {
        const char *const *name = spared;
        char *path;
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0) continue;
        while (*name && strcmp(*name, item->d_name) != 0)
            name++;
        path = *name ? NULL : str_format("%s/%s", folder, item->d_name);
        if (path) unlink(path);
        mem_free(path);
    }
    if (list) closedir(list);
}

/*
 * One pull of a name at a time. Whoever finishes removes the lock's file, so a lock counts only
 * when it is still the file of that name.
 */
static enum status take_lock(struct pull *p) {
    for (int tries = 0; tries < 100; tries++) {
        struct stat held, named;
        TRY(output_make_folders(p->work));
        p->lock = open(p->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (p->lock < 0 && errno == ENOENT) continue;
        if (p->lock < 0) return fail(ST_IO, "%s: %s", p->lock_path, strerror(errno));
        if (flock(p->lock, LOCK_EX | LOCK_NB) != 0) {
            int error = errno;
            close(p->lock);
            p->lock = -1;
            if (error == EWOULDBLOCK)
                return fail(ST_IO, "%s: another vitrine is pulling it at this moment",
                            p->entry->name);
            return fail(ST_IO, "%s: cannot be locked: %s", p->lock_path, strerror(error));
        }
        if (fstat(p->lock, &held) == 0 && stat(p->lock_path, &named) == 0 &&
            held.st_ino == named.st_ino && held.st_dev == named.st_dev)
            return ST_OK;
        close(p->lock);
        p->lock = -1;
    }
    return fail(ST_IO, "%s: cannot be locked", p->lock_path);
}

/* Leaves the folder only where something in it is worth keeping. */
static void leave(struct pull *p) {
    if (p->lock < 0) return;
    unlink(p->lock_path);
    rmdir(p->work);
    close(p->lock);
    p->lock = -1;
}

/* ---- fetching -------------------------------------------------------------------------------- */

static void draw_progress(void *context, uint64_t done, uint64_t total) {
    struct pull *p = context;
    double now = cli_seconds(), rate;
    if (p->begun == 0) {
        p->begun = now;
        p->begun_with = done;
    }
    if (now - p->drawn < 0.2) return;
    p->drawn = now;
    rate = now > p->begun ? (double)(done - p->begun_with) / (now - p->begun) : 0;
    fprintf(stderr, "\r\033[K%s  %.1f", p->entry->name, 1e-6 * (double)done);
    if (total) fprintf(stderr, "/%.1f", 1e-6 * (double)total);
    fprintf(stderr, " MB  %.1f MB/s", 1e-6 * rate);
    if (total >= done && rate > 0) {
        long left = (long)((double)(total - done) / rate);
        fprintf(stderr, "  %ld:%02ld left", left / 60, left % 60);
    }
    fflush(stderr);
}

static bool is_address(const char *text) {
    return strstr(text, "://") != NULL;
}

/*
 * --from FILE or FOLDER. Of a folder the entry's own file, or the folder, in which checkpoint_open
 * finds the weights by their usual names.
 */
static enum status find_local(struct pull *p) {
    const char *from = p->options->from;
    struct stat info;
    p->local = true;
    if (stat(from, &info) != 0) return fail(ST_IO, "%s: %s", from, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        p->checkpoint = str_format("%s/%s", from, p->file);
        if (!p->checkpoint || access(p->checkpoint, F_OK) == 0)
            return p->checkpoint ? ST_OK : ST_NOMEM;
        mem_free(p->checkpoint);
    }
    p->checkpoint = str_copy(from);
    return p->checkpoint ? ST_OK : ST_NOMEM;
}

static struct download request(struct pull *p, const char *address, const char *path) {
    const struct pull_options *o = p->options;
    return (struct download){.address = address,
                             .path = path,
                             .plain = o->from && strncmp(o->from, "http://", 7) == 0,
                             .timeout = o->timeout,
                             .retries = o->retries};
}

static bool is_json(const char *path) {
    char head[64];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(head, 1, sizeof head, file) : 0, i = 0;
    if (file) (void)fclose(file);
    while (i < size && strchr(" \t\r\n", head[i]) && head[i])
        i++;
    return i < size && head[i] == '{';
}

/* With `optional` it may not be there, which some servers say by a page. */
static enum status fetch_config(struct pull *p, const char *from, const char *to, bool optional) {
    struct download_result got;
    struct download d = request(p, from, to);
    enum status st;
    d.limit = CONFIG_LIMIT;
    download_forget(to, true);
    st = download_get(&d, &got);
    download_forget(to, st != ST_OK || (optional && !is_json(to)));
    if (optional && (got.answer == 403 || got.answer == 404 || got.answer == 410)) return ST_OK;
    return st;
}

/* The config files beside the weights: transformers' need them, others may have them. */
static enum status fetch_configs(struct pull *p, const char *address) {
    const struct catalog_entry *e = p->entry;
    size_t folder = strcspn(address, "?#");
    enum status st = ST_OK;
    while (folder && address[folder - 1] != '/')
        folder--;
    for (size_t i = 0; st == ST_OK && (e->folder || !e->arch) && i < COUNT_OF(config_files); i++) {
        char *from = str_format("%.*s%s", (int)folder, address, config_files[i]);
        char *to = str_format("%s/%s", p->work, config_files[i]);
        st = from && to ? fetch_config(p, from, to, !e->folder) : ST_NOMEM;
        mem_free(from);
        mem_free(to);
    }
    return st;
}

static enum status fetch_weights(struct pull *p, const char *address, char announced[65]) {
    struct download d = request(p, address, p->checkpoint);
    struct download_result got;
    enum status st;
    d.again = p->options->force;
    d.verified = p->options->sha256 || p->entry->sha256;
    d.room = catalog_bytes(p->entry);
    d.progress = p->options->progress ? draw_progress : NULL;
    d.context = p;
    st = download_get(&d, &got);
    if (p->options->progress) fputs("\r\033[K", stderr);
    if (!p->options->quiet && got.changed)
        cli_say("%s: the file has changed since the last attempt: begun anew", address);
    if (!p->options->quiet && got.kept)
        cli_say("%s: went on after the %.1f MB that were here", address, 1e-6 * (double)got.kept);
    memcpy(announced, got.announced, sizeof got.announced);
    return st;
}

static enum status fetch(struct pull *p, char announced[65]) {
    const char *from = p->options->from;
    char *address, *note = str_format("%s.note", p->file);
    enum status st;
    if (from && from[strlen(from) - 1] == '/')
        address = str_format("%s%s", from, p->file);
    else
        address = str_copy(from ? from : p->entry->address);
    p->checkpoint = str_format("%s/%s", p->work, p->file);
    st = address && note && p->checkpoint ? ST_OK : ST_NOMEM;
    if (st == ST_OK) {
        sweep(p->work, (const char *const[]){"lock", p->file, note, NULL});
        if (!p->options->quiet) cli_say("%s: from %s", p->entry->name, address);
        st = fetch_configs(p, address);
    }
    if (st == ST_OK) st = fetch_weights(p, address, announced);
    mem_free(note);
    mem_free(address);
    return st;
}

/* ---- the checksum ---------------------------------------------------------------------------- */

/* As the model made of it will say: of a checkpoint of several files over all of them. */
static enum status hash(const struct pull *p, char hex[65]) {
    struct checkpoint checkpoint = {0};
    enum status st;
    if (!p->local) return sha256_file(p->checkpoint, hex);
    TRY(checkpoint_open(p->checkpoint, p->options->recipe.key, &checkpoint));
    st = checkpoint_hash(&checkpoint);
    memcpy(hex, checkpoint.sha256, sizeof checkpoint.sha256);
    checkpoint_release(&checkpoint);
    return st;
}

static enum status verify(struct pull *p, const char *announced) {
    const char *wanted = p->options->sha256 ? p->options->sha256 : p->entry->sha256;
    const char *says = "want";
    char hex[65];
    TRY(hash(p, hex));
    if (!wanted && announced[0]) {
        wanted = announced;
        says = "the hub says";
    }
    if (!wanted) {
        if (!p->options->quiet)
            cli_say("%s: no checksum is published for it; its SHA-256 is %s", p->entry->name, hex);
    } else if (strncmp(hex, wanted, strlen(wanted)) != 0) {
        if (!p->local) download_forget(p->checkpoint, true);
        return fail(ST_FORMAT, "%s: its SHA-256 is %.*s, %s %s%s", p->from, (int)strlen(wanted),
                    hex, says, wanted, p->local ? "" : "; nothing was kept");
    }
    p->good = wanted != NULL;
    return ST_OK;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* "KEY=VALUE KEY=VALUE" taken apart inside `text`. */
static size_t split_words(char *text, const char **words) {
    size_t count = 0;
    for (char *at = text; at && *at && count < PREPROCESS_WORDS;) {
        char *blank = strchr(at, ' ');
        words[count++] = at;
        if (blank) *blank = 0;
        at = blank ? blank + 1 : NULL;
    }
    return count;
}

/* Before anything is fetched: what is wrong with the command line is wrong whatever comes. */
static enum status prepare(struct pull *p) {
    const struct catalog_entry *e = p->entry;
    const struct recipe *recipe = &p->options->recipe;
    struct making *m = &p->making;
    m->options = (struct convert_options){
        .arch = e->folder ? NULL : e->arch, .name = e->name, .license = e->license};
    if (e->preprocess && !(m->preprocess = str_copy(e->preprocess))) return ST_NOMEM;
    m->options.preprocess = m->words;
    m->options.preprocess_count = split_words(m->preprocess, m->words);
    if (e->classes == 1000) TRY(labels_builtin(&m->labels, "imagenet-1k"));
    m->options.label_count = m->labels.count;
    m->options.label_ids = (const char *const *)m->labels.id;
    m->options.label_names = (const char *const *)m->labels.name;
    TRY(recipe_apply(recipe, &m->labels, &m->all, &m->options));
    if (!recipe->labels || p->options->from || m->labels.count == e->classes) return ST_OK;
    return fail(ST_USAGE, "--labels has %d classes, %s %d", m->labels.count, e->name, e->classes);
}

static void making_release(struct making *m) {
    labels_release(&m->labels);
    mem_free(m->all);
    mem_free(m->preprocess);
}

static enum status write_model(struct pull *p, struct checkpoint *checkpoint,
                               struct convert_options *options) {
    struct conversion c = {0};
    enum status st = convert_plan(checkpoint, options, &c);
    if (st == ST_OK && !p->local) {
        char *from = str_printable(p->from), *source = NULL;
        if (from) source = str_format("%s, %s of %s", c.origin, checkpoint->container, from);
        mem_free(from);
        if (source) {
            mem_free(c.info.source);
            c.info.source = source;
        }
    }
    if (st == ST_OK) st = recipe_check(&p->options->recipe, options, &c);
    if (st == ST_OK && c.classes != options->label_count) options->label_count = 0;
    if (st == ST_OK) st = model_write(checkpoint, options, &c, p->made);
    conversion_release(&c);
    return st;
}

static enum status convert(struct pull *p) {
    struct checkpoint checkpoint = {0};
    enum status st = checkpoint_open(p->checkpoint, p->options->recipe.key, &checkpoint);
    p->good |= st != ST_FORMAT;
    if (st == ST_OK) st = checkpoint_hash(&checkpoint);
    if (st == ST_OK) st = write_model(p, &checkpoint, &p->making.options);
    checkpoint_release(&checkpoint);
    return st;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* NAME.part, now without model and lock, becomes NAME.checkpoint. */
static enum status keep_checkpoint(struct pull *p) {
    static const char *const nothing[] = {NULL};
    char *kept = str_format("%.*s.checkpoint", (int)(strlen(p->work) - 5), p->work);
    enum status st = kept ? ST_OK : ST_NOMEM;
    if (st == ST_OK) {
        download_forget(p->checkpoint, false);
        unlink(p->lock_path);
        sweep(kept, nothing);
        if (rename(p->work, kept) != 0)
            st = fail(ST_IO, "%s: cannot become %s: %s", p->work, kept, strerror(errno));
        else if (!p->options->quiet)
            cli_say("kept %s/%s", kept, p->file);
    }
    mem_free(kept);
    return st;
}

static enum status finish(struct pull *p) {
    static const char *const lock[] = {"lock", NULL};
    if (rename(p->made, p->target) != 0) return fail(ST_IO, "%s: %s", p->target, strerror(errno));
    if (!p->options->quiet) cli_say("wrote %s", p->target);
    if (p->options->keep && !p->local) return keep_checkpoint(p);
    if (p->options->keep && !p->options->quiet)
        cli_say("%s: was not downloaded and stays where it is: --keep keeps no copy of it",
                p->from);
    sweep(p->work, lock);
    return ST_OK;
}

/*
 * After a conversion that failed: what is no checkpoint goes, for the next attempt must not find
 * it; another need not come again.
 */
static enum status keep_or_drop(const struct pull *p, enum status st) {
    char why[800];
    if (st == ST_OK || p->local) return st;
    if (!p->good) {
        download_forget(p->checkpoint, true);
        return st;
    }
    snprintf(why, sizeof why, "%.799s", fail_message());
    return fail(st, "%s; the checkpoint is kept, %s", why, p->checkpoint);
}

static enum status pull_locked(struct pull *p) {
    char announced[65] = "";
    enum status st;
    TRY(p->local ? find_local(p) : fetch(p, announced));
    TRY(verify(p, announced));
    st = convert(p);
    if (st != ST_OK) unlink(p->made);
    TRY(keep_or_drop(p, st));
    return finish(p);
}

static enum status name_paths(struct pull *p, const char *folder) {
    const char *name = p->entry->name;
    p->target = str_format("%s/%s.h5", folder, name);
    p->work = str_format("%s/%s.part", folder, name);
    p->lock_path = str_format("%s/%s.part/lock", folder, name);
    p->made = str_format("%s/%s.part/%s.h5", folder, name, name);
    return p->target && p->work && p->lock_path && p->made ? ST_OK : ST_NOMEM;
}

/* Something of that name is there: a model, which by --sha256 is asked what it was made of. */
static enum status is_here(const struct pull *p) {
    const char *wanted = p->options->sha256;
    struct model_info info = {0};
    struct h5 *file = NULL;
    enum status st = h5_open(p->target, &file);
    if (file) st = model_info_read(file, &info);
    if (file && h5_close(&file) != ST_OK && st == ST_OK) st = ST_IO;
    if (st != ST_OK) {
        char why[800];
        snprintf(why, sizeof why, "%s", fail_message());
        st = fail(st, "%s; no model, but in its place (--force puts one there)", why);
    }
    if (st == ST_OK && wanted && !*info.source_sha256)
        st = fail(ST_FORMAT,
                  "%s: is here already, but does not say the SHA-256 of what it was made of "
                  "(--force pulls it again)",
                  p->target);
    else if (st == ST_OK && wanted && strncmp(info.source_sha256, wanted, strlen(wanted)) != 0)
        st = fail(ST_FORMAT,
                  "%s: is here already, made of a file whose SHA-256 is %.*s, want %s (--force "
                  "pulls it again)",
                  p->target, (int)strlen(wanted), info.source_sha256, wanted);
    if (st == ST_OK && !p->options->quiet)
        cli_say("%s: is here already, %s%s (--force pulls it again)", p->entry->name, p->target,
                wanted ? ", made of a file of that SHA-256" : "");
    model_info_release(&info);
    return st;
}

enum status pull_model(const struct catalog_entry *entry, const struct pull_options *options) {
    struct pull p = {.entry = entry, .options = options, .lock = -1};
    char *folder = model_folder();
    struct stat info;
    enum status st = folder ? name_paths(&p, folder) : ST_IO;
    p.file = catalog_file(entry);
    p.from = options->from ? options->from : entry->address;
    p.local = options->from && !is_address(options->from);
    if (st == ST_OK) st = prepare(&p);
    if (st == ST_OK && stat(p.target, &info) == 0 && S_ISDIR(info.st_mode))
        st = fail(ST_IO, "%s: is a folder, where the model would be", p.target);
    if (st == ST_OK && !options->force && access(p.target, F_OK) == 0) {
        st = is_here(&p);
    } else {
        if (st == ST_OK) st = take_lock(&p);
        if (st == ST_OK) st = pull_locked(&p);
        leave(&p);
    }
    making_release(&p.making);
    mem_free(p.target);
    mem_free(p.work);
    mem_free(p.lock_path);
    mem_free(p.made);
    mem_free(p.checkpoint);
    mem_free(folder);
    return st;
}
