"""A plan: the instructions of one wiring run, recorded once and replayed for every step without Python in between.

Recording hands the family symbols instead of arrays. Buffers are shared out by lifetime; instructions that do not
depend on each other form one pool of tasks; an addition to a linear's result is done where the linear stores it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_array_ops import OUT, PHASES, instruction
from gnomon.gpu.host_library import OPS, Instruction
from gnomon.gpu.host_ops import HostOps
from gnomon.gpu.host_state import FORMAT, HostKV
from gnomon.gpu.op import Op
from gnomon.reference.engine import Engine
from gnomon.reference.protocol import F32, Rows, Span, Want
from gnomon.reference.state import State

Prepare = Callable[[Rows], None]
POOL = 64  # instructions that one dispatch takes, as in kernels/host_pool.h


class UnrecordedError(Exception):
    """The family uses an op that depends on values and so cannot be planned."""


@dataclass(eq=False)
class Sym:
    """A result to come: [rows, width]; selected: only the rows whose logits are wanted

    used: the last instruction that touches it; buffer: where it lives
    """

    width: int
    selected: bool = False
    used: int = -1
    buffer: int = -1

    @property
    def shape(self) -> tuple[int, int]:
        return (0, self.width)


@dataclass(eq=False)
class Kept:
    """What a layer appended in this step, as a tap sees it."""

    layer: int
    name: str


class Emitted(NamedTuple):
    """An instruction before its buffers are known, and its result."""

    op: Op[Sym]
    out: Sym


@dataclass
class Shown:
    """A result that a tap may ask for, once instruction `after` has run."""

    name: str
    value: "Sym | Kept"
    op: str
    inputs: tuple[str, ...]
    after: int


@dataclass
class Plan:
    """instructions: as C reads them; widths: of every buffer; result: lives in buffer 0; shown: what is stored and has
    a name; names: all that the wiring names, stored or not; prepare: makes room in the states; work: multiply-adds
    of a row in its linears"""

    instructions: "Any"
    widths: list[int]
    result: Sym
    shown: list[Shown]
    names: set[str]
    prepare: list[Prepare]
    work: int
    alive: list[Any] = field(default_factory=list)  # what the instructions point to


class Recorder(HostOps[Sym]):
    """The op table that turns a wiring run into a plan; `ops` is the table it records for."""

    def __init__(self, ops: HostOps[Any]) -> None:
        super().__init__(ops.arm, ops.kv, ops.scratch_fill)
        self.emitted: list[Emitted] = []
        self.prepare: list[Prepare] = []
        self.shown: list[Shown] = []
        self.names: set[str] = set()
        self.rounded: dict[Sym, tuple[Sym, Sym | None]] = {}
        self.real = ops

    def carry_out(self, op: Op[Sym]) -> Sym:
        selected = op.name == "gather" or any(x is not None and x.selected for x in op.inputs)
        out = op.out or Sym(op.width, selected)
        self.emitted.append(Emitted(op, out))
        return out

    # --- composites in one piece ------------------------------------------------------------------------------------
    def attention(
        self, at: str, q: Sym, k: Sym, v: Sym, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> Sym:
        self.kv_append("", k, v, rows, i, kv_heads)
        d = k.shape[1] // kv_heads
        out = Sym(q.width, q.selected)
        for phase in PHASES:
            self.emit(
                phase, [q], q.width, n=[q.shape[1] // d, kv_heads, d, window or 0], f=[scale], form=FORMAT[self.kv],
                rows=rows, layer=i, out=out,
            )  # fmt: skip
        return out

    # --- what recording does in its own way -----------------------------------------------------------------------
    def add(self, at: str, x: Sym, y: Sym) -> Sym:
        """Into the linear that made y, where that was the last thing recorded: its store adds x, the same addition."""
        op, out = self.emitted[-1]
        if op.name != "linear" or out is not y or op.inputs[1] is not None or x.selected != y.selected:
            return super().add(at, x, y)
        rows, _, scale = op.inputs
        fused = Emitted(replace(op, inputs=[rows, x, scale]), Sym(y.width, y.selected))
        self.emitted[-1] = fused
        return fused.out

    def activation(self, x: Sym) -> tuple[Sym, Sym | None]:
        """Once for all linears that read the same rows."""
        if x not in self.rounded:
            self.rounded[x] = super().activation(x)
        return self.rounded[x]

    def new_array(self, like: Sym, width: int) -> Sym:
        return Sym(width, like.selected)

    def select(self, at: str, x: Sym, rows: Rows, want: Want) -> Sym:
        return x if want == "all" else self.emit("gather", [x], x.width, n=[x.width])

    def appended(self, rows: Rows, i: int) -> tuple[Any, Any]:
        return Kept(i, "k"), Kept(i, "v")

    def prepare_kv(self, rows: Rows, i: int, kv_heads: int, d: int) -> None:
        self.prepare.append(lambda rows: self.real.prepare_kv(rows, i, kv_heads, d))

    def prepare_conv(self, rows: Rows, i: int, taps: int, channels: int) -> None:
        self.prepare.append(lambda rows: self.real.prepare_conv(rows, i, taps, channels))

    def prepare_delta(self, rows: Rows, i: int, value_heads: int, dk: int, dv: int) -> None:
        self.prepare.append(lambda rows: self.real.prepare_delta(rows, i, value_heads, dk, dv))

    def unrecorded(self, *args: Any, **more: Any) -> NoReturn:
        raise UnrecordedError

    array = experts = unrecorded
    scores = exp_scores = denom = mix = unrecorded  # inside attention, which is recorded whole

    def numpy(self, x: Sym) -> Any:
        """The symbol itself: see `wants`"""
        return x

    def finish(self, rows: Rows, results: Sequence[Sym]) -> None:
        """Nothing has run."""

    # --- as a tap of its own wiring run: which results have names ---------------------------------------------------
    def wants(self, name: str) -> bool:
        self.names.add(name)
        return name.rpartition(".")[2] not in ("scores", "exp", "denom")

    def __call__(self, name: str, value: Any, pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]) -> None:
        self.shown.append(Shown(name, value, op, inputs, len(self.emitted) - 1))

    # --- from symbols to a plan -----------------------------------------------------------------------------------
    def plan(self, result: Sym) -> Plan:
        """result: what the family returned; it keeps a buffer of its own, index 0"""
        widths = self.buffers(result)
        made = (Instruction * len(self.emitted))()
        for i, (op, out) in enumerate(self.emitted):
            where = [-1 if x is None else x.buffer for x in op.inputs]
            made[i] = instruction(op, where, out.buffer, op.layer, out.selected)
        self._pools(made)
        written = {out for _, out in self.emitted}
        work = sum(op.n[0] * op.n[1] for op, out in self.emitted if op.name == "linear" and not out.selected)
        shown = [s for s in self.shown if isinstance(s.value, Kept) or s.value in written]
        alive = [op.weights for op, _ in self.emitted]
        return Plan(made, widths, result, shown, self.names, self.prepare, work, alive)

    def _check(self) -> None:
        """Raises UnrecordedError where an instruction reads what none has written: a result that was fused away."""
        written = set[Sym | None]()
        for op, out in self.emitted:
            written |= {out, op.inputs[1]} if op.name == "quant" else {out}
            if any(x is not None and x not in written for x in op.inputs):
                raise UnrecordedError

    def buffers(self, result: Sym) -> list[int]:
        """Widths of the buffers. Every symbol gets one, which is taken again once its last reader has run; `result` has
        the first for itself."""
        self._check()
        for i, (op, out) in enumerate(self.emitted):
            for sym in (*op.inputs, out):
                if sym is not None:
                    sym.used = i
        widths, free, ends = [result.width], dict[int, list[int]](), dict[int, list[Sym]]()
        result.buffer = 0
        for i, (op, out) in enumerate(self.emitted):
            for sym in (*op.inputs, out):
                if sym is not None and sym.buffer < 0:
                    spare = free.get(sym.width)
                    if spare:
                        sym.buffer = spare.pop(0)
                    else:
                        sym.buffer = len(widths)
                        widths.append(sym.width)
                    ends.setdefault(sym.used, []).append(sym)
            for sym in ends.pop(i, ()):
                free.setdefault(sym.width, []).append(sym.buffer)
        return widths

    def _pools(self, made: "Any") -> None:
        """`last` stays on an instruction only where the next one depends on it or on one of its pool."""
        read, written, stateful, size = set[int](), set[int](), False, 0
        first = OPS.index("kv_append")
        for i in range(len(made)):
            ins = {b for b in made[i].buffer[:OUT] if b >= 0}
            if made[i].op == OPS.index("quant"):
                out = {made[i].buffer[1], made[i].buffer[OUT]}
            else:
                out = {made[i].buffer[OUT]}
            touches = made[i].op >= first
            clash = ins & written or out & (read | written) or (touches and stateful)
            if i and not clash and size < POOL:
                made[i - 1].last, size = 0, size + 1
            else:
                read, written, stateful, size = set(), set(), False, 1
            read, written, stateful = read | ins, written | out, stateful or touches


def blank(engine: Engine[Any]) -> Rows:
    """One row of an empty state, for a wiring run on symbols."""
    state = State(engine, [None] * engine.model.config.layers)
    return Rows(np.zeros(1, np.int32), np.zeros(1, np.int64), (Span(state, 0, 1),))


def kept_rows(rows: Rows, kept: Kept) -> F32:
    """[rows, kv_heads * d] as the states now hold them"""
    parts = []
    for span in rows.spans:
        cache: HostKV = span.state.cache(kept.layer)
        parts.append(cache.read(kept.name, span.state.length, span.end))
    whole = np.concatenate(parts)
    return whole.reshape(len(whole), -1)
