/*
 * json: JSON from outside, bounded before it is parsed: 64 levels, 200000 values. `file` is for
 * sentences.
 */
#ifndef WEIGHTS_JSON_H
#define WEIGHTS_JSON_H

#include "kernels/base.h"

struct cJSON;

/* A JSON object, to be cJSON_Delete'd; *out is NULL after a failure. ST_FORMAT. */
enum status json_parse(const char *text, size_t size, const char *file,
                       struct cJSON **out) MUST_CHECK;

/*
 * Reading JSON: an absent key leaves *out as it was; another type or range is ST_FORMAT naming
 * `file` and the key.
 */
enum status json_int(const struct cJSON *object, const char *file, const char *key, int lo, int hi,
                     int *out) MUST_CHECK;
enum status json_double(const struct cJSON *object, const char *file, const char *key, double lo,
                        double hi, double *out) MUST_CHECK;
enum status json_word(const struct cJSON *object, const char *file, const char *key,
                      const char **out) MUST_CHECK;
/* A number, or a list of up to `limit` numbers or pairs of equal ones; *count 0: absent. */
enum status json_ints(const struct cJSON *object, const char *file, const char *key, int lo, int hi,
                      int limit, int *out, int *count) MUST_CHECK;

#endif
