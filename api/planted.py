"""Faults planted into a copy of an engine, from outside: production code has no hook for them."""

from typing import Any

import numpy as np

from gnomon.reference.engine import Engine
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen


def sum_from_the_end(engine: Engine[Any], at: str) -> Engine[Any]:
    """`engine`, changed so that the matrix product named `at` adds its terms from the last to the first.

    Real kernels do this whenever another tiling, thread count or library splits a sum elsewhere.
    """
    ops, linear = engine.ops, engine.ops.linear
    w = widen(engine.model.weights[f"{at}.weight"])[:, ::-1]  # [N, K]
    data = np.ascontiguousarray(w).view(np.uint8)
    backwards = ops.pack(Weight(f"{at}.weight", "F32", w.shape, data, "linear"))

    def reordered(name: str, x: Any, handle: Any, b: Any = None) -> Any:
        if name != at:
            return linear(name, x, handle, b)
        return linear(name, ops.array(np.ascontiguousarray(ops.numpy(x)[:, ::-1])), backwards, b)

    setattr(ops, "linear", reordered)  # noqa: B010 - on this one op table only
    engine.name += ", one sum reordered"
    return engine
