"""Faults of the bf16 and int8 arms, and of keys and values as they are stored."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.reference.kv import KV
from gnomon.reference.numpy_ops import NumpyOps
from gnomon.reference.ops.bf16 import round_bf16
from gnomon.reference.ops.chunked import chunked_dot, chunked_sum
from gnomon.reference.ops.quant import quant
from gnomon.reference.ops.settle import settle
from gnomon.reference.protocol import Rows
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen
from mutants.linear import F32, ONE, ZERO, Array, Change, Three

Quant = Callable[[Array], tuple[Array, Array]]  # [..., n] -> integers, and scales [...]


def with_matrices(product: Callable[[Array, Array], Array], finish: Callable[[Array, Array], Array]) -> Change:
    """linear on plain matrices; product: x [rows, K], w [N, K] -> [rows, N]; finish: that and the bias -> y"""

    def pack(self: NumpyOps, weight: Weight) -> Array:
        return widen(weight)

    def linear(self: NumpyOps, at: str, x: Array, w: Array, b: Array | None = None) -> Array:
        return finish(product(x, w), ZERO if b is None else b)

    return {"pack": pack, "linear": linear}


def settled(y: Array, b: Array) -> Array:
    return settle(settle(y) + b)


def bias_first(y: Array, b: Array) -> Array:
    return settle(y + b)


def bf16_with(
    activation: Callable[[Array], Array] = round_bf16,
    weight: Callable[[Array], Array] = round_bf16,
    finish: Callable[[Array, Array], Array] = settled,
    dot: Callable[[Array, Array], Array] = chunked_dot,
) -> Change:
    return with_matrices(lambda x, w: dot(activation(x).T[:, :, None], weight(w).T[:, None]), finish)


def bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view(np.uint32)


def truncated(x: Array) -> Array:
    return (bits(x) & np.uint32(0xFFFF0000)).view(F32)


def half_away(x: Array) -> Array:
    return ((bits(x) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(F32)


def same(x: Array) -> Array:
    return x


def products_rounded(x: Array, w: Array) -> Array:
    """Products in bf16, as if both factors stayed there."""
    return chunked_sum(round_bf16(x * w))


def rounded_result(y: Array, b: Array) -> Array:
    return round_bf16(settled(y, b))


def int8_with(
    activation: Quant = quant,
    weight: Quant = quant,
    dot: Callable[[Array, Array], Array] = lambda q, w: q.astype(np.int64) @ w.astype(np.int64).T,
    scaled: Three = lambda dot, sx, sw: (dot * sx) * sw,
    finish: Callable[[Array, Array], Array] = settled,
) -> Change:
    def product(x: Array, w: Array) -> Array:
        (q, sx), (qw, sw) = activation(x), weight(w)
        return scaled(dot(q, qw).astype(F32), np.broadcast_to(sx, len(q))[:, None], np.broadcast_to(sw, len(qw)))

    return with_matrices(product, finish)


def scale_of(x: Array) -> Array:
    """As `quant` finds it, one axis fewer."""
    s = settle(np.max(np.abs(x), axis=-1) / F32(127.0))
    return np.where(s == 0, ONE, s)


def integers(q: Array) -> Array:
    return np.clip(q, -128, 127).astype(np.int8)


def per_tensor(x: Array) -> tuple[Array, Array]:
    s = scale_of(x.reshape(-1))
    return integers(np.rint(x / s)), np.full(x.shape[:-1], s, F32)


def half_away_from_zero(x: Array) -> tuple[Array, Array]:
    s = scale_of(x)
    y = x / s[..., None]
    return integers(np.copysign(np.floor(np.abs(y) + F32(0.5)), y)), s


def towards_zero(x: Array) -> tuple[Array, Array]:
    s = scale_of(x)
    return integers(np.trunc(x / s[..., None])), s


def by_a_reciprocal(x: Array) -> tuple[Array, Array]:
    s = scale_of(x)
    return integers(np.rint(x * (ONE / s)[..., None])), s


def scale_unsettled(x: Array) -> tuple[Array, Array]:
    s = np.max(np.abs(x), axis=-1) / F32(127.0)
    s = np.where(s == 0, ONE, s)
    return integers(np.rint(x / s[..., None])), s


def scale_128(x: Array) -> tuple[Array, Array]:
    s = settle(np.max(np.abs(x), axis=-1) / F32(128.0))
    s = np.where(s == 0, ONE, s)
    return integers(np.rint(x / s[..., None])), s


def scale_zero(x: Array) -> tuple[Array, Array]:
    """The scale of a row of zeros is left at zero."""
    q, s = quant(x)
    return q, np.where(np.any(x, axis=-1), s, ZERO)


def f32_dot(q: Array, w: Array) -> Array:
    """A running sum in f32: integers beyond 2^24 are rounded on the way."""
    acc = np.zeros((len(q), len(w)), F32)
    for a, b in zip(q.T.astype(F32), w.T.astype(F32), strict=True):
        acc = acc + a[:, None] * b
    return acc


def scales_first(dot: Array, sx: Array, sw: Array) -> Array:
    return dot * (sx * sw)


def weight_scale_first(dot: Array, sx: Array, sw: Array) -> Array:
    return (dot * sw) * sx


def stored_with(quantise: Quant) -> Change:
    """kv_append for int8; quantise: [rows, kv_heads, d] -> integers and scales [rows, kv_heads]"""

    def forms(x: Array, name: str) -> dict[str, Array]:
        q, s = quantise(x)
        return {name: q, f"{name}_scale": s}

    return _stored(lambda k, v: forms(k, "k") | forms(v, "v"))


def stored_as(form: Callable[[Array], Array]) -> Change:
    """kv_append for bf16; form: f32 -> f32 that a bf16 holds exactly"""
    return _stored(lambda k, v: {name: (bits(form(x)) >> 16).astype(np.uint16) for name, x in (("k", k), ("v", v))})


def _stored(forms: Callable[[Array, Array], dict[str, Array]]) -> Change:
    def kv_append(self: NumpyOps, at: str, k: Array, v: Array, rows: Rows, i: int, kv_heads: int) -> None:
        for span in rows.spans:
            new = forms(*(x[span.start : span.stop].reshape(span.stop - span.start, kv_heads, -1) for x in (k, v)))
            if (old := span.state.cache(i)) is not None:
                held = old.rows(0, span.state.length)
                new = {name: np.concatenate([held[name], array]) for name, array in new.items()}
            span.state.pending[i] = KV(new)

    return {"kv_append": kv_append}


def per_position(x: Array) -> tuple[Array, Array]:
    """One scale for all heads of a position."""
    q, s = quant(x.reshape(len(x), -1))
    return q.reshape(x.shape), np.repeat(s[:, None], x.shape[1], axis=1)


class OwnRowsAsTheyCame(KV):
    """Reads show the rows of the last step before they were rounded."""

    def __init__(self, arrays: dict[str, Array], start: int, raw: dict[str, Array]) -> None:
        super().__init__(arrays)
        self.start, self.raw = start, raw

    def read(self, name: str, start: int, stop: int) -> Any:
        out = super().read(name, 0, stop).copy()
        out[self.start : self.start + len(self.raw[name])] = self.raw[name]
        return out[start:]


def own_rows_unquantised(self: NumpyOps, at: str, k: Array, v: Array, rows: Rows, i: int, kv_heads: int) -> None:
    NumpyOps.kv_append(self, at, k, v, rows, i, kv_heads)
    for span in rows.spans:
        one = slice(span.start, span.stop)
        raw = {name: x[one].reshape(span.stop - span.start, kv_heads, -1) for name, x in (("k", k), ("v", v))}
        span.state.pending[i] = OwnRowsAsTheyCame(span.state.pending[i].arrays, span.state.length, raw)
