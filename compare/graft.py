"""Two op tables under one wiring: every op can run on both with the same inputs, and either result can go on.

The home table carries the run. Before an op runs on the guest, its inputs are handed over as NumPy copies, and a cache
that it reads or extends as an exported one, so that the guest inherits nothing of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import F32, Handle, Ops, Rows, Span, Want
from gnomon.reference.state import Cache, State
from gnomon.reference.weights import Weight

AnyOps = Ops[Any]
Arrays = dict[str, NDArray[Any]]
Watch = Callable[[str, str, Rows | None, Arrays, Arrays], None]  # op, at, rows, home and guest results by name
Call = Callable[[AnyOps, int, Callable[[Any], Any]], Any]  # table, side, conversion of inputs -> the result
Choose = Callable[[str, str], bool]  # op, at -> the guest's result goes on
COMPOSITES = ("attention", "swiglu", "gated_norm")  # written from primitives; a fast table has them in one piece


class Handles(tuple[Handle, Handle]):
    """One weight as the home and the guest table hold it."""


class GraftedOps(AnyOps):
    """home: the table whose arrays go through the wiring; guest: the one that is tried

    choose: which ops the guest decides; watch: sees the results of both sides, or None: the guest runs where chosen
    """

    def __init__(self, home: AnyOps, guest: AnyOps, choose: Choose, watch: Watch | None = None) -> None:
        self.home, self.guest = home, guest
        self.choose, self.watch = choose, watch

    # --- border -----------------------------------------------------------------------------------------------------
    def pack(self, weight: Weight) -> Handle:
        return Handles((self.home.pack(weight), self.guest.pack(weight)))

    def array(self, x: F32) -> Any:
        return self.home.array(x)

    def numpy(self, x: Any) -> F32:
        return self.home.numpy(x)

    def describe(self) -> dict[str, str]:
        return self.home.describe()

    def finish(self, rows: Rows, results: Sequence[Any]) -> None:
        self.home.finish(rows, results)

    def new_cache(self, i: int) -> Cache:
        return self.home.new_cache(i)

    def export_cache(self, state: State, i: int) -> Arrays:
        return self.home.export_cache(state, i)

    def load_cache(self, arrays: Arrays) -> Cache:
        return self.home.load_cache(arrays)

    def copy_cache(self, state: State, i: int) -> Cache:
        return self.home.copy_cache(state, i)

    def truncate_cache(self, cache: Cache, length: int) -> Cache:
        return self.home.truncate_cache(cache, length)

    def cache_nbytes(self, cache: Cache) -> int:
        return self.home.cache_nbytes(cache)

    # --- an op on both sides ----------------------------------------------------------------------------------------
    def _both(self, op: str, at: str, rows: Rows | None, call: Call) -> Any:
        """call(table, side, convert): the op on one table; side picks its weights, convert its inputs."""
        chosen = self.choose(op, at)
        home = None if chosen and self.watch is None else call(self.home, 0, lambda x: x)
        if not chosen and self.watch is None:
            return home
        guest = self._out(call(self.guest, 1, self._in))
        if self.watch is not None:
            self.watch(op, at, rows, named(self._out_of(self.home, home)), named(guest))
        return self._back(guest) if chosen else home

    def _in(self, x: Any) -> Any:
        if isinstance(x, list):
            return [self._in(part) for part in x]
        return self.guest.array(self.home.numpy(x))

    def _out(self, x: Any) -> Any:
        return self._out_of(self.guest, x)

    def _out_of(self, table: AnyOps, x: Any) -> Any:
        return [self._out_of(table, part) for part in x] if isinstance(x, list) else table.numpy(x)

    def _back(self, x: Any) -> Any:
        return [self._back(part) for part in x] if isinstance(x, list) else self.home.array(x)

    # --- row-wise primitives ----------------------------------------------------------------------------------------
    def embed(self, at: str, rows: Rows, w: Handle) -> Any:
        return self._both("embed", at, rows, lambda t, side, _: t.embed(at, rows, w[side]))

    def embed_positions(self, at: str, rows: Rows, w: Handle) -> Any:
        return self._both("embed_positions", at, rows, lambda t, side, _: t.embed_positions(at, rows, w[side]))

    def select(self, at: str, x: Any, rows: Rows, want: Want) -> Any:
        return self._both("select", at, rows, lambda t, _, to: t.select(at, to(x), rows, want))

    def linear(self, at: str, x: Any, w: Handle, b: Handle | None = None) -> Any:
        return self._both("linear", at, None, lambda t, side, to: t.linear(at, to(x), w[side], b and b[side]))

    def rms_norm(self, at: str, x: Any, w: Handle, eps: float, groups: int = 1) -> Any:
        return self._both("rms_norm", at, None, lambda t, side, to: t.rms_norm(at, to(x), w[side], eps, groups))

    def layer_norm(self, at: str, x: Any, w: Handle, b: Handle, eps: float) -> Any:
        return self._both("layer_norm", at, None, lambda t, side, to: t.layer_norm(at, to(x), w[side], b[side], eps))

    def l2_norm(self, at: str, x: Any, groups: int, scale: float | None = None) -> Any:
        return self._both("l2_norm", at, None, lambda t, _, to: t.l2_norm(at, to(x), groups, scale))

    def rope(self, at: str, x: Any, rows: Rows, heads: int, tables: RopeTables) -> Any:
        return self._both("rope", at, rows, lambda t, _, to: t.rope(at, to(x), rows, heads, tables))

    def add(self, at: str, x: Any, y: Any) -> Any:
        return self._both("add", at, None, lambda t, _, to: t.add(at, to(x), to(y)))

    def mul(self, at: str, x: Any, y: Any) -> Any:
        return self._both("mul", at, None, lambda t, _, to: t.mul(at, to(x), to(y)))

    def silu(self, at: str, x: Any) -> Any:
        return self._both("silu", at, None, lambda t, _, to: t.silu(at, to(x)))

    def sigmoid(self, at: str, x: Any) -> Any:
        return self._both("sigmoid", at, None, lambda t, _, to: t.sigmoid(at, to(x)))

    def gelu_tanh(self, at: str, x: Any) -> Any:
        return self._both("gelu_tanh", at, None, lambda t, _, to: t.gelu_tanh(at, to(x)))

    def delta_decay(self, at: str, a: Any, neg_a: Handle, dt_bias: Handle) -> Any:
        return self._both(
            "delta_decay", at, None, lambda t, side, to: t.delta_decay(at, to(a), neg_a[side], dt_bias[side])
        )

    def split(self, at: Sequence[str], x: Any, sizes: Sequence[int], heads: int = 1) -> list[Any]:
        parts: list[Any] = self._both("split", "", None, lambda t, _, to: t.split(at, to(x), sizes, heads))
        return parts

    def route(self, at: str, logits: Any, top_k: int, normalise: bool) -> Any:
        return self._both("route", at, None, lambda t, _, to: t.route(at, to(logits), top_k, normalise))

    def experts(self, at: str, x: Any, p: Any, weights: Sequence[tuple[Handle, Handle, Handle]]) -> Any:
        def call(t: AnyOps, side: int, to: Callable[[Any], Any]) -> Any:
            return t.experts(at, to(x), to(p), [(g[side], u[side], o[side]) for g, u, o in weights])

        return self._both("experts", at, None, call)

    # --- composites: composed here on the home side; the guest runs its own, if it has it in one piece ---------------
    def attention(
        self, at: str, q: Any, k: Any, v: Any, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> Any:
        composed = super().attention
        if not fused(self.guest, "attention"):
            return composed(at, q, k, v, rows, i, kv_heads, scale, window)

        def call(t: AnyOps, side: int, to: Callable[[Any], Any], own: Rows) -> Any:
            attend = composed if side == 0 else t.attention
            return attend(at, to(q), to(k), to(v), own, i, kv_heads, scale, window)

        return self._on_state("attention", f"{at}.z", rows, i, call)

    def swiglu(self, at: str, gate: Any, up: Any) -> Any:
        composed = super().swiglu
        if not fused(self.guest, "swiglu"):
            return composed(at, gate, up)
        return self._both(
            "swiglu", at, None, lambda t, side, to: (t.swiglu if side else composed)(at, to(gate), to(up))
        )

    def gated_norm(self, at: str, o: Any, w: Handle, z: Any, eps: float, groups: int) -> Any:
        composed = super().gated_norm
        if not fused(self.guest, "gated_norm"):
            return composed(at, o, w, z, eps, groups)
        return self._both(
            "gated_norm",
            at,
            None,
            lambda t, side, to: (
                t.gated_norm(at, to(o), w[1], to(z), eps, groups) if side else composed(at, o, w, z, eps, groups)
            ),
        )

    # --- primitives on the state of layer i -------------------------------------------------------------------------
    def scores(self, at: str, q: Any, rows: Rows, i: int, scale: float, window: int | None) -> list[Any]:
        def call(t: AnyOps, side: int, to: Callable[[Any], Any]) -> Any:
            return t.scores(at, to(q), self._rows(rows, i, side, appended=True), i, scale, window)

        parts: list[Any] = self._both("scores", at, rows, call)
        return parts

    def exp_scores(self, at: str, s: list[Any], rows: Rows, window: int | None) -> list[Any]:
        parts: list[Any] = self._both("exp_scores", at, rows, lambda t, _, to: t.exp_scores(at, to(s), rows, window))
        return parts

    def denom(self, at: str, e: list[Any]) -> list[Any]:
        parts: list[Any] = self._both("denom", at, None, lambda t, _, to: t.denom(at, to(e)))
        return parts

    def mix(self, at: str, e: list[Any], denom: list[Any], rows: Rows, i: int) -> Any:
        def call(t: AnyOps, side: int, to: Callable[[Any], Any]) -> Any:
            return t.mix(at, to(e), to(denom), self._rows(rows, i, side, appended=True), i)

        return self._both("mix", at, rows, call)

    def kv_append(self, at: str, k: Any, v: Any, rows: Rows, i: int, kv_heads: int) -> None:
        self._on_state("kv_append", at, rows, i, lambda t, _, to, own: t.kv_append(at, to(k), to(v), own, i, kv_heads))

    def appended(self, rows: Rows, i: int) -> tuple[Any, Any]:
        return self.home.appended(rows, i)

    def causal_conv(self, at: str, x: Any, w: Handle, rows: Rows, i: int) -> Any:
        return self._on_state(
            "causal_conv", at, rows, i, lambda t, side, to, own: t.causal_conv(at, to(x), w[side], own, i)
        )

    def delta_rule(
        self, at: str, q: Any, k: Any, v: Any, g: Any, beta: Any, rows: Rows, i: int, key_heads: int, value_heads: int
    ) -> Any:
        def call(t: AnyOps, _: int, to: Callable[[Any], Any], own: Rows) -> Any:
            return t.delta_rule(at, to(q), to(k), to(v), to(g), to(beta), own, i, key_heads, value_heads)

        return self._on_state("delta_rule", at, rows, i, call)

    def _on_state(
        self, op: str, at: str, rows: Rows, i: int, call: Callable[[AnyOps, int, Callable[[Any], Any], Rows], Any]
    ) -> Any:
        """An op that changes the state of layer i: its result and the layer afterwards are both compared."""
        guest_rows = self._rows(rows, i, 1, appended=False)
        chosen = self.choose(op, at)
        home = None if chosen and self.watch is None else call(self.home, 0, lambda x: x, rows)
        if not chosen and self.watch is None:
            return home
        guest = call(self.guest, 1, self._in, guest_rows)
        pairs = list(zip(rows.spans, guest_rows.spans, strict=True))
        after = [
            ({} if self.watch is None else self._layer(self.home, a, i), self._layer(self.guest, b, i))
            for a, b in pairs
        ]
        if self.watch is not None:
            both: tuple[Arrays, Arrays] = ({}, {})
            if home is not None:
                both[0][""], both[1][""] = self.home.numpy(home), self.guest.numpy(guest)
            for number, sides in enumerate(after):
                for side in (0, 1):
                    both[side].update({f"{number}.{name}": array for name, array in sides[side].items()})
            self.watch(op, at, rows, *both)
        if not chosen:
            return home
        for (span, _), (_, layer) in zip(pairs, after, strict=True):
            span.state.pending[i] = self.home.load_cache(layer)
        return None if guest is None else self.home.array(self.guest.numpy(guest))

    def _rows(self, rows: Rows, i: int, side: int, appended: bool) -> Rows:
        """The rows as the guest sees them: states that hold what the home states hold in layer i."""
        if side == 0:
            return rows
        spans = []
        for span in rows.spans:
            state = State(None, [None] * (i + 1))
            layer = self._layer(self.home, span, i, length=span.end if appended else span.state.length)
            if layer:
                state.caches[i] = self.guest.load_cache(layer)
            state.length = span.state.length
            spans.append(Span(state, span.start, span.stop))
        return Rows(rows.ids, rows.pos, tuple(spans))

    @staticmethod
    def _layer(table: AnyOps, span: Span, i: int, length: int | None = None) -> Arrays:
        """Layer i of a state as the step in flight sees it, exported."""
        view = State(None, [span.state.cache(j) if j == i else None for j in range(i + 1)])
        view.length = span.end if length is None else length
        return table.export_cache(view, i)


def fused(table: AnyOps, name: str) -> bool:
    """Whether a table has a composite of its own, not the one that is composed of primitives."""
    return name in vars(table) or getattr(type(table), name) is not getattr(Ops, name)


def named(x: Any) -> Arrays:
    """Results by name: one array is "", the parts of a list are numbered."""
    return {str(n): part for n, part in enumerate(x)} if isinstance(x, list) else {"": x}
