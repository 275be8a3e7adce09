"""Known answers of whole runs: `micro` by the scalar oracle, in every way in which an engine runs it.

A file holds the ids, the digest of each row of logits and those of the final state. An op table that gives every known
answer of an op may still go wrong where ops meet: in plans, in batches, in what a step leaves to the next, from some
number of rows on. Only an engine can be asked that.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gnomon.compare.lane import AnyEngine, Lane
from gnomon.compare.schedule import steps_of
from gnomon.compare.unwatched import LASTING, Everything
from gnomon.compare.vectors import Result
from gnomon.reference.errors import GnomonError


class Way(NamedTuple):
    """schedule: how the ids are cut into steps; behind: other sequences in a batch; ids: how many of those stored"""

    schedule: str = "whole"
    watched: bool = False
    behind: bool = False
    ids: int | None = None


UNEVEN = "4-3-1-2-4-3-1-2-280"
WAYS = {
    "run of micro, unwatched": Way(),
    "run of micro, watched": Way(watched=True),
    "run of micro, unwatched, prompt cut": Way(UNEVEN),
    "run of micro, watched, prompt cut": Way(UNEVEN, watched=True),
    "run of micro, unwatched, ragged batch": Way("ragged", ids=30),
    "run of micro, unwatched, in a batch": Way("256-44", behind=True),
}


def known_runs(engine: AnyEngine, text: str) -> Iterator[Result]:
    """Every way, in order. text: of the file. NOT RUN on an engine of another model than the stored one."""
    stored = json.loads(text)
    for name, way in WAYS.items():
        if engine.model.digest != stored["weights"]:
            yield Result(name, "NOT RUN", 0, f"the known run is of micro but the engine runs {engine.model.name}")
            continue
        lane = Lane("observed", engine, way.schedule)
        steps = steps_of(stored["ids"][: way.ids], way.schedule)
        if way.behind:
            lane.behind(len(steps[0]), 2 * len(steps[0]), LASTING)
        try:
            problem, values = answered(lane, steps, stored["rows"], None if way.ids else stored["state"], way.watched)
        except GnomonError as error:
            problem, values = f"{type(error).__name__}: {error}", 0
        yield Result(name, "FAIL" if problem else "PASS", 0 if problem else values, problem)


def answered(
    lane: Lane, steps: Sequence[list[int]], rows: Sequence[str], state: Mapping[str, str] | None, watched: bool
) -> tuple[str, int]:
    """What is wrong first, empty where nothing is, and the values that were compared. state: where the end is stored"""
    values = 0
    for number, ids in enumerate(steps):
        lane.step(ids, Everything() if watched else None)
        if lane.logits is None:
            return f"step {number} ({lane.rows} rows in all): {lane.error}", values
        for at, row in enumerate(lane.logits, start=lane.start):
            if digest(row) != rows[at]:
                return f"logits at position {at} are not those stored (step {number}, {lane.rows} rows in all)", values
            values += row.size
    if state is None:
        return "", values
    exported = lane.engine.export(lane.state)
    for name in (*state, *(name for name in exported if name not in state)):
        if name not in exported or name not in state:
            return f"{name} is {'missing' if name in state else 'not among the stored arrays'}", values
        if digest(exported[name]) != state[name]:
            return f"{name} after {len(steps)} steps is not the stored one", values
        values += exported[name].size
    return "", values


def digest(array: Any) -> str:
    """SHA-256 of little-endian f32 in C order."""
    return hashlib.sha256(np.ascontiguousarray(array, "<f4").tobytes()).hexdigest()
