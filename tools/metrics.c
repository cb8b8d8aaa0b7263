/* metrics: see metrics.h. */
#include "tools/metrics.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 1024 };

enum status metrics_init(struct metrics *m, int classes, int topk, int bins) {
    *m = (struct metrics){
        .classes = classes, .topk = topk < classes ? topk : classes, .bin_count = bins};
    m->bins = mem_zalloc((size_t)bins, sizeof *m->bins);
    m->of_class = mem_zalloc((size_t)classes, sizeof *m->of_class);
    m->pairs = mem_zalloc(FIRST_ROOM, sizeof *m->pairs);
    m->pair_room = FIRST_ROOM;
    if (m->bins && m->of_class && m->pairs) return ST_OK;
    metrics_release(m);
    return ST_NOMEM;
}

void metrics_release(struct metrics *m) {
    mem_free(m->bins);
    mem_free(m->of_class);
    mem_free(m->pairs);
    *m = (struct metrics){0};
}

/* ---- the confusion matrix -------------------------------------------------------------------- */

/* Where the pair is, or would be put. */
static struct metrics_pair *pair_at(struct metrics_pair *pairs, size_t room, int target, int best) {
    uint64_t key = (uint64_t)(uint32_t)target << 32 | (uint32_t)best;
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
    while (pairs[at].count && (pairs[at].target != target || pairs[at].best != best))
        at = (at + 1) & (room - 1);
    return &pairs[at];
}

static enum status grow(struct metrics *m) {
    size_t room = m->pair_room * 2;
    struct metrics_pair *pairs = mem_zalloc(room, sizeof *pairs);
    if (!pairs) return ST_NOMEM;
    for (size_t i = 0; i < m->pair_room; i++) {
        const struct metrics_pair *old = &m->pairs[i];
        if (old->count) *pair_at(pairs, room, old->target, old->best) = *old;
    }
    mem_free(m->pairs);
    m->pairs = pairs;
    m->pair_room = room;
    return ST_OK;
}

static enum status count_pair(struct metrics *m, int target, int best) {
    struct metrics_pair *pair;
    if (m->pair_count * 2 >= m->pair_room) TRY(grow(m));
    pair = pair_at(m->pairs, m->pair_room, target, best);
    m->pair_count += pair->count == 0;
    pair->target = target;
    pair->best = best;
    pair->count++;
    return ST_OK;
}

static int by_place(const void *a, const void *b) {
    const struct metrics_pair *x = a, *y = b;
    if (x->target != y->target) return x->target < y->target ? -1 : 1;
    return x->best < y->best ? -1 : x->best > y->best;
}

static int by_count(const void *a, const void *b) {
    const struct metrics_pair *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return by_place(a, b);
}

struct metrics_pair *metrics_pairs(const struct metrics *m, bool confused, size_t *count) {
    struct metrics_pair *out = m->pair_count ? mem_zalloc(m->pair_count, sizeof *out) : NULL;
    *count = 0;
    for (size_t i = 0; out && i < m->pair_room; i++)
        if (m->pairs[i].count && !(confused && m->pairs[i].target == m->pairs[i].best))
            out[(*count)++] = m->pairs[i];
    if (out) qsort(out, *count, sizeof *out, confused ? by_count : by_place);
    return out;
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* The n intervals (i/n, (i+1)/n]. */
static struct metrics_bin *bin_of(const struct metrics *m, double confidence) {
    int bin = (int)ceil(confidence * m->bin_count) - 1;
    if (bin < 0) bin = 0;
    return &m->bins[bin < m->bin_count ? bin : m->bin_count - 1];
}

enum status metrics_add(struct metrics *m, const struct outcome *o) {
    const bool hit = o->target == o->best;
    struct metrics_bin *bin = bin_of(m, (double)o->confidence);
    TRY(count_pair(m, o->target, o->best));
    m->images++;
    m->hits += hit;
    m->topk_hits += o->rank <= m->topk;
    m->nll -= log((double)fmaxf(o->target_prob, FLT_MIN));
    bin->images++;
    bin->correct += hit;
    bin->confidence += (double)o->confidence;
    m->of_class[o->target].images++;
    m->of_class[o->best].predicted++;
    m->of_class[o->target].correct += hit;
    return ST_OK;
}

/* ---- the numbers ----------------------------------------------------------------------------- */

static double ratio(uint64_t a, uint64_t b) {
    return b ? (double)a / (double)b : 0;
}

/* Wilson 1927, with z = 1.96 to double precision. */
struct metrics_share metrics_wilson(uint64_t hits, uint64_t of) {
    const double z = 1.959963984540054, n = (double)of, p = ratio(hits, of);
    double centre, half;
    if (of == 0) return (struct metrics_share){0};
    centre = (p + z * z / (2 * n)) / (1 + z * z / n);
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    return (struct metrics_share){p, hits ? centre - half : 0, hits < of ? centre + half : 1};
}

struct metrics_scores metrics_scores(const struct metrics *m, int class) {
    const struct metrics_class *c = &m->of_class[class];
    return (struct metrics_scores){.precision = ratio(c->correct, c->predicted),
                                   .recall = ratio(c->correct, c->images),
                                   .f1 = ratio(2 * c->correct, c->images + c->predicted)};
}

static void add_classes(const struct metrics *m, struct metrics_totals *t) {
    uint64_t seen = 0, owned = 0;
    for (int i = 0; i < m->classes; i++) {
        const struct metrics_class *c = &m->of_class[i];
        const struct metrics_scores s = metrics_scores(m, i);
        const double weight = ratio(c->images, m->images);
        seen += c->images || c->predicted;
        owned += c->images > 0;
        t->precision += s.precision;
        t->recall += s.recall;
        t->f1 += s.f1;
        t->weighted_precision += weight * s.precision;
        t->weighted_recall += weight * s.recall;
        t->weighted_f1 += weight * s.f1;
    }
    t->mean_per_class = t->recall / (double)owned;
    t->precision /= (double)seen;
    t->recall /= (double)seen;
    t->f1 /= (double)seen;
}

struct metrics_totals metrics_total(const struct metrics *m) {
    struct metrics_totals t = {.top1 = metrics_wilson(m->hits, m->images),
                               .topk = metrics_wilson(m->topk_hits, m->images)};
    if (m->images == 0) return t;
    add_classes(m, &t);
    for (int i = 0; i < m->bin_count; i++)
        t.ece += fabs((double)m->bins[i].correct - m->bins[i].confidence) / (double)m->images;
    t.nll = m->nll / (double)m->images;
    return t;
}
