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

static void to_hex(const unsigned char hash[32], char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    hex[64] = '\0';
}

enum status sha256_hex(const void *bytes, size_t size, char hex[65]) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (EVP_Digest(bytes, size, hash, &length, EVP_sha256(), NULL) != 1 || length != 32)
        return no_hash();
    to_hex(hash, hex);
    return ST_OK;
}

static enum status digest_file(int fd, const char *path, EVP_MD_CTX *digest, uint8_t *chunk) {
    ssize_t count;
    if (EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1) return no_hash();
    while ((count = read(fd, chunk, CHUNK)) != 0) {
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return fail(ST_IO, "%s: %s", path, strerror(errno));
        if (EVP_DigestUpdate(digest, chunk, (size_t)count) != 1) return no_hash();
    }
    return ST_OK;
}

enum status sha256_file(const char *path, char hex[65]) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *digest = NULL;
    uint8_t *chunk = NULL;
    enum status st = ST_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(ST_IO, "%s: %s", path, strerror(errno));
    digest = EVP_MD_CTX_new();
    chunk = mem_zalloc(CHUNK, 1);
    if (!digest || !chunk) st = ST_NOMEM;
    if (st == ST_OK) st = digest_file(fd, path, digest, chunk);
    if (st == ST_OK && EVP_DigestFinal_ex(digest, hash, NULL) != 1) st = no_hash();
    if (st == ST_OK) to_hex(hash, hex);
    EVP_MD_CTX_free(digest);
    mem_free(chunk);
    close(fd);
    return st;
}
