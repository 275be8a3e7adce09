"""The host engine: a step replays a plan, unless a tap asks for what the plan does not store."""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_array_ops import HostArrayOps
from gnomon.gpu.host_memory import address, aligned
from gnomon.gpu.host_plan import Kept, Plan, Recorder, Shown, UnrecordedError, blank, kept_rows
from gnomon.gpu.host_step import HostStep, table_of
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows, Tap, Want
from gnomon.reference.taps import TappedOps, last_rows, shown_pos


class Room(NamedTuple):
    """The buffers of a plan after the first, which is the result; addresses: of all; table: the same as C reads it"""

    arrays: list[F32]
    addresses: NDArray[np.uint64]
    table: Any


class HostEngine(Engine[Any]):
    """Plans are recorded at the first step that needs them. A mixture of experts is not planned: which experts run
    depends on values, so its ops run one by one."""

    def __init__(self, name: str, model: Model, ops: HostArrayOps) -> None:
        super().__init__(name, model, ops)
        self.host = ops
        self.plans: dict[Want, Plan | None] = {}
        self.rooms: dict[Want, Room] = {}

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

    def finite(self, out: F32) -> bool:
        """As the kernels tell, which look where the values lie: a token's own cost is small beside NumPy's."""
        plain = out.dtype == np.float32 and out.flags.c_contiguous and out.flags.writeable and out.size
        return self.host.team.finite(out) if plain else super().finite(out)

    def _as_written(self) -> bool:
        """Whether the op table is the one that plans are recorded for. One that somebody wrapped or changed, as planted
        faults do, runs op by op, so that the change shows."""
        return (
            self.ops is self.host
            and type(self.host) is HostArrayOps
            and not any(map(callable, vars(self.host).values()))
        )

    def _replay(self, plan: Plan, rows: Rows, want: Want, shown: list[Shown], tap: Tap | None) -> F32:
        step = self._step(plan, rows, want)
        struct, done = step.struct, 0
        out = np.empty((struct.selected if plan.result.selected else len(rows.ids), plan.widths[0]), np.float32)
        room = self._room(want, plan, len(rows.ids))
        room.addresses[0], struct.buffers = address(out), room.table
        for s in shown:
            self.host.team.run(plan.instructions, struct, done, s.after + 1)
            done = s.after + 1
            assert tap is not None
            if isinstance(s.value, Kept):
                value, pos = kept_rows(rows, s.value), shown_pos(rows)
            else:
                one = s.value.selected and want == "last"  # a row a sequence
                whole, pos = out if s.value.buffer == 0 else room.arrays[s.value.buffer - 1], shown_pos(rows)
                value, pos = whole[: len(rows.spans) if one else len(rows.ids)].copy(), pos[-1:] if one else pos
            tap(s.name, last_rows(value, len(pos)), pos, s.op, s.inputs)
        self.host.team.run(plan.instructions, struct, done)
        return out

    def _step(self, plan: Plan, rows: Rows, want: Want) -> HostStep:
        """The step as the kernels see it. A sequence keeps its last one: most often only the row is new."""
        state, config = rows.spans[0].state, self.model.config
        last = state.memo
        if isinstance(last, HostStep) and len(rows.ids) == 1 and last.advance(rows, self.tables):
            return last
        for prepare in plan.prepare:
            prepare(rows)
        shape, work = (config.kv_heads, config.heads // config.kv_heads, config.head_dim), plan.work * len(rows.ids)
        step = HostStep(self.host.team, rows, self.tables, want, range(config.layers), *shape, split=True, work=work)
        state.memo = step if len(rows.ids) == 1 else None  # one of many rows never comes again
        return step

    def _room(self, want: Want, plan: Plan, rows: int) -> Room:
        """Buffers for so many rows, kept between steps."""
        kept = self.rooms.get(want)
        if kept is None or len(kept.arrays[0]) < rows:
            arrays = [cast(F32, aligned((rows, width), np.float32)) for width in plan.widths[1:]]
            for array in arrays:
                array.fill(self.host.scratch_fill)
            addresses = np.array([0, *(array.ctypes.data for array in arrays)], np.uint64)
            kept = self.rooms[want] = Room(arrays, addresses, table_of(addresses))
        return kept

    def _record(self, want: Want) -> Plan | None:
        """One wiring run on symbols, or None where the family needs values."""
        recorder, rows = Recorder(self.host), blank(self)
        ops: Any = TappedOps(recorder, recorder, rows, self.weights)
        try:
            return recorder.plan(self.family.wire(ops, self.model.config, self.weights, self.tables, rows, want))
        except UnrecordedError:
            return None
