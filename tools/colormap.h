/*
 * colormap: numbers of 0..1 as colours.
 */
#ifndef TOOLS_COLORMAP_H
#define TOOLS_COLORMAP_H

#include "kernels/base.h"

enum colormap {
    COLORMAP_VIRIDIS,
    COLORMAP_MAGMA,
    COLORMAP_INFERNO,
    COLORMAP_PLASMA,
    COLORMAP_CIVIDIS, /* the same to a colour-blind eye */
    COLORMAP_GRAY,
    COLORMAP_TURBO
};
#define COLORMAP_COUNT 7

/* "viridis", "magma", ... <-> enum; find returns false when there is no such map. */
const char *colormap_name(enum colormap map);
bool colormap_find(const char *name, enum colormap *out);

/*
 * 0xRRGGBB of entry floor(256 t) of 256, as matplotlib takes it. t below 0, above 1 or not a number
 * is the first, the last and the first.
 */
uint32_t colormap_color(enum colormap map, float t);

#endif
