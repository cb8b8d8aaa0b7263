/*
 * attention_stats: numbers of every head: how wide, how far and how sharply it looks; kind `stats`
 * of `vitrine attention --save`.
 *
 *   attention_open -> attention_stats_open -> for each batch: model_forward with stats.capture ->
 *   attention_stats_save -> attention_stats_release
 *
 * They are of all queries of a layer, whatever --query asks for, and made while the pass runs: no
 * probabilities are kept.
 */
#ifndef TOOLS_ATTENTION_STATS_H
#define TOOLS_ATTENTION_STATS_H

#include "tools/attention.h"
#include "tools/attention_files.h"

/*
 * A head whose greatest score is above this is said to explode. Softmax sees differences alone, but
 * at 100 two neighbouring numbers of bf16 are 0.5 apart, which is a factor of 1.6 in probability
 * (of fp16 0.06, 1.06), e^100 is beyond fp32, and who is 100 behind gets less than fp32's least
 * normal number. Scores that keep growing are where attention's entropy collapses and training
 * breaks (Zhai et al. 2023, sigmaReparam; Dehghani et al. 2023, ViT-22B: those of an 8B model went
 * past 50 000); Kimi K2's QK-Clip holds them to 100 in training, Swin v2's cosine scores are at
 * most 100 + 16 of bias. A reason to look, no proof of harm: a trained DINOv2 ViT-S/14 has 1 to 3
 * such heads of 72, the greatest of 294 to 326 over four photos.
 */
#define ATTENTION_STATS_BOUND 100.0

/*
 * Means are over the head's queries. Padding slots of windows are neither queries nor keys: what
 * they get is left out and the rest made to sum to 1; a query that gives them all is left out.
 */
struct attention_head_stats {
    double entropy;  /* nats, of -sum p ln p */
    double share;    /* of entropy / ln(keys that the query may see); 0 of a query that sees one */
    double distance; /* patch queries alone: sum over patches of p |query - key| / sum of p, between
                        centres, in pixels of the model's input ("mean attention distance",
                        Dosovitskiy et al. 2020, fig. 7). NaN: nothing goes to patches */
    double greatest; /* before the softmax: scaled, with bias; of any query and key */
    double prefix;   /* share of the probability on prefix tokens */
};

/* Of one window; room for a shape's keys. */
struct attention_stats_room {
    int *token, *region; /* of each slot: its token, -1 is padding; slots of one see each other */
    float *y, *x;        /* centres of patches, pixels */
};

/*
 * Of an image's head: probs (W, H, queries, keys) and greatest (W, H, queries) as in struct
 * captured, queries = keys; a patch is pixels[0] high and pixels[1] wide.
 */
void attention_stats_head(const struct attention_shape *shape, const double pixels[2],
                          const float *probs, const float *greatest, int head,
                          const struct attention_stats_room *room,
                          struct attention_head_stats *out);

struct attention_stats {
    const struct attention_maps *maps;
    const struct capture *inner;        /* who takes the layers first */
    struct capture capture;             /* of the pass */
    struct attention_head_stats *heads; /* (batch, depth, most_heads): layers and heads wanted */
    int most_heads;
    struct attention_stats_room *rooms; /* (batch) */
    int *ints;                          /* (batch, 2, most): theirs */
    float *floats;                      /* the same */
    bool quiet;
    size_t kept_bytes;
};

/*
 * Of the layers and heads that maps' options want. maps (opened with options.whole) and inner, a
 * capture of these layers or more, stay where they are and outlive the struct. quiet: nothing is
 * said of scores that explode. ST_NOMEM; on failure *out is released.
 */
enum status attention_stats_open(struct attention_stats *out, const struct attention_maps *maps,
                                 const struct capture *inner, bool quiet) MUST_CHECK;
void attention_stats_release(struct attention_stats *stats); /* works on a zeroed one, and twice */

/* Of image i of the last pass. */
const struct attention_head_stats *attention_stats_of(const struct attention_stats *stats, int i,
                                                      int layer, int head);

/*
 * The kind's: STEM.stats.csv, a line a layer and head, and a line on stderr where scores explode.
 * ST_FORMAT where numbers are not finite; ST_IO.
 */
enum status attention_stats_save(const struct attention_file *file) MUST_CHECK;

#endif
