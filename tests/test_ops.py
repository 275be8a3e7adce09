"""One body, every op table: each op gives the bytes of the oracle, on every engine.

The steps of attention are judged by themselves and as the composite op, and so are the rows that the state
then holds.
"""

from pathlib import Path
from typing import Any

import pytest

import cases
import gnomon
from cases import Case
from gnomon.compare.vectors import read_case, run_case
from gnomon.reference.protocol import Ops

VECTORS = sorted((Path(gnomon.__file__).parent / "vectors").glob("*.json"))


@pytest.mark.parametrize("case", cases.OPS, ids=str)
def test_no_op_differs_from_the_oracle(ops: Ops[Any], case: Case) -> None:
    case.check(ops)


@pytest.mark.parametrize("case", cases.ELEMENTARY, ids=str)
def test_no_elementary_function_differs_from_the_oracle(ops: Ops[Any], case: Case) -> None:
    if case.op not in ops.elementary():
        pytest.skip(f"this engine has no {case.op} yet")
    case.check(ops)


def test_the_package_holds_every_vector_file() -> None:
    assert len(VECTORS) == 67


@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.stem)
def test_no_vector_file_differs(ops: Ops[Any], file: Path) -> None:
    result = run_case(*read_case(file), ops)
    if result.verdict == "NOT RUN":
        pytest.skip(result.detail)
    assert result.verdict == "PASS", result.detail
    assert result.values > 0
