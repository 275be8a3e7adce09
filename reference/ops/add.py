"""Sum of two tensors: the residual stream."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def add(x: F32, y: F32) -> F32:
    """add(x, y) = settle(x + y)

    Shapes:   x and y alike, any
    Formats:  f32 in and out
    Source:   contract, section 5
    """
    return settle(x + y)
