/* sha256: see sha256.h; OpenSSL's libcrypto does the work (and uses the CPU's SHA instructions). */
#include "weights/sha256.h"

#include <openssl/evp.h>

enum status sha256_runs(const struct sha256_run *runs, size_t count, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool done = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; done && i < count; i++)
        done = EVP_DigestUpdate(context, runs[i].bytes, runs[i].size) == 1;
    done = done && EVP_DigestFinal_ex(context, hash, &length) == 1 && length == 32;
    EVP_MD_CTX_free(context);
    if (!done) return fail(ST_NOMEM, "libcrypto could not compute a SHA-256");
    for (unsigned int i = 0; i < length; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    hex[64] = '\0';
    return ST_OK;
}

enum status sha256_hex(const void *bytes, size_t size, char hex[65]) {
    const struct sha256_run run = {bytes, size};
    return sha256_runs(&run, 1, hex);
}
