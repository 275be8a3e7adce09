"""Taps: an op table that shows every named result of another op table.

Names: `embed`, `blocks.{i}.ln1`, `blocks.{i}.attn.{q,k,v,gate,q_norm,k_norm,q_rot,k_rot,scores,exp,denom,z,gated,out}`,
`blocks.{i}.resid_mid`, `blocks.{i}.ln2`, `blocks.{i}.mlp.{gate,up,act,out}`, `blocks.{i}.resid_post`, `ln_final`,
`logits`; delta layers: `blocks.{i}.delta.{qkv,z,beta,decay,conv_out,v,q,k,o,gated,out}`; mixtures of experts:
`blocks.{i}.mlp.{router,probs,experts,out}`; and the state as it is appended, `blocks.{i}.kv.{k,v}`. The position is a
field of the record, never part of a name. `scores` and `exp` are [rows, heads, T]; every other tap is [rows, width].
Of a batch of several sequences the rows of the last one are shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import F32, Handle, Ops, Rows, Tap, Want
from gnomon.reference.state import Cache, State
from gnomon.reference.weights import Weight

A = TypeVar("A")
R = TypeVar("R")


class TappedOps(Ops[A]):
    """Delegates to `inner` and shows every named result. A composite stays whole, fused or not, unless the tap wants a
    name inside it; then it is composed here from primitives, and the bytes are the same by the contract."""

    def __init__(self, inner: Ops[A], tap: Tap, rows: Rows, weights: Mapping[str, Handle]) -> None:
        self.inner = inner
        self.tap = tap
        self.rows = rows
        self.pos = shown_pos(rows)  # of the rows in flight; `select` narrows it
        self.sources: dict[int, tuple[str, ...]] = {id(w): (name,) for name, w in weights.items()}
        self.alive: list[Any] = []  # an id stays unique only while its object lives

    def _show(self, at: str, op: str, result: R, *inputs: Any, also: tuple[str, ...] = ()) -> R:
        """Remember where `result` came from and show it, if it has a name and the tap wants it."""
        read: tuple[str, ...] = ()
        for x in inputs:
            read += self.sources.get(id(x), ())
        read += also
        self.alive.append(result)
        self.sources[id(result)] = (at,) if at else read
        if at and self.tap.wants(at):
            value: Any = result[-1] if isinstance(result, list) else result
            copy = self.inner.numpy(value)
            self.tap(at, last_rows(copy, len(self.pos)) if len(self.rows.spans) > 1 else copy, self.pos, op, read)
        return result

    def pack(self, weight: Weight) -> Handle:
        return self.inner.pack(weight)

    def array(self, x: F32) -> A:
        return self.inner.array(x)

    def numpy(self, x: A) -> F32:
        return self.inner.numpy(x)

    def new_cache(self, i: int) -> Cache:
        return self.inner.new_cache(i)

    def export_cache(self, state: State, i: int) -> dict[str, NDArray[Any]]:
        return self.inner.export_cache(state, i)

    def load_cache(self, arrays: dict[str, NDArray[Any]]) -> Cache:
        return self.inner.load_cache(arrays)

    def copy_cache(self, state: State, i: int) -> Cache:
        return self.inner.copy_cache(state, i)

    def truncate_cache(self, cache: Cache, length: int) -> Cache:
        return self.inner.truncate_cache(cache, length)

    def cache_nbytes(self, cache: Cache) -> int:
        return self.inner.cache_nbytes(cache)

    def finish(self, rows: Rows, results: Sequence[A]) -> None:
        self.inner.finish(rows, results)

    def embed(self, at: str, rows: Rows, w: Handle) -> A:
        return self._show(at, "embed", self.inner.embed(at, rows, w), w)

    def embed_positions(self, at: str, rows: Rows, w: Handle) -> A:
        return self._show(at, "embed_positions", self.inner.embed_positions(at, rows, w), w)

    def select(self, at: str, x: A, rows: Rows, want: Want) -> A:
        if want != "all":
            self.pos = self.pos[-1:]
        return self._show(at, "select", self.inner.select(at, x, rows, want), x)

    def linear(self, at: str, x: A, w: Handle, b: Handle | None = None) -> A:
        return self._show(at, "linear", self.inner.linear(at, x, w, b), x, w, b)

    def rms_norm(self, at: str, x: A, w: Handle, eps: float, groups: int = 1) -> A:
        return self._show(at, "rms_norm", self.inner.rms_norm(at, x, w, eps, groups), x, w)

    def layer_norm(self, at: str, x: A, w: Handle, b: Handle, eps: float) -> A:
        return self._show(at, "layer_norm", self.inner.layer_norm(at, x, w, b, eps), x, w, b)

    def l2_norm(self, at: str, x: A, groups: int, scale: float | None = None) -> A:
        return self._show(at, "l2_norm", self.inner.l2_norm(at, x, groups, scale), x)

    def rope(self, at: str, x: A, rows: Rows, heads: int, tables: RopeTables) -> A:
        return self._show(at, "rope", self.inner.rope(at, x, rows, heads, tables), x)

    def add(self, at: str, x: A, y: A) -> A:
        return self._show(at, "add", self.inner.add(at, x, y), x, y)

    def mul(self, at: str, x: A, y: A) -> A:
        return self._show(at, "mul", self.inner.mul(at, x, y), x, y)

    def silu(self, at: str, x: A) -> A:
        return self._show(at, "silu", self.inner.silu(at, x), x)

    def sigmoid(self, at: str, x: A) -> A:
        return self._show(at, "sigmoid", self.inner.sigmoid(at, x), x)

    def gelu_tanh(self, at: str, x: A) -> A:
        return self._show(at, "gelu_tanh", self.inner.gelu_tanh(at, x), x)

    def delta_decay(self, at: str, a: A, neg_a: Handle, dt_bias: Handle) -> A:
        return self._show(at, "delta_decay", self.inner.delta_decay(at, a, neg_a, dt_bias), a, neg_a, dt_bias)

    def split(self, at: Sequence[str], x: A, sizes: Sequence[int], heads: int = 1) -> list[A]:
        parts = self.inner.split(at, x, sizes, heads)
        return [self._show(name, "split", part, x) for name, part in zip(at, parts, strict=True)]

    def route(self, at: str, logits: A, top_k: int, normalise: bool) -> A:
        return self._show(at, "route", self.inner.route(at, logits, top_k, normalise), logits)

    def experts(self, at: str, x: A, p: A, weights: Sequence[tuple[Handle, Handle, Handle]]) -> A:
        read = (handle for expert in weights for handle in expert)
        return self._show(at, "experts", self.inner.experts(at, x, p, weights), x, p, *read)

    def kv_append(self, at: str, k: A, v: A, rows: Rows, i: int, kv_heads: int) -> None:
        self.inner.kv_append(at, k, v, rows, i, kv_heads)
        self._show_appended(at, k, v, rows, i)

    def _show_appended(self, at: str, k: A, v: A, rows: Rows, i: int) -> None:
        """What the state now holds, which is what every later read sees."""
        if self.tap.wants(f"{at}.k") or self.tap.wants(f"{at}.v"):
            stored_k, stored_v = self.inner.appended(rows, i)
            self._show(f"{at}.k", "kv_append", stored_k, k)
            self._show(f"{at}.v", "kv_append", stored_v, v)

    def appended(self, rows: Rows, i: int) -> tuple[A, A]:
        return self.inner.appended(rows, i)

    def scores(self, at: str, q: A, rows: Rows, i: int, scale: float, window: int | None) -> list[A]:
        s = self.inner.scores(at, q, rows, i, scale, window)
        return self._show(at, "scores", s, q, also=(f"blocks.{i}.kv.k",))

    def exp_scores(self, at: str, s: list[A], rows: Rows, window: int | None) -> list[A]:
        return self._show(at, "exp_scores", self.inner.exp_scores(at, s, rows, window), s)

    def denom(self, at: str, e: list[A]) -> list[A]:
        return self._show(at, "denom", self.inner.denom(at, e), e)

    def mix(self, at: str, e: list[A], denom: list[A], rows: Rows, i: int) -> A:
        return self._show(at, "mix", self.inner.mix(at, e, denom, rows, i), e, denom, also=(f"blocks.{i}.kv.v",))

    def causal_conv(self, at: str, x: A, w: Handle, rows: Rows, i: int) -> A:
        return self._show(at, "causal_conv", self.inner.causal_conv(at, x, w, rows, i), x, w)

    def delta_rule(
        self, at: str, q: A, k: A, v: A, g: A, beta: A, rows: Rows, i: int, key_heads: int, value_heads: int
    ) -> A:
        o = self.inner.delta_rule(at, q, k, v, g, beta, rows, i, key_heads, value_heads)
        return self._show(at, "delta_rule", o, q, k, v, g, beta)

    def gated_norm(self, at: str, o: A, w: Handle, z: A, eps: float, groups: int) -> A:
        return self._show(at, "gated_norm", self.inner.gated_norm(at, o, w, z, eps, groups), o, w, z)

    def attention(
        self, at: str, q: A, k: A, v: A, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> A:
        if any(self.tap.wants(f"{at}.{inner}") for inner in ("scores", "exp", "denom")):
            return super().attention(at, q, k, v, rows, i, kv_heads, scale, window)
        kv = f"blocks.{i}.kv"
        z = self.inner.attention(at, q, k, v, rows, i, kv_heads, scale, window)
        self._show_appended(kv, k, v, rows, i)
        return self._show(f"{at}.z", "attention", z, q, also=(f"{kv}.k", f"{kv}.v"))

    def swiglu(self, at: str, gate: A, up: A) -> A:
        return self._show(at, "swiglu", self.inner.swiglu(at, gate, up), gate, up)


def shown_pos(rows: Rows) -> NDArray[np.int64]:
    """The positions of the rows that a tap is shown: those of the last sequence of the step."""
    return rows.pos[rows.spans[-1].start :] if rows.spans else rows.pos


def last_rows(value: F32, count: int) -> F32:
    """The last `count` rows of a copy, as a copy of their own."""
    return value if len(value) == count else value[len(value) - count :].copy()
