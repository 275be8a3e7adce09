// How the host goes through attention. Many rows: a task takes a tile of queries through scores, exponentials and mix by
// itself. Few rows: tasks are chunks of positions in three phases with barriers between. Same leaves, same bytes.
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
};

// Up to TILE queries, (row, head of the group) in order, read the same kv head.
#define TILE 8
#define UNPACKED (CHUNK * 64)  // floats of scratch that a chunk of a block takes

struct Tile {
    int span, row, rows, head, heads;  // rows of the step; query heads head .. head + heads
    int kv_head, lo, hi;               // positions that some query sees
};

static int head_parts(const Attention& a) { return (a.heads / a.kv_heads + TILE - 1) / TILE; }

static int tile_rows(const Attention& a) {
    const int group = a.heads / a.kv_heads;
    return group >= TILE ? 1 : TILE / group;
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
    t.head = t.kv_head * group + part * TILE;
    t.heads = group - part * TILE < TILE ? group - part * TILE : TILE;
    const int first = s.length + t.row - s.start;
    t.lo = first_seen(first, a.window);
    t.hi = first + t.rows;
    return t;
}

static int position_of(const Attention& a, const Tile& t, int r) {
    return a.spans[t.span].length + t.row - a.spans[t.span].start + r / t.heads;
}

// Calls f with the smallest compiled number of queries that holds n; what is beyond n is computed and dropped.
template <class Call>
FN void with_queries(int n, const Call& f) {
    switch (n) {
        case 1: return f(std::integral_constant<int, 1>());
        case 2:
        case 3: return f(std::integral_constant<int, 3>());
        case 4:
        case 5:
        case 6: return f(std::integral_constant<int, 6>());
        default: return f(std::integral_constant<int, 8>());
    }
}

FN void copy_queries(const Attention& a, const Tile& t, float* q) {
    for (int r = 0; r < t.rows * t.heads; r++) {
        const float* from = a.q + ((size_t)(t.row + r / t.heads) * a.heads + t.head + r % t.heads) * a.d;
        memcpy(q + r * a.d, from, sizeof(float) * a.d);
    }
    memset(q + t.rows * t.heads * a.d, 0, sizeof(float) * (TILE - t.rows * t.heads) * a.d);
}

// Keys and values as the dots read them: f32 in place, what is stored in fewer bits unpacked into scratch first.
template <class F>
FN const u32* terms_of(const u32* g, int K, float* unpacked) {
    if constexpr (std::is_same_v<F, F32>) return g;
    unpack_chunk<F>(g, K, (u32*)unpacked);
    return (const u32*)unpacked;
}

// Two terms a step where queries are many, one where the reading of a long cache decides.
template <int R>
using Near = std::conditional_t<(R >= 6), Unpacked, F32>;

// chunked_dot of R queries with a block of 64 keys
template <class F, int R>
FN void score_block(const u32* keys, const float* q, int d, float scale, float* s, int stride, float* unpacked) {
    ALIGNED float tot[R * NL] = {};
    for (int k = 0; k < d; k += CHUNK) {
        const int n = d - k < CHUNK ? d - k : CHUNK;
        ALIGNED float acc[R * NL];
        dot_chunk<Near<R>, R>(terms_of<F>(keys + (size_t)(k / 32) * F::ROWS * 64, n, unpacked), q + k, d, n, acc);
        for (int e = 0; e < R * NL; e++) tot[e] = F_ADD(tot[e], acc[e]);
    }
    for (int r = 0; r < R; r++) scores_of(tot + r * 64, scale, s + r * stride);
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

// Scores of one chunk for all queries of a tile, and the largest that each sees
template <class F, int R>
LEAF void score_chunk(const Attention& a, const Tile& t, const float* q, int chunk, float* s, int stride, float* most,
                      float* unpacked) {
    const int start = chunk * CHUNK, stop = start + CHUNK < t.hi ? start + CHUNK : t.hi;
    for (int p = start; p < stop; p += 64) {
        score_block<F, R>(key_block<F>(a.carried[t.span].kv, t.kv_head, a.d, p), q, a.d, a.scale, s + p - start, stride,
                          unpacked);
    }
    for (int r = 0; r < t.rows * t.heads; r++) {
        const int p = position_of(a, t, r), lo = first_seen(p, a.window);
        most[r] = largest_seen(s + r * stride, lo > start ? lo - start : 0, (p + 1 < stop ? p + 1 : stop) - start);
    }
}

// Exponentials in place and their sums; then the unfinished mix acc [R][64] of one block of values
template <int R>
LEAF void exp_chunk(const Attention& a, const Tile& t, int chunk, const float* m, float* s, int stride, float* sums) {
    const int start = chunk * CHUNK, n = (start + CHUNK < t.hi ? start + CHUNK : t.hi) - start;
    for (int r = 0; r < t.rows * t.heads; r++) {
        const int p = position_of(a, t, r), lo = first_seen(p, a.window);
        exp_positions(s + r * stride, n, lo - start, p + 1 - start, m[r]);
    }
    for (int r = t.rows * t.heads; r < R; r++) memset(s + r * stride, 0, sizeof(float) * n);
    float acc[R];
    UNROLL for (int r = 0; r < R; r++) acc[r] = 0.0f;
    for (int j = 0; j < n; j++) {
        UNROLL for (int r = 0; r < R; r++) acc[r] = F_ADD(acc[r], s[r * stride + j]);
    }
    for (int r = 0; r < R; r++) sums[r] = acc[r];
}

template <class F, int R>
FN void mix_chunk(const Attention& a, const Tile& t, int chunk, int block, const float* e, int stride, float* acc,
                  float* unpacked) {
    const int start = chunk * CHUNK, n = (start + CHUNK < t.hi ? start + CHUNK : t.hi) - start;
    const u32* values = value_terms<F>(a.carried[t.span].kv, t.kv_head, a.d, block, start);
    dot_chunk<Near<R>, R>(terms_of<F>(values, n, unpacked), e, stride, n, acc);
}

LEAF void finish(const Attention& a, const Tile& t, int r, int block, const float* tot, float denom) {
    float* out = a.out + ((size_t)(t.row + r / t.heads) * a.heads + t.head + r % t.heads) * a.d + block * 64;
    const int n = a.d - block * 64 < 64 ? a.d - block * 64 : 64;
    for (int i = 0; i < n; i++) out[i] = settle(F_DIV(settle(tot[i]), denom));
}

// Floats of scratch that a whole tile needs when a sequence has `chunks` chunks
static size_t attention_scratch(int chunks, int d) { return UNPACKED + (size_t)TILE * (d + 2 + chunks * CHUNK + 64); }

// --- many rows: a tile by itself --------------------------------------------------------------------------------------
template <class FK, class FV>
static void attention_whole(const Attention& a, int task, float* scratch) {
    const int tiles = tiles_of(a);  // pair short and long tiles, so that a static split is fair
    const Tile t = tile_at(a, task % 2 ? tiles - 1 - task / 2 : task / 2);
    const int first = t.lo / CHUNK, last = (t.hi - 1) / CHUNK, width = (last - first + 1) * CHUNK;
    float *q = scratch + UNPACKED, *s = q + (TILE * a.d + 15) / 16 * 16, *tot = s + (size_t)TILE * width;
    copy_queries(a, t, q);
    with_queries(t.rows * t.heads, [&](auto count) {
        constexpr int R = count();
        float m[TILE], denom[TILE], sums[TILE];
        for (int r = 0; r < R; r++) m[r] = -INFINITY, denom[r] = 0.0f;
        for (int c = first; c <= last; c++) {
            float most[TILE];
            score_chunk<FK, R>(a, t, q, c, s + (c - first) * CHUNK, width, most, scratch);
            for (int r = 0; r < t.rows * t.heads; r++) m[r] = larger(m[r], most[r]);
        }
        for (int c = first; c <= last; c++) {
            exp_chunk<R>(a, t, c, m, s + (c - first) * CHUNK, width, sums);
            for (int r = 0; r < R; r++) denom[r] = F_ADD(denom[r], sums[r]);
        }
        for (int block = 0; block < (a.d + 63) / 64; block++) {
            memset(tot, 0, sizeof(float) * R * 64);
            for (int c = first; c <= last; c++) {
                ALIGNED float acc[R * 64];
                mix_chunk<FV, R>(a, t, c, block, s + (c - first) * CHUNK, width, acc, scratch);
                for (int e = 0; e < R * 64; e++) tot[e] = F_ADD(tot[e], acc[e]);
            }
            for (int r = 0; r < t.rows * t.heads; r++) finish(a, t, r, block, tot + r * 64, denom[r]);
        }
    });
}

// --- few rows: three phases over (tile, chunk) ---------------------------------------------------------------------------
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
    with_queries(t.rows * t.heads, [&](auto count) {
        score_chunk<F, count()>(a, t, q, chunk, part, CHUNK, part + TILE * CHUNK, scratch);
    });
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
    with_queries(t.rows * t.heads, [&](auto count) {
        constexpr int R = count();
        exp_chunk<R>(a, t, chunk, m, part, CHUNK, part + TILE * (CHUNK + 1));
        for (int block = 0; block < (a.d + 63) / 64; block++) {
            mix_chunk<F, R>(a, t, chunk, block, part, CHUNK, part + TILE * (CHUNK + 2) + block * TILE * 64, scratch);
        }
    });
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
