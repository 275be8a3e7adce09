"""Settling: between ops no value is subnormal and no zero is negative."""

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]

FLOOR = np.float32(2.0**-50)


def settle(x: F32) -> F32:
    """settle(x) = +0.0 where |x| < 2^-50, else x

    Shapes:   any
    Formats:  f32 in and out; NaN passes
    Why:      GPUs flush subnormals in ways that no flag unifies; after this there are none to flush
    Source:   contract, section 2
    """
    return np.where(np.abs(x) < FLOOR, np.float32(0.0), x)
