/*
 * cuda_tuning: what was the fastest, by timing, kept between runs in
 *
 *   $XDG_CACHE_HOME/vitrine (else ~/.cache/vitrine) / tuning-DEVICE.txt
 *
 * One row a shape: its kind (0 product, 1 attention, 2 embedding), the library's version, sixteen
 * numbers of the shape, then eight words in hexadecimal: a product's algorithm as cuBLASLt has it;
 * for the others what cuda_choice says. Written beside and renamed. It is a cache: what cannot be
 * read or written is done without, and what was read is asked of the library before it is used.
 */
#include "kernels/cuda_backend.cuh"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS_MOST = 4096, TEXT_MOST = 2 << 20, ROW_TEXT = 512, TIMED_RUNS = 3 };

static const char heading[] = "vitrine tuning 1\n";

/* ---- where ----------------------------------------------------------------------------------- */

/* Letters and digits of a device's name, the rest as '-'. */
static void plain_name(const char *name, char *out, size_t size) {
    size_t i = 0;
    for (; name[i] && i + 1 < size; i++) {
        char c = name[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        out[i] = plain ? c : '-';
    }
    out[i] = 0;
}

void tuning_open(struct cuda *cuda, const char *device_name) {
    const char *off = getenv("VITRINE_NO_AUTOTUNE"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    struct tuning *tuning = &cuda->tuning;
    char name[96];
    plain_name(device_name, name, sizeof name);
    tuning->off = off != NULL && strcmp(off, "1") == 0;
    if (tuning->off) return;
    if (cache != NULL && cache[0] == '/')
        tuning->path = str_format("%s/vitrine/tuning-%s.txt", cache, name);
    else if (home != NULL && home[0] == '/')
        tuning->path = str_format("%s/.cache/vitrine/tuning-%s.txt", home, name);
}

/* The folders above the file; what is there already is no fault. */
static void make_folders(const char *path) {
    char *folder = str_copy(path);
    for (char *at = folder; folder != NULL && (at = strchr(at + 1, '/')) != NULL;) {
        *at = 0;
        (void)mkdir(folder, 0700);
        *at = '/';
    }
    mem_free(folder);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Cuts the next word off *text; NULL at the line's end. */
static char *next_word(char **text) {
    char *word = *text;
    size_t length = strcspn(word, " ");
    if (length == 0) return NULL;
    *text = word + length + (word[length] == ' ');
    word[length] = 0;
    return word;
}

static bool parse_hex(const char *word, uint64_t *out) {
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;
    size_t i = 0;
    for (; word[i]; i++) {
        const char *at = strchr(digits, word[i]);
        if (at == NULL || i == 16) return false;
        value = value << 4 | (uint64_t)(at - digits);
    }
    *out = value;
    return i > 0;
}

static bool parse_number(const char *word, int64_t *out) {
    long value;
    if (word == NULL || !parse_long(word, 0, INT64_MAX, &value)) return false;
    *out = value;
    return true;
}

/* One line without its end; false: it is no row. The text is cut up. */
static bool parse_row(char *line, struct tuning_row *row) {
    if (!parse_number(next_word(&line), &row->key.kind) ||
        !parse_number(next_word(&line), &row->key.version))
        return false;
    for (int i = 0; i < TUNED_NUMBERS; i++)
        if (!parse_number(next_word(&line), &row->key.numbers[i])) return false;
    for (int i = 0; i < TUNED_WORDS; i++) {
        char *word = next_word(&line);
        if (word == NULL || !parse_hex(word, &row->words[i])) return false;
    }
    return *line == 0;
}

/* Of too many the oldest goes. */
static bool add_row(struct tuning *tuning, const struct tuning_row *row) {
    if (tuning->count == ROWS_MOST) {
        memmove(tuning->rows, tuning->rows + 1, --tuning->count * sizeof *tuning->rows);
    } else if (mem_grow((void **)&tuning->rows, &tuning->capacity, tuning->count + 1,
                        sizeof *tuning->rows) != ST_OK) {
        return false;
    }
    tuning->rows[tuning->count++] = *row;
    return true;
}

/* Text of another kind is left alone: the next write replaces it. */
static void parse_text(struct tuning *tuning, char *text) {
    struct tuning_row row;
    if (strncmp(text, heading, sizeof heading - 1) != 0) return;
    for (char *line = text + sizeof heading - 1; *line;) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n');
        line[length] = 0;
        if (parse_row(line, &row) && !add_row(tuning, &row)) return;
        line = next;
    }
}

static void read_rows(struct tuning *tuning) {
    uint8_t *bytes = NULL;
    char *text;
    size_t size;
    tuning->read = true;
    if (tuning->path == NULL || file_read(tuning->path, TEXT_MOST, &bytes, &size) != ST_OK) return;
    text = (char *)mem_zalloc(size + 1, 1);
    if (text != NULL) {
        memcpy(text, bytes, size);
        parse_text(tuning, text);
    }
    mem_free(text);
    mem_free(bytes);
}

static struct tuning_row *find(struct tuning *tuning, const struct tuning_key *key) {
    for (size_t i = tuning->count; i-- > 0;) /* the newest counts */
        if (memcmp(&tuning->rows[i].key, key, sizeof *key) == 0) return &tuning->rows[i];
    return NULL;
}

const struct tuning_row *tuning_find(struct tuning *tuning, const struct tuning_key *key) {
    if (tuning->off) return NULL;
    if (!tuning->read) read_rows(tuning);
    return find(tuning, key);
}

void tuning_keep(struct tuning *tuning, const struct tuning_row *row) {
    struct tuning_row *there = find(tuning, &row->key);
    if (there != NULL) *there = *row;
    tuning->changed |= there != NULL || add_row(tuning, row);
}

/* ---- writing --------------------------------------------------------------------------------- */

static size_t format_row(const struct tuning_row *row, char *text, size_t size) {
    const struct tuning_key *key = &row->key;
    size_t used =
        (size_t)snprintf(text, size, "%lld %lld ", (long long)key->kind, (long long)key->version);
    for (int i = 0; i < TUNED_NUMBERS && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%lld ", (long long)key->numbers[i]);
    for (int i = 0; i < TUNED_WORDS && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%llx%c", (unsigned long long)row->words[i],
                             i + 1 < TUNED_WORDS ? ' ' : '\n');
    return used < size ? used : 0;
}

static bool write_all(int file, const char *text, size_t size) {
    while (size > 0) {
        ssize_t put = write(file, text, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        text += put;
        size -= (size_t)put;
    }
    return true;
}

static bool write_rows(const struct tuning *tuning, int file) {
    char text[ROW_TEXT];
    bool good = write_all(file, heading, sizeof heading - 1);
    for (size_t i = 0; good && i < tuning->count; i++) {
        size_t size = format_row(&tuning->rows[i], text, sizeof text);
        good = size > 0 && write_all(file, text, size);
    }
    return good;
}

void tuning_write(struct tuning *tuning) {
    char *beside;
    bool good;
    int file;
    if (tuning->off || !tuning->changed || tuning->path == NULL) return;
    tuning->changed = false;
    make_folders(tuning->path);
    beside = str_format("%s.XXXXXX", tuning->path);
    if (beside == NULL) return;
    file = mkstemp(beside);
    if (file >= 0) {
        good = write_rows(tuning, file);
        good = close(file) == 0 && good;
        if (!good || rename(beside, tuning->path) != 0) (void)unlink(beside);
    }
    mem_free(beside);
}

void tuning_release(struct tuning *tuning) {
    mem_free(tuning->path);
    mem_free(tuning->rows);
    memset(tuning, 0, sizeof *tuning);
}

/* ---- timing ---------------------------------------------------------------------------------- */

static float time_between(struct cuda *cuda, enum status (*run)(struct cuda *, const void *),
                          const void *call, cudaEvent_t start, cudaEvent_t end) {
    float milliseconds = -1;
    if (run(cuda, call) != ST_OK || cudaEventRecord(start, cuda->compute) != cudaSuccess) return -1;
    for (int i = 0; i < TIMED_RUNS; i++)
        if (run(cuda, call) != ST_OK) return -1;
    if (cudaEventRecord(end, cuda->compute) != cudaSuccess ||
        cudaEventSynchronize(end) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, start, end) != cudaSuccess)
        return -1;
    return milliseconds / TIMED_RUNS;
}

float tuning_time(struct cuda *cuda, enum status (*run)(struct cuda *cuda, const void *call),
                  const void *call) {
    cudaEvent_t start = NULL, end = NULL;
    float milliseconds = -1;
    if (cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess)
        milliseconds = time_between(cuda, run, call, start, end);
    (void)cudaStreamSynchronize(cuda->compute);
    (void)cudaGetLastError();
    if (start != NULL) (void)cudaEventDestroy(start);
    if (end != NULL) (void)cudaEventDestroy(end);
    return milliseconds;
}
