"""The assertion for tests: the same bytes, or the mismatch spelled out."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gnomon.compare.bits import Uint16
from gnomon.compare.verdict import judge


def assert_same_bytes(
    got: ArrayLike, expected: ArrayLike, name: str = "", *, uint16: Uint16 = "u16", sparse: bool = False
) -> None:
    """Raise AssertionError unless both hold the same bytes, of one type and shape, finite, not mostly zero.

    name:   of the case; a last part "exp" or "scores" sets the rule of liveness, see `rule_of`
    uint16: what uint16 arrays hold: "u16" or "bf16"
    sparse: zeros are what is expected here; without it fewer than 1/8 non-zero values fail as `dead`
    Raises UsageError for arrays that hold no numbers.
    """
    __tracebackhide__ = True
    observed: np.ndarray[Any, Any] = np.asarray(got)
    found = judge(observed, np.asarray(expected), name, uint16=uint16, rule="count" if sparse else None)
    if found.verdict != "identical":
        hint = "; pass sparse=True where zeros are expected" if found.verdict == "dead" else ""
        raise AssertionError(found.text() + hint)
