"""The host kernels one op at a time, on NumPy arrays: what taps, self-tests and grafts use."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.host_device import host_devices
from gnomon.gpu.host_library import OPS, Instruction, Step, Team
from gnomon.gpu.host_memory import aligned
from gnomon.gpu.host_ops import STEPS, HostOps, replaced
from gnomon.gpu.host_state import FORMAT, HostKV
from gnomon.gpu.host_step import HostStep, table_of
from gnomon.gpu.op import Op
from gnomon.reference.device import Device
from gnomon.reference.protocol import Arm, Handle, Rows, Span, Storage, Want

F32 = NDArray[np.float32]
OUT = 5  # index of the buffer that an instruction writes
STATEFUL = OPS[OPS.index("kv_append") :]
ATTENTION = OPS[OPS.index("kv_append") : OPS.index("causal_conv")]
PHASES = ("attention_scores", "attention_mix", "attention_merge")  # of fused attention, with a barrier between


def instruction(op: Op[Any], inputs: Sequence[int], out: int, layer: int = 0, selected: bool = False) -> Instruction:
    """inputs, out: indices of buffers, -1 for none; layer: among those that the step shows"""
    made = Instruction(op=OPS.index(op.name), format=op.form, layer=layer, selected=int(selected), last=1)
    made.buffer[:] = [*inputs, *(-1,) * (OUT - len(inputs)), out]
    made.n[: len(op.n)] = list(op.n)
    made.f[: len(op.f)] = list(op.f)
    for i, weight in enumerate(op.weights):
        made.weight[i] = None if weight is None else weight.ctypes.data
    return made


class HostArrayOps(HostOps[F32]):
    """Each instruction runs as it is emitted. team: the threads that run the kernels; the rest as in HostOps"""

    def __init__(self, team: Team, arm: Arm = "f32", kv: Storage = "f32", scratch_fill: float = 0.0) -> None:
        super().__init__(arm, kv, scratch_fill)
        self.team = team

    def devices(self) -> tuple[Device, ...]:
        return host_devices(self.team.built.library)

    def describe(self) -> dict[str, str]:
        built = self.team.built
        return {
            "arm": self.arm, "kv": self.kv, "threads": str(self.team.threads), "kernels": built.sources,
            "compiler": built.compiler.version, "flags": " ".join(built.flags), "target": built.compiler.target,
        }  # fmt: skip

    def with_forms(self, arm: str = "f32", kv: str = "f32") -> "HostArrayOps":
        return type(self)(self.team, cast(Arm, arm), cast(Storage, kv), self.scratch_fill)

    def elementary(self) -> Mapping[str, Callable[[F32], F32]]:
        def named(op: str) -> Callable[[F32], F32]:
            return lambda x: self.elementwise(op, x.reshape(1, -1)).reshape(x.shape)

        names = ("settle", "exp_neg", "sigmoid", "silu", "gelu_tanh", "softplus", "log1p01")
        return {name: named(name) for name in names} | {"chunked_sum": lambda t: self.row_sum(t)}

    def row_sum(self, x: F32) -> F32:
        """chunked_sum over the last axis"""
        flat = x.reshape(-1, x.shape[-1])
        return self.emit("row_sum", [flat], 1, n=[flat.shape[1]]).reshape(x.shape[:-1])

    def array(self, x: F32) -> F32:
        return np.ascontiguousarray(x, np.float32)

    def numpy(self, x: F32) -> F32:
        return np.array(x, np.float32, order="C")

    def finish(self, rows: Rows, results: Sequence[F32]) -> None:
        """Everything has run already."""

    def new_array(self, like: F32, width: int) -> F32:
        return cast(F32, aligned((len(like), width), np.float32))

    def carry_out(self, op: Op[F32]) -> F32:
        given = [None if x is None else np.ascontiguousarray(x, np.float32) for x in op.inputs]
        count = len(op.rows.ids) if op.rows is not None else next(len(x) for x in given if x is not None)
        out = op.out if op.out is not None else cast(F32, aligned((count, op.width), np.float32))
        made = instruction(op, [-1 if x is None else i for i, x in enumerate(given)], OUT)
        addresses = [0 if x is None else x.ctypes.data for x in given]
        buffers = np.array([*addresses, *(0,) * (OUT - len(given)), out.ctypes.data], np.uint64)
        if op.rows is None:
            work = count * op.n[0] * op.n[1] if op.name == "linear" else 0
            floats = self.team.built.library.scratch_floats(1, 64)
            step = Step(rows=count, selected=count, small=int(work < self.team.least), scratch_floats=floats)
        else:
            sizes = (op.n[1], op.n[0] // op.n[1], op.n[2]) if op.name in ATTENTION else (1, 1, 64)
            here = HostStep(self.team, op.rows, op.tables, "all", [op.layer] if op.name in STATEFUL else [], *sizes)
            step = here.struct
        step.buffers = table_of(buffers)
        self.team.run((Instruction * 1)(made), step)
        return out

    def mul(self, at: str, x: F32, y: F32) -> F32:
        return self.elementwise("mul", x, np.broadcast_to(y, x.shape))

    def select(self, at: str, x: F32, rows: Rows, want: Want) -> F32:
        return x if want == "all" else x[[span.stop - 1 for span in rows.spans]]

    def experts(self, at: str, x: F32, p: F32, weights: Sequence[tuple[Handle, Handle, Handle]]) -> F32:
        y = np.zeros_like(x)
        for e, (gate, up, down) in enumerate(weights):
            rows = np.flatnonzero(p[:, e])
            if len(rows):
                some = x[rows]
                act = self.swiglu("", self.linear("", some, gate), self.linear("", some, up))
                y[rows] = self.add("", y[rows], self.mul("", self.linear("", act, down), p[rows, e, None]))
        return y

    def attention(
        self, at: str, q: F32, k: F32, v: F32, rows: Rows, i: int, kv_heads: int, scale: float, window: int | None
    ) -> F32:
        """Fused, as in a plan. A table in which one of its steps was replaced composes it, so that the change shows."""
        if replaced(self, STEPS):
            return super().attention(at, q, k, v, rows, i, kv_heads, scale, window)
        self.kv_append("", k, v, rows, i, kv_heads)
        given, d = np.ascontiguousarray(q, np.float32), k.shape[1] // kv_heads
        n, out = [q.shape[1] // d, kv_heads, d, window or 0], cast(F32, aligned(q.shape, np.float32))
        here = HostStep(
            self.team, rows, None, "all", [i], kv_heads, n[0] // kv_heads, d, split=True, work=self.team.least
        )
        here.struct.buffers = table_of(np.array([given.ctypes.data, out.ctypes.data], np.uint64))
        ops = (Op(phase, [given], q.shape[1], n, [scale], (), FORMAT[self.kv], rows, i, out) for phase in PHASES)
        self.team.run((Instruction * len(PHASES))(*(instruction(op, [0], 1) for op in ops)), here.struct)
        return out

    # --- the steps of attention, for taps -------------------------------------------------------------------------
    def appended(self, rows: Rows, i: int) -> tuple[F32, F32]:
        caches: list[tuple[HostKV, int, int]] = [(s.state.cache(i), s.state.length, s.end) for s in rows.spans]
        k, v = (np.concatenate([cache.read(name, *at) for cache, *at in caches]) for name in ("k", "v"))
        return k.reshape(len(k), -1), v.reshape(len(v), -1)

    def scores(self, at: str, q: F32, rows: Rows, i: int, scale: float, window: int | None) -> list[F32]:
        out = []
        for span in rows.spans:
            cache: HostKV = span.state.cache(i)
            heads, one = q.shape[1] // cache.d, alone(rows, span)
            s = np.zeros((len(one.ids), heads, span.end), np.float32)
            n = [heads, cache.kv_heads, cache.d, window or 0]
            self.emit(
                "scores",
                [q[span.start : span.stop]],
                0,
                n=n,
                f=[scale],
                form=FORMAT[self.kv],
                rows=one,
                layer=i,
                out=s,
            )
            out.append(s)
        return out

    def exp_scores(self, at: str, s: list[F32], rows: Rows, window: int | None) -> list[F32]:
        out = []
        for x, span in zip(s, rows.spans, strict=True):
            n = [x.shape[1], 0, 0, window or 0, x.shape[2]]
            e = np.empty(x.shape, np.float32)
            out.append(self.emit("exp_scores", [x], 0, n=n, rows=alone(rows, span), out=e))
        return out

    def denom(self, at: str, e: list[F32]) -> list[F32]:
        return [self.row_sum(x) for x in e]

    def mix(self, at: str, e: list[F32], denom: list[F32], rows: Rows, i: int) -> F32:
        parts = []
        for x, total, span in zip(e, denom, rows.spans, strict=True):
            cache: HostKV = span.state.cache(i)
            n, width = [x.shape[1], cache.kv_heads, cache.d, 0], x.shape[1] * cache.d
            one = alone(rows, span)
            parts.append(self.emit("mix", [x, total], width, n=n, form=FORMAT[self.kv], rows=one, layer=i))
        return np.concatenate(parts)


def alone(rows: Rows, span: Span) -> Rows:
    """The rows of one sequence as a step by itself."""
    at = slice(span.start, span.stop)
    return Rows(rows.ids[at].copy(), rows.pos[at], (Span(span.state, 0, span.stop - span.start),))
