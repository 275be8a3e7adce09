"""One instruction of the kernel op tables, before anything is known of how it will run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gnomon.reference.ops.rope import RopeTables
from gnomon.reference.protocol import Handle, Rows

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, eq=False)
class Op(Generic[A]):
    """An op on `inputs`, at most five of them, giving [rows, width].

    n, f, weights, form: sizes, scale or epsilon, weights and their format, as the op reads them (kernels/host_main.cpp)
    rows: where it needs ids, positions or states; layer: whose states; out: written instead of something new;
    tables: rotations of the rows' positions
    """

    name: str
    inputs: Sequence[A | None]
    width: int
    n: Sequence[int] = ()
    f: Sequence[float] = ()
    weights: Sequence[Handle] = ()
    form: int = 0
    rows: Rows | None = None
    layer: int = 0
    out: A | None = None
    tables: RopeTables | None = None

    def on(self, inputs: Sequence[B | None], out: B, rows: Rows, tables: RopeTables | None) -> "Op[B]":
        """The same instruction on other arrays and another step."""
        return Op(
            self.name, inputs, self.width, self.n, self.f, self.weights, self.form, rows, self.layer, out, tables
        )  # fmt: skip
