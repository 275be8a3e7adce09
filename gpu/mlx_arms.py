"""The arms and the stored forms of keys and values, in MLX array operations. Formulas and sources stand in
`gnomon.reference.ops.{arms,bf16,quant}`."""

from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.mlx_math import ONE, ZERO, constant, matrix_dot, pack_matrix, settle
from gnomon.reference.ops.bf16 import round_bf16 as round_bf16_on_host
from gnomon.reference.ops.quant import quant as quant_on_host

EXACT = 1024  # so many products of two integers up to 127 stay below 2^24, so f32 adds them exactly in any order

Tiles = tuple[mx.array, ...]


class Bf16Matrix(NamedTuple):
    tiles: Tiles


class Int8Matrix(NamedTuple):
    """q [K, N], integers held as f32, and the scale of each output [N]"""

    q: mx.array
    s: mx.array


Matrix = Tiles | Bf16Matrix | Int8Matrix


def pack(w: NDArray[np.float32], arm: str) -> Matrix:
    """[N, K] f32, widened and settled -> the form that the arm multiplies with"""
    if arm == "bf16":
        return Bf16Matrix(pack_matrix(round_bf16_on_host(w)))
    if arm == "int8":
        q, s = quant_on_host(w)
        return Int8Matrix(mx.array(np.ascontiguousarray(q.T.astype(np.float32))), mx.array(s))
    return pack_matrix(w)


def arm_linear(x: mx.array, w: Matrix, b: mx.array | None = None) -> mx.array:
    """[rows, K] -> [rows, N] in the arm that packed the weight"""
    if isinstance(w, Int8Matrix):
        q, s = quant(x)
        y = settle((integer_dot(q.astype(mx.float32), w.q) * s[:, None]) * w.s)
    elif isinstance(w, Bf16Matrix):
        y = settle(matrix_dot(from_bf16(to_bf16(x)), w.tiles))
    else:
        y = settle(matrix_dot(x, w))
    return y if b is None else settle(y + b)


def integer_dot(x: mx.array, w: mx.array) -> mx.array:
    """x [rows, K] by w [K, N], integers held as f32 -> the exact dot, rounded once to f32

    A matrix unit may add up to EXACT products in any order without rounding; the pieces are added as integers.
    """
    tot = mx.zeros((x.shape[0], w.shape[1]), mx.int32)
    for k in range(0, w.shape[0], EXACT):
        tot = tot + mx.matmul(x[:, k : k + EXACT], w[k : k + EXACT]).astype(mx.int32)
    return tot.astype(mx.float32)


def to_bf16(x: mx.array) -> mx.array:
    """The 16 bits of the nearest bf16, ties to even; a NaN stays one"""
    u = x.view(mx.uint32)
    rounded = (u + mx.array(0x7FFF, mx.uint32) + ((u >> 16) & mx.array(1, mx.uint32))) >> 16
    return mx.where(mx.isnan(x), mx.array(0x7FC0, mx.uint32), rounded).astype(mx.uint16)


def from_bf16(u: mx.array) -> mx.array:
    return (u.astype(mx.uint32) << 16).view(mx.float32)


def quant(x: mx.array) -> tuple[mx.array, mx.array]:
    """x [..., n] -> integers [..., n] in [-127, 127], scales [...]"""
    s = settle(mx.max(mx.abs(x), axis=-1) / constant(127.0))
    s = mx.where(s == ZERO, ONE, s)
    q = mx.round(x / s[..., None])
    return mx.where(mx.isnan(q), ZERO, q).astype(mx.int8), s  # the NaN is still in s


def stored(name: str, x: mx.array, storage: str) -> dict[str, mx.array]:
    """What is kept of new keys or values [rows, kv_heads, d]"""
    if storage == "bf16":
        return {name: to_bf16(x)}
    if storage == "int8":
        q, s = quant(x)
        return {name: q, f"{name}_scale": s}
    return {name: x}


def read(name: str, cache: dict[str, mx.array], start: int = 0) -> mx.array:
    """What every read sees of positions `start` and on: f32 [positions, kv_heads, d]"""
    kept = cache[name][start:]
    if kept.dtype == mx.uint16:
        return from_bf16(kept)
    if kept.dtype == mx.int8:
        return kept.astype(mx.float32) * cache[f"{name}_scale"][start:][..., None]
    return kept
