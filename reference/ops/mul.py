"""Product of two tensors, element by element."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def mul(x: F32, y: F32) -> F32:
    """mul(x, y) = settle(x * y)

    Shapes:   x and y alike, any
    Formats:  f32 in and out
    Source:   contract, section 5
    """
    return settle(x * y)
