"""The engine protocol: what a step is, which ops an engine must offer, and what a tap sees.

An engine is an op table (`Ops`), a state and the loop in `engine.py`. Arrays are the engine's own, f32 [rows, width];
NumPy crosses the border only at logits, tap and export, always as a fresh C-order copy that the receiver owns.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.device import Device
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.state import Cache, State
from gnomon.reference.token_ids import token_ids
from gnomon.reference.weights import Weight

A = TypeVar("A")
F32 = NDArray[np.float32]
Arm = Literal["f32", "bf16", "int8"]
Storage = Literal["f32", "bf16", "int8"]
Handle = Any  # what an op table makes of a weight in pack(); opaque to everyone else
Want = Literal["last", "all", "none"]


@dataclass(frozen=True)
class Span:
    """Rows [start, stop) of a step belong to `state` and stand at positions state.length, state.length + 1, ..."""

    state: State
    start: int
    stop: int

    @property
    def end(self) -> int:
        """Number of positions the state holds once this step is committed."""
        return self.state.length + self.stop - self.start


@dataclass(frozen=True)
class Rows:
    """One step: a ragged batch of consecutive rows. One sequence is a batch of one."""

    ids: NDArray[np.int32]  # [rows]
    pos: NDArray[np.int64]  # [rows] absolute positions
    spans: tuple[Span, ...]

    @staticmethod
    def of(batch: Sequence[tuple[State, Sequence[int]]]) -> "Rows":
        """Rows of (state, ids) pairs, in order; each state appears once. Raises UsageError for what is no id."""
        spans: list[Span] = []
        ids: list[int] = []
        pos: list[int] = []
        for state, given in batch:
            new = token_ids(given)
            spans.append(Span(state, len(ids), len(ids) + len(new)))
            ids.extend(new)
            pos.extend(range(state.length, state.length + len(new)))
        return Rows(np.array(ids, np.int32), np.array(pos, np.int64), tuple(spans))


class Tap(Protocol):
    """Receives intermediate tensors in execution order. In a batch of several sequences it is shown the last one's."""

    def wants(self, name: str) -> bool:
        """False: no copy, no synchronisation, and a fused path stays fused."""
        ...

    def __call__(self, name: str, value: F32, pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]) -> None:
        """value: f32 [len(pos), ...], owned by the receiver; inputs: names of the tensors the op read."""
        ...


class Ops(ABC, Generic[A]):
    """The op table of an engine. `at` names the result (see taps.py); "" names an inner result that no tap sees.

    Row-wise primitives never see a state, so a neighbour in the batch cannot matter. Composites are written here from
    primitives; that is their definition, and a fast engine overrides them with something that gives the same bytes.

    scratch_fill: what memory holds before it is written, 0 or NaN; it must never matter. A table that keeps no such
                  memory pays no heed to it
    """

    scratch_fill: float = 0.0

    # --- border -------------------------------------------------------------------------------------------------
    @abstractmethod
    def pack(self, weight: Weight) -> Handle:
        """Take over a weight, once, at load: widened and settled, in the form that its role asks for."""

    @abstractmethod
    def array(self, x: F32) -> A:
        """The engine's own array of these values; an engine in use gets its arrays from `embed` instead."""

    @abstractmethod
    def numpy(self, x: A) -> F32:
        """A fresh C-order copy."""

    def elementary(self) -> Mapping[str, Callable[[A], A]]:
        """The functions inside its ops, by their names in the contract, for self-tests: settle, exp_neg, sigmoid, silu,
        chunked_sum (over the last axis). What is not listed is reported as not run."""
        return {}

    def with_forms(self, arm: str = "f32", kv: str = "f32") -> "Ops[A] | None":
        """A fresh table of the same kind in another arm or kv storage; None where it has no such form."""
        return None

    def devices(self) -> Sequence[Device]:
        """The ways in which it computes, to be probed; the one that its own ops use first."""
        return ()

    def describe(self) -> dict[str, str]:
        """Settings and versions read back from what runs."""
        return {}

    @abstractmethod
    def new_cache(self, i: int) -> Cache:
        """The empty cache of layer i."""

    @abstractmethod
    def export_cache(self, state: State, i: int) -> dict[str, NDArray[Any]]:
        """Layer i of a state as copies in the stored type. Attention: "kv.k", "kv.v" [positions, kv_heads, d], and for
        int8 storage "kv.k_scale", "kv.v_scale" [positions, kv_heads]. Delta: "rec.conv" [taps - 1, C], "rec.delta"
        [value_heads, dk, dv]."""

    @abstractmethod
    def load_cache(self, arrays: dict[str, NDArray[Any]]) -> Cache:
        """The cache that `export_cache` would export as `arrays`, which are in C order and belong to it from now on."""

    @abstractmethod
    def copy_cache(self, state: State, i: int) -> Cache:
        """An independent copy of layer i."""

    @abstractmethod
    def truncate_cache(self, cache: Cache, length: int) -> Cache:
        """The first `length` positions of an attention cache."""

    @abstractmethod
    def cache_nbytes(self, cache: Cache) -> int:
        """Memory a cache holds."""

    @abstractmethod
    def finish(self, rows: Rows, results: Sequence[A]) -> None:
        """Wait until `results` and everything the step appended to the states of `rows` are computed."""

    # --- row-wise primitives ------------------------------------------------------------------------------------
    @abstractmethod
    def embed(self, at: str, rows: Rows, w: Handle) -> A:
        """[rows] ids -> [rows, width]"""

    @abstractmethod
    def embed_positions(self, at: str, rows: Rows, w: Handle) -> A:
        """The learned position of each row: [rows, width]"""

    @abstractmethod
    def select(self, at: str, x: A, rows: Rows, want: Want) -> A:
        """The rows whose logits are wanted: all of them, or the last of each span."""

    @abstractmethod
    def linear(self, at: str, x: A, w: Handle, b: Handle | None = None) -> A:
        """[rows, K] -> [rows, N]"""

    @abstractmethod
    def rms_norm(self, at: str, x: A, w: Handle, eps: float, groups: int = 1) -> A:
        """[rows, groups * n] -> the same shape; each group of n is normalised by itself, w is [n]"""

    @abstractmethod
    def layer_norm(self, at: str, x: A, w: Handle, b: Handle, eps: float) -> A:
        """[rows, n] -> the same shape"""

    @abstractmethod
    def l2_norm(self, at: str, x: A, groups: int, scale: float | None = None) -> A:
        """[rows, groups * n] -> the same shape, each group of unit length; settle(... * scale) if there is a scale"""

    @abstractmethod
    def rope(self, at: str, x: A, rows: Rows, heads: int, tables: RopeTables) -> A:
        """[rows, heads * d] -> the same shape"""

    @abstractmethod
    def add(self, at: str, x: A, y: A) -> A: ...

    @abstractmethod
    def mul(self, at: str, x: A, y: A) -> A: ...

    @abstractmethod
    def silu(self, at: str, x: A) -> A: ...

    @abstractmethod
    def sigmoid(self, at: str, x: A) -> A: ...

    @abstractmethod
    def gelu_tanh(self, at: str, x: A) -> A: ...

    @abstractmethod
    def delta_decay(self, at: str, a: A, neg_a: Handle, dt_bias: Handle) -> A:
        """settle(neg_a * softplus(settle(a + dt_bias))): [rows, value_heads]"""

    @abstractmethod
    def split(self, at: Sequence[str], x: A, sizes: Sequence[int], heads: int = 1) -> list[A]:
        """[rows, heads * sum(sizes)] -> one [rows, heads * size] per size; nothing is computed"""

    @abstractmethod
    def route(self, at: str, logits: A, top_k: int, normalise: bool) -> A:
        """Router logits [rows, experts] -> the weight of each expert, +0.0 where it is not chosen"""

    @abstractmethod
    def experts(self, at: str, x: A, p: A, weights: Sequence[tuple[Handle, Handle, Handle]]) -> A:
        """y = +0.0; for the experts chosen by a row, by id: y = settle(y + settle(p * mlp(x))): [rows, width].
        weights: gate, up and out of each expert"""

    # --- primitives on the state of layer i: append, then read --------------------------------------------------
    @abstractmethod
    def kv_append(self, at: str, k: A, v: A, rows: Rows, i: int, kv_heads: int) -> None:
        """k, v [rows, kv_heads * d] join the state of layer i at the positions of their rows."""

    @abstractmethod
    def appended(self, rows: Rows, i: int) -> tuple[A, A]:
        """k and v of this step's rows as the state of layer i now holds them: [rows, kv_heads * d] each"""

    @abstractmethod
    def scores(self, at: str, q: A, rows: Rows, i: int, scale: float, window: int | None) -> list[A]:
        """q [rows, heads * d] -> per span [rows of the span, heads, T], T = span.end; unseen positions hold +0.0"""

    @abstractmethod
    def exp_scores(self, at: str, s: list[A], rows: Rows, window: int | None) -> list[A]:
        """exp_neg(settle(s - max)) over the seen positions; unseen positions hold +0.0"""

    @abstractmethod
    def denom(self, at: str, e: list[A]) -> list[A]:
        """chunked sum of e over positions: per span [rows of the span, heads]"""

    @abstractmethod
    def mix(self, at: str, e: list[A], denom: list[A], rows: Rows, i: int) -> A:
        """The weighted mean of values: [rows, heads * d]"""

    @abstractmethod
    def causal_conv(self, at: str, x: A, w: Handle, rows: Rows, i: int) -> A:
        """[rows, C] through a convolution over the last rows of each sequence, then silu; w is [C, taps]"""

    @abstractmethod
    def delta_rule(
        self, at: str, q: A, k: A, v: A, g: A, beta: A, rows: Rows, i: int, key_heads: int, value_heads: int
    ) -> A:
        """q, k [rows, key_heads * dk], v [rows, value_heads * dv], g, beta [rows, value_heads] -> the shape of v"""

    # --- composites ---------------------------------------------------------------------------------------------
    def attention(
        self, at: str, q: A, k: A, v: A, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> A:
        """Append k and v, then let every row attend to the positions it sees. [rows, heads * d]"""
        self.kv_append(f"blocks.{i}.kv", k, v, rows, i, kv_heads)
        s = self.scores(f"{at}.scores", q, rows, i, scale, window)
        e = self.exp_scores(f"{at}.exp", s, rows, window)
        denom = self.denom(f"{at}.denom", e)
        return self.mix(f"{at}.z", e, denom, rows, i)

    def swiglu(self, at: str, gate: A, up: A) -> A:
        """mul(silu(gate), up)"""
        return self.mul(at, self.silu("", gate), up)

    def gated_norm(self, at: str, o: A, w: Handle, z: A, eps: float, groups: int) -> A:
        """mul(rms_norm(o), silu(z)), each group normalised by itself"""
        return self.mul(at, self.rms_norm("", o, w, eps, groups), self.silu("", z))
