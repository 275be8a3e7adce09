"""A case of the op tests: inputs, how an op table runs them, and what the oracle says about them.

An expected value is computed once, on first use, by the oracle, which shares no line with any engine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from cases.values import F32
from gnomon.compare.same import assert_same_bytes
from gnomon.reference.protocol import Handle, Ops, Rows
from gnomon.reference.weights import Role, Weight
from oracle import f32

Results = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """op: its name; run: the results of an op table, as NumPy arrays; judge: those of the oracle, as lists of f32
    numbers, or as arrays where they are of another type"""

    op: str
    name: str
    run: Callable[[Ops[Any]], Results]
    judge: Callable[[], Results]

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"

    @cached_property
    def expected(self) -> Results:
        found = self.judge().items()
        return {name: x if isinstance(x, np.ndarray) else np.array(x, np.float32) for name, x in found}

    def check(self, ops: Ops[Any]) -> None:
        """AssertionError unless the op table gives the bytes of the oracle."""
        __tracebackhide__ = True
        with np.errstate(over="ignore"):  # as in an engine: the cube of gelu_tanh may overflow
            got = self.run(ops)
        assert got.keys() == self.expected.keys()
        for name, expected in self.expected.items():
            assert_same_bytes(got[name], expected, f"{self} {name}", uint16="bf16", sparse=True)


def in_forms(ops: Ops[Any], arm: str = "f32", kv: str = "f32") -> Ops[Any]:
    """The op table in another arm or kv storage; the test is skipped where it has no such form."""
    if (arm, kv) == ("f32", "f32"):
        return ops
    other = ops.with_forms(arm, kv)
    return pytest.skip(f"this engine has no arm {arm} with kv storage {kv}") if other is None else other


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


def committed(ops: Ops[Any], rows: Rows, *results: Any) -> list[F32]:
    """The results as NumPy arrays, once the step is part of its states."""
    ops.finish(rows, results)
    for span in rows.spans:
        span.state.commit([0] * (span.stop - span.start))
    return [ops.numpy(x) for x in results]


def joined(parts: list[list[float]]) -> list[float]:
    """The heads or groups of a row, side by side."""
    return [value for part in parts for value in part]
