/* checkpoint_kind: see checkpoint_kind.h. */
#include "weights/checkpoint_kind.h"

#include <string.h>

#include "weights/keras.h"

#define OLD_PICKLE "protocol 0 or 1; save it again with torch's own protocol"
#define TEXT_BYTES 1024 /* looked at */

/* What else a file may be: bytes at an offset. Order: the longer marks first. */
static const struct {
    size_t offset, length;
    const char *mark, *what;
} foreign[] = {
    {0, 8, "\x89HDF\r\n\x1a\n", NULL}, /* looked into below, as is a zip */
    {0, 4, "PK\x03\x04", NULL},
    {0, 4, "PK\x05\x06", "an empty zip archive"},
    {0, 26, "L119547037146038801333356L", "a PyTorch file pickled with " OLD_PICKLE},
    {0, 12, "ccollections", "a Python pickle of " OLD_PICKLE},
    {0, 8, "ccopy_re", "a Python pickle of " OLD_PICKLE},
    {0, 3, "(dp", "a Python pickle of " OLD_PICKLE},
    {0, 3, "(lp", "a Python pickle of " OLD_PICKLE},
    {0, 2, "}q", "a Python pickle of " OLD_PICKLE},
    {0, 2, "]q", "a Python pickle of " OLD_PICKLE},
    {0, 2, "\x80\x02", "a Python pickle, and none of torch.save"},
    {0, 2, "\x80\x03", "a Python pickle, and none of torch.save"},
    {0, 2, "\x80\x04", "a Python pickle, and none of torch.save"},
    {0, 2, "\x80\x05", "a Python pickle, and none of torch.save"},
    {0, 6, "\x93NUMPY", "one NumPy array (.npy) without a name; a checkpoint is an .npz"},
    {0, 24, "version https://git-lfs.",
     "a Git LFS pointer: the weights themselves were not downloaded (git lfs pull)"},
    {0, 4, "GGUF", "a GGUF file"},
    {0, 2, "\x1f\x8b", "gzip-compressed"},
    {0, 4, "\x89PNG", "a PNG picture"},
    {0, 3, "\xff\xd8\xff", "a JPEG picture"},
    {0, 9, "<!DOCTYPE", "an HTML page: the download gave a page and not the file"},
    {0, 9, "<!doctype", "an HTML page: the download gave a page and not the file"},
    {0, 5, "<html", "an HTML page: the download gave a page and not the file"},
    {0, 1, "<", "XML or HTML text"},
    {257, 5, "ustar",
     "a tar archive: unpack it; or, of torch before 0.1.10, load and save it with a newer one"},
};

static const char npz_kind[] = "a NumPy archive (.npz)";
static const char keras_kind[] = "a Keras archive (.keras)";

static bool contains(const uint8_t *bytes, size_t size, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++) {
        const uint8_t *hit = memchr(bytes + i, word[0], size - length + 1 - i);
        if (!hit) return false;
        i = (size_t)(hit - bytes);
        if (memcmp(hit, word, length) == 0) return true;
    }
    return false;
}

/* A zip's central directory, with the names, is at its end. */
static const char *zip_kind(const uint8_t *bytes, size_t size) {
    size_t tail = size > 1 << 20 ? 1 << 20 : size;
    if (contains(bytes + size - tail, tail, ".npy")) return npz_kind;
    if (contains(bytes + size - tail, tail, "model.weights.h5")) return keras_kind;
    return "a zip archive";
}

/* Letters, and what lays them out; weights have zeros and other control characters among them. */
static bool is_text(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size && i < TEXT_BYTES; i++) {
        if ((bytes[i] < ' ' && (!bytes[i] || !strchr("\t\n\r\f", bytes[i]))) || bytes[i] == 0x7f)
            return false;
    }
    return size >= 8;
}

const char *checkpoint_kind(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < COUNT_OF(foreign); i++) {
        if (size < foreign[i].offset + foreign[i].length) continue;
        if (memcmp(bytes + foreign[i].offset, foreign[i].mark, foreign[i].length) != 0) continue;
        if (foreign[i].what) return foreign[i].what;
        return bytes[0] == 'P' ? zip_kind(bytes, size) : keras_foreign(bytes, size);
    }
    if (size > 1 && (bytes[0] == '{' || bytes[0] == '[') && (size < 9 || bytes[8] != '{'))
        return "JSON text";
    return is_text(bytes, size) ? "a text file" : NULL;
}

bool checkpoint_kind_is_npz(const uint8_t *bytes, size_t size) {
    return bytes[0] == 'P' && checkpoint_kind(bytes, size) == npz_kind;
}

bool checkpoint_kind_is_keras(const uint8_t *bytes, size_t size) {
    return bytes[0] == 'P' && checkpoint_kind(bytes, size) == keras_kind;
}
