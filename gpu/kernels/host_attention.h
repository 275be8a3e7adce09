// How the host goes through attention where rows are few: tasks are chunks of positions, in three phases with barriers
// between, and a lane is a position. Many rows go another way, host_attention_many.h. Same sums, same bytes.
#pragma once

struct Span {  // rows start .. stop of the step belong to one state, which held `length` positions before
    i32 start, stop, length;
};

struct Carried {  // what a layer carries of one sequence
    KV kv;
    const float *conv, *delta;  // before the step
    float *next_conv, *next_delta;
};

struct Attention {
    const float* q;           // [rows, heads * d]
    float* out;               // [rows, heads * d]
    const Span* spans;
    const Carried* carried;   // per span
    int span_count, heads, kv_heads, d, window;
    float scale;
    float* part;              // three phases: scores, maxima, sums and unfinished mixes of every chunk
    int chunks;               // of the longest sequence of this step
    int rows;
    int queries;              // of a tile: (row, head of the group) in order, which read the same kv head
};

#define TILE 8                 // by queries: of a tile where rows are few
#define UNPACKED (CHUNK * 64)  // floats of scratch that a chunk of a block takes

struct Tile {
    int span, row, rows, head, heads;  // rows of the step; query heads head .. head + heads
    int kv_head, lo, hi;               // positions that some query sees
};

static int head_parts(const Attention& a) { return (a.heads / a.kv_heads + a.queries - 1) / a.queries; }

static int tile_rows(const Attention& a) {
    const int group = a.heads / a.kv_heads;
    return group >= a.queries ? 1 : a.queries / group;
}

static int tiles_of(const Attention& a) {
    int n = 0;
    for (int s = 0; s < a.span_count; s++) {
        n += (a.spans[s].stop - a.spans[s].start + tile_rows(a) - 1) / tile_rows(a);
    }
    return n * a.kv_heads * head_parts(a);
}

static Tile tile_at(const Attention& a, int index) {
    const int parts = head_parts(a), per_row = a.kv_heads * parts, step = tile_rows(a), group = a.heads / a.kv_heads;
    int tile = index / per_row, span = 0;
    for (;; span++) {
        const int tiles = (a.spans[span].stop - a.spans[span].start + step - 1) / step;
        if (tile < tiles) break;
        tile -= tiles;
    }
    const Span& s = a.spans[span];
    Tile t;
    t.span = span;
    t.row = s.start + tile * step;
    t.rows = s.stop - t.row < step ? s.stop - t.row : step;
    t.kv_head = index % per_row / parts;
    const int part = index % parts;
    t.head = t.kv_head * group + part * a.queries;
    t.heads = group - part * a.queries < a.queries ? group - part * a.queries : a.queries;
    const int first = s.length + t.row - s.start;
    t.lo = first_seen(first, a.window);
    t.hi = first + t.rows;
    return t;
}

static int position_of(const Attention& a, const Tile& t, int r) {
    return a.spans[t.span].length + t.row - a.spans[t.span].start + r / t.heads;
}

FN size_t query_at(const Attention& a, const Tile& t, int r) {  // in q and in out
    return ((size_t)(t.row + r / t.heads) * a.heads + t.head + r % t.heads) * a.d;
}

FN void copy_queries(const Attention& a, const Tile& t, float* q) {
    for (int r = 0; r < t.rows * t.heads; r++) memcpy(q + r * a.d, a.q + query_at(a, t, r), sizeof(float) * a.d);
}

// chunked_dot of queries with the first `some` keys of a block of 64: what nobody sees is not read from memory
template <class F>
FN void score_block(const u32* keys, const float* q, int queries, int d, float scale, int some, float* s, float* unpacked) {
    ALIGNED float tot[TILE * 64] = {};
    for (int k = 0; k < d; k += CHUNK) {
        const int n = d - k < CHUNK ? d - k : CHUNK;
        const float* terms = terms_of<F>(keys + (size_t)(k / 32) * F::ROWS * 64, n, unpacked);
        if (some <= 32) {
            tiles<1, NARROW, IN_PLACE<F>>(terms, q + k, d, n, k == 0, queries, tot, some);
        } else {
            tiles<1, VECTORS, IN_PLACE<F>>(terms, q + k, d, n, k == 0, queries, tot);
        }
    }
    for (int r = 0; r < queries; r++) scores_of(tot + r * 64, scale, s + r * CHUNK);
}

// Of positions lo .. hi of a chunk; the others may hold anything
LEAF float largest_seen(const float* s, int lo, int hi) {
    ALIGNED float m[64];
    LANES(i) m[i] = -INFINITY;
    for (int j = 0; j < CHUNK; j += 64) {
        LANES(i) m[i] = larger(m[i], j + i >= lo && j + i < hi ? s[j + i] : -INFINITY);
    }
    for (int i = 0; i < 32; i++) m[i] = larger(m[i], m[i + 32]);
    for (int i = 1; i < 32; i++) m[0] = larger(m[0], m[i]);
    return m[0];
}

// Scores of one chunk for all queries of a tile, s [TILE][128], and the largest that each sees
template <class F>
LEAF void score_chunk(const Attention& a, const Tile& t, const float* q, int chunk, float* s, float* most, float* unpacked) {
    const int start = chunk * CHUNK, stop = start + CHUNK < t.hi ? start + CHUNK : t.hi, queries = t.rows * t.heads;
    for (int p = start; p < stop; p += 64) {
        const u32* keys = key_block<F>(a.carried[t.span].kv, t.kv_head, a.d, p);
        score_block<F>(keys, q, queries, a.d, a.scale, stop - p < 64 ? stop - p : 64, s + p - start, unpacked);
    }
    for (int r = 0; r < queries; r++) {
        const int p = position_of(a, t, r), lo = first_seen(p, a.window);
        most[r] = largest_seen(s + r * CHUNK, lo > start ? lo - start : 0, (p + 1 < stop ? p + 1 : stop) - start);
    }
}

// Exponentials of a chunk in place, s [TILE][128], and their sums
LEAF void exp_chunk(const Attention& a, const Tile& t, int chunk, int n, const float* m, float* s, float* sums) {
    const int start = chunk * CHUNK, queries = t.rows * t.heads;
    for (int r = 0; r < queries; r++) {
        const int p = position_of(a, t, r), lo = first_seen(p, a.window);
        exp_positions(s + r * CHUNK, n, lo - start, p + 1 - start, m[r]);
    }
    for (int r = queries; r < TILE; r++) memset(s + r * CHUNK, 0, sizeof(float) * n);
    float acc[TILE] = {};
    for (int j = 0; j < n; j++) {
        UNROLL for (int r = 0; r < TILE; r++) acc[r] = F_ADD(acc[r], s[r * CHUNK + j]);
    }
    for (int r = 0; r < TILE; r++) sums[r] = acc[r];
}

LEAF void finish(const Attention& a, const Tile& t, int r, int block, const float* tot, float denom) {
    float* out = a.out + query_at(a, t, r) + block * 64;
    const int n = a.d - block * 64 < 64 ? a.d - block * 64 : 64;
    for (int i = 0; i < n; i++) out[i] = settle(F_DIV(settle(tot[i]), denom));
}

// Of every (tile, chunk): scores [TILE][128], maxima [TILE], sums [TILE], mix [blocks][TILE][64]
static size_t part_floats(int d) { return TILE * (CHUNK + 2) + (size_t)(d + 63) / 64 * TILE * 64 + 48; }

FN float* part_of(const Attention& a, int tile, int chunk) {
    return a.part + ((size_t)tile * a.chunks + chunk) * part_floats(a.d);
}

template <class F>
static void attention_scores(const Attention& a, int task, float* scratch) {
    const int tile = task / a.chunks, chunk = task % a.chunks;
    const Tile t = tile_at(a, tile);
    if (chunk < t.lo / CHUNK || chunk > (t.hi - 1) / CHUNK) return;
    float* part = part_of(a, tile, chunk);
    float* q = scratch + UNPACKED;
    copy_queries(a, t, q);
    score_chunk<F>(a, t, q, chunk, part, part + TILE * CHUNK, scratch);
}

template <class F>
static void attention_mix(const Attention& a, int task, float* scratch) {
    const int tile = task / a.chunks, chunk = task % a.chunks;
    const Tile t = tile_at(a, tile);
    const int first = t.lo / CHUNK, last = (t.hi - 1) / CHUNK;
    if (chunk < first || chunk > last) return;
    float* part = part_of(a, tile, chunk);
    float m[TILE];
    for (int r = 0; r < TILE; r++) m[r] = -INFINITY;
    for (int c = first; c <= last; c++) {
        const float* most = part_of(a, tile, c) + TILE * CHUNK;
        for (int r = 0; r < t.rows * t.heads; r++) m[r] = larger(m[r], most[r]);
    }
    const int start = chunk * CHUNK, n = t.hi - start < CHUNK ? t.hi - start : CHUNK;
    exp_chunk(a, t, chunk, n, m, part, part + TILE * (CHUNK + 1));
    for (int block = 0; block < (a.d + 63) / 64; block++) {
        const u32* values = value_terms<F>(a.carried[t.span].kv, t.kv_head, a.d, block, start);
        float* mix = part + TILE * (CHUNK + 2) + block * TILE * 64;
        tiles<1, VECTORS, IN_PLACE<F>>(terms_of<F>(values, n, scratch), part, CHUNK, n, true, t.rows * t.heads, mix);
    }
}

static void attention_merge(const Attention& a, int task, float*) {
    const int tile = task;
    const Tile t = tile_at(a, tile);
    const int first = t.lo / CHUNK, last = (t.hi - 1) / CHUNK;
    for (int r = 0; r < t.rows * t.heads; r++) {
        float denom = 0.0f;
        for (int c = first; c <= last; c++) denom = F_ADD(denom, part_of(a, tile, c)[TILE * (CHUNK + 1) + r]);
        for (int block = 0; block < (a.d + 63) / 64; block++) {
            ALIGNED float tot[64] = {};
            for (int c = first; c <= last; c++) {
                const float* acc = part_of(a, tile, c) + TILE * (CHUNK + 2) + (block * TILE + r) * 64;
                for (int i = 0; i < 64; i++) tot[i] = F_ADD(tot[i], acc[i]);
            }
            finish(a, t, r, block, tot, denom);
        }
    }
}
