"""Two engines on the same tokens: every tap, all logits, the state, down to the first bit that differs.

Teacher-forced: engine A chooses each next token, greedily, and engine B is given A's choice. Both also run every step
unwatched, as they do in use (compare/unwatched.py). Digests only are kept. Then both engines run again from the start,
in the same way, up to the first difference; that tensor and its inputs are captured.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gnomon.compare.first import explain, first_unequal
from gnomon.compare.histogram import Histogram
from gnomon.compare.lane import AnyEngine, Kept, Lane, measured
from gnomon.compare.record import Config, FirstDivergence, Problem, Record, Tensor, Token
from gnomon.compare.report import Report
from gnomon.compare.schedule import steps_of
from gnomon.compare.unwatched import EXPECTED, OBSERVED, UnwatchedRuns
from gnomon.compare.verdict import judge_measures
from gnomon.reference.engine import Engine
from gnomon.reference.errors import UsageError
from gnomon.reference.identity import arithmetic, differences
from gnomon.reference.protocol import Ops
from gnomon.reference.token_ids import kind as of_kind
from gnomon.reference.token_ids import token_ids, whole_number

ENGINE = "an engine, such as gnomon.engine('numpy', model)"
Progress = Callable[[int, int], None]  # steps done, steps in all


def diff(
    engine_a: AnyEngine,
    engine_b: AnyEngine,
    ids: Sequence[int],
    steps: int = 16,
    progress: Progress | None = None,
    schedules: Sequence[str] = ("whole",),
    unwatched: bool = True,
) -> Report:
    """Compare engine B (observed) with engine A (expected): `ids`, then `steps` single tokens, under each schedule.

    schedules: how `ids` are cut into steps: "whole", "rows", "ragged", lengths such as "4-3-1-2" (compare/schedule.py)
    unwatched: whether each engine also runs every step without a tap and is held against its own watched run
    A run ends early at a step that either engine refuses as not finite; that is a finding. Engines of other
    models are not compared: `not-run`. Raises UsageError for ids, steps or schedules that cannot be run.
    """
    ids = token_ids(ids)
    _check(engine_a, ids, steps)
    of_kind("the second engine", engine_b, Engine, ENGINE)
    if isinstance(schedules, str) or not schedules:
        raise UsageError(f"Expected a list of schedules such as ['whole', 'rows'] but got schedules={schedules!r}")
    prompts = {schedule: steps_of(ids, schedule) for schedule in schedules}
    cuts = () if tuple(schedules) == ("whole",) else ("--schedule", ",".join(schedules))
    command = repeat_command(engine_a, engine_b, ids, "--steps", str(steps), *cuts)
    total, done = sum(len(prompt) + steps for prompt in prompts.values()), 0
    config = Config(engine_a.describe(), engine_b.describe(), tuple(ids), steps, command, planned=total)
    problems = other_model(engine_a, engine_b)
    if problems:
        return Report.of([config, *problems])

    records: list[Record] = [config]
    finished = 0
    for schedule, prompt in prompts.items():
        run = Comparison(engine_a, engine_b, schedule, prompt, steps, unwatched, command)
        for _ in run.steps_done():
            done += 1
            if progress is not None:
                progress(done, total)
        records += run.close(sum(isinstance(r, Tensor) for r in records))
        finished += run.finished
    return Report.of(_one_card(records), finished)


class Comparison:
    """Two engines under one schedule. feed: the ids of each step so far, as both engines run them"""

    def __init__(
        self,
        engine_a: AnyEngine,
        engine_b: AnyEngine,
        schedule: str,
        prompt: list[list[int]],
        steps: int,
        unwatched: bool,
        command: str,
    ) -> None:
        self.schedule, self.command = schedule, command
        self.feed, self.last = list(prompt), len(prompt) - 1 + steps
        self.prompt = len(prompt)
        self.expected, self.observed = Lane("expected", engine_a, schedule), Lane("observed", engine_b, schedule)
        forms = (EXPECTED, OBSERVED) if unwatched else ((), ())
        self.unwatched = [
            UnwatchedRuns(lane.side, lane.engine, form, schedule, len(prompt[0]))
            for lane, form in zip((self.expected, self.observed), forms, strict=True)
        ]
        self.tensors: list[Tensor] = []
        self.others: list[Record] = []
        self.finished = 0

    def steps_done(self) -> Iterator[int]:
        """Run step by step. Ends at one that is refused."""
        while self.finished <= self.last and self._step():
            self.finished += 1
            yield self.finished

    def _step(self) -> bool:
        done, expected, observed = self.finished, self.expected, self.observed
        e, o = expected.digest(self.feed[done]), observed.digest(self.feed[done])
        self.others += expected.problems(e, done) + observed.problems(o, done)
        finished = expected.error is None and observed.error is None
        if finished:
            for lane, kept, runs in zip((expected, observed), (e, o), self.unwatched, strict=True):
                results = lane.results(with_state=done in (0, self.prompt - 1, self.last))
                kept |= measured(results, kept)
                runs.step(self.feed[done], done, results)
        self.tensors += _compare(e, o, len(self.tensors), done, self.schedule)
        if not finished:
            return False
        if observed.choice != expected.choice and done >= self.prompt - 1:
            self.others.append(
                Token(done, expected.state.length, observed.choice, expected.choice, "differs", self.schedule)
            )
        if len(self.feed) == done + 1:
            self.feed.append([expected.choice])
        return True

    def close(self, seq: int) -> list[Record]:
        """The records of all steps; of the first difference with its card. seq: tensors before these"""
        tensors: list[Record] = list(self.tensors)
        first = first_unequal(self.tensors)
        more: list[Record] = []
        if first is not None:
            explained, more = explain(
                first, self.expected.engine, self.observed.engine, self.feed, self.command, self.schedule
            )
            tensors[self.tensors.index(first)] = explained
        told = [record for runs in self.unwatched for record in runs.records(self.feed)]
        return [
            replace(r, seq=r.seq + seq) if isinstance(r, Tensor | FirstDivergence) else r
            for r in (*tensors, *self.others, *told, *more)
        ]


def _one_card(records: list[Record]) -> list[Record]:
    """A report has one card: that of the first schedule that differs."""
    seen: set[type] = set()
    out: list[Record] = []
    for r in records:
        if isinstance(r, FirstDivergence | Histogram):
            if type(r) in seen:
                continue
            seen.add(type(r))
        out.append(r)
    return out


def repeat_command(engine_a: AnyEngine, engine_b: AnyEngine, ids: Sequence[int], *rest: str) -> str:
    """The command line that does it again; a comment with the reason where there is none."""
    a, b = engine_a.describe(), engine_b.describe()
    apart = [form for form in ("arm", "kv") if a.get(form) != b.get(form)]
    changed = [f"{side.name} has {', '.join(ops)} replaced" for side in (engine_a, engine_b) if (ops := replaced(side))]
    if apart or changed:
        why = [f"the engines differ in {' and '.join(apart)}"] * bool(apart) + changed
        return f"# no command line does this again: {'; '.join(why)}"
    words = ["gnomon", "diff", engine_a.model.name, "--engine", engine_a.name, "--engine", engine_b.name]
    words += ["--ids", ",".join(str(i) for i in ids), *rest]
    for form in ("arm", "kv"):
        if a.get(form, "f32") != "f32":
            words += [f"--{form}", a[form]]
    return shlex.join(words)


def replaced(engine: AnyEngine) -> list[str]:
    """Ops that were put in the place of a table's own, on this one object."""
    put = ((name, value) for name, value in vars(engine.ops).items() if callable(value) and hasattr(Ops, name))
    own = ((name, getattr(value, "__wrapped__", value)) for name, value in put)
    return sorted(name for name, value in own if getattr(value, "__self__", None) is not engine.ops)


def _compare(expected: Kept, observed: Kept, seq: int, step: int, schedule: str) -> list[Tensor]:
    """Judge all tensors of a step by their measures, in the expected order of execution, extra ones last."""
    records: list[Tensor] = []
    for kind, key in expected | observed:
        e, o = expected.get((kind, key)), observed.get((kind, key))
        source = e or observed[kind, key]
        found = judge_measures(o and o.measure, e and e.measure, key.name)
        records.append(
            Tensor(
                seq=seq + len(records),
                kind=kind,
                step=step,
                name=key.name,
                pos=key.pos,
                op=source.op,
                inputs=source.inputs,
                verdict=found.verdict,
                detail=found.detail,
                observed=found.observed,
                expected=found.expected,
                schedule=schedule,
            )
        )
    return records


def _check(engine: AnyEngine, ids: Sequence[int], steps: int) -> None:
    of_kind("engine", engine, Engine, ENGINE)
    whole_number("steps", steps)
    limit = engine.model.config.max_positions
    if len(ids) == 0:
        raise UsageError("Expected at least one token id to compare on but got none")
    if steps < 0:
        raise UsageError(f"Expected a number of steps of at least 0 but got steps={steps}")
    if len(ids) + steps > limit:
        raise UsageError(f"Expected at most max_positions={limit} positions but got {len(ids)} ids and steps={steps}")


def other_model(a: AnyEngine, b: AnyEngine) -> list[Problem]:
    """Why the two engines cannot be compared: one problem per field of the config, and one for the weights."""
    if a.model is b.model:
        return []
    found = [tuple(one) for one in differences(arithmetic(a.model), arithmetic(b.model))]
    if a.model.digest != b.model.digest:
        found.append(("weights", a.model.digest, b.model.digest))
    return [
        Problem(0, "observed", "not-run", f"Expected two engines of one model but got {name}={x} and {name}={y}")
        for name, x, y in found
    ]
