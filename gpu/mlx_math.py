"""The arithmetic of the contract in MLX array operations: unfused, chunked, settled.

Every operation is one MLX primitive that rounds by itself: + - * / sqrt, rint, select, integer and bit steps. MLX's
own sums, matrix products, exponentials and compiled functions have other bytes and are not used. Constants are f32
arrays, so no Python number takes part in a rounding. Formulas, order and sources stand in `gnomon.reference.ops`.
"""

import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops import exp_neg as exp
from gnomon.reference.ops import gelu_tanh as gelu
from gnomon.reference.ops import l2_norm as l2
from gnomon.reference.ops import log1p01 as log1p
from gnomon.reference.ops import settle as floor
from gnomon.reference.ops.chunked import CHUNK, chunks
from gnomon.reference.row_counts import chooses_by_rows

TILE_OUTPUTS = 8192  # columns of a weight that are worked on together
TILE_FLOATS = chooses_by_rows(
    "gpu.mlx_math.TILE_FLOATS", 1 << 16, "floats"
)  # accumulators, and as many products, of one operation: 256 KiB each


def constant(x: float | np.float32) -> mx.array:
    """A value that f32 holds exactly, as an array without axes."""
    return mx.array(float(x), mx.float32)


ZERO, ONE, TWO, INFINITY = constant(0.0), constant(1.0), constant(2.0), constant(math.inf)
FLOOR, LOWEST = constant(floor.FLOOR), constant(exp.LOWEST)
LOG2E, C1, C2 = constant(exp.LOG2E), constant(exp.C1), constant(exp.C2)
P0, P1, P2, P3, P4, P5 = (constant(p) for p in (exp.P0, exp.P1, exp.P2, exp.P3, exp.P4, exp.P5))
Q0, Q1, Q2, Q3, Q4 = (constant(q) for q in (log1p.Q0, log1p.Q1, log1p.Q2, log1p.Q3, log1p.Q4))
G, H = constant(gelu.G), constant(gelu.H)
L2_EPS = constant(l2.EPS)


def settle(x: mx.array) -> mx.array:
    """+0.0 where |x| < 2^-50, else x; a device that flushes a subnormal before it compares gives the same"""
    return mx.where(mx.abs(x) < FLOOR, ZERO, x)


def exp_neg(x: mx.array) -> mx.array:
    """e^x for x <= 0, +0.0 below -34.5; 2^n comes from the exponent bits."""
    below = x < LOWEST
    x = mx.where(below, LOWEST, x)
    n = mx.round(x * LOG2E)  # half to even
    r = (x - n * C1) - n * C2
    p = P5
    for coefficient in (P4, P3, P2, P1, P0):
        p = p * r + coefficient
    y = (p * (r * r) + r) + ONE
    exponent = mx.where(mx.isnan(n), ZERO, n).astype(mx.int32)  # a NaN has no integer; y still carries it
    power = mx.left_shift(exponent + 127, mx.array(23, mx.int32)).view(mx.float32)
    return mx.where(below, ZERO, y * power)


def sigmoid(x: mx.array) -> mx.array:
    e = exp_neg(-mx.abs(x))
    d = ONE + e
    return settle(mx.where(x >= ZERO, ONE, e) / d)


def silu(x: mx.array) -> mx.array:
    return settle(x * sigmoid(x))


def gelu_tanh(x: mx.array) -> mx.array:
    cube = settle(x * x) * x
    return settle(x * sigmoid(G * (x + H * cube)))


def log1p01(u: mx.array) -> mx.array:
    s = u / (TWO + u)
    z = settle(s * s)
    q = Q4
    for coefficient in (Q3, Q2, Q1, Q0):
        q = q * z + coefficient
    t = s + s
    return t + t * (z * q)


def softplus(x: mx.array) -> mx.array:
    return settle(mx.maximum(x, ZERO) + log1p01(exp_neg(-mx.abs(x))))


def layer_norm(x: mx.array, w: mx.array, b: mx.array, eps: float) -> mx.array:
    """x [..., n], w [n], b [n] -> [..., n]"""
    n = constant(x.shape[-1])
    c = settle(x - (chunked_sum(mx.moveaxis(x, -1, 0)) / n)[..., None])
    v = chunked_sum(mx.moveaxis(c * c, -1, 0)) / n
    s = ONE / mx.sqrt(v + constant(np.float32(eps)))
    return settle(settle(settle(c * s[..., None]) * w) + b)


def l2_norm(x: mx.array) -> mx.array:
    """x [..., n] -> [..., n]"""
    s = ONE / mx.sqrt(chunked_sum(mx.moveaxis(x * x, -1, 0)) + L2_EPS)
    return settle(x * s[..., None])


def softmax(s: mx.array) -> mx.array:
    """s [..., n] -> [..., n]"""
    e = exp_neg(settle(s - mx.max(s, axis=-1, keepdims=True)))
    return settle(e / chunked_sum(mx.moveaxis(e, -1, 0))[..., None])


def rms_norm(x: mx.array, w: mx.array, eps: float) -> mx.array:
    """x [..., n], w [n] -> [..., n]"""
    m = chunked_sum(mx.moveaxis(x * x, -1, 0)) / constant(x.shape[-1])
    s = ONE / mx.sqrt(m + constant(np.float32(eps)))
    return settle(settle(x * s[..., None]) * w)


# --- chunked sums: as in the reference, the summed index comes first ----------------------------------------


def in_chunks(t: mx.array) -> mx.array:
    """[K, ...] -> [min(K, 128), ceil(K / 128), ...]: term i of chunk c at [i, c], padded with +0.0; contiguous"""
    K = t.shape[0]
    if K <= CHUNK:
        return mx.contiguous(t[:, None])
    count = -(-K // CHUNK)
    padded = mx.pad(t, [(0, count * CHUNK - K)] + [(0, 0)] * (t.ndim - 1))
    return mx.contiguous(padded.reshape(count, CHUNK, *t.shape[1:]).swapaxes(0, 1))


def chunked_sum(t: mx.array) -> mx.array:
    """[K, ...] -> [...], not settled"""
    return total(add_terms(ZERO, in_chunks(t)))


def dot_of_chunks(x: mx.array, w: mx.array) -> mx.array:
    """chunked_dot of arrays that `in_chunks` has laid out, broadcast against each other: [i, c, ...] -> [...]

    The products of several i are formed at once, then added one i at a time, in order: half as many operations.
    """
    accumulators = math.prod(np.broadcast_shapes(x.shape[1:], w.shape[1:]))
    step = max(1, TILE_FLOATS // accumulators)
    cuts = list(range(step, x.shape[0], step))
    acc = ZERO
    for some_x, some_w in zip(mx.split(x, cuts), mx.split(w, cuts), strict=True):
        acc = add_terms(acc, some_x * some_w)
    return total(acc)


def add_terms(acc: mx.array, t: mx.array) -> mx.array:
    """acc + t[0] + t[1] + ..., left to right: t [i, c, ...] -> [1, c, ...]"""
    for term in mx.split(t, t.shape[0]):  # one operation, and every term a view
        acc = acc + term
    return acc


def total(acc: mx.array) -> mx.array:
    """The sum of the chunks, ascending: [1, c, ...] -> [...]"""
    tot = ZERO
    for chunk in mx.split(acc, acc.shape[1], axis=1):
        tot = tot + chunk
    return tot.reshape(acc.shape[2:])


# --- rows and tiles: they bound the memory in flight and decide no addition ---------------------------------


def pack_matrix(w: NDArray[np.float32]) -> tuple[mx.array, ...]:
    """W [N, K] f32, widened and settled -> tiles [min(K, 128), ceil(K / 128), 1, outputs of the tile]"""
    some = (w[n : n + TILE_OUTPUTS] for n in range(0, w.shape[0], TILE_OUTPUTS))
    return tuple(mx.array(np.ascontiguousarray(chunks(rows.T)[:, :, None])) for rows in some)


def matrix_dot(x: mx.array, tiles: Sequence[mx.array]) -> mx.array:
    """chunked_dot of every row of x with every row of W: [rows, K] -> [rows, N], not settled"""

    def columns(tile: mx.array) -> mx.array:
        def some(rows: mx.array) -> mx.array:
            return dot_of_chunks(in_chunks(rows.T)[..., None], tile)  # [i, c, rows, 1] by [i, c, 1, outputs]

        return by_rows(some, x, tile.shape[1] * tile.shape[3])

    return mx.concatenate([columns(tile) for tile in tiles], axis=1)


def by_rows(f: Callable[[mx.array], mx.array], x: mx.array, floats: int) -> mx.array:
    """f(x) for a row-wise f that keeps `floats` accumulators per row: a few rows at a time

    They are computed as they are made: a long prompt is never one graph of millions of operations.
    """
    step = max(1, TILE_FLOATS // floats)
    if x.shape[0] <= step:
        return f(x)
    parts = []
    for r in range(0, x.shape[0], step):
        parts.append(f(x[r : r + step]))
        mx.eval(parts[-1])
    return mx.concatenate(parts)
