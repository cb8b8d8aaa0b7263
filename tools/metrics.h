/*
 * metrics: what labelled predictions add up to. Every number is a function of the outcomes in the
 * order they were added, and an outcome is a function of one row of a prediction file; so a run
 * that was cut and resumed, or done in shards and merged, ends in the same bits.
 *
 * K classes; an outcome is an image with a known class and a prediction.
 */
#ifndef TOOLS_METRICS_H
#define TOOLS_METRICS_H

#include "kernels/base.h"

struct outcome {
    int target, best;  /* its class; the most probable one */
    int rank;          /* of the target among the classes, from 1; ties to the lower index */
    float confidence;  /* the probability of `best` */
    float target_prob; /* the probability of `target` */
};

/* A pair of classes and how often the first was taken for the second. */
struct metrics_pair {
    int target, best;
    uint64_t count;
};

struct metrics_bin {
    uint64_t images, correct;
    double confidence; /* summed */
};

struct metrics {
    int classes, topk, bin_count;
    uint64_t images, hits, topk_hits; /* outcomes; rank 1; rank <= topk */
    double nll;                       /* summed -log(target_prob) */
    struct metrics_bin *bins;         /* (bin_count): (i/n, (i+1)/n], 0 in the first */
    struct metrics_class {
        uint64_t images, predicted, correct; /* with this target; with this best; with both */
    } * of_class;                            /* (K) */
    /* The confusion matrix's entries that are not 0, as an open-addressed table. */
    struct metrics_pair *pairs; /* (pair_room), a power of 2; count 0 = free */
    size_t pair_room, pair_count;
};

/* A share and the ends of its 95 % interval by Wilson's score. */
struct metrics_share {
    double share, low, high;
};

struct metrics_totals {
    struct metrics_share top1, topk;
    double mean_per_class; /* the mean recall of the classes that images have */
    /* Over the classes that images have or are given: plain means, and weighted by images. */
    double precision, recall, f1;
    double weighted_precision, weighted_recall, weighted_f1;
    double ece; /* sum over bins of share * |accuracy - mean confidence| (Guo et al. 2017) */
    double nll; /* mean -log of the target's probability, natural */
};

/* topk is cut to `classes`. ST_NOMEM. */
enum status metrics_init(struct metrics *metrics, int classes, int topk, int bins) MUST_CHECK;
void metrics_release(struct metrics *metrics); /* works on a zeroed struct, and twice */

/* target, best in [0, K), rank in [1, K]. ST_NOMEM. */
enum status metrics_add(struct metrics *metrics, const struct outcome *outcome) MUST_CHECK;

/* All 0 without an outcome. */
struct metrics_totals metrics_total(const struct metrics *metrics);

/* 0 where nothing is divided: a class never predicted, or without images (as scikit-learn). */
struct metrics_scores {
    double precision, recall, f1;
} metrics_scores(const struct metrics *metrics, int class);

/* hits of `of`: Wilson's interval at 95 %; all 0 for of = 0. */
struct metrics_share metrics_wilson(uint64_t hits, uint64_t of);

/*
 * The confusion matrix by rows, only what is not 0, into fresh memory (mem_free): sorted by
 * (target, best); or, `confused`, off the diagonal and the largest counts first. NULL for none or
 * without memory.
 */
struct metrics_pair *metrics_pairs(const struct metrics *metrics, bool confused, size_t *count);

#endif
