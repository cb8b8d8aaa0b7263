/*
 * embedded: the model files compiled into the binary (trained by tools/train/), to be opened
 * through HDF5's in-memory file image.
 */
#ifndef WEIGHTS_MODELS_EMBEDDED_H
#define WEIGHTS_MODELS_EMBEDDED_H

#include "kernels/base.h"

/* The name of model `index`, counting from 0; NULL after the last. */
const char *embedded_model_name(size_t index);
/* The whole HDF5 file of an existing index, and its size. */
const unsigned char *embedded_model_bytes(size_t index, size_t *size);

#endif
