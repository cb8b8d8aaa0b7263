/* sha256: see sha256.h; OpenSSL's libcrypto does the work (and uses the CPU's SHA instructions). */
#include "weights/sha256.h"

#include <openssl/evp.h>

enum status sha256_hex(const void *bytes, size_t size, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (EVP_Digest(bytes, size, hash, &length, EVP_sha256(), NULL) != 1 || length != 32)
        return fail(ST_NOMEM, "libcrypto could not compute a SHA-256");
    for (unsigned int i = 0; i < length; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    hex[64] = '\0';
    return ST_OK;
}
