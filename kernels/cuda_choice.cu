/*
 * cuda_choice: the own kernels or one of cuDNN's plans, whichever was faster for a shape; and
 * attention over long sequences, which has the choice (cuda_embed has the other).
 *
 *   a shape's key -> chosen in this run -> known on disk: that plan alone is built
 *                 -> else all are built and timed: the own kernels, then cuDNN's best guesses
 *
 * cuDNN is opened where the first shape asks for it that is worth it, since opening it and building
 * a plan (it compiles kernels) take up to seconds; what is not chosen is freed at once. Without
 * cuDNN, and where VITRINE_CUDNN=0 or VITRINE_NO_AUTOTUNE=1, nothing is chosen and the own kernels
 * are taken; VITRINE_CUDNN=1 asks it for every shape that it takes, small ones too.
 *
 * A row's words (cuda_tuning): 0 for the own kernels, else 1 + the plan; the plan's engine; the
 * nanoseconds of the own kernels, then those of each plan that was timed, 0 where it did not run.
 */
#include "kernels/cuda_backend.cuh"

#include <stdio.h>

enum { WORD_PLAN, WORD_ENGINE, WORD_OWN, WORD_PLANS, PLANS_TIMED = TUNED_WORDS - WORD_PLANS };
enum { LONG_SEQUENCE = 257, ALIGNMENT = 16, CHUNK = 8 /* elements */ };

/* ---- cuDNN ----------------------------------------------------------------------------------- */

bool cuda_choice_open(const struct cuda *cuda, bool large) {
    return cuda->type != CUDA_FP32 && !cuda->tuning.off &&
           (cuda->cudnn == CUDNN_ALWAYS || (large && cuda->cudnn == CUDNN_LARGE));
}

/* NULL: it is not there, which is no fault and not asked again. */
static struct dnn *opened(struct cuda *cuda) {
    char *text = cuda->be.description;
    const size_t size = sizeof cuda->be.description, used = strlen(text);
    int version;
    if (cuda->dnn != NULL || cuda->cudnn == CUDNN_NEVER) return cuda->dnn;
    if (dnn_open(&cuda->dnn) != ST_OK) {
        cuda->cudnn = CUDNN_NEVER;
        return NULL;
    }
    version = dnn_version(cuda->dnn);
    snprintf(text + used, size - used, ", cuDNN %d.%d", version / 10000, version / 100 % 100);
    return cuda->dnn;
}

void cuda_choice_release(struct cuda *cuda) {
    for (size_t i = 0; i < cuda->choice_count; i++)
        dnn_graph_close(&cuda->choices[i].graph);
    mem_free(cuda->choices);
    cuda->choices = NULL;
    cuda->choice_count = cuda->choice_capacity = 0;
    dnn_close(&cuda->dnn);
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* A run that is timed. */
struct trial {
    const struct cuda_contest *contest;
    struct cuda_choice way;
};

static enum status run_trial(struct cuda *cuda, const void *call) {
    const struct trial *trial = (const struct trial *)call;
    return trial->contest->run(cuda, trial->contest->call, &trial->way);
}

/* Builds a plan that the workspace suffices for; false: it is none. */
static bool build(struct cuda *cuda, struct dnn_graph *graph, int plan) {
    return dnn_build(graph, plan) == ST_OK && dnn_workspace(graph, plan) <= cuda->workspace.size;
}

/* Nanoseconds; 0: it does not run. */
static uint64_t time_way(struct cuda *cuda, const struct cuda_contest *contest,
                         struct dnn_graph *graph, int plan) {
    struct trial trial;
    float milliseconds;
    memset(&trial, 0, sizeof trial);
    trial.contest = contest;
    trial.way.graph = graph;
    trial.way.plan = plan;
    if (graph != NULL && !build(cuda, graph, plan)) return 0;
    milliseconds = tuning_time(cuda, run_trial, &trial);
    return milliseconds < 0 ? 0 : 1 + (uint64_t)(1e6f * milliseconds);
}

/* Fills the words: who was the fastest, and all times. */
static void time_all(struct cuda *cuda, const struct cuda_contest *contest, struct dnn_graph *graph,
                     uint64_t words[TUNED_WORDS]) {
    uint64_t least = words[WORD_OWN] = time_way(cuda, contest, NULL, 0);
    for (int i = 0; i < PLANS_TIMED && i < dnn_plans(graph); i++) {
        const uint64_t took = words[WORD_PLANS + i] = time_way(cuda, contest, graph, i);
        if (took == 0 || (least != 0 && took >= least)) continue;
        least = took;
        words[WORD_PLAN] = 1 + (uint64_t)i;
        words[WORD_ENGINE] = (uint64_t)dnn_engine(graph, i);
    }
}

static size_t extent(const struct cuda *cuda, const struct cuda_view *view) {
    const size_t values = (size_t)(view->batch - 1) * view->stride +
                          (size_t)(view->tokens - 1) * view->pitch + (size_t)view->channels;
    return values * cuda->be.act_size;
}

/* The outputs' own memory for the time of timing, at their addresses' alignment; NULL data: 0. */
static enum status lend(struct cuda *cuda, const struct cuda_contest *contest, void *memory[2]) {
    for (size_t i = 0; i < COUNT_OF(contest->outputs); i++) {
        struct cuda_view *view = contest->outputs[i];
        const size_t offset = view != NULL ? (uintptr_t)view->data % ARENA_ALIGN : 0;
        if (view == NULL) continue;
        TRY(cuda_alloc(cuda, "timing", extent(cuda, view) + offset, &memory[i]));
        view->data = (unsigned char *)memory[i] + offset;
    }
    return ST_OK;
}

/* The winner into the choice, its graph with no plan but that. */
static void settle(struct dnn_graph *graph, uint64_t plan, struct cuda_choice *choice) {
    if (plan == 0) {
        dnn_graph_close(&graph);
        return;
    }
    choice->plan = (int)plan - 1;
    choice->graph = graph;
    dnn_keep(graph, choice->plan);
}

/* All ways timed, the fastest kept; the own kernels where there is nothing to choose from. */
static void contend(struct cuda *cuda, struct cuda_contest *contest, struct cuda_choice *choice) {
    const struct cuda_view outputs[2] = {contest->outputs[0] ? *contest->outputs[0] : cuda_view(),
                                         contest->outputs[1] ? *contest->outputs[1] : cuda_view()};
    void *memory[2] = {NULL, NULL};
    struct dnn_graph *graph = NULL;
    struct tuning_row row;
    memset(&row, 0, sizeof row);
    row.key = contest->key;
    if (contest->open(cuda, contest->call, &graph) != ST_OK) return;
    if (lend(cuda, contest, memory) == ST_OK) {
        time_all(cuda, contest, graph, row.words);
        tuning_keep(&cuda->tuning, &row);
    }
    for (size_t i = 0; i < COUNT_OF(memory); i++) {
        if (contest->outputs[i] != NULL) *contest->outputs[i] = outputs[i];
        cuda_free(cuda, memory[i]);
    }
    settle(graph, row.words[WORD_PLAN], choice);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Whether a row from disk tells; it may be of anybody's making. */
static bool known(struct cuda *cuda, const struct cuda_contest *contest,
                  struct cuda_choice *choice) {
    const struct tuning_row *row = tuning_find(&cuda->tuning, &contest->key);
    const uint64_t plan = row != NULL ? row->words[WORD_PLAN] : 0;
    struct dnn_graph *graph = NULL;
    if (row == NULL || plan == 0) return row != NULL;
    if (plan > PLANS_TIMED || contest->open(cuda, contest->call, &graph) != ST_OK) return false;
    if ((int)plan > dnn_plans(graph) ||
        row->words[WORD_ENGINE] != (uint64_t)dnn_engine(graph, (int)plan - 1) ||
        !build(cuda, graph, (int)plan - 1)) {
        dnn_graph_close(&graph);
        return false;
    }
    settle(graph, plan, choice);
    return true;
}

const struct cuda_choice *cuda_chosen(const struct cuda *cuda, struct tuning_key *key) {
    if (cuda->dnn == NULL) return NULL;
    key->version = dnn_version(cuda->dnn);
    for (size_t i = 0; i < cuda->choice_count; i++)
        if (memcmp(&cuda->choices[i].key, key, sizeof *key) == 0) return &cuda->choices[i];
    return NULL;
}

enum status cuda_choose(struct cuda *cuda, struct cuda_contest *contest,
                        const struct cuda_choice **out) {
    struct cuda_choice choice;
    *out = NULL;
    if (opened(cuda) == NULL) return ST_OK;
    *out = cuda_chosen(cuda, &contest->key);
    if (*out != NULL) return ST_OK;
    TRY(cuda_want(cuda, &cuda->workspace, (size_t)CUDA_WORKSPACE_MIB * 1024 * 1024));
    TRY(mem_grow((void **)&cuda->choices, &cuda->choice_capacity, cuda->choice_count + 1,
                 sizeof *cuda->choices));
    memset(&choice, 0, sizeof choice);
    choice.key = contest->key;
    if (!known(cuda, contest, &choice)) contend(cuda, contest, &choice);
    cuda->choices[cuda->choice_count] = choice;
    *out = &cuda->choices[cuda->choice_count++];
    return ST_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

static bool in_chunks(const struct cuda_view *view) {
    return (uintptr_t)view->data % ALIGNMENT == 0 && view->pitch % CHUNK == 0 &&
           (view->batch == 1 || view->stride % CHUNK == 0);
}

/* Full attention of all keys by dot products, nothing asked for but the result. */
static bool takes(const struct cuda *cuda, const struct record_attention *a) {
    const struct cuda_attention *call = &a->call;
    return cuda_choice_open(cuda, call->k.tokens >= LONG_SEQUENCE) &&
           a->desc.pattern == PATTERN_FULL && a->desc.score == SCORE_DOT && a->lengths == 0 &&
           a->probs.data == NULL && call->bias == NULL && call->padding == NULL &&
           a->desc.head_dim % CHUNK == 0 && in_chunks(&call->q) && in_chunks(&call->k) &&
           in_chunks(&call->v) && in_chunks(&call->y);
}

static enum status open_attention(struct cuda *cuda, const void *call, struct dnn_graph **out) {
    const struct record_attention *a = (const struct record_attention *)call;
    struct dnn_attention desc;
    memset(&desc, 0, sizeof desc);
    desc.type = cuda->type;
    desc.heads = a->desc.heads;
    desc.head_dim = a->desc.head_dim;
    desc.scale = a->desc.scale;
    desc.q = a->call.q;
    desc.k = a->call.k;
    desc.v = a->call.v;
    desc.y = a->call.y;
    return dnn_attention_open(cuda->dnn, &desc, out);
}

static enum status attend(struct cuda *cuda, const void *record, const struct cuda_choice *way) {
    const struct record_attention *a = (const struct record_attention *)record;
    struct cuda_attention call = a->call;
    struct dnn_data data;
    call.desc = &a->desc;
    if (way->graph == NULL) return cuda_attention(&call, cuda->compute);
    memset(&data, 0, sizeof data);
    data.q = call.q.data;
    data.k = call.k.data;
    data.v = call.v.data;
    data.y = call.y.data;
    data.workspace = cuda->workspace.data;
    return dnn_run(way->graph, way->plan, &data, cuda->compute);
}

/* Also the scale, which is a part of the graph. */
static void attention_key(const struct cuda *cuda, const struct record_attention *a,
                          struct tuning_key *key) {
    const struct cuda_view *views[] = {&a->call.q, &a->call.k, &a->call.v, &a->call.y};
    int64_t *to = key->numbers;
    uint32_t scale;
    memset(key, 0, sizeof *key);
    memcpy(&scale, &a->desc.scale, sizeof scale);
    key->kind = TUNED_ATTENTION;
    *to++ = cuda->type;
    *to++ = a->desc.heads;
    *to++ = a->desc.head_dim;
    *to++ = scale;
    *to++ = a->call.q.batch;
    *to++ = a->call.q.tokens;
    *to++ = a->call.k.tokens;
    for (size_t i = 0; i < COUNT_OF(views); i++) {
        *to++ = (int64_t)views[i]->pitch;
        *to++ = views[i]->batch > 1 ? (int64_t)views[i]->stride : 0;
    }
}

enum status cuda_choose_attention(struct cuda *cuda, const struct record_attention *call) {
    struct record_attention trial = *call;
    struct cuda_contest contest;
    const struct cuda_choice *choice;
    if (!takes(cuda, call)) return ST_OK;
    memset(&contest, 0, sizeof contest);
    attention_key(cuda, call, &contest.key);
    contest.call = &trial;
    contest.outputs[0] = &trial.call.y;
    contest.open = open_attention;
    contest.run = attend;
    return cuda_choose(cuda, &contest, &choice);
}

enum status cuda_chosen_attention(struct cuda *cuda, const struct record_attention *call,
                                  bool *done) {
    const struct cuda_choice *choice = NULL;
    struct tuning_key key;
    if (takes(cuda, call)) {
        attention_key(cuda, call, &key);
        choice = cuda_chosen(cuda, &key);
    }
    *done = choice != NULL;
    return *done ? attend(cuda, call, choice) : ST_OK;
}
