"""Where in a tensor the differing values lie, in words: which rows, heads or columns, where that is a pattern."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.compare.words import joined, ordinal
from gnomon.reference.config import Config

NAMED = 4  # runs of neighbours that are spelled out; more of them are no pattern


@dataclass(frozen=True)
class Axis:
    """size: of the axis; step: how many neighbouring values of the flat layout share one of its places"""

    name: str
    size: int
    step: int


def pattern(shape: Sequence[int], wrong: NDArray[Any], name: str = "", heads: int = 0) -> str:
    """ "only in rows 3 to 7 of 8, heads 1 and 2 of 4 (counted from 0)"; "" where no axis shows a pattern.

    wrong: flat indices in C order; name: of the tensor; heads: that share its second axis of two, 0 where none do
    """
    if len(wrong) < 2:
        return ""  # its index says it all
    said = []
    within = 0  # columns that the heads named before them hold
    for axis in axes(shape, name, heads):
        places = np.unique(wrong // axis.step % axis.size)
        if len(places) == axis.size or (axis.name == "column" and len(places) == within):
            continue
        words = _words(axis, [int(p) for p in places])
        if words:
            said.append(words)
            within = len(places) * axis.step if axis.name == "head" and len(shape) == 2 else within
    return f"only in {', '.join(said)} (counted from 0)" if said else ""


def axes(shape: Sequence[int], name: str, heads: int) -> list[Axis]:
    """Every axis of more than one place; of two axes whose second is shared by heads, three."""
    steps = [int(np.prod(shape[i + 1 :], dtype=np.int64)) for i in range(len(shape))]
    names = {1: ["value"], 2: ["row", "column"], 3: ["row", "head", "column"]}.get(len(shape))
    if len(shape) == 3 and name.endswith("rec.delta"):
        names = ["head", "row", "column"]
    if len(shape) == 2 and name.endswith((".denom", "_scale", ".delta.beta", ".delta.decay")):
        names = ["row", "head"]
    names = names or [f"index of axis {i}" for i in range(len(shape))]
    found = [Axis(n, size, step) for n, size, step in zip(names, shape, steps, strict=True)]
    if len(shape) == 2 and heads > 1 and names[1] == "column" and shape[1] % heads == 0:
        found.insert(1, Axis("head", heads, shape[1] // heads))
    return [axis for axis in found if axis.size > 1]


@dataclass(frozen=True)
class Heads:
    """How many heads share a row of the tensors of a model; 0 where that is not known."""

    query: int = 0
    kv: int = 0
    delta_key: int = 0
    delta_value: int = 0

    @staticmethod
    def of(config: Config) -> "Heads":
        delta = (0, 0) if config.delta is None else (config.delta.key_heads, config.delta.value_heads)
        return Heads(config.heads, config.kv_heads, *delta)

    @staticmethod
    def seen(shapes: Iterable[tuple[str, tuple[int, ...]]]) -> "Heads":
        """From names and shapes of a trace: attention's denominators and the exported state have an axis of heads."""
        found = Heads()
        for name, shape in shapes:
            if name.endswith(".attn.denom") and len(shape) == 2:
                found = replace(found, query=shape[1])
            elif name.endswith(".kv.k") and len(shape) == 3:
                found = replace(found, kv=shape[1])
            elif name.endswith(".rec.delta") and len(shape) == 3:
                found = replace(found, delta_value=shape[0])
        return found

    def in_row(self, name: str) -> int:
        """Of a tensor [rows, width] by its name; 0 where no heads share its rows."""
        group, _, last = name.rpartition(".")
        if group.endswith(".kv") or (group.endswith(".attn") and last[:1] in "kv"):
            return self.kv
        if group.endswith(".attn") and (last[:1] == "q" or last in ("z", "gate", "gated")):
            return self.query
        if group.endswith(".delta"):
            return self.delta_key if last in ("q", "k") else self.delta_value if last in ("v", "z", "o", "gated") else 0
        return 0


NO_HEADS = Heads()


def _words(axis: Axis, places: Sequence[int]) -> str:
    """The places of one axis: neighbours as "3 to 7", equal distances as "every 4th"; "" for no pattern."""
    step = places[1] - places[0] if len(places) > 2 else 0
    if step > 1 and list(places) == list(range(places[0], axis.size, step)) and places[0] < step:
        return f"every {ordinal(step)} {axis.name} of {axis.size}, from {places[0]} on"
    runs: list[list[int]] = []
    for p in places:
        if runs and p == runs[-1][-1] + 1:
            runs[-1].append(p)
        else:
            runs.append([p])
    if len(runs) > NAMED:
        return ""
    told = joined([word for r in runs for word in (map(str, r) if len(r) < 3 else [f"{r[0]} to {r[-1]}"])])
    plural = "indices" + axis.name[5:] if axis.name.startswith("index") else f"{axis.name}s"
    return f"{axis.name if len(places) == 1 else plural} {told} of {axis.size}"
