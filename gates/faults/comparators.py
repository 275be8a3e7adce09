"""Comparators as they are often written: each lets something pass that is not equal."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gnomon.gates.gate import Array, Compare, Fault, Subject

Lenient = Callable[[Array, Array], bool]


def lenient(equal: Callable[[Array | None, Array | None], bool]) -> Fault:
    """The last comparator says "identical" wherever `equal` does, and otherwise what it said before."""

    def apply(subject: Subject) -> Subject:
        name, honest = list(subject.comparators.items())[-1]

        def compare(observed: Array | None, expected: Array | None) -> str:
            with np.errstate(all="ignore"):
                return "identical" if equal(observed, expected) else honest(observed, expected)

        return with_comparator(subject, name, compare)

    return apply


def rejects_all(subject: Subject) -> Subject:
    return with_comparator(subject, next(iter(subject.comparators)), lambda observed, expected: "differs")


def with_comparator(subject: Subject, name: str, compare: Compare) -> Subject:
    return replace(subject, comparators={**subject.comparators, name: compare})


def on_pairs(equal: Lenient) -> Callable[[Array | None, Array | None], bool]:
    """For two arrays that are there."""
    return lambda o, e: o is not None and e is not None and equal(o, e)


def of_one_shape(equal: Lenient) -> Callable[[Array | None, Array | None], bool]:
    return on_pairs(lambda o, e: o.shape == e.shape and o.size > 0 and equal(o, e))


def both_finite(o: Array, e: Array) -> bool:
    return bool(np.isfinite(o).all() and np.isfinite(e).all())


def alive(o: Array, e: Array) -> bool:
    return both_finite(o, e) and bool((o != 0).all() and (e != 0).all())


equal_with_nan = of_one_shape(lambda o, e: o.dtype == e.dtype and not both_finite(o, e) and np.array_equal(o, e, True))
nothing_to_compare = on_pairs(lambda o, e: o.size == 0 or e.size == 0)
broadcast = on_pairs(lambda o, e: o.shape != e.shape and o.size * e.size > 0 and within(o, e) and bool(np.all(o == e)))
equal_values = of_one_shape(
    lambda o, e: o.dtype == e.dtype and bool(o.any()) and both_finite(o, e) and np.array_equal(o, e)
)
equal_as_float64 = of_one_shape(lambda o, e: o.dtype != e.dtype and np.array_equal(o.astype(float), e.astype(float)))
correlated = of_one_shape(
    lambda o, e: (
        o.dtype == e.dtype and alive(o, e) and o.std() > 0 and bool(np.corrcoef(o.ravel(), e.ravel())[0, 1] > 0.9999)
    )
)
close = of_one_shape(lambda o, e: o.dtype == e.dtype and alive(o, e) and np.allclose(o, e, rtol=1e-5))
equal_norms = of_one_shape(lambda o, e: o.dtype == e.dtype and alive(o, e) and norm(o) == norm(e))
equal_zeros = of_one_shape(lambda o, e: o.dtype == e.dtype and not o.any() and not e.any())


def norm(x: Array) -> float:
    """Of all values, in any order of theirs."""
    return math.fsum(value * value for value in x.astype(np.float64).ravel().tolist())


def either_missing(observed: Array | None, expected: Array | None) -> bool:
    return observed is None or expected is None


def within(o: Array, e: Array) -> bool:
    """Whether the shapes broadcast."""
    try:
        np.broadcast_shapes(o.shape, e.shape)
    except ValueError:
        return False
    return True
