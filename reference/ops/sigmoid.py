"""Logistic function."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.exp_neg import exp_neg
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def sigmoid(x: F32) -> F32:
    """sigmoid(x) = 1 / (1 + e^-x)

    Shapes:   any
    Formats:  f32 in and out
    Order:    e = exp_neg(-|x|);  d = 1 + e;  settle(x >= 0 ? 1 / d : e / d)
    Source:   contract, section 4
    """
    e = exp_neg(-np.abs(x))
    d = np.float32(1.0) + e
    return settle(np.where(x >= 0, np.float32(1.0), e) / d)
