"""The pytest plugin: what the terminal shows of a mismatch, a failing test shows too.

`same_bytes` is a fixture: `assert_same_bytes`, which names a case after its test where the test gives it no name.
A test that fails while it holds a report that is not identical gets that report as a section of its own, so
`assert report.exit_code == 0` tells more than that 1 is not 0.
"""

from collections.abc import Generator
from types import TracebackType
from typing import Any, Protocol

import pytest
from numpy.typing import ArrayLike

from gnomon.compare.bits import Uint16
from gnomon.compare.report import Report
from gnomon.compare.same import assert_same_bytes


class SameBytes(Protocol):
    """The type of the fixture; arguments as of `assert_same_bytes`."""

    def __call__(
        self, got: ArrayLike, expected: ArrayLike, name: str = "", *, uint16: Uint16 = "u16", sparse: bool = False
    ) -> None: ...


@pytest.fixture
def same_bytes(request: pytest.FixtureRequest) -> SameBytes:
    """Fail unless two arrays hold the same bytes: same_bytes(got, expected)."""
    test: str = request.node.name

    def check(
        got: ArrayLike, expected: ArrayLike, name: str = "", *, uint16: Uint16 = "u16", sparse: bool = False
    ) -> None:
        __tracebackhide__ = True
        assert_same_bytes(got, expected, name or test, uint16=uint16, sparse=sparse)

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the reports that a failed test holds."""
    outcome = yield
    if outcome.failed and call.excinfo is not None:
        for report in _held(call.excinfo.tb):
            outcome.sections.append(("gnomon report", report.text()))
    return outcome


def _held(tb: TracebackType | None) -> list[Report]:
    """Reports that are not identical, each once: variables of the frames that failed, and values inside the assertion,
    which pytest keeps as variables, too."""
    found: dict[int, Report] = {}
    while tb is not None:
        held = (v for v in tb.tb_frame.f_locals.values() if isinstance(v, Report) and v.exit_code != 0)
        found |= {id(report): report for report in held}
        tb = tb.tb_next
    return list(found.values())
