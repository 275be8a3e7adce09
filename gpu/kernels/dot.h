// The one loop that matters: chunked_dot of R rows with the 64 outputs of a block.
// Chunk of 128 > group of 32 > step > lanes > the terms of a step > rows. The lane loop lies outside the few terms of a
// step, so an accumulator is loaded and stored once per step, and the compiler vectorises over lanes.
#pragma once

#define CHUNK 128

// acc[r] += x[r][k] * w[k], the PER terms of step s; x is a pointer into whatever memory
template <class F, int R, class X>
FN void dot_step(const DEVICE u32* RESTRICT g, int s, X x, int stride, THREAD float* RESTRICT acc LANE_PARAM) {
    LANES(i) {
        const typename F::Lane lane_of = F::load(g, i, s);
        float a[R];
        UNROLL for (int r = 0; r < R; r++) a[r] = acc[r * NL + PL(i)];
        UNROLL for (int j = 0; j < F::PER; j++) {
            const float w = F::get(lane_of, j);
            UNROLL for (int r = 0; r < R; r++) a[r] = F_ADD(a[r], F_MUL(x[r * stride + j], w));
        }
        UNROLL for (int r = 0; r < R; r++) acc[r * NL + PL(i)] = a[r];
    }
}

// The first n < PER terms of step s: the end of a row, one term at a time
template <class F, int R, class X>
FN void dot_rest(const DEVICE u32* RESTRICT g, int s, X x, int stride, int n, THREAD float* RESTRICT acc LANE_PARAM) {
    for (int j = 0; j < n; j++) {
        for (int r = 0; r < R; r++) {
            LANES(i) {
                const float w = F::get(F::load(g, i, s), j);
                acc[r * NL + PL(i)] = F_ADD(acc[r * NL + PL(i)], F_MUL(x[r * stride + j], w));
            }
        }
    }
}

// The n < 32 terms that a group has at the end of a row: whole steps, then what is left of one
template <class F, int R, class X>
FN void dot_end(const DEVICE u32* RESTRICT g, X x, int stride, int n, THREAD float* RESTRICT acc LANE_PARAM) {
    int s = 0;
    for (; n >= F::PER; s++, n -= F::PER, x += F::PER) dot_step<F, R>(g, s, x, stride, acc LANE_ARG);
    if (n > 0) dot_rest<F, R>(g, s, x, stride, n, acc LANE_ARG);
}

// The K <= 128 terms of one chunk, from +0.0.
template <class F, int R, class X>
LEAF void dot_chunk(const DEVICE u32* RESTRICT g, X x, int stride, int K, THREAD float* RESTRICT acc LANE_PARAM) {
    LANES(i) {
        UNROLL for (int r = 0; r < R; r++) acc[r * NL + PL(i)] = 0.0f;
    }
    for (; K >= 32; K -= 32, x += 32, g += F::ROWS * 64) {
        for (int s = 0; s < F::STEPS; s++) {
            if (R == 1) {
                PREFETCH(g + (F::HEAD + s) * 64);
            }
            dot_step<F, R>(g, s, x + s * F::PER, stride, acc LANE_ARG);
        }
    }
    dot_end<F, R>(g, x, stride, K, acc LANE_ARG);
}

// chunked_dot: the chunks, ascending, from +0.0
template <class F, int R, class X>
FN void dot(const DEVICE u32* RESTRICT block, X x, int stride, int K, THREAD float* RESTRICT tot LANE_PARAM) {
    LANES(i) {
        UNROLL for (int r = 0; r < R; r++) tot[r * NL + PL(i)] = 0.0f;
    }
    for (int k = 0; k < K; k += CHUNK) {
        ALIGNED float acc[R * NL];
        dot_chunk<F, R>(block + k / 32 * F::ROWS * 64, x + k, stride, K - k < CHUNK ? K - k : CHUNK, acc LANE_ARG);
        LANES(i) {
            UNROLL for (int r = 0; r < R; r++) tot[r * NL + PL(i)] = F_ADD(tot[r * NL + PL(i)], acc[r * NL + PL(i)]);
        }
    }
}
