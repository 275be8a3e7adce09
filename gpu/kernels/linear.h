// linear in its arms: R rows of x [rows, K] by one block of 64 outputs; W [N, K] packed as blocks.
#pragma once

struct Linear {  // what a task of `linear` reads and writes
    const DEVICE float* x;      // [rows, K]
    const DEVICE u32* w;        // blocks
    const DEVICE float* bias;   // [N] or none
    const DEVICE float* add;    // [rows, N], a residual added last, or none
    DEVICE float* out;          // [rows, N]
    const DEVICE float* sx;     // int8 arm: scale of each row of x, and
    const DEVICE float* sw;     // of each output
    int rows, K, N;
};

FN float finished(float y, const THREAD Linear& l, int row, int n) {
    y = settle(y);
    if (l.bias) y = settle(F_ADD(y, l.bias[n]));
    if (l.add) y = settle(F_ADD(l.add[(size_t)row * l.N + n], y));
    return y;
}

template <int R>
FN void store(const THREAD float* tot, const THREAD Linear& l, int row, int block LANE_PARAM) {
    UNROLL for (int r = 0; r < R; r++) {
        LANES(i) {
            const int n = block * 64 + i;
            if (n < l.N) l.out[(size_t)(row + r) * l.N + n] = finished(tot[r * NL + PL(i)], l, row + r, n);
        }
    }
}

// Words of one block of a weight in format F
template <class F>
FN size_t block_words(int K) {
    return (size_t)((K + 31) / 32) * F::ROWS * 64;
}

// Rows row .. row + R of one block
template <class F, int R>
FN void linear_rows(const THREAD Linear& l, int row, int block LANE_PARAM) {
    ALIGNED float tot[R * NL];
    dot<F, R>(l.w + block_words<F>(l.K) * block, l.x + (size_t)row * l.K, l.K, l.K, tot LANE_ARG);
    store<R>(tot, l, row, block LANE_ARG);
}

// int8: the dot of integers is exact in f32 within a chunk (128 * 127^2 < 2^24), and the chunks add as integers.
template <int R>
FN void linear_int8_rows(const THREAD Linear& l, int row, int block LANE_PARAM) {
    ALIGNED i32 tot[R * NL];
    LANES(i) {
        UNROLL for (int r = 0; r < R; r++) tot[r * NL + PL(i)] = 0;
    }
    const DEVICE u32* w = l.w + block_words<I8>(l.K) * block;
    for (int k = 0; k < l.K; k += CHUNK) {
        ALIGNED float acc[R * NL];
        const int n = l.K - k < CHUNK ? l.K - k : CHUNK;
        dot_chunk<I8, R>(w + (size_t)(k / 32) * I8::ROWS * 64, l.x + (size_t)row * l.K + k, l.K, n, acc LANE_ARG);
        LANES(i) {
            UNROLL for (int r = 0; r < R; r++) tot[r * NL + PL(i)] += (i32)acc[r * NL + PL(i)];
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        LANES(i) {
            const int n = block * 64 + i;
            if (n < l.N) {
                const float scaled = F_MUL(F_MUL((float)tot[r * NL + PL(i)], l.sx[row + r]), l.sw[n]);
                l.out[(size_t)(row + r) * l.N + n] = finished(scaled, l, row + r, n);
            }
        }
    }
}
