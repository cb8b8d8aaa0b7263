/*
 * inputs: the PATH arguments of a command, expanded to the images they stand for, in order.
 *
 *   FILE     itself, whatever its name says
 *   FOLDER   every regular file below it whose suffix is one of image_suffixes (case ignored),
 *            sorted bytewise by path; hidden files and folders (.name) are passed over; links are
 *            followed, but for a link to a folder that it lies in
 *   -        one image on standard input (./- is a file of that name)
 *   @LIST    a text file, a FILE or FOLDER a line (LF or CRLF), relative to the current folder; @-
 *            is a list on standard input (./@x is a file of that name)
 *
 * What cannot be expanded (a folder that cannot be opened, or that holds no image) stays as an
 * entry with its reason, so that it gets its row in its place. Files are not opened here.
 */
#ifndef DATASETS_INPUTS_H
#define DATASETS_INPUTS_H

#include <sys/types.h>

#include "kernels/base.h"

struct input_entry {
    size_t name;   /* offset into text */
    size_t error;  /* offset into text of the reason; 0 = none */
    size_t folder; /* offset into text of what stands before the name; 0 = nothing */
};

/* A million paths cost about 24 bytes each and their names: folders are stored once. */
struct inputs {
    struct input_entry *entries; /* (count) */
    size_t count, capacity;
    char *text; /* zero-terminated pieces */
    size_t text_used, text_capacity;
    bool stdin_taken;
    size_t next; /* where the one who walks through them is */
    /* (link_count) the folders reached through a link, while they are expanded */
    struct input_link {
        dev_t device;
        ino_t number;
    } * links;
    size_t link_count, link_capacity;
};

/* ST_USAGE: standard input named twice. ST_NOMEM. */
enum status inputs_open(struct inputs *inputs, char *const *args, int count) MUST_CHECK;
void inputs_release(struct inputs *inputs); /* works on a zeroed struct, and twice */

/* One entry more, as it is; with its reason when it is known to have failed, else NULL. */
enum status inputs_add(struct inputs *inputs, const char *path, const char *error) MUST_CHECK;

/* The path in memory of its own (mem_free), NULL without memory; *error = the reason, or NULL. */
char *inputs_path(const struct inputs *inputs, size_t index, const char **error);

/* Whether a file's name ends like an image's; the suffixes, ends with NULL. */
bool inputs_suffix_known(const char *name);
extern const char *const image_suffixes[];

#endif
