/* image_unknown: says what bytes look like that are no picture this program knows. */
#include "datasets/image_decoders.h"

#include <string.h>

struct look {
    size_t offset;
    const char *magic;
    size_t length;
    const char *name;
};

static const struct look looks[] = {
    {0, "\x1F\x8B", 2, "gzip-compressed data"},
    {0, "PK\x03\x04", 4, "a zip archive"},
    {0, "PK\x05\x06", 4, "an empty zip archive"},
    {0, "7z\xBC\xAF\x27\x1C", 6, "a 7-zip archive"},
    {0, "Rar!\x1A\x07", 6, "a rar archive"},
    {0,
     "\xFD"
     "7zXZ",
     6, "xz-compressed data"},
    {0, "BZh", 3, "bzip2-compressed data"},
    {0, "\x28\xB5\x2F\xFD", 4, "zstd-compressed data"},
    {257, "ustar", 5, "a tar archive"},
    {0, "%PDF-", 5, "a PDF document"},
    {0, "%!PS", 4, "a PostScript document"},
    {0, "version https://git-lfs", 23, "a Git LFS pointer: the image itself was not fetched"},
    {0, "\x89HDF\r\n\x1A\n", 8, "an HDF5 file"},
    {0, "\x93NUMPY", 6, "a NumPy array"},
    {0,
     "\x7F"
     "ELF",
     4, "a program (ELF)"},
    {0, "\xFF\x0A", 2, "a JPEG XL image, which is not read here"},
    {0, "\0\0\0\x0CJXL \r\n\x87\n", 12, "a JPEG XL image, which is not read here"},
    {0, "\0\0\0\x0CjP  \r\n\x87\n", 12, "a JPEG 2000 image, which is not read here"},
    {0, "\xFF\x4F\xFF\x51", 4, "a JPEG 2000 image, which is not read here"},
    {0, "\0\0\1\0", 4, "an icon (ico), which is not read here"},
    {0, "\0\0\2\0", 4, "a cursor (cur), which is not read here"},
    {0, "icns", 4, "an icon (icns), which is not read here"},
    {0, "qoif", 4, "a QOI image, which is not read here"},
    {0, "DDS ", 4, "a DDS texture, which is not read here"},
    {0, "\x76\x2F\x31\x01", 4, "an OpenEXR image, which is not read here"},
    {0, "#?RADIANCE", 10, "a Radiance HDR image, which is not read here"},
    {0, "SIMPLE  =", 9, "a FITS image, which is not read here"},
    {128, "DICM", 4, "a DICOM image, which is not read here"},
    {0, "P7\n", 3, "a PAM image (P7), which is not read here"},
    {0, "Pf", 2, "a floating-point PFM image, which is not read here"},
    {0, "PF", 2, "a floating-point PFM image, which is not read here"},
    {4, "ftyp", 4, "a video (MP4 or QuickTime)"},
    {0, "\x1A\x45\xDF\xA3", 4, "a video (Matroska or WebM)"},
    {0, "RIFF", 4, "a RIFF file (sound or video)"},
    {0, "ID3", 3, "a sound file (MP3)"},
    {0, "OggS", 4, "a sound or video file (Ogg)"},
};

/* Does `word` (lower case) stand in the first bytes, whatever their case? */
static bool text_has(const uint8_t *bytes, size_t size, const char *word) {
    size_t length = strlen(word), window = size < 512 ? size : 512;
    for (size_t at = 0; at + length <= window; at++) {
        size_t i = 0;
        while (i < length &&
               (bytes[at + i] >= 'A' && bytes[at + i] <= 'Z' ? bytes[at + i] + ('a' - 'A')
                                                             : bytes[at + i]) == word[i])
            i++;
        if (i == length) return true;
    }
    return false;
}

/* Printable ASCII, blanks and UTF-8's high bytes only. */
static bool text_like(const uint8_t *bytes, size_t size) {
    size_t window = size < 512 ? size : 512;
    for (size_t i = 0; i < window; i++)
        if ((bytes[i] < 0x20 && !(bytes[i] >= '\t' && bytes[i] <= '\r')) || bytes[i] == 0x7F ||
            bytes[i] >= 0xF8)
            return false;
    return true;
}

static bool all_zero(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bytes[i]) return false;
    return true;
}

static const char *look_of(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < COUNT_OF(looks); i++)
        if (image_bytes_at(bytes, size, looks[i].offset, looks[i].magic, looks[i].length))
            return looks[i].name;
    if (text_like(bytes, size)) {
        if (text_has(bytes, size, "<svg")) return "an SVG drawing, which is not read here";
        if (text_has(bytes, size, "<html") || text_has(bytes, size, "<!doctype html"))
            return "an HTML page (a failed download?)";
        if (bytes[0] == '{' || bytes[0] == '[') return "JSON text";
        if (text_has(bytes, size, "<?xml")) return "XML text";
        return "text";
    }
    return all_zero(bytes, size) ? "zero bytes only" : "none of the image kinds known here";
}

void image_printable(char *text) {
    for (; *text; text++)
        if (*text < 0x20 || *text >= 0x7F) *text = '?';
}

enum status image_unknown(const uint8_t *bytes, size_t size) {
    char first[3 * 8 + 1] = "";
    static const char digits[] = "0123456789abcdef";
    size_t shown = size < 8 ? size : 8;
    if (size == 0) return fail(ST_FORMAT, "not an image: the file is empty");
    for (size_t i = 0; i < shown; i++) {
        first[3 * i] = ' ';
        first[3 * i + 1] = digits[bytes[i] >> 4];
        first[3 * i + 2] = digits[bytes[i] & 15];
        first[3 * i + 3] = 0;
    }
    return fail(ST_FORMAT, "not an image: %s (%zu bytes, beginning%s)", look_of(bytes, size), size,
                first);
}
