/*
 * attention_cuda: op_attention on the GPU: y = softmax(score(q, k) + bias + mask) v by heads.
 *
 * Contract: cuda_kernels.h. Two kernels; what a pattern is stands in attention_pattern_cuda.cuh:
 *   attention_mma    fp16 and bf16, D <= 128: tensor cores (attention_mma_cuda.cuh)
 *   attention_plain  fp32, and whatever the other does not hold: fp32 products and sums
 * A row of y is made of its own problem and head alone, by an order that shapes fix: neither the
 * batch nor the rows beside it change its bits. NaN stays NaN; a row of nothing but -inf is NaN.
 *
 * attention_plain: a block of 4 warps takes 4 R query rows of one head, R = 8 (1 where a wide head
 * leaves no room), a warp R of them, through blocks of 32 keys: a key is a lane for the scores, two
 * columns are a lane for the values. q, k and v pass through shared memory as fp32, 64 columns at a
 * time; the running result (4 R, D) lies there too. Bytes of a head: ceil(Tq / 4R) (2 Tk + R) D
 * elements, most from L2. Useful part of its products at N = 49 59 %, 197 77 %, 144 81 %.
 * Not yet timed on a GPU.
 */
#include "kernels/attention_mma_cuda.cuh"
#include "kernels/attention_pattern_cuda.cuh"

enum {
    PLAIN_WARPS = 4,
    PLAIN_ROWS = 8,
    PLAIN_KEYS = 32,
    COLUMNS = 64,        /* of q, k and v at a time */
    PITCH = COLUMNS + 4, /* floats: lanes' rows fall into different banks */
    SCORE_PITCH = PLAIN_KEYS + 4
};

/* A block's shared memory; rows = PLAIN_WARPS * R. */
struct plain_memory {
    float *q;          /* (rows, PITCH) */
    float *kv;         /* (PLAIN_KEYS, PITCH) */
    float *p;          /* (rows, SCORE_PITCH) */
    float *o;          /* (rows, width) */
    int width;         /* D to whole COLUMNS */
    struct slot *rows; /* (rows) */
    struct slot *keys; /* (PLAIN_KEYS) of the key block */
};

/* What softmax keeps of a warp's rows; the greatest is the warp's, a total is the lane's part. */
template <int R> struct plain_rows { float factor[R], greatest[R], total[R]; };

static inline int plain_width(int dim) {
    return (dim + COLUMNS - 1) / COLUMNS * COLUMNS;
}

static inline size_t plain_bytes(int dim, int rows) {
    size_t floats = (size_t)rows * PITCH + (size_t)PLAIN_KEYS * PITCH + (size_t)rows * SCORE_PITCH +
                    (size_t)rows * (size_t)plain_width(dim);
    return floats * sizeof(float) + (size_t)(rows + PLAIN_KEYS) * sizeof(struct slot);
}

DEVICE struct plain_memory plain_carve(unsigned char *shared, int dim, int rows) {
    struct plain_memory m;
    m.width = (dim + COLUMNS - 1) / COLUMNS * COLUMNS;
    m.q = reinterpret_cast<float *>(shared);
    m.kv = m.q + rows * PITCH;
    m.p = m.kv + PLAIN_KEYS * PITCH;
    m.o = m.p + rows * SCORE_PITCH;
    m.rows = reinterpret_cast<struct slot *>(m.o + rows * m.width);
    m.keys = m.rows + rows;
    return m;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Columns [column, column + COLUMNS) of the rows that `slots` name; zeros where there is none. */
template <class T>
DEVICE void plain_load(float *to, const T *x, size_t pitch, const float *padding,
                       const struct slot *slots, int count, int column, int dim) {
    NO_UNROLL for (int i = (int)threadIdx.x; i < count * COLUMNS; i += (int)blockDim.x) {
        int row = i / COLUMNS, c = column + i % COLUMNS, token = slots[row].token;
        float value = 0;
        if (c < dim && token >= 0) value = to_float(x[(size_t)token * pitch + c]);
        if (c < dim && token == SLOT_PADDING && padding != NULL) value = padding[c];
        to[row * PITCH + i % COLUMNS] = value;
    }
}

/* The warp's sum of a row's squares. */
template <class T> DEVICE float plain_squares(const T *x, int dim) {
    float sum = 0;
    NO_UNROLL for (int c = lane_of_warp(); c < dim; c += 32) {
        float value = to_float(x[c]);
        sum += value * value;
    }
    UNROLL for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    return sum;
}

/* ---- a warp's rows against a key block ------------------------------------------------------- */

/* score[r] += q_r k, squares += k k of the lane's key, over the columns in shared memory. */
template <int R>
DEVICE void plain_products(float score[R], float *squares, const float *q, const float *kv,
                           int columns) {
    const float *k = kv + lane_of_warp() * PITCH;
    for (int c = 0; c < columns; c += 4) {
        const float4 x = *reinterpret_cast<const float4 *>(k + c);
        *squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
        UNROLL for (int r = 0; r < R; r++) {
            const float4 y = *reinterpret_cast<const float4 *>(q + r * PITCH + c);
            score[r] += x.x * y.x;
            score[r] += x.y * y.y;
            score[r] += x.z * y.z;
            score[r] += x.w * y.w;
        }
    }
}

/* o = o * shrink + p v over the columns in shared memory; two columns are a lane. */
template <int R>
DEVICE void plain_values(float *o, int width, const float shrink[R], const float *p,
                         const float *kv) {
    float acc[R][2];
    int column = lane_of_warp() * 2;
    UNROLL for (int r = 0; r < R; r++) {
        acc[r][0] = o[r * width + column] * shrink[r];
        acc[r][1] = o[r * width + column + 1] * shrink[r];
    }
    for (int j = 0; j < PLAIN_KEYS; j += 4) {
        UNROLL for (int r = 0; r < R; r++) {
            const float4 x = *reinterpret_cast<const float4 *>(p + r * SCORE_PITCH + j);
            const float weight[4] = {x.x, x.y, x.z, x.w};
            UNROLL for (int i = 0; i < 4; i++) {
                const float2 v = *reinterpret_cast<const float2 *>(kv + (j + i) * PITCH + column);
                acc[r][0] += weight[i] * v.x;
                acc[r][1] += weight[i] * v.y;
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        o[r * width + column] = acc[r][0];
        o[r * width + column + 1] = acc[r][1];
    }
}

/* The lane's products to scores; its exponentials to p; the rows' maxima and sums go on. */
template <class T, int R>
DEVICE void plain_softmax(const struct attention_call &a, const struct attention_head<T> &h,
                          const struct plain_memory &m, int row, int first_row, int first,
                          float score[R], float squares, struct plain_rows<R> *rows,
                          float shrink[R]) {
    int lane = lane_of_warp(), key = first + lane;
    float inverse = a.temperature ? MUTANT(KEY_NORM, normalising(squares, 1.0f), 1.0f) : 1.0f;
    UNROLL for (int r = 0; r < R; r++) {
        const struct slot &slot = m.rows[row + r];
        float x = score[r] * rows->factor[r] * inverse;
        if (a.pattern.pairs)
            x += pair_addend(a.pattern, h.bias, tag_of(slot), tag_of(m.keys[lane]));
        if (!sees_all(a.pattern, h.keys, first_row + row + r, 1, first, first + PLAIN_KEYS) &&
            !sees(a.pattern, h.keys, first_row + row + r, key))
            x = -INFINITY;
        if (h.probs != NULL && slot.token >= 0 && key < h.keys)
            h.probs[(size_t)(first_row + row + r) * a.pattern.keys + key] = x;
        float most = x;
        UNROLL for (int step = 16; step > 0; step /= 2) {
            most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
        }
        most = fmaxf(most, rows->greatest[r]);
        float offset = MUTANT(MAXIMUM, most == -INFINITY, true) ? 0.0f : most;
        shrink[r] = MUTANT(RESCALE_VALUES, expf(rows->greatest[r] - offset), 1.0f);
        x = expf(x - offset);
        rows->total[r] =
            rows->total[r] * MUTANT(RESCALE_SUM, expf(rows->greatest[r] - offset), 1.0f) + x;
        rows->greatest[r] = most;
        m.p[(row + r) * SCORE_PITCH + lane] = x;
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/*
 * All threads of the block. A barrier stands before whatever is loaded into kv, where the last
 * contents were read, and behind it; keys and p need none of their own.
 */
template <class T, int R>
DEVICE void plain_block(const struct attention_call &a, const struct attention_head<T> &h,
                        const struct plain_memory &m, int first_row, int first, bool fresh,
                        struct plain_rows<R> *rows) {
    int row = (int)threadIdx.x / 32 * R, thread = (int)threadIdx.x;
    float score[R] = {}, shrink[R], squares = 0;
    if (thread < PLAIN_KEYS) m.keys[thread] = slot_of(a.pattern, h.window, first + thread, h.keys);
    for (int c = 0; c < a.dim; c += COLUMNS) {
        __syncthreads();
        plain_load(m.kv, h.k, a.k.pitch, h.pad_k, m.keys, PLAIN_KEYS, c, a.dim);
        if (fresh || m.width > COLUMNS)
            plain_load(m.q, h.q, a.q.pitch, NULL, m.rows, PLAIN_WARPS * R, c, a.dim);
        __syncthreads();
        plain_products<R>(score, &squares, m.q + row * PITCH, m.kv,
                          min((a.dim - c + 3) / 4 * 4, (int)COLUMNS));
    }
    plain_softmax<T, R>(a, h, m, row, first_row, first, score, squares, rows, shrink);
    for (int c = 0; c < a.dim; c += COLUMNS) {
        __syncthreads();
        plain_load(m.kv, h.v, a.v.pitch, h.pad_v, m.keys, PLAIN_KEYS, c, a.dim);
        __syncthreads();
        plain_values<R>(m.o + row * m.width + c, m.width, shrink, m.p + row * SCORE_PITCH, m.kv);
    }
}

/* A warp's rows to y, their probabilities and greatest scores. */
template <class T, int R>
DEVICE void plain_store(const struct attention_call &a, const struct attention_head<T> &h,
                        const struct plain_memory &m, int first_row, struct plain_rows<R> *rows) {
    int row = (int)threadIdx.x / 32 * R, lane = lane_of_warp();
    UNROLL for (int r = 0; r < R; r++) {
        int index = first_row + row + r, token = m.rows[row + r].token;
        UNROLL for (int step = 16; step > 0; step /= 2) {
            rows->total[r] += __shfl_xor_sync(~0u, rows->total[r], step);
        }
        float inverse = h.keys > 0 ? 1.0f / rows->total[r] : 0.0f;
        float offset = rows->greatest[r] == -INFINITY ? 0.0f : rows->greatest[r];
        NO_UNROLL for (int c = lane * 2; token >= 0 && c < a.dim; c += c % 2 ? COLUMNS - 1 : 1)
            h.y[(size_t)token * a.y.pitch + c] =
            from_float<T>(m.o[(row + r) * m.width + c] * inverse);
        if (h.probs == NULL || token == SLOT_NONE) continue;
        if (MUTANT(PROBS_ROW, false, token < 0)) continue;
        if (h.greatest != NULL && lane == 0)
            h.greatest[index] =
                token < 0 ? 0.0f : MUTANT(GREATEST, 1.0f, LOG2E) * rows->greatest[r];
        float *p = h.probs + (size_t)index * a.pattern.keys;
        NO_UNROLL for (int j = lane; j < a.pattern.keys; j += 32) {
            bool seen = token >= 0 && sees(a.pattern, h.keys, index, j);
            p[j] = seen ? expf(p[j] - offset) * inverse : 0.0f;
        }
    }
}

template <class T, int R>
__global__ void __launch_bounds__(PLAIN_WARPS * 32, 3)
    attention_plain(const struct attention_call a, int row_groups) {
    const int count = PLAIN_WARPS * R;
    int block = (int)blockIdx.x, row = (int)threadIdx.x / 32 * R;
    int first_row = block % row_groups * count;
    int head = block / row_groups % a.heads, problem = block / row_groups / a.heads;
    struct attention_head<T> h = head_of<T>(a, problem, head);
    struct plain_memory m = plain_carve(dynamic_shared(), a.dim, count);
    struct plain_rows<R> rows;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        m.rows[i] = slot_of(a.pattern, h.window, first_row + i, a.pattern.queries);
    for (int i = (int)threadIdx.x; i < count * m.width; i += (int)blockDim.x)
        m.o[i] = 0;
    __syncthreads();
    UNROLL for (int r = 0; r < R; r++) {
        int token = m.rows[row + r].token;
        rows.factor[r] = a.scale;
        rows.greatest[r] = -INFINITY;
        rows.total[r] = 0;
        if (a.temperature != NULL && token >= 0)
            rows.factor[r] = normalising(plain_squares(h.q + (size_t)token * a.q.pitch, a.dim),
                                         a.temperature[head]);
    }
    int blocks = (h.keys + PLAIN_KEYS - 1) / PLAIN_KEYS;
    bool fresh = true;
    for (int b = next_block(a.pattern, first_row, count, PLAIN_KEYS, 0); b < blocks;
         b = next_block(a.pattern, first_row, count, PLAIN_KEYS, b + 1)) {
        plain_block<T, R>(a, h, m, first_row, b * PLAIN_KEYS, fresh, &rows);
        fresh = false;
    }
    plain_store<T, R>(a, h, m, first_row, &rows);
}

/* ---- launching ------------------------------------------------------------------------------- */

/* Blocks stand in one row: their count must fit its 2^31 - 1. */
static enum status grid_of(const struct attention_call &a, int batch, int blocks_a_problem,
                           dim3 *grid) {
    size_t blocks = (size_t)batch * (size_t)a.pattern.windows;
    if (!size_mul(blocks, (size_t)blocks_a_problem, &blocks) || blocks > INT32_MAX)
        return fail(ST_DEVICE, "more than 2^31 blocks of threads");
    *grid = dim3((unsigned)blocks);
    return ST_OK;
}

template <class T, int R>
static enum status launch_plain(const struct attention_call &a, int batch, void *stream) {
    int rows = PLAIN_WARPS * R, groups = (a.pattern.queries + rows - 1) / rows;
    dim3 grid;
    TRY(grid_of(a, batch, groups * a.heads, &grid));
    return launch("attention_plain", attention_plain<T, R>, grid, PLAIN_WARPS * 32,
                  plain_bytes(a.dim, rows), stream, a, groups);
}

template <class T>
static enum status plain(const struct attention_call &a, int batch, void *stream) {
    size_t limit = shared_of_block();
    if (plain_bytes(a.dim, PLAIN_WARPS * PLAIN_ROWS) <= limit)
        return launch_plain<T, PLAIN_ROWS>(a, batch, stream);
    if (plain_bytes(a.dim, PLAIN_WARPS) <= limit) return launch_plain<T, 1>(a, batch, stream);
    return fail(ST_DEVICE, "a head of %d channels needs %zu bytes of shared memory, there are %zu",
                a.dim, plain_bytes(a.dim, PLAIN_WARPS), limit);
}

template <class T, int D>
static enum status mma(const struct attention_call &a, int batch, void *stream) {
    struct mma_plan plan;
    dim3 grid;
    if (!plan_mma(a, D, &plan)) return plain<T>(a, batch, stream);
    TRY(grid_of(a, batch, plan.row_groups * plan.head_groups, &grid));
    return launch("attention_mma", attention_mma<T, D>, grid, plan.team * plan.heads * 32,
                  (size_t)plan.bytes, stream, a, plan);
}

/*
 * attention_mma has no register left for the greatest scores: ptxas would spill, on sm_80 or on
 * sm_120. They come from a pass of the plain kernel in front of it.
 */
template <class T>
static enum status halves(const struct attention_call &a, int batch, void *stream) {
    if (a.greatest != NULL && a.dim <= 128) TRY(plain<T>(a, batch, stream));
    if (a.dim <= 32) return mma<T, 32>(a, batch, stream);
    if (a.dim <= 64) return mma<T, 64>(a, batch, stream);
    if (a.dim <= 80) return mma<T, 80>(a, batch, stream);
    if (a.dim <= 96) return mma<T, 96>(a, batch, stream);
    if (a.dim <= 128) return mma<T, 128>(a, batch, stream);
    return plain<T>(a, batch, stream);
}

/* Whether 8 columns of 16 bits, from any multiple of 8 on, are 16 aligned bytes of every row. */
static bool is_wide(const struct cuda_view *x, int dim) {
    return (uintptr_t)x->data % 16 == 0 && x->pitch % 8 == 0 && x->stride % 8 == 0 && dim % 8 == 0;
}

enum status cuda_attention(const struct cuda_attention *call, void *stream) {
    const struct attention *desc = call->desc;
    struct attention_call a = attention_call();
    TRY(pattern_of(call, &a.pattern));
    a.q = call->q;
    a.k = call->k;
    a.v = call->v;
    a.y = call->y;
    a.heads = desc->heads;
    a.dim = desc->head_dim;
    a.scale = desc->scale;
    a.temperature = desc->score == SCORE_COSINE ? call->temperature : NULL;
    a.bias = call->bias;
    a.padding = call->padding;
    a.probs = call->probs;
    a.greatest = call->greatest;
    a.wide_in = is_wide(&a.q, a.dim) && is_wide(&a.k, a.dim) && is_wide(&a.v, a.dim);
    a.wide_out = is_wide(&a.y, a.dim);
    if (call->type == CUDA_FP16) return halves<fp16>(a, a.q.batch, stream);
    if (call->type == CUDA_BF16 && has_bf16_mma()) return halves<bf16>(a, a.q.batch, stream);
    if (call->type == CUDA_BF16) return plain<bf16>(a, a.q.batch, stream);
    return plain<float>(a, a.q.batch, stream);
}
