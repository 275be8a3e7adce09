// How the host goes through attention where rows are many: a task takes a tile of 64 queries, one per lane, through scores,
// exponentials and mix. What runs along the positions, the largest score and the sums, thus runs in all lanes at once.
#pragma once

#define MANY 64  // by queries: of a tile

struct Seen {  // by the query in each lane: positions lo .. hi; lanes without one repeat the last
    i32 lo[64], hi[64];
};

FN Seen seen_by(const Attention& a, const Tile& t) {
    Seen seen;
    for (int i = 0; i < 64; i++) {
        const int last = t.rows * t.heads - 1, p = position_of(a, t, i < last ? i : last);
        seen.lo[i] = first_seen(p, a.window);
        seen.hi[i] = p + 1;
    }
    return seen;
}

// Queries as a block of 64, whose terms are the d entries: read like the weights of a linear
LEAF void pack_queries(const Attention& a, const Tile& t, float* q) {
    memset(q, 0, sizeof(float) * a.d * 64);
    for (int i = 0; i < t.rows * t.heads; i++) {
        const float* from = a.q + query_at(a, t, i);
        for (int e = 0; e < a.d; e++) q[e * 64 + i] = from[e];
    }
}

// chunked_dot of all queries with the keys of positions p .. p + 64 that any of them sees: s [position][query]
template <class F>
FN void dots_of_keys(const Attention& a, const Tile& t, const float* q, int p, float* s, float* unpacked) {
    const u32* block = key_block<F>(a.carried[t.span].kv, t.kv_head, a.d, p);
    for (int k = 0; k < a.d; k += CHUNK) {
        const int n = a.d - k < CHUNK ? a.d - k : CHUNK;
        const float* keys = terms_of<F>(block + (size_t)(k / 32) * F::ROWS * 64, n, unpacked);
        tiles<64>(q + k * 64, keys, 1, n, k == 0, t.hi - p < 64 ? t.hi - p : 64, s);
    }
}

// Dots of positions p .. p + n become scores, -infinity where a query does not see; the largest of each so far
LEAF void score_positions(float* RESTRICT s, int p, int n, float scale, const Seen& seen, float* RESTRICT most) {
    for (int j = 0; j < n; j++) {
        LANES(i) {
            const float x = score_of(s[j * 64 + i], scale);
            const float score = p + j >= seen.lo[i] && p + j < seen.hi[i] ? x : -INFINITY;
            most[i] = larger(most[i], score);
            s[j * 64 + i] = score;
        }
    }
}

// Scores of n positions of a chunk become exponentials, +0.0 of -infinity; denom takes their sum
LEAF void exp_of_chunk(float* RESTRICT s, int n, const float* RESTRICT most, float* RESTRICT denom) {
    ALIGNED float sum[64] = {};
    for (int j = 0; j < n; j++) {
        LANES(i) {
            const float e = exp_neg(settle(F_SUB(s[j * 64 + i], most[i])));
            s[j * 64 + i] = e;
            sum[i] = F_ADD(sum[i], e);
        }
    }
    LANES(i) denom[i] = F_ADD(denom[i], sum[i]);
}

// To tot [query][entry] of one block of values, what a chunk adds: e [position][query]. The later one of a row of queries
// sees the most.
FN void mix_of_chunk(const float* values, const float* e, int p, int n, int queries, bool first, const Seen& seen, float* tot) {
    for (int r = 0; r < queries; r += TILE_ROWS) {
        const int some = queries - r < TILE_ROWS ? queries - r : TILE_ROWS, last = seen.hi[r + some - 1] - p;
        if (last > 0) tiles<64>(values, e + r, 1, last < n ? last : n, first, some, tot + r * 64);
    }
}

// Floats of scratch that a tile needs when a sequence has `chunks` chunks
static size_t attention_scratch(int chunks, int d) {
    return UNPACKED + (size_t)64 * (d + (d + 63) / 64 * 64 + chunks * CHUNK);
}

template <class FK, class FV>
static void attention_many(const Attention& a, int task, float* scratch) {
    const int tiles = tiles_of(a);  // pair short and long tiles, so that a static split is fair
    const Tile t = tile_at(a, task % 2 ? tiles - 1 - task / 2 : task / 2);
    const Seen seen = seen_by(a, t);
    const int blocks = (a.d + 63) / 64, start = t.lo / CHUNK * CHUNK;
    float *q = scratch + UNPACKED, *tot = q + 64 * a.d, *s = tot + 64 * 64 * blocks;
    ALIGNED float most[64], denom[64] = {};
    LANES(i) most[i] = -INFINITY;
    pack_queries(a, t, q);
    for (int p = start; p < t.hi; p += 64) {
        dots_of_keys<FK>(a, t, q, p, s + (size_t)(p - start) * 64, scratch);
        score_positions(s + (size_t)(p - start) * 64, p, t.hi - p < 64 ? t.hi - p : 64, a.scale, seen, most);
    }
    for (int p = start; p < t.hi; p += CHUNK) {
        const int n = t.hi - p < CHUNK ? t.hi - p : CHUNK;
        float* e = s + (size_t)(p - start) * 64;
        exp_of_chunk(e, n, most, denom);
        for (int block = 0; block < blocks; block++) {
            const u32* values = value_terms<FV>(a.carried[t.span].kv, t.kv_head, a.d, block, p);
            mix_of_chunk(terms_of<FV>(values, n, scratch), e, p, n, t.rows * t.heads, p == start, seen, tot + 64 * 64 * block);
        }
    }
    for (int block = 0; block < blocks; block++) {
        for (int r = 0; r < t.rows * t.heads; r++) finish(a, t, r, block, tot + 64 * (64 * block + r), denom[r]);
    }
}
