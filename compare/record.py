"""The records of a comparison. One list of them feeds terminal, HTML and JSON, so no two outputs disagree.

Each record is a frozen dataclass with a `type`, and one line of JSON.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from gnomon.compare.histogram import Histogram
from gnomon.compare.mismatch import Mismatch
from gnomon.compare.verdict import Measure, exit_code, worst

Side = Literal["observed", "expected"]
Kind = Literal["tap", "result", "state", "op"]


@dataclass(frozen=True)
class Config:
    """What was compared: settings read back from both engines, the prompt, the command that does it again.

    left_out: names of observed tensors that a map leaves out
    not_held: names of expected tensors that nothing was held against
    planned: steps of all schedules; None: one for the prompt and `steps` more
    """

    expected: dict[str, str]
    observed: dict[str, str]
    ids: tuple[int, ...]
    steps: int
    command: str
    left_out: tuple[str, ...] = ()
    not_held: tuple[str, ...] = ()
    planned: int | None = None
    type: str = field(default="config", init=False)


@dataclass(frozen=True)
class Tensor:
    """One tensor of one step.

    seq:  order of execution over the whole run
    kind: "tap" (shown inside the step), "result" (logits the step gave back) or "state" (exported after it)
    step: 0 is the prompt, then one per token
    pos:  [first, one past the last) absolute position
    schedule: how the prompt was cut into steps (compare/schedule.py)
    """

    seq: int
    kind: Kind
    step: int
    name: str
    pos: tuple[int, int]
    op: str
    inputs: tuple[str, ...]
    verdict: str
    detail: str
    observed: Measure | None
    expected: Measure | None
    schedule: str = "whole"
    type: str = field(default="tensor", init=False)


@dataclass(frozen=True)
class Token:
    """Another greedy choice for position `pos`; the observed engine was given the expected one."""

    step: int
    pos: int
    observed: int
    expected: int
    verdict: str = "differs"
    schedule: str = "whole"
    type: str = field(default="token", init=False)


@dataclass(frozen=True)
class Problem:
    """Not a tensor: models that cannot be compared, a step that was refused, a run that did not repeat."""

    step: int
    side: Side
    verdict: str
    message: str
    type: str = field(default="problem", init=False)


@dataclass(frozen=True)
class Input:
    """What the op of a divergent tap read. kind "weight": stored bytes, equal as the model digests are."""

    name: str
    kind: Literal["tap", "weight", "unseen"]
    verdict: str


@dataclass(frozen=True)
class FirstDivergence:
    """The first tensor, in execution order, that is not identical; captured by a second run.

    seq, tap: of its Tensor record
    position: absolute position of the first mismatch; None where no mismatch can be shown
    """

    seq: int
    step: int
    tap: str
    pos: tuple[int, int]
    position: int | None
    op: str
    inputs: tuple[Input, ...]
    verdict: str
    detail: str
    mismatch: Mismatch | None
    schedule: str = "whole"
    type: str = field(default="first_divergence", init=False)

    @property
    def inputs_equal(self) -> bool:
        """True: this op made the difference. False: it was made before, or some input was not seen."""
        return bool(self.inputs) and all(i.verdict == "identical" for i in self.inputs)


@dataclass(frozen=True)
class WrongOp:
    """An op that gave other bytes for the same inputs. places: how often; the rest is of the first place."""

    op: str
    places: int
    step: int
    name: str
    pos: tuple[int, int]
    verdict: str
    detail: str
    mismatch: Mismatch | None
    type: str = field(default="wrong_op", init=False)

    def again(self, verdict: str) -> "WrongOp":
        """One more place; the worst verdict of all stays."""
        return replace(self, places=self.places + 1, verdict=worst((self.verdict, verdict)))


@dataclass(frozen=True)
class Unwatched:
    """An engine's steps without a tap, held against its own watched run.

    form: "alone", "last", "batch" or "cut" (compare/unwatched.py); rows: of its largest step
    compared: logits and state arrays
    step, name, detail: the first difference; mismatch: None where the step was refused
    hidden_by: kinds of tensors, each of which hides the difference when it is watched; narrowest: the smallest set of
    names found that does; tap, op: the first tensor of the wrong path that differs, and what made it;
    inputs_equal: from equal inputs
    """

    side: Side
    engine: str
    form: str
    schedule: str
    rows: int
    compared: int
    step: int
    verdict: str
    name: str = ""
    detail: str = ""
    hidden_by: tuple[str, ...] = ()
    narrowest: tuple[str, ...] = ()
    tap: str = ""
    op: str = ""
    inputs_equal: bool = False
    mismatch: Mismatch | None = None
    type: str = field(default="unwatched", init=False)


@dataclass(frozen=True)
class Summary:
    """Totals over the records before it.

    compared, values, bytes, live: of tensors both sides have in one type and shape; live: the smaller count
    steps: finished by both engines
    unwatched: runs without a tap that were held against a watched one; unwatched_differ: of these
    hidden: some of them differ only when nobody looks
    """

    verdict: str
    exit_code: int
    tensors: int
    compared: int
    identical: int
    values: int
    bytes: int
    live: int
    steps: int
    verdicts: dict[str, int]
    unwatched: int = 0
    unwatched_differ: int = 0
    hidden: bool = False
    type: str = field(default="summary", init=False)

    def __post_init__(self) -> None:
        if sum(self.verdicts.values()) != self.tensors or self.exit_code != exit_code(self.verdict):
            raise AssertionError("the totals of a report must add up")


Record = Config | Tensor | Token | Problem | FirstDivergence | Histogram | WrongOp | Unwatched | Summary


def to_dict(record: Record) -> dict[str, Any]:
    """`type` first, then the fields in their order."""
    out = {"type": record.type} | asdict(record)
    if isinstance(record, FirstDivergence):
        out["inputs_equal"] = record.inputs_equal
    return out


def to_jsonl(records: Iterable[Record]) -> str:
    """One JSON object per line."""
    return "".join(json.dumps(to_dict(r), ensure_ascii=False) + "\n" for r in records)
