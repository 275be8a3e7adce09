"""The op table in MLX array operations. MLX arrays never change once made, so a state only refers to them.

Everything is lazy until `finish` evaluates the logits together with all that the states keep: what outlives a step is
computed within it and in its thread, because an MLX stream belongs to one thread.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.mlx_math import (
    ZERO,
    chunked_sum,
    constant,
    exp_neg,
    matrix_dot,
    mix,
    pack_matrix,
    query_key,
    rms_norm,
    settle,
    sigmoid,
    silu,
    softmax_terms,
)
from gnomon.reference.ops.attention import seen
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Ops, Rows, Span, Want
from gnomon.reference.state import State
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

F32 = NDArray[np.float32]
Matrix = tuple[mx.array, ...]


class KV(NamedTuple):
    """One layer's keys (after rope) [d, kv_heads, T] and values [T, kv_heads, d]: the summed index comes first."""

    k: mx.array
    v: mx.array


class MlxArrayOps(Ops[mx.array]):
    """On the default device of MLX: Metal on Apple silicon, the CPU elsewhere."""

    # --- border ---------------------------------------------------------------------------------------------
    def pack(self, weight: Weight) -> Handle:
        w = widen(weight)
        return pack_matrix(w) if weight.role == "linear" else mx.array(w)

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
            "chunked_sum": lambda t: chunked_sum(mx.moveaxis(t, -1, 0)),
        }

    def describe(self) -> dict[str, str]:
        return {
            "mlx": version("mlx"),
            "device": str(mx.default_device()),
            "device_name": str(mx.device_info().get("device_name", "unknown")),
            "metal": "available" if mx.metal.is_available() else "not available",
        }

    def new_cache(self, i: int) -> KV | None:
        """There is nothing to hold before the first rows arrive."""
        return None

    def export_cache(self, state: State, i: int) -> dict[str, F32]:
        cache: KV | None = state.caches[i]
        if cache is None:
            return {}
        return {"kv.k": self.numpy(cache.k.transpose(2, 1, 0)), "kv.v": self.numpy(cache.v)}

    def finish(self, rows: Rows, results: Sequence[mx.array]) -> None:
        mx.eval(list(results), [list(span.state.pending.values()) for span in rows.spans])

    # --- row-wise primitives --------------------------------------------------------------------------------
    def embed(self, at: str, rows: Rows, w: mx.array) -> mx.array:
        return w[mx.array(rows.ids)]

    def select(self, at: str, x: mx.array, rows: Rows, want: Want) -> mx.array:
        return x if want == "all" else x[mx.array([span.stop - 1 for span in rows.spans])]

    def linear(self, at: str, x: mx.array, w: Matrix, b: mx.array | None = None) -> mx.array:
        y = settle(matrix_dot(x, w))
        return y if b is None else settle(y + b)

    def rms_norm(self, at: str, x: mx.array, w: mx.array, eps: float, groups: int = 1) -> mx.array:
        return rms_norm(x.reshape(x.shape[0], groups, -1), w, eps).reshape(x.shape)

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

    # --- primitives on the state of layer i -----------------------------------------------------------------
    def kv_append(self, at: str, k: mx.array, v: mx.array, rows: Rows, i: int, kv_heads: int) -> None:
        for span in rows.spans:
            new_k = k[span.start : span.stop].reshape(span.stop - span.start, kv_heads, -1)
            new = KV(new_k.transpose(2, 1, 0), v[span.start : span.stop].reshape(new_k.shape))
            old: KV | None = span.state.cache(i)
            if old is not None:
                new = KV(mx.concatenate([old.k, new.k], axis=2), mx.concatenate([old.v, new.v]))
            span.state.pending[i] = new

    def appended(self, rows: Rows, i: int) -> tuple[mx.array, mx.array]:
        caches: list[tuple[int, KV]] = [(span.state.length, span.state.cache(i)) for span in rows.spans]
        k = mx.concatenate([cache.k[:, :, start:].transpose(2, 1, 0) for start, cache in caches])
        v = mx.concatenate([cache.v[start:] for start, cache in caches])
        return k.reshape(k.shape[0], -1), v.reshape(v.shape[0], -1)

    def scores(self, at: str, q: mx.array, rows: Rows, i: int, scale: float, window: int | None) -> list[mx.array]:
        out = []
        for span in rows.spans:
            k = span.state.cache(i).k
            heads = q.shape[1] // k.shape[0]
            one = q[span.start : span.stop].reshape(-1, heads, k.shape[0])
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
        parts = [mix(x, total, span.state.cache(i).v) for x, total, span in spans]
        return mx.concatenate(parts).reshape(sum(len(part) for part in parts), -1)

    @staticmethod
    def _seen(span: Span, rows: Rows, window: int | None) -> mx.array:
        return mx.array(seen(rows.pos[span.start : span.stop], span.end, window))
