/*
 * capture: the probabilities of chosen layers, handed out while a pass runs, one layer at a time.
 *
 *   vit_forward, swin_forward -> capture_attention -> op_attention with probs -> capture.take
 *
 * A pass has room for one layer's probabilities (and greatest scores, where they are wanted);
 * whoever takes them keeps what it needs of them (for a rollout (T, T) of each layer). They are in
 * host memory: on a CPU where the op left them, from a GPU a copy. What else the pass leaves behind
 * has the bits of a pass without capture.
 */
#ifndef KERNELS_CAPTURE_H
#define KERNELS_CAPTURE_H

#include "kernels/ops.h"
#include "kernels/windows.h"

/*
 * What the probabilities of a layer are of. Its tokens are P prefix tokens, then a map of patches.
 * Without windows W is 1, the keys are all T tokens and the queries the first of them; with windows
 * P is 0, queries and keys are the slots of a window. Of an attention pool: one query that is no
 * token, the keys are the patches alone (P = 0).
 */
struct attention_shape {
    int heads;                  /* H */
    int prefix;                 /* P */
    struct window_grid map;     /* grid_h x grid_w patches; the rest counts with `windowed` only */
    bool windowed;              /* else every query sees every key */
    int windows, queries, keys; /* W, and of a window's probabilities the rows and columns */
};

/* Without windows. */
struct attention_shape attention_shape_full(int heads, int prefix, int grid_h, int grid_w);
struct attention_shape attention_shape_windows(int heads, const struct window_grid *map);

/* T = P + grid_h*grid_w */
int attention_shape_tokens(const struct attention_shape *shape);
/* Query rows of an image's probabilities, W*H*queries. */
int attention_shape_rows(const struct attention_shape *shape);
/* Floats of an image's probabilities (W, H, queries, keys); of one head's. */
size_t attention_shape_floats(const struct attention_shape *shape);
size_t attention_shape_head_floats(const struct attention_shape *shape);
/* token (keys): the token that each slot of a window stands for, -1 where it is padding. */
void attention_shape_window(const struct attention_shape *shape, int window, int *token);

struct captured {
    int layer;
    int first, batch; /* images [first, first + batch) of what the taker asked for */
    struct attention_shape shape;
    const float *probs; /* (batch, W, H, queries, keys), until `take` returns; the rows of padding
                           slots say nothing */
    const float *greatest; /* (batch, W, H, queries), likewise: each row's greatest score, of the
                              device's precision (fp16: inf from 65520 on); NULL: not asked for */
};

struct capture {
    const bool *layers; /* (L), of a ViT with an attention pool (L + 1): those that are wanted;
                           NULL: all */
    bool head_rows;     /* of the last layer only the rows that the head reads, where it reads
                           tokens */
    bool scores;        /* the greatest scores too */
    int first;          /* the number of the pass's first image */
    /*
     * Called in the order of the layers (of gradients from the last on), in the thread that runs
     * the pass. When a pass is repeated (with less memory), the same images come again.
     */
    void (*take)(void *context, const struct captured *layer);
    void *context;
};

bool capture_wants(const struct capture *capture, int layer); /* NULL: nothing */

/* Where the probabilities of one layer lie during a pass. Starts zeroed. */
struct capture_room {
    struct arena arena; /* the device's */
    struct act region;  /* (B, W*H*queries, keys) of the largest layer */
    struct act scores;  /* (B, W*H*queries, 1) of the layer with the most rows; or data NULL */
    float *host;        /* region's, where the device's memory is not the host's */
    float *host_scores; /* scores', behind it */
};

/*
 * Room for `batch` images, kept if it is there already: nothing of it is planned, so that a pass
 * without capture costs no memory. largest: the layer with the most probabilities; score_rows: the
 * most attention_shape_rows of any layer, 0 where no scores are wanted. ST_NOMEM.
 */
enum status capture_reserve(struct backend *be, struct capture_room *room,
                            const struct attention_shape *largest, int score_rows,
                            int batch) MUST_CHECK;
void capture_release(struct backend *be, struct capture_room *room);

/*
 * probs (B, W*H*queries, keys) of a layer to capture->take; `host`: room for them where the
 * device's memory is not the host's; greatest (B, W*H*queries) on the host, or NULL.
 */
void capture_hand_out(struct backend *be, const struct capture *capture, int layer,
                      struct attention_shape shape, struct act probs, float *host,
                      const float *greatest);

/*
 * op_attention with its probabilities to capture->take; shape->queries is q's tokens (without
 * windows). Returns whether y is what op_attention makes of it without: a GPU has other kernels
 * then, and the caller calls it again.
 */
bool capture_attention(struct backend *be, const struct capture_room *room,
                       const struct capture *capture, int layer,
                       const struct attention_shape *shape, const struct attention *desc,
                       struct act q, struct act k, struct act v, struct act y);

#endif
