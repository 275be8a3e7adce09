"""Counting what is equal: shared by the gates that compare tensors."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.mismatch import listed
from gnomon.compare.verdict import Finding, judge
from gnomon.gates.gate import AnyEngine, Array, FailedError, Outcome, Subject, VoidError
from gnomon.reference.model import Model
from gnomon.reference.protocol import F32, Rows, Tap
from gnomon.reference.state import State


class Tally:
    """How many tensors and values were alive and equal, and the first that was not."""

    def __init__(self) -> None:
        self.tensors = 0
        self.values = 0
        self.unequal = 0
        self.first = ""

    def compare(self, where: str, observed: Array | None, expected: Array | None, name: str) -> None:
        """Liveness before equality: see compare/verdict.py. name: of the tensor; `where` goes in front of it"""
        found = judge(observed, expected, name)
        if found.verdict == "identical" and expected is not None:
            self.tensors += 1
            self.values += expected.size
            return
        self.unequal += 1
        self.first = self.first or f"{where}, {sentence(found)}"

    def compare_all(self, where: str, observed: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
        """Every tensor that either side has, in the order of the expected side."""
        for name in {**expected, **observed}:
            self.compare(where, observed.get(name), expected.get(name), name)

    def outcome(self, **figures: int | float) -> Outcome:
        """PASS only where something was compared and all of it was equal."""
        counted = {"tensors": self.tensors, "values": self.values, **figures}
        if self.unequal:
            return Outcome("FAIL", f"first difference: {self.first}", {**counted, "unequal": self.unequal})
        return Outcome("PASS", "", counted)


class Everything:
    """A tap that keeps every tensor of one step by its name."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def wants(self, name: str) -> bool:
        return True

    def __call__(self, name: str, value: Array, pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]) -> None:
        self.arrays[f"{name} again" if name in self.arrays else name] = value


def sentence(found: Finding) -> str:
    """A finding in one line."""
    m = found.mismatch
    if m is None or not m.first:
        return f"{found.name}: {found.verdict}" + (f" ({found.detail})" if found.detail else "")
    place = m.first[0]
    bits = f"{place.observed.bits} => expected {place.expected.bits} ({place.distance})"
    return f"{found.name}: {found.verdict}, {m.count} of {m.values} values, first at {listed(place.index)}: {bits}"


def prompts(subject: Subject) -> Iterator[tuple[Model, list[int]]]:
    """The models to run and the token ids to run them on. Raises VoidError where there is nothing to run."""
    if not subject.prompts:
        raise VoidError("no prompt to run")
    for name, ids in subject.prompts.items():
        if len(ids) == 0:
            raise VoidError(f"the prompt of {name} is empty")
        yield subject.load(name), list(ids)


def whole(engine: AnyEngine, ids: Sequence[int], tap: Tap | None = None) -> tuple[F32, dict[str, Array]]:
    """All of `ids` in one step -> every row of logits, the exported state"""
    logits, state = engine.forward(ids, want="all", tap=tap)
    return rows_of(logits, ids), exported(engine, state)


def in_parts(engine: AnyEngine, ids: Sequence[int], lengths: Sequence[int]) -> tuple[F32, dict[str, Array]]:
    """The same ids in steps of `lengths` rows."""
    if sum(lengths) != len(ids):
        raise VoidError(f"steps of {sum(lengths)} rows for {len(ids)} token ids")
    state, parts, start = engine.new(), [], 0
    for length in lengths:
        parts.append(engine.step(Rows.of([(state, ids[start : start + length])]), "all"))
        start += length
    return rows_of(np.concatenate(parts), ids), exported(engine, state)


def rows_of(logits: F32, ids: Sequence[int]) -> F32:
    """Raises FailedError unless there is one row per id."""
    if len(logits) != len(ids):
        raise FailedError(f"{len(logits)} rows of logits for {len(ids)} token ids")
    return logits


def exported(engine: AnyEngine, state: State) -> dict[str, Array]:
    """Raises FailedError for a state that shows nothing."""
    arrays = engine.export(state)
    if not arrays:
        raise FailedError(f"engine {engine.name} exports no state")
    return arrays
