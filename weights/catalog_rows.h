/*
 * catalog_rows: the rows behind catalog.h, an array an origin; private to catalog*.c.
 */
#ifndef WEIGHTS_CATALOG_ROWS_H
#define WEIGHTS_CATALOG_ROWS_H

#include "kernels/base.h"

#define APACHE   "apache-2.0"
#define BSD      "bsd-3-clause"
#define CC_BY_NC "cc-by-nc-4.0"
#define MIT      "mit"

/* On timm's hub: the rest follows from the name. */
struct catalog_hub_row {
    const char *name; /* architecture.tag */
    double top1;
    uint64_t parameters;
    int classes;
    const char *license;
};

struct catalog_row {
    const char *name;
    double top1;
    uint64_t parameters;
    int classes;
    const char *license;
    const char *file; /* below the origin's base address; transformers: the repository's name */
    const char *arch;
    const char *sha256;
    const char *preprocess;
};

extern const struct catalog_hub_row catalog_timm[];
extern const size_t catalog_timm_count;

struct catalog_origin {
    const char *name;
    const char *base; /* address, up to and with its last slash */
    bool folder;      /* row.file is a folder of the hub with model.safetensors and its configs */
    const struct catalog_row *rows;
    size_t count;
};
extern const struct catalog_origin catalog_origins[];
extern const size_t catalog_origin_count;

#endif
