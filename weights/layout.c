/*
 * layout: see layout.h. A canonical index runs over the source's axes in another order, each with
 * its stride; neighbours of the canonical last axis are gathered, a block at a time, and widened.
 */
#include "weights/layout.h"

#include <string.h>

#define BLOCK 512 /* elements gathered at a time */

static const struct {
    const char *name;
    int rank;     /* of the source; 0: any */
    int order[4]; /* source axes in canonical order */
    int first;    /* how many of them make the first canonical axis; the others one each, or ... */
    bool folded;  /* ... one together */
} layouts[] = {
    [LAYOUT_SAME] = {"array", 0, {0}, 1, false},
    [LAYOUT_ROWS] = {"(rows, width) table", 0, {0}, 1, false},
    [LAYOUT_FLAT] = {"array", 0, {0}, 0, true},
    [LAYOUT_MATRIX] = {"(in, out) matrix", 2, {1, 0}, 1, false},
    [LAYOUT_CONV] = {"(height, width, in, out) kernel", 4, {3, 2, 0, 1}, 1, false},
    [LAYOUT_HEADS_IN] = {"(in, heads, width) kernel", 3, {1, 2, 0}, 2, false},
    [LAYOUT_HEADS_OUT] = {"(heads, width, out) kernel", 3, {2, 0, 1}, 1, true},
};

const char *layout_name(enum layout layout) {
    return layouts[layout].name;
}

bool layout_moves(enum layout layout) {
    return layouts[layout].rank > 0;
}

/* Heads that were folded into one axis already are a matrix. */
static enum layout layout_of(enum layout layout, const struct tensor *tensor) {
    const bool heads = layout == LAYOUT_HEADS_IN || layout == LAYOUT_HEADS_OUT;
    return heads && tensor->rank == 2 ? LAYOUT_MATRIX : layout;
}

static int axis_of(enum layout layout, int place) {
    return layouts[layout].rank ? layouts[layout].order[place] : place;
}

bool layout_shape(enum layout layout, const struct tensor *tensor, size_t *dims, int *rank) {
    int next = 0;
    layout = layout_of(layout, tensor);
    if (layouts[layout].rank && layouts[layout].rank != tensor->rank) return false;
    memset(dims, 0, TENSOR_MAX_RANK * sizeof *dims);
    if (layout == LAYOUT_SAME) {
        memcpy(dims, tensor->dims, sizeof tensor->dims);
        *rank = tensor->rank;
        return true;
    }
    if (layout == LAYOUT_ROWS) {
        dims[0] = 1;
        memcpy(dims + 1, tensor->dims, 2 * sizeof *dims);
        *rank = 3;
        return tensor->rank == 2;
    }
    if (layout == LAYOUT_FLAT) {
        dims[0] = tensor_count(tensor);
        *rank = 1;
        return true;
    }
    for (int place = 0; place < tensor->rank; place++) {
        const size_t size = tensor->dims[axis_of(layout, place)];
        const bool joins = place > 0 && (place < layouts[layout].first ||
                                         (layouts[layout].folded && place > layouts[layout].first));
        if (joins)
            dims[next - 1] *= size; /* of one tensor: its count was checked */
        else
            dims[next++] = size;
    }
    *rank = next;
    return true;
}

/* The source's axes in canonical order: sizes and strides in elements. */
struct walk {
    int axes;
    size_t size[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK], index[TENSOR_MAX_RANK];
};

static void walk_begin(const struct tensor *tensor, enum layout layout, size_t first,
                       struct walk *walk) {
    size_t strides[TENSOR_MAX_RANK], step = 1;
    for (int i = 0; i < tensor->rank; i++) {
        const int axis = tensor->column_major ? i : tensor->rank - 1 - i;
        strides[axis] = step;
        step *= tensor->dims[axis];
    }
    walk->axes = tensor->rank;
    for (int place = walk->axes - 1; place >= 0; place--) {
        const int axis = axis_of(layout, place);
        walk->size[place] = tensor->dims[axis];
        walk->stride[place] = strides[axis];
        walk->index[place] = first % walk->size[place];
        first /= walk->size[place];
    }
}

/* Whether the canonical order is that of memory. */
static bool walk_is_straight(const struct walk *walk) {
    size_t step = 1;
    for (int place = walk->axes - 1; place >= 0; place--) {
        if (walk->size[place] > 1 && walk->stride[place] != step) return false;
        step *= walk->size[place];
    }
    return true;
}

/* Up to `most` elements of the last axis into raw; how many, the walk then behind them. */
static size_t gather(const struct tensor *tensor, struct walk *walk, size_t most, uint8_t *raw) {
    const size_t element = dtype_size(tensor->dtype);
    int last = walk->axes - 1;
    size_t offset = 0, left = walk->size[last] - walk->index[last], count;
    const size_t stride = walk->stride[last] * element;
    count = left < most ? left : most;
    for (int place = 0; place <= last; place++)
        offset += walk->index[place] * walk->stride[place];
    const uint8_t *from = tensor->data + offset * element;
    if (element == 4) {
        for (size_t i = 0; i < count; i++)
            memcpy(raw + 4 * i, from + i * stride, 4);
    } else {
        for (size_t i = 0; i < count; i++)
            memcpy(raw + element * i, from + i * stride, element);
    }
    walk->index[last] += count;
    for (; last > 0 && walk->index[last] == walk->size[last]; last--) {
        walk->index[last] = 0;
        walk->index[last - 1]++;
    }
    return count;
}

enum status layout_read(const struct tensor *tensor, enum layout layout, size_t first, size_t count,
                        float *dst) {
    uint8_t raw[BLOCK * 8];
    struct walk walk;
    layout = layout_of(layout, tensor);
    if (layouts[layout].rank && layouts[layout].rank != tensor->rank)
        return fail(ST_SHAPE, "%s is no %s", tensor->name, layouts[layout].name);
    if (count == 0) return ST_OK;
    walk_begin(tensor, layout, first, &walk);
    if (dtype_size(tensor->dtype) == 0 || walk_is_straight(&walk))
        return tensor_to_f32(tensor->data + first * dtype_size(tensor->dtype), tensor->dtype, count,
                             dst);
    for (size_t done = 0, n; done < count; done += n) {
        n = gather(tensor, &walk, count - done < BLOCK ? count - done : BLOCK, raw);
        TRY(tensor_to_f32(raw, tensor->dtype, n, dst + done));
    }
    return ST_OK;
}
