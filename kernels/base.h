/*
 * base: status codes, the one error sentence, checked sizes, memory, text and number parsing.
 *
 * Every fallible function of the tree returns `enum status`. The function that notices a fault
 * writes one sentence with fail() - file, thing, found, expected - and returns its status;
 * everybody above forwards it with TRY(). The sentence is kept per thread until the next fail() of
 * that thread.
 */
#ifndef KERNELS_BASE_H
#define KERNELS_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum status {
    ST_OK = 0,
    ST_USAGE,  /* the caller asked for something that cannot be: a wrong option or argument */
    ST_IO,     /* a file could not be opened, read or written */
    ST_FORMAT, /* bytes from outside are not what they claim to be */
    ST_SHAPE,  /* a tensor is missing, extra, or of another shape or type */
    ST_NOMEM,  /* memory could not be had, or a size is beyond its limit */
    ST_DEVICE  /* the device or one of its libraries refused */
};

#if defined(__GNUC__)
#define MUST_CHECK              __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define MUST_CHECK
#define PRINTF_LIKE(fmt, first)
#endif

/* Forwards a failure of `expr` to the caller. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        enum status try_status_ = (expr);                                                          \
        if (try_status_ != ST_OK) return try_status_;                                              \
    } while (0)

/* The same inside a function that owns things: sets the local `st` and goes to its `out:` label. */
#define TRY_OUT(expr)                                                                              \
    do {                                                                                           \
        st = (expr);                                                                               \
        if (st != ST_OK) goto out;                                                                 \
    } while (0)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Writes this thread's sentence (cut at 1023 bytes) and returns `st`. */
enum status fail(enum status st, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Puts "prefix: " in front of this thread's sentence, for a caller who knows the file's name. */
enum status fail_prefix(enum status st, const char *prefix);

/* This thread's last sentence; "" before the first. Valid until the next fail() of the thread. */
const char *fail_message(void);

/* "input/output", "format", ... for the sentence-less reader of a status. */
const char *status_name(enum status st);

/* *out = a*b or a+b; false, *out untouched, when it does not fit. */
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);

/*
 * Heap memory, for what is not in an arena. count*size is checked; zeroed; NULL only with fail()
 * called. mem_grow changes *ptr (an array of *capacity elements) to hold at least `need`, doubling;
 * new elements are zeroed. mem_free(NULL) is nothing.
 */
void *mem_zalloc(size_t count, size_t size);
enum status mem_grow(void **ptr, size_t *capacity, size_t need, size_t size) MUST_CHECK;
void mem_free(void *ptr);
char *str_copy(const char *text);
char *str_format(const char *fmt, ...) PRINTF_LIKE(1, 2);

/*
 * Bytes of the well-formed UTF-8 character at `text` (RFC 3629), of which `left` may be looked at;
 * 0 when there is none. A NUL is a character, of one byte.
 */
size_t utf8_length(const void *text, size_t left);
bool utf8_is(const char *text); /* whether all of it is */
/* The same, 0 for control characters (U+0000 to U+001F, U+007F to U+009F) too. */
size_t utf8_printable(const void *text, size_t left);
bool utf8_is_line(const char *text); /* whether all of it is, and it is not empty */
/*
 * A name from outside as a line that can be shown and stored: control characters and bytes that are
 * no UTF-8 become \xNN. In fresh memory.
 */
char *str_printable(const char *text);

/*
 * A list inside a sentence: "a, b, c and 12 more". Starts zeroed, or with the most items that are
 * to be shown (0: as many as fit).
 */
struct word_list {
    size_t most, shown, left, used;
    char text[600];
};
void word_list_add(struct word_list *list, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Ends the list; "" when nothing was added. */
const char *word_list_text(struct word_list *list);

/*
 * Numbers are parsed whole: the text must be one number and nothing else (no blanks, no trailing
 * letters), inside [lo, hi]; else false and *out untouched. parse_double takes no inf, nan or hex.
 */
bool parse_long(const char *text, long lo, long hi, long *out);
bool parse_double(const char *text, double lo, double hi, double *out);

/* In [0, 1), the same numbers for the same first state. */
double random_share(uint64_t *state);

/*
 * A whole file ("-": standard input) into fresh memory (*bytes, to be mem_free'd); refused by name
 * above `limit` bytes.
 */
enum status file_read(const char *path, size_t limit, uint8_t **bytes, size_t *size) MUST_CHECK;
/* The same of a regular file alone: a pipe could make the reader wait for ever. */
enum status file_read_regular(const char *path, size_t limit, uint8_t **bytes,
                              size_t *size) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
