// The inner loop of the host where rows are many: a few rows with the lanes of a block whose terms lie near by as f32, every
// sum in a register. The terms of a chunk are multiplied and added one by one as in dot.h, so the bytes are the same.
#pragma once

#if defined(__AVX512F__)
#define VECTOR 16  // floats of a register
#elif defined(__AVX__)
#define VECTOR 8
#else
#define VECTOR 4
#endif

#if defined(__AVX512F__) || defined(__aarch64__)  // 32 registers, else 16
#define VECTORS 4
#else
#define VECTORS 2
#endif

#define NARROW (VECTORS * VECTOR > 16 ? 1 : VECTORS)  // vectors at a time where only some lanes are wanted

#define TILE_ROWS 6  // by rows: rows * VECTORS sums, VECTORS weights and a product fill the registers

typedef float Vector __attribute__((vector_size(4 * VECTOR), may_alias));

// To tot [R][64], which the first chunk begins, the sums of a chunk: w [n][64]; the rows of x are `step` apart and its
// terms APART; V vectors at a time, as far as lanes are wanted; FAR: w lies in memory, not in a cache
template <int R, int APART, int V, bool FAR>
LEAF void tile(const float* RESTRICT w, const float* RESTRICT x, int step, int n, bool first, float* RESTRICT tot, int lanes) {
    for (int lane = 0; lane < lanes; lane += V * VECTOR) {
        Vector acc[R][V] = {};
        for (int k = 0; k < n; k++) {
            const Vector* weights = (const Vector*)(w + k * 64 + lane);
            if (FAR) {
                UNROLL for (int v = 0; v < V; v++) prefetch(weights + v);
            }
            UNROLL for (int r = 0; r < R; r++) {
                UNROLL for (int v = 0; v < V; v++) {
                    acc[r][v] = F_ADD(acc[r][v], F_MUL(weights[v], x[r * step + k * APART]));
                }
            }
        }
        UNROLL for (int r = 0; r < R; r++) {
            Vector* to = (Vector*)(tot + r * 64 + lane);
            UNROLL for (int v = 0; v < V; v++) to[v] = first ? acc[r][v] : F_ADD(to[v], acc[r][v]);
        }
    }
}

// As many rows as wanted, `step` apart
template <int APART = 1, int V = VECTORS, bool FAR = false>
FN void tiles(const float* w, const float* x, int step, int n, bool first, int rows, float* tot, int lanes = 64) {
    int r = 0;
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS) {
        tile<TILE_ROWS, APART, V, FAR>(w, x + (size_t)r * step, step, n, first, tot + r * 64, lanes);
    }
    x += (size_t)r * step, tot += r * 64;
    switch (rows - r) {
        case 1: return tile<1, APART, V, FAR>(w, x, step, n, first, tot, lanes);
        case 2: return tile<2, APART, V, FAR>(w, x, step, n, first, tot, lanes);
        case 3: return tile<3, APART, V, FAR>(w, x, step, n, first, tot, lanes);
        case 4: return tile<4, APART, V, FAR>(w, x, step, n, first, tot, lanes);
        case 5: return tile<5, APART, V, FAR>(w, x, step, n, first, tot, lanes);
    }
}
