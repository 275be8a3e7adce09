"""The op table of the host kernels: every op becomes instructions. What an instruction does with its operands, running
at once or joining a plan, is left to `carry_out`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_memory import aligned
from gnomon.gpu.host_pack import Packed, pack
from gnomon.gpu.host_state import FORMAT, HostKV, Recurrent
from gnomon.gpu.op import Op
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Arm as ArmName
from gnomon.reference.protocol import Handle, Ops, Rows, Storage
from gnomon.reference.state import State
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

F32 = NDArray[np.float32]
STEPS = ("kv_append", "scores", "exp_scores", "denom", "mix")  # what attention is composed of


class Shaped(Protocol):
    """[rows, width], or something that stands for it"""

    @property
    def shape(self) -> tuple[int, ...]: ...


A = TypeVar("A", bound=Shaped)


class Table:
    """A weight whose rows are read: packed where `embed` reads it, [terms, rows] where a convolution does."""

    def __init__(self, weight: Weight) -> None:
        self.weight = weight
        self._packed: Packed | None = None
        self._columns: F32 | None = None

    @property
    def packed(self) -> Packed:
        if self._packed is None:
            self._packed = pack(self.weight, "f32")
        return self._packed

    @property
    def columns(self) -> F32:
        if self._columns is None:
            self._columns = np.ascontiguousarray(widen(self.weight).T)
        return self._columns


class HostOps(Ops[A]):
    """arm: the form of every linear; kv: how keys and values are stored; scratch_fill: what memory holds before it is
    written, which must never matter"""

    def __init__(self, arm: ArmName = "f32", kv: Storage = "f32", scratch_fill: float = 0.0) -> None:
        self.arm = arm
        self.kv = kv
        self.scratch_fill = scratch_fill

    @abstractmethod
    def carry_out(self, op: Op[A]) -> A:
        """Run an instruction at once, or let it join a plan."""

    def emit(
        self,
        name: str,
        inputs: Sequence[A | None],
        width: int,
        *,
        n: Sequence[int] = (),
        f: Sequence[float] = (),
        weights: Sequence[Handle | None] = (),
        form: int = 0,
        rows: Rows | None = None,
        layer: int = 0,
        out: A | None = None,
        tables: RopeTables | None = None,
    ) -> A:
        """The result of one instruction; the arguments are the fields of Op."""
        return self.carry_out(Op(name, inputs, width, n, f, weights, form, rows, layer, out, tables))

    # --- border ---------------------------------------------------------------------------------------------------
    def pack(self, weight: Weight) -> Handle:
        if weight.role == "linear":
            return pack(weight, self.arm)
        return Table(weight) if weight.role == "table" else np.ascontiguousarray(widen(weight))

    # --- row-wise primitives --------------------------------------------------------------------------------------
    def embed(self, at: str, rows: Rows, w: Table) -> A:
        return self.table_rows("embed", rows, w.packed)

    def embed_positions(self, at: str, rows: Rows, w: Table) -> A:
        return self.table_rows("embed_positions", rows, w.packed)

    def table_rows(self, op: str, rows: Rows, w: Packed) -> A:
        width = w.shape[1]
        return self.emit(op, [], width, n=[width], weights=[w.words], form=w.format, rows=rows)

    def linear(self, at: str, x: A, w: Packed, b: F32 | None = None) -> A:
        N, K = w.shape
        x, sx = self.activation(x)
        return self.emit("linear", [x, None, sx], N, n=[K, N], weights=[w.words, b, w.scale], form=w.format)

    def activation(self, x: A) -> tuple[A, A | None]:
        """Rows as the arm multiplies them: [rows, K], and for int8 the scale of each row [rows, 1]"""
        width = x.shape[1]
        if self.arm == "bf16":
            return self.emit("round_bf16", [x], width, n=[width]), None
        if self.arm == "int8":
            scale = self.new_array(x, 1)
            return self.emit("quant", [x, scale], width, n=[width]), scale
        return x, None

    @abstractmethod
    def new_array(self, like: A, width: int) -> A:
        """Room for [rows, width], as many rows as `like` has"""

    def rms_norm(self, at: str, x: A, w: F32, eps: float, groups: int = 1) -> A:
        width = x.shape[1]
        return self.emit("rms_norm", [x], width, n=[width // groups, groups], f=[eps], weights=[w])

    def layer_norm(self, at: str, x: A, w: F32, b: F32, eps: float) -> A:
        return self.emit("layer_norm", [x], x.shape[1], n=[x.shape[1]], f=[eps], weights=[w, b])

    def l2_norm(self, at: str, x: A, groups: int, scale: float | None = None) -> A:
        width = x.shape[1]
        return self.emit("l2_norm", [x], width, n=[width // groups, groups], f=[scale or 0.0])

    def rope(self, at: str, x: A, rows: Rows, heads: int, tables: RopeTables) -> A:
        d, half = x.shape[1] // heads, len(tables.inv_freq)
        return self.emit("rope", [x], x.shape[1], n=[d, heads, half], rows=rows, tables=tables)

    def elementwise(self, op: str, *inputs: A) -> A:
        return self.emit(op, inputs, inputs[0].shape[1], n=[inputs[0].shape[1]])

    def add(self, at: str, x: A, y: A) -> A:
        return self.elementwise("add", x, y)

    def mul(self, at: str, x: A, y: A) -> A:
        return self.elementwise("mul", x, y)

    def silu(self, at: str, x: A) -> A:
        return self.elementwise("silu", x)

    def sigmoid(self, at: str, x: A) -> A:
        return self.elementwise("sigmoid", x)

    def gelu_tanh(self, at: str, x: A) -> A:
        return self.elementwise("gelu_tanh", x)

    def delta_decay(self, at: str, a: A, neg_a: F32, dt_bias: F32) -> A:
        return self.emit("delta_decay", [a], a.shape[1], n=[a.shape[1]], weights=[neg_a, dt_bias])

    def split(self, at: Sequence[str], x: A, sizes: Sequence[int], heads: int = 1) -> list[A]:
        total, parts, offset = sum(sizes), [], 0
        for size in sizes:
            parts.append(self.emit("slice", [x], heads * size, n=[heads * size, total, offset, size]))
            offset += size
        return parts

    def swiglu(self, at: str, gate: A, up: A) -> A:
        if replaced(self, ("silu", "mul")):
            return super().swiglu(at, gate, up)
        return self.elementwise("swiglu", gate, up)

    def gated_norm(self, at: str, o: A, w: F32, z: A, eps: float, groups: int) -> A:
        if replaced(self, ("rms_norm", "silu", "mul")):
            return super().gated_norm(at, o, w, z, eps, groups)
        width = o.shape[1]
        return self.emit("gated_norm", [o, z], width, n=[width // groups, groups], f=[eps], weights=[w])

    def route(self, at: str, logits: A, top_k: int, normalise: bool) -> A:
        experts = logits.shape[1]
        return self.emit("route", [logits], experts, n=[experts, top_k, int(normalise)])

    # --- on the state of layer i ------------------------------------------------------------------------------------
    def kv_append(self, at: str, k: A, v: A, rows: Rows, i: int, kv_heads: int) -> None:
        d = k.shape[1] // kv_heads
        self.prepare_kv(rows, i, kv_heads, d)
        self.emit("kv_append", [k, v], 0, n=[kv_heads, kv_heads, d, 0], form=FORMAT[self.kv], rows=rows, layer=i)

    def prepare_kv(self, rows: Rows, i: int, kv_heads: int, d: int) -> None:
        """Room for the keys and values of this step."""
        for span in rows.spans:
            old: HostKV | None = span.state.cache(i)
            kept = HostKV(self.kv, kv_heads, d, span.end, self.scratch_fill) if old is None else old
            span.state.pending[i] = kept.grown(span.end, self.scratch_fill)

    def attention_in_one(
        self, q: A, k: A, v: A, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> A:
        """Append, then one instruction, for tables that have it whole."""
        self.kv_append("", k, v, rows, i, kv_heads)
        d = k.shape[1] // kv_heads
        n = [q.shape[1] // d, kv_heads, d, window or 0]
        return self.emit("attention", [q], q.shape[1], n=n, f=[scale], form=FORMAT[self.kv], rows=rows, layer=i)

    def causal_conv(self, at: str, x: A, w: Table, rows: Rows, i: int) -> A:
        taps, channels = w.columns.shape
        self.prepare_conv(rows, i, taps, channels)
        return self.emit("causal_conv", [x], channels, n=[channels, taps], weights=[w.columns], rows=rows, layer=i)

    def prepare_conv(self, rows: Rows, i: int, taps: int, channels: int) -> None:
        for span in rows.spans:
            old: Recurrent | None = span.state.caches[i]
            span.state.pending[i] = Recurrent(aligned((taps - 1, channels), np.float32), old.delta if old else None)

    def delta_rule(
        self, at: str, q: A, k: A, v: A, g: A, beta: A, rows: Rows, i: int, key_heads: int, value_heads: int
    ) -> A:
        dk, dv = q.shape[1] // key_heads, v.shape[1] // value_heads
        self.prepare_delta(rows, i, value_heads, dk, dv)
        sizes = [key_heads, value_heads, dk, dv]
        return self.emit("delta_rule", [q, k, v, g, beta], v.shape[1], n=sizes, rows=rows, layer=i)

    def prepare_delta(self, rows: Rows, i: int, value_heads: int, dk: int, dv: int) -> None:
        for span in rows.spans:
            span.state.pending[i] = Recurrent(span.state.cache(i).conv, aligned((value_heads, dk, dv), np.float32))

    # --- caches -----------------------------------------------------------------------------------------------------
    def new_cache(self, i: int) -> None:
        """Memory is taken when the first rows arrive."""

    def export_cache(self, state: State, i: int) -> dict[str, NDArray[Any]]:
        cache: HostKV | Recurrent | None = state.caches[i]
        if cache is None:
            return {}
        if isinstance(cache, Recurrent):
            return {f"rec.{name}": np.array(a, order="C") for name, a in cache._asdict().items() if a is not None}
        return {f"kv.{name}": array for name, array in cache.arrays(0, state.length).items()}

    def load_cache(self, arrays: dict[str, NDArray[Any]]) -> HostKV | Recurrent:
        if "rec.conv" in arrays:
            delta = arrays.get("rec.delta")
            return Recurrent(arrays["rec.conv"].copy(), None if delta is None else delta.copy())
        return HostKV.of(self.kv, {name.removeprefix("kv."): array for name, array in arrays.items()})

    def copy_cache(self, state: State, i: int) -> HostKV | Recurrent | None:
        cache: HostKV | Recurrent | None = state.caches[i]
        return cache.copy(state.length) if isinstance(cache, HostKV) else cache  # a step replaces a recurrent state

    def truncate_cache(self, cache: HostKV, length: int) -> HostKV:
        return cache  # what lies past the length is scratch

    def cache_nbytes(self, cache: HostKV | Recurrent | None) -> int:
        if cache is None:
            return 0
        return cache.nbytes if isinstance(cache, HostKV) else sum(a.nbytes for a in cache if a is not None)


def replaced(table: Ops[Any], steps: Sequence[str]) -> bool:
    """Whether somebody put a step of a composite in place of the table's own: then the composite is composed of its
    steps, so that the change shows."""
    own = vars(table)
    return any(step in own or not getattr(type(table), step).__module__.startswith("gnomon.") for step in steps)
