"""Root mean square normalisation."""

import numpy as np
from numpy.typing import NDArray

from gnomon.reference.ops.chunked import chunked_sum
from gnomon.reference.ops.settle import settle

F32 = NDArray[np.float32]


def rms_norm(x: F32, w: F32, eps: float) -> F32:
    """y = x / sqrt(mean(x * x) + eps) * w

    Shapes:   x [..., n], w [n] -> y [..., n]
    Formats:  f32 in and out
    Order:    m = chunked_sum(x*x) / n;  s = 1 / sqrt(m + eps);  settle(settle(x * s) * w)
    Source:   Zhang and Sennrich 2019, arXiv 1910.07467; contract, section 5
    """
    n = np.float32(x.shape[-1])
    m = chunked_sum(np.moveaxis(x * x, -1, 0)) / n  # [...]
    s = np.float32(1.0) / np.sqrt(m + np.float32(eps))  # [...]
    return settle(settle(x * s[..., None]) * w)
