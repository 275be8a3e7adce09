"""Ops computed with planted departures from the contract, in scalar Python, sharing no code with what is under test.

A number is a Python float that an f32 holds. Sums and products are exact rationals, rounded where the text says so.
"""

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import mpmath
import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Sum = Callable[[list[float]], float]


def near(x: Fraction, bits: int = 24, lowest: int = -149) -> float:
    """The nearest float of `bits` significant bits, ties to even; `lowest`: exponent of the smallest subnormal."""
    if x == 0:
        return 0.0
    top = abs(x.numerator).bit_length() - x.denominator.bit_length()
    while abs(x) >= Fraction(2) ** (top + 1):
        top += 1
    while abs(x) < Fraction(2) ** top:
        top -= 1
    unit = max(top - bits + 1, lowest)
    return math.copysign(math.ldexp(round(x / Fraction(2) ** unit), unit), x)


def f32(x: float) -> float:
    """A float64 rounded to f32."""
    out: float = struct.unpack("<f", struct.pack("<f", x))[0]
    return out


def bf16(x: float) -> float:
    return near(Fraction(x), 8, -133)


def f16(x: float) -> float:
    return near(Fraction(x), 11, -24)


def tf32(x: float) -> float:
    """Eleven significant bits, ties away from zero, by integers."""
    word = struct.unpack("<I", struct.pack("<f", x))[0]
    out: float = struct.unpack("<f", struct.pack("<I", (word + 0x1000) & 0xFFFFE000))[0]
    return out


def settle(x: float) -> float:
    return 0.0 if abs(x) < 2.0**-50 else x


def add(x: float, y: float) -> float:
    return f32(x + y)  # the float64 sum of two f32 rounds to f32 as the exact sum does


def fma(x: float, y: float, z: float) -> float:
    return near(Fraction(x) * Fraction(y) + Fraction(z))


def sequential(t: Iterable[float]) -> float:
    acc = 0.0
    for x in t:
        acc = add(acc, x)
    return acc


def chunk(size: int) -> Sum:
    return lambda t: sequential([sequential(t[i : i + size]) for i in range(0, len(t), size)])


def halves(t: list[float]) -> float:
    if len(t) < 2:
        return t[0] if t else 0.0
    return add(halves(t[: len(t) // 2]), halves(t[len(t) // 2 :]))


def neighbours(t: list[float]) -> float:
    while len(t) > 1:
        t = [add(*t[i : i + 2]) if i + 1 < len(t) else t[i] for i in range(0, len(t), 2)]
    return t[0]


def folded(t: list[float]) -> float:
    """Lane i takes lane i + h while there is one, h halved each time, as a warp does."""
    h = 1
    while h < len(t):
        h *= 2
    while h > 1:
        h //= 2
        t = [add(t[i], t[i + h]) if i + h < len(t) else t[i] for i in range(min(h, len(t)))]
    return t[0]


def lanes(width: int, tree: Sum, tail: bool = False) -> Sum:
    def total(t: list[float]) -> float:
        whole = len(t) // width * width if tail else len(t)
        acc = [0.0] * width
        for i in range(whole):
            acc[i % width] = add(acc[i % width], t[i])
        out = tree(acc)
        for x in t[whole:]:
            out = add(out, x)
        return out

    return total


def backwards(order: Sum) -> Sum:
    return lambda t: order(t[::-1])


def float64(t: Iterable[float]) -> float:
    acc = 0.0
    for x in t:
        acc += x
    return f32(acc)


def narrow(rounding: Callable[[float], float], size: int = 128) -> Sum:
    """Accumulators that are rounded after each addition, in chunks."""

    def some(t: list[float]) -> float:
        acc = 0.0
        for x in t:
            acc = rounding(add(acc, x))
        return acc

    return lambda t: some([some(t[i : i + size]) for i in range(0, len(t), size)])


def products(x: Sequence[float], w: Sequence[float]) -> list[float]:
    return [f32(a * b) for a, b in zip(x, w, strict=True)]


def fused_dot(x: Sequence[float], w: Sequence[float], size: int = 128) -> float:
    """Each product enters its chunk unrounded."""
    sums = []
    for start in range(0, len(x), size):
        acc = 0.0
        for a, b in zip(x[start : start + size], w[start : start + size], strict=True):
            acc = fma(a, b, acc)
        sums.append(acc)
    return sequential(sums)


def dot(order: Sum) -> Callable[[Sequence[float], Sequence[float]], float]:
    return lambda x, w: order(products(x, w))


def rsqrt(x: float) -> float:
    with mpmath.workprec(300):
        exact = 1 / mpmath.sqrt(mpmath.mpf(x))
    with mpmath.workprec(24):
        return float(+exact)


def sqrt(x: float) -> float:
    return f32(math.sqrt(x))  # float64 has more than twice the digits, so this rounds once


def div(x: float, y: float) -> float:
    return f32(x / y)  # for the same reason


def mul(x: float, y: float) -> float:
    return f32(x * y)


def exp64(x: float) -> float:
    return 0.0 if x < -34.5 else f32(math.exp(x))


WORDS = (0x3F000000, 0x3E2AAAAA, 0x3D2AA9C1, 0x3C088908, 0x3AB743CE, 0x39506967)
P = [struct.unpack("<f", struct.pack("<I", word))[0] for word in WORDS]
LOG2E, C1, C2 = (struct.unpack("<f", struct.pack("<I", w))[0] for w in (0x3FB8AA3B, 0x3F318000, 0xB95E8083))


def exp_neg(x: float, join: Callable[[float, float, float], float]) -> float:
    """join(a, b, c) = a * b + c, fused or not"""
    if x < -34.5:
        return 0.0
    n = float(round(mul(x, LOG2E)))
    r = join(-n, C2, join(-n, C1, x))
    p = P[5]
    for c in P[4::-1]:
        p = join(p, r, c)
    return math.ldexp(add(join(p, mul(r, r), r), 1.0), int(n))


def unfused(x: float, y: float, z: float) -> float:
    return add(mul(x, y), z)


def table(rows: Iterable[Iterable[float]]) -> F32:
    return np.array([list(row) for row in rows], np.float32)
