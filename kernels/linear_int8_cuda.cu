/*
 * linear_int8_cuda: y = epilogue(x W^T + b) + residual in int8, for linears that came with scales:
 *
 *   x (n, in) fp16  -> q (n', in') int8, s (n)                   quantise_cuda, a scale a token
 *   q W^T           -> products (n', out') int32, exact          cuBLASLt, by linear_cuda
 *   products        -> y, of products * s * scales + b in fp32   activation_cuda
 *
 * ' to whole 16, n' at least 32: what cuBLASLt wants of int8 products (leading dimensions, m and k
 * multiples of 4; for fewer than 17 columns it has none), with zeros behind the ends. q, s and the
 * products lie in the backend's scratch. Operations 2 * n' * in' * out'; bytes beside the
 * product's: n * (3 in + 8 out + 2 out). Not yet timed on a GPU.
 */
#include "kernels/cuda_backend.cuh"

#include <float.h>
#include <math.h>

static const size_t WHOLE = 16, ROWS_LEAST = 32, PLACE = 256;
static const int IN_MOST = 131072; /* sums of 127 * 128 fit into 32 bits up to here */

static size_t to_whole(size_t count, size_t whole) {
    return (count + whole - 1) / whole * whole;
}

/* ---- weights --------------------------------------------------------------------------------- */

bool cuda_int8_takes(const struct cuda *cuda, const struct linear_spec *spec) {
    return cuda->int8 && spec->scales != NULL && spec->in <= IN_MOST;
}

/*
 * The integers of a row; false: it is no such integers times the scale. What rounding of the
 * product takes is far below an eighth; below FLT_MIN it may take anything, and is nothing.
 */
static bool integers_of(const float *row, float scale, int count, int8_t *out) {
    for (int i = 0; i < count; i++) {
        float q = scale != 0 ? rintf(row[i] / scale) : 0;
        q = q > 127 ? 127 : q < -128 ? -128 : q;
        if (!(fabsf(row[i] - q * scale) <= fabsf(scale) / 8 + FLT_MIN)) return false;
        out[i] = (int8_t)q;
    }
    return true;
}

static enum status pack_rows(const struct linear_spec *spec, size_t pitch, int8_t *out) {
    for (int o = 0; o < spec->out; o++)
        if (!integers_of(spec->weight + (size_t)o * (size_t)spec->in, spec->scales[o], spec->in,
                         out + (size_t)o * pitch))
            return fail(ST_SHAPE,
                        "linear %s: row %d of its weight is no integers of -128 to 127 times %g",
                        spec->name, o, (double)spec->scales[o]);
    return ST_OK;
}

enum status cuda_int8_load(struct cuda *cuda, const struct linear_spec *spec,
                           struct cuda_linear *linear) {
    const size_t rows = to_whole((size_t)spec->out, WHOLE);
    int8_t *host;
    enum status st;
    linear->pitch = to_whole((size_t)spec->in, WHOLE);
    host = (int8_t *)mem_zalloc(rows, linear->pitch);
    st = host != NULL ? pack_rows(spec, linear->pitch, host) : ST_NOMEM;
    if (st == ST_OK)
        st = cuda_upload(cuda, spec->name, host, rows * linear->pitch, &linear->weight);
    if (st == ST_OK)
        st = cuda_upload(cuda, spec->name, spec->scales, (size_t)spec->out * sizeof(float),
                         (void **)&linear->scales);
    mem_free(host);
    return st;
}

/* ---- the scratch ----------------------------------------------------------------------------- */

/* What is where: q at the beginning, the rest so many bytes behind it. */
struct parts {
    size_t rows, columns; /* n', out' */
    size_t scales, products, bytes;
};

static struct parts parts_of(const struct record_linear *call) {
    const size_t n = (size_t)call->x.batch * (size_t)call->x.tokens;
    struct parts p;
    p.rows = to_whole(n < ROWS_LEAST ? ROWS_LEAST : n, WHOLE);
    p.columns = to_whole((size_t)call->linear->head.out, WHOLE);
    p.scales = to_whole(p.rows * call->linear->pitch, PLACE);
    p.products = p.scales + to_whole(p.rows * sizeof(float), PLACE);
    p.bytes = p.products + p.rows * p.columns * sizeof(int32_t);
    return p;
}

size_t cuda_int8_scratch(const struct record_linear *call) {
    return parts_of(call).bytes;
}

/* ---- preparing and running ------------------------------------------------------------------- */

static void product_of(const struct cuda *cuda, const struct record_linear *call,
                       const struct parts *parts, struct product *p) {
    unsigned char *scratch = (unsigned char *)cuda->scratch.data;
    memset(p, 0, sizeof *p);
    p->w = call->linear->weight;
    p->x = scratch;
    p->c = p->d = scratch + parts->products;
    p->key[KEY_M] = (int64_t)parts->columns;
    p->key[KEY_N] = (int64_t)parts->rows;
    p->key[KEY_K] = p->key[KEY_LDW] = p->key[KEY_LDX] = (int64_t)call->linear->pitch;
    p->key[KEY_COUNT] = 1;
    p->key[KEY_LDC] = p->key[KEY_LDD] = (int64_t)parts->columns;
    p->key[KEY_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT;
    p->key[KEY_TYPE] = PRODUCT_INT8;
    p->key[KEY_ALIGN] = PLACE;
}

enum status cuda_int8_prepare(struct cuda *cuda, const struct record_linear *call) {
    const struct parts parts = parts_of(call);
    struct product p;
    bool usable = false;
    TRY(cuda_want(cuda, &cuda->scratch, parts.bytes));
    product_of(cuda, call, &parts, &p);
    TRY(cuda_plan_product(cuda, &p, &usable));
    return usable ? ST_OK : cuda_no_product(&p);
}

enum status cuda_int8_run(struct cuda *cuda, const struct record_linear *call) {
    const struct parts parts = parts_of(call);
    unsigned char *scratch = (unsigned char *)cuda->scratch.data;
    float *scales = (float *)(void *)(scratch + parts.scales);
    struct cuda_activation activation;
    struct product p;
    TRY(cuda_quantise(&call->x, (int8_t *)scratch, (int)call->linear->pitch, scales,
                      (int)parts.rows, cuda->compute));
    product_of(cuda, call, &parts, &p);
    TRY(cuda_run_product(cuda, &p));
    memset(&activation, 0, sizeof activation);
    activation.type = cuda->type;
    activation.epilogue = call->epilogue;
    activation.x.data = scratch + parts.products;
    activation.x.batch = call->x.batch;
    activation.x.tokens = call->x.tokens;
    activation.x.channels = call->linear->head.out;
    activation.x.pitch = parts.columns;
    activation.x.stride = (size_t)call->x.tokens * parts.columns;
    activation.residual = call->residual;
    activation.y = call->y;
    activation.bias = call->linear->bias_fp32;
    activation.row_scales = scales;
    activation.column_scales = call->linear->scales;
    return cuda_activation(&activation, cuda->compute);
}
