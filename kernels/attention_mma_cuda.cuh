/*
 * attention_mma_cuda: attention by tensor cores, fp16 and bf16, heads of up to 128 channels.
 *
 * A warp takes 16 queries (a tile) of one head through blocks of 64 keys, and leaves out the 16-key
 * parts of a block that hold no key. Scores stay in registers in fp32, their exponentials become
 * the second product's operand there; the running maximum, the sum and the result are rescaled from
 * block to block. A head is padded with zero columns to D = 32, 64, 80, 96 or 128 in shared memory,
 * whose rows are swizzled by 16 bytes. Two ways to hold the keys:
 *   resident   up to 256 keys: k, v and the block's queries lie whole in shared memory; one
 *              barrier, then every warp walks its tiles. Up to 64 keys and 64 queries a warp has a
 *              head of its own and a block takes 2 to 4 heads of a window; else the warps share a
 *              head's tiles.
 *   streaming  4 warps, a tile each; key blocks pass through two buffers, the next one on its way
 *              while one is worked on; a barrier a block.
 * Windows: the tables of their slots (token; place and region) and the head's bias are put into
 * shared memory once a block; loads and stores go through the tokens. Wanted probabilities are
 * stored as raw scores and normalised at the end by the thread that wrote them.
 *
 * Bytes of a head: resident (2 Tk + 2 Tq) D elements, streaming ceil(Tq/64) (2 Tk) D + 2 Tq D, most
 * from L2. Useful part of the products, (N / 16-padded N)^2: N = 49 59 %, 64 and 144 100 %, 197
 * 90 %, 257 89 %, 577 95 %. Not yet timed on a GPU. Tried: 8 warps of at most 128 registers spill
 * 100 to 240 bytes at D = 64; queries held in registers spill at D = 128.
 */
#ifndef KERNELS_ATTENTION_MMA_CUDA_CUH
#define KERNELS_ATTENTION_MMA_CUDA_CUH

#include "kernels/attention_pattern_cuda.cuh"

enum {
    TILE = 16,
    KEY_BLOCK = 64,
    PARTS = KEY_BLOCK / 8, /* 8-key columns of fragments */
    WARPS_MOST = 6,
    STREAM_WARPS = 4,
    RESIDENT_KEYS = 256,
    RESIDENT_TILES = 16,
    TABLE_SLOTS = 1024 /* of a window whose tables fit into shared memory */
};
#define LOG2E 1.44269504f

/* How a launch is cut, and where things lie in a block's shared memory, in bytes. */
struct mma_plan {
    bool resident;
    int team, heads;             /* warps that share a head, heads of a block */
    int tiles;                   /* queries of a block / 16; streaming: team */
    int row_groups, head_groups; /* blocks for a head's queries; for an image's heads */
    int slots;                   /* of the tables, whole key blocks; 0: no tables */
    int values_at, queries_at, inverse_at, bias_at, head_bytes; /* a head's part, k first */
    int tokens_at, tags_at, bytes;
};

/* A warp's head, and its part of shared memory. */
template <class T> struct mma_head {
    struct attention_head<T> at;
    T *k, *v;                 /* (keys; streaming: 2 * KEY_BLOCK, D), swizzled */
    T *rows;                  /* (tiles * TILE, D), swizzled: queries, then results */
    float *inverse;           /* of each row of k: 1/|k|; SCORE_COSINE */
    const float *bias;        /* (entries) or NULL */
    const int *tokens, *tags; /* (slots) or NULL: a slot is its token */
    int rank, threads;        /* among those who load for this head */
};

/* The two rows of a tile that a thread has part in: g and g + 8. */
struct mma_rows {
    int slot; /* of row g */
    int tag[2];
    float factor[2];
    float offset[2]; /* greatest score so far * log2 e */
    float total[2];  /* this thread's part of the sum of exponentials */
};

/*
 * Element offset of 16-byte chunk `chunk` of row `row`: eight rows' same chunks, as ldmatrix reads
 * them, fall into different banks.
 */
template <int D> DEVICE int swizzle(int row, int chunk) {
    constexpr int chunks = D / 8, twos = chunks % 8 == 0   ? 3
                                         : chunks % 4 == 0 ? 2
                                         : chunks % 2 == 0 ? 1
                                                           : 0;
    return row * D + (chunk ^ (row >> (3 - twos) & ((1 << twos) - 1))) * 8;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Eight columns of a row, or of padding's (NULL: zeros), zeros from `dim` on. */
template <class T> DEVICE uint4 gather(const T *row, const float *padding, int column, int dim) {
    uint32_t pair[4];
    UNROLL for (int i = 0; i < 4; i++) {
        float x[2];
        UNROLL for (int e = 0; e < 2; e++) {
            int c = column + 2 * i + e;
            x[e] = c >= dim          ? 0.0f
                   : row != NULL     ? to_float(row[c])
                   : padding != NULL ? padding[c]
                                     : 0.0f;
        }
        pair[i] = pack2<T>(x[0], x[1]);
    }
    return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

/* Slots [first, first + count) of x to rows of `to`; slots from `present` on are zeros. */
template <class T, int D>
DEVICE void load_rows(const struct attention_call &a, const struct mma_head<T> &h, T *to,
                      const T *x, size_t pitch, const float *padding, int first, int count,
                      int present) {
    constexpr int chunks = D / 8;
    NO_UNROLL for (int i = h.rank; i < count * chunks; i += h.threads) {
        int row = i / chunks, chunk = i % chunks, index = first + row;
        int token = index >= present ? (int)SLOT_NONE : h.tokens ? h.tokens[index] : index;
        const T *from = token >= 0 ? x + (size_t)token * pitch : NULL;
        T *at = to + swizzle<D>(row, chunk);
        if (a.wide_in && (token != SLOT_PADDING || padding == NULL)) {
            bool valid = token >= 0 && chunk * 8 < a.dim;
            cp_async16(at, valid ? from + chunk * 8 : x, valid);
        } else {
            store16(at, gather(from, token == SLOT_PADDING ? padding : NULL, chunk * 8, a.dim));
        }
    }
}

/* Keys [first, first + count), count up to whole tiles, into rows from `row` on. */
template <class T, int D>
DEVICE void load_keys(const struct attention_call &a, const struct mma_head<T> &h, int first,
                      int count, int row) {
    int whole = (count + TILE - 1) / TILE * TILE;
    load_rows<T, D>(a, h, h.k + row * D, h.at.k, a.k.pitch, h.at.pad_k, first, whole, h.at.keys);
    load_rows<T, D>(a, h, h.v + row * D, h.at.v, a.v.pitch, h.at.pad_v, first,
                    MUTANT(VALUE_TAIL, whole, count), h.at.keys);
}

/* inverse[row] = 1/|k[row]| for rows [row, row + count). */
template <class T, int D> DEVICE void key_norms(const struct mma_head<T> &h, int row, int count) {
    NO_UNROLL for (int i = row + h.rank; i < row + count; i += h.threads) {
        float squares = 0;
        NO_UNROLL for (int chunk = 0; chunk < D / 8; chunk++) {
            uint4 x = load16(h.k + swizzle<D>(i, chunk));
            const uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
            UNROLL for (int j = 0; j < 4; j++) {
                float2 pair = unpack2<T>(pairs[j]);
                squares += pair.x * pair.x + pair.y * pair.y;
            }
        }
        h.inverse[i] = MUTANT(KEY_NORM, normalising(squares, 1.0f), 1.0f);
    }
}

/* Waits for this block's copies, and makes of them what all may read. All threads of the block. */
template <class T, int D>
DEVICE void settle(const struct attention_call &a, const struct mma_head<T> &h, bool present,
                   int row, int count) {
    cp_async_wait<0>();
    __syncthreads();
    if (a.temperature == NULL) return;
    if (present) key_norms<T, D>(h, row, count);
    __syncthreads();
}

/* ---- a tile against a key block -------------------------------------------------------------- */

/* The tile's queries (16, D) in registers if the head is narrow; else read again for each block. */
template <int D> struct mma_queries {
    static const bool held = D <= 64;
    uint32_t part[held ? D / 16 : 1][4];
};

/* Columns [16 i, 16 i + 16) of a tile's rows as an operand. */
template <class T, int D> DEVICE void tile_part(uint32_t part[4], const T *rows, int i) {
    int lane = lane_of_warp();
    ldmatrix_x4(part, rows + swizzle<D>(lane % TILE, 2 * i + lane / TILE));
}

/* s (16, 64) = q k^T over the first `count` rows of k. */
template <class T, int D>
DEVICE void score_block(float s[PARTS][4], struct mma_queries<D> &q, const T *rows, const T *k,
                        int count) {
    int lane = lane_of_warp();
    int row = lane % 8 + lane / 16 * 8, chunk = lane / 8 % 2;
    UNROLL for (int n = 0; n < PARTS; n++) {
        UNROLL for (int e = 0; e < 4; e++) {
            s[n][e] = 0;
        }
    }
    UNROLL for (int i = 0; i < D / 16; i++) {
        uint32_t *part = q.part[q.held ? i : 0];
        if (!q.held) tile_part<T, D>(part, rows, i);
        UNROLL for (int n = 0; n < PARTS / 2; n++) {
            if (n * TILE >= count) continue;
            uint32_t b[4];
            ldmatrix_x4(b, k + MUTANT(SWIZZLE, swizzle<D>(n * TILE + row, 2 * i + chunk),
                                      (n * TILE + row) * D + (2 * i + chunk) * 8));
            mma_m16n8k16<T>(s[2 * n], part, b);
            mma_m16n8k16<T>(s[2 * n + 1], part, b + 2);
        }
    }
}

/* Raw products to scores: times scale or norms, plus bias and mask; -inf for what is not seen. */
template <class T>
DEVICE void weigh(float s[PARTS][4], const struct attention_call &a, const struct mma_head<T> &h,
                  const struct mma_rows &rows, int first, const float *inverse) {
    int column = lane_of_warp() % 4 * 2, tile = rows.slot - lane_of_warp() / 4;
    UNROLL for (int n = 0; n < PARTS; n++) {
        UNROLL for (int e = 0; e < 4; e++) {
            s[n][e] *= rows.factor[e / 2]; /* a loop for each took more registers */
            if (a.temperature != NULL) s[n][e] *= inverse[n * 8 + column + e % 2];
        }
    }
    if (h.tags != NULL) {
        UNROLL for (int n = 0; n < PARTS; n++) {
            UNROLL for (int e = 0; e < 4; e++) {
                int tag = h.tags[first + n * 8 + column + e % 2];
                s[n][e] += window_addend(a.pattern, h.bias, rows.tag[e / 2], tag);
            }
        }
    }
    if (sees_all(a.pattern, h.at.keys, tile, TILE, first, first + KEY_BLOCK)) return;
    UNROLL for (int n = 0; n < PARTS; n++) {
        UNROLL for (int e = 0; e < 4; e++) {
            int key = first + n * 8 + column + e % 2;
            if (!sees(a.pattern, h.at.keys, rows.slot + e / 2 * 8, key)) s[n][e] = -INFINITY;
        }
    }
}

/* s = e^(s - greatest); the sums go on, the result is rescaled when the greatest grew. */
template <int D>
DEVICE void softmax_step(float s[PARTS][4], struct mma_rows *rows, float acc[D / 8][4]) {
    UNROLL for (int i = 0; i < 2; i++) {
        float most = -INFINITY, sum = 0;
        UNROLL for (int n = 0; n < PARTS; n++) {
            most = fmaxf(most, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
        }
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        most = fmaxf(most * LOG2E, rows->offset[i]);
        /* Nothing seen so far: 0, so that e^(-inf) is 0, not NaN. */
        float offset = MUTANT(MAXIMUM, most == -INFINITY, true) ? 0.0f : most;
        float shrink = ex2_approx(rows->offset[i] - offset);
        rows->offset[i] = most;
        UNROLL for (int n = 0; n < PARTS; n++) {
            UNROLL for (int e = 2 * i; e < 2 * i + 2; e++) {
                s[n][e] = ex2_approx(fmaf(s[n][e], LOG2E, -offset));
                sum += s[n][e];
            }
        }
        rows->total[i] = rows->total[i] * MUTANT(RESCALE_SUM, shrink, 1.0f) + sum;
        UNROLL for (int n = 0; n < D / 8; n++) {
            acc[n][2 * i] *= MUTANT(RESCALE_VALUES, shrink, 1.0f);
            acc[n][2 * i + 1] *= MUTANT(RESCALE_VALUES, shrink, 1.0f);
        }
    }
}

/* acc (16, D) += s v over the first `count` rows of v. */
template <class T, int D>
DEVICE void value_block(float acc[D / 8][4], const float s[PARTS][4], const T *v, int count) {
    int lane = lane_of_warp();
    UNROLL for (int i = 0; i < KEY_BLOCK / TILE; i++) {
        if (i * TILE >= count) continue;
        const uint32_t p[4] = {
            pack2<T>(s[2 * i][0], s[2 * i][1]), pack2<T>(s[2 * i][2], s[2 * i][3]),
            pack2<T>(s[2 * i + 1][0], s[2 * i + 1][1]), pack2<T>(s[2 * i + 1][2], s[2 * i + 1][3])};
        UNROLL for (int n = 0; n < D / 16; n++) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, v + swizzle<D>(i * TILE + lane % 16, 2 * n + lane / 16));
            mma_m16n8k16<T>(acc[2 * n], p, b);
            mma_m16n8k16<T>(acc[2 * n + 1], p, b + 2);
        }
    }
}

/* ---- probabilities --------------------------------------------------------------------------- */

/* Whether a slot is a query with a token. */
template <class T>
DEVICE bool is_real(const struct attention_call &a, const struct mma_head<T> &h, int slot) {
    return slot < a.pattern.queries && (h.tokens == NULL || h.tokens[slot] >= 0);
}

/* The raw scores of a key block to the rows of probs. */
template <class T>
DEVICE void store_scores(const float s[PARTS][4], const struct attention_call &a,
                         const struct mma_head<T> &h, const struct mma_rows &rows, int first) {
    int key = first + lane_of_warp() % 4 * 2, left = h.at.keys - key;
    UNROLL for (int i = 0; i < 2; i++) {
        int query = rows.slot + i * 8;
        float *row = h.at.probs + (size_t)query * a.pattern.keys + key;
        if (!is_real(a, h, query)) continue;
        UNROLL for (int n = 0; n < PARTS; n++) {
            if (n * 8 < left) row[n * 8] = s[n][2 * i];
            if (n * 8 + 1 < left) row[n * 8 + 1] = s[n][2 * i + 1];
        }
    }
}

/* This thread's scores to probabilities; 0 for what is not seen, and in padding's rows. */
template <class T>
DEVICE void finish_probs(const struct attention_call &a, const struct mma_head<T> &h,
                         const struct mma_rows &rows, const float inverse[2]) {
    int column = lane_of_warp() % 4 * 2;
    UNROLL for (int i = 0; i < 2; i++) {
        int query = rows.slot + i * 8;
        bool real = is_real(a, h, query);
        if (query >= a.pattern.queries || MUTANT(PROBS_ROW, false, !real)) continue;
        float *row = h.at.probs + (size_t)query * a.pattern.keys;
        float offset = rows.offset[i] == -INFINITY ? 0.0f : rows.offset[i];
        NO_UNROLL for (int j = column; j < a.pattern.keys; j += j % 2 ? 7 : 1) {
            bool seen = real && sees(a.pattern, h.at.keys, query, j);
            row[j] = seen ? ex2_approx(fmaf(row[j], LOG2E, -offset)) * inverse[i] : 0.0f;
        }
    }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

/* The tile's queries to registers, and what is known of the thread's rows; slot: of the first. */
template <class T, int D>
DEVICE struct mma_rows begin_tile(const struct attention_call &a, const struct mma_head<T> &h,
                                  const T *tile, int slot, struct mma_queries<D> &q) {
    struct mma_rows rows;
    float squares[2] = {0, 0};
    rows.slot = slot + lane_of_warp() / 4;
    reconverge();
    UNROLL for (int i = 0; i < D / 16; i++) {
        uint32_t *part = q.part[q.held ? i : 0];
        if (!q.held && a.temperature == NULL) break;
        tile_part<T, D>(part, tile, i);
        UNROLL for (int j = 0; j < 4; j++) {
            float2 pair = unpack2<T>(part[j]);
            squares[j % 2] += pair.x * pair.x + pair.y * pair.y;
        }
    }
    UNROLL for (int i = 0; i < 2; i++) {
        int query = rows.slot + 8 * i;
        rows.tag[i] = h.tags != NULL && query < a.pattern.queries ? h.tags[query] : 0;
        rows.factor[i] = a.scale;
        rows.offset[i] = -INFINITY;
        rows.total[i] = 0;
        if (a.temperature == NULL) continue;
        squares[i] += __shfl_xor_sync(~0u, squares[i], 1);
        squares[i] += __shfl_xor_sync(~0u, squares[i], 2);
        rows.factor[i] = normalising(squares[i], a.temperature[h.at.head]);
    }
    return rows;
}

/* acc / total to the rows of y, through the tile's queries in shared memory. */
template <class T, int D>
DEVICE void end_tile(const struct attention_call &a, const struct mma_head<T> &h,
                     struct mma_rows *rows, const float acc[D / 8][4], T *tile, int slot) {
    int lane = lane_of_warp();
    float inverse[2];
    UNROLL for (int i = 0; i < 2; i++) {
        rows->total[i] += __shfl_xor_sync(~0u, rows->total[i], 1);
        rows->total[i] += __shfl_xor_sync(~0u, rows->total[i], 2);
        inverse[i] = h.at.keys > 0 ? 1.0f / rows->total[i] : 0.0f;
        UNROLL for (int n = 0; n < D / 8; n++) {
            uint32_t pair = pack2<T>(acc[n][2 * i] * inverse[i], acc[n][2 * i + 1] * inverse[i]);
            T *at = tile + swizzle<D>(lane / 4 + 8 * i, n) + lane % 4 * 2;
            *reinterpret_cast<uint32_t *>(at) = pair;
        }
    }
    if (h.at.probs != NULL) finish_probs(a, h, *rows, inverse);
    __syncwarp();
    NO_UNROLL for (int i = lane; i < TILE * (D / 8); i += 32) {
        int row = i / (D / 8), chunk = i % (D / 8), index = slot + row;
        int token = index >= a.pattern.queries ? (int)SLOT_NONE
                    : h.tokens                 ? h.tokens[index]
                                               : index;
        const T *from = tile + swizzle<D>(row, chunk);
        T *to = h.at.y + (size_t)(token < 0 ? 0 : token) * a.y.pitch + chunk * 8;
        if (token < 0) continue;
        if (a.wide_out && chunk * 8 < a.dim) store16(to, load16(from));
        for (int c = 0; !a.wide_out && c < 8 && chunk * 8 + c < a.dim; c++)
            to[c] = from[c];
    }
}

/* A warp's tile of queries, `slot` the first. All warps of the block when streaming. */
template <class T, int D>
DEVICE void attend_tile(const struct attention_call &a, const struct mma_plan &plan,
                        const struct mma_head<T> &h, T *tile, int slot, int first_row) {
    struct mma_queries<D> q;
    float acc[D / 8][4] = {};
    struct mma_rows rows = begin_tile<T, D>(a, h, tile, slot, q);
    int row = plan.resident ? slot : first_row, count = plan.resident ? TILE : plan.tiles * TILE;
    int blocks = (h.at.keys + KEY_BLOCK - 1) / KEY_BLOCK, turn = 0;
    NO_UNROLL for (int b = next_block(a.pattern, row, count, KEY_BLOCK, 0); b < blocks; turn++) {
        int next = next_block(a.pattern, row, count, KEY_BLOCK, b + 1);
        int other = MUTANT(RING, (turn + 1) % 2, turn % 2) * KEY_BLOCK;
        int here = plan.resident ? b * KEY_BLOCK : turn % 2 * KEY_BLOCK;
        int keys = min(h.at.keys - b * KEY_BLOCK, (int)KEY_BLOCK);
        int following = min(h.at.keys - next * KEY_BLOCK, (int)KEY_BLOCK);
        if (!plan.resident && next < blocks) {
            load_keys<T, D>(a, h, next * KEY_BLOCK, following, other);
            cp_async_commit();
        }
        if (slot < a.pattern.queries) {
            float s[PARTS][4];
            reconverge();
            score_block<T, D>(s, q, tile, h.k + here * D, keys);
            weigh(s, a, h, rows, b * KEY_BLOCK, h.inverse + here);
            if (h.at.probs != NULL) store_scores(s, a, h, rows, b * KEY_BLOCK);
            softmax_step<D>(s, &rows, acc);
            reconverge();
            value_block<T, D>(acc, s, h.v + here * D, keys);
        }
        b = next;
        if (!plan.resident && b < blocks) settle<T, D>(a, h, true, other, KEY_BLOCK);
    }
    end_tile<T, D>(a, h, &rows, acc, tile, slot);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* The slots' tables, and every head's bias, into shared memory. Then a barrier. */
DEVICE void fill_tables(const struct attention_call &a, const struct mma_plan &plan, int window,
                        int first_head, unsigned char *shared) {
    int *tokens = reinterpret_cast<int *>(shared + plan.tokens_at);
    int *tags = reinterpret_cast<int *>(shared + plan.tags_at);
    for (int i = (int)threadIdx.x; i < plan.slots; i += (int)blockDim.x) {
        struct slot slot = slot_of(a.pattern, window, i, a.pattern.keys);
        tokens[i] = slot.token;
        tags[i] = tag_of(slot);
    }
    for (int head = 0; a.bias != NULL && head < plan.heads; head++) {
        float *bias = reinterpret_cast<float *>(shared + head * plan.head_bytes + plan.bias_at);
        const float *from = a.bias + (size_t)(first_head + head) * a.pattern.entries;
        if (first_head + head >= a.heads) break;
        for (int i = (int)threadIdx.x; i < a.pattern.entries; i += (int)blockDim.x)
            bias[i] = from[i];
    }
}

/* A block: plan.heads heads of one problem, plan.tiles * 16 of its queries. */
template <class T, int D>
__global__ void __launch_bounds__(WARPS_MOST * 32, D <= 64 ? 2 : 1)
    attention_mma(const struct attention_call a, const struct mma_plan plan) {
    unsigned char *shared = dynamic_shared();
    int warp = (int)threadIdx.x / 32, block = (int)blockIdx.x;
    int first_row = block % plan.row_groups * plan.tiles * TILE;
    int first_head = block / plan.row_groups % plan.head_groups * plan.heads;
    int problem = block / plan.row_groups / plan.head_groups;
    int head = first_head + warp / plan.team;
    bool present = head < a.heads;
    unsigned char *mine = shared + warp / plan.team * plan.head_bytes;

    struct mma_head<T> h;
    h.at = head_of<T>(a, problem, present ? head : 0);
    h.k = reinterpret_cast<T *>(mine);
    h.v = reinterpret_cast<T *>(mine + plan.values_at);
    h.rows = reinterpret_cast<T *>(mine + plan.queries_at);
    h.inverse = reinterpret_cast<float *>(mine + plan.inverse_at);
    h.bias = a.bias ? reinterpret_cast<const float *>(mine + plan.bias_at) : NULL;
    h.tokens = plan.slots ? reinterpret_cast<const int *>(shared + plan.tokens_at) : NULL;
    h.tags = plan.slots ? reinterpret_cast<const int *>(shared + plan.tags_at) : NULL;
    h.rank = (int)threadIdx.x % (plan.team * 32);
    h.threads = plan.team * 32;

    fill_tables(a, plan, h.at.window, first_head, shared);
    if (plan.slots) __syncthreads();

    int first = next_block(a.pattern, first_row, plan.tiles * TILE, KEY_BLOCK, 0) * KEY_BLOCK;
    int keys = plan.resident ? h.at.keys : min(h.at.keys - first, (int)KEY_BLOCK);
    if (present) {
        load_rows<T, D>(a, h, h.rows, h.at.q, a.q.pitch, NULL, first_row, plan.tiles * TILE,
                        a.pattern.queries);
        load_keys<T, D>(a, h, plan.resident ? 0 : first, keys, 0);
    }
    cp_async_commit();
    settle<T, D>(a, h, present, 0, keys);
    if (!present) return;
    NO_UNROLL for (int tile = warp % plan.team; tile < plan.tiles; tile += plan.team)
        attend_tile<T, D>(a, plan, h, h.rows + tile * TILE * D, first_row + tile * TILE, first_row);
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* The heads, 2 to 4, of which a block leaves the fewest warps idle. */
static inline int heads_together(int heads) {
    int best = 1, idle = 0;
    if (heads == 1) return 1;
    for (int n = 4, least = heads; n >= 2; n--) {
        idle = (heads + n - 1) / n * n - heads;
        if (idle < least) {
            best = n;
            least = idle;
        }
    }
    return best;
}

/* The warps, 4 to 6 but no more than tiles, that leave the fewest rounds idle. */
static inline int warps_for(int tiles) {
    int best = tiles < WARPS_MOST ? tiles : WARPS_MOST;
    for (int n = best; n >= 4; n--)
        if ((tiles + n - 1) / n * n < (tiles + best - 1) / best * best) best = n;
    return best;
}

/* Sets the layout for `rows` rows of k and v. */
static inline void lay_out(const struct attention_call &a, int d, int rows, struct mma_plan *plan) {
    int row = d * 2, tables = a.temperature ? (rows + KEY_BLOCK - 1) / KEY_BLOCK * KEY_BLOCK : 0;
    plan->values_at = rows * row;
    plan->queries_at = 2 * rows * row;
    plan->inverse_at = plan->queries_at + plan->tiles * TILE * row;
    plan->bias_at = plan->inverse_at + tables * (int)sizeof(float);
    plan->head_bytes = plan->bias_at;
    if (a.bias) plan->head_bytes += (a.pattern.entries + 3) / 4 * 4 * (int)sizeof(float);
    plan->tokens_at = plan->heads * plan->head_bytes;
    plan->tags_at = plan->tokens_at + plan->slots * (int)sizeof(int);
    plan->bytes = plan->tags_at + plan->slots * (int)sizeof(int);
}

/* Whether two such blocks fit an SM, each with the 1 KiB that the system takes. */
static inline bool two_fit(const struct mma_plan *plan) {
    return 2 * ((size_t)plan->bytes + 1024) <= shared_of_sm();
}

/*
 * The plan for heads of `d` channels; false: shared memory does not hold one. Resident keys must
 * leave room for a second block on the SM.
 */
static inline bool plan_mma(const struct attention_call &a, int d, struct mma_plan *plan) {
    const struct pattern &p = a.pattern;
    int tiles = (p.queries + TILE - 1) / TILE, keys = (p.keys + TILE - 1) / TILE * TILE;
    size_t limit = shared_of_block();
    bool windows = p.kind == PATTERN_WINDOW;
    /* A map's bias with its prefix tokens costs the kernel registers that it has not: it spills. */
    if (p.pairs && (!windows || p.keys > TABLE_SLOTS)) return false;
    plan->slots = windows ? (p.keys + KEY_BLOCK - 1) / KEY_BLOCK * KEY_BLOCK : 0;
    plan->resident = true;
    plan->tiles = tiles < RESIDENT_TILES ? tiles : RESIDENT_TILES;
    plan->heads = p.keys <= KEY_BLOCK && tiles <= 4 ? heads_together(a.heads) : 1;
    plan->team = plan->heads > 1 ? 1 : warps_for(plan->tiles);
    lay_out(a, d, keys, plan);
    while (plan->heads > 1 && !two_fit(plan)) {
        plan->heads--;
        lay_out(a, d, keys, plan);
    }
    if (p.keys > RESIDENT_KEYS || (size_t)plan->bytes > limit || !two_fit(plan)) {
        plan->resident = false;
        plan->heads = 1;
        plan->team = plan->tiles = STREAM_WARPS;
        lay_out(a, d, 2 * KEY_BLOCK, plan);
    }
    plan->row_groups = (tiles + plan->tiles - 1) / plan->tiles;
    plan->head_groups = (a.heads + plan->heads - 1) / plan->heads;
    return (size_t)plan->bytes <= limit;
}

#endif
