// How a GPU goes through attention: three launches over (tile, chunk of 128 positions). A tile is up to QUERIES queries of
// one kv head, (row, head of the group) in order; nothing that one launch writes is read before the next.
#pragma once

#define QUERIES 4  // by queries: of a tile
#define WIDEST 512  // entries of a head that a group has room for
#define MIX_PARTS 2  // parts of a group: 64 positions each for scores, every other block of entries for mixes

struct Attention {  // over one sequence, which held `length` positions before rows start .. stop of this step
    const DEVICE float* q;  // [rows, heads * d]
    KV kv;
    int start, stop, length, heads, kv_heads, d, window, chunks;
    float scale;
};

struct Tile {
    int kv_head, first, count;  // queries first .. first + count of (row, head of the group)
    int lo, hi;                 // positions that some of them see; none where the sequence has no such tile
};

FN Tile tile_at(const THREAD Attention& a, int index) {
    const int group = a.heads / a.kv_heads, all = (a.stop - a.start) * group, per_head = (all + QUERIES - 1) / QUERIES;
    Tile t;
    t.kv_head = index / (per_head > 0 ? per_head : 1);
    t.first = per_head > 0 ? index % per_head * QUERIES : 0;
    t.count = t.kv_head >= a.kv_heads ? 0 : all - t.first < QUERIES ? all - t.first : QUERIES;
    t.lo = first_seen(a.length + t.first / group, a.window);
    t.hi = t.count > 0 ? a.length + (t.first + t.count - 1) / group + 1 : t.lo;
    return t;
}

// Query r of a tile; beyond its count the last one again, which is computed and dropped
FN int query_of(const THREAD Tile& t, int r) { return t.first + (r < t.count ? r : t.count - 1); }

FN int position_of(const THREAD Attention& a, const THREAD Tile& t, int r) {
    return a.length + query_of(t, r) / (a.heads / a.kv_heads);
}

// Index of a query among [rows, heads]
FN size_t row_head(const THREAD Attention& a, const THREAD Tile& t, int r) {
    const int group = a.heads / a.kv_heads, query = query_of(t, r);
    return (size_t)(a.start + query / group) * a.heads + t.kv_head * group + query % group;
}

FN bool seen_by(const THREAD Attention& a, const THREAD Tile& t, int r, int position) {
    const int last = position_of(a, t, r);
    return position <= last && position >= first_seen(last, a.window);
}

FN bool has_chunk(const THREAD Tile& t, int chunk) {
    return t.hi > t.lo && chunk >= t.lo / CHUNK && chunk <= (t.hi - 1) / CHUNK;
}

// Scores [QUERIES][128] of a chunk, this thread's position of each; room: QUERIES * (WIDEST + CHUNK)
template <class F>
FN SHARED float* score_chunk(const THREAD Attention& a, const THREAD Tile& t, int chunk, int part,
                             SHARED float* room LANE_PARAM) {
    SHARED float* s = room + QUERIES * WIDEST;
    for (int r = 0; r < QUERIES; r++) {
        const DEVICE float* q = a.q + row_head(a, t, r) * a.d;
        for (int e = part * 64 + lane; e < a.d; e += MIX_PARTS * 64) room[r * a.d + e] = q[e];
    }
    BARRIER();
    const int start = chunk * CHUNK + part * 64;
    if (start < t.hi) {
        float tot[QUERIES];
        dot<F, QUERIES>(key_block<F>(a.kv, t.kv_head, a.d, start), room, a.d, a.d, tot LANE_ARG);
        for (int r = 0; r < QUERIES; r++) scores_of(tot + r, a.scale, s + r * CHUNK + part * 64 LANE_ARG);
    }
    return s;
}

// Phase 1, a task per (tile, chunk). scores [tiles, chunks, QUERIES, 128], most [tiles, chunks, QUERIES]
template <class F>
TASK attention_scores(const THREAD Attention& a, DEVICE float* scores, DEVICE float* most, size_t tiles, int task, int part,
                      SHARED float* room LANE_PARAM) {
    const Tile t = tile_at(a, task / a.chunks);
    const int chunk = task % a.chunks, at = part * 64 + lane;
    if (!has_chunk(t, chunk)) return;
    SHARED float* s = score_chunk<F>(a, t, chunk, part, room LANE_ARG);
    const size_t where = (tiles * a.chunks + task) * QUERIES;
    for (int r = 0; r < QUERIES; r++) {
        const bool seen = seen_by(a, t, r, chunk * CHUNK + at);
        scores[(where + r) * CHUNK + at] = seen ? s[r * CHUNK + at] : 0.0f;
        if (!seen) s[r * CHUNK + at] = float_of(0xff800000u);
    }
    for (int half = CHUNK / 2; half > 0; half /= 2) {
        BARRIER();
        if (at < half) {
            for (int r = 0; r < QUERIES; r++) s[r * CHUNK + at] = larger(s[r * CHUNK + at], s[r * CHUNK + at + half]);
        }
    }
    if (at == 0) {
        for (int r = 0; r < QUERIES; r++) most[where + r] = s[r * CHUNK];
    }
}

// Phase 2, a task per (tile, chunk). sums [tiles, chunks, QUERIES], mixes [tiles, chunks, ceil(d / 64), QUERIES, 64];
// room: QUERIES * CHUNK
template <class F>
TASK attention_mix(const THREAD Attention& a, const DEVICE float* scores, const DEVICE float* most, DEVICE float* sums,
                   DEVICE float* mixes, size_t tiles, int task, int part, SHARED float* room LANE_PARAM) {
    const Tile t = tile_at(a, task / a.chunks);
    const int chunk = task % a.chunks, start = chunk * CHUNK, blocks = (a.d + 63) / 64;
    if (!has_chunk(t, chunk)) return;
    const int n = (start + CHUNK < t.hi ? start + CHUNK : t.hi) - start;
    const size_t base = (tiles * a.chunks + task - chunk) * QUERIES, where = base + (size_t)chunk * QUERIES;
    for (int r = part; r < QUERIES; r += MIX_PARTS) {
        float m = float_of(0xff800000u);
        for (int c = t.lo / CHUNK; c <= (t.hi - 1) / CHUNK; c++) m = larger(m, most[base + (size_t)c * QUERIES + r]);
        SHARED float* e = room + r * CHUNK;
        FOR_EACH(j, 0, n) e[j] = scores[(where + r) * CHUNK + j];
        const int last = position_of(a, t, r);
        exp_positions(e, n, first_seen(last, a.window) - start, last + 1 - start, m LANE_ARG);
    }
    BARRIER();
    if (part == 0 && lane < QUERIES) {
        float acc = 0.0f;
        for (int j = 0; j < n; j++) acc = F_ADD(acc, room[lane * CHUNK + j]);
        sums[where + lane] = acc;
    }
    for (int block = part; block < blocks; block += MIX_PARTS) {
        float acc[QUERIES];
        dot_chunk<F, QUERIES>(value_terms<F>(a.kv, t.kv_head, a.d, block, start), room, CHUNK, n, acc LANE_ARG);
        for (int r = 0; r < QUERIES; r++) mixes[((where * blocks) + block * QUERIES + r) * 64 + lane] = acc[r];
    }
}

// Phase 3, a task per tile: sums and mixes of its chunks, ascending. out [rows, heads * d]
TASK attention_merge(const THREAD Attention& a, const DEVICE float* sums, const DEVICE float* mixes, DEVICE float* out,
                     size_t tiles, int task LANE_PARAM) {
    const Tile t = tile_at(a, task);
    const int blocks = (a.d + 63) / 64;
    for (int r = 0; r < t.count; r++) {
        const size_t base = (tiles + task) * a.chunks * QUERIES;
        float denom = 0.0f;
        for (int c = t.lo / CHUNK; c <= (t.hi - 1) / CHUNK; c++) denom = F_ADD(denom, sums[base + (size_t)c * QUERIES + r]);
        for (int block = 0; block < blocks; block++) {
            float tot = 0.0f;
            for (int c = t.lo / CHUNK; c <= (t.hi - 1) / CHUNK; c++) {
                const size_t where = base + (size_t)c * QUERIES;
                tot = F_ADD(tot, mixes[(where * blocks + block * QUERIES + r) * 64 + lane]);
            }
            const int e = block * 64 + lane;
            if (e < a.d) out[row_head(a, t, r) * a.d + e] = settle(F_DIV(settle(tot), denom));
        }
    }
}

// --- the steps by themselves, for taps: of one sequence, T positions -----------------------------------------------------
// A task per (tile, chunk): out [rows of the sequence, heads, T], which is +0.0 where nothing is seen
template <class F>
TASK tap_scores(const THREAD Attention& a, DEVICE float* out, size_t, int task, int part, SHARED float* room LANE_PARAM) {
    const Tile t = tile_at(a, task / a.chunks);
    const int T = a.length + a.stop - a.start, position = task % a.chunks * CHUNK + part * 64 + lane;
    if (t.count == 0) return;
    SHARED float* s = room;
    if (has_chunk(t, task % a.chunks)) s = score_chunk<F>(a, t, task % a.chunks, part, room LANE_ARG);
    for (int r = 0; r < t.count && position < T; r++) {
        const size_t at = (row_head(a, t, r) - (size_t)a.start * a.heads) * T + position;
        out[at] = seen_by(a, t, r, position) ? s[r * CHUNK + part * 64 + lane] : 0.0f;
    }
}

// A task per (row, head): e [rows, heads, T] from s; room: 64
TASK tap_exp(const DEVICE float* s, DEVICE float* e, int heads, int length, int window, int T, int task,
             SHARED float* room LANE_PARAM) {
    const int last = length + task / heads, lo = first_seen(last, window);
    const DEVICE float* from = s + (size_t)task * T;
    float m = float_of(0xff800000u);
    FOR_EACH(j, lo, last + 1) m = larger(m, from[j]);
    room[lane] = m;
    BARRIER();
    for (int i = 0; i < 64; i++) m = larger(m, room[i]);
    FOR_EACH(j, 0, T) e[(size_t)task * T + j] = j >= lo && j <= last ? exp_neg(settle(F_SUB(from[j], m))) : 0.0f;
}

// A task per (row, head) and block of 64 entries: out [rows, heads * d] from e and denominators [rows, heads]
template <class F>
TASK tap_mix(const DEVICE float* e, const DEVICE float* denom, KV kv, DEVICE float* out, int heads, int kv_heads, int d, int T,
             int task LANE_PARAM) {
    const int blocks = (d + 63) / 64, block = task % blocks, one = task / blocks, n = block * 64 + lane;
    float tot[1];
    dot<F, 1>(value_terms<F>(kv, one % heads / (heads / kv_heads), d, block, 0), e + (size_t)one * T, T, T, tot LANE_ARG);
    if (n < d) out[(size_t)one * d + n] = settle(F_DIV(settle(tot[0]), denom[one]));
}
