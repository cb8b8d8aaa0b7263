/* ticks: see ticks.h. */
#include "tools/ticks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bounds that miss a multiple of the step by rounding alone still hold it. */
#define SLACK 1e-9

/* 5e-05 to 5e-5. */
static void shorten(char *text) {
    char *at = strchr(text, 'e');
    const char *rest;
    if (!at) return;
    at += at[1] == '-' ? 2 : 1;
    for (rest = at; *rest == '0' || *rest == '+';)
        rest++;
    memmove(at, rest, strlen(rest) + 1);
}

void ticks_text(double value, double step, char *text, size_t size) {
    const double digit = isfinite(step) && step > 0 ? floor(log10(step) + SLACK) : 0;
    const double top = value != 0 && isfinite(value) ? floor(log10(fabs(value)) + SLACK) : digit;
    if (fabs(value) < step * SLACK) value = 0; /* nor -0 */
    if (value == 0)
        snprintf(text, size, "0");
    else if (digit >= -5 && top < 6)
        snprintf(text, size, "%.*f", digit < 0 ? (int)-digit : 0, value);
    else
        snprintf(text, size, "%.*e", top - digit > 0 ? (int)fmin(top - digit, 9) : 0, value);
    shorten(text);
}

static int multiples(double low, double high, double step, double *first) {
    *first = ceil(low / step - SLACK);
    return (int)fmin(floor(high / step + SLACK) - *first + 1, 1000);
}

struct ticks ticks_make(double low, double high, int most, bool whole) {
    static const double leads[] = {1, 2, 5};
    struct ticks ticks = {.count = 1, .values = {low}};
    double power, first;
    if (!(high > low) || !isfinite(high - low)) {
        ticks.step = pow(10, low != 0 && isfinite(low) ? floor(log10(fabs(low))) - 2 : 0);
        ticks_text(low, ticks.step, ticks.text[0], sizeof ticks.text[0]);
        return ticks;
    }
    power = floor(log10((high - low) / most));
    if (whole && power < 0) power = 0;
    for (int i = 0;; i++) {
        ticks.step = leads[i % 3] * pow(10, power + i / 3);
        ticks.count = multiples(low, high, ticks.step, &first);
        if (ticks.count <= most) break;
    }
    for (int i = 0; i < ticks.count; i++) {
        ticks.values[i] = (first + i) * ticks.step;
        ticks_text(ticks.values[i], ticks.step, ticks.text[i], sizeof ticks.text[i]);
    }
    return ticks;
}
