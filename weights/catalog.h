/*
 * catalog: the official checkpoints that vitrine's architectures run, by the name that `vitrine
 * pull` takes: where each lies, what it must hash to, what it scores and under which licence.
 * The rows are in catalog_timm.c and catalog_official.c.
 */
#ifndef WEIGHTS_CATALOG_H
#define WEIGHTS_CATALOG_H

#include "kernels/base.h"

struct catalog_entry {
    const char *name;   /* unique; the pulled model is called so too */
    const char *origin; /* whose file it is: "timm", "torchvision", "deit", ... */
    const char *license;
    const char *arch;       /* timm's name, with or without .tag: --arch of convert */
    const char *sha256;     /* 64 digits of the file, or its first 8; NULL: none is published */
    const char *preprocess; /* KEY=VALUEs for convert, a blank between; NULL: arch's own */
    double top1;            /* of ImageNet-1k in percent, as the origin says; 0 = not said */
    uint64_t parameters;
    int classes;       /* 0 = headless */
    bool folder;       /* config.json and preprocessor_config.json lie beside and are needed */
    char address[256]; /* of the weight file */
};

/* Entry `index`, in the order of the origins; false, *out untouched, after the last. */
bool catalog_at(size_t index, struct catalog_entry *out);

/* By its whole name. */
bool catalog_find(const char *name, struct catalog_entry *out);

/* The last part of its address. */
const char *catalog_file(const struct catalog_entry *entry);

/* About how large the file is: the parameters in fp32, as every origin stores them. */
uint64_t catalog_bytes(const struct catalog_entry *entry);

#endif
