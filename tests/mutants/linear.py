"""Faults of linear: order, rounding, settling."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.chunked import CHUNK, chunked_dot, chunked_sum, chunks
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.tiling import tiled_dot
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen_stored

F32, ONE, ZERO = np.float32, np.float32(1.0), np.float32(0.0)
Array = Any
Change = dict[str, Any]  # methods by name
Two = Callable[[Array, Array], Array]
Three = Callable[[Array, Array, Array], Array]


def linear_with(dot: Two, stored: Callable[[Array], Array] = settle) -> Change:
    """linear on plain matrices; dot: [K, rows, 1], [K, 1, N] -> [rows, N]; stored: what loading does"""

    def pack(self: NumpyOps, weight: Weight) -> Array:
        return stored(widen_stored(weight.dtype, weight.data).reshape(weight.shape))

    def linear(self: NumpyOps, at: str, x: Array, w: Array, b: Array | None = None) -> Array:
        y = settle(dot(x.T[:, :, None], w.T[:, None]))
        return y if b is None else settle(y + b)

    return {"pack": pack, "linear": linear}


def bias_with(finish: Two) -> Change:
    """linear with another ending; finish: the sums [rows, N] and the bias -> y"""

    def linear(self: NumpyOps, at: str, x: Array, w: Any, b: Array | None = None) -> Array:
        return finish(tiled_dot(x, w), ZERO if b is None else b)

    return {"linear": linear}


def fused(x: Array, w: Array) -> Array:
    """The product joins the sum unrounded: exact in float64, as in a fused multiply-add."""
    x, w = chunks(x).astype(np.float64), chunks(w).astype(np.float64)
    acc = np.zeros(np.broadcast_shapes(x.shape, w.shape)[1:], F32)
    for i in range(len(x)):
        acc = (acc + x[i] * w[i]).astype(F32)
    return chunked_sum(acc)  # at most 128 chunks: their plain sum


def backwards(x: Array, w: Array) -> Array:
    return chunked_dot(x[::-1], w[::-1])


def one_running_sum(x: Array, w: Array) -> Array:
    acc = np.zeros(np.broadcast_shapes(x.shape, w.shape)[1:], F32)
    for a, b in zip(x, w, strict=True):
        acc = acc + a * b
    return acc


def chunks_backwards(x: Array, w: Array) -> Array:
    tot = np.zeros(np.broadcast_shapes(x.shape, w.shape)[1:], F32)
    for start in reversed(range(0, len(x), CHUNK)):
        tot = tot + chunked_dot(x[start : start + CHUNK], w[start : start + CHUNK])
    return tot


def pairwise(x: Array, w: Array) -> Array:
    return np.sum(np.ascontiguousarray(np.moveaxis(x * w, 0, -1)), axis=-1)


def float64(x: Array, w: Array) -> Array:
    return np.sum(x.astype(np.float64) * w, axis=0).astype(F32)


def tail_dropped(x: Array, w: Array) -> Array:
    whole = max(1, len(x) // 8 * 8)
    return chunked_dot(x[:whole], w[:whole])


def flushed_products(x: Array, w: Array) -> Array:
    """What an early settle would do: small products vanish before they cancel or add up."""
    return chunked_sum(settle(x * w))
