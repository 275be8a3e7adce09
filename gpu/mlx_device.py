"""MLX as a device: the array operations that the engine is made of, compiled graphs, and the sums that it avoids."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from gnomon.gpu.mlx_arms import from_bf16, to_bf16
from gnomon.gpu.mlx_math import ONE
from gnomon.reference.device import Device, Operation

Expression = Callable[..., mx.array]


def on_arrays(f: Expression) -> Operation:
    """f on the default device, NumPy arrays in and out."""

    def operation(*arrays: NDArray[Any]) -> NDArray[Any]:
        return np.array(f(*(mx.array(np.ascontiguousarray(a)) for a in arrays)))

    return operation


def mul_add(a: mx.array, b: mx.array, c: mx.array) -> mx.array:
    return a * b + c


def cross(a: mx.array, b: mx.array, c: mx.array, d: mx.array) -> mx.array:
    return a * b - c * d


def kept_order(a: mx.array, b: mx.array) -> mx.array:
    return (a + b) - b


def inverse_sqrt(x: mx.array) -> mx.array:
    return ONE / mx.sqrt(x)


def mlx_devices() -> tuple[Device, ...]:
    """Two ways: one kernel an operation, as the engine works, and graphs fused by mx.compile, which it does not use.

    Weights are widened on the host, so the widening of f16 is the library's.
    """
    operations: dict[str, Expression] = {
        "add": mx.add,
        "mul": mx.multiply,
        "div": mx.divide,
        "mul_add": mul_add,
        "cross": cross,
        "kept_order": kept_order,
        "sqrt": mx.sqrt,
        "inverse_sqrt": inverse_sqrt,
        "maximum": mx.maximum,
        "rint": mx.round,
        "to_int": lambda x: x.astype(mx.int32),
        "from_int": lambda i: i.astype(mx.float32),
        "from_bf16": from_bf16,
        "to_bf16": to_bf16,
    }
    library: dict[str, Expression] = {
        "rsqrt": mx.rsqrt,
        "exp": mx.exp,
        "minimum": mx.minimum,
        "from_f16": lambda u: u.view(mx.float16).astype(mx.float32),
        "sum": mx.sum,
        "dot": mx.inner,
        "matmul": lambda x, w: x @ w.T,
    }
    return (
        Device(
            "arrays",
            {name: on_arrays(f) for name, f in operations.items()},
            {name: on_arrays(f) for name, f in library.items()},
        ),
        Device("compiled graph", {}, compiled()),
    )


def compiled() -> dict[str, Operation]:
    """The expressions of several operations in one graph: the CPU build runs its C++ compiler for it, once."""
    arity = {"mul_add": 3, "cross": 4, "kept_order": 2, "inverse_sqrt": 1}

    def all_of_them(a: mx.array, b: mx.array, c: mx.array, d: mx.array) -> tuple[mx.array, ...]:
        return mul_add(a, b, c), cross(a, b, c, d), kept_order(a, b), inverse_sqrt(a)

    graph = mx.compile(all_of_them)

    def pick(index: int, inputs: int) -> Expression:
        def expression(*arrays: mx.array) -> mx.array:
            return graph(*arrays, *[arrays[0]] * (4 - inputs))[index]

        return expression

    return {name: on_arrays(pick(i, inputs)) for i, (name, inputs) in enumerate(arity.items())}
