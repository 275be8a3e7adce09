// Layers that carry a state: causal convolution and delta rule, one sequence at a time, rows in order.
#pragma once

// Channels of one task. x [rows, C], w [taps, C], old and fresh state [taps - 1, C], oldest row first
TASK causal_conv(const DEVICE float* RESTRICT x, const DEVICE float* RESTRICT w, const DEVICE float* RESTRICT old,
                 DEVICE float* RESTRICT fresh, DEVICE float* RESTRICT out, int rows, int C, int taps, int task LANE_PARAM) {
    const int lo = task * SEGMENT, hi = lo + SEGMENT < C ? lo + SEGMENT : C;
    for (int t = 0; t < rows; t++) {
        FOR_EACH(c, lo, hi) {
            float acc = 0.0f;
            for (int j = 0; j < taps; j++) {
                const int row = t - (taps - 1) + j;  // before this step where negative
                const float past = row < 0 ? old[(size_t)(row + taps - 1) * C + c] : x[(size_t)row * C + c];
                acc = F_ADD(acc, F_MUL(w[(size_t)j * C + c], past));
            }
            out[(size_t)t * C + c] = silu(settle(acc));
        }
    }
    for (int j = 0; j < taps - 1; j++) {
        const int row = rows - (taps - 1) + j;
        FOR_EACH(c, lo, hi) {
            fresh[(size_t)j * C + c] = row < 0 ? old[(size_t)(row + taps - 1) * C + c] : x[(size_t)row * C + c];
        }
    }
}

struct Delta {
    const DEVICE float* q;     // [rows, key_heads * dk]
    const DEVICE float* k;
    const DEVICE float* v;     // [rows, value_heads * dv]
    const DEVICE float* g;     // [rows, value_heads]
    const DEVICE float* beta;
    const DEVICE float* old;   // [value_heads, dk, dv]
    DEVICE float* fresh;
    DEVICE float* out;         // [rows, value_heads * dv]
    int rows, key_heads, value_heads, dk, dv;
};

// A task per value head and 64 columns of its state: columns share nothing.
TASK delta_rule(const THREAD Delta& a, int task LANE_PARAM) {
    const int blocks = (a.dv + 63) / 64, head = task / blocks, lo = task % blocks * 64;
    const int n = a.dv - lo < 64 ? a.dv - lo : 64, key_head = head / (a.value_heads / a.key_heads);
    const DEVICE float* S = a.old + (size_t)head * a.dk * a.dv + lo;
    DEVICE float* next = a.fresh + (size_t)head * a.dk * a.dv + lo;
    for (int t = 0; t < a.rows; t++, S = next) {
        const DEVICE float* q = a.q + ((size_t)t * a.key_heads + key_head) * a.dk;
        const DEVICE float* k = a.k + ((size_t)t * a.key_heads + key_head) * a.dk;
        const size_t at = ((size_t)t * a.value_heads + head) * a.dv + lo;
        const float keep = exp_neg(a.g[(size_t)t * a.value_heads + head]);
        const float beta = a.beta[(size_t)t * a.value_heads + head];
        ALIGNED float tot[NL], u[NL];
        FOR_EACH(j, 0, n) tot[PL(j)] = 0.0f;
        for (int c = 0; c < a.dk; c += CHUNK) {
            ALIGNED float acc[NL];
            FOR_EACH(j, 0, n) acc[PL(j)] = 0.0f;
            for (int i = c; i < a.dk && i < c + CHUNK; i++) {
                FOR_EACH(j, 0, n) {
                    const float kept = settle(F_MUL(S[(size_t)i * a.dv + j], keep));
                    next[(size_t)i * a.dv + j] = kept;
                    acc[PL(j)] = F_ADD(acc[PL(j)], F_MUL(kept, k[i]));
                }
            }
            FOR_EACH(j, 0, n) tot[PL(j)] = F_ADD(tot[PL(j)], acc[PL(j)]);
        }
        FOR_EACH(j, 0, n) {
            u[PL(j)] = settle(F_MUL(settle(F_SUB(a.v[at + j], settle(tot[PL(j)]))), beta));
            tot[PL(j)] = 0.0f;
        }
        for (int c = 0; c < a.dk; c += CHUNK) {
            ALIGNED float acc[NL];
            FOR_EACH(j, 0, n) acc[PL(j)] = 0.0f;
            for (int i = c; i < a.dk && i < c + CHUNK; i++) {
                FOR_EACH(j, 0, n) {
                    const float s = settle(F_ADD(next[(size_t)i * a.dv + j], F_MUL(k[i], u[PL(j)])));
                    next[(size_t)i * a.dv + j] = s;
                    acc[PL(j)] = F_ADD(acc[PL(j)], F_MUL(s, q[i]));
                }
            }
            FOR_EACH(j, 0, n) tot[PL(j)] = F_ADD(tot[PL(j)], acc[PL(j)]);
        }
        FOR_EACH(j, 0, n) a.out[at + j] = settle(tot[PL(j)]);
    }
}
