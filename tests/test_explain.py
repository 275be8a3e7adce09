"""`explain` names the cause of a difference: departures planted elsewhere, in scalar Python, each get their name."""

from collections.abc import Callable

import numpy as np
import pytest

import departures
from gnomon.compare.explain import explain
from gnomon.compare.explain.rounding import fma
from gnomon.compare.same import assert_same_bytes
from observations import OBSERVATIONS
from planted_ops import Made


def test_no_fused_multiply_add_rounds_twice() -> None:
    """1 + 2^-23 + 2^-24 - 2^-54 lies just below a tie that float64 cannot tell from it."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(3000).astype(np.float32) for _ in "ab")
    c = -(a * b) * (1 + rng.integers(-3, 4, 3000) * 2.0**-23).astype(np.float32)
    a, b = (np.append(x, np.float32(2.0**-12 * (1 + sign * 2.0**-15))) for x, sign in ((a, 1), (b, -1)))
    c = np.append(c, np.float32(1 + 2.0**-23))
    expected = [departures.fma(*terms) for terms in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    assert expected[-1] == 1 + 2.0**-23
    assert_same_bytes(fma(a, b, c), np.array(expected, np.float32), sparse=True)


@pytest.mark.parametrize(("op", "cause", "make"), OBSERVATIONS, ids=[f"{op}: {cause}" for op, cause, _ in OBSERVATIONS])
def test_no_planted_departure_goes_without_its_name(op: str, cause: str, make: Callable[[], Made]) -> None:
    inputs, numbers, observed = make()
    found = explain(op, inputs, observed, numbers)
    assert found.verdict == "explained", found.text()
    assert [" + ".join(names) for names in found.causes] == cause.split(" | "), found.text()
