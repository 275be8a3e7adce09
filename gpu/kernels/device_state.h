// What a step changes in the state of a sequence, and the few row ops that only a GPU needs by themselves.
#pragma once

// Keys and values in place: a task per row of the sequence and kv head; room: 64
template <class FK, class FV>
TASK kv_append(const DEVICE float* k, const DEVICE float* v, KV kv, int start, int stop, int length, int kv_heads, int d,
               int task, SHARED float* room LANE_PARAM) {
    const int row = start + task / kv_heads, head = task % kv_heads;
    if (row >= stop) return;
    const size_t at = ((size_t)row * kv_heads + head) * d;
    append_head<FK, FV>(k + at, v + at, kv, head, d, length + row - start, room LANE_ARG);
}

// The same where a kernel may not write what it is given: old and fresh hold the chunks of 128 positions from `base` on that
// this step touches. A task per kv head and chunk copies the old one, then appends the rows that fall into it; room: 64
template <class FK, class FV>
TASK kv_append_tail(const DEVICE float* k, const DEVICE float* v, KV old, KV fresh, int rows, int length, int base,
                    int kv_heads, int d, int task, SHARED float* room LANE_PARAM) {
    const int chunks = fresh.capacity / CHUNK, head = task / chunks, start = task % chunks * CHUNK;
    const int words = 2 * (int)block_words<FK>(d), terms = CHUNK / 32 * FV::ROWS * 64;
    const DEVICE u32* from = key_block<FK>(old, head, d, start);
    DEVICE u32* to = key_block<FK>(fresh, head, d, start);
    FOR_EACH(e, 0, words) to[e] = from[e];
    for (int block = 0; block < (d + 63) / 64; block++) {
        from = value_terms<FV>(old, head, d, block, start);
        to = value_terms<FV>(fresh, head, d, block, start);
        FOR_EACH(e, 0, terms) to[e] = from[e];
    }
    BARRIER();
    for (int row = 0; row < rows; row++) {
        const int position = length + row - base;
        if (position < start || position >= start + CHUNK) continue;
        const size_t at = ((size_t)row * kv_heads + head) * d;
        append_head<FK, FV>(k + at, v + at, fresh, head, d, position, room LANE_ARG);
        BARRIER();  // before the next row takes the room
    }
}

// Causal convolution and delta rule of one sequence: rows start .. stop of the step
TASK conv_span(const DEVICE float* x, const DEVICE float* w, const DEVICE float* old, DEVICE float* fresh, DEVICE float* out,
               int start, int stop, int C, int taps, int task LANE_PARAM) {
    const size_t at = (size_t)start * C;
    causal_conv(x + at, w, old, fresh, out + at, stop - start, C, taps, task LANE_ARG);
}

TASK delta_span(Delta a, int start, int stop, int task LANE_PARAM) {
    a.q += (size_t)start * a.key_heads * a.dk;
    a.k += (size_t)start * a.key_heads * a.dk;
    a.v += (size_t)start * a.value_heads * a.dv;
    a.g += (size_t)start * a.value_heads;
    a.beta += (size_t)start * a.value_heads;
    a.out += (size_t)start * a.value_heads * a.dv;
    a.rows = stop - start;
    delta_rule(a, task LANE_ARG);
}

// x [rows, width] times one value per row, column `at` of y [rows, stride]: n = rows * width values
TASK mul_rows(const DEVICE float* RESTRICT x, const DEVICE float* RESTRICT y, DEVICE float* RESTRICT out, int n, int width,
              int stride, int at, int task LANE_PARAM) {
    ELEMENTS(e, n) out[e] = settle(F_MUL(x[e], y[e / width * stride + at]));
}

// The operations of probe.h; one of fewer than four inputs is given its first again
#define PROBE_TASK(name, In, Out, expression)                                                                       \
    TASK probe_##name(const DEVICE In* first, const DEVICE In* second, const DEVICE In* third, const DEVICE In* fourth, \
                      DEVICE Out* out, int n, int task LANE_PARAM) {                                                \
        ELEMENTS(e, n) {                                                                                            \
            const In a = first[e], b = second[e], c = third[e], d = fourth[e];                                      \
            (void)a, (void)b, (void)c, (void)d;                                                                     \
            out[e] = expression;                                                                                    \
        }                                                                                                           \
    }

PROBE_OPERATIONS(PROBE_TASK)
