/* evaluation_print: an evaluation for a person, as JSON, and its confusion matrix; evaluation.h. */
#include <cjson/cJSON.h>
#include <string.h>

#include "datasets/preprocess.h"
#include "tools/evaluation.h"
#include "tools/rows.h"

enum { CONFUSED_TEXT = 5, CONFUSED_JSON = 50, STRANGERS_TEXT = 10 };

static const char *id_of(const struct labels *labels, int class, char text[16]) {
    if (class < labels->count) return labels->id[class];
    snprintf(text, 16, "%d", class);
    return text;
}

static const char *name_of(const struct labels *labels, int class, char text[16]) {
    return class < labels->count ? labels->name[class] : id_of(labels, class, text);
}

/* ---- for a person ---------------------------------------------------------------------------- */

static void print_share(FILE *file, const char *what, const struct metrics_share *share) {
    fprintf(file, "%-16s%6.2f %%   (%.2f to %.2f, 95 %%)\n", what, 100 * share->share,
            100 * share->low, 100 * share->high);
}

/* What the wall time went into: the consumer either computes or waits. */
static const char *bound(const struct pipeline_totals *t) {
    if (t->model >= t->idle) return "bound by the model";
    if (t->read >= t->decode && t->read >= t->resize) return "bound by reading";
    return t->decode >= t->resize ? "bound by decoding" : "bound by resizing";
}

static void print_time(FILE *file, const struct pipeline_totals *t) {
    fprintf(file,
            "%-16s%.2f s, %.1f images/s, %s: read %.2f, decode %.2f, resize %.2f s on all "
            "threads; model %.2f, waiting %.2f s\n",
            "time", t->seconds, t->seconds > 0 ? (double)t->images / t->seconds : 0, bound(t),
            t->read, t->decode, t->resize, t->model, t->idle);
}

static void print_confused(const struct evaluation *e, const struct labels *labels, FILE *file) {
    size_t count;
    struct metrics_pair *pairs = metrics_pairs(&e->metrics, true, &count);
    for (size_t i = 0; i < count && i < CONFUSED_TEXT; i++) {
        char one[16], other[16];
        fprintf(file, "%-16s%s taken for %s, %llu times\n", i ? "" : "most confused",
                name_of(labels, pairs[i].target, one), name_of(labels, pairs[i].best, other),
                (unsigned long long)pairs[i].count);
    }
    mem_free(pairs);
}

static void print_strangers(const struct evaluation *e, FILE *file) {
    const size_t count = e->strangers.count;
    for (size_t i = 0; i < count && i < STRANGERS_TEXT; i++) {
        char *text = str_printable(e->strangers.text[i]);
        const unsigned long long images = e->stranger_images[i];
        fprintf(file, "%-16s", i ? "" : "not counted");
        if (text && text[0])
            fprintf(file, "'%s' is no class of the model: %llu images\n", text, images);
        else
            fprintf(file, "%llu images without a label\n", images);
        mem_free(text);
    }
    if (count > STRANGERS_TEXT) fprintf(file, "%-16sand %zu more\n", "", count - STRANGERS_TEXT);
}

static void print_numbers(const struct evaluation *e, FILE *file) {
    const struct metrics_totals t = metrics_total(&e->metrics);
    const struct metrics_share real = metrics_wilson(e->real_hits, e->real_images);
    if (e->metrics.images == 0) {
        fprintf(file, "%-16s-        (no image has both a class of the model's and a prediction)\n",
                "top-1");
        return;
    }
    print_share(file, "top-1", &t.top1);
    print_share(file, e->metrics.topk == 5 ? "top-5" : "top-k", &t.topk);
    if (e->real_images) print_share(file, "ReaL", &real);
    if (e->real.count && !e->real_images)
        fprintf(file, "%-16s-        (no image has a number in its name and labels there)\n",
                "ReaL");
    fprintf(file, "%-16s%6.2f %%\n", "mean per class", 100 * t.mean_per_class);
    fprintf(file, "%-16s%.4f (precision %.4f, recall %.4f; weighted F1 %.4f)\n", "macro F1", t.f1,
            t.precision, t.recall, t.weighted_f1);
    fprintf(file, "%-16s%.4f (ECE, %d bins), negative log-likelihood %.4f\n", "calibration", t.ece,
            e->metrics.bin_count, t.nll);
}

void evaluation_print(const struct evaluation *e, const struct evaluation_about *about,
                      FILE *file) {
    const struct preprocess *rule = about->preprocess;
    fprintf(file, "%-16s%s (%s)\n", "dataset", about->dataset, about->form);
    fprintf(file, "%-16s%s, %dx%d, %s, %s crop %g\n", "model", about->model, rule->height,
            rule->width, filter_name(rule->interpolation), crop_mode_name(rule->crop_mode),
            rule->crop_pct);
    fprintf(file, "%-16s%llu, %llu failed, %llu without a class of the model's\n", "images",
            (unsigned long long)e->images, (unsigned long long)e->failed,
            (unsigned long long)e->unmatched);
    print_numbers(e, file);
    if (!about->merged) print_time(file, about->totals);
    print_confused(e, about->labels, file);
    print_strangers(e, file);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Text that may be no UTF-8 (names of files) is cleaned by the one writer that knows how. */
static void put_text(cJSON *object, const char *name, const char *text) {
    char *clean = rows_utf8(text);
    cJSON_AddStringToObject(object, name, clean ? clean : "");
    mem_free(clean);
}

/* null where it is a number of no image. */
static void put_number(cJSON *object, const char *name, double value, uint64_t images) {
    if (images)
        cJSON_AddNumberToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

static void put_share(cJSON *object, const char *name, const struct metrics_share *share,
                      uint64_t images) {
    char text[32];
    put_number(object, name, share->share, images);
    snprintf(text, sizeof text, "%s_low", name);
    put_number(object, text, share->low, images);
    snprintf(text, sizeof text, "%s_high", name);
    put_number(object, text, share->high, images);
}

static void put_triple(cJSON *object, const char *name, const double v[3]) {
    cJSON_AddItemToObject(object, name, cJSON_CreateDoubleArray(v, 3));
}

static void put_about(cJSON *root, const struct evaluation_about *about) {
    const struct preprocess *rule = about->preprocess;
    cJSON *pre;
    put_text(root, "model", about->model);
    cJSON_AddStringToObject(root, "model_sha256", about->model_sha256);
    put_text(root, "dataset", about->dataset);
    pre = cJSON_AddObjectToObject(root, "preprocess");
    cJSON_AddNumberToObject(pre, "height", rule->height);
    cJSON_AddNumberToObject(pre, "width", rule->width);
    cJSON_AddNumberToObject(pre, "crop_pct", rule->crop_pct);
    cJSON_AddStringToObject(pre, "crop_mode", crop_mode_name(rule->crop_mode));
    cJSON_AddStringToObject(pre, "interpolation", filter_name(rule->interpolation));
    put_triple(pre, "mean", rule->mean);
    put_triple(pre, "std", rule->std);
}

static void put_times(cJSON *root, const struct pipeline_totals *t) {
    cJSON *seconds;
    cJSON_AddNumberToObject(root, "images_per_second",
                            t->seconds > 0 ? (double)t->images / t->seconds : 0);
    seconds = cJSON_AddObjectToObject(root, "seconds");
    cJSON_AddNumberToObject(seconds, "read", t->read);
    cJSON_AddNumberToObject(seconds, "decode", t->decode);
    cJSON_AddNumberToObject(seconds, "resize", t->resize);
    cJSON_AddNumberToObject(seconds, "model", t->model);
    cJSON_AddNumberToObject(seconds, "idle", t->idle);
}

static void put_classes(cJSON *root, const struct evaluation *e, const struct labels *labels) {
    cJSON *list = cJSON_AddArrayToObject(root, "classes");
    for (int i = 0; i < e->metrics.classes; i++) {
        const struct metrics_class *c = &e->metrics.of_class[i];
        const struct metrics_scores s = metrics_scores(&e->metrics, i);
        char number[16];
        cJSON *one;
        if (!c->images && !c->predicted) continue;
        one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddNumberToObject(one, "index", i);
        cJSON_AddStringToObject(one, "id", id_of(labels, i, number));
        cJSON_AddStringToObject(one, "label", name_of(labels, i, number));
        cJSON_AddNumberToObject(one, "images", (double)c->images);
        cJSON_AddNumberToObject(one, "correct", (double)c->correct);
        cJSON_AddNumberToObject(one, "precision", s.precision);
        cJSON_AddNumberToObject(one, "recall", s.recall);
        cJSON_AddNumberToObject(one, "f1", s.f1);
    }
}

static void put_confused(cJSON *root, const struct evaluation *e, const struct labels *labels) {
    cJSON *list = cJSON_AddArrayToObject(root, "confused");
    size_t count;
    struct metrics_pair *pairs = metrics_pairs(&e->metrics, true, &count);
    for (size_t i = 0; i < count && i < CONFUSED_JSON; i++) {
        char number[16];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddStringToObject(one, "target", id_of(labels, pairs[i].target, number));
        cJSON_AddStringToObject(one, "predicted", id_of(labels, pairs[i].best, number));
        cJSON_AddNumberToObject(one, "images", (double)pairs[i].count);
    }
    mem_free(pairs);
}

static void put_strangers(cJSON *root, const struct evaluation *e, size_t most) {
    cJSON *list = cJSON_AddArrayToObject(root, "unmatched_classes");
    for (size_t i = 0; i < e->strangers.count && i < most; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        put_text(one, "text", e->strangers.text[i]);
        cJSON_AddNumberToObject(one, "images", (double)e->stranger_images[i]);
    }
}

static void put_lists(cJSON *root, const struct evaluation *e, const struct labels *labels) {
    cJSON *list = cJSON_AddArrayToObject(root, "worst");
    char number[16];
    for (int i = 0; i < e->worst_count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        put_text(one, "path", e->worst[i].path);
        cJSON_AddStringToObject(one, "target", id_of(labels, e->worst[i].target, number));
        cJSON_AddStringToObject(one, "predicted", id_of(labels, e->worst[i].best, number));
        cJSON_AddNumberToObject(one, "score", (double)e->worst[i].confidence);
    }
    list = cJSON_AddArrayToObject(root, "errors");
    for (size_t i = 0; i < e->fault_count; i++) {
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        put_text(one, "path", e->faults[i].path);
        put_text(one, "message", e->faults[i].message);
    }
}

static void put_bins(cJSON *root, const struct metrics *m) {
    cJSON *list = cJSON_AddArrayToObject(root, "bins");
    for (int i = 0; i < m->bin_count; i++) {
        const struct metrics_bin *b = &m->bins[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddNumberToObject(one, "images", (double)b->images);
        cJSON_AddNumberToObject(one, "accuracy",
                                b->images ? (double)b->correct / (double)b->images : 0);
        cJSON_AddNumberToObject(one, "confidence",
                                b->images ? b->confidence / (double)b->images : 0);
    }
}

cJSON *evaluation_json(const struct evaluation *e, const struct evaluation_about *about,
                       size_t strangers_most) {
    const struct metrics_totals t = metrics_total(&e->metrics);
    const struct metrics_share real = metrics_wilson(e->real_hits, e->real_images);
    const uint64_t scored = e->metrics.images;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "images", (double)e->images);
    cJSON_AddNumberToObject(root, "failed", (double)e->failed);
    cJSON_AddNumberToObject(root, "unmatched", (double)e->unmatched);
    put_share(root, "top1", &t.top1, scored);
    put_share(root, "top5", &t.topk, scored);
    put_number(root, "mean_per_class", t.mean_per_class, scored);
    put_number(root, "macro_f1", t.f1, scored);
    put_number(root, "macro_precision", t.precision, scored);
    put_number(root, "macro_recall", t.recall, scored);
    put_number(root, "weighted_precision", t.weighted_precision, scored);
    put_number(root, "weighted_recall", t.weighted_recall, scored);
    put_number(root, "weighted_f1", t.weighted_f1, scored);
    put_number(root, "ece", t.ece, scored);
    put_number(root, "nll", t.nll, scored);
    if (e->real.count) {
        put_share(root, "real", &real, e->real_images);
        cJSON_AddNumberToObject(root, "real_images", (double)e->real_images);
    }
    if (!about->merged) put_times(root, about->totals);
    put_about(root, about);
    put_bins(root, &e->metrics);
    put_classes(root, e, about->labels);
    put_confused(root, e, about->labels);
    put_lists(root, e, about->labels);
    put_strangers(root, e, strangers_most);
    return root;
}

enum status evaluation_print_json(const struct evaluation *e, const struct evaluation_about *about,
                                  FILE *file) {
    cJSON *root = evaluation_json(e, about, SIZE_MAX);
    char *text = cJSON_Print(root);
    if (text) fprintf(file, "%s\n", text);
    cJSON_Delete(root);
    cJSON_free(text);
    return text ? ST_OK : fail(ST_NOMEM, "no memory for the summary");
}

/* ---- the confusion matrix -------------------------------------------------------------------- */

enum status evaluation_print_confusion(const struct evaluation *e, const struct labels *labels,
                                       FILE *file) {
    const int classes = e->metrics.classes;
    size_t count, at = 0;
    struct metrics_pair *pairs = metrics_pairs(&e->metrics, false, &count);
    char number[16];
    if (e->metrics.pair_count && !pairs) return ST_NOMEM;
    fputs("target", file);
    for (int i = 0; i < classes; i++) {
        fputc(',', file);
        rows_put_field(file, ROW_CSV, id_of(labels, i, number));
    }
    fputc('\n', file);
    for (int i = 0; i < classes; i++) {
        rows_put_field(file, ROW_CSV, id_of(labels, i, number));
        for (int j = 0; j < classes; j++) {
            const bool here = at < count && pairs[at].target == i && pairs[at].best == j;
            fprintf(file, ",%llu", here ? (unsigned long long)pairs[at].count : 0ull);
            at += here;
        }
        fputc('\n', file);
    }
    mem_free(pairs);
    return ST_OK;
}
