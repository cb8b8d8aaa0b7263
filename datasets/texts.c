/* texts: see texts.h. */
#include "datasets/texts.h"

#include <string.h>

uint64_t checksum(uint64_t sum, const void *bytes, size_t size) {
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ p[i]) * 1099511628211u;
    return sum;
}

/* The slot of `text`, or the free one where it belongs. At least one slot must be free. */
static size_t slot_of(const struct texts *texts, const char *text) {
    const uint64_t sum = checksum(CHECKSUM_START, text, strlen(text));
    size_t slot = (size_t)(sum ^ sum >> 32) & (texts->slot_count - 1);
    while (texts->slots[slot] && strcmp(texts->text[texts->slots[slot] - 1], text) != 0)
        slot = (slot + 1) & (texts->slot_count - 1);
    return slot;
}

/* Twice the slots, so that at least half of them are free. */
static enum status more_slots(struct texts *texts) {
    const size_t count = texts->slot_count ? 2 * texts->slot_count : 64;
    size_t *slots = mem_zalloc(count, sizeof *slots);
    if (!slots) return ST_NOMEM;
    mem_free(texts->slots);
    texts->slots = slots;
    texts->slot_count = count;
    for (size_t i = 0; i < texts->count; i++)
        slots[slot_of(texts, texts->text[i])] = i + 1;
    return ST_OK;
}

bool texts_find(const struct texts *texts, const char *text, size_t *number) {
    const size_t found = texts->slot_count ? texts->slots[slot_of(texts, text)] : 0;
    if (found) *number = found - 1;
    return found != 0;
}

enum status texts_add(struct texts *texts, const char *text, size_t *number) {
    void *list = texts->text;
    enum status st;
    char *copy;
    if (texts_find(texts, text, number)) return ST_OK;
    if (2 * (texts->count + 1) > texts->slot_count) TRY(more_slots(texts));
    st = mem_grow(&list, &texts->capacity, texts->count + 1, sizeof *texts->text);
    texts->text = list;
    if (st != ST_OK) return st;
    copy = str_copy(text);
    if (!copy) return ST_NOMEM;
    texts->text[texts->count] = copy;
    texts->slots[slot_of(texts, copy)] = texts->count + 1;
    *number = texts->count++;
    return ST_OK;
}

void texts_release(struct texts *texts) {
    for (size_t i = 0; i < texts->count; i++)
        mem_free(texts->text[i]);
    mem_free(texts->text);
    mem_free(texts->slots);
    *texts = (struct texts){0};
}
