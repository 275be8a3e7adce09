"""Walks: the same steps on a sound and on a mutated engine, every tensor kept, to see which is the first that differs.

A walk makes engines of a subject and lets them run; `watched` shows each step of theirs to a log, also a step of
several sequences, which no tap can be put on.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.decode.text import Request
from gnomon.gates.faults.breaking import put
from gnomon.gates.gate import AnyEngine, Subject
from gnomon.gates.plain import plain
from gnomon.gates.speculative import Guesses
from gnomon.reference.errors import GnomonError
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows, Tap
from gnomon.reference.taps import TappedOps

Place = tuple[int, int]  # position, sequence of the step


@dataclass(frozen=True)
class Seen:
    """One tensor: its name, and the place and bytes of each row."""

    name: str
    rows: tuple[tuple[Place, bytes], ...]


Log = list[Seen]
Walk = Callable[[Subject, Model, list[int], Log], None]


class Everything:
    def wants(self, name: str) -> bool:
        return True

    def __call__(self, name: str, value: F32, pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]) -> None:
        """The log is kept by `Shown`, which knows the sequences."""


class Shown(TappedOps[Any]):
    """An op table under a tap of everything, for any number of sequences."""

    def __init__(self, engine: AnyEngine, rows: Rows, log: Log) -> None:
        self.inner, self.tap, self.rows, self.log = engine.ops, Everything(), rows, log
        self.pos, self.sources, self.alive = rows.pos, {}, []
        self.sequences = [n for n, span in enumerate(rows.spans) for _ in range(span.start, span.stop)]

    def _show(self, at: str, op: str, result: Any, *inputs: Any, also: tuple[str, ...] = ()) -> Any:
        if at and result is not None:
            parts = result if isinstance(result, list) else [result]
            rows = [row.tobytes() for part in parts for row in self.inner.numpy(part)]
            whole = len(rows) == len(self.sequences)
            ends = [span.stop - 1 for span in self.rows.spans]
            places = [(int(self.rows.pos[i]), self.sequences[i]) for i in (range(len(rows)) if whole else ends)]
            self.log.append(Seen(at, tuple(zip(places, rows, strict=True))))
        return result


def watched(engine: AnyEngine, log: Log) -> AnyEngine:
    """The engine; from now on its steps run op by op and every named result joins the log."""

    def run(rows: Rows, want: Any, tap: Tap | None) -> F32:
        ops = Shown(engine, rows, log)
        result = engine.family.wire(ops, engine.model.config, engine.weights, engine.tables, rows, want)
        ops.finish(rows, [result])
        return ops.numpy(result)

    put(engine, "run", run)
    return engine


def first_difference(sound: Subject, mutated: Subject, walk: str, on: str) -> str:
    """The first tensor of the walk that differs, or "none"."""
    logs: list[Log] = []
    for subject in (sound, mutated):
        model, log = subject.load(on), Log()
        try:
            WALKS[walk](subject, model, list(subject.prompts[on]), log)
        except GnomonError as error:
            log.append(Seen(f"{type(error).__name__}: {error}", ()))
        logs.append(log)
    if not logs[0]:
        raise ValueError(f"Expected the walk {walk} to show tensors but it showed none")
    return next(differences(*logs), "none")


def differences(expected: Log, observed: Log) -> Iterator[str]:
    for e, o in zip_longest(expected, observed):
        if e == o:
            continue
        one = e or o
        if e is None or o is None or e.name != o.name:
            rows = one.rows[:1]
            yield named(one.name, rows[0][0] if rows else None)
            continue
        pairs = zip_longest(e.rows, o.rows)
        right, got = next(pair for pair in pairs if pair[0] != pair[1])
        yield named(e.name, (right or got)[0])


def named(name: str, place: Place | None) -> str:
    if place is None:
        return name
    position, sequence = place
    return f"{name}, position {position}" + (f" of sequence {sequence}" if sequence else "")


# --- the walks --------------------------------------------------------------------------------------------------------
def steps(*lengths: int, forms: tuple[str, ...] = ()) -> Walk:
    """Steps of so many rows of one sequence."""

    def walk(subject: Subject, model: Model, ids: list[int], log: Log) -> None:
        engine, start, state = watched(subject.engine(model, *forms), log), 0, None
        ids = ids * -(-sum(lengths) // len(ids))
        for length in lengths:
            _, state = engine.forward(ids[start : start + length], state, "all")
            start += length

    return walk


def beside(subject: Subject, model: Model, ids: list[int], log: Log) -> None:
    """Two sequences in two steps."""
    engine = watched(subject.engine(model), log)
    one, other = engine.new(), engine.new()
    for start, stop in ((0, 4), (4, 5)):
        engine.step(Rows.of([(one, ids[start:stop]), (other, ids[20 + start : 20 + stop])]), "all")


def reused(subject: Subject, model: Model, ids: list[int], log: Log) -> None:
    """Another sequence, then this one in its slot."""
    engine = watched(subject.engine(model), log)
    _, state = engine.forward(ids[20:29])
    engine.truncate(state, 0)
    engine.forward(ids[:9], state)


def moved(subject: Subject, model: Model, ids: list[int], log: Log) -> None:
    """A state leaves an engine and goes on in another one that is in use."""
    source, target = watched(subject.engine(model), log), watched(subject.engine(model), log)
    target.forward(ids[20:24])
    _, state = source.forward(ids[:9])
    arrived = target.load(source.export(state), ids[:9])
    target.forward(ids[9:12], arrived, "all")


def drafted(wrong: int) -> Walk:
    """A greedy text whose drafts of four are wrong at one place."""

    def walk(subject: Subject, model: Model, ids: list[int], log: Log) -> None:
        request = Request(ids[:6], 9)
        text = [*request.ids, *plain(subject.engine(model), request).ids]
        drafter = Guesses(text, model.config.vocab, lambda n: n == wrong)
        made = subject.generation(watched(subject.engine(model), log), request, drafter, 4)
        while not made.text.reason:
            made.round()

    return walk


def checkpointed(subject: Subject, model: Model, ids: list[int], log: Log) -> None:
    """Two prompts of the same length."""
    checkpoints = subject.checkpoints(watched(subject.engine(model), log), 1 << 28)
    checkpoints.extend(ids[:9])
    checkpoints.extend(ids[9:18])


def planned(subject: Subject, model: Model, ids: list[int], log: Log) -> None:
    """A step of the host engine under a tap of what its plan stores, so that the plan runs."""
    engine = subject.engine(model)
    engine.forward(ids[:1], want="all")  # records the plan
    stored = {shown.name for shown in getattr(engine, "plans")["all"].shown}  # noqa: B009

    class Stored(Everything):
        def wants(self, name: str) -> bool:
            return name in stored

        def __call__(self, name: str, value: F32, pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]) -> None:
            places = [(int(p), 0) for p in pos]
            log.append(Seen(name, tuple(zip(places, (row.tobytes() for row in value), strict=True))))

    engine.forward(ids[:9], want="all", tap=Stored())


WALKS: Mapping[str, Walk] = {
    "prefill": steps(14, 1, 1, 1),
    "uneven": steps(4, 3, 1, 2, 4),
    "ones": steps(1, 1, 1),
    "far": steps(260),
    "rows_129": steps(129),
    "bf16_kv": steps(9, 1, forms=("f32", "bf16")),
    "int8_kv": steps(9, 1, forms=("f32", "int8")),
    "beside": beside,
    "reused": reused,
    "moved": moved,
    "draft_wrong_at_first": drafted(0),
    "draft_wrong_at_third": drafted(2),
    "checkpointed": checkpointed,
    "planned": planned,
}
