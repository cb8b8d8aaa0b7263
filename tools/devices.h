/*
 * devices: what --device names, opened: one backend, or one for each of several GPUs, on which the
 * same model then runs side by side (tools/model.h).
 */
#ifndef TOOLS_DEVICES_H
#define TOOLS_DEVICES_H

#include "kernels/ops.h"

enum { DEVICES_MOST = 16 };

struct devices {
    int count;
    char name[DEVICES_MOST][16]; /* "cuda:1"; as backend_open takes it */
    struct backend *backend[DEVICES_MOST];
};

/*
 * auto, cpu, cuda or cuda:N[,N...], every N once, up to DEVICES_MOST: the names of the single
 * devices in *out. ST_USAGE, the sentence only says what is wanted, as for CLI_CUSTOM.
 */
enum status devices_parse(const char *text, struct devices *out) MUST_CHECK;

/*
 * backend_open for each device of options->device; NULL: auto. All or none: on failure nothing is
 * open. ST_USAGE: not such a list; else what backend_open says.
 */
enum status devices_open(const struct backend_options *options, struct devices *out) MUST_CHECK;
void devices_close(struct devices *devices); /* after the models on them */

bool devices_gpu(const struct devices *devices);

#endif
