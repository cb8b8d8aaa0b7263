/* dataset_gunzip: see dataset_gunzip.h. */
#include "datasets/dataset_gunzip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { BLOCK = 64 << 10, GZIP_ONLY = 15 + 16 }; /* zlib's window bits with gzip's checksums */

struct gunzip {
    FILE *file;
    z_stream stream;
    bool inside; /* of a member */
    bool first;  /* member */
    bool ended;
    bool damaged; /* told by the call behind the last good bytes */
    uint8_t in[BLOCK], out[BLOCK];
};

enum status gunzip_open(const char *path, struct gunzip **out) {
    uint8_t magic[2] = {0};
    struct gunzip *g;
    struct stat info;
    FILE *file;
    *out = NULL;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return ST_OK;
    file = fopen(path, "rb");
    if (!file) return fail(ST_IO, "%s", strerror(errno));
    if (fread(magic, 1, 2, file) != 2 || magic[0] != 0x1f || magic[1] != 0x8b) {
        fclose(file);
        return ST_OK;
    }
    rewind(file);
    g = mem_zalloc(1, sizeof *g);
    if (!g || inflateInit2(&g->stream, GZIP_ONLY) != Z_OK) {
        fclose(file);
        mem_free(g);
        return fail(ST_NOMEM, "no memory to unpack it");
    }
    g->file = file;
    g->first = true;
    *out = g;
    return ST_OK;
}

void gunzip_close(struct gunzip *g) {
    if (!g) return;
    inflateEnd(&g->stream);
    fclose(g->file);
    mem_free(g);
}

/* More input when there is none; at the end of the file `ended`, which may be too early. */
static enum status fill(struct gunzip *g) {
    if (g->stream.avail_in > 0) return ST_OK;
    g->stream.next_in = g->in;
    g->stream.avail_in = (uInt)fread(g->in, 1, sizeof g->in, g->file);
    if (ferror(g->file)) return fail(ST_IO, "%s", strerror(errno));
    g->ended = g->stream.avail_in == 0;
    return g->ended && g->inside ? fail(ST_FORMAT, "gzip: ends early") : ST_OK;
}

enum status gunzip_read(struct gunzip *g, const uint8_t **bytes, size_t *size) {
    int result;
    *size = 0;
    *bytes = g->out;
    while (*size == 0 && !g->ended && !g->damaged) {
        TRY(fill(g));
        if (!g->inside && !g->ended && !g->first && g->stream.next_in[0] != 0x1f) g->ended = true;
        if (g->ended) break;
        g->inside = true;
        g->stream.next_out = g->out;
        g->stream.avail_out = sizeof g->out;
        result = inflate(&g->stream, Z_NO_FLUSH);
        *size = sizeof g->out - g->stream.avail_out;
        if (result == Z_STREAM_END) {
            g->inside = g->first = false;
            result = inflateReset(&g->stream);
        }
        g->damaged = result != Z_OK && result != Z_BUF_ERROR;
    }
    if (*size > 0 || !g->damaged) return ST_OK;
    return fail(ST_FORMAT, "gzip: %s", g->stream.msg ? g->stream.msg : "is damaged");
}
