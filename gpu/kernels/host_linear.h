// How the host goes through a linear: one row reads the packed weight directly; for several rows a chunk of a block is
// unpacked once, in the first-level cache, and used by all rows of a piece.
#pragma once

#define PIECE 64  // rows of one task

static int linear_tasks(int rows, int N) { return (N + 63) / 64 * ((rows + PIECE - 1) / PIECE); }

template <class F>
FN void unpack_chunk(const u32* RESTRICT g, int K, u32* RESTRICT to) {
    for (int k = 0; k < K; k += F::PER) {
        const u32* group = g + (size_t)(k / 32) * F::ROWS * 64;
        LANES(i) {
            const typename F::Lane lane_of = F::load(group, i, k % 32 / F::PER);
            UNROLL for (int j = 0; j < F::PER; j++) to[(k + j) * 64 + i] = bits_of(F::get(lane_of, j));
        }
    }
}

template <int R>
FN void add_rows(const u32* w, const float* x, int stride, int n, float* tot) {
    ALIGNED float acc[R * NL];
    dot_chunk<Unpacked, R>(w, x, stride, n, acc);
    for (int e = 0; e < R * NL; e++) tot[e] = F_ADD(tot[e], acc[e]);
}

template <class F>
LEAF void linear_many(const Linear& l, int row, int rows, int block, float* scratch) {
    u32* w = (u32*)scratch;
    float* tot = scratch + CHUNK * 64;
    const u32* packed = l.w + block_words<F>(l.K) * block;
    memset(tot, 0, sizeof(float) * rows * 64);
    for (int k = 0; k < l.K; k += CHUNK) {
        const int n = l.K - k < CHUNK ? l.K - k : CHUNK;
        unpack_chunk<F>(packed + (size_t)(k / 32) * F::ROWS * 64, n, w);
        const float* x = l.x + (size_t)row * l.K + k;
        int r = 0;
        for (; r + 8 <= rows; r += 8) add_rows<8>(w, x + (size_t)r * l.K, l.K, n, tot + r * 64);
        if (r + 4 <= rows) add_rows<4>(w, x + (size_t)r * l.K, l.K, n, tot + r * 64), r += 4;
        if (r + 2 <= rows) add_rows<2>(w, x + (size_t)r * l.K, l.K, n, tot + r * 64), r += 2;
        if (r < rows) add_rows<1>(w, x + (size_t)r * l.K, l.K, n, tot + r * 64);
    }
    for (int r = 0; r < rows; r++) store<1>(tot + r * 64, l, row + r, block);
}

template <class F>
static void linear_task(const Linear& l, int task, float* scratch) {
    const int blocks = (l.N + 63) / 64, block = task % blocks, row = task / blocks * PIECE;
    if (l.rows == 1) return linear_rows<F, 1>(l, 0, block);
    linear_many<F>(l, row, l.rows - row < PIECE ? l.rows - row : PIECE, block, scratch);
}

static void linear_int8_task(const Linear& l, int task, float*) {
    const int blocks = (l.N + 63) / 64, block = task % blocks;
    int r = task / blocks * PIECE;
    const int stop = l.rows - r < PIECE ? l.rows : r + PIECE;
    for (; r + 4 <= stop; r += 4) linear_int8_rows<4>(l, r, block);
    for (; r < stop; r++) linear_int8_rows<1>(l, r, block);
}
