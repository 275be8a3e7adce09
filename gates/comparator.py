"""The comparison layer itself: pairs that it must reject, pairs that it must accept."""

import numpy as np

from gnomon.gates.faults import comparators as broken
from gnomon.gates.gate import Array, Gate, Header, Outcome, Subject, VoidError

HEADER = Header(
    name="comparator",
    question="Does every way to compare two tensors reject what is not equal, alive and finite, and accept what is?",
    instrument="pairs of arrays through each comparator",
    threshold="every bad pair gets another word than identical, every good pair gets identical",
    disproof="a bad pair that is not among these",
    void="no comparator",
    numbers={"size": 24},
)


def run(subject: Subject) -> Outcome:
    if not subject.comparators:
        raise VoidError("no comparator")
    good, bad = good_pairs(), bad_pairs()
    for name, compare in subject.comparators.items():
        for what, (observed, expected) in bad.items():
            if compare(observed, expected) == "identical":
                return Outcome("FAIL", f"{name} calls this pair identical: {what}")
        for what, (observed, expected) in good.items():
            word = compare(observed, expected)
            if word != "identical":
                return Outcome("FAIL", f"{name} calls this pair {word}: {what}")
    return Outcome("PASS", "", {"comparators": len(subject.comparators), "rejected": len(bad), "accepted": len(good)})


def good_pairs() -> dict[str, tuple[Array, Array]]:
    x = live()
    return {
        "a copy": (x.copy(), x),
        "another memory order": (np.asfortranarray(x), x),
        "half of it +0.0 on both sides": (np.where(x > 0, x, np.float32(0.0)),) * 2,
        "bf16 patterns": ((x.view(np.uint32) >> 16).astype(np.uint16),) * 2,
        "int8": (np.arange(-9, 9, dtype=np.int8),) * 2,
    }


def bad_pairs() -> dict[str, tuple[Array | None, Array | None]]:
    """observed, expected"""
    x = live()
    zero = changed(x, 3, 0.0)
    nan, inf = changed(x, 3, np.nan), changed(x, 3, np.inf)
    empty = np.empty((0, 4), np.float32)
    return {
        "NaN on one side": (nan, x),
        "the same NaN on both sides": (nan.copy(), nan),
        "the same infinity on both sides": (inf.copy(), inf),
        "empty on both sides": (empty.copy(), empty),
        "empty on one side": (empty, x),
        "a row for a matrix": (x[:1], np.repeat(x[:1], 4, axis=0)),
        "a column for a matrix": (x[:, :1], np.repeat(x[:, :1], 6, axis=1)),
        "a scalar for a vector": (np.float32(1.5) + np.zeros((), np.float32), np.full(4, 1.5, np.float32)),
        "another shape of the same bytes": (x.reshape(6, 4), x),
        "-0.0 for 0.0": (changed(x, 3, -0.0), zero),
        "float64 for float32": (x.astype(np.float64), x),
        "int32 patterns for float32": (x.view(np.int32), x),
        "all zero on both sides": (np.zeros_like(x), np.zeros_like(x)),
        "a constant for another constant": (np.full_like(x, 2.0), np.full_like(x, 3.0)),
        "one and a half times as large": (x * np.float32(1.5), x),
        "shifted by a constant": (x + np.float32(0.25), x),
        "one bit": (np.nextafter(x, np.float32(9.0)), x),
        "one bit of one value": (changed(x, 7, np.nextafter(x.reshape(-1)[7], np.float32(9.0))), x),
        "two rows exchanged": (x[[1, 0, 2, 3]], x),
        "two signs exchanged": (x * np.where(np.arange(6) < 2, -1, 1).astype(np.float32), x),
        "missing": (None, x),
        "extra": (x, None),
        "neither": (None, None),
    }


def live() -> Array:
    """f32 [4, 6], none of them zero, from exact steps"""
    n = HEADER.numbers["size"]
    x: Array = ((np.arange(n) * 37 % 29 - 14.5) / 8.0).astype(np.float32).reshape(4, n // 4)
    return x


def changed(x: Array, index: int, value: float) -> Array:
    """x with one value replaced."""
    out = x.copy()
    out.reshape(-1)[index] = value
    return out


GATE = Gate(
    HEADER,
    run,
    {
        "NaN passes": (broken.lenient(broken.equal_with_nan), "the same NaN on both sides"),
        "empty passes": (broken.lenient(broken.nothing_to_compare), "empty on both sides"),
        "broadcast passes": (broken.lenient(broken.broadcast), "a row for a matrix"),
        "-0.0 equals 0.0": (broken.lenient(broken.equal_values), "-0.0 for 0.0"),
        "float64 against float32 passes": (broken.lenient(broken.equal_as_float64), "float64 for float32"),
        "a constant correlates": (broken.lenient(broken.correlated), "one and a half times as large"),
        "a tolerance": (broken.lenient(broken.close), "one bit"),
        "norms are compared": (broken.lenient(broken.equal_norms), "two rows exchanged"),
        "zeros pass": (broken.lenient(broken.equal_zeros), "all zero on both sides"),
        "missing passes": (broken.lenient(broken.either_missing), "missing"),
        "nothing is ever equal": (broken.rejects_all, "calls this pair differs: a copy"),
    },
    per_engine=False,
)
