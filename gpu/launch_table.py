"""The row-wise half of the op table over the kernels of a GPU, which CUDA, ROCm and Metal share. How a kernel is called
and where its result lies is left to the tables below (launch_pointers.py, mlx_metal_ops.py)."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_ops import HostOps, Table
from gnomon.gpu.host_pack import Packed, pack
from gnomon.gpu.launch import DeviceArray
from gnomon.gpu.launch_calls import CALLS, Given, Sizes
from gnomon.gpu.launch_probe import kernel_device
from gnomon.gpu.op import Op
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


class LaunchTable(HostOps[DeviceArray]):
    """Every instruction is one call of a kernel."""

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
    def emit_state(self, given: Given) -> DeviceArray:
        """One of STATEFUL"""

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
    def carry_out(self, op: Op[DeviceArray]) -> DeviceArray:
        rows = op.rows
        count = op.inputs[0].shape[0] if op.inputs and op.inputs[0] is not None else len(rows.ids) if rows else 0
        if op.name == "gather":
            index = op.inputs[1] if len(op.inputs) > 1 else None
            count = index.shape[0] if index is not None else len(rows.spans) if rows else 0

        def here() -> Arrays:
            assert rows is not None
            return self.here(rows, op.tables)

        given, shape = Given(op, count, here), op.out or (count, op.width)
        if op.name in STATEFUL:
            return self.emit_state(given)
        if op.name == "quant":
            outputs = {"q": shape, "scale": given.y}
            return self.call("quant_rows", {"x": given.x}, outputs, {"rows": count, "n": op.n[0]})[0]
        name, arrays, sizes = CALLS[op.name](given)
        return self.call(name, arrays, {"out": shape}, {"rows": count, **sizes})[0]

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
