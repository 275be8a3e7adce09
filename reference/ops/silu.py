"""Sigmoid-weighted linear unit."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.settle import settle
from gnomon.reference.ops.sigmoid import sigmoid

F32 = NDArray[np.float32]


def silu(x: F32) -> F32:
    """silu(x) = settle(x * sigmoid(x))

    Shapes:   any
    Formats:  f32 in and out
    Source:   Elfwing et al. 2017, arXiv 1702.03118; contract, section 4
    """
    return settle(x * sigmoid(x))
