/* checkpoint_kind: what a file is by its bytes, for sentences; private to checkpoint*.c. */
#ifndef WEIGHTS_CHECKPOINT_KIND_H
#define WEIGHTS_CHECKPOINT_KIND_H

#include "kernels/base.h"

/* "a PNG picture", when the bytes say that they are not taken as they are; else NULL. */
const char *checkpoint_kind(const uint8_t *bytes, size_t size);
/* A zip of .npy files; one with model.weights.h5 in it. */
bool checkpoint_kind_is_npz(const uint8_t *bytes, size_t size);
bool checkpoint_kind_is_keras(const uint8_t *bytes, size_t size);

#endif
