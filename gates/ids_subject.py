"""What the experiment `ids` asks of an engine, so that any engine can join: one sequence, filled, moved, continued.

An engine joins by a class with these members; `gnomon.gates.ids.experiment(subject)` does the rest. Nothing here or
there looks into what `save` gives: its layout, and how it is protected, are the engine's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class RefusedError(Exception):
    """The engine, or the transport around it, does not take a state. The message says what it said."""


@dataclass(frozen=True)
class Counters:
    """What an engine says of its own work since the last `prefill` or `load`, rows of the model.

    restored: taken over from a saved state; computed: run through the model
    """

    restored: int
    computed: int


class IdsSubject(Protocol):
    """An engine with a model on it. It holds one sequence at a time.

    name: engine and model, for the table
    """

    @property
    def name(self) -> str: ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, with whatever the model puts in front."""
        ...

    def prefill(self, ids: Sequence[int]) -> None:
        """Forget the sequence and consume `ids` from position 0. Nothing of an earlier sequence may be used again."""
        ...

    def save(self) -> bytes:
        """The state of the sequence in the form in which this engine moves it, its checksums included."""
        ...

    def load(self, data: bytes) -> None:
        """Forget the sequence and go on from a saved one. Raises RefusedError where the state is not taken; what the
        sequence then is does not matter."""
        ...

    def generate(self, ids: Sequence[int], n: int) -> list[int]:
        """Consume `ids`, then choose n tokens greedily, each consumed before the next: n ids, whatever ends a text."""
        ...

    def counters(self) -> Counters:
        """As the engine itself counts."""
        ...

    def exchange(self, data: bytes) -> bytes:
        """A saved state in which keys and values have changed places, in every layer, for all positions; every checksum
        made again, so that only one who knows the right bytes can tell."""
        ...

    def flip(self, data: bytes) -> bytes:
        """A saved state with one bit of one stored key or value changed, and nothing made again."""
        ...
