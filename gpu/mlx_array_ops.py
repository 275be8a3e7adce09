"""The op table in MLX array operations. MLX arrays never change once made, so a state only refers to them.

Everything is lazy until `finish` evaluates the logits together with all that the states keep: what outlives a step is
computed within it and in its thread, because an MLX stream belongs to one thread.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple, cast

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.mlx_arms import Matrix, arm_linear, pack, read, stored
from gnomon.gpu.mlx_device import mlx_devices
from gnomon.gpu.mlx_layers import causal_conv, delta_rule, mix, query_key, softmax_terms
from gnomon.gpu.mlx_math import (
    ZERO,
    chunked_sum,
    constant,
    exp_neg,
    gelu_tanh,
    l2_norm,
    layer_norm,
    log1p01,
    rms_norm,
    settle,
    sigmoid,
    silu,
    softmax,
    softplus,
)
from gnomon.reference.device import Device
from gnomon.reference.ops.attention import seen
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Arm, Handle, Ops, Rows, Span, Storage, Want
from gnomon.reference.state import State
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

F32 = NDArray[np.float32]


KV = dict[str, mx.array]  # "k" (after rope), "v" [T, kv_heads, d] as stored, and the scales of int8 storage


class Recurrent(NamedTuple):
    """What a delta layer carries: the last conv inputs [taps - 1, C], and one matrix per head [value_heads, dk, dv]"""

    conv: mx.array
    delta: mx.array | None = None


class MlxArrayOps(Ops[mx.array]):
    """On the default device of MLX: Metal on Apple silicon, the CPU elsewhere.

    arm: the form of every linear; kv: how keys and values are stored
    """

    def __init__(self, arm: Arm = "f32", kv: Storage = "f32") -> None:
        self.arm = arm
        self.kv = kv

    # --- border ---------------------------------------------------------------------------------------------
    def pack(self, weight: Weight) -> Handle:
        w = widen(weight)
        return pack(w, self.arm) if weight.role == "linear" else mx.array(w)

    def array(self, x: F32) -> mx.array:
        return mx.array(np.ascontiguousarray(x, np.float32))

    def numpy(self, x: mx.array) -> F32:
        return np.array(x, np.float32, order="C")

    def elementary(self) -> Mapping[str, Callable[[mx.array], mx.array]]:
        return {
            "settle": settle,
            "exp_neg": exp_neg,
            "sigmoid": sigmoid,
            "silu": silu,
            "gelu_tanh": gelu_tanh,
            "softplus": softplus,
            "log1p01": log1p01,
            "chunked_sum": lambda t: chunked_sum(mx.moveaxis(t, -1, 0)),
        }

    def with_forms(self, arm: str = "f32", kv: str = "f32") -> "MlxArrayOps":
        return type(self)(cast(Arm, arm), cast(Storage, kv))

    def devices(self) -> tuple[Device, ...]:
        return mlx_devices()

    def describe(self) -> dict[str, str]:
        return {
            "arm": self.arm,
            "kv": self.kv,
            "mlx": version("mlx"),
            "device": str(mx.default_device()),
            "device_name": str(mx.device_info().get("device_name", "unknown")),
            "metal": "available" if mx.metal.is_available() else "not available",
        }

    def finish(self, rows: Rows, results: Sequence[mx.array]) -> None:
        mx.eval(list(results), [list(span.state.pending.values()) for span in rows.spans])

    # --- row-wise primitives --------------------------------------------------------------------------------
    def embed(self, at: str, rows: Rows, w: mx.array) -> mx.array:
        return w[mx.array(rows.ids)]

    def embed_positions(self, at: str, rows: Rows, w: mx.array) -> mx.array:
        return w[mx.array(rows.pos.astype(np.int32))]

    def select(self, at: str, x: mx.array, rows: Rows, want: Want) -> mx.array:
        return x if want == "all" else x[mx.array([span.stop - 1 for span in rows.spans])]

    def linear(self, at: str, x: mx.array, w: Matrix, b: mx.array | None = None) -> mx.array:
        return arm_linear(x, w, b)

    def rms_norm(self, at: str, x: mx.array, w: mx.array, eps: float, groups: int = 1) -> mx.array:
        return rms_norm(x.reshape(x.shape[0], groups, -1), w, eps).reshape(x.shape)

    def layer_norm(self, at: str, x: mx.array, w: mx.array, b: mx.array, eps: float) -> mx.array:
        return layer_norm(x, w, b, eps)

    def l2_norm(self, at: str, x: mx.array, groups: int, scale: float | None = None) -> mx.array:
        y = l2_norm(x.reshape(x.shape[0], groups, -1)).reshape(x.shape)
        return y if scale is None else settle(y * constant(scale))

    def rope(self, at: str, x: mx.array, rows: Rows, heads: int, tables: RopeTables) -> mx.array:
        rotation = tables.at(rows.pos)
        c, s = mx.array(rotation.cos)[:, None], mx.array(rotation.sin)[:, None]  # [rows, 1, dim / 2]
        half = c.shape[-1]
        x1, x2, rest = mx.split(x.reshape(x.shape[0], heads, -1), [half, 2 * half], axis=-1)
        y = mx.concatenate([settle(x1 * c - x2 * s), settle(x2 * c + x1 * s), rest], axis=-1)
        return y.reshape(x.shape)

    def add(self, at: str, x: mx.array, y: mx.array) -> mx.array:
        return settle(x + y)

    def mul(self, at: str, x: mx.array, y: mx.array) -> mx.array:
        return settle(x * y)

    def silu(self, at: str, x: mx.array) -> mx.array:
        return silu(x)

    def sigmoid(self, at: str, x: mx.array) -> mx.array:
        return sigmoid(x)

    def gelu_tanh(self, at: str, x: mx.array) -> mx.array:
        return gelu_tanh(x)

    def delta_decay(self, at: str, a: mx.array, neg_a: mx.array, dt_bias: mx.array) -> mx.array:
        return settle(neg_a * softplus(settle(a + dt_bias)))

    def split(self, at: Sequence[str], x: mx.array, sizes: Sequence[int], heads: int = 1) -> list[mx.array]:
        cuts = np.cumsum(sizes)[:-1].tolist()
        parts = mx.split(x.reshape(x.shape[0], heads, -1), cuts, axis=-1)
        return [part.reshape(x.shape[0], -1) for part in parts]

    def route(self, at: str, logits: mx.array, top_k: int, normalise: bool) -> mx.array:
        p = softmax(logits)
        order = np.argsort(-np.array(p), axis=-1, kind="stable")[:, :top_k]  # the choice is the host's: no arithmetic
        chosen = mx.array(order.astype(np.int32))
        weight = mx.take_along_axis(p, chosen, axis=-1)
        if normalise:
            z = ZERO
            for j in range(top_k):
                z = z + weight[:, j : j + 1]
            weight = settle(weight / z)
        return mx.put_along_axis(mx.zeros_like(p), chosen, weight, axis=-1)

    def experts(self, at: str, x: mx.array, p: mx.array, weights: Sequence[tuple[Handle, Handle, Handle]]) -> mx.array:
        y = mx.zeros_like(x)
        share = np.array(p)
        for e, (gate, up, out) in enumerate(weights):
            chosen = np.flatnonzero(share[:, e])
            if len(chosen):
                rows = mx.array(chosen.astype(np.int32))
                some = x[rows]
                act = settle(silu(arm_linear(some, gate)) * arm_linear(some, up))
                y[rows] = settle(y[rows] + settle(p[rows, e][:, None] * arm_linear(act, out)))
        return y

    # --- primitives on the state of layer i -----------------------------------------------------------------
    def kv_append(self, at: str, k: mx.array, v: mx.array, rows: Rows, i: int, kv_heads: int) -> None:
        for span in rows.spans:
            shape = (span.stop - span.start, kv_heads, -1)
            new = stored("k", k[span.start : span.stop].reshape(shape), self.kv)
            new |= stored("v", v[span.start : span.stop].reshape(shape), self.kv)
            old: KV | None = span.state.cache(i)
            if old is not None:
                new = {name: mx.concatenate([old[name], array]) for name, array in new.items()}
            span.state.pending[i] = new

    def appended(self, rows: Rows, i: int) -> tuple[mx.array, mx.array]:
        caches: list[tuple[int, KV]] = [(span.state.length, span.state.cache(i)) for span in rows.spans]
        k, v = (mx.concatenate([read(name, cache, start) for start, cache in caches]) for name in ("k", "v"))
        return k.reshape(k.shape[0], -1), v.reshape(v.shape[0], -1)

    def scores(self, at: str, q: mx.array, rows: Rows, i: int, scale: float, window: int | None) -> list[mx.array]:
        out = []
        for span in rows.spans:
            k = read("k", span.state.cache(i))
            one = q[span.start : span.stop].reshape(span.stop - span.start, -1, k.shape[2])
            s = settle(query_key(one, k) * constant(np.float32(scale)))
            out.append(mx.where(self._seen(span, rows, window), s, ZERO))
        return out

    def exp_scores(self, at: str, s: list[mx.array], rows: Rows, window: int | None) -> list[mx.array]:
        spans = zip(s, rows.spans, strict=True)
        return [softmax_terms(x, self._seen(span, rows, window)) for x, span in spans]

    def denom(self, at: str, e: list[mx.array]) -> list[mx.array]:
        return [chunked_sum(mx.moveaxis(x, -1, 0)) for x in e]

    def mix(self, at: str, e: list[mx.array], denom: list[mx.array], rows: Rows, i: int) -> mx.array:
        spans = zip(e, denom, rows.spans, strict=True)
        parts = [mix(x, total, read("v", span.state.cache(i))) for x, total, span in spans]
        return mx.concatenate(parts).reshape(sum(len(part) for part in parts), -1)

    @staticmethod
    def _seen(span: Span, rows: Rows, window: int | None) -> mx.array:
        return mx.array(seen(rows.pos[span.start : span.stop], span.end, window))

    def causal_conv(self, at: str, x: mx.array, w: mx.array, rows: Rows, i: int) -> mx.array:
        parts = []
        for span in rows.spans:
            old = span.state.cache(i) or Recurrent(mx.zeros((w.shape[1] - 1, w.shape[0])))
            y, conv = causal_conv(x[span.start : span.stop], w, old.conv)
            span.state.pending[i] = Recurrent(conv, old.delta)
            parts.append(y)
        return mx.concatenate(parts)

    def delta_rule(
        self,
        at: str,
        q: mx.array,
        k: mx.array,
        v: mx.array,
        g: mx.array,
        beta: mx.array,
        rows: Rows,
        i: int,
        key_heads: int,
        value_heads: int,
    ) -> mx.array:
        n = v.shape[0]
        q, k = (mx.repeat(x.reshape(n, key_heads, -1), value_heads // key_heads, axis=1) for x in (q, k))
        values = v.reshape(n, value_heads, -1)
        parts = []
        for span in rows.spans:
            one = slice(span.start, span.stop)
            conv, old = span.state.cache(i)
            if old is None:
                old = mx.zeros((value_heads, q.shape[2], values.shape[2]))
            o, delta = delta_rule(q[one], k[one], values[one], g[one], beta[one], old)
            span.state.pending[i] = Recurrent(conv, delta)
            parts.append(o)
        return mx.concatenate(parts).reshape(n, -1)

    # --- caches: arrays never change, so a copy shares them -------------------------------------------------
    def new_cache(self, i: int) -> None:
        """There is nothing to hold before the first rows arrive."""

    def export_cache(self, state: State, i: int) -> dict[str, NDArray[Any]]:
        cache: KV | Recurrent | None = state.caches[i]
        if cache is None:
            return {}
        if isinstance(cache, Recurrent):
            return {f"rec.{name}": np.array(a) for name, a in cache._asdict().items() if a is not None}
        return {f"kv.{name}": np.array(array) for name, array in cache.items()}

    def load_cache(self, arrays: dict[str, NDArray[Any]]) -> KV | Recurrent:
        if "rec.conv" in arrays:
            delta = arrays.get("rec.delta")
            return Recurrent(mx.array(arrays["rec.conv"]), None if delta is None else mx.array(delta))
        return {name.removeprefix("kv."): mx.array(array) for name, array in arrays.items()}

    def copy_cache(self, state: State, i: int) -> KV | Recurrent | None:
        cache: KV | Recurrent | None = state.caches[i]
        return cache

    def truncate_cache(self, cache: KV, length: int) -> KV:
        kept = {name: array[:length] for name, array in cache.items()}
        mx.eval(list(kept.values()))  # in this thread: the next step may run in another one
        return kept

    def cache_nbytes(self, cache: KV | Recurrent | None) -> int:
        if cache is None:
            return 0
        arrays = [a for a in cache if a is not None] if isinstance(cache, Recurrent) else cache.values()
        return sum(a.nbytes for a in arrays)
