/* config_fields: see config_fields.h. */
#include "weights/config_fields.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(((struct preprocess_spec *)0)->crop_mode) == FIELD_WORD_SIZE, "words' size");

const char *word_at(const char *const *words, size_t count, size_t index) {
    return index < count ? words[index] : "unknown";
}

int word_find(const char *const *words, int count, const char *word) {
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) return i;
    }
    return -1;
}

static enum status wrong_word(const struct field *field, const char *file, const char *group,
                              const char *found) {
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < field->word_count && used < sizeof known; i++) {
        int wrote =
            snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", field->words[i]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return fail(ST_FORMAT, "%s: %s: attribute %s is '%.64s', expected one of: %s", file, group,
                field->name, found, known);
}

static enum status read_word(struct h5 *file, const char *group, const struct field *field,
                             void *place) {
    char *word = NULL;
    enum status st = ST_OK;
    int index;
    TRY(h5_get_string(file, group, field->name, &word));
    index = word_find(field->words, field->word_count, word);
    if (index < 0)
        st = wrong_word(field, h5_name(file), group, word);
    else if (field->kind == FIELD_SWITCH)
        *(bool *)place = index != 0;
    else if (field->kind == FIELD_ENUM)
        memcpy(place, &index, sizeof index);
    else
        snprintf(place, FIELD_WORD_SIZE, "%s", word);
    mem_free(word);
    return st;
}

/* The member that counts a list. */
static int *length_of(const struct field *field, void *base) {
    return (int *)((char *)base + field->length);
}

static enum status read_field(struct h5 *file, const char *group, const struct field *field,
                              void *base) {
    const long lo = (long)field->lo, hi = (long)field->hi;
    void *place = (char *)base + field->offset;
    int flag = 0;
    switch (field->kind) {
    case FIELD_INT: return h5_get_int(file, group, field->name, lo, hi, place);
    case FIELD_PAIR: return h5_get_ints(file, group, field->name, 2, lo, hi, place);
    case FIELD_COUNTED:
        return h5_get_int_list(file, group, field->name, FIELD_MAX_LIST, lo, hi, place,
                               length_of(field, base));
    case FIELD_LIST:
        return h5_get_ints(file, group, field->name, *length_of(field, base), lo, hi, place);
    case FIELD_BOOL:
        TRY(h5_get_int(file, group, field->name, 0, 1, &flag));
        *(bool *)place = flag != 0;
        return ST_OK;
    case FIELD_REAL:
    case FIELD_TRIPLE:
        return h5_get_doubles(file, group, field->name, field->kind == FIELD_TRIPLE ? 3 : 1,
                              field->lo, field->hi, place);
    case FIELD_ENUM:
    case FIELD_SWITCH:
    case FIELD_WORD: break;
    }
    return read_word(file, group, field, place);
}

static enum status write_field(struct h5 *file, const char *group, const struct field *field,
                               const void *base) {
    const void *place = (const char *)base + field->offset;
    int index;
    switch (field->kind) {
    case FIELD_INT: return h5_set_int(file, group, field->name, *(const int *)place);
    case FIELD_PAIR: return h5_set_ints(file, group, field->name, 2, place);
    case FIELD_COUNTED:
    case FIELD_LIST:
        memcpy(&index, (const char *)base + field->length, sizeof index);
        return h5_set_ints(file, group, field->name, index, place);
    case FIELD_BOOL: return h5_set_int(file, group, field->name, *(const bool *)place);
    case FIELD_REAL: return h5_set_double(file, group, field->name, *(const double *)place);
    case FIELD_TRIPLE: return h5_set_doubles(file, group, field->name, 3, place);
    case FIELD_SWITCH:
        return h5_set_string(file, group, field->name, field->words[*(const bool *)place]);
    case FIELD_ENUM:
        memcpy(&index, place, sizeof index);
        return h5_set_string(file, group, field->name, field->words[index]);
    case FIELD_WORD: break;
    }
    return h5_set_string(file, group, field->name, place);
}

/* How many numbers stand at the field's place; 0 for words and bools. */
static enum status number_count(const char *file, const char *group, const struct field *field,
                                const void *base, int *count) {
    *count = 0;
    switch (field->kind) {
    case FIELD_INT:
    case FIELD_REAL: *count = 1; break;
    case FIELD_PAIR: *count = 2; break;
    case FIELD_TRIPLE: *count = 3; break;
    case FIELD_COUNTED:
    case FIELD_LIST:
        memcpy(count, (const char *)base + field->length, sizeof *count);
        if (*count < 1 || *count > FIELD_MAX_LIST)
            return fail(ST_FORMAT, "%s: %s: attribute %s has %d elements, expected 1 to %d", file,
                        group, field->name, *count, FIELD_MAX_LIST);
        break;
    default: break;
    }
    return ST_OK;
}

/* The same ranges and words for a struct that did not come from a file. */
static enum status check_field(const char *file, const char *group, const struct field *field,
                               const void *base) {
    const void *place = (const char *)base + field->offset;
    const bool real = field->kind == FIELD_REAL || field->kind == FIELD_TRIPLE;
    int index, count;
    TRY(number_count(file, group, field, base, &count));
    if (field->kind == FIELD_ENUM) {
        memcpy(&index, place, sizeof index);
        return index >= 0 && index < field->word_count ? ST_OK
                                                       : wrong_word(field, file, group, "unknown");
    }
    if (field->kind == FIELD_WORD)
        return word_find(field->words, field->word_count, place) >= 0
                   ? ST_OK
                   : wrong_word(field, file, group, place);
    for (int i = 0; i < count; i++) {
        double value = real ? ((const double *)place)[i] : ((const int *)place)[i];
        if (!(value >= field->lo && value <= field->hi))
            return fail(ST_FORMAT, "%s: %s: attribute %s is %g, expected %g to %g", file, group,
                        field->name, value, field->lo, field->hi);
    }
    return ST_OK;
}

enum status fields_read(struct h5 *file, const char *group, const struct field *fields,
                        size_t count, void *base) {
    if (!h5_has(file, group)) return fail(ST_FORMAT, "%s: %s: is missing", h5_name(file), group);
    for (size_t i = 0; i < count; i++)
        TRY(read_field(file, group, &fields[i], base));
    return ST_OK;
}

enum status fields_check(const char *file, const char *group, const struct field *fields,
                         size_t count, const void *base) {
    for (size_t i = 0; i < count; i++)
        TRY(check_field(file, group, &fields[i], base));
    return ST_OK;
}

enum status fields_write(struct h5 *file, const char *group, const struct field *fields,
                         size_t count, const void *base) {
    TRY(fields_check(h5_name(file), group, fields, count, base));
    TRY(h5_make_group(file, group));
    for (size_t i = 0; i < count; i++)
        TRY(write_field(file, group, &fields[i], base));
    return ST_OK;
}
