"""Smooth maximum with zero."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.log1p01 import log1p01
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def softplus(x: F32) -> F32:
    """softplus(x) = log(1 + e^x) = settle(max(x, 0) + log1p01(exp_neg(-|x|)))

    Shapes:   any
    Formats:  f32 in and out
    Source:   contract, section 4
    """
    return settle(np.maximum(x, np.float32(0.0)) + log1p01(exp_neg(-np.abs(x))))
