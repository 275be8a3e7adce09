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

// Words of one block of a weight in format F
template <class F>
FN size_t block_words(int K) {
    return (size_t)((K + 31) / 32) * F::ROWS * 64;
}
