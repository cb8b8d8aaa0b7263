/* json: see json.h; cJSON does the parsing. */
#include "weights/json.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#define JSON_DEPTH  64     /* cJSON recurses; a config has 4 levels, a Keras model 20 */
#define JSON_VALUES 200000 /* of about 100 bytes each; labels of 22k classes, both ways, are 44k */

/* Levels and values, before there is any. */
static enum status scan(const char *text, size_t size, const char *file) {
    size_t depth = 0, values = 1;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (quoted && c == '\\') {
            if (size - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
                return fail(ST_FORMAT, "%s: a text in it holds a NUL (\\u0000)", file);
            i++;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted) {
            values += c == ',' || c == '{' || c == '[';
            if ((c == '{' || c == '[') && ++depth > JSON_DEPTH)
                return fail(ST_FORMAT, "%s: nests deeper than %d levels", file, JSON_DEPTH);
            if ((c == '}' || c == ']') && depth) depth--;
        }
        if (values > JSON_VALUES)
            return fail(ST_FORMAT, "%s: has more than %d values", file, JSON_VALUES);
    }
    return ST_OK;
}

enum status json_parse(const char *text, size_t size, const char *file, cJSON **out) {
    *out = NULL;
    const char *end = text;
    TRY(scan(text, size, file));
    *out = cJSON_ParseWithLengthOpts(text, size, &end, false);
    while (*out && end < text + size && *end && strchr(" \t\r\n", *end))
        end++;
    if (cJSON_IsObject(*out) && end == text + size) return ST_OK;
    const bool object = cJSON_IsObject(*out);
    cJSON_Delete(*out);
    *out = NULL;
    if (object)
        return fail(ST_FORMAT, "%s: goes on behind its JSON object, at byte %zu", file,
                    (size_t)(end - text));
    return fail(ST_FORMAT, "%s: is not a JSON object", file);
}

enum status json_double(const cJSON *object, const char *file, const char *key, double lo,
                        double hi, double *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item || cJSON_IsNull(item)) return ST_OK;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= lo && item->valuedouble <= hi))
        return fail(ST_FORMAT, "%s: %s is no number from %g to %g", file, key, lo, hi);
    *out = item->valuedouble;
    return ST_OK;
}

enum status json_int(const cJSON *object, const char *file, const char *key, int lo, int hi,
                     int *out) {
    double value = NAN;
    TRY(json_double(object, file, key, lo, hi, &value));
    if (isnan(value)) return ST_OK;
    if (value != floor(value))
        return fail(ST_FORMAT, "%s: %s is %g, want a whole number", file, key, value);
    *out = (int)value;
    return ST_OK;
}

enum status json_word(const cJSON *object, const char *file, const char *key, const char **out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item || cJSON_IsNull(item)) return ST_OK;
    if (!cJSON_IsString(item)) return fail(ST_FORMAT, "%s: %s is no word", file, key);
    *out = item->valuestring;
    return ST_OK;
}

enum status json_ints(const cJSON *object, const char *file, const char *key, int lo, int hi,
                      int limit, int *out, int *count) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, key), *item = NULL;
    *count = 0;
    if (!cJSON_IsArray(list)) {
        int value = INT_MIN;
        TRY(json_int(object, file, key, lo, hi, &value));
        if (value == INT_MIN) return ST_OK;
        out[(*count)++] = value;
        return ST_OK;
    }
    cJSON_ArrayForEach(item, list) {
        const cJSON *first = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 0) : item;
        const cJSON *second = cJSON_IsArray(item) ? cJSON_GetArrayItem(item, 1) : item;
        if (*count == limit || !cJSON_IsNumber(first) || !cJSON_IsNumber(second) ||
            (cJSON_IsArray(item) && cJSON_GetArraySize(item) != 2) ||
            !(first->valuedouble >= lo && first->valuedouble <= hi) ||
            first->valuedouble != floor(first->valuedouble))
            return fail(ST_FORMAT, "%s: %s are not up to %d whole numbers from %d to %d", file, key,
                        limit, lo, hi);
        if (first->valuedouble != second->valuedouble)
            return fail(ST_FORMAT, "%s: %s has (%g, %g), which is not square", file, key,
                        first->valuedouble, second->valuedouble);
        out[(*count)++] = (int)first->valuedouble;
    }
    if (*count) return ST_OK;
    return fail(ST_FORMAT, "%s: %s is an empty list", file, key);
}
