/*
 * model_write: a checkpoint's model with its self-test in it. The model is run once on a picture
 * made by a formula; the answer goes into the file, and `inspect --verify` repeats it.
 */
#ifndef TOOLS_MODEL_WRITE_H
#define TOOLS_MODEL_WRITE_H

#include "weights/convert.h"

/*
 * Writes what convert_plan planned to `path`, by way of files beside it; renamed when whole. A
 * model that cannot be run, or not to finite numbers, is an error: its conversion was wrong. Fills
 * in c's name from `path` when it has none. The checkpoint is released before the model runs, so
 * that the two are not in memory at once.
 */
enum status model_write(struct checkpoint *checkpoint, const struct convert_options *options,
                        struct conversion *c, const char *path) MUST_CHECK;

#endif
