"""Isolation: every op of the second engine gets the first engine's inputs, so each wrong op is listed with its own
error, apart from what it would have inherited. And runs in which only chosen ops come from the second engine."""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from gnomon.compare.diff import other_model, repeat_command
from gnomon.compare.graft import COMPOSITES, Arrays, GraftedOps
from gnomon.compare.lane import AnyEngine, Lane
from gnomon.compare.record import Config, Problem, Record, Tensor, WrongOp
from gnomon.compare.report import Report
from gnomon.compare.schedule import steps_of
from gnomon.compare.unwatched import run_unwatched
from gnomon.compare.verdict import judge
from gnomon.compare.where import NO_HEADS, Heads
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.own_code import guard
from gnomon.reference.protocol import Rows
from gnomon.reference.token_ids import token_ids, whole_number

OPS = (
    "embed", "embed_positions", "select", "linear", "rms_norm", "layer_norm", "l2_norm", "rope", "add", "mul", "silu",
    "sigmoid", "gelu_tanh", "delta_decay", "split", "route", "experts", "kv_append", "scores", "exp_scores", "denom",
    "mix", "causal_conv", "delta_rule", *COMPOSITES,
)  # fmt: skip
Progress = Callable[[int, int], None]


@dataclass
class Watcher:
    """Judges every op as it runs; keeps the records."""

    command: str
    heads: Heads = NO_HEADS
    step: int = 0
    start: int = 0
    stop: int = 0
    tensors: list[Tensor] = field(default_factory=list)
    wrong: dict[str, WrongOp] = field(default_factory=dict)

    def __call__(self, op: str, at: str, rows: Rows | None, home: Arrays, guest: Arrays) -> None:
        for part in home:
            self._judge(op, at or f"({op})", f".{part}" if len(home) > 1 and part else "", home[part], guest.get(part))

    def _judge(self, op: str, at: str, suffix: str, expected: NDArray[Any], observed: NDArray[Any] | None) -> None:
        name = readable(op, at, suffix)
        # An inner result may be all zeros, and integers or bf16 bits of a cache are not judged for life.
        found = judge(observed, expected, name, rule=None if at.startswith("blocks.") else "count", op=op,
                      heads=self.heads.in_row(at))  # fmt: skip
        pos = (self.start, self.stop)
        seen = (found.verdict, found.detail, found.observed, found.expected)
        self.tensors.append(Tensor(len(self.tensors), "op", self.step, name, pos, op, (), *seen))
        if found.verdict == "identical":
            return
        first = self.wrong.get(op)
        if first is None:
            self.wrong[op] = WrongOp(op, 1, self.step, name, pos, found.verdict, found.detail, found.mismatch)
        else:
            self.wrong[op] = first.again(found.verdict)


def isolate(
    engine_a: AnyEngine,
    engine_b: AnyEngine,
    ids: Sequence[int],
    steps: int = 4,
    progress: Progress | None = None,
    schedule: str = "whole",
) -> Report:
    """Run engine A greedily; run each op of engine B on A's inputs.

    The report lists each wrong op once, with the number of places where it was wrong and its first mismatch. A fused op
    of B is tried beside its steps. At last B runs the same tokens as a whole, watched and unwatched: what goes wrong
    only there lies between its ops, in a plan, a graph or a batch.
    Engines of other models are not compared: `not-run`. Raises UsageError for ids, steps or a schedule that cannot be
    run.
    """
    ids = token_ids(ids)
    whole_number("steps", steps)
    if not ids or steps < 0:
        raise UsageError(f"Expected token ids and steps of at least 0 but got {len(ids)} ids and steps={steps}")
    cut = () if schedule == "whole" else ("--schedule", schedule)
    command = repeat_command(engine_a, engine_b, ids, "--steps", str(steps), "--isolate", *cut)
    feed, done = steps_of(ids, schedule), 0
    total = len(feed) + steps
    config = Config(engine_a.describe(), engine_b.describe(), tuple(ids), steps, command, planned=total)
    problems = other_model(engine_a, engine_b)
    if problems:
        return Report.of([config, *problems])
    watcher = Watcher(command, Heads.of(engine_a.model.config))
    engine = grafted(engine_a, engine_b, (), watcher)
    lane, logits = Lane("expected", engine, schedule), list[str]()
    for done in range(total):
        watcher.step, watcher.start, watcher.stop = done, lane.state.length, lane.state.length + len(feed[done])
        lane.step(feed[done])
        if lane.error is not None:
            break  # the op that made it has its record
        logits.append(digest_of(lane))
        if len(feed) == done + 1:
            feed.append([lane.choice])
        if progress is not None:
            progress(done + 1, total)
    told: list[Record] = [*run_unwatched("observed", engine_b, feed[: done + 1], schedule)]
    if not watcher.wrong:
        told += between_ops(engine_b, feed, logits, schedule)
    records: list[Record] = [config, *watcher.tensors, *told, *watcher.wrong.values()]
    return Report.of(records, done + 1)


def between_ops(engine: AnyEngine, feed: Sequence[list[int]], logits: Sequence[str], schedule: str) -> list[Problem]:
    """The first step at which an engine whose ops are right by themselves gives other logits as a whole.

    logits: digests of what is expected of each step
    """
    lane = Lane("observed", engine, schedule)
    for step, expected in enumerate(logits):
        lane.step(feed[step])
        if digest_of(lane) != expected:
            message = (
                f"every op of engine {engine.name} is right on copies of its inputs, and the engine as a whole gives "
                "other logits: something passes between its ops, such as memory that an op writes into"
            )
            return [Problem(step, "observed", "differs", message)]
    return []


def digest_of(lane: Lane) -> str:
    """SHA-256 of the logits of the latest step, or why there are none."""
    return str(lane.error) if lane.logits is None else hashlib.sha256(lane.logits.tobytes()).hexdigest()


def grafted(
    engine_a: AnyEngine, engine_b: AnyEngine, chosen: Collection[str], watcher: Watcher | None = None
) -> AnyEngine:
    """Engine A with the chosen ops of engine B: names of ops, or of places ("blocks.0.mlp.gate").

    Raises UsageError for an op that there is not, and for engines of other models: B's ops would get A's numbers.
    """
    for problem in other_model(engine_a, engine_b):
        raise UsageError(problem.message)
    places = set(chosen)
    for name in places:
        if name not in OPS and "." not in name and name not in ("logits", "ln_final"):
            known = ", ".join(OPS)
            raise UsageError(f"Expected ops among {known} or places such as blocks.0.mlp.gate but got {name!r}")
    guard(engine_a)
    guard(engine_b)
    ops = GraftedOps(engine_a.ops, engine_b.ops, lambda op, at: op in places or at in places, watcher)
    return Engine(f"{engine_a.name}+{engine_b.name}[{','.join(sorted(places)) or '-'}]", engine_a.model, ops)


def readable(op: str, at: str, suffix: str) -> str:
    """The name of one result: "blocks.0.kv.k after kv_append" of a state array that an op has written, "(split) part 1"
    of a list. suffix: such as ".0.kv.k" (sequence, then array) or ".1" (part)"""
    number, _, array = suffix[1:].partition(".")
    if not array:
        return f"{at} part {number}" if number else at
    block = ".".join(at.split(".")[:2])
    return f"{block}.{array} after {op}" + (f", sequence {number}" if number != "0" else "")
