"""The engine on CUDA or ROCm: a step replays a plan whose launches were bound once; a tap, or a mixture of experts,
runs op by op. A step of one row per sequence is bound for all that look like it, and submitted as one where the device
can.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnomon.gpu.host_plan import Recorder, Sym, UnrecordedError, blank
from gnomon.gpu.launch import Block, DeviceArray, Launch
from gnomon.gpu.launch_pointers import Pieces, PointerOps, pieces
from gnomon.gpu.launch_table import STATEFUL, starts, step_arrays
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows, Tap, Want

KEPT = 32  # bound steps


class Planner(Recorder):
    """Records a wiring run for a device: attention is one instruction, which the table makes three launches of."""

    def attention(
        self, at: str, q: Sym, k: Sym, v: Sym, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> Sym:
        return self.attention_in_one(q, k, v, rows, i, kv_heads, scale, window)


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
        for op, _ in plan.recorder.emitted:
            if op.name in STATEFUL:
                arrays |= self.device.carried(rows, op.layer, op.name, cut)
        return arrays

    def _bind(self, plan: Plan, rows: Rows, want: Want, cut: Pieces, arrays: dict[str, Any], keep: bool) -> Bound:
        """The instructions of the plan as launches on buffers that stay; keep: for more steps than this."""
        ops, buffers = self.device, self._room(want, plan, len(rows.ids))
        block = Block(ops.driver, arrays)
        counts = {True: len(rows.spans) if want == "last" else len(rows.ids), False: len(rows.ids)}

        def place(sym: Sym) -> DeviceArray:
            return DeviceArray((counts[sym.selected], sym.width), buffers[sym.buffer].memory)

        while True:
            moved, ops.fixed, ops.cut, ops.recording = ops.moved, block, cut, []
            try:
                for op, out in plan.recorder.emitted:
                    inputs = [None if x is None else place(x) for x in op.inputs]
                    ops.carry_out(op.on(inputs, place(out), rows, self.tables))
                launches = ops.recording
            finally:
                ops.fixed = ops.cut = ops.recording = None
            if ops.moved == moved:  # scratch stayed where the first launches found it
                break
        submit = ops.driver.capture(launches) if keep else None
        return Bound(launches, submit, block, place(plan.result), ops.moved)

    def _room(self, want: Want, plan: Plan, rows: int) -> list[DeviceArray]:
        """Buffers for so many rows, kept between steps."""
        arena = self.arena.get(want)
        if arena is None or arena[0].shape[0] < rows:
            arena = self.arena[want] = [self.device.room((rows, width)) for width in plan.widths]
            self.bound = {key: bound for key, bound in self.bound.items() if key[0] != want}
        return arena

    def _record(self, want: Want) -> Plan | None:
        """One wiring run on symbols, or None where the family needs values."""
        recorder, rows = Planner(self.device), blank(self)
        try:
            result = self.family.wire(recorder, self.model.config, self.weights, self.tables, rows, want)
            return Plan(recorder, result, recorder.buffers(result))
        except UnrecordedError:
            return None
