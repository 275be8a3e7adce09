"""Measurements that flatter."""

from dataclasses import replace
from typing import Any

from gnomon.gates.gate import AnyEngine, Subject

KEPT = 0.02  # of the time that a step takes


def clock_lies(subject: Subject) -> Subject:
    """The clock loses most of the time that steps take."""
    clock, lost = subject.meter.clock, [0.0]

    def engine(*given: Any) -> AnyEngine:
        made = subject.engine(*given)
        step = made.step

        def hurried(*args: Any, **more: Any) -> Any:
            began = clock()
            out = step(*args, **more)
            lost[0] += (clock() - began) * (1 - KEPT)
            return out

        made.step = hurried  # type: ignore[method-assign]
        return made

    return replace(subject, engine=engine, meter=replace(subject.meter, clock=lambda: clock() - lost[0]))


def bytes_doubled(subject: Subject) -> Subject:
    count = subject.meter.weight_bytes
    return replace(subject, meter=replace(subject.meter, weight_bytes=lambda engine: 2 * count(engine)))
