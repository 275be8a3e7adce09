"""The same steps when nobody looks. A tap opens fused paths and keeps an engine from its plans and graphs, so a watched
run alone says nothing of what `run` and `serve` execute. Each engine of a comparison therefore runs every step again
without a tap, as it does in use, and its logits and state are held against its own watched run.

| form | how the steps run |
|---|---|
| `alone` | the sequence by itself, all rows of logits |
| `last` | the sequence by itself, the last row of logits only: what generation asks for |
| `batch` | last in a batch, the prompt's step being larger than any that the batcher makes |
| `cut` | the prompt in steps of 4, 3, 1, 2, 4, ... rows, which leave something to each other |
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gnomon.compare.digest_tap import Key
from gnomon.compare.hidden import Located, located, located_cut
from gnomon.compare.lane import UINT16, AnyEngine, Array, Lane, Results
from gnomon.compare.record import Kind, Side, Unwatched
from gnomon.compare.schedule import steps_of
from gnomon.compare.verdict import Finding, judge

Form = Literal["alone", "last", "batch", "cut"]
OBSERVED: Final[tuple[Form, ...]] = ("alone", "last", "batch", "cut")
EXPECTED: Final[tuple[Form, ...]] = ("alone",)  # the engine that is believed; it is judged whenever it is observed
ROWS: Final = 257  # of a batch: one more than a batcher computes at once (decode/batch.py)
LASTING: Final = 3  # neighbours that stay after the prompt
CUT: Final = "4-3-1-2"


def lane_of(side: Side, engine: AnyEngine, form: Form, schedule: str, prompt: int) -> Lane:
    """A lane whose steps run in this form. prompt: rows of the first step"""
    lane = Lane(side, engine, schedule, "all" if form == "alone" else "last")
    return lane.behind(prompt, ROWS, LASTING) if form == "batch" else lane


@dataclass
class Run:
    """One form of the steps, followed until its first difference."""

    form: Form
    lane: Lane
    compared: int = 0
    rows: int = 0  # of its largest step
    step: int = 0
    first: Finding | None = None
    error: str = ""

    @property
    def same(self) -> bool:
        return self.first is None and not self.error

    def advance(self, ids: list[int]) -> None:
        """Run the ids of a step."""
        for part in steps_of(ids, CUT if self.form == "cut" else "whole"):
            self.lane.step(part)
            self.rows = max(self.rows, self.lane.rows)
            if self.lane.error is not None:
                self.error = str(self.lane.error)
                return


class UnwatchedRuns:
    """The unwatched runs of one engine beside its watched one."""

    def __init__(self, side: Side, engine: AnyEngine, forms: Sequence[Form], schedule: str, prompt: int) -> None:
        self.side, self.engine, self.schedule = side, engine, schedule
        forms = [form for form in forms if form != "cut" or (schedule == "whole" and prompt > 1)]
        self.runs = [Run(form, lane_of(side, engine, form, schedule, prompt)) for form in forms]

    def step(self, ids: list[int], number: int, watched: Results) -> None:
        """Run a step in every form and hold what it gives against the watched results of the same step."""
        with_state = any(kind == "state" for kind, _ in watched)
        for run in self.runs:
            if not run.same:
                continue
            run.advance(ids)
            run.step = number
            if run.error:
                continue
            for (kind, key), got in run.lane.results(with_state).items():
                found = judge(got, expected(watched, kind, key), key.name, uint16=UINT16[kind])
                run.compared += 1
                if found.observed != found.expected:  # a dead tensor is the watched run's to report
                    run.first = run.first or found

    def records(self, feed: Sequence[list[int]]) -> list[Unwatched]:
        """One record a form. Of one that differs: what hides it, and the first tensor that shows it.

        feed: the ids of every step that ran
        """
        known: list[Located] = []
        return [self._record(run, feed, known) for run in self.runs if run.rows]

    def _record(self, run: Run, feed: Sequence[list[int]], known: list[Located]) -> Unwatched:
        same = Unwatched(
            self.side, self.engine.name, run.form, self.schedule, run.rows, run.compared, run.step, "identical"
        )
        if run.same:
            return same
        where = self._located(run, feed[: run.step + 1], known)
        known.append(where)
        found = run.first
        return replace(
            same,
            verdict="nonfinite" if found is None else found.verdict,
            name="logits" if found is None else found.name,
            detail=run.error if found is None else found.detail,
            mismatch=None if found is None else found.mismatch,
            **vars(where),
        )

    def _located(self, run: Run, feed: Sequence[list[int]], known: Sequence[Located]) -> Located:
        """known: what was found in other forms, which is tried first"""

        def unwatched() -> Lane:
            return lane_of(self.side, self.engine, run.form, self.schedule, len(feed[0]))

        def watched() -> Lane:
            return Lane(self.side, self.engine, self.schedule)

        if run.form != "cut":
            return located(unwatched, watched, feed, known)
        parts = steps_of(feed[0], CUT)
        if run.step == 0 and (where := located_cut(watched, feed[0], parts)).tap:
            return where
        where = located(unwatched, watched, [*parts, *feed[1:]], known)
        return replace(where, step=max(0, where.step - len(parts) + 1))  # as the steps of the run are counted


def run_unwatched(
    side: Side, engine: AnyEngine, feed: Sequence[list[int]], schedule: str = "whole", forms: Sequence[Form] = OBSERVED
) -> list[Unwatched]:
    """Run the steps of `feed` watched and in every unwatched form -> one record a form."""
    return followed(side, engine, feed, schedule, forms).records(feed)


def different_forms(engine: AnyEngine, feed: Sequence[list[int]], forms: Sequence[Form]) -> list[Form]:
    """The forms whose results are not those of the watched run."""
    return [run.form for run in followed("observed", engine, feed, "whole", forms).runs if not run.same]


def followed(
    side: Side, engine: AnyEngine, feed: Sequence[list[int]], schedule: str, forms: Sequence[Form]
) -> UnwatchedRuns:
    """The unwatched runs after all steps. A step that the engine refuses when it is watched ends them."""
    watched, runs = Lane(side, engine, schedule), UnwatchedRuns(side, engine, forms, schedule, len(feed[0]))
    for number, ids in enumerate(feed):
        watched.step(ids, Everything())
        if watched.error is not None:
            break
        runs.step(ids, number, watched.results(with_state=number in (0, len(feed) - 1)))
    return runs


class Everything:
    """A tap that wants every tensor and keeps none."""

    def wants(self, name: str) -> bool:
        return True

    def __call__(self, name: str, value: Array, pos: Array, op: str, inputs: tuple[str, ...]) -> None:
        """Seen is enough."""


def expected(watched: Results, kind: Kind, key: Key) -> Array | None:
    """The rows of the watched result that an unwatched one of the last row must equal."""
    whole = next((array for (k, other), array in watched.items() if k == kind and other.name == key.name), None)
    rows = key.pos[1] - key.pos[0]
    return whole[-rows:] if whole is not None and kind == "result" else whole
