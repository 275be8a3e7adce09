"""Running gates: which are required, what an error means, the exit code; and running them on their planted faults."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gnomon.compare.verdict import judge, judge_measures, measure
from gnomon.gates import checkout
from gnomon.gates.gate import AnyEngine, Array, Compare, FailedError, Gate, Outcome, Subject, VoidError
from gnomon.gates.leaks import private_names
from gnomon.reference.errors import ModelError, NonFiniteError, NotRunError, UsageError
from gnomon.reference.model import Model
from gnomon.reference.own_code import OwnCodeError

NamedEngine = Callable[..., AnyEngine]  # (name, model), or (name, model, arm, kv)
LoadModel = Callable[[str | Path], Model]
REFERENCE = "numpy"
FAULT_MODEL = "micro"  # where faults are looked for: it has every kind of layer


@dataclass(frozen=True)
class Result:
    """One line: a gate on one engine, "" where it is asked once. fault: the one that it was run on"""

    gate: str
    engine: str
    outcome: Outcome
    header: str
    fault: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "gate": self.gate,
            "engine": self.engine,
            **({"fault": self.fault} if self.fault else {}),
            "verdict": self.outcome.verdict,
            "required": self.outcome.required,
            "detail": self.outcome.detail,
            "figures": dict(self.outcome.figures),
            **({"table": list(self.outcome.table)} if self.outcome.table else {}),
            "header_sha256": self.header,
        }


Started = Callable[[str, str], None]  # gate, engine: told before each


def prompt_ids(vocab: int, rows: int = 131) -> tuple[int, ...]:
    """Token ids without a period, longer than a chunk of 128 positions."""
    return tuple((7 * i * i + 3 * i + 11) % vocab for i in range(rows))


# Model -> ids. Another model is run by the gates as soon as it stands here.
PROMPTS: Mapping[str, Sequence[int]] = {"micro": prompt_ids(97), "tiny-dense": prompt_ids(2003)}


def subject(make_engine: NamedEngine, load: LoadModel, vectors: Path, engine: str = REFERENCE) -> Subject:
    """The system as it is, with one engine under test."""
    return Subject(
        engine=partial(make_engine, engine),
        reference=partial(make_engine, REFERENCE),
        load=load,
        prompts=PROMPTS,
        vectors=vectors,
        comparators=comparators(),
        checkout=checkout.files,
        private=private_names(),
    )


def comparators() -> dict[str, Compare]:
    """The two ways in which everything here is compared."""

    def by_measures(observed: Array | None, expected: Array | None) -> str:
        o, e = (None if side is None else measure(side, "") for side in (observed, expected))
        return judge_measures(o, e, "").verdict

    return {"judge": lambda observed, expected: judge(observed, expected, "").verdict, "judge_measures": by_measures}


def run_gates(
    gates: Sequence[Gate],
    engines: Sequence[str],
    make_subject: Callable[[str], Subject],
    started: Started = lambda gate, engine: None,
) -> Iterator[Result]:
    """Each gate on each engine; those that are asked once, once. make_subject: engine name -> what is examined"""
    for gate in gates:
        for engine in engines if gate.per_engine else [""]:
            started(gate.name, engine)
            yield Result(gate.name, engine, ask(gate, make_subject(engine or REFERENCE)), gate.header.digest)


def run_faults(
    gates: Sequence[Gate],
    engines: Sequence[str],
    make_subject: Callable[[str], Subject],
    started: Started = lambda gate, engine: None,
) -> Iterator[Result]:
    """Each gate on the system as it is, where it must pass, and on each of its planted faults, where it must fail."""
    for gate in gates:
        for engine in engines if gate.per_engine else [""]:
            sound = make_subject(engine or REFERENCE)
            sound = replace(sound, prompts={name: ids for name, ids in sound.prompts.items() if name == FAULT_MODEL})
            started(gate.name, engine)
            honest = ask(gate, sound)
            yield Result(gate.name, engine, honest, gate.header.digest)
            if honest.verdict != "PASS":
                continue  # a gate that never passes catches everything
            for name, (fault, shows) in gate.faults.items():
                started(f"{gate.name}: {name}", engine)
                yield Result(gate.name, engine, caught(ask(gate, fault(sound)), shows), gate.header.digest, name)


def caught(outcome: Outcome, shows: str) -> Outcome:
    """PASS where the gate failed on the fault, and said what the fault does."""
    if outcome.verdict == "FAIL" and shows in outcome.detail:
        return Outcome("PASS", outcome.detail, {"caught": 1})
    return Outcome("FAIL", f"expected FAIL ... {shows} ... but got {outcome.verdict} {outcome.detail}".rstrip())


def ask(gate: Gate, examined: Subject) -> Outcome:
    """Run a gate. An error is an answer too: an engine that cannot run, an input that is missing, a crash."""
    try:
        return gate.run(examined).checked()
    except NotRunError as error:
        return Outcome("NOT RUN", str(error))
    except (FailedError, NonFiniteError, OwnCodeError) as error:
        return Outcome("FAIL", str(error))
    except (VoidError, ModelError, UsageError) as error:
        return Outcome("VOID", str(error))
    except Exception as error:  # whatever an engine raises
        return Outcome("FAIL", f"{type(error).__name__}: {error}")


def exit_code(results: Sequence[Result]) -> int:
    """0: every required gate passed, and there was one; 1: one failed or was void; 3: one could not be run"""
    required = [r.outcome.verdict for r in results if r.outcome.required]
    if any(verdict in ("FAIL", "VOID") for verdict in required):
        return 1
    return 0 if required and all(verdict == "PASS" for verdict in required) else 3
