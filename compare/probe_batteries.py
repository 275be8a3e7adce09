"""The batteries of known answers. Expected values come from integers (`probe_exact`), never from floating point."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare import probe_exact as exact
from gnomon.compare import probe_hard as hard
from gnomon.compare import probe_inputs as draw
from gnomon.compare.probe_cases import Battery, Cases

U32 = NDArray[np.uint32]
SIGN = 0x80000000


def each(f: Callable[..., int], *arrays: NDArray[Any]) -> U32:
    """f of integers, element by element -> bits [n]; a negative integer as int32 holds it"""
    results = [f(*values) & 0xFFFFFFFF for values in zip(*(a.tolist() for a in arrays), strict=True)]
    return np.array(results, np.uint32)


def f32(word: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(word).view(np.float32)


def cases(operation: str, inputs: Sequence[U32], expected: U32, word: str = "exact", **others: U32) -> Cases:
    """Of f32 operations, given as bits. A name in others may hold _ for a blank."""
    named = {name.replace("_", " "): f32(results) for name, results in others.items()}
    return Cases(operation, tuple(f32(a) for a in inputs), f32(expected), word, named)


def unfused_sum(a: int, b: int, c: int) -> int:
    return exact.added(exact.multiplied(a, b), c)


@cache
def contraction(n: int) -> list[Cases]:
    """a * b + c and a * b - c * d where one rounding and two give different bits: full and partial cancellation"""
    a, b = draw.normals(n, 1, -8, 8), draw.normals(n, 2, -8, 8)
    product = each(exact.multiplied, a, b)
    c = product ^ np.uint32(SIGN)
    c[1::4] ^= (draw.words(n, 26) % np.uint64(1 << 12)).astype(np.uint32)[1::4]
    some = slice(0, None, 4)  # of the size of the product, or a little above
    c[some] = f32_near(product[some])
    once, twice = each(exact.fused, a, b, c), each(unfused_sum, a, b, c)
    keep = once != twice
    sums = cases("mul_add", [a[keep], b[keep], c[keep]], twice[keep], "unfused", fused=once[keep])
    c, d = b.copy(), a.copy()
    d[some] = a[some] ^ np.uint32(1)
    other = each(exact.multiplied, c, d)
    minus = np.uint32(SIGN)
    first, second = each(exact.fused, a, b, other ^ minus), each(exact.fused, c, d ^ minus, product)
    twice = each(exact.subtracted, product, other)
    keep = (first != twice) & (second != twice)
    inputs = [x[keep] for x in (a, b, c, d)]
    return [sums, cases("cross", inputs, twice[keep], "unfused", fused_left=first[keep], fused_right=second[keep])]


def f32_near(product: U32) -> U32:
    """Other mantissa and sign, exponent from the product's to two above"""
    raw = draw.words(len(product), 3)
    sign_and_mantissa = (raw >> np.uint64(32)).astype(np.uint32) & np.uint32(0x807FFFFF)
    exponent = (product & np.uint32(0x7F800000)) + ((raw % np.uint64(3)).astype(np.uint32) << 23)
    return sign_and_mantissa | exponent


@cache
def order(n: int) -> list[Cases]:
    """(a + b) - b, where b is large enough to take bits from a"""
    a, b = draw.normals(n, 4, -4, 4), draw.normals(n, 5, 6, 20)
    expected = each(lambda x, y: exact.subtracted(exact.added(x, y), y), a, b)
    return [cases("kept_order", [a, b], expected, "kept", reassociated=a)]


@cache
def rounding(n: int) -> list[Cases]:
    """Sums and products, half of them halfway between two floats, and the hardest"""
    half = n // 2
    out = []
    for operation, f, tied, listed in (
        ("add", exact.added, draw.tied_sums, hard.SUMS),
        ("mul", exact.multiplied, draw.tied_products, hard.PRODUCTS),
    ):
        ordinary = draw.normals(n - half, 6, -16, 16), draw.normals(n - half, 7, -16, 16)
        others = (np.concatenate(pair) for pair in zip(ordinary, tied(half, 8), strict=True))
        a, b = (hard.around(*pair) for pair in zip(hard.pairs(listed), others, strict=True))
        out.append(cases(operation, [a, b], each(f, a, b)))
    return out


@cache
def division(n: int) -> list[Cases]:
    """Half ordinary; half as near to a tie as a quotient can lie; divisors whose mantissa is all ones"""
    half = n // 2
    ordinary = draw.normals(n - half, 10, -40, 40), draw.normals(n - half, 11, -40, 40)
    others = (np.concatenate(pair) for pair in zip(ordinary, draw.hard_quotients(half, 9), strict=True))
    a, b = (hard.around(*pair) for pair in zip(hard.QUOTIENTS, others, strict=True))
    return [cases("div", [a, b], each(exact.divided, a, b))]


@cache
def square_root(n: int) -> list[Cases]:
    """Half ordinary; half with a root near to a tie; roots next to a power of two"""
    others = np.concatenate([draw.normals(n - n // 2, 12, -90, 90, signed=False), draw.hard_squares(n // 2)])
    x = hard.around(hard.SQUARES, others)
    return [cases("sqrt", [x], each(exact.rooted, x))]


def two_steps(x: U32) -> U32:
    """1 / sqrt(x) as the contract has it: two roundings"""
    return each(lambda w: exact.divided(0x3F800000, exact.rooted(w)), x)


@cache
def inverse_root(n: int) -> list[Cases]:
    """Roots whose mantissa is all ones among them"""
    x = hard.around(hard.SQUARES, draw.normals(n, 13, -50, 50, signed=False))
    return [cases("inverse_sqrt", [x], two_steps(x), rounded_once=each(exact.inverse_rooted, x))]


@cache
def rsqrt(n: int) -> list[Cases]:
    x = draw.normals(n, 13, -50, 50, signed=False)
    return [cases("rsqrt", [x], two_steps(x), "as 1/sqrt", rounded_once=each(exact.inverse_rooted, x))]


@cache
def to_integers(n: int) -> list[Cases]:
    """int32 to f32 and back; rint, a fourth of the cases at ties"""
    raw = draw.words(n, 14)
    i = (raw >> np.uint64(32)).astype(np.uint32).view(np.int32) >> (raw % np.uint64(9)).astype(np.int32)
    i = np.concatenate([hard.INTEGERS, i, hard.INTEGERS[::-1]])
    floats = each(exact.nearest, i)
    small = floats[(floats & 0x7FFFFFFF) < 0x4F000000]  # below 2^31
    small = hard.around(np.concatenate([hard.WHOLE, hard.LOWEST]), small)
    halves = np.array([exact.nearest(2 * k + 1, 2) for k in range(-n // 8, n // 8)], np.uint32)
    x = hard.around(hard.HALVES, np.concatenate([halves, draw.normals(n - len(halves), 15, -3, 25)]))
    whole = each(exact.rounded_to_integer, small).view(np.int32)
    return [
        Cases("from_int", (i,), f32(floats)),
        Cases("to_int", (f32(small),), whole),
        cases("rint", [x], each(lambda w: exact.nearest(exact.rounded_to_integer(w)), x)),
    ]


@cache
def f16(n: int) -> list[Cases]:
    """All of f16 but its NaN; where n is small, n values spread over it, half of them subnormal"""
    if n < 4096:
        spread = [np.arange(1, 0x400, 0x400 // (n // 2)), np.arange(0, 0x7C01, 0x7C00 // (n // 2))]
        u = np.concatenate(spread).astype(np.uint16)
        u[::3] |= np.uint16(0x8000)
        u = np.concatenate([hard.F16, u, hard.F16[::-1]])
    else:
        u = np.concatenate([np.arange(0, 0x7C01), np.arange(0x8000, 0xFC01)]).astype(np.uint16)
    wide = each(exact.widened_f16, u)
    flushed = np.where(u & 0x7C00, wide, np.uint32(0))
    return [Cases("from_f16", (u,), f32(wide), "exact", {"subnormals flushed": f32(flushed)})]


@cache
def bf16(n: int) -> list[Cases]:
    """Widening of normal values; rounding of ties and others"""
    raw = draw.words(n, 16)
    exponent = (raw >> np.uint64(32)) % np.uint64(254) + np.uint64(1)
    u = (raw & np.uint64(0x807F) | exponent << np.uint64(7)).astype(np.uint16)
    u = np.concatenate([hard.BF16, u, hard.BF16[::-1]])
    x = draw.normals(n, 17, -60, 60)
    x[::2] = x[::2] & np.uint32(0xFFFF0000) | np.uint32(0x8000)
    x = hard.around(hard.BF16_TIES, x)
    narrow = each(exact.rounded_to_bf16, x).astype(np.uint16)
    return [Cases("from_bf16", (u,), f32(u.astype(np.uint32) << 16)), Cases("to_bf16", (f32(x),), narrow)]


@cache
def subnormal_inputs(n: int) -> list[Cases]:
    """Operands below 2^-126, results above"""
    s, minus = draw.subnormals(n, 18), np.uint32(SIGN)
    big, zero = draw.normals(n, 19, 60, 90), np.zeros(n, np.uint32)
    c = np.full(n, 0x01800000, np.uint32) | draw.normals(n, 20, 0, 1) & minus  # 2^-124
    u = (s >> 16 & np.uint32(0x807F) | np.uint32(1)).astype(np.uint16)
    wide = f32(u.astype(np.uint32) << 16)
    return [
        cases("mul", [s, big], each(exact.multiplied, s, big), "kept", flushed=zero),
        cases("add", [s, c], each(exact.added, s, c), "kept", flushed=c),
        Cases("from_bf16", (u,), wide, "kept", {"flushed": f32(zero)}),
    ]


@cache
def subnormal_results(n: int) -> list[Cases]:
    """Products and differences below 2^-126, and products that only rounding lifts to 2^-126: there two ways to
    flush part"""
    few = n // 4
    k = np.arange(1, few + 1, dtype=np.uint32) % 1024 + 1
    a = np.concatenate([0x3F000000 + k, draw.normals(n - few, 21, -70, -50)])  # 2^-1 (1 + k 2^-23)
    b = np.concatenate([0x01000000 - 2 * k, draw.normals(n - few, 22, -78, -70)])  # 2^-125 (1 - k 2^-23)
    kept = each(exact.multiplied, a, b)
    after = np.where(kept & 0x7F800000, kept, kept & SIGN)
    before = each(lambda x, y: exact.multiplied(x, y) if product_is_normal(x, y) else 0, a, b)
    x = draw.normals(n, 23, -126, -125)
    y = (x & np.uint32(0xFFF00000) | draw.normals(n, 24, -126, -125) & np.uint32(0xFFFFF)) ^ np.uint32(SIGN)
    sums = each(exact.added, x, y)
    gone = np.where(sums & 0x7F800000, sums, 0)
    return [
        cases("mul", [a, b], kept, "kept", flushed_after_rounding=after, flushed_before_rounding=before),
        cases("add", [x, y], sums, "kept", flushed=gone),
    ]


def product_is_normal(x: int, y: int) -> bool:
    """Whether the exact product reaches 2^-126"""
    (a, ea), (b, eb) = exact.parts(x), exact.parts(y)
    return abs(a * b) << 400 >= 1 << (400 - 126 - ea - eb)


@cache
def exponential(n: int) -> list[Cases]:
    """The library's exp of values in (-32, -2^-8], rounded once from 100 bits"""
    import mpmath  # an engine that starts does not wait for it

    x = draw.normals(min(n, 1024), 25, -8, 5) | np.uint32(SIGN)

    def value(word: int) -> int:
        m, e = exact.parts(word)
        with mpmath.workprec(100):
            _, n, e, _ = mpmath.exp(mpmath.mpf(m) * mpmath.mpf(2) ** e)._mpf_
        return exact.nearest(int(n), 1, int(e))

    return [cases("exp", [x], each(value, x), "rounded once")]


BATTERIES = (
    Battery("contraction", True, contraction),
    Battery("order of a written sum", True, order),
    Battery("rounding", True, rounding),
    Battery("division", True, division),
    Battery("square root", True, square_root),
    Battery("1 / sqrt", True, inverse_root),
    Battery("integers", True, to_integers),
    Battery("f16 widening", True, f16),
    Battery("bf16", True, bf16),
    Battery("subnormal inputs", False, subnormal_inputs),
    Battery("subnormal results", False, subnormal_results),
    Battery("rsqrt", False, rsqrt),
    Battery("exp", False, exponential),
)
