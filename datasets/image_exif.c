/* image_exif: the one EXIF tag that changes the picture, its orientation. See image_decoders.h. */
#include "datasets/image_decoders.h"

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT      3

static uint32_t number16(const uint8_t *p, bool little) {
    return little ? image_le16(p) : image_be16(p);
}

static uint32_t number32(const uint8_t *p, bool little) {
    return little ? image_le32(p) : image_be32(p);
}

/*
 * TIFF header: byte order (2), 42 (2), offset of the first directory (4). Directory: count (2),
 * then entries of 12 bytes: tag (2), type (2), count (4), value (4), the value left-justified.
 */
int image_exif_orientation(const uint8_t *exif, size_t size) {
    bool little;
    size_t at, count;
    if (image_bytes_at(exif, size, 0, "Exif\0\0", 6)) {
        exif += 6;
        size -= 6;
    }
    if (size < 8) return 1;
    little = image_bytes_at(exif, size, 0, "II*\0", 4);
    if (!little && !image_bytes_at(exif, size, 0, "MM\0*", 4)) return 1;
    at = number32(exif + 4, little);
    if (at > size - 2) return 1;
    count = number16(exif + at, little);
    at += 2;
    for (size_t i = 0; i < count && at <= size && size - at >= 12; i++, at += 12) {
        uint32_t value = number16(exif + at + 8, little);
        if (number16(exif + at, little) != TAG_ORIENTATION) continue;
        if (number16(exif + at + 2, little) != TYPE_SHORT) return 1;
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Segments: FF, marker, length (2, itself counted), bytes. The first scan (DA) ends the search. */
int image_exif_jpeg(const uint8_t *bytes, size_t size) {
    size_t at = 2;
    while (at <= size && size - at >= 4) {
        size_t length;
        if (bytes[at] != 0xFF) return 1;
        if (bytes[at + 1] == 0xFF) { /* fill byte */
            at++;
            continue;
        }
        if (bytes[at + 1] == 0xDA || bytes[at + 1] == 0xD9) return 1;
        length = image_be16(bytes + at + 2);
        if (length < 2 || length > size - at - 2) return 1;
        if (bytes[at + 1] == 0xE1 && image_bytes_at(bytes + at + 4, length - 2, 0, "Exif\0\0", 6))
            return image_exif_orientation(bytes + at + 4, length - 2);
        at += 2 + length;
    }
    return 1;
}
