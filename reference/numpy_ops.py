"""The op table of the reference: each method finds the arrays and hands them to the op's own file."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.device import Device
from gnomon.reference.kv import KV
from gnomon.reference.numpy_device import numpy_devices
from gnomon.reference.ops import attention as attend
from gnomon.reference.ops.add import add
from gnomon.reference.ops.arms import Matrix, arm_linear, pack
from gnomon.reference.ops.causal_conv import causal_conv
from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.delta_gates import delta_decay
from gnomon.reference.ops.delta_rule import delta_rule
from gnomon.reference.ops.embed import embed
from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.gelu_tanh import gelu_tanh
from gnomon.reference.ops.l2_norm import l2_norm
from gnomon.reference.ops.layer_norm import layer_norm
from gnomon.reference.ops.log1p01 import log1p01
from gnomon.reference.ops.mixture import route
from gnomon.reference.ops.mul import mul
from gnomon.reference.ops.rms_norm import rms_norm
from gnomon.reference.ops.rope import RopeTables, rope
from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid
from gnomon.reference.ops.silu import silu
from gnomon.reference.ops.softplus import softplus
from gnomon.reference.protocol import Arm, Handle, Ops, Rows, Span, Storage, Want
from gnomon.reference.state import State
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

F32 = NDArray[np.float32]


class Recurrent(NamedTuple):
    """What a delta layer carries: the last conv inputs [taps - 1, C], and one matrix per head [value_heads, dk, dv]"""

    conv: F32
    delta: F32 | None = None


class NumpyOps(Ops[F32]):
    """arm: the form of every linear; kv: how keys and values are stored; scratch_fill: what memory holds before it is
    written, which must never matter"""

    def __init__(self, arm: Arm = "f32", kv: Storage = "f32", scratch_fill: float = 0.0) -> None:
        self.arm = arm
        self.kv = kv
        self.scratch_fill = scratch_fill

    def pack(self, weight: Weight) -> Handle:
        w = widen(weight)
        return pack(w, self.arm) if weight.role == "linear" else w

    def array(self, x: F32) -> F32:
        return np.asarray(x, np.float32)

    def elementary(self) -> Mapping[str, Callable[[F32], F32]]:
        return {
            "settle": settle,
            "exp_neg": exp_neg,
            "sigmoid": sigmoid,
            "silu": silu,
            "gelu_tanh": gelu_tanh,
            "softplus": softplus,
            "log1p01": log1p01,
            "chunked_sum": lambda t: chunked_sum(np.moveaxis(t, -1, 0)),
        }

    def with_forms(self, arm: str = "f32", kv: str = "f32") -> "NumpyOps":
        return type(self)(cast(Arm, arm), cast(Storage, kv), self.scratch_fill)

    def devices(self) -> tuple[Device, ...]:
        return numpy_devices()

    def describe(self) -> dict[str, str]:
        return {"arm": self.arm, "kv": self.kv, "numpy": np.__version__}

    def numpy(self, x: F32) -> F32:
        return np.array(x, np.float32, order="C")

    def finish(self, rows: Rows, results: Sequence[F32]) -> None:
        """NumPy has computed everything already."""

    def embed(self, at: str, rows: Rows, w: F32) -> F32:
        return embed(rows.ids, w)

    def embed_positions(self, at: str, rows: Rows, w: F32) -> F32:
        return embed(rows.pos, w)

    def select(self, at: str, x: F32, rows: Rows, want: Want) -> F32:
        return x if want == "all" else x[[span.stop - 1 for span in rows.spans]]

    def linear(self, at: str, x: F32, w: Matrix, b: F32 | None = None) -> F32:
        return arm_linear(x, w, b)

    def rms_norm(self, at: str, x: F32, w: F32, eps: float, groups: int = 1) -> F32:
        return rms_norm(x.reshape(len(x), groups, -1), w, eps).reshape(x.shape)

    def layer_norm(self, at: str, x: F32, w: F32, b: F32, eps: float) -> F32:
        return layer_norm(x, w, b, eps)

    def l2_norm(self, at: str, x: F32, groups: int, scale: float | None = None) -> F32:
        y = l2_norm(x.reshape(len(x), groups, -1)).reshape(x.shape)
        return y if scale is None else settle(y * np.float32(scale))

    def rope(self, at: str, x: F32, rows: Rows, heads: int, tables: RopeTables) -> F32:
        return rope(x.reshape(len(x), heads, -1), tables.at(rows.pos)).reshape(x.shape)

    def add(self, at: str, x: F32, y: F32) -> F32:
        return add(x, y)

    def mul(self, at: str, x: F32, y: F32) -> F32:
        return mul(x, y)

    def silu(self, at: str, x: F32) -> F32:
        return silu(x)

    def sigmoid(self, at: str, x: F32) -> F32:
        return sigmoid(x)

    def gelu_tanh(self, at: str, x: F32) -> F32:
        return gelu_tanh(x)

    def delta_decay(self, at: str, a: F32, neg_a: F32, dt_bias: F32) -> F32:
        return delta_decay(a, neg_a, dt_bias)

    def split(self, at: Sequence[str], x: F32, sizes: Sequence[int], heads: int = 1) -> list[F32]:
        parts = np.split(x.reshape(len(x), heads, -1), np.cumsum(sizes)[:-1], axis=-1)
        return [part.reshape(len(x), -1) for part in parts]

    def route(self, at: str, logits: F32, top_k: int, normalise: bool) -> F32:
        return route(logits, top_k, normalise)

    def experts(self, at: str, x: F32, p: F32, weights: Sequence[tuple[Handle, Handle, Handle]]) -> F32:
        y = np.zeros_like(x)
        for e, (gate, up, out) in enumerate(weights):
            rows = np.flatnonzero(p[:, e])
            if len(rows):
                some = x[rows]
                act = mul(silu(self.linear("", some, gate)), self.linear("", some, up))
                y[rows] = add(y[rows], mul(p[rows, e, None], self.linear("", act, out)))
        return y

    def kv_append(self, at: str, k: F32, v: F32, rows: Rows, i: int, kv_heads: int) -> None:
        for span in rows.spans:
            new_k, new_v = (x[span.start : span.stop].reshape(span.stop - span.start, kv_heads, -1) for x in (k, v))
            old, length = span.state.cache(i), span.state.length
            span.state.pending[i] = KV.append(old, length, new_k, new_v, self.kv, self.scratch_fill)

    def appended(self, rows: Rows, i: int) -> tuple[F32, F32]:
        caches = [(span.state.cache(i), span.state.length, span.end) for span in rows.spans]
        k, v = (np.concatenate([cache.read(name, *at) for cache, *at in caches]) for name in ("k", "v"))
        return k.reshape(len(k), -1), v.reshape(len(v), -1)

    def scores(self, at: str, q: F32, rows: Rows, i: int, scale: float, window: int | None) -> list[F32]:
        out = []
        for span in rows.spans:
            k = span.state.cache(i).read("k", 0, span.end)
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
            o = attend.mix(x, total, span.state.cache(i).read("v", 0, span.end))  # [rows of the span, heads, d]
            parts.append(o.reshape(len(o), -1))
        return np.concatenate(parts)

    @staticmethod
    def _seen(span: Span, rows: Rows, window: int | None) -> attend.Seen:
        return attend.seen(rows.pos[span.start : span.stop], span.end, window)

    def causal_conv(self, at: str, x: F32, w: F32, rows: Rows, i: int) -> F32:
        parts = []
        for span in rows.spans:
            old = span.state.cache(i) or Recurrent(np.zeros((w.shape[1] - 1, w.shape[0]), np.float32))
            y, conv = causal_conv(x[span.start : span.stop], w, old.conv)
            span.state.pending[i] = Recurrent(conv, old.delta)
            parts.append(y)
        return np.concatenate(parts)

    def delta_rule(
        self, at: str, q: F32, k: F32, v: F32, g: F32, beta: F32, rows: Rows, i: int, key_heads: int, value_heads: int
    ) -> F32:
        q, k = (
            np.repeat(x.reshape(len(x), key_heads, -1), value_heads // key_heads, axis=1) for x in (q, k)
        )  # [rows, value_heads, dk]
        values = v.reshape(len(v), value_heads, -1)
        parts = []
        for span in rows.spans:
            one = slice(span.start, span.stop)
            conv, old = span.state.cache(i)
            if old is None:
                old = np.zeros((value_heads, q.shape[2], values.shape[2]), np.float32)
            o, delta = delta_rule(q[one], k[one], values[one], g[one], beta[one], old)
            span.state.pending[i] = Recurrent(conv, delta)
            parts.append(o.reshape(len(o), -1))
        return np.concatenate(parts)

    # --- caches ---------------------------------------------------------------------------------------------------
    def new_cache(self, i: int) -> None:
        """Memory is taken when the first rows arrive."""

    def export_cache(self, state: State, i: int) -> dict[str, NDArray[Any]]:
        cache = state.caches[i]
        if cache is None:
            return {}
        if isinstance(cache, Recurrent):
            return {f"rec.{name}": a.copy() for name, a in cache._asdict().items() if a is not None}
        return {f"kv.{name}": array.copy() for name, array in cache.rows(0, state.length).items()}

    def load_cache(self, arrays: dict[str, NDArray[Any]]) -> KV | Recurrent:
        if "rec.conv" in arrays:
            delta = arrays.get("rec.delta")
            return Recurrent(arrays["rec.conv"], delta)
        return KV({name.removeprefix("kv."): array for name, array in arrays.items()})

    def copy_cache(self, state: State, i: int) -> KV | Recurrent | None:
        cache: KV | Recurrent | None = state.caches[i]
        if isinstance(cache, KV):
            return KV({name: array.copy() for name, array in cache.rows(0, state.length).items()})
        return cache  # a step replaces what a delta layer carries and never writes into it

    def truncate_cache(self, cache: KV, length: int) -> KV:
        return cache  # what lies past the length is scratch

    def cache_nbytes(self, cache: KV | Recurrent | None) -> int:
        if cache is None:
            return 0
        arrays = cache.arrays.values() if isinstance(cache, KV) else [a for a in cache if a is not None]
        return sum(a.nbytes for a in arrays)
