"""The kill matrix: every mutation through every gate, held against what its row says beforehand.

A gate that reads only parts of the subject which a mutation leaves alone answers as it does on the sound system: it is
run once there, what it reads is noted, and its verdict is taken over. So the matrix is complete and takes minutes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from gnomon.gates.all import GATES
from gnomon.gates.gate import Gate, Outcome, Subject
from gnomon.gates.matrix_walk import first_difference
from gnomon.gates.mutations.all import MUTATIONS
from gnomon.gates.mutations.experts import with_experts
from gnomon.gates.mutations.mutation import Mutation
from gnomon.gates.run import Result, Started, ask
from gnomon.reference.errors import GnomonError, UsageError
from gnomon.reference.identity import arithmetic
from gnomon.reference.model import Model

FIRED = ("FAIL", "VOID")
# Gates that no mutation is seen by alone, and why that is no gap.
NOT_ALONE: Mapping[str, str] = {}


class Reading:
    """Stands for a subject, and notes which of its parts are read and which models are loaded by name."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.parts: set[str] = set()
        self.loaded: dict[Any, Model] = {}

    def __getattr__(self, part: str) -> Any:
        self.parts.add(part)
        return self._load if part == "load" else getattr(self.subject, part)

    def _load(self, source: Any) -> Model:
        model = self.subject.load(source)
        self.loaded[source] = model
        return model

    def __replace__(self, **changes: Any) -> Subject:
        return replace(self.subject, **changes)

    def unmoved(self, mutated: Subject) -> bool:
        """Whether all that was read is the same in a mutated subject."""
        changed = {part for part in self.parts if getattr(mutated, part) is not getattr(self.subject, part)}
        return not changed or (changed == {"load"} and all(map(self.same, self.loaded, [mutated] * len(self.loaded))))

    def same(self, source: Any, mutated: Subject) -> bool:
        """Whether a model that a gate loaded by its name is the same in a mutated subject."""
        if not isinstance(source, str):
            return False  # a file that the gate has made and removed
        was, now = self.loaded[source], mutated.load(source)
        if was.tokenizer is not now.tokenizer and (was.tokenizer or now.tokenizer):
            return False
        same = (was.config, was.digest, was.chat) == (now.config, now.digest, now.chat)
        return same and arithmetic(was) == arithmetic(now)


@dataclass
class Sound:
    """The system as it is, on one engine and model: the verdict of each gate and what it read."""

    subject: Subject
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)

    def outcome(self, gate: Gate) -> Outcome:
        if gate.name not in self.outcomes:
            reading = Reading(self.subject)
            self.outcomes[gate.name] = ask(gate, cast(Subject, reading))
            self.readings[gate.name] = reading
        return self.outcomes[gate.name]


def chosen(name: str | None) -> list[Mutation]:
    """All mutations, or the one of this name or number (M12). Raises UsageError."""
    found = [m for m in MUTATIONS.values() if name is None or name in (m.name, m.name.split()[0])]
    if not found:
        raise UsageError(f"Expected a mutation among {', '.join(m.split()[0] for m in MUTATIONS)} but got {name!r}")
    return found


def run_matrix(
    mutations: Sequence[Mutation],
    make_subject: Callable[[str], Subject],
    started: Started = lambda gate, engine: None,
    gates: Mapping[str, Gate] | None = None,
) -> Iterator[Result]:
    """A result for each mutation: PASS where every gate did what the row says; `table` has a line for each gate. After
    all mutations one more, of the matrix as a whole."""
    gates = gates or GATES
    systems: dict[tuple[str, str], Sound] = {}
    results: list[Result] = []
    for mutation in mutations:
        key = mutation.engine, mutation.on
        if key not in systems:
            systems[key] = Sound(asked_on(make_subject(mutation.engine), mutation.on))
        outcome = run_row(mutation, systems[key], started, gates)
        results.append(Result("matrix", mutation.engine, outcome, mutation.digest, mutation.name))
        yield results[-1]
    last = whole(results)
    if last is not None:
        yield last


def asked_on(subject: Subject, model: str) -> Subject:
    """The subject with one model for its gates."""
    if model == "experts":
        subject = with_experts(subject)
    return replace(subject, prompts={name: ids for name, ids in subject.prompts.items() if name == model})


def run_row(mutation: Mutation, sound: Sound, started: Started, gates: Mapping[str, Gate]) -> Outcome:
    """One mutation through every gate."""
    begun = time.monotonic()
    mutated = mutation.apply(sound.subject)
    table, wrong = [], []
    for gate in gates.values():
        started(f"{mutation.name}: {gate.name}", mutation.engine)
        honest = sound.outcome(gate)
        if honest.verdict == "NOT RUN":
            if gate.per_engine or gate.name in mutation.must:
                return Outcome("NOT RUN", f"{gate.name}: {honest.detail}", required=honest.required)
            table.append(cell(mutation, gate.name, honest))
            continue
        if honest.verdict != "PASS":
            wrong.append(f"{gate.name} is {honest.verdict} on the sound system: {honest.detail}")
            table.append(cell(mutation, gate.name, honest))
            continue
        reading = sound.readings[gate.name]
        found = honest if reading.unmoved(mutated) else ask(gate, mutated)
        table.append(cell(mutation, gate.name, found))
        wrong += judged(mutation, gate.name, found)
    seen = [str(line["gate"]) for line in table if line["verdict"] in FIRED]
    if not seen:
        wrong.insert(0, "no gate saw it: it survives")
    first = walked(mutation, sound.subject, mutated)
    if first != mutation.first:
        wrong.append(f"first difference: {first}, expected {mutation.first}")
    said = [str(line["detail"]) for line in table if line["gate"] in mutation.must]
    if not any(mutation.says in detail for detail in said):
        wrong.append(f"no gate says {mutation.says!r}")
    figures = {"fired": len(seen), "gates": len(table), "seconds": round(time.monotonic() - begun, 1)}
    detail = "; ".join(wrong) or f"{', '.join(seen)}" + (f"; first {first}" if first else "")
    return Outcome("FAIL" if wrong else "PASS", detail, figures, table=table)


def cell(mutation: Mutation, gate: str, found: Outcome) -> dict[str, Any]:
    expected = "must" if gate in mutation.must else "blind" if gate in mutation.blind else "may"
    return {"gate": gate, "expected": expected, "verdict": found.verdict, "detail": found.detail}


def judged(mutation: Mutation, gate: str, found: Outcome) -> Iterator[str]:
    """What a gate did against its row."""
    if gate in mutation.must and found.verdict not in FIRED:
        yield f"{gate} must fire but is {found.verdict}"
    if gate in mutation.blind and found.verdict != "PASS":
        yield f"{gate} must be blind but is {found.verdict}: {found.detail}"


def walked(mutation: Mutation, sound: Subject, mutated: Subject) -> str:
    """The first tensor that differs; "" where the row names none."""
    if not mutation.first:
        return ""
    try:
        return first_difference(sound, mutated, mutation.walk, mutation.on)
    except (GnomonError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def alone(results: Sequence[Result]) -> dict[str, list[str]]:
    """Gate -> the mutations that it alone saw."""
    out: dict[str, list[str]] = {name: [] for name in GATES}
    for result in results:
        fired = [str(line["gate"]) for line in result.outcome.table if line["verdict"] in FIRED]
        if len(fired) == 1:
            out[fired[0]].append(result.fault)
    return out


def survivors(results: Sequence[Result]) -> list[str]:
    """Mutations that no gate saw."""
    ran = [result for result in results if result.outcome.table]
    return [r.fault for r in ran if not any(line["verdict"] in FIRED for line in r.outcome.table)]


def whole(results: Sequence[Result]) -> Result | None:
    """What is said of the matrix as a whole, once every mutation has been run: each gate has one of its own."""
    if {result.fault for result in results} != set(MUTATIONS):
        return None
    if any(result.outcome.verdict == "NOT RUN" for result in results):
        return None
    lacking = [name for name, mutations in alone(results).items() if not mutations and name not in NOT_ALONE]
    figures = {"mutations": len(results), "survivors": len(survivors(results)), "gates": len(GATES)}
    if lacking:
        return Result("matrix", "", Outcome("FAIL", f"no mutation of their own: {', '.join(lacking)}", figures), "")
    return Result("matrix", "", Outcome("PASS", "", figures), "")
