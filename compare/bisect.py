"""Which ops of the second engine are to blame: the smallest set that, moved to the first, makes the two runs identical.

Delta debugging (Zeller and Hildebrandt 2002) over op names. Ops that are wrong together, or that hide each other, are
found together. Every trial goes into a log; a search that was cut short goes on from it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from gnomon.compare.diff import diff
from gnomon.compare.graft import COMPOSITES, fused
from gnomon.compare.isolate import OPS, grafted
from gnomon.compare.lane import AnyEngine, Lane
from gnomon.compare.minimal import smallest
from gnomon.compare.unwatched import OBSERVED, Form, different_forms
from gnomon.compare.words import counted
from gnomon.reference.errors import ModelError, UsageError
from gnomon.reference.identity import arithmetic, differences
from gnomon.reference.strict_json import read_bytes
from gnomon.reference.token_ids import token_ids, whole_number

LOG_VERSION = 2
LOG = 64 << 20  # bytes, at most


@dataclass(frozen=True)
class Culprits:
    """ops: the minimal set, in the order of OPS; verdict: "identical" (nothing to find), "found", or "not-found" where
    the runs differ even with every op moved; trials: runs made, repeats included; resumed: sets tried before"""

    verdict: str
    ops: tuple[str, ...]
    trials: int
    resumed: int


def bisect(
    engine_a: AnyEngine,
    engine_b: AnyEngine,
    ids: Sequence[int],
    steps: int = 2,
    repeats: int = 1,
    log: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Culprits:
    """Search with runs of `ids` and `steps` greedy tokens, first watched, then unwatched, where fused ops stay closed.

    repeats: a set passes only if it is identical each time, for faults that come and go; log: JSON lines, one per set
    tried. Raises UsageError for a log of another search and for engines of other models.
    """
    whole_number("steps", steps)
    whole_number("repeats", repeats)
    if repeats < 1:
        raise UsageError(f"Expected at least one run per set but got repeats={repeats}")
    search = Search(engine_a, engine_b, ids, steps, repeats, log, progress)
    everything = frozenset(search.ops)
    found: frozenset[str] = frozenset()
    for unwatched in (False, True):
        trial = partial(search.trial, unwatched=unwatched)
        if trial(found):
            continue
        if not trial(everything):
            return search.culprits("not-found", frozenset())
        fixed = found  # what the watched runs have found stays moved
        rest = [op for op in search.ops if op not in fixed]
        found = fixed | smallest(rest, lambda moved: trial(fixed | moved))  # noqa: B023 - called at once
    if found:
        return search.culprits("found", found)
    if diff(engine_a, engine_b, ids, steps).exit_code:  # no op differs, and the engine does: its plan, graph or batch
        return search.culprits("not-found", found)
    return search.culprits("identical", found)


class Search:
    """Trials of one search, each tried once. ops: those that can move; a fused op only where engine B has it so"""

    def __init__(
        self,
        engine_a: AnyEngine,
        engine_b: AnyEngine,
        ids: Sequence[int],
        steps: int,
        repeats: int,
        log: Path | None,
        progress: Callable[[str], None] | None,
    ) -> None:
        self.a, self.b, self.ids, self.steps = engine_a, engine_b, token_ids(ids), steps
        self.repeats, self.log, self.progress = repeats, log, progress
        self.ops = [op for op in OPS if op not in COMPOSITES or fused(engine_b.ops, op)]
        grafted(engine_a, engine_b, ())  # engines of other models are refused before a log is begun
        header = {"a": engine_a.name, "b": engine_b.name, "model": engine_a.model.digest,
                  "config": arithmetic(engine_a.model), "ids": self.ids, "steps": steps, "repeats": repeats,
                  "version": LOG_VERSION}  # fmt: skip
        self.known = read_log(log, header) if log else {}
        self.trials = self.resumed = 0
        self.forms: Sequence[Form] = OBSERVED

    def trial(self, moved: frozenset[str], unwatched: bool) -> bool:
        """Whether the engines are identical once these ops are engine A's."""
        key = (moved, unwatched)
        if key in self.known:
            self.resumed += 1
            return self.known[key]
        passed = True
        for _ in range(self.repeats):
            self.trials += 1
            mixed = grafted(self.a, self.b, [op for op in self.ops if op not in moved])
            if not (self.same_unwatched(mixed) if unwatched else self.same_watched(mixed)):
                passed = False
                break
        self.known[key] = passed
        if self.log:
            line = {"moved": sorted(moved), "unwatched": unwatched, "identical": passed}
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if self.progress is not None:
            self.progress(f"{counted(len(moved), 'op')} moved: {'identical' if passed else 'differs'}")
        return passed

    def same_watched(self, mixed: AnyEngine) -> bool:
        return diff(self.a, mixed, self.ids, self.steps, unwatched=False).exit_code == 0

    def same_unwatched(self, mixed: AnyEngine) -> bool:
        """Only the forms that differed before are tried again."""
        different = different_forms(mixed, self.feed, self.forms)
        self.forms = different or self.forms
        return not different

    @cached_property
    def feed(self) -> list[list[int]]:
        """The ids of every step, chosen by engine A."""
        lane, feed = Lane("expected", self.a), [self.ids]
        for _ in range(self.steps):
            lane.step(feed[-1])
            if lane.error is not None:
                break
            feed.append([lane.choice])
        return feed

    def culprits(self, verdict: str, ops: frozenset[str]) -> Culprits:
        return Culprits(verdict, tuple(op for op in self.ops if op in ops), self.trials, self.resumed)


def read_log(log: Path, header: dict[str, object]) -> dict[tuple[frozenset[str], bool], bool]:
    """Answers of an earlier search; a new log gets its header. A last line cut short by an interruption is left out."""
    if not log.exists():
        log.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return {}
    known: dict[tuple[frozenset[str], bool], bool] = {}
    try:
        lines = read_bytes(log, LOG).decode("utf-8").splitlines()
        for field, ours, theirs in differences(header, dict(json.loads(lines[0]))):
            raise ValueError(f"it is of another search, of {field}={theirs} where this one has {field}={ours}")
        for number, line in enumerate(lines[1:]):
            try:
                answer = json.loads(line)
            except ValueError:
                if number + 2 == len(lines):
                    break
                raise
            known[frozenset(answer["moved"]), bool(answer["unwatched"])] = bool(answer["identical"])
    except (ModelError, ValueError, LookupError, TypeError, RecursionError) as error:
        said = f"{error!s:.300}"
        raise UsageError(f"Expected the log of this search at {str(log)!r} but {said}; name another --log") from error
    return known
