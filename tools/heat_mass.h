/*
 * heat_mass: the few cells of a map that hold most of it, and the box around them.
 */
#ifndef TOOLS_HEAT_MASS_H
#define TOOLS_HEAT_MASS_H

#include "datasets/image.h"
#include "datasets/placement.h"

/*
 * keep (count) = 1 for the smallest set of cells that holds at least mass * the sum of map (count),
 * else 0: the greatest first, equal ones by their index (up to 1e-9 of the sum short, which
 * rounding may cost). Nothing of a map of zeros. ST_USAGE for a mass outside 0..1, a cell below 0
 * or not finite; ST_NOMEM.
 */
enum status heat_mass(const float *map, size_t count, double mass, uint8_t *keep) MUST_CHECK;

/* The pixels around all kept cells of keep (rows, columns); empty without any. */
struct pixel_box heat_mass_box(const uint8_t *keep, const struct grid_place *place);

/*
 * On `picture`, whose size place has: what is not kept grows dark, the kept cells get a thin white
 * outline, their box a frame of `color`. ST_USAGE where sizes do not agree; ST_NOMEM.
 */
enum status heat_mass_draw(const uint8_t *keep, const struct grid_place *place, uint32_t color,
                           struct image *picture) MUST_CHECK;

#endif
