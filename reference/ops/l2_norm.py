"""Unit length, as the delta rule wants its queries and keys."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]

EPS = np.float32(1e-6)


def l2_norm(x: F32) -> F32:
    """y = x / sqrt(sum(x * x) + 1e-6)

    Shapes:   x [..., n] -> y [..., n]
    Formats:  f32 in and out
    Order:    s = 1 / sqrt(chunked_sum(x*x) + 1e-6);  settle(x * s)
    Source:   contract, section 5
    """
    s = np.float32(1.0) / np.sqrt(chunked_sum(np.moveaxis(x * x, -1, 0)) + EPS)  # [...]
    return settle(x * s[..., None])
