/*
 * vitrine evaluate: a model scored over a labelled dataset.
 *
 *   dataset_next -> class_map (which class of the model) -> pipeline -> model_forward -> a row:
 *   written, then added up (tools/evaluation.h); in the end the summary
 *
 * Rows that a cut run left are read back and added up first; the images they are of pass by.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/evaluate.h"
#include "tools/report.h"

enum { HOPELESS = 1000 };

/* ---- the source ------------------------------------------------------------------------------ */

/* What the dataset's class `index` is of the model's; -1 = none; text lives as long as e. */
static enum status truth_of(struct evaluate *e, long index, struct evaluate_truth *out) {
    enum status st = ST_OK;
    enum class_match match;
    pthread_mutex_lock(&e->lock);
    while (st == ST_OK && e->truth_count <= (size_t)index) {
        const char *text = dataset_class(e->dataset, e->truth_count);
        void *truths = e->truths;
        struct evaluate_truth fresh = {.class = class_map_find(&e->map, text, &match)};
        if (e->chosen && fresh.class >= 0 && !e->chosen[fresh.class]) fresh.class = -1;
        st = mem_grow(&truths, &e->truth_capacity, e->truth_count + 1, sizeof fresh);
        e->truths = truths;
        fresh.text = st == ST_OK ? str_copy(text) : NULL;
        if (st == ST_OK && !fresh.text) st = ST_NOMEM;
        if (st == ST_OK) e->truths[e->truth_count++] = fresh;
    }
    if (st == ST_OK) *out = e->truths[index];
    pthread_mutex_unlock(&e->lock);
    return st;
}

/* Whether image number `seen` is one of the run's: by --limit, --shuffle-seed and --shard. */
static bool wanted(struct evaluate *e, uint64_t number) {
    const struct evaluate_options *o = &e->o;
    uint64_t among = e->taken;
    if (o->seed >= 0) { /* each of the rest with the same chance (Knuth, selection sampling) */
        const double left = (double)(dataset_count(e->dataset) - number);
        if (random_share(&e->random) * left >= (double)(o->limit - e->taken)) return false;
    }
    e->taken++;
    return !o->shard.count || among % (uint64_t)o->shard.count == (uint64_t)o->shard.index;
}

/* Whether an image that has a row is the one of that row; if not, e->stray says so. */
static bool is_next_row(struct evaluate *e, const char *path) {
    if (e->named >= e->name_count || e->names[e->named] == evaluate_name(path)) {
        e->named++;
        return true;
    }
    e->stray = str_format("%s: its image %zu is another one than the dataset's '%s': the rows were "
                          "changed, or the dataset was",
                          e->o.predictions, e->named + 1, path);
    return false;
}

static bool next_item(void *context, struct pipeline_item *item) {
    struct evaluate *e = context;
    while (!e->o.limit || e->taken < e->o.limit) {
        struct dataset_item found = {0};
        enum evaluate_turn turn;
        if (!dataset_next(e->dataset, &found)) return false;
        if (!wanted(e, e->seen++)) {
            dataset_item_release(&found);
            continue;
        }
        if (e->skip > 0) {
            const bool same = is_next_row(e, found.path);
            e->skip--;
            dataset_item_release(&found);
            if (!same) return false;
            continue;
        }
        turn = evaluate_ranks_turn(e, e->offered++);
        if (turn != TURN_MINE) dataset_item_release(&found);
        if (turn == TURN_OVER) return false;
        if (turn == TURN_MINE) {
            *item = (struct pipeline_item){.path = found.path,
                                           .error = found.error,
                                           .bytes = found.bytes,
                                           .size = found.size,
                                           .image = found.image,
                                           .tag = found.target};
            /* Here, where the dataset is held, its classes can be asked for. */
            struct evaluate_truth truth;
            if (found.target >= 0 && truth_of(e, found.target, &truth) != ST_OK)
                item->error = str_copy(fail_message());
            return true;
        }
    }
    return false;
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* 1 + how many classes go before the target. */
static int rank_of(const struct evaluate *e, const float *probs, int target) {
    int rank = 1;
    for (int i = 0; i < e->model.classes; i++)
        if (!(e->chosen && !e->chosen[i]) &&
            (probs[i] > probs[target] || (probs[i] == probs[target] && i < target)))
            rank++;
    return rank;
}

/* logits (K) of one image -> probabilities, and the k best in e->predictions. */
static void predict(struct evaluate *e, float *logits) {
    for (int i = 0; e->chosen && i < e->model.classes; i++)
        if (!e->chosen[i]) logits[i] = -INFINITY;
    softmax(logits, e->model.classes);
    top_k(logits, e->model.classes, e->topk, e->best);
    rows_predict(&e->model.labels, logits, e->best, e->topk, e->predictions);
}

/* Writes the row, and adds it up as it would be read back. */
static enum status finish_row(struct evaluate *e, const struct row *row) {
    const struct row_target *t = row->target;
    struct prediction told = {.path = row->path,
                              .message = row->error,
                              .target = t->index,
                              .target_label = t->label ? t->label : "",
                              .rank = t->rank,
                              .target_score = t->score};
    if (!row->error) {
        told.best = row->predictions[0].index;
        told.confidence = row->predictions[0].score;
    }
    if (row->error && e->o.run.verbose) cli_say("%s: %s", row->path, row->error);
    if (e->together) return evaluate_ranks_row(e, row, &told);
    if (e->rows.file) rows_write(&e->rows.rows, row);
    return evaluation_add(&e->evaluation, &told);
}

/* `logits` (K) of a good item, else NULL. */
static enum status on_item(struct evaluate *e, const struct pipeline_item *item, float *logits) {
    const struct labels *labels = &e->model.labels;
    struct row_target target = {.index = -1};
    struct evaluate_truth truth;
    struct row row = {.path = item->path,
                      .error = item->error,
                      .width = item->width,
                      .height = item->height,
                      .target = &target};
    if (item->error && dataset_vanished(e->dataset))
        return fail(ST_IO, "%s: is no longer there; the images from '%s' on have no row%s", e->path,
                    item->path, e->o.predictions ? ", --resume goes on with them" : "");
    if (item->tag >= 0) {
        TRY(truth_of(e, item->tag, &truth));
        target.index = truth.class;
        target.label = truth.text;
        if (truth.class >= 0) {
            const bool named = truth.class < labels->count;
            target.id = named ? labels->id[truth.class] : NULL;
            target.label = named ? labels->name[truth.class] : NULL;
        }
    }
    if (logits && !all_finite(logits, (size_t)e->model.classes)) {
        row.error = NOT_FINITE;
        e->totals.failed++;
    } else if (logits) {
        predict(e, logits);
        row.predictions = e->predictions;
        row.count = e->topk;
        if (target.index >= 0) {
            target.rank = rank_of(e, logits, target.index);
            target.score = logits[target.index];
        }
    }
    return finish_row(e, &row);
}

enum status evaluate_check_hope(const struct evaluate *e) {
    const struct evaluation *all = &e->evaluation;
    if (all->unmatched < HOPELESS || all->metrics.images > 0) return ST_OK;
    return fail(ST_USAGE,
                "%s: none of the first %llu images has a class of the model's ('%s' is none); "
                "--class-map FILE tells which is which",
                e->path, (unsigned long long)all->unmatched, all->strangers.text[0]);
}

static enum status on_batch(void *context, const struct pipeline_batch *batch) {
    struct evaluate *e = context;
    float *logits = e->logits;
    model_stage(&e->model, batch->ahead, batch->ahead_count);
    if (batch->good) TRY(model_forward(&e->model, batch->pixels, batch->good, logits, NULL));
    for (int i = 0; i < batch->count; i++) {
        const struct pipeline_item *item = &batch->items[i];
        TRY(on_item(e, item, item->error ? NULL : logits));
        if (!item->error) logits += e->model.classes;
    }
    if (e->together) return evaluate_ranks_flush(e);
    TRY(evaluate_check_hope(e));
    return e->rows.file ? predictions_flush(&e->rows) : ST_OK;
}

static void note(void *context, char *text, size_t size) {
    struct evaluate *e = context;
    const struct metrics *m = &e->evaluation.metrics;
    int used = 0;
    evaluate_ranks_lock(e);
    if (e->together)
        used = snprintf(text, size, "  %llu by all", (unsigned long long)e->evaluation.images);
    if (used >= 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, "  top-1 %.2f %%",
                         m->images ? 100.0 * (double)m->hits / (double)m->images : 0.0);
    if (e->evaluation.failed && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, "  %llu failed",
                 (unsigned long long)e->evaluation.failed);
    evaluate_ranks_unlock(e);
}

/* ---- opening --------------------------------------------------------------------------------- */

enum status evaluate_open_model(struct evaluate *e) {
    const struct evaluate_options *o = &e->o;
    const size_t count = e->dataset ? dataset_count(e->dataset) : 1;
    TRY(run_devices_open(&o->run, &e->devices));
    TRY(run_model_open(&o->run, &e->devices, count ? count : SIZE_MAX / 2, &e->model));
    TRY(model_sha256(o->run.model, e->sha256));
    if (e->model.classes == 0)
        return fail(ST_SHAPE, "%s: has no classification head; there is nothing to score",
                    o->run.model);
    if (o->labels && !o->class_map) {
        e->o.class_map = class_map_for(o->labels);
        if (o->class_map && !o->run.quiet)
            cli_say("%s: holds the challenge's own class numbers (--class-map %s)", o->labels,
                    o->class_map);
    }
    TRY(class_map_open(&e->map, &e->model.labels, e->model.classes, o->class_map));
    TRY(evaluation_init(&e->evaluation, e->model.classes, o->bins));
    if (o->real) TRY(real_labels_read(&e->evaluation.real, o->real, e->model.classes));
    return ST_OK;
}

static enum status open_buffers(struct evaluate *e) {
    const size_t classes = (size_t)e->model.classes;
    int most = e->model.classes;
    if (e->o.subset) {
        e->chosen = mem_zalloc(classes, sizeof *e->chosen);
        if (!e->chosen) return ST_NOMEM;
        TRY(class_map_subset(&e->map, e->o.subset, e->chosen));
        most = 0;
        for (size_t i = 0; i < classes; i++)
            most += e->chosen[i];
    }
    e->topk = e->o.run.topk && e->o.run.topk < most ? e->o.run.topk : most;
    e->logits = mem_zalloc((size_t)e->model.batch * classes, sizeof *e->logits);
    e->best = mem_zalloc((size_t)e->topk, sizeof *e->best);
    e->predictions = mem_zalloc((size_t)e->topk, sizeof *e->predictions);
    return e->logits && e->best && e->predictions ? ST_OK : ST_NOMEM;
}

static enum status open_dataset(struct evaluate *e) {
    const struct dataset_options options = {.labels = e->o.labels};
    TRY(dataset_open(e->path, &options, &e->dataset));
    if (dataset_note(e->dataset) && !e->o.run.quiet)
        cli_say("%s: %s", e->path, dataset_note(e->dataset));
    if (e->o.seed >= 0 && dataset_count(e->dataset) == 0)
        return fail(ST_USAGE,
                    "%s: how many images it has is not known beforehand, so "
                    "--shuffle-seed cannot choose among them",
                    e->path);
    if (dataset_count(e->dataset) && e->o.limit > dataset_count(e->dataset))
        e->o.limit = dataset_count(e->dataset);
    e->random = (uint64_t)e->o.seed;
    return ST_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Images that are still to come; 0 = not known. */
static size_t images_left(const struct evaluate *e) {
    size_t all = dataset_count(e->dataset);
    const size_t shards = (size_t)e->o.shard.count, index = (size_t)e->o.shard.index;
    if (all && e->o.limit && e->o.limit < all) all = e->o.limit;
    if (all && shards) all = all > index ? (all - index + shards - 1) / shards : 1;
    return all > e->skip ? all - e->skip : all ? 1 : 0;
}

static enum status run_all(struct evaluate *e) {
    const bool together = e->ranks.count > 1;
    struct pipeline pipeline = {.next = next_item,
                                .source = e,
                                .on_batch = on_batch,
                                .context = e,
                                .total = together ? 0 : images_left(e),
                                .batch = e->model.batch,
                                .threads = run_threads(&e->o.run),
                                .image = run_image_options(&e->o.run),
                                .preprocess = &e->model.preprocess,
                                .look_ahead = devices_gpu(&e->devices),
                                .stop_on_error = e->o.run.on_error == RUN_ON_ERROR_STOP,
                                .progress = run_progress(&e->o.run),
                                .note = note};
    TRY(pipeline_run(&pipeline, &e->totals));
    return e->stray ? fail(ST_USAGE, "%s", e->stray) : ST_OK;
}

static enum status print_confusion(const struct evaluate *e) {
    struct output file = {0};
    enum status st;
    if (!e->o.confusion) return ST_OK;
    st = output_open(&file, e->o.confusion);
    if (st == ST_OK) st = evaluation_print_confusion(&e->evaluation, &e->model.labels, file.file);
    return output_close(&file, st);
}

static struct evaluation_about about(const struct evaluate *e) {
    return (struct evaluation_about){.model = e->o.run.model,
                                     .model_sha256 = e->sha256,
                                     .dataset = e->path,
                                     .form = e->dataset ? dataset_form(e->dataset) : "rows",
                                     .labels = &e->model.labels,
                                     .preprocess = &e->model.preprocess,
                                     .totals = &e->totals,
                                     .merged = e->o.merge};
}

static enum status print_all(struct evaluate *e) {
    const struct evaluation_about told = about(e);
    TRY(print_confusion(e));
    if (e->o.run.format) return evaluation_print_json(&e->evaluation, &told, e->output.file);
    evaluation_print(&e->evaluation, &told, e->output.file);
    return ST_OK;
}

static enum status write_report(struct evaluate *e) {
    const struct evaluation_about told = about(e);
    return evaluate_report(e, &told);
}

static enum status open_all(struct evaluate *e) {
    TRY(open_dataset(e));
    TRY(evaluate_open_model(e));
    TRY(open_buffers(e));
    return evaluate_open_rows(e);
}

/* A dataset, from its first image that has no row on. */
static enum status evaluate_dataset(struct evaluate *e) {
    TRY(evaluate_ranks_begin(e));
    return evaluate_ranks_end(e, run_all(e));
}

/* Rank 0's alone to write and to say, whatever several processes do together. */
static enum status evaluate(struct evaluate *e, const struct cli_args *args) {
    enum status st = evaluate_check(&e->o, args);
    if (st == ST_OK) st = evaluate_check_outputs(&e->o, args);
    if (e->ranks.index > 0) e->o.run.quiet = e->o.run.no_progress = true;
    if (st == ST_OK && e->ranks.index == 0) st = output_open(&e->output, e->o.run.output);
    if (st == ST_OK && e->ranks.index == 0) st = evaluate_report_open(e);
    if (st == ST_OK && !e->o.merge) st = open_all(e);
    if (st == ST_OK && e->o.merge && e->ranks.index == 0) st = evaluate_merge(e, args);
    TRY(ranks_agree(&e->ranks, st));
    if (!e->o.merge) TRY(evaluate_dataset(e));
    if (e->ranks.index > 0) return ST_OK;
    if (e->rows.file && !(e->o.run.on_error == RUN_ON_ERROR_STOP && e->evaluation.failed))
        predictions_end(&e->rows, e->evaluation.images);
    return print_all(e);
}

static void evaluate_release(struct evaluate *e) {
    for (size_t i = 0; i < e->truth_count; i++)
        mem_free(e->truths[i].text);
    mem_free(e->truths);
    mem_free(e->predictions);
    mem_free(e->best);
    mem_free(e->logits);
    mem_free(e->chosen);
    mem_free(e->head);
    evaluate_ranks_release(e);
    ranks_close(&e->ranks);
    mem_free(e->command);
    mem_free(e->names);
    mem_free(e->stray);
    evaluation_release(&e->evaluation);
    class_map_release(&e->map);
    model_release(&e->model);
    devices_close(&e->devices);
    dataset_close(e->dataset);
    dataset_close(e->report_data);
    pthread_mutex_destroy(&e->lock);
}

int cmd_evaluate(int argc, char **argv) {
    struct evaluate e = {.o = evaluate_defaults(), .command = report_command(argc, argv)};
    struct cli_args args;
    enum status st;
    int code = evaluate_parse(argc, argv, &e.o, &args);
    pthread_mutex_init(&e.lock, NULL);
    if (code != CLI_GO) {
        evaluate_release(&e);
        return code;
    }
    e.path = args.items[0];
    st = ranks_open(&e.ranks);
    if (st == ST_OK) st = evaluate(&e, &args);
    st = predictions_close(&e.rows, st);
    st = output_close(&e.output, st);
    if (st == ST_OK && e.ranks.index == 0) st = write_report(&e);
    st = output_close(&e.report, st);
    code = e.ranks.index > 0 ? 0
           : st != ST_OK     ? cli_fail("evaluate", st)
                             : e.evaluation.failed > 0 || e.evaluation.unmatched > 0;
    evaluate_release(&e);
    return code;
}
