/*
 * heat_map: a map of numbers over the model's grid as colours, alone or on the picture it is of.
 *
 * A map is float (h, w), row-major. Between cells it is read in edges: cell j covers [j, j+1), its
 * value stands at its middle, j + 0.5. The pictures are drawn row by row: beside the picture itself
 * only a few numbers per row and column are held.
 */
#ifndef TOOLS_HEAT_MAP_H
#define TOOLS_HEAT_MAP_H

#include "datasets/image.h"
#include "datasets/placement.h"
#include "tools/colormap.h"

/*
 * nearest: the value of the cell. bicubic: Keys' kernel with a = -0.5 (Pillow's; straight lines and
 * parabolas come out as they are), cells outside the map as their nearest inside; what overshoots
 * is brought back into the range of the map's own values.
 */
enum heat_filter { HEAT_NEAREST, HEAT_BICUBIC };
const char *heat_filter_name(enum heat_filter filter);
bool heat_filter_find(const char *name, enum heat_filter *out);

/*
 * out (out_h, out_w) = map (h, w) at another size, larger or smaller. ST_USAGE for a size below 1;
 * ST_NOMEM.
 */
enum status heat_resize(const float *map, int h, int w, enum heat_filter filter, float *out,
                        int out_h, int out_w) MUST_CHECK;

/* The values that get the first and the last colour; those beyond are drawn as these. */
struct heat_range {
    float low, high;
};

/*
 * The least and the greatest of map (count), or 0 and the greatest (`from_zero`; for shares that
 * sum to 1). Numbers that are not finite are left out; without any, 0 and 0.
 */
struct heat_range heat_range_of(const float *map, size_t count, bool from_zero);

/* (value - low) / (high - low), kept in 0..1; 0 where the range is empty or the value is NaN. */
float heat_place(struct heat_range range, float value);

struct heat_style {
    enum colormap colormap;
    enum heat_filter filter;
    struct heat_range range;
    float opacity; /* 0..1: pixel = (1 - opacity) * picture + opacity * colour */
    bool fade;     /* opacity is multiplied by heat_place: the picture stays where little is */
};

/* viridis, bicubic, 0.6, no fade, and the range of this map from its least to its greatest. */
struct heat_style heat_defaults(const float *map, size_t count);

/*
 * The map (place->rows, place->columns) laid over `picture`, whose size place has; in place. Pixels
 * that the model did not see (grid_place_seen) turn grey and dark. ST_USAGE where sizes do not
 * agree; ST_NOMEM.
 */
enum status heat_overlay(const struct heat_style *style, const float *map,
                         const struct grid_place *place, struct image *picture) MUST_CHECK;

/* The map (h, w) stretched over `box` of a canvas, over what is there by style->opacity. */
enum status heat_draw(const struct heat_style *style, const float *map, int h, int w,
                      struct image *canvas, struct pixel_box box) MUST_CHECK;

#endif
