// Functions of one value, as the contract writes them: settling (section 2), elementary functions (4), rounding (7).
// Selects compute both sides, so that a loop over lanes stays free of branches.
#pragma once

#define LOWEST -34.5f  // e^-34.5 is just above 2^-50

FN float settle(float x) { return F_ABS(x) < float_of(0x26800000u) ? 0.0f : x; }

FN float larger(float a, float b) { return b > a || b != b ? b : a; }  // a NaN on either side stays

FN float exp_neg(float x) {
    const bool below = x < LOWEST;
    const float y = below ? LOWEST : x;  // before the conversion to an integer
    const float n = F_RINT(F_MUL(y, float_of(0x3fb8aa3bu)));
    const float r = F_SUB(F_SUB(y, F_MUL(n, float_of(0x3f318000u))), F_MUL(n, float_of(0xb95e8083u)));
    float p = float_of(0x39506967u);
    p = F_ADD(F_MUL(p, r), float_of(0x3ab743ceu));
    p = F_ADD(F_MUL(p, r), float_of(0x3c088908u));
    p = F_ADD(F_MUL(p, r), float_of(0x3d2aa9c1u));
    p = F_ADD(F_MUL(p, r), float_of(0x3e2aaaaau));
    p = F_ADD(F_MUL(p, r), float_of(0x3f000000u));
    const float e = F_ADD(F_ADD(F_MUL(p, F_MUL(r, r)), r), 1.0f);
    const bool number = y == y;
    const i32 exponent = (i32)(number ? n : 0.0f);
    const float power = float_of((u32)(exponent + 127) << 23);
    return below ? 0.0f : F_MUL(e, power);  // a NaN is still in e
}

FN float sigmoid(float x) {
    const float e = exp_neg(-F_ABS(x));
    return settle(F_DIV(x >= 0.0f ? 1.0f : e, F_ADD(1.0f, e)));
}

FN float silu(float x) { return settle(F_MUL(x, sigmoid(x))); }

FN float gelu_tanh(float x) {
    const float cube = F_MUL(settle(F_MUL(x, x)), x);
    const float inner = F_ADD(x, F_MUL(float_of(0x3d372713u), cube));
    return settle(F_MUL(x, sigmoid(F_MUL(float_of(0x3fcc422au), inner))));
}

FN float log1p01(float u) {
    const float s = F_DIV(u, F_ADD(2.0f, u));
    const float z = settle(F_MUL(s, s));
    float q = float_of(0x3dede0b9u);
    q = F_ADD(F_MUL(q, z), float_of(0x3dde437au));
    q = F_ADD(F_MUL(q, z), float_of(0x3e1264aau));
    q = F_ADD(F_MUL(q, z), float_of(0x3e4ccc6au));
    q = F_ADD(F_MUL(q, z), float_of(0x3eaaaaabu));
    const float t = F_ADD(s, s);
    return F_ADD(t, F_MUL(t, F_MUL(z, q)));
}

FN float softplus(float x) {
    const float positive = x < 0.0f ? 0.0f : x;  // a NaN passes
    return settle(F_ADD(positive, log1p01(exp_neg(-F_ABS(x)))));
}

// --- storage types ------------------------------------------------------------------------------------------------
FN u32 to_bf16(float x) {  // the upper 16 bits of the nearest, ties to even
    const u32 u = bits_of(x);
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

FN float from_bf16(u32 u) { return float_of(u << 16); }

FN float from_f16(u32 h) {  // in integers: a device may flush subnormals
    const u32 magnitude = h & 0x7fffu, sign = (h & 0x8000u) << 16;
    const float small = F_MUL((float)(i32)magnitude, float_of(0x33800000u));  // magnitude * 2^-24, exact
    const u32 normal = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    return float_of((magnitude < 0x400u ? bits_of(small) : normal) | sign);
}

FN float quant_scale(float largest) {  // of a row whose largest magnitude this is
    const float s = settle(F_DIV(largest, 127.0f));
    return s == 0.0f ? 1.0f : s;
}

FN i32 quant(float x, float scale) {
    const float q = F_RINT(F_DIV(x, scale));
    return (i32)(q == q ? q : 0.0f);  // the NaN is still in the scale
}
