"""Taking a state back after rows that should not be in it.

Keys and values are cut. A recurrent layer cannot run backwards, so a copy is kept from before the rows, and those of
them that stay are run again on it. Nothing is copied where nothing is recurrent.
"""

from typing import Any

from gnomon.reference.engine import Engine
from gnomon.reference.protocol import Rows
from gnomon.reference.state import State


def keep(engine: Engine[Any], state: State) -> State | None:
    """What `back` will need to come back to this length or a later one; None where cutting is enough."""
    return engine.fork(state) if "delta" in engine.model.config.kinds else None


def back(engine: Engine[Any], state: State, kept: State | None, length: int) -> tuple[State, int]:
    """The state with its first `length` positions, and how many rows were run again for it, in one step.

    kept: what `keep` gave, not longer than `length`; the state given is used up
    """
    if kept is None:
        engine.truncate(state, length)
        return state, 0
    again = state.ids[kept.length : length]
    if again:
        engine.step(Rows.of([(kept, again)]), "none")
    return kept, len(again)


def common(a: list[int], b: list[int]) -> int:
    """Length of the longest common beginning."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
