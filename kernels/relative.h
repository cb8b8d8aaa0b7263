/*
 * relative: tables of relative-position bias: which entry a pair of tokens takes, and how a stored
 * table is made one of another map.
 *
 * A table belongs to an h x w map with `prefix` tokens in front of it (class, registers): one entry
 * for each offset of two patches, row-major over (dy, dx) from -(h-1), -(w-1), and where there are
 * prefix tokens three more, which all of them share: from a prefix token to a patch, from a patch
 * to a prefix token, from a prefix token to another or itself. As BEiT's class token (timm's
 * gen_relative_position_index).
 */
#ifndef KERNELS_RELATIVE_H
#define KERNELS_RELATIVE_H

#include "kernels/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RELATIVE_FROM_PREFIX, RELATIVE_TO_PREFIX, RELATIVE_IN_PREFIX, RELATIVE_EXTRA };

#define RELATIVE_MAX_SIDE 4096 /* of a map: what counts entries stays far inside an int */

/* Entries of a head. */
static inline int relative_entries(int h, int w, int prefix) {
    return (2 * h - 1) * (2 * w - 1) + (prefix > 0 ? (int)RELATIVE_EXTRA : 0);
}

/*
 * The entry that a query token and a key token take, counted with the prefix:
 * (yq - yk + h-1) * (2w-1) + (xq - xk + w-1) for two patches, else one of the last three.
 */
static inline int relative_index(int h, int w, int prefix, int query, int key) {
    int q = query - prefix, k = key - prefix, last = (2 * h - 1) * (2 * w - 1);
    if (q < 0) return last + (k < 0 ? (int)RELATIVE_IN_PREFIX : (int)RELATIVE_FROM_PREFIX);
    if (k < 0) return last + (int)RELATIVE_TO_PREFIX;
    return (q / w - k / w + h - 1) * (2 * w - 1) + q % w - k % w + w - 1;
}

/*
 * dst ((2*to_h-1)*(2*to_w-1), H) = src ((2*from_h-1)*(2*from_w-1), H) by timm's geometric rule
 * (resize_rel_pos_bias_table): stored offsets are spread so that their distances grow by a ratio q
 * found by bisection in [1.01, 1.5], then interpolated linearly; beyond the last the value stands.
 * Without the three entries of prefix tokens, which stay as they are. Equal maps are copied.
 * ST_NOMEM.
 */
enum status relative_resample(const float *src, int from_h, int from_w, float *dst, int to_h,
                              int to_w, int heads) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
