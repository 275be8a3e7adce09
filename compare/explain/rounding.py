"""Roundings that the contract does not use but other kernels do: fused multiply-add, bf16, f16, tf32, rsqrt."""

from collections.abc import Callable

import mpmath
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.rope import TIE, round_once

F32 = NDArray[np.float32]

SMALLEST_NORMAL = np.float32(2.0**-126)


def fma(a: F32, b: F32, c: F32) -> F32:
    """a * b + c, rounded once to f32.

    The product of two f32 is exact in float64. Its sum with c is rounded to odd there (the error of the addition,
    exact by two-sum, says on which side the true value lies), and a value rounded to odd with two spare bits rounds
    to f32 as the true value does. Source: Boldo and Melquiond 2008, doi 10.1109/TC.2007.70819
    """
    product = a.astype(np.float64) * b
    wide = c.astype(np.float64)
    total = product + wide
    back = total - product
    error = (product - (total - back)) + (wide - back)
    pattern = total.view(np.int64)
    even = (pattern & 1) == 0
    inexact = np.isfinite(error) & (error != 0.0) & even
    pattern = pattern + np.where(inexact, np.where((error > 0.0) == (total > 0.0), 1, -1), 0)
    return pattern.view(np.float64).astype(np.float32)


def drop_bits(x: F32, bits: int, ties: str) -> F32:
    """x without its lowest mantissa bits. ties: "even" and "away" round to nearest, "cut" rounds to zero"""
    u = np.ascontiguousarray(x).view(np.uint32)
    half = np.uint32(1 << (bits - 1))
    if ties == "even":
        u = u + (half - np.uint32(1)) + ((u >> np.uint32(bits)) & np.uint32(1))
    elif ties == "away":
        u = u + half
    kept = (u >> np.uint32(bits)) << np.uint32(bits)
    return np.where(np.isfinite(x), kept.view(np.float32), x)


def to_f16(x: F32) -> F32:
    return x.astype(np.float16).astype(np.float32)


STORED: dict[str, Callable[[F32], F32]] = {
    "f32": lambda x: x,
    "bf16": lambda x: drop_bits(x, 16, "even"),
    "f16": to_f16,
    "tf32": lambda x: drop_bits(x, 13, "away"),  # as cvt.rna.tf32 does
    "tf32 even": lambda x: drop_bits(x, 13, "even"),
    "tf32 cut": lambda x: drop_bits(x, 13, "cut"),
}


def flush(x: F32) -> F32:
    """+0.0 or -0.0 for a subnormal"""
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0.0), x), x)


def rsqrt(x: F32) -> F32:
    """1 / sqrt(x), rounded once to f32; in float64 except within a hair of a tie."""
    value = 1.0 / np.sqrt(x.astype(np.float64))
    rounded = value.astype(np.float32)
    off = np.abs(value - rounded.astype(np.float64)) / np.spacing(rounded).astype(np.float64)  # 0.5 at a tie
    with mpmath.workprec(200):
        for at in zip(*np.nonzero(np.abs(off - 0.5) <= TIE), strict=True):
            rounded[at] = round_once(1 / mpmath.sqrt(mpmath.mpf(float(x[at]))))
    return rounded


def exp_f64(x: F32) -> F32:
    """e^x through float64, rounded to f32"""
    return np.exp(x.astype(np.float64)).astype(np.float32)
