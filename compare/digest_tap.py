"""Taps that compare needs: one keeps a digest of every tensor, one keeps chosen tensors.

Both want every name. How an engine computes may depend on which names are wanted (a fused path opens up), so
the run that captures must want exactly what the run that found the difference wanted.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.verdict import Measure, measure


class Key(NamedTuple):
    """What tensors of a step are matched by. pos: [first, one past the last) absolute position"""

    name: str
    pos: tuple[int, int]


class Shown(NamedTuple):
    """One tensor that a tap was shown, without its values."""

    measure: Measure
    op: str
    inputs: tuple[str, ...]


class DigestTap:
    """Keeps digest, shape and liveness of everything it is shown, in execution order."""

    def __init__(self) -> None:
        self.shown: dict[Key, Shown] = {}

    def wants(self, name: str) -> bool:
        return True

    def __call__(
        self, name: str, value: NDArray[Any], pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]
    ) -> None:
        self.shown[_new_key(self.shown, name, pos)] = Shown(measure(value, name), op, inputs)


class CaptureTap:
    """Keeps the tensors of the names in `keep`, under the same keys."""

    def __init__(self, keep: Collection[str] = ()) -> None:
        self.keep = keep
        self.arrays: dict[Key, NDArray[Any]] = {}

    def wants(self, name: str) -> bool:
        return True

    def __call__(
        self, name: str, value: NDArray[Any], pos: NDArray[np.int64], op: str, inputs: tuple[str, ...]
    ) -> None:
        if name in self.keep:
            self.arrays[_new_key(self.arrays, name, pos)] = value


def _new_key(taken: Collection[Key], name: str, pos: NDArray[np.int64]) -> Key:
    """A second tensor of one name and position must not hide the first: it becomes `name#2`."""
    span = (int(pos[0]), int(pos[-1]) + 1) if len(pos) else (0, 0)
    key, nth = Key(name, span), 1
    while key in taken:
        nth += 1
        key = Key(f"{name}#{nth}", span)
    return key
