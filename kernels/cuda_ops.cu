/*
 * cuda_ops: an op into a record of the list, and a record into launches.
 *
 * Recording looks at nothing but the arguments, and reserves what they need; while planning it only
 * notes sizes. Running is called outside of a capture (the first time) and inside of one; preparing
 * comes before both and may allocate and wait, running never.
 */
#include "kernels/cuda_backend.cuh"

#include <stdio.h>

/* ---- recording ------------------------------------------------------------------------------- */

/* The record of an op; NULL while planning, or with fail() called. */
static struct record *begin(struct cuda *cuda, enum record_kind kind) {
    return cuda->be.planning ? NULL : cuda_append(cuda, kind);
}

/* What an op returns that got no record. */
static enum status no_record(const struct cuda *cuda) {
    return cuda->be.planning ? ST_OK : ST_NOMEM;
}

static enum status cuda_patch_embed(struct backend *be, const struct patch_spec *patch,
                                    const uint8_t *pixels, const struct act *tok) {
    struct cuda *cuda = cuda_of(be);
    struct record_embed call;
    struct record *record;
    if (cuda->list.embeds) TRY(cuda_flush(cuda)); /* there is one place for pixels */
    TRY(cuda_embed_reserve(cuda, patch, tok, &call));
    record = begin(cuda, RECORD_EMBED);
    if (record == NULL) return no_record(cuda);
    record->of.embed = call;
    cuda->list.embeds = true;
    cuda->pixels.pixels = pixels;
    cuda->pixels.pixel_bytes = 3 * (size_t)call.image.batch * (size_t)call.image.tokens;
    return ST_OK;
}

static enum status cuda_assemble_op(struct backend *be, const struct table *prefix,
                                    const struct table *pos, const struct act *tok,
                                    const struct act *h) {
    struct cuda *cuda = cuda_of(be);
    struct record *record = begin(cuda, RECORD_ASSEMBLE);
    if (record == NULL) return no_record(cuda);
    if (prefix != NULL) record->of.assemble.prefix = ((const struct cuda_table *)prefix)->values;
    if (pos != NULL) record->of.assemble.pos = ((const struct cuda_table *)pos)->values;
    cuda_view_of(cuda, tok, &record->of.assemble.tok);
    cuda_view_of(cuda, h, &record->of.assemble.h);
    return ST_OK;
}

static enum status cuda_layernorm_op(struct backend *be, const struct norm *norm,
                                     const struct act *x, const struct act *residual,
                                     const struct act *y) {
    struct cuda *cuda = cuda_of(be);
    const struct cuda_norm *with = (const struct cuda_norm *)norm;
    struct record *record = begin(cuda, RECORD_LAYERNORM);
    struct cuda_layernorm *call;
    if (record == NULL) return no_record(cuda);
    call = &record->of.layernorm;
    call->type = cuda->type;
    cuda_view_of(cuda, x, &call->x);
    if (residual != NULL) cuda_view_of(cuda, residual, &call->residual);
    cuda_view_of(cuda, y, &call->y);
    call->weight = with->weight;
    call->bias = with->bias;
    call->width = norm->width;
    call->eps = with->eps;
    call->rms = with->rms;
    return ST_OK;
}

static enum status cuda_linear_op(struct backend *be, const struct linear *linear,
                                  enum epilogue epilogue, const struct act *x,
                                  const struct act *residual, const struct act *y) {
    struct cuda *cuda = cuda_of(be);
    struct record_linear call;
    struct record *record;
    memset(&call, 0, sizeof call);
    call.linear = (const struct cuda_linear *)linear;
    call.epilogue = epilogue;
    cuda_view_of(cuda, x, &call.x);
    if (residual != NULL) cuda_view_of(cuda, residual, &call.residual);
    cuda_view_of(cuda, y, &call.y);
    TRY(cuda_want(cuda, &cuda->scratch, cuda_linear_scratch(cuda, &call)));
    record = begin(cuda, RECORD_LINEAR);
    if (record == NULL) return no_record(cuda);
    record->of.linear = call;
    return ST_OK;
}

static enum status cuda_patch_merge_op(struct backend *be, const struct norm *norm,
                                       const struct act *x, int grid_h, int grid_w,
                                       const struct act *y) {
    struct cuda *cuda = cuda_of(be);
    struct record *record = begin(cuda, RECORD_MERGE);
    if (record == NULL) return no_record(cuda);
    record->of.merge.norm = (const struct cuda_norm *)norm;
    cuda_view_of(cuda, x, &record->of.merge.x);
    cuda_view_of(cuda, y, &record->of.merge.y);
    record->of.merge.grid_h = grid_h;
    record->of.merge.grid_w = grid_w;
    return ST_OK;
}

static enum status cuda_mean_op(struct backend *be, const struct act *x, const struct act *y) {
    struct cuda *cuda = cuda_of(be);
    struct record *record = begin(cuda, RECORD_MEAN);
    if (record == NULL) return no_record(cuda);
    cuda_view_of(cuda, x, &record->of.mean.x);
    cuda_view_of(cuda, y, &record->of.mean.y);
    return ST_OK;
}

/* ---- recording attention --------------------------------------------------------------------- */

static void copy_numbers(const struct attention *from, struct attention *to) {
    to->heads = from->heads;
    to->head_dim = from->head_dim;
    to->score = from->score;
    to->scale = from->scale;
    to->pattern = from->pattern;
    to->grid_h = from->grid_h;
    to->grid_w = from->grid_w;
    to->prefix = from->prefix;
    to->window_h = from->window_h;
    to->window_w = from->window_w;
    to->shift_h = from->shift_h;
    to->shift_w = from->shift_w;
    to->reach = from->reach;
    to->globals = from->globals;
    to->mask_value = from->mask_value;
}

static const float *values_of(const struct table *table) {
    return table == NULL ? NULL : ((const struct cuda_table *)table)->values;
}

static enum status copy_lengths(struct cuda_list *list, const int *lengths, int batch, int *place) {
    *place = 1 + (int)list->lengths_count;
    TRY(mem_grow((void **)&list->lengths, &list->lengths_capacity,
                 list->lengths_count + (size_t)batch, sizeof *list->lengths));
    memcpy(list->lengths + list->lengths_count, lengths, (size_t)batch * sizeof *lengths);
    list->lengths_count += (size_t)batch;
    return ST_OK;
}

static enum status cuda_attention_op(struct backend *be, const struct attention *desc,
                                     const struct act *q, const struct act *k, const struct act *v,
                                     const struct act *y) {
    struct cuda *cuda = cuda_of(be);
    struct record *record = begin(cuda, RECORD_ATTENTION);
    struct record_attention *a;
    if (record == NULL) return no_record(cuda);
    a = &record->of.attention;
    copy_numbers(desc, &a->desc);
    a->call.type = cuda->type;
    cuda_view_of(cuda, q, &a->call.q);
    cuda_view_of(cuda, k, &a->call.k);
    cuda_view_of(cuda, v, &a->call.v);
    cuda_view_of(cuda, y, &a->call.y);
    if (desc->score == SCORE_COSINE) a->call.temperature = values_of(desc->temperature);
    a->call.bias = values_of(desc->bias);
    a->call.padding = values_of(desc->padding);
    if (desc->probs != NULL) cuda_view_of(cuda, desc->probs, &a->probs);
    if (desc->greatest != NULL) cuda_view_of(cuda, desc->greatest, &a->greatest);
    if (desc->lengths == NULL) return ST_OK;
    return copy_lengths(&cuda->list, desc->lengths, q->batch, &a->lengths);
}

/* ---- preparing and running ------------------------------------------------------------------- */

/* The kernel writes dense fp32; an activation of that kind takes it as it is. */
static bool is_direct(const struct cuda *cuda, const struct cuda_view *view) {
    return cuda->type == CUDA_FP32 && view->pitch == (size_t)view->channels &&
           (view->batch == 1 || view->stride == (size_t)view->tokens * view->pitch);
}

static size_t dense_bytes(const struct cuda_view *view) {
    return (size_t)view->batch * (size_t)view->tokens * (size_t)view->channels * sizeof(float);
}

/* What of a view the kernel writes into the scratch, and then is copied. */
static size_t scratch_bytes(const struct cuda *cuda, const struct cuda_view *view) {
    return view->data == NULL || is_direct(cuda, view) ? 0 : dense_bytes(view);
}

static const char *name_of(const struct record *record, char *text, size_t size) {
    static const char *const names[] = {"patch_embed", "assemble", "layernorm", "linear",
                                        "patch_merge", "mean",     "attention", "read"};
    const char *linear = record->kind == RECORD_LINEAR ? record->of.linear.linear->head.name : "";
    snprintf(text, size, "%s%s%s", names[record->kind], *linear ? " " : "", linear);
    return text;
}

static enum status named(const struct record *record, enum status st) {
    char text[96];
    return st == ST_OK ? ST_OK : fail_prefix(st, name_of(record, text, sizeof text));
}

enum status cuda_prepare_record(struct cuda *cuda, const struct record *record) {
    const struct record_attention *a = &record->of.attention;
    enum status st = ST_OK;
    if (record->kind == RECORD_LINEAR) st = cuda_linear_prepare(cuda, &record->of.linear);
    if (record->kind == RECORD_EMBED) st = cuda_embed_prepare(cuda, &record->of.embed);
    if (record->kind == RECORD_ATTENTION) st = cuda_choose_attention(cuda, a);
    if (record->kind == RECORD_ATTENTION && st == ST_OK && a->probs.data != NULL)
        st = cuda_want(cuda, &cuda->scratch,
                       scratch_bytes(cuda, &a->probs) + scratch_bytes(cuda, &a->greatest));
    return named(record, st);
}

static enum status run_attention(struct cuda *cuda, const struct record_attention *a,
                                 const int *lengths) {
    struct cuda_attention call = a->call;
    const size_t probs = scratch_bytes(cuda, &a->probs);
    const size_t greatest = scratch_bytes(cuda, &a->greatest);
    bool done = false;
    TRY(cuda_chosen_attention(cuda, a, &done));
    if (done) return ST_OK;
    call.desc = &a->desc;
    if (a->lengths > 0) call.lengths = lengths + a->lengths - 1;
    call.probs = (float *)(probs > 0 ? cuda->scratch.data : a->probs.data);
    call.greatest = (float *)(greatest > 0 ? (char *)cuda->scratch.data + probs : a->greatest.data);
    TRY(cuda_attention(&call, cuda->compute));
    if (probs > 0) TRY(cuda_from_fp32(cuda->type, call.probs, &a->probs, cuda->compute));
    if (greatest == 0) return ST_OK;
    return cuda_from_fp32(cuda->type, call.greatest, &a->greatest, cuda->compute);
}

static enum status run_read(struct cuda *cuda, const struct cuda_view *view) {
    TRY(cuda_to_fp32(cuda->type, view, (float *)cuda->part.data, cuda->compute));
    CUDA_TRY("the copy to the host",
             cudaMemcpyAsync(cuda->part_host, cuda->part.data, dense_bytes(view),
                             cudaMemcpyDeviceToHost, cuda->compute));
    return ST_OK;
}

static enum status run_merge(struct cuda *cuda, const struct record_merge *merge) {
    const struct cuda_norm *norm = merge->norm;
    return cuda_patch_merge(cuda->type, &merge->x, merge->grid_h, merge->grid_w,
                            norm ? norm->weight : NULL, norm ? norm->bias : NULL,
                            norm ? norm->eps : 0.0f, &merge->y, cuda->compute);
}

static enum status run_kind(struct cuda *cuda, const struct record *record, const int *lengths) {
    const struct record_assemble *assemble = &record->of.assemble;
    void *stream = cuda->compute;
    switch ((enum record_kind)record->kind) {
    case RECORD_EMBED: return cuda_embed_run(cuda, &record->of.embed);
    case RECORD_ASSEMBLE:
        return cuda_assemble(cuda->type, assemble->prefix, assemble->pos, &assemble->tok,
                             &assemble->h, stream);
    case RECORD_LAYERNORM: return cuda_layernorm(&record->of.layernorm, stream);
    case RECORD_LINEAR: return cuda_linear_run(cuda, &record->of.linear);
    case RECORD_MERGE: return run_merge(cuda, &record->of.merge);
    case RECORD_MEAN: return cuda_mean(cuda->type, &record->of.mean.x, &record->of.mean.y, stream);
    case RECORD_ATTENTION: return run_attention(cuda, &record->of.attention, lengths);
    case RECORD_READ: return run_read(cuda, &record->of.read);
    }
    return fail(ST_DEVICE, "record %d is unknown", record->kind);
}

enum status cuda_run_record(struct cuda *cuda, const struct record *record, const int *lengths) {
    return named(record, run_kind(cuda, record, lengths));
}

void cuda_fill_ops(struct backend_ops *ops) {
    ops->patch_embed = cuda_patch_embed;
    ops->assemble = cuda_assemble_op;
    ops->layernorm = cuda_layernorm_op;
    ops->linear = cuda_linear_op;
    ops->patch_merge = cuda_patch_merge_op;
    ops->mean = cuda_mean_op;
    ops->attention = cuda_attention_op;
}
