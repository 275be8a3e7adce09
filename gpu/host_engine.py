"""The host engine: a step replays a plan, unless a tap asks for what the plan does not store."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_array_ops import HostArrayOps
from gnomon.gpu.host_pack import aligned
from gnomon.gpu.host_plan import Kept, Plan, Recorder, Shown, UnrecordedError, blank, kept_rows
from gnomon.gpu.host_step import HostStep, bind
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows, Tap, Want
from gnomon.reference.taps import TappedOps


class HostEngine(Engine[Any]):
    """Plans are recorded at the first step that needs them. A mixture of experts is not planned: which experts run
    depends on values, so its ops run one by one."""

    def __init__(self, name: str, model: Model, ops: HostArrayOps) -> None:
        super().__init__(name, model, ops)
        self.host = ops
        self.plans: dict[Want, Plan | None] = {}
        self.arena: dict[Want, list[NDArray[np.float32]]] = {}

    def run(self, rows: Rows, want: Want, tap: Tap | None) -> F32:
        if not self._as_written():
            return super().run(rows, want, tap)
        if want not in self.plans:
            self.plans[want] = self._record(want)
        plan = self.plans[want]
        if plan is None:
            return super().run(rows, want, tap)
        shown: list[Shown] = []
        if tap is not None:
            shown = [s for s in plan.shown if tap.wants(s.name)]
            if len(shown) < sum(tap.wants(name) for name in plan.names):  # more than the plan stores
                return super().run(rows, want, tap)
        return self._replay(plan, rows, want, shown, tap)

    def _as_written(self) -> bool:
        """Whether the op table is the one that plans are recorded for. One that somebody wrapped or changed, as planted
        faults do, runs op by op, so that the change shows."""
        return (
            self.ops is self.host
            and type(self.host) is HostArrayOps
            and not any(map(callable, vars(self.host).values()))
        )

    def _replay(self, plan: Plan, rows: Rows, want: Want, shown: list[Shown], tap: Tap | None) -> F32:
        config = self.model.config
        for prepare in plan.prepare:
            prepare(rows)
        group = config.heads // config.kv_heads
        layers = range(config.layers)
        shape, work = (config.kv_heads, group, config.head_dim), plan.work * len(rows.ids)
        step = HostStep(self.host.team, rows, self.tables, want, layers, *shape, split=True, work=work)
        count = step.struct.selected if plan.result.selected else len(rows.ids)
        out = cast(F32, aligned((count, plan.widths[0]), np.float32))
        arena = self._room(want, plan, len(rows.ids))
        buffers = np.array([out.ctypes.data, *(b.ctypes.data for b in arena)], np.uint64)
        struct, done = bind(step.struct, buffers), 0
        for s in shown:
            self.host.team.run(plan.instructions, struct, done, s.after + 1)
            done = s.after + 1
            assert tap is not None
            if isinstance(s.value, Kept):
                tap(s.name, kept_rows(rows, s.value), rows.pos, s.op, s.inputs)
            else:
                pos = rows.pos[step.select] if s.value.selected and want == "last" else rows.pos
                whole = out if s.value.buffer == 0 else arena[s.value.buffer - 1]
                tap(s.name, whole[: len(pos)].copy(), pos, s.op, s.inputs)
        self.host.team.run(plan.instructions, struct, done)
        return out

    def _room(self, want: Want, plan: Plan, rows: int) -> list[NDArray[np.float32]]:
        """Buffers for so many rows, kept between steps."""
        arena = self.arena.get(want)
        if arena is None or len(arena[0]) < rows:
            arena = [cast(F32, aligned((rows, width), np.float32)) for width in plan.widths[1:]]
            for room in arena:
                room.fill(self.host.scratch_fill)
            self.arena[want] = arena
        return arena

    def _record(self, want: Want) -> Plan | None:
        """One wiring run on symbols, or None where the family needs values."""
        recorder, rows = Recorder(self.host), blank(self)
        ops: Any = TappedOps(recorder, recorder, rows, self.weights)
        try:
            return recorder.plan(self.family.wire(ops, self.model.config, self.weights, self.tables, rows, want))
        except UnrecordedError:
            return None
