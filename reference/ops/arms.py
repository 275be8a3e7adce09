"""The three forms of `linear`. An arm decides what becomes of a weight once, at load, and of each activation row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.bf16 import round_bf16
from gnomon.reference.ops.linear import linear
from gnomon.reference.ops.quant import quant
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.tiling import PackedMatrix, pack_matrix

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Bf16Matrix:
    """A weight rounded to bf16 and widened again."""

    rounded: PackedMatrix


@dataclass(frozen=True)
class Int8Matrix:
    """q [N, K], integers held as float64, and the scale of each row [N]"""

    q: NDArray[np.float64]
    s: F32


Matrix = PackedMatrix | Bf16Matrix | Int8Matrix


def pack(w: F32, arm: str) -> Matrix:
    """[N, K] f32, widened and settled -> the form that the arm multiplies with"""
    if arm == "bf16":
        return Bf16Matrix(pack_matrix(round_bf16(w)))
    if arm == "int8":
        q, s = quant(w)
        return Int8Matrix(q.astype(np.float64), s)
    return pack_matrix(w)


def arm_linear(x: F32, w: Matrix, b: F32 | None = None) -> F32:
    """`linear` in the arm that packed the weight: [rows, K] -> [rows, N]"""
    if isinstance(w, Bf16Matrix):
        return linear(round_bf16(x), w.rounded, b)
    if isinstance(w, Int8Matrix):
        return int8_linear(x, w, b)
    return linear(x, w, b)


def int8_linear(x: F32, w: Int8Matrix, b: F32 | None = None) -> F32:
    """y = settle((f32(dot) * sx) * sw), then settle(y + b)

    Shapes:   x [rows, K], w.q [N, K], w.s [N] -> [rows, N]
    Formats:  integer operands of at most 127, an exact integer dot, f32 results
    Order:    none in the dot: every partial sum is an integer below K * 127^2 < 2^53, so float64 holds it exactly and a
              BLAS may add in any order; the conversion to f32 rounds once
    Source:   contract, section 7
    """
    q, sx = quant(x)
    dot = (q.astype(np.float64) @ w.q.T).astype(np.float32)  # [rows, N], integers: exact in any order
    y = settle((dot * sx[:, None]) * w.s)
    return y if b is None else settle(y + b)
