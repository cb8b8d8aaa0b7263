/* inspector: see inspector.h. The assembler copies the page into the program's read-only data. */
#include "tools/inspector.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "tools/colormap.h"
#include "tools/page.h"
#include "tools/picture.h"
#include "tools/rows.h"
#include "weights/embed.h"

EMBED(inspector_html, "tools/inspector.html");

static const char marker[] = "<!-- data -->\n";

/* ---- text ------------------------------------------------------------------------------------ */

static void put_text(FILE *file, const char *text) {
    char *clean = rows_utf8(text);
    cJSON *item = cJSON_CreateString(clean ? clean : "");
    char *printed = cJSON_PrintUnformatted(item);
    page_print_json(printed ? printed : "\"\"", file);
    cJSON_free(printed);
    cJSON_Delete(item);
    mem_free(clean);
}

static void put_key(FILE *file, const char *key) {
    fprintf(file, ",\n\"%s\":", key);
}

void inspector_begin(FILE *file) {
    const char *page = (const char *)inspector_html, *data = strstr(page, marker);
    fwrite(page, 1, (size_t)(data - page), file);
    fputs("<script type=\"application/json\" class=\"colormaps\">{", file);
    for (int map = 0; map < COLORMAP_COUNT; map++) {
        fprintf(file, "%s\n\"%s\":\"", map ? "," : "", colormap_name((enum colormap)map));
        for (int i = 0; i < 256; i++)
            fprintf(file, "%06x", colormap_color((enum colormap)map, ((float)i + 0.5F) / 256));
        fputc('"', file);
    }
    fputs("}</script>\n", file);
}

void inspector_end(FILE *file) {
    fputs(strstr((const char *)inspector_html, marker) + strlen(marker), file);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Bytes to come, deflated. */
struct packed {
    uint8_t *bytes; /* (size) owned */
    size_t size;
};

/* Z_FILTERED: of numbers like noise, short repeats cost more than they save: 7 % fewer bytes. */
static enum status pack(const uint8_t *plain, size_t size, struct packed *out) {
    const uLong bound = deflateBound(NULL, (uLong)size);
    z_stream stream = {.next_in = (Bytef *)plain, .avail_in = (uInt)size};
    out->bytes = mem_zalloc(bound, 1);
    if (!out->bytes) return ST_NOMEM;
    stream.next_out = out->bytes;
    stream.avail_out = (uInt)bound;
    if (deflateInit2(&stream, 6, Z_DEFLATED, 15, 9, Z_FILTERED) != Z_OK)
        return fail(ST_NOMEM, "memory to compress attention could not be had");
    (void)deflate(&stream, Z_FINISH); /* the end in one call: there is room for all */
    out->size = stream.total_out;
    deflateEnd(&stream);
    return ST_OK;
}

static float greatest(const float *values, int count) {
    float most = 0;
    for (int i = 0; i < count; i++)
        if (values[i] > most) most = values[i];
    return most;
}

/* levels * value / most, and most's code at *code. */
static void quantise(const float *values, int count, uint8_t *code, uint8_t *out) {
    const float most = greatest(values, count);
    const double log = most > 0 ? fmin(fmax(-2048 * log2((double)most), 0), 65535) : 65535;
    const unsigned number = (unsigned)lround(log);
    code[0] = (uint8_t)(number & 255);
    code[1] = (uint8_t)(number >> 8);
    for (int i = 0; i < count; i++)
        out[i] =
            values[i] > 0 && most > 0 ? (uint8_t)lrintf(INSPECTOR_LEVELS * (values[i] / most)) : 0;
}

static int layer_queries(const struct inspector_layer *layer) {
    return layer->prefix + layer->place.rows * layer->place.columns;
}

static int layer_keys(const struct inspector_layer *layer) {
    return layer->window[0] ? layer->window[0] * layer->window[1] : layer_queries(layer);
}

static enum status layer_fail(const struct inspector_layer *layer) {
    return fail(ST_USAGE, "%s: %d heads, %d tokens in front, windows of %d x %d shifted by %d, %d",
                layer->name, layer->heads, layer->prefix, layer->window[0], layer->window[1],
                layer->shift[0], layer->shift[1]);
}

static enum status layer_check(const struct inspector_layer *layer) {
    const int most = 1 << 13;
    const struct grid_place *place = &layer->place;
    size_t count;
    TRY(grid_place_check(place));
    if (layer->heads < 1 || layer->prefix < 0) return layer_fail(layer);
    for (int i = 0; i < 2; i++) {
        const int window = layer->window[i], shift = layer->shift[i];
        if (window < 0 || window > most || shift < 0 || !window != !layer->window[0] ||
            (window && (layer->prefix || shift >= window)))
            return layer_fail(layer);
    }
    if (place->rows > most || place->columns > most || layer->prefix > most || layer->heads > most)
        return fail(ST_NOMEM, "%s: a map of %d x %d is too large for a page", layer->name,
                    place->columns, place->rows);
    if (!size_mul((size_t)layer->heads * (size_t)layer_queries(layer), (size_t)layer_keys(layer),
                  &count) ||
        count > (size_t)1 << 30)
        return fail(ST_NOMEM, "%s: the attention of %d tokens is too large for a page", layer->name,
                    layer_queries(layer));
    return ST_OK;
}

static enum status layer_pack(const struct inspector_layer *layer, struct packed *out) {
    const int keys = layer_keys(layer), prefix = layer->prefix;
    const size_t rows = (size_t)layer->heads * (size_t)layer_queries(layer);
    const size_t size = rows * (size_t)keys + 4 * rows;
    uint8_t *plain = mem_zalloc(size, 1), *code = plain, *value = plain + 4 * rows;
    const float *from = layer->values;
    enum status st;
    if (!plain) return ST_NOMEM;
    for (size_t i = 0; i < rows; i++, from += keys, value += keys, code += 4) {
        quantise(from, prefix, code, value);
        quantise(from + prefix, keys - prefix, code + 2, value + prefix);
    }
    st = pack(plain, size, out);
    mem_free(plain);
    return st;
}

static enum status map_pack(const struct inspector_map *map, struct packed *out) {
    const size_t count = (size_t)map->place.rows * (size_t)map->place.columns;
    uint8_t *plain = mem_zalloc(count, 4);
    enum status st;
    if (!plain) return ST_NOMEM;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &map->values[i], 4);
        for (int k = 0; k < 4; k++)
            plain[4 * i + (size_t)k] = (uint8_t)(bits >> 8 * k);
    }
    st = pack(plain, 4 * count, out);
    mem_free(plain);
    return st;
}

/* ---- a picture ------------------------------------------------------------------------------- */

static void put_packed(FILE *file, const struct packed *packed) {
    put_key(file, "packed");
    fputc('"', file);
    picture_print_base64(packed->bytes, packed->size, file);
    fputs("\"}", file);
}

static void put_grid(FILE *file, const struct grid_place *place) {
    const double w = place->at.resized_w, h = place->at.resized_h;
    fprintf(file, ",\"rows\":%d,\"columns\":%d,\"box\":[%.9g,%.9g,%.9g,%.9g]", place->rows,
            place->columns, place->at.x / w, place->at.y / h, (place->at.x + place->model_w) / w,
            (place->at.y + place->model_h) / h);
}

static void put_layer(FILE *file, const struct inspector_layer *layer,
                      const struct packed *packed) {
    fputs("\n{\"name\":", file);
    put_text(file, layer->name);
    put_grid(file, &layer->place);
    fprintf(file, ",\"heads\":%d,\"queries\":%d,\"keys\":%d,\"prefix\":%d", layer->heads,
            layer_queries(layer), layer_keys(layer), layer->prefix);
    fprintf(file, ",\"window\":[%d,%d],\"shift\":[%d,%d]", layer->window[0], layer->window[1],
            layer->shift[0], layer->shift[1]);
    fprintf(file, ",\"levels\":%d,\"tokens\":[", INSPECTOR_LEVELS);
    for (int i = 0; i < layer->prefix; i++) {
        if (i) fputc(',', file);
        put_text(file, layer->tokens[i]);
    }
    fputc(']', file);
    put_packed(file, packed);
}

static void put_class(FILE *file, const struct inspector_class *class) {
    fputs("{\"label\":", file);
    put_text(file, class->label);
    fprintf(file, ",\"probability\":%.6g}", class->probability);
}

static void put_map(FILE *file, const struct inspector_map *map, const struct packed *packed) {
    fputs("\n{\"name\":", file);
    put_text(file, map->name);
    put_key(file, "class");
    if (map->of)
        put_class(file, map->of);
    else
        fputs("null", file);
    put_grid(file, &map->place);
    put_packed(file, packed);
}

static void put_picture(FILE *file, const struct inspector_picture *picture,
                        const struct picture_bytes *photo, const struct packed *packed) {
    fputs("<script type=\"application/json\" class=\"picture\">{\n\"name\":", file);
    put_text(file, picture->name);
    put_key(file, "model");
    put_text(file, picture->model);
    put_key(file, "photo");
    fputs("\"data:image/jpeg;base64,", file);
    picture_print_base64(photo->bytes, photo->size, file);
    fputc('"', file);
    put_key(file, "classes");
    for (int i = 0; i < picture->class_count; i++) {
        fputc(i ? ',' : '[', file);
        put_class(file, &picture->classes[i]);
    }
    fputs(picture->class_count ? "]" : "[]", file);
    put_key(file, "maps");
    for (int i = 0; i < picture->map_count; i++) {
        fputc(i ? ',' : '[', file);
        put_map(file, &picture->maps[i], packed++);
    }
    fputs(picture->map_count ? "]" : "[]", file);
    put_key(file, "layers");
    for (int i = 0; i < picture->layer_count; i++) {
        fputc(i ? ',' : '[', file);
        put_layer(file, &picture->layers[i], packed++);
    }
    fputs(picture->layer_count ? "]" : "[]", file);
    fputs("}</script>\n", file);
}

/* packed (maps, then layers). */
static enum status pack_all(const struct inspector_picture *picture, struct packed *packed) {
    for (int i = 0; i < picture->map_count; i++) {
        TRY(grid_place_check(&picture->maps[i].place));
        TRY(map_pack(&picture->maps[i], packed++));
    }
    for (int i = 0; i < picture->layer_count; i++) {
        struct inspector_layer layer = picture->layers[i];
        TRY(layer_check(&layer));
        if (!layer.values) TRY(picture->layer_values(picture->context, i, &layer.values));
        TRY(layer_pack(&layer, packed++));
    }
    return ST_OK;
}

enum status inspector_picture(FILE *file, const struct inspector_picture *picture) {
    const size_t count = (size_t)picture->map_count + (size_t)picture->layer_count;
    struct packed *packed = mem_zalloc(count + 1, sizeof *packed);
    struct picture_bytes photo = {0};
    struct image small = {0};
    enum status st = packed ? ST_OK : ST_NOMEM;
    if (st != ST_OK) return st;
    TRY_OUT(picture_thumbnail(picture->image, 768, &small));
    TRY_OUT(picture_jpeg(small.rgb, small.width, small.height, 85, &photo));
    TRY_OUT(pack_all(picture, packed));
    put_picture(file, picture, &photo, packed);
out:
    for (size_t i = 0; i < count; i++)
        mem_free(packed[i].bytes);
    mem_free(packed);
    picture_bytes_release(&photo);
    image_release(&small);
    return st;
}
