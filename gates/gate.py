"""What a gate is: a question about engines or files, how it is answered, and faults that prove it can answer "no".

A gate examines a `Subject`: the parts of the system, each replaceable from outside. A planted fault is a function that
gives a copy of the subject with one part broken, so production code holds no hook for faults.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from numpy.typing import NDArray

from gnomon.decode.batch import Batch
from gnomon.decode.checkpoints import Checkpoints
from gnomon.decode.generate import Generation
from gnomon.decode.transcript import verify_lines
from gnomon.gates.node_client import node
from gnomon.gates.streaming import Meter
from gnomon.gpu.host_build import Built
from gnomon.gpu.host_library import library
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.ops.sample import Sampling, sample
from gnomon.reference.protocol import F32

Verdict = Literal["PASS", "FAIL", "VOID", "NOT RUN"]
AnyEngine = Engine[Any]
MakeEngine = Callable[..., AnyEngine]  # (model), or (model, arm, kv)
Array = NDArray[Any]
Compare = Callable[[Array | None, Array | None], str]  # observed, expected -> verdict word
Files = Mapping[str, bytes]  # path from the root of the checkout -> content


class VoidError(Exception):
    """The question could not be put: nothing to compare, an input that is not the one asked for."""


class FailedError(Exception):
    """The answer is no, found where nothing is left to return."""


@dataclass(frozen=True)
class Header:
    """What is asked, fixed before anything is measured. Its digest goes into every receipt.

    instrument: what measures; threshold: what passes; disproof: what would show that the answer is wrong;
    void: what makes it no answer at all; numbers: those the gate reads from here
    """

    name: str
    question: str
    instrument: str
    threshold: str
    disproof: str
    void: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the header as canonical JSON: sorted keys, no spaces, ASCII."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """What one gate found. detail: why it is no PASS; figures: what was counted; required: False lets NOT RUN pass;
    table: rows to show below, with the same fields each
    """

    verdict: Verdict
    detail: str = ""
    figures: Mapping[str, int | float] = field(default_factory=dict)
    required: bool = True
    table: Sequence[Mapping[str, Any]] = ()

    def checked(self) -> "Outcome":
        """Itself, unless it is a PASS that counted nothing or counted NaN: that is VOID."""
        if not all(math.isfinite(value) for value in self.figures.values()):
            return Outcome("VOID", "a figure is not finite")
        if self.verdict == "PASS" and not any(value > 0 for value in self.figures.values()):
            return Outcome("VOID", "nothing was counted", self.figures)
        return self


@dataclass(frozen=True)
class Subject:
    """What gates examine.

    engine:      makes the engine under test of a model, an arm and a kv storage (f32 where none is given)
    reference:   the same for the engine that defines the bytes
    load:        finds and reads a model
    prompts:     model name -> token ids that the engine gates run; their keys are the models that are run
    vectors:     folder of known answers
    comparators: the ways in which two arrays are compared, by name
    checkout:    the files of the source checkout, or None where there is none
    private:     names that no file may hold: of this machine, of its user
    generation, batch: what makes one text, and several at once
    sample:      draws a token from a row of logits; verify_transcript: what takes the lines of a transcript, or raises
    checkpoints: makes the prefix checkpoints of an engine, of so many bytes at most
    kernels:     the compiled kernels of the host engine
    meter:       what speed is measured with
    node:        the node on an engine, an ASGI application; raises NotRunError where its packages are absent
    """

    engine: MakeEngine
    reference: MakeEngine
    load: Callable[[str | Path], Model]
    prompts: Mapping[str, Sequence[int]]
    vectors: Path
    comparators: Mapping[str, Compare]
    checkout: Callable[[], Files | None]
    private: tuple[str, ...] = ()
    generation: type[Generation] = Generation
    batch: type[Batch] = Batch
    sample: Callable[[F32, Sampling, int], int] = sample
    verify_transcript: Callable[[AnyEngine, Sequence[str]], None] = verify_lines
    checkpoints: Callable[[AnyEngine, int], Checkpoints] = Checkpoints
    kernels: Callable[[], Built] = library
    meter: Meter = field(default_factory=Meter)
    node: Callable[[AnyEngine], Any] = node


Fault = Callable[[Subject], Subject]
Planted = tuple[Fault, str]  # and a part of what the gate must then say: caught, and for its own reason


@dataclass(frozen=True)
class Gate:
    """per_engine: asked of every engine; else once. faults: what it must catch, by name; at least one."""

    header: Header
    run: Callable[[Subject], Outcome]
    faults: Mapping[str, Planted]
    per_engine: bool = True

    def __post_init__(self) -> None:
        if not self.faults:
            raise ValueError(f"Expected at least one planted fault for gate {self.name} but got none")

    @property
    def name(self) -> str:
        return self.header.name
