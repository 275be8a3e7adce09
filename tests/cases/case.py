"""A case of the op tests: inputs, how an op table runs them, and what the oracle says about them.

An expected value is computed once, on first use, by the oracle, which shares no line with any engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from oracle import f32

from cases.values import F32
from gnomon.compare.same import assert_same_bytes
from gnomon.reference.protocol import Handle, Ops, Rows
from gnomon.reference.weights import Role, Weight

Results = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """op: its name; run: the results of an op table, as NumPy arrays; judge: those of the oracle, as lists"""

    op: str
    name: str
    run: Callable[[Ops[Any]], Results]
    judge: Callable[[], Results]

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"

    @cached_property
    def expected(self) -> dict[str, F32]:
        return {name: np.array(value, np.float32) for name, value in self.judge().items()}

    def check(self, ops: Ops[Any]) -> None:
        """AssertionError unless the op table gives the bytes of the oracle."""
        __tracebackhide__ = True
        with np.errstate(over="ignore"):  # as in an engine: the cube of gelu_tanh may overflow
            got = self.run(ops)
        assert got.keys() == self.expected.keys()
        for name, expected in self.expected.items():
            assert_same_bytes(got[name], expected, f"{self} {name}", sparse=True)


def pack(ops: Ops[Any], values: F32, role: Role) -> Handle:
    """A weight handle from f32 values."""
    data = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(len(values), -1)
    return ops.pack(Weight("w", "F32", values.shape, data, role))


def loaded(w: F32) -> Any:
    """The weight after loading, for the oracle."""
    return np.array([f32.settle(x) for x in w.reshape(-1).tolist()]).reshape(w.shape).tolist()


def rows_at(*pos: int) -> Rows:
    """Rows for an op that never sees a state."""
    return Rows(np.zeros(len(pos), np.int32), np.array(pos, np.int64), ())


def joined(parts: list[list[float]]) -> list[float]:
    """The heads or groups of a row, side by side."""
    return [value for part in parts for value in part]
