"""Inputs of the batteries: bit patterns that are the same on every machine, ordinary ones and the hardest there are."""

import numpy as np
from numpy.typing import NDArray

U32 = NDArray[np.uint32]


def words(n: int, seed: int) -> NDArray[np.uint64]:
    """n random 64-bit words: SplitMix64 (Steele, Lea and Flood 2014) from n consecutive states"""
    z = (np.arange(1, n + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ z >> np.uint64(31)
    return mixed


def normals(n: int, seed: int, low: int, high: int, signed: bool = True) -> U32:
    """n f32 bit patterns with exponents in [low, high), any mantissa"""
    raw = words(n, seed)
    exponent = raw % np.uint64(high - low) + np.uint64(low + 127)
    sign = raw >> np.uint64(63) << np.uint64(31) if signed else np.zeros_like(raw)
    mantissa = raw >> np.uint64(20) & np.uint64(0x7FFFFF)
    patterns: U32 = (sign | exponent << np.uint64(23) | mantissa).astype(np.uint32)
    return patterns


def subnormals(n: int, seed: int) -> U32:
    """n subnormal bit patterns of either sign, the smallest and the largest first"""
    raw = words(n, seed)
    m = np.maximum(raw >> np.uint64(41) & np.uint64(0x7FFFFF), 1) >> raw % np.uint64(20)
    m[: min(n, 2)] = [1, 0x7FFFFF][:n]
    patterns: U32 = (np.maximum(m, 1) | raw >> np.uint64(63) << np.uint64(31)).astype(np.uint32)
    return patterns


def tied_sums(n: int, seed: int) -> tuple[U32, U32]:
    """a, b with a + b halfway between two floats: b is half of the last place of a"""
    a = normals(n, seed, -20, 20)
    sign = words(n, seed + 1).astype(np.uint32) & np.uint32(0x80000000)
    return a, sign | ((a >> np.uint32(23) & np.uint32(0xFF)) - np.uint32(24)) << np.uint32(23)


def tied_products(n: int, seed: int) -> tuple[U32, U32]:
    """a, b with many products that have 25 bits, the last of them set"""
    raw = words(n, seed)
    a, b = raw % np.uint64(1 << 12) | np.uint64(0x1001), raw >> np.uint64(40) & np.uint64(0xFFF) | np.uint64(0x1001)
    return integers_as_f32(a), integers_as_f32(b)


def integers_as_f32(m: NDArray[np.uint64]) -> U32:
    """Bits of integers of at most 24 bits, by shifting: 1 <= m < 2^24"""
    top = np.array([int(value).bit_length() - 1 for value in m.tolist()], np.uint64)
    mantissa = m << (np.uint64(23) - top) & np.uint64(0x7FFFFF)
    return ((top + np.uint64(127)) << np.uint64(23) | mantissa).astype(np.uint32)


def hard_quotients(n: int, seed: int) -> tuple[U32, U32]:
    """a, b whose quotient lies as near to halfway between two floats as a quotient can

    With 24-bit integers: a * 2^25 = Q * b + r, Q odd of 25 bits, r = 1 or -1, so that Q / 2 is nearly reached.
    """
    found: list[tuple[int, int]] = []
    for raw in words(8 * n, seed).tolist():  # about one in three is of the right size
        b, r = 1 << 23 | raw & 0x7FFFFF | 1, 1 if raw >> 63 else -1
        q = -r * pow(b, -1, 1 << 25) % (1 << 25)
        a = (q * b + r) >> 25
        if q >> 24 and a >> 23 == 1:
            found.append((a, b))
            if len(found) == n:
                break
    a, b = np.array(found, np.uint64).reshape(-1, 2).T
    return integers_as_f32(a), integers_as_f32(b)


def hard_squares(n: int) -> U32:
    """x whose root lies nearly halfway between two floats

    With 24-bit integers: x * 2^26 = Q^2 + r, Q odd of 25 bits, r small. -r is a square modulo 2^26 where it is 1
    modulo 8; its roots are found bit by bit.
    """
    found: list[int] = []
    r = 7
    while len(found) < n:
        for r_signed in (r, r - 8):
            q = 1
            for k in range(3, 26):
                q += (q * q + r_signed >> k & 1) << (k - 1)
            for root in (q, (1 << 26) - q, q + (1 << 25), (1 << 25) - q):
                root %= 1 << 26
                square = root * root + r_signed
                if root >> 24 == 1 and square % (1 << 26) == 0 and square >> 26 >= 1 << 22:
                    found.append(square >> 26)
        r += 8
    x = integers_as_f32(np.array(found[:n], np.uint64))
    return x + np.uint32(2 << 23) * (np.arange(n, dtype=np.uint32) % 7)  # other even exponents
