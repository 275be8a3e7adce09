"""The op table over the kernels of a GPU: what CUDA, ROCm and Metal share. How a kernel is called, where its result
lies and what a sequence carries is left to the two tables below this one (launch_pointers.py, mlx_metal_ops.py)."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_ops import HostOps, Table
from gnomon.gpu.host_pack import Packed, pack
from gnomon.gpu.host_state import FORMAT
from gnomon.gpu.kernel_table import CHUNK, QUERIES
from gnomon.gpu.launch import DeviceArray
from gnomon.gpu.launch_calls import CALLS, Given, Sizes
from gnomon.gpu.launch_probe import kernel_device
from gnomon.reference.device import Device
from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Rows, Span, Want
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen

F32 = NDArray[np.float32]
Shape = tuple[int, ...]
Arrays = Mapping[str, DeviceArray]
STATEFUL = ("kv_append", "attention", "causal_conv", "delta_rule")


class DeviceTable(Table):
    """A weight whose rows are read, on the device: in the form that `embed` or a convolution asks for."""

    def __init__(self, weight: Weight, upload: Callable[[NDArray[Any]], DeviceArray]) -> None:
        super().__init__(weight)
        self.upload = upload
        self.words: Packed | None = None
        self.taps: Any = None

    @property
    def packed(self) -> Packed:
        if self.words is None:
            self.words = on_device(pack(self.weight, "f32"), self.upload)
        return self.words

    @property
    def columns(self) -> Any:
        if self.taps is None:
            self.taps = self.upload(np.ascontiguousarray(widen(self.weight).T))
        return self.taps


def on_device(packed: Packed, upload: Callable[[NDArray[Any]], Any]) -> Packed:
    """The same weight with its words and scales on the device."""
    scale = None if packed.scale is None else upload(packed.scale)
    return replace(packed, words=upload(packed.words), scale=scale)


class LaunchOps(HostOps[DeviceArray]):
    """Every instruction is one call of a kernel or, for attention, three."""

    # --- what a device does in its own way --------------------------------------------------------------------------
    @abstractmethod
    def upload(self, values: NDArray[Any]) -> DeviceArray:
        """A copy of an array on the device."""

    @abstractmethod
    def fetch(self, x: DeviceArray, dtype: Any) -> NDArray[Any]:
        """A fresh copy on the host"""

    @abstractmethod
    def call(
        self,
        name: str,
        inputs: Arrays,
        outputs: Mapping[str, Shape | DeviceArray],
        sizes: Sizes,
        sequences: int = 1,
    ) -> list[DeviceArray]:
        """Launch a kernel: what it writes, in the order of `outputs`, which are shapes, or arrays to be written.

        sizes: scalars of the kernel by name, and what its number of tasks depends on
        """

    @abstractmethod
    def part(self, x: DeviceArray, start: int, stop: int) -> DeviceArray:
        """Rows start .. stop"""

    @abstractmethod
    def join(self, parts: Sequence[DeviceArray]) -> DeviceArray:
        """Rows of one after those of the other"""

    @abstractmethod
    def here(self, rows: Rows, tables: RopeTables | None) -> Arrays:
        """ids, positions, select [spans] of a step, and cos, sin where there are tables"""

    @abstractmethod
    def alone(self, cache: Any, length: int, rows: int) -> tuple[dict[str, DeviceArray], Sizes]:
        """k, v, capacity, start, stop and length of one sequence whose rows are 0 .. rows: arrays and sizes"""

    @abstractmethod
    def emit_state(self, op: str, inputs: Sequence[Any], given: Given, rows: Rows, layer: int, out: Any) -> DeviceArray:
        """One of STATEFUL; inputs, given: as in `emit`"""

    # --- border -----------------------------------------------------------------------------------------------------
    def pack(self, weight: Weight) -> Handle:
        if weight.role == "linear":
            return on_device(pack(weight, self.arm), self.upload)
        return DeviceTable(weight, self.upload) if weight.role == "table" else self.upload(widen(weight))

    def array(self, x: F32) -> DeviceArray:
        return self.upload(np.ascontiguousarray(x, np.float32))

    def numpy(self, x: DeviceArray) -> F32:
        return self.fetch(x, np.float32)

    def devices(self) -> tuple[Device, ...]:
        return (kernel_device(self),)

    def elementary(self) -> Mapping[str, Callable[[DeviceArray], DeviceArray]]:
        def named(op: str) -> Callable[[DeviceArray], DeviceArray]:
            return lambda x: self.elementwise(op, x.reshape(1, int(np.prod(x.shape)))).reshape(*x.shape)

        names = ("settle", "exp_neg", "sigmoid", "silu", "gelu_tanh", "softplus", "log1p01")
        return {name: named(name) for name in names} | {"chunked_sum": self.row_sum}

    def row_sum(self, x: DeviceArray) -> DeviceArray:
        """chunked_sum over the last axis"""
        n, shape = x.shape[-1], x.shape[:-1]
        return self.emit("row_sum", [x.reshape(int(np.prod(shape)), n)], 1, n=[n]).reshape(*shape)

    # --- instructions -----------------------------------------------------------------------------------------------
    def emit(
        self,
        op: str,
        inputs: Sequence[DeviceArray | None],
        width: int,
        *,
        n: Sequence[int] = (),
        f: Sequence[float] = (),
        weights: Sequence[Handle | None] = (),
        form: int = 0,
        rows: Rows | None = None,
        layer: int = 0,
        out: DeviceArray | None = None,
        tables: RopeTables | None = None,
    ) -> DeviceArray:
        first = inputs[0] if inputs else None
        count = first.shape[0] if first is not None else len(rows.ids) if rows is not None else 0
        if op == "gather":
            index = inputs[1] if len(inputs) > 1 else None
            count = index.shape[0] if index is not None else len(rows.spans) if rows is not None else 0

        def here() -> Arrays:
            assert rows is not None
            return self.here(rows, tables)

        given = Given(op, inputs, count, width, n, f, weights, form, here)
        if op in STATEFUL:
            assert rows is not None
            return self.emit_state(op, inputs, given, rows, layer, out)
        if op == "quant":
            q: Shape | DeviceArray = out or (count, width)
            return self.call("quant_rows", {"x": given.x}, {"q": q, "scale": given.y}, {"rows": count, "n": n[0]})[0]
        name, arrays, sizes = CALLS[op](given)
        return self.call(name, arrays, {"out": out or (count, width)}, {"rows": count, **sizes})[0]

    def swiglu(self, at: str, gate: DeviceArray, up: DeviceArray) -> DeviceArray:
        return self.elementwise("swiglu", gate, up)

    def gated_norm(
        self, at: str, o: DeviceArray, w: DeviceArray, z: DeviceArray, eps: float, groups: int
    ) -> DeviceArray:
        width = o.shape[1]
        return self.emit("gated_norm", [o, z], width, n=[width // groups, groups], f=[eps], weights=[w])

    def mul(self, at: str, x: DeviceArray, y: DeviceArray) -> DeviceArray:
        if y.shape == x.shape:
            return self.elementwise("mul", x, y)
        return self.emit("mul_rows", [x, y], x.shape[1], n=[0])  # one value per row

    def select(self, at: str, x: DeviceArray, rows: Rows, want: Want) -> DeviceArray:
        return x if want == "all" else self.emit("gather", [x], x.shape[1], rows=rows)

    def experts(
        self, at: str, x: DeviceArray, p: DeviceArray, weights: Sequence[tuple[Handle, Handle, Handle]]
    ) -> DeviceArray:
        """The rows that chose an expert are gathered for it; its results then take their places among all rows."""
        width, chosen = x.shape[1], self.numpy(p) != 0
        y = self.upload(np.zeros(x.shape, np.float32))
        for e, (gate, up, down) in enumerate(weights):
            rows = np.flatnonzero(chosen[:, e]).astype(np.int32)
            if not len(rows):
                continue
            index = self.upload(rows)
            some, share, sum_ = (self.emit("gather", [a, index], a.shape[1]) for a in (x, p, y))
            made = self.linear("", self.swiglu("", self.linear("", some, gate), self.linear("", some, up)), down)
            sum_ = self.add("", sum_, self.emit("mul_rows", [made, share], width, n=[e]))
            places = np.arange(x.shape[0], dtype=np.int32)
            places[rows] = x.shape[0] + np.arange(len(rows))
            y = self.emit("gather", [self.join([y, sum_]), self.upload(places)], width)
        return y

    # --- attention --------------------------------------------------------------------------------------------------
    def attention(
        self,
        at: str,
        q: DeviceArray,
        k: DeviceArray,
        v: DeviceArray,
        rows: Rows,
        i: int,
        kv_heads: int,
        scale: float,
        window: int | None,
    ) -> DeviceArray:
        self.kv_append("", k, v, rows, i, kv_heads)
        d = k.shape[1] // kv_heads
        n = [q.shape[1] // d, kv_heads, d, window or 0]
        return self.emit("attention", [q], q.shape[1], n=n, f=[scale], form=FORMAT[self.kv], rows=rows, layer=i)

    def attend(
        self,
        q: DeviceArray,
        carried: Arrays,
        sizes: Sizes,
        out: Shape | DeviceArray,
        room: Callable[[str, Shape], Shape | DeviceArray],
        sequences: int = 1,
    ) -> DeviceArray:
        """The three launches over some sequences. sizes: those of the kernels; room: where scratch of a shape lies"""
        parts = (sequences, sizes["tiles"], sizes["chunks"])
        inputs, blocks = {"q": q, **carried}, -(-sizes["d"] // 64)
        outputs = {"scores": room("scores", (*parts, QUERIES, CHUNK)), "most": room("most", (*parts, QUERIES))}
        scores, most = self.call(f"attention_scores_{self.kv}", inputs, outputs, sizes, sequences)
        outputs = {"sums": room("sums", (*parts, QUERIES)), "mixes": room("mixes", (*parts, blocks, QUERIES, 64))}
        partly = {**inputs, "scores": scores, "most": most}
        sums, mixes = self.call(f"attention_mix_{self.kv}", partly, outputs, sizes, sequences)
        merged = {**inputs, "sums": sums, "mixes": mixes}
        return self.call("attention_merge", merged, {"out": out}, sizes, sequences)[0]

    # --- the steps of attention, for taps -----------------------------------------------------------------------------
    def scores(
        self, at: str, q: DeviceArray, rows: Rows, i: int, scale: float, window: int | None
    ) -> list[DeviceArray]:
        out = []
        for span in rows.spans:
            cache, count = span.state.cache(i), span.stop - span.start
            heads = q.shape[1] // cache.d
            arrays, sizes = self.alone(cache, span.state.length, count)
            sizes |= attention_sizes(heads, cache.kv_heads, cache.d, window or 0, span.end, count) | {"scale": scale}
            one = self.part(q, span.start, span.stop)
            out += self.call(f"tap_scores_{self.kv}", {"q": one, **arrays}, {"out": (count, heads, span.end)}, sizes)
        return out

    def exp_scores(self, at: str, s: list[DeviceArray], rows: Rows, window: int | None) -> list[DeviceArray]:
        out = []
        for x, span in zip(s, rows.spans, strict=True):
            count, heads, T = x.shape
            sizes = {"rows": count, "heads": heads, "length": span.state.length, "window": window or 0, "T": T}
            out += self.call("tap_exp", {"s": x}, {"e": x.shape}, sizes)
        return out

    def denom(self, at: str, e: list[DeviceArray]) -> list[DeviceArray]:
        return [self.row_sum(x) for x in e]

    def mix(self, at: str, e: list[DeviceArray], denom: list[DeviceArray], rows: Rows, i: int) -> DeviceArray:
        parts: list[DeviceArray] = []
        for x, total, span in zip(e, denom, rows.spans, strict=True):
            cache, (count, heads, T) = span.state.cache(i), x.shape
            arrays, sizes = self.alone(cache, span.state.length, count)
            sizes |= {"rows": count, "heads": heads, "kv_heads": cache.kv_heads, "d": cache.d, "T": T}
            inputs = {"e": x, "denom": total, **arrays}
            parts += self.call(f"tap_mix_{self.kv}", inputs, {"out": (count, heads * cache.d)}, sizes)
        return parts[0] if len(parts) == 1 else self.join(parts)

    def appended(self, rows: Rows, i: int) -> tuple[DeviceArray, DeviceArray]:
        kept = [(s.state.cache(i).host(s.end), s) for s in rows.spans]
        k, v = (np.concatenate([c.read(name, s.state.length, s.end) for c, s in kept]) for name in ("k", "v"))
        return self.array(k.reshape(len(k), -1)), self.array(v.reshape(len(v), -1))


def attention_sizes(heads: int, kv_heads: int, d: int, window: int, end: int, rows: int) -> Sizes:
    """Of attention over up to `rows` rows of sequences that end at `end` at most"""
    tiles = kv_heads * -(-rows * (heads // kv_heads) // QUERIES)
    return {
        "heads": heads, "kv_heads": kv_heads, "d": d, "window": window, "chunks": -(-end // CHUNK), "tiles": tiles,
        "rows": rows,
    }  # fmt: skip


def step_arrays(rows: Rows, tables: RopeTables | None) -> dict[str, NDArray[Any]]:
    """What kernels read of a step, by name"""
    out: dict[str, NDArray[Any]] = {
        "ids": rows.ids, "positions": rows.pos.astype(np.int32),
        "select": np.array([span.stop - 1 for span in rows.spans], np.int32),
    }  # fmt: skip
    if tables is not None:
        rotation = tables.at(rows.pos)
        out |= {"cos": rotation.cos, "sin": rotation.sin}
    return out


def starts(spans: Sequence[Span]) -> dict[str, NDArray[np.int32]]:
    """start, stop and length of every sequence"""
    columns = np.array([(s.start, s.stop, s.state.length) for s in spans], np.int32).reshape(-1, 3).T
    return {name: np.ascontiguousarray(c) for name, c in zip(("start", "stop", "length"), columns, strict=True)}
