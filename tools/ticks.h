/*
 * ticks: round numbers along an axis, and numbers as short text.
 */
#ifndef TOOLS_TICKS_H
#define TOOLS_TICKS_H

#include "kernels/base.h"

#define TICKS_MOST 16

struct ticks {
    double step; /* 1, 2 or 5 times a power of ten */
    int count;
    double values[TICKS_MOST]; /* (count) the multiples of step from low to high */
    char text[TICKS_MOST][24]; /* (count) each with the digits that tell it from its neighbours */
};

/*
 * The smallest step of which at most `most` (2..TICKS_MOST) multiples lie in low..high; whole: and
 * a step of at least 1. One tick, at low, where the range is empty or not finite.
 */
struct ticks ticks_make(double low, double high, int most, bool whole);

/* value, to the digits that numbers `step` apart need: 0.05, 12, 2.5e-5. */
void ticks_text(double value, double step, char *text, size_t size);

#endif
