"""Faults of delta layers: their gates, their convolution, the delta rule, and what they carry from step to step."""

from collections.abc import Callable

import numpy as np

from gnomon.reference.numpy_ops import NumpyOps, Recurrent
from gnomon.reference.ops.chunked import chunked_dot
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.silu import silu
from gnomon.reference.ops.softplus import softplus
from gnomon.reference.protocol import Rows
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen, widen_stored
from mutants.linear import F32, ZERO, Array, Change, Two
from mutants.linear import one_running_sum as running_sum


def library_decay(settled: Callable[[Array], Array]) -> Change:
    """-exp(A_log) by the library's exponential."""

    def pack(self: NumpyOps, weight: Weight) -> Array:
        if weight.role != "decay":
            return widen(weight)
        return settled(-np.exp(settle(widen_stored(weight.dtype, weight.data).reshape(weight.shape))))

    return {"pack": pack}


def without_bias(self: NumpyOps, at: str, a: Array, neg_a: Array, dt_bias: Array) -> Array:
    return settle(neg_a * softplus(a))


def decay_unsettled(self: NumpyOps, at: str, a: Array, neg_a: Array, dt_bias: Array) -> Array:
    return neg_a * softplus(settle(a + dt_bias))


def convolved(
    before: Callable[[Array], Array] = lambda held: held,
    order: Callable[[Array], Array] = lambda w: w,
    finish: Callable[[Array], Array] = lambda acc: silu(settle(acc)),
    add: Callable[[Array, Array, Array], Array] = lambda acc, w, x: acc + w * x,
    after: Two = lambda past, x: past[len(x) :],
) -> Change:
    """causal_conv from its parts; before: held rows -> those that are read; after: all rows, new rows -> the state"""

    def causal_conv(self: NumpyOps, at: str, x: Array, w: Array, rows: Rows, i: int) -> Array:
        parts, taps = [], w.shape[1]
        for span in rows.spans:
            cache, new = span.state.cache(i), x[span.start : span.stop]
            held = before(np.zeros((taps - 1, w.shape[0]), F32) if cache is None else cache.conv)
            past, acc = np.concatenate([held, new]), np.zeros(new.shape, F32)
            for j in range(taps):
                acc = add(acc, order(w)[:, j], past[j : j + len(new)])
            span.state.pending[i] = Recurrent(after(past, new), cache and cache.delta)
            parts.append(finish(acc))
        return np.concatenate(parts)

    return {"causal_conv": causal_conv}


def fused(acc: Array, w: Array, x: Array) -> Array:
    return (acc + w.astype(np.float64) * x).astype(F32)


def only_new_rows(past: Array, x: Array) -> Array:
    """The state is made of this step's rows alone, with zeros where there are too few."""
    kept = past.copy()
    kept[: len(past) - len(x)] = ZERO
    return kept[len(x) :]


def ruled(
    begin: Callable[[Array], Array] = lambda S: S,
    decayed: Two = lambda S, keep: settle(S * keep),
    dot: Two = lambda S, x: settle(chunked_dot(S.swapaxes(0, 1), x.T[..., None])),
    written: Callable[[Array, Array, Array], Array] = lambda v, m, beta: settle(settle(v - m) * beta),
    joined: Callable[[Array, Array, Array], Array] = lambda S, k, u: settle(S + k[:, :, None] * u[:, None]),
    read: Two = lambda old, new: new,
    heads: Callable[[Array, int], Array] = lambda x, group: np.repeat(x, group, axis=1),
) -> Change:
    """delta_rule from its parts; S [heads, dk, dv], k and q [heads, dk], v, m and u [heads, dv]"""

    def delta_rule(
        self: NumpyOps,
        at: str,
        q: Array,
        k: Array,
        v: Array,
        g: Array,
        beta: Array,
        rows: Rows,
        i: int,
        key_heads: int,
        value_heads: int,
    ) -> Array:
        q, k = (heads(x.reshape(len(x), key_heads, -1), value_heads // key_heads) for x in (q, k))
        out = np.empty((len(v), value_heads, v.shape[1] // value_heads), F32)
        values, keep = v.reshape(out.shape), exp_neg(g)[..., None, None]
        for span in rows.spans:
            conv, S = span.state.cache(i)
            S = begin(S)
            for r in range(span.start, span.stop):
                S = decayed(S, keep[r])
                u = written(values[r], dot(S, k[r]), beta[r][:, None])
                before, S = S, joined(S, k[r], u)
                out[r] = dot(read(before, S), q[r])
            span.state.pending[i] = Recurrent(conv, S.astype(F32))
        return out.reshape(len(v), -1)

    return {"delta_rule": delta_rule}


def transposed(S: Array) -> Array:
    """Read as if it had been stored [heads, dv, dk]."""
    heads, dk, dv = S.shape
    return S.reshape(heads, dv, dk).swapaxes(1, 2)


def not_chunked(S: Array, x: Array) -> Array:
    return settle(running_sum(S.swapaxes(0, 1), x.T[..., None]))


def unsettled_dot(S: Array, x: Array) -> Array:
    return chunked_dot(S.swapaxes(0, 1), x.T[..., None])


def in_float64(S: Array, x: Array) -> Array:
    """The dot of a kernel that carries more digits."""
    return settle(np.sum(S.astype(np.float64) * x[..., None], axis=1).astype(F32))
