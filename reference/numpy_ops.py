"""The op table of the reference: each method finds the arrays and hands them to the op's own file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops import attention as attend
from gnomon.reference.ops.add import add
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.embed import embed
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.gelu_tanh import gelu_tanh
from gnomon.reference.ops.linear import linear
from gnomon.reference.ops.log1p01 import log1p01
from gnomon.reference.ops.mul import mul
from gnomon.reference.ops.rms_norm import rms_norm
from gnomon.reference.ops.rope import RopeTables, rope
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid
from gnomon.reference.ops.silu import silu
from gnomon.reference.ops.softplus import softplus
from gnomon.reference.ops.tiling import PackedMatrix, pack_matrix
from gnomon.reference.protocol import Handle, Ops, Rows, Span, Want
from gnomon.reference.state import State
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

F32 = NDArray[np.float32]


@dataclass
class KV:
    """Keys (after rope) and values of one layer: [capacity, kv_heads, d] each; rows past the length are scratch."""

    k: F32
    v: F32


class NumpyOps(Ops[F32]):
    """scratch_fill: what memory holds before it is written; it must never matter."""

    def __init__(self, scratch_fill: float = 0.0) -> None:
        self.scratch_fill = scratch_fill

    def pack(self, weight: Weight) -> Handle:
        w = widen(weight)
        return pack_matrix(w) if weight.role == "linear" else w

    def array(self, x: F32) -> F32:
        return np.asarray(x, np.float32)

    def elementary(self) -> Mapping[str, Callable[[F32], F32]]:
        return {
            "settle": settle,
            "exp_neg": exp_neg,
            "sigmoid": sigmoid,
            "silu": silu,
            "gelu_tanh": gelu_tanh,
            "log1p01": log1p01,
            "softplus": softplus,
            "chunked_sum": lambda t: chunked_sum(np.moveaxis(t, -1, 0)),
        }

    def describe(self) -> dict[str, str]:
        return {"numpy": np.__version__}

    def numpy(self, x: F32) -> F32:
        return np.array(x, np.float32, order="C")

    def finish(self, rows: Rows, results: Sequence[F32]) -> None:
        """NumPy has computed everything already."""

    def embed(self, at: str, rows: Rows, w: F32) -> F32:
        return embed(rows.ids, w)

    def select(self, at: str, x: F32, rows: Rows, want: Want) -> F32:
        return x if want == "all" else x[[span.stop - 1 for span in rows.spans]]

    def linear(self, at: str, x: F32, w: PackedMatrix, b: F32 | None = None) -> F32:
        return linear(x, w, b)

    def rms_norm(self, at: str, x: F32, w: F32, eps: float, groups: int = 1) -> F32:
        return rms_norm(x.reshape(len(x), groups, -1), w, eps).reshape(x.shape)

    def rope(self, at: str, x: F32, rows: Rows, heads: int, tables: RopeTables) -> F32:
        return rope(x.reshape(len(x), heads, -1), tables.at(rows.pos)).reshape(x.shape)

    def add(self, at: str, x: F32, y: F32) -> F32:
        return add(x, y)

    def mul(self, at: str, x: F32, y: F32) -> F32:
        return mul(x, y)

    def silu(self, at: str, x: F32) -> F32:
        return silu(x)

    def kv_append(self, at: str, k: F32, v: F32, rows: Rows, i: int, kv_heads: int) -> None:
        for span in rows.spans:
            new_k = k[span.start : span.stop].reshape(span.stop - span.start, kv_heads, -1)
            new_v = v[span.start : span.stop].reshape(new_k.shape)
            cache = self._with_room(span.state, span.end, i, new_k.shape)
            cache.k[span.state.length : span.end] = new_k
            cache.v[span.state.length : span.end] = new_v
            span.state.pending[i] = cache

    def appended(self, rows: Rows, i: int) -> tuple[F32, F32]:
        caches = [(span, span.state.cache(i)) for span in rows.spans]
        k = np.concatenate([cache.k[span.state.length : span.end] for span, cache in caches])
        v = np.concatenate([cache.v[span.state.length : span.end] for span, cache in caches])
        return k.reshape(len(k), -1), v.reshape(len(v), -1)

    def scores(self, at: str, q: F32, rows: Rows, i: int, scale: float, window: int | None) -> list[F32]:
        out = []
        for span in rows.spans:
            k = span.state.cache(i).k[: span.end]
            heads = q.shape[1] // k.shape[2]
            one = q[span.start : span.stop].reshape(-1, heads, k.shape[2])
            out.append(attend.scores(one, k, self._seen(span, rows, window), np.float32(scale)))
        return out

    def exp_scores(self, at: str, s: list[F32], rows: Rows, window: int | None) -> list[F32]:
        return [attend.exp_scores(x, self._seen(span, rows, window)) for x, span in zip(s, rows.spans, strict=True)]

    def denom(self, at: str, e: list[F32]) -> list[F32]:
        return [attend.denom(x) for x in e]

    def mix(self, at: str, e: list[F32], denom: list[F32], rows: Rows, i: int) -> F32:
        parts = []
        for x, total, span in zip(e, denom, rows.spans, strict=True):
            o = attend.mix(x, total, span.state.cache(i).v[: span.end])  # [rows of the span, heads, d]
            parts.append(o.reshape(len(o), -1))
        return np.concatenate(parts)

    @staticmethod
    def _seen(span: Span, rows: Rows, window: int | None) -> attend.Seen:
        return attend.seen(rows.pos[span.start : span.stop], span.end, window)

    def _with_room(self, state: State, need: int, i: int, shape: tuple[int, ...]) -> KV:
        """The cache of layer i with room for `need` positions. Growing copies the committed rows only."""
        old: KV | None = state.cache(i)
        if old is not None and len(old.k) >= need:
            return old
        full = (max(need, 2 * (0 if old is None else len(old.k)), 32), *shape[1:])
        grown = KV(np.full(full, self.scratch_fill, np.float32), np.full(full, self.scratch_fill, np.float32))
        if old is not None:
            grown.k[: state.length] = old.k[: state.length]
            grown.v[: state.length] = old.v[: state.length]
        return grown

    def new_cache(self, i: int) -> KV | None:
        """Memory is taken when the first rows arrive."""
        return None

    def export_cache(self, state: State, i: int) -> dict[str, F32]:
        cache = state.caches[i]
        return {"kv.k": cache.k[: state.length].copy(), "kv.v": cache.v[: state.length].copy()} if cache else {}
