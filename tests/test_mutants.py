"""The op cases have teeth: each planted fault makes at least one case of its op fail."""

import numpy as np
import pytest

import cases
from gnomon.reference.numpy_ops import NumpyOps
from mutants import MUTANTS, SOUND, Change


def cases_that_fail(op: str, change: Change) -> list[str]:
    mutant = type("Mutant", (NumpyOps,), change)()
    failed = []
    for case in cases.OPS + cases.ELEMENTARY:
        if case.op == op:
            try:
                with np.errstate(all="ignore"):  # a faulty op may overflow
                    case.check(mutant)
            except AssertionError:
                failed.append(str(case))
    return failed


@pytest.mark.parametrize("name", MUTANTS)
def test_no_mutant_survives(name: str) -> None:
    assert cases_that_fail(*MUTANTS[name])


@pytest.mark.parametrize("name", SOUND)
def test_no_mutant_dies_of_the_way_it_is_written(name: str) -> None:
    assert cases_that_fail(*SOUND[name]) == []
