/* download: see download.h; libcurl speaks HTTP. */
#include "weights/download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#if HAVE_CURL
#include <curl/curl.h>
#endif

enum { REDIRECTS_MOST = 10, WORD = 256 };

/* What a file is a part of: FILE.note. */
struct note {
    char address[1024];
    uint64_t size; /* of the whole file; 0: the server did not say */
    char etag[WORD], modified[WORD], announced[65];
};

void download_forget(const char *path, bool all) {
    char *note = str_format("%s.note", path);
    if (note) unlink(note);
    if (all) unlink(path);
    mem_free(note);
}

#if !HAVE_CURL

enum status download_get(const struct download *download, struct download_result *out) {
    memset(out, 0, sizeof *out);
    return fail(ST_IO,
                "%s: this vitrine was built without libcurl and downloads nothing (install "
                "libcurl4-openssl-dev and build again, or give a file with --from)",
                download->address);
}

#else

/* ---- the note ------------------------------------------------------------------------------- */

static enum status note_write(const char *path, const struct note *note) {
    char *name = str_format("%s.note", path);
    char *text =
        str_format("address %s\nsize %llu\netag %s\nmodified %s\nannounced %s\n", note->address,
                   (unsigned long long)note->size, note->etag, note->modified, note->announced);
    enum status st = name && text ? ST_OK : ST_NOMEM;
    int fd = st == ST_OK ? open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    if (st == ST_OK && (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)))
        st = fail(ST_IO, "%s: %s", name, strerror(errno));
    if (fd >= 0) close(fd);
    mem_free(text);
    mem_free(name);
    return st;
}

/* The rest of the line that begins with `key` and a blank; "" when there is none. */
static void note_field(const char *text, const char *key, char *out, size_t size) {
    size_t length = strlen(key);
    out[0] = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, key, length) != 0 || line[length] != ' ') continue;
        line += length + 1;
        if (strcspn(line, "\n") < size) snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
        return;
    }
}

/* False when there is no note that can be used. */
static bool note_read(const char *path, struct note *out) {
    char *name = str_format("%s.note", path), *text = NULL, number[32];
    uint8_t *bytes = NULL;
    size_t size = 0;
    long whole = 0;
    bool good =
        name && access(name, F_OK) == 0 && file_read_regular(name, 8192, &bytes, &size) == ST_OK;
    if (good) text = str_format("%.*s", (int)size, (const char *)bytes);
    if (text) {
        note_field(text, "address", out->address, sizeof out->address);
        note_field(text, "size", number, sizeof number);
        note_field(text, "etag", out->etag, sizeof out->etag);
        note_field(text, "modified", out->modified, sizeof out->modified);
        note_field(text, "announced", out->announced, sizeof out->announced);
        good = parse_long(number, 0, (long)1 << 50, &whole);
        out->size = (uint64_t)whole;
    }
    mem_free(text);
    mem_free(bytes);
    mem_free(name);
    return good && text;
}

/* ---- one transfer --------------------------------------------------------------------------- */

struct transfer {
    const struct download *download;
    CURL *curl;
    int fd;
    struct note old;     /* of the part that is there */
    struct note now;     /* of this answer, as its headers come */
    uint64_t have;       /* bytes of the part that were asked to be kept */
    uint64_t done;       /* bytes in the file now */
    long long range;     /* where a 206 says it begins; -1: did not say */
    uint64_t came;       /* bytes of any body, error pages too */
    double last;         /* when one came */
    bool begun, restart; /* restart: the answer does not fit the part */
    bool stalled;
    enum status st; /* of our own callbacks, its sentence written */
    char error[CURL_ERROR_SIZE];
};

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The value of a header line "Name: value" without blanks and quotes around it, or false. */
static bool header_value(const char *line, size_t length, const char *name, char *out,
                         size_t size) {
    size_t skip = strlen(name);
    if (length <= skip || strncasecmp(line, name, skip) != 0 || line[skip] != ':') return false;
    for (skip++; skip < length && (line[skip] == ' ' || line[skip] == '\t');)
        skip++;
    while (length > skip && (unsigned char)line[length - 1] <= ' ')
        length--;
    if (length - skip >= size) return false;
    snprintf(out, size, "%.*s", (int)(length - skip), line + skip);
    return out[0] != 0;
}

/* "bytes 100-199/200" */
static void take_range(struct transfer *t, const char *text) {
    const char *dash = strchr(text, '-'), *slash = strchr(text, '/');
    char from[32];
    long begin = -1, total = 0;
    if (strncasecmp(text, "bytes ", 6) != 0 || !dash || !slash || dash - text - 6 > 20) return;
    snprintf(from, sizeof from, "%.*s", (int)(dash - text - 6), text + 6);
    if (parse_long(from, 0, (long)1 << 50, &begin)) t->range = begin;
    if (parse_long(slash + 1, 1, (long)1 << 50, &total)) t->now.size = (uint64_t)total;
}

static bool is_sha256(const char *text) {
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static size_t on_header(char *line, size_t one, size_t length, void *context) {
    struct transfer *t = context;
    char value[WORD];
    (void)one;
    t->last = now_seconds();
    if (length > 5 && memcmp(line, "HTTP/", 5) == 0) {
        /* A redirect's next answer; what the hub announced before it stays. */
        t->now.etag[0] = t->now.modified[0] = 0;
        t->now.size = 0;
        t->range = -1;
    }
    if (header_value(line, length, "etag", value, sizeof value))
        snprintf(t->now.etag, sizeof t->now.etag, "%s", value);
    if (header_value(line, length, "last-modified", value, sizeof value))
        snprintf(t->now.modified, sizeof t->now.modified, "%s", value);
    if (header_value(line, length, "content-range", value, sizeof value)) take_range(t, value);
    if (header_value(line, length, "x-linked-etag", value, sizeof value) && value[0] == '"') {
        value[strlen(value) - 1] = 0;
        if (is_sha256(value + 1)) memcpy(t->now.announced, value + 1, sizeof t->now.announced);
    }
    return length;
}

static enum status check_room(const struct transfer *t, uint64_t needed) {
    const struct download *d = t->download;
    struct statvfs disk;
    double free_mb, needed_mb = 1e-6 * (double)(needed + d->room);
    if (fstatvfs(t->fd, &disk) != 0) return ST_OK;
    free_mb = 1e-6 * (double)disk.f_bavail * (double)disk.f_frsize;
    if (free_mb >= needed_mb) return ST_OK;
    return fail(ST_IO, "%s: the disk has %.1f MB free, the download and its model need %.1f MB",
                d->path, free_mb, needed_mb);
}

/* What of the answer contradicts the part: another file since, or not the bytes asked for. */
static bool fits_part(const struct transfer *t) {
    const struct note *old = &t->old, *now = &t->now;
    if (t->range != (long long)t->have) return false;
    if (old->size && now->size && old->size != now->size) return false;
    if (old->etag[0] && now->etag[0] && strcmp(old->etag, now->etag) != 0) return false;
    return !(old->announced[0] && now->announced[0] && strcmp(old->announced, now->announced) != 0);
}

/* Before the first byte of a 200 or 206: the file at its length, the note, the room. */
static enum status begin(struct transfer *t, long code) {
    const struct download *d = t->download;
    curl_off_t length = -1;
    t->begun = true;
    if (code == 206 && !fits_part(t)) {
        t->restart = true;
        return ST_IO;
    }
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (code == 200) {
        t->have = 0;
        t->now.size = length > 0 ? (uint64_t)length : 0;
    }
    if (t->have && !t->now.etag[0]) memcpy(t->now.etag, t->old.etag, sizeof t->now.etag);
    if (t->have && !t->now.modified[0])
        memcpy(t->now.modified, t->old.modified, sizeof t->now.modified);
    if (t->have && !t->now.announced[0])
        memcpy(t->now.announced, t->old.announced, sizeof t->now.announced);
    t->done = t->have;
    if (d->limit && t->now.size > d->limit)
        return fail(ST_IO, "%s: has %.1f MB, want at most %.1f MB", d->address,
                    1e-6 * (double)t->now.size, 1e-6 * (double)d->limit);
    TRY(check_room(t, t->now.size > t->have ? t->now.size - t->have : 0));
    if (ftruncate(t->fd, (off_t)t->have) != 0 || lseek(t->fd, (off_t)t->have, SEEK_SET) < 0)
        return fail(ST_IO, "%s: %s", d->path, strerror(errno));
    snprintf(t->now.address, sizeof t->now.address, "%s", d->address);
    return note_write(d->path, &t->now);
}

static enum status take(struct transfer *t, const char *bytes, size_t count) {
    const struct download *d = t->download;
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200 && code != 206) return ST_OK; /* an error's page */
    if (!t->begun) TRY(begin(t, code));
    if (d->limit && t->done + count > d->limit)
        return fail(ST_IO, "%s: has more than %.1f MB", d->address, 1e-6 * (double)d->limit);
    while (count) {
        ssize_t written = write(t->fd, bytes, count);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0)
            return fail(ST_IO, "%s: %s after %.1f MB", d->path, strerror(errno),
                        1e-6 * (double)t->done);
        bytes += written;
        count -= (size_t)written;
        t->done += (uint64_t)written;
    }
    return ST_OK;
}

static size_t on_body(char *bytes, size_t one, size_t count, void *context) {
    struct transfer *t = context;
    (void)one;
    t->last = now_seconds();
    t->came += count;
    t->st = take(t, bytes, count);
    return t->st == ST_OK ? count : 0;
}

static int on_progress(void *context, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up) {
    struct transfer *t = context;
    const struct download *d = t->download;
    (void)total, (void)now, (void)up_total, (void)up;
    if (t->begun && !t->restart && d->progress) d->progress(d->context, t->done, t->now.size);
    t->stalled = now_seconds() - t->last > d->timeout;
    return t->stalled;
}

/* ---- what the transfer came to --------------------------------------------------------------- */

static const char *status_words(long code) {
    switch (code) {
    case 401: return " (Unauthorized)";
    case 403: return " (Forbidden)";
    case 404: return " (Not Found)";
    case 410: return " (Gone)";
    case 429: return " (Too Many Requests: try again later)";
    case 500: return " (Internal Server Error)";
    case 503: return " (Service Unavailable: try again later)";
    default: return "";
    }
}

static const char *kept_text(const struct transfer *t, char text[128]) {
    text[0] = 0;
    if (t->begun && t->done)
        snprintf(text, 128, "; %.1f MB are kept, the same command goes on from there",
                 1e-6 * (double)t->done);
    return text;
}

static enum status fail_stalled(const struct transfer *t) {
    const struct download *d = t->download;
    char kept[128];
    if (t->begun)
        return fail(ST_IO, "%s: timed out: no byte came for %g s (--timeout) after %.1f MB%s",
                    d->address, d->timeout, 1e-6 * (double)t->done, kept_text(t, kept));
    return fail(ST_IO, "%s: timed out: no answer within %g s (--timeout)", d->address, d->timeout);
}

static enum status fail_curl(const struct transfer *t, CURLcode code) {
    const struct download *d = t->download;
    const char *why = t->error[0] ? t->error : curl_easy_strerror(code);
    char kept[128], *where = NULL;
    curl_easy_getinfo(t->curl, CURLINFO_EFFECTIVE_URL, &where);
    switch (code) {
    case CURLE_TOO_MANY_REDIRECTS:
        return fail(ST_IO, "%s: redirects more than %d times, at last to %s", d->address,
                    REDIRECTS_MOST, where ? where : "?");
    case CURLE_URL_MALFORMAT: return fail(ST_USAGE, "%s: is no address", d->address);
    case CURLE_WEIRD_SERVER_REPLY:
        return fail(ST_IO, "%s: the server's answer is no HTTP", d->address);
    case CURLE_UNSUPPORTED_PROTOCOL:
        if (strstr(why, "HTTP/0.9"))
            return fail(ST_IO, "%s: the server's answer is no HTTP", d->address);
        if (where && strcmp(where, d->address) != 0)
            return fail(ST_IO, "%s: leads to %s, want https", d->address, where);
        return fail(ST_IO, "%s: leads to something that is not https", d->address);
    case CURLE_OPERATION_TIMEDOUT:
        return fail(ST_IO, "%s: timed out: no connection within %g s (--timeout)", d->address,
                    d->timeout);
    default: break;
    }
    if (t->begun && t->now.size)
        return fail(ST_IO, "%s: cut off after %.1f of %.1f MB (%s)%s", d->address,
                    1e-6 * (double)t->done, 1e-6 * (double)t->now.size, why, kept_text(t, kept));
    return fail(ST_IO, "%s: %s%s", d->address, why, kept_text(t, kept));
}

/* The status of a transfer that curl ended with `code`. */
static enum status judge(struct transfer *t, CURLcode code) {
    const struct download *d = t->download;
    long answer = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &answer);
    if (t->restart) return ST_IO;
    if (t->st != ST_OK) return t->st;
    if (t->stalled) return fail_stalled(t);
    if (code != CURLE_OK) return fail_curl(t, code);
    if (answer == 416) {
        t->restart = true;
        return fail(ST_IO, "%s: the server has no such range", d->address);
    }
    if (answer != 200 && answer != 206)
        return fail(ST_IO, "%s: the server says %ld%s", d->address, answer, status_words(answer));
    if (!t->begun) TRY(begin(t, answer)); /* an empty file */
    if (t->restart) return ST_IO;
    if (t->now.size && t->done != t->now.size)
        return fail(ST_IO, "%s: %.1f of %.1f MB came", d->address, 1e-6 * (double)t->done,
                    1e-6 * (double)t->now.size);
    return ST_OK;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct curl_slist *ask_range(struct transfer *t) {
    const struct note *old = &t->old;
    bool strong = old->etag[0] == '"';
    char range[64], condition[WORD + 32];
    struct curl_slist *headers = NULL;
    if (!t->have) return NULL;
    snprintf(range, sizeof range, "%llu-", (unsigned long long)t->have);
    curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
    if (strong || old->modified[0]) {
        snprintf(condition, sizeof condition, "If-Range: %s", strong ? old->etag : old->modified);
        headers = curl_slist_append(NULL, condition);
        curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    }
    return headers;
}

static void set_protocols(CURL *curl, bool plain) {
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
#else
    long allowed = CURLPROTO_HTTPS | (plain ? CURLPROTO_HTTP : 0);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, allowed);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, allowed);
#endif
}

static CURLcode perform(struct transfer *t) {
    const struct download *d = t->download;
    struct curl_slist *headers;
    CURLcode code;
    curl_easy_setopt(t->curl, CURLOPT_URL, d->address);
    set_protocols(t->curl, d->plain);
    curl_easy_setopt(t->curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(t->curl, CURLOPT_MAXREDIRS, (long)REDIRECTS_MOST);
    curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->curl, CURLOPT_USERAGENT, "vitrine/" VERSION);
    curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(1000 * d->timeout));
    curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->error);
    curl_easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(t->curl, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(t->curl, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(t->curl, CURLOPT_NOPROGRESS, 0L);
    headers = ask_range(t);
    t->last = now_seconds();
    code = curl_easy_perform(t->curl);
    curl_slist_free_all(headers);
    return code;
}

/*
 * How much of the file that is there may be kept: all of it when the note is of this address and
 * a changed file would be noticed.
 */
static uint64_t usable(const struct download *d, int fd, const struct note *note, bool noted) {
    struct stat info;
    bool noticed = d->verified || note->etag[0] == '"' || note->modified[0] || note->announced[0];
    if (!noted || !noticed || strcmp(note->address, d->address) != 0) return 0;
    if (fstat(fd, &info) != 0 || info.st_size <= 0) return 0;
    if (note->size && (uint64_t)info.st_size > note->size) return 0;
    return (uint64_t)info.st_size;
}

/* One request; *cut: the connection broke after it brought something. */
static enum status attempt(const struct download *d, int fd, bool anew, bool *cut, bool *restart,
                           struct download_result *out) {
    struct transfer t = {.download = d, .fd = fd, .range = -1};
    bool noted = note_read(d->path, &t.old);
    enum status st = ST_OK;
    long answer = 0;
    CURLcode code;
    t.have = t.done = anew ? 0 : usable(d, fd, &t.old, noted);
    if (d->again && t.have == t.old.size) t.have = t.done = 0;
    if (!t.have) memset(&t.old, 0, sizeof t.old);
    out->kept = t.have;
    if (t.have && t.have == t.old.size) {
        t.now = t.old; /* whole already */
    } else {
        t.curl = curl_easy_init();
        if (!t.curl) return fail(ST_NOMEM, "libcurl could not be started");
        code = perform(&t);
        st = judge(&t, code);
        curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &answer);
        out->answer = (int)answer;
        *cut = st != ST_OK && t.st == ST_OK && !t.stalled && t.begun && code != CURLE_OK && t.came;
        *restart = t.restart;
        curl_easy_cleanup(t.curl);
    }
    if (out->kept && t.begun && !t.have) out->changed = true;
    if (t.begun && !t.have) out->kept = 0;
    out->size = t.done;
    snprintf(out->announced, sizeof out->announced, "%s", t.now.announced);
    return st;
}

static enum status get(const struct download *d, int fd, struct download_result *out) {
    enum status st = ST_OK;
    uint64_t kept = 0;
    bool cut = false, restart = false, anew = false, changed = false;
    for (int tried = 0;; tried++) {
        bool first = tried == 0;
        cut = restart = false;
        st = attempt(d, fd, anew, &cut, &restart, out);
        if (first) kept = out->kept;
        changed |= out->changed || restart;
        if (restart && !anew)
            anew = true;
        else if (cut && tried < d->retries)
            anew = false;
        else
            break;
    }
    out->kept = changed ? 0 : kept;
    out->changed = changed;
    if (st != ST_OK && restart)
        st =
            fail(ST_IO, "%s: the server answers with other bytes than those asked for", d->address);
    return st;
}

enum status download_get(const struct download *d, struct download_result *out) {
    const char *scheme = strstr(d->address, "://");
    bool https = strncasecmp(d->address, "https://", 8) == 0;
    bool http = strncasecmp(d->address, "http://", 7) == 0;
    struct stat info;
    enum status st;
    int fd;
    memset(out, 0, sizeof *out);
    if (!https && !(http && d->plain))
        return fail(ST_USAGE, "%s: is %s address, want https://", d->address,
                    scheme && scheme != d->address ? "another kind of" : "no");
    if (strlen(d->address) >= sizeof((struct note *)0)->address ||
        d->address[strcspn(d->address, " \n\r\t")])
        return fail(ST_USAGE, "%s: is no address", d->address);
    fd = open(d->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return fail(ST_IO, "%s: %s", d->path, strerror(errno));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        close(fd);
        return fail(ST_NOMEM, "libcurl could not be started");
    }
    st = get(d, fd, out);
    curl_global_cleanup();
    if (st != ST_OK && fstat(fd, &info) == 0 && info.st_size == 0) download_forget(d->path, true);
    if (close(fd) != 0 && st == ST_OK) st = fail(ST_IO, "%s: %s", d->path, strerror(errno));
    return st;
}

#endif
