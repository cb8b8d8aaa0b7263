/* inspector: the page's data read back: JSON, base64, deflate, numbers; hostile names; refusals. */
#include "tools/inspector.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/canvas.h"
#include "tools/colormap.h"

#include <cmocka.h>

#define HEADS  2
#define PREFIX 1
#define ROWS   2
#define ACROSS 3
#define TOKENS (PREFIX + ROWS * ACROSS)

static const struct grid_place place = {{341, 256, 58, 16}, 500, 375, 224, 224, ACROSS, ROWS};
static const char *const tokens[] = {"class token"};

/* One row of each kind: smooth, a sink in front, zeros, a single patch. */
static void fill(float *values) {
    for (int i = 0; i < HEADS * TOKENS * TOKENS; i++) {
        const int row = i / TOKENS % TOKENS, key = i % TOKENS;
        values[i] = (float)(i * 37 % 101) / 500;
        if (row == 1 && key == 0) values[i] = 0.97F;
        if (row == 1 && key > 0) values[i] /= 1000;
        if (row == 2) values[i] = 0;
        if (row == 3) values[i] = key == 4 ? 1 : 0;
    }
}

/* The page of one picture, to be mem_free'd. */
static char *page_of(const struct inspector_picture *picture) {
    FILE *file = tmpfile();
    size_t size;
    char *text;
    assert_non_null(file);
    inspector_begin(file);
    if (inspector_picture(file, picture) == ST_USAGE && strstr(fail_message(), "stb")) skip();
    inspector_end(file);
    size = (size_t)ftell(file);
    text = mem_zalloc(size + 1, 1);
    rewind(file);
    assert_int_equal(fread(text, 1, size, file), size);
    fclose(file);
    return text;
}

/* The JSON of the script of this class. */
static cJSON *script_of(const char *page, const char *class) {
    char *head = str_format("<script type=\"application/json\" class=\"%s\">", class);
    const char *from = strstr(page, head), *to;
    cJSON *json;
    assert_non_null(from);
    from += strlen(head);
    to = strstr(from, "</script>");
    assert_non_null(to);
    json = cJSON_ParseWithLength(from, (size_t)(to - from));
    assert_non_null(json);
    mem_free(head);
    return json;
}

/* Base64 and zlib undone: `size` bytes, to be mem_free'd. */
static uint8_t *unpacked(const cJSON *item, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = cJSON_GetObjectItem(item, "packed")->valuestring;
    const size_t length = strlen(text);
    uint8_t *packed = mem_zalloc(length, 1), *plain = mem_zalloc(size + 1, 1);
    uLongf got = size + 1;
    size_t count = 0;
    uint32_t group = 0;
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        group = group << 6 | (uint32_t)(strchr(digits, text[i]) - digits);
        if (i % 4) packed[count++] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    assert_int_equal(uncompress(plain, &got, packed, count), Z_OK);
    assert_int_equal(got, size);
    mem_free(packed);
    return plain;
}

static int number(const cJSON *item, const char *key) {
    return cJSON_GetObjectItem(item, key)->valueint;
}

static void check_layer(const cJSON *item, const float *values) {
    const int rows = HEADS * TOKENS;
    uint8_t *plain = unpacked(item, (size_t)(rows * (TOKENS + 4)));
    assert_int_equal(number(item, "heads"), HEADS);
    assert_int_equal(number(item, "queries"), TOKENS);
    assert_int_equal(number(item, "keys"), TOKENS);
    assert_int_equal(number(item, "prefix"), PREFIX);
    for (int i = 0; i < rows * TOKENS; i++) {
        const uint8_t *code = plain + 4 * (i / TOKENS) + (i % TOKENS < PREFIX ? 0 : 2);
        const unsigned scale = code[0] + 256U * code[1];
        const double most = scale == 65535 ? 0 : exp2(-(double)scale / 2048);
        const double got = plain[4 * rows + i] * most / number(item, "levels");
        if (fabs(got - (double)values[i]) >
            most * (0.5 / INSPECTOR_LEVELS + 0.0004)) /* scales: 2^(1/4096) */
            fail_msg("row %d, key %d: %g, want %g", i / TOKENS, i % TOKENS, got, (double)values[i]);
    }
    mem_free(plain);
}

static void numbers(void **state) {
    static const float rollout[ROWS * ACROSS] = {0, 0.1F, 0.2F, 0.3F, 0.15F, 0.25F};
    const double box[4] = {58 / 341.0, 16 / 256.0, 282 / 341.0, 240 / 256.0};
    float values[HEADS * TOKENS * TOKENS];
    const struct inspector_class cat = {"cat", 0.25};
    const struct inspector_map maps[] = {{"rollout", rollout, place, NULL},
                                         {"for cat", rollout, place, &cat}};
    const struct inspector_layer layer = {"0", values, HEADS, PREFIX, {0}, {0}, tokens, place};
    struct image image;
    struct inspector_picture picture = {.name = "a.png",
                                        .model = "m",
                                        .image = &image,
                                        .maps = maps,
                                        .layers = &layer,
                                        .map_count = 2,
                                        .layer_count = 1};
    char *page;
    cJSON *json, *item, *class;
    uint8_t *plain;
    (void)state;
    fill(values);
    assert_int_equal(canvas_open(1500, 1000, 0x808080, &image), ST_OK);
    page = page_of(&picture);
    json = script_of(page, "picture");
    check_layer(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "layers"), 0), values);
    item = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "maps"), 1);
    class = cJSON_GetObjectItem(item, "class");
    assert_string_equal(cJSON_GetObjectItem(item, "name")->valuestring, "for cat");
    assert_string_equal(cJSON_GetObjectItem(class, "label")->valuestring, cat.label);
    assert_true(cJSON_GetObjectItem(class, "probability")->valuedouble == cat.probability);
    item = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "maps"), 0);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(item, "class")));
    plain = unpacked(item, sizeof rollout);
    assert_memory_equal(plain, rollout, sizeof rollout); /* little-endian, as x86 and Arm are */
    for (int i = 0; i < 4; i++)
        assert_true(fabs(cJSON_GetArrayItem(cJSON_GetObjectItem(item, "box"), i)->valuedouble -
                         box[i]) < 1e-8);
    mem_free(plain);
    cJSON_Delete(json);
    mem_free(page);
    image_release(&image);
}

/* Names from outside end no script, and come back as they are. */
static void hostile_names(void **state) {
    static const char name[] = "</script><script>alert(\"1\")</script><!--\\ \xC3\xA9\n.png";
    static const float value = 1;
    const struct inspector_class class = {name, 0.5};
    const struct inspector_map map = {
        name, &value, {{341, 256, 58, 16}, 500, 375, 224, 224, 1, 1}, &class};
    struct image image;
    struct inspector_picture picture = {.name = name,
                                        .model = "\xFFm",
                                        .image = &image,
                                        .classes = &class,
                                        .maps = &map,
                                        .class_count = 1,
                                        .map_count = 1};
    char *page;
    cJSON *json, *labels[2];
    (void)state;
    assert_int_equal(canvas_open(10, 10, 0x808080, &image), ST_OK);
    page = page_of(&picture);
    assert_null(strstr(page, "<script>alert"));
    json = script_of(page, "picture");
    assert_string_equal(cJSON_GetObjectItem(json, "name")->valuestring, name);
    assert_string_equal(cJSON_GetObjectItem(json, "model")->valuestring, "\xEF\xBF\xBDm");
    labels[0] = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "classes"), 0);
    labels[1] = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "maps"), 0);
    assert_string_equal(cJSON_GetObjectItem(labels[1], "name")->valuestring, name);
    labels[1] = cJSON_GetObjectItem(labels[1], "class");
    for (int i = 0; i < 2; i++)
        assert_string_equal(cJSON_GetObjectItem(labels[i], "label")->valuestring, name);
    cJSON_Delete(json);
    mem_free(page);
    image_release(&image);
}

/* The page is whole around its data, fetches nothing, and holds every colour map. */
static void the_page(void **state) {
    struct image image;
    struct inspector_picture picture = {.name = "a", .model = "m", .image = &image};
    char *page;
    cJSON *json;
    (void)state;
    assert_int_equal(canvas_open(10, 10, 0x808080, &image), ST_OK);
    page = page_of(&picture);
    assert_memory_equal(page, "<!DOCTYPE html>", 15);
    assert_string_equal(page + strlen(page) - 8, "</html>\n");
    assert_null(strstr(page, "http:"));
    assert_null(strstr(page, "https:"));
    json = script_of(page, "colormaps");
    for (int map = 0; map < COLORMAP_COUNT; map++) {
        const char *hex = cJSON_GetObjectItem(json, colormap_name((enum colormap)map))->valuestring;
        char *first = str_format("%06x", colormap_color((enum colormap)map, 0));
        char *last = str_format("%06x", colormap_color((enum colormap)map, 1));
        assert_int_equal(strlen(hex), 6 * 256);
        assert_memory_equal(hex, first, 6);
        assert_string_equal(hex + 6 * 255, last);
        mem_free(first);
        mem_free(last);
    }
    cJSON_Delete(json);
    mem_free(page);
    image_release(&image);
}

static void refusals(void **state) {
    static const struct {
        int heads, prefix, window[2], shift[2], rows;
        enum status status;
    } cases[] = {{0, 1, {0}, {0}, 2, ST_USAGE},       {1, -1, {0}, {0}, 2, ST_USAGE},
                 {1, 1, {7, 7}, {0}, 2, ST_USAGE},    {1, 0, {7, 7}, {0, 7}, 2, ST_USAGE},
                 {1, 0, {7, 7}, {-1}, 2, ST_USAGE},   {1, 0, {7, 0}, {0}, 2, ST_USAGE},
                 {1, 0, {0, 7}, {0}, 2, ST_USAGE},    {1, 0, {0}, {0}, 0, ST_USAGE},
                 {1, 0, {0}, {0}, 1 << 20, ST_NOMEM}, {1, 0, {0}, {0}, 8000, ST_NOMEM}};
    static const float value = 0;
    struct image image;
    (void)state;
    assert_int_equal(canvas_open(10, 10, 0x808080, &image), ST_OK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct inspector_layer layer = {.name = "0",
                                        .values = &value,
                                        .heads = cases[i].heads,
                                        .prefix = cases[i].prefix,
                                        .tokens = tokens,
                                        .place = place};
        const struct inspector_picture picture = {
            .name = "a", .model = "m", .image = &image, .layers = &layer, .layer_count = 1};
        FILE *file = tmpfile();
        enum status st;
        assert_non_null(file);
        memcpy(layer.window, cases[i].window, sizeof layer.window);
        memcpy(layer.shift, cases[i].shift, sizeof layer.shift);
        layer.place.rows = cases[i].rows;
        layer.place.columns = cases[i].rows > 100 ? 8000 : ACROSS;
        st = inspector_picture(file, &picture);
        assert_int_equal(ftell(file), 0);
        fclose(file);
        if (st == ST_USAGE && strstr(fail_message(), "stb")) skip();
        assert_int_equal(st, cases[i].status);
    }
    image_release(&image);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(hostile_names),
                                       cmocka_unit_test(the_page), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
