/*
 * faithfulness: whether a map names the patches that the model's answer hangs on: deletion and
 * insertion curves (Petsiuk et al. 2018).
 *
 *   deletion   the picture, its patches blurred in the order of the map, the greatest first
 *   insertion  the blurred picture, its patches made sharp in the same order
 *
 * and after every twentieth of the patches the probability of the class that is predicted of the
 * picture, or that the map is for. A faithful map has a small area under deletion and a large one
 * under insertion; a seeded random order of the same patches says what small and large are for this
 * picture.
 *
 *   faithfulness_open -> for each image: faithfulness_save -> faithfulness_tell ->
 *   faithfulness_release
 */
#ifndef TOOLS_FAITHFULNESS_H
#define TOOLS_FAITHFULNESS_H

#include "tools/attention_files.h"

enum {
    FAITHFULNESS_STEPS = 20,
    FAITHFULNESS_POINTS = FAITHFULNESS_STEPS + 1,
    FAITHFULNESS_CURVES = 4, /* the map's deletion and insertion, then the random order's */
    FAITHFULNESS_BLUR = 8    /* the blurred picture is one of 8 x 8 pixels, enlarged by bicubic */
};

struct faithfulness {
    struct model *model; /* the caller's */
    uint64_t seed;
    uint8_t *pixels;  /* (CURVES, POINTS, height, width, 3) */
    uint8_t *blurred; /* (height, width, 3) */
    float *logits;    /* (CURVES, POINTS, K) */
    size_t images;    /* measured so far; the table's first line is out once there is one, */
    struct faithfulness_sum {
        double map, random;        /* of the areas */
        double difference, square; /* of map - random, and of its square */
    } sums[2];                     /* of deletion, of insertion */
};

struct faithfulness_curves {
    int class;                        /* whose probability it is */
    float share[FAITHFULNESS_POINTS]; /* of the patches changed */
    float probability[FAITHFULNESS_CURVES][FAITHFULNESS_POINTS];
    double area[FAITHFULNESS_CURVES]; /* by trapezoids, 0 to 1 */
};

/* ST_USAGE: a model without head; ST_NOMEM. On failure *out is released. */
enum status faithfulness_open(struct faithfulness *out, struct model *model,
                              uint64_t seed) MUST_CHECK;
void faithfulness_release(struct faithfulness *faithfulness); /* works on a zeroed struct, twice */

/*
 * pixels (height, width, 3) as the model sees them, map (rows, columns) over all of them; class -1:
 * the one predicted of the picture. One model_forward of CURVES * POINTS pictures, and its errors;
 * ST_FORMAT where its numbers are not finite.
 */
enum status faithfulness_measure(struct faithfulness *faithfulness, const uint8_t *pixels,
                                 const float *map, int rows, int columns, int class,
                                 struct faithfulness_curves *out) MUST_CHECK;

/*
 * A row of the table in attention_files.c: of each of the file's maps (rollout, or gradient of a
 * class) four lines on stdout (path, class, order, curve, area, then the probability at each share)
 * and STEM.faithfulness.png, of several classes STEM.faithfulness.class281.png.
 */
enum status faithfulness_save(const struct attention_file *file) MUST_CHECK;

/*
 * Behind the last image, of two or more, two lines on stderr: the mean areas of the maps and of the
 * random orders, and the mean of their difference with its 95 % interval (+- 1.96 s / sqrt(n)).
 */
void faithfulness_tell(const struct faithfulness *faithfulness);

#endif
