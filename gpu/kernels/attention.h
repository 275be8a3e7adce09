// Attention over stored keys and values, in leaves that every schedule shares: scores of 64 positions, exponentials and
// their sum over a chunk of 128 positions, mix of a chunk. The maximum comes first; there is no online rescaling.
//
// Keys of one kv head are blocks of 64 positions, one per lane, whose terms are the d entries of a key; values are blocks
// of 64 entries, one per lane, whose terms are the positions. Both are thus read like the weights of a linear.
#pragma once

// What a layer holds of one sequence; all positions of a head lie together, capacity is a multiple of 128.
struct KV {
    DEVICE u32* k;  // [kv_heads, capacity / 64] blocks of d terms
    DEVICE u32* v;  // [kv_heads, ceil(d / 64)] blocks of `capacity` terms
    int capacity;
};

template <class F>
FN DEVICE u32* key_block(KV kv, int head, int d, int position) {
    return kv.k + block_words<F>(d) * ((size_t)head * (kv.capacity / 64) + position / 64);
}

// The terms of a block of values from `position`, a multiple of 32, on
template <class F>
FN DEVICE u32* value_terms(KV kv, int head, int d, int block, int position) {
    const size_t blocks = (size_t)head * ((d + 63) / 64) + block;
    return kv.v + (blocks * (kv.capacity / 32) + position / 32) * F::ROWS * 64;
}

// --- append: a key or a value [d] at its position -------------------------------------------------------------------------
FN DEVICE u8* byte_at(DEVICE u32* words, size_t byte) { return (DEVICE u8*)words + byte; }

template <class F>
struct Stored;  // how term k of lane `lane` of a block is written; integers arrive as f32

template <>
struct Stored<F32> {
    FN void put(DEVICE u32* g, int lane, int k, float x) { g[k % 32 * 64 + lane] = bits_of(x); }
};
template <>
struct Stored<BF16> {
    FN void put(DEVICE u32* g, int lane, int k, float x) {
        ((DEVICE u16*)g)[(k % 32 / 2 * 64 + lane) * 2 + k % 2] = (u16)to_bf16(x);
    }
};
struct StoredBytes {  // one row of scales, then four terms per word
    FN void put(DEVICE u32* g, int lane, int k, float q) {
        ((DEVICE i8*)g)[((1 + k % 32 / 4) * 64 + lane) * 4 + k % 4] = (i8)(i32)q;
    }
};
template <>
struct Stored<Q8> : StoredBytes {};
template <>
struct Stored<V8> : StoredBytes {};

// FK, FV: formats of keys and values; most: room for 64 values. A task per row and kv head.
template <class FK, class FV>
FN void append_head(const DEVICE float* RESTRICT k, const DEVICE float* RESTRICT v, KV kv, int head, int d, int position,
                    SHARED float* most LANE_PARAM) {
    DEVICE u32* keys = key_block<FK>(kv, head, d, position);
    float sk = 1.0f, sv = 1.0f;
    if (FK::HEAD) {
        sk = quant_scale(largest(k, d, most LANE_ARG));
        BARRIER();
        sv = quant_scale(largest(v, d, most LANE_ARG));
    }
    FOR_EACH(e, 0, d) {
        DEVICE u32* key = keys + (size_t)(e / 32) * FK::ROWS * 64;
        DEVICE u32* value = value_terms<FV>(kv, head, d, e / 64, position);
        if (FK::HEAD) {
            key[position % 64] = bits_of(sk);  // the row of scales of every group
            value[position % 32] = bits_of(sv);
        }
        Stored<FK>::put(key, position % 64, e, FK::HEAD ? (float)quant(k[e], sk) : k[e]);
        Stored<FV>::put(value, e % 64, position, FK::HEAD ? (float)quant(v[e], sv) : v[e]);
    }
}

// --- leaves ---------------------------------------------------------------------------------------------------------------
// Of a query and a key, from their dot
FN float score_of(float dot, float scale) { return settle(F_MUL(settle(dot), scale)); }

// s[j] of 64 positions
LEAF void scores_of(const THREAD float* dots, float scale, SHARED float* s LANE_PARAM) {
    LANES(i) s[i] = score_of(dots[PL(i)], scale);
}

// e[j] = exp_neg(settle(s[j] - m)) for positions lo .. hi of a chunk, +0.0 for the others; in place
LEAF void exp_positions(SHARED float* s, int n, int lo, int hi, float m LANE_PARAM) {
    FOR_EACH(j, 0, n) {
        const bool seen = j >= lo && j < hi;
        const float e = exp_neg(seen ? settle(F_SUB(s[j], m)) : 0.0f);
        s[j] = seen ? e : 0.0f;
    }
}

FN int first_seen(int position, int window) { return window > 0 && position >= window ? position - window + 1 : 0; }
