/* checkpoint_shards: weights in several files with an index; private to checkpoint*.c. */
#ifndef WEIGHTS_CHECKPOINT_SHARDS_H
#define WEIGHTS_CHECKPOINT_SHARDS_H

#include "weights/checkpoint.h"

/* By its name: "*.index.json". */
bool checkpoint_is_index(const char *path);
/*
 * Reads out->weights_path, an index as transformers writes it - {"weight_map": {TENSOR: FILE}},
 * transformers/modeling_utils.py - opens its files and takes over their tensors, every one where
 * the index says. ST_IO, ST_FORMAT.
 */
enum status checkpoint_open_shards(struct checkpoint *out) MUST_CHECK;
/* checkpoint.c: one file, without what lies beside it. */
enum status checkpoint_open_file(const char *path, struct checkpoint *out) MUST_CHECK;

#endif
