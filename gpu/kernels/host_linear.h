// How the host goes through a linear. One row reads the packed weight directly: by host_row.h where memory sets the pace, by
// dot.h where widening does. For several rows a chunk of a block is unpacked once, in the first-level cache, and used by
// all rows of a piece.
#pragma once

#define PIECE 64  // by rows: of one task

static int linear_tasks(int rows, int N) { return (N + 63) / 64 * ((rows + PIECE - 1) / PIECE); }

static int rows_of(const Linear& l, int row) { return l.rows - row < PIECE ? l.rows - row : PIECE; }

// The dots of a row with a block. What it adds is known before the loop, which can thus be a loop over vectors.
LEAF void store(const float* RESTRICT tot, const Linear l, int row, int block) {
    const int n = l.N - block * 64 < 64 ? l.N - block * 64 : 64;
    float* out = l.out + (size_t)row * l.N + block * 64;
    for (int i = 0; i < n; i++) out[i] = finished(tot[i], l, row, block * 64 + i);
}

template <class F>
FN void linear_row(const Linear& l, int block) {
    ALIGNED float tot[64];
    const u32* packed = l.w + block_words<F>(l.K) * block;
    if constexpr (F::HEAD == 0) {
        dot_row<F>(packed, l.x, l.K, tot);
    } else {
        dot<F, 1>(packed, l.x, l.K, l.K, tot);
    }
    store(tot, l, 0, block);
}

template <class F>
FN void unpack_chunk(const u32* RESTRICT g, int K, u32* RESTRICT to) {
    for (int k = 0; k < K; k += F::PER) {
        const u32* group = g + (size_t)(k / 32) * F::ROWS * 64;
        PREFETCH(group + (F::HEAD + k % 32 / F::PER) * 64);
        LANES(i) {
            const typename F::Lane lane_of = F::load(group, i, k % 32 / F::PER);
            UNROLL for (int j = 0; j < F::PER; j++) to[(k + j) * 64 + i] = bits_of(F::get(lane_of, j));
        }
    }
}

template <class F>
constexpr bool IN_PLACE = std::is_same_v<F, F32>;

// Terms of a chunk as tiles read them: f32 in place, what is stored in fewer bits unpacked into scratch first.
template <class F>
FN const float* terms_of(const u32* g, int K, float* unpacked) {
    if constexpr (IN_PLACE<F>) return (const float*)g;
    unpack_chunk<F>(g, K, (u32*)unpacked);
    return unpacked;
}

template <class F>
LEAF void linear_many(const Linear& l, int row, int rows, int block, float* scratch) {
    float* tot = scratch + CHUNK * 64;
    const u32* packed = l.w + block_words<F>(l.K) * block;
    for (int k = 0; k < l.K; k += CHUNK) {
        const int n = l.K - k < CHUNK ? l.K - k : CHUNK;
        const float* w = terms_of<F>(packed + (size_t)(k / 32) * F::ROWS * 64, n, scratch);
        const float* x = l.x + (size_t)row * l.K + k;
        if (rows <= TILE_ROWS) {  // one tile: terms in place are read once, from memory
            tiles<1, VECTORS, IN_PLACE<F>>(w, x, l.K, n, k == 0, rows, tot);
        } else {
            tiles(w, x, l.K, n, k == 0, rows, tot);
        }
    }
    for (int r = 0; r < rows; r++) store(tot + r * 64, l, row + r, block);
}

template <class F>
static void linear_task(const Linear& l, int task, float* scratch) {
    const int blocks = (l.N + 63) / 64, block = task % blocks, row = task / blocks * PIECE;
    if (l.rows == 1) return linear_row<F>(l, block);
    linear_many<F>(l, row, rows_of(l, row), block, scratch);
}

// int8: the dot of integers is exact in f32 within a chunk (128 * 127^2 < 2^24), and the chunks add as integers.
static void linear_int8_task(const Linear& l, int task, float* scratch) {
    const int blocks = (l.N + 63) / 64, block = task % blocks, row = task / blocks * PIECE, rows = rows_of(l, row);
    float* acc = scratch + CHUNK * 64;
    i32* tot = (i32*)(acc + PIECE * 64);
    memset(tot, 0, sizeof(i32) * rows * 64);
    const u32* packed = l.w + block_words<I8>(l.K) * block;
    for (int k = 0; k < l.K; k += CHUNK) {
        const int n = l.K - k < CHUNK ? l.K - k : CHUNK;
        const float* w = terms_of<I8>(packed + (size_t)(k / 32) * I8::ROWS * 64, n, scratch);
        tiles(w, l.x + (size_t)row * l.K + k, l.K, n, true, rows, acc);
        for (int e = 0; e < rows * 64; e++) tot[e] += (i32)acc[e];
    }
    const int n = l.N - block * 64 < 64 ? l.N - block * 64 : 64;
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < n; i++) acc[i] = F_MUL(F_MUL((float)tot[r * 64 + i], l.sx[row + r]), l.sw[block * 64 + i]);
        store(acc, l, row + r, block);
    }
}
