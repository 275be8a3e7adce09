"""Which ops of the second engine are to blame: the smallest set that, moved to the first, makes the two runs identical.

Delta debugging (Zeller and Hildebrandt 2002) over op names. Ops that are wrong together, or that hide each other, are
found together. Every trial goes into a log; a search that was cut short goes on from it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon.compare.diff import diff
from gnomon.compare.isolate import OPS, grafted
from gnomon.compare.lane import AnyEngine
from gnomon.compare.words import counted
from gnomon.reference.errors import UsageError
from gnomon.reference.identity import arithmetic, differences
from gnomon.reference.token_ids import token_ids

Trial = Callable[[frozenset[str]], bool]  # ops moved to the first engine -> the runs are identical


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
    """Search with runs of `ids` and `steps` greedy tokens. repeats: a set passes only if it is identical each time, for
    faults that come and go. log: JSON lines, one per set tried. Raises UsageError for a log of another search and
    for engines of other models."""
    ids = token_ids(ids)
    if repeats < 1:
        raise UsageError(f"Expected at least one run per set but got repeats={repeats}")
    grafted(engine_a, engine_b, ())  # engines of other models are refused before a log is begun
    header = {"a": engine_a.name, "b": engine_b.name, "model": engine_a.model.digest,
              "config": arithmetic(engine_a.model), "ids": ids, "steps": steps, "repeats": repeats}  # fmt: skip
    known = read_log(log, header) if log else {}
    counts = {"trials": 0, "resumed": 0}

    def trial(moved: frozenset[str]) -> bool:
        if moved in known:
            counts["resumed"] += 1
            return known[moved]
        passed = True
        for _ in range(repeats):
            counts["trials"] += 1
            mixed = grafted(engine_a, engine_b, [op for op in OPS if op not in moved])
            if diff(engine_a, mixed, ids, steps).exit_code:
                passed = False
                break
        known[moved] = passed
        if log:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"moved": sorted(moved), "identical": passed}) + "\n")
        if progress is not None:
            progress(f"{counted(len(moved), 'op')} moved: {'identical' if passed else 'differs'}")
        return passed

    if trial(frozenset()):
        return Culprits("identical", (), **counts)
    if not trial(frozenset(OPS)):
        return Culprits("not-found", (), **counts)
    found = smallest(list(OPS), trial)
    return Culprits("found", tuple(op for op in OPS if op in found), **counts)


def smallest(items: list[str], passes: Trial) -> frozenset[str]:
    """A 1-minimal subset that passes: without any one of its items it does not. `items` as a whole must pass."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        subsets = [items[i : i + size] for i in range(0, len(items), size)]
        rests = [[item for item in items if item not in subset] for subset in subsets]
        for smaller, next_parts in [(s, 2) for s in subsets] + [(r, max(parts - 1, 2)) for r in rests]:
            if len(smaller) < len(items) and passes(frozenset(smaller)):
                items, parts = smaller, next_parts
                break
        else:
            if parts >= len(items):
                break
            parts = min(2 * parts, len(items))
    return frozenset(items)


def read_log(log: Path, header: dict[str, object]) -> dict[frozenset[str], bool]:
    """Answers of an earlier search; a new log gets its header. A last line cut short by an interruption is left out."""
    if not log.exists():
        log.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return {}
    known: dict[frozenset[str], bool] = {}
    lines = log.read_text(encoding="utf-8").splitlines()
    try:
        for field, ours, theirs in differences(header, dict(json.loads(lines[0]))):
            raise ValueError(f"it is of another search, of {field}={theirs} where this one has {field}={ours}")
        for number, line in enumerate(lines[1:]):
            try:
                answer = json.loads(line)
            except ValueError:
                if number + 2 == len(lines):
                    break
                raise
            known[frozenset(answer["moved"])] = bool(answer["identical"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(f"Expected the log of this search at {str(log)!r} but {error}; name another --log") from error
    return known
