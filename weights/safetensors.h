/* safetensors: what else the reader of checkpoint.h's safetensors_parse can say about a file. */
#ifndef WEIGHTS_SAFETENSORS_H
#define WEIGHTS_SAFETENSORS_H

#include "kernels/base.h"

/*
 * The string `key` of the header's `__metadata__`; NULL when it is not there (or the header is no
 * JSON: call it after safetensors_parse took the file). To be mem_free'd.
 */
char *safetensors_metadata(const uint8_t *bytes, size_t size, const char *key);

#endif
