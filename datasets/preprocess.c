/*
 * preprocess: see preprocess.h. image (h, w, 3) -> resized to plan.out -> dst (height, width, 3).
 *
 * The sizes follow timm 1.0 (create_transform), torchvision 0.29 (Resize, CenterCrop) and
 * transformers 5 (center_crop); only the part that the crop keeps is ever computed.
 */
#include "datasets/preprocess.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const char *const mode_names[] = {"center", "squash", "border"};
static const char *const rounding_names[] = {"half_even", "floor"};

static bool name_find(const char *const *names, size_t count, const char *name, int *out) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (int)i;
        return true;
    }
    return false;
}

const char *crop_mode_name(enum crop_mode mode) {
    return (size_t)mode < COUNT_OF(mode_names) ? mode_names[mode] : "unknown";
}

bool crop_mode_find(const char *name, enum crop_mode *out) {
    int found;
    if (!name_find(mode_names, COUNT_OF(mode_names), name, &found)) return false;
    *out = (enum crop_mode)found;
    return true;
}

const char *crop_rounding_name(enum crop_rounding rounding) {
    return (size_t)rounding < COUNT_OF(rounding_names) ? rounding_names[rounding] : "unknown";
}

bool crop_rounding_find(const char *name, enum crop_rounding *out) {
    int found;
    if (!name_find(rounding_names, COUNT_OF(rounding_names), name, &found)) return false;
    *out = (enum crop_rounding)found;
    return true;
}

/* To the nearest whole number, halves to even (Python's round); rint does so by default. */
static double round_even(double x) {
    return rint(x);
}

static enum status preprocess_check(const struct preprocess *rule, const struct image *image) {
    const int most = 1 << 16;
    if (rule->height < 1 || rule->width < 1 || rule->height > most || rule->width > most)
        return fail(ST_USAGE, "the model's input is %d x %d, want 1 to %d a side", rule->width,
                    rule->height, most);
    if (!(rule->crop_pct >= 0.01 && rule->crop_pct <= 100.0))
        return fail(ST_USAGE, "crop-pct is %g, want 0.01 to 100", rule->crop_pct);
    if ((size_t)rule->crop_mode >= COUNT_OF(mode_names) ||
        (size_t)rule->rounding >= COUNT_OF(rounding_names))
        return fail(ST_USAGE, "there is no crop mode %d or rounding %d", (int)rule->crop_mode,
                    (int)rule->rounding);
    if (floor(rule->height / rule->crop_pct) < 1 || floor(rule->width / rule->crop_pct) < 1)
        return fail(ST_USAGE, "crop-pct %g leaves nothing of a %d x %d input", rule->crop_pct,
                    rule->width, rule->height);
    if (image->width < 1 || image->height < 1 || !image->rgb)
        return fail(ST_USAGE, "the picture is %d x %d", image->width, image->height);
    return ST_OK;
}

/* Sizes as doubles: a strip of 1 x 10^8 pixels, its short side scaled to 256, passes 2^31. */
struct plan {
    double width, height; /* of the whole resized picture */
};

/*
 * The size of the resized picture.
 *   squash  each side to its own scale size.
 *   border  ResizeKeepRatio(longest=1): divide by the larger of the two ratios, sides rounded.
 *   center  square: Resize(int): short side to the scale size s, long side to int(s*long/short).
 *           Otherwise ResizeKeepRatio(longest=0): divide by the smaller ratio, sides rounded.
 *           (timm 1.0.31 filters that as asked; up to 1.0.28 it was bilinear whatever was asked.)
 * A side that rounds to 0 (where the originals raise an error) becomes 1.
 */
static struct plan plan_size(const struct preprocess *rule, double width, double height) {
    double scale_w = floor(rule->width / rule->crop_pct);
    double scale_h = floor(rule->height / rule->crop_pct);
    double ratio_w = width / scale_w, ratio_h = height / scale_h, ratio;
    struct plan plan = {scale_w, scale_h};
    if (rule->crop_mode == CROP_SQUASH) return plan;
    if (rule->crop_mode == CROP_CENTER && scale_w == scale_h) {
        if (width <= height)
            plan.height = floor(scale_w * height / width);
        else
            plan.width = floor(scale_h * width / height);
        return plan;
    }
    ratio = rule->crop_mode == CROP_CENTER ? fmin(ratio_w, ratio_h) : fmax(ratio_w, ratio_h);
    plan.width = fmax(round_even(width / ratio), 1);
    plan.height = fmax(round_even(height / ratio), 1);
    return plan;
}

/*
 * Where the crop of `crop` pixels begins in a side of `side` pixels. Negative: that many pixels of
 * padding. torchvision and timm pad (crop-side)/2 rounded down in front and crop at the half
 * rounded to even; transformers rounds (side-crop)/2 down, whatever its sign.
 */
static int crop_start(int side, int crop, enum crop_rounding rounding) {
    double half = ((double)side - crop) / 2;
    if (rounding == ROUND_FLOOR) return (int)floor(half);
    return side < crop ? -((crop - side) / 2) : (int)round_even(half);
}

/* The parts of one axis: [from, from+count) of the resized picture lands at dst pixel `to`. */
struct span {
    int from, to, count;
};

static struct span span_make(int side, int crop, int start) {
    struct span span = {start < 0 ? 0 : start, start < 0 ? -start : 0, 0};
    int room = crop - span.to, have = side - span.from;
    span.count = room < have ? room : have;
    return span;
}

/* border pads with the mean colour, the others with black, both before normalisation. */
static void fill(const struct preprocess *rule, uint8_t *dst) {
    size_t pixels = (size_t)rule->width * (size_t)rule->height;
    uint8_t color[3] = {0, 0, 0};
    for (int c = 0; c < 3 && rule->crop_mode == CROP_BORDER; c++)
        color[c] = (uint8_t)fmin(fmax(round_even(255 * rule->mean[c]), 0), 255);
    for (size_t i = 0; i < pixels; i++)
        memcpy(dst + i * 3, color, 3);
}

/* A picture smaller than the crop: fill, then the resized part in its place. */
static enum status resize_padded(const struct preprocess *rule, struct resize *job,
                                 const struct span *x, const struct span *y, uint8_t *dst) {
    size_t row = (size_t)x->count * 3;
    uint8_t *part = mem_zalloc((size_t)y->count, row);
    enum status st = part ? resize_rgb(job, part) : ST_NOMEM;
    if (st == ST_OK) {
        fill(rule, dst);
        for (int i = 0; i < y->count; i++)
            memcpy(dst + ((size_t)(y->to + i) * (size_t)rule->width + (size_t)x->to) * 3,
                   part + (size_t)i * row, row);
    }
    mem_free(part);
    return st;
}

enum status preprocess_image(const struct preprocess *rule, const struct image *image, uint8_t *dst,
                             struct placement *placement) {
    struct resize job = {0};
    struct placement place;
    struct span x, y;
    struct plan plan;
    TRY(preprocess_check(rule, image));
    plan = plan_size(rule, image->width, image->height);
    if (plan.width > INT_MAX || plan.height > INT_MAX)
        return fail(ST_FORMAT, "a picture of %d x %d would become %.0f x %.0f: too thin to scale",
                    image->width, image->height, plan.width, plan.height);
    place.resized_w = (int)plan.width;
    place.resized_h = (int)plan.height;
    place.x = crop_start(place.resized_w, rule->width, rule->rounding);
    place.y = crop_start(place.resized_h, rule->height, rule->rounding);
    x = span_make(place.resized_w, rule->width, place.x);
    y = span_make(place.resized_h, rule->height, place.y);
    job.src = image->rgb;
    job.src_w = image->width;
    job.src_h = image->height;
    job.out_w = place.resized_w;
    job.out_h = place.resized_h;
    job.crop_x = x.from;
    job.crop_y = y.from;
    job.crop_w = x.count;
    job.crop_h = y.count;
    job.filter = rule->interpolation;
    if (x.count == rule->width && y.count == rule->height)
        TRY(resize_rgb(&job, dst));
    else
        TRY(resize_padded(rule, &job, &x, &y, dst));
    if (placement) *placement = place;
    return ST_OK;
}
