"""NumPy as a device: the expressions that the ops of the reference are made of, and the sums that they avoid."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.device import Device, Operation
from gnomon.reference.ops.bf16 import from_bf16, to_bf16

F32 = NDArray[np.float32]
ONE = np.float32(1.0)


def numpy_devices() -> tuple[Device, ...]:
    """NumPy has one way to compute. BLAS answers for matmul and dot."""
    operations: dict[str, Operation] = {
        "add": np.add,
        "mul": np.multiply,
        "div": np.divide,
        "mul_add": lambda a, b, c: a * b + c,
        "cross": lambda a, b, c, d: a * b - c * d,
        "kept_order": lambda a, b: (a + b) - b,
        "sqrt": np.sqrt,
        "inverse_sqrt": lambda x: ONE / np.sqrt(x),
        "maximum": np.maximum,
        "minimum": np.minimum,
        "rint": np.rint,
        "to_int": lambda x: x.astype(np.int32),
        "from_int": lambda i: i.astype(np.float32),
        "from_f16": lambda u: u.view(np.float16).astype(np.float32),
        "from_bf16": from_bf16,
        "to_bf16": to_bf16,
    }
    library: dict[str, Operation] = {"exp": np.exp, "sum": np.sum, "dot": np.dot, "matmul": lambda x, w: x @ w.T}
    return (Device("arrays", operations, library),)
