/* rollout: see rollout.h. */
#include "kernels/rollout.h"

#include <math.h>
#include <string.h>

/* ---- heads ----------------------------------------------------------------------------------- */

/* fused (n) takes one head more; first: it is the only one so far. NaN stays. */
static void fuse_head(float *fused, const float *head, size_t n, enum head_fusion fusion,
                      bool first) {
    if (first)
        memcpy(fused, head, n * sizeof *fused);
    else if (fusion == FUSE_MEAN)
        for (size_t i = 0; i < n; i++)
            fused[i] += head[i];
    else if (fusion == FUSE_MAX)
        for (size_t i = 0; i < n; i++)
            fused[i] = head[i] > fused[i] || isnan(head[i]) ? head[i] : fused[i];
    else
        for (size_t i = 0; i < n; i++)
            fused[i] = head[i] < fused[i] || isnan(head[i]) ? head[i] : fused[i];
}

void rollout_fuse_row(const struct attention_shape *shape, const float *probs,
                      enum head_fusion fusion, const int *heads, int count, int window, int query,
                      float *fused) {
    const size_t keys = (size_t)shape->keys, head = (size_t)shape->queries * keys;
    const float *row = probs + (size_t)window * (size_t)shape->heads * head + (size_t)query * keys;
    if (!heads) count = shape->heads;
    for (int i = 0; i < count; i++)
        fuse_head(fused, row + (size_t)(heads ? heads[i] : i) * head, keys, fusion, i == 0);
    for (size_t k = 0; fusion == FUSE_MEAN && count > 1 && k < keys; k++)
        fused[k] /= (float)count;
}

/* A row at a time: it stays in the cache while the heads are read. */
void rollout_fuse(const struct attention_shape *shape, const float *probs, enum head_fusion fusion,
                  const int *heads, int count, float *fused) {
    for (int w = 0; w < shape->windows; w++)
        for (int q = 0; q < shape->queries; q++, fused += shape->keys)
            rollout_fuse_row(shape, probs, fusion, heads, count, w, q, fused);
}

/* ---- discarding ------------------------------------------------------------------------------ */

/* The k-th smallest (k from 0) of x (n), whose order changes: Hoare's selection. */
static float select_smallest(float *x, int n, int k) {
    int low = 0, high = n - 1;
    while (low < high) {
        const float pivot = x[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (x[j] > pivot)
                j--;
            if (i > j) break;
            const float swapped = x[i];
            x[i++] = x[j];
            x[j--] = swapped;
        }
        if (k <= j)
            high = j;
        else if (k >= i)
            low = i;
        else
            break;
    }
    return x[k];
}

/* kept (keys) = row without its smallest entries; token (keys): -1 is no entry. */
static void discard(const struct rollout_rule *rule, const float *row, const int *token, int keys,
                    struct rollout_work *work) {
    float *kept = work->kept, limit;
    int n = 0, drop, equal;
    for (int j = 0; j < keys; j++) {
        kept[j] = row[j];
        if (token[j] >= 0) work->sorted[n++] = row[j];
    }
    drop = (int)(rule->discard * n);
    if (drop < 1) return;
    limit = select_smallest(work->sorted, n, drop - 1);
    equal = drop;
    for (int j = 0; j < keys; j++)
        if (token[j] >= 0 && row[j] < limit) equal--;
    for (int j = 0; j < keys; j++) {
        bool smallest = token[j] >= 0 && (row[j] < limit || (row[j] == limit && equal-- > 0));
        if (smallest && !(rule->keep_first && token[j] == 0)) kept[j] = 0;
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

static int larger(int a, int b) {
    return a > b ? a : b;
}

int rollout_tokens(const struct rollout_step *steps, int count) {
    int most = 1;
    for (int i = 0; i < count; i++)
        most = larger(most, attention_shape_tokens(&steps[i].shape));
    return most;
}

enum status rollout_work_init(struct rollout_work *work, const struct rollout_step *steps,
                              int count) {
    size_t most = (size_t)rollout_tokens(steps, count);
    for (int i = 0; i < count; i++)
        if (steps[i].layer >= 0 && (size_t)steps[i].shape.keys > most)
            most = (size_t)steps[i].shape.keys;
    *work = (struct rollout_work){.next = mem_zalloc(most, sizeof *work->next),
                                  .token = mem_zalloc(most, sizeof *work->token),
                                  .kept = mem_zalloc(most, sizeof *work->kept),
                                  .sorted = mem_zalloc(most, sizeof *work->sorted)};
    if (work->next && work->token && work->kept && work->sorted) return ST_OK;
    rollout_work_release(work);
    return ST_NOMEM;
}

void rollout_work_release(struct rollout_work *work) {
    mem_free(work->next);
    mem_free(work->token);
    mem_free(work->kept);
    mem_free(work->sorted);
    *work = (struct rollout_work){0};
}

/* next += mass times a query's row of M = I + A. */
static void spread_relevance(double mass, int query, const float *p, const int *token, int keys,
                             double *next) {
    next[query] += mass;
    for (int j = 0; j < keys; j++)
        if (token[j] >= 0) next[token[j]] += mass * (double)p[j];
}

/* The same of M = (a I + (1-a) A) / its rows' sums, p the query's fused probabilities. */
static void spread(double mass, int query, const float *p, const int *token, int keys, double a,
                   double *next) {
    double sum = 0, scale;
    for (int j = 0; j < keys; j++)
        if (token[j] >= 0) sum += (double)p[j];
    scale = a + (1 - a) * sum;
    if (scale <= 0) { /* nothing is left of the row: the token keeps what it has */
        next[query] += mass;
        return;
    }
    scale = mass / scale;
    next[query] += scale * a;
    scale *= 1 - a;
    for (int j = 0; j < keys; j++)
        if (token[j] >= 0) next[token[j]] += scale * (double)p[j];
}

static void walk_attention(const struct rollout_step *step, const struct rollout_rule *rule,
                           struct rollout_work *work, const double *row) {
    const struct attention_shape *shape = &step->shape;
    const float *p = step->fused; // (W, queries, keys)
    memset(work->next, 0, (size_t)attention_shape_tokens(shape) * sizeof *work->next);
    for (int w = 0; w < shape->windows; w++) {
        attention_shape_window(shape, w, work->token);
        for (int q = 0; q < shape->queries; q++, p += shape->keys) {
            const int query = work->token[q];
            if (query < 0 || row[query] == 0) continue;
            const float *kept = p;
            if (rule->discard > 0) {
                discard(rule, p, work->token, shape->keys, work);
                kept = work->kept;
            }
            if (rule->relevance)
                spread_relevance(row[query], query, kept, work->token, shape->keys, work->next);
            else
                spread(row[query], query, kept, work->token, shape->keys, rule->residual,
                       work->next);
        }
    }
}

/* row (ceil(h/2), ceil(w/2)) -> next (h, w) */
static void walk_merging(const struct window_grid *map, struct rollout_work *work,
                         const double *row) {
    const int h = map->grid_h, w = map->grid_w, across = (w + 1) / 2;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            const int down = (y | 1) < h ? 2 : 1, beside = (x | 1) < w ? 2 : 1;
            work->next[y * w + x] = row[y / 2 * across + x / 2] / (down * beside);
        }
}

void rollout_walk(const struct rollout_step *steps, int count, const struct rollout_rule *rule,
                  struct rollout_work *work, double *row) {
    for (int i = count - 1; i >= 0; i--) {
        const struct rollout_step *step = &steps[i];
        if (step->layer >= 0 && !step->fused) continue;
        if (step->layer < 0)
            walk_merging(&step->shape.map, work, row);
        else
            walk_attention(step, rule, work, row);
        memcpy(row, work->next, (size_t)attention_shape_tokens(&step->shape) * sizeof *row);
    }
}

/* ---- its ends -------------------------------------------------------------------------------- */

void rollout_start_mean(const struct attention_shape *shape, double *row) {
    const int tokens = attention_shape_tokens(shape);
    for (int t = 0; t < tokens; t++)
        row[t] = t < shape->prefix ? 0 : 1.0 / (tokens - shape->prefix);
}

void rollout_start_patch(const struct attention_shape *shape, double y, double x, double *row) {
    const int h = shape->map.grid_h, w = shape->map.grid_w;
    memset(row, 0, (size_t)attention_shape_tokens(shape) * sizeof *row);
    row[shape->prefix + (int)(y * h) * w + (int)(x * w)] = 1;
}

bool rollout_map(const struct attention_shape *shape, const double *row, float *map) {
    const int patches = shape->map.grid_h * shape->map.grid_w;
    double sum = 0;
    row += shape->prefix;
    for (int i = 0; i < patches; i++)
        sum += row[i];
    for (int i = 0; i < patches; i++)
        map[i] = sum <= 0 ? 0 : (float)(row[i] / sum);
    return !(sum <= 0);
}
