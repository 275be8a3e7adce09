"""The engine on CUDA or ROCm: a step replays a plan whose launches were bound once; a tap, or a mixture of experts,
runs op by op. A step of one row per sequence is bound for all that look like it, and submitted as one where the device
can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.gpu.host_plan import Emitted, Recorder, Sym, UnrecordedError
from gnomon.gpu.host_state import FORMAT
from gnomon.gpu.launch import Block, DeviceArray, Launch
from gnomon.gpu.launch_ops import starts, step_arrays
from gnomon.gpu.launch_pointers import Pieces, PointerOps, pieces
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows, Span, Tap, Want
from gnomon.reference.state import State

KEPT = 32  # bound steps


class Planner(Recorder):
    """Records a wiring run for a device: attention is one instruction, which the table makes three launches of."""

    def attention(
        self, at: str, q: Sym, k: Sym, v: Sym, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> Sym:
        self.kv_append("", k, v, rows, i, kv_heads)
        d = k.shape[1] // kv_heads
        n = [q.shape[1] // d, kv_heads, d, window or 0]
        return self.emit("attention", [q], q.width, n=n, f=[scale], form=FORMAT[self.kv], rows=rows, layer=i)

    def lay_out(self, result: Sym) -> list[int]:
        """Widths of the buffers that the recorded instructions live in; `result` has the first for itself."""
        for i, e in enumerate(self.emitted):
            for sym in (*e.inputs, e.out):
                if sym is not None:
                    sym.made = i if sym.made < 0 else sym.made
                    sym.used = i
        self._check()
        return self._buffers(result)


@dataclass(frozen=True)
class Plan:
    """widths: of every buffer; the first is the result's"""

    recorder: Planner
    result: Sym
    widths: list[int]


@dataclass(frozen=True)
class Bound:
    """Launches on fixed memory. submit: all of them at once, where the device can; moved: see PointerOps"""

    launches: list[Launch]
    submit: Callable[[], None] | None
    block: Block
    out: DeviceArray
    moved: int


class LaunchEngine(Engine[Any]):
    """name: as in gnomon.engine(name, model); ops: whose driver the launches go to"""

    def __init__(self, name: str, model: Model, ops: PointerOps) -> None:
        super().__init__(name, model, ops)
        self.device = ops
        self.plans: dict[Want, Plan | None] = {}
        self.arena: dict[Want, list[DeviceArray]] = {}
        self.bound: dict[tuple[Want, int, int], Bound] = {}

    def run(self, rows: Rows, want: Want, tap: Tap | None) -> F32:
        if tap is not None or not self._as_written():
            return super().run(rows, want, tap)
        if want not in self.plans:
            self.plans[want] = self._record(want)
        plan = self.plans[want]
        return super().run(rows, want, tap) if plan is None else self._replay(plan, rows, want)

    def _as_written(self) -> bool:
        """Whether the op table is the one that plans are recorded for, not one that somebody wrapped or changed."""
        ops = self.device
        return self.ops is ops and type(ops) is PointerOps and not any(map(callable, vars(ops).values()))

    def _replay(self, plan: Plan, rows: Rows, want: Want) -> F32:
        config = self.model.config
        for prepare in plan.recorder.prepare:
            prepare(rows)
        single = all(span.stop - span.start == 1 for span in rows.spans)
        cut = pieces(rows, config.heads, config.head_dim)
        if single:  # the same launches for every step up to the next power of two
            cut = pieces(rows, config.heads, config.head_dim, 1 << (cut.chunks - 1).bit_length())
        arrays = self._small(plan, rows, cut)
        key = (want, len(rows.ids), cut.chunks)
        bound = self.bound.get(key) if single else None
        if bound is None or bound.moved != self.device.moved:
            bound = self._bind(plan, rows, want, cut, arrays, single)
            if single:
                self.bound.pop(key, None)
                if len(self.bound) >= KEPT:
                    self.bound.pop(next(iter(self.bound)))
                self.bound[key] = bound
        else:
            bound.block.update(arrays)
        if bound.submit is not None:
            bound.submit()
        else:
            for one in bound.launches:
                self.device.driver.launch(one)
        return self.device.numpy(bound.out)

    def _small(self, plan: Plan, rows: Rows, cut: Pieces) -> dict[str, Any]:
        """The small arrays of the step, those of all layers among them"""
        arrays: dict[str, Any] = {**step_arrays(rows, self.tables), **starts(rows.spans), **cut.arrays()}
        for e in plan.recorder.emitted:
            if e.op in ("kv_append", "attention", "causal_conv", "delta_rule"):
                arrays |= self.device.carried(rows, e.layer, e.op, cut)
        return arrays

    def _bind(self, plan: Plan, rows: Rows, want: Want, cut: Pieces, arrays: dict[str, Any], keep: bool) -> Bound:
        """The instructions of the plan as launches on buffers that stay; keep: for more steps than this."""
        ops, buffers = self.device, self._room(want, plan, len(rows.ids))
        block = Block(ops.driver, arrays)
        counts = {True: len(rows.spans) if want == "last" else len(rows.ids), False: len(rows.ids)}

        def array(sym: Sym | None) -> DeviceArray | None:
            if sym is None:
                return None
            return DeviceArray((counts[sym.selected], sym.width), buffers[sym.buffer].memory)

        while True:
            moved, ops.fixed, ops.cut, ops.recording = ops.moved, block, cut, []
            try:
                for e in plan.recorder.emitted:
                    self._emit(e, array, rows)
                launches = ops.recording
            finally:
                ops.fixed = ops.cut = ops.recording = None
            if ops.moved == moved:  # scratch stayed where the first launches found it
                break
        out = array(plan.result)
        assert out is not None
        return Bound(launches, ops.driver.capture(launches) if keep else None, block, out, ops.moved)

    def _emit(self, e: Emitted, array: Callable[[Sym | None], DeviceArray | None], rows: Rows) -> None:
        self.device.emit(
            e.op, [array(x) for x in e.inputs], e.out.width, n=e.n, f=e.f, weights=e.weights, form=e.form, rows=rows,
            layer=e.layer, out=array(e.out), tables=self.tables,
        )  # fmt: skip

    def _room(self, want: Want, plan: Plan, rows: int) -> list[DeviceArray]:
        """Buffers for so many rows, kept between steps."""
        arena = self.arena.get(want)
        if arena is None or arena[0].shape[0] < rows:
            arena = self.arena[want] = [self.device.room((rows, width)) for width in plan.widths]
            self.bound = {key: bound for key, bound in self.bound.items() if key[0] != want}
        return arena

    def _record(self, want: Want) -> Plan | None:
        """One wiring run on symbols, or None where the family needs values."""
        recorder = Planner(self.device)
        state = State(self, [None] * self.model.config.layers)
        rows = Rows(np.zeros(1, np.int32), np.zeros(1, np.int64), (Span(state, 0, 1),))
        try:
            result = self.family.wire(recorder, self.model.config, self.weights, self.tables, rows, want)
            return Plan(recorder, result, recorder.lay_out(result))
        except UnrecordedError:
            return None
