/*
 * preprocess: an upright picture to the pixels a model sees: resize, then crop (timm's,
 * torchvision's and transformers' rules). Normalisation ((x/255 - mean)/std) is the patch
 * embedding's. A picture smaller than the crop is padded, with black or, by CROP_BORDER, with the
 * mean colour.
 */
#ifndef DATASETS_PREPROCESS_H
#define DATASETS_PREPROCESS_H

#include "datasets/image.h"
#include "datasets/resize.h"

enum crop_mode {
    CROP_CENTER, /* short side to scale size, long side int(scale*long/short), centre crop; where
                    the scale sizes differ both sides are divided by the smaller ratio, rounded */
    CROP_SQUASH, /* both sides to scale size, aspect ratio ignored, centre crop */
    CROP_BORDER  /* long side fits into scale size, rounded; padded with round(255*mean) */
};

enum crop_rounding {
    ROUND_HALF_EVEN, /* crop offset as torchvision and timm: round((H-c)/2), halves to even */
    ROUND_FLOOR      /* as transformers: (H-c)/2 rounded down */
};

struct preprocess {
    int height, width; /* what the model sees */
    double crop_pct;   /* scale size = floor(side / crop_pct), each axis */
    enum crop_mode crop_mode;
    enum crop_rounding rounding;
    enum filter interpolation;
    double mean[3], std[3]; /* of RGB in 0..1 */
};

/* Where the model's pixels came from, for placing maps back onto the picture. */
struct placement {
    int resized_w, resized_h; /* the whole resized picture */
    int x, y;                 /* the model's (0, 0) in it; negative where it was padded */
};

const char *crop_mode_name(enum crop_mode mode);
bool crop_mode_find(const char *name, enum crop_mode *out);
const char *crop_rounding_name(enum crop_rounding rounding);
bool crop_rounding_find(const char *name, enum crop_rounding *out);

/*
 * dst (height, width, 3) uint8; `placement` may be NULL. ST_USAGE for impossible settings,
 * ST_FORMAT for a picture so thin that its scaled long side passes 2^31 pixels, ST_NOMEM.
 */
enum status preprocess_image(const struct preprocess *rule, const struct image *image, uint8_t *dst,
                             struct placement *placement) MUST_CHECK;

#endif
