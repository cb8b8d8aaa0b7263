/* predictions: see predictions.h. */
#include "tools/predictions.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Columns, as tools/rows.c has them. */
enum {
    PATH,
    STATUS,
    RANK,
    INDEX,
    ID,
    LABEL,
    SCORE,
    MESSAGE,
    TARGET,
    TARGET_ID,
    TARGET_LABEL,
    CORRECT,
    TARGET_RANK,
    TARGET_SCORE,
    COLUMNS
};
enum { LONGEST = 64 << 20, TOPK_MOST = 1 << 24 };

static const char table_mark[] = "# vitrine evaluate ", object_mark[] = "{\"vitrine evaluate\":";
static const char table_end[] = "# end of ", object_end[] = "{\"vitrine evaluate end\":";

enum status predictions_format(const char *path, enum row_format *out) {
    static const struct {
        const char *suffix;
        enum row_format format;
    } known[] = {{".csv", ROW_CSV}, {".tsv", ROW_TSV}, {".jsonl", ROW_JSONL}};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < COUNT_OF(known); i++) {
        if (strcmp(dot, known[i].suffix) != 0) continue;
        *out = known[i].format;
        return ST_OK;
    }
    return fail(ST_USAGE, "%s: want a name that ends in .csv, .tsv or .jsonl", path);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static enum status broken(const struct predictions_reader *r, const char *what) {
    return fail(ST_FORMAT, "%s: image %zu: %s", r->path, r->images + 1, what);
}

static enum status put(struct predictions_reader *r, int byte) {
    void *text = r->text;
    enum status st;
    if (r->used >= LONGEST) return broken(r, "a line of more than 64 MiB");
    st = mem_grow(&text, &r->capacity, r->used + 2, 1);
    r->text = text;
    if (st != ST_OK) return st;
    r->text[r->used++] = (char)byte;
    r->text[r->used] = 0;
    return ST_OK;
}

/* A record behind r->text: to the newline outside of quotes; *whole false where the file ends. */
static enum status read_record(struct predictions_reader *r, bool *whole) {
    bool quoted = false;
    int byte;
    *whole = false;
    while ((byte = getc(r->file)) != EOF) {
        if (byte == 0) return broken(r, "zero bytes, want text");
        TRY(put(r, byte));
        if (byte == '"' && r->format == ROW_CSV) quoted = !quoted;
        if (byte != '\n' || quoted) continue;
        *whole = true;
        return ST_OK;
    }
    if (ferror(r->file)) return fail(ST_IO, "%s: cannot be read: %s", r->path, strerror(errno));
    return ST_OK;
}

/* The object behind the mark of the first line, in fresh memory. */
static enum status read_head(struct predictions_reader *r) {
    const char *mark = r->format == ROW_JSONL ? object_mark : table_mark;
    const size_t length = strlen(mark);
    bool whole;
    cJSON *object;
    TRY(read_record(r, &whole));
    if (!whole && strncmp(r->text ? r->text : "", mark, r->used < length ? r->used : length) == 0)
        return ST_OK; /* empty, or cut within the first line */
    if (!whole || strncmp(r->text, mark, length) != 0)
        return fail(ST_FORMAT, "%s: is no file of rows that 'vitrine evaluate' wrote", r->path);
    r->text[r->used - (r->format == ROW_JSONL ? 2 : 1)] = 0; /* the newline, and a brace */
    object = cJSON_Parse(r->text + length);
    if (!object) return fail(ST_FORMAT, "%s: its first line is broken", r->path);
    const cJSON *topk = cJSON_GetObjectItemCaseSensitive(object, "topk");
    r->topk = cJSON_IsNumber(topk) && topk->valuedouble >= 1 && topk->valuedouble < TOPK_MOST
                  ? topk->valueint
                  : 0;
    cJSON_Delete(object);
    if (!r->topk) return fail(ST_FORMAT, "%s: its first line has no topk", r->path);
    r->head = str_copy(r->text + length);
    r->end = r->used;
    r->used = 0;
    if (!r->head) return ST_NOMEM;
    if (r->format == ROW_JSONL) return ST_OK;
    TRY(read_record(r, &whole)); /* the columns' names */
    r->end += r->used;
    r->used = 0;
    if (whole) return ST_OK;
    mem_free(r->head); /* cut between the two: as good as empty */
    r->head = NULL;
    return ST_OK;
}

enum status predictions_read_open(struct predictions_reader *r, const char *path) {
    enum status st;
    *r = (struct predictions_reader){.path = path};
    TRY(predictions_format(path, &r->format));
    r->file = fopen(path, "rb");
    if (!r->file) return fail(ST_IO, "%s: cannot be opened: %s", path, strerror(errno));
    st = read_head(r);
    if (st != ST_OK) predictions_read_close(r);
    return st;
}

void predictions_read_close(struct predictions_reader *r) {
    if (r->file) fclose(r->file);
    mem_free(r->head);
    mem_free(r->text);
    mem_free(r->fields);
    cJSON_Delete(r->object);
    *r = (struct predictions_reader){0};
}

/* ---- a table's lines ------------------------------------------------------------------------- */

/* A field of TSV or CSV in place, unescaped; *next = the one behind it, NULL at the line's end. */
static char *take_field(char *at, bool tsv, char **next) {
    const char *in = at;
    char *out = at, *begin = at;
    bool quoted = !tsv && *in == '"';
    in += quoted;
    for (;; in++) {
        if (quoted && *in == '"' && in[1] == '"')
            *out++ = *in++;
        else if (quoted && *in == '"')
            quoted = false;
        else if (!quoted && (*in == (tsv ? '\t' : ',') || *in == '\n' || !*in))
            break;
        else if (tsv && *in == '\\' && in[1] && in[1] != '\n') {
            in++;
            *out++ = (char)(*in == 't' ? '\t' : *in == 'n' ? '\n' : *in == 'r' ? '\r' : *in);
        } else if (!*in)
            break;
        else
            *out++ = *in;
    }
    *next = *in && *in != '\n' ? at + (in - at) + 1 : NULL;
    *out = 0;
    return begin;
}

/* The line's fields in `fields`; false when it has another number of them. */
static bool split(char *line, bool tsv, char *fields[COLUMNS]) {
    char *next = line;
    int count = 0;
    while (next && count < COLUMNS)
        fields[count++] = take_field(next, tsv, &next);
    return count == COLUMNS && !next;
}

static bool take_int(const char *text, long lo, long hi, int *out) {
    long value;
    if (!parse_long(text, lo, hi, &value)) return false;
    *out = (int)value;
    return true;
}

static bool take_score(const char *text, float *out) {
    double value;
    if (!parse_double(text, 0, 1, &value)) return false;
    *out = (float)value;
    return true;
}

/* The first line of an image; what belongs to it alone is checked. */
static enum status take_line(struct predictions_reader *r, int classes, char *const f[COLUMNS]) {
    struct prediction *p = &r->last;
    const bool failed = strcmp(f[STATUS], "error") == 0;
    *p = (struct prediction){.path = f[PATH], .target = -1, .target_label = f[TARGET_LABEL]};
    if (!failed && strcmp(f[STATUS], "ok") != 0) return broken(r, "a status that is not known");
    if (failed) p->message = f[MESSAGE];
    if (f[TARGET][0] && !take_int(f[TARGET], 0, classes - 1, &p->target))
        return broken(r, "a target that is no class");
    if (failed) return ST_OK;
    if (strcmp(f[RANK], "1") != 0 || !take_int(f[INDEX], 0, classes - 1, &p->best) ||
        !take_score(f[SCORE], &p->confidence))
        return broken(r, "its first prediction is broken");
    if (p->target >= 0 && (!take_int(f[TARGET_RANK], 1, classes, &p->rank) ||
                           !take_score(f[TARGET_SCORE], &p->target_score)))
        return broken(r, "its target is broken");
    return ST_OK;
}

/* The lines behind the first: so many, each of the right rank. */
static enum status read_ranks(struct predictions_reader *r, bool *whole) {
    for (int rank = 2; rank <= r->topk; rank++) {
        const size_t at = r->used;
        char wanted[24], *fields[COLUMNS], *line;
        TRY(read_record(r, whole));
        if (!*whole) return ST_OK;
        line = str_copy(r->text + at);
        if (!line) return ST_NOMEM;
        snprintf(wanted, sizeof wanted, "%d", rank);
        const bool good = split(line, r->format == ROW_TSV, fields) &&
                          strcmp(fields[RANK], wanted) == 0 && strcmp(fields[STATUS], "ok") == 0;
        mem_free(line);
        if (!good) return broken(r, "lines are missing, or others lie between them");
    }
    return ST_OK;
}

static enum status read_lines(struct predictions_reader *r, int classes, bool *whole) {
    char *fields[COLUMNS];
    void *copy = r->fields;
    enum status st = mem_grow(&copy, &r->fields_capacity, r->used + 1, 1);
    r->fields = copy;
    if (st != ST_OK) return st;
    memcpy(r->fields, r->text, r->used + 1);
    if (!split(r->fields, r->format == ROW_TSV, fields))
        return broken(r, "a line without the 14 columns");
    TRY(take_line(r, classes, fields));
    return r->last.message ? ST_OK : read_ranks(r, whole);
}

/* ---- objects --------------------------------------------------------------------------------- */

static const char *text_of(const cJSON *object, const char *name) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

/* A whole number in [lo, hi]. */
static bool int_of(const cJSON *object, const char *name, int lo, int hi, int *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= lo && item->valuedouble <= hi) ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *out = (int)item->valuedouble;
    return true;
}

static bool score_of(const cJSON *object, const char *name, float *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 1)) return false;
    *out = (float)item->valuedouble;
    return true;
}

static enum status read_object(struct predictions_reader *r, int classes) {
    struct prediction *p = &r->last;
    const cJSON *first;
    cJSON_Delete(r->object);
    cJSON *o = cJSON_Parse(r->text);
    r->object = o;
    if (!cJSON_IsObject(o)) return broken(r, "a line that is no JSON object");
    const bool failed = strcmp(text_of(o, "status"), "error") == 0;
    *p = (struct prediction){.path = text_of(o, "path"),
                             .message = failed ? text_of(o, "message") : NULL,
                             .target = -1,
                             .target_label = text_of(o, "target_label")};
    if (!cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(o, "target")) &&
        !int_of(o, "target", 0, classes - 1, &p->target))
        return broken(r, "a target that is no class");
    if (failed) return ST_OK;
    first = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(o, "predictions"), 0);
    if (!int_of(first, "index", 0, classes - 1, &p->best) ||
        !score_of(first, "score", &p->confidence))
        return broken(r, "its first prediction is broken");
    if (p->target >= 0 && (!int_of(o, "target_rank", 1, classes, &p->rank) ||
                           !score_of(o, "target_score", &p->target_score)))
        return broken(r, "its target is broken");
    return ST_OK;
}

/* Whether the record at hand is the last line, which then has to be right. */
static enum status take_end(struct predictions_reader *r, bool *end) {
    const char *mark = r->format == ROW_JSONL ? object_end : table_end;
    const char *behind = r->format == ROW_JSONL ? "}\n" : " images\n";
    const size_t length = strlen(mark);
    char number[24];
    size_t digits;
    *end = false;
    if (strncmp(r->text, mark, length) != 0) return ST_OK;
    digits = strspn(r->text + length, "0123456789");
    if (strcmp(r->text + length + digits, behind) != 0) return ST_OK;
    *end = true;
    snprintf(number, sizeof number, "%zu", r->images);
    if (strlen(number) != digits || strncmp(r->text + length, number, digits) != 0)
        return fail(ST_FORMAT, "%s: its last line says %.*s images, %zu are there", r->path,
                    digits < 20 ? (int)digits : 20, r->text + length, r->images);
    if (getc(r->file) != EOF)
        return fail(ST_FORMAT, "%s: has lines behind the one that says its end", r->path);
    r->complete = true;
    r->used = 0;
    return ST_OK;
}

enum status predictions_read(struct predictions_reader *r, int classes,
                             const struct prediction **out) {
    bool whole = false, end = false;
    *out = NULL;
    r->used = 0;
    if (!r->head || r->complete) return ST_OK;
    TRY(read_record(r, &whole));
    if (whole) TRY(take_end(r, &end));
    if (end) return ST_OK;
    if (whole && r->format == ROW_JSONL)
        TRY(read_object(r, classes));
    else if (whole)
        TRY(read_lines(r, classes, &whole));
    r->cut = !whole && r->used > 0;
    if (!whole) return ST_OK;
    r->last.raw = r->text;
    r->last.raw_size = r->used;
    r->end += r->used;
    r->images++;
    *out = &r->last;
    return ST_OK;
}

/* ---- heads ----------------------------------------------------------------------------------- */

static enum status differ(const char *file, const cJSON *a, const cJSON *b, const char *name) {
    char *one = a ? cJSON_PrintUnformatted(a) : NULL, *other = b ? cJSON_PrintUnformatted(b) : NULL;
    enum status st = fail(ST_USAGE,
                          "%s: holds rows of another run: its %s is %.200s, here it is "
                          "%.200s",
                          file, name, one ? one : "not there", other ? other : "not there");
    cJSON_free(one);
    cJSON_free(other);
    return st;
}

enum status predictions_compare(const char *file, const char *head, const char *wanted) {
    cJSON *a = cJSON_Parse(head), *b = cJSON_Parse(wanted);
    const cJSON *item;
    enum status st = a && b ? ST_OK : fail(ST_FORMAT, "%s: its first line is broken", file);
    if (st == ST_OK) {
        cJSON_ArrayForEach(item, b) {
            const cJSON *other = cJSON_GetObjectItemCaseSensitive(a, item->string);
            if (st == ST_OK && !cJSON_Compare(item, other, true))
                st = differ(file, other, item, item->string);
        }
        cJSON_ArrayForEach(item, a) {
            if (st == ST_OK && !cJSON_GetObjectItemCaseSensitive(b, item->string))
                st = differ(file, item, NULL, item->string);
        }
    }
    cJSON_Delete(a);
    cJSON_Delete(b);
    return st;
}

/* ---- writing --------------------------------------------------------------------------------- */

static enum status cannot_write(const char *path) {
    return fail(ST_IO, "%s: cannot be written: %s", path, strerror(errno));
}

/* `file` as p's, cut off behind `end` bytes; what is no regular file is written from here on. */
static enum status take_file(struct predictions *p, int file, uint64_t end) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat info;
    if (fcntl(file, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN))
        return fail(ST_IO, "%s: is being written by another run", p->path);
    if (fstat(file, &info) != 0) return cannot_write(p->path);
    if (S_ISREG(info.st_mode) &&
        (ftruncate(file, (off_t)end) != 0 || lseek(file, (off_t)end, SEEK_SET) < 0))
        return cannot_write(p->path);
    p->file = fdopen(file, "r+b");
    return p->file ? ST_OK : cannot_write(p->path);
}

/* Opens the file, new or not, as its only writer. */
static enum status open_alone(struct predictions *p, const char *path, uint64_t end) {
    enum status st;
    int file;
    *p = (struct predictions){.path = path};
    TRY(predictions_format(path, &p->rows.format));
    /* A pipe that nobody reads must not be waited for. */
    file = open(path, O_RDWR | O_CREAT | O_NONBLOCK, 0666);
    if (file < 0) return cannot_write(path);
    st = take_file(p, file, end);
    if (st != ST_OK) close(file);
    return st;
}

enum status predictions_create(struct predictions *p, const char *path, const char *head) {
    TRY(open_alone(p, path, 0));
    if (p->rows.format == ROW_JSONL)
        fprintf(p->file, "%s%s}\n", object_mark, head);
    else
        fprintf(p->file, "%s%s\n", table_mark, head);
    rows_begin(&p->rows, p->file, p->rows.format, true);
    return predictions_flush(p);
}

enum status predictions_continue(struct predictions *p, const char *path, uint64_t end) {
    TRY(open_alone(p, path, end));
    p->rows.file = p->file;
    p->rows.targets = true;
    return ST_OK;
}

void predictions_end(struct predictions *p, uint64_t images) {
    if (p->rows.format == ROW_JSONL)
        fprintf(p->file, "%s%llu}\n", object_end, (unsigned long long)images);
    else
        fprintf(p->file, "%s%llu images\n", table_end, (unsigned long long)images);
}

enum status predictions_flush(struct predictions *p) {
    if (fflush(p->file) != 0 || ferror(p->file)) return cannot_write(p->path);
    return ST_OK;
}

enum status predictions_close(struct predictions *p, enum status done) {
    FILE *file = p->file;
    p->file = NULL;
    if (file && (fclose(file) != 0) && done == ST_OK) return cannot_write(p->path);
    return done;
}
