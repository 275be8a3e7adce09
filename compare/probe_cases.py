"""A battery of known answers: cases of one or several operations, and what the observed bits are called."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.device import Device, Operation

Array = NDArray[Any]
Verdict = Literal["PASS", "FAIL", "NOT RUN", "told"]
TAIL = 7  # of all cases, so many are run by themselves: the end of a vector loop may compute otherwise than its body


@dataclass(frozen=True, eq=False)
class Cases:
    """inputs: arrays [n] of one operation; expected: its result, as the operation gives it, [n]
    word: what a device that gives it does; others: what it does instead, by the results of that"""

    operation: str
    inputs: tuple[Array, ...]
    expected: Array
    word: str = "exact"
    others: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Battery:
    """needed: the contract needs the expected word; else it is only told. make(n): about n cases an operation"""

    name: str
    needed: bool
    make: Callable[[int], Sequence[Cases]]


@dataclass(frozen=True)
class Finding:
    """One battery on one way of an engine. word: what the device does; detail: the first case that differs"""

    battery: str
    verdict: Verdict
    word: str
    differ: int = 0
    cases: int = 0
    detail: str = ""


def examine(battery: Battery, device: Device, n: int) -> Finding | None:
    """The battery on one way of an engine; None where the way offers no operation of it.

    FAIL only where the contract needs the answer and the engine computes with the operation.
    """
    found = [(c, run(c, op)) for c in battery.make(n) if (op := device.find(c.operation)) is not None]
    if not found:
        return None
    wrong = [(c, observed, ~same(observed, c.expected)) for c, observed in found]
    differ = sum(int(w.sum()) for _, _, w in wrong)
    used = any(c.operation in device.operations for c, _, w in wrong if w.any())
    verdict: Verdict = ("FAIL" if differ and used else "PASS") if battery.needed else "told"
    if battery.needed and not any(c.operation in device.operations for c, _ in found):
        verdict = "told"
    detail = next((first(c, observed, w) for c, observed, w in wrong if w.any()), "")
    word = spoken([(c.operation, called(c, observed)) for c, observed in found])
    return Finding(battery.name, verdict, word, differ, sum(len(c.expected) for c, _ in found), detail)


def run(cases: Cases, operation: Operation) -> Array:
    """The observed results; those of the last few cases from a call of their own"""
    cut = max(0, len(cases.expected) - TAIL)
    with np.errstate(all="ignore"):
        parts = [np.asarray(operation(*(a[s] for a in cases.inputs))) for s in (slice(cut), slice(cut, None))]
    return np.concatenate([part.reshape(-1) for part in parts])


def bits(x: Array) -> Array:
    """The bytes of numbers as unsigned integers of the same width"""
    return np.ascontiguousarray(x).view(np.dtype(f"u{x.itemsize}"))


def same(observed: Array, expected: Array) -> NDArray[np.bool_]:
    """Equal bits of the same type. The sign of a zero is a battery of its own: the contract never shows it."""
    if observed.shape != expected.shape or observed.dtype != expected.dtype:
        return np.zeros(expected.shape, bool)
    equal: NDArray[np.bool_] = bits(observed) == bits(expected)
    if expected.dtype.kind == "f":  # by bits: a thread that flushes would take a subnormal for zero
        equal |= (bits(observed) << 1 == 0) & (bits(expected) << 1 == 0)
    return equal


def called(cases: Cases, observed: Array) -> str:
    """The word for what was observed"""
    right = same(observed, cases.expected)
    if right.all():
        return cases.word
    known = right
    for word, results in cases.others.items():
        like = same(observed, results)
        if like.all():
            return word
        if (like | right).all():
            return f"partly {word}"
        known = known | like
    return " or ".join(cases.others) if known.all() and cases.others else "differs"


def spoken(words: Sequence[tuple[str, str]]) -> str:
    """One word where all operations agree, else one for each"""
    if len({word for _, word in words}) == 1:
        return words[0][1]
    return ", ".join(f"{operation} {word}" for operation, word in words)


def first(cases: Cases, observed: Array, wrong: NDArray[np.bool_]) -> str:
    """mul_add at [3]: 0x3f800000 0x... => 0x...  expected: 0x..."""
    if (observed.shape, observed.dtype) != (cases.expected.shape, cases.expected.dtype):
        got = f"{observed.dtype} {list(observed.shape)}"
        return f"{cases.operation}: {got}  expected: {cases.expected.dtype} {list(cases.expected.shape)}"
    i = int(np.flatnonzero(wrong)[0])
    inputs = " ".join(hexadecimal(a[i]) for a in cases.inputs)
    got, right = hexadecimal(observed[i]), hexadecimal(cases.expected[i])
    return f"{cases.operation} at [{i}]: {inputs} => {got}  expected: {right}"


def hexadecimal(value: Any) -> str:
    word = bits(np.asarray(value).reshape(1))[0]
    return f"0x{int(word):0{2 * word.itemsize}x}"


def words(f: Finding) -> str:
    """unfused; differs in 812 of 4,096"""
    return f"{f.word} in {f.differ:,} of {f.cases:,}" if f.differ else f.word
