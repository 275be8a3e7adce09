"""Contract, sections 1 to 3: binary32 steps, settling, chunked sums.

A step is done in Python's float (binary64) and rounded once more to binary32. That is the correctly rounded
f32 result for + - * / and sqrt: binary64 carries 53 bits, at least 2 * 24 + 2, and then the second rounding
is innocuous (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995). Subnormal
results hold too: an f32 product is exact in binary64, a subnormal f32 sum is exact, and a quotient of two
24-bit numbers that is no tie of a shorter format is further than a relative 2^-53 from one.
"""

import math
import struct
from collections.abc import Sequence

import mpmath

CHUNK = 128
FLOOR = 2.0**-50

_SINGLE = struct.Struct("<f")
_WORD = struct.Struct("<I")


def f32(x: float) -> float:
    """x rounded to the nearest f32, ties to even; infinite where that overflows"""
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)
    return rounded


def bits(x: float) -> int:
    """The 32 bits of an f32 number."""
    word: int = _WORD.unpack(_SINGLE.pack(x))[0]
    return word


def from_bits(word: int) -> float:
    """The f32 number of 32 bits."""
    value: float = _SINGLE.unpack(_WORD.pack(word))[0]
    return value


def nearest(real: mpmath.mpf) -> float:
    """A real number, known to 200 bits, rounded once to f32 (normal range)."""
    with mpmath.workprec(24):
        return float(+real)


def constant(decimal: float) -> float:
    """The decimal number that was written, such as 1e-6, rounded once to f32."""
    with mpmath.workprec(200):
        return nearest(mpmath.mpf(repr(decimal)))


def add(a: float, b: float) -> float:
    return f32(a + b)


def sub(a: float, b: float) -> float:
    return f32(a - b)


def mul(a: float, b: float) -> float:
    return f32(a * b)


def div(a: float, b: float) -> float:
    return f32(a / b)


def sqrt(a: float) -> float:
    return f32(math.sqrt(a))


def rint(a: float) -> float:
    """The nearest integer, halves to even."""
    return float(round(a))


def settle(x: float) -> float:
    """+0.0 where |x| < 2^-50, else x"""
    return 0.0 if abs(x) < FLOOR else x


def chunked_sum(terms: Sequence[float], first: int = 0) -> float:
    """The terms stand at indices first, first + 1, ...; chunk c holds the indices [128c, 128c + 128)."""
    tot, acc, chunk = 0.0, 0.0, first // CHUNK
    for i, term in enumerate(terms, first):
        if i // CHUNK != chunk:
            tot, acc, chunk = add(tot, acc), 0.0, i // CHUNK
        acc = add(acc, term)
    return add(tot, acc)


def chunked_dot(x: Sequence[float], w: Sequence[float], first: int = 0) -> float:
    """chunked_sum(x[i] * w[i]), each product rounded first"""
    return chunked_sum([mul(a, b) for a, b in zip(x, w, strict=True)], first)
