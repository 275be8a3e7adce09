"""Orders of addition: which terms run side by side, and how the partial sums are joined."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]
Sums = NDArray[Any]
Add = Callable[[Sums, Sums], Sums]
Step = Callable[[Sums, Index], Sums]


@dataclass(frozen=True, eq=False)
class Plan:
    """steps [S, L]: in step s, lane l adds term steps[s, l] (-1: nothing), every lane from +0.0, s ascending.
    join: how the L sums become one: "in order" from +0.0, or a tree. tail: terms then added one by one."""

    steps: Index
    join: str
    tail: Index

    def run(self, start: Sums, step: Step, add: Add) -> Sums:
        """start: L zeros [L, ...]; step(acc, terms) adds one term to each lane; add joins two sums -> [...]"""
        acc = start
        for terms in self.steps:
            acc = step(acc, terms)
        total = joined(acc, self.join, add)
        for term in self.tail:
            total = step(total[None], np.array([term]))[0]
        return total

    def sum_at_once(self, terms: Callable[[Index], Sums], dtype: Any) -> Sums:
        """The same by plain additions of the type, all steps in one call: an accumulation adds in order."""

        def down(t: Sums) -> Sums:
            t = t.astype(dtype)
            t[0] += 0.0  # from +0.0
            last: Sums = np.add.accumulate(t, axis=0)[-1]
            return last

        total = joined(down(terms(self.steps)), self.join, np.add)
        return down(np.concatenate([total[None], terms(self.tail)])) if len(self.tail) else total


def plan(order: str, K: int) -> Plan:
    """The plan of an order, named as in ORDERS, for K terms."""
    words = order.split()
    terms = np.arange(K)
    if "reversed" in words:
        terms = terms[::-1]
    if "pairwise" in words:
        return Plan(terms[None], words[-1], terms[:0])
    if "lanes" in words:
        width = int(words[words.index("lanes") + 1])
        whole = K - K % width if "after" in words else K
        return Plan(rows_of(terms[:whole], width), words[2], terms[whole:])
    size = int(words[words.index("chunk") + 1]) if "chunk" in words else K
    return Plan(rows_of(terms, min(size, K)).T, "in order", terms[:0])


def rows_of(terms: Index, width: int) -> Index:
    """[K] -> [ceil(K / width), width], filled up with -1"""
    count = -(-len(terms) // width)
    out = np.full(count * width, -1, np.intp)
    out[: len(terms)] = terms
    return out.reshape(count, width)


def joined(sums: Sums, join: str, add: Add) -> Sums:
    """[L, ...] partial sums -> [...]"""
    if join == "in order":
        total: Sums = np.zeros_like(sums[0])
        for part in sums:
            total = add(total, part)
        return total
    if join == "halves":
        return halves(sums, add)
    while len(sums) > 1:
        if join == "neighbours":  # (0, 1), (2, 3), ...; an odd one is carried up
            even = len(sums) - len(sums) % 2
            sums = np.concatenate([add(sums[0:even:2], sums[1:even:2]), sums[even:]])
        else:  # folded: (0, h), (1, h + 1), ... with h the largest power of two below their number
            half = 1 << ((len(sums) - 1).bit_length() - 1)
            rest = len(sums) - half
            sums = np.concatenate([add(sums[:rest], sums[half:]), sums[rest:half]])
    first: Sums = sums[0]
    return first


def halves(sums: Sums, add: Add) -> Sums:
    """Split in the middle, add each side in the same way, add the two."""
    if len(sums) == 1:
        first: Sums = sums[0]
        return first
    middle = len(sums) // 2
    return add(halves(sums[:middle], add), halves(sums[middle:], add))


CONTRACT = "chunk 128"
ORDERS = (
    "sequential",
    "reversed sequential",
    "reversed chunk 128",
    *(f"chunk {size}" for size in (32, 64, 256, 512)),
    *(f"pairwise {tree}" for tree in ("neighbours", "halves", "folded")),
    *(
        f"lanes {width} {tree}{tail}"
        for width in (4, 8, 16, 32)
        for tree in ("folded", "neighbours")
        for tail in ("", " tail after")
    ),
)


@cache
def orders(K: int) -> tuple[str, ...]:
    """The orders that differ from the contract's and from each other for K terms."""
    seen = {signature(CONTRACT, K)}
    out = []
    for order in ORDERS:
        key = signature(order, K)
        if key not in seen:
            seen.add(key)
            out.append(order)
    return tuple(out)


def signature(order: str, K: int) -> int:
    """A number for the tree of additions: two orders that add the same pairs get the same one."""
    terms = np.append(np.arange(1, K + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15), np.uint64(0))
    made = plan(order, K)
    start = np.zeros(made.steps.shape[1], np.uint64)
    return int(made.run(start, lambda acc, i: mix(acc, terms[i]), mix))


def mix(a: Sums, b: Sums) -> Sums:
    """Of two hashes; it commutes, 0 is neutral, and it does not associate. Integers wrap around."""
    both = (a + b) * np.uint64(0xBF58476D1CE4E5B9) ^ (a * b) * np.uint64(0x94D049BB133111EB)
    both = both ^ (both >> np.uint64(29))
    return np.where(a == 0, b, np.where(b == 0, a, both))
