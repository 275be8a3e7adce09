// Weights as the kernels read them. A block holds 64 outputs, one per lane; its terms come in groups of 32; a group is
// ROWS rows of 64 words of 32 bits, one word per lane: first HEAD rows of scales and high bits, then one row per step.
// A step takes PER terms of one word. `load` fetches what a lane needs for a step, `get` makes term j of it an f32,
// widened exactly as the contract (section 1) says. Rows past the last output are zero; no term past K is ever read.
#pragma once

#define ROW(r) (g[(r) * 64 + i])

struct F32 {
    FIXED int HEAD = 0, STEPS = 32, PER = 1, ROWS = 32;
    struct Lane {
        float w;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {float_of(ROW(s))}; }
    FN float get(Lane l, int) { return l.w; }
};

struct BF16 {
    FIXED int HEAD = 0, STEPS = 16, PER = 2, ROWS = 16;
    struct Lane {
        u32 word;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {ROW(s)}; }
    FN float get(Lane l, int j) { return float_of(j ? l.word & 0xffff0000u : l.word << 16); }
};

struct F16 {
    FIXED int HEAD = 0, STEPS = 16, PER = 2, ROWS = 16;
    struct Lane {
        u32 word;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {ROW(s)}; }
    FN float get(Lane l, int j) { return from_f16(j ? l.word >> 16 : l.word & 0xffffu); }
};

struct I8 {  // integers of the int8 arm, as f32
    FIXED int HEAD = 0, STEPS = 8, PER = 4, ROWS = 8;
    struct Lane {
        u32 word;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {ROW(s)}; }
    FN float get(Lane l, int j) { return (float)((i32)(l.word << (24 - 8 * j)) >> 24); }
};

struct Q8 {  // d*q; the scale is one row
    FIXED int HEAD = 1, STEPS = 8, PER = 4, ROWS = 9;
    struct Lane {
        u32 word;
        float d;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {ROW(1 + s), float_of(ROW(0))}; }
    FN float get(Lane l, int j) { return F_MUL(l.d, (float)((i32)(l.word << (24 - 8 * j)) >> 24)); }
};

struct V8 {  // stored values: a term is a position, which has a scale of its own, word 4s + j of row 0
    FIXED int HEAD = 1, STEPS = 8, PER = 4, ROWS = 9;
    struct Lane {
        u32 word;
        float d[4];
    };
    FN Lane load(const DEVICE u32* g, int i, int s) {
        return {ROW(1 + s), {float_of(g[4 * s]), float_of(g[4 * s + 1]), float_of(g[4 * s + 2]), float_of(g[4 * s + 3])}};
    }
    FN float get(Lane l, int j) { return F_MUL((float)((i32)(l.word << (24 - 8 * j)) >> 24), l.d[j]); }
};

// Nibble j placed in the mantissa of 1.0 is 1 + q/16, without a conversion.
FN float nibble_of_one(u32 word, int j) {
    const u32 q = j < 5 ? word << (j < 5 ? 19 - 4 * j : 0) : word >> (j < 5 ? 0 : 4 * j - 19);
    return float_of((q & 0x00780000u) | 0x3f800000u);
}

struct Q4 {  // d*(q-8) = 16d*(1 + q/16) - 24d, every step of it exact
    FIXED int HEAD = 1, STEPS = 4, PER = 8, ROWS = 5;
    struct Lane {
        u32 word;
        float d, m;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) {
        const float d = float_of(ROW(0));
        return {ROW(1 + s), F_MUL(16.0f, d), F_MUL(-24.0f, d)};
    }
    FN float get(Lane l, int j) { return F_ADD(F_MUL(l.d, nibble_of_one(l.word, j)), l.m); }
};

struct Q4One {  // (d*q)+m where m - 16d is exact for every block: the rows hold 16d and m - 16d
    FIXED int HEAD = 2, STEPS = 4, PER = 8, ROWS = 6;
    struct Lane {
        u32 word;
        float d, m;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {ROW(2 + s), float_of(ROW(0)), float_of(ROW(1))}; }
    FN float get(Lane l, int j) { return F_ADD(F_MUL(l.d, nibble_of_one(l.word, j)), l.m); }
};

// The two f16 of a word as f32: moved into the bits of an f32 they are 2^-112 of their value. A block with a subnormal
// scale is not packed so, because a device may flush what that is on the way.
#define F16_TIMES_1 float_of(0x77800000u)
#define F16_TIMES_16 float_of(0x79800000u)
FN float low_f16(u32 w, float scale) { return F_MUL(float_of((u32)((i32)(w << 16) >> 3) & 0x8fffe000u), scale); }
FN float high_f16(u32 w, float scale) { return F_MUL(float_of((u32)((i32)w >> 3) & 0x8fffe000u), scale); }

// Q4One in fewer bytes and fewer operations, for scales that are f16: one row of d and m side by side, and nibbles taken
// at three places of the mantissa, 1 + q/16, 1 + q/256, 1 + q/4096, so that three shifts serve eight of them. Each place
// has its own scale and its own m - scale; a tensor is packed so only where every one of these is exact.
struct Q4Half {
    FIXED int HEAD = 1, STEPS = 4, PER = 8, ROWS = 5;
    struct Lane {
        u32 word;
        float d[3], m[3];
    };
    FN Lane load(const DEVICE u32* g, int i, int s) {
        const u32 both = ROW(0);
        const float d = low_f16(both, F16_TIMES_16), m = high_f16(both, F16_TIMES_1);
        const float d1 = F_MUL(16.0f, d), d2 = F_MUL(256.0f, d);
        return {ROW(1 + s), {d, d1, d2}, {F_SUB(m, d), F_SUB(m, d1), F_SUB(m, d2)}};
    }
    FN float get(Lane l, int j) {  // nibbles 0 1 | 2 3 4 | 5 6 7, each group moved so that its last is at bit 19
        const u32 moved = j < 2 ? l.word << 15 : j < 5 ? l.word << 3 : l.word >> 9;
        const int place = j < 2 ? 1 - j : j < 5 ? 4 - j : 7 - j;
        const u32 mask = place == 0 ? 0x00780000u : place == 1 ? 0x00078000u : 0x00007800u;
        return F_ADD(F_MUL(l.d[place], float_of((moved & mask) | 0x3f800000u)), l.m[place]);
    }
};

struct Q4M {  // (d*q)+m; the rows hold d and m, for Q4_K d*sc and -(dmin*mn)
    FIXED int HEAD = 2, STEPS = 4, PER = 8, ROWS = 6;
    struct Lane {
        u32 word;
        float d, m;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {ROW(2 + s), float_of(ROW(0)), float_of(ROW(1))}; }
    FN float get(Lane l, int j) { return F_ADD(F_MUL(l.d, (float)(i32)(l.word >> (4 * j) & 15u)), l.m); }
};

struct Q5 {  // d*(q-16); the fifth bits are one row
    FIXED int HEAD = 2, STEPS = 4, PER = 8, ROWS = 6;
    struct Lane {
        u32 word, high;
        float d;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) { return {ROW(2 + s), ROW(1) >> (8 * s), float_of(ROW(0))}; }
    FN float get(Lane l, int j) {
        const u32 q = (l.word >> (4 * j) & 15u) | (l.high >> j & 1u) << 4;
        return F_MUL(l.d, (float)((i32)q - 16));
    }
};

struct Q5M {  // (d*q)+m
    FIXED int HEAD = 3, STEPS = 4, PER = 8, ROWS = 7;
    struct Lane {
        u32 word, high;
        float d, m;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) {
        return {ROW(3 + s), ROW(2) >> (8 * s), float_of(ROW(0)), float_of(ROW(1))};
    }
    FN float get(Lane l, int j) {
        const u32 q = (l.word >> (4 * j) & 15u) | (l.high >> j & 1u) << 4;
        return F_ADD(F_MUL(l.d, (float)(i32)q), l.m);
    }
};

struct Q6 {  // (d*sc)*(q-32), a scale per 16 terms; two rows of scales, two of high bits
    FIXED int HEAD = 4, STEPS = 4, PER = 8, ROWS = 8;
    struct Lane {
        u32 word, high;
        float d;
    };
    FN Lane load(const DEVICE u32* g, int i, int s) {
        return {ROW(4 + s), ROW(2 + s / 2) >> (16 * (s % 2)), float_of(ROW(s / 2))};
    }
    FN float get(Lane l, int j) {
        const u32 q = (l.word >> (4 * j) & 15u) | (l.high >> (2 * j) & 3u) << 4;
        return F_MUL(l.d, (float)((i32)q - 32));
    }
};
