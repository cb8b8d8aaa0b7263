/* sha256: see sha256.h; OpenSSL's libcrypto does the work (and uses the CPU's SHA instructions). */
#include "weights/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)

static enum status no_hash(void) {
    return fail(ST_NOMEM, "libcrypto could not compute a SHA-256");
}

static enum status begin(EVP_MD_CTX **out) {
    *out = EVP_MD_CTX_new();
    return *out && EVP_DigestInit_ex(*out, EVP_sha256(), NULL) == 1 ? ST_OK : no_hash();
}

static enum status add(EVP_MD_CTX *digest, const void *bytes, size_t size) {
    return EVP_DigestUpdate(digest, bytes, size) == 1 ? ST_OK : no_hash();
}

/* Frees the digest; its text, if all went well so far. */
static enum status end(EVP_MD_CTX *digest, enum status st, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE];
    if (st == ST_OK && EVP_DigestFinal_ex(digest, hash, NULL) != 1) st = no_hash();
    EVP_MD_CTX_free(digest);
    if (st != ST_OK) return st;
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    hex[64] = '\0';
    return ST_OK;
}

enum status sha256_runs(const struct sha256_run *runs, size_t count, char hex[65]) {
    EVP_MD_CTX *digest;
    enum status st = begin(&digest);
    for (size_t i = 0; st == ST_OK && i < count; i++)
        st = add(digest, runs[i].bytes, runs[i].size);
    return end(digest, st, hex);
}

enum status sha256_hex(const void *bytes, size_t size, char hex[65]) {
    const struct sha256_run run = {bytes, size};
    return sha256_runs(&run, 1, hex);
}

static enum status add_file(EVP_MD_CTX *digest, int fd, const char *path, uint8_t *chunk) {
    ssize_t count;
    while ((count = read(fd, chunk, CHUNK)) != 0) {
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail(ST_IO, "%s: %s", path, strerror(errno));
        TRY(add(digest, chunk, (size_t)count));
    }
    return ST_OK;
}

enum status sha256_file(const char *path, char hex[65]) {
    EVP_MD_CTX *digest = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *chunk = mem_zalloc(CHUNK, 1);
    enum status st = chunk ? ST_OK : ST_NOMEM;
    if (st == ST_OK && fd < 0) st = fail(ST_IO, "%s: %s", path, strerror(errno));
    if (st == ST_OK) st = begin(&digest);
    if (st == ST_OK) st = add_file(digest, fd, path, chunk);
    st = end(digest, st, hex);
    mem_free(chunk);
    if (fd >= 0) close(fd);
    return st;
}
