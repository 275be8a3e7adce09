"""Engines that compute otherwise when they are watched."""

from typing import Any

from gnomon.gates.faults.breaking import fault, flipped, put
from gnomon.gates.gate import AnyEngine
from gnomon.reference.protocol import F32, Rows, Tap


def under(engine: AnyEngine, wanted: str, change: Any) -> None:
    """Steps whose tap wants `wanted` and no more than that go through `change(rows, want, tap)`."""
    step = engine.step

    def other(rows: Rows, want: Any = "last", tap: Tap | None = None) -> F32:
        kind = "nothing" if tap is None else "everything" if tap.wants("embed") else "boundaries"
        return change(step, rows, want, tap) if kind == wanted else step(rows, want, tap)

    put(engine, "step", other)


@fault
def flips_without_a_tap(engine: AnyEngine) -> None:
    under(engine, "nothing", lambda step, *asked: flipped(step(*asked)))


@fault
def flips_under_all_taps(engine: AnyEngine) -> None:
    under(engine, "everything", lambda step, *asked: flipped(step(*asked)))


class Otherwise:
    """A tap that passes on what it sees with one bit changed."""

    def __init__(self, tap: Tap) -> None:
        self.wants = tap.wants
        self.tap = tap

    def __call__(self, name: str, value: F32, *more: Any) -> None:
        self.tap(name, flipped(value), *more)


@fault
def shows_otherwise(engine: AnyEngine) -> None:
    under(engine, "boundaries", lambda step, rows, want, tap: step(rows, want, Otherwise(tap)))
