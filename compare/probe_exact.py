"""f32 results from integers alone: what a correctly rounded operation gives. No floating point is asked.

A finite f32 is m * 2^e with integers m and e. NaN and infinities do not come here.
"""

from math import isqrt

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]


def parts(word: int) -> tuple[int, int]:
    """f32 bits -> (m, e)"""
    exponent, m = word >> 23 & 0xFF, word & 0x7FFFFF
    if exponent:
        m |= 0x800000
    return (-m if word >> 31 else m), max(exponent, 1) - 150


def nearest(n: int, d: int = 1, e: int = 0) -> int:
    """The bits of n/d * 2^e rounded once, half to even, subnormals kept; +0.0 for zero, infinity beyond the range."""
    sign, n = (0x80000000, -n) if n < 0 else (0, n)
    if n == 0:
        return 0
    shift = max(0, 27 + d.bit_length() - n.bit_length())
    q, rest = divmod(n << shift, d)
    q, e = q << 1 | (rest != 0), e - shift - 1  # the last bit stands for everything below
    drop = max(q.bit_length() - 24, -149 - e)
    kept, low, half = q >> drop, q & ((1 << drop) - 1), 1 << (drop - 1)
    kept += low > half or (low == half and kept & 1)
    return sign | min(((e + drop + 149) << 23) + kept, 0x7F800000)  # the leading bit of kept adds one to the exponent


def added(a: int, b: int) -> int:
    """a + b"""
    return nearest(*exact_sum(parts(a), parts(b)))


def subtracted(a: int, b: int) -> int:
    """a - b"""
    return added(a, b ^ 0x80000000)


def multiplied(a: int, b: int) -> int:
    """a * b"""
    return fused(a, b, 0)


def fused(a: int, b: int, c: int) -> int:
    """a * b + c, rounded once"""
    (ma, ea), (mb, eb) = parts(a), parts(b)
    return nearest(*exact_sum((ma * mb, ea + eb), parts(c)))


def exact_sum(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int, int]:
    """(m, e) + (m, e) -> (n, 1, e)"""
    e = min(x[1], y[1])
    return (x[0] << (x[1] - e)) + (y[0] << (y[1] - e)), 1, e


def divided(a: int, b: int) -> int:
    """a / b, b not zero"""
    (ma, ea), (mb, eb) = parts(a), parts(b)
    return nearest(ma if mb > 0 else -ma, abs(mb), ea - eb)


def rooted(a: int) -> int:
    """sqrt(a), a >= 0"""
    m, e = parts(a)
    m, e = m << 60 + (e & 1), e - 60 - (e & 1)  # an even exponent, and enough digits
    q = isqrt(m)
    return nearest(q << 1 | (q * q != m), 1, e // 2 - 1)


def inverse_rooted(a: int) -> int:
    """1 / sqrt(a) rounded once, a > 0"""
    m, e = parts(a)
    m, e = m << (e & 1), e - (e & 1)
    q = isqrt((1 << 120) // m)
    return nearest(q << 1 | (q * q * m != 1 << 120), 1, -60 - e // 2 - 1)


def rounded_to_integer(a: int) -> int:
    """The nearest integer, half to even, as an integer"""
    m, e = parts(a)
    if e >= 0:
        return m << e
    whole, low = m >> -e, m & ((1 << -e) - 1)
    half = 1 << (-e - 1)
    return whole + (low > half or (low == half and whole & 1))


def widened_f16(word: int) -> int:
    """f16 bits -> f32 bits; no NaN"""
    sign, exponent, m = word >> 15, word >> 10 & 0x1F, word & 0x3FF
    if exponent == 0x1F:
        return sign << 31 | 0x7F800000
    if exponent:
        return sign << 31 | (exponent + 112) << 23 | m << 13
    return sign << 31 | nearest(m, 1, -24)


def rounded_to_bf16(word: int) -> int:
    """f32 bits -> the 16 bits of the nearest bf16, half to even"""
    high, low = word >> 16, word & 0xFFFF
    return high + (low > 0x8000 or (low == 0x8000 and high & 1))
