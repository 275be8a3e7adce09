"""Faults planted into a copy of an engine, from outside: production code has no hook for them."""

from typing import Any

import numpy as np

from gnomon.engines import engine
from gnomon.reference.engine import Engine
from gnomon.reference.model import Model
from gnomon.reference.weights import Weight
from gnomon.reference.widen import widen


def sum_from_the_end(shadow: Engine[Any], at: str) -> Engine[Any]:
    """`shadow`, changed so that the matrix product named `at` adds its terms from the last to the first.

    Real kernels do this whenever another tiling, thread count or library splits a sum elsewhere.
    """
    ops, linear = shadow.ops, shadow.ops.linear
    w = widen(shadow.model.weights[f"{at}.weight"])[:, ::-1]  # [N, K]
    data = np.ascontiguousarray(w).view(np.uint8)
    backwards = ops.pack(Weight(f"{at}.weight", "F32", w.shape, data, "linear"))

    def reordered(name: str, x: Any, handle: Any, b: Any = None) -> Any:
        if name != at:
            return linear(name, x, handle, b)
        return linear(name, ops.array(np.ascontiguousarray(ops.numpy(x)[:, ::-1])), backwards, b)

    setattr(ops, "linear", reordered)  # noqa: B010 - on this one op table only
    return shadow


def reordered(model: Model) -> Engine[Any]:
    """A factory for `--engine gnomon.planted:reordered`: the best shadow, one sum in the middle layer reordered."""
    broken = sum_from_the_end(engine("shadow", model), middle_sum(model))
    broken.name = "gnomon.planted:reordered"
    return broken


def middle_sum(model: Model) -> str:
    """The matrix product that `reordered` breaks."""
    return f"blocks.{model.config.layers // 2}.mlp.gate"
