"""What a device computes with, offered by an engine so that it can be probed: single operations on NumPy arrays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

Operation = Callable[..., NDArray[Any]]


@dataclass(frozen=True)
class Device:
    """One way in which an engine computes.

    way:        "arrays", "compiled graph", "kernels": an engine may have several
    operations: what the engine's own ops are made of, each written as they write it
    library:    what is there besides, and is only reported: no byte of the engine comes from it

    Operations by name, f32 [n] to f32 [n] unless said otherwise:

        add, mul, div          a + b, a * b, a / b
        mul_add                a * b + c
        cross                  a * b - c * d
        kept_order             (a + b) - b
        sqrt, inverse_sqrt     sqrt(x), 1 / sqrt(x)
        rsqrt, exp             where the library has them
        maximum, minimum       of a and b
        rint                   half to even
        to_int, from_int       f32 of integral value -> int32, int32 -> f32
        from_f16, from_bf16    uint16 bits -> f32
        to_bf16                f32 -> uint16 bits, half to even
        sum, dot               [K] -> [], [K] and [K] -> []
        matmul                 x [rows, K], w [N, K] -> [rows, N]
    """

    way: str
    operations: Mapping[str, Operation]
    library: Mapping[str, Operation]

    def find(self, name: str) -> Operation | None:
        """The operation, wherever it stands; None where the device does not offer it."""
        return self.operations.get(name) or self.library.get(name)

    def but(self, **planted: Operation) -> "Device":
        """The same with other operations in the place of some of its own."""
        return replace(self, operations={**self.operations, **planted})
