/*
 * describe: what a model file's /config says, on stdout, for a person: lines, then a table of the
 * model's parts. Nothing is loaded or run.
 */
#ifndef TOOLS_DESCRIBE_H
#define TOOLS_DESCRIBE_H

#include "weights/config.h"

/*
 * `family` as in model_info. *classes = K, 0 = no head. ST_FORMAT: the config is impossible, or of
 * a family that this version does not know.
 */
enum status describe_config(struct h5 *file, const char *family, int *classes) MUST_CHECK;

#endif
