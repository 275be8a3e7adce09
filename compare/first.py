"""The first divergence: run both engines again, capture that tensor and its inputs, judge them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnomon.compare.digest_tap import Key
from gnomon.compare.lane import UINT16, AnyEngine, Array, Lane
from gnomon.compare.record import FirstDivergence, Input, Problem, Record, Side, Tensor
from gnomon.compare.verdict import INCOMPARABLE, Measure, judge, measure
from gnomon.compare.where import Heads


@dataclass(frozen=True)
class Captured:
    """tensor: None where this side does not have it; inputs: the first tap of each name"""

    side: Side
    engine: AnyEngine
    tensor: Array | None
    inputs: dict[str, Array]


def first_unequal(records: Sequence[Record]) -> Tensor | None:
    """The first tensor whose values differ; where there is none, the first that cannot be compared."""
    unequal = [r for r in records if isinstance(r, Tensor) and r.verdict != "identical"]
    return next((r for r in unequal if r.verdict not in INCOMPARABLE), unequal[0] if unequal else None)


def explain(
    record: Tensor,
    expected: AnyEngine,
    observed: AnyEngine,
    feed: Sequence[list[int]],
    command: str,
    schedule: str = "whole",
) -> tuple[Tensor, list[Record]]:
    """The record with the verdict its values allow; its card, with the distances of all values; a problem where a side
    did not repeat itself.

    feed: the ids of every step, as both engines ran them
    """
    e = _run_again("expected", expected, record, feed, schedule)
    o = _run_again("observed", observed, record, feed, schedule)
    found = judge(
        o.tensor,
        e.tensor,
        record.name,
        uint16=UINT16[record.kind],
        op=record.op,
        inputs=record.inputs,
        command=command,
        heads=Heads.of(expected.model.config).in_row(record.name),
    )
    problems = [p for side in (e, o) if (p := _not_repeated(side, record))]
    if not problems:
        record = replace(record, verdict=found.verdict, detail=found.detail)
    index = found.mismatch.first[0].index if found.mismatch else ()
    card = FirstDivergence(
        seq=record.seq,
        step=record.step,
        tap=record.name,
        pos=record.pos,
        position=record.pos[0] + index[0] if index else None,
        op=record.op,
        inputs=tuple(_judge_input(name, e, o) for name in record.inputs),
        verdict=record.verdict,
        detail=record.detail,
        mismatch=found.mismatch,
        schedule=schedule,
    )
    return record, [*problems, card, *([found.histogram] if found.histogram else [])]


def _run_again(side: Side, engine: AnyEngine, record: Tensor, feed: Sequence[list[int]], schedule: str) -> Captured:
    lane = Lane(side, engine, schedule)
    for ids in feed[: record.step]:
        lane.capture(ids)
    taps = lane.capture(feed[record.step], {record.name, *record.inputs})
    inputs = {key.name: array for key, array in reversed(taps.items()) if key.name in record.inputs}
    key = Key(record.name, record.pos)
    if record.kind == "tap":
        return Captured(side, engine, taps.get(key), inputs)
    results = lane.results(record.kind == "state") if lane.error is None else {}
    return Captured(side, engine, results.get((record.kind, key)), inputs)


def _judge_input(name: str, e: Captured, o: Captured) -> Input:
    if name in e.engine.model.weights:
        return Input(name, "weight", "identical")
    if name not in e.inputs and name not in o.inputs:
        return Input(name, "unseen", "not-run")
    return Input(name, "tap", judge(o.inputs.get(name), e.inputs.get(name), name).verdict)


def _not_repeated(side: Captured, record: Tensor) -> Problem | None:
    """A second run of the same tokens must give the same tensor."""
    before: Measure | None = getattr(record, side.side)
    again = None if side.tensor is None else measure(side.tensor, record.name, UINT16[record.kind])
    if before == again:
        return None
    message = (
        f"Expected engine {side.engine.name} to repeat itself but {record.name} of step {record.step} "
        "came out otherwise when the same tokens ran again"
    )
    return Problem(record.step, side.side, "differs", message)
