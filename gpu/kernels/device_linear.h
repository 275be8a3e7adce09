// How a GPU goes through a linear: a group takes R rows by one block of 64 outputs. Its 8 parts of 64 threads take a chunk
// of the terms each; then part r adds the chunks of row r, ascending, and stores. Same chunk, same order, same bytes.
#pragma once

#define PARTS 8  // of a group; R is at most this

struct FloatSum {  // what chunks add up to, and the dot from that sum
    typedef float Total;
    FN float zero() { return 0.0f; }
    FN float plus(float tot, float chunk) { return F_ADD(tot, chunk); }
    FN float value(float tot, const THREAD Linear&, int, int) { return tot; }
};

struct IntSum {  // int8: exact in f32 within a chunk, in integers beyond
    typedef i32 Total;
    FN i32 zero() { return 0; }
    FN i32 plus(i32 tot, float chunk) { return tot + (i32)chunk; }
    FN float value(i32 tot, const THREAD Linear& l, int row, int n) {
        return F_MUL(F_MUL((float)tot, l.sx[row]), l.sw[n]);
    }
};

// tasks: ceil(rows / R) * ceil(N / 64); rows >= R. The last tile of rows is moved back so that all its rows exist, and
// stores only those that no other tile has. room: R * PARTS * 64
template <class F, int R, class Sum>
TASK linear_tile(const THREAD Linear& l, int task, int part, SHARED float* room LANE_PARAM) {
    const int blocks = (l.N + 63) / 64, block = task % blocks, first = task / blocks * R;
    const int row = first + R <= l.rows ? first : l.rows - R;
    const int chunks = (l.K + CHUNK - 1) / CHUNK;
    const DEVICE u32* w = l.w + block_words<F>(l.K) * block;
    typename Sum::Total tot = Sum::zero();
    for (int c = 0; c < chunks; c += PARTS) {
        const int k = (c + part) * CHUNK;
        if (k < l.K) {
            float acc[R];
            dot_chunk<F, R>(w + (size_t)(k / 32) * F::ROWS * 64, l.x + (size_t)row * l.K + k, l.K,
                            l.K - k < CHUNK ? l.K - k : CHUNK, acc LANE_ARG);
            UNROLL for (int r = 0; r < R; r++) room[(r * PARTS + part) * 64 + lane] = acc[r];
        }
        BARRIER();
        if (part < R) {
            for (int p = 0; p < PARTS && c + p < chunks; p++) tot = Sum::plus(tot, room[(part * PARTS + p) * 64 + lane]);
        }
        BARRIER();  // before the next chunks take the room
    }
    const int n = block * 64 + lane;
    if (part < R && row + part >= first && n < l.N) {
        l.out[(size_t)(row + part) * l.N + n] = finished(Sum::value(tot, l, row + part, n), l, row + part, n);
    }
}
