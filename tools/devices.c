/* devices: see devices.h. */
#include "tools/devices.h"

#include <stdio.h>
#include <string.h>

enum { LAST_DEVICE = 1023 };

static void add(struct devices *devices, const char *name) {
    snprintf(devices->name[devices->count++], sizeof devices->name[0], "%s", name);
}

static enum status no_list(void) {
    return fail(ST_USAGE, "auto, cpu, cuda, cuda:N or cuda:N,N");
}

/* One of the list, from *at up to a comma or the end, where *at is left. */
static enum status add_number(struct devices *devices, const char **at) {
    size_t length = strcspn(*at, ",");
    char text[8], name[16];
    long number;
    if (length >= sizeof text) return no_list();
    memcpy(text, *at, length);
    text[length] = '\0';
    *at += length;
    if (!parse_long(text, 0, LAST_DEVICE, &number)) return no_list();
    snprintf(name, sizeof name, "cuda:%ld", number);
    for (int i = 0; i < devices->count; i++)
        if (strcmp(devices->name[i], name) == 0)
            return fail(ST_USAGE, "each device once: %s is named twice", name);
    if (devices->count == DEVICES_MOST)
        return fail(ST_USAGE, "at most %d devices", (int)DEVICES_MOST);
    add(devices, name);
    return ST_OK;
}

enum status devices_parse(const char *text, struct devices *out) {
    static const char *const single[] = {"auto", "cpu", "cuda"};
    const char *at = text + strlen("cuda:");
    *out = (struct devices){0};
    for (size_t i = 0; i < COUNT_OF(single); i++) {
        if (strcmp(text, single[i]) != 0) continue;
        add(out, text);
        return ST_OK;
    }
    if (strncmp(text, "cuda:", strlen("cuda:")) != 0) return no_list();
    TRY(add_number(out, &at));
    while (*at++ == ',')
        TRY(add_number(out, &at));
    return ST_OK;
}

enum status devices_open(const struct backend_options *options, struct devices *out) {
    struct backend_options one = *options;
    const char *text = options->device ? options->device : "auto";
    enum status st = ST_OK;
    char want[128];
    st = devices_parse(text, out);
    snprintf(want, sizeof want, "%s", fail_message());
    if (st != ST_OK) return fail(st, "device '%s': want %s", text, want);
    for (int i = 0; i < out->count && st == ST_OK; i++) {
        one.device = out->name[i];
        st = backend_open(&one, &out->backend[i]);
    }
    if (st != ST_OK) devices_close(out);
    return st;
}

void devices_close(struct devices *devices) {
    for (int i = 0; i < devices->count; i++)
        backend_close(devices->backend[i]);
    *devices = (struct devices){0};
}

bool devices_gpu(const struct devices *devices) {
    return devices->count > 0 && backend_is_gpu(devices->backend[0]);
}
