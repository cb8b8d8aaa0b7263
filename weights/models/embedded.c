/* embedded: see embedded.h. */
#include "weights/models/embedded.h"

#include "weights/embed.h"

EMBED(embedded_vit_cifar10, "weights/models/vit-cifar10.h5");
EMBED(embedded_swin_cifar10, "weights/models/swin-cifar10.h5");
EMBED(embedded_vit_fashion, "weights/models/vit-fashion.h5");

static const struct {
    const char *name;
    const unsigned char *bytes, *end;
} files[] = {
    {"vit-cifar10", embedded_vit_cifar10, embedded_vit_cifar10_end},
    {"swin-cifar10", embedded_swin_cifar10, embedded_swin_cifar10_end},
    {"vit-fashion", embedded_vit_fashion, embedded_vit_fashion_end},
};

const char *embedded_model_name(size_t index) {
    return index < COUNT_OF(files) ? files[index].name : NULL;
}

const unsigned char *embedded_model_bytes(size_t index, size_t *size) {
    *size = (size_t)(files[index].end - files[index].bytes);
    return files[index].bytes;
}
