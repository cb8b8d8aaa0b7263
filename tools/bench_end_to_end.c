#include "tools/bench_end_to_end.h"

#include "tools/cli.h"
#include "tools/pipeline.h"

enum { ROUNDS_MOST = 1000 };

struct pass {
    struct model *model; /* NULL: no more than decoded and resized */
    float *logits;       /* (batch, K) */
};

static enum status on_batch(void *context, const struct pipeline_batch *batch) {
    struct pass *pass = context;
    if (!pass->model || !batch->good) return ST_OK;
    return model_forward(pass->model, batch->pixels, batch->good, pass->logits, NULL);
}

/* Good images a second of one walk over all inputs. */
static enum status walk(const struct pipeline *pipeline, struct inputs *inputs, double *rate,
                        size_t *images) {
    struct pipeline_totals totals;
    inputs->next = 0;
    TRY(pipeline_run(pipeline, &totals));
    *images = totals.images - totals.failed;
    if (*images == 0) return fail(ST_FORMAT, "none of the %zu files is an image", totals.images);
    *rate = (double)*images / totals.seconds;
    return ST_OK;
}

enum status end_to_end_measure(struct model *model, struct inputs *inputs,
                               const struct run_options *run, int rounds, struct end_to_end *out) {
    double decode[ROUNDS_MOST + 1], whole[ROUNDS_MOST + 1];
    const size_t classes = (size_t)(model->classes ? model->classes : 1);
    struct pass pass = {0}, full = {.model = model};
    struct pipeline pipeline = {.next = run_next_input,
                                .source = inputs,
                                .on_batch = on_batch,
                                .total = inputs->count,
                                .batch = model->batch,
                                .threads = run_threads(run),
                                .image = run_image_options(run),
                                .preprocess = &model->preprocess};
    enum status st = ST_OK;
    float *logits = mem_zalloc((size_t)model->batch * classes, sizeof *logits);
    if (!logits) return ST_NOMEM;
    if (model->classes) full.logits = logits;
    for (int r = 0; st == ST_OK && r <= rounds; r++) {
        pipeline.context = &pass;
        st = walk(&pipeline, inputs, &decode[r], &out->images);
        pipeline.context = &full;
        if (st == ST_OK) st = walk(&pipeline, inputs, &whole[r], &out->images);
    }
    mem_free(logits);
    TRY(st);
    out->decode = bench_median(decode + 1, rounds);
    out->whole = bench_median(whole + 1, rounds);
    return ST_OK;
}
