/*
 * npz: NumPy's archives of arrays (numpy/lib/format.py): a zip of .npy files, one an array.
 */
#ifndef WEIGHTS_NPZ_H
#define WEIGHTS_NPZ_H

#include "weights/checkpoint.h"

/*
 * One .npy file of exactly `size` bytes into *out but for its name, which `what` is for sentences:
 * "file: entry". Magic, versions 1 to 3, header, type, order and shape are checked against the
 * bytes. Object arrays, which are Python pickles, big-endian and structured ones are refused.
 * ST_FORMAT.
 */
enum status npy_parse(const uint8_t *bytes, size_t size, const char *what,
                      struct tensor *out) MUST_CHECK;

/*
 * Every entry of the zip out->map: tensors named as the entries without ".npy". What is stored
 * stays in the mapping, what is deflated goes to out->memory; refused when all of it unpacked is
 * out of proportion to the file. ST_FORMAT, ST_NOMEM.
 */
enum status npz_parse(struct checkpoint *out) MUST_CHECK;

#endif
