// Ops on rows [rows, width], which never see a state. A task is the work of one group; `task` says which.
#pragma once

#define SEGMENT 512  // by floats: of one task of an elementwise op

// --- elementwise: n values, tasks = ceil(n / SEGMENT) -----------------------------------------------------------------
#define ELEMENTS(e, n) FOR_EACH(e, task * SEGMENT, (task + 1) * SEGMENT < (n) ? (task + 1) * SEGMENT : (n))

TASK add(const DEVICE float* RESTRICT x, const DEVICE float* RESTRICT y, DEVICE float* RESTRICT out, int n,
         int task LANE_PARAM) {
    ELEMENTS(e, n) out[e] = settle(F_ADD(x[e], y[e]));
}

TASK mul(const DEVICE float* RESTRICT x, const DEVICE float* RESTRICT y, DEVICE float* RESTRICT out, int n,
         int task LANE_PARAM) {
    ELEMENTS(e, n) out[e] = settle(F_MUL(x[e], y[e]));
}

TASK swiglu(const DEVICE float* RESTRICT gate, const DEVICE float* RESTRICT up, DEVICE float* RESTRICT out, int n,
            int task LANE_PARAM) {
    ELEMENTS(e, n) out[e] = settle(F_MUL(silu(gate[e]), up[e]));
}

struct Settle {
    FN float of(float x) { return settle(x); }
};
struct ExpNeg {
    FN float of(float x) { return exp_neg(x); }
};
struct Sigmoid {
    FN float of(float x) { return sigmoid(x); }
};
struct Silu {
    FN float of(float x) { return silu(x); }
};
struct GeluTanh {
    FN float of(float x) { return gelu_tanh(x); }
};
struct Softplus {
    FN float of(float x) { return softplus(x); }
};
struct Log1p01 {
    FN float of(float x) { return log1p01(x); }
};

template <class Function>
TASK map(const DEVICE float* RESTRICT x, DEVICE float* RESTRICT out, int n, int task LANE_PARAM) {
    ELEMENTS(e, n) out[e] = Function::of(x[e]);
}

// settle(neg_a * softplus(settle(a + dt_bias))), a [rows, heads]
TASK delta_decay(const DEVICE float* RESTRICT a, const DEVICE float* RESTRICT neg_a, const DEVICE float* RESTRICT bias,
                 DEVICE float* RESTRICT out, int n, int heads, int task LANE_PARAM) {
    ELEMENTS(e, n) {
        const int h = e % heads;
        out[e] = settle(F_MUL(neg_a[h], softplus(settle(F_ADD(a[e], bias[h])))));
    }
}

// Values offset .. offset + size of every head of `total` values: out [rows, heads * size]
TASK slice(const DEVICE float* RESTRICT x, DEVICE float* RESTRICT out, int n, int total, int offset, int size,
           int task LANE_PARAM) {
    ELEMENTS(e, n) out[e] = x[e / size * total + offset + e % size];
}

// Row index[r] of x as row r, a task per row
TASK gather(const DEVICE float* RESTRICT x, const DEVICE i32* RESTRICT index, DEVICE float* RESTRICT out, int width,
            int task LANE_PARAM) {
    FOR_EACH(e, 0, width) out[task * width + e] = x[index[task] * width + e];
}

// --- chunked sums of a row ----------------------------------------------------------------------------------------------
struct Itself {
    FN float of(float x) { return x; }
};
struct Square {
    FN float of(float x) { return F_MUL(x, x); }
};

// chunked_sum of Term(x[0..n)); sums: room for one value per chunk
template <class Term, class X>
FN float chunked_sum(X x, int n, SHARED float* sums LANE_PARAM) {
    const int chunks = (n + CHUNK - 1) / CHUNK;
    FOR_EACH(several, 0, (chunks + SIDE - 1) / SIDE) {
        const int first = several * SIDE * CHUNK;
        float acc[SIDE];
        UNROLL for (int s = 0; s < SIDE; s++) acc[s] = 0.0f;
        if (first + SIDE * CHUNK <= n) {
            for (int k = 0; k < CHUNK; k++) {
                UNROLL for (int s = 0; s < SIDE; s++) acc[s] = F_ADD(acc[s], Term::of(x[first + s * CHUNK + k]));
            }
        } else {
            for (int s = 0; s < SIDE; s++) {
                const int start = first + s * CHUNK, stop = start + CHUNK < n ? start + CHUNK : n;
                for (int k = start; k < stop; k++) acc[s] = F_ADD(acc[s], Term::of(x[k]));
            }
        }
        UNROLL for (int s = 0; s < SIDE; s++) {
            if (several * SIDE + s < chunks) sums[several * SIDE + s] = acc[s];
        }
    }
    BARRIER();
    float tot = 0.0f;
    for (int c = 0; c < chunks; c++) tot = F_ADD(tot, sums[c]);
    return tot;
}

// --- norms: a task per group of n values; sums: room for ceil(n / 128) values -----------------------------------------
FN float rms(const DEVICE float* RESTRICT x, int n, float eps, SHARED float* sums LANE_PARAM) {
    const float mean = F_DIV(chunked_sum<Square>(x, n, sums LANE_ARG), (float)n);
    return F_DIV(1.0f, F_SQRT(F_ADD(mean, eps)));
}

TASK rms_norm(const DEVICE float* RESTRICT x, const DEVICE float* RESTRICT w, DEVICE float* RESTRICT out, int n, float eps,
              int task, SHARED float* sums LANE_PARAM) {
    const DEVICE float* one = x + (size_t)task * n;
    const float s = rms(one, n, eps, sums LANE_ARG);
    FOR_EACH(e, 0, n) out[(size_t)task * n + e] = settle(F_MUL(settle(F_MUL(one[e], s)), w[e]));
}

// mul(rms_norm(o), silu(z))
TASK gated_norm(const DEVICE float* RESTRICT o, const DEVICE float* RESTRICT w, const DEVICE float* RESTRICT z,
                DEVICE float* RESTRICT out, int n, float eps, int task, SHARED float* sums LANE_PARAM) {
    const size_t at = (size_t)task * n;
    const float s = rms(o + at, n, eps, sums LANE_ARG);
    FOR_EACH(e, 0, n) {
        out[at + e] = settle(F_MUL(settle(F_MUL(settle(F_MUL(o[at + e], s)), w[e])), silu(z[at + e])));
    }
}

// out holds settle(x - mean) on the way
TASK layer_norm(const DEVICE float* RESTRICT x, const DEVICE float* RESTRICT w, const DEVICE float* RESTRICT b,
                DEVICE float* out, int n, float eps, int task, SHARED float* sums LANE_PARAM) {
    const size_t at = (size_t)task * n;
    const float mean = F_DIV(chunked_sum<Itself>(x + at, n, sums LANE_ARG), (float)n);
    FOR_EACH(e, 0, n) out[at + e] = settle(F_SUB(x[at + e], mean));
    BARRIER();
    const float variance = F_DIV(chunked_sum<Square>(out + at, n, sums LANE_ARG), (float)n);
    const float s = F_DIV(1.0f, F_SQRT(F_ADD(variance, eps)));
    FOR_EACH(e, 0, n) out[at + e] = settle(F_ADD(settle(F_MUL(settle(F_MUL(out[at + e], s)), w[e])), b[e]));
}

// scale 0 means none
TASK l2_norm(const DEVICE float* RESTRICT x, DEVICE float* RESTRICT out, int n, float scale, int task,
             SHARED float* sums LANE_PARAM) {
    const size_t at = (size_t)task * n;
    const float s = F_DIV(1.0f, F_SQRT(F_ADD(chunked_sum<Square>(x + at, n, sums LANE_ARG), 1e-6f)));
    FOR_EACH(e, 0, n) {
        const float unit = settle(F_MUL(x[at + e], s));
        out[at + e] = scale == 0.0f ? unit : settle(F_MUL(unit, scale));
    }
}

// chunked_sum by itself, a task per row of n values
TASK row_sum(const DEVICE float* RESTRICT x, DEVICE float* RESTRICT out, int n, int task, SHARED float* sums LANE_PARAM) {
    const float tot = chunked_sum<Itself>(x + (size_t)task * n, n, sums LANE_ARG);
    if (FIRST_LANE) out[task] = tot;
}

// --- rope: a task per row and head; half: pairs that turn --------------------------------------------------------------
TASK rope(const DEVICE float* RESTRICT x, const DEVICE float* RESTRICT cos, const DEVICE float* RESTRICT sin,
          DEVICE float* RESTRICT out, int heads, int d, int half, int task LANE_PARAM) {
    const size_t at = (size_t)task * d;
    const DEVICE float* c = cos + (size_t)(task / heads) * half;
    const DEVICE float* s = sin + (size_t)(task / heads) * half;
    FOR_EACH(e, 0, half) {
        const float x1 = x[at + e], x2 = x[at + half + e];
        out[at + e] = settle(F_SUB(F_MUL(x1, c[e]), F_MUL(x2, s[e])));
        out[at + half + e] = settle(F_ADD(F_MUL(x2, c[e]), F_MUL(x1, s[e])));
    }
    FOR_EACH(e, 2 * half, d) out[at + e] = x[at + e];
}

// --- embed: a task per row; the table is packed like the weight of a linear ------------------------------------------
template <class F>
TASK embed(const DEVICE u32* RESTRICT table, const DEVICE i32* RESTRICT ids, DEVICE float* RESTRICT out, int width,
           int task LANE_PARAM) {
    const int id = ids[task];
    const DEVICE u32* block = table + (size_t)(id / 64) * ((width + 31) / 32) * F::ROWS * 64;
    FOR_EACH(k, 0, width) {
        const typename F::Lane lane_of = F::load(block + (size_t)(k / 32) * F::ROWS * 64, id % 64, k % 32 / F::PER);
        out[(size_t)task * width + k] = settle(F::get(lane_of, k % F::PER));  // a format may hold -0
    }
}

// --- rounding of activations for the arms ------------------------------------------------------------------------------
TASK round_bf16(const DEVICE float* RESTRICT x, DEVICE float* RESTRICT out, int n, int task LANE_PARAM) {
    ELEMENTS(e, n) out[e] = from_bf16(to_bf16(x[e]));
}

// The largest magnitude of x[0..n); most: room for 64 values
template <class X>
FN float largest(X x, int n, SHARED float* most LANE_PARAM) {
    LANES(i) {
        float m = 0.0f;
        for (int e = i; e < n; e += 64) m = larger(m, F_ABS(x[e]));
        most[i] = m;
    }
    BARRIER();
    float m = most[0];
    for (int i = 1; i < 64; i++) m = larger(m, most[i]);
    return m;
}

// A task per row: integers in [-127, 127], held as f32, and the scale
TASK quant_rows(const DEVICE float* RESTRICT x, DEVICE float* RESTRICT q, DEVICE float* RESTRICT scale, int n, int task,
                SHARED float* most LANE_PARAM) {
    const float s = quant_scale(largest(x + (size_t)task * n, n, most LANE_ARG));
    FOR_EACH(e, 0, n) q[(size_t)task * n + e] = (float)quant(x[(size_t)task * n + e], s);
    if (FIRST_LANE) scale[task] = s;
}

// --- mixture of experts: a task per row --------------------------------------------------------------------------------
// softmax of the router's row, then the top_k weights by (p descending, id ascending), +0.0 elsewhere; room: 2 * experts
TASK route(const DEVICE float* RESTRICT logits, DEVICE float* RESTRICT out, int experts, int top_k, int normalise, int task,
           SHARED float* room LANE_PARAM) {
    const DEVICE float* x = logits + (size_t)task * experts;
    DEVICE float* y = out + (size_t)task * experts;
    if (!(FIRST_LANE)) return;
    float m = x[0];
    for (int e = 1; e < experts; e++) m = larger(m, x[e]);
    float denom = 0.0f;
    for (int c = 0; c < experts; c += CHUNK) {
        float acc = 0.0f;
        for (int e = c; e < experts && e < c + CHUNK; e++) {
            room[e] = exp_neg(settle(F_SUB(x[e], m)));
            acc = F_ADD(acc, room[e]);
        }
        denom = F_ADD(denom, acc);
    }
    for (int e = 0; e < experts; e++) {
        room[e] = settle(F_DIV(room[e], denom));
        y[e] = 0.0f;
    }
    SHARED float* taken = room + experts;
    for (int e = 0; e < experts; e++) taken[e] = 0.0f;
    float z = 0.0f;
    for (int k = 0; k < top_k; k++) {
        int best = -1;
        for (int e = 0; e < experts; e++) {
            if (taken[e] == 0.0f && (best < 0 || room[e] > room[best])) best = e;
        }
        taken[best] = 1.0f;
        z = F_ADD(z, room[best]);
    }
    for (int e = 0; e < experts; e++) {
        if (taken[e] != 0.0f) y[e] = normalise ? settle(F_DIV(room[e], z)) : room[e];
    }
}
