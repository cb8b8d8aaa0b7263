/*
 * download: a file from the web, resumable. Bytes go straight into the file, and what it is a part
 * of (address, size, the server's validators) into FILE.note beside it before the first byte, so
 * that an interrupted download goes on where it ended, and a file that changed meanwhile is begun
 * anew instead of being glued. Proxies by curl's environment variables.
 */
#ifndef WEIGHTS_DOWNLOAD_H
#define WEIGHTS_DOWNLOAD_H

#include "kernels/base.h"

struct download {
    const char *address;
    const char *path; /* the file, beside which path.note is kept */
    bool plain;       /* http:// is allowed, for the address and where it leads */
    bool verified;    /* a checksum will be compared: resume without the server's validators too */
    bool again;       /* a file that is whole already comes anew */
    double timeout;   /* seconds: for a connection, and between two bytes */
    int retries;      /* how often a cut connection that brought something is taken up again */
    uint64_t limit;   /* most bytes taken; 0: any */
    uint64_t room;    /* bytes that must be free on the disk beside the file's own */
    void (*progress)(void *context, uint64_t done, uint64_t total); /* total 0: unknown; or NULL */
    void *context;
};

struct download_result {
    uint64_t size;      /* of the whole file */
    uint64_t kept;      /* bytes that were there before */
    int answer;         /* the server's last status; 0: it was not asked, or said nothing */
    bool changed;       /* there was a part, but of another file: begun anew */
    char announced[65]; /* the SHA-256 that the model hub says (X-Linked-Etag), or "" */
};

/*
 * ST_USAGE: an address that is none, or http:// where it is not allowed. ST_IO: names the address
 * and what went wrong; what came so far is kept when it can be taken up.
 */
enum status download_get(const struct download *download, struct download_result *out) MUST_CHECK;

/* Removes the note; with `all` the file too. */
void download_forget(const char *path, bool all);

#endif
