/* devices: see devices.h. */
#include "tools/devices.h"

#include <stdio.h>
#include <string.h>

enum { LAST_DEVICE = 1023 };

static void add(struct devices *devices, const char *name) {
    snprintf(devices->name[devices->count++], sizeof devices->name[0], "%s", name);
}

/* One of the list, up to a comma; NULL: no number, or one that was there before. */
static const char *add_number(struct devices *devices, const char *at) {
    size_t length = strcspn(at, ",");
    char text[8], name[16];
    long number;
    if (length >= sizeof text || devices->count == DEVICES_MOST) return NULL;
    memcpy(text, at, length);
    text[length] = '\0';
    if (!parse_long(text, 0, LAST_DEVICE, &number)) return NULL;
    snprintf(name, sizeof name, "cuda:%ld", number);
    for (int i = 0; i < devices->count; i++)
        if (strcmp(devices->name[i], name) == 0) return NULL;
    add(devices, name);
    return at + length;
}

bool devices_parse(const char *text, struct devices *out) {
    static const char *const single[] = {"auto", "cpu", "cuda"};
    const char *at = text + strlen("cuda:");
    *out = (struct devices){0};
    for (size_t i = 0; i < COUNT_OF(single); i++) {
        if (strcmp(text, single[i]) != 0) continue;
        add(out, text);
        return true;
    }
    if (strncmp(text, "cuda:", strlen("cuda:")) != 0) return false;
    while ((at = add_number(out, at)) && *at == ',')
        at++;
    return at != NULL;
}

enum status devices_open(const struct backend_options *options, struct devices *out) {
    struct backend_options one = *options;
    const char *text = options->device ? options->device : "auto";
    enum status st = ST_OK;
    if (!devices_parse(text, out))
        return fail(ST_USAGE, "device '%s' is unknown, want auto, cpu, cuda or cuda:N[,N...]",
                    text);
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
