// The inner loop of the host for one row of a weight that is stored as it is: F32, BF16, F16. It reads each word once, so
// memory sets the pace, and a core has more lines on their way when it reads several places at a time. The contract gives
// it some: the chunks of a block, whose sums are separate until they are added in order.
#pragma once

#define PLACES 5   // chunks at a time, at most
#define SOON 2048  // bytes from what is multiplied to what is asked for

// acc[c] += the 32 terms of a group of chunk c, for every place c; step by step, so that all places are read at a time. Past
// the end of its chunk a place goes on in the one after all of these.
template <class F>
FN void dot_places(const u32* RESTRICT w, const float* RESTRICT x, int group, int places, int all, float* RESTRICT acc) {
    const size_t apart = CHUNK / 32 * F::ROWS * 64;
    for (int s = 0; s < F::STEPS; s++) {
        const size_t row = (size_t)(group * F::ROWS + s) * 64, soon = row + SOON / 4;
        const size_t next = soon < apart ? soon : soon + (all - 1) * apart;
        for (int c = 0; c < places; c++) {
            for (int line = 0; line < 4; line++) __builtin_prefetch(w + c * apart + next + 16 * line);
            const float* terms = x + c * CHUNK + group * 32 + s * F::PER;
            dot_step<F, 1>(w + c * apart + group * F::ROWS * 64, s, terms, 0, acc + c * 64);
        }
    }
}

// The K terms of some chunks, each from +0.0
template <class F>
LEAF void dot_chunks(const u32* RESTRICT w, const float* RESTRICT x, int K, int chunks, float* RESTRICT acc) {
    memset(acc, 0, sizeof(float) * 64 * chunks);
    for (int group = 0; group < CHUNK / 32; group++) {
        const int at = (chunks - 1) * CHUNK + group * 32, left = K - at;  // terms of the last chunk
        dot_places<F>(w, x, group, left < 32 ? chunks - 1 : chunks, chunks, acc);
        if (left <= 0 || left >= 32) continue;
        dot_end<F, 1>(w + (size_t)(at / 32) * F::ROWS * 64, x + at, 0, left, acc + (chunks - 1) * 64);
    }
}

// chunked_dot of a row with a block
template <class F>
FN void dot_row(const u32* RESTRICT block, const float* RESTRICT x, int K, float* RESTRICT tot) {
    static_assert(F::HEAD == 0);
    const int chunks = (K + CHUNK - 1) / CHUNK, turns = (chunks + PLACES - 1) / PLACES, some = (chunks + turns - 1) / turns;
    ALIGNED float acc[PLACES * 64];
    LANES(i) tot[i] = 0.0f;
    for (int first = 0; first < chunks; first += some) {
        const int k = first * CHUNK, n = chunks - first < some ? chunks - first : some;
        dot_chunks<F>(block + (size_t)(k / 32) * F::ROWS * 64, x + k, K - k < n * CHUNK ? K - k : n * CHUNK, n, acc);
        for (int c = 0; c < n; c++) {
            LANES(i) tot[i] = F_ADD(tot[i], acc[c * 64 + i]);
        }
    }
}
